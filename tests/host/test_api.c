/* test_api.c: aligned blocks, krealloc, bad frees through every door, shortage, and the end of a cache
 * whose objects are spread over the CPUs. Everything in every arm, fast paths on. */
#include "arms.h"

/* -- aligned -- */

TEST(aligned_in_every_arm)
{
    static const size_t sizes[] = {1, 8, 60, 64, 500, 4096, 5000, 8192, 8193, 70000};

    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;

        REQUIRE(heap_new(&t, arms[a], 64, 1));
        for (size_t align = 1; align <= (size_t)4 << 20; align *= 2)
            for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                u8 *p = heap_kmalloc_aligned(t.h, sizes[i], align), *q;

                REQUIRE(p != NULL);
                EXPECT_EQ((uintptr_t)p % MAX(align, (size_t)KMALLOC_ALIGN), 0u);
                EXPECT_GE(heap_ksize(t.h, p), sizes[i]);
                memset(p, 0x3c, sizes[i]);
                q = heap_krealloc_aligned(t.h, p, sizes[i] + 100, align);
                REQUIRE(q != NULL);
                EXPECT_EQ((uintptr_t)q % MAX(align, (size_t)KMALLOC_ALIGN), 0u);
                EXPECT_EQ(q[0], 0x3c);
                EXPECT_EQ(q[sizes[i] - 1], 0x3c);
                memset(q, 0x3d, sizes[i] + 100);
                EXPECT_EQ(heap_krealloc(t.h, q, 1), q); /* in place: the boundary stays */
                EXPECT_TRUE(heap_kfree(t.h, q));
            }
        EXPECT_EQ(refused(&t), 0u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

TEST(illegal_alignments_are_refused)
{
    struct test_heap t;
    u8 *p;

    REQUIRE(heap_new(&t, "", 32, 1));
    EXPECT_NULL(heap_kmalloc_aligned(t.h, 64, 24));
    EXPECT_NULL(heap_kmalloc_aligned(t.h, 64, 3));
    EXPECT_NULL(heap_kmalloc_aligned(t.h, 64, (size_t)8 << 20));
    EXPECT_NULL(heap_kmalloc_aligned(t.h, 64, (size_t)1 << 63));
    EXPECT_NULL(heap_kmalloc_aligned(t.h, SIZE_MAX, 4096));
    EXPECT_NULL(heap_kmalloc_aligned(t.h, ((size_t)4 << 20) + 1, 64));
    EXPECT_EQ(heap_kmalloc_aligned(t.h, 0, 4096), ZERO_SIZE_PTR);
    p = heap_kmalloc_aligned(t.h, 100, 0);
    REQUIRE(p != NULL);
    p[99] = 1;
    EXPECT_NULL(heap_krealloc_aligned(t.h, p, 50, 24));
    EXPECT_NULL(heap_krealloc_aligned(t.h, p, SIZE_MAX, 64));
    EXPECT_EQ(p[99], 1);                          /* and p is still there */
    p = heap_krealloc_aligned(t.h, p, 100, 4096); /* large enough, but not on that boundary */
    REQUIRE(p != NULL);
    EXPECT_EQ((uintptr_t)p % 4096, 0u);
    EXPECT_EQ(p[99], 1);
    EXPECT_TRUE(heap_kfree(t.h, p));
    EXPECT_EQ(refused(&t), 0u);
    heap_delete(&t);
}

static void past_the_end(void *arg)
{
    volatile u8 *p = heap_kmalloc_aligned(((struct test_heap *)arg)->h, 100, 64);

    p[100] = 1;
}

TEST(the_sanitizer_sees_the_end_of_an_aligned_block)
{
    static const char *const lines[] = {"", "objstate=off"};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;

        REQUIRE(heap_new(&t, lines[a], 32, 1));
        if (test_has_asan())
            EXPECT_TRUE(test_asan_catches(past_the_end, &t));
        else
            EXPECT_EQ(PLAT_REDZONE_BYTES, 0);
        heap_delete(&t);
    }
}

/* -- krealloc -- */

TEST(krealloc_edges)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;
        u8 *p, *q;

        REQUIRE(heap_new(&t, arms[a], 32, 1));
        p = heap_krealloc(t.h, NULL, 40);
        REQUIRE(p != NULL);
        memset(p, 9, 40);
        EXPECT_EQ(heap_krealloc(t.h, p, 20), p);
        EXPECT_EQ(heap_krealloc(t.h, p, heap_ksize(t.h, p)), p);
        EXPECT_NULL(heap_krealloc(t.h, p, SIZE_MAX));
        EXPECT_NULL(heap_krealloc(t.h, p, ((size_t)4 << 20) + 1));
        EXPECT_EQ(p[19], 9);
        q = heap_krealloc(t.h, p, 100000);
        REQUIRE(q && q != p);
        EXPECT_EQ(q[19], 9);
        EXPECT_EQ(heap_krealloc(t.h, q, 131072), q);
        EXPECT_EQ(heap_krealloc(t.h, q, 0), ZERO_SIZE_PTR);
        EXPECT_EQ(heap_krealloc(t.h, ZERO_SIZE_PTR, 0), ZERO_SIZE_PTR);
        EXPECT_EQ(refused(&t), 0u);
        EXPECT_NULL(heap_krealloc(t.h, q, 10)); /* freed by the 0 */
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_free_page), 1u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* -- bad frees: every kind, through every door that can see it -- */

enum door { BY_KFREE, BY_CACHE, BY_PAGES, BY_BULK, BY_KFREE_BULK, BY_KREALLOC, DOORS };

static bool free_by(struct test_heap *t, enum door door, void *p)
{
    switch (door) {
    case BY_KFREE:
        return heap_kfree(t->h, p);
    case BY_CACHE:
        return kmem_cache_free(&t->h->kmalloc[4], p);
    case BY_PAGES:
        return free_pages(t->h, p, 1);
    case BY_BULK:
        return kmem_cache_free_bulk(&t->h->kmalloc[4], 1, &p) == 1;
    case BY_KFREE_BULK:
        return heap_kfree_bulk(t->h, 1, &p) == 1;
    default:
        return heap_krealloc(t->h, p, 5) != NULL;
    }
}

static void expect_kind(struct test_heap *t, enum door door, void *p, enum badfree_kind kind)
{
    u64 before = heap_badfree_count(t->h, kind), all = refused(t);

    EXPECT_FALSE(free_by(t, door, p));
    EXPECT_EQ(heap_badfree_count(t->h, kind), before + 1);
    EXPECT_EQ(refused(t), all + 1);
}

static void bad_frees_by(struct test_heap *t, enum door door)
{
    bool objects = door == BY_CACHE || door == BY_BULK, pages = door == BY_PAGES;
    char *p = heap_kmalloc(t->h, 128), *other = heap_kmalloc(t->h, 1000);
    char *block = alloc_pages(t->h, 2), *big = heap_kmalloc(t->h, 50000);
    char *stays = heap_kmalloc(t->h, 128); /* so does the slab that p is in */
    int on_stack = 0;

    REQUIRE(p && other && block && big && stays);
    expect_kind(t, door, &on_stack, BADFREE_foreign);
    expect_kind(t, door, (void *)(uintptr_t)0xdead0000, BADFREE_foreign);
    expect_kind(t, door, (void *)(uintptr_t)0xfffffffffffff000, BADFREE_foreign);
    expect_kind(t, door, t->h, BADFREE_foreign);
    expect_kind(t, door, block + PAGE_SIZE, BADFREE_interior);
    expect_kind(t, door, big + PAGE_SIZE, BADFREE_interior);
    if (pages) {
        expect_kind(t, door, p, BADFREE_wrong_cache);
        expect_kind(t, door, big, BADFREE_wrong_cache);
        expect_kind(t, door, block + 8, BADFREE_interior);
        expect_kind(t, door, block, BADFREE_wrong_order);
    } else {
        expect_kind(t, door, p + 16, BADFREE_interior);
        expect_kind(t, door, p + 1, BADFREE_interior);
        expect_kind(t, door, p + 127, BADFREE_interior);
        expect_kind(t, door, block, BADFREE_foreign);
        expect_kind(t, door, objects ? other : big + 8,
                    objects ? BADFREE_wrong_cache : BADFREE_interior);
    }
    EXPECT_TRUE(heap_kfree(t->h, big));
    EXPECT_TRUE(free_pages(t->h, block, 2));
    expect_kind(t, door, big, BADFREE_free_page);
    expect_kind(t, door, block + PAGE_SIZE, BADFREE_free_page);
    EXPECT_TRUE(heap_kfree(t->h, p));
    if (keeps_states(t) && !pages)
        expect_kind(t, door, p, BADFREE_double);
    EXPECT_TRUE(heap_kfree(t->h, other));
    EXPECT_TRUE(heap_kfree(t->h, stays));
    EXPECT_TRUE(heap_good(t));
}

TEST(every_bad_free_by_every_door_in_every_arm)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++)
        for (enum door d = BY_KFREE; d < DOORS; d++) {
            struct test_heap t;

            REQUIRE(heap_new(&t, arms[a], 32, 1));
            bad_frees_by(&t, d);
            heap_delete(&t);
        }
}

/* Wherever the object is by then: in the array, in its slab, or gone with the slab. */
TEST(a_second_free_is_refused_wherever_the_object_went)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        struct test_heap t;
        void *p[64];
        u64 before;

        REQUIRE(heap_new(&t, arms[a], 32, 1));
        if (keeps_states(&t)) {
            REQUIRE(kmem_cache_alloc_bulk(&t.h->kmalloc[8], 64, p));
            EXPECT_EQ(kmem_cache_free_bulk(&t.h->kmalloc[8], 64, p), 64u);
            EXPECT_EQ(heap_kfree_bulk(t.h, 64, p), 0u);
            EXPECT_EQ(refused(&t), 64u);
        }
        heap_drain_this_cpu(t.h);
        slab_shrink(&t.h->kmalloc[8]);
        pcp_drain_all(t.h);
        if (!keeps_states(&t)) {
            p[0] = heap_kmalloc(t.h, 512);
            EXPECT_TRUE(heap_kfree(t.h, p[0]));
            heap_drain_this_cpu(t.h);
            slab_shrink(&t.h->kmalloc[8]);
        }
        before = heap_badfree_count(t.h, BADFREE_free_page);
        EXPECT_FALSE(heap_kfree(t.h, p[0])); /* the slab is gone: even without states */
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_free_page), before + 1);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

static void *crossed;
static bool crossed_freed;

static void free_crossed(void *arg)
{
    crossed_freed = heap_kfree(((struct test_heap *)arg)->h, crossed);
}

TEST(a_second_free_on_another_cpu_is_refused)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++)
        for (size_t size = 64; size <= 65536; size *= 1024) {
            struct test_heap t;

            REQUIRE(heap_new(&t, arms[a], 32, 2));
            if (keeps_states(&t) || size > KMALLOC_MAX_SMALL) {
                crossed = heap_kmalloc(t.h, size);
                plat_run_on_cpus(2, free_crossed, &t);
                EXPECT_TRUE(crossed_freed);
                EXPECT_FALSE(heap_kfree(t.h, crossed));
                crossed = heap_kmalloc(t.h, size);
                EXPECT_TRUE(heap_kfree(t.h, crossed));
                plat_run_on_cpus(2, free_crossed, &t);
                EXPECT_FALSE(crossed_freed);
                EXPECT_EQ(refused(&t), 2u);
            }
            EXPECT_TRUE(heap_good(&t));
            heap_delete(&t);
        }
}

/* -- shortage -- */

/* All pages are out, and what could be had lies in this CPU's array: with slab.min_partial=0 nothing
 * is left for shrink to find once the array is empty, and yet its pages are there. */
TEST(shortage_finds_what_draining_gave_back)
{
    static const char *const lines[] = {
        "slab.min_partial=0", "slab.min_partial=0 pcp=off", "slab.min_partial=0 poison=full",
        "slab.min_partial=0 objstate=side bounded.objects=256 bounded.bytes=1048576",
        "slab.min_partial=5"};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        void *p[8], **chain = NULL, **q;

        REQUIRE(heap_new(&t, lines[a], 16, 1));
        for (unsigned i = 0; i < 2; i++)
            REQUIRE((p[i] = heap_kmalloc(t.h, 8192)) != NULL);
        while ((q = alloc_pages(t.h, 0))) {
            *q = chain;
            chain = q;
        }
        for (unsigned i = 0; i < 2; i++)
            EXPECT_TRUE(heap_kfree(t.h, p[i]));
        EXPECT_GT(cache_cpu(&t.h->kmalloc[16], 0)->count, 0u);
        q = alloc_pages(t.h, 0);
        EXPECT_TRUE(q != NULL);
        EXPECT_EQ(cache_cpu(&t.h->kmalloc[16], 0)->count, 0u);
        if (q)
            EXPECT_TRUE(free_pages(t.h, q, 0));
        while (chain) {
            void **next = *chain;

            EXPECT_TRUE(free_pages(t.h, chain, 0));
            chain = next;
        }
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* Every kind of call meets the end of memory, says NULL, and leaves what is there alone. */
TEST(every_call_meets_shortage)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++) {
        const struct kmem_cache_args args = {"late", 500, 0, NULL, NULL, 0};
        struct test_heap t;
        struct kmem_cache *c;
        void **chain = NULL, **q, *many[64];
        u8 *p;

        REQUIRE(heap_new(&t, arms[a], 16, 1));
        p = heap_kmalloc(t.h, 3000);
        REQUIRE(p != NULL);
        memset(p, 0x77, 3000);
        c = kmem_cache_create(t.h, &args);
        REQUIRE(c != NULL);
        for (unsigned order = MAX_ORDER + 1; order-- > 0;)
            while ((q = alloc_pages(t.h, order))) {
                q[0] = chain;
                q[1] = (void *)(uintptr_t)order;
                chain = q;
            }
        EXPECT_NULL(alloc_pages(t.h, 0));
        EXPECT_NULL(kmem_cache_alloc(c));
        EXPECT_FALSE(kmem_cache_alloc_bulk(c, 64, many));
        EXPECT_NULL(heap_kmalloc(t.h, 64));
        EXPECT_NULL(heap_kmalloc(t.h, 100000));
        EXPECT_NULL(heap_kmalloc_aligned(t.h, 64, 4096));
        EXPECT_NULL(heap_krealloc(t.h, p, 5000));
        EXPECT_NULL(heap_krealloc_aligned(t.h, p, 5000, 64));
        EXPECT_EQ(p[2999], 0x77);
        EXPECT_TRUE(heap_good(&t));
        while (chain) {
            void **next = chain[0];

            EXPECT_TRUE(free_pages(t.h, chain, (unsigned)(uintptr_t)chain[1]));
            chain = next;
        }
        EXPECT_TRUE(kmem_cache_alloc_bulk(c, 64, many)); /* and on it goes */
        EXPECT_EQ(kmem_cache_free_bulk(c, 64, many), 64u);
        EXPECT_TRUE(kmem_cache_destroy(c, NULL));
        EXPECT_TRUE(heap_kfree(t.h, p));
        EXPECT_EQ(refused(&t), 0u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* -- what is counted as what -- */

/* All locks of a heap count on one row here, and one CPU runs. */
static u64 locks_taken(const struct heap *h)
{
    return counter_read(&h->kmalloc[0].node[0].lock.row->ctr[LOCK_acquisitions]);
}

static u64 calls_of(const struct kmem_cache *c, enum cache_counter i)
{
    return counter_read(&cache_row(c, 0)[i]);
}

/* The last call was one that counts as fast, or as slow, and slow means that it took a lock. */
static void expect_counted(const struct kmem_cache *c, enum cache_counter fast,
                           enum cache_counter slow, const u64 before[3])
{
    bool locked = locks_taken(c->heap) != before[2];

    EXPECT_EQ(calls_of(c, fast) - before[0], locked ? 0u : 1u);
    EXPECT_EQ(calls_of(c, slow) - before[1], locked ? 1u : 0u);
}

/* Hit rates compare across front ends only if a hit is the same everywhere. */
TEST(a_call_is_slow_if_it_took_a_lock)
{
    static const char *const lines[] = {
        "front=none",
        "front=bounded",
        "front=bounded typed=direct",
        "front=bounded bounded.objects=1 objstate=side",
        "front=sheaf",
        "front=sheaf sheaf.cap=5 barn.full=1 barn.empty=0",
        "front=sheaf typed=direct",
        "front=magazine",
        "front=magazine mag.interval=1 stats.slab=global",
        "front=magazine latency=on objstate=off",
    };
    static void *held[600];

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        const struct kmem_cache_args args = {"counted", 96, 0, NULL, NULL, 0};
        u64 random = 11 + a, before[3], slow, fast;
        struct test_heap t;
        struct kmem_cache *c;
        unsigned n = 0;

        REQUIRE(heap_new(&t, lines[a], 32, 1));
        c = kmem_cache_create(t.h, &args);
        REQUIRE(c != NULL);
        for (unsigned i = 0; i < 20000; i++) {
            /* Drifts far up and down, and stays for long where it is: all edges are met. */
            bool more = test_random(&random) % 100 < (i / 2000 % 3 == 0   ? 70u
                                                      : i / 2000 % 3 == 1 ? 50u
                                                                          : 30u);

            before[2] = locks_taken(t.h);
            if (n == 0 || (more && n < ARRAY_SIZE(held))) {
                before[0] = calls_of(c, CACHE_alloc_fast);
                before[1] = calls_of(c, CACHE_alloc_slow);
                REQUIRE((held[n++] = kmem_cache_alloc(c)) != NULL);
                expect_counted(c, CACHE_alloc_fast, CACHE_alloc_slow, before);
            } else {
                before[0] = calls_of(c, CACHE_free_fast);
                before[1] = calls_of(c, CACHE_free_slow);
                EXPECT_TRUE(kmem_cache_free(c, held[--n]));
                expect_counted(c, CACHE_free_fast, CACHE_free_slow, before);
            }
        }
        while (n)
            EXPECT_TRUE(kmem_cache_free(c, held[--n]));
        slow = calls_of(c, CACHE_alloc_slow) + calls_of(c, CACHE_free_slow);
        fast = calls_of(c, CACHE_alloc_fast) + calls_of(c, CACHE_free_fast);
        EXPECT_GT(slow, 0u);
        EXPECT_EQ(fast > 0, c->limit > 0);
        if (c->front == &front_magazine) /* each kind of edge was met */
            EXPECT_TRUE(calls_of(c, CACHE_mag_swap) && calls_of(c, CACHE_depot_get) &&
                        calls_of(c, CACHE_refill));
        if (c->front == &front_sheaf)
            EXPECT_TRUE(calls_of(c, CACHE_barn_get) && calls_of(c, CACHE_refill) &&
                        calls_of(c, CACHE_barn_put));
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* -- a cache's end -- */

static const struct kmem_cache_args plain[] = {
    {"end-small", 136, 0, NULL, NULL, 0},
    {"end-page", 4096, 4096, NULL, NULL, 0},
};

struct spread {
    struct kmem_cache *c;
    void *p[4][20];
};

static void spread_alloc(void *arg)
{
    struct spread *s = arg;

    EXPECT_TRUE(kmem_cache_alloc_bulk(s->c, 20, s->p[plat_cpu_id()]));
}

static void spread_free(void *arg)
{
    struct spread *s = arg;

    EXPECT_EQ(kmem_cache_free_bulk(s->c, 20, s->p[(plat_cpu_id() + 1) % 4]), 20u);
}

/* Busy while objects are out, on whatever CPU; not because other CPUs' arrays hold some. */
TEST(destroy_counts_what_is_out_and_drains_what_is_not)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++)
        for (unsigned k = 0; k < ARRAY_SIZE(plain); k++) {
            struct spread s;
            struct test_heap t;
            void *last;
            u64 busy = 0;

            REQUIRE(heap_new(&t, arms[a], 64, 4));
            s.c = kmem_cache_create(t.h, &plain[k]);
            REQUIRE(s.c != NULL);
            plat_run_on_cpus(plat_all_cpus(), spread_alloc, &s);
            EXPECT_FALSE(kmem_cache_destroy(s.c, &busy));
            EXPECT_EQ(busy, 80u);
            last = kmem_cache_alloc(s.c);
            plat_run_on_cpus(plat_all_cpus(), spread_free, &s);
            kmem_cache_shrink(s.c);
            EXPECT_TRUE(heap_good(&t));
            EXPECT_FALSE(kmem_cache_destroy(s.c, &busy));
            EXPECT_EQ(busy, 1u);
            EXPECT_TRUE(kmem_cache_free(s.c, last));
            EXPECT_TRUE(kmem_cache_destroy(s.c, &busy));
            EXPECT_EQ(busy, 0u);
            EXPECT_TRUE(heap_good(&t));
            heap_delete(&t);
        }
}

/* Whoever keeps the pointer gets nothing from it, however he asks, and can free nothing to it; and a cache made
 * again under the name is a cache like any. */
TEST(a_dead_cache_gives_and_takes_nothing)
{
    for (unsigned a = 0; a < ARRAY_SIZE(arms); a++)
        for (unsigned asks = 0; asks < 2; asks++) {
            const struct kmem_cache_args args = {"mortal", 72, 0, NULL, NULL, asks ? 8 : 0};
            struct kmem_cache *c;
            struct test_heap t;
            struct sheaf *s;
            void *p[40], *old;
            u64 pages, busy = 7;

            REQUIRE(heap_new(&t, arms[a], 32, 2));
            c = kmem_cache_create(t.h, &args);
            REQUIRE(c != NULL);
            REQUIRE((old = kmem_cache_alloc(c)) != NULL);
            EXPECT_TRUE(kmem_cache_free(c, old));
            REQUIRE((s = kmem_cache_prefill_sheaf(c, 5)) != NULL);
            while ((p[0] = kmem_cache_alloc_from_sheaf(c, s)))
                EXPECT_TRUE(kmem_cache_free(c, p[0]));
            EXPECT_TRUE(kmem_cache_destroy(c, NULL)); /* s is empty: it holds nothing of c */
            pages = heap_pages_free(t.h);

            EXPECT_FALSE(kmem_cache_destroy(c, &busy)); /* once is enough */
            EXPECT_EQ(busy, 0u);
            EXPECT_NULL(kmem_cache_alloc(c));
            EXPECT_FALSE(kmem_cache_alloc_bulk(c, 40, p));
            EXPECT_NULL(kmem_cache_prefill_sheaf(c, 1));
            EXPECT_NULL(kmem_cache_prefill_sheaf(c, 500));
            EXPECT_FALSE(kmem_cache_refill_sheaf(c, &s, 1));
            EXPECT_NULL(kmem_cache_alloc_from_sheaf(c, s));
            EXPECT_FALSE(kmem_cache_free(c, old));
            EXPECT_EQ(kmem_cache_free_bulk(c, 1, &old), 0u);
            EXPECT_EQ(kmem_cache_shrink(c), 0u);
            EXPECT_EQ(heap_pages_free(t.h), pages);
            EXPECT_EQ(c->node[0].slabs, 0u);
            kmem_cache_return_sheaf(c, s);
            EXPECT_TRUE(heap_good(&t));

            EXPECT_TRUE(kmem_cache_create(t.h, &args) == c);
            REQUIRE(kmem_cache_alloc_bulk(c, 40, p));
            EXPECT_EQ(kmem_cache_free_bulk(c, 40, p), 40u);
            REQUIRE((p[0] = kmem_cache_alloc(c)) != NULL);
            EXPECT_TRUE(kmem_cache_free(c, p[0]));
            EXPECT_TRUE(kmem_cache_destroy(c, NULL));
            EXPECT_TRUE(heap_good(&t));
            heap_delete(&t);
        }
}
