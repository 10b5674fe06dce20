/* validate.c: the walker over everything a heap is made of. It names the first broken thing it
 * meets.
 *
 * Order: the buddy's lists; every frame's tag; each cache's slabs, free lists and object states;
 * each CPU's array; the balance law; and at last all pages: free ones, and those of blocks, must
 * be all there are.
 *
 * Locking: takes page and cache locks one at a time. Contexts: thread, at a quiet point. */
#include "objstate_impl.h"

bool heap_fault_set(struct heap_fault *f, const char *what, const void *at,
                    const struct kmem_cache *c)
{
    f->what = what;
    f->address = (u64)(uintptr_t)at;
    f->cache = c;
    return false;
}

/* Steps over the frames of a span block by block: each must begin where the one before ended. */
static bool span_validate(struct heap *h, const struct span *span, u64 *free, u64 *parked,
                          struct heap_fault *f)
{
    u64 i = span->first, end = MIN(span->end, h->frames.count);

    while (i < end) {
        struct frame *s = &h->frames.at[i];
        u64 tag = frame_tag_load(s);
        u64 pages = (u64)1 << tag_order(tag);

        switch (TAG_KIND(tag)) {
        case FRAME_RESERVED:
            i++;
            continue;
        case FRAME_FREE:
            free[s->node] += pages;
            break;
        case FRAME_PARKED:
            parked[s->node] += pages;
            break;
        case FRAME_PAGES:
        case FRAME_RCU:
        case FRAME_LARGE:
            break;
        case FRAME_SLAB:
            if (s->head != s)
                return heap_fault_set(f, "frames: a slab's tail without its head",
                                      frame_address(&h->frames, s), TAG_CACHE(tag));
            break;
        default:
            return heap_fault_set(f, "frames: a frame that belongs to no block",
                                  frame_address(&h->frames, s), NULL);
        }
        if (tag_order(tag) > MAX_ORDER || (i & (pages - 1)) || i + pages > end)
            return heap_fault_set(f, "frames: a misplaced block", frame_address(&h->frames, s),
                                  NULL);
        i += pages;
    }
    return true;
}

/* The frames of a hole share one page of descriptors, which nobody may change. */
static bool hole_validate(struct heap *h, u64 first, u64 end, struct heap_fault *f)
{
    end = MIN(MIN(end, h->frames.count), first + PAGE_SIZE / sizeof(struct frame));
    for (u64 i = first; i < end; i++) {
        const struct frame *s = &h->frames.at[i];

        if (frame_tag_load(s) != FRAME_RESERVED)
            return heap_fault_set(f, "frames: a frame in a hole that is not RESERVED",
                                  frame_address(&h->frames, s), NULL);
    }
    return true;
}

static bool frames_validate(struct heap *h, struct heap_fault *f)
{
    u64 free[MAX_NODES] = {0}, parked[MAX_NODES] = {0}, before = 0;

    for (u32 i = 0; i < h->spans; before = h->span[i++].end)
        if (!hole_validate(h, before, h->span[i].first, f) ||
            !span_validate(h, &h->span[i], free, parked, f))
            return false;
    for (unsigned node = 0; node < h->nodes; node++) {
        if (free[node] != h->buddy[node].pages_free)
            return heap_fault_set(f, "frames: free blocks and the buddy's count differ",
                                  (void *)(uintptr_t)free[node], NULL);
        if (parked[node] != pcp_node_pages(h, node))
            return heap_fault_set(f, "frames: parked blocks and the page caches' counts differ",
                                  (void *)(uintptr_t)parked[node], NULL);
    }
    return true;
}

bool front_object_validate(struct kmem_cache *c, void *obj, struct heap_fault *f)
{
    struct frame *s = frame_of(&c->heap->frames, obj);

    if (!s || frame_tag_load(s) != TAG_SLAB(c))
        return heap_fault_set(f, "front: holds an address that is not this cache's", obj, c);
    if (object_index(c, object_slab(c, obj), obj) >= c->capacity)
        return heap_fault_set(f, "front: holds an address that is no object", obj, c);
    if (c->objstate != V_objstate_off && object_found(c, obj) != STATE_WORD(OBJECT_CACHED))
        return heap_fault_set(f, "front: holds an object that is not CACHED", obj, c);
    return true;
}

static bool cache_validate(struct kmem_cache *c, struct heap_fault *f)
{
    struct balance b;

    if (!slab_validate(c, f))
        return false;
    if (c->limit && !c->front->validate(c, f))
        return false;
    cache_balance(c, &b);
    if (!b.holds)
        return heap_fault_set(f, "balance: allocations less frees are not what is in use",
                              (void *)(uintptr_t)(b.allocs - b.frees - b.in_use), c);
    return true;
}

bool heap_validate(struct heap *h, struct heap_fault *f)
{
    heap_drain_settle(h);
    for (unsigned node = 0; node < h->nodes; node++)
        if (!buddy_validate(&h->buddy[node], f))
            return false;
    if (!pcp_validate(h, f) || !frames_validate(h, f))
        return false;
    for (u32 i = 0; i < heap_cache_count(h); i++) {
        struct kmem_cache *c = heap_cache(h, i);

        if (c && !cache_validate(c, f))
            return false;
    }
    return true;
}
