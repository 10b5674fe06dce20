/* bench.h: the door of kernel/bench/: what a workload is, and how one round of it is run.
 *
 * A workload is one function that runs on each of its CPUs, between bench_start() and bench_stop(),
 * for a stated time or (kbench.ops) a stated number of operations. It claims how often it called
 * the allocator; run.c compares that with what the allocator counted, so a workload that does not
 * do what it says cannot be measured.
 *
 * To add one: a file with a run function, a line in tests.c, a name in configure.py. The function
 * allocates nothing that it does not claim, prints nothing and takes no lock of its own.
 *
 * Locking: none; each CPU writes its own struct bench_cpu. Contexts: thread. */
#ifndef KERNEL_BENCH_H
#define KERNEL_BENCH_H

#include "../kernel.h"

/* Operations between two looks at the clock: a look costs a few operations at worst, so it is lost
 * among 64; and 64 of the slowest operations are still far less than a round. */
#define BENCH_BATCH 64u

struct bench_round;
struct bench_cpu;

struct bench_test {
    const char *name;
    void (*run)(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me);
    size_t bytes;         /* of one allocation, if it makes any */
    bool all_cpus;        /* else solo: on the last CPU, while the others rest */
    bool needs_scheduler; /* cannot run on the hosted machine */
};

/* One CPU's part of a round. Written by that CPU, read when the round is over. */
struct bench_cpu {
    unsigned ran_on;
    bool short_of_memory; /* an allocation returned NULL: the round is void */
    u64 operations;
    u64 allocs, frees; /* claimed */
    u64 start, end;    /* cycles */
    u64 stop_at;
} ALIGNED(CACHE_LINE);

struct bench_round {
    const struct bench_test *test;
    unsigned cpus;
    u64 duration; /* cycles; if ops is 0 */
    u64 ops;      /* of each CPU */

    u32 arrived ALIGNED(CACHE_LINE); /* atomic */
    u64 start_at;                    /* atomic: set by the last to arrive */

    struct bench_cpu cpu[MAX_CPUS];
};

extern const struct bench_test bench_tests[]; /* by id; tests.c */
extern const unsigned bench_test_count;
/* Why a test cannot run on this machine, or NULL. */
const char *bench_skip_reason(const struct bench_test *test);
/* Checks that every pattern of tests= matches something; else adds a refusal. */
NODISCARD bool bench_check_patterns(const char *patterns, struct knob_refusals *r);
u64 bench_mask(const struct bench_test *test); /* the CPUs it runs on */

/* Runs one round, warm-up included, and reports it. False: why (a literal) says what was wrong.
 * run.c */
NODISCARD bool bench_round_run(unsigned test, u64 round, const char **why);

/* The workloads. */
void malloc_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me);
void yield_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me);

/* -- what a workload's loop is made of -- */

/* Waits for the other CPUs of the round; all start at the same tick of the clock. */
void bench_start(struct bench_round *round, struct bench_cpu *me);

/* How many operations to do before bench_more() is asked. */
static ALWAYS_INLINE u64 bench_batch(const struct bench_round *round)
{
    return round->ops ? round->ops : BENCH_BATCH;
}

/* Notes that the batch was done; true if there is time for another. Reads no clock under
 * kbench.ops. */
static ALWAYS_INLINE bool bench_more(const struct bench_round *round, struct bench_cpu *me)
{
    me->operations += bench_batch(round);
    return !round->ops && plat_cycles() < me->stop_at;
}

static ALWAYS_INLINE void bench_stop(struct bench_cpu *me)
{
    me->end = plat_cycles();
}

#endif
