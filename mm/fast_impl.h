/* fast_impl.h: the two paths that everything else exists to keep short: an object from the CPU's
 * array, and back.
 *
 * Whatever is rare is a tail call, so that the common path saves no register but its frame: the
 * slow paths restore interrupts themselves, and corruption goes to a function that does not
 * return. Measured in instructions (kernel flags, objstate=header, stats.slab=percpu): see
 * docs/COSTS.md.
 *
 * Protection: interrupts off from reading the array's count to writing it back; the claim of a
 * free (objstate_impl.h) comes before, with interrupts as they are, as it is atomic by itself.
 *
 * Contexts: thread, interrupt. */
#ifndef MM_FAST_IMPL_H
#define MM_FAST_IMPL_H

#include "objstate_impl.h"

/* cache.c. Interrupts off; restores flags. */
NOINLINE void *cache_alloc_slow(struct kmem_cache *c, size_t size, unsigned long flags);
NOINLINE bool cache_free_slow(struct kmem_cache *c, void *obj, unsigned long flags);
/* What the modes add to an allocation; returns obj. */
NOINLINE void *cache_alloc_extra(struct kmem_cache *c, void *obj);
/* A whole free under modes that add to it, the claim included. */
NOINLINE bool cache_free_extra(struct kmem_cache *c, void *obj);
/* Says why an object could not be claimed; false. */
NOINLINE COLD bool cache_free_refused(struct kmem_cache *c, void *obj);

/* The same two paths for the layouts that need more registers: bodies of their own. */
NOINLINE void *cache_alloc_other(struct kmem_cache *c, size_t size);
NOINLINE bool cache_free_other(struct kmem_cache *c, void *obj);

static ALWAYS_INLINE void *cache_alloc_as(struct kmem_cache *c, size_t size,
                                          enum knob_value objstate)
{
    unsigned long flags = plat_irq_save();
    struct cache_cpu *cc = cache_cpu(c, plat_cpu_id());
    u32 n = cc->count, mode = c->mode;
    void *obj;

    if (unlikely(!n))
        return cache_alloc_slow(c, size, flags);
    obj = cc->object[n - 1];
    cache_cpu_count(cc, n - 1);
    object_allocate(c, obj, objstate);
    plat_counter_add(&cc->ctr[CACHE_alloc_fast], 1);
    if (likely(mode & MODE_STAT_PERCPU))
        plat_counter_add(&cc->ctr[CACHE_stat_alloc], 1);
    plat_irq_restore(flags);
    object_show(obj, size);
    if (unlikely(mode & MODE_SLOW_ALLOC))
        return cache_alloc_extra(c, obj);
    return obj;
}

/* obj is claimed and this CPU's alone. */
static ALWAYS_INLINE bool cache_free_claimed(struct kmem_cache *c, void *obj)
{
    struct cache_cpu *cc;
    unsigned long flags;
    u32 n;

    object_hide(c, obj);
    flags = plat_irq_save();
    cc = cache_cpu(c, plat_cpu_id());
    n = cc->count;
    if (unlikely(n >= cc->limit))
        return cache_free_slow(c, obj, flags);
    cc->object[n] = obj;
    cache_cpu_count(cc, n + 1);
    plat_counter_add(&cc->ctr[CACHE_free_fast], 1);
    if (likely(c->mode & MODE_STAT_PERCPU))
        plat_counter_add(&cc->ctr[CACHE_stat_free], 1);
    plat_irq_restore(flags);
    return true;
}

static ALWAYS_INLINE bool cache_free_as(struct kmem_cache *c, void *obj, enum knob_value objstate)
{
    if (unlikely(c->mode & ~(u32)MODE_STAT_PERCPU))
        return cache_free_extra(c, obj);
    if (unlikely(!object_claim(c, obj, objstate)))
        return cache_free_refused(c, obj);
    return cache_free_claimed(c, obj);
}

static ALWAYS_INLINE void *cache_alloc(struct kmem_cache *c, size_t size)
{
    if (unlikely(c->objstate != V_objstate_header))
        return cache_alloc_other(c, size);
    return cache_alloc_as(c, size, V_objstate_header);
}

/* obj lies in a slab of c. */
static ALWAYS_INLINE bool cache_free(struct kmem_cache *c, void *obj)
{
    if (unlikely(c->objstate != V_objstate_header))
        return cache_free_other(c, obj);
    return cache_free_as(c, obj, V_objstate_header);
}

#endif
