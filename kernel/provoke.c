/* provoke.c: faults on demand, so that what the kernel and the tool do about a fault is tested by
 * having one.
 *
 * What a machine cannot do is refused in words (provoke_refusal), never left undone: a test of a fault
 * that did not happen would pass.
 *
 *   none         nothing
 *   panic@CPU    that CPU panics (kind provoked); panic@last: the one with the highest number
 *   full@CPU     the same, with that CPU's transmit ring full to the last frame
 *   log-held     CPU 0 panics while the last CPU holds the console's lock and will never give it back
 *   flood        more events than CPU 0's ring has room for, once that is empty one more, which
 *                tells of the loss; then the boot goes on
 *   nested       a panic whose own report faults: the machine must end all the same
 *   trap         a store to an address that no machine maps
 *   overflow     a recursion that runs off the thread's stack
 *   reset        the machine resets without a word
 *   hang         CPU 0 spins, interrupts on: deadline= ends the boot
 *   hang-off     CPU 0 spins, interrupts off: another CPU's tick ends it; with one CPU nobody does
 *   early-alloc  allocations wherever CPUs run that the CPU count does not yet tell of. One kernel
 *                that brought in per-CPU magazines published the count before their table existed,
 *                and crashed in that window
 *   early-panic  a panic when there is a heap but no CPU table yet
 *   absent-cpu   the firmware lists a CPU that does not exist: the boot must go on and name it
 *   short        CPU 0 takes all pages while the others hold full arrays, first busy, then idle: it
 *                panics if it is told that there are none while one of them still holds an object
 *   remake@ROUNDS  caches come and go on CPU 0 while the others are short of memory (remake.c): it panics
 *                if one is said to be busy, an object is not what it was, or a page is lost
 *   locks        the register of locks is full before the tests make theirs
 *   silent              a CPU holds up a grace period (lab.c)
 *   badfree, selfcheck  planted by the self-check, which asks provoke_is()
 *
 * Locking: none. Contexts: thread, or boot, by stage. */
#include "kernel.h"
#include "remake.h"

#include "telemetry/telemetry.h"
#include "../base/fmt.h"
#include "../base/string.h"

#define FLOOD_EVENTS 1000u /* a CPU's ring has room for some 250 of them */

/* Returns the CPU of WHAT@CPU where `cpus` run, or -1. Too large a number is one that does not run. */
static int cpu_of(const char *text, const char *what, unsigned cpus)
{
    size_t n = strlen(what);
    unsigned cpu = 0;

    if (strncmp(text, what, n) != 0 || text[n] != '@' || !text[n + 1])
        return -1;
    text += n + 1;
    if (strcmp(text, "last") == 0)
        return (int)cpus - 1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        cpu = MIN(cpu * 10 + (unsigned)(*text - '0'), 1000u);
    }
    return (int)cpu;
}

/* Returns the number of WHAT@NUMBER, at most 999,999; 0: it is not that. */
static u64 number_of(const char *text, const char *what)
{
    size_t n = strlen(what);
    u64 number = 0;

    if (strncmp(text, what, n) != 0 || text[n] != '@' || strlen(text) > n + 7)
        return 0;
    for (const char *p = text + n + 1; *p; p++) {
        if (*p < '0' || *p > '9')
            return 0;
        number = number * 10 + (u64)(*p - '0');
    }
    return number;
}

/* What a fault needs beside CPU 0. */
enum needs { NEEDS_NOTHING, NEEDS_TWO, NEEDS_MACHINE, NEEDS_CONSOLE, NEEDS_ROOM };

static const struct {
    const char *name;
    enum needs needs;
} faults[] = {
    {"none", NEEDS_NOTHING},      {"nested", NEEDS_NOTHING},      {"trap", NEEDS_NOTHING},
    {"overflow", NEEDS_NOTHING},  {"hang", NEEDS_NOTHING},        {"hang-off", NEEDS_NOTHING},
    {"flood", NEEDS_NOTHING},     {"early-alloc", NEEDS_NOTHING}, {"early-panic", NEEDS_NOTHING},
    {"selfcheck", NEEDS_NOTHING}, {"badfree", NEEDS_NOTHING},     {"silent", NEEDS_TWO},
    {"short", NEEDS_TWO},         {"reset", NEEDS_MACHINE},       {"log-held", NEEDS_CONSOLE},
    {"absent-cpu", NEEDS_ROOM},   {"locks", NEEDS_NOTHING},
};

static const char *lacks(enum needs needs, unsigned listed, unsigned most)
{
    unsigned cpus = MIN(listed, most);

    if (needs == NEEDS_CONSOLE && !kernel_hooks.hold_console)
        return "a process has no lock around its console";
    if ((needs == NEEDS_TWO || needs == NEEDS_CONSOLE) && cpus < 2)
        return "it needs a second CPU";
    if ((needs == NEEDS_MACHINE || needs == NEEDS_ROOM) && !kernel_hooks.reset)
        return "it needs a machine; this is a process";
    if (needs == NEEDS_ROOM && listed == MAX_CPUS)
        return "all CPU numbers are taken, so there is none for a CPU that does not exist";
    if (needs == NEEDS_ROOM && most < 2)
        return "maxcpus=1 starts no other CPU, and so none that does not exist";
    return NULL;
}

const char *provoke_refusal(const char *text, unsigned listed, unsigned most)
{
    unsigned cpus = MIN(listed, most);
    int cpu = MAX(cpu_of(text, "panic", cpus), cpu_of(text, "full", cpus));

    for (unsigned i = 0; i < ARRAY_SIZE(faults); i++)
        if (strcmp(text, faults[i].name) == 0)
            return lacks(faults[i].needs, listed, most);
    if (number_of(text, "remake"))
        return lacks(NEEDS_TWO, listed, most);
    if (cpu < 0)
        return "there is no such fault";
    return (unsigned)cpu < cpus ? NULL : "it names a CPU that does not run";
}

bool provoke_is(const char *what)
{
    return strcmp(knobs.provoke, what) == 0;
}

static bool listed(const struct bootinfo *info, u32 apic_id)
{
    for (unsigned i = 0; i < info->cpus; i++) {
        if (info->cpu[i].apic_id == apic_id)
            return true;
    }
    return false;
}

void provoke_absent_cpu(struct bootinfo *info)
{
    u32 nobody = 254; /* the highest that an xAPIC can address */

    if (!provoke_is("absent-cpu"))
        return;
    CHECK_VALUES(info->cpus < MAX_CPUS, info->cpus, MAX_CPUS); /* else it was refused */
    while (listed(info, nobody))
        nobody--;
    memmove(&info->cpu[2], &info->cpu[1], (info->cpus - 1) * sizeof(info->cpu[0]));
    info->cpu[1] = (struct boot_cpu){.apic_id = nobody};
    info->cpus++;
    info->cpus_found++;
}

static void early_alloc(void)
{
    static const size_t sizes[] = {16, 64, 1000, 4096, 8192, 65536};

    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
        u8 *p = kmalloc(sizes[i]);

        if (!p)
            PANIC(PANIC_boot, "an early allocation found no memory", sizes[i], plat_cpu_id());
        memset(p, 0xa5, sizes[i]);
        if (!kfree(p))
            PANIC(PANIC_boot, "an early free was refused", sizes[i], plat_cpu_id());
    }
    klog("early-alloc: cpu%u allocated %u sizes while the count was %u", plat_cpu_id(),
         (unsigned)ARRAY_SIZE(sizes), plat_cpu_count());
}

/* Faster than any port takes them, and with this CPU's own drain held off. */
static void flood(void)
{
    unsigned long flags = plat_irq_save();

    for (i64 i = 0; i < (i64)FLOOD_EVENTS; i++)
        telemetry_event("warning", "flood", (const struct telemetry_value[]){{"n", i}}, 1);
    plat_irq_restore(flags);
}

static void flood_and_tell(void)
{
    flood();
    telemetry_flush();
    telemetry_event("phase", "after the flood", NULL, 0);
}

/* An id stays with its name when the lock is gone. */
static void fill_lock_register(void)
{
    struct spinlock l;
    char name[LOCK_OWNER_MAX];

    for (unsigned i = 0; lock_count() < MAX_LOCKS; i++) {
        fmt(name, sizeof(name), "filler-%u", i);
        spin_init(&l, LOCKCLASS_page, name);
        spin_destroy(&l);
    }
}

static void panic_here(void *arg)
{
    (void)arg;
    PANIC(PANIC_provoked, "provoke=panic", plat_cpu_id(), plat_cpu_count());
}

static void panic_full(void *arg)
{
    (void)arg;
    (void)plat_irq_save();
    flood();
    PANIC(PANIC_provoked, "provoke=full", plat_cpu_id(), plat_cpu_count());
}

/* On the first CPU and the last. */
static void panic_while_log_is_held(void *arg)
{
    bool *held = arg;

    if (plat_cpu_id() != 0) {
        kernel_hooks.hold_console();
        __atomic_store_n(held, true, __ATOMIC_RELEASE);
        for (;;)
            plat_relax();
    }
    while (!__atomic_load_n(held, __ATOMIC_ACQUIRE))
        plat_relax();
    PANIC(PANIC_provoked, "provoke=log-held", plat_cpu_id(), plat_cpu_count());
}

static NOINLINE u64 overflow(volatile u64 *below)
{
    volatile u64 frame[32];

    frame[0] = *below + 1;
    if (frame[0] == ~(u64)0) /* an end that is never reached, so that the compiler lets it pass */
        return 0;
    return frame[0] + overflow(frame);
}

static NORETURN void spin(bool interrupts_off)
{
    if (interrupts_off)
        (void)plat_irq_save();
    for (;;)
        plat_relax();
}

static void provoke_on(int cpu, void (*fault)(void *arg))
{
    plat_run_on_cpus((u64)1 << cpu, fault, NULL);
}

static void provoke_log_held(void)
{
    bool held = false;

    plat_run_on_cpus(1 | (u64)1 << (plat_cpu_count() - 1), panic_while_log_is_held, &held);
}

/* -- memory that others hold -- */

static u32 hoarders; /* atomic: CPUs with full arrays; all ones: CPU 0 has what it wanted */

static void hoard(void)
{
    void *p[64];

    for (unsigned id = 0; id < KMALLOC_CLASSES; id++) {
        unsigned n = 0;

        while (n < ARRAY_SIZE(p) && (p[n] = kmalloc(cache_object_size(heap_cache(kheap, id)))))
            n++;
        while (n)
            (void)kfree(p[--n]);
    }
}

static u64 objects_held(void)
{
    u64 sum = 0;

    for (unsigned id = 0; id < KMALLOC_CLASSES; id++) {
        u64 g[NR_CACHE_COUNTERS] = {0};

        cache_gauges(heap_cache(kheap, id), g);
        sum += g[CACHE_front_objects] + g[CACHE_barn_objects] + g[CACHE_depot_objects];
    }
    return sum;
}

/* CPU 0: every page, until there are none; then all back. */
static void take_all(const char *when)
{
    u64 before = objects_held(), pages = 0, left;
    void **chain = NULL, **p;

    while ((p = alloc_pages(kheap, 0))) {
        *p = chain;
        chain = p;
        pages++;
    }
    left = objects_held();
    while (chain) {
        p = *chain;
        (void)free_pages(kheap, chain, 0);
        chain = p;
    }
    if (left)
        PANIC(PANIC_boot, "memory was short while other CPUs held objects", left, before);
    klog("short, others %s: %llu pages taken, %llu objects held before, 0 after", when,
         (unsigned long long)pages, (unsigned long long)before);
}

static void short_while_busy(void *arg)
{
    (void)arg;
    if (plat_cpu_id() != 0) {
        hoard();
        __atomic_add_fetch(&hoarders, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(&hoarders, __ATOMIC_ACQUIRE) != ~(u32)0) {
            rcu_quiescent();
            plat_relax();
        }
        hoard();
        return;
    }
    while (__atomic_load_n(&hoarders, __ATOMIC_ACQUIRE) != plat_cpu_count() - 1)
        plat_relax();
    take_all("busy");
    __atomic_store_n(&hoarders, ~(u32)0, __ATOMIC_RELEASE);
}

static void provoke_short(void)
{
    plat_run_on_cpus(plat_all_cpus(), short_while_busy, NULL);
    take_all("idle");
}

static void provoke_remake(u64 rounds)
{
    struct remake_result r;

    telemetry_sampling(false);
    r = remake_stress(rounds, NULL);
    telemetry_sampling(true);
    if (r.why)
        PANIC(PANIC_boot, r.why, r.value, r.rounds);
    klog("remake: %llu rounds, %llu objects, %llu shortages elsewhere",
         (unsigned long long)r.rounds, (unsigned long long)r.objects,
         (unsigned long long)r.shortages);
}

static void provoke_in_lab(const char *what)
{
    /* Beyond the canonical addresses of any x86-64 machine. */
    volatile u64 *nowhere = (volatile u64 *)0x0123456789abcdefull;
    volatile u64 bottom = 0;

    unsigned cpus = plat_cpu_count();

    if (cpu_of(what, "panic", cpus) >= 0)
        provoke_on(cpu_of(what, "panic", cpus), panic_here);
    else if (cpu_of(what, "full", cpus) >= 0)
        provoke_on(cpu_of(what, "full", cpus), panic_full);
    else if (strcmp(what, "log-held") == 0)
        provoke_log_held();
    else if (strcmp(what, "flood") == 0)
        flood_and_tell();
    else if (strcmp(what, "short") == 0)
        provoke_short();
    else if (number_of(what, "remake"))
        provoke_remake(number_of(what, "remake"));
    else if (strcmp(what, "locks") == 0)
        fill_lock_register();
    else if (strcmp(what, "nested") == 0)
        PANIC(PANIC_provoked, (const char *)(u64)nowhere, 0, 0);
    else if (strcmp(what, "trap") == 0)
        *nowhere = 1;
    else if (strcmp(what, "overflow") == 0)
        bottom = overflow(&bottom);
    else if (strcmp(what, "reset") == 0)
        kernel_hooks.reset();
    else if (strcmp(what, "hang") == 0)
        spin(false);
    else if (strcmp(what, "hang-off") == 0)
        spin(true);
}

void provoke_at(enum provoke_stage stage)
{
    if (likely(strcmp(knobs.provoke, "none") == 0))
        return;
    if (stage == PROVOKE_EARLY && provoke_is("early-alloc"))
        early_alloc();
    else if (stage == PROVOKE_EARLY && provoke_is("early-panic"))
        PANIC(PANIC_provoked, "provoke=early-panic", plat_cpu_id(), plat_cpu_count());
    else if (stage == PROVOKE_LAB)
        provoke_in_lab(knobs.provoke);
}
