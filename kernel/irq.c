/* irq.c: what the kernel does when an interrupt arrives: the tick, messages between CPUs,
 * exceptions, and the way back out, which is where preemption happens.
 *
 * The tick's order matters: the scheduler first, so that a late telemetry sample delays no thread;
 * the deadline next, so that a hang in what follows does not hide it.
 *
 * The deadline is CPU 0's to call; should CPU 0 be stuck with interrupts off, the others do so half
 * a second later. It ends the boot in good order (a bye with outcome "deadline"), says on the
 * console where every CPU was, and is no panic.
 *
 * Locking: none here. Contexts: interrupt, interrupts off, unless said otherwise. */
#include "sched.h"

#include "telemetry/telemetry.h"

static u64 deadline_cycles; /* 0: never. Fixed after irq_init() */
static struct {
    unsigned count; /* test interrupts taken; written by its CPU, read relaxed */
} ALIGNED(CACHE_LINE) tests_taken[MAX_CPUS];

static void deadline_end(const void *regs)
{
    stop_the_others(regs);
    console_write_panic("HAYLOFT-DEADLINE ms=%llu cpu=%u\n", (unsigned long long)knobs.deadline,
                        plat_cpu_id());
    stop_print();
    telemetry_emergency_bye("deadline", "the boot outlived deadline=");
    machine_sink_sync();
    machine_exit(16 + PLAT_EXIT_FAILED);
}

static void deadline_check(const void *regs)
{
    u64 at = deadline_cycles;

    if (!at)
        return;
    if (plat_cpu_id() != 0)
        at += plat_cycles_hz() / 2;
    if (unlikely(plat_cycles() >= at))
        deadline_end(regs);
}

void kernel_tick(const void *regs)
{
    bool idle = rcu_irq_enter();

    kernel_count(CPU_ticks, 1);
    sched_tick();
    deadline_check(regs);
    rcu_tick();
    telemetry_tick(plat_cpu_id());
    if (idle)
        rcu_idle_enter();
}

void kernel_ipi(enum machine_ipi kind, const void *regs)
{
    unsigned cpu = plat_cpu_id();
    bool idle = rcu_irq_enter();

    (void)regs;
    kernel_count(CPU_ipis, 1);
    if (kind == MACHINE_IPI_RESCHEDULE)
        sched_kicked();
    else if (kind == MACHINE_IPI_KICK)
        heap_drain_serve(kheap);
    else
        __atomic_store_n(&tests_taken[cpu].count, tests_taken[cpu].count + 1, __ATOMIC_RELEASE);
    if (idle)
        rcu_idle_enter();
}

bool plat_kick(unsigned cpu)
{
    machine_ipi_send(cpu, MACHINE_IPI_KICK);
    return true;
}

bool plat_may_wait(void)
{
    return !plat_irqs_off();
}

void kernel_irq_exit(void)
{
    if (machine_resched_needed() && machine_preempt_count() == 0)
        sched_preempt();
}

/* Thread context, from plat_preempt_enable(). */
void kernel_preempt(void)
{
    unsigned long flags;

    if (plat_irqs_off())
        return; /* the flag stays up; the end of the next interrupt sees to it */
    flags = plat_irq_save();
    if (machine_resched_needed() && machine_preempt_count() == 0)
        sched_preempt();
    plat_irq_restore(flags);
}

void kernel_nmi(const void *regs)
{
    stop_nmi(regs);
}

/* -- exceptions
 * -------------------------------------------------------------------------------------- */

#define VECTOR_DOUBLE_FAULT 8u
#define VECTOR_PAGE_FAULT   14u

void kernel_trap(const struct machine_trap *trap)
{
    struct panic_info info = {
        .kind = PANIC_trap,
        .text = trap->name ? trap->name : "unexpected exception",
        .file = __FILE__,
        .line = __LINE__,
        .value = {trap->vector, trap->error, trap->ip, trap->fault_address},
        .regs = trap->regs,
    };

    /* A push into the hole cannot push the page fault's frame either: it arrives as a double
     * fault. */
    if ((trap->vector == VECTOR_DOUBLE_FAULT || trap->vector == VECTOR_PAGE_FAULT) &&
        machine_is_guard(trap->fault_address))
        info.kind = PANIC_stack_overflow;
    else if (trap->vector == VECTOR_DOUBLE_FAULT)
        info.kind = PANIC_double_fault;
    plat_panic(&info);
}

/* -- bring-up
 * ---------------------------------------------------------------------------------------- */

static void quiet(bool on)
{
    unsigned long flags = plat_irq_save();

    sched_this_cpu()->quiet = on;
    machine_tick_set(on ? 0 : TICK_HZ);
    plat_irq_restore(flags);
}

void irq_hooks_init(void)
{
    kernel_hooks.tick_hz = TICK_HZ;
    kernel_hooks.quiet = quiet;
    kernel_hooks.yield = thread_yield;
    kernel_hooks.reset = machine_reset;
}

void irq_deadline_start(u64 from)
{
    if (knobs.deadline)
        deadline_cycles = from + knobs.deadline * (plat_cycles_hz() / 1000);
}

/* On each CPU in turn: does an interrupt that it sends itself come back? */
static void test_self(void *arg)
{
    unsigned cpu = plat_cpu_id();
    unsigned before = __atomic_load_n(&tests_taken[cpu].count, __ATOMIC_ACQUIRE);
    u64 until = plat_cycles() + plat_cycles_hz();

    (void)arg;
    machine_ipi_send(cpu, MACHINE_IPI_TEST);
    while (__atomic_load_n(&tests_taken[cpu].count, __ATOMIC_ACQUIRE) == before) {
        if (plat_cycles() > until)
            PANIC(PANIC_boot, "an interrupt that a CPU sent itself did not arrive in 1 s", cpu, 0);
        plat_relax();
    }
}

void irq_selftest(void)
{
    plat_run_on_cpus(plat_all_cpus(), test_self, NULL);
}
