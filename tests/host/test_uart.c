/* test_uart.c: the serial driver against a chip played here: one with a FIFO that empties at once
 * (as QEMU's), one that empties at its own pace, one that is stuck, and none at all.
 *
 * Locking: none. Contexts: hosted, one CPU. */
#include "test.h"

#include "../../base/portio.h"
#include "../../drivers/serial/uart16550.h"

#define PORT 0x3f8u

static struct {
    bool present, stuck, slow;
    unsigned fifo;       /* bytes in it */
    unsigned overruns;   /* bytes written while it was full */
    unsigned polls;      /* reads of the line status */
    unsigned divisor;    /* as programmed */
    bool divisor_access; /* the top bit of the line control register */
    u8 scratch;
    u8 sent[65536];
    size_t n;
} chip;

u8 plat_in8(u16 port)
{
    if (!chip.present)
        return 0xff;
    if (port == PORT + 7)
        return chip.scratch;
    if (port != PORT + 5)
        return 0;
    chip.polls++;
    if (chip.stuck)
        return 0;
    if (!chip.slow)
        chip.fifo = 0;
    else if (chip.polls % 5 == 0 && chip.fifo > 0)
        chip.fifo--;
    return chip.fifo == 0 ? 0x60 : 0;
}

void plat_out8(u16 port, u8 v)
{
    if (!chip.present)
        return;
    if (port == PORT + 7)
        chip.scratch = v;
    else if (port == PORT + 3)
        chip.divisor_access = v & 0x80;
    else if (port == PORT && chip.divisor_access)
        chip.divisor = (chip.divisor & 0xff00) | v;
    else if (port == PORT + 1 && chip.divisor_access)
        chip.divisor = (chip.divisor & 0xff) | (unsigned)v << 8;
    else if (port == PORT && chip.n < sizeof(chip.sent)) {
        if (chip.fifo == 16)
            chip.overruns++;
        else
            chip.fifo++;
        chip.sent[chip.n++] = v;
    }
}

void plat_out8_burst(u16 port, const u8 *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        plat_out8(port, bytes[i]);
}

static struct uart uart;
static u8 message[20000];

static void begin(bool present)
{
    memset(&chip, 0, sizeof(chip));
    chip.present = present;
    chip.divisor = 0xffff;
    uart_init(&uart, PORT);
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (u8)(i * 7);
}

TEST(programs_115200_baud)
{
    begin(true);
    EXPECT(uart.present);
    EXPECT_EQ(chip.divisor, 1);
    EXPECT_FALSE(chip.divisor_access);
    EXPECT_EQ(chip.n, 0);
}

TEST(fast_chip_takes_a_bounded_lot_at_once)
{
    begin(true);
    size_t took = uart_write_now(&uart, message, sizeof(message));
    EXPECT_EQ(took, 1024);
    EXPECT_EQ(chip.n, took);
    EXPECT_LE(chip.polls, 1024 / 16 + 1);
    EXPECT_MEM(chip.sent, message, took);
    EXPECT_EQ(uart_write_now(&uart, message, 5), 5);
    EXPECT_EQ(uart_write_now(&uart, message, 0), 0);
}

TEST(slow_chip_takes_one_fifo_and_never_overruns)
{
    begin(true);
    chip.slow = true;
    EXPECT_EQ(uart_write_now(&uart, message, 100), 16);
    EXPECT_EQ(uart_write_now(&uart, message + 16, 84), 0);

    begin(true);
    chip.slow = true;
    uart_write(&uart, message, sizeof(message));
    EXPECT_EQ(chip.n, sizeof(message));
    EXPECT_EQ(chip.overruns, 0);
    EXPECT_MEM(chip.sent, message, sizeof(message));
    uart_sync(&uart);
    EXPECT_EQ(chip.fifo, 0);
}

TEST(stuck_line_costs_bounded_time)
{
    begin(true);
    chip.stuck = true;
    EXPECT_EQ(uart_write_now(&uart, message, 100), 0);
    uart_write(&uart, message, 100);
    uart_sync(&uart);
    EXPECT_EQ(chip.n, 0);
    EXPECT_LE(chip.polls, 3000000);
}

TEST(absent_chip_swallows)
{
    begin(false);
    EXPECT_FALSE(uart.present);
    EXPECT_EQ(uart_write_now(&uart, message, sizeof(message)), sizeof(message));
    uart_write(&uart, message, sizeof(message));
    uart_sync(&uart);
    EXPECT_EQ(chip.n, 0);
}
