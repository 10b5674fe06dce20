/* spinlock.c: spinlocks that say who fought over them.
 *
 * The idea: an acquisition first tries once. If that succeeds it is uncontended and costs one
 * atomic operation and one plain add; if it fails the acquisition is *contended* and goes to the
 * waiting loop of the algorithm. All statistics are written after the lock was got, on the taker's
 * own row, so counting needs no atomics and moves no line that another CPU writes.
 *
 * Time is dear: reading the clock around every hold made a locked pair eight times slower. So under
 * lockstat=time waits are timed only when contended, and holds by sampling, 1 acquisition in 64 of
 * each row.
 *
 * Deliberately not here: sleeping, recursion, reader/writer locks, fairness for tas.
 *
 * Lock word: tas: 0 or 1. ticket: next ticket in the high half, serving in the low. mcs: unused
 * (queue).
 *
 * Contexts: interrupts off (spin_lock_irqsave does it), or a caller that otherwise cannot be
 * preempted. Locking: this is it. */
#include "sync_impl.h"

#define HOLD_SAMPLE_MASK 63u

struct sync_config sync_config = {V_lock_tas, V_lockstat_count};

/* -- fast path -- */

static bool tas_try(struct spinlock *l)
{
    return __atomic_exchange_n(&l->word, 1, __ATOMIC_ACQUIRE) == 0;
}

static void tas_wait(struct spinlock *l)
{
    do {
        while (__atomic_load_n(&l->word, __ATOMIC_RELAXED) != 0)
            plat_relax();
    } while (!tas_try(l));
}

static bool ticket_try(struct spinlock *l)
{
    u32 w = __atomic_load_n(&l->word, __ATOMIC_RELAXED);

    return w >> 16 == (w & 0xffff) &&
           __atomic_compare_exchange_n(&l->word, &w, w + 0x10000, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static void ticket_wait(struct spinlock *l)
{
    u32 mine = __atomic_fetch_add(&l->word, 0x10000, __ATOMIC_RELAXED) >> 16;

    while ((__atomic_load_n(&l->word, __ATOMIC_ACQUIRE) & 0xffff) != mine)
        plat_relax();
}

static void ticket_release(struct spinlock *l)
{
    /* Only the holder writes the low half; the high half moves under it, so the halves are stored
     * apart. */
    u16 *serving = (u16 *)(void *)&l->word;

    __atomic_store_n(serving, (u16)(__atomic_load_n(serving, __ATOMIC_RELAXED) + 1),
                     __ATOMIC_RELEASE);
}

static void count_acquisition(struct spinlock *l, unsigned cpu, bool contended, u64 wait)
{
    u64 *ctr = l->row[cpu].ctr;

    if (sync_config.stat == V_lockstat_off)
        return;
    plat_counter_add(&ctr[LOCK_acquisitions], 1);
    if (unlikely(contended))
        plat_counter_add(&ctr[LOCK_contended], 1);
    if (likely(sync_config.stat != V_lockstat_time))
        return;
    if (wait) {
        plat_counter_add(&ctr[LOCK_wait_cycles], wait);
        if (wait > ctr[LOCK_wait_cycles_max])
            plat_counter_add(&ctr[LOCK_wait_cycles_max], wait - ctr[LOCK_wait_cycles_max]);
    }
    if ((ctr[LOCK_acquisitions] & HOLD_SAMPLE_MASK) == 0)
        l->taken_at = plat_cycles();
}

static bool lock_try(struct spinlock *l, unsigned cpu)
{
    switch (sync_config.algorithm) {
    case V_lock_ticket:
        return ticket_try(l);
    case V_lock_mcs:
        return mcs_try(l, cpu);
    default:
        return tas_try(l);
    }
}

/* Every acquisition but an uncontended one of a tas lock. */
static NOINLINE void lock_other(struct spinlock *l, bool tried)
{
    unsigned cpu = plat_cpu_id();
    bool contended = false;
    u64 wait = 0;

    if (unlikely(tried || !lock_try(l, cpu))) {
        bool timed = sync_config.stat == V_lockstat_time;
        u64 from = timed ? plat_cycles() : 0;

        contended = true;
        if (sync_config.algorithm == V_lock_ticket)
            ticket_wait(l);
        else if (sync_config.algorithm == V_lock_mcs)
            mcs_wait(l, cpu);
        else
            tas_wait(l);
        if (timed)
            wait = MAX(plat_cycles() - from, (u64)1);
    }
    __atomic_store_n(&l->holder, (u8)(cpu + 1), __ATOMIC_RELAXED);
    count_acquisition(l, cpu, contended, wait);
}

void spin_lock(struct spinlock *l)
{
    unsigned cpu = plat_cpu_id();

    ASSERT(plat_irqs_off());
    lockrank_acquire(l);
    /* Tail calls: the common acquisition saves no register. */
    if (unlikely(sync_config.algorithm != V_lock_tas)) {
        lock_other(l, false);
        return;
    }
    if (unlikely(!tas_try(l))) {
        lock_other(l, true);
        return;
    }
    __atomic_store_n(&l->holder, (u8)(cpu + 1), __ATOMIC_RELAXED);
    count_acquisition(l, cpu, false, 0);
}

bool spin_trylock(struct spinlock *l)
{
    unsigned cpu = plat_cpu_id();

    if (!lock_try(l, cpu))
        return false;
    lockrank_held(l);
    __atomic_store_n(&l->holder, (u8)(cpu + 1), __ATOMIC_RELAXED);
    count_acquisition(l, cpu, false, 0);
    return true;
}

static void count_hold(struct spinlock *l, unsigned cpu)
{
    u64 *ctr = l->row[cpu].ctr, held = plat_cycles() - l->taken_at;

    l->taken_at = 0;
    plat_counter_add(&ctr[LOCK_hold_samples], 1);
    plat_counter_add(&ctr[LOCK_hold_cycles], held);
    if (held > ctr[LOCK_hold_cycles_max])
        plat_counter_add(&ctr[LOCK_hold_cycles_max], held - ctr[LOCK_hold_cycles_max]);
}

static void release(struct spinlock *l, unsigned cpu)
{
    lockrank_release(l);
    __atomic_store_n(&l->holder, 0, __ATOMIC_RELAXED);
    if (sync_config.algorithm == V_lock_ticket)
        ticket_release(l);
    else if (sync_config.algorithm == V_lock_mcs)
        mcs_release(l, cpu);
    else
        __atomic_store_n(&l->word, 0, __ATOMIC_RELEASE);
}

static NOINLINE void unlock_timed(struct spinlock *l, unsigned cpu)
{
    count_hold(l, cpu);
    release(l, cpu);
}

void spin_unlock(struct spinlock *l)
{
    unsigned cpu = plat_cpu_id();

    ASSERT(spin_held_by_me(l));
    if (unlikely(l->taken_at))
        unlock_timed(l, cpu);
    else
        release(l, cpu);
}

/* -- checks -- */

bool spin_held_by_me(const struct spinlock *l)
{
    return __atomic_load_n(&l->holder, __ATOMIC_RELAXED) == plat_cpu_id() + 1;
}
