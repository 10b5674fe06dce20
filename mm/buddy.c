/* buddy.c: page blocks of 2^order frames, split on demand and merged with their neighbour when
 * freed.
 *
 * A free block has the tag FREE|order on its head frame and is on the list of its order; its other
 * frames say NONE. The buddy of block i at order k is block i ^ 2^k, numbered from a base aligned
 * to the largest block. A merge needs the buddy's head to say exactly FREE|k, so a block that any
 * cache above holds can never be merged away.
 *
 * Worked example, replayed by tests/host/test_buddy.c: 8 free frames are one block of order 3.
 * alloc(0) splits three times and returns frame 0, leaving 1 (order 0), 2..3 (order 1), 4..7
 * (order 2). alloc(1) returns 2..3 without a split. free(0) merges 0 with 1; the merge stops
 * there, as 2..3 is taken. free(2..3) merges with 0..1, then with 4..7: one block of order 3 again.
 *
 * Freed blocks go to the front of their list, so that what is warm is used again first.
 *
 * A buddy is a node's (nodes=): it has a contiguous part of the frames, which ends at a whole largest
 * block, so that no block and no merge crosses into another's.
 *
 * Deliberately not here: caches (the page front end's), zeroing, zones, which node is asked (pages.c).
 *
 * Locking: buddy.lock for lists, counts and FREE tags. Contexts: thread, interrupt. */
#include "latency_impl.h"

/* -- allocation and free -- */

static ALWAYS_INLINE u64 timed_begin(struct buddy *b, enum latency_call call)
{
    return unlikely(b->latency) ? latency_begin(b->latency, LATENCY_buddy, call) : 0;
}

static ALWAYS_INLINE void timed_end(struct buddy *b, enum latency_call call, u64 start)
{
    if (unlikely(start))
        latency_end(b->latency, LATENCY_buddy, call, start);
}

static u64 *row(struct buddy *b)
{
    return ((struct node_row *)plat_cpu_part(b->row))->ctr;
}

static void put_block(struct buddy *b, struct frame *f, unsigned order)
{
    frame_tag_store(f, TAG(FRAME_FREE, order));
    list_push_front(&b->free[order], &f->link);
    b->blocks[order]++;
}

static void take_block(struct buddy *b, struct frame *f, unsigned order)
{
    list_remove(&f->link);
    b->blocks[order]--;
    frame_tag_store(f, FRAME_NONE);
}

/* The smallest order that has a block large enough, above MAX_ORDER if none has. */
static unsigned find_order_locked(const struct buddy *b, unsigned order)
{
    while (order <= MAX_ORDER && list_empty(&b->free[order]))
        order++;
    return order;
}

/* NULL: there is none. The caller counts. */
static struct frame *alloc_locked(struct buddy *b, unsigned order)
{
    unsigned k = find_order_locked(b, order);
    struct frame *f;

    if (k > MAX_ORDER)
        return NULL;
    f = list_entry(list_first(&b->free[k]), struct frame, link);
    take_block(b, f, k);
    while (k > order) {
        k--;
        put_block(b, f + ((size_t)1 << k), k);
        plat_counter_add(&row(b)[NODE_page_split], 1);
    }
    return f;
}

/* n blocks were got; none is a failure. */
static void count_alloc_locked(struct buddy *b, unsigned order, unsigned n)
{
    u64 *ctr = row(b), pages = (u64)n << order;

    if (!n) {
        plat_counter_add(&ctr[NODE_page_fail], 1);
        return;
    }
    __atomic_store_n(&b->pages_free, b->pages_free - pages, __ATOMIC_RELAXED);
    plat_counter_add(&ctr[NODE_page_alloc], pages);
    plat_counter_add(&ctr[NODE_page_alloc_calls], n);
}

struct frame *buddy_alloc(struct buddy *b, unsigned order)
{
    unsigned long flags;
    struct frame *f;
    u64 start;

    if (order > MAX_ORDER)
        return NULL;
    start = timed_begin(b, LATENCY_ALLOC);
    flags = spin_lock_irqsave(&b->lock);
    f = alloc_locked(b, order);
    count_alloc_locked(b, order, f ? 1 : 0);
    spin_unlock_irqrestore(&b->lock, flags);
    timed_end(b, LATENCY_ALLOC, start);
    if (f)
        plat_unpoison(frame_address(b->frames, f), PAGE_SIZE << order);
    return f;
}

unsigned buddy_alloc_bulk(struct buddy *b, unsigned order, struct frame **out, unsigned n)
{
    u64 start = timed_begin(b, LATENCY_ALLOC);
    unsigned long flags = spin_lock_irqsave(&b->lock);
    unsigned got = 0;
    struct frame *f;

    while (got < n && (f = alloc_locked(b, order)))
        out[got++] = f;
    count_alloc_locked(b, order, got); /* a short batch is no failure */
    spin_unlock_irqrestore(&b->lock, flags);
    timed_end(b, LATENCY_ALLOC, start);
    return got;
}

/* Returns the order of the block that f became part of. */
static unsigned merge_locked(struct buddy *b, struct frame *f, unsigned order)
{
    u64 i = (u64)(f - b->frames->at);

    for (; order < MAX_ORDER; order++) {
        u64 other = i ^ ((u64)1 << order);
        struct frame *o = &b->frames->at[other];

        if (other >= b->frames->count || frame_tag_load(o) != TAG(FRAME_FREE, order))
            break;
        take_block(b, o, order);
        i &= ~((u64)1 << order);
        plat_counter_add(&row(b)[NODE_page_merge], 1);
    }
    put_block(b, &b->frames->at[i], order);
    return order;
}

void buddy_free(struct buddy *b, struct frame *head, unsigned order)
{
    buddy_free_bulk(b, order, &head, 1);
}

void buddy_free_bulk(struct buddy *b, unsigned order, struct frame *const *head, unsigned n)
{
    u64 pages = (u64)n << order, start;
    unsigned long flags;
    u64 *ctr;

    if (!n)
        return;
    for (unsigned i = 0; i < n; i++) {
        ASSERT(TAG_KIND(frame_tag_load(head[i])) == FRAME_NONE);
        ASSERT(((u64)(head[i] - b->frames->at) & (((u64)1 << order) - 1)) == 0);
        plat_poison(frame_address(b->frames, head[i]), PAGE_SIZE << order);
    }
    start = timed_begin(b, LATENCY_FREE);
    flags = spin_lock_irqsave(&b->lock);
    ctr = row(b);
    for (unsigned i = 0; i < n; i++)
        merge_locked(b, head[i], order);
    __atomic_store_n(&b->pages_free, b->pages_free + pages, __ATOMIC_RELAXED);
    plat_counter_add(&ctr[NODE_page_free], pages);
    plat_counter_add(&ctr[NODE_page_free_calls], n);
    spin_unlock_irqrestore(&b->lock, flags);
    timed_end(b, LATENCY_FREE, start);
}

/* -- init -- */

void buddy_init(struct buddy *b, struct frames *fs, u32 node, u64 first, u64 end,
                struct node_row *boot_row)
{
    char name[] = {'n', 'o', 'd', 'e', (char)('0' + node), 0};

    CHECK_VALUES(node < MAX_NODES && first < end && end <= fs->count, first, end);
    CHECK_VALUES(first % BLOCK_FRAMES == 0 && (end % BLOCK_FRAMES == 0 || end == fs->count), first,
                 end);
    b->frames = fs;
    b->node = node;
    b->first = first;
    b->end = end;
    b->latency = NULL;
    b->row = boot_row;
    b->pages_free = 0;
    b->pages_total = 0;
    for (unsigned k = 0; k <= MAX_ORDER; k++) {
        list_init(&b->free[k]);
        b->blocks[k] = 0;
    }
    spin_init(&b->lock, LOCKCLASS_page, name);
}

void buddy_add(struct buddy *b, u64 first, u64 n)
{
    u64 end = first + n;

    CHECK_VALUES(first >= b->first && end <= b->end, first, end);
    plat_poison(frame_address(b->frames, &b->frames->at[first]), n << PAGE_SHIFT);
    for (u64 i = first; i < end; i++) {
        b->frames->at[i].node = b->node;
        frame_tag_store(&b->frames->at[i], FRAME_NONE);
    }
    while (first < end) {
        unsigned k = MAX_ORDER;
        unsigned long flags;

        while ((first & (((u64)1 << k) - 1)) || first + ((u64)1 << k) > end)
            k--;
        flags = spin_lock_irqsave(&b->lock);
        merge_locked(b, &b->frames->at[first], k);
        b->pages_free += (u64)1 << k;
        b->pages_total += (u64)1 << k;
        spin_unlock_irqrestore(&b->lock, flags);
        first += (u64)1 << k;
    }
}

/* -- validate -- */

static bool order_validate(struct buddy *b, unsigned k, u64 *pages, struct heap_fault *f)
{
    u64 blocks = 0;

    list_for_each(e, &b->free[k])
    {
        struct frame *head = list_entry(e, struct frame, link);
        u64 i = (u64)(head - b->frames->at);

        if (i < b->first || i >= b->end || head->node != b->node || (i & (((u64)1 << k) - 1)))
            return heap_fault_set(f, "buddy: a misplaced block on a free list", head, NULL);
        if (frame_tag_load(head) != TAG(FRAME_FREE, k))
            return heap_fault_set(f, "buddy: a listed block is not tagged free",
                                  frame_address(b->frames, head), NULL);
        if (e->next->prev != e || ++blocks > b->blocks[k])
            return heap_fault_set(f, "buddy: a broken free list", frame_address(b->frames, head),
                                  NULL);
        *pages += (u64)1 << k;
    }
    if (blocks != b->blocks[k])
        return heap_fault_set(f, "buddy: count and list differ", (void *)(uintptr_t)k, NULL);
    return true;
}

bool buddy_validate(struct buddy *b, struct heap_fault *f)
{
    unsigned long flags = spin_lock_irqsave(&b->lock);
    u64 pages = 0;
    bool good = true;

    for (unsigned k = 0; good && k <= MAX_ORDER; k++)
        good = order_validate(b, k, &pages, f);
    if (good && pages != b->pages_free)
        good =
            heap_fault_set(f, "buddy: free pages and lists differ", (void *)(uintptr_t)pages, NULL);
    spin_unlock_irqrestore(&b->lock, flags);
    return good;
}
