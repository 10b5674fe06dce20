/* console.c: lines of text for a person, on COM1.
 *
 * A line is made in the caller's own buffer and written whole, under one lock, so lines of
 * different CPUs never mix. Writing is polled and slow, which is why nothing on an allocation path
 * or in a timed section logs.
 *
 * Whoever has interrupts off may have interrupted, or be, the holder of anything: it only tries for
 * the lock, for a bounded time, and a line that finds no room is counted and owned up to by the
 * next one that does. With telemetry.port=com1 frames and text share the line, and a line of text
 * waits for the end of a frame.
 *
 * Locking: log_lock, class log, interrupts off. Contexts: klog in threads and interrupts; the panic
 * functions anywhere, since they take no lock (by then every other CPU has been stopped). */
#include "sched.h"

#include <stdarg.h>

#include "../base/fmt.h"
#include "telemetry/telemetry.h"

#define TRY_LIMIT 20000u

static struct spinlock log_lock;
static bool log_ready;
static u64 first_cycles;
static unsigned lines_lost; /* atomic */

static u64 us_since_boot(void)
{
    u64 hz = plat_cycles_hz();

    return hz ? (plat_cycles() - first_cycles) / MAX(hz / 1000000u, (u64)1) : 0;
}

static bool log_trylock(void)
{
    for (unsigned i = 0; i < TRY_LIMIT; i++) {
        if (spin_trylock(&log_lock))
            return true;
        plat_relax();
    }
    return false;
}

static void say_what_was_lost(void)
{
    unsigned lost = __atomic_exchange_n(&lines_lost, 0, __ATOMIC_RELAXED);
    char line[64];

    if (!lost)
        return;
    fmt(line, sizeof(line), "(%u lines lost: the console was busy)\n", lost);
    console_write_text(line);
}

/* log_lock held. False: the telemetry has the line that both share. */
static bool write_locked(const char *line, size_t n)
{
    bool shared = knobs.telemetry_port == V_telemetry_port_com1;

    if (shared && !telemetry_line_take())
        return false;
    say_what_was_lost();
    machine_console_write(line, n);
    if (shared)
        telemetry_line_give();
    return true;
}

static bool try_to_write(const char *line, size_t n, bool may_wait)
{
    unsigned long flags = plat_irq_save();
    bool locked = true, done = false;

    if (may_wait)
        spin_lock(&log_lock);
    else
        locked = log_trylock();
    if (locked) {
        done = write_locked(line, n);
        spin_unlock(&log_lock);
    }
    plat_irq_restore(flags);
    return done;
}

void klog(const char *format, ...)
{
    char line[LOG_LINE_MAX];
    bool may_wait = !plat_irqs_off();
    va_list args;
    size_t n;

    va_start(args, format);
    n = klog_line(line, us_since_boot(), format, args);
    va_end(args);
    if (!log_ready)
        return;
    while (!try_to_write(line, n, may_wait)) {
        if (!may_wait) {
            __atomic_fetch_add(&lines_lost, 1, __ATOMIC_RELAXED);
            return;
        }
        thread_yield(); /* who has the line may be a thread of this CPU */
    }
}

void console_write_text(const char *text)
{
    size_t n = 0;

    while (text[n])
        n++;
    machine_console_write(text, n);
}

void console_write_panic(const char *format, ...)
{
    char line[LOG_LINE_MAX];
    size_t size = sizeof(line) - 1, n;
    va_list args;

    va_start(args, format);
    n = fmt_v(line, size, format, args);
    va_end(args);
    if (n >= size) { /* what was cut was the end of the line */
        n = fmt_mark_cut(line, size, n);
        line[n++] = '\n';
        line[n] = 0;
    }
    console_write_text(line);
}

static void hold(void)
{
    (void)plat_irq_save();
    spin_lock(&log_lock);
}

void console_init(void)
{
    first_cycles = plat_cycles();
    spin_init(&log_lock, LOCKCLASS_log, "console");
    log_ready = true;
    kernel_hooks.hold_console = hold;
}
