/* paging.c: the page tables the kernel runs on. One address space, built once, shared by all CPUs.
 *
 * The direct map follows the memory map, so that no device is mapped as memory: every 2 MiB page
 * that has RAM in it, and no other. The kernel's code and constants are read-only, everything else
 * is not executable where the CPU can tell (NX). A window holds single pages: stacks, each above a
 * hole, and uncached device registers. Nothing is ever unmapped, so no CPU needs telling.
 *
 * Pages for the direct map's tables are cut from the end of free memory below 4 GiB, which the boot
 * tables (start.S) map already.
 *
 * Locking: none. Contexts: boot; paging_mapped() any. */
#include "cpu.h"

#include "../../base/check.h"
#include "../../base/string.h"

#define ENTRIES    512u
#define LARGE_PAGE 0x200000ul
#define PTE_ADDR   0x000ffffffffff000ul

#define STACK_WINDOW_BYTES ((u64)STACK_SLOTS * STACK_SLOT_BYTES)
#define STACK_TABLES       (STACK_WINDOW_BYTES / LARGE_PAGE)

typedef u64 table[ENTRIES] ALIGNED(4096);

static table pml4, kernel_pdpt, kernel_pd;
static table window_pdpt, window_pd, device_pt;
static u64
    stack_pt[STACK_TABLES * ENTRIES] ALIGNED(4096); /* one entry a page of the stack window */
static unsigned devices, thread_stacks;
static u64 nx; /* PTE_NX, or 0 where the CPU has none */

static unsigned index_at(u64 address, unsigned level) /* 0: last level */
{
    return address >> (12 + 9 * level) & (ENTRIES - 1);
}

/* A zeroed page from the highest free memory that is mapped already. */
static u64 *take_page(struct phys_range *free, unsigned frees)
{
    for (unsigned i = frees; i-- > 0;) {
        struct phys_range *r = &free[i];

        if (r->start >= r->end || r->end > BOOT_MAP_BYTES)
            continue;
        r->end -= PAGE_SIZE;
        return memset(direct(r->end), 0, PAGE_SIZE);
    }
    PANIC(PANIC_boot, "no memory below 4 GiB for page tables", frees, 0);
}

static u64 *next_table(u64 *entry, struct phys_range *free, unsigned frees)
{
    if (!(*entry & PTE_PRESENT))
        *entry = phys_of(take_page(free, frees)) | PTE_PRESENT | PTE_WRITE;
    return direct(*entry & PTE_ADDR);
}

static void map_direct(const struct phys_range *r, struct phys_range *free, unsigned frees)
{
    u64 end = MIN(r->end, (u64)DIRECT_MAP_BYTES);

    for (u64 p = round_down(r->start, LARGE_PAGE); p < end; p += LARGE_PAGE) {
        u64 at = DIRECT_MAP + p;
        u64 *pdpt = next_table(&pml4[index_at(at, 3)], free, frees);
        u64 *pd = next_table(&pdpt[index_at(at, 2)], free, frees);

        pd[index_at(at, 1)] = p | PTE_PRESENT | PTE_WRITE | PTE_LARGE | PTE_GLOBAL | nx;
    }
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
        map_direct(&ram[i], free, frees);
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
