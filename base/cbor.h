/* cbor.h: a bounded CBOR (RFC 8949) encoder for what the telemetry protocol needs: integers, text,
 * bytes, booleans, null, and arrays and maps of known length. Every item is in its shortest form.
 *
 * It never writes past the end it was given: the first item that does not fit sets overflow, which
 * sticks, and nothing is written from then on; the caller then drops or splits the record. It does
 * not check that as many items follow a head as the head says. Locking: none. Contexts: any. */
#ifndef BASE_CBOR_H
#define BASE_CBOR_H

#include "types.h"

struct cbor {
    u8 *p, *end;
    bool overflow;
};

static inline void cbor_init(struct cbor *c, void *buf, size_t size)
{
    c->p = buf;
    c->end = c->p + size;
    c->overflow = false;
}

void cbor_uint(struct cbor *c, u64 v);
void cbor_int(struct cbor *c, i64 v);
void cbor_text(struct cbor *c, const char *s);
void cbor_text_n(struct cbor *c, const char *s, size_t n);
void cbor_bytes(struct cbor *c, const void *bytes, size_t n);
void cbor_bool(struct cbor *c, bool v);
void cbor_null(struct cbor *c);
void cbor_array(struct cbor *c, u64 n);
void cbor_map(struct cbor *c, u64 n);

/* How many bytes cbor_uint() takes for v; the head of n-byte text, n items or n pairs takes as
 * many. */
unsigned cbor_uint_size(u64 v);

#endif
