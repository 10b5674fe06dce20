/* boot.c: from the boot loader's words to a struct bootinfo. The order below is the order in which
 * things become possible: text on the console, traps that are reported, memory, time, interrupts;
 * then kernel/.
 *
 * Memory handed up is what the firmware lists as usable, less: the low 1 MiB (one page of it
 * becomes the trampoline), the kernel, the loader's information with the argument line in it,
 * symbol table and modules, and the page tables. These all stay in place and mapped.
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
#include "../../base/string.h"

#define LOW_MEMORY     0x100000ul
#define LOW_USABLE_END 0xa0000ul
#define MBI_BYTES_MAX  (16ul << 20)
#define LOADER_BYTES   (32ul << 20) /* GRUB 2.06 was seen to run in the last 17 MiB */

NORETURN void boot_main(u32 mbi);

static struct bootinfo info = {.platform = "x86_64"};
static struct mb2_info mb;
static struct phys_range ram[BOOT_MAX_RANGES], usable[BOOT_MAX_RANGES];
/* What the loader's information reserves, and behind it what boot.c itself keeps. */
static struct phys_range reserved[MB2_MAX_RESERVED + 32];
static unsigned reserveds;

static void reserve(u64 start, u64 end)
{
    reserved[reserveds++] =
        (struct phys_range){round_down(start, (u64)PAGE_SIZE),
                            end > ~(u64)0 - PAGE_SIZE ? end : round_up(end, (u64)PAGE_SIZE)};
}

static void read_loader(u32 mbi)
{
    u32 bytes = *(const u32 *)direct(mbi);

    if (bytes > MBI_BYTES_MAX || bytes > BOOT_MAP_BYTES - mbi)
        PANIC(PANIC_boot, "the boot loader's information is too long", mbi, bytes);
    const char *why = mb2_parse(direct(mbi), bytes, &mb);
    if (why)
        PANIC(PANIC_boot, why, mbi, bytes);
    info.args = mb.args;

    reserveds = mb2_reserved(&mb, reserved);
    reserve(KERNEL_PHYS, phys_of(image_end));
    reserve(mbi, mbi + (u64)bytes);
}

/* The lowest free page that a start-up interrupt can name; page 0 is left to those who follow
 * NULL. */
static u64 trampoline_page(void)
{
    unsigned before = reserveds;
    struct phys_range low;

    reserve(0, PAGE_SIZE);
    reserve(LOW_USABLE_END, ~(u64)0);
    unsigned n = ranges_normalise(mb.usable, mb.usables, reserved, reserveds, &low, 1);
    reserveds = before;
    return n ? low.start : 0;
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

static void read_memory(void)
{
    unsigned rams, usables;

    smp_init(trampoline_page());
    rams = ranges_normalise(mb.usable, mb.usables, NULL, 0, ram, ARRAY_SIZE(ram));
    reserve(0, LOW_MEMORY);
    reserve(DIRECT_MAP_BYTES, ~(u64)0);
    usables =
        ranges_normalise(mb.usable, mb.usables, reserved, reserveds, usable, ARRAY_SIZE(usable));
    paging_init(ram, rams, usable, usables);

    for (unsigned i = 0; i < usables; i++) {
        u64 pages = (usable[i].end - usable[i].start) >> PAGE_SHIFT;

        if (!pages)
            continue;
        wipe_loader(&usable[i]);
        info.range[info.ranges++] = (struct boot_range){direct(usable[i].start), pages};
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
