/* fault.c: turns a CPU exception of the hosted machine, which comes as a signal, into a panic, so
 * that it ends like one on metal: with a kind, a backtrace and a last telemetry record.
 *
 * The handler runs on a stack of its own, since the thread's may be what ran out. A fault just
 * below the thread's stack is an overflow. Under a sanitizer nothing is installed: its own report
 * says more.
 *
 * Locking: none. Contexts: boot installs; the handler runs on the faulting thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "../../base/check.h"
#include "host_impl.h"

#define STACK_BYTES    65536u
#define OVERFLOW_REACH 65536u /* how far below the stack an overflowing frame may strike */

#if !defined(HOST_ASAN) && !defined(HOST_TSAN)

static u8 stacks[MAX_CPUS][STACK_BYTES] ALIGNED(16);
static struct stack_range {
    u64 low, high;
} ranges[MAX_CPUS]; /* each written by its CPU before it runs anything */

static const char *signal_text(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGILL:
        return "SIGILL";
    default:
        return "SIGFPE";
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const ucontext_t *c = context;
    u64 ip = (u64)c->uc_mcontext.gregs[REG_RIP], sp = (u64)c->uc_mcontext.gregs[REG_RSP];
    u64 address = (u64)info->si_addr;
    enum panic_kind kind = PANIC_trap;
    unsigned cpu = plat_cpu_id();

    if (cpu < MAX_CPUS && sp < ranges[cpu].low + OVERFLOW_REACH &&
        sp + OVERFLOW_REACH >= ranges[cpu].low && address < ranges[cpu].low + OVERFLOW_REACH)
        kind = PANIC_stack_overflow;
    host_backtrace_from((u64)c->uc_mcontext.gregs[REG_RBP], ip);
    plat_panic(&(const struct panic_info){.kind = kind,
                                          .text = signal_text(number),
                                          .file = "arch/host/fault.c",
                                          .line = __LINE__,
                                          .value = {(u64)number, address, ip, sp}});
}

void host_fault_cpu_init(unsigned cpu)
{
    stack_t stack = {.ss_sp = stacks[cpu], .ss_size = STACK_BYTES};
    pthread_attr_t attr;
    void *base;
    size_t size;

    sigaltstack(&stack, NULL);
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    pthread_attr_getstack(&attr, &base, &size);
    pthread_attr_destroy(&attr);
    ranges[cpu] = (struct stack_range){(u64)base, (u64)base + size};
}

void host_fault_init(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction action = {
        .sa_sigaction = on_fault,
        /* A fault inside the panic comes here again: it must not be held back. */
        .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

    for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++)
        sigaction(numbers[i], &action, NULL);
    host_fault_cpu_init(0);
}

#else

void host_fault_cpu_init(unsigned cpu)
{
    (void)cpu;
}

void host_fault_init(void)
{
}

#endif
