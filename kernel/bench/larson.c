/* larson.c: larson, after Larson and Krishnan's server simulation: each CPU holds a set of objects
 * of random sizes and over and over replaces one chosen at random. Now and then it leaves its whole
 * set to whoever comes next and takes one that another CPU left, as a thread that ends leaves its
 * connections to its successor: from then on it frees what others allocated. One operation is one
 * replacement, a free and an allocation.
 *
 * There is one set more than CPUs: it lies in the mailbox, and a set is exchanged for it in one
 * step, so that nobody ever waits. On one CPU the two sets take turns.
 *
 * Locking: none; the mailbox is exchanged atomically. Contexts: thread. */
#include "bench.h"
#include "../../base/string.h"

#define SMALLEST    16u
#define LARGEST     1000u
#define EPOCH       4096u /* operations between two exchanges */
#define SPARE_SIZE  (LARSON_SLOTS * sizeof(void *))
#define SPARE_ORDER 1u

_Static_assert(SPARE_SIZE <= PAGE_SIZE << SPARE_ORDER, "the spare set must fit its pages");

static void **mailbox; /* atomic; after a run any of the sets may lie in it */

const char *larson_setup(const struct bench_test *test, struct bench_round *round)
{
    (void)test;
    round->shared = alloc_pages(kheap, SPARE_ORDER);
    if (!round->shared)
        return bench_setup_short(round, PAGE_SIZE << SPARE_ORDER);
    memset(round->shared, 0, SPARE_SIZE);
    return NULL;
}

const char *larson_teardown(const struct bench_test *test, struct bench_round *round)
{
    (void)test;
    return free_pages(kheap, round->shared, SPARE_ORDER) ? NULL : "the spare set was no block";
}

static ALWAYS_INLINE bool replace(struct bench_cpu *me, void **slot, u64 *random)
{
    bench_give(me, *slot);
    *slot = bench_take(me, SMALLEST + 8 * bench_random_below(random, (LARGEST - SMALLEST) / 8 + 1));
    return *slot;
}

static void fill(struct bench_cpu *me, void **set, u64 *random)
{
    for (unsigned i = 0; i < LARSON_SLOTS; i++)
        if (!replace(me, &set[i], random))
            return;
}

static void empty(struct bench_cpu *me, void **set)
{
    for (unsigned i = 0; i < LARSON_SLOTS; i++) {
        bench_give(me, set[i]);
        set[i] = NULL;
    }
}

void larson_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    void **set = round->data[plat_cpu_id()];
    bool last = plat_cpu_id() == plat_cpu_count() - 1;
    u64 random = bench_random_seed(), n, i;

    (void)test;
    fill(me, set, &random);
    if (last) {
        fill(me, round->shared, &random);
        __atomic_store_n(&mailbox, round->shared, __ATOMIC_RELEASE);
    }
    bench_start(round, me);
    do {
        n = bench_batch_of(round, me, EPOCH);
        for (i = 0; i < n; i++)
            if (unlikely(!replace(me, &set[bench_random_below(&random, LARSON_SLOTS)], &random)))
                break;
        set = __atomic_exchange_n(&mailbox, set, __ATOMIC_ACQ_REL);
    } while (i == n && bench_more_of(round, me, n));
    bench_stop(me);

    (void)bench_meet(round, me); /* from here on nobody exchanges */
    empty(me, set);
    if (last)
        empty(me, __atomic_load_n(&mailbox, __ATOMIC_ACQUIRE));
}
