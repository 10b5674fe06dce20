/* mem_global.c: the singletons that mm/ and base/ do not have: the kernel's one heap, the effective
 * knobs, and what was refused on the way to them.
 *
 * Locking: none; each is written once by the platform's bring-up, before the second CPU runs.
 * Contexts: any. */
#include "kernel.h"

struct heap *kheap;
struct knobs knobs;
struct knob_refusals knob_refused;
