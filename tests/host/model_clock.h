/* model_clock.h: included before all else in the variant `model`: the clock is the model checker's own, so
 * that a run does not depend on how long the machine was busy with something else. model.c */
unsigned long long model_rdtscp(unsigned *aux);
#define __builtin_ia32_rdtscp model_rdtscp
