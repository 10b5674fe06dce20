/* names.c: the texts and tables that derive from counters.def and faults.def. Nothing is typed
 * twice: adding an entry to a list changes every table here.
 *
 * Locking: none, all constant. Contexts: any. */
#include "check.h"
#include "counters.h"
#include "crc32.h"
#include "string.h"

const char *const panic_kind_names[NR_PANIC_KINDS] = {
    [PANIC_NONE] = "none",
#define PANIC_KIND(name, doc) [PANIC_##name] = #name,
#define BADFREE_KIND(name, doc)
#include "faults.def"
#undef PANIC_KIND
#undef BADFREE_KIND
};

const char *const badfree_kind_names[NR_BADFREE_KINDS] = {
    [BADFREE_NONE] = "none",
#define PANIC_KIND(name, doc)
#define BADFREE_KIND(name, doc) [BADFREE_##name] = #name,
#include "faults.def"
#undef PANIC_KIND
#undef BADFREE_KIND
};

const char *const counter_scope_names[NR_SCOPES] = {
    [SCOPE_cpu] = "cpu",   [SCOPE_cache] = "cache",   [SCOPE_lock] = "lock",
    [SCOPE_node] = "node", [SCOPE_global] = "global",
};

const char *const counter_kind_names[] = {
    [KIND_sum] = "sum",
    [KIND_max] = "max",
    [KIND_gauge] = "gauge",
};

#define INDEX_cpu(name)    CPU_##name
#define INDEX_cache(name)  CACHE_##name
#define INDEX_lock(name)   LOCK_##name
#define INDEX_node(name)   NODE_##name
#define INDEX_global(name) GLOBAL_##name

const struct counter_desc counter_descs[NR_COUNTERS] = {
#define COUNTER(scope_, name_, unit_, kind_, panel_, doc_)                                         \
    [CTR_##name_] = {.name = #name_,                                                               \
                     .unit = #unit_,                                                               \
                     .panel = #panel_,                                                             \
                     .doc = doc_,                                                                  \
                     .scope = SCOPE_##scope_,                                                      \
                     .kind = KIND_##kind_,                                                         \
                     .index = INDEX_##scope_(name_)},
#define DERIVED(scope, name, unit, panel, formula, doc)
#include "counters.def"
#undef COUNTER
#undef DERIVED
};

const struct derived_desc derived_descs[] = {
#define COUNTER(scope, name, unit, kind, panel, doc)
#define DERIVED(scope_, name_, unit_, panel_, formula_, doc_)                                      \
    {.name = #name_,                                                                               \
     .unit = #unit_,                                                                               \
     .panel = #panel_,                                                                             \
     .formula = formula_,                                                                          \
     .doc = doc_,                                                                                  \
     .scope = SCOPE_##scope_},
#include "counters.def"
#undef COUNTER
#undef DERIVED
};
const unsigned derived_count = ARRAY_SIZE(derived_descs);

static u32 hash_field(u32 crc, const char *text, const char *end)
{
    crc = crc32(crc, text, strlen(text));
    return crc32(crc, end, 1);
}

/* A line for each entry, as counters.h says. */
u32 counter_schema_hash(void)
{
    u32 crc = 0;

    for (unsigned i = 0; i < NR_COUNTERS; i++) {
        const struct counter_desc *d = &counter_descs[i];

        crc = hash_field(crc, counter_scope_names[d->scope], "\t");
        crc = hash_field(crc, d->name, "\t");
        crc = hash_field(crc, d->unit, "\t");
        crc = hash_field(crc, counter_kind_names[d->kind], "\t");
        crc = hash_field(crc, d->panel, "\t");
        crc = hash_field(crc, d->doc, "\n");
    }
    for (unsigned i = 0; i < derived_count; i++) {
        const struct derived_desc *d = &derived_descs[i];

        crc = hash_field(crc, counter_scope_names[d->scope], "\t");
        crc = hash_field(crc, d->name, "\t");
        crc = hash_field(crc, d->unit, "\t");
        crc = hash_field(crc, "derived", "\t");
        crc = hash_field(crc, d->panel, "\t");
        crc = hash_field(crc, d->formula, "\t");
        crc = hash_field(crc, d->doc, "\n");
    }
    return crc;
}
