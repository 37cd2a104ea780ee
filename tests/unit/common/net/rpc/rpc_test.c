/* Calls over nng, by inproc and TCP. */
#include "common/base/time.h"
#include "common/net/rpc/call.h"
#include "tests/lib/rpc_run.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

#define URL "inproc://rpc_test"

static char tcp_url[RPC_RUN_URL_BYTES];

static int64_t now_ns(void)
{
    return fg_mono_ns(fg_clock_real());
}

/* --- handlers --- */

static void refuse(struct fg_rpc_request *req, void *arg)
{
    struct fg_err err;

    (void)arg;
    (void)fg_fail(&err, FG_E_LIMIT, "lane is full");
    fg_rpc_reply_error(req, &err);
}

/* Keeps the request until somebody replies. */
struct shelf {
    _Atomic(struct fg_rpc_request *) req;
};

static void keep(struct fg_rpc_request *req, void *arg)
{
    struct shelf *shelf = arg;

    atomic_store(&shelf->req, req);
}

static struct fg_rpc_request *wait_for_request(struct shelf *shelf)
{
    struct fg_rpc_request *req;

    while ((req = atomic_exchange(&shelf->req, NULL)) == NULL)
        usleep(1000);
    return req;
}

/* --- a server and a peer --- */

struct fixture {
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    struct shelf shelf;
    struct fg_err err;
};

static int set_up_url(void **state, const char *url)
{
    struct fixture *f = fg_new(struct fixture);

    f->server = fg_rpc_server_create(NULL, 8);
    fg_rpc_server_handle(f->server, FG_RPC_PING, rpc_run_echo, NULL);
    fg_rpc_server_handle(f->server, FG_RPC_SERIES, rpc_run_echo, NULL);
    fg_rpc_server_handle(f->server, FG_RPC_PUSH, refuse, NULL);
    fg_rpc_server_handle(f->server, FG_RPC_SELECT, keep, &f->shelf);
    if (fg_rpc_server_start(f->server, url, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
    assert_int_equal(fg_peer_dial(NULL, url, 64, &f->peer, &f->err), FG_OK);
    *state = f;
    return 0;
}

static int set_up_inproc(void **state)
{
    return set_up_url(state, URL);
}

static int set_up_tcp(void **state)
{
    return set_up_url(state, tcp_url);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_peer_destroy(f->peer);
    fg_rpc_server_destroy(f->server);
    free(f);
    return 0;
}

/* Calls that are not waited for: done() counts. */
struct counted {
    struct fg_call call;
    atomic_int *left;
};

static void count_down(struct fg_call *call)
{
    atomic_fetch_sub(fg_container(call, struct counted, call)->left, 1);
}

static void wait_until_zero(atomic_int *left)
{
    while (atomic_load(left) > 0)
        usleep(1000);
}

/* --- the tests --- */

static void answers(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_PING, 5 * FG_SECOND_NS);

    assert_int_equal(fg_peer_call(f->peer, &call), FG_OK);
    assert_true(fg_slice_is(call.reply_head, "head"));
    assert_true(fg_slice_is(call.reply_payload, "payload"));
    fg_call_done(f->peer, &call);
}

static void answers_errors(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, 5 * FG_SECOND_NS);

    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_LIMIT);
    assert_string_equal(call.err.msg, "lane is full");
    fg_call_done(f->peer, &call);
    call = rpc_run_call(FG_RPC_STATS, 5 * FG_SECOND_NS);
    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_UNIMPLEMENTED);
    fg_call_done(f->peer, &call);
}

static void megabytes_pass_unchanged(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_SERIES, 20 * FG_SECOND_NS);
    size_t len = (4 << 20) + 1;
    uint8_t *bytes = fg_malloc(len);

    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    call.payload = fg_bytes(bytes, len);
    assert_int_equal(fg_peer_call(f->peer, &call), FG_OK);
    assert_true(fg_slice_eq(call.reply_payload, call.payload));
    fg_call_done(f->peer, &call);
    free(bytes);
}

static void refuses_oversize_before_sending(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_PING, FG_SECOND_NS);

    call.payload.len = FG_RPC_MESSAGE_MAX_BYTES; /* nobody reads it */
    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_TOO_LARGE);
    fg_call_done(f->peer, &call);
    answers(state); /* and the connection is still there */
}

static void keeps_deadlines(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_SELECT, 100 * FG_MS_NS);
    int64_t start_ns = now_ns();

    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_DEADLINE);
    assert_in_range(now_ns() - start_ns, 99 * FG_MS_NS, 5 * FG_SECOND_NS);
    fg_call_done(f->peer, &call);
    /* The answer that comes too late goes nowhere. */
    fg_rpc_reply(wait_for_request(&f->shelf), FG_LIT("late"), FG_LIT(""));
    answers(state);

    call = rpc_run_call(FG_RPC_PING, -1);
    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_DEADLINE);
    fg_call_done(f->peer, &call);
}

static void knows_the_deadline_on_the_server(void **state)
{
    struct fixture *f = *state;
    atomic_int left = 1;
    struct counted one = {rpc_run_call(FG_RPC_SELECT, 10 * FG_SECOND_NS), &left};

    one.call.done = count_down;
    fg_peer_send(f->peer, &one.call);
    struct fg_rpc_request *req = wait_for_request(&f->shelf);
    assert_int_equal(fg_rpc_method(req), FG_RPC_SELECT);
    assert_in_range(fg_rpc_deadline_mono_ns(req) - now_ns(), FG_SECOND_NS, 11 * FG_SECOND_NS);
    fg_rpc_reply(req, FG_LIT(""), FG_LIT(""));
    wait_until_zero(&left);
    assert_int_equal(one.call.code, FG_OK);
    fg_call_done(f->peer, &one.call);
}

static void slow_handlers_block_nobody(void **state)
{
    struct fixture *f = *state;
    atomic_int left = 1;
    struct counted slow = {rpc_run_call(FG_RPC_SELECT, 10 * FG_SECOND_NS), &left};

    slow.call.done = count_down;
    fg_peer_send(f->peer, &slow.call);
    struct fg_rpc_request *req = wait_for_request(&f->shelf);
    for (unsigned i = 0; i < 100; i++)
        answers(state);
    assert_int_equal(atomic_load(&left), 1);
    fg_rpc_reply(req, FG_LIT("slow"), FG_LIT(""));
    wait_until_zero(&left);
    assert_true(fg_slice_is(slow.call.reply_head, "slow"));
    fg_call_done(f->peer, &slow.call);
}

static void calls_in_flight_are_limited(void **state)
{
    struct fixture *f = *state;
    struct fg_call second = rpc_run_call(FG_RPC_PING, FG_SECOND_NS);
    atomic_int left = 1;
    struct counted first = {rpc_run_call(FG_RPC_SELECT, 10 * FG_SECOND_NS), &left};
    struct fg_peer *narrow;

    assert_int_equal(fg_peer_dial(NULL, URL, 1, &narrow, &f->err), FG_OK);
    first.call.done = count_down;
    fg_peer_send(narrow, &first.call);
    struct fg_rpc_request *req = wait_for_request(&f->shelf);
    assert_int_equal(fg_peer_call(narrow, &second), FG_E_LIMIT);
    fg_call_done(narrow, &second);
    fg_rpc_reply(req, FG_LIT(""), FG_LIT(""));
    wait_until_zero(&left);
    fg_call_done(narrow, &first.call);
    second = rpc_run_call(FG_RPC_PING, FG_SECOND_NS);
    assert_int_equal(fg_peer_call(narrow, &second), FG_OK);
    fg_call_done(narrow, &second);
    fg_peer_destroy(narrow);
}

enum { CALLERS = 4, CALLS_EACH = 1500 };

static void *call_many(void *arg)
{
    struct fixture *f = arg;

    for (uint64_t i = 0; i < CALLS_EACH; i++) {
        struct fg_call call = rpc_run_call(FG_RPC_PING, 30 * FG_SECOND_NS);
        uint64_t own[2] = {(uint64_t)pthread_self(), i};

        call.payload = fg_bytes(own, sizeof own);
        if (fg_peer_call(f->peer, &call) != FG_OK || !fg_slice_eq(call.reply_payload, call.payload))
            return &call_many; /* wrong */
        fg_call_done(f->peer, &call);
    }
    return NULL;
}

static void replies_match_from_many_threads(void **state)
{
    pthread_t threads[CALLERS];

    for (unsigned i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_many, *state), 0);
    for (unsigned i = 0; i < CALLERS; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

static struct fg_loop *done_at;

static void count_down_at_home(struct fg_call *call)
{
    fg_assert(fg_loop_is_current(done_at));
    count_down(call);
}

static void done_runs_on_the_home_loop(void **state)
{
    struct fixture *f = *state;
    enum { CALLS = 50 };
    static struct counted calls[CALLS];
    atomic_int left = CALLS;

    done_at = fg_loop_create("home");
    assert_int_equal(fg_loop_start(done_at, &f->err), FG_OK);
    for (unsigned i = 0; i < CALLS; i++) {
        calls[i] = (struct counted){rpc_run_call(FG_RPC_PING, 10 * FG_SECOND_NS), &left};
        calls[i].call.home = done_at;
        calls[i].call.done = count_down_at_home;
        fg_peer_send(f->peer, &calls[i].call);
    }
    wait_until_zero(&left);
    for (unsigned i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i].call.code, FG_OK);
        fg_call_done(f->peer, &calls[i].call);
    }
    fg_loop_stop(done_at);
    fg_loop_destroy(done_at);
}

static void *reply_in_a_moment(void *arg)
{
    usleep(50000);
    fg_rpc_reply(arg, FG_LIT("last words"), FG_LIT(""));
    return NULL;
}

static void stopping_waits_for_answers(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_PING, 5 * FG_SECOND_NS);
    atomic_int left = 1;
    struct counted last = {rpc_run_call(FG_RPC_SELECT, 10 * FG_SECOND_NS), &left};
    pthread_t thread;

    last.call.done = count_down;
    fg_peer_send(f->peer, &last.call);
    struct fg_rpc_request *req = wait_for_request(&f->shelf);
    assert_int_equal(pthread_create(&thread, NULL, reply_in_a_moment, req), 0);
    fg_rpc_server_stop(f->server);
    assert_int_equal(pthread_join(thread, NULL), 0);
    wait_until_zero(&left);
    assert_int_equal(last.call.code, FG_OK);
    assert_true(fg_slice_is(last.call.reply_head, "last words"));
    fg_call_done(f->peer, &last.call);

    int64_t start_ns = now_ns();
    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_UNAVAILABLE);
    assert_true(now_ns() - start_ns < FG_SECOND_NS);
    fg_call_done(f->peer, &call);
}

/* --- other ends that are not ours --- */

static void refuses_foreign_requests(void **state)
{
    nng_socket socket;
    nng_msg *msg;
    struct fg_rpc_frame reply;
    struct fg_err err;

    (void)state;
    assert_int_equal(nng_req0_open(&socket), 0);
    assert_int_equal(nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, 5000), 0);
    assert_int_equal(nng_dial(socket, URL, NULL, 0), 0);
    assert_int_equal(nng_msg_alloc(&msg, 0), 0);
    assert_int_equal(nng_msg_append(msg, "FGR2 from the future, a version we do not know", 46), 0);
    assert_int_equal(nng_sendmsg(socket, msg, 0), 0);
    assert_int_equal(nng_recvmsg(socket, &msg, 0), 0);
    assert_int_equal(
        fg_rpc_frame_decode(fg_bytes(nng_msg_body(msg), nng_msg_len(msg)), &reply, &err), FG_OK);
    assert_int_equal(reply.kind, fg_code_grpc(FG_E_UNIMPLEMENTED));
    nng_msg_free(msg);
    assert_int_equal(nng_close(socket), 0);
}

static void refuses_foreign_replies(void **state)
{
    struct fg_call call = rpc_run_call(FG_RPC_PING, 5 * FG_SECOND_NS);
    struct fg_peer *peer;
    nng_socket socket;
    struct fg_err err;
    atomic_int left = 1;
    struct counted one = {call, &left};
    struct fg_peer_health health;
    nng_msg *msg;

    (void)state;
    assert_int_equal(nng_rep0_open(&socket), 0);
    assert_int_equal(nng_listen(socket, "inproc://foreign", NULL, 0), 0);
    assert_int_equal(fg_peer_dial(NULL, "inproc://foreign", 1, &peer, &err), FG_OK);
    one.call.done = count_down;
    fg_peer_send(peer, &one.call);
    assert_int_equal(nng_recvmsg(socket, &msg, 0), 0);
    nng_msg_clear(msg);
    assert_int_equal(nng_sendmsg(socket, msg, 0), 0);
    wait_until_zero(&left);
    /* The service is not there; the request was not at fault. */
    assert_int_equal(one.call.code, FG_E_UNAVAILABLE);
    assert_int_equal(one.call.err.code, FG_E_UNAVAILABLE);
    fg_call_done(peer, &one.call);
    fg_peer_health(peer, &health);
    assert_int_equal(health.failures, 1);
    fg_peer_destroy(peer);
    assert_int_equal(nng_close(socket), 0);
}

/* An address that now belongs to another cluster, or a process that was told nothing. */
static void tells_clusters_apart(void **state)
{
    char ours[] = "eu-1", theirs[] = "eu-2";
    struct fg_rpc_settings our_settings = {.cluster = ours, .threads = 2, .answers_max_bytes = 1};
    struct fg_rpc_settings their_settings = {.cluster = theirs, .threads = 2};
    struct fg_rpc *our_rpc, *their_rpc;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_rpc_create(&our_settings, NULL, &our_rpc, &err), FG_OK);
    assert_int_equal(fg_rpc_create(&their_settings, NULL, &their_rpc, &err), FG_OK);
    struct fg_rpc_server *server = fg_rpc_server_create(our_rpc, 2);
    struct {
        struct fg_rpc *rpc;
        enum fg_code code;
    } cases[] = {{our_rpc, FG_OK}, {their_rpc, FG_E_UNAVAILABLE}, {NULL, FG_E_UNAVAILABLE}};

    assert_int_equal(fg_rpc_server_start(server, "inproc://cluster", &err), FG_OK);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_call call = rpc_run_call(FG_RPC_PING, 5 * FG_SECOND_NS);
        struct fg_peer *peer;

        assert_int_equal(fg_peer_dial(cases[i].rpc, "inproc://cluster", 1, &peer, &err), FG_OK);
        assert_int_equal(fg_peer_call(peer, &call), cases[i].code);
        if (call.code != FG_OK)
            assert_string_equal(call.err.msg,
                                "this is cluster \"eu-1\", the caller belongs to another");
        fg_call_done(peer, &call);
        fg_peer_destroy(peer);
    }
    fg_rpc_server_destroy(server);
    fg_rpc_destroy(their_rpc);
    fg_rpc_destroy(our_rpc);
}

static void calls_without_a_server_are_unavailable(void **state)
{
    struct fg_call call = rpc_run_call(FG_RPC_PING, 10 * FG_SECOND_NS);
    struct fg_peer *peer;
    struct fg_err err;
    int64_t start_ns = now_ns();

    (void)state;
    assert_int_equal(fg_peer_dial(NULL, "inproc://nobody", 4, &peer, &err), FG_OK);
    assert_int_equal(fg_peer_call(peer, &call), FG_E_UNAVAILABLE);
    assert_true(now_ns() - start_ns < 2 * FG_SECOND_NS);
    fg_call_done(peer, &call);
    fg_peer_destroy(peer);
    assert_int_equal(fg_peer_dial(NULL, "carrier-pigeon://x", 4, &peer, &err), FG_E_INVALID);
}

static void server_says_when_it_cannot_listen(void **state)
{
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 2);
    struct fg_err err;

    (void)state; /* the fixture's server is there already */
    assert_int_not_equal(fg_rpc_server_start(server, URL, &err), FG_OK);
    fg_rpc_server_destroy(server);
}

#define INPROC(test) cmocka_unit_test_setup_teardown(test, set_up_inproc, tear_down)
#define TCP(test)                                                                                  \
    {                                                                                              \
#test " (tcp)", test, set_up_tcp, tear_down, NULL                                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        INPROC(answers),
        INPROC(answers_errors),
        INPROC(megabytes_pass_unchanged),
        INPROC(refuses_oversize_before_sending),
        INPROC(keeps_deadlines),
        INPROC(knows_the_deadline_on_the_server),
        INPROC(slow_handlers_block_nobody),
        INPROC(calls_in_flight_are_limited),
        INPROC(replies_match_from_many_threads),
        INPROC(done_runs_on_the_home_loop),
        INPROC(stopping_waits_for_answers),
        INPROC(refuses_foreign_requests),
        INPROC(server_says_when_it_cannot_listen),
        TCP(answers),
        TCP(answers_errors),
        TCP(megabytes_pass_unchanged),
        TCP(refuses_oversize_before_sending),
        TCP(keeps_deadlines),
        TCP(slow_handlers_block_nobody),
        TCP(replies_match_from_many_threads),
        TCP(stopping_waits_for_answers),
        cmocka_unit_test(refuses_foreign_replies),
        cmocka_unit_test(tells_clusters_apart),
        cmocka_unit_test(calls_without_a_server_are_unavailable),
    };

    rpc_run_url("tcp", tcp_url);
    fg_rpc_init(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
