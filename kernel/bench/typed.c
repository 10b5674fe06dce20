/* typed.c: typed/<name>: objects of a cache with a constructor, allocated, used and freed in the
 * state in which the constructor left them. One operation is one allocation and its free.
 *
 * What a constructor buys is that nobody sets those fields up again, so the workload looks at them
 * each time: an object that came back otherwise makes the round void. The cache is made before the
 * round and destroyed after it, which also proves that no object stayed out. Whether the front end serves
 * it or each call takes the cache lock is typed=.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"

#define TYPED_MAGIC 0x7265706f6c796148u

struct typed_object { /* the fields that all three have; the rest is just there */
    u64 magic;
    struct typed_object *next, *prev; /* a list head: empty, so it points at itself */
    u64 used;
};

static void construct(void *obj)
{
    struct typed_object *o = obj;

    o->magic = TYPED_MAGIC;
    o->next = o->prev = o;
    o->used = 0;
}

/* Sizes as a kernel's own such caches have them; a node must not share its lines. */
static const struct kmem_cache_args typed_args[] = {
    [TYPED_NODE] = {.name = "bench-node", .size = 256, .align = CACHE_LINE, .ctor = construct},
    [TYPED_DENTRY] = {.name = "bench-dentry", .size = 192, .ctor = construct},
    [TYPED_INODE] = {.name = "bench-inode", .size = 600, .ctor = construct},
};

const char *typed_setup(const struct bench_test *test, struct bench_round *round)
{
    round->shared = kmem_cache_create(kheap, &typed_args[test->kind]);
    return round->shared ? NULL : bench_setup_short(round, 0);
}

const char *typed_teardown(const struct bench_test *test, struct bench_round *round)
{
    u64 busy = 0;

    (void)test;
    return kmem_cache_destroy(round->shared, &busy) ? NULL : "the cache was busy at the end";
}

void typed_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    struct kmem_cache *cache = round->shared;
    u64 batch = bench_batch(round);

    (void)test;
    bench_start(round, me);
    do {
        for (u64 i = 0; i < batch; i++) {
            struct typed_object *o = kmem_cache_alloc(cache);

            if (unlikely(!o)) {
                bench_short(me, cache_object_size(cache));
                me->operations += i;
                goto out;
            }
            if (unlikely(o->magic != TYPED_MAGIC || o->next != o || o->prev != o || o->used))
                me->damaged = true;
            *(volatile u64 *)&o->used = i + 1;
            *(volatile u64 *)&o->used = 0;
            kmem_cache_free(cache, o);
        }
    } while (bench_more(round, me));
out:
    bench_stop(me);
    me->allocs = me->operations;
    me->frees = me->operations;
}
