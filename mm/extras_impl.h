/* extras_impl.h: what a cache's mode adds to a call: shared statistics, fill patterns, red zones.
 *
 * An allocation with extras is the plain one and alloc_extras(); a free is take_back() and the push.
 * kfree_rcu, bulk and prefilled calls, which go other ways, add the same here. The dear ones are in
 * extras.c.
 *
 * Locking: none. Contexts: thread, interrupt. */
#ifndef MM_EXTRAS_IMPL_H
#define MM_EXTRAS_IMPL_H

#include "fast_impl.h"

/* extras.c. Checks the free fill, and writes the fresh one. */
NOINLINE void fresh_fill(struct kmem_cache *c, void *obj);
/* obj is claimed. False: its user wrote past its end; it stays out of circulation, reported. */
NOINLINE bool zone_checked(struct kmem_cache *c, void *obj);

static ALWAYS_INLINE void stat_global(struct stat_line *s, bool alloc, u64 bytes)
{
    __atomic_fetch_add(alloc ? &s->allocs : &s->frees, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->live, alloc ? (u64)1 : ~(u64)0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->bytes, alloc ? bytes : ~bytes + 1, __ATOMIC_RELAXED);
}

static ALWAYS_INLINE void alloc_extras(struct kmem_cache *c, void *obj)
{
    if (c->mode & MODE_STAT_GLOBAL)
        stat_global(&c->heap->stat_small, true, c->size);
    if ((c->mode & MODE_POISON_FULL) && !c->ctor)
        fresh_fill(c, obj);
}

/* The claim, the red zone and the shared statistics. objstate is the cache's. False: refused. */
static ALWAYS_INLINE bool claim_extras(struct kmem_cache *c, void *obj, enum knob_value objstate,
                                       enum object_state to)
{
    if (unlikely(!object_claim_as(c, obj, objstate, to)))
        return cache_free_refused(c, obj);
    /* The object is this CPU's alone now. */
    if ((c->mode & MODE_POISON_FULL) && !zone_checked(c, obj))
        return false;
    if (c->mode & MODE_STAT_GLOBAL)
        stat_global(&c->heap->stat_small, false, c->size);
    return true;
}

/* Nobody reads the object any more. */
static ALWAYS_INLINE void free_fill(struct kmem_cache *c, void *obj)
{
    if (!(c->mode & (MODE_POISON_FREE | MODE_POISON_FULL)) || c->ctor)
        return;
    plat_unpoison(obj, c->size);
    memset(obj, POISON_FREE, c->size);
}

/* Everything of a free but the push. False: refused. */
static ALWAYS_INLINE bool take_back(struct kmem_cache *c, void *obj, enum knob_value objstate)
{
    if (!claim_extras(c, obj, objstate, OBJECT_CACHED))
        return false;
    free_fill(c, obj);
    return true;
}

/* -- matrix=on: who allocated what is freed -- */

/* For matrix_count() after a good free. Read before obj is claimed, as afterwards it is soon somebody
 * else's; so of a bad free it may be anything, and nothing is counted then. */
static inline u32 allocated_by(const struct kmem_cache *c, void *obj)
{
    return c->heap->matrix_on ? object_cpu(c, obj) : MAX_CPUS;
}

static inline void allocated_here(const struct kmem_cache *c, void *obj)
{
    if (c->heap->matrix_on)
        object_cpu_set(obj, plat_cpu_id());
}

/* -- extras.c: what bulk.c and prefill.c do to each object -- */
/* CACHED and this CPU's → its user's. */
void cache_hand_out(struct kmem_cache *c, void *obj);
/* And back, up to the push. False: refused. */
NODISCARD bool cache_take_back(struct kmem_cache *c, void *obj);

#endif
