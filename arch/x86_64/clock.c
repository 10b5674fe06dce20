/* clock.c: how fast the time stamp counter runs.
 *
 * Asked of CPUID where it knows (leaf 0x15, or a hypervisor's leaf 0x40000010), else measured
 * against the PIT, the one clock whose frequency every PC agrees on. A measurement latches the PIT's
 * count twice, some time apart. The latch happens within one port write, and the clock is read on
 * both sides of it, so each reading has an error that is known: a CPU that loses its time slice in
 * between makes that gap, and only that gap, wide. Wide readings are taken again, and the
 * measurement with the smallest error of several counts; nothing rests on how long a loop took.
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

/* The frequency, and in *error the cycles by which it may be off. 0: disturbed beyond use. */
static u64 hz_measure_once(u64 *error)
{
    u8 gate = x86_in8(PIT_GATE);
    struct reading from, to;

    x86_out8(PIT_GATE, (u8)((gate & ~2u) | 1)); /* gate open, speaker off */
    x86_out8(PIT_COMMAND, 0xb0);                /* channel 2, low then high byte, mode 0 */
    x86_out8(PIT_CHANNEL, PIT_START & 0xff);
    x86_out8(PIT_CHANNEL, PIT_START >> 8);
    from = pit_read(PIT_APART / 4);
    for (unsigned polls = 0; polls < 1000000; polls++) {
        to = pit_latch();
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

static u64 hz_measured(void)
{
    u64 best = 0, best_error = ~(u64)0;

    for (unsigned i = 0; i < MEASUREMENTS; i++) {
        u64 error, found = hz_measure_once(&error);

        if (found && error < best_error) {
            best = found;
            best_error = error;
        }
        if (best && best_error <= best / GOOD_ERROR)
            break;
    }
    if (!best)
        PANIC(PANIC_boot, "the PIT does not count, and CPUID does not tell the clock's frequency",
              MEASUREMENTS, 0);
    return best;
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

void clock_init(struct bootinfo *info)
{
    hz = hz_from_cpuid();
    if (!hz)
        hz = hz_measured();
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
