/* mm_impl.h: the structures behind mm.h, shared by the files of mm/ and by its tests.
 *
 * A frame (one 4 KiB page) has a descriptor with an ownership tag; the first frame of a block is
 * its head.
 *
 *   tag        who                     where
 *   NONE       nobody says             tails of free and of allocated blocks
 *   RESERVED   never managed           holes, descriptors, the kernel itself
 *   FREE       the buddy               head only
 *   PARKED     a CPU's page cache, or  head only; the buddy counts it as allocated
 *              on its way there or out
 *   PAGES      a caller of alloc_pages head only
 *   LARGE      a large kmalloc         head only
 *   RCU        a large block freed by  head only
 *              kfree_rcu
 *   SLAB       a slab cache            every frame of the slab, each with its head and cache
 *
 * One slab (2^order pages), objstate=header:
 *
 *   base                                                                              base + (4096
 *   << order) | lead | object 0 | zone | gap | head 1 | object 1 | zone | … | object n-1 | zone |
 *   unused |
 *            ^ 16-byte header before each object: link, state      ^ zone: red zone, if any
 *   slot = distance of neighbours, a multiple of the alignment.
 * objstate=side: objects from the base on, no headers; after them, on cache lines of their own, one
 * state byte for each granule, the largest power of two that divides slot. The byte of an object's
 * first granule is its state, the others are 0 for ever: an address is found by a shift, and one
 * that is no object's start finds nothing.
 *
 * Object states, and the only legal moves:
 *   1 FREE       in a slab's free list     → 2 (refill), 3 (allocation without a front end)
 *   2 CACHED     in a front end, or on its → 3 (allocation), 1 (spill, drain)
 *                way to a slab
 *   3 ALLOCATED  a user's                  → 2 or 4, by compare-and-swap only: the claim of a free
 *   4 RCU        freed by kfree_rcu, and   → 2, when its grace period is over
 *                readers may still look at it
 * Of two racing frees one wins the claim; the other finds CACHED, RCU or FREE and is refused as a
 * double free.
 *
 * Nodes (nodes=N): frames and CPUs are dealt out once, at boot. A node is a contiguous part of the frames
 * that ends at a whole largest block, so no two buddies are of different nodes, and a contiguous
 * part of the CPUs. A frame says whose it is; what lies in it, a block or a slab, is of that node for ever.
 * Who frees gives to the node of the frame, who allocates asks his CPU's node first, and then the
 * others in order, round about (heap_node_after).
 *
 * Locking (order as in lockclass.def):
 *   caches   heap.caches_lock  the cache table
 *   cache    cache_node.lock   that node's slab lists, free lists, counts; FREE objects
 *   page     buddy.lock        that node's buddy lists and counts; FREE tags
 *   per CPU  interrupts off    cache_cpu: count and objects
 * No lock of mm/ is held while another is taken, but for `page` under owner=lock; so never those of two
 * nodes. */
#ifndef MM_MM_IMPL_H
#define MM_MM_IMPL_H

#include "mm.h"
#include "../base/guard.h"
#include "../base/list.h"
#include "../base/poison.h"
#include "../base/string.h"

#define MAX_NODES       4u
#define MAX_SLAB_ORDER  4u
#define HEADER_BYTES    16u
#define FULL_ZONE_BYTES 16u /* red zone under poison=full */

/* Each cache has two names of locks at most, whatever its nodes: its slabs' and its barn's or depot's. Besides
 * these a kernel has the list of caches, each node's pages, each CPU's run queue, threads, RCU and console. */
_Static_assert(2 * MAX_CACHES + 1 + MAX_NODES + MAX_CPUS + 3 <= MAX_LOCKS,
               "every lock that a kernel can make has a row in the register");
_Static_assert(CACHE_NAME_MAX <= LOCK_OWNER_MAX, "a lock is named after its cache");

/* -- frames -- */

enum frame_tag {
    FRAME_SLAB, /* 0: the tag is the address of the cache, whose low bits are 0 (or TAG_INTERNAL) */
    FRAME_NONE,
    FRAME_RESERVED,
    FRAME_FREE,
    FRAME_PAGES,
    FRAME_LARGE,
    FRAME_PARKED,
    FRAME_RCU,
};

struct frame {
    u64 tag; /* atomic: TAG() on heads, TAG_SLAB() on every frame of a slab; by its owner alone */
    struct frame *head; /* every frame of a slab; written before the tag */
    struct list link;   /* head: a buddy or slab list, under that list's lock */
    void *freelist;     /* slab head: first FREE object; under the cache lock */
    u32 inuse; /* slab head: objects that left it, cached ones included; under the cache lock */
    u32 cpu;   /* LARGE head: that allocated it (matrix=on) */
    u32 taker; /* slab head: CPU + 1 that refills from it, 0: nobody; under the cache lock */
    u32 node;  /* fixed after init */
    union {
        u64 bytes;               /* LARGE head: as asked for */
        struct cache_node *home; /* slab head: whose lists it is on; fixed while it is a slab */
    };
} ALIGNED(CACHE_LINE);
_Static_assert(sizeof(struct frame) == 64, "a descriptor is one cache line");

/* One word says kind and order, or kind and cache, so that a free learns its owner from one
 * load. */
#define TAG(kind, order) ((u64)(kind) | (u64)(order) << 8)
#define TAG_INTERNAL                                                                               \
    8u /* beside SLAB: the cache is mm's own, and its objects are no user's to free */
#define TAG_SLAB(cache) ((u64)(uintptr_t)(cache) | ((cache)->internal ? TAG_INTERNAL : 0))
#define TAG_KIND(t)     ((enum frame_tag)((t)&7))
#define TAG_CACHE(t)    ((struct kmem_cache *)(uintptr_t)((t) & ~(u64)TAG_INTERNAL)) /* SLAB only */
#define TAG_ORDER(t)    ((unsigned)((t) >> 8))                                       /* not SLAB */
/* t is the address of a cache that users allocate from: all other tags have one of these bits. */
#define TAG_IS_USERS(t)    (((t)&15) == 0)
#define TAG_USERS_CACHE(t) ((struct kmem_cache *)(uintptr_t)(t))

static ALWAYS_INLINE u64 frame_tag_load(const struct frame *f)
{
    return __atomic_load_n(&f->tag, __ATOMIC_ACQUIRE);
}

static ALWAYS_INLINE void frame_tag_store(struct frame *f, u64 tag)
{
    __atomic_store_n(&f->tag, tag, __ATOMIC_RELEASE);
}

/* The claim of a freed block, *found → to (NONE or PARKED): of two racing frees one wins. *found
 * gets what was there. */
static ALWAYS_INLINE bool frame_claim_as(struct frame *f, u64 *found, u64 to)
{
    return __atomic_compare_exchange_n(&f->tag, found, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static ALWAYS_INLINE bool frame_claim(struct frame *f, u64 *found)
{
    return frame_claim_as(f, found, FRAME_NONE);
}

/* Maps addresses to descriptors: one array over [base, base + 4096 * count). Fixed after init. */
struct frames {
    uintptr_t base; /* aligned to the largest block, so that buddies pair up by number */
    u64 count;
    struct frame *at;
};

/* Not below fs->count if p is outside. */
static ALWAYS_INLINE u64 frame_number(const struct frames *fs, const void *p)
{
    return ((uintptr_t)p - fs->base) >> PAGE_SHIFT;
}

/* NULL if p is outside. */
static ALWAYS_INLINE struct frame *frame_of(const struct frames *fs, const void *p)
{
    u64 i = frame_number(fs, p);

    return likely(i < fs->count) ? &fs->at[i] : NULL;
}

static ALWAYS_INLINE void *frame_address(const struct frames *fs, const struct frame *f)
{
    return (void *)(fs->base + ((uintptr_t)(f - fs->at) << PAGE_SHIFT));
}

/* Frames first to end - 1, holes of some pages among them, have descriptors of their own. */
struct span {
    u64 first, end;
};

/* -- buddy -- */

struct node_row { /* one node, one CPU */
    u64 ctr[NR_NODE_COUNTERS];
} ALIGNED(CACHE_LINE);

/* -- latency.c -- */

struct latency_row {                               /* one CPU's; interrupts off */
    u32 left[NR_LATENCY_LEVELS][NR_LATENCY_CALLS]; /* calls until one is timed again */
    struct latency_hist hist[NR_LATENCY_LEVELS][NR_LATENCY_CALLS];
} ALIGNED(CACHE_LINE);

struct latency {
    struct latency_row *row; /* by CPU; NULL: off, or the CPUs are not known yet. Fixed then. */
    u32 every;
    u64 clock_cycles;
};

/* Makes the tables that latency= and matrix= ask for. Boot. */
NODISCARD bool latency_init(struct heap *h, unsigned cpus);
/* Counts a free of what CPU `from` allocated. */
void matrix_count(struct heap *h, u32 from);

#define BLOCK_FRAMES ((u64)1 << MAX_ORDER) /* of a largest block */

struct buddy {             /* a node's */
    struct frames *frames; /* fixed, as are the next two */
    u32 node;
    u64 first, end;          /* its frames, holes among them */
    struct latency *latency; /* NULL: calls are not timed; fixed */
    struct node_row *row;    /* CPU 0's, the others PLAT_CPU_STRIDE apart; one boot row at first */

    struct spinlock lock;
    struct list free[MAX_ORDER + 1]; /* under lock, as are the rest */
    u64 blocks[MAX_ORDER + 1];
    u64 pages_free; /* atomic reads elsewhere */
    u64 pages_total;
};

/* Frames first to end - 1 are its own. */
void buddy_init(struct buddy *b, struct frames *fs, u32 node, u64 first, u64 end,
                struct node_row *boot_row);
/* Hands over RESERVED frames [first, first + n) as free memory. Boot. */
void buddy_add(struct buddy *b, u64 first, u64 n);
NODISCARD struct frame *buddy_alloc(struct buddy *b, unsigned order);
/* The block's head tag must be claimed (NONE) by the caller. */
void buddy_free(struct buddy *b, struct frame *head, unsigned order);
/* Many of one order under one hold of the lock. alloc returns how many it got, and counts a failure
 * if none. */
NODISCARD unsigned buddy_alloc_bulk(struct buddy *b, unsigned order, struct frame **out,
                                    unsigned n);
void buddy_free_bulk(struct buddy *b, unsigned order, struct frame *const *head, unsigned n);
bool buddy_validate(struct buddy *b, struct heap_fault *f);

/* -- page caches -- */

#define PCP_ORDERS    6u
#define PCP_MAX_LIMIT 32u

struct pcp_stack { /* under pcp.busy; count is also read by anybody, relaxed */
    u32 count, limit, batch;
    struct frame *block[PCP_MAX_LIMIT]; /* [0] coldest */
};

struct pcp {         /* one CPU's */
    u32 busy;        /* the try-flag; atomic */
    struct buddy *b; /* its node's: the only one whose blocks are parked; fixed */
    u64 *row;        /* its own, of that node; fixed */
    struct pcp_stack stack[PCP_ORDERS];
} ALIGNED(CACHE_LINE);

/* -- caches -- */

enum cache_mode { /* bits of kmem_cache.mode: what a call does beside moving the object */
                  MODE_STAT_GLOBAL = 1,
                  MODE_POISON_FREE = 2, /* fill when freed */
                  MODE_POISON_FULL = 4, /* also fresh fill, red zone, and check of the free fill */
};

/* Where a CPU's objects are: nowhere (each comes from its slab), in its own part, in its main sheaf. */
enum front_shape { SHAPE_none, SHAPE_array, SHAPE_sheaf };

/* The bounded front end of one CPU. Owner CPU only, interrupts off; counters are read by anyone.
 *
 *   object[0] coldest … object[count-1] hottest, room up to limit
 * limit 0 is the sentinel: empty to every allocation, full to every free. A CPU that has no front
 * end, or no magazine yet, has it. */
struct cache_cpu {
    u64 count;
    u64 limit;
    u32 batch;
    bool on;      /* a front end serves this CPU: limit may be 0 all the same */
    bool filling; /* atomic: objects are on their way here, which count does not tell yet */
    struct cache_node *node; /* its own; fixed */
    struct frame
        *slab; /* that node's partial slab it refills from, or NULL; under that node's lock */
    struct sheaf *main;  /* front=sheaf, magazine: count objects are in it, room up to limit */
    struct sheaf *spare; /* or NULL */
    struct sheaf *rcu;   /* or NULL: gathers objects freed by kfree_rcu */
    u64 spare_count;     /* objects in spare */
    u64 ctr[NR_CACHE_COUNTERS];
    void *object[]; /* front=bounded */
} ALIGNED(CACHE_LINE);

/* The owner's store; samplers on other CPUs read the count (relaxed). */
static ALWAYS_INLINE void cache_cpu_count(struct cache_cpu *cc, u64 count)
{
    __atomic_store_n(&cc->count, count, __ATOMIC_RELAXED);
}

/* Around a refill. Whoever looks for memory counts the CPU among those that hold some, and asks it. */
static ALWAYS_INLINE void cache_cpu_filling(struct cache_cpu *cc, bool filling)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&cc->filling, filling, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define BOOT_CPU_BYTES (sizeof(struct cache_cpu))

/* objstate=side: where the states of a slab are. A slab is aligned to its size. */
struct side_shape {
    u64 within; /* slab bytes - 1 */
    u64 at;     /* from the slab's base to the states */
    u64 granules;
    u32 shift; /* log2 of a granule */
};

struct barn { /* front=sheaf; barn.c */
    struct spinlock lock;
    struct list full, empty; /* sheaves, by link; under lock, as are the rest */
    struct sheaf *partial;   /* or NULL; relaxed reads elsewhere, whether there is one */
    u32 fulls, empties;      /* the same, how many */
    u64 objects;             /* the same */
} ALIGNED(CACHE_LINE);

struct cache_node { /* one cache's, of one node */
    struct spinlock lock;
    struct list partial, full, empty; /* slab heads, by link; under lock, as are the rest */
    u32 empties;
    u64 partials;     /* relaxed reads elsewhere */
    u64 slabs;        /* the same */
    u64 free_objects; /* FREE ones, in all its slabs; relaxed reads elsewhere */
    struct barn barn; /* has a lock of its own */
} ALIGNED(CACHE_LINE);

/* front=magazine; depot.c. One a cache, whatever nodes= says: Bonwick's has no nodes. Magazines of one kind; under depot.lock. */
struct mag_list {
    struct list list;
    u32 total;           /* relaxed reads elsewhere */
    u32 min, min_before; /* the lowest total in this interval; in the one before */
    u32 reap;            /* how many are to be given back */
};
#define MAG_TYPES 9u
struct depot {
    struct spinlock lock;
    struct mag_list full, empty; /* under lock, as are the rest */
    struct mag_list stale;       /* of another size, whatever is in them */
    u64 objects;                 /* relaxed reads elsewhere */
    u32 work;                    /* magazines to give back; the same */
    u32 size;                    /* objects in a magazine; the same */
    u32 type, start;             /* which size that is, and which it was at first */
    u32 quiet;                   /* intervals in a row in which a smaller one would have done */
    u64 until;                   /* cycles: end of the interval; 0: none has begun */
    u64 visits, contended;       /* in it */
    u64 left_at[MAG_TYPES];      /* visits of the interval in which a size was left for the next */
} ALIGNED(CACHE_LINE);

/* What a front end is, off the fast path. Chosen when the cache is made; NULL: the cache has none.
 * Where a CPU's part (cc) is passed, it is the calling CPU's, interrupts are off and no lock is
 * held. */
struct front_ops {
    enum front_shape shape;
    /* Sets c->limit and c->batch, each at least 1. */
    void (*size)(const struct heap *h, struct kmem_cache *c);
    /* Makes, and undoes, what a CPU's part has besides its array; thread context, cc any CPU's that is
     * not in use yet, or no more and empty. exit undoes what size made, for a cache that nobody has seen. May be NULL. */
    bool (*cpu_init)(struct kmem_cache *c, struct cache_cpu *cc);
    void (*cpu_exit)(struct cache_cpu *cc);
    void (*exit)(struct kmem_cache *c);
    /* The CPU's array is empty: one CACHED object, and some for the next calls. NULL: shortage. *own gets
     * whether what the CPU held elsewhere was enough, so that no lock was taken: the call is a fast one then. */
    void *(*refill)(struct kmem_cache *c, struct cache_cpu *cc, bool *own);
    /* Takes a CACHED object; makes room first if there is none. Returns the same. */
    bool (*put)(struct kmem_cache *c, struct cache_cpu *cc, void *obj);
    /* Either may be NULL. The same two up to the end of the caller's call, in one function: they
     * count it, restore interrupts, and for an allocation move the object to ALLOCATED. */
    void *(*alloc)(struct kmem_cache *c, size_t size, unsigned long flags, struct cache_cpu *cc);
    bool (*free)(struct kmem_cache *c, void *obj, unsigned long flags, struct cache_cpu *cc);
    /* Takes an object in state RCU until its grace period is over; false: it has no place for it.
     * Hands in what it holds so far. May be NULL. */
    bool (*put_rcu)(struct kmem_cache *c, struct cache_cpu *cc, void *obj);
    void (*rcu_post)(struct kmem_cache *c, struct cache_cpu *cc);
    /* What belongs to no CPU, to the slabs; how many objects. Interrupts off. May be NULL. */
    unsigned (*shrink)(struct kmem_cache *c);
    /* Time has passed; memory is short, and shrink comes next. Interrupts off. May be NULL. */
    void (*maintain)(struct kmem_cache *c);
    void (*shortage)(struct kmem_cache *c);
    /* Gives everything back to the slabs; how many objects and sheaves. In destroy cc may be any CPU's. */
    unsigned (*drain)(struct kmem_cache *c, struct cache_cpu *cc);
    u64 (*held)(const struct kmem_cache *c); /* objects, all CPUs; relaxed loads, any context */
    bool (*validate)(struct kmem_cache *c, struct heap_fault *f); /* at a quiet point */
};

/* Allocating from a cache and freeing to it; obj lies in a slab of c. ways.c has all that there are. */
struct cache_calls {
    void *(*alloc)(struct kmem_cache *c, size_t size);
    bool (*free)(struct kmem_cache *c, void *obj);
};

/* How slabs are reached, so that timing costs nothing while off (slab_take and others, below). */
struct slab_calls {
    unsigned (*take)(struct kmem_cache *c, void **out, unsigned n);
    void (*put)(struct kmem_cache *c, void *const *obj, unsigned n);
    void *(*take_one)(struct kmem_cache *c);
    void (*put_one)(struct kmem_cache *c, void *obj);
};

/* A cache's life; visit.c says who may touch what in which. */
enum cache_life {
    CACHE_LIVE,
    CACHE_DYING,  /* being destroyed: visitors leave it alone from now on */
    CACHE_DEAD,   /* no slab, no object; waits for a cache of the same name */
    CACHE_MAKING, /* being made again */
};

struct kmem_cache {
    /* fixed after creation */
    struct heap *heap;
    const struct front_ops *front;
    /* The CPU's array is empty, or full: the front's own, or those that go by its refill and put.
     * Without a front end, and until the CPUs have arrays: straight to the slabs. */
    void *(*alloc_slow)(struct kmem_cache *c, size_t size, unsigned long flags,
                        struct cache_cpu *cc);
    bool (*free_slow)(struct kmem_cache *c, void *obj, unsigned long flags, struct cache_cpu *cc);
    struct carry_cpu *carry; /* the heap's, at hand */
    char *cpu_base; /* cache_cpu of CPU 0, the others PLAT_CPU_STRIDE apart; boot_cpu at first */
    u32 cpu_bytes;  /* of each part, once it is in the heap's region; 0 before */
    u32 mode;       /* enum cache_mode bits */
    enum front_shape shape;
    struct cache_calls calls, inner; /* inner: without what latency= and matrix= see */
    enum knob_value objstate;
    u32 size;        /* usable bytes */
    u32 slot;        /* distance between objects */
    u32 lead;        /* from the slab's base to object 0 */
    u32 capacity;    /* objects in a slab */
    u32 zone;        /* red zone bytes after each object */
    u32 link_offset; /* of the free-list link in an object that has no header */
    u32 order;
    u32 limit, batch; /* of each CPU's array; 0: no front end */
    u32 asked;        /* capacity of its front end that it asks for; 0: none */
    bool internal;    /* serves mm/ itself: no front end, nobody's calls */
    u64 slot_inverse; /* ceil(2^32 / slot): index = offset * inverse >> 32 */
    u32 start_bound;  /* objstate=off: see object_placed() */
    struct side_shape side;
    void (*ctor)(void *obj);
    void (*dtor)(void *obj);
    struct slab_calls slabs;
    u32 id;
    u32 life; /* atomic: enum cache_life */
    char name[CACHE_NAME_MAX];
    u8 boot_cpu[BOOT_CPU_BYTES] ALIGNED(
        CACHE_LINE); /* a cache_cpu without room, for the time before the CPUs */

    struct cache_node node[MAX_NODES];
    struct depot depot;
};

/* Destroyed, and not made again: nobody's to allocate from. */
static inline bool cache_is_dead(const struct kmem_cache *c)
{
    return __atomic_load_n(&c->life, __ATOMIC_ACQUIRE) == CACHE_DEAD;
}

/* The order of the block whose head carries tag. */
static inline unsigned tag_order(u64 tag)
{
    return TAG_KIND(tag) == FRAME_SLAB ? TAG_CACHE(tag)->order : TAG_ORDER(tag);
}

static ALWAYS_INLINE struct cache_cpu *cache_cpu(const struct kmem_cache *c, unsigned cpu)
{
    return (struct cache_cpu *)(void *)(c->cpu_base + PLAT_CPU_STRIDE * cpu);
}

static ALWAYS_INLINE struct cache_cpu *cache_cpu_mine(const struct kmem_cache *c)
{
    return plat_cpu_part(c->cpu_base);
}

/* -- the heap -- */

struct stat_line { /* the shared statistics of stats.*=global: one contended line, on purpose */
    u64 allocs, frees, live, bytes;
} ALIGNED(CACHE_LINE);

struct cpu_row {
    u64 ctr[NR_CPU_COUNTERS];
} ALIGNED(CACHE_LINE);

/* One CPU's objects that wait for a grace period, the plain way. Its CPU, interrupts off. */
struct rcu_batch {
    struct rcu_head head; /* for call_rcu, while posted */
    struct heap *heap;
    struct rcu_head *open;    /* gathering, in the objects themselves */
    struct rcu_head *waiting; /* for the grace period that head was handed in for */
    bool posted;
} ALIGNED(CACHE_LINE);

/* What other CPUs ask of one CPU when memory is short. reclaim.c; docs/RACES.md 2.23 */
struct drain_cpu {
    u64 asked;    /* atomic: the latest request */
    u64 served;   /* atomic, written by its CPU: the latest after which its arrays were empty */
    u64 given_up; /* atomic: the latest that somebody waited for in vain */
} ALIGNED(CACHE_LINE);

/* How often a CPU has picked up memory that nobody holds, to put it elsewhere, and how often it has put it
 * down. Its CPU, interrupts off; read by anybody. reclaim.c; docs/RACES.md 2.26 */
struct carry_cpu {
    u64 begun, ended;
} ALIGNED(CACHE_LINE);

/* Who visits caches. visit.c */
struct visits {
    u32 phase;  /* atomic: 0 or 1 */
    u32 in[2];  /* atomic: visits that began in that phase and are not over */
    u32 waiter; /* atomic: a destroyer waits */
} ALIGNED(CACHE_LINE);

/* Internal caches that sheaves come from: blocks of 64 to 2048 bytes. Made with the first cache that
 * says it will need some; a sheaf that is wanted without them is a page. */
#define SHEAF_POOLS    6u
#define SHEAF_POOL_MIN ((size_t)64)
enum { POOLS_NONE, POOLS_IN_THE_MAKING, POOLS_MADE };

struct heap {
    struct heap_calls calls; /* first: mm.h calls by it */
    /* fixed after init */
    struct frames frames;
    u64 plain_frames; /* frames whose owner is read without a lock: all, or none (owner=lock) */
    bool owner_lock;  /* owner=lock */
    bool badfree_panic;
    enum knob_value stats_slab, stats_large, poison, front, objstate;
    bool typed_direct; /* typed=direct: only kmalloc's classes have a front end */
    u32 min_partial, bounded_objects, bounded_bytes;
    u32 sheaf_cap, barn_full, barn_empty;
    bool prefill_barn, barn_partial, barn_swap;
    bool mag_resize;
    u64 mag_interval;            /* ms */
    struct rcu_batch *rcu_batch; /* CPU 0's, others PLAT_CPU_STRIDE apart; the boot one at first */
    struct drain_cpu *drain;     /* CPU 0's, others PLAT_CPU_STRIDE apart; NULL: one CPU runs */
    struct carry_cpu *carry;     /* the same; the boot one at first */
    struct cpu_row *cpu_row;     /* CPU 0's, others PLAT_CPU_STRIDE apart; the boot row at first */
    unsigned cpus;               /* that have rows; 0: only the boot CPU runs */
    struct pcp *pcp;             /* CPU 0's, others PLAT_CPU_STRIDE apart; NULL: no page caches */
    bool latency_on, matrix_on;
    struct latency latency;
    u64 *matrix; /* [freeing CPU][MAX_CPUS allocating CPUs]; NULL: off, or too early */
    bool pcp_on;
    u32 pcp_orders; /* orders below it go the short way to page caches: PCP_ORDERS, or 0 without pcp, under latency=on and with nodes */
    bool
        large_plain; /* page caches, no shared statistics, no fills: large blocks go the short way */
    u32 pcp_limit[PCP_ORDERS];
    char *region;    /* PLAT_CPU_STRIDE bytes a CPU, handed out from the start of each */
    u32 region_used; /* bytes of each part; under caches_lock */
    struct kmem_cache *by_size[KMALLOC_MAX_SMALL / KMALLOC_ALIGN]; /* by (size - 1) / 16 */
    struct kmem_cache kmalloc[KMALLOC_CLASSES];
    struct kmem_cache sheaf_pool[SHEAF_POOLS];
    u32 pools;      /* atomic: POOLS_NONE, … */
    u32 pools_made; /* how many of them; by whoever makes them */

    u32 nodes;             /* fixed after init */
    u8 cpu_node[MAX_CPUS]; /* fixed once the CPUs have rows; 0 before */
    struct buddy buddy[MAX_NODES];

    struct span *span; /* fixed after init; sorted; the last may end behind the last frame */
    u32 spans;
    struct span all; /* the only one, where no hole is large */

    struct spinlock caches_lock;
    struct kmem_cache *cache[MAX_CACHES]; /* under caches_lock; entries never change once set */
    u32 caches;                           /* atomic */

    struct visits visits;
    u32 destroys;      /* atomic: that are under way */
    u64 destroys_over; /* atomic */

    struct stat_line stat_small, stat_large;
    u64 badfree[NR_BADFREE_KINDS]; /* atomic */
    void (*badfree_handler)(const struct badfree_report *);
    void (*resize_handler)(const struct resize_report *);

    struct node_row boot_node_row[MAX_NODES];
    struct cpu_row boot_cpu_row;
    struct rcu_batch boot_rcu_batch; /* stays in use until what it holds is freed */
    struct carry_cpu boot_carry;
};

/* A CPU's part of something that lies in the region. */
static ALWAYS_INLINE void *cpu_part(void *cpu0, size_t offset)
{
    return (char *)cpu0 + offset;
}

static ALWAYS_INLINE u64 *heap_cpu_counters(struct heap *h)
{
    return ((struct cpu_row *)plat_cpu_part(h->cpu_row))->ctr;
}

/* In a visit: c keeps its shape, slabs and arrays until the visit ends. */
static ALWAYS_INLINE bool cache_alive(const struct kmem_cache *c)
{
    return __atomic_load_n(&c->life, __ATOMIC_SEQ_CST) == CACHE_LIVE;
}

/* Brackets what moves memory that nobody holds: from an array, a barn or a depot to a slab, from a slab to the
 * buddy, and from the buddy to a slab or a page cache. So a call that has looked everywhere and found nothing
 * knows whether something was on its way meanwhile. What only adds to a CPU's arrays needs none: that CPU
 * holds something then, or says that it is filling, and is asked (docs/RACES.md 2.26). Interrupts off; pairs
 * may nest. */
NODISCARD static ALWAYS_INLINE struct carry_cpu *carry_begin(struct carry_cpu *cpu0)
{
    struct carry_cpu *k = plat_cpu_part(cpu0);

    plat_counter_add(&k->begun, 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return k;
}

static ALWAYS_INLINE void carry_end(struct carry_cpu *k)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    plat_counter_add(&k->ended, 1);
}

/* anything: false if there was nothing to move. Two calls that find nothing do not disturb each other so. */
static ALWAYS_INLINE void carry_end_if(struct carry_cpu *k, bool anything)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (likely(anything))
        plat_counter_add(&k->ended, 1);
    else
        plat_counter_add(&k->begun, ~(u64)0);
}

/* -- nodes -- */

/* The node of the calling CPU; where interrupts are on, of one that it was on a moment ago. */
static inline unsigned heap_node_mine(const struct heap *h)
{
    return h->cpu_node[plat_cpu_id()];
}

/* The i-th node that who is at home on node asks: 0 is node itself. */
static inline unsigned heap_node_after(const struct heap *h, unsigned node, unsigned i)
{
    return (node + i) % h->nodes;
}

/* The buddy that a frame comes from and goes back to. */
static ALWAYS_INLINE struct buddy *buddy_of(struct heap *h, const struct frame *f)
{
    return &h->buddy[f->node];
}

/* The descriptors stand right behind the heap, so the fast path needs no pointer to them. */
#define HEAP_BYTES round_up(sizeof(struct heap), (size_t)PAGE_SIZE)

static ALWAYS_INLINE struct frame *heap_frame(struct heap *h, u64 i)
{
    return (struct frame *)(void *)((char *)h + HEAP_BYTES) + i;
}

extern const u16 kmalloc_sizes[KMALLOC_CLASSES]; /* heap.c */

/* Refuses a free: counts, reports, or panics. Returns false. badfree.c */
COLD bool badfree(struct heap *h, enum badfree_kind kind, const void *p, u64 found,
                  const struct kmem_cache *c);
/* What a frame that owns nothing says of p. */
COLD enum badfree_kind badfree_kind_of(struct heap *h, const void *p);

/* Gives back what can be had without waiting for anybody: this CPU's arrays, every cache's empty
 * slabs. No lock may be held. reclaim.c */
void heap_reclaim(struct heap *h);
/* A user's call that is about to end in NULL; all 0 before its first try. */
struct shortage {
    u64 until;      /* cycles: no waiting, and no try, after that; 0: none has begun */
    u64 moves;      /* how much had been moved before the last try */
    unsigned tries; /* that were made for the sake of it alone */
    bool seen;      /* moves was read */
};
/* Asks other CPUs for what their arrays hold, and waits for it, if the caller may. True: it is worth
 * another try: somebody gave something back, or moved something while the last try looked. Interrupts
 * as the call's user has them, no lock held. reclaim.c */
NODISCARD bool heap_drain_others(struct heap *h, struct shortage *s);
/* For quiet points: waits, a moment at most, until requests that nobody waits for any more are served.
 * Thread context. */
void heap_drain_settle(struct heap *h);

/* Waits until every visit that began before this call is over. Thread context, in no visit. visit.c */
void heap_visits_wait(struct heap *h);

/* pcp.c; order < PCP_ORDERS and heap.pcp is set. get: NULL when the buddy has none either. */
NODISCARD struct frame *pcp_get(struct heap *h, unsigned order);
void pcp_put(struct heap *h, struct frame *f, unsigned order); /* claimed: NONE */
/* The same for a block that is tagged PARKED already and that pcp_push() had no room for. True, so
 * that it can end a free without a frame. */
bool pcp_put_full(struct heap *h, struct frame *f, unsigned order);
u64 pcp_drain_all(struct heap *h); /* every CPU's; pages given back. No lock held. */
NODISCARD bool pcp_init(struct heap *h, unsigned cpus);
u64 pcp_pages(const struct heap *h);
u64 pcp_node_pages(const struct heap *h,
                   unsigned node); /* that its CPUs park: all of them its own */
bool pcp_validate(struct heap *h, struct heap_fault *f);

/* pages.c: raw blocks for the layers of mm/; no statistics, one reclaim if short. */
NODISCARD struct frame *pages_get(struct heap *h, unsigned order);
/* The same for a user's call: asks other CPUs too (heap_drain_others). pages_get_short: its end, after NULL. */
NODISCARD COLD struct frame *pages_get_short(struct heap *h, unsigned order);
NODISCARD static ALWAYS_INLINE struct frame *pages_get_waiting(struct heap *h, unsigned order)
{
    struct frame *f = pages_get(h, order);

    return likely(f) ? f : pages_get_short(h, order);
}
void pages_put(struct heap *h, struct frame *head, unsigned order);
/* A block straight from the buddies: the calling CPU's node's, then the others'. elsewhere: but
 * node's. NULL: none of them has one. */
NODISCARD struct frame *buddies_alloc(struct heap *h, unsigned order);
NODISCARD struct frame *buddies_alloc_elsewhere(struct heap *h, unsigned node, unsigned order);
u64 pages_owner_locked_read(struct heap *h, const struct frame *f);
u64 pages_owner_locked_read_node0(struct heap *h, const struct frame *f); /* nodes=1 */
/* The tag, read as owner= says. */
static ALWAYS_INLINE u64 pages_owner(struct heap *h, const struct frame *f)
{
    return unlikely(h->owner_lock) ? pages_owner_locked_read(h, f) : frame_tag_load(f);
}
void *large_alloc(struct heap *h, size_t size);
bool large_free(struct heap *h, struct frame *f, u64 tag, void *p);
/* The two halves of it for kfree_rcu: claimed and counted; then given back. */
bool large_free_rcu(struct heap *h, struct frame *f, u64 tag, void *p);
void large_rcu_over(struct heap *h, struct frame *f);

/* kmalloc.c: what is no object of a slab. */
NOINLINE void *kmalloc_other(struct heap *h, size_t size); /* 0, or larger than the largest class */
NOINLINE bool kfree_other(struct heap *h, void *p, u64 tag); /* p's frame has that tag, no slab's */
NOINLINE bool kfree_outside(struct heap *h, void *p); /* NULL, kmalloc(0)'s, outside memory */

/* ways.c: how calls are made, once limit, mode and the like are set. */
void cache_way(struct kmem_cache *c);
void heap_way(struct heap *h);

/* slab.c */
void slab_geometry(struct kmem_cache *c, size_t align);
void slab_node_init(struct cache_node *n, const char *name);
/* Takes up to n objects, in address order within a slab, growing the cache if it has none; they
 * become CACHED. Interrupts off, no lock held. Returns how many; 0 is shortage. */
NODISCARD static ALWAYS_INLINE unsigned slab_take(struct kmem_cache *c, void **out, unsigned n)
{
    return c->slabs.take(c, out, n);
}
/* Takes back CACHED objects. Interrupts off, no lock held. */
static ALWAYS_INLINE void slab_put(struct kmem_cache *c, void *const *obj, unsigned n)
{
    c->slabs.put(c, obj, n);
}
/* One object, ALLOCATED at once; NULL: shortage. And one back. The same otherwise. */
NODISCARD static ALWAYS_INLINE void *slab_take_one(struct kmem_cache *c)
{
    return c->slabs.take_one(c);
}
static ALWAYS_INLINE void slab_put_one(struct kmem_cache *c, void *obj)
{
    c->slabs.put_one(c, obj);
}
/* c->slabs, as latency= says. */
void slab_ways(struct kmem_cache *c);
unsigned slab_shrink(struct kmem_cache *c);
bool slab_validate(struct kmem_cache *c, struct heap_fault *f);

extern const struct front_ops front_bounded;  /* front_bounded.c */
extern const struct front_ops front_sheaf;    /* front_sheaf.c */
extern const struct front_ops front_magazine; /* front_magazine.c */
/* An object that a front end holds must be one of c's, and CACHED. validate.c */
bool front_object_validate(struct kmem_cache *c, void *obj, struct heap_fault *f);

/* cache.c */
/* Makes the caches that sheaves come from; false: no memory, or no place in the table. Whoever asks
 * again later tries again. Thread context. heap.c */
NODISCARD bool sheaf_pools_make(struct heap *h);
/* ALLOCATED → RCU, and counted as a free; false: refused. */
NODISCARD bool cache_claim_rcu(struct kmem_cache *c, void *obj);
/* RCU → CACHED: its grace period is over. Interrupts off. */
void cache_rcu_over(struct kmem_cache *c, void *obj);
/* n such objects are where they belong: the last that their callback does to c, since a destroy waits until
 * none is left. */
void cache_rcu_freed(struct kmem_cache *c, u64 n);
/* A CACHED object on no list goes to this CPU's front end, or its slab; counts no call. Interrupts
 * off. */
void cache_put_back(struct kmem_cache *c, void *obj);
void cache_setup(struct heap *h, struct kmem_cache *c, const struct kmem_cache_args *a);
/* Takes the locks of a cache that nobody will use out of the register. */
void cache_locks_destroy(struct kmem_cache *c);
/* Makes (or makes anew, keeping the counts) the arrays of all CPUs. */
NODISCARD bool cache_cpus_init(struct kmem_cache *c, unsigned cpus);
/* Enters c into the table; false if it is full. */
NODISCARD bool cache_register(struct heap *h, struct kmem_cache *c);
void cache_drain_cpu(struct kmem_cache *c, unsigned cpu); /* interrupts off, own CPU */

/* bytes of each CPU's part, zeroed; the address of CPU 0's. NULL: no room left. heap.c */
void *region_alloc(struct heap *h, size_t bytes);
/* Zeroed pages for tables that live as long as the heap; NULL on shortage. heap.c */
void *table_alloc(struct heap *h, size_t bytes);
void table_free(struct heap *h, void *p, size_t bytes);

/* Fills *f; returns false. validate.c */
COLD bool heap_fault_set(struct heap_fault *f, const char *what, const void *at,
                         const struct kmem_cache *c);

#endif
