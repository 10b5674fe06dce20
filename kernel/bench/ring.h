/* ring.h: a bounded ring of pointers from one CPU to one other, by which workloads hand objects
 * over. Bounded, because a queue without an end would measure how far ahead the faster side got.
 *
 * What is measured is the allocator, so the ring's own lines change hands once in RING_CHUNK
 * objects: the giver publishes, and the taker releases, whole chunks, and each remembers what it
 * last saw of the other. The last, broken chunk is published by closing; an empty ring is released
 * at once, so neither side can wait for what the other keeps back. A closed ring gets nothing more:
 * whoever saw it closed and then finds it empty is done with it.
 *
 * Locking: none; published and released are stored with release by one side and acquired by the
 * other. Contexts: thread. */
#ifndef KERNEL_BENCH_RING_H
#define KERNEL_BENCH_RING_H

#include "../../base/plat.h"

#define RING_SLOTS 256u
#define RING_CHUNK 32u

struct ring {
    /* the giver's own */
    u32 head ALIGNED(CACHE_LINE); /* puts so far */
    u32 seen_released;
    /* the taker's own */
    u32 tail ALIGNED(CACHE_LINE); /* takes so far */
    u32 seen_published;

    u32 published ALIGNED(CACHE_LINE); /* atomic: written by the giver */
    bool closed;                       /* atomic: likewise */
    u32 released ALIGNED(CACHE_LINE);  /* atomic: written by the taker */
    void *slot[RING_SLOTS] ALIGNED(CACHE_LINE);
};

/* By the giver, before the round starts; the ring is empty. */
static inline void ring_open(struct ring *r)
{
    __atomic_store_n(&r->closed, false, __ATOMIC_RELAXED);
}

static inline void ring_close(struct ring *r)
{
    __atomic_store_n(&r->published, r->head, __ATOMIC_RELEASE);
    __atomic_store_n(&r->closed, true, __ATOMIC_RELEASE);
}

static inline bool ring_closed(const struct ring *r)
{
    return __atomic_load_n(&r->closed, __ATOMIC_ACQUIRE);
}

/* False: the ring is full. */
static ALWAYS_INLINE bool ring_put(struct ring *r, void *p)
{
    if (r->head - r->seen_released == RING_SLOTS) {
        r->seen_released = __atomic_load_n(&r->released, __ATOMIC_ACQUIRE);
        if (r->head - r->seen_released == RING_SLOTS)
            return false;
    }
    r->slot[r->head % RING_SLOTS] = p;
    r->head++;
    if (r->head % RING_CHUNK == 0)
        __atomic_store_n(&r->published, r->head, __ATOMIC_RELEASE);
    return true;
}

/* NULL: it is empty. */
static ALWAYS_INLINE void *ring_take(struct ring *r)
{
    void *p;

    if (r->tail == r->seen_published) {
        if (__atomic_load_n(&r->released, __ATOMIC_RELAXED) != r->tail)
            __atomic_store_n(&r->released, r->tail, __ATOMIC_RELEASE);
        r->seen_published = __atomic_load_n(&r->published, __ATOMIC_ACQUIRE);
        if (r->tail == r->seen_published)
            return NULL;
    }
    p = r->slot[r->tail % RING_SLOTS];
    r->tail++;
    if (r->tail % RING_CHUNK == 0)
        __atomic_store_n(&r->released, r->tail, __ATOMIC_RELEASE);
    return p;
}

#endif
