/* Peers by address: made once, kept while in use, closed when idle. */
#include "common/base/time.h"
#include "common/net/rpc/peers.h"
#include "tests/lib/rpc_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { SERVERS = 3, PEERS_MAX = 4 };

struct fixture {
    struct fg_rpc_server *servers[SERVERS];
    char urls[SERVERS][RPC_RUN_URL_BYTES];
    _Atomic(struct fg_rpc_request *) waiting;
    struct fg_peers *peers;
    struct fg_err err;
};

static void keep(struct fg_rpc_request *req, void *arg)
{
    struct fixture *f = arg;

    atomic_store(&f->waiting, req);
}

static struct fg_peers *create(int64_t idle_ns)
{
    return fg_peers_create(
        &(struct fg_peers_config){.calls_max = 8, .peers_max = PEERS_MAX, .idle_ns = idle_ns});
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    for (size_t i = 0; i < SERVERS; i++) {
        (void)snprintf(f->urls[i], RPC_RUN_URL_BYTES, "inproc://peers_test%zu", i);
        f->servers[i] = fg_rpc_server_create(NULL, 4);
        fg_rpc_server_handle(f->servers[i], FG_RPC_PUSH, rpc_run_echo, NULL);
        fg_rpc_server_handle(f->servers[i], FG_RPC_SELECT, keep, f);
        assert_int_equal(fg_rpc_server_start(f->servers[i], f->urls[i], &f->err), FG_OK);
    }
    f->peers = create(0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_peers_destroy(f->peers);
    for (size_t i = 0; i < SERVERS; i++)
        fg_rpc_server_destroy(f->servers[i]);
    free(f);
    return 0;
}

static struct fg_peer *get(struct fixture *f, const char *url)
{
    struct fg_peer *peer = NULL;

    if (fg_peers_get(f->peers, url, &peer, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
    return peer;
}

static void each_address_has_one_peer(void **state)
{
    struct fixture *f = *state;
    struct fg_peer *first = get(f, f->urls[0]), *second = get(f, f->urls[1]);

    assert_ptr_not_equal(first, second);
    assert_ptr_equal(get(f, f->urls[0]), first);
    assert_int_equal(fg_peers_count(f->peers), 2);
    rpc_run_connected(first);
    rpc_run_connected(second);
    fg_peers_put(f->peers, first);
    fg_peers_put(f->peers, first);
    fg_peers_put(f->peers, second);
}

static void idle_ones_are_closed(void **state)
{
    struct fixture *f = *state;
    struct fg_peer *first = get(f, f->urls[0]), *second = get(f, f->urls[1]);

    fg_peers_put(f->peers, first);
    fg_peers_sweep(f->peers);
    assert_int_equal(fg_peers_count(f->peers), 1); /* the other is in hand */
    fg_peers_put(f->peers, second);
    fg_peers_sweep(f->peers);
    assert_int_equal(fg_peers_count(f->peers), 0);
    first = get(f, f->urls[0]); /* and is created again */
    rpc_run_connected(first);
    fg_peers_put(f->peers, first);
}

/* Ends when it is told to, on the transport's thread. */
struct noted {
    struct fg_call call;
    atomic_bool ended;
};

static void note_end(struct fg_call *call)
{
    atomic_store(&fg_container(call, struct noted, call)->ended, true);
}

static void calls_in_flight_keep_a_peer_open(void **state)
{
    struct fixture *f = *state;
    struct noted noted = {.call = rpc_run_call(FG_RPC_SELECT, 10 * FG_SECOND_NS)};
    struct fg_peer *peer = get(f, f->urls[0]);
    struct fg_rpc_request *req;

    noted.call.done = note_end;
    rpc_run_connected(peer);
    fg_peer_send(peer, &noted.call);
    fg_peers_put(f->peers, peer);
    while ((req = atomic_exchange(&f->waiting, NULL)) == NULL)
        usleep(1000);
    fg_peers_sweep(f->peers);
    assert_int_equal(fg_peers_count(f->peers), 1);
    fg_rpc_reply(req, FG_LIT("at last"), FG_LIT(""));
    while (!atomic_load(&noted.ended))
        usleep(1000);
    fg_peers_sweep(f->peers);
    assert_int_equal(fg_peers_count(f->peers), 1); /* its answer is not given back yet */
    assert_true(fg_slice_is(noted.call.reply_head, "at last"));
    fg_call_done(peer, &noted.call);
    fg_peers_sweep(f->peers);
    assert_int_equal(fg_peers_count(f->peers), 0);
}

static void the_number_of_peers_is_limited(void **state)
{
    struct fixture *f = *state;
    struct fg_peer *in_hand[PEERS_MAX], *more;
    char url[64];

    for (unsigned i = 0; i < PEERS_MAX; i++) {
        (void)snprintf(url, sizeof url, "inproc://nobody%u", i);
        in_hand[i] = get(f, url);
    }
    assert_int_equal(fg_peers_get(f->peers, f->urls[0], &more, &f->err), FG_E_LIMIT);
    fg_peers_put(f->peers, in_hand[2]);
    more = get(f, f->urls[0]); /* in the place of the idle one */
    assert_int_equal(fg_peers_count(f->peers), PEERS_MAX);
    fg_peers_put(f->peers, more);
    for (unsigned i = 0; i < PEERS_MAX; i++)
        if (i != 2)
            fg_peers_put(f->peers, in_hand[i]);
}

static void invalid_addresses_are_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_peer *peer;

    assert_int_equal(fg_peers_get(f->peers, "nowhere", &peer, &f->err), FG_E_INVALID);
    assert_int_equal(fg_peers_count(f->peers), 0);
}

static void closes_by_itself(void **state)
{
    struct fixture *f = *state;

    fg_peers_destroy(f->peers);
    f->peers = create(10 * FG_MS_NS);
    struct fg_peer *peer = get(f, f->urls[0]);
    rpc_run_connected(peer);
    assert_int_equal(fg_peers_count(f->peers), 1);
    fg_peers_put(f->peers, peer);
    for (unsigned i = 0; i < 5000 && fg_peers_count(f->peers) > 0; i++)
        usleep(1000);
    assert_int_equal(fg_peers_count(f->peers), 0);
}

/* --- all at once --- */

enum { THREADS = 4, ROUNDS = 60 };

static void *come_and_go(void *arg)
{
    struct fixture *f = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct fg_call call = rpc_run_call(FG_RPC_PUSH, 20 * FG_SECOND_NS);
        struct fg_peer *peer;
        struct fg_err err;

        if (fg_peers_get(f->peers, f->urls[i % SERVERS], &peer, &err) != FG_OK)
            return &come_and_go; /* wrong */
        if (fg_peer_call(peer, &call) != FG_OK && call.code != FG_E_UNAVAILABLE)
            return &come_and_go;
        fg_call_done(peer, &call);
        fg_peers_put(f->peers, peer);
        if (i % 4 == 0)
            fg_peers_sweep(f->peers);
    }
    return NULL;
}

static void many_threads_come_and_go(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[THREADS];

    fg_peers_destroy(f->peers);
    f->peers = create(FG_MS_NS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, f), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

#define PEERS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEERS(each_address_has_one_peer),        PEERS(idle_ones_are_closed),
        PEERS(calls_in_flight_keep_a_peer_open), PEERS(the_number_of_peers_is_limited),
        PEERS(invalid_addresses_are_refused),    PEERS(closes_by_itself),
        PEERS(many_threads_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
