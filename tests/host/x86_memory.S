/* x86_memory.S: the metal kernel's memory functions under names of their own, beside libc's. */
#define memset  x86_memset
#define memmove x86_memmove
#define memcpy  x86_memcpy
#define memcmp  x86_memcmp
#include "../../arch/x86_64/memory.S"

    .section .note.GNU-stack, "", @progbits
