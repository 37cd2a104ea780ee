/* A peer that takes everything and says nothing is given up; one that is only slow is not. */
#include "common/base/time.h"
#include "common/net/rpc/rpc.h"
#include "tests/lib/rpc_run.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_S = 60 }; /* nobody waits so long */

/* --- who takes everything --- */

struct mute {
    int listen_fd;
    atomic_int conn_fd; /* -1: none */
    atomic_uint accepted;
    pthread_t thread;
};

/* SP's greeting is all that it says: as REP ("Mapping for TCP", section 3). */
static void keep_mute(int fd)
{
    static const uint8_t greeting[] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    uint8_t ignored[4096];

    if (send(fd, greeting, sizeof greeting, MSG_NOSIGNAL) != (ssize_t)sizeof greeting)
        return;
    while (recv(fd, ignored, sizeof ignored, 0) > 0)
        continue;
}

static void *accept_all(void *arg)
{
    struct mute *mute = arg;
    int fd;

    while ((fd = accept(mute->listen_fd, NULL, NULL)) >= 0) {
        atomic_store(&mute->conn_fd, fd);
        atomic_fetch_add(&mute->accepted, 1);
        keep_mute(fd);
        if (atomic_exchange(&mute->conn_fd, -1) >= 0)
            (void)close(fd);
    }
    return NULL;
}

static void mute_start(struct mute *mute, const char *url)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1;

    at.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
    atomic_store(&mute->conn_fd, -1);
    mute->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(mute->listen_fd >= 0);
    assert_int_equal(setsockopt(mute->listen_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(mute->listen_fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(mute->listen_fd, 4), 0);
    assert_int_equal(pthread_create(&mute->thread, NULL, accept_all, mute), 0);
}

/* Nobody listens there any more, and the connection ends. */
static void mute_stop(struct mute *mute)
{
    int fd;

    (void)shutdown(mute->listen_fd, SHUT_RDWR);
    fd = atomic_exchange(&mute->conn_fd, -1);
    if (fd >= 0)
        (void)shutdown(fd, SHUT_RDWR);
    assert_int_equal(pthread_join(mute->thread, NULL), 0);
    if (fd >= 0)
        (void)close(fd);
    (void)close(mute->listen_fd);
}

/* --- a process that calls --- */

struct fixture {
    struct fg_rpc_settings settings;
    struct fg_registry *registry;
    struct fg_rpc *rpc;
    struct fg_peer *peer;
    char url[RPC_RUN_URL_BYTES];
    struct fg_err err;
};

static void open_rpc(struct fixture *f, int64_t after_ns, int64_t timeout_ns)
{
    f->settings = (struct fg_rpc_settings){
        .threads = 2,
        .answers_max_bytes = 8 << 20,
        .ping_after_ns = after_ns,
        .ping_timeout_ns = timeout_ns,
    };
    f->registry = fg_registry_create();
    assert_int_equal(fg_rpc_create(&f->settings, f->registry, &f->rpc, &f->err), FG_OK);
    rpc_run_url("tcp", f->url);
}

static void dial(struct fixture *f)
{
    struct fg_peer_health health = {0};

    assert_int_equal(fg_peer_dial(f->rpc, f->url, 4, &f->peer, &f->err), FG_OK);
    while (!health.connected) {
        usleep(1000);
        fg_peer_health(f->peer, &health);
    }
}

static void close_rpc(struct fixture *f)
{
    fg_peer_destroy(f->peer);
    fg_rpc_destroy(f->rpc);
    fg_registry_destroy(f->registry);
}

static long long keepalive_closes(struct fixture *f)
{
    static const char name[] = "\nflamegrid_rpc_keepalive_failures_total{";
    struct fg_buf text;
    long long value;

    fg_buf_init(&text, 1024 * 1024);
    fg_registry_write(f->registry, &text);
    fg_buf_putc(&text, 0);
    const char *at = strstr((const char *)text.ptr, name);
    assert_non_null(at);
    at = strchr(at, ' ');
    value = strtoll(at, NULL, 10);
    fg_buf_done(&text);
    return value;
}

static enum fg_code call_for(struct fixture *f, int64_t for_ns)
{
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, for_ns);
    enum fg_code code = fg_peer_call(f->peer, &call);

    fg_call_done(f->peer, &call);
    return code;
}

/* --- the tests --- */

static struct fg_rpc_server *start_echo(struct fixture *f)
{
    struct fg_rpc_server *server = fg_rpc_server_create(f->rpc, 4);

    fg_rpc_server_handle(server, FG_RPC_PUSH, rpc_run_echo, NULL);
    if (fg_rpc_server_start(server, f->url, &f->err) != FG_OK)
        fail_msg("%s", f->err.msg);
    return server;
}

static void a_lost_server_fails_calls_and_its_successor_is_found(void **state)
{
    struct fixture f = {0};
    struct mute mute = {0};
    struct fg_rpc_server *server;

    (void)state;
    open_rpc(&f, 50 * FG_MS_NS, 50 * FG_MS_NS);
    mute_start(&mute, f.url);
    dial(&f);
    assert_int_equal(call_for(&f, PATIENCE_S * FG_SECOND_NS), FG_E_UNAVAILABLE);
    while (atomic_load(&mute.accepted) < 2 || keepalive_closes(&f) == 0)
        usleep(1000); /* nobody told the dialer to */
    mute_stop(&mute);
    server = start_echo(&f);
    rpc_run_connected(f.peer);
    assert_int_equal(call_for(&f, PATIENCE_S * FG_SECOND_NS), FG_OK);
    fg_peer_destroy(fg_take(f.peer));
    fg_rpc_server_destroy(server);
    close_rpc(&f);
}

/* None of them waits as long as silence has to last. */
static void short_calls_trigger_the_keepalive_too(void **state)
{
    struct fixture f = {0};
    struct mute mute = {0};

    (void)state;
    open_rpc(&f, 50 * FG_MS_NS, 50 * FG_MS_NS);
    mute_start(&mute, f.url);
    dial(&f);
    while (atomic_load(&mute.accepted) < 2 || keepalive_closes(&f) == 0)
        assert_int_not_equal(call_for(&f, FG_MS_NS), FG_OK);
    mute_stop(&mute);
    close_rpc(&f);
}

/* Keeps what it is asked; PINGs are answered and counted. */
struct slow {
    atomic_uint pings;
    _Atomic(struct fg_rpc_request *) req;
};

static void keep(struct fg_rpc_request *req, void *arg)
{
    struct slow *slow = arg;

    atomic_store(&slow->req, req);
}

static void count_ping(struct fg_rpc_request *req, void *arg)
{
    struct slow *slow = arg;

    fg_rpc_reply(req, FG_LIT(""), FG_LIT(""));
    atomic_fetch_add(&slow->pings, 1);
}

struct noted {
    struct fg_call call;
    atomic_bool ended;
};

static void note_end(struct fg_call *call)
{
    atomic_store(&fg_container(call, struct noted, call)->ended, true);
}

/* The server is there for PINGs, and answers once some have come. */
static void a_slow_call_keeps_its_connection(void **state)
{
    struct fixture f = {0};
    struct slow slow = {0};
    struct noted noted = {.call = rpc_run_call(FG_RPC_SELECT, PATIENCE_S * FG_SECOND_NS)};
    struct fg_rpc_server *server;

    (void)state;
    open_rpc(&f, 20 * FG_MS_NS, PATIENCE_S * FG_SECOND_NS);
    server = fg_rpc_server_create(f.rpc, 4);
    fg_rpc_server_handle(server, FG_RPC_SELECT, keep, &slow);
    fg_rpc_server_handle(server, FG_RPC_PING, count_ping, &slow);
    assert_int_equal(fg_rpc_server_start(server, f.url, &f.err), FG_OK);
    dial(&f);
    noted.call.done = note_end;
    fg_peer_send(f.peer, &noted.call);
    while (atomic_load(&slow.req) == NULL || atomic_load(&slow.pings) < 3)
        usleep(1000);
    fg_rpc_reply(atomic_load(&slow.req), FG_LIT("at last"), FG_LIT(""));
    while (!atomic_load(&noted.ended))
        usleep(1000);
    assert_int_equal(noted.call.code, FG_OK);
    assert_int_equal(keepalive_closes(&f), 0);
    fg_call_done(f.peer, &noted.call);
    fg_peer_destroy(fg_take(f.peer));
    fg_rpc_server_destroy(server);
    close_rpc(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_server_fails_calls_and_its_successor_is_found),
        cmocka_unit_test(short_calls_trigger_the_keepalive_too),
        cmocka_unit_test(a_slow_call_keeps_its_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
