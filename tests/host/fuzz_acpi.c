/* fuzz_acpi.c: any bytes are a memory with ACPI tables in it: an RSDP at 0, and tables wherever
 * pointers lead. Checksums, which no fuzzer guesses, are set right for the RSDP, and for whatever
 * stands at 64 (meant for the root table) and at 128 (for the MADT) under the length that it
 * claims.
 *
 * Locking: none. Contexts: hosted. */
#include "../../arch/x86_64/acpi.h"
#include "../../base/string.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROOT_AT 64u
#define MADT_AT 128u

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {.n = size};
    struct acpi_cpus cpus;
    u32 root = ROOT_AT, madt = MADT_AT;

    if (size < MADT_AT + 44)
        return 0;
    b.p = malloc(size);
    memcpy(b.p, data, size);
    memcpy(b.p, "RSD PTR ", 8);
    memcpy(b.p + 16, &root, 4);
    memcpy(b.p + ROOT_AT + 36, &madt, 4);
    memcpy(b.p + ROOT_AT, "RSDT", 4);
    memcpy(b.p + MADT_AT, "APIC", 4);
    seal_table(&b, MADT_AT);
    seal_table(&b, ROOT_AT);
    seal(b.p, 20, 8);
    seal(b.p, 36, 32);
    if (!acpi_cpus(b.p, 36, &(struct acpi_memory){lend, &b}, &cpus) &&
        (cpus.count == 0 || cpus.count > MAX_CPUS))
        abort();
    free(b.p);
    return 0;
}
