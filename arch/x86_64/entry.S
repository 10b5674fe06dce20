/* entry.S: how interrupts and exceptions enter C, and how threads change stacks.
 *
 * 256 equal stubs push the vector (and a zero where the CPU pushes no error code) and meet in one
 * place that saves the general registers: with -mgeneral-regs-only there is nothing else to save,
 * and since there is no user mode there is no SWAPGS to get wrong. Before calling C the common part
 * builds a frame record out of the interrupted address and frame pointer, so that a backtrace taken
 * in a handler runs on into the interrupted function itself and not just into its caller.
 *
 * Contexts: any. Locking: none. */
#include "layout.h"

    .section .text.entry, "ax"

/* True for the vectors at which the CPU pushes an error code. */
#define HAS_ERROR_CODE(v) \
    ((v) == 8 || ((v) >= 10 && (v) <= 14) || (v) == 17 || (v) == 21 || (v) == 29 || (v) == 30)

    .balign 16
    .globl entry_stubs
entry_stubs:
    .set vector, 0
    .rept 256
    .balign 16
    .if !HAS_ERROR_CODE(vector)
    pushq $0
    .endif
    pushq $vector
    jmp entry_common
    .set vector, vector + 1
    .endr

    .balign 16
entry_common:
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rbx
    pushq %rbp
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    cld
    movq %rsp, %rdi /* struct trap_frame */
    pushq 17 * 8(%rsp) /* the interrupted address */
    pushq %rbp
    movq %rsp, %rbp
    call trap_dispatch
    addq $16, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rbp
    popq %rbx
    popq %rdx
    popq %rcx
    popq %rax
    addq $16, %rsp
    iretq

/* void machine_context_switch(void **save, void *load) */
    .balign 16
    .globl machine_context_switch
machine_context_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret

/* Where a new thread's first switch returns to: r12 is its function, r13 the argument (cpu.c
 * puts them there); the words above are a frame record that ends backtraces. */
    .balign 16
    .globl context_start
context_start:
    movq %r13, %rdi
    xorl %ebp, %ebp
    call *%r12
    ud2

/* void stack_switch_call(void *top, void (*fn)(void *), void *arg): leaves the current stack for
 * good. */
    .balign 16
    .globl stack_switch_call
stack_switch_call:
    movq %rdi, %rsp
    movq %rdx, %rdi
    xorl %ebp, %ebp
    pushq $0
    pushq $0
    call *%rsi
    ud2

/* bool flags_probe_raw(u64 *flags): runs a comparing exchange right behind arithmetic and stores
 * the flags that are seen then. The addition yields 0x8000000000000000 out of two positive
 * numbers (OF and SF and PF, AF; no CF), the exchange succeeds (ZF). The first TEST starts from
 * known flags, the last one leaves sane ones behind before anything could push them. Interrupts
 * off. */
    .balign 16
    .globl flags_probe_raw
flags_probe_raw:
    pushq %rbx
    xorl %eax, %eax
    movq %rax, probe_word
    xorl %edx, %edx
    xorl %ecx, %ecx
    movl $1, %ebx
    movabsq $0x7fffffffffffffff, %rsi
    testq %rsi, %rsi
    addq $1, %rsi
    cmpxchg8b probe_word
    pushfq
    popq (%rdi)
    testq %rsi, %rsi
    popq %rbx
    ret

    .section .data.probe, "aw"
    .balign 16
probe_word:
    .quad 0
