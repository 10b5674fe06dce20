/* fault.c: the counts behind fault_impl.h. Locking: none, atomics. Contexts: any. */
#include "fault_impl.h"

#ifdef HAYLOFT_DEBUG
static struct {
    u32 after, times, struck; /* atomic */
} armed[NR_FAULTS];

void fault_arm(enum fault f, u32 after, u32 times)
{
    __atomic_store_n(&armed[f].times, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&armed[f].after, after, __ATOMIC_RELAXED);
    __atomic_store_n(&armed[f].struck, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&armed[f].times, times, __ATOMIC_RELEASE);
}

u32 fault_struck(enum fault f)
{
    return __atomic_load_n(&armed[f].struck, __ATOMIC_ACQUIRE);
}

/* One of n > 0 for the taking. */
static bool take(u32 *n)
{
    u32 v = __atomic_load_n(n, __ATOMIC_ACQUIRE);

    while (v)
        if (__atomic_compare_exchange_n(n, &v, v - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

bool fault_strikes(enum fault f)
{
    if (!__atomic_load_n(&armed[f].times, __ATOMIC_ACQUIRE) || take(&armed[f].after) ||
        !take(&armed[f].times))
        return false;
    __atomic_add_fetch(&armed[f].struck, 1, __ATOMIC_ACQ_REL);
    return true;
}

static void (*migrate_by)(void); /* atomic */

void fault_migrate_by(void (*fn)(void))
{
    __atomic_store_n(&migrate_by, fn, __ATOMIC_RELEASE);
}

void fault_migrate(void)
{
    void (*fn)(void) = __atomic_load_n(&migrate_by, __ATOMIC_ACQUIRE);

    if (fn && FAULT(migrated))
        fn();
}
#endif
