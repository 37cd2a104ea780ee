/* The frame, and the peer that needs no transport. */
#include "common/base/time.h"
#include "common/net/rpc/call.h"
#include "tests/lib/rpc_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void frame_is_what_the_header_says(void **state)
{
    struct fg_rpc_frame frame = {.kind = FG_RPC_PUSH,
                                 .key = 0x0807060504030201,
                                 .left = 0x0102,
                                 .head = FG_LIT("hd"),
                                 .payload = FG_LIT("pay")};
    const uint8_t wanted[] = {'F', 'G', 'R', '1', 2, 0, 0, 0, 1, 2, 3, 4,   5,   6,   7,   8,  2,
                              1,   0,   0,   0,   0, 0, 0, 2, 0, 0, 0, 'h', 'd', 'p', 'a', 'y'};
    uint8_t bytes[sizeof wanted];

    (void)state;
    assert_int_equal(fg_rpc_frame_size(&frame), sizeof wanted);
    fg_rpc_frame_encode(&frame, bytes);
    assert_memory_equal(bytes, wanted, sizeof wanted);
}

static void frame_comes_back(void **state)
{
    struct fg_rpc_frame frame = {.kind = 14, .left = UINT64_MAX, .payload = FG_LIT("p")}, back;
    uint8_t bytes[FG_RPC_FRAME_BYTES + 1];
    struct fg_err err;

    (void)state;
    fg_rpc_frame_encode(&frame, bytes);
    assert_int_equal(fg_rpc_frame_decode(fg_bytes(bytes, sizeof bytes), &back, &err), FG_OK);
    assert_int_equal(back.kind, 14);
    assert_true(back.left == UINT64_MAX);
    assert_int_equal(back.head.len, 0);
    assert_true(fg_slice_is(back.payload, "p"));
}

static void unknown_frames_are_refused(void **state)
{
    struct fg_rpc_frame frame = {.kind = 1, .head = FG_LIT("head")}, back;
    uint8_t bytes[FG_RPC_FRAME_BYTES + 4];
    struct fg_err err;

    (void)state;
    fg_rpc_frame_encode(&frame, bytes);
    for (size_t len = 0; len < sizeof bytes; len++)
        assert_int_equal(fg_rpc_frame_decode(fg_bytes(bytes, len), &back, &err), FG_E_INVALID);
    /* Another version and another flag are of a later release, anything else is not ours. */
    for (size_t at = 0; at < 8; at++) {
        if (at == 4)
            continue; /* the method */
        bytes[at] ^= 3;
        assert_int_equal(fg_rpc_frame_decode(fg_bytes(bytes, sizeof bytes), &back, &err),
                         at < 3 ? FG_E_INVALID : FG_E_UNIMPLEMENTED);
        bytes[at] ^= 3;
    }
    bytes[FG_RPC_FRAME_BYTES - 4] = 5; /* a head longer than what is there */
    assert_int_equal(fg_rpc_frame_decode(fg_bytes(bytes, sizeof bytes), &back, &err), FG_E_INVALID);
}

/* --- direct --- */

static void refuse(struct fg_rpc_request *req, void *arg)
{
    struct fg_err err;

    (void)arg;
    (void)fg_fail(&err, FG_E_LIMIT, "lane is full");
    fg_rpc_reply_error(req, &err);
}

static void direct_peer_answers(void **state)
{
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 1);
    struct fg_peer *peer = fg_peer_direct(server);
    struct fg_call call = rpc_run_call(FG_RPC_PING, FG_SECOND_NS);
    unsigned served = 0;

    (void)state;
    fg_rpc_server_handle(server, FG_RPC_PING, rpc_run_echo, &served);
    fg_rpc_server_handle(server, FG_RPC_PUSH, refuse, NULL);
    assert_int_equal(fg_peer_call(peer, &call), FG_OK);
    assert_true(fg_slice_is(call.reply_head, "head"));
    assert_true(fg_slice_is(call.reply_payload, "payload"));
    fg_call_done(peer, &call);

    call = rpc_run_call(FG_RPC_PUSH, FG_SECOND_NS);
    assert_int_equal(fg_peer_call(peer, &call), FG_E_LIMIT);
    assert_string_equal(call.err.msg, "lane is full");
    assert_int_equal(call.reply_head.len, 0);
    fg_call_done(peer, &call);

    call = rpc_run_call(FG_RPC_STATS, FG_SECOND_NS);
    assert_int_equal(fg_peer_call(peer, &call), FG_E_UNIMPLEMENTED);
    fg_call_done(peer, &call);

    call = rpc_run_call(FG_RPC_PING, FG_SECOND_NS);
    call.deadline_mono_ns = 1;
    assert_int_equal(fg_peer_call(peer, &call), FG_E_DEADLINE);
    fg_call_done(peer, &call);
    assert_int_equal(served, 1);
    fg_peer_destroy(peer);
    fg_rpc_server_destroy(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_is_what_the_header_says),
        cmocka_unit_test(frame_comes_back),
        cmocka_unit_test(unknown_frames_are_refused),
        cmocka_unit_test(direct_peer_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
