/* x86.h: the privileged instructions as functions, one line each, and the addresses that layout.h
 * implies. Private to arch/x86_64.
 *
 * Locking: none. Contexts: any. */
#ifndef ARCH_X86_64_X86_H
#define ARCH_X86_64_X86_H

#include "../../base/types.h"
#include "layout.h"

struct cpuid {
    u32 a, b, c, d;
};

static inline struct cpuid x86_cpuid(u32 leaf, u32 subleaf)
{
    struct cpuid r;

    asm volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(subleaf));
    return r;
}

static inline u64 x86_rdmsr(u32 msr)
{
    u32 low, high;

    asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
    return (u64)high << 32 | low;
}

static inline void x86_wrmsr(u32 msr, u64 v)
{
    asm volatile("wrmsr" : : "c"(msr), "a"((u32)v), "d"((u32)(v >> 32)) : "memory");
}

static inline u64 x86_read_cr0(void)
{
    u64 v;

    asm volatile("movq %%cr0, %0" : "=r"(v));
    return v;
}

static inline void x86_write_cr0(u64 v)
{
    asm volatile("movq %0, %%cr0" : : "r"(v) : "memory");
}

static inline u64 x86_read_cr2(void)
{
    u64 v;

    asm volatile("movq %%cr2, %0" : "=r"(v));
    return v;
}

static inline u64 x86_read_cr3(void)
{
    u64 v;

    asm volatile("movq %%cr3, %0" : "=r"(v));
    return v;
}

static inline void x86_write_cr3(u64 v)
{
    asm volatile("movq %0, %%cr3" : : "r"(v) : "memory");
}

static inline u64 x86_read_cr4(void)
{
    u64 v;

    asm volatile("movq %%cr4, %0" : "=r"(v));
    return v;
}

static inline void x86_write_cr4(u64 v)
{
    asm volatile("movq %0, %%cr4" : : "r"(v) : "memory");
}

/* Caches are written back, then emptied. */
static inline void x86_wbinvd(void)
{
    asm volatile("wbinvd" : : : "memory");
}

static inline u8 x86_in8(u16 port)
{
    u8 v;

    asm volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
    return v;
}

static inline u32 x86_in32(u16 port)
{
    u32 v;

    asm volatile("inl %1, %0" : "=a"(v) : "Nd"(port));
    return v;
}

static inline void x86_out8(u16 port, u8 v)
{
    asm volatile("outb %0, %1" : : "a"(v), "Nd"(port));
}

static inline void x86_out32(u16 port, u32 v)
{
    asm volatile("outl %0, %1" : : "a"(v), "Nd"(port));
}

static inline void x86_cli(void)
{
    asm volatile("cli" : : : "memory");
}

static inline void x86_sti(void)
{
    asm volatile("sti" : : : "memory");
}

static inline void x86_hlt(void)
{
    asm volatile("hlt" : : : "memory");
}

static inline void *direct(u64 phys)
{
    return (void *)(DIRECT_MAP + phys);
}

/* Of an address in the direct map or in the kernel image. */
static inline u64 phys_of(const void *p)
{
    u64 a = (u64)p;

    return a >= KERNEL_BASE ? a - KERNEL_BASE : a - DIRECT_MAP;
}

#endif
