/* trampoline.S: where a started CPU begins: real mode, in a page below 1 MiB to which smp.c has
 * copied this. The page's end holds the mailbox (layout.h). CPUs are started one at a time, so one
 * page and one stack pointer in it are enough, provided that a CPU which comes after it was given
 * up on, or one that was never asked, takes nothing: whoever arrives compares its APIC id with the
 * mailbox's, then claims the mailbox by compare-and-swap, and halts for ever if either fails.
 *
 * Caches stay off all the way: smp_entry() turns them on when the memory types are CPU 0's (alike.c).
 * Not-write-through goes at once, since with it a CPU need not heed what others write.
 *
 * Locking: the mailbox's state word. Context: a CPU being started, interrupts off. */
#include "layout.h"

#define AT(x) ((x) - trampoline_start)

    .section .rodata.trampoline, "a"
    .balign 16
    .globl trampoline_start, trampoline_end, trampoline_prot, trampoline_long
    .code16
trampoline_start:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    movzwl %ax, %ebx
    shll $4, %ebx /* the page's address */
    lgdtl MAIL_GDTR
    movl %cr0, %eax
    andl $~CR0_NW, %eax
    orl $(CR0_CD | CR0_PE), %eax
    movl %eax, %cr0
    ljmpl *MAIL_FAR32

    .code32
trampoline_prot:
    movl $SEL_DATA, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %ebx, %esi
    movl $1, %eax
    cpuid
    shrl $24, %ebx
    cmpl MAIL_APIC_ID(%esi), %ebx
    jne stay_away
    movl $MAIL_WAITING, %eax
    movl $MAIL_CLAIMED, %ecx
    lock cmpxchgl %ecx, MAIL_STATE(%esi)
    jne stay_away

    movl %cr4, %eax
    orl $CR4_PAE, %eax
    movl %eax, %cr4
    movl MAIL_CR3(%esi), %eax
    movl %eax, %cr3
    movl $MSR_EFER, %ecx
    rdmsr
    orl $EFER_LME, %eax
    orl MAIL_EFER(%esi), %eax
    wrmsr
    movl %cr0, %eax
    orl $(CR0_PG | CR0_WP), %eax
    movl %eax, %cr0
    ljmpl *MAIL_FAR64(%esi)

stay_away:
    cli
    hlt
    jmp stay_away

    .code64
trampoline_long:
    movl %esi, %esi
    movq MAIL_STACK(%rsi), %rsp
    movq MAIL_AREA(%rsi), %rax
    movq MAIL_ENTRY(%rsi), %rdi
    movl $MAIL_TAKEN, MAIL_STATE(%rsi) /* the mailbox may be filled for another CPU now */
    movq %rax, %rdx
    shrq $32, %rdx
    movl $MSR_GS_BASE, %ecx
    wrmsr
    xorl %ebp, %ebp
    pushq $0 /* a backtrace ends here */
    pushq $0
    pushq $0
    jmpq *%rdi
trampoline_end:
