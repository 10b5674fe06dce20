/* check.h: assertions in three tiers, and what a panic carries.
 *
 * CHECK       always, O(1); a failure stops the machine with a numbered kind and values
 * ASSERT      debug builds (HAYLOFT_DEBUG)
 * ASSERT_SLOW debug builds, walkers; run under stress
 *
 * Contexts: any. Locking: none. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include "plat.h"

enum panic_kind {
    PANIC_NONE,
#define PANIC_KIND(name, doc) PANIC_##name,
#define BADFREE_KIND(name, doc)
#include "faults.def"
#undef PANIC_KIND
#undef BADFREE_KIND
    NR_PANIC_KINDS
};

enum badfree_kind {
    BADFREE_NONE,
#define PANIC_KIND(name, doc)
#define BADFREE_KIND(name, doc) BADFREE_##name,
#include "faults.def"
#undef PANIC_KIND
#undef BADFREE_KIND
    NR_BADFREE_KINDS
};

extern const char *const panic_kind_names[NR_PANIC_KINDS];     /* base/names.c */
extern const char *const badfree_kind_names[NR_BADFREE_KINDS]; /* base/names.c */

struct panic_info {
    enum panic_kind kind;
    const char *text; /* what was expected, a literal */
    const char *file;
    int line;
    u64 value[4];     /* as the kind defines; CHECK: v0, v1 */
    const void *regs; /* platform's trap frame, or NULL */
};

#define PANIC(k, msg, v0, v1)                                                                      \
    plat_panic(&(const struct panic_info){.kind = (k),                                             \
                                          .text = (msg),                                           \
                                          .file = __FILE__,                                        \
                                          .line = __LINE__,                                        \
                                          .value = {(u64)(v0), (u64)(v1)}})

#define CHECK_VALUES(cond, v0, v1)                                                                 \
    do {                                                                                           \
        if (unlikely(!(cond)))                                                                     \
            PANIC(PANIC_check_failed, #cond, v0, v1);                                              \
    } while (0)
#define CHECK(cond) CHECK_VALUES(cond, 0, 0)

#ifdef HAYLOFT_DEBUG
#define ASSERT(cond)      CHECK(cond)
#define ASSERT_SLOW(cond) CHECK(cond)
#else
#define ASSERT(cond)      ((void)sizeof(!(cond)))
#define ASSERT_SLOW(cond) ((void)sizeof(!(cond)))
#endif

#endif
