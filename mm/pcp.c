/* pcp.c: per-CPU caches of freed page blocks (pcp=on), between the users of pages and the buddy.
 *
 * Each CPU keeps a short stack of freed blocks for each order up to 5 (128 KiB), limits in pcp.limits=.
 * An empty stack takes half its limit from the buddy under one hold of the page lock, a full one gives its
 * coldest half back. A parked block stays allocated as far as the buddy knows, so it cannot merge; its tag
 * says PARKED, so a second free of it is refused like that of a free block, and statistics count it as free.
 *
 * Protection: the owner works with interrupts off and holds the CPU's try-flag, which is never contended
 * but by a drain: whoever runs short of pages takes every CPU's flag in turn and empties its stacks, so parked
 * memory never causes a false shortage. An owner that finds its flag taken does not wait: it goes to the
 * buddy. A drain waits, but only for the few instructions (at most one exchange with the buddy) that an
 * owner holds the flag, and it holds no other flag or lock meanwhile; so two CPUs short at once, in
 * interrupts even, wait for each other's short sections and no more.
 *
 * Deliberately not here: stealing single blocks from neighbours; orders above 5; anything before the CPUs'
 * region exists (heap.pcp is NULL, and all calls go to the buddy).
 *
 * Locking: pcp.busy, then the page lock. Contexts: thread, interrupt. */
#include "mm_impl.h"

static bool try_enter(struct pcp *p)
{
    return __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE) == 0;
}

static void leave(struct pcp *p)
{
    __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
}

static void count_set(struct pcp_stack *s, u32 count)
{
    __atomic_store_n(&s->count, count, __ATOMIC_RELAXED);
}

static u64 *row(struct heap *h)
{
    return ((struct node_row *)cpu_part(h->buddy[0].row, plat_cpu_offset()))->ctr;
}

/* -- fast path -- */

static NOINLINE struct frame *get_refill(struct heap *h, struct pcp *p, unsigned order);
static NOINLINE void put_spill(struct heap *h, struct pcp *p, unsigned order);

struct frame *pcp_get(struct heap *h, unsigned order)
{
    unsigned long flags = plat_irq_save();
    struct pcp *p = cpu_part(h->pcp, plat_cpu_offset());
    struct pcp_stack *s = &p->stack[order];
    struct frame *f;
    u32 n;

    if (unlikely(!try_enter(p))) {
        plat_counter_add(&row(h)[NODE_pcp_busy], 1);
        plat_irq_restore(flags);
        return buddy_alloc(&h->buddy[0], order);
    }
    n = s->count;
    if (likely(n)) {
        f = s->block[n - 1];
        count_set(s, n - 1);
        plat_counter_add(&row(h)[NODE_pcp_hit], 1);
    } else {
        f = get_refill(h, p, order);
    }
    leave(p);
    plat_irq_restore(flags);
    if (likely(f)) {
        frame_tag_store(f, FRAME_NONE);
        plat_unpoison(frame_address(&h->frames, f), PAGE_SIZE << order);
    }
    return f;
}

void pcp_put(struct heap *h, struct frame *f, unsigned order)
{
    unsigned long flags = plat_irq_save();
    struct pcp *p = cpu_part(h->pcp, plat_cpu_offset());
    struct pcp_stack *s = &p->stack[order];

    if (unlikely(!try_enter(p))) {
        plat_counter_add(&row(h)[NODE_pcp_busy], 1);
        plat_irq_restore(flags);
        buddy_free(&h->buddy[0], f, order);
        return;
    }
    plat_poison(frame_address(&h->frames, f), PAGE_SIZE << order);
    if (unlikely(s->count >= s->limit))
        put_spill(h, p, order);
    frame_tag_store(f, TAG(FRAME_PARKED, order));
    s->block[s->count] = f;
    count_set(s, s->count + 1);
    plat_counter_add(&row(h)[NODE_pcp_park], 1);
    leave(p);
    plat_irq_restore(flags);
}

/* -- slow path: flag held, interrupts off -- */

static struct frame *get_refill(struct heap *h, struct pcp *p, unsigned order)
{
    struct pcp_stack *s = &p->stack[order];
    unsigned got = buddy_alloc_bulk(&h->buddy[0], order, s->block, s->batch);

    plat_counter_add(&row(h)[NODE_pcp_miss], 1);
    if (!got)
        return NULL;
    plat_counter_add(&row(h)[NODE_pcp_refill], 1);
    for (unsigned i = 0; i + 1 < got; i++) {
        plat_poison(frame_address(&h->frames, s->block[i]), PAGE_SIZE << order);
        frame_tag_store(s->block[i], TAG(FRAME_PARKED, order));
    }
    count_set(s, got - 1);
    return s->block[got - 1];
}

static void put_spill(struct heap *h, struct pcp *p, unsigned order)
{
    struct pcp_stack *s = &p->stack[order];
    u32 batch = s->batch;

    for (u32 i = 0; i < batch; i++)
        frame_tag_store(s->block[i], FRAME_NONE);
    buddy_free_bulk(&h->buddy[0], order, s->block, batch);
    memmove(s->block, s->block + batch, (s->count - batch) * sizeof(s->block[0]));
    count_set(s, s->count - batch);
    plat_counter_add(&row(h)[NODE_pcp_spill], 1);
}

static u64 drain_one(struct heap *h, struct pcp *p)
{
    u64 pages = 0;

    while (!try_enter(p))
        plat_relax();
    for (unsigned order = 0; order < PCP_ORDERS; order++) {
        struct pcp_stack *s = &p->stack[order];

        for (u32 i = 0; i < s->count; i++)
            frame_tag_store(s->block[i], FRAME_NONE);
        buddy_free_bulk(&h->buddy[0], order, s->block, s->count);
        pages += (u64)s->count << order;
        count_set(s, 0);
    }
    leave(p);
    return pages;
}

u64 pcp_drain_all(struct heap *h)
{
    u64 pages = 0;

    if (!h->pcp)
        return 0;
    for (unsigned cpu = 0; cpu < h->cpus; cpu++) {
        unsigned long flags = plat_irq_save();
        u64 got = drain_one(h, cpu_part(h->pcp, PLAT_CPU_STRIDE * cpu));

        if (got) {
            plat_counter_add(&row(h)[NODE_pcp_drain], 1);
            plat_counter_add(&row(h)[NODE_pcp_drain_pages], got);
        }
        pages += got;
        plat_irq_restore(flags);
    }
    return pages;
}

/* -- init, statistics -- */

bool pcp_init(struct heap *h, unsigned cpus)
{
    struct pcp *first;

    if (!h->pcp_on)
        return true;
    first = region_alloc(h, sizeof(struct pcp));
    if (!first)
        return false;
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        struct pcp *p = cpu_part(first, PLAT_CPU_STRIDE * cpu);

        for (unsigned order = 0; order < PCP_ORDERS; order++) {
            p->stack[order].limit = h->pcp_limit[order];
            p->stack[order].batch = MAX(h->pcp_limit[order] / 2u, 1u);
        }
    }
    h->pcp = first;
    return true;
}

u64 pcp_pages(const struct heap *h)
{
    u64 pages = 0;

    for (unsigned cpu = 0; h->pcp && cpu < h->cpus; cpu++) {
        const struct pcp *p = cpu_part(h->pcp, PLAT_CPU_STRIDE * cpu);

        for (unsigned order = 0; order < PCP_ORDERS; order++)
            pages += (u64)__atomic_load_n(&p->stack[order].count, __ATOMIC_RELAXED) << order;
    }
    return pages;
}

bool pcp_validate(struct heap *h, struct heap_fault *f)
{
    for (unsigned cpu = 0; h->pcp && cpu < h->cpus; cpu++) {
        const struct pcp *p = cpu_part(h->pcp, PLAT_CPU_STRIDE * cpu);

        for (unsigned order = 0; order < PCP_ORDERS; order++) {
            const struct pcp_stack *s = &p->stack[order];

            if (s->count > s->limit)
                return heap_fault_set(f, "pcp: more blocks than room", s, NULL);
            for (u32 i = 0; i < s->count; i++)
                if (frame_tag_load(s->block[i]) != TAG(FRAME_PARKED, order))
                    return heap_fault_set(f, "pcp: holds a block that is not parked",
                                          frame_address(&h->frames, s->block[i]), NULL);
        }
    }
    return true;
}
