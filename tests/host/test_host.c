/* test_host.c: the hosted platform itself: CPUs that start together, a clock, panics with their
 * kind, and the sanitizer's eye on memory that the platform contract declared untouchable. */
#include "../../base/counters.h"
#include "test.h"

#include <sys/mman.h>
#include <unistd.h>

static u64 seen, calls; /* atomic */
static u64 row[MAX_CPUS];

static void note_cpu(void *arg)
{
    u64 bit = (u64)1 << plat_cpu_id();

    EXPECT(!(__atomic_fetch_or(&seen, bit, __ATOMIC_RELAXED) & bit));
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    EXPECT_EQ(arg, (void *)&seen);
}

TEST(every_chosen_cpu_runs_once)
{
    static const u64 masks[] = {1, 2, 3, 4, 5, 0x16, 0x1f};

    host_test_cpus(5);
    EXPECT_EQ(plat_cpu_count(), 5u);
    EXPECT_EQ(plat_cpu_id(), 0u);
    for (unsigned round = 0; round < test_scale(400); round++) {
        u64 mask = masks[round % ARRAY_SIZE(masks)];

        seen = calls = 0;
        plat_run_on_cpus(mask, note_cpu, &seen);
        EXPECT_EQ(seen, mask);
        EXPECT_EQ(calls, (u64)__builtin_popcountll(mask));
    }
    host_test_cpus(2); /* fewer again */
    EXPECT_EQ(plat_all_cpus(), 3u);
}

static void count_many(void *arg)
{
    u64 *mine = &row[plat_cpu_id()];

    for (u64 i = 0; i < *(u64 *)arg; i++)
        plat_counter_add(mine, i & 3);
}

TEST(counters_count_on_their_own_row)
{
    u64 n = test_scale(4) * 100000ull, want = 0;

    memset(row, 0, sizeof(row));
    host_test_cpus(3);
    for (u64 i = 0; i < n; i++)
        want += i & 3;
    plat_run_on_cpus(plat_all_cpus(), count_many, &n);
    for (unsigned cpu = 0; cpu < 3; cpu++)
        EXPECT_EQ(counter_read(&row[cpu]), want);
}

TEST(the_clock_runs_at_its_frequency)
{
    u64 start = plat_cycles(), hz = plat_cycles_hz(), ticks;

    EXPECT_GT(hz, 100000000u);
    EXPECT_LT(hz, 10000000000u);
    EXPECT_EQ(hz, plat_cycles_hz());
    start = plat_cycles();
    plat_sleep_ns(20000000);
    ticks = plat_cycles() - start;
    EXPECT_GE(ticks, hz / 1000 * 20 - hz / 10000);
    EXPECT_LT(ticks, hz * 5); /* a busy machine oversleeps, but not for seconds */
}

static u64 timer_calls; /* atomic */

static void on_timer(void *arg)
{
    __atomic_add_fetch((u64 *)arg, 1, __ATOMIC_RELAXED);
}

TEST(the_timer_thread_ticks)
{
    REQUIRE(host_timer_start(1000000, on_timer, &timer_calls));
    for (unsigned i = 0; i < 2000 && __atomic_load_n(&timer_calls, __ATOMIC_RELAXED) < 3; i++)
        plat_sleep_ns(1000000);
    EXPECT_GE(__atomic_load_n(&timer_calls, __ATOMIC_RELAXED), 3u);
}

static void fail_check(void *arg)
{
    CHECK_VALUES(arg != NULL, 1, 2);
}

static void panic_provoked(void *arg)
{
    (void)arg;
    PANIC(PANIC_provoked, "for this test", 0, 0);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void die(void *arg)
{
    (void)arg;
    _exit(7);
}

static void run_on_absent_cpu(void *arg)
{
    plat_run_on_cpus(1u << 20, nothing, arg);
}

TEST(a_panic_is_known_by_its_kind)
{
    EXPECT_EQ(test_panic_of(fail_check, NULL), (unsigned)PANIC_check_failed);
    EXPECT_EQ(test_panic_of(fail_check, &seen), (unsigned)PANIC_NONE);
    EXPECT_EQ(test_panic_of(panic_provoked, NULL), (unsigned)PANIC_provoked);
    EXPECT_EQ(test_panic_of(nothing, NULL), (unsigned)PANIC_NONE);
    EXPECT_EQ(test_panic_of(die, NULL), (unsigned)NR_PANIC_KINDS);
    EXPECT_EQ(test_panic_of(run_on_absent_cpu, NULL), (unsigned)PANIC_check_failed);
}

static char panic_output[4096];

/* In the child: a real panic, its console in a pipe that the parent reads. */
static void panic_to_pipe(void *arg)
{
    host_panic_handler_set(NULL);
    host_console_set(*(int *)arg);
    PANIC(PANIC_provoked, "said aloud", 0xabc, 7);
}

TEST(a_panic_says_one_machine_readable_line)
{
    int fd[2];
    ssize_t n;

    REQUIRE(pipe(fd) == 0);
    EXPECT_EQ(test_panic_of(panic_to_pipe, &fd[1]), (unsigned)NR_PANIC_KINDS); /* status 35 */
    close(fd[1]);
    n = read(fd[0], panic_output, sizeof(panic_output) - 1);
    close(fd[0]);
    REQUIRE(n > 0);
    EXPECT_EQ(strncmp(panic_output, "\nHAYLOFT-PANIC kind=", 20), 0);
    EXPECT(strstr(panic_output, "name=provoked"));
    EXPECT(strstr(panic_output, "v0=0xabc v1=0x7"));
    EXPECT(strstr(panic_output, "panic_to_pipe+")); /* the backtrace */
    EXPECT(strstr(panic_output, "test_host.c"));
}

/* -- poisoning inside one mmap, where the sanitizer knows nothing by itself -- */

static u8 *arena(void)
{
    return mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void write_poisoned(void *arg)
{
    u8 *p = arena();

    plat_poison(p + 64, 64);
    *(volatile u8 *)(p + *(size_t *)arg) = 1;
}

static void write_unpoisoned(void *arg)
{
    u8 *p = arena();

    plat_poison(p, PAGE_SIZE);
    plat_unpoison(p + 64, 64);
    *(volatile u8 *)(p + *(size_t *)arg) = 1;
}

TEST(a_planted_overrun_is_caught)
{
    size_t in = 64, before = 63, after = 128;

    /* Without the sanitizer the contract is a no-op: nothing may be reported. */
    EXPECT_EQ(test_asan_catches(write_poisoned, &in), test_has_asan());
    EXPECT(!test_asan_catches(write_poisoned, &before));
    EXPECT(!test_asan_catches(write_poisoned, &after));
    EXPECT(!test_asan_catches(write_unpoisoned, &in));
    EXPECT_EQ(test_asan_catches(write_unpoisoned, &before), test_has_asan());
    EXPECT_EQ(test_asan_catches(write_unpoisoned, &after), test_has_asan());
}
