/* test_prefill.c: private sheaves: that they cannot fail, and what fills them. */
#include "sheaf_fixture.h"

TEST(a_prefilled_sheaf_cannot_fail)
{
    static const unsigned wanted[] = {1, 2, 31, 32, 33, 100, 253, 1000, 3000};

    for (unsigned a = 0; a < ARRAY_SIZE(fronts); a++)
        for (unsigned w = 0; w < ARRAY_SIZE(wanted); w++) {
            struct test_heap t;
            struct kmem_cache *c;
            struct sheaf *s;
            static struct node *n[3000];

            REQUIRE(sheaf_heap(&t, fronts[a], 1, &c));
            s = kmem_cache_prefill_sheaf(c, wanted[w]);
            REQUIRE(s != NULL);
            EXPECT_EQ(gauge(c, CACHE_prefilled_objects), kmem_cache_sheaf_size(s));
            fault_arm(FAULT_page, 0, 1000000);
            for (unsigned i = 0; i < wanted[w]; i++)
                REQUIRE((n[i] = kmem_cache_alloc_from_sheaf(c, s)) != NULL);
            fault_arm(FAULT_page, 0, 0);
            EXPECT_EQ(gauge(c, CACHE_in_use), wanted[w]);
            EXPECT_TRUE(heap_good(&t));
            EXPECT_TRUE(kmem_cache_refill_sheaf(c, &s, 3));
            EXPECT_GE(kmem_cache_sheaf_size(s), 3u);
            EXPECT_TRUE(kmem_cache_refill_sheaf(c, &s, 300)); /* larger than it is: another */
            EXPECT_GE(kmem_cache_sheaf_size(s), 300u);
            EXPECT_EQ(gauge(c, CACHE_prefilled_objects), kmem_cache_sheaf_size(s));
            kmem_cache_return_sheaf(c, s);
            EXPECT_EQ(gauge(c, CACHE_prefilled_objects), 0u);
            for (unsigned i = 0; i < wanted[w]; i++)
                EXPECT_TRUE(kmem_cache_free(c, n[i]));
            gone(&t, c);
            heap_delete(&t);
        }
}

/* A trap: a fill that ends half-way. What it has must be flushed before the sheaf is freed. */
/* On one CPU nobody else can be asked. All free objects lie in the CPU's sheaves, which an oversize prefill does
 * not look into: the reclaim in the middle of it brings them to their slab, which is found then. */
TEST(what_a_reclaim_brought_to_the_slabs_is_found)
{
    const struct kmem_cache_args args = {.name = "last", .size = 64, .front_capacity = 16};
    struct test_heap t;
    struct kmem_cache *c;
    struct sheaf *held, *s;
    void *p[24];

    REQUIRE(heap_new(&t, "front=sheaf pcp=off", 32, 1));
    REQUIRE((c = kmem_cache_create(t.h, &args)) != NULL);
    REQUIRE((held = kmem_cache_prefill_sheaf(c, 24)) !=
            NULL); /* keeps a slab of such sheaves alive */
    for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
        REQUIRE((p[i] = kmem_cache_alloc(c)) != NULL);
    while (alloc_pages(t.h, 0))
        ;
    while (c->node[0].free_objects)
        REQUIRE(kmem_cache_alloc(c) != NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
        REQUIRE(kmem_cache_free(c, p[i]));
    EXPECT_EQ(c->node[0].free_objects, 0u);
    s = kmem_cache_prefill_sheaf(c, 20);
    EXPECT_TRUE(s != NULL);
    if (s)
        kmem_cache_return_sheaf(c, s);
    kmem_cache_return_sheaf(c, held);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(a_half_filled_sheaf_is_flushed_before_it_is_freed)
{
    for (unsigned a = 0; a < ARRAY_SIZE(fronts); a++)
        for (unsigned n = 20; n <= 200; n += 180) {
            struct test_heap t;
            struct kmem_cache *c;
            struct sheaf *s;

            REQUIRE(sheaf_heap(&t, fronts[a], 1, &c));
            fault_arm(FAULT_refill_half, 0, 1);
            s = kmem_cache_prefill_sheaf(c, MIN(n, c->limit && n < 100 ? c->limit : n));
            EXPECT_EQ(fault_struck(FAULT_refill_half), 1u);
            if (s) /* half of a sheaf was enough */
                kmem_cache_return_sheaf(c, s);
            else
                EXPECT_EQ(total(c, CACHE_prefill_fail), 1u);
            fault_arm(FAULT_refill_half, 0, 0);
            EXPECT_EQ(gauge(c, CACHE_prefilled_objects), 0u);
            EXPECT_EQ(gauge(c, CACHE_in_use), 0u);
            gone(&t, c);
            heap_delete(&t);
        }
}

/* The n-th page allocation fails, for each n: NULL and nothing lost. */
TEST(every_page_allocation_may_fail)
{
    for (unsigned a = 0; a < ARRAY_SIZE(fronts); a++)
        for (unsigned nth = 0; nth < 12; nth++) {
            struct test_heap t;
            struct kmem_cache *c;
            struct node *n[200];
            struct sheaf *s;
            unsigned got = 0;

            REQUIRE(sheaf_heap(&t, fronts[a], 1, &c));
            fault_arm(FAULT_page, nth, 2);
            s = kmem_cache_prefill_sheaf(c, 150);
            for (unsigned i = 0; i < 200; i++) {
                n[got] = s && i < 100 ? kmem_cache_alloc_from_sheaf(c, s) : node_new(c);
                got += n[got] != NULL;
            }
            for (unsigned i = 0; i < got; i++)
                EXPECT_TRUE(i % 2 ? kmem_cache_free(c, n[i]) : node_free_rcu(c, n[i]));
            if (s)
                kmem_cache_return_sheaf(c, s);
            fault_arm(FAULT_page, 0, 0);
            heap_kfree_rcu_barrier(t.h);
            gone(&t, c);
            heap_delete(&t);
        }
}

/* -- the caches that sheaves come from -- */

static struct kmem_cache *make_another(struct heap *h, unsigned front_capacity)
{
    struct kmem_cache_args args = {.size = 64, .front_capacity = front_capacity};
    char name[24];

    snprintf(name, sizeof(name), "cache-%u", heap_cache_count(h));
    args.name = name;
    return kmem_cache_create(h, &args);
}

static void prefill_and_return(struct kmem_cache *c)
{
    struct sheaf *s = kmem_cache_prefill_sheaf(c, 20);
    void *p;

    REQUIRE(s != NULL);
    REQUIRE((p = kmem_cache_alloc_from_sheaf(c, s)) != NULL);
    kmem_cache_return_sheaf(c, s);
    EXPECT_TRUE(kmem_cache_free(c, p));
}

/* They need six places of the table. With fewer left none is taken, and whoever asks is told. */
TEST(pools_begin_only_where_the_table_has_places_for_all)
{
    for (unsigned left = 0; left <= SHEAF_POOLS + 2; left++) {
        struct test_heap t;
        struct kmem_cache *c;
        u32 before;

        REQUIRE(heap_new(&t, "front=bounded bounded.objects=1", 32, 2));
        while (heap_cache_count(t.h) + left < MAX_CACHES)
            REQUIRE(make_another(t.h, 0) != NULL);
        before = heap_cache_count(t.h);
        c = make_another(t.h, 32);
        EXPECT_EQ(c != NULL, left > SHEAF_POOLS);
        if (c)
            prefill_and_return(c);
        else
            EXPECT_EQ(heap_cache_count(t.h), before);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* The CPUs' region ends in the middle of them, at each of them: no cache then, and one when there is room. */
TEST(pools_half_made_are_finished_later)
{
    static const char *const lines[] = {"front=none", "front=bounded"};
    u32 each = (u32)sizeof(struct cache_cpu);
    unsigned none = 0;

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++)
        for (unsigned room = 0; room <= SHEAF_POOLS; room++) {
            struct test_heap t;
            struct kmem_cache *c;
            u32 used;

            REQUIRE(heap_new(&t, lines[a], 32, 2));
            used = t.h->region_used;
            t.h->region_used = (u32)PLAT_CPU_STRIDE - room * each;
            c = make_another(t.h, 8);
            EXPECT_NULL(c); /* with room for all six there is none for c */
            none += t.h->pools == POOLS_NONE;
            EXPECT_EQ(t.h->pools_made, room);
            EXPECT_TRUE(heap_good(&t));
            t.h->region_used = used + room * each;
            c = make_another(t.h, 8);
            REQUIRE(c != NULL);
            EXPECT_EQ(t.h->pools, (u32)POOLS_MADE);
            prefill_and_return(c);
            EXPECT_TRUE(heap_good(&t));
            heap_delete(&t);
        }
    EXPECT_EQ(none, 2 * SHEAF_POOLS);
}

static void make_pools(void *heap)
{
    EXPECT_FALSE(sheaf_pools_make(heap));
}

/* Who waits for another CPU to make them is told too when that one cannot. */
TEST(pools_that_fail_keep_nobody_waiting)
{
    struct test_heap t;

    REQUIRE(heap_new(&t, "front=bounded", 32, 4));
    t.h->region_used = (u32)PLAT_CPU_STRIDE;
    for (unsigned i = 0; i < 200; i++)
        plat_run_on_cpus(plat_all_cpus(), make_pools, t.h);
    EXPECT_EQ(t.h->pools, (u32)POOLS_NONE);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* A cache that did not say it would prefill can do so all the same. Its sheaves are pages then, and go back as
 * such even if the pools have been made meanwhile. */
TEST(a_prefill_works_without_pools)
{
    static const char *const lines[] = {"front=none", "front=bounded",
                                        "front=bounded objstate=off poison=full nodes=2"};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        struct kmem_cache *c;
        struct sheaf *s[2];
        u64 pages;

        REQUIRE(heap_new(&t, lines[a], 32, 2));
        c = make_another(t.h, 0);
        REQUIRE(c != NULL);
        pages = heap_pages_free(t.h);
        for (unsigned i = 0; i < 2; i++)
            REQUIRE((s[i] = kmem_cache_prefill_sheaf(c, 30)) != NULL);
        EXPECT_EQ(t.h->pools, (u32)POOLS_NONE);
        EXPECT_TRUE(kmem_cache_refill_sheaf(c, &s[0], 2000)); /* another */
        kmem_cache_return_sheaf(c, s[0]);
        (void)kmem_cache_shrink(c);
        EXPECT_TRUE(sheaf_pools_make(t.h));
        kmem_cache_return_sheaf(c, s[1]);
        (void)kmem_cache_shrink(c);
        EXPECT_EQ(heap_pages_free(t.h), pages);
        gone(&t, c);
        heap_delete(&t);
    }
}

/* -- from the barn or from slabs -- */

/* Leaves fulls full sheaves in the barn, main and spare empty. */
static void stock(struct kmem_cache *c, unsigned fulls)
{
    static struct node *n[32 * 14];
    unsigned count = 32 * (fulls + 2);

    for (unsigned i = 0; i < count; i++)
        n[i] = node_new(c);
    cache_drain_cpu(c, 0);
    for (unsigned i = 0; i < count; i++)
        EXPECT_TRUE(kmem_cache_free(c, n[i]));
    cache_drain_cpu(c, 0);
    EXPECT_EQ(gauge(c, CACHE_barn_full), fulls);
    EXPECT_EQ(mine(c)->count + mine(c)->spare_count, 0u);
}

/* The CPU's spare: a sheaf with n objects, so that a prefill of more has a gap. */
static void spare_of(struct kmem_cache *c, unsigned n)
{
    struct sheaf *s = sheaf_alloc(c, c->limit);

    REQUIRE(s != NULL);
    while (s->size < n)
        REQUIRE(slab_take(c, &s->object[s->size++], 1) == 1);
    plat_counter_add(&mine(c)->ctr[CACHE_prefill_objects], n);
    plat_counter_add(&mine(c)->ctr[CACHE_return_objects], n);
    mine(c)->spare = s;
    mine(c)->spare_count = n;
}

TEST(prefill_copies_from_partial_then_from_full)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct sheaf *s, *u;
    u64 refilled;

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    stock(c, 3);
    refilled = total(c, CACHE_refill_objects);
    spare_of(c, 20);
    s = kmem_cache_prefill_sheaf(c, 21); /* gap 12: from a full one, whose 20 become the partial */
    REQUIRE(s != NULL);
    EXPECT_EQ(kmem_cache_sheaf_size(s), 32u);
    EXPECT_EQ(total(c, CACHE_prefill_from_barn), 12u);
    EXPECT_EQ(gauge(c, CACHE_barn_full), 2u);
    REQUIRE(c->node[0].barn.partial != NULL);
    EXPECT_EQ(c->node[0].barn.partial->size, 20u);
    EXPECT_EQ(gauge(c, CACHE_barn_partial), 1u);
    EXPECT_TRUE(heap_good(&t));
    spare_of(c, 2);
    u = kmem_cache_prefill_sheaf(c, 32); /* gap 30: the partial's 20 first, then 10 of a full one */
    REQUIRE(u != NULL);
    EXPECT_EQ(total(c, CACHE_prefill_from_partial), 20u);
    EXPECT_EQ(total(c, CACHE_prefill_from_barn), 22u);
    EXPECT_EQ(gauge(c, CACHE_barn_full), 1u);
    EXPECT_EQ(gauge(c, CACHE_barn_empty), 1u);
    REQUIRE(c->node[0].barn.partial != NULL);
    EXPECT_EQ(c->node[0].barn.partial->size, 22u);
    EXPECT_EQ(total(c, CACHE_refill_objects), refilled); /* not one from the slabs */
    kmem_cache_return_sheaf(c, s);
    kmem_cache_return_sheaf(c, u);
    gone(&t, c);
    heap_delete(&t);
}

TEST(a_dry_barn_falls_back_to_slabs)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct sheaf *s;

    REQUIRE(sheaf_heap(&t, "front=sheaf", 1, &c));
    spare_of(c, 3);
    s = kmem_cache_prefill_sheaf(c, 10);
    REQUIRE(s != NULL);
    EXPECT_GE(kmem_cache_sheaf_size(s), 10u);
    EXPECT_GT(total(c, CACHE_refill_objects), 0u);
    kmem_cache_return_sheaf(c, s);
    gone(&t, c);
    heap_delete(&t);
}

/* Why there is a partial sheaf: without it a part-used sheaf keeps its place on the full list. */
TEST(without_a_partial_sheaf_a_part_used_one_keeps_its_place)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct sheaf *s;

    REQUIRE(sheaf_heap(&t, "front=sheaf barn.partial=off", 1, &c));
    stock(c, 10);
    spare_of(c, 20);
    s = kmem_cache_prefill_sheaf(c, 21);
    REQUIRE(s != NULL);
    EXPECT_EQ(gauge(c, CACHE_barn_full), 10u); /* one of them with 20: no room for an RCU sheaf */
    EXPECT_EQ(gauge(c, CACHE_barn_objects), 308u);
    EXPECT_TRUE(heap_good(&t));
    kmem_cache_return_sheaf(c, s);
    gone(&t, c);
    heap_delete(&t);
}

TEST(the_old_way_leaves_the_barn_alone)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct sheaf *s;

    REQUIRE(sheaf_heap(&t, "front=sheaf prefill.from=slab", 1, &c));
    stock(c, 10);
    spare_of(c, 20);
    s = kmem_cache_prefill_sheaf(c, 32);
    REQUIRE(s != NULL);
    EXPECT_EQ(gauge(c, CACHE_barn_full), 10u);
    EXPECT_EQ(total(c, CACHE_prefill_from_barn) + total(c, CACHE_prefill_from_partial), 0u);
    kmem_cache_return_sheaf(c, s);
    gone(&t, c);
    heap_delete(&t);
}

TEST(swap_takes_a_full_sheaf_whole)
{
    struct test_heap t;
    struct kmem_cache *c;
    struct sheaf *s, *u;

    REQUIRE(sheaf_heap(&t, "front=sheaf barn.refill=swap", 1, &c));
    stock(c, 3);
    spare_of(c, 20);
    s = kmem_cache_prefill_sheaf(c, 21);
    REQUIRE(s != NULL);
    EXPECT_EQ(kmem_cache_sheaf_size(s), 32u);
    EXPECT_EQ(total(c, CACHE_prefill_swapped), 32u);
    REQUIRE(c->node[0].barn.partial != NULL);
    EXPECT_EQ(c->node[0].barn.partial->size, 20u);
    spare_of(c, 20);
    u = kmem_cache_prefill_sheaf(c, 21); /* the partial's place is taken: copied */
    REQUIRE(u != NULL);
    EXPECT_EQ(total(c, CACHE_prefill_from_partial), 12u);
    EXPECT_EQ(total(c, CACHE_prefill_swapped), 32u);
    EXPECT_TRUE(heap_good(&t));
    kmem_cache_return_sheaf(c, s);
    kmem_cache_return_sheaf(c, u);
    gone(&t, c);
    heap_delete(&t);
}
