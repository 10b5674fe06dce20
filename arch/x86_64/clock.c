/* clock.c: how fast the time stamp counter runs.
 *
 * Asked of CPUID where it knows (leaf 0x15, or a hypervisor's leaf 0x40000010), else measured
 * against the PIT, the one clock whose frequency every PC agrees on. A measurement latches the PIT's
 * count twice, some time apart. The latch happens within one port write, and the clock is read on
 * both sides of it, so each reading has an error that is known: a CPU that loses its time slice in
 * between makes that gap, and only that gap, wide. Wide readings are taken again, and the
 * measurement with the smallest error of several counts; nothing rests on how long a loop took.
 *
 * Where there is no PIT, or it does not count, the HPET stands in, and then the ACPI power management
 * timer, if ACPI lists them. Both count freely, so a reading is one read of a register, and the counts
 * between two are added up look by look, which only a pause as long as a whole turn of the counter
 * could falsify: 4.7 s for a timer of 24 bits. A measurement most of which was one pause is thrown away.
 *
 * A machine with none of these is refused: without a rate, no figure has a unit, and no wait an end.
 * CPUID's leaf 0x16 is not asked: it tells the rate on the box, in MHz, which the TSC's only resembles.
 *
 * Locking: none. Contexts: boot; clock_wait_us() any, later. */
#include "cpu.h"

#include "../../base/check.h"

#define PIT_HZ      1193182u
#define PIT_CHANNEL 0x42
#define PIT_COMMAND 0x43
#define PIT_GATE    0x61

#define PIT_START    0xffffu
#define PIT_APART    17895u /* counts between the two readings: 15 ms of the 55 that it counts */
#define TRIES        64u    /* readings for one that is tight */
#define MEASUREMENTS 16u
#define GOOD_ERROR   4000u /* a 4000th: good enough to stop */
#define STILL_POLLS  1000u /* reads of a register in which a clock that counts has moved */
#define POLLS_MAX    1000000u
#define APART_MS     15u
#define PAUSE_MOST   15u /* sixteenths of a measurement that may be one pause */

#define HPET_PERIOD     0x4u /* fs a count */
#define HPET_CONFIG     0x10u
#define HPET_COUNT      0xf0u
#define HPET_ON         1u
#define HPET_PERIOD_MIN 1000000u /* none counts faster than a GHz */
#define HPET_PERIOD_MAX 100000000u
#define HPET_BLOCK      0x400u
#define FEMTOSECONDS    1000000000000000ul
#define PM_HZ           3579545u

static u64 hz;

u64 plat_cycles_hz(void)
{
    return hz;
}

struct reading {
    u32 count;       /* PIT counts so far */
    u64 cycles, gap; /* the latch fell into [cycles, cycles + gap] */
};

static struct reading pit_latch(void)
{
    struct reading r;

    r.cycles = plat_cycles();
    x86_out8(PIT_COMMAND, 0x80); /* latch channel 2 */
    r.gap = plat_cycles() - r.cycles;
    u32 low = x86_in8(PIT_CHANNEL);
    r.count = PIT_START - (low | (u32)x86_in8(PIT_CHANNEL) << 8);
    return r;
}

/* The tightest reading of a few, before the PIT gets to `until`. */
static struct reading pit_read(u32 until)
{
    struct reading best = pit_latch();

    for (unsigned i = 0; i < TRIES; i++) {
        struct reading r = pit_latch();

        if (r.count < best.count || r.count > until)
            break;
        if (r.gap < best.gap)
            best = r;
    }
    return best;
}

/* The frequency by the PIT, and in *error the cycles by which it may be off. 0: disturbed beyond use, or
 * it does not count. */
static u64 pit_measure_once(u64 *error)
{
    u8 gate = x86_in8(PIT_GATE);
    struct reading from, to;

    x86_out8(PIT_GATE, (u8)((gate & ~2u) | 1)); /* gate open, speaker off */
    x86_out8(PIT_COMMAND, 0xb0);                /* channel 2, low then high byte, mode 0 */
    x86_out8(PIT_CHANNEL, PIT_START & 0xff);
    x86_out8(PIT_CHANNEL, PIT_START >> 8);
    from = pit_read(PIT_APART / 4);
    for (unsigned polls = 0; polls < POLLS_MAX; polls++) {
        to = pit_latch();
        if (polls == STILL_POLLS && to.count == from.count)
            break;
        if (to.count < from.count || to.count - from.count >= PIT_APART)
            break;
    }
    to = pit_read(PIT_START);
    bool wrapped = x86_in8(PIT_GATE) & 0x20; /* output high: it reached 0, counts mean nothing */
    x86_out8(PIT_GATE, gate);
    if (wrapped || to.count <= from.count || to.count - from.count < PIT_APART / 2)
        return 0;

    u64 counts = to.count - from.count;
    u64 cycles = to.cycles + to.gap / 2 - from.cycles - from.gap / 2;

    *error = (from.gap + to.gap) / 2 * PIT_HZ / counts + cycles * PIT_HZ / counts / counts;
    return cycles * PIT_HZ / counts;
}

/* -- clocks that count freely -- */

static struct meter {
    u64 hz; /* 0: there is none */
    u32 mask;
    u32 (*count)(void);
} meter;

static const u8 *hpet;
static u16 pm_port;

static u32 hpet_count(void)
{
    return *(const volatile u32 *)(hpet + HPET_COUNT);
}

static u32 pm_count(void)
{
    return x86_in32(pm_port);
}

/* A measurement so far. Of all looks, `at` is the latest and `tight` the one with the smallest gap since
 * it was last forgotten. */
struct looks {
    u32 raw;
    u64 counts; /* since the first look */
    u64 pause;  /* the longest time between two looks */
    struct {
        u64 counts, cycles, gap;
    } at, tight;
};

static void look(struct looks *l)
{
    u64 before = plat_cycles();
    u32 raw = meter.count() & meter.mask;
    u64 gap = plat_cycles() - before;

    l->counts += (raw - l->raw) & meter.mask;
    l->raw = raw;
    l->pause = MAX(l->pause, before - l->at.cycles);
    l->at.counts = l->counts;
    l->at.cycles = before;
    l->at.gap = gap;
    if (gap < l->tight.gap)
        l->tight = l->at;
}

static void look_tightly(struct looks *l)
{
    l->tight.gap = ~(u64)0;
    for (unsigned i = 0; i < TRIES; i++)
        look(l);
}

static u64 meter_measure_once(u64 *error)
{
    struct looks l = {.at.cycles = plat_cycles(), .raw = meter.count() & meter.mask}, from;
    u64 begun = l.at.cycles;

    look_tightly(&l);
    from = l;
    for (unsigned polls = 0; l.counts - from.tight.counts < meter.hz * APART_MS / 1000; polls++) {
        if (polls == POLLS_MAX || (polls == STILL_POLLS && l.counts == from.counts))
            return 0;
        look(&l);
    }
    look_tightly(&l);
    if (l.pause > (l.at.cycles - begun) / 16 * PAUSE_MOST)
        return 0;

    u64 counts = l.tight.counts - from.tight.counts;
    u64 cycles = l.tight.cycles + l.tight.gap / 2 - from.tight.cycles - from.tight.gap / 2;

    *error = (from.tight.gap + l.tight.gap) / 2 * meter.hz / counts +
             cycles * meter.hz / counts / counts;
    return cycles * meter.hz / counts;
}

static bool hpet_begin(const struct acpi_clocks *clocks)
{
    u64 offset = clocks->hpet & (PAGE_SIZE - 1);

    meter.hz = 0;
    if (!clocks->hpet || clocks->hpet >= BOOT_MAP_BYTES || offset + HPET_BLOCK > PAGE_SIZE)
        return false;
    u8 *registers = (u8 *)paging_map_device(clocks->hpet) + offset;
    u32 period = *(volatile u32 *)(registers + HPET_PERIOD);
    volatile u32 *config = (volatile u32 *)(registers + HPET_CONFIG);

    if (period < HPET_PERIOD_MIN || period > HPET_PERIOD_MAX)
        return false;
    *config |= HPET_ON;
    hpet = registers;
    meter = (struct meter){FEMTOSECONDS / period, 0xffffffff, hpet_count};
    return true;
}

static bool pm_begin(const struct acpi_clocks *clocks)
{
    pm_port = clocks->pm_port;
    meter = (struct meter){PM_HZ, clocks->pm_wide ? 0xffffffff : 0xffffff, pm_count};
    return pm_port != 0;
}

/* -- all of them -- */

static u64 hz_measured(u64 (*once)(u64 *error), u64 *best_error)
{
    u64 best = 0;

    *best_error = ~(u64)0;
    for (unsigned i = 0; i < MEASUREMENTS; i++) {
        u64 error, found = once(&error);

        if (found && error < *best_error) {
            best = found;
            *best_error = error;
        }
        if (best && *best_error <= best / GOOD_ERROR)
            break;
    }
    return best;
}

/* Sets what the frequency is known from, and by how much it may be off. 0: there is no clock. */
static u64 hz_from_clocks(const struct acpi_clocks *clocks, struct bootinfo *info)
{
    u64 found = hz_measured(pit_measure_once, &info->cycles_error);

    info->clock = "the PIT";
    if (!found && hpet_begin(clocks)) {
        found = hz_measured(meter_measure_once, &info->cycles_error);
        info->clock = "the HPET";
    }
    if (!found && pm_begin(clocks)) {
        found = hz_measured(meter_measure_once, &info->cycles_error);
        info->clock = "the ACPI timer";
    }
    return found;
}

static u64 hz_from_cpuid(void)
{
    if (x86_cpuid(0, 0).a >= 0x15) {
        struct cpuid c = x86_cpuid(0x15, 0);

        if (c.a && c.b && c.c)
            return (u64)c.c * c.b / c.a;
    }
    if (x86_cpuid(1, 0).c & 1u << 31 && x86_cpuid(0x40000000, 0).a >= 0x40000010)
        return (u64)x86_cpuid(0x40000010, 0).a * 1000;
    return 0;
}

void clock_init(struct bootinfo *info, const struct acpi_clocks *clocks)
{
    hz = hz_from_cpuid();
    info->clock = "CPUID";
    if (!hz)
        hz = hz_from_clocks(clocks, info);
    if (!hz)
        info->unfit = "no clock of a known rate: CPUID does not tell the TSC's, the PIT does not "
                      "count, and ACPI lists no HPET and no timer that does";
    info->cycles_hz = hz;
    info->cycles_invariant =
        x86_cpuid(0x80000000, 0).a >= 0x80000007 && x86_cpuid(0x80000007, 0).d & 1u << 8;
}

u64 clock_cycles_of_us(u64 us)
{
    return us * hz / 1000000;
}

void clock_wait_us(u64 us)
{
    u64 start = plat_cycles(), length = clock_cycles_of_us(us);

    while (plat_cycles() - start < length)
        plat_relax();
}
