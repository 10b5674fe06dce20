/* fmt.c: see fmt.h. One pass over the format; every character goes through put(), which counts
 * always and stores while there is room.
 *
 * Locking: none. Contexts: any. */
#include "fmt.h"
#include "string.h"

struct out {
    char *buf;
    size_t size, n; /* n: characters so far, stored or not */
};

struct spec {
    bool left, zero, has_precision;
    int width, precision;
    unsigned longs; /* 0: int, 1: long or size_t, 2: long long */
};

static void put(struct out *o, char c)
{
    if (o->n + 1 < o->size)
        o->buf[o->n] = c;
    o->n++;
}

static void put_padding(struct out *o, const struct spec *s, size_t length, char with)
{
    for (size_t i = length; s->width > 0 && i < (size_t)s->width; i++)
        put(o, with);
}

static void put_text(struct out *o, const struct spec *s, const char *text)
{
    size_t length = 0;

    if (!text)
        text = "(null)";
    /* The precision first: the text may end there without a NUL. */
    while (!(s->has_precision && length >= (size_t)s->precision) && text[length])
        length++;
    if (!s->left)
        put_padding(o, s, length, ' ');
    for (size_t i = 0; i < length; i++)
        put(o, text[i]);
    if (s->left)
        put_padding(o, s, length, ' ');
}

/* prefix stands before the digits and before any zero padding: "-", "0x" or "". */
static void put_number(struct out *o, const struct spec *s, u64 v, unsigned base,
                       const char *prefix)
{
    char digits[20];
    unsigned n = 0;
    size_t length;

    do {
        digits[n++] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v);
    length = n + strlen(prefix);
    if (!s->left && !s->zero)
        put_padding(o, s, length, ' ');
    while (*prefix)
        put(o, *prefix++);
    if (!s->left && s->zero)
        put_padding(o, s, length, '0');
    while (n)
        put(o, digits[--n]);
    if (s->left)
        put_padding(o, s, length, ' ');
}

static int parse_number(const char **p)
{
    int v = 0;

    for (; **p >= '0' && **p <= '9'; (*p)++)
        v = v < 100000 ? v * 10 + (**p - '0') : v;
    return v;
}

/* Reads flags, width, precision and length, up to the conversion letter. */
static const char *parse_spec(const char *p, struct spec *s, va_list *args)
{
    *s = (struct spec){0};
    for (; *p == '-' || *p == '0'; p++) {
        s->left |= *p == '-';
        s->zero |= *p == '0';
    }
    if (*p == '*') {
        s->width = va_arg(*args, int);
        p++;
        if (s->width < 0) {
            s->left = true;
            s->width = s->width == -__INT_MAX__ - 1 ? 0 : -s->width;
        }
    } else {
        s->width = parse_number(&p);
    }
    if (*p == '.') {
        p++;
        s->has_precision = true;
        if (*p == '*') {
            s->precision = va_arg(*args, int);
            s->has_precision = s->precision >= 0;
            p++;
        } else {
            s->precision = parse_number(&p);
        }
    }
    for (; *p == 'l' || *p == 'z'; p++)
        s->longs++;
    return p;
}

static u64 argument_unsigned(const struct spec *s, va_list *args)
{
    if (s->longs == 0)
        return va_arg(*args, unsigned);
    return s->longs == 1 ? va_arg(*args, unsigned long) : va_arg(*args, unsigned long long);
}

static i64 argument_signed(const struct spec *s, va_list *args)
{
    if (s->longs == 0)
        return va_arg(*args, int);
    return s->longs == 1 ? va_arg(*args, long) : va_arg(*args, long long);
}

static void convert(struct out *o, const struct spec *s, char letter, va_list *args)
{
    i64 v;

    switch (letter) {
    case 's':
        put_text(o, s, va_arg(*args, const char *));
        break;
    case 'c':
        put_text(o, s, (char[2]){(char)va_arg(*args, int), 0});
        break;
    case 'd':
    case 'i':
        v = argument_signed(s, args);
        put_number(o, s, v < 0 ? -(u64)v : (u64)v, 10, v < 0 ? "-" : "");
        break;
    case 'u':
        put_number(o, s, argument_unsigned(s, args), 10, "");
        break;
    case 'x':
        put_number(o, s, argument_unsigned(s, args), 16, "");
        break;
    case 'p':
        put_number(o, s, (u64)(uintptr_t)va_arg(*args, void *), 16, "0x");
        break;
    case '%':
        put(o, '%');
        break;
    default:
        put(o, '%');
        put(o, letter);
        break;
    }
}

size_t fmt_v(char *buf, size_t size, const char *format, va_list args)
{
    struct out o = {.buf = buf, .size = size};
    va_list rest; /* a va_list parameter may be an array, whose address has another type */

    va_copy(rest, args);
    for (const char *p = format; *p; p++) {
        struct spec s;

        if (*p != '%') {
            put(&o, *p);
            continue;
        }
        p = parse_spec(p + 1, &s, &rest);
        if (*p == 0)
            break;
        convert(&o, &s, *p, &rest);
    }
    va_end(rest);
    if (size)
        buf[o.n < size ? o.n : size - 1] = 0;
    return o.n;
}

size_t fmt(char *buf, size_t size, const char *format, ...)
{
    va_list args;
    size_t n;

    va_start(args, format);
    n = fmt_v(buf, size, format, args);
    va_end(args);
    return n;
}

#define CUT_MARK " (%zu bytes cut)"

size_t fmt_mark_cut(char *buf, size_t size, size_t n)
{
    char mark[40];
    size_t room, keep;

    if (n < size)
        return n;
    room = fmt(mark, sizeof(mark), CUT_MARK, n); /* the number that comes is no longer than n */
    keep = size - 1 > room ? size - 1 - room : 0;
    while (keep && ((u8)buf[keep] & 0xc0) == 0x80)
        keep--;
    return keep + fmt(buf + keep, size - keep, CUT_MARK, n - keep);
}
