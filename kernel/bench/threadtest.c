/* threadtest.c: threadtest, after Berger's: each CPU allocates many small objects, then frees them
 * all, and shares nothing with anybody. An allocator whose CPUs stand in each other's way here does
 * so for no reason of the program's. One operation is one allocation and its free.
 *
 * Unlike batch/, there are no meetings, both halves are timed, and the objects of one CPU fit its
 * caches.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"

#define OBJECT_BYTES 64u

void threadtest_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    void **object = round->data[plat_cpu_id()];
    u64 n, got;

    (void)test;
    bench_start(round, me);
    do {
        n = bench_batch_of(round, me, THREADTEST_OBJECTS);
        for (got = 0; got < n; got++) {
            object[got] = bench_take(me, OBJECT_BYTES);
            if (unlikely(!object[got]))
                break;
        }
        for (u64 i = 0; i < got; i++)
            bench_give(me, object[i]);
    } while (got == n && bench_more_of(round, me, n));
    bench_stop(me);
}
