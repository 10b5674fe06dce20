/* malloc.c: malloc/<bytes>/solo and malloc/<bytes>/all-cpus: kmalloc, write, kfree, over and over.
 * One operation is one allocation and its free.
 *
 * It deliberately never holds two objects: what that costs is batch.c's question.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"

void malloc_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    size_t bytes = test->bytes;
    u64 batch = bench_batch(round);

    bench_start(round, me);
    do {
        for (u64 i = 0; i < batch; i++) {
            void *p = kmalloc(bytes);

            if (unlikely(!p)) {
                bench_short(me, bytes);
                me->operations += i;
                goto out;
            }
            bench_touch(p, bytes);
            kfree(p);
        }
    } while (bench_more(round, me));
out:
    bench_stop(me);
    me->allocs = me->operations;
    me->frees = me->operations;
}
