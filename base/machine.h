/* machine.h: what only a machine with interrupts has. arch/x86_64 provides the functions, kernel/
 * calls them; the handlers at the end are the only way arch calls up. The host has none of this.
 *
 * Conditions: a thread's saved stack pointer is the whole of its saved state (callee-saved
 * registers are on its stack). Handlers run with interrupts off on the interrupted thread's stack
 * (NMI and double fault: own stacks). */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include "bootinfo.h"
#include "plat.h"

/* -- provided by arch/
 * ------------------------------------------------------------------------------ */

/* Starts the enabled CPUs found in *info, at most limit in all, one after the other; each calls
 * kernel_cpu_started(cpu) on its own stack and never returns. memory is `machine_cpu_bytes() *
 * limit` bytes, page aligned, zeroed, for stacks and per-CPU areas. Sets started and tsc_skew, and
 * publishes plat_cpu_count() only after every table exists. A CPU that does not answer within some
 * seconds (more on a host that starves the caller, too) is left out with .started = false and the
 * trouble named; numbers of the others close up, and it moves behind them in info->cpu[]. Returns
 * the number running. Boot CPU, interrupts off; no handler is called meanwhile. */
unsigned machine_start_cpus(struct bootinfo *info, unsigned limit, void *memory);
size_t machine_cpu_bytes(void);

/* Periodic timer interrupt on the calling CPU. hz = 0 stops it. */
void machine_tick_set(unsigned hz);

enum machine_ipi { MACHINE_IPI_RESCHEDULE, MACHINE_IPI_TEST, MACHINE_IPI_KICK, NR_MACHINE_IPIS };
void machine_ipi_send(unsigned cpu, enum machine_ipi kind); /* cpu may be the caller's own */
void machine_nmi_others(void);                              /* an NMI to every other started CPU */

void machine_irq_enable(void);
void machine_idle(void); /* called with interrupts off: enables them and halts, atomically */
NORETURN void machine_halt(void); /* interrupts off, for ever */
NORETURN void
machine_exit(unsigned code); /* QEMU's debug-exit port, then halts: exit status 2*code+1 */
void machine_reset(void);    /* a triple fault */

/* Switches stacks: saves the callee-saved state, stores the old stack pointer in *save, loads
 * `load`. */
void machine_context_switch(void **save, void *load);
/* Prepares a stack whose first switch-in calls entry(arg) with interrupts off. Returns its stack
 * pointer. */
void *machine_context_init(void *stack_top, void (*entry)(void *), void *arg);

/* Maps one block of MACHINE_STACK_BYTES (pages of the direct map) once more, above a hole that is
 * never mapped, so that an overflow faults. For ever: nothing is unmapped, so no other CPU needs
 * telling, and the block must go on being a stack. Returns its top; NULL when the window is full.
 * Callers serialise; any context but NMI. */
#define MACHINE_STACK_BYTES ((size_t)0x4000)
void *machine_stack_map(const void *block);
bool machine_is_guard(u64 address); /* a hole below such a stack, or below a CPU's first one */

/* The per-CPU slot for kernel/: machine_cpu_slot() is the calling CPU's pointer, NULL until set. */
void *machine_cpu_slot(void);
void machine_cpu_slot_set(unsigned cpu, void *p);
/* Preemption: plat_preempt_enable() calls kernel_preempt() when the count falls to 0 and this was
 * set. */
void machine_need_resched(unsigned cpu, bool yes);
bool machine_resched_needed(void);
unsigned machine_preempt_count(void);

/* Fills addr[] with return addresses: of the caller if regs is NULL, else of the trap frame.
 * Checks each frame pointer before following it. Returns how many. */
unsigned machine_backtrace(const void *regs, u64 *addr, unsigned max);
/* The nearest symbol at or below addr, or NULL; *offset gets the distance. */
const char *machine_symbol(u64 addr, u64 *offset);
/* The i-th register of a trap frame: name and value; false past the last. */
bool machine_register(const void *regs, unsigned i, const char **name, u64 *value);

/* The serial ports, provided by drivers/serial/. arch/ calls this first of all. */
void machine_serial_init(void);
/* The console: COM1, polled, no lock. Any context. */
void machine_console_write(const char *text, size_t n);
/* Chooses the telemetry port of plat_sink_write: 1 or 2. */
void machine_sink_select(unsigned com);
bool machine_port_present(unsigned com); /* whether a chip answered there: 1 or 2 */
void machine_sink_sync(void);            /* waits (bounded) until the port has sent all it took */

/* -- handlers, provided by kernel/
 * ------------------------------------------------------------------- */

struct machine_trap {
    unsigned vector;
    const char *name; /* "page fault"; NULL if the vector has none */
    u64 error, ip, sp, fault_address;
    const void *regs;
    bool user_text; /* reserved, false */
};

NORETURN void kernel_entry(struct bootinfo *info); /* boot CPU, boot stack, interrupts off */
NORETURN void kernel_cpu_started(unsigned cpu);    /* a started CPU, interrupts off */
void kernel_tick(const void *regs); /* timer interrupt, after its end was signalled */
void kernel_ipi(enum machine_ipi kind, const void *regs);
void kernel_nmi(const void *regs);
void kernel_preempt(void);  /* see machine_need_resched; interrupts on */
void kernel_irq_exit(void); /* last thing before an interrupt returns, interrupts off */
NORETURN void kernel_trap(const struct machine_trap *trap);

#endif
