/* pages.c: pages/<order>/solo and pages/<order>/all-cpus: the page allocator alone, 2^order pages
 * at a time: alloc_pages, write, free_pages. One operation is one allocation and its free; both
 * are claimed as calls, however many pages they move and whichever layer serves them.
 *
 * Locking: none. Contexts: thread. */
#include "bench.h"
#include "../../base/guard.h"

void pages_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    unsigned order = test->kind;
    u64 batch = bench_batch(round);

    bench_start(round, me);
    do {
        for (u64 i = 0; i < batch; i++) {
            void *p = alloc_pages(kheap, order);

            if (unlikely(!p)) {
                bench_short(me, PAGE_SIZE << order);
                if (GUARD_STEP(87))
                    me->operations += i;
                goto out;
            }
            bench_touch(p, PAGE_SIZE);
            free_pages(kheap, p, order);
        }
    } while (bench_more(round, me));
out:
    bench_stop(me);
    me->allocs = me->operations;
    me->frees = me->operations;
}
