/* reclaim.c: what an allocation short of pages does before it gives up: this CPU's arrays and
 * sheaves, and every barn's and depot's, go back to the slabs, and every cache's empty slabs to the buddy.
 *
 * Other CPUs' arrays are left alone: they belong to their CPUs, and waiting for another CPU with
 * interrupts off could deadlock when two run short together.
 *
 * Locking: takes each cache's lock in turn, then the page lock; the caller holds none. Contexts:
 * thread, interrupt. */
#include "mm_impl.h"

void heap_drain_this_cpu(struct heap *h)
{
    u32 n = __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);
    unsigned long flags = plat_irq_save();

    for (u32 i = 0; i < n; i++)
        if (!__atomic_load_n(&h->cache[i]->dead, __ATOMIC_ACQUIRE))
            cache_drain_cpu(h->cache[i], plat_cpu_id());
    plat_irq_restore(flags);
}

void heap_reclaim(struct heap *h)
{
    u32 n = __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);
    unsigned long flags;

    heap_drain_this_cpu(h);
    flags = plat_irq_save();
    for (u32 i = 0; i < n; i++) {
        struct kmem_cache *c = h->cache[i];

        if (__atomic_load_n(&c->dead, __ATOMIC_ACQUIRE) || !c->limit)
            continue;
        if (c->front->shortage)
            c->front->shortage(c);
        if (c->front->shrink)
            (void)c->front->shrink(c);
    }
    plat_irq_restore(flags);
    /* Only now: sheaves that were freed lay in slabs too. */
    for (u32 i = 0; i < n; i++)
        if (!__atomic_load_n(&h->cache[i]->dead, __ATOMIC_ACQUIRE))
            slab_shrink(h->cache[i]);
}

void heap_maintain(struct heap *h)
{
    for (u32 i = 0; i < heap_cache_count(h); i++) {
        struct kmem_cache *c = heap_cache(h, i);
        unsigned long flags;

        if (!c || !c->limit || !c->front->maintain)
            continue;
        flags = plat_irq_save();
        c->front->maintain(c);
        plat_irq_restore(flags);
    }
}

void heap_set_resize_handler(struct heap *h, void (*fn)(const struct resize_report *))
{
    h->resize_handler = fn;
}
