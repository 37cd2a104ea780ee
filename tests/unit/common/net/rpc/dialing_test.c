/* A peer is found soon after it is there, whatever the connects before that wait for. */
#include "common/net/rpc/rpc.h"
#include "tests/lib/rpc_run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>
#include <nng/protocol/reqrep0/rep.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 60 * 1000 /* nobody waits so long */ };

/* A process that is stopped: its kernel accepts, and it says nothing. */
static int listen_at(const char *url)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

    at.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static int accept_one(int listen_fd)
{
    struct pollfd wanted = {.fd = listen_fd, .events = POLLIN};
    int fd;

    assert_int_equal(poll(&wanted, 1, PATIENCE_MS), 1);
    fd = accept(listen_fd, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

/* Has the other side not closed it? */
static bool is_open(int fd)
{
    char greeting[64];
    ssize_t n;

    do {
        n = recv(fd, greeting, sizeof greeting, MSG_DONTWAIT);
    } while (n > 0);
    return n < 0 && errno == EAGAIN;
}

static bool is_connected(struct fg_peer *peer)
{
    struct fg_peer_health health;

    fg_peer_health(peer, &health);
    return health.connected;
}

/* Also that of the two who dial, one stays. */
static void expect_found(struct fg_peer *peer)
{
    rpc_run_connected(peer);
    while (atomic_load(&peer->connections) != 1)
        usleep(1000);
}

static struct fg_rpc_server *start_server(const char *url)
{
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 4);
    struct fg_err err;

    if (fg_rpc_server_start(server, url, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return server;
}

static void a_peer_that_does_not_greet_is_dialed_again(void **state)
{
    char url[RPC_RUN_URL_BYTES];
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    struct fg_err err;
    int listen_fd, first_fd, second_fd, third_fd;

    (void)state;
    rpc_run_url("tcp", url);
    listen_fd = listen_at(url);
    assert_int_equal(fg_peer_dial(NULL, url, 4, &peer, &err), FG_OK);
    first_fd = accept_one(listen_fd);
    second_fd = accept_one(listen_fd);
    assert_true(is_open(first_fd)); /* else somebody had given up before */
    third_fd = accept_one(listen_fd);
    assert_true(is_open(first_fd));
    assert_false(is_open(second_fd));
    assert_false(is_connected(peer));
    assert_int_equal(close(listen_fd), 0);
    server = start_server(url);
    expect_found(peer);
    assert_int_equal(close(first_fd), 0);
    assert_int_equal(close(second_fd), 0);
    assert_int_equal(close(third_fd), 0);
    expect_found(peer);
    fg_rpc_server_destroy(server);
    while (is_connected(peer))
        usleep(1000);
    server = start_server(url); /* the one that stayed dials by itself */
    expect_found(peer);
    fg_peer_destroy(peer);
    fg_rpc_server_destroy(server);
}

/* At any moment of dialling. */
static void a_peer_that_never_connected_can_be_destroyed(void **state)
{
    char url[RPC_RUN_URL_BYTES];
    struct fg_peer *peer;
    struct fg_err err;
    int listen_fd;

    (void)state;
    rpc_run_url("tcp", url);
    listen_fd = listen_at(url);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(fg_peer_dial(NULL, url, 4, &peer, &err), FG_OK);
        usleep(i * 50 * 1000);
        fg_peer_destroy(peer);
    }
    assert_int_equal(close(listen_fd), 0);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(fg_peer_dial(NULL, url, 4, &peer, &err), FG_OK);
        usleep(i * 50 * 1000);
        fg_peer_destroy(peer);
    }
}

/* --- other ends that do not stay --- */

static void count_connection(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    atomic_uint *connections = arg;

    (void)pipe, (void)event;
    (void)atomic_fetch_add(connections, 1);
}

static void turn_away(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    count_connection(pipe, event, arg);
    (void)nng_pipe_close(pipe);
}

/* Listens with a socket that is no server of ours, at a new address, and dials it. */
static struct fg_peer *dial_other(nng_socket other, char url[RPC_RUN_URL_BYTES])
{
    struct fg_peer *peer;
    struct fg_err err;

    rpc_run_url("tcp", url);
    assert_int_equal(nng_listen(other, url, NULL, 0), 0);
    assert_int_equal(fg_peer_dial(NULL, url, 4, &peer, &err), FG_OK);
    return peer;
}

/* Closes it; the server that takes its place is found. */
static void expect_replaced(nng_socket other, const char *url, struct fg_peer *peer)
{
    struct fg_rpc_server *server;

    assert_int_equal(nng_close(other), 0);
    server = start_server(url);
    expect_found(peer);
    fg_peer_destroy(peer);
    fg_rpc_server_destroy(server);
}

static void a_peer_of_another_protocol_is_not_connected(void **state)
{
    struct fg_call call = rpc_run_call(FG_RPC_PING, 20 * FG_SECOND_NS);
    atomic_uint attempts = 0;
    char url[RPC_RUN_URL_BYTES];
    struct fg_peer *peer;
    nng_socket other;

    (void)state;
    assert_int_equal(nng_pair0_open(&other), 0);
    assert_int_equal(nng_pipe_notify(other, NNG_PIPE_EV_ADD_PRE, count_connection, &attempts), 0);
    peer = dial_other(other, url);
    while (atomic_load(&attempts) < 3)
        usleep(1000);
    assert_false(is_connected(peer));
    assert_int_equal(fg_peer_call(peer, &call), FG_E_UNAVAILABLE); /* and not at its deadline */
    fg_call_done(peer, &call);
    expect_replaced(other, url, peer);
}

/* Such as one that has all the connections that it takes. */
static void a_peer_that_closes_connections_is_dialed_seldom(void **state)
{
    enum { SECONDS = 2, ATTEMPTS_MAX = 20 * SECONDS };
    atomic_uint attempts = 0;
    char url[RPC_RUN_URL_BYTES];
    struct fg_peer *peer;
    nng_socket other;

    (void)state;
    assert_int_equal(nng_rep0_open(&other), 0);
    assert_int_equal(nng_pipe_notify(other, NNG_PIPE_EV_ADD_POST, turn_away, &attempts), 0);
    peer = dial_other(other, url);
    while (atomic_load(&attempts) < 2)
        usleep(1000);
    nng_msleep(SECONDS * 1000);
    assert_in_range(atomic_load(&attempts), 2, ATTEMPTS_MAX);
    expect_replaced(other, url, peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_does_not_greet_is_dialed_again),
        cmocka_unit_test(a_peer_that_never_connected_can_be_destroyed),
        cmocka_unit_test(a_peer_of_another_protocol_is_not_connected),
        cmocka_unit_test(a_peer_that_closes_connections_is_dialed_seldom),
    };

    fg_rpc_init(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
