/* use_malloc.h: included before each workload of runner-malloc: what the loops call kmalloc and
 * kfree becomes the process's malloc and free, whoever provides them.
 *
 * A macro, so that a loop calls the rival itself, as a program would: by one indirect call through
 * the linker's table (-fno-plt), as Hayloft's loops have one through the heap. The builtins are switched
 * off (-fno-builtin), else the compiler may remove an allocation that it can see the free of.
 *
 * Locking: none. Contexts: workloads. */
#ifndef TESTS_RIVALS_USE_MALLOC_H
#define TESTS_RIVALS_USE_MALLOC_H

#include <stdlib.h>

#include "../../mm/mm.h" /* declares what the macros replace */

#define heap_kmalloc(heap, size) ((void)(heap), malloc(size))
#define heap_kfree(heap, p)      ((void)(heap), free(p), true)

#endif
