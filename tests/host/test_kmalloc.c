/* test_kmalloc.c: kmalloc, kfree, krealloc under every arm; bad frees by kind; statistics; shortage; overruns. */
#include "heap_fixture.h"

static const char *const arms[] = {
    "latency=on latency.every=3 matrix=on",
    "latency=on latency.every=7 matrix=on front=none owner=lock poison=full",
    "latency=on latency.every=2 matrix=on front=sheaf stats.slab=global",
    "latency=on latency.every=3 front=magazine objstate=off owner=lock",
    "front=none owner=lock stats.slab=global stats.large=global pcp=off",
    "front=none objstate=side",
    "front=none objstate=off poison=free",
    "front=bounded owner=tag pcp.limits=1/1/1/1/1/1",
    "front=bounded objstate=side poison=free",
    "front=bounded objstate=side poison=full",
    "front=bounded objstate=off poison=full stats.slab=off stats.large=off",
    "front=bounded poison=free stats.slab=global lock=ticket",
    "front=bounded poison=full bounded.objects=1 lock=mcs",
    "front=bounded bounded.objects=256 bounded.bytes=1048576 slab.min_partial=0",
    "front=magazine",
    "front=magazine objstate=side poison=full mag.interval=1",
    "front=magazine objstate=off mag.resize=off slab.min_partial=0 owner=lock",
    "front=sheaf",
    "front=sheaf objstate=side poison=full sheaf.cap=2 barn.full=1 barn.empty=0",
    "front=sheaf objstate=off sheaf.cap=200 slab.min_partial=0 stats.slab=global",
};

static u8 fill_of(u64 n)
{
    return (u8)(n * 37 + 11);
}

TEST(every_size_in_every_arm)
{
    static const size_t large[] = {8193, 65536, 131072, 131073, 4 << 20};

    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;

        REQUIRE(heap_new(&t, arms[a], 64, 1));
        for (size_t size = 1; size <= KMALLOC_MAX_SMALL; size += size < 300 ? 1 : 97) {
            u8 *p = heap_kmalloc(t.h, size);

            REQUIRE(p != NULL);
            EXPECT_EQ((uintptr_t)p % KMALLOC_ALIGN, 0u);
            EXPECT_GE(heap_ksize(t.h, p), size);
            memset(p, fill_of(size), size);
            EXPECT_TRUE(heap_kfree(t.h, p));
        }
        for (unsigned i = 0; i < ARRAY_SIZE(large); i++) {
            u8 *p = heap_kmalloc(t.h, large[i]);

            REQUIRE(p != NULL);
            p[0] = 1;
            p[large[i] - 1] = 1;
            EXPECT_TRUE(heap_kfree(t.h, p));
        }
        EXPECT_NULL(heap_kmalloc(t.h, (4 << 20) + 1));
        EXPECT_NULL(heap_kmalloc(t.h, SIZE_MAX));
        EXPECT_EQ(heap_kmalloc(t.h, 0), ZERO_SIZE_PTR);
        EXPECT_TRUE(heap_kfree(t.h, ZERO_SIZE_PTR));
        EXPECT_TRUE(heap_kfree(t.h, NULL));
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

TEST(classes_are_the_published_ones)
{
    struct test_heap t;

    REQUIRE(heap_new(&t, "", 32, 1));
    for (size_t size = 1; size <= KMALLOC_MAX_SMALL; size++) {
        unsigned i = (unsigned)(t.h->by_size[(size - 1) / KMALLOC_ALIGN] - t.h->kmalloc);

        EXPECT_GE(kmalloc_sizes[i], size);
        if (i)
            EXPECT_LT(kmalloc_sizes[i - 1], size);
    }
    heap_delete(&t);
}

/* Random live set; every byte of every block must keep what was written. */
struct player {
    struct test_heap *t;
    unsigned steps;
};

static void play(void *arg)
{
    enum { LIVE = 200 };
    struct player *pl = arg;
    struct heap *h = pl->t->h;
    struct {
        u8 *p;
        size_t size;
    } live[LIVE];
    u64 seed = test_seed() + plat_cpu_id() * 7919 + 1;

    memset(live, 0, sizeof(live));
    for (unsigned i = 0; i < pl->steps; i++) {
        unsigned at = test_random(&seed) % LIVE;
        size_t size = 1 + test_random(&seed) % (test_random(&seed) % 16 ? 600 : 40000);

        if (live[at].p && test_random(&seed) % 8 == 0) {
            u8 *q = heap_krealloc(h, live[at].p, size);

            if (!q)
                continue;
            for (size_t j = 0; j < MIN(size, live[at].size); j += 13)
                EXPECT_EQ(q[j], fill_of(at));
            live[at].p = q;
        } else if (live[at].p) {
            for (size_t j = 0; j < live[at].size; j += 13)
                EXPECT_EQ(live[at].p[j], fill_of(at));
            EXPECT_TRUE(heap_kfree(h, live[at].p));
            live[at].p = NULL;
            continue;
        } else {
            live[at].p = heap_kmalloc(h, size);
            if (!live[at].p)
                continue;
        }
        live[at].size = size;
        memset(live[at].p, fill_of(at), size);
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (live[i].p)
            EXPECT_TRUE(heap_kfree(h, live[i].p));
}

static void drain(void *heap)
{
    heap_drain_this_cpu(heap);
}

TEST(random_play_in_every_arm)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++)
        for (unsigned cpus = 1; cpus <= 3; cpus += 2) {
            struct test_heap t;
            struct player pl = {&t, test_scale(20000)};
            u64 in_use = 0;

            REQUIRE(heap_new(&t, arms[a], 128, cpus));
            plat_run_on_cpus(plat_all_cpus(), play, &pl);
            EXPECT_TRUE(heap_good(&t));
            plat_run_on_cpus(plat_all_cpus(), drain, t.h);
            for (u32 i = 0; i < KMALLOC_CLASSES; i++) {
                struct balance b;

                kmem_cache_shrink(&t.h->kmalloc[i]);
                cache_balance(&t.h->kmalloc[i], &b);
                EXPECT_TRUE(b.holds);
                EXPECT_EQ(b.front, 0u);
                EXPECT_EQ(b.capacity, b.in_use);
                in_use += b.in_use;
            }
            EXPECT_EQ(in_use, 0u);
            EXPECT_TRUE(heap_good(&t));
            heap_delete(&t);
        }
}

/* Blocks pass through shared slots: allocated on one CPU, freed on another. */
struct pass {
    struct test_heap *t;
    void *slot[64];
    unsigned steps;
};

static void pass_on(void *arg)
{
    struct pass *s = arg;
    u64 seed = test_seed() + plat_cpu_id() * 104729 + 1;

    for (unsigned i = 0; i < s->steps; i++) {
        size_t size = 16 + test_random(&seed) % 9000;
        u8 *p = heap_kmalloc(s->t->h, size);

        if (p)
            p[0] = p[size - 1] = 7;
        p = __atomic_exchange_n(&s->slot[test_random(&seed) % ARRAY_SIZE(s->slot)], p,
                                __ATOMIC_ACQ_REL);
        if (p)
            EXPECT_TRUE(heap_kfree(s->t->h, p));
    }
}

TEST(frees_by_other_cpus)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;
        struct pass s = {.t = &t, .steps = test_scale(20000)};

        REQUIRE(heap_new(&t, arms[a], 64, 4));
        plat_run_on_cpus(plat_all_cpus(), pass_on, &s);
        for (unsigned i = 0; i < ARRAY_SIZE(s.slot); i++)
            EXPECT_TRUE(heap_kfree(t.h, s.slot[i]));
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* Two CPUs free the same block at the same time: exactly one wins, each time, and the loser is refused. */
struct duel {
    struct test_heap *t;
    void *volatile block; /* written between the rounds, by CPU 0 only */
    u32 won;
};

static void duel_free(void *arg)
{
    struct duel *d = arg;

    if (heap_kfree(d->t->h, d->block))
        __atomic_fetch_add(&d->won, 1, __ATOMIC_RELAXED);
}

TEST(of_two_racing_frees_one_wins)
{
    static const char *const states[] = {"objstate=header", "objstate=side",
                                         "objstate=header front=none"};

    for (unsigned a = 0; a < ARRAY_SIZE(states); a++) {
        struct test_heap t;
        struct duel d = {.t = &t};
        unsigned rounds = test_scale(2000);

        REQUIRE(heap_new(&t, states[a], 32, 2));
        for (unsigned i = 0; i < rounds; i++) {
            d.block = heap_kmalloc(t.h, i % 3 ? 64 : 20000);
            d.won = 0;
            REQUIRE(d.block != NULL);
            plat_run_on_cpus(3, duel_free, &d);
            EXPECT_EQ(d.won, 1u);
        }
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_double) +
                      heap_badfree_count(t.h, BADFREE_free_page),
                  (u64)rounds);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

static unsigned reports;
static enum badfree_kind last_kind;

static void on_badfree(const struct badfree_report *r)
{
    reports++;
    last_kind = r->kind;
}

static void expect_refused(struct test_heap *t, void *p, enum badfree_kind kind)
{
    u64 before = heap_badfree_count(t->h, kind);
    unsigned said = reports;

    EXPECT_FALSE(heap_kfree(t->h, p));
    EXPECT_EQ(heap_badfree_count(t->h, kind), before + 1);
    EXPECT_EQ(reports, said + 1);
    EXPECT_EQ(last_kind, kind);
}

TEST(bad_frees_are_refused_by_kind)
{
    static const char *const lines[] = {"front=none",    "front=bounded",
                                        "objstate=side", "objstate=side poison=full",
                                        "owner=lock",    "poison=full"};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        char *p, *q, *big;
        int on_stack = 0;

        REQUIRE(heap_new(&t, lines[a], 32, 1));
        heap_set_badfree_handler(t.h, on_badfree);
        p = heap_kmalloc(t.h, 100);
        q = heap_kmalloc(t.h, 100);
        big = heap_kmalloc(t.h, 50000);
        REQUIRE(p && q && big);
        memset(p, 0x5a, 100);
        expect_refused(&t, p + 16, BADFREE_interior);
        expect_refused(&t, p + 1, BADFREE_interior);
        expect_refused(&t, big + 8, BADFREE_interior);
        expect_refused(&t, big + PAGE_SIZE, BADFREE_interior);
        expect_refused(&t, &on_stack, BADFREE_foreign);
        expect_refused(&t, t.h, BADFREE_foreign);
        expect_refused(&t, (void *)(uintptr_t)0xdead0000, BADFREE_foreign);
        EXPECT_TRUE(heap_kfree(t.h, p));
        expect_refused(&t, p, BADFREE_double);
        EXPECT_TRUE(heap_kfree(t.h, q));
        expect_refused(&t, q, BADFREE_double);
        expect_refused(&t, p, BADFREE_double);
        EXPECT_TRUE(heap_kfree(t.h, big));
        expect_refused(&t, big, BADFREE_free_page);
        EXPECT_NULL(heap_krealloc(t.h, p + 32, 500));
        EXPECT_NULL(heap_krealloc(t.h, p, 50)); /* freed: not even to stay in place */
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

static void free_twice(void *arg)
{
    struct test_heap *t = arg;
    void *p = heap_kmalloc(t->h, 64);

    heap_kfree(t->h, p);
    heap_kfree(t->h, p);
}

TEST(badfree_panic_stops_the_machine)
{
    struct test_heap t;

    REQUIRE(heap_new(&t, "badfree=panic", 32, 1));
    EXPECT_EQ(test_panic_of(free_twice, &t), (unsigned)PANIC_bad_free);
    heap_delete(&t);
}

static void write_after_free(void *arg)
{
    struct test_heap *t = arg;
    u8 *p = heap_kmalloc(t->h, 64);

    heap_kfree(t->h, p);
    p[40] = 1;
    p = heap_kmalloc(t->h, 64);
}

static void overrun(void *arg)
{
    struct test_heap *t = arg;
    volatile u8 *p = heap_kmalloc(t->h, 60);

    p[60] = 1; /* the class is 64 bytes: only a sanitizer that knows the asked size sees it */
}

static void underrun(void *arg)
{
    struct test_heap *t = arg;
    volatile u8 *p = heap_kmalloc(t->h, 64), *q = heap_kmalloc(t->h, 64);

    p[64] = 1;
    (void)q;
}

static void touch_freed(void *arg)
{
    struct test_heap *t = arg;
    volatile u8 *p = heap_kmalloc(t->h, 64);

    heap_kfree(t->h, (void *)(uintptr_t)p);
    p[17] = 1;
}

static void touch_freed_large(void *arg)
{
    struct test_heap *t = arg;
    volatile u8 *p = heap_kmalloc(t->h, 65536);

    heap_kfree(t->h, (void *)(uintptr_t)p);
    p[60000] = 1;
}

TEST(poison_finds_use_after_free_and_overruns)
{
    struct test_heap t;
    u8 *p;

    REQUIRE(heap_new(&t, "poison=full", 32, 1));
    if (!test_has_asan()) { /* else the sanitizer stops the write itself: the next test */
        EXPECT_EQ(test_panic_of(write_after_free, &t), (unsigned)PANIC_heap_corrupt);
        p = heap_kmalloc(t.h, 64);
        p[64] = 0;
        EXPECT_FALSE(heap_kfree(t.h, p));
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_corrupt), 1u);
    }
    p = heap_kmalloc(t.h, 64);
    EXPECT_EQ(p[0], POISON_FRESH);
    EXPECT_EQ(p[63], POISON_FRESH);
    EXPECT_TRUE(heap_kfree(t.h, p));
    heap_delete(&t);
}

TEST(the_sanitizer_sees_into_the_heap)
{
    static const char *const lines[] = {"", "objstate=side", "front=none objstate=off"};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;

        REQUIRE(heap_new(&t, lines[a], 32, 1));
        if (test_has_asan()) {
            EXPECT_TRUE(test_asan_catches(overrun, &t));
            EXPECT_TRUE(test_asan_catches(underrun, &t));
            EXPECT_TRUE(test_asan_catches(touch_freed, &t));
            EXPECT_TRUE(test_asan_catches(touch_freed_large, &t));
        } else {
            EXPECT_EQ(PLAT_REDZONE_BYTES, 0);
        }
        heap_delete(&t);
    }
}

TEST(statistics_balance_in_every_mode)
{
    static const char *const modes[] = {"stats.slab=global stats.large=global",
                                        "stats.slab=percpu stats.large=percpu",
                                        "stats.slab=off stats.large=off"};

    for (unsigned m = 0; m < ARRAY_SIZE(modes); m++) {
        struct test_heap t;
        u64 g[NR_GLOBAL_COUNTERS] = {0}, want = m < 2;
        void *p[10], *big;

        REQUIRE(heap_new(&t, modes[m], 32, 1));
        for (unsigned i = 0; i < 10; i++)
            p[i] = heap_kmalloc(t.h, 64);
        big = heap_kmalloc(t.h, 65536);
        heap_global_gauges(t.h, g);
        EXPECT_EQ(g[GLOBAL_small_allocs], 10 * want);
        EXPECT_EQ(g[GLOBAL_small_bytes], 640 * want);
        EXPECT_EQ(g[GLOBAL_large_allocs], want);
        EXPECT_EQ(g[GLOBAL_large_bytes], 65536 * want);
        for (unsigned i = 0; i < 10; i++)
            EXPECT_TRUE(heap_kfree(t.h, p[i]));
        EXPECT_TRUE(heap_kfree(t.h, big));
        heap_global_gauges(t.h, g);
        EXPECT_EQ(g[GLOBAL_small_frees], 10 * want);
        EXPECT_EQ(g[GLOBAL_small_bytes], 0u);
        EXPECT_EQ(g[GLOBAL_large_frees], want);
        EXPECT_EQ(g[GLOBAL_large_bytes], 0u);
        heap_delete(&t);
    }
}

/* All memory is taken, in objects and in pages: NULL at the end, everything comes back, nothing is lost. */
/* Pages of the front end's own blocks: which slabs they lie in, and so how many, is chance. */
static u64 pages_of_pools(const struct heap *h)
{
    u64 pages = 0;

    for (unsigned i = 0; i < SHEAF_POOLS; i++)
        pages += h->sheaf_pool[i].node[0].slabs << h->sheaf_pool[i].order;
    return pages;
}

TEST(shortage_is_null_and_recoverable)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;
        void **chain = NULL, **p;
        u64 free_before, taken = 0;

        REQUIRE(heap_new(&t, arms[a], 16, 1));
        pcp_drain_all(t.h); /* what making the tables left there */
        free_before = t.h->buddy[0].pages_free + pages_of_pools(t.h);
        while ((p = heap_kmalloc(t.h, taken % 5 ? 1000 : 20000))) {
            *p = chain;
            chain = p;
            taken++;
        }
        EXPECT_GT(taken, 1000u);
        EXPECT_NULL(heap_kmalloc(t.h, 20000));
        while (chain) {
            void **next = *chain;

            EXPECT_TRUE(heap_kfree(t.h, chain));
            chain = next;
        }
        EXPECT_TRUE(heap_good(&t));
        heap_reclaim(t.h);
        pcp_drain_all(t.h);
        EXPECT_EQ(t.h->buddy[0].pages_free + pages_of_pools(t.h), free_before);
        heap_delete(&t);
    }
}

/* What sits in an array or an empty slab must not cause a false shortage. */
TEST(reclaim_finds_memory_parked_in_arrays)
{
    struct test_heap t;
    void *p[64];
    unsigned got = 0;

    REQUIRE(heap_new(&t, "slab.min_partial=1000", 16, 1));
    for (size_t size = 16; size <= KMALLOC_MAX_SMALL; size *= 2) {
        for (unsigned i = 0; i < 64; i++)
            p[i] = heap_kmalloc(t.h, size);
        for (unsigned i = 0; i < 64; i++)
            heap_kfree(t.h, p[i]);
    }
    while (got < 64 && (p[got] = heap_kmalloc(t.h, 1 << 20)))
        got++;
    EXPECT_GE(got, 11u); /* 16 MiB less descriptors, tables and what lies across */
    while (got)
        heap_kfree(t.h, p[--got]);
    heap_delete(&t);
}

/* The published crash: an allocation between "the CPU count says N" and "the tables for N exist". Here
 * the count already says 4 (host_test_cpus), and only the boot CPU's own row exists. */
TEST(allocation_before_the_cpu_tables_exist)
{
    struct test_heap t;
    void *p;

    host_test_cpus(4);
    REQUIRE(heap_new_early(&t, "front=bounded", 32));
    EXPECT_EQ(plat_cpu_count(), 4u);
    EXPECT_EQ(cache_front_capacity(&t.h->kmalloc[2]), 32u);
    p = heap_kmalloc(t.h, 64);
    REQUIRE(p != NULL);
    REQUIRE(heap_cpus_init(t.h, 4));
    EXPECT_EQ(cache_cpu(&t.h->kmalloc[2], 3)->limit, 32u);
    EXPECT_EQ(cache_row(&t.h->kmalloc[2], 0)[CACHE_alloc_slow], 1u);
    EXPECT_TRUE(heap_kfree(t.h, p)); /* counted before, freed after */
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* With one block for the tables and a few pages beside it: some heaps have enough, the others say no. */
TEST(cpu_tables_that_find_no_memory_are_refused)
{
    static const char *const fronts[] = {"front=none", "front=bounded", "front=sheaf",
                                         "front=magazine"};

    host_test_cpus(4);
    for (unsigned a = 0; a < ARRAY_SIZE(fronts); a++) {
        unsigned made = 0, refused = 0;

        for (unsigned spare = 0; spare < 64; spare += 3) {
            struct test_heap t;
            unsigned order = 0, got = 0;
            void *tables, *page[64];

            REQUIRE(heap_new_early(&t, fronts[a], 32));
            while (PAGE_SIZE << order < PLAT_CPU_STRIDE * 4)
                order++;
            tables = alloc_pages(t.h, order);
            REQUIRE(tables != NULL);
            while (got < spare && (page[got] = alloc_pages(t.h, 0)))
                got++;
            while (alloc_pages(t.h, 0))
                ;
            while (got--)
                EXPECT_TRUE(free_pages(t.h, page[got], 0));
            if (spare % 2) /* else without room for the tables themselves */
                EXPECT_TRUE(free_pages(t.h, tables, order));
            if (heap_cpus_init(t.h, 4))
                made++;
            else
                refused++;
            heap_delete(&t);
        }
        EXPECT_TRUE(made > 0);
        EXPECT_TRUE(refused > 0);
    }
}
