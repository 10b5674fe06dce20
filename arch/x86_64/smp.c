/* smp.c: starting the other CPUs, one after the other.
 *
 * A start is INIT, then a start-up interrupt naming the trampoline's page, then another if the
 * first was not heard. The mailbox in that page (trampoline.S) says for whom the start is; the CPU
 * that claims it comes up on a stack and an area of its own, says so, lets its clock be compared,
 * and waits (halted: spinning, it would take a host's CPU from the next one's start). Only when no
 * more CPUs will come is their number published and are they let into kernel_cpu_started(): up to
 * then plat_cpu_count() is 1, and whoever allocates meanwhile is the boot CPU.
 *
 * A CPU can be given up on at any point of this, and the boot goes on without it; whenever it wakes
 * up, it shares nothing with anybody and finds the order to stay away. For that, its stack slot,
 * its memory and its TSS go by its place in the firmware's list, and the words that it exchanges
 * with the boot CPU lie in its own area. Only its number, which goes by how many came before, is
 * given to the next. The one thing that CPUs have in common is the mailbox: a CPU that claimed it
 * and did not say that it has read it might still read what is meant for another, so nobody is
 * started after such a one.
 *
 * How long is too long? A host under load may keep a vCPU from running for seconds, so a stretch of
 * time proves nothing by itself. But the host that starves one CPU of a machine starves the others:
 * so the boot CPU sleeps in short naps (which also leaves the host's CPU to the one it waits for)
 * and gives up only when both the time is over and it was itself woken often enough.
 *
 * A CPU that differs from CPU 0 in what matters (alike.c) says in what, and is left out: it would do the
 * same work at another price, or fault. It halts where it is, since nothing is known of its local APIC.
 *
 * Clocks: the boot CPU asks, the other stores its time and answers. The quickest of many round
 * trips bounds the other's lead within half its length; a lead smaller than that cannot be told
 * from none and counts as 0.
 *
 * Locking: none; the words of struct cpu_start are written by one side each. Contexts: thread, boot
 * CPU, interrupts off but in naps; smp_entry() on the started CPU. */
#include "cpu.h"

#include "../../base/string.h"

#define NAP_US        1000u
#define NAPS_ONE_IN   10u       /* a wait must have had a tenth of the naps that fit into it */
#define SILENT_US     3000000u  /* nobody came: it may not exist */
#define SILENT_MIN    200000u   /* once SILENT_SUM is spent on others */
#define SILENT_SUM    10000000u /* for all that never come, so that many are no hang */
#define STALLED_US    10000000u /* it came, so it exists */
#define SKEW_LIMIT_US 20000u
#define SKEW_TRIPS    100u

unsigned x86_cpu_count = 1;

extern const u8 trampoline_start[], trampoline_end[], trampoline_prot[], trampoline_long[];

static u64 trampoline; /* physical; 0: none */
static u64 cr3;
static struct alike alike_model; /* CPU 0 */

/* What the started CPU answers; 1 to SKEW_TRIPS are round trips. */
#define HERE   (~0u)
#define PARKED (~1u)

size_t machine_cpu_bytes(void)
{
    return round_up(sizeof(struct cpu_area), PAGE_SIZE) + STACK_BYTES;
}

static u64 cycles_ordered(void)
{
    asm volatile("lfence" : : : "memory");
    return plat_cycles();
}

static void answer(struct cpu_area *a, u32 with)
{
    __atomic_store_n(&a->start.answer, with, __ATOMIC_RELEASE);
}

static u32 order(const struct cpu_area *a)
{
    return __atomic_load_n(&a->start.order, __ATOMIC_ACQUIRE);
}

static void answer_skew(struct cpu_area *a)
{
    u32 answered = 0;

    while (order(a) == CPU_COMPARE) {
        u32 ask = __atomic_load_n(&a->start.ask, __ATOMIC_ACQUIRE);

        if (ask == answered)
            continue;
        a->start.cycles = cycles_ordered();
        answered = ask;
        answer(a, ask);
    }
}

/* The started CPU, on its own stack, under the trampoline's tables. Its number may have passed to
 * another by now, so nothing here goes by it. */
static NORETURN void smp_entry(void)
{
    struct cpu_area *a = (struct cpu_area *)x86_rdmsr(MSR_GS_BASE);

    paging_load();
    cpu_load(a);
    if (!alike_make(&cpu_self, &alike_model, a->start.trouble, sizeof(a->start.trouble))) {
        answer(a, HERE);
        machine_halt();
    }
    lapic_enable();
    answer(a, HERE);
    lapic_ipi(cpu_area_boot.apic_id, VECTOR_WAKE);
    answer_skew(a);
    answer(a, PARKED);
    lapic_ipi(cpu_area_boot.apic_id, VECTOR_WAKE);
    while (order(a) == CPU_PARK) {
        machine_idle();
        x86_cli();
    }
    if (order(a) == CPU_STAY_AWAY)
        machine_halt();
    kernel_cpu_started(a->id);
}

static void mail_u32(unsigned offset, u32 v)
{
    __atomic_store_n((u32 *)((u8 *)direct(trampoline) + offset), v, __ATOMIC_RELEASE);
}

static void mail_u64(unsigned offset, u64 v)
{
    memcpy((u8 *)direct(trampoline) + offset, &v, sizeof(v));
}

static void mail_far(unsigned offset, u64 to, u16 selector)
{
    u32 low = (u32)to;

    memcpy((u8 *)direct(trampoline) + offset, &low, sizeof(low));
    memcpy((u8 *)direct(trampoline) + offset + 4, &selector, sizeof(selector));
}

void smp_init(u64 page)
{
    trampoline = page;
}

/* What is the same for every CPU. */
static void trampoline_install(void)
{
    static const u64 flat[3] = {0, 0x00cf9b000000ffff, 0x00cf93000000ffff};
    static const u64 wide = 0x00af9b000000ffff;
    u64 gdt = trampoline + MAIL_GDT;
    u16 limit = 4 * 8 - 1;

    memcpy(direct(trampoline), trampoline_start, (size_t)(trampoline_end - trampoline_start));
    memcpy(direct(gdt), flat, sizeof(flat));
    memcpy((u8 *)direct(gdt) + sizeof(flat), &wide, sizeof(wide));
    memcpy((u8 *)direct(trampoline) + MAIL_GDTR, &limit, sizeof(limit));
    memcpy((u8 *)direct(trampoline) + MAIL_GDTR + 2, &gdt, 4);
    mail_far(MAIL_FAR32, trampoline + (u64)(trampoline_prot - trampoline_start), 0x08);
    mail_far(MAIL_FAR64, trampoline + (u64)(trampoline_long - trampoline_start), 0x18);
    cr3 = paging_trampoline();
    mail_u32(MAIL_CR3, (u32)cr3);
    mail_u32(MAIL_EFER, (u32)paging_features());
    mail_u64(MAIL_ENTRY, (u64)smp_entry);
}

static void sleep_us(u64 us)
{
    u64 start = plat_cycles(), length = clock_cycles_of_us(us);

    while (plat_cycles() - start < length)
        lapic_nap(NAP_US);
}

static bool wait_answer(const struct cpu_area *a, u32 wanted, u64 us)
{
    u64 start = plat_cycles(), limit = clock_cycles_of_us(us);
    u64 naps_least = us / NAP_US / NAPS_ONE_IN;

    for (u64 naps = 0;; naps++) {
        /* The time before the answer: between the two this CPU may not have run for long. */
        bool late = naps >= naps_least && plat_cycles() - start >= limit;

        if (__atomic_load_n(&a->start.answer, __ATOMIC_ACQUIRE) == wanted)
            return true;
        if (late)
            return false;
        lapic_nap(NAP_US);
    }
}

static u32 mail_state(void)
{
    return __atomic_load_n((u32 *)((u8 *)direct(trampoline) + MAIL_STATE), __ATOMIC_ACQUIRE);
}

/* True if nobody will come any more for the start that is in the mailbox. */
static bool mail_withdraw(void)
{
    u32 waiting = MAIL_WAITING;

    return __atomic_compare_exchange_n((u32 *)((u8 *)direct(trampoline) + MAIL_STATE), &waiting,
                                       MAIL_WITHDRAWN, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void call(const struct cpu_area *a, void *stack_top)
{
    mail_u32(MAIL_APIC_ID, a->apic_id);
    mail_u64(MAIL_STACK, (u64)stack_top);
    mail_u64(MAIL_AREA, (u64)a);
    mail_u32(MAIL_STATE, MAIL_WAITING);

    lapic_ipi(a->apic_id, LAPIC_INIT);
    sleep_us(10000);
    lapic_ipi(a->apic_id, LAPIC_STARTUP | (u32)(trampoline >> 12));
}

/* NULL if the CPU is up, or why it is left out. */
static const char *start_one(struct cpu_area *a, void *stack_top)
{
    static u64 silence = SILENT_SUM;
    u64 patience = MAX((u64)SILENT_MIN, MIN((u64)SILENT_US, silence));

    call(a, stack_top);
    if (wait_answer(a, HERE, NAP_US))
        return NULL;
    if (mail_state() == MAIL_WAITING)
        lapic_ipi(a->apic_id, LAPIC_STARTUP | (u32)(trampoline >> 12));
    if (wait_answer(a, HERE, patience))
        return NULL;
    if (mail_withdraw()) {
        silence -= MIN(silence, patience);
        return "it did not answer";
    }
    return wait_answer(a, HERE, STALLED_US) ? NULL : "it stopped in the middle of its start";
}

static i64 skew_trips(struct cpu_area *a)
{
    u64 begin = plat_cycles(), limit = clock_cycles_of_us(SKEW_LIMIT_US), best = ~(u64)0;
    i64 lead = 0;

    for (u32 trip = 1; trip <= SKEW_TRIPS && plat_cycles() - begin < limit; trip++) {
        u64 sent = cycles_ordered();

        __atomic_store_n(&a->start.ask, trip, __ATOMIC_RELEASE);
        while (__atomic_load_n(&a->start.answer, __ATOMIC_ACQUIRE) != trip)
            if (plat_cycles() - begin > limit)
                return lead;
        u64 back = cycles_ordered(), length = back - sent;
        if (length >= best)
            continue;
        best = length;
        lead = (i64)(a->start.cycles - sent - length / 2);
        if ((u64)(lead < 0 ? -lead : lead) <= length / 2)
            lead = 0;
    }
    return lead;
}

static void give_order(struct cpu_area *a, u32 what)
{
    __atomic_store_n(&a->start.order, what, __ATOMIC_RELEASE);
}

/* NULL if the CPU is up, compared and waiting. */
static const char *bring_up(struct boot_cpu *c, struct cpu_area *a, void *stack_top)
{
    const char *why = start_one(a, stack_top);

    if (!why && a->start.trouble[0])
        why = a->start.trouble;
    if (!why) {
        c->tsc_skew = skew_trips(a);
        give_order(a, CPU_PARK);
        if (!wait_answer(a, PARKED, STALLED_US))
            why = "it stopped while clocks were compared";
    }
    if (why)
        give_order(a, CPU_STAY_AWAY);
    return why;
}

static struct cpu_area *area_init(u8 *memory, u32 apic_id, unsigned place, unsigned cpu)
{
    struct cpu_area *a = (struct cpu_area *)memory;

    a->id = cpu;
    a->place = place;
    a->offset = cpu * PLAT_CPU_STRIDE;
    a->preempt = PREEMPT_NOT_WANTED;
    a->apic_id = apic_id;
    cpu_areas[cpu] = a;
    return a;
}

/* CPU numbers are places in info->cpu[]: those that did not come move behind those that did. */
static void number(struct bootinfo *info, unsigned place, unsigned cpu)
{
    struct boot_cpu come = info->cpu[place];

    come.started = true;
    info->cpu[place] = info->cpu[cpu];
    info->cpu[cpu] = come;
}

static void release_all(unsigned cpus)
{
    for (unsigned cpu = 1; cpu < cpus; cpu++) {
        give_order(cpu_areas[cpu], CPU_GO);
        lapic_ipi(cpu_areas[cpu]->apic_id, VECTOR_WAKE);
    }
}

unsigned machine_start_cpus(struct bootinfo *info, unsigned limit, void *memory)
{
    size_t area_bytes = round_up(sizeof(struct cpu_area), PAGE_SIZE);
    unsigned n = 1, found = MIN(info->cpus, limit);
    bool mailbox = trampoline != 0;

    info->cpu[0].started = true;
    if (found > 1 && mailbox) {
        trampoline_install();
        alike_read(&cpu_self, &alike_model);
    }
    for (unsigned i = 1; i < found; i++) {
        u8 *own = (u8 *)memory + i * machine_cpu_bytes();
        struct boot_cpu *c = &info->cpu[i];
        struct cpu_area *a = area_init(own, c->apic_id, i, n);

        if (mailbox) {
            c->trouble = bring_up(c, a, paging_map_stack(i, own + area_bytes));
            mailbox = mail_state() != MAIL_CLAIMED;
        } else {
            c->trouble = trampoline ? "another CPU holds the page that it would start in"
                                    : "there is no page below 1 MiB for it to start in";
        }
        if (c->trouble)
            cpu_areas[n] = NULL;
        else
            number(info, i, n++);
    }
    __atomic_store_n(&x86_cpu_count, n, __ATOMIC_RELEASE);
    release_all(n);
    return n;
}
