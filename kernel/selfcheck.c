/* selfcheck.c: does the allocator do what it should, under the knobs of this boot? It runs before
 * and after the measurements of every boot, so that no figure comes from an allocator that is
 * broken under just those knobs.
 *
 * What it does: on every CPU at once, batches of each class that overflow every array, filled with
 * a pattern of their own and read back before they are freed, one by one and in bulk; data carried
 * through krealloc; aligned blocks; edges of the interface; a typed cache's whole life; fill
 * patterns as configured; and exactly one planted double free on each path on which this boot's
 * knobs can see one. It leaves as many objects in use as it found.
 *
 * What it does not do: prove the balance law or walk the structures (heap_validate, called beside
 * it by lab.c), or stress races (the hosted tests do).
 *
 * Locking: none; the first failure is claimed by compare-and-swap. Contexts: thread on CPU 0, parts
 * on all CPUs. */
#include "selfcheck.h"
#include "kernel.h"
#include "telemetry/telemetry.h"
#include "../base/fmt.h"
#include "../base/poison.h"
#include "../base/string.h"

#define BATCH_MAX   1024u /* objects of one CPU: pointers in two pages */
#define LARGE_BYTES (4 * PAGE_SIZE)
#define TYPED_BYTES 200u
#define TYPED_ALIGN 64u
#define TYPED_MAGIC 0x7479706564000000u
#define TYPED_COUNT 3u

/* Reads and writes what ASan would not let us: freed objects and red zones, on purpose. */
#define UNCHECKED __attribute__((no_sanitize("address", "thread"))) NOINLINE

static struct {
    u32 failed; /* atomic: 1 once why is somebody's */
    char why[160];
    u64 expected; /* planted bad frees */
    u32 armed;    /* atomic */
    u64 constructed, destructed;
} self;

/* -- saying what went wrong: the first failure counts -- */

PRINTF(1, 2) static void fail(const char *format, ...)
{
    va_list args;

    if (__atomic_exchange_n(&self.failed, 1, __ATOMIC_ACQ_REL))
        return;
    va_start(args, format);
    fmt_mark_cut(self.why, sizeof(self.why), fmt_v(self.why, sizeof(self.why), format, args));
    va_end(args);
}

static bool failed(void)
{
    return __atomic_load_n(&self.failed, __ATOMIC_ACQUIRE);
}

/* -- all classes, on every CPU -- */

static u8 pattern_byte(unsigned cpu, unsigned i, size_t at)
{
    return (u8)(cpu * 131 + i * 29 + at * 7 + 1);
}

static void fill(u8 *p, size_t size, unsigned cpu, unsigned i)
{
    for (size_t at = 0; at < size; at++)
        p[at] = pattern_byte(cpu, i, at);
    if (cpu == 0 && i == 0 && provoke_is("selfcheck"))
        p[size / 2] ^= 1; /* the planted fault that the read-back must find */
}

static bool filled(const u8 *p, size_t size, unsigned cpu, unsigned i)
{
    for (size_t at = 0; at < size; at++)
        if (p[at] != pattern_byte(cpu, i, at))
            return false;
    return true;
}

/* Enough to overflow the CPU's array twice, as far as memory allows: an eighth of it for all CPUs
 * together. */
static unsigned batch_size(const struct kmem_cache *c)
{
    unsigned want = 2 * cache_front_capacity(c) + 17;
    u64 room;

    room = heap_pages_free(kheap) * PAGE_SIZE / 8 / plat_cpu_count() / cache_object_size(c);
    return (unsigned)MAX(MIN(MIN((u64)want, room), (u64)BATCH_MAX), (u64)2);
}

static void check_object(void **batch, unsigned i, size_t size, const char *name)
{
    unsigned cpu = plat_cpu_id();

    if (!filled(batch[i], size, cpu, i))
        fail("%s: object %u of CPU %u does not hold what was written", name, i, cpu);
    if (!kfree(batch[i]))
        fail("%s: a good free was refused on CPU %u", name, cpu);
}

static void class_on_this_cpu(struct kmem_cache *c, void **batch)
{
    size_t size = cache_object_size(c);
    unsigned n = batch_size(c), cpu = plat_cpu_id(), got = 0;

    for (; got < n; got++) {
        batch[got] = kmalloc(size);
        if (!batch[got])
            break;
        if ((uintptr_t)batch[got] % KMALLOC_ALIGN)
            fail("%s: object at %p is not aligned", cache_name(c), batch[got]);
        fill(batch[got], size, cpu, got);
    }
    if (got < n)
        fail("%s: no memory for object %u of %u on CPU %u", cache_name(c), got, n, cpu);
    /* Not in the order of allocation: even ones forwards, odd ones backwards. */
    for (unsigned i = 0; i < got; i += 2)
        check_object(batch, i, size, cache_name(c));
    for (unsigned i = got; i-- > 0;)
        if (i & 1)
            check_object(batch, i, size, cache_name(c));
}

/* The same by the list: all n at once, and all back at once. A line of each object will do. */
static void class_in_bulk(struct kmem_cache *c, void **batch)
{
    size_t size = MIN(cache_object_size(c), (size_t)CACHE_LINE);
    unsigned n = batch_size(c), cpu = plat_cpu_id();

    if (!kmem_cache_alloc_bulk(c, n, batch)) {
        fail("%s: no memory for %u objects at once on CPU %u", cache_name(c), n, cpu);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        fill(batch[i], size, cpu, i);
    for (unsigned i = 0; i < n; i++)
        if (!filled(batch[i], size, cpu, i))
            fail("%s: bulk object %u of CPU %u does not hold what was written", cache_name(c), i,
                 cpu);
    if (kmem_cache_free_bulk(c, n, batch) != n)
        fail("%s: a good bulk free was refused on CPU %u", cache_name(c), cpu);
}

static void classes_part(void *arg)
{
    void **batch = alloc_pages(kheap, 1);

    (void)arg;
    _Static_assert(BATCH_MAX * sizeof(void *) <= PAGE_SIZE << 1, "a batch fits its two pages");
    if (!batch) {
        fail("no memory for a batch on CPU %u", plat_cpu_id());
        return;
    }
    for (unsigned id = 0; id < KMALLOC_CLASSES && !failed(); id++) {
        class_on_this_cpu(heap_cache(kheap, id), batch);
        class_in_bulk(heap_cache(kheap, id), batch);
    }
    if (!free_pages(kheap, batch, 1))
        fail("a good free of two pages was refused");
}

/* -- krealloc, and the edges of kmalloc -- */

static void check_krealloc(void)
{
    static const u32 sizes[] = {8, 24, 100, 101, 700, 4096, 8192, 8193, 40000, 70000, 300, 16, 1};
    size_t before = 0;
    u8 *p = NULL;

    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
        u8 *q = heap_krealloc(kheap, p, sizes[i]);

        if (!q) {
            fail("krealloc: no memory for %u bytes", sizes[i]);
            break;
        }
        p = q;
        if (!filled(p, MIN(before, (size_t)sizes[i]), 1, i))
            fail("krealloc to %u bytes lost data", sizes[i]);
        before = sizes[i];
        fill(p, before, 1, i + 1);
        if (heap_ksize(kheap, p) < before)
            fail("ksize says less than the %u bytes asked for", sizes[i]);
    }
    if (!kfree(p))
        fail("krealloc: a good free was refused");
}

static void check_edges(void)
{
    void *p = kmalloc(0);

    if (p != ZERO_SIZE_PTR || !kfree(p) || !kfree(NULL))
        fail("kmalloc(0) or kfree(NULL) does not do what mm.h says");
    if (kmalloc((PAGE_SIZE << MAX_ORDER) + 1) || kmalloc(~(size_t)0))
        fail("a size beyond the largest block was granted");
}

static void check_aligned(void)
{
    static const u32 sizes[] = {1, 100, 4096, 10000};

    for (size_t align = 8; align <= 16 * PAGE_SIZE; align *= 8)
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
            u8 *p = heap_kmalloc_aligned(kheap, sizes[i], align);

            if (!p || (uintptr_t)p % align)
                fail("no block of %u bytes on a boundary of %zu: %p", sizes[i], align, (void *)p);
            else
                fill(p, sizes[i], 1, 1);
            if (!kfree(p))
                fail("an aligned block was refused as a bad free");
        }
}

/* -- a typed cache's life -- */

struct typed {
    u64 magic;
    u8 rest[TYPED_BYTES - sizeof(u64)];
};

static void typed_ctor(void *p)
{
    ((struct typed *)p)->magic = TYPED_MAGIC;
    self.constructed++;
}

static void typed_dtor(void *p)
{
    if (((struct typed *)p)->magic != TYPED_MAGIC)
        fail("typed cache: the destructor met an object that was not as its constructor left it");
    self.destructed++;
}

static void typed_objects(struct kmem_cache *c)
{
    struct typed *object[TYPED_COUNT];
    u64 busy = 0;

    for (unsigned i = 0; i < TYPED_COUNT; i++) {
        object[i] = kmem_cache_alloc(c);
        if (!object[i])
            fail("typed cache: no memory");
        else if (object[i]->magic != TYPED_MAGIC || (uintptr_t)object[i] % TYPED_ALIGN)
            fail("typed cache: object %u is not constructed, or not aligned", i);
    }
    if (kmem_cache_destroy(c, &busy) || busy != TYPED_COUNT)
        fail("typed cache: destroyed with %u objects out, or %llu counted", TYPED_COUNT,
             (unsigned long long)busy);
    for (unsigned i = 0; i < TYPED_COUNT; i++)
        if (object[i] && !kmem_cache_free(c, object[i]))
            fail("typed cache: a good free was refused");
}

/* Sampling stands still meanwhile: it must not look at a cache that is coming or going. */
static void check_typed(void)
{
    const struct kmem_cache_args args = {"selfcheck-typed", sizeof(struct typed), TYPED_ALIGN,
                                         typed_ctor,        typed_dtor,           0};
    struct kmem_cache *c = kmem_cache_create(kheap, &args);
    u64 busy = 0;

    if (!c) {
        fail("typed cache: could not be made");
        return;
    }
    typed_objects(c);
    if (failed())
        return;
    kmem_cache_shrink(c);
    if (!kmem_cache_destroy(c, &busy))
        fail("typed cache: not destroyed, %llu objects busy", (unsigned long long)busy);
    if (self.constructed == 0 || self.constructed != self.destructed)
        fail("typed cache: %llu objects constructed, %llu destructed",
             (unsigned long long)self.constructed, (unsigned long long)self.destructed);
}

/* -- planted bad frees -- */

static void arm(u64 n)
{
    __atomic_store_n(&self.armed, n != 0, __ATOMIC_RELEASE);
    self.expected += n;
}

/* Frees p, which must be refused, and counted once. */
static void expect_refusal(void *p, const char *path)
{
    u64 before = selfcheck_badfrees_counted();

    arm(1);
    if (kfree(p))
        fail("a double free was accepted: %s", path);
    arm(0);
    if (selfcheck_badfrees_counted() != before + 1)
        fail("a refused free was counted %llu times: %s",
             (unsigned long long)(selfcheck_badfrees_counted() - before), path);
}

static void *allocated(size_t size)
{
    void *p = kmalloc(size);

    if (!p)
        fail("no memory for a block of %zu bytes", size);
    return p;
}

static void free_part(void *p)
{
    if (!kfree(p))
        fail("a good free was refused on CPU %u", plat_cpu_id());
}

static void refused_part(void *p)
{
    expect_refusal(p, "small object, on another CPU");
}

/* The first of three sheaves' or magazines' worth of frees lies in the barn or depot at the end. */
static void check_double_free_in_barn(void)
{
    static void *p[3 * 252];
    unsigned n = 0, most = 3 * cache_front_capacity(heap_cache(kheap, 2));

    _Static_assert(KMALLOC_CLASSES > 2, "cache 2 serves 64 bytes");
    CHECK_VALUES(most <= ARRAY_SIZE(p), most, ARRAY_SIZE(p));
    while (n < most && (p[n] = allocated(64)))
        n++;
    for (unsigned i = 0; i < n; i++)
        free_part(p[i]);
    if (n)
        expect_refusal(p[0], "small object, in the barn or depot");
}

static void check_double_frees(void)
{
    u64 last = (u64)1 << (plat_cpu_count() - 1);
    void *p;

    if (knobs.badfree == V_badfree_panic)
        return;
    p = allocated(LARGE_BYTES);
    if (p) {
        free_part(p);
        expect_refusal(p, "large block");
    }
    if (knobs.objstate == V_objstate_off)
        return;
    p = allocated(64);
    if (p) {
        free_part(p);
        expect_refusal(p, "small object, same CPU");
    }
    if (knobs.front == V_front_sheaf || knobs.front == V_front_magazine)
        check_double_free_in_barn();
    if (plat_cpu_count() == 1)
        return;
    p = allocated(64);
    if (p) {
        free_part(p);
        plat_run_on_cpus(last, refused_part, p);
    }
    p = allocated(64);
    if (p) {
        plat_run_on_cpus(last, free_part, p);
        expect_refusal(p, "small object, freed by another CPU");
    }
}

/* -- fill patterns -- */

UNCHECKED static unsigned count_bytes(const volatile u8 *p, size_t size, u8 value)
{
    unsigned n = 0;

    for (size_t at = 0; at < size; at++)
        n += p[at] == value;
    return n;
}

UNCHECKED static u8 swap_byte(volatile u8 *p, u8 value)
{
    u8 before = *p;

    *p = value;
    return before;
}

/* A word behind the object is written over: the free must notice, and take the object once it is
 * mended. */
static void check_redzone(size_t size)
{
    u8 *p = allocated(size), before;

    if (!p)
        return;
    before = swap_byte(p + size, 0);
    expect_refusal(p, "red zone written over");
    swap_byte(p + size, before);
    free_part(p);
}

static void check_poison(void)
{
    const size_t size = 256;
    u8 *p;

    if (knobs.poison == V_poison_off)
        return;
    p = allocated(size);
    if (!p)
        return;
    if (knobs.poison == V_poison_full && count_bytes(p, size, POISON_FRESH) != size)
        fail("poison: a fresh object is not filled with the fresh pattern");
    memset(p, 0, size);
    free_part(p);
    /* A free-list link may stand in the object. */
    if (count_bytes(p, size, POISON_FREE) + sizeof(void *) < size)
        fail("poison: a freed object is not filled with the free pattern");
    if (knobs.poison == V_poison_full && knobs.badfree != V_badfree_panic)
        check_redzone(size);
}

/* -- the whole -- */

static u64 objects_in_use(void)
{
    u64 sum = 0;

    for (unsigned id = 0; id < heap_cache_count(kheap); id++) {
        const struct kmem_cache *c = heap_cache(kheap, id);
        struct balance b;

        if (!c || cache_is_internal(c))
            continue;
        cache_balance(c, &b);
        sum += b.in_use;
    }
    return sum;
}

bool selfcheck_run(char *why, size_t size)
{
    static void (*const checks[])(void) = {check_krealloc, check_edges, check_aligned,
                                           check_double_frees, check_poison};
    u64 before = objects_in_use(), after;

    plat_run_on_cpus(plat_all_cpus(), classes_part, NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(checks) && !failed(); i++)
        checks[i]();
    telemetry_sampling(false);
    if (!failed())
        check_typed();
    telemetry_sampling(true);
    after = objects_in_use();
    if (after != before)
        fail("%llu objects were in use before and %llu after", (unsigned long long)before,
             (unsigned long long)after);
    text_copy(why, size, self.why);
    return !failed();
}

u64 selfcheck_badfrees_expected(void)
{
    return self.expected;
}

u64 selfcheck_badfrees_counted(void)
{
    u64 sum = 0;

    for (unsigned kind = BADFREE_NONE + 1; kind < NR_BADFREE_KINDS; kind++)
        sum += heap_badfree_count(kheap, kind);
    return sum;
}

bool selfcheck_badfree_armed(void)
{
    return __atomic_load_n(&self.armed, __ATOMIC_ACQUIRE);
}
