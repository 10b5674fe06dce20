/* fuzz_cobs_cbor.c: any bytes as COBS input and output, as a program for the CBOR encoder, and
 * through the frame's whole way. Buffers are blocks of exactly the promised size, so that the
 * sanitizer sees one byte too many. */
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

/* Each byte of the input is an instruction; the buffer's size comes from the first two. */
static void encode_program(const u8 *in, size_t n)
{
    size_t size = n >= 2 ? in[0] | (size_t)(in[1] & 3) << 8 : 0;
    u8 *buf = block(size);
    struct cbor c;
    bool before = false;
    u8 *at;

    cbor_init(&c, buf, size);
    for (size_t i = 2; i < n; i++) {
        u64 v = (u64)in[i] << in[i] % 61;
        size_t rest = n - i - 1;

        at = c.p;
        switch (in[i] & 7) {
        case 0:
            cbor_uint(&c, v);
            break;
        case 1:
            cbor_int(&c, (i64)~v);
            break;
        case 2:
            cbor_text_n(&c, (const char *)in + i + 1, rest < v ? rest : (size_t)v);
            break;
        case 3:
            cbor_bytes(&c, in + i + 1, rest < v ? rest : (size_t)v);
            break;
        case 4:
            cbor_array(&c, v);
            break;
        case 5:
            cbor_map(&c, v);
            break;
        case 6:
            cbor_bool(&c, v & 8);
            break;
        default:
            cbor_null(&c);
            break;
        }
        must(c.p >= at && c.p <= c.end && c.end == buf + size);
        must(!before ||
             (c.overflow && c.p == at)); /* overflow sticks, and nothing is written after it */
        must(c.overflow || c.p > at);
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
