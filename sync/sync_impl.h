/* sync_impl.h: what the files of sync/ share. */
#ifndef SYNC_SYNC_IMPL_H
#define SYNC_SYNC_IMPL_H

#include "sync.h"

struct sync_config {
    enum knob_value algorithm; /* V_lock_tas, … */
    enum knob_value stat;      /* V_lockstat_off, … */
};
extern struct sync_config sync_config; /* written by lockstat_init before the second CPU runs */

/* The rank checker: a stack of held locks for each CPU. Debug builds; empty otherwise. */
#ifdef HAYLOFT_DEBUG
void lockrank_acquire(const struct spinlock *l); /* before waiting: panics if the order is wrong */
void lockrank_held(const struct spinlock *l);    /* after a successful try, which cannot deadlock */
void lockrank_release(const struct spinlock *l);
#else
static inline void lockrank_acquire(const struct spinlock *l)
{
    (void)l;
}
static inline void lockrank_held(const struct spinlock *l)
{
    (void)l;
}
static inline void lockrank_release(const struct spinlock *l)
{
    (void)l;
}
#endif

/* sync/mcs.c */
void mcs_wait(struct spinlock *l, unsigned cpu);
bool mcs_try(struct spinlock *l, unsigned cpu);
void mcs_release(struct spinlock *l, unsigned cpu);

#endif
