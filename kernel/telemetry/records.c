/* records.c: the records of the boot's own stream, one function each, and events.
 *
 * The boot's stream has one writer, the lab thread, and must not lose anything: it carries what the
 * others refer to, and the results. So its records wait for room, draining meanwhile; only a port
 * that takes nothing for two seconds makes them give up, and then the loss is counted like any
 * other.
 *
 * Events come from anywhere, so they go into their CPU's stream and are dropped when it is full.
 *
 * Locking: none for the boot's stream (one writer); a CPU's ring by its try-flag with interrupts
 * off.
 * Contexts: thread on CPU 0; telemetry_event() and telemetry_tick() as telemetry.h says. */
#include "telemetry_impl.h"
#include "version.h"
#include "../../base/leftout.h"
#include "../../base/string.h"

#define STUCK_MS     2000u
#define EVENT_VALUES 8u
/* Bytes of the argument line in hello's first part, which it shares, and in each that it has to itself; and how
 * many of these there may be. */
#define ARGS_FIRST      3000u
#define ARGS_MORE       3900u
#define ARGS_PARTS_MOST 64u
/* Bytes that an entry of left_out needs, with its texts and in short. */
#define LEFT_OUT_LONG  560u
#define LEFT_OUT_SHORT 100u
/* What a tick moves to the port. Every byte costs 2..5 us of exits under QEMU. */
#define TICK_BYTES       512u
#define TICK_BYTES_TIMED 64u

/* -- waiting for room -- */

struct cbor *boot_begin(enum record_type type, unsigned part, unsigned parts)
{
    struct ring *r = &telemetry.boot;
    u64 until = plat_cycles() + plat_cycles_hz() / 1000 * STUCK_MS;

    if (!__atomic_load_n(&telemetry.active, __ATOMIC_ACQUIRE))
        return NULL;
    while (!ring_has_room(r) && plat_cycles() < until) {
        telemetry_drain(BOOT_RING_BYTES);
        if (!ring_has_room(r))
            plat_sleep_ns(1000000);
    }
    return record_begin(r, type, part, parts);
}

void boot_end(void)
{
    record_end(&telemetry.boot);
}

static bool all_empty(void)
{
    bool empty = ring_empty(&telemetry.boot);

    for (unsigned cpu = 0; cpu < telemetry.cpus; cpu++)
        empty = empty && ring_empty(&telemetry.cpu[cpu]);
    return empty;
}

/* Half full: time to move something, whatever it costs. */
static bool any_filling(void)
{
    for (unsigned cpu = 0; cpu < telemetry.cpus; cpu++) {
        const struct ring *r = &telemetry.cpu[cpu];

        if (ring_head(r) - ring_tail(r) > r->size / 2)
            return true;
    }
    return false;
}

void telemetry_flush(void)
{
    u64 until = plat_cycles() + plat_cycles_hz() / 1000 * STUCK_MS;

    while (!all_empty() && plat_cycles() < until) {
        telemetry_drain(BOOT_RING_BYTES);
        if (!all_empty())
            plat_sleep_ns(1000000);
    }
}

/* -- small helpers: a map's pairs -- */

static void pair_bool(struct cbor *c, const char *key, bool value)
{
    cbor_text(c, key);
    cbor_bool(c, value);
}

/* -- what was left out -- */

_Static_assert(NR_LEFT_OUT *LEFT_OUT_SHORT <= PAYLOAD_MAX / 2, "bye has room for every kind");

/* Texts only while there is room for them: bye has one frame, and what hello told it tells again. */
static void left_out_entry(struct cbor *c, const struct left_out_desc *d, const struct left_out *l,
                           bool texts)
{
    bool detail = texts && l->detail;

    cbor_map(c, 3 + (l->of != 0) + d->voids + texts + detail);
    pair_text(c, "name", d->name);
    pair_text(c, "unit", d->unit);
    pair_uint(c, "amount", l->amount);
    if (l->of)
        pair_uint(c, "of", l->of);
    if (d->voids)
        pair_bool(c, "voids", true);
    if (texts) {
        cbor_text(c, "doc");
        cbor_text_most(c, d->doc, TEXT_MOST);
    }
    if (detail) {
        cbor_text(c, "detail");
        cbor_text_most(c, l->detail, TEXT_MOST);
    }
}

/* Of each kind of which there is something. */
static void left_out_list(struct cbor *c)
{
    struct left_out seen[NR_LEFT_OUT];
    unsigned kinds = 0;

    for (unsigned i = 0; i < NR_LEFT_OUT; i++) {
        seen[i] = left_out_read(i);
        kinds += seen[i].amount != 0;
    }
    cbor_text(c, "left_out");
    cbor_array(c, kinds);
    for (unsigned i = 0; i < NR_LEFT_OUT; i++) {
        if (!seen[i].amount)
            continue;
        kinds--;
        left_out_entry(c, &left_out_descs[i], &seen[i],
                       (size_t)(c->end - c->p) >= LEFT_OUT_LONG + kinds * LEFT_OUT_SHORT);
    }
}

/* -- hello: several parts, so that no single one can be too long -- */

/* Where the piece ends that begins at `from`: no UTF-8 letter is in two pieces. */
static size_t args_piece(const char *args, size_t from, size_t length)
{
    size_t most = from ? ARGS_MORE : ARGS_FIRST, end = from + most;

    if (length - from <= most)
        return length;
    while (end > from + most - 3 && ((u8)args[end] & 0xc0) == 0x80)
        end--;
    return end;
}

/* How many parts beyond the first hold the rest of the argument line, all of it if there may be so many. */
static unsigned args_parts(const char *args, size_t length)
{
    size_t at = args_piece(args, 0, length);
    unsigned parts = 0;

    for (; at < length && parts < ARGS_PARTS_MOST; parts++)
        at = args_piece(args, at, length);
    if (at < length)
        left_out(LEFT_OUT_args, length - at, length, NULL);
    return parts;
}

static void hello_machine(struct cbor *c, const struct bootinfo *info)
{
    size_t args = strlen(info->args);

    cbor_map(c, 18);
    pair_uint(c, "protocol", PROTOCOL_VERSION);
    pair_text(c, "kernel", HAYLOFT_VERSION);
    pair_text(c, "git", HAYLOFT_GIT);
    pair_bool(c, "dirty", HAYLOFT_DIRTY);
    pair_text(c, "compiler", HAYLOFT_COMPILER);
    pair_text(c, "flags", HAYLOFT_FLAGS);
    pair_text(c, "variant", HAYLOFT_VARIANT);
    pair_uint(c, "schema", counter_schema_hash());
    pair_text(c, "platform", info->platform);
    pair_text(c, "hypervisor", info->hypervisor ? info->hypervisor : "");
    pair_uint(c, "cpus_found", info->cpus_found);
    pair_uint(c, "memory", info->memory_bytes);
    pair_uint(c, "tsc_hz", plat_cycles_hz());
    pair_bool(c, "tsc_invariant", info->cycles_invariant);
    pair_bool(c, "flags_fault", info->flags_fault);
    pair_uint(c, "tick_hz", kernel_hooks.tick_hz);
    pair_uint(c, "args_bytes", args);
    cbor_text(c, "args");
    cbor_text_n(c, info->args, args_piece(info->args, 0, args));
}

/* The next piece of the argument line; returns where the one after it begins. */
static size_t hello_args(struct cbor *c, const struct bootinfo *info, size_t from)
{
    size_t end = args_piece(info->args, from, strlen(info->args));

    if (c) {
        cbor_map(c, 1);
        cbor_text(c, "args");
        cbor_text_n(c, info->args + from, end - from);
    }
    return end;
}

static void hello_knobs(struct cbor *c)
{
    char value[sizeof(knobs.tests)];

    cbor_map(c, 1);
    cbor_text(c, "knobs");
    cbor_map(c, NR_KNOBS);
    for (unsigned id = 0; id < NR_KNOBS; id++) {
        knob_value_text(&knobs, id, value, sizeof(value));
        pair_text(c, knob_name(id), value);
    }
}

static void hello_cpus(struct cbor *c, const struct bootinfo *info)
{
    unsigned cpu = 0;

    cbor_map(c, 1);
    cbor_text(c, "cpus");
    cbor_array(c, plat_cpu_count());
    for (unsigned i = 0; i < info->cpus && cpu < plat_cpu_count(); i++) {
        if (!info->cpu[i].started)
            continue;
        cbor_array(c, 4);
        cbor_uint(c, cpu);
        cbor_uint(c, info->cpu[i].apic_id);
        cbor_uint(c, heap_cpu_node(kheap, cpu++));
        cbor_int(c, info->cpu[i].tsc_skew);
    }
    CHECK_VALUES(cpu == plat_cpu_count(), cpu, plat_cpu_count());
}

static void hello_refused(struct cbor *c)
{
    unsigned refused = MIN(knob_refused.count, (unsigned)KNOB_REFUSALS);

    cbor_map(c, 1);
    cbor_text(c, "refused");
    cbor_array(c, refused);
    for (unsigned i = 0; i < refused; i++) {
        cbor_array(c, 3);
        cbor_text(c, knob_refused.at[i].argument);
        cbor_text(c, knob_refused.at[i].reason);
        cbor_text(c, knob_refused.at[i].nearest);
    }
}

static void hello_left_out(struct cbor *c)
{
    cbor_map(c, 1);
    left_out_list(c);
}

enum hello_part {
    HELLO_MACHINE,
    HELLO_KNOBS,
    HELLO_CPUS,
    HELLO_REFUSED,
    HELLO_LEFT_OUT,
    HELLO_ARGS, /* and all after it */
};

static void hello_part(struct cbor *c, const struct bootinfo *info, enum hello_part part)
{
    switch (part) {
    case HELLO_MACHINE:
        hello_machine(c, info);
        break;
    case HELLO_KNOBS:
        hello_knobs(c);
        break;
    case HELLO_CPUS:
        hello_cpus(c, info);
        break;
    case HELLO_REFUSED:
        hello_refused(c);
        break;
    default:
        hello_left_out(c);
        break;
    }
}

void telemetry_hello(const struct bootinfo *info)
{
    size_t length = strlen(info->args), at = args_piece(info->args, 0, length);
    unsigned parts = HELLO_ARGS + args_parts(info->args, length);

    for (unsigned part = 0; part < parts; part++) {
        struct cbor *c = boot_begin(RECORD_HELLO, part, parts);

        if (part >= HELLO_ARGS)
            at = hello_args(c, info, at);
        else if (c)
            hello_part(c, info, part);
        if (c)
            boot_end();
    }
}

/* -- schema -- */

static void schema_counter(unsigned id)
{
    const struct counter_desc *d = &counter_descs[id];
    struct cbor *c = boot_begin(RECORD_SCHEMA, 0, 1);

    if (!c)
        return;
    cbor_map(c, 7);
    pair_uint(c, "id", id);
    pair_text(c, "name", d->name);
    pair_text(c, "unit", d->unit);
    pair_text(c, "kind", counter_kind_names[d->kind]);
    pair_text(c, "scope", counter_scope_names[d->scope]);
    pair_text(c, "panel", d->panel);
    pair_text(c, "doc", d->doc);
    boot_end();
}

static void schema_derived(unsigned i)
{
    const struct derived_desc *d = &derived_descs[i];
    struct cbor *c = boot_begin(RECORD_SCHEMA, 0, 1);

    if (!c)
        return;
    cbor_map(c, 8);
    pair_uint(c, "id", NR_COUNTERS + i);
    pair_text(c, "name", d->name);
    pair_text(c, "unit", d->unit);
    pair_text(c, "kind", "derived");
    pair_text(c, "scope", counter_scope_names[d->scope]);
    pair_text(c, "panel", d->panel);
    pair_text(c, "doc", d->doc);
    pair_text(c, "formula", d->formula);
    boot_end();
}

void telemetry_schema(void)
{
    for (unsigned id = 0; id < NR_COUNTERS; id++)
        schema_counter(id);
    for (unsigned i = 0; i < derived_count; i++)
        schema_derived(i);
}

/* -- objects -- */

static void announce_node(unsigned id)
{
    struct cbor *c = boot_begin(RECORD_OBJECT, 0, 1);
    char name[] = {'n', 'o', 'd', 'e', (char)('0' + id / 10 % 10), (char)('0' + id % 10), 0};

    if (!c)
        return;
    if (id < 10) {
        name[4] = name[5];
        name[5] = 0;
    }
    cbor_map(c, 3);
    pair_text(c, "kind", "node");
    pair_uint(c, "id", id);
    pair_text(c, "name", name);
    boot_end();
    sampler_announced(SCOPE_node, id);
}

/* Of the gauges that have one: their name and limit. */
static void limits(struct cbor *c, const u64 limit[NR_CACHE_COUNTERS], unsigned n)
{
    cbor_text(c, "limits");
    cbor_map(c, n);
    for (unsigned id = 0; id < NR_COUNTERS; id++) {
        const struct counter_desc *d = &counter_descs[id];

        if (d->scope == SCOPE_cache && limit[d->index])
            pair_uint(c, d->name, limit[d->index]);
    }
}

static void announce_cache(unsigned id, const struct kmem_cache *cache)
{
    struct cbor *c = boot_begin(RECORD_OBJECT, 0, 1);
    u64 limit[NR_CACHE_COUNTERS] = {0};
    unsigned limited = 0;

    if (!c)
        return;
    cache_gauge_limits(cache, limit);
    for (unsigned i = 0; i < NR_CACHE_COUNTERS; i++)
        limited += limit[i] != 0;
    cbor_map(c, limited ? 9 : 8);
    pair_text(c, "kind", "cache");
    pair_uint(c, "id", id);
    pair_text(c, "name", cache_name(cache));
    pair_uint(c, "size", cache_object_size(cache));
    pair_uint(c, "capacity", cache_front_capacity(cache));
    pair_uint(c, "slab", cache_slab_bytes(cache));
    pair_uint(c, "objects", cache_slab_objects(cache));
    pair_uint(c, "state", cache_state_bytes(cache));
    if (limited)
        limits(c, limit, limited);
    boot_end();
    sampler_announced(SCOPE_cache, id);
}

static void announce_lock(unsigned id, const struct lock_stats *lock)
{
    struct cbor *c = boot_begin(RECORD_OBJECT, 0, 1);

    if (!c)
        return;
    cbor_map(c, 4);
    pair_text(c, "kind", "lock");
    pair_uint(c, "id", id);
    pair_text(c, "name", lock->owner);
    pair_text(c, "class", lock_class_names[lock->class]);
    boot_end();
    sampler_announced(SCOPE_lock, id);
}

void telemetry_announce(void)
{
    unsigned caches = heap_cache_count(kheap), locks = lock_count();

    if (!sampler_knows(SCOPE_node, 0))
        for (unsigned id = 0; id < heap_node_count(kheap); id++)
            announce_node(id);
    for (unsigned id = 0; id < caches; id++) {
        const struct kmem_cache *cache = heap_cache(kheap, id);

        if (cache && !sampler_knows(SCOPE_cache, id))
            announce_cache(id, cache);
    }
    for (unsigned id = 1; id <= locks; id++) {
        struct lock_stats lock = lock_stats(id);

        if (lock.living && !sampler_knows(SCOPE_lock, id))
            announce_lock(id, &lock);
    }
}

static void shortage(struct cbor *c, const struct telemetry_shortage *s)
{
    cbor_text(c, "shortage");
    cbor_map(c, 4);
    pair_uint(c, "round", s->round);
    pair_uint(c, "asked", s->asked);
    pair_uint(c, "held", s->held);
    pair_uint(c, "had", s->had);
}

void telemetry_test(const struct telemetry_test *test)
{
    struct cbor *c = boot_begin(RECORD_OBJECT, 0, 1);

    if (!c)
        return;
    cbor_map(c, 6 + (test->skip != NULL) + (test->shortage != NULL));
    pair_text(c, "kind", "test");
    pair_uint(c, "id", test->id);
    pair_text(c, "name", test->name);
    pair_text(c, "unit", test->unit);
    pair_text(c, "shape", test->all_cpus ? "all-cpus" : "solo");
    pair_uint(c, "cpus", test->cpus);
    if (test->skip)
        pair_text(c, "skip", test->skip);
    if (test->shortage)
        shortage(c, test->shortage);
    boot_end();
}

/* -- bench -- */

struct telemetry_cost telemetry_cost(unsigned cpu)
{
    return (struct telemetry_cost){telemetry_cpu_value(cpu, CPU_telemetry_cycles),
                                   telemetry_cpu_value(cpu, CPU_telemetry_bytes)};
}

void pair_made(struct cbor *c)
{
    cbor_text(c, "made");
    cbor_array(c, NR_RECORD_TYPES);
    for (unsigned type = 0; type < NR_RECORD_TYPES; type++)
        cbor_uint(c, counter_read(&telemetry.boot.made[type]));
}

static void bench_phase(const char *phase, unsigned test, u64 round)
{
    unsigned whole = telemetry.whole_records;
    struct cbor *c = boot_begin(RECORD_BENCH, 0, 1);

    telemetry.whole_records = 0;
    if (!c)
        return;
    cbor_map(c, whole ? 5 : 4);
    pair_text(c, "phase", phase);
    pair_uint(c, "test", test);
    pair_uint(c, "round", round);
    pair_made(c);
    if (whole)
        pair_uint(c, "whole", whole);
    boot_end();
}

void telemetry_bench_begin(unsigned test, u64 round)
{
    bench_phase("begin", test, round);
}

void telemetry_bench_end(unsigned test, u64 round)
{
    bench_phase("end", test, round);
}

static void yardsticks(struct cbor *c, const struct telemetry_result *result)
{
    cbor_text(c, "yardstick");
    cbor_array(c, result->cpus);
    for (unsigned i = 0; i < result->cpus; i++) {
        cbor_array(c, 3);
        cbor_uint(c, result->part[i].cpu);
        cbor_uint(c, result->part[i].yardstick[0]);
        cbor_uint(c, result->part[i].yardstick[1]);
    }
}

void telemetry_bench_result(const struct telemetry_result *result)
{
    struct cbor *c = boot_begin(RECORD_BENCH, 0, 1);

    if (!c)
        return;
    cbor_map(c, result->part[0].yardstick[0] ? 13 : 12);
    pair_text(c, "phase", "result");
    pair_uint(c, "test", result->test);
    pair_uint(c, "round", result->round);
    pair_uint(c, "operations", result->operations);
    pair_uint(c, "cycles", result->cycles);
    pair_uint(c, "wall", result->wall);
    cbor_text(c, "cpus");
    cbor_array(c, result->cpus);
    for (unsigned i = 0; i < result->cpus; i++) {
        const struct telemetry_part *part = &result->part[i];

        cbor_array(c, 5);
        cbor_uint(c, part->cpu);
        cbor_uint(c, part->ran_on);
        cbor_uint(c, part->operations);
        cbor_uint(c, part->cycles);
        cbor_uint(c, part->start_offset);
    }
    cbor_text(c, "counted");
    cbor_array(c, 2);
    cbor_uint(c, result->counted[0]);
    cbor_uint(c, result->counted[1]);
    cbor_text(c, "claimed");
    cbor_array(c, 2);
    cbor_uint(c, result->claimed[0]);
    cbor_uint(c, result->claimed[1]);
    pair_uint(c, "n", result->n);
    pair_made(c);
    if (result->part[0].yardstick[0])
        yardsticks(c, result);
    cbor_text(c, "telemetry");
    cbor_array(c, telemetry.cpus);
    for (unsigned cpu = 0; cpu < telemetry.cpus; cpu++) {
        cbor_array(c, 3);
        cbor_uint(c, cpu);
        cbor_uint(c, result->cost[cpu].cycles);
        cbor_uint(c, result->cost[cpu].bytes);
    }
    boot_end();
}

/* -- checks and the end -- */

void telemetry_check(const char *name, const char *when, bool ok, const char *detail,
                     const struct telemetry_value *values, unsigned n)
{
    struct cbor *c = boot_begin(RECORD_CHECK, 0, 1);

    if (!c)
        return;
    cbor_map(c, 5);
    pair_text(c, "name", name);
    pair_text(c, "when", when);
    pair_bool(c, "ok", ok);
    pair_text(c, "detail", detail);
    cbor_text(c, "values");
    cbor_map(c, n);
    for (unsigned i = 0; i < n; i++) {
        cbor_text(c, values[i].name);
        cbor_int(c, values[i].value);
    }
    boot_end();
}

static void stream_totals(struct cbor *c, const struct ring *r, u64 extra)
{
    cbor_array(c, 3);
    cbor_uint(c, r->stream);
    cbor_uint(c, counter_read(&r->sequence) + extra);
    cbor_uint(c, counter_read(&r->lost));
}

/* Totals include the bye itself. */
void bye_body(struct cbor *c, const char *outcome, const char *reason)
{
    u64 cycles = 0, records = 0;

    cbor_map(c, 6);
    pair_text(c, "outcome", outcome);
    pair_text(c, "reason", reason);
    pair_made(c);
    cbor_text(c, "totals");
    cbor_array(c, telemetry.cpus + 1);
    for (unsigned cpu = 0; cpu < telemetry.cpus; cpu++) {
        stream_totals(c, &telemetry.cpu[cpu], 0);
        cycles += telemetry_cpu_value(cpu, CPU_telemetry_cycles);
        records += telemetry_cpu_value(cpu, CPU_telemetry_records);
    }
    stream_totals(c, &telemetry.boot, 1);
    cbor_text(c, "telemetry");
    cbor_map(c, 3);
    pair_uint(c, "cycles", cycles);
    pair_uint(c, "bytes", counter_read(&telemetry.drain.bytes));
    pair_uint(c, "records", records);
    left_out_list(c);
}

void telemetry_bye(const char *outcome, const char *reason)
{
    struct cbor *c;

    telemetry_sampling(false);
    telemetry_flush();
    c = boot_begin(RECORD_BYE, 0, 1);
    if (c) {
        bye_body(c, outcome, reason);
        boot_end();
    }
    telemetry_flush();
    __atomic_store_n(&telemetry.active, false, __ATOMIC_SEQ_CST);
}

/* -- events -- */

void telemetry_event(const char *kind, const char *text, const struct telemetry_value *values,
                     unsigned n)
{
    unsigned long flags;
    struct ring *r;
    struct cbor *c;

    if (!__atomic_load_n(&telemetry.active, __ATOMIC_ACQUIRE))
        return;
    if (n > EVENT_VALUES)
        left_out(LEFT_OUT_event_values, n - EVENT_VALUES, 0, kind);
    n = MIN(n, EVENT_VALUES);
    flags = plat_irq_save();
    r = &telemetry.cpu[plat_cpu_id()];
    while (!ring_try_enter(r))
        plat_relax();
    c = record_begin(r, RECORD_EVENT, 0, 1);
    if (c) {
        cbor_map(c, 3);
        pair_text(c, "kind", kind);
        cbor_text(c, "text");
        cbor_text_most(c, text, TEXT_MOST);
        cbor_text(c, "values");
        cbor_map(c, n);
        for (unsigned i = 0; i < n; i++)
            pair_uint(c, values[i].name, (u64)values[i].value);
        record_end(r);
    }
    ring_leave(r);
    plat_irq_restore(flags);
}

/* -- the tick, and the switches -- */

/* What telemetry itself counts of a CPU. CPU 0 also makes the boot's records and drains. */
u64 telemetry_cpu_value(unsigned cpu, enum cpu_counter counter)
{
    const struct ring *r = &telemetry.cpu[cpu], *boot = &telemetry.boot;

    switch (counter) {
    case CPU_telemetry_cycles:
        return counter_read(&r->cycles) + (cpu ? 0 : counter_read(&telemetry.drain.cycles));
    case CPU_telemetry_bytes:
        return cpu ? 0 : counter_read(&telemetry.drain.bytes);
    case CPU_telemetry_records:
        return counter_read(&r->records) + (cpu ? 0 : counter_read(&boot->records));
    case CPU_telemetry_dropped:
        return counter_read(&r->lost) + (cpu ? 0 : counter_read(&boot->lost));
    default:
        return 0;
    }
}

/* Inside a timed section nothing is moved for the first second, unless a ring fills: a usual round
 * is shorter, and so pays for making records but not for sending them. A longer one sends a little
 * at a time. */
static void tick_drain(u64 now)
{
    bool timed = __atomic_load_n(&telemetry.timed, __ATOMIC_RELAXED);

    if (timed && now - counter_read(&telemetry.timed_since) < plat_cycles_hz() && !any_filling())
        return;
    if (!all_empty())
        telemetry_drain(timed ? TICK_BYTES_TIMED : TICK_BYTES);
}

void telemetry_tick(unsigned cpu)
{
    struct ring *r;
    u64 now;

    if (!__atomic_load_n(&telemetry.active, __ATOMIC_ACQUIRE))
        return;
    r = &telemetry.cpu[cpu];
    now = plat_cycles();
    if (__atomic_load_n(&telemetry.sampling, __ATOMIC_RELAXED) && sampler_due(cpu, now) &&
        ring_try_enter(r)) {
        if (__atomic_load_n(&telemetry.sampling, __ATOMIC_SEQ_CST)) {
            sampler_tick(cpu, now);
            plat_counter_add(&r->cycles, plat_cycles() - now);
        }
        ring_leave(r);
    }
    if (cpu == 0)
        tick_drain(now);
}

void telemetry_sampling(bool on)
{
    __atomic_store_n(&telemetry.sampling, on, __ATOMIC_SEQ_CST);
    for (unsigned cpu = 0; !on && cpu < telemetry.cpus; cpu++)
        while (__atomic_load_n(&telemetry.cpu[cpu].busy, __ATOMIC_SEQ_CST))
            plat_relax();
}

void telemetry_timed(bool on)
{
    __atomic_store_n(&telemetry.timed_since, plat_cycles(), __ATOMIC_RELAXED);
    __atomic_store_n(&telemetry.timed, on, __ATOMIC_SEQ_CST);
}
