/* cache.c: allocating and freeing objects of one cache; making and destroying caches. The bodies
 * of the fast paths are in fast_impl.h, and ways.c makes the calls of them.
 *
 * Allocation: interrupts off, pop the CPU's array, move the object to ALLOCATED, count, interrupts
 * on. An empty array goes to the slow path. Free: claim the object (the compare-and-swap that makes a
 * second free fail), then push; a full array spills first.
 *
 * What is counted: a call is slow if it took a lock, which others may want too: the cache's for objects
 * from or to slabs, a barn's or depot's for a trade. It is fast if what the CPU itself held was enough,
 * also where two sheaves or magazines changed places for it. So hit rates compare across front ends.
 *
 * A name stands for a cache as long as the boot lasts: a destroyed cache stays in the table, dead,
 * and one made again under its name takes its id and goes on with its counts. Its shape may be another
 * then; visit.c says who may look at it when. Who still allocates from a dead one gets nothing: its calls
 * are exchanged (ways.c gives it some again), which costs the living none.
 *
 * Locking: caches_lock for the table. Contexts: alloc and free thread and interrupt; create and
 * destroy thread. */
#include "fast_impl.h"

/* -- fast path (fast_impl.h has the bodies) -- */

void *kmem_cache_alloc(struct kmem_cache *c)
{
    return c->calls.alloc(c, c->size);
}

bool kmem_cache_free(struct kmem_cache *c, void *obj)
{
    struct frame *f = frame_of(&c->heap->frames, obj);
    u64 tag;

    if (unlikely(!f))
        return obj ? badfree(c->heap, BADFREE_foreign, obj, 0, c) : true;
    tag = pages_owner(c->heap, f);
    if (unlikely(TAG_KIND(tag) != FRAME_SLAB))
        return badfree(c->heap, badfree_kind_of(c->heap, obj), obj, tag, c);
    if (unlikely(TAG_CACHE(tag) != c))
        return badfree(c->heap, BADFREE_wrong_cache, obj, tag, c);
    return c->calls.free(c, obj);
}

/* -- slow path -- */

void *cache_alloc_short(struct kmem_cache *c, unsigned long flags)
{
    struct shortage s = {0};
    void *obj = NULL;

    plat_irq_restore(flags);
    FAULT_MIGRATE();
    /* Who serves mm/ itself is in the middle of a call, whose end will ask. */
    while (!obj && !c->internal && GUARD_STEP(25) && heap_drain_others(c->heap, &s)) {
        flags = plat_irq_save();
        obj = slab_take_one(c);
        plat_irq_restore(flags);
    }
    plat_counter_add(&cache_cpu_mine(c)->ctr[obj ? CACHE_alloc_slow : CACHE_alloc_fail], 1);
    if (obj)
        object_show(obj, c->size);
    return obj;
}

/* Without a front end: one object straight from a slab. */
void *cache_alloc_direct(struct kmem_cache *c, size_t size, unsigned long flags,
                         struct cache_cpu *cc)
{
    void *obj = slab_take_one(c);

    (void)
        cc; /* found again: c must be kept over the call for the shortage, and cc then need not be */
    if (unlikely(!obj))
        return cache_alloc_short(c, flags);
    plat_counter_add(&cache_cpu_mine(c)->ctr[CACHE_alloc_slow], 1);
    plat_irq_restore(flags);
    object_show(obj, size);
    return obj;
}

bool cache_free_direct(struct kmem_cache *c, void *obj, unsigned long flags, struct cache_cpu *cc)
{
    slab_put_one(c, obj);
    plat_counter_add(&cc->ctr[CACHE_free_slow], 1);
    plat_irq_restore(flags);
    return true;
}

static void *alloc_refill(struct kmem_cache *c, size_t size, unsigned long flags,
                          struct cache_cpu *cc)
{
    bool own;
    void *obj;

    cache_cpu_filling(cc, true);
    obj = c->front->refill(c, cc, &own);
    cache_cpu_filling(cc, false);
    if (unlikely(!obj))
        return cache_alloc_short(c, flags);
    if (unlikely(!object_allocate(c, obj, c->objstate)))
        return object_corrupt(c, obj);
    plat_counter_add(&cc->ctr[own ? CACHE_alloc_fast : CACHE_alloc_slow], 1);
    plat_irq_restore(flags);
    object_show(obj, size);
    return obj;
}

static bool free_put(struct kmem_cache *c, void *obj, unsigned long flags, struct cache_cpu *cc)
{
    bool own = c->front->put(c, cc, obj);

    plat_counter_add(&cc->ctr[own ? CACHE_free_fast : CACHE_free_slow], 1);
    plat_irq_restore(flags);
    return true;
}

void *object_corrupt(const struct kmem_cache *c, void *obj)
{
    PANIC(PANIC_check_failed, "a cached object's state was written over", obj,
          object_found(c, obj));
}

void cache_put_back(struct kmem_cache *c, void *obj)
{
    struct cache_cpu *cc = cache_cpu_mine(c);

    if (!cc->on)
        slab_put_one(c, obj);
    else
        (void)c->front->put(c, cc, obj);
}

/* Says why an object could not be claimed. */
bool cache_free_refused(struct kmem_cache *c, void *obj)
{
    u32 i = object_index(c, object_slab(c, obj), obj);
    u64 found;

    if (i >= c->capacity)
        return badfree(c->heap, BADFREE_interior, obj, 0, c);
    found = object_found(c, obj);
    if (found == STATE_WORD(OBJECT_FREE) || found == STATE_WORD(OBJECT_CACHED) ||
        found == STATE_WORD(OBJECT_RCU) ||
        found == STATE_WORD(OBJECT_ALLOCATED)) /* freed and allocated again in between */
        return badfree(c->heap, BADFREE_double, obj, found, c);
    return badfree(c->heap, BADFREE_corrupt, obj, found, c);
}

void cache_drain_cpu(struct kmem_cache *c, unsigned cpu)
{
    struct cache_cpu *cc = cache_cpu(c, cpu);
    struct carry_cpu *k;

    if (!cc->on)
        return;
    k = carry_begin(c->carry);
    carry_end_if(k, c->front->drain(c, cc) != 0);
}

/* What the front end has in common goes to the slabs. */
static void shrink_common(struct kmem_cache *c)
{
    unsigned long flags = plat_irq_save();

    if (c->limit && c->front->shrink)
        (void)c->front->shrink(c);
    plat_irq_restore(flags);
}

unsigned kmem_cache_shrink(struct kmem_cache *c)
{
    unsigned long flags = plat_irq_save();

    cache_drain_cpu(c, plat_cpu_id());
    plat_irq_restore(flags);
    shrink_common(c);
    return slab_shrink(c);
}

/* -- making and destroying -- */

static u32 cache_modes(const struct heap *h)
{
    u32 mode = 0;

    if (h->stats_slab == V_stats_slab_global)
        mode |= MODE_STAT_GLOBAL;
    if (h->poison == V_poison_free)
        mode |= MODE_POISON_FREE;
    if (h->poison == V_poison_full)
        mode |= MODE_POISON_FULL;
    return mode;
}

static bool is_kmalloc_class(const struct heap *h, const struct kmem_cache *c)
{
    return c >= h->kmalloc && c < h->kmalloc + KMALLOC_CLASSES;
}

static const struct front_ops *front_chosen(const struct heap *h, const struct kmem_cache *c)
{
    if (c->internal || h->front == V_front_none)
        return NULL;
    if (h->typed_direct && !is_kmalloc_class(h, c))
        return NULL;
    switch (h->front) {
    case V_front_sheaf:
        return &front_sheaf;
    case V_front_magazine:
        return &front_magazine;
    default:
        return &front_bounded;
    }
}

static void nodes_init(struct kmem_cache *c)
{
    for (unsigned i = 0; i < c->heap->nodes; i++)
        slab_node_init(&c->node[i], c->name);
}

void cache_locks_destroy(struct kmem_cache *c)
{
    for (unsigned i = 0; i < c->heap->nodes; i++)
        spin_destroy(&c->node[i].lock);
    if (c->front && c->front->exit)
        c->front->exit(c);
}

static void life_set(struct kmem_cache *c, enum cache_life life)
{
    __atomic_store_n(&c->life, life, __ATOMIC_SEQ_CST);
}

/* Everything but the place in the table and the CPUs' arrays. */
void cache_setup(struct heap *h, struct kmem_cache *c, const struct kmem_cache_args *a)
{
    size_t align = MAX(a->align, (size_t)KMALLOC_ALIGN);

    if (c->life == CACHE_LIVE) { /* one made again has these, and somebody may be reading them */
        text_copy(c->name, sizeof(c->name), a->name);
        c->heap = h;
    }
    c->carry = h->carry;
    c->front = front_chosen(h, c);
    c->shape = c->front ? c->front->shape : SHAPE_none;
    c->mode = cache_modes(h);
    if (c->internal) /* in nobody's books */
        c->mode &= ~(u32)MODE_STAT_GLOBAL;
    slab_ways(c);
    c->objstate = h->objstate;
    c->size = (u32)round_up(MAX(a->size, (size_t)1), sizeof(void *));
    c->zone = MAX((u32)PLAT_REDZONE_BYTES, h->poison == V_poison_full ? FULL_ZONE_BYTES : 0);
    c->ctor = a->ctor;
    c->dtor = a->dtor;
    c->limit = 0;
    c->batch = 0;
    c->asked = a->front_capacity;
    c->alloc_slow = cache_alloc_direct;
    c->free_slow = cache_free_direct;
    slab_geometry(c, align);
    if (!c->cpu_bytes) {
        c->cpu_base = (char *)c->boot_cpu;
        cache_cpu(c, 0)->node = &c->node[0];
    }
    if (c->front)
        c->front->size(h, c);
    cache_way(c);
    if (c->life ==
        CACHE_LIVE) /* a dead cache's nodes are empty, and their locks keep their numbers */
        nodes_init(c);
}

/* CPUs 0..n-1, which nobody uses. */
static void cpus_exit(struct kmem_cache *c, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        cache_cpu(c, i)->limit = 0;
        cache_cpu(c, i)->on = false;
        if (c->front && c->front->cpu_exit)
            c->front->cpu_exit(cache_cpu(c, i));
    }
}

bool cache_cpus_init(struct kmem_cache *c, unsigned cpus)
{
    bool own_array = c->shape == SHAPE_array;
    size_t bytes = sizeof(struct cache_cpu) + (own_array ? c->limit * sizeof(void *) : 0);
    unsigned old_cpus = c->cpu_bytes ? cpus : 1;

    if (bytes > c->cpu_bytes) {
        char *old = c->cpu_base, *base = region_alloc(c->heap, bytes);

        if (!base)
            return false;
        for (unsigned i = 0; i < cpus; i++)
            ((struct cache_cpu *)(void *)(base + PLAT_CPU_STRIDE * i))->node =
                &c->node[c->heap->cpu_node[i]];
        for (unsigned i = 0; i < old_cpus; i++)
            memcpy(((struct cache_cpu *)(void *)(base + PLAT_CPU_STRIDE * i))->ctr,
                   ((struct cache_cpu *)(void *)(old + PLAT_CPU_STRIDE * i))->ctr,
                   sizeof(cache_cpu(c, 0)->ctr));
        /* Who sums up statistics reads rows of dead caches too. */
        __atomic_store_n(&c->cpu_base, base, __ATOMIC_RELEASE);
        c->cpu_bytes = (u32)bytes;
    }
    for (unsigned i = 0; i < cpus; i++) {
        struct cache_cpu *cc = cache_cpu(c, i);

        cc->batch = c->batch;
        cc->limit = c->limit;
        if (c->front && c->front->cpu_init && !c->front->cpu_init(c, cc)) {
            cc->limit = 0;
            cpus_exit(c, i);
            return false;
        }
        cc->on = c->limit != 0;
    }
    if (c->limit) {
        c->alloc_slow = c->front->alloc ? c->front->alloc : alloc_refill;
        c->free_slow = c->front->free ? c->front->free : free_put;
    }
    return true;
}

bool cache_register(struct heap *h, struct kmem_cache *c)
{
    unsigned long flags = spin_lock_irqsave(&h->caches_lock);
    u32 n = h->caches;

    if (n < MAX_CACHES) {
        c->id = n;
        h->cache[n] = c;
        __atomic_store_n(&h->caches, n + 1, __ATOMIC_RELEASE);
    }
    spin_unlock_irqrestore(&h->caches_lock, flags);
    return n < MAX_CACHES;
}

/* Takes the dead cache of that name out of its grave, for the caller to set up. */
static struct kmem_cache *cache_revive(struct heap *h, const char *name)
{
    struct kmem_cache *found = NULL;
    unsigned long flags = spin_lock_irqsave(&h->caches_lock);

    for (u32 i = 0; i < h->caches && !found; i++)
        if (h->cache[i]->life == CACHE_DEAD && strcmp(h->cache[i]->name, name) == 0) {
            found = h->cache[i];
            life_set(found, CACHE_MAKING); /* nobody else's */
        }
    spin_unlock_irqrestore(&h->caches_lock, flags);
    return found;
}

#define FRONT_CAPACITY_MAX 252u

static bool args_legal(const struct kmem_cache_args *a)
{
    size_t align = a->align ? a->align : KMALLOC_ALIGN;

    return a->name && a->name[0] && strlen(a->name) < CACHE_NAME_MAX && a->size >= 1 &&
           a->size <= KMALLOC_MAX_SMALL && a->front_capacity <= FRONT_CAPACITY_MAX &&
           align <= PAGE_SIZE && (align & (align - 1)) == 0;
}

struct kmem_cache *kmem_cache_create(struct heap *h, const struct kmem_cache_args *a)
{
    struct kmem_cache *c;
    bool fresh, ready;

    if (!args_legal(a) || (a->front_capacity && !sheaf_pools_make(h)))
        return NULL;
    c = cache_revive(h, a->name);
    fresh = !c;
    if (fresh) {
        if (heap_cache_count(h) == MAX_CACHES)
            return NULL;
        c = table_alloc(h, sizeof(*c));
        if (!c)
            return NULL;
    }
    cache_setup(h, c, a);
    /* Before the CPUs are known the boot row serves; heap_cpus_init() makes the arrays. */
    ready = !h->cpus || cache_cpus_init(c, h->cpus);
    if (ready && fresh && !cache_register(h, c)) {
        cpus_exit(c, h->cpus);
        ready = false;
    }
    if (!ready) {
        if (fresh) {
            cache_locks_destroy(c);
            table_free(h, c, sizeof(*c));
        } else {
            life_set(c, CACHE_DEAD);
        }
        return NULL;
    }
    life_set(c, CACHE_LIVE);
    return c;
}

/* Every CPU's arrays, from here: nobody visits the cache, and nobody uses it. */
static void drain_every_cpu(struct kmem_cache *c)
{
    for (unsigned cpu = 0; cpu < c->heap->cpus; cpu++) {
        unsigned long flags = plat_irq_save();

        cache_drain_cpu(c, cpu);
        plat_irq_restore(flags);
    }
}

static bool rcu_pending(const struct kmem_cache *c)
{
    u64 g[NR_CACHE_COUNTERS] = {0};

    cache_gauges(c, g);
    return g[CACHE_rcu_objects] > 0;
}

/* Objects that have left their slabs. */
static u64 in_use(struct kmem_cache *c, u64 *slabs)
{
    u64 used = 0;

    for (unsigned i = 0; i < c->heap->nodes; i++) {
        struct cache_node *n = &c->node[i];
        unsigned long flags = spin_lock_irqsave(&n->lock);

        *slabs += n->slabs;
        used += n->slabs * c->capacity - n->free_objects;
        spin_unlock_irqrestore(&n->lock, flags);
    }
    return used;
}

/* What is out of a dying cache that nobody visits; every CPU's arrays and all empty slabs are gone then. */
static u64 empty_out(struct kmem_cache *c)
{
    u64 slabs = 0, used;

    if (GUARD_STEP(55))
        drain_every_cpu(c);
    if (GUARD_STEP(56))
        shrink_common(c);
    slab_shrink(c);
    used = in_use(c, &slabs);
    /* If no object is out and no front end holds one, every slab was empty and is gone. */
    CHECK_VALUES(used || slabs == 0, slabs, c->id);
    return used;
}

static void *alloc_dead(struct kmem_cache *c, size_t size)
{
    (void)c;
    (void)size;
    return NULL;
}

/* LIVE → DYING; of two who destroy it one does. */
static bool life_ends(struct kmem_cache *c)
{
    u32 live = CACHE_LIVE;

    return __atomic_compare_exchange_n(&c->life, &live, CACHE_DYING, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

bool kmem_cache_destroy(struct kmem_cache *c, u64 *busy)
{
    struct heap *h = c->heap;
    u64 used;

    if (rcu_pending(c) && GUARD_STEP(54))
        heap_kfree_rcu_barrier(h);
    __atomic_fetch_add(&h->destroys, 1, __ATOMIC_SEQ_CST);
    if (GUARD_STEP(63) && !life_ends(c)) {
        __atomic_fetch_sub(&h->destroys, 1, __ATOMIC_SEQ_CST);
        if (busy)
            *busy = 0;
        return false;
    }
    if (GUARD_STEP(64))
        heap_visits_wait(h);
    used = empty_out(c);
    if (!used) {
        cpus_exit(c, h->cpus);
        if (GUARD_STEP(96))
            c->calls.alloc = alloc_dead;
    }
    life_set(c, used ? CACHE_LIVE : CACHE_DEAD);
    __atomic_fetch_add(&h->destroys_over, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&h->destroys, 1, __ATOMIC_SEQ_CST);
    if (busy)
        *busy = used;
    return !used;
}
