/* multiboot2.c: reads the information structure of a multiboot2 loader, and makes clean ranges out
 * of the memory map in it.
 *
 * The structure is a list of tags; unknown ones are skipped. Nothing in it is believed before it
 * was compared with the bytes at hand: a tag that is shorter than its own head, or ends past the
 * structure, or a text without an end, refuses the whole. Contents that are merely odd are taken as
 * what they may mean: a range that wraps around ends at the top of memory, an empty one vanishes.
 *
 * Memory maps of real firmware are unsorted, overlap, and contradict themselves. Reserved wins over
 * usable, and a page that is not usable in full is not used.
 *
 * Locking: none. Contexts: boot; hosted tests. */
#include "multiboot2.h"

#include "../../base/string.h"

enum mb2_tag {
    TAG_END = 0,
    TAG_ARGS = 1,
    TAG_MODULE = 3,
    TAG_MEMORY = 6,
    TAG_SECTIONS = 9,
    TAG_RSDP_OLD = 14,
    TAG_RSDP_NEW = 15,
};

#define TAG_HEAD        8u
#define MEMORY_USABLE   1u
#define SECTION_BYTES   64u
#define SECTION_SYMBOLS 2u /* SHT_SYMTAB */

static u32 get32(const u8 *p)
{
    u32 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static u64 get64(const u8 *p)
{
    u64 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static struct phys_range range_of(u64 start, u64 length)
{
    u64 end = start + length;

    return (struct phys_range){start, end < start ? ~(u64)0 : end};
}

/* The length of the text at p, or n if it has no end there. */
static size_t text_end(const u8 *p, size_t n)
{
    size_t i = 0;

    while (i < n && p[i])
        i++;
    return i;
}

static const char *parse_args(const u8 *tag, size_t size, struct mb2_info *out)
{
    if (text_end(tag + TAG_HEAD, size - TAG_HEAD) == size - TAG_HEAD)
        return "the argument line has no end";
    out->args = (const char *)tag + TAG_HEAD;
    return NULL;
}

static const char *parse_module(const u8 *tag, size_t size, struct mb2_info *out)
{
    if (size < 16)
        return "a module tag is too short";
    u64 start = get32(tag + 8), end = get32(tag + 12);

    if (end < start)
        return "a module ends before it starts";
    if (out->modules == MB2_MAX_MODULES)
        return "too many modules";
    out->module[out->modules++] = (struct phys_range){start, end};
    return NULL;
}

static const char *parse_memory(const u8 *tag, size_t size, struct mb2_info *out)
{
    if (size < 16)
        return "the memory map is too short";
    size_t step = get32(tag + 8);

    if (step < 24)
        return "the memory map's entries are too short";
    for (size_t at = 16; at + 24 <= size && size - at >= step; at += step) {
        struct phys_range r = range_of(get64(tag + at), get64(tag + at + 8));
        bool usable = get32(tag + at + 16) == MEMORY_USABLE;
        unsigned *n = usable ? &out->usables : &out->reserveds;

        if (r.start == r.end)
            continue;
        if (*n == MB2_MAX_RANGES)
            return "the memory map has too many entries";
        (usable ? out->usable : out->reserved)[(*n)++] = r;
    }
    return NULL;
}

static struct phys_range section_range(const u8 *section)
{
    return range_of(get64(section + 16), get64(section + 32));
}

static const char *parse_sections(const u8 *tag, size_t size, struct mb2_info *out)
{
    if (size < 20)
        return "the section tag is too short";
    size_t n = get32(tag + 8), step = get32(tag + 12);

    if (step != SECTION_BYTES)
        return "the section headers are not those of a 64-bit image";
    if (n > (size - 20) / step)
        return "the section tag is shorter than its section headers";
    for (size_t i = 0; i < n; i++) {
        const u8 *s = tag + 20 + i * step;

        if (get32(s + 4) != SECTION_SYMBOLS)
            continue;
        u32 names = get32(s + 40);
        if (names >= n)
            return "the symbol table names a section that does not exist";
        out->symbols = section_range(s);
        out->strings = section_range(tag + 20 + names * step);
    }
    return NULL;
}

/* Either kind may come, in any order; the newer is the better one. */
static const char *parse_rsdp(const u8 *tag, size_t size, bool newer, struct mb2_info *out)
{
    if (size - TAG_HEAD < (newer ? 36u : 20u))
        return "the copy of the RSDP is too short";
    if (newer || !out->rsdp) {
        out->rsdp = tag + TAG_HEAD;
        out->rsdp_bytes = size - TAG_HEAD;
    }
    return NULL;
}

static const char *parse_tag(u32 type, const u8 *tag, size_t size, struct mb2_info *out)
{
    switch (type) {
    case TAG_ARGS:
        return parse_args(tag, size, out);
    case TAG_MODULE:
        return parse_module(tag, size, out);
    case TAG_MEMORY:
        return parse_memory(tag, size, out);
    case TAG_SECTIONS:
        return parse_sections(tag, size, out);
    case TAG_RSDP_OLD:
    case TAG_RSDP_NEW:
        return parse_rsdp(tag, size, type == TAG_RSDP_NEW, out);
    default:
        return NULL;
    }
}

const char *mb2_parse(const void *buffer, size_t size, struct mb2_info *out)
{
    const u8 *p = buffer;

    memset(out, 0, sizeof(*out));
    out->args = "";
    if (size < 8)
        return "the structure is too short for its head";
    size_t total = get32(p), at = 8;
    if (total > size)
        return "the structure says that it is longer than it can be";

    while (at + TAG_HEAD <= total) {
        u32 type = get32(p + at);
        size_t bytes = get32(p + at + 4);

        if (bytes < TAG_HEAD)
            return "a tag is shorter than its head";
        if (bytes > total - at)
            return "a tag ends past the structure";
        if (type == TAG_END)
            return NULL;
        const char *why = parse_tag(type, p + at, bytes, out);
        if (why)
            return why;
        at += round_up(bytes, (size_t)8);
    }
    return "the list of tags has no end";
}

unsigned mb2_reserved(const struct mb2_info *info, struct phys_range out[MB2_MAX_RESERVED])
{
    unsigned n = 0;

    for (unsigned i = 0; i < info->reserveds; i++)
        out[n++] = info->reserved[i];
    for (unsigned i = 0; i < info->modules; i++)
        out[n++] = info->module[i];
    out[n++] = info->symbols;
    out[n++] = info->strings;
    return n;
}

/* -- ranges: every boundary is an edge; between two edges nothing changes -- */

struct edge {
    u64 at;
    i32 usable, reserved; /* what opens (1) or closes (-1) here */
};

static void edge_add(struct edge *e, unsigned *n, u64 at, i32 usable, i32 reserved)
{
    unsigned i = (*n)++;

    for (; i > 0 && e[i - 1].at > at; i--)
        e[i] = e[i - 1];
    e[i] = (struct edge){at, usable, reserved};
}

static void emit(struct phys_range r, struct phys_range *out, unsigned *n, unsigned max)
{
    unsigned smallest = 0;

    r.start = r.start > ~(u64)0 - PAGE_SIZE ? r.end : round_up(r.start, (u64)PAGE_SIZE);
    r.end = round_down(r.end, (u64)PAGE_SIZE);
    if (r.start >= r.end || max == 0)
        return;
    if (*n == max) {
        for (unsigned i = 1; i < max; i++)
            if (out[i].end - out[i].start < out[smallest].end - out[smallest].start)
                smallest = i;
        if (out[smallest].end - out[smallest].start >= r.end - r.start)
            return;
        for (unsigned i = smallest; i + 1 < max; i++)
            out[i] = out[i + 1];
        (*n)--;
    }
    out[(*n)++] = r;
}

unsigned ranges_normalise(const struct phys_range *usable, unsigned usables,
                          const struct phys_range *reserved, unsigned reserveds,
                          struct phys_range *out, unsigned max)
{
    /* Boot only, one caller: too large for a boot stack. Room for both lists and some more. */
    static struct edge edges[2 * (2 * MB2_MAX_RANGES + 64)];
    unsigned edge_count = 0, n = 0;
    i32 in_usable = 0, in_reserved = 0;
    u64 start = 0;
    bool open = false;

    if (usables > MB2_MAX_RANGES || reserveds > MB2_MAX_RANGES + 64)
        return 0;
    for (unsigned i = 0; i < usables; i++) {
        if (usable[i].start >= usable[i].end)
            continue;
        edge_add(edges, &edge_count, usable[i].start, 1, 0);
        edge_add(edges, &edge_count, usable[i].end, -1, 0);
    }
    for (unsigned i = 0; i < reserveds; i++) {
        if (reserved[i].start >= reserved[i].end)
            continue;
        edge_add(edges, &edge_count, reserved[i].start, 0, 1);
        edge_add(edges, &edge_count, reserved[i].end, 0, -1);
    }
    for (unsigned i = 0; i < edge_count; i++) {
        in_usable += edges[i].usable;
        in_reserved += edges[i].reserved;
        if (i + 1 < edge_count && edges[i + 1].at == edges[i].at)
            continue;
        bool free = in_usable > 0 && in_reserved == 0;
        if (free == open)
            continue;
        if (open)
            emit((struct phys_range){start, edges[i].at}, out, &n, max);
        start = edges[i].at;
        open = free;
    }
    return n;
}
