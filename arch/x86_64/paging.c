/* paging.c: the page tables the kernel runs on. One address space, built once, shared by all CPUs.
 *
 * The direct map follows the memory map, so that no device is mapped as memory: every 2 MiB page
 * that has RAM in it, and no other. The kernel's code and constants are read-only, everything else
 * is not executable where the CPU can tell (NX). A window holds single pages: stacks, each above a
 * hole, and uncached device registers. Another is the heap's, which says what it wants to see in it.
 * Nothing is ever unmapped, so no CPU needs telling.
 *
 * Pages for the direct map's tables are cut from the end of free memory below 4 GiB, which the boot
 * tables (start.S) map already. Those for the heap's window come from the heap.
 *
 * A page that the heap wants to see over and over fills one page table, that one a directory, and so on:
 * however long the stretch is, it takes a few entries and no memory.
 *
 * Locking: none. Contexts: boot; paging_mapped() any. */
#include "cpu.h"

#include "../../base/check.h"
#include "../../base/string.h"

#define ENTRIES         512u
#define LARGE_PAGE      0x200000ul
#define BYTES_AT(level) ((u64)PAGE_SIZE << 9 * (level)) /* that an entry of that level stands for */
#define PTE_ADDR        0x000ffffffffff000ul

#define STACK_WINDOW_BYTES ((u64)STACK_SLOTS * STACK_SLOT_BYTES)
#define STACK_TABLES       (STACK_WINDOW_BYTES / LARGE_PAGE)

typedef u64 table[ENTRIES] ALIGNED(4096);

static table pml4, kernel_pdpt, kernel_pd;
static table window_pdpt, window_pd, device_pt;
static u64
    stack_pt[STACK_TABLES * ENTRIES] ALIGNED(4096); /* one entry a page of the stack window */
static table
    repeated[3]; /* a page table full of one page, a directory full of that table, and on */
static unsigned devices, thread_stacks;
static u64 nx; /* PTE_NX, or 0 where the CPU has none */

static unsigned index_at(u64 address, unsigned level) /* 0: last level */
{
    return address >> (12 + 9 * level) & (ENTRIES - 1);
}

struct free_ranges {
    struct phys_range *at;
    unsigned n;
};

/* A page from the highest free memory that is mapped already. */
static void *take_mapped(void *ctx)
{
    struct free_ranges *free = ctx;

    for (unsigned i = free->n; i-- > 0;) {
        struct phys_range *r = &free->at[i];

        if (r->start >= r->end || r->start >= BOOT_MAP_BYTES)
            continue;
        if (r->end <= BOOT_MAP_BYTES) {
            r->end -= PAGE_SIZE;
            return direct(r->end);
        }
        r->start += PAGE_SIZE; /* it goes on where nothing is mapped yet */
        return direct(r->start - PAGE_SIZE);
    }
    PANIC(PANIC_boot, "no memory below 4 GiB for page tables", free->n, 0);
}

/* The table behind an entry, made if there is none; NULL: no page for it. */
static u64 *next_table(u64 *entry, plat_take_page *take, void *ctx)
{
    if (!(*entry & PTE_PRESENT)) {
        void *page = take(ctx);

        if (!page)
            return NULL;
        *entry = phys_of(memset(page, 0, PAGE_SIZE)) | PTE_PRESENT | PTE_WRITE;
    }
    return direct(*entry & PTE_ADDR);
}

/* The entry for an address in a table of that level, 0 being the last; NULL as above. */
static u64 *entry_of(u64 at, unsigned level, plat_take_page *take, void *ctx)
{
    u64 *t = pml4;

    for (unsigned k = 3; t && k > level; k--)
        t = next_table(&t[index_at(at, k)], take, ctx);
    return t ? &t[index_at(at, level)] : NULL;
}

static void map_direct(const struct phys_range *r, struct free_ranges *free)
{
    u64 end = MIN(r->end, (u64)DIRECT_MAP_BYTES);

    for (u64 p = round_down(r->start, LARGE_PAGE); p < end; p += LARGE_PAGE)
        *entry_of(DIRECT_MAP + p, 1, take_mapped, free) =
            p | PTE_PRESENT | PTE_WRITE | PTE_LARGE | PTE_GLOBAL | nx;
}

static void map_kernel(void)
{
    u64 text_bytes = (u64)image_data - KERNEL_BASE, bytes = (u64)image_end - KERNEL_BASE;

    pml4[index_at(KERNEL_BASE, 3)] = phys_of(kernel_pdpt) | PTE_PRESENT | PTE_WRITE;
    kernel_pdpt[index_at(KERNEL_BASE, 2)] = phys_of(kernel_pd) | PTE_PRESENT | PTE_WRITE;
    for (u64 p = 0; p < bytes; p += LARGE_PAGE)
        kernel_pd[index_at(KERNEL_BASE + p, 1)] =
            p | PTE_PRESENT | PTE_LARGE | PTE_GLOBAL | (p < text_bytes ? 0 : PTE_WRITE | nx);
}

static void map_window(void)
{
    pml4[index_at(STACK_WINDOW, 3)] = phys_of(window_pdpt) | PTE_PRESENT | PTE_WRITE;
    window_pdpt[index_at(STACK_WINDOW, 2)] = phys_of(window_pd) | PTE_PRESENT | PTE_WRITE;
    for (unsigned i = 0; i < STACK_TABLES; i++)
        window_pd[index_at(STACK_WINDOW, 1) + i] =
            (phys_of(stack_pt) + i * PAGE_SIZE) | PTE_PRESENT | PTE_WRITE;
    window_pd[index_at(DEVICE_WINDOW, 1)] = phys_of(device_pt) | PTE_PRESENT | PTE_WRITE;
}

_Static_assert(STACK_WINDOW_BYTES == DEVICE_WINDOW - STACK_WINDOW, "layout.h");
_Static_assert(STACK_SLOTS > MAX_CPUS, "every CPU has a slot, and threads have some");
_Static_assert(STACK_BYTES == MACHINE_STACK_BYTES, "a slot fits what machine.h promises");

void paging_init(const struct phys_range *ram, unsigned rams, struct phys_range *free,
                 unsigned frees)
{
    if (x86_cpuid(0x80000001, 0).d & 1u << 20)
        nx = PTE_NX;
    for (unsigned i = 0; i < rams; i++)
        map_direct(&ram[i], &(struct free_ranges){free, frees});
    map_kernel();
    map_window();
    paging_load();
}

u64 paging_features(void)
{
    return nx ? EFER_NXE : 0;
}

void paging_load(void)
{
    x86_wrmsr(MSR_EFER, x86_rdmsr(MSR_EFER) | paging_features());
    x86_write_cr3(phys_of(pml4));
    x86_write_cr4(x86_read_cr4() | CR4_PGE);
}

/* The boot tables' low half stays as start.S made it. */
u64 paging_trampoline(void)
{
    memcpy(boot_pml4 + ENTRIES / 2, pml4 + ENTRIES / 2, sizeof(table) / 2);
    return phys_of(boot_pml4);
}

void *plat_window(size_t bytes)
{
    static bool taken;

    if (taken || bytes > HEAP_WINDOW_BYTES)
        return NULL;
    taken = true;
    return (void *)HEAP_WINDOW;
}

_Static_assert(PLAT_WINDOW_LARGE == LARGE_PAGE, "plat.h");

bool plat_window_map(void *at, void *memory, size_t bytes, plat_take_page *take, void *ctx)
{
    u64 to = (u64)at, from = phys_of(memory), end = to + bytes;
    bool large = bytes % LARGE_PAGE == 0 && to % LARGE_PAGE == 0 && from % LARGE_PAGE == 0;
    u64 step = large ? LARGE_PAGE : PAGE_SIZE;

    for (; to < end; to += step, from += step) {
        u64 *entry = entry_of(to, large, take, ctx);

        if (!entry)
            return false;
        *entry = from | PTE_PRESENT | PTE_WRITE | (large ? PTE_LARGE : 0) | PTE_GLOBAL | nx;
    }
    return true;
}

bool plat_window_repeat(void *at, const void *page, size_t bytes, plat_take_page *take, void *ctx)
{
    u64 to = (u64)at, end = to + bytes, entry = phys_of(page) | PTE_PRESENT | PTE_WRITE | nx;
    u64 fill[4] = {entry | PTE_GLOBAL};

    for (unsigned level = 0; level < ARRAY_SIZE(repeated); level++) {
        for (unsigned i = 0; i < ENTRIES; i++)
            repeated[level][i] = fill[level];
        fill[level + 1] = phys_of(repeated[level]) | PTE_PRESENT | PTE_WRITE;
    }
    while (to < end) {
        unsigned level = ARRAY_SIZE(repeated);
        u64 *e;

        while (to % BYTES_AT(level) || BYTES_AT(level) > end - to)
            level--;
        e = entry_of(to, level, take, ctx);
        if (!e)
            return false;
        *e = fill[level];
        to += BYTES_AT(level);
    }
    return true;
}

void *paging_map_device(u64 phys)
{
    CHECK(devices < ENTRIES);
    unsigned i = devices++;

    device_pt[i] =
        (phys & PTE_ADDR) | PTE_PRESENT | PTE_WRITE | PTE_PCD | PTE_PWT | PTE_GLOBAL | nx;
    return (u8 *)DEVICE_WINDOW + i * PAGE_SIZE;
}

void *paging_map_stack(unsigned slot, const void *low)
{
    CHECK_VALUES(slot < STACK_SLOTS, slot, 0);
    u64 top = STACK_WINDOW + (slot + 1ul) * STACK_SLOT_BYTES, p = phys_of(low);

    for (u64 at = top - STACK_BYTES; at < top; at += PAGE_SIZE, p += PAGE_SIZE)
        stack_pt[(at - STACK_WINDOW) >> PAGE_SHIFT] = p | PTE_PRESENT | PTE_WRITE | PTE_GLOBAL | nx;
    return (void *)top;
}

void *machine_stack_map(const void *block)
{
    if (thread_stacks == STACK_SLOTS - MAX_CPUS)
        return NULL;
    return paging_map_stack(MAX_CPUS + thread_stacks++, block);
}

bool paging_mapped(u64 address)
{
    u64 phys = x86_read_cr3() & PTE_ADDR;

    if ((u64)((i64)(address << 16) >> 16) != address)
        return false;
    for (unsigned level = 4; level-- > 0;) {
        u64 entry = ((const u64 *)direct(phys))[index_at(address, level)];

        if (!(entry & PTE_PRESENT))
            return false;
        if (level == 0 || entry & PTE_LARGE)
            return true;
        phys = entry & PTE_ADDR;
    }
    return true;
}

bool machine_is_guard(u64 address)
{
    return address >= STACK_WINDOW && address < STACK_WINDOW + STACK_WINDOW_BYTES &&
           (address - STACK_WINDOW) % STACK_SLOT_BYTES < STACK_SLOT_BYTES - STACK_BYTES;
}
