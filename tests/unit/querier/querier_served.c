#include "tests/unit/querier/querier_served.h"

#include "common/base/cursor.h"
#include "common/base/str.h"
#include "common/model/labels.h"
#include "common/model/tree.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/ring_bucket.h"

/* Each shard belongs to one of the two ingesters. */
static void make_ring(struct querier_served *f)
{
    f->bucket = fg_bucket_memory();
    for (unsigned i = 0; i < PEERS; i++) {
        char name[16], url[64];

        (void)snprintf(name, sizeof name, "i%u", i);
        (void)snprintf(url, sizeof url, "inproc://querier-test-%s", name);
        fake_peer_init(&f->peers[i], url);
        ring_bucket_join(f->bucket, name, url, (struct fg_id){1 + i, 1}, 1);
        /* Earlier members have drained into blocks, if there are any. */
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
    struct querier_served *f = fg_new(struct querier_served);

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

int querier_setup(void **state)
{
    return setup_with(state, 2, NULL, false);
}

int querier_setup_full_lane(void **state)
{
    return setup_with(state, 0, NULL, false);
}

int querier_setup_one_worker(void **state)
{
    return setup_with(state, 1, NULL, false);
}

int querier_setup_tenants(void **state)
{
    return setup_with(state, 1, NULL, true);
}

static void short_queries(struct fg_limit_settings *limits)
{
    limits->max_query_length_ns = 90 * FG_MINUTE_NS;
}

int querier_setup_short_queries(void **state)
{
    return setup_with(state, 2, short_queries, false);
}

int querier_teardown(void **state)
{
    struct querier_served *f = *state;

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

/* ---- asking ---- */

unsigned querier_ask(struct querier_served *f, const char *request, const char *body)
{
    return served_ask(&f->served, request, body);
}

const char *querier_body(struct querier_served *f)
{
    return http_ask_body(&f->served.answer);
}

bool querier_head_has(struct querier_served *f, const char *text)
{
    return http_ask_head_has(&f->served.answer, text);
}

unsigned querier_call(struct querier_served *f, const char *method, const char *json)
{
    char request[256];

    (void)snprintf(request, sizeof request,
                   "POST /querier.v1.QuerierService/%s HTTP/1.1\r\n"
                   "Content-Type: application/json",
                   method);
    return querier_ask(f, request, json);
}

void querier_expect(struct querier_served *f, const char *method, const char *json, unsigned status,
                    const char *want)
{
    print_message("  %s %s\n", method, json);
    assert_int_equal(querier_call(f, method, json), status);
    assert_string_equal(querier_body(f), want);
}

void querier_expect_get(struct querier_served *f, const char *path, unsigned status,
                        const char *want)
{
    char request[1024];

    print_message("  %s\n", path);
    (void)snprintf(request, sizeof request, "GET %s HTTP/1.1", path);
    assert_int_equal(querier_ask(f, request, NULL), status);
    assert_string_equal(querier_body(f), want);
}

/* ---- what peers answer ---- */

/* "main;work 5" lines. */
void querier_answer_stacks(struct fake_peer *peer, const char *const *stacks, size_t n)
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

void querier_answer_series(struct fake_peer *peer, const char *const *sets, size_t n)
{
    struct fg_buf *out = &peer->payloads[FG_RPC_SERIES];

    fg_buf_clear(out);
    fg_buf_varint(out, n);
    for (size_t i = 0; i < n; i++)
        put_labels(out, sets[i]);
}

void querier_add_points(struct fake_peer *peer, const char *labels,
                        const struct querier_point *points, size_t n)
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
