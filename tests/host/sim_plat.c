/* sim_plat.c: the ground under mm/ when one thread plays all CPUs: what arch/host/host.c is to threads.
 * The driver says who it is by setting host_cpu_id; a panic prints its line and aborts, which is what
 * a fuzzer and a debugger want.
 *
 * Locking: none; one thread. A spin that does not end is a deadlock, since nobody else runs: a driver
 * that switches CPUs in the middle provides host_relax_crowded() itself (test_model.c). */
#include <stdio.h>
#include <stdlib.h>

#include "../../base/check.h"
#include "../../base/host.h"
#include "sim_plat.h"

__thread unsigned host_cpu_id;
unsigned host_cpu_number = 1;
bool host_crowded = true; /* each turn of a waiting loop calls host_relax_crowded() */

__attribute__((weak)) void host_relax_crowded(void)
{
    fprintf(stderr, "CPU %u waits for another, and nobody else runs\n", host_cpu_id);
    abort();
}

/* Nothing here measures time: a figure that is one. */
u64 plat_cycles_hz(void)
{
    return 1000000000;
}

/* One thread plays all CPUs; where it stops one, that one holds up its grace period. */
bool plat_order_others(void)
{
    return false;
}

void plat_run_on_cpus(u64 mask, void (*fn)(void *arg), void *arg)
{
    unsigned me = host_cpu_id;

    CHECK(me == 0);
    for (unsigned cpu = 0; cpu < host_cpu_number; cpu++)
        if (mask >> cpu & 1) {
            host_cpu_id = cpu;
            fn(arg);
        }
    host_cpu_id = me;
}

void (*sim_kick_handler)(void);

bool plat_kick(unsigned cpu)
{
    unsigned me = host_cpu_id;

    if (!sim_kick_handler)
        return true;
    host_cpu_id = cpu;
    sim_kick_handler();
    host_cpu_id = me;
    return true;
}

bool plat_may_wait(void)
{
    return sim_kick_handler != NULL;
}

__attribute__((weak)) void plat_panic(const struct panic_info *info)
{
    fprintf(stderr, "HAYLOFT-PANIC kind=%s at=%s:%d cpu=%u: %s (%#llx, %#llx)\n",
            panic_kind_names[info->kind], info->file, info->line, host_cpu_id, info->text,
            (unsigned long long)info->value[0], (unsigned long long)info->value[1]);
    abort();
}
