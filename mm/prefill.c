/* prefill.c: private sheaves: objects fetched beforehand, so that taking them later cannot fail.
 *
 * kmem_cache_prefill_sheaf(n) hands out a sheaf with at least n objects. Under front=sheaf it is the
 * CPU's spare, or one from the barn, or a new one, topped up: from the barn and then from slabs
 * (prefill.from=barn), or from slabs alone (prefill.from=slab, the old way). More objects than a
 * sheaf of the cache holds, or another front end, make a private sheaf of just that size, filled from
 * the slabs in bulk ("oversize").
 *
 * Whoever fails half-way gives back what it has: a sheaf is flushed before it is freed.
 *
 * A private sheaf belongs to its holder; its objects are CACHED, and taking one is an allocation
 * like any other. Returned, it becomes the CPU's spare with what is left in it, or is filled up for
 * the barn, or flushed.
 *
 * Locking: none here. Contexts: thread, interrupt; one holder at a time. */
#include "extras_impl.h"

static void count(struct kmem_cache *c, enum cache_counter what, u64 n)
{
    plat_counter_add(&cache_cpu_mine(c)->ctr[what], n);
}

static bool has_sheaves(const struct kmem_cache *c)
{
    return c->front == &front_sheaf && cache_cpu_mine(c)->limit;
}

static struct sheaf *give_up(struct kmem_cache *c, struct sheaf *s)
{
    if (GUARD_STEP(15))
        sheaf_flush(c, s, CACHE_flush_objects);
    count(c, CACHE_flush, 1);
    if (s->capacity == c->limit && has_sheaves(c))
        sheaf_discard(c, s);
    else
        sheaf_free(s);
    return NULL;
}

static struct sheaf *oversize(struct kmem_cache *c, u32 n)
{
    struct sheaf *s = sheaf_alloc(c, n);

    count(c, CACHE_prefill_oversize, 1);
    if (!s)
        return NULL;
    return GUARD(14, sheaf_fill(c, s, n)) ? s : give_up(c, s);
}

static struct sheaf *top_up(struct kmem_cache *c, struct sheaf *s, u32 n)
{
    if (s->size >= n)
        return s;
    if (c->heap->prefill_barn && has_sheaves(c) && s->capacity == c->limit)
        s = barn_top_up(c, s);
    if (s->size >= n || sheaf_fill(c, s, n))
        return s;
    return give_up(c, s);
}

static struct sheaf *take_spare(struct cache_cpu *cc)
{
    struct sheaf *s = cc->spare;

    s->size = (u32)cc->spare_count;
    cc->spare = NULL;
    __atomic_store_n(&cc->spare_count, 0, __ATOMIC_RELAXED);
    return s;
}

static struct sheaf *prefill(struct kmem_cache *c, u32 n)
{
    struct cache_cpu *cc = cache_cpu_mine(c);
    struct sheaf *s;

    if (!has_sheaves(c) || n > c->limit)
        return oversize(c, n);
    if (cc->spare) {
        count(c, CACHE_prefill_fast, 1);
        s = take_spare(cc);
    } else {
        count(c, CACHE_prefill_slow, 1);
        s = barn_get_full_or_empty(c);
        if (!s)
            s = sheaf_alloc(c, c->limit);
    }
    return s ? top_up(c, s, n) : NULL;
}

struct sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *c, unsigned n)
{
    struct shortage short_of = {0};
    struct sheaf *s;

    if (GUARD_STEP(98) && unlikely(cache_is_dead(c)))
        return NULL;
    do {
        unsigned long flags = plat_irq_save();

        s = prefill(c, n);
        if (s)
            count(c, CACHE_prefill_objects, s->size);
        plat_irq_restore(flags);
        FAULT_MIGRATE();
    } while (!s && GUARD_STEP(18) && heap_drain_others(c->heap, &short_of));
    if (!s)
        count(c, CACHE_prefill_fail, 1);
    return s;
}

void *kmem_cache_alloc_from_sheaf(struct kmem_cache *c, struct sheaf *s)
{
    void *obj;

    CHECK_VALUES(s->cache == c, s, c->id);
    if (s->size == 0)
        return NULL;
    obj = s->object[--s->size];
    plat_preempt_disable(); /* the sheaf is the caller's: only the counter and matrix= need a CPU */
    count(c, CACHE_alloc_prefilled, 1);
    cache_hand_out(c, obj);
    plat_preempt_enable();
    return obj;
}

unsigned kmem_cache_sheaf_size(const struct sheaf *s)
{
    return s->size;
}

static void return_sheaf(struct kmem_cache *c, struct sheaf *s)
{
    struct cache_cpu *cc = cache_cpu_mine(c);

    if (!has_sheaves(c) || !GUARD(16, s->capacity == c->limit)) {
        count(c, CACHE_return_oversize, 1);
        (void)give_up(c, s);
        return;
    }
    if (GUARD(17, !cc->spare)) {
        count(c, CACHE_return_fast, 1);
        cc->spare = s;
        __atomic_store_n(&cc->spare_count, s->size, __ATOMIC_RELAXED);
        return;
    }
    count(c, CACHE_return_slow, 1);
    /* An unlocked look: wrong, it costs a fill for nothing, or a flush. */
    if (__atomic_load_n(&barn_mine(c)->fulls, __ATOMIC_RELAXED) >= c->heap->barn_full ||
        !sheaf_fill(c, s, s->capacity)) {
        (void)give_up(c, s);
        return;
    }
    if (!barn_put_full(c, s, CACHE_barn_refused_full))
        (void)give_up(c, s);
}

void kmem_cache_return_sheaf(struct kmem_cache *c, struct sheaf *s)
{
    unsigned long flags = plat_irq_save();

    CHECK_VALUES(s->cache == c, s, c->id);
    count(c, CACHE_return_objects, s->size);
    return_sheaf(c, s);
    plat_irq_restore(flags);
}

/* A larger one is needed: *s keeps what it has until the other is there. */
static bool exchange(struct kmem_cache *c, struct sheaf **s, u32 n)
{
    struct sheaf *larger = prefill(c, n);

    if (!larger)
        return false;
    count(c, CACHE_prefill_objects, larger->size);
    count(c, CACHE_return_objects, (*s)->size);
    return_sheaf(c, *s);
    *s = larger;
    return true;
}

/* One try; interrupts off. */
static bool refill(struct kmem_cache *c, struct sheaf **s, u32 n)
{
    u32 had = (*s)->size;
    bool good;

    if (had >= n)
        return true;
    if (n > (*s)->capacity)
        return exchange(c, s, n);
    /* Not by top_up(): a holder keeps its sheaf if this fails. */
    if (c->heap->prefill_barn && has_sheaves(c) && (*s)->capacity == c->limit)
        *s = barn_top_up(c, *s);
    good = (*s)->size >= n || sheaf_fill(c, *s, n);
    count(c, CACHE_prefill_objects, (*s)->size - had);
    return good;
}

bool kmem_cache_refill_sheaf(struct kmem_cache *c, struct sheaf **s, unsigned n)
{
    struct shortage short_of = {0};
    bool good;

    CHECK_VALUES((*s)->cache == c, *s, c->id);
    if (GUARD_STEP(99) && unlikely(cache_is_dead(c)))
        return false;
    do {
        unsigned long flags = plat_irq_save();

        good = refill(c, s, n);
        plat_irq_restore(flags);
        FAULT_MIGRATE();
    } while (!good && heap_drain_others(c->heap, &short_of));
    if (!good)
        count(c, CACHE_prefill_fail, 1);
    return good;
}
