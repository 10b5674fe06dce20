/* sim_plat.h: the one thing that a driver of sim_plat.c may choose. */
#ifndef TESTS_HOST_SIM_PLAT_H
#define TESTS_HOST_SIM_PLAT_H

/* What plat_kick() makes the other CPU call, at once, as the interrupt does that it is on metal. NULL:
 * nobody answers, so nobody may wait. */
extern void (*sim_kick_handler)(void);

#endif
