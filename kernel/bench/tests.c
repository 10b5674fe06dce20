/* tests.c: the table of all workloads (tests.def), and which of them tests= chooses.
 *
 * Locking: none, constant. Contexts: any. */
#include "bench.h"
#include "ring.h"
#include "../../base/fmt.h"
#include "../../base/string.h"

#define MALLOC(size)                                                                               \
    TEST("malloc/" #size "/solo", .run = malloc_run, .bytes = (size))                              \
    TEST("malloc/" #size "/all-cpus", .run = malloc_run, .bytes = (size), .cpus = BENCH_ALL)

#define BATCH_HALF(size, half, which)                                                              \
    TEST("batch/" #size half, .run = batch_run, .bytes = (size), .kind = (which),                  \
         .cpus = BENCH_ALL, .cpu_data = BATCH_OBJECTS * sizeof(void *), .setup = batch_setup)
#define BATCH(size) BATCH_HALF(size, "/alloc", BATCH_ALLOC) BATCH_HALF(size, "/free", BATCH_FREE)

#define REMOTE_SHAPE(size, shape, which, where)                                                    \
    TEST("remote/" #size shape, .run = remote_run, .bytes = (size), .kind = (which),               \
         .cpus = (where), .min_cpus = 2, .cpu_data = sizeof(struct ring))
#define REMOTE(size)                                                                               \
    REMOTE_SHAPE(size, "/one-to-one", REMOTE_ONE_TO_ONE, BENCH_PAIR)                               \
    REMOTE_SHAPE(size, "/many-to-one", REMOTE_MANY_TO_ONE, BENCH_ALL)                              \
    REMOTE_SHAPE(size, "/one-to-many", REMOTE_ONE_TO_MANY, BENCH_ALL)

#define TYPED(type, which)                                                                         \
    TEST("typed/" type, .run = typed_run, .kind = (which), .cpus = BENCH_ALL,                      \
         .setup = typed_setup, .teardown = typed_teardown)

#define MAPLE(shape, which, where)                                                                 \
    TEST("maple/" shape, .run = maple_run, .kind = (which), .cpus = (where),                       \
         .cpu_data = MAPLE_NODES * sizeof(void *), .setup = maple_setup,                           \
         .teardown = maple_teardown)

#define OPEN(shape, where)                                                                         \
    TEST("open/" shape, .run = open_run, .cpus = (where), .setup = open_setup,                     \
         .teardown = open_teardown)

#define BLOAT(shape, which)                                                                        \
    TEST("rcu-bloat/" shape, .run = bloat_run, .kind = (which), .cpus = BENCH_ALL, .min_cpus = 2,  \
         .setup = bloat_setup, .teardown = bloat_teardown)

#define PAGES(order)                                                                               \
    TEST("pages/" #order "/solo", .run = pages_run, .kind = (order))                               \
    TEST("pages/" #order "/all-cpus", .run = pages_run, .kind = (order), .cpus = BENCH_ALL)

#define TEST(name_, ...) {.name = name_, __VA_ARGS__},
const struct bench_test bench_tests[] = {
#include "tests.def"
};
#undef TEST
const unsigned bench_test_count = ARRAY_SIZE(bench_tests);
_Static_assert(ARRAY_SIZE(bench_tests) <= BENCH_TESTS_MAX, "the laboratory keeps a mark for each");

/* A name a line; nothing in the kernel reads it. */
#define TEST(name_, ...) name_ "\n"
extern const char bench_test_names[];
__attribute__((used, section(".hayloft.tests"))) const char bench_test_names[] =
#include "tests.def"
    ;
#undef TEST

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
