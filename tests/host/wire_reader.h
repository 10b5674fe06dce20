/* wire_reader.h: a reader of telemetry bytes for test_telemetry.c, written from docs/PROTOCOL.md
 * and sharing nothing with the writer but COBS and CRC: zero-delimited blocks, then just enough
 * CBOR. Records land in got[], the values of samples in seen[] by (scope, instance, cpu, id).
 *
 * The port is one end of a socket pair, so that the tests decide how much it takes. */
#ifndef TESTS_HOST_WIRE_READER_H
#define TESTS_HOST_WIRE_READER_H

#include <unistd.h>

#include "../../base/crc32.h"
#include "../../kernel/telemetry/telemetry_impl.h"
#include "test.h"

#define RECORDS_MAX 4096u
#define SEEN_MAX    4096u
#define WIRE_MAX    (1u << 20)

/* -- the port -- */

static int port[2]; /* [0]: ours, [1]: the kernel's */
static u8 wire[WIRE_MAX];
static size_t wired;

static void port_read(size_t at_most)
{
    while (at_most) {
        size_t want = MIN(at_most, sizeof(wire) - wired);
        ssize_t n = want ? read(port[0], wire + wired, want) : 0;

        if (n <= 0)
            break;
        wired += (size_t)n;
        at_most -= (size_t)n;
    }
}

/* -- the reader -- */

struct record {
    u64 type, stream, sequence, time, part, parts;
    size_t body, end; /* in text[] */
};
static struct record got[RECORDS_MAX];
static unsigned records, damaged;
static u8 text[WIRE_MAX];
static size_t texts;

struct seen {
    u64 scope, instance, cpu, id, value;
};
static struct seen seen[SEEN_MAX];
static unsigned seens;

static u64 head(size_t *at, unsigned *major)
{
    u8 first = text[(*at)++];
    unsigned low = first & 31, width = low < 24 ? 0 : 1u << (low - 24);
    u64 v = low < 24 ? low : 0;

    *major = first >> 5;
    for (unsigned i = 0; i < width; i++)
        v = v << 8 | text[(*at)++];
    return v;
}

static u64 number(size_t *at)
{
    unsigned major;

    return head(at, &major);
}

static void skip(size_t *at)
{
    unsigned major;
    u64 n = head(at, &major);

    if (major == 2 || major == 3)
        *at += n;
    for (u64 i = 0; i < (major == 4 ? n : major == 5 ? 2 * n : 0); i++)
        skip(at);
}

/* The value of a key in the map at `at`; 0 if it is not there. */
static size_t find_in(size_t at, const char *key)
{
    unsigned major, key_major;
    u64 pairs = head(&at, &major);

    for (u64 i = 0; major == 5 && i < pairs; i++) {
        u64 n = head(&at, &key_major);
        bool here = n == strlen(key) && memcmp(text + at, key, n) == 0;

        at += n;
        if (here)
            return at;
        skip(&at);
    }
    return 0;
}

/* In a record's map. */
static size_t find(const struct record *r, const char *key)
{
    return find_in(r->body, key);
}

static u64 field(const struct record *r, const char *key)
{
    size_t at = find(r, key);

    return at ? number(&at) : ~(u64)0;
}

static bool text_is(size_t at, const char *value)
{
    unsigned major;
    u64 n;

    if (!at)
        return false;
    n = head(&at, &major);
    return n == strlen(value) && memcmp(text + at, value, n) == 0;
}

static bool field_is(const struct record *r, const char *key, const char *value)
{
    return text_is(find(r, key), value);
}

static void note(struct seen s)
{
    for (unsigned i = 0; i < seens; i++)
        if (seen[i].scope == s.scope && seen[i].instance == s.instance && seen[i].cpu == s.cpu &&
            seen[i].id == s.id) {
            seen[i] = s;
            return;
        }
    CHECK(seens < SEEN_MAX);
    seen[seens++] = s;
}

static inline u64 seen_value(u64 scope, u64 instance, u64 cpu, u64 id)
{
    for (unsigned i = 0; i < seens; i++)
        if (seen[i].scope == scope && seen[i].instance == instance && seen[i].cpu == cpu &&
            seen[i].id == id)
            return seen[i].value;
    return 0;
}

static void read_sample(const struct record *r)
{
    size_t at = r->body;
    u64 rows = number(&at);

    for (u64 i = 0; i < rows; i++) {
        u64 n = number(&at);
        struct seen s = {0};

        s.scope = number(&at);
        s.instance = number(&at);
        s.cpu = number(&at);
        for (u64 k = 3; k + 1 < n; k += 2) {
            s.id = number(&at);
            s.value = number(&at);
            note(s);
        }
    }
    EXPECT_EQ(at, r->end);
}

static void read_block(const u8 *block, size_t n)
{
    size_t length, at = texts;
    struct record *r = &got[records];
    u32 crc;

    length = cobs_decode(text + texts, sizeof(text) - texts, block, n);
    if (length == COBS_BAD || length < 5) {
        damaged++;
        return;
    }
    memcpy(&crc, text + texts + length - 4, 4);
    if (crc32(0, text + texts, length - 4) != crc) {
        damaged++;
        return;
    }
    EXPECT_LE(length - 4, PAYLOAD_MAX);
    CHECK(records < RECORDS_MAX);
    r->end = texts + length - 4;
    texts += length;
    EXPECT_EQ(number(&at), 7u);
    r->type = number(&at);
    r->stream = number(&at);
    r->sequence = number(&at);
    r->time = number(&at);
    r->part = number(&at);
    r->parts = number(&at);
    r->body = at;
    records++;
    if (r->type == RECORD_SAMPLE)
        read_sample(r);
}

/* Takes apart all that has left, from the beginning. */
static void read_all(void)
{
    size_t from = 0;

    port_read(sizeof(wire));
    records = damaged = seens = 0;
    texts = 0;
    for (size_t i = 0; i < wired; i++)
        if (wire[i] == 0) {
            if (i > from)
                read_block(wire + from, i - from);
            from = i + 1;
        }
    EXPECT_EQ(from, wired); /* no frame is left half sent */
}

static inline unsigned count_type(u64 type)
{
    unsigned n = 0;

    for (unsigned i = 0; i < records; i++)
        n += got[i].type == type;
    return n;
}

static const struct record *last_of(u64 type)
{
    for (unsigned i = records; i-- > 0;)
        if (got[i].type == type)
            return &got[i];
    return NULL;
}

/* In each stream: no sequence number twice, none missing but those that `lost` records tell of,
 * time in order. */
static inline void expect_streams_whole(u64 lost)
{
    u64 missing = 0;

    for (u64 stream = 0; stream < 256; stream++) {
        u64 next = 0, time = 0;

        for (unsigned i = 0; i < records; i++) {
            if (got[i].stream != stream)
                continue;
            EXPECT_GE(got[i].sequence, next);
            EXPECT_GE(got[i].time, time);
            missing += got[i].sequence - next;
            next = got[i].sequence + 1;
            time = got[i].time;
        }
    }
    EXPECT_EQ(missing, lost);
}

#endif
