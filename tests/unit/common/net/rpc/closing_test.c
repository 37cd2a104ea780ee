/*
 * Peers that are destroyed while calls wait for a server that reads nothing. Such calls are sent
 * again and again, a quarter of a second each: the moment at which the peer goes is moved over the
 * end of one.
 */
#include "common/base/time.h"
#include "common/net/rpc/rpc.h"
#include "tests/lib/rpc_run.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

enum {
    LARGE_CALLS = 8, /* more than buffers of sockets take */
    LARGE_BYTES = 12 << 20,
    CALLS = 2048,  /* so many that their ends take some milliseconds */
    TURN_MS = 250, /* peer.c */
    EARLIEST_MS = TURN_MS - 4,
    LATEST_MS = TURN_MS + 6,
};

static struct fg_peer *peer;
static atomic_uint n_ended;

static void note_end(struct fg_call *call)
{
    fg_assert(call->code != FG_OK);
    fg_call_done(peer, call);
    atomic_fetch_add(&n_ended, 1);
}

static void destroy_after(unsigned ms, const char *url, struct fg_slice large)
{
    static struct fg_call calls[CALLS];
    struct fg_err err;
    int64_t begun_ns;

    assert_int_equal(fg_peer_dial(NULL, url, CALLS, &peer, &err), FG_OK);
    while (atomic_load(&peer->connections) == 0)
        nng_msleep(1);
    atomic_store(&n_ended, 0);
    for (unsigned i = 0; i < CALLS; i++) {
        calls[i] = rpc_run_call(FG_RPC_PUSH, FG_MINUTE_NS);
        calls[i].done = note_end;
        if (i < LARGE_CALLS)
            calls[i].payload = large;
        fg_peer_send(peer, &calls[i]);
    }
    begun_ns = fg_mono_ns(fg_clock_real());
    while (fg_mono_ns(fg_clock_real()) - begun_ns < ms * FG_MS_NS) {
    }
    fg_peer_destroy(peer);
    assert_int_equal(atomic_load(&n_ended), CALLS);
}

static void destroying_a_peer_ends_every_call(void **state)
{
    struct fg_buf large;
    char url[RPC_RUN_URL_BYTES];
    nng_socket server;

    (void)state;
    fg_buf_init(&large, LARGE_BYTES);
    fg_buf_reserve(&large, LARGE_BYTES);
    memset(large.ptr, 'x', LARGE_BYTES);
    large.len = LARGE_BYTES;
    for (unsigned ms = EARLIEST_MS; ms <= LATEST_MS; ms++) {
        rpc_run_url("tcp", url);
        assert_int_equal(nng_rep0_open(&server), 0);
        assert_int_equal(nng_listen(server, url, NULL, 0), 0);
        destroy_after(ms, url, fg_buf_slice(&large));
        assert_int_equal(nng_close(server), 0);
    }
    fg_buf_done(&large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroying_a_peer_ends_every_call),
    };

    fg_rpc_init(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
