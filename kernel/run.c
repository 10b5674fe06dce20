/* run.c: plat_run_on_cpus(): the same function on many CPUs, released together.
 *
 * Each CPU has a worker thread, made at boot, that waits for a job; so a run allocates nothing, and
 * what the allocator counts during it is the job's own. The start barrier is a spin: the last to
 * arrive releases all within a cache miss of each other, where waking each by an interrupt would
 * spread them over microseconds.
 *
 * It deliberately does not nest, and has one job at a time.
 *
 * Locking: threads_lock guards the job; its counters are atomics while it runs. Contexts: thread,
 * CPU 0. */
#include "sched.h"

static struct {
    /* under threads_lock */
    void (*fn)(void *arg);
    void *arg;
    u64 todo; /* CPUs whose worker has not picked the job up */
    bool busy;
    struct waitq start, done;

    /* atomics, while the job runs */
    unsigned cpus;
    unsigned arrived;
    unsigned left;
} job = {.start = WAITQ_INIT(job.start), .done = WAITQ_INIT(job.done)};

static void barrier_wait(void)
{
    unsigned all = __atomic_load_n(&job.cpus, __ATOMIC_RELAXED);

    __atomic_fetch_add(&job.arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&job.arrived, __ATOMIC_ACQUIRE) < all)
        plat_relax();
}

static void worker(void *arg)
{
    u64 me = (u64)1 << plat_cpu_id();

    (void)arg;
    for (;;) {
        unsigned long flags = spin_lock_irqsave(&threads_lock);
        void (*fn)(void *);
        void *fn_arg;

        while (!(job.todo & me))
            waitq_wait(&job.start);
        job.todo &= ~me;
        fn = job.fn;
        fn_arg = job.arg;
        spin_unlock_irqrestore(&threads_lock, flags);

        barrier_wait();
        fn(fn_arg);

        if (__atomic_sub_fetch(&job.left, 1, __ATOMIC_ACQ_REL) > 0)
            continue;
        flags = spin_lock_irqsave(&threads_lock);
        waitq_wake_all(&job.done);
        spin_unlock_irqrestore(&threads_lock, flags);
    }
}

void plat_run_on_cpus(u64 mask, void (*fn)(void *arg), void *arg)
{
    unsigned long flags;

    CHECK_VALUES((mask & ~plat_all_cpus()) == 0, mask, plat_all_cpus());
    if (!mask)
        return;
    flags = spin_lock_irqsave(&threads_lock);
    CHECK(!job.busy);
    job.busy = true;
    job.fn = fn;
    job.arg = arg;
    job.todo = mask;
    __atomic_store_n(&job.cpus, (unsigned)__builtin_popcountll(mask), __ATOMIC_RELAXED);
    __atomic_store_n(&job.arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&job.left, job.cpus, __ATOMIC_RELEASE);
    waitq_wake_all(&job.start);
    while (__atomic_load_n(&job.left, __ATOMIC_ACQUIRE) > 0)
        waitq_wait(&job.done);
    job.busy = false;
    spin_unlock_irqrestore(&threads_lock, flags);
}

bool run_init(unsigned cpus)
{
    for (unsigned i = 0; i < cpus; i++)
        if (!thread_create(i, worker, NULL, "worker"))
            return false;
    return true;
}
