/* crc32.h: CRC-32 as in zlib, PNG and Ethernet (polynomial 0x04c11db7, reflected).
 *
 * Locking: none. Contexts: any. */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include "types.h"

/* crc32(0, …) begins; the result of one call goes into the next to continue. */
u32 crc32(u32 crc, const void *bytes, size_t n);

#endif
