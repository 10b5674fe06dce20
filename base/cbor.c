/* cbor.c: see cbor.h. An item is a head (major type in the top three bits, then a value in the
 * shortest of five widths) and, for strings, the bytes themselves. Head and bytes are checked for
 * room together, so an item is written whole or not at all.
 *
 * Locking: none. Contexts: any. */
#include "cbor.h"
#include "string.h"

enum cbor_major {
    CBOR_UINT = 0,
    CBOR_NEGATIVE = 1,
    CBOR_BYTES = 2,
    CBOR_TEXT = 3,
    CBOR_ARRAY = 4,
    CBOR_MAP = 5,
    CBOR_SIMPLE = 7,
};
enum cbor_simple { CBOR_FALSE = 20, CBOR_TRUE = 21, CBOR_NULL = 22 };

unsigned cbor_uint_size(u64 v)
{
    if (v < 24)
        return 1;
    if (v <= 0xff)
        return 2;
    if (v <= 0xffff)
        return 3;
    if (v <= 0xffffffff)
        return 5;
    return 9;
}

/* Writes the head if it and `payload` bytes after it fit. */
static bool cbor_head(struct cbor *c, enum cbor_major major, u64 v, size_t payload)
{
    unsigned size = cbor_uint_size(v);
    size_t room = (size_t)(c->end - c->p);
    u8 *p = c->p;

    if (c->overflow || room < size || room - size < payload) {
        c->overflow = true;
        return false;
    }
    if (size == 1) {
        p[0] = (u8)(major << 5 | v);
    } else {
        unsigned width = size - 1; /* 1, 2, 4 or 8 bytes, told by 24..27 */

        p[0] = (u8)(major << 5 | (24 + __builtin_ctz(width)));
        for (unsigned i = 0; i < width; i++)
            p[1 + i] = (u8)(v >> 8 * (width - 1 - i));
    }
    c->p += size;
    return true;
}

static void cbor_string(struct cbor *c, enum cbor_major major, const void *bytes, size_t n)
{
    if (!cbor_head(c, major, n, n))
        return;
    if (n)
        memcpy(c->p, bytes, n);
    c->p += n;
}

void cbor_uint(struct cbor *c, u64 v)
{
    cbor_head(c, CBOR_UINT, v, 0);
}

void cbor_int(struct cbor *c, i64 v)
{
    if (v >= 0)
        cbor_head(c, CBOR_UINT, (u64)v, 0);
    else
        cbor_head(c, CBOR_NEGATIVE, ~(u64)v, 0);
}

void cbor_text(struct cbor *c, const char *s)
{
    cbor_string(c, CBOR_TEXT, s, strlen(s));
}

void cbor_text_n(struct cbor *c, const char *s, size_t n)
{
    cbor_string(c, CBOR_TEXT, s, n);
}

void cbor_bytes(struct cbor *c, const void *bytes, size_t n)
{
    cbor_string(c, CBOR_BYTES, bytes, n);
}

void cbor_bool(struct cbor *c, bool v)
{
    cbor_head(c, CBOR_SIMPLE, v ? CBOR_TRUE : CBOR_FALSE, 0);
}

void cbor_null(struct cbor *c)
{
    cbor_head(c, CBOR_SIMPLE, CBOR_NULL, 0);
}

void cbor_array(struct cbor *c, u64 n)
{
    cbor_head(c, CBOR_ARRAY, n, 0);
}

void cbor_map(struct cbor *c, u64 n)
{
    cbor_head(c, CBOR_MAP, n, 0);
}
