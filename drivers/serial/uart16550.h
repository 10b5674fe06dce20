/* uart16550.h: the one serial chip every PC has or imitates. Polled, transmit only.
 *
 * Locking: none; callers serialise per port, except that a panic may write over anybody.
 * Contexts: any. */
#ifndef DRIVERS_SERIAL_UART16550_H
#define DRIVERS_SERIAL_UART16550_H

#include "../../base/types.h"

struct uart {
    u16 port;
    bool present; /* a chip answered at init */
};

/* 115200 baud, 8N1, FIFOs on, interrupts off. */
void uart_init(struct uart *u, u16 port);
/* Gives the chip what it takes now, at most n bytes; returns how many. Never waits. */
size_t uart_write_now(struct uart *u, const u8 *bytes, size_t n);
/* Writes all, waiting (bounded) for the line. */
void uart_write(struct uart *u, const u8 *bytes, size_t n);
/* Waits (bounded) until the last bit has left. */
void uart_sync(struct uart *u);

#endif
