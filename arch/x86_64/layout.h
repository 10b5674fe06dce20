/* layout.h: where things are in the address space. Read by C, by assembly and (the first two)
 * repeated by kernel.ld.
 *
 *   0xffff800000000000  direct map: physical address p at DIRECT_MAP + p, in 2 MiB pages, only
 *                       where RAM is
 *   0xffffc00000000000  stacks: a slot each, its low half never mapped (the guard); behind them
 *                       device registers
 *   0xffffd00000000000  the heap's window: page descriptors, where memory has large holes (mm/heap.c);
 *                       64 bytes for each page of the direct map, and some
 *   0xffffffff80000000  the kernel image, linked at + 1 MiB and loaded at physical 1 MiB; code and
 *                       constants read-only, data not executable, each in 2 MiB pages of its own
 *
 * The low half is empty, so a NULL pointer with any offset faults. */
#ifndef ARCH_X86_64_LAYOUT_H
#define ARCH_X86_64_LAYOUT_H

#define KERNEL_BASE 0xffffffff80000000
#define KERNEL_PHYS 0x100000

#define DIRECT_MAP       0xffff800000000000
#define DIRECT_MAP_BYTES 0x0000400000000000

#define STACK_WINDOW     0xffffc00000000000
#define STACK_SLOT_BYTES 0x8000
#define STACK_BYTES      0x4000 /* the high half of a slot */
#define STACK_SLOTS      1024   /* the first MAX_CPUS for CPUs, the others for threads */
#define DEVICE_WINDOW    0xffffc00002000000 /* behind all slots: single uncached pages */

#define HEAP_WINDOW       0xffffd00000000000
#define HEAP_WINDOW_BYTES (DIRECT_MAP_BYTES / 4096 * 64 + 0x100000000)

/* What start.S maps before C runs, as the direct map and one to one. */
#define BOOT_MAP_BYTES 0x100000000

#define SEL_CODE 0x08
#define SEL_DATA 0x10
#define SEL_TSS  0x18 /* the boot CPU's; two entries each */

#define MSR_EFER      0xc0000080
#define MSR_GS_BASE   0xc0000101
#define MSR_APIC_BASE 0x1b
#define EFER_LME      0x100
#define EFER_NXE      0x800
#define CR0_PE        0x1
#define CR0_WP        0x10000
#define CR0_NW        0x20000000
#define CR0_CD        0x40000000
#define CR0_PG        0x80000000
#define CR4_PAE       0x20
#define CR4_PGE       0x80

#define PTE_PRESENT 0x1
#define PTE_WRITE   0x2
#define PTE_PWT     0x8
#define PTE_PCD     0x10
#define PTE_LARGE   0x80
#define PTE_GLOBAL  0x100
#define PTE_NX      0x8000000000000000

/* The trampoline's mailbox: offsets in its page, filled in by smp.c before each start. */
#define MAIL_STATE     0xf00 /* u32, below */
#define MAIL_APIC_ID   0xf04 /* u32: whom the start is for */
#define MAIL_CR3       0xf08 /* u32 */
#define MAIL_EFER      0xf0c /* u32: bits to set */
#define MAIL_STACK     0xf10 /* u64 */
#define MAIL_AREA      0xf18 /* u64: GS base */
#define MAIL_ENTRY     0xf20 /* u64 */
#define MAIL_GDTR      0xf30 /* 6 bytes */
#define MAIL_FAR32     0xf38 /* 6 bytes: offset, selector */
#define MAIL_FAR64     0xf40 /* 6 bytes */
#define MAIL_GDT       0xf80 /* 4 entries: null, 32-bit code, data, 64-bit code */
#define MAIL_WAITING   1     /* nobody has come yet */
#define MAIL_CLAIMED   2     /* a CPU came and is reading */
#define MAIL_TAKEN     3     /* it has read everything that was meant for it alone */
#define MAIL_WITHDRAWN 4     /* it came too late: whoever reads this halts */

#endif
