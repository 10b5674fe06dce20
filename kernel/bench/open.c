/* open.c: open/<cpus>: what opening and closing a file asks of the allocator: two allocations from two
 * caches whose objects have little in common. A name buffer of a page is taken, written, and given back
 * as soon as the name is looked up; the file object, a few lines, is taken meanwhile and lives until
 * the close. One operation is one open and its close.
 *
 * So the two caches take turns on each CPU, each with one object out at a time. A front end is as good
 * here as its pop and push on lines that the other cache has not pushed out.
 *
 * Both caches are made before the round and destroyed after it.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"

#define NAME_BYTES 4096u
#define FILE_BYTES 232u

struct file_object {
    u64 signature;
    u8 rest[FILE_BYTES - sizeof(u64)];
};

struct open_caches {
    struct kmem_cache *name, *file;
};

static const struct kmem_cache_args name_args = {.name = "bench-name", .size = NAME_BYTES};
static const struct kmem_cache_args file_args = {
    .name = "bench-file", .size = FILE_BYTES, .align = CACHE_LINE};

static struct open_caches caches; /* one round at a time */

static bool destroy(struct kmem_cache *cache)
{
    u64 busy = 0;

    return !cache || kmem_cache_destroy(cache, &busy);
}

static bool destroy_both(void)
{
    bool name = destroy(caches.name), file = destroy(caches.file);

    return name && file;
}

const char *open_setup(const struct bench_test *test, struct bench_round *round)
{
    (void)test;
    caches.name = kmem_cache_create(kheap, &name_args);
    caches.file = kmem_cache_create(kheap, &file_args);
    round->shared = &caches;
    if (caches.name && caches.file)
        return NULL;
    return destroy_both() ? bench_setup_short(round, 0) : "a cache could not be unmade";
}

const char *open_teardown(const struct bench_test *test, struct bench_round *round)
{
    (void)test;
    (void)round;
    return destroy_both() ? NULL : "a cache was busy at the end";
}

/* NULL: shortage, noted. What a broken operation did is claimed here, the others' is by their number. */
static struct file_object *open_file(const struct open_caches *c, struct bench_cpu *me)
{
    void *name = kmem_cache_alloc(c->name);
    struct file_object *file;

    if (unlikely(!name)) {
        bench_short(me, NAME_BYTES);
        return NULL;
    }
    bench_touch(name, NAME_BYTES);
    file = kmem_cache_alloc(c->file);
    if (likely(file != NULL)) {
        bench_touch(file, FILE_BYTES);
        bench_sign(&file->signature);
    } else {
        bench_short(me, FILE_BYTES);
        me->allocs++;
        me->frees++;
    }
    kmem_cache_free(c->name, name);
    return file;
}

void open_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    const struct open_caches *c = round->shared;
    u64 batch = bench_batch(round);

    (void)test;
    bench_start(round, me);
    do {
        for (u64 i = 0; i < batch; i++) {
            struct file_object *file = open_file(c, me);

            if (unlikely(!file)) {
                me->operations += i;
                goto out;
            }
            if (unlikely(!bench_signed(&file->signature)))
                me->damaged = true;
            kmem_cache_free(c->file, file);
        }
    } while (bench_more(round, me));
out:
    bench_stop(me);
    me->allocs += 2 * me->operations;
    me->frees += 2 * me->operations;
}
