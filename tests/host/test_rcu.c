/* test_rcu.c: grace periods wait for those who were reading and for nobody else; callbacks keep
 * their order; idle CPUs cost nothing; silence is told. */
#include "../../sync/sync.h"
#include "test.h"

static u64 hz_ms(unsigned ms)
{
    return plat_cycles_hz() / 1000 * ms;
}

struct note {
    struct rcu_head head;
    u32 order; /* 0: has not run */
    u32 cpu;
};
static u32 order; /* atomic */

static void noted(struct rcu_head *head)
{
    struct note *n = container_of(head, struct note, head);

    n->cpu = plat_cpu_id();
    __atomic_store_n(&n->order, __atomic_add_fetch(&order, 1, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
}

static bool ran(const struct note *n)
{
    return __atomic_load_n(&n->order, __ATOMIC_ACQUIRE) != 0;
}

TEST(alone_a_quiescent_state_is_enough)
{
    struct note a = {.order = 0}, b = {.order = 0};
    u64 before = rcu_grace_periods();

    call_rcu(&a.head, noted);
    call_rcu(&b.head, noted);
    EXPECT_FALSE(ran(&a));
    EXPECT_EQ(rcu_backlog(), 2u);
    rcu_quiescent();
    rcu_quiescent();
    EXPECT_TRUE(ran(&a));
    EXPECT_EQ(b.order, a.order + 1);
    EXPECT_EQ(rcu_backlog(), 0u);
    EXPECT_GT(rcu_grace_periods(), before);
}

TEST(a_read_section_lets_no_tick_through)
{
    struct note a = {.order = 0};

    rcu_read_lock();
    rcu_read_lock();
    call_rcu(&a.head, noted);
    rcu_read_unlock();
    for (unsigned i = 0; i < 10; i++)
        rcu_tick();
    EXPECT_FALSE(ran(&a));
    rcu_read_unlock();
    rcu_tick();
    rcu_tick();
    EXPECT_TRUE(ran(&a));
}

/* CPU 1 reads; CPU 0 must not run its callback before CPU 1 has stopped, however often it asks. */
struct stand {
    struct note a;
    u32 reading, ask_done, stop; /* atomic */
    bool early;
};

/* CPU 0's part: asks while the other one reads, and again when it has stopped. */
static void write_beside(struct stand *s)
{
    u64 long_enough = hz_ms(5);

    while (!__atomic_load_n(&s->reading, __ATOMIC_ACQUIRE))
        plat_relax();
    call_rcu(&s->a.head, noted);
    for (u64 until = plat_cycles() + long_enough; plat_cycles() < until;) /* and looks at it */
        rcu_quiescent();
    s->early = ran(&s->a);
    __atomic_store_n(&s->ask_done, 1, __ATOMIC_RELEASE);
    while (!ran(&s->a)) {
        rcu_quiescent();
        plat_relax();
    }
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
}

static void reader_and_writer(void *arg)
{
    struct stand *s = arg;

    if (plat_cpu_id() == 1) {
        rcu_read_lock();
        __atomic_store_n(&s->reading, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&s->ask_done, __ATOMIC_ACQUIRE))
            plat_relax();
        rcu_read_unlock();
        while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
            rcu_quiescent();
            plat_relax();
        }
        return;
    }
    write_beside(s);
}

TEST(a_reader_on_another_cpu_is_waited_for)
{
    struct stand s = {.stop = 0};

    host_test_cpus(2);
    plat_run_on_cpus(3, reader_and_writer, &s);
    EXPECT_FALSE(s.early);
    EXPECT_TRUE(ran(&s.a));
    EXPECT_EQ(s.a.cpu, 0u);
}

/* CPU 1 does not report, as if the host did not let it run, but it reads nothing. */
static void stopped_and_writer(void *arg)
{
    struct stand *s = arg;

    if (plat_cpu_id() == 0) {
        write_beside(s);
        return;
    }
    rcu_read_lock();
    rcu_read_unlock();
    __atomic_store_n(&s->reading, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE))
        plat_relax();
}

TEST(a_cpu_that_reads_nothing_is_not_waited_for)
{
    u64 before = counter_read(&rcu_cpu_row(0)[CPU_rcu_struck_off]);
    struct stand s = {.stop = 0};

    if (!plat_order_others()) {
        printf("       this host has no membarrier: not tried\n");
        return;
    }
    host_test_cpus(2);
    plat_run_on_cpus(3, stopped_and_writer, &s);
    EXPECT_TRUE(ran(&s.a));
    EXPECT_GT(counter_read(&rcu_cpu_row(0)[CPU_rcu_struck_off]), before);
}

/* A callback given while a grace period runs, which began before it, waits for the next one. */
struct late {
    struct note first, second;
    u32 step; /* atomic */
    bool early;
};

static void late_part(void *arg)
{
    struct late *l = arg;

    if (plat_cpu_id() == 1) {
        rcu_read_lock(); /* holds up the first */
        __atomic_store_n(&l->step, 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&l->step, __ATOMIC_ACQUIRE) != 2)
            plat_relax();
        rcu_read_unlock();
        rcu_context_switch(); /* the first is over, and the second, asked for, begins... */
        rcu_read_lock();      /* ...but what is read from here on is not this one's to wait for */
        __atomic_store_n(&l->step, 3, __ATOMIC_RELEASE);
        while (__atomic_load_n(&l->step, __ATOMIC_ACQUIRE) != 4)
            plat_relax();
        rcu_read_unlock();
        while (!ran(&l->second)) {
            rcu_quiescent();
            plat_relax();
        }
        return;
    }
    while (__atomic_load_n(&l->step, __ATOMIC_ACQUIRE) != 1)
        plat_relax();
    call_rcu(&l->first.head, noted);
    rcu_quiescent(); /* begins the first; CPU 1 holds it up */
    call_rcu(&l->second.head, noted);
    rcu_quiescent();
    __atomic_store_n(&l->step, 2, __ATOMIC_RELEASE);
    while (__atomic_load_n(&l->step, __ATOMIC_ACQUIRE) != 3)
        plat_relax();
    rcu_quiescent(); /* the first is over; asks for one that begins now, while CPU 1 reads again */
    for (unsigned i = 0; i < 1000; i++)
        rcu_quiescent();
    EXPECT_TRUE(ran(&l->first));
    l->early = ran(&l->second);
    __atomic_store_n(&l->step, 4, __ATOMIC_RELEASE);
    while (!ran(&l->second)) {
        rcu_quiescent();
        plat_relax();
    }
}

TEST(what_comes_in_the_middle_waits_for_the_next)
{
    struct late l = {.step = 0};

    host_test_cpus(2);
    plat_run_on_cpus(3, late_part, &l);
    EXPECT_FALSE(l.early);
}

TEST(an_idle_cpu_is_not_waited_for)
{
    struct note a = {.order = 0};

    host_test_cpus(4); /* 1 to 3 have no job */
    call_rcu(&a.head, noted);
    rcu_quiescent();
    rcu_quiescent();
    EXPECT_TRUE(ran(&a));
}

/* An interrupt on an idle CPU reads: it counts while it lasts, and not afterwards. */
static void idle_with_interrupt(void *arg)
{
    struct stand *s = arg;

    if (plat_cpu_id() == 1) {
        bool idle;

        rcu_idle_enter();
        idle = rcu_irq_enter();
        EXPECT_TRUE(idle);
        EXPECT_FALSE(rcu_irq_enter());
        rcu_read_lock();
        __atomic_store_n(&s->reading, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&s->ask_done, __ATOMIC_ACQUIRE))
            plat_relax();
        rcu_read_unlock();
        if (idle)
            rcu_idle_enter();
        while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE))
            plat_relax(); /* passes no quiescent state but that one */
        rcu_idle_exit();
        return;
    }
    write_beside(s);
}

TEST(an_interrupt_on_an_idle_cpu_is_waited_for)
{
    struct stand s = {.stop = 0};

    host_test_cpus(2);
    plat_run_on_cpus(3, idle_with_interrupt, &s);
    EXPECT_FALSE(s.early);
}

/* A callback that is not done goes first again. */
static unsigned again_left;
static struct note after_again;

static void again(struct rcu_head *head)
{
    EXPECT_FALSE(ran(&after_again));
    if (--again_left)
        rcu_call_again(head, again);
}

TEST(a_callback_that_is_not_done_goes_first_again)
{
    struct rcu_head head;

    again_left = 100; /* more than run at one quiescent state */
    after_again.order = 0;
    call_rcu(&head, again);
    call_rcu(&after_again.head, noted);
    rcu_quiescent();
    rcu_quiescent();
    EXPECT_GT(again_left, 0u);
    while (!ran(&after_again))
        rcu_quiescent();
    EXPECT_EQ(again_left, 0u);
}

/* Readers look at what is published; the writer replaces it and spoils the old one when its grace
 * period is over. Nobody may see a spoiled one. */
#define THINGS 64u
#define SOUND  0x50a11du
struct thing {
    struct rcu_head head;
    u64 sound; /* plain: RCU alone orders its readers and its spoiler, and TSan watches */
    u32 free;  /* atomic */
};

struct stress {
    struct thing thing[MAX_CPUS][THINGS];
    struct thing *shown; /* atomic */
    unsigned rounds;
    u32 writers; /* atomic: that are not done */
};

static void spoil(struct rcu_head *head)
{
    struct thing *t = container_of(head, struct thing, head);

    t->sound = 0;
    __atomic_store_n(&t->free, 1, __ATOMIC_RELEASE);
}

static void read_once(struct stress *s)
{
    struct thing *t;

    rcu_read_lock();
    t = __atomic_load_n(&s->shown, __ATOMIC_ACQUIRE);
    if (t)
        EXPECT_EQ(t->sound, (u64)SOUND);
    rcu_read_unlock();
}

static void stress_part(void *arg)
{
    struct stress *s = arg;
    struct thing *own = s->thing[plat_cpu_id()];

    for (unsigned i = 0; i < s->rounds; i++) {
        struct thing *t = &own[i % THINGS], *old;

        while (!__atomic_load_n(&t->free, __ATOMIC_ACQUIRE)) {
            read_once(s);
            rcu_quiescent();
        }
        t->free = 0;
        t->sound = SOUND;
        old = __atomic_exchange_n(&s->shown, t, __ATOMIC_ACQ_REL);
        if (old)
            call_rcu(&old->head, spoil);
        for (unsigned k = 0; k < 5; k++)
            read_once(s);
        if (i % 7 == 0) { /* some go idle now and then */
            rcu_idle_enter();
            plat_relax();
            rcu_idle_exit();
        }
        rcu_quiescent();
    }
    __atomic_fetch_sub(&s->writers, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&s->writers, __ATOMIC_ACQUIRE)) {
        read_once(s);
        rcu_quiescent();
    }
}

TEST(no_reader_sees_what_was_freed)
{
    static struct stress s;

    for (unsigned cpus = 2; cpus <= 4; cpus += 2) {
        host_test_cpus(cpus);
        memset(&s, 0, sizeof(s));
        s.rounds = test_scale(40000);
        s.writers = cpus;
        for (unsigned i = 0; i < MAX_CPUS; i++)
            for (unsigned k = 0; k < THINGS; k++)
                s.thing[i][k].free = 1;
        plat_run_on_cpus(plat_all_cpus(), stress_part, &s);
        rcu_barrier();
        EXPECT_EQ(rcu_backlog(), 0u);
    }
}

static struct note many[4][200];

static void give_many(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 200; i++)
        call_rcu(&many[plat_cpu_id()][i].head, noted);
}

TEST(a_barrier_waits_for_all_cpus)
{
    host_test_cpus(4);
    memset(many, 0, sizeof(many));
    plat_run_on_cpus(plat_all_cpus(), give_many, NULL);
    EXPECT_EQ(rcu_backlog(), 800u);
    rcu_barrier();
    for (unsigned cpu = 0; cpu < 4; cpu++)
        for (unsigned i = 0; i < 200; i++) {
            EXPECT_TRUE(ran(&many[cpu][i]));
            EXPECT_EQ(many[cpu][i].cpu, cpu);
            if (i)
                EXPECT_GT(many[cpu][i].order, many[cpu][i - 1].order);
        }
    EXPECT_EQ(rcu_backlog(), 0u);
}

static u32 silent_cpus; /* atomic: mask */
static u32 silent_told; /* atomic */
static u32 silent_now;  /* atomic: CPU 1 is */

static void on_silence(unsigned cpu, u64 cycles)
{
    __atomic_fetch_or(&silent_cpus, 1u << cpu, __ATOMIC_RELAXED);
    __atomic_fetch_add(&silent_told, 1, __ATOMIC_RELAXED);
    EXPECT_GE(cycles, plat_cycles_hz());
}

static void be_silent(void *arg)
{
    unsigned ms = *(unsigned *)arg;

    if (plat_cpu_id() == 1) {
        u64 until = plat_cycles() + hz_ms(ms);

        rcu_read_lock();
        __atomic_store_n(&silent_now, 1, __ATOMIC_RELEASE);
        while (plat_cycles() < until)
            plat_relax();
        rcu_read_unlock();
    } else {
        while (!__atomic_load_n(&silent_now, __ATOMIC_ACQUIRE))
            plat_relax();
        synchronize_rcu();
    }
}

TEST(who_is_silent_for_a_second_is_named_once)
{
    unsigned ms = 300;

    host_test_cpus(3);
    rcu_set_silent_handler(on_silence);
    silent_cpus = silent_told = silent_now = 0;
    plat_run_on_cpus(plat_all_cpus(), be_silent, &ms);
    EXPECT_EQ(silent_told, 0u);
    silent_now = 0;
    ms = 1500;
    plat_run_on_cpus(plat_all_cpus(), be_silent, &ms);
    EXPECT_EQ(silent_cpus, 2u);
    EXPECT_EQ(silent_told, 1u);
    rcu_set_silent_handler(NULL);
    rcu_barrier();
}

static void quiescent_inside(void *arg)
{
    (void)arg;
    rcu_read_lock();
    rcu_tick();
    rcu_context_switch();
}

TEST(a_switch_inside_a_read_section_stops_a_debug_kernel)
{
#ifdef HAYLOFT_DEBUG
    EXPECT_EQ(test_panic_of(quiescent_inside, NULL), (unsigned)PANIC_check_failed);
#else
    EXPECT_EQ(test_panic_of(quiescent_inside, NULL), (unsigned)PANIC_NONE);
#endif
}
