/* boot.c: from the boot loader's words to a struct bootinfo. The order below is the order in which
 * things become possible: text on the console, traps that are reported, memory, time, interrupts;
 * then kernel/.
 *
 * Memory handed up is what the firmware lists as usable, less: the low 1 MiB (one page of it
 * becomes the trampoline), the kernel, the loader's information with the argument line in it,
 * symbol table and modules, and the page tables. These all stay in place and mapped. Whatever else is
 * lost of it, but for pages that are not usable in full, is told by left_out(): ranges that the table has
 * no room for, memory above the direct map, and the firmware's tables, which could be had back.
 *
 * A machine without ACPI, or with a table that does not hold water, runs on its boot CPU alone. One with
 * more CPUs than there are numbers for, or with CPUs that cannot be addressed, runs without those. Both
 * are told to kernel/, which knows whether anybody wanted more.
 *
 * Locking: none. Context: the boot CPU on its boot stack, interrupts off. */
#include "acpi.h"
#include "cpu.h"
#include "multiboot2.h"

#include "../../base/check.h"
#include "../../base/leftout.h"
#include "../../base/string.h"

#define LOW_MEMORY     0x100000ul
#define LOW_USABLE_END 0xa0000ul
#define MBI_BYTES_MAX  (16ul << 20)
#define LOADER_BYTES   (32ul << 20) /* GRUB 2.06 was seen to run in the last 17 MiB */

NORETURN void boot_main(u32 mbi);

static struct bootinfo info = {.platform = "x86_64"};
static struct mb2_info mb;
/* What the direct map holds, and the part of it that is free. */
static struct phys_range ram_table[BOOT_MAX_RANGES], usable_table[BOOT_MAX_RANGES];
static struct range_set ram = {.at = ram_table, .max = BOOT_MAX_RANGES};
static struct range_set usable = {.at = usable_table, .max = BOOT_MAX_RANGES};
static u64 mbi_start, mbi_end;

static void read_loader(u32 mbi)
{
    u32 bytes = *(const u32 *)direct(mbi);

    if (bytes > MBI_BYTES_MAX || bytes > BOOT_MAP_BYTES - mbi)
        PANIC(PANIC_boot, "the boot loader's information is too long", mbi, bytes);
    const char *why = mb2_parse(direct(mbi), bytes, &mb);
    if (why)
        PANIC(PANIC_boot, why, mbi, bytes);
    info.args = mb.args;
    mbi_start = mbi;
    mbi_end = mbi + (u64)bytes;
}

/* Adds what is listed as usable between start and end, in whole pages. */
static void add_listed(struct range_set *s, u64 start, u64 end)
{
    struct mb2_cursor at = {0};
    struct phys_range r;
    enum mb2_kind kind;

    while (mb2_next(&mb, &at, &r, &kind))
        if (kind == MB2_USABLE)
            ranges_add(s, (struct phys_range){MAX(r.start, start), MIN(r.end, end)});
    ranges_to_pages(s);
}

/* Cuts off what is listed as anything else, and where the kernel and what it was given lie. */
static void cut_taken(struct range_set *s)
{
    struct mb2_cursor at = {0};
    struct phys_range r;
    enum mb2_kind kind;

    while (mb2_next(&mb, &at, &r, &kind))
        if (kind != MB2_USABLE)
            ranges_cut(s, r);
    ranges_cut(s, mb.symbols);
    ranges_cut(s, mb.strings);
    ranges_cut(s, (struct phys_range){KERNEL_PHYS, phys_of(image_end)});
    ranges_cut(s, (struct phys_range){mbi_start, mbi_end});
    ranges_to_pages(s);
}

/* Adds what the kernel goes on reading, whosever memory the map says that it is. */
static void add_read(struct range_set *s, struct phys_range r)
{
    if (r.start < r.end)
        ranges_add(s, (struct phys_range){round_down(r.start, (u64)PAGE_SIZE),
                                          round_up(r.end, (u64)PAGE_SIZE)});
}

static u64 acpi_bytes(void)
{
    struct mb2_cursor at = {0};
    struct phys_range r;
    enum mb2_kind kind;
    u64 sum = 0;

    while (mb2_next(&mb, &at, &r, &kind))
        if (kind == MB2_ACPI)
            sum += r.end - r.start;
    return sum;
}

/* The lowest free page that a start-up interrupt can name; page 0 is left to those who follow
 * NULL. */
static u64 trampoline_page(void)
{
    static struct phys_range table[64];
    struct range_set low = {.at = table, .max = ARRAY_SIZE(table)};

    add_listed(&low, PAGE_SIZE, LOW_USABLE_END);
    cut_taken(&low);
    return low.n ? low.at[0].start : 0;
}

/* Wipes the part of a free range where boot loader and firmware may have run: they load themselves
 * at the top of memory below 4 GiB. An emulator that translates remembers which bytes it has
 * translated, and each store into a page that holds one of them takes a long way until those bytes
 * are overwritten: under QEMU's TCG a thread with its stack there took 30 us for an allocation
 * instead of half of one. What a page was before the kernel came must not decide how fast it is. */
static void wipe_loader(const struct phys_range *r)
{
    u64 end = r->end < BOOT_MAP_BYTES ? r->end : BOOT_MAP_BYTES;

    if (end > r->start) {
        u64 n = end - r->start < LOADER_BYTES ? end - r->start : LOADER_BYTES;

        memset(direct(end - n), 0, n);
    }
}

/* Says what `usable` lacks of what the firmware lists. */
static void tell_left_out(u64 above)
{
    u64 dropped = ram.dropped + usable.dropped, acpi = acpi_bytes() & ~(u64)(PAGE_SIZE - 1);
    u64 all = ranges_bytes(&usable) + dropped + above + acpi;

    if (dropped)
        left_out(LEFT_OUT_memory, dropped >> 10, all >> 10, "the smallest ranges");
    if (above)
        left_out(LEFT_OUT_memory_above, above >> 10, all >> 10, NULL);
    if (acpi)
        left_out(LEFT_OUT_memory_acpi, acpi >> 10, all >> 10, NULL);
}

static void read_memory(void)
{
    u64 above;

    smp_init(trampoline_page());
    add_listed(&ram, 0, ~(u64)0);
    above = ranges_bytes(&ram);
    ranges_cut(&ram, (struct phys_range){DIRECT_MAP_BYTES, ~(u64)0});
    above -= ranges_bytes(&ram);
    add_read(&ram, (struct phys_range){mbi_start, mbi_end});
    add_read(&ram, mb.symbols);
    add_read(&ram, mb.strings);
    /* Of ram and nothing else: what is not mapped is not free. */
    memcpy(usable.at, ram.at, ram.n * sizeof(*ram.at));
    usable.n = ram.n;
    cut_taken(&usable);
    ranges_cut(&usable, (struct phys_range){0, LOW_MEMORY});
    tell_left_out(above);
    paging_init(ram.at, ram.n, usable.at, usable.n);

    for (unsigned i = 0; i < usable.n; i++) {
        u64 pages = (usable.at[i].end - usable.at[i].start) >> PAGE_SHIFT;

        if (!pages)
            continue;
        wipe_loader(&usable.at[i]);
        info.range[info.ranges++] = (struct boot_range){direct(usable.at[i].start), pages};
        info.memory_bytes += pages << PAGE_SHIFT;
    }
}

/* ACPI tables lie outside usable memory, so they are read while the boot tables still map all of
 * 4 GiB. */
static const u8 *lend(void *ctx, u64 phys, size_t n)
{
    (void)ctx;
    return phys < BOOT_MAP_BYTES && n <= BOOT_MAP_BYTES - phys ? direct(phys) : NULL;
}

static const struct acpi_memory acpi_memory = {.lend = lend};

static const char *cpus_why(unsigned unreachable, unsigned not_listed)
{
    if (unreachable == 0)
        return "one kernel runs 64";
    return unreachable == not_listed
               ? "APIC ids from 255 up need x2APIC mode"
               : "one kernel runs 64, and APIC ids from 255 up need x2APIC mode";
}

/* Fills info.cpu[], the boot CPU first; returns where the local APICs are. */
static u64 read_cpus(void)
{
    static struct acpi_cpus list;
    u32 self = x86_cpuid(1, 0).b >> 24;
    const char *why = acpi_cpus(mb.rsdp, mb.rsdp_bytes, &acpi_memory, &list);

    info.cpus_found = info.cpus = 1;
    info.cpu[0] = (struct boot_cpu){.apic_id = self, .started = true};
    cpu_area_boot.apic_id = self;
    if (why) {
        info.cpus_unread = why;
        return x86_rdmsr(MSR_APIC_BASE) & 0x000ffffffffff000ul;
    }
    info.cpus_found += list.unreachable;
    for (unsigned i = 0; i < list.count; i++) {
        if (list.apic_id[i] == self)
            continue;
        info.cpus_found++;
        if (info.cpus < MAX_CPUS)
            info.cpu[info.cpus++].apic_id = list.apic_id[i];
    }
    if (info.cpus_found > info.cpus)
        info.cpus_why = cpus_why(list.unreachable, info.cpus_found - info.cpus);
    return list.lapic;
}

static const char *hypervisor(void)
{
    static const char *const known[][2] = {
        {"TCGTCGTCGTCG", "TCG"},     {"KVMKVMKVM", "KVM"},    {"VMwareVMware", "VMware"},
        {"Microsoft Hv", "Hyper-V"}, {"XenVMMXenVMM", "Xen"}, {"VBoxVBoxVBox", "VirtualBox"},
        {"bhyve bhyve ", "bhyve"},
    };
    static char raw[13];

    if (!(x86_cpuid(1, 0).c & 1u << 31))
        return "";
    struct cpuid c = x86_cpuid(0x40000000, 0);
    memcpy(raw, &c.b, 4);
    memcpy(raw + 4, &c.c, 4);
    memcpy(raw + 8, &c.d, 4);
    for (unsigned i = 0; i < ARRAY_SIZE(known); i++)
        if (strcmp(raw, known[i][0]) == 0)
            return known[i][1];
    return raw;
}

/* What the flags are after entry.S's addition and successful exchange, interrupts off: OF SF ZF
 * AF PF, and the bit that is always set. */
static bool flags_fault(void)
{
    u64 flags;

    flags_probe_raw(&flags);
    return flags != 0x8d6;
}

static void to_kernel(void *arg)
{
    kernel_entry(arg);
}

void boot_main(u32 mbi)
{
    struct acpi_clocks clocks;

    machine_serial_init();
    trap_init();
    cpu_load(&cpu_area_boot);

    if (!(x86_cpuid(1, 0).d & 1u << 9))
        PANIC(PANIC_boot, "the CPU has no local APIC", 0, 0);
    read_loader(mbi);
    symbol_init(&mb.symbols, &mb.strings); /* early: a panic has names from here on */
    u64 lapic = read_cpus();
    acpi_clocks(mb.rsdp, mb.rsdp_bytes, &acpi_memory, &clocks);
    read_memory();

    clock_init(&info, &clocks);
    if (!info.unfit)
        lapic_init(lapic);
    info.hypervisor = hypervisor();
    info.flags_fault = flags_fault();
    stack_switch_call(paging_map_stack(0, boot_stack), to_kernel, &info);
}
