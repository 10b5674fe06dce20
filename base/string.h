/* string.h: the memory and text functions that freestanding code may call. The compiler emits calls
 * to the first four by itself. On metal arch/ defines them all; on the host they are libc's.
 *
 * Locking: none. Contexts: any. */
#ifndef BASE_STRING_H
#define BASE_STRING_H

#include "types.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);

/* Copies s into buf, cut to fit; always NUL-terminates. False if it was cut. size > 0. */
static inline bool text_copy(char *buf, size_t size, const char *s)
{
    size_t n = strlen(s);
    bool fits = n < size;

    if (!fits)
        n = size - 1;
    memcpy(buf, s, n);
    buf[n] = 0;
    return fits;
}

#endif
