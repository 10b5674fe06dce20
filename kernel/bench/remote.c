/* remote.c: remote/<bytes>/one-to-one, many-to-one and one-to-many: what one CPU allocates, another
 * frees. Objects travel through bounded rings, one for each CPU that is not the hub; the hub is the
 * last CPU, and frees (one-to-one, many-to-one) or allocates (one-to-many).
 *
 * One operation is one object: allocated here, freed there. The CPUs that allocate count it, and
 * its cost is the time of both sides. A giver whose ring is full, or a taker whose rings are empty,
 * waits: the pair is as fast as its slower side, and that time is part of the cost.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"
#include "ring.h"

#define TAKE_AT_ONCE 64u /* of one ring, before looking at the next */

static unsigned hub(void)
{
    return plat_cpu_count() - 1;
}

static unsigned first_spoke(const struct bench_round *round)
{
    return plat_cpu_count() - round->cpus;
}

/* Waits for room, in a ring of [from, to) that has it; *next is where to look first. */
static ALWAYS_INLINE void hand_over(struct bench_round *round, unsigned from, unsigned to,
                                    unsigned *next, void *p)
{
    for (;;) {
        unsigned at = *next;

        *next = at + 1 == to ? from : at + 1;
        if (ring_put(round->data[at], p))
            return;
        bench_relax();
    }
}

static void give(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me,
                 unsigned from, unsigned to)
{
    u64 batch = bench_batch(round);
    unsigned next = from;

    for (unsigned at = from; at < to; at++)
        ring_open(round->data[at]);
    bench_start(round, me);
    do {
        for (u64 i = 0; i < batch; i++) {
            void *p = bench_take(me, test->bytes);

            if (unlikely(!p))
                goto out;
            hand_over(round, from, to, &next, p);
        }
    } while (bench_more(round, me));
out:
    for (unsigned at = from; at < to; at++)
        ring_close(round->data[at]);
    bench_stop(me);
}

/* False when nothing will ever come again. */
static bool take_some(struct bench_cpu *me, struct ring *r, u64 *taken)
{
    bool closed = ring_closed(r);

    for (unsigned i = 0; i < TAKE_AT_ONCE; i++) {
        void *p = ring_take(r);

        if (!p)
            return !closed;
        bench_give(me, p);
        ++*taken;
    }
    return true;
}

static void take(struct bench_round *round, struct bench_cpu *me, unsigned from, unsigned to)
{
    bool open = true;

    bench_start(round, me);
    while (open) {
        u64 taken = 0;

        open = false;
        for (unsigned at = from; at < to; at++)
            open |= take_some(me, round->data[at], &taken);
        if (!taken)
            bench_relax();
    }
    bench_stop(me);
}

void remote_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    bool hub_gives = test->kind == REMOTE_ONE_TO_MANY;
    unsigned cpu = plat_cpu_id();
    unsigned from = cpu == hub() ? first_spoke(round) : cpu;
    unsigned to = cpu == hub() ? hub() : cpu + 1;

    if ((cpu == hub()) == hub_gives)
        give(test, round, me, from, to);
    else
        take(round, me, from, to);
}
