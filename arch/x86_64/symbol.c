/* symbol.c: where the kernel is and how it got there, for panics.
 *
 * Frame pointers are followed one by one, each checked first: aligned, above the last one, its two
 * words mapped, its return address inside the code. Names come from the symbol table that the boot
 * loader put beside the kernel; it is searched linearly, since a panic is in no hurry and then
 * nothing has to be sorted while booting.
 *
 * Locking: none; read-only after symbol_init(). Contexts: any. */
#include "cpu.h"

#include "../../base/string.h"

/* As ELF-64 lays it out. */
struct symbol {
    u32 name;
    u8 info, other;
    u16 section;
    u64 value, size;
};
#define SYMBOL_TYPE(s)  ((s)->info & 15u)
#define SYMBOL_NONE     0u
#define SYMBOL_FUNCTION 2u

static const struct symbol *symbols;
static size_t symbol_count;
static const char *names;
static size_t names_bytes;

void symbol_init(const struct phys_range *s, const struct phys_range *n)
{
    if (s->start == s->end || n->start == n->end || s->start & 7)
        return;
    if (!paging_mapped((u64)direct(s->start)) || !paging_mapped((u64)direct(n->start)))
        return;
    names = direct(n->start);
    names_bytes = n->end - n->start;
    if (names[names_bytes - 1]) /* every name must end */
        return;
    symbols = direct(s->start);
    symbol_count = (s->end - s->start) / sizeof(*symbols);
}

static bool is_code(u64 address)
{
    return address >= (u64)text_start && address < (u64)text_end;
}

const char *machine_symbol(u64 address, u64 *offset)
{
    const struct symbol *best = NULL;

    if (!is_code(address))
        return NULL;
    for (size_t i = 0; i < symbol_count; i++) {
        const struct symbol *s = &symbols[i];

        if (SYMBOL_TYPE(s) != SYMBOL_FUNCTION && SYMBOL_TYPE(s) != SYMBOL_NONE)
            continue;
        if (s->section == 0 || s->name == 0 || s->name >= names_bytes || s->value > address)
            continue;
        if (!best || s->value > best->value ||
            (s->value == best->value && SYMBOL_TYPE(s) == SYMBOL_FUNCTION))
            best = s;
    }
    if (!best)
        return NULL;
    *offset = address - best->value;
    return names + best->name;
}

unsigned machine_backtrace(const void *regs, u64 *address, unsigned max)
{
    const struct trap_frame *f = regs;
    u64 frame = f ? f->rbp : (u64)__builtin_frame_address(0);
    unsigned n = 0;

    if (f && n < max)
        address[n++] = f->rip;
    while (n < max) {
        if (frame & 7 || !paging_mapped(frame) || !paging_mapped(frame + 15))
            break;
        const u64 *record = (const u64 *)frame;

        if (!is_code(record[1]))
            break;
        address[n++] = record[1];
        if (record[0] <= frame)
            break;
        frame = record[0];
    }
    return n;
}
