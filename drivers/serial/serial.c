/* serial.c: which port is for what. COM1 is the console, COM2 the telemetry sink, until
 * telemetry.port=com1 puts both on one line.
 *
 * Locking: none. Console text may come from several CPUs at once in a panic and then mixes;
 * kernel/ takes its log lock otherwise. The sink's callers serialise. Contexts: any. */
#include "uart16550.h"

#include "../../base/machine.h"
#include "../../base/plat.h"

static const u16 com_port[] = {0x3f8, 0x2f8};

static struct uart com[ARRAY_SIZE(com_port)];
static unsigned sink = 1;

void machine_serial_init(void)
{
    for (unsigned i = 0; i < ARRAY_SIZE(com); i++)
        uart_init(&com[i], com_port[i]);
}

void machine_console_write(const char *text, size_t n)
{
    uart_write(&com[0], (const u8 *)text, n);
}

void machine_sink_select(unsigned port)
{
    if (port >= 1 && port <= ARRAY_SIZE(com))
        sink = port - 1;
}

bool machine_port_present(unsigned port)
{
    return port >= 1 && port <= ARRAY_SIZE(com) && com[port - 1].present;
}

size_t plat_sink_write(const void *bytes, size_t n)
{
    return uart_write_now(&com[sink], bytes, n);
}

void machine_sink_sync(void)
{
    uart_sync(&com[sink]);
}
