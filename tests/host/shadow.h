/* shadow.h: a model of a heap that knows only what its users know: who was given which bytes, what they
 * wrote there, and how many are out. It is right by being simple: an array of live blocks, searched.
 *
 * It says of any address which door takes it (is it live, and whose?) or with which kinds of bad free it
 * may be refused. What an address that no live block covers says depends on what the heap did with the
 * memory since, so any kind will do there; that it is refused, and counted once, will not vary.
 *
 * Locking: none; one thread. */
#ifndef TESTS_HOST_SHADOW_H
#define TESTS_HOST_SHADOW_H

#include "../../mm/mm_impl.h"

#define SHADOW_BLOCKS 1024u
#define SHADOW_GRAIN  16u /* every block begins and ends on such a boundary, or rounds up to it */
#define SHADOW_GRAINS (((size_t)16 << 20) / SHADOW_GRAIN)

enum owner { OWNER_CACHE, OWNER_LARGE, OWNER_PAGES };
enum door { DOOR_KFREE, DOOR_CACHE, DOOR_PAGES };

struct block {
    u8 *p;
    size_t size;  /* as asked for: what the user may touch */
    size_t bytes; /* what the heap set aside for it */
    enum owner owner;
    struct kmem_cache *cache; /* OWNER_CACHE */
    unsigned order;           /* OWNER_LARGE, OWNER_PAGES */
    u8 seed;                  /* of what was written */
    bool made;                /* begins with what a constructor left there */
};

struct shadow {
    struct heap *h;
    struct block live[SHADOW_BLOCKS];
    unsigned count;
    u64 small_bytes, large_bytes, small, large;
    u64 in_use[MAX_CACHES];
    u8 taken[SHADOW_GRAINS];       /* 1 under a live block */
    u64 refused[NR_BADFREE_KINDS]; /* expected so far */
};

#define MADE_MAGIC 0x6d61646562796374u

void must(bool cond, const char *what);
#define MUST(cond) must((cond), #cond)

static inline bool shadow_full(const struct shadow *s)
{
    return s->count == SHADOW_BLOCKS;
}

/* Begins anew, with nothing live. */
void shadow_begin(struct shadow *s, struct heap *h);
/* A block was handed out: it overlaps no other, and is written full. */
struct block *shadow_add(struct shadow *s, struct block b);
/* A block goes back: its contents must be what was written. */
void shadow_remove(struct shadow *s, struct block *b);
/* Every byte that was written is still there. */
void shadow_check(const struct block *b, size_t bytes);
void shadow_write(struct block *b);
struct block *shadow_covering(struct shadow *s, const void *p);
/* True if that door must take p; else *kinds gets the kinds (bits) with which it may be refused. */
bool shadow_takes(struct shadow *s, enum door door, const void *p, const struct kmem_cache *c,
                  unsigned order, u32 *kinds);
/* Counts, statistics and the balance law, against what is live. */
void shadow_books(struct shadow *s);

#endif
