/* portio.c: base/portio.h on a machine that has ports.
 *
 * Locking: none. Contexts: any. */
#include "../../base/portio.h"

#include "x86.h"

u8 plat_in8(u16 port)
{
    return x86_in8(port);
}

void plat_out8(u16 port, u8 v)
{
    x86_out8(port, v);
}

void plat_out8_burst(u16 port, const u8 *bytes, size_t n)
{
    asm volatile("rep outsb" : "+S"(bytes), "+c"(n) : "d"(port) : "memory");
}
