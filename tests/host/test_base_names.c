/* test_base_names.c: the tables that derive from the .def lists, the intrusive list, the fill
 * values. */
#include "../../base/counters.h"
#include "../../base/crc32.h"
#include "../../base/list.h"
#include "../../base/poison.h"
#include "test.h"

TEST(counters_describe_every_slot_once)
{
    static const unsigned rows[NR_SCOPES] = {NR_CPU_COUNTERS, NR_CACHE_COUNTERS, NR_LOCK_COUNTERS,
                                             NR_NODE_COUNTERS, NR_GLOBAL_COUNTERS};
    bool seen[NR_SCOPES][NR_COUNTERS] = {{false}};
    unsigned slots[NR_SCOPES] = {0};

    for (unsigned i = 0; i < NR_COUNTERS; i++) {
        const struct counter_desc *d = &counter_descs[i];

        REQUIRE(d->scope < NR_SCOPES);
        EXPECT(d->index < rows[d->scope]);
        EXPECT(!seen[d->scope][d->index]);
        seen[d->scope][d->index] = true;
        slots[d->scope]++;
        EXPECT(*d->name && *d->unit && *d->panel && *d->doc);
        EXPECT(d->kind <= KIND_gauge);
        for (unsigned k = 0; k < i; k++)
            EXPECT(strcmp(d->name, counter_descs[k].name) != 0);
    }
    for (unsigned s = 0; s < NR_SCOPES; s++)
        EXPECT_EQ(slots[s], rows[s]);
}

TEST(counters_have_the_ids_of_their_lines)
{
    EXPECT_STR(counter_descs[CTR_alloc_fast].name, "alloc_fast");
    EXPECT_STR(counter_scope_names[counter_descs[CTR_alloc_fast].scope], "cache");
    EXPECT_EQ(counter_descs[CTR_contended].index, LOCK_contended);
    EXPECT_STR(counter_kind_names[counter_descs[CTR_wait_cycles_max].kind], "max");
    EXPECT_STR(counter_descs[CTR_page_alloc].unit, "pages");
    EXPECT_EQ(counter_descs[CTR_pages_free].kind, KIND_gauge);
}

/* Each name of a formula is a counter of the same scope. */
TEST(derived_counters_are_sums_of_their_scope)
{
    EXPECT_GT(derived_count, 0u);
    for (unsigned i = 0; i < derived_count; i++) {
        char formula[200];

        snprintf(formula, sizeof(formula), "%s", derived_descs[i].formula);
        for (char *word = strtok(formula, " "); word; word = strtok(NULL, " ")) {
            unsigned k = 0;

            if (!strcmp(word, "+") || !strcmp(word, "-"))
                continue;
            while (k < NR_COUNTERS && strcmp(counter_descs[k].name, word) != 0)
                k++;
            REQUIRE(k < NR_COUNTERS);
            EXPECT_EQ(counter_descs[k].scope, derived_descs[i].scope);
        }
    }
}

/* The hash is of a text that anyone can write from the list. */
TEST(schema_hash_is_of_the_lines)
{
    static char text[65536];
    size_t n = 0;

    for (unsigned i = 0; i < NR_COUNTERS; i++) {
        const struct counter_desc *d = &counter_descs[i];

        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\t%s\t%s\t%s\t%s\t%s\n",
                              counter_scope_names[d->scope], d->name, d->unit,
                              counter_kind_names[d->kind], d->panel, d->doc);
    }
    for (unsigned i = 0; i < derived_count; i++) {
        const struct derived_desc *d = &derived_descs[i];

        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\t%s\t%s\tderived\t%s\t%s\t%s\n",
                              counter_scope_names[d->scope], d->name, d->unit, d->panel, d->formula,
                              d->doc);
    }
    REQUIRE(n < sizeof(text));
    EXPECT_EQ(counter_schema_hash(), crc32(0, text, n));
}

TEST(fault_kinds_have_names)
{
    for (unsigned i = 0; i < NR_PANIC_KINDS; i++)
        EXPECT(panic_kind_names[i] && *panic_kind_names[i]);
    for (unsigned i = 0; i < NR_BADFREE_KINDS; i++)
        EXPECT(badfree_kind_names[i] && *badfree_kind_names[i]);
    EXPECT_STR(panic_kind_names[PANIC_deadline], "deadline");
    EXPECT_STR(badfree_kind_names[BADFREE_wrong_order], "wrong_order");
}

struct item {
    int value;
    struct list link;
};

static void expect_values(struct list *l, const char *want)
{
    char got[32] = "";

    list_for_each(e, l) snprintf(got + strlen(got), sizeof(got) - strlen(got), "%d",
                                 list_entry(e, struct item, link)->value);
    EXPECT_STR(got, want);
    got[0] = 0;
    for (struct list *e = l->prev; e != l; e = e->prev) {
        size_t n = strlen(got);

        memmove(got + 1, got, n + 1);
        got[0] = (char)('0' + list_entry(e, struct item, link)->value);
    }
    EXPECT_STR(got, want);
}

TEST(list_keeps_order_both_ways)
{
    struct list l = LIST_INIT(l), other;
    struct item item[6];

    list_init(&other);
    for (int i = 0; i < 6; i++) {
        item[i].value = i;
        list_init(&item[i].link);
        EXPECT(!list_linked(&item[i].link));
    }
    EXPECT(list_empty(&l));
    EXPECT_NULL(list_first(&l));
    EXPECT_NULL(list_last(&l));
    EXPECT_NULL(list_pop_front(&l));
    list_push_back(&l, &item[1].link);
    list_push_back(&l, &item[2].link);
    list_push_front(&l, &item[0].link);
    expect_values(&l, "012");
    EXPECT(list_linked(&item[1].link));
    list_remove(&item[1].link);
    list_remove(&item[1].link); /* harmless */
    EXPECT(!list_linked(&item[1].link));
    expect_values(&l, "02");
    list_push_back(&other, &item[3].link);
    list_push_back(&other, &item[4].link);
    list_splice_back(&l, &other);
    EXPECT(list_empty(&other));
    list_splice_back(&l, &other);
    expect_values(&l, "0234");
    EXPECT_EQ(list_last(&l), &item[4].link);
    EXPECT_EQ(list_pop_front(&l), &item[0].link);
    list_for_each(e, &l) list_remove(e);
    EXPECT(list_empty(&l));
}

TEST(poison_values_are_recognisable)
{
    static const u8 value[] = {POISON_FRESH, POISON_FREE, POISON_REDZONE, POISON_PAGE,
                               POISON_STACK};

    for (size_t i = 0; i < sizeof(value); i++) {
        u64 eight = value[i] * 0x0101010101010101u;
        i64 top = (i64)eight >> 47;

        EXPECT(value[i] >= 0x80 && value[i] != 0xff); /* neither 0 nor text */
        EXPECT(top != 0 && top != -1);                /* no canonical address */
        for (size_t k = 0; k < i; k++)
            EXPECT_NE(value[i], value[k]);
    }
}
