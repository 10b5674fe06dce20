/* mcs.c: the queueing lock of Mellor-Crummey and Scott (1991). Each waiter spins on a node of its
 * own, so a release moves one line to one CPU.
 *
 * Nodes: a waiter or holder needs a node from acquire to release. Each CPU has a few, as it may
 * hold several locks, and an interrupt may take one in the middle of anything. A node is claimed
 * by a plain flag: an interrupt that comes between the look and the claim gives back what it
 * claimed before it returns, so the flag is as it was. The lock remembers its holder's node
 * (l->word, written by the holder only).
 *
 * Contexts: as spinlock.c. Locking: none of its own. */
#include "sync_impl.h"

#define NODES 8u

struct mcs_node {
    struct mcs_node *next; /* set by the successor, read by the holder */
    u32 waiting;           /* 1 while its CPU waits; cleared by the predecessor */
    bool used;             /* own CPU only */
} ALIGNED(CACHE_LINE);

static struct mcs_node nodes[MAX_CPUS][NODES];

static struct mcs_node *node_claim(unsigned cpu, unsigned *index)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct mcs_node *n = &nodes[cpu][i];

        if (n->used)
            continue;
        n->used = true;
        __atomic_store_n(&n->next, NULL, __ATOMIC_RELAXED);
        *index = i;
        return n;
    }
    PANIC(PANIC_check_failed, "a CPU holds more mcs locks than it has nodes", cpu, NODES);
}

void mcs_wait(struct spinlock *l, unsigned cpu)
{
    unsigned i;
    struct mcs_node *n = node_claim(cpu, &i), *before;

    __atomic_store_n(&n->waiting, 1, __ATOMIC_RELAXED);
    before = __atomic_exchange_n(&l->queue, n, __ATOMIC_ACQ_REL);
    if (before) {
        __atomic_store_n(&before->next, n, __ATOMIC_RELEASE);
        while (__atomic_load_n(&n->waiting, __ATOMIC_ACQUIRE))
            plat_relax();
    }
    __atomic_store_n(&l->word, i, __ATOMIC_RELAXED);
}

bool mcs_try(struct spinlock *l, unsigned cpu)
{
    unsigned i;
    struct mcs_node *n;
    void *none = NULL;

    if (__atomic_load_n(&l->queue, __ATOMIC_RELAXED))
        return false;
    n = node_claim(cpu, &i);
    if (!__atomic_compare_exchange_n(&l->queue, &none, n, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
        n->used = false;
        return false;
    }
    __atomic_store_n(&l->word, i, __ATOMIC_RELAXED);
    return true;
}

void mcs_release(struct spinlock *l, unsigned cpu)
{
    struct mcs_node *n = &nodes[cpu][__atomic_load_n(&l->word, __ATOMIC_RELAXED)];
    struct mcs_node *next = __atomic_load_n(&n->next, __ATOMIC_ACQUIRE);
    void *me = n;

    if (!next) {
        if (__atomic_compare_exchange_n(&l->queue, &me, NULL, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
            n->used = false;
            return;
        }
        /* A successor is in the queue but has not linked itself yet. */
        while (!(next = __atomic_load_n(&n->next, __ATOMIC_ACQUIRE)))
            plat_relax();
    }
    __atomic_store_n(&next->waiting, 0, __ATOMIC_RELEASE);
    n->used = false;
}
