/* register.c: every lock there is, by number, with its statistics rows.
 *
 * An id stands for a (class, owner) name for as long as the boot lasts: a destroyed lock keeps its
 * entry, and a new one of the same name gets it back with its counts. So ids are few, and a host
 * that learnt a name never sees it change.
 *
 * Rows are one block, lock by lock, then CPU by CPU, one cache line each. Before lockstat_init is
 * given memory all locks share a boot row for each CPU.
 *
 * Locking: registration is serialised by a word of its own (it cannot use a spinlock, which must
 * be registered). Contexts: thread; boot. Readers take nothing. */
#include "sync_impl.h"

struct entry {
    struct spinlock *lock; /* NULL: destroyed; atomic */
    u8 class;
    char owner[sizeof(((struct spinlock *)0)->owner)];
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

static bool same_text(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* The entry that this name had, or a new one; 0 when the register is full. */
static unsigned entry_for(u8 class, const char *owner)
{
    for (unsigned id = 1; id <= entry_count; id++)
        if (!entries[id].lock && entries[id].class == class && same_text(entries[id].owner, owner))
            return id;
    return entry_count < MAX_LOCKS ? entry_count + 1 : 0;
}

void spin_init(struct spinlock *l, enum lock_class class, const char *owner)
{
    unsigned long flags;
    unsigned id, i;

    *l = (struct spinlock){.class = (u8) class};
    for (i = 0; owner[i] && i + 1 < sizeof(l->owner); i++)
        l->owner[i] = owner[i];
    flags = register_enter();
    id = entry_for(l->class, l->owner);
    l->id = (u16)id;
    l->row = rows_of(id);
    if (id) {
        struct entry *e = &entries[id];

        e->class = l->class;
        for (i = 0; i < sizeof(e->owner); i++)
            e->owner[i] = l->owner[i];
        __atomic_store_n(&e->lock, l, __ATOMIC_RELEASE);
        if (id > entry_count)
            __atomic_store_n(&entry_count, id, __ATOMIC_RELEASE);
    }
    register_leave(flags);
}

void spin_destroy(struct spinlock *l)
{
    unsigned long flags = register_enter();

    CHECK_VALUES(l->holder == 0, l->id, l->holder);
    if (l->id)
        __atomic_store_n(&entries[l->id].lock, NULL, __ATOMIC_RELEASE);
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
            if (entries[id].lock)
                entries[id].lock->row = rows_of(id);
    }
    register_leave(flags);
}

unsigned lock_count(void)
{
    return __atomic_load_n(&entry_count, __ATOMIC_ACQUIRE);
}

const struct spinlock *lock_by_id(unsigned id)
{
    CHECK_VALUES(id >= 1 && id <= MAX_LOCKS, id, 0);
    return __atomic_load_n(&entries[id].lock, __ATOMIC_ACQUIRE);
}
