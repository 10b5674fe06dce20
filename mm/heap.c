/* heap.c: builds a heap from ranges of memory, and gives it its CPUs.
 *
 * Frames are numbered from the lowest address to the highest, holes among them, and frame i has descriptor
 * i of one array that stands right behind the heap (heap_frame): so a free finds its frame in a shift and
 * an addition, whatever the memory map is like. Frames in no range, and those of the heap itself, are
 * RESERVED. Where the heap and its array are depends on the holes:
 *
 *   plain    at the start of the largest range, where they were handed up, all in one piece. Every machine
 *            whose array fits there and takes no more than 1/32 of its memory: without holes it takes
 *            1/64, so holes may be as large as all memory together.
 *   window   at addresses of their own (plat_window), with memory put behind them piece by piece:
 *
 *            h      HEAP_BYTES  array, frame 0 at a multiple of PLAT_WINDOW_LARGE
 *            | heap            | own | own | hole | hole | hole | own | hole | own |
 *
 *            A page of the array describes 64 frames. One that describes memory gets a page of its own,
 *            which may come from anywhere, and where all of PLAT_WINDOW_LARGE does (128 MiB of memory), one
 *            large page if there is one to be had. All pages that describe nothing but holes are one and the
 *            same page, full of RESERVED: a wild free into a hole is refused like any other. So a hole costs
 *            no memory, however large it is, and memory may lie in pieces, however small they are.
 *            The page of the holes can be written to, as a compare-and-swap writes what it found, even
 *            where it finds RESERVED; heap_validate() looks whether it still says so.
 *
 * heap.span says which frames have descriptors of their own, which is all frames in the plain case. Whoever
 * walks all frames walks spans; a hole of a few pages of descriptors is none, and gets its own.
 * Memory for the window comes a page at a time from the smallest range that has one, so that what is
 * taken is what is least good for blocks; large pages come from the largest.
 *
 * Until heap_cpus_init() every cache counts on a row of its own that has no room for objects.
 *
 * What belongs to CPUs (rows and arrays of all caches and nodes) lies in one region,
 * PLAT_CPU_STRIDE bytes for each CPU, with the same layout in each: a CPU finds any of its parts by
 * one addition.
 *
 * nodes=N deals out usable pages, not addresses: node by node the next whole largest blocks, until it has
 * its share of what is left. A hole is nobody's loss: it lies in whichever node's part it falls into, or
 * between two. Each share is as near to an even one as whole blocks allow; a memory in which some node would
 * have nothing is refused. CPUs are dealt out evenly and in order. The heap itself, the descriptors and the CPUs'
 * region are where they are, some node's: fake nodes have no distance.
 *
 * Locking: one CPU runs. Contexts: boot. */
#include "mm_impl.h"

const u16 kmalloc_sizes[KMALLOC_CLASSES] = {16,  32,   64,   96,   128,  192,  256,  384, 512,
                                            768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};

static const char *const kmalloc_names[KMALLOC_CLASSES] = {
    "kmalloc-16",   "kmalloc-32",   "kmalloc-64",   "kmalloc-96",   "kmalloc-128",  "kmalloc-192",
    "kmalloc-256",  "kmalloc-384",  "kmalloc-512",  "kmalloc-768",  "kmalloc-1024", "kmalloc-1536",
    "kmalloc-2048", "kmalloc-3072", "kmalloc-4096", "kmalloc-6144", "kmalloc-8192"};

#define BLOCK_BYTES    (PAGE_SIZE << MAX_ORDER)
#define HEAP_MIN_SPARE ((u64)4 << 20) /* beyond the descriptors: room for a slab of each class */

void *table_alloc(struct heap *h, size_t bytes)
{
    unsigned order = 0;
    struct frame *f;
    void *p;

    while (PAGE_SIZE << order < bytes)
        order++;
    f = pages_get_waiting(h, order);
    if (!f)
        return NULL;
    frame_tag_store(f, TAG(FRAME_PAGES, order));
    p = frame_address(&h->frames, f);
    memset(p, 0, PAGE_SIZE << order);
    return p;
}

void *region_alloc(struct heap *h, size_t bytes)
{
    unsigned long flags = spin_lock_irqsave(&h->caches_lock);
    void *p = NULL;

    bytes = round_up(bytes, (size_t)CACHE_LINE);
    if (h->region_used + bytes <= PLAT_CPU_STRIDE) {
        p = h->region + h->region_used;
        h->region_used += (u32)bytes;
    }
    spin_unlock_irqrestore(&h->caches_lock, flags);
    return p;
}

void table_free(struct heap *h, void *p, size_t bytes)
{
    unsigned order = 0;

    while (PAGE_SIZE << order < bytes)
        order++;
    CHECK(free_pages(h, p, order));
}

static void config_init(struct heap *h, const struct knobs *k)
{
    h->owner_lock = k->owner == V_owner_lock;
    h->badfree_panic = k->badfree == V_badfree_panic;
    h->stats_slab = k->stats_slab;
    h->stats_large = k->stats_large;
    h->poison = k->poison;
    h->front = k->front;
    h->typed_direct = k->typed == V_typed_direct;
    h->objstate = k->objstate;
    h->min_partial = (u32)k->slab_min_partial;
    h->bounded_objects = (u32)k->bounded_objects;
    h->bounded_bytes = (u32)k->bounded_bytes;
    h->sheaf_cap = (u32)k->sheaf_cap;
    h->barn_full = (u32)k->barn_full;
    h->barn_empty = (u32)k->barn_empty;
    h->prefill_barn = k->prefill_from == V_prefill_from_barn;
    h->barn_partial = k->barn_partial == V_barn_partial_on;
    h->barn_swap = k->barn_refill == V_barn_refill_swap;
    h->mag_resize = k->mag_resize == V_mag_resize_on;
    h->mag_interval = k->mag_interval;
    h->pcp_on = k->pcp == V_pcp_on;
    h->latency_on = k->latency == V_latency_on;
    h->latency.every = (u32)k->latency_every;
    h->matrix_on = k->matrix == V_matrix_on;
    CHECK(knobs_list_parse(k->pcp_limits, h->pcp_limit, PCP_ORDERS, PCP_MAX_LIMIT));
}

static void classes_init(struct heap *h)
{
    unsigned class = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(h->by_size); i++) {
        if ((i + 1) * KMALLOC_ALIGN > kmalloc_sizes[class])
            class ++;
        h->by_size[i] = &h->kmalloc[class];
    }
    for (unsigned i = 0; i < KMALLOC_CLASSES; i++) {
        struct kmem_cache *c = &h->kmalloc[i];

        cache_setup(
            h, c, &(struct kmem_cache_args){kmalloc_names[i], kmalloc_sizes[i], 0, NULL, NULL, 0});
        CHECK(cache_register(h, c));
    }
    heap_way(h);
}

static const char *const pool_names[SHEAF_POOLS] = {"sheaf-64",  "sheaf-128",  "sheaf-256",
                                                    "sheaf-512", "sheaf-1024", "sheaf-2048"};

static bool pool_make(struct heap *h, unsigned i)
{
    struct kmem_cache *c = &h->sheaf_pool[i];

    c->internal = true;
    cache_setup(h, c,
                &(struct kmem_cache_args){pool_names[i], SHEAF_POOL_MIN << i, 0, NULL, NULL, 0});
    if ((!h->cpus || cache_cpus_init(c, h->cpus)) && cache_register(h, c))
        return true;
    /* What it has of the CPUs' region stays its own, for the next try. */
    cache_locks_destroy(c);
    return false;
}

/* Goes on where an earlier try had to stop. Begins only if the table has places for all, and for the cache that
 * they are made for: pools that come to nothing would take other caches' places for good. */
static bool pools_make(struct heap *h)
{
    if (!GUARD(92, heap_cache_count(h) + SHEAF_POOLS - h->pools_made < MAX_CACHES))
        return false;
    while (h->pools_made < SHEAF_POOLS && pool_make(h, h->pools_made))
        h->pools_made++;
    return h->pools_made == SHEAF_POOLS;
}

bool sheaf_pools_make(struct heap *h)
{
    u32 found = POOLS_NONE;
    bool made;

    while (!__atomic_compare_exchange_n(&h->pools, &found, POOLS_IN_THE_MAKING, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        if (found == POOLS_MADE)
            return true;
        plat_relax(); /* another CPU makes them; if it cannot, perhaps this one can */
        found = POOLS_NONE;
    }
    made = pools_make(h);
    __atomic_store_n(&h->pools, made ? POOLS_MADE : POOLS_NONE, __ATOMIC_RELEASE);
    return made;
}

/* -- where things go -- */

#define PAGE_FRAMES  (PAGE_SIZE / sizeof(struct frame)) /* that a page of descriptors describes */
#define LARGE_FRAMES (PLAT_WINDOW_LARGE / sizeof(struct frame))
/* A smaller hole gets descriptors of its own: four pages are what an exception to them would cost. */
#define HOLE_FRAMES (4 * PAGE_FRAMES)
/* So much of a large page may describe holes, at its ends. */
#define EDGE_FRAMES (LARGE_FRAMES / 8)
/* Of the ranges in the window's case: each large page may leave a piece before it. */
#define MORE_RANGES 16u

/* The ranges, what the heap takes of them, and its frames. */
struct usable {
    uintptr_t base;
    u64 count; /* frames, holes among them */
    const struct mem_range *range;
    unsigned n,
        home;  /* home: the largest, of which own is taken; n: none, for range is what is left */
    u64 own;   /* frames at the start of home */
    u64 pages; /* in all ranges, before anything was taken */
};

static u64 array_bytes(u64 frames)
{
    return round_up(frames * sizeof(struct frame), (u64)PAGE_SIZE);
}

static void usable_init(struct usable *u, const struct mem_range *r, unsigned n)
{
    uintptr_t base = round_down((uintptr_t)r[0].base, (uintptr_t)BLOCK_BYTES);
    uintptr_t end = (uintptr_t)r[n - 1].base + (r[n - 1].pages << PAGE_SHIFT);

    *u = (struct usable){.base = base, .count = (end - base) >> PAGE_SHIFT, .range = r, .n = n};
    for (unsigned i = 0; i < n; i++) {
        u->pages += r[i].pages;
        if (r[i].pages > r[u->home].pages)
            u->home = i;
    }
    u->own = (HEAP_BYTES + array_bytes(u->count)) >> PAGE_SHIFT;
}

static bool plain_will_do(const struct usable *u)
{
    return u->own < u->range[u->home].pages && array_bytes(u->count) <= u->pages << PAGE_SHIFT >> 5;
}

/* Usable frames of range i from first to end - 1; *at gets the first of them. */
static u64 usable_within(const struct usable *u, unsigned i, u64 first, u64 end, u64 *at)
{
    u64 from = ((uintptr_t)u->range[i].base - u->base) >> PAGE_SHIFT;
    u64 to = MIN(end, from + u->range[i].pages);

    *at = MAX(first, from + (i == u->home ? u->own : 0));
    return to > *at ? to - *at : 0;
}

static u64 usable_between(const struct usable *u, u64 first, u64 end)
{
    u64 sum = 0, at;

    for (unsigned i = 0; i < u->n; i++)
        sum += usable_within(u, i, first, end, &at);
    return sum;
}

/* The frame before which there are so many usable ones from first on; count if there are fewer. */
static u64 usable_reach(const struct usable *u, u64 first, u64 many)
{
    u64 at;

    for (unsigned i = 0; i < u->n; i++) {
        u64 pages = usable_within(u, i, first, u->count, &at);

        if (pages >= many)
            return at + many;
        many -= pages;
    }
    return u->count;
}

static void reserve_frames(struct frame *f, u64 n)
{
    memset(f, 0, n * sizeof(*f));
    for (u64 i = 0; i < n; i++)
        frame_tag_store(&f[i], FRAME_RESERVED);
}

static struct heap *make_plain(const struct usable *u)
{
    struct heap *h = u->range[u->home].base;

    memset(h, 0, HEAP_BYTES);
    reserve_frames(heap_frame(h, 0), u->count);
    h->all = (struct span){0, u->count};
    h->span = &h->all;
    h->spans = 1;
    return h;
}

/* -- the window -- */

/* The ranges as they are while the heap takes from them; pages come from range[page_from]. */
struct taking {
    struct mem_range *range;
    unsigned n, max;
    unsigned page_from;
};

static unsigned smallest_range(const struct taking *t)
{
    unsigned smallest = 0;

    for (unsigned i = 1; i < t->n; i++)
        if (t->range[i].pages &&
            (!t->range[smallest].pages || t->range[i].pages < t->range[smallest].pages))
            smallest = i;
    return smallest;
}

static void *take_page(void *ctx)
{
    struct taking *t = ctx;
    struct mem_range *r;

    if (!t->range[t->page_from].pages)
        t->page_from = smallest_range(t);
    r = &t->range[t->page_from];
    if (!r->pages)
        return NULL;
    r->pages--;
    r->base = (char *)r->base + PAGE_SIZE;
    return (char *)r->base - PAGE_SIZE;
}

/* A large page from the largest range, which may leave a piece before it and one behind. */
static void *take_large(struct taking *t)
{
    const u64 large = PLAT_WINDOW_LARGE >> PAGE_SHIFT;
    unsigned i = 0;
    char *at;
    u64 before;

    for (unsigned k = 1; k < t->n; k++)
        if (t->range[k].pages > t->range[i].pages)
            i = k;
    at = (char *)round_up((uintptr_t)t->range[i].base, (uintptr_t)PLAT_WINDOW_LARGE);
    before = (u64)(at - (char *)t->range[i].base) >> PAGE_SHIFT;
    if (before + large > t->range[i].pages || (before && t->n == t->max))
        return NULL;
    if (before) {
        for (unsigned k = t->n++; k > i; k--)
            t->range[k] = t->range[k - 1];
        t->page_from += t->page_from > i;
        t->range[i].pages = before;
        i++;
        t->range[i].pages -= before;
    }
    t->range[i] = (struct mem_range){at + PLAT_WINDOW_LARGE, t->range[i].pages - large};
    return at;
}

static u32 span_add(struct span *out, u32 n, u64 first, u64 end, u64 hole)
{
    if (n && first <= out[n - 1].end + hole)
        out[n - 1].end = MAX(end, out[n - 1].end);
    else
        out[n++] = (struct span){first, end};
    return n;
}

/* Which frames need descriptors of their own; returns how many spans that are, at most as many as ranges. */
static u32 spans_find(const struct usable *u, struct span *out)
{
    u32 n = 0, wide = 0;

    for (unsigned i = 0; i < u->n; i++) {
        u64 at = ((uintptr_t)u->range[i].base - u->base) >> PAGE_SHIFT;
        u64 first = round_down(at, (u64)PAGE_FRAMES);
        u64 end = round_up(at + u->range[i].pages, (u64)PAGE_FRAMES);

        n = span_add(out, n, first, end, HOLE_FRAMES);
    }
    /* Where little is missing to a large page, all of it. */
    for (u32 i = 0; i < n; i++) {
        struct span s = out[i];
        u64 low = round_down(s.first, (u64)LARGE_FRAMES), high = round_up(s.end, (u64)LARGE_FRAMES);

        if (s.first - low <= EDGE_FRAMES && s.end + EDGE_FRAMES >= low + LARGE_FRAMES)
            s.first = low;
        if (high - s.end <= EDGE_FRAMES && s.first <= high - LARGE_FRAMES)
            s.end = high;
        wide = span_add(out, wide, s.first, s.end, 0);
    }
    return wide;
}

static bool span_map(struct heap *h, const struct span *s, struct taking *t)
{
    u64 n;

    for (u64 i = s->first; i < s->end; i += n) {
        void *memory = NULL;

        n = LARGE_FRAMES;
        if (i % LARGE_FRAMES == 0 && i + n <= s->end)
            memory = take_large(t);
        if (!memory) {
            n = PAGE_FRAMES;
            memory = take_page(t);
        }
        if (!memory ||
            !plat_window_map(heap_frame(h, i), memory, n * sizeof(struct frame), take_page, t))
            return false;
        reserve_frames(heap_frame(h, i), n);
    }
    return true;
}

static bool hole_map(struct heap *h, u64 first, u64 end, struct frame *hole, struct taking *t)
{
    return first >= end || plat_window_repeat(heap_frame(h, first), hole,
                                              (end - first) * sizeof(struct frame), take_page, t);
}

/* Puts memory behind the heap, the spans' descriptors and, once for all, the holes'. */
static bool window_fill(struct heap *h, const struct span *span, u32 spans, u64 end,
                        struct taking *t)
{
    struct frame *hole = take_page(t);
    u64 before = 0;

    if (!hole)
        return false;
    reserve_frames(hole, PAGE_FRAMES);
    for (size_t n = 0; n < HEAP_BYTES; n += PAGE_SIZE) {
        void *memory = take_page(t);

        if (!memory || !plat_window_map((char *)h + n, memory, PAGE_SIZE, take_page, t))
            return false;
    }
    memset(h, 0, HEAP_BYTES);
    for (u32 i = 0; i < spans; before = span[i++].end)
        if (!hole_map(h, before, span[i].first, hole, t) || !span_map(h, &span[i], t))
            return false;
    return hole_map(h, before, end, hole, t);
}

/* NULL: there is too little. u->range is what is left of the ranges afterwards, and nothing is home. */
static struct heap *make_in_window(struct usable *u)
{
    unsigned max = u->n + MORE_RANGES;
    u64 table =
        round_up(u->n * sizeof(struct span) + max * sizeof(struct mem_range), (u64)PAGE_SIZE) >>
        PAGE_SHIFT;
    u64 end = round_up(u->count, (u64)LARGE_FRAMES);
    struct span *span = u->range[u->home].base;
    struct taking t = {(struct mem_range *)(void *)(span + u->n), u->n, max, 0};
    struct heap *h;
    size_t before = round_up(HEAP_BYTES, PLAT_WINDOW_LARGE);
    char *window;
    u32 spans;

    if (table >= u->range[u->home].pages)
        return NULL;
    window = plat_window(before + end * sizeof(struct frame));
    if (!window)
        return NULL;
    spans = spans_find(u, span);
    memcpy(t.range, u->range, u->n * sizeof(*t.range));
    t.range[u->home] = (struct mem_range){(char *)u->range[u->home].base + (table << PAGE_SHIFT),
                                          u->range[u->home].pages - table};
    t.page_from = smallest_range(&t);
    h = (struct heap *)(void *)(window + before - HEAP_BYTES);
    if (!window_fill(h, span, spans, end, &t))
        return NULL;
    h->span = span;
    h->spans = spans;
    u->range = t.range;
    u->n = u->home = t.n;
    u->own = 0;
    return h;
}

/* end[k]: the frame after the last of node k. False: one would have no memory. */
static bool nodes_split(const struct usable *u, unsigned nodes, u64 *end)
{
    u64 first = 0;

    for (unsigned k = 0; k < nodes; k++) {
        u64 left = usable_between(u, first, u->count), share = left / (nodes - k), to, before;

        if (share == 0)
            return false;
        to = MIN(round_up(usable_reach(u, first, share), BLOCK_FRAMES), u->count);
        /* What is nearer: with the last block, or without. */
        before = usable_between(u, first, round_down(to - 1, BLOCK_FRAMES));
        if (before && usable_between(u, first, to) - share > share - before)
            to = round_down(to - 1, BLOCK_FRAMES);
        if (k + 1 == nodes)
            to = u->count;
        first = end[k] = to;
    }
    return true;
}

static void nodes_init(struct heap *h, const struct usable *u, unsigned nodes, const u64 *end)
{
    u64 at, pages, first = 0;

    h->nodes = nodes;
    for (unsigned k = 0; k < nodes; first = end[k++]) {
        struct buddy *b = &h->buddy[k];

        buddy_init(b, &h->frames, k, first, end[k], &h->boot_node_row[k]);
        if (h->latency_on)
            b->latency = &h->latency;
        for (unsigned i = 0; i < u->n; i++) {
            pages = usable_within(u, i, first, end[k], &at);
            if (pages)
                buddy_add(b, at, pages);
        }
    }
}

struct heap *heap_init(const struct knobs *k, const struct mem_range *r, unsigned n, u64 *need)
{
    u64 node_end[MAX_NODES], taken;
    struct usable u;
    struct heap *h;

    *need = 0;
    if (n == 0)
        return NULL;
    usable_init(&u, r, n);
    h = plain_will_do(&u) ? make_plain(&u) : make_in_window(&u);
    taken = h ? u.pages - usable_between(&u, 0, u.count) : u.pages;
    *need = (taken << PAGE_SHIFT) + HEAP_MIN_SPARE;
    if (*need > u.pages << PAGE_SHIFT)
        return NULL;
    if (!nodes_split(&u, (unsigned)k->nodes, node_end)) {
        *need = (taken << PAGE_SHIFT) + k->nodes * 2 * BLOCK_BYTES;
        return NULL;
    }

    config_init(h, k);
    h->frames.base = u.base;
    h->frames.count = u.count;
    h->plain_frames = h->owner_lock ? 0 : u.count;
    h->frames.at = heap_frame(h, 0);
    h->cpu_row = &h->boot_cpu_row;
    h->boot_rcu_batch.heap = h;
    h->rcu_batch = &h->boot_rcu_batch;
    h->carry = &h->boot_carry;
    spin_init(&h->caches_lock, LOCKCLASS_caches, "heap");
    nodes_init(h, &u, (unsigned)k->nodes, node_end);
    classes_init(h);
    if ((h->front == V_front_sheaf || h->front == V_front_magazine) && !sheaf_pools_make(h))
        return NULL;
    return h;
}

bool heap_cpus_init(struct heap *h, unsigned cpus)
{
    struct node_row *nodes;
    struct rcu_batch *batches;
    struct drain_cpu *drain;
    struct carry_cpu *carry;
    struct cpu_row *rows;

    CHECK_VALUES(cpus >= 1 && cpus <= MAX_CPUS && h->cpus == 0, cpus, h->cpus);
    h->region = table_alloc(h, PLAT_CPU_STRIDE * cpus);
    if (!h->region)
        return false;
    nodes = region_alloc(h, sizeof(*nodes) * h->nodes);
    rows = region_alloc(h, sizeof(*rows));
    batches = region_alloc(h, sizeof(*batches));
    drain = region_alloc(h, sizeof(*drain));
    carry = region_alloc(h, sizeof(*carry));
    CHECK(nodes && rows && batches && drain && carry);
    for (unsigned i = 0; i < cpus; i++) {
        ((struct rcu_batch *)cpu_part(batches, PLAT_CPU_STRIDE * i))->heap = h;
        h->cpu_node[i] = (u8)(i * h->nodes / cpus);
    }
    for (u32 i = 0; i < h->caches; i++)
        if (!cache_cpus_init(h->cache[i], cpus))
            return false; /* no sheaf for each CPU, or magazine */
    for (unsigned i = 0; i < h->nodes; i++) {
        nodes[i] = h->boot_node_row[i];
        h->buddy[i].row = &nodes[i];
    }
    *rows = h->boot_cpu_row;
    h->cpu_row = rows;
    h->rcu_batch = batches;
    h->drain = drain;
    h->carry = carry;
    for (u32 i = 0; i < h->caches; i++)
        h->cache[i]->carry = carry;
    h->cpus = cpus;
    CHECK_VALUES(pcp_init(h, cpus), cpus, h->region_used);
    if (h->latency_on || h->nodes > 1)
        h->pcp_orders = 0; /* by the short ways: pages_get() and pages_put() time what is left, and
                              look whose a block is */
    h->large_plain = h->pcp_orders && !h->matrix_on && h->stats_large != V_stats_large_global &&
                     h->poison != V_poison_full;
    return latency_init(h, cpus);
}
