/* maple.c: maple/<cpus>: what mapping and unmapping memory asks of the cache of a tree's nodes, after
 * will-it-scale's mmap1. One operation changes the tree: it fetches the worst case of nodes
 * beforehand, since in the middle of a change no allocation may fail; it needs a few; what it
 * replaces is freed by kfree_rcu, as readers walk the tree without a lock; the rest goes back.
 *
 * So most of what is fetched comes back at once, and what is freed comes back a grace period later,
 * in whole sheaves. Whether the one feeds the other is the question of barn-partial.toml.
 *
 * Each CPU has a tree of its own, as each process has, and always changes it at the same place: mmap1
 * maps and unmaps one area, so the leaf there is replaced each time, and its parents as often as a
 * change reaches them. What is freed is therefore what was last allocated, in about the same order:
 * a sheaf that comes back from RCU holds neighbours, and flushed to the slabs it empties them.
 * maple/scattered/<cpus> is the same with changes anywhere in the tree, where it does not.
 *
 * A CPU passes a quiescent state once in BENCH_BATCH changes, not after each: a process passes one at a
 * tick or a context switch, thousands of changes apart. So what it frees comes back in bursts, here of
 * about five sheaves. That is more than the slabs' lists keep for the next burst (slab.min_partial) and
 * less than a barn holds (barn.full): see experiments/README.md.
 *
 * The cache is made and the trees are planted before the round; a change replaces as many nodes as
 * it adds, so the trees stay as large as they are. After the round, while they stand, the cache is
 * shrunk; what lay in its front end, and how many slabs it held before and after, is told
 * (bench_figures).
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"

#define NODE_BYTES 256u
#define SHEAF      32u /* objects, as published */
#define WORST_CASE 13u /* nodes: three levels split, and the root */
#define MOST_USED  4u  /* a leaf, two levels above it, the root */

struct maple_node {
    struct rcu_head rcu;
    u64 signature; /* signed while it is in a tree */
    u8 rest[NODE_BYTES - sizeof(struct rcu_head) - sizeof(u64)];
};

static const struct kmem_cache_args maple_args = {
    .name = "bench-maple", .size = NODE_BYTES, .front_capacity = SHEAF};

/* -- the trees -- */

static bool plant(struct kmem_cache *cache, struct maple_node **tree)
{
    for (unsigned i = 0; i < MAPLE_NODES; i++) {
        tree[i] = kmem_cache_alloc(cache);
        if (!tree[i])
            return false;
        bench_sign(&tree[i]->signature);
    }
    return true;
}

static void fell(struct kmem_cache *cache, struct maple_node **tree)
{
    for (unsigned i = 0; i < MAPLE_NODES; i++)
        if (tree[i])
            CHECK(kmem_cache_free(cache, tree[i]));
}

static bool plant_all(struct bench_round *round)
{
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++)
        if (round->data[cpu] && !plant(round->shared, round->data[cpu]))
            return false;
    return true;
}

static bool fell_all(struct bench_round *round)
{
    u64 busy = 0;

    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++)
        if (round->data[cpu])
            fell(round->shared, round->data[cpu]);
    return kmem_cache_destroy(round->shared, &busy);
}

const char *maple_setup(const struct bench_test *test, struct bench_round *round)
{
    const char *why;

    (void)test;
    round->shared = kmem_cache_create(kheap, &maple_args);
    if (!round->shared)
        return bench_setup_short(round, 0);
    if (plant_all(round))
        return NULL;
    why = bench_setup_short(round, NODE_BYTES);
    return fell_all(round) ? why : "no memory for the trees, and some is lost";
}

static void shrink_here(void *cache)
{
    (void)kmem_cache_shrink(cache);
}

const char *maple_teardown(const struct bench_test *test, struct bench_round *round)
{
    u64 before[NR_CACHE_COUNTERS] = {0}, after[NR_CACHE_COUNTERS] = {0};
    struct kmem_cache *cache = round->shared;

    heap_kfree_rcu_barrier(kheap);
    cache_gauges(cache, before);
    plat_run_on_cpus(plat_all_cpus(), shrink_here, cache);
    cache_gauges(cache, after);
    bench_figures(
        test,
        (const struct telemetry_value[]){{"parked_bytes", (i64)before[CACHE_front_bytes]},
                                         {"slabs_held", (i64)before[CACHE_slabs]},
                                         {"slabs_held_after_shrink", (i64)after[CACHE_slabs]}},
        3);
    return fell_all(round) ? NULL : "the cache was busy at the end";
}

/* -- one change -- */

/* A node leaves the tree. */
static void replace(struct bench_cpu *me, struct maple_node *old)
{
    if (unlikely(!bench_signed(&old->signature)))
        me->damaged = true;
    me->frees++;
    (void)kfree_rcu(old, &old->rcu);
}

static bool change(struct kmem_cache *cache, struct bench_cpu *me, struct maple_node **tree,
                   bool scattered, u64 *random)
{
    struct sheaf *sheaf = kmem_cache_prefill_sheaf(cache, WORST_CASE);
    unsigned used = 1 + bench_random_below(random, MOST_USED);

    if (unlikely(!sheaf)) {
        bench_short(me, WORST_CASE * NODE_BYTES);
        return false;
    }
    for (unsigned i = 0; i < used; i++) {
        struct maple_node **slot = &tree[scattered ? bench_random_below(random, MAPLE_NODES) : i];
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
    return true;
}

void maple_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    struct maple_node **tree = round->data[plat_cpu_id()];
    bool scattered = test->kind == MAPLE_SCATTERED, more;
    u64 random = bench_random_seed();

    bench_start(round, me);
    do {
        u64 batch = bench_batch_of(round, me, BENCH_BATCH), done = 0;

        while (done < batch && change(round->shared, me, tree, scattered, &random))
            done++;
        more = bench_more_of(round, me, done) && done == batch;
    } while (more);
    bench_stop(me);
}
