/* sync.h: the door of sync/. Spinlocks that know their class, owner and statistics; RCU (rcu.h).
 *
 * Algorithms (boot choice lock=): tas, ticket, mcs. Every lock is registered and has an id, which it
 * shares with the other locks of its class and owner; statistics are kept by id and CPU, and written
 * only by the holder after it got the lock, so they need no atomics.
 *
 * Contexts: any but NMI for spin_lock*; spin_trylock also in NMI. A lock that an interrupt may
 * take is taken with interrupts off everywhere; so far that is every lock: spin_lock asserts it.
 * Order: lockclass.def, checked in debug builds. */
#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include "../base/check.h"
#include "../base/counters.h"
#include "../base/knobs.h"
#include "rcu.h"

enum lock_class {
#define LOCKCLASS(name, doc) LOCKCLASS_##name,
#include "../base/lockclass.def"
#undef LOCKCLASS
    NR_LOCK_CLASSES
};
extern const char *const lock_class_names[NR_LOCK_CLASSES];

#define MAX_LOCKS      256u /* ids; mm_impl.h adds up what a kernel can need */
#define LOCK_OWNER_MAX 32u  /* bytes of an owner's name, the NUL included */

struct lock_row { /* one id, one CPU */
    u64 ctr[NR_LOCK_COUNTERS];
} ALIGNED(CACHE_LINE);

struct spinlock {
    u32 word;    /* tas: 0 free, 1 taken; ticket: next << 16 | serving; mcs: holder's node */
    u16 id;      /* of its class and owner, from 1; 0: the register is full */
    u8 class;    /* enum lock_class */
    u8 holder;   /* CPU + 1 while held (written by the holder), for diagnostics */
    void *queue; /* mcs: last waiter's node, NULL when free */
    struct lock_row *row;  /* rows by CPU */
    u64 taken_at;          /* cycles, while a sampled hold lasts (holder only); 0: not sampled */
    struct spinlock *same; /* the next living one of that id (register.c) */
} ALIGNED(CACHE_LINE);

/* Chooses algorithm and statistics; before the second CPU runs. rows: zeroed memory of
 * lockstat_bytes(cpus), or NULL to keep counting on the built-in boot row. */
void lockstat_init(const struct knobs *k, unsigned cpus, void *rows);
size_t lockstat_bytes(unsigned cpus);

/* Registers. owner: what it belongs to ("kmalloc-64", "node0", "cpu3"), shorter than LOCK_OWNER_MAX. A
 * lock may be used before the rows exist; it then counts on a row that nobody reports. An id stands for
 * a name: locks of one class and owner share it, and one that comes after they were destroyed goes on with
 * their counts. */
void spin_init(struct spinlock *l, enum lock_class class, const char *owner);
/* Takes the lock out of the register (its memory is going away). */
void spin_destroy(struct spinlock *l);

void spin_lock(struct spinlock *l);
NODISCARD bool spin_trylock(struct spinlock *l);
void spin_unlock(struct spinlock *l);
static ALWAYS_INLINE unsigned long spin_lock_irqsave(struct spinlock *l)
{
    unsigned long flags = plat_irq_save();

    spin_lock(l);
    return flags;
}
static ALWAYS_INLINE void spin_unlock_irqrestore(struct spinlock *l, unsigned long flags)
{
    spin_unlock(l);
    plat_irq_restore(flags);
}
bool spin_held_by_me(const struct spinlock *l); /* for assertions */

/* The register, for telemetry: ids run 1..lock_count(). */
unsigned lock_count(void);
struct lock_stats {
    const char *owner;
    enum lock_class class;
    unsigned living;             /* locks of that name; 0: all were destroyed */
    const struct lock_row *rows; /* by CPU; what they hold stays when the locks go */
};
struct lock_stats lock_stats(unsigned id);

#endif
