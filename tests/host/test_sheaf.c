/* test_sheaf.c: the sheaf front end edge by edge, and each trap that others fell into, with the guard that a test
 * here fails without. Its barn: test_barn.c; private sheaves: test_prefill.c; kfree_rcu: test_rcufree.c. */
#include "sheaf_fixture.h"

TEST(capacities_are_the_published_ones)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    EXPECT_EQ(c->limit, 32u);
    for (unsigned i = 0; i < KMALLOC_CLASSES; i++) {
        u32 size = kmalloc_sizes[i];

        EXPECT_EQ(t.h->kmalloc[i].limit, size >= 4096   ? 4u
                                         : size >= 1024 ? 12u
                                         : size >= 256  ? 28u
                                                        : 60u);
    }
    gone(&t, c);
    heap_delete(&t);
}

/* A trap: the spare is neither empty nor full after a return. Both edges must see it. */
TEST(a_part_filled_spare_is_used_and_filled)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct node *n[64];
    struct sheaf *s;
    unsigned k = 0;

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    s = kmem_cache_prefill_sheaf(c, 20);
    REQUIRE(s != NULL);
    EXPECT_GE(kmem_cache_sheaf_size(s), 20u);
    while (kmem_cache_sheaf_size(s) > 5)
        REQUIRE((n[k++] = kmem_cache_alloc_from_sheaf(c, s)) != NULL);
    kmem_cache_return_sheaf(c, s);
    EXPECT_EQ(mine(c)->spare_count, 5u);
    EXPECT_TRUE(heap_good(&t));
    for (unsigned i = 0; i < k; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    EXPECT_EQ(mine(c)->count, k);
    for (unsigned i = 0; i < k; i++) /* main runs empty, then the spare's five serve */
        n[i] = kmem_cache_alloc(c);
    EXPECT_EQ(mine(c)->count, 0u);
    n[k] = kmem_cache_alloc(c);
    EXPECT_EQ(mine(c)->count, 4u);
    EXPECT_EQ(total(c, CACHE_barn_get_fail), 1u); /* the prefill's; the spare came first */
    for (unsigned i = 0; i <= k; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    EXPECT_TRUE(heap_good(&t));
    /* And the other edge: main full, and the spare neither full nor empty. */
    for (unsigned i = 0; i < 40; i++)
        REQUIRE((n[i] = kmem_cache_alloc(c)) != NULL);
    s = kmem_cache_prefill_sheaf(c, 1);
    REQUIRE(s != NULL);
    kmem_cache_return_sheaf(c, s);
    for (unsigned i = 0; i < 40; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    EXPECT_LE(mine(c)->count, 32u);
    EXPECT_LE(mine(c)->spare_count, 32u);
    gone(&t, c);
    heap_delete(&t);
}

/* -- the RCU sheaf -- */

TEST(a_full_rcu_sheaf_goes_to_the_barn_whole)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct node *n[32 * 12];

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    for (unsigned i = 0; i < ARRAY_SIZE(n); i++)
        REQUIRE((n[i] = node_new(c)) != NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(n); i++)
        EXPECT_TRUE(node_free_rcu(c, n[i]));
    EXPECT_EQ(gauge(c, CACHE_rcu_objects), (u64)ARRAY_SIZE(n));
    EXPECT_EQ(total(c, CACHE_rcu_sheaf), 12u);
    EXPECT_TRUE(heap_good(&t));
    rcu_barrier();
    EXPECT_EQ(gauge(c, CACHE_barn_full), 10u); /* and two found no place */
    EXPECT_EQ(total(c, CACHE_barn_refused_rcu), 2u);
    EXPECT_EQ(total(c, CACHE_flush_objects), 64u);
    EXPECT_EQ(total(c, CACHE_rcu_freed), (u64)ARRAY_SIZE(n));
    gone(&t, c);
    heap_delete(&t);
}

TEST(without_a_sheaf_kfree_rcu_goes_the_plain_way)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct node *n[40];

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    for (unsigned i = 0; i < 40; i++)
        REQUIRE((n[i] = node_new(c)) != NULL);
    cache_drain_cpu(c, 0);
    fault_arm(FAULT_no_empty, 0, 1000);
    fault_arm(FAULT_no_sheaf, 0, 1000);
    for (unsigned i = 0; i < 40; i++)
        EXPECT_TRUE(node_free_rcu(c, n[i]));
    fault_arm(FAULT_no_empty, 0, 0);
    fault_arm(FAULT_no_sheaf, 0, 0);
    EXPECT_EQ(total(c, CACHE_rcu_fallback), 40u);
    heap_kfree_rcu_barrier(t.h);
    EXPECT_EQ(gauge(c, CACHE_rcu_objects), 0u);
    gone(&t, c);
    heap_delete(&t);
}

TEST(a_drain_hands_in_the_rcu_sheaf)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct node *n;

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    REQUIRE((n = node_new(c)) != NULL);
    EXPECT_TRUE(node_free_rcu(c, n));
    EXPECT_EQ(total(c, CACHE_rcu_sheaf), 0u); /* one object: it gathers */
    cache_drain_cpu(c, 0);
    EXPECT_EQ(total(c, CACHE_rcu_sheaf), 1u);
    rcu_barrier();
    EXPECT_EQ(gauge(c, CACHE_rcu_objects), 0u);
    gone(&t, c);
    heap_delete(&t);
}

/* -- faults on every path, many times -- */

static void play_with(struct test_heap *t, struct kmem_cache *c, unsigned steps, u64 seed)
{
    enum { LIVE = 300 };
    struct node *live[LIVE] = {NULL};
    struct sheaf *s = NULL;

    for (unsigned i = 0; i < steps; i++) {
        unsigned at = (unsigned)(test_random(&seed) % LIVE),
                 what = (unsigned)(test_random(&seed) % 16);

        if (live[at]) {
            EXPECT_EQ(live[at]->mark, (u64)MARK);
            EXPECT_TRUE(what % 2 ? kmem_cache_free(c, live[at]) : node_free_rcu(c, live[at]));
            live[at] = NULL;
        } else if (what < 4 && s && kmem_cache_sheaf_size(s)) {
            live[at] = kmem_cache_alloc_from_sheaf(c, s);
            live[at]->mark = MARK;
        } else {
            live[at] = node_new(c);
        }
        if (what == 15 && s) {
            kmem_cache_return_sheaf(c, s);
            s = NULL;
        } else if (what == 14 && !s) {
            s = kmem_cache_prefill_sheaf(c, 1 + (unsigned)(test_random(&seed) % 40));
        } else if (what == 13 && s) {
            (void)!kmem_cache_refill_sheaf(c, &s, 1 + (unsigned)(test_random(&seed) % 40));
        }
        if (i % 512 == 0 && (test_random(&seed) & 3) == 0)
            kmem_cache_shrink(c);
        rcu_quiescent();
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (live[i])
            EXPECT_TRUE(node_free_rcu(c, live[i]));
    if (s)
        kmem_cache_return_sheaf(c, s);
    (void)t;
}

TEST(random_play_with_every_fault)
{
    static const enum fault faults[] = {FAULT_page,       FAULT_barn_busy, FAULT_barn_full,
                                        FAULT_no_empty,   FAULT_no_sheaf,  FAULT_drain,
                                        FAULT_refill_half};

    u32 struck[ARRAY_SIZE(faults)] = {0};

    for (unsigned a = 5; a < ARRAY_SIZE(fronts); a++)
        for (unsigned f = 0; f <= ARRAY_SIZE(faults); f++) {
            struct test_heap t;
            struct kmem_cache *c;
            unsigned rounds = 20;

            REQUIRE(sheaf_heap(&t, fronts[a], 1, &c));
            for (unsigned r = 0; r < rounds; r++) {
                if (f < ARRAY_SIZE(faults))
                    fault_arm(faults[f], r % 7, 1 + r % 5);
                play_with(&t, c, test_scale(600), test_seed() + r);
                if (f < ARRAY_SIZE(faults)) {
                    struck[f] += fault_struck(faults[f]);
                    fault_arm(faults[f], 0, 0);
                }
                EXPECT_TRUE(heap_good(&t));
            }
            gone(&t, c);
            heap_delete(&t);
        }
    for (unsigned f = 0; f < ARRAY_SIZE(faults); f++)
        EXPECT_GT(struck[f], 0u); /* no arm that never met it */
}

/* A trap: memory for an empty sheaf is had by a drain of this very CPU, after main was seen full. */
TEST(a_drain_under_the_hands_of_a_free_is_seen)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct node *n[33];

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    for (unsigned i = 0; i < 33; i++)
        REQUIRE((n[i] = node_new(c)) != NULL);
    kmem_cache_shrink(c); /* main and spare empty, no empty sheaf in the barn */
    for (unsigned i = 0; i < 32; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    EXPECT_EQ(mine(c)->count, 32u);
    EXPECT_NULL(mine(c)->spare);
    fault_arm(FAULT_drain, 0, 1);
    EXPECT_TRUE(kmem_cache_free(c, n[32]));
    EXPECT_EQ(fault_struck(FAULT_drain), 1u);
    EXPECT_EQ(mine(c)->count, 1u);
    EXPECT_NULL(mine(c)->spare); /* unchecked, a main of 32 that are not there any more */
    EXPECT_TRUE(heap_good(&t));
    gone(&t, c);
    heap_delete(&t);
}

/* The same, but there is no sheaf to be had in the end: main, seen full, is empty now. */
TEST(a_drain_and_then_no_sheaf_leaves_nothing_to_flush)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct node *n[33];

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    for (unsigned i = 0; i < 33; i++)
        REQUIRE((n[i] = node_new(c)) != NULL);
    kmem_cache_shrink(c);
    for (unsigned i = 0; i < 32; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    fault_arm(FAULT_drain, 0, 1);
    fault_arm(FAULT_no_sheaf, 0, 1);
    EXPECT_TRUE(kmem_cache_free(c, n[32]));
    EXPECT_EQ(fault_struck(FAULT_drain) + fault_struck(FAULT_no_sheaf), 2u);
    EXPECT_EQ(mine(c)->count, 1u);
    EXPECT_TRUE(heap_good(&t));
    gone(&t, c);
    heap_delete(&t);
}
