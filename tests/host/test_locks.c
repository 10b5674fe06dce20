/* test_locks.c: mutual exclusion, statistics and ranks of every lock algorithm, under stress. */
#include "../../base/leftout.h"
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
    EXPECT_STR(lock_stats(id).owner, "phoenix");
    EXPECT_EQ(lock_stats(id).class, LOCKCLASS_cache);
    EXPECT_EQ(lock_stats(id).living, 1u);
    spin_init(&m, LOCKCLASS_page, "phoenix"); /* of another class */
    EXPECT_NE(m.id, id);
    spin_destroy(&m);
    spin_destroy(&l);
    EXPECT_EQ(lock_stats(id).living, 0u);
    for (int i = 0; i < 1000; i++) {
        spin_init(&l, LOCKCLASS_cache, "phoenix");
        EXPECT_EQ(l.id, id);
        spin_destroy(&l);
    }
    EXPECT_LE(lock_count(), (unsigned)MAX_LOCKS);
}

/* A cache's nodes: locks of one name, held by several CPUs at once. */
static struct spinlock twin[2];

static void hold_your_own(void *arg)
{
    struct spinlock *l = &twin[plat_cpu_id() % 2];

    for (unsigned i = 0; i < *(unsigned *)arg; i++) {
        unsigned long flags = spin_lock_irqsave(l);

        spin_unlock_irqrestore(l, flags);
    }
}

TEST(locks_of_one_name_share_an_id_and_lose_no_count)
{
    static struct lock_row rows[MAX_LOCKS * 4], later[MAX_LOCKS * 4];
    unsigned n = test_scale(20000);

    for (unsigned i = 0; i < ARRAY_SIZE(algorithms); i++) {
        struct lock_stats s;
        char line[64];

        snprintf(line, sizeof(line), "%s lockstat=time", algorithms[i]);
        host_test_cpus(4);
        memset(rows, 0, sizeof(rows));
        memset(later, 0, sizeof(later));
        configure(line, 4, rows);
        spin_init(&twin[0], LOCKCLASS_cache, "twin");
        spin_init(&twin[1], LOCKCLASS_cache, "twin");
        EXPECT_EQ(twin[0].id, twin[1].id);
        EXPECT_EQ(lock_stats(twin[0].id).living, 2u);
        plat_run_on_cpus(plat_all_cpus(), hold_your_own, &n);
        s = lock_stats(twin[0].id);
        for (unsigned cpu = 0; cpu < 4; cpu++) {
            const u64 *ctr = s.rows[cpu].ctr;

            EXPECT_EQ(ctr[LOCK_acquisitions], n);
            EXPECT_EQ(ctr[LOCK_hold_samples], n / 64);
            EXPECT_GE(ctr[LOCK_hold_cycles], ctr[LOCK_hold_cycles_max]);
            EXPECT_GE(ctr[LOCK_hold_cycles_max] * (n / 64), ctr[LOCK_hold_cycles]);
            EXPECT_LE(ctr[LOCK_contended], n);
        }
        configure(
            line, 4,
            later); /* all living locks of a name move to new rows, the others are left alone */
        EXPECT_EQ(twin[0].row, lock_stats(twin[0].id).rows);
        EXPECT_EQ(twin[1].row, twin[0].row);
        spin_destroy(&twin[0]);
        EXPECT_EQ(lock_stats(twin[1].id).living, 1u);
        configure(line, 4, rows);
        EXPECT_EQ(twin[1].row, lock_stats(twin[1].id).rows);
        EXPECT_NE(twin[0].row, twin[1].row);
        spin_destroy(&twin[1]);
        EXPECT_EQ(lock_stats(twin[1].id).living, 0u);
    }
    configure("", 1, rows);
}

/* In a process of its own: the register stays full. */
static void fill_the_register(void *arg)
{
    u64 before = left_out_read(LEFT_OUT_locks).amount;
    unsigned room = MAX_LOCKS - lock_count();
    struct spinlock l;
    char name[LOCK_OWNER_MAX];

    (void)arg;
    for (unsigned i = 0; i < room + 3; i++) {
        snprintf(name, sizeof(name), "filler-%u", i);
        spin_init(&l, LOCKCLASS_page, name);
        CHECK_VALUES((l.id != 0) == (i < room), l.id, i);
        spin_lock(&l); /* it works all the same */
        CHECK(spin_held_by_me(&l));
        spin_unlock(&l);
        spin_destroy(&l);
    }
    CHECK_VALUES(left_out_read(LEFT_OUT_locks).amount == before + 3, before, room);
    CHECK(left_out_descs[LEFT_OUT_locks].voids);
    spin_init(&l, LOCKCLASS_page, "filler-0"); /* a name that has an id keeps it */
    CHECK(l.id);
    CHECK(left_out_read(LEFT_OUT_locks).amount == before + 3);
}

TEST(a_full_register_is_told)
{
    EXPECT_EQ(test_panic_of(fill_the_register, NULL), (unsigned)PANIC_NONE);
}

static void name_too_long(void *arg)
{
    struct spinlock l;

    (void)arg;
    spin_init(&l, LOCKCLASS_page, "a name of thirty-two characters!");
}

TEST(no_name_is_cut)
{
    EXPECT_EQ(test_panic_of(name_too_long, NULL), (unsigned)PANIC_check_failed);
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
