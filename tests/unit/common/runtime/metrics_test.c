#include "common/base/time.h"
#include "common/runtime/metrics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TEST_METRICS(M)                                                                            \
    M(COUNTER, T_COMMITTED, "fg_committed_total", "Made durable.")                                 \
    M(GAUGE, T_HEAD_BYTES, "fg_head_bytes", "Memory held.")                                        \
    M(COUNTER, T_REFUSED_FULL, "fg_refused_total{reason=\"full\"}", "Refused.")                    \
    M(HISTOGRAM, T_COMMIT_SECONDS, "fg_commit_seconds", "Of a commit.")                            \
    M(COUNTER, T_REFUSED_LATE, "fg_refused_total{reason=\"late\"}", "Refused.")
FG_METRICS_ENUM(test_metric, TEST_METRICS)
FG_METRICS_TABLE(test_metrics, TEST_METRICS)

#define OTHER_METRICS(M)                                                                           \
    M(FRACTION, T_AGE, "fg_age_seconds", "Age of the oldest.")                                     \
    M(COUNTER, T_FOLLOWED, "fg_followed_total", "Counted elsewhere.")                              \
    M(COUNTER, T_CALLS_LOST, "fg_calls_total{peer=\"%s\",result=\"lost\"}", "Calls.")              \
    M(COUNTER, T_CALLS_DONE, "fg_calls_total{peer=\"%s\",result=\"done\"}", "Calls.")
FG_METRICS_ENUM(other_metric, OTHER_METRICS)
FG_METRICS_TABLE(other_metrics, OTHER_METRICS)

/* The whole text, kept until the next call. */
static const char *text_of(struct fg_registry *registry)
{
    static char text[16384];
    struct fg_buf buf;

    fg_buf_init(&buf, sizeof text - 1);
    fg_registry_write(registry, &buf);
    assert_false(buf.full);
    if (buf.len > 0)
        memcpy(text, buf.ptr, buf.len);
    text[buf.len] = '\0';
    fg_buf_done(&buf);
    return text;
}

static void metrics_are_written_as_prometheus_text(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *metrics =
        fg_metrics_register(registry, test_metrics, FG_COUNT(test_metrics));

    (void)state;
    assert_int_equal(test_metric_count, 5);
    fg_metric_add(metrics, T_COMMITTED, 40);
    fg_metric_add(metrics, T_COMMITTED, 2);
    fg_metric_set(metrics, T_HEAD_BYTES, 7);
    fg_metric_set(metrics, T_HEAD_BYTES, -3);
    fg_metric_add(metrics, T_REFUSED_LATE, 1);
    fg_metric_observe_ns(metrics, T_COMMIT_SECONDS, -5);     /* clocks: counts as 0 */
    fg_metric_observe_ns(metrics, T_COMMIT_SECONDS, 500000); /* a bound belongs below */
    fg_metric_observe_ns(metrics, T_COMMIT_SECONDS, 500001);
    fg_metric_observe_ns(metrics, T_COMMIT_SECONDS, 3 * FG_SECOND_NS);
    fg_metric_observe_ns(metrics, T_COMMIT_SECONDS, 101 * FG_SECOND_NS);
    assert_string_equal(text_of(registry), "# HELP fg_commit_seconds Of a commit.\n"
                                           "# TYPE fg_commit_seconds histogram\n"
                                           "fg_commit_seconds_bucket{le=\"0.0005\"} 2\n"
                                           "fg_commit_seconds_bucket{le=\"0.001\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"0.0025\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"0.005\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"0.01\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"0.025\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"0.05\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"0.1\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"0.25\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"0.5\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"1\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"2.5\"} 3\n"
                                           "fg_commit_seconds_bucket{le=\"5\"} 4\n"
                                           "fg_commit_seconds_bucket{le=\"10\"} 4\n"
                                           "fg_commit_seconds_bucket{le=\"25\"} 4\n"
                                           "fg_commit_seconds_bucket{le=\"50\"} 4\n"
                                           "fg_commit_seconds_bucket{le=\"100\"} 4\n"
                                           "fg_commit_seconds_bucket{le=\"+Inf\"} 5\n"
                                           "fg_commit_seconds_sum 104.001000001\n"
                                           "fg_commit_seconds_count 5\n"
                                           "# HELP fg_committed_total Made durable.\n"
                                           "# TYPE fg_committed_total counter\n"
                                           "fg_committed_total 42\n"
                                           "# HELP fg_head_bytes Memory held.\n"
                                           "# TYPE fg_head_bytes gauge\n"
                                           "fg_head_bytes -3\n"
                                           "# HELP fg_refused_total Refused.\n"
                                           "# TYPE fg_refused_total counter\n"
                                           "fg_refused_total{reason=\"full\"} 0\n"
                                           "fg_refused_total{reason=\"late\"} 1\n");
    assert_int_equal(fg_metric_get(metrics, T_COMMITTED), 42);
    assert_int_equal(fg_metric_get(metrics, T_COMMIT_SECONDS), 5);
    assert_int_equal((int64_t)fg_metric_get(metrics, T_HEAD_BYTES), -3);
    fg_registry_destroy(registry);
}

static void fractions_are_written_in_their_unit(void **state)
{
    static const struct {
        int64_t billionths;
        const char *line;
    } cases[] = {
        {0, "\nfg_age_seconds 0.000000000\n"},
        {1, "\nfg_age_seconds 0.000000001\n"},
        {2500000000, "\nfg_age_seconds 2.500000000\n"},
        {-1500000000, "\nfg_age_seconds -1.500000000\n"},
        {INT64_MIN, "\nfg_age_seconds -9223372036.854775808\n"},
    };
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *metrics =
        fg_metrics_register(registry, other_metrics, FG_COUNT(other_metrics));

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_metric_set_fraction(metrics, T_AGE, cases[i].billionths);
        assert_non_null(strstr(text_of(registry), cases[i].line));
        assert_int_equal((int64_t)fg_metric_get(metrics, T_AGE), cases[i].billionths);
    }
    assert_non_null(strstr(text_of(registry), "# TYPE fg_age_seconds gauge\n"));
    fg_registry_destroy(registry);
}

static void totals_are_set(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *metrics =
        fg_metrics_register(registry, other_metrics, FG_COUNT(other_metrics));

    (void)state;
    fg_metric_set_total(metrics, T_FOLLOWED, 7);
    fg_metric_set_total(metrics, T_FOLLOWED, UINT64_MAX);
    assert_non_null(strstr(text_of(registry), "# TYPE fg_followed_total counter\n"
                                              "fg_followed_total 18446744073709551615\n"));
    fg_registry_destroy(registry);
}

/* The tables of this program: a row for each family, with the values of its labels that are known
 * before it runs. */
static void docs_have_all_tables(void **state)
{
    struct fg_buf text;

    (void)state;
    fg_buf_init(&text, 16384);
    fg_metrics_write_docs(&text);
    fg_buf_putc(&text, '\0');
    assert_string_equal(text.ptr,
                        "| Metric | Type | Labels | Meaning |\n"
                        "|---|---|---|---|\n"
                        "| `fg_age_seconds` | gauge |  | Age of the oldest. |\n"
                        "| `fg_calls_total` | counter | `peer`; `result`: done, lost | Calls. |\n"
                        "| `fg_commit_seconds` | histogram |  | Of a commit. |\n"
                        "| `fg_committed_total` | counter |  | Made durable. |\n"
                        "| `fg_followed_total` | counter |  | Counted elsewhere. |\n"
                        "| `fg_head_bytes` | gauge |  | Memory held. |\n"
                        "| `fg_refused_total` | counter | `reason`: full, late | Refused. |\n");
    fg_buf_done(&text);
}

/* As the HTTP server does: rows for each route, with names made at run time. */
static void tables_made_while_running(void **state)
{
    static const char *const routes[] = {"ingest", "render"};
    struct fg_registry *registry = fg_registry_create();
    char names[2][100];
    struct fg_metric_def defs[2];
    struct fg_metrics *metrics;
    const char *text;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(names[i], sizeof names[i],
                       "pyroscope_request_duration_seconds{method=\"POST\",route=\"%s\"}",
                       routes[i]);
        defs[i] = (struct fg_metric_def){FG_METRIC_HISTOGRAM, names[i], "A \\ b\nc"};
    }
    metrics = fg_metrics_register(registry, defs, 2);
    fg_metric_observe_ns(metrics, 1, FG_SECOND_NS);
    text = text_of(registry);
    assert_non_null(strstr(text, "# HELP pyroscope_request_duration_seconds A \\\\ b\\nc\n"));
    assert_null(strstr(strstr(text, "# HELP") + 1, "# HELP")); /* once a family */
    assert_non_null(strstr(text, "\npyroscope_request_duration_seconds_bucket"
                                 "{method=\"POST\",route=\"render\",le=\"0.5\"} 0\n"));
    assert_non_null(strstr(text, "\npyroscope_request_duration_seconds_bucket"
                                 "{method=\"POST\",route=\"render\",le=\"1\"} 1\n"));
    assert_non_null(strstr(text, "\npyroscope_request_duration_seconds_sum"
                                 "{method=\"POST\",route=\"render\"} 1.000000000\n"));
    assert_null(strstr(text, "route=\"ingest\"")); /* it has observed nothing */
    fg_registry_destroy(registry);
}

static void equal_names_are_one_series(void **state)
{
    static const struct fg_metric_def first[] = {{FG_METRIC_COUNTER, "a_total", "A."},
                                                 {FG_METRIC_COUNTER, "b_total", "B."}};
    static const struct fg_metric_def second[] = {{FG_METRIC_COUNTER, "a_total", "A."}};
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *one = fg_metrics_register(registry, first, 2);
    struct fg_metrics *two = fg_metrics_register(registry, second, 1);

    (void)state;
    assert_ptr_equal(fg_metrics_register(registry, first, 2), one);
    assert_ptr_not_equal(one, two);
    fg_metric_add(one, 0, 3);
    fg_metric_add(two, 0, 4);
    assert_string_equal(text_of(registry),
                        "# HELP a_total A.\n# TYPE a_total counter\na_total 7\n"
                        "# HELP b_total B.\n# TYPE b_total counter\nb_total 0\n");
    fg_registry_destroy(registry);
}

/* Not even a name of its family, until there is something to say. */
static void an_empty_histogram_is_left_out(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *metrics =
        fg_metrics_register(registry, test_metrics, FG_COUNT(test_metrics));

    (void)state;
    assert_null(strstr(text_of(registry), "fg_commit_seconds"));
    assert_non_null(strstr(text_of(registry), "\nfg_committed_total 0\n"));
    fg_metric_observe_ns(metrics, T_COMMIT_SECONDS, 1);
    assert_non_null(strstr(text_of(registry), "\nfg_commit_seconds_count 1\n"));
    fg_registry_destroy(registry);
}

/* Threads that must not wait register series while a scrape looks around for as long as it takes.
 */
struct slow_hook {
    struct fg_registry *registry;
    struct fg_metrics *made;
};

static void *register_more(void *arg)
{
    static const struct fg_metric_def more[] = {{FG_METRIC_COUNTER, "fg_more_total", "More."}};
    struct slow_hook *slow = arg;

    slow->made = fg_metrics_register(slow->registry, more, 1);
    return NULL;
}

static void wait_for_registration(void *arg)
{
    struct slow_hook *slow = arg;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, register_more, slow), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_slow_hook_blocks_no_other_thread(void **state)
{
    struct slow_hook slow = {.registry = fg_registry_create()};

    (void)state;
    fg_registry_on_scrape(slow.registry, wait_for_registration, &slow);
    assert_non_null(strstr(text_of(slow.registry), "\nfg_more_total 0\n"));
    assert_non_null(slow.made);
    fg_registry_destroy(slow.registry);
}

static void set_when_scraped(void *arg)
{
    static int64_t depth = 10;

    fg_metric_set(arg, T_HEAD_BYTES, ++depth);
}

static void gauges_are_read_when_scraped(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *metrics =
        fg_metrics_register(registry, test_metrics, FG_COUNT(test_metrics));

    (void)state;
    fg_registry_on_scrape(registry, set_when_scraped, metrics);
    assert_non_null(strstr(text_of(registry), "\nfg_head_bytes 11\n"));
    assert_non_null(strstr(text_of(registry), "\nfg_head_bytes 12\n"));
    fg_registry_destroy(registry);
}

static void removed_hooks_are_not_called(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *metrics =
        fg_metrics_register(registry, test_metrics, FG_COUNT(test_metrics));
    int other;

    (void)state;
    fg_registry_off_scrape(registry, metrics); /* there is none */
    fg_registry_on_scrape(registry, set_when_scraped, metrics);
    fg_registry_on_scrape(registry, set_when_scraped, metrics);
    fg_registry_off_scrape(registry, &other);
    (void)text_of(registry);
    assert_int_not_equal(fg_metric_get(metrics, T_HEAD_BYTES), 0);
    fg_metric_set(metrics, T_HEAD_BYTES, 0);
    fg_registry_off_scrape(registry, metrics);
    assert_non_null(strstr(text_of(registry), "\nfg_head_bytes 0\n"));
    fg_registry_destroy(registry);
}

enum { THREADS = 12, ROUNDS = 5000 }; /* more threads than stripes */

static void *count_up(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        fg_metric_add(arg, T_COMMITTED, 1);
        fg_metric_observe_ns(arg, T_COMMIT_SECONDS, 1000);
    }
    return NULL;
}

static void counts_of_all_threads_add_up(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *metrics =
        fg_metrics_register(registry, test_metrics, FG_COUNT(test_metrics));
    pthread_t threads[THREADS];

    (void)state;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, metrics), 0);
    for (int i = 0; i < 20; i++)
        (void)text_of(registry); /* scraping does not disturb */
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(fg_metric_get(metrics, T_COMMITTED), THREADS * ROUNDS);
    assert_int_equal(fg_metric_get(metrics, T_COMMIT_SECONDS), THREADS * ROUNDS);
    assert_non_null(strstr(text_of(registry), "\nfg_commit_seconds_sum 0.060000000\n"));
    fg_registry_destroy(registry);
}

static void an_empty_registry_writes_nothing(void **state)
{
    struct fg_registry *registry = fg_registry_create();

    (void)state;
    assert_string_equal(text_of(registry), "");
    fg_registry_destroy(registry);
    fg_registry_destroy(NULL);
}

static void unregistered_tables_are_not_written(void **state)
{
    static const struct fg_metric_def first[] = {{FG_METRIC_COUNTER, "fg_c{p=\"1\"}", "C."}},
                                      second[] = {{FG_METRIC_COUNTER, "fg_c{p=\"2\"}", "C."}};
    struct fg_registry *registry = fg_registry_create();
    struct fg_metrics *one = fg_metrics_register(registry, first, 1);
    struct fg_metrics *two = fg_metrics_register(registry, second, 1);

    (void)state;
    fg_metric_add(one, 0, 1);
    fg_metric_add(two, 0, 2);
    fg_metrics_unregister(registry, one);
    assert_string_equal(text_of(registry),
                        "# HELP fg_c C.\n# TYPE fg_c counter\nfg_c{p=\"2\"} 2\n");
    one = fg_metrics_register(registry, first, 1); /* starts again */
    assert_int_equal(fg_metric_get(one, 0), 0);
    fg_metrics_unregister(registry, one);
    fg_metrics_unregister(registry, two);
    assert_string_equal(text_of(registry), "");
    fg_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_are_written_as_prometheus_text),
        cmocka_unit_test(fractions_are_written_in_their_unit),
        cmocka_unit_test(totals_are_set),
        cmocka_unit_test(docs_have_all_tables),
        cmocka_unit_test(tables_made_while_running),
        cmocka_unit_test(equal_names_are_one_series),
        cmocka_unit_test(an_empty_histogram_is_left_out),
        cmocka_unit_test(a_slow_hook_blocks_no_other_thread),
        cmocka_unit_test(gauges_are_read_when_scraped),
        cmocka_unit_test(removed_hooks_are_not_called),
        cmocka_unit_test(counts_of_all_threads_add_up),
        cmocka_unit_test(an_empty_registry_writes_nothing),
        cmocka_unit_test(unregistered_tables_are_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
