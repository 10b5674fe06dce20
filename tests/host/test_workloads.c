/* test_workloads.c: every workload, short of memory at every place where it may be: in its setup, its warm-up and
 * its section, on one CPU and on several, once and for good.
 *
 * A run is made of its seed: knobs, CPUs, how much memory there is, and for each workload which faults
 * (mm/fault_impl.h) strike when. Whatever happens, a round ends well or is short, never wrong; afterwards no object is
 * out, every page is back, and the same workload with memory at hand ends well. The last lines of a test that
 * stopped name the run:
 *
 *     build/host-asan/tests/test_workloads random_shortages --seed SEED          (or host-tsan)
 *
 * HAYLOFT_RUNS=N asks for another number of runs.
 *
 * That a shortage excuses nothing is shown with workloads of this file's own, which do wrong.
 *
 * Locking: none; the workloads run as in the kernel, one round at a time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>

#include "../../kernel/bench/bench.h"
#include "../../mm/fault_impl.h"
#include "heap_fixture.h"
#include "wire_reader.h"

#define CPUS_MAX 4u
#define RUNS     32u

/* -- a laboratory -- */

static struct test_heap fixture;
static struct lock_row
    lock_rows[MAX_LOCKS * CPUS_MAX]; /* outlives each heap: locks point into it */

static void (*hear)(const char *line);

/* What the console is told is nobody's business, but of those who listen. */
void klog(const char *format, ...)
{
    char line[320];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (hear)
        hear(line);
}

/* file: where records go; -1: nowhere. */
static bool lab_new(const char *line, unsigned mib, unsigned cpus, int file)
{
    if (!heap_new(&fixture, line, mib, cpus))
        return false;
    kheap = fixture.h;
    knobs = fixture.knobs;
    memset(lock_rows, 0, sizeof(lock_rows));
    lockstat_init(&knobs, cpus, lock_rows);
    if (file < 0)
        file = open("/dev/null", O_WRONLY);
    port[0] = file;
    host_sink_set(file);
    wired = records = 0;
    return file >= 0 && telemetry_init();
}

static void lab_delete(void)
{
    telemetry_sampling(false);
    telemetry.active = false;
    host_sink_set(-1);
    close(port[0]);
    heap_delete(&fixture);
}

static void drain_here(void *heap)
{
    heap_drain_this_cpu(heap);
}

static unsigned pages_of(size_t bytes)
{
    unsigned order = 0;

    while (PAGE_SIZE << order < bytes)
        order++;
    return 1u << order;
}

/* Free pages when nobody has anything, those of the front end's own blocks, and of the caches that were made on the
 * way and stay for their next life. */
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
    for (unsigned i = KMALLOC_CLASSES; i < heap_cache_count(h); i++)
        if (h->cache[i] && !cache_is_internal(h->cache[i]))
            pages += pages_of(sizeof(struct kmem_cache));
    return pages;
}

static void nothing_is_lost(u64 pages)
{
    struct heap *h = fixture.h;

    EXPECT_EQ(pages_at_rest(h), pages);
    for (unsigned i = 0; i < heap_cache_count(h); i++) {
        struct balance b;

        if (!heap_cache(h, i)) /* dead, so nothing is out */
            continue;
        cache_balance(heap_cache(h, i), &b);
        EXPECT_TRUE(b.holds);
        EXPECT_EQ(b.rcu, 0u);
        EXPECT_EQ(b.prefilled, 0u);
        if (!cache_is_internal(heap_cache(h, i)))
            EXPECT_EQ(b.in_use, 0u);
    }
    for (unsigned k = BADFREE_NONE + 1; k < NR_BADFREE_KINDS; k++)
        EXPECT_EQ(heap_badfree_count(h, (enum badfree_kind)k), 0u);
    EXPECT_TRUE(heap_good(&fixture));
}

/* -- random shortages -- */

static unsigned ends[3], short_in[BENCH_TESTS_MAX];

static const char *pick(u64 *random, const char *const *from, unsigned n)
{
    return from[test_random(random) % n];
}

#define PICK(...)                                                                                  \
    pick(random, (const char *const[]){__VA_ARGS__},                                               \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void choose_knobs(u64 *random, unsigned most_nodes, char *line, size_t size)
{
    snprintf(
        line, size,
        "front=%s nodes=%s pcp=%s objstate=%s poison=%s slab.min_partial=%s stats.slab=%s "
        "kbench=1 %s",
        PICK("bounded", "sheaf", "magazine", "sheaf prefill.from=slab", "none"),
        most_nodes > 1 ? PICK("1", "1", "2") : "1", PICK("off", "on"),
        PICK("header", "side", "off"), PICK("off", "free", "full"), PICK("0", "5", "1000"),
        PICK("percpu", "global", "off"),
        PICK("kbench.ops=40", "kbench.ops=700", "kbench.ops=3000", "kbench.ms=1", "kbench.ms=4"));
}

/* How many pages a workload asks for in all is a few to some thousand, so chances are even over the magnitude. */
static void arm(u64 *random)
{
    static const enum fault small[] = {FAULT_no_sheaf, FAULT_refill_half, FAULT_barn_full,
                                       FAULT_no_empty, FAULT_depot_busy,  FAULT_pcp_busy};
    u32 after = (u32)(test_random(random) % (2u << test_random(random) % 12));
    u32 times = test_random(random) % 3 ? ~0u : 1 + (u32)(test_random(random) % 20);

    fault_arm(FAULT_page, after, times);
    if (test_random(random) % 2)
        fault_arm(small[test_random(random) % ARRAY_SIZE(small)], (u32)(test_random(random) % 12),
                  1 + (u32)(test_random(random) % 6));
}

static void disarm_all(void)
{
    for (unsigned f = 0; f < NR_FAULTS; f++)
        fault_arm((enum fault)f, 0, 0);
}

static void expect_good_end(const struct bench_end *end, unsigned id, u64 pages)
{
    u64 memory = pages * PAGE_SIZE;

    ends[end->how]++;
    if (end->how == BENCH_WRONG)
        printf("  %s: %s\n", bench_tests[id].name, end->why);
    EXPECT_NE((unsigned)end->how, (unsigned)BENCH_WRONG);
    if (end->how != BENCH_SHORT)
        return;
    short_in[id]++;
    EXPECT_LE(end->shortage.held, end->shortage.had);
    EXPECT_LE(end->shortage.had, memory);
    EXPECT_GT(end->shortage.had, 0u);
}

/* With faults, then without: what a shortage left behind must not spoil the next round. */
static void one_workload(u64 *random, unsigned id, bool small, u64 pages)
{
    struct bench_end end;

    if (bench_skip_reason(&bench_tests[id]))
        return;
    if (!small)
        arm(random);
    end = bench_round_run(&bench_tests[id], id, 0);
    disarm_all();
    expect_good_end(&end, id, pages);
    nothing_is_lost(pages);
    if (end.how == BENCH_OK || small)
        return;
    end = bench_round_run(&bench_tests[id], id, 1);
    if (end.how != BENCH_OK)
        printf("  %s, again: %s\n", bench_tests[id].name, end.why);
    EXPECT_EQ((unsigned)end.how, (unsigned)BENCH_OK);
    nothing_is_lost(pages);
}

static void one_run(u64 seed)
{
    u64 random = seed * 0x9e3779b97f4a7c15u | 1, pages;
    unsigned cpus, mib, step;
    char line[400];
    bool small;

    test_random(&random);
    cpus = 1 + (unsigned)(test_random(&random) % CPUS_MAX);
    small = test_random(&random) % 3 == 0;
    /* Small: the heap fits, on one node, and not much else. Else all that any workload may hold at once. */
    mib = small ? 9 + (unsigned)(test_random(&random) % 5) : 112;
    choose_knobs(&random, small ? 1 : cpus, line, sizeof(line));
    printf("run --seed %llu: %u CPUs, %u MiB, %s\n", (unsigned long long)seed, cpus, mib, line);
    REQUIRE(lab_new(line, mib, cpus, -1));
    pages = pages_at_rest(fixture.h);
    step = 5 + (unsigned)(test_random(&random) % 5);
    for (unsigned id = (unsigned)(test_random(&random) % step); id < bench_test_count; id += step)
        one_workload(&random, id, small, pages);
    lab_delete();
}

static unsigned runs_wanted(void)
{
    const char *runs = getenv("HAYLOFT_RUNS"), *thorough = getenv("HAYLOFT_LONG");

    if (test_seed_given())
        return 1;
    if (runs && *runs)
        return (unsigned)strtoul(runs, NULL, 0);
    return thorough && *thorough ? 2000 : test_has_asan() ? RUNS : RUNS / 4;
}

TEST(random_shortages)
{
    u64 seed = test_seed() + (test_has_asan() || test_seed_given() ? 0 : 1000000);
    unsigned runs = runs_wanted(), met = 0;

    memset(ends, 0, sizeof(ends));
    memset(short_in, 0, sizeof(short_in));
    for (unsigned i = 0; i < runs; i++)
        one_run(seed + i);
    for (unsigned id = 0; id < bench_test_count; id++)
        met += short_in[id] != 0;
    printf("  %u rounds ended well, %u were short, of %u workloads\n", ends[BENCH_OK],
           ends[BENCH_SHORT], met);
    if (runs < RUNS / 4)
        return;
    EXPECT_GT(ends[BENCH_OK], runs);
    EXPECT_GT(ends[BENCH_SHORT], runs);
    EXPECT_GT(met, bench_test_count / 4);
}

/* -- what a shortage does not excuse -- */

#define OBJECTS 50u

static void *stolen;
static unsigned goes;

enum wrong { NOTHING, LEAKS, CLAIMS_TOO_LITTLE, CLAIMS_TOO_MUCH, DAMAGES, LEAKS_IN_THE_WARM_UP };

/* Allocates and frees, and is wrong as its kind says; then it is short, if it is told to (bytes). */
static void wrong_run(const struct bench_test *test, struct bench_round *round,
                      struct bench_cpu *me)
{
    bool leaks = test->kind == LEAKS || (test->kind == LEAKS_IN_THE_WARM_UP && goes == 0);

    bench_start(round, me);
    for (unsigned i = 0; i < OBJECTS; i++) {
        void *p = bench_take(me, 64);

        if (leaks && i == 7)
            stolen = p;
        else
            bench_give(me, p);
    }
    me->operations = OBJECTS;
    me->allocs += test->kind == CLAIMS_TOO_MUCH;
    me->allocs -= test->kind == CLAIMS_TOO_LITTLE;
    me->frees += test->kind == CLAIMS_TOO_MUCH;
    me->frees -= test->kind == CLAIMS_TOO_LITTLE;
    me->damaged = test->kind == DAMAGES;
    if (test->bytes)
        bench_short(me, test->bytes);
    bench_stop(me);
    goes++;
}

static struct bench_end end_of(enum wrong wrong, size_t short_of)
{
    const struct bench_test test = {
        .name = "wrong", .run = wrong_run, .kind = wrong, .bytes = short_of};
    struct bench_end end;

    goes = 0;
    stolen = NULL;
    end = bench_round_run(&test, 0, 0);
    kfree(stolen);
    return end;
}

static void expect_wrong(enum wrong wrong, size_t short_of, const char *why)
{
    struct bench_end end = end_of(wrong, short_of);

    EXPECT_EQ((unsigned)end.how, (unsigned)BENCH_WRONG);
    EXPECT_STR(end.why ? end.why : "", why);
}

TEST(a_shortage_excuses_nothing)
{
    const char *kept = "the workload kept memory";
    const char *other = "the allocator counted other calls than the workload claims";

    REQUIRE(lab_new("kbench=1 kbench.ms=1", 32, 2, -1));
    EXPECT_EQ((unsigned)end_of(NOTHING, 0).how, (unsigned)BENCH_OK);
    EXPECT_EQ((unsigned)end_of(NOTHING, 64).how, (unsigned)BENCH_SHORT);
    for (size_t short_of = 0; short_of <= 64; short_of += 64) {
        expect_wrong(LEAKS, short_of, kept);
        expect_wrong(CLAIMS_TOO_LITTLE, short_of, other);
        expect_wrong(CLAIMS_TOO_MUCH, short_of, other);
        expect_wrong(DAMAGES, short_of, "an object did not hold what was written to it");
        expect_wrong(LEAKS_IN_THE_WARM_UP, short_of, kept);
    }
    lab_delete();
}

/* Kept at its close, short or not: the cache that it should have given back has an object out. */
static struct kmem_cache *kept_cache;
static void *kept_object;

static const char *keeper_setup(const struct bench_test *test, struct bench_round *round)
{
    const struct kmem_cache_args args = {.name = "keeper", .size = 64};

    (void)test;
    (void)round;
    kept_cache = kmem_cache_create(kheap, &args);
    kept_object = kmem_cache_alloc(kept_cache);
    return NULL;
}

static const char *keeper_teardown(const struct bench_test *test, struct bench_round *round)
{
    (void)test;
    (void)round;
    return kmem_cache_destroy(kept_cache, NULL) ? NULL : "the cache was busy at the end";
}

TEST(what_a_close_finds_wrong_counts_more_than_a_shortage)
{
    struct bench_test test = {.name = "keeper",
                              .run = wrong_run,
                              .kind = NOTHING,
                              .setup = keeper_setup,
                              .teardown = keeper_teardown};

    REQUIRE(lab_new("kbench=1 kbench.ms=1", 32, 2, -1));
    for (test.bytes = 0; test.bytes <= 64; test.bytes += 64) {
        struct bench_end end = bench_round_run(&test, 0, 0);

        EXPECT_EQ((unsigned)end.how, (unsigned)BENCH_WRONG);
        EXPECT_STR(end.why ? end.why : "", "the cache was busy at the end");
        EXPECT_TRUE(kmem_cache_free(kept_cache, kept_object));
        EXPECT_TRUE(kmem_cache_destroy(kept_cache, NULL));
    }
    lab_delete();
}

/* -- what is told -- */

/* Short in the section and not before it. */
static void late_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    (void)test;
    bench_start(round, me);
    bench_give(me, bench_take(me, 64));
    me->operations = 1;
    if (goes++)
        bench_short(me, 3 * PAGE_SIZE);
    bench_stop(me);
}

static unsigned results_told(void)
{
    unsigned n = 0;

    telemetry_flush();
    lseek(port[0], 0, SEEK_SET);
    wired = 0;
    read_all();
    for (unsigned i = 0; i < records; i++)
        n += got[i].type == RECORD_BENCH && field_is(&got[i], "phase", "result");
    return n;
}

TEST(a_short_round_has_no_result)
{
    static const struct bench_test late = {.name = "late", .run = late_run};
    struct bench_end end;

    REQUIRE(lab_new("kbench=1 kbench.ms=1", 32, 2, memfd_create("records", 0)));
    EXPECT_EQ((unsigned)end_of(NOTHING, 0).how, (unsigned)BENCH_OK);
    EXPECT_EQ(results_told(), 1u);
    goes = 0;
    end = bench_round_run(&late, 1, 0);
    EXPECT_EQ((unsigned)end.how, (unsigned)BENCH_SHORT);
    EXPECT_EQ(end.shortage.asked, 3u * PAGE_SIZE);
    EXPECT_EQ(results_told(), 1u);
    lab_delete();
}

TEST(the_object_of_a_short_test_tells_its_figures)
{
    const struct telemetry_shortage s = {5, 65536, 123456, 654321};
    const struct telemetry_test about = {
        .id = 3, .name = "x", .unit = "ns/op", .skip = "why", .shortage = &s};
    const struct record *r;
    size_t at;

    REQUIRE(lab_new("kbench=1", 32, 1, memfd_create("records", 0)));
    telemetry_test(&about);
    (void)results_told();
    r = last_of(RECORD_OBJECT);
    REQUIRE(r != NULL);
    EXPECT_TRUE(field_is(r, "skip", "why"));
    EXPECT_EQ(field(r, "shortage"), 4u); /* pairs */
    at = find(r, "shortage") + 1;
    for (unsigned i = 0; i < 4; i++) {
        static const char *const names[] = {"round", "asked", "held", "had"};
        const u64 values[] = {s.round, s.asked, s.held, s.had};
        u64 n = number(&at);

        EXPECT_EQ(n, strlen(names[i]));
        EXPECT_MEM(text + at, names[i], n);
        at += n;
        EXPECT_EQ(number(&at), values[i]);
    }
    EXPECT_EQ(at, r->end);
    lab_delete();
}

/* -- a session -- */

/* Memory is short for the rest of round 2, from the end of malloc/64 on. */
static void short_in_round_2(const char *line)
{
    if (strstr(line, "malloc/64/solo round 2:"))
        fault_arm(FAULT_page, 0, ~0u);
    if (strstr(line, "skipped: "))
        fault_arm(FAULT_page, 0, 0);
}

static unsigned results_of(u64 test)
{
    unsigned n = 0;

    for (unsigned i = 0; i < records; i++)
        n += got[i].type == RECORD_BENCH && field_is(&got[i], "phase", "result") &&
             field(&got[i], "test") == test;
    return n;
}

static const struct record *skipped_object(void)
{
    for (unsigned i = 0; i < records; i++)
        if (got[i].type == RECORD_OBJECT && find(&got[i], "shortage"))
            return &got[i];
    return NULL;
}

static bool text_has(const struct record *r, const char *key, const char *part)
{
    size_t at = find(r, key);
    u64 n = at ? number(&at) : 0;

    return n && memmem(text + at, n, part, strlen(part));
}

static unsigned id_of(const char *name)
{
    unsigned id = 0;

    while (strcmp(bench_tests[id].name, name) != 0)
        id++;
    return id;
}

/* The last test: the laboratory marks what was short for good. */
TEST(a_session_goes_on_without_a_test_that_was_short)
{
    static struct bootinfo info = {.platform = "host",
                                   .args = "",
                                   .hypervisor = "",
                                   .cpus_found = 2,
                                   .cpus = 2,
                                   .cpu = {{.started = true}, {.started = true}}};
    const struct record *r;

    REQUIRE(lab_new("kbench=4 kbench.ms=1 "
                    "tests=malloc/64/solo,malloc/65536/solo,malloc/131072/solo selfcheck=1 pcp=off",
                    32, 2, memfd_create("records", 0)));
    hear = short_in_round_2;
    EXPECT_EQ((unsigned)lab_run(&info), (unsigned)PLAT_EXIT_OK);
    hear = NULL;
    lseek(port[0], 0, SEEK_SET);
    read_all();
    EXPECT_EQ(results_of(id_of("malloc/64/solo")), 4u);
    EXPECT_EQ(results_of(id_of("malloc/65536/solo")), 2u);
    EXPECT_EQ(results_of(id_of("malloc/131072/solo")), 4u);
    r = skipped_object();
    REQUIRE(r != NULL);
    EXPECT_EQ(field(r, "id"), id_of("malloc/65536/solo"));
    EXPECT_TRUE(text_has(r, "skip", "short of memory in round 2 (wanted 65536 bytes on top of"));
    EXPECT_TRUE(text_has(r, "skip", "; its 2 rounds before do not count"));
    EXPECT_TRUE(field_is(last_of(RECORD_BYE), "outcome", "ok"));
    expect_streams_whole(0);
    lab_delete();
}
