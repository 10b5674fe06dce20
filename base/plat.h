/* plat.h: the platform contract. Everything base/, sync/, mm/ and kernel/bench/ need from the
 * ground they stand on, satisfied twice: arch/x86_64 (boots on metal) and arch/host (a process,
 * threads as CPUs). plat_impl.h, found through the include path, gives the inline ones.
 *
 * Conditions, stated once:
 *  - A CPU is numbered 0..plat_cpu_count()-1; holes in APIC ids are closed by the platform. Before
 *  the CPU
 *    table exists the only CPU is 0 and the count is 1.
 *  - "Interrupts off" means: nothing else runs on this CPU until they are restored (NMIs
 *  excepted). On the
 *    host a CPU is one pinned thread that no interrupt enters, so the pair is a compiler barrier
 *    there.
 *  - Nobody waits for another CPU while its own interrupts are off.
 *  - Cycles are of one clock, the same on all CPUs up to the skew in hello. */
#ifndef BASE_PLAT_H
#define BASE_PLAT_H

#include "types.h"

struct panic_info;

/* Inline, from plat_impl.h:
 *   unsigned plat_cpu_id(void)                 the calling CPU; stable only while it cannot migrate
 *   size_t plat_cpu_offset(void)               plat_cpu_id() * PLAT_CPU_STRIDE, kept ready where that
 *                                              saves instructions
 *   void *plat_cpu_part(void *cpu0)            cpu0 + plat_cpu_offset(), in one instruction where that can be
 *   unsigned plat_cpu_count(void)              CPUs started; only grows, at boot
 *   unsigned long plat_irq_save(void)          interrupts off; returns what restore needs
 *   void plat_irq_restore(unsigned long)
 *   bool plat_irqs_off(void)                   for assertions; always true on the host
 *   void plat_preempt_disable(void), plat_preempt_enable(void)      nest; enable may reschedule
 *   void plat_relax(void)                      a pause inside a spin loop
 *   u64 plat_cycles(void)                      the clock, not serialising
 *   void plat_counter_add(u64 *p, u64 v)       one unlocked add; *p is written by this CPU only (an
 *                                              interrupt on it included), read by any
 *   bool plat_word_is(const u32 *p, u32 v)     *p == v by one relaxed load, which compilers do not fold
 *                                              into the comparison by themselves; v is a constant
 *   void plat_poison(void *, size_t), plat_unpoison(void *, size_t)  tell ASan what may be
 *   touched; no-ops
 *                                              elsewhere */

u64 plat_cycles_hz(void);

/* Runs fn(arg) in thread context on every CPU whose bit is set in mask, pinned, released together,
 * and returns when all have returned. Thread context, not nested, caller on CPU 0. On metal
 * kernel/sched provides it. */
void plat_run_on_cpus(u64 mask, void (*fn)(void *arg), void *arg);

/* Thread context: lets this CPU rest for about ns (halts on metal). */
void plat_sleep_ns(u64 ns);

/* Where PLAT_ORDERS_OTHERS is 1: as if every other CPU passed a full memory barrier between what this
 * CPU did before the call and what it does after it, whether it runs or not. False: it cannot be had.
 * Takes some microseconds, and a little from the others. Any context. */
bool plat_order_others(void);

/* Another CPU calls its kick handler (which is heap_drain_serve): on metal in an interrupt, hosted as soon
 * as it has no work. False: in between it has to look for itself, at a quiescent state. Waits for nobody;
 * any context but NMI. */
bool plat_kick(unsigned cpu);
/* Whether the caller may wait for other CPUs: a thread, interrupts on. Hosted there are none, so there
 * it is true on every CPU, also between plat_irq_save() and its restore, where nobody may ask. */
bool plat_may_wait(void);

/* Offers bytes to the telemetry port; takes what fits now and returns how many. Never blocks.
 * Callers serialise (telemetry's drain). Any context. */
size_t plat_sink_write(const void *bytes, size_t n);

/* Stops everything: says kind and values, ends the machine with its own exit code. Takes no lock,
 * allocates nothing, any context, works before the CPU table exists. */
NORETURN void plat_panic(const struct panic_info *info);

/* Ends the machine. Thread context. */
enum plat_exit {
    PLAT_EXIT_OK = 0,
    PLAT_EXIT_PANIC = 1,
    PLAT_EXIT_REFUSED = 2,
    PLAT_EXIT_FAILED = 3
};
NORETURN void plat_exit(enum plat_exit how);

/* -- a window: addresses of which mm/ says what is behind them (mm/heap.c) --
 * Boot, one CPU. Nothing in a window is ever changed again. */
#define PLAT_WINDOW_LARGE ((size_t)2 << 20)
/* The first of so many addresses, a multiple of PLAT_WINDOW_LARGE, with nothing behind them. NULL: they
 * cannot be had. On metal once. */
void *plat_window(size_t bytes);
/* Gives up a page of memory, for a page table; NULL: there is none. */
typedef void *plat_take_page(void *ctx);
/* Puts memory (whole pages that follow each other; nobody uses them by their own addresses from now on)
 * there. Multiples of PLAT_WINDOW_LARGE, all three, take no more of the TLB than they did where they were.
 * False: no memory for page tables. */
NODISCARD bool plat_window_map(void *at, void *memory, size_t bytes, plat_take_page *take,
                               void *ctx);
/* Puts one page there over and over. Once a window's `page` is chosen it is the same in every call. Who
 * writes to one address of it may write to all (hosted: or to some). */
NODISCARD bool plat_window_repeat(void *at, const void *page, size_t bytes, plat_take_page *take,
                                  void *ctx);

/* Tables with a part for each CPU put the parts this far apart, so that a CPU finds its own by one
 * addition. Bytes. */
#define PLAT_CPU_STRIDE ((size_t)65536)

#include "plat_impl.h"

/* Bytes after each object that plat_poison() can guard: 0 where it does nothing. */
#ifndef PLAT_REDZONE_BYTES
#define PLAT_REDZONE_BYTES 0
#endif

static ALWAYS_INLINE u64 plat_all_cpus(void)
{
    unsigned n = plat_cpu_count();

    return n >= 64 ? ~(u64)0 : ((u64)1 << n) - 1;
}

#endif
