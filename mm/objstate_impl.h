/* objstate_impl.h: where an object's state lives and how it moves (objstate=header|side|off). The
 * states and their legal moves are in mm_impl.h.
 *
 * header: a 32-bit word before the object, one of three values that no pointer, small number or
 * fill pattern equals; so
 *   a free of an address that is not an object's start finds no legal word and is refused, without
 *   a division. Beside it stands the free-list link.
 * side: one byte an object beside the objects of its slab, found by masks and one shift; drawn in
 *   mm_impl.h. Packed like this, 64 objects share a line of states: what keeps CPUs off each
 *   other's lines is that each refills from a slab of its own (slab.c).
 * off: nothing is kept, and the object is not looked at; only a misplaced address is refused.
 *
 * The claim ALLOCATED → CACHED is the one atomic read-modify-write; other moves are plain stores
 * by whoever owns the object then (the holder of the cache lock, or the CPU in whose array it is),
 * made atomic (relaxed) only so that the loser of a racing double free reads a whole value.
 *
 * Contexts: any. Locking: see the moves. */
#ifndef MM_OBJSTATE_IMPL_H
#define MM_OBJSTATE_IMPL_H

#include "mm_impl.h"

enum object_state { OBJECT_FREE = 1, OBJECT_CACHED, OBJECT_ALLOCATED, OBJECT_RCU };

#define STATE_MAGIC   0x9e6f3c50u
#define STATE_WORD(s) (STATE_MAGIC | (u32)(s))

struct object_header {
    void *link;
    u32 cpu; /* that allocated it (matrix=on) */
    u32 state;
};

static ALWAYS_INLINE struct object_header *object_header(void *obj)
{
    return (struct object_header *)obj - 1;
}

/* The base of the slab that obj lies in; obj is inside one. */
static ALWAYS_INLINE char *object_slab(const struct kmem_cache *c, const void *obj)
{
    const struct frames *fs = &c->heap->frames;

    return frame_address(fs, frame_of(fs, obj)->head);
}

/* The object's number in its slab, or capacity if p is no object's start. */
static ALWAYS_INLINE u32 object_index(const struct kmem_cache *c, const char *base, const void *p)
{
    u64 offset = (u64)((const char *)p - base) - c->lead;
    u64 i;

    if (unlikely(offset >= (u64)c->slot * c->capacity))
        return c->capacity;
    i = offset * c->slot_inverse >> 32;
    return likely(i * c->slot == offset) ? (u32)i : c->capacity;
}

/* The same question under off, where there are no headers and p lies in a slab of c: is p an object's
 * start? One multiplication and one comparison. With m = ceil(2^32 / slot) and e = m * slot - 2^32, the
 * low half of m * (q * slot + r) is q * e + r * m: at least m where r > 0, and (capacity - 1) * e at
 * most where p is an object (start_bound; slab_geometry checks that it is below m). */
static ALWAYS_INLINE bool object_placed(const struct kmem_cache *c, const void *p)
{
    return (u32)((uintptr_t)p & c->side.within) * (u32)c->slot_inverse <= c->start_bound;
}

/* The state byte under side; obj is an object's start. side: the cache's. */
static ALWAYS_INLINE u8 *object_side_of(struct side_shape side, const void *obj)
{
    u64 offset = (uintptr_t)obj & side.within;

    return (u8 *)((uintptr_t)obj - offset + side.at + (offset >> side.shift));
}

/* The state byte under side of whatever p is, inside a slab of c: NULL if p lies beyond the objects
 * or between granules. The rotation brings what the shift would lose to the top, so that one
 * comparison finds both. */
static ALWAYS_INLINE u8 *object_side(const struct kmem_cache *c, const void *p)
{
    u64 offset = (uintptr_t)p & c->side.within;
    u64 granule = offset >> c->side.shift | offset << (-c->side.shift & 63);

    if (unlikely(granule >= c->side.granules))
        return NULL;
    return (u8 *)((uintptr_t)p - offset + c->side.at + granule);
}

/* -- fast path: the two moves of an allocation and its free; objstate is c->objstate -- */

/* CACHED → ALLOCATED, by the CPU whose array held obj. False: something wrote over the state of a
 * free object. */
static ALWAYS_INLINE bool object_allocate(const struct kmem_cache *c, void *obj,
                                          enum knob_value objstate)
{
    if (objstate == V_objstate_header) {
        u32 *word = &object_header(obj)->state;

        if (unlikely(!plat_word_is(word, STATE_WORD(OBJECT_CACHED))))
            return false;
        __atomic_store_n(word, STATE_WORD(OBJECT_ALLOCATED), __ATOMIC_RELAXED);
    } else if (objstate == V_objstate_side) {
        u8 *byte = object_side_of(c->side, obj);

        if (unlikely(__atomic_load_n(byte, __ATOMIC_RELAXED) != OBJECT_CACHED))
            return false;
        __atomic_store_n(byte, OBJECT_ALLOCATED, __ATOMIC_RELAXED);
    }
    return true;
}

/* ALLOCATED → to (CACHED or RCU): the claim of a free. False if obj is no allocated object. */
static ALWAYS_INLINE bool object_claim_as(const struct kmem_cache *c, void *obj,
                                          enum knob_value objstate, enum object_state to)
{
    if (objstate == V_objstate_header) {
        u32 expected = STATE_WORD(OBJECT_ALLOCATED);

        /* Where bytes are guarded, a word before a wrong address may not even be read. */
        if (PLAT_REDZONE_BYTES && object_index(c, object_slab(c, obj), obj) >= c->capacity)
            return false;
        return __atomic_compare_exchange_n(&object_header(obj)->state, &expected, STATE_WORD(to),
                                           false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    if (objstate == V_objstate_side) {
        u8 *byte = object_side(c, obj), expected = OBJECT_ALLOCATED;

        return byte && __atomic_compare_exchange_n(byte, &expected, (u8)to, false, __ATOMIC_ACQ_REL,
                                                   __ATOMIC_RELAXED);
    }
    return object_placed(c, obj);
}

static ALWAYS_INLINE bool object_claim(const struct kmem_cache *c, void *obj,
                                       enum knob_value objstate)
{
    return object_claim_as(c, obj, objstate, OBJECT_CACHED);
}

/* -- slow path -- */

/* What a move needs to know of its cache, held in registers by loops over many objects: to the
 * compiler, a store to a state may be one to the cache. objstate is a constant there. */
struct object_how {
    enum knob_value objstate;
    u32 link_offset;
    struct side_shape side;
};

static ALWAYS_INLINE struct object_how object_how(const struct kmem_cache *c,
                                                  enum knob_value objstate)
{
    return (struct object_how){objstate, c->link_offset, c->side};
}

/* A move made by whoever owns obj, without looking. */
static ALWAYS_INLINE void object_move(struct object_how how, void *obj, enum object_state s)
{
    if (how.objstate == V_objstate_header)
        __atomic_store_n(&object_header(obj)->state, STATE_WORD(s), __ATOMIC_RELAXED);
    else if (how.objstate == V_objstate_side)
        __atomic_store_n(object_side_of(how.side, obj), (u8)s, __ATOMIC_RELAXED);
}

static ALWAYS_INLINE void object_set(const struct kmem_cache *c, void *obj, enum object_state s)
{
    object_move(object_how(c, c->objstate), obj, s);
}

/* The state as STATE_WORD(…), or whatever else is found; obj is an object's start. Not under off.
 * */
static inline u32 object_found(const struct kmem_cache *c, void *obj)
{
    if (c->objstate == V_objstate_side)
        return STATE_WORD(__atomic_load_n(object_side_of(c->side, obj), __ATOMIC_RELAXED));
    return __atomic_load_n(&object_header(obj)->state, __ATOMIC_RELAXED);
}

/* Who allocated it (matrix=on, objstate=header). Atomic, as a bad free may read while the object is
 * allocated anew. MAX_CPUS: obj is no object's start, as far as looking there is allowed. */
static inline u32 object_cpu(const struct kmem_cache *c, void *obj)
{
    if (PLAT_REDZONE_BYTES && object_index(c, object_slab(c, obj), obj) >= c->capacity)
        return MAX_CPUS;
    return __atomic_load_n(&object_header(obj)->cpu, __ATOMIC_RELAXED);
}

static inline void object_cpu_set(void *obj, u32 cpu)
{
    __atomic_store_n(&object_header(obj)->cpu, cpu, __ATOMIC_RELAXED);
}

/* obj is the start of an object, and allocated as far as objstate= can tell. */
static inline bool object_live(const struct kmem_cache *c, void *obj)
{
    return object_index(c, object_slab(c, obj), obj) < c->capacity &&
           (c->objstate == V_objstate_off || object_found(c, obj) == STATE_WORD(OBJECT_ALLOCATED));
}

/* Where the free-list link stands: in the header, else in the object (past a constructed one). */
static ALWAYS_INLINE void **object_link_at(struct object_how how, void *obj)
{
    if (how.objstate == V_objstate_header)
        return &object_header(obj)->link;
    return (void **)(void *)((char *)obj + how.link_offset);
}

static ALWAYS_INLINE void **object_link(const struct kmem_cache *c, void *obj)
{
    return object_link_at(object_how(c, c->objstate), obj);
}

/* -- what a sanitizer may see -- */

/* A free or cached object, and the red zone after each, are out of bounds for everybody, but for
 * the link. */
static ALWAYS_INLINE void object_hide(const struct kmem_cache *c, void *obj)
{
    u32 skip = c->objstate == V_objstate_header || c->link_offset ? 0 : sizeof(void *);

    plat_unpoison(obj, skip); /* what was asked for may have been shorter than a link */
    plat_poison((char *)obj + skip, c->size + c->zone - skip);
}

static ALWAYS_INLINE void object_show(void *obj, size_t size)
{
    plat_unpoison(obj, size);
}

#endif
