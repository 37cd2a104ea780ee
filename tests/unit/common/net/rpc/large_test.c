/* Answers that come in parts. */
#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/net/rpc/call.h"
#include "common/net/rpc/chunked_replies.h"
#include "common/net/rpc/request.h"
#include "tests/lib/peer_faulty.h"
#include "tests/lib/rpc_run.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define URL "inproc://large_test"

enum { PART = FG_RPC_PART_BYTES };

struct fixture {
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    struct fg_err err;
};

/* What large answers are made of: its beginning. */
static uint8_t pattern[8 * PART];

static void make_pattern(void)
{
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (uint8_t)(i * 31 >> 3);
}

/* Answers with as many bytes as the payload says. */
static void answer_large(struct fg_rpc_request *req, void *arg)
{
    struct fg_buf payload;
    size_t len;

    (void)arg;
    memcpy(&len, fg_rpc_payload(req).ptr, sizeof len);
    fg_buf_init(&payload, len);
    fg_buf_append(&payload, pattern, len);
    fg_rpc_reply_take(req, fg_rpc_head(req), &payload);
}

static int set_up(void **state, const char *url)
{
    struct fixture *f = fg_new(struct fixture);

    f->server = fg_rpc_server_create(NULL, 8);
    fg_rpc_server_handle(f->server, FG_RPC_SELECT, answer_large, NULL);
    fg_rpc_server_handle(f->server, FG_RPC_PUSH, rpc_run_echo, NULL);
    if (url == NULL) {
        f->peer = fg_peer_direct(f->server);
    } else {
        if (fg_rpc_server_start(f->server, url, &f->err) != FG_OK)
            fail_msg("%s", f->err.msg);
        assert_int_equal(fg_peer_dial(NULL, url, 8, &f->peer, &f->err), FG_OK);
        rpc_run_connected(f->peer); /* a call does not wait long for a connection */
    }
    *state = f;
    return 0;
}

static int set_up_direct(void **state)
{
    return set_up(state, NULL);
}

static int set_up_inproc(void **state)
{
    return set_up(state, URL);
}

static int set_up_tcp(void **state)
{
    char url[RPC_RUN_URL_BYTES];

    rpc_run_url("tcp", url);
    return set_up(state, url);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_peer_destroy(f->peer);
    fg_rpc_server_destroy(f->server);
    free(f);
    return 0;
}

static uint64_t held_bytes(const struct fixture *f)
{
    return fg_chunked_replies_bytes(fg_rpc_server_chunked_replies(f->server));
}

/* A server that sent a reply in vain drops it when it hears of that, which nobody waits for. */
static void wait_nothing_held(const struct fixture *f)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (unsigned i = 0; held_bytes(f) > 0 && i < 10000; i++)
        (void)nanosleep(&pause, NULL);
    assert_int_equal(held_bytes(f), 0);
}

/* len stays with the caller while it is sent. */
static struct fg_call make_call(const size_t *len)
{
    struct fg_call call = rpc_run_call(FG_RPC_SELECT, 30 * FG_SECOND_NS);

    call.payload = fg_bytes(len, sizeof *len);
    return call;
}

static bool is_right(struct fg_slice bytes, size_t from)
{
    return fg_slice_eq(bytes, fg_slice_sub(fg_bytes(pattern, sizeof pattern), from, bytes.len));
}

static void a_large_reply_is_assembled(void **state)
{
    const size_t sizes[] = {0,        1,        PART - 1,     PART,
                            PART + 1, 2 * PART, 2 * PART + 1, 7 * PART + 1234};
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(sizes); i++) {
        struct fg_call call = make_call(&sizes[i]);

        if (fg_peer_call(f->peer, &call) != FG_OK)
            fail_msg("%zu bytes: %s", sizes[i], call.err.msg);
        assert_true(fg_slice_is(call.reply_head, "head"));
        assert_int_equal(call.reply_payload.len, sizes[i]);
        assert_true(is_right(call.reply_payload, 0));
        fg_call_done(f->peer, &call);
        assert_int_equal(held_bytes(f), 0);
    }
}

/* A plain reply takes the same way. */
static void an_echo_is_unchanged(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, 30 * FG_SECOND_NS);
    uint8_t *bytes = fg_calloc(1, 3 * PART);

    call.payload = fg_bytes(bytes, 3 * PART);
    assert_int_equal(fg_peer_call(f->peer, &call), FG_OK);
    assert_true(fg_slice_eq(call.reply_payload, call.payload));
    fg_call_done(f->peer, &call);
    free(bytes);
}

struct taking {
    struct fg_call call;
    size_t taken, stop_at;
    unsigned parts;
    bool right;
};

static bool take(struct fg_call *call, struct fg_slice part)
{
    struct taking *taking = fg_container(call, struct taking, call);

    taking->right = taking->right && part.len <= PART && is_right(part, taking->taken);
    taking->taken += part.len;
    taking->parts++;
    return taking->taken < taking->stop_at;
}

static struct taking take_parts(struct fixture *f, size_t len, size_t stop_at)
{
    struct taking taking = {.call = make_call(&len), .stop_at = stop_at, .right = true};

    taking.call.on_part = take;
    (void)fg_peer_call(f->peer, &taking.call);
    assert_int_equal(taking.call.reply_payload.len, 0);
    fg_call_done(f->peer, &taking.call);
    assert_true(taking.right);
    assert_int_equal(held_bytes(f), 0);
    return taking;
}

static void a_large_reply_arrives_in_parts(void **state)
{
    struct taking taking = take_parts(*state, 5 * PART + 17, SIZE_MAX);

    assert_int_equal(taking.call.code, FG_OK);
    assert_int_equal(taking.taken, 5 * PART + 17);
    assert_int_equal(taking.parts, 6);
    taking = take_parts(*state, 17, SIZE_MAX); /* a small one is one part */
    assert_int_equal(taking.call.code, FG_OK);
    assert_int_equal(taking.parts, 1);
    taking = take_parts(*state, 0, SIZE_MAX);
    assert_int_equal(taking.call.code, FG_OK);
    assert_int_equal(taking.parts, 0);
}

static void a_receiver_can_end_the_reply(void **state)
{
    for (size_t stop_at = 1; stop_at <= 3; stop_at++) {
        struct taking taking = take_parts(*state, 3 * PART + 1, stop_at * PART);

        assert_int_equal(taking.call.code, FG_E_CANCELED);
        assert_int_equal(taking.parts, stop_at);
    }
}

static void keeps_the_callers_limit(void **state)
{
    struct fixture *f = *state;
    const size_t len = 3 * PART;
    struct fg_call call = make_call(&len);

    call.reply_max_bytes = len;
    assert_int_equal(fg_peer_call(f->peer, &call), FG_OK);
    fg_call_done(f->peer, &call);
    call = make_call(&len);
    call.reply_max_bytes = len - 1;
    assert_int_equal(fg_peer_call(f->peer, &call), FG_E_LIMIT);
    assert_string_equal(call.err.msg, "the response exceeds 3145727 bytes");
    assert_int_equal(call.reply_payload.len, 0);
    fg_call_done(f->peer, &call);
    wait_nothing_held(f);
}

static void says_when_the_server_has_no_room(void **state)
{
    char cluster[] = "";
    struct fg_rpc_settings settings = {
        .cluster = cluster, .threads = 2, .answers_max_bytes = 2 * PART};
    const size_t fits = 2 * PART, too_large = 2 * PART + 1;
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    struct fg_rpc *rpc;
    struct fg_err err;
    struct fg_call call = make_call(&too_large);

    (void)state;
    assert_int_equal(fg_rpc_create(&settings, NULL, &rpc, &err), FG_OK);
    server = fg_rpc_server_create(rpc, 1);
    fg_rpc_server_handle(server, FG_RPC_SELECT, answer_large, NULL);
    peer = fg_peer_direct(server);
    assert_int_equal(fg_peer_call(peer, &call), FG_E_LIMIT);
    fg_call_done(peer, &call);
    call = make_call(&fits);
    assert_int_equal(fg_peer_call(peer, &call), FG_OK);
    fg_call_done(peer, &call);
    fg_peer_destroy(peer);
    fg_rpc_server_destroy(server);
    fg_rpc_destroy(rpc);
}

/* --- callers that do not come back --- */

/* A caller that stands on nng itself. The frame that came lives as long as the message. */
static nng_msg *ask(nng_socket socket, const struct fg_rpc_frame *request,
                    struct fg_rpc_frame *ret_reply)
{
    nng_msg *msg;
    struct fg_err err;

    assert_int_equal(nng_msg_alloc(&msg, fg_rpc_frame_size(request)), 0);
    fg_rpc_frame_encode(request, nng_msg_body(msg));
    assert_int_equal(nng_sendmsg(socket, msg, 0), 0);
    assert_int_equal(nng_recvmsg(socket, &msg, 0), 0);
    assert_int_equal(
        fg_rpc_frame_decode(fg_bytes(nng_msg_body(msg), nng_msg_len(msg)), ret_reply, &err), FG_OK);
    return msg;
}

static nng_socket dial(void)
{
    nng_socket socket;

    assert_int_equal(nng_req0_open(&socket), 0);
    assert_int_equal(nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, 5000), 0);
    assert_int_equal(nng_dial(socket, URL, NULL, 0), 0);
    return socket;
}

/* The first part of a large answer; its name. */
static uint64_t ask_first(nng_socket socket, size_t len, uint64_t left_ms)
{
    struct fg_rpc_frame frame = {
        .kind = FG_RPC_SELECT, .left = left_ms, .payload = fg_bytes(&len, sizeof len)};

    nng_msg_free(ask(socket, &frame, &frame));
    assert_int_equal(frame.kind, 0);
    assert_int_equal(frame.left, len - PART);
    return frame.key;
}

/* What a MORE is answered with. */
static unsigned ask_more(nng_socket socket, struct fg_slice head)
{
    struct fg_rpc_frame frame = {.kind = FG_RPC_MORE, .left = 5000, .head = head};

    nng_msg_free(ask(socket, &frame, &frame));
    return frame.kind;
}

static void wait_until_nothing_is_held(const struct fixture *f)
{
    for (unsigned i = 0; i < 5000 && held_bytes(f) > 0; i++)
        usleep(1000);
    assert_int_equal(held_bytes(f), 0);
}

static void a_chunked_reply_is_removed_with_its_connection(void **state)
{
    nng_socket socket = dial();

    (void)ask_first(socket, 3 * PART, 60 * 1000);
    assert_int_equal(held_bytes(*state), 3 * PART);
    assert_int_equal(nng_close(socket), 0);
    wait_until_nothing_is_held(*state);
}

static _Atomic(struct fg_rpc_request *) kept;

/* Is answered later. */
static void keep(struct fg_rpc_request *req, void *arg)
{
    (void)arg;
    atomic_store(&kept, req);
}

/* Ones that take long meet callers that have given up. */
static void no_reply_is_kept_for_a_connection_that_has_ended(void **state)
{
    struct fg_rpc_frame frame = {.kind = FG_RPC_SELECT, .left = 60 * 1000};
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 1);
    struct fg_rpc_request *req;
    nng_socket socket;
    struct fg_err err;
    nng_msg *msg;

    (void)state;
    fg_rpc_server_handle(server, FG_RPC_SELECT, keep, NULL);
    assert_int_equal(fg_rpc_server_start(server, URL, &err), FG_OK);
    socket = dial();
    assert_int_equal(nng_msg_alloc(&msg, fg_rpc_frame_size(&frame)), 0);
    fg_rpc_frame_encode(&frame, nng_msg_body(msg));
    assert_int_equal(nng_sendmsg(socket, msg, 0), 0);
    while ((req = atomic_exchange(&kept, NULL)) == NULL)
        usleep(1000);
    assert_int_equal(nng_close(socket), 0);
    while (!fg_rpc_is_abandoned(req))
        usleep(1000);
    usleep(50000); /* what the end of the connection drops is dropped by now */
    fg_rpc_reply(req, FG_LIT(""), fg_bytes(pattern, 3 * PART));
    assert_int_equal(fg_chunked_replies_bytes(fg_rpc_server_chunked_replies(server)), 0);
    fg_rpc_server_destroy(server);
}

static void a_chunked_reply_is_removed_at_its_deadline(void **state)
{
    nng_socket socket = dial();

    (void)ask_first(socket, 3 * PART, 100);
    wait_until_nothing_is_held(*state); /* though nobody asks for anything */
    assert_int_equal(nng_close(socket), 0);
}

static void a_chunked_reply_is_found_by_its_connection_only(void **state)
{
    nng_socket first = dial(), second = dial();
    const size_t len = 2 * PART;
    const uint64_t key = ask_first(first, len, 60 * 1000);
    const struct fg_slice names[] = {fg_bytes(&key, 7), fg_bytes((uint64_t[]){key, PART}, 16),
                                     fg_bytes((uint64_t[]){key + 1, PART}, 16)};

    (void)state;
    assert_int_equal(ask_more(first, names[0]), fg_code_grpc(FG_E_INVALID));
    assert_int_equal(ask_more(second, names[1]), fg_code_grpc(FG_E_UNAVAILABLE));
    assert_int_equal(ask_more(first, names[2]), fg_code_grpc(FG_E_UNAVAILABLE));
    assert_int_equal(ask_more(first, names[1]), 0);
    assert_int_equal(ask_more(first, names[1]), fg_code_grpc(FG_E_UNAVAILABLE)); /* all is sent */
    assert_int_equal(nng_close(first), 0);
    assert_int_equal(nng_close(second), 0);
}

/* --- servers that lie --- */

/* Answers the first call and each MORE as it was told. */
struct liar {
    struct fg_peer peer;
    size_t part;
    uint64_t first_left, left;
    unsigned asked;
};

static void lie(struct fg_peer *base, struct fg_call *call)
{
    static const uint8_t bytes[100];
    struct liar *liar = fg_container(base, struct liar, peer);
    bool more = call->method == FG_RPC_MORE;

    call->code = FG_OK;
    call->rest_key = 1;
    call->rest_bytes = more ? liar->left : liar->first_left;
    call->reply_head = fg_bytes(NULL, 0);
    call->reply_payload = fg_bytes(bytes, more ? liar->part : 10);
    liar->asked++;
    fg_call_finish(call);
}

static void forget(struct fg_call *call)
{
    (void)call;
}

static void wrong_lengths_in_requests_are_refused(void **state)
{
    static const struct fg_peer_ops ops = {lie, forget, NULL};
    static const struct {
        const char *name;
        uint64_t first_left;
        size_t part;
        uint64_t left;
        enum fg_code code;
        unsigned asked;
    } cases[] = {
        {"empty parts", 50, 0, 50, FG_E_UNAVAILABLE, 3},
        {"parts that make it longer", 50, 10, 50, FG_E_UNAVAILABLE, 3},
        {"parts that make it shorter", 50, 10, 30, FG_E_UNAVAILABLE, 3},
        {"a part longer than the rest", 50, 100, 0, FG_E_UNAVAILABLE, 3},
        {"all there is and more", UINT64_MAX, 10, UINT64_MAX, FG_E_LIMIT, 2},
        {"an end", 50, 50, 0, FG_OK, 2},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct liar liar = {.peer.ops = &ops,
                            .first_left = cases[i].first_left,
                            .part = cases[i].part,
                            .left = cases[i].left};
        struct fg_call call = rpc_run_call(FG_RPC_SELECT, FG_SECOND_NS);

        print_message("  %s\n", cases[i].name);
        assert_int_equal(fg_peer_call(&liar.peer, &call), cases[i].code);
        assert_int_equal(liar.asked, cases[i].asked);
        fg_call_done(&liar.peer, &call);
    }
}

/* Every part takes its chances: an answer is whole, or there is none. */
static void lost_parts_are_reported(void **state)
{
    struct fixture *f = *state;
    struct fg_peer_faulty *faulty =
        fg_peer_faulty_create(f->peer, &(struct fg_peer_faults){.seed = 3,
                                                                .drop_request_permille = 100,
                                                                .drop_reply_permille = 100,
                                                                .duplicate_permille = 100});
    struct fg_peer *peer = fg_peer_faulty_peer(faulty);
    const size_t len = 3 * PART + 1;
    unsigned ok = 0;

    for (unsigned i = 0; i < 50; i++) {
        struct fg_call call = make_call(&len);

        if (fg_peer_call(peer, &call) == FG_OK) {
            assert_int_equal(call.reply_payload.len, len);
            assert_true(is_right(call.reply_payload, 0));
            ok++;
        } else {
            assert_int_equal(call.code, FG_E_UNAVAILABLE);
        }
        fg_call_done(peer, &call);
    }
    assert_in_range(ok, 10, 40);
    fg_peer_destroy(peer);
}

#define LARGE(test, way)                                                                           \
    {                                                                                              \
#test " (" #way ")", test, set_up_##way, tear_down, NULL                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        LARGE(a_large_reply_is_assembled, direct),
        LARGE(a_large_reply_is_assembled, inproc),
        LARGE(a_large_reply_is_assembled, tcp),
        LARGE(an_echo_is_unchanged, inproc),
        LARGE(a_large_reply_arrives_in_parts, direct),
        LARGE(a_large_reply_arrives_in_parts, tcp),
        LARGE(a_receiver_can_end_the_reply, direct),
        LARGE(a_receiver_can_end_the_reply, tcp),
        LARGE(keeps_the_callers_limit, direct),
        LARGE(keeps_the_callers_limit, tcp),
        cmocka_unit_test(says_when_the_server_has_no_room),
        LARGE(a_chunked_reply_is_removed_with_its_connection, inproc),
        cmocka_unit_test(no_reply_is_kept_for_a_connection_that_has_ended),
        LARGE(a_chunked_reply_is_removed_at_its_deadline, inproc),
        LARGE(a_chunked_reply_is_found_by_its_connection_only, inproc),
        cmocka_unit_test(wrong_lengths_in_requests_are_refused),
        LARGE(lost_parts_are_reported, direct),
    };

    make_pattern();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
