/* test_knobs.c: every knob of knobs.def with every legal value and the illegal ones next to them,
 * taken from the text that the image itself carries, so that a knob added to the list is tested
 * without touching this file. */
#include "../../base/knobs.h"
#include "test.h"

extern const char hayloft_knobs_text[], hayloft_knobs_text_end[];

struct entry {
    char ident[40], name[40], type[8], fallback[40], where[8];
    u64 min, max;
    char value[8][32];
    unsigned values;
};
static struct entry list[NR_KNOBS];
static struct knobs k;
static struct knob_refusals r;

/* Reads the list once more, with other means than the preprocessor's. */
static unsigned read_list(void)
{
    const char *p = hayloft_knobs_text;
    unsigned n = 0;

    while (p < hayloft_knobs_text_end) {
        const char *end = memchr(p, '\n', (size_t)(hayloft_knobs_text_end - p));
        char line[400], ident[40], value[32];
        struct entry e = {0};

        if (!end)
            end = hayloft_knobs_text_end;
        snprintf(line, sizeof(line), "%.*s", (int)(end - p), p);
        p = end + 1;
        if (sscanf(line, "KNOB(%39[^,], \"%39[^\"]\", %7[^,], %lu, %lu, \"%39[^\"]\", %7[^,]",
                   e.ident, e.name, e.type, &e.min, &e.max, e.fallback, e.where) == 7) {
            if (n == NR_KNOBS)
                return n + 1;
            list[n++] = e;
        } else if (sscanf(line, "VALUE(%39[^,], %31[^,]", ident, value) == 2 && n > 0) {
            struct entry *last = &list[n - 1];

            if (strcmp(last->ident, ident) != 0 || last->values == ARRAY_SIZE(last->value))
                return 0;
            snprintf(last->value[last->values++], sizeof(last->value[0]), "%s", value);
        }
    }
    return n;
}

static bool parse(const char *format, const char *name, const char *value)
{
    char line[4096];

    snprintf(line, sizeof(line), format, name, value);
    return knobs_parse(&k, line, false, &r);
}

static const char *text_of(unsigned id)
{
    static char buf[2100];

    knob_value_text(&k, (enum knob_id)id, buf, sizeof(buf));
    return buf;
}

TEST(the_embedded_list_is_this_one)
{
    EXPECT_EQ(read_list(), (unsigned)NR_KNOBS);
    for (unsigned i = 0; i < NR_KNOBS; i++)
        EXPECT_STR(list[i].name, knob_name((enum knob_id)i));
}

TEST(defaults_are_legal)
{
    char text[40];

    REQUIRE(read_list() == NR_KNOBS);
    EXPECT(knobs_parse(&k, "", false, &r));
    EXPECT(knobs_check(&k, &r));
    EXPECT_EQ(r.count, 0u);
    for (unsigned i = 0; i < NR_KNOBS; i++) {
        EXPECT(!k.set[i]);
        snprintf(text, sizeof(text), "%s", text_of(i));
        if (!strcmp(list[i].where, "host"))
            continue;
        EXPECT(parse("%s=%s", list[i].name, list[i].fallback));
        EXPECT(k.set[i]);
        EXPECT_STR(text_of(i), text);
    }
    EXPECT_EQ(k.front, V_front_bounded);
    EXPECT_EQ(k.deadline, 60000u);
    EXPECT_STR(k.tests, "*");
}

TEST(every_value_of_every_enum)
{
    REQUIRE(read_list() == NR_KNOBS);
    for (unsigned i = 0; i < NR_KNOBS; i++) {
        if (strcmp(list[i].type, "ENUM") != 0)
            continue;
        EXPECT_GT(list[i].values, 0u);
        for (unsigned v = 0; v < list[i].values; v++) {
            char wrong[40], near[80];

            EXPECT(parse("%s=%s", list[i].name, list[i].value[v]));
            EXPECT_STR(text_of(i), list[i].value[v]);
            EXPECT(k.set[i]);
            /* One letter too many: refused, and the legal value is named. */
            snprintf(wrong, sizeof(wrong), "%sx", list[i].value[v]);
            snprintf(near, sizeof(near), "%s=%s", list[i].name, list[i].value[v]);
            EXPECT(!parse("%s=%s", list[i].name, wrong));
            EXPECT_EQ(r.count, 1u);
            EXPECT_STR(r.at[0].nearest, near);
            EXPECT_STR(text_of(i), list[i].fallback);
        }
        EXPECT(!parse("%s=%s", list[i].name, "zzzzzzzz"));
        EXPECT(!parse("%s=%s", list[i].name, ""));
    }
}

TEST(every_number_at_its_limits)
{
    REQUIRE(read_list() == NR_KNOBS);
    for (unsigned i = 0; i < NR_KNOBS; i++) {
        char value[40], near[80];

        if (strcmp(list[i].type, "UINT") != 0)
            continue;
        snprintf(value, sizeof(value), "%lu", list[i].min);
        EXPECT(parse("%s=%s", list[i].name, value));
        EXPECT_STR(text_of(i), value);
        snprintf(value, sizeof(value), "%lu", list[i].max);
        EXPECT(parse("%s=%s", list[i].name, value));
        EXPECT_STR(text_of(i), value);
        snprintf(near, sizeof(near), "%s=%lu", list[i].name, list[i].max);
        snprintf(value, sizeof(value), "%lu", list[i].max + 1);
        EXPECT(!parse("%s=%s", list[i].name, value));
        EXPECT_STR(r.at[0].nearest, near);
        if (list[i].min) {
            snprintf(value, sizeof(value), "%lu", list[i].min - 1);
            EXPECT(!parse("%s=%s", list[i].name, value));
        }
        EXPECT(!parse("%s=%s", list[i].name, ""));
        EXPECT(!parse("%s=%s", list[i].name, "-1"));
        EXPECT(!parse("%s=%s", list[i].name, "+1"));
        EXPECT(!parse("%s=%s", list[i].name, "0x1"));
        EXPECT(!parse("%s=%s", list[i].name, "1.5"));
        EXPECT(!parse("%s=%s", list[i].name, "K"));
        EXPECT(!parse("%s=%s", list[i].name, "1KK"));
        EXPECT(!parse("%s=%s", list[i].name, "18446744073709551616"));
        EXPECT(!parse("%s=%s", list[i].name, "18446744073709551615G"));
        EXPECT(!parse("%s=%s", list[i].name, "99999999999999999999999999999999999999999"));
    }
}

TEST(every_text_at_its_limit)
{
    static char value[4096];

    REQUIRE(read_list() == NR_KNOBS);
    for (unsigned i = 0; i < NR_KNOBS; i++) {
        if (strcmp(list[i].type, "TEXT") != 0)
            continue;
        memset(value, 'a', sizeof(value));
        value[list[i].max] = 0;
        EXPECT(parse("%s=%s", list[i].name, value));
        EXPECT_STR(text_of(i), value);
        value[list[i].max] = 'a';
        value[list[i].max + 1] = 0;
        EXPECT(!parse("%s=%s", list[i].name, value));
        EXPECT_EQ(r.count, 1u);
        EXPECT(!parse("%s=%s", list[i].name, ""));
    }
}

TEST(where_a_knob_means_something)
{
    char line[100];

    REQUIRE(read_list() == NR_KNOBS);
    for (unsigned i = 0; i < NR_KNOBS; i++) {
        bool metal = !strcmp(list[i].where, "metal"), host = !strcmp(list[i].where, "host");

        snprintf(line, sizeof(line), "%s=%s", list[i].name, list[i].fallback);
        EXPECT_EQ(knobs_parse(&k, line, true, &r), !metal);
        EXPECT_EQ(knobs_parse(&k, line, false, &r), !host);
    }
    EXPECT(!knobs_parse(&k, "idle=poll", true, &r));
    EXPECT(strstr(r.at[0].reason, "idle means nothing on the hosted machine"));
    EXPECT_STR(r.at[0].argument, "idle=poll");
}

TEST(suffixes)
{
    EXPECT(knobs_parse(&k, "telemetry.budget=4K bounded.bytes=1M kbench.ops=0G", false, &r));
    EXPECT_EQ(k.telemetry_budget, 4096u);
    EXPECT_EQ(k.bounded_bytes, 1048576u);
    EXPECT_EQ(k.kbench_ops, 0u);
    EXPECT(knobs_parse(&k, "deadline=5s kbench.ms=2s", false, &r));
    EXPECT_EQ(k.deadline, 5000u);
    EXPECT_EQ(k.kbench_ms, 2000u);
    EXPECT(knobs_parse(&k, "deadline=1500", false, &r));
    EXPECT_EQ(k.deadline, 1500u);
    EXPECT(!knobs_parse(&k, "kbench=3s", false, &r)); /* not a time */
    EXPECT(!knobs_parse(&k, "deadline=5sK", false, &r));
}

TEST(a_typing_error_names_what_was_meant)
{
    static const char *const typed[][2] = {
        {"frnt=bounded", "front"},
        {"fornt=none", "front"},
        {"stats_slab=off", "stats.slab"},
        {"lockstats=count", "lockstat"},
        {"FRONT=none", ""},
        {"bounded.object=3", "bounded.objects"},
        {"xyzzyqwertyuiop=1", ""},
        {"front=bonded", "front=bounded"},
        {"stats.slab=percup", "stats.slab=percpu"},
        {"owner=tga", "owner=tag"},
        {"kbench=1001", "kbench=1000"},
        {"front", "front"},
        {"front:none", "front"},
        {"=none", ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(typed); i++) {
        EXPECT(!knobs_parse(&k, typed[i][0], false, &r));
        EXPECT_EQ(r.count, 1u);
        EXPECT_STR(r.at[0].argument, typed[i][0]);
        EXPECT_STR(r.at[0].nearest, typed[i][1]);
        EXPECT(r.at[0].reason[0] != 0);
    }
}

TEST(nothing_is_ignored)
{
    EXPECT(!knobs_parse(&k, "front=none front=none", false, &r));
    EXPECT(strstr(r.at[0].reason, "twice"));
    EXPECT_EQ(k.front, V_front_none);
    EXPECT(!knobs_parse(&k, "front=none quiet owner=lock", false, &r));
    EXPECT_EQ(r.count, 1u);
    EXPECT_EQ(k.owner, V_owner_lock); /* the rest of the line still counts */
    EXPECT(knobs_parse(&k, " \t front=none\n\r  owner=lock ", false, &r));
    EXPECT_EQ(k.front, V_front_none);
    EXPECT_EQ(k.owner, V_owner_lock);
    EXPECT(!knobs_parse(&k, "a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9 j=10", false, &r));
    EXPECT_EQ(r.count, 10u); /* more than are kept */
    EXPECT_STR(r.at[KNOB_REFUSALS - 1].argument, "h=8");
    /* A value may hold '='; only the first one splits. */
    EXPECT(!knobs_parse(&k, "front=none=1", false, &r));
}

static const char *text_of_length(size_t n)
{
    static char text[3000];

    CHECK(n < sizeof(text));
    memset(text, 'x', n);
    text[n] = 0;
    return text;
}

TEST(a_long_word_is_cut_not_overrun)
{
    static char line[5000];

    memset(line, 'q', sizeof(line) - 1);
    line[3000] = '=';
    EXPECT(!knobs_parse(&k, line, false, &r));
    EXPECT_EQ(strlen(r.at[0].argument), sizeof(r.at[0].argument) - 1);
    EXPECT(strstr(r.at[0].argument, "q (4937 bytes cut)"));
    EXPECT_STR(r.at[0].nearest, "");
}

/* No reason is cut, and an illegal value's names all legal ones. */
TEST(a_refusal_names_every_legal_value)
{
    EXPECT_EQ(read_list(), (unsigned)NR_KNOBS);
    for (unsigned id = 0; id < NR_KNOBS; id++) {
        const char *illegal =
            strcmp(list[id].type, "TEXT") == 0 ? text_of_length(list[id].max + 1) : "@";

        EXPECT(!parse("%s=%s", list[id].name, illegal));
        EXPECT(!strstr(r.at[0].reason, "cut)"));
        for (unsigned v = 0; v < list[id].values; v++)
            EXPECT(strstr(r.at[0].reason, list[id].value[v]));
    }
}

static bool contradictory(const char *line)
{
    return knobs_parse(&k, line, false, &r) && !knobs_check(&k, &r) && r.count == 1 &&
           r.at[0].reason[0] != 0;
}

TEST(contradictory_pairs)
{
    EXPECT(contradictory("lock=ticket overcommit=1"));
    EXPECT(contradictory("lock=mcs overcommit=1"));
    EXPECT(!contradictory("lock=tas overcommit=1"));
    EXPECT(!contradictory("lock=ticket overcommit=1 force=1"));
    EXPECT(!contradictory("lock=mcs"));
    EXPECT(contradictory("kbench.ms=100 kbench.ops=1000"));
    EXPECT(!contradictory("kbench.ops=1000"));
    EXPECT(contradictory("repeat=1"));
    EXPECT(!contradictory("repeat=1 kbench=1"));
    EXPECT(contradictory("provoke=selfcheck selfcheck=0"));
    EXPECT(contradictory("barn.full=5"));
    EXPECT(contradictory("mag.resize=off"));
    EXPECT(contradictory("front=sheaf mag.interval=5"));
    EXPECT(!contradictory("front=magazine mag.resize=off mag.interval=5s"));
    EXPECT(contradictory("front=bounded prefill.from=slab"));
    EXPECT(!contradictory("front=sheaf barn.full=5 prefill.from=slab sheaf.cap=7"));
    EXPECT(contradictory("tests=malloc,,yield"));
    EXPECT(contradictory("tests=malloc,"));
    EXPECT(contradictory("tests=,malloc"));
    EXPECT(!contradictory("tests=malloc/*,yield"));
}

TEST(test_names)
{
    static const struct {
        const char *patterns, *name;
        bool match;
    } c[] = {
        {"*", "malloc/64/solo", true},
        {"malloc/*", "malloc/64/solo", true},
        {"malloc/*", "malloc", false},
        {"malloc/64", "malloc/64", true},
        {"malloc/64", "malloc/64/solo", true},
        {"malloc/64", "malloc/640/solo", false},
        {"malloc/6", "malloc/64/solo", false},
        {"malloc", "malloc/64/all-cpus", true},
        {"yield/*,malloc/4096/*", "malloc/4096/solo", true},
        {"yield/*,malloc/4096/*", "malloc/64/solo", false},
        {"*/solo", "malloc/64/solo", true},
        {"*/solo", "malloc/64/solo/cold", false},
        {"malloc/*/all*", "malloc/64/all-cpus", true},
        {"m*o*/s*o", "malloc/64/solo", true},
        {"**", "x", true},
        {"a*a", "a", false},
        {"a*ab", "aaab", true},
        {"", "malloc", false},
        {",", "malloc", false},
        {"cas/8", "cas/8/cold", true},
        {"solo", "malloc/64/solo", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
        if (knobs_test_match(c[i].patterns, c[i].name) != c[i].match)
            test_failed_text(__FILE__, __LINE__, "match", c[i].patterns, c[i].name);
        test_checked();
    }
}
