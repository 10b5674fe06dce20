/* hooks.c: the kernel's own counter rows, and the hooks that only one of the two platforms fills
 * in.
 *
 * The rows are static, 64 of them, so that counting works from the first instruction of
 * kernel_entry() on, before any memory is had and on a CPU that is not in the CPU table yet.
 *
 * Locking: none; see kernel.h for who writes what. Contexts: any. */
#include "kernel.h"

struct kernel_row kernel_rows[MAX_CPUS];
struct kernel_hooks kernel_hooks;
