/* io.c: what leaves the hosted machine: the console, the telemetry port, a panic, the exit status.
 *
 * A panic writes the machine-readable line first and only then tries what may fail: the backtrace by frame
 * pointers, each checked against the thread's stack before it is followed, and the handler that sends the last
 * telemetry record. A second panic, from another thread or from the handler, does nothing but end the process.
 *
 * Locking: none; write(2) keeps each line whole. Contexts: any thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../base/fmt.h"
#include "../../base/host.h"
#include "../../base/string.h"

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

/* -- the end ----------------------------------------------------------------------------------------------- */

/* QEMU's debug-exit status for the same end, so that the tool reads both machines alike; 0 for a good one. */
static const int exit_status[] = {
    [PLAT_EXIT_OK] = 0,
    [PLAT_EXIT_PANIC] = 35,
    [PLAT_EXIT_REFUSED] = 37,
    [PLAT_EXIT_FAILED] = 39,
};

NORETURN void plat_exit(enum plat_exit how)
{
    /* exit(), not _exit(): a sanitizer has its last word there. */
    exit(exit_status[how]);
}

const char *host_symbol(u64 addr, u64 *offset)
{
    Dl_info info;

    if (!dladdr((void *)addr, &info) || !info.dli_sname) // NOLINT
        return NULL;
    *offset = addr - (u64)info.dli_saddr;
    return info.dli_sname;
}

/* Follows frame pointers: {caller's frame, return address}, each frame above the one before. */
NO_TSAN __attribute__((no_sanitize("address"))) static unsigned backtrace_of_caller(u64 *addr,
                                                                                   unsigned max)
{
    const u64 *frame = __builtin_frame_address(0);
    pthread_attr_t attr;
    void *base = NULL;
    size_t size = 0;
    unsigned n = 0;

    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return 0;
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
    va_list args;
    size_t n;

    va_start(args, format);
    n = fmt_v(line, sizeof(line), format, args);
    va_end(args);
    host_console_write(line, MIN(n, sizeof(line) - 1));
}

NORETURN void plat_panic(const struct panic_info *info)
{
    static unsigned panicking; /* atomic */
    u64 addr[BACKTRACE_MAX];
    unsigned n;

    if (__atomic_exchange_n(&panicking, 1, __ATOMIC_ACQ_REL)) {
        /* Another thread is at it: let it finish. The same one failed inside: it never returns here. */
        for (unsigned i = 0; i < 50 && __atomic_load_n(&panicking, __ATOMIC_ACQUIRE) == 1; i++)
            plat_sleep_ns(10000000);
        _exit(exit_status[PLAT_EXIT_PANIC]);
    }
    say("HAYLOFT-PANIC kind=%u name=%s cpu=%u file=%s line=%d values=%llx,%llx,%llx,%llx text=%s\n",
        info->kind, info->kind < NR_PANIC_KINDS ? panic_kind_names[info->kind] : "?", plat_cpu_id(),
        info->file, info->line, (unsigned long long)info->value[0],
        (unsigned long long)info->value[1], (unsigned long long)info->value[2],
        (unsigned long long)info->value[3], info->text);
    n = backtrace_of_caller(addr, BACKTRACE_MAX);
    for (unsigned i = 0; i < n; i++) {
        u64 offset = 0;
        const char *symbol = host_symbol(addr[i], &offset);

        say("  %016llx %s+0x%llx\n", (unsigned long long)addr[i], symbol ? symbol : "?",
            (unsigned long long)offset);
    }
    if (panic_handler)
        panic_handler(info, addr, n);
    _exit(exit_status[PLAT_EXIT_PANIC]);
}
