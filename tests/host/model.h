/* model.h: runs a few CPUs of the real allocator in every order of their atomic steps. See model.c. */
#ifndef TESTS_HOST_MODEL_H
#define TESTS_HOST_MODEL_H

#include "../../mm/mm_impl.h"

#define MODEL_CPUS 3u

/* A guard that is taken out, to see that its loss is noticed: on the words that guarded() names. */
enum mutant {
    MUTANT_NONE,
    MUTANT_SPLIT,  /* a read-modify-write becomes a read and, later, a write */
    MUTANT_IGNORE, /* an exchange always finds 0: whoever asks for the lock or flag has it */
};

struct model {
    const char *name;
    const char *knobs;
    unsigned cpus;
    unsigned preemptions; /* at most so many switches away from a CPU that could go on */
    void (*setup)(void);  /* once: the heap as it is when they start. CPU 0 */
    void (*cpu[MODEL_CPUS])(void);
    void (*check)(void); /* after each run: says model_fail() if something is wrong */
    enum mutant mutant;
    bool (*guarded)(const volatile void *p); /* what the mutant is about */
};

extern struct heap *model_heap;
/* What the CPUs of this run have to say to its check; zeroed before each. */
extern struct model_run {
    bool ok[MODEL_CPUS];
    void *got[MODEL_CPUS];
    u32 over; /* atomic: CPUs that have what they wanted, or not */
} model_run;

struct model_result {
    bool failed;
    char why[200];
    u64 schedules, steps;
    unsigned words; /* that more than one CPU uses, one of them writing */
    bool complete;  /* every order within the bound was run */
};
/* Runs all orders, or until one fails; at most limit schedules. In a child of its own, since a run
 * that fails leaves locks held. trace: print the order that failed. */
void model_explore(const struct model *m, u64 limit, bool trace, struct model_result *r);
/* Ends this run, and the exploration. */
NORETURN void model_fail(const char *why);
#define MODEL_EXPECT(cond)                                                                         \
    do {                                                                                           \
        if (!(cond))                                                                               \
            model_fail(#cond);                                                                     \
    } while (0)
#endif
