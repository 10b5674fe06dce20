/* run.c: one round of one workload, measured: warm-up, the timed section, and the books. How a
 * round runs on its CPUs is round.c's.
 *
 * The order, and why: all CPUs have rested (lab.c), so that whoever watches was served; then a warm-up, which
 * fills the CPU's caches and the allocator's arrays; then, when no callback is left, the full sample and the
 * begin record are made and have left, so that the timed section starts with empty rings; then the timed section,
 * with the yardstick before and after it.
 * What the allocator counted in between must be what the workload claims, call for call.
 *
 * Under kbench.ops no clock is read between start and end, tick and samples are off, and there is no
 * yardstick: under icount a round then repeats to the instruction.
 *
 * A round that ran out of memory, in its setup, its warm-up or its section, has no result. Its books are held
 * and everything is given back all the same, and what is wrong there comes before the shortage.
 *
 * Locking: none. Contexts: thread on CPU 0; the parts run on the CPUs of the round. */
#include "bench.h"
#include "../../base/guard.h"
#include "../../base/string.h"

#define WARM_UP_MS   10u
#define WARM_UP_OPS  1000u
#define YARDSTICK_MS 5u /* or a tenth of the round, if that is less */

struct counted {
    u64 allocs, frees;
};

/* Static: too large for a kernel stack, and there is one round at a time. */
static struct telemetry_part parts[MAX_CPUS];
static struct telemetry_cost costs[MAX_CPUS];
static u64 yardstick[2][MAX_CPUS]; /* before and after the section */

/* -- the books -- */

/* What the allocator's own counters say. At rest: no call is in flight. */
static struct counted count_calls(void)
{
    struct counted sum = {0, 0};

    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        const u64 *row = heap_cpu_row(kheap, cpu);

        sum.allocs +=
            counter_read(&row[CPU_large_alloc]) + counter_read(&row[CPU_alloc_pages_calls]);
        sum.frees += counter_read(&row[CPU_large_free]) + counter_read(&row[CPU_free_pages_calls]);
        for (unsigned id = 0; id < heap_cache_count(kheap); id++) {
            const struct kmem_cache *cache = heap_cache(kheap, id);

            if (!cache || cache_is_internal(cache))
                continue;
            row = cache_row(cache, cpu);
            sum.allocs += cache_row_allocs(row);
            sum.frees += cache_row_frees(row);
        }
    }
    return sum;
}

static void observe_reset(void *unused)
{
    (void)unused;
    heap_observe_reset(kheap);
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

static void measure_speed(void *row)
{
    u64 us = plat_cycles_hz() / 1000000;

    ((u64 *)row)[plat_cpu_id()] =
        yardstick_ticks(MIN(knobs.kbench_ms * 100, (u64)YARDSTICK_MS * 1000) * us);
}

/* On all CPUs of the round at once, as the workload will run. after: 0 or 1. */
static void hold_yardstick(u64 mask, unsigned after)
{
    if (!knobs.kbench_ops)
        plat_run_on_cpus(mask, measure_speed, yardstick[after]);
}

static void add_up_claims(struct telemetry_result *result, const struct bench_round *round)
{
    result->claimed[0] = result->claimed[1] = 0;
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        result->claimed[0] += round->cpu[cpu].allocs;
        result->claimed[1] += round->cpu[cpu].frees;
    }
}

static void note_counted(struct telemetry_result *result, struct counted before)
{
    struct counted after = count_calls();

    result->counted[0] = after.allocs - before.allocs;
    result->counted[1] = after.frees - before.frees;
}

static void add_up(struct telemetry_result *result, const struct bench_round *round, u64 mask)
{
    u64 first = ~(u64)0, last = 0;

    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++)
        if (mask >> cpu & 1) {
            first = MIN(first, round->cpu[cpu].start);
            last = MAX(last, round->cpu[cpu].end);
        }
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        const struct bench_cpu *c = &round->cpu[cpu];

        if (!(mask >> cpu & 1))
            continue;
        parts[result->cpus++] = (struct telemetry_part){cpu,
                                                        c->ran_on,
                                                        c->operations,
                                                        c->end - c->start - c->untimed,
                                                        c->start - first,
                                                        {yardstick[0][cpu], yardstick[1][cpu]}};
        result->operations += c->operations;
        result->cycles += c->end - c->start - c->untimed;
    }
    result->wall = last - first;
    result->n = round->n;
    result->part = parts;
    result->cost = costs;
}

static bool balanced(void)
{
    struct balance b;

    for (unsigned id = 0; id < heap_cache_count(kheap); id++) {
        const struct kmem_cache *cache = heap_cache(kheap, id);

        if (!cache)
            continue;
        cache_balance(cache, &b);
        if (!b.holds)
            return false;
    }
    return true;
}

/* What other CPUs' callbacks give back is in flight between two counters that should agree: of a page and of
 * its slab, of what left a cache and what came back. */
static void callbacks_over(void)
{
    while (rcu_backlog())
        rcu_barrier();
}

/* A shortage comes last: it excuses nothing. */
static const char *what_is_wrong(const struct telemetry_result *r)
{
    const char *why = bench_round_fault();

    if (why && GUARD(85, why != bench_is_short))
        return why;
    if (r->counted[0] != r->claimed[0] || r->counted[1] != r->claimed[1])
        return "the allocator counted other calls than the workload claims";
    if (r->claimed[0] != r->claimed[1])
        return "the workload kept memory";
    callbacks_over();
    return balanced() ? why : "the balance law does not hold after it";
}

void bench_figures(const struct bench_test *test, const struct telemetry_value *values, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        klog("%s: %s %llu", test->name, values[i].name, (unsigned long long)values[i].value);
    telemetry_event("figure", test->name, values, n);
}

/* The timed section, and what happened in it. */
static void run_timed(struct telemetry_result *result, u64 mask)
{
    u64 ms = plat_cycles_hz() / 1000;
    struct counted before;

    if (heap_observed(kheap))
        plat_run_on_cpus(plat_all_cpus(), observe_reset, NULL);
    if (knobs.kbench_ops)
        telemetry_sampling(false);
    callbacks_over();
    telemetry_full_sample(true);
    telemetry_bench_begin(result->test, result->round);
    telemetry_flush();
    tick_stop(true);

    before = count_calls();
    hold_yardstick(mask, 0);
    count_costs(false);
    telemetry_timed(true);
    bench_round_go(knobs.kbench_ms * ms, knobs.kbench_ops);
    telemetry_timed(false);
    count_costs(true);
    hold_yardstick(mask, 1);
    note_counted(result, before);

    tick_stop(false);
    callbacks_over();
    telemetry_full_sample(false);
    telemetry_bench_end(result->test, result->round);
    telemetry_sampling(true);
}

/* A cache that is made again under its name is written anew: nobody may be reading what it was. So
 * samples wait while a round gets and gives back what it needs. */
static const char *open_unseen(const struct bench_test *test, struct bench_round **round)
{
    const char *why;

    telemetry_sampling(false);
    why = bench_round_open(test, round);
    telemetry_sampling(true);
    return why;
}

static const char *close_unseen(void)
{
    const char *why;

    telemetry_sampling(false);
    why = bench_round_close();
    telemetry_sampling(true);
    return why;
}

/* It is as much of a round as the section, but for the time. */
static const char *warm_up(const struct bench_round *round)
{
    struct telemetry_result books = {0};
    struct counted before = count_calls();

    bench_round_go(MIN(knobs.kbench_ms, (u64)WARM_UP_MS) * (plat_cycles_hz() / 1000),
                   MIN(knobs.kbench_ops, (u64)WARM_UP_OPS));
    note_counted(&books, before);
    add_up_claims(&books, round);
    return what_is_wrong(&books);
}

static const char *measure(const struct bench_test *test, unsigned id, u64 n,
                           const struct bench_round *round)
{
    struct telemetry_result result = {.test = id, .round = n};
    u64 mask = bench_mask(test);
    const char *why;

    run_timed(&result, mask);
    add_up(&result, round, mask);
    add_up_claims(&result, round);
    why = what_is_wrong(&result);
    if (why == bench_is_short && GUARD_STEP(86))
        return why;
    telemetry_bench_result(&result);
    telemetry_observed(id, n);
    klog("%s round %llu: %llu operations, %llu cycles each", test->name, (unsigned long long)n,
         (unsigned long long)result.operations,
         (unsigned long long)(result.cycles / MAX(result.operations, (u64)1)));
    return why;
}

struct bench_end bench_round_run(const struct bench_test *test, unsigned id, u64 n)
{
    struct bench_end end = {.how = BENCH_OK};
    struct bench_round *round;
    const char *why, *left = NULL;

    why = open_unseen(test, &round);
    if (!why) {
        why = warm_up(round);
        telemetry_announce();
        if (!why)
            why = measure(test, id, n, round);
        end.shortage = bench_round_shortage();
        left = close_unseen();
    } else {
        end.shortage = bench_round_shortage();
    }
    if (left && (!why || why == bench_is_short))
        why = left;
    if (why)
        end.how = why == bench_is_short ? BENCH_SHORT : BENCH_WRONG;
    end.why = why;
    return end;
}
