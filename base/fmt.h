/* fmt.h: text formatting without a C library: %s %c %d %i %u %x %p %%, lengths l ll z, a width or
 * '*', '-' (left) and '0' (zero pad), and a precision or '.*' for %s. No floating point: the kernel
 * reports raw units.
 *
 * Always NUL-terminates (size > 0) and returns the length that everything would have needed, so a
 * result of at least size means it was cut. An unknown conversion is copied as it stands. Locking:
 * none. Contexts: any. */
#ifndef BASE_FMT_H
#define BASE_FMT_H

#include <stdarg.h>

#include "types.h"

size_t fmt_v(char *buf, size_t size, const char *format, va_list args) PRINTF(3, 0);
size_t fmt(char *buf, size_t size, const char *format, ...) PRINTF(3, 4);

/* A text that was cut says so: n is what fmt or fmt_v returned for buf. If that was too much, the end of buf
 * becomes " (123 bytes cut)": how many of the n are missing. No UTF-8 letter is left in half. Returns the
 * length of what is in buf. size: enough for such a mark. */
size_t fmt_mark_cut(char *buf, size_t size, size_t n);

#endif
