/* rcu.c: grace periods by quiescent states.
 *
 * The idea: a read section disables preemption, so a CPU that passes a moment outside any (a
 * quiescent state) has left all that it was in before. A grace period begins by noting which CPUs
 * are awake; each strikes itself off at its next quiescent state; when nobody is left, whoever was
 * reading at the beginning has stopped. One grace period runs at a time. Who comes while one runs
 * waits for the next, since the current one may have begun before what it took away was gone.
 *
 *   callbacks of a CPU: next (asked for nothing yet) → wait (for the end of wait_for) → ready → run
 *
 * Quiescent states: a context switch, a tick outside a read section, rcu_quiescent() in a loop, and
 * being idle. An idle CPU says so once (`awake`) and is not asked any more: it may have no tick.
 * An interrupt that finds its CPU idle wakes it for its own length.
 *
 * A CPU of the hosted machine is a thread, which the host may keep from running for milliseconds, and
 * it would hold up everybody's memory for as long; on metal nothing of the kind happens. So there,
 * whoever waits looks at the CPUs that have not reported for LOOK_US: one that is in no read section
 * is struck off (docs/RACES.md 2.22).
 *
 * Nobody waits for a grace period on an allocation path. A grace period that a CPU has held up for
 * a second is told, once, by whoever notices (docs/RACES.md 2.12 to 2.14 has the reasoning).
 *
 * It deliberately does not: expedite, wake idle CPUs for their callbacks (a tick, or the next job,
 * does), or move callbacks between CPUs.
 *
 * Locking: `rcu` (class rcu, a leaf) guards the state of the grace period; it is taken once a CPU
 * and grace period. A CPU's lists are its own, interrupts off. Callbacks run without the lock.
 * Contexts: see rcu.h. */
#include "sync.h"
#include "../base/guard.h"

#define RUN_AT_MOST 32u /* callbacks at one quiescent state: a tick has other things to do */
#define LOOK_US     10u /* age of a grace period at which the CPUs that hold it up are looked at */

struct rcu_cpu rcu_cpus[MAX_CPUS];
u64 rcu_started; /* written under the lock */

static struct {
    struct spinlock lock;
    /* under lock */
    u64 wanted;  /* somebody waits for grace periods up to this one */
    u64 holding; /* CPUs that have not passed a quiescent state since the current one began; relaxed
                    reads elsewhere */

    /* atomic; written under lock */
    u64 completed;
    u64 began; /* cycles */
    u64 told;  /* the grace period whose silent CPUs were named last */
    u32 looks; /* in the current one */

    void (*silent)(unsigned cpu, u64 cycles); /* atomic */
    void (*quiescent)(void);                  /* atomic */
} rcu;

/* -- lists -- */

static void list_reset(struct rcu_list *l)
{
    l->first = NULL;
    l->tail = &l->first;
}

static void append(struct rcu_list *l, struct rcu_head *head)
{
    head->next = NULL;
    *l->tail = head;
    l->tail = &head->next;
}

static void move_all(struct rcu_list *to, struct rcu_list *from)
{
    if (!from->first)
        return;
    *to->tail = from->first;
    to->tail = from->tail;
    list_reset(from);
}

static struct rcu_head *pop(struct rcu_list *l)
{
    struct rcu_head *head = l->first;

    if (!head)
        return NULL;
    l->first = head->next;
    if (!l->first)
        l->tail = &l->first;
    return head;
}

static struct rcu_cpu *mine(void)
{
    return &rcu_cpus[plat_cpu_id()];
}

static void queued_add(struct rcu_cpu *c, u64 n)
{
    __atomic_store_n(&c->queued, c->queued + n, __ATOMIC_RELAXED);
}

/* -- grace periods; the lock is held -- */

/* quiescent: this CPU is in a quiescent state. False if nobody needs to be waited for. */
static bool begin_locked(bool quiescent)
{
    unsigned cpus = plat_cpu_count(), me = plat_cpu_id();
    u64 holding = 0;

    /* First the number, then the look at who is idle: a CPU that wakes up unseen reads the number
     * after it has said that it is awake, and so everything that came before the number. */
    __atomic_store_n(&rcu_started, rcu_started + 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < cpus; i++)
        if ((i != me || !quiescent) && __atomic_load_n(&rcu_cpus[i].awake, __ATOMIC_SEQ_CST))
            holding |= (u64)GUARD_STEP(46) << i;
    __atomic_store_n(&rcu.holding, holding, __ATOMIC_RELAXED);
    __atomic_store_n(&rcu.began, plat_cycles(), __ATOMIC_RELAXED);
    __atomic_store_n(&rcu.looks, 0, __ATOMIC_RELAXED);
    if (quiescent)
        rcu_cpus[me].seen = rcu_started;
    return holding != 0;
}

static void count_end(void)
{
    u64 *ctr = mine()->ctr, now = plat_cycles();
    u64 took = now > rcu.began ? now - rcu.began : 0;

    plat_counter_add(&ctr[CPU_rcu_grace_periods], 1);
    plat_counter_add(&ctr[CPU_rcu_gp_cycles], took);
    if (took > ctr[CPU_rcu_gp_cycles_max])
        __atomic_store_n(&ctr[CPU_rcu_gp_cycles_max], took, __ATOMIC_RELAXED);
}

/* This CPU is in a quiescent state, or there was nobody to wait for. The current one is over; goes on
 * with the next while somebody wants it and it ends at once. */
static void end_locked(void)
{
    for (;;) {
        count_end();
        __atomic_store_n(&rcu.completed, rcu_started, __ATOMIC_RELEASE);
        if (rcu.wanted <= rcu_started || begin_locked(true))
            return;
    }
}

/* Returns the number of a grace period that begins after this call. */
static u64 ask_for_one(void)
{
    u64 n;

    spin_lock(&rcu.lock);
    n = rcu_started + 1;
    rcu.wanted = MAX(rcu.wanted, n);
    if (rcu.completed == rcu_started && !begin_locked(true))
        end_locked();
    spin_unlock(&rcu.lock);
    return n;
}

void rcu_start(void)
{
    unsigned long flags = spin_lock_irqsave(&rcu.lock);

    rcu.wanted = MAX(rcu.wanted, rcu_started + 1);
    if (rcu.completed == rcu_started && !begin_locked(false))
        end_locked();
    spin_unlock_irqrestore(&rcu.lock, flags);
}

/* This CPU is, or just was, in a quiescent state. */
static void report(struct rcu_cpu *c)
{
    u64 me = (u64)1 << plat_cpu_id();

    if (__atomic_load_n(&rcu_started, __ATOMIC_SEQ_CST) == c->seen)
        return;
    spin_lock(&rcu.lock);
    if (rcu.holding & me) {
        __atomic_store_n(&rcu.holding, rcu.holding & ~me, __ATOMIC_RELAXED);
        if (!rcu.holding)
            end_locked();
    }
    c->seen = rcu_started;
    spin_unlock(&rcu.lock);
}

/* -- looking at CPUs that do not report, where the platform can order their accesses -- */

/* Each look waits twice as long as the one before: whoever reads for long is not asked all the time. */
static bool look_is_due(u64 started)
{
    u64 began = __atomic_load_n(&rcu.began, __ATOMIC_RELAXED), now;
    u32 looks = MIN(__atomic_load_n(&rcu.looks, __ATOMIC_RELAXED), 20u);

    if (__atomic_load_n(&rcu.completed, __ATOMIC_RELAXED) == started)
        return false;
    now = plat_cycles();
    return now > began && now - began >= (plat_cycles_hz() / 1000000 * LOOK_US) << looks;
}

/* Strikes off those that are in no read section: one that they were in when the grace period began is
 * over, and one that they begin now sees what came before it. This CPU waits for it, and is in a
 * quiescent state. */
static void look_at_readers(struct rcu_cpu *c)
{
    u64 started = __atomic_load_n(&rcu_started, __ATOMIC_ACQUIRE), left;

    if (!PLAT_ORDERS_OTHERS || !look_is_due(started) || !plat_order_others())
        return;
    spin_lock(&rcu.lock);
    if (rcu_started == started && rcu.completed != started) {
        __atomic_store_n(&rcu.looks, rcu.looks + 1, __ATOMIC_RELAXED);
        for (left = rcu.holding; left; left &= left - 1) {
            unsigned cpu = (unsigned)__builtin_ctzll(left);

            if (__atomic_load_n(&rcu_cpus[cpu].nesting, __ATOMIC_ACQUIRE))
                continue;
            __atomic_store_n(&rcu.holding, rcu.holding & ~((u64)1 << cpu), __ATOMIC_RELAXED);
            plat_counter_add(&c->ctr[CPU_rcu_struck_off], 1);
        }
        if (!rcu.holding)
            end_locked();
    }
    spin_unlock(&rcu.lock);
}

/* -- silence -- */

/* The age in cycles of a grace period that has run for a second and was not told yet, or 0. */
static u64 overdue(void)
{
    u64 began = __atomic_load_n(&rcu.began, __ATOMIC_RELAXED), now;
    u64 started = __atomic_load_n(&rcu_started, __ATOMIC_RELAXED);

    if (likely(__atomic_load_n(&rcu.completed, __ATOMIC_RELAXED) == started))
        return 0;
    if (__atomic_load_n(&rcu.told, __ATOMIC_RELAXED) == started)
        return 0;
    now = plat_cycles();
    return now > began && now - began > plat_cycles_hz() ? now - began : 0;
}

/* The look without the lock is a hint: it may see the number of a grace period that is just beginning
 * and the time of the one before. Believed, the new one would count as told, with nobody named. */
static void look_for_silence(void)
{
    void (*tell)(unsigned, u64) = __atomic_load_n(&rcu.silent, __ATOMIC_ACQUIRE);
    u64 age, holding = 0;

    if (likely(!overdue()))
        return;
    spin_lock(&rcu.lock);
    age = overdue();
    if (age) {
        holding = rcu.holding;
        __atomic_store_n(&rcu.told, rcu_started, __ATOMIC_RELAXED);
    }
    spin_unlock(&rcu.lock);
    for (; holding; holding &= holding - 1) {
        plat_counter_add(&mine()->ctr[CPU_rcu_silent], 1);
        if (tell)
            tell((unsigned)__builtin_ctzll(holding), age);
    }
}

/* -- callbacks; interrupts off -- */

static void run_ready(struct rcu_cpu *c, unsigned most)
{
    struct rcu_head *head;

    while (most-- && (head = pop(&c->ready))) {
        plat_counter_add(&c->ctr[CPU_rcu_run], 1);
        head->fn(head);
        queued_add(c, ~(u64)0); /* after it: a backlog of 0 means that all is done */
    }
}

static void advance(struct rcu_cpu *c)
{
    if (c->wait.first && __atomic_load_n(&rcu.completed, __ATOMIC_ACQUIRE) >= c->wait_for)
        move_all(&c->ready, &c->wait);
    if (!c->wait.first && c->next.first) {
        move_all(&c->wait, &c->next);
        c->wait_for = ask_for_one();
    }
}

static void call_handler(void)
{
    void (*fn)(void) = __atomic_load_n(&rcu.quiescent, __ATOMIC_ACQUIRE);

    if (fn)
        fn();
}

static void quiescent_off(struct rcu_cpu *c)
{
    ASSERT(c->nesting == 0);
    report(c);
    if (c->queued) {
        if (c->wait.first)
            look_at_readers(c);
        advance(c);
        run_ready(c, RUN_AT_MOST);
    }
    call_handler();
    look_for_silence();
}

void rcu_quiescent_slow(void)
{
    unsigned long flags = plat_irq_save();

    quiescent_off(mine());
    plat_irq_restore(flags);
}

void rcu_tick(void)
{
    struct rcu_cpu *c = mine();

    if (likely(GUARD(48, c->nesting == 0)))
        quiescent_off(c);
    else
        look_for_silence(); /* perhaps it is this CPU */
}

void rcu_context_switch(void)
{
    struct rcu_cpu *c = mine();

    ASSERT(c->nesting == 0);
    report(c);
}

void rcu_idle_enter(void)
{
    struct rcu_cpu *c = mine();

    ASSERT(c->nesting == 0);
    /* First the word, then the look at the number: the mirror of begin_locked(). */
    __atomic_exchange_n(&c->awake, 0, __ATOMIC_SEQ_CST);
    report(c);
}

void rcu_idle_exit(void)
{
    __atomic_exchange_n(&mine()->awake, 1, __ATOMIC_SEQ_CST);
    (void)__atomic_load_n(&rcu_started, __ATOMIC_SEQ_CST);
}

bool rcu_irq_enter(void)
{
    if (GUARD(49, __atomic_load_n(&mine()->awake, __ATOMIC_RELAXED)))
        return false;
    rcu_idle_exit();
    return true;
}

/* -- writers -- */

void call_rcu(struct rcu_head *head, void (*fn)(struct rcu_head *head))
{
    unsigned long flags = plat_irq_save();
    struct rcu_cpu *c = mine();

    head->fn = fn;
    append(&c->next, head);
    queued_add(c, 1);
    plat_counter_add(&c->ctr[CPU_rcu_queued], 1);
    plat_irq_restore(flags);
}

void rcu_call_again(struct rcu_head *head, void (*fn)(struct rcu_head *head))
{
    struct rcu_list *l = &mine()->ready;

    ASSERT(plat_irqs_off());
    head->fn = fn;
    if (!GUARD_STEP(50)) {
        call_rcu(head, fn);
        return;
    }
    head->next = l->first;
    if (!l->first)
        l->tail = &head->next;
    l->first = head;
    queued_add(mine(), 1);
    plat_counter_add(&mine()->ctr[CPU_rcu_queued], 1);
}

struct waiter {
    struct rcu_head head;
    bool over; /* atomic */
};

static void waiter_over(struct rcu_head *head)
{
    __atomic_store_n(&container_of(head, struct waiter, head)->over, true, __ATOMIC_RELEASE);
}

void synchronize_rcu(void)
{
    struct waiter w = {.over = false};

    call_rcu(&w.head, waiter_over);
    while (!__atomic_load_n(&w.over, __ATOMIC_ACQUIRE)) {
        rcu_quiescent();
        plat_relax();
    }
}

/* Its callback is behind all that this CPU was given before. */
static void wait_here(void *arg)
{
    (void)arg;
    synchronize_rcu();
}

void rcu_barrier(void)
{
    plat_run_on_cpus(plat_all_cpus(), wait_here, NULL);
}

/* -- init and statistics -- */

void rcu_init(void)
{
    for (unsigned i = 0; i < MAX_CPUS; i++) {
        struct rcu_cpu *c = &rcu_cpus[i];

        CHECK_VALUES(c->queued == 0, i, c->queued);
        list_reset(&c->next);
        list_reset(&c->wait);
        list_reset(&c->ready);
    }
    if (!rcu.lock.id)
        spin_init(&rcu.lock, LOCKCLASS_rcu, "kernel");
    rcu_idle_exit();
}

void rcu_set_silent_handler(void (*fn)(unsigned cpu, u64 cycles))
{
    __atomic_store_n(&rcu.silent, fn, __ATOMIC_RELEASE);
}

void rcu_set_quiescent_handler(void (*fn)(void))
{
    __atomic_store_n(&rcu.quiescent, fn, __ATOMIC_RELEASE);
}

u64 rcu_backlog(void)
{
    u64 sum = 0;

    for (unsigned i = 0; i < plat_cpu_count(); i++)
        sum += counter_read(&rcu_cpus[i].queued);
    return sum;
}

u64 rcu_grace_periods(void)
{
    return __atomic_load_n(&rcu.completed, __ATOMIC_ACQUIRE);
}

const u64 *rcu_cpu_row(unsigned cpu)
{
    return rcu_cpus[cpu].ctr;
}
