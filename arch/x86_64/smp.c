/* smp.c: starting the other CPUs, one after the other.
 *
 * A start is INIT, then a start-up interrupt naming the trampoline's page, then another if the
 * first was not heard. The mailbox in that page (trampoline.S) says for whom the start is; the CPU
 * that claims it comes up on a stack and an area of its own, says so, lets its clock be compared,
 * and waits (halted: spinning, it would take a host's CPU from the next one's start). Only when no
 * more CPUs will come is their number published and are they let into kernel_cpu_started(): up to
 * then plat_cpu_count() is 1, and whoever allocates meanwhile is the boot CPU.
 *
 * A CPU's stack slot and memory go by its place in the firmware's list, its number by how many came
 * before: so the numbers have no holes, and a CPU that was given up on shares nothing with the one
 * that got its number.
 *
 * Clocks: the boot CPU asks, the other stores its time and answers. The quickest of many round
 * trips bounds the other's lead within half its length; a lead smaller than that cannot be told
 * from none and counts as 0.
 *
 * Locking: none; the hand-over words below are written by one side each. Contexts: thread, boot
 * CPU; smp_entry() on the started CPU. */
#include "cpu.h"

#include "../../base/check.h"
#include "../../base/string.h"

#define ANSWER_LIMIT_US  200000u
#define STALLED_LIMIT_US 2000000u /* longer than any host keeps a vCPU from running */
#define SKEW_LIMIT_US    20000u
#define SKEW_TRIPS       100u
#define SKEW_DONE        0xffffu /* instead of a trip's number: no more questions */

unsigned x86_cpu_count = 1;

extern const u8 trampoline_start[], trampoline_end[], trampoline_prot[], trampoline_long[];

static u64 trampoline; /* physical; 0: none */
static u64 cr3;

/* Each word on a line of its own: boot CPU writes the first two, the CPU being started the last. */
static struct {
    u32 ask ALIGNED(CACHE_LINE); /* round trip number, the boot CPU's */
    u32 release ALIGNED(CACHE_LINE);
    struct {
        u32 answer; /* the last ask answered; HERE: nothing asked yet */
        u64 cycles;
    } reply ALIGNED(CACHE_LINE);
} hand;

#define HERE (~0u)

size_t machine_cpu_bytes(void)
{
    return round_up(sizeof(struct cpu_area), PAGE_SIZE) + STACK_BYTES;
}

static u64 cycles_ordered(void)
{
    asm volatile("lfence" : : : "memory");
    return plat_cycles();
}

/* Answers until told that it was enough. */
static void answer_skew(unsigned cpu)
{
    u32 answered = 0;

    while (answered != (cpu << 16 | SKEW_DONE)) {
        u32 ask = __atomic_load_n(&hand.ask, __ATOMIC_ACQUIRE);

        /* What was asked last of the CPU before is still there at first. */
        if (ask == answered || ask >> 16 != cpu)
            continue;
        hand.reply.cycles = cycles_ordered();
        answered = ask;
        __atomic_store_n(&hand.reply.answer, ask, __ATOMIC_RELEASE);
    }
}

/* The started CPU, on its own stack, under the trampoline's tables. */
static NORETURN void smp_entry(void)
{
    struct cpu_area *a = cpu_areas[plat_cpu_id()];

    paging_load();
    cpu_load(a);
    lapic_enable();
    __atomic_store_n(&hand.reply.answer, HERE, __ATOMIC_RELEASE);
    answer_skew(a->id);
    while (!__atomic_load_n(&hand.release, __ATOMIC_ACQUIRE)) {
        machine_idle();
        x86_cli();
    }
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

static bool wait_answer(u32 answer, u64 us)
{
    u64 start = plat_cycles(), limit = clock_cycles_of_us(us);

    do {
        if (__atomic_load_n(&hand.reply.answer, __ATOMIC_ACQUIRE) == answer)
            return true;
        plat_relax();
    } while (plat_cycles() - start < limit);
    return false;
}

/* True if the CPU is up. */
static bool start_one(u32 apic_id, struct cpu_area *a, void *stack_top)
{
    u32 *state = (u32 *)((u8 *)direct(trampoline) + MAIL_STATE);
    u32 waiting = MAIL_WAITING;

    __atomic_store_n(&hand.reply.answer, 0, __ATOMIC_RELAXED);
    mail_u32(MAIL_APIC_ID, apic_id);
    mail_u64(MAIL_STACK, (u64)stack_top);
    mail_u64(MAIL_AREA, (u64)a);
    mail_u32(MAIL_STATE, MAIL_WAITING);

    lapic_ipi(apic_id, LAPIC_INIT);
    clock_wait_us(10000);
    lapic_ipi(apic_id, LAPIC_STARTUP | (u32)(trampoline >> 12));
    if (wait_answer(HERE, 1000))
        return true;
    if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == MAIL_WAITING)
        lapic_ipi(apic_id, LAPIC_STARTUP | (u32)(trampoline >> 12));
    if (wait_answer(HERE, ANSWER_LIMIT_US))
        return true;
    if (__atomic_compare_exchange_n(state, &waiting, MAIL_WITHDRAWN, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return false;
    /* It is on its way in, so its stack and number are taken: there is no going back. */
    if (!wait_answer(HERE, STALLED_LIMIT_US))
        PANIC(PANIC_boot, "a CPU stopped in the middle of its start", apic_id, a->id);
    return true;
}

static i64 skew_trips(unsigned cpu)
{
    u64 begin = plat_cycles(), limit = clock_cycles_of_us(SKEW_LIMIT_US), best = ~(u64)0;
    i64 lead = 0;

    for (u32 trip = 1; trip <= SKEW_TRIPS && plat_cycles() - begin < limit; trip++) {
        u32 ask = cpu << 16 | trip;
        u64 sent = cycles_ordered();

        __atomic_store_n(&hand.ask, ask, __ATOMIC_RELEASE);
        while (__atomic_load_n(&hand.reply.answer, __ATOMIC_ACQUIRE) != ask)
            if (plat_cycles() - begin > limit)
                return best == ~(u64)0 ? 0 : lead;
        u64 back = cycles_ordered(), length = back - sent;
        if (length >= best)
            continue;
        best = length;
        lead = (i64)(hand.reply.cycles - sent - length / 2);
        if ((u64)(lead < 0 ? -lead : lead) <= length / 2)
            lead = 0;
    }
    return lead;
}

static i64 measure_skew(unsigned cpu)
{
    i64 lead = skew_trips(cpu);
    u32 done = cpu << 16 | SKEW_DONE;

    __atomic_store_n(&hand.ask, done, __ATOMIC_RELEASE);
    /* Until it says that it saw this, it may still be answering an earlier question, into the
     * word in which the next CPU will say that it is here. */
    if (!wait_answer(done, STALLED_LIMIT_US))
        PANIC(PANIC_boot, "a CPU stopped while clocks were compared", cpu, 0);
    return lead;
}

static struct cpu_area *area_init(u8 *memory, u32 apic_id, unsigned cpu)
{
    struct cpu_area *a = (struct cpu_area *)memory;

    a->id = cpu;
    a->offset = cpu * PLAT_CPU_STRIDE;
    a->preempt = PREEMPT_NOT_WANTED;
    a->apic_id = apic_id;
    cpu_areas[cpu] = a;
    return a;
}

unsigned machine_start_cpus(struct bootinfo *info, unsigned limit, void *memory)
{
    size_t area_bytes = round_up(sizeof(struct cpu_area), PAGE_SIZE);
    unsigned n = 1, found = MIN(info->cpus_found, limit);

    info->cpu[0].started = true;
    if (found > 1 && trampoline)
        trampoline_install();
    for (unsigned i = 1; i < found && trampoline; i++) {
        u8 *own = (u8 *)memory + i * machine_cpu_bytes();
        struct boot_cpu *c = &info->cpu[i], passed;
        struct cpu_area *a = area_init(own, c->apic_id, n);

        if (!start_one(c->apic_id, a, paging_map_stack(i, own + area_bytes))) {
            cpu_areas[n] = NULL;
            continue;
        }
        c->started = true;
        c->tsc_skew = measure_skew(n);
        /* CPU numbers are places in info->cpu[]: those that did not come move behind. */
        passed = info->cpu[n];
        info->cpu[n] = *c;
        if (n != i)
            info->cpu[i] = passed;
        n++;
    }
    __atomic_store_n(&x86_cpu_count, n, __ATOMIC_RELEASE);
    __atomic_store_n(&hand.release, 1, __ATOMIC_RELEASE);
    for (unsigned cpu = 1; cpu < n; cpu++)
        lapic_ipi(cpu_areas[cpu]->apic_id, VECTOR_WAKE);
    return n;
}
