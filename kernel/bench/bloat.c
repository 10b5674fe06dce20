/* bloat.c: rcu-bloat/held and rcu-bloat/free: what a CPU that passes no quiescent state costs in memory.
 * The last CPU reads for more than half of the round (it is held, in one long read section) while all
 * others allocate objects and hand them to kfree_rcu as fast as they can. What they hand in can be
 * given back to nobody until the reader is done: the backlog grows by all of it. Then the reader
 * stops, and while the others go on as before the backlog must fall to what a grace period's length
 * makes it. rcu-bloat/free is the same without the read section. One operation is one allocation
 * and its kfree_rcu.
 *
 * Held for more than a second (kbench.ms=2000), the reader is named by whoever notices (sync/rcu.c).
 *
 * Memory is not endless: a CPU whose own backlog is its share of a third of memory stands still until
 * some comes back, as an allocation that failed would have to. How long that was is told.
 *
 * What is told of a round (bench_figures): the highest backlog in objects and the slabs that it filled,
 * as the last CPU saw them from its loop; the time from the end of the read section until the backlog
 * was a tenth of that; how long CPUs stood still, added up; how often a CPU was named; and slabs
 * held when all grace periods were over, before and after a shrink.
 *
 * Locking: none; the last CPU writes what it saw, others read it after the round. Contexts: thread. */
#include "bench.h"

#define OBJECT_BYTES 64u
#define HELD_PART    60u  /* of the round, in percent */
#define LOOK_US      200u /* between two looks at the backlog */
#define FALLEN       10u  /* the backlog has fallen when it is this part of its highest */

struct bloat_object {
    struct rcu_head rcu;
    u64 signature;
    u8 rest[OBJECT_BYTES - sizeof(struct rcu_head) - sizeof(u64)];
};

struct bloat {
    /* fixed for the round */
    struct kmem_cache *cache;
    u64 limit;  /* objects: the backlog at which a CPU stands still */
    u64 silent; /* CPUs named so far, at the beginning */

    /* atomic */
    u32 watched;  /* the last CPU has begun: nobody hands in anything that it does not hold up */
    u32 halfway;  /* kbench.ops: CPUs that have done half of their operations, or stand still */
    u32 finished; /* CPUs that are through */
    u64 stood;    /* cycles */

    /* the last CPU's; for the last go */
    u64 peak, slabs; /* objects; slabs at that moment */
    u64 fell;        /* cycles */
};

static const struct kmem_cache_args bloat_args = {.name = "bench-bloat", .size = OBJECT_BYTES};

static struct bloat the_bloat; /* one round at a time */

static u64 named(void)
{
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++)
        sum += counter_read(&rcu_cpu_row(cpu)[CPU_rcu_silent]);
    return sum;
}

static u64 memory_objects(void)
{
    return heap_pages_free(kheap) * PAGE_SIZE / cache_slab_bytes(the_bloat.cache) *
           cache_slab_objects(the_bloat.cache);
}

const char *bloat_setup(const struct bench_test *test, struct bench_round *round)
{
    (void)test;
    the_bloat = (struct bloat){.cache = kmem_cache_create(kheap, &bloat_args)};
    round->shared = &the_bloat;
    if (!the_bloat.cache)
        return bench_setup_short(round, 0);
    the_bloat.limit = MAX(memory_objects() / 3 / (round->cpus - 1), (u64)1);
    the_bloat.silent = named();
    return NULL;
}

static void shrink_here(void *cache)
{
    (void)kmem_cache_shrink(cache);
}

static void look(const struct bloat *b, u64 g[NR_CACHE_COUNTERS])
{
    cache_gauges(b->cache, g);
}

const char *bloat_teardown(const struct bench_test *test, struct bench_round *round)
{
    const struct bloat *b = round->shared;
    u64 before[NR_CACHE_COUNTERS] = {0}, after[NR_CACHE_COUNTERS] = {0}, busy = 0;
    u64 us = plat_cycles_hz() / 1000000;

    heap_kfree_rcu_barrier(kheap);
    look(b, before);
    plat_run_on_cpus(plat_all_cpus(), shrink_here, b->cache);
    look(b, after);
    bench_figures(test,
                  (const struct telemetry_value[]){
                      {"backlog_peak_objects", (i64)b->peak},
                      {"slabs_at_peak", (i64)b->slabs},
                      {"fall_us", (i64)(b->fell / us)},
                      {"stood_still_us", (i64)(b->stood / us)},
                      {"named_silent", (i64)(named() - b->silent)},
                      {"backlog_left_objects", (i64)before[CACHE_rcu_objects]},
                      {"slabs_held", (i64)before[CACHE_slabs]},
                      {"slabs_held_after_shrink", (i64)after[CACHE_slabs]},
                  },
                  8);
    return kmem_cache_destroy(b->cache, &busy) ? NULL : "the cache was busy at the end";
}

/* -- the last CPU -- */

static bool is_over(const struct bench_round *round, const struct bloat *b,
                    const struct bench_cpu *me)
{
    if (round->ops)
        return __atomic_load_n(&b->finished, __ATOMIC_ACQUIRE) == round->cpus - 1;
    return plat_cycles() >= me->stop_at;
}

static bool held_long_enough(const struct bench_round *round, const struct bloat *b,
                             const struct bench_cpu *me)
{
    if (round->ops)
        return __atomic_load_n(&b->halfway, __ATOMIC_ACQUIRE) == round->cpus - 1;
    return plat_cycles() - me->start >= round->duration / 100 * HELD_PART;
}

/* Until its next look is due. reading: it passes no quiescent state. */
static void wait_to_look(bool reading)
{
    u64 until = plat_cycles() + plat_cycles_hz() / 1000000 * LOOK_US;

    while (plat_cycles() < until) {
        if (!reading)
            rcu_quiescent();
        plat_relax();
    }
}

static void note_peak(struct bloat *b, const u64 g[NR_CACHE_COUNTERS])
{
    if (g[CACHE_rcu_objects] <= b->peak)
        return;
    b->peak = g[CACHE_rcu_objects];
    b->slabs = g[CACHE_slabs];
}

static void read_and_watch(const struct bench_round *round, struct bloat *b,
                           const struct bench_cpu *me, bool reading)
{
    u64 g[NR_CACHE_COUNTERS] = {0}, released = 0;

    b->peak = b->slabs = b->fell = 0;
    if (reading)
        rcu_read_lock();
    __atomic_store_n(&b->watched, 1, __ATOMIC_RELEASE);
    while (!is_over(round, b, me)) {
        bool enough = reading && held_long_enough(round, b, me);

        look(b, g);
        note_peak(b, g);
        if (released && !b->fell && g[CACHE_rcu_objects] <= b->peak / FALLEN)
            b->fell = plat_cycles() - released;
        if (enough) {
            rcu_read_unlock();
            released = plat_cycles();
            reading = false;
        }
        wait_to_look(reading);
    }
    if (reading) { /* it came late to its own end */
        look(b, g);
        note_peak(b, g);
        rcu_read_unlock();
    }
}

/* -- the others -- */

/* Objects that this CPU handed in and has not got back: their callbacks run here. */
static u64 backlog_mine(const struct bloat *b)
{
    const u64 *row = cache_row(b->cache, plat_cpu_id());

    return counter_read(&row[CACHE_free_rcu]) - counter_read(&row[CACHE_rcu_freed]);
}

static void reach_halfway(struct bloat *b, bool *told)
{
    if (!*told)
        __atomic_fetch_add(&b->halfway, 1, __ATOMIC_ACQ_REL);
    *told = true;
}

static void stand_still(const struct bench_round *round, struct bloat *b,
                        const struct bench_cpu *me)
{
    u64 since = plat_cycles();

    while (backlog_mine(b) >= b->limit && (round->ops || plat_cycles() < me->stop_at))
        bench_relax();
    __atomic_fetch_add(&b->stood, plat_cycles() - since, __ATOMIC_RELAXED);
}

static bool hand_in(struct bloat *b, struct bench_cpu *me)
{
    struct bloat_object *o = kmem_cache_alloc(b->cache);

    if (unlikely(!o)) {
        bench_short(me, OBJECT_BYTES);
        return false;
    }
    me->allocs++;
    bench_touch(o, OBJECT_BYTES);
    bench_sign(&o->signature);
    if (unlikely(!bench_signed(&o->signature)))
        me->damaged = true;
    me->frees++;
    (void)kfree_rcu(o, &o->rcu);
    return true;
}

static void bloat_objects(const struct bench_round *round, struct bloat *b, struct bench_cpu *me)
{
    bool halfway = false, more = true;

    bench_pause(me);
    while (!__atomic_load_n(&b->watched, __ATOMIC_ACQUIRE))
        bench_relax();
    bench_resume(me);
    while (more) {
        u64 batch = bench_batch_of(round, me, BENCH_BATCH), done = 0;

        while (done < batch && hand_in(b, me))
            done++;
        more = bench_more_of(round, me, done) && done == batch;
        if (me->operations >= round->ops / 2)
            reach_halfway(b, &halfway);
        if (unlikely(backlog_mine(b) >= b->limit)) {
            reach_halfway(b, &halfway);
            stand_still(round, b, me);
        }
    }
    reach_halfway(b, &halfway);
    __atomic_fetch_add(&b->finished, 1, __ATOMIC_ACQ_REL);
}

void bloat_run(const struct bench_test *test, struct bench_round *round, struct bench_cpu *me)
{
    struct bloat *b = round->shared;
    bool last = plat_cpu_id() == plat_cpu_count() - 1;

    if (last) {
        __atomic_store_n(&b->watched, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->halfway, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->finished, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->stood, 0, __ATOMIC_RELAXED);
    }
    bench_start(round, me);
    if (last)
        read_and_watch(round, b, me, test->kind == BLOAT_HELD);
    else
        bloat_objects(round, b, me);
    bench_stop(me);
}
