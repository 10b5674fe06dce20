/* runner.c: one contender of `./hayloft rivals`: runs the kernel's workloads on demand, one round a
 * line, and says what an operation cost.
 *
 * It is linked twice. runner-hayloft has the loops as the hosted kernel has them, on a heap set up by
 * --args. runner-malloc has the same loops compiled with use_malloc.h; LD_PRELOAD chooses whose
 * malloc. Everything else, from the pinned threads to the start barrier, is the same code in both,
 * and what a workload needs besides (room for its pointers) comes from a heap of ours in both.
 *
 *   in    ROUND test ms warm-up-ms          or, for whoever counts instructions (count.py),
 *         COUNT test operations             of each CPU, without a warm-up and without a clock
 *   out   ready <file that malloc comes from> <TSC Hz>        once
 *         ok <ns an operation> <operations> <share>  |  wrong <why>   a line for each round
 *
 * share: of the time that the round's CPUs took, what they had a core for. All of them are always
 * busy, if only with waiting for each other, so whatever is missing to 1 went to somebody else.
 *
 * Between rounds it sleeps in read(), so contenders can take turns in rounds of a few milliseconds:
 * what slows the machine down for a while then slows all of them. It ends with its input.
 *
 * It deliberately does not open the books (run.c): malloc has none. What the loops themselves see,
 * a signed object that changed, an allocation that failed, fails the round.
 *
 * Locking: none. Contexts: thread on CPU 0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "../../base/host.h"
#include "../../kernel/bench/bench.h"

#define BLOCK_BYTES ((size_t)4 << 20) /* the largest page block */
#define STATUS_BAD  2
#define LINE_BYTES  200
#define MS_MAX      10000u

PRINTF(1, 2) static NORETURN void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fflush(stdout);
    exit(STATUS_BAD);
}

/* What a workload tells besides its time (maple's slabs), nobody hears here. */
void bench_figures(const struct bench_test *test, const struct telemetry_value *values, unsigned n)
{
    (void)test;
    (void)values;
    (void)n;
}

/* As the hosted kernel's firmware maps it: huge pages asked for, untouched. */
static struct mem_range map_memory(size_t bytes)
{
    char *p = mmap(NULL, bytes + BLOCK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        fail("wrong no memory for the heap\n");
    p = (char *)round_up((uintptr_t)p, BLOCK_BYTES);
    madvise(p, bytes, MADV_HUGEPAGE);
    return (struct mem_range){p, bytes / PAGE_SIZE};
}

/* The order of kernel/host_main.c, less what a session needs. */
static void bring_up(const char *args, unsigned cpus, size_t bytes)
{
    struct mem_range range = map_memory(bytes);
    unsigned order = 0;
    void *rows;
    u64 need;

    if (!knobs_parse(&knobs, args, true, &knob_refused) || !knobs_check(&knobs, &knob_refused))
        fail("wrong %s: %s\n", knob_refused.at[0].argument, knob_refused.at[0].reason);
    lockstat_init(&knobs, 1, NULL);
    kheap = heap_init(&knobs, &range, 1, &need);
    if (!kheap || !heap_cpus_init(kheap, cpus))
        fail("wrong too little memory for the heap\n");
    while (PAGE_SIZE << order < lockstat_bytes(cpus))
        order++;
    rows = alloc_pages(kheap, order);
    if (!rows)
        fail("wrong too little memory for lock rows\n");
    memset(rows, 0, PAGE_SIZE << order);
    lockstat_init(&knobs, cpus, rows);
    if (!host_cpus_start(cpus))
        fail("wrong this machine gives no thread for a CPU\n");
}

static const struct bench_test *find(const char *name)
{
    for (unsigned i = 0; i < bench_test_count; i++)
        if (strcmp(bench_tests[i].name, name) == 0)
            return &bench_tests[i];
    return NULL;
}

/* What the round cost, as the laboratory tells it: cycles of all CPUs by operations of all. */
static const char *add_up(const struct bench_round *round, u64 *cycles, u64 *operations)
{
    u64 allocs = 0, frees = 0;

    *cycles = *operations = 0;
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        const struct bench_cpu *c = &round->cpu[cpu];

        *cycles += c->end - c->start - c->untimed;
        *operations += c->operations;
        allocs += c->allocs;
        frees += c->frees;
    }
    if (!*operations)
        return "no operation was done";
    return allocs == frees ? NULL : "the workload kept memory";
}

/* CPU time of the process so far, ns: to the scheduler's own precision, in sum. */
static u64 cpu_ns(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (u64)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
           (u64)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

/* Runs the workload once; the share of their time for which its CPUs had a core. */
static double go(const struct bench_round *round, u64 duration, u64 ops)
{
    u64 cpu = cpu_ns(), start = plat_cycles(), wall;

    bench_round_go(duration, ops);
    wall = (plat_cycles() - start) * round->cpus;
    return (double)(cpu_ns() - cpu) / ((double)wall * 1e9 / (double)plat_cycles_hz());
}

static void run(const struct bench_test *test, unsigned ms, unsigned warm_ms, u64 ops)
{
    u64 per_ms = plat_cycles_hz() / 1000, cycles, operations;
    double share;
    struct bench_round *round;
    const char *why = bench_skip_reason(test), *left;

    if (!why)
        why = bench_round_open(test, &round);
    if (why) {
        printf("wrong %s\n", why);
        return;
    }
    if (!ops)
        bench_round_go(warm_ms * per_ms, 0);
    share = go(round, ms * per_ms, ops);
    why = bench_round_fault();
    if (!why)
        why = add_up(round, &cycles, &operations);
    left = bench_round_close();
    if (why || left)
        printf("wrong %s\n", why ? why : left);
    else
        printf("ok %.4f %llu %.4f\n",
               (double)cycles * 1e9 / (double)plat_cycles_hz() / (double)operations,
               (unsigned long long)operations, share);
}

static const char *file_of_malloc(void)
{
    void *(*function)(size_t) = malloc;
    Dl_info info;

    return dladdr(*(void **)&function, &info) && info.dli_fname ? info.dli_fname : "?";
}

int main(int argc, char **argv)
{
    char line[LINE_BYTES], name[LINE_BYTES];
    const struct bench_test *test;
    unsigned ms, warm_ms, ops;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 4)
        fail("wrong usage: %s CPUS MEMORY-MIB ARGUMENTS\n", argv[0]);
    bring_up(argv[3], (unsigned)atoi(argv[1]), (size_t)atoi(argv[2]) << 20);
    printf("ready %s %llu\n", file_of_malloc(), (unsigned long long)plat_cycles_hz());
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        ms = warm_ms = ops = 0;
        if ((sscanf(line, "ROUND %199s %u %u", name, &ms, &warm_ms) != 3 || ms < 1 || ms > MS_MAX ||
             warm_ms > MS_MAX) &&
            (sscanf(line, "COUNT %199s %u", name, &ops) != 2 || ops < 1))
            fail("wrong not a round: %s", line);
        test = find(name);
        if (test)
            run(test, ms, warm_ms, ops);
        else
            printf("wrong no test is called %s\n", name);
        fflush(stdout);
    }
    return 0;
}
