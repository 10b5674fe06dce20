/* run.c: one round of one workload: rest, warm-up, the timed section, and the books.
 *
 * The order, and why: all CPUs rest first, so that whoever watches is served; then a warm-up, which
 * fills the CPU's caches and the allocator's arrays; then the full sample and the begin record are
 * made and have left, so that the timed section starts with empty rings; then the timed section.
 * What the allocator counted in between must be what the workload claims, call for call.
 *
 * Under kbench.ops no clock is read between start and end, and tick and samples are off: under
 * icount a round then repeats to the instruction.
 *
 * Locking: none. Contexts: thread on CPU 0; the parts run on the CPUs of the round. */
#include "bench.h"
#include "../../base/string.h"
#include "../telemetry/telemetry.h"

#define REST_NS        50000000u
#define WARM_UP_MS     10u
#define WARM_UP_OPS    1000u
#define START_DELAY_US 20u /* from the last arrival to the common start */

struct counted {
    u64 allocs, frees;
};

/* Static: too large for a kernel stack, and there is one round at a time. */
static struct bench_round the_round;
static struct telemetry_part parts[MAX_CPUS];
static struct telemetry_cost costs[MAX_CPUS];

void bench_start(struct bench_round *round, struct bench_cpu *me)
{
    u64 start;

    if (__atomic_add_fetch(&round->arrived, 1, __ATOMIC_ACQ_REL) == round->cpus)
        __atomic_store_n(&round->start_at,
                         plat_cycles() + plat_cycles_hz() / 1000000 * START_DELAY_US,
                         __ATOMIC_RELEASE);
    while ((start = __atomic_load_n(&round->start_at, __ATOMIC_ACQUIRE)) == 0)
        plat_relax();
    while (plat_cycles() < start)
        plat_relax();
    me->stop_at = start + round->duration;
    me->start = plat_cycles();
}

static void run_part(void *arg)
{
    struct bench_round *round = arg;
    struct bench_cpu *me = &round->cpu[plat_cpu_id()];

    me->ran_on = plat_cpu_id();
    round->test->run(round->test, round, me);
}

static void run_once(const struct bench_test *test, u64 duration, u64 ops)
{
    u64 mask = bench_mask(test);

    memset(&the_round, 0, sizeof(the_round));
    the_round.test = test;
    the_round.cpus = (unsigned)__builtin_popcountll(mask);
    the_round.duration = duration;
    the_round.ops = ops;
    plat_run_on_cpus(mask, run_part, &the_round);
}

/* What the allocator's own counters say. At rest: no call is in flight. */
static struct counted count_calls(void)
{
    struct counted sum = {0, 0};

    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        const u64 *row = heap_cpu_row(kheap, cpu);

        sum.allocs += counter_read(&row[CPU_large_alloc]);
        sum.frees += counter_read(&row[CPU_large_free]);
        for (unsigned id = 0; id < heap_cache_count(kheap); id++) {
            const struct kmem_cache *cache = heap_cache(kheap, id);

            if (!cache)
                continue;
            row = cache_row(cache, cpu);
            sum.allocs +=
                counter_read(&row[CACHE_alloc_fast]) + counter_read(&row[CACHE_alloc_slow]);
            sum.frees += counter_read(&row[CACHE_free_fast]) + counter_read(&row[CACHE_free_slow]);
        }
    }
    return sum;
}

static void set_quiet(void *on)
{
    kernel_hooks.quiet(*(bool *)on);
}

/* Of every CPU so far (before a section), then what it grew by (after it). */
static void count_costs(bool after)
{
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        struct telemetry_cost now = telemetry_cost(cpu), *c = &costs[cpu];

        *c = after ? (struct telemetry_cost){now.cycles - c->cycles, now.bytes - c->bytes} : now;
    }
}

/* Under kbench.ops nothing but the workload runs in the round: no tick, so nothing may sleep
 * meanwhile. */
static void tick_stop(bool stop)
{
    if (knobs.kbench_ops && kernel_hooks.quiet)
        plat_run_on_cpus(plat_all_cpus(), set_quiet, &stop);
}

static void add_up(struct telemetry_result *result, u64 mask)
{
    u64 first = ~(u64)0, last = 0;

    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++)
        if (mask >> cpu & 1) {
            first = MIN(first, the_round.cpu[cpu].start);
            last = MAX(last, the_round.cpu[cpu].end);
        }
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        const struct bench_cpu *c = &the_round.cpu[cpu];

        if (!(mask >> cpu & 1))
            continue;
        parts[result->cpus++] = (struct telemetry_part){cpu, c->ran_on, c->operations,
                                                        c->end - c->start, c->start - first};
        result->operations += c->operations;
        result->cycles += c->end - c->start;
        result->claimed[0] += c->allocs;
        result->claimed[1] += c->frees;
    }
    result->wall = last - first;
    result->part = parts;
    result->cost = costs;
}

static const char *what_is_wrong(const struct telemetry_result *r, u64 mask)
{
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++)
        if ((mask >> cpu & 1) && the_round.cpu[cpu].short_of_memory)
            return "an allocation failed for want of memory";
    for (unsigned i = 0; i < r->cpus; i++)
        if (r->part[i].ran_on != r->part[i].cpu)
            return "a pinned thread ran on another CPU";
    if (r->counted[0] != r->claimed[0] || r->counted[1] != r->claimed[1])
        return "the allocator counted other calls than the workload claims";
    return NULL;
}

bool bench_round_run(unsigned id, u64 round, const char **why)
{
    const struct bench_test *test = &bench_tests[id];
    struct telemetry_result result = {.test = id, .round = round};
    u64 mask = bench_mask(test), ms = plat_cycles_hz() / 1000;
    struct counted before, after;

    plat_sleep_ns(REST_NS);
    run_once(test, MIN(knobs.kbench_ms, (u64)WARM_UP_MS) * ms,
             MIN(knobs.kbench_ops, (u64)WARM_UP_OPS));
    telemetry_announce();
    if (knobs.kbench_ops)
        telemetry_sampling(false);
    telemetry_full_sample();
    telemetry_bench_begin(id, round);
    telemetry_flush();
    tick_stop(true);

    before = count_calls();
    count_costs(false);
    telemetry_timed(true);
    run_once(test, knobs.kbench_ms * ms, knobs.kbench_ops);
    telemetry_timed(false);
    count_costs(true);
    after = count_calls();

    tick_stop(false);
    telemetry_full_sample();
    telemetry_bench_end(id, round);
    telemetry_sampling(true);
    add_up(&result, mask);
    result.counted[0] = after.allocs - before.allocs;
    result.counted[1] = after.frees - before.frees;
    telemetry_bench_result(&result);
    klog("%s round %llu: %llu operations, %llu cycles each", test->name, (unsigned long long)round,
         (unsigned long long)result.operations,
         (unsigned long long)(result.cycles / MAX(result.operations, (u64)1)));
    *why = what_is_wrong(&result, mask);
    return !*why;
}
