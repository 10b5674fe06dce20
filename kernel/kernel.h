/* kernel.h: the door of kernel/: the one heap, the effective knobs, and what the workloads may
 * use. Code that also runs hosted (knobs, telemetry, bench, lab) includes nothing from
 * base/machine.h. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <stdarg.h>

#include "../base/bootinfo.h"
#include "../mm/mm.h"

extern struct heap *kheap; /* kernel/mem_global.c */
extern struct knobs knobs; /* kernel/mem_global.c; effective values, read-only after boot */
extern struct knob_refusals knob_refused;

static ALWAYS_INLINE void *kmalloc(size_t size)
{
    return heap_kmalloc(kheap, size);
}
static ALWAYS_INLINE bool kfree(void *p)
{
    return heap_kfree(kheap, p);
}
static ALWAYS_INLINE bool kfree_rcu(void *p, struct rcu_head *head)
{
    return heap_kfree_rcu(kheap, p, head);
}

/* -- too little memory to come up (kernel/mem_global.c) -- */

/* Usable memory that is enough to boot, to self-check and to end well, and below which it is not even
 * tried: so what a small machine says is always the same. tests/boot holds it to that. */
u64 memory_enough(unsigned cpus_found);
/* What is to be said, in one sentence that is true, where memory ran out all the same. */
struct memory_refusal {
    char reason[96];
    const char *of_have; /* what `have` is */
    u64 have, need;      /* bytes; have < need */
};
/* usable: bytes there are. what: for which a block of so many bytes was not to be had; the heap exists. */
void memory_refusal(struct memory_refusal *r, u64 usable, const char *what, u64 bytes);

/* -- per-CPU counters of the kernel itself (scope cpu; kernel/hooks.c)
 * --------------------------------- */

/* Written by its CPU alone (an interrupt on it included), read by any with a relaxed load. mm's
 * cpu counters are in heap_cpu_row(): a counter has a value in one of the two rows and 0 in the
 * other. */
struct kernel_row {
    u64 ctr[NR_CPU_COUNTERS];
} ALIGNED(256); /* a power of two: a CPU's row is one shift away */
extern struct kernel_row kernel_rows[MAX_CPUS];

static ALWAYS_INLINE const u64 *kernel_cpu_row(unsigned cpu)
{
    return kernel_rows[cpu].ctr;
}
/* Adds to the calling CPU's row. The caller cannot migrate (all threads are pinned). */
static ALWAYS_INLINE void kernel_count(enum cpu_counter counter, u64 value)
{
    plat_counter_add(&kernel_rows[plat_cpu_id()].ctr[counter], value);
}

/* -- what only one of the two platforms has: NULL where it is missing; set at boot, read-only
 * after ----- */
struct kernel_hooks {
    unsigned tick_hz;       /* timer interrupts a second on each CPU; 0: none */
    void (*yield)(void);    /* gives the CPU to another thread that is ready on it, if any */
    void (*quiet)(bool on); /* stops (true) or restarts the calling CPU's tick; thread context */
    void (*reset)(void);    /* resets the machine at once, without a word */
    bool cpus_run_on;       /* in a panic or at the deadline: no CPU can stop another */
    void (*hold_console)(void); /* takes the console's lock for good, interrupts off; for a fault */
};
extern struct kernel_hooks kernel_hooks; /* kernel/hooks.c */

/* One line of text for the console, without the newline. Thread and interrupt context; never on an
 * allocation path. kernel/console.c; kernel/host_main.c */
void klog(const char *format, ...) PRINTF(1, 2);
#define LOG_LINE_MAX 320
/* Makes that line in line[LOG_LINE_MAX]: "[    1.234567 cpu2] text\n", with a mark where it was cut. us: since
 * boot. Returns its length. kernel/tell.c */
size_t klog_line(char *line, u64 us, const char *format, va_list args) PRINTF(3, 0);

/* One line for each kind of what this boot left out (base/leftout.h), of which the console has not been told,
 * or not of so much. Thread context or boot, CPU 0. kernel/tell.c */
void left_out_tell(void);

/* Fills in knobs and knob_refused. hosted: knobs and faults that need interrupts are refused. cpus: that
 * there are. Boot, once. kernel/arguments.c */
void arguments_read(const char *line, bool hosted, unsigned cpus);
/* Refuses a provoke= that this machine cannot do: nothing that was asked for is left undone in silence.
 * Once as above, and once more when it is known which CPUs run. */
void arguments_check_provoke(unsigned cpus);

/* provoke=: faults for tests. kernel/provoke.c */
enum provoke_stage {
    PROVOKE_EARLY, /* the machine's tables exist, the heap's CPU rows and the CPU count do not yet */
    PROVOKE_LAB,   /* hello was sent, nothing measured yet; thread context, CPU 0 */
};
/* NULL, or why provoke=text cannot be done here, where so many CPUs are listed and at most so many run. */
NODISCARD const char *provoke_refusal(const char *text, unsigned listed, unsigned most);
/* Does what provoke= asks for at this stage, if anything. */
void provoke_at(enum provoke_stage stage);
/* True if provoke=what was given; for the faults that somebody else plants (badfree, selfcheck). */
bool provoke_is(const char *what);
/* provoke=absent-cpu: the firmware lists, in second place, a CPU that does not exist. */
void provoke_absent_cpu(struct bootinfo *info);

/* The laboratory session of one boot, the same on both platforms: hello, schema, objects,
 * self-check, tests, bye. Thread context, CPU 0. Returns how the machine should end. kernel/lab.c
 * */
enum plat_exit lab_run(const struct bootinfo *info);

#endif
