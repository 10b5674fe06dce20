/* malloc.c: malloc/<bytes>/solo and malloc/<bytes>/all-cpus: kmalloc, write, kfree, over and over.
 * One operation is one allocation and its free.
 *
 * Every object is written to, since a block that nobody touches says nothing of where its memory
 * is; but only one word in each of its first four cache lines. That is the same few instructions in
 * every arm and for every size from 256 bytes up: writing 64 KiB out would measure memory bandwidth
 * instead of the allocator.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"

#define TOUCHED_BYTES 256u

static ALWAYS_INLINE void touch(void *p, size_t bytes)
{
    for (size_t at = 0; at < MIN(bytes, (size_t)TOUCHED_BYTES); at += CACHE_LINE)
        *(volatile u64 *)((char *)p + at) = at;
}

void malloc_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    size_t bytes = test->bytes;
    u64 batch = bench_batch(round);

    bench_start(round, me);
    do {
        for (u64 i = 0; i < batch; i++) {
            void *p = kmalloc(bytes);

            if (unlikely(!p)) {
                me->short_of_memory = true;
                bench_stop(me);
                return;
            }
            touch(p, bytes);
            kfree(p);
        }
    } while (bench_more(round, me));
    bench_stop(me);
    me->allocs = me->operations;
    me->frees = me->operations;
}
