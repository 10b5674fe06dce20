/* lapic.c: the local interrupt controller of each CPU, in xAPIC mode: timer, interrupts between
 * CPUs, NMIs.
 *
 * The timer counts at a rate nobody declares, the same on all CPUs; it is measured once, on the
 * boot CPU, against the calibrated TSC. Sending takes two register writes that must not be torn
 * apart by an interrupt that also sends, hence interrupts off. Every wait is bounded: this also
 * runs in panics.
 *
 * Deliberately absent: x2APIC mode, the I/O APIC (no device interrupts here), the TSC-deadline
 * timer.
 *
 * Locking: none; the registers are the CPU's own. Contexts: any. */
#include "cpu.h"

#include "../../base/check.h"

#define REG_ID       0x20u
#define REG_PRIORITY 0x80u
#define REG_EOI      0xb0u
#define REG_SPURIOUS 0xf0u
#define REG_ICR_LOW  0x300u
#define REG_ICR_HIGH 0x310u
#define REG_TIMER    0x320u
#define REG_LINT0    0x350u
#define REG_LINT1    0x360u
#define REG_ERROR    0x370u
#define REG_INITIAL  0x380u
#define REG_CURRENT  0x390u
#define REG_DIVIDE   0x3e0u

#define ICR_PENDING     0x1000u
#define TIMER_PERIODIC  0x20000u
#define LVT_MASKED      0x10000u
#define LVT_NMI         0x400u
#define SPURIOUS_ENABLE 0x100u
#define DIVIDE_BY_16    0x3u

#define BASE_ENABLED 0x800u
#define BASE_X2APIC  0x400u

static u8 *registers;
static u64 timer_hz;

static u32 read(unsigned reg)
{
    return *(volatile u32 *)(registers + reg);
}

static void write(unsigned reg, u32 v)
{
    *(volatile u32 *)(registers + reg) = v;
}

u32 lapic_id(void)
{
    return read(REG_ID) >> 24;
}

void lapic_eoi(void)
{
    write(REG_EOI, 0);
}

void lapic_ipi(u32 apic_id, u32 command)
{
    unsigned long flags = plat_irq_save();

    for (unsigned i = 0; i < 100000 && read(REG_ICR_LOW) & ICR_PENDING; i++)
        plat_relax();
    write(REG_ICR_HIGH, apic_id << 24);
    write(REG_ICR_LOW, command);
    plat_irq_restore(flags);
}

void lapic_enable(void)
{
    u64 base = x86_rdmsr(MSR_APIC_BASE);

    if (base & BASE_X2APIC)
        PANIC(PANIC_boot, "the firmware left the local APIC in x2APIC mode", base, 0);
    x86_wrmsr(MSR_APIC_BASE, base | BASE_ENABLED);
    write(REG_PRIORITY, 0);
    write(REG_TIMER, LVT_MASKED | VECTOR_TIMER);
    write(REG_LINT0, LVT_MASKED);
    write(REG_LINT1, LVT_NMI); /* where boards wire their NMI */
    write(REG_ERROR, LVT_MASKED | VECTOR_ERROR);
    write(REG_DIVIDE, DIVIDE_BY_16);
    write(REG_SPURIOUS, SPURIOUS_ENABLE | VECTOR_SPURIOUS);
}

/* Timer counts in the time of a wait, the wait as long as the TSC says it was. */
static u64 timer_sample(void)
{
    write(REG_INITIAL, ~0u);
    u64 start = plat_cycles();
    clock_wait_us(5000);
    u32 left = read(REG_CURRENT);
    u64 length = plat_cycles() - start;
    write(REG_INITIAL, 0);

    return (u64)(~0u - left) * (plat_cycles_hz() / 1000) / length * 1000;
}

void lapic_init(u64 phys)
{
    u64 sample[5];

    registers = paging_map_device(phys);
    lapic_enable();
    for (unsigned i = 0; i < ARRAY_SIZE(sample); i++) {
        u64 s = timer_sample();
        unsigned at = i;

        for (; at > 0 && sample[at - 1] > s; at--)
            sample[at] = sample[at - 1];
        sample[at] = s;
    }
    timer_hz = sample[ARRAY_SIZE(sample) / 2];
    if (timer_hz == 0)
        PANIC(PANIC_boot, "the local APIC's timer does not count", 0, 0);
}

/* If it is over before the halt, the interrupt is pending, and ends the halt at once. One that is
 * left over when another CPU was first ends a later halt early, or nothing. */
void lapic_nap(u64 us)
{
    write(REG_TIMER, VECTOR_WAKE); /* once */
    write(REG_INITIAL, (u32)MAX((u64)1, MIN(timer_hz * us / 1000000, (u64)0xffffffff)));
    machine_idle();
    x86_cli();
    machine_tick_set(0);
}

/* -- machine.h -- */

void machine_tick_set(unsigned hz)
{
    if (!hz) {
        write(REG_INITIAL, 0);
        write(REG_TIMER, LVT_MASKED | VECTOR_TIMER);
        return;
    }
    u64 count = timer_hz / hz;

    write(REG_TIMER, TIMER_PERIODIC | VECTOR_TIMER);
    write(REG_INITIAL, (u32)MAX((u64)1, MIN(count, (u64)0xffffffff)));
}

void machine_ipi_send(unsigned cpu, enum machine_ipi kind)
{
    CHECK_VALUES(cpu < MAX_CPUS && cpu_areas[cpu], cpu, kind);
    lapic_ipi(cpu_areas[cpu]->apic_id, VECTOR_IPI + kind);
}

void machine_nmi_others(void)
{
    unsigned self = plat_cpu_id();

    for (unsigned cpu = 0; cpu < plat_cpu_count(); cpu++)
        if (cpu != self && cpu_areas[cpu])
            lapic_ipi(cpu_areas[cpu]->apic_id, LAPIC_NMI);
}
