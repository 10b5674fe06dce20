/* last.c: the last words of a boot that does not end as it should: a panic's record, or an early
 * bye.
 *
 * The idea: whoever held the port or a ring may never run again, so nothing is asked and nothing is
 * waited for (an early bye gives a drain on another CPU ten milliseconds to finish its frame). The
 * port is simply taken: telemetry is made inactive, which stops everybody else before their next
 * frame, and bytes are offered by polling. A frame that was partly out is begun anew after a zero,
 * so that its torn half costs the reader one damaged segment and no record. What the rings hold
 * follows a panic's record, and precedes an early bye.
 *
 * Where the other CPUs cannot be stopped (kernel_hooks.cpus_run_on), whoever drains is between two of its
 * instructions and will go on: two would then read, send and pop the same frame. So there the drain's flag is
 * waited for, for as long as the last word may take. If it is not had, only the last word is sent
 * and the rings are left to whoever has them; and only one last word is in the making at a time.
 *
 * Deliberately not here: stopping the other CPUs, printing, ending the machine. Those are the
 * callers'.
 *
 * Locking: none taken, on purpose; try-flags, for a bounded time (docs/RACES.md 2.25). Contexts: any;
 * telemetry_panic() also NMI and before telemetry_init(). Static buffers: of the CPUs that run, only one
 * comes past speak(). */
#include "telemetry_impl.h"
#include "../../base/guard.h"
#include "../../base/string.h"

#define GIVE_UP_MS      2000u
#define NEIGHBOUR_MS    10u
#define HERE_FRAMES     16u  /* of this CPU's backtrace; the console has all */
#define OTHER_FRAMES    8u   /* of another CPU's backtrace */
#define OTHER_BYTES_MAX 600u /* room that one CPU's backtrace needs at most */
#define LEFT_OUT_BYTES  40u  /* and what tells of those for which there was none */
#define SYMBOL_MAX      48u

/* Whose the port and the rings are. */
enum hold {
    HOLD_OURS,
    HOLD_STOPPED, /* taken from somebody who will not run again: a frame of his may be half out */
    HOLD_OTHERS,  /* somebody has them who runs */
};

static u32 speaking; /* try-flag, atomic: a last word is in the making */
static u8 last_payload[PAYLOAD_MAX + 4];
static u8 last_wire[FRAME_MAX(PAYLOAD_MAX)];

#define HZ_UNKNOWN 4000000000ul /* before the clock's rate is known: no less than a machine's */

static u64 deadline_after(u64 ms)
{
    u64 hz = plat_cycles_hz();

    return plat_cycles() + (hz ? hz : HZ_UNKNOWN) / 1000 * ms;
}

static bool try_flag(u32 *flag, u64 until)
{
    while (__atomic_exchange_n(flag, 1, __ATOMIC_SEQ_CST)) {
        if (plat_cycles() > until)
            return false;
        plat_relax();
    }
    return true;
}

/* False: another CPU, which runs, is saying a last word. */
static bool speak(u64 until)
{
    bool ours = try_flag(&speaking, kernel_hooks.cpus_run_on ? until : 0);

    return ours || !kernel_hooks.cpus_run_on;
}

static void fall_silent(enum hold hold)
{
    if (hold == HOLD_OURS)
        __atomic_store_n(&telemetry.drain.busy, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&speaking, 0, __ATOMIC_RELEASE);
}

/* Nobody else drains any more, once telemetry is inactive. patience: until when to wait for a neighbour that was
 * perhaps stopped. */
static enum hold take_port(u64 patience, u64 until)
{
    if (GUARD_STEP(80) &&
        try_flag(&telemetry.drain.busy, kernel_hooks.cpus_run_on ? until : patience))
        return HOLD_OURS;
    return kernel_hooks.cpus_run_on && GUARD_STEP(81) ? HOLD_OTHERS : HOLD_STOPPED;
}

static bool poll_write(const u8 *bytes, size_t n, u64 until)
{
    while (n) {
        size_t took = plat_sink_write(bytes, n);

        bytes += took;
        n -= took;
        if (!took && plat_cycles() > until)
            return false;
        if (!took)
            plat_relax();
    }
    return true;
}

static void poll_ring(struct ring *r, u64 until)
{
    size_t n;

    while ((n = ring_peek(r, last_wire, sizeof(last_wire))) != 0) {
        if (!poll_write(last_wire + r->sent, n - r->sent, until))
            return;
        ring_pop(r);
    }
}

static void poll_rings(u64 until)
{
    if (!telemetry.cpus)
        return;
    poll_ring(&telemetry.boot, until);
    for (unsigned cpu = 0; cpu < telemetry.cpus; cpu++)
        poll_ring(&telemetry.cpu[cpu], until);
}

/* After a zero, a frame that was partly out is begun anew, if its ring is ours to touch. */
static void restart_torn_frame(enum hold hold, u64 until)
{
    static const u8 zero;

    poll_write(&zero, 1, until);
    if (!telemetry.cpus || hold == HOLD_OTHERS)
        return;
    telemetry.boot.sent = 0;
    for (unsigned cpu = 0; cpu < telemetry.cpus; cpu++)
        telemetry.cpu[cpu].sent = 0;
}

static struct cbor last_begin(enum record_type type)
{
    struct cbor c;

    cbor_init(&c, last_payload, PAYLOAD_MAX);
    record_header(&c, type, TELEMETRY_BOOT_STREAM, counter_read(&telemetry.boot.sequence),
                  MAX(plat_cycles(), counter_read(&telemetry.boot.last_time)), 0, 1);
    return c;
}

static void last_send(const struct cbor *c, u64 until)
{
    size_t n = (size_t)(c->p - last_payload);

    if (!c->overflow)
        poll_write(last_wire, frame_encode(last_wire, sizeof(last_wire), last_payload, n), until);
}

/* -- an early bye -- */

void telemetry_emergency_bye(const char *outcome, const char *reason)
{
    u64 until = deadline_after(GIVE_UP_MS);
    enum hold hold;
    struct cbor c;

    /* Inactive with rings: the last word was said. Inactive without: the boot ended before
     * telemetry began. */
    if (!__atomic_exchange_n(&telemetry.active, false, __ATOMIC_SEQ_CST) && telemetry.cpus)
        return;
    if (!speak(until))
        return;
    hold = take_port(deadline_after(NEIGHBOUR_MS), until);
    until = deadline_after(GIVE_UP_MS);
    if (hold != HOLD_OURS)
        restart_torn_frame(hold, until);
    else if (telemetry.drain.current)
        poll_ring(telemetry.drain.current, until);
    if (hold != HOLD_OTHERS)
        poll_rings(until);
    c = last_begin(RECORD_BYE);
    bye_body(&c, outcome, reason);
    last_send(&c, until);
    fall_silent(hold);
}

/* -- a panic -- */

static void key(struct cbor *c, const char *name)
{
    cbor_text(c, name);
}

static void put_text(struct cbor *c, const char *s, size_t max)
{
    cbor_text_most(c, s ? s : "", max);
}

/* Returns how many of them there was no room for. */
static unsigned put_frames(struct cbor *c, const struct telemetry_backtrace *b, unsigned max)
{
    unsigned n = MIN(b->frames, max);

    cbor_array(c, n);
    for (unsigned i = 0; i < n; i++) {
        cbor_array(c, 3);
        cbor_uint(c, b->frame[i].address);
        put_text(c, b->frame[i].symbol, SYMBOL_MAX);
        cbor_uint(c, b->frame[i].offset);
    }
    return b->frames - n;
}

/* How many of the other CPUs' backtraces surely fit into what is left. */
static unsigned others_that_fit(const struct cbor *c, const struct telemetry_panic *p)
{
    size_t left = c->overflow ? 0 : (size_t)(c->end - c->p);

    left -= MIN(left, (size_t)LEFT_OUT_BYTES);
    return (unsigned)MIN((size_t)p->others, left / OTHER_BYTES_MAX);
}

static void panic_body(struct cbor *c, const struct telemetry_panic *p)
{
    const struct panic_info *info = p->info;
    unsigned kind = info->kind < NR_PANIC_KINDS ? info->kind : 0, others, frames;

    cbor_map(c, 11);
    key(c, "kind");
    cbor_uint(c, info->kind);
    key(c, "name");
    put_text(c, panic_kind_names[kind], 64);
    key(c, "text");
    put_text(c, info->text, 200);
    key(c, "file");
    put_text(c, info->file, 100);
    key(c, "line");
    cbor_int(c, info->line);
    key(c, "values");
    cbor_array(c, ARRAY_SIZE(info->value));
    for (unsigned i = 0; i < ARRAY_SIZE(info->value); i++)
        cbor_uint(c, info->value[i]);
    key(c, "cpu");
    cbor_uint(c, p->here.cpu);
    key(c, "registers");
    cbor_map(c, p->regs);
    for (unsigned i = 0; i < p->regs; i++) {
        key(c, p->reg[i].name);
        cbor_uint(c, p->reg[i].value);
    }
    key(c, "backtrace");
    frames = put_frames(c, &p->here, HERE_FRAMES);
    key(c, "others");
    others = others_that_fit(c, p);
    cbor_array(c, others);
    for (unsigned i = 0; i < others; i++) {
        cbor_array(c, 2);
        cbor_uint(c, p->other[i].cpu);
        frames += put_frames(c, &p->other[i], OTHER_FRAMES);
    }
    key(c, "left_out");
    cbor_map(c, 2);
    key(c, "cpus");
    cbor_uint(c, p->others - others);
    key(c, "frames");
    cbor_uint(c, frames);
}

void telemetry_panic(const struct telemetry_panic *panic)
{
    u64 until = deadline_after(GIVE_UP_MS);
    enum hold hold;
    struct cbor c;

    __atomic_store_n(&telemetry.active, false, __ATOMIC_SEQ_CST);
    if (!speak(until))
        return;
    hold = take_port(0, until);
    until = deadline_after(GIVE_UP_MS);
    restart_torn_frame(hold, until);
    c = last_begin(RECORD_PANIC);
    panic_body(&c, panic);
    last_send(&c, until);
    if (hold != HOLD_OTHERS)
        poll_rings(until);
    fall_silent(hold);
}
