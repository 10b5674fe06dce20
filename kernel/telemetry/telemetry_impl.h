/* telemetry_impl.h: what the files of kernel/telemetry/ share: rings and the frames in them. */
#ifndef KERNEL_TELEMETRY_IMPL_H
#define KERNEL_TELEMETRY_IMPL_H

#include "telemetry.h"
#include "../../base/cbor.h"
#include "../../base/cobs.h"
#include "../../base/fmt.h"

enum record_type {
    RECORD_HELLO,
    RECORD_SCHEMA,
    RECORD_OBJECT,
    RECORD_SAMPLE,
    RECORD_BENCH,
    RECORD_CHECK,
    RECORD_EVENT,
    RECORD_LOST,
    RECORD_PANIC,
    RECORD_BYE,
    RECORD_LATENCY,
    RECORD_MATRIX,
    NR_RECORD_TYPES,
};

#define PROTOCOL_VERSION 1u
#define PAYLOAD_MAX      4000u /* docs/PROTOCOL.md; the boot's stream */
#define CPU_PAYLOAD_MAX  1000u /* a CPU's stream: made in an interrupt, so kept short */
#define BOOT_RING_BYTES  65536u
#define CPU_RING_BYTES   16384u /* both: powers of two, so that free-running offsets wrap well */
#define HEADER_MAX       64u    /* bytes of a payload before its body, with room to spare */

/* Delimiter, COBS of payload and CRC, delimiter. */
#define FRAME_MAX(payload) (COBS_MAX((payload) + 4u) + 2u)

/* One stream. Frames lie in `frames` one after the other, each after its length in two bytes; head
 * and tail run freely and are taken modulo the size. */
struct ring {
    /* fixed after init */
    u8 *frames, *payload, *wire;
    u32 size, payload_max;
    unsigned stream;

    /* the producer: whoever holds busy (a CPU's ring), or the lab thread (the boot's ring) */
    u32 busy ALIGNED(CACHE_LINE); /* try-flag; atomic */
    u32 head;                     /* atomic: release by the producer, acquire by the drain */
    struct cbor body;
    enum record_type type;     /* of the record that is being made */
    u64 made[NR_RECORD_TYPES]; /* of sequence, by type; read by any, relaxed */
    u64 sequence;              /* of the next record: how many were offered; read by any, relaxed */
    u64 last_time;             /* of the record before: time never falls */
    u64 lost;                  /* records dropped since boot; read by any, relaxed */
    u64 lost_new;              /* of these, not yet told by a lost record */
    u64 lost_from, lost_to;
    u64 cycles;  /* spent making records; read by any, relaxed */
    u64 records; /* made; read by any, relaxed */

    /* the drain */
    u32 tail ALIGNED(CACHE_LINE); /* atomic: release by the drain, acquire by the producer */
    u32 sent;                     /* bytes of the frame at tail that are out */
};

/* The state of the port, written by whoever holds busy. */
struct drain {
    u32 busy;             /* try-flag; atomic */
    struct ring *current; /* a frame of it is partly out, so it goes first */
    unsigned next;        /* CPU whose ring is looked at next */
    u64 bytes, cycles;    /* read by any, relaxed */
};

struct telemetry {
    unsigned cpus; /* rings; 0 before init */
    struct ring boot;
    struct ring *cpu; /* by CPU */
    struct drain drain;
    bool active ALIGNED(CACHE_LINE); /* atomic; false before init and after the last word */
    bool sampling;                   /* atomic */
    bool timed;                      /* atomic */
    u64 timed_since;                 /* atomic; cycles */

    /* the lab thread */
    unsigned begun; /* rounds, for telemetry_full_sample() */
    unsigned
        whole_records; /* records of the complete sample that was made last; 0: told, or none */
};
extern struct telemetry telemetry; /* ring.c */

/* -- ring.c -- */
NODISCARD bool ring_init(struct ring *r, unsigned stream);
bool ring_try_enter(struct ring *r);
void ring_leave(struct ring *r);
/* For what record_begin() will want: the longest record, and before it what tells of a loss. Producer. */
bool ring_has_room(const struct ring *r);
bool ring_empty(const struct ring *r);
/* Starts a record in the ring's own buffer and returns where its body goes; NULL if there is no
 * room: the record is counted as lost. First tells of earlier losses, if there is room for both.
 * Producer. */
struct cbor *record_begin(struct ring *r, enum record_type type, unsigned part, unsigned parts);
/* Ends it and puts it into the ring, where room is certain. Returns the frame's length. A body that
 * overflowed is a mistake of its writer: a CHECK. */
size_t record_end(struct ring *r);
/* The same into wire[] of FRAME_MAX(payload) bytes, for the last words, which use no ring. */
size_t frame_encode(u8 *wire, size_t size, u8 *payload, size_t n);
/* The elements before the body. */
void record_header(struct cbor *c, enum record_type type, unsigned stream, u64 sequence, u64 time,
                   unsigned part, unsigned parts);
/* The frame at tail, copied out whole; 0 if there is none. Drain. */
size_t ring_peek(const struct ring *r, u8 *frame, size_t size);
void ring_pop(struct ring *r);
u64 telemetry_cpu_value(unsigned cpu,
                        enum cpu_counter counter); /* telemetry's own counters of a CPU */

/* -- records.c -- */
/* A record of the boot's stream: waits for room. NULL (and a loss counted) if the port is stuck. */
struct cbor *boot_begin(enum record_type type, unsigned part, unsigned parts);
void boot_end(void);
void bye_body(struct cbor *c, const char *outcome, const char *reason);
/* The pair that lets a reader know what it did not get: how many records of each type the boot's
 * stream has had, lost ones included, before the one that is being made. */
void pair_made(struct cbor *c);

/* -- sample.c -- */
NODISCARD bool sampler_init(unsigned cpus);
void sampler_announced(enum counter_scope scope, unsigned id);
bool sampler_knows(enum counter_scope scope, unsigned id);
void sampler_tick(unsigned cpu, u64 now); /* with the ring entered */
bool sampler_due(unsigned cpu, u64 now);

/* Memory for good, zeroed, at init. */
NODISCARD void *telemetry_memory(size_t bytes);

static inline u32 ring_head(const struct ring *r)
{
    return __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);
}
static inline u32 ring_tail(const struct ring *r)
{
    return __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
}

/* -- a map's pairs -- */

static inline void pair_text(struct cbor *c, const char *key, const char *value)
{
    cbor_text(c, key);
    cbor_text(c, value);
}

/* At most so many bytes, 20 to 200 of them; a text that had to be cut says so at its end. */
#define TEXT_MOST 200u
static inline void cbor_text_most(struct cbor *c, const char *text, size_t most)
{
    char cut[TEXT_MOST + 1];

    CHECK_VALUES(most <= TEXT_MOST, most, TEXT_MOST);
    fmt_mark_cut(cut, most + 1, fmt(cut, most + 1, "%s", text));
    cbor_text(c, cut);
}

static inline void pair_uint(struct cbor *c, const char *key, u64 value)
{
    cbor_text(c, key);
    cbor_uint(c, value);
}

#endif
