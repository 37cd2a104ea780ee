/* The routes of forwarding, behind a real HTTP server, over a whole ingester. */
#include "common/base/str.h"
#include "common/runtime/log.h"
#include "ingester/forward/routes.h"
#include "ingester/forward/targets.h"
#include "tests/lib/audit_look.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/served.h"
#include "tests/lib/store_doubles.h"
#include "tests/unit/ingester/forward/past_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 8 << 20, STACKS_MAX = 1000 };

/* Nobody listens on the port of discard, and a name may have a slash. */
static const char targets_yaml[] = "[{name: central, url: 'http://127.0.0.1:9'}, "
                                   "{name: eu/west, url: 'http://me:secret@127.0.0.1:9'}]";
static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

struct fixture {
    struct served served;
    struct fg_store *store;
    struct fg_bucket *bucket, *audit_bucket;
    struct fg_bucket_faulty *faulty; /* the audit's */
    struct ing_forward_targets *targets;
    struct head head;
    struct fg_audit_settings audit_settings;
    struct fg_audit *audit;
    struct ing_forward_routes routes;
    const struct ing_past *past; /* NULL: the server has no blocks */
};

static void open_audit(struct fixture *f)
{
    struct fg_err err;

    f->audit_bucket = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->audit_bucket, &(struct fg_bucket_faults){.seed = 1});
    f->audit_settings.flush_ns = FG_MINUTE_NS;
    f->audit = fg_audit_create(&(struct fg_audit_config){.settings = &f->audit_settings,
                                                         .program = "flamegrid",
                                                         .clock = fg_clock_real(),
                                                         .registry = f->served.registry});
    fg_assert(fg_audit_open(f->audit, fg_bucket_faulty_bucket(f->faulty), "", &err) == FG_OK);
    fg_assert(fg_audit_start(f->audit, &err) == FG_OK);
}

static void open_with(void **state, const char *yaml)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 2, .queue_max = 16}};
    struct fixture *f = fg_new(struct fixture);
    struct ing_forward forward;
    struct fg_err err;

    served_open(&f->served, lanes);
    f->store = fg_store_memory(HEAD_FAMILIES);
    f->bucket = fg_bucket_memory();
    fg_assert(ing_forward_targets_read(yaml, &f->targets, &err) == FG_OK);
    forward = (struct ing_forward){f->targets->queues, f->targets->n};
    head_open_forwarding(&f->head, f->store, f->bucket, FG_HOUR_NS, &forward);
    open_audit(f);
    f->routes.work = f->served.work;
    f->routes.audit = f->audit;
    ing_forward_routes(&f->routes, f->served.server);
    served_start(&f->served);
    *state = f;
}

static int setup(void **state)
{
    open_with(state, targets_yaml);
    return 0;
}

static int setup_without_targets(void **state)
{
    open_with(state, "[]");
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    served_stop(&f->served);
    ing_stop_forwarding(f->head.ingester);
    head_close(&f->head);
    ing_forward_targets_destroy(f->targets);
    fg_audit_close(f->audit);
    fg_audit_destroy(f->audit);
    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->audit_bucket);
    fg_bucket_close(f->bucket);
    fg_store_close(f->store);
    served_close(&f->served);
    free(f);
    return 0;
}

/* The server has started. Both targets are paused before the sender is, so that what is pending
 * stays. */
static void begin(struct fixture *f)
{
    struct ing_outbox *outbox = ing_outbox(f->head.ingester);
    struct fg_err err;

    for (unsigned i = 0; i < f->targets->n; i++)
        assert_int_equal(ing_outbox_pause(outbox, i, true, &err), FG_OK);
    if (f->targets->n > 0)
        assert_int_equal(ing_start_forwarding(f->head.ingester, f->targets, &f->served.budget,
                                              STACKS_MAX, f->past, &err),
                         FG_OK);
    atomic_store(&f->routes.ingester, f->head.ingester);
}

static void push(struct fixture *f, unsigned n)
{
    static const struct head_sample samples[] = {{"a;b", {1, 10}, 0}};

    for (unsigned i = 0; i < n; i++) {
        const struct head_profile profile = {
            .tenant = "acme",
            .service = i % 2 == 0 ? "shop" : "archive",
            .zone = "eu",
            .time_ns = start_ns + (int64_t)i * FG_SECOND_NS,
            .samples = samples,
            .n_samples = FG_COUNT(samples),
        };

        assert_int_equal(head_push(&f->head, &profile, true).code, FG_OK);
    }
}

/* Takes all that is pending for the target and reports that it was refused. */
static void refuse_all(struct fixture *f, unsigned target, const char *reason)
{
    struct ing_outbox *outbox = ing_outbox(f->head.ingester);
    struct ing_outbox_span span;
    struct fg_err err;

    while (ing_outbox_take(outbox, target, OUTBOX_FRESH, &span)) {
        fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
        struct ing_outbox_item *items;
        size_t n;

        assert_int_equal(ing_outbox_read(outbox, &span, arena, &items, &n, &err), FG_OK);
        for (size_t i = 0; i < n; i++) {
            items[i].outcome = OUTBOX_REFUSED;
            items[i].reason = reason;
        }
        ing_outbox_report(outbox, &span, items, n);
    }
    /* This is written after the reports. */
    assert_int_equal(ing_outbox_pause(outbox, target, true, &err), FG_OK);
}

static unsigned ask(struct fixture *f, const char *line)
{
    char request[1024];

    (void)snprintf(request, sizeof request, "%s HTTP/1.1\r\nX-Flamegrid-Action: test", line);
    return served_ask(&f->served, request, NULL);
}

static bool has(const struct fixture *f, const char *part)
{
    return strstr(http_ask_body(&f->served.answer), part) != NULL;
}

static void expect(struct fixture *f, const char *line, unsigned status, const char *part)
{
    print_message("  %s\n", line);
    assert_int_equal(ask(f, line), status);
    if (!has(f, part))
        fail_msg("%s", http_ask_body(&f->served.answer));
}

static struct ing_outbox_numbers numbers(struct fixture *f, unsigned target)
{
    return ing_outbox_numbers(ing_outbox(f->head.ingester), target);
}

/* Returns how many records of the audit have this text. */
static unsigned recorded(struct fixture *f, const char *text)
{
    struct audit_look look;
    unsigned n;

    audit_look_init(&look);
    n = audit_look(&look, f->audit_bucket, text);
    assert_string_equal(audit_look_faults(&look), "");
    audit_look_done(&look);
    return n;
}

/* ---- tests ---- */

static void a_server_that_starts_says_so(void **state)
{
    struct fixture *f = *state;

    expect(f, "GET /api/forward", 503, "has not started");
    expect(f, "POST /api/forward/central/pause", 503, "has not started");
    assert_false(numbers(f, 0).paused);
}

static void a_server_without_targets_answers_an_empty_list(void **state)
{
    struct fixture *f = *state;

    begin(f);
    expect(f, "GET /api/forward", 200, "{\"targets\":[]}");
    expect(f, "GET /api/forward/central/dead", 404, "no target of forwarding is called central");
    expect(f, "POST /api/forward/central/drop", 404, "no target of forwarding is called central");
}

static void targets_are_listed_with_what_is_pending(void **state)
{
    struct fixture *f = *state;

    begin(f);
    push(f, 3);
    expect(
        f, "GET /api/forward", 200,
        "{\"targets\":[{\"name\":\"central\",\"url\":\"http://127.0.0.1:9\",\"state\":\"paused\"");
    assert_true(has(f, "\"name\":\"eu/west\""));
    assert_true(has(f, "\"pendingProfiles\":3,"));
    assert_false(has(f, "secret"));
}

/* Nothing that another site's page can send changes anything. */
static void a_change_needs_the_action_header(void **state)
{
    static const char *const verbs[] = {"pause", "resume", "drop"};
    struct fixture *f = *state;

    begin(f);
    push(f, 3);
    for (size_t i = 0; i < FG_COUNT(verbs); i++) {
        char request[256];

        (void)snprintf(request, sizeof request, "POST /api/forward/central/%s HTTP/1.1", verbs[i]);
        assert_int_equal(served_ask(&f->served, request, NULL), 403);
    }
    assert_true(numbers(f, 0).paused);
    assert_int_equal(numbers(f, 0).pending_profiles, 3);
}

static void pause_and_resume_are_recorded(void **state)
{
    struct fixture *f = *state;

    begin(f);
    expect(f, "POST /api/forward/central/resume", 200, "{\"name\":\"central\",\"paused\":false}");
    assert_false(numbers(f, 0).paused);
    assert_true(numbers(f, 1).paused);
    expect(f, "POST /api/forward/central/pause", 200, "{\"name\":\"central\",\"paused\":true}");
    assert_true(numbers(f, 0).paused);
    /* With and without the slash as an escape. */
    expect(f, "POST /api/forward/eu%2Fwest/resume", 200, "\"name\":\"eu/west\",\"paused\":false");
    expect(f, "POST /api/forward/eu/west/pause", 200, "\"name\":\"eu/west\",\"paused\":true");
    assert_true(numbers(f, 1).paused);
    fg_audit_close(f->audit);
    assert_int_equal(recorded(f, "\"route\":\"/api/forward/central/resume\""), 2);
    assert_int_equal(recorded(f, "\"route\":\"/api/forward/central/pause\""), 2);
    assert_int_equal(recorded(f, "\"phase\":\"begin\""), 4);
    assert_int_equal(recorded(f, "\"status\":200"), 4);
}

static void resend_begins_and_is_ended(void **state)
{
    struct past_run past = {0};
    struct fixture *f = *state;

    past_run_init(&past);
    f->past = &past.past;
    begin(f); /* paused: nothing is read */
    expect(f, "POST /api/forward/central/resend?from=1700000000&until=1700003600", 200,
           "{\"name\":\"central\",\"fromMs\":1700000000000,\"untilMs\":1700003600000}");
    expect(f, "GET /api/forward", 200,
           "\"resend\":{\"state\":\"committing\",\"fromMs\":1700000000000");
    expect(f, "POST /api/forward/central/resend?from=1&until=2", 409, "under way");
    expect(f, "POST /api/forward/central/end-resend", 200,
           "{\"name\":\"central\",\"resending\":false}");
    expect(f, "GET /api/forward", 200, "\"state\":\"done\"");
    expect(f, "POST /api/forward/central/resend?from=now-1h&until=now", 200, "fromMs");
    fg_audit_close(f->audit);
    assert_int_equal(recorded(f, "from 1700000000000 until 1700003600000 ms"), 1);
    assert_int_equal(past.commits, 0);
}

static void preview_counts_and_begins_nothing(void **state)
{
    static const char *const tenants[] = {"a", "b"};
    static const struct past_profile profiles[] = {{"a", INT64_C(1700000000) * FG_SECOND_NS, NULL},
                                                   {"b", INT64_C(1700000001) * FG_SECOND_NS, NULL},
                                                   {"b", INT64_C(1800000000) * FG_SECOND_NS, NULL}};
    struct past_run past = {.tenants = tenants,
                            .n_tenants = FG_COUNT(tenants),
                            .profiles = profiles,
                            .n = FG_COUNT(profiles),
                            .lost = 3};
    struct fixture *f = *state;

    past_run_init(&past);
    f->past = &past.past;
    begin(f);
    expect(f, "GET /api/forward/central/resend?from=1700000000&until=1700003600", 200,
           "{\"name\":\"central\",\"fromMs\":1700000000000,\"untilMs\":1700003600000,"
           "\"profiles\":2,\"lostProfiles\":6}");
    expect(f, "GET /api/forward/central/resend?from=1700003600", 400, "until is missing");
    past.count = FG_E_UNAVAILABLE;
    expect(f, "GET /api/forward/central/resend?from=1700000000&until=1700003600", 503, "away");
    assert_int_equal(past.commits + past.visits, 0);
    fg_audit_close(f->audit);
    assert_int_equal(recorded(f, "resend"), 0);
}

static void server_without_blocks_resends_nothing(void **state)
{
    struct fixture *f = *state;

    begin(f);
    expect(f, "POST /api/forward/central/resend?from=1&until=2", 400, "keeps no blocks");
}

static void resend_times_are_checked(void **state)
{
    struct past_run past = {0};
    struct fixture *f = *state;

    past_run_init(&past);
    f->past = &past.past;
    begin(f);
    expect(f, "POST /api/forward/central/resend", 400, "from is missing");
    expect(f, "POST /api/forward/central/resend?from=1700000000", 400, "until is missing");
    expect(f, "POST /api/forward/central/resend?from=1700000000&until=1700000000", 400,
           "from is not before until");
    expect(f, "POST /api/forward/central/resend?from=99999999999999999999&until=now", 400,
           "is no time");
}

static void drop_says_how_many_are_gone(void **state)
{
    struct fixture *f = *state;

    begin(f);
    push(f, 5);
    expect(f, "POST /api/forward/central/drop", 200,
           "{\"name\":\"central\",\"droppedProfiles\":5}");
    assert_int_equal(numbers(f, 0).pending_profiles, 0);
    assert_int_equal(numbers(f, 1).pending_profiles, 5);
    expect(f, "POST /api/forward/central/drop", 200, "\"droppedProfiles\":0");
    expect(f, "GET /api/forward", 200, "\"operator\":5");
    fg_audit_close(f->audit);
    assert_int_equal(recorded(f, "\"detail\":\"5 profiles\""), 1);
}

static void nothing_is_changed_that_the_audit_cannot_record(void **state)
{
    struct fixture *f = *state;

    begin(f);
    push(f, 2);
    fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.seed = 1, .refuse_permille = 1000});
    expect(f, "POST /api/forward/central/drop", 503, "");
    expect(f, "POST /api/forward/central/resume", 503, "");
    fg_bucket_faulty_set(f->faulty, &(struct fg_bucket_faults){.seed = 1});
    assert_true(numbers(f, 0).paused);
    assert_int_equal(numbers(f, 0).pending_profiles, 2);
}

static void refused_profiles_are_listed_page_by_page(void **state)
{
    struct fixture *f = *state;
    char line[128];
    uint64_t next;

    push(f, 5);
    refuse_all(f, 0, "no room for \"it\"");
    begin(f);
    expect(f, "GET /api/forward/eu/west/dead", 200, "{\"dead\":[]}");
    expect(f, "GET /api/forward/central/dead", 200, "\"reason\":\"no room for \\\"it\\\"\"");
    assert_false(has(f, "\"next\""));
    assert_true(has(f, "\"tenant\":\"acme\""));
    assert_true(has(f, "\"zone\":\"eu\""));
    assert_true(has(f, "\"service_name\":\"archive\""));
    assert_true(has(f, "\"profileTimeMs\":1700000004000"));
    expect(f, "GET /api/forward/central/dead?limit=3", 200, "\"profileTimeMs\":1700000002000");
    assert_false(has(f, "\"profileTimeMs\":1700000003000"));
    assert_true(fg_parse_u64(
        fg_bytes(
            strstr(http_ask_body(&f->served.answer), "\"next\":") + strlen("\"next\":"),
            strcspn(strstr(http_ask_body(&f->served.answer), "\"next\":") + strlen("\"next\":"),
                    "}")),
        &next));
    (void)snprintf(line, sizeof line, "GET /api/forward/central/dead?limit=3&from=%llu",
                   (unsigned long long)next);
    expect(f, line, 200, "\"profileTimeMs\":1700000003000");
    assert_true(has(f, "\"profileTimeMs\":1700000004000"));
    assert_false(has(f, "\"profileTimeMs\":1700000002000"));
    assert_false(has(f, "\"next\""));
}

static void what_makes_no_sense_is_refused(void **state)
{
    static const struct {
        const char *line;
        unsigned status;
        const char *part;
    } cases[] = {
        {"GET /api/forward/central/dead?limit=501", 400, "limit \\\"501\\\" is not a number"},
        {"GET /api/forward/central/dead?limit=", 400, "limit"},
        {"GET /api/forward/central/dead?from=-1", 400, "from"},
        {"GET /api/forward/central/dead?from=18446744073709551615", 400, "from"},
        {"GET /api/forward/west/dead", 404, "no target of forwarding is called west"},
        {"GET /api/forward/central/pause", 404, "nothing like that"},
        {"GET /api/forward/central", 404, "nothing like that"},
        {"GET /api/forward/", 404, "nothing like that"},
        {"POST /api/forward/central/dead", 404, "nothing like that"},
        {"POST /api/forward/pause", 404, "nothing like that"},
        {"POST /api/forward//pause", 404, "no target of forwarding is called"},
        {"POST /api/forward", 405, ""},
        {"DELETE /api/forward/central/drop", 405, ""},
    };

    begin(*state);
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        expect(*state, cases[i].line, cases[i].status, cases[i].part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_server_that_starts_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_without_targets_answers_an_empty_list,
                                        setup_without_targets, teardown),
        cmocka_unit_test_setup_teardown(targets_are_listed_with_what_is_pending, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_needs_the_action_header, setup, teardown),
        cmocka_unit_test_setup_teardown(pause_and_resume_are_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(resend_begins_and_is_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(preview_counts_and_begins_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(server_without_blocks_resends_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(resend_times_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(drop_says_how_many_are_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_changed_that_the_audit_cannot_record, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(refused_profiles_are_listed_page_by_page, setup, teardown),
        cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused, setup, teardown),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
