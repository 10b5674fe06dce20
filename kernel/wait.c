/* wait.c: waiting for something to change.
 *
 * A wait queue is a list of threads; one lock guards them all, threads_lock, since nothing that is
 * timed waits here: ends of threads, and the start and end of work on other CPUs. The waiter marks
 * itself WAITING under that lock, so a waker that comes before it has switched away finds it on the
 * list all the same and makes it ready; the switch then finds it on the run queue, and nothing is
 * lost.
 *
 * Locking: threads_lock held by the caller, then a run queue's. Contexts: waiting in threads,
 * waking in threads and interrupts. */
#include "sched.h"

void waitq_wait(struct waitq *q)
{
    struct cpu *c = sched_this_cpu();
    struct thread *t = c->current;

    ASSERT(plat_irqs_off());
    ASSERT(spin_held_by_me(&threads_lock));
    CHECK(t != c->idle);
    spin_lock(&c->lock);
    t->state = THREAD_WAITING;
    list_push_back(&q->waiters, &t->link);
    spin_unlock(&c->lock);
    spin_unlock(&threads_lock);

    spin_lock(&c->lock);
    sched_switch_locked(c);
    spin_lock(&threads_lock);
}

void waitq_wake_all(struct waitq *q)
{
    struct list *e;

    ASSERT(spin_held_by_me(&threads_lock));
    while ((e = list_pop_front(&q->waiters)) != NULL)
        sched_make_ready(list_entry(e, struct thread, link));
}
