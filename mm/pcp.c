/* pcp.c: per-CPU caches of freed page blocks (pcp=on), between the users of pages and the buddy.
 *
 * Each CPU keeps a short stack of freed blocks for each order up to 5 (128 KiB), limits in
 * pcp.limits=. An empty stack takes half its limit from the buddy under one hold of the page lock,
 * a full one gives its coldest half back. A parked block stays allocated as far as the buddy knows,
 * so it cannot merge; its tag says PARKED, so a second free of it is refused like that of a free
 * block, and statistics count it as free.
 *
 * Protection: the owner works with interrupts off and holds the CPU's try-flag, which is never
 * contended but by a drain: whoever runs short of pages takes every CPU's flag in turn and empties
 * its stacks, so parked memory never causes a false shortage. An owner that finds its flag taken
 * does not wait: it goes to the buddy. A drain waits, but only for the few instructions (at most
 * one exchange with the buddy) that an owner holds the flag, and it holds no other flag or lock
 * meanwhile; so two CPUs short at once, in interrupts even, wait for each other's short sections
 * and no more.
 *
 * Nodes: a CPU's page cache holds blocks of its own node only, as Linux's do, which are a zone's. A block of
 * another node is not parked when it is freed here but goes home at once (pages.c), and one that was had
 * elsewhere because the own node is out is not kept for the next call. So what a page cache hands out is
 * always near, what a node has free is the sum of its buddy and its CPUs, and a spill or drain takes one page
 * lock. The price: a CPU that frees what another node's allocated takes that node's page lock each time.
 *
 * Deliberately not here: stealing single blocks from neighbours; orders above 5; anything before
 * the CPUs' region exists (heap.pcp is NULL, and all calls go to the buddy).
 *
 * Locking: pcp.busy, then the page lock. Contexts: thread, interrupt. */
#include "pcp_impl.h"

/* -- fast path (pcp_impl.h has the bodies) -- */

static NOINLINE struct frame *get_refill(struct heap *h, struct pcp *p, unsigned order);
static NOINLINE void put_spill(struct pcp *p, unsigned order);

/* The CPU's page cache is empty, or being drained. */
static NOINLINE struct frame *get_slow(struct heap *h, unsigned order)
{
    struct carry_cpu *k;
    unsigned long flags = plat_irq_save();
    struct pcp *p = pcp_mine(h);
    struct frame *f;

    if (unlikely(!pcp_try_enter(p))) {
        plat_counter_add(&p->row[NODE_pcp_busy], 1);
        plat_irq_restore(flags);
        return buddies_alloc(h, order);
    }
    k = carry_begin(h->carry);
    f = get_refill(h, p, order);
    carry_end_if(k, f != NULL);
    pcp_leave(p);
    plat_irq_restore(flags);
    if (unlikely(!f))
        return buddies_alloc_elsewhere(h, p->b->node, order);
    plat_unpoison(frame_address(&h->frames, f), PAGE_SIZE << order);
    return f;
}

struct frame *pcp_get(struct heap *h, unsigned order)
{
    struct frame *f = pcp_pop(h, order);

    if (unlikely(!f))
        return get_slow(h, order);
    frame_tag_store(f, FRAME_NONE);
    return f;
}

static void put_in_buddy(struct heap *h, struct frame *f, unsigned order)
{
    frame_tag_store(f, FRAME_NONE);
    buddy_free(buddy_of(h, f), f, order);
}

bool pcp_put_full(struct heap *h, struct frame *f, unsigned order)
{
    unsigned long flags = plat_irq_save();
    struct pcp *p = pcp_mine(h);

    if (unlikely(!pcp_try_enter(p))) {
        plat_counter_add(&p->row[NODE_pcp_busy], 1);
        plat_irq_restore(flags);
        put_in_buddy(h, f, order);
        return true;
    }
    if (p->stack[order].count >= p->stack[order].limit)
        put_spill(p, order);
    pcp_leave(p);
    plat_irq_restore(flags);
    /* There is room now, unless an interrupt took it, or a drain is about: then the buddy has
     * it. */
    if (!pcp_push(h, f, order))
        put_in_buddy(h, f, order);
    return true;
}

void pcp_put(struct heap *h, struct frame *f, unsigned order)
{
    frame_tag_store(f, TAG(FRAME_PARKED, order));
    if (unlikely(!pcp_push(h, f, order)))
        pcp_put_full(h, f, order);
}

/* -- slow path: flag held, interrupts off -- */

static struct frame *get_refill(struct heap *h, struct pcp *p, unsigned order)
{
    struct pcp_stack *s = &p->stack[order];
    unsigned got;

    /* The pop before found nothing, or a drain about; since then interrupts were on, and somebody may have
     * parked a block here. */
    if (unlikely(s->count)) {
        struct frame *f = s->block[s->count - 1];

        pcp_count_set(s, s->count - 1);
        plat_counter_add(&p->row[NODE_pcp_hit], 1);
        frame_tag_store(f, FRAME_NONE);
        return f;
    }
    got = buddy_alloc_bulk(p->b, order, s->block, s->batch);
    plat_counter_add(&p->row[NODE_pcp_miss], 1);
    if (!got)
        return NULL;
    plat_counter_add(&p->row[NODE_pcp_refill], 1);
    for (unsigned i = 0; i + 1 < got; i++) {
        plat_poison(frame_address(&h->frames, s->block[i]), PAGE_SIZE << order);
        if (GUARD_STEP(30))
            frame_tag_store(s->block[i], TAG(FRAME_PARKED, order));
    }
    pcp_count_set(s, got - 1);
    return s->block[got - 1]; /* never parked: NONE, as the buddy left it */
}

static void put_spill(struct pcp *p, unsigned order)
{
    struct pcp_stack *s = &p->stack[order];
    u32 batch = s->batch;

    for (u32 i = 0; i < batch && GUARD_STEP(29); i++)
        frame_tag_store(s->block[i], FRAME_NONE);
    buddy_free_bulk(p->b, order, s->block, batch);
    memmove(s->block, s->block + batch, (s->count - batch) * sizeof(s->block[0]));
    pcp_count_set(s, s->count - batch);
    plat_counter_add(&p->row[NODE_pcp_spill], 1);
}

static u64 drain_one(struct pcp *p)
{
    u64 pages = 0;

    while (!pcp_try_enter(p))
        plat_relax();
    for (unsigned order = 0; order < PCP_ORDERS; order++) {
        struct pcp_stack *s = &p->stack[order];

        for (u32 i = 0; i < s->count; i++)
            frame_tag_store(s->block[i], FRAME_NONE);
        buddy_free_bulk(p->b, order, s->block, s->count);
        pages += (u64)s->count << order;
        pcp_count_set(s, 0);
    }
    pcp_leave(p);
    return pages;
}

u64 pcp_drain_all(struct heap *h)
{
    u64 pages = 0;

    if (!h->pcp)
        return 0;
    for (unsigned cpu = 0; cpu < h->cpus; cpu++) {
        unsigned long flags = plat_irq_save();
        const struct pcp *p = pcp_mine(h); /* who drains counts */
        u64 got = drain_one(cpu_part(h->pcp, PLAT_CPU_STRIDE * cpu));
        if (got) {
            plat_counter_add(&p->row[NODE_pcp_drain], 1);
            plat_counter_add(&p->row[NODE_pcp_drain_pages], got);
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

        p->b = &h->buddy[h->cpu_node[cpu]];
        p->row = ((struct node_row *)cpu_part(p->b->row, PLAT_CPU_STRIDE * cpu))->ctr;
        for (unsigned order = 0; order < PCP_ORDERS; order++) {
            p->stack[order].limit = h->pcp_limit[order];
            p->stack[order].batch = MAX(h->pcp_limit[order] / 2u, 1u);
        }
    }
    h->pcp = first;
    h->pcp_orders = PCP_ORDERS;
    return true;
}

u64 pcp_node_pages(const struct heap *h, unsigned node)
{
    u64 pages = 0;

    for (unsigned cpu = 0; h->pcp && cpu < h->cpus; cpu++) {
        const struct pcp *p = cpu_part(h->pcp, PLAT_CPU_STRIDE * cpu);

        if (p->b->node != node)
            continue;
        for (unsigned order = 0; order < PCP_ORDERS; order++)
            pages += (u64)__atomic_load_n(&p->stack[order].count, __ATOMIC_RELAXED) << order;
    }
    return pages;
}

u64 pcp_pages(const struct heap *h)
{
    u64 pages = 0;

    for (unsigned node = 0; node < h->nodes; node++)
        pages += pcp_node_pages(h, node);
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
                if (s->block[i]->node != p->b->node)
                    return heap_fault_set(f, "pcp: holds a block of another node",
                                          frame_address(&h->frames, s->block[i]), NULL);
                else if (frame_tag_load(s->block[i]) != TAG(FRAME_PARKED, order))
                    return heap_fault_set(f, "pcp: holds a block that is not parked",
                                          frame_address(&h->frames, s->block[i]), NULL);
        }
    }
    return true;
}
