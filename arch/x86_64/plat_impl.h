/* plat_impl.h: the inline half of base/plat.h on x86-64 metal.
 *
 * GS always points at the calling CPU's area (cpu.h), from the first instructions of start.S on, so
 * what is asked on every allocation is one gs-relative instruction. The layout constants below are
 * checked against struct cpu_area by static assertions in cpu.c.
 *
 * The preemption word folds two facts into one test: its low 31 bits count how often preemption was
 * disabled, and its top bit is *clear* while a reschedule is wanted. So a plain decrement yields
 * zero exactly when preemption has just become possible and somebody wants it:
 * plat_preempt_enable() is two instructions. Only its own CPU writes the word; others set a flag
 * beside it, which every interrupt folds in.
 *
 * Locking: none. Contexts: any. */
#ifndef ARCH_X86_64_PLAT_IMPL_H
#define ARCH_X86_64_PLAT_IMPL_H

#include "../../base/types.h"

#define CPU_AREA_ID      0
#define CPU_AREA_PREEMPT 4
#define CPU_AREA_SLOT    8
#define CPU_AREA_OFFSET  16

#define PREEMPT_NOT_WANTED 0x80000000u

#define X86_FLAGS_IF 0x200ul

/* It would take an interrupt to each CPU, and to wait for its answer. */
#define PLAT_ORDERS_OTHERS 0

/* Address space 256 is GS to clang: an ordinary load that the compiler may fold into its user.
 * It may also reuse the value up to the next compiler barrier, which is as long as the contract
 * promises it anyway. */
#define GS_U32(offset) (*(const __attribute__((address_space(256))) u32 *)(offset))

extern unsigned x86_cpu_count; /* smp.c; written once, when every table exists */
void x86_preempt_wanted(void); /* cpu.c: the slow half of plat_preempt_enable() */

static ALWAYS_INLINE unsigned plat_cpu_id(void)
{
    return GS_U32(CPU_AREA_ID);
}

static ALWAYS_INLINE size_t plat_cpu_offset(void)
{
    return *(const __attribute__((address_space(256))) size_t *)CPU_AREA_OFFSET;
}

/* Volatile: it must not be moved out of the section that keeps the CPU. */
static ALWAYS_INLINE void *plat_cpu_part(void *cpu0)
{
    asm volatile("addq %%gs:%c1, %0" : "+r"(cpu0) : "i"(CPU_AREA_OFFSET) : "cc");
    return cpu0;
}

static ALWAYS_INLINE unsigned plat_cpu_count(void)
{
    return __atomic_load_n(&x86_cpu_count, __ATOMIC_RELAXED);
}

static ALWAYS_INLINE unsigned long plat_irq_save(void)
{
    unsigned long flags;

    asm volatile("pushfq\n\tpopq %0\n\tcli" : "=r"(flags) : : "memory");
    return flags;
}

/* STI behind a test, not POPF: POPF rewrites every flag and costs about ten times as much. */
static ALWAYS_INLINE void plat_irq_restore(unsigned long flags)
{
    asm volatile("" : : : "memory");
    if (likely(flags & X86_FLAGS_IF))
        asm volatile("sti" : : : "memory");
}

static ALWAYS_INLINE bool plat_irqs_off(void)
{
    unsigned long flags;

    asm volatile("pushfq\n\tpopq %0" : "=r"(flags) : : "memory");
    return !(flags & X86_FLAGS_IF);
}

static ALWAYS_INLINE void plat_preempt_disable(void)
{
    asm volatile("incl %%gs:%c0" : : "i"(CPU_AREA_PREEMPT) : "memory", "cc");
}

static ALWAYS_INLINE void plat_preempt_enable(void)
{
    bool wanted;

    asm volatile("decl %%gs:%c1" : "=@ccz"(wanted) : "i"(CPU_AREA_PREEMPT) : "memory");
    if (unlikely(wanted))
        x86_preempt_wanted();
}

static ALWAYS_INLINE void plat_relax(void)
{
    asm volatile("pause" : : : "memory");
}

static ALWAYS_INLINE u64 plat_cycles(void)
{
    u32 low, high;

    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    return (u64)high << 32 | low;
}

/* One instruction, so that an interrupt falls before or after it; no LOCK, since nobody else
 * writes *p. */
static ALWAYS_INLINE void plat_counter_add(u64 *p, u64 v)
{
    asm volatile("addq %1, %0" : "+m"(*p) : "er"(v) : "cc");
}

static ALWAYS_INLINE bool plat_word_is(const u32 *p, u32 v)
{
    bool same;

    asm volatile("cmpl %2, %1" : "=@cce"(same) : "m"(*p), "i"(v));
    return same;
}

static ALWAYS_INLINE void plat_poison(void *p, size_t n)
{
    (void)p;
    (void)n;
}

static ALWAYS_INLINE void plat_unpoison(void *p, size_t n)
{
    (void)p;
    (void)n;
}

#endif
