/* test_acpi.c: the CPU list and the clocks out of ACPI tables built here in a small physical memory; what is lent
 * is a copy that ends where it was asked to end, so that ASan sees any step past it.
 *
 * Locking: none. Contexts: hosted, one CPU. */
#include "test.h"

#include "../../arch/x86_64/acpi.h"

#define MEMORY_BASE  0x7ffe0000ul
#define MEMORY_BYTES 4096u
#define RSDT         0x000u
#define XSDT         0x100u
#define MADT         0x200u
#define HPET         0xb00u
#define FADT         0xc00u
#define OTHER        0xe00u

static u8 memory[MEMORY_BYTES];
static u8 rsdp[36];
static void *lent[64];
static unsigned lents;

static const u8 *lend(void *ctx, u64 phys, size_t n)
{
    (void)ctx;
    if (phys < MEMORY_BASE || phys - MEMORY_BASE > MEMORY_BYTES ||
        n > MEMORY_BYTES - (phys - MEMORY_BASE) || lents == ARRAY_SIZE(lent))
        return NULL;
    void *copy = malloc(n ? n : 1);

    memcpy(copy, memory + (phys - MEMORY_BASE), n);
    return lent[lents++] = copy;
}

static const struct acpi_memory physical = {.lend = lend};
static struct acpi_cpus cpus;

static const char *read_cpus(size_t rsdp_bytes)
{
    u8 *root = malloc(rsdp_bytes ? rsdp_bytes : 1);

    memcpy(root, rsdp, rsdp_bytes);
    const char *why = acpi_cpus(root, rsdp_bytes, &physical, &cpus);
    free(root);
    while (lents > 0)
        free(lent[--lents]);
    return why;
}

static struct acpi_clocks clocks;

static void read_clocks(size_t rsdp_bytes)
{
    u8 *root = malloc(rsdp_bytes ? rsdp_bytes : 1);

    memcpy(root, rsdp, rsdp_bytes);
    memset(&clocks, 0x5a, sizeof(clocks));
    acpi_clocks(root, rsdp_bytes, &physical, &clocks);
    free(root);
    while (lents > 0)
        free(lent[--lents]);
}

static void put(u8 *p, u64 v, size_t n)
{
    memcpy(p, &v, n);
}

static void seal(u8 *p, size_t n, size_t checksum_at)
{
    u8 sum = 0;

    p[checksum_at] = 0;
    for (size_t i = 0; i < n; i++)
        sum = (u8)(sum + p[i]);
    p[checksum_at] = (u8)-sum;
}

static void table(unsigned at, const char *signature, size_t bytes)
{
    memcpy(memory + at, signature, 4);
    put(memory + at + 4, bytes, 4);
    seal(memory + at, bytes, 9);
}

static size_t madt_bytes;

static void madt_entry(u8 type, u8 length, const void *rest, size_t n)
{
    u8 *e = memory + MADT + madt_bytes;

    e[0] = type;
    e[1] = length;
    if (n)
        memcpy(e + 2, rest, n);
    madt_bytes += length;
}

static void xapic(u8 id, u32 flags)
{
    u8 rest[6] = {id, id};

    memcpy(rest + 2, &flags, 4);
    madt_entry(0, 8, rest, sizeof(rest));
}

static void x2apic(u32 id, u32 flags)
{
    u8 rest[14] = {0};

    memcpy(rest + 2, &id, 4);
    memcpy(rest + 6, &flags, 4);
    madt_entry(9, 16, rest, sizeof(rest));
}

/* Empty tables; the test adds entries, then calls seal_all(). */
static void begin(void)
{
    memset(memory, 0, sizeof(memory));
    memset(rsdp, 0, sizeof(rsdp));
    put(memory + MADT + 36, 0xfee00000, 4);
    madt_bytes = 44;
}

static void seal_all(unsigned revision)
{
    table(MADT, "APIC", madt_bytes);
    table(OTHER, "SSDT", 116);
    put(memory + RSDT + 36, MEMORY_BASE + OTHER, 4);
    put(memory + RSDT + 40, MEMORY_BASE + MADT, 4);
    table(RSDT, "RSDT", 44);
    put(memory + XSDT + 36, MEMORY_BASE + OTHER, 8);
    put(memory + XSDT + 44, MEMORY_BASE + MADT, 8);
    table(XSDT, "XSDT", 52);

    memcpy(rsdp, "RSD PTR ", 8);
    rsdp[15] = (u8)revision;
    put(rsdp + 16, MEMORY_BASE + RSDT, 4);
    put(rsdp + 20, 36, 4);
    put(rsdp + 24, MEMORY_BASE + XSDT, 8);
    seal(rsdp, 20, 8);
    seal(rsdp, 36, 32);
}

TEST(old_root_pointer)
{
    begin();
    xapic(0, 1);
    xapic(1, 1);
    seal_all(0);
    put(rsdp + 24, 0, 8); /* an old one has nothing there */
    EXPECT_NULL(read_cpus(20));
    EXPECT_EQ(cpus.count, 2);
    EXPECT_EQ(cpus.lapic, 0xfee00000);
}

TEST(new_root_pointer_uses_the_xsdt)
{
    begin();
    xapic(3, 1);
    seal_all(2);
    memset(memory + RSDT, 0, 36); /* would not do */
    EXPECT_NULL(read_cpus(36));
    REQUIRE(cpus.count == 1);
    EXPECT_EQ(cpus.apic_id[0], 3);
}

TEST(broken_xsdt_falls_back_on_the_rsdt)
{
    begin();
    xapic(3, 1);
    seal_all(2);
    memory[XSDT + 9]++;
    EXPECT_NULL(read_cpus(36));
    EXPECT_EQ(cpus.count, 1);
    EXPECT_EQ(cpus.disabled, 0);

    rsdp[32]++; /* the same if the extended checksum is wrong */
    EXPECT_NULL(read_cpus(36));
}

TEST(checksums)
{
    begin();
    xapic(0, 1);
    seal_all(0);
    EXPECT_NULL(read_cpus(20));
    rsdp[8]++;
    EXPECT(read_cpus(20) != NULL);
    seal(rsdp, 20, 8);
    memory[MADT + 45]++;
    EXPECT(read_cpus(20) != NULL);
    memory[MADT + 45]--;
    memory[RSDT + 20]++;
    EXPECT(read_cpus(20) != NULL);
}

TEST(signatures)
{
    begin();
    xapic(0, 1);
    seal_all(0);
    rsdp[0] = 'X';
    seal(rsdp, 20, 8);
    EXPECT(read_cpus(20) != NULL);
    EXPECT(read_cpus(0) != NULL);
    EXPECT(read_cpus(19) != NULL);
    EXPECT(acpi_cpus(NULL, 0, &physical, &cpus) != NULL);
}

TEST(holes_disabled_and_doubled)
{
    static const u8 ids[] = {0, 1, 2, 4, 5, 6};

    begin();
    for (unsigned i = 0; i < sizeof(ids); i++)
        xapic(ids[i], 1);
    xapic(8, 0);
    xapic(9, 2);     /* could be enabled later: not now */
    x2apic(2, 1);    /* again */
    x2apic(7, 1);    /* small enough for xAPIC */
    x2apic(255, 1);  /* broadcast in xAPIC */
    x2apic(4096, 1); /* out of reach */
    xapic(255, 0);   /* how firmware pads */
    seal_all(0);
    EXPECT_NULL(read_cpus(20));
    REQUIRE(cpus.count == 7);
    for (unsigned i = 0; i < sizeof(ids); i++)
        EXPECT_EQ(cpus.apic_id[i], ids[i]);
    EXPECT_EQ(cpus.apic_id[6], 7);
    EXPECT_EQ(cpus.disabled, 3);
    EXPECT_EQ(cpus.unreachable, 2);
}

TEST(more_cpus_than_we_have_numbers_for)
{
    begin();
    for (unsigned i = 0; i < MAX_CPUS + 3; i++)
        xapic((u8)i, 1);
    seal_all(0);
    EXPECT_NULL(read_cpus(20));
    EXPECT_EQ(cpus.count, MAX_CPUS + 3);
    EXPECT_EQ(cpus.unreachable, 0);
}

/* Each id twice, and some that cannot be reached: all are counted, once where that can be told. */
TEST(every_id_there_is)
{
    begin();
    for (unsigned i = 0; i < 200; i++)
        xapic((u8)i, 1);
    for (unsigned i = 150; i < 263; i++)
        if (madt_bytes + 16 <= HPET - MADT)
            x2apic(i, 1);
    seal_all(0);
    EXPECT_NULL(read_cpus(20));
    EXPECT_GE(cpus.count, 200);
    EXPECT_LE(cpus.count, ACPI_XAPIC_IDS);
    for (unsigned i = 0; i < cpus.count; i++)
        EXPECT_EQ(cpus.apic_id[i], i);
}

TEST(ids_that_only_x2apic_reaches)
{
    begin();
    xapic(0, 1);
    for (unsigned i = 250; i < 300; i++)
        x2apic(i, 1);
    seal_all(0);
    EXPECT_NULL(read_cpus(20));
    EXPECT_EQ(cpus.count, 1 + 5);
    EXPECT_EQ(cpus.unreachable, 45);
}

TEST(nobody_who_can_be_reached)
{
    begin();
    x2apic(300, 1);
    seal_all(0);
    EXPECT(read_cpus(20) != NULL);
}

TEST(lapic_address_override)
{
    u8 rest[10] = {0};
    u64 address = 0x1fee00000;

    begin();
    xapic(0, 1);
    memcpy(rest + 2, &address, 8);
    madt_entry(5, 12, rest, sizeof(rest));
    seal_all(0);
    EXPECT_NULL(read_cpus(20));
    EXPECT_EQ(cpus.lapic, address);
}

TEST(nobody_enabled)
{
    begin();
    xapic(0, 0);
    seal_all(0);
    EXPECT(read_cpus(20) != NULL);
}

TEST(entries_that_cannot_be)
{
    static const struct {
        u8 type, length;
        bool good;
    } list[] = {
        {1, 12, true},  {77, 2, true}, {77, 255, true}, {77, 0, false},
        {77, 1, false}, {0, 7, false}, {9, 15, false},  {5, 11, false},
    };

    for (unsigned i = 0; i < ARRAY_SIZE(list); i++) {
        begin();
        xapic(0, 1);
        madt_entry(list[i].type, list[i].length, NULL, 0);
        if (list[i].length < 2)
            madt_bytes += 8;
        seal_all(0);
        EXPECT_EQ(read_cpus(20) == NULL, list[i].good);
    }
}

TEST(every_truncation_is_refused_or_ends_between_entries)
{
    begin();
    xapic(0, 1);
    x2apic(1, 1);
    xapic(2, 1);
    size_t whole = madt_bytes;

    for (size_t n = 0; n < whole; n++) {
        bool between = n == 44 + 8 || n == 44 + 8 + 16;

        madt_bytes = n < 36 ? 36 : n;
        seal_all(0);
        if (n < 36)
            put(memory + MADT + 4, n, 4);
        EXPECT_EQ(read_cpus(20) == NULL, between);
    }
}

TEST(tables_that_end_outside_memory)
{
    begin();
    xapic(0, 1);
    seal_all(0);
    put(memory + MADT + 4, 0xffffffff, 4);
    EXPECT(read_cpus(20) != NULL);
    put(memory + MADT + 4, MEMORY_BYTES, 4);
    EXPECT(read_cpus(20) != NULL);

    seal_all(0);
    put(memory + RSDT + 40, MEMORY_BASE + MEMORY_BYTES - 8, 4); /* not even a head fits */
    seal(memory + RSDT, 44, 9);
    EXPECT(read_cpus(20) != NULL);
}

/* -- clocks -- */

static void hpet(u8 space, u64 address, size_t bytes)
{
    memory[HPET + 40] = space;
    put(memory + HPET + 44, address, 8);
    table(HPET, "HPET", bytes);
}

/* A new FADT with both ways to name the port; an old one has the first only. */
static void fadt(u32 port, u64 port_wide, u32 flags, size_t bytes)
{
    put(memory + FADT + 76, port, 4);
    memory[FADT + 91] = 4;
    put(memory + FADT + 112, flags, 4);
    memory[FADT + 208] = 1;
    put(memory + FADT + 212, port_wide, 8);
    table(FADT, "FACP", bytes);
}

/* Both root tables, with the clocks behind the others. */
static void seal_clocks(unsigned revision)
{
    seal_all(revision);
    put(memory + RSDT + 44, MEMORY_BASE + HPET, 4);
    put(memory + RSDT + 48, MEMORY_BASE + FADT, 4);
    table(RSDT, "RSDT", 52);
    put(memory + XSDT + 52, MEMORY_BASE + HPET, 8);
    put(memory + XSDT + 60, MEMORY_BASE + FADT, 8);
    table(XSDT, "XSDT", 68);
}

static void begin_clocks(void)
{
    begin();
    xapic(0, 1);
}

TEST(clocks_by_both_root_tables)
{
    for (unsigned revision = 0; revision <= 2; revision += 2) {
        begin_clocks();
        hpet(0, 0xfed00000, 56);
        fadt(0x608, 0x1808, 0x100, 244);
        seal_clocks(revision);
        EXPECT_NULL(read_cpus(36));
        read_clocks(revision ? 36 : 20);
        EXPECT_EQ(clocks.hpet, 0xfed00000);
        EXPECT_EQ(clocks.pm_port, 0x1808);
        EXPECT(clocks.pm_wide);
    }
}

TEST(an_old_fadt_names_a_port_and_no_width)
{
    begin_clocks();
    fadt(0x608, 0, 0, 116);
    seal_clocks(0);
    read_clocks(20);
    EXPECT_EQ(clocks.hpet, 0);
    EXPECT_EQ(clocks.pm_port, 0x608);
    EXPECT_FALSE(clocks.pm_wide);
}

/* One that is in memory, or nowhere, is not the port's; then the old field counts. */
TEST(an_address_in_another_space)
{
    begin_clocks();
    hpet(1, 0xfed00000, 56);
    fadt(0x608, 0, 0, 244);
    seal_clocks(2);
    read_clocks(36);
    EXPECT_EQ(clocks.hpet, 0);
    EXPECT_EQ(clocks.pm_port, 0x608);

    fadt(0, 0xfed80808, 0, 244);
    memory[FADT + 208] = 0;
    table(FADT, "FACP", 244);
    read_clocks(36);
    EXPECT_EQ(clocks.pm_port, 0);
}

TEST(clocks_that_cannot_be)
{
    static const u32 ports[] = {0, 0xfffd, 0x10000, 0xffffffff};

    for (unsigned i = 0; i < ARRAY_SIZE(ports); i++) {
        begin_clocks();
        hpet(0, 0xfed00004, 56);
        fadt(ports[i], ports[i], 0, 244);
        seal_clocks(2);
        read_clocks(36);
        EXPECT_EQ(clocks.pm_port, 0);
        EXPECT_EQ(clocks.hpet, 0);
    }
    fadt(0x608, 0x608, 0, 244);
    memory[FADT + 91] = 0; /* no timer there, whatever the port says */
    table(FADT, "FACP", 244);
    read_clocks(36);
    EXPECT_EQ(clocks.pm_port, 0);
}

TEST(clock_tables_of_every_length)
{
    for (size_t n = 36; n < 250; n++) {
        begin_clocks();
        hpet(0, 0xfed00000, MIN(n, (size_t)64));
        fadt(0x608, 0x1808, 0, n);
        seal_clocks(2);
        read_clocks(36);
        EXPECT_EQ(clocks.hpet, n < 56 ? 0 : 0xfed00000);
        EXPECT_EQ(clocks.pm_port, n < 116 ? 0 : n < 220 ? 0x608 : 0x1808);
    }
}

TEST(clock_tables_that_are_damaged_or_missing)
{
    begin_clocks();
    hpet(0, 0xfed00000, 56);
    fadt(0x608, 0, 0, 116);
    seal_clocks(0);
    memory[HPET + 50]++;
    read_clocks(20);
    EXPECT_EQ(clocks.hpet, 0);
    EXPECT_EQ(clocks.pm_port, 0x608);
    read_clocks(0);
    EXPECT_EQ(clocks.pm_port, 0);
    rsdp[8]++;
    read_clocks(20);
    EXPECT_EQ(clocks.pm_port, 0);
    seal_all(0);
    read_clocks(20);
    EXPECT_EQ(clocks.pm_port, 0);
}

TEST(random_damage_under_good_checksums)
{
    u64 random = test_seed() | 1;

    for (unsigned i = 0; i < test_scale(20000); i++) {
        begin();
        xapic(0, 1);
        x2apic(1, 1);
        xapic(2, 0);
        seal_all(2);
        for (unsigned hits = 1 + test_random(&random) % 4; hits > 0; hits--)
            memory[MADT + 4 + test_random(&random) % (madt_bytes - 4)] = (u8)test_random(&random);
        u32 claimed;
        memcpy(&claimed, memory + MADT + 4, 4);
        seal(memory + MADT, MIN(claimed, MEMORY_BYTES - MADT), 9);
        const char *why = read_cpus(36);
        EXPECT(why != NULL || (cpus.count > 0 && cpus.count <= 3));
    }
}
