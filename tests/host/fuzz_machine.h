/* fuzz_machine.h: the machine that fuzz_heap.c plays with, as the first bytes of its input want it. */
#ifndef TESTS_HOST_FUZZ_MACHINE_H
#define TESTS_HOST_FUZZ_MACHINE_H

#include "shadow.h"

#define AREA_BYTES ((size_t)10 << 20)
#define TYPED      6u
#define STALE      16u

extern struct fuzz_machine {
    const u8 *in, *end;
    struct heap *h;
    struct shadow s;
    struct knobs knobs;
    unsigned cpus; /* that it will have */
    struct kmem_cache *typed[TYPED];
    u64 constructed, destructed;
    void *stale[STALE];
    unsigned stale_at;
    u64 pages_at_start, tables; /* pages; tables: what the heap keeps for itself since */
    u8 seed;
    unsigned reports;
    struct badfree_report report;
} z;

static inline u8 take(void)
{
    return z.in < z.end ? *z.in++ : 0;
}

static inline u32 take16(void)
{
    u32 low = take();

    return low | (u32)take() << 8;
}

/* Where its memory lies: AREA_BYTES. */
char *machine_area(void);
/* Begins anew. False: the memory chosen is too small. */
bool machine_boot(void);
/* Gives it its CPUs, unless it has them or is short of memory. */
void machine_boot_cpus(void);
/* Pages that hold so many bytes of a table. */
u64 machine_table_pages(size_t bytes);
/* That the cache holds, of all nodes. */
u64 machine_slabs(const struct kmem_cache *c);
/* Takes its locks out of the register. */
void machine_off(void);

#endif
