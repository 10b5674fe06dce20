/* test_heap.c: heaps on memory maps as they come: in one piece, in hundreds of pieces, with holes of a page
 * and holes of many GiB. All memory that there is gets used, a hole costs next to nothing, and what lies in
 * a hole is refused.
 *
 * The addresses of a map are reserved, and only its ranges may be touched.
 *
 * Locking: none. Contexts: hosted. */
#include "heap_fixture.h"

#define MIB          ((u64)1 << 20)
#define GIB          ((u64)1 << 30)
#define PAGES(bytes) ((bytes) >> PAGE_SHIFT)

static struct map {
    char *area; /* at a whole largest block */
    struct mem_range range[3000];
    unsigned ranges;
    u64 pages; /* in them */
} map;

static void map_begin(struct test_heap *t, u64 bytes)
{
    t->bytes = bytes + (PAGE_SIZE << MAX_ORDER);
    t->memory = mmap(NULL, t->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(t->memory != MAP_FAILED);
    map.area = (char *)round_up((uintptr_t)t->memory, (uintptr_t)PAGE_SIZE << MAX_ORDER);
    map.ranges = 0;
    map.pages = 0;
}

/* In order. */
static void map_add(u64 at, u64 bytes)
{
    CHECK(map.ranges < ARRAY_SIZE(map.range));
    CHECK(mprotect(map.area + at, bytes, PROT_READ | PROT_WRITE) == 0);
    map.range[map.ranges++] = (struct mem_range){map.area + at, PAGES(bytes)};
    map.pages += PAGES(bytes);
}

static bool map_has(const void *page)
{
    for (unsigned i = 0; i < map.ranges; i++)
        if ((uintptr_t)page - (uintptr_t)map.range[i].base < map.range[i].pages << PAGE_SHIFT)
            return true;
    return false;
}

/* False: refused, and *need says with how much it would not have been. */
static bool map_heap(struct test_heap *t, const char *line, unsigned cpus, u64 *need)
{
    struct knob_refusals refused = {0};

    host_test_cpus(cpus);
    CHECK(knobs_parse(&t->knobs, line, true, &refused));
    lockstat_init(&t->knobs, 1, NULL);
    t->h = heap_init(&t->knobs, map.range, map.ranges, need);
    if (!t->h)
        return false;
    CHECK(heap_cpus_init(t->h, cpus));
    host_test_heap(t->h);
    return true;
}

/* Address by address, a hole of 16 GiB would take long to unpoison. */
static void map_delete(struct test_heap *t)
{
    size_t bytes = t->bytes;

    t->bytes = 0;
    heap_delete(t);
    for (unsigned i = 0; i < map.ranges; i++)
        plat_unpoison(map.range[i].base, map.range[i].pages << PAGE_SHIFT);
    munmap(t->memory, bytes);
}

static u64 total_pages(const struct test_heap *t)
{
    u64 sum = 0;

    for (unsigned k = 0; k < t->h->nodes; k++)
        sum += t->h->buddy[k].pages_total;
    return sum;
}

static u64 descriptor_bytes(const struct test_heap *t)
{
    u64 sum = 0;

    for (unsigned k = 0; k < t->h->nodes; k++) {
        u64 g[NR_NODE_COUNTERS] = {0};

        heap_node_gauges(t->h, k, g);
        sum += g[NODE_descriptor_bytes];
    }
    return sum;
}

static bool in_window(const struct test_heap *t)
{
    return !map_has(t->h);
}

/* Takes all there is, page by page, writes to it, and gives it back. */
static void use_all(struct test_heap *t)
{
    u64 n = 0, before = heap_pages_free(t->h);
    void **chain = NULL, **p;

    while ((p = alloc_pages(t->h, 0))) {
        if (!map_has(p)) {
            EXPECT(map_has(p));
            break;
        }
        memset(p, 0x5a, PAGE_SIZE);
        *p = chain;
        chain = p;
        n++;
    }
    EXPECT_EQ(n, before);
    EXPECT_EQ(heap_pages_free(t->h), 0u);
    EXPECT_TRUE(heap_good(t));
    while ((p = chain)) {
        chain = *p;
        EXPECT_TRUE(free_pages(t->h, p, 0));
    }
    EXPECT_EQ(heap_pages_free(t->h), before);
    EXPECT_TRUE(heap_good(t));
}

/* What the heap takes for itself: a 64th for descriptors, and a page of them for each end of a range. */
static void expect_little_taken(const struct test_heap *t)
{
    u64 taken = map.pages - total_pages(t);
    u64 tables = PAGES(map.ranges * 32 + 2 * PAGE_SIZE);

    EXPECT_LE(taken, PAGES(HEAP_BYTES) + PAGES(descriptor_bytes(t)) + tables + 1);
    EXPECT_LE(descriptor_bytes(t),
              (map.pages << PAGE_SHIFT) / 64 + map.ranges * 6 * PAGE_SIZE + PLAT_WINDOW_LARGE / 4);
}

static const char *const arms[] = {"pcp=off", "nodes=2", "owner=lock nodes=3",
                                   "front=sheaf nodes=4 pcp=off"};

/* -- where the heap is -- */

TEST(one_range_is_used_as_it_was)
{
    struct test_heap t;
    u64 need;

    map_begin(&t, 64 * MIB);
    map_add(PAGE_SIZE, 64 * MIB - PAGE_SIZE);
    REQUIRE(map_heap(&t, "", 1, &need));
    EXPECT((void *)t.h == map.range[0].base);
    EXPECT_EQ(t.h->spans, 1u);
    EXPECT_EQ(total_pages(&t), map.pages - PAGES(HEAP_BYTES + MIB));
    EXPECT_EQ(descriptor_bytes(&t), MIB);
    map_delete(&t);
}

TEST(a_hole_as_large_as_memory_changes_nothing)
{
    struct test_heap t;
    u64 need;

    map_begin(&t, 192 * MIB);
    map_add(0, 64 * MIB);
    map_add(160 * MIB, 32 * MIB);
    REQUIRE(map_heap(&t, "", 1, &need));
    EXPECT((void *)t.h == map.range[0].base);
    EXPECT_EQ(descriptor_bytes(&t), 3 * MIB);
    use_all(&t);
    map_delete(&t);
}

/* -- pieces -- */

TEST(a_hole_of_a_page_in_each_mib)
{
    for (unsigned arm = 0; arm < ARRAY_SIZE(arms); arm++) {
        struct test_heap t;
        u64 need;

        map_begin(&t, 128 * MIB);
        for (unsigned i = 0; i < 128; i++)
            map_add(i * MIB, MIB - PAGE_SIZE);
        REQUIRE(map_heap(&t, arms[arm], 4, &need));
        EXPECT_TRUE(in_window(&t));
        EXPECT_EQ(t.h->spans, 1u); /* no hole is worth one */
        EXPECT_EQ(heap_largest_block(t.h), MIB / 2);
        expect_little_taken(&t);
        use_all(&t);
        map_delete(&t);
    }
}

TEST(pieces_of_a_few_pages)
{
    struct test_heap t;
    u64 need;

    map_begin(&t, 128 * MIB);
    for (unsigned i = 0; i < 2044; i++)
        map_add(i * (MIB / 16), (4 + i % 11) * PAGE_SIZE);
    map_add(128 * MIB - MIB / 4, MIB / 4); /* the CPUs' rows are one block */
    REQUIRE(map_heap(&t, "", 2, &need));
    EXPECT_TRUE(in_window(&t));
    expect_little_taken(&t);
    use_all(&t);
    map_delete(&t);
}

/* -- far apart -- */

static void two_far_apart(struct test_heap *t, u64 distance)
{
    map_begin(t, distance + 128 * MIB);
    map_add(MIB, 127 * MIB);
    map_add(distance, 128 * MIB);
}

TEST(ranges_16_gib_apart)
{
    for (unsigned arm = 0; arm < ARRAY_SIZE(arms); arm++) {
        struct test_heap t;
        u64 need;

        two_far_apart(&t, 16 * GIB);
        REQUIRE(map_heap(&t, arms[arm], 4, &need));
        EXPECT_TRUE(in_window(&t));
        EXPECT_EQ(t.h->frames.count, PAGES(16 * GIB + 128 * MIB));
        EXPECT_EQ(t.h->spans, 2u);
        expect_little_taken(&t);
        for (unsigned k = 1; k < t.h->nodes; k++)
            EXPECT_LE(t.h->buddy[k].pages_total, t.h->buddy[0].pages_total + 2 * BLOCK_FRAMES);
        use_all(&t);
        map_delete(&t);
    }
}

TEST(a_hole_costs_no_memory)
{
    u64 had = 0;

    for (u64 distance = GIB; distance <= 64 * GIB; distance *= 4) {
        struct test_heap t;
        u64 need;

        two_far_apart(&t, distance);
        REQUIRE(map_heap(&t, "", 1, &need));
        EXPECT(had == 0 || total_pages(&t) == had);
        had = total_pages(&t);
        map_delete(&t);
    }
}

/* Where all of a large page of descriptors describes memory, they are one. */
TEST(large_pages_where_there_are_any)
{
    struct test_heap t;
    u64 need, large = 0;

    two_far_apart(&t, 16 * GIB);
    REQUIRE(map_heap(&t, "", 1, &need));
    for (unsigned i = 0; i < t.h->spans; i++)
        if (t.h->span[i].first % (PLAT_WINDOW_LARGE / sizeof(struct frame)) == 0)
            large += PAGES((t.h->span[i].end - t.h->span[i].first) * sizeof(struct frame)) == 512;
    EXPECT_EQ(large, 2u);
    EXPECT_EQ((uintptr_t)t.h->frames.at % PLAT_WINDOW_LARGE, 0u);
    map_delete(&t);
}

/* -- what lies in a hole -- */

static u64 refusals(const struct test_heap *t)
{
    return heap_badfree_count(t->h, BADFREE_foreign);
}

TEST(a_free_into_a_hole_is_refused_like_any_other)
{
    for (unsigned arm = 0; arm < ARRAY_SIZE(arms); arm++) {
        static const u64 at[] = {0, 129 * MIB, 5 * GIB + PAGE_SIZE, 16 * GIB - PAGE_SIZE,
                                 16 * GIB + 128 * MIB};
        struct test_heap t;
        u64 need;

        two_far_apart(&t, 16 * GIB);
        REQUIRE(map_heap(&t, arms[arm], 4, &need));
        for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
            char *p = map.area + at[i];
            u64 before = refusals(&t);

            EXPECT_FALSE(heap_kfree(t.h, p));
            EXPECT_FALSE(heap_kfree(t.h, p + 64));
            for (unsigned order = 0; order <= MAX_ORDER; order += 5)
                EXPECT_FALSE(free_pages(t.h, p, order));
            EXPECT_FALSE(kmem_cache_free(&t.h->kmalloc[2], p));
            EXPECT_NULL(heap_krealloc(t.h, p, 100));
            EXPECT_EQ(heap_ksize(t.h, p), 0u);
            EXPECT_EQ(refusals(&t), before + 7);
        }
        EXPECT_TRUE(heap_good(&t));
        map_delete(&t);
    }
}

TEST(validate_sees_a_hole_that_was_written_to)
{
    struct test_heap t;
    struct heap_fault f;
    struct frame *hole;
    u64 need;

    two_far_apart(&t, 16 * GIB);
    REQUIRE(map_heap(&t, "", 1, &need));
    EXPECT_TRUE(heap_validate(t.h, &f));
    hole = heap_frame(t.h, t.h->span[0].end + 5);
    frame_tag_store(hole, TAG(FRAME_FREE, 0));
    EXPECT_FALSE(heap_validate(t.h, &f));
    EXPECT_EQ(f.address, (u64)(uintptr_t)frame_address(&t.h->frames, hole));
    frame_tag_store(hole, FRAME_RESERVED);
    EXPECT_TRUE(heap_validate(t.h, &f));
    map_delete(&t);
}

/* -- any map -- */

/* Up to 60 ranges, of a page to some MiB, behind each other, near, or far. */
static void random_map(struct test_heap *t, u64 *random)
{
    unsigned n = 1 + (unsigned)(test_random(random) % 60);
    u64 at = test_random(random) % 3000 * PAGE_SIZE, bytes = at;
    struct {
        u64 at, bytes;
    } r[60];

    for (unsigned i = 0; i < n; i++) {
        u64 kind = test_random(random) % 8;

        r[i].at = at;
        r[i].bytes = (1 + test_random(random) % (kind & 1 ? 40 : 2000)) * PAGE_SIZE;
        bytes = at + r[i].bytes;
        at = bytes + PAGE_SIZE * (kind == 7   ? 1 + test_random(random) % 1000000
                                  : kind >= 4 ? 1 + test_random(random) % 3000
                                              : test_random(random) % 3);
    }
    map_begin(t, bytes);
    for (unsigned i = 0; i < n; i++)
        map_add(r[i].at, r[i].bytes);
}

TEST(any_map_is_used_whole_or_refused_for_too_little)
{
    u64 random = test_seed() | 1, made = 0, windows = 0;

    for (unsigned round = 0; round < test_scale(60); round++) {
        struct test_heap t;
        char line[] = "nodes=1 pcp=off";
        u64 need;

        line[6] = (char)('1' + test_random(&random) % MAX_NODES);
        random_map(&t, &random);
        if (map_heap(&t, line, 1, &need)) {
            made++;
            windows += in_window(&t);
            if (in_window(&t))
                expect_little_taken(&t);
            use_all(&t);
            map_delete(&t);
        } else {
            EXPECT_GT(need, map.pages << PAGE_SHIFT);
            munmap(t.memory, t.bytes);
        }
    }
    EXPECT_GT(made, 0u);
    EXPECT_GT(windows, 0u);
}

TEST(a_refusal_names_more_than_there_is)
{
    static const u64 sizes[] = {16, 256, 1000, 1024};
    struct test_heap t;
    u64 need;

    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
        for (unsigned pieces = 1; pieces <= 16; pieces += 15) {
            map_begin(&t, 2 * GIB);
            for (unsigned k = 0; k < pieces; k++)
                map_add(k * (GIB / 16), sizes[i] * PAGE_SIZE / 16 * (16 / pieces));
            EXPECT_FALSE(map_heap(&t, "", 1, &need));
            EXPECT_GT(need, map.pages << PAGE_SHIFT);
            EXPECT_LE(need, 8 * MIB);
            munmap(t.memory, t.bytes);
        }
}
