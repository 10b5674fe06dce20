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

#define MB2_MAX_RANGES   256u
#define MB2_MAX_MODULES  16u
#define MB2_MAX_RESERVED (MB2_MAX_RANGES + MB2_MAX_MODULES + 2)

struct mb2_info {
    const char *args; /* in the buffer, NUL ended; "" if there are none */
    const u8 *rsdp;   /* in the buffer; NULL if there is none */
    size_t rsdp_bytes;
    struct phys_range
        usable[MB2_MAX_RANGES]; /* as the firmware listed them: unsorted, overlapping, empty */
    unsigned usables;
    struct phys_range
        reserved[MB2_MAX_RANGES]; /* likewise: whatever is listed as anything but usable */
    unsigned reserveds;
    struct phys_range module[MB2_MAX_MODULES];
    unsigned modules;
    struct phys_range symbols,
        strings; /* the kernel's symbol table and its names; empty if not loaded */
};

/* NULL, or why the buffer is refused. size: bytes of the buffer that may be read; the
 * structure's own total must not exceed it. */
NODISCARD const char *mb2_parse(const void *buffer, size_t size, struct mb2_info *out);

/* Everything in it that must be left alone: what the firmware reserves, the modules, the symbol table
 * and its names; as listed, so overlapping, and ending within pages. Returns how many. */
unsigned mb2_reserved(const struct mb2_info *info, struct phys_range out[MB2_MAX_RESERVED]);

/* Sorted, disjoint, page-aligned, non-empty ranges that are in some usable and in no reserved
 * one. A page counts only if all of it is usable. At most max come out, the largest ones if
 * there are more. */
unsigned ranges_normalise(const struct phys_range *usable, unsigned usables,
                          const struct phys_range *reserved, unsigned reserveds,
                          struct phys_range *out, unsigned max);

#endif
