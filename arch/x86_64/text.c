/* text.c: the text functions of base/string.h, byte by byte: names are short and boots are rare.
 * Volatile reads keep the compiler from recognising the loops and calling the functions they are
 * in.
 *
 * Locking: none. Contexts: any. */
#include "../../base/string.h"

size_t strlen(const char *s)
{
    const volatile char *p = s;

    while (*p)
        p++;
    return (size_t)(p - s);
}

int strcmp(const char *a, const char *b)
{
    return strncmp(a, b, ~(size_t)0);
}

int strncmp(const char *a, const char *b, size_t n)
{
    const volatile u8 *x = (const volatile u8 *)a, *y = (const volatile u8 *)b;

    for (; n > 0; n--, x++, y++) {
        u8 p = *x, q = *y;

        if (p != q)
            return p - q;
        if (!p)
            return 0;
    }
    return 0;
}
