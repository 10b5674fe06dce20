/* ring.c: rings of whole frames, one a stream, and the drain that empties them into the port.
 *
 * The idea: two CPUs never share a frame. A record is made in its ring's own buffers (payload, then
 * the frame on the wire) and copied into the ring as one piece; only then is head moved, so the
 * drain sees whole frames only. Room is looked for before a record is begun, for the longest one
 * there can be: once begun it cannot fail, so a sampler may note values as sent while it writes
 * them. Without room the record is dropped and counted with its time; the next one that finds room
 * is preceded by a `lost` record that tells of it.
 *
 * What it does not do: wait (records.c does, for the boot's stream), or know what a record means.
 *
 * Locking: no spinlocks. ring.busy: a try-flag for the producers of a CPU's ring. On metal those
 * are this CPU with interrupts off, so it is never found taken; on the host the timer thread and
 * the CPU's own thread may meet, and the latter spins for the length of a record. drain.busy: a
 * try-flag; whoever finds it taken goes on.
 * Contexts: thread, interrupt, the host's timer thread; never NMI. */
#include "telemetry_impl.h"
#include "../../base/crc32.h"
#include "../../base/string.h"

struct telemetry telemetry;

/* -- frames -- */

void record_header(struct cbor *c, enum record_type type, unsigned stream, u64 sequence, u64 time,
                   unsigned part, unsigned parts)
{
    cbor_array(c, 7);
    cbor_uint(c, type);
    cbor_uint(c, stream);
    cbor_uint(c, sequence);
    cbor_uint(c, time);
    cbor_uint(c, part);
    cbor_uint(c, parts);
}

size_t frame_encode(u8 *wire, size_t size, u8 *payload, size_t n)
{
    u32 crc = crc32(0, payload, n);
    size_t block;

    for (unsigned i = 0; i < 4; i++)
        payload[n + i] = (u8)(crc >> 8 * i);
    block = cobs_encode(wire + 1, size - 2, payload, n + 4);
    CHECK_VALUES(block != COBS_BAD, n, size);
    wire[0] = 0;
    wire[1 + block] = 0;
    return block + 2;
}

/* -- the ring as bytes: positions run freely -- */

static void ring_put(struct ring *r, u32 at, const void *from, size_t n)
{
    u32 offset = at & (r->size - 1);
    size_t first = MIN(n, (size_t)(r->size - offset));

    memcpy(r->frames + offset, from, first);
    memcpy(r->frames, (const u8 *)from + first, n - first);
}

static void ring_get(const struct ring *r, u32 at, void *to, size_t n)
{
    u32 offset = at & (r->size - 1);
    size_t first = MIN(n, (size_t)(r->size - offset));

    memcpy(to, r->frames + offset, first);
    memcpy((u8 *)to + first, r->frames, n - first);
}

static u32 frame_length(const struct ring *r, u32 at)
{
    u8 length[2];

    ring_get(r, at, length, 2);
    return length[0] | (u32)length[1] << 8;
}

bool ring_empty(const struct ring *r)
{
    return ring_head(r) == ring_tail(r);
}

static size_t room(const struct ring *r)
{
    return r->size - (ring_head(r) - ring_tail(r));
}

/* What the next record may take: a loss is told first, and the record must fit after that. */
static size_t room_needed(const struct ring *r)
{
    size_t one = FRAME_MAX(r->payload_max) + 2;

    return r->lost_new ? 2 * one : one;
}

bool ring_has_room(const struct ring *r)
{
    return room(r) >= room_needed(r);
}

bool ring_try_enter(struct ring *r)
{
    return __atomic_exchange_n(&r->busy, 1, __ATOMIC_SEQ_CST) == 0;
}

void ring_leave(struct ring *r)
{
    __atomic_store_n(&r->busy, 0, __ATOMIC_RELEASE);
}

/* -- records -- */

static u64 record_time(struct ring *r)
{
    u64 now = plat_cycles();

    r->last_time = MAX(now, r->last_time);
    return r->last_time;
}

static void start(struct ring *r, enum record_type type, unsigned part, unsigned parts)
{
    r->type = type;
    cbor_init(&r->body, r->payload, r->payload_max);
    record_header(&r->body, type, r->stream, r->sequence, record_time(r), part, parts);
}

static void note_lost(struct ring *r, enum record_type type)
{
    u64 now = record_time(r);

    if (!r->lost_new++)
        r->lost_from = now;
    r->lost_to = now;
    plat_counter_add(&r->lost, 1);
    plat_counter_add(&r->made[type], 1);
    plat_counter_add(&r->sequence, 1); /* it was offered: the gap shows the loss */
}

static void tell_lost(struct ring *r)
{
    struct cbor *c = &r->body;

    start(r, RECORD_LOST, 0, 1);
    cbor_map(c, 4);
    cbor_text(c, "stream");
    cbor_uint(c, r->stream);
    cbor_text(c, "count");
    cbor_uint(c, r->lost_new);
    cbor_text(c, "from");
    cbor_uint(c, r->lost_from);
    cbor_text(c, "to");
    cbor_uint(c, r->lost_to);
    r->lost_new = 0;
    record_end(r);
}

struct cbor *record_begin(struct ring *r, enum record_type type, unsigned part, unsigned parts)
{
    if (!ring_has_room(r)) {
        note_lost(r, type);
        return NULL;
    }
    if (r->lost_new)
        tell_lost(r);
    start(r, type, part, parts);
    return &r->body;
}

size_t record_end(struct ring *r)
{
    u32 head = __atomic_load_n(&r->head, __ATOMIC_RELAXED); /* ours */
    size_t n = (size_t)(r->body.p - r->payload);
    size_t length;
    u8 prefix[2];

    CHECK_VALUES(!r->body.overflow, r->stream, n);
    length = frame_encode(r->wire, FRAME_MAX(r->payload_max), r->payload, n);
    prefix[0] = (u8)length;
    prefix[1] = (u8)(length >> 8);
    ring_put(r, head, prefix, 2);
    ring_put(r, head + 2, r->wire, length);
    plat_counter_add(&r->made[r->type], 1);
    plat_counter_add(&r->sequence, 1);
    plat_counter_add(&r->records, 1);
    __atomic_store_n(&r->head, head + 2 + (u32)length, __ATOMIC_RELEASE);
    return length;
}

/* -- the drain -- */

size_t ring_peek(const struct ring *r, u8 *frame, size_t size)
{
    u32 tail = ring_tail(r), length;

    if (ring_head(r) == tail)
        return 0;
    length = frame_length(r, tail);
    if (length > size)
        return 0;
    ring_get(r, tail + 2, frame, length);
    return length;
}

void ring_pop(struct ring *r)
{
    u32 tail = ring_tail(r);

    r->sent = 0;
    __atomic_store_n(&r->tail, tail + 2 + frame_length(r, tail), __ATOMIC_RELEASE);
}

/* Offers the rest of the frame at tail, at most `budget` bytes. Returns how many the port took. */
static size_t drain_frame(struct ring *r, size_t budget)
{
    u32 tail = ring_tail(r);
    u32 length = frame_length(r, tail);
    size_t moved = 0;

    while (r->sent < length && moved < budget) {
        u32 offset = (tail + 2 + r->sent) & (r->size - 1);
        size_t piece =
            MIN(MIN((size_t)(length - r->sent), (size_t)(r->size - offset)), budget - moved);
        size_t took = plat_sink_write(r->frames + offset, piece);

        r->sent += (u32)took;
        moved += took;
        if (took < piece)
            break;
    }
    if (r->sent == length)
        ring_pop(r);
    return moved;
}

/* The frame in the middle of which the last call stopped, else the boot's stream (it names what the
 * others refer to), else the CPUs' in turn. */
static struct ring *drain_choose(struct drain *d)
{
    if (d->current)
        return d->current;
    if (!ring_empty(&telemetry.boot))
        return &telemetry.boot;
    for (unsigned i = 0; i < telemetry.cpus; i++) {
        struct ring *r = &telemetry.cpu[(d->next + i) % telemetry.cpus];

        if (!ring_empty(r)) {
            d->next = (d->next + i + 1) % telemetry.cpus;
            return r;
        }
    }
    return NULL;
}

void telemetry_drain(size_t bytes)
{
    struct drain *d = &telemetry.drain;
    size_t moved = 0;
    u64 from;

    if (!__atomic_load_n(&telemetry.active, __ATOMIC_ACQUIRE))
        return;
    if (__atomic_exchange_n(&d->busy, 1, __ATOMIC_SEQ_CST))
        return;
    from = plat_cycles();
    while (moved < bytes && __atomic_load_n(&telemetry.active, __ATOMIC_SEQ_CST)) {
        struct ring *r = drain_choose(d);
        size_t n;

        if (!r)
            break;
        n = drain_frame(r, bytes - moved);
        d->current = r->sent ? r : NULL;
        moved += n;
        if (r->sent || n == 0)
            break; /* the port is full, or the budget spent */
    }
    if (moved) {
        plat_counter_add(&d->bytes, moved);
        plat_counter_add(&d->cycles, plat_cycles() - from);
    }
    __atomic_store_n(&d->busy, 0, __ATOMIC_RELEASE);
}

/* -- the line, for text -- */

bool telemetry_line_take(void)
{
    struct drain *d = &telemetry.drain;
    u64 from = plat_cycles();

    if (__atomic_exchange_n(&d->busy, 1, __ATOMIC_SEQ_CST))
        return false;
    /* A frame that is half out is finished first; a port that takes nothing for a tenth of a second
     * is given up on, and the frame then counts as damaged. */
    while (d->current && plat_cycles() - from < plat_cycles_hz() / 10) {
        drain_frame(d->current, SIZE_MAX);
        if (!d->current->sent)
            d->current = NULL;
    }
    return true;
}

void telemetry_line_give(void)
{
    __atomic_store_n(&telemetry.drain.busy, 0, __ATOMIC_RELEASE);
}

/* -- init -- */

void *telemetry_memory(size_t bytes)
{
    unsigned order = 0;
    void *p;

    while ((PAGE_SIZE << order) < bytes)
        order++;
    p = order <= MAX_ORDER ? alloc_pages(kheap, order) : NULL;
    if (p)
        memset(p, 0, bytes);
    return p;
}

bool ring_init(struct ring *r, unsigned stream)
{
    bool boot = stream == TELEMETRY_BOOT_STREAM;
    size_t payload, wire;

    r->stream = stream;
    r->size = boot ? BOOT_RING_BYTES : CPU_RING_BYTES;
    r->payload_max = boot ? PAYLOAD_MAX : CPU_PAYLOAD_MAX;
    payload = round_up((size_t)r->payload_max + 4, (size_t)CACHE_LINE); /* the CRC goes behind it */
    wire = FRAME_MAX(r->payload_max);
    r->frames = telemetry_memory(r->size + payload + wire);
    if (!r->frames)
        return false;
    r->payload = r->frames + r->size;
    r->wire = r->payload + payload;
    return true;
}

bool telemetry_init(void)
{
    unsigned cpus = plat_cpu_count();

    memset(&telemetry, 0, sizeof(telemetry)); /* tests begin anew */
    telemetry.cpu = telemetry_memory(cpus * sizeof(*telemetry.cpu));
    if (!telemetry.cpu || !ring_init(&telemetry.boot, TELEMETRY_BOOT_STREAM))
        return false;
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        if (!ring_init(&telemetry.cpu[cpu], cpu))
            return false;
    if (!sampler_init(cpus))
        return false;
    telemetry.cpus = cpus;
    __atomic_store_n(&telemetry.active, true, __ATOMIC_RELEASE);
    return true;
}
