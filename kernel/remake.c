/* remake.c: a stress for the life and death of caches (mm/visit.c), for tests: provoke=remake@ROUNDS, and
 * tests/host/test_life.c under the sanitizers.
 *
 * CPU 0 makes a cache of one name in turn with small and large objects, with and without constructor, with its
 * own and with the front end's capacity; takes objects, writes and reads them back, frees them, and destroys
 * the cache. The other CPUs take pages until they are told that there are none, and give them back: so all the
 * while somebody reclaims, and drains, what the cache has.
 *
 * What must hold: destroy never says that an object is in use; an object holds what was written, or what its
 * constructor made; no destructor runs when the cache is gone; and afterwards the heap is whole, with as many
 * free pages as before.
 *
 * Locking: none; what CPUs tell each other is atomic. Contexts: thread on CPU 0, parts on all. */
#include "remake.h"
#include "kernel.h"
#include "../base/string.h"

#define OBJECTS 4000u
#define MADE    0x72656d616b65ull

static struct {
    u64 rounds;
    void (*visitor)(void);
    u32 stop;     /* atomic: CPU 0 is done */
    u32 gone;     /* atomic: there is no cache, so no destructor may run */
    u32 too_late; /* atomic: destructors that ran all the same */
    u32 unmade; /* atomic: objects that a destructor found without what the constructor had made */
    u64 shortages; /* atomic */
    struct remake_result result;
} run;

static void made(void *obj)
{
    *(u64 *)obj = MADE;
}

static void unmade(void *obj)
{
    if (*(u64 *)obj != MADE)
        __atomic_fetch_add(&run.unmade, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&run.gone, __ATOMIC_ACQUIRE))
        __atomic_fetch_add(&run.too_late, 1, __ATOMIC_RELAXED);
}

/* -- the others: short of memory, again and again -- */

static void **take_pages(void **chain)
{
    void **p;

    while (!__atomic_load_n(&run.stop, __ATOMIC_ACQUIRE) && (p = alloc_pages(kheap, 0))) {
        *p = chain;
        chain = p;
        rcu_quiescent();
    }
    return chain;
}

static void **give_pages(void **chain, u64 pages)
{
    while (chain && pages--) {
        void **next = *chain;

        (void)free_pages(kheap, chain, 0);
        chain = next;
    }
    return chain;
}

/* Each shortage is followed by a little room, and now and then by all there is, so that CPU 0 gets some. */
static void be_short(void)
{
    void **chain = NULL;

    for (u64 i = 1; !__atomic_load_n(&run.stop, __ATOMIC_ACQUIRE); i++) {
        chain = take_pages(chain);
        __atomic_fetch_add(&run.shortages, 1, __ATOMIC_RELAXED);
        chain = give_pages(chain, i % 16 ? 24 : ~(u64)0);
    }
    (void)give_pages(chain, ~(u64)0);
}

static void be_a_visitor(void)
{
    while (!__atomic_load_n(&run.stop, __ATOMIC_ACQUIRE)) {
        run.visitor();
        rcu_quiescent();
    }
}

/* -- CPU 0 -- */

static bool failed(const char *why, u64 value)
{
    run.result.why = why;
    run.result.value = value;
    return false;
}

static bool use(struct kmem_cache *c, bool ctor, unsigned wanted)
{
    static void *p[OBJECTS];
    unsigned n = 0;

    while (n < wanted && (p[n] = kmem_cache_alloc(c)))
        n++;
    run.result.objects += n;
    for (unsigned i = 0; i < n; i++)
        if (!ctor)
            *(u64 *)p[i] = (u64)(uintptr_t)p[i];
    for (unsigned i = 0; i < n; i++)
        if (*(u64 *)p[i] != (ctor ? MADE : (u64)(uintptr_t)p[i]))
            return failed("an object does not hold what was written", (u64)(uintptr_t)p[i]);
    for (unsigned i = 0; i < n; i++)
        if (!kmem_cache_free(c, p[i]))
            return failed("a good free was refused", (u64)(uintptr_t)p[i]);
    return true;
}

static bool one_round(u64 i)
{
    static const struct {
        size_t size;
        unsigned objects, capacity;
        bool ctor;
    } shapes[] = {
        {64, OBJECTS, 0, false}, {4000, 200, 0, false}, {64, OBJECTS, 0, true},
        {8000, 300, 0, true},    {200, 1000, 7, false}, {1000, 60, 2, false},
        {16, OBJECTS, 30, true},
    };
    const unsigned s = (unsigned)(i % ARRAY_SIZE(shapes));
    const struct kmem_cache_args args = {.name = "remade",
                                         .size = shapes[s].size,
                                         .ctor = shapes[s].ctor ? made : NULL,
                                         .dtor = shapes[s].ctor ? unmade : NULL,
                                         .front_capacity = shapes[s].capacity};
    struct kmem_cache *c;
    u64 busy = 0;

    __atomic_store_n(&run.gone, 0, __ATOMIC_RELEASE);
    c = kmem_cache_create(kheap, &args);
    if (!c)
        return true; /* short of memory, as it should be now and then */
    if (!use(c, shapes[s].ctor, shapes[s].objects))
        return false;
    if (!kmem_cache_destroy(c, &busy))
        return failed("destroy says busy, and no object is out", busy);
    __atomic_store_n(&run.gone, 1, __ATOMIC_RELEASE);
    return true;
}

static void part(void *arg)
{
    (void)arg;
    if (plat_cpu_id() == plat_cpu_count() - 1 && run.visitor) {
        be_a_visitor();
        return;
    }
    if (plat_cpu_id() != 0) {
        be_short();
        return;
    }
    for (u64 i = 0; i < run.rounds && one_round(i); i++) {
        run.result.rounds++;
        rcu_quiescent();
    }
    __atomic_store_n(&run.stop, 1, __ATOMIC_RELEASE);
}

/* -- the whole -- */

static void drain_here(void *arg)
{
    (void)arg;
    heap_drain_this_cpu(kheap);
}

/* Once all that can be given back is. */
static u64 free_pages_at_rest(void)
{
    plat_run_on_cpus(plat_all_cpus(), drain_here, NULL);
    for (unsigned id = 0; id < heap_cache_count(kheap); id++)
        if (heap_cache(kheap, id))
            (void)kmem_cache_shrink(heap_cache(kheap, id));
    return heap_pages_free(kheap);
}

struct remake_result remake_stress(u64 rounds, void (*visitor)(void))
{
    struct heap_fault fault = {0};
    u64 before, after;

    memset(&run, 0, sizeof(run));
    run.rounds = rounds;
    run.visitor = visitor;
    (void)one_round(0); /* what a first cache needs for good is not lost */
    (void)one_round(6);
    before = free_pages_at_rest();
    plat_run_on_cpus(plat_all_cpus(), part, NULL);
    after = free_pages_at_rest();
    run.result.shortages = run.shortages;
    if (run.result.why)
        return run.result;
    if (run.too_late)
        (void)failed("destructors ran after destroy had returned", run.too_late);
    else if (run.unmade)
        (void)failed("destructors met objects that were not as constructed", run.unmade);
    else if (after != before)
        (void)failed("pages are missing", before - after);
    else if (!heap_validate(kheap, &fault))
        (void)failed(fault.what, fault.address);
    return run.result;
}
