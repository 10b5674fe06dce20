/* memory_hosted.S: the memory functions under names of their own, beside libc's, for the hosted
 * test. Not part of the kernel. */
#define memset  x86_memset
#define memmove x86_memmove
#define memcpy  x86_memcpy
#define memcmp  x86_memcmp
#include "memory.S"

    .section .note.GNU-stack, "", @progbits
