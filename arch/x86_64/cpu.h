/* cpu.h: the door between the files of arch/x86_64 that run after boot: the per-CPU area behind GS,
 * the trap frame, and what each file offers the others. Private to arch/x86_64.
 *
 * Locking: an area is written by its own CPU, except `resched`, which anybody may set, `start`, and
 * everything filled in before the CPU starts. */
#ifndef ARCH_X86_64_CPU_H
#define ARCH_X86_64_CPU_H

#include "../../base/bootinfo.h"
#include "../../base/machine.h"
#include "acpi.h"
#include "alike.h"
#include "multiboot2.h"
#include "x86.h"

struct tss {
    u32 reserved0;
    u64 rsp[3];
    u64 reserved1;
    u64 ist[7];
    u64 reserved2;
    u16 reserved3;
    u16 io_map; /* past the end: no map */
} PACKED;

/* Interrupt stack table slots, 1-based as in a gate. */
#define IST_DOUBLE_FAULT 1u
#define IST_NMI          2u
#define IST_BYTES        8192u

/* Between the boot CPU, which writes the first line, and the CPU being started: smp.c. */
struct cpu_start {
    u32 order ALIGNED(CACHE_LINE); /* CPU_COMPARE, … */
    u32 ask;
    u32 answer ALIGNED(CACHE_LINE);
    u64 cycles;        /* its clock at the answer */
    char trouble[100]; /* before its first answer: in what it differs from CPU 0; "": in nothing */
};
#define CPU_COMPARE   0u
#define CPU_PARK      1u
#define CPU_GO        2u
#define CPU_STAY_AWAY 3u

struct cpu_area {
    u32 id;      /* CPU_AREA_ID: the CPU's number */
    u32 preempt; /* CPU_AREA_PREEMPT: see plat_impl.h; this CPU only */
    void *slot;  /* CPU_AREA_SLOT: kernel/'s */
    u64 offset;  /* CPU_AREA_OFFSET: id * PLAT_CPU_STRIDE */
    u32 apic_id;
    u32 place; /* in the firmware's list; names the TSS: two CPUs may have been given one number */
    struct tss tss;
    struct cpu_start start;

    u32 resched ALIGNED(CACHE_LINE); /* relaxed; set by any CPU, so on a line of its own */

    u8 double_fault_stack[IST_BYTES] ALIGNED(CACHE_LINE);
    u8 nmi_stack[IST_BYTES] ALIGNED(CACHE_LINE);
} ALIGNED(CACHE_LINE);

/* As entry.S pushes it. */
struct trap_frame {
    u64 r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax;
    u64 vector, error;
    u64 rip, cs, rflags, rsp, ss;
};

/* Vectors. The legacy PICs are masked, but may still utter a spurious interrupt. */
#define VECTOR_DOUBLE_FAULT 8u
#define VECTOR_NMI          2u
#define VECTOR_PIC          0x20u
#define VECTOR_TIMER        0xf0u
#define VECTOR_IPI          0xf1u /* and the next: enum machine_ipi */
#define VECTOR_WAKE         0xfdu /* ends a halt, no more */
#define VECTOR_ERROR        0xfeu
#define VECTOR_SPURIOUS     0xffu

/* cpu.c */
extern struct cpu_area cpu_area_boot;
extern struct cpu_area *cpu_areas[MAX_CPUS]; /* by number; NULL: no such CPU */
void cpu_load(struct cpu_area *area);        /* GDT, TSS, IDT and GS of the calling CPU */
extern const struct alike_cpu cpu_self;      /* the calling CPU's registers */
struct cpu_area *cpu_this(void);
void cpu_fold_resched(void); /* interrupts off */

/* entry.S */
extern const u8 entry_stubs[256][16];
NORETURN void stack_switch_call(void *top, void (*fn)(void *arg), void *arg);
void context_start(void);
void flags_probe_raw(u64 *flags);

/* trap.c */
void trap_init(void); /* the IDT, once */
void trap_load(void); /* on each CPU */
void trap_dispatch(struct trap_frame *f);

/* lapic.c */
void lapic_init(u64 phys); /* boot CPU: maps it, measures the timer */
void lapic_enable(void);   /* each CPU */
u32 lapic_id(void);
void lapic_eoi(void);
void lapic_ipi(u32 apic_id, u32 command);
/* Halts until VECTOR_WAKE comes from another CPU or us are over, whichever is first. Before ticks
 * begin; interrupts off before and after. */
void lapic_nap(u64 us);
#define LAPIC_INIT    0x4500u
#define LAPIC_STARTUP 0x4600u /* | page number */
#define LAPIC_NMI     0x4400u

/* clock.c */
/* Frequency and invariance of the TSC; info->unfit says why if the frequency cannot be known. */
void clock_init(struct bootinfo *info, const struct acpi_clocks *clocks);
void clock_wait_us(u64 us); /* spins; any context once clock_init() is done */
u64 clock_cycles_of_us(u64 us);

/* paging.c */
/* Builds the final tables and loads them. ram: what the direct map shall hold; free: where pages
 * for the tables are cut off (from an end, so a range may become empty). Both sorted, page
 * aligned, disjoint. */
void paging_init(const struct phys_range *ram, unsigned rams, struct phys_range *free,
                 unsigned frees);
void paging_load(void);            /* on each CPU */
u64 paging_features(void);         /* EFER bits that the tables rely on */
u64 paging_trampoline(void);       /* CR3 of the same tables with low memory one to one besides */
void *paging_map_device(u64 phys); /* one uncached page */
void *paging_map_stack(unsigned slot,
                       const void *low); /* STACK_BYTES from low on; returns the top */
bool paging_mapped(u64 address);

/* smp.c */
void smp_init(u64 page); /* physical address of a free page below 1 MiB; 0: there is none */

/* symbol.c */
void symbol_init(const struct phys_range *symbols, const struct phys_range *strings);

/* The linker script's. */
extern u8 image_start[], text_start[], text_end[], image_data[], image_end[];
/* start.S */
extern u8 boot_stack[];
extern u64 boot_pml4[512];

#endif
