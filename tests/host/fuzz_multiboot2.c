/* fuzz_multiboot2.c: any bytes are a multiboot2 structure, and any structure that is accepted has
 * ranges that normalise into sorted, disjoint pages. The total length, without which nothing is
 * looked at, is set right, and so is the end of the list, which most mutations would lose.
 *
 * Tags are not found by chance, so every so often the mutator starts again from a real hand-over.
 *
 * Locking: none. Contexts: hosted. */
#include "../../arch/x86_64/multiboot2.h"
#include "../../base/string.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max); /* libFuzzer's own */

static const u8 real[] = {
#include "testdata/multiboot2_q35.inc"
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    if (seed % 64 == 0 && sizeof(real) <= max) {
        memcpy(data, real, sizeof(real));
        size = sizeof(real);
    }
    return LLVMFuzzerMutate(data, size, max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const u8 end[8] = {[4] = 8};
    static struct mb2_info info;
    struct phys_range out[16];
    u32 total = (u32)size;

    if (size < 16)
        return 0;
    u8 *copy = malloc(size);
    memcpy(copy, data, size);
    memcpy(copy, &total, sizeof(total));
    if (size % 8 == 0)
        memcpy(copy + size - 8, end, sizeof(end));
    if (!mb2_parse(copy, size, &info)) {
        struct range_set s = {.at = out, .max = ARRAY_SIZE(out)};

        for (unsigned cut = 0; cut < 2; cut++) {
            struct mb2_cursor at = {0};
            struct phys_range r;
            enum mb2_kind kind;

            while (mb2_next(&info, &at, &r, &kind)) {
                must(r.start < r.end);
                if ((kind != MB2_USABLE) == cut)
                    (cut ? ranges_cut : ranges_add)(&s, r);
                must(s.n <= ARRAY_SIZE(out));
            }
        }
        ranges_to_pages(&s);
        must(strlen(info.args) < size);
        for (unsigned i = 0; i < s.n; i++) {
            must(out[i].start < out[i].end);
            must((out[i].start | out[i].end) % PAGE_SIZE == 0);
            must(i == 0 || out[i - 1].end < out[i].start);
        }
    }
    free(copy);
    return 0;
}
