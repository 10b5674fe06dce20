/* sheaf_fixture.h: what the tests of the object front ends share: the arms, a cache of the maple workload's nodes,
 * and its figures. */
#ifndef TESTS_HOST_SHEAF_FIXTURE_H
#define TESTS_HOST_SHEAF_FIXTURE_H

#include "../../mm/sheaf_impl.h"
#include "heap_fixture.h"

static const char *const fronts[] = {
    "front=none",
    "front=none objstate=off stats.slab=off pcp=off",
    "front=bounded",
    "front=bounded objstate=side poison=full",
    "front=bounded bounded.objects=1 stats.slab=global owner=lock",
    "front=magazine",
    "front=magazine objstate=side poison=full mag.interval=1",
    "front=sheaf",
    "front=sheaf objstate=side poison=full prefill.from=slab",
    "front=sheaf objstate=off sheaf.cap=1 barn.full=1 barn.empty=0 barn.partial=off",
    "front=sheaf sheaf.cap=7 barn.refill=swap poison=full stats.slab=global",
    "front=sheaf barn.full=1 barn.empty=0 barn.refill=swap barn.partial=off slab.min_partial=0",
    "front=bounded typed=direct",
    "front=sheaf typed=direct",
    "front=magazine typed=direct objstate=side poison=full",
};

struct node { /* as the maple workload's */
    struct rcu_head rcu;
    u64 mark;
    u8 rest[232];
};
#define MARK 0x6d61726bu

static const struct kmem_cache_args node_args = {
    .name = "node", .size = sizeof(struct node), .front_capacity = 32};

static inline u64 gauge(const struct kmem_cache *c, enum cache_counter i)
{
    u64 g[NR_CACHE_COUNTERS] = {0};

    cache_gauges(c, g);
    return g[i];
}

static inline u64 total(const struct kmem_cache *c, enum cache_counter i)
{
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < c->heap->cpus; cpu++)
        sum += counter_read(&cache_row(c, cpu)[i]);
    return sum;
}

static inline struct node *node_new(struct kmem_cache *c)
{
    struct node *n = kmem_cache_alloc(c);

    if (n)
        n->mark = MARK;
    return n;
}

static inline bool node_free_rcu(struct kmem_cache *c, struct node *n)
{
    return heap_kfree_rcu(c->heap, n, &n->rcu);
}

static inline struct cache_cpu *mine(const struct kmem_cache *c)
{
    return cache_cpu_mine(c);
}

/* A cache that is gone leaves nothing behind, and what its sheaves were made of neither. */
static inline void gone(struct test_heap *t, struct kmem_cache *c)
{
    u64 busy = 0;

    EXPECT_TRUE(heap_good(t));
    EXPECT_TRUE(kmem_cache_destroy(c, &busy));
    EXPECT_EQ(busy, 0u);
    EXPECT_TRUE(heap_good(t));
}

static inline bool sheaf_heap(struct test_heap *t, const char *line, unsigned cpus,
                              struct kmem_cache **c)
{
    if (!heap_new(t, line, 32, cpus))
        return false;
    *c = kmem_cache_create(t->h, &node_args);
    return *c != NULL;
}

#endif
