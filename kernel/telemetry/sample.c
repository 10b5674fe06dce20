/* sample.c: what has changed, said as often and at such length as the byte budget allows.
 *
 * The tables have room for every cache and every lock's id that there can be, so nothing that exists is left
 * out of the samples.
 *
 * The idea: for each value there is a note of what was last sent (`sent`). A sample is a list of
 * rows with the values that differ from their note, absolute, so a lost sample of a tick costs
 * resolution and nothing else. Two sets of notes are kept: one for the ticks' samples in the CPUs'
 * streams, one for the full samples in the boot's stream, so that the boot's stream by itself tells
 * what happened between two full samples. A lost full sample leaves a reader without what it told,
 * so one in WHOLE_EVERY is complete: it tells every value that is not 0, and the mark behind it
 * says so.
 *
 * A tick's sample is cut to what the CPU's token bucket holds. Rows are visited in two passes:
 * counters that feed a panel first (locks, then caches, nodes), then the rest; a pass that ran out
 * of room resumes where it stopped. Between timed sections a few more rows are repeated whole each
 * time, so that a reader who came late, or lost something, is whole again after some seconds.
 *
 * Deliberately not here: rates, differences, sums over CPUs. That is the reader's work.
 *
 * Who writes the notes: of a CPU's own row and of its bucket, whoever entered that CPU's ring; of
 * all other rows, whoever entered CPU 0's; those of full samples, the lab thread. The counters
 * themselves are read with relaxed loads while their CPUs go on counting.
 * Locking: none taken. Contexts: see telemetry.h. */
#include "telemetry_impl.h"
#include "../../base/string.h"

#define ROW_MAX        96u  /* values in a row of any scope */
#define TIMED_HZ_MAX   4u   /* samples a second inside timed sections */
#define TOKENS_MIN     96   /* bytes without which a sample is not worth its frame */
#define BURST_MIN      256u /* a bucket holds a second's worth, or this */
#define REFRESH_LOOKS  8u   /* rows that a sample looks at for one to repeat */
#define FRAME_OVERHEAD 16u  /* CRC, COBS and delimiters of a CPU's longest frame */
#define WHOLE_EVERY    16u  /* rounds, of which the first begins with a complete sample */

_Static_assert(NR_CPU_COUNTERS <= ROW_MAX && NR_CACHE_COUNTERS <= ROW_MAX &&
                   NR_LOCK_COUNTERS <= ROW_MAX && NR_NODE_COUNTERS <= ROW_MAX &&
                   NR_GLOBAL_COUNTERS <= ROW_MAX,
               "rows are read into arrays of ROW_MAX");

/* The counters of a scope that one pass sends from one kind of row. */
struct list {
    u8 n;
    u8 index[ROW_MAX]; /* in the row */
    u8 id[ROW_MAX];    /* on the wire */
};
enum pass { PASS_PANEL, PASS_REST, NR_PASSES };
static struct list lists[NR_SCOPES][2][NR_PASSES]; /* [1]: gauges, which are not kept per CPU */
_Static_assert(NR_COUNTERS <= 256, "struct list keeps ids in a byte");

/* One set of notes, by row. */
struct sent {
    u64 *cpu, *cache, *lock, *node, *global;
};

struct sampler {
    u64 last;      /* cycles at the last sample */
    u64 earned_at; /* cycles up to which tokens were given */
    i64 tokens;    /* bytes */
} ALIGNED(CACHE_LINE);

static struct {
    unsigned cpus, nodes;
    struct sent tick, full;
    struct sampler *of;           /* by CPU */
    unsigned resume[NR_PASSES];   /* row at which the pass goes on */
    unsigned refresh;             /* row that is repeated next */
    bool cache_known[MAX_CACHES]; /* atomic: set by the lab thread */
    bool lock_known[MAX_LOCKS + 1];
    bool nodes_known;
} sampler;

struct row {
    enum counter_scope scope;
    unsigned instance, cpu;
    bool gauges;
    const u64 *now;
    u64 *sent;
    u64 values[ROW_MAX]; /* what now points to, where no counter row is it */
};

/* -- rows -- */

static bool known(const bool *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static bool row_of_cpu(struct row *row, const struct sent *sent, unsigned cpu)
{
    const u64 *ours = kernel_cpu_row(cpu), *heap = heap_cpu_row(kheap, cpu);
    const u64 *rcu = rcu_cpu_row(cpu);

    for (unsigned i = 0; i < NR_CPU_COUNTERS; i++)
        row->values[i] = counter_read(&ours[i]) + (heap ? counter_read(&heap[i]) : 0) +
                         counter_read(&rcu[i]) + telemetry_cpu_value(cpu, i);
    row->scope = SCOPE_cpu;
    row->instance = cpu;
    row->cpu = cpu;
    row->gauges = false;
    row->now = row->values;
    row->sent = sent->cpu + (size_t)cpu * NR_CPU_COUNTERS;
    return true;
}

static bool row_of_lock(struct row *row, const struct sent *sent, unsigned i)
{
    unsigned id = i / sampler.cpus + 1;

    row->scope = SCOPE_lock;
    row->instance = id;
    row->cpu = i % sampler.cpus;
    row->gauges = false;
    if (!known(&sampler.lock_known[id]))
        return false;
    row->now = lock_stats(id).rows[row->cpu].ctr;
    row->sent = sent->lock + (size_t)i * NR_LOCK_COUNTERS;
    return true;
}

/* A visit is as long as the cache is looked at: its row stays where it is. */
static bool row_of_cache(struct row *row, const struct sent *sent, unsigned i)
{
    unsigned id = i / (sampler.cpus + 1), cpu = i % (sampler.cpus + 1);
    unsigned visit = heap_visit_begin(kheap);
    const struct kmem_cache *cache = heap_cache(kheap, id);

    row->scope = SCOPE_cache;
    row->instance = id;
    row->gauges = cpu == sampler.cpus;
    row->cpu = row->gauges ? 0 : cpu;
    row->now = NULL;
    if (cache && known(&sampler.cache_known[id])) {
        row->now = row->gauges ? row->values : cache_row(cache, cpu);
        if (row->gauges)
            cache_gauges(cache, row->values);
    }
    heap_visit_end(kheap, visit);
    row->sent = sent->cache + ((size_t)id * sampler.cpus + row->cpu) * NR_CACHE_COUNTERS;
    return row->now != NULL;
}

static bool row_of_node(struct row *row, const struct sent *sent, unsigned i)
{
    unsigned node = i / (sampler.cpus + 1), cpu = i % (sampler.cpus + 1);

    row->scope = SCOPE_node;
    row->instance = node;
    row->gauges = cpu == sampler.cpus;
    row->cpu = row->gauges ? 0 : cpu;
    row->now = row->gauges ? row->values : heap_node_row(kheap, node, cpu);
    if (row->gauges)
        heap_node_gauges(kheap, node, row->values);
    row->sent = sent->node + ((size_t)node * sampler.cpus + row->cpu) * NR_NODE_COUNTERS;
    return row->now != NULL && known(&sampler.nodes_known);
}

static bool row_of_global(struct row *row, const struct sent *sent)
{
    row->scope = SCOPE_global;
    row->instance = 0;
    row->cpu = 0;
    row->gauges = true;
    row->now = row->values;
    heap_global_gauges(kheap, row->values);
    row->sent = sent->global;
    return true;
}

/* Every row but the CPUs' own has a number: locks first, then caches, nodes, the global one. */
static unsigned row_count(void)
{
    return lock_count() * sampler.cpus +
           (heap_cache_count(kheap) + sampler.nodes) * (sampler.cpus + 1) + 1;
}

static bool row_load(struct row *row, const struct sent *sent, unsigned i)
{
    unsigned locks = lock_count() * sampler.cpus;
    unsigned caches = heap_cache_count(kheap) * (sampler.cpus + 1);
    unsigned nodes = sampler.nodes * (sampler.cpus + 1);

    if (i < locks)
        return row_of_lock(row, sent, i);
    i -= locks;
    if (i < caches)
        return row_of_cache(row, sent, i);
    i -= caches;
    if (i < nodes)
        return row_of_node(row, sent, i);
    return row_of_global(row, sent);
}

/* -- writing rows -- */

/* A record's body: the rows' array, whose length is filled in at the end. */
struct rows {
    struct cbor *c;
    u8 *head;
    unsigned n;
};

static void rows_open(struct rows *rows, struct cbor *c)
{
    rows->c = c;
    rows->head = c->p;
    rows->n = 0;
    CHECK(c->end - c->p >= 3);
    c->p += 3;
}

static void rows_close(struct rows *rows)
{
    rows->head[0] = 0x99; /* an array whose length is in two bytes */
    rows->head[1] = (u8)(rows->n >> 8);
    rows->head[2] = (u8)rows->n;
}

static bool row_write(struct rows *rows, const struct row *row, const u8 *id, const u64 *value,
                      unsigned n)
{
    struct cbor *c = rows->c;
    u8 *mark = c->p;

    cbor_array(c, 3 + 2 * n);
    cbor_uint(c, row->scope);
    cbor_uint(c, row->instance);
    cbor_uint(c, row->cpu);
    for (unsigned i = 0; i < n; i++) {
        cbor_uint(c, id[i]);
        cbor_uint(c, value[i]);
    }
    if (c->overflow) {
        c->p = mark;
        c->overflow = false;
        return false;
    }
    rows->n++;
    return true;
}

/* Writes the values of *list that changed (all: those that are not zero, too), as many as there is
 * room for. False if some had to be left. */
static bool row_emit(struct rows *rows, struct row *row, const struct list *list, bool all)
{
    u64 value[ROW_MAX];
    u8 id[ROW_MAX], index[ROW_MAX];
    unsigned n = 0, fit;

    for (unsigned i = 0; i < list->n; i++) {
        u64 v = counter_read(&row->now[list->index[i]]);

        if (v == row->sent[list->index[i]] && !(all && v))
            continue;
        index[n] = list->index[i];
        id[n] = list->id[i];
        value[n++] = v;
    }
    for (fit = n; fit && !row_write(rows, row, id, value, fit);)
        fit /= 2;
    for (unsigned i = 0; i < fit; i++)
        row->sent[index[i]] = value[i];
    return fit == n;
}

/* Both passes of one row. */
static bool row_emit_whole(struct rows *rows, struct row *row, bool all)
{
    const struct list *list = lists[row->scope][row->gauges];

    return row_emit(rows, row, &list[PASS_PANEL], all) &&
           row_emit(rows, row, &list[PASS_REST], all);
}

/* -- the ticks' samples -- */

static void emit_pass(struct rows *rows, enum pass pass)
{
    unsigned count = row_count(), from = sampler.resume[pass] % count;
    struct row row;

    for (unsigned k = 0; k < count; k++) {
        unsigned i = (from + k) % count;

        if (row_load(&row, &sampler.tick, i) &&
            !row_emit(rows, &row, &lists[row.scope][row.gauges][pass], false)) {
            sampler.resume[pass] = i;
            return;
        }
    }
    sampler.resume[pass] = 0;
}

static void emit_refresh(struct rows *rows)
{
    unsigned count = row_count(), before = rows->n;
    struct row row;

    for (unsigned k = 0; k < REFRESH_LOOKS && rows->n == before; k++) {
        sampler.refresh = (sampler.refresh + 1) % count;
        if (row_load(&row, &sampler.tick, sampler.refresh))
            row_emit_whole(rows, &row, true);
    }
}

/* Bytes a second that a CPU may send: a quarter of the budget is shared evenly for the CPUs' own
 * rows, the rest is CPU 0's, who sends everything else. */
static u64 byte_rate(unsigned cpu, bool timed)
{
    u64 rate = timed ? knobs.telemetry_budget / 10 : knobs.telemetry_budget;

    return MAX(rate / 4 / sampler.cpus + (cpu == 0 ? rate - rate / 4 : 0), (u64)1);
}

static void earn_tokens(struct sampler *s, unsigned cpu, u64 now, bool timed)
{
    u64 rate = byte_rate(cpu, timed), hz = plat_cycles_hz();
    u64 elapsed = MIN(now - s->earned_at, hz); /* a second fills any bucket */
    u64 earned = elapsed * rate / hz;

    if (!earned)
        return;
    s->tokens = MIN(s->tokens + (i64)earned, (i64)MAX(rate, (u64)BURST_MIN));
    s->earned_at = now;
}

bool sampler_due(unsigned cpu, u64 now)
{
    bool timed = __atomic_load_n(&telemetry.timed, __ATOMIC_RELAXED);
    u64 hz = timed ? MIN(knobs.telemetry_hz, (u64)TIMED_HZ_MAX) : knobs.telemetry_hz;
    u64 last = counter_read(&sampler.of[cpu].last);

    /* An eighth early is on time: ticks do not fall where the period would like them to. */
    return hz && now > last && now - last >= plat_cycles_hz() / hz / 8 * 7;
}

void sampler_tick(unsigned cpu, u64 now)
{
    struct sampler *s = &sampler.of[cpu];
    struct ring *r = &telemetry.cpu[cpu];
    bool timed = __atomic_load_n(&telemetry.timed, __ATOMIC_RELAXED);
    struct rows rows;
    struct row row;
    struct cbor *c;
    size_t limit;

    __atomic_store_n(&s->last, now, __ATOMIC_RELAXED);
    earn_tokens(s, cpu, now, timed);
    if (s->tokens < TOKENS_MIN)
        return;
    c = record_begin(r, RECORD_SAMPLE, 0, 1);
    if (!c)
        return;
    limit = MIN((size_t)s->tokens - FRAME_OVERHEAD, (size_t)r->payload_max);
    c->end = r->payload + limit;
    rows_open(&rows, c);
    row_of_cpu(&row, &sampler.tick, cpu);
    row_emit_whole(&rows, &row, false);
    if (cpu == 0) {
        emit_pass(&rows, PASS_PANEL);
        emit_pass(&rows, PASS_REST);
        if (!timed)
            emit_refresh(&rows);
    }
    if (!rows.n)
        return; /* the record is given up: nothing of it is in the ring yet */
    rows_close(&rows);
    s->tokens -= (i64)record_end(r);
}

/* -- full samples -- */

/* Writes a row into the record in the making, or into as many new ones as it takes; a row that does
 * not fit where it stands begins again in the next, which any row fits. */
static bool full_row(struct rows *rows, struct row *row, bool all, unsigned *records)
{
    while (!row_emit_whole(rows, row, all)) {
        struct cbor *c;

        rows_close(rows);
        boot_end();
        c = boot_begin(RECORD_SAMPLE, 0, 1);
        if (!c)
            return false;
        rows_open(rows, c);
        ++*records;
    }
    return true;
}

/* How many records it took; 0 if one found no room. */
static unsigned full_sample(bool all)
{
    struct cbor *c = boot_begin(RECORD_SAMPLE, 0, 1);
    unsigned count = row_count(), records = 1;
    struct rows rows;
    struct row row;

    if (!c)
        return 0;
    rows_open(&rows, c);
    for (unsigned cpu = 0; cpu < sampler.cpus; cpu++) {
        row_of_cpu(&row, &sampler.full, cpu);
        if (!full_row(&rows, &row, all, &records))
            return 0;
    }
    for (unsigned i = 0; i < count; i++)
        if (row_load(&row, &sampler.full, i) && !full_row(&rows, &row, all, &records))
            return 0;
    rows_close(&rows);
    boot_end();
    return records;
}

void telemetry_full_sample(bool begins)
{
    bool all = begins && telemetry.begun++ % WHOLE_EVERY == 0;
    unsigned records = full_sample(all);

    telemetry.whole_records = all ? records : 0;
}

/* -- what has a name, and init -- */

static bool *known_flag(enum counter_scope scope, unsigned id)
{
    return scope == SCOPE_cache  ? &sampler.cache_known[id]
           : scope == SCOPE_lock ? &sampler.lock_known[id]
                                 : &sampler.nodes_known;
}

void sampler_announced(enum counter_scope scope, unsigned id)
{
    __atomic_store_n(known_flag(scope, id), true, __ATOMIC_RELEASE);
}

bool sampler_knows(enum counter_scope scope, unsigned id)
{
    return known(known_flag(scope, id));
}

static void lists_init(void)
{
    for (unsigned id = 0; id < NR_COUNTERS; id++) {
        const struct counter_desc *d = &counter_descs[id];
        enum pass pass = strcmp(d->panel, "none") == 0 ? PASS_REST : PASS_PANEL;
        struct list *list = &lists[d->scope][d->kind == KIND_gauge][pass];

        list->index[list->n] = d->index;
        list->id[list->n++] = (u8)id;
    }
}

static bool sent_init(struct sent *sent)
{
    size_t cpus = sampler.cpus;

    sent->cpu = telemetry_memory(cpus * NR_CPU_COUNTERS * sizeof(u64));
    sent->cache = telemetry_memory(MAX_CACHES * cpus * NR_CACHE_COUNTERS * sizeof(u64));
    sent->lock = telemetry_memory(MAX_LOCKS * cpus * NR_LOCK_COUNTERS * sizeof(u64));
    sent->node = telemetry_memory(sampler.nodes * cpus * NR_NODE_COUNTERS * sizeof(u64));
    sent->global = telemetry_memory(NR_GLOBAL_COUNTERS * sizeof(u64));
    return sent->cpu && sent->cache && sent->lock && sent->node && sent->global;
}

bool sampler_init(unsigned cpus)
{
    u64 now = plat_cycles();

    memset(&sampler, 0, sizeof(sampler));
    memset(lists, 0, sizeof(lists));
    sampler.cpus = cpus;
    sampler.nodes = heap_node_count(kheap);
    lists_init();
    sampler.of = telemetry_memory(cpus * sizeof(*sampler.of));
    if (!sampler.of || !sent_init(&sampler.tick) || !sent_init(&sampler.full))
        return false;
    /* The CPUs take turns, so that their frames do not come all at once. */
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        sampler.of[cpu].last = now + plat_cycles_hz() / 20 * cpu / cpus;
        sampler.of[cpu].earned_at = now;
    }
    return true;
}
