/* barn.c: where sheaves wait for a CPU: a list of full ones, a list of empty ones, and one partial
 * sheaf, for each node and cache.
 *
 * The ordinary paths trade: an empty sheaf for a full one, a full one for an empty one, so nothing
 * is copied and the lock is held for a few stores. Neither looks at the partial sheaf; nor does a
 * refill from slabs. Prefill does (prefill.from=barn): it copies objects into its caller's sheaf
 * until that is full or the barn is dry, each time min(gap, stock), from the partial sheaf and then
 * from full ones. A source with a rest becomes the partial sheaf; one without goes to the empty
 * list. Without a partial sheaf (barn.partial=off) the rest goes back to the full list, where it
 * keeps its place taken though it is not full: that is what the partial sheaf is for. A sheaf on the
 * full list therefore has at least one object, and need not be full.
 *
 * barn.refill=swap is the alternative that was rejected: the caller takes a full sheaf whole, and
 * what it had becomes the partial sheaf if that place is free; else objects are copied as above.
 *
 * A list that has its fill takes no more, looked at under the lock, so it is never overshot. An
 * empty sheaf is only offered (the lock is tried): it is not worth waiting for.
 *
 * Nodes: a CPU trades in the barn of its own node and looks into no other; what has gathered elsewhere is had
 * by shrink and by a shortage, which empty all. As often as there are nodes, so often is each limit. A sheaf
 * belongs to the node where it lies, not its objects: those may be another node's, freed here, and come
 * home when the sheaf is flushed. Linux keeps them out of sheaves, with a look at each free; here that look
 * would cost the fast path more than it brings nodes that have no distance (docs/DECISIONS.md).
 *
 * Locking: barn.lock, under which no other is taken; one barn's at a time. Contexts: thread, interrupt; interrupts off. */
#include "latency_impl.h"
#include "sheaf_impl.h"

static u64 *row(const struct kmem_cache *c)
{
    return cache_cpu_mine(c)->ctr;
}

static void count(struct kmem_cache *c, enum cache_counter what, u64 n)
{
    plat_counter_add(&row(c)[what], n);
}

/* -- the lists; barn.lock held -- */

static void set(u32 *p, u32 v)
{
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static void set_partial(struct barn *b, struct sheaf *s)
{
    __atomic_store_n(&b->partial, s, __ATOMIC_RELAXED);
}

static void objects_add(struct barn *b, u64 n)
{
    __atomic_store_n(&b->objects, b->objects + n, __ATOMIC_RELAXED);
}

static void push_full_locked(struct barn *b, struct sheaf *s)
{
    list_push_front(&b->full, &s->link);
    set(&b->fulls, b->fulls + 1);
    objects_add(b, s->size);
}

static struct sheaf *pop_full_locked(struct barn *b)
{
    struct list *e = list_pop_front(&b->full);
    struct sheaf *s;

    if (!e)
        return NULL;
    s = list_entry(e, struct sheaf, link);
    set(&b->fulls, b->fulls - 1);
    objects_add(b, -(u64)s->size);
    return s;
}

static void push_empty_locked(struct barn *b, struct sheaf *s)
{
    list_push_front(&b->empty, &s->link);
    set(&b->empties, b->empties + 1);
}

static struct sheaf *pop_empty_locked(struct barn *b)
{
    struct list *e = FAULT(no_empty) ? NULL : list_pop_front(&b->empty);

    if (!e)
        return NULL;
    set(&b->empties, b->empties - 1);
    return list_entry(e, struct sheaf, link);
}

static bool full_enough_locked(const struct kmem_cache *c, const struct barn *b)
{
    return !GUARD(10, b->fulls < c->heap->barn_full) || FAULT(barn_full);
}

/* -- a visit, timed under latency=on; what one is for decides whose call it counts as -- */

static u64 enter(struct kmem_cache *c, struct barn *b, enum latency_call call)
{
    u64 start = 0;

    if (unlikely(c->heap->latency_on))
        start = latency_begin(&c->heap->latency, LATENCY_barn, call);
    spin_lock(&b->lock);
    return start;
}

static void leave(struct kmem_cache *c, struct barn *b, enum latency_call call, u64 start)
{
    spin_unlock(&b->lock);
    if (unlikely(start))
        latency_end(&c->heap->latency, LATENCY_barn, call, start);
}

/* -- trading -- */

struct sheaf *barn_get_full(struct kmem_cache *c)
{
    struct barn *b = barn_mine(c);
    struct sheaf *s;
    u64 start;

    start = enter(c, b, LATENCY_ALLOC);
    s = pop_full_locked(b);
    leave(c, b, LATENCY_ALLOC, start);
    count(c, s ? CACHE_barn_get : CACHE_barn_get_fail, 1);
    return s;
}

struct sheaf *barn_get_empty(struct kmem_cache *c)
{
    struct barn *b = barn_mine(c);
    struct sheaf *s;
    u64 start;

    start = enter(c, b, LATENCY_FREE);
    s = pop_empty_locked(b);
    leave(c, b, LATENCY_FREE, start);
    count(c, s ? CACHE_barn_get_empty : CACHE_barn_get_empty_fail, 1);
    return s;
}

struct sheaf *barn_get_full_or_empty(struct kmem_cache *c)
{
    struct barn *b = barn_mine(c);
    struct sheaf *s;
    u64 start;

    start = enter(c, b, LATENCY_ALLOC);
    s = pop_full_locked(b);
    if (!s)
        s = pop_empty_locked(b);
    leave(c, b, LATENCY_ALLOC, start);
    count(c, s && s->size ? CACHE_barn_get : CACHE_barn_get_fail, 1);
    return s;
}

struct sheaf *barn_trade_empty(struct kmem_cache *c, struct sheaf *empty)
{
    struct barn *b = barn_mine(c);
    struct sheaf *full;
    u64 start;

    ASSERT(empty->size == 0);
    start = enter(c, b, LATENCY_ALLOC);
    full = pop_full_locked(b);
    if (full)
        push_empty_locked(b, empty);
    leave(c, b, LATENCY_ALLOC, start);
    count(c, full ? CACHE_barn_get : CACHE_barn_get_fail, 1);
    return full;
}

enum barn_answer barn_trade_full(struct kmem_cache *c, struct sheaf *full, struct sheaf **empty)
{
    enum barn_answer answer = BARN_TAKEN;
    struct barn *b = barn_mine(c);
    u64 start;

    start = enter(c, b, LATENCY_FREE);
    if (full_enough_locked(c, b)) {
        answer = BARN_FULL;
    } else {
        *empty = pop_empty_locked(b);
        if (*empty)
            push_full_locked(b, full);
        else
            answer = BARN_NO_EMPTY;
    }
    leave(c, b, LATENCY_FREE, start);
    count(c,
          answer == BARN_TAKEN  ? CACHE_barn_put
          : answer == BARN_FULL ? CACHE_barn_refused_full
                                : CACHE_barn_refused_no_empty,
          1);
    return answer;
}

bool barn_put_full(struct kmem_cache *c, struct sheaf *full, enum cache_counter why)
{
    struct barn *b = barn_mine(c);
    bool taken;
    u64 start;

    ASSERT(full->size > 0);
    start = enter(c, b, LATENCY_FREE);
    taken = !full_enough_locked(c, b);
    if (taken)
        push_full_locked(b, full);
    leave(c, b, LATENCY_FREE, start);
    count(c, taken ? CACHE_barn_put : why, 1);
    return taken;
}

bool barn_put_empty(struct kmem_cache *c, struct sheaf *empty)
{
    struct barn *b = barn_mine(c);
    bool taken;

    ASSERT(empty->size == 0);
    if (FAULT(barn_busy) || !spin_trylock(&b->lock)) {
        count(c, CACHE_barn_refused_busy, 1);
        return false;
    }
    taken = GUARD(11, b->empties < c->heap->barn_empty);
    if (taken)
        push_empty_locked(b, empty);
    spin_unlock(&b->lock);
    count(c, taken ? CACHE_barn_put_empty : CACHE_barn_refused_empty, 1);
    return taken;
}

/* -- prefill -- */

/* min(gap, stock) objects from the hot end of from. */
static u32 copy_locked(struct sheaf *to, struct sheaf *from)
{
    u32 n = GUARD_STEP(13) ? MIN(to->capacity - to->size, from->size) : from->size;

    memcpy(&to->object[to->size], &from->object[from->size - n], n * sizeof(void *));
    to->size += n;
    from->size -= n;
    return n;
}

/* What is left of a source. */
static void put_source_locked(struct kmem_cache *c, struct barn *b, struct sheaf *s)
{
    if (!GUARD(12, s->size > 0)) {
        push_empty_locked(b, s);
    } else if (c->heap->barn_partial) {
        ASSERT(!b->partial);
        set_partial(b, s);
        objects_add(b, s->size);
    } else {
        push_full_locked(b, s);
    }
}

static struct sheaf *pop_partial_locked(struct barn *b)
{
    struct sheaf *s = b->partial;

    if (s) {
        set_partial(b, NULL);
        objects_add(b, -(u64)s->size);
    }
    return s;
}

static u32 copy_until_full_locked(struct kmem_cache *c, struct barn *b, struct sheaf *to)
{
    u32 from_full = 0;

    while (to->size < to->capacity) {
        struct sheaf *from = pop_full_locked(b);

        if (!from)
            break;
        from_full += copy_locked(to, from);
        put_source_locked(c, b, from);
    }
    return from_full;
}

/* barn.refill=swap: *s for a full one, if what *s holds can be left as the partial sheaf. */
static u32 swap_locked(struct kmem_cache *c, struct barn *b, struct sheaf **s)
{
    struct sheaf *full;

    if (b->partial || ((*s)->size && !c->heap->barn_partial))
        return 0;
    full = pop_full_locked(b);
    if (!full)
        return 0;
    put_source_locked(c, b, *s);
    *s = full;
    return full->size;
}

struct sheaf *barn_top_up(struct kmem_cache *c, struct sheaf *s)
{
    u32 from_partial = 0, from_full = 0, swapped = 0;
    struct barn *b = barn_mine(c);
    struct sheaf *partial;
    u64 start;

    start = enter(c, b, LATENCY_ALLOC);
    if (c->heap->barn_swap)
        swapped = swap_locked(c, b, &s);
    partial = s->size < s->capacity ? pop_partial_locked(b) : NULL;
    if (partial) {
        from_partial = copy_locked(s, partial);
        put_source_locked(c, b, partial);
    }
    from_full = copy_until_full_locked(c, b, s);
    leave(c, b, LATENCY_ALLOC, start);
    count(c, CACHE_prefill_from_partial, from_partial);
    count(c, CACHE_prefill_from_barn, from_full);
    count(c, CACHE_prefill_swapped, swapped);
    return s;
}

/* -- shrink, init, validate -- */

static unsigned one_drain(struct kmem_cache *c, struct barn *b)
{
    struct carry_cpu *k;
    unsigned objects = 0;
    struct sheaf *s;

    for (;;) {
        k = carry_begin(c->carry);
        spin_lock(&b->lock);
        s = pop_partial_locked(b);
        if (!s)
            s = pop_full_locked(b);
        if (!s) {
            struct list *e = list_pop_front(&b->empty);

            if (e) {
                set(&b->empties, b->empties - 1);
                s = list_entry(e, struct sheaf, link);
            }
        }
        spin_unlock(&b->lock);
        if (s) {
            objects += s->size;
            sheaf_flush(c, s, CACHE_drain_objects);
            sheaf_free(s);
        }
        carry_end_if(k, s != NULL);
        if (!s)
            return objects;
    }
}

unsigned barn_drain(struct kmem_cache *c)
{
    unsigned objects = 0;

    for (unsigned i = 0; i < c->heap->nodes; i++)
        if (i == 0 || GUARD_STEP(61))
            objects += one_drain(c, &c->node[i].barn);
    return objects;
}

void barn_init(struct kmem_cache *c)
{
    for (unsigned i = 0; i < c->heap->nodes; i++) {
        struct barn *b = &c->node[i].barn;

        list_init(&b->full);
        list_init(&b->empty);
        b->partial = NULL;
        b->fulls = b->empties = 0;
        b->objects = 0;
        spin_init(&b->lock, LOCKCLASS_barn, c->name);
    }
}

void barn_exit(struct kmem_cache *c)
{
    for (unsigned i = 0; i < c->heap->nodes; i++)
        spin_destroy(&c->node[i].barn.lock);
}

static bool sheaf_validate(struct kmem_cache *c, struct sheaf *s, u32 least, u64 *objects,
                           struct heap_fault *f)
{
    if (s->cache != c || s->capacity != c->limit)
        return heap_fault_set(f, "barn: a sheaf of another cache", s, c);
    if (s->size < least || s->size > s->capacity || (least == 0 && s->size))
        return heap_fault_set(f, "barn: a sheaf on the wrong list", s, c);
    for (u32 i = 0; i < s->size; i++)
        if (!front_object_validate(c, s->object[i], f))
            return false;
    *objects += s->size;
    return true;
}

static bool list_validate(struct kmem_cache *c, struct list *l, u32 least, u32 n, u64 *objects,
                          struct heap_fault *f)
{
    u32 found = 0;

    list_for_each(e, l)
    {
        if (!sheaf_validate(c, list_entry(e, struct sheaf, link), least, objects, f))
            return false;
        found++;
    }
    return found == n || heap_fault_set(f, "barn: sheaves on a list and their count differ", l, c);
}

static bool one_validate(struct kmem_cache *c, struct barn *b, struct heap_fault *f)
{
    u64 objects = 0;
    unsigned long flags = spin_lock_irqsave(&b->lock);
    bool good = list_validate(c, &b->full, 1, b->fulls, &objects, f) &&
                list_validate(c, &b->empty, 0, b->empties, &objects, f) &&
                (!b->partial || sheaf_validate(c, b->partial, 1, &objects, f));

    if (good && b->partial && b->partial->size == c->limit)
        good = heap_fault_set(f, "barn: the partial sheaf is full", b->partial, c);
    if (good && objects != b->objects)
        good = heap_fault_set(f, "barn: objects and their count differ", b, c);
    if (good && b->fulls > c->heap->barn_full)
        good = heap_fault_set(f, "barn: more full sheaves than its limit", b, c);
    spin_unlock_irqrestore(&b->lock, flags);
    return good;
}

bool barn_validate(struct kmem_cache *c, struct heap_fault *f)
{
    for (unsigned i = 0; i < c->heap->nodes; i++)
        if (!one_validate(c, &c->node[i].barn, f))
            return false;
    return true;
}
