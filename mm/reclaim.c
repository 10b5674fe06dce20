/* reclaim.c: what an allocation short of pages does before it gives up.
 *
 * First what can be had without waiting (heap_reclaim): this CPU's arrays and sheaves, and every barn's and
 * depot's, go back to the slabs, and every cache's empty slabs to the buddy. That is done wherever pages are
 * found to be short, in the middle of a slab's making too.
 *
 * Then, where a user's call would end in NULL, what other CPUs hold (heap_drain_others). Their arrays are
 * theirs, so they are asked: each CPU has a word that counts requests and one that says up to which it has
 * served them, and it is kicked (plat_kick). It serves
 *   - in the interrupt that is the kick, on metal;
 *   - hosted, at its next quiescent state (a grace period is begun, so that it looks), or in its idle loop;
 *   - when it is short itself, since it drains its own arrays then;
 *   - while it waits for others, so that two CPUs short together serve each other.
 * Only a CPU whose arrays hold something is asked, and one that owes an answer is not kicked again. A call
 * that may wait does so until all have answered, at most WAIT_MS for all its tries; and never for a CPU that
 * an earlier call waited for in vain, until that has answered after all. A call that may not (interrupts off)
 * leaves its requests: a later one will find the memory.
 *
 * It tries again as long as others had something to give: on a machine where many are short at once,
 * what one CPU gives back another may have taken. Each try costs a look at every CPU's counts when nobody has.
 *
 * Locking: takes each cache's lock in turn, then the page lock; the caller holds none. Contexts: thread,
 * interrupt; waiting with interrupts on only. docs/RACES.md 2.5 and 2.23 reason about it. */
#include "fault_impl.h"
#include "mm_impl.h"

#define WAIT_MS   500u
#define TRIES_OFF 4u    /* with interrupts off: tries because something was moved */
#define TURNS_OFF 1000u /* and how long each waits until nothing is, which is some 40 us */

/* Interrupts off. */
static void drain_caches(struct heap *h)
{
    u32 n = __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);
    unsigned visit = heap_visit_begin(h);

    for (u32 i = 0; i < n; i++)
        if (GUARD(65, cache_alive(h->cache[i])))
            cache_drain_cpu(h->cache[i], plat_cpu_id());
    heap_visit_end(h, visit);
}

static struct drain_cpu *drain_of(const struct heap *h, unsigned cpu)
{
    return cpu_part(h->drain, PLAT_CPU_STRIDE * cpu);
}

void heap_drain_this_cpu(struct heap *h)
{
    unsigned long flags = plat_irq_save();
    struct drain_cpu *d = plat_cpu_id() < h->cpus ? drain_of(h, plat_cpu_id()) : NULL;
    /* Before the drain: a request that comes during it is served by it too, or left for the next. */
    u64 asked = d ? __atomic_load_n(&d->asked, __ATOMIC_ACQUIRE) : 0;

    drain_caches(h);
    if (d && asked != d->served) {
        plat_counter_add(&heap_cpu_counters(h)[CPU_drain_served], 1);
        __atomic_store_n(&d->served, asked, __ATOMIC_RELEASE);
    }
    plat_irq_restore(flags);
}

void heap_drain_serve(struct heap *h)
{
    unsigned cpu = plat_cpu_id();
    const struct drain_cpu *d;

    if (!h || cpu >= h->cpus)
        return;
    d = drain_of(h, cpu);
    if (unlikely(__atomic_load_n(&d->asked, __ATOMIC_RELAXED) !=
                 __atomic_load_n(&d->served, __ATOMIC_RELAXED)))
        heap_drain_this_cpu(h);
}

/* What c's CPUs have in common, to its slabs. Interrupts off. */
static void reclaim_common(struct kmem_cache *c)
{
    if (!c->limit)
        return;
    if (c->front->shortage)
        c->front->shortage(c);
    if (c->front->shrink && GUARD_STEP(19))
        (void)c->front->shrink(c);
}

void heap_reclaim(struct heap *h)
{
    u32 n = __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);
    unsigned long flags;
    unsigned visit;

    if (GUARD_STEP(20))
        heap_drain_this_cpu(h);
    flags = plat_irq_save();
    visit = heap_visit_begin(h);
    for (u32 i = 0; i < n; i++)
        if (GUARD(66, cache_alive(h->cache[i])))
            reclaim_common(h->cache[i]);
    /* Only now: sheaves that were freed lay in slabs too. */
    for (u32 i = 0; i < n; i++)
        if (GUARD(67, cache_alive(h->cache[i])) && GUARD_STEP(21))
            slab_shrink(h->cache[i]);
    heap_visit_end(h, visit);
    plat_irq_restore(flags);
}

/* -- what other CPUs hold -- */

/* An object that an owner moves between the two looks is missed; then something was moved, and the caller
 * looks again. In a visit. */
static bool holds_objects(const struct heap *h, unsigned cpu)
{
    u32 n = __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);

    for (u32 i = 0; i < n; i++) {
        const struct kmem_cache *c = h->cache[i];
        const struct cache_cpu *cc;

        if (!cache_alive(c))
            continue;
        cc = cache_cpu(c, cpu);
        /* Whether it is filling first: what has been filled since is counted. */
        if (__atomic_load_n(&cc->filling, __ATOMIC_ACQUIRE) || counter_read(&cc->count) ||
            counter_read(&cc->spare_count))
            return true;
    }
    return false;
}

/* Returns the request to wait for. One that is not served yet is joined: it is served as a whole, with
 * interrupts off, and that is not over yet. */
static u64 ask(struct drain_cpu *d, unsigned cpu)
{
    u64 asked = __atomic_load_n(&d->asked, __ATOMIC_ACQUIRE);

    if (__atomic_load_n(&d->served, __ATOMIC_ACQUIRE) < asked)
        return asked;
    /* Who loses joins the one that won: it was made after this call began. */
    if (!__atomic_compare_exchange_n(&d->asked, &asked, asked + 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return asked;
    if (!plat_kick(cpu) && GUARD_STEP(24))
        rcu_start();
    return asked + 1;
}

struct asked {
    u64 cpus; /* that have not answered, a bit each */
    u64 request[MAX_CPUS];
    bool any, answered;
};

static void ask_all(struct heap *h, struct asked *a)
{
    unsigned visit = heap_visit_begin(h);

    a->cpus = 0;
    a->any = a->answered = false;
    for (unsigned cpu = 0; cpu < h->cpus; cpu++) {
        struct drain_cpu *d = drain_of(h, cpu);

        if (cpu == plat_cpu_id() || !holds_objects(h, cpu))
            continue;
        a->any = true;
        a->request[cpu] = ask(d, cpu);
        if (GUARD(22, __atomic_load_n(&d->served, __ATOMIC_ACQUIRE) >=
                          __atomic_load_n(&d->given_up, __ATOMIC_RELAXED)))
            a->cpus |= (u64)1 << cpu;
    }
    heap_visit_end(h, visit);
}

static void strike_off(struct heap *h, struct asked *a)
{
    for (u64 left = a->cpus; left; left &= left - 1) {
        unsigned cpu = (unsigned)__builtin_ctzll(left);

        if (__atomic_load_n(&drain_of(h, cpu)->served, __ATOMIC_ACQUIRE) < a->request[cpu])
            continue;
        a->cpus &= ~((u64)1 << cpu);
        a->answered = true;
    }
}

static void give_up(struct heap *h, const struct asked *a)
{
    plat_counter_add(&heap_cpu_counters(h)[CPU_drain_timeout], 1);
    for (u64 left = a->cpus; left; left &= left - 1) {
        unsigned cpu = (unsigned)__builtin_ctzll(left);

        __atomic_store_n(&drain_of(h, cpu)->given_up, a->request[cpu], __ATOMIC_RELAXED);
    }
}

/* What a tick would do to who waits, where there is none: others may be short too, and a grace period that
 * this CPU held up would keep the others from looking a second time. */
static void tick(struct heap *h)
{
    unsigned long flags = plat_irq_save();

    heap_drain_serve(h);
    rcu_tick();
    plat_irq_restore(flags);
}

static void wait_for_answers(struct heap *h, struct asked *a, u64 until)
{
    for (;;) {
        strike_off(h, a);
        if (!a->cpus)
            return;
        if (plat_cycles() >= until) {
            give_up(h, a);
            return;
        }
        tick(h);
        plat_relax();
    }
}

/* Asks, and waits if that can be; true: somebody has given back what it held. */
static bool ask_and_wait(struct heap *h, const struct shortage *s, bool wait)
{
    u64 *ctr = heap_cpu_counters(h);
    struct asked a;

    ask_all(h, &a);
    if (!a.any)
        return false;
    plat_counter_add(&ctr[CPU_drain_asked], 1);
    if (!wait || !a.cpus)
        return false;
    plat_counter_add(&ctr[CPU_drain_waited], 1);
    wait_for_answers(h, &a, s->until);
    return a.answered;
}

/* -- what was on its way while a call looked -- */

/* How much that CPU has carried, once it carries nothing. False: that did not come about in time. */
static bool carried(struct heap *h, unsigned cpu, u64 until, bool wait, u64 *sum)
{
    const struct carry_cpu *k = cpu_part(h->carry, PLAT_CPU_STRIDE * cpu);

    for (unsigned turns = 0;; turns++) {
        /* In this order: what has ended had begun, so if the two are equal nothing was under way between. */
        u64 ended = __atomic_load_n(&k->ended, __ATOMIC_ACQUIRE);
        u64 begun = __atomic_load_n(&k->begun, __ATOMIC_ACQUIRE);

        if (begun == ended) {
            *sum += begun;
            return true;
        }
        if (wait ? plat_cycles() >= until : turns >= TURNS_OFF)
            return false;
        if (wait)
            tick(h);
        plat_relax();
    }
}

/* Nothing is on its way at some moment during the call; *moves says how much had been moved until then. */
static bool all_put_down(struct heap *h, u64 until, bool wait, u64 *moves)
{
    u64 over = __atomic_load_n(&h->destroys_over, __ATOMIC_SEQ_CST);

    while (__atomic_load_n(&h->destroys, __ATOMIC_SEQ_CST)) {
        if (!wait || plat_cycles() >= until)
            return false;
        tick(h);
        plat_relax();
        over = __atomic_load_n(&h->destroys_over, __ATOMIC_SEQ_CST);
    }
    *moves = over;
    for (unsigned cpu = 0; cpu < h->cpus; cpu++)
        if (!carried(h, cpu, until, wait, moves))
            return false;
    return true;
}

/* Whether something was moved since the last look, so that the try between may have missed it. */
static bool moved(struct heap *h, struct shortage *s, bool wait)
{
    u64 before = s->moves, now = 0;
    bool seen = s->seen;

    if (!wait && s->tries++ >= TRIES_OFF)
        return false;
    if (!all_put_down(h, s->until, wait, &now))
        return !wait; /* as one try with interrupts off counts; beyond `until` there is none */
    s->seen = true;
    s->moves = now;
    return !seen || now != before;
}

bool heap_drain_others(struct heap *h, struct shortage *s)
{
    bool wait = GUARD(23, !FAULT(no_wait) && plat_may_wait());

    if (h->cpus < 2 || (s->until && plat_cycles() >= s->until))
        return false;
    if (!s->until)
        s->until = plat_cycles() + plat_cycles_hz() / 1000 * WAIT_MS;
    if (ask_and_wait(h, s, wait)) {
        s->seen = false; /* the next try is one among moves, and needs another look */
        return true;
    }
    return GUARD_STEP(68) && moved(h, s, wait);
}

static bool owes(const struct heap *h, unsigned cpu)
{
    const struct drain_cpu *d = drain_of(h, cpu);

    return __atomic_load_n(&d->served, __ATOMIC_ACQUIRE) !=
           __atomic_load_n(&d->asked, __ATOMIC_RELAXED);
}

void heap_drain_settle(struct heap *h)
{
    u64 until = 0;

    for (unsigned cpu = 0; cpu < h->cpus && plat_may_wait(); cpu++)
        while (owes(h, cpu)) {
            if (!until)
                until = plat_cycles() + plat_cycles_hz() / 1000 * WAIT_MS;
            if (plat_cycles() >= until)
                return;
            heap_drain_serve(h);
            plat_relax();
        }
}

/* -- time -- */

void heap_maintain(struct heap *h)
{
    for (u32 i = 0; i < heap_cache_count(h); i++) {
        unsigned long flags = plat_irq_save();
        unsigned visit = heap_visit_begin(h);
        struct kmem_cache *c = heap_cache(h, i);

        if (c && c->limit && c->front->maintain)
            c->front->maintain(c);
        heap_visit_end(h, visit);
        plat_irq_restore(flags);
    }
}

void heap_set_resize_handler(struct heap *h, void (*fn)(const struct resize_report *))
{
    h->resize_handler = fn;
}
