/* test_bulk.c: bulk calls: all or nothing, bad ones refused alone, the CPU's array first, in every arm;
 * and on all CPUs at once beside single calls. */
#include "arms.h"

static unsigned constructed, destructed;

static void counting_ctor(void *p)
{
    *(u64 *)p = 0xc0ffee;
    constructed++;
}

static void counting_dtor(void *p)
{
    EXPECT_EQ(*(u64 *)p, 0xc0ffeeu);
    destructed++;
}

static void plain_ctor(void *p)
{
    *(u64 *)p = 0xc0ffee;
}

static const struct kmem_cache_args typed[] = {
    {"bulk-plain", 136, 0, NULL, NULL, 0},
    {"bulk-made", 200, 64, counting_ctor, counting_dtor, 0},
    {"bulk-page", 4096, 4096, NULL, NULL, 0},
};

static void bulk_once(struct kmem_cache *c, size_t n, void **p)
{
    size_t size = cache_object_size(c), first = c->ctor ? 8 : 0;
    u64 before = in_use(c);

    REQUIRE(kmem_cache_alloc_bulk(c, n, p));
    EXPECT_EQ(in_use(c), before + n);
    for (size_t i = 0; i < n; i++) {
        if (c->ctor)
            EXPECT_EQ(*(u64 *)p[i], 0xc0ffeeu);
        memset((char *)p[i] + first, (int)(i * 7), size - first);
    }
    for (size_t i = 0; i < n; i++) {
        EXPECT_EQ(((u8 *)p[i])[first], (u8)(i * 7));
        EXPECT_EQ(((u8 *)p[i])[size - 1], (u8)(i * 7));
    }
    EXPECT_EQ(kmem_cache_free_bulk(c, n, p), n);
    EXPECT_EQ(in_use(c), before);
}

TEST(bulk_in_every_arm)
{
    static const size_t counts[] = {0, 1, 2, 31, 32, 33, 64, 100, 700};

    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++)
        for (unsigned k = 0; k < ARRAY_SIZE(typed); k++) {
            struct test_heap t;
            struct kmem_cache *c;
            void *p[700], *held;

            constructed = destructed = 0;
            REQUIRE(heap_new(&t, arms[a], 32, 1));
            c = kmem_cache_create(t.h, &typed[k]);
            REQUIRE(c != NULL);
            held = kmem_cache_alloc(c);
            for (unsigned i = 0; i < ARRAY_SIZE(counts); i++) {
                bulk_once(c, counts[i], p);
                bulk_once(&t.h->kmalloc[i], counts[i], p);
                EXPECT_TRUE(heap_good(&t));
            }
            EXPECT_TRUE(kmem_cache_free(c, held));
            EXPECT_EQ(refused(&t), 0u);
            EXPECT_TRUE(kmem_cache_destroy(c, NULL));
            EXPECT_EQ(constructed, destructed);
            EXPECT_TRUE(heap_good(&t));
            heap_delete(&t);
        }
}

/* A bulk call asks the array first, and leaves it no fuller than it may be. */
TEST(bulk_uses_the_array)
{
    struct test_heap t;
    struct kmem_cache *c;
    const u64 *ctr;
    void *p[100];

    REQUIRE(heap_new(&t, "front=bounded", 32, 1));
    c = &t.h->kmalloc[2];
    ctr = cache_row(c, 0);
    REQUIRE(kmem_cache_alloc_bulk(c, 100, p));
    EXPECT_EQ(ctr[CACHE_alloc_slow], 100u);
    EXPECT_EQ(kmem_cache_free_bulk(c, 100, p), 100u);
    EXPECT_EQ(ctr[CACHE_free_fast], 32u);
    EXPECT_EQ(ctr[CACHE_free_slow], 68u);
    REQUIRE(kmem_cache_alloc_bulk(c, 20, p));
    EXPECT_EQ(ctr[CACHE_alloc_fast], 20u);
    EXPECT_EQ(ctr[CACHE_alloc_slow], 100u);
    EXPECT_EQ(cache_cpu(c, 0)->count, 12u);
    EXPECT_EQ(kmem_cache_free_bulk(c, 20, p), 20u);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(bulk_is_all_or_nothing)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        enum { MANY = 20000 }; /* of 1 KiB, in a machine of 16 MiB */
        void **p = calloc(MANY, sizeof(*p));
        struct test_heap t;
        struct kmem_cache *c;
        u64 free_before;

        REQUIRE(p && heap_new(&t, arms[a], 16, 1));
        c = &t.h->kmalloc[10];
        free_before = t.h->buddy[0].pages_free;
        EXPECT_TRUE(heap_kfree(t.h, heap_kmalloc(t.h, 1024)));
        EXPECT_FALSE(kmem_cache_alloc_bulk(c, MANY, p));
        EXPECT_EQ(in_use(c), 0u);
        EXPECT_EQ(cache_row(c, 0)[CACHE_alloc_fail], 1u);
        EXPECT_TRUE(heap_good(&t));
        EXPECT_TRUE(kmem_cache_alloc_bulk(c, MANY / 4, p));
        EXPECT_FALSE(kmem_cache_alloc_bulk(c, MANY, p + MANY / 4 - 1)); /* writes over the last */
        EXPECT_EQ(in_use(c), (u64)MANY / 4);
        EXPECT_EQ(kmem_cache_free_bulk(c, MANY / 4 - 1, p), (size_t)MANY / 4 - 1);
        EXPECT_EQ(in_use(c), 1u);
        EXPECT_TRUE(heap_good(&t));
        heap_reclaim(t.h);
        pcp_drain_all(t.h);
        EXPECT_LE(free_before - t.h->buddy[0].pages_free, (u64)1 << c->order);
        heap_delete(&t);
        free(p);
    }
}

TEST(bulk_frees_refuse_the_bad_ones_only)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;
        struct kmem_cache *c, *other;
        void *p[40], *list[48];
        unsigned n = 0;
        int on_stack = 0;

        REQUIRE(heap_new(&t, arms[a], 32, 1));
        c = &t.h->kmalloc[4];
        other = &t.h->kmalloc[5];
        REQUIRE(kmem_cache_alloc_bulk(c, 40, p));
        for (unsigned i = 0; i < 40; i++) {
            list[n++] = p[i];
            if (i == 5)
                list[n++] = NULL;
            if (i == 9)
                list[n++] = (char *)p[30] + 16;
            if (i == 11)
                list[n++] = &on_stack;
            if (i == 20)
                list[n++] = heap_kmalloc(t.h, cache_object_size(other));
            if (i == 4 && keeps_states(&t)) /* at once: its slab cannot be gone yet */
                list[n++] = p[3];
        }
        EXPECT_EQ(kmem_cache_free_bulk(c, n, list), 41u);
        EXPECT_EQ(in_use(c), 0u);
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_interior), 1u);
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_foreign), 1u);
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_wrong_cache), 1u);
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_double), (u64)keeps_states(&t));
        EXPECT_EQ(in_use(other), 1u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* The slab of a chunk's objects goes back with them, and then comes one of them again. */
TEST(a_chunk_that_takes_its_slab_along_is_not_looked_at_again)
{
    static const char *const knobs[] = {
        "front=none slab.min_partial=0",
        "front=none slab.min_partial=0 objstate=side",
        "front=none slab.min_partial=0 poison=full",
        "front=none slab.min_partial=0 matrix=on latency=on",
    };

    for (unsigned a = 0; a < ARRAY_SIZE(knobs); a++) {
        struct test_heap t;
        struct kmem_cache *c;
        void *list[2 * 32 + 1];
        size_t n = 0;

        REQUIRE(heap_new(&t, knobs[a], 32, 1));
        c = &t.h->kmalloc[4];
        while (n < 32) /* one chunk, of one slab */
            REQUIRE((list[n++] = heap_kmalloc(t.h, cache_object_size(c))) != NULL);
        list[n++] = list[5];
        EXPECT_EQ(heap_kfree_bulk(t.h, n, list), 32u);
        EXPECT_EQ(kmem_cache_free_bulk(c, n, list), 0u);
        EXPECT_EQ(in_use(c), 0u);
        EXPECT_EQ(c->node[0].slabs, 0u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

TEST(kfree_bulk_takes_any_mixture)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;
        void *p[300];

        REQUIRE(heap_new(&t, arms[a], 64, 1));
        for (unsigned i = 0; i < 300; i++)
            p[i] = i % 50 == 7 ? NULL : heap_kmalloc(t.h, i % 7 == 3 ? 30000 : i / 3 * 90);
        EXPECT_EQ(heap_kfree_bulk(t.h, 300, p), 300u);
        EXPECT_EQ(refused(&t), 0u);
        for (unsigned i = 0; i < KMALLOC_CLASSES; i++)
            EXPECT_EQ(in_use(&t.h->kmalloc[i]), 0u);
        if (keeps_states(&t)) { /* all of it again: what is no NULL and no kmalloc(0) is bad */
            size_t good = heap_kfree_bulk(t.h, 300, p);

            EXPECT_GT(good, 0u);
            EXPECT_EQ(good + refused(&t), 300u);
        }
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* Bulk and single calls on the same caches, objects handed to other CPUs by the list. */
struct lists {
    struct test_heap *t;
    struct kmem_cache *made; /* with a constructor: every call takes the lock */
    unsigned rounds;
    void **slot[16];
};

static void trade_lists(void *arg)
{
    enum { LENGTH = 50 };
    struct lists *s = arg;
    struct heap *h = s->t->h;
    u64 seed = test_seed() + plat_cpu_id() * 15485863 + 1;

    for (unsigned i = 0; i < s->rounds; i++) {
        struct kmem_cache *c = i % 3 ? &h->kmalloc[2 + i % 2] : s->made;
        void **p = heap_kmalloc(h, LENGTH * sizeof(*p));

        if (p && !kmem_cache_alloc_bulk(c, LENGTH, p)) {
            EXPECT_TRUE(heap_kfree(h, p));
            p = NULL;
        }
        p = __atomic_exchange_n(&s->slot[test_random(&seed) % ARRAY_SIZE(s->slot)], p,
                                __ATOMIC_ACQ_REL);
        if (!p)
            continue;
        if (i % 4 == 0) {
            for (unsigned j = 0; j < LENGTH; j++)
                EXPECT_TRUE(heap_kfree(h, p[j]));
        } else {
            EXPECT_EQ(heap_kfree_bulk(h, LENGTH, p), (size_t)LENGTH);
        }
        EXPECT_TRUE(heap_kfree(h, p));
    }
}

TEST(bulk_on_all_cpus)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;
        const struct kmem_cache_args args = {"made", 72, 0, plain_ctor, NULL, 0};
        struct lists s = {.t = &t, .rounds = test_scale(1500)};

        REQUIRE(heap_new(&t, arms[a], 64, 4));
        s.made = kmem_cache_create(t.h, &args);
        REQUIRE(s.made != NULL);
        plat_run_on_cpus(plat_all_cpus(), trade_lists, &s);
        for (unsigned i = 0; i < ARRAY_SIZE(s.slot); i++)
            if (s.slot[i]) {
                EXPECT_EQ(heap_kfree_bulk(t.h, 50, s.slot[i]), 50u);
                EXPECT_TRUE(heap_kfree(t.h, s.slot[i]));
            }
        EXPECT_EQ(refused(&t), 0u);
        EXPECT_EQ(in_use(s.made), 0u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* Before the CPUs have arrays, too. */
TEST(bulk_before_the_cpu_tables_exist)
{
    struct test_heap t;
    void *p[100];

    REQUIRE(heap_new_early(&t, "front=bounded", 32));
    REQUIRE(kmem_cache_alloc_bulk(&t.h->kmalloc[3], 100, p));
    EXPECT_EQ(kmem_cache_free_bulk(&t.h->kmalloc[3], 50, p), 50u);
    REQUIRE(heap_cpus_init(t.h, 1));
    EXPECT_EQ(kmem_cache_free_bulk(&t.h->kmalloc[3], 50, p + 50), 50u);
    EXPECT_EQ(in_use(&t.h->kmalloc[3]), 0u);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}
