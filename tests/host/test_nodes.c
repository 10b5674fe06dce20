/* test_nodes.c: fake nodes (nodes=N): memory and CPUs are dealt out, each node has a buddy, slab lists and a
 * barn of each cache; what is freed goes home, what is short is had elsewhere, and nothing is left behind. */
#include "../../mm/sheaf_impl.h"
#include "heap_fixture.h"

static const char *const fronts[] = {
    "nodes=2",
    "nodes=2 front=none pcp=off owner=lock",
    "nodes=2 front=none slab.min_partial=0",
    "nodes=2 front=sheaf",
    "nodes=2 front=sheaf sheaf.cap=3 barn.full=2 barn.empty=1 objstate=side poison=full",
    "nodes=2 front=magazine mag.interval=1",
    "nodes=2 latency=on matrix=on",
    "nodes=3 bounded.objects=1 pcp.limits=1/1/1/1/1/1",
};

/* -- helpers -- */

/* Runs fn(arg) on one CPU. */
static void on(unsigned cpu, void (*fn)(void *), void *arg)
{
    plat_run_on_cpus((u64)1 << cpu, fn, arg);
}

static unsigned node_of(struct test_heap *t, const void *p)
{
    struct frame *f = frame_of(&t->h->frames, p);

    return f ? f->node : MAX_NODES;
}

static u64 node_counter(struct test_heap *t, unsigned node, enum node_counter i)
{
    u64 sum = 0;

    for (unsigned cpu = 0; cpu < t->h->cpus; cpu++)
        sum += counter_read(&heap_node_row(t->h, node, cpu)[i]);
    return sum;
}

static u64 gauge(const struct kmem_cache *c, enum cache_counter i)
{
    u64 g[NR_CACHE_COUNTERS] = {0};

    cache_gauges(c, g);
    return g[i];
}

struct pages_job {
    struct test_heap *t;
    void **chain; /* blocks, each with a pointer to the next */
    u64 n;
    unsigned order;
};

static void take_pages(void *arg)
{
    struct pages_job *j = arg;
    void **p;

    for (u64 i = 0; i < j->n && (p = alloc_pages(j->t->h, j->order)); i++) {
        *p = j->chain;
        j->chain = p;
    }
}

static void give_pages(void *arg)
{
    struct pages_job *j = arg;

    while (j->chain) {
        void **p = j->chain;

        j->chain = *p;
        EXPECT_TRUE(free_pages(j->t->h, p, j->order));
    }
}

struct objects_job {
    struct kmem_cache *c;
    void **chain;
    u64 n, got;
};

static void take_objects(void *arg)
{
    struct objects_job *j = arg;
    void **p;

    for (j->got = 0; j->got < j->n && (p = kmem_cache_alloc(j->c)); j->got++) {
        *p = j->chain;
        j->chain = p;
    }
}

static void give_objects(void *arg)
{
    struct objects_job *j = arg;

    while (j->chain) {
        void **p = j->chain;

        j->chain = *p;
        EXPECT_TRUE(kmem_cache_free(j->c, p));
    }
}

static void drain_here(void *heap)
{
    heap_drain_this_cpu(heap);
}

static const struct kmem_cache_args args = {"node-test", 256, 0, NULL, NULL, 32};

/* Pages that are free once everything has been given back, and those that sheaves lie in. */
static u64 free_at_rest(struct test_heap *t)
{
    u64 pools = 0;

    plat_run_on_cpus(plat_all_cpus(), drain_here, t->h);
    heap_reclaim(t->h);
    for (unsigned i = 0; i < SHEAF_POOLS; i++)
        for (unsigned k = 0; k < t->h->nodes && t->h->pools; k++)
            pools += t->h->sheaf_pool[i].node[k].slabs << t->h->sheaf_pool[i].order;
    return heap_pages_free(t->h) + pools;
}

static bool nothing_left(struct test_heap *t, u64 free_before)
{
    EXPECT_EQ(free_at_rest(t), free_before);
    return heap_good(t);
}

/* -- the split -- */

TEST(memory_is_dealt_out_in_whole_blocks)
{
    for (unsigned nodes = 1; nodes <= MAX_NODES; nodes++) {
        char line[] = "nodes=1 pcp=off";
        struct test_heap t;
        u64 least = ~(u64)0, most = 0, sum = 0, end = 0;

        line[6] = (char)('0' + nodes);
        REQUIRE(heap_new(&t, line, 96, nodes));
        EXPECT_EQ(heap_node_count(t.h), nodes);
        for (unsigned k = 0; k < nodes; k++) {
            const struct buddy *b = &t.h->buddy[k];
            u64 g[NR_NODE_COUNTERS] = {0};

            EXPECT_EQ(b->first, end);
            EXPECT_TRUE(b->end % BLOCK_FRAMES == 0 || k + 1 == nodes);
            end = b->end;
            least = MIN(least, b->pages_total);
            most = MAX(most, b->pages_total);
            heap_node_gauges(t.h, k, g);
            EXPECT_EQ(g[NODE_pages_total], b->pages_total);
            sum += g[NODE_descriptor_bytes];
            EXPECT_EQ(heap_cpu_node(t.h, k), k);
        }
        EXPECT_EQ(end, t.h->frames.count);
        EXPECT_EQ(sum, t.h->frames.count * sizeof(struct frame));
        EXPECT_LE(most - least, 2 * BLOCK_FRAMES);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

TEST(cpus_are_dealt_out_evenly_and_in_order)
{
    static const u8 of[8] = {0, 0, 0, 1, 1, 1, 2, 2};
    struct test_heap t;

    REQUIRE(heap_new(&t, "nodes=3", 64, 8));
    for (unsigned cpu = 0; cpu < 8; cpu++)
        EXPECT_EQ(heap_cpu_node(t.h, cpu), of[cpu]);
    heap_delete(&t);
}

/* A hole is no memory: the parts are of what there is. */
TEST(holes_are_nobodys_share)
{
    size_t bytes = (size_t)256 << 20, part = (size_t)32 << 20;
    char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct knob_refusals refused = {0};
    struct test_heap t = {.memory = area, .bytes = bytes};
    struct mem_range r[2] = {{area, part >> PAGE_SHIFT}, {area + bytes - part, part >> PAGE_SHIFT}};
    u64 need, a, b;

    REQUIRE(area != MAP_FAILED && knobs_parse(&t.knobs, "nodes=2", true, &refused));
    lockstat_init(&t.knobs, 1, NULL);
    t.h = heap_init(&t.knobs, r, 2, &need);
    REQUIRE(t.h != NULL);
    a = t.h->buddy[0].pages_total;
    b = t.h->buddy[1].pages_total;
    EXPECT_LE(a > b ? a - b : b - a, BLOCK_FRAMES);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* No node without memory: 8 MiB are one node's, or two's at best, and never four's. */
TEST(too_little_for_so_many_nodes_is_refused)
{
    struct test_heap t;

    EXPECT_TRUE(heap_new(&t, "nodes=1", 12, 1));
    heap_delete(&t);
    EXPECT_FALSE(heap_new_early(&t, "nodes=4", 7));
    munmap(t.memory, t.bytes);
    REQUIRE(heap_new(&t, "nodes=4", 32, 4)); /* 8 MiB each */
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

static bool contradictory(const char *line, u64 cpus)
{
    struct knob_refusals r = {0};
    struct knobs k;

    EXPECT_TRUE(knobs_parse(&k, line, true, &r));
    k.maxcpus = MIN(k.maxcpus, cpus);
    return !knobs_check(&k, &r) && r.count == 1 && strcmp(r.at[0].argument, "nodes>maxcpus") == 0;
}

TEST(more_nodes_than_cpus_are_refused_by_name)
{
    EXPECT_TRUE(contradictory("nodes=2", 1));
    EXPECT_FALSE(contradictory("nodes=2", 2));
    EXPECT_TRUE(contradictory("nodes=4", 3));
    EXPECT_TRUE(contradictory("nodes=4 maxcpus=2", 8));
    EXPECT_FALSE(contradictory("nodes=4 maxcpus=4", 8));
    EXPECT_FALSE(contradictory("nodes=1 maxcpus=1", 1));
}

/* -- pages -- */

TEST(pages_come_from_the_own_node_and_go_home)
{
    struct test_heap t;

    for (unsigned arm = 0; arm < 2; arm++) {
        REQUIRE(heap_new(&t, arm ? "nodes=2 pcp=off" : "nodes=2", 64, 2));
        for (unsigned cpu = 0; cpu < 2; cpu++) {
            struct pages_job j = {.t = &t, .n = 40};
            u64 before = node_counter(&t, cpu, NODE_page_free);

            on(cpu, take_pages, &j);
            for (void **p = j.chain; p; p = *p)
                EXPECT_EQ(node_of(&t, p), cpu);
            on(1 - cpu, give_pages, &j); /* by the other node's CPU: none of them is parked there */
            EXPECT_EQ(pcp_node_pages(t.h, 1 - cpu), 0u);
            EXPECT_EQ(node_counter(&t, cpu, NODE_page_free) - before, 40u);
            EXPECT_TRUE(heap_good(&t));
            (void)pcp_drain_all(t.h);
        }
        heap_delete(&t);
    }
}

TEST(a_node_that_is_out_is_served_by_the_next)
{
    struct test_heap t;
    struct pages_job a = {.t = &t}, b = {.t = &t, .n = 10};
    u64 free1, other;

    REQUIRE(heap_new(&t, "nodes=2", 64, 2));
    free1 = t.h->buddy[1].pages_free;
    a.n = t.h->buddy[0].pages_free;
    on(0, take_pages, &a);
    EXPECT_EQ(t.h->buddy[0].pages_free, 0u);
    EXPECT_EQ(t.h->buddy[1].pages_free, free1); /* not one of the other's while there are own */
    on(0, take_pages, &b);
    for (void **p = b.chain; p; p = *p)
        EXPECT_EQ(node_of(&t, p), 1u);
    other = counter_read(&heap_node_row(t.h, 1, 0)[NODE_page_alloc]);
    EXPECT_EQ(other, 10u); /* told by whose row of which node it is */
    on(0, give_pages, &b);
    EXPECT_EQ(t.h->buddy[1].pages_free, free1); /* home, and none is parked on CPU 0 */
    on(1, give_pages, &a);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* NULL means that no node has any, and what others park is had before. */
TEST(null_means_that_no_node_has_any)
{
    struct test_heap t;
    struct pages_job a = {.t = &t, .n = 4};

    REQUIRE(heap_new(&t, "nodes=2", 32, 2));
    on(1, take_pages, &a);
    on(1, give_pages, &a); /* parked on CPU 1 */
    EXPECT_GT(pcp_node_pages(t.h, 1), 0u);
    a.n = ~(u64)0;
    on(0, take_pages, &a);
    EXPECT_EQ(heap_pages_free(t.h), 0u);
    on(0, give_pages, &a);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* Large kmalloc goes by the same pages. */
TEST(large_blocks_are_near_and_go_home)
{
    struct test_heap t;
    void *p;

    REQUIRE(heap_new(&t, "nodes=2 poison=full", 64, 2));
    p = heap_kmalloc(t.h, 65536);
    REQUIRE(p != NULL);
    EXPECT_EQ(node_of(&t, p), 0u);
    EXPECT_TRUE(heap_kfree(t.h, p));
    EXPECT_FALSE(heap_kfree(t.h, p));
    EXPECT_EQ(pcp_node_pages(t.h, 0) > 0, true);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* -- slabs -- */

TEST(slabs_lie_on_the_lists_of_their_node)
{
    struct test_heap t;
    struct objects_job j[2];
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "nodes=2 slab.min_partial=1000", 64, 2));
    c = kmem_cache_create(t.h, &args);
    REQUIRE(c != NULL);
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        j[cpu] = (struct objects_job){.c = c, .n = 100};
        on(cpu, take_objects, &j[cpu]);
        EXPECT_EQ(j[cpu].got, 100u);
        for (void **p = j[cpu].chain; p; p = *p)
            EXPECT_EQ(node_of(&t, p), cpu);
        EXPECT_GT(c->node[cpu].slabs, 0u);
    }
    EXPECT_TRUE(heap_good(&t));
    for (unsigned cpu = 0; cpu < 2; cpu++)
        on(1 - cpu, give_objects, &j[cpu]); /* in each other's array, and then home */
    EXPECT_TRUE(heap_good(&t));
    plat_run_on_cpus(plat_all_cpus(), drain_here, t.h);
    for (unsigned cpu = 0; cpu < 2; cpu++)
        EXPECT_EQ(c->node[cpu].free_objects, c->node[cpu].slabs * c->capacity);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* min_partial is a node's. */
TEST(each_node_keeps_its_own_empty_slabs)
{
    struct test_heap t;
    struct objects_job j[2];
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "nodes=2 front=none slab.min_partial=2", 64, 2));
    c = kmem_cache_create(t.h, &(struct kmem_cache_args){"node-test", 256, 0, NULL, NULL, 0});
    REQUIRE(c != NULL);
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        j[cpu] = (struct objects_job){.c = c, .n = 8 * (u64)c->capacity};
        on(cpu, take_objects, &j[cpu]);
    }
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        on(0, give_objects, &j[cpu]);
        EXPECT_EQ(c->node[cpu].empties, 2u);
        EXPECT_EQ(c->node[cpu].slabs, 2u);
    }
    EXPECT_EQ(kmem_cache_shrink(c), 4u);
    EXPECT_EQ(gauge(c, CACHE_slabs), 0u);
    heap_delete(&t);
}

/* What is piled up on another node is used before memory is taken, but nobody is robbed of his last. */
TEST(plenty_elsewhere_is_used_before_a_new_slab)
{
    struct test_heap t;
    struct objects_job a = {.n = 0}, b = {.n = 1};
    struct kmem_cache *c;
    u64 slabs;

    REQUIRE(heap_new(&t, "nodes=2 front=none slab.min_partial=3", 64, 2));
    c = kmem_cache_create(t.h, &(struct kmem_cache_args){"node-test", 256, 0, NULL, NULL, 0});
    REQUIRE(c != NULL);
    a.c = b.c = c;
    a.n = 4 * (u64)c->capacity;
    on(0, take_objects, &a);
    for (unsigned i = 0; i < 4; i++) { /* one of each slab goes: partial, all four */
        void **p = a.chain, **q = NULL;
        struct frame *s = frame_of(&t.h->frames, p)->head;

        while (s->inuse < c->capacity) {
            q = p;
            p = *p;
            REQUIRE(p != NULL);
            s = frame_of(&t.h->frames, p)->head;
        }
        if (q)
            *q = *p;
        else
            a.chain = *p;
        EXPECT_TRUE(kmem_cache_free(c, p));
    }
    EXPECT_EQ(c->node[0].partials, 4u);
    on(1, take_objects, &b);
    EXPECT_EQ(node_of(&t, b.chain), 0u); /* 4 of them, more than min_partial */
    EXPECT_EQ(c->node[0].partials, 3u);
    slabs = c->node[0].slabs;
    on(1, take_objects, &b);
    EXPECT_EQ(node_of(&t, b.chain), 1u); /* a slab of its own */
    EXPECT_EQ(c->node[0].slabs, slabs);
    EXPECT_EQ(c->node[1].slabs, 1u);
    EXPECT_TRUE(heap_good(&t));
    on(0, give_objects, &a);
    on(0, give_objects, &b);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* No pages anywhere: a slab of another node that has an object left serves. And no CPU refills from it: its
 * list is another node's. */
TEST(in_a_shortage_any_nodes_slabs_serve)
{
    for (unsigned arm = 0; arm < 2; arm++) {
        struct test_heap t;
        struct pages_job pages = {.t = &t, .n = ~(u64)0};
        struct objects_job a, b;
        struct kmem_cache *c;
        u64 room;

        REQUIRE(heap_new(&t, arm ? "nodes=2 front=none" : "nodes=2", 32, 2));
        c = kmem_cache_create(t.h, &args);
        REQUIRE(c != NULL);
        a = b = (struct objects_job){.c = c, .n = 1};
        on(0, take_objects, &a);
        on(1, take_pages, &pages);
        plat_run_on_cpus(plat_all_cpus(), drain_here, t.h);
        room = c->node[0].free_objects;
        EXPECT_GT(room, 0u);
        b.n = room + 1;
        on(1, take_objects, &b);
        EXPECT_EQ(b.got, room); /* and not one more */
        for (void **p = b.chain; p; p = *p)
            EXPECT_EQ(node_of(&t, p), 0u);
        EXPECT_TRUE(heap_good(&t));
        on(1, give_objects, &b);
        on(0, give_objects, &a);
        EXPECT_TRUE(heap_good(&t));
        on(0, give_pages, &pages);
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

/* A slab that is made of another node's pages, the own being out, is on the other's list and nobody's to
 * refill from. */
TEST(a_slab_of_foreign_pages_is_the_foreign_nodes)
{
    struct test_heap t;
    struct pages_job pages = {.t = &t};
    struct objects_job a;
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "nodes=2 pcp=off", 64, 2));
    c = kmem_cache_create(t.h, &(struct kmem_cache_args){"node-test", 64, 0, NULL, NULL, 0});
    REQUIRE(c != NULL);
    pages.n = t.h->buddy[0].pages_free;
    on(0, take_pages, &pages);
    a = (struct objects_job){.c = c, .n = 3};
    on(0, take_objects, &a);
    EXPECT_EQ(a.got, 3u);
    EXPECT_EQ(c->node[1].partials, 1u); /* with room, so it could be refilled from */
    EXPECT_EQ(c->node[0].slabs, 0u);
    EXPECT_GT(c->node[1].slabs, 0u);
    EXPECT_NULL(cache_cpu(c, 0)->slab);
    EXPECT_TRUE(heap_good(&t));
    on(0, give_objects, &a);
    on(0, give_pages, &pages);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* A batch with objects of both nodes in turn: each goes home. */
TEST(a_mixed_batch_goes_home)
{
    struct test_heap t;
    struct objects_job a, b;
    void *mixed[64];
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "nodes=2 slab.min_partial=1000", 64, 2));
    c = kmem_cache_create(t.h, &args);
    REQUIRE(c != NULL);
    a = b = (struct objects_job){.c = c, .n = 32};
    on(0, take_objects, &a);
    on(1, take_objects, &b);
    for (unsigned i = 0; i < 64; i += 2) {
        mixed[i] = a.chain;
        a.chain = *a.chain;
        mixed[i + 1] = b.chain;
        b.chain = *b.chain;
    }
    EXPECT_EQ(kmem_cache_free_bulk(c, 64, mixed), 64u);
    plat_run_on_cpus(plat_all_cpus(), drain_here, t.h);
    for (unsigned k = 0; k < 2; k++)
        EXPECT_EQ(c->node[k].free_objects, c->node[k].slabs * c->capacity);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* -- barns -- */

/* The limits are a barn's: two nodes take twice as many, and each CPU sees its own. */
TEST(each_node_has_a_barn_with_its_own_limits)
{
    struct test_heap t;
    u64 limits[NR_CACHE_COUNTERS] = {0};
    struct objects_job j[2];
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "nodes=2 front=sheaf barn.full=2 slab.min_partial=1000", 64, 2));
    c = kmem_cache_create(t.h, &args);
    REQUIRE(c != NULL);
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        j[cpu] = (struct objects_job){.c = c, .n = 32 * 10};
        on(cpu, take_objects, &j[cpu]);
    }
    on(0, give_objects, &j[1]); /* the other's objects, in sheaves of this node's barn */
    EXPECT_EQ(c->node[0].barn.fulls, 2u);
    EXPECT_EQ(c->node[1].barn.fulls, 0u);
    on(1, give_objects, &j[0]);
    EXPECT_EQ(c->node[0].barn.fulls, 2u);
    EXPECT_EQ(c->node[1].barn.fulls, 2u);
    EXPECT_EQ(gauge(c, CACHE_barn_full), 4u);
    cache_gauge_limits(c, limits);
    EXPECT_EQ(limits[CACHE_barn_full], 4u);
    EXPECT_TRUE(heap_good(&t));
    (void)kmem_cache_shrink(c); /* empties both */
    EXPECT_EQ(gauge(c, CACHE_barn_full), 0u);
    EXPECT_EQ(gauge(c, CACHE_barn_objects), 0u);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

static void rcu_objects(void *arg)
{
    struct objects_job *j = arg;

    while (j->chain) {
        void **p = j->chain;

        j->chain = *p;
        heap_kfree_rcu(j->c->heap, p, (struct rcu_head *)(void *)p);
    }
}

static void prefill_and_return(void *arg)
{
    struct objects_job *j = arg;
    struct sheaf *s = kmem_cache_prefill_sheaf(j->c, 20);
    void *p;

    REQUIRE(s != NULL);
    p = kmem_cache_alloc_from_sheaf(j->c, s);
    EXPECT_TRUE(kmem_cache_free(j->c, p));
    kmem_cache_return_sheaf(j->c, s);
}

TEST(rcu_sheaves_and_prefill_use_the_own_barn)
{
    struct test_heap t;
    struct objects_job j;
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "nodes=2 front=sheaf", 64, 2));
    c = kmem_cache_create(t.h, &args);
    REQUIRE(c != NULL);
    j = (struct objects_job){.c = c, .n = 32 * 3};
    on(1, take_objects, &j);
    on(1, rcu_objects, &j);
    heap_kfree_rcu_barrier(t.h);
    EXPECT_GT(c->node[1].barn.fulls, 0u);
    EXPECT_EQ(c->node[0].barn.fulls, 0u);
    on(1, prefill_and_return, &j);
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}

/* -- nothing is left -- */

static void play(void *arg)
{
    struct test_heap *t = arg;
    u64 random = test_seed() + plat_cpu_id() + 1;
    static void *shared[64]; /* atomic: objects go from CPU to CPU by it */
    unsigned rounds = test_scale(20000);

    for (unsigned i = 0; i < rounds; i++) {
        u64 r = test_random(&random);
        size_t size = r & 7 ? 1 + (r >> 8) % 2000 : 8193 + (r >> 8) % 60000;
        void *p = heap_kmalloc(t->h, size);

        p = __atomic_exchange_n(&shared[(r >> 32) % ARRAY_SIZE(shared)], p, __ATOMIC_ACQ_REL);
        EXPECT_TRUE(heap_kfree(t->h, p));
        rcu_quiescent();
    }
    if (plat_cpu_id() == 0)
        return;
    for (unsigned i = 0; i < ARRAY_SIZE(shared); i++)
        EXPECT_TRUE(heap_kfree(t->h, __atomic_exchange_n(&shared[i], NULL, __ATOMIC_ACQ_REL)));
}

TEST(cpus_of_all_nodes_free_each_others_objects)
{
    for (unsigned arm = 0; arm < ARRAY_SIZE(fronts); arm++) {
        struct test_heap t;

        REQUIRE(heap_new(&t, fronts[arm], 96, 4));
        plat_run_on_cpus(plat_all_cpus(), play, &t);
        on(1, play, &t); /* alone, and takes what is still shared */
        EXPECT_TRUE(heap_good(&t));
        plat_run_on_cpus(plat_all_cpus(), drain_here, t.h);
        heap_reclaim(t.h);
        for (unsigned i = 0; i < KMALLOC_CLASSES; i++) {
            EXPECT_EQ(gauge(&t.h->kmalloc[i], CACHE_in_use), 0u);
            EXPECT_EQ(gauge(&t.h->kmalloc[i], CACHE_slabs), 0u);
        }
        EXPECT_TRUE(heap_good(&t));
        heap_delete(&t);
    }
}

TEST(a_shortage_and_a_destroy_leave_nothing)
{
    for (unsigned arm = 0; arm < ARRAY_SIZE(fronts); arm++) {
        struct test_heap t;
        struct objects_job j[2];
        struct kmem_cache *c;
        u64 free_before, busy;

        REQUIRE(heap_new(&t, fronts[arm], 48, 3));
        c = kmem_cache_create(t.h, &args);
        REQUIRE(c != NULL);
        free_before = free_at_rest(&t);
        j[0] = j[1] = (struct objects_job){.c = c, .n = ~(u64)0};
        on(2, take_objects, &j[1]);       /* all there are, of each node */
        EXPECT_GT(j[1].got, free_before); /* some on a page */
        EXPECT_EQ(t.h->buddy[0].pages_free + t.h->buddy[1].pages_free, 0u);
        on(0, take_objects, &j[0]);
        EXPECT_EQ(j[0].got, 0u);
        EXPECT_FALSE(kmem_cache_destroy(c, &busy));
        EXPECT_EQ(busy, j[1].got);
        on(1, give_objects, &j[1]);
        EXPECT_TRUE(heap_good(&t));
        EXPECT_TRUE(nothing_left(&t, free_before));
        EXPECT_TRUE(kmem_cache_destroy(c, &busy));
        c = kmem_cache_create(t.h, &args); /* the same again, out of its grave */
        REQUIRE(c != NULL);
        j[0].n = 200;
        on(1, take_objects, &j[0]);
        EXPECT_EQ(j[0].got, 200u);
        on(0, give_objects, &j[0]);
        EXPECT_TRUE(nothing_left(&t, free_before));
        heap_delete(&t);
    }
}

static const char *owner_of(const struct spinlock *l)
{
    return l->id ? lock_stats(l->id).owner : "";
}

/* A cache's locks of one class have its name and one id, whatever its nodes. */
TEST(locks_of_nodes_are_told_as_the_caches)
{
    struct test_heap t;
    struct kmem_cache *c;

    REQUIRE(heap_new(&t, "nodes=2 front=sheaf", 64, 2));
    c = &t.h->kmalloc[2];
    EXPECT_STR(owner_of(&c->node[0].lock), "kmalloc-64");
    EXPECT_EQ(c->node[0].lock.id, c->node[1].lock.id);
    EXPECT_STR(owner_of(&c->node[0].barn.lock), "kmalloc-64");
    EXPECT_EQ(c->node[0].barn.lock.id, c->node[1].barn.lock.id);
    EXPECT_NE(c->node[0].barn.lock.id, c->node[0].lock.id);
    EXPECT_STR(owner_of(&t.h->buddy[0].lock), "node0");
    EXPECT_STR(owner_of(&t.h->buddy[1].lock), "node1");
    heap_delete(&t);
}

/* As many caches as there can be, on as many nodes, with names that differ in their last letter only: each has an
 * id for each class of lock, and no other's. */
TEST(every_lock_has_an_id)
{
    static const char *const lines[] = {"nodes=4 front=sheaf", "nodes=4 front=magazine"};
    struct test_heap t;

    for (unsigned i = 0; i < ARRAY_SIZE(lines); i++) {
        bool seen[MAX_LOCKS + 1] = {false};
        char name[] = "a cache whose name takes all 31a";
        struct kmem_cache_args one = {.name = name, .size = 64};

        name[CACHE_NAME_MAX - 1] = 0;
        REQUIRE(heap_new(&t, lines[i], 128, 4));
        for (char *last = &name[CACHE_NAME_MAX - 2]; kmem_cache_create(t.h, &one);)
            ++*last;
        EXPECT_EQ(t.h->caches, MAX_CACHES);
        for (u32 k = 0; k < t.h->caches; k++) {
            struct kmem_cache *c = t.h->cache[k];
            unsigned ids[3], n = 0;

            ids[n++] = c->node[0].lock.id;
            if (c->front == &front_sheaf)
                ids[n++] = c->node[0].barn.lock.id;
            if (c->front == &front_magazine)
                ids[n++] = c->depot.lock.id;
            for (unsigned node = 0; node < t.h->nodes; node++)
                EXPECT_EQ(c->node[node].lock.id, ids[0]);
            for (unsigned j = 0; j < n; j++) {
                EXPECT_NE(ids[j], 0u);
                EXPECT_FALSE(seen[ids[j]]);
                seen[ids[j]] = true;
                EXPECT_STR(lock_stats(ids[j]).owner, c->name);
            }
        }
        heap_delete(&t);
    }
}
