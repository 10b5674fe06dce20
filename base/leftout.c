/* leftout.c: the account of what was left out (leftout.h).
 *
 * Locking: none; one atomic addition a call. Contexts: any. */
#include "leftout.h"

const struct left_out_desc left_out_descs[NR_LEFT_OUT] = {
#define LEFT_OUT(name_, unit_, voids_, doc_)                                                       \
    [LEFT_OUT_##name_] = {.name = #name_, .unit = #unit_, .doc = doc_, .voids = (voids_) != 0},
#include "leftout.def"
#undef LEFT_OUT
};

static struct left_out account[NR_LEFT_OUT];

void left_out(enum left_out_kind kind, u64 amount, u64 of, const char *detail)
{
    struct left_out *l = &account[kind];

    if (of)
        __atomic_store_n(&l->of, of, __ATOMIC_RELAXED);
    if (detail)
        __atomic_store_n(&l->detail, detail, __ATOMIC_RELAXED);
    __atomic_fetch_add(&l->amount, amount, __ATOMIC_RELEASE);
}

struct left_out left_out_read(enum left_out_kind kind)
{
    const struct left_out *l = &account[kind];
    struct left_out seen = {.amount = __atomic_load_n(&l->amount, __ATOMIC_ACQUIRE)};

    seen.of = __atomic_load_n(&l->of, __ATOMIC_RELAXED);
    seen.detail = __atomic_load_n(&l->detail, __ATOMIC_RELAXED);
    return seen;
}
