/* probe.h: were the CPUs really parallel? */
#ifndef KERNEL_PROBE_H
#define KERNEL_PROBE_H

/* Measures and reports it. when: "before", "after", or the name of the test that has just run.
 * Thread context, CPU 0, outside timed sections. */
void probe_parallel(const char *when);

#endif
