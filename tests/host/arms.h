/* arms.h: the argument lines under which the tests of the allocator's calls run, one for each way in
 * which a boot can change what a call does, and what they ask of a heap. */
#ifndef TESTS_HOST_ARMS_H
#define TESTS_HOST_ARMS_H

#include "heap_fixture.h"

static const char *const arms[] = {
    "",
    "front=none owner=lock stats.slab=global stats.large=global pcp=off",
    "front=none objstate=side slab.min_partial=0",
    "front=bounded objstate=side poison=free stats.slab=global",
    "front=bounded objstate=side poison=full pcp=off",
    "front=bounded poison=full bounded.objects=1 pcp.limits=1/1/1/1/1/1",
    "front=bounded owner=lock stats.large=off stats.slab=off slab.min_partial=0",
    "front=bounded bounded.objects=256 bounded.bytes=1048576 stats.large=global",
    "front=none objstate=off poison=free",
    "front=bounded objstate=off poison=full",
    "front=sheaf",
    "front=magazine",
    "front=magazine objstate=side poison=full mag.interval=1 stats.slab=global",
    "front=sheaf objstate=side poison=full sheaf.cap=3 barn.full=2 barn.empty=1",
    "front=bounded typed=direct",
    "front=sheaf typed=direct objstate=side poison=free",
    "front=magazine typed=direct poison=full",
};

static inline bool keeps_states(const struct test_heap *t)
{
    return t->knobs.objstate != V_objstate_off;
}

static inline u64 in_use(const struct kmem_cache *c)
{
    struct balance b;

    cache_balance(c, &b);
    EXPECT_TRUE(b.holds);
    return b.in_use;
}

static inline u64 refused(struct test_heap *t)
{
    u64 g[NR_GLOBAL_COUNTERS] = {0};

    heap_global_gauges(t->h, g);
    return g[GLOBAL_bad_frees];
}

#endif
