/* test_base_wire.c: what makes a frame: CBOR against the vectors of RFC 8949 appendix A, COBS
 * against its paper's examples and by round trips, CRC-32 against the polynomial bit by bit.
 *
 * Every encoder is also given each buffer that is too small by some bytes, with a guard behind
 * it. */
#include "../../base/cbor.h"
#include "../../base/cobs.h"
#include "../../base/crc32.h"
#include "test.h"

#define GUARD 0x5e

/* -- CBOR -------------------------------------------------------------------------------------- */

static void unhex(const char *hex, u8 *out, size_t *n)
{
    for (*n = 0; *hex; hex += 2) {
        unsigned v;

        sscanf(hex, "%2x", &v);
        out[(*n)++] = (u8)v;
    }
}

#define EXPECT_CBOR(hex, call)                                                                     \
    do {                                                                                           \
        u8 want[64], got[64];                                                                      \
        size_t n;                                                                                  \
        struct cbor c;                                                                             \
                                                                                                   \
        unhex(hex, want, &n);                                                                      \
        cbor_init(&c, got, sizeof(got));                                                           \
        call;                                                                                      \
        EXPECT(!c.overflow);                                                                       \
        EXPECT_EQ((size_t)(c.p - got), n);                                                         \
        EXPECT_MEM(got, want, n);                                                                  \
    } while (0)

TEST(cbor_rfc8949_integers)
{
    static const struct {
        u64 v;
        const char *hex;
    } vectors[] = {
        {0, "00"},
        {1, "01"},
        {10, "0a"},
        {23, "17"},
        {24, "1818"},
        {25, "1819"},
        {100, "1864"},
        {255, "18ff"},
        {256, "190100"},
        {1000, "1903e8"},
        {65535, "19ffff"},
        {65536, "1a00010000"},
        {1000000, "1a000f4240"},
        {4294967295u, "1affffffff"},
        {4294967296u, "1b0000000100000000"},
        {1000000000000u, "1b000000e8d4a51000"},
        {18446744073709551615u, "1bffffffffffffffff"},
    };
    static const struct {
        i64 v;
        const char *hex;
    } negative[] = {
        {-1, "20"},
        {-10, "29"},
        {-24, "37"},
        {-25, "3818"},
        {-100, "3863"},
        {-1000, "3903e7"},
        {5, "05"},
        {INT64_MAX, "1b7fffffffffffffff"},
        {INT64_MIN, "3b7fffffffffffffff"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
        EXPECT_CBOR(vectors[i].hex, cbor_uint(&c, vectors[i].v));
        EXPECT_EQ((size_t)cbor_uint_size(vectors[i].v), strlen(vectors[i].hex) / 2);
    }
    for (size_t i = 0; i < ARRAY_SIZE(negative); i++)
        EXPECT_CBOR(negative[i].hex, cbor_int(&c, negative[i].v));
}

TEST(cbor_rfc8949_simple_and_strings)
{
    EXPECT_CBOR("f4", cbor_bool(&c, false));
    EXPECT_CBOR("f5", cbor_bool(&c, true));
    EXPECT_CBOR("f6", cbor_null(&c));
    EXPECT_CBOR("40", cbor_bytes(&c, "", 0));
    EXPECT_CBOR("4401020304", cbor_bytes(&c, "\1\2\3\4", 4));
    EXPECT_CBOR("60", cbor_text(&c, ""));
    EXPECT_CBOR("6161", cbor_text(&c, "a"));
    EXPECT_CBOR("6449455446", cbor_text(&c, "IETF"));
    EXPECT_CBOR("62225c", cbor_text(&c, "\"\\"));
    EXPECT_CBOR("62c3bc", cbor_text(&c, "\xc3\xbc"));
    EXPECT_CBOR("6449455446", cbor_text_n(&c, "IETF, cut", 4));
}

TEST(cbor_rfc8949_arrays_and_maps)
{
    EXPECT_CBOR("80", cbor_array(&c, 0));
    EXPECT_CBOR("a0", cbor_map(&c, 0));
    EXPECT_CBOR("8301820203820405", {
        cbor_array(&c, 3);
        cbor_uint(&c, 1);
        cbor_array(&c, 2);
        cbor_uint(&c, 2);
        cbor_uint(&c, 3);
        cbor_array(&c, 2);
        cbor_uint(&c, 4);
        cbor_uint(&c, 5);
    });
    EXPECT_CBOR("98190102030405060708090a0b0c0d0e0f101112131415161718181819", {
        cbor_array(&c, 25);
        for (u64 i = 1; i <= 25; i++)
            cbor_uint(&c, i);
    });
    EXPECT_CBOR("a26161016162820203", {
        cbor_map(&c, 2);
        cbor_text(&c, "a");
        cbor_uint(&c, 1);
        cbor_text(&c, "b");
        cbor_array(&c, 2);
        cbor_uint(&c, 2);
        cbor_uint(&c, 3);
    });
}

static void encode_some(struct cbor *c)
{
    cbor_array(c, 6);
    cbor_uint(c, 1u << 20);
    cbor_text(c, "hello there");
    cbor_int(c, -70000);
    cbor_bytes(c, "\0\0\0", 3);
    cbor_null(c);
    cbor_map(c, 300);
}

TEST(cbor_never_writes_past_its_end)
{
    u8 whole[64], buf[64];
    struct cbor c;
    size_t n;

    cbor_init(&c, whole, sizeof(whole));
    encode_some(&c);
    REQUIRE(!c.overflow);
    n = (size_t)(c.p - whole);
    for (size_t size = 0; size <= n; size++) {
        memset(buf, GUARD, sizeof(buf));
        cbor_init(&c, buf, size);
        encode_some(&c);
        EXPECT_EQ(c.overflow, size < n);
        EXPECT_LE((size_t)(c.p - buf), size);
        /* Whole items only, then nothing: overflow sticks even where a shorter item would still
         * fit. */
        EXPECT_MEM(buf, whole, (size_t)(c.p - buf));
        for (size_t i = (size_t)(c.p - buf); i < sizeof(buf); i++)
            EXPECT_EQ(buf[i], GUARD);
    }
}

/* -- COBS -------------------------------------------------------------------------------------- */

static void check_cobs(const u8 *in, size_t n)
{
    static u8 out[5200], back[5200];
    size_t length = cobs_encode(out, sizeof(out), in, n);

    EXPECT_NE(length, COBS_BAD);
    EXPECT_LE(length, (size_t)COBS_MAX(n));
    EXPECT_NULL(memchr(out, 0, length));
    EXPECT_EQ(cobs_decode(back, sizeof(back), out, length), n);
    EXPECT_MEM(back, in, n);
    EXPECT_EQ(cobs_decode(back, n, out, length), n);
    if (n)
        EXPECT_EQ(cobs_decode(back, n - 1, out, length), COBS_BAD);
    for (size_t size = length > 3 ? length - 3 : 0; size < length; size++) {
        out[size] = GUARD;
        EXPECT_EQ(cobs_encode(out, size, in, n), COBS_BAD);
        EXPECT_EQ(out[size], GUARD);
    }
    EXPECT_EQ(cobs_encode(out, length, in, n), length);
}

TEST(cobs_known_blocks)
{
    static const struct {
        const char *in;
        size_t n;
        const char *out;
        size_t length;
    } vectors[] = {
        {"", 0, "\x01", 1},
        {"\0", 1, "\x01\x01", 2},
        {"\0\0", 2, "\x01\x01\x01", 3},
        {"\x11\x22\0\x33", 4, "\x03\x11\x22\x02\x33", 5},
        {"\x11\x22\x33\x44", 4, "\x05\x11\x22\x33\x44", 5},
        {"\x11\0\0\0", 4, "\x02\x11\x01\x01\x01", 5},
    };
    u8 buf[16];

    for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
        EXPECT_EQ(cobs_encode(buf, sizeof(buf), (const u8 *)vectors[i].in, vectors[i].n),
                  vectors[i].length);
        EXPECT_MEM(buf, vectors[i].out, vectors[i].length);
    }
}

TEST(cobs_around_the_full_group)
{
    static u8 in[1024];

    for (size_t n = 250; n <= 260; n++) {
        for (size_t zero = 248; zero <= 261; zero++) {
            memset(in, 7, sizeof(in));
            in[zero] = 0; /* beyond n: no zero at all */
            check_cobs(in, n);
        }
    }
    memset(in, 7, sizeof(in));
    for (size_t n = 505; n <= 512; n++)
        check_cobs(in, n);
}

TEST(cobs_round_trips)
{
    static u8 in[4096];
    u64 random = test_seed();

    for (unsigned round = 0; round < test_scale(2000); round++) {
        size_t n = test_random(&random) % sizeof(in);
        unsigned zeros = 1u << test_random(&random) % 12;

        for (size_t i = 0; i < n; i++)
            in[i] = test_random(&random) % zeros == 0 ? 0 : (u8)test_random(&random);
        check_cobs(in, n);
    }
}

TEST(cobs_refuses_what_no_encoder_makes)
{
    u8 out[300];

    EXPECT_EQ(cobs_decode(out, sizeof(out), (const u8 *)"", 0), COBS_BAD);
    EXPECT_EQ(cobs_decode(out, sizeof(out), (const u8 *)"\0", 1), COBS_BAD);
    EXPECT_EQ(cobs_decode(out, sizeof(out), (const u8 *)"\3\1", 2), COBS_BAD);
    EXPECT_EQ(cobs_decode(out, sizeof(out), (const u8 *)"\3\1\0", 3), COBS_BAD);
    EXPECT_EQ(cobs_decode(out, sizeof(out), (const u8 *)"\xff\1\2", 3), COBS_BAD);
}

/* -- CRC-32 ------------------------------------------------------------------------------------ */

static u32 crc32_by_bits(const u8 *p, size_t n)
{
    u32 crc = ~0u;

    while (n--) {
        crc ^= *p++;
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return ~crc;
}

TEST(crc32_known_values)
{
    EXPECT_EQ(crc32(0, "", 0), 0u);
    EXPECT_EQ(crc32(0, "123456789", 9), 0xcbf43926u);
    EXPECT_EQ(crc32(0, "a", 1), 0xe8b7be43u);
    EXPECT_EQ(crc32(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339u);
    EXPECT_EQ(crc32(0, "\0\0\0\0", 4), 0x2144df1cu);
}

TEST(crc32_agrees_with_the_polynomial)
{
    u8 buf[600];
    u64 random = test_seed();

    for (unsigned byte = 0; byte < 256; byte++) {
        /* One byte at each place of a step reaches every entry of every table. */
        for (size_t at = 0; at < 4; at++) {
            memset(buf, 0, 4);
            buf[at] = (u8)byte;
            EXPECT_EQ(crc32(0, buf, 4), crc32_by_bits(buf, 4));
        }
    }
    for (size_t n = 0; n < sizeof(buf); n++) {
        size_t cut = n ? test_random(&random) % n : 0;

        for (size_t i = 0; i < n; i++)
            buf[i] = (u8)test_random(&random);
        EXPECT_EQ(crc32(0, buf, n), crc32_by_bits(buf, n));
        EXPECT_EQ(crc32(crc32(0, buf, cut), buf + cut, n - cut), crc32_by_bits(buf, n));
    }
}
