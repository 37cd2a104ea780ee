/* What is known and counted of a peer. */
#include "common/base/time.h"
#include "common/net/rpc/rpc.h"
#include "tests/lib/rpc_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct fg_rpc_settings settings;
    struct fg_registry *registry;
    struct fg_rpc *rpc;
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    char url[RPC_RUN_URL_BYTES];
    struct fg_err err;
};

static void refuse(struct fg_rpc_request *req, void *arg)
{
    const enum fg_code *code = arg;
    struct fg_err err;

    (void)fg_fail(&err, *code, "told to");
    fg_rpc_reply_error(req, &err);
}

static enum fg_code answer; /* of SELECT */

static void start_server(struct fixture *f)
{
    f->server = fg_rpc_server_create(f->rpc, 2);
    fg_rpc_server_handle(f->server, FG_RPC_PUSH, rpc_run_echo, NULL);
    fg_rpc_server_handle(f->server, FG_RPC_SELECT, refuse, &answer);
    if (fg_rpc_server_start(f->server, f->url, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
}

static struct fg_peer_health health_of(const struct fixture *f)
{
    struct fg_peer_health health;

    fg_peer_health(f->peer, &health);
    return health;
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->settings = (struct fg_rpc_settings){.threads = 2, .answers_max_bytes = 8 << 20};
    f->registry = fg_registry_create();
    assert_int_equal(fg_rpc_create(&f->settings, f->registry, &f->rpc, &f->err), FG_OK);
    rpc_run_url("tcp", f->url);
    start_server(f);
    assert_int_equal(fg_peer_dial(f->rpc, f->url, 2, &f->peer, &f->err), FG_OK);
    /* A dialer closed while it connects would leave that connection behind (README.md, "nng"). */
    rpc_run_connected(f->peer);
    while (!health_of(f).connected)
        usleep(1000); /* nng says so a moment after the first answer */
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_peer_destroy(f->peer);
    fg_rpc_server_destroy(f->server);
    fg_rpc_destroy(f->rpc);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

static enum fg_code call_once(struct fg_peer *peer, enum fg_rpc_method method)
{
    struct fg_call call = rpc_run_call(method, 5 * FG_SECOND_NS);
    enum fg_code code = fg_peer_call(peer, &call);

    fg_call_done(peer, &call);
    return code;
}

static bool is_bad(const struct fixture *f)
{
    return fg_peer_is_bad(f->peer, fg_mono_ns(fg_clock_real()));
}

static void health_follows_calls(void **state)
{
    struct fixture *f = *state;
    int64_t before_ns = fg_mono_ns(fg_clock_real());

    assert_true(health_of(f).connected);
    assert_true(health_of(f).connected_wall_ns > 0);
    assert_int_equal(call_once(f->peer, FG_RPC_PUSH), FG_OK);
    assert_true(health_of(f).success_mono_ns >= before_ns);
    assert_int_equal(health_of(f).calls, 0);
    fg_rpc_server_destroy(fg_take(f->server));
    for (unsigned failures = 1; failures <= 3; failures++) {
        assert_false(is_bad(f));
        assert_int_equal(call_once(f->peer, FG_RPC_PUSH), FG_E_UNAVAILABLE);
        assert_true(health_of(f).failures >= failures);
    }
    assert_true(is_bad(f));
    assert_false(health_of(f).connected);
    assert_int_equal(health_of(f).connected_wall_ns, 0);
    /* Not for ever: somebody has to find out. */
    assert_false(fg_peer_is_bad(f->peer, health_of(f).failure_mono_ns + 10 * FG_SECOND_NS));
    start_server(f);
    rpc_run_connected(f->peer);
    assert_int_equal(health_of(f).failures, 0);
    assert_false(is_bad(f));
}

/* An answer is an answer, and what was not even tried says nothing. */
static void errors_of_handlers_reach_the_caller(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum fg_code code;
        unsigned failures;
    } cases[] = {{FG_E_LIMIT, 0}, {FG_E_INVALID, 0}, {FG_E_UNAVAILABLE, 1}, {FG_E_CORRUPT, 0}};
    struct fg_call late = rpc_run_call(FG_RPC_PUSH, -1), large = rpc_run_call(FG_RPC_PUSH, 1);

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        answer = cases[i].code;
        assert_int_equal(call_once(f->peer, FG_RPC_SELECT), cases[i].code);
        assert_int_equal(health_of(f).failures, cases[i].failures);
    }
    assert_int_equal(fg_peer_call(f->peer, &late), FG_E_DEADLINE);
    fg_call_done(f->peer, &late);
    large.payload.len = FG_RPC_MESSAGE_MAX_BYTES; /* nobody reads it */
    assert_int_equal(fg_peer_call(f->peer, &large), FG_E_TOO_LARGE);
    fg_call_done(f->peer, &large);
    assert_int_equal(health_of(f).failures, 0);
    assert_int_equal(health_of(f).calls, 0);
}

/* The value of the one line that begins so; -1: there is none. */
static long long read_value(struct fixture *f, const char *line)
{
    struct fg_buf text;
    long long value = -1;

    fg_buf_init(&text, 1024 * 1024);
    fg_registry_write(f->registry, &text);
    fg_buf_putc(&text, 0);
    const char *at = strstr((const char *)text.ptr, line);
    if (at != NULL)
        value = strtoll(at + strlen(line), NULL, 10);
    fg_buf_done(&text);
    return value;
}

/* Of our peer; labels: those that stand before its address. */
static long long value_of(struct fixture *f, const char *name, const char *labels)
{
    char line[200];

    (void)snprintf(line, sizeof line, "\nflamegrid_rpc_%s{%speer=\"%s\"} ", name, labels,
                   strstr(f->url, "://") + 3);
    return read_value(f, line);
}

static void counts_under_its_address(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, 5 * FG_SECOND_NS);
    uint8_t *bytes = fg_calloc(3, FG_RPC_PART_BYTES);

    long long calls = value_of(f, "calls_total", "");
    long long received = value_of(f, "received_bytes_total", "");
    call.payload = fg_bytes(bytes, (size_t)3 * FG_RPC_PART_BYTES);
    assert_int_equal(fg_peer_call(f->peer, &call), FG_OK);
    assert_int_equal(value_of(f, "calls_under_way", ""), 1);
    fg_call_done(f->peer, &call);
    free(bytes);
    answer = FG_E_LIMIT;
    assert_int_equal(call_once(f->peer, FG_RPC_SELECT), FG_E_LIMIT);
    answer = FG_E_CORRUPT;
    assert_int_equal(call_once(f->peer, FG_RPC_SELECT), FG_E_CORRUPT);

    /* Three parts are one call. */
    assert_int_equal(value_of(f, "calls_total", ""), calls + 3);
    assert_int_equal(value_of(f, "call_duration_seconds_count", ""), calls + 3);
    assert_int_equal(value_of(f, "call_failures_total", "code=\"resource_exhausted\","), 1);
    assert_int_equal(value_of(f, "call_failures_total", "code=\"other\","), 1);
    assert_in_range(value_of(f, "received_bytes_total", "") - received, 3 * FG_RPC_PART_BYTES,
                    3 * FG_RPC_PART_BYTES + 500);
    assert_true(value_of(f, "sent_bytes_total", "") > 3 * FG_RPC_PART_BYTES);
    assert_int_equal(value_of(f, "calls_under_way", ""), 0);
    assert_int_equal(value_of(f, "peer_connected", ""), 1);
    assert_true(value_of(f, "peer_connected_since_timestamp_seconds", "") > 1500000000);
    assert_int_equal(read_value(f, "\nflamegrid_rpc_answers_waiting_bytes "), 0);
}

static void metrics_leave_with_their_peer(void **state)
{
    struct fixture *f = *state;

    assert_int_not_equal(value_of(f, "calls_total", ""), -1);
    fg_peer_destroy(fg_take(f->peer));
    assert_int_equal(read_value(f, "peer="), -1);
}

/* So many addresses that nobody could look at all of them. */
static void the_number_of_metric_labels_is_bounded(void **state)
{
    enum { PEERS = 300 };
    struct fixture *f = *state;
    struct fg_peer *peers[PEERS];

    for (unsigned i = 0; i < PEERS; i++) {
        char url[64];

        (void)snprintf(url, sizeof url, "inproc://nobody\"%u", i);
        assert_int_equal(fg_peer_dial(f->rpc, url, 1, &peers[i], &f->err), FG_OK);
    }
    assert_int_equal(read_value(f, "\nflamegrid_rpc_calls_total{peer=\"nobody_254\"} "), 0);
    assert_int_equal(read_value(f, "\nflamegrid_rpc_calls_total{peer=\"nobody_255\"} "), -1);
    assert_int_equal(read_value(f, "\nflamegrid_rpc_calls_total{peer=\"other\"} "), 0);
    for (unsigned i = 0; i < PEERS; i++)
        fg_peer_destroy(peers[i]);
    assert_int_equal(read_value(f, "\nflamegrid_rpc_calls_total{peer=\"other\"} "), -1);
}

#define HEALTH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEALTH(health_follows_calls),
        HEALTH(errors_of_handlers_reach_the_caller),
        HEALTH(counts_under_its_address),
        HEALTH(metrics_leave_with_their_peer),
        HEALTH(the_number_of_metric_labels_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
