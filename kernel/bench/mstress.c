/* mstress.c: mstress, after the stress test of mimalloc: objects of very mixed sizes, small ones
 * far more often, live for very mixed times; most die where they were born, a quarter is left in a
 * place from which any CPU takes it. One operation is one allocation; a free goes with it as soon
 * as the places are taken.
 *
 * Locking: none; shared places are exchanged atomically. Contexts: thread. */
#include "bench.h"

#define SHARED_SLOTS  64u
#define LARGEST_SHIFT 11u /* 16 bytes << 11 = 32 KiB, one object in two thousand */

/* Empty between rounds. Together, so that the line changes hands: that is the program's sharing. */
static void *shared_slot[SHARED_SLOTS]; /* atomic */

/* Half as many at each doubling, evenly spread in between. */
static size_t random_size(u64 *random)
{
    u32 most = 16u << __builtin_ctz(bench_random(random) | 1u << LARGEST_SHIFT);

    return most - 8 * bench_random_below(random, most / 16);
}

static bool step(struct bench_cpu *me, void **own, u64 *random)
{
    void *p = bench_take(me, random_size(random)), *old;

    if (unlikely(!p))
        return false;
    if (bench_random_below(random, 4) == 0) {
        old = __atomic_exchange_n(&shared_slot[bench_random_below(random, SHARED_SLOTS)], p,
                                  __ATOMIC_ACQ_REL);
    } else {
        void **slot = &own[bench_random_below(random, MSTRESS_SLOTS)];

        old = *slot;
        *slot = p;
    }
    bench_give(me, old);
    return true;
}

/* What nobody took any more is freed outside the timed part. */
static void clean_up(struct bench_round *round, struct bench_cpu *me, void **own)
{
    for (unsigned i = 0; i < MSTRESS_SLOTS; i++) {
        bench_give(me, own[i]);
        own[i] = NULL;
    }
    (void)bench_meet(round, me);
    if (plat_cpu_id() != plat_cpu_count() - 1)
        return;
    for (unsigned i = 0; i < SHARED_SLOTS; i++)
        bench_give(me, __atomic_exchange_n(&shared_slot[i], NULL, __ATOMIC_ACQ_REL));
}

void mstress_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    void **own = round->data[plat_cpu_id()];
    u64 random = bench_random_seed(), batch = bench_batch(round), i;

    (void)test;
    bench_start(round, me);
    do {
        for (i = 0; i < batch; i++)
            if (unlikely(!step(me, own, &random)))
                break;
    } while (i == batch && bench_more(round, me));
    bench_stop(me);
    clean_up(round, me, own);
}
