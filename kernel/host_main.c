/* host_main.c: what kernel/main.c is on metal, for the hosted machine: the order in which things
 * come up, the console, the last word of a panic, and the one timer thread that stands in for every
 * CPU's tick.
 *
 * The order is the metal kernel's, with the lines left out that need interrupts: the heap's and the
 * locks' rows exist before the CPU count is published, and the CPUs are threads that sleep until
 * the laboratory calls them.
 *
 * The timer thread samples each CPU in turn and keeps the deadline. It is no CPU: it runs at the
 * lowest priority and wakes as seldom as the sampling rate allows, since on a small machine it
 * takes its time from a CPU.
 *
 * Locking: `ending` (compare-and-swap) decides whether the laboratory or the deadline ends the
 * process. Contexts: CPU 0, or the timer thread, as each function says. */
#include "kernel.h"

#include "../base/fmt.h"
#include "../base/host.h"
#include "../base/string.h"
#include "telemetry/telemetry.h"

#define TIMER_HZ_MIN 20u /* telemetry_tick() moves bytes to the port too */
#define PANIC_FRAMES 24u

static struct bootinfo *boot;
static u64 started_at;  /* cycles */
static unsigned ending; /* atomic; 1: somebody ends the process */

void klog(const char *format, ...)
{
    char line[LOG_LINE_MAX];
    va_list args;
    size_t n;

    va_start(args, format);
    n = klog_line(line, (plat_cycles() - started_at) / (plat_cycles_hz() / 1000000u), format, args);
    va_end(args);
    host_console_write(line, n); /* one write: lines of different CPUs do not mix */
}

/* -- ends -------------------------------------------------------------------------------------- */

static bool claim_the_end(void)
{
    unsigned nobody = 0;

    return __atomic_compare_exchange_n(&ending, &nobody, 1, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* Ends a boot that cannot even say hello. */
static NORETURN void refuse(const char *reason)
{
    left_out_tell();
    telemetry_emergency_bye("refused", reason);
    plat_exit(PLAT_EXIT_REFUSED);
}

static NORETURN void refuse_having(const char *reason, u64 have, const char *of_have, u64 need)
{
    char told[200];

    klog("HAYLOFT-REFUSED reason=\"%s\" have=%llu need=%llu", reason, (unsigned long long)have,
         (unsigned long long)need);
    fmt(told, sizeof(told), "%s: %llu KiB %s, %llu KiB needed", reason,
        (unsigned long long)have >> 10, of_have, (unsigned long long)need >> 10);
    refuse(told);
}

/* There is a heap, and it has no block of so many bytes. */
static NORETURN void refuse_without(const char *what, u64 bytes)
{
    struct memory_refusal r;

    memory_refusal(&r, boot->memory_bytes, what, bytes);
    refuse_having(r.reason, r.have, r.of_have, r.need);
}

/* Of something that is not memory. */
static NORETURN void refuse_machine(const char *reason)
{
    klog("HAYLOFT-REFUSED reason=\"%s\"", reason);
    refuse(reason);
}

static void check_memory(void)
{
    u64 enough = memory_enough(boot->cpus);

    if (boot->memory_bytes < enough)
        refuse_having("too little memory", boot->memory_bytes, "usable", enough);
}

/* The thread that panics, whichever it is. */
static void send_panic(const struct panic_info *info, const u64 *addr, unsigned n)
{
    static struct telemetry_frame frame[PANIC_FRAMES];
    struct telemetry_panic panic = {
        .info = info,
        .here = {.cpu = plat_cpu_id(), .frames = MIN(n, PANIC_FRAMES), .frame = frame},
    };

    for (unsigned i = 0; i < panic.here.frames; i++) {
        frame[i].address = addr[i];
        frame[i].symbol = host_symbol(addr[i], &frame[i].offset);
    }
    telemetry_panic(&panic);
}

/* Timer thread. The CPUs run on: nothing can stop them, and nothing they write leaves any more. */
static void deadline_end(void)
{
    char line[80];
    size_t n;

    if (!claim_the_end())
        return;
    n = fmt(line, sizeof(line), "HAYLOFT-DEADLINE ms=%llu cpu=0\n",
            (unsigned long long)knobs.deadline);
    host_console_write(line, n);
    telemetry_emergency_bye("deadline", "the boot outlived deadline=");
    plat_exit(PLAT_EXIT_FAILED);
}

static void on_timer(void *arg)
{
    u64 at = *(const u64 *)arg;

    if (at && plat_cycles() >= at)
        deadline_end();
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++)
        telemetry_tick(cpu);
}

/* A CPU without a job, or asleep, holds up no grace period. Its callbacks wait for its next job. */
static void cpu_idle(bool idle)
{
    if (idle) {
        rcu_quiescent();
        rcu_idle_enter();
    } else {
        rcu_idle_exit();
    }
}

/* Memory is short elsewhere: called at quiescent states, and on idle CPUs when they are kicked. */
static void serve_drain(void)
{
    heap_drain_serve(kheap);
}

/* -- bring-up, CPU 0 --------------------------------------------------------------------------- */

static void make_heap(void)
{
    static struct mem_range range[BOOT_MAX_RANGES];
    u64 need = 0;

    for (unsigned i = 0; i < boot->ranges; i++)
        range[i] = (struct mem_range){boot->range[i].base, boot->range[i].pages};
    kheap = heap_init(&knobs, range, boot->ranges, &need);
    if (!kheap)
        refuse_having("too little memory for a heap", boot->memory_bytes, "usable",
                      MAX(memory_enough(boot->cpus), need));
}

static void make_heap_cpus(unsigned cpus)
{
    if (!heap_cpus_init(kheap, cpus))
        refuse_without("the heap's CPU rows", PLAT_CPU_STRIDE * cpus);
}

static void make_lock_rows(unsigned cpus)
{
    size_t bytes = lockstat_bytes(cpus);
    unsigned order = 0;
    void *rows;

    while ((PAGE_SIZE << order) < bytes)
        order++;
    rows = order <= MAX_ORDER ? alloc_pages(kheap, order) : NULL;
    if (!rows)
        refuse_without("lock rows", bytes);
    memset(rows, 0, PAGE_SIZE << order);
    lockstat_init(&knobs, cpus, rows);
}

static void start_cpus(unsigned cpus)
{
    if (!host_cpus_start(cpus))
        refuse_machine("this machine gives no thread for a CPU");
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        boot->cpu[cpu].started = true;
    if (host_overcommitted(cpus))
        klog("over-committed: more CPUs than cores that this process may use");
}

static void start_timer(void)
{
    static u64 deadline; /* cycles; 0: never */
    u64 hz = MAX(knobs.telemetry_hz, (u64)TIMER_HZ_MIN);

    if (knobs.deadline)
        deadline = started_at + plat_cycles_hz() / 1000 * knobs.deadline;
    if (!host_timer_start(1000000000u / hz, on_timer, &deadline))
        refuse_machine("this machine gives no thread for the timer");
}

static void read_arguments(void)
{
    arguments_read(boot->args, true, boot->cpus);
    /* The tool sets overcommit=; run by hand, the platform knows. What depends on it is refused
     * either way. */
    if (!knobs.overcommit && host_overcommitted(boot->cpus_found)) {
        knobs.overcommit = 1;
        (void)knobs_check(&knobs, &knob_refused);
    }
}

void host_entry(struct bootinfo *info)
{
    enum plat_exit how;
    unsigned cpus;

    started_at = plat_cycles();
    boot = info;
    host_panic_handler_set(send_panic);
    kernel_hooks.cpus_run_on = true;
    read_arguments(); /* before anything whose shape a knob decides */
    check_memory();   /* what is refused here needs no heap to be said */
    cpus = MIN(info->cpus, (unsigned)knobs.maxcpus);
    lockstat_init(&knobs, 1, NULL); /* the lock algorithm, before any lock is fought over */
    rcu_init();                     /* whoever frees may defer it from now on */
    host_idle_handler_set(cpu_idle);
    host_kick_handler_set(serve_drain);
    rcu_set_quiescent_handler(serve_drain);
    make_heap();               /* one CPU's worth, every front end bypassed */
    provoke_at(PROVOKE_EARLY); /* the CPUs are known, their rows are not made */
    make_heap_cpus(cpus);
    make_lock_rows(cpus);
    provoke_at(PROVOKE_EARLY); /* rows made, only CPU 0 counted */
    start_cpus(cpus);          /* the count is published */
    if (!telemetry_init())     /* rings for the CPUs that run */
        refuse_without("telemetry", 0);
    klog("Hayloft hosted: %u CPUs, %llu MiB, TSC %llu kHz, args: %s", plat_cpu_count(),
         (unsigned long long)(info->memory_bytes >> 20),
         (unsigned long long)(info->cycles_hz / 1000), info->args);
    start_timer(); /* from here on samples leave, and the deadline holds */
    how = lab_run(info);
    while (!claim_the_end())
        plat_sleep_ns(1000000); /* the deadline was first and ends the process */
    plat_exit(how);
}
