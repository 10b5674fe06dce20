/* fast_impl.h: the two paths that everything else exists to keep short: an object from the CPU's
 * array, and back.
 *
 * Both are written once and made for each place of the states and each shape of the front end, as
 * constants (ways.c): what a boot has switched off is not asked for on the way. The CPU's array is in
 * its own part (front=bounded) or in its main sheaf or magazine (front=sheaf, magazine): one more
 * load, and the same pop and push. What the fronts do at an edge is behind alloc_slow and free_slow.
 *
 * Whatever is rare is a tail call, so that the common path saves no register but its frame: the
 * slow paths restore interrupts themselves, and corruption goes to a function that does not
 * return. Measured in instructions (kernel flags): see docs/COSTS.md.
 *
 * Protection: interrupts off from reading the array's count to writing it back; the claim of a
 * free (objstate_impl.h) comes before, with interrupts as they are, as it is atomic by itself.
 *
 * Contexts: thread, interrupt. */
#ifndef MM_FAST_IMPL_H
#define MM_FAST_IMPL_H

#include "sheaf_impl.h"

/* cache.c. Interrupts off; restores flags. cc is the CPU's; an allocation does not look at it. */
NOINLINE void *cache_alloc_direct(struct kmem_cache *c, size_t size, unsigned long flags,
                                  struct cache_cpu *cc);
NOINLINE bool cache_free_direct(struct kmem_cache *c, void *obj, unsigned long flags,
                                struct cache_cpu *cc);
/* Where an allocation found no memory: restores flags, asks other CPUs for theirs if it may, tries again,
 * straight from the slabs, and counts how it ended. An object is ALLOCATED then. */
NOINLINE COLD void *cache_alloc_short(struct kmem_cache *c, unsigned long flags);
/* Stops the machine. It returns in name only, so that calling it costs the fast path no frame. */
NOINLINE COLD void *object_corrupt(const struct kmem_cache *c, void *obj);
/* Says why an object could not be claimed; false. */
NOINLINE COLD bool cache_free_refused(struct kmem_cache *c, void *obj);

/* The array that count and limit speak of. */
static ALWAYS_INLINE void **front_array(struct cache_cpu *cc, enum front_shape shape)
{
    return shape == SHAPE_sheaf ? cc->main->object : cc->object;
}

/* objstate and shape are the cache's, or else shape is array or sheaf and the cache has no front end:
 * its limit of 0 looks empty to one and full to the other. */
static ALWAYS_INLINE void *cache_pop(struct kmem_cache *c, size_t size, enum knob_value objstate,
                                     enum front_shape shape)
{
    unsigned long flags = plat_irq_save();
    struct cache_cpu *cc;
    void *obj;
    u64 n;

    if (shape == SHAPE_none)
        return cache_alloc_direct(c, size, flags, NULL);
    cc = cache_cpu_mine(c);
    n = cc->count;
    if (unlikely(n-- == 0))
        return c->alloc_slow(c, size, flags, cc);
    obj = front_array(cc, shape)[n];
    cache_cpu_count(cc, n);
    if (unlikely(!object_allocate(c, obj, objstate)))
        return object_corrupt(c, obj);
    plat_counter_add(&cc->ctr[CACHE_alloc_fast], 1);
    plat_irq_restore(flags);
    object_show(obj, size);
    return obj;
}

/* obj is claimed and this CPU's alone. */
static ALWAYS_INLINE bool cache_push(struct kmem_cache *c, void *obj, enum front_shape shape)
{
    struct cache_cpu *cc;
    unsigned long flags;
    u64 n;

    object_hide(c, obj);
    flags = plat_irq_save();
    cc = cache_cpu_mine(c);
    if (shape == SHAPE_none)
        return cache_free_direct(c, obj, flags, cc);
    n = cc->count;
    if (unlikely(n >= cc->limit))
        return c->free_slow(c, obj, flags, cc);
    front_array(cc, shape)[n] = obj;
    plat_counter_add(&cc->count, 1);
    plat_counter_add(&cc->ctr[CACHE_free_fast], 1);
    plat_irq_restore(flags);
    return true;
}

#endif
