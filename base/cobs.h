/* cobs.h: Consistent Overhead Byte Stuffing (Cheshire & Baker, 1999): makes a block free of zeros
 * at a cost of at most one byte in 254 and one more, so that a zero can delimit blocks. The
 * delimiters are the caller's.
 *
 * Locking: none. Contexts: any. */
#ifndef BASE_COBS_H
#define BASE_COBS_H

#include "types.h"

#define COBS_MAX(n) ((n) + (n) / 254 + 1) /* longest encoding of n bytes */
#define COBS_BAD    ((size_t)-1)

/* Encodes n bytes; returns the length, or COBS_BAD if it would not fit into size. in and out do not
 * overlap. */
size_t cobs_encode(u8 *out, size_t size, const u8 *in, size_t n);
/* The reverse; COBS_BAD also for a block that no encoder makes (a zero inside, cut short,
 * empty). */
size_t cobs_decode(u8 *out, size_t size, const u8 *in, size_t n);

#endif
