/* sched_test.c: what every boot with selfcheck=1 asks of its own scheduler before it measures
 * anything with it.
 *
 * A workload that never ran beside another, or was never preempted, would give numbers all the
 * same; so each promise that the workloads lean on is tried once on the machine at hand: interrupts
 * arrive on every CPU, a thread runs where it was pinned, yield alternates, the tick preempts a
 * thread that never yields, disabling preemption holds it off, and a sleep lasts as long as was
 * asked. A broken promise stops the machine.
 *
 * It takes about 60 ms, most of it waiting for slices to end.
 *
 * Locking: none. Contexts: thread, CPU 0, while nothing else runs. */
#include "sched.h"

#define ALTERNATIONS 200u
#define SLEEP_NS     6000000u

/* Shared by the threads of one step; each step clears what it uses. */
static struct {
    unsigned ran_on;   /* relaxed */
    bool flag;         /* release/acquire */
    bool held, tried;  /* relaxed: preemption is off; was ever off while it was wanted */
    unsigned turns[2]; /* relaxed; each written by one thread */
    unsigned arrived;  /* relaxed */
} step;

static u64 one_second(void)
{
    return plat_cycles_hz();
}

static void nothing(void *arg)
{
    (void)arg;
}

/* Two, which is as many as any step has at once: they wait in the pool from then on. */
static bool make_threads(void)
{
    struct thread *a = thread_create(0, nothing, NULL, "selftest");
    struct thread *b = thread_create(0, nothing, NULL, "selftest");

    if (a)
        thread_join(a);
    if (b)
        thread_join(b);
    return a && b;
}

static struct thread *start(unsigned cpu, void (*fn)(void *), void *arg)
{
    struct thread *t = thread_create(cpu, fn, arg, "selftest");

    CHECK(t != NULL); /* make_threads() */
    return t;
}

/* -- a thread runs where it was pinned -- */

static void tell_where(void *arg)
{
    (void)arg;
    __atomic_store_n(&step.ran_on, plat_cpu_id(), __ATOMIC_RELAXED);
}

static void check_pinning(void)
{
    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++) {
        __atomic_store_n(&step.ran_on, MAX_CPUS, __ATOMIC_RELAXED);
        thread_join(start(cpu, tell_where, NULL));
        CHECK_VALUES(__atomic_load_n(&step.ran_on, __ATOMIC_RELAXED) == cpu, step.ran_on, cpu);
    }
}

/* -- two threads that yield take turns -- */

static void alternate(void *arg)
{
    unsigned me = arg != NULL;
    unsigned long flags = plat_irq_save(); /* so that the tick takes no turn away */

    __atomic_fetch_add(&step.arrived, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&step.arrived, __ATOMIC_RELAXED) < 2) {
        plat_irq_restore(flags);
        thread_yield();
        flags = plat_irq_save();
    }
    for (unsigned i = 0; i < ALTERNATIONS; i++) {
        unsigned mine = __atomic_add_fetch(&step.turns[me], 1, __ATOMIC_RELAXED);
        unsigned other = __atomic_load_n(&step.turns[!me], __ATOMIC_RELAXED);

        CHECK_VALUES(mine <= other + 2, mine, other);
        thread_yield();
    }
    plat_irq_restore(flags);
}

static void check_alternation(unsigned cpu)
{
    struct thread *a = start(cpu, alternate, NULL), *b = start(cpu, alternate, &step);

    thread_join(a);
    thread_join(b);
    CHECK_VALUES(step.turns[0] == ALTERNATIONS && step.turns[1] == ALTERNATIONS, step.turns[0],
                 step.turns[1]);
}

/* -- the tick preempts a thread that never yields -- */

static void spin_for_flag(void *arg)
{
    u64 until = plat_cycles() + one_second();

    (void)arg;
    while (!__atomic_load_n(&step.flag, __ATOMIC_ACQUIRE)) {
        if (plat_cycles() > until)
            PANIC(PANIC_check_failed, "the tick did not preempt in 1 s", plat_cpu_id(), 0);
        plat_relax();
    }
}

static void raise_flag(void *arg)
{
    (void)arg;
    CHECK_VALUES(!__atomic_load_n(&step.held, __ATOMIC_RELAXED), plat_cpu_id(), 0);
    __atomic_store_n(&step.flag, true, __ATOMIC_RELEASE);
}

static void check_preemption(unsigned cpu)
{
    struct thread *a, *b;

    __atomic_store_n(&step.flag, false, __ATOMIC_RELAXED);
    a = start(cpu, spin_for_flag, NULL);
    b = start(cpu, raise_flag, NULL);
    thread_join(a);
    thread_join(b);
}

/* -- preemption that is disabled stays away, and comes at once when it is enabled -- */

static void hold(void *arg)
{
    u64 until = plat_cycles() + one_second();

    (void)arg;
    plat_preempt_disable();
    if (__atomic_load_n(&step.flag, __ATOMIC_ACQUIRE)) { /* our slice ended before we came here */
        plat_preempt_enable();
        return;
    }
    __atomic_store_n(&step.tried, true, __ATOMIC_RELAXED);
    __atomic_store_n(&step.held, true, __ATOMIC_RELAXED);
    while (!machine_resched_needed()) { /* wanted only once the other thread is ready */
        if (plat_cycles() > until)
            PANIC(PANIC_check_failed, "no slice ended in 1 s", plat_cpu_id(), 0);
        plat_relax();
    }
    __atomic_store_n(&step.held, false, __ATOMIC_RELAXED);
    plat_preempt_enable();
    CHECK_VALUES(__atomic_load_n(&step.flag, __ATOMIC_ACQUIRE), plat_cpu_id(), 0);
}

static void try_holding(unsigned cpu)
{
    struct thread *a, *b;

    __atomic_store_n(&step.flag, false, __ATOMIC_RELAXED);
    /* With one CPU we share it, and b must be ready before a's slice ends. */
    plat_preempt_disable();
    a = start(cpu, hold, NULL);
    b = start(cpu, raise_flag, NULL);
    plat_preempt_enable();
    thread_join(a);
    thread_join(b);
}

static void check_holding(unsigned cpu)
{
    for (unsigned i = 0; i < 20 && !__atomic_load_n(&step.tried, __ATOMIC_RELAXED); i++)
        try_holding(cpu);
    CHECK(__atomic_load_n(&step.tried, __ATOMIC_RELAXED));
}

/* -- a sleep -- */

static void check_sleep(void)
{
    u64 from = plat_cycles(), took;

    plat_sleep_ns(SLEEP_NS);
    took = plat_cycles() - from;
    CHECK_VALUES(took >= one_second() / 1000 * (SLEEP_NS / 1000000), took, plat_cycles_hz());
}

bool sched_selftest(void)
{
    unsigned last = plat_cpu_count() - 1;

    irq_selftest();
    if (!make_threads())
        return false;
    check_pinning();
    check_alternation(last);
    check_preemption(last);
    check_holding(last);
    check_sleep();
    return true;
}
