/* round.c: how one round of a workload runs on its CPUs: the memory it needs beside what it measures,
 * the common start, the meetings, and what may be wrong with it afterwards.
 *
 * It knows neither telemetry nor the allocator's counters: those are run.c's. So the same loops,
 * started in the same way, can measure another allocator (tests/rivals).
 *
 * Locking: none; CPUs meet by atomic counts in struct bench_round. Contexts: thread on CPU 0; the
 * parts run on the CPUs of the round. */
#include "bench.h"
#include "../../base/string.h"

#define START_DELAY_US 20u /* from the last arrival to the common start */

const char bench_is_short[] = "short of memory";

/* Static: too large for a kernel stack, and there is one round at a time. */
static struct bench_round the_round;

void bench_start(struct bench_round *round, struct bench_cpu *me)
{
    u64 start;

    if (__atomic_add_fetch(&round->arrived, 1, __ATOMIC_ACQ_REL) == round->cpus)
        __atomic_store_n(&round->start_at,
                         plat_cycles() + plat_cycles_hz() / 1000000 * START_DELAY_US,
                         __ATOMIC_RELEASE);
    while ((start = __atomic_load_n(&round->start_at, __ATOMIC_ACQUIRE)) == 0)
        bench_relax();
    while (plat_cycles() < start)
        plat_relax();
    me->stop_at = start + round->duration;
    me->start = plat_cycles();
}

bool bench_meet(struct bench_round *round, struct bench_cpu *me)
{
    u32 turn = ++me->turn;

    if (me->short_of_memory)
        __atomic_store_n(&round->give_up, true, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&round->met, 1, __ATOMIC_ACQ_REL) == turn * round->cpus) {
        bool more = round->ops ? me->operations < round->ops : plat_cycles() < me->stop_at;

        if (__atomic_load_n(&round->give_up, __ATOMIC_RELAXED))
            more = false;
        /* Nobody can be here for the next turn before all have read this turn's word. */
        __atomic_store_n(&round->more, more, __ATOMIC_RELAXED);
        __atomic_store_n(&round->turn, turn, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&round->turn, __ATOMIC_ACQUIRE) != turn)
        bench_relax();
    return __atomic_load_n(&round->more, __ATOMIC_RELAXED);
}

/* -- shortage -- */

static u64 bytes_free(void)
{
    return heap_pages_free(kheap) * PAGE_SIZE;
}

/* The first one of a CPU counts: what it was for when it began. */
void bench_short(struct bench_cpu *me, u64 bytes)
{
    if (me->short_of_memory)
        return;
    me->short_of_memory = true;
    me->short_asked = bytes;
    me->short_free = bytes_free();
}

/* Of several calls the last counts: none is made after one that failed, but by way of tidying up. */
const char *bench_setup_short(struct bench_round *round, u64 bytes)
{
    u64 left = bytes_free();

    round->setup = (struct bench_shortage){bytes, round->had - MIN(left, round->had), round->had};
    return bench_is_short;
}

static const struct bench_cpu *first_short(void)
{
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++)
        if (the_round.cpu[cpu].short_of_memory)
            return &the_round.cpu[cpu];
    return NULL;
}

struct bench_shortage bench_round_shortage(void)
{
    const struct bench_cpu *c = first_short();

    if (!c)
        return the_round.setup;
    return (struct bench_shortage){
        c->short_asked, the_round.had - MIN(c->short_free, the_round.had), the_round.had};
}

/* -- the round itself -- */

static void run_part(void *arg)
{
    struct bench_round *round = arg;
    struct bench_cpu *me = &round->cpu[plat_cpu_id()];

    me->ran_on = plat_cpu_id();
    round->test->run(round->test, round, me);
}

void bench_round_go(u64 duration, u64 ops)
{
    memset(the_round.cpu, 0, sizeof(the_round.cpu));
    the_round.arrived = the_round.met = the_round.turn = 0;
    the_round.start_at = 0;
    the_round.more = the_round.give_up = false;
    the_round.duration = duration;
    the_round.ops = ops;
    plat_run_on_cpus(bench_mask(the_round.test), run_part, &the_round);
}

/* -- what a workload needs outside the books -- */

static unsigned data_order(const struct bench_test *test)
{
    unsigned order = 0;

    while (PAGE_SIZE << order < test->cpu_data)
        order++;
    return order;
}

static void data_free(void)
{
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++)
        if (the_round.data[cpu])
            CHECK(free_pages(kheap, the_round.data[cpu], data_order(the_round.test)));
}

const char *bench_round_open(const struct bench_test *test, struct bench_round **round)
{
    u64 mask = bench_mask(test);
    const char *why = NULL;

    *round = &the_round;
    memset(&the_round, 0, sizeof(the_round));
    the_round.test = test;
    the_round.cpus = (unsigned)__builtin_popcountll(mask);
    the_round.had = bytes_free();
    for (unsigned cpu = 0; cpu < plat_cpu_count() && test->cpu_data; cpu++) {
        if (!(mask >> cpu & 1))
            continue;
        the_round.data[cpu] = alloc_pages(kheap, data_order(test));
        if (!the_round.data[cpu])
            why = bench_setup_short(&the_round, PAGE_SIZE << data_order(test));
        else
            memset(the_round.data[cpu], 0, test->cpu_data);
    }
    if (!why && test->setup)
        why = test->setup(test, &the_round);
    if (why)
        data_free();
    return why;
}

const char *bench_round_close(void)
{
    const struct bench_test *test = the_round.test;
    const char *why = test->teardown ? test->teardown(test, &the_round) : NULL;

    data_free();
    return why;
}

const char *bench_round_fault(void)
{
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        const struct bench_cpu *c = &the_round.cpu[cpu];

        if (!(bench_mask(the_round.test) >> cpu & 1))
            continue;
        if (c->damaged)
            return "an object did not hold what was written to it";
        if (c->ran_on != cpu)
            return "a pinned thread ran on another CPU";
    }
    return first_short() ? bench_is_short : NULL;
}
