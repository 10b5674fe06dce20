/* test_latency.c: the histograms and the matrix: each bucket's edges, how many calls are timed, which
 * levels a call reaches, who freed what; and the bytes of the layers, which must add up. */
#include "heap_fixture.h"

TEST(buckets_meet_at_their_edges)
{
    u64 next = 0;

    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        u64 low = i < 4 ? i : (u64)(4 + i % 4) << (i / 4 - 1); /* docs/PROTOCOL.md */

        EXPECT_EQ(low, next);
        EXPECT_EQ(latency_bucket(low), i);
        next = i + 1 < 4 ? i + 1 : (u64)(4 + (i + 1) % 4) << ((i + 1) / 4 - 1);
        EXPECT_EQ(latency_bucket(next - 1), i);
    }
    EXPECT_EQ(latency_bucket(next), LATENCY_BUCKETS - 1);
    EXPECT_EQ(latency_bucket(~(u64)0), LATENCY_BUCKETS - 1);
}

static u64 samples(struct test_heap *t, enum latency_level level, enum latency_call call)
{
    struct latency_hist hist;
    u64 n = heap_latency(t->h, level, call, &hist);

    EXPECT_EQ(hist.max != 0, n != 0);
    return n;
}

TEST(one_call_in_so_many_is_timed_at_each_level)
{
    static const char *const lines[] = {
        "latency=on latency.every=5 front=none pcp=off",
        "latency=on latency.every=5 front=bounded",
        "latency=on latency.every=5 objstate=side front=bounded poison=full",
        "latency=on latency.every=5 objstate=off front=none",
        "latency=on latency.every=5 front=sheaf stats.slab=global",
        "latency=on latency.every=5 front=magazine objstate=side",
    };

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        bool none, pcp;
        void *p;

        REQUIRE(heap_new(&t, lines[a], 32, 1));
        none = t.h->front == V_front_none;
        pcp = t.h->pcp != NULL;
        EXPECT_TRUE(heap_observed(t.h));
        REQUIRE((p = heap_kmalloc(t.h, 64)) != NULL); /* from here on nothing has to grow */
        EXPECT_TRUE(heap_kfree(t.h, p));
        heap_observe_reset(t.h);
        for (unsigned i = 0; i < 1000; i++) {
            REQUIRE((p = heap_kmalloc(t.h, 64)) != NULL);
            EXPECT_TRUE(heap_kfree(t.h, p));
        }
        EXPECT_EQ(samples(&t, LATENCY_front, LATENCY_ALLOC), 200u);
        EXPECT_EQ(samples(&t, LATENCY_front, LATENCY_FREE), 200u);
        EXPECT_EQ(samples(&t, LATENCY_slab, LATENCY_ALLOC), none ? 200u : 0u);
        EXPECT_EQ(samples(&t, LATENCY_slab, LATENCY_FREE), none ? 200u : 0u);
        EXPECT_EQ(samples(&t, LATENCY_buddy, LATENCY_ALLOC), 0u);
        heap_observe_reset(t.h);
        for (unsigned i = 0; i < 1000; i++) {
            REQUIRE((p = heap_kmalloc(t.h, 65536)) != NULL);
            EXPECT_TRUE(heap_kfree(t.h, p));
            REQUIRE((p = alloc_pages(t.h, 3)) != NULL);
            EXPECT_TRUE(free_pages(t.h, p, 3));
        }
        EXPECT_EQ(samples(&t, LATENCY_front, LATENCY_ALLOC), 0u);
        EXPECT_EQ(samples(&t, LATENCY_pages, LATENCY_ALLOC), pcp ? 400u : 0u);
        EXPECT_EQ(samples(&t, LATENCY_pages, LATENCY_FREE), pcp ? 400u : 0u);
        EXPECT_EQ(samples(&t, LATENCY_buddy, LATENCY_FREE), pcp ? 0u : 400u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

static u64 sum(const struct kmem_cache *c, const enum cache_counter *which, unsigned n)
{
    u64 total = 0;

    for (unsigned i = 0; i < n; i++)
        total += counter_read(&cache_row(c, 0)[which[i]]);
    return total;
}

/* Every visit is timed, and counted by what it was for. */
TEST(visits_to_barn_and_depot_are_timed)
{
    static const enum cache_counter barn_alloc[] = {CACHE_barn_get, CACHE_barn_get_fail};
    static const enum cache_counter barn_free[] = {CACHE_barn_get_empty, CACHE_barn_get_empty_fail,
                                                   CACHE_barn_put, CACHE_barn_refused_full,
                                                   CACHE_barn_refused_no_empty};
    static const enum cache_counter depot_alloc[] = {CACHE_depot_get};
    static const enum cache_counter depot_free[] = {CACHE_depot_get_empty,
                                                    CACHE_depot_get_empty_fail, CACHE_mag_new};
    static void *p[3000];

    for (unsigned magazines = 0; magazines < 2; magazines++) {
        struct kmem_cache *c;
        struct test_heap t;
        u64 alloc, free;

        REQUIRE(heap_new(&t,
                         magazines ? "latency=on latency.every=1 front=magazine"
                                   : "latency=on latency.every=1 front=sheaf barn.full=3",
                         32, 1));
        c = &t.h->kmalloc[2];
        heap_observe_reset(t.h);
        for (unsigned turn = 0; turn < 2; turn++) {
            for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
                REQUIRE((p[i] = kmem_cache_alloc(c)) != NULL);
            for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
                EXPECT_TRUE(kmem_cache_free(c, p[i]));
        }
        alloc = magazines ? sum(c, depot_alloc, ARRAY_SIZE(depot_alloc))
                          : sum(c, barn_alloc, ARRAY_SIZE(barn_alloc));
        free = magazines ? sum(c, depot_free, ARRAY_SIZE(depot_free))
                         : sum(c, barn_free, ARRAY_SIZE(barn_free));
        EXPECT_GE(alloc, 3u);
        EXPECT_GE(free, 3u);
        EXPECT_EQ(samples(&t, LATENCY_front, LATENCY_ALLOC),
                  2 * ARRAY_SIZE(p)); /* and no sheaf's */
        EXPECT_EQ(samples(&t, LATENCY_front, LATENCY_FREE), 2 * ARRAY_SIZE(p));
        EXPECT_EQ(samples(&t, LATENCY_barn, LATENCY_ALLOC), alloc);
        EXPECT_EQ(samples(&t, LATENCY_barn, LATENCY_FREE), free);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

TEST(off_means_off)
{
    struct latency_hist hist;
    struct test_heap t;
    void *p;

    REQUIRE(heap_new(&t, "", 32, 2));
    EXPECT_FALSE(heap_observed(t.h));
    EXPECT_TRUE(heap_matrix_row(t.h, 0) == NULL);
    REQUIRE((p = heap_kmalloc(t.h, 64)) != NULL);
    EXPECT_TRUE(heap_kfree(t.h, p));
    heap_observe_reset(t.h);
    EXPECT_EQ(heap_latency(t.h, LATENCY_front, LATENCY_ALLOC, &hist), 0u);
    EXPECT_EQ(t.h->kmalloc[2].mode, 0u);
    heap_delete(&t);
}

/* Each of 4 CPUs allocates; then each frees what the next one allocated. */
#define EACH 300u

struct handover {
    struct test_heap *t;
    size_t bytes;
    void *object[4][EACH];
    u32 bad;
};

static void make(void *arg)
{
    struct handover *o = arg;
    unsigned cpu = plat_cpu_id();

    for (unsigned i = 0; i < EACH; i++)
        o->object[cpu][i] = heap_kmalloc(o->t->h, o->bytes);
}

static void unmake(void *arg)
{
    struct handover *o = arg;
    unsigned other = (plat_cpu_id() + 1) % 4;

    for (unsigned i = 0; i < EACH; i++) {
        void *p = o->object[other][i];

        if (!p || !(i % 3 ? heap_kfree(o->t->h, p) : heap_kfree_rcu(o->t->h, p, p)))
            __atomic_fetch_add(&o->bad, 1, __ATOMIC_RELAXED);
    }
}

TEST(the_matrix_counts_every_free_by_both_cpus)
{
    static const char *const lines[] = {
        "matrix=on front=none pcp=off owner=lock stats.slab=global",
        "matrix=on latency=on latency.every=1 front=bounded",
        "matrix=on poison=full",
        "matrix=on front=sheaf",
        "matrix=on front=magazine latency=on poison=free",
    };
    static struct handover o;

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++)
        for (size_t bytes = 64; bytes <= 16384; bytes *= 256) {
            struct test_heap t;

            REQUIRE(heap_new(&t, lines[a], 64, 4));
            memset(&o, 0, sizeof(o));
            o.t = &t;
            o.bytes = bytes;
            plat_run_on_cpus(plat_all_cpus(), make, &o);
            plat_run_on_cpus(plat_all_cpus(), unmake, &o);
            EXPECT_EQ(o.bad, 0u);
            for (unsigned cpu = 0; cpu < 4; cpu++)
                for (unsigned from = 0; from < MAX_CPUS; from++)
                    EXPECT_EQ(heap_matrix_row(t.h, cpu)[from], from == (cpu + 1) % 4 ? EACH : 0u);
            EXPECT_TRUE(heap_good(&t));
            heap_delete(&t);
        }
}

TEST(a_refused_free_is_not_counted)
{
    struct test_heap t;
    u64 sum = 0;
    char *p;

    REQUIRE(heap_new(&t, "matrix=on", 32, 1));
    REQUIRE((p = heap_kmalloc(t.h, 64)) != NULL);
    EXPECT_FALSE(heap_kfree(t.h, p + 16));
    EXPECT_FALSE(heap_kfree_rcu(t.h, p + 16, (struct rcu_head *)(void *)(p + 16)));
    EXPECT_TRUE(heap_kfree(t.h, p));
    EXPECT_FALSE(heap_kfree(t.h, p));
    EXPECT_FALSE(heap_kfree_rcu(t.h, p, (struct rcu_head *)(void *)p));
    for (unsigned from = 0; from < MAX_CPUS; from++)
        sum += heap_matrix_row(t.h, 0)[from];
    EXPECT_EQ(sum, 1u);
    heap_delete(&t);
}

TEST(the_layers_bytes_add_up_to_the_slabs)
{
    static const char *const lines[] = {
        "front=none",   "front=bounded", "front=bounded objstate=side",
        "objstate=off", "poison=full",   "poison=full objstate=side",
    };
    static void *p[500];

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;

        REQUIRE(heap_new(&t, lines[a], 64, 2));
        for (unsigned class = 0; class < KMALLOC_CLASSES; class ++) {
            struct kmem_cache *c = &t.h->kmalloc[class];
            u64 g[NR_CACHE_COUNTERS] = {0};

            for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
                REQUIRE((p[i] = kmem_cache_alloc(c)) != NULL);
            for (unsigned i = 0; i < ARRAY_SIZE(p) / 2; i++)
                EXPECT_TRUE(kmem_cache_free(c, p[i]));
            cache_gauges(c, g);
            EXPECT_EQ(g[CACHE_in_use_bytes], (u64)c->size * ARRAY_SIZE(p) / 2);
            EXPECT_EQ(g[CACHE_in_use_bytes] + g[CACHE_front_bytes] + g[CACHE_slab_free_bytes] +
                          g[CACHE_state_bytes] + g[CACHE_waste_bytes],
                      g[CACHE_slabs] * cache_slab_bytes(c));
            EXPECT_LE(g[CACHE_waste_bytes], g[CACHE_slabs] * cache_slab_bytes(c) / 2);
            for (unsigned i = ARRAY_SIZE(p) / 2; i < ARRAY_SIZE(p); i++)
                EXPECT_TRUE(kmem_cache_free(c, p[i]));
        }
        heap_delete(&t);
    }
}
