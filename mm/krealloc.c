/* krealloc.c: blocks that change their size, and blocks on a boundary of their own.
 *
 * krealloc stays in place while the block is large enough, and then keeps its address and with it any
 * alignment; a block that has to move is promised KMALLOC_ALIGN, or what heap_krealloc_aligned() is
 * asked for. On shortage the old block stands as it was.
 *
 * An aligned block comes from the smallest class all of whose objects happen to lie on such a
 * boundary (the geometry says: distance and first object are multiples of it), and where no class
 * does, from a page block, which is aligned to its own size: up to 4 MiB. Either way it is an
 * ordinary block: kfree finds its owner by the tag. The price is up to a page for a small object.
 * Whoever needs many makes a cache with that alignment (kmem_cache_args.align), which packs them.
 *
 * Locking: none of its own. Contexts: thread, interrupt. */
#include "objstate_impl.h"

size_t heap_ksize(struct heap *h, const void *p)
{
    struct frame *f = frame_of(&h->frames, p);
    u64 tag;

    if (!f)
        return 0;
    tag = pages_owner(h, f);
    if (TAG_IS_USERS(tag))
        return object_live(TAG_CACHE(tag), (void *)(uintptr_t)p) ? TAG_CACHE(tag)->size : 0;
    if (TAG_KIND(tag) == FRAME_LARGE && ((uintptr_t)p & (PAGE_SIZE - 1)) == 0)
        return PAGE_SIZE << TAG_ORDER(tag);
    return 0;
}

/* -- aligned -- */

/* A power of two; 0 means the ordinary one. */
static bool align_legal(size_t align)
{
    return (align & (align - 1)) == 0 && align <= PAGE_SIZE << MAX_ORDER;
}

static bool aligned(u64 v, size_t align)
{
    return (v & (align - 1)) == 0;
}

/* The smallest class with room for size and every object on the boundary, or NULL. A slab begins
 * on a page boundary, so what is wider than a page is left to page blocks. */
static struct kmem_cache *class_aligned(struct heap *h, size_t size, size_t align)
{
    if (align > PAGE_SIZE)
        return NULL;
    for (unsigned i = 0; i < KMALLOC_CLASSES; i++) {
        struct kmem_cache *c = &h->kmalloc[i];

        if (c->size >= size && aligned(c->slot, align) && aligned(c->lead, align))
            return c;
    }
    return NULL;
}

static void *pages_aligned(struct heap *h, size_t size, size_t align)
{
    void *p = large_alloc(h, MAX(size, align));

    if (p && size < align) {
        frame_of(&h->frames, p)->bytes = size;
        plat_poison((char *)p + size, align - size);
    }
    return p;
}

void *heap_kmalloc_aligned(struct heap *h, size_t size, size_t align)
{
    struct kmem_cache *c;
    void *p;

    if (!align_legal(align))
        return NULL;
    if (align <= KMALLOC_ALIGN || size == 0)
        return heap_kmalloc(h, size);
    c = class_aligned(h, size, align);
    if (!c)
        return pages_aligned(h, size, align);
    p = kmem_cache_alloc(c);
    if (p)
        plat_poison((char *)p + size, c->size - size);
    return p;
}

/* -- another size -- */

void *heap_krealloc_aligned(struct heap *h, void *p, size_t size, size_t align)
{
    size_t usable;
    void *to;

    if (!p || p == ZERO_SIZE_PTR)
        return heap_kmalloc_aligned(h, size, align);
    if (!align_legal(align))
        return NULL;
    if (size == 0)
        return heap_kfree(h, p) ? ZERO_SIZE_PTR : NULL;
    usable = heap_ksize(h, p);
    if (usable == 0) { /* nobody's: the free says why, and refuses */
        heap_kfree(h, p);
        return NULL;
    }
    if (size <= usable && aligned((uintptr_t)p, MAX(align, (size_t)1))) {
        plat_unpoison(p, size);
        plat_poison((char *)p + size, usable - size);
        return p;
    }
    to = heap_kmalloc_aligned(h, size, align);
    if (!to)
        return NULL;
    plat_unpoison(p, usable);
    memcpy(to, p, MIN(usable, size));
    if (!heap_kfree(h, p)) { /* already free: do not hand out a copy of it */
        heap_kfree(h, to);
        return NULL;
    }
    return to;
}

void *heap_krealloc(struct heap *h, void *p, size_t size)
{
    return heap_krealloc_aligned(h, p, size, KMALLOC_ALIGN);
}
