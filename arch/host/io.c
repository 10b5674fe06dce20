/* io.c: what leaves the hosted machine: the console, the telemetry port, a panic, the exit status.
 *
 * A panic writes the machine-readable line first and only then tries what may fail: the backtrace
 * by frame pointers, each checked against the thread's stack before it is followed, and the handler
 * that sends the last telemetry record. A panic inside the panic ends the process at once; another
 * thread's waits for that end.
 *
 * Locking: none; write(2) keeps each line whole. Contexts: any thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../base/fmt.h"
#include "../../base/host.h"
#include "../../base/string.h"
#include "host_impl.h"

#define BACKTRACE_MAX 24

static int console_fd = STDERR_FILENO;
static int telemetry_fd = -1;
static void (*panic_handler)(const struct panic_info *info, const u64 *addr, unsigned n);

void host_console_set(int fd)
{
    console_fd = fd;
}

void host_sink_set(int fd)
{
    telemetry_fd = fd;
}

void host_panic_handler_set(void (*fn)(const struct panic_info *info, const u64 *addr, unsigned n))
{
    panic_handler = fn;
}

void host_console_write(const char *text, size_t n)
{
    while (console_fd >= 0 && n > 0) {
        ssize_t got = write(console_fd, text, n);

        if (got <= 0)
            return;
        text += got;
        n -= (size_t)got;
    }
}

size_t plat_sink_write(const void *bytes, size_t n)
{
    ssize_t got;

    if (telemetry_fd < 0)
        return n;
    got = write(telemetry_fd, bytes, n);
    return got > 0 ? (size_t)got : 0;
}

/* -- the end ----------------------------------------------------------------------------------- */

/* QEMU's debug-exit status for the same end, so that the tool reads both machines alike; 0 for a
 * good one. */
static const int exit_status[] = {
    [PLAT_EXIT_OK] = 0,
    [PLAT_EXIT_PANIC] = 35,
    [PLAT_EXIT_REFUSED] = 37,
    [PLAT_EXIT_FAILED] = 39,
};

NORETURN void plat_exit(enum plat_exit how)
{
    /* A good end goes through exit(), where a sanitizer has its last word. Others may come from any
     * thread. */
    if (how == PLAT_EXIT_OK)
        exit(exit_status[how]);
    _exit(exit_status[how]);
}

static u64 fault_frame, fault_ip; /* by the thread that panics, before it does */

void host_backtrace_from(u64 frame, u64 ip)
{
    fault_frame = frame;
    fault_ip = ip;
}

/* Follows frame pointers: {caller's frame, return address}, each frame above the one before. */
NO_TSAN __attribute__((no_sanitize("address"))) static unsigned
backtrace_of_thread(const u64 *frame, u64 *addr, unsigned max)
{
    pthread_attr_t attr;
    void *base = NULL;
    size_t size = 0;
    unsigned n = 0;

    if (fault_ip) {
        frame = (const u64 *)fault_frame;
        addr[n++] = fault_ip;
    }
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return n;
    pthread_attr_getstack(&attr, &base, &size);
    pthread_attr_destroy(&attr);
    while (n < max && (u64)frame >= (u64)base && (u64)frame + 16 <= (u64)base + size &&
           ((u64)frame & 7) == 0) {
        const u64 *up = (const u64 *)frame[0];

        if (!frame[1])
            break;
        addr[n++] = frame[1];
        if (up <= frame)
            break;
        frame = up;
    }
    return n;
}

PRINTF(1, 2) static void say(const char *format, ...)
{
    char line[512];
    size_t size = sizeof(line) - 1, n;
    va_list args;

    va_start(args, format);
    n = fmt_v(line, size, format, args);
    va_end(args);
    if (n >= size) { /* what was cut was the end of the line */
        n = fmt_mark_cut(line, size, n);
        line[n++] = '\n';
    }
    host_console_write(line, n);
}

static void say_what_happened(const struct panic_info *info)
{
    say("\nHAYLOFT-PANIC kind=%u name=%s cpu=%u v0=0x%llx v1=0x%llx v2=0x%llx v3=0x%llx at=%s:%d "
        "text=\"%s\"\n",
        info->kind, info->kind < NR_PANIC_KINDS ? panic_kind_names[info->kind] : "?", plat_cpu_id(),
        (unsigned long long)info->value[0], (unsigned long long)info->value[1],
        (unsigned long long)info->value[2], (unsigned long long)info->value[3], info->file,
        info->line, info->text);
}

NORETURN void plat_panic(const struct panic_info *info)
{
    static unsigned panicking; /* atomic: thread id of the first */
    unsigned me = (unsigned)syscall(SYS_gettid), nobody = 0;
    u64 addr[BACKTRACE_MAX];
    unsigned n;

    if (!__atomic_compare_exchange_n(&panicking, &nobody, me, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        if (nobody == me) {
            say("\nHAYLOFT-PANIC-IN-PANIC kind=%u v0=0x%llx v1=0x%llx\n", info->kind,
                (unsigned long long)info->value[0], (unsigned long long)info->value[1]);
            _exit(exit_status[PLAT_EXIT_PANIC]);
        }
        for (;;)
            pause(); /* the first one ends the process */
    }
    say_what_happened(info);
    n = backtrace_of_thread(__builtin_frame_address(0), addr, BACKTRACE_MAX);
    for (unsigned i = 0; i < n; i++) {
        u64 offset = 0;
        const char *symbol = host_symbol(addr[i], &offset);

        say("  0x%016llx %s+0x%llx\n", (unsigned long long)addr[i], symbol ? symbol : "?",
            (unsigned long long)offset);
    }
    if (n == BACKTRACE_MAX)
        say("  (callers beyond these %u are not told)\n", BACKTRACE_MAX);
    if (panic_handler)
        panic_handler(info, addr, n);
    _exit(exit_status[PLAT_EXIT_PANIC]);
}
