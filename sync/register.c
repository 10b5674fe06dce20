/* register.c: every lock's statistics, by number.
 *
 * An id stands for a (class, owner) name for as long as the boot lasts: a destroyed lock's entry stays, and
 * a new one of the same name gets it back with its counts. So ids are few, and a host that learnt a name
 * never sees it change.
 *
 * Locks of one name share an id, as those of a cache's nodes do: a row is written by its CPU alone, whichever
 * of them it holds, so nothing is lost; what is told is the sum over them, and the larger maximum.
 *
 * Rows are one block, id by id, then CPU by CPU, one cache line each. Before lockstat_init is given memory
 * all locks share a boot row for each CPU. So do locks of a name that came when the register was full: they
 * work, and whoever reads the statistics is told that theirs are missing (LEFT_OUT_locks).
 *
 * Locking: registration is serialised by a word of its own (it cannot use a spinlock, which must
 * be registered). Contexts: thread; boot. Readers take nothing, and follow no pointer to a lock. */
#include "sync_impl.h"
#include "../base/leftout.h"
#include "../base/string.h"

struct entry {
    struct spinlock *first; /* the living locks of that name, by `same`; under busy */
    unsigned living;        /* how many; atomic */
    u8 class; /* with owner: written before entry_count tells of the entry, then constant */
    char owner[LOCK_OWNER_MAX];
};

static struct entry entries[MAX_LOCKS + 1]; /* by id, from 1 */
static unsigned entry_count;                /* atomic */
static u32 busy;                            /* serialises registration */
static struct lock_row boot_rows[MAX_CPUS];
static struct lock_row *all_rows; /* NULL until given */
static unsigned row_cpus = 1;

const char *const lock_class_names[NR_LOCK_CLASSES] = {
#define LOCKCLASS(name, doc) #name,
#include "../base/lockclass.def"
#undef LOCKCLASS
};

static unsigned long register_enter(void)
{
    unsigned long flags = plat_irq_save();

    while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        plat_relax();
    return flags;
}

static void register_leave(unsigned long flags)
{
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    plat_irq_restore(flags);
}

static struct lock_row *rows_of(unsigned id)
{
    return all_rows && id ? &all_rows[(size_t)(id - 1) * row_cpus] : boot_rows;
}

/* The entry of that name, which may be a new one; 0 when the register is full. */
static unsigned entry_for(u8 class, const char *owner)
{
    struct entry *e = &entries[1];
    unsigned id = 1;

    for (; id <= entry_count; id++, e++)
        if (e->class == class && strcmp(e->owner, owner) == 0)
            return id;
    if (id > MAX_LOCKS)
        return 0;
    e->class = class;
    (void)text_copy(e->owner, sizeof(e->owner), owner);
    __atomic_store_n(&entry_count, id, __ATOMIC_RELEASE);
    return id;
}

static void count_living(struct entry *e, int more)
{
    __atomic_store_n(&e->living, e->living + (unsigned)more, __ATOMIC_RELAXED);
}

void spin_init(struct spinlock *l, enum lock_class class, const char *owner)
{
    unsigned long flags;
    unsigned id;

    CHECK_VALUES(strlen(owner) < LOCK_OWNER_MAX, class, strlen(owner));
    *l = (struct spinlock){.class = (u8) class};
    flags = register_enter();
    id = entry_for(l->class, owner);
    l->id = (u16)id;
    l->row = rows_of(id);
    if (id) {
        l->same = entries[id].first;
        entries[id].first = l;
        count_living(&entries[id], 1);
    }
    register_leave(flags);
    if (!id)
        left_out(LEFT_OUT_locks, 1, 0, NULL);
}

void spin_destroy(struct spinlock *l)
{
    unsigned long flags = register_enter();

    CHECK_VALUES(l->holder == 0, l->id, l->holder);
    if (l->id) {
        struct spinlock **at = &entries[l->id].first;

        while (*at && *at != l)
            at = &(*at)->same;
        CHECK_VALUES(*at == l, l->id, l->class);
        *at = l->same;
        count_living(&entries[l->id], -1);
    }
    register_leave(flags);
}

size_t lockstat_bytes(unsigned cpus)
{
    return sizeof(struct lock_row) * MAX_LOCKS * cpus;
}

void lockstat_init(const struct knobs *k, unsigned cpus, void *rows)
{
    unsigned long flags = register_enter();

    CHECK(cpus >= 1 && cpus <= MAX_CPUS);
    sync_config.algorithm = k->lock;
    sync_config.stat = k->lockstat;
    if (rows) {
        row_cpus = cpus;
        all_rows = rows;
        for (unsigned id = 1; id <= entry_count; id++)
            for (struct spinlock *l = entries[id].first; l; l = l->same)
                l->row = rows_of(id);
    }
    register_leave(flags);
}

unsigned lock_count(void)
{
    return __atomic_load_n(&entry_count, __ATOMIC_ACQUIRE);
}

struct lock_stats lock_stats(unsigned id)
{
    const struct entry *e = &entries[id];

    CHECK_VALUES(id >= 1 && id <= lock_count(), id, 0);
    return (struct lock_stats){
        .owner = e->owner,
        .class = e->class,
        .living = __atomic_load_n(&e->living, __ATOMIC_RELAXED),
        .rows = rows_of(id),
    };
}
