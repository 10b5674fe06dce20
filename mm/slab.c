/* slab.c: slabs of equal objects, and their partial, full and empty lists.
 *
 * A slab is a block of pages cut into slots (drawn in mm_impl.h). It is on exactly one list of its
 * node: full when no object is FREE, empty when all are, else partial. Objects leave and come back
 * under the cache lock, many at a time: that is the price the front ends exist to avoid. `inuse`
 * counts the objects that have left, those in a front end included, so no slab can be given back
 * while any CPU's array holds one of its objects.
 *
 * A slab that empties goes back to the buddy at once if the node already holds min_partial others
 * with room; else it stays on the empty list, for the next burst. Growing and giving back happen
 * with the cache lock dropped.
 *
 * Locking: cache_node.lock. The page lock is never taken under it. Contexts: thread, interrupt;
 * interrupts off. */
#include "objstate_impl.h"

/* -- taking objects -- */

static u64 *row(const struct kmem_cache *c)
{
    return cache_cpu_mine(c)->ctr;
}

static void list_partial(struct kmem_cache *c, struct cache_node *n, struct frame *s)
{
    list_push_front(&n->partial, &s->link);
    n->partials++;
    plat_counter_add(&row(c)[CACHE_partial_add], 1);
}

static void unlist_partial(struct kmem_cache *c, struct cache_node *n, struct frame *s)
{
    list_remove(&s->link);
    n->partials--;
    plat_counter_add(&row(c)[CACHE_partial_remove], 1);
}

static void free_objects_add(struct cache_node *n, u64 v)
{
    __atomic_store_n(&n->free_objects, n->free_objects + v, __ATOMIC_RELAXED);
}

/* A slab with room, on the partial list, or NULL. */
static struct frame *slab_with_room_locked(struct kmem_cache *c, struct cache_node *n)
{
    struct list *e = list_first(&n->partial);
    struct frame *s;

    if (e)
        return list_entry(e, struct frame, link);
    e = list_pop_front(&n->empty);
    if (!e)
        return NULL;
    n->empties--;
    s = list_entry(e, struct frame, link);
    list_partial(c, n, s);
    return s;
}

static unsigned take_from_slab_locked(struct kmem_cache *c, struct cache_node *n, struct frame *s,
                                      void **out, unsigned want, enum object_state to)
{
    unsigned got = 0;

    while (got < want && s->freelist) {
        void *obj = s->freelist;

        s->freelist = *object_link(c, obj);
        object_set(c, obj, to);
        out[got++] = obj;
    }
    s->inuse += got;
    free_objects_add(n, -(u64)got);
    if (!s->freelist) {
        unlist_partial(c, n, s);
        list_push_front(&n->full, &s->link);
    }
    return got;
}

static struct frame *slab_create(struct kmem_cache *c);

unsigned slab_take(struct kmem_cache *c, void **out, unsigned want, bool allocated)
{
    enum object_state to = allocated ? OBJECT_ALLOCATED : OBJECT_CACHED;
    struct cache_node *n = &c->node[0];
    unsigned got = 0;
    struct frame *s;

    spin_lock(&n->lock);
    while (got < want) {
        s = slab_with_room_locked(c, n);
        if (!s) {
            if (got)
                break; /* some is enough: the caller comes again */
            spin_unlock(&n->lock);
            s = slab_create(c);
            if (!s)
                return 0;
            spin_lock(&n->lock);
            __atomic_store_n(&n->slabs, n->slabs + 1, __ATOMIC_RELAXED);
            free_objects_add(n, c->capacity);
            list_partial(c, n, s);
        }
        got += take_from_slab_locked(c, n, s, out + got, want - got, to);
    }
    spin_unlock(&n->lock);
    return got;
}

/* -- giving objects back -- */

/* Puts one object into its slab. The slab, if it emptied and is one too many: off every list, the
 * caller's. */
static struct frame *put_object_locked(struct kmem_cache *c, struct cache_node *n, void *obj)
{
    struct frame *s = frame_of(&c->heap->frames, obj)->head;
    bool was_full = !s->freelist;

    CHECK_VALUES(s->inuse > 0, obj, s->inuse);
    object_set(c, obj, OBJECT_FREE);
    *object_link(c, obj) = s->freelist;
    s->freelist = obj;
    s->inuse--;
    free_objects_add(n, 1);
    if (was_full)
        list_remove(&s->link);
    if (s->inuse == 0) {
        if (!was_full)
            unlist_partial(c, n, s);
        if (n->partials + n->empties >= c->heap->min_partial) {
            __atomic_store_n(&n->slabs, n->slabs - 1, __ATOMIC_RELAXED);
            free_objects_add(n, -(u64)c->capacity);
            return s;
        }
        list_push_front(&n->empty, &s->link);
        n->empties++;
    } else if (was_full) {
        list_partial(c, n, s);
    }
    return NULL;
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

void slab_put(struct kmem_cache *c, void *const *obj, unsigned count)
{
    struct cache_node *n = &c->node[0];
    struct list gone = LIST_INIT(gone);

    spin_lock(&n->lock);
    for (unsigned i = 0; i < count; i++) {
        struct frame *s = put_object_locked(c, n, obj[i]);

        if (unlikely(s))
            list_push_back(&gone, &s->link);
    }
    spin_unlock(&n->lock);
    if (unlikely(!list_empty(&gone)))
        release_all(c, &gone, CACHE_slab_free_empty);
}

unsigned slab_shrink(struct kmem_cache *c)
{
    struct cache_node *n = &c->node[0];
    struct list gone = LIST_INIT(gone);
    unsigned long flags = spin_lock_irqsave(&n->lock);
    unsigned count = n->empties;

    list_splice_back(&gone, &n->empty);
    n->empties = 0;
    __atomic_store_n(&n->slabs, n->slabs - count, __ATOMIC_RELAXED);
    free_objects_add(n, -((u64)count * c->capacity));
    spin_unlock(&n->lock);
    release_all(c, &gone, CACHE_slab_free_shrink);
    plat_irq_restore(flags);
    return count;
}

/* -- making and unmaking a slab -- */

static void object_init(struct kmem_cache *c, void *obj)
{
    if (c->objstate == V_objstate_header)
        object_set(c, obj, OBJECT_FREE);
    if (c->mode & (MODE_POISON_FREE | MODE_POISON_FULL))
        if (!c->ctor)
            memset(obj, POISON_FREE, c->size);
    memset((char *)obj + c->size, POISON_REDZONE, c->zone);
    if (c->ctor)
        c->ctor(obj);
}

/* A new slab with all objects FREE, linked in address order; on no list, seen by nobody. */
static struct frame *slab_create(struct kmem_cache *c)
{
    struct frame *s = pages_get(c->heap, c->order);
    char *base;
    void **tail;

    if (!s)
        return NULL;
    base = frame_address(&c->heap->frames, s);
    s->inuse = 0;
    s->freelist = NULL;
    list_init(&s->link);
    for (u64 i = 0; i < (u64)1 << c->order; i++)
        s[i].head = s;
    if (c->objstate == V_objstate_side)
        memset(base, OBJECT_FREE, c->capacity);
    tail = &s->freelist;
    for (u32 i = 0; i < c->capacity; i++) {
        void *obj = base + c->lead + (size_t)c->slot * i;

        object_init(c, obj);
        *tail = obj;
        tail = object_link(c, obj);
    }
    *tail = NULL;
    for (u32 i = 0; i < c->capacity; i++)
        object_hide(c, base + c->lead + (size_t)c->slot * i);
    for (u64 i = (u64)1 << c->order; i-- > 0;)
        frame_tag_store(&s[i], TAG_SLAB(c));
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
    for (u64 i = (u64)1 << c->order; i-- > 0;)
        frame_tag_store(&s[i], FRAME_NONE);
    pages_put(c->heap, s, c->order);
}

/* -- geometry -- */

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
    if (c->objstate != V_objstate_side) {
        *lead = 0;
        return n;
    }
    for (;; n--) {
        *lead = (u32)round_up((size_t)n, align);
        if (*lead + (size_t)n * c->slot <= bytes)
            return n;
    }
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

static bool one_slab_validate(struct kmem_cache *c, struct frame *s, enum where where,
                              struct heap_fault *f)
{
    char *base = frame_address(&c->heap->frames, s);
    u32 free = 0;

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

static bool list_validate(struct kmem_cache *c, struct list *l, enum where where, u64 *slabs,
                          u64 *free, struct heap_fault *f)
{
    list_for_each(e, l)
    {
        struct frame *s = list_entry(e, struct frame, link);

        if (!one_slab_validate(c, s, where, f))
            return false;
        *free += c->capacity - s->inuse;
        ++*slabs;
    }
    return true;
}

bool slab_validate(struct kmem_cache *c, struct heap_fault *f)
{
    struct cache_node *n = &c->node[0];
    u64 slabs = 0, free = 0;
    unsigned long flags = spin_lock_irqsave(&n->lock);
    bool good = list_validate(c, &n->partial, PARTIAL, &slabs, &free, f) &&
                list_validate(c, &n->full, FULL, &slabs, &free, f) &&
                list_validate(c, &n->empty, EMPTY, &slabs, &free, f);

    if (good && slabs != n->slabs)
        good = heap_fault_set(f, "slab: slabs on lists and their count differ", n, c);
    if (good && free != n->free_objects)
        good = heap_fault_set(f, "slab: free objects and their count differ", n, c);
    spin_unlock_irqrestore(&n->lock, flags);
    return good;
}
