/* sched.h: kernel threads and the per-CPU state of the scheduler. Private to the metal half of
 * kernel/.
 *
 * A thread is pinned to one CPU for life. Everything that the scheduler does to it happens on that
 * CPU with interrupts off, except that another CPU may make it ready, which is why the run queue
 * has a lock.
 *
 * One block of pages holds a thread; the struct lies above the stack, out of reach of an overflow,
 * and the stack is used through a mapping that has a hole below it (machine_stack_map):
 *
 *     low                                                                     high
 *     | hole, never mapped | free stack ……… <- sp | used stack | struct thread |
 *
 * Life: READY -> RUNNING -> (READY | WAITING | SLEEPING) -> READY …, DEAD, thread_join(). */
#ifndef KERNEL_SCHED_H
#define KERNEL_SCHED_H

#include "kernel.h"
#include "../base/list.h"
#include "../base/machine.h"

#define TICK_HZ  250u
#define SLICE_MS 10u /* then the next tick gives the CPU to another thread that is ready */

enum thread_state { THREAD_READY, THREAD_RUNNING, THREAD_WAITING, THREAD_SLEEPING, THREAD_DEAD };

struct thread {
    /* fixed after creation */
    unsigned cpu;
    const char *name;
    void (*entry)(void *arg);
    void *arg;
    void *top; /* of its block, in the stack's own mapping */

    /* under its CPU's run queue lock */
    enum thread_state state;
    struct list link; /* on a run queue, a sleepers list or, under its lock, a wait queue */
    u64 wake_at;      /* cycles, while SLEEPING */

    /* its CPU, interrupts off */
    void *sp; /* the whole of its state while it does not run */

    /* under threads_lock */
    struct list all;
    bool dead; /* has left its stack for good */
};

/* One CPU, as the scheduler sees it. */
struct cpu {
    /* fixed after cpu_init() */
    unsigned id;
    struct thread *idle;
    char name[8]; /* "cpu3": what its run queue lock belongs to */

    /* under lock, interrupts off */
    struct spinlock lock;
    struct list ready;    /* READY threads, the next to run first */
    struct list sleepers; /* SLEEPING threads, earliest first */
    struct thread *current;
    unsigned ready_count; /* elements of ready; peeked at without the lock (relaxed) */

    /* this CPU only, interrupts off */
    u64 slice_end;         /* cycles */
    u64 idle_since;        /* cycles; 0: not idle */
    struct thread *zombie; /* exited, but its stack was still in use when it switched away */
    bool quiet;            /* its tick is stopped: nothing may sleep here */
} ALIGNED(CACHE_LINE);

/* Guards the list of all threads, and every wait queue below. Class threads; interrupts off. */
extern struct spinlock threads_lock;

/* -- bring-up: kernel/sched.c -- */
void sched_init(void); /* boot CPU: the locks, and CPU 0's struct */
/* Boot CPU, with a heap: structs and idle threads of CPUs 0..n-1. False: no memory. */
NODISCARD bool sched_cpus_init(unsigned n);
/* Leaves the boot stack for the CPU's first thread; interrupts off. */
NORETURN void sched_enter(unsigned cpu);

/* NULL before sched_cpus_init() has made it; any context. */
struct cpu *sched_cpu(unsigned cpu);

/* -- threads: kernel/thread.c. Thread context, unless said otherwise -- */

/* NULL for want of memory. Each thread is joined exactly once, or never ends. */
NODISCARD struct thread *thread_create(unsigned cpu, void (*entry)(void *arg), void *arg,
                                       const char *name);
NORETURN void thread_exit(void);
void thread_join(struct thread *t); /* waits for its end; t means nothing afterwards */
void thread_yield(void);
void thread_sleep_ns(u64 ns); /* until the first tick after that time */

/* For sched.c alone: an idle thread is on no queue; the next thread says that z has left its
 * stack. */
NODISCARD struct thread *thread_create_idle(unsigned cpu, void (*entry)(void *arg), void *arg);
void thread_mark_dead(struct thread *t);

/* -- wait queues: kernel/wait.c. All of them are guarded by threads_lock -- */
struct waitq {
    struct list waiters;
};
#define WAITQ_INIT(name)                                                                           \
    {                                                                                              \
        LIST_INIT((name).waiters)                                                                  \
    }
/* threads_lock held, interrupts off; gives it up while waiting, holds it again on return. A caller
 * checks its condition again: a wake-up says that something changed, not what. */
void waitq_wait(struct waitq *q);
void waitq_wake_all(struct waitq *q); /* threads_lock held; any context but NMI */

/* -- scheduler internals that thread.c, wait.c and irq.c use -- */
struct cpu *sched_this_cpu(void);
/* The calling thread stops running until somebody makes it ready. Its state was set by the caller
 * (not RUNNING); c's lock held, interrupts off. Gives the lock up. */
void sched_switch_locked(struct cpu *c);
void sched_make_ready(struct thread *t); /* a WAITING thread; any context but NMI */
void sched_make_ready_locked(struct cpu *c, struct thread *t); /* WAITING, SLEEPING or new */
/* The first thing after a switch, on the new stack; interrupts off. */
void sched_finish_switch(void);
void sched_tick(void); /* slice and sleepers; interrupts off */
/* Another CPU found this one idle and gave it work; interrupts off. */
void sched_kicked(void);
/* Gives the CPU away if it must; interrupts off, preemption not disabled. */
void sched_preempt(void);

/* -- kernel/run.c: the worker threads of plat_run_on_cpus() -- */
NODISCARD bool run_init(unsigned cpus); /* false: no memory */

/* -- kernel/sched_test.c: thread context, CPU 0, nothing else running -- */
/* Stops the machine on a broken promise; false: no memory for its threads. */
NODISCARD bool sched_selftest(void);

/* -- kernel/console.c -- */
void console_init(void);
/* No lock, any context: for panics, deadlines and NMIs. */
void console_write_panic(const char *format, ...) PRINTF(1, 2);
void console_write_text(const char *text);

/* -- kernel/irq.c -- */
void irq_hooks_init(void);
void irq_deadline_start(u64 from); /* deadline= counts from that many cycles */
void irq_selftest(void);           /* thread context, CPU 0: panics if a CPU takes no interrupts */

/* -- kernel/panic.c -- */
/* A CPU that can be stopped from now on; CPU 0 always could be. */
void stop_cpu_alive(unsigned cpu);
/* Stops every other CPU and waits, bounded, until each has recorded where it was. Whoever comes
 * second halts here. Any context; does not turn interrupts on again. */
void stop_the_others(const void *regs);
void stop_print(void); /* then: everybody's backtrace, to the console */
/* What an NMI does: stops if asked to, else says where this CPU is. */
void stop_nmi(const void *regs);

#endif
