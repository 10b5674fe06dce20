/* clock.c: how fast the time stamp counter runs.
 *
 * Asked of CPUID where it knows (leaf 0x15, or a hypervisor's leaf 0x40000010), else measured
 * against the PIT, the one clock whose frequency every PC agrees on. A measurement is one countdown
 * of channel 2 and has an error that can be told: the start lies between two readings around the
 * last port write, the end between the last "not yet" and the first "done". On a busy host either
 * gap can be a whole time slice, so measurements repeat until three with small gaps agree within a
 * thousandth, and their median counts; failing that within the limit, the tightest one does.
 *
 * Locking: none. Contexts: boot; clock_wait_us() any, later. */
#include "cpu.h"

#include "../../base/check.h"

#define PIT_HZ      1193182u
#define PIT_COUNTS  11932u /* 10 ms */
#define PIT_CHANNEL 0x42
#define PIT_COMMAND 0x43
#define PIT_GATE    0x61

#define SAMPLES_MAX 24u
#define AGREEING    3u

static u64 hz;

u64 plat_cycles_hz(void)
{
    return hz;
}

struct sample {
    u64 hz;
    u64 error; /* cycles in which start and end may lie */
};

/* One countdown. False if the PIT does not count. */
static bool pit_sample(struct sample *s)
{
    u8 gate = x86_in8(PIT_GATE);

    x86_out8(PIT_GATE, (u8)((gate & ~2u) | 1)); /* gate open, speaker off */
    x86_out8(PIT_COMMAND, 0xb0);                /* channel 2, low then high byte, mode 0 */
    x86_out8(PIT_CHANNEL, PIT_COUNTS & 0xff);
    u64 before = plat_cycles();
    x86_out8(PIT_CHANNEL, PIT_COUNTS >> 8);
    u64 after = plat_cycles();

    u64 last = after, now = after;
    for (unsigned polls = 0; polls < 10000000; polls++) {
        bool done = x86_in8(PIT_GATE) & 0x20;

        now = plat_cycles();
        if (done) {
            x86_out8(PIT_GATE, gate);
            s->error = (after - before) + (now - last);
            s->hz = (last + (now - last) / 2 - before - (after - before) / 2) * PIT_HZ / PIT_COUNTS;
            return s->hz != 0;
        }
        last = now;
    }
    return false;
}

static bool agree(u64 a, u64 b)
{
    u64 d = a > b ? a - b : b - a;

    return d <= a / 1000;
}

/* Sorted by frequency: the middle of any AGREEING neighbours that agree. */
static u64 agreed(const struct sample *sorted, unsigned n)
{
    for (unsigned i = 0; i + AGREEING <= n; i++)
        if (agree(sorted[i].hz, sorted[i + AGREEING - 1].hz))
            return sorted[i + AGREEING / 2].hz;
    return 0;
}

static u64 hz_measured(void)
{
    struct sample kept[SAMPLES_MAX], tightest = {.error = ~(u64)0};
    unsigned n = 0;

    for (unsigned i = 0; i < SAMPLES_MAX; i++) {
        struct sample s;

        if (!pit_sample(&s))
            PANIC(PANIC_boot,
                  "the PIT does not count, and CPUID does not tell the clock's frequency", i, 0);
        if (s.error < tightest.error)
            tightest = s;
        if (s.error > s.hz / 10000) /* a hundredth of the countdown */
            continue;
        unsigned at = n++;
        for (; at > 0 && kept[at - 1].hz > s.hz; at--)
            kept[at] = kept[at - 1];
        kept[at] = s;
        u64 found = agreed(kept, n);
        if (found)
            return found;
    }
    return tightest.hz;
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
