/* kernel.h: the door of kernel/: the one heap, the effective knobs, and what the workloads may use. Code that
 * also runs hosted (knobs, telemetry, bench, lab) includes nothing from base/machine.h. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "../base/bootinfo.h"
#include "../mm/mm.h"

extern struct heap *kheap;         /* kernel/mem_global.c */
extern struct knobs knobs;         /* kernel/mem_global.c; effective values, read-only after boot */
extern struct knob_refusals knob_refused;

static ALWAYS_INLINE void *kmalloc(size_t size)
{
    return heap_kmalloc(kheap, size);
}
static ALWAYS_INLINE bool kfree(void *p)
{
    return heap_kfree(kheap, p);
}

/* The laboratory session of one boot, the same on both platforms: hello, schema, objects, self-check, tests,
 * bye. Thread context, CPU 0. Returns how the machine should end. kernel/lab.c */
enum plat_exit lab_run(const struct bootinfo *info);

#endif
