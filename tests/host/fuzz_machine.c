/* fuzz_machine.c: chooses knobs, memory (one range or two) and CPUs from the first bytes of the fuzzer's
 * input, and builds that machine: one thread, one area of memory used again and again.
 *
 * Another front end, or any other knob of mm/, belongs into choose_knobs().
 *
 * Locking: none; one thread. */
#include <string.h>
#include <sys/mman.h>

#include "fuzz_machine.h"
#include "sim_plat.h"

struct fuzz_machine z;

char *machine_area(void)
{
    static char *at;

    if (!at) {
        size_t align = PAGE_SIZE << MAX_ORDER;
        char *p = mmap(NULL, AREA_BYTES + align, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        MUST(p != MAP_FAILED);
        at = (char *)round_up((uintptr_t)p, (uintptr_t)align);
    }
    return at;
}

static void choose_knobs(struct knobs *k)
{
    static const char *const limits[] = {"8/8/6/4/3/2", "1/1/1/1/1/1", "32/32/32/32/32/32",
                                         "3/1/2/1/5/1"};
    static const u64 objects[] = {32, 1, 2, 256}, bytes[] = {16384, 0, 1048576, 5000};
    static const u64 partial[] = {5, 0, 1, 1000};
    struct knob_refusals r;
    u8 a = take(), b = take(), c = take();

    MUST(knobs_parse(k, "", true, &r));
    k->front = a & 1     ? V_front_none
               : c & 64  ? V_front_magazine
               : c & 128 ? V_front_sheaf
                         : V_front_bounded;
    k->mag_interval = c & 128 ? 1 : 15000;
    k->sheaf_cap = c & 1;
    k->barn_full = c & 2 ? 1 : 10;
    k->barn_empty = c & 4 ? 0 : 10;
    k->typed = (a ^ c) & 8 ? V_typed_direct : V_typed_front;
    k->owner = a & 2 ? V_owner_lock : V_owner_tag;
    k->pcp = a & 4 ? V_pcp_off : V_pcp_on;
    k->objstate = (enum knob_value)(V_objstate_header + (a >> 3 & 3) % 3);
    k->poison = (enum knob_value)(V_poison_off + (a >> 5 & 3) % 3);
    k->lock = a & 128 ? V_lock_mcs : V_lock_tas;
    k->stats_slab = (enum knob_value)(V_stats_slab_global + (b & 3) % 3);
    k->stats_large = (enum knob_value)(V_stats_large_global + (b >> 2 & 3) % 3);
    k->nodes = (b & 3) == 3 ? 2 : 1;
    k->slab_min_partial = partial[b >> 4 & 3];
    strcpy(k->pcp_limits, limits[b >> 6]);
    k->bounded_objects = objects[c & 3];
    k->bounded_bytes = bytes[c >> 2 & 3];
    z.cpus = 1 + (c >> 4 & 3);
}

static void on_badfree(const struct badfree_report *r)
{
    z.report = *r;
    z.reports++;
}

static void serve_drain(void)
{
    heap_drain_serve(z.h);
}

bool machine_boot(void)
{
    struct mem_range r[2];
    u64 need, pages;
    u8 shape, hole;

    memset(z.typed, 0, sizeof(z.typed));
    memset(z.stale, 0, sizeof(z.stale));
    z.stale_at = z.reports = 0;
    z.tables = z.constructed = z.destructed = 0;
    z.seed = 0;
    host_cpu_id = 0;
    host_cpu_number = 1;
    choose_knobs(&z.knobs);
    shape = take();
    hole = take();
    pages = (AREA_BYTES >> PAGE_SHIFT) - 64 - (u64)(shape >> 2) * 16;
    r[0] = (struct mem_range){machine_area() + PAGE_SIZE * hole, pages - 256};
    r[1] = r[0];
    if (shape & 1) { /* the second is small, and may lie right behind */
        r[1] =
            (struct mem_range){(char *)r[0].base + ((pages - 400) << PAGE_SHIFT), 100 + hole / 4};
        r[0].pages = pages - 400 - (shape & 2 ? hole / 8 : 0);
    }
    lockstat_init(&z.knobs, 1, NULL);
    plat_unpoison(machine_area(), AREA_BYTES);
    z.h = heap_init(&z.knobs, r, 1 + (shape & 1), &need);
    if (!z.h)
        return false;
    shadow_begin(&z.s, z.h);
    z.pages_at_start = heap_pages_free(z.h);
    heap_set_badfree_handler(z.h, on_badfree);
    sim_kick_handler = serve_drain;
    return true;
}

u64 machine_table_pages(size_t bytes)
{
    u64 pages = 1;

    while (pages << PAGE_SHIFT < bytes)
        pages *= 2;
    return pages;
}

void machine_boot_cpus(void)
{
    if (z.h->cpus)
        return;
    host_cpu_id = 0;
    if (!heap_cpus_init(z.h, z.cpus))
        return; /* short: goes on with the boot rows */
    z.tables += machine_table_pages(PLAT_CPU_STRIDE * z.cpus);
    host_cpu_number = z.cpus;
}

u64 machine_slabs(const struct kmem_cache *c)
{
    u64 sum = 0;

    for (unsigned node = 0; node < z.h->nodes; node++)
        sum += c->node[node].slabs;
    return sum;
}

void machine_off(void)
{
    host_cpu_id = 0;
    for (u32 i = 0; i < z.h->caches; i++)
        cache_locks_destroy(z.h->cache[i]);
    for (unsigned i = 0; i < z.h->nodes; i++)
        spin_destroy(&z.h->buddy[i].lock);
    spin_destroy(&z.h->caches_lock);
}
