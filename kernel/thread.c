/* thread.c: a thread's life: made, run, put to sleep, ended, joined.
 *
 * A thread is one block of pages (sched.h draws it). The stack is used through a second mapping
 * above a hole, so that an overflow faults instead of writing into a neighbour's page. That mapping
 * lasts for ever, so the block of a thread that was joined goes to a pool and becomes the next
 * thread: the memory for stacks grows to the most threads that ever lived at once, and making and
 * ending a thread costs the page allocator nothing after that.
 *
 * Ending takes three steps, because a thread cannot free the stack that it stands on: thread_exit()
 * switches away for good; the next thread on that CPU marks it dead (sched_finish_switch); its
 * joiner puts it into the pool.
 *
 * It deliberately has no signals, no detached threads and no way to end another thread.
 *
 * Locking: threads_lock for the list of all threads, the pool and `dead`; then a run queue's.
 * Contexts: thread, except where sched.h says otherwise. */
#include "sched.h"

#include "../base/string.h"

#define STACK_ORDER 2u

/* What the struct leaves of its block for the stack. */
#define STACK_ROOM round_down(MACHINE_STACK_BYTES - sizeof(struct thread), (size_t)CACHE_LINE)

_Static_assert(PAGE_SIZE << STACK_ORDER == MACHINE_STACK_BYTES, "one block, one stack");

static struct list all_threads = LIST_INIT(all_threads);
static struct list pool = LIST_INIT(pool); /* blocks whose thread is gone, by `all` */
static struct waitq someone_died = WAITQ_INIT(someone_died);

void thread_yield(void)
{
    unsigned long flags = plat_irq_save();
    struct cpu *c = sched_this_cpu();
    struct thread *t;

    /* It takes the lock even to find that nobody waits: one complete trip through the scheduler is
     * what yield/solo times, so that a lock or an allocator that makes it dearer shows. */
    kernel_count(CPU_yields, 1);
    spin_lock(&c->lock);
    if (likely(list_empty(&c->ready))) {
        spin_unlock(&c->lock);
    } else {
        t = c->current;
        t->state = THREAD_READY;
        list_push_back(&c->ready, &t->link);
        __atomic_store_n(&c->ready_count, c->ready_count + 1, __ATOMIC_RELAXED);
        sched_switch_locked(c);
    }
    plat_irq_restore(flags);
}

static u64 ns_to_cycles(u64 ns)
{
    u64 hz = plat_cycles_hz();

    return ns / 1000000000u * hz + ns % 1000000000u * hz / 1000000000u;
}

/* c's lock held. Sorted, so that the tick looks at the first alone. */
static void sleepers_insert_locked(struct cpu *c, struct thread *t)
{
    struct list *before = &c->sleepers;

    list_for_each(e, &c->sleepers)
    {
        if (list_entry(e, struct thread, link)->wake_at > t->wake_at) {
            before = e;
            break;
        }
    }
    list_push_back(before, &t->link); /* the list's head and an element alike: in front of it */
}

void thread_sleep_ns(u64 ns)
{
    u64 until = plat_cycles() + ns_to_cycles(ns);
    unsigned long flags = plat_irq_save();
    struct cpu *c = sched_this_cpu();
    struct thread *t = c->current;

    CHECK(t != c->idle);
    if (c->quiet) { /* without a tick nobody would end the sleep */
        plat_irq_restore(flags);
        while (plat_cycles() < until)
            thread_yield();
        return;
    }
    spin_lock(&c->lock);
    t->wake_at = until;
    t->state = THREAD_SLEEPING;
    sleepers_insert_locked(c, t);
    sched_switch_locked(c);
    plat_irq_restore(flags);
}

void plat_sleep_ns(u64 ns)
{
    thread_sleep_ns(ns);
}

/* -- making and ending
 * ------------------------------------------------------------------------------- */

static void thread_start(void *arg)
{
    struct thread *t = arg;

    sched_finish_switch();
    machine_irq_enable();
    t->entry(t->arg);
    thread_exit();
}

static struct thread *pool_take(void)
{
    unsigned long flags = spin_lock_irqsave(&threads_lock);
    struct list *e = list_pop_front(&pool);

    spin_unlock_irqrestore(&threads_lock, flags);
    return e ? list_entry(e, struct thread, all) : NULL;
}

/* A block that was never a thread before. */
static struct thread *block_make(void)
{
    char *block = alloc_pages(kheap, STACK_ORDER);
    struct thread *t;
    unsigned long flags;

    if (!block)
        return NULL;
    t = (struct thread *)(void *)(block + STACK_ROOM);
    memset(t, 0, sizeof(*t));
    flags = spin_lock_irqsave(&threads_lock);
    t->top = machine_stack_map(block);
    spin_unlock_irqrestore(&threads_lock, flags);
    if (t->top)
        return t;
    if (!free_pages(kheap, block, STACK_ORDER))
        PANIC(PANIC_check_failed, "free_pages refused a block of alloc_pages", block, STACK_ORDER);
    return NULL;
}

static struct thread *thread_make(unsigned cpu, void (*entry)(void *), void *arg, const char *name)
{
    struct thread *t = pool_take();

    if (!t)
        t = block_make();
    if (!t)
        return NULL;
    t->cpu = cpu;
    t->name = name;
    t->entry = entry;
    t->arg = arg;
    t->state = THREAD_WAITING;
    t->dead = false;
    list_init(&t->link);
    t->sp =
        machine_context_init((char *)t->top - (MACHINE_STACK_BYTES - STACK_ROOM), thread_start, t);
    return t;
}

static void thread_register(struct thread *t)
{
    unsigned long flags = spin_lock_irqsave(&threads_lock);

    list_push_back(&all_threads, &t->all);
    spin_unlock_irqrestore(&threads_lock, flags);
}

struct thread *thread_create(unsigned cpu, void (*entry)(void *arg), void *arg, const char *name)
{
    struct thread *t;

    CHECK_VALUES(cpu < MAX_CPUS && sched_cpu(cpu), cpu, plat_cpu_count());
    t = thread_make(cpu, entry, arg, name);
    if (!t)
        return NULL;
    thread_register(t);
    sched_make_ready(t);
    return t;
}

struct thread *thread_create_idle(unsigned cpu, void (*entry)(void *arg), void *arg)
{
    struct thread *t = thread_make(cpu, entry, arg, "idle");

    if (t)
        thread_register(t);
    return t;
}

void thread_mark_dead(struct thread *t)
{
    unsigned long flags = spin_lock_irqsave(&threads_lock);

    t->dead = true;
    waitq_wake_all(&someone_died);
    spin_unlock_irqrestore(&threads_lock, flags);
}

void thread_exit(void)
{
    struct cpu *c;

    (void)plat_irq_save();
    c = sched_this_cpu();
    CHECK(c->current != c->idle);
    spin_lock(&c->lock);
    c->current->state = THREAD_DEAD;
    sched_switch_locked(c);
    PANIC(PANIC_check_failed, "a thread ran on after its end", c->id, c->current);
}

void thread_join(struct thread *t)
{
    unsigned long flags = spin_lock_irqsave(&threads_lock);

    while (!t->dead)
        waitq_wait(&someone_died);
    list_remove(&t->all);
    list_push_front(&pool, &t->all);
    spin_unlock_irqrestore(&threads_lock, flags);
}
