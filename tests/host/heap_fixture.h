/* heap_fixture.h: a heap of its own for a test, on memory of its own, set up by an argument line.
 *
 * heap_new("front=none poison=full", 64, 2): 64 MiB, 2 CPUs. The memory goes with heap_delete(). */
#ifndef TESTS_HOST_HEAP_FIXTURE_H
#define TESTS_HOST_HEAP_FIXTURE_H

#include <sys/mman.h>

#include "../../mm/mm_impl.h"
#include "test.h"

struct test_heap {
    struct heap *h;
    void *memory;
    size_t bytes;
    struct knobs knobs;
    struct lock_row *rows;
};

static inline bool heap_new_early(struct test_heap *t, const char *line, unsigned mib)
{
    struct knob_refusals refused = {0};
    struct mem_range r;
    u64 need;

    if (!knobs_parse(&t->knobs, line, true, &refused))
        return false;
    lockstat_init(&t->knobs, 1, NULL);
    t->bytes = (size_t)mib << 20;
    t->memory = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t->memory == MAP_FAILED)
        return false;
    r = (struct mem_range){t->memory, t->bytes >> PAGE_SHIFT};
    t->h = heap_init(&t->knobs, &r, 1, &need);
    return t->h != NULL;
}

static inline bool heap_new(struct test_heap *t, const char *line, unsigned mib, unsigned cpus)
{
    host_test_cpus(cpus);
    if (!heap_new_early(t, line, mib) || !heap_cpus_init(t->h, cpus))
        return false;
    host_test_heap(t->h);
    return true;
}

/* Takes the heap's locks out of the register: its memory goes away. */
static inline void heap_delete(struct test_heap *t)
{
    host_test_heap(NULL);
    if (rcu_backlog())
        heap_kfree_rcu_barrier(t->h);
    for (u32 i = 0; i < t->h->caches; i++)
        cache_locks_destroy(t->h->cache[i]);
    for (unsigned i = 0; i < t->h->nodes; i++)
        spin_destroy(&t->h->buddy[i].lock);
    spin_destroy(&t->h->caches_lock);
    host_window_close(t->h);
    plat_unpoison(t->memory, t->bytes);
    munmap(t->memory, t->bytes);
}

/* Everything walked, and why it failed if it did. */
static inline bool heap_good(struct test_heap *t)
{
    struct heap_fault f = {0};

    if (heap_validate(t->h, &f))
        return true;
    printf("  heap_validate: %s (address %#llx, cache %s)\n", f.what, (unsigned long long)f.address,
           f.cache ? cache_name(f.cache) : "-");
    return false;
}

#endif
