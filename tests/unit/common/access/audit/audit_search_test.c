/* A search gives each record once and in order, whatever pages it comes in, and only those that are
 * wanted and may be seen. */
#include "common/access/audit/audit.h"
#include "common/access/audit/audit_search.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PROCESSES = 2, STEPS = 120, ARENA_BYTES = 32 * 1024 * 1024 };

static const int64_t START_NS = INT64_C(1764194400) * FG_SECOND_NS; /* 2025-11-26 22:00 */
static const int64_t STEP_NS = 25 * FG_MINUTE_NS;

struct fixture {
    struct fg_bucket *bucket;
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct fg_audit_settings settings;
    struct fg_arena *arena;
    bool sees_all;
    int64_t sees_from_ms;
};

/* Two processes record for two days. Objects have records of an hour, so they reach into the next
 * one. */
static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_audit *audits[PROCESSES];
    struct fg_err err;

    f->bucket = fg_bucket_memory();
    fg_clock_manual_init(&f->clock, START_NS);
    f->registry = fg_registry_create();
    f->settings.flush_ns = FG_HOUR_NS;
    f->arena = fg_arena_create(ARENA_BYTES);
    f->sees_all = true;
    for (int i = 0; i < PROCESSES; i++) {
        audits[i] = fg_audit_create(&(struct fg_audit_config){.settings = &f->settings,
                                                              .program = "flamegrid-querier",
                                                              .clock = &f->clock.clock,
                                                              .registry = f->registry});
        assert_int_equal(fg_audit_open(audits[i], f->bucket, "", &err), FG_OK);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < PROCESSES; i++) {
            fg_audit_note(audits[i],
                          &(struct fg_audit_event){
                              .kind = step % 3 == 0 ? FG_AUDIT_ADMIN : FG_AUDIT_READ,
                              .who = i == 0 ? FG_LIT("token aaaaaaaa (anna)") : FG_LIT("ben"),
                              .token = i == 0 ? FG_LIT("aaaaaaaa") : FG_LIT(""),
                              .tenant = step % 2 == 0 ? FG_LIT("shop") : FG_LIT("bank|shop")});
            fg_audit_turn(audits[i]);
        }
        fg_clock_manual_advance(&f->clock, STEP_NS);
    }
    for (int i = 0; i < PROCESSES; i++)
        fg_audit_destroy(audits[i]);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_arena_destroy(f->arena);
    fg_registry_destroy(f->registry);
    fg_bucket_close(f->bucket);
    free(f);
    return 0;
}

static bool may_see(void *arg, int64_t ms, struct fg_slice tenants)
{
    const struct fixture *f = arg;

    return f->sees_all || (fg_slice_is(tenants, "shop") && ms >= f->sees_from_ms);
}

static struct fg_audit_wanted everything(struct fixture *f)
{
    return (struct fg_audit_wanted){.from_ms = START_NS / FG_MS_NS,
                                    .to_ms = (START_NS + STEPS * STEP_NS) / FG_MS_NS,
                                    .limit = FG_AUDIT_SEARCH_MAX_RECORDS,
                                    .may_see = may_see,
                                    .arg = f};
}

static struct fg_audit_found search(struct fixture *f, const struct fg_audit_wanted *wanted)
{
    struct fg_audit_found found = {.n = 0};
    struct fg_err err;

    if (fg_audit_search(f->bucket, wanted, 0, f->arena, &found, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return found;
}

static void all_records_come_in_order(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_wanted wanted = everything(f);
    struct fg_audit_found found = search(f, &wanted);
    int64_t last_ms = 0;
    size_t events = 0;

    assert_int_equal(found.next_ms, 0);
    for (size_t i = 0; i < found.n; i++) {
        struct fg_audit_record record;
        struct fg_err err;

        assert_int_equal(fg_audit_read(found.lines[i], f->arena, &record, &err), FG_OK);
        assert_true(record.ms >= last_ms);
        last_ms = record.ms;
        events += record.event.kind == FG_AUDIT_ADMIN || record.event.kind == FG_AUDIT_READ;
    }
    assert_int_equal(events, PROCESSES * STEPS);
}

struct waiting {
    struct fixture *fixture;
    unsigned looks, looks_max;
};

static bool sees(void *arg, int64_t ms, struct fg_slice tenants)
{
    const struct waiting *waiting = arg;

    return may_see(waiting->fixture, ms, tenants);
}

static bool is_unwanted(void *arg)
{
    struct waiting *waiting = arg;

    return waiting->looks++ == waiting->looks_max;
}

/* The bucket may be slow, and a search of a month has thousands of objects. */
static void a_search_that_nobody_waits_for_ends(void **state)
{
    struct fixture *f = *state;
    struct waiting waiting = {f, 0, UINT32_MAX};
    struct fg_audit_wanted wanted = everything(f);
    struct fg_audit_found found;
    struct fg_err err;
    unsigned looks;

    wanted.may_see = sees;
    wanted.is_unwanted = is_unwanted;
    wanted.arg = &waiting;
    (void)search(f, &wanted);
    looks = waiting.looks;
    assert_in_range(looks, 2 * PROCESSES + 3, 10000);
    for (unsigned max = 0; max < looks; max++) {
        waiting.looks = 0;
        waiting.looks_max = max;
        assert_int_equal(fg_audit_search(f->bucket, &wanted, 0, f->arena, &found, &err),
                         FG_E_CANCELED);
        assert_int_equal(waiting.looks, max + 1);
    }
}

static void pages_have_each_record_once(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_wanted wanted = everything(f);
    struct fg_audit_found all = search(f, &wanted);

    for (wanted.limit = 1; wanted.limit < 40; wanted.limit += 3) {
        size_t n = 0;

        wanted.from_ms = START_NS / FG_MS_NS;
        do {
            struct fg_audit_found page = search(f, &wanted);

            assert_in_range(n + page.n, n, all.n);
            for (size_t i = 0; i < page.n; i++)
                assert_true(fg_slice_eq(page.lines[i], all.lines[n + i]));
            n += page.n;
            assert_true(page.next_ms == 0 || page.next_ms > wanted.from_ms);
            wanted.from_ms = page.next_ms;
        } while (wanted.from_ms != 0);
        assert_int_equal(n, all.n);
    }
}

/* Records of an hour in several chains: a flood, and one change that somebody wants to see. The
 * arena has room for a page, and not for the hour. */
static void a_flood_hides_nothing(void **state)
{
    enum { FLOOD = 2000, CHAINS = 4, LIMIT = 100 };
    struct fixture *f = *state;
    struct fg_audit_wanted wanted = everything(f);
    fg_auto(fg_arena) *small = fg_arena_create(256 * 1024);
    struct fg_bucket *bucket = fg_bucket_memory();
    struct fg_audit *audits[CHAINS];
    struct fg_audit_found found;
    struct fg_err err;
    size_t n = 0, changes = 0;

    for (size_t i = 0; i < CHAINS; i++) {
        audits[i] = fg_audit_create(&(struct fg_audit_config){.settings = &f->settings,
                                                              .program = "flamegrid-querier",
                                                              .clock = &f->clock.clock,
                                                              .registry = f->registry});
        assert_int_equal(fg_audit_open(audits[i], bucket, "", &err), FG_OK);
    }
    wanted.from_ms = fg_wall_ns(&f->clock.clock) / FG_MS_NS;
    for (size_t step = 0; step < FLOOD; step++) {
        for (size_t i = 0; i < CHAINS; i++) {
            struct fg_audit_event event = {
                .kind = FG_AUDIT_REFUSED, .who = FG_LIT("nobody"), .source = FG_LIT("192.0.2.1")};

            if (i == 2 && step == FLOOD / 2)
                event = (struct fg_audit_event){.kind = FG_AUDIT_ADMIN, .who = FG_LIT("anna")};
            fg_audit_note(audits[i], &event);
            fg_audit_turn(audits[i]);
        }
        fg_clock_manual_advance(&f->clock, 100 * FG_MS_NS);
    }
    for (size_t i = 0; i < CHAINS; i++)
        fg_audit_destroy(audits[i]);
    wanted.to_ms = fg_wall_ns(&f->clock.clock) / FG_MS_NS;
    wanted.limit = LIMIT;
    do {
        int64_t last_ms = wanted.from_ms;

        fg_arena_reset(small);
        if (fg_audit_search(bucket, &wanted, 0, small, &found, &err) != FG_OK)
            fail_msg("%s", err.msg);
        assert_in_range(found.n, 1, LIMIT + 2 * CHAINS);
        for (size_t i = 0; i < found.n; i++) {
            struct fg_audit_record record;

            fg_arena_reset(f->arena);
            assert_int_equal(fg_audit_read(found.lines[i], f->arena, &record, &err), FG_OK);
            assert_true(record.ms >= last_ms);
            last_ms = record.ms;
            changes += record.event.kind == FG_AUDIT_ADMIN;
            n += record.event.kind == FG_AUDIT_REFUSED;
        }
        assert_true(found.next_ms == 0 || found.next_ms > last_ms);
        wanted.from_ms = found.next_ms;
    } while (found.next_ms != 0);
    assert_int_equal(changes, 1);
    assert_int_equal(n, CHAINS * FLOOD - 1);
    fg_bucket_close(bucket);
}

static void a_range_is_inclusive(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_wanted wanted = everything(f);

    wanted.kind = FG_LIT("read");
    wanted.from_ms = wanted.to_ms = (START_NS + 50 * STEP_NS) / FG_MS_NS;
    assert_int_equal(search(f, &wanted).n, PROCESSES);
    wanted.from_ms++;
    wanted.to_ms = (START_NS + 51 * STEP_NS) / FG_MS_NS - 1;
    assert_int_equal(search(f, &wanted).n, 0);
}

static void only_what_is_wanted_comes(void **state)
{
    static const struct {
        const char *who, *tenant, *kind;
        size_t n;
    } cases[] = {
        {"", "", "admin", PROCESSES * STEPS / 3},
        {"aaaaaaaa", "", "admin", STEPS / 3},
        {"(anna)", "", "read", STEPS - STEPS / 3},
        {"ben", "bank", "admin", STEPS / 6},
        {"", "bank", "", PROCESSES * STEPS / 2},
        {"", "shop", "", PROCESSES * STEPS},
        {"", "sho", "", 0},
        {"", "", "unheard", 0},
        {"nobody", "", "", 0},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_audit_wanted wanted = everything(f);

        wanted.who = fg_cstr(cases[i].who);
        wanted.tenant = fg_cstr(cases[i].tenant);
        wanted.kind = fg_cstr(cases[i].kind);
        print_message("  %s %s %s\n", cases[i].who, cases[i].tenant, cases[i].kind);
        assert_int_equal(search(f, &wanted).n, cases[i].n);
    }
}

static void only_what_may_be_seen_comes(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_wanted wanted = everything(f);

    f->sees_all = false;
    assert_int_equal(search(f, &wanted).n, PROCESSES * STEPS / 2);
    f->sees_from_ms = (START_NS + STEPS / 2 * STEP_NS) / FG_MS_NS;
    assert_int_equal(search(f, &wanted).n, PROCESSES * STEPS / 4);
}

static void an_incomplete_search_says_what_is_missing(void **state)
{
    struct fixture *f = *state;
    struct fg_audit_wanted wanted = everything(f);
    struct fg_audit_found found;
    struct fg_err err;
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                    .name = "audit/2025/11/26/22/querier-1-000000.ndjson.zst",
                                    .content = FG_LIT("no zstd")};

    wanted.to_ms = wanted.from_ms + INT64_C(32) * 24 * 3600 * 1000;
    assert_int_equal(fg_audit_search(f->bucket, &wanted, 0, f->arena, &found, &err), FG_E_INVALID);
    wanted.to_ms = wanted.from_ms - 1;
    assert_int_equal(fg_audit_search(f->bucket, &wanted, 0, f->arena, &found, &err), FG_E_INVALID);
    wanted = everything(f);
    fg_arena_set_limit(f->arena, fg_arena_used_bytes(f->arena) + 1000);
    assert_int_equal(fg_audit_search(f->bucket, &wanted, 0, f->arena, &found, &err), FG_E_LIMIT);
    fg_arena_set_limit(f->arena, ARENA_BYTES);
    assert_int_equal(fg_bucket_call(f->bucket, &put), FG_OK);
    fg_bucket_clear(&put);
    found = search(f, &wanted);
    assert_int_equal(found.n_unreadable, 1);
    assert_string_equal(found.unreadable[0], put.name);
    assert_true(found.n > PROCESSES * STEPS);
}

int main(void)
{
#define SEARCH_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        SEARCH_TEST(all_records_come_in_order),
        SEARCH_TEST(a_search_that_nobody_waits_for_ends),
        SEARCH_TEST(pages_have_each_record_once),
        SEARCH_TEST(a_flood_hides_nothing),
        SEARCH_TEST(a_range_is_inclusive),
        SEARCH_TEST(only_what_is_wanted_comes),
        SEARCH_TEST(only_what_may_be_seen_comes),
        SEARCH_TEST(an_incomplete_search_says_what_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
