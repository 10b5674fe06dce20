/* fuzz_acpi.c: any bytes are a memory with ACPI tables in it: an RSDP at 0, a root table at 64 (which
 * of the two kinds, the RSDP's version says), a MADT at 192 or, as a bit of the RSDP says, a FADT or an
 * HPET table there, and whatever else pointers lead to. What no fuzzer guesses is set right: signatures,
 * the pointers between these three, and their checksums, under the lengths that they claim. Every so often the mutator starts again from tables
 * that are right in everything.
 *
 * Locking: none. Contexts: hosted. */
#include "../../arch/x86_64/acpi.h"
#include "../../base/string.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max); /* libFuzzer's own */

#define ROOT_AT 64u
#define MADT_AT 192u

/* Two CPUs, one listed twice; one more that is off; the local APICs' address; an entry to skip. */
static const char entries[] = "\x00\x08\x00\x00\x01\x00\x00\x00"
                              "\x00\x08\x01\x01\x01\x00\x00\x00"
                              "\x09\x10\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00"
                              "\x00\x08\x02\x02\x00\x00\x00\x00"
                              "\x05\x0c\x00\x00\x00\x00\xe0\xfe\x00\x00\x00\x00"
                              "\x04\x06\x00\x05\x00\x01";

#define MADT_BYTES (44u + sizeof(entries) - 1)
#define FADT_BYTES 244u
#define HPET_BYTES 56u
#define GOOD_BYTES (MADT_AT + FADT_BYTES)

enum kind { MADT, FADT, HPET, NR_KINDS };
static const char signatures[NR_KINDS][5] = {"APIC", "FACP", "HPET"};

/* By the first letter of the maker's name, which nobody reads. */
static enum kind kind_of(const u8 *rsdp)
{
    return rsdp[9] % NR_KINDS;
}

struct bytes {
    u8 *p;
    size_t n;
};

static const u8 *lend(void *ctx, u64 phys, size_t n)
{
    const struct bytes *b = ctx;

    return phys <= b->n && n <= b->n - phys ? b->p + phys : NULL;
}

static void seal(u8 *p, size_t n, size_t checksum_at)
{
    u8 sum = 0;

    p[checksum_at] = 0;
    for (size_t i = 0; i < n; i++)
        sum = (u8)(sum + p[i]);
    p[checksum_at] = (u8)-sum;
}

static void seal_table(struct bytes *b, size_t at)
{
    u32 n;

    memcpy(&n, b->p + at + 4, 4);
    seal(b->p + at, MIN((size_t)n, b->n - at), 9);
}

/* Root table and the other, one after the other, since the one may cover the other. */
static void wire_tables(struct bytes *b)
{
    u8 *root = b->p + ROOT_AT;
    u64 root_at = ROOT_AT, madt_at = MADT_AT;
    bool wide = b->p[15] & 2;

    memcpy(b->p, "RSD PTR ", 8);
    memcpy(b->p + 16, &root_at, 4);
    memcpy(b->p + 24, &root_at, 8);
    memcpy(root, wide ? "XSDT" : "RSDT", 4);
    if (root[40] & 1) /* else it leads anywhere, or to two tables */
        memcpy(root + 44, &madt_at, wide ? 8 : 4);
    else
        memcpy(root + 36, &madt_at, wide ? 8 : 4);
    memcpy(b->p + MADT_AT, signatures[kind_of(b->p)], 4);
    seal_table(b, MADT_AT);
    seal_table(b, ROOT_AT);
    seal(b->p, 20, 8);
    seal(b->p, 36, 32);
}

static void check(const struct acpi_cpus *cpus)
{
    if (cpus->count == 0 || cpus->count > ACPI_XAPIC_IDS)
        abort();
    for (unsigned i = 0; i < cpus->count; i++) {
        if (cpus->apic_id[i] > 254)
            abort();
        for (unsigned k = 0; k < i; k++)
            if (cpus->apic_id[k] == cpus->apic_id[i])
                abort();
    }
}

static void check_clocks(const struct acpi_clocks *clocks)
{
    if (clocks->hpet & 7 || clocks->pm_port > 0xffff - 3 || (!clocks->pm_port && clocks->pm_wide))
        abort();
}

static void good_table(uint8_t *t, enum kind kind)
{
    static const u8 bytes[NR_KINDS] = {MADT_BYTES, FADT_BYTES, HPET_BYTES};

    t[4] = bytes[kind];
    if (kind == MADT) {
        memcpy(t + 44, entries, sizeof(entries) - 1);
    } else if (kind == HPET) {
        t[46] = 0xd0;
        t[47] = 0xfe;
    } else {
        t[77] = t[213] = 6;
        t[76] = t[212] = 8;
        t[91] = 4;
        t[113] = 1;
        t[208] = 1;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    if (seed % 64 == 0 && GOOD_BYTES <= max) {
        memset(data, 0, GOOD_BYTES);
        data[15] = (uint8_t)(seed >> 6 & 2); /* with an XSDT, or without */
        data[9] = (uint8_t)((seed >> 8) % NR_KINDS);
        data[ROOT_AT + 4] = 60;
        good_table(data + MADT_AT, kind_of(data));
        size = GOOD_BYTES;
    }
    return LLVMFuzzerMutate(data, size, max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {.n = size};
    struct acpi_cpus cpus;
    struct acpi_clocks clocks;

    if (size < MADT_AT + 44)
        return 0;
    b.p = malloc(size);
    memcpy(b.p, data, size);
    wire_tables(&b);
    if (!acpi_cpus(b.p, 36, &(struct acpi_memory){lend, &b}, &cpus))
        check(&cpus);
    acpi_clocks(b.p, 36, &(struct acpi_memory){lend, &b}, &clocks);
    check_clocks(&clocks);
    free(b.p);
    return 0;
}
