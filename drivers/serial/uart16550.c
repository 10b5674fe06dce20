/* uart16550.c: a polled transmitter.
 *
 * The chip has a 16-byte FIFO and one bit that says "empty"; nothing says how full it is. So bytes
 * go in bursts of 16, each only when the last one is gone. QEMU hands a byte on as soon as it gets
 * it, so there the FIFO is empty again at once: uart_write_now() goes on as long as that is so, up
 * to a bound that keeps one call short. On a real line at 115200 baud it takes 16 bytes and comes
 * back.
 *
 * A port without a chip reads as all ones, which would look ready; the scratch register tells it
 * apart. Waits are bounded by counting polls, not time: no clock is needed, and a line that is
 * stuck costs a panic its last words at most.
 *
 * Deliberately absent: receiving, interrupts, flow control.
 *
 * Locking: none. Contexts: any. */
#include "uart16550.h"

#include "../../base/portio.h"

#define REG_DATA       0
#define REG_INTERRUPTS 1
#define REG_FIFO       2
#define REG_LINE       3
#define REG_MODEM      4
#define REG_STATUS     5
#define REG_SCRATCH    7

#define DIVISOR_1    1 /* 115200 baud */
#define LINE_DIVISOR 0x80
#define LINE_8N1     0x03
#define FIFO_ON      0xc7 /* and cleared, threshold 14 */
#define MODEM_READY  0x03 /* DTR, RTS */

#define STATUS_EMPTY 0x20 /* the FIFO is */
#define STATUS_IDLE  0x40 /* and so is the shift register */

#define FIFO_BYTES 16u
#define BURST_MAX  1024u
#define POLLS_MAX  1000000u /* about a second; 16 bytes take 1.4 ms */

static u8 get(const struct uart *u, unsigned reg)
{
    return plat_in8((u16)(u->port + reg));
}

static void set(const struct uart *u, unsigned reg, u8 v)
{
    plat_out8((u16)(u->port + reg), v);
}

size_t uart_write_now(struct uart *u, const u8 *bytes, size_t n)
{
    size_t done = 0;

    if (!u->present)
        return n; /* nobody to wait for */
    n = MIN(n, (size_t)BURST_MAX);
    while (done < n && get(u, REG_STATUS) & STATUS_EMPTY) {
        size_t burst = MIN(n - done, (size_t)FIFO_BYTES);

        plat_out8_burst((u16)(u->port + REG_DATA), bytes + done, burst);
        done += burst;
    }
    return done;
}

void uart_write(struct uart *u, const u8 *bytes, size_t n)
{
    unsigned polls = 0;

    while (n > 0 && polls < POLLS_MAX) {
        size_t done = uart_write_now(u, bytes, n);

        polls = done ? 0 : polls + 1;
        bytes += done;
        n -= done;
    }
}

void uart_sync(struct uart *u)
{
    for (unsigned polls = 0; u->present && polls < POLLS_MAX; polls++)
        if (get(u, REG_STATUS) & STATUS_IDLE)
            return;
}

static bool holds(struct uart *u, u8 v)
{
    set(u, REG_SCRATCH, v);
    return get(u, REG_SCRATCH) == v;
}

void uart_init(struct uart *u, u16 port)
{
    u->port = port;
    u->present = holds(u, 0x5a) && holds(u, 0xa5);
    if (!u->present)
        return;
    set(u, REG_INTERRUPTS, 0);
    set(u, REG_LINE, LINE_DIVISOR);
    set(u, REG_DATA, DIVISOR_1);
    set(u, REG_INTERRUPTS, 0); /* the divisor's high byte */
    set(u, REG_LINE, LINE_8N1);
    set(u, REG_FIFO, FIFO_ON);
    set(u, REG_MODEM, MODEM_READY);
}
