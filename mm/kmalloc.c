/* kmalloc.c: memory by size, beyond the short ways of ways.c: what has no class, and frees of what is
 * no object of a slab.
 *
 * size → class by one table look-up ((size - 1) / 16, up to 8192 bytes). address → owner by the
 * frame's tag: SLAB leads to the cache, LARGE to the pages; everything else is a bad free, and so is
 * an object of an internal cache: a magazine freed by a user would be written over while it is in use.
 *
 * kmalloc(0) is ZERO_SIZE_PTR. A size too large returns NULL. krealloc and aligned blocks are in
 * krealloc.c.
 *
 * Locking: none of its own. Contexts: thread, interrupt. */
#include "mm_impl.h"

void *kmalloc_other(struct heap *h, size_t size)
{
    return likely(size) ? large_alloc(h, size) : ZERO_SIZE_PTR;
}

bool kfree_other(struct heap *h, void *p, u64 tag)
{
    if (likely(TAG_KIND(tag) == FRAME_LARGE))
        return large_free(h, frame_of(&h->frames, p), tag, p);
    return badfree(h, badfree_kind_of(h, p), p, tag, NULL);
}

bool kfree_outside(struct heap *h, void *p)
{
    return !p || p == ZERO_SIZE_PTR || badfree(h, BADFREE_foreign, p, 0, NULL);
}
