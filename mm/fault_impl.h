/* fault_impl.h: faults to order, for tests: the paths of mm/ that are too rare to be met by chance.
 * Debug builds (which all hosted tests are); elsewhere FAULT() is false and no code.
 *
 * A test arms a fault: it strikes after so many chances, so many times. Counts are atomic.
 * tests/host/test_faulted.c arms them at random.
 * Contexts: any. */
#ifndef MM_FAULT_IMPL_H
#define MM_FAULT_IMPL_H

#include "../base/types.h"

enum fault {
    FAULT_page,      /* a page allocation fails, reclaim included */
    FAULT_barn_busy, /* the barn's lock is taken when it is only tried */
    FAULT_barn_full, /* the barn has its fill of full sheaves */
    FAULT_no_empty,  /* the barn has no empty sheaf */
    FAULT_no_sheaf,  /* no memory for a sheaf */
    FAULT_drain,     /* memory for a sheaf is had by draining this CPU, under its caller's hands */
    FAULT_refill_half, /* the slabs give half of what was asked for, and then nothing */
    FAULT_depot_busy,  /* the depot's lock is found taken */
    FAULT_resize,      /* the depot's size goes back to the first while a magazine is made */
    FAULT_no_wait,     /* a call that is short may not wait for other CPUs */
    FAULT_pcp_busy,    /* a page cache's flag is found taken */
    FAULT_migrated,    /* the caller goes on on another CPU, where a call has let interrupts in */
    NR_FAULTS
};

#ifdef HAYLOFT_DEBUG
/* after: chances let pass first; times: strikes then. */
void fault_arm(enum fault f, u32 after, u32 times);
u32 fault_struck(enum fault f); /* since it was armed */
bool fault_strikes(enum fault f);
#define FAULT(name) unlikely(fault_strikes(FAULT_##name))
/* What FAULT_migrated does; NULL: nothing. While one CPU runs. */
void fault_migrate_by(void (*fn)(void));
void fault_migrate(void);
#define FAULT_MIGRATE() fault_migrate()
#else
#define FAULT(name)     false
#define FAULT_MIGRATE() (void)0
#endif

#endif
