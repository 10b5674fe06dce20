/* badfree.c: what happens to a free that must not be.
 *
 * Under badfree=reject it is refused, counted by kind, reported to the heap's handler, and the
 * kernel goes on; under badfree=panic the machine stops, with the kind, the address and what was
 * found there.
 *
 * Locking: none. Contexts: thread, interrupt. */
#include "mm_impl.h"

bool badfree(struct heap *h, enum badfree_kind kind, const void *p, u64 found,
             const struct kmem_cache *c)
{
    struct badfree_report r = {kind, (u64)(uintptr_t)p, found, c};
    void (*handler)(const struct badfree_report *) =
        __atomic_load_n(&h->badfree_handler, __ATOMIC_ACQUIRE);

    __atomic_fetch_add(&h->badfree[kind], 1, __ATOMIC_RELAXED);
    if (h->badfree_panic)
        plat_panic(&(struct panic_info){.kind = PANIC_bad_free,
                                        .text = badfree_kind_names[kind],
                                        .file = __FILE__,
                                        .line = __LINE__,
                                        .value = {kind, r.address, found, c ? c->id : 0}});
    if (handler)
        handler(&r);
    return false;
}

enum badfree_kind badfree_kind_of(struct heap *h, const void *p)
{
    struct frame *f = frame_of(&h->frames, p);
    u64 i;

    if (!f)
        return BADFREE_foreign;
    i = (u64)(f - h->frames.at);
    switch (TAG_KIND(frame_tag_load(f))) {
    case FRAME_RESERVED:
        return BADFREE_foreign;
    case FRAME_FREE:
    case FRAME_PARKED:
        return BADFREE_free_page;
    case FRAME_PAGES:
        return BADFREE_foreign; /* a page block given to kfree: it has another door */
    case FRAME_RCU:
        return BADFREE_double;
    case FRAME_LARGE:
    case FRAME_SLAB:
        return BADFREE_wrong_cache;
    default:
        break;
    }
    /* A tail: look for the head whose block covers it. Error path; the blocks around may change
     * meanwhile, which can only change the name of the error. */
    for (unsigned k = 1; k <= MAX_ORDER; k++) {
        u64 head = i & ~(((u64)1 << k) - 1);
        u64 tag = frame_tag_load(&h->frames.at[head]);

        if (head != i && TAG_KIND(tag) != FRAME_NONE && head + ((u64)1 << tag_order(tag)) > i)
            return TAG_KIND(tag) == FRAME_FREE || TAG_KIND(tag) == FRAME_PARKED ? BADFREE_free_page
                                                                                : BADFREE_interior;
    }
    return BADFREE_free_page;
}

void heap_set_badfree_handler(struct heap *h, void (*fn)(const struct badfree_report *))
{
    __atomic_store_n(&h->badfree_handler, fn, __ATOMIC_RELEASE);
}

u64 heap_badfree_count(const struct heap *h, enum badfree_kind kind)
{
    return __atomic_load_n(&h->badfree[kind], __ATOMIC_RELAXED);
}
