/* trap.c: the interrupt table, and who is told of what.
 *
 * All 256 gates are interrupt gates into entry.S, so handlers run with interrupts off. An exception
 * goes to kernel_trap(), which never returns: this kernel provokes none on purpose. The end of a
 * timer interrupt or IPI is signalled before its handler runs, since the handler's last act,
 * kernel_irq_exit(), may switch to another thread and come back much later.
 *
 * Locking: none. Contexts: interrupt, NMI, exception. */
#include "cpu.h"

struct gate {
    u16 offset_low, selector;
    u8 ist, type;
    u16 offset_middle;
    u32 offset_high, reserved;
};

#define GATE_INTERRUPT 0x8e

static struct gate idt[256] ALIGNED(16);

void trap_init(void)
{
    for (unsigned v = 0; v < 256; v++) {
        u64 to = (u64)entry_stubs[v];
        struct gate *g = &idt[v];

        g->offset_low = (u16)to;
        g->offset_middle = (u16)(to >> 16);
        g->offset_high = (u32)(to >> 32);
        g->selector = SEL_CODE;
        g->type = GATE_INTERRUPT;
    }
    idt[VECTOR_DOUBLE_FAULT].ist = IST_DOUBLE_FAULT;
    idt[VECTOR_NMI].ist = IST_NMI;

    /* The two legacy interrupt controllers: moved off the exceptions' vectors, then masked for
     * good. */
    static const u8 words[][2] = {
        {0x11, 0x11}, {VECTOR_PIC, VECTOR_PIC + 8}, {4, 2}, {1, 1}, {0xff, 0xff}};

    for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
        x86_out8(i == 0 ? 0x20 : 0x21, words[i][0]);
        x86_out8(i == 0 ? 0xa0 : 0xa1, words[i][1]);
    }
}

void trap_load(void)
{
    const struct {
        u16 limit;
        u64 base;
    } PACKED t = {.limit = sizeof(idt) - 1, .base = (u64)idt};

    asm volatile("lidt %0" : : "m"(t));
}

static void interrupt(struct trap_frame *f, unsigned v)
{
    lapic_eoi();
    if (v == VECTOR_WAKE)
        return;
    cpu_fold_resched();
    if (v == VECTOR_TIMER)
        kernel_tick(f);
    else
        kernel_ipi((enum machine_ipi)(v - VECTOR_IPI), f);
    kernel_irq_exit();
}

static bool is_interrupt(unsigned v)
{
    return v == VECTOR_TIMER || (v >= VECTOR_IPI && v < VECTOR_IPI + NR_MACHINE_IPIS) ||
           v == VECTOR_WAKE;
}

/* Nobody sent it, and its end must not be signalled. */
static bool is_spurious(unsigned v)
{
    return v == VECTOR_SPURIOUS || (v >= VECTOR_PIC && v < VECTOR_PIC + 16);
}

static const char *exception_name(unsigned v)
{
    static const char *const names[] = {
        [0] = "divide error",
        [1] = "debug",
        [3] = "breakpoint",
        [4] = "overflow",
        [5] = "bound range",
        [6] = "invalid opcode",
        [7] = "no FPU",
        [8] = "double fault",
        [10] = "invalid TSS",
        [11] = "segment not present",
        [12] = "stack fault",
        [13] = "general protection",
        [14] = "page fault",
        [16] = "x87 error",
        [17] = "alignment check",
        [18] = "machine check",
        [19] = "SIMD error",
        [20] = "virtualisation",
        [21] = "control protection",
    };

    return v < ARRAY_SIZE(names) ? names[v] : NULL;
}

void trap_dispatch(struct trap_frame *f)
{
    unsigned v = (unsigned)f->vector;

    if (likely(is_interrupt(v))) {
        interrupt(f, v);
        return;
    }
    if (is_spurious(v))
        return;
    if (v == VECTOR_NMI) {
        kernel_nmi(f);
        return;
    }
    const struct machine_trap trap = {
        .vector = v,
        .name = exception_name(v),
        .error = f->error,
        .ip = f->rip,
        .sp = f->rsp,
        .fault_address = x86_read_cr2(),
        .regs = f,
    };
    kernel_trap(&trap);
}

bool machine_register(const void *regs, unsigned i, const char **name, u64 *value)
{
    static const struct {
        const char *name;
        u16 offset;
    } list[] = {
        {"rip", offsetof(struct trap_frame, rip)},
        {"rsp", offsetof(struct trap_frame, rsp)},
        {"rbp", offsetof(struct trap_frame, rbp)},
        {"rflags", offsetof(struct trap_frame, rflags)},
        {"rax", offsetof(struct trap_frame, rax)},
        {"rbx", offsetof(struct trap_frame, rbx)},
        {"rcx", offsetof(struct trap_frame, rcx)},
        {"rdx", offsetof(struct trap_frame, rdx)},
        {"rsi", offsetof(struct trap_frame, rsi)},
        {"rdi", offsetof(struct trap_frame, rdi)},
        {"r8", offsetof(struct trap_frame, r8)},
        {"r9", offsetof(struct trap_frame, r9)},
        {"r10", offsetof(struct trap_frame, r10)},
        {"r11", offsetof(struct trap_frame, r11)},
        {"r12", offsetof(struct trap_frame, r12)},
        {"r13", offsetof(struct trap_frame, r13)},
        {"r14", offsetof(struct trap_frame, r14)},
        {"r15", offsetof(struct trap_frame, r15)},
        {"vector", offsetof(struct trap_frame, vector)},
        {"error", offsetof(struct trap_frame, error)},
    };

    if (!regs || i >= ARRAY_SIZE(list))
        return false;
    *name = list[i].name;
    *value = *(const u64 *)((const u8 *)regs + list[i].offset);
    return true;
}
