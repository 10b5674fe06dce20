/* host.c: the platform contract as a process. CPUs are pinned threads, the clock is the TSC, the
 * telemetry port and the console are files.
 *
 * CPU 0 is the thread that called main(); the others sleep on a condition variable, which is what
 * "halted" means here, until plat_run_on_cpus() hands them a job. All that take part meet at a
 * spinning barrier, so that they start within a cache miss of each other and not one wake-up after
 * another. CPUs are pinned to the cores that the process may use, round robin; with more CPUs than
 * cores the machine is crowded, and whoever waits gives its core away, since the one waited for may
 * need it.
 *
 * What it deliberately does not do: imitate interrupts or preemption by signals. Code that needs
 * them is metal-only, and says so. A kick (plat_kick) therefore reaches a CPU where it waits: for work,
 * for others to finish theirs, or for a time to pass. One that works sees it when it is done; until then
 * it has its quiescent states to look for itself.
 *
 * Locking: `mutex` guards the job and the CPU states; nothing else blocks. Contexts: CPU threads;
 * panic from any thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../base/fmt.h"
#include "../../base/host.h"
#include "host_impl.h"

__thread unsigned host_cpu_id;
unsigned host_cpu_number = 1;
bool host_crowded;

static void (*idle_handler)(bool idle); /* written before the second CPU runs, or between tests */
static void (*kick_handler)(void);      /* the same, under mutex */

static void idle(bool on)
{
    if (idle_handler && host_cpu_id < MAX_CPUS)
        idle_handler(on);
}

void host_idle_handler_set(void (*fn)(bool idle))
{
    idle_handler = fn;
}

struct job {
    void (*fn)(void *arg);
    void *arg;
    u64 mask;
    unsigned members; /* bits in mask */
    unsigned arrived; /* atomic: at the start barrier */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* Under mutex. */
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static struct job *current; /* the job being handed out, on its caller's stack */
static u64 waiting;         /* CPUs that have not taken it yet */
static u64 running;         /* CPUs that have not finished it */
static u64 kicked;          /* CPUs that are to call the kick handler when they have no work */
static unsigned threads = 1;

/* -- CPUs -------------------------------------------------------------------------------------- */

/* Every 64th turn only: the pause between is what keeps an uncrowded wait short. */
void host_relax_crowded(void)
{
    static __thread unsigned turns;

    if (++turns % 64 == 0)
        sched_yield();
    else
        __builtin_ia32_pause();
}

static void meet(struct job *job)
{
    __atomic_add_fetch(&job->arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&job->arrived, __ATOMIC_ACQUIRE) < job->members)
        plat_relax();
}

/* -- kicks -- */

void host_kick_handler_set(void (*fn)(void))
{
    pthread_mutex_lock(&mutex);
    kick_handler = fn;
    pthread_mutex_unlock(&mutex);
}

bool plat_kick(unsigned cpu)
{
    pthread_mutex_lock(&mutex);
    kicked |= (u64)1 << cpu;
    pthread_cond_broadcast(&work);
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&mutex);
    return false;
}

bool plat_may_wait(void)
{
    return host_cpu_id < MAX_CPUS;
}

/* The mutex is held, and given up for the call. False: this CPU was not kicked. */
static bool take_kick(void)
{
    u64 me = (u64)1 << host_cpu_id;
    void (*fn)(void) = kick_handler;

    if (!(kicked & me))
        return false;
    kicked &= ~me;
    if (!fn)
        return false;
    pthread_mutex_unlock(&mutex);
    idle(false);
    fn();
    idle(true);
    pthread_mutex_lock(&mutex);
    return true;
}

/* -- work -- */

static void *cpu_main(void *arg)
{
    u64 me;

    host_cpu_id = (unsigned)(uintptr_t)arg;
    me = (u64)1 << host_cpu_id;
    host_fault_cpu_init(host_cpu_id);
    pthread_mutex_lock(&mutex);
    for (;;) {
        struct job *job;

        while (!(waiting & me))
            if (!take_kick())
                pthread_cond_wait(&work, &mutex);
        waiting &= ~me;
        job = current;
        pthread_mutex_unlock(&mutex);
        idle(false);
        meet(job);
        job->fn(job->arg);
        idle(true);
        pthread_mutex_lock(&mutex);
        running &= ~me;
        if (!running)
            pthread_cond_signal(&done);
    }
}

void plat_run_on_cpus(u64 mask, void (*fn)(void *arg), void *arg)
{
    struct job job = {.fn = fn, .arg = arg, .mask = mask};
    u64 others = mask & ~(u64)1;

    CHECK_VALUES((mask & ~plat_all_cpus()) == 0, mask, plat_all_cpus());
    CHECK(plat_cpu_id() == 0);
    job.members = (unsigned)__builtin_popcountll(mask);
    if (others) {
        pthread_mutex_lock(&mutex);
        CHECK(running == 0);
        current = &job;
        waiting = others;
        running = others;
        pthread_cond_broadcast(&work);
        pthread_mutex_unlock(&mutex);
    }
    if (mask & 1) {
        meet(&job);
        fn(arg);
    }
    if (others) {
        idle(true);
        pthread_mutex_lock(&mutex);
        while (running)
            if (!take_kick())
                pthread_cond_wait(&done, &mutex);
        current = NULL;
        pthread_mutex_unlock(&mutex);
        idle(false);
    }
}

/* The cores this process may use: the mask may be narrower than the machine (taskset, containers).
 * Asked once, before CPU 0 pins itself and thereby narrows it. */
static const cpu_set_t *allowed(unsigned *count)
{
    static cpu_set_t set;
    static unsigned n;

    if (!n) {
        if (sched_getaffinity(0, sizeof(set), &set) != 0)
            CPU_SET(0, &set);
        n = (unsigned)CPU_COUNT(&set);
    }
    *count = n;
    return &set;
}

bool host_overcommitted(unsigned cpus)
{
    unsigned cores;

    allowed(&cores);
    return cpus > cores;
}

static void core_of_cpu(unsigned cpu, cpu_set_t *one)
{
    unsigned cores, nth;
    const cpu_set_t *set = allowed(&cores);

    nth = cpu % cores;
    CPU_ZERO(one);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, set) && nth-- == 0) {
            CPU_SET(core, one);
            return;
        }
    }
}

static bool thread_start(unsigned cpu)
{
    pthread_attr_t attr;
    pthread_t thread;
    cpu_set_t one;
    char name[16];
    bool ok;

    core_of_cpu(cpu, &one);
    pthread_attr_init(&attr);
    pthread_attr_setaffinity_np(&attr, sizeof(one), &one);
    ok = pthread_create(&thread, &attr, cpu_main, (void *)(uintptr_t)cpu) == 0;
    pthread_attr_destroy(&attr);
    if (ok) { /* so that whoever looks from outside knows which thread is which CPU */
        fmt(name, sizeof(name), "cpu%u", cpu);
        pthread_setname_np(thread, name);
    }
    return ok;
}

bool host_cpus_start(unsigned n)
{
    cpu_set_t one;

    CHECK_VALUES(n >= 1 && n <= MAX_CPUS, n, MAX_CPUS);
    host_crowded = host_overcommitted(n);
    /* Takes milliseconds once there are threads. Where it fails, plat_order_others() does. */
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    if (n > 1) {
        core_of_cpu(0, &one);
        pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    }
    for (; threads < n; threads++) {
        if (!thread_start(threads))
            return false;
    }
    __atomic_store_n(&host_cpu_number, n, __ATOMIC_RELEASE);
    return true;
}

/* -- time -------------------------------------------------------------------------------------- */

static u64 now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

/* One reading of both clocks: the closest of several, since the scheduler may come between the
 * two. */
static void read_clocks(u64 *cycles, u64 *ns)
{
    u64 best = ~(u64)0;

    for (unsigned i = 0; i < 16; i++) {
        u64 before = plat_cycles(), t = now_ns(), after = plat_cycles();

        if (after - before < best) {
            best = after - before;
            *cycles = before + (after - before) / 2;
            *ns = t;
        }
    }
}

/* Measured against the system's clock over 20 ms: CPUID names the frequency on some processors
 * only. */
static u64 measure_hz(void)
{
    u64 c0, t0, c1, t1;

    read_clocks(&c0, &t0);
    do {
        plat_sleep_ns(5000000);
        read_clocks(&c1, &t1);
    } while (t1 - t0 < 20000000);
    return (u64)((unsigned __int128)(c1 - c0) * 1000000000u / (t1 - t0));
}

u64 plat_cycles_hz(void)
{
    static u64 hz; /* atomic: who measures first says it for all */
    u64 known = __atomic_load_n(&hz, __ATOMIC_RELAXED), measured;

    if (likely(known))
        return known;
    measured = measure_hz();
    if (__atomic_compare_exchange_n(&hz, &known, measured, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
        return measured;
    return known;
}

/* A thread that does not run passed its barrier when it stopped, so this waits for nobody whom the host keeps
 * from running. */
bool plat_order_others(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* A CPU sleeps where a kick reaches it. */
static void cpu_sleep_ns(u64 ns)
{
    struct timespec until;
    u64 at;

    clock_gettime(CLOCK_MONOTONIC, &until);
    at = (u64)until.tv_sec * 1000000000u + (u64)until.tv_nsec + ns;
    until = (struct timespec){.tv_sec = (time_t)(at / 1000000000u),
                              .tv_nsec = (long)(at % 1000000000u)};
    pthread_mutex_lock(&mutex);
    while (take_kick() || pthread_cond_clockwait(&work, &mutex, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&mutex);
}

void plat_sleep_ns(u64 ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

    idle(true);
    if (plat_may_wait())
        cpu_sleep_ns(ns);
    else
        while (nanosleep(&t, &t) != 0 && errno == EINTR)
            ;
    idle(false);
}

struct timer {
    u64 period_ns;
    void (*fn)(void *arg);
    void *arg;
};

static void *timer_main(void *arg)
{
    struct timer t = *(struct timer *)arg;

    free(arg);
    host_cpu_id = MAX_CPUS;
    /* Threads have priorities of their own on Linux. Failing leaves it merely less polite. */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
    for (;;) {
        plat_sleep_ns(t.period_ns);
        t.fn(t.arg);
    }
}

bool host_timer_start(u64 period_ns, void (*fn)(void *arg), void *arg)
{
    struct timer *t = malloc(sizeof(*t));
    pthread_attr_t attr;
    pthread_t thread;
    unsigned cores;
    bool ok;

    if (!t)
        return false;
    *t = (struct timer){.period_ns = period_ns, .fn = fn, .arg = arg};
    pthread_attr_init(&attr);
    /* The caller's pinning would be inherited: any core will do. */
    pthread_attr_setaffinity_np(&attr, sizeof(cpu_set_t), allowed(&cores));
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    ok = pthread_create(&thread, &attr, timer_main, t) == 0;
    pthread_attr_destroy(&attr);
    if (!ok)
        free(t);
    return ok;
}
