/* remake.h: caches that come and go while memory is short elsewhere. kernel/remake.c */
#ifndef KERNEL_REMAKE_H
#define KERNEL_REMAKE_H

#include "../base/types.h"

struct remake_result {
    u64 rounds;      /* that were made */
    u64 objects;     /* that had been had from the caches */
    u64 shortages;   /* times that another CPU was told that there is no page */
    const char *why; /* NULL: all was as it should be */
    u64 value;       /* with why */
};

/* CPU 0 makes a cache, uses it and destroys it, and makes it again with another geometry, `rounds` times, while
 * the other CPUs take pages until there are none, again and again. visitor, if not NULL, is what the last CPU
 * does all the time instead. Then the heap is looked at. Thread context on CPU 0; needs two CPUs. */
struct remake_result remake_stress(u64 rounds, void (*visitor)(void));

#endif
