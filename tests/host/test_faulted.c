/* test_faulted.c: random runs in which everything that may go wrong does: under random knobs, one, several or
 * as-if-several CPUs make random calls of every kind, while faults (mm/fault_impl.h) are armed and strike at
 * random. After each run nothing is lost: what was written is there until it is freed, no good free is
 * refused, the balance law holds with nothing in use, sheaves, barns and depots empty out, and every page is
 * back.
 *
 * A run is made of its seed. Each says its seed and its knobs before it begins, so the last line of a test
 * that stopped names the run; one run by itself:
 *
 *     build/host-asan/tests/test_faulted --seed SEED          (or host-tsan)
 *
 * HAYLOFT_RUNS=N asks for another number of runs. Seeds choose all but how CPUs of a crowd interleave: of the
 * three shapes, `solo` (one CPU) and `played` (one thread that plays all CPUs in turn, and is moved to another
 * wherever a call lets interrupts in) repeat exactly, `crowd` (a thread each) may need several tries.
 *
 * Locking: none; a CPU's blocks are its own, those handed over change hands by an atomic exchange. */
#include "../../mm/fault_impl.h"
#include "heap_fixture.h"

#define BLOCKS   96u
#define SHARED   32u
#define BULK     40u
#define STEPS    600u
#define CPUS_MAX 4u
#define MIB      12u

enum shape { SOLO, PLAYED, CROWD };
enum kind { KMALLOC, PAGES, TYPED_0, TYPED_1 };

struct block {
    u8 *p;
    u32 size;
    u8 kind, order;
    u64 stamp;
};

struct player { /* one CPU's */
    u64 random, stamps;
    unsigned count;
    struct block block[BLOCKS];
    struct sheaf *sheaf; /* of typed[0] */
};

static struct run {
    struct test_heap t;
    enum shape shape;
    unsigned cpus;
    struct kmem_cache *typed[2];
    struct player player[CPUS_MAX];
    void *shared[SHARED]; /* atomic: objects of typed[0] */
} run;

static u32 struck[NR_FAULTS];

/* -- random knobs -- */

static const char *pick(u64 *random, const char *const *from, unsigned n)
{
    return from[test_random(random) % n];
}

#define PICK(...)                                                                                  \
    pick(random, (const char *const[]){__VA_ARGS__},                                               \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void choose_knobs(u64 *random, char *line, size_t size)
{
    const char *front = PICK("bounded", "sheaf", "magazine", "sheaf", "none", "magazine");
    const char *typed = strcmp(front, "none") ? PICK("front", "front", "front", "direct") : NULL;
    char own[160] = "";

    if (!strcmp(front, "bounded"))
        snprintf(own, sizeof(own), "bounded.objects=%s", PICK("1", "2", "32", "256"));
    else if (!strcmp(front, "sheaf"))
        snprintf(own, sizeof(own), "sheaf.cap=%s barn.full=%s barn.empty=%s %s",
                 PICK("0", "1", "3", "60"), PICK("1", "2", "10", "1000"), PICK("0", "1", "10"),
                 !strcmp(typed, "direct")
                     ? "" /* no private sheaf meets a barn */
                     : PICK("prefill.from=slab", "prefill.from=barn barn.partial=off",
                            "prefill.from=barn barn.refill=swap", ""));
    else if (!strcmp(front, "magazine"))
        snprintf(own, sizeof(own), "mag.interval=%s mag.resize=%s", PICK("1", "15s"),
                 PICK("on", "on", "off"));
    if (typed)
        snprintf(own + strlen(own), sizeof(own) - strlen(own), " typed=%s", typed);
    snprintf(line, size,
             "front=%s %s nodes=%s pcp=%s objstate=%s poison=%s slab.min_partial=%s owner=%s "
             "stats.slab=%s",
             front, own, PICK("1", "1", "2", "3"), PICK("off", "on", "on pcp.limits=1/1/1/1/1/1"),
             PICK("header", "header", "side", "off"), PICK("off", "free", "full"),
             PICK("0", "1", "5", "1000"), PICK("tag", "tag", "lock"),
             PICK("percpu", "global", "off"));
}

/* -- blocks and what is in them -- */

static struct player *me(void)
{
    return &run.player[plat_cpu_id()];
}

static u64 dice(unsigned ways)
{
    return test_random(&me()->random) % ways;
}

static void write_stamp(struct block *b)
{
    memcpy(b->p, &b->stamp, sizeof(b->stamp));
    b->p[b->size - 1] = (u8)b->stamp;
}

static void check_stamp(const struct block *b)
{
    EXPECT_MEM(b->p, &b->stamp, sizeof(b->stamp));
    EXPECT_EQ(b->p[b->size - 1], (u8)b->stamp);
}

static void put_back(struct block b, unsigned how)
{
    struct heap *h = run.t.h;
    bool good;

    check_stamp(&b);
    if (b.kind == PAGES)
        good = free_pages(h, b.p, b.order);
    else if (how % 3 == 0 && b.size >= sizeof(struct rcu_head))
        good = heap_kfree_rcu(h, b.p, (struct rcu_head *)(void *)b.p);
    else if (b.kind == KMALLOC || how % 3 == 1)
        good = heap_kfree(h, b.p);
    else
        good = kmem_cache_free(run.typed[b.kind - TYPED_0], b.p);
    EXPECT_TRUE(good);
}

static void keep(void *p, size_t size, enum kind kind, unsigned order)
{
    struct player *w = me();
    struct block b = {p, (u32)size, (u8)kind, (u8)order, 0};

    if (!p)
        return;
    b.stamp = (u64)(plat_cpu_id() + 1) << 40 | ++w->stamps << 8 | (w->stamps & 0xff);
    write_stamp(&b);
    if (w->count == BLOCKS) /* moved to a CPU whose hands are full */
        put_back(b, 1);
    else
        w->block[w->count++] = b;
}

static void free_one(void)
{
    struct player *w = me();
    unsigned at;
    struct block b;

    if (!w->count)
        return;
    at = (unsigned)dice(w->count);
    b = w->block[at];
    w->block[at] = w->block[--w->count];
    put_back(b, (unsigned)dice(6));
}

/* -- calls -- */

static size_t random_size(void)
{
    unsigned how = (unsigned)dice(8);

    if (how < 5)
        return 16 + dice(600);
    return how < 7 ? 16 + dice(KMALLOC_MAX_SMALL) : 8193 + dice(60000);
}

static void alloc_one(void)
{
    size_t size = random_size();
    unsigned order = (unsigned)dice(6), which = (unsigned)dice(2);

    if (me()->count == BLOCKS) {
        free_one();
        return;
    }
    switch (dice(6)) {
    case 0:
    case 1:
        keep(heap_kmalloc(run.t.h, size), size, KMALLOC, 0);
        break;
    case 2:
        keep(alloc_pages(run.t.h, order), PAGE_SIZE << order, PAGES, order);
        break;
    case 3:
        keep(heap_kmalloc_aligned(run.t.h, size, (size_t)16 << dice(9)), size, KMALLOC, 0);
        break;
    default:
        keep(kmem_cache_alloc(run.typed[which]), cache_object_size(run.typed[which]),
             (enum kind)(TYPED_0 + which), 0);
    }
}

static void resize_one(void)
{
    struct player *w = me();
    size_t size = random_size();
    struct block *b;
    u8 *p;

    if (!w->count)
        return;
    b = &w->block[dice(w->count)];
    if (b->kind != KMALLOC)
        return;
    check_stamp(b);
    p = heap_krealloc(run.t.h, b->p, size);
    if (!p)
        return;
    b->p = p;
    b->size = (u32)size;
    EXPECT_MEM(p, &b->stamp, sizeof(b->stamp));
    write_stamp(b);
}

static void in_bulk(void)
{
    struct kmem_cache *c = run.typed[dice(2)];
    unsigned n = 1 + (unsigned)dice(BULK);
    void *p[BULK];

    if (!kmem_cache_alloc_bulk(c, n, p))
        return;
    for (unsigned i = 0; i < n; i++)
        memset(p[i], (int)i, cache_object_size(c));
    for (unsigned i = 0; i < n; i++)
        EXPECT_EQ(((u8 *)p[i])[cache_object_size(c) - 1], (u8)i);
    if (dice(2))
        EXPECT_EQ(kmem_cache_free_bulk(c, n, p), n);
    else
        EXPECT_EQ(heap_kfree_bulk(run.t.h, n, p), n);
}

/* A private sheaf: had, used, filled up, given back; at times a larger one than the cache's sheaves. */
static void with_sheaf(void)
{
    struct kmem_cache *c = run.typed[0];
    struct player *w = me();
    unsigned n = 1 + (unsigned)dice(dice(4) ? 40 : 300);

    if (!w->sheaf) {
        w->sheaf = kmem_cache_prefill_sheaf(c, n);
        EXPECT_TRUE(!w->sheaf || kmem_cache_sheaf_size(w->sheaf) >= n);
        return;
    }
    switch (dice(5)) {
    case 0:
        kmem_cache_return_sheaf(c, w->sheaf);
        w->sheaf = NULL;
        break;
    case 1:
        n = kmem_cache_refill_sheaf(c, &w->sheaf, n) ? n : 0;
        EXPECT_GE(kmem_cache_sheaf_size(w->sheaf), n);
        break;
    default:
        while (w->count < BLOCKS && kmem_cache_sheaf_size(w->sheaf) && dice(4)) {
            void *p = kmem_cache_alloc_from_sheaf(c, w->sheaf);

            EXPECT_TRUE(p != NULL);
            keep(p, cache_object_size(c), TYPED_0, 0);
        }
    }
}

/* Freed by whoever comes next, on whichever CPU. */
static void hand_over(void)
{
    void *p = kmem_cache_alloc(run.typed[0]);

    if (!p)
        return;
    *((u64 *)p + 2) = ~(u64)(uintptr_t)p;
    p = __atomic_exchange_n(&run.shared[dice(SHARED)], p, __ATOMIC_ACQ_REL);
    if (!p)
        return;
    EXPECT_EQ(*((u64 *)p + 2), ~(u64)(uintptr_t)p);
    EXPECT_TRUE(dice(2) ? heap_kfree_rcu(run.t.h, p, p) : kmem_cache_free(run.typed[0], p));
}

/* -- faults -- */

static void note_struck(enum fault f)
{
    __atomic_add_fetch(&struck[f], fault_struck(f), __ATOMIC_RELAXED);
}

static void arm_one(void)
{
    enum fault f = (enum fault)dice(NR_FAULTS);

    if (f == FAULT_migrated && run.shape != PLAYED)
        return;
    if (f == FAULT_no_wait && run.shape == PLAYED)
        return; /* armed for good */
    note_struck(f);
    fault_arm(f, (u32)dice(12), 1 + (u32)dice(6));
}

static void disarm_all(void)
{
    for (unsigned f = 0; f < NR_FAULTS; f++) {
        note_struck((enum fault)f);
        fault_arm((enum fault)f, 0, 0);
    }
}

/* FAULT_migrated, as it is on a kernel whose threads may move: the rest of the call runs elsewhere. */
static void migrate(void)
{
    host_cpu_id = (host_cpu_id + 1) % run.cpus;
}

/* -- a run -- */

static void step(void)
{
    switch (dice(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        alloc_one();
        break;
    case 5:
    case 6:
    case 7:
        free_one();
        break;
    case 8:
        in_bulk();
        break;
    case 9:
    case 10:
    case 11:
        with_sheaf();
        break;
    case 12:
        resize_one();
        break;
    case 13:
    case 14:
        hand_over();
        break;
    default:
        arm_one();
    }
}

static void seldom(unsigned i)
{
    if (i % 64 == 17)
        kmem_cache_shrink(run.typed[dice(2)]);
    if (i % 128 == 77)
        heap_drain_this_cpu(run.t.h);
    if (i % 128 == 99)
        heap_maintain(run.t.h);
    /* Everything goes, so that memory is all classes' again. */
    if (i % 200 == 199)
        while (me()->count)
            free_one();
}

/* Short of memory in earnest: one in four runs. */
static void hog(void)
{
    while (me()->count < BLOCKS) {
        unsigned order = 4 + (unsigned)dice(3);
        void *p = alloc_pages(run.t.h, order);

        if (!p)
            return;
        keep(p, PAGE_SIZE << order, PAGES, order);
    }
}

static void play(void *arg)
{
    bool hungry = *(const bool *)arg;

    for (unsigned i = 0; i < STEPS; i++) {
        if (run.shape == PLAYED)
            host_cpu_id = i / 3 % run.cpus;
        step();
        seldom(i);
        if (hungry && i % 150 == 50)
            hog();
        rcu_quiescent();
    }
    if (run.shape == PLAYED)
        host_cpu_id = 0;
}

static void tidy_up(struct player *w)
{
    while (w->count)
        put_back(w->block[--w->count], w->count);
    if (w->sheaf)
        kmem_cache_return_sheaf(run.typed[0], w->sheaf);
    w->sheaf = NULL;
}

static void drain_here(void *heap)
{
    heap_drain_this_cpu(heap);
}

/* Free pages when nobody has anything, and those of the front end's own blocks: in which slabs they lie, and
 * so how many, is chance. */
static u64 pages_at_rest(struct heap *h)
{
    u64 pages;

    plat_run_on_cpus(plat_all_cpus(), drain_here, h);
    heap_kfree_rcu_barrier(h);
    plat_run_on_cpus(plat_all_cpus(), drain_here, h);
    heap_reclaim(h);
    pcp_drain_all(h);
    pages = heap_pages_free(h);
    for (unsigned i = 0; i < SHEAF_POOLS; i++)
        for (unsigned node = 0; node < h->nodes && h->pools; node++)
            pages += h->sheaf_pool[i].node[node].slabs << h->sheaf_pool[i].order;
    return pages;
}

/* Requests that nobody served, since no other CPU was there. */
static void serve_here(void *heap)
{
    heap_drain_serve(heap);
}

static void nothing_is_lost(void)
{
    struct heap *h = run.t.h;

    EXPECT_TRUE(heap_good(&run.t));
    heap_kfree_rcu_barrier(h);
    for (unsigned i = 0; i < heap_cache_count(h); i++) {
        struct balance b;

        cache_balance(heap_cache(h, i), &b);
        EXPECT_TRUE(b.holds);
        EXPECT_EQ(b.rcu, 0u);
        EXPECT_EQ(b.prefilled, 0u);
        if (!cache_is_internal(heap_cache(h, i)))
            EXPECT_EQ(b.in_use, 0u);
    }
    for (unsigned k = BADFREE_NONE + 1; k < NR_BADFREE_KINDS; k++)
        EXPECT_EQ(heap_badfree_count(h, (enum badfree_kind)k), 0u);
    EXPECT_TRUE(heap_good(&run.t));
}

static bool make_caches(void)
{
    static const struct kmem_cache_args args[] = {{"node", 256, 0, NULL, NULL, 32},
                                                  {"name", 40, 0, NULL, NULL, 0}};

    for (unsigned i = 0; i < 2; i++) {
        run.typed[i] = kmem_cache_create(run.t.h, &args[i]);
        if (!run.typed[i])
            return false;
    }
    return true;
}

static void one_run(u64 seed)
{
    u64 random = seed * 0x9e3779b97f4a7c15u | 1, pages;
    char line[400];
    bool hungry;

    memset(&run, 0, sizeof(run));
    test_random(&random);
    choose_knobs(&random, line, sizeof(line));
    run.shape = (enum shape)(test_random(&random) % 3);
    run.cpus = run.shape == SOLO ? 1 : 2 + (unsigned)(test_random(&random) % (CPUS_MAX - 1));
    hungry = test_random(&random) % 4 == 0;
    printf("run --seed %llu: %s of %u, %s%s\n", (unsigned long long)seed,
           ((const char *const[]){"solo", "played", "crowd"})[run.shape], run.cpus,
           hungry ? "hungry, " : "", line);
    for (unsigned i = 0; i < run.cpus; i++)
        run.player[i].random = test_random(&random) | 1;

    REQUIRE(heap_new(&run.t, line, MIB, run.cpus));
    REQUIRE(make_caches());
    pages = pages_at_rest(run.t.h);
    if (run.shape == PLAYED) { /* the other CPUs' threads have nothing to do with it */
        host_test_heap(NULL);
        fault_arm(FAULT_no_wait, 0, ~0u);
        fault_migrate_by(migrate);
    }
    if (run.shape == CROWD)
        plat_run_on_cpus(plat_all_cpus(), play, &hungry);
    else
        play(&hungry);
    fault_migrate_by(NULL);
    disarm_all();

    for (unsigned i = 0; i < run.cpus; i++)
        tidy_up(&run.player[i]);
    for (unsigned i = 0; i < SHARED; i++)
        if (run.shared[i])
            EXPECT_TRUE(kmem_cache_free(run.typed[0], run.shared[i]));
    plat_run_on_cpus(plat_all_cpus(), serve_here, run.t.h);
    nothing_is_lost();
    for (unsigned i = 0; i < 2; i++)
        EXPECT_TRUE(kmem_cache_destroy(run.typed[i], NULL));
    EXPECT_EQ(pages_at_rest(run.t.h), pages);
    heap_delete(&run.t);
}

static unsigned runs_wanted(void)
{
    const char *runs = getenv("HAYLOFT_RUNS"), *thorough = getenv("HAYLOFT_LONG");

    if (test_seed_given())
        return 1;
    if (runs && *runs)
        return (unsigned)strtoul(runs, NULL, 0);
    return thorough && *thorough ? 5000 : 100;
}

TEST(random_runs_lose_nothing)
{
    u64 seed = test_seed() + (test_has_asan() || test_seed_given() ? 0 : 1000000);
    unsigned runs = runs_wanted();

    memset(struck, 0, sizeof(struck));
    for (unsigned i = 0; i < runs; i++)
        one_run(seed + i);
    if (runs < 100)
        return;
    for (unsigned f = 0; f < NR_FAULTS; f++) /* each was met */
        EXPECT_GT(struck[f], 0u);
}
