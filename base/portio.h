/* portio.h: the port I/O contract, for drivers. arch/x86_64 provides it; hosted tests bring their
 * own and play the device.
 *
 * Locking: none. Contexts: any. */
#ifndef BASE_PORTIO_H
#define BASE_PORTIO_H

#include "types.h"

u8 plat_in8(u16 port);
void plat_out8(u16 port, u8 v);
/* n bytes to one port, in order: a single trip out of a virtual machine instead of n. */
void plat_out8_burst(u16 port, const u8 *bytes, size_t n);

#endif
