/* tests.c: the table of all workloads, and which of them tests= chooses. A test's id is its place
 * here.
 *
 * Locking: none, constant. Contexts: any. */
#include "bench.h"
#include "ring.h"
#include "../../base/fmt.h"
#include "../../base/string.h"

#define MALLOC(size)                                                                               \
    {.name = "malloc/" #size "/solo", .run = malloc_run, .bytes = (size)},                         \
    {                                                                                              \
        .name = "malloc/" #size "/all-cpus", .run = malloc_run, .bytes = (size), .cpus = BENCH_ALL \
    }

#define BATCH_HALF(size, half, which)                                                              \
    {                                                                                              \
        .name = "batch/" #size half, .run = batch_run, .bytes = (size), .kind = (which),           \
        .cpus = BENCH_ALL, .cpu_data = BATCH_OBJECTS * sizeof(void *), .setup = batch_setup        \
    }
#define BATCH(size) BATCH_HALF(size, "/alloc", BATCH_ALLOC), BATCH_HALF(size, "/free", BATCH_FREE)

#define REMOTE_SHAPE(size, shape, which, where)                                                    \
    {                                                                                              \
        .name = "remote/" #size shape, .run = remote_run, .bytes = (size), .kind = (which),        \
        .cpus = (where), .min_cpus = 2, .cpu_data = sizeof(struct ring)                            \
    }
#define REMOTE(size)                                                                               \
    REMOTE_SHAPE(size, "/one-to-one", REMOTE_ONE_TO_ONE, BENCH_PAIR),                              \
        REMOTE_SHAPE(size, "/many-to-one", REMOTE_MANY_TO_ONE, BENCH_ALL),                         \
        REMOTE_SHAPE(size, "/one-to-many", REMOTE_ONE_TO_MANY, BENCH_ALL)

#define TYPED(type, which)                                                                         \
    {                                                                                              \
        .name = "typed/" type, .run = typed_run, .kind = (which), .cpus = BENCH_ALL,               \
        .setup = typed_setup, .teardown = typed_teardown                                           \
    }

#define MAPLE(shape, which, where)                                                                 \
    {                                                                                              \
        .name = "maple/" shape, .run = maple_run, .kind = (which), .cpus = (where),                \
        .cpu_data = MAPLE_NODES * sizeof(void *), .setup = maple_setup, .teardown = maple_teardown \
    }

#define OPEN(shape, where)                                                                         \
    {                                                                                              \
        .name = "open/" shape, .run = open_run, .cpus = (where), .setup = open_setup,              \
        .teardown = open_teardown                                                                  \
    }

#define BLOAT(shape, which)                                                                        \
    {                                                                                              \
        .name = "rcu-bloat/" shape, .run = bloat_run, .kind = (which), .cpus = BENCH_ALL,          \
        .min_cpus = 2, .setup = bloat_setup, .teardown = bloat_teardown                            \
    }

#define PAGES(order)                                                                               \
    {.name = "pages/" #order "/solo", .run = pages_run, .kind = (order)},                          \
    {                                                                                              \
        .name = "pages/" #order "/all-cpus", .run = pages_run, .kind = (order), .cpus = BENCH_ALL  \
    }

const struct bench_test bench_tests[] = {
    /* the classes of kmalloc */
    MALLOC(16),
    MALLOC(32),
    MALLOC(64),
    MALLOC(96),
    MALLOC(128),
    MALLOC(192),
    MALLOC(256),
    MALLOC(384),
    MALLOC(512),
    MALLOC(768),
    MALLOC(1024),
    MALLOC(1536),
    MALLOC(2048),
    MALLOC(3072),
    MALLOC(4096),
    MALLOC(6144),
    MALLOC(8192),
    /* straight from pages */
    MALLOC(65536),
    MALLOC(131072),
    /* the rest of the kernel */
    {.name = "yield/solo", .run = yield_run, .needs_scheduler = true},
    /* many objects at once */
    BATCH(16),
    BATCH(32),
    BATCH(64),
    BATCH(96),
    BATCH(128),
    BATCH(192),
    BATCH(256),
    BATCH(384),
    BATCH(512),
    BATCH(768),
    BATCH(1024),
    BATCH(1536),
    BATCH(2048),
    BATCH(3072),
    BATCH(4096),
    BATCH(6144),
    BATCH(8192),
    BATCH(65536),
    BATCH(131072),
    /* freed by another CPU */
    REMOTE(64),
    REMOTE(256),
    REMOTE(1024),
    REMOTE(4096),
    REMOTE(65536),
    /* with a constructor */
    TYPED("node", TYPED_NODE),
    TYPED("dentry", TYPED_DENTRY),
    TYPED("inode", TYPED_INODE),
    /* the page allocator alone */
    PAGES(0),
    PAGES(1),
    PAGES(2),
    PAGES(3),
    PAGES(4),
    PAGES(5),
    /* the shapes of the classic suites */
    {.name = "larson",
     .run = larson_run,
     .cpus = BENCH_ALL,
     .cpu_data = LARSON_SLOTS * sizeof(void *),
     .setup = larson_setup,
     .teardown = larson_teardown},
    {.name = "xmalloc",
     .run = xmalloc_run,
     .cpus = BENCH_ALL,
     .min_cpus = 2,
     .cpu_data = sizeof(struct ring)},
    {.name = "threadtest",
     .run = threadtest_run,
     .cpus = BENCH_ALL,
     .cpu_data = THREADTEST_OBJECTS * sizeof(void *)},
    {.name = "mstress",
     .run = mstress_run,
     .cpus = BENCH_ALL,
     .cpu_data = MSTRESS_SLOTS * sizeof(void *)},
    {.name = "cache-scratch", .run = scratch_run, .cpus = BENCH_ALL, .cpu_data = sizeof(void *)},
    /* a tree's nodes: fetched beforehand, freed by kfree_rcu */
    MAPLE("solo", MAPLE_PLACE, BENCH_SOLO),
    MAPLE("all-cpus", MAPLE_PLACE, BENCH_ALL),
    MAPLE("scattered/solo", MAPLE_SCATTERED, BENCH_SOLO),
    MAPLE("scattered/all-cpus", MAPLE_SCATTERED, BENCH_ALL),
    /* two caches that take turns */
    OPEN("solo", BENCH_SOLO),
    OPEN("all-cpus", BENCH_ALL),
    /* kfree_rcu at full rate, with a CPU that reads for long and without */
    BLOAT("free", BLOAT_FREE),
    BLOAT("held", BLOAT_HELD),
};
const unsigned bench_test_count = ARRAY_SIZE(bench_tests);
_Static_assert(ARRAY_SIZE(bench_tests) <= BENCH_TESTS_MAX, "the laboratory keeps a mark for each");

const char *bench_skip_reason(const struct bench_test *test)
{
    if (test->needs_scheduler && !kernel_hooks.yield)
        return "needs the scheduler";
    return plat_cpu_count() < test->min_cpus ? "needs two CPUs" : NULL;
}

u64 bench_mask(const struct bench_test *test)
{
    unsigned cpus = plat_cpu_count();

    if (test->cpus == BENCH_ALL)
        return plat_all_cpus();
    if (test->cpus == BENCH_PAIR && cpus >= 2)
        return (u64)3 << (cpus - 2);
    return (u64)1 << (cpus - 1);
}

static bool matches_any(const char *pattern)
{
    for (unsigned i = 0; i < bench_test_count; i++)
        if (knobs_test_match(pattern, bench_tests[i].name))
            return true;
    return false;
}

/* The nearest name, or as many of its leading parts, since malloc/64 is a pattern too. */
static void nearest_test(const char *pattern, char *out, size_t bytes)
{
    unsigned best = ~0u;

    for (unsigned i = 0; i < bench_test_count; i++) {
        const char *name = bench_tests[i].name;

        for (size_t n = 1; n <= strlen(name); n++) {
            unsigned d;

            if (name[n] && name[n] != '/')
                continue;
            d = knobs_distance(name, n, pattern);
            if (d < best) {
                best = d;
                fmt(out, bytes, "%.*s", (int)n, name);
            }
        }
    }
}

static void refuse_pattern(const char *pattern, struct knob_refusals *r)
{
    struct knob_refusal *e;

    if (r->count++ >= KNOB_REFUSALS)
        return;
    e = &r->at[r->count - 1];
    fmt_mark_cut(e->argument, sizeof(e->argument),
                 fmt(e->argument, sizeof(e->argument), "tests=%s", pattern));
    text_copy(e->reason, sizeof(e->reason), "no test has such a name");
    nearest_test(pattern, e->nearest, sizeof(e->nearest));
}

bool bench_check_patterns(const char *patterns, struct knob_refusals *r)
{
    char one[sizeof(knobs.tests)];
    bool fine = true;

    for (const char *p = patterns; *p;) {
        size_t n = 0;

        while (p[n] && p[n] != ',')
            n++;
        CHECK_VALUES(n < sizeof(one), n, sizeof(one)); /* a part of tests=, which fits */
        memcpy(one, p, n);
        one[n] = 0;
        if (!matches_any(one)) {
            refuse_pattern(one, r);
            fine = false;
        }
        p += n + (p[n] == ',');
    }
    return fine;
}
