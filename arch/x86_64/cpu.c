/* cpu.c: the per-CPU area behind GS, the segments that 64-bit mode still wants, and the small
 * questions and orders of base/machine.h that concern the calling CPU only.
 *
 * One GDT serves all CPUs: null, code, data, then a TSS descriptor each. A TSS here is nothing but
 * two stack pointers: a double fault and an NMI must not trust the stack they interrupt.
 *
 * Rescheduling: machine_need_resched() raises a flag beside the preemption word and, on the own
 * CPU, clears the word's top bit at once. On another CPU the flag is folded in by the next
 * interrupt there, whichever it is; the scheduler sends MACHINE_IPI_RESCHEDULE when it cannot wait
 * for the tick.
 *
 * Locking: none. Contexts: any, unless said otherwise in machine.h. */
#include "cpu.h"

#include "../../base/check.h"

_Static_assert(offsetof(struct cpu_area, id) == CPU_AREA_ID, "plat_impl.h");
_Static_assert(offsetof(struct cpu_area, preempt) == CPU_AREA_PREEMPT, "plat_impl.h");
_Static_assert(offsetof(struct cpu_area, slot) == CPU_AREA_SLOT, "plat_impl.h");
_Static_assert(offsetof(struct cpu_area, offset) == CPU_AREA_OFFSET, "plat_impl.h");
_Static_assert(sizeof(struct tss) == 104, "as the CPU reads it");
_Static_assert(sizeof(struct trap_frame) == 22 * 8, "entry.S");

struct cpu_area cpu_area_boot = {.preempt = PREEMPT_NOT_WANTED};
struct cpu_area *cpu_areas[MAX_CPUS] = {&cpu_area_boot};

static u64 gdt[3 + 2 * MAX_CPUS] = {0, 0x00af9b000000ffff, 0x00cf93000000ffff};

struct descriptor_table {
    u16 limit;
    u64 base;
} PACKED;

void x86_preempt_wanted(void)
{
    /* Inside an interrupt, or with interrupts off: kernel_irq_exit() or the next tick sees to
     * it. */
    if (plat_irqs_off())
        return;
    kernel_preempt();
}

struct cpu_area *cpu_this(void)
{
    return cpu_areas[plat_cpu_id()];
}

void cpu_fold_resched(void)
{
    struct cpu_area *a = cpu_this();

    if (__atomic_load_n(&a->resched, __ATOMIC_RELAXED))
        a->preempt &= ~PREEMPT_NOT_WANTED;
}

static void tss_load(struct cpu_area *a)
{
    u64 base = (u64)&a->tss, limit = sizeof(a->tss) - 1;
    u64 *d = &gdt[3 + 2 * a->place];
    u16 selector = (u16)(SEL_TSS + 16 * a->place);

    a->tss.io_map = sizeof(a->tss);
    a->tss.ist[IST_DOUBLE_FAULT - 1] = (u64)(a->double_fault_stack + IST_BYTES);
    a->tss.ist[IST_NMI - 1] = (u64)(a->nmi_stack + IST_BYTES);
    d[0] = limit | (base & 0xffffff) << 16 | (u64)0x89 << 40 | (base >> 24 & 0xff) << 56;
    d[1] = base >> 32;
    asm volatile("ltr %0" : : "r"(selector) : "memory"); /* it reads the descriptor, and marks it */
}

void cpu_load(struct cpu_area *a)
{
    const struct descriptor_table t = {.limit = sizeof(gdt) - 1, .base = (u64)gdt};

    /* The selectors mean the same in the table being replaced, so only CS, whose descriptor the
     * CPU holds, is loaded again; loading GS would clear its base. */
    asm volatile("lgdt %0\n\t"
                 "pushq %1\n\t"
                 "leaq 1f(%%rip), %%rax\n\t"
                 "pushq %%rax\n\t"
                 "lretq\n"
                 "1:\tmovl %2, %%ss\n\t"
                 "movl %2, %%ds\n\t"
                 "movl %2, %%es"
                 :
                 : "m"(t), "i"(SEL_CODE), "r"(SEL_DATA)
                 : "rax", "memory");
    x86_wrmsr(MSR_GS_BASE, (u64)a);
    tss_load(a);
    trap_load();
}

/* -- the calling CPU, for alike.c -- */

static struct cpuid self_cpuid(u32 leaf)
{
    return x86_cpuid(leaf, 0);
}

static u64 self_control(unsigned cr)
{
    return cr == 0 ? x86_read_cr0() : cr == 3 ? x86_read_cr3() : x86_read_cr4();
}

static void self_control_set(unsigned cr, u64 v)
{
    if (cr == 0)
        x86_write_cr0(v);
    else if (cr == 3)
        x86_write_cr3(v);
    else
        x86_write_cr4(v);
}

const struct alike_cpu cpu_self = {
    .cpuid = self_cpuid,
    .msr = x86_rdmsr,
    .msr_set = x86_wrmsr,
    .control = self_control,
    .control_set = self_control_set,
    .write_back = x86_wbinvd,
};

/* -- machine.h -- */

void machine_irq_enable(void)
{
    x86_sti();
}

/* STI holds interrupts off for one more instruction, so none can slip in before HLT and leave it
 * asleep. */
void machine_idle(void)
{
    asm volatile("sti\n\thlt" : : : "memory");
}

void machine_halt(void)
{
    for (;;) {
        x86_cli();
        x86_hlt();
    }
}

void machine_exit(unsigned code)
{
    x86_cli();
    x86_out32(0xf4, code);
    machine_halt();
}

/* An exception with no descriptor table to serve it is a double fault is a triple fault. */
void machine_reset(void)
{
    const struct descriptor_table nothing = {0};

    asm volatile("cli\n\tlidt %0\n\tint3" : : "m"(nothing) : "memory");
}

void *machine_context_init(void *stack_top, void (*entry)(void *), void *arg)
{
    u64 *sp = (u64 *)((u64)stack_top & ~(u64)15);

    *--sp = 0; /* a frame record that ends a backtrace */
    *--sp = 0;
    *--sp = (u64)context_start;
    *--sp = 0;          /* rbp */
    *--sp = 0;          /* rbx */
    *--sp = (u64)entry; /* r12 */
    *--sp = (u64)arg;   /* r13 */
    *--sp = 0;          /* r14 */
    *--sp = 0;          /* r15 */
    return sp;
}

void *machine_cpu_slot(void)
{
    return *(void *const volatile __attribute__((address_space(256))) *)CPU_AREA_SLOT;
}

void machine_cpu_slot_set(unsigned cpu, void *p)
{
    CHECK_VALUES(cpu < MAX_CPUS && cpu_areas[cpu], cpu, 0);
    cpu_areas[cpu]->slot = p;
}

void machine_need_resched(unsigned cpu, bool yes)
{
    struct cpu_area *a = cpu_areas[cpu];
    unsigned long flags = plat_irq_save();

    __atomic_store_n(&a->resched, yes, __ATOMIC_RELAXED);
    if (cpu == plat_cpu_id()) {
        if (yes)
            a->preempt &= ~PREEMPT_NOT_WANTED;
        else
            a->preempt |= PREEMPT_NOT_WANTED;
    }
    plat_irq_restore(flags);
}

bool machine_resched_needed(void)
{
    return __atomic_load_n(&cpu_this()->resched, __ATOMIC_RELAXED);
}

unsigned machine_preempt_count(void)
{
    return GS_U32(CPU_AREA_PREEMPT) & ~PREEMPT_NOT_WANTED;
}
