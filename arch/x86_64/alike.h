/* alike.h: making a started CPU like CPU 0, and finding out whether it is. The CPU is reached through
 * functions, so that the same code is tested hosted, on a CPU played there. Private to arch/x86_64 and
 * its tests.
 *
 * Locking: none. Contexts: boot. */
#ifndef ARCH_X86_64_ALIKE_H
#define ARCH_X86_64_ALIKE_H

#include "x86.h"

#define ALIKE_VARIABLES 255u /* the most pairs that MTRRcap can tell of */
#define ALIKE_FIXED     11u
#define ALIKE_LEAVES    7u

/* The calling CPU's registers. */
struct alike_cpu {
    struct cpuid (*cpuid)(u32 leaf);
    u64 (*msr)(u32 msr);
    void (*msr_set)(u32 msr, u64 v);
    u64 (*control)(unsigned cr); /* CR0, CR3, CR4 */
    void (*control_set)(unsigned cr, u64 v);
    void (*write_back)(void); /* WBINVD */
};

/* What all CPUs must have alike. */
struct alike {
    struct cpuid leaf[ALIKE_LEAVES]; /* features only: masked */
    u64 cr0, cr4, efer, apic_base;
    u64 pat;                          /* 0: the CPU has none */
    u64 mtrr_cap;                     /* 0: the CPU has none */
    u64 mtrr_type;                    /* the default type, and whether they are on */
    u64 fixed[ALIKE_FIXED];           /* if mtrr_cap says that there are any */
    u64 variable[ALIKE_VARIABLES][2]; /* base, mask */
};

/* CPU 0, before any other is started. */
void alike_read(const struct alike_cpu *cpu, struct alike *out);
/* A started CPU, interrupts off, caches not yet on (CR0.CD): takes over what CPU 0 has, then looks whether
 * it has it. False: it differs, and trouble[] tells in what; caches may be off. */
NODISCARD bool alike_make(const struct alike_cpu *cpu, const struct alike *like, char *trouble,
                          size_t n);

#endif
