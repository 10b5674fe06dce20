/* test_telemetry.c: rings, the drain, losses, samples and last words, read back from the bytes that
 * left. */
#include <fcntl.h>
#include <sys/socket.h>

#include "../../base/leftout.h"
#include "heap_fixture.h"
#include "wire_reader.h"

/* -- set-up -- */

#define CPUS_MAX 4u

static struct test_heap fixture;
static struct lock_row
    lock_rows[MAX_LOCKS * CPUS_MAX]; /* outlives each heap: locks point into it */

static bool lab_new(const char *line, unsigned cpus)
{
    if (!heap_new(&fixture, line, 64, cpus))
        return false;
    kheap = fixture.h;
    knobs = fixture.knobs;
    CHECK(cpus <= CPUS_MAX && lockstat_bytes(cpus) <= sizeof(lock_rows));
    memset(lock_rows, 0, sizeof(lock_rows));
    lockstat_init(&knobs, cpus, lock_rows);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, port))
        return false;
    for (unsigned i = 0; i < 2; i++)
        fcntl(port[i], F_SETFL, O_NONBLOCK);
    host_sink_set(port[1]);
    wired = 0;
    records = 0;
    return telemetry_init();
}

static void lab_delete(void)
{
    telemetry.active = false;
    host_sink_set(-1);
    close(port[0]);
    close(port[1]);
    heap_delete(&fixture);
}

static void send_all(void)
{
    for (unsigned i = 0; i < 100; i++) {
        telemetry_drain(1u << 20);
        port_read(sizeof(wire));
    }
}

/* -- rings and the drain -- */

TEST(events_come_out_as_they_went_in)
{
    REQUIRE(lab_new("", 2));
    for (unsigned i = 0; i < 50; i++)
        telemetry_event("warning", "some words", &(const struct telemetry_value){"n", i}, 1);
    send_all();
    read_all();
    EXPECT_EQ(damaged, 0u);
    EXPECT_EQ(records, 50u);
    for (unsigned i = 0; i < records; i++) {
        size_t at = find(&got[i], "values");

        EXPECT_EQ(got[i].stream, 0u);
        EXPECT_EQ(got[i].sequence, i);
        EXPECT_TRUE(field_is(&got[i], "text", "some words"));
        at += 3; /* a map of one pair, its key "n" */
        EXPECT_EQ(number(&at), i);
    }
    expect_streams_whole(0);
    lab_delete();
}

static bool ends_in(const struct record *r, const char *key, const char *end)
{
    size_t at = find(r, key), n = at ? number(&at) : 0, m = strlen(end);

    return n >= m && memcmp(text + at + n - m, end, m) == 0;
}

TEST(a_long_text_is_cut_and_a_number_of_any_size_fits)
{
    u64 before = left_out_read(LEFT_OUT_event_values).amount;
    char longest[1000];
    struct telemetry_value values[20];

    REQUIRE(lab_new("", 1));
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    for (unsigned i = 0; i < ARRAY_SIZE(values); i++)
        values[i] = (struct telemetry_value){"a value with quite a long name", -1 - (i64)i};
    telemetry_event("warning", longest, values, ARRAY_SIZE(values));
    send_all();
    read_all();
    EXPECT_EQ(records, 1u);
    EXPECT_EQ(field(&got[0], "text"), 200u); /* its length */
    EXPECT_TRUE(ends_in(&got[0], "text", "xx (815 bytes cut)"));
    EXPECT_EQ(field(&got[0], "values"), 8u);
    EXPECT_EQ(left_out_read(LEFT_OUT_event_values).amount, before + 12);
    lab_delete();
}

TEST(a_text_that_just_fits_is_not_marked)
{
    char fits[201] = "";

    REQUIRE(lab_new("", 1));
    memset(fits, 'x', sizeof(fits) - 1);
    telemetry_event("warning", fits, NULL, 0);
    send_all();
    read_all();
    EXPECT_TRUE(field_is(&got[0], "text", fits));
    lab_delete();
}

TEST(a_full_ring_drops_whole_records_and_tells)
{
    unsigned offered = 0;
    u64 lost, count;
    const struct record *r;

    REQUIRE(lab_new("", 2));
    for (; telemetry.cpu[0].lost < 7; offered++)
        telemetry_event("warning", "flood", NULL, 0);
    lost = telemetry.cpu[0].lost;
    send_all();
    telemetry_event("warning", "after", NULL, 0);
    send_all();
    read_all();
    EXPECT_EQ(damaged, 0u);
    EXPECT_EQ(count_type(RECORD_LOST), 1u);
    r = last_of(RECORD_LOST);
    REQUIRE(r != NULL);
    count = field(r, "count");
    EXPECT_EQ(count, lost);
    EXPECT_EQ(field(r, "stream"), 0u);
    EXPECT_LE(field(r, "from"), field(r, "to"));
    EXPECT_GT(field(r, "from"), got[0].time);
    EXPECT_LE(field(r, "to"), r->time);
    EXPECT_EQ(records, offered - lost + 2); /* the lost record, and the one after */
    EXPECT_TRUE(field_is(&got[records - 1], "text", "after"));
    expect_streams_whole(lost);
    lab_delete();
}

TEST(a_port_that_takes_a_little_at_a_time_loses_nothing)
{
    unsigned sent = 0;

    REQUIRE(lab_new("", 3));
    for (unsigned round = 0; round < 400; round++) {
        telemetry_event("warning", "piecemeal", NULL, 0);
        sent++;
        telemetry_drain(1 + round % 13);
        if (round % 50 == 0)
            send_all(); /* so that the ring does not fill */
    }
    send_all();
    read_all();
    EXPECT_EQ(damaged, 0u);
    EXPECT_EQ(records, sent);
    expect_streams_whole(0);
    lab_delete();
}

TEST(a_port_that_is_full_stops_the_drain_and_nothing_else)
{
    int size = 4096;

    REQUIRE(lab_new("", 1));
    setsockopt(port[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    for (unsigned i = 0; i < 300; i++) {
        telemetry_event("warning", "into a narrow port", NULL, 0);
        telemetry_drain(1u << 20);
    }
    EXPECT_FALSE(ring_empty(&telemetry.cpu[0])); /* it was full, or this tested nothing */
    send_all();
    read_all();
    EXPECT_EQ(damaged, 0u);
    EXPECT_EQ(records, 300 - telemetry.cpu[0].lost + count_type(RECORD_LOST));
    lab_delete();
}

/* -- the boot's records -- */

TEST(hello_schema_and_names_come_whole)
{
    struct bootinfo info = {
        .platform = "host", .args = "a=b", .cpus_found = 2, .cpus = 2, .memory_bytes = 1};
    unsigned objects;

    REQUIRE(lab_new("", 2));
    info.cpu[0].started = info.cpu[1].started = true;
    telemetry_hello(&info);
    telemetry_schema();
    telemetry_announce();
    telemetry_flush();
    send_all();
    read_all();
    EXPECT_EQ(count_type(RECORD_HELLO), 5u);
    for (unsigned i = 0; i < 5; i++) {
        EXPECT_EQ(got[i].part, i);
        EXPECT_EQ(got[i].parts, 5u);
    }
    EXPECT_EQ(field(&got[0], "protocol"), 1u);
    EXPECT_EQ(field(&got[1], "knobs"), (u64)NR_KNOBS);
    EXPECT_EQ(count_type(RECORD_SCHEMA), NR_COUNTERS + derived_count);
    objects = 1 + KMALLOC_CLASSES + lock_count();
    EXPECT_LE(count_type(RECORD_OBJECT), objects); /* other tests' locks may be dead */
    EXPECT_GE(count_type(RECORD_OBJECT), 1 + 2 * KMALLOC_CLASSES + 2);
    telemetry_announce(); /* nothing new */
    send_all();
    read_all();
    EXPECT_LE(count_type(RECORD_OBJECT), objects);
    expect_streams_whole(0);
    lab_delete();
}

/* CPU 0 says hello while CPU 1 reads: it may be more than a socket holds. */
static u32 said; /* atomic */

static void hello_and_reader(void *info)
{
    if (plat_cpu_id() == 0) {
        telemetry_hello(info);
        telemetry_flush();
        __atomic_store_n(&said, 1, __ATOMIC_RELEASE);
        return;
    }
    while (!__atomic_load_n(&said, __ATOMIC_ACQUIRE))
        port_read(sizeof(wire));
}

static bool hello_arrives(const char *args)
{
    struct bootinfo info = {
        .platform = "host", .args = args, .cpus_found = 2, .cpus = 2, .memory_bytes = 1};

    if (!lab_new("", 2))
        return false;
    info.cpu[0].started = info.cpu[1].started = true;
    said = 0;
    plat_run_on_cpus(3, hello_and_reader, &info);
    read_all();
    EXPECT_EQ(damaged, 0u);
    EXPECT_EQ(count_type(RECORD_HELLO), records);
    return true;
}

/* An argument line of any length arrives whole, and no letter is in two parts: each part is text by itself. */
static void hello_with(const char *args, size_t length)
{
    size_t joined = 0;
    unsigned parts;

    REQUIRE(hello_arrives(args));
    parts = records;
    EXPECT_EQ(field(&got[0], "args_bytes"), length);
    for (unsigned i = 0; i < parts; i++) {
        size_t at = find(&got[i], "args"), n = at ? number(&at) : 0;

        EXPECT_EQ(got[i].part, i);
        EXPECT_EQ(got[i].parts, parts);
        EXPECT_LE(joined + n, length);
        EXPECT_TRUE(memcmp(args + joined, text + at, n) == 0);
        EXPECT_TRUE(n == 0 || (args[joined] & 0xc0) != 0x80);
        joined += n;
    }
    EXPECT_EQ(joined, length);
    lab_delete();
}

TEST(hello_carries_the_whole_argument_line)
{
    static char line[70001];
    u64 before = left_out_read(LEFT_OUT_args).amount;

    for (size_t n = 2990; n < 3010; n++) {
        memset(line, 'a', n);
        line[n] = 0;
        hello_with(line, n);
    }
    for (unsigned first = 0; first < 4; first++) { /* letters of four bytes, cut nowhere */
        size_t n = first;

        memset(line, 'a', first);
        for (; n + 4 < sizeof(line); n += 4)
            memcpy(line + n, "\xf0\x9f\x8c\xbe", 4);
        line[n] = 0;
        hello_with(line, n);
    }
    EXPECT_EQ(left_out_read(LEFT_OUT_args).amount, before);
}

TEST(what_no_hello_can_carry_is_told)
{
    static char line[400001];
    u64 before = left_out_read(LEFT_OUT_args).amount, left;
    size_t sent = 0;

    memset(line, 'a', sizeof(line) - 1);
    REQUIRE(hello_arrives(line));
    for (unsigned i = 0; i < records; i++) {
        size_t at = find(&got[i], "args");

        sent += at ? number(&at) : 0;
    }
    left = left_out_read(LEFT_OUT_args).amount - before;
    EXPECT_GT(left, 0u);
    EXPECT_EQ(sent + left, sizeof(line) - 1);
    EXPECT_EQ(field(&got[0], "args_bytes"), sizeof(line) - 1);
    lab_delete();
}

/* The entry of that kind in a record's list; 0 if there is none. */
static size_t left_out_in(const struct record *r, const char *name)
{
    size_t at = find(r, "left_out");
    u64 n = at ? number(&at) : 0;

    for (u64 i = 0; i < n; i++) {
        if (text_is(find_in(at, "name"), name))
            return at;
        skip(&at);
    }
    return 0;
}

static u64 number_in(size_t map, const char *key)
{
    size_t at = find_in(map, key);

    return at ? number(&at) : ~(u64)0;
}

TEST(hello_and_bye_carry_what_was_left_out)
{
    struct bootinfo info = {
        .platform = "host", .args = "", .cpus_found = 1, .cpus = 1, .memory_bytes = 1};
    u64 before = left_out_read(LEFT_OUT_memory).amount;
    const struct record *r;
    size_t at;

    REQUIRE(lab_new("", 1));
    info.cpu[0].started = true;
    left_out(LEFT_OUT_memory, 100, 5000, "in many small pieces");
    telemetry_hello(&info);
    left_out(LEFT_OUT_memory, 23, 0, NULL);
    left_out(LEFT_OUT_locks, 2, 0, NULL);
    telemetry_bye("ok", "");
    read_all();
    r = &got[4]; /* hello's fifth part */
    at = left_out_in(r, "memory");
    REQUIRE(at != 0);
    EXPECT_EQ(number_in(at, "amount"), before + 100);
    EXPECT_EQ(number_in(at, "of"), 5000u);
    EXPECT_TRUE(text_is(find_in(at, "unit"), "KiB"));
    EXPECT_TRUE(text_is(find_in(at, "detail"), "in many small pieces"));
    EXPECT_TRUE(text_is(find_in(at, "doc"), left_out_descs[LEFT_OUT_memory].doc));
    EXPECT_EQ(find_in(at, "voids"), 0u);
    EXPECT_EQ(left_out_in(r, "locks"), 0u); /* came later */
    r = last_of(RECORD_BYE);
    REQUIRE(r != NULL);
    at = left_out_in(r, "memory");
    REQUIRE(at != 0);
    EXPECT_EQ(number_in(at, "amount"), before + 123);
    EXPECT_EQ(number_in(at, "of"), 5000u);
    at = left_out_in(r, "locks");
    REQUIRE(at != 0);
    EXPECT_EQ(number_in(at, "amount"), 2u);
    EXPECT_EQ(number_in(at, "of"), ~(u64)0);
    EXPECT_NE(find_in(at, "voids"), 0u);
    lab_delete();
}

/* Every kind at once, with texts as long as can be: bye's one frame has room for what counts. */
TEST(no_account_is_too_long_for_bye)
{
    static char detail[1000];
    const struct record *bye;

    memset(detail, 'x', sizeof(detail) - 1);
    for (unsigned kind = 0; kind < NR_LEFT_OUT; kind++)
        left_out(kind, 1ul << 60, ~(u64)0, detail);
    REQUIRE(lab_new("", CPUS_MAX));
    telemetry_bye("ok", detail + 600);
    read_all();
    bye = last_of(RECORD_BYE);
    REQUIRE(bye != NULL);
    for (unsigned kind = 0; kind < NR_LEFT_OUT; kind++) {
        size_t at = left_out_in(bye, left_out_descs[kind].name);

        REQUIRE(at != 0);
        EXPECT_GE(number_in(at, "amount"), 1ul << 60);
    }
    lab_delete();
}

/* After a loss the next record is preceded by one that tells of it: its writer waits for room for both. */
TEST(a_record_after_a_loss_waits_for_room_for_two)
{
    struct ring *r = &telemetry.boot;
    struct telemetry_value value = {"a value", 1};
    size_t one;
    u64 lost;

    REQUIRE(lab_new("", 1));
    one = FRAME_MAX(r->payload_max) + 2;
    do /* until there is room for one longest record and not for two */
        telemetry_check("filler", "now", true, "", &value, 1);
    while (r->size - (r->head - r->tail) >= 2 * one);
    REQUIRE(r->size - (r->head - r->tail) >= one);
    r->lost_new = 1;
    r->lost_from = r->lost_to = plat_cycles();
    lost = r->lost;
    telemetry_check("wanted", "now", true, "", &value, 1);
    EXPECT_EQ(r->lost, lost);
    send_all();
    read_all();
    EXPECT_EQ(damaged, 0u);
    EXPECT_TRUE(field_is(&got[records - 1], "name", "wanted"));
    EXPECT_EQ(got[records - 2].type, (u64)RECORD_LOST);
    lab_delete();
}

TEST(a_bye_counts_what_was_sent)
{
    const struct record *bye;
    size_t at;

    REQUIRE(lab_new("", 2));
    telemetry_announce();
    for (unsigned i = 0; i < 9; i++)
        telemetry_event("warning", "x", NULL, 0);
    telemetry_bye("ok", "");
    read_all();
    bye = last_of(RECORD_BYE);
    REQUIRE(bye != NULL);
    EXPECT_TRUE(field_is(bye, "outcome", "ok"));
    at = find(bye, "totals");
    EXPECT_EQ(number(&at), 3u);
    for (unsigned i = 0; i < 3; i++) {
        u64 stream, offered, had = 0;

        EXPECT_EQ(number(&at), 3u);
        stream = number(&at);
        offered = number(&at);
        EXPECT_EQ(number(&at), 0u);
        for (unsigned k = 0; k < records; k++)
            had += got[k].stream == stream;
        EXPECT_EQ(had, offered);
    }
    telemetry_event("warning", "too late", NULL, 0);
    telemetry_drain(1000);
    EXPECT_TRUE(ring_empty(&telemetry.cpu[0]));
    lab_delete();
}

/* -- samples -- */

static u64 cache_counter(unsigned id, unsigned cpu, enum cache_counter i)
{
    return counter_read(&cache_row(heap_cache(kheap, id), cpu)[i]);
}

static void expect_seen_is_true(unsigned cpus)
{
    for (unsigned id = 0; id < heap_cache_count(kheap); id++)
        for (unsigned cpu = 0; cpu < cpus; cpu++)
            for (unsigned i = 0; i < NR_COUNTERS; i++) {
                const struct counter_desc *d = &counter_descs[i];

                if (d->scope == SCOPE_cache && d->kind != KIND_gauge)
                    EXPECT_EQ(seen_value(SCOPE_cache, id, cpu, i),
                              cache_counter(id, cpu, d->index));
            }
    for (unsigned i = 0; i < NR_COUNTERS; i++)
        if (counter_descs[i].scope == SCOPE_node && counter_descs[i].kind != KIND_gauge)
            EXPECT_EQ(seen_value(SCOPE_node, 0, 0, i),
                      counter_read(&heap_node_row(kheap, 0, 0)[counter_descs[i].index]));
}

static void churn(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        void *p = kmalloc(1 + i * 97 % 9000);

        EXPECT_TRUE(p && kfree(p));
    }
}

TEST(full_samples_add_up_to_the_truth)
{
    REQUIRE(lab_new("front=none", 2));
    telemetry_announce();
    for (unsigned round = 0; round < 3; round++) {
        unsigned before = records;

        churn(500);
        telemetry_full_sample(false);
        send_all();
        read_all();
        EXPECT_GT(records, before);
        expect_seen_is_true(2);
    }
    expect_streams_whole(0);
    lab_delete();
}

/* The first begin of a round and every 16th tell every value, so a reader who lost all before is
 * whole again; the others tell what changed. */
TEST(now_and_then_a_full_sample_tells_everything)
{
    static u64 told[33];

    REQUIRE(lab_new("front=none", 2));
    telemetry_announce();
    churn(500);
    for (unsigned round = 0; round < ARRAY_SIZE(told); round++) {
        size_t before = round == 16 ? 0 : wired;

        wired = before; /* all that was told before the 17th is lost */
        telemetry_full_sample(true);
        telemetry_bench_begin(0, round);
        telemetry_flush();
        send_all();
        told[round] = wired - before;
    }
    read_all();
    expect_seen_is_true(2);
    for (unsigned i = 0; i < records; i++)
        if (got[i].type == RECORD_BENCH)
            EXPECT_EQ(find(&got[i], "whole") != 0, field(&got[i], "round") % 16 == 0);
    EXPECT_GT(told[16], 4 * told[15]);
    EXPECT_GT(told[32], 4 * told[31]);
    lab_delete();
}

TEST(marks_count_the_records_before_them_by_type)
{
    const struct record *mark;
    size_t at;

    REQUIRE(lab_new("", 1));
    telemetry_announce();
    for (unsigned i = 0; i < 3; i++)
        telemetry_check("balance", "before", true, "", NULL, 0);
    telemetry_full_sample(true);
    telemetry_bench_begin(7, 0);
    telemetry_flush();
    send_all();
    read_all();
    mark = last_of(RECORD_BENCH);
    REQUIRE(mark != NULL);
    at = find(mark, "made");
    EXPECT_EQ(number(&at), (u64)NR_RECORD_TYPES);
    for (unsigned type = 0; type < NR_RECORD_TYPES; type++)
        EXPECT_EQ(number(&at), type == RECORD_BENCH ? 0 : (u64)count_type(type));
    EXPECT_EQ(field(mark, "whole"), 1u);
    lab_delete();
}

TEST(what_did_not_change_is_not_said_again)
{
    size_t first, second;

    REQUIRE(lab_new("", 1));
    telemetry_announce();
    churn(500);
    telemetry_flush();
    send_all();
    first = wired;
    telemetry_full_sample(false);
    send_all();
    second = wired;
    telemetry_full_sample(false);
    send_all();
    EXPECT_GT(second - first, 500u);
    EXPECT_LT(wired - second, 100u); /* telemetry's own counters */
    lab_delete();
}

/* Ticks at any rate send what the budget lets them, and in the end everything. */
TEST(ticks_keep_to_the_budget_and_reach_everything)
{
    u64 until, hz;
    size_t before;

    REQUIRE(lab_new("telemetry.hz=100 telemetry.budget=4000", 1));
    telemetry_announce();
    churn(3000);
    telemetry_flush();
    send_all();
    before = wired;
    hz = plat_cycles_hz();
    telemetry_sampling(true);
    for (until = plat_cycles() + hz; plat_cycles() < until;) {
        telemetry_tick(0);
        port_read(sizeof(wire));
    }
    EXPECT_LT(wired - before, 4000u + 4000u); /* a second's worth, and the bucket's burst */
    EXPECT_GT(wired - before, 1000u);
    for (until = plat_cycles() + 3 * hz; plat_cycles() < until;) {
        telemetry_tick(0);
        port_read(sizeof(wire));
    }
    telemetry_sampling(false);
    send_all();
    read_all();
    EXPECT_EQ(damaged, 0u);
    expect_seen_is_true(1);
    expect_streams_whole(0);
    lab_delete();
}

TEST(timed_sections_are_sampled_seldom_and_send_nothing_at_first)
{
    u64 until, hz = plat_cycles_hz();
    u64 sequence;

    REQUIRE(lab_new("telemetry.hz=100 telemetry.budget=100000", 1));
    telemetry_announce();
    telemetry_flush();
    send_all();
    telemetry_sampling(true);
    telemetry_timed(true);
    sequence = telemetry.cpu[0].sequence;
    wired = 0;
    for (until = plat_cycles() + hz * 9 / 10; plat_cycles() < until;) {
        churn(10);
        telemetry_tick(0);
    }
    EXPECT_LE(telemetry.cpu[0].sequence - sequence, 5u);
    EXPECT_GE(telemetry.cpu[0].sequence - sequence, 2u);
    port_read(sizeof(wire));
    EXPECT_EQ(wired, 0u);
    telemetry_timed(false);
    telemetry_tick(0);
    port_read(sizeof(wire));
    EXPECT_GT(wired, 0u);
    telemetry_sampling(false);
    lab_delete();
}

/* -- many at once -- */

static unsigned busy_cpus; /* atomic */

/* The last CPU plays the timer thread; the others allocate and send events meanwhile. */
static void crowd(void *arg)
{
    unsigned cpu = plat_cpu_id(), last = plat_cpu_count() - 1, n = *(unsigned *)arg;

    if (cpu == last) {
        while (__atomic_load_n(&busy_cpus, __ATOMIC_ACQUIRE)) {
            for (unsigned i = 0; i < last; i++)
                telemetry_tick(i);
            port_read(sizeof(wire));
        }
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        churn(20);
        if (i % 8 == 0)
            telemetry_event("warning", "from a busy CPU", NULL, 0);
    }
    __atomic_sub_fetch(&busy_cpus, 1, __ATOMIC_ACQ_REL);
}

TEST(samples_and_events_of_many_cpus_never_mix)
{
    unsigned n = test_scale(4000);
    u64 lost = 0;

    REQUIRE(lab_new("telemetry.hz=100 telemetry.budget=10000000", 4));
    telemetry_announce();
    telemetry_flush();
    telemetry_sampling(true);
    __atomic_store_n(&busy_cpus, 3, __ATOMIC_RELEASE);
    plat_run_on_cpus(plat_all_cpus(), crowd, &n);
    telemetry_sampling(false);
    send_all();
    read_all();
    EXPECT_EQ(damaged, 0u);
    EXPECT_GT(count_type(RECORD_EVENT), 0u);
    for (unsigned cpu = 0; cpu < 4; cpu++)
        lost += telemetry.cpu[cpu].lost;
    for (unsigned cpu = 0; cpu < 4; cpu++) /* those after the last record show in no gap */
        if (telemetry.cpu[cpu].lost_new)
            lost -= telemetry.cpu[cpu].lost_new;
    expect_streams_whole(lost);
    lab_delete();
}

/* -- last words -- */

static void expect_early_bye(unsigned events)
{
    const struct record *bye;

    telemetry_emergency_bye("deadline", "too late");
    read_all();
    EXPECT_EQ(count_type(RECORD_EVENT), events);
    bye = last_of(RECORD_BYE);
    REQUIRE(bye != NULL);
    EXPECT_TRUE(field_is(bye, "outcome", "deadline"));
    EXPECT_EQ(bye, &got[records - 1]);
    expect_streams_whole(0);
}

TEST(an_early_bye_finishes_the_frame_that_was_half_out)
{
    REQUIRE(lab_new("", 2));
    for (unsigned i = 0; i < 5; i++)
        telemetry_event("warning", "half out", NULL, 0);
    telemetry_drain(100); /* stops inside a frame */
    EXPECT_NE(telemetry.cpu[0].sent, 0u);
    expect_early_bye(5);
    EXPECT_EQ(damaged, 0u);
    lab_delete();
}

TEST(an_early_bye_takes_the_port_from_whoever_was_interrupted)
{
    REQUIRE(lab_new("", 2));
    for (unsigned i = 0; i < 5; i++)
        telemetry_event("warning", "torn", NULL, 0);
    telemetry_drain(100);
    EXPECT_NE(telemetry.cpu[0].sent, 0u);
    telemetry.drain.busy = 1; /* its holder will never run again */
    expect_early_bye(5);
    EXPECT_EQ(damaged, 1u); /* the torn half; its record came again whole */
    lab_delete();
}

TEST(a_panic_is_told_first_and_the_rings_after_it)
{
    static const struct telemetry_frame frame[] = {{0x1000, "f", 1}, {0x2000, NULL, 0}};
    static struct telemetry_frame deep[64];
    static struct telemetry_backtrace others[MAX_CPUS];
    const struct panic_info info = {PANIC_provoked, "why", "file.c", 42, {1, 2, 3, ~(u64)0}, NULL};
    const struct telemetry_register reg[] = {{"rip", 0xffffffff80100000}, {"rsp", 16}};
    struct telemetry_panic panic = {.info = &info,
                                    .here = {1, 2, frame},
                                    .reg = reg,
                                    .regs = 2,
                                    .other = others,
                                    .others = MAX_CPUS};
    const struct record *r;
    size_t at;

    REQUIRE(lab_new("", 2));
    for (unsigned i = 0; i < ARRAY_SIZE(deep); i++)
        deep[i] = (struct telemetry_frame){
            ~(u64)0 - i, "a_function_with_a_name_longer_than_there_is_room_for", i};
    for (unsigned i = 0; i < MAX_CPUS; i++)
        others[i] = (struct telemetry_backtrace){i, 64, deep};
    telemetry_event("warning", "before the panic", NULL, 0);
    telemetry_event("warning", "before the panic", NULL, 0);
    telemetry_drain(20);
    telemetry_panic(&panic);
    read_all();
    EXPECT_EQ(damaged, 1u);
    REQUIRE(records == 3);
    r = &got[0];
    EXPECT_EQ(r->type, (u64)RECORD_PANIC);
    EXPECT_EQ(r->stream, 255u);
    EXPECT_EQ(field(r, "kind"), (u64)PANIC_provoked);
    EXPECT_TRUE(field_is(r, "file", "file.c"));
    EXPECT_EQ(field(r, "line"), 42u);
    EXPECT_EQ(field(r, "cpu"), 1u);
    EXPECT_EQ(field(r, "registers"), 2u);
    EXPECT_EQ(field(r, "backtrace"), 2u);
    EXPECT_GE(field(r, "others"), 3u); /* as many as fit */
    EXPECT_LT(field(r, "others"), MAX_CPUS);
    at = find(r, "left_out"); /* and the rest is counted */
    REQUIRE(at != 0);
    EXPECT_EQ(number_in(at, "cpus") + field(r, "others"), (u64)MAX_CPUS);
    EXPECT_EQ(number_in(at, "frames"), field(r, "others") * (64 - 8));
    lab_delete();
}

/* -- last words where the other CPUs run on -- */

static struct {
    u32 held, left_alone; /* atomic */
    bool lets_go;
    void (*last_word)(void);
} neighbour;

/* CPU 1 is in the middle of a drain when CPU 0 says the last word. Whoever drains finds telemetry inactive after
 * his frame; until then head, tail and port are his. */
static void drain_and_last_word(void *arg)
{
    struct ring *r = &telemetry.cpu[0];
    u32 tail = r->tail;

    (void)arg;
    if (plat_cpu_id() == 0) {
        while (!__atomic_load_n(&neighbour.held, __ATOMIC_ACQUIRE))
            plat_relax();
        neighbour.last_word();
        return;
    }
    CHECK(!__atomic_exchange_n(&telemetry.drain.busy, 1, __ATOMIC_SEQ_CST));
    __atomic_store_n(&neighbour.held, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&telemetry.active, __ATOMIC_ACQUIRE))
        plat_relax();
    for (u64 until = plat_cycles() + plat_cycles_hz() / 20; plat_cycles() < until;)
        plat_relax(); /* longer than anybody waits for a CPU that may have been stopped */
    __atomic_store_n(&neighbour.left_alone, __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) == tail,
                     __ATOMIC_RELEASE);
    if (neighbour.lets_go)
        __atomic_store_n(&telemetry.drain.busy, 0, __ATOMIC_RELEASE);
}

static void say_panic(void)
{
    const struct panic_info info = {PANIC_provoked, "why", "file.c", 42, {0}, NULL};
    const struct telemetry_panic panic = {.info = &info};

    telemetry_panic(&panic);
}

static void say_bye(void)
{
    telemetry_emergency_bye("deadline", "too late");
}

static void last_word_beside_a_drain(void (*word)(void), bool lets_go)
{
    REQUIRE(lab_new("", 2));
    neighbour.held = neighbour.left_alone = 0;
    neighbour.lets_go = lets_go;
    neighbour.last_word = word;
    kernel_hooks.cpus_run_on = true;
    for (unsigned i = 0; i < 3; i++)
        telemetry_event("warning", "waits in the ring", NULL, 0);
    plat_run_on_cpus(3, drain_and_last_word, NULL);
    kernel_hooks.cpus_run_on = false;
    read_all();
    EXPECT_EQ(damaged, 0u);
    EXPECT_EQ(neighbour.left_alone, 1u);
    EXPECT_EQ(count_type(RECORD_EVENT), lets_go ? 3u : 0u);
    EXPECT_EQ(count_type(RECORD_PANIC) + count_type(RECORD_BYE), 1u);
    lab_delete();
}

TEST(a_last_word_waits_for_a_drain_that_runs)
{
    last_word_beside_a_drain(say_panic, true);
    last_word_beside_a_drain(say_bye, true);
}

TEST(a_last_word_leaves_rings_alone_that_it_does_not_get)
{
    last_word_beside_a_drain(say_panic, false);
}

/* Two CPUs, one with a panic and one with an early bye: one buffer, so one at a time. */
static void both_last_words(void *arg)
{
    (void)arg;
    if (plat_cpu_id() == 0)
        say_panic();
    else
        say_bye();
}

TEST(two_last_words_do_not_mix)
{
    for (unsigned i = 0; i < test_scale(200); i++) {
        REQUIRE(lab_new("", 2));
        kernel_hooks.cpus_run_on = true;
        telemetry_event("warning", "before", NULL, 0);
        plat_run_on_cpus(3, both_last_words, NULL);
        kernel_hooks.cpus_run_on = false;
        read_all();
        EXPECT_EQ(damaged, 0u);
        EXPECT_EQ(count_type(RECORD_PANIC), 1u);
        EXPECT_EQ(count_type(RECORD_EVENT), 1u);
        lab_delete();
    }
}
