/* shadow.c: the model of a heap's users; see shadow.h.
 *
 * Contents: every byte of a small block, and of a large one the ends and a few bytes of each page: a
 * block that overlaps another, or was handed out twice, differs in its ends.
 *
 * Locking: none; one thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shadow.h"

/* The fuzzer is to explore the heap, not its model: no coverage is kept here. */
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function)

void must(bool cond, const char *what)
{
    if (cond)
        return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* -- contents -- */

static u8 byte_at(const struct block *b, size_t at)
{
    return (u8)(b->seed + at * 7 + (at >> 8) * 31);
}

static size_t next_at(const struct block *b, size_t at)
{
    return b->size <= 1024 || at < 64 || at + 65 > b->size ? at + 1 : MIN(at + 509, b->size - 64);
}

void shadow_write(struct block *b)
{
    for (size_t at = b->made ? sizeof(u64) : 0; at < b->size; at = next_at(b, at))
        b->p[at] = byte_at(b, at);
}

void shadow_check(const struct block *b, size_t bytes)
{
    if (b->made)
        MUST(*(u64 *)(void *)b->p == MADE_MAGIC);
    for (size_t at = b->made ? sizeof(u64) : 0; at < MIN(b->size, bytes); at = next_at(b, at))
        MUST(b->p[at] == byte_at(b, at));
}

/* -- who has what -- */

void shadow_begin(struct shadow *s, struct heap *h)
{
    for (unsigned i = 0; i < SHADOW_GRAINS; i += PAGE_SIZE) /* all went back the last time */
        MUST(s->taken[i] == 0);
    s->h = h;
    s->count = 0;
    s->small = s->small_bytes = s->large = s->large_bytes = 0;
    memset(s->refused, 0, sizeof(s->refused));
    memset(s->in_use, 0, sizeof(s->in_use));
}

static u8 *grains(struct shadow *s, const struct block *b, size_t *n)
{
    size_t first = ((uintptr_t)b->p - s->h->frames.base) / SHADOW_GRAIN;

    *n = (b->bytes + SHADOW_GRAIN - 1) / SHADOW_GRAIN;
    MUST(first + *n <= SHADOW_GRAINS);
    return s->taken + first;
}

static void count(struct shadow *s, const struct block *b, bool in)
{
    u64 one = in ? 1 : ~(u64)0;
    size_t n;
    u8 *at = grains(s, b, &n);

    /* All were as none is to be: the first, and each like the one before it. */
    MUST(at[0] == !in && memcmp(at, at + 1, n - 1) == 0);
    memset(at, in, n);
    if (b->owner == OWNER_CACHE) {
        s->in_use[b->cache->id] += one;
        s->small += one;
        s->small_bytes += in ? b->cache->size : -(u64)b->cache->size;
    } else if (b->owner == OWNER_LARGE) {
        s->large += one;
        s->large_bytes += in ? PAGE_SIZE << b->order : -(u64)(PAGE_SIZE << b->order);
    }
}

struct block *shadow_add(struct shadow *s, struct block b)
{
    struct block *to = &s->live[s->count];

    MUST(!shadow_full(s));
    MUST(b.bytes >= b.size && b.size);
    MUST(frame_of(&s->h->frames, b.p) && frame_of(&s->h->frames, b.p + b.bytes - 1));
    count(s, &b, true);
    s->count++;
    *to = b;
    if (b.made)
        MUST(*(u64 *)(void *)b.p == MADE_MAGIC);
    shadow_write(to);
    return to;
}

void shadow_remove(struct shadow *s, struct block *b)
{
    count(s, b, false);
    *b = s->live[--s->count];
}

struct block *shadow_covering(struct shadow *s, const void *p)
{
    for (unsigned i = 0; i < s->count; i++)
        if ((const u8 *)p >= s->live[i].p && (const u8 *)p < s->live[i].p + s->live[i].bytes)
            return &s->live[i];
    return NULL;
}

/* -- what a free must say -- */

#define KIND(name) ((u32)1 << BADFREE_##name)

static bool page_aligned(const void *p)
{
    return ((uintptr_t)p & (PAGE_SIZE - 1)) == 0;
}

/* p lies in b. 0: taken. */
static u32 verdict(const struct block *b, enum door door, const u8 *p, const struct kmem_cache *c,
                   unsigned order)
{
    bool head = p < b->p + PAGE_SIZE; /* the head page of a block of pages */

    if (b->owner == OWNER_CACHE) {
        if (door == DOOR_PAGES || (door == DOOR_CACHE && c != b->cache))
            return KIND(wrong_cache);
        return p == b->p ? 0 : KIND(interior);
    }
    if (!head)
        return KIND(interior);
    if (b->owner == OWNER_LARGE) {
        if (door != DOOR_KFREE)
            return KIND(wrong_cache);
        return p == b->p ? 0 : KIND(interior);
    }
    if (door != DOOR_PAGES)
        return KIND(foreign);
    if (!page_aligned(p))
        return KIND(interior);
    return order == b->order ? 0 : KIND(wrong_order);
}

bool shadow_takes(struct shadow *s, enum door door, const void *p, const struct kmem_cache *c,
                  unsigned order, u32 *kinds)
{
    const struct block *b = shadow_covering(s, p);

    if (b)
        *kinds = verdict(b, door, p, c, order);
    else if (!frame_of(&s->h->frames, p))
        *kinds = KIND(foreign);
    else
        *kinds =
            KIND(double) | KIND(foreign) | KIND(interior) | KIND(wrong_cache) | KIND(free_page);
    return *kinds == 0;
}

/* -- the books -- */

void shadow_books(struct shadow *s)
{
    u64 g[NR_GLOBAL_COUNTERS] = {0}, node[NR_NODE_COUNTERS] = {0};
    struct balance b;

    for (u32 i = 0; i < heap_cache_count(s->h); i++) {
        struct kmem_cache *c = heap_cache(s->h, i);

        if (!c)
            continue;
        cache_balance(c, &b);
        MUST(b.holds);
        MUST(c->internal ||
             b.in_use == s->in_use[i]); /* a front end's own blocks are in nobody's books */
    }
    for (unsigned k = BADFREE_NONE + 1; k < NR_BADFREE_KINDS; k++)
        MUST(heap_badfree_count(s->h, (enum badfree_kind)k) == s->refused[k]);
    heap_global_gauges(s->h, g);
    if (s->h->stats_slab != V_stats_slab_off) {
        MUST(g[GLOBAL_small_allocs] - g[GLOBAL_small_frees] == s->small);
        MUST(g[GLOBAL_small_bytes] == s->small_bytes);
    }
    if (s->h->stats_large != V_stats_large_off) {
        MUST(g[GLOBAL_large_allocs] - g[GLOBAL_large_frees] == s->large);
        MUST(g[GLOBAL_large_bytes] == s->large_bytes);
    }
    heap_node_gauges(s->h, 0, node);
    MUST(node[NODE_pages_free] <= node[NODE_pages_total]);
}

#pragma clang attribute pop
