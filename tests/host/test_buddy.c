/* test_buddy.c: the buddy alone, on frames of its own; its header's worked example; pages through the heap. */
#include "heap_fixture.h"

struct rig {
    struct frames fs;
    struct buddy b;
    struct node_row row;
    void *memory;
};

static void rig_up(struct rig *r, u64 frames)
{
    size_t bytes = (frames << PAGE_SHIFT) + (PAGE_SIZE << MAX_ORDER);

    memset(r, 0, sizeof(*r));
    r->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    r->fs.base = round_up((uintptr_t)r->memory, (uintptr_t)(PAGE_SIZE << MAX_ORDER));
    r->fs.count = frames;
    r->fs.at = aligned_alloc(CACHE_LINE, frames * sizeof(struct frame));
    memset(r->fs.at, 0, frames * sizeof(struct frame));
    for (u64 i = 0; i < frames; i++)
        r->fs.at[i].tag = FRAME_RESERVED;
    buddy_init(&r->b, &r->fs, 0, 0, r->fs.count, &r->row);
}

static void rig_down(struct rig *r)
{
    size_t bytes = (r->fs.count << PAGE_SHIFT) + (PAGE_SIZE << MAX_ORDER);

    spin_destroy(&r->b.lock);
    free(r->fs.at);
    plat_unpoison(r->memory, bytes);
    munmap(r->memory, bytes);
}

static u64 number(struct rig *r, struct frame *f)
{
    return (u64)(f - r->fs.at);
}

TEST(header_example)
{
    struct rig r;
    struct frame *a, *b;
    struct heap_fault f;

    rig_up(&r, 8);
    buddy_add(&r.b, 0, 8);
    EXPECT_EQ(r.b.blocks[3], 1u);
    a = buddy_alloc(&r.b, 0);
    REQUIRE(a != NULL);
    EXPECT_EQ(number(&r, a), 0u);
    EXPECT_EQ(r.row.ctr[NODE_page_split], 3u);
    EXPECT_EQ(r.b.blocks[0], 1u);
    EXPECT_EQ(r.b.blocks[1], 1u);
    EXPECT_EQ(r.b.blocks[2], 1u);
    b = buddy_alloc(&r.b, 1);
    REQUIRE(b != NULL);
    EXPECT_EQ(number(&r, b), 2u);
    EXPECT_EQ(r.row.ctr[NODE_page_split], 3u);
    buddy_free(&r.b, a, 0);
    EXPECT_EQ(r.row.ctr[NODE_page_merge], 1u);
    EXPECT_EQ(r.b.blocks[1], 1u);
    buddy_free(&r.b, b, 1);
    EXPECT_EQ(r.row.ctr[NODE_page_merge], 3u);
    EXPECT_EQ(r.b.blocks[3], 1u);
    EXPECT_TRUE(buddy_validate(&r.b, &f));
    rig_down(&r);
}

TEST(every_odd_range_is_used_whole)
{
    for (u64 first = 0; first < 9; first++)
        for (u64 n = 1; n < 40; n += 3) {
            struct rig r;
            struct heap_fault f;
            u64 got = 0;

            rig_up(&r, 64);
            buddy_add(&r.b, first, n);
            EXPECT_TRUE(buddy_validate(&r.b, &f));
            while (buddy_alloc(&r.b, 0))
                got++;
            EXPECT_EQ(got, n);
            EXPECT_EQ(r.b.pages_free, 0u);
            rig_down(&r);
        }
}

/* Two ranges that touch merge; a reserved frame between them does not let anything across. */
TEST(a_hole_is_never_merged_over)
{
    struct rig r;
    struct frame *f;

    rig_up(&r, 16);
    buddy_add(&r.b, 0, 7);
    buddy_add(&r.b, 8, 8);
    EXPECT_EQ(r.b.blocks[3], 1u);
    while ((f = buddy_alloc(&r.b, 0)))
        EXPECT_NE(number(&r, f), 7u);
    rig_down(&r);
}

TEST(random_blocks_never_overlap_and_merge_back)
{
    enum { FRAMES = 4096, LIVE = 300 };
    struct rig r;
    struct {
        struct frame *f;
        unsigned order;
    } live[LIVE];
    u8 *taken = calloc(1, FRAMES);
    u64 seed = test_seed();
    struct heap_fault fault;

    rig_up(&r, FRAMES);
    buddy_add(&r.b, 0, FRAMES);
    memset(live, 0, sizeof(live));
    for (unsigned i = 0; i < test_scale(200000); i++) {
        unsigned at = test_random(&seed) % LIVE;

        if (live[at].f) {
            for (u64 j = 0; j < 1ull << live[at].order; j++)
                taken[number(&r, live[at].f) + j] = 0;
            buddy_free(&r.b, live[at].f, live[at].order);
            live[at].f = NULL;
            continue;
        }
        live[at].order = test_random(&seed) % 7;
        live[at].f = buddy_alloc(&r.b, live[at].order);
        if (!live[at].f)
            continue;
        EXPECT_EQ(number(&r, live[at].f) & ((1ull << live[at].order) - 1), 0u);
        for (u64 j = 0; j < 1ull << live[at].order; j++) {
            EXPECT_EQ(taken[number(&r, live[at].f) + j], 0);
            taken[number(&r, live[at].f) + j] = 1;
        }
    }
    EXPECT_TRUE(buddy_validate(&r.b, &fault));
    for (unsigned i = 0; i < LIVE; i++)
        if (live[i].f)
            buddy_free(&r.b, live[i].f, live[i].order);
    EXPECT_EQ(r.b.blocks[MAX_ORDER], (u64)FRAMES >> MAX_ORDER);
    EXPECT_EQ(r.b.pages_free, (u64)FRAMES);
    rig_down(&r);
    free(taken);
}

TEST(validate_sees_a_broken_list)
{
    struct rig r;
    struct heap_fault f;
    struct frame *head;

    rig_up(&r, 64);
    buddy_add(&r.b, 0, 64);
    EXPECT_TRUE(buddy_validate(&r.b, &f));
    head = list_entry(list_first(&r.b.free[6]), struct frame, link);
    head->tag = TAG(FRAME_LARGE, 6);
    EXPECT_FALSE(buddy_validate(&r.b, &f));
    head->tag = TAG(FRAME_FREE, 6);
    r.b.pages_free++;
    EXPECT_FALSE(buddy_validate(&r.b, &f));
    r.b.pages_free--;
    r.b.blocks[6]++;
    EXPECT_FALSE(buddy_validate(&r.b, &f));
    r.b.blocks[6]--;
    EXPECT_TRUE(buddy_validate(&r.b, &f));
    rig_down(&r);
}

TEST(pages_know_their_owner)
{
    struct test_heap t;
    char *p, *q;

    REQUIRE(heap_new(&t, "", 32, 1));
    p = alloc_pages(t.h, 3);
    q = alloc_pages(t.h, 0);
    REQUIRE(p && q);
    EXPECT_FALSE(free_pages(t.h, p, 2));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_wrong_order), 1u);
    EXPECT_FALSE(free_pages(t.h, p + PAGE_SIZE, 3));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_interior), 1u);
    EXPECT_FALSE(heap_kfree(t.h, p));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_foreign), 1u);
    EXPECT_TRUE(free_pages(t.h, p, 3));
    EXPECT_FALSE(free_pages(t.h, p, 3));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_free_page), 1u);
    EXPECT_TRUE(free_pages(t.h, q, 0));
    EXPECT_FALSE(free_pages(t.h, (void *)(uintptr_t)0x1000, 0));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_foreign), 2u);
    EXPECT_NULL(alloc_pages(t.h, MAX_ORDER + 1));
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(too_little_memory_names_the_need)
{
    struct knobs k;
    struct knob_refusals r = {0};
    struct mem_range range = {NULL, 64};
    u64 need;

    REQUIRE(knobs_parse(&k, "", true, &r));
    range.base =
        mmap(NULL, 64 * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NULL(heap_init(&k, &range, 1, &need));
    EXPECT_GT(need, 64 * PAGE_SIZE);
    munmap(range.base, 64 * PAGE_SIZE);
}
