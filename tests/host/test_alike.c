/* test_alike.c: a started CPU is made like CPU 0, against CPUs played here: registers that remember, and a
 * CPU that notes when a memory type was written in a state in which it must not be.
 *
 * Locking: none. Contexts: hosted, one CPU. */
#include "test.h"

#include "../../arch/x86_64/alike.h"

#define PAT       0x277u
#define MTRR_TYPE 0x2ffu
#define MTRR_CAP  0xfeu
#define VARIABLES 8u

#define TYPES_ON   0x800u
#define MTRR       (1u << 12)
#define HAS_PAT    (1u << 16)
#define CAP        (0x500u | VARIABLES)
#define CR0_OF_ONE 0x80010033u
#define CR4_OF_ONE 0x6a0u
#define AFTER_INIT 0xc0010011u /* what the trampoline makes of it */

static struct {
    u64 cr0, cr3, cr4;
    u64 efer, apic, pat, cap, type;
    u64 fixed[ALIKE_FIXED], variable[2 * VARIABLES];
    u32 edx, ebx7;
    u32 stuck;        /* an MSR that keeps its value */
    u64 cr4_stuck;    /* bits of CR4 that stay 0 */
    unsigned writes;  /* of anything */
    unsigned types;   /* writes of memory types */
    unsigned strange; /* MSRs that there are none of */
    unsigned wrong;   /* writes of memory types in a wrong state, and caches turned on in one */
    bool written_back, emptied; /* since the caches were turned off, or a type was written */
} cpu;

static u64 *msr_at(u32 msr)
{
    static const u32 fixed[ALIKE_FIXED] = {0x250, 0x258, 0x259, 0x268, 0x269, 0x26a,
                                           0x26b, 0x26c, 0x26d, 0x26e, 0x26f};

    for (unsigned i = 0; i < ALIKE_FIXED; i++)
        if (cpu.cap & 0x100 && msr == fixed[i])
            return &cpu.fixed[i];
    if (msr >= 0x200 && msr < 0x200 + 2 * (cpu.cap & 0xff))
        return &cpu.variable[msr - 0x200];
    switch (msr) {
    case MSR_EFER:
        return &cpu.efer;
    case MSR_APIC_BASE:
        return &cpu.apic;
    case PAT:
        return cpu.edx & HAS_PAT ? &cpu.pat : NULL;
    case MTRR_TYPE:
        return cpu.edx & MTRR ? &cpu.type : NULL;
    case MTRR_CAP:
        return cpu.edx & MTRR ? &cpu.cap : NULL;
    default:
        return NULL;
    }
}

static struct cpuid get_cpuid(u32 leaf)
{
    switch (leaf) {
    case 0:
        return (struct cpuid){0x16, 1, 2, 3};
    case 1:
        return (struct cpuid){0x1234, 0x01000800, (u32)(cpu.cr4 & 0x40000) << 9, cpu.edx};
    case 7:
        return (struct cpuid){0, cpu.ebx7, 0, 0};
    case 0x80000000:
        return (struct cpuid){0x80000008, 0, 0, 0};
    default:
        return (struct cpuid){leaf, leaf, leaf, leaf};
    }
}

static u64 get_msr(u32 msr)
{
    const u64 *at = msr_at(msr);

    cpu.strange += at == NULL;
    return at ? *at : 0;
}

static void set_msr(u32 msr, u64 v)
{
    u64 *at = msr_at(msr);
    bool range = msr >= 0x200 && msr < MTRR_TYPE && msr != PAT;

    cpu.writes++;
    cpu.strange += at == NULL;
    if (range || msr == PAT || msr == MTRR_TYPE) {
        bool off = cpu.cr0 & CR0_CD && !(cpu.cr0 & CR0_NW) && cpu.written_back && cpu.emptied;

        cpu.types++;
        cpu.wrong += !off && cpu.types == 1;
        cpu.wrong += !(cpu.cr0 & CR0_CD);
        cpu.wrong += cpu.cr4 & CR4_PGE ? 1 : 0;
        cpu.wrong += range && cpu.type & TYPES_ON;
        cpu.written_back = cpu.emptied = false;
    }
    if (at && msr != cpu.stuck)
        *at = v;
}

static u64 get_control(unsigned cr)
{
    return cr == 0 ? cpu.cr0 : cr == 3 ? cpu.cr3 : cpu.cr4;
}

static void set_control(unsigned cr, u64 v)
{
    cpu.writes++;
    if (cr == 0) {
        cpu.wrong += cpu.types && !(v & CR0_CD) && !(cpu.written_back && cpu.emptied);
        cpu.cr0 = v;
    } else if (cr == 3) {
        cpu.emptied = !(cpu.cr4 & CR4_PGE);
        cpu.cr3 = v;
    } else {
        cpu.cr4 = v & ~cpu.cr4_stuck;
    }
}

static void write_back(void)
{
    cpu.writes++;
    cpu.written_back = cpu.cr0 & CR0_CD;
}

static const struct alike_cpu played = {get_cpuid,   get_msr,     set_msr,
                                        get_control, set_control, write_back};
static struct alike model;
static char trouble[100];

/* CPU 0, read; then one that was just started, with the same memory types. */
static void begin(void)
{
    memset(&cpu, 0, sizeof(cpu));
    cpu.cr0 = CR0_OF_ONE;
    cpu.cr3 = 0x1000;
    cpu.cr4 = CR4_OF_ONE;
    cpu.efer = 0xd01;
    cpu.apic = 0xfee00900;
    cpu.pat = 0x0007040600070406;
    cpu.cap = CAP;
    cpu.type = TYPES_ON | 6;
    for (unsigned i = 0; i < ALIKE_FIXED; i++)
        cpu.fixed[i] = 0x0606060606060606 + i;
    cpu.variable[0] = 0x80000000;
    cpu.variable[1] = 0xff80000800;
    cpu.edx = MTRR | HAS_PAT;
    alike_read(&played, &model);
    EXPECT_EQ(cpu.writes, 0);
    EXPECT_EQ(cpu.strange, 0);
    cpu.cr0 = AFTER_INIT;
    cpu.cr4 = 0xa0;
    cpu.efer = 0xd00;
    cpu.apic = 0xfee00000; /* not the boot CPU, and not yet on */
}

static bool make(void)
{
    bool made;

    trouble[0] = 0;
    made = alike_make(&played, &model, trouble, sizeof(trouble));
    EXPECT_EQ(cpu.strange, 0);
    EXPECT_EQ(cpu.wrong, 0);
    EXPECT_EQ(made, trouble[0] == 0);
    return made;
}

static void expect_like_cpu_0(void)
{
    EXPECT_EQ(cpu.cr0, CR0_OF_ONE);
    EXPECT_EQ(cpu.cr3, 0x1000);
    EXPECT_EQ(cpu.cr4, CR4_OF_ONE);
    EXPECT_EQ(cpu.efer, 0xd01);
    EXPECT_EQ(cpu.pat, 0x0007040600070406);
    EXPECT_EQ(cpu.type, TYPES_ON | 6);
    EXPECT_EQ(cpu.fixed[ALIKE_FIXED - 1], 0x0606060606060606 + ALIKE_FIXED - 1);
    EXPECT_EQ(cpu.variable[1], 0xff80000800);
    EXPECT_EQ(cpu.variable[2 * VARIABLES - 1], 0);
}

TEST(caches_go_on_and_types_that_are_right_are_left_alone)
{
    begin();
    EXPECT(make());
    EXPECT_EQ(cpu.types, 0);
    expect_like_cpu_0();
}

TEST(memory_types_are_given_in_the_order_of_the_manual)
{
    begin();
    cpu.pat = 0x0007040600070400;
    cpu.type = TYPES_ON;
    cpu.fixed[0] = 0;
    cpu.fixed[ALIKE_FIXED - 1] = 0;
    cpu.variable[1] = 0;
    cpu.variable[2 * VARIABLES - 1] = 0x800;
    EXPECT(make());
    EXPECT(cpu.types > 0);
    expect_like_cpu_0();
}

TEST(a_cpu_whose_types_were_never_set)
{
    begin();
    cpu.type = 0;
    memset(cpu.fixed, 0, sizeof(cpu.fixed));
    memset(cpu.variable, 0, sizeof(cpu.variable));
    EXPECT(make());
    expect_like_cpu_0();
}

TEST(one_register_that_differs_is_enough)
{
    for (unsigned i = 0; i < ALIKE_FIXED + 2 * VARIABLES + 2; i++) {
        begin();
        if (i < ALIKE_FIXED)
            cpu.fixed[i] ^= 1;
        else if (i < ALIKE_FIXED + 2 * VARIABLES)
            cpu.variable[i - ALIKE_FIXED] ^= 1;
        else if (i == ALIKE_FIXED + 2 * VARIABLES)
            cpu.pat ^= 1;
        else
            cpu.type ^= 1;
        EXPECT(make());
        expect_like_cpu_0();
    }
}

TEST(what_does_not_take_is_told)
{
    begin();
    cpu.pat = 1;
    cpu.stuck = PAT;
    EXPECT_FALSE(make());
    EXPECT_STR(trouble, "its PAT is 1, CPU 0's is 7040600070406");

    begin();
    cpu.variable[5] = 7;
    cpu.stuck = 0x205;
    EXPECT_FALSE(make());
    EXPECT_STR(trouble, "its MTRR 205 is 7, CPU 0's is 0");

    begin();
    cpu.stuck = MSR_EFER;
    EXPECT_FALSE(make());
    EXPECT_STR(trouble, "its EFER is d00, CPU 0's is d01");

    begin();
    cpu.cr4_stuck = 0x400;
    EXPECT_FALSE(make());
    EXPECT_STR(trouble, "its CR4 is 2a0, CPU 0's is 6a0");
}

/* Since a bit that it does not know would be a fault. */
TEST(a_cpu_with_other_features_is_not_touched)
{
    begin();
    cpu.ebx7 ^= 1u << 7;
    cpu.pat = 1;
    EXPECT_FALSE(make());
    EXPECT_EQ(cpu.writes, 0);
    EXPECT_STR(trouble, "its CPUID 7 is 80, CPU 0's is 0");

    begin();
    cpu.cap--;
    EXPECT_FALSE(make());
    EXPECT_EQ(cpu.writes, 0);
    EXPECT_STR(trouble, "its MTRR capability is 507, CPU 0's is 508");
}

TEST(a_local_apic_in_another_mode_or_place_is_not_touched)
{
    begin();
    cpu.apic |= 0xc00;
    EXPECT_FALSE(make());
    EXPECT_EQ(cpu.writes, 0);

    begin();
    cpu.apic = 0xfed00000;
    EXPECT_FALSE(make());
    EXPECT_EQ(cpu.writes, 0);
}

/* What CPUID makes of a control register that is not yet CPU 0's is no feature. */
TEST(osxsave_follows_cr4)
{
    begin();
    cpu.cr0 = CR0_OF_ONE;
    cpu.cr4 = CR4_OF_ONE | 0x40000;
    alike_read(&played, &model);
    cpu.efer = model.efer;
    cpu.cr0 = AFTER_INIT;
    cpu.cr4 = 0xa0;
    EXPECT(make());
    EXPECT_EQ(cpu.cr4, CR4_OF_ONE | 0x40000);
}

TEST(cpus_without_memory_types)
{
    begin();
    cpu.edx = 0;
    cpu.cap = 0;
    cpu.cr0 = CR0_OF_ONE;
    cpu.cr4 = CR4_OF_ONE;
    alike_read(&played, &model);
    cpu.cr0 = AFTER_INIT;
    EXPECT(make());
    EXPECT_EQ(cpu.types, 0);
    EXPECT_EQ(cpu.cr0, CR0_OF_ONE);
}
