/* pcp_impl.h: a block from the CPU's page cache, and back, when nothing stands in the way. See
 * pcp.c for what the flag protects and who drains.
 *
 * Contexts: thread, interrupt. */
#ifndef MM_PCP_IMPL_H
#define MM_PCP_IMPL_H

#include "fault_impl.h"
#include "mm_impl.h"

static ALWAYS_INLINE struct pcp *pcp_mine(struct heap *h)
{
    return plat_cpu_part(h->pcp);
}

static ALWAYS_INLINE bool pcp_try_enter(struct pcp *p)
{
    return !FAULT(pcp_busy) && __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE) == 0;
}

static ALWAYS_INLINE void pcp_leave(struct pcp *p)
{
    __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
}

static ALWAYS_INLINE void pcp_count_set(struct pcp_stack *s, u32 count)
{
    __atomic_store_n(&s->count, count, __ATOMIC_RELAXED);
}

/* The hottest block, still tagged PARKED: the caller, whose it is now, says what it is. NULL if
 * there is none or a drain is about (nothing is counted then). */
static ALWAYS_INLINE struct frame *pcp_pop(struct heap *h, unsigned order)
{
    unsigned long flags = plat_irq_save();
    struct pcp *p = pcp_mine(h);
    struct pcp_stack *s = &p->stack[order];
    struct frame *f = NULL;
    u64 n;

    if (likely(pcp_try_enter(p))) {
        n = s->count;
        if (likely(n-- != 0)) {
            f = s->block[n];
            pcp_count_set(s, (u32)n);
            plat_counter_add(&p->row[NODE_pcp_hit], 1);
        }
        pcp_leave(p);
    }
    plat_irq_restore(flags);
    if (PLAT_REDZONE_BYTES && f)
        plat_unpoison(frame_address(&h->frames, f), PAGE_SIZE << order);
    return f;
}

/* f is this CPU's alone and tagged PARKED already. False if the stack is full or a drain is
 * about. */
static ALWAYS_INLINE bool pcp_push(struct heap *h, struct frame *f, unsigned order)
{
    unsigned long flags;
    struct pcp_stack *s;
    bool parked = false;
    struct pcp *p;
    u64 n;

    if (PLAT_REDZONE_BYTES)
        plat_poison(frame_address(&h->frames, f), PAGE_SIZE << order);
    flags = plat_irq_save();
    p = pcp_mine(h);
    s = &p->stack[order];
    if (likely(pcp_try_enter(p))) {
        n = s->count;
        if (likely(GUARD(31, n < s->limit))) {
            s->block[n] = f;
            pcp_count_set(s, (u32)n + 1);
            plat_counter_add(&p->row[NODE_pcp_park], 1);
            parked = true;
        }
        pcp_leave(p);
    }
    plat_irq_restore(flags);
    return parked;
}

#endif
