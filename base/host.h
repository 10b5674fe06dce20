/* host.h: what only the hosted machine has, as machine.h is for metal. arch/host provides the
 * functions, kernel/host_main.c and the unit tests call them; host_entry() is the one way arch/host
 * calls up unasked.
 *
 * Conditions: CPU 0 is the thread that called main(); CPUs 1.. are pinned threads that sleep until
 * plat_run_on_cpus() gives them work. Nothing interrupts a CPU. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include "bootinfo.h"
#include "check.h"

/* Makes CPUs 0..n-1 exist and publishes plat_cpu_count(). CPU 0, while no CPU has work. Tests may
 * call it again with another number; the kernel calls it once, after heap_cpus_init(). False: no
 * such thread could be had. */
NODISCARD bool host_cpus_start(unsigned n);
/* CPUs outnumber the cores that this process may use. */
bool host_overcommitted(unsigned cpus);

/* Starts a thread that is no CPU: it calls fn(arg) every period_ns for as long as the process
 * lives. It runs at the lowest priority, unpinned, and plat_cpu_id() means nothing on it, so fn
 * touches no per-CPU row. */
NODISCARD bool host_timer_start(u64 period_ns, void (*fn)(void *arg), void *arg);

/* What a panic adds to its line on the console: fn gets the return addresses of the panicking
 * thread. It may allocate nothing and take no lock. One handler; NULL takes it away. */
void host_panic_handler_set(void (*fn)(const struct panic_info *info, const u64 *addr, unsigned n));
/* fn(true): the calling CPU has no work from here on, or sleeps; fn(false): it goes on. Outside any
 * lock. Set before other CPUs exist; one handler. */
void host_idle_handler_set(void (*fn)(bool idle));
/* What plat_kick() makes an idle CPU call. Outside any lock; one handler, set while other CPUs have no
 * work. */
void host_kick_handler_set(void (*fn)(void));
/* Unmaps the window (plat_window) that an address lies in, if one does: for tests, whose heaps come and go. */
void host_window_close(const void *inside);
/* The function of this program that addr is in, or NULL; *offset gets the distance from its
 * start. */
const char *host_symbol(u64 addr, u64 *offset);

void host_console_write(const char *text, size_t n);
/* Where plat_sink_write() and the console go; -1: nowhere. The unit tests leave both alone. */
void host_sink_set(int telemetry_fd);
void host_console_set(int console_fd);

/* Handler, provided by kernel/host_main.c: runs on CPU 0 once the options are read. */
NORETURN void host_entry(struct bootinfo *info);

#endif
