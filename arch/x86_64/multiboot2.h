/* multiboot2.h: what a multiboot2 loader left behind, read out of a byte buffer and of nothing
 * else, so that the same code is tested and fuzzed hosted. Private to arch/x86_64 and its tests.
 *
 * Locking: none. Contexts: boot. */
#ifndef ARCH_X86_64_MULTIBOOT2_H
#define ARCH_X86_64_MULTIBOOT2_H

#include "../../base/types.h"

/* Physical addresses, end excluded. */
struct phys_range {
    u64 start, end;
};

struct mb2_info {
    const char *args; /* in the buffer, NUL ended; "" if there are none */
    const u8 *rsdp;   /* in the buffer; NULL if there is none */
    size_t rsdp_bytes;
    const u8 *tags; /* the list, every tag of which was looked at: mb2_next() reads it again */
    struct phys_range symbols,
        strings; /* the kernel's symbol table and its names; empty if not loaded */
};

/* NULL, or why the buffer is refused. size: bytes of the buffer that may be read; the
 * structure's own total must not exceed it. What is found stays in the buffer, which has to stay, too. */
NODISCARD const char *mb2_parse(const void *buffer, size_t size, struct mb2_info *out);

enum mb2_kind {
    MB2_USABLE,
    MB2_ACPI,     /* the firmware's tables: usable for those who have read them */
    MB2_RESERVED, /* whatever is listed as anything else */
    MB2_MODULE,
};

struct mb2_cursor { /* all 0: before the first */
    size_t tag, entry;
};

/* The next range that the loader lists, however many there are: as listed, so unsorted, overlapping,
 * ending within pages; empty ones are passed over. False: there are no more. */
bool mb2_next(const struct mb2_info *info, struct mb2_cursor *at, struct phys_range *out,
              enum mb2_kind *kind);

/* -- sets of ranges -- */

/* Sorted, disjoint, not even touching. A set that has no room for one more drops the smallest that
 * it has at that moment, and adds up what it dropped. */
struct range_set {
    struct phys_range *at; /* room for max */
    unsigned n, max;
    u64 dropped; /* bytes */
};

/* First all additions, then all cuts: what is cut off may be added again. */
void ranges_add(struct range_set *s, struct phys_range r);
void ranges_cut(struct range_set *s, struct phys_range r);
/* Leaves whole pages only: a page counts if all of it is in. */
void ranges_to_pages(struct range_set *s);
u64 ranges_bytes(const struct range_set *s);

#endif
