/* model_programs.h: what the lists of programs for the model checker share. test_model.c asks them all. */
#ifndef TESTS_HOST_MODEL_PROGRAMS_H
#define TESTS_HOST_MODEL_PROGRAMS_H

#include "model.h"
#include "sim_plat.h"

#define h model_heap

struct models {
    const struct model *at;
    unsigned count;
};
extern const struct models
    life_models; /* model_life.c: caches that are destroyed, and made again */
extern const struct models
    shortage_models; /* model_shortage.c: memory that is on its way while a call looks */

/* test_model.c */
void model_whole(void);                       /* heap_validate(), or the run has failed */
u64 model_in_use(const struct kmem_cache *c); /* and its books are right */
u64 model_badfrees(void);                     /* of every kind */
/* For a CPU that is asked for what it holds: answers until so many calls are over (model_run.over). */
void model_serve(unsigned calls);

#endif
