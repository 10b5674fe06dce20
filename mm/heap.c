/* heap.c: builds a heap from ranges of memory, and gives it its CPUs.
 *
 * Descriptors for all frames between the lowest and the highest address stand at the start of the
 * largest range; frames in no range, and those of the descriptors, are RESERVED. Until
 * heap_cpus_init() every cache counts on a row of its own that has no room for objects.
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

/* Bytes at the start of the home range that the heap itself needs. */
static u64 own_bytes(u64 frames)
{
    return HEAP_BYTES + round_up(frames * sizeof(struct frame), (u64)PAGE_SIZE);
}

/* The ranges, and what the heap itself takes of one. */
struct usable {
    uintptr_t base;
    u64 count; /* frames, holes among them */
    const struct mem_range *range;
    unsigned n, home;
    u64 own; /* frames at the start of home */
};

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

/* end[k]: the frame after the last of node k. False: one would have no memory. */
static bool nodes_split(const struct usable *u, unsigned nodes, u64 *end)
{
    u64 first = 0;

    for (unsigned k = 0; k < nodes; k++) {
        u64 left = usable_between(u, first, u->count), share = left / (nodes - k), to = first;
        u64 got, before = 0;

        if (k + 1 == nodes)
            to = u->count;
        while (to < u->count && (got = usable_between(u, first, to)) < share) {
            before = got;
            to = MIN(to + BLOCK_FRAMES, u->count);
        }
        /* What is nearer: with the last block, or without. */
        if (k + 1 < nodes && before && usable_between(u, first, to) - share > share - before)
            to = round_down(to - 1, BLOCK_FRAMES);
        if (usable_between(u, first, to) == 0)
            return false;
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
    unsigned home = 0;
    uintptr_t base, end;
    struct usable usable;
    u64 frames, own, node_end[MAX_NODES];
    struct heap *h;

    *need = 0;
    if (n == 0)
        return NULL;
    for (unsigned i = 1; i < n; i++)
        if (r[i].pages > r[home].pages)
            home = i;
    base = round_down((uintptr_t)r[0].base, (uintptr_t)BLOCK_BYTES);
    end = (uintptr_t)r[n - 1].base + (r[n - 1].pages << PAGE_SHIFT);
    frames = (end - base) >> PAGE_SHIFT;
    own = own_bytes(frames);
    *need = own + HEAP_MIN_SPARE;
    if (r[home].pages << PAGE_SHIFT < *need)
        return NULL;
    usable = (struct usable){base, frames, r, n, home, own >> PAGE_SHIFT};
    if (!nodes_split(&usable, (unsigned)k->nodes, node_end)) {
        *need = own + k->nodes * 2 * BLOCK_BYTES;
        return NULL;
    }

    h = r[home].base;
    memset(h, 0, own);
    config_init(h, k);
    h->frames.base = base;
    h->frames.count = frames;
    h->plain_frames = h->owner_lock ? 0 : frames;
    h->frames.at = heap_frame(h, 0);
    for (u64 i = 0; i < frames; i++)
        frame_tag_store(&h->frames.at[i], FRAME_RESERVED);
    h->cpu_row = &h->boot_cpu_row;
    h->boot_rcu_batch.heap = h;
    h->rcu_batch = &h->boot_rcu_batch;
    h->carry = &h->boot_carry;
    spin_init(&h->caches_lock, LOCKCLASS_caches, "heap");
    nodes_init(h, &usable, (unsigned)k->nodes, node_end);
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
