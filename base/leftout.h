/* leftout.h: what this boot left out. Nothing is dropped silently: whoever drops, cuts or ignores something
 * that a user gave or will look for says so here, where it happens; console, hello, bye and report tell it.
 *
 * Amounts of one kind add up; `of` is how much there was in all (0: not known) and `detail` a constant text
 * that says more (or NULL); the latest of each that says anything stays.
 *
 * Locking: none; amounts are added atomically. Contexts: any, early boot included. */
#ifndef BASE_LEFTOUT_H
#define BASE_LEFTOUT_H

#include "types.h"

enum left_out_kind {
#define LEFT_OUT(name, unit, voids, doc) LEFT_OUT_##name,
#include "leftout.def"
#undef LEFT_OUT
    NR_LEFT_OUT
};

struct left_out_desc {
    const char *name, *unit, *doc;
    bool voids;
};
extern const struct left_out_desc left_out_descs[NR_LEFT_OUT];

struct left_out {
    u64 amount, of; /* in the kind's unit; amount 0: nothing was left out */
    const char *detail;
};

void left_out(enum left_out_kind kind, u64 amount, u64 of, const char *detail);
struct left_out left_out_read(enum left_out_kind kind);

#endif
