/* rcu.h: read-copy-update by quiescent states. Part of the door sync.h.
 *
 * A reader brackets what it does with rcu_read_lock() and rcu_read_unlock(): it takes no lock and
 * writes nothing that another CPU reads. Whoever takes something away from readers hands the rest
 * of the work to call_rcu(): it is done when every reader that could still see the thing is gone.
 * How that is known is in rcu.c.
 *
 * Contexts: read sections in threads and interrupts, they nest, and preemption is off inside. Each
 * other function says. */
#ifndef SYNC_RCU_H
#define SYNC_RCU_H

#include "../base/check.h"
#include "../base/counters.h"

/* Put into the object that waits. */
struct rcu_head {
    struct rcu_head *next;
    union {
        void (*fn)(struct rcu_head *head); /* call_rcu */
        void *object;                      /* who keeps lists of its own may use it so */
    };
};

struct rcu_list {
    struct rcu_head *first, **tail;
};

struct rcu_cpu {
    u32 awake;   /* atomic; 0: idle, which is one long quiescent state */
    u32 nesting; /* atomic; read sections; written by its CPU, interrupts on it included */

    /* its CPU, interrupts off */
    u64 seen;              /* the last grace period that it has no more to say about */
    struct rcu_list next;  /* no grace period was asked for yet */
    struct rcu_list wait;  /* for the end of grace period wait_for */
    struct rcu_list ready; /* may run */
    u64 wait_for;
    u64 queued; /* on the three lists; relaxed reads elsewhere */
    u64 ctr[NR_CPU_COUNTERS];
} ALIGNED(CACHE_LINE);

extern struct rcu_cpu rcu_cpus[MAX_CPUS];
extern u64 rcu_started; /* the latest grace period; atomic */

/* Before the first call of anything here, one CPU running; again in tests. */
void rcu_init(void);

/* -- readers -- */

/* An interrupt between the load and the store leaves the word as it found it. */
static ALWAYS_INLINE void rcu_nest(u32 by, int order)
{
    u32 *nesting = &rcu_cpus[plat_cpu_id()].nesting;

    __atomic_store_n(nesting, *nesting + by, order);
}

static ALWAYS_INLINE void rcu_read_lock(void)
{
    plat_preempt_disable();
    rcu_nest(1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static ALWAYS_INLINE void rcu_read_unlock(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    rcu_nest(-1u, __ATOMIC_RELEASE);
    plat_preempt_enable();
}

/* -- writers -- */

/* fn(head) runs once on this CPU, interrupts off, in thread or interrupt context, after a grace
 * period that begins after this call. Callbacks of one CPU run in the order of their calls. Any
 * context but NMI. */
void call_rcu(struct rcu_head *head, void (*fn)(struct rcu_head *head));
/* From a callback that has not finished: it runs again, before any other of this CPU. */
void rcu_call_again(struct rcu_head *head, void (*fn)(struct rcu_head *head));
/* Waits for a grace period. Thread context, outside read sections; not on a CPU without callbacks
 * to come, such as the host's timer. */
void synchronize_rcu(void);
/* Waits until every callback that any CPU was given before has run. Thread context on CPU 0, not
 * inside plat_run_on_cpus(). */
void rcu_barrier(void);

/* -- quiescent states: moments at which this CPU is in no read section -- */

void rcu_quiescent_slow(void);
/* A workload calls it now and then. Thread context, outside read sections. Also runs callbacks. */
static ALWAYS_INLINE void rcu_quiescent(void)
{
    const struct rcu_cpu *c = &rcu_cpus[plat_cpu_id()];

    if (unlikely(__atomic_load_n(&rcu_started, __ATOMIC_RELAXED) != c->seen || c->queued))
        rcu_quiescent_slow();
}
/* The scheduler, on its way to another thread; runs no callbacks. Interrupts off. */
void rcu_context_switch(void);
/* The tick: a quiescent state if it did not interrupt a read section. Interrupts off. */
void rcu_tick(void);
/* From now on the CPU reads nothing, until it says otherwise. Interrupts off. Saying so twice is
 * harmless. */
void rcu_idle_enter(void);
void rcu_idle_exit(void);
/* The pair for an interrupt: true if the CPU was idle; then it calls rcu_idle_enter() at its end. */
bool rcu_irq_enter(void);

/* Every CPU that is awake passes rcu_quiescent_slow() or a tick soon, or switches threads, or goes idle:
 * a grace period begins that nobody waits for. Any context but NMI. */
void rcu_start(void);
/* fn is called by rcu_quiescent_slow() and by ticks outside read sections, interrupts off. For a platform
 * that cannot interrupt a CPU. One handler; before other CPUs run, or while they are idle. */
void rcu_set_quiescent_handler(void (*fn)(void));

/* -- watching -- */

/* Called once a grace period and CPU that has held it up for a second. Interrupts off, any CPU. */
void rcu_set_silent_handler(void (*fn)(unsigned cpu, u64 cycles));
u64 rcu_backlog(void);                /* callbacks that have not run; relaxed */
const u64 *rcu_cpu_row(unsigned cpu); /* NR_CPU_COUNTERS: only rcu's counters are set */
u64 rcu_grace_periods(void);          /* that are over */

#endif
