/* ways.c: every way in which an object is allocated and freed, one pair of functions for each, and
 * which of them a boot takes.
 *
 * What a call does is fixed at boot: where the states are (objstate=), where the CPU's objects are
 * (front=), and whether anything is done beside (stats.slab=, poison=: the cache's mode). Asking for
 * it on each call would cost every arm what it is not, and those at the end of the questions most; and
 * what an arm is charged with for being asked is no property of the allocator that it stands for. So
 * each combination is compiled from the one text in fast_impl.h and extras_impl.h, and the heap and its
 * caches point at theirs:
 *
 *   heap.calls    kmalloc and kfree. Without extras whole in one function; else by the class's
 *   cache.calls   kmem_cache_alloc and kmem_cache_free; obj is known to lie in a slab of the cache
 *   cache.inner   the same without the clock and the matrix (latency=on, matrix=on), which are two
 *                 functions around it, whatever it is
 *
 * kfree of a typed cache's object goes by the heap's way. That serves caches without an array too
 * (typed=direct), as a limit of 0 looks full.
 *
 * Locking: none of its own. Contexts: thread, interrupt; choosing: boot, and the making of a cache. */
#include "extras_impl.h"
#include "latency_impl.h"

/* -- what each way is made of; objstate, shape and extras are constants -- */

static ALWAYS_INLINE void *alloc_way(struct kmem_cache *c, size_t size, enum knob_value objstate,
                                     enum front_shape shape, bool extras)
{
    void *obj = cache_pop(c, size, objstate, shape);

    if (extras && likely(obj))
        alloc_extras(c, obj);
    return obj;
}

static ALWAYS_INLINE bool free_way(struct kmem_cache *c, void *obj, enum knob_value objstate,
                                   enum front_shape shape, bool extras)
{
    if (extras)
        return take_back(c, obj, objstate) && cache_push(c, obj, shape);
    if (unlikely(!object_claim_as(c, obj, objstate, OBJECT_CACHED)))
        return cache_free_refused(c, obj);
    return cache_push(c, obj, shape);
}

static ALWAYS_INLINE void *kmalloc_way(struct heap *h, size_t size, enum knob_value objstate,
                                       enum front_shape shape)
{
    if (unlikely(size - 1 >= KMALLOC_MAX_SMALL))
        return kmalloc_other(h, size);
    return alloc_way(h->by_size[(size - 1) / KMALLOC_ALIGN], size, objstate, shape, false);
}

static ALWAYS_INLINE bool kfree_way(struct heap *h, void *p, enum knob_value objstate,
                                    enum front_shape shape)
{
    u64 i = frame_number(&h->frames, p);
    u64 tag;

    if (unlikely(i >= h->frames.count))
        return kfree_outside(h, p);
    tag = frame_tag_load(heap_frame(h, i));
    if (likely(TAG_IS_USERS(tag)))
        return free_way(TAG_USERS_CACHE(tag), p, objstate, shape, false);
    return kfree_other(h, p, tag);
}

/* -- all of them -- */

#define WAYS(X)                                                                                    \
    X(header, none)                                                                                \
    X(header, array)                                                                               \
    X(header, sheaf)                                                                               \
    X(side, none)                                                                                  \
    X(side, array)                                                                                 \
    X(side, sheaf)                                                                                 \
    X(off, none)                                                                                   \
    X(off, array)                                                                                  \
    X(off, sheaf)

#define CACHE_CALLS(name, state, shape, extras)                                                    \
    static void *alloc_##name(struct kmem_cache *c, size_t size)                                   \
    {                                                                                              \
        return alloc_way(c, size, V_objstate_##state, SHAPE_##shape, extras);                      \
    }                                                                                              \
    static bool free_##name(struct kmem_cache *c, void *obj)                                       \
    {                                                                                              \
        return free_way(c, obj, V_objstate_##state, SHAPE_##shape, extras);                        \
    }

#define HEAP_CALLS(state, shape)                                                                   \
    static void *kmalloc_##state##_##shape(struct heap *h, size_t size)                            \
    {                                                                                              \
        return kmalloc_way(h, size, V_objstate_##state, SHAPE_##shape);                            \
    }                                                                                              \
    static bool kfree_##state##_##shape(struct heap *h, void *p)                                   \
    {                                                                                              \
        return kfree_way(h, p, V_objstate_##state, SHAPE_##shape);                                 \
    }

#define ALL_CALLS(state, shape)                                                                    \
    HEAP_CALLS(state, shape)                                                                       \
    CACHE_CALLS(state##_##shape, state, shape, false)                                              \
    CACHE_CALLS(state##_##shape##_extras, state, shape, true)

WAYS(ALL_CALLS)

struct way {
    struct heap_calls heap;
    struct cache_calls plain, extras;
};

_Static_assert(V_objstate_off - V_objstate_header == 2, "the states' values follow each other");

#define WAY(state, shape)                                                                          \
    [V_objstate_##state - V_objstate_header][SHAPE_##shape] = {                                    \
        {kmalloc_##state##_##shape, kfree_##state##_##shape},                                      \
        {alloc_##state##_##shape, free_##state##_##shape},                                         \
        {alloc_##state##_##shape##_extras, free_##state##_##shape##_extras},                       \
    },

static const struct way ways[3][3] = {WAYS(WAY)};

/* -- by the class's own calls: with extras, or observed -- */

static void *kmalloc_by_cache(struct heap *h, size_t size)
{
    struct kmem_cache *c;

    if (unlikely(size - 1 >= KMALLOC_MAX_SMALL))
        return kmalloc_other(h, size);
    c = h->by_size[(size - 1) / KMALLOC_ALIGN];
    return c->calls.alloc(c, size);
}

static bool kfree_by_cache(struct heap *h, void *p)
{
    u64 i = frame_number(&h->frames, p);
    u64 tag;

    if (unlikely(i >= h->frames.count))
        return kfree_outside(h, p);
    tag = frame_tag_load(heap_frame(h, i));
    if (unlikely(!TAG_IS_USERS(tag)))
        return kfree_other(h, p, tag);
    return TAG_USERS_CACHE(tag)->calls.free(TAG_USERS_CACHE(tag), p);
}

/* owner=lock: the tag is read under the page lock. */
static ALWAYS_INLINE bool kfree_by(u64 (*read)(struct heap *, const struct frame *), struct heap *h,
                                   void *p)
{
    struct frame *f = frame_of(&h->frames, p);
    u64 tag;

    if (unlikely(!f))
        return kfree_outside(h, p);
    tag = read(h, f);
    if (unlikely(!TAG_IS_USERS(tag)))
        return kfree_other(h, p, tag);
    return TAG_USERS_CACHE(tag)->calls.free(TAG_USERS_CACHE(tag), p);
}

static bool kfree_locked(struct heap *h, void *p)
{
    return kfree_by(pages_owner_locked_read, h, p);
}

static bool kfree_locked_node0(struct heap *h, void *p)
{
    return kfree_by(pages_owner_locked_read_node0, h, p);
}

/* -- timed, and with a note of who allocates (latency=on, matrix=on) -- */

static void *alloc_observed(struct kmem_cache *c, size_t size)
{
    struct latency *l = &c->heap->latency;
    u64 start = latency_begin(l, LATENCY_front, LATENCY_ALLOC);
    void *obj = c->inner.alloc(c, size);

    latency_end(l, LATENCY_front, LATENCY_ALLOC, start);
    if (obj)
        allocated_here(c, obj);
    return obj;
}

static bool free_observed(struct kmem_cache *c, void *obj)
{
    struct latency *l = &c->heap->latency;
    u32 from = allocated_by(c, obj);
    u64 start = latency_begin(l, LATENCY_front, LATENCY_FREE);
    bool good = c->inner.free(c, obj);

    latency_end(l, LATENCY_front, LATENCY_FREE, start);
    if (good)
        matrix_count(c->heap, from);
    return good;
}

/* -- choosing -- */

static const struct way *way_of(const struct kmem_cache *c)
{
    return &ways[c->objstate - V_objstate_header][c->limit ? c->shape : SHAPE_none];
}

static bool observed(const struct heap *h)
{
    return h->latency_on || h->matrix_on;
}

/* An internal cache's calls are nobody's, so nobody is told of them. */
void cache_way(struct kmem_cache *c)
{
    const struct way *w = way_of(c);

    c->inner = c->mode ? w->extras : w->plain;
    if (observed(c->heap) && !c->internal)
        c->calls = (struct cache_calls){alloc_observed, free_observed};
    else
        c->calls = c->inner;
}

/* The classes have one shape and one mode. */
void heap_way(struct heap *h)
{
    const struct kmem_cache *c = &h->kmalloc[0];

    if (c->mode || observed(h))
        h->calls = (struct heap_calls){kmalloc_by_cache, kfree_by_cache};
    else
        h->calls = way_of(c)->heap;
    if (h->owner_lock)
        h->calls.kfree = h->nodes > 1 ? kfree_locked : kfree_locked_node0;
}
