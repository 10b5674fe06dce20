/* test.h: the frame of the hosted unit tests. A test file holds TEST(name) { … } bodies; harness.c
 * brings main(), which runs them in order, says what failed and where, prints "N passed, N failed"
 * and exits non-zero if anything failed. Arguments: names (substrings) of tests to run; --seed N.
 *
 * EXPECT_* notes a failure and goes on, REQUIRE ends the function it stands in. Both may be used on
 * any CPU of plat_run_on_cpus(). A test that checks nothing fails: it could not have found
 * anything.
 *
 * Locking: counts are atomic. Contexts: any CPU thread; TEST bodies run on CPU 0. */
#ifndef TESTS_HOST_TEST_H
#define TESTS_HOST_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/check.h"
#include "../../base/host.h"

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};
void test_register(struct test *t);
void test_checked(void);
void test_failed(const char *file, int line, const char *text) COLD;
void test_failed_values(const char *file, int line, const char *text, u64 a, u64 b) COLD;
void test_failed_text(const char *file, int line, const char *text, const char *a,
                      const char *b) COLD;

/* Gives the test n CPUs (plat_cpu_count() and plat_run_on_cpus() follow). Each test starts with
 * 1. */
void host_test_cpus(unsigned n);
/* The heap that CPUs serve when another asks them to drain their arrays; NULL: none. CPUs other than 0 have
 * no work. */
struct heap;
void host_test_heap(struct heap *h);
/* How much work a stress test should do: full, less where a sanitizer makes each step dear. */
unsigned test_scale(unsigned full);
u64 test_seed(void);
bool test_seed_given(void);               /* by --seed */
static inline u64 test_random(u64 *state) /* xorshift64*; state != 0 */
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}
/* Runs fn(arg) in a child process; returns the kind of the panic that ended it, PANIC_NONE if it
 * returned, NR_PANIC_KINDS if it died of something else (a signal, a sanitizer's report). */
unsigned test_panic_of(void (*fn)(void *arg), void *arg);
/* The same for a sanitizer: true if fn's child was ended by an AddressSanitizer report. Only where
 * built in. */
bool test_asan_catches(void (*fn)(void *arg), void *arg);
bool test_has_asan(void);

#define TEST(id)                                                                                   \
    static void test_##id(void);                                                                   \
    static struct test test_entry_##id = {.name = #id, .run = test_##id};                          \
    __attribute__((constructor)) static void test_enter_##id(void)                                 \
    {                                                                                              \
        test_register(&test_entry_##id);                                                           \
    }                                                                                              \
    static void test_##id(void)

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        test_checked();                                                                            \
        if (unlikely(!(cond)))                                                                     \
            test_failed(__FILE__, __LINE__, #cond);                                                \
    } while (0)

#define EXPECT_OP(a, op, b)                                                                        \
    do {                                                                                           \
        __typeof__(a) expect_a_ = (a);                                                             \
        __typeof__(b) expect_b_ = (b);                                                             \
        test_checked();                                                                            \
        if (unlikely(!(expect_a_ op expect_b_)))                                                   \
            test_failed_values(__FILE__, __LINE__, #a " " #op " " #b, (u64)expect_a_,              \
                               (u64)expect_b_);                                                    \
    } while (0)
#define EXPECT_EQ(a, b) EXPECT_OP(a, ==, b)
#define EXPECT_NE(a, b) EXPECT_OP(a, !=, b)
#define EXPECT_LT(a, b) EXPECT_OP(a, <, b)
#define EXPECT_LE(a, b) EXPECT_OP(a, <=, b)
#define EXPECT_GT(a, b) EXPECT_OP(a, >, b)
#define EXPECT_GE(a, b) EXPECT_OP(a, >=, b)
#define EXPECT_NULL(p)  EXPECT((p) == NULL)
#define EXPECT_TRUE(c)  EXPECT(c)
#define EXPECT_FALSE(c) EXPECT(!(c))

#define EXPECT_STR(a, b)                                                                           \
    do {                                                                                           \
        const char *expect_a_ = (a), *expect_b_ = (b);                                             \
        test_checked();                                                                            \
        if (unlikely(strcmp(expect_a_, expect_b_) != 0))                                           \
            test_failed_text(__FILE__, __LINE__, #a " is " #b, expect_a_, expect_b_);              \
    } while (0)

#define EXPECT_MEM(a, b, n)                                                                        \
    do {                                                                                           \
        test_checked();                                                                            \
        if (unlikely(memcmp((a), (b), (n)) != 0))                                                  \
            test_failed(__FILE__, __LINE__, #a " holds the bytes of " #b);                         \
    } while (0)

#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        test_checked();                                                                            \
        if (unlikely(!(cond))) {                                                                   \
            test_failed(__FILE__, __LINE__, #cond);                                                \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
