/* Tests a whole querier behind a real HTTP server, with two ingesters that share the shards of a
 * ring and answer as the test says. */
#include "common/base/cursor.h"
#include "common/base/str.h"
#include "common/model/labels.h"
#include "common/model/tree.h"
#include "common/net/ui_pages.h"
#include "proto/inner.pb-c.h"
#include "querier/querier.h"
#include "querier/ui.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/ring_bucket.h"
#include "tests/lib/served.h"
#include "tests/lib/tenants.h"
#include "tests/unit/querier/fake_peer.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PEERS = 2 };

#define CPU  "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define NOW  INT64_C(1700003600)
#define WHEN "\"start\":1700000000000,\"end\":1700000060000"
#define BASE "\"profileTypeID\":\"" CPU "\",\"labelSelector\":\"{}\"," WHEN

struct fixture {
    struct served served;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct querier *querier;
    struct fg_bucket *bucket; /* has only the ring */
    struct fg_ring_watch *ring;
    struct fg_peers *to_peers;
    struct fg_clock_manual clock;
    struct fake_peer peers[PEERS];
};

/* --- fixture --- */

/* Each shard belongs to one of the two ingesters. */
static void make_ring(struct fixture *f)
{
    f->bucket = fg_bucket_memory();
    for (unsigned i = 0; i < PEERS; i++) {
        char name[16], url[64];

        (void)snprintf(name, sizeof name, "i%u", i);
        (void)snprintf(url, sizeof url, "inproc://querier-test-%s", name);
        fake_peer_init(&f->peers[i], url);
        ring_bucket_join(f->bucket, name, url, (struct fg_id){1 + i, 1}, 1);
        /* What came before is in blocks, if there are any. */
        for (unsigned k = 0; k < i; k++)
            ring_bucket_change(f->bucket, &(struct fg_ring_change){.kind = FG_RING_DRAINED,
                                                                   .name = FG_LIT("i0"),
                                                                   .store = {1 + k, 1},
                                                                   .revision = 1 + i});
    }
    f->ring = ring_bucket_watch(f->bucket, f->served.registry);
    f->to_peers = fg_peers_create(&(struct fg_peers_config){.calls_max = 8, .peers_max = 8});
}

static int setup_with(void **state, unsigned threads,
                      void (*change)(struct fg_limit_settings *limits), bool tenants)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = threads, .queue_max = 16}};
    struct fixture *f = fg_new(struct fixture);

    fg_clock_manual_init(&f->clock, NOW * FG_SECOND_NS);
    f->clock.mono_ns = fg_mono_ns(fg_clock_real()); /* deadlines of calls are real */
    served_open(&f->served, lanes);
    make_ring(f);
    f->tenants = tenants_make(&f->limits, change, tenants, f->served.registry);
    f->querier = qry_create(&(struct qry_config){.ring = f->ring,
                                                 .peers = f->to_peers,
                                                 .hedge_after_ns = FG_MINUTE_NS,
                                                 .work = f->served.work,
                                                 .tenants = f->tenants,
                                                 .registry = f->served.registry,
                                                 .clock = &f->clock.clock});
    qry_routes(f->querier, f->served.server);
    served_start(&f->served);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 2, NULL, false);
}

static int setup_full_lane(void **state)
{
    return setup_with(state, 0, NULL, false);
}

static int setup_one_worker(void **state)
{
    return setup_with(state, 1, NULL, false);
}

static int setup_tenants(void **state)
{
    return setup_with(state, 1, NULL, true);
}

static void short_queries(struct fg_limit_settings *limits)
{
    limits->max_query_length_ns = 90 * FG_MINUTE_NS;
}

static int setup_short_queries(void **state)
{
    return setup_with(state, 2, short_queries, false);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    served_stop(&f->served);
    qry_destroy(f->querier);
    fg_peers_destroy(f->to_peers);
    fg_ring_watch_stop(f->ring);
    fg_ring_watch_destroy(f->ring);
    fg_bucket_close(f->bucket);
    tenants_free(f->tenants, &f->limits);
    served_close(&f->served);
    for (size_t i = 0; i < PEERS; i++)
        fake_peer_done(&f->peers[i]);
    free(f);
    return 0;
}

/* --- asking --- */

static unsigned ask(struct fixture *f, const char *request, const char *body)
{
    return served_ask(&f->served, request, body);
}

static const char *body_of(struct fixture *f)
{
    return http_ask_body(&f->served.answer);
}

static bool head_has(struct fixture *f, const char *text)
{
    return http_ask_head_has(&f->served.answer, text);
}

static unsigned call(struct fixture *f, const char *method, const char *json)
{
    char request[256];

    (void)snprintf(request, sizeof request,
                   "POST /querier.v1.QuerierService/%s HTTP/1.1\r\n"
                   "Content-Type: application/json",
                   method);
    return ask(f, request, json);
}

static void expect(struct fixture *f, const char *method, const char *json, unsigned status,
                   const char *want)
{
    print_message("  %s %s\n", method, json);
    assert_int_equal(call(f, method, json), status);
    assert_string_equal(body_of(f), want);
}

static void expect_get(struct fixture *f, const char *path, unsigned status, const char *want)
{
    char request[1024];

    print_message("  %s\n", path);
    (void)snprintf(request, sizeof request, "GET %s HTTP/1.1", path);
    assert_int_equal(ask(f, request, NULL), status);
    assert_string_equal(body_of(f), want);
}

/* --- what peers answer --- */

/* "main;work 5" lines. */
static void answer_stacks(struct fake_peer *peer, const char *const *stacks, size_t n)
{
    struct fg_tree tree;

    fg_tree_init(&tree);
    for (size_t i = 0; i < n; i++) {
        struct fg_slice rest = fg_cstr(stacks[i]);
        uint32_t node = FG_TREE_ROOT;
        size_t blank = fg_slice_find(rest, ' ');
        int64_t value;

        assert_true(fg_parse_i64(fg_slice_sub(rest, blank + 1, SIZE_MAX), &value));
        rest = fg_slice_sub(rest, 0, blank);
        while (rest.len > 0) {
            size_t end = FG_MIN(fg_slice_find(rest, ';'), rest.len);

            node = fg_tree_child(
                &tree, node, fg_symbols_name_location(&tree.symbols, fg_slice_sub(rest, 0, end)));
            rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
        }
        tree.self[node] += value;
    }
    fg_buf_clear(&peer->payloads[FG_RPC_SELECT]);
    fg_tree_encode(&tree, &peer->payloads[FG_RPC_SELECT]);
    fg_tree_done(&tree);
}

/* "a=b,c=d" */
static void put_labels(struct fg_buf *out, const char *text)
{
    struct fg_label items[8];
    struct fg_labels labels = {items, 0};
    struct fg_slice rest = fg_cstr(text);
    struct fg_buf encoded;

    while (rest.len > 0) {
        size_t end = FG_MIN(fg_slice_find(rest, ','), rest.len), equals = fg_slice_find(rest, '=');

        items[labels.count++] = (struct fg_label){fg_slice_sub(rest, 0, equals),
                                                  fg_slice_sub(rest, equals + 1, end - equals - 1)};
        rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
    }
    fg_buf_init(&encoded, 4096);
    fg_labels_encode(&labels, &encoded);
    fg_buf_lenbytes(out, fg_buf_slice(&encoded));
    fg_buf_done(&encoded);
}

static void answer_series(struct fake_peer *peer, const char *const *sets, size_t n)
{
    struct fg_buf *out = &peer->payloads[FG_RPC_SERIES];

    fg_buf_clear(out);
    fg_buf_varint(out, n);
    for (size_t i = 0; i < n; i++)
        put_labels(out, sets[i]);
}

struct canned_point {
    uint64_t skip;
    int64_t sum;
    uint64_t count;
};

static void add_points(struct fake_peer *peer, const char *labels,
                       const struct canned_point *points, size_t n)
{
    struct fg_buf *out = &peer->payloads[FG_RPC_POINTS];

    put_labels(out, labels);
    fg_buf_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        fg_buf_varint(out, points[i].skip);
        fg_buf_zigzag(out, points[i].sum);
        fg_buf_varint(out, points[i].count);
    }
}

#define STACKS(peer, ...)                                                                          \
    answer_stacks(peer, (const char *const[]){__VA_ARGS__},                                        \
                  FG_COUNT(((const char *const[]){__VA_ARGS__})))
#define SERIES(peer, ...)                                                                          \
    answer_series(peer, (const char *const[]){__VA_ARGS__},                                        \
                  FG_COUNT(((const char *const[]){__VA_ARGS__})))

/* --- tests --- */

#define NOTHING                                                                                    \
    "{\"flamegraph\":{\"names\":[\"total\"],\"levels\":[{\"values\":[\"0\",\"0\",\"0\",\"0\"]}]}}"

/* Golden case 081: the answer of each method without any data. */
/* Without samples, but with all fields that readers of pprof require. */
#define EMPTY_PPROF                                                                                \
    "{\"sampleType\":[{\"type\":\"1\",\"unit\":\"2\"}],"                                           \
    "\"stringTable\":[\"\",\"cpu\",\"nanoseconds\"],\"timeNanos\":\"1700000060000000000\","        \
    "\"periodType\":{\"type\":\"1\",\"unit\":\"2\"},\"period\":\"1000000000\","                    \
    "\"defaultSampleType\":\"1\"}"

static void empty_result_of_each_method(void **state)
{
    struct fixture *f = *state;

    expect(f, "SelectMergeStacktraces", "{" BASE "}", 200, NOTHING);
    expect(f, "SelectMergeSpanProfile", "{" BASE ",\"spanSelector\":[\"0102030405060708\"]}", 200,
           NOTHING);
    expect(f, "SelectMergeStacktraces", "{" BASE ",\"format\":\"PROFILE_FORMAT_TREE\"}", 200, "{}");
    expect(f, "SelectMergeStacktraces", "{" BASE ",\"format\":\"PROFILE_FORMAT_DOT\"}", 200, "{}");
    expect(f, "SelectMergeStacktraces", "{" BASE ",\"format\":\"PROFILE_FORMAT_PPROF\"}", 200,
           "{\"pprof\":{\"profile\":" EMPTY_PPROF "}}");
    expect(f, "SelectMergeProfile", "{" BASE "}", 200, EMPTY_PPROF);
    expect(f, "SelectSeries", "{" BASE ",\"step\":15}", 200, "{}");
    expect(f, "Diff", "{\"left\":{" BASE "},\"right\":{" BASE "}}", 200,
           "{\"flamegraph\":{\"names\":[\"total\"],\"levels\":[{\"values\":[\"0\",\"0\",\"0\","
           "\"0\",\"0\",\"0\",\"0\"]}]}}");
    expect(f, "ProfileTypes", "{}", 200, "{}");
    expect(f, "ProfileTypes", "{\"start\":1000,\"end\":4000}", 200, "{}");
    expect(f, "LabelNames", "{" WHEN "}", 200, "{}");
    expect(f, "LabelValues", "{\"name\":\"a-b\"," WHEN "}", 200, "{}");
    expect(f, "Series", "{" WHEN "}", 200, "{}");
    expect(f, "GetProfileStats", "{}", 200, "{}");
    expect(f, "AnalyzeQuery", "{\"query\":\"{{{\"}", 200, "{}");
}

static void error_texts_are_those_clients_know(void **state)
{
#define INVALID(text) "{\"code\":\"invalid_argument\",\"message\":\"" text "\"}"
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
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        expect(f, cases[i].method, cases[i].json, 400, cases[i].want);
        assert_true(head_has(f, "application/json"));
    }
}

static void range_beyond_the_limit_is_refused(void **state)
{
    struct fixture *f = *state;

    expect(f, "Series", "{\"start\":1000,\"end\":5401000}", 200, "{}");
    expect(f, "Series", "{\"start\":1000,\"end\":5461000}", 400,
           INVALID("the query time range exceeds the limit (max_query_length, actual: 1h31m0s, "
                   "limit: 1h30m): limits.max_query_length of tenant anonymous"));
}

/* Two peers have parts of one tree; the sum is exact, and so is what the peers were asked. */
static void stacks_of_all_ingesters_add_up(void **state)
{
    struct fixture *f = *state;
    Fg__Inner__SelectHead *head;

    STACKS(&f->peers[0], "main;b 3", "main;a 1");
    STACKS(&f->peers[1], "main;a 10", "other 5");
    expect(f, "SelectMergeStacktraces",
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
    struct fixture *f = *state;
    static const char *const bad[] = {
        "{" BASE ",\"spanSelector\":[\"abc\"]}",
        "{" BASE ",\"spanSelector\":[\"zzzzzzzzzzzzzzzz\"]}",
        "{" BASE ",\"traceIdSelector\":[\"00f067aa0ba902b7\"]}",
        "{" BASE ",\"profileIdSelector\":[\"not-a-uuid\"]}",
    };

    for (size_t i = 0; i < FG_COUNT(bad); i++)
        expect(f, "SelectMergeStacktraces", bad[i], 200, NOTHING);
    STACKS(&f->peers[0], "main 3");
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        assert_int_equal(call(f, "SelectMergeStacktraces", bad[i]), 500);
        assert_non_null(strstr(body_of(f), "\"code\":\"unknown\""));
    }
    assert_int_equal(call(f, "SelectMergeStacktraces",
                          "{" BASE
                          ",\"profileIdSelector\":[\"11111111-2222-3333-4444-555555555555\"]}"),
                     200);
}

static void ingester_failure_fails_the_query(void **state)
{
    struct fixture *f = *state;

    STACKS(&f->peers[0], "main 3");
    f->peers[1].code = FG_E_UNAVAILABLE;
    assert_int_equal(call(f, "SelectMergeStacktraces", "{" BASE "}"), 503);
    assert_true(head_has(f, "Retry-After"));
    assert_non_null(strstr(body_of(f), "of ring revision 2: 0 of 1 required ingesters responded: "
                                       "i1: fake peer was told to fail\""));
    assert_false(head_has(f, "X-Flamegrid-Complete"));
    f->peers[1].code = FG_OK;
    fg_buf_puts(&f->peers[1].payloads[FG_RPC_SELECT], "\xff\xff");
    assert_int_equal(call(f, "SelectMergeStacktraces", "{" BASE "}"), 500);
    fg_buf_puts(&f->peers[1].payloads[FG_RPC_SERIES], "\x05\x01");
    assert_int_equal(call(f, "Series", "{" WHEN "}"), 500);
    fg_buf_puts(&f->peers[1].payloads[FG_RPC_POINTS], "\x01\x01\x00\x05");
    assert_int_equal(call(f, "SelectSeries", "{" BASE ",\"step\":1}"), 500);
}

/* With `partial` a client gets the incomplete answer and is told what is missing. */
static void incomplete_response_says_so(void **state)
{
    struct fixture *f = *state;

    STACKS(&f->peers[0], "main 3");
    STACKS(&f->peers[1], "main 4");
    assert_int_equal(call(f, "SelectMergeStacktraces?partial=true", "{" BASE "}"), 200);
    assert_true(head_has(f, "X-Flamegrid-Complete: true"));
    assert_false(head_has(f, "X-Flamegrid-Missing"));
    assert_non_null(strstr(body_of(f), "\"total\":\"7\""));
    f->peers[1].code = FG_E_UNAVAILABLE;
    assert_int_equal(call(f, "SelectMergeStacktraces?partial=true", "{" BASE "}"), 200);
    assert_true(head_has(f, "X-Flamegrid-Complete: false"));
    assert_true(head_has(f, "X-Flamegrid-Missing: i1: fake peer was told to fail"));
    assert_non_null(strstr(body_of(f), "\"total\":\"3\""));
    assert_int_equal(ask(f,
                         "GET /pyroscope/render?query=" CPU "%7B%7D&from=1700000001"
                         "&until=1700000060 HTTP/1.1\r\nX-Flamegrid-Partial: true",
                         NULL),
                     200);
    assert_true(head_has(f, "X-Flamegrid-Complete: false"));
    /* An error of the query is reported as without `partial`. */
    f->peers[1].code = FG_E_INVALID;
    assert_int_equal(call(f, "SelectMergeStacktraces?partial=true", "{" BASE "}"), 400);
}

static void metadata_of_all_ingesters_is_united(void **state)
{
    struct fixture *f = *state;

    SERIES(&f->peers[0], "a=1,k8s.pod=p", "a=2");
    SERIES(&f->peers[1], "a=1,k8s.pod=q", "a=2", "b=1");
    expect(f, "LabelNames", "{" WHEN "}", 200, "{\"names\":[\"a\",\"b\"]}");
    expect(f, "LabelValues", "{\"name\":\"a\"," WHEN "}", 200, "{\"names\":[\"1\",\"2\"]}");
#define ONE(n, v) "{\"labels\":[{\"name\":\"" n "\",\"value\":\"" v "\"}]}"
    expect(f, "Series", "{" WHEN "}", 200,
           "{\"labelsSet\":[" ONE("a", "1") "," ONE("a", "2") "," ONE("b", "1") "]}");
    assert_int_equal(ask(f,
                         "POST /querier.v1.QuerierService/LabelNames HTTP/1.1\r\n"
                         "Accept: application/json, */*; Allow-UTF8-LabelNames=true\r\n"
                         "Content-Type: application/json",
                         "{" WHEN "}"),
                     200);
    assert_string_equal(body_of(f), "{\"names\":[\"a\",\"b\",\"k8s.pod\"]}");
    assert_int_equal(ask(f,
                         "POST /querier.v1.QuerierService/LabelNames HTTP/1.1\r\n"
                         "Accept: not a media type;;;=\r\nContent-Type: application/json",
                         "{" WHEN "}"),
                     400);
    SERIES(&f->peers[0], "__profile_type__=" CPU, "__profile_type__=memory:x:y::");
    SERIES(&f->peers[1], "__profile_type__=" CPU);
    expect(
        f, "ProfileTypes", "{" WHEN "}", 200,
        "{\"profileTypes\":[{\"ID\":\"memory:x:y::\",\"name\":\"memory\",\"sampleType\":\"x\","
        "\"sampleUnit\":\"y\"},{\"ID\":\"" CPU "\",\"name\":\"process_cpu\",\"sampleType\":\"cpu\","
        "\"sampleUnit\":\"nanoseconds\",\"periodType\":\"cpu\",\"periodUnit\":\"nanoseconds\"}]}");
    expect_get(f, "/pyroscope/label-values?label=__name__", 200,
               "[\"memory:x:y::\",\"" CPU "\"]\n");
}

static void answer_points(struct fixture *f)
{
    fg_buf_varint(&f->peers[0].payloads[FG_RPC_POINTS], 2);
    add_points(&f->peers[0], "pod=p1", (struct canned_point[]){{0, 10, 1}, {2, 4, 2}}, 2);
    add_points(&f->peers[0], "pod=p0", (struct canned_point[]){{1, 14, 1}}, 1);
    fg_buf_varint(&f->peers[1].payloads[FG_RPC_POINTS], 1);
    add_points(&f->peers[1], "pod=p1", (struct canned_point[]){{1, 5, 1}, {1, 6, 3}}, 2);
}

#define POINT(v, t) "{\"value\":" v ",\"timestamp\":\"17000000" t "000\"}"

static void series_of_all_ingesters_add_up(void **state)
{
    struct fixture *f = *state;

    answer_points(f);
    expect(f, "SelectSeries", "{" BASE ",\"step\":\"15\",\"group_by\":[\"pod\"]}", 200,
           "{\"series\":[{\"labels\":[{\"name\":\"pod\",\"value\":\"p1\"}],\"points\":[" POINT(
               "10", "00") "," POINT("5",
                                     "15") "," POINT("10",
                                                     "30") "]},"
                                                           "{\"labels\":[{\"name\":\"pod\","
                                                           "\"value\":\"p0\"}],\"points\":[" POINT(
                                                               "14", "15") "]}]}");
    expect(f, "SelectSeries",
           "{" BASE ",\"step\":15,\"groupBy\":[\"pod\"],\"limit\":1,\"aggregation\":"
           "\"TIME_SERIES_AGGREGATION_TYPE_AVERAGE\"}",
           200,
           "{\"series\":[{\"labels\":[{\"name\":\"pod\",\"value\":\"p1\"}],\"points\":[" POINT(
               "10", "00") "," POINT("5", "15") "," POINT("2", "30") "]}]}");
}

static void render_returns_flame_graph_and_timeline(void **state)
{
    struct fixture *f = *state;

    STACKS(&f->peers[0], "a;b 7");
    fg_buf_varint(&f->peers[0].payloads[FG_RPC_POINTS], 1);
    add_points(&f->peers[0], "", (struct canned_point[]){{1, 7, 1}}, 1);
#define RENDER "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D"
#define META                                                                                       \
    "\"metadata\":{\"format\":\"single\",\"spyName\":\"\",\"sampleRate\":1000000000,"              \
    "\"units\":\"samples\",\"name\":\"cpu\"}"
#define LINE                                                                                       \
    "{\"startTime\":1699999995,\"samples\":[0,7,0,0],\"durationDelta\":15,"                        \
    "\"watermarks\":null}"
    expect_get(f, RENDER "&from=1700000001&until=1700000060", 200,
               "{\"version\":1,\"flamebearer\":{\"names\":[\"total\",\"a\",\"b\"],\"levels\":"
               "[[0,7,0,0],[0,7,0,1],[0,7,7,2]],\"numTicks\":7,\"maxSelf\":7}," META
               ",\"timeline\":" LINE ",\"groups\":null,\"heatmap\":null}\n");
    expect_get(f, RENDER "&from=1700000001&until=1700000060&groupBy=pod&max-nodes=x", 200,
               "{\"version\":1,\"flamebearer\":{\"names\":[\"total\",\"a\",\"b\"],\"levels\":"
               "[[0,7,0,0],[0,7,0,1],[0,7,7,2]],\"numTicks\":7,\"maxSelf\":7}," META
               ",\"timeline\":" LINE ",\"groups\":{\"*\":" LINE "},\"heatmap\":null}\n");
}

/* Golden cases 114 and 084. */
static void render_refuses_bad_parameters(void **state)
{
    struct fixture *f = *state;

    expect_get(f, "/pyroscope/render", 400, INVALID("\\\"query\\\" is required"));
    expect_get(f, "/pyroscope/render?query=", 400, INVALID("\\\"query\\\" is required"));
    expect_get(f, "/pyroscope/render?query=abc&from=1&until=2", 400,
               INVALID("failed to parse \\\"query\\\""));
    expect_get(f, "/pyroscope/render?query=%7B%7D&from=1&until=2", 400,
               INVALID("\\\"query\\\" must contain a profile-type selection"));
    expect_get(f, RENDER "&from=1&until=2&max-nodes=-1", 400,
               INVALID("max flamegraph nodes limit must be set (max allowed 1048576)"));
    expect_get(f, "/pyroscope/render-diff", 400, INVALID("\\\"leftQuery\\\" is required"));
    expect_get(f, "/pyroscope/render-diff?leftQuery=a:b:c:d:e%7B%7D&leftFrom=1&leftUntil=2", 400,
               INVALID("\\\"rightQuery\\\" is required"));
    expect_get(f,
               "/pyroscope/render-diff?leftQuery=a:b:c:d:e%7B%7D&leftFrom=1&leftUntil=2"
               "&rightQuery=a:b:c:d:f%7B%7D&rightFrom=1&rightUntil=2",
               400, INVALID("profile types must match"));
    expect_get(f, "/pyroscope/label-values", 400, INVALID("label parameter is required"));
    expect_get(f, "/pyroscope/label-values?label=x", 400,
               INVALID("missing time range in the query"));
    expect_get(f, "/pyroscope/label-values?label=__name__", 200, "null\n");
}

static void connect_protocol_rules(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ask(f, "GET /querier.v1.QuerierService/ProfileTypes HTTP/1.1", NULL), 405);
    assert_true(head_has(f, "Allow: POST"));
    assert_int_equal(ask(f,
                         "POST /querier.v1.QuerierService/ProfileTypes HTTP/1.1\r\n"
                         "Content-Type: text/plain",
                         "{}"),
                     415);
    assert_true(head_has(f, "Accept-Post: "));
    assert_int_equal(ask(f,
                         "POST /querier.v1.QuerierService/ProfileTypes HTTP/1.1\r\n"
                         "Content-Type: application/proto\r\nConnect-Protocol-Version: 1",
                         ""),
                     200);
    assert_true(head_has(f, "application/proto"));
    assert_true(head_has(f, "X-Flamegrid-Exact: yes"));
    assert_true(head_has(f, "X-Flamegrid-Profiles: 0"));
    assert_true(head_has(f, "X-Flamegrid-Millis: 0"));
    /* A deadline of 0 passes before any peer is asked. */
    assert_int_equal(ask(f,
                         "POST /querier.v1.QuerierService/ProfileTypes HTTP/1.1\r\n"
                         "Content-Type: application/json\r\nConnect-Timeout-Ms: 0",
                         "{}"),
                     504);
    assert_int_equal(f->peers[0].calls[FG_RPC_SERIES], 1);
}

/* Returns a shard that the member owns. */
static uint16_t shard_of(struct fixture *f, const char *name)
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
    struct fixture *f = *state;
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
    expect(f, "GetProfileStats", "{}", 200,
           "{\"dataIngested\":true,\"oldestProfileTime\":\"5000\",\"newestProfileTime\":\"6000\"}");
    assert_true(head_has(f, "X-Flamegrid-Complete: true"));
    reply.lacks = lacks;
    f->peers[1].heads[FG_RPC_STATS].len =
        fg__inner__stats_reply__pack(&reply, f->peers[1].heads[FG_RPC_STATS].ptr);
    expect(f, "GetProfileStats", "{}", 200,
           "{\"dataIngested\":true,\"oldestProfileTime\":\"5000\",\"newestProfileTime\":\"6000\"}");
    assert_true(head_has(f, "X-Flamegrid-Missing: chunks in doubt"));
}

static void status_names_members_and_limits(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ask(f, "GET /api/status HTTP/1.1", NULL), 200);
    assert_non_null(strstr(body_of(f), "\"profiles\":{\"count\":0,\"oldest_ms\":null,"
                                       "\"newest_ms\":null}"));
    assert_non_null(strstr(body_of(f), "{\"tenant\":\"anonymous\",\"limits\":{"));
    assert_non_null(strstr(body_of(f), "\"adhoc_retention_period\":\""));
    assert_non_null(strstr(body_of(f), "{\"name\":\"i1\",\"zone\":\"i1\",\"state\":\"active\","));
    assert_non_null(strstr(body_of(f), "\"bucket\":null"));
    assert_null(strstr(body_of(f), "inproc://")); /* addresses are not for clients */
}

static void full_queue_is_429(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(call(f, "ProfileTypes", "{}"), 429);
    assert_true(head_has(f, "Retry-After"));
    assert_non_null(strstr(body_of(f), "resource_exhausted"));
}

/* --- queries that ask the same --- */

/* A job that keeps the only worker, so that queries wait. */
struct hold {
    struct fg_job job;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, opened;
};

static enum fg_code hold_run(struct fg_job *job, struct fg_err *err)
{
    struct hold *hold = fg_container(job, struct hold, job);

    (void)err;
    (void)pthread_mutex_lock(&hold->lock);
    hold->running = true;
    (void)pthread_cond_broadcast(&hold->changed);
    while (!hold->opened)
        (void)pthread_cond_wait(&hold->changed, &hold->lock);
    (void)pthread_mutex_unlock(&hold->lock);
    return FG_OK;
}

static void hold_done(struct fg_job *job)
{
    (void)job;
}

static void hold_worker(struct fixture *f, struct hold *hold)
{
    *hold = (struct hold){.job = {.run = hold_run, .done = hold_done}};
    assert_int_equal(pthread_mutex_init(&hold->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&hold->changed, NULL), 0);
    assert_true(fg_work_submit(f->served.work, FG_LANE_QUERY, &hold->job));
    (void)pthread_mutex_lock(&hold->lock);
    while (!hold->running)
        (void)pthread_cond_wait(&hold->changed, &hold->lock);
    (void)pthread_mutex_unlock(&hold->lock);
}

static void let_go(struct hold *hold)
{
    (void)pthread_mutex_lock(&hold->lock);
    hold->opened = true;
    (void)pthread_cond_broadcast(&hold->changed);
    (void)pthread_mutex_unlock(&hold->lock);
}

/* Call it once the answers are there: the worker is done with it. */
static void hold_free(struct hold *hold)
{
    (void)pthread_cond_destroy(&hold->changed);
    (void)pthread_mutex_destroy(&hold->lock);
}

static uint64_t count_joined(struct fixture *f)
{
    static const char name[] = "\nflamegrid_querier_queries_joined_total ";
    struct fg_buf text;
    const char *at;
    uint64_t n;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(f->served.registry, &text);
    fg_buf_putc(&text, '\0');
    at = strstr((const char *)text.ptr, name);
    assert_non_null(at);
    n = strtoull(at + strlen(name), NULL, 10);
    fg_buf_done(&text);
    return n;
}

static unsigned count_queued(struct fixture *f)
{
    struct fg_lane_state lane;

    fg_work_state(f->served.work, FG_LANE_QUERY, &lane);
    return lane.queued;
}

/* Sends a query, and returns its connection once it waits for a worker, or has joined another. */
static int ask_waiting(struct fixture *f, const char *method, const char *headers, const char *json,
                       bool joins)
{
    uint64_t joined = count_joined(f) + (joins ? 1 : 0);
    unsigned queued = count_queued(f) + (joins ? 0 : 1);
    char request[512];
    int fd;

    print_message("  %s %s %s\n", method, headers, json);
    (void)snprintf(request, sizeof request,
                   "POST /querier.v1.QuerierService/%s HTTP/1.1\r\n"
                   "Content-Type: application/json%s",
                   method, headers);
    fd = http_ask_send(fg_http_server_port(f->served.server), request, fg_cstr(json));
    while (count_joined(f) < joined || count_queued(f) < queued)
        (void)sched_yield();
    assert_int_equal(count_joined(f), joined);
    assert_int_equal(count_queued(f), queued);
    return fd;
}

static void expect_answer(struct fixture *f, int fd, unsigned status, const char *want, bool joined)
{
    assert_int_equal(http_ask_receive(fd, &f->served.answer), status);
    if (want != NULL)
        assert_string_equal(body_of(f), want);
    assert_int_equal(head_has(f, "X-Flamegrid-Joined: true"), joined);
}

#define LABELS      "{" WHEN ",\"name\":\"pod\"}"
#define LABELS_WANT "{\"names\":[\"a\",\"b\"]}"

static void what_waits_and_asks_the_same_is_asked_once(void **state)
{
    struct fixture *f = *state;
    struct hold hold;
    int fds[4];

    SERIES(&f->peers[0], "pod=a");
    SERIES(&f->peers[1], "pod=b");
    hold_worker(f, &hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        fds[i] = ask_waiting(f, "LabelValues", "", LABELS, i > 0);
    let_go(&hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++) {
        expect_answer(f, fds[i], 200, LABELS_WANT, i > 0);
        assert_true(head_has(f, "X-Flamegrid-Complete: true"));
    }
    assert_int_equal(f->peers[0].calls[FG_RPC_SERIES], 1);
    hold_free(&hold);
}

/* All that an answer depends on keeps queries apart. */
static void what_differs_is_asked_for_itself(void **state)
{
    static const struct {
        const char *method, *headers, *json;
    } others[] = {
        {"LabelNames", "", "{" WHEN "}"},
        {"LabelValues", "", "{" WHEN ",\"name\":\"pod\",\"matchers\":[\"{a=\\\"b\\\"}\"]}"},
        {"LabelValues", "\r\nX-Flamegrid-Partial: true", LABELS},
        {"LabelValues", "\r\nX-Flamegrid-Refine: true", LABELS},
        {"LabelValues", "\r\nX-Flamegrid-Statistics: true", LABELS},
        {"LabelValues", "\r\nAccept: */*;allow-utf8-labelnames=true", LABELS},
        {"LabelValues", "\r\nAccept-Encoding: gzip", LABELS},
        {"LabelValues", "\r\nConnect-Timeout-Ms: 1000", LABELS},
    };
    struct fixture *f = *state;
    struct hold hold;
    int first, fds[FG_COUNT(others)];

    hold_worker(f, &hold);
    first = ask_waiting(f, "LabelValues", "", LABELS, false);
    for (size_t i = 0; i < FG_COUNT(others); i++)
        fds[i] = ask_waiting(f, others[i].method, others[i].headers, others[i].json, false);
    let_go(&hold);
    expect_answer(f, first, 200, NULL, false);
    for (size_t i = 0; i < FG_COUNT(others); i++)
        expect_answer(f, fds[i], 200, NULL, false);
    assert_int_equal(f->peers[0].calls[FG_RPC_SERIES], 1 + FG_COUNT(others));
    hold_free(&hold);
}

static void tenants_never_share_an_answer(void **state)
{
    struct fixture *f = *state;
    struct hold hold;
    int fds[4];

    hold_worker(f, &hold);
    fds[0] = ask_waiting(f, "LabelValues", "\r\nX-Scope-OrgID: a", LABELS, false);
    fds[1] = ask_waiting(f, "LabelValues", "\r\nX-Scope-OrgID: b", LABELS, false);
    fds[2] = ask_waiting(f, "LabelValues", "\r\nX-Scope-OrgID: a|b", LABELS, false);
    fds[3] = ask_waiting(f, "LabelValues", "\r\nX-Scope-OrgID: a", LABELS, true);
    let_go(&hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        expect_answer(f, fds[i], 200, "{}", i == 3);
    hold_free(&hold);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* The client of the first one disconnects; its question is answered for the others, if any. */
static void a_client_that_leaves_takes_nobody_along(void **state)
{
    struct fixture *f = *state;
    struct hold hold;
    int left, alone, stayed;

    SERIES(&f->peers[0], "pod=a");
    SERIES(&f->peers[1], "pod=b");
    hold_worker(f, &hold);
    left = ask_waiting(f, "LabelValues", "", LABELS, false);
    stayed = ask_waiting(f, "LabelValues", "", LABELS, true);
    alone = ask_waiting(f, "LabelNames", "", "{" WHEN "}", false);
    close(left);
    close(alone);
    /* Twice: what the loop has found in one turn it has handled in the next one. */
    for (int i = 0; i < 2; i++)
        fg_loop_call(f->served.loop, nothing, NULL);
    let_go(&hold);
    expect_answer(f, stayed, 200, LABELS_WANT, true);
    assert_int_equal(f->peers[0].calls[FG_RPC_SERIES], 1);
    hold_free(&hold);
}

/* The first one has less time, and none left when the worker comes to it. */
static void a_deadline_is_of_one_client(void **state)
{
    struct fixture *f = *state;
    struct hold hold;
    int hasty, patient;

    SERIES(&f->peers[0], "pod=a");
    SERIES(&f->peers[1], "pod=b");
    hold_worker(f, &hold);
    hasty = ask_waiting(f, "LabelValues", "\r\nConnect-Timeout-Ms: 20000", LABELS, false);
    patient = ask_waiting(f, "LabelValues", "\r\nConnect-Timeout-Ms: 40000", LABELS, true);
    f->clock.mono_ns += 21 * FG_SECOND_NS;
    let_go(&hold);
    expect_answer(f, hasty, 504, NULL, false);
    expect_answer(f, patient, 200, LABELS_WANT, false); /* it was asked again, for itself */
    hold_free(&hold);
}

static void a_failure_is_told_to_all(void **state)
{
    struct fixture *f = *state;
    struct hold hold;
    int fds[2];

    hold_worker(f, &hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        fds[i] =
            ask_waiting(f, "LabelValues", "", "{\"name\":\"pod\",\"start\":2,\"end\":1}", i > 0);
    let_go(&hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        expect_answer(f, fds[i], 400, INVALID("query start time is after end time"), i > 0);
    hold_free(&hold);
}

/* Large enough to be compressed, for both by the same job. */
static void a_compressed_answer_is_shared(void **state)
{
    struct fixture *f = *state;
    struct hold hold;
    char sets[400][16];
    const char *texts[FG_COUNT(sets)];
    struct fg_buf first;
    int fds[2];

    for (size_t i = 0; i < FG_COUNT(sets); i++) {
        (void)snprintf(sets[i], sizeof sets[i], "pod=name-%zu", i);
        texts[i] = sets[i];
    }
    answer_series(&f->peers[0], texts, FG_COUNT(texts));
    answer_series(&f->peers[1], texts, FG_COUNT(texts));
    hold_worker(f, &hold);
    for (size_t i = 0; i < FG_COUNT(fds); i++)
        fds[i] = ask_waiting(f, "LabelValues", "\r\nAccept-Encoding: gzip", LABELS, i > 0);
    let_go(&hold);
    fg_buf_init(&first, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(fds); i++) {
        struct fg_buf *answer = &f->served.answer;
        size_t head;

        expect_answer(f, fds[i], 200, NULL, i > 0);
        assert_true(head_has(f, "Content-Encoding: gzip"));
        assert_true(head_has(f, "Vary: Accept-Encoding"));
        head = (size_t)(body_of(f) - (const char *)answer->ptr);
        if (i == 0)
            fg_buf_append(&first, answer->ptr + head, answer->len - head);
        else
            assert_true(fg_slice_eq(fg_buf_slice(&first),
                                    fg_bytes(answer->ptr + head, answer->len - head)));
    }
    fg_buf_done(&first);
    hold_free(&hold);
}

static void page_is_served_with_etag(void **state)
{
    struct fixture *f = *state;
    char request[256], etag[32] = "";

    assert_int_equal(ask(f, "GET / HTTP/1.1", NULL), 200);
    assert_true(head_has(f, "text/html; charset=utf-8"));
    assert_true(head_has(f, "Content-Security-Policy: default-src 'self'"));
    assert_int_equal(
        sscanf(strstr((const char *)f->served.answer.ptr, "ETag: "), "ETag: %31s", etag), 1);
    (void)snprintf(request, sizeof request, "GET / HTTP/1.1\r\nIf-None-Match: %s", etag);
    assert_int_equal(ask(f, request, NULL), 304);
}

static void every_page_is_the_same_file_and_other_paths_are_404(void **state)
{
    struct fixture *f = *state;
    static const char *const pages[] = {
#define PATH(path) path,
        FG_UI_PAGES(PATH)
#undef PATH
            FG_UI_EMBED,
    };
    char request[256];

    for (size_t i = 0; i < FG_COUNT(pages); i++) {
        (void)snprintf(request, sizeof request, "GET %s?query=a HTTP/1.1", pages[i]);
        assert_int_equal(ask(f, request, NULL), 200);
        assert_non_null(strstr(body_of(f), "<title>flamegrid</title>"));
        assert_true(head_has(f, "frame-ancestors 'none'"));
        assert_true(head_has(f, "Cache-Control: no-cache"));
    }
    assert_int_equal(ask(f, "GET /diff/ HTTP/1.1", NULL), 404);
    assert_int_equal(ask(f, "GET /assets/none.js HTTP/1.1", NULL), 404);
    assert_int_equal(ask(f, "GET /index.html HTTP/1.1", NULL), 404);
    assert_int_equal(ask(f, "POST / HTTP/1.1", NULL), 405);
}

/* What a build has made of files that are compressed and of those that are not is the same to a
 * client that takes no compression. */
static void assets_are_whole_and_immutable(void **state)
{
    struct fixture *f = *state;
    size_t n_assets = 0, n_packed = 0;

    for (size_t i = 0; i < qry_n_ui_files; i++) {
        const struct qry_ui_file *file = &qry_ui_files[i];
        char request[256], length[64];

        if (!fg_slice_starts(fg_cstr(file->path), FG_UI_ASSETS))
            continue;
        n_assets++;
        (void)snprintf(request, sizeof request, "GET %s HTTP/1.1", file->path);
        assert_int_equal(ask(f, request, NULL), 200);
        assert_true(head_has(f, "Cache-Control: public, max-age=31536000, immutable"));
        assert_true(head_has(f, file->content_type));
        assert_false(head_has(f, "Content-Encoding"));
        (void)snprintf(length, sizeof length, "Content-Length: %zu\r\n", file->plain_len);
        assert_true(head_has(f, length));
        (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nAccept-Encoding: gzip",
                       file->path);
        assert_int_equal(ask(f, request, NULL), 200);
        if (file->len == file->plain_len)
            continue;
        n_packed++;
        assert_true(head_has(f, "Content-Encoding: gzip"));
        assert_true(head_has(f, "Vary: Accept-Encoding"));
        assert_memory_equal(body_of(f), file->bytes, file->len);
    }
    assert_true(n_assets > 3 && n_packed > 1 && n_packed < n_assets);
}

#define WITH(test)       cmocka_unit_test_setup_teardown(test, setup, teardown)
#define ONE_WORKER(test) cmocka_unit_test_setup_teardown(test, setup_one_worker, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(empty_result_of_each_method),
        WITH(error_texts_are_those_clients_know),
        WITH(stacks_of_all_ingesters_add_up),
        WITH(malformed_ids_are_refused),
        WITH(ingester_failure_fails_the_query),
        WITH(incomplete_response_says_so),
        WITH(metadata_of_all_ingesters_is_united),
        WITH(series_of_all_ingesters_add_up),
        WITH(render_returns_flame_graph_and_timeline),
        WITH(render_refuses_bad_parameters),
        WITH(connect_protocol_rules),
        WITH(stats_of_all_ingesters_add_up),
        cmocka_unit_test_setup_teardown(range_beyond_the_limit_is_refused, setup_short_queries,
                                        teardown),
        cmocka_unit_test_setup_teardown(full_queue_is_429, setup_full_lane, teardown),
        ONE_WORKER(what_waits_and_asks_the_same_is_asked_once),
        ONE_WORKER(what_differs_is_asked_for_itself),
        cmocka_unit_test_setup_teardown(tenants_never_share_an_answer, setup_tenants, teardown),
        ONE_WORKER(a_client_that_leaves_takes_nobody_along),
        ONE_WORKER(a_deadline_is_of_one_client),
        ONE_WORKER(a_failure_is_told_to_all),
        ONE_WORKER(a_compressed_answer_is_shared),
        WITH(status_names_members_and_limits),
        WITH(page_is_served_with_etag),
        WITH(every_page_is_the_same_file_and_other_paths_are_404),
        WITH(assets_are_whole_and_immutable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
