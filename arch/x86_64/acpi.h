/* acpi.h: which CPUs and which clocks the firmware lists, read out of the ACPI tables through a function
 * that lends bytes, so that the same code is tested and fuzzed hosted. Private to arch/x86_64 and its tests.
 *
 * Locking: none. Contexts: boot. */
#ifndef ARCH_X86_64_ACPI_H
#define ARCH_X86_64_ACPI_H

#include "../../base/types.h"

/* Lends bytes [phys, phys + n), or says NULL if they are not all readable. */
struct acpi_memory {
    const u8 *(*lend)(void *ctx, u64 phys, size_t n);
    void *ctx;
};

#define ACPI_XAPIC_IDS 255u /* 0 to 254 */

struct acpi_cpus {
    u32 apic_id[ACPI_XAPIC_IDS]; /* enabled, in the table's order, each once */
    unsigned count;
    unsigned disabled; /* entries not counted: not enabled */
    unsigned
        unreachable; /* entries not counted: enabled, with ids that xAPIC mode cannot send to */
    u64 lapic;       /* physical address of the local APICs */
};

/* Beside the PIT: 0 where there is none. */
struct acpi_clocks {
    u64 hpet;     /* physical address of its registers */
    u16 pm_port;  /* the power management timer's */
    bool pm_wide; /* it counts 32 bits, not 24 */
};

/* NULL, or why there is no list. rsdp: the root pointer structure, a copy will do. */
NODISCARD const char *acpi_cpus(const u8 *rsdp, size_t rsdp_bytes, const struct acpi_memory *m,
                                struct acpi_cpus *out);
void acpi_clocks(const u8 *rsdp, size_t rsdp_bytes, const struct acpi_memory *m,
                 struct acpi_clocks *out);

#endif
