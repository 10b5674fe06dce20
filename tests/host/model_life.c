/* model_life.c: a cache is destroyed, and made again with another geometry, while another CPU visits it: it
 * reclaims, drains its arrays, runs a callback of kfree_rcu, or takes a sample. Under each front end, with
 * and without constructor. What has to hold in every order:
 *
 *   - destroy succeeds: nobody uses an object of the cache, wherever it lies;
 *   - no destructor runs once destroy has returned;
 *   - the cache that is made in its place works, and the heap is whole.
 *
 * At first the cache has one object in the array of each CPU, or as many sheaves as it takes for one to lie in
 * the barn or depot; a second slab is on the empty list where there is one. */
#include "model_programs.h"
#include "../../mm/magazine_impl.h"

#define SMALL 64u
#define LARGE 4000u /* slabs of another order, objects at other places */

/* An interval that ends while orders are tried would make runs differ. */
#define MAGAZINES "front=magazine mag.interval=86400000"

static struct kmem_cache *doomed;
static void *block;
static u32 gone; /* destroy has returned true, and the cache was not made again yet */

static void made(void *obj)
{
    *(u64 *)obj = 0x6d616465;
}

static void unmade(void *obj)
{
    MODEL_EXPECT(!__atomic_load_n(&gone, __ATOMIC_RELAXED));
    MODEL_EXPECT(*(u64 *)obj == 0x6d616465);
}

static void untold(void *obj)
{
    (void)obj;
    MODEL_EXPECT(!__atomic_load_n(&gone, __ATOMIC_RELAXED));
}

static struct kmem_cache *make(size_t size, bool ctor)
{
    const struct kmem_cache_args args = {.name = "doomed",
                                         .size = size,
                                         .ctor = ctor ? made : NULL,
                                         .dtor = ctor ? unmade : untold,
                                         .front_capacity = h->front == V_front_none ? 0 : 2};

    return kmem_cache_create(h, &args);
}

static void fill(bool ctor)
{
    void *p[6];

    gone = 0;
    doomed = make(SMALL, ctor);
    CHECK(doomed);
    for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
        CHECK((p[i] = kmem_cache_alloc(doomed)) != NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(p); i++) {
        host_cpu_id = i == 0;
        CHECK(kmem_cache_free(doomed, p[i]));
    }
    host_cpu_id = 0;
}

static void plain_setup(void)
{
    fill(false);
}

static void constructed_setup(void)
{
    fill(true);
}

static void destroy_and_make_differently(void)
{
    bool ctor = doomed->ctor;
    u64 busy;

    model_run.ok[0] = kmem_cache_destroy(doomed, &busy);
    if (!model_run.ok[0])
        return;
    __atomic_store_n(&gone, 1, __ATOMIC_RELAXED);
    MODEL_EXPECT(make(doomed->size == LARGE ? SMALL : LARGE, ctor) == doomed);
    __atomic_store_n(&gone, 0, __ATOMIC_RELAXED);
    model_run.got[0] = kmem_cache_alloc(doomed);
}

/* Two lives and two ends, so a visit may begin before the first and look after it. */
static void destroy_and_make_twice(void)
{
    destroy_and_make_differently();
    if (!model_run.ok[0] || !kmem_cache_free(doomed, model_run.got[0]))
        return;
    destroy_and_make_differently();
}

static void reclaim(void)
{
    heap_reclaim(h);
}

static void drain(void)
{
    heap_drain_this_cpu(h);
}

/* What a sampler reads of each cache. */
static void sample(void)
{
    unsigned visit = heap_visit_begin(h);
    struct kmem_cache *c = heap_cache(h, doomed->id);
    u64 g[NR_CACHE_COUNTERS] = {0};

    if (c) {
        size_t size = cache_object_size(c);

        cache_gauges(c, g);
        MODEL_EXPECT(cache_object_size(c) == size);
        MODEL_EXPECT(g[CACHE_slab_capacity] == g[CACHE_slabs] * cache_slab_objects(c));
    }
    heap_visit_end(h, visit);
}

static void made_again(void)
{
    gone = 0;
    MODEL_EXPECT(model_run.ok[0]);
    MODEL_EXPECT(model_run.got[0] != NULL);
    MODEL_EXPECT(model_in_use(doomed) == 1);
    MODEL_EXPECT(model_badfrees() == 0);
    model_whole();
}

/* -- kfree_rcu has returned; the callback runs on CPU 1 while CPU 0 destroys the cache -- */

static void rcu_setup(void)
{
    rcu_init();
    rcu_idle_enter(); /* CPU 0 is waited for by nobody */
    gone = 0;
    doomed = make(SMALL, false);
    CHECK(doomed);
    CHECK((block = kmem_cache_alloc(doomed)) != NULL);
}

static void free_later(void)
{
    model_run.ok[1] = heap_kfree_rcu(h, block, block);
    if (doomed->front->rcu_post)
        doomed->front->rcu_post(doomed, cache_cpu_mine(doomed));
    __atomic_fetch_add(&model_run.over, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < 4; i++)
        rcu_quiescent_slow();
}

/* Once nothing waits any more: so no barrier is needed, and destroy asks for none. */
static void destroy_when_nothing_waits(void)
{
    u64 busy;

    while (!__atomic_load_n(&model_run.over, __ATOMIC_SEQ_CST))
        plat_relax();
    for (;;) {
        u64 g[NR_CACHE_COUNTERS] = {0};

        cache_gauges(doomed, g);
        if (!g[CACHE_rcu_objects])
            break;
        plat_relax();
    }
    model_run.ok[0] = kmem_cache_destroy(doomed, &busy);
    if (model_run.ok[0])
        model_run.got[0] = make(LARGE, false);
}

static void gone_after_rcu(void)
{
    MODEL_EXPECT(model_run.ok[0] && model_run.ok[1]);
    MODEL_EXPECT(model_run.got[0] == doomed);
    MODEL_EXPECT(model_in_use(doomed) == 0);
    model_whole();
}

/* -- two destroys at once, a visitor about: they take turns -- */

static struct kmem_cache *second;

static void two_setup(void)
{
    const struct kmem_cache_args args = {.name = "second", .size = SMALL};
    void *p;

    fill(false);
    second = kmem_cache_create(h, &args);
    CHECK(second && (p = kmem_cache_alloc(second)) != NULL && kmem_cache_free(second, p));
}

static void destroy_second(void)
{
    u64 busy;

    model_run.ok[1] = kmem_cache_destroy(second, &busy);
}

static void both_are_gone(void)
{
    MODEL_EXPECT(model_run.ok[1]);
    MODEL_EXPECT(heap_cache(h, second->id) == NULL);
    made_again();
}

#define VISITED(front, knobs, setup, visitor)                                                      \
    {                                                                                              \
        "made again, " front ": " #visitor, knobs, 2, 2, setup,                                    \
            {destroy_and_make_differently, visitor}, made_again, MUTANT_NONE, NULL                 \
    }
#define EVERY_VISITOR(front, knobs)                                                                \
    VISITED(front, knobs, plain_setup, reclaim), VISITED(front, knobs, plain_setup, drain),        \
        VISITED(front, knobs, plain_setup, sample),                                                \
        VISITED(front " ctor", knobs, constructed_setup, reclaim),                                 \
        VISITED(front " ctor", knobs, constructed_setup, drain),                                   \
        VISITED(front " ctor", knobs, constructed_setup, sample)
#define AFTER_RCU(front, knobs)                                                                    \
    {                                                                                              \
        "made again, " front ": callback", knobs, 2, 2, rcu_setup,                                 \
            {destroy_when_nothing_waits, free_later}, gone_after_rcu, MUTANT_NONE, NULL            \
    }

static const struct model models[] = {
    EVERY_VISITOR("none", "front=none"),
    EVERY_VISITOR("bounded", "front=bounded"),
    EVERY_VISITOR("magazine", MAGAZINES),
    EVERY_VISITOR("sheaf", "front=sheaf"),
    AFTER_RCU("bounded", "front=bounded"),
    AFTER_RCU("magazine", MAGAZINES),
    AFTER_RCU("sheaf", "front=sheaf"),
    {"made again twice: sample",
     "front=none",
     2,
     3,
     plain_setup,
     {destroy_and_make_twice, sample},
     made_again,
     MUTANT_NONE,
     NULL},
    {"made again: two destroys and a reclaim",
     "front=bounded",
     3,
     1,
     two_setup,
     {destroy_and_make_differently, destroy_second, reclaim},
     both_are_gone,
     MUTANT_NONE,
     NULL},
};

const struct models life_models = {models, ARRAY_SIZE(models)};
