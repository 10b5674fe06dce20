/* sched.c: who runs on a CPU, and the moment at which that changes.
 *
 * The idea: threads are pinned, so a CPU only ever chooses among its own. A run queue is a
 * first-come list with a lock, because another CPU may put a thread on it; round robin, one slice
 * each, cut short by the tick. What has nothing to run runs its idle thread, which is not on the
 * queue.
 *
 * The lock is given up *before* the stacks are switched: with interrupts off, no other CPU can take
 * the thread that is just leaving (it is pinned here), and this CPU gets to the queue again only
 * after the switch. So no lock is ever handed from thread to thread. The one thing that must not
 * happen in between is freeing the stack of a thread that exits; that waits for
 * sched_finish_switch() on the next thread's stack.
 *
 * A slice is a time, not a number of ticks: a hypervisor that held a CPU back delivers the ticks it
 * missed in a burst, and counting them took slices away that had hardly begun.
 *
 * It deliberately does not: migrate, steal, know priorities, or preempt a thread because another
 * woke up. A CPU halted in its idle thread is kicked by an interrupt; a busy one sees the newcomer
 * when its slice ends.
 *
 * Locking: a CPU's lock (class runqueue, interrupts off) guards its queue, its sleepers, and the
 * state of its threads; taken after threads_lock. Contexts: as sched.h says for each function. */
#include "sched.h"

#include "../base/fmt.h"
#include "../base/string.h"

struct spinlock threads_lock;

static u64 slice_cycles;
static struct cpu boot_cpu_struct;
static struct cpu *cpus[MAX_CPUS];

struct cpu *sched_cpu(unsigned cpu)
{
    return __atomic_load_n(&cpus[cpu], __ATOMIC_ACQUIRE);
}

struct cpu *sched_this_cpu(void)
{
    return __atomic_load_n(&cpus[plat_cpu_id()],
                           __ATOMIC_RELAXED); /* own entry: made before we run */
}

static void set_ready_count(struct cpu *c, unsigned n)
{
    __atomic_store_n(&c->ready_count, n, __ATOMIC_RELAXED);
}

/* Idle time is charged at each end of it and at each tick in between, so a sample is never more
 * than a tick behind. Interrupts off. */
static void idle_charge(struct cpu *c, bool still_idle)
{
    u64 now = plat_cycles();

    if (c->idle_since && now > c->idle_since)
        kernel_count(CPU_idle_cycles, now - c->idle_since);
    c->idle_since = still_idle ? now : 0;
}

void sched_finish_switch(void)
{
    struct cpu *c = sched_this_cpu();
    struct thread *z = c->zombie;

    if (likely(!z))
        return;
    c->zombie = NULL;
    thread_mark_dead(z);
}

void sched_switch_locked(struct cpu *c)
{
    struct thread *prev = c->current;
    struct list *first = list_pop_front(&c->ready);
    struct thread *next = first ? list_entry(first, struct thread, link) : c->idle;

    ASSERT(plat_irqs_off());
    ASSERT(machine_preempt_count() == 0);
    if (first)
        set_ready_count(c, c->ready_count - 1);
    next->state = THREAD_RUNNING;
    c->current = next;
    c->slice_end = plat_cycles() + slice_cycles;
    machine_need_resched(c->id, false);
    if (next != prev && prev->state == THREAD_DEAD)
        c->zombie = prev;
    spin_unlock(&c->lock);
    if (next == prev)
        return;

    kernel_count(CPU_switches, 1);
    if (prev == c->idle) {
        idle_charge(c, false);
        rcu_idle_exit();
    } else if (next == c->idle) {
        idle_charge(c, true);
        rcu_idle_enter();
    } else {
        rcu_context_switch();
    }
    machine_context_switch(&prev->sp, next->sp);
    sched_finish_switch();
}

void sched_make_ready_locked(struct cpu *c, struct thread *t)
{
    CHECK_VALUES(t->state != THREAD_RUNNING && t->state != THREAD_DEAD, t, t->state);
    t->state = THREAD_READY;
    list_push_back(&c->ready, &t->link);
    set_ready_count(c, c->ready_count + 1);
    if (c->current != c->idle)
        return;
    /* The idle thread makes nobody ready, so on our own CPU this is an interrupt, and its end will
     * look. A polling CPU sees the count. */
    if (c->id == plat_cpu_id())
        machine_need_resched(c->id, true);
    else if (knobs.idle == V_idle_hlt)
        machine_ipi_send(c->id, MACHINE_IPI_RESCHEDULE);
}

void sched_make_ready(struct thread *t)
{
    struct cpu *c = sched_cpu(t->cpu);
    unsigned long flags = spin_lock_irqsave(&c->lock);

    sched_make_ready_locked(c, t);
    spin_unlock_irqrestore(&c->lock, flags);
}

void sched_kicked(void)
{
    struct cpu *c = sched_this_cpu();

    /* A kick may come late, when the thread that it was for runs already: that one keeps its
     * slice. */
    if (c && c->current == c->idle)
        machine_need_resched(c->id, true);
}

void sched_preempt(void)
{
    struct cpu *c = sched_this_cpu();
    struct thread *t;

    if (!c)
        return; /* a CPU that is still starting has no thread to take it from */
    spin_lock(&c->lock);
    t = c->current;
    if (!t || list_empty(&c->ready)) {
        machine_need_resched(c->id, false);
        spin_unlock(&c->lock);
        return;
    }
    if (t != c->idle) {
        t->state = THREAD_READY;
        list_push_back(&c->ready, &t->link);
        set_ready_count(c, c->ready_count + 1);
        kernel_count(CPU_preemptions, 1);
    }
    sched_switch_locked(c);
}

/* Wakes whoever's time has come. c's lock held. */
static void wake_sleepers_locked(struct cpu *c)
{
    u64 now = plat_cycles();

    list_for_each(e, &c->sleepers)
    {
        struct thread *t = list_entry(e, struct thread, link);

        if (t->wake_at > now)
            break;
        list_remove(e);
        sched_make_ready_locked(c, t);
    }
}

void sched_tick(void)
{
    struct cpu *c = sched_this_cpu();

    if (unlikely(!c || !c->current))
        return;
    spin_lock(&c->lock);
    if (!list_empty(&c->sleepers))
        wake_sleepers_locked(c);
    if (c->current == c->idle)
        idle_charge(c, true);
    else if (c->ready_count > 0 && plat_cycles() >= c->slice_end)
        machine_need_resched(c->id, true);
    spin_unlock(&c->lock);
}

/* -- idle
 * -------------------------------------------------------------------------------------------- */

static bool something_ready(const struct cpu *c)
{
    return __atomic_load_n(&c->ready_count, __ATOMIC_RELAXED) > 0;
}

static void idle_switch(struct cpu *c)
{
    unsigned long flags = plat_irq_save();

    spin_lock(&c->lock);
    sched_switch_locked(c);
    plat_irq_restore(flags);
}

static void idle_loop(void *arg)
{
    struct cpu *c = arg;

    for (;;) {
        unsigned long flags;

        if (something_ready(c)) {
            idle_switch(c);
            continue;
        }
        if (knobs.idle == V_idle_poll) {
            plat_relax();
            continue;
        }
        flags = plat_irq_save();
        if (!something_ready(
                c)) /* a kick after this look ends the halt: they are off until it begins */
            machine_idle();
        plat_irq_restore(flags);
    }
}

/* -- bring-up
 * ---------------------------------------------------------------------------------------- */

static void cpu_init(struct cpu *c, unsigned id)
{
    c->id = id;
    fmt(c->name, sizeof(c->name), "cpu%u", id);
    list_init(&c->ready);
    list_init(&c->sleepers);
    spin_init(&c->lock, LOCKCLASS_runqueue, c->name);
}

void sched_init(void)
{
    slice_cycles = plat_cycles_hz() / 1000 * SLICE_MS;
    spin_init(&threads_lock, LOCKCLASS_threads, "kernel");
    cpu_init(&boot_cpu_struct, 0);
}

bool sched_cpus_init(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct cpu *c = &boot_cpu_struct;

        if (i > 0) {
            c = alloc_pages(kheap, 0);
            if (!c)
                return false;
            memset(c, 0, sizeof(*c));
            cpu_init(c, i);
        }
        c->idle = thread_create_idle(i, idle_loop, c);
        if (!c->idle)
            return false;
        __atomic_store_n(&cpus[i], c, __ATOMIC_RELEASE);
    }
    return true;
}

void sched_enter(unsigned cpu)
{
    struct cpu *c = sched_this_cpu();
    void *boot_sp; /* nobody comes back to the boot stack */

    CHECK_VALUES(c && c->id == cpu, cpu, c);
    CHECK(plat_irqs_off());
    spin_lock(&c->lock);
    c->idle->state = THREAD_RUNNING;
    c->current = c->idle;
    c->slice_end = plat_cycles() + slice_cycles;
    spin_unlock(&c->lock);
    idle_charge(c, true);
    rcu_idle_enter();
    machine_tick_set(TICK_HZ);
    machine_context_switch(&boot_sp, c->idle->sp);
    machine_halt();
}

_Static_assert(sizeof(struct cpu) <= PAGE_SIZE, "a struct cpu is taken from one page");
