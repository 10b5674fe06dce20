/* telemetry.h: the door of kernel/telemetry/: what the kernel says about itself while it runs, in
 * the format of docs/PROTOCOL.md.
 *
 * Every stream (one a CPU, and 255, the boot itself) has a ring of whole frames. Records are made
 * on the spot, in the ring's own buffers, under the ring's try-flag; one drain at a time moves
 * frames to the port. Memory is taken once, by telemetry_init(); nothing here takes a spinlock, so
 * every lock of the kernel may be held by whoever was interrupted by a sample.
 *
 * What is deliberately not here: a read path, compression, any interpretation of the numbers.
 *
 * Contexts, by function below. "Tick" is the timer interrupt of the CPU in question (metal), or the
 * one timer thread of the hosted machine, which serves all CPUs in turn: nothing here asks
 * plat_cpu_id() there. */
#ifndef KERNEL_TELEMETRY_H
#define KERNEL_TELEMETRY_H

#include "../kernel.h"

#define TELEMETRY_BOOT_STREAM 255u

/* Takes memory for the CPUs that plat_cpu_count() gives and makes the rings. CPU 0, thread context,
 * once, after the heap has its CPUs and before lab_run(). False: no memory. Before it, everything
 * below is a no-op (a panic is still sent). */
NODISCARD bool telemetry_init(void);

/* Samples one CPU if it is due and, for CPU 0, moves some bytes to the port. Cheap when nothing is
 * due, so it may be called at any rate from 20 Hz up. Metal: from each CPU's own tick, interrupts
 * off. Host: from the timer thread, for each CPU in turn. Calls for one CPU never overlap. */
void telemetry_tick(unsigned cpu);

/* Moves what the port takes now, at most `bytes`. Any context but NMI; no-op while another CPU does
 * it. */
void telemetry_drain(size_t bytes);

/* Waits until everything that was recorded has left. Thread context, CPU 0, outside timed
 * sections. */
void telemetry_flush(void);

/* -- records of the boot's own stream: lab thread on CPU 0, outside timed sections; they wait for
 * room -- */

void telemetry_hello(const struct bootinfo *info);
void telemetry_schema(void);
/* Names what exists and was not named yet: nodes, caches, locks. Samples leave out what has no name
 * yet. */
void telemetry_announce(void);
struct telemetry_shortage {
    u64 round;
    u64 asked, held, had; /* bytes: struct bench_shortage */
};
struct telemetry_test {
    unsigned id;
    const char *name, *unit;
    bool all_cpus;                             /* shape; else solo */
    unsigned cpus;                             /* on how many CPUs it runs */
    const char *skip;                          /* why it cannot run here, or no longer, or NULL */
    const struct telemetry_shortage *shortage; /* if memory ran out in it, or NULL */
};
/* Once before its first round, and again when its memory ran out. */
void telemetry_test(const struct telemetry_test *test);

/* Every value that changed since the last full sample, so that stream 255 alone tells what happened
 * between two of them. begins: a round begins, and now and then that tells every value. */
void telemetry_full_sample(bool begins);
void telemetry_bench_begin(unsigned test, u64 round);
void telemetry_bench_end(unsigned test, u64 round);
/* What telemetry has cost a CPU since boot. */
struct telemetry_cost {
    u64 cycles, bytes;
};
struct telemetry_cost telemetry_cost(unsigned cpu);
struct telemetry_part {
    unsigned cpu, ran_on;
    u64 operations, cycles, start_offset;
    u64 yardstick[2]; /* before and after the timed section; 0: not measured */
};
struct telemetry_result {
    unsigned test;
    u64 round, operations, cycles, wall;
    u64 counted[2], claimed[2]; /* allocations, frees */
    u64 n;                      /* batch size, or 0 */
    unsigned cpus;
    const struct telemetry_part *part;
    const struct telemetry_cost *cost; /* of every CPU, inside the timed section */
};
void telemetry_bench_result(const struct telemetry_result *result);
/* What latency=on and matrix=on saw in that round; nothing if they are off. observed.c */
void telemetry_observed(unsigned test, u64 round);

struct telemetry_value {
    const char *name;
    i64 value;
};
void telemetry_check(const char *name, const char *when, bool ok, const char *detail,
                     const struct telemetry_value *values, unsigned n);
void telemetry_bye(const char *outcome, const char *reason);

/* -- switches, lab thread on CPU 0 -- */

void telemetry_sampling(bool on); /* off at first; off also waits until no sample is being made */
void telemetry_timed(bool on);    /* inside a timed section: fewer samples, a tenth of the bytes */

/* -- any time -- */

/* An event on the calling CPU's stream; dropped and counted if its ring is full. Thread or
 * interrupt context, on a CPU (not the host's timer thread). Values are unsigned on the wire. text
 * is cut at 200 bytes and says so then; of the values 8 are kept, and the boot's account tells of the
 * others (LEFT_OUT_event_values). */
void telemetry_event(const char *kind, const char *text, const struct telemetry_value *values,
                     unsigned n);

/* Where console text shares the line (telemetry.port=com1) it must stand between frames: takes the
 * line there, for a few hundred bytes of text, and gives it back. False: a drain has it, try later.
 * Interrupts off, not NMI. */
NODISCARD bool telemetry_line_take(void);
void telemetry_line_give(void);

/* The last word of a boot that ends early: takes the port over from whoever has it, sends what the
 * rings hold and a bye. Polls for at most 2 s. Any context but NMI; nothing is sent after it. */
void telemetry_emergency_bye(const char *outcome, const char *reason);

struct telemetry_frame {
    u64 address;
    const char *symbol; /* or NULL */
    u64 offset;
};
struct telemetry_backtrace {
    unsigned cpu, frames;
    const struct telemetry_frame *frame;
};
struct telemetry_register {
    const char *name;
    u64 value;
};
struct telemetry_panic {
    const struct panic_info *info;
    struct telemetry_backtrace here; /* the CPU that panicked */
    const struct telemetry_register *reg;
    unsigned regs;
    const struct telemetry_backtrace
        *other; /* the other CPUs; what does not fit one frame is left out and counted */
    unsigned others;
};
/* Sends the panic record first and then what the rings hold, by polling, for at most 2 s. Any
 * context, NMI too, before telemetry_init() too; the caller sees to it that it runs once. Nothing
 * is sent after it. */
void telemetry_panic(const struct telemetry_panic *panic);

#endif
