/* bench.h: the door of kernel/bench/: what a workload is, and how one round of it is run.
 *
 * A workload is one function that runs on each of its CPUs, between bench_start() and bench_stop(),
 * for a stated time or (kbench.ops) a stated number of operations. It claims how often it called
 * the allocator; run.c compares that with what the allocator counted, so a workload that does not
 * do what it says cannot be measured. It ends with nothing allocated.
 *
 * What it needs besides (room for pointers, a cache) is made before the books are opened and given
 * back after they are closed: cpu_data, setup, teardown. That memory is not claimed.
 *
 * Memory may run out at any call, in setup and in run. A workload that gets NULL says so (bench_short,
 * bench_setup_short), stops what it does, and ends as ever: with nothing allocated and every call
 * claimed, those of the operation that it broke off too. The test is then skipped with its figures; its
 * books are held all the same, and a workload that is wrong in them fails the boot, short or not.
 *
 * To add one: a file with a run function, a line in tests.def, a name in configure.py. The function
 * allocates nothing that it does not claim, prints nothing and takes no lock of its own. Its loop
 * passes a quiescent state (RCU) in bench_more(), bench_meet() and bench_relax().
 *
 * Locking: none; each CPU writes its own struct bench_cpu. Contexts: thread. */
#ifndef KERNEL_BENCH_H
#define KERNEL_BENCH_H

#include "../kernel.h"
#include "../telemetry/telemetry.h"

/* Operations between two looks at the clock: a look costs a few operations at worst, so it is lost
 * among 64; and 64 of the slowest operations are still far less than a round. */
#define BENCH_BATCH 64u

/* As much of an object is written to. */
#define BENCH_TOUCHED_BYTES 256u

struct bench_round;
struct bench_cpu;

enum bench_cpus {
    BENCH_SOLO, /* on the last CPU, while the others rest */
    BENCH_PAIR, /* on the last two, the same */
    BENCH_ALL,
};

struct bench_test {
    const char *name;
    void (*run)(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me);
    size_t bytes;  /* of one allocation, if all are of one size */
    unsigned kind; /* which of the workload's variants, for the workload itself */
    enum bench_cpus cpus;
    unsigned min_cpus;    /* fewer CPUs in the machine: skipped */
    bool needs_scheduler; /* cannot run on the hosted machine */
    size_t cpu_data;      /* bytes for each CPU, zeroed once and page aligned: round->data[] */
    /* Before the warm-up, CPU 0, after cpu_data: NULL, or why the round cannot be (a literal), and
     * nothing kept; what bench_setup_short() gave if that is for want of memory. */
    const char *(*setup)(const struct bench_test *test, struct bench_round *round);
    /* Undoes setup, if that succeeded: NULL, or what was wrong. */
    const char *(*teardown)(const struct bench_test *test, struct bench_round *round);
};

/* One CPU's part of a round. Written by that CPU, read when the round is over. */
struct bench_cpu {
    unsigned ran_on;
    u32 turn;             /* times it met the others */
    bool short_of_memory; /* an allocation returned NULL: the test is skipped; by bench_short() */
    bool damaged;         /* an object did not hold what was written to it: the boot has failed */
    u64 operations;
    u64 allocs, frees; /* claimed */
    u64 start, end;    /* cycles */
    u64 untimed;       /* cycles between start and end that do not count */
    u64 stop_at;
    u64 short_asked, short_free; /* bytes that the allocation was for; that were free then */
} ALIGNED(CACHE_LINE);

/* What a round was short of. All in bytes. */
struct bench_shortage {
    u64 asked; /* for which a call found no memory; 0: it was for a cache, whose need nobody knows */
    u64 held;  /* that the round had taken by then */
    u64 had;   /* that were free when it began */
};

struct bench_round {
    /* fixed for the round */
    const struct bench_test *test;
    unsigned cpus;
    unsigned n;           /* objects a batch, where the workload has such: told in the result */
    void *data[MAX_CPUS]; /* by CPU, of test->cpu_data bytes */
    void *shared;         /* the workload's own */
    u64 duration;         /* cycles; if ops is 0 */
    u64 ops;              /* of each CPU */
    u64 had;              /* bytes free before anything was taken for it */
    struct bench_shortage setup; /* if that was short */

    /* atomic */
    u32 arrived ALIGNED(CACHE_LINE);
    u64 start_at; /* set by the last to arrive */
    u32 met;      /* arrivals at all meetings so far */
    u32 turn;     /* meetings that are over */
    bool more;    /* what the last one decided */
    bool give_up; /* a CPU is short of memory */

    struct bench_cpu cpu[MAX_CPUS];
};

extern const struct bench_test bench_tests[]; /* by id; tests.c */
extern const unsigned bench_test_count;
#define BENCH_TESTS_MAX 256u
/* Why a test cannot run on this machine, or NULL. */
const char *bench_skip_reason(const struct bench_test *test);
/* Checks that every pattern of tests= matches something; else adds a refusal. */
NODISCARD bool bench_check_patterns(const char *patterns, struct knob_refusals *r);
u64 bench_mask(const struct bench_test *test); /* the CPUs it runs on */

/* What a round is made of, in this order; CPU 0. open: gets the workload what it needs; NULL, or why
 * it cannot be had (a literal). go: the workload on all its CPUs, as often as wanted. fault: what
 * went wrong in the last go, or NULL. close: gives back what open got; NULL, or what is wrong with
 * it. Of open and fault bench_is_short itself (the pointer) means that memory ran out and nothing else is
 * wrong; shortage then tells of what. round.c */
extern const char bench_is_short[];
NODISCARD const char *bench_round_open(const struct bench_test *test, struct bench_round **round);
void bench_round_go(u64 duration, u64 ops);
NODISCARD const char *bench_round_fault(void);
NODISCARD const char *bench_round_close(void);
struct bench_shortage bench_round_shortage(void);

/* Runs one round, warm-up included, and reports it; id: the test's in the records. run.c */
struct bench_end {
    enum { BENCH_OK, BENCH_SHORT, BENCH_WRONG } how;
    const char *why; /* BENCH_WRONG: what was (a literal) */
    struct bench_shortage shortage;
};
NODISCARD struct bench_end bench_round_run(const struct bench_test *test, unsigned id, u64 round);

/* What a round of a workload is known by besides its time: up to 8 values that the tool keeps for each test and
 * sets beside each other as it does times. Any moment but the timed section; values of 0 and more. run.c */
void bench_figures(const struct bench_test *test, const struct telemetry_value *values, unsigned n);

/* The fixed work by which a CPU's speed is judged, for so many cycles: cycles that YARDSTICK_STEPS of
 * its steps take. yardstick.c */
#define YARDSTICK_STEPS 1000u
u64 yardstick_ticks(u64 duration);

/* The workloads. */
#define BENCH_WORKLOAD(name)                                                                       \
    void name(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
BENCH_WORKLOAD(malloc_run);
BENCH_WORKLOAD(batch_run);
BENCH_WORKLOAD(remote_run);
BENCH_WORKLOAD(typed_run);
BENCH_WORKLOAD(pages_run);
BENCH_WORKLOAD(larson_run);
BENCH_WORKLOAD(xmalloc_run);
BENCH_WORKLOAD(threadtest_run);
BENCH_WORKLOAD(mstress_run);
BENCH_WORKLOAD(scratch_run);
BENCH_WORKLOAD(maple_run);
BENCH_WORKLOAD(open_run);
BENCH_WORKLOAD(bloat_run);
BENCH_WORKLOAD(yield_run);

const char *batch_setup(const struct bench_test *test, struct bench_round *round);
const char *larson_setup(const struct bench_test *test, struct bench_round *round);
const char *larson_teardown(const struct bench_test *test, struct bench_round *round);
const char *maple_setup(const struct bench_test *test, struct bench_round *round);
const char *maple_teardown(const struct bench_test *test, struct bench_round *round);
const char *open_setup(const struct bench_test *test, struct bench_round *round);
const char *open_teardown(const struct bench_test *test, struct bench_round *round);
const char *bloat_setup(const struct bench_test *test, struct bench_round *round);
const char *bloat_teardown(const struct bench_test *test, struct bench_round *round);
const char *typed_setup(const struct bench_test *test, struct bench_round *round);
const char *typed_teardown(const struct bench_test *test, struct bench_round *round);

/* Their variants and what they ask for as cpu_data. */
enum batch_kind { BATCH_ALLOC, BATCH_FREE };
enum remote_kind { REMOTE_ONE_TO_ONE, REMOTE_MANY_TO_ONE, REMOTE_ONE_TO_MANY };
enum typed_kind { TYPED_NODE, TYPED_DENTRY, TYPED_INODE };
enum maple_kind { MAPLE_PLACE, MAPLE_SCATTERED };
enum bloat_kind { BLOAT_FREE, BLOAT_HELD };
#define BATCH_OBJECTS      10000u
#define THREADTEST_OBJECTS 1000u
#define LARSON_SLOTS       1024u
#define MSTRESS_SLOTS      512u
#define MAPLE_NODES        256u

/* -- what a workload's loop is made of -- */

/* Waits for the other CPUs of the round; all start at the same tick of the clock. */
void bench_start(struct bench_round *round, struct bench_cpu *me);

/* Waits until all CPUs of the round are here, so all must call it equally often. Returns, to all
 * the same, whether there is time (or, under kbench.ops, work) for another batch. */
bool bench_meet(struct bench_round *round, struct bench_cpu *me);

/* A turn of a loop that waits for another CPU: it holds up no grace period. */
static ALWAYS_INLINE void bench_relax(void)
{
    rcu_quiescent();
    plat_relax();
}

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
    rcu_quiescent();
    return !round->ops && plat_cycles() < me->stop_at;
}

/* The same pair for a workload with batches of its own size. */
static ALWAYS_INLINE u64 bench_batch_of(const struct bench_round *round, const struct bench_cpu *me,
                                        u64 n)
{
    return round->ops ? MIN(n, round->ops - me->operations) : n;
}
static ALWAYS_INLINE bool bench_more_of(const struct bench_round *round, struct bench_cpu *me,
                                        u64 done)
{
    me->operations += done;
    rcu_quiescent();
    return round->ops ? me->operations < round->ops : plat_cycles() < me->stop_at;
}

/* What is done between these two does not count. */
static ALWAYS_INLINE void bench_pause(struct bench_cpu *me)
{
    me->untimed -= plat_cycles();
}
static ALWAYS_INLINE void bench_resume(struct bench_cpu *me)
{
    me->untimed += plat_cycles();
}

static ALWAYS_INLINE void bench_stop(struct bench_cpu *me)
{
    me->end = plat_cycles();
}

/* Every object is written to, since a block that nobody touches says nothing of where its memory
 * is; but only one word in each of its first four cache lines. That is the same few instructions in
 * every arm and for every size from 256 bytes up: writing 64 KiB out would measure memory bandwidth
 * instead of the allocator. bytes: a multiple of 8. */
static ALWAYS_INLINE void bench_touch(void *p, size_t bytes)
{
    for (size_t at = 0; at < MIN(bytes, (size_t)BENCH_TOUCHED_BYTES); at += CACHE_LINE)
        *(volatile u64 *)((char *)p + at) = at;
}

/* An object that outlives the moment, or changes hands, is signed: two owners of one block would
 * write over each other's. Objects of 8 bytes and more. */
static ALWAYS_INLINE void bench_sign(void *p)
{
    *(volatile u64 *)p = (u64)(uintptr_t)p ^ 0x5ca1ab1e0ddba11u;
}
static ALWAYS_INLINE bool bench_signed(const void *p)
{
    return *(const volatile u64 *)p == ((u64)(uintptr_t)p ^ 0x5ca1ab1e0ddba11u);
}

/* Notes that a call for so many bytes found no memory. */
void bench_short(struct bench_cpu *me, u64 bytes) COLD;
/* The same of a setup, which returns what this returns; bytes 0: a cache could not be made. */
NODISCARD const char *bench_setup_short(struct bench_round *round, u64 bytes) COLD;

/* kmalloc, signed and claimed; NULL is noted. */
static ALWAYS_INLINE void *bench_take(struct bench_cpu *me, size_t bytes)
{
    void *p = kmalloc(bytes);

    if (unlikely(!p)) {
        bench_short(me, bytes);
        return NULL;
    }
    me->allocs++;
    bench_touch(p, bytes);
    bench_sign(p);
    return p;
}

/* kfree, if there is anything to free. */
static ALWAYS_INLINE void bench_give(struct bench_cpu *me, void *p)
{
    if (!p)
        return;
    if (unlikely(!bench_signed(p)))
        me->damaged = true;
    me->frees++;
    kfree(p);
}

/* Numbers that only look random: the same on each CPU in every boot (xorshift, by Marsaglia). */
static ALWAYS_INLINE u64 bench_random_seed(void)
{
    return (plat_cpu_id() + 1) * 0x9e3779b97f4a7c15u;
}
static ALWAYS_INLINE u32 bench_random(u64 *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (u32)(*state >> 32);
}
static ALWAYS_INLINE u32 bench_random_below(u64 *state, u32 n)
{
    return (u32)((u64)bench_random(state) * n >> 32);
}

#endif
