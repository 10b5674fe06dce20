/* model_shortage.c: a call that is short of memory, while another CPU moves what nobody holds: it drains or
 * shrinks its arrays, reclaims, refills from the last slab, trades with barn or depot, fills and spills its
 * page cache, destroys a cache. In every order the call finds the memory, wherever it is: NULL is wrong, as
 * there is enough for all. (docs/RACES.md 2.26)
 *
 * A kick does nothing here: the CPU that is asked looks in the end, at any step. */
#include "model_programs.h"
#include "../../mm/magazine_impl.h"

#define SIZE      384u
#define SLAB      10u /* objects in a slab of that class, which is one page */
#define MAGAZINES "front=magazine mag.interval=86400000 "

static void *held[SLAB];
static struct kmem_cache *doomed;

static void kick_later(void)
{
}

static struct kmem_cache *class_of(size_t size)
{
    return h->by_size[(size - 1) / KMALLOC_ALIGN];
}

/* No page is left but `pages`. */
static void use_up(unsigned pages)
{
    void *left[4];

    CHECK(pages <= ARRAY_SIZE(left));
    for (unsigned i = 0; i < pages; i++)
        CHECK((left[i] = alloc_pages(h, 0)) != NULL);
    for (unsigned order = MAX_ORDER + 1; order-- > 0;)
        while (alloc_pages(h, order))
            ;
    for (unsigned i = 0; i < pages; i++)
        CHECK(free_pages(h, left[i], 0));
    (void)pcp_drain_all(h);
    CHECK_VALUES(h->buddy[0].pages_free == pages, h->buddy[0].pages_free, pages);
}

/* One slab of the class, all its objects in `held`, and no page. */
static void one_slab(void)
{
    struct kmem_cache *c = class_of(SIZE);

    sim_kick_handler = kick_later;
    CHECK_VALUES(c->order == 0 && c->capacity == SLAB, c->capacity, c->order);
    for (unsigned i = 0; i < SLAB; i++)
        CHECK((held[i] = heap_kmalloc(h, SIZE)) != NULL);
    heap_drain_this_cpu(h);
    kmem_cache_shrink(c);
    use_up(0);
}

static void give(unsigned cpu, unsigned from, unsigned to)
{
    host_cpu_id = cpu;
    for (unsigned i = from; i < to; i++)
        CHECK(heap_kfree(h, held[i]));
    host_cpu_id = 0;
}

/* All objects lie in CPU 1's array. */
static void array_setup(void)
{
    one_slab();
    give(1, 0, SLAB);
}

/* All objects are FREE, in their slab. */
static void slab_setup(void)
{
    array_setup();
    host_cpu_id = 1;
    heap_drain_this_cpu(h);
    host_cpu_id = 0;
    CHECK_VALUES(class_of(SIZE)->node[0].slabs == 1, class_of(SIZE)->node[0].slabs, 0);
}

/* CPU 1's array is full, the slab has none left. */
static void full_array_setup(void)
{
    one_slab();
    CHECK_VALUES(class_of(SIZE)->limit == SLAB - 2, class_of(SIZE)->limit, SLAB);
    give(1, 0, SLAB - 2);
}

static void over(void)
{
    __atomic_fetch_add(&model_run.over, 1, __ATOMIC_SEQ_CST);
}

static void take_object(void)
{
    model_run.got[plat_cpu_id()] = heap_kmalloc(h, SIZE);
    over();
}

static void take_page(void)
{
    model_run.got[plat_cpu_id()] = alloc_pages(h, 0);
    over();
}

static void drain_and_serve(void)
{
    heap_drain_this_cpu(h);
    model_serve(1);
}

static void shrink_and_serve(void)
{
    kmem_cache_shrink(class_of(SIZE));
    model_serve(1);
}

static void reclaim_and_serve(void)
{
    heap_reclaim(h);
    model_serve(1);
}

/* Refills its array from the slab, and gives all of it back. */
static void refill_drain_and_serve(void)
{
    take_object();
    heap_drain_this_cpu(h);
    model_serve(2);
}

/* The array is full: the coldest go to the slab. */
static void spill_and_serve(void)
{
    model_run.ok[1] = heap_kfree(h, held[SLAB - 1]);
    model_serve(1);
}

static void take_and_serve(void)
{
    take_object();
    model_serve(2);
}

static void everybody_got_it(void)
{
    MODEL_EXPECT(model_run.over > 0);
    for (unsigned i = 0; i < model_run.over; i++)
        MODEL_EXPECT(model_run.got[i] != NULL);
    for (host_cpu_id = 0; host_cpu_id < h->cpus; host_cpu_id++)
        heap_drain_serve(h); /* what was asked last, and nobody waited for */
    host_cpu_id = 0;
    MODEL_EXPECT(model_badfrees() == 0);
    model_whole();
}

/* -- page caches: a refill takes all that the buddy has, and parks what it does not need -- */

static void two_pages_setup(void)
{
    sim_kick_handler = kick_later;
    use_up(2);
}

static void three_pages_setup(void)
{
    sim_kick_handler = kick_later;
    use_up(3);
}

static void take_page_and_serve(void)
{
    take_page();
    model_serve(2);
}

static void take_page_and_serve_three(void)
{
    take_page();
    model_serve(3);
}

/* -- sheaves and magazines: all objects of one slab lie in two of CPU 1's; the first use swaps them -- */

/* Frees so many of p, and takes so many back. */
static void swap_on_cpu1(void **p, unsigned frees, unsigned allocs)
{
    host_cpu_id = 1;
    for (unsigned i = 0; i < frees; i++)
        CHECK(kmem_cache_free(doomed, p[i]));
    for (unsigned i = 0; i < allocs; i++)
        CHECK((p[i] = kmem_cache_alloc(doomed)) != NULL);
    host_cpu_id = 0;
}

static void swap_setup(void)
{
    const struct kmem_cache_args args = {.name = "swapped", .size = SIZE, .front_capacity = 3};
    void *p[SLAB];

    sim_kick_handler = kick_later;
    doomed = kmem_cache_create(h, &args);
    CHECK(doomed);
    for (unsigned i = 0; i < SLAB; i++)
        CHECK((p[i] = kmem_cache_alloc(doomed)) != NULL);
    CHECK_VALUES(doomed->node[0].free_objects == 0, doomed->node[0].free_objects, 0);
    swap_on_cpu1(p, 6, 6); /* so that it has both, while there is memory for them */
    use_up(0);
    swap_on_cpu1(p, 6, 3);
    CHECK_VALUES(cache_cpu(doomed, 1)->count == 0 && cache_cpu(doomed, 1)->spare_count == 3,
                 cache_cpu(doomed, 1)->count, cache_cpu(doomed, 1)->spare_count);
}

static void take_cached_and_serve(void)
{
    model_run.got[plat_cpu_id()] = kmem_cache_alloc(doomed);
    over();
    model_serve(2);
}

/* -- a destroy: the page of the cache's one slab is on its way -- */

static void destroy_setup(void)
{
    const struct kmem_cache_args args = {.name = "doomed", .size = SIZE};
    void *p;

    sim_kick_handler = kick_later;
    doomed = kmem_cache_create(h, &args);
    CHECK(doomed && (p = kmem_cache_alloc(doomed)) != NULL);
    use_up(0);
    host_cpu_id = 1;
    CHECK(kmem_cache_free(doomed, p));
    host_cpu_id = 0;
    heap_drain_this_cpu(h);
    CHECK_VALUES(doomed->node[0].slabs == 1, doomed->node[0].slabs, 0);
}

static void destroy_and_serve(void)
{
    model_run.ok[1] = kmem_cache_destroy(doomed, NULL);
    MODEL_EXPECT(model_run.ok[1]);
    model_serve(1);
}

#define SHORT(name, knobs, setup, other)                                                           \
    {                                                                                              \
        "overlooked: " name, knobs, 2, 2, setup, {take_object, other}, everybody_got_it,           \
            MUTANT_NONE, NULL                                                                      \
    }
#define BOTH_SHORT(name, knobs, setup, one, other)                                                 \
    {                                                                                              \
        "overlooked: " name, knobs, 2, 2, setup, {one, other}, everybody_got_it, MUTANT_NONE, NULL \
    }
#define SHORT_OF_A_PAGE(name, knobs, setup, other)                                                 \
    {                                                                                              \
        "overlooked: " name, knobs, 2, 2, setup, {take_page, other}, everybody_got_it,             \
            MUTANT_NONE, NULL                                                                      \
    }

static const struct model models[] = {
    SHORT("an array that is drained", "pcp=off", array_setup, drain_and_serve),
    SHORT("an array that is drained, default knobs", "", array_setup, drain_and_serve),
    SHORT("an array that is shrunk", "pcp=off", array_setup, shrink_and_serve),
    SHORT("a reclaim", "pcp=off", array_setup, reclaim_and_serve),
    BOTH_SHORT("a refill and a drain", "pcp=off", slab_setup, take_and_serve,
               refill_drain_and_serve),
    BOTH_SHORT("two refills", "pcp=off", slab_setup, take_and_serve, take_and_serve),
    SHORT("a spill", "pcp=off bounded.objects=8", full_array_setup, spill_and_serve),
    SHORT_OF_A_PAGE("a page, and an array that is drained", "pcp=off slab.min_partial=0",
                    array_setup, drain_and_serve),
    SHORT_OF_A_PAGE("a page, and a shrink", "pcp=off", array_setup, shrink_and_serve),
    SHORT_OF_A_PAGE("a page, and a reclaim", "", array_setup, reclaim_and_serve),
    SHORT_OF_A_PAGE("a page that another's refill parks", "pcp.limits=4/1/1/1/1/1", two_pages_setup,
                    take_page_and_serve),
    SHORT_OF_A_PAGE("a page, and a destroy", "", destroy_setup, destroy_and_serve),
    {"overlooked: a page that two refills park",
     "pcp.limits=4/1/1/1/1/1",
     3,
     1,
     three_pages_setup,
     {take_page, take_page_and_serve_three, take_page_and_serve_three},
     everybody_got_it,
     MUTANT_NONE,
     NULL},
    {"overlooked: sheaves that are swapped",
     "front=sheaf pcp=off",
     2,
     2,
     swap_setup,
     {take_cached_and_serve, take_cached_and_serve},
     everybody_got_it,
     MUTANT_NONE,
     NULL},
    {"overlooked: magazines that are swapped",
     MAGAZINES "pcp=off",
     2,
     2,
     swap_setup,
     {take_cached_and_serve, take_cached_and_serve},
     everybody_got_it,
     MUTANT_NONE,
     NULL},
};

const struct models shortage_models = {models, ARRAY_SIZE(models)};
