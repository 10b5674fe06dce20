/* test_sheaf.c: kfree_rcu under every front end; the sheaf front end edge by edge; private sheaves; and
 * each trap that others fell into, with the guard that a test here fails without. */
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
};

struct node { /* as the maple workload's */
    struct rcu_head rcu;
    u64 mark;
    u8 rest[232];
};
#define MARK 0x6d61726bu

static const struct kmem_cache_args node_args = {
    .name = "node", .size = sizeof(struct node), .front_capacity = 32};

static u64 gauge(const struct kmem_cache *c, enum cache_counter i)
{
    u64 g[NR_CACHE_COUNTERS] = {0};

    cache_gauges(c, g);
    return g[i];
}

static u64 total(const struct kmem_cache *c, enum cache_counter i)
{
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < c->heap->cpus; cpu++)
        sum += counter_read(&cache_row(c, cpu)[i]);
    return sum;
}

static struct node *node_new(struct kmem_cache *c)
{
    struct node *n = kmem_cache_alloc(c);

    if (n)
        n->mark = MARK;
    return n;
}

static bool node_free_rcu(struct kmem_cache *c, struct node *n)
{
    return heap_kfree_rcu(c->heap, n, &n->rcu);
}

static struct cache_cpu *mine(const struct kmem_cache *c)
{
    return cache_cpu_mine(c);
}

/* A cache that is gone leaves nothing behind, and what its sheaves were made of neither. */
static void gone(struct test_heap *t, struct kmem_cache *c)
{
    u64 busy = 0;

    EXPECT_TRUE(heap_good(t));
    EXPECT_TRUE(kmem_cache_destroy(c, &busy));
    EXPECT_EQ(busy, 0u);
    EXPECT_TRUE(heap_good(t));
}

/* -- kfree_rcu -- */

TEST(kfree_rcu_waits_under_every_front)
{
    for (unsigned a = 0; a < ARRAY_SIZE(fronts); a++) {
        struct test_heap t;
        struct kmem_cache *c;
        struct node *n;
        u64 *big;

        REQUIRE(heap_new(&t, fronts[a], 32, 2));
        c = kmem_cache_create(t.h, &node_args);
        REQUIRE(c != NULL);
        rcu_read_lock();
        n = node_new(c);
        big = heap_kmalloc(t.h, 50000);
        REQUIRE(n && big);
        big[4] = MARK;
        EXPECT_TRUE(node_free_rcu(c, n));
        EXPECT_TRUE(heap_kfree_rcu(t.h, big, (struct rcu_head *)big));
        EXPECT_EQ(gauge(c, CACHE_rcu_objects), 1u);
        EXPECT_EQ(gauge(c, CACHE_in_use), 0u);
        if (c->objstate != V_objstate_off) {
            EXPECT_FALSE(node_free_rcu(c, n));
            EXPECT_FALSE(heap_kfree(t.h, n));
            EXPECT_FALSE(kmem_cache_free(c, n));
            EXPECT_EQ(heap_ksize(t.h, n), 0u);
            EXPECT_EQ(heap_badfree_count(t.h, BADFREE_double), 3u);
        }
        EXPECT_FALSE(heap_kfree(t.h, big));
        EXPECT_FALSE(heap_kfree_rcu(t.h, big, (struct rcu_head *)big));
        for (unsigned i = 0; i < 10; i++)
            rcu_tick();
        EXPECT_EQ(n->mark, (u64)MARK); /* a reader still reads: not even filled */
        EXPECT_EQ(big[4], (u64)MARK);
        EXPECT_TRUE(heap_good(&t));
        rcu_read_unlock();
        heap_kfree_rcu_barrier(t.h);
        EXPECT_EQ(gauge(c, CACHE_rcu_objects), 0u);
        EXPECT_EQ(rcu_backlog(), 0u);
        EXPECT_FALSE(heap_kfree(t.h, big)); /* free now */
        gone(&t, c);
        heap_delete(&t);
    }
}

TEST(destroy_waits_for_kfree_rcu)
{
    for (unsigned a = 0; a < ARRAY_SIZE(fronts); a++) {
        struct test_heap t;
        struct kmem_cache *c;
        struct node *kept;
        u64 busy = 0;

        REQUIRE(heap_new(&t, fronts[a], 32, 3));
        c = kmem_cache_create(t.h, &node_args);
        REQUIRE(c != NULL);
        kept = node_new(c);
        for (unsigned i = 0; i < 500; i++) {
            struct node *n = node_new(c);

            REQUIRE(n != NULL);
            EXPECT_TRUE(node_free_rcu(c, n));
        }
        EXPECT_FALSE(kmem_cache_destroy(c, &busy));
        EXPECT_EQ(busy, 1u);
        EXPECT_EQ(node_free_rcu(c, kept), true);
        gone(&t, c);
        heap_delete(&t);
    }
}

TEST(kfree_rcu_before_the_cpus_are_known)
{
    struct test_heap t;
    struct node *n;

    REQUIRE(heap_new_early(&t, "front=sheaf", 32));
    n = heap_kmalloc(t.h, sizeof(*n));
    REQUIRE(n != NULL);
    EXPECT_TRUE(heap_kfree_rcu(t.h, n, &n->rcu));
    REQUIRE(heap_cpus_init(t.h, 1));
    n = heap_kmalloc(t.h, sizeof(*n));
    EXPECT_TRUE(heap_kfree_rcu(t.h, n, &n->rcu));
    heap_kfree_rcu_barrier(t.h);
    EXPECT_EQ(gauge(&t.h->kmalloc[6], CACHE_rcu_objects), 0u);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

static void head_outside(void *arg)
{
    struct test_heap *t = arg;
    struct rcu_head head;

    heap_kfree_rcu(t->h, heap_kmalloc(t->h, 64), &head);
}

TEST(a_head_outside_its_object_stops_the_machine)
{
    struct test_heap t;

    REQUIRE(heap_new(&t, "", 32, 1));
    EXPECT_EQ(test_panic_of(head_outside, &t), (unsigned)PANIC_check_failed);
    heap_delete(&t);
}

/* -- the sheaf's edges, one CPU -- */

static bool sheaf_heap(struct test_heap *t, const char *line, unsigned cpus, struct kmem_cache **c)
{
    if (!heap_new(t, line, 32, cpus))
        return false;
    *c = kmem_cache_create(t->h, &node_args);
    return *c != NULL;
}

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

/* -- private sheaves -- */

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

/* -- the barn and prefill -- */

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
    REQUIRE(c->barn.partial != NULL);
    EXPECT_EQ(c->barn.partial->size, 20u);
    EXPECT_EQ(gauge(c, CACHE_barn_partial), 1u);
    EXPECT_TRUE(heap_good(&t));
    spare_of(c, 2);
    u = kmem_cache_prefill_sheaf(c, 32); /* gap 30: the partial's 20 first, then 10 of a full one */
    REQUIRE(u != NULL);
    EXPECT_EQ(total(c, CACHE_prefill_from_partial), 20u);
    EXPECT_EQ(total(c, CACHE_prefill_from_barn), 22u);
    EXPECT_EQ(gauge(c, CACHE_barn_full), 1u);
    EXPECT_EQ(gauge(c, CACHE_barn_empty), 1u);
    REQUIRE(c->barn.partial != NULL);
    EXPECT_EQ(c->barn.partial->size, 22u);
    EXPECT_EQ(total(c, CACHE_refill_objects), refilled); /* not one from the slabs */
    kmem_cache_return_sheaf(c, s);
    kmem_cache_return_sheaf(c, u);
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
    REQUIRE(c->barn.partial != NULL);
    EXPECT_EQ(c->barn.partial->size, 20u);
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

/* -- several CPUs -- */

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
        EXPECT_LE(__atomic_load_n(&w->c->barn.fulls, __ATOMIC_RELAXED), w->t->h->barn_full);
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

/* Readers look at nodes that others free by kfree_rcu: none may be filled or handed out under them. */
struct show {
    struct test_heap *t;
    struct kmem_cache *c;
    struct node *shown; /* atomic */
    unsigned steps;
};

static void show_part(void *arg)
{
    struct show *w = arg;

    for (unsigned i = 0; i < w->steps; i++) {
        struct node *n, *old;

        rcu_read_lock();
        n = __atomic_load_n(&w->shown, __ATOMIC_ACQUIRE);
        if (n)
            EXPECT_EQ(__atomic_load_n(&n->mark, __ATOMIC_RELAXED), (u64)MARK);
        rcu_read_unlock();
        n = kmem_cache_alloc(w->c);
        if (n) {
            __atomic_store_n(&n->mark, (u64)MARK, __ATOMIC_RELAXED);
            old = __atomic_exchange_n(&w->shown, n, __ATOMIC_ACQ_REL);
            if (old)
                EXPECT_TRUE(node_free_rcu(w->c, old));
        }
        rcu_quiescent();
    }
}

TEST(no_reader_sees_a_node_that_kfree_rcu_gave_back)
{
    static const char *const lines[] = {"front=none poison=free", "front=bounded poison=full",
                                        "front=sheaf poison=free",
                                        "front=sheaf sheaf.cap=2 poison=full"};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        struct show w = {.t = &t, .steps = test_scale(8000)};

        REQUIRE(sheaf_heap(&t, lines[a], 3, &w.c));
        plat_run_on_cpus(plat_all_cpus(), show_part, &w);
        if (w.shown)
            EXPECT_TRUE(node_free_rcu(w.c, w.shown));
        gone(&t, w.c);
        heap_delete(&t);
    }
}
