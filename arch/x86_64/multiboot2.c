/* multiboot2.c: reads the information structure of a multiboot2 loader, and keeps the sets of ranges
 * that are made out of the memory map in it.
 *
 * The structure is a list of tags; unknown ones are skipped. Nothing in it is believed before it
 * was compared with the bytes at hand: a tag that is shorter than its own head, or ends past the
 * structure, or a text without an end, refuses the whole. Contents that are merely odd are taken as
 * what they may mean: a range that wraps around ends at the top of memory, an empty one vanishes.
 *
 * Memory maps of real firmware are unsorted, overlap, and contradict themselves. Reserved wins over
 * usable, and a page that is not usable in full is not used. They have as many entries as they like, and
 * so have the modules: both are read where they are, one entry after the other, and nothing here has
 * a table of them. What is made of them is a set, and a set's table has an end: it keeps the largest
 * ranges, and says how many bytes it dropped.
 *
 * Locking: none. Contexts: boot; hosted tests. */
#include "multiboot2.h"

#include "../../base/guard.h"
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
#define MEMORY_HEAD     16u /* of the memory map, before its entries */
#define MEMORY_ENTRY    24u /* at least */
#define MEMORY_USABLE   1u
#define MEMORY_ACPI     3u
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

static const char *parse_module(const u8 *tag, size_t size)
{
    if (size < 16)
        return "a module tag is too short";
    if (get32(tag + 12) < get32(tag + 8))
        return "a module ends before it starts";
    return NULL;
}

static const char *parse_memory(const u8 *tag, size_t size)
{
    if (size < 16)
        return "the memory map is too short";
    if (get32(tag + 8) < MEMORY_ENTRY)
        return "the memory map's entries are too short";
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
        return parse_module(tag, size);
    case TAG_MEMORY:
        return parse_memory(tag, size);
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
    out->tags = p;
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

/* -- what the loader lists -- */

/* One entry of the memory map, or false past its last. */
static bool memory_entry(const u8 *tag, size_t entry, struct phys_range *out, enum mb2_kind *kind)
{
    size_t size = get32(tag + 4), step = get32(tag + 8), at = MEMORY_HEAD + entry * step;

    if (at > size || size - at < step)
        return false;
    u32 type = get32(tag + at + 16);
    *out = range_of(get64(tag + at), get64(tag + at + 8));
    *kind = type == MEMORY_USABLE ? MB2_USABLE : type == MEMORY_ACPI ? MB2_ACPI : MB2_RESERVED;
    return true;
}

static bool tag_entry(const u8 *tag, size_t entry, struct phys_range *out, enum mb2_kind *kind)
{
    switch (get32(tag)) {
    case TAG_MEMORY:
        return memory_entry(tag, entry, out, kind);
    case TAG_MODULE:
        *out = (struct phys_range){get32(tag + 8), get32(tag + 12)};
        *kind = MB2_MODULE;
        return entry == 0;
    default:
        return false;
    }
}

bool mb2_next(const struct mb2_info *info, struct mb2_cursor *at, struct phys_range *out,
              enum mb2_kind *kind)
{
    if (!at->tag)
        at->tag = 8;
    while (get32(info->tags + at->tag) != TAG_END) {
        const u8 *tag = info->tags + at->tag;

        while (tag_entry(tag, at->entry, out, kind)) {
            at->entry++;
            if (out->start < out->end)
                return true;
        }
        at->tag += round_up((size_t)get32(tag + 4), (size_t)8);
        at->entry = 0;
    }
    return false;
}

/* -- sets of ranges -- */

static u64 length(const struct phys_range *r)
{
    return r->end - r->start;
}

/* The first range that ends at or behind `address`, s->n if none does. */
static unsigned first_reaching(const struct range_set *s, u64 address)
{
    unsigned low = 0, high = s->n;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (s->at[middle].end < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_out(struct range_set *s, unsigned i, unsigned n)
{
    for (unsigned k = i; k + n < s->n; k++)
        s->at[k] = s->at[k + n];
    s->n -= n;
}

/* Makes room by dropping the smallest, if that is smaller than r. *i, where r would go, moves with it. */
static bool drop_smallest(struct range_set *s, const struct phys_range *r, unsigned *i)
{
    unsigned smallest = 0;

    for (unsigned k = 1; k < s->n; k++)
        if (length(&s->at[k]) < length(&s->at[smallest]))
            smallest = k;
    if (!s->n || GUARD(70, length(&s->at[smallest]) >= length(r))) {
        s->dropped += length(r);
        return false;
    }
    s->dropped += length(&s->at[smallest]);
    take_out(s, smallest, 1);
    *i -= smallest < *i;
    return true;
}

static void put_in(struct range_set *s, unsigned i, struct phys_range r)
{
    if (s->n == s->max && !drop_smallest(s, &r, &i))
        return;
    for (unsigned k = s->n++; k > i; k--)
        s->at[k] = s->at[k - 1];
    s->at[i] = r;
}

void ranges_add(struct range_set *s, struct phys_range r)
{
    unsigned i = first_reaching(s, r.start), k = i;

    if (r.start >= r.end)
        return;
    for (; k < s->n && s->at[k].start <= r.end; k++) {
        r.start = MIN(r.start, s->at[k].start);
        r.end = MAX(r.end, s->at[k].end);
    }
    if (k == i) {
        put_in(s, i, r);
    } else {
        s->at[i] = r;
        take_out(s, i + 1, k - i - 1);
    }
}

void ranges_cut(struct range_set *s, struct phys_range r)
{
    unsigned i = first_reaching(s, r.start);

    if (r.start >= r.end)
        return;
    while (i < s->n && s->at[i].start < r.end) {
        struct phys_range *have = &s->at[i], behind = {r.end, have->end};

        if (have->start < r.start) {
            have->end = MIN(have->end, r.start);
            i++;
            if (behind.start < behind.end)
                put_in(s, i, behind);
        } else if (behind.start < behind.end) {
            have->start = behind.start;
        } else {
            take_out(s, i, 1);
        }
    }
}

void ranges_to_pages(struct range_set *s)
{
    unsigned n = 0;

    for (unsigned i = 0; i < s->n; i++) {
        struct phys_range r = s->at[i];

        r.start = r.start > ~(u64)0 - PAGE_SIZE ? r.end : round_up(r.start, (u64)PAGE_SIZE);
        r.end = round_down(r.end, (u64)PAGE_SIZE);
        if (r.start < r.end)
            s->at[n++] = r;
    }
    s->n = n;
}

u64 ranges_bytes(const struct range_set *s)
{
    u64 sum = 0;

    for (unsigned i = 0; i < s->n; i++)
        sum += length(&s->at[i]);
    return sum;
}
