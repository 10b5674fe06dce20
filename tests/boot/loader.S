/* loader.S: a boot loader that hands over whatever a test wrote down (handover.py): QEMU's -kernel puts it and all
 * behind it at LOADER, by a multiboot header, and enters it in 32-bit mode.
 *
 * It copies the kernel's segments to where they belong, and the firmware's ACPI root pointer into the
 * information structure, which no test can know beforehand. The rest of that is as the test wrote it.
 *
 * Behind the code, written by the test, 32 bits each: where the information is; where in it 20 bytes for the
 * root pointer are, or 0; the kernel's entry; then for each segment where to, from where, bytes, bytes of
 * zeros behind them; and 0. */
#define LOADER 0x1000000
#define MAGIC  0x1badb002
#define FLAGS  0x10000 /* the addresses below count */

    .text
    .code32
    .globl _start
header:
    .long MAGIC
    .long FLAGS
    .long -(MAGIC + FLAGS)
    .long LOADER + header - header
    .long LOADER
    .long 0 /* to the end of the file */
    .long 0
    .long LOADER + _start - header

_start:
    cld
    movl $(LOADER + given - header), %ebp
    leal 12(%ebp), %edx
1:  movl (%edx), %edi
    testl %edi, %edi
    jz 2f
    movl 4(%edx), %esi
    movl 8(%edx), %ecx
    rep movsb
    movl 12(%edx), %ecx
    xorl %eax, %eax
    rep stosb
    addl $16, %edx
    jmp 1b

2:  movl 4(%ebp), %edi
    testl %edi, %edi
    jz 5f
    movl $0xe0000, %esi
3:  cmpl $0x20445352, (%esi) /* "RSD " */
    jne 4f
    cmpl $0x20525450, 4(%esi) /* "PTR " */
    jne 4f
    movl $20, %ecx
    rep movsb
    jmp 5f
4:  addl $16, %esi
    cmpl $0x100000, %esi
    jb 3b

5:  movl (%ebp), %ebx
    movl $0x36d76289, %eax
    jmpl *8(%ebp)

    .balign 16
given:
