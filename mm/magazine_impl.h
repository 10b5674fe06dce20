/* magazine_impl.h: magazines and the depot (front=magazine), for front_magazine.c and depot.c.
 *
 * A magazine is a struct sheaf (sheaf_impl.h): an array of objects that changes hands as a
 * whole. Both fronts have their memory from the same internal caches; what differs is the
 * protocol.
 *
 *   main     the loaded magazine of a CPU: count objects in it, room up to limit, its capacity; NULL at
 *            first and after a drain, with limit 0
 *   spare    the previous magazine: NULL, or full, or empty; never without main, but while main is
 *            being filled
 *   depot    a cache's: full magazines, empty ones, and stale ones, which have a size that is no more
 *
 * Locking: depot.lock for the depot; a CPU's magazines are its own, interrupts off. No lock of
 * mm/ is taken under depot.lock. Contexts: thread, interrupt. */
#ifndef MM_MAGAZINE_IMPL_H
#define MM_MAGAZINE_IMPL_H

#include "sheaf_impl.h"

/* -- depot.c; interrupts off -- */
void depot_init(struct kmem_cache *c);
/* Objects in a magazine from now on; stale a moment later. */
static inline u32 depot_size(const struct kmem_cache *c)
{
    return __atomic_load_n(&c->depot.size, __ATOMIC_RELAXED);
}
/* A full magazine for an empty one (or NULL), which is the depot's then. NULL: there is no full one, and
 * the empty one was not taken. */
NODISCARD struct sheaf *depot_trade_empty(struct kmem_cache *c, struct sheaf *empty);
/* An empty one for a full one (or NULL); the same. */
NODISCARD struct sheaf *depot_trade_full(struct kmem_cache *c, struct sheaf *full);
/* A new one. It is stale at once if the size has changed since. */
void depot_add_empty(struct kmem_cache *c, struct sheaf *empty);
/* Gives back a few of those that are stale, or were too many for two intervals. */
void depot_clean(struct kmem_cache *c);
/* Ends the interval if it is over, and gives back all of those. */
void depot_maintain(struct kmem_cache *c);
/* Memory is short: magazines are small again. */
void depot_shortage(struct kmem_cache *c);
/* Everything to the slabs; how many objects. */
unsigned depot_drain(struct kmem_cache *c);
bool depot_validate(struct kmem_cache *c, struct heap_fault *f);
/* For tests: ends the interval now. */
void depot_interval_end(struct kmem_cache *c);

#endif
