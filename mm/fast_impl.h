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

#include "sheaf_impl.h"

/* cache.c. Interrupts off; restores flags. cc is the CPU's. */
NOINLINE void *cache_alloc_slow(struct kmem_cache *c, size_t size, unsigned long flags,
                                struct cache_cpu *cc);
NOINLINE bool cache_free_slow(struct kmem_cache *c, void *obj, unsigned long flags,
                              struct cache_cpu *cc);
/* The same calls, whole, for every mode but 0. */
NOINLINE void *cache_alloc_mode(struct kmem_cache *c, size_t size);
NOINLINE bool cache_free_mode(struct kmem_cache *c, void *obj);
/* What bulk.c and prefill.c do to each object, in any mode: CACHED and this CPU's → its user's; and back, up to
 * the push (false: refused). */
void cache_hand_out(struct kmem_cache *c, void *obj);
NODISCARD bool cache_take_back(struct kmem_cache *c, void *obj);
/* Stops the machine. It returns in name only, so that calling it costs the fast path no frame. */
NOINLINE COLD void *object_corrupt(const struct kmem_cache *c, void *obj);
/* Says why an object could not be claimed; false. */
NOINLINE COLD bool cache_free_refused(struct kmem_cache *c, void *obj);

/* The array that count and limit speak of. */
static ALWAYS_INLINE void **front_array(struct cache_cpu *cc, bool sheaf)
{
    return sheaf ? cc->main->object : cc->object;
}

/* objstate and sheaf are the cache's: constants where the caller knows them. */
static ALWAYS_INLINE void *cache_pop(struct kmem_cache *c, size_t size, enum knob_value objstate,
                                     bool sheaf)
{
    unsigned long flags = plat_irq_save();
    struct cache_cpu *cc = cache_cpu_mine(c);
    u64 n = cc->count;
    void *obj;

    if (unlikely(n-- == 0))
        return cache_alloc_slow(c, size, flags, cc);
    obj = front_array(cc, sheaf)[n];
    cache_cpu_count(cc, n);
    if (unlikely(!object_allocate(c, obj, objstate)))
        return object_corrupt(c, obj);
    plat_counter_add(&cc->ctr[CACHE_alloc_fast], 1);
    plat_irq_restore(flags);
    object_show(obj, size);
    return obj;
}

/* obj is claimed and this CPU's alone. */
static ALWAYS_INLINE bool cache_push(struct kmem_cache *c, void *obj, bool sheaf)
{
    struct cache_cpu *cc;
    unsigned long flags;
    u64 n;

    object_hide(c, obj);
    flags = plat_irq_save();
    cc = cache_cpu_mine(c);
    n = cc->count;
    if (unlikely(n >= cc->limit))
        return cache_free_slow(c, obj, flags, cc);
    front_array(cc, sheaf)[n] = obj;
    plat_counter_add(&cc->count, 1);
    plat_counter_add(&cc->ctr[CACHE_free_fast], 1);
    plat_irq_restore(flags);
    return true;
}

/* c has no mode. */
static ALWAYS_INLINE void *cache_alloc_plain(struct kmem_cache *c, size_t size)
{
    return cache_pop(c, size, V_objstate_header, false);
}

static ALWAYS_INLINE void *cache_alloc(struct kmem_cache *c, size_t size)
{
    return unlikely(c->mode) ? cache_alloc_mode(c, size) : cache_alloc_plain(c, size);
}

/* obj lies in a slab of c, whose mode is 0. */
static ALWAYS_INLINE bool cache_free_plain(struct kmem_cache *c, void *obj)
{
    if (unlikely(!object_claim(c, obj, V_objstate_header)))
        return cache_free_refused(c, obj);
    return cache_push(c, obj, false);
}

/* The same two where the mode is MODE_SIDE and nothing else. */
static ALWAYS_INLINE void *cache_alloc_side(struct kmem_cache *c, size_t size)
{
    return cache_pop(c, size, V_objstate_side, false);
}

static ALWAYS_INLINE bool cache_free_side(struct kmem_cache *c, void *obj)
{
    if (unlikely(!object_claim(c, obj, V_objstate_side)))
        return cache_free_refused(c, obj);
    return cache_push(c, obj, false);
}

/* obj lies in a slab of c. */
static ALWAYS_INLINE bool cache_free(struct kmem_cache *c, void *obj)
{
    return unlikely(c->mode) ? cache_free_mode(c, obj) : cache_free_plain(c, obj);
}

#endif
