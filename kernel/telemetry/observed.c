/* observed.c: the records of latency=on and matrix=on, after each round: histograms of how long
 * calls took, by level and direction, and who freed what another CPU allocated. Of the round alone:
 * the tables are cleared before it (kernel/bench/run.c).
 *
 * Only buckets and pairs that are not 0 are sent; a level that no sampled call reached sends
 * nothing.
 *
 * Locking: none. Contexts: thread on CPU 0, between timed sections. */
#include "telemetry_impl.h"

static const struct {
    const char *name, *about;
} levels[NR_LATENCY_LEVELS] = {
#define LATENCY_LEVEL(name, doc) {#name, doc},
#include "../../base/latency.def"
#undef LATENCY_LEVEL
};

static const char *const calls[NR_LATENCY_CALLS] = {
    [LATENCY_ALLOC] = "alloc",
    [LATENCY_FREE] = "free",
};

static struct latency_hist hist; /* one thread's; too large for a stack */

static unsigned filled(const u64 *count, unsigned n)
{
    unsigned found = 0;

    for (unsigned i = 0; i < n; i++)
        found += count[i] != 0;
    return found;
}

/* [index, count] of each that is not 0. */
static void pairs(struct cbor *c, const char *key, const u64 *count, unsigned n)
{
    cbor_text(c, key);
    cbor_array(c, filled(count, n));
    for (unsigned i = 0; i < n; i++) {
        if (!count[i])
            continue;
        cbor_array(c, 2);
        cbor_uint(c, i);
        cbor_uint(c, count[i]);
    }
}

static void latency_record(unsigned test, u64 round, unsigned level, unsigned call)
{
    struct cbor *c = boot_begin(RECORD_LATENCY, 0, 1);

    if (!c)
        return;
    cbor_map(c, 9);
    pair_uint(c, "test", test);
    pair_uint(c, "round", round);
    pair_text(c, "level", levels[level].name);
    pair_text(c, "about", levels[level].about);
    pair_text(c, "call", calls[call]);
    pair_uint(c, "every", knobs.latency_every);
    pair_uint(c, "clock", heap_latency_clock_cycles(kheap));
    pair_uint(c, "max", hist.max);
    pairs(c, "buckets", hist.count, LATENCY_BUCKETS);
    boot_end();
}

static void matrix_record(unsigned test, u64 round, unsigned cpu, const u64 *from)
{
    struct cbor *c = boot_begin(RECORD_MATRIX, 0, 1);

    if (!c)
        return;
    cbor_map(c, 4);
    pair_uint(c, "test", test);
    pair_uint(c, "round", round);
    pair_uint(c, "cpu", cpu);
    pairs(c, "from", from, MAX_CPUS);
    boot_end();
}

void telemetry_observed(unsigned test, u64 round)
{
    for (unsigned level = 0; level < NR_LATENCY_LEVELS; level++)
        for (unsigned call = 0; call < NR_LATENCY_CALLS; call++)
            if (heap_latency(kheap, level, call, &hist))
                latency_record(test, round, level, call);
    for (unsigned cpu = 0; cpu < telemetry.cpus; cpu++) {
        const u64 *from = heap_matrix_row(kheap, cpu);

        if (from && filled(from, MAX_CPUS))
            matrix_record(test, round, cpu, from);
    }
}
