/* pages.c: page blocks for users and for the layers of mm/, and kmalloc calls too large for a
 * class.
 *
 * Each block carries on its head frame who holds it: PAGES (a caller of alloc_pages), LARGE (a
 * large kmalloc), SLAB (a cache). Freeing claims that tag by compare-and-swap before the buddy
 * sees the block: of two racing frees one wins, the other finds NONE or FREE and is refused.
 *
 * owner=lock reads the tag under the page lock, which is what the published baseline did;
 * owner=tag reads it with one load. The tag of a live block cannot change under its owner; a wild
 * pointer meets a tag that does not fit.
 *
 * Nodes: the calling CPU's buddy is asked first, then the others' in order, and only when none has a block
 * is anything drained or reclaimed: memory of another node costs less than somebody's cached objects. A
 * block goes home to the buddy that its frames belong to. With several nodes no call goes the short way to a
 * page cache, since whose a block is has to be looked at; so with one node that look costs nothing.
 *
 * Locking: none of its own; owner=lock takes the page lock. Contexts: thread, interrupt. */
#include "latency_impl.h"
#include "fault_impl.h"
#include "pcp_impl.h"

/* -- blocks for the layers above -- */

struct frame *buddies_alloc_elsewhere(struct heap *h, unsigned node, unsigned order)
{
    struct frame *f = NULL;

    for (unsigned i = 1; i < h->nodes && !f; i++)
        f = buddy_alloc(&h->buddy[heap_node_after(h, node, i)], order);
    return f;
}

struct frame *buddies_alloc(struct heap *h, unsigned order)
{
    unsigned node = heap_node_mine(h);
    struct frame *f = buddy_alloc(&h->buddy[node], order);

    return likely(f) ? f : buddies_alloc_elsewhere(h, node, order);
}

static NOINLINE struct frame *pages_get_slow(struct heap *h, unsigned order)
{
    struct frame *f = order < h->pcp_orders ? pcp_get(h, order) : buddies_alloc(h, order);

    if (f || order > MAX_ORDER)
        return f;
    /* Short. Parked blocks first, since they cost nobody a refill of objects; then what caches
     * hold. The buddy is asked again even if nothing was drained: a CPU may have given its blocks
     * back by itself since. */
    pcp_drain_all(h);
    f = buddies_alloc(h, order);
    if (!f) {
        heap_reclaim(h);
        if (GUARD_STEP(28))
            pcp_drain_all(h); /* reclaimed slabs may have been parked on the way */
        f = buddies_alloc(h, order);
    }
    return f;
}

/* With page caches, but latency=on, or several nodes. */
static NOINLINE struct frame *pcp_get_long(struct heap *h, unsigned order)
{
    u64 start = latency_begin(&h->latency, LATENCY_pages, LATENCY_ALLOC);
    struct frame *f = pcp_get(h, order);

    latency_end(&h->latency, LATENCY_pages, LATENCY_ALLOC, start);
    return f ? f : pages_get_slow(h, order);
}

static NOINLINE void put_home(struct heap *h, struct frame *head, unsigned order)
{
    buddy_free(buddy_of(h, head), head, order);
}

/* To the CPU's page cache if it is of the CPU's node, else home. */
static void put_near(struct heap *h, struct frame *head, unsigned order)
{
    unsigned long flags = plat_irq_save(); /* up to the push: no other CPU's, of another node */

    if (GUARD(58, head->node == heap_node_mine(h)))
        pcp_put(h, head, order);
    else
        put_home(h, head, order);
    plat_irq_restore(flags);
}

static NOINLINE void pcp_put_long(struct heap *h, struct frame *head, unsigned order)
{
    u64 start = latency_begin(&h->latency, LATENCY_pages, LATENCY_FREE);

    if (likely(h->nodes == 1))
        pcp_put(h, head, order);
    else
        put_near(h, head, order);
    latency_end(&h->latency, LATENCY_pages, LATENCY_FREE, start);
}

struct frame *pages_get(struct heap *h, unsigned order)
{
    struct frame *f;

    if (FAULT(page))
        return NULL;
    if (unlikely(order >= h->pcp_orders))
        return h->pcp && order < PCP_ORDERS ? pcp_get_long(h, order) : pages_get_slow(h, order);
    f = pcp_pop(h, order);
    if (unlikely(!f))
        return pages_get_slow(h, order);
    frame_tag_store(f, FRAME_NONE);
    return f;
}

struct frame *pages_get_short(struct heap *h, unsigned order)
{
    struct shortage s = {0};
    struct frame *f = NULL;

    while (!f && order <= MAX_ORDER && GUARD_STEP(27) && heap_drain_others(h, &s))
        f = pages_get(h, order);
    return f;
}

void pages_put(struct heap *h, struct frame *head, unsigned order)
{
    if (likely(order < h->pcp_orders))
        pcp_put(h, head, order);
    else if (h->pcp && order < PCP_ORDERS)
        pcp_put_long(h, head, order);
    else
        put_home(h, head, order);
}

static ALWAYS_INLINE u64 owner_locked_read(struct buddy *b, const struct frame *f)
{
    unsigned long flags = spin_lock_irqsave(&b->lock);
    u64 tag = frame_tag_load(f);

    spin_unlock_irqrestore(&b->lock, flags);
    return tag;
}

u64 pages_owner_locked_read(struct heap *h, const struct frame *f)
{
    return owner_locked_read(buddy_of(h, f), f);
}

u64 pages_owner_locked_read_node0(struct heap *h, const struct frame *f)
{
    return owner_locked_read(&h->buddy[0], f);
}

/* -- alloc_pages, free_pages -- */

static ALWAYS_INLINE void *pages_hand_out(struct heap *h, struct frame *f, unsigned order)
{
    plat_counter_add(&heap_cpu_counters(h)[CPU_alloc_pages_calls], 1);
    frame_tag_store(f, TAG(FRAME_PAGES, order));
    return frame_address(&h->frames, f);
}

static NOINLINE void *alloc_pages_slow(struct heap *h, unsigned order)
{
    struct frame *f = pages_get_waiting(h, order);

    return f ? pages_hand_out(h, f, order) : NULL;
}

void *alloc_pages(struct heap *h, unsigned order)
{
    struct frame *f;

    if (unlikely(order >= h->pcp_orders))
        return alloc_pages_slow(h, order);
    f = pcp_pop(h, order);
    if (unlikely(!f))
        return alloc_pages_slow(h, order);
    return pages_hand_out(h, f, order);
}

/* Whatever free_pages() does not do the short way; says why a free is refused. */
static NOINLINE bool free_pages_slow(struct heap *h, void *block, unsigned order)
{
    struct frame *f = frame_of(&h->frames, block);
    u64 found;

    if (!f)
        return badfree(h, BADFREE_foreign, block, 0, NULL);
    found = pages_owner(h, f);
    if (TAG_KIND(found) != FRAME_PAGES)
        return badfree(h, badfree_kind_of(h, block), block, found, NULL);
    if ((uintptr_t)block & (PAGE_SIZE - 1))
        return badfree(h, BADFREE_interior, block, found, NULL);
    if (TAG_ORDER(found) != order)
        return badfree(h, BADFREE_wrong_order, block, found, NULL);
    if (!frame_claim(f, &found))
        return badfree(h, BADFREE_free_page, block, found, NULL);
    plat_counter_add(&heap_cpu_counters(h)[CPU_free_pages_calls], 1);
    pages_put(h, f, order);
    return true;
}

bool free_pages(struct heap *h, void *block, unsigned order)
{
    u64 i = frame_number(&h->frames, block), found = TAG(FRAME_PAGES, order);
    struct frame *f = heap_frame(h, i);

    if (unlikely(i >= h->plain_frames || order >= h->pcp_orders ||
                 ((uintptr_t)block & (PAGE_SIZE - 1))))
        return free_pages_slow(h, block, order);
    /* The tag says it all: a block of this order that is a caller's. */
    if (unlikely(!frame_claim_as(f, &found, TAG(FRAME_PARKED, order))))
        return free_pages_slow(h, block, order);
    plat_counter_add(&heap_cpu_counters(h)[CPU_free_pages_calls], 1);
    return likely(pcp_push(h, f, order)) ? true : pcp_put_full(h, f, order);
}

/* -- large kmalloc -- */

/* Calls are counted in any case; the statistics add the bytes, or their shared line. */
static ALWAYS_INLINE void large_count(struct heap *h, bool alloc, u64 bytes, enum knob_value stats)
{
    u64 *ctr = heap_cpu_counters(h);

    plat_counter_add(&ctr[alloc ? CPU_large_alloc : CPU_large_free], 1);
    if (stats == V_stats_large_percpu) {
        plat_counter_add(&ctr[alloc ? CPU_stat_large_alloc_bytes : CPU_stat_large_free_bytes],
                         bytes);
    } else if (stats == V_stats_large_global) {
        struct stat_line *s = &h->stat_large;

        __atomic_fetch_add(alloc ? &s->allocs : &s->frees, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&s->live, alloc ? (u64)1 : ~(u64)0, __ATOMIC_RELAXED);
        __atomic_fetch_add(&s->bytes, alloc ? bytes : ~bytes + 1, __ATOMIC_RELAXED);
    }
}

/* heap.large_plain: not by shared lines. Off takes the same way as percpu, or it would be the dearer. */
static ALWAYS_INLINE void large_count_plain(struct heap *h, bool alloc, u64 bytes)
{
    large_count(h, alloc, bytes,
                h->stats_large == V_stats_large_off ? V_stats_large_off : V_stats_large_percpu);
}

static unsigned large_order(size_t size)
{
    u64 pages = (size + PAGE_SIZE - 1) >> PAGE_SHIFT;

    return pages <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(pages - 1);
}

static NOINLINE void *large_alloc_slow(struct heap *h, size_t size, unsigned order)
{
    struct frame *f = pages_get_waiting(h, order);
    void *p;

    if (!f)
        return NULL;
    f->bytes = size;
    f->cpu = plat_cpu_id();
    frame_tag_store(f, TAG(FRAME_LARGE, order));
    large_count(h, true, PAGE_SIZE << order, h->stats_large);
    p = frame_address(&h->frames, f);
    if (h->poison == V_poison_full)
        memset(p, POISON_FRESH, PAGE_SIZE << order);
    plat_poison((char *)p + size, (PAGE_SIZE << order) - size);
    return p;
}

void *large_alloc(struct heap *h, size_t size)
{
    struct frame *f;
    unsigned order;
    void *p;

    if (unlikely(size > PAGE_SIZE << MAX_ORDER))
        return NULL;
    order = large_order(size);
    if (unlikely(!h->large_plain || order >= PCP_ORDERS))
        return large_alloc_slow(h, size, order);
    f = pcp_pop(h, order);
    if (unlikely(!f))
        return large_alloc_slow(h, size, order);
    f->bytes = size;
    frame_tag_store(f, TAG(FRAME_LARGE, order));
    large_count_plain(h, true, PAGE_SIZE << order);
    p = frame_address(&h->frames, f);
    plat_poison((char *)p + size, (PAGE_SIZE << order) - size);
    return p;
}

/* The fill, and the way to the pages. */
static void large_put(struct heap *h, struct frame *f, unsigned order)
{
    if (h->poison == V_poison_full) {
        void *p = frame_address(&h->frames, f);

        plat_unpoison(p, PAGE_SIZE << order);
        memset(p, POISON_FREE, PAGE_SIZE << order);
    }
    pages_put(h, f, order);
}

static NOINLINE bool large_free_slow(struct heap *h, struct frame *f, u64 tag, void *p)
{
    unsigned order = TAG_ORDER(tag);

    if (!frame_claim(f, &tag))
        return badfree(h, BADFREE_free_page, p, tag, NULL);
    large_count(h, false, PAGE_SIZE << order, h->stats_large);
    if (unlikely(h->matrix))
        matrix_count(h, f->cpu);
    large_put(h, f, order);
    return true;
}

bool large_free_rcu(struct heap *h, struct frame *f, u64 tag, void *p)
{
    unsigned order = TAG_ORDER(tag);

    if ((uintptr_t)p & (PAGE_SIZE - 1))
        return badfree(h, BADFREE_interior, p, tag, NULL);
    if (!frame_claim_as(f, &tag, TAG(FRAME_RCU, order)))
        return badfree(h, BADFREE_double, p, tag, NULL);
    large_count(h, false, PAGE_SIZE << order, h->stats_large);
    if (unlikely(h->matrix))
        matrix_count(h, f->cpu);
    return true;
}

void large_rcu_over(struct heap *h, struct frame *f)
{
    unsigned order = TAG_ORDER(frame_tag_load(f));

    frame_tag_store(f, FRAME_NONE);
    large_put(h, f, order);
}

bool large_free(struct heap *h, struct frame *f, u64 tag, void *p)
{
    unsigned order = TAG_ORDER(tag);

    if (unlikely((uintptr_t)p & (PAGE_SIZE - 1)))
        return badfree(h, BADFREE_interior, p, tag, NULL);
    if (unlikely(!h->large_plain || order >= PCP_ORDERS))
        return large_free_slow(h, f, tag, p);
    if (unlikely(!frame_claim_as(f, &tag, TAG(FRAME_PARKED, order))))
        return badfree(h, BADFREE_free_page, p, tag, NULL);
    large_count_plain(h, false, PAGE_SIZE << order);
    return likely(pcp_push(h, f, order)) ? true : pcp_put_full(h, f, order);
}
