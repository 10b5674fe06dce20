/* test_base_fmt.c: fmt() against the C library's snprintf, conversion by conversion and at every
 * buffer size. */
#include "../../base/fmt.h"
#include "test.h"

#define GUARD 0x5e

/* The same arguments through both, at each size from 0 to enough. */
#define SAME(...)                                                                                  \
    do {                                                                                           \
        char want[256], got[256];                                                                  \
        size_t n = (size_t)snprintf(want, sizeof(want), __VA_ARGS__);                              \
                                                                                                   \
        EXPECT_EQ(fmt(got, sizeof(got), __VA_ARGS__), n);                                          \
        EXPECT_STR(got, want);                                                                     \
        for (size_t size = 0; size <= n + 1; size++) {                                             \
            memset(got, GUARD, sizeof(got));                                                       \
            EXPECT_EQ(fmt(got, size, __VA_ARGS__), n);                                             \
            EXPECT_EQ(got[size], GUARD);                                                           \
            if (size) {                                                                            \
                EXPECT_EQ(strlen(got), MIN(n, size - 1));                                          \
                EXPECT_MEM(got, want, strlen(got));                                                \
            }                                                                                      \
        }                                                                                          \
    } while (0)

TEST(fmt_plain_text)
{
    SAME("%s", "");
    SAME("no conversion at all");
    SAME("100%% of %s", "it");
}

TEST(fmt_integers)
{
    SAME("%d %d %d %d", 0, 1, -1, 42);
    SAME("%d %d", INT32_MAX, INT32_MIN);
    SAME("%i", -17);
    SAME("%u %u", 0u, UINT32_MAX);
    SAME("%x %x %x", 0u, 0xdeadbeefu, 0x10u);
    SAME("%ld %ld", INT64_MAX, INT64_MIN);
    SAME("%lu %lx", UINT64_MAX, UINT64_MAX);
    SAME("%lld %llu %llx", -5ll, 5ull, 0xabcdefull);
    SAME("%zu %zx", (size_t)12345, (size_t)0xfff);
}

TEST(fmt_width_and_padding)
{
    SAME("[%5d] [%-5d] [%05d]", 42, 42, 42);
    SAME("[%5d] [%-5d] [%05d]", -42, -42, -42);
    SAME("[%2d] [%02d]", 12345, 12345);
    SAME("[%16lx] [%016lx] [%-16lx]", 0xbeeful, 0xbeeful, 0xbeeful);
    SAME("[%10s] [%-10s]", "text", "text");
    SAME("[%*d] [%-*d] [%*d]", 6, 1, 6, 2, -6, 3);
    SAME("[%3c] [%-3c]", 'x', 'y');
    SAME("[%.2s] [%.*s] [%.0s] [%8.3s]", "abcdef", 3, "abcdef", "abc", "abcdef");
}

TEST(fmt_pointers_and_null)
{
    char buf[64];

    SAME("%p", (void *)buf);
    EXPECT_EQ(fmt(buf, sizeof(buf), "%p", NULL), 3u);
    EXPECT_STR(buf, "0x0");
    EXPECT_EQ(fmt(buf, sizeof(buf), "%s", (const char *)NULL), 6u);
    EXPECT_STR(buf, "(null)");
}

TEST(fmt_precision_stops_before_the_end_of_the_text)
{
    char not_terminated[3] = {'a', 'b', 'c'};
    char buf[8];

    EXPECT_EQ(fmt(buf, sizeof(buf), "%.*s", 3, not_terminated), 3u);
    EXPECT_STR(buf, "abc");
}

/* Whatever the length: what is shown and what the mark says is missing make up the whole. */
TEST(a_cut_text_says_how_much_is_missing)
{
    char whole[3001], buf[64];

    for (size_t n = 0; n < sizeof(whole); n += 1 + n / 50) {
        size_t length;
        unsigned long missing = 0;

        memset(whole, 'a', n);
        whole[n] = 0;
        length = fmt_mark_cut(buf, sizeof(buf), fmt(buf, sizeof(buf), "%s", whole));
        EXPECT_EQ(length, strlen(buf));
        EXPECT_LT(length, sizeof(buf));
        if (n < sizeof(buf)) {
            EXPECT_STR(buf, whole);
            continue;
        }
        EXPECT_EQ(sscanf(strchr(buf, ' '), " (%lu bytes cut)", &missing), 1);
        EXPECT_EQ(buf[length - 1], ')');
        EXPECT_EQ((size_t)(strchr(buf, ' ') - buf) + missing, n);
    }
}

TEST(a_cut_leaves_no_letter_in_half)
{
    char whole[200], buf[40];

    for (unsigned first = 0; first < 4; first++) {
        size_t n = first;
        char *mark;

        memset(whole, 'a', first);
        for (; n + 4 < sizeof(whole); n += 4)
            memcpy(whole + n, "\xf0\x9f\x8c\xbe", 4);
        whole[n] = 0;
        fmt_mark_cut(buf, sizeof(buf), fmt(buf, sizeof(buf), "%s", whole));
        mark = strchr(buf, ' ');
        REQUIRE(mark != NULL);
        EXPECT_EQ((size_t)(mark - buf - first) % 4, 0u);
    }
}
