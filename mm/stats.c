/* stats.c: what telemetry, the workloads and the report read of a heap. Relaxed loads of values
 * that their owners write; exact when nothing is in flight, never a lock.
 *
 * Statistics (allocation calls, free calls, live, bytes) come from where stats.slab= and
 * stats.large= keep them: the shared lines, or the CPUs' rows summed, or nowhere (0).
 *
 * Locking: none. Contexts: any. */
#include "mm_impl.h"

unsigned heap_cache_count(const struct heap *h)
{
    return __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);
}

struct kmem_cache *heap_cache(struct heap *h, unsigned id)
{
    struct kmem_cache *c;

    CHECK_VALUES(id < heap_cache_count(h), id, heap_cache_count(h));
    c = h->cache[id];
    return cache_alive(c) ? c : NULL;
}

const char *cache_name(const struct kmem_cache *c)
{
    return c->name;
}

bool cache_is_internal(const struct kmem_cache *c)
{
    return c->internal;
}

size_t cache_object_size(const struct kmem_cache *c)
{
    return c->size;
}

unsigned cache_front_capacity(const struct kmem_cache *c)
{
    return c->front == &front_magazine ? __atomic_load_n(&c->depot.size, __ATOMIC_RELAXED)
                                       : c->limit;
}

const u64 *cache_row(const struct kmem_cache *c, unsigned cpu)
{
    if (cpu >= MAX(c->heap->cpus, 1u))
        return NULL;
    return cache_cpu(c, cpu)->ctr;
}

u64 cache_row_allocs(const u64 *row)
{
    return counter_read(&row[CACHE_alloc_fast]) + counter_read(&row[CACHE_alloc_slow]) +
           counter_read(&row[CACHE_alloc_prefilled]);
}

u64 cache_row_frees(const u64 *row)
{
    return counter_read(&row[CACHE_free_fast]) + counter_read(&row[CACHE_free_slow]) +
           counter_read(&row[CACHE_free_rcu]);
}

const u64 *heap_node_row(const struct heap *h, unsigned node, unsigned cpu)
{
    const struct buddy *b = &h->buddy[node];

    CHECK_VALUES(node < h->nodes, node, h->nodes);
    if (cpu >= MAX(h->cpus, 1u))
        return NULL;
    return ((struct node_row *)cpu_part(b->row, PLAT_CPU_STRIDE * cpu))->ctr;
}

const u64 *heap_cpu_row(const struct heap *h, unsigned cpu)
{
    if (cpu >= MAX(h->cpus, 1u))
        return NULL;
    return ((struct cpu_row *)cpu_part(h->cpu_row, PLAT_CPU_STRIDE * cpu))->ctr;
}

unsigned heap_node_count(const struct heap *h)
{
    return h->nodes;
}

unsigned heap_cpu_node(const struct heap *h, unsigned cpu)
{
    CHECK_VALUES(cpu < MAX_CPUS, cpu, MAX_CPUS);
    return h->cpu_node[cpu];
}

u32 cache_slab_bytes(const struct kmem_cache *c)
{
    return (u32)PAGE_SIZE << c->order;
}

u32 cache_slab_objects(const struct kmem_cache *c)
{
    return c->capacity;
}

u32 cache_state_bytes(const struct kmem_cache *c)
{
    return c->objstate == V_objstate_header ? HEADER_BYTES : c->objstate == V_objstate_side ? 1 : 0;
}

static u64 cache_sum(const struct kmem_cache *c, enum cache_counter i)
{
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < MAX(c->heap->cpus, 1u); cpu++)
        sum += counter_read(&cache_cpu(c, cpu)->ctr[i]);
    return sum;
}

/* Of a dead cache too, or one that is just being made again: its counts stay, wherever its rows are. */
static u64 calls_sum(const struct kmem_cache *c, u64 (*calls)(const u64 *row))
{
    const char *base = __atomic_load_n(&c->cpu_base, __ATOMIC_ACQUIRE);
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < MAX(c->heap->cpus, 1u); cpu++)
        sum += calls(((const struct cache_cpu *)(const void *)(base + PLAT_CPU_STRIDE * cpu))->ctr);
    return sum;
}

/* Where the bytes of the cache's slabs are, from its counts of objects: the five add up to them. */
static void layer_gauges(const struct kmem_cache *c, u64 out[NR_CACHE_COUNTERS])
{
    u64 slabs = out[CACHE_slabs], objects = out[CACHE_slab_capacity];
    u64 each = c->capacity * ((u64)c->size + cache_state_bytes(c));

    out[CACHE_in_use_bytes] = out[CACHE_in_use] * c->size;
    out[CACHE_front_bytes] =
        (out[CACHE_front_objects] + out[CACHE_barn_objects] + out[CACHE_depot_objects] +
         out[CACHE_prefilled_objects] + out[CACHE_rcu_objects]) *
        c->size;
    out[CACHE_slab_free_bytes] = out[CACHE_slab_free_objects] * c->size;
    out[CACHE_state_bytes] = objects * cache_state_bytes(c);
    out[CACHE_waste_bytes] = slabs * (cache_slab_bytes(c) - each);
    out[CACHE_array_bytes] = (u64)c->cpu_bytes * c->heap->cpus;
}

/* Over the nodes of a cache. */
struct node_sums {
    u64 slabs, free, barn, fulls, empties, partials;
};

static struct node_sums node_sums(const struct kmem_cache *c)
{
    struct node_sums s = {0};

    for (unsigned i = 0; i < c->heap->nodes; i++) {
        const struct cache_node *n = &c->node[i];

        s.slabs += counter_read(&n->slabs);
        s.free += counter_read(&n->free_objects);
        s.barn += counter_read(&n->barn.objects);
        s.fulls += __atomic_load_n(&n->barn.fulls, __ATOMIC_RELAXED);
        s.empties += __atomic_load_n(&n->barn.empties, __ATOMIC_RELAXED);
        s.partials += __atomic_load_n(&n->barn.partial, __ATOMIC_RELAXED) != NULL;
    }
    return s;
}

void cache_gauges(const struct kmem_cache *c, u64 out[NR_CACHE_COUNTERS])
{
    struct node_sums at = node_sums(c);
    u64 slabs = at.slabs, free = at.free, barn = at.barn;
    u64 front = c->limit ? c->front->held(c) : 0, capacity = slabs * c->capacity;
    u64 done = cache_sum(c, CACHE_rcu_freed), given = cache_sum(c, CACHE_free_rcu);
    u64 rcu = given > done ? given - done : 0;
    u64 left = cache_sum(c, CACHE_alloc_prefilled) + cache_sum(c, CACHE_return_objects);
    u64 got = cache_sum(c, CACHE_prefill_objects), prefilled = got > left ? got - left : 0;
    u64 depot = counter_read(&c->depot.objects),
        held = free + front + barn + depot + prefilled + rcu;

    out[CACHE_slabs] = slabs;
    out[CACHE_slab_capacity] = capacity;
    out[CACHE_slab_free_objects] = free;
    out[CACHE_front_objects] = front;
    /* While others allocate, the three loads are of different moments: do not let a difference
     * wrap. */
    out[CACHE_rcu_objects] = rcu;
    out[CACHE_barn_objects] = barn;
    out[CACHE_barn_full] = at.fulls;
    out[CACHE_barn_empty] = at.empties;
    out[CACHE_barn_partial] = at.partials;
    out[CACHE_depot_objects] = depot;
    out[CACHE_depot_full] = __atomic_load_n(&c->depot.full.total, __ATOMIC_RELAXED);
    out[CACHE_depot_empty] = __atomic_load_n(&c->depot.empty.total, __ATOMIC_RELAXED);
    out[CACHE_mag_size] = __atomic_load_n(&c->depot.size, __ATOMIC_RELAXED);
    out[CACHE_prefilled_objects] = prefilled;
    out[CACHE_in_use] = capacity > held ? capacity - held : 0;
    layer_gauges(c, out);
}

void cache_gauge_limits(const struct kmem_cache *c, u64 out[NR_CACHE_COUNTERS])
{
    if (c->front != &front_sheaf || !c->limit)
        return;
    /* A barn's, as often as there are barns. */
    out[CACHE_barn_full] = (u64)c->heap->barn_full * c->heap->nodes;
    out[CACHE_barn_empty] = (u64)c->heap->barn_empty * c->heap->nodes;
    out[CACHE_barn_partial] = c->heap->barn_partial ? c->heap->nodes : 0;
}

/* Descriptors of its frames; those of holes have no memory of their own. */
static u64 node_descriptors(const struct heap *h, const struct buddy *b)
{
    u64 end = b->end == h->frames.count ? ~(u64)0 : b->end, sum = 0;

    for (u32 i = 0; i < h->spans; i++) {
        u64 from = MAX(h->span[i].first, b->first), to = MIN(h->span[i].end, end);

        sum += to > from ? to - from : 0;
    }
    return sum;
}

u64 heap_largest_block(const struct heap *h)
{
    for (unsigned order = MAX_ORDER + 1; order-- > 0;)
        for (unsigned node = 0; node < h->nodes; node++)
            if (h->buddy[node].blocks[order])
                return PAGE_SIZE << order;
    return 0;
}

void heap_node_gauges(const struct heap *h, unsigned node, u64 out[NR_NODE_COUNTERS])
{
    const struct buddy *b = &h->buddy[node];

    out[NODE_pcp_pages] = pcp_node_pages(h, node);
    out[NODE_pages_free] = counter_read(&b->pages_free) + out[NODE_pcp_pages];
    out[NODE_pages_total] = counter_read(&b->pages_total);
    out[NODE_pcp_bytes] = out[NODE_pcp_pages] * PAGE_SIZE;
    out[NODE_descriptor_bytes] = node_descriptors(h, b) * sizeof(struct frame);
}

u64 heap_pages_free(const struct heap *h)
{
    u64 sum = 0;

    for (unsigned node = 0; node < h->nodes; node++)
        sum += counter_read(&h->buddy[node].pages_free);
    return sum + pcp_pages(h);
}

static void small_statistics(const struct heap *h, u64 out[NR_GLOBAL_COUNTERS])
{
    u64 allocs = 0, frees = 0, bytes = 0;

    if (h->stats_slab == V_stats_slab_global) {
        allocs = counter_read(&h->stat_small.allocs);
        frees = counter_read(&h->stat_small.frees);
        bytes = counter_read(&h->stat_small.bytes);
    } else if (h->stats_slab == V_stats_slab_percpu) {
        for (u32 i = 0; i < heap_cache_count(h); i++) {
            if (h->cache[i]->internal) /* in nobody's books */
                continue;
            u64 a = calls_sum(h->cache[i], cache_row_allocs);
            u64 f = calls_sum(h->cache[i], cache_row_frees);

            allocs += a;
            frees += f;
            bytes += a > f ? (a - f) * h->cache[i]->size : 0;
        }
    }
    out[GLOBAL_small_allocs] = allocs;
    out[GLOBAL_small_frees] = frees;
    out[GLOBAL_small_bytes] = bytes;
}

static void large_statistics(const struct heap *h, u64 out[NR_GLOBAL_COUNTERS])
{
    u64 allocs = 0, frees = 0, in = 0, gone = 0;

    if (h->stats_large == V_stats_large_global) {
        allocs = counter_read(&h->stat_large.allocs);
        frees = counter_read(&h->stat_large.frees);
        in = counter_read(&h->stat_large.bytes);
    } else if (h->stats_large == V_stats_large_percpu) {
        for (unsigned cpu = 0; cpu < MAX(h->cpus, 1u); cpu++) {
            const u64 *ctr = heap_cpu_row(h, cpu);

            allocs += counter_read(&ctr[CPU_large_alloc]);
            frees += counter_read(&ctr[CPU_large_free]);
            in += counter_read(&ctr[CPU_stat_large_alloc_bytes]);
            gone += counter_read(&ctr[CPU_stat_large_free_bytes]);
        }
    }
    out[GLOBAL_large_allocs] = allocs;
    out[GLOBAL_large_frees] = frees;
    out[GLOBAL_large_bytes] = in > gone ? in - gone : 0;
}

void heap_global_gauges(const struct heap *h, u64 out[NR_GLOBAL_COUNTERS])
{
    u64 bad = 0;

    small_statistics(h, out);
    large_statistics(h, out);
    for (unsigned i = 0; i < NR_BADFREE_KINDS; i++)
        bad += counter_read(&h->badfree[i]);
    out[GLOBAL_bad_frees] = bad;
    out[GLOBAL_rcu_backlog] = rcu_backlog();
}

void cache_balance(const struct kmem_cache *c, struct balance *b)
{
    u64 g[NR_CACHE_COUNTERS] = {0};

    cache_gauges(c, g);
    b->capacity = g[CACHE_slab_capacity];
    b->slab_free = g[CACHE_slab_free_objects];
    b->front = g[CACHE_front_objects];
    b->in_use = g[CACHE_in_use];
    b->barn = g[CACHE_barn_objects] + g[CACHE_depot_objects];
    b->prefilled = g[CACHE_prefilled_objects];
    b->rcu = g[CACHE_rcu_objects];
    b->allocs = calls_sum(c, cache_row_allocs);
    b->frees = calls_sum(c, cache_row_frees);
    b->holds =
        b->capacity == b->slab_free + b->front + b->barn + b->prefilled + b->rcu + b->in_use &&
        b->allocs - b->frees == b->in_use;
}
