/* depot.c: where magazines wait for a CPU (front=magazine), and how large a magazine is.
 *
 * A visit trades a full magazine for an empty one, or an empty one for a full one: a few stores
 * under the lock. There is no limit to what a depot holds; instead it remembers the fewest
 * magazines that each list had in this interval and in the one before (mag.interval), and what
 * lay there unused through both is given back (reaped). Bonwick reaps when memory is short; here
 * each interval does, and a shortage takes everything.
 *
 * The size. A cache begins with the smallest size that its objects' size allows, and takes the
 * next one when the depot's lock was found taken more than three times in an interval
 * (mag.resize=on): fewer visits are what helps against a fought-over lock. The original never
 * goes back, and so keeps memory on CPUs for ever after one rush. This one does, one size for
 * each pair of intervals in which nobody fought, and in which the smaller size would have
 * brought at most a quarter of the visits at which it was left: the visits are what says whether
 * the rush is over, since the lock is quiet because of the size. And at a shortage, down to the
 * first size at once. Each change is counted by its cause, and told (heap_set_resize_handler).
 *
 * A magazine of another size than the depot's is stale: of use to the CPU that has it, but when
 * it comes to the depot it is emptied and freed. At a change all that lie there become stale at
 * once; each visit afterwards frees a few, so that no call pays for all.
 *
 * Nodes: a cache has one depot, whatever nodes= says. Bonwick's has no nodes, and this front is his; what is
 * of a node here are the slabs behind it (slab.c) and the pages of the magazines.
 *
 * Time: a visit looks at the clock. A cache that nobody visits is looked at by heap_maintain().
 *
 * Locking: depot.lock, under which no other is taken. Contexts: thread, interrupt; interrupts
 * off. */
#include "latency_impl.h"
#include "magazine_impl.h"

#define CONTENDED_MOST 3u /* times in an interval that are no reason to grow */
#define QUIET_PART     4u /* of the visits at which a size was left: how few bring it back */
#define QUIET_LEAST    2u /* intervals in a row */
#define CLEAN_AT_MOST  4u /* magazines a visit */

/* Solaris's: objects in a magazine, which sizes of object begin with it (above), and which may take
 * the next (below). */
static const struct {
    u16 objects;
    u32 above, below;
} types[MAG_TYPES] = {
    {1, 3200, 65536}, {3, 256, 32768}, {7, 64, 16384}, {15, 0, 8192}, {31, 0, 4096},
    {47, 0, 2048},    {63, 0, 1024},   {95, 0, 512},   {143, 0, 0},
};
_Static_assert(SHEAF_BYTES(143) <= SHEAF_POOL_MIN << (SHEAF_POOLS - 1), "a pool has room for any");

struct visit { /* what is to be told after the lock */
    enum latency_call call;
    u64 start; /* cycles; 0: it is not timed */
    bool resized;
    struct resize_report report;
};

static void count(struct kmem_cache *c, enum cache_counter what, u64 n)
{
    plat_counter_add(&cache_cpu_mine(c)->ctr[what], n);
}

/* -- lists; depot.lock held -- */

static void set(u32 *p, u32 v)
{
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static void objects_add(struct depot *d, u64 n)
{
    __atomic_store_n(&d->objects, d->objects + n, __ATOMIC_RELAXED);
}

static void push_locked(struct depot *d, struct mag_list *l, struct sheaf *m)
{
    list_push_front(&l->list, &m->link);
    set(&l->total, l->total + 1);
    objects_add(d, m->size);
}

static struct sheaf *pop_locked(struct depot *d, struct mag_list *l)
{
    struct list *e = list_pop_front(&l->list);
    struct sheaf *m;

    if (!e)
        return NULL;
    m = list_entry(e, struct sheaf, link);
    set(&l->total, l->total - 1);
    objects_add(d, -(u64)m->size);
    l->min = MIN(l->min, l->total);
    l->reap = MIN(l->reap, l->min);
    return m;
}

static void work_locked(struct depot *d)
{
    set(&d->work, d->stale.total + d->full.reap + d->empty.reap);
}

/* Nothing is known of it yet: nothing is surplus. */
static void forget_locked(struct mag_list *l)
{
    l->min = l->min_before = l->reap = 0;
}

static void make_stale_locked(struct depot *d, struct mag_list *l)
{
    list_splice_back(&d->stale.list, &l->list);
    set(&d->stale.total, d->stale.total + l->total);
    set(&l->total, 0);
    forget_locked(l);
}

/* -- the size; depot.lock held -- */

static void resize_locked(struct kmem_cache *c, u32 type, enum resize_why why, struct visit *v)
{
    struct depot *d = &c->depot;

    v->resized = true;
    v->report = (struct resize_report){
        c, why, d->size, types[type].objects, d->visits, d->contended, d->left_at[type]};
    if (type > d->type)
        d->left_at[d->type] = v->report.left_at = d->visits;
    d->type = type;
    d->quiet = 0;
    set(&d->size, types[type].objects);
    if (GUARD_STEP(37))
        make_stale_locked(d, &d->full);
    make_stale_locked(d, &d->empty);
}

/* Would a smaller size do? */
static bool quiet_locked(const struct depot *d)
{
    u64 smaller, visits;

    if (d->type == d->start || d->contended)
        return false;
    smaller = types[d->type - 1].objects;
    visits = (d->visits * d->size + smaller - 1) / smaller; /* that it would have brought */
    return GUARD(42, visits * QUIET_PART <= d->left_at[d->type - 1]);
}

static void consider_size_locked(struct kmem_cache *c, struct visit *v)
{
    struct depot *d = &c->depot;

    if (GUARD(40, d->contended > CONTENDED_MOST)) {
        d->quiet = 0;
        if (c->size < types[d->type].below)
            resize_locked(c, d->type + 1, RESIZE_contended, v);
    } else if (!quiet_locked(d)) {
        d->quiet = 0;
    } else if (GUARD(41, ++d->quiet == QUIET_LEAST)) {
        resize_locked(c, d->type - 1, RESIZE_quiet, v);
    }
}

static void interval_of_list_locked(struct mag_list *l)
{
    l->reap = GUARD_STEP(38) ? MIN(l->min, l->min_before) : l->min;
    l->min_before = l->min;
    l->min = l->total;
}

static void interval_locked(struct kmem_cache *c, struct visit *v)
{
    struct depot *d = &c->depot;

    interval_of_list_locked(&d->full);
    interval_of_list_locked(&d->empty);
    if (c->heap->mag_resize)
        consider_size_locked(c, v);
    d->visits = d->contended = 0;
    work_locked(d);
}

/* -- a visit -- */

static void time_locked(struct kmem_cache *c, struct visit *v)
{
    u64 hz = plat_cycles_hz(), now = plat_cycles();
    struct depot *d = &c->depot;

    if (now < d->until || !hz)
        return;
    if (d->until)
        interval_locked(c, v);
    d->until = now + hz / 1000 * c->heap->mag_interval;
}

static void enter(struct kmem_cache *c, struct visit *v, enum latency_call call)
{
    struct depot *d = &c->depot;
    bool contended;

    v->resized = false;
    v->call = call;
    v->start = 0;
    if (unlikely(c->heap->latency_on))
        v->start = latency_begin(&c->heap->latency, LATENCY_barn, call);
    contended = FAULT(depot_busy) || !spin_trylock(&d->lock);
    if (unlikely(contended))
        spin_lock(&d->lock);
    time_locked(c, v);
    d->visits++;
    d->contended += contended;
    if (contended)
        count(c, CACHE_depot_contended, 1);
}

static void leave(struct kmem_cache *c, const struct visit *v)
{
    static const enum cache_counter counter[] = {[RESIZE_contended] = CACHE_mag_grow,
                                                 [RESIZE_quiet] = CACHE_mag_shrink_quiet,
                                                 [RESIZE_shortage] = CACHE_mag_shrink_shortage};
    void (*tell)(const struct resize_report *) = c->heap->resize_handler;

    spin_unlock(&c->depot.lock);
    if (unlikely(v->start))
        latency_end(&c->heap->latency, LATENCY_barn, v->call, v->start);
    if (likely(!v->resized))
        return;
    count(c, counter[v->report.why], 1);
    if (tell)
        tell(&v->report);
}

/* Back to the slabs and to memory. */
static void destroy(struct kmem_cache *c, struct sheaf *m, enum cache_counter objects)
{
    if (GUARD_STEP(44))
        sheaf_flush(c, m, objects);
    sheaf_free(m);
}

static void retire(struct kmem_cache *c, struct sheaf *m)
{
    count(c, CACHE_mag_stale, 1);
    destroy(c, m, CACHE_flush_objects);
}

/* m joins l if it has the depot's size; else it is the caller's to retire. */
static struct sheaf *take_in_locked(struct depot *d, struct mag_list *l, struct sheaf *m)
{
    if (!m || !GUARD(36, m->capacity == d->size))
        return m;
    push_locked(d, l, m);
    return NULL;
}

static struct sheaf *trade(struct kmem_cache *c, struct mag_list *from, struct mag_list *to,
                           struct sheaf *given)
{
    struct depot *d = &c->depot;
    struct sheaf *got, *stale = NULL;
    struct visit v;

    enter(c, &v, from == &d->full ? LATENCY_ALLOC : LATENCY_FREE);
    got = pop_locked(d, from);
    if (got)
        stale = take_in_locked(d, to, given);
    leave(c, &v);
    if (unlikely(stale))
        retire(c, stale);
    else if (got && given && to == &d->full)
        count(c, CACHE_depot_put, 1);
    return got;
}

struct sheaf *depot_trade_empty(struct kmem_cache *c, struct sheaf *empty)
{
    struct depot *d = &c->depot;
    struct sheaf *full = NULL;

    /* An unlocked look: wrong, it costs one trip to the slabs. */
    if (__atomic_load_n(&d->full.total, __ATOMIC_RELAXED))
        full = trade(c, &d->full, &d->empty, empty);
    count(c, full ? CACHE_depot_get : CACHE_depot_get_fail, 1);
    return full;
}

struct sheaf *depot_trade_full(struct kmem_cache *c, struct sheaf *full)
{
    struct depot *d = &c->depot;
    struct sheaf *empty = NULL;

    ASSERT(!full || full->size == full->capacity);
    if (!FAULT(no_empty))
        empty = trade(c, &d->empty, &d->full, full);
    count(c, empty ? CACHE_depot_get_empty : CACHE_depot_get_empty_fail, 1);
    return empty;
}

void depot_add_empty(struct kmem_cache *c, struct sheaf *empty)
{
    struct depot *d = &c->depot;
    struct sheaf *stale;
    struct visit v;

    enter(c, &v, LATENCY_FREE);
    stale = take_in_locked(d, &d->empty, empty);
    leave(c, &v);
    if (stale)
        retire(c, stale);
}

/* -- giving back -- */

static struct sheaf *pop_work_locked(struct depot *d, enum cache_counter *why)
{
    struct mag_list *l = d->full.reap ? &d->full : d->empty.reap ? &d->empty : NULL;

    if (d->stale.total || !l) {
        *why = CACHE_mag_stale;
        return pop_locked(d, &d->stale);
    }
    *why = CACHE_mag_reaped;
    /* It lay there unused: that it goes is no sign of use. */
    l->reap--;
    l->min--;
    l->min_before -= MIN(l->min_before, 1u);
    return pop_locked(d, l);
}

/* False: nothing was left to do. */
static bool clean_one(struct kmem_cache *c)
{
    struct carry_cpu *k;
    struct depot *d = &c->depot;
    enum cache_counter why;
    struct sheaf *m;

    if (!__atomic_load_n(&d->work, __ATOMIC_RELAXED))
        return false;
    k = carry_begin(c->carry);
    spin_lock(&d->lock);
    m = pop_work_locked(d, &why);
    work_locked(d);
    spin_unlock(&d->lock);
    if (m) {
        count(c, why, 1);
        destroy(c, m, why == CACHE_mag_stale ? CACHE_flush_objects : CACHE_drain_objects);
    }
    carry_end_if(k, m != NULL);
    return m != NULL;
}

void depot_clean(struct kmem_cache *c)
{
    for (unsigned i = 0; i < CLEAN_AT_MOST && clean_one(c); i++)
        ;
}

void depot_maintain(struct kmem_cache *c)
{
    struct visit v = {.resized = false};

    spin_lock(&c->depot.lock);
    time_locked(c, &v);
    leave(c, &v);
    while (clean_one(c))
        ;
}

void depot_shortage(struct kmem_cache *c)
{
    struct visit v = {.resized = false};
    struct depot *d = &c->depot;

    spin_lock(&d->lock);
    if (d->type != d->start && GUARD_STEP(43))
        resize_locked(c, d->start, RESIZE_shortage, &v);
    leave(c, &v);
}

static struct sheaf *pop_any_locked(struct depot *d)
{
    struct sheaf *m = pop_locked(d, &d->stale);

    if (!m)
        m = pop_locked(d, &d->full);
    return m ? m : pop_locked(d, &d->empty);
}

unsigned depot_drain(struct kmem_cache *c)
{
    struct carry_cpu *k;
    struct depot *d = &c->depot;
    unsigned objects = 0;
    struct sheaf *m;

    for (;;) {
        k = carry_begin(c->carry);
        spin_lock(&d->lock);
        m = pop_any_locked(d);
        work_locked(d);
        spin_unlock(&d->lock);
        if (m) {
            objects += m->size;
            destroy(c, m, CACHE_drain_objects);
        }
        carry_end_if(k, m != NULL);
        if (!m)
            return objects;
    }
}

/* -- init, validate -- */

static u32 first_type(const struct kmem_cache *c)
{
    u32 type = 0;

    while (c->asked ? types[type].objects < c->asked && type + 1 < MAG_TYPES
                    : c->size <= types[type].above)
        type++;
    return type;
}

void depot_init(struct kmem_cache *c)
{
    struct depot *d = &c->depot;
    unsigned long flags;

    if (c->life == CACHE_LIVE) { /* a dead cache's is empty, and its lock keeps its number */
        list_init(&d->full.list);
        list_init(&d->empty.list);
        list_init(&d->stale.list);
        spin_init(&d->lock, LOCKCLASS_depot, c->name);
    }
    flags = spin_lock_irqsave(&d->lock);
    d->type = d->start = first_type(c);
    set(&d->size, types[d->type].objects);
    d->quiet = 0;
    d->visits = d->contended = d->until = 0;
    forget_locked(&d->full);
    forget_locked(&d->empty);
    spin_unlock_irqrestore(&d->lock, flags);
}

void depot_interval_end(struct kmem_cache *c)
{
    struct visit v = {.resized = false};

    spin_lock(&c->depot.lock);
    interval_locked(c, &v);
    leave(c, &v);
}

enum { HOLDS_ANY, HOLDS_NONE, HOLDS_ALL };

static bool list_validate(struct kmem_cache *c, struct mag_list *l, int holds, u64 *objects,
                          struct heap_fault *f)
{
    u32 found = 0;

    list_for_each(e, &l->list)
    {
        struct sheaf *m = list_entry(e, struct sheaf, link);

        if (m->cache != c || (holds != HOLDS_ANY && m->capacity != c->depot.size))
            return heap_fault_set(f, "depot: a magazine of another cache or size", m, c);
        if (m->size > m->capacity || (holds == HOLDS_NONE && m->size) ||
            (holds == HOLDS_ALL && m->size != m->capacity))
            return heap_fault_set(f, "depot: a magazine on the wrong list", m, c);
        for (u32 i = 0; i < m->size; i++)
            if (!front_object_validate(c, m->object[i], f))
                return false;
        *objects += m->size;
        found++;
    }
    if (found != l->total || l->reap > l->total || l->min > l->total)
        return heap_fault_set(f, "depot: magazines on a list and their count differ", l, c);
    return true;
}

bool depot_validate(struct kmem_cache *c, struct heap_fault *f)
{
    struct depot *d = &c->depot;
    u64 objects = 0;
    unsigned long flags = spin_lock_irqsave(&d->lock);
    bool good = list_validate(c, &d->full, HOLDS_ALL, &objects, f) &&
                list_validate(c, &d->empty, HOLDS_NONE, &objects, f) &&
                list_validate(c, &d->stale, HOLDS_ANY, &objects, f);

    if (good && objects != d->objects)
        good = heap_fault_set(f, "depot: objects and their count differ", d, c);
    if (good && (d->type < d->start || d->size != types[d->type].objects))
        good = heap_fault_set(f, "depot: a size that is none", d, c);
    spin_unlock_irqrestore(&d->lock, flags);
    return good;
}
