/* fuzz_heap.c: any bytes as a machine, its boot arguments and a program of allocator calls by several
 * CPUs, every call held against a model of its users (shadow.h).
 *
 * The first bytes choose knobs, memory (one range or two), CPUs, and how many calls come before the
 * CPUs have their tables. Then each byte is a call: its kind, the CPU that makes it, and what it
 * needs from the bytes that follow. What must hold, always:
 *   - a block overlaps no other, lies on its boundary, and keeps what was written to it;
 *   - each cache has as many objects in use as the model, and balances; the statistics agree;
 *   - NULL comes only when nothing is left: no parked page, no free block that is large enough, nothing
 *     in any CPU's arrays, no empty slab;
 *   - a bad free is refused, counted once, with a kind that fits, and changes nothing;
 *   - at the end everything goes back: the buddy has every page but those of the tables.
 *
 * One thread plays all CPUs in turn (sim_plat.c), so races are not its business; order is. */
#include "fuzz_machine.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

#define BULK_MOST 70u

/* -- what every answer is held against -- */

static unsigned order_of(size_t bytes)
{
    unsigned order = 0;

    while (PAGE_SIZE << order < bytes)
        order++;
    return order;
}

/* Blocks of that order are short, and everything was taken back, from other CPUs too. */
static void must_be_short(unsigned order)
{
    if (order > MAX_ORDER)
        return;
    MUST(pcp_pages(z.h) == 0);
    for (unsigned node = 0; node < z.h->nodes; node++)
        for (unsigned k = order; k <= MAX_ORDER; k++)
            MUST(list_empty(&z.h->buddy[node].free[k]));
    for (u32 i = 0; i < heap_cache_count(z.h); i++) {
        struct kmem_cache *c = heap_cache(z.h, i);

        for (unsigned cpu = 0; c && cpu < MAX(z.h->cpus, 1u); cpu++)
            MUST(cache_cpu(c, cpu)->count == 0 && cache_cpu(c, cpu)->spare_count == 0);
        for (unsigned node = 0; c && node < z.h->nodes; node++)
            MUST(c->node[node].empties == 0);
    }
}

static void must_be_short_of(const struct kmem_cache *c)
{
    must_be_short(c->order);
    for (unsigned node = 0; node < z.h->nodes; node++)
        MUST(c->node[node].partials == 0);
}

/* A new block at p for size bytes, by the tag of its frame. */
static struct block *adopt(u8 *p, size_t size, bool made)
{
    u64 tag = frame_tag_load(frame_of(&z.h->frames, p));
    struct block b = {.p = p, .size = size, .seed = z.seed++, .made = made};

    if (TAG_KIND(tag) == FRAME_SLAB) {
        b.owner = OWNER_CACHE;
        b.cache = TAG_CACHE(tag);
        b.bytes = b.cache->size;
    } else {
        MUST(TAG_KIND(tag) == FRAME_LARGE || TAG_KIND(tag) == FRAME_PAGES);
        b.owner = TAG_KIND(tag) == FRAME_LARGE ? OWNER_LARGE : OWNER_PAGES;
        b.order = TAG_ORDER(tag);
        b.bytes = PAGE_SIZE << b.order;
    }
    MUST((uintptr_t)p % KMALLOC_ALIGN == 0);
    MUST(b.owner == OWNER_PAGES || heap_ksize(z.h, p) == b.bytes);
    return shadow_add(&z.s, b);
}

static size_t choose_size(void)
{
    u8 how = take();

    switch (how & 7) {
    case 0:
    case 1:
    case 2: /* around a class */
        return (size_t)MAX((int)kmalloc_sizes[take() % KMALLOC_CLASSES] + (how >> 3) % 5 - 2, 1);
    case 3:
    case 4:
        return 1 + take();
    case 5:
        return 1 + take16() % 9000;
    case 6:
        return 8000 + take16() * (size_t)(1 + (how >> 3));
    default:
        return how & 8 ? 0 : ~(size_t)0 >> (how >> 4) * 4;
    }
}

static struct block *choose_block(void)
{
    return z.s.count ? &z.s.live[take16() % z.s.count] : NULL;
}

static struct kmem_cache *choose_cache(void)
{
    u8 which = take();
    struct kmem_cache *c = z.typed[which % TYPED];

    return which & 128 && c ? c : &z.h->kmalloc[which % KMALLOC_CLASSES];
}

static void remember(void *p)
{
    z.stale[z.stale_at++ % STALE] = p;
}

/* -- calls: allocation -- */

static void op_kmalloc(void)
{
    size_t size = choose_size(), align = 0;
    u8 how = take();
    u8 *p;

    if (how & 1) {
        align = (size_t)1 << (how >> 1) % 24;
        p = heap_kmalloc_aligned(z.h, size, align);
    } else {
        p = heap_kmalloc(z.h, size);
    }
    if (align > PAGE_SIZE << MAX_ORDER || size > PAGE_SIZE << MAX_ORDER) {
        MUST(!p);
    } else if (size == 0) {
        MUST(p == ZERO_SIZE_PTR);
        MUST(heap_kfree(z.h, p));
    } else if (p) {
        MUST(align == 0 || (uintptr_t)p % align == 0);
        adopt(p, size, false);
    } else if (align > KMALLOC_ALIGN) {
        MUST(align < PAGE_SIZE || (must_be_short(order_of(MAX(size, align))), true));
    } else if (size <= KMALLOC_MAX_SMALL) {
        must_be_short_of(z.h->by_size[(size - 1) / KMALLOC_ALIGN]);
    } else {
        must_be_short(order_of(size));
    }
}

static void op_krealloc(void)
{
    struct block *b = choose_block(), old;
    size_t size = choose_size(), align = (size_t)1 << take() % 14;
    u8 *q;

    if (!b || b->made || b->owner == OWNER_PAGES)
        return;
    old = *b;
    q = align > KMALLOC_ALIGN ? heap_krealloc_aligned(z.h, b->p, size, align)
                              : heap_krealloc(z.h, b->p, size);
    if (size == 0) {
        MUST(q == ZERO_SIZE_PTR);
        shadow_remove(&z.s, b);
        return;
    }
    if (!q) {
        MUST(size > old.bytes || (uintptr_t)old.p % align);
        shadow_check(b, b->size);
        return;
    }
    MUST(align <= KMALLOC_ALIGN || (uintptr_t)q % align == 0);
    if (size <= old.bytes && (uintptr_t)old.p % MAX(align, (size_t)KMALLOC_ALIGN) == 0)
        MUST(q == old.p);
    shadow_remove(&z.s, b);
    if (q != old.p)
        remember(old.p);
    old.p = q;
    shadow_check(&old, size);
    adopt(q, size, false);
}

static bool is_made(const struct kmem_cache *c)
{
    return c->ctor != NULL;
}

static void op_cache_alloc(void)
{
    struct kmem_cache *c = choose_cache();
    u8 *p = kmem_cache_alloc(c);

    if (p)
        MUST(adopt(p, c->size, is_made(c))->cache == c);
    else
        must_be_short_of(c);
}

static void op_bulk_alloc(void)
{
    struct kmem_cache *c = choose_cache();
    unsigned n = take() % BULK_MOST;
    void *p[BULK_MOST];

    if (z.s.count + n > SHADOW_BLOCKS)
        return;
    if (!kmem_cache_alloc_bulk(c, n, p)) {
        MUST(n > 0);
        return; /* what was gathered has gone back: memory need not be short now */
    }
    for (unsigned i = 0; i < n; i++)
        MUST(adopt(p[i], c->size, is_made(c))->cache == c);
}

static void op_alloc_pages(void)
{
    unsigned order = take() % (MAX_ORDER + 2);
    u8 *p = alloc_pages(z.h, order);

    MUST(!p || order <= MAX_ORDER);
    if (p) {
        MUST((uintptr_t)p % (PAGE_SIZE << order) == 0);
        adopt(p, PAGE_SIZE << order, false);
    } else {
        must_be_short(order);
    }
}

/* -- calls: frees -- */

static void free_block(struct block *b, u8 how)
{
    void *p = b->p;
    bool good;

    shadow_check(b, b->size);
    if (b->owner == OWNER_PAGES)
        good = free_pages(z.h, p, b->order);
    else if (b->owner == OWNER_LARGE || how % 4 == 0)
        good = how & 4 ? heap_kfree_bulk(z.h, 1, &p) == 1 : heap_kfree(z.h, p);
    else if (how % 4 == 1)
        good = kmem_cache_free_bulk(b->cache, 1, &p) == 1;
    else
        good = kmem_cache_free(b->cache, p);
    MUST(good);
    shadow_remove(&z.s, b);
    remember(p);
}

static void op_free(void)
{
    struct block *b = choose_block();

    if (b)
        free_block(b, take());
}

static void op_free_many(void)
{
    u8 n = take();

    for (unsigned i = 0; i < n && z.s.count; i++)
        free_block(&z.s.live[(i * 7919u + n) % z.s.count], (u8)i);
}

static void free_an_object(u8 how)
{
    unsigned at = take16();

    for (unsigned i = 0; i < z.s.count; i++) {
        struct block *b = &z.s.live[(at + i) % z.s.count];

        if (b->owner == OWNER_CACHE)
            return free_block(b, how);
    }
}

/* Takes all memory: what comes next fails, wherever it is in its way. Then perhaps frees a few
 * objects and asks again: what they leave in an array or a slab is all there is. */
static void op_hog(void)
{
    u8 then = take();

    for (unsigned order = MAX_ORDER + 1; order-- > 0;)
        while (z.s.count + BULK_MOST < SHADOW_BLOCKS) {
            u8 *p = alloc_pages(z.h, order);

            if (!p)
                break;
            adopt(p, PAGE_SIZE << order, false);
        }
    for (unsigned i = 0; i < then % 16; i++)
        free_an_object((u8)i);
    if (then % 16)
        op_alloc_pages();
}

/* A list for kfree_bulk: live blocks, holes, the same one twice. */
static void op_bulk_free(void)
{
    unsigned n = take() % BULK_MOST, listed = 0, good = 0;
    bool twice = z.knobs.objstate != V_objstate_off && take() & 1;
    void *list[BULK_MOST + 2];
    u64 bad = 0;

    for (unsigned i = 0; i < n && z.s.count; i++) {
        struct block *b = &z.s.live[(i * 31u + n) % z.s.count];

        if (b->owner == OWNER_PAGES)
            continue;
        shadow_check(b, b->size);
        list[listed++] = b->p;
        good++;
        remember(b->p);
        shadow_remove(&z.s, b);
    }
    if (twice && listed) {
        list[listed++] = list[0];
        bad = 1;
    }
    list[listed++] = NULL;
    MUST(heap_kfree_bulk(z.h, listed, list) == good + 1);
    if (bad) { /* at once double; later its slab, or the block, may have gone back */
        MUST(z.report.kind == BADFREE_double || z.report.kind == BADFREE_free_page);
        z.s.refused[z.report.kind]++;
    }
}

/* -- calls: bad frees, on purpose -- */

static bool free_by(enum door door, void *p, struct kmem_cache *c, unsigned order, u8 how)
{
    if (door == DOOR_PAGES)
        return free_pages(z.h, p, order);
    if (door == DOOR_CACHE)
        return how & 1 ? kmem_cache_free_bulk(c, 1, &p) : kmem_cache_free(c, p);
    if (how & 1)
        return heap_kfree_bulk(z.h, 1, &p);
    if (how & 2)
        return heap_krealloc(z.h, p, how) != NULL;
    return heap_kfree(z.h, p);
}

static void must_refuse(enum door door, void *p, struct kmem_cache *c, unsigned order, u8 how,
                        u32 kinds)
{
    unsigned before = z.reports;

    MUST(!free_by(door, p, c, order, how));
    MUST(z.reports == before + 1);
    MUST(z.report.address == (uintptr_t)p);
    MUST(kinds >> z.report.kind & 1);
    z.s.refused[z.report.kind]++;
}

static void *choose_address(void)
{
    u8 how = take();
    struct block *b;

    switch (how & 3) {
    case 0:
        return z.stale[take() % STALE];
    case 1:
        b = choose_block();
        return b ? b->p + (how & 4 ? take() : take16() * (size_t)16 % b->bytes) : NULL;
    case 2:
        return machine_area() + ((size_t)take16() << (how >> 2) % 10);
    default:
        return how & 4 ? (void *)&z : (void *)((uintptr_t)0x1234567 << take() % 40);
    }
}

/* What the heap cannot know, so a user must not do it: without states, an object that is free
 * looks like one that is not; and its own tables look like anybody's pages. */
static bool unknowable(enum door door, const void *p)
{
    struct frame *f = frame_of(&z.h->frames, p);
    u64 tag = f ? frame_tag_load(f) : FRAME_NONE;

    if (shadow_covering(&z.s, p))
        return false;
    if (door == DOOR_PAGES)
        return TAG_KIND(tag) == FRAME_PAGES;
    return TAG_IS_USERS(tag) && z.knobs.objstate == V_objstate_off;
}

static void op_bad_free(void)
{
    enum door door = (enum door)(take() % 3);
    struct kmem_cache *c = choose_cache();
    unsigned order = take() % (MAX_ORDER + 1);
    void *p = choose_address();
    u32 kinds;

    if (p == NULL || p == ZERO_SIZE_PTR || unknowable(door, p) ||
        shadow_takes(&z.s, door, p, c, order, &kinds))
        return;
    MUST(door != DOOR_KFREE || shadow_covering(&z.s, p) || heap_ksize(z.h, p) == 0);
    must_refuse(door, p, c, order, take(), kinds);
}

/* The block just freed, again, at once. */
static void op_double_free(void)
{
    struct block *b = choose_block();
    u32 kinds = (u32)1 << BADFREE_double | (u32)1 << BADFREE_free_page;
    void *p;

    if (!b || (b->owner == OWNER_CACHE && z.knobs.objstate == V_objstate_off))
        return;
    p = b->p;
    if (b->owner == OWNER_PAGES) {
        unsigned order = b->order;

        free_block(b, 0);
        must_refuse(DOOR_PAGES, p, NULL, order, 0, (u32)1 << BADFREE_free_page);
    } else {
        free_block(b, take());
        must_refuse(DOOR_KFREE, p, NULL, 0, take(), kinds);
    }
}

__attribute__((no_sanitize("address"), noinline)) static void write_anyway(volatile u8 *p, u8 v)
{
    *p = v;
}

/* A byte behind the object: the free sees it, and takes the object once it is mended. */
static void op_overrun(void)
{
    struct block *b = choose_block();
    u8 *zone;

    if (!b || b->owner != OWNER_CACHE || z.knobs.poison != V_poison_full)
        return;
    zone = b->p + b->cache->size + take() % b->cache->zone;
    write_anyway(zone, 0);
    must_refuse(take() & 1 ? DOOR_KFREE : DOOR_CACHE, b->p, b->cache, 0, take() & 1,
                (u32)1 << BADFREE_corrupt);
    write_anyway(zone, POISON_REDZONE);
}

/* -- calls: caches -- */

static void made_ctor(void *p)
{
    *(u64 *)p = MADE_MAGIC;
    z.constructed++;
}

static void made_dtor(void *p)
{
    MUST(*(u64 *)p == MADE_MAGIC);
    z.destructed++;
}

static void create(unsigned i, u8 how, u16 size)
{
    static const char *const names[TYPED] = {"t0", "t1", "t2", "t3", "t4", "t5"};
    struct kmem_cache_args a = {.name = names[i], .size = 1 + size % KMALLOC_MAX_SMALL};
    unsigned before = heap_cache_count(z.h);

    if (z.typed[i])
        return;
    if (how & 1)
        a.size = a.size % 300 + 1;
    a.align = how & 2 ? (size_t)1 << (how >> 4) % 13 : 0;
    if (how & 4)
        a.ctor = made_ctor, a.dtor = made_dtor;
    z.typed[i] = kmem_cache_create(z.h, &a);
    if (heap_cache_count(z.h) > before)
        z.tables += machine_table_pages(sizeof(struct kmem_cache));
    if (z.typed[i] && a.align)
        MUST(z.typed[i]->slot % a.align == 0);
}

static void op_create(void)
{
    unsigned i = take() % TYPED;
    u8 how = take();

    create(i, how, take16());
}

static void destroy(unsigned i)
{
    struct kmem_cache *c = z.typed[i];
    u64 busy = 12345, used;

    if (!c)
        return;
    used = z.s.in_use[c->id];
    host_cpu_id = 0;
    MUST(kmem_cache_destroy(c, &busy) == (used == 0));
    MUST(busy == used);
    if (!used)
        z.typed[i] = NULL;
}

/* Its last object is freed, it is destroyed, gives nothing while it is dead, and is made again of another shape. */
static void remake(unsigned i)
{
    struct kmem_cache *c = z.typed[i];
    u64 busy = 1;
    u8 how;

    if (!c)
        return;
    for (unsigned b = z.s.count; b-- > 0;)
        if (z.s.live[b].owner == OWNER_CACHE && z.s.live[b].cache == c)
            free_block(&z.s.live[b], (u8)b);
    destroy(i);
    MUST(!z.typed[i]);
    MUST(kmem_cache_alloc(c) == NULL);
    MUST(!kmem_cache_destroy(c, &busy) && busy == 0);
    how = take();
    create(i, how, take16());
    MUST(!z.typed[i] || z.typed[i] == c);
}

static void op_destroy(void)
{
    u8 how = take();

    if (how & 0x80)
        remake(how % TYPED);
    else
        destroy(how % TYPED);
}

static void op_shrink(void)
{
    struct kmem_cache *c = choose_cache();
    u64 slabs = machine_slabs(c);

    MUST(slabs - kmem_cache_shrink(c) >= machine_slabs(c));
    for (unsigned node = 0; node < z.h->nodes; node++)
        MUST(c->node[node].empties == 0);
    MUST(cache_cpu(c, host_cpu_id)->count == 0);
}

static void validate(void)
{
    struct heap_fault f = {0};

    must(heap_validate(z.h, &f), f.what ? f.what : "heap_validate");
}

/* -- the program -- */

static void op_small(void)
{
    switch (take() & 3) {
    case 0:
        heap_drain_this_cpu(z.h);
        break;
    case 1:
        pcp_drain_all(z.h);
        MUST(pcp_pages(z.h) == 0);
        break;
    case 2:
        validate();
        break;
    default:
        machine_boot_cpus();
        break;
    }
}

/* By the low five bits of its byte; the others say which CPU. */
static void (*const calls[32])(void) = {
    op_kmalloc,     op_kmalloc,     op_kmalloc,    op_kmalloc,   op_kmalloc,   op_free,
    op_free,        op_free,        op_free,       op_krealloc,  op_krealloc,  op_cache_alloc,
    op_cache_alloc, op_bulk_alloc,  op_bulk_alloc, op_bulk_free, op_bulk_free, op_alloc_pages,
    op_alloc_pages, op_hog,         op_free_many,  op_free_many, op_bad_free,  op_bad_free,
    op_bad_free,    op_double_free, op_overrun,    op_create,    op_destroy,   op_shrink,
    op_small,       op_small,
};

static void step(void)
{
    u8 op = take();

    host_cpu_id = (op >> 5) % host_cpu_number;
    if (shadow_full(&z.s))
        free_block(&z.s.live[op], op);
    calls[op & 31]();
}

/* Everything goes back, and all pages are there again. */
static void halt(void)
{
    u64 pools = 0;

    while (z.s.count)
        free_block(&z.s.live[z.s.count - 1], (u8)z.s.count);
    shadow_books(&z.s);
    for (unsigned i = 0; i < TYPED; i++)
        destroy(i);
    for (unsigned cpu = 0; cpu < host_cpu_number; cpu++) {
        host_cpu_id = cpu;
        heap_drain_this_cpu(z.h);
    }
    for (u32 i = 0; i < KMALLOC_CLASSES; i++)
        kmem_cache_shrink(&z.h->kmalloc[i]);
    pcp_drain_all(z.h);
    validate();
    MUST(z.constructed == z.destructed);
    for (u32 i = 0; i < SHEAF_POOLS; i++) /* a CPU keeps its magazine */
        pools += machine_slabs(&z.h->sheaf_pool[i]) << z.h->sheaf_pool[i].order;
    MUST(heap_pages_free(z.h) + z.tables + pools == z.pages_at_start);
    machine_off();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    unsigned early, steps = 0;

    z.in = data;
    z.end = data + size;
    if (!machine_boot())
        return 0;
    early = take() % 32;
    /* front=sheaf wants a sheaf for each CPU and cache then, and a boot without the memory for them ends. */
    early = early < 24 || z.knobs.front == V_front_sheaf ? 0 : early;
    while (z.in < z.end) {
        if (steps++ == early)
            machine_boot_cpus();
        step();
        if (steps % 4 == 0)
            shadow_books(&z.s);
    }
    halt();
    return 0;
}
