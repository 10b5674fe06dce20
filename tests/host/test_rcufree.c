/* test_rcufree.c: kfree_rcu under every front end. */
#include "sheaf_fixture.h"

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

/* -- the rcu_head lies in its block -- */

static const char *const head_lines[] = {
    "",
    "poison=full",
    "front=none objstate=side poison=full",
    "front=sheaf objstate=off",
    "front=magazine poison=full pcp=off",
};

/* A free with the head so far into p is refused, and nothing has happened to p. */
static void expect_head_refused(struct test_heap *t, void *p, u64 at)
{
    u64 before = heap_badfree_count(t->h, BADFREE_rcu_head), usable = heap_ksize(t->h, p);

    EXPECT_FALSE(heap_kfree_rcu(t->h, p, (struct rcu_head *)(uintptr_t)((u64)(uintptr_t)p + at)));
    EXPECT_EQ(heap_badfree_count(t->h, BADFREE_rcu_head), before + 1);
    EXPECT_EQ(heap_ksize(t->h, p), usable);
}

/* p: allocated; everywhere around its edges. Frees it, with a head at its end or its start. */
static void try_heads(struct test_heap *t, void *p, bool at_end)
{
    u64 usable = heap_ksize(t->h, p), last = usable - sizeof(struct rcu_head);

    REQUIRE(usable > 0);
    expect_head_refused(t, p, usable - 8); /* half outside */
    expect_head_refused(t, p, usable);
    expect_head_refused(t, p, usable + 4096);
    expect_head_refused(t, p, ~(u64)7); /* before it */
    expect_head_refused(t, p, ~(u64)4095);
    if (usable < sizeof(struct rcu_head)) {
        expect_head_refused(t, p, 0);
        EXPECT_TRUE(heap_kfree(t->h, p));
        return;
    }
    p = (char *)p + (at_end ? last : 0);
    plat_unpoison(p, sizeof(struct rcu_head)); /* a sanitizer shows only what was asked for */
    EXPECT_TRUE(heap_kfree_rcu(t->h, (char *)p - (at_end ? last : 0), p));
}

TEST(a_head_outside_its_block_is_refused_for_every_size)
{
    for (unsigned a = 0; a < ARRAY_SIZE(head_lines); a++) {
        struct test_heap t;

        REQUIRE(heap_new(&t, head_lines[a], 64, 1));
        for (size_t size = 1; size <= KMALLOC_MAX_SMALL + 64; size += size < 300 ? 1 : 7)
            for (unsigned end = 0; end < 2; end++)
                try_heads(&t, heap_kmalloc(t.h, size), end);
        for (size_t size = KMALLOC_MAX_SMALL + 1; size <= (size_t)4 << 20; size = size * 3 / 2) {
            for (unsigned end = 0; end < 2; end++)
                try_heads(&t, heap_kmalloc(t.h, size), end);
            heap_kfree_rcu_barrier(t.h);
        }
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_corrupt), 0u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* Of a typed cache too, down to a byte: its smallest objects have no room for a head. Had one been written all
 * the same, the next free would find a damaged red zone (poison=full), or a neighbour a damaged state. */
TEST(an_object_too_small_for_a_head_is_not_freed_by_kfree_rcu)
{
    for (unsigned a = 0; a < ARRAY_SIZE(head_lines); a++)
        for (size_t size = 1; size <= 40; size++) {
            struct kmem_cache_args args = {"tiny", size, 0, NULL, NULL, 0};
            struct test_heap t;
            struct kmem_cache *c;
            void *p[300];

            REQUIRE(heap_new(&t, head_lines[a], 32, 1));
            c = kmem_cache_create(t.h, &args);
            REQUIRE(c != NULL);
            for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
                REQUIRE((p[i] = kmem_cache_alloc(c)) != NULL);
            for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
                try_heads(&t, p[i], i % 2);
            EXPECT_EQ(heap_badfree_count(t.h, BADFREE_corrupt), 0u);
            gone(&t, c);
            heap_delete(&t);
        }
}

static void head_outside(void *arg)
{
    struct test_heap *t = arg;
    struct rcu_head head;

    heap_kfree_rcu(t->h, heap_kmalloc(t->h, 64), &head);
}

TEST(a_head_outside_its_block_is_a_bad_free)
{
    struct test_heap t;
    void *other, *p;

    REQUIRE(heap_new(&t, "badfree=panic", 32, 1));
    EXPECT_EQ(test_panic_of(head_outside, &t), (unsigned)PANIC_bad_free);
    heap_delete(&t);
    REQUIRE(heap_new(&t, "badfree=reject", 32, 1));
    other = heap_kmalloc(t.h, 50000); /* in another block */
    p = heap_kmalloc(t.h, 50000);
    EXPECT_FALSE(heap_kfree_rcu(t.h, p, other));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_rcu_head), 1u);
    EXPECT_TRUE(heap_kfree(t.h, p));
    EXPECT_TRUE(heap_kfree(t.h, other));
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
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
