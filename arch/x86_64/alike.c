/* alike.c: every CPU must do the same work at the same price, or figures that look plausible are none.
 *
 * A CPU comes out of INIT with its caches off, with control registers at their reset values and with
 * the memory types (PAT, MTRRs) that firmware gave that CPU, if it gave it any. CPU 0's are the ones
 * that the boot loader and this kernel were loaded under, so they are the model: what another CPU can
 * be given safely it is given, then everything is read back and compared. A CPU that still differs is
 * not run; the caller tells in what it differs.
 *
 * Features come first, since a register bit that a CPU does not know is a fault: they are CPUID's, and
 * cannot be given. Only those are compared that have to do with what kernel or compiler use, or with
 * what a CPU costs: no names, numbers, cache sizes, nor what follows from a control register.
 *
 * Memory types are written only where they differ (a hypervisor may refuse the write), in the order
 * that the manuals ask for (Intel SDM 3A, "MTRR considerations in MP systems"; AMD APM 2, 7.7.6):
 * caches off, written back, TLB emptied, MTRRs off; then the writes; MTRRs on, written back, TLB
 * emptied. The caches are turned on last, by CR0. The manuals want all CPUs to do this at one time
 * where they share memory; here nobody else changes anything, and the one CPU that runs already has
 * the types that the other takes.
 *
 * Deliberately absent: what belongs to a model of CPU (SYSCFG, IA32_MISC_ENABLE), microcode, and
 * whether the cores of a CPU are of one kind.
 *
 * Locking: none. Contexts: CPU 0 while it boots; a started CPU before it is let in; hosted tests. */
#include "alike.h"

#include "../../base/fmt.h"
#include "../../base/guard.h"
#include "../../base/string.h"

#define MSR_MTRR_CAP  0xfeu
#define MSR_VARIABLE  0x200u /* base, mask, base, … */
#define MSR_PAT       0x277u
#define MSR_MTRR_TYPE 0x2ffu
#define CAP_VARIABLES 0xffu
#define CAP_FIXED     0x100u
#define TYPE_ON       0x800u
#define FEATURE_MTRR  (1u << 12) /* CPUID 1, EDX */
#define FEATURE_PAT   (1u << 16)
#define APIC_BSP      0x100u
#define APIC_ON       0x800u

static const u32 fixed_msr[ALIKE_FIXED] = {0x250, 0x258, 0x259, 0x268, 0x269, 0x26a,
                                           0x26b, 0x26c, 0x26d, 0x26e, 0x26f};

/* What of a leaf is compared. */
static const struct {
    u32 leaf, a, b, c, d;
} leaves[ALIKE_LEAVES] = {
    {0x00000000, 0, ~0u, ~0u, ~0u},       /* the vendor */
    {0x00000001, 0, 0, ~(1u << 27), ~0u}, /* features, but OSXSAVE, which follows CR4 */
    {0x00000007, 0, ~0u, ~(1u << 4), 0},  /* features, but OSPKE; EDX has what microcode brings */
    {0x00000015, ~0u, ~0u, ~0u, 0},       /* the rate of the TSC */
    {0x80000001, 0, 0, ~0u, ~0u},         /* features */
    {0x80000007, 0, 0, 0, 1u << 8},       /* whether the TSC's rate ever changes */
    {0x80000008, 0xffffu, 0, 0, 0},       /* how long addresses are */
};

static struct cpuid features(const struct alike_cpu *cpu, unsigned i)
{
    struct cpuid r = {0};

    if (cpu->cpuid(leaves[i].leaf & 0x80000000u).a >= leaves[i].leaf)
        r = cpu->cpuid(leaves[i].leaf);
    return (struct cpuid){r.a & leaves[i].a, r.b & leaves[i].b, r.c & leaves[i].c,
                          r.d & leaves[i].d};
}

static unsigned variables(u64 cap)
{
    return (unsigned)(cap & CAP_VARIABLES);
}

void alike_read(const struct alike_cpu *cpu, struct alike *out)
{
    u32 has = cpu->cpuid(1).d;

    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < ALIKE_LEAVES; i++)
        out->leaf[i] = features(cpu, i);
    out->cr0 = cpu->control(0);
    out->cr4 = cpu->control(4);
    out->efer = cpu->msr(MSR_EFER);
    out->apic_base = (cpu->msr(MSR_APIC_BASE) & ~(u64)APIC_BSP) | APIC_ON;
    if (has & FEATURE_PAT)
        out->pat = cpu->msr(MSR_PAT);
    if (!(has & FEATURE_MTRR))
        return;
    out->mtrr_cap = cpu->msr(MSR_MTRR_CAP);
    out->mtrr_type = cpu->msr(MSR_MTRR_TYPE);
    for (unsigned i = 0; out->mtrr_cap & CAP_FIXED && i < ALIKE_FIXED; i++)
        out->fixed[i] = cpu->msr(fixed_msr[i]);
    for (unsigned i = 0; i < 2 * variables(out->mtrr_cap); i++)
        out->variable[i / 2][i % 2] = cpu->msr(MSR_VARIABLE + i);
}

/* -- comparing: each returns true and tells nothing if all is the same -- */

struct teller {
    char *text;
    size_t n;
};

static bool same(struct teller t, const char *what, u64 has, u64 wanted)
{
    if (has == wanted)
        return true;
    fmt(t.text, t.n, "its %s is %llx, CPU 0's is %llx", what, (unsigned long long)has,
        (unsigned long long)wanted);
    return false;
}

static bool same_msr(const struct alike_cpu *cpu, struct teller t, u32 msr, u64 wanted)
{
    char what[24];

    fmt(what, sizeof(what), "MTRR %x", msr);
    return same(t, what, cpu->msr(msr), wanted);
}

static bool same_features(const struct alike_cpu *cpu, const struct alike *like, struct teller t)
{
    char what[32];

    for (unsigned i = 0; i < ALIKE_LEAVES; i++) {
        struct cpuid has = features(cpu, i), wanted = like->leaf[i];

        fmt(what, sizeof(what), "CPUID %x", leaves[i].leaf);
        if (!same(t, what, has.a, wanted.a) || !same(t, what, has.b, wanted.b) ||
            !same(t, what, has.c, wanted.c) || !same(t, what, has.d, wanted.d))
            return false;
    }
    return !like->mtrr_cap || same(t, "MTRR capability", cpu->msr(MSR_MTRR_CAP), like->mtrr_cap);
}

static bool same_mtrrs(const struct alike_cpu *cpu, const struct alike *like, struct teller t)
{
    if (!like->mtrr_cap)
        return true;
    for (unsigned i = 0; like->mtrr_cap & CAP_FIXED && i < ALIKE_FIXED; i++)
        if (!same_msr(cpu, t, fixed_msr[i], like->fixed[i]))
            return false;
    for (unsigned i = 0; i < 2 * variables(like->mtrr_cap); i++)
        if (!same_msr(cpu, t, MSR_VARIABLE + i, like->variable[i / 2][i % 2]))
            return false;
    return same(t, "default memory type", cpu->msr(MSR_MTRR_TYPE), like->mtrr_type);
}

static bool same_types(const struct alike_cpu *cpu, const struct alike *like, struct teller t)
{
    return (!like->pat || same(t, "PAT", cpu->msr(MSR_PAT), like->pat)) && same_mtrrs(cpu, like, t);
}

static bool same_registers(const struct alike_cpu *cpu, const struct alike *like, struct teller t)
{
    return same(t, "CR0", cpu->control(0), like->cr0) &&
           same(t, "CR4", cpu->control(4), like->cr4) &&
           same(t, "EFER", cpu->msr(MSR_EFER), like->efer);
}

/* -- giving -- */

static void tlb_empty(const struct alike_cpu *cpu)
{
    cpu->control_set(4, cpu->control(4) & ~(u64)CR4_PGE);
    cpu->control_set(3, cpu->control(3));
}

static void give(const struct alike_cpu *cpu, u32 msr, u64 v)
{
    if (cpu->msr(msr) != v)
        cpu->msr_set(msr, v);
}

static void give_types(const struct alike_cpu *cpu, const struct alike *like)
{
    cpu->control_set(0, (cpu->control(0) | CR0_CD) & ~(u64)CR0_NW);
    if (GUARD_STEP(75))
        cpu->write_back();
    tlb_empty(cpu);
    if (like->mtrr_cap) {
        if (GUARD_STEP(76))
            cpu->msr_set(MSR_MTRR_TYPE, cpu->msr(MSR_MTRR_TYPE) & ~(u64)TYPE_ON);
        for (unsigned i = 0; like->mtrr_cap & CAP_FIXED && i < ALIKE_FIXED; i++)
            give(cpu, fixed_msr[i], like->fixed[i]);
        for (unsigned i = 0; i < 2 * variables(like->mtrr_cap); i++)
            give(cpu, MSR_VARIABLE + i, like->variable[i / 2][i % 2]);
    }
    if (like->pat)
        give(cpu, MSR_PAT, like->pat);
    if (like->mtrr_cap)
        give(cpu, MSR_MTRR_TYPE, like->mtrr_type);
    cpu->write_back();
    if (GUARD_STEP(77))
        tlb_empty(cpu);
}

bool alike_make(const struct alike_cpu *cpu, const struct alike *like, char *trouble, size_t n)
{
    struct teller t = {trouble, n};

    if (!GUARD(78, same_features(cpu, like, t)))
        return false;
    if (!same(t, "local APIC's state", (cpu->msr(MSR_APIC_BASE) & ~(u64)APIC_BSP) | APIC_ON,
              like->apic_base))
        return false;
    if (!same_types(cpu, like, t))
        give_types(cpu, like);
    give(cpu, MSR_EFER, like->efer);
    cpu->control_set(4, like->cr4);
    cpu->control_set(0, like->cr0); /* and with it the caches */
    trouble[0] = 0;
    return GUARD(79, same_types(cpu, like, t)) && same_registers(cpu, like, t);
}
