/* tell.c: what the consoles of both platforms have in common: the shape of a line, and the account of what a
 * boot left out (base/leftout.h), in words.
 *
 * What is left out is told at the start of the laboratory and, for what came since, at its end; a boot that
 * ends before says it there. hello and bye carry the same (telemetry/records.c).
 *
 * Locking: none. Contexts: klog_line() any; left_out_tell() boot, or thread on CPU 0. */
#include "kernel.h"

#include "../base/fmt.h"
#include "../base/leftout.h"

size_t klog_line(char *line, u64 us, const char *format, va_list args)
{
    size_t size = LOG_LINE_MAX - 1; /* the last one is the newline's */
    size_t n = fmt(line, size, "[%5llu.%06llu cpu%u] ", (unsigned long long)(us / 1000000u),
                   (unsigned long long)(us % 1000000u), plat_cpu_id());

    n += fmt_v(line + n, size - n, format, args);
    n = fmt_mark_cut(line, size, n);
    line[n++] = '\n';
    return n;
}

static void tell_one(const struct left_out_desc *d, const struct left_out *l)
{
    char of[32] = "";

    if (l->of)
        fmt(of, sizeof(of), " of %llu", (unsigned long long)l->of);
    klog("left out: %llu%s %s: %s%s%s%s%s", (unsigned long long)l->amount, of, d->unit, d->doc,
         l->detail ? " (" : "", l->detail ? l->detail : "", l->detail ? ")" : "",
         d->voids ? "; this boot does not count" : "");
}

void left_out_tell(void)
{
    static u64 told[NR_LEFT_OUT];

    for (unsigned kind = 0; kind < NR_LEFT_OUT; kind++) {
        struct left_out l = left_out_read(kind);

        if (l.amount == told[kind])
            continue;
        told[kind] = l.amount;
        tell_one(&left_out_descs[kind], &l);
    }
}
