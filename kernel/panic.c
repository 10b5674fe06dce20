/* panic.c: how the machine stops when it must: every CPU halted, every CPU's place told, one exit
 * code.
 *
 * The first CPU to come here wins (compare-and-swap) and is the only one that goes on; any other
 * halts, whether it came by itself or was sent an NMI, once its backtrace is in its own slot. The
 * winner waits for the slots for a bounded time, prints one line that a machine can read and the
 * backtraces that a person can, sends the telemetry's last frames by polling, and ends the machine.
 * A CPU that panics while it is already stopping the others says so in one line and ends the
 * machine at once; if even that fails, it ends it without a word.
 *
 * All memory is static, one slot a CPU, so it works before the CPU table and the heap exist.
 *
 * Locking: none, deliberately; whoever held a lock is stopped. Contexts: any, NMI included. */
#include "sched.h"

#include "telemetry/telemetry.h"

#define FRAMES_MAX 24u
#define REGS_MAX   32u

/* Written by the slot's CPU until `done`, then read by the one that stops the others. */
static struct stop_slot {
    unsigned n;
    u64 addr[FRAMES_MAX];
    bool done; /* release/acquire */
} slots[MAX_CPUS];

static unsigned stopper;   /* CPU + 1 of the winner; 0: nobody stops anybody */
static u64 cpus_alive = 1; /* CPUs that have come up, published in plat_cpu_count() or not */
static unsigned depth;     /* panics on the winner, itself the first */

void stop_cpu_alive(unsigned cpu)
{
    __atomic_fetch_or(&cpus_alive, (u64)1 << cpu, __ATOMIC_RELEASE);
}

static void record_here(const void *regs)
{
    struct stop_slot *s = &slots[plat_cpu_id()];

    if (s->done)
        return;
    s->n = machine_backtrace(regs, s->addr, FRAMES_MAX);
    __atomic_store_n(&s->done, true, __ATOMIC_RELEASE);
}

/* True for the one CPU that may go on. */
static bool claim(void)
{
    unsigned nobody = 0;

    return __atomic_compare_exchange_n(&stopper, &nobody, plat_cpu_id() + 1, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static bool all_recorded(void)
{
    u64 alive = __atomic_load_n(&cpus_alive, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < MAX_CPUS; i++) {
        if ((alive >> i & 1) && !__atomic_load_n(&slots[i].done, __ATOMIC_ACQUIRE))
            return false;
    }
    return true;
}

/* One second, if the clock's rate is known; else as many looks as take about that long on a slow
 * machine. */
static void wait_for_slots(void)
{
    u64 hz = plat_cycles_hz();
    u64 from = plat_cycles();

    for (u64 i = 0; !all_recorded(); i++) {
        if (hz ? plat_cycles() - from > hz : i > 10000000u)
            return;
        plat_relax();
    }
}

void stop_the_others(const void *regs)
{
    (void)plat_irq_save();
    if (!claim()) {
        record_here(regs);
        machine_halt();
    }
    record_here(regs);
    machine_nmi_others();
    wait_for_slots();
    /* A frame that was half out on the same line ends here, so that the text after it can be told
     * apart. */
    if (knobs.telemetry_port == V_telemetry_port_com1)
        machine_console_write("", 1);
}

/* -- telling
 * ----------------------------------------------------------------------------------------- */

static void print_frames(const u64 *addr, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        u64 offset = 0;
        const char *symbol = machine_symbol(addr[i], &offset);

        if (symbol)
            console_write_panic("  0x%016llx %s+0x%llx\n", (unsigned long long)addr[i], symbol,
                                (unsigned long long)offset);
        else
            console_write_panic("  0x%016llx\n", (unsigned long long)addr[i]);
    }
    if (n == FRAMES_MAX)
        console_write_panic("  (callers beyond these %u are not told)\n", FRAMES_MAX);
}

static void print_backtrace(unsigned cpu)
{
    const struct stop_slot *s = &slots[cpu];

    if (!__atomic_load_n(&s->done, __ATOMIC_ACQUIRE)) {
        console_write_panic("cpu%u: did not answer the NMI\n", cpu);
        return;
    }
    console_write_panic("cpu%u:\n", cpu);
    print_frames(s->addr, s->n);
}

void stop_print(void)
{
    unsigned me = plat_cpu_id();
    u64 alive = __atomic_load_n(&cpus_alive, __ATOMIC_ACQUIRE);

    print_backtrace(me);
    for (unsigned i = 0; i < MAX_CPUS; i++) {
        if (i != me && (alive >> i & 1))
            print_backtrace(i);
    }
}

/* One CPU's place, while the machine goes on. The button is wired to all CPUs: they take turns, but
 * none waits for ever on another. */
static void say_place(const void *regs)
{
    static unsigned talking; /* atomic flag */
    u64 addr[FRAMES_MAX], from = plat_cycles();
    unsigned n = machine_backtrace(regs, addr, FRAMES_MAX);

    while (__atomic_exchange_n(&talking, 1, __ATOMIC_ACQUIRE) &&
           plat_cycles() - from < plat_cycles_hz())
        plat_relax();
    console_write_panic("NMI on cpu%u:\n", plat_cpu_id());
    print_frames(addr, n);
    __atomic_store_n(&talking, 0, __ATOMIC_RELEASE);
}

void stop_nmi(const void *regs)
{
    if (__atomic_load_n(&stopper, __ATOMIC_ACQUIRE)) {
        if (__atomic_load_n(&stopper, __ATOMIC_ACQUIRE) == plat_cpu_id() + 1)
            return; /* a stray one, on the CPU that stops the others: it has work to finish */
        record_here(regs);
        machine_halt();
    }
    /* Nobody stops anybody: an operator's NMI button, or QEMU's `inject-nmi`. Say where we are, go
     * on. */
    say_place(regs);
}

static void print_line(const struct panic_info *info)
{
    console_write_panic("\nHAYLOFT-PANIC kind=%u name=%s cpu=%u v0=0x%llx v1=0x%llx v2=0x%llx "
                        "v3=0x%llx at=%s:%d text=\"%s\"\n",
                        (unsigned)info->kind,
                        info->kind < NR_PANIC_KINDS ? panic_kind_names[info->kind] : "?",
                        plat_cpu_id(), (unsigned long long)info->value[0],
                        (unsigned long long)info->value[1], (unsigned long long)info->value[2],
                        (unsigned long long)info->value[3], info->file, info->line, info->text);
}

static void print_registers(const void *regs)
{
    const char *name;
    u64 value;

    for (unsigned i = 0; regs && machine_register(regs, i, &name, &value); i++)
        console_write_panic("%s%-6s 0x%016llx", i % 4 ? "  " : "\n", name,
                            (unsigned long long)value);
    if (regs)
        console_write_panic("\n");
}

/* -- the telemetry record
 * ---------------------------------------------------------------------------- */

static struct telemetry_frame frames[MAX_CPUS][FRAMES_MAX];
static struct telemetry_backtrace others[MAX_CPUS];

static struct telemetry_backtrace symbolise(unsigned cpu)
{
    const struct stop_slot *s = &slots[cpu];
    struct telemetry_backtrace b = {.cpu = cpu, .frame = frames[cpu]};

    if (!__atomic_load_n(&s->done, __ATOMIC_ACQUIRE))
        return b;
    for (; b.frames < s->n; b.frames++) {
        struct telemetry_frame *f = &frames[cpu][b.frames];

        f->address = s->addr[b.frames];
        f->symbol = machine_symbol(f->address, &f->offset);
    }
    return b;
}

static void send_record(const struct panic_info *info)
{
    static struct telemetry_register reg[REGS_MAX];
    unsigned me = plat_cpu_id();
    u64 alive = __atomic_load_n(&cpus_alive, __ATOMIC_ACQUIRE);
    struct telemetry_panic record = {.info = info, .reg = reg, .other = others};

    record.here = symbolise(me);
    while (
        info->regs && record.regs < REGS_MAX &&
        machine_register(info->regs, record.regs, &reg[record.regs].name, &reg[record.regs].value))
        record.regs++;
    for (unsigned i = 0; i < MAX_CPUS; i++) {
        if (i != me && (alive >> i & 1))
            others[record.others++] = symbolise(i);
    }
    telemetry_panic(&record);
}

/* -- the way in
 * -------------------------------------------------------------------------------------- */

static NORETURN void end(void)
{
    machine_sink_sync();
    machine_exit(16 + PLAT_EXIT_PANIC);
}

/* The winner came back: something on the way down is broken too. Nothing that was tried is tried
 * again. */
static NORETURN void panic_again(const struct panic_info *info)
{
    if (++depth == 2) {
        console_write_panic(
            "\nHAYLOFT-PANIC-IN-PANIC kind=%u v0=0x%llx v1=0x%llx v2=0x%llx v3=0x%llx\n",
            (unsigned)info->kind, (unsigned long long)info->value[0],
            (unsigned long long)info->value[1], (unsigned long long)info->value[2],
            (unsigned long long)info->value[3]);
    }
    machine_exit(16 + PLAT_EXIT_PANIC);
}

void plat_panic(const struct panic_info *info)
{
    (void)plat_irq_save();
    if (__atomic_load_n(&stopper, __ATOMIC_ACQUIRE) == plat_cpu_id() + 1)
        panic_again(info);
    stop_the_others(info->regs);
    depth = 1;
    print_line(info);
    print_registers(info->regs);
    stop_print();
    send_record(info);
    end();
}

void plat_exit(enum plat_exit how)
{
    machine_sink_sync();
    machine_exit(16 + how);
}
