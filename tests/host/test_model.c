/* test_model.c: what the model checker (model.c) is asked: frees that race for one block, frees against
 * drains, shrinks, merges and shortage, magazines and sheaves that change hands. Every question is
 * asked twice: of the sources as they are, and, where a guard can be taken out, without it, when
 * some order must be found to fail.
 *
 * A main of its own: a run is a coroutine, not a thread, so the harness would be in the way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_programs.h"
#include "../../mm/magazine_impl.h"

#define LIMIT 2000000u

static void *block, *other; /* of the set-up */

/* -- what must hold at the end of any run -- */

static u64 badfrees(enum badfree_kind kind)
{
    return heap_badfree_count(h, kind);
}

u64 model_badfrees(void)
{
    u64 g[NR_GLOBAL_COUNTERS] = {0};

    heap_global_gauges(h, g);
    return g[GLOBAL_bad_frees];
}

void model_whole(void)
{
    struct heap_fault f = {0};

    if (!heap_validate(h, &f))
        model_fail(f.what);
}

u64 model_in_use(const struct kmem_cache *c)
{
    struct balance b;

    cache_balance(c, &b);
    MODEL_EXPECT(b.holds);
    return b.in_use;
}

static u64 pages_out(void)
{
    u64 node[NR_NODE_COUNTERS] = {0};

    heap_node_gauges(h, 0, node);
    return node[NODE_pages_total] - node[NODE_pages_free];
}

static unsigned winners(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < MODEL_CPUS; i++)
        n += model_run.ok[i];
    return n;
}

/* -- two frees of one object -- */

static void object_setup(void)
{
    other = heap_kmalloc(h, 64); /* so that the slab has a life of its own */
    block = heap_kmalloc(h, 64);
    CHECK(block && other);
}

static void lone_object_setup(void)
{
    block = heap_kmalloc(h, 64);
    CHECK(block);
}

static void free_block(void)
{
    model_run.ok[plat_cpu_id()] = heap_kfree(h, block);
}

static void free_block_in_bulk(void)
{
    model_run.ok[plat_cpu_id()] = kmem_cache_free_bulk(&h->kmalloc[2], 1, &block) == 1;
}

static void one_object_freed(void)
{
    MODEL_EXPECT(winners() == 1);
    MODEL_EXPECT(model_badfrees() == 1);
    MODEL_EXPECT(badfrees(BADFREE_double) + badfrees(BADFREE_free_page) == 1);
    MODEL_EXPECT(model_in_use(&h->kmalloc[2]) == (other ? 1 : 0));
    model_whole();
}

/* The page of the slab may be somebody's by the time the loser looks. */
static void one_object_freed_and_page_taken(void)
{
    MODEL_EXPECT(winners() == 1);
    MODEL_EXPECT(model_badfrees() == 1);
    MODEL_EXPECT(model_run.got[2] != NULL);
    MODEL_EXPECT(model_in_use(&h->kmalloc[2]) == 0);
    model_whole();
}

static void take_slab_page(void)
{
    model_run.got[plat_cpu_id()] = alloc_pages(h, h->kmalloc[2].order);
}

static void free_other(void)
{
    model_run.got[plat_cpu_id()] = heap_kfree(h, other) ? other : NULL;
}

static void both_objects_freed(void)
{
    MODEL_EXPECT(winners() == 1);
    MODEL_EXPECT(model_run.got[2] == other);
    MODEL_EXPECT(model_badfrees() == 1);
    MODEL_EXPECT(model_in_use(&h->kmalloc[2]) == 0);
    model_whole();
}

static bool is_object_state(const volatile void *p)
{
    return p == (h->objstate == V_objstate_side ? (void *)object_side(&h->kmalloc[2], block)
                                                : (void *)&object_header(block)->state);
}

/* -- two frees of one block of pages -- */

static void large_setup(void)
{
    block = heap_kmalloc(h, 20000);
    CHECK(block);
}

static void one_large_freed(void)
{
    MODEL_EXPECT(winners() == 1);
    MODEL_EXPECT(badfrees(BADFREE_free_page) == 1);
    MODEL_EXPECT(model_badfrees() == 1);
    model_whole();
}

static void pages_setup(void)
{
    block = alloc_pages(h, 1);
    CHECK(block);
}

static void free_pages_block(void)
{
    model_run.ok[plat_cpu_id()] = free_pages(h, block, 1);
}

static void drain_pages(void)
{
    pcp_drain_all(h);
}

static bool is_block_tag(const volatile void *p)
{
    return p == &frame_of(&h->frames, block)->tag;
}

/* -- a drain against an owner -- */

static void park_setup(void)
{
    void *p = alloc_pages(h, 0);

    block = alloc_pages(h, 0);
    CHECK(p && block && free_pages(h, p, 0));
}

/* Frees one, which parks it, and takes one, which may be that or another. */
static void park_and_take(void)
{
    unsigned me = plat_cpu_id();

    model_run.ok[me] = free_pages(h, block, 0);
    model_run.got[me] = alloc_pages(h, 0);
}

static void take_page(void)
{
    model_run.got[plat_cpu_id()] = alloc_pages(h, 0);
}

static void pages_are_apart(void)
{
    for (unsigned i = 0; i < MODEL_CPUS; i++)
        for (unsigned j = 0; j < i; j++)
            MODEL_EXPECT(!model_run.got[i] || model_run.got[i] != model_run.got[j]);
    MODEL_EXPECT(model_badfrees() == 0);
    model_whole();
}

static bool is_any_flag(const volatile void *p)
{
    for (unsigned cpu = 0; cpu < h->cpus; cpu++)
        if (p == &((struct pcp *)cpu_part(h->pcp, PLAT_CPU_STRIDE * cpu))->busy)
            return true;
    return false;
}

/* -- neighbours that are freed at once -- */

static u64 out_before;

static void neighbours_setup(void)
{
    out_before = pages_out();
    block = alloc_pages(h, 0);
    other = alloc_pages(h, 0);
    CHECK(block && other);
    if ((frame_number(&h->frames, block) ^ frame_number(&h->frames, other)) != 1) {
        void *odd = block; /* the second half of a pair whose first half the heap itself has */

        block = other;
        other = alloc_pages(h, 0);
        CHECK(other && free_pages(h, odd, 0));
    }
    CHECK_VALUES((frame_number(&h->frames, block) ^ frame_number(&h->frames, other)) == 1, block,
                 other);
}

static void free_first(void)
{
    model_run.ok[plat_cpu_id()] = free_pages(h, block, 0);
}

static void free_second(void)
{
    model_run.ok[plat_cpu_id()] = free_pages(h, other, 0);
}

static void neighbours_merged(void)
{
    MODEL_EXPECT(winners() == 2);
    MODEL_EXPECT(pages_out() == out_before);
    MODEL_EXPECT(TAG_KIND(frame_tag_load(frame_of(&h->frames, block))) != FRAME_FREE ||
                 TAG_KIND(frame_tag_load(frame_of(&h->frames, other))) != FRAME_FREE);
    model_whole();
}

static bool is_page_lock(const volatile void *p)
{
    return p == &h->buddy[0].lock.word;
}

/* -- a slab that empties while others shrink and allocate -- */

static void free_other_too(void)
{
    model_run.ok[plat_cpu_id()] = heap_kfree(h, other);
}

static void shrink(void)
{
    kmem_cache_shrink(&h->kmalloc[2]);
}

static void take_object(void)
{
    model_run.got[plat_cpu_id()] = heap_kmalloc(h, 64);
}

static void slab_is_whole(void)
{
    u64 taken = 0;

    for (unsigned i = 0; i < MODEL_CPUS; i++)
        taken += model_run.got[i] != NULL;
    MODEL_EXPECT(model_badfrees() == 0);
    MODEL_EXPECT(model_in_use(&h->kmalloc[2]) == 2 + taken - winners());
    model_whole();
}

static void bulk_and_back(void)
{
    void *p[3];

    if (kmem_cache_alloc_bulk(&h->kmalloc[2], 3, p)) {
        MODEL_EXPECT(p[0] != p[1] && p[1] != p[2] && p[0] != p[2]);
        MODEL_EXPECT(kmem_cache_free_bulk(&h->kmalloc[2], 3, p) == 3);
    }
}

/* One of the two was freed; the other is there still. */
static void one_is_left(void)
{
    MODEL_EXPECT(winners() == 1);
    MODEL_EXPECT(model_badfrees() == 0);
    MODEL_EXPECT(model_in_use(&h->kmalloc[2]) == 1);
    model_whole();
}

static bool is_cache_lock(const volatile void *p)
{
    return p == &h->kmalloc[2].node[0].lock.word;
}

/* -- the last page: it must be found -- */

static void shortage_setup(void)
{
    block = alloc_pages(h, 0);
    other = alloc_pages(h, 0);
    CHECK(block && other);
    for (unsigned order = MAX_ORDER + 1; order-- > 0;)
        while (alloc_pages(h, order))
            ;
    host_cpu_id = 1; /* parked there, where CPU 0 has to look for it */
    CHECK(free_pages(h, other, 0));
    host_cpu_id = 0;
    CHECK_VALUES(pcp_pages(h) == 1 && h->buddy[0].pages_free == 0, pcp_pages(h), 0);
}

static void one_was_found(void)
{
    MODEL_EXPECT(model_run.got[0] != NULL);
    MODEL_EXPECT(model_run.ok[1]);
    model_whole();
}

/* -- what the last page needs lies in another CPU's array: it is asked, and serves when it looks. A kick does
 * nothing here: the CPU that is asked looks in the end, at any step. -- */

#define HELD_SIZE 384u

static void *held[10]; /* all objects of one slab, which is a page */

static void kick_later(void)
{
}

/* One slab is left, and no page. */
static void last_slab_setup(void)
{
    struct kmem_cache *c = h->by_size[(HELD_SIZE - 1) / KMALLOC_ALIGN];

    sim_kick_handler = kick_later;
    CHECK_VALUES(c->order == 0 && c->capacity == ARRAY_SIZE(held) && c->limit >= ARRAY_SIZE(held),
                 c->capacity, c->limit);
    for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
        CHECK((held[i] = heap_kmalloc(h, HELD_SIZE)) != NULL);
    heap_drain_this_cpu(h);
    kmem_cache_shrink(c);
    for (unsigned order = MAX_ORDER + 1; order-- > 0;)
        while (alloc_pages(h, order))
            ;
    CHECK_VALUES(h->buddy[0].pages_free == 0, h->buddy[0].pages_free, 0);
}

static void park_held(unsigned cpu, unsigned from, unsigned to)
{
    host_cpu_id = cpu;
    for (unsigned i = from; i < to; i++)
        CHECK(heap_kfree(h, held[i]));
    host_cpu_id = 0;
}

static void one_holds_setup(void)
{
    last_slab_setup();
    park_held(1, 1, ARRAY_SIZE(held));
}

static void two_hold_setup(void)
{
    last_slab_setup();
    park_held(0, 0, 5);
    park_held(1, 5, ARRAY_SIZE(held));
}

static void take_last_page(void)
{
    model_run.got[plat_cpu_id()] = alloc_pages(h, 0);
    __atomic_fetch_add(&model_run.over, 1, __ATOMIC_SEQ_CST);
}

/* Answers until so many have taken. */
void model_serve(unsigned takers)
{
    while (__atomic_load_n(&model_run.over, __ATOMIC_SEQ_CST) < takers) {
        heap_drain_serve(h);
        plat_relax();
    }
}

static void take_and_serve(void)
{
    take_last_page();
    model_serve(2);
}

/* Frees what was missing, first. */
static void free_and_serve_one(void)
{
    model_run.ok[1] = heap_kfree(h, held[0]);
    model_serve(1);
}

static void free_and_serve_two(void)
{
    model_run.ok[1] = heap_kfree(h, held[0]);
    model_serve(2);
}

static void one_got_the_last_page(void)
{
    unsigned got = 0;

    for (unsigned i = 0; i < MODEL_CPUS; i++)
        got += model_run.got[i] != NULL;
    MODEL_EXPECT(got == 1);
    for (host_cpu_id = 0; host_cpu_id < h->cpus; host_cpu_id++)
        heap_drain_serve(h); /* what was asked last, and nobody waited for */
    host_cpu_id = 0;
    MODEL_EXPECT(model_badfrees() == 0);
    MODEL_EXPECT(model_in_use(h->by_size[(HELD_SIZE - 1) / KMALLOC_ALIGN]) == 0);
    model_whole();
}

/* -- a cache that goes while memory is short elsewhere -- */

static struct kmem_cache *cache;

static void nothing_made(void *p)
{
    (void)p;
}

static void cache_setup_one(void)
{
    const struct kmem_cache_args args = {"doomed", 64, 0, nothing_made, NULL, 0};

    cache = kmem_cache_create(h, &args);
    CHECK(cache);
    block = kmem_cache_alloc(cache);
    CHECK(block && kmem_cache_free(cache, block));
}

static void destroy_cache(void)
{
    u64 busy;

    model_run.ok[0] = kmem_cache_destroy(cache, &busy);
}

static void reclaim(void)
{
    heap_reclaim(h);
}

static void cache_is_gone(void)
{
    MODEL_EXPECT(model_run.ok[0]);
    MODEL_EXPECT(heap_cache(h, cache->id) == NULL);
    model_whole();
}

/* -- magazines and sheaves that change hands. At first CPU 0's two are empty, CPU 1's two are full, and one
 * more full one lies in the depot or barn, so that the next call of either is a trade. CPU 1 has an object to
 * free, `block`, and there are more in use. -- */

#define HANDS_MOST 3u /* objects in one */

static u64 hands_in_use;

static void take(void **p, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        CHECK((p[i] = kmem_cache_alloc(cache)) != NULL);
}

static void give(unsigned cpu, void *const *p, unsigned n)
{
    host_cpu_id = cpu;
    for (unsigned i = 0; i < n; i++)
        CHECK(kmem_cache_free(cache, p[i]));
    host_cpu_id = 0;
}

static void hands_of(unsigned size)
{
    const struct cache_cpu *first = cache_cpu(cache, 0), *second = cache_cpu(cache, 1);
    void *p[5 * HANDS_MOST], *more;

    hands_in_use = 2 * size + 1;
    take(&block, 1);
    take(p, 5 * size);
    for (; first->count; hands_in_use++) /* left of what the slabs gave */
        take(&more, 1);
    give(1, p, 2 * size);
    give(0, p + 2 * size, 3 * size);
    take(p, 2 * size);
    CHECK_VALUES(first->count + first->spare_count == 0, first->count, first->spare_count);
    CHECK_VALUES(second->count == size && second->spare_count == size, second->count,
                 second->spare_count);
}

static void hands_cache(unsigned size)
{
    const struct kmem_cache_args args = {.name = "hands", .size = 64, .front_capacity = size};

    cache = kmem_cache_create(h, &args);
    CHECK(cache);
}

static void magazines_setup(void)
{
    hands_cache(1);
    hands_of(1);
    CHECK_VALUES(cache->depot.full.total == 1, cache->depot.full.total, 0);
}

/* They have grown once, so a shortage makes them small again. */
static void grown_magazines_setup(void)
{
    hands_cache(1);
    cache->depot.contended = 4;
    depot_interval_end(cache);
    CHECK_VALUES(depot_size(cache) == 3, depot_size(cache), 0);
    hands_of(3);
    CHECK_VALUES(cache->depot.full.total == 1, cache->depot.full.total, 0);
}

static void sheaves_setup(void)
{
    hands_cache(2);
    hands_of(2);
    CHECK_VALUES(cache->node[0].barn.fulls == 1, cache->node[0].barn.fulls, 0);
}

static void trade_for_full(void)
{
    model_run.got[plat_cpu_id()] = kmem_cache_alloc(cache);
}

static void trade_for_empty(void)
{
    model_run.ok[plat_cpu_id()] = kmem_cache_free(cache, block);
}

static void shrink_hands(void)
{
    kmem_cache_shrink(cache);
}

static void magazines_are_small_again(void)
{
    unsigned long flags = plat_irq_save();

    depot_shortage(cache);
    depot_clean(cache);
    plat_irq_restore(flags);
}

/* CPU 0's spare sheaf is empty: what is needed is copied from the barn. */
static void prefill_and_return(void)
{
    struct sheaf *s = kmem_cache_prefill_sheaf(cache, 2);

    MODEL_EXPECT(s && kmem_cache_sheaf_size(s) == 2);
    model_run.got[plat_cpu_id()] = kmem_cache_alloc_from_sheaf(cache, s);
    kmem_cache_return_sheaf(cache, s);
}

static void hands_are_whole(void)
{
    u64 taken = 0;

    for (unsigned i = 0; i < MODEL_CPUS; i++)
        for (unsigned j = 0; j < i; j++)
            MODEL_EXPECT(!model_run.got[i] || model_run.got[i] != model_run.got[j]);
    for (unsigned i = 0; i < MODEL_CPUS; i++)
        taken += model_run.got[i] != NULL;
    MODEL_EXPECT(taken > 0 || model_run.ok[1]);
    MODEL_EXPECT(winners() <= 1);
    MODEL_EXPECT(model_badfrees() == 0);
    MODEL_EXPECT(model_in_use(cache) == hands_in_use + taken - winners());
    model_whole();
}

static bool is_depot_lock(const volatile void *p)
{
    return p == &cache->depot.lock.word;
}

static bool is_barn_lock(const volatile void *p)
{
    return p == &cache->node[0].barn.lock.word;
}

/* -- the list -- */

#define FREES                                                                                      \
    {                                                                                              \
        free_block, free_block                                                                     \
    }

/* An interval that ends while orders are tried would make runs differ. */
#define MAGAZINES "front=magazine mag.interval=86400000 "

#define ONE_SLAB "pcp=off slab.min_partial=0"

static const struct model models[] = {
    {"two frees of an object, header", "", 2, 20, object_setup, FREES, one_object_freed,
     MUTANT_SPLIT, is_object_state},
    {"two frees of an object, side", "objstate=side", 2, 20, object_setup, FREES, one_object_freed,
     MUTANT_SPLIT, is_object_state},
    {"two frees of an object, one in bulk",
     "",
     2,
     20,
     object_setup,
     {free_block, free_block_in_bulk},
     one_object_freed,
     MUTANT_SPLIT,
     is_object_state},
    {"two frees, and the slab goes", "front=none slab.min_partial=0 pcp=off", 2, 4,
     lone_object_setup, FREES, one_object_freed, MUTANT_SPLIT, is_object_state},
    {"two frees, the slab goes and its page is taken",
     "front=none slab.min_partial=0 pcp=off",
     3,
     2,
     lone_object_setup,
     {free_block, free_block, take_slab_page},
     one_object_freed_and_page_taken,
     MUTANT_SPLIT,
     is_object_state},
    {"two frees of one object, one of its neighbour",
     "front=none slab.min_partial=0",
     3,
     2,
     object_setup,
     {free_block, free_block, free_other},
     both_objects_freed,
     MUTANT_SPLIT,
     is_object_state},
    {"two frees of a large block, parked", "", 2, 20, large_setup, FREES, one_large_freed,
     MUTANT_SPLIT, is_block_tag},
    {"two frees of a large block, to the buddy", "pcp=off owner=lock", 2, 4, large_setup, FREES,
     one_large_freed, MUTANT_SPLIT, is_block_tag},
    {"two frees of pages and a drain",
     "",
     3,
     3,
     pages_setup,
     {free_pages_block, free_pages_block, drain_pages},
     one_large_freed,
     MUTANT_SPLIT,
     is_block_tag},
    {"a drain against an owner, flag split",
     "",
     2,
     4,
     park_setup,
     {park_and_take, drain_pages},
     pages_are_apart,
     MUTANT_SPLIT,
     is_any_flag},
    {"a drain against an owner, flag ignored",
     "",
     2,
     4,
     park_setup,
     {park_and_take, drain_pages},
     pages_are_apart,
     MUTANT_IGNORE,
     is_any_flag},
    {"two drains against an owner",
     "",
     3,
     2,
     park_setup,
     {park_and_take, drain_pages, drain_pages},
     pages_are_apart,
     MUTANT_IGNORE,
     is_any_flag},
    {"neighbours freed at once",
     "pcp=off",
     2,
     4,
     neighbours_setup,
     {free_first, free_second},
     neighbours_merged,
     MUTANT_IGNORE,
     is_page_lock},
    {"the same, ticket lock",
     "pcp=off lock=ticket",
     2,
     4,
     neighbours_setup,
     {free_first, free_second},
     neighbours_merged,
     MUTANT_NONE,
     NULL},
    {"the same, mcs lock",
     "pcp=off lock=mcs",
     2,
     4,
     neighbours_setup,
     {free_first, free_second},
     neighbours_merged,
     MUTANT_NONE,
     NULL},
    {"a slab empties against shrink",
     "front=none slab.min_partial=1",
     3,
     2,
     object_setup,
     {free_block, free_other_too, shrink},
     slab_is_whole,
     MUTANT_IGNORE,
     is_cache_lock},
    {"a slab empties against an allocation",
     "front=none slab.min_partial=0",
     3,
     2,
     object_setup,
     {free_block, free_other_too, take_object},
     slab_is_whole,
     MUTANT_IGNORE,
     is_cache_lock},
    {"bulk calls against a free and a shrink",
     "slab.min_partial=0 bounded.objects=2",
     3,
     2,
     object_setup,
     {bulk_and_back, free_block, shrink},
     one_is_left,
     MUTANT_IGNORE,
     is_cache_lock},
    {"the last page is parked elsewhere",
     "pcp.limits=1/1/1/1/1/1",
     2,
     4,
     shortage_setup,
     {take_page, free_first},
     one_was_found,
     MUTANT_NONE,
     NULL},
    {"the last page is in an array elsewhere, and its owner is asked",
     ONE_SLAB,
     2,
     2,
     one_holds_setup,
     {take_last_page, free_and_serve_one},
     one_got_the_last_page,
     MUTANT_NONE,
     NULL},
    {"two ask one owner",
     ONE_SLAB,
     3,
     1,
     one_holds_setup,
     {take_last_page, free_and_serve_two, take_last_page},
     one_got_the_last_page,
     MUTANT_NONE,
     NULL},
    {"two are short at once, and each has what the other needs",
     ONE_SLAB,
     2,
     1,
     two_hold_setup,
     {take_and_serve, take_and_serve},
     one_got_the_last_page,
     MUTANT_NONE,
     NULL},
    {"a cache goes while another CPU reclaims",
     "",
     2,
     4,
     cache_setup_one,
     {destroy_cache, reclaim},
     cache_is_gone,
     MUTANT_NONE,
     NULL},
    {"magazines change hands",
     MAGAZINES,
     2,
     4,
     magazines_setup,
     {trade_for_full, trade_for_empty},
     hands_are_whole,
     MUTANT_IGNORE,
     is_depot_lock},
    {"magazines change hands, lock split",
     MAGAZINES,
     2,
     4,
     magazines_setup,
     {trade_for_full, trade_for_empty},
     hands_are_whole,
     MUTANT_SPLIT,
     is_depot_lock},
    {"magazines change hands while the depot is shrunk",
     MAGAZINES,
     3,
     2,
     magazines_setup,
     {trade_for_full, trade_for_empty, shrink_hands},
     hands_are_whole,
     MUTANT_IGNORE,
     is_depot_lock},
    {"magazines get another size as one comes",
     MAGAZINES,
     2,
     4,
     grown_magazines_setup,
     {magazines_are_small_again, trade_for_empty},
     hands_are_whole,
     MUTANT_IGNORE,
     is_depot_lock},
    {"the same, and one goes",
     MAGAZINES,
     3,
     2,
     grown_magazines_setup,
     {trade_for_full, trade_for_empty, magazines_are_small_again},
     hands_are_whole,
     MUTANT_IGNORE,
     is_depot_lock},
    {"sheaves change hands while the barn is shrunk",
     "front=sheaf",
     3,
     2,
     sheaves_setup,
     {trade_for_full, trade_for_empty, shrink_hands},
     hands_are_whole,
     MUTANT_IGNORE,
     is_barn_lock},
    {"a prefill copies from the barn while a sheaf comes",
     "front=sheaf",
     2,
     4,
     sheaves_setup,
     {prefill_and_return, trade_for_empty},
     hands_are_whole,
     MUTANT_IGNORE,
     is_barn_lock},
};

/* True if it is as it should be. */
static bool ask(const struct model *m)
{
    struct model_result r;
    struct model plain = *m;

    plain.mutant = MUTANT_NONE;
    model_explore(&plain, LIMIT, true, &r);
    printf("%s %s: %llu orders of %u shared words, %llu steps%s%s\n",
           r.failed ? "FAILED" : "ok    ", m->name, (unsigned long long)r.schedules, r.words,
           (unsigned long long)r.steps, r.failed ? ": " : "", r.why);
    if (r.failed)
        return false;
    if (!r.complete || r.words == 0) {
        printf("FAILED %s: %s\n", m->name,
               r.complete ? "no word is shared: nothing was tried" : "not all orders were run");
        return false;
    }
    return true;
}

static bool ask_mutant(const struct model *m)
{
    struct model_result r;

    model_explore(m, LIMIT, false, &r);
    printf("%s %s, guard taken out: %s after %llu orders\n", r.failed ? "ok    " : "FAILED",
           m->name, r.failed ? r.why : "nothing was found", (unsigned long long)r.schedules);
    return r.failed;
}

int main(int argc, char **argv)
{
    const struct models lists[] = {{models, ARRAY_SIZE(models)}, life_models, shortage_models};
    unsigned passed = 0, failed = 0;

    for (unsigned list = 0; list < ARRAY_SIZE(lists); list++)
        for (unsigned i = 0; i < lists[list].count; i++) {
            const struct model *m = &lists[list].at[i];

            if (argc > 1 && !strstr(m->name, argv[1]))
                continue;
            if (ask(m))
                passed++;
            else
                failed++;
            if (m->mutant == MUTANT_NONE)
                continue;
            if (ask_mutant(m))
                passed++;
            else
                failed++;
        }
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed;
}
