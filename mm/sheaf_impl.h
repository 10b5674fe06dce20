/* sheaf_impl.h: sheaves and the barn (front=sheaf), for front_sheaf.c, barn.c and prefill.c.
 *
 * A sheaf is an array of objects that changes hands as a whole:
 *
 *   | link or rcu | size, capacity | cache | object[0] coldest … object[size-1] hottest, room |
 *
 *   main, spare  a CPU's: its allocations and frees; main's size is cache_cpu.count meanwhile
 *   rcu          a CPU's: gathers objects freed by kfree_rcu (state RCU); full, it waits alone
 *   barn         a node's and cache's: full sheaves, empty ones, and one partial sheaf
 *   private      a user's: prefilled, so that taking from it cannot fail
 *
 * Where a sheaf is, one of these is true of it and of nothing else: it is on one barn list, or the
 * partial one, or a CPU's main, spare or rcu, or a user's, or on its way through RCU.
 *
 * Locking: barn.lock for the barn; a CPU's sheaves are its own, interrupts off. No lock of mm/ is
 * taken under barn.lock. Contexts: thread, interrupt. */
#ifndef MM_SHEAF_IMPL_H
#define MM_SHEAF_IMPL_H

#include "fault_impl.h"
#include "objstate_impl.h"

#define SHEAF_MAX 252u /* objects; with its head 2 KiB */

struct sheaf {
    union {
        struct list link;    /* on a barn list */
        struct rcu_head rcu; /* waiting for a grace period */
    };
    u32 size, capacity;
    struct kmem_cache *cache;
    void *object[];
};

#define SHEAF_BYTES(capacity) (sizeof(struct sheaf) + (capacity) * sizeof(void *))
_Static_assert(SHEAF_BYTES(60) == 512, "the usual capacities fill their blocks");

/* The calling CPU's: its node's. Interrupts off. */
static inline struct barn *barn_mine(struct kmem_cache *c)
{
    return &cache_cpu_mine(c)->node->barn;
}

/* -- barn.c; interrupts off; the calling CPU's barn, but where it says all -- */
/* All. */
void barn_init(struct kmem_cache *c);
/* NULL: there is none; counted. */
NODISCARD struct sheaf *barn_get_full(struct kmem_cache *c);
NODISCARD struct sheaf *barn_get_empty(struct kmem_cache *c);
NODISCARD struct sheaf *barn_get_full_or_empty(struct kmem_cache *c);
/* An empty sheaf against a full one; NULL: there is no full one, and the empty one was not taken. */
NODISCARD struct sheaf *barn_trade_empty(struct kmem_cache *c, struct sheaf *empty);
enum barn_answer { BARN_TAKEN, BARN_FULL, BARN_NO_EMPTY };
/* A full one against an empty one. */
NODISCARD enum barn_answer barn_trade_full(struct kmem_cache *c, struct sheaf *full,
                                           struct sheaf **empty);
/* False: the barn has its fill of them (why counts the refusal). */
NODISCARD bool barn_put_full(struct kmem_cache *c, struct sheaf *full, enum cache_counter why);
NODISCARD bool barn_put_empty(struct kmem_cache *c, struct sheaf *empty);
/* Fills s, which is nobody else's, from the partial sheaf and then from full ones. May return
 * another sheaf in its place under barn.refill=swap. */
NODISCARD struct sheaf *barn_top_up(struct kmem_cache *c, struct sheaf *s);
/* Everything in all of them to the slabs; how many objects. */
unsigned barn_drain(struct kmem_cache *c);
/* All; the cache goes away. */
void barn_exit(struct kmem_cache *c);
bool barn_validate(struct kmem_cache *c, struct heap_fault *f);

/* -- main, the loaded sheaf or magazine: cc's CPU, interrupts off; it has an object, or room -- */
static inline void *main_pop(struct cache_cpu *cc)
{
    u64 n = cc->count - 1;

    cache_cpu_count(cc, n);
    return cc->main->object[n];
}

static inline void main_push(struct cache_cpu *cc, void *obj)
{
    cc->main->object[cc->count] = obj;
    cache_cpu_count(cc, cc->count + 1);
}

/* -- front_sheaf.c; interrupts off -- */
NODISCARD struct sheaf *sheaf_alloc(struct kmem_cache *c, u32 capacity); /* empty; NULL: shortage */
void sheaf_free(struct sheaf *s);                                        /* empty */
/* All its objects to the slabs; it is empty then. */
void sheaf_flush(struct kmem_cache *c, struct sheaf *s, enum cache_counter why);
/* From the slabs up to its capacity, or what there is; false: less than least. */
NODISCARD bool sheaf_fill(struct kmem_cache *c, struct sheaf *s, u32 least);
/* An empty sheaf that nobody needs: to the barn, or back to memory. */
void sheaf_discard(struct kmem_cache *c, struct sheaf *s);

#endif
