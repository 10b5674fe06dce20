/* test_pcp.c: the per-CPU page caches: batches, parked blocks that cannot be freed twice, drains
 * that race with their owners, and shortage that finds what other CPUs have parked. */
#include "../../mm/fault_impl.h"
#include "heap_fixture.h"

static u64 node_counter(struct test_heap *t, enum node_counter i)
{
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < t->h->cpus; cpu++)
        sum += counter_read(&heap_node_row(t->h, 0, cpu)[i]);
    return sum;
}

TEST(limits_and_batches)
{
    static const unsigned limits[PCP_ORDERS] = {8, 8, 6, 4, 3, 2};
    struct test_heap t;
    void *p[64];

    REQUIRE(heap_new(&t, "pcp=on", 64, 1));
    for (unsigned order = 0; order < PCP_ORDERS; order++) {
        u64 calls = node_counter(&t, NODE_page_alloc_calls), frees;
        unsigned batch = MAX(limits[order] / 2, 1u);

        pcp_drain_all(t.h);
        EXPECT_EQ(t.h->pcp->stack[order].limit, limits[order]);
        for (unsigned i = 0; i < batch; i++)
            REQUIRE((p[i] = alloc_pages(t.h, order)) != NULL);
        EXPECT_EQ(node_counter(&t, NODE_page_alloc_calls) - calls, (u64)batch);
        EXPECT_EQ(t.h->pcp->stack[order].count, 0u);
        for (unsigned i = batch; i < 20; i++)
            REQUIRE((p[i] = alloc_pages(t.h, order)) != NULL);
        pcp_drain_all(t.h);
        frees = node_counter(&t, NODE_page_free_calls);
        for (unsigned i = 0; i < limits[order]; i++)
            EXPECT_TRUE(free_pages(t.h, p[i], order));
        EXPECT_EQ(node_counter(&t, NODE_page_free_calls), frees);
        EXPECT_EQ(pcp_pages(t.h), (u64)limits[order] << order);
        EXPECT_TRUE(free_pages(t.h, p[limits[order]], order));
        EXPECT_EQ(node_counter(&t, NODE_page_free_calls) - frees, (u64)batch);
        EXPECT_TRUE(heap_good(&t));
        for (unsigned i = limits[order] + 1; i < 20; i++)
            EXPECT_TRUE(free_pages(t.h, p[i], order));
    }
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(parked_blocks_count_as_free_and_refuse_a_second_free)
{
    struct test_heap t;
    u64 before[NR_NODE_COUNTERS] = {0}, after[NR_NODE_COUNTERS] = {0};
    void *p, *big;

    REQUIRE(heap_new(&t, "pcp=on", 32, 1));
    heap_node_gauges(t.h, 0, before);
    p = alloc_pages(t.h, 2);
    big = heap_kmalloc(t.h, 65536);
    REQUIRE(p && big);
    EXPECT_TRUE(free_pages(t.h, p, 2));
    EXPECT_TRUE(heap_kfree(t.h, big));
    heap_node_gauges(t.h, 0, after);
    EXPECT_GT(after[NODE_pcp_pages], 0u);
    EXPECT_EQ(after[NODE_pages_free], before[NODE_pages_free]);
    EXPECT_FALSE(free_pages(t.h, p, 2));
    EXPECT_FALSE(heap_kfree(t.h, big));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_free_page), 2u);
    EXPECT_FALSE(heap_kfree(t.h, (char *)big + PAGE_SIZE));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_free_page), 3u);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

struct rig {
    struct test_heap *t;
    unsigned rounds;
    u32 stop; /* atomic */
    void *slot[32];
};

static void trade(void *arg)
{
    struct rig *r = arg;
    u64 seed = test_seed() + plat_cpu_id() * 31 + 7;

    for (unsigned i = 0; i < r->rounds; i++) {
        unsigned order = test_random(&seed) % 7;
        size_t bytes = PAGE_SIZE << order;
        u64 *p = heap_kmalloc(r->t->h, MAX(bytes, (size_t)KMALLOC_MAX_SMALL + 1));

        if (p)
            p[0] = p[bytes / 8 - 1] = i;
        p = __atomic_exchange_n(&r->slot[test_random(&seed) % ARRAY_SIZE(r->slot)], p,
                                __ATOMIC_ACQ_REL);
        if (p)
            EXPECT_TRUE(heap_kfree(r->t->h, p));
        if (plat_cpu_id() == 0 && i % 16 == 0)
            pcp_drain_all(r->t->h);
    }
}

TEST(drains_race_with_owners)
{
    static const char *const lines[] = {"pcp=on", "pcp=on pcp.limits=1/1/1/1/1/1",
                                        "pcp=on lock=mcs", "pcp=on pcp.limits=32/32/32/32/32/32"};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        struct rig r = {.t = &t, .rounds = test_scale(20000)};

        REQUIRE(heap_new(&t, lines[a], 128, 4));
        plat_run_on_cpus(plat_all_cpus(), trade, &r);
        for (unsigned i = 0; i < ARRAY_SIZE(r.slot); i++)
            EXPECT_TRUE(heap_kfree(t.h, r.slot[i]));
        EXPECT_TRUE(heap_good(&t));
        pcp_drain_all(t.h);
        EXPECT_EQ(pcp_pages(t.h), 0u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

static void park(void *arg)
{
    struct rig *r = arg;
    void *p[8];
    unsigned n = 0;

    while (n < 8 && (p[n] = alloc_pages(r->t->h, 0)))
        n++;
    while (n)
        EXPECT_TRUE(free_pages(r->t->h, p[--n], 0));
}

/* All pages but those parked on other CPUs are taken: they must be found. */
TEST(shortage_finds_what_others_parked)
{
    struct test_heap t;
    struct rig r = {.t = &t};
    void **chain = NULL, **p;
    u64 got = 0, total;

    REQUIRE(heap_new(&t, "pcp=on", 16, 4));
    pcp_drain_all(t.h);
    total = t.h->buddy[0].pages_free;
    plat_run_on_cpus(plat_all_cpus(), park, &r);
    EXPECT_EQ(pcp_pages(t.h), 32u);
    while ((p = alloc_pages(t.h, 0))) {
        *p = chain;
        chain = p;
        got++;
    }
    EXPECT_EQ(got, total);
    EXPECT_GT(node_counter(&t, NODE_pcp_drain_pages), 0u);
    while (chain) {
        void **next = *chain;

        EXPECT_TRUE(free_pages(t.h, chain, 0));
        chain = next;
    }
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

static void shortage(void *arg)
{
    struct rig *r = arg;

    for (unsigned i = 0; i < r->rounds; i++) {
        void *p[160]; /* more than all memory: also a CPU that runs by itself gets short */
        unsigned n = 0;

        while (n < 160 && (p[n] = heap_kmalloc(r->t->h, 100000)))
            n++;
        while (n)
            EXPECT_TRUE(heap_kfree(r->t->h, p[--n]));
    }
}

/* A pop finds a drain about and the refill after it does not: the stack need not be empty. */
TEST(a_refill_looks_at_the_stack_again)
{
    struct test_heap t;
    void *p[4], *q;

    REQUIRE(heap_new(&t, "pcp=on", 16, 1));
    for (unsigned i = 0; i < 4; i++)
        REQUIRE((p[i] = alloc_pages(t.h, 0)) != NULL);
    pcp_drain_all(t.h);
    for (unsigned i = 0; i < 4; i++)
        EXPECT_TRUE(free_pages(t.h, p[i], 0));
    EXPECT_EQ(t.h->pcp->stack[0].count, 4u);
    fault_arm(FAULT_pcp_busy, 0, 3); /* the pops on the way to the refill */
    q = alloc_pages(t.h, 0);
    EXPECT_EQ(fault_struck(FAULT_pcp_busy), 3u);
    EXPECT_TRUE(q == p[3]);
    EXPECT_EQ(t.h->pcp->stack[0].count, 3u);
    EXPECT_TRUE(heap_good(&t));
    EXPECT_TRUE(free_pages(t.h, q, 0));
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* Every CPU is short, drains all others, and none waits for ever. */
TEST(all_short_at_once)
{
    struct test_heap t;
    struct rig r = {.t = &t, .rounds = test_scale(400)};

    REQUIRE(heap_new(&t, "pcp=on", 16, 4));
    plat_run_on_cpus(plat_all_cpus(), shortage, &r);
    EXPECT_GT(node_counter(&t, NODE_pcp_drain), 0u);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(illegal_limits_are_refused)
{
    static const char *const bad[] = {"pcp.limits=8",
                                      "pcp.limits=8/8/6/4/3/",
                                      "pcp.limits=8/8/6/4/3/0",
                                      "pcp.limits=8/8/6/4/3/33",
                                      "pcp.limits=8/8/6/4/3/2/1",
                                      "pcp.limits=a/8/6/4/3/2"};

    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        struct knobs k;
        struct knob_refusals r = {0};

        EXPECT_FALSE(knobs_parse(&k, bad[i], true, &r) && knobs_check(&k, &r));
        EXPECT_GE(r.count, 1u);
    }
}
