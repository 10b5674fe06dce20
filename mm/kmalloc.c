/* kmalloc.c: memory by size: the 17 classes, blocks of pages above the largest, and finding the
 * owner of an address again.
 *
 * size → class by one table look-up ((size - 1) / 16, up to 8192 bytes). address → owner by the
 * frame's tag: SLAB leads to the cache, LARGE to the pages; everything else is a bad free.
 *
 * kmalloc(0) is ZERO_SIZE_PTR. A size too large returns NULL. krealloc and aligned blocks are in
 * krealloc.c.
 *
 * Locking: none of its own. Contexts: thread, interrupt. */
#include "fast_impl.h"

/* -- fast path -- */

static NOINLINE void *kmalloc_edge(struct heap *h, size_t size);
static NOINLINE bool kfree_other(struct heap *h, void *p, u64 tag);
static NOINLINE bool kfree_edge(struct heap *h, void *p);

void *heap_kmalloc(struct heap *h, size_t size)
{
    if (unlikely(size - 1 >= h->plain_size))
        return kmalloc_edge(h, size);
    return cache_alloc_plain(h->by_size[(size - 1) / KMALLOC_ALIGN], size);
}

bool heap_kfree(struct heap *h, void *p)
{
    u64 i = frame_number(&h->frames, p);
    u64 tag;

    if (unlikely(i >= h->plain_frames))
        return kfree_edge(h, p);
    tag = frame_tag_load(heap_frame(h, i));
    if (likely(TAG_IS_PLAIN(tag)))
        return cache_free_plain(TAG_PLAIN_CACHE(tag), p);
    return kfree_other(h, p, tag);
}

/* -- slow path -- */

/* A size of no class, or any size where caches have a mode. */
static void *kmalloc_edge(struct heap *h, size_t size)
{
    if (likely(size - 1 < h->side_size))
        return cache_alloc_side(h->by_size[(size - 1) / KMALLOC_ALIGN], size);
    if (size - 1 < KMALLOC_MAX_SMALL)
        return cache_alloc_mode(h->by_size[(size - 1) / KMALLOC_ALIGN], size);
    return size ? large_alloc(h, size) : ZERO_SIZE_PTR;
}

static NOINLINE bool kfree_rest(struct heap *h, void *p, u64 tag)
{
    if (TAG_KIND(tag) == FRAME_LARGE)
        return large_free(h, frame_of(&h->frames, p), tag, p);
    if (likely(TAG_KIND(tag) == FRAME_SLAB))
        return cache_free(TAG_CACHE(tag), p);
    return badfree(h, badfree_kind_of(h, p), p, tag, NULL);
}

/* A free by what its frame says, whatever that is. */
static bool kfree_other(struct heap *h, void *p, u64 tag)
{
    if (TAG_IS_SIDE(tag))
        return cache_free_side(TAG_CACHE(tag), p);
    return kfree_rest(h, p, tag);
}

/* Every free under owner=lock; else NULL, kmalloc(0)'s and addresses outside memory. */
static bool kfree_edge(struct heap *h, void *p)
{
    struct frame *f = frame_of(&h->frames, p);

    if (!p || p == ZERO_SIZE_PTR)
        return true;
    if (!f)
        return badfree(h, BADFREE_foreign, p, 0, NULL);
    return kfree_other(h, p, pages_owner(h, f));
}
