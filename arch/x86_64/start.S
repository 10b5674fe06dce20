/* start.S: from GRUB to C. The multiboot2 header, and the boot CPU's way from 32-bit protected mode
 * without paging to 64-bit mode in the higher half.
 *
 * The page tables made here map the first 4 GiB in 2 MiB pages, everything writable and executable,
 * three times over: one to one (needed while switching, and again by each CPU that starts), as the
 * direct map, and (its first GiB) at KERNEL_BASE. paging.c replaces them by tables that follow the
 * memory map; these stay behind for the trampoline only.
 *
 * A machine that cannot go on says so on COM1 and ends through QEMU's debug-exit port with the
 * panic code: there is no C to do it yet.
 *
 * Locking: none. Context: the boot CPU, interrupts off. */
#include "layout.h"

#define PHYS(x) ((x) - KERNEL_BASE)

#define MULTIBOOT2_MAGIC 0xe85250d6
#define MULTIBOOT2_LOADED 0x36d76289

    .section .multiboot2, "a"
    .balign 8
header:
    .long MULTIBOOT2_MAGIC
    .long 0 /* i386, protected mode */
    .long header_end - header
    .long -(MULTIBOOT2_MAGIC + 0 + (header_end - header))
    .short 0, 0 /* end of tags */
    .long 8
header_end:

    .section .text.start, "ax"
    .code32
    .globl start32
start32:
    cli
    cld
    movl $PHYS(boot_stack_top), %esp
    movl %ebx, %ebp /* the multiboot2 information; CPUID uses ebx */
    movl $PHYS(text_not_loaded), %esi
    cmpl $MULTIBOOT2_LOADED, %eax
    jne give_up

    movl $PHYS(text_no_long_mode), %esi
    movl $0x80000000, %eax
    cpuid
    cmpl $0x80000001, %eax
    jb give_up
    movl $0x80000001, %eax
    cpuid
    btl $29, %edx
    jnc give_up

    /* The four page directories: 2048 entries of 2 MiB. */
    movl $PHYS(boot_pd), %edi
    movl $(PTE_PRESENT | PTE_WRITE | PTE_LARGE), %eax
    xorl %ecx, %ecx
1:  movl %eax, (%edi, %ecx, 8)
    movl $0, 4(%edi, %ecx, 8)
    addl $0x200000, %eax
    incl %ecx
    cmpl $2048, %ecx
    jne 1b

    /* One table of them serves both maps of 4 GiB, another the kernel's GiB. */
    movl $(PHYS(boot_pd) + PTE_PRESENT + PTE_WRITE), %eax
    movl %eax, PHYS(boot_pdpt_kernel) + 510 * 8
    movl $PHYS(boot_pdpt), %edi
    xorl %ecx, %ecx
2:  movl %eax, (%edi, %ecx, 8)
    addl $0x1000, %eax
    incl %ecx
    cmpl $4, %ecx
    jne 2b

    movl $(PHYS(boot_pdpt) + PTE_PRESENT + PTE_WRITE), PHYS(boot_pml4)
    movl $(PHYS(boot_pdpt) + PTE_PRESENT + PTE_WRITE), PHYS(boot_pml4) + 256 * 8
    movl $(PHYS(boot_pdpt_kernel) + PTE_PRESENT + PTE_WRITE), PHYS(boot_pml4) + 511 * 8

    movl %cr4, %eax
    orl $CR4_PAE, %eax
    movl %eax, %cr4
    movl $PHYS(boot_pml4), %eax
    movl %eax, %cr3
    movl $MSR_EFER, %ecx
    rdmsr
    orl $EFER_LME, %eax
    wrmsr
    movl %cr0, %eax
    andl $~(CR0_CD | CR0_NW), %eax /* a loader that left caches off would slow every figure */
    orl $(CR0_PG | CR0_WP | CR0_PE), %eax
    movl %eax, %cr0
    lgdt PHYS(boot_gdtr)
    ljmp $SEL_CODE, $PHYS(start64_low)

/* esi: a text. Nothing else is to be relied on. */
give_up:
    movw $0x3fd, %dx
1:  inb %dx, %al
    testb $0x20, %al
    jz 1b
    lodsb
    testb %al, %al
    jz 2f
    movw $0x3f8, %dx
    outb %al, %dx
    movw $0x3fd, %dx
    jmp 1b
2:  movw $0xf4, %dx
    movl $17, %eax
    outl %eax, %dx
3:  cli
    hlt
    jmp 3b

    .code64
start64_low:
    movabsq $start64, %rax
    jmpq *%rax
start64:
    movl $SEL_DATA, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    movl %ebp, %edi
    movq $boot_stack_top, %rsp

    /* "Which CPU am I" has an answer from here on. */
    movq $cpu_area_boot, %rax
    movq %rax, %rdx
    shrq $32, %rdx
    movl $MSR_GS_BASE, %ecx
    wrmsr

    xorl %ebp, %ebp
    pushq $0 /* a backtrace ends here */
    pushq $0
    call boot_main
    ud2

    .section .rodata.start, "a"
text_not_loaded:
    .asciz "\r\nhayloft: not loaded by a multiboot2 boot loader\r\n"
text_no_long_mode:
    .asciz "\r\nhayloft: this CPU has no 64-bit mode\r\n"
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff /* SEL_CODE */
    .quad 0x00cf93000000ffff /* SEL_DATA */
boot_gdt_end:
boot_gdtr:
    .short boot_gdt_end - boot_gdt - 1
    .long PHYS(boot_gdt)
    .long 0

    .section .bss.start, "aw", @nobits
    .balign 4096
    .globl boot_pml4
boot_pml4:
    .skip 4096
boot_pdpt:
    .skip 4096
boot_pdpt_kernel:
    .skip 4096
boot_pd:
    .skip 4 * 4096
    .globl boot_stack, boot_stack_top
boot_stack: /* mapped again, behind a guard, before kernel_entry(): paging.c */
    .skip STACK_BYTES
boot_stack_top:
