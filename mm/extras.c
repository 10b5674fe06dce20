/* extras.c: what a cache's mode adds to a call where it is dear (poison=full), and to the calls that
 * do not go the ways of ways.c: kfree_rcu, bulk and prefilled ones. extras_impl.h has the rest.
 *
 * Locking: none. Contexts: thread, interrupt. */
#include "extras_impl.h"

/* -- poison=full -- */

static bool all_bytes(const u8 *p, size_t n, u8 value)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != value)
            return false;
    return true;
}

/* The first byte of an object that a fill pattern may use: a link may stand before it. */
static u32 fill_start(const struct kmem_cache *c)
{
    return c->objstate == V_objstate_header || c->link_offset ? 0 : sizeof(void *);
}

void fresh_fill(struct kmem_cache *c, void *obj)
{
    u32 from = fill_start(c);

    plat_unpoison(obj, c->size);
    if (!all_bytes((u8 *)obj + from, c->size - from, POISON_FREE))
        PANIC(PANIC_heap_corrupt, "an object was written to after it was freed", obj, c->id);
    memset(obj, POISON_FRESH, c->size);
}

/* *found gets the zone's first byte. */
static bool zone_intact(const struct kmem_cache *c, const void *obj, u8 *found)
{
    const u8 *zone = (const u8 *)obj + c->size;
    bool intact;

    plat_unpoison((void *)(uintptr_t)zone, c->zone);
    intact = all_bytes(zone, c->zone, POISON_REDZONE);
    *found = zone[0];
    plat_poison((void *)(uintptr_t)zone, c->zone);
    return intact;
}

bool zone_checked(struct kmem_cache *c, void *obj)
{
    u8 found;

    if (zone_intact(c, obj, &found))
        return true;
    object_set(c, obj, OBJECT_ALLOCATED);
    return badfree(c->heap, BADFREE_corrupt, obj, found, c);
}

/* -- kfree_rcu -- */

bool cache_claim_rcu(struct kmem_cache *c, void *obj)
{
    u32 from = allocated_by(c, obj);

    if (!claim_extras(c, obj, c->objstate, OBJECT_RCU))
        return false;
    if (unlikely(from < MAX_CPUS))
        matrix_count(c->heap, from);
    plat_counter_add(&cache_cpu_mine(c)->ctr[CACHE_free_rcu], 1);
    return true;
}

void cache_rcu_over(struct kmem_cache *c, void *obj)
{
    object_set(c, obj, OBJECT_CACHED);
    free_fill(c, obj);
    object_hide(c, obj);
}

void cache_rcu_freed(struct kmem_cache *c, u64 n)
{
    plat_counter_add(&cache_cpu_mine(c)->ctr[CACHE_rcu_freed], n);
}

/* -- bulk and prefilled calls -- */

bool cache_take_back(struct kmem_cache *c, void *obj)
{
    u32 from = allocated_by(c, obj);

    if (!take_back(c, obj, c->objstate))
        return false;
    if (unlikely(from < MAX_CPUS))
        matrix_count(c->heap, from);
    object_hide(c, obj);
    return true;
}

void cache_hand_out(struct kmem_cache *c, void *obj)
{
    if (unlikely(!object_allocate(c, obj, c->objstate)))
        object_corrupt(c, obj);
    object_show(obj, c->size);
    allocated_here(c, obj);
    alloc_extras(c, obj);
}
