/* ring.h: a bounded ring of pointers from one CPU to one other, by which workloads hand objects
 * over. Bounded, because a queue without an end would measure how far ahead the faster side got.
 *
 * The indices only grow; each is written by one side and lies on a line of its own. A closed ring
 * gets nothing more: whoever saw it closed and then finds it empty is done with it.
 *
 * Locking: none; head and tail are released by their writer and acquired by the other side.
 * Contexts: thread. */
#ifndef KERNEL_BENCH_RING_H
#define KERNEL_BENCH_RING_H

#include "../../base/plat.h"

#define RING_SLOTS 256u

struct ring {
    u32 head ALIGNED(CACHE_LINE); /* atomic: written by the giver */
    bool closed;                  /* atomic: likewise */
    u32 tail ALIGNED(CACHE_LINE); /* atomic: written by the taker */
    void *slot[RING_SLOTS] ALIGNED(CACHE_LINE);
};

/* By the giver, before the round starts; the ring is empty. */
static inline void ring_open(struct ring *r)
{
    __atomic_store_n(&r->closed, false, __ATOMIC_RELAXED);
}

static inline void ring_close(struct ring *r)
{
    __atomic_store_n(&r->closed, true, __ATOMIC_RELEASE);
}

static inline bool ring_closed(const struct ring *r)
{
    return __atomic_load_n(&r->closed, __ATOMIC_ACQUIRE);
}

/* False: the ring is full. */
static ALWAYS_INLINE bool ring_put(struct ring *r, void *p)
{
    u32 head = __atomic_load_n(&r->head, __ATOMIC_RELAXED);

    if (head - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) == RING_SLOTS)
        return false;
    r->slot[head % RING_SLOTS] = p;
    __atomic_store_n(&r->head, head + 1, __ATOMIC_RELEASE);
    return true;
}

/* NULL: it is empty. */
static ALWAYS_INLINE void *ring_take(struct ring *r)
{
    u32 tail = __atomic_load_n(&r->tail, __ATOMIC_RELAXED);
    void *p;

    if (tail == __atomic_load_n(&r->head, __ATOMIC_ACQUIRE))
        return NULL;
    p = r->slot[tail % RING_SLOTS];
    __atomic_store_n(&r->tail, tail + 1, __ATOMIC_RELEASE);
    return p;
}

#endif
