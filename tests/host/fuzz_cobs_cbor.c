/* fuzz_cobs_cbor.c: any bytes as COBS input and output, as a program for the CBOR encoder whose every
 * item is read back by a reader of its own (RFC 8949, section 3), and through the frame's whole way.
 * Buffers are blocks of exactly the promised size, so that the sanitizer sees one byte too many. */
#include <stdlib.h>
#include <string.h>

#include "../../base/cbor.h"
#include "../../base/cobs.h"
#include "../../base/crc32.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static void must(bool cond)
{
    if (!cond)
        abort();
}

static void *block(size_t size)
{
    void *p = malloc(size ? size : 1);

    must(p != NULL);
    return p;
}

static void round_trip(const u8 *in, size_t n)
{
    u8 *out = block(COBS_MAX(n)), *back = block(n);
    size_t length = cobs_encode(out, COBS_MAX(n), in, n);

    must(length != COBS_BAD);
    must(!memchr(out, 0, length));
    must(cobs_decode(back, n, out, length) == n);
    must(n == 0 || !memcmp(back, in, n));
    must(crc32(0, back, n) == crc32(crc32(0, in, n / 3), in + n / 3, n - n / 3));
    free(out);
    free(back);
}

/* A block that does decode has one encoding only, or one that is as long: an encoder closes a full
 * group at the end in one way, and a decoder takes both. */
static void decode_any(const u8 *in, size_t n)
{
    size_t length, again;
    u8 *out = block(n), *encoded = block(COBS_MAX(n));

    length = cobs_decode(out, n, in, n);
    if (length != COBS_BAD) {
        must(length < n);
        again = cobs_encode(encoded, COBS_MAX(n), out, length);
        must(again == n || again + 1 == n);
        must(!memcmp(encoded, in, again));
    }
    free(out);
    free(encoded);
}

/* What an item must say: major type, the number in its head, and the bytes behind the head. */
struct item {
    unsigned major;
    u64 v;
    const u8 *bytes;
    size_t n;
};

/* [p, end) is that item, nothing more, in the shortest form there is. */
static void read_back(const u8 *p, const u8 *end, struct item want)
{
    must(p < end);
    unsigned low = *p & 31u, width = low < 24 ? 0 : 1u << (low - 24);
    u64 v = low < 24 ? low : 0;

    must(*p++ >> 5 == want.major && low < 28 && (size_t)(end - p) >= width);
    for (unsigned i = 0; i < width; i++)
        v = v << 8 | *p++;
    must(v == want.v);
    must(width == 0 || (width == 1 ? v >= 24 : v >> (width * 4) != 0));
    must((size_t)(end - p) == want.n && (!want.n || !memcmp(p, want.bytes, want.n)));
}

/* One instruction of the program, and what it should have written. */
static struct item encode_one(struct cbor *c, u8 op, const u8 *rest, size_t n)
{
    static const unsigned major[8] = {0, 1, 3, 2, 4, 5, 7, 7};
    u64 v = (u64)op << op % 61;
    struct item item = {.major = major[op & 7], .v = v};

    switch (op & 7) {
    case 0:
        cbor_uint(c, v);
        break;
    case 1:
        cbor_int(c, (i64)~v);
        if ((i64)~v >= 0)
            item = (struct item){.major = 0, .v = ~v};
        break;
    case 2:
    case 3:
        item.bytes = rest;
        item.v = item.n = n < v ? n : (size_t)v;
        if (item.major == 3)
            cbor_text_n(c, (const char *)rest, item.n);
        else
            cbor_bytes(c, rest, item.n);
        break;
    case 4:
        cbor_array(c, v);
        break;
    case 5:
        cbor_map(c, v);
        break;
    case 6:
        cbor_bool(c, v & 8);
        item.v = v & 8 ? 21 : 20;
        break;
    default:
        cbor_null(c);
        item.v = 22;
        break;
    }
    return item;
}

/* Each byte of the input is an instruction; the buffer's size comes from the first two. */
static void encode_program(const u8 *in, size_t n)
{
    size_t size = n >= 2 ? in[0] | (size_t)(in[1] & 3) << 8 : 0;
    u8 *buf = block(size);
    struct cbor c;
    bool before = false;

    cbor_init(&c, buf, size);
    for (size_t i = 2; i < n; i++) {
        u8 *at = c.p;
        struct item item = encode_one(&c, in[i], in + i + 1, n - i - 1);

        must(c.p >= at && c.p <= c.end && c.end == buf + size);
        must(!before || c.overflow); /* overflow sticks, and nothing is written after it */
        if (c.overflow)
            must(c.p == at);
        else
            read_back(at, c.p, item);
        before = c.overflow;
    }
    free(buf);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    round_trip(data, size);
    decode_any(data, size);
    encode_program(data, size);
    return 0;
}
