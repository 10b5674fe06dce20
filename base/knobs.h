/* knobs.h: the boot arguments, derived from knobs.def, and their parser.
 *
 * An argument line is blank-separated NAME=VALUE. Nothing is ever ignored: an unknown name, an
 * illegal value, a repeated name, a word without '=' or a contradictory pair is a refusal with its
 * reason and the nearest legal name, and the boot ends as refused.
 *
 * Locking: none; written once by knobs_parse() at boot. Contexts: boot. */
#ifndef BASE_KNOBS_H
#define BASE_KNOBS_H

#include "types.h"

/* V_front_none, V_front_bounded, … : values of ENUM knobs are numbered through the whole list. */
enum knob_value {
    V_NONE,
#define KNOB(ident, name, type, min, max, def, where, doc)
#define VALUE(ident, value, doc) V_##ident##_##value,
#define CONFLICT(what, unless, nearest, why)
#include "knobs.def"
#undef KNOB
#undef VALUE
#undef CONFLICT
    NR_KNOB_VALUES
};

enum knob_id {
#define KNOB(ident, name, type, min, max, def, where, doc) KNOB_ID_##ident,
#define VALUE(ident, value, doc)
#define CONFLICT(what, unless, nearest, why)
#include "knobs.def"
#undef KNOB
#undef VALUE
#undef CONFLICT
    NR_KNOBS
};

#define KNOB_FIELD_ENUM(ident, max) enum knob_value ident;
#define KNOB_FIELD_UINT(ident, max) u64 ident;
#define KNOB_FIELD_TEXT(ident, max) char ident[(max) + 1];
/* Effective values: knobs.front == V_front_bounded, knobs.kbench_ms == 200, … */
struct knobs {
#define KNOB(ident, name, type, min, max, def, where, doc) KNOB_FIELD_##type(ident, max)
#define VALUE(ident, value, doc)
#define CONFLICT(what, unless, nearest, why)
#include "knobs.def"
#undef KNOB
#undef VALUE
#undef CONFLICT
    bool set[NR_KNOBS]; /* named on the line, so not the default */
};

#define KNOB_REFUSALS 8
struct knob_refusal {
    char argument[80]; /* as received; cut to fit, and marked then (fmt_mark_cut) */
    char reason[200];
    char nearest[80]; /* nearest legal name or value, or "" */
};
struct knob_refusals {
    unsigned count; /* may exceed KNOB_REFUSALS: the rest is counted, not kept */
    struct knob_refusal at[KNOB_REFUSALS];
};

/* Fills *k with defaults, then with what line says, and *r with what was refused. hosted: knobs
 * marked metal are refused, else those marked host. Returns true if nothing was refused. */
NODISCARD bool knobs_parse(struct knobs *k, const char *line, bool hosted, struct knob_refusals *r);
/* Adds to *r the pairs that contradict each other (ticket or mcs under overcommit without force,
 * …). True if *r is empty then. Who knows how many CPUs there are sets k->maxcpus to that meanwhile, if it
 * is more. */
NODISCARD bool knobs_check(const struct knobs *k, struct knob_refusals *r);

/* "8/8/6/4/3/2" into n numbers, each 1..max. */
NODISCARD bool knobs_list_parse(const char *text, u32 *out, unsigned n, u32 max);

const char *knob_name(enum knob_id id);
/* The effective value as text, into buf; what hello echoes. */
void knob_value_text(const struct knobs *k, enum knob_id id, char *buf, size_t size);

/* True if name is chosen by the comma-separated patterns of tests=: '*' matches anything, '/' too;
 * a pattern without '*' also matches its children. */
bool knobs_test_match(const char *patterns, const char *name);
/* How many single-letter edits make the n letters at a into b; what "nearest" means here. */
unsigned knobs_distance(const char *a, size_t n, const char *b);

#endif
