/* xmalloc.c: xmalloc, after Lever and Boreham's malloc-test: every object is freed by another CPU
 * than the one that allocated it. The CPUs stand in a circle; each allocates objects of mixed sizes
 * for its successor and frees those of its predecessor. One operation is one object, counted where
 * it is allocated.
 *
 * A full ring is no reason to stand still: whoever waits for room frees meanwhile, so somebody in
 * the circle always goes on.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"
#include "ring.h"

static const u16 sizes[] = {16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048};

static void take_waiting(struct bench_cpu *me, struct ring *from)
{
    void *p;

    while ((p = ring_take(from)))
        bench_give(me, p);
}

static bool hand_batch(struct bench_cpu *me, struct ring *to, struct ring *from, u64 n, u64 *random)
{
    for (u64 i = 0; i < n; i++) {
        void *p = bench_take(me, sizes[bench_random_below(random, ARRAY_SIZE(sizes))]);

        if (unlikely(!p))
            return false;
        while (!ring_put(to, p)) {
            take_waiting(me, from);
            bench_relax();
        }
    }
    return true;
}

void xmalloc_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    unsigned cpu = plat_cpu_id(), next = cpu + 1 == plat_cpu_count() ? 0 : cpu + 1;
    struct ring *to = round->data[next], *from = round->data[cpu];
    u64 random = bench_random_seed(), n;
    bool closed;

    (void)test;
    ring_open(to);
    bench_start(round, me);
    do {
        n = bench_batch_of(round, me, BENCH_BATCH);
        if (unlikely(!hand_batch(me, to, from, n, &random)))
            break;
        take_waiting(me, from);
    } while (bench_more_of(round, me, n));
    ring_close(to);
    do {
        closed = ring_closed(from);
        take_waiting(me, from);
        bench_relax();
    } while (!closed);
    bench_stop(me);
}
