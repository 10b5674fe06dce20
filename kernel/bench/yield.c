/* yield.c: yield/solo: what it costs to offer the CPU to others when there are none. It stands
 * beside the allocator's tests to show that a gain there is not paid for elsewhere.
 *
 * Locking: the run queue's, inside the hook. Contexts: thread, on a machine with a scheduler. */
#include "bench.h"

void yield_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    void (*yield)(void) = kernel_hooks.yield;
    u64 batch = bench_batch(round);

    (void)test;
    bench_start(round, me);
    do {
        for (u64 i = 0; i < batch; i++)
            yield();
    } while (bench_more(round, me));
    bench_stop(me);
}
