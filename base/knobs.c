/* knobs.c: see knobs.h. One table derives from knobs.def: for each knob its name, type, range,
 * default, the place of its field, and its slice of the table of legal values. Defaults go through
 * the same conversion as what the line says, so an illegal default cannot stay unseen.
 *
 * A word is refused once, for the first thing wrong with it. The nearest legal name is the one at
 * the smallest edit distance (a swap of neighbours counts as one), if that is at most half of what
 * was typed: a suggestion that shares nothing with the word would only confuse.
 *
 * Locking: none. Contexts: boot. */
#include "knobs.h"
#include "fmt.h"
#include "string.h"

#define NAME_MAX_COMPARED 40 /* a longer word is near nothing */

enum knob_type { TYPE_ENUM, TYPE_UINT, TYPE_TEXT };
enum knob_where { WHERE_all, WHERE_metal, WHERE_host };

struct knob_desc {
    const char *name, *fallback;
    u64 min, max;
    u32 offset; /* of its field in struct knobs */
    u8 type, where;
};
struct value_desc {
    const char *name;
    u8 knob;
};

static const struct knob_desc descs[NR_KNOBS] = {
#define KNOB(ident, name_, type_, min_, max_, def, where_, doc)                                    \
    [KNOB_ID_##ident] = {.name = name_,                                                            \
                         .fallback = def,                                                          \
                         .min = min_,                                                              \
                         .max = max_,                                                              \
                         .offset = offsetof(struct knobs, ident),                                  \
                         .type = TYPE_##type_,                                                     \
                         .where = WHERE_##where_},
#define VALUE(ident, value, doc)
#define CONFLICT(what, unless, nearest, why)
#include "knobs.def"
#undef KNOB
#undef VALUE
#undef CONFLICT
};

static const struct value_desc values[NR_KNOB_VALUES] = {
    [V_NONE] = {.name = "", .knob = NR_KNOBS},
#define KNOB(ident, name, type, min, max, def, where, doc)
#define VALUE(ident, value, doc) [V_##ident##_##value] = {.name = #value, .knob = KNOB_ID_##ident},
#define CONFLICT(what, unless, nearest, why)
#include "knobs.def"
#undef KNOB
#undef VALUE
#undef CONFLICT
};

static const struct conflict {
    const char *what, *unless, *nearest, *why;
} conflicts[] = {
#define KNOB(ident, name, type, min, max, def, where, doc)
#define VALUE(ident, value, doc)
#define CONFLICT(what_, unless_, nearest_, why_)                                                   \
    {.what = what_, .unless = unless_, .nearest = nearest_, .why = why_},
#include "knobs.def"
#undef KNOB
#undef VALUE
#undef CONFLICT
};

_Static_assert(NR_KNOBS < 255, "value_desc.knob is a byte");

/* A piece of the argument line. */
struct piece {
    const char *at;
    size_t n;
};

static bool piece_is(struct piece p, const char *text)
{
    return strlen(text) == p.n && memcmp(p.at, text, p.n) == 0;
}

/* -- refusals ---------------------------------------------------------------------------------- */

/* Marked where it had to be cut. */
static void cut_copy(char *buf, size_t size, struct piece p)
{
    int n = (int)MIN(p.n, (size_t)__INT_MAX__);

    fmt_mark_cut(buf, size, fmt(buf, size, "%.*s", n, p.at));
}

PRINTF(4, 5)
static void refuse(struct knob_refusals *r, struct piece argument, const char *nearest,
                   const char *reason, ...)
{
    struct knob_refusal *e;
    va_list args;

    if (r->count++ >= KNOB_REFUSALS)
        return;
    e = &r->at[r->count - 1];
    cut_copy(e->argument, sizeof(e->argument), argument);
    cut_copy(e->nearest, sizeof(e->nearest), (struct piece){nearest, strlen(nearest)});
    va_start(args, reason);
    fmt_mark_cut(e->reason, sizeof(e->reason), fmt_v(e->reason, sizeof(e->reason), reason, args));
    va_end(args);
}

/* Optimal string alignment: insertions, deletions, replacements and swaps of neighbours. */
static unsigned distance(struct piece a, const char *b)
{
    u8 row[3][NAME_MAX_COMPARED + 1];
    size_t n = MIN(a.n, (size_t)NAME_MAX_COMPARED), m = MIN(strlen(b), (size_t)NAME_MAX_COMPARED);
    u8 *before = row[0], *above = row[1], *here = row[2];

    for (size_t j = 0; j <= m; j++)
        here[j] = (u8)j;
    for (size_t i = 1; i <= n; i++) {
        u8 *spare = before;

        before = above;
        above = here;
        here = spare;
        here[0] = (u8)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = above[j - 1] + (a.at[i - 1] != b[j - 1]);

            best = MIN(best, above[j] + 1u);
            best = MIN(best, here[j - 1] + 1u);
            if (i > 1 && j > 1 && a.at[i - 1] == b[j - 2] && a.at[i - 2] == b[j - 1])
                best = MIN(best, before[j - 2] + 1u);
            here[j] = (u8)best;
        }
    }
    return here[m];
}

unsigned knobs_distance(const char *a, size_t n, const char *b)
{
    return distance((struct piece){a, n}, b);
}

/* The smallest distance that makes no suggestion. */
static unsigned too_far(struct piece typed)
{
    return typed.n > NAME_MAX_COMPARED ? 0 : (unsigned)(typed.n + 1) / 2 + 1;
}

static const char *nearest_knob(struct piece name)
{
    unsigned best = too_far(name);
    const char *found = "";

    for (unsigned i = 0; i < NR_KNOBS; i++) {
        unsigned d = distance(name, descs[i].name);

        if (d < best) {
            best = d;
            found = descs[i].name;
        }
    }
    return found;
}

/* NAME=VALUE of the nearest legal value, into buf; "" if none is near. */
static void nearest_value(unsigned id, struct piece value, char *buf, size_t size)
{
    unsigned best = too_far(value);

    buf[0] = 0;
    for (unsigned v = 0; v < NR_KNOB_VALUES; v++) {
        unsigned d;

        if (values[v].knob != id)
            continue;
        d = distance(value, values[v].name);
        if (d < best) {
            best = d;
            fmt(buf, size, "%s=%s", descs[id].name, values[v].name);
        }
    }
}

static void list_values(unsigned id, char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = 0;
    for (unsigned v = 0; v < NR_KNOB_VALUES; v++) {
        if (values[v].knob == id && n < size)
            n += fmt(buf + n, size - n, "%s%s", n ? ", " : "", values[v].name);
    }
}

/* -- conversion -------------------------------------------------------------------------------- */

/* A time is stored in milliseconds: it is named so, or its default is given in seconds. */
static bool is_time(const struct knob_desc *d)
{
    size_t n = strlen(d->name), f = strlen(d->fallback);

    return (n > 3 && strcmp(d->name + n - 3, ".ms") == 0) || (f > 0 && d->fallback[f - 1] == 's');
}

/* False if it is no number of that kind; too large a one becomes the largest. */
static bool parse_uint(const struct knob_desc *d, struct piece p, u64 *result)
{
    u64 v = 0, factor = 1;
    size_t i = 0;

    for (; i < p.n && p.at[i] >= '0' && p.at[i] <= '9'; i++) {
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (u64)(p.at[i] - '0'), &v))
            v = ~(u64)0 / 10; /* stays past every range, whatever follows */
    }
    if (i == 0 || p.n - i > 1)
        return false;
    if (i < p.n) {
        switch (p.at[i]) {
        case 'K':
            factor = 1024;
            break;
        case 'M':
            factor = 1024 * 1024;
            break;
        case 'G':
            factor = 1024 * 1024 * 1024;
            break;
        case 's':
            factor = is_time(d) ? 1000 : 0;
            break;
        default:
            factor = 0;
            break;
        }
    }
    if (factor == 0)
        return false;
    if (__builtin_mul_overflow(v, factor, &v))
        v = ~(u64)0;
    *result = v;
    return true;
}

static void *field(const struct knobs *k, unsigned id)
{
    return (char *)(uintptr_t)k + descs[id].offset;
}

static bool set_enum(struct knobs *k, unsigned id, struct piece word, struct piece value,
                     struct knob_refusals *r)
{
    char near[80], legal[160];

    for (unsigned v = 0; v < NR_KNOB_VALUES; v++) {
        if (values[v].knob == id && piece_is(value, values[v].name)) {
            *(enum knob_value *)field(k, id) = (enum knob_value)v;
            return true;
        }
    }
    nearest_value(id, value, near, sizeof(near));
    list_values(id, legal, sizeof(legal));
    refuse(r, word, near, "%s is one of: %s", descs[id].name, legal);
    return false;
}

static bool set_uint(struct knobs *k, unsigned id, struct piece word, struct piece value,
                     struct knob_refusals *r)
{
    const struct knob_desc *d = &descs[id];
    char near[80];
    u64 v;

    if (!parse_uint(d, value, &v)) {
        refuse(r, word, "", "%s is a number (suffixes K, M, G%s)", d->name,
               is_time(d) ? "; milliseconds, or with s seconds" : "");
        return false;
    }
    if (v < d->min || v > d->max) {
        fmt(near, sizeof(near), "%s=%llu", d->name,
            (unsigned long long)(v < d->min ? d->min : d->max));
        refuse(r, word, near, "%s is a number from %llu to %llu", d->name,
               (unsigned long long)d->min, (unsigned long long)d->max);
        return false;
    }
    *(u64 *)field(k, id) = v;
    return true;
}

static bool set_text(struct knobs *k, unsigned id, struct piece word, struct piece value,
                     struct knob_refusals *r)
{
    char *to = field(k, id);

    if (value.n > descs[id].max) {
        refuse(r, word, "", "%s is longer than %llu bytes", descs[id].name,
               (unsigned long long)descs[id].max);
        return false;
    }
    memcpy(to, value.at, value.n);
    to[value.n] = 0;
    return true;
}

static bool set_knob(struct knobs *k, unsigned id, struct piece word, struct piece value,
                     struct knob_refusals *r)
{
    if (value.n == 0) {
        refuse(r, word, "", "%s= lacks its value", descs[id].name);
        return false;
    }
    switch (descs[id].type) {
    case TYPE_ENUM:
        return set_enum(k, id, word, value, r);
    case TYPE_UINT:
        return set_uint(k, id, word, value, r);
    default:
        return set_text(k, id, word, value, r);
    }
}

/* -- the line ---------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void parse_word(struct knobs *k, struct piece word, bool hosted, struct knob_refusals *r)
{
    struct piece name = {word.at, 0}, value;
    unsigned id = 0;

    while (name.n < word.n && word.at[name.n] != '=')
        name.n++;
    if (name.n == word.n) {
        refuse(r, word, nearest_knob(name), "an argument is NAME=VALUE");
        return;
    }
    value = (struct piece){word.at + name.n + 1, word.n - name.n - 1};
    while (id < NR_KNOBS && !piece_is(name, descs[id].name))
        id++;
    if (id == NR_KNOBS) {
        refuse(r, word, nearest_knob(name), "there is no such knob");
    } else if (k->set[id]) {
        refuse(r, word, "", "%s is given twice", descs[id].name);
    } else if (descs[id].where == (hosted ? WHERE_metal : WHERE_host)) {
        k->set[id] = true;
        refuse(r, word, "", "%s means nothing on %s", descs[id].name,
               hosted ? "the hosted machine" : "a booted machine");
    } else {
        k->set[id] = true;
        (void)set_knob(k, id, word, value, r);
    }
}

bool knobs_parse(struct knobs *k, const char *line, bool hosted, struct knob_refusals *r)
{
    memset(k, 0, sizeof(*k));
    memset(r, 0, sizeof(*r));
    for (unsigned id = 0; id < NR_KNOBS; id++) {
        struct piece fallback = {descs[id].fallback, strlen(descs[id].fallback)};

        (void)set_knob(k, id, fallback, fallback, r);
    }
    for (const char *p = line; *p;) {
        struct piece word = {p, 0};

        if (is_blank(*p)) {
            p++;
            continue;
        }
        while (*p && !is_blank(*p))
            p++;
        word.n = (size_t)(p - word.at);
        parse_word(k, word, hosted, r);
    }
    return r->count == 0;
}

static void contradict(struct knob_refusals *r, const char *pair, const char *nearest,
                       const char *reason)
{
    refuse(r, (struct piece){pair, strlen(pair)}, nearest, "%s", reason);
}

static bool has_empty_name(const char *list)
{
    char before = ',';

    for (const char *p = list; *p; before = *p++) {
        if (*p == ',' && before == ',')
            return true;
    }
    return before == ',';
}

bool knobs_list_parse(const char *text, u32 *out, unsigned n, u32 max)
{
    for (unsigned i = 0; i < n; i++) {
        u32 v = 0;

        if (*text < '0' || *text > '9')
            return false;
        for (; *text >= '0' && *text <= '9' && v <= max; text++)
            v = v * 10 + (u32)(*text - '0');
        if (v < 1 || v > max || *text != (i + 1 < n ? '/' : 0))
            return false;
        text++;
        out[i] = v;
    }
    return true;
}

static unsigned knob_named(struct piece name)
{
    unsigned id = 0;

    while (id < NR_KNOBS && !piece_is(name, descs[id].name))
        id++;
    return id;
}

/* NAME>NAME */
static bool greater(const struct knobs *k, unsigned id, struct piece other)
{
    unsigned than = knob_named(other);

    return than == NR_KNOBS || *(const u64 *)field(k, id) > *(const u64 *)field(k, than);
}

/* One condition of a CONFLICT. One that names no knob holds: the list is wrong then, and every boot
 * says so. */
static bool holds(const struct knobs *k, struct piece condition)
{
    char value[128];
    struct piece name = {condition.at, 0}, wanted;
    unsigned id;
    bool differs;

    while (name.n < condition.n && name.at[name.n] != '=' && name.at[name.n] != '!' &&
           name.at[name.n] != '>')
        name.n++;
    id = knob_named(name);
    if (id == NR_KNOBS)
        return true;
    if (name.n == condition.n)
        return k->set[id];
    differs = name.at[name.n] == '!';
    wanted.at = name.at + name.n + 1 + differs;
    wanted.n = (size_t)(condition.at + condition.n - wanted.at);
    if (name.at[name.n] == '>')
        return greater(k, id, wanted);
    knob_value_text(k, id, value, sizeof(value));
    return piece_is(wanted, value) != differs;
}

static bool all_hold(const struct knobs *k, const char *conditions)
{
    for (const char *p = conditions; *p;) {
        struct piece one = {p, 0};

        while (*p && *p != ' ')
            p++;
        one.n = (size_t)(p - one.at);
        if (!holds(k, one))
            return false;
        p += *p == ' ';
    }
    return true;
}

bool knobs_check(const struct knobs *k, struct knob_refusals *r)
{
    u32 limits[6];

    for (unsigned i = 0; i < ARRAY_SIZE(conflicts); i++) {
        const struct conflict *c = &conflicts[i];

        if (all_hold(k, c->what) && !(c->unless[0] && all_hold(k, c->unless)))
            contradict(r, c->what, c->nearest, c->why);
    }
    if (!knobs_list_parse(k->pcp_limits, limits, ARRAY_SIZE(limits), 32))
        contradict(r, "pcp.limits", "8/8/6/4/3/2", "six numbers from 1 to 32, one an order");
    if (has_empty_name(k->tests))
        contradict(r, "tests", "", "an empty name between commas chooses nothing");
    return r->count == 0;
}

const char *knob_name(enum knob_id id)
{
    return descs[id].name;
}

void knob_value_text(const struct knobs *k, enum knob_id id, char *buf, size_t size)
{
    const void *at = (const char *)k + descs[id].offset;

    switch (descs[id].type) {
    case TYPE_ENUM:
        fmt(buf, size, "%s", values[*(const enum knob_value *)at].name);
        break;
    case TYPE_UINT:
        fmt(buf, size, "%llu", (unsigned long long)*(const u64 *)at);
        break;
    default:
        fmt(buf, size, "%s", (const char *)at);
        break;
    }
}

/* -- tests= ------------------------------------------------------------------------------------ */

/* '*' is any run of characters. On a mismatch only the last '*' need take more: what it matched
 * first was the shortest, and a later star can make up for anything an earlier one could. */
static bool glob(struct piece pattern, const char *name)
{
    size_t i = 0, star = pattern.n;
    const char *resume = NULL;

    while (*name) {
        if (i < pattern.n && pattern.at[i] == '*') {
            star = i++;
            resume = name;
        } else if (i < pattern.n && pattern.at[i] == *name) {
            i++;
            name++;
        } else if (resume) {
            i = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (i < pattern.n && pattern.at[i] == '*')
        i++;
    return i == pattern.n;
}

static bool matches_one(struct piece pattern, const char *name)
{
    bool plain = true;

    for (size_t i = 0; i < pattern.n; i++)
        plain &= pattern.at[i] != '*';
    if (!plain)
        return glob(pattern, name);
    return pattern.n > 0 && strncmp(pattern.at, name, pattern.n) == 0 &&
           (name[pattern.n] == 0 || name[pattern.n] == '/');
}

bool knobs_test_match(const char *patterns, const char *name)
{
    for (const char *p = patterns; *p;) {
        struct piece one = {p, 0};

        while (*p && *p != ',')
            p++;
        one.n = (size_t)(p - one.at);
        if (matches_one(one, name))
            return true;
        if (*p == ',')
            p++;
    }
    return false;
}
