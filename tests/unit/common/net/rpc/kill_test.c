/*
 * Servers that are killed with -9 while they are called. nng allows no fork after its first call,
 * so all of them are forked by main(), and each waits for its turn to live.
 */
#include "common/base/time.h"
#include "common/net/rpc/rpc.h"
#include "tests/lib/rpc_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    LIVES = 4,
    CALLERS = 4,
    CALLS_A_LIFE = 200,
    LARGE_BYTES = 2 * FG_RPC_PART_BYTES + 1,
    PATIENCE_S = 60, /* of a call; nobody waits so long */
};

static char url[RPC_RUN_URL_BYTES];
static struct life {
    pid_t pid;
    int start_fd; /* a byte: listen now */
} lives[LIVES];
static unsigned n_lived;

/* --- servers --- */

static void keep_silent(struct fg_rpc_request *req, void *arg)
{
    (void)req;
    (void)arg;
}

static void answer_large(struct fg_rpc_request *req, void *arg)
{
    static const uint8_t bytes[LARGE_BYTES];

    (void)arg;
    fg_rpc_reply(req, FG_LIT("large"), fg_bytes(bytes, sizeof bytes));
}

static void live(int start_fd)
{
    struct fg_rpc_server *server;
    struct fg_err err;
    char byte;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(start_fd, &byte, 1) != 1)
        _exit(0); /* the test has ended without it */
    fg_rpc_init(2);
    server = fg_rpc_server_create(NULL, CALLERS + 2);
    fg_rpc_server_handle(server, FG_RPC_PUSH, rpc_run_echo, NULL);
    fg_rpc_server_handle(server, FG_RPC_SELECT, answer_large, NULL);
    fg_rpc_server_handle(server, FG_RPC_STATS, keep_silent, NULL);
    if (fg_rpc_server_start(server, url, &err) != FG_OK)
        _exit(1);
    for (;;)
        pause();
}

static void fork_lives(void)
{
    for (unsigned i = 0; i < LIVES; i++) {
        int ends[2];

        fg_assert(pipe(ends) == 0);
        lives[i].start_fd = ends[1];
        lives[i].pid = fork();
        fg_assert(lives[i].pid >= 0);
        if (lives[i].pid > 0) {
            (void)close(ends[0]);
            continue;
        }
        for (unsigned k = 0; k <= i; k++)
            (void)close(lives[k].start_fd); /* else none of us would see the test's end */
        live(ends[0]);
    }
}

static struct life *begin_life(void)
{
    struct life *life = &lives[n_lived++];

    fg_assert(n_lived <= LIVES && write(life->start_fd, "", 1) == 1);
    return life;
}

static void end_life(const struct life *life)
{
    int status;

    assert_int_equal(kill(life->pid, SIGKILL), 0);
    assert_int_equal(waitpid(life->pid, &status, 0), life->pid);
    assert_true(WIFSIGNALED(status)); /* and not that it could not start */
}

static struct fg_peer *dial(void)
{
    struct fg_peer *peer;
    struct fg_err err;

    assert_int_equal(fg_peer_dial(NULL, url, CALLERS, &peer, &err), FG_OK);
    return peer;
}

/* --- one call --- */

struct noted {
    struct fg_call call;
    atomic_bool ended;
};

static void note_end(struct fg_call *call)
{
    atomic_store(&fg_container(call, struct noted, call)->ended, true);
}

static void wait_until(atomic_bool *ended)
{
    while (!atomic_load(ended))
        usleep(1000);
}

/* The call is with the server, which never answers it. */
static void a_lost_connection_fails_calls_in_flight_at_once(void **state)
{
    struct noted noted = {.call = rpc_run_call(FG_RPC_STATS, PATIENCE_S * FG_SECOND_NS)};
    struct fg_call after = rpc_run_call(FG_RPC_PUSH, PATIENCE_S * FG_SECOND_NS);
    struct fg_peer *peer = dial();
    struct life *life = begin_life();
    int64_t killed_ns;

    (void)state;
    rpc_run_connected(peer);
    noted.call.done = note_end;
    fg_peer_send(peer, &noted.call);
    rpc_run_connected(peer); /* so the one before has arrived */
    killed_ns = fg_mono_ns(fg_clock_real());
    end_life(life);
    wait_until(&noted.ended);
    assert_int_equal(noted.call.code, FG_E_UNAVAILABLE);
    fg_call_done(peer, &noted.call);
    assert_int_equal(fg_peer_call(peer, &after), FG_E_UNAVAILABLE);
    fg_call_done(peer, &after);
    assert_true(fg_mono_ns(fg_clock_real()) - killed_ns < PATIENCE_S / 2 * FG_SECOND_NS);
    fg_peer_destroy(peer);
}

/* --- under load --- */

struct load {
    struct fg_peer *peer;
    atomic_bool stop;
    atomic_uint ok, failed, wrong;
};

static bool is_right(const struct fg_call *call)
{
    return call->method == FG_RPC_SELECT ? call->reply_payload.len == LARGE_BYTES
                                         : fg_slice_is(call->reply_payload, "payload");
}

static void *call_and_call(void *arg)
{
    struct load *load = arg;

    for (unsigned i = 0; !atomic_load(&load->stop); i++) {
        struct fg_call call =
            rpc_run_call(i % 4 == 0 ? FG_RPC_SELECT : FG_RPC_PUSH, PATIENCE_S * FG_SECOND_NS);

        if (fg_peer_call(load->peer, &call) == FG_OK)
            atomic_fetch_add(is_right(&call) ? &load->ok : &load->wrong, 1);
        else
            atomic_fetch_add(call.code == FG_E_UNAVAILABLE ? &load->failed : &load->wrong, 1);
        fg_call_done(load->peer, &call);
    }
    return NULL;
}

static void wait_for_more(atomic_uint *count, unsigned more)
{
    unsigned goal = atomic_load(count) + more;

    while (atomic_load(count) < goal)
        usleep(1000);
}

/* Every call ends, right or unavailable, and the next life is found without anybody's help. */
static void callers_reconnect_to_a_restarted_server(void **state)
{
    struct load load = {.peer = dial()};
    pthread_t threads[CALLERS];

    (void)state;
    for (unsigned i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_and_call, &load), 0);
    while (n_lived < LIVES) {
        struct life *life = begin_life();

        wait_for_more(&load.ok, CALLS_A_LIFE);
        end_life(life);
        wait_for_more(&load.failed, CALLERS);
    }
    atomic_store(&load.stop, true);
    for (unsigned i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&load.wrong), 0);
    fg_peer_destroy(load.peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_connection_fails_calls_in_flight_at_once),
        cmocka_unit_test(callers_reconnect_to_a_restarted_server),
    };

    rpc_run_url("tcp", url);
    fork_lives();
    fg_rpc_init(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
