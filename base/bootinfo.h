/* bootinfo.h: what a platform hands up at boot. All pointers are kernel virtual and stay valid.
 * Filled by arch/ (from multiboot2 and ACPI on metal, from options on the host), read by kernel/.
 *
 * Locking: none, read-only after kernel_entry(). */
#ifndef BASE_BOOTINFO_H
#define BASE_BOOTINFO_H

#include "types.h"

/* Maps of real firmware were seen with some 300 entries. A platform that has more keeps the largest, and
 * says what it left out. */
#define BOOT_MAX_RANGES 2048

struct boot_range {
    void *base; /* page aligned, in the direct map; sorted, disjoint, free to use */
    u64 pages;
};

struct boot_cpu {
    u32 apic_id;
    i64 tsc_skew; /* cycles by which this CPU's clock leads CPU 0's, measured once started */
    bool started;
    const char *trouble; /* why it was left out; NULL: it runs, or was not wanted */
};

struct bootinfo {
    const char *platform; /* "x86_64" | "host" */
    const char *args;     /* the whole argument line, NUL ended */
    struct boot_range range[BOOT_MAX_RANGES];
    unsigned ranges;
    u64 memory_bytes;    /* sum of the ranges */
    unsigned cpus_found; /* enabled CPUs that the firmware lists, however many */
    unsigned cpus;       /* of them those in cpu[], which can be started; CPU 0 is the first */
    struct boot_cpu cpu[MAX_CPUS];
    u64 cycles_hz;
    u64 cycles_error; /* by which cycles_hz may be off, as measured; 0: it was told */
    bool cycles_invariant;
    bool flags_fault;        /* cmpxchg leaves wrong flags (QEMU 7.2 TCG) */
    const char *hypervisor;  /* "TCG", "KVM", … from CPUID, or "" */
    const char *clock;       /* what the rate of the cycles is known from; "" on the host */
    const char *unfit;       /* why this machine is refused; NULL: it is not */
    const char *cpus_why;    /* why cpu[] has not all that were found; NULL: it has */
    const char *cpus_unread; /* why the firmware's list could not be read; NULL: it could */
};

#endif
