/* counters.h: everything derived from counters.def: wire ids, the row layout of each scope, and the
 * descriptors that make the schema. Rows hold what is counted (sum, max), 64 bits each; gauges are
 * read on demand into an array of the same layout.
 *
 * Who may write a row: its CPU alone, by plat_counter_add(); anybody reads with a relaxed load. */
#ifndef BASE_COUNTERS_H
#define BASE_COUNTERS_H

#include "plat.h"

#define DERIVED(scope, name, unit, panel, formula, doc)

/* Wire ids: the position in the list. */
enum counter_id {
#define COUNTER(scope, name, unit, kind, panel, doc) CTR_##name,
#include "counters.def"
#undef COUNTER
    NR_COUNTERS
};

/* The row of each scope: COUNTER_<scope> selects. CACHE_alloc_fast, NODE_page_split, … A gauge has
 * a slot too, so that one layout serves rows and the arrays that gauge readers fill; in a row it
 * stays 0. */
#define COUNTER(scope, name, unit, kind, panel, doc) COUNTER_##scope(name)

#define COUNTER_cpu(name) CPU_##name,
#define COUNTER_cache(name)
#define COUNTER_lock(name)
#define COUNTER_node(name)
#define COUNTER_global(name)
enum cpu_counter {
#include "counters.def"
    NR_CPU_COUNTERS
};
#undef COUNTER_cpu
#undef COUNTER_cache
#undef COUNTER_lock
#undef COUNTER_node
#undef COUNTER_global

#define COUNTER_cpu(name)
#define COUNTER_cache(name) CACHE_##name,
#define COUNTER_lock(name)
#define COUNTER_node(name)
#define COUNTER_global(name)
enum cache_counter {
#include "counters.def"
    NR_CACHE_COUNTERS
};
#undef COUNTER_cpu
#undef COUNTER_cache
#undef COUNTER_lock
#undef COUNTER_node
#undef COUNTER_global

#define COUNTER_cpu(name)
#define COUNTER_cache(name)
#define COUNTER_lock(name) LOCK_##name,
#define COUNTER_node(name)
#define COUNTER_global(name)
enum lock_counter {
#include "counters.def"
    NR_LOCK_COUNTERS
};
#undef COUNTER_cpu
#undef COUNTER_cache
#undef COUNTER_lock
#undef COUNTER_node
#undef COUNTER_global

#define COUNTER_cpu(name)
#define COUNTER_cache(name)
#define COUNTER_lock(name)
#define COUNTER_node(name) NODE_##name,
#define COUNTER_global(name)
enum node_counter {
#include "counters.def"
    NR_NODE_COUNTERS
};
#undef COUNTER_cpu
#undef COUNTER_cache
#undef COUNTER_lock
#undef COUNTER_node
#undef COUNTER_global

#define COUNTER_cpu(name)
#define COUNTER_cache(name)
#define COUNTER_lock(name)
#define COUNTER_node(name)
#define COUNTER_global(name) GLOBAL_##name,
enum global_counter {
#include "counters.def"
    NR_GLOBAL_COUNTERS
};
#undef COUNTER_cpu
#undef COUNTER_cache
#undef COUNTER_lock
#undef COUNTER_node
#undef COUNTER_global
#undef COUNTER
#undef DERIVED

enum counter_scope { SCOPE_cpu, SCOPE_cache, SCOPE_lock, SCOPE_node, SCOPE_global, NR_SCOPES };
enum counter_kind { KIND_sum, KIND_max, KIND_gauge };

struct counter_desc {
    const char *name, *unit, *panel, *doc;
    u8 scope, kind;
    u8 index; /* in the scope's row */
};
struct derived_desc {
    const char *name, *unit, *panel, *formula, *doc;
    u8 scope;
};

extern const struct counter_desc counter_descs[NR_COUNTERS]; /* by wire id; base/names.c */
extern const struct derived_desc derived_descs[];
extern const unsigned derived_count;
extern const char *const counter_scope_names[NR_SCOPES];
extern const char *const counter_kind_names[];
/* CRC-32 of one line an entry, counters first, then derived ones: scope, name, unit, kind
 * ("derived"), panel, the formula if derived, doc; a TAB between fields, LF at the end. */
u32 counter_schema_hash(void);

static ALWAYS_INLINE u64 counter_read(const u64 *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

#endif
