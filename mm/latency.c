/* latency.c: how long calls take, level by level: histograms on a logarithmic scale, and the matrix
 * of who frees what another CPU allocated.
 *
 * latency=on: one call in latency.every of each level (base/latency.def), on each CPU, allocations
 * and frees apart, is timed and counted in a bucket. Four buckets an octave, so that a percentile
 * is known to a fifth; values of 0..3 cycles have a bucket each:
 *
 *   bucket i < 4    i
 *   bucket i >= 4   from (4 + i % 4) << (i / 4 - 1), up to where the next begins
 *
 * Sampling by counting would look always at the same call of a batch if the batch's size divided
 * latency.every; so its default is a prime that is no batch or array size here.
 *
 * What a time is: cycles from the call to its return, interrupts and other threads that came in
 * between included, and what reading the clock itself costs (latency_clock_cycles). A front end's
 * call contains the slab's, and so on down. Under icount a cycle is an instruction of any vCPU.
 *
 * matrix=on: an allocation writes its CPU into the object's header (large blocks: the descriptor),
 * and the free counts the pair on the freeing CPU's row. Every free is counted.
 *
 * What is off is gone: the front end's calls and the slabs are reached through the cache's pointers
 * (ways.c, slab.c), the page caches by pcp_orders; only the buddy, which takes a lock anyway, looks
 * at a pointer.
 *
 * A call that began before the tables exist is not timed, and belongs to no CPU's matrix row.
 *
 * Locking: none. Each CPU writes its own rows, interrupts off; latency_reset() runs on each CPU.
 * Contexts: thread, interrupt; reading: any. */
#include "latency_impl.h"

_Static_assert(LATENCY_BUCKETS % 4 == 0, "whole octaves");

/* -- timing -- */

unsigned latency_bucket(u64 cycles)
{
    unsigned top, i;

    if (cycles < 4)
        return (unsigned)cycles;
    top = 63 - (unsigned)__builtin_clzll(cycles);
    i = (top - 1) * 4 + (unsigned)(cycles >> (top - 2) & 3);
    return MIN(i, LATENCY_BUCKETS - 1);
}

static struct latency_row *mine(struct latency *l)
{
    return &l->row[plat_cpu_id()];
}

/* Not 0, which is "not timed". */
u64 latency_begin(struct latency *l, enum latency_level level, enum latency_call call)
{
    unsigned long flags;
    bool timed = false;
    u32 *left;

    if (!l->row)
        return 0;
    flags = plat_irq_save();
    left = &mine(l)->left[level][call];
    if (*left == 0) {
        *left = l->every;
        timed = true;
    }
    --*left;
    plat_irq_restore(flags);
    return timed ? plat_cycles() | 1 : 0;
}

void latency_end(struct latency *l, enum latency_level level, enum latency_call call, u64 start)
{
    struct latency_hist *hist;
    unsigned long flags;
    u64 cycles;

    if (!start)
        return;
    cycles = plat_cycles() - start;
    flags = plat_irq_save();
    hist = &mine(l)->hist[level][call];
    plat_counter_add(&hist->count[latency_bucket(cycles)], 1);
    if (cycles > counter_read(&hist->max))
        __atomic_store_n(&hist->max, cycles, __ATOMIC_RELAXED);
    plat_irq_restore(flags);
}

/* -- the matrix -- */

void matrix_count(struct heap *h, u32 from)
{
    unsigned long flags;

    if (!h->matrix || from >= h->cpus)
        return;
    flags = plat_irq_save();
    plat_counter_add(&h->matrix[(size_t)plat_cpu_id() * MAX_CPUS + from], 1);
    plat_irq_restore(flags);
}

/* -- init, and what telemetry reads -- */

static u64 clock_cycles(void)
{
    u64 least = ~(u64)0;

    for (unsigned i = 0; i < 64; i++) {
        u64 start = plat_cycles(), took = plat_cycles() - start;

        least = MIN(least, took);
    }
    return least;
}

bool latency_init(struct heap *h, unsigned cpus)
{
    if (h->latency_on) {
        h->latency.clock_cycles = clock_cycles();
        h->latency.row = table_alloc(h, cpus * sizeof(struct latency_row));
        if (!h->latency.row)
            return false;
    }
    if (h->matrix_on) {
        h->matrix = table_alloc(h, cpus * MAX_CPUS * sizeof(u64));
        if (!h->matrix)
            return false;
    }
    return true;
}

void heap_observe_reset(struct heap *h)
{
    unsigned cpu = plat_cpu_id();
    unsigned long flags = plat_irq_save();

    if (h->latency.row)
        for (unsigned level = 0; level < NR_LATENCY_LEVELS; level++)
            for (unsigned call = 0; call < NR_LATENCY_CALLS; call++) {
                struct latency_hist *hist = &h->latency.row[cpu].hist[level][call];

                for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
                    __atomic_store_n(&hist->count[i], 0, __ATOMIC_RELAXED);
                __atomic_store_n(&hist->max, 0, __ATOMIC_RELAXED);
            }
    if (h->matrix)
        for (unsigned from = 0; from < MAX_CPUS; from++)
            __atomic_store_n(&h->matrix[(size_t)cpu * MAX_CPUS + from], 0, __ATOMIC_RELAXED);
    plat_irq_restore(flags);
}

bool heap_observed(const struct heap *h)
{
    return h->latency.row || h->matrix;
}

u64 heap_latency(const struct heap *h, enum latency_level level, enum latency_call call,
                 struct latency_hist *out)
{
    u64 samples = 0;

    *out = (struct latency_hist){0};
    for (unsigned cpu = 0; h->latency.row && cpu < h->cpus; cpu++) {
        const struct latency_hist *hist = &h->latency.row[cpu].hist[level][call];

        for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
            u64 n = counter_read(&hist->count[i]);

            out->count[i] += n;
            samples += n;
        }
        out->max = MAX(out->max, counter_read(&hist->max));
    }
    return samples;
}

u64 heap_latency_clock_cycles(const struct heap *h)
{
    return h->latency.clock_cycles;
}

const u64 *heap_matrix_row(const struct heap *h, unsigned cpu)
{
    return h->matrix && cpu < h->cpus ? &h->matrix[(size_t)cpu * MAX_CPUS] : NULL;
}
