/* test_x86_memory.c: the metal kernel's memory and text functions against the plainest model there
 * is, at every small size, alignment and overlap, and around the sizes at which they change their
 * way of working.
 *
 * Locking: none. Contexts: hosted, one CPU. */
#include "test.h"

/* The sources again, under names of their own: those of libc are taken. */
#define strlen  x86_strlen
#define strcmp  x86_strcmp
#define strncmp x86_strncmp
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
#include "../../arch/x86_64/text.c"
#undef strlen
#undef strcmp
#undef strncmp

void *x86_memset(void *to, int byte, size_t n);
void *x86_memmove(void *to, const void *from, size_t n);
void *x86_memcpy(void *to, const void *from, size_t n);
int x86_memcmp(const void *a, const void *b, size_t n);

#define AREA 4500u
static u8 area[AREA], want[AREA];
static const unsigned sizes[] = {0,   1,   2,   3,    7,    8,    9,    15,   16,   17,  23,  24,
                                 31,  32,  33,  63,   64,   65,   71,   72,   73,   127, 128, 129,
                                 255, 256, 257, 1000, 1023, 1024, 4088, 4095, 4096, 4097};

static void fill(u64 seed)
{
    u64 random = seed | 1;

    for (unsigned i = 0; i < AREA; i++)
        area[i] = want[i] = (u8)test_random(&random);
}

static void model_move(unsigned to, unsigned from, unsigned n)
{
    static u8 aside[AREA];

    for (unsigned i = 0; i < n; i++)
        aside[i] = want[from + i];
    for (unsigned i = 0; i < n; i++)
        want[to + i] = aside[i];
}

TEST(set)
{
    for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
        for (unsigned at = 0; at < 9; at++) {
            fill(s);
            EXPECT(x86_memset(area + at, 0x1a5, sizes[s]) == area + at);
            for (unsigned i = 0; i < sizes[s]; i++)
                want[at + i] = 0xa5;
            EXPECT_MEM(area, want, AREA);
        }
    }
}

TEST(copy)
{
    for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
        for (unsigned to = 0; to < 9; to++) {
            static u8 from[AREA];

            fill(s);
            memcpy(from, area, AREA);
            fill(s + 1000);
            EXPECT(x86_memcpy(area + to, from + 8 - to, sizes[s]) == area + to);
            for (unsigned i = 0; i < sizes[s]; i++)
                want[to + i] = from[8 - to + i];
            EXPECT_MEM(area, want, AREA);
        }
    }
}

TEST(move_over_itself)
{
    static const unsigned shifts[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 200};

    for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
        for (unsigned d = 0; d < ARRAY_SIZE(shifts); d++) {
            for (unsigned up = 0; up < 2; up++) {
                unsigned from = up ? 0 : shifts[d], to = up ? shifts[d] : 0;

                fill(s * 16 + d);
                EXPECT(x86_memmove(area + to, area + from, sizes[s]) == area + to);
                model_move(to, from, sizes[s]);
                EXPECT_MEM(area, want, AREA);
            }
        }
    }
}

static int sign(int v)
{
    return (v > 0) - (v < 0);
}

TEST(compare)
{
    for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
        fill(s);
        EXPECT_EQ(x86_memcmp(area, want, sizes[s]), 0);
        want[sizes[s]] ^= 0xff; /* the byte behind does not count */
        EXPECT_EQ(x86_memcmp(area, want, sizes[s]), 0);
        for (unsigned at = 0; at < sizes[s]; at += 1 + sizes[s] / 40) {
            fill(s);
            want[at] = (u8)(area[at] + 1);
            if (at + 1 < sizes[s])
                want[at + 1] ^= 0x80; /* nor do those behind the first difference */
            EXPECT_EQ(sign(x86_memcmp(area, want, sizes[s])), sign(memcmp(area, want, sizes[s])));
        }
    }
}

TEST(texts)
{
    static const char *const list[] = {"", "a", "b", "ab", "abc", "abd", "\xff", "front=bounded"};

    for (unsigned i = 0; i < ARRAY_SIZE(list); i++) {
        EXPECT_EQ(x86_strlen(list[i]), strlen(list[i]));
        for (unsigned j = 0; j < ARRAY_SIZE(list); j++) {
            EXPECT_EQ(sign(x86_strcmp(list[i], list[j])), sign(strcmp(list[i], list[j])));
            for (size_t n = 0; n < 5; n++)
                EXPECT_EQ(sign(x86_strncmp(list[i], list[j], n)),
                          sign(strncmp(list[i], list[j], n)));
        }
    }
}
