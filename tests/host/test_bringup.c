/* test_bringup.c: memory that runs out while the kernel comes up, at the first page block that it asks for, at the
 * second, and so on until it says hello: each such boot ends as refused, in one sentence whose figures agree, and
 * none in a panic. The hosted kernel comes up in a child process, faults armed (mm/fault_impl.h).
 *
 * Locking: none. Contexts: a process of its own for each boot. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../kernel/kernel.h"
#include "../../mm/fault_impl.h"
#include "heap_fixture.h"

#define MIB        64u
#define MOST_TRIES 2000u
#define REFUSED    37
#define FAILED     39

static char console[1u << 16];

static NORETURN void come_up(const char *args, unsigned cpus, unsigned after, int file)
{
    static struct bootinfo info;
    size_t bytes = (size_t)MIB << 20;
    char *memory = mmap(NULL, bytes + (PAGE_SIZE << MAX_ORDER), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    host_console_set(file);
    info = (struct bootinfo){.platform = "host",
                             .args = args,
                             .hypervisor = "",
                             .cpus_found = cpus,
                             .cpus = cpus,
                             .cycles_hz = plat_cycles_hz(),
                             .memory_bytes = bytes,
                             .ranges = 1};
    memory = (char *)round_up((uintptr_t)memory, PAGE_SIZE << MAX_ORDER);
    info.range[0] = (struct boot_range){.base = memory, .pages = bytes / PAGE_SIZE};
    fault_arm(FAULT_page, after, ~0u);
    host_entry(&info);
}

/* The exit status of a boot whose page allocations all fail but the first so many; its console is in console[]. */
static int status_after(const char *args, unsigned cpus, unsigned after)
{
    int file = memfd_create("console", 0), status = 0;
    ssize_t n;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0)
        come_up(args, cpus, after, file);
    while (waitpid(child, &status, 0) < 0)
        ;
    n = pread(file, console, sizeof(console) - 1, 0);
    console[n > 0 ? n : 0] = 0;
    close(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static u64 figure(const char *line, const char *key)
{
    const char *at = line ? strstr(line, key) : NULL;

    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void expect_refusal(void)
{
    const char *line = strstr(console, "HAYLOFT-REFUSED reason=\"");

    EXPECT(line && strchr(line, '\n') && !strstr(line + 1, "HAYLOFT-REFUSED"));
    EXPECT(line && strstr(line, "memory"));
    EXPECT(line && strstr(line, "have="));
    EXPECT_LT(figure(line, "have="), figure(line, "need="));
}

/* From the first allocation on; returns how many boots were refused before one came as far as its laboratory. */
static unsigned sweep(const char *args, unsigned cpus)
{
    for (unsigned after = 0; after < MOST_TRIES; after++) {
        int status = status_after(args, cpus, after);

        if (status != REFUSED && status != FAILED && status != 0)
            printf("  %s, after %u: status %d\n%s\n", args, after, status, console);
        EXPECT(status == REFUSED || status == FAILED || status == 0);
        if (status != REFUSED)
            return after;
        expect_refusal();
    }
    return MOST_TRIES;
}

TEST(every_shortage_on_the_way_up_is_refused)
{
    static const char *const arms[] = {"front=none", "front=bounded latency=on", "front=sheaf",
                                       "front=magazine nodes=2 pcp=off"};

    for (unsigned i = 0; i < ARRAY_SIZE(arms); i++) {
        unsigned cpus = i % 2 ? 4 : 2, refused;
        char args[120];

        snprintf(args, sizeof(args), "kbench=0 selfcheck=0 overcommit=1 %s", arms[i]);
        refused = sweep(args, cpus);
        printf("  %s on %u CPUs: %u boots refused\n", arms[i], cpus, refused);
        EXPECT_GT(refused, 3u);
        EXPECT_LT(refused, MOST_TRIES);
    }
}

TEST(a_memory_in_pieces_is_told_from_a_small_one)
{
    static void *page[1u << 14];
    struct memory_refusal r;
    struct test_heap t;
    unsigned n = 0;

    REQUIRE(heap_new(&t, "pcp=off", 16, 1));
    kheap = t.h;
    while (n < ARRAY_SIZE(page) && (page[n] = alloc_pages(t.h, 0)))
        n++;
    memory_refusal(&r, t.bytes, "this", 4 * PAGE_SIZE);
    EXPECT_STR(r.reason, "too little memory for this");
    EXPECT_STR(r.of_have, "usable");
    EXPECT_EQ(r.have, t.bytes);
    EXPECT_EQ(r.need, t.bytes + 4 * PAGE_SIZE);
    for (unsigned i = 0; i < n; i += 2)
        EXPECT_TRUE(free_pages(t.h, page[i], 0));
    memory_refusal(&r, t.bytes, "this", 3 * PAGE_SIZE);
    EXPECT_STR(r.reason, "no piece of memory is large enough for this");
    EXPECT_STR(r.of_have, "in one piece");
    EXPECT_EQ(r.have, PAGE_SIZE);
    EXPECT_EQ(r.need, 4 * PAGE_SIZE);
    for (unsigned i = 1; i < n; i += 2)
        EXPECT_TRUE(free_pages(t.h, page[i], 0));
    EXPECT_TRUE(heap_good(&t));
    heap_delete(&t);
}
