/* front_bounded.c: the bounded front end (front=bounded): one array of objects for each CPU and
 * cache, limited in objects and in bytes, exchanged with the slabs in batches of half the limit.
 * The fast paths, a pop and a push, are in cache.c.
 *
 * A refill takes one batch into the empty array; a spill gives the coldest batch back and keeps
 * the hottest. Half, because a batch as large as the limit leaves the array empty or full after
 * each exchange, and the next call on the edge exchanges again.
 *
 * Protection: the owning CPU runs with interrupts off for the few instructions of a pop or push,
 * and for the exchange; an interrupt therefore always finds a whole array. Nobody else touches it:
 * a drain of all CPUs runs on each of them. What it does not do: sharing between CPUs, resizing,
 * caches with constructors (their arrays have no room).
 *
 * Locking: none; slab_take and slab_put take the cache lock. Contexts: thread, interrupt;
 * interrupts off. */
#include "objstate_impl.h"

void *bounded_refill(struct kmem_cache *c, struct cache_cpu *cc)
{
    unsigned got = slab_take(c, cc->object, cc->batch, false);

    if (!got)
        return NULL;
    plat_counter_add(&cc->ctr[CACHE_refill], 1);
    plat_counter_add(&cc->ctr[CACHE_refill_objects], got);
    cache_cpu_count(cc, got - 1);
    return cc->object[got - 1];
}

void bounded_spill(struct kmem_cache *c, struct cache_cpu *cc)
{
    u32 batch = cc->batch;

    slab_put(c, cc->object, batch);
    cache_cpu_count(cc, cc->count - batch);
    memmove(cc->object, cc->object + batch, cc->count * sizeof(cc->object[0]));
    plat_counter_add(&cc->ctr[CACHE_flush], 1);
    plat_counter_add(&cc->ctr[CACHE_flush_objects], batch);
}

unsigned bounded_drain(struct kmem_cache *c, struct cache_cpu *cc)
{
    u32 count = cc->count;

    if (!count)
        return 0;
    slab_put(c, cc->object, count);
    cache_cpu_count(cc, 0);
    plat_counter_add(&cc->ctr[CACHE_drain_objects], count);
    return count;
}

void bounded_size(const struct heap *h, struct kmem_cache *c)
{
    u32 limit = MIN(h->bounded_objects, h->bounded_bytes / c->size);

    c->limit = MAX(limit, 1u);
    c->batch = MAX(c->limit / 2, 1u);
}

bool bounded_validate(struct kmem_cache *c, struct cache_cpu *cc, struct heap_fault *f)
{
    if (cc->count > cc->limit)
        return heap_fault_set(f, "bounded: more objects than room", cc, c);
    for (u32 i = 0; i < cc->count; i++) {
        void *obj = cc->object[i];
        struct frame *s = frame_of(&c->heap->frames, obj);

        if (!s || frame_tag_load(s) != TAG_SLAB(c))
            return heap_fault_set(f, "bounded: holds an address that is not this cache's", obj, c);
        if (object_index(c, object_slab(c, obj), obj) >= c->capacity)
            return heap_fault_set(f, "bounded: holds an address that is no object", obj, c);
        if (c->objstate != V_objstate_off && object_found(c, obj) != STATE_WORD(OBJECT_CACHED))
            return heap_fault_set(f, "bounded: holds an object that is not CACHED", obj, c);
    }
    return true;
}
