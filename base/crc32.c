/* crc32.c: see crc32.h. Four bytes a step ("slicing by 4"): table k holds what a byte contributes
 * when k more bytes follow it, so four look-ups do not wait for each other. The tables are
 * constants made by the compiler: there is nothing to initialise, and a panic before anything else
 * was set up can use them.
 *
 * A CRC is linear: a byte's contribution is the exclusive or of its bits'. So a table of 256 is
 * told by the eight entries of the single bits, and those are all that is written down here; the
 * test derives them from the polynomial again.
 *
 * Locking: none. Contexts: any. */
#include "crc32.h"

/* ENTRY(BASIS, i): the contribution of byte i from those of bits 0..7. */
#define BIT(i, b, v) ((i) >> (b)&1 ? (v) : 0u)
#define ENTRY_(i, a, b, c, d, e, f, g, h)                                                          \
    (BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d) ^ BIT(i, 4, e) ^ BIT(i, 5, f) ^     \
     BIT(i, 6, g) ^ BIT(i, 7, h))
#define ENTRY(i, ...) ENTRY_(i, __VA_ARGS__)
#define ENTRIES_4(i, ...)                                                                          \
    ENTRY(i, __VA_ARGS__), ENTRY((i) + 1, __VA_ARGS__), ENTRY((i) + 2, __VA_ARGS__),               \
        ENTRY((i) + 3, __VA_ARGS__)
#define ENTRIES_16(i, ...)                                                                         \
    ENTRIES_4(i, __VA_ARGS__), ENTRIES_4((i) + 4, __VA_ARGS__), ENTRIES_4((i) + 8, __VA_ARGS__),   \
        ENTRIES_4((i) + 12, __VA_ARGS__)
#define ENTRIES_64(i, ...)                                                                         \
    ENTRIES_16(i, __VA_ARGS__), ENTRIES_16((i) + 16, __VA_ARGS__),                                 \
        ENTRIES_16((i) + 32, __VA_ARGS__), ENTRIES_16((i) + 48, __VA_ARGS__)
#define TABLE(...)                                                                                 \
    {                                                                                              \
        ENTRIES_64(0u, __VA_ARGS__), ENTRIES_64(64u, __VA_ARGS__), ENTRIES_64(128u, __VA_ARGS__),  \
            ENTRIES_64(192u, __VA_ARGS__)                                                          \
    }

static const u32 table[4][256] = {
    TABLE(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832, 0x1db71064, 0x3b6e20c8, 0x76dc4190,
          0xedb88320),
    TABLE(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08, 0x4ac21251, 0x958424a2, 0xf0794f05,
          0x3b83984b),
    TABLE(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8, 0x1c26a370, 0x384d46e0, 0x709a8dc0,
          0xe1351b80),
    TABLE(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef, 0x5019579f, 0xa032af3e, 0x9b14583d,
          0xed59b63b),
};

u32 crc32(u32 crc, const void *bytes, size_t n)
{
    const u8 *p = bytes;

    crc = ~crc;
    for (; n >= 4; n -= 4, p += 4) {
        u32 w = crc ^ ((u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24);

        crc = table[3][w & 0xff] ^ table[2][w >> 8 & 0xff] ^ table[1][w >> 16 & 0xff] ^
              table[0][w >> 24];
    }
    for (; n; n--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}
