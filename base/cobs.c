/* cobs.c: see cobs.h. A block is a chain of groups: a code byte c, then c-1 bytes that are not
 * zero. A code below 255 stands for a zero after its group, except at the very end; 255 is a full
 * group without one.
 *
 * The encoder keeps the place of the open group's code byte and fills it in when the group closes.
 * A full group opens the next one only when another byte comes, so a block of exactly 254 bytes
 * costs one byte, not two. Locking: none. Contexts: any. */
#include "cobs.h"

size_t cobs_encode(u8 *out, size_t size, const u8 *in, size_t n)
{
    size_t code_at = 0, o = 1;
    u8 code = 1;

    if (size == 0)
        return COBS_BAD;
    for (size_t i = 0; i < n; i++) {
        if (code == 0xff) {
            out[code_at] = code;
            code_at = o;
            if (o++ >= size)
                return COBS_BAD;
            code = 1;
        }
        if (o >= size)
            return COBS_BAD;
        if (in[i] != 0) {
            out[o++] = in[i];
            code++;
        } else {
            out[code_at] = code;
            code_at = o++;
            code = 1;
        }
    }
    out[code_at] = code;
    return o;
}

size_t cobs_decode(u8 *out, size_t size, const u8 *in, size_t n)
{
    size_t o = 0;

    if (n == 0)
        return COBS_BAD;
    for (size_t i = 0; i < n;) {
        u8 code = in[i++];

        if (code == 0 || (size_t)(code - 1) > n - i || (size_t)(code - 1) > size - o)
            return COBS_BAD;
        for (u8 k = 1; k < code; k++) {
            if (in[i] == 0)
                return COBS_BAD;
            out[o++] = in[i++];
        }
        if (code != 0xff && i < n) {
            if (o >= size)
                return COBS_BAD;
            out[o++] = 0;
        }
    }
    return o;
}
