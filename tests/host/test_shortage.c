/* test_shortage.c: memory that other CPUs hold is had back: from an idle CPU, from a busy one, by several
 * that are short together; who does not answer is waited for once; who may not wait leaves its request; and
 * what a producer and a consumer leave behind stops growing, and is had back too. */
#include "../../mm/fault_impl.h"
#include "heap_fixture.h"

static const char *const lines[] = {
    "front=bounded bounded.objects=256 bounded.bytes=1048576",
    "front=bounded pcp=off objstate=side poison=full",
    "front=bounded bounded.objects=1 slab.min_partial=1000",
    "front=sheaf slab.min_partial=1000",
    "front=sheaf pcp=off sheaf.cap=200 barn.full=1000",
    "front=magazine slab.min_partial=1000",
    "front=magazine pcp=off mag.interval=1 poison=free",
    "front=none slab.min_partial=1000",
    "front=none pcp=off",
};

#define HOARD_EACH 300u

struct rig {
    struct test_heap *t;
    u32 hoarded, stop; /* atomic */
    unsigned rounds;
    void **chain;
    u64 chained;
};

static u64 cpu_counter(const struct test_heap *t, enum cpu_counter i)
{
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < t->h->cpus; cpu++)
        sum += counter_read(&heap_cpu_row(t->h, cpu)[i]);
    return sum;
}

/* Objects in arrays, barns and depots. */
static u64 held(const struct test_heap *t)
{
    u64 sum = 0;

    for (u32 i = 0; i < heap_cache_count(t->h); i++) {
        u64 g[NR_CACHE_COUNTERS] = {0};

        cache_gauges(heap_cache(t->h, i), g);
        sum += g[CACHE_front_objects] + g[CACHE_barn_objects] + g[CACHE_depot_objects];
    }
    return sum;
}

static u64 slabs(const struct test_heap *t)
{
    u64 sum = 0;

    for (u32 i = 0; i < heap_cache_count(t->h); i++)
        if (!t->h->cache[i]->internal)
            sum += t->h->cache[i]->node[0].slabs;
    return sum;
}

/* Leaves this CPU's arrays of all classes full; but where no slab goes back (min_partial=1000) memory is short
 * at the end, and a reclaim may have emptied some. */
static void hoard(const struct test_heap *t)
{
    void *p[HOARD_EACH];

    for (unsigned class = 0; class < KMALLOC_CLASSES; class ++) {
        unsigned n = 0;

        while (n < HOARD_EACH && (p[n] = heap_kmalloc(t->h, kmalloc_sizes[class])))
            n++;
        while (n)
            EXPECT_TRUE(heap_kfree(t->h, p[--n]));
    }
}

static void hoard_part(void *arg)
{
    struct rig *r = arg;

    hoard(r->t);
}

static void take_all(struct rig *r)
{
    void **p;

    while ((p = alloc_pages(r->t->h, 0))) {
        *p = r->chain;
        r->chain = p;
        r->chained++;
    }
}

static void give_back(struct rig *r)
{
    while (r->chain) {
        void **next = *r->chain;

        EXPECT_TRUE(free_pages(r->t->h, r->chain, 0));
        r->chain = next;
    }
    r->chained = 0;
}

/* NULL was said: then nothing was left anywhere. Interrupts none, others idle or not allocating. */
static void nothing_is_left(const struct test_heap *t)
{
    EXPECT_EQ(held(t), 0u);
    EXPECT_EQ(slabs(t), 0u);
    EXPECT_EQ(pcp_pages(t->h), 0u);
    EXPECT_EQ(t->h->buddy[0].pages_free, 0u);
}

TEST(an_idle_cpu_gives_back_what_it_holds)
{
    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        struct rig r = {.t = &t};

        REQUIRE(heap_new(&t, lines[a], 16, 3));
        plat_run_on_cpus(6, hoard_part, &r);
        if (t.knobs.front != V_front_none)
            EXPECT_GT(held(&t), 0u);
        take_all(&r);
        nothing_is_left(&t);
        EXPECT_GT(r.chained, 1000u);
        if (t.knobs.front != V_front_none)
            EXPECT_GE(cpu_counter(&t, CPU_drain_served), 1u);
        EXPECT_EQ(cpu_counter(&t, CPU_drain_timeout), 0u);
        give_back(&r);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

static bool wide_one(struct kmem_cache *c)
{
    void *p = kmem_cache_alloc(c);

    return p && kmem_cache_free(c, p);
}

static bool wide_in_bulk(struct kmem_cache *c)
{
    void *p[20];

    return kmem_cache_alloc_bulk(c, 20, p) && kmem_cache_free_bulk(c, 20, p) == 20;
}

static bool large_block(struct kmem_cache *c)
{
    void *p = heap_kmalloc(c->heap, 8193);

    return p && heap_kfree(c->heap, p);
}

static bool private_sheaf(struct kmem_cache *c)
{
    struct sheaf *s = kmem_cache_prefill_sheaf(c, 10);
    bool good = s && kmem_cache_sheaf_size(s) >= 10;

    if (s)
        kmem_cache_return_sheaf(c, s);
    return good;
}

static bool another_cache(struct kmem_cache *c)
{
    const struct kmem_cache_args args = {"another", 100, 0, NULL, NULL, 0};
    struct kmem_cache *d = kmem_cache_create(c->heap, &args);

    return d && kmem_cache_destroy(d, NULL);
}

/* There is more than one door to memory, and each must ask. All that is left lies in CPU 1's arrays. */
TEST(every_kind_of_call_asks_others)
{
    static const char *const doors[] = {
        "pcp=off bounded.objects=256 bounded.bytes=1048576", "pcp=off front=sheaf sheaf.cap=200",
        "pcp=off objstate=side poison=full bounded.objects=256 bounded.bytes=1048576"};
    static bool (*const calls[])(struct kmem_cache *) = {wide_one, wide_in_bulk, large_block,
                                                         private_sheaf, another_cache};
    const struct kmem_cache_args args = {"wide", 1000, 0, NULL, NULL, 40};

    for (unsigned a = 0; a < ARRAY_SIZE(doors); a++)
        for (unsigned i = 0; i < ARRAY_SIZE(calls); i++) {
            struct test_heap t;
            struct rig r = {.t = &t};
            struct kmem_cache *c;

            REQUIRE(heap_new(&t, doors[a], 24, 2));
            c = kmem_cache_create(t.h, &args);
            REQUIRE(c != NULL);
            plat_run_on_cpus(2, hoard_part, &r);
            for (unsigned class = 0; class < KMALLOC_CLASSES; class ++)
                kmem_cache_shrink(&t.h->kmalloc[class]);
            while (t.h->buddy[0].pages_free) {
                void **p = alloc_pages(t.h, 0);

                REQUIRE(p != NULL);
                *p = r.chain;
                r.chain = p;
            }
            EXPECT_EQ(cpu_counter(&t, CPU_drain_asked), 0u);
            EXPECT_TRUE(calls[i](c));
            EXPECT_GE(cpu_counter(&t, CPU_drain_served), 1u);
            give_back(&r);
            EXPECT_TRUE(heap_good(&t));
            EXPECT_TRUE(kmem_cache_destroy(c, NULL));
            heap_delete(&t);
        }
}

/* -- a busy CPU -- */

static void short_and_busy(void *arg)
{
    struct rig *r = arg;

    if (plat_cpu_id() != 0) {
        hoard(r->t);
        __atomic_add_fetch(&r->hoarded, 1, __ATOMIC_ACQ_REL);
        while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
            rcu_quiescent();
            plat_relax();
        }
        return;
    }
    while (__atomic_load_n(&r->hoarded, __ATOMIC_ACQUIRE) < plat_cpu_count() - 1)
        plat_relax();
    take_all(r);
    nothing_is_left(r->t);
    give_back(r);
    __atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
}

TEST(a_busy_cpu_gives_back_at_its_quiescent_states)
{
    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        struct rig r = {.t = &t};

        REQUIRE(heap_new(&t, lines[a], 16, 3));
        plat_run_on_cpus(plat_all_cpus(), short_and_busy, &r);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* -- many at once -- */

static void all_short(void *arg)
{
    struct rig *r = arg;

    for (unsigned i = 0; i < r->rounds; i++) {
        void *p[20];
        unsigned n = 0;

        hoard(r->t);
        while (n < 20 && (p[n] = heap_kmalloc(r->t->h, 1u << 20)))
            n++;
        while (n)
            EXPECT_TRUE(heap_kfree(r->t->h, p[--n]));
        rcu_quiescent();
    }
}

TEST(cpus_short_together_serve_each_other)
{
    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        struct rig r = {.t = &t, .rounds = test_scale(16)};

        REQUIRE(heap_new(&t, lines[a], 16, 4));
        plat_run_on_cpus(plat_all_cpus(), all_short, &r);
        if (t.knobs.front != V_front_none)
            EXPECT_GT(cpu_counter(&t, CPU_drain_served), 0u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* -- who does not answer, and who may not wait -- */

static void short_beside_a_deaf_one(void *arg)
{
    struct rig *r = arg;
    u64 waited;

    if (plat_cpu_id() != 0) {
        hoard(r->t);
        __atomic_store_n(&r->hoarded, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE))
            plat_relax(); /* no quiescent state */
        while (!cpu_counter(r->t, CPU_drain_served))
            rcu_quiescent();
        return;
    }
    while (!__atomic_load_n(&r->hoarded, __ATOMIC_ACQUIRE))
        plat_relax();
    take_all(r);
    EXPECT_GT(held(r->t), 0u);
    EXPECT_EQ(cpu_counter(r->t, CPU_drain_timeout), 1u);
    waited = cpu_counter(r->t, CPU_drain_waited);
    for (unsigned i = 0; i < 5; i++)
        EXPECT_NULL(alloc_pages(r->t->h, 0));
    EXPECT_EQ(cpu_counter(r->t, CPU_drain_waited), waited); /* not again */
    EXPECT_GE(cpu_counter(r->t, CPU_drain_asked), waited + 5);
    __atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
    while (!cpu_counter(r->t, CPU_drain_served))
        plat_relax();
    take_all(r);
    nothing_is_left(r->t);
    give_back(r);
}

TEST(who_does_not_answer_is_waited_for_once)
{
    struct test_heap t;
    struct rig r = {.t = &t};

    REQUIRE(heap_new(&t, "front=bounded", 16, 2));
    plat_run_on_cpus(plat_all_cpus(), short_beside_a_deaf_one, &r);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(who_may_not_wait_leaves_its_request)
{
    struct test_heap t;
    struct rig r = {.t = &t};
    u64 until = plat_cycles() + 20 * plat_cycles_hz();

    REQUIRE(heap_new(&t, "front=bounded bounded.objects=256 bounded.bytes=1048576", 16, 2));
    plat_run_on_cpus(2, hoard_part, &r);
    fault_arm(FAULT_no_wait, 0, 1000000);
    take_all(&r);
    EXPECT_EQ(cpu_counter(&t, CPU_drain_waited), 0u);
    EXPECT_GE(cpu_counter(&t, CPU_drain_asked), 1u);
    while (!cpu_counter(&t, CPU_drain_served) && plat_cycles() < until)
        plat_relax();
    take_all(&r); /* a later call finds it */
    EXPECT_TRUE(heap_good(&t));
    nothing_is_left(&t);
    fault_arm(FAULT_no_wait, 0, 0);
    give_back(&r);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* -- a producer and a consumer -- */

#define RING   256u
#define PHASES 8u

struct belt {
    struct test_heap *t;
    struct kmem_cache *c;
    void *slot[RING]; /* atomic; NULL: empty */
    u64 count;        /* objects a phase */
};

static void produce_or_consume(void *arg)
{
    struct belt *b = arg;

    for (u64 i = 0; i < b->count; i++) {
        void **slot = &b->slot[i % RING], *p;

        if (plat_cpu_id() == 0) {
            p = kmem_cache_alloc(b->c);
            while (__atomic_load_n(slot, __ATOMIC_ACQUIRE))
                plat_relax();
            EXPECT_TRUE(p != NULL);
            __atomic_store_n(slot, p, __ATOMIC_RELEASE);
        } else {
            while (!(p = __atomic_load_n(slot, __ATOMIC_ACQUIRE)))
                plat_relax();
            __atomic_store_n(slot, NULL, __ATOMIC_RELEASE);
            EXPECT_TRUE(kmem_cache_free(b->c, p));
        }
        rcu_quiescent();
    }
}

static void short_part(void *arg)
{
    struct rig *r = arg;

    take_all(r);
    nothing_is_left(r->t);
    give_back(r);
}

TEST(what_a_producer_and_a_consumer_leave_stops_growing_and_is_had_back)
{
    const struct kmem_cache_args args = {"belt", 512, 0, NULL, NULL, 32};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;
        struct rig r = {.t = &t};
        struct belt b = {.t = &t, .count = test_scale(20000)};
        u64 most, early = 0, late = 0;

        REQUIRE(heap_new(&t, lines[a], 16, 3));
        b.c = kmem_cache_create(t.h, &args);
        REQUIRE(b.c != NULL);
        /* In arrays and sheaves of two CPUs, in the barn, and what was on the belt at most. */
        most = RING + 6 * 143u +
               (t.knobs.front == V_front_sheaf ? MIN(t.knobs.barn_full, 10u) * 32 : 0);
        if (t.knobs.front == V_front_bounded)
            most = 2 * b.c->limit;
        for (unsigned phase = 0; phase < PHASES; phase++) {
            plat_run_on_cpus(3, produce_or_consume, &b);
            if (phase < PHASES / 2)
                early = MAX(early, held(&t));
            else
                late = MAX(late, held(&t));
        }
        if (t.knobs.front != V_front_sheaf || t.knobs.barn_full <= 10)
            EXPECT_LE(late, most);
        EXPECT_LE(late, early + RING + 6 * 143u);
        plat_run_on_cpus(4, short_part, &r); /* the third, while the two are idle */
        EXPECT_EQ(held(&t), 0u);
        EXPECT_TRUE(heap_good(&t));
        EXPECT_TRUE(kmem_cache_destroy(b.c, NULL));
        heap_delete(&t);
    }
}
