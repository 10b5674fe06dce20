/* poison.h: named fill values, each recognisable in a dump: no two share a byte, none is 0, 0xff,
 * an ASCII letter or digit, and eight of one in a row are no canonical x86-64 address, so following
 * one traps.
 *
 * Locking: none. Contexts: any. */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#define POISON_FRESH   0xa5 /* allocated, not yet written by its owner */
#define POISON_FREE    0xdb /* freed, waiting in a slab or a front end */
#define POISON_REDZONE 0xbe /* after the object: a write here is an overrun */
#define POISON_PAGE    0xc9 /* a page block free in the buddy */
#define POISON_STACK   0x97 /* a kernel stack below what was ever used */

#endif
