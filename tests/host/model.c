/* model.c: a model checker whose model is the program itself. The very sources of mm/ and sync/ run on
 * two or three CPUs, one thread plays all of them, and every order of their steps is tried.
 *
 * How. The variant `model` is compiled as for TSan, but only its atomic accesses are instrumented, and
 * the functions that the compiler calls for them (__tsan_atomic…) are here. Each is a step: before it,
 * another CPU may go on instead. CPUs are coroutines. A run follows a list of choices and is otherwise
 * deterministic: memory lies at one address, and the pages that any run has written to are put back before
 * each as the set-up left them (the others are read-only, and their first write is a signal). The next run changes the last choice that has another way (depth
 * first), so every order is run once.
 *
 * What keeps that finite and short:
 *   - Only words that two CPUs use, one of them writing, are places to choose at; which those are is
 *     found by running, and exploration begins anew until no more are found.
 *   - Plain accesses are no steps. That is sound as long as there are no data races on them, which is
 *     what the stress tests under TSan look for.
 *   - A CPU that waits (plat_relax) gives way until another changes a word; at once, if one was changed
 *     since it last waited, as it may have looked before that. All waiting is a deadlock.
 *   - At most so many switches from a CPU that could have gone on (preemptions); none of the known
 *     kinds of bug needs many. Giving way costs nothing.
 *
 * The clock is one too: it ticks with each look at it, so a run does not depend on the machine.
 *
 * What it does not show: orders that only a weaker memory model than sequential consistency allows
 * (x86 delays stores: between a store and a later load of the same CPU); interrupts.
 *
 * A mutant takes a guard out in these functions, not in the sources: see model.h.
 *
 * Locking: none; one thread. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "../../base/host.h"
#include "model.h"

#define AREA_BYTES  ((size_t)6 << 20)
#define AREA_PAGES  (AREA_BYTES / PAGE_SIZE)
#define STACK_BYTES ((size_t)64 << 10)
#define CHOICES     8192u /* places to choose at in one run; more is a livelock */
#define WORDS       4096u /* hash table of words; a power of two */
#define TRACE       512u

struct coroutine {
    ucontext_t at;
    bool done, waiting;
    bool news; /* somebody changed a word since it waited last */
    char *stack;
};

struct word {
    uintptr_t address; /* 0: free */
    u8 readers, writers;
    bool shared; /* as far as this exploration goes */
};

struct step {
    u8 cpu;
    char what;
    uintptr_t address;
    u64 before, after;
};

struct heap *model_heap;
struct model_run model_run;

static struct {
    const struct model *m;
    struct coroutine cpu[MODEL_CPUS];
    ucontext_t explorer;
    unsigned current;
    bool running;
    unsigned preemptions;
    /* the choices of this run: a prefix that is prescribed, then always the first */
    u8 choice[CHOICES], ways[CHOICES];
    unsigned made, prescribed;
    struct word word[WORDS];
    unsigned words;
    bool more_shared; /* found in this exploration, not yet in use */
    struct step trace[TRACE];
    u64 steps, run_steps;
    u64 clock, clock_at_start; /* looks at it, which are its ticks */
    const char *why;
    char *area, *snapshot;
    u16 dirty[AREA_PAGES]; /* pages that a run has written to */
    unsigned dirty_count;
} x;

/* A tick a look: what waits for a time to pass waits until it has looked so often. */
unsigned long long model_rdtscp(unsigned *aux)
{
    *aux = 0;
    return ++x.clock;
}

/* -- choosing -- */

static void go_to(unsigned next)
{
    unsigned before = x.current;

    if (next == before)
        return;
    x.current = next;
    host_cpu_id = next;
    swapcontext(&x.cpu[before].at, &x.cpu[next].at);
}

static unsigned choose(unsigned ways)
{
    unsigned i = x.made;

    if (ways < 2)
        return 0;
    if (i == CHOICES)
        model_fail("the run does not end");
    x.made++;
    if (i >= x.prescribed)
        x.choice[i] = 0;
    x.ways[i] = (u8)ways;
    return x.choice[i];
}

static bool can_run(unsigned cpu)
{
    return cpu < x.m->cpus && !x.cpu[cpu].done && !x.cpu[cpu].waiting;
}

/* Others that can run, in order. */
static unsigned others(unsigned *list)
{
    unsigned n = 0;

    for (unsigned cpu = 0; cpu < x.m->cpus; cpu++)
        if (cpu != x.current && can_run(cpu))
            list[n++] = cpu;
    return n;
}

/* The current CPU cannot go on. */
static void give_way(void)
{
    unsigned list[MODEL_CPUS], n = others(list);

    if (!n)
        model_fail("every CPU waits for another");
    go_to(list[choose(n)]);
}

void host_relax_crowded(void)
{
    if (!x.running) {
        fprintf(stderr, "a CPU waits, and nobody else runs\n");
        abort();
    }
    if (x.cpu[x.current].news) {
        x.cpu[x.current].news = false;
        return;
    }
    x.cpu[x.current].waiting = true;
    give_way();
}

/* -- words -- */

static struct word *word_of(uintptr_t address)
{
    u64 i = (address >> 3) * 0x9e3779b97f4a7c15u >> 32;

    for (;; i++) {
        struct word *w = &x.word[i % WORDS];

        if (w->address == address)
            return w;
        if (!w->address) {
            if (++x.words > WORDS / 2) {
                fprintf(stderr, "too many words\n");
                abort();
            }
            w->address = address;
            return w;
        }
    }
}

static bool used_by_many(const struct word *w)
{
    u8 all = w->readers | w->writers;

    return w->writers && (all & (all - 1));
}

/* Before each atomic access. always: a choice even if nobody else was seen to use the word. */
static void point(const volatile void *p, bool writes, bool always)
{
    struct word *w;
    unsigned list[MODEL_CPUS], n, which;

    if (!x.running)
        return;
    x.steps++;
    w = word_of((uintptr_t)p & ~(uintptr_t)7);
    if (writes)
        w->writers |= (u8)(1 << x.current);
    else
        w->readers |= (u8)(1 << x.current);
    if (!w->shared && used_by_many(w))
        x.more_shared = true;
    if ((!w->shared && !always) || x.preemptions == x.m->preemptions)
        return;
    n = others(list);
    which = choose(n + 1);
    if (which) {
        x.preemptions++;
        go_to(list[which - 1]);
    }
}

/* After it. */
static void stepped(char what, const volatile void *p, u64 before, u64 after)
{
    if (!x.running)
        return;
    if (word_of((uintptr_t)p & ~(uintptr_t)7)->shared)
        x.trace[x.run_steps++ % TRACE] =
            (struct step){(u8)x.current, what, (uintptr_t)p, before, after};
    if (before == after)
        return;
    for (unsigned cpu = 0; cpu < x.m->cpus; cpu++)
        if (cpu != x.current) {
            x.cpu[cpu].news = !x.cpu[cpu].waiting;
            x.cpu[cpu].waiting = false;
        }
}

static bool mutated(enum mutant which, const volatile void *p)
{
    return x.running && x.m->mutant == which && x.m->guarded(p);
}

/* -- what the compiler calls -- */

void __tsan_init(void);                     // NOLINT
void __tsan_atomic_thread_fence(int order); // NOLINT
void __tsan_atomic_signal_fence(int order); // NOLINT
void __tsan_init(void)
{
} // NOLINT
void __tsan_atomic_thread_fence(int order) // NOLINT
{
    (void)order;
}
void __tsan_atomic_signal_fence(int order) // NOLINT
{
    (void)order;
}

#define RMW(bits, name, type, expression)                                                          \
    type __tsan_atomic##bits##_##name(volatile type *p, type v, int order);                        \
    type __tsan_atomic##bits##_##name(volatile type *p, type v, int order)                         \
    {                                                                                              \
        type old, now;                                                                             \
                                                                                                   \
        (void)order;                                                                               \
        point(p, true, false);                                                                     \
        old = *p;                                                                                  \
        if (mutated(MUTANT_SPLIT, p))                                                              \
            point(p, true, true);                                                                  \
        if (mutated(MUTANT_IGNORE, p))                                                             \
            old = 0;                                                                               \
        now = (type)(expression);                                                                  \
        *p = now;                                                                                  \
        stepped('x', p, old, now);                                                                 \
        return old;                                                                                \
    }

#define ATOMICS(bits, type)                                                                        \
    type __tsan_atomic##bits##_load(const volatile type *p, int order);                            \
    type __tsan_atomic##bits##_load(const volatile type *p, int order)                             \
    {                                                                                              \
        (void)order;                                                                               \
        point(p, false, false);                                                                    \
        stepped('r', p, *p, *p);                                                                   \
        return *p;                                                                                 \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile type *p, type v, int order);                         \
    void __tsan_atomic##bits##_store(volatile type *p, type v, int order)                          \
    {                                                                                              \
        type old;                                                                                  \
                                                                                                   \
        (void)order;                                                                               \
        point(p, true, false);                                                                     \
        old = *p;                                                                                  \
        *p = v;                                                                                    \
        stepped('w', p, old, v);                                                                   \
    }                                                                                              \
    RMW(bits, exchange, type, v)                                                                   \
    RMW(bits, fetch_add, type, old + v)                                                            \
    RMW(bits, fetch_sub, type, old - v)                                                            \
    RMW(bits, fetch_and, type, old &v)                                                             \
    RMW(bits, fetch_or, type, old | v)                                                             \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type c, type v, int order,   \
                                                    int failed);                                   \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type c, type v, int order,   \
                                                    int failed)                                    \
    {                                                                                              \
        type old;                                                                                  \
                                                                                                   \
        (void)order;                                                                               \
        (void)failed;                                                                              \
        point(p, true, false);                                                                     \
        old = *p;                                                                                  \
        if (mutated(MUTANT_SPLIT, p))                                                              \
            point(p, true, true);                                                                  \
        if (old == c)                                                                              \
            *p = v;                                                                                \
        stepped('c', p, old, old == c ? v : old);                                                  \
        return old;                                                                                \
    }

ATOMICS(8, u8)
ATOMICS(16, u16)
ATOMICS(32, u32)
ATOMICS(64, u64)

/* -- one run -- */

NORETURN void model_fail(const char *why)
{
    x.why = why;
    x.running = false;
    setcontext(&x.explorer);
    abort();
}

void plat_panic(const struct panic_info *info)
{
    static char text[200];

    snprintf(text, sizeof(text), "panic %s at %s:%d: %s", panic_kind_names[info->kind], info->file,
             info->line, info->text);
    if (!x.m) {
        fprintf(stderr, "%s\n", text);
        abort();
    }
    model_fail(text);
}

static void coroutine_main(void)
{
    x.m->cpu[x.current]();
    x.cpu[x.current].done = true;
    for (unsigned cpu = 0; cpu < x.m->cpus; cpu++)
        if (!x.cpu[cpu].done)
            give_way(); /* does not come back */
    x.running = false;
    setcontext(&x.explorer);
}

static void put_back(void)
{
    for (unsigned i = 0; i < x.dirty_count; i++)
        memcpy(x.area + x.dirty[i] * PAGE_SIZE, x.snapshot + x.dirty[i] * PAGE_SIZE, PAGE_SIZE);
}

/* The first write to a page since the set-up. */
static void on_write(int signal_number, siginfo_t *info, void *context)
{
    size_t at = (size_t)((char *)info->si_addr - x.area);

    (void)context;
    if (at >= AREA_BYTES || x.dirty_count == AREA_PAGES) { /* a fault of another kind: die of it */
        signal(signal_number, SIG_DFL);
        return;
    }
    x.dirty[x.dirty_count++] = (u16)(at / PAGE_SIZE);
    mprotect(x.area + at / PAGE_SIZE * PAGE_SIZE, PAGE_SIZE, PROT_READ | PROT_WRITE);
}

static void run_once(void)
{
    /* volatile: what the explorer's context comes back to must not be kept in a register. */
    static volatile bool back;

    put_back();
    model_run = (struct model_run){0};
    x.made = 0;
    x.preemptions = 0;
    x.run_steps = 0;
    x.clock = x.clock_at_start;
    for (unsigned i = 0; i < x.m->cpus; i++) {
        struct coroutine *c = &x.cpu[i];

        c->done = c->waiting = c->news = false;
        getcontext(&c->at);
        c->at.uc_stack.ss_sp = c->stack;
        c->at.uc_stack.ss_size = STACK_BYTES;
        c->at.uc_link = NULL;
        makecontext(&c->at, coroutine_main, 0);
    }
    back = false;
    getcontext(&x.explorer);
    if (back)
        return;
    back = true;
    x.current = choose(x.m->cpus);
    host_cpu_id = x.current;
    x.running = true;
    setcontext(&x.cpu[x.current].at);
}

/* False if there is no choice left that has another way. */
static bool next_choices(void)
{
    unsigned n = x.made;

    while (n && x.choice[n - 1] + 1u >= x.ways[n - 1])
        n--;
    if (!n)
        return false;
    x.choice[n - 1]++;
    x.prescribed = n;
    return true;
}

static bool checked(void)
{
    static volatile bool back;

    host_cpu_id = 0;
    if (x.why)
        return false;
    back = false;
    getcontext(&x.explorer); /* model_fail() in the check comes back here */
    if (!back) {
        back = true;
        x.m->check();
    }
    return !x.why;
}

/* -- the machine, and all runs -- */

static void machine(const struct model *m)
{
    size_t align = PAGE_SIZE << MAX_ORDER;
    struct sigaction write_action = {.sa_sigaction = on_write, .sa_flags = SA_SIGINFO};
    struct knob_refusals refused = {0};
    static struct knobs k;
    struct mem_range r;
    u64 need;
    char *p;

    p = mmap(NULL, AREA_BYTES + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    x.area = (char *)round_up((uintptr_t)p, (uintptr_t)align);
    for (unsigned i = 0; i < MODEL_CPUS; i++)
        CHECK((x.cpu[i].stack = malloc(STACK_BYTES)) != NULL);
    CHECK(knobs_parse(&k, m->knobs, true, &refused));
    host_cpu_id = 0;
    host_cpu_number = m->cpus;
    lockstat_init(&k, 1, NULL);
    r = (struct mem_range){x.area, AREA_BYTES >> PAGE_SHIFT};
    model_heap = heap_init(&k, &r, 1, &need);
    CHECK_VALUES(model_heap && heap_cpus_init(model_heap, m->cpus), need, m->cpus);
    if (m->setup)
        m->setup();
    x.clock_at_start = x.clock;
    x.snapshot = malloc(AREA_BYTES);
    CHECK(x.snapshot != NULL);
    memcpy(x.snapshot, x.area, AREA_BYTES);
    CHECK(sigaction(SIGSEGV, &write_action, NULL) == 0);
    CHECK(mprotect(x.area, AREA_BYTES, PROT_READ) == 0);
}

/* Takes the words found so far into use; false if there are no new ones. */
static bool take_words(unsigned *count)
{
    bool fresh = x.more_shared;

    *count = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        x.word[i].shared = used_by_many(&x.word[i]);
        *count += x.word[i].shared;
    }
    x.more_shared = false;
    return fresh;
}

static void explore(const struct model *m, u64 limit, struct model_result *r)
{
    machine(m);
    x.m = m;
    do {
        x.prescribed = 0;
        r->schedules = 0;
        do {
            run_once();
            r->schedules++;
            if (!checked()) {
                r->failed = true;
                snprintf(r->why, sizeof(r->why), "%s", x.why);
                break;
            }
            r->complete = !next_choices();
        } while (!r->complete && r->schedules < limit);
    } while (take_words(&r->words) && !r->failed);
    r->steps = x.steps;
}

static void print_trace(void)
{
    u64 from = x.run_steps > TRACE ? x.run_steps - TRACE : 0;

    for (u64 i = from; i < x.run_steps; i++) {
        const struct step *s = &x.trace[i % TRACE];

        printf("    CPU %u %c %#lx: %#llx -> %#llx\n", s->cpu, s->what, s->address,
               (unsigned long long)s->before, (unsigned long long)s->after);
    }
}

void model_explore(const struct model *m, u64 limit, bool trace, struct model_result *r)
{
    struct model_result *shared =
        mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t child;

    CHECK(shared != MAP_FAILED);
    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        explore(m, limit, shared);
        if (trace && shared->failed)
            print_trace();
        fflush(stdout);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        ;
    *r = *shared;
    munmap(shared, sizeof(*r));
    if (status != 0) {
        r->failed = true;
        snprintf(r->why, sizeof(r->why), "the explorer itself died (status %#x)", status);
    }
}
