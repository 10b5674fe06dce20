/* acpi.c: RSDP, then RSDT or XSDT, then in it the MADT: the enabled CPUs and the local APIC's address;
 * and HPET and FADT: clocks whose rate is known.
 *
 * Versions: an RSDP of version 0 (20 bytes) leads to the RSDT only; a newer one also to the XSDT,
 * which is preferred but, if it is broken, given up for the RSDT. Checksums are required of the
 * root pointer and of the tables. A MADT entry that is empty or ends past its table refuses the table:
 * what follows it cannot be trusted to be entries.
 *
 * APIC ids are not CPU numbers: they have holes, and may be listed twice, in an xAPIC and an x2APIC
 * entry. Only ids below 255 count, which is what xAPIC mode can send to; CPUs with others are told apart.
 * All that can be addressed are listed, more than the kernel runs: that is the caller's to decide.
 *
 * A clock is given only if its table says all of it: where it is, in what space, and how wide it counts.
 * What stands there is for clock.c to find out.
 *
 * Deliberately absent: everything else in ACPI.
 *
 * Locking: none. Contexts: boot; hosted tests. */
#include "acpi.h"

#include "../../base/string.h"

#define HEAD_BYTES    36u
#define TABLE_MAX     (1u << 20) /* no table read here comes near */
#define MADT_ENTRIES  44u
#define ENTRY_XAPIC   0u
#define ENTRY_LAPIC   5u
#define ENTRY_X2APIC  9u
#define FLAG_ENABLED  1u
#define XAPIC_ID_MAX  254u
#define HPET_BYTES    56u
#define FADT_OLD      116u   /* up to the flags */
#define FADT_NEW      220u   /* with the port as an address structure */
#define FADT_WIDE     0x100u /* flag: the timer has 32 bits */
#define SPACE_MEMORY  0u
#define SPACE_PORTS   1u
#define LAPIC_DEFAULT 0xfee00000u

static u32 get32(const u8 *p)
{
    u32 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static u64 get64(const u8 *p)
{
    u64 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static bool sums_to_zero(const u8 *p, size_t n)
{
    u8 sum = 0;

    for (size_t i = 0; i < n; i++)
        sum = (u8)(sum + p[i]);
    return sum == 0;
}

/* A whole table with the given signature, its checksum verified; NULL if it is not one. */
static const u8 *table_at(const struct acpi_memory *m, u64 phys, const char *signature,
                          size_t *bytes)
{
    const u8 *head = m->lend(m->ctx, phys, HEAD_BYTES);

    if (!head || memcmp(head, signature, 4) != 0)
        return NULL;
    *bytes = get32(head + 4);
    if (*bytes < HEAD_BYTES || *bytes > TABLE_MAX)
        return NULL;
    const u8 *table = m->lend(m->ctx, phys, *bytes);

    return table && sums_to_zero(table, *bytes) ? table : NULL;
}

static void cpu_add(struct acpi_cpus *out, u32 id, u32 flags)
{
    if (!(flags & FLAG_ENABLED)) {
        out->disabled++;
        return;
    }
    for (unsigned i = 0; i < out->count; i++)
        if (out->apic_id[i] == id)
            return;
    if (id > XAPIC_ID_MAX)
        out->unreachable++;
    else
        out->apic_id[out->count++] = id;
}

static const char *madt_read(const u8 *t, size_t bytes, struct acpi_cpus *out)
{
    if (bytes < MADT_ENTRIES)
        return "the MADT is too short";
    out->lapic = get32(t + HEAD_BYTES);
    for (size_t at = MADT_ENTRIES, n; at < bytes; at += n) {
        const u8 *e = t + at;

        if (bytes - at < 2)
            return "the MADT ends inside an entry's head";
        n = e[1];
        if (n < 2)
            return "the MADT has an empty entry";
        if (n > bytes - at)
            return "a MADT entry ends past the table";
        if (e[0] == ENTRY_XAPIC && n >= 8)
            cpu_add(out, e[3], get32(e + 4));
        else if (e[0] == ENTRY_X2APIC && n >= 16)
            cpu_add(out, get32(e + 4), get32(e + 8));
        else if (e[0] == ENTRY_LAPIC && n >= 12)
            out->lapic = get64(e + 4);
        else if (e[0] == ENTRY_XAPIC || e[0] == ENTRY_X2APIC || e[0] == ENTRY_LAPIC)
            return "a MADT entry is too short for its kind";
    }
    return out->count ? NULL : "the MADT lists no enabled CPU";
}

/* -- clocks -- */

/* True, and the address, if the address structure at p is one in that space. */
static bool address_in(const u8 *p, u8 space, u64 *address)
{
    *address = get64(p + 4);
    return p[0] == space && *address;
}

static void hpet_read(const u8 *t, size_t bytes, struct acpi_clocks *out)
{
    u64 address;

    if (bytes >= HPET_BYTES && address_in(t + 40, SPACE_MEMORY, &address) && !(address & 7))
        out->hpet = address;
}

static void fadt_read(const u8 *t, size_t bytes, struct acpi_clocks *out)
{
    u64 port = 0;

    if (bytes < FADT_OLD || t[91] != 4)
        return;
    if (bytes < FADT_NEW || !address_in(t + 208, SPACE_PORTS, &port))
        port = get32(t + 76);
    if (port == 0 || port > 0xffff - 3)
        return;
    out->pm_port = (u16)port;
    out->pm_wide = get32(t + 112) & FADT_WIDE;
}

/* -- from the root pointer down -- */

struct wanted {
    const char *signature;
    /* What is done with a table that was found: NULL, or why it is of no use. */
    const char *(*read)(const u8 *table, size_t bytes, void *out);
    const char *none; /* what there is to say if there is none */
};

static const char *read_madt(const u8 *t, size_t bytes, void *out)
{
    return madt_read(t, bytes, out);
}

static const char *read_hpet(const u8 *t, size_t bytes, void *out)
{
    hpet_read(t, bytes, out);
    return NULL;
}

static const char *read_fadt(const u8 *t, size_t bytes, void *out)
{
    fadt_read(t, bytes, out);
    return NULL;
}

static const struct wanted madt = {"APIC", read_madt, "there is no valid MADT"};
static const struct wanted hpet = {"HPET", read_hpet, "there is no valid HPET table"};
static const struct wanted fadt = {"FACP", read_fadt, "there is no valid FADT"};

/* Looks for a table in a root table whose pointers are `width` bytes each. */
static const char *root_read(const struct acpi_memory *m, u64 phys, size_t width,
                             const struct wanted *wanted, void *out)
{
    size_t bytes, n;
    const u8 *root = table_at(m, phys, width == 8 ? "XSDT" : "RSDT", &bytes);

    if (!root)
        return width == 8 ? "there is no valid XSDT" : "there is no valid RSDT";
    for (size_t at = HEAD_BYTES; at + width <= bytes; at += width) {
        u64 to = width == 8 ? get64(root + at) : get32(root + at);
        const u8 *t = table_at(m, to, wanted->signature, &n);

        if (t)
            return wanted->read(t, n, out);
    }
    return wanted->none;
}

/* NULL, or why there is no way from the root pointer to any table. */
static const char *rsdp_check(const u8 *rsdp, size_t n)
{
    if (!rsdp || n < 20)
        return "there is no RSDP";
    if (memcmp(rsdp, "RSD PTR ", 8) != 0)
        return "the RSDP has another signature";
    if (!sums_to_zero(rsdp, 20))
        return "the RSDP's checksum is wrong";
    return NULL;
}

static bool has_xsdt(const u8 *rsdp, size_t n)
{
    return rsdp[15] >= 2 && n >= 36 && sums_to_zero(rsdp, 36) && get64(rsdp + 24);
}

static void cpus_begin(struct acpi_cpus *out)
{
    memset(out, 0, sizeof(*out));
    out->lapic = LAPIC_DEFAULT;
}

const char *acpi_cpus(const u8 *rsdp, size_t n, const struct acpi_memory *m, struct acpi_cpus *out)
{
    const char *why = rsdp_check(rsdp, n);

    cpus_begin(out);
    if (why)
        return why;
    if (has_xsdt(rsdp, n)) {
        if (!root_read(m, get64(rsdp + 24), 8, &madt, out))
            return NULL;
        cpus_begin(out);
    }
    return root_read(m, get32(rsdp + 16), 4, &madt, out);
}

static void find(const u8 *rsdp, size_t n, const struct acpi_memory *m, const struct wanted *wanted,
                 void *out)
{
    if (!has_xsdt(rsdp, n) || root_read(m, get64(rsdp + 24), 8, wanted, out))
        (void)root_read(m, get32(rsdp + 16), 4, wanted, out);
}

void acpi_clocks(const u8 *rsdp, size_t n, const struct acpi_memory *m, struct acpi_clocks *out)
{
    memset(out, 0, sizeof(*out));
    if (rsdp_check(rsdp, n))
        return;
    find(rsdp, n, m, &hpet, out);
    find(rsdp, n, m, &fadt, out);
}
