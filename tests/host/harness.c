/* harness.c: main() of the hosted unit tests; see test.h.
 *
 * A test that needs a panic to happen runs it in a forked child, because a panic ends its process;
 * the child's panic handler turns the kind into an exit status. The child is single-threaded, so
 * only what CPU 0 does can be tested that way.
 *
 * Locking: counts are atomic. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../mm/mm.h"
#include "test.h"

#define PANIC_STATUS 100 /* + kind: the exit status of a child that panicked */
#define ASAN_STATUS  99  /* of a child that AddressSanitizer ended */

static struct test *first, **last = &first;
static u64 checks, failures; /* atomic: of the running test */
static u64 seed = 1;
static bool seed_given;

void test_register(struct test *t)
{
    *last = t;
    last = &t->next;
}

void test_checked(void)
{
    __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
}

/* Says the first few only: one broken invariant in a loop should not bury the others. */
static bool count_failure(void)
{
    return __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) <= 10;
}

void test_failed(const char *file, int line, const char *text)
{
    if (count_failure())
        printf("%s:%d: expected %s\n", file, line, text);
}

void test_failed_values(const char *file, int line, const char *text, u64 a, u64 b)
{
    if (count_failure())
        printf("%s:%d: expected %s, got %lld (0x%llx) and %lld (0x%llx)\n", file, line, text,
               (long long)a, (unsigned long long)a, (long long)b, (unsigned long long)b);
}

void test_failed_text(const char *file, int line, const char *text, const char *a, const char *b)
{
    if (count_failure())
        printf("%s:%d: expected %s, got \"%s\" and \"%s\"\n", file, line, text, a, b);
}

/* As kernel/host_main.c does, but that callbacks wait for a test to let them run. */
static void cpu_idle(bool idle)
{
    if (idle)
        rcu_idle_enter();
    else
        rcu_idle_exit();
}

static struct heap *served; /* atomic */

static void serve_drain(void)
{
    heap_drain_serve(__atomic_load_n(&served, __ATOMIC_ACQUIRE));
}

static void nothing(void *arg)
{
    (void)arg;
}

void host_test_heap(struct heap *h)
{
    __atomic_store_n(&served, h, __ATOMIC_RELEASE);
    host_kick_handler_set(h ? serve_drain : NULL);
    if (!h) /* whoever is at it is done before it takes a job */
        plat_run_on_cpus(plat_all_cpus(), nothing, NULL);
}

void host_test_cpus(unsigned n)
{
    if (!host_cpus_start(n)) {
        printf("cannot start %u CPU threads\n", n);
        exit(2);
    }
}

unsigned test_scale(unsigned full)
{
#ifdef HOST_TSAN
    unsigned n = full / 8;
#elif defined(HOST_ASAN)
    unsigned n = full / 2;
#else
    unsigned n = full;
#endif
    return n ? n : 1;
}

u64 test_seed(void)
{
    return seed;
}

bool test_seed_given(void)
{
    return seed_given;
}

bool test_has_asan(void)
{
#ifdef HOST_ASAN
    return true;
#else
    return false;
#endif
}

#ifdef HOST_ASAN
/* The sanitizer asks for its options here: a status of its own tells its reports from other
 * ends. */
const char *__asan_default_options(void); // NOLINT
const char *__asan_default_options(void)  // NOLINT
{
    return "exitcode=99:detect_stack_use_after_return=0";
}
#endif

static void panic_to_status(const struct panic_info *info, const u64 *addr, unsigned n)
{
    (void)addr;
    (void)n;
    _exit(PANIC_STATUS + (int)info->kind);
}

/* The status of a child that ran fn(arg): 0 if it returned, -1 for a signal. Its output is thrown
 * away. */
static int status_of(void (*fn)(void *arg), void *arg)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child < 0) {
        perror("fork");
        exit(2);
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        host_console_set(-1);
        host_panic_handler_set(panic_to_status);
        fn(arg);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

unsigned test_panic_of(void (*fn)(void *arg), void *arg)
{
    int status = status_of(fn, arg);

    if (status == 0)
        return PANIC_NONE;
    if (status >= PANIC_STATUS && status < PANIC_STATUS + (int)NR_PANIC_KINDS)
        return (unsigned)(status - PANIC_STATUS);
    return NR_PANIC_KINDS;
}

bool test_asan_catches(void (*fn)(void *arg), void *arg)
{
    return status_of(fn, arg) == ASAN_STATUS;
}

/* True if it passed. */
static bool run(struct test *t)
{
    u64 failed;

    __atomic_store_n(&checks, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&failures, 0, __ATOMIC_RELAXED);
    host_test_cpus(1);
    t->run();
    failed = __atomic_load_n(&failures, __ATOMIC_RELAXED);
    if (!failed && !__atomic_load_n(&checks, __ATOMIC_RELAXED)) {
        test_failed(t->name, 0, "at least one check");
        failed = 1;
    }
    printf("%s %s\n", failed ? "FAILED" : "ok    ", t->name);
    return !failed;
}

int main(int argc, char **argv)
{
    unsigned passed = 0, failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    rcu_init();
    host_idle_handler_set(cpu_idle);
    rcu_set_quiescent_handler(serve_drain);
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "--seed")) {
            seed = strtoull(argv[i + 1], NULL, 0);
            seed += seed == 0;
            seed_given = true;
            argv[i] = argv[i + 1] = NULL;
            i++;
        }
    }
    for (struct test *t = first; t; t = t->next) {
        bool named = false, chosen = false;

        for (int i = 1; i < argc; i++) {
            named |= argv[i] != NULL;
            chosen |= argv[i] && strstr(t->name, argv[i]);
        }
        if (named && !chosen)
            continue;
        if (run(t))
            passed++;
        else
            failed++;
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed;
}
