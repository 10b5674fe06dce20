/* front_sheaf.c: the sheaf front end (front=sheaf), a CPU's side: main and spare sheaf, RCU sheaf.
 *
 * Allocations pop the main sheaf and frees push it (fast_impl.h; its size is cache_cpu.count, so
 * that a reader elsewhere follows no pointer). What happens at an edge, in this order:
 *
 *   main empty   the spare has something: swap │ the barn has a full one: trade │ fill main from slabs
 *   main full    no spare: it becomes the spare, an empty one is main │ the spare has room: swap │
 *                trade for an empty one in the barn │ the barn has its fill: flush the spare, swap │
 *                no empty sheaf anywhere: flush half of main
 *
 * The spare is not "empty or full": a returned private sheaf is put there with what it had left. So
 * both edges look at spare_count.
 *
 * kfree_rcu fills the RCU sheaf. Full, it goes to call_rcu by itself, and from there, its objects
 * free, to the barn's full list, else object by object to the slabs. With no sheaf to be had the
 * object takes the plain way (rcufree.c).
 *
 * Protection: the owning CPU runs with interrupts off, from the first look to the last store, in
 * the slow paths too; an interrupt finds all sheaves whole. Nobody else touches them: a drain of all
 * CPUs runs on each. What does come between is the CPU itself: memory for a sheaf, or for a slab, may
 * be had by reclaim, which drains this very CPU (main is empty then, the spare gone, the RCU sheaf
 * posted) and the barn. So whatever was seen before such a call is looked at again after it, and a
 * sheaf that is being filled is either main, empty for everybody until the fill is done, or nobody's.
 *
 * Sheaves are blocks of internal caches ("sheaf-…"), which have no front end and are in nobody's
 * books; large ones, and those wanted where these caches were never made, are pages.
 *
 * Locking: none here; barn and slabs take theirs one after the other. Contexts: thread, interrupt;
 * interrupts off. */
#include "sheaf_impl.h"

static void count(struct kmem_cache *c, enum cache_counter what, u64 n)
{
    plat_counter_add(&cache_cpu_mine(c)->ctr[what], n);
}

/* -- sheaves -- */

/* NULL: no pool has blocks as large, or there are none (yet). */
static struct kmem_cache *pool_for(struct heap *h, size_t bytes)
{
    if (!GUARD(93, __atomic_load_n(&h->pools, __ATOMIC_ACQUIRE) == POOLS_MADE))
        return NULL;
    for (unsigned i = 0; i < SHEAF_POOLS; i++)
        if (bytes <= SHEAF_POOL_MIN << i)
            return &h->sheaf_pool[i];
    return NULL;
}

/* More objects than a pool's blocks hold, or no pools: pages, in nobody's books either. */
static unsigned pages_order(size_t bytes)
{
    unsigned order = 0;

    while (PAGE_SIZE << order < bytes)
        order++;
    return order;
}

struct sheaf *sheaf_alloc(struct kmem_cache *c, u32 capacity)
{
    size_t bytes = SHEAF_BYTES((size_t)capacity);
    struct kmem_cache *pool = pool_for(c->heap, bytes);
    struct sheaf *s = NULL;

    if (FAULT(drain))
        (void)heap_reclaim(c->heap);
    if (FAULT(no_sheaf))
        return NULL;
    if (pool) {
        s = kmem_cache_alloc(pool);
    } else if (bytes <= PAGE_SIZE << MAX_ORDER) {
        struct frame *f = pages_get(c->heap, pages_order(bytes));

        if (f) {
            frame_tag_store(f, TAG(FRAME_PAGES, pages_order(bytes)));
            s = frame_address(&c->heap->frames, f);
        }
    }
    if (!s)
        return NULL;
    s->size = 0;
    s->capacity = capacity;
    s->cache = c;
    list_init(&s->link);
    return s;
}

void sheaf_free(struct sheaf *s)
{
    struct heap *h = s->cache->heap;
    struct frame *f = frame_of(&h->frames, s);
    u64 tag = frame_tag_load(f); /* not by its size: the pools may have been made since */

    CHECK_VALUES(s->size == 0, s->size, s->cache->id);
    if (TAG_KIND(tag) == FRAME_SLAB) {
        CHECK(kmem_cache_free(TAG_CACHE(tag), s));
    } else {
        CHECK(frame_claim(f, &tag));
        pages_put(h, f, TAG_ORDER(tag));
    }
}

void sheaf_flush(struct kmem_cache *c, struct sheaf *s, enum cache_counter why)
{
    u32 n = s->size;

    if (!n)
        return;
    slab_put(c, s->object, n);
    s->size = 0;
    count(c, why, n);
}

bool sheaf_fill(struct kmem_cache *c, struct sheaf *s, u32 least)
{
    while (s->size < s->capacity) {
        u32 want = s->capacity - s->size, got;

        if (FAULT(refill_half)) {
            want = MAX(want / 2, 1u);
            got = slab_take(c, &s->object[s->size], want);
            s->size += got;
            count(c, CACHE_refill_objects, got);
            break;
        }
        got = slab_take(c, &s->object[s->size], want);
        if (!got)
            break;
        s->size += got;
        count(c, CACHE_refill_objects, got);
        if (s->size >= least)
            break; /* the rest would be another look at the slabs */
    }
    count(c, CACHE_refill, 1);
    return s->size >= least;
}

void sheaf_discard(struct kmem_cache *c, struct sheaf *s)
{
    if (!barn_put_empty(c, s))
        sheaf_free(s);
}

/* -- main and spare -- */

static void set_spare(struct cache_cpu *cc, struct sheaf *s, u64 n)
{
    cc->spare = s;
    __atomic_store_n(&cc->spare_count, n, __ATOMIC_RELAXED);
}

static void set_main(struct cache_cpu *cc, struct sheaf *s, u64 n)
{
    cc->main = s;
    cache_cpu_count(cc, n);
}

static void swap(struct cache_cpu *cc)
{
    struct sheaf *main = cc->main;
    u64 n = cc->count;

    main->size = (u32)n;
    set_main(cc, cc->spare, cc->spare_count);
    set_spare(cc, main, n);
}

static void *sheaf_refill(struct kmem_cache *c, struct cache_cpu *cc, bool *own)
{
    struct sheaf *full;
    unsigned got;

    *own = GUARD(4, cc->spare_count);
    if (*own) {
        swap(cc);
        return main_pop(cc);
    }
    cc->main->size = 0;
    full = barn_trade_empty(c, cc->main);
    if (full) {
        set_main(cc, full, full->size);
        return main_pop(cc);
    }
    /* Into main itself: it stays empty for a reclaim that comes meanwhile, which leaves it alone. */
    got = slab_take(c, cc->main->object, FAULT(refill_half) ? MAX(c->limit / 2, 1u) : c->limit);
    if (!got)
        return NULL;
    count(c, CACHE_refill, 1);
    count(c, CACHE_refill_objects, got);
    cache_cpu_count(cc, got);
    return main_pop(cc);
}

/* No empty sheaf is to be had: the coldest half of main goes to the slabs, as an array's would. */
static void flush_half(struct kmem_cache *c, struct cache_cpu *cc)
{
    u32 batch = c->batch;

    slab_put(c, cc->main->object, batch);
    cache_cpu_count(cc, cc->count - batch);
    memmove(cc->main->object, cc->main->object + batch, cc->count * sizeof(void *));
    count(c, CACHE_flush, 1);
    count(c, CACHE_flush_objects, batch);
}

/* Main is full and the spare too, or there is none; empty may have cost a drain of both. */
static void install_empty(struct kmem_cache *c, struct cache_cpu *cc, struct sheaf *empty)
{
    if (!GUARD(1, cc->count >= cc->limit)) {
        sheaf_discard(c, empty);
    } else if (cc->spare && cc->spare_count < cc->limit) {
        swap(cc);
        sheaf_discard(c, empty);
    } else if (!cc->spare) {
        cc->main->size = (u32)cc->count;
        set_spare(cc, cc->main, cc->count);
        set_main(cc, empty, 0);
    } else {
        cc->main->size = (u32)cc->count;
        if (!barn_put_full(c, cc->main, CACHE_barn_refused_full)) {
            sheaf_flush(c, cc->main, CACHE_flush_objects);
            count(c, CACHE_flush, 1);
            sheaf_discard(c, cc->main);
        }
        set_main(cc, empty, 0);
    }
}

static void allocate_empty(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct sheaf *empty = sheaf_alloc(c, c->limit);

    if (empty)
        install_empty(c, cc, empty);
    else if (GUARD(2, cc->count >= cc->limit))
        flush_half(c, cc);
}

static void flush_spare(struct kmem_cache *c, struct cache_cpu *cc)
{
    sheaf_flush(c, cc->spare, CACHE_flush_objects);
    count(c, CACHE_flush, 1);
    set_spare(cc, cc->spare, 0);
}

/* True: the CPU's own sheaves had it. */
static bool make_room(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct sheaf *empty = NULL;

    if (!cc->spare) {
        empty = barn_get_empty(c);
        if (empty)
            install_empty(c, cc, empty);
        else
            allocate_empty(c, cc);
        return false;
    }
    if (GUARD(3, cc->spare_count < cc->limit)) {
        swap(cc);
        return true;
    }
    cc->main->size = (u32)cc->count;
    switch (barn_trade_full(c, cc->main, &empty)) {
    case BARN_TAKEN:
        set_main(cc, empty, 0);
        break;
    case BARN_FULL:
        flush_spare(c, cc);
        swap(cc);
        break;
    case BARN_NO_EMPTY:
        allocate_empty(c, cc);
        break;
    }
    return false;
}

static bool sheaf_put(struct kmem_cache *c, struct cache_cpu *cc, void *obj)
{
    bool own = cc->count < cc->limit || make_room(c, cc);

    ASSERT(cc->count < cc->limit);
    main_push(cc, obj);
    return own;
}

/* -- the RCU sheaf -- */

static void rcu_sheaf_over(struct rcu_head *head)
{
    struct carry_cpu *k;
    struct sheaf *s = container_of(head, struct sheaf, rcu);
    struct kmem_cache *c = s->cache;
    unsigned visit = heap_visit_begin(c->heap);
    u32 n = s->size;

    k = carry_begin(c->carry);
    for (u32 i = 0; i < n && GUARD_STEP(6); i++)
        cache_rcu_over(c, s->object[i]);
    list_init(&s->link);
    if (!barn_put_full(c, s, CACHE_barn_refused_rcu)) {
        if (GUARD_STEP(5))
            sheaf_flush(c, s, CACHE_flush_objects);
        count(c, CACHE_flush, 1);
        sheaf_discard(c, s);
    }
    carry_end(k);
    cache_rcu_freed(c, n);
    heap_visit_end(c->heap, visit);
}

static void rcu_post(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct sheaf *s = cc->rcu;

    if (!s)
        return;
    cc->rcu = NULL;
    count(c, CACHE_rcu_sheaf, 1);
    if (GUARD_STEP(7))
        call_rcu(&s->rcu, rcu_sheaf_over);
    else
        rcu_sheaf_over(&s->rcu);
}

static struct sheaf *rcu_sheaf_get(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct sheaf *s = cc->spare;

    if (s && cc->spare_count == 0) {
        set_spare(cc, NULL, 0);
        s->size = 0;
        return s;
    }
    s = barn_get_empty(c);
    return s ? s : sheaf_alloc(c, c->limit);
}

static bool sheaf_put_rcu(struct kmem_cache *c, struct cache_cpu *cc, void *obj)
{
    if (!cc->rcu)
        cc->rcu = rcu_sheaf_get(c, cc);
    if (!GUARD(8, cc->rcu)) {
        count(c, CACHE_rcu_fallback, 1);
        return false;
    }
    count(c, CACHE_rcu_sheaf_objects, 1);
    cc->rcu->object[cc->rcu->size++] = obj;
    if (cc->rcu->size == c->limit)
        rcu_post(c, cc);
    return true;
}

/* -- drain, shrink -- */

static unsigned sheaf_drain(struct kmem_cache *c, struct cache_cpu *cc)
{
    struct sheaf *spare = cc->spare;
    unsigned n = (unsigned)(cc->count + cc->spare_count);

    if (cc->count) {
        cc->main->size = (u32)cc->count;
        sheaf_flush(c, cc->main, CACHE_drain_objects);
        cache_cpu_count(cc, 0);
    }
    if (spare) {
        sheaf_flush(c, spare, CACHE_drain_objects);
        set_spare(cc, NULL, 0);
        sheaf_free(spare);
        n++;
    }
    if (GUARD_STEP(9))
        rcu_post(c, cc);
    return n;
}

/* -- init, validate, statistics -- */

static void sheaf_size(const struct heap *h, struct kmem_cache *c)
{
    u32 n = c->size >= 4096 ? 4 : c->size >= 1024 ? 12 : c->size >= 256 ? 28 : 60;

    if (c->asked)
        n = c->asked;
    if (h->sheaf_cap)
        n = h->sheaf_cap;
    c->limit = MIN(n, SHEAF_MAX);
    c->batch = MAX(c->limit / 2, 1u);
    if (c->life ==
        CACHE_LIVE) /* a dead cache's barns are empty, and their locks keep their numbers */
        barn_init(c);
}

static bool sheaf_cpu_init(struct kmem_cache *c, struct cache_cpu *cc)
{
    cc->main = sheaf_alloc(c, c->limit);
    return cc->main != NULL;
}

/* The cache is going away, and no object is out. */
static void sheaf_cpu_exit(struct cache_cpu *cc)
{
    CHECK_VALUES(cc->count == 0 && !cc->spare && !cc->rcu, cc->count, cc->spare);
    cc->main->size = 0; /* what it had when it became main means nothing */
    sheaf_free(cc->main);
    cc->main = NULL;
}

static u64 sheaf_held(const struct kmem_cache *c)
{
    u64 sum = 0;

    for (unsigned i = 0; i < c->heap->cpus; i++)
        sum += counter_read(&cache_cpu(c, i)->count) + counter_read(&cache_cpu(c, i)->spare_count);
    return sum;
}

static bool cpu_validate(struct kmem_cache *c, struct cache_cpu *cc, struct heap_fault *f)
{
    if (!cc->main || cc->count > cc->limit || cc->limit != c->limit)
        return heap_fault_set(f, "sheaf: no main sheaf, or more objects than room", cc, c);
    if (cc->spare_count > cc->limit || (cc->spare_count && !cc->spare))
        return heap_fault_set(f, "sheaf: a spare sheaf with more objects than room", cc, c);
    for (u64 i = 0; i < cc->count; i++)
        if (!front_object_validate(c, cc->main->object[i], f))
            return false;
    for (u64 i = 0; i < cc->spare_count; i++)
        if (!front_object_validate(c, cc->spare->object[i], f))
            return false;
    for (u32 i = 0; cc->rcu && i < cc->rcu->size; i++)
        if (c->objstate != V_objstate_off &&
            object_found(c, cc->rcu->object[i]) != STATE_WORD(OBJECT_RCU))
            return heap_fault_set(f, "sheaf: the RCU sheaf holds an object that is not RCU",
                                  cc->rcu->object[i], c);
    return true;
}

static bool front_validate(struct kmem_cache *c, struct heap_fault *f)
{
    for (unsigned cpu = 0; cpu < c->heap->cpus; cpu++)
        if (!cpu_validate(c, cache_cpu(c, cpu), f))
            return false;
    return barn_validate(c, f);
}

const struct front_ops front_sheaf = {
    .shape = SHAPE_sheaf,
    .size = sheaf_size,
    .cpu_init = sheaf_cpu_init,
    .cpu_exit = sheaf_cpu_exit,
    .exit = barn_exit,
    .refill = sheaf_refill,
    .put = sheaf_put,
    .put_rcu = sheaf_put_rcu,
    .rcu_post = rcu_post,
    .drain = sheaf_drain,
    .shrink = barn_drain,
    .held = sheaf_held,
    .validate = front_validate,
};
