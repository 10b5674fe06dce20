/* front_bounded.c: the bounded front end (front=bounded): one array of objects for each CPU and
 * cache, limited in objects and in bytes, exchanged with the slabs in batches of half the limit.
 * The fast paths, a pop and a push, are in fast_impl.h.
 *
 * A refill takes one batch into the empty array; a spill gives the coldest batch back and keeps
 * the hottest. Half, because a batch as large as the limit leaves the array empty or full after
 * each exchange, and the next call on the edge exchanges again.
 *
 * Protection: the owning CPU runs with interrupts off for the few instructions of a pop or push,
 * and for the exchange; an interrupt therefore always finds a whole array. Nobody else touches it:
 * a drain of all CPUs runs on each of them. What it does not do: sharing between CPUs, resizing.
 *
 * Objects of a cache with a constructor lie in the array as they lie in the slab: as their user left
 * them. No fill touches them (extras_impl.h), and the destructor meets them when their slab goes. The
 * published bounded arrays serve no typed caches at all; that is typed=direct, under which this front end
 * is not chosen for one (cache.c).
 *
 * Locking: none; slab_take and slab_put take the cache lock. Contexts: thread, interrupt;
 * interrupts off. */
#include "fast_impl.h"

static ALWAYS_INLINE void *refill(struct kmem_cache *c, struct cache_cpu *cc)
{
    unsigned got;

    cache_cpu_filling(cc, true);
    got = slab_take(c, cc->object, cc->batch);
    if (likely(got)) {
        plat_counter_add(&cc->ctr[CACHE_refill], 1);
        plat_counter_add(&cc->ctr[CACHE_refill_objects], got);
        cache_cpu_count(cc, got - 1);
    }
    cache_cpu_filling(cc, false);
    return likely(got) ? cc->object[got - 1] : NULL;
}

static void *bounded_refill(struct kmem_cache *c, struct cache_cpu *cc, bool *own)
{
    *own = false;
    return refill(c, cc);
}

static void *bounded_alloc(struct kmem_cache *c, size_t size, unsigned long flags,
                           struct cache_cpu *cc)
{
    void *obj = refill(c, cc);

    if (unlikely(!obj))
        return cache_alloc_short(c, flags);
    object_set(c, obj, OBJECT_ALLOCATED); /* this CPU has just made it CACHED */
    plat_counter_add(&cc->ctr[CACHE_alloc_slow], 1);
    plat_irq_restore(flags);
    object_show(obj, size);
    return obj;
}

/* The coldest batch goes, the rest moves down, obj comes on top. */
static ALWAYS_INLINE void spill(struct kmem_cache *c, struct cache_cpu *cc, void *obj)
{
    u32 batch = cc->batch;
    u64 left;

    slab_put(c, cc->object, batch);
    left = cc->count - batch;
    memmove(cc->object, cc->object + batch, left * sizeof(cc->object[0]));
    cc->object[left] = obj;
    cache_cpu_count(cc, left + 1);
    plat_counter_add(&cc->ctr[CACHE_flush], 1);
    plat_counter_add(&cc->ctr[CACHE_flush_objects], batch);
}

static bool bounded_free(struct kmem_cache *c, void *obj, unsigned long flags, struct cache_cpu *cc)
{
    spill(c, cc, obj);
    plat_counter_add(&cc->ctr[CACHE_free_slow], 1);
    plat_irq_restore(flags);
    return true;
}

static bool bounded_put(struct kmem_cache *c, struct cache_cpu *cc, void *obj)
{
    if (cc->count >= cc->limit) {
        spill(c, cc, obj);
        return false;
    }
    cc->object[cc->count] = obj;
    cache_cpu_count(cc, cc->count + 1);
    return true;
}

static unsigned bounded_drain(struct kmem_cache *c, struct cache_cpu *cc)
{
    u32 count = cc->count;

    if (!count)
        return 0;
    slab_put(c, cc->object, count);
    cache_cpu_count(cc, 0);
    plat_counter_add(&cache_cpu_mine(c)->ctr[CACHE_drain_objects], count);
    return count;
}

/* -- init, validate, statistics -- */

static void bounded_size(const struct heap *h, struct kmem_cache *c)
{
    u32 limit = MIN(h->bounded_objects, h->bounded_bytes / c->size);

    if (c->asked)
        limit = c->asked;
    c->limit = MAX(limit, 1u);
    c->batch = MAX(c->limit / 2, 1u);
}

static u64 bounded_held(const struct kmem_cache *c)
{
    u64 sum = 0;

    for (unsigned i = 0; i < c->heap->cpus; i++)
        sum += __atomic_load_n(&cache_cpu(c, i)->count, __ATOMIC_RELAXED);
    return sum;
}

static bool bounded_validate(struct kmem_cache *c, struct heap_fault *f)
{
    for (unsigned cpu = 0; cpu < c->heap->cpus; cpu++) {
        struct cache_cpu *cc = cache_cpu(c, cpu);

        if (cc->count > cc->limit)
            return heap_fault_set(f, "bounded: more objects than room", cc, c);
        for (u32 i = 0; i < cc->count; i++)
            if (!front_object_validate(c, cc->object[i], f))
                return false;
    }
    return true;
}

const struct front_ops front_bounded = {
    .shape = SHAPE_array,
    .size = bounded_size,
    .refill = bounded_refill,
    .put = bounded_put,
    .alloc = bounded_alloc,
    .free = bounded_free,
    .drain = bounded_drain,
    .held = bounded_held,
    .validate = bounded_validate,
};
