/* lockrank.c: lock order, checked while the kernel runs (debug builds only).
 *
 * Each CPU keeps a stack of the locks it holds. Taking a lock whose class is not further down
 * lockclass.def than all held ones is a panic that carries both classes, whether or not the
 * deadlock would have happened this time. A lock got by trying may come out of order: it did not
 * wait.
 *
 * Contexts: as spinlock.c; an interrupt pushes above what it interrupted and pops before it
 * returns. Locking: none, a CPU's stack is its own. */
#include "sync_impl.h"

#ifdef HAYLOFT_DEBUG

#define DEPTH 16u

static struct held {
    unsigned depth;
    const struct spinlock *lock[DEPTH];
} held_by[MAX_CPUS];

static void push(struct held *h, const struct spinlock *l)
{
    CHECK_VALUES(h->depth < DEPTH, h->depth, l->class);
    h->lock[h->depth++] = l;
}

void lockrank_acquire(const struct spinlock *l)
{
    struct held *h = &held_by[plat_cpu_id()];

    for (unsigned i = 0; i < h->depth; i++)
        if (h->lock[i]->class >= l->class)
            PANIC(PANIC_lock_rank, "lock taken against the order of lockclass.def", l->class,
                  h->lock[i]->class);
    push(h, l);
}

void lockrank_held(const struct spinlock *l)
{
    push(&held_by[plat_cpu_id()], l);
}

void lockrank_release(const struct spinlock *l)
{
    struct held *h = &held_by[plat_cpu_id()];

    for (unsigned i = h->depth; i-- > 0;)
        if (h->lock[i] == l) {
            for (h->depth--; i < h->depth; i++)
                h->lock[i] = h->lock[i + 1];
            return;
        }
    PANIC(PANIC_lock_rank, "released a lock that this CPU does not hold", l->class, l->id);
}

#endif
