/* bulk.c: many objects in one call, and back.
 *
 * An allocation is all or nothing. Objects are gathered first, CACHED, from the CPU's array and then
 * straight from the slabs, and handed out only when all are there; so a shortage half-way puts them
 * back and nobody has seen any. A free takes each object for itself: a bad one is refused, counted
 * and left out, as the single call would, and the others go on. What fits goes into the CPU's array,
 * the rest to the slabs under one hold of the lock.
 *
 * Both work in chunks, so that interrupts are off, and the cache lock held, for a bounded time
 * however long the list is. An object is counted like one of a single call: fast if the array had
 * it or took it, slow otherwise; a refused allocation counts once, whatever its length.
 *
 * Protection: the CPU's array is touched with interrupts off. Between chunks an interrupt, or on
 * metal another thread, may use it.
 *
 * Locking: none of its own; slab_take and slab_put take the cache lock. Contexts: thread,
 * interrupt. */
#include "extras_impl.h"

#define BULK_CHUNK 32u

/* -- allocation -- */

/* Up to want CACHED objects: what the array holds, hottest first, or else what a slab has. */
static unsigned gather(struct kmem_cache *c, void **out, unsigned want, u64 *fast)
{
    unsigned long flags = plat_irq_save();
    struct cache_cpu *cc = cache_cpu_mine(c);
    unsigned got = (unsigned)MIN(cc->count, (u64)want);

    for (unsigned i = 0; i < got; i++)
        out[i] = front_array(cc, c->shape)[cc->count - 1 - i];
    cache_cpu_count(cc, cc->count - got);
    *fast += got;
    if (!got)
        got = slab_take(c, out, want);
    plat_irq_restore(flags);
    FAULT_MIGRATE();
    return got;
}

static void scatter(struct kmem_cache *c, void *const *obj, size_t n)
{
    for (size_t i = 0; i < n; i += BULK_CHUNK) {
        unsigned long flags = plat_irq_save();

        slab_put(c, obj + i, (unsigned)MIN(n - i, (size_t)BULK_CHUNK));
        plat_irq_restore(flags);
        FAULT_MIGRATE();
    }
}

static void count(struct kmem_cache *c, enum cache_counter which, u64 n)
{
    plat_counter_add(&cache_cpu_mine(c)->ctr[which], n);
}

bool kmem_cache_alloc_bulk(struct kmem_cache *c, size_t n, void **out)
{
    struct shortage s = {0};
    size_t got = 0;
    u64 fast = 0;

    if (GUARD_STEP(97) && unlikely(cache_is_dead(c)))
        return false;
    while (got < n) {
        unsigned some = gather(c, out + got, (unsigned)MIN(n - got, (size_t)BULK_CHUNK), &fast);

        if (unlikely(!some)) {
            if (GUARD_STEP(26) && heap_drain_others(c->heap, &s))
                continue;
            scatter(c, out, got);
            count(c, CACHE_alloc_fail, 1);
            return false;
        }
        got += some;
    }
    for (size_t i = 0; i < n; i++)
        cache_hand_out(c, out[i]);
    count(c, CACHE_alloc_fast, fast);
    count(c, CACHE_alloc_slow, n - fast);
    return true;
}

/* -- free -- */

struct pending { /* claimed objects of one cache, this call's alone */
    struct kmem_cache *cache;
    unsigned count;
    void *object[BULK_CHUNK];
};

static void pending_flush(struct pending *p)
{
    unsigned long flags;
    struct cache_cpu *cc;
    unsigned keep, rest;

    if (!p->count)
        return;
    flags = plat_irq_save();
    cc = cache_cpu_mine(p->cache);
    keep = (unsigned)MIN(cc->limit - cc->count, (u64)p->count);
    rest = p->count - keep;
    if (rest)
        slab_put(p->cache, p->object, rest);
    if (keep)
        memcpy(front_array(cc, p->cache->shape) + cc->count, p->object + rest,
               keep * sizeof(p->object[0]));
    cache_cpu_count(cc, cc->count + keep);
    plat_counter_add(&cc->ctr[CACHE_free_fast], keep);
    plat_counter_add(&cc->ctr[CACHE_free_slow], rest);
    plat_irq_restore(flags);
    FAULT_MIGRATE();
    p->count = 0;
}

/* obj lies in a slab of c. False: refused. A chunk that is full leaves at once, not when the next object
 * comes: that would be after a look at the next one's slab, which may go with the chunk if what comes
 * is an object of this chunk again. */
static bool pending_add(struct pending *p, struct kmem_cache *c, void *obj)
{
    if (p->cache != c) {
        pending_flush(p);
        p->cache = c;
    }
    if (unlikely(!cache_take_back(c, obj)))
        return false;
    p->object[p->count++] = obj;
    if (p->count == BULK_CHUNK)
        pending_flush(p);
    return true;
}

/* obj lies in a slab of c; else it was refused. */
static bool owned(struct kmem_cache *c, void *obj)
{
    struct heap *h = c->heap;
    struct frame *f = frame_of(&h->frames, obj);
    u64 tag;

    if (unlikely(!f))
        return badfree(h, BADFREE_foreign, obj, 0, c);
    tag = pages_owner(h, f);
    if (unlikely(TAG_KIND(tag) != FRAME_SLAB))
        return badfree(h, badfree_kind_of(h, obj), obj, tag, c);
    if (unlikely(TAG_CACHE(tag) != c))
        return badfree(h, BADFREE_wrong_cache, obj, tag, c);
    return true;
}

size_t kmem_cache_free_bulk(struct kmem_cache *c, size_t n, void *const *obj)
{
    struct pending p = {.cache = c};
    size_t freed = 0;

    for (size_t i = 0; i < n; i++)
        freed += !obj[i] || (owned(c, obj[i]) && pending_add(&p, c, obj[i]));
    pending_flush(&p);
    return freed;
}

size_t heap_kfree_bulk(struct heap *h, size_t n, void *const *p)
{
    struct pending pending = {.cache = NULL};
    size_t freed = 0;

    for (size_t i = 0; i < n; i++) {
        struct frame *f = frame_of(&h->frames, p[i]);
        u64 tag = f ? pages_owner(h, f) : FRAME_NONE;

        freed +=
            TAG_IS_USERS(tag) ? pending_add(&pending, TAG_CACHE(tag), p[i]) : heap_kfree(h, p[i]);
    }
    pending_flush(&pending);
    return freed;
}
