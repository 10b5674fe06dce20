/* maple.c: maple/<cpus>: what mapping and unmapping memory asks of the cache of a tree's nodes, after
 * will-it-scale's mmap1. One operation changes the tree: it fetches the worst case of nodes
 * beforehand, since in the middle of a change no allocation may fail; it needs a few; what it
 * replaces is freed by kfree_rcu, as readers walk the tree without a lock; the rest goes back.
 *
 * So most of what is fetched comes back at once, and what is freed comes back a grace period later,
 * in whole sheaves. Whether the one feeds the other is the question of barn-partial.toml.
 *
 * Each CPU has a tree of its own, as each process has. The cache is made before the round and
 * destroyed after it; in between it is shrunk, and how many slabs it held before and after is told
 * in an event ("shrink").
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"
#include "../telemetry/telemetry.h"

#define NODE_BYTES 256u
#define SHEAF      32u /* objects, as published */
#define WORST_CASE 13u /* nodes: three levels split, and the root */
#define MOST_USED  4u

struct maple_node {
    struct rcu_head rcu;
    u64 signature; /* signed while it is in a tree */
    u8 rest[NODE_BYTES - sizeof(struct rcu_head) - sizeof(u64)];
};

static const struct kmem_cache_args maple_args = {
    .name = "bench-maple", .size = NODE_BYTES, .front_capacity = SHEAF};

const char *maple_setup(const struct bench_test *test, struct bench_round *round)
{
    (void)test;
    round->shared = kmem_cache_create(kheap, &maple_args);
    return round->shared ? NULL : "the cache could not be made";
}

static void shrink_here(void *cache)
{
    (void)kmem_cache_shrink(cache);
}

static u64 slabs_held(const struct kmem_cache *cache)
{
    u64 g[NR_CACHE_COUNTERS] = {0};

    cache_gauges(cache, g);
    return g[CACHE_slabs];
}

const char *maple_teardown(const struct bench_test *test, struct bench_round *round)
{
    struct kmem_cache *cache = round->shared;
    u64 busy = 0, before, after;

    heap_kfree_rcu_barrier(kheap);
    before = slabs_held(cache);
    plat_run_on_cpus(plat_all_cpus(), shrink_here, cache);
    after = slabs_held(cache);
    telemetry_event("shrink", test->name,
                    (const struct telemetry_value[]){{"slabs_before", (i64)before},
                                                     {"slabs_after", (i64)after}},
                    2);
    klog("%s: %llu slabs held, %llu after shrink", test->name, (unsigned long long)before,
         (unsigned long long)after);
    return kmem_cache_destroy(cache, &busy) ? NULL : "the cache was busy at the end";
}

/* A node leaves the tree. */
static void replace(struct bench_cpu *me, struct maple_node *old)
{
    if (!old)
        return;
    if (unlikely(!bench_signed(&old->signature)))
        me->damaged = true;
    me->frees++;
    (void)kfree_rcu(old, &old->rcu);
}

static bool change(struct kmem_cache *cache, struct bench_cpu *me, struct maple_node **tree,
                   u64 *random)
{
    struct sheaf *sheaf = kmem_cache_prefill_sheaf(cache, WORST_CASE);
    unsigned used = 1 + bench_random_below(random, MOST_USED);

    if (unlikely(!sheaf)) {
        me->short_of_memory = true;
        return false;
    }
    for (unsigned i = 0; i < used; i++) {
        struct maple_node **slot = &tree[bench_random_below(random, MAPLE_NODES)];
        struct maple_node *n = kmem_cache_alloc_from_sheaf(cache, sheaf), *old = *slot;

        if (unlikely(!n)) { /* it was promised */
            me->damaged = true;
            break;
        }
        me->allocs++;
        bench_touch(n, NODE_BYTES);
        bench_sign(&n->signature);
        *slot = n;
        replace(me, old);
    }
    kmem_cache_return_sheaf(cache, sheaf);
    rcu_quiescent();
    return true;
}

void maple_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    struct maple_node **tree = round->data[plat_cpu_id()];
    u64 random = bench_random_seed(), batch = bench_batch(round), i;

    (void)test;
    bench_start(round, me);
    do {
        for (i = 0; i < batch; i++)
            if (unlikely(!change(round->shared, me, tree, &random)))
                break;
    } while (i == batch && bench_more(round, me));
    bench_stop(me);
    for (unsigned k = 0; k < MAPLE_NODES; k++) {
        replace(me, tree[k]);
        tree[k] = NULL;
    }
}
