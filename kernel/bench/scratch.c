/* scratch.c: cache-scratch, after Berger's: does the allocator put objects of different CPUs on one
 * cache line? One CPU allocates a small object for each, neighbours of each other; each frees the
 * one it was given, and from then on allocates such an object, writes to it many times and frees
 * it. An allocator that hands the CPUs those neighbours again makes every write wait for the line.
 * One operation is one allocation, the writes, and the free.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"

#define OBJECT_BYTES 16u
#define WRITES       100u

/* Room for one pointer: the object that this CPU was given. */
static void **given(struct bench_round *round, unsigned cpu)
{
    return round->data[cpu];
}

static void hand_out(struct bench_round *round, struct bench_cpu *me)
{
    if (plat_cpu_id() == plat_cpu_count() - 1)
        for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++)
            *given(round, cpu) = bench_take(me, OBJECT_BYTES);
    (void)bench_meet(round, me);
    bench_give(me, *given(round, plat_cpu_id()));
}

void scratch_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    u64 batch = bench_batch(round), i;

    (void)test;
    hand_out(round, me);
    bench_start(round, me);
    do {
        for (i = 0; i < batch; i++) {
            u64 *p = bench_take(me, OBJECT_BYTES);

            if (unlikely(!p))
                break;
            for (u64 w = 0; w < WRITES; w++)
                *(volatile u64 *)&p[1] = w;
            bench_give(me, p);
        }
    } while (i == batch && bench_more(round, me));
    bench_stop(me);
}
