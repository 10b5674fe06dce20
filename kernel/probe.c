/* probe.c: were the CPUs really parallel? A guest cannot see that its vCPUs share one host CPU, or
 * that a neighbour took one away; but its contention figures then mean nothing.
 *
 * The idea: two CPUs throw a cache line to and fro for 5 ms. Running at once they manage a round
 * trip in some hundred nanoseconds; taking turns on one host CPU, one in each of the host's time
 * slices: a factor of a thousand and more, which no threshold can miss. The first and the last CPU
 * play, as solo tests run on the last. No pause instruction in the loop: under TCG it leaves the
 * translated code, and that is what would be measured.
 *
 * The figure is only reported; what is too little is decided by whoever reads it.
 *
 * Locking: none. Contexts: thread; interrupts on, no lock held. */
#include "probe.h"
#include "telemetry/telemetry.h"

#define PROBE_MS   5u
#define LOOK_EVERY 256u /* spins between two looks at the clock */

static struct {
    u32 ball ALIGNED(CACHE_LINE);       /* atomic: 1 on its way there, 0 back */
    u32 over ALIGNED(CACHE_LINE);       /* atomic */
    u64 roundtrips ALIGNED(CACHE_LINE); /* CPU 0's */
    u64 until;
} probe;

/* Waits for the ball to be where it should; false: time is up. Only CPU 0 looks at the clock, so
 * the game is as long as it says even if the other came late. */
static bool wait_for(u32 where, bool timekeeper)
{
    for (unsigned spins = 1;; spins++) {
        if (__atomic_load_n(&probe.ball, __ATOMIC_ACQUIRE) == where)
            return true;
        if (spins % LOOK_EVERY)
            continue;
        if (timekeeper ? plat_cycles() >= probe.until
                       : __atomic_load_n(&probe.over, __ATOMIC_RELAXED))
            return false;
    }
}

static void play(void *arg)
{
    (void)arg;
    if (plat_cpu_id() != 0) {
        while (wait_for(1, false))
            __atomic_store_n(&probe.ball, 0, __ATOMIC_RELEASE);
        return;
    }
    probe.until = plat_cycles() + plat_cycles_hz() / 1000 * PROBE_MS;
    do {
        __atomic_store_n(&probe.ball, 1, __ATOMIC_RELEASE);
        if (!wait_for(0, true))
            break;
        probe.roundtrips++;
    } while (plat_cycles() < probe.until);
    __atomic_store_n(&probe.over, 1, __ATOMIC_RELAXED);
}

void probe_parallel(const char *when)
{
    unsigned cpus = plat_cpu_count();

    if (cpus == 1) {
        telemetry_check("parallel", when, true, "one CPU: nothing to probe",
                        &(const struct telemetry_value){"cpus", 1}, 1);
        return;
    }
    probe.ball = 0;
    probe.over = 0;
    probe.roundtrips = 0;
    plat_run_on_cpus((u64)1 | (u64)1 << (cpus - 1), play, NULL);
    telemetry_check(
        "parallel", when, true, "",
        (const struct telemetry_value[]){{"roundtrips", (i64)probe.roundtrips}, {"ms", PROBE_MS}},
        2);
}
