/* test_life.c: caches are destroyed and made again, of another shape, while other CPUs are short of memory and
 * so visit them. Under each front end, here under ASan and TSan; in every order of a few steps: test_model
 * (model_life.c). */
#include <stdio.h>
#include <stdlib.h>

#include "../../kernel/kernel.h"
#include "../../kernel/remake.h"
#include "heap_fixture.h"

static const char *const lines[] = {
    "front=none",          "front=none slab.min_partial=0 objstate=side pcp=off",
    "front=bounded",       "front=bounded poison=full pcp=off slab.min_partial=0",
    "front=magazine",      "front=magazine mag.interval=1 slab.min_partial=0",
    "front=sheaf",         "front=sheaf pcp=off barn.full=2 sheaf.cap=4",
    "front=sheaf nodes=2",
};

/* HAYLOFT_LONG: as many rounds as a night has room for. */
static u64 rounds(void)
{
    const char *text = getenv("HAYLOFT_LONG");

    return text && text[0] ? 30000 : 50;
}

static struct test_heap t;

static void reclaim(void)
{
    heap_reclaim(t.h);
}

/* What a sampler reads of each cache. */
static void sample(void)
{
    unsigned visit = heap_visit_begin(t.h);

    for (u32 i = 0; i < heap_cache_count(t.h); i++) {
        struct kmem_cache *c = heap_cache(t.h, i);
        u64 g[NR_CACHE_COUNTERS] = {0};

        if (!c)
            continue;
        cache_gauges(c, g);
        EXPECT_EQ(g[CACHE_slab_capacity], g[CACHE_slabs] * cache_slab_objects(c));
        for (unsigned cpu = 0; cpu < t.h->cpus; cpu++)
            EXPECT_TRUE(cache_row_allocs(cache_row(c, cpu)) < (u64)1 << 40);
    }
    heap_visit_end(t.h, visit);
    heap_maintain(t.h);
}

static void stress(const char *line, u64 rounds, void (*visitor)(void))
{
    struct remake_result r;

    REQUIRE(heap_new(&t, line, 24, 3));
    kheap = t.h;
    r = remake_stress(rounds, visitor);
    if (r.why)
        printf("  %s: %s (%llu) after %llu rounds\n", line, r.why, (unsigned long long)r.value,
               (unsigned long long)r.rounds);
    EXPECT_NULL(r.why);
    EXPECT_EQ(r.rounds, rounds);
    EXPECT_TRUE(r.objects > r.rounds); /* it was not all shortage */
    EXPECT_TRUE(r.shortages > 0);
    kheap = NULL;
    heap_delete(&t);
}

TEST(caches_come_and_go_while_memory_is_short)
{
    for (unsigned i = 0; i < ARRAY_SIZE(lines); i++)
        stress(lines[i], rounds(), NULL);
}

TEST(caches_come_and_go_while_another_cpu_reclaims)
{
    for (unsigned i = 0; i < ARRAY_SIZE(lines); i++)
        stress(lines[i], rounds(), reclaim);
}

TEST(caches_come_and_go_while_another_cpu_takes_samples)
{
    for (unsigned i = 0; i < ARRAY_SIZE(lines); i++)
        stress(lines[i], rounds(), sample);
}
