/* lab.c: the laboratory session of one boot, the same on both platforms: hello, schema, names,
 * self-check, tests, self-check, bye.
 *
 * Rounds are the outer loop and tests the inner one: a machine that slows down in the course of a
 * boot then slows every test alike. Whether the CPUs were really parallel is probed before, after
 * each test, and after.
 *
 * The first thing that goes wrong ends the session, with a bye that says what; a structure found
 * broken stops the machine at once. Only a bye "ok" says that all went well. Refused arguments are
 * said in hello, and nothing else is done.
 *
 * A test that runs out of memory is nothing wrong: it is skipped from then on, for good, and its rounds so
 * far do not count, since those are the ones in which its CPUs happened to hold less. The others go on.
 *
 * Deliberately not here: anything that is measured (bench/), or how records look (telemetry/).
 *
 * Locking: none. Contexts: thread on CPU 0; the bad free handler in any context but NMI. */
#include "kernel.h"
#include "probe.h"
#include "selfcheck.h"
#include "bench/bench.h"
#include "telemetry/telemetry.h"
#include "../base/fmt.h"
#include "../base/leftout.h"
#include "../base/string.h"

#define REST_NS 50000000u /* before each round */

static char reason[400]; /* of the first failure; "" while all is well */

PRINTF(1, 2) static bool fail(const char *format, ...)
{
    va_list args;

    if (reason[0])
        return false;
    va_start(args, format);
    fmt_mark_cut(reason, sizeof(reason), fmt_v(reason, sizeof(reason), format, args));
    va_end(args);
    klog("lab: %s", reason);
    return false;
}

/* A machine with fewer CPUs than it should have measures something else: it must be seen. */
static void tell_cpus_left_out(const struct bootinfo *info)
{
    char text[200];

    for (unsigned i = 0; i < info->cpus; i++) {
        const struct boot_cpu *c = &info->cpu[i];

        if (!c->trouble)
            continue;
        fmt_mark_cut(text, sizeof(text),
                     fmt(text, sizeof(text), "the CPU with APIC id %u was left out: %s", c->apic_id,
                         c->trouble));
        telemetry_event("warning", text,
                        &(const struct telemetry_value){"apic_id", (i64)c->apic_id}, 1);
    }
}

static void phase(const char *name)
{
    telemetry_event("phase", name, NULL, 0);
}

/* -- bad frees -- */

/* Planted ones are expected, so they are counted and not told. */
static void badfree_event(const struct badfree_report *r)
{
    if (selfcheck_badfree_armed())
        return;
    telemetry_event("badfree", badfree_kind_names[r->kind],
                    (const struct telemetry_value[]){
                        {"kind", r->kind}, {"address", (i64)r->address}, {"found", (i64)r->found}},
                    3);
}

/* -- magazines of another size -- */

static void resize_event(const struct resize_report *r)
{
    char text[200]; /* a cache's name, four numbers and the words */

    switch (r->why) {
    case RESIZE_contended:
        fmt(text, sizeof(text),
            "%s: magazines of %u objects, not %u: the depot was found taken by "
            "%llu of %llu visits",
            cache_name(r->cache), r->to, r->from, (unsigned long long)r->contended,
            (unsigned long long)r->visits);
        break;
    case RESIZE_quiet:
        fmt(text, sizeof(text),
            "%s: magazines of %u objects, not %u: %llu visits, none contended; "
            "that size was left at %llu",
            cache_name(r->cache), r->to, r->from, (unsigned long long)r->visits,
            (unsigned long long)r->left_at);
        break;
    case RESIZE_shortage:
        fmt(text, sizeof(text), "%s: magazines of %u objects, not %u: memory is short",
            cache_name(r->cache), r->to, r->from);
        break;
    }
    telemetry_event("resize", text,
                    (const struct telemetry_value[]){{"from", r->from},
                                                     {"to", r->to},
                                                     {"visits", (i64)r->visits},
                                                     {"contended", (i64)r->contended}},
                    4);
}

static bool badfrees_as_expected(void)
{
    u64 expected = selfcheck_badfrees_expected(), counted = selfcheck_badfrees_counted();

    if (expected == counted)
        return true;
    return fail("%llu bad frees, where %llu were planted", (unsigned long long)counted,
                (unsigned long long)expected);
}

/* The bad free of provoke=badfree: one that nobody expects. */
static bool plant_badfree(void)
{
    void *p = kmalloc(4 * PAGE_SIZE);

    if (!p || !kfree(p))
        return fail("provoke=badfree: there is no memory for a block to free twice");
    (void)kfree(p);
    return true;
}

/* -- a CPU that holds up a grace period -- */

static u32 silent_events; /* atomic */
static u32 silent_begun;  /* atomic: CPU 0 is in its read section */

static void silent_event(unsigned cpu, u64 cycles)
{
    u64 ms = cycles / (plat_cycles_hz() / 1000);
    char text[100];

    fmt(text, sizeof(text), "CPU %u has passed no quiescent state for %llu ms: memory waits for it",
        cpu, (unsigned long long)ms);
    klog("%s", text);
    telemetry_event("warning", text,
                    (const struct telemetry_value[]){{"cpu", cpu}, {"ms", (i64)ms}}, 2);
    __atomic_fetch_add(&silent_events, 1, __ATOMIC_RELEASE);
}

/* provoke=silent: CPU 0 stays in a read section until it is named, while others wait. They begin
 * only then: a grace period that ends before the section would leave nobody who waits for CPU 0. */
static void be_silent(void *arg)
{
    u64 until = plat_cycles() + plat_cycles_hz() * 20;

    (void)arg;
    if (plat_cpu_id() != 0) {
        while (!__atomic_load_n(&silent_begun, __ATOMIC_ACQUIRE))
            plat_relax();
        synchronize_rcu();
        return;
    }
    rcu_read_lock();
    __atomic_store_n(&silent_begun, 1, __ATOMIC_RELEASE);
    while (plat_cycles() < until && !__atomic_load_n(&silent_events, __ATOMIC_ACQUIRE))
        plat_relax();
    rcu_read_unlock();
}

/* -- checks around the tests -- */

static void check_validate(const char *when)
{
    struct heap_fault fault = {"", 0, NULL};
    char detail[160] = "";
    bool ok = heap_validate(kheap, &fault);

    if (!ok)
        fmt_mark_cut(detail, sizeof(detail),
                     fmt(detail, sizeof(detail), "%s at %llx in %s", fault.what,
                         (unsigned long long)fault.address,
                         fault.cache ? cache_name(fault.cache) : "no cache"));
    telemetry_check("validate", when, ok, detail, NULL, 0);
    if (ok)
        return;
    telemetry_flush();
    klog("lab: heap_validate: %s", detail);
    PANIC(PANIC_heap_corrupt, fault.what, fault.address, 0);
}

/* The law holds for each cache; what is told is the sum. */
static bool check_balance(const char *when)
{
    struct balance sum = {0}, b;
    const char *broken = "";

    for (unsigned id = 0; id < heap_cache_count(kheap); id++) {
        const struct kmem_cache *c = heap_cache(kheap, id);

        if (!c)
            continue;
        cache_balance(c, &b);
        if (!b.holds && !broken[0])
            broken = cache_name(c);
        sum.capacity += b.capacity;
        sum.slab_free += b.slab_free;
        sum.front += b.front;
        sum.barn += b.barn;
        sum.prefilled += b.prefilled;
        sum.rcu += b.rcu;
        sum.in_use += b.in_use;
        sum.allocs += b.allocs;
        sum.frees += b.frees;
    }
    telemetry_check("balance", when, !broken[0], broken,
                    (const struct telemetry_value[]){{"capacity", (i64)sum.capacity},
                                                     {"slab_free", (i64)sum.slab_free},
                                                     {"front", (i64)sum.front},
                                                     {"barn", (i64)sum.barn},
                                                     {"prefilled", (i64)sum.prefilled},
                                                     {"rcu", (i64)sum.rcu},
                                                     {"in_use", (i64)sum.in_use},
                                                     {"allocs", (i64)sum.allocs},
                                                     {"frees", (i64)sum.frees}},
                    9);
    return !broken[0] || fail("the balance law does not hold for %s", broken);
}

static bool check_all(const char *when)
{
    char why[160] = "";

    phase(when);
    if (knobs.selfcheck) {
        bool ok;

        telemetry_sampling(false); /* it makes caches again under their names */
        ok = selfcheck_run(why, sizeof(why));
        telemetry_sampling(true);
        telemetry_announce();
        telemetry_check(
            "selfcheck", when, ok, why,
            &(const struct telemetry_value){"badfrees", (i64)selfcheck_badfrees_expected()}, 1);
        if (!ok)
            return fail("self-check %s: %s", when, why);
    }
    check_validate(when);
    return check_balance(when) && badfrees_as_expected();
}

/* -- the tests -- */

static bool was_short[BENCH_TESTS_MAX]; /* by id */

static bool chosen(unsigned id)
{
    return knobs.kbench && knobs_test_match(knobs.tests, bench_tests[id].name);
}

static bool runs(unsigned id)
{
    return chosen(id) && !was_short[id] && !bench_skip_reason(&bench_tests[id]);
}

static void name_test(unsigned id, const char *skip, const struct telemetry_shortage *shortage)
{
    const struct bench_test *t = &bench_tests[id];

    telemetry_test(&(const struct telemetry_test){
        .id = id,
        .name = t->name,
        .unit = "ns/op",
        .all_cpus = t->cpus != BENCH_SOLO,
        .cpus = (unsigned)__builtin_popcountll(bench_mask(t)),
        .skip = skip,
        .shortage = shortage,
    });
}

static void name_tests(void)
{
    for (unsigned id = 0; id < bench_test_count; id++)
        if (chosen(id))
            name_test(id, bench_skip_reason(&bench_tests[id]), NULL);
}

/* The test's object is told again: a record of the boot's own stream, which waits for room. */
static void skip_short(unsigned id, u64 round, const struct bench_shortage *s)
{
    const struct telemetry_shortage told = {round, s->asked, s->held, s->had};
    char asked[32], kept[48] = "", text[200];

    fmt(asked, sizeof(asked), s->asked ? "%llu bytes" : "a cache", (unsigned long long)s->asked);
    if (round)
        fmt(kept, sizeof(kept), "; its %llu rounds before do not count", (unsigned long long)round);
    fmt(text, sizeof(text), "%s in round %llu (wanted %s on top of %llu KiB, had %llu KiB)%s",
        bench_is_short, (unsigned long long)round, asked, (unsigned long long)s->held >> 10,
        (unsigned long long)s->had >> 10, kept);
    klog("skipped: %s: %s", bench_tests[id].name, text);
    name_test(id, text, &told);
    was_short[id] = true;
}

/* left: how many tests would take part in another round. */
static bool run_round(u64 round, unsigned *left)
{
    *left = 0;
    for (unsigned id = 0; id < bench_test_count; id++) {
        struct bench_end end;

        if (!runs(id))
            continue;
        heap_maintain(kheap);
        plat_sleep_ns(REST_NS);
        end = bench_round_run(&bench_tests[id], id, round);
        if (end.how == BENCH_WRONG)
            return fail("%s: %s", bench_tests[id].name, end.why);
        if (end.how == BENCH_SHORT) {
            skip_short(id, round, &end.shortage);
            continue;
        }
        ++*left;
        probe_parallel(bench_tests[id].name);
    }
    return true;
}

static void drain_here(void *arg)
{
    (void)arg;
    heap_drain_this_cpu(kheap);
}

/* What the checks left in arrays, sheaves and slabs goes back, so that every boot's tests start alike.
 * Else a slab that they left in two CPUs' arrays stays there for the whole boot, and where those CPUs'
 * topmost objects, or their states, share a cache line, malloc/.../all-cpus takes three to four times as
 * long: one boot in twelve, in either arm. */
static bool settle(void)
{
    rcu_barrier();
    plat_run_on_cpus(plat_all_cpus(), drain_here, NULL);
    for (unsigned id = 0; id < heap_cache_count(kheap); id++)
        if (heap_cache(kheap, id))
            (void)kmem_cache_shrink(heap_cache(kheap, id));
    return check_balance("settled");
}

/* repeat=1 goes on until somebody ends the machine, or no test is left. */
static bool run_tests(void)
{
    bool fine = settle();
    unsigned left = 1;

    phase("tests");
    for (u64 round = 0; fine && left && (round < knobs.kbench || (knobs.repeat && knobs.kbench));
         round++)
        fine = run_round(round, &left);
    return fine;
}

/* -- the session -- */

static bool session(void)
{
    probe_parallel("before");
    if (!check_all("before"))
        return false;
    if (provoke_is("badfree") && !plant_badfree())
        return false;
    if (provoke_is("silent"))
        plat_run_on_cpus(plat_all_cpus(), be_silent, NULL);
    if (knobs.kbench && !run_tests())
        return false;
    if (!check_all("after"))
        return false;
    probe_parallel("after");
    return true;
}

static enum plat_exit refuse(void)
{
    unsigned kept = MIN(knob_refused.count, (unsigned)KNOB_REFUSALS);

    for (unsigned i = 0; i < kept; i++) {
        const struct knob_refusal *r = &knob_refused.at[i];
        char text[sizeof(reason)], *to = i ? text : reason;

        fmt(to, sizeof(text), r->nearest[0] ? "%s: %s (nearest: %s)" : "%s: %s", r->argument,
            r->reason, r->nearest);
        klog("refused: %s", to);
    }
    telemetry_bye("refused", reason);
    return PLAT_EXIT_REFUSED;
}

enum plat_exit lab_run(const struct bootinfo *info)
{
    bool known = bench_check_patterns(knobs.tests, &knob_refused);
    bool fine;

    arguments_check_provoke(plat_cpu_count()); /* a CPU that it needs may not have come */
    if (knob_refused.count > KNOB_REFUSALS)
        left_out(LEFT_OUT_refusals, knob_refused.count - KNOB_REFUSALS, knob_refused.count, NULL);
    telemetry_hello(info);
    left_out_tell();
    tell_cpus_left_out(info);
    telemetry_flush(); /* whatever happens from here on, it is known whose boot this is */
    if (!known || knob_refused.count)
        return refuse();
    provoke_at(PROVOKE_LAB);
    heap_set_badfree_handler(kheap, badfree_event);
    heap_set_resize_handler(kheap, resize_event);
    rcu_set_silent_handler(silent_event);
    telemetry_schema();
    telemetry_announce();
    name_tests();
    telemetry_sampling(true);
    fine = session();
    left_out_tell(); /* what came since hello */
    telemetry_bye(fine ? "ok" : "self-check", reason);
    klog("lab: %s", fine ? "ok" : "self-check failed");
    return fine ? PLAT_EXIT_OK : PLAT_EXIT_FAILED;
}
