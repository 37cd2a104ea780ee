/* Tests what a querier refuses, and with which words. */
#include "tests/unit/querier/querier_served.h"

#define RENDER "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D"

static void error_texts_are_those_clients_know(void **state)
{
    static const struct {
        const char *method, *json, *want;
    } cases[] = {
        {"SelectMergeStacktraces", "{\"profileTypeID\":\"" CPU "\",\"labelSelector\":\"{}\"}",
         INVALID("missing time range in the query")},
        {"SelectMergeStacktraces",
         "{\"profileTypeID\":\"" CPU "\",\"labelSelector\":\"{}\",\"start\":2,\"end\":1}",
         INVALID("query start time is after end time")},
        {"SelectMergeStacktraces", "{" BASE ",\"maxNodes\":-1}",
         INVALID("max flamegraph nodes limit must be set (max allowed 1048576)")},
        {"SelectMergeStacktraces", "{" BASE ",\"maxNodes\":1048577}",
         INVALID("max flamegraph nodes limit 1048577 is greater than allowed 1048576")},
        {"SelectMergeStacktraces", "{\"profileTypeID\":\"cpu\",\"labelSelector\":\"{}\"," WHEN "}",
         INVALID("profile-type selection must be of the form <name>:<sample-type>:<sample-unit>:"
                 "<period-type>:<period-unit>(:delta), got(1): \\\"cpu\\\"")},
        {"SelectMergeStacktraces",
         "{\"profileTypeID\":\"" CPU "\",\"labelSelector\":\"\"," WHEN "}",
         INVALID(
             "parsing label selector \\\"\\\": unknown position: parse error: unexpected end of "
             "input")},
        {"SelectMergeStacktraces",
         "{" BASE ",\"spanSelector\":[\"0000000000000001\"],"
         "\"traceIdSelector\":[\"00000000000000000000000000000001\"]}",
         INVALID("span_selector and trace_id_selector cannot be combined")},
        {"SelectSeries", "{" BASE "}", INVALID("step must be >= 1ms")},
        {"SelectSeries", "{" BASE ",\"step\":0.0001}", INVALID("step must be >= 1ms")},
        {"SelectSeries", "{" BASE ",\"step\":\"NaN\"}", INVALID("step must be >= 1ms")},
        {"LabelValues", "{" WHEN "}", INVALID("name is required")},
        {"LabelValues", "{\"name\":\"x\"}", INVALID("missing time range in the query")},
        {"LabelNames", "{\"matchers\":[\"{}\"]}", INVALID("missing time range in the query")},
        {"Series", "{\"start\":2,\"end\":1}", INVALID("query start time is after end time")},
        {"Diff", "{\"left\":{" BASE ",\"maxNodes\":2000000},\"right\":{" BASE "}}",
         INVALID("max flamegraph nodes limit 2000000 is greater than allowed 1048576")},
        {"Diff", "{}", INVALID("missing time range in the query")},
        {"Series", "",
         INVALID("unmarshal message: zero-length payload is not a valid JSON object")},
    };
    struct querier_served *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        querier_expect(f, cases[i].method, cases[i].json, 400, cases[i].want);
        assert_true(querier_head_has(f, "application/json"));
    }
}

static void range_beyond_the_limit_is_refused(void **state)
{
    struct querier_served *f = *state;

    querier_expect(f, "Series", "{\"start\":1000,\"end\":5401000}", 200, "{}");
    querier_expect(
        f, "Series", "{\"start\":1000,\"end\":5461000}", 400,
        INVALID("the query time range exceeds the limit (max_query_length, actual: 1h31m0s, "
                "limit: 1h30m): limits.max_query_length of tenant anonymous"));
}

/* Golden cases 114 and 084. */
static void render_refuses_bad_parameters(void **state)
{
    struct querier_served *f = *state;

    querier_expect_get(f, "/pyroscope/render", 400, INVALID("\\\"query\\\" is required"));
    querier_expect_get(f, "/pyroscope/render?query=", 400, INVALID("\\\"query\\\" is required"));
    querier_expect_get(f, "/pyroscope/render?query=abc&from=1&until=2", 400,
                       INVALID("failed to parse \\\"query\\\""));
    querier_expect_get(f, "/pyroscope/render?query=%7B%7D&from=1&until=2", 400,
                       INVALID("\\\"query\\\" must contain a profile-type selection"));
    querier_expect_get(f, RENDER "&from=1&until=2&max-nodes=-1", 400,
                       INVALID("max flamegraph nodes limit must be set (max allowed 1048576)"));
    querier_expect_get(f, "/pyroscope/render-diff", 400, INVALID("\\\"leftQuery\\\" is required"));
    querier_expect_get(f, "/pyroscope/render-diff?leftQuery=a:b:c:d:e%7B%7D&leftFrom=1&leftUntil=2",
                       400, INVALID("\\\"rightQuery\\\" is required"));
    querier_expect_get(f,
                       "/pyroscope/render-diff?leftQuery=a:b:c:d:e%7B%7D&leftFrom=1&leftUntil=2"
                       "&rightQuery=a:b:c:d:f%7B%7D&rightFrom=1&rightUntil=2",
                       400, INVALID("profile types must match"));
    querier_expect_get(f, "/pyroscope/label-values", 400, INVALID("label parameter is required"));
    querier_expect_get(f, "/pyroscope/label-values?label=x", 400,
                       INVALID("missing time range in the query"));
    querier_expect_get(f, "/pyroscope/label-values?label=__name__", 200, "null\n");
}

static void connect_protocol_rules(void **state)
{
    struct querier_served *f = *state;

    assert_int_equal(querier_ask(f, "GET /querier.v1.QuerierService/ProfileTypes HTTP/1.1", NULL),
                     405);
    assert_true(querier_head_has(f, "Allow: POST"));
    assert_int_equal(querier_ask(f,
                                 "POST /querier.v1.QuerierService/ProfileTypes HTTP/1.1\r\n"
                                 "Content-Type: text/plain",
                                 "{}"),
                     415);
    assert_true(querier_head_has(f, "Accept-Post: "));
    assert_int_equal(querier_ask(f,
                                 "POST /querier.v1.QuerierService/ProfileTypes HTTP/1.1\r\n"
                                 "Content-Type: application/proto\r\nConnect-Protocol-Version: 1",
                                 ""),
                     200);
    assert_true(querier_head_has(f, "application/proto"));
    assert_true(querier_head_has(f, "X-Flamegrid-Exact: yes"));
    assert_true(querier_head_has(f, "X-Flamegrid-Profiles: 0"));
    assert_true(querier_head_has(f, "X-Flamegrid-Millis: 0"));
    /* A deadline of 0 passes before any peer is asked. */
    assert_int_equal(querier_ask(f,
                                 "POST /querier.v1.QuerierService/ProfileTypes HTTP/1.1\r\n"
                                 "Content-Type: application/json\r\nConnect-Timeout-Ms: 0",
                                 "{}"),
                     504);
    assert_int_equal(f->peers[0].calls[FG_RPC_SERIES], 1);
}

static void full_queue_is_429(void **state)
{
    struct querier_served *f = *state;

    assert_int_equal(querier_call(f, "ProfileTypes", "{}"), 429);
    assert_true(querier_head_has(f, "Retry-After"));
    assert_non_null(strstr(querier_body(f), "resource_exhausted"));
}

#define WITH(test, setup) cmocka_unit_test_setup_teardown(test, setup, querier_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(error_texts_are_those_clients_know, querier_setup),
        WITH(render_refuses_bad_parameters, querier_setup),
        WITH(connect_protocol_rules, querier_setup),
        WITH(range_beyond_the_limit_is_refused, querier_setup_short_queries),
        WITH(full_queue_is_429, querier_setup_full_lane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
