/* front_magazine.c: Bonwick's magazines (front=magazine), a CPU's side: the loaded magazine
 * (main), the previous one (spare), and what happens when neither will do.
 *
 * Allocations pop the loaded magazine and frees push it (fast_impl.h). At an edge, in this
 * order:
 *
 *   loaded empty  the previous is full: swap │ the depot has a full one: it is loaded, the empty
 *                 one is previous, and the old previous stays there │ fill the loaded one from
 *                 the slabs │ no magazine at all: one object from the slabs
 *   loaded full   the previous is empty: swap │ the depot has an empty one: it is loaded, the
 *                 full one is previous, and the old previous stays there │ a new empty one goes
 *                 to the depot, and all is looked at again │ no memory for one: to the slabs
 *
 * Why two: after a trip to depot or slabs one magazine of the two is full and the other empty,
 * so that it takes at least M more operations, whichever they are, to be there again (M: objects
 * in a magazine). With one, an allocation and a free in turn at its edge would go there each
 * time. The guarantee needs both to be there, and of the depot's size: a CPU has them after its
 * first frees, and after a change of size once the old ones have been traded.
 *
 * Empty magazines are allocated on the free path alone. An allocation that is short would
 * otherwise need an allocation; and a CPU that only allocates has no use for one. Bonwick's
 * allocation takes single objects from the slabs when the depot is dry; here it fills the
 * magazine that is there, so that M operations stand between two takings of the cache lock too.
 *
 * Protection: the owning CPU runs with interrupts off, from the first look to the last store, in
 * the slow paths too; an interrupt finds both magazines whole. Nobody else touches them: a drain
 * of all CPUs runs on each. What does come between is the CPU itself: memory, for a magazine or
 * for a slab, may be had by reclaim, which drains this very CPU, frees both its magazines and
 * changes the depot's size. So a magazine that is being filled is nobody's, a new one is only
 * put into the depot, where its size is looked at under the lock, and everything is looked at
 * again after either.
 *
 * kfree_rcu takes the plain way (rcufree.c), and private sheaves are filled from the slabs
 * (prefill.c).
 *
 * Locking: none here; depot and slabs take theirs one after the other. Contexts: thread,
 * interrupt; interrupts off. */
#include "magazine_impl.h"

#define ROOM_TRIES 4u /* another CPU may take each empty magazine that this one brings */

static void count(struct kmem_cache *c, enum cache_counter what, u64 n)
{
    plat_counter_add(&cache_cpu_mine(c)->ctr[what], n);
}

/* -- loaded and previous -- */

static void set_spare(struct cache_cpu *cc, struct sheaf *m, u64 n)
{
    cc->spare = m;
    __atomic_store_n(&cc->spare_count, n, __ATOMIC_RELAXED);
}

static void set_main(struct cache_cpu *cc, struct sheaf *m, u64 n)
{
    cc->main = m;
    cc->limit = m ? m->capacity : 0;
    cache_cpu_count(cc, n);
}

/* The loaded one becomes the previous one, and m with n objects is loaded. */
static void load(struct cache_cpu *cc, struct sheaf *m, u64 n)
{
    set_spare(cc, cc->main, cc->count);
    set_main(cc, m, n);
}

static void swap(struct kmem_cache *c, struct cache_cpu *cc)
{
    load(cc, cc->spare, cc->spare_count);
    count(c, CACHE_mag_swap, 1);
}

/* -- allocation -- */

/* n objects, or what there is: a slab may hold fewer than a magazine. */
static unsigned take(struct kmem_cache *c, void **out, u32 n)
{
    unsigned got = 0;

    while (got < n) {
        unsigned some = FAULT(refill_half) ? 0 : slab_take(c, out + got, n - got);

        if (!some)
            break;
        got += some;
    }
    if (got) {
        count(c, CACHE_refill, 1);
        count(c, CACHE_refill_objects, got);
    }
    return got;
}

static void *fill(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct sheaf *m = cc->main;
    unsigned got;

    if (GUARD_STEP(32))
        set_main(cc, NULL, 0); /* nobody's while a reclaim may come */
    got = take(c, m->object, m->capacity);
    set_main(cc, m, got);
    return got ? main_pop(cc) : NULL;
}

static void *magazine_refill(struct kmem_cache *c, struct cache_cpu *cc, bool *own)
{
    struct sheaf *full;
    void *obj;

    *own = cc->spare_count != 0;
    if (*own) {
        swap(c, cc);
        return main_pop(cc);
    }
    if (cc->spare)
        cc->spare->size = 0;
    full = depot_trade_empty(c, cc->spare);
    if (full) {
        load(cc, full, full->size);
        depot_clean(c);
        return main_pop(cc);
    }
    if (GUARD(33, cc->main))
        return fill(c, cc);
    return take(c, &obj, 1) ? obj : NULL;
}

/* -- free -- */

/* An empty magazine for the depot; false: no memory for one. This CPU may have been drained. */
static bool bring_empty(struct kmem_cache *c)
{
    struct sheaf *m = sheaf_alloc(c, depot_size(c));

    count(c, m ? CACHE_mag_new : CACHE_mag_new_fail, 1);
    if (!m)
        return false;
    if (FAULT(resize))
        depot_shortage(c);
    depot_add_empty(c, m);
    return true;
}

static bool trade_full(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct sheaf *empty;

    if (cc->spare)
        cc->spare->size = (u32)cc->spare_count;
    empty = depot_trade_full(c, cc->spare);
    if (!empty)
        return false;
    load(cc, empty, 0);
    depot_clean(c);
    return true;
}

/* Room in the loaded magazine; false: there is none to be had. *own gets whether it was the CPU's already:
 * what there is after a trip to the depot or to memory was not. */
static bool make_room(struct kmem_cache *c, struct cache_cpu *cc, bool *own)
{
    for (unsigned tries = 0; tries < ROOM_TRIES; tries++) {
        *own = tries == 0;
        if (cc->count < cc->limit)
            return true;
        if (cc->spare && GUARD(34, cc->spare_count == 0)) {
            swap(c, cc);
            return true;
        }
        *own = false;
        if (trade_full(c, cc))
            return true;
        if (!bring_empty(c))
            break;
    }
    return cc->count < cc->limit;
}

static bool magazine_put(struct kmem_cache *c, struct cache_cpu *cc, void *obj)
{
    bool own;

    if (make_room(c, cc, &own)) {
        main_push(cc, obj);
        return own;
    }
    slab_put(c, &obj, 1);
    count(c, CACHE_flush, 1);
    count(c, CACHE_flush_objects, 1);
    return false;
}

/* -- drain -- */

static unsigned destroy(struct kmem_cache *c, struct sheaf *m, u64 n)
{
    if (!m)
        return 0;
    m->size = (u32)n;
    sheaf_flush(c, m, CACHE_drain_objects);
    sheaf_free(m);
    return (unsigned)n + 1;
}

static unsigned magazine_drain(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct sheaf *main = cc->main, *spare = cc->spare;
    u64 n = cc->count, spare_n = cc->spare_count;

    set_main(cc, NULL, 0);
    set_spare(cc, NULL, 0);
    return destroy(c, main, n) + destroy(c, spare, spare_n);
}

/* -- init, validate, statistics -- */

static void magazine_size(const struct heap *h, struct kmem_cache *c)
{
    (void)h;
    depot_init(c);
    c->limit = depot_size(c);
    c->batch = MAX(c->limit / 2, 1u);
}

/* The first free brings the first magazine. */
static bool magazine_cpu_init(struct kmem_cache *c, struct cache_cpu *cc)
{
    (void)c;
    set_main(cc, NULL, 0);
    set_spare(cc, NULL, 0);
    return true;
}

static void magazine_cpu_exit(struct cache_cpu *cc)
{
    CHECK_VALUES(!cc->main && !cc->spare, cc->main, cc->spare);
}

static void magazine_exit(struct kmem_cache *c)
{
    spin_destroy(&c->depot.lock);
}

static u64 magazine_held(const struct kmem_cache *c)
{
    u64 sum = 0;

    for (unsigned i = 0; i < c->heap->cpus; i++)
        sum += counter_read(&cache_cpu(c, i)->count) + counter_read(&cache_cpu(c, i)->spare_count);
    return sum;
}

static bool one_validate(struct kmem_cache *c, struct sheaf *m, u64 n, struct heap_fault *f)
{
    if (!m)
        return n == 0 || heap_fault_set(f, "magazine: objects in none", &c->depot, c);
    if (m->cache != c || n > m->capacity)
        return heap_fault_set(f, "magazine: another cache's, or more objects than room", m, c);
    for (u64 i = 0; i < n; i++)
        if (!front_object_validate(c, m->object[i], f))
            return false;
    return true;
}

static bool magazine_validate(struct kmem_cache *c, struct heap_fault *f)
{
    for (unsigned cpu = 0; cpu < c->heap->cpus; cpu++) {
        struct cache_cpu *cc = cache_cpu(c, cpu);

        if (cc->limit != (cc->main ? cc->main->capacity : 0))
            return heap_fault_set(f, "magazine: its room is not its limit", cc, c);
        if (cc->spare && cc->spare_count && cc->spare_count != cc->spare->capacity)
            return heap_fault_set(f, "magazine: the previous one is neither full nor empty", cc, c);
        if (!one_validate(c, cc->main, cc->count, f) ||
            !one_validate(c, cc->spare, cc->spare_count, f))
            return false;
    }
    return depot_validate(c, f);
}

const struct front_ops front_magazine = {
    .shape = SHAPE_sheaf,
    .size = magazine_size,
    .cpu_init = magazine_cpu_init,
    .cpu_exit = magazine_cpu_exit,
    .exit = magazine_exit,
    .refill = magazine_refill,
    .put = magazine_put,
    .drain = magazine_drain,
    .shrink = depot_drain,
    .maintain = depot_maintain,
    .shortage = depot_shortage,
    .held = magazine_held,
    .validate = magazine_validate,
};
