/* test_barn.c: what goes into the barn and comes out of it, its limits, and who empties it. */
#include "sheaf_fixture.h"

TEST(full_sheaves_go_to_the_barn_and_come_back)
{
    enum { N = 32 * 5 };
    struct test_heap t;
    struct kmem_cache *c;
    struct node *n[N];
    u64 refilled;

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    for (unsigned i = 0; i < N; i++)
        REQUIRE((n[i] = node_new(c)) != NULL);
    cache_drain_cpu(c, 0); /* what a refill fetched beyond them */
    for (unsigned i = 0; i < N; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    EXPECT_EQ(gauge(c, CACHE_barn_full), 3u); /* main and spare hold the rest */
    EXPECT_EQ(gauge(c, CACHE_front_objects), 64u);
    EXPECT_EQ(gauge(c, CACHE_barn_objects), 96u);
    EXPECT_EQ(total(c, CACHE_barn_put), 3u);
    EXPECT_FALSE(kmem_cache_free(c, n[0])); /* lies in the barn */
    EXPECT_TRUE(heap_good(&t));
    refilled = total(c, CACHE_refill_objects);
    for (unsigned i = 0; i < N; i++)
        REQUIRE((n[i] = node_new(c)) != NULL);
    EXPECT_EQ(total(c, CACHE_refill_objects), refilled);
    EXPECT_EQ(total(c, CACHE_barn_get), 3u);
    for (unsigned i = 0; i < N; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    gone(&t, c);
    heap_delete(&t);
}

TEST(a_full_barn_makes_the_spare_be_flushed)
{
    enum { N = 32 * 20 };
    struct test_heap t;
    struct kmem_cache *c;
    static struct node *n[N];

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    for (unsigned i = 0; i < N; i++)
        REQUIRE((n[i] = node_new(c)) != NULL);
    cache_drain_cpu(c, 0); /* what a refill fetched beyond them */
    for (unsigned i = 0; i < N; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    EXPECT_EQ(gauge(c, CACHE_barn_full), 10u);
    EXPECT_EQ(total(c, CACHE_barn_refused_full), 8u);
    EXPECT_EQ(total(c, CACHE_flush_objects),
              8 * 32u); /* flush/fail is the capacity, as published */
    gone(&t, c);
    heap_delete(&t);
}

/* The barn keeps a few empty sheaves; the others go back to memory. */
TEST(empty_sheaves_beyond_the_limit_go_back)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(sheaf_heap(&t, "front=sheaf barn.empty=2", 1, &c));
    for (unsigned i = 0; i < 5; i++) {
        struct sheaf *s = sheaf_alloc(c, c->limit);

        REQUIRE(s != NULL);
        sheaf_discard(c, s);
    }
    EXPECT_EQ(gauge(c, CACHE_barn_empty), 2u);
    EXPECT_EQ(total(c, CACHE_barn_refused_empty), 3u);
    gone(&t, c);
    heap_delete(&t);
}

TEST(limits_are_told_of_caches_with_a_barn_only)
{
    u64 limit[NR_CACHE_COUNTERS] = {0};
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(sheaf_heap(&t, "front=sheaf barn.full=7 barn.empty=3", 1, &c));
    cache_gauge_limits(c, limit);
    EXPECT_EQ(limit[CACHE_barn_full], 7u);
    EXPECT_EQ(limit[CACHE_barn_empty], 3u);
    EXPECT_EQ(limit[CACHE_barn_partial], 1u);
    gone(&t, c);
    heap_delete(&t);
    memset(limit, 0, sizeof(limit));
    REQUIRE(sheaf_heap(&t, "front=bounded", 1, &c));
    cache_gauge_limits(c, limit);
    for (unsigned i = 0; i < NR_CACHE_COUNTERS; i++)
        EXPECT_EQ(limit[i], 0u);
    gone(&t, c);
    heap_delete(&t);
}

/* A trap: a shortage must find what sheaves and barns hold. */
TEST(shortage_drains_sheaves_and_barns)
{
    struct test_heap t;
    struct kmem_cache *c;
    void *p[64];
    unsigned got = 0;

    REQUIRE(heap_new(&t, "front=sheaf slab.min_partial=1000 barn.full=1000", 16, 1));
    c = kmem_cache_create(t.h, &node_args);
    REQUIRE(c != NULL);
    {
        static struct node *n[16000];
        unsigned count = 0;

        while (count < 16000 && (n[count] = node_new(c)))
            count++;
        EXPECT_GT(count, 10000u);
        for (unsigned i = 0; i < count; i++)
            EXPECT_TRUE(kmem_cache_free(c, n[i]));
    }
    EXPECT_GT(gauge(c, CACHE_barn_objects), 9000u);
    while (got < 64 && (p[got] = heap_kmalloc(t.h, 1 << 20)))
        got++;
    EXPECT_GE(got, 10u);
    while (got)
        heap_kfree(t.h, p[--got]);
    EXPECT_TRUE(heap_good(&t));
    gone(&t, c);
    heap_delete(&t);
}

struct crowd {
    struct test_heap *t;
    struct kmem_cache *c;
    unsigned steps;
    struct node *slot[64]; /* atomic: nodes that any CPU may free */
};

static void crowd_part(void *arg)
{
    struct crowd *w = arg;
    u64 seed = test_seed() * 31 + plat_cpu_id() * 7919 + 1;

    for (unsigned i = 0; i < w->steps; i++) {
        struct sheaf *s = kmem_cache_prefill_sheaf(w->c, 1 + (unsigned)(test_random(&seed) % 36));
        unsigned use = (unsigned)(test_random(&seed) % 5);

        for (unsigned k = 0; s && k < use && kmem_cache_sheaf_size(s); k++) {
            struct node *n = kmem_cache_alloc_from_sheaf(w->c, s), *old;

            n->mark = MARK;
            old = __atomic_exchange_n(&w->slot[test_random(&seed) % 64], n, __ATOMIC_ACQ_REL);
            if (old) {
                EXPECT_EQ(old->mark, (u64)MARK);
                EXPECT_TRUE(i % 3 ? node_free_rcu(w->c, old) : kmem_cache_free(w->c, old));
            }
        }
        if (s)
            kmem_cache_return_sheaf(w->c, s);
        if (i % 1024 == 7)
            kmem_cache_shrink(w->c);
        EXPECT_LE(__atomic_load_n(&w->c->node[0].barn.fulls, __ATOMIC_RELAXED), w->t->h->barn_full);
        rcu_quiescent();
    }
}

TEST(a_crowd_shares_a_barn)
{
    for (unsigned a = 5; a < ARRAY_SIZE(fronts); a++)
        for (unsigned cpus = 2; cpus <= 4; cpus += 2) {
            struct test_heap t;
            struct crowd w = {.t = &t, .steps = test_scale(6000)};

            REQUIRE(sheaf_heap(&t, fronts[a], cpus, &w.c));
            plat_run_on_cpus(plat_all_cpus(), crowd_part, &w);
            for (unsigned i = 0; i < 64; i++)
                if (w.slot[i])
                    EXPECT_TRUE(node_free_rcu(w.c, w.slot[i]));
            EXPECT_TRUE(heap_good(&t));
            heap_kfree_rcu_barrier(t.h);
            EXPECT_EQ(gauge(w.c, CACHE_rcu_objects), 0u);
            gone(&t, w.c);
            heap_delete(&t);
        }
}
