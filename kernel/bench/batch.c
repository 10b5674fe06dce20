/* batch.c: batch/<bytes>/alloc and batch/<bytes>/free: all CPUs allocate N objects each, meet, and
 * free all of them, over and over. One half is timed, the other and the meetings are not; so each
 * half has a test of its own, and what they do is the same. One operation is one allocation, or
 * one free.
 *
 * N is 10,000, far beyond what any front end holds, or as many as take a quarter of memory.
 * Objects are freed in the order in which they were allocated. Under kbench.ops the clock is read
 * between the halves, a fixed number of times.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"

const char *batch_setup(const struct bench_test *test, struct bench_round *round)
{
    u64 pages[NR_NODE_COUNTERS] = {0}, bytes = 0;

    for (unsigned node = 0; node < heap_node_count(kheap); node++) {
        heap_node_gauges(kheap, node, pages);
        bytes += pages[NODE_pages_total] * PAGE_SIZE;
    }
    round->n = (unsigned)MIN((u64)BATCH_OBJECTS, bytes / 4 / test->bytes / round->cpus);
    if (knobs.kbench_ops)
        round->n = (unsigned)MIN((u64)round->n, knobs.kbench_ops);
    return round->n ? NULL : bench_setup_short(round, (u64)4 * test->bytes * round->cpus);
}

static u64 take_all(struct bench_cpu *me, void **object, u64 n, size_t bytes)
{
    for (u64 i = 0; i < n; i++) {
        void *p = kmalloc(bytes);

        if (unlikely(!p)) {
            bench_short(me, bytes);
            return i;
        }
        bench_touch(p, bytes);
        bench_sign(p);
        object[i] = p;
    }
    return n;
}

static void give_all(struct bench_cpu *me, void **object, u64 n)
{
    bool intact = true;

    for (u64 i = 0; i < n; i++) {
        intact &= bench_signed(object[i]);
        kfree(object[i]);
    }
    if (!intact)
        me->damaged = true;
}

void batch_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    bool frees = test->kind == BATCH_FREE, more;
    void **object = round->data[plat_cpu_id()];

    bench_start(round, me);
    do {
        u64 n = bench_batch_of(round, me, round->n);

        if (frees)
            bench_pause(me);
        n = take_all(me, object, n, test->bytes);
        if (!frees)
            bench_pause(me);
        (void)bench_meet(round, me);
        if (frees)
            bench_resume(me);
        give_all(me, object, n);
        if (frees)
            bench_pause(me);
        me->operations += n;
        more = bench_meet(round, me);
        bench_resume(me);
    } while (more);
    bench_stop(me);
    me->allocs = me->operations;
    me->frees = me->operations;
}
