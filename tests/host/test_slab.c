/* test_slab.c: typed caches, geometry, batches at the edges, slabs that go and stay, validation. */
#include "heap_fixture.h"

#include "../../mm/objstate_impl.h"

static unsigned constructed, destructed;

struct thing {
    u64 magic, value;
    u8 rest[84];
};

static void thing_ctor(void *p)
{
    ((struct thing *)p)->magic = 0x1234abcd;
    constructed++;
}

static void thing_dtor(void *p)
{
    EXPECT_EQ(((struct thing *)p)->magic, 0x1234abcdu);
    destructed++;
}

static const char *const lines[] = {
    "front=none",
    "front=bounded",
    "front=bounded objstate=side",
    "objstate=off",
    "poison=full",
    "poison=full objstate=side",
    "poison=free objstate=off",
};

/* What a cache with a constructor goes through in an array, a sheaf, a magazine, or in none. */
static const char *const typed_lines[] = {
    "front=none",
    "front=none poison=full objstate=side",
    "front=bounded",
    "front=bounded objstate=side",
    "front=bounded objstate=off poison=free",
    "front=bounded poison=full bounded.objects=1",
    "front=bounded poison=full objstate=side",
    "front=bounded typed=direct",
    "front=sheaf",
    "front=sheaf poison=full objstate=side sheaf.cap=3",
    "front=sheaf typed=direct",
    "front=magazine",
    "front=magazine poison=free objstate=off",
    "front=magazine typed=direct poison=full",
};

TEST(typed_cache_keeps_what_was_constructed)
{
    for (unsigned a = 0; a < ARRAY_SIZE(typed_lines); a++) {
        struct kmem_cache_args args = {"thing", sizeof(struct thing), 0, thing_ctor, thing_dtor, 0};
        struct test_heap t;
        struct kmem_cache *c;
        struct thing *p[200];
        u64 busy = 0;

        constructed = destructed = 0;
        REQUIRE(heap_new(&t, typed_lines[a], 32, 1));
        c = kmem_cache_create(t.h, &args);
        REQUIRE(c != NULL);
        for (unsigned round = 0; round < 3; round++) {
            for (unsigned i = 0; i < 200; i++) {
                p[i] = kmem_cache_alloc(c);
                REQUIRE(p[i] != NULL);
                EXPECT_EQ(p[i]->magic, 0x1234abcdu);
                p[i]->value = i;
            }
            EXPECT_FALSE(kmem_cache_destroy(c, &busy));
            EXPECT_EQ(busy, 200u);
            for (unsigned i = 0; i < 200; i++) {
                EXPECT_EQ(p[i]->value, i);
                EXPECT_TRUE(kmem_cache_free(c, p[i]));
            }
        }
        EXPECT_TRUE(heap_good(&t));
        EXPECT_TRUE(kmem_cache_destroy(c, &busy));
        EXPECT_EQ(busy, 0u);
        EXPECT_EQ(constructed, destructed);
        EXPECT_GT(constructed, 199u);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

static u64 ctr(const struct kmem_cache *c, enum cache_counter i)
{
    return counter_read(&cache_row(c, 0)[i]);
}

/* Every way in and out. */
static void typed_play(struct heap *h, struct kmem_cache *c)
{
    struct sheaf *s;
    void *p[40];

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
            REQUIRE((p[i] = kmem_cache_alloc(c)) != NULL);
        for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
            EXPECT_TRUE(i % 2 ? heap_kfree(h, p[i]) : kmem_cache_free(c, p[i]));
    }
    REQUIRE(kmem_cache_alloc_bulk(c, ARRAY_SIZE(p), p));
    EXPECT_EQ(kmem_cache_free_bulk(c, ARRAY_SIZE(p), p), ARRAY_SIZE(p));
    p[0] = kmem_cache_alloc(c);
    EXPECT_TRUE(heap_kfree_rcu(h, p[0], (struct rcu_head *)p[0] + 1)); /* past the magic */
    s = kmem_cache_prefill_sheaf(c, 5);
    REQUIRE(s != NULL);
    for (unsigned i = 0; i < 5; i++) {
        REQUIRE((p[i] = kmem_cache_alloc_from_sheaf(c, s)) != NULL);
        EXPECT_TRUE(kmem_cache_free(c, p[i]));
    }
    EXPECT_TRUE(kmem_cache_refill_sheaf(c, &s, 3));
    kmem_cache_return_sheaf(c, s);
}

/* typed= says it, under every front end alike, with and without constructor and whatever the cache asks for;
 * the kmalloc classes are served in either case. */
TEST(typed_says_whether_the_front_end_serves_typed_caches)
{
    static const char *const front[] = {"front=bounded", "front=sheaf", "front=magazine",
                                        "front=sheaf objstate=side poison=full",
                                        "front=bounded latency=on matrix=on stats.slab=global"};

    for (unsigned a = 0; a < 8 * ARRAY_SIZE(front); a++) {
        bool direct = a & 1, constructs = a & 2, asks = a & 4;
        struct kmem_cache_args args = {"thing", sizeof(struct thing), 0, NULL, NULL, asks ? 7 : 0};
        struct test_heap t;
        struct kmem_cache *c;
        char line[100];
        u64 busy;

        if (constructs)
            args.ctor = thing_ctor, args.dtor = thing_dtor;
        snprintf(line, sizeof(line), "%s typed=%s", front[a / 8], direct ? "direct" : "front");
        REQUIRE(heap_new(&t, line, 32, 1));
        c = kmem_cache_create(t.h, &args);
        REQUIRE(c != NULL);
        EXPECT_EQ(cache_front_capacity(c) == 0, direct);
        EXPECT_GT(cache_front_capacity(&t.h->kmalloc[0]), 0u);
        typed_play(t.h, c);
        EXPECT_EQ(ctr(c, CACHE_alloc_fast) == 0, direct);
        EXPECT_EQ(ctr(c, CACHE_free_fast) == 0, direct);
        EXPECT_TRUE(heap_kfree(t.h, heap_kmalloc(t.h, 64)));
        EXPECT_TRUE(heap_kfree(t.h, heap_kmalloc(t.h, 64)));
        EXPECT_GT(ctr(&t.h->kmalloc[2], CACHE_alloc_fast), 0u);
        EXPECT_TRUE(heap_good(&t));
        EXPECT_TRUE(kmem_cache_destroy(c, &busy));
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

TEST(typed_without_a_front_end_is_refused)
{
    static const char *const bad[] = {
        "front=none typed=direct",
        "front=none typed=front",
        "front=sheaf typed=direct prefill.from=barn",
        "front=sheaf typed=direct barn.partial=on",
        "front=sheaf typed=direct barn.refill=swap",
    };

    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
        struct knob_refusals r = {0};
        struct knobs k;

        REQUIRE(knobs_parse(&k, bad[i], true, &r));
        EXPECT_FALSE(knobs_check(&k, &r));
        EXPECT_EQ(r.count, 1u);
    }
}

/* A name stands for a cache: same id, counts go on, whatever the size of its successor. */
TEST(a_cache_made_again_goes_on)
{
    struct test_heap t;
    unsigned id = 0;

    REQUIRE(heap_new(&t, "", 32, 2));
    for (unsigned i = 0; i < 200; i++) {
        struct kmem_cache_args args = {"phoenix", 24 + 8 * (i % 50), 0, NULL, NULL, 0};
        struct kmem_cache *c = kmem_cache_create(t.h, &args);
        void *p;

        REQUIRE(c != NULL);
        if (i == 0)
            id = c->id;
        EXPECT_EQ(c->id, id);
        p = kmem_cache_alloc(c);
        EXPECT_TRUE(kmem_cache_free(c, p));
        EXPECT_EQ(cache_row(c, 0)[CACHE_alloc_fast] + cache_row(c, 0)[CACHE_alloc_slow],
                  (u64)i + 1);
        EXPECT_TRUE(kmem_cache_destroy(c, NULL));
        EXPECT_NULL(heap_cache(t.h, id));
    }
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(illegal_caches_are_refused)
{
    struct test_heap t;
    struct kmem_cache_args bad[] = {
        {"", 64, 0, NULL, NULL, 0},
        {NULL, 64, 0, NULL, NULL, 0},
        {"zero", 0, 0, NULL, NULL, 0},
        {"huge", KMALLOC_MAX_SMALL + 1, 0, NULL, NULL, 0},
        {"align", 64, 24, NULL, NULL, 0},
        {"align", 64, 8192, NULL, NULL, 0},
        {"a name that is too long to be stored in it", 64, 0, NULL, NULL, 0},
    };
    struct kmem_cache_args many = {NULL, 64, 0, NULL, NULL, 0};
    unsigned made = 0;
    char name[16];

    REQUIRE(heap_new(&t, "", 32, 1));
    for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
        EXPECT_NULL(kmem_cache_create(t.h, &bad[i]));
    many.name = name;
    for (; made < MAX_CACHES; made++) {
        snprintf(name, sizeof(name), "many-%u", made);
        if (!kmem_cache_create(t.h, &many))
            break;
    }
    EXPECT_EQ(made, MAX_CACHES - KMALLOC_CLASSES);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(objects_are_aligned_and_apart)
{
    static const size_t aligns[] = {0, 16, 64, 256, 4096};

    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++)
        for (unsigned i = 0; i < ARRAY_SIZE(aligns); i++) {
            struct kmem_cache_args args = {"aligned", 72, aligns[i], NULL, NULL, 0};
            struct test_heap t;
            struct kmem_cache *c;
            char *p[40];

            REQUIRE(heap_new(&t, lines[a], 32, 1));
            c = kmem_cache_create(t.h, &args);
            REQUIRE(c != NULL);
            for (unsigned j = 0; j < 40; j++) {
                p[j] = kmem_cache_alloc(c);
                REQUIRE(p[j] != NULL);
                EXPECT_EQ((uintptr_t)p[j] % MAX(aligns[i], (size_t)16), 0u);
                memset(p[j], (int)j, 72);
            }
            for (unsigned j = 0; j < 40; j++) {
                for (unsigned k = 0; k < 72; k++)
                    EXPECT_EQ(p[j][k], (char)j);
                EXPECT_TRUE(kmem_cache_free(c, p[j]));
            }
            heap_delete(&t);
        }
}

/* No object reaches past its slab, for every size, alignment and state layout. */
TEST(geometry_fits)
{
    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        struct test_heap t;

        REQUIRE(heap_new(&t, lines[a], 16, 1));
        for (u32 size = 1; size <= KMALLOC_MAX_SMALL; size += size < 200 ? 1 : 61)
            for (size_t align = 16; align <= 4096; align *= 4) {
                struct kmem_cache c = {.heap = t.h};
                struct kmem_cache_args args = {"g", size, align, NULL, NULL, 0};
                u32 last;

                cache_setup(t.h, &c, &args);
                last = c.lead + (c.capacity - 1) * c.slot;
                EXPECT_GT(c.capacity, 0u);
                EXPECT_LE(last + c.size + c.zone, (u32)(PAGE_SIZE << c.order));
                EXPECT_EQ(c.slot % align, 0u);
                EXPECT_EQ(c.lead % align, 0u);
                for (u32 i = 0; i < c.capacity; i++) {
                    char *base = t.memory;

                    EXPECT_EQ(object_index(&c, base, base + c.lead + (size_t)i * c.slot), i);
                    EXPECT_EQ(object_index(&c, base, base + c.lead + (size_t)i * c.slot + 1),
                              c.capacity);
                }
                if (c.objstate == V_objstate_side) {
                    EXPECT_GE(c.side.at, (u64)c.capacity * c.slot);
                    EXPECT_LE(c.side.at + c.side.granules, (u64)PAGE_SIZE << c.order);
                    EXPECT_EQ(c.side.at % CACHE_LINE, 0u);
                }
                spin_destroy(&c.node[0].lock);
            }
        heap_delete(&t);
    }
}

/* What the states of kmalloc-64 cost in memory: one line of a page, 1.6 %. */
TEST(side_states_are_packed)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "objstate=side", 32, 1));
    c = &t.h->kmalloc[2];
    EXPECT_EQ(c->side.shift, PLAT_REDZONE_BYTES ? 4u : 6u);
    if (!PLAT_REDZONE_BYTES) {
        EXPECT_EQ(c->order, 0u);
        EXPECT_EQ(c->capacity, 63u);
    }
    heap_delete(&t);
}

/* Of all addresses in a slab full of allocated objects, only their starts can be freed. */
TEST(every_other_address_of_a_slab_is_refused)
{
    static const char *const states[] = {"objstate=header", "objstate=side", "objstate=off"};
    static const size_t sizes[] = {16, 64, 96, 192, 1536};

    for (unsigned a = 0; a < ARRAY_SIZE(states); a++)
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
            struct kmem_cache_args args = {"whole", sizes[i], 0, NULL, NULL, 0};
            struct test_heap t;
            struct kmem_cache *c;
            u64 starts = 0, bytes;
            void **p;
            char *base;

            REQUIRE(heap_new(&t, states[a], 32, 1));
            c = kmem_cache_create(t.h, &args);
            REQUIRE(c != NULL);
            p = calloc(c->capacity, sizeof(*p));
            for (u32 k = 0; k < c->capacity; k++) {
                p[k] = kmem_cache_alloc(c);
                REQUIRE(p[k] != NULL);
                memset(p[k], 0x5a, sizes[i]);
            }
            base = object_slab(c, p[0]);
            bytes = PAGE_SIZE << c->order;
            for (u64 at = 0; at < bytes; at++) {
                if (object_index(c, base, base + at) < c->capacity)
                    starts++;
                else
                    EXPECT_FALSE(kmem_cache_free(c, base + at));
            }
            EXPECT_EQ(starts, c->capacity);
            EXPECT_EQ(heap_badfree_count(t.h, BADFREE_interior), bytes - starts);
            for (u32 k = 0; k < c->capacity; k++) {
                EXPECT_TRUE(object_slab(c, p[k]) == base);
                EXPECT_TRUE(kmem_cache_free(c, p[k]));
            }
            EXPECT_TRUE(heap_good(&t));
            heap_delete(&t);
            free(p);
        }
}

/* -- slabs of the CPUs' own -- */

#define OWN_OBJECTS 8u

struct own {
    struct test_heap t;
    void *p[2][OWN_OBJECTS];
};

static void take_some(void *arg)
{
    struct own *o = arg;

    for (unsigned i = 0; i < OWN_OBJECTS; i++)
        o->p[plat_cpu_id()][i] = heap_kmalloc(o->t.h, 64);
}

static void give_some(void *arg)
{
    struct own *o = arg;

    for (unsigned i = 0; i < OWN_OBJECTS; i++)
        EXPECT_TRUE(heap_kfree(o->t.h, o->p[plat_cpu_id()][i]));
}

/* Objects of one slab share cache lines of states, small ones their own lines too: two CPUs that
 * take turns must not be given neighbours. */
TEST(cpus_refill_from_slabs_of_their_own)
{
    for (unsigned a = 0; a < ARRAY_SIZE(lines); a++) {
        bool owns;
        struct own o;

        REQUIRE(heap_new(&o.t, lines[a], 32, 2));
        owns = o.t.h->kmalloc[2].limit > 0; /* the baseline shares: it has no arrays to refill */
        plat_run_on_cpus(1, take_some, &o);
        plat_run_on_cpus(2, take_some, &o);
        for (unsigned i = 0; i < OWN_OBJECTS; i++)
            for (unsigned j = 0; owns && j < OWN_OBJECTS; j++)
                EXPECT_TRUE(object_slab(&o.t.h->kmalloc[2], o.p[0][i]) !=
                            object_slab(&o.t.h->kmalloc[2], o.p[1][j]));
        EXPECT_TRUE(heap_good(&o.t));
        plat_run_on_cpus(3, give_some, &o);
        heap_drain_this_cpu(o.t.h);
        EXPECT_TRUE(heap_good(&o.t));
        heap_delete(&o.t);
    }
}

/* -- and however often they take turns, under every front end that has arrays -- */

#define TURNS   40u
#define A_TURN  13u /* divides no array's size: turns change in mid-batch */
#define OF_EACH (TURNS * A_TURN)

static struct turns {
    struct test_heap t;
    unsigned count[2];
    void *p[2][OF_EACH];
} turns;

static void take_a_turn(void *arg)
{
    unsigned me = plat_cpu_id();

    (void)arg;
    for (unsigned i = 0; i < A_TURN; i++)
        turns.p[me][turns.count[me]++] = heap_kmalloc(turns.t.h, 64);
}

/* So that a CPU has whatever its front end gives it at its first free. */
static void take_and_give(void *arg)
{
    (void)arg;
    EXPECT_TRUE(heap_kfree(turns.t.h, heap_kmalloc(turns.t.h, 64)));
}

static void give_all(void *arg)
{
    unsigned me = plat_cpu_id();

    (void)arg;
    for (unsigned i = 0; i < turns.count[me]; i++)
        EXPECT_TRUE(heap_kfree(turns.t.h, turns.p[me][i]));
}

/* No object of one CPU lies in a slab of the other's, so none shares a line with one. A magazine that is being
 * filled is nobody's: its CPU has no room then, and must be served as one with a front end all the same. */
TEST(cpus_in_turn_never_get_neighbours)
{
    static const char *const own[] = {
        "front=bounded",
        "front=bounded objstate=side bounded.objects=1",
        "front=sheaf",
        "front=sheaf objstate=off sheaf.cap=3",
        "front=magazine",
        "front=magazine objstate=side",
        "front=magazine objstate=off mag.resize=off latency=on",
    };

    for (unsigned a = 0; a < 2 * ARRAY_SIZE(own); a++) {
        const struct kmem_cache *c;
        unsigned shared = 0;

        memset(&turns, 0, sizeof(turns));
        REQUIRE(heap_new(&turns.t, own[a / 2], 32, 2));
        c = &turns.t.h->kmalloc[2];
        for (unsigned cpu = 0; a % 2 && cpu < 2; cpu++)
            plat_run_on_cpus((u64)1 << cpu, take_and_give, NULL);
        for (unsigned i = 0; i < 2 * TURNS; i++)
            plat_run_on_cpus((u64)1 << i % 2, take_a_turn, NULL);
        for (unsigned i = 0; i < OF_EACH; i++)
            for (unsigned j = 0; j < OF_EACH; j++)
                shared += object_slab(c, turns.p[0][i]) == object_slab(c, turns.p[1][j]);
        EXPECT_EQ(shared, 0u);
        EXPECT_TRUE(heap_good(&turns.t));
        plat_run_on_cpus(3, give_all, NULL);
        EXPECT_TRUE(heap_good(&turns.t));
        heap_delete(&turns.t);
    }
}

/* With no page left, what another CPU refills from is better than nothing. */
TEST(in_a_shortage_slabs_are_shared)
{
    struct own o;
    void *last = NULL, *block;

    REQUIRE(heap_new(&o.t, "front=bounded", 32, 2));
    plat_run_on_cpus(1, take_some, &o);
    while ((block = alloc_pages(o.t.h, 0)))
        last = block;
    REQUIRE(last != NULL);
    plat_run_on_cpus(2, take_some, &o);
    for (unsigned i = 0; i < OWN_OBJECTS; i++)
        EXPECT_TRUE(o.p[1][i] != NULL);
    EXPECT_TRUE(heap_good(&o.t));
    plat_run_on_cpus(3, give_some, &o);
    EXPECT_TRUE(heap_good(&o.t));
    heap_delete(&o.t);
}

/* A full array spills half, not all: the call after the edge is fast again, in both directions. */
TEST(batches_do_not_thrash_at_the_edge)
{
    struct test_heap t;
    struct kmem_cache *c;
    const u64 *ctr;
    void *p[100];
    u64 slow;

    REQUIRE(heap_new(&t, "front=bounded", 32, 1));
    c = &t.h->kmalloc[2];
    EXPECT_EQ(c->limit, 32u);
    EXPECT_EQ(c->batch, 16u);
    EXPECT_EQ(t.h->kmalloc[16].limit, 2u); /* 16 KiB of 8192 */
    ctr = cache_row(c, 0);
    for (unsigned i = 0; i < 100; i++)
        p[i] = heap_kmalloc(t.h, 64);
    /* ceil(100 / 16) refills, and one more where a slab ended in mid-batch. */
    EXPECT_GE(ctr[CACHE_refill], 7u);
    EXPECT_LE(ctr[CACHE_refill], 9u);
    EXPECT_EQ(ctr[CACHE_alloc_slow], ctr[CACHE_refill]);
    EXPECT_EQ(ctr[CACHE_alloc_fast] + ctr[CACHE_alloc_slow], 100u);
    for (unsigned i = 0; i < 100; i++)
        heap_kfree(t.h, p[i]);
    EXPECT_EQ(ctr[CACHE_free_fast] + ctr[CACHE_free_slow], 100u);
    EXPECT_EQ(ctr[CACHE_flush_objects], ctr[CACHE_flush] * 16);
    slow = ctr[CACHE_alloc_slow] + ctr[CACHE_free_slow];
    for (unsigned i = 0; i < 1000; i++)
        heap_kfree(t.h, heap_kmalloc(t.h, 64));
    EXPECT_EQ(ctr[CACHE_alloc_slow] + ctr[CACHE_free_slow], slow);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

TEST(empty_slabs_stay_up_to_min_partial)
{
    for (unsigned keep = 0; keep <= 6; keep += 3) {
        struct test_heap t;
        struct kmem_cache *c;
        void **p = calloc(3000, sizeof(*p));
        char line[64];

        snprintf(line, sizeof(line), "front=none slab.min_partial=%u", keep);
        REQUIRE(heap_new(&t, line, 32, 1));
        c = &t.h->kmalloc[8];
        for (unsigned i = 0; i < 3000; i++)
            p[i] = heap_kmalloc(t.h, 512);
        for (unsigned i = 0; i < 3000; i++)
            heap_kfree(t.h, p[i]);
        EXPECT_EQ(c->node[0].empties, keep);
        EXPECT_EQ(c->node[0].slabs, (u64)keep);
        EXPECT_EQ(cache_row(c, 0)[CACHE_slab_alloc], cache_row(c, 0)[CACHE_slab_free_empty] + keep);
        EXPECT_EQ(kmem_cache_shrink(c), keep);
        EXPECT_EQ(cache_row(c, 0)[CACHE_slab_free_shrink], (u64)keep);
        EXPECT_EQ(c->node[0].slabs, 0u);
        EXPECT_EQ(cache_row(c, 0)[CACHE_partial_add], cache_row(c, 0)[CACHE_partial_remove]);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
        free(p);
    }
}

TEST(wrong_cache_is_refused)
{
    struct test_heap t;
    struct kmem_cache_args args = {"mine", 64, 0, NULL, NULL, 0};
    struct kmem_cache *c;
    void *p;

    REQUIRE(heap_new(&t, "", 32, 1));
    c = kmem_cache_create(t.h, &args);
    p = heap_kmalloc(t.h, 64);
    REQUIRE(c && p);
    EXPECT_FALSE(kmem_cache_free(c, p));
    EXPECT_EQ(heap_badfree_count(t.h, BADFREE_wrong_cache), 1u);
    EXPECT_TRUE(kmem_cache_free(c, NULL));
    EXPECT_TRUE(heap_kfree(t.h, p));
    heap_delete(&t);
}

static void break_state(void *arg)
{
    struct test_heap *t = arg;
    u64 *p = heap_kmalloc(t->h, 64);

    heap_kfree(t->h, p);
    object_header(p)->state = 42; /* something wrote over a cached object's state */
    p = heap_kmalloc(t->h, 64);
}

TEST(validate_sees_what_is_broken)
{
    struct test_heap t;
    struct heap_fault f;
    struct frame *s;
    void *p, *q;

    REQUIRE(heap_new(&t, "objstate=header", 32, 1));
    p = heap_kmalloc(t.h, 64);
    q = heap_kmalloc(t.h, 64);
    heap_kfree(t.h, p);
    EXPECT_TRUE(heap_validate(t.h, &f));
    object_header(p)->state = STATE_WORD(OBJECT_ALLOCATED);
    EXPECT_FALSE(heap_validate(t.h, &f));
    EXPECT_EQ(f.address, (u64)(uintptr_t)p);
    object_header(p)->state = STATE_WORD(OBJECT_CACHED);
    EXPECT_TRUE(heap_validate(t.h, &f));
    s = frame_of(&t.h->frames, q)->head;
    s->inuse++;
    EXPECT_FALSE(heap_validate(t.h, &f));
    s->inuse--;
    t.h->kmalloc[2].node[0].free_objects++;
    EXPECT_FALSE(heap_validate(t.h, &f));
    t.h->kmalloc[2].node[0].free_objects--;
    *object_link(&t.h->kmalloc[2], s->freelist) = s->freelist;
    EXPECT_FALSE(heap_validate(t.h, &f));
    EXPECT_EQ(test_panic_of(break_state, &t), (unsigned)PANIC_check_failed);
    heap_delete(&t);
}
