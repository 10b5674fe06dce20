/* test_locks.c: mutual exclusion, statistics and ranks of every lock algorithm, under stress. */
#include "../../sync/sync_impl.h"
#include "test.h"

static const char *const algorithms[] = {"lock=tas", "lock=ticket", "lock=mcs"};

static void configure(const char *line, unsigned cpus, struct lock_row *rows)
{
    struct knobs k;
    struct knob_refusals r = {0};

    REQUIRE(knobs_parse(&k, line, true, &r));
    lockstat_init(&k, cpus, rows);
}

struct shared {
    struct spinlock a, b;
    u64 plain; /* only under a: a lost update or a TSan report is a broken lock */
    u64 both;  /* under a and b */
    unsigned rounds;
    u64 tried;
};

static void pound(void *arg)
{
    struct shared *s = arg;
    u64 mine = 0;

    for (unsigned i = 0; i < s->rounds; i++) {
        unsigned long flags = spin_lock_irqsave(&s->a);

        s->plain++;
        if (i % 8 == 0) {
            spin_lock(&s->b);
            s->both++;
            spin_unlock(&s->b);
        }
        spin_unlock_irqrestore(&s->a, flags);
        flags = plat_irq_save();
        if (spin_trylock(&s->a)) {
            s->plain++;
            mine++;
            spin_unlock(&s->a);
        }
        plat_irq_restore(flags);
    }
    __atomic_fetch_add(&s->tried, mine, __ATOMIC_RELAXED);
}

TEST(exclusion_and_counts)
{
    for (unsigned cpus = 1; cpus <= 4; cpus++)
        for (unsigned i = 0; i < ARRAY_SIZE(algorithms); i++) {
            static struct lock_row rows[MAX_LOCKS * 4];
            struct shared s = {.rounds = test_scale(20000)};
            u64 taken = 0, contended = 0;

            host_test_cpus(cpus);
            memset(rows, 0, sizeof(rows));
            configure(algorithms[i], cpus, rows);
            spin_init(&s.a, LOCKCLASS_cache, "test-a");
            spin_init(&s.b, LOCKCLASS_page, "test-b");
            plat_run_on_cpus(plat_all_cpus(), pound, &s);
            EXPECT_EQ(s.plain, (u64)s.rounds * cpus + s.tried);
            EXPECT_EQ(s.both, (u64)(s.rounds + 7) / 8 * cpus);
            for (unsigned c = 0; c < cpus; c++) {
                taken += s.a.row[c].ctr[LOCK_acquisitions];
                contended += s.a.row[c].ctr[LOCK_contended];
            }
            EXPECT_EQ(taken, s.plain);
            EXPECT_LE(contended, taken);
            if (cpus == 1)
                EXPECT_EQ(contended, 0u);
            spin_destroy(&s.a);
            spin_destroy(&s.b);
        }
}

static struct spinlock handoff;
static u32 holding;

static void hold_then_fight(void *arg)
{
    (void)arg;
    if (plat_cpu_id() == 0) {
        unsigned long flags = spin_lock_irqsave(&handoff);

        __atomic_store_n(&holding, 1, __ATOMIC_RELEASE);
        for (u64 until = plat_cycles() + plat_cycles_hz() / 50; plat_cycles() < until;)
            plat_relax();
        spin_unlock_irqrestore(&handoff, flags);
    } else {
        unsigned long flags;

        while (!__atomic_load_n(&holding, __ATOMIC_ACQUIRE))
            plat_relax();
        flags = spin_lock_irqsave(&handoff);
        spin_unlock_irqrestore(&handoff, flags);
    }
}

/* One CPU holds for 20 ms while the other waits: one contended acquisition, with its wait. On a busy host the waiter
 * may sleep through all of it and then find the lock free; that round says nothing and is done again. */
TEST(contention_is_seen_and_timed)
{
    static struct lock_row rows[MAX_LOCKS * 2];

    for (unsigned i = 0; i < ARRAY_SIZE(algorithms); i++) {
        const u64 *waiter;
        char line[64];

        snprintf(line, sizeof(line), "%s lockstat=time", algorithms[i]);
        host_test_cpus(2);
        memset(rows, 0, sizeof(rows));
        configure(line, 2, rows);
        spin_init(&handoff, LOCKCLASS_cache, "handoff");
        waiter = handoff.row[1].ctr;
        for (unsigned round = 0; round < 50 && waiter[LOCK_contended] == 0; round++) {
            holding = 0;
            plat_run_on_cpus(3, hold_then_fight, NULL);
            EXPECT_EQ(waiter[LOCK_acquisitions], (u64)round + 1);
        }
        EXPECT_EQ(handoff.row[0].ctr[LOCK_contended], 0u);
        EXPECT_EQ(waiter[LOCK_contended], 1u);
        EXPECT_GT(waiter[LOCK_wait_cycles], 0u);
        EXPECT_EQ(waiter[LOCK_wait_cycles], waiter[LOCK_wait_cycles_max]);
        spin_destroy(&handoff);
    }
}

TEST(off_counts_nothing)
{
    static struct lock_row rows[MAX_LOCKS];
    struct spinlock l;

    configure("lockstat=off", 1, rows);
    spin_init(&l, LOCKCLASS_page, "silent");
    for (int i = 0; i < 100; i++) {
        spin_lock(&l);
        spin_unlock(&l);
    }
    EXPECT_EQ(l.row[0].ctr[LOCK_acquisitions], 0u);
    spin_destroy(&l);
    configure("", 1, rows);
}

TEST(a_name_keeps_its_id)
{
    struct spinlock l, m;
    unsigned id;

    spin_init(&l, LOCKCLASS_cache, "phoenix");
    id = l.id;
    EXPECT_EQ(lock_by_id(id), (const struct spinlock *)&l);
    spin_init(&m, LOCKCLASS_cache, "phoenix");
    EXPECT_NE(m.id, id); /* two at a time are two */
    spin_destroy(&m);
    spin_destroy(&l);
    EXPECT_NULL(lock_by_id(id));
    for (int i = 0; i < 1000; i++) {
        spin_init(&l, LOCKCLASS_cache, "phoenix");
        EXPECT_EQ(l.id, id);
        spin_destroy(&l);
    }
    EXPECT_LE(lock_count(), (unsigned)MAX_LOCKS);
}

static void wrong_order(void *arg)
{
    struct spinlock *l = arg;

    spin_lock(&l[1]);
    spin_lock(&l[0]);
}

static void right_order(void *arg)
{
    struct spinlock *l = arg;

    spin_lock(&l[0]);
    spin_lock(&l[1]);
    spin_unlock(&l[0]); /* out of order releases are legal */
    spin_unlock(&l[1]);
}

TEST(rank_violations_stop_the_machine)
{
    struct spinlock l[2];

    spin_init(&l[0], LOCKCLASS_cache, "outer");
    spin_init(&l[1], LOCKCLASS_page, "inner");
    EXPECT_EQ(test_panic_of(right_order, l), (unsigned)PANIC_NONE);
    EXPECT_EQ(test_panic_of(wrong_order, l), (unsigned)PANIC_lock_rank);
    spin_destroy(&l[0]);
    spin_destroy(&l[1]);
}
