/* main.c: the order in which the metal kernel comes up. It is a list, one call a line with its
 * reason, and the order is the point: each line may rely on those above it and on nothing else.
 *
 * The CPU count is the last thing about CPUs to become true. Whoever reads plat_cpu_count() finds
 * every per-CPU table as long as that, and whoever runs before may allocate all the same
 * (provoke=early-alloc).
 *
 * A refused argument does not stop the bring-up: the laboratory says hello, what was refused and
 * bye. Only a machine that is unfit ends here, with a line on the console and a bye: too small for a heap,
 * without a clock, or without the port that telemetry goes to. Without telemetry a boot has nothing to
 * tell, and the console is not where anybody looks for figures.
 *
 * Locking: none. Contexts: boot CPU on its boot stack with interrupts off, until sched_enter(). */
#include "sched.h"

#include "../base/fmt.h"
#include "../base/leftout.h"
#include "../base/string.h"
#include "telemetry/telemetry.h"

static struct bootinfo *boot;
static bool
    cpus_released; /* release/acquire: everything that a started CPU's scheduler needs is there */

/* Ends a boot that cannot even say hello. */
static NORETURN void refuse_having(const char *reason, u64 have, const char *of_have, u64 need)
{
    char told[200];

    left_out_tell();
    klog("HAYLOFT-REFUSED reason=\"%s\" have=%llu need=%llu", reason, (unsigned long long)have,
         (unsigned long long)need);
    fmt(told, sizeof(told), "%s: %llu KiB %s, %llu KiB needed", reason,
        (unsigned long long)have >> 10, of_have, (unsigned long long)need >> 10);
    telemetry_emergency_bye("refused", told);
    plat_exit(PLAT_EXIT_REFUSED);
}

static NORETURN void refuse_machine(const char *reason)
{
    left_out_tell();
    klog("HAYLOFT-REFUSED reason=\"%s\"", reason);
    telemetry_emergency_bye("refused", reason);
    plat_exit(PLAT_EXIT_REFUSED);
}

static void check_machine(void)
{
    if (boot->unfit)
        refuse_machine(boot->unfit);
}

/* CPUs that the user did not ask for are not left out. */
static void account_for_cpus(void)
{
    unsigned all = boot->cpus_found;
    unsigned wanted = knobs.maxcpus == MAX_CPUS ? all : MIN(all, (unsigned)knobs.maxcpus);

    if (boot->cpus_unread && knobs.maxcpus > 1)
        left_out(LEFT_OUT_cpu_list, 1, 1, boot->cpus_unread);
    if (wanted > boot->cpus)
        left_out(LEFT_OUT_cpus, wanted - boot->cpus, all, boot->cpus_why);
}

static NORETURN void refuse(const char *reason, u64 at_least)
{
    refuse_having(reason, boot->memory_bytes, "usable", MAX(memory_enough(boot->cpus), at_least));
}

/* There is a heap, and it has no block of so many bytes. */
static NORETURN void refuse_without(const char *what, u64 bytes)
{
    struct memory_refusal r;

    memory_refusal(&r, boot->memory_bytes, what, bytes);
    refuse_having(r.reason, r.have, r.of_have, r.need);
}

static void check_memory(void)
{
    if (boot->memory_bytes < memory_enough(boot->cpus))
        refuse("too little memory", 0);
}

static void make_heap(void)
{
    static struct mem_range range[BOOT_MAX_RANGES]; /* too large for a boot stack */
    u64 need = 0;

    for (unsigned i = 0; i < boot->ranges; i++)
        range[i] = (struct mem_range){boot->range[i].base, boot->range[i].pages};
    kheap = heap_init(&knobs, range, boot->ranges, &need);
    if (!kheap)
        refuse("too little memory for a heap", need);
}

static void *zeroed_pages(size_t bytes, const char *what)
{
    unsigned order = 0;
    void *p;

    while ((PAGE_SIZE << order) < bytes)
        order++;
    p = order <= MAX_ORDER ? alloc_pages(kheap, order) : NULL;
    if (!p)
        refuse_without(what, bytes);
    memset(p, 0, PAGE_SIZE << order);
    return p;
}

static void make_heap_cpus(unsigned limit)
{
    if (!heap_cpus_init(kheap, limit))
        refuse_without("the heap's CPU rows", PLAT_CPU_STRIDE * limit);
}

/* Returns how many run; boot->cpu[] has those that were left out behind them, and lab.c tells. */
static unsigned start_cpus(unsigned limit)
{
    void *memory = zeroed_pages(machine_cpu_bytes() * limit, "CPU stacks");
    unsigned running = machine_start_cpus(boot, limit, memory);

    for (unsigned i = running; i < limit; i++) {
        const char *why = boot->cpu[i].trouble;

        klog("the CPU with APIC id %u was left out: %s", boot->cpu[i].apic_id, why ? why : "");
    }
    return running;
}

/* The first thread: the laboratory, on CPU 0. */
static void lab_thread(void *arg)
{
    enum plat_exit how;

    (void)arg;
    if (knobs.selfcheck &&
        !sched_selftest()) /* nothing below could tell if a CPU took no interrupts */
        refuse_without("the threads of the scheduler's self-test", 0);
    if (!telemetry_init()) /* rings for the CPUs that really run */
        refuse_without("telemetry", 0);
    how = lab_run(boot); /* hello … bye */
    plat_exit(how);
}

/* A port that is missing swallows what is written to it. If it is the telemetry's, the bye that says so
 * goes to COM2: it is telemetry's own port or, if that is the one missing, nobody's. */
static void choose_sink(void)
{
    bool shared = knobs.telemetry_port == V_telemetry_port_com1;

    machine_sink_select(shared ? 1 : 2);
    if (!machine_port_present(shared ? 1 : 2)) {
        machine_sink_select(2);
        refuse_machine(shared ? "telemetry.port=com1: there is no serial port COM1"
                              : "telemetry.port=com2: there is no serial port COM2; with "
                                "telemetry.port=com1 telemetry shares the console's");
    }
    if (!machine_port_present(1))
        left_out(LEFT_OUT_console, 1, 1, "there is no serial port COM1");
}

static void make_lock_rows(unsigned limit)
{
    size_t bytes = lockstat_bytes(limit);

    lockstat_init(&knobs, limit, zeroed_pages(bytes, "lock rows"));
}

static void make_threads(unsigned running)
{
    if (!sched_cpus_init(running))
        if (!sched_cpus_init(running))
            refuse_without("idle threads", MACHINE_STACK_BYTES);
    if (!run_init(running))
        refuse_without("worker threads", MACHINE_STACK_BYTES);
    if (!thread_create(0, lab_thread, NULL, "lab"))
        refuse_without("the laboratory's thread", MACHINE_STACK_BYTES);
}

static void say_what_runs(unsigned running)
{
    klog("Hayloft: %u CPUs, %llu MiB, TSC %llu kHz, args: %s", running,
         (unsigned long long)(boot->memory_bytes >> 20),
         (unsigned long long)(boot->cycles_hz / 1000), boot->args);
    klog("the TSC's rate is known from %s, within %llu Hz", boot->clock,
         (unsigned long long)boot->cycles_error);
}

static void release_cpus(void)
{
    __atomic_store_n(&cpus_released, true, __ATOMIC_RELEASE);
}

void kernel_entry(struct bootinfo *info)
{
    u64 entered = plat_cycles();
    unsigned limit, running;

    boot = info;
    console_init();   /* first, so that whatever fails next can be said */
    irq_hooks_init(); /* provoke= is checked against what this machine can do */
    /* before anything whose shape a knob decides */
    arguments_read(info->args, false, info->cpus);
    choose_sink();                  /* a panic sends its record there */
    check_machine();                /* what is refused can be said now */
    account_for_cpus();             /* those that are wanted and cannot run */
    check_memory();                 /* what is refused here needs no heap to be said */
    sched_init();                   /* the scheduler's locks, before a lock's row has a number */
    lockstat_init(&knobs, 1, NULL); /* the lock algorithm, before any lock is fought over */
    rcu_init();                     /* whoever frees may defer it from now on */
    make_heap();                    /* one CPU's worth, every front end bypassed */
    provoke_absent_cpu(info);       /* before anybody counts what the firmware listed */
    limit = MIN(info->cpus, (unsigned)knobs.maxcpus);
    provoke_at(PROVOKE_EARLY);   /* the CPUs are known, their rows are not made */
    make_heap_cpus(limit);       /* rows and arrays of all, before any but CPU 0 can run */
    make_lock_rows(limit);       /* the same for the locks */
    provoke_at(PROVOKE_EARLY);   /* rows made, only the boot CPU counted */
    running = start_cpus(limit); /* the count is published; they wait in kernel_cpu_started() */
    make_threads(running);       /* run queues, idle threads and workers of those that came */
    say_what_runs(running);
    irq_deadline_start(entered); /* before the first tick, which looks at it */
    release_cpus();              /* nothing that a scheduler needs is missing now */
    sched_enter(0);              /* ticks on, interrupts on, the laboratory runs */
}

void kernel_cpu_started(unsigned cpu)
{
    stop_cpu_alive(cpu);       /* a panic anywhere has this CPU to stop from now on */
    provoke_at(PROVOKE_EARLY); /* running, with nothing of the scheduler there yet */
    /* It waits with interrupts off, which is otherwise forbidden: nobody knows it yet, so nobody
     * needs it. */
    while (!__atomic_load_n(&cpus_released, __ATOMIC_ACQUIRE))
        plat_relax();
    sched_enter(cpu);
}
