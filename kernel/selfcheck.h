/* selfcheck.h: does the allocator do what it should, under the knobs of this boot? */
#ifndef KERNEL_SELFCHECK_H
#define KERNEL_SELFCHECK_H

#include "../base/types.h"

/* Runs everything; false: why (size bytes) says what was found first. Leaves the heap as it was,
 * but for bad frees that it provoked. Thread context, CPU 0, a quiet point. */
NODISCARD bool selfcheck_run(char *why, size_t size);

/* Bad frees so far that the self-check planted, and that the heap counted: a boot where they differ
 * has failed. */
u64 selfcheck_badfrees_expected(void);
u64 selfcheck_badfrees_counted(void);
/* True while a planted bad free is on its way. Any context. */
bool selfcheck_badfree_armed(void);

#endif
