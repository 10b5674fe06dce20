/* slab.c: slabs of equal objects, and their partial, full and empty lists.
 *
 * A slab is a block of pages cut into slots (drawn in mm_impl.h). It is on exactly one list of its
 * node: full when no object is FREE, empty when all are, else partial. A CPU with an array refills it
 * from a partial slab of its own, so that neighbours, which share cache lines of states or of
 * objects, are handed to one CPU. Objects leave and come back
 * under the cache lock, many at a time: that is the price the front ends exist to avoid. `inuse`
 * counts the objects that have left, those in a front end included, so no slab can be given back
 * while any CPU's array holds one of its objects.
 *
 * A slab that empties goes back to the buddy at once if the node already holds min_partial others
 * with room; else it stays on the empty list, for the next burst. Growing and giving back happen
 * with the cache lock dropped.
 *
 * Nodes: a slab is on the lists of the node that its pages are of, its home, whoever made it; an object
 * goes back there. A CPU's own slab is of the CPU's node. A CPU that needs one looks, in this order: at its
 * node's partial slabs that no CPU refills from, and at its empty ones; at other nodes' partial slabs, where
 * they have more than min_partial of them (Linux's rule: what is piled up elsewhere is used up before more
 * memory is taken, but nobody is robbed of his last); then it makes a slab, of its node's pages if that has
 * any; and if there is no memory at all, it takes what any node has. One lock at a time: who flushes objects
 * of several nodes takes their locks in turn.
 *
 * Locking: cache_node.lock. The page lock is never taken under it. Contexts: thread, interrupt;
 * interrupts off. */
#include "latency_impl.h"
#include "objstate_impl.h"

/* -- taking objects -- */

static u64 *row(const struct kmem_cache *c)
{
    return cache_cpu_mine(c)->ctr;
}

static void list_partial(struct kmem_cache *c, struct cache_node *n, struct frame *s)
{
    /* The front is for those that no CPU refills from. */
    if (s->taker)
        list_push_back(&n->partial, &s->link);
    else
        list_push_front(&n->partial, &s->link);
    plat_counter_add(&n->partials, 1); /* the holder's alone */
    plat_counter_add(&row(c)[CACHE_partial_add], 1);
}

static void unlist_partial(struct kmem_cache *c, struct cache_node *n, struct frame *s)
{
    list_remove(&s->link);
    plat_counter_add(&n->partials, ~(u64)0);
    plat_counter_add(&row(c)[CACHE_partial_remove], 1);
}

static void free_objects_add(struct cache_node *n, u64 v)
{
    __atomic_store_n(&n->free_objects, n->free_objects + v, __ATOMIC_RELAXED);
}

/* As heap_node_after(), for the lists of c. */
static struct cache_node *node_after(struct kmem_cache *c, const struct cache_node *n, unsigned i)
{
    return &c->node[heap_node_after(c->heap, (unsigned)(n - c->node), i)];
}

/* -- whose slab it is: from which slab a CPU refills its array -- */

static void slab_own_locked(struct frame *s, struct cache_cpu *cc)
{
    s->taker = plat_cpu_id() + 1;
    cc->slab = s;
}

static void slab_disown_locked(struct kmem_cache *c, struct frame *s)
{
    if (!s->taker)
        return;
    cache_cpu(c, s->taker - 1)->slab = NULL;
    s->taker = 0;
}

/* Takes want objects from the front of s's list, which has as many. */
static ALWAYS_INLINE void take_run(struct object_how how, struct frame *s, void **out,
                                   unsigned want, enum object_state to)
{
    void *obj = s->freelist;

    for (unsigned i = 0; i < want; i++) {
        object_move(how, obj, to);
        out[i] = obj;
        obj = *object_link_at(how, obj);
    }
    s->freelist = obj;
}

/* n is a constant where it is 1. */
static ALWAYS_INLINE void take_run_any(struct kmem_cache *c, struct frame *s, void **out,
                                       unsigned n, enum object_state to)
{
    if (likely(c->objstate == V_objstate_header))
        take_run(object_how(c, V_objstate_header), s, out, n, to);
    else if (c->objstate == V_objstate_side)
        take_run(object_how(c, V_objstate_side), s, out, n, to);
    else
        take_run(object_how(c, V_objstate_off), s, out, n, to);
}

/* s has given its last object. */
static ALWAYS_INLINE void slab_full_locked(struct kmem_cache *c, struct cache_node *n,
                                           struct frame *s)
{
    CHECK_VALUES(!s->freelist, s->freelist, 0);
    slab_disown_locked(c, s);
    unlist_partial(c, n, s);
    list_push_front(&n->full, &s->link);
}

static unsigned take_from_slab_locked(struct kmem_cache *c, struct cache_node *n, struct frame *s,
                                      void **out, unsigned want)
{
    unsigned room = c->capacity - s->inuse, got = MIN(room, want);

    take_run_any(c, s, out, got, OBJECT_CACHED);
    s->inuse += got;
    free_objects_add(n, -(u64)got);
    if (got == room)
        slab_full_locked(c, n, s);
    return got;
}

static struct frame *slab_create(struct kmem_cache *c);

static struct frame *first_partial_locked(struct cache_node *n)
{
    struct list *e = list_first(&n->partial);

    return e ? list_entry(e, struct frame, link) : NULL;
}

/* On no list then. */
static struct frame *pop_empty_locked(struct cache_node *n)
{
    struct list *e = list_pop_front(&n->empty);

    if (!e)
        return NULL;
    n->empties--;
    return list_entry(e, struct frame, link);
}

/* s, on no list, is where objects will be taken from. own: n is the CPU's node. */
static ALWAYS_INLINE void slab_open_locked(struct kmem_cache *c, struct cache_node *n,
                                           struct frame *s, struct cache_cpu *cc, bool own)
{
    /* Not by its limit: a magazine that is being filled is nobody's, and the CPU has no room meanwhile. */
    if (cc->on && own && GUARD_STEP(90))
        slab_own_locked(s, cc);
    list_partial(c, n, s);
}

/* -- beyond the CPU's own lists. No lock held; where a slab is returned, its home's is taken -- */

/* A partial slab of another node that has plenty. */
static struct frame *slab_borrow(struct kmem_cache *c, struct cache_node *own)
{
    for (unsigned i = 1; i < c->heap->nodes; i++) {
        struct cache_node *n = node_after(c, own, i);
        struct frame *s;

        /* An unlocked look: wrong, it costs a slab, or an empty visit. */
        if (__atomic_load_n(&n->partials, __ATOMIC_RELAXED) <= c->heap->min_partial)
            continue;
        spin_lock(&n->lock);
        s = first_partial_locked(n);
        if (s)
            return s;
        spin_unlock(&n->lock);
    }
    return NULL;
}

static struct frame *slab_make(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct carry_cpu *k;
    struct cache_node *n;
    struct frame *s;

    k = carry_begin(c->carry);
    s = slab_create(c);
    if (s) {
        n = s->home;
        spin_lock(&n->lock);
        __atomic_store_n(&n->slabs, n->slabs + 1, __ATOMIC_RELAXED);
        free_objects_add(n, c->capacity);
        slab_open_locked(c, n, s, cc, GUARD(59, n == cc->node));
    }
    carry_end_if(k, s != NULL);
    return s;
}

/* There is no memory, and the reclaim that has just failed left no empty slab: any partial one, another
 * CPU's or node's too. */
static struct frame *slab_find_last(struct kmem_cache *c, struct cache_node *own)
{
    for (unsigned i = 0; i < c->heap->nodes; i++) {
        struct cache_node *n = node_after(c, own, i);
        struct frame *s;

        spin_lock(&n->lock);
        /* The own node's are looked at again: the lock was dropped. */
        s = GUARD_STEP(57) || i ? first_partial_locked(n) : NULL;
        if (s)
            return s;
        spin_unlock(&n->lock);
    }
    return NULL;
}

/* All of these: drops n's lock, which is held, and takes it again if nothing was found. */
static NOINLINE struct frame *slab_find_beyond(struct kmem_cache *c, struct cache_node *n,
                                               struct cache_cpu *cc)
{
    struct frame *s;

    spin_unlock(&n->lock);
    s = slab_borrow(c, n);
    if (!s)
        s = slab_make(c, cc);
    if (!s)
        s = slab_find_last(c, n);
    if (!s)
        spin_lock(&n->lock);
    return s;
}

/* A partial slab for this CPU, which has none: one of its node that no other CPU refills from, or a fresh
 * one, or an other node's (above). Without a front end, when there is no partial slab: the same, but
 * nobody's. The lock of n, the CPU's node, is held; it may be dropped, and the slab's home's is held
 * then. grow: may go beyond what n has. NULL, and n's lock held: nothing was found. */
static NOINLINE struct frame *slab_find_locked(struct kmem_cache *c, struct cache_node *n,
                                               struct cache_cpu *cc, bool grow)
{
    struct frame *s = first_partial_locked(n);

    if (s && !s->taker) {
        slab_own_locked(s, cc);
        list_remove(&s->link);
        list_push_back(&n->partial, &s->link);
        return s;
    }
    s = pop_empty_locked(n);
    if (s) {
        slab_open_locked(c, n, s, cc, true);
        return s;
    }
    return grow ? slab_find_beyond(c, n, cc) : NULL;
}

/* s is another node's, whose lock is held; it is not any more then. */
static NOINLINE unsigned take_elsewhere(struct kmem_cache *c, struct frame *s, void **out,
                                        unsigned want)
{
    struct cache_node *n = s->home;
    unsigned got = take_from_slab_locked(c, n, s, out, want);

    spin_unlock(&n->lock);
    return got;
}

static unsigned take(struct kmem_cache *c, void **out, unsigned want)
{
    struct cache_cpu *cc = cache_cpu_mine(c);
    struct cache_node *n = cc->node;
    unsigned got = 0;

    spin_lock(&n->lock);
    while (got < want) {
        struct frame *s = cc->slab;

        if (unlikely(!s)) {
            if (GUARD(91, !cc->on) && n->partial.next != &n->partial) /* no front end: the first */
                s = list_entry(n->partial.next, struct frame, link);
            else /* some is enough to do without a new slab: the caller comes again */
                s = slab_find_locked(c, n, cc, got == 0);
            if (unlikely(!s))
                break;
            if (unlikely(s->home != n)) /* only if there was nothing else: got is 0 */
                return take_elsewhere(c, s, out, want);
        }
        got += take_from_slab_locked(c, n, s, out + got, want - got);
    }
    spin_unlock(&n->lock);
    return got;
}

/* Without a front end: the first partial slab's. n is the CPU's node. */
static ALWAYS_INLINE void *take_one_at(struct kmem_cache *c, struct cache_node *n)
{
    void *obj = NULL;
    struct frame *s;

    spin_lock(&n->lock);
    if (likely(!list_empty(&n->partial))) {
        s = list_entry(n->partial.next, struct frame, link);
    } else {
        s = slab_find_locked(c, n, cache_cpu_mine(c), true);
        if (s)
            n = s->home;
    }
    if (likely(s)) {
        take_run_any(c, s, &obj, 1, OBJECT_ALLOCATED);
        s->inuse++;
        free_objects_add(n, -(u64)1);
        if (unlikely(!s->freelist))
            slab_full_locked(c, n, s);
    }
    spin_unlock(&n->lock);
    return obj;
}

static void *take_one(struct kmem_cache *c)
{
    return take_one_at(c, cache_cpu_mine(c)->node);
}

/* nodes=1: which node needs no look. */
static void *take_one_node0(struct kmem_cache *c)
{
    return take_one_at(c, &c->node[0]);
}

/* -- giving objects back -- */

static ALWAYS_INLINE void put_first(struct object_how how, void *obj, void **first)
{
    object_move(how, obj, OBJECT_FREE);
    *object_link_at(how, obj) = *first;
    *first = obj;
}

/* Puts objects into their slab, s, up to the first that lies in another; returns how many. Looks at
 * four at a time: mostly a whole batch is of one slab. */
static ALWAYS_INLINE unsigned put_run(struct object_how how, unsigned order, struct frame *s,
                                      void *const *obj, unsigned count)
{
    uintptr_t inside = ~((PAGE_SIZE << order) - 1); /* a slab is aligned to its size */
    uintptr_t base = (uintptr_t)obj[0];
    void *first = s->freelist;
    void *const *at = obj, *const *end = obj + count;

    for (; end - at >= 4; at += 4) {
        void *a = at[0], *b = at[1], *d = at[2], *e = at[3];

        if ((((uintptr_t)a ^ base) | ((uintptr_t)b ^ base) | ((uintptr_t)d ^ base) |
             ((uintptr_t)e ^ base)) &
            inside)
            break;
        put_first(how, a, &first);
        put_first(how, b, &first);
        put_first(how, d, &first);
        put_first(how, e, &first);
    }
    for (; at < end && (((uintptr_t)*at ^ base) & inside) == 0; at++)
        put_first(how, *at, &first);
    s->freelist = first;
    return (unsigned)(at - obj);
}

/* s has just got objects back; puts it on the list where it belongs. True: it emptied and is one too
 * many; it is on no list, no longer the node's, and to be given back. */
static NOINLINE bool slab_relist_locked(struct kmem_cache *c, struct cache_node *n, struct frame *s,
                                        bool was_full)
{
    if (was_full)
        list_remove(&s->link);
    if (s->inuse) {
        list_partial(c, n, s);
        return false;
    }
    slab_disown_locked(c, s);
    if (!was_full)
        unlist_partial(c, n, s);
    if (n->partials + n->empties >= c->heap->min_partial) {
        __atomic_store_n(&n->slabs, n->slabs - 1, __ATOMIC_RELAXED);
        free_objects_add(n, -(u64)c->capacity);
        return true;
    }
    list_push_front(&n->empty, &s->link);
    n->empties++;
    return false;
}

/* Puts back the objects at the front of obj that lie in s; returns how many. */
static unsigned put_some_locked(struct kmem_cache *c, struct cache_node *n, struct frame *s,
                                void *const *obj, unsigned count, struct list *gone)
{
    bool was_full = !s->freelist;
    unsigned put;

    if (likely(c->objstate == V_objstate_header))
        put = put_run(object_how(c, V_objstate_header), c->order, s, obj, count);
    else if (c->objstate == V_objstate_side)
        put = put_run(object_how(c, V_objstate_side), c->order, s, obj, count);
    else
        put = put_run(object_how(c, V_objstate_off), c->order, s, obj, count);
    CHECK_VALUES(s->inuse >= put, obj[0], s->inuse);
    s->inuse -= put;
    free_objects_add(n, put);
    if (unlikely(was_full || s->inuse == 0) && slab_relist_locked(c, n, s, was_full))
        list_push_back(gone, &s->link);
    return put;
}

static void slab_release(struct kmem_cache *c, struct frame *s);

static void release_all(struct kmem_cache *c, struct list *gone, enum cache_counter why)
{
    struct list *e;

    while ((e = list_pop_front(gone))) {
        slab_release(c, list_entry(e, struct frame, link));
        plat_counter_add(&row(c)[why], 1);
    }
}

static void put(struct kmem_cache *c, void *const *obj, unsigned count)
{
    struct frame *s = frame_of(&c->heap->frames, obj[0])->head;
    struct cache_node *n = s->home;
    struct list gone = LIST_INIT(gone);
    unsigned i = 0;

    spin_lock(&n->lock);
    for (;;) {
        i += put_some_locked(c, n, s, obj + i, count - i, &gone);
        if (i == count)
            break;
        s = frame_of(&c->heap->frames, obj[i])->head;
        if (likely(GUARD(60, s->home == n)))
            continue;
        spin_unlock(&n->lock);
        n = s->home;
        spin_lock(&n->lock);
    }
    spin_unlock(&n->lock);
    if (unlikely(!list_empty(&gone)))
        release_all(c, &gone, CACHE_slab_free_empty);
}

static void put_one(struct kmem_cache *c, void *obj)
{
    struct frame *s = frame_of(&c->heap->frames, obj)->head;
    struct cache_node *n = s->home;
    bool was_full, gone = false;

    spin_lock(&n->lock);
    was_full = !s->freelist;
    if (likely(c->objstate == V_objstate_header))
        put_first(object_how(c, V_objstate_header), obj, &s->freelist);
    else if (c->objstate == V_objstate_side)
        put_first(object_how(c, V_objstate_side), obj, &s->freelist);
    else
        put_first(object_how(c, V_objstate_off), obj, &s->freelist);
    CHECK_VALUES(s->inuse > 0, obj, s->inuse);
    s->inuse--;
    free_objects_add(n, 1);
    if (unlikely(was_full || s->inuse == 0))
        gone = slab_relist_locked(c, n, s, was_full);
    spin_unlock(&n->lock);
    if (unlikely(gone)) {
        slab_release(c, s);
        plat_counter_add(&row(c)[CACHE_slab_free_empty], 1);
    }
}

/* -- the same, timed (latency=on) -- */

static unsigned take_timed(struct kmem_cache *c, void **out, unsigned want)
{
    u64 start = latency_begin(&c->heap->latency, LATENCY_slab, LATENCY_ALLOC);
    unsigned got = take(c, out, want);

    latency_end(&c->heap->latency, LATENCY_slab, LATENCY_ALLOC, start);
    return got;
}

static void put_timed(struct kmem_cache *c, void *const *obj, unsigned count)
{
    u64 start = latency_begin(&c->heap->latency, LATENCY_slab, LATENCY_FREE);

    put(c, obj, count);
    latency_end(&c->heap->latency, LATENCY_slab, LATENCY_FREE, start);
}

static void *take_one_timed(struct kmem_cache *c)
{
    u64 start = latency_begin(&c->heap->latency, LATENCY_slab, LATENCY_ALLOC);
    void *obj = take_one(c);

    latency_end(&c->heap->latency, LATENCY_slab, LATENCY_ALLOC, start);
    return obj;
}

static void put_one_timed(struct kmem_cache *c, void *obj)
{
    u64 start = latency_begin(&c->heap->latency, LATENCY_slab, LATENCY_FREE);

    put_one(c, obj);
    latency_end(&c->heap->latency, LATENCY_slab, LATENCY_FREE, start);
}

void slab_ways(struct kmem_cache *c)
{
    static const struct slab_calls plain = {take, put, take_one_node0, put_one};
    static const struct slab_calls nodes = {take, put, take_one, put_one};
    static const struct slab_calls timed = {take_timed, put_timed, take_one_timed, put_one_timed};

    c->slabs = c->heap->latency_on ? timed : c->heap->nodes > 1 ? nodes : plain;
}

/* -- giving slabs back -- */

static unsigned node_shrink(struct kmem_cache *c, struct cache_node *n)
{
    struct carry_cpu *k;
    struct list gone = LIST_INIT(gone);
    unsigned long flags = plat_irq_save();
    unsigned count;

    k = carry_begin(c->carry);
    spin_lock(&n->lock);
    count = n->empties;
    list_splice_back(&gone, &n->empty);
    n->empties = 0;
    __atomic_store_n(&n->slabs, n->slabs - count, __ATOMIC_RELAXED);
    free_objects_add(n, -((u64)count * c->capacity));
    spin_unlock(&n->lock);
    release_all(c, &gone, CACHE_slab_free_shrink);
    carry_end_if(k, count != 0);
    plat_irq_restore(flags);
    return count;
}

unsigned slab_shrink(struct kmem_cache *c)
{
    unsigned count = 0;

    for (unsigned i = 0; i < c->heap->nodes; i++)
        count += node_shrink(c, &c->node[i]);
    return count;
}

/* -- making and unmaking a slab -- */

/* Last the head, which others look at. Mostly there is one frame: not worth unrolling. */
static void slab_tag(struct frame *s, unsigned order, u64 tag)
{
    struct frame *f = s + ((size_t)1 << order);

#pragma clang loop unroll(disable)
    do
        frame_tag_store(--f, tag);
    while (f != s);
}

/* Objects with fills, a zone or a constructor. */
static void objects_make(struct kmem_cache *c, struct frame *s, char *first)
{
    void **tail = &s->freelist;

    for (u32 i = 0; i < c->capacity; i++) {
        void *obj = first + (size_t)c->slot * i;

        object_set(c, obj, OBJECT_FREE);
        if ((c->mode & (MODE_POISON_FREE | MODE_POISON_FULL)) && !c->ctor)
            memset(obj, POISON_FREE, c->size);
        memset((char *)obj + c->size, POISON_REDZONE, c->zone);
        if (c->ctor)
            c->ctor(obj);
        *tail = obj;
        tail = object_link(c, obj);
    }
    *tail = NULL;
    for (u32 i = 0; i < c->capacity; i++)
        object_hide(c, first + (size_t)c->slot * i);
}

/* The others: state and link are all there is to write. */
static ALWAYS_INLINE void objects_link(struct object_how how, const struct kmem_cache *c,
                                       struct frame *s, char *first)
{
    u32 slot = c->slot, left = c->capacity;
    char *obj = first;

    s->freelist = obj;
    while (--left) {
        object_move(how, obj, OBJECT_FREE);
        *object_link_at(how, obj) = obj + slot;
        obj += slot;
    }
    object_move(how, obj, OBJECT_FREE);
    *object_link_at(how, obj) = NULL;
}

/* A new slab with all objects FREE, linked in address order; on no list, seen by nobody. */
static struct frame *slab_create(struct kmem_cache *c)
{
    struct frame *s = pages_get(c->heap, c->order);
    char *first;

    if (!s)
        return NULL;
    first = (char *)frame_address(&c->heap->frames, s) + c->lead;
    s->inuse = 0;
    s->taker = 0;
    s->home = &c->node[s->node];
    list_init(&s->link);
    for (u64 i = 0; i < (u64)1 << c->order; i++)
        s[i].head = s;
    if (c->objstate == V_objstate_side)
        memset(first + c->side.at, 0, c->side.granules);
    if (c->zone || c->ctor || (c->mode & (MODE_POISON_FREE | MODE_POISON_FULL)))
        objects_make(c, s, first);
    else if (likely(c->objstate == V_objstate_header))
        objects_link(object_how(c, V_objstate_header), c, s, first);
    else if (c->objstate == V_objstate_side)
        objects_link(object_how(c, V_objstate_side), c, s, first);
    else
        objects_link(object_how(c, V_objstate_off), c, s, first);
    slab_tag(s, c->order, TAG_SLAB(c));
    plat_counter_add(&row(c)[CACHE_slab_alloc], 1);
    return s;
}

/* Gives the pages back: off every list, no object out. */
static void slab_release(struct kmem_cache *c, struct frame *s)
{
    char *base = frame_address(&c->heap->frames, s);

    CHECK_VALUES(s->inuse == 0, base, s->inuse);
    if (c->dtor)
        for (u32 i = 0; i < c->capacity; i++) {
            object_show(base + c->lead + (size_t)c->slot * i, c->size);
            c->dtor(base + c->lead + (size_t)c->slot * i);
        }
    /* head stays: a bad free that has just read the tag may still follow it (docs/RACES.md). */
    slab_tag(s, c->order, FRAME_NONE);
    pages_put(c->heap, s, c->order);
}

/* -- geometry -- */

/* States for n objects of c, and where they start. */
static struct side_shape side_shape(const struct kmem_cache *c, unsigned order, u32 n)
{
    u32 shift = (u32)__builtin_ctz(c->slot);
    u64 used = (u64)n * c->slot;

    return (struct side_shape){(PAGE_SIZE << order) - 1, round_up(used, (u64)CACHE_LINE),
                               used >> shift, shift};
}

/* Objects that fit a slab of this order, and where the first one starts. */
static u32 fit(const struct kmem_cache *c, unsigned order, size_t align, u32 *lead)
{
    size_t bytes = PAGE_SIZE << order;
    u32 n;

    if (c->objstate == V_objstate_header) {
        *lead = (u32)round_up((size_t)HEADER_BYTES, align);
        n = (u32)((bytes - *lead + HEADER_BYTES) / c->slot);
        /* The last object needs no header after it. */
        while (n && *lead + (size_t)(n - 1) * c->slot + c->size + c->zone > bytes)
            n--;
        return n;
    }
    n = (u32)(bytes / c->slot);
    *lead = 0;
    for (; n && c->objstate == V_objstate_side; n--) {
        struct side_shape side = side_shape(c, order, n);

        if (side.at + side.granules <= bytes)
            break;
    }
    return n;
}

void slab_geometry(struct kmem_cache *c, size_t align)
{
    u32 header = c->objstate == V_objstate_header ? HEADER_BYTES : 0;
    u64 best = 0;

    c->link_offset = 0;
    if (!header && c->ctor) /* keep the link out of what the constructor made */
        c->link_offset = (u32)round_up((size_t)c->size + c->zone, sizeof(void *));
    c->slot = (u32)round_up((size_t)header + c->size + c->zone, align);
    if (c->link_offset)
        c->slot = (u32)round_up((size_t)c->link_offset + sizeof(void *), align);
    for (unsigned order = 0; order <= MAX_SLAB_ORDER; order++) {
        size_t bytes = PAGE_SIZE << order;
        u32 lead, n = fit(c, order, align, &lead);
        u64 used = (u64)n * c->size * 1024 / bytes; /* share of the slab that users get */

        /* A larger slab must be clearly better filled, or bring the number of objects up; eight
         * objects with an eighth lost are good enough. */
        if (n == 0 || (best && used <= best + 32 && (c->capacity >= 8 || used + 32 < best)))
            continue;
        best = used;
        c->order = order;
        c->capacity = n;
        c->lead = lead;
        if (n >= 8 && bytes - (size_t)n * c->slot <= bytes / 8)
            break;
    }
    CHECK_VALUES(c->capacity > 0, c->size, align);
    c->slot_inverse = (((u64)1 << 32) + c->slot - 1) / c->slot;
    c->start_bound = (c->capacity - 1) * (u32)(c->slot_inverse * c->slot);
    CHECK_VALUES((PAGE_SIZE << c->order) + c->slot < c->slot_inverse, c->order, c->slot);
    c->side = side_shape(c, c->order, c->capacity);
}

void slab_node_init(struct cache_node *n, const char *name)
{
    list_init(&n->partial);
    list_init(&n->full);
    list_init(&n->empty);
    n->partials = 0;
    n->empties = 0;
    n->slabs = 0;
    n->free_objects = 0;
    spin_init(&n->lock, LOCKCLASS_cache, name);
}

/* -- validate -- */

enum where { PARTIAL, FULL, EMPTY };

static bool one_slab_validate(struct kmem_cache *c, struct cache_node *n, struct frame *s,
                              enum where where, struct heap_fault *f)
{
    char *base = frame_address(&c->heap->frames, s);
    u32 free = 0;

    if (s->taker && (where != PARTIAL || cache_cpu(c, s->taker - 1)->slab != s))
        return heap_fault_set(f, "slab: its CPU does not refill from it", base, c);

    if (s->home != n || n != &c->node[s->node] ||
        (s->taker && cache_cpu(c, s->taker - 1)->node != n))
        return heap_fault_set(f, "slab: on another node's list, or another's CPU refills from it",
                              base, c);
    if (s->head != s || frame_tag_load(s) != TAG_SLAB(c))
        return heap_fault_set(f, "slab: the head frame is not this cache's", base, c);
    for (void *o = s->freelist; o; o = *object_link(c, o)) {
        if (object_index(c, base, o) >= c->capacity)
            return heap_fault_set(f, "slab: the free list leaves the slab", o, c);
        if (c->objstate != V_objstate_off && object_found(c, o) != STATE_WORD(OBJECT_FREE))
            return heap_fault_set(f, "slab: an object on the free list is not FREE", o, c);
        if (++free > c->capacity)
            return heap_fault_set(f, "slab: the free list has a ring in it", base, c);
    }
    if (free + s->inuse != c->capacity)
        return heap_fault_set(f, "slab: free objects and inuse do not add up", base, c);
    if ((where == FULL) != (free == 0) || (where == EMPTY) != (s->inuse == 0))
        return heap_fault_set(f, "slab: on the wrong list", base, c);
    return true;
}

static bool list_validate(struct kmem_cache *c, struct cache_node *n, struct list *l,
                          enum where where, u64 *slabs, u64 *free, struct heap_fault *f)
{
    list_for_each(e, l)
    {
        struct frame *s = list_entry(e, struct frame, link);

        if (!one_slab_validate(c, n, s, where, f))
            return false;
        *free += c->capacity - s->inuse;
        ++*slabs;
    }
    return true;
}

static bool node_validate(struct kmem_cache *c, struct cache_node *n, struct heap_fault *f)
{
    u64 slabs = 0, free = 0;
    unsigned long flags = spin_lock_irqsave(&n->lock);
    bool good = list_validate(c, n, &n->partial, PARTIAL, &slabs, &free, f) &&
                list_validate(c, n, &n->full, FULL, &slabs, &free, f) &&
                list_validate(c, n, &n->empty, EMPTY, &slabs, &free, f);

    for (unsigned cpu = 0; good && cpu < MAX(c->heap->cpus, 1u); cpu++) {
        struct frame *s = cache_cpu(c, cpu)->node == n ? cache_cpu(c, cpu)->slab : NULL;

        if (s && s->taker != cpu + 1)
            good = heap_fault_set(f, "slab: a CPU refills from a slab that is not its own", s, c);
    }
    if (good && slabs != n->slabs)
        good = heap_fault_set(f, "slab: slabs on lists and their count differ", n, c);
    if (good && free != n->free_objects)
        good = heap_fault_set(f, "slab: free objects and their count differ", n, c);
    spin_unlock_irqrestore(&n->lock, flags);
    return good;
}

bool slab_validate(struct kmem_cache *c, struct heap_fault *f)
{
    for (unsigned i = 0; i < c->heap->nodes; i++)
        if (!node_validate(c, &c->node[i], f))
            return false;
    return true;
}
