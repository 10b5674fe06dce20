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

#define WAIT_MS 500u

static void drain_caches(struct heap *h)
{
    u32 n = __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);

    for (u32 i = 0; i < n; i++)
        if (!__atomic_load_n(&h->cache[i]->dead, __ATOMIC_ACQUIRE))
            cache_drain_cpu(h->cache[i], plat_cpu_id());
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

void heap_reclaim(struct heap *h)
{
    u32 n = __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);
    unsigned long flags;

    if (GUARD_STEP(20))
        heap_drain_this_cpu(h);
    flags = plat_irq_save();
    for (u32 i = 0; i < n; i++) {
        struct kmem_cache *c = h->cache[i];

        if (__atomic_load_n(&c->dead, __ATOMIC_ACQUIRE) || !c->limit)
            continue;
        if (c->front->shortage)
            c->front->shortage(c);
        if (c->front->shrink && GUARD_STEP(19))
            (void)c->front->shrink(c);
    }
    plat_irq_restore(flags);
    /* Only now: sheaves that were freed lay in slabs too. */
    for (u32 i = 0; i < n; i++)
        if (!__atomic_load_n(&h->cache[i]->dead, __ATOMIC_ACQUIRE))
            if (GUARD_STEP(21))
                slab_shrink(h->cache[i]);
}

/* -- what other CPUs hold -- */

/* Racy: an object more or less decides whether it is worth asking. */
static bool holds_objects(const struct heap *h, unsigned cpu)
{
    u32 n = __atomic_load_n(&h->caches, __ATOMIC_ACQUIRE);

    for (u32 i = 0; i < n; i++) {
        const struct kmem_cache *c = h->cache[i];
        const struct cache_cpu *cc;

        if (__atomic_load_n(&c->dead, __ATOMIC_ACQUIRE))
            continue;
        cc = cache_cpu(c, cpu);
        if (counter_read(&cc->count) || counter_read(&cc->spare_count))
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

bool heap_drain_others(struct heap *h, u64 *until)
{
    bool wait = GUARD(23, !FAULT(no_wait) && plat_may_wait());
    struct asked a;
    u64 *ctr;

    if (h->cpus < 2 || (*until && plat_cycles() >= *until))
        return false;
    ask_all(h, &a);
    if (!a.any)
        return false;
    ctr = heap_cpu_counters(h);
    plat_counter_add(&ctr[CPU_drain_asked], 1);
    if (!wait || !a.cpus)
        return false;
    if (!*until)
        *until = plat_cycles() + plat_cycles_hz() / 1000 * WAIT_MS;
    plat_counter_add(&ctr[CPU_drain_waited], 1);
    wait_for_answers(h, &a, *until);
    return a.answered;
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
        struct kmem_cache *c = heap_cache(h, i);
        unsigned long flags;

        if (!c || !c->limit || !c->front->maintain)
            continue;
        flags = plat_irq_save();
        c->front->maintain(c);
        plat_irq_restore(flags);
    }
}

void heap_set_resize_handler(struct heap *h, void (*fn)(const struct resize_report *))
{
    h->resize_handler = fn;
}
