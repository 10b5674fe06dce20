/* visit.c: who comes to a cache by the table and not as its user, and how a destroy waits for them.
 *
 * A reclaim, a drain, a callback of kfree_rcu, a sampler: none of them owns an object of the caches that
 * it looks at, so the promise of a cache's users, that nobody uses it any more, says nothing about them.
 * Each is a visitor. It begins a visit, and only then asks whether a cache is alive (cache_alive); what
 * it has seen alive keeps its shape, its slabs and its arrays until the visit ends. A pass over all
 * caches is one visit.
 *
 * A cache's life (kmem_cache.life):
 *
 *   LIVE ──destroy──► DYING ──(visitors gone; drained; no object out)──► DEAD ──create──► MAKING ──► LIVE
 *                       └──(an object is out)──► LIVE
 *
 * Visitors leave alone what is not LIVE. So once the visits that began before DYING are over, the
 * destroyer is alone with the cache: it may empty every CPU's arrays itself, no slab of it is on its way
 * from a list to the buddy, no destructor runs, and what it counts stays as it was counted.
 *
 * The wait cannot starve. There are two counts of visitors, and `phase` says to which a new visit
 * belongs. A destroyer changes the phase and waits for the other count to become 0: who comes later
 * is in the new one. A visitor counts itself and looks at the phase once more; if that has changed,
 * it takes itself out and begins again, so each visitor can disturb an old count once.
 *
 *   visitor                       destroyer
 *   in[phase]++                   life = DYING
 *   phase as before?              phase = 1 - phase
 *   life == LIVE?                 in[before] == 0?
 *
 * All of these are sequentially consistent. A visitor that found the phase unchanged is seen by the
 * destroyer's look at the count; one that did not sees DYING, which came before the phase.
 *
 * A visit may nest, and it may be interrupted: the counts belong to no CPU. A visitor never waits for
 * another CPU but for a lock; so a destroyer waits for it as it would for a lock.
 *
 * Locking: none; destroyers take turns by a word of their own. Contexts: visits any but NMI;
 * heap_visits_wait() thread, in no visit. docs/RACES.md 2.5 */
#include "mm_impl.h"

unsigned heap_visit_begin(struct heap *h)
{
    struct visits *v = &h->visits;

    for (;;) {
        u32 phase = __atomic_load_n(&v->phase, __ATOMIC_SEQ_CST);

        __atomic_fetch_add(&v->in[phase], 1, __ATOMIC_SEQ_CST);
        if (GUARD(62, __atomic_load_n(&v->phase, __ATOMIC_SEQ_CST) == phase))
            return phase;
        __atomic_fetch_sub(&v->in[phase], 1, __ATOMIC_SEQ_CST);
    }
}

void heap_visit_end(struct heap *h, unsigned visit)
{
    __atomic_fetch_sub(&h->visits.in[visit], 1, __ATOMIC_RELEASE);
}

void heap_visits_wait(struct heap *h)
{
    struct visits *v = &h->visits;
    u32 before;

    while (__atomic_exchange_n(&v->waiter, 1, __ATOMIC_ACQUIRE))
        plat_relax();
    before = v->phase;
    __atomic_store_n(&v->phase, 1 - before, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&v->in[before], __ATOMIC_SEQ_CST))
        plat_relax();
    __atomic_store_n(&v->waiter, 0, __ATOMIC_RELEASE);
}
