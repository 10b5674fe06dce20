/* host_impl.h: what the files of arch/host share. */
#ifndef ARCH_HOST_HOST_IMPL_H
#define ARCH_HOST_HOST_IMPL_H

#include "../../base/types.h"

/* fault.c */
void host_fault_init(void);             /* CPU 0, before anything that may fault */
void host_fault_cpu_init(unsigned cpu); /* each CPU's own thread, first thing */
/* io.c: where the next panic's backtrace starts, instead of at its caller. Set by the panicking
 * thread. */
void host_backtrace_from(u64 frame, u64 ip);

#endif
