/* Tests when the evaluation of a recording rule ends whose regular expression is slow: the linker
 * lets a match take a second of the querier's clock. */
#include "common/base/time.h"
#include "common/model/selector.h"
#include "common/net/http/impl.h"
#include "querier/fanout.h"
#include "querier/rules/evaluate.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/l0_make.h"
#include "tests/unit/querier/querier_served.h"

enum { NAMES = 4 * FG_SELECTOR_ASK_EVERY, NAME_MAX_BYTES = 16 };

static const int64_t MINUTE_NS = INT64_C(1700000040) * FG_SECOND_NS;

struct fixture {
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct fg_work *work;
    struct fg_bucket *bucket;
    struct fake_peer ingester;
    struct fg_peer *to_ingester;
    struct querier *querier;
    struct qry_query query;
    unsigned n_matched;
    unsigned stop_at; /* the match during which the querier is stopped; 0: none */
    unsigned gone_at; /* that during which the scraper disconnects; 0: none */
    struct fg_http_request scraper;
};

static struct fixture *matching; /* the fixture of the test that runs */

bool __real_fg_regex_matches(const struct fg_regex *regex, const void *text, size_t len);
bool __wrap_fg_regex_matches(const struct fg_regex *regex, const void *text, size_t len);

/* The linker gives our own code this one. */
bool __wrap_fg_regex_matches(const struct fg_regex *regex, const void *text, size_t len)
{
    fg_clock_manual_advance(&matching->clock, FG_SECOND_NS);
    if (++matching->n_matched == matching->stop_at)
        qry_stop(matching->querier);
    if (matching->n_matched == matching->gone_at)
        matching->scraper.gone = true;
    return __real_fg_regex_matches(regex, text, len);
}

/* The ingester has one stack for each of the names. */
static void answer_names(struct fixture *f)
{
    static const struct querier_point point = {.sum = NAMES, .count = 1};
    static char texts[NAMES][NAME_MAX_BYTES];
    const char *stacks[NAMES];

    for (unsigned i = 0; i < NAMES; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "work%u 1", i);
        stacks[i] = texts[i];
    }
    querier_answer_stacks(&f->ingester, stacks, NAMES);
    fg_buf_varint(&f->ingester.payloads[FG_RPC_POINTS], 1);
    querier_add_points(&f->ingester, "service_name=shop", &point, 1);
}

static int set_up(void **state)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 1, .queue_max = 16}};
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    fg_clock_manual_init(&f->clock, MINUTE_NS + 2 * FG_MINUTE_NS);
    f->clock.mono_ns = fg_mono_ns(fg_clock_real()); /* deadlines of calls are real */
    f->registry = fg_registry_create();
    f->bucket = fg_bucket_memory();
    l0_make(f->bucket);
    assert_int_equal(fg_work_create("test", lanes, &f->work, &err), FG_OK);
    fake_peer_init(&f->ingester, "inproc://rule-evaluate-ingester");
    answer_names(f);
    f->to_ingester = fg_peer_direct(f->ingester.server);
    f->querier = qry_create(&(struct qry_config){.ingester = f->to_ingester,
                                                 .work = f->work,
                                                 .registry = f->registry,
                                                 .clock = &f->clock.clock,
                                                 .bucket = f->bucket,
                                                 .cache_max_bytes = 1 << 20,
                                                 .fetch_max_bytes = 1 << 20});
    f->query = (struct qry_query){
        .querier = f->querier,
        .tenants = {.ids = {FG_LIT("acme")}, .n = 1},
        .deadline_mono_ns = fg_mono_ns(&f->clock.clock) + FG_HOUR_NS,
        .arena = fg_arena_create(1 << 20),
    };
    fg_buf_init(&f->query.missing, MISSING_MAX_BYTES);
    matching = f;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    qry_fanout_end(&f->query);
    fg_buf_done(&f->query.missing);
    fg_arena_destroy(f->query.arena);
    fg_work_destroy(f->work);
    qry_destroy(f->querier);
    fg_peer_destroy(f->to_ingester);
    fake_peer_done(&f->ingester);
    fg_bucket_close(f->bucket);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

/* Evaluates a rule of the functions that an expression means. FG_OK: they have *ret_value. */
static enum fg_code evaluate(struct fixture *f, double *ret_value, struct fg_err *err)
{
    char matcher[] = "{__profile_type__=\"" CPU "\"}", id[] = "a", metric[] = "m";
    char regex[] = "work.*[02468]", *matchers[] = {matcher};
    Settings__V1__RecordingRule message = SETTINGS__V1__RECORDING_RULE__INIT;
    Settings__V1__RuleFunctions functions = SETTINGS__V1__RULE_FUNCTIONS__INIT;
    struct qry_rule_values *values;
    struct qry_rule rule;
    enum fg_code code;

    functions.regex = regex;
    message.id = id;
    message.metric_name = metric;
    message.generation = 1;
    message.matchers = matchers;
    message.n_matchers = 1;
    message.functions = &functions;
    assert_int_equal(qry_rule_read(&message, f->query.arena, &rule, err), FG_OK);
    code = qry_rule_evaluate(&f->query, &rule, MINUTE_NS, 100, &values, err);
    if (code == FG_OK) {
        assert_int_equal(values->n, 1);
        *ret_value = values->items[0].value;
        qry_rule_values_destroy(values);
    }
    qry_rule_done(&rule);
    return code;
}

static void a_scraper_that_disconnects_ends_its_rule(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;
    double value;

    f->gone_at = 1;
    f->query.req = &f->scraper;
    assert_int_equal(evaluate(f, &value, &err), FG_E_CANCELED);
    assert_non_null(strstr(err.msg, "client has disconnected"));
    assert_in_range(f->n_matched, 1, NAMES - 1);
}

static void each_name_is_matched_once(void **state)
{
    struct fixture *f = *state;
    double value = 0;
    struct fg_err err;

    if (evaluate(f, &value, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_true(2 * value == NAMES); /* every other one is even */
    assert_int_equal(f->n_matched, NAMES);
}

/* Reading was over in time, so it is the matching that ends. */
static void matching_ends_with_the_time_of_the_evaluation(void **state)
{
    struct fixture *f = *state;
    double value;
    struct fg_err err;

    f->query.deadline_mono_ns = fg_mono_ns(&f->clock.clock) + FG_SECOND_NS;
    assert_int_equal(evaluate(f, &value, &err), FG_E_DEADLINE);
    assert_in_range(f->n_matched, 1, FG_SELECTOR_ASK_EVERY);
}

/* The pool of workers waits for evaluations, and the end of the process for the pool. */
static void matching_ends_when_the_querier_stops(void **state)
{
    struct fixture *f = *state;
    double value;
    struct fg_err err;

    f->stop_at = 10;
    assert_int_equal(evaluate(f, &value, &err), FG_E_CANCELED);
    assert_in_range(f->n_matched, f->stop_at, FG_SELECTOR_ASK_EVERY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_scraper_that_disconnects_ends_its_rule, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_name_is_matched_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(matching_ends_with_the_time_of_the_evaluation, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(matching_ends_when_the_querier_stops, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
