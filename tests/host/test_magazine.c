/* test_magazine.c: the magazine front end: its guarantee, edge by edge; the size and why it
 * changes; what is given back and when; and each thing that may come between. kfree_rcu and
 * private sheaves under it: test_rcufree.c and test_prefill.c. */
#include "../../mm/magazine_impl.h"
#include "heap_fixture.h"

#define CLASS_64 2u
#define MOST     4096u

static void *objects[MOST];

static u64 total(const struct kmem_cache *c, enum cache_counter i)
{
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < c->heap->cpus; cpu++)
        sum += counter_read(&cache_row(c, cpu)[i]);
    return sum;
}

static u64 gauge(const struct kmem_cache *c, enum cache_counter i)
{
    u64 g[NR_CACHE_COUNTERS] = {0};

    cache_gauges(c, g);
    return g[i];
}

static struct cache_cpu *mine(const struct kmem_cache *c)
{
    return cache_cpu_mine(c);
}

/* Times that a CPU had to go further than its own two magazines. */
static u64 trips(const struct kmem_cache *c)
{
    return total(c, CACHE_depot_get) + total(c, CACHE_depot_get_fail) +
           total(c, CACHE_depot_get_empty) + total(c, CACHE_depot_get_empty_fail);
}

static void allocate(struct kmem_cache *c, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        REQUIRE((objects[i] = kmem_cache_alloc(c)) != NULL);
}

static void release(struct kmem_cache *c, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        EXPECT_TRUE(kmem_cache_free(c, objects[i]));
}

/* n objects from the slabs, given to an empty front end: what is on the CPU and in the depot is known. */
static void stock(struct kmem_cache *c, unsigned n)
{
    allocate(c, n);
    (void)kmem_cache_shrink(c);
    release(c, n);
}

static void empty_and_balanced(struct test_heap *t, struct kmem_cache *c)
{
    EXPECT_TRUE(heap_good(t));
    (void)kmem_cache_shrink(c);
    EXPECT_EQ(gauge(c, CACHE_front_objects) + gauge(c, CACHE_depot_objects), 0u);
    EXPECT_EQ(gauge(c, CACHE_depot_empty) + c->depot.stale.total, 0u);
    EXPECT_EQ(gauge(c, CACHE_in_use), 0u);
    EXPECT_TRUE(heap_good(t));
}

/* A magazine lies in a slab like any object, allocated; but its address is nobody's to free. */
TEST(a_magazine_is_refused_at_every_door)
{
    static const char *const lines[] = {
        "front=magazine",
        "front=sheaf",
        "front=magazine owner=lock objstate=off",
        "front=sheaf objstate=side stats.slab=global",
    };

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct rcu_head head;
        struct test_heap t;
        struct kmem_cache *c;
        void *main;

        REQUIRE(heap_new(&t, lines[a], 32, 1));
        c = &t.h->kmalloc[2];
        stock(c, 10);
        main = mine(c)->main;
        REQUIRE(main != NULL);
        EXPECT_EQ(heap_ksize(t.h, main), 0u);
        EXPECT_FALSE(heap_kfree(t.h, main));
        EXPECT_FALSE(kmem_cache_free(c, main));
        EXPECT_EQ(heap_kfree_bulk(t.h, 1, &main), 0u);
        EXPECT_EQ(kmem_cache_free_bulk(c, 1, &main), 0u);
        EXPECT_FALSE(heap_kfree_rcu(t.h, main, &head));
        EXPECT_NULL(heap_krealloc(t.h, main, 8));
        EXPECT_EQ(heap_badfree_count(t.h, BADFREE_wrong_cache), 6u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* -- sizes -- */

TEST(sizes_are_the_published_ones)
{
    static const u16 first[KMALLOC_CLASSES] = {15, 15, 15, 7, 7, 7, 7, 3, 3,
                                               3,  3,  3,  3, 3, 1, 1, 1};
    static const u16 last[KMALLOC_CLASSES] = {143, 143, 143, 143, 143, 143, 143, 143, 95,
                                              95,  63,  63,  47,  47,  31,  31,  15};
    struct test_heap t;

    REQUIRE(heap_new(&t, "front=magazine", 64, 1));
    for (unsigned i = 0; i < KMALLOC_CLASSES; i++) {
        struct kmem_cache *c = &t.h->kmalloc[i];
        u32 before;

        EXPECT_EQ(depot_size(c), first[i]);
        EXPECT_EQ(cache_front_capacity(c), first[i]);
        do {
            before = depot_size(c);
            c->depot.contended = 4;
            depot_interval_end(c);
        } while (depot_size(c) > before);
        EXPECT_EQ(depot_size(c), last[i]);
    }
    heap_delete(&t);
}

TEST(a_cache_may_ask_for_a_size)
{
    static const unsigned asked[] = {1, 2, 15, 16, 32, 143, 252},
                          got[] = {1, 3, 15, 31, 47, 143, 143};

    for (unsigned i = 0; i < ARRAY_SIZE(asked); i++) {
        struct kmem_cache_args args = {.name = "asking", .size = 256, .front_capacity = asked[i]};
        struct test_heap t;
        struct kmem_cache *c;

        REQUIRE(heap_new(&t, "front=magazine", 32, 1));
        c = kmem_cache_create(t.h, &args);
        REQUIRE(c != NULL);
        EXPECT_EQ(depot_size(c), got[i]);
        EXPECT_TRUE(kmem_cache_destroy(c, NULL));
        heap_delete(&t);
    }
}

/* -- the guarantee: at least M operations between two trips, whichever they are -- */

struct walk {
    struct kmem_cache *c;
    unsigned held;
    u64 steps, last_trip, closest;
};

static void step(struct walk *w, bool alloc)
{
    u64 before = trips(w->c);

    if (alloc && w->held < MOST)
        REQUIRE((objects[w->held++] = kmem_cache_alloc(w->c)) != NULL);
    else if (w->held)
        REQUIRE(kmem_cache_free(w->c, objects[--w->held]));
    else
        return;
    w->steps++;
    if (trips(w->c) == before)
        return;
    if (w->last_trip) /* before the first one anything may have been */
        w->closest = MIN(w->closest, w->steps - w->last_trip);
    w->last_trip = w->steps;
}

static void walk(struct walk *w, u64 seed, u32 m)
{
    /* Runs of one kind about as long as what a CPU holds, then both kinds in turn at whatever edge that
     * is: what a single magazine would not survive. */
    for (unsigned i = 0; i < 400; i++) {
        bool alloc = test_random(&seed) & 1;

        for (u64 n = test_random(&seed) % (4 * m + 2); n; n--)
            step(w, alloc);
        for (u64 n = test_random(&seed) % (2 * m + 2); n; n--)
            step(w, n & 1);
    }
}

TEST(at_least_m_operations_between_trips)
{
    static const unsigned classes[] = {CLASS_64, 4, 8, 14};

    for (unsigned i = 0; i < ARRAY_SIZE(classes); i++)
        for (unsigned grown = 0; grown < 3; grown++) {
            struct test_heap t;
            struct walk w = {.closest = ~(u64)0};
            u32 m;

            REQUIRE(heap_new(&t, "front=magazine", 128, 1));
            w.c = &t.h->kmalloc[classes[i]];
            for (unsigned g = 0; g < grown; g++) {
                w.c->depot.contended = 4;
                depot_interval_end(w.c);
            }
            m = depot_size(w.c);
            stock(w.c, 2 * m); /* both magazines are there */
            walk(&w, test_seed() + i, m);
            EXPECT_GT(w.steps, 400u);
            EXPECT_GE(w.closest, (u64)m);
            while (w.held)
                step(&w, false);
            empty_and_balanced(&t, w.c);
            heap_delete(&t);
        }
}

/* A change of size leaves old magazines with the CPU; once they were traded the guarantee is of the new size. */
TEST(the_guarantee_comes_back_after_a_change_of_size)
{
    struct test_heap t;
    struct walk w = {.closest = ~(u64)0};

    REQUIRE(heap_new(&t, "front=magazine", 64, 1));
    w.c = &t.h->kmalloc[CLASS_64];
    stock(w.c, 100);
    w.c->depot.contended = 4;
    depot_interval_end(w.c);
    EXPECT_EQ(depot_size(w.c), 31u);
    for (unsigned i = 0; i < 400; i++) /* allocates, frees: trades both */
        step(&w, true);
    while (w.held)
        step(&w, false);
    EXPECT_EQ(mine(w.c)->main->capacity, 31u);
    EXPECT_EQ(mine(w.c)->spare->capacity, 31u);
    w.closest = ~(u64)0;
    w.last_trip = 0;
    walk(&w, test_seed(), 31);
    EXPECT_GE(w.closest, 31u);
    while (w.held)
        step(&w, false);
    empty_and_balanced(&t, w.c);
    heap_delete(&t);
}

/* -- the edges -- */

TEST(magazines_are_made_on_the_free_path_only)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "front=magazine", 32, 1));
    c = &t.h->kmalloc[CLASS_64];
    allocate(c, 200);
    EXPECT_EQ(total(c, CACHE_mag_new), 0u);
    EXPECT_NULL(mine(c)->main);
    EXPECT_EQ(total(c, CACHE_refill_objects), 200u);
    EXPECT_TRUE(heap_good(&t));
    release(c, 1);
    EXPECT_EQ(total(c, CACHE_mag_new), 1u);
    EXPECT_EQ(mine(c)->count, 1u);
    for (unsigned i = 1; i < 200; i++)
        EXPECT_TRUE(kmem_cache_free(c, objects[i]));
    EXPECT_EQ(total(c, CACHE_mag_new), (200u + 14) / 15);
    empty_and_balanced(&t, c);
    EXPECT_NULL(mine(c)->main);
    heap_delete(&t);
}

TEST(full_magazines_go_to_the_depot_and_come_back)
{
    enum { N = 15 * 5 };
    struct test_heap t;
    struct kmem_cache *c;
    u64 refilled;

    REQUIRE(heap_new(&t, "front=magazine", 32, 1));
    c = &t.h->kmalloc[CLASS_64];
    stock(c, N);
    EXPECT_EQ(gauge(c, CACHE_depot_full), 3u); /* the CPU has two */
    EXPECT_EQ(gauge(c, CACHE_depot_objects), 45u);
    EXPECT_EQ(gauge(c, CACHE_front_objects), 30u);
    EXPECT_EQ(total(c, CACHE_depot_put), 3u);
    EXPECT_FALSE(kmem_cache_free(c, objects[0])); /* lies in the depot */
    EXPECT_TRUE(heap_good(&t));
    refilled = total(c, CACHE_refill_objects);
    allocate(c, N);
    EXPECT_EQ(total(c, CACHE_refill_objects), refilled);
    EXPECT_EQ(total(c, CACHE_depot_get), 3u);
    EXPECT_EQ(gauge(c, CACHE_depot_empty), 3u);
    EXPECT_EQ(total(c, CACHE_mag_swap), 1u);
    release(c, N);
    EXPECT_EQ(total(c, CACHE_mag_new), 5u); /* no more than the first time */
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

TEST(a_dry_depot_fills_the_magazine_from_slabs)
{
    struct test_heap t;
    struct kmem_cache *c;
    u64 refills;

    REQUIRE(heap_new(&t, "front=magazine", 32, 1));
    c = &t.h->kmalloc[CLASS_64];
    allocate(c, 1);
    release(c, 1); /* a magazine with one object */
    refills = total(c, CACHE_refill);
    allocate(c, 1 + 15);
    EXPECT_EQ(total(c, CACHE_refill), refills + 1);
    EXPECT_EQ(mine(c)->count, 0u);
    release(c, 16);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

TEST(without_memory_for_a_magazine_objects_go_to_slabs)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "front=magazine", 32, 1));
    c = &t.h->kmalloc[CLASS_64];
    allocate(c, 20);
    fault_arm(FAULT_no_sheaf, 0, 1000);
    release(c, 20);
    EXPECT_EQ(fault_struck(FAULT_no_sheaf), 20u);
    fault_arm(FAULT_no_sheaf, 0, 0);
    EXPECT_EQ(total(c, CACHE_mag_new_fail), 20u);
    EXPECT_EQ(total(c, CACHE_flush_objects), 20u);
    EXPECT_EQ(gauge(c, CACHE_front_objects), 0u);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

/* Memory for a magazine is had by a drain of this very CPU, after its two were seen full. */
TEST(a_drain_under_the_hands_of_a_free_is_seen)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "front=magazine", 32, 1));
    c = &t.h->kmalloc[CLASS_64];
    allocate(c, 31);
    (void)kmem_cache_shrink(c);
    release(c, 30);
    EXPECT_EQ(mine(c)->count + mine(c)->spare_count, 30u);
    fault_arm(FAULT_drain, 0, 1);
    EXPECT_TRUE(kmem_cache_free(c, objects[30]));
    EXPECT_EQ(fault_struck(FAULT_drain), 1u);
    fault_arm(FAULT_drain, 0, 0);
    EXPECT_EQ(mine(c)->count, 1u);
    EXPECT_NULL(mine(c)->spare);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

/* A slab for a fill is had by reclaim, which frees the CPU's magazines: not the one being filled. */
TEST(a_magazine_that_is_being_filled_is_nobodys)
{
    struct test_heap t;
    struct kmem_cache *c;
    unsigned n = 0;
    void **chain = NULL;

    REQUIRE(heap_new(&t, "front=magazine pcp=off", 16, 1));
    c = &t.h->kmalloc[CLASS_64];
    allocate(c, 1);
    for (;;) { /* every page */
        void **p = alloc_pages(t.h, 0);

        if (!p)
            break;
        *p = chain;
        chain = p;
    }
    for (unsigned i = 0; i < 8; i++) { /* but these: for a slab of magazines, and of objects */
        void **next = *chain;

        EXPECT_TRUE(free_pages(t.h, chain, 0));
        chain = next;
    }
    release(c, 1);
    EXPECT_TRUE(mine(c)->main != NULL);
    while (n < MOST && (objects[n] = kmem_cache_alloc(c)) != NULL)
        n++;
    EXPECT_GT(n, 100u);
    EXPECT_TRUE(mine(c)->main != NULL); /* though the last one drained this CPU */
    EXPECT_GT(total(c, CACHE_alloc_fail), 0u);
    EXPECT_TRUE(heap_good(&t));
    while (chain) {
        void **next = *chain;

        EXPECT_TRUE(free_pages(t.h, chain, 0));
        chain = next;
    }
    release(c, n);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

TEST(shortage_drains_magazines_and_depot)
{
    struct test_heap t;
    struct kmem_cache *c;
    void *p[64];
    unsigned got = 0;

    REQUIRE(heap_new(&t, "front=magazine slab.min_partial=1000", 16, 1));
    c = &t.h->kmalloc[13]; /* 3072 */
    allocate(c, 2600);
    release(c, 2600);
    EXPECT_GT(gauge(c, CACHE_depot_objects), 2500u);
    while (got < 64 && (p[got] = heap_kmalloc(t.h, 1 << 20)))
        got++;
    EXPECT_GE(got, 9u);
    while (got)
        EXPECT_TRUE(heap_kfree(t.h, p[--got]));
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

/* -- the size changes, and says why -- */

static struct resize_report told;
static unsigned tellings;

static void on_resize(const struct resize_report *r)
{
    told = *r;
    tellings++;
}

static void contended_visits(struct kmem_cache *c, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct sheaf *m = sheaf_alloc(c, depot_size(c));

        REQUIRE(m != NULL);
        fault_arm(FAULT_depot_busy, 0, 1);
        depot_add_empty(c, m);
        EXPECT_EQ(fault_struck(FAULT_depot_busy), 1u);
        fault_arm(FAULT_depot_busy, 0, 0);
    }
}

static bool resizing_heap(struct test_heap *t, const char *line, struct kmem_cache **c)
{
    if (!heap_new(t, line, 32, 1))
        return false;
    *c = &t->h->kmalloc[CLASS_64];
    tellings = 0;
    heap_set_resize_handler(t->h, on_resize);
    return true;
}

TEST(four_contended_visits_make_magazines_grow)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(resizing_heap(&t, "front=magazine", &c));
    stock(c, 100);
    contended_visits(c, 3);
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 15u);
    contended_visits(c, 3); /* they are counted for each interval by itself */
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 15u);
    EXPECT_EQ(tellings, 0u);
    contended_visits(c, 4);
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 31u);
    EXPECT_EQ(tellings, 1u);
    EXPECT_EQ(told.why, RESIZE_contended);
    EXPECT_EQ(told.from, 15u);
    EXPECT_EQ(told.to, 31u);
    EXPECT_EQ(told.contended, 4u);
    EXPECT_GE(told.visits, 4u);
    EXPECT_EQ(told.left_at, told.visits);
    EXPECT_TRUE(told.cache == c);
    EXPECT_EQ(total(c, CACHE_mag_grow), 1u);
    EXPECT_EQ(total(c, CACHE_depot_contended), 10u);
    EXPECT_EQ(gauge(c, CACHE_mag_size), 31u);
    /* What lay there is stale, still in the books, and goes. */
    EXPECT_EQ(gauge(c, CACHE_depot_full) + gauge(c, CACHE_depot_empty), 0u);
    EXPECT_GT(gauge(c, CACHE_depot_objects), 0u);
    EXPECT_TRUE(heap_good(&t));
    heap_maintain(t.h);
    EXPECT_EQ(gauge(c, CACHE_depot_objects), 0u);
    EXPECT_GE(total(c, CACHE_mag_stale), 10u);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

TEST(an_interval_ends_by_the_clock)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(resizing_heap(&t, "front=magazine mag.interval=20", &c));
    contended_visits(c, 1); /* the first interval begins */
    c->depot.until = plat_cycles() + plat_cycles_hz() * 3600;
    contended_visits(c, 5);
    EXPECT_EQ(depot_size(c), 15u);
    c->depot.until = plat_cycles();
    heap_maintain(t.h);
    EXPECT_EQ(depot_size(c), 31u);
    EXPECT_GT(c->depot.until, plat_cycles() - plat_cycles_hz() / 50);
    EXPECT_LE(c->depot.until, plat_cycles() + plat_cycles_hz() / 50);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

TEST(with_resize_off_the_size_stays)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(resizing_heap(&t, "front=magazine mag.resize=off", &c));
    contended_visits(c, 50);
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 15u);
    EXPECT_EQ(tellings, 0u);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

/* Quiet alone is no reason: the lock is quiet because magazines are large. Few visits are. */
TEST(magazines_shrink_when_the_rush_is_over)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(resizing_heap(&t, "front=magazine", &c));
    contended_visits(c, 40);
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 31u);
    for (unsigned i = 0; i < 5;
         i++) { /* 6 visits would have been 13 at 15: more than a quarter of 40 */
        c->depot.visits = 6;
        depot_interval_end(c);
    }
    EXPECT_EQ(depot_size(c), 31u);
    c->depot.visits = 4;
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 31u); /* one interval is not enough */
    c->depot.visits = 4;
    c->depot.contended = 1;
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 31u); /* and they must follow each other */
    c->depot.visits = 4;
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 31u);
    c->depot.visits = 4;
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 15u);
    EXPECT_EQ(told.why, RESIZE_quiet);
    EXPECT_EQ(told.visits, 4u);
    EXPECT_EQ(told.left_at, 40u);
    EXPECT_EQ(total(c, CACHE_mag_shrink_quiet), 1u);
    for (unsigned i = 0; i < 5; i++)
        depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 15u); /* the first is the smallest */
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

TEST(a_shortage_makes_magazines_small_again)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(resizing_heap(&t, "front=magazine", &c));
    for (unsigned i = 0; i < 3; i++) {
        contended_visits(c, 4);
        depot_interval_end(c);
    }
    EXPECT_EQ(depot_size(c), 63u);
    heap_reclaim(t.h);
    EXPECT_EQ(depot_size(c), 15u);
    EXPECT_EQ(told.why, RESIZE_shortage);
    EXPECT_EQ(told.from, 63u);
    EXPECT_EQ(told.to, 15u);
    EXPECT_EQ(total(c, CACHE_mag_shrink_shortage), 1u);
    EXPECT_EQ(total(c, CACHE_mag_shrink_quiet), 0u);
    heap_reclaim(t.h);
    EXPECT_EQ(total(c, CACHE_mag_shrink_shortage), 1u); /* nothing changed */
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

/* The size changes while a magazine of the old one is made: it must not join the new ones. */
TEST(the_size_is_looked_at_again_after_the_lock)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(resizing_heap(&t, "front=magazine", &c));
    contended_visits(c, 4);
    depot_interval_end(c);
    allocate(c, 40);
    (void)kmem_cache_shrink(c);
    fault_arm(FAULT_resize, 0, 1);
    release(c, 1);
    EXPECT_EQ(fault_struck(FAULT_resize), 1u);
    fault_arm(FAULT_resize, 0, 0);
    EXPECT_EQ(mine(c)->main->capacity, 15u);
    EXPECT_EQ(total(c, CACHE_mag_new), 4u - 4 + 2); /* one for nothing */
    EXPECT_TRUE(heap_good(&t));
    for (unsigned i = 1; i < 40; i++)
        EXPECT_TRUE(kmem_cache_free(c, objects[i]));
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

/* -- reaping: what lay unused through two intervals, and nothing else -- */

TEST(the_minimum_surplus_of_two_intervals_is_reaped)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(resizing_heap(&t, "front=magazine", &c));
    stock(c, 15 * 12);
    EXPECT_EQ(gauge(c, CACHE_depot_full), 10u);
    depot_interval_end(c); /* in this one they came */
    heap_maintain(t.h);
    EXPECT_EQ(gauge(c, CACHE_depot_full), 10u);
    allocate(c, 15 * 5); /* the CPU's two, and three of the depot's */
    EXPECT_EQ(gauge(c, CACHE_depot_full), 7u);
    release(c, 15 * 5);
    EXPECT_EQ(gauge(c, CACHE_depot_full), 10u);
    depot_interval_end(c); /* one interval with seven unused */
    heap_maintain(t.h);
    EXPECT_EQ(gauge(c, CACHE_depot_full), 10u);
    allocate(c, 15 * 3);
    release(c, 15 * 3);
    depot_interval_end(c); /* and one with nine: seven go */
    heap_maintain(t.h);
    EXPECT_EQ(gauge(c, CACHE_depot_full), 3u);
    EXPECT_EQ(total(c, CACHE_mag_reaped), 7u);
    EXPECT_TRUE(heap_good(&t));
    depot_interval_end(c); /* now two of those three lay there through both */
    heap_maintain(t.h);
    EXPECT_EQ(gauge(c, CACHE_depot_full), 1u);
    depot_interval_end(c);
    heap_maintain(t.h);
    EXPECT_EQ(gauge(c, CACHE_depot_full), 0u);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

/* What was to be reaped is wanted after all. */
TEST(a_magazine_that_is_wanted_is_not_reaped)
{
    struct test_heap t;
    struct kmem_cache *c;
    u64 refilled;

    REQUIRE(resizing_heap(&t, "front=magazine", &c));
    stock(c, 15 * 12);
    for (unsigned i = 0; i < 3; i++)
        depot_interval_end(c);
    EXPECT_EQ(c->depot.full.reap, 10u);
    refilled = total(c, CACHE_refill_objects);
    allocate(c, 15 * 2); /* the CPU's: no visit, so no reaping */
    EXPECT_EQ(total(c, CACHE_mag_reaped), 0u);
    c->depot.full.reap = 8; /* leaves two */
    for (unsigned i = 0; i < 15 * 2; i++)
        REQUIRE((objects[30 + i] = kmem_cache_alloc(c)) != NULL);
    EXPECT_EQ(total(c, CACHE_refill_objects), refilled);
    EXPECT_LE(total(c, CACHE_mag_reaped), 8u); /* a few at each visit */
    EXPECT_GE(total(c, CACHE_mag_reaped), 4u);
    release(c, 60);
    empty_and_balanced(&t, c);
    heap_delete(&t);
}

/* -- everything at once -- */

static const char *const lines[] = {
    "front=magazine mag.interval=1",
    "front=magazine objstate=side poison=full mag.interval=1 slab.min_partial=0",
    "front=magazine objstate=off stats.slab=global mag.resize=off",
};

static void play(struct kmem_cache *c, unsigned steps, u64 seed)
{
    enum { LIVE = 300 };
    u64 *live[LIVE] = {NULL};

    for (unsigned i = 0; i < steps; i++) {
        unsigned at = (unsigned)(test_random(&seed) % LIVE);

        if (live[at]) {
            EXPECT_EQ(*live[at], (u64)(uintptr_t)live[at]);
            EXPECT_TRUE(kmem_cache_free(c, live[at]));
            live[at] = NULL;
        } else if ((live[at] = kmem_cache_alloc(c)) != NULL) {
            *live[at] = (u64)(uintptr_t)live[at];
        }
        if (i % 128 == 5) {
            if (test_random(&seed) & 1)
                c->depot.contended += 4;
            depot_interval_end(c);
        }
        if (i % 512 == 100 && (test_random(&seed) & 3) == 0)
            (void)kmem_cache_shrink(c);
        if (i % 256 == 30 && (test_random(&seed) & 1))
            heap_maintain(c->heap);
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (live[i])
            EXPECT_TRUE(kmem_cache_free(c, live[i]));
}

TEST(random_play_with_every_fault)
{
    static const enum fault faults[] = {FAULT_page,       FAULT_depot_busy, FAULT_resize,
                                        FAULT_no_empty,   FAULT_drain,      FAULT_no_sheaf,
                                        FAULT_refill_half};
    u32 struck[ARRAY_SIZE(faults)] = {0};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++)
        for (unsigned f = 0; f <= ARRAY_SIZE(faults); f++) {
            struct test_heap t;
            struct kmem_cache *c;

            REQUIRE(heap_new(&t, lines[a], 32, 1));
            c = &t.h->kmalloc[6];
            for (unsigned r = 0; r < 10; r++) {
                if (f < ARRAY_SIZE(faults))
                    fault_arm(faults[f], r % 7, 1 + r % 5);
                play(c, test_scale(1000), test_seed() + r);
                if (f < ARRAY_SIZE(faults)) {
                    struck[f] += fault_struck(faults[f]);
                    fault_arm(faults[f], 0, 0);
                }
                EXPECT_TRUE(heap_good(&t));
            }
            empty_and_balanced(&t, c);
            heap_delete(&t);
        }
    for (unsigned f = 0; f < ARRAY_SIZE(faults); f++)
        EXPECT_GT(struck[f], 0u); /* no fault that was never met */
}

struct crowd {
    struct kmem_cache *c;
    unsigned steps;
    u64 *slot[1024]; /* atomic: objects that any CPU may free */
};

static void crowd_part(void *arg)
{
    struct crowd *w = arg;
    u64 seed = test_seed() * 31 + plat_cpu_id() * 7919 + 1;

    for (unsigned i = 0; i < w->steps; i++) {
        bool allocates = (i / 100 + plat_cpu_id()) & 1; /* in turn with the others */
        u64 *mine = allocates ? kmem_cache_alloc(w->c) : NULL, *old;

        if (mine)
            *mine = (u64)(uintptr_t)mine;
        old = __atomic_exchange_n(&w->slot[test_random(&seed) % 1024], mine, __ATOMIC_ACQ_REL);
        if (old) {
            EXPECT_EQ(*old, (u64)(uintptr_t)old);
            EXPECT_TRUE(kmem_cache_free(w->c, old));
        }
        if (i % 1901 == 7)
            (void)kmem_cache_shrink(w->c);
        if (i % 503 == 9)
            heap_maintain(w->c->heap);
        if (i % 2997 == 11)
            heap_reclaim(w->c->heap);
        if (i % 97 == 13)
            fault_arm(FAULT_depot_busy, 0, 10);
        if (i % 211 == 17)
            (void)gauge(w->c, CACHE_depot_objects);
    }
}

TEST(a_crowd_shares_a_depot)
{
    u64 resized = 0, traded = 0;

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++)
        for (unsigned cpus = 2; cpus <= 4; cpus++) {
            struct test_heap t;
            struct crowd w = {.steps = test_scale(20000)};

            REQUIRE(heap_new(&t, lines[a], 32, cpus));
            w.c = &t.h->kmalloc[6];
            plat_run_on_cpus(plat_all_cpus(), crowd_part, &w);
            fault_arm(FAULT_depot_busy, 0, 0);
            EXPECT_TRUE(heap_good(&t));
            for (unsigned i = 0; i < ARRAY_SIZE(w.slot); i++)
                if (w.slot[i])
                    EXPECT_TRUE(kmem_cache_free(w.c, w.slot[i]));
            EXPECT_TRUE(heap_good(&t));
            resized += total(w.c, CACHE_mag_grow);
            traded += total(w.c, CACHE_depot_get);
            heap_delete(&t);
        }
    EXPECT_GT(traded, 0u);
    EXPECT_GT(resized, 0u);
}

/* A cache that is made again under its name begins at its own first size. */
TEST(a_cache_made_again_begins_at_its_first_size)
{
    struct kmem_cache_args small = {.name = "again", .size = 64},
                           large = {.name = "again", .size = 4096};
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "front=magazine", 32, 2));
    c = kmem_cache_create(t.h, &small);
    REQUIRE(c != NULL);
    stock(c, 200);
    contended_visits(c, 4);
    depot_interval_end(c);
    EXPECT_EQ(depot_size(c), 31u);
    EXPECT_TRUE(kmem_cache_destroy(c, NULL));
    c = kmem_cache_create(t.h, &large);
    REQUIRE(c != NULL);
    EXPECT_EQ(depot_size(c), 1u);
    stock(c, 20);
    empty_and_balanced(&t, c);
    EXPECT_TRUE(kmem_cache_destroy(c, NULL));
    heap_delete(&t);
}
