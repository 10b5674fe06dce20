/* yardstick.c: how fast a CPU is just now, whatever the allocator does.
 *
 * The host's other work shares the core with ours: on rented hardware threads the same code takes
 * up to 1.75 times as long for seconds at a time. So a fixed piece of work is timed on every CPU of
 * a round just before and just after its timed section, and the tool sets the round's time against
 * it (docs/STATISTICS.md). It must feel what a workload feels and be felt by nothing that an arm
 * changes: short functions called through a table, arithmetic, branches, loads and stores, all in a
 * few hundred bytes of stack and code; it allocates nothing and takes no lock.
 *
 * Of several slices the quickest counts: a neighbour slows them all, while a slice in which the
 * host ran something else on this CPU says nothing of the round.
 *
 * Locking: none. Contexts: thread, on each CPU of a round. */
#include "bench.h"

#define WORDS  64u /* of memory that the steps work on */
#define STEPS  16u
#define SLICES 5u
#define PASSES 4u /* over all steps between two looks at the clock */

typedef void (*step_fn)(u64 turn, u64 *memory);

/* Sixteen functions that differ in their constants, as much code as a slow path has. Nothing in
 * them waits for anything else, like a fast path: such code feels a neighbour most. */
#define STEP_FUNCTION(n)                                                                           \
    static NOINLINE void step_##n(u64 turn, u64 *memory)                                           \
    {                                                                                              \
        u64 at = turn + 5 * (n);                                                                   \
                                                                                                   \
        memory[at % WORDS] += turn;                                                                \
        memory[(at + 17) % WORDS] ^= turn << (n);                                                  \
        if (memory[(at + 31) % WORDS] != at)                                                       \
            memory[(at + 32) % WORDS] = at;                                                        \
        if (turn % 8 == (n) % 8)                                                                   \
            memory[n] = turn;                                                                      \
    }
STEP_FUNCTION(0)
STEP_FUNCTION(1)
STEP_FUNCTION(2)
STEP_FUNCTION(3)
STEP_FUNCTION(4)
STEP_FUNCTION(5)
STEP_FUNCTION(6)
STEP_FUNCTION(7)
STEP_FUNCTION(8)
STEP_FUNCTION(9)
STEP_FUNCTION(10)
STEP_FUNCTION(11)
STEP_FUNCTION(12)
STEP_FUNCTION(13)
STEP_FUNCTION(14)
STEP_FUNCTION(15)

static const step_fn steps[STEPS] = {step_0,  step_1,  step_2,  step_3, step_4,  step_5,
                                     step_6,  step_7,  step_8,  step_9, step_10, step_11,
                                     step_12, step_13, step_14, step_15};

static u64 ticks_of_a_slice(u64 duration, u64 *memory)
{
    u64 done = 0, start = plat_cycles(), now;

    do {
        for (unsigned i = 0; i < PASSES * STEPS; i++)
            steps[i % STEPS](done + i, memory);
        done += PASSES * STEPS;
        now = plat_cycles();
    } while (now - start < duration);
    return (now - start) * YARDSTICK_STEPS / done;
}

u64 yardstick_ticks(u64 duration)
{
    u64 memory[WORDS] = {0}, least = ~(u64)0;

    for (unsigned i = 0; i < SLICES; i++)
        least = MIN(least, ticks_of_a_slice(duration / SLICES, memory));
    return least;
}
