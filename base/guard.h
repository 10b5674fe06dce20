/* guard.h: guards that tests must miss.
 *
 * Code that stands against something rare (a limit looked at under the lock, a second look after memory was
 * had, a flush before a free) looks the same whether it is needed or not, and so does a test that never meets
 * the case. So each such guard has a number here, and a line in tests/host/mutants.toml that names the test
 * which must fail without it. A build with -DMUTANT=n takes guard n out; `tools/check.py mutants` makes each
 * and fails if one survives.
 *
 *   GUARD(n, cond)       a condition that has to be asked: the mutant takes it to be true, unasked
 *   if (GUARD_STEP(n))   a step that has to be taken: the mutant leaves it out
 *
 * In every other build MUTANT is 0 and both are what they would be if they were not written. Guards that are
 * an atomic operation's atomicity, a lock or a flag are taken out by tests/host/model.c instead. */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#ifndef MUTANT
#define MUTANT 0
#endif

#define GUARD(n, cond) ((n) == MUTANT || (cond))
#define GUARD_STEP(n)  ((n) != MUTANT)

#endif
