/* latency_impl.h: timing a call of a level (latency=on), for the files of mm/. latency.c has the
 * idea.
 *
 *   u64 start = latency_begin(l, LATENCY_slab, LATENCY_ALLOC);
 *   …
 *   latency_end(l, LATENCY_slab, LATENCY_ALLOC, start);
 *
 * Contexts: thread, interrupt. Locking: none. */
#ifndef MM_LATENCY_IMPL_H
#define MM_LATENCY_IMPL_H

#include "mm_impl.h"

NOINLINE u64 latency_begin(struct latency *l, enum latency_level level, enum latency_call call);
NOINLINE void latency_end(struct latency *l, enum latency_level level, enum latency_call call,
                          u64 start);

#endif
