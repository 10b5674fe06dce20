/* mm.h: the door of mm/. Pages, caches and kmalloc, on objects the caller owns: nothing here is a
 * singleton and nothing here knows how memory was found, printed about or measured.
 *
 * Units: sizes are bytes, orders are log2 of pages. Shortage returns NULL or false. A bad free is
 * refused and counted, or fatal, by badfree=. Contexts: thread and interrupt, unless said
 * otherwise; never NMI. Names are Linux's where Linux has one. */
#ifndef MM_MM_H
#define MM_MM_H

#include "../sync/sync.h"

#define MAX_ORDER         10u /* largest buddy block: 4 MiB */
#define KMALLOC_CLASSES   17u
#define KMALLOC_MAX_SMALL 8192u
#define KMALLOC_ALIGN     16u
#define ZERO_SIZE_PTR     ((void *)16) /* kmalloc(0): not NULL, may be freed, not dereferenced */
#define CACHE_NAME_MAX    32
#define MAX_CACHES        64u /* kmem_cache_create() of one more gives NULL */

struct heap;
struct kmem_cache;

/* A piece of usable memory, page aligned. */
struct mem_range {
    void *base;
    u64 pages;
};

/* Builds a heap from ranges (sorted, disjoint), however far apart they are. Memory for descriptors is taken
 * from them. Returns NULL if they are too small, for one heap or for so many nodes; *need then says how many
 * bytes would do, which are more than they have. */
struct heap *heap_init(const struct knobs *k, const struct mem_range *ranges, unsigned n,
                       u64 *need);
/* Makes per-CPU rows and arrays for all CPUs. Until it returns every front end is bypassed. Called
 * once, before the CPU count is published; allocation is legal before, during (from the boot CPU)
 * and after. */
NODISCARD bool heap_cpus_init(struct heap *h, unsigned cpus);

/* -- pages -- */
NODISCARD void *alloc_pages(struct heap *h, unsigned order);
bool free_pages(struct heap *h, void *block, unsigned order); /* false: refused as a bad free */

/* -- kmalloc -- */
/* The two calls that are made most, done as the boot's arguments say: chosen once, with the heap, and its
 * first words. So an arm pays for what it does and not for being asked which arm it is (ways.c). */
struct heap_calls {
    void *(*kmalloc)(struct heap *h, size_t size);
    bool (*kfree)(struct heap *h, void *p);
};
NODISCARD static ALWAYS_INLINE void *heap_kmalloc(struct heap *h, size_t size)
{
    return ((const struct heap_calls *)(const void *)h)->kmalloc(h, size);
}
/* NULL is fine; false: refused as a bad free */
static ALWAYS_INLINE bool heap_kfree(struct heap *h, void *p)
{
    return ((const struct heap_calls *)(const void *)h)->kfree(h, p);
}
/* In place while the block is large enough, else it moves, and is then aligned to KMALLOC_ALIGN
 * only. NULL: shortage, or p was refused as a bad free; a good p is untouched. */
NODISCARD void *heap_krealloc(struct heap *h, void *p, size_t size);
/* On a boundary of align, a power of two up to the largest block (else NULL; 0: KMALLOC_ALIGN).
 * Freed by heap_kfree. May take a page for a small object: for many, make a cache. */
NODISCARD void *heap_kmalloc_aligned(struct heap *h, size_t size, size_t align);
NODISCARD void *heap_krealloc_aligned(struct heap *h, void *p, size_t size, size_t align);
/* Frees n blocks of any kind and size, NULLs among them; returns how many were not refused. */
size_t heap_kfree_bulk(struct heap *h, size_t n, void *const *p);
/* Frees p (kmalloc's, or a cache's) when every reader that may see it now is gone. head lies in p's usable
 * bytes, else it is a bad free, and is the allocator's from now on. Counted as a free at once; a second free is refused at once.
 * False: refused. Never waits; thread and interrupt. */
bool heap_kfree_rcu(struct heap *h, void *p, struct rcu_head *head);
/* Waits until all that any CPU freed so before is free. Thread context on CPU 0, as rcu_barrier. */
void heap_kfree_rcu_barrier(struct heap *h);
size_t heap_ksize(struct heap *h, const void *p); /* usable bytes; 0: p is no live block */

/* -- caches -- */
struct kmem_cache_args {
    const char *name;
    size_t size;
    size_t align; /* 0: KMALLOC_ALIGN; a power of two up to PAGE_SIZE */
    /* ctor runs once an object, when its slab is made, and dtor when it goes. In between an object is
     * kept, in slab or front end, as its user left it: free it constructed. */
    void (*ctor)(void *obj);
    void (*dtor)(void *obj);
    /* Objects that its front end should hold for each CPU, which is also what a prefill can have
     * without going to the slabs; 0: the front end decides. Where no front end serves the cache
     * (front=none, typed=direct) it is only what a prefill is expected to ask for. */
    unsigned front_capacity;
};
NODISCARD struct kmem_cache *kmem_cache_create(struct heap *h, const struct kmem_cache_args *args);
NODISCARD void *kmem_cache_alloc(struct kmem_cache *c);
bool kmem_cache_free(struct kmem_cache *c, void *obj);
/* All n objects into out[], or none and false; what out[] holds then means nothing. */
NODISCARD bool kmem_cache_alloc_bulk(struct kmem_cache *c, size_t n, void **out);
/* Each as kmem_cache_free() would: bad ones are refused, the others freed. Returns how many were. */
size_t kmem_cache_free_bulk(struct kmem_cache *c, size_t n, void *const *obj);
/* -- objects fetched beforehand (prefill.c): works under every front end -- */
struct sheaf;
/* At least n objects, so that n allocations from it cannot fail. NULL: shortage. */
NODISCARD struct sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *c, unsigned n);
/* NULL: it is empty. */
NODISCARD void *kmem_cache_alloc_from_sheaf(struct kmem_cache *c, struct sheaf *s);
/* Brings it (*s may become another) up to at least n objects again; false: shortage, and *s has what
 * it had, or more. */
NODISCARD bool kmem_cache_refill_sheaf(struct kmem_cache *c, struct sheaf **s, unsigned n);
/* With whatever is left in it; s means nothing afterwards. */
void kmem_cache_return_sheaf(struct kmem_cache *c, struct sheaf *s);
unsigned kmem_cache_sheaf_size(const struct sheaf *s); /* objects left */

/* Gives empty slabs back; returns how many. Drains this CPU's part of the front end first, and what
 * the front end has in common. */
unsigned kmem_cache_shrink(struct kmem_cache *c);
/* False and *busy objects while any is in use; false and 0 if c is destroyed already. Nobody uses the cache
 * during the call. Waits for visitors (heap_visit_begin) and for what kfree_rcu still holds; empties every
 * CPU's arrays. True: c is dead, no destructor runs any more, and until one of its name is made again every
 * allocation from it is NULL or false and every free to it is refused. Thread context, in no visit; on CPU 0
 * and outside plat_run_on_cpus() if kfree_rcu may hold an object of the cache. */
NODISCARD bool kmem_cache_destroy(struct kmem_cache *c, u64 *busy);

/* Empties the calling CPU's arrays of every cache into the slabs. */
void heap_drain_this_cpu(struct heap *h);
/* The same if another CPU that is short of memory has asked for it since the last time; else it is one
 * look. The platform calls it where plat_kick() says. Any context but NMI. */
void heap_drain_serve(struct heap *h);

/* -- what telemetry and the workloads read -- */
/* Between the two a cache that heap_cache() has found stays as it is, and a destroy of it waits. Who has made
 * a cache, and will not destroy it, needs no visit. A visit is short and waits for nobody; any context but
 * NMI; they may nest. */
NODISCARD unsigned heap_visit_begin(struct heap *h);
void heap_visit_end(struct heap *h, unsigned visit);
unsigned heap_cache_count(const struct heap *h); /* ids run 0..count-1 */
struct kmem_cache *heap_cache(struct heap *h,
                              unsigned id); /* NULL for one that is destroyed, or just being */
/* It serves the allocator itself: what is counted on it is nobody's calls. */
bool cache_is_internal(const struct kmem_cache *c);
const char *cache_name(const struct kmem_cache *c);
size_t cache_object_size(const struct kmem_cache *c);
unsigned cache_front_capacity(const struct kmem_cache *c);
u32 cache_slab_bytes(const struct kmem_cache *c);
u32 cache_slab_objects(const struct kmem_cache *c); /* in one slab */
u32 cache_state_bytes(const struct kmem_cache *c);  /* of each object */
/* Calls counted on such a row. */
u64 cache_row_allocs(const u64 *row);
u64 cache_row_frees(const u64 *row);
/* This CPU's row (NR_CACHE_COUNTERS values); relaxed loads. NULL past the CPUs that have one. */
const u64 *cache_row(const struct kmem_cache *c, unsigned cpu);
const u64 *heap_node_row(const struct heap *h, unsigned node, unsigned cpu); /* NR_NODE_COUNTERS */
const u64 *heap_cpu_row(const struct heap *h,
                        unsigned cpu); /* NR_CPU_COUNTERS: only mm's counters are set */
unsigned heap_node_count(const struct heap *h);
unsigned heap_cpu_node(const struct heap *h, unsigned cpu);
u64 heap_pages_free(const struct heap *h); /* in all buddies, and parked */
/* Bytes of the largest block that is free in a buddy, however much there is in all; 0: there is none. Boot,
 * or a quiet point. */
u64 heap_largest_block(const struct heap *h);
/* Gauges into out[], at their counter's slot; the other slots are left alone. Racy sums of relaxed
 * loads: they are exact at rest. No lock is taken. */
void cache_gauges(const struct kmem_cache *c, u64 out[NR_CACHE_COUNTERS]);
/* The level from which no more is taken, of gauges that have one; the other slots are left alone. A
 * gauge may pass it a little: emptied sheaves go to the empty list without being asked. */
void cache_gauge_limits(const struct kmem_cache *c, u64 out[NR_CACHE_COUNTERS]);
void heap_node_gauges(const struct heap *h, unsigned node, u64 out[NR_NODE_COUNTERS]);
void heap_global_gauges(const struct heap *h, u64 out[NR_GLOBAL_COUNTERS]);

/* -- how long calls take (latency=on), and who frees what another CPU allocated (matrix=on) -- */
enum latency_level {
#define LATENCY_LEVEL(name, doc) LATENCY_##name,
#include "../base/latency.def"
#undef LATENCY_LEVEL
    NR_LATENCY_LEVELS
};
enum latency_call { LATENCY_ALLOC, LATENCY_FREE, NR_LATENCY_CALLS };

#define LATENCY_BUCKETS 132u /* four an octave, up to 2^34 cycles; what is above is in the last */

struct latency_hist {
    u64 max; /* cycles */
    u64 count[LATENCY_BUCKETS];
};

unsigned latency_bucket(u64 cycles);
/* Forgets the calling CPU's. Thread context. */
void heap_observe_reset(struct heap *h);
bool heap_observed(const struct heap *h); /* whether either is on */
/* Summed over CPUs into *out; returns the number of samples. Relaxed loads: exact at rest. */
u64 heap_latency(const struct heap *h, enum latency_level level, enum latency_call call,
                 struct latency_hist *out);
u64 heap_latency_clock_cycles(const struct heap *h); /* least between two looks at the clock */
/* How many objects of each CPU (MAX_CPUS values) this one freed; NULL if matrix=off. */
const u64 *heap_matrix_row(const struct heap *h, unsigned cpu);

/* -- bad frees -- */
struct badfree_report {
    enum badfree_kind kind;
    u64 address;
    u64 found;                      /* the state word, tag, order or rcu_head that was found */
    const struct kmem_cache *cache; /* or NULL */
};
/* Called for each refused free, after it was counted; any context. One handler a heap. */
void heap_set_badfree_handler(struct heap *h, void (*fn)(const struct badfree_report *));
u64 heap_badfree_count(const struct heap *h, enum badfree_kind kind);

/* -- magazines that change their size (front=magazine) -- */
enum resize_why {
    RESIZE_contended, /* larger: the depot's lock was found taken too often */
    RESIZE_quiet,     /* smaller: few visits, and nobody fought, for two intervals */
    RESIZE_shortage,  /* as small as at first: memory is short */
};
struct resize_report {
    const struct kmem_cache *cache;
    enum resize_why why;
    u32 from, to;          /* objects in a magazine */
    u64 visits, contended; /* of the depot in this interval */
    u64 left_at;           /* visits in an interval at which the smaller size was left */
};
/* Called after each change, after it was counted; interrupts off, any context. One handler a heap. */
void heap_set_resize_handler(struct heap *h, void (*fn)(const struct resize_report *));
/* For caches that nobody uses: ends intervals that are over, gives back what their front ends had too
 * much of. Thread context; call it now and then. */
void heap_maintain(struct heap *h);

/* -- checks, at quiet points (no allocator call in flight anywhere) -- */
struct balance {
    /* objects; the law: capacity = slab_free + front + barn + prefilled + rcu + in_use */
    u64 capacity, slab_free, front, barn, prefilled, rcu, in_use;
    u64 allocs, frees; /* and allocs - frees = in_use */
    bool holds;
};
void cache_balance(const struct kmem_cache *c, struct balance *b);
struct heap_fault {
    const char *what;
    u64 address;
    const struct kmem_cache *cache;
};
/* Walks everything; false names the first broken thing. Takes the locks it needs. Thread context.
 * */
NODISCARD bool heap_validate(struct heap *h, struct heap_fault *f);

#endif
