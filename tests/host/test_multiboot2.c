/* test_multiboot2.c: the multiboot2 parser on a real hand-over, on hand-made ones, on every way of
 * cutting one short; and the memory map's normalisation against a page-by-page model.
 *
 * Locking: none. Contexts: hosted, one CPU. */
#include "test.h"

#include "../../arch/x86_64/multiboot2.h"

static const u8 real[] = {
#include "testdata/multiboot2_q35.inc"
};

/* -- a structure in the making -- */
#define MADE_RANGES 6000u /* in a list of which no table's end may be noticed */

static struct {
    u8 bytes[8 + MADE_RANGES * 32] ALIGNED(8);
    size_t n;
} made;

static void put32(u32 v)
{
    memcpy(made.bytes + made.n, &v, 4);
    made.n += 4;
}

static void put64(u64 v)
{
    memcpy(made.bytes + made.n, &v, 8);
    made.n += 8;
}

static void begin(void)
{
    memset(&made, 0, sizeof(made));
    made.n = 8;
}

static void tag(u32 type, u32 bytes)
{
    made.n = round_up(made.n, (size_t)8);
    put32(type);
    put32(bytes);
}

static const char *end(struct mb2_info *out)
{
    u32 total;

    tag(0, 8);
    total = (u32)made.n;
    memcpy(made.bytes, &total, 4);
    return mb2_parse(made.bytes, made.n, out);
}

/* Parses a copy that ends where its allocation ends, so that ASan sees any step past it. */
static const char *parse_copy(const void *bytes, size_t n)
{
    static struct mb2_info info;
    void *copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    const char *why = mb2_parse(copy, n, &info);

    free(copy);
    return why;
}

static struct mb2_info info;

/* What is listed, by kind. */
static struct phys_range listed[MADE_RANGES];
static enum mb2_kind kinds[MADE_RANGES];

static unsigned list(void)
{
    struct mb2_cursor at = {0};
    unsigned n = 0;

    while (n < MADE_RANGES && mb2_next(&info, &at, &listed[n], &kinds[n]))
        n++;
    return n;
}

static unsigned count(enum mb2_kind kind)
{
    unsigned n = 0;

    for (unsigned i = list(); i-- > 0;)
        n += kinds[i] == kind;
    return n;
}

/* Into a set with room for max; returns how many ranges there are. */
static unsigned normalise(const struct phys_range *usable, unsigned usables,
                          const struct phys_range *reserved, unsigned reserveds,
                          struct phys_range *out, unsigned max)
{
    struct range_set s = {.at = out, .max = max};

    for (unsigned i = 0; i < usables; i++)
        ranges_add(&s, usable[i]);
    for (unsigned i = 0; i < reserveds; i++)
        ranges_cut(&s, reserved[i]);
    ranges_to_pages(&s);
    return s.n;
}

/* The same of all that is listed. */
static struct range_set listed_set(struct phys_range *out, unsigned max)
{
    struct range_set s = {.at = out, .max = max};
    unsigned n = list();

    for (unsigned i = 0; i < n; i++)
        if (kinds[i] == MB2_USABLE)
            ranges_add(&s, listed[i]);
    for (unsigned i = 0; i < n; i++)
        if (kinds[i] != MB2_USABLE)
            ranges_cut(&s, listed[i]);
    ranges_to_pages(&s);
    return s;
}

TEST(real_hand_over)
{
    REQUIRE(mb2_parse(real, sizeof(real), &info) == NULL);
    EXPECT_STR(info.args, "selfcheck=0 front=bounded tests=malloc/*");
    EXPECT_EQ(info.rsdp_bytes, 20);
    EXPECT_MEM(info.rsdp, "RSD PTR ", 8);
    EXPECT_EQ(count(MB2_MODULE), 0);
    EXPECT_GT(info.symbols.end, info.symbols.start);
    EXPECT_GT(info.strings.end, info.strings.start);

    struct phys_range r[8];
    REQUIRE(listed_set(r, 8).n == 3);
    EXPECT_EQ(r[0].start, 0);
    EXPECT_EQ(r[0].end, 0x9f000);
    EXPECT_EQ(r[1].start, 0x100000);
    EXPECT_EQ(r[2].start, 0x100000000);
    EXPECT_EQ(r[2].end, 0x1c0000000);
}

TEST(every_truncation_is_refused)
{
    u32 total;

    for (size_t n = 0; n < sizeof(real); n++) {
        u8 cut[sizeof(real)];

        EXPECT(parse_copy(real, n) != NULL); /* says more than there is */
        memcpy(cut, real, n);
        total = (u32)n;
        if (n >= 4)
            memcpy(cut, &total, 4);
        EXPECT(parse_copy(cut, n) != NULL); /* owns to it, but its end is missing */
    }
    EXPECT_NULL(parse_copy(real, sizeof(real)));
}

TEST(flipped_bits_never_reach_outside)
{
    u64 random = test_seed() | 1;

    for (unsigned i = 0; i < test_scale(20000); i++) {
        u8 bad[sizeof(real)];

        memcpy(bad, real, sizeof(real));
        for (unsigned flips = 1 + test_random(&random) % 8; flips > 0; flips--)
            bad[test_random(&random) % sizeof(bad)] ^= (u8)(1u << test_random(&random) % 8);
        const char *why = parse_copy(bad, sizeof(bad));
        EXPECT(why == NULL || why[0] != 0);
    }
}

TEST(arguments)
{
    begin();
    tag(1, 8 + 6);
    memcpy(made.bytes + made.n, "a=b c", 6);
    made.n += 6;
    EXPECT_NULL(end(&info));
    EXPECT_STR(info.args, "a=b c");

    begin();
    tag(1, 8 + 3); /* no NUL within the tag, though one follows */
    memcpy(made.bytes + made.n, "a=b", 3);
    made.n += 3;
    EXPECT(end(&info) != NULL);

    begin();
    tag(1, 8);
    EXPECT(end(&info) != NULL);

    begin();
    EXPECT_NULL(end(&info));
    EXPECT_STR(info.args, "");
}

TEST(newer_root_pointer_is_preferred_in_either_order)
{
    for (unsigned first = 0; first < 2; first++) {
        begin();
        for (unsigned i = 0; i < 2; i++) {
            bool newer = (i == 0) == (first == 0);

            tag(newer ? 15 : 14, newer ? 44 : 28);
            made.n += newer ? 36 : 20;
        }
        EXPECT_NULL(end(&info));
        EXPECT_EQ(info.rsdp_bytes, 36);
    }
    begin();
    tag(15, 43);
    made.n += 35;
    EXPECT(end(&info) != NULL);
}

TEST(tags_that_lie_about_their_size)
{
    begin();
    tag(99, 7); /* shorter than its head: would never advance */
    EXPECT(end(&info) != NULL);
    begin();
    tag(99, 0);
    EXPECT(end(&info) != NULL);
    begin();
    tag(99, 0xfffffff9); /* rounding it up wraps */
    EXPECT(end(&info) != NULL);
    begin();
    tag(99, 24); /* unknown, skipped */
    made.n += 16;
    EXPECT_NULL(end(&info));
}

TEST(memory_map_entries)
{
    begin();
    tag(6, 16 + 4 * 32);
    put32(32); /* longer entries than known: the rest is skipped */
    put32(0);
    static const struct {
        u64 base, bytes;
        u32 type;
    } map[] = {{0x1000, 0x2000, 1}, {0x5000, 0, 1}, {~(u64)0xfff, 0x10000, 3}, {0x9000, 0x10, 5}};
    for (unsigned i = 0; i < ARRAY_SIZE(map); i++) {
        put64(map[i].base);
        put64(map[i].bytes);
        put32(map[i].type);
        put32(0);
        put64(0xdeadbeef);
    }
    EXPECT_NULL(end(&info));
    REQUIRE(list() == 3); /* an empty one vanishes */
    EXPECT_EQ(kinds[0], MB2_USABLE);
    EXPECT_EQ(listed[0].end, 0x3000);
    EXPECT_EQ(kinds[1], MB2_ACPI);
    EXPECT_EQ(listed[1].end, ~(u64)0); /* wraps: ends at the top */
    EXPECT_EQ(kinds[2], MB2_RESERVED);
    EXPECT_EQ(listed[2].start, 0x9000);

    begin();
    tag(6, 16 + 16);
    put32(16); /* entries too short to hold one */
    put32(0);
    made.n += 16;
    EXPECT(end(&info) != NULL);
}

static void map_begin(unsigned entries)
{
    tag(6, 16 + entries * 24);
    put32(24);
    put32(0);
}

static void map_entry(u64 base, u64 bytes, u32 type)
{
    put64(base);
    put64(bytes);
    put32(type);
    put32(0);
}

/* Every second page is usable, and the list as long as it likes. */
TEST(a_map_has_as_many_entries_as_it_likes)
{
    static const unsigned lengths[] = {300, 500, 4 * 1024, MADE_RANGES - 2};
    static struct phys_range out[MADE_RANGES];

    for (unsigned k = 0; k < ARRAY_SIZE(lengths); k++) {
        for (unsigned order = 0; order < 3; order++) { /* upwards, downwards, and inside out */
            unsigned n = lengths[k];

            begin();
            map_begin(n);
            for (unsigned i = 0; i < n; i++) {
                unsigned at = order == 0 ? i : order == 1 ? n - 1 - i : i % 2 ? i : n - 1 - i;

                if (order == 2 && n % 2)
                    at = i;
                map_entry(at * 0x1000ul, 0x1000, at % 2 ? 1 : 2);
            }
            REQUIRE(end(&info) == NULL);
            EXPECT_EQ(list(), n);
            REQUIRE(listed_set(out, n).n == n / 2);
            for (unsigned i = 0; i < n / 2; i++)
                EXPECT_EQ(out[i].start, i * 0x2000ul + 0x1000);
        }
    }
}

/* One entry is usable, all others reserve a page of it. */
TEST(a_set_cut_into_more_pieces_than_it_has_room_for_says_what_it_dropped)
{
    struct phys_range out[100];
    struct range_set s;

    begin();
    map_begin(2001);
    map_entry(0, 2000 * 0x10000ul, 1);
    for (unsigned i = 0; i < 2000; i++) /* pieces of 1 to 15 pages behind each other */
        map_entry(i * 0x10000ul, 0x1000 + i % 15 * 0x1000, 2);
    REQUIRE(end(&info) == NULL);
    s = listed_set(out, ARRAY_SIZE(out));
    u64 all = 0;
    for (unsigned i = 0; i < 2000; i++)
        all += 0xf000 - i % 15 * 0x1000;
    EXPECT_EQ(s.n, ARRAY_SIZE(out));
    EXPECT_EQ(ranges_bytes(&s) + s.dropped, all);
    unsigned largest = 0; /* there are 134 of them; the last cuts meet nobody to be compared with */
    for (unsigned i = 0; i < s.n; i++)
        largest += out[i].end - out[i].start == 0xf000;
    EXPECT_GE(largest, ARRAY_SIZE(out) - 2);
}

TEST(modules)
{
    begin();
    tag(3, 17);
    put32(0x200000);
    put32(0x201000);
    made.n += 1;
    EXPECT_NULL(end(&info));
    REQUIRE(list() == 1);
    EXPECT_EQ(kinds[0], MB2_MODULE);
    EXPECT_EQ(listed[0].end, 0x201000);

    begin();
    tag(3, 17);
    put32(0x201000);
    put32(0x200000);
    made.n += 1;
    EXPECT(end(&info) != NULL);
}

static void module(u32 start, u32 end_)
{
    tag(3, 17);
    put32(start);
    put32(end_);
    made.n += 1;
}

/* The whole way, from a hand-over that has every fault a memory map is known to have. */
TEST(worst_memory_map_with_modules_that_share_pages)
{
    struct phys_range out[8];

    begin();
    module(0x200100, 0x200900); /* two in one page, */
    module(0x200900, 0x201010); /* the second runs over into the next, */
    module(0x201010, 0x201010); /* where an empty one lies, */
    module(0x200800, 0x200a00); /* and one across both */
    module(0x2ffff0, 0x300010); /* across the border of two usable ranges */
    tag(6, 16 + 9 * 24);
    put32(24);
    put32(0);
    map_entry(0x300000, 0x100000, 1); /* unsorted */
    map_entry(0x100000, 0x200000, 1); /* meets the one above */
    map_entry(0x380000, 0x080000, 2); /* contradicts it: reserved wins */
    map_entry(0x180000, 0x100000, 1); /* overlaps */
    map_entry(0x180000, 0x100000, 1); /* twice */
    map_entry(0x250000, 0, 1);        /* empty, of either kind */
    map_entry(0x250000, 0, 2);
    map_entry(0x600800, 0x1000, 1); /* holds no whole page */
    map_entry(~(u64)0xffff, ~(u64)0, 2);
    REQUIRE(end(&info) == NULL);
    REQUIRE(listed_set(out, 8).n == 3);
    EXPECT_EQ(out[0].start, 0x100000);
    EXPECT_EQ(out[0].end, 0x200000);
    EXPECT_EQ(out[1].start, 0x202000);
    EXPECT_EQ(out[1].end, 0x2ff000);
    EXPECT_EQ(out[2].start, 0x301000);
    EXPECT_EQ(out[2].end, 0x380000);
}

TEST(many_modules_and_many_reserved_ranges_at_once)
{
    static struct phys_range out[1000];
    const unsigned n = ARRAY_SIZE(out);

    begin();
    for (unsigned i = 0; i < n; i++)
        module(0x1000000 + i * 0x4000, 0x1000000 + i * 0x4000 + 1);
    map_begin(n + 1);
    map_entry(0x1000000, n * 0x4000, 1);
    for (unsigned i = 0; i < n; i++)
        map_entry(0x1000000 + n * 0x4000 - 0x1000, 0x1000 + i, 3);
    REQUIRE(end(&info) == NULL);
    EXPECT_EQ(count(MB2_MODULE), n);
    EXPECT_EQ(count(MB2_ACPI), n);
    struct range_set s = listed_set(out, n);

    REQUIRE(s.n == n); /* a module a page, three pages behind it; the last of all is off */
    EXPECT_EQ(s.dropped, 0);
    for (unsigned i = 0; i < n; i++) {
        EXPECT_EQ(out[i].start, 0x1001000 + i * 0x4000);
        EXPECT_EQ(out[i].end, 0x1004000 + i * 0x4000 - (i == n - 1 ? 0x1000 : 0));
    }
}

TEST(section_headers)
{
    static const struct {
        u32 n, step, names, bytes;
        bool good;
    } list[] = {
        {2, 64, 1, 20 + 128, true},
        {2, 64, 2, 20 + 128, false},         /* names a section past the last */
        {3, 64, 1, 20 + 128, false},         /* more headers than bytes */
        {2, 40, 1, 20 + 128, false},         /* a 32-bit image */
        {0x4000001, 64, 1, 20 + 128, false}, /* number x size wraps in 32 bits */
    };

    for (unsigned i = 0; i < ARRAY_SIZE(list); i++) {
        begin();
        tag(9, list[i].bytes);
        put32(list[i].n);
        put32(list[i].step);
        put32(0);
        size_t at = made.n;
        made.n += 128;
        u32 type = 2;
        u64 address = 0x300000, bytes = 0x240;
        memcpy(made.bytes + at + 4, &type, 4);
        memcpy(made.bytes + at + 16, &address, 8);
        memcpy(made.bytes + at + 32, &bytes, 8);
        memcpy(made.bytes + at + 40, &list[i].names, 4);
        EXPECT_EQ(end(&info) == NULL, list[i].good);
        if (list[i].good)
            EXPECT_EQ(info.symbols.end, 0x300240);
    }
}

/* -- normalisation -- */

TEST(page_fragments)
{
    static const struct phys_range usable[] = {
        {0x3000, 0x5800},
        {0x5800, 0x8001}, /* meet inside a page, which is usable all the same */
        {0x800, 0x1fff},  /* holds no whole page */
        {0x9000, 0x9000},
    };
    static const struct phys_range reserved[] = {{0x4800, 0x4801}};
    struct phys_range out[4];

    REQUIRE(normalise(usable, ARRAY_SIZE(usable), reserved, 1, out, 4) == 2);
    EXPECT_EQ(out[0].start, 0x3000);
    EXPECT_EQ(out[0].end, 0x4000);
    EXPECT_EQ(out[1].start, 0x5000);
    EXPECT_EQ(out[1].end, 0x8000);
}

TEST(top_of_memory)
{
    static const struct phys_range usable[] = {{0x1000, ~(u64)0}, {~(u64)0 - 5, ~(u64)0}};
    static const struct phys_range reserved[] = {{0x3000, ~(u64)0}};
    struct phys_range out[2];

    REQUIRE(normalise(usable, 2, reserved, 1, out, 2) == 1);
    EXPECT_EQ(out[0].end, 0x3000);
    EXPECT_EQ(normalise(usable + 1, 1, NULL, 0, out, 2), 0);
}

TEST(largest_ranges_stay)
{
    static const unsigned pages[] = {3, 1, 9, 2, 7, 4};
    struct phys_range out[3];
    struct range_set s = {.at = out, .max = 3};

    for (unsigned i = 0; i < 6; i++)
        ranges_add(&s, (struct phys_range){i * 0x100000, i * 0x100000 + pages[i] * PAGE_SIZE});
    REQUIRE(s.n == 3);
    EXPECT_EQ(out[0].start, 0x200000);
    EXPECT_EQ(out[1].start, 0x400000);
    EXPECT_EQ(out[2].start, 0x500000);
    EXPECT_EQ(s.dropped, 6 * PAGE_SIZE);
    ranges_add(&s, (struct phys_range){0, 2 * PAGE_SIZE}); /* smaller than all: dropped itself */
    REQUIRE(s.n == 3);
    EXPECT_EQ(out[0].start, 0x200000);
    EXPECT_EQ(s.dropped, 8 * PAGE_SIZE);
    ranges_cut(&s, (struct phys_range){0x204000, 0x205000}); /* in two, 4 and 4: one too many */
    REQUIRE(s.n == 3);
    EXPECT_EQ(out[0].end - out[0].start, 4 * PAGE_SIZE);
    EXPECT_EQ(ranges_bytes(&s) + s.dropped, (9 - 1 + 7 + 4 + 8) * PAGE_SIZE);
}

/* 64 pages; a page is in the result if every byte of it is usable and none reserved. Byte ends
 * on a grid of a quarter page. */
#define MODEL_PAGES 64u
#define QUARTER     (PAGE_SIZE / 4)

static bool model_free(const struct phys_range *u, unsigned us, const struct phys_range *r,
                       unsigned rs, u64 page)
{
    for (unsigned q = 0; q < 4; q++) {
        u64 at = page * PAGE_SIZE + q * QUARTER;
        bool usable = false;

        for (unsigned i = 0; i < us; i++)
            usable |= at >= u[i].start && at < u[i].end;
        for (unsigned i = 0; i < rs; i++)
            usable &= !(at >= r[i].start && at < r[i].end);
        if (!usable)
            return false;
    }
    return true;
}

static unsigned random_ranges(u64 *random, struct phys_range *r, unsigned max)
{
    unsigned n = (unsigned)(test_random(random) % (max + 1));

    for (unsigned i = 0; i < n; i++) {
        r[i].start = test_random(random) % (MODEL_PAGES * 4) * QUARTER;
        r[i].end = MIN(r[i].start + test_random(random) % 64 * QUARTER, MODEL_PAGES * PAGE_SIZE);
    }
    return n;
}

TEST(normalisation_against_a_model)
{
    u64 random = test_seed() | 1;

    for (unsigned round = 0; round < test_scale(5000); round++) {
        struct phys_range u[8], r[6], out[MODEL_PAGES];
        unsigned us = random_ranges(&random, u, 8), rs = random_ranges(&random, r, 6);
        unsigned n = normalise(u, us, r, rs, out, MODEL_PAGES), at = 0;

        for (unsigned i = 0; i < n; i++) {
            EXPECT_LT(out[i].start, out[i].end);
            EXPECT_EQ((out[i].start | out[i].end) % PAGE_SIZE, 0);
            EXPECT(i == 0 || out[i - 1].end < out[i].start); /* sorted, and not even touching */
        }
        for (u64 page = 0; page < MODEL_PAGES; page++) {
            while (at < n && out[at].end <= page * PAGE_SIZE)
                at++;
            bool in = at < n && out[at].start <= page * PAGE_SIZE;
            EXPECT_EQ(in, model_free(u, us, r, rs, page));
        }
    }
}
