/* kmalloc.c: memory by size: the 17 classes, blocks of pages above the largest, and finding the
 * owner of an address again.
 *
 * size → class by one table look-up ((size - 1) / 16, up to 8192 bytes). address → owner by the
 * frame's tag: SLAB leads to the cache, LARGE to the pages; everything else is a bad free.
 *
 * kmalloc(0) is ZERO_SIZE_PTR. A size too large returns NULL. krealloc stays in place while the
 * block is large enough.
 *
 * Locking: none of its own. Contexts: thread, interrupt. */
#include "fast_impl.h"

/* -- fast path -- */

static NOINLINE void *kmalloc_edge(struct heap *h, size_t size);
static NOINLINE bool kfree_pages(struct heap *h, struct frame *f, u64 tag, void *p);
static NOINLINE bool kfree_edge(struct heap *h, void *p);

void *heap_kmalloc(struct heap *h, size_t size)
{
    if (unlikely(size - 1 >= KMALLOC_MAX_SMALL))
        return kmalloc_edge(h, size);
    return cache_alloc(h->by_size[(size - 1) / KMALLOC_ALIGN], size);
}

bool heap_kfree(struct heap *h, void *p)
{
    u64 i = frame_number(&h->frames, p);
    struct frame *f = heap_frame(h, i);
    u64 tag;

    if (unlikely(i >= h->plain_frames))
        return kfree_edge(h, p);
    tag = frame_tag_load(f);
    if (likely(TAG_KIND(tag) == FRAME_SLAB))
        return cache_free(TAG_CACHE(tag), p);
    return kfree_pages(h, f, tag, p);
}

/* -- slow path -- */

static void *kmalloc_edge(struct heap *h, size_t size)
{
    return size ? large_alloc(h, size) : ZERO_SIZE_PTR;
}

static bool kfree_pages(struct heap *h, struct frame *f, u64 tag, void *p)
{
    if (TAG_KIND(tag) == FRAME_LARGE)
        return large_free(h, f, tag, p);
    return badfree(h, badfree_kind_of(h, p), p, tag, NULL);
}

/* Every free under owner=lock; else NULL, kmalloc(0)'s and addresses outside memory. */
static bool kfree_edge(struct heap *h, void *p)
{
    struct frame *f = frame_of(&h->frames, p);
    u64 tag;

    if (!p || p == ZERO_SIZE_PTR)
        return true;
    if (!f)
        return badfree(h, BADFREE_foreign, p, 0, NULL);
    tag = pages_owner(h, f);
    return TAG_KIND(tag) == FRAME_SLAB ? cache_free(TAG_CACHE(tag), p) : kfree_pages(h, f, tag, p);
}

size_t heap_ksize(struct heap *h, const void *p)
{
    struct frame *f = frame_of(&h->frames, p);
    u64 tag;

    if (!f)
        return 0;
    tag = pages_owner(h, f);
    if (TAG_KIND(tag) == FRAME_SLAB)
        return object_live(TAG_CACHE(tag), (void *)(uintptr_t)p) ? TAG_CACHE(tag)->size : 0;
    if (TAG_KIND(tag) == FRAME_LARGE && ((uintptr_t)p & (PAGE_SIZE - 1)) == 0)
        return PAGE_SIZE << TAG_ORDER(tag);
    return 0;
}

void *heap_krealloc(struct heap *h, void *p, size_t size)
{
    size_t usable;
    void *to;

    if (!p || p == ZERO_SIZE_PTR)
        return heap_kmalloc(h, size);
    if (size == 0)
        return heap_kfree(h, p) ? ZERO_SIZE_PTR : NULL;
    usable = heap_ksize(h, p);
    if (usable == 0) { /* nobody's: the free says why, and refuses */
        heap_kfree(h, p);
        return NULL;
    }
    if (size <= usable) {
        plat_unpoison(p, size);
        plat_poison((char *)p + size, usable - size);
        return p;
    }
    to = heap_kmalloc(h, size);
    if (!to)
        return NULL;
    plat_unpoison(p, usable);
    memcpy(to, p, usable);
    if (!heap_kfree(h, p)) { /* already free: do not hand out a copy of it */
        heap_kfree(h, to);
        return NULL;
    }
    return to;
}
