/* Tests the answers of a querier whose ingesters each have a part of the data. */
#include "proto/inner.pb-c.h"
#include "tests/unit/querier/querier_served.h"

#define NOTHING                                                                                    \
    "{\"flamegraph\":{\"names\":[\"total\"],\"levels\":[{\"values\":[\"0\",\"0\",\"0\",\"0\"]}]}}"

/* Without samples, but with all fields that readers of pprof require. */
#define EMPTY_PPROF                                                                                \
    "{\"sampleType\":[{\"type\":\"1\",\"unit\":\"2\"}],"                                           \
    "\"stringTable\":[\"\",\"cpu\",\"nanoseconds\"],\"timeNanos\":\"1700000060000000000\","        \
    "\"periodType\":{\"type\":\"1\",\"unit\":\"2\"},\"period\":\"1000000000\","                    \
    "\"defaultSampleType\":\"1\"}"

/* Golden case 081: the answer of each method without any data. */
static void empty_result_of_each_method(void **state)
{
    struct querier_served *f = *state;

    querier_expect(f, "SelectMergeStacktraces", "{" BASE "}", 200, NOTHING);
    querier_expect(f, "SelectMergeSpanProfile",
                   "{" BASE ",\"spanSelector\":[\"0102030405060708\"]}", 200, NOTHING);
    querier_expect(f, "SelectMergeStacktraces", "{" BASE ",\"format\":\"PROFILE_FORMAT_TREE\"}",
                   200, "{}");
    querier_expect(f, "SelectMergeStacktraces", "{" BASE ",\"format\":\"PROFILE_FORMAT_DOT\"}", 200,
                   "{}");
    querier_expect(f, "SelectMergeStacktraces", "{" BASE ",\"format\":\"PROFILE_FORMAT_PPROF\"}",
                   200, "{\"pprof\":{\"profile\":" EMPTY_PPROF "}}");
    querier_expect(f, "SelectMergeProfile", "{" BASE "}", 200, EMPTY_PPROF);
    querier_expect(f, "SelectSeries", "{" BASE ",\"step\":15}", 200, "{}");
    querier_expect(
        f, "Diff", "{\"left\":{" BASE "},\"right\":{" BASE "}}", 200,
        "{\"flamegraph\":{\"names\":[\"total\"],\"levels\":[{\"values\":[\"0\",\"0\",\"0\","
        "\"0\",\"0\",\"0\",\"0\"]}]}}");
    querier_expect(f, "ProfileTypes", "{}", 200, "{}");
    querier_expect(f, "ProfileTypes", "{\"start\":1000,\"end\":4000}", 200, "{}");
    querier_expect(f, "LabelNames", "{" WHEN "}", 200, "{}");
    querier_expect(f, "LabelValues", "{\"name\":\"a-b\"," WHEN "}", 200, "{}");
    querier_expect(f, "Series", "{" WHEN "}", 200, "{}");
    querier_expect(f, "GetProfileStats", "{}", 200, "{}");
    querier_expect(f, "AnalyzeQuery", "{\"query\":\"{{{\"}", 200, "{}");
}

/* Two peers have parts of one tree; the sum is exact, and so is what the peers were asked. */
static void stacks_of_all_ingesters_add_up(void **state)
{
    struct querier_served *f = *state;
    Fg__Inner__SelectHead *head;

    STACKS(&f->peers[0], "main;b 3", "main;a 1");
    STACKS(&f->peers[1], "main;a 10", "other 5");
    querier_expect(
        f, "SelectMergeStacktraces",
        "{\"profileTypeID\":\"" CPU ":delta\",\"labelSelector\":\"{x=\\\"y\\\"}\"," WHEN
        ",\"stackTraceSelector\":{\"callSite\":[{\"name\":\"main\"}]},"
        "\"spanSelector\":[\"0102030405060708\"]}",
        200,
        "{\"flamegraph\":{\"names\":[\"total\",\"a\",\"b\",\"main\",\"other\"],\"levels\":["
        "{\"values\":[\"0\",\"19\",\"0\",\"0\"]},"
        "{\"values\":[\"0\",\"14\",\"0\",\"3\",\"0\",\"5\",\"5\",\"4\"]},"
        "{\"values\":[\"0\",\"11\",\"11\",\"1\",\"0\",\"3\",\"3\",\"2\"]}],"
        "\"total\":\"19\",\"maxSelf\":\"11\"}}");
    head = fg__inner__select_head__unpack(NULL, f->peers[1].asked[FG_RPC_SELECT].len,
                                          f->peers[1].asked[FG_RPC_SELECT].ptr);
    assert_non_null(head);
    assert_string_equal(head->profile_type, CPU);
    assert_true(head->names_only);
    assert_true(head->selection->start_ns == INT64_C(1700000000000000000));
    assert_true(head->selection->end_ns == INT64_C(1700000060000000000));
    assert_string_equal(head->selection->tenant, "anonymous");
    assert_int_equal(head->selection->n_matchers, 2); /* not for __sampled__ */
    assert_string_equal(head->selection->matchers[0]->name, "x");
    assert_int_equal(head->n_call_site, 1);
    assert_int_equal(head->n_spans, 1);
    assert_true(head->spans[0] == UINT64_C(0x0807060504030201));
    fg__inner__select_head__free_unpacked(head, NULL);
}

static void malformed_ids_are_refused(void **state)
{
    struct querier_served *f = *state;
    static const char *const bad[] = {
        "{" BASE ",\"spanSelector\":[\"abc\"]}",
        "{" BASE ",\"spanSelector\":[\"zzzzzzzzzzzzzzzz\"]}",
        "{" BASE ",\"traceIdSelector\":[\"00f067aa0ba902b7\"]}",
        "{" BASE ",\"profileIdSelector\":[\"not-a-uuid\"]}",
    };

    for (size_t i = 0; i < FG_COUNT(bad); i++)
        querier_expect(f, "SelectMergeStacktraces", bad[i], 200, NOTHING);
    STACKS(&f->peers[0], "main 3");
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        assert_int_equal(querier_call(f, "SelectMergeStacktraces", bad[i]), 500);
        assert_non_null(strstr(querier_body(f), "\"code\":\"unknown\""));
    }
    assert_int_equal(
        querier_call(f, "SelectMergeStacktraces",
                     "{" BASE ",\"profileIdSelector\":[\"11111111-2222-3333-4444-555555555555\"]}"),
        200);
}

static void ingester_failure_fails_the_query(void **state)
{
    struct querier_served *f = *state;

    STACKS(&f->peers[0], "main 3");
    f->peers[1].code = FG_E_UNAVAILABLE;
    assert_int_equal(querier_call(f, "SelectMergeStacktraces", "{" BASE "}"), 503);
    assert_true(querier_head_has(f, "Retry-After"));
    assert_non_null(strstr(querier_body(f),
                           "of ring revision 2: 0 of 1 required ingesters responded: "
                           "i1: fake peer was told to fail\""));
    assert_false(querier_head_has(f, "X-Flamegrid-Complete"));
    f->peers[1].code = FG_OK;
    fg_buf_puts(&f->peers[1].payloads[FG_RPC_SELECT], "\xff\xff");
    assert_int_equal(querier_call(f, "SelectMergeStacktraces", "{" BASE "}"), 500);
    fg_buf_puts(&f->peers[1].payloads[FG_RPC_SERIES], "\x05\x01");
    assert_int_equal(querier_call(f, "Series", "{" WHEN "}"), 500);
    fg_buf_puts(&f->peers[1].payloads[FG_RPC_POINTS], "\x01\x01\x00\x05");
    assert_int_equal(querier_call(f, "SelectSeries", "{" BASE ",\"step\":1}"), 500);
}

/* With `partial` a client gets the incomplete answer and is told what is missing. */
static void incomplete_response_says_so(void **state)
{
    struct querier_served *f = *state;

    STACKS(&f->peers[0], "main 3");
    STACKS(&f->peers[1], "main 4");
    assert_int_equal(querier_call(f, "SelectMergeStacktraces?partial=true", "{" BASE "}"), 200);
    assert_true(querier_head_has(f, "X-Flamegrid-Complete: true"));
    assert_false(querier_head_has(f, "X-Flamegrid-Missing"));
    assert_non_null(strstr(querier_body(f), "\"total\":\"7\""));
    f->peers[1].code = FG_E_UNAVAILABLE;
    assert_int_equal(querier_call(f, "SelectMergeStacktraces?partial=true", "{" BASE "}"), 200);
    assert_true(querier_head_has(f, "X-Flamegrid-Complete: false"));
    assert_true(querier_head_has(f, "X-Flamegrid-Missing: i1: fake peer was told to fail"));
    assert_non_null(strstr(querier_body(f), "\"total\":\"3\""));
    assert_int_equal(querier_ask(f,
                                 "GET /pyroscope/render?query=" CPU "%7B%7D&from=1700000001"
                                 "&until=1700000060 HTTP/1.1\r\nX-Flamegrid-Partial: true",
                                 NULL),
                     200);
    assert_true(querier_head_has(f, "X-Flamegrid-Complete: false"));
    /* An error of the query is reported as without `partial`. */
    f->peers[1].code = FG_E_INVALID;
    assert_int_equal(querier_call(f, "SelectMergeStacktraces?partial=true", "{" BASE "}"), 400);
}

static void metadata_of_all_ingesters_is_united(void **state)
{
    struct querier_served *f = *state;

    SERIES(&f->peers[0], "a=1,k8s.pod=p", "a=2");
    SERIES(&f->peers[1], "a=1,k8s.pod=q", "a=2", "b=1");
    querier_expect(f, "LabelNames", "{" WHEN "}", 200, "{\"names\":[\"a\",\"b\"]}");
    querier_expect(f, "LabelValues", "{\"name\":\"a\"," WHEN "}", 200, "{\"names\":[\"1\",\"2\"]}");
#define ONE(n, v) "{\"labels\":[{\"name\":\"" n "\",\"value\":\"" v "\"}]}"
    querier_expect(f, "Series", "{" WHEN "}", 200,
                   "{\"labelsSet\":[" ONE("a", "1") "," ONE("a", "2") "," ONE("b", "1") "]}");
    assert_int_equal(querier_ask(f,
                                 "POST /querier.v1.QuerierService/LabelNames HTTP/1.1\r\n"
                                 "Accept: application/json, */*; Allow-UTF8-LabelNames=true\r\n"
                                 "Content-Type: application/json",
                                 "{" WHEN "}"),
                     200);
    assert_string_equal(querier_body(f), "{\"names\":[\"a\",\"b\",\"k8s.pod\"]}");
    assert_int_equal(querier_ask(f,
                                 "POST /querier.v1.QuerierService/LabelNames HTTP/1.1\r\n"
                                 "Accept: not a media type;;;=\r\nContent-Type: application/json",
                                 "{" WHEN "}"),
                     400);
    SERIES(&f->peers[0], "__profile_type__=" CPU, "__profile_type__=memory:x:y::");
    SERIES(&f->peers[1], "__profile_type__=" CPU);
    querier_expect(
        f, "ProfileTypes", "{" WHEN "}", 200,
        "{\"profileTypes\":[{\"ID\":\"memory:x:y::\",\"name\":\"memory\",\"sampleType\":\"x\","
        "\"sampleUnit\":\"y\"},{\"ID\":\"" CPU "\",\"name\":\"process_cpu\",\"sampleType\":\"cpu\","
        "\"sampleUnit\":\"nanoseconds\",\"periodType\":\"cpu\",\"periodUnit\":\"nanoseconds\"}]}");
    querier_expect_get(f, "/pyroscope/label-values?label=__name__", 200,
                       "[\"memory:x:y::\",\"" CPU "\"]\n");
}

static void answer_points(struct querier_served *f)
{
    fg_buf_varint(&f->peers[0].payloads[FG_RPC_POINTS], 2);
    querier_add_points(&f->peers[0], "pod=p1", (struct querier_point[]){{0, 10, 1}, {2, 4, 2}}, 2);
    querier_add_points(&f->peers[0], "pod=p0", (struct querier_point[]){{1, 14, 1}}, 1);
    fg_buf_varint(&f->peers[1].payloads[FG_RPC_POINTS], 1);
    querier_add_points(&f->peers[1], "pod=p1", (struct querier_point[]){{1, 5, 1}, {1, 6, 3}}, 2);
}

#define POINT(v, t) "{\"value\":" v ",\"timestamp\":\"17000000" t "000\"}"

static void series_of_all_ingesters_add_up(void **state)
{
    struct querier_served *f = *state;

    answer_points(f);
    querier_expect(
        f, "SelectSeries", "{" BASE ",\"step\":\"15\",\"group_by\":[\"pod\"]}", 200,
        "{\"series\":[{\"labels\":[{\"name\":\"pod\",\"value\":\"p1\"}],\"points\":[" POINT(
            "10", "00") "," POINT("5",
                                  "15") "," POINT("10",
                                                  "30") "]},"
                                                        "{\"labels\":[{\"name\":\"pod\","
                                                        "\"value\":\"p0\"}],\"points\":[" POINT(
                                                            "14", "15") "]}]}");
    querier_expect(
        f, "SelectSeries",
        "{" BASE ",\"step\":15,\"groupBy\":[\"pod\"],\"limit\":1,\"aggregation\":"
        "\"TIME_SERIES_AGGREGATION_TYPE_AVERAGE\"}",
        200,
        "{\"series\":[{\"labels\":[{\"name\":\"pod\",\"value\":\"p1\"}],\"points\":[" POINT(
            "10", "00") "," POINT("5", "15") "," POINT("2", "30") "]}]}");
}

static void render_returns_flame_graph_and_timeline(void **state)
{
    struct querier_served *f = *state;

    STACKS(&f->peers[0], "a;b 7");
    fg_buf_varint(&f->peers[0].payloads[FG_RPC_POINTS], 1);
    querier_add_points(&f->peers[0], "", (struct querier_point[]){{1, 7, 1}}, 1);
#define RENDER "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D"
#define META                                                                                       \
    "\"metadata\":{\"format\":\"single\",\"spyName\":\"\",\"sampleRate\":1000000000,"              \
    "\"units\":\"samples\",\"name\":\"cpu\"}"
#define LINE                                                                                       \
    "{\"startTime\":1699999995,\"samples\":[0,7,0,0],\"durationDelta\":15,"                        \
    "\"watermarks\":null}"
    querier_expect_get(
        f, RENDER "&from=1700000001&until=1700000060", 200,
        "{\"version\":1,\"flamebearer\":{\"names\":[\"total\",\"a\",\"b\"],\"levels\":"
        "[[0,7,0,0],[0,7,0,1],[0,7,7,2]],\"numTicks\":7,\"maxSelf\":7}," META ",\"timeline\":" LINE
        ",\"groups\":null,\"heatmap\":null}\n");
    querier_expect_get(
        f, RENDER "&from=1700000001&until=1700000060&groupBy=pod&max-nodes=x", 200,
        "{\"version\":1,\"flamebearer\":{\"names\":[\"total\",\"a\",\"b\"],\"levels\":"
        "[[0,7,0,0],[0,7,0,1],[0,7,7,2]],\"numTicks\":7,\"maxSelf\":7}," META ",\"timeline\":" LINE
        ",\"groups\":{\"*\":" LINE "},\"heatmap\":null}\n");
}

/* Returns a shard that the member owns. */
static uint16_t shard_of(struct querier_served *f, const char *name)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    fg_auto(fg_ring_view) *view = NULL;
    uint16_t shard = 0;
    struct fg_err err;

    assert_int_equal(fg_ring_watch_fresh(f->ring, INT64_MAX, &view, &err), FG_OK);
    while (fg_ring_view_owners(view, shard, owners) == 0 || !fg_slice_is(owners[0]->name, name))
        shard++;
    return shard;
}

static void stats_of_all_ingesters_add_up(void **state)
{
    struct querier_served *f = *state;
    Fg__Inner__StatsReply reply = FG__INNER__STATS_REPLY__INIT;
    Fg__Inner__GroupSum sum = FG__INNER__GROUP_SUM__INIT, *sums[] = {&sum};
    char lacks[] = "chunks in doubt";

    sum.shard = shard_of(f, "i1");
    sum.count = 2;
    reply.sums = sums;
    reply.n_sums = 1;
    reply.profiles = 2;
    reply.oldest_ns = 5 * FG_SECOND_NS;
    reply.newest_ns = 6 * FG_SECOND_NS;
    fg_assert(fg_buf_reserve(&f->peers[1].heads[FG_RPC_STATS], 128));
    f->peers[1].heads[FG_RPC_STATS].len =
        fg__inner__stats_reply__pack(&reply, f->peers[1].heads[FG_RPC_STATS].ptr);
    querier_expect(
        f, "GetProfileStats", "{}", 200,
        "{\"dataIngested\":true,\"oldestProfileTime\":\"5000\",\"newestProfileTime\":\"6000\"}");
    assert_true(querier_head_has(f, "X-Flamegrid-Complete: true"));
    reply.lacks = lacks;
    f->peers[1].heads[FG_RPC_STATS].len =
        fg__inner__stats_reply__pack(&reply, f->peers[1].heads[FG_RPC_STATS].ptr);
    querier_expect(
        f, "GetProfileStats", "{}", 200,
        "{\"dataIngested\":true,\"oldestProfileTime\":\"5000\",\"newestProfileTime\":\"6000\"}");
    assert_true(querier_head_has(f, "X-Flamegrid-Missing: chunks in doubt"));
}

static void status_names_members_and_limits(void **state)
{
    struct querier_served *f = *state;

    assert_int_equal(querier_ask(f, "GET /api/status HTTP/1.1", NULL), 200);
    assert_non_null(strstr(querier_body(f), "\"profiles\":{\"count\":0,\"oldest_ms\":null,"
                                            "\"newest_ms\":null}"));
    assert_non_null(strstr(querier_body(f), "{\"tenant\":\"anonymous\",\"limits\":{"));
    assert_non_null(strstr(querier_body(f), "\"adhoc_retention_period\":\""));
    assert_non_null(
        strstr(querier_body(f), "{\"name\":\"i1\",\"zone\":\"i1\",\"state\":\"active\","));
    assert_non_null(strstr(querier_body(f), "\"bucket\":null"));
    assert_null(strstr(querier_body(f), "inproc://")); /* addresses are not for clients */
}

#define WITH(test, setup) cmocka_unit_test_setup_teardown(test, setup, querier_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(empty_result_of_each_method, querier_setup),
        WITH(stacks_of_all_ingesters_add_up, querier_setup),
        WITH(malformed_ids_are_refused, querier_setup),
        WITH(ingester_failure_fails_the_query, querier_setup),
        WITH(incomplete_response_says_so, querier_setup),
        WITH(metadata_of_all_ingesters_is_united, querier_setup),
        WITH(series_of_all_ingesters_add_up, querier_setup),
        WITH(render_returns_flame_graph_and_timeline, querier_setup),
        WITH(stats_of_all_ingesters_add_up, querier_setup),
        WITH(status_names_members_and_limits, querier_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
