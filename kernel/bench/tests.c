/* tests.c: the table of all workloads, and which of them tests= chooses. A test's id is its place
 * here.
 *
 * Locking: none, constant. Contexts: any. */
#include "bench.h"
#include "../../base/fmt.h"
#include "../../base/string.h"

#define MALLOC(size)                                                                               \
    {.name = "malloc/" #size "/solo", .run = malloc_run, .bytes = (size)},                         \
    {                                                                                              \
        .name = "malloc/" #size "/all-cpus", .run = malloc_run, .bytes = (size), .all_cpus = true  \
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
};
const unsigned bench_test_count = ARRAY_SIZE(bench_tests);

const char *bench_skip_reason(const struct bench_test *test)
{
    return test->needs_scheduler && !kernel_hooks.yield ? "needs the scheduler" : NULL;
}

u64 bench_mask(const struct bench_test *test)
{
    return test->all_cpus ? plat_all_cpus() : (u64)1 << (plat_cpu_count() - 1);
}

static bool matches_any(const char *pattern)
{
    for (unsigned i = 0; i < bench_test_count; i++)
        if (knobs_test_match(pattern, bench_tests[i].name))
            return true;
    return false;
}

static const char *nearest_test(const char *pattern)
{
    const char *found = "";
    unsigned best = ~0u;

    for (unsigned i = 0; i < bench_test_count; i++) {
        unsigned d = knobs_distance(pattern, strlen(pattern), bench_tests[i].name);

        if (d < best) {
            best = d;
            found = bench_tests[i].name;
        }
    }
    return found;
}

static void refuse_pattern(const char *pattern, struct knob_refusals *r)
{
    struct knob_refusal *e;

    if (r->count++ >= KNOB_REFUSALS)
        return;
    e = &r->at[r->count - 1];
    fmt(e->argument, sizeof(e->argument), "tests=%s", pattern);
    text_copy(e->reason, sizeof(e->reason), "no test has such a name");
    text_copy(e->nearest, sizeof(e->nearest), nearest_test(pattern));
}

bool bench_check_patterns(const char *patterns, struct knob_refusals *r)
{
    char one[sizeof(knobs.tests)];
    bool fine = true;

    for (const char *p = patterns; *p;) {
        size_t n = 0;

        while (p[n] && p[n] != ',')
            n++;
        memcpy(one, p, MIN(n, sizeof(one) - 1));
        one[MIN(n, sizeof(one) - 1)] = 0;
        if (!matches_any(one)) {
            refuse_pattern(one, r);
            fine = false;
        }
        p += n + (p[n] == ',');
    }
    return fine;
}
