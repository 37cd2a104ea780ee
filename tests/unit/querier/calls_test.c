#include "common/base/cursor.h"
#include "common/base/time.h"
#include "querier/replicas/calls.h"
#include "tests/lib/rpc_run.h"

#include <nng/nng.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

/* The ingester of these tests: it works on requests until they are abandoned. */
struct ingester {
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    struct qry_calls_pending pending;
    _Atomic(struct fg_rpc_request *) kept[4];
    atomic_uint n_kept;
    char url[RPC_RUN_URL_BYTES];
};

static void keep(struct fg_rpc_request *req, void *arg)
{
    struct ingester *ingester = arg;
    struct fg_cur cur = fg_cur(fg_rpc_head(req));

    fg_rpc_let_cancel(req, fg_cur_le64(&cur));
    atomic_store(&ingester->kept[atomic_fetch_add(&ingester->n_kept, 1)], req);
}

static void open_ingester(struct ingester *ingester)
{
    struct fg_err err;

    ingester->server = fg_rpc_server_create(NULL, 8);
    fg_rpc_server_handle(ingester->server, FG_RPC_SELECT, keep, ingester);
    rpc_run_url("inproc", ingester->url);
    assert_int_equal(fg_rpc_server_start(ingester->server, ingester->url, &err), FG_OK);
    assert_int_equal(fg_peer_dial(NULL, ingester->url, 8, &ingester->peer, &err), FG_OK);
    assert_int_equal(fg_peer_wait(ingester->peer, 10 * FG_SECOND_NS, &err), FG_OK);
    qry_calls_pending_init(&ingester->pending);
}

static void close_ingester(struct ingester *ingester)
{
    qry_calls_pending_done(&ingester->pending);
    fg_peer_destroy(ingester->peer);
    fg_rpc_server_destroy(ingester->server);
}

static struct qry_sent_call *ask(struct ingester *ingester, struct qry_calls *calls)
{
    uint8_t head[FG_RPC_CANCEL_BYTES];
    struct qry_calls_request request = {.method = FG_RPC_SELECT,
                                        .head = fg_bytes(head, sizeof head),
                                        .cancel_key = qry_calls_cancel_key(),
                                        .deadline_mono_ns =
                                            fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS};
    unsigned before = atomic_load(&ingester->n_kept);
    struct qry_sent_call *sent;

    fg_rpc_put_cancel(request.cancel_key, head); /* the same bytes tell the key */
    sent = qry_calls_send(calls, ingester->peer, &request);
    while (atomic_load(&ingester->n_kept) == before || atomic_load(&ingester->kept[before]) == NULL)
        nng_msleep(1);
    return sent;
}

static bool is_abandoned_soon(const struct fg_rpc_request *req)
{
    for (unsigned i = 0; i < 1000 && !fg_rpc_is_abandoned(req); i++)
        nng_msleep(10);
    return fg_rpc_is_abandoned(req);
}

static void stop_work(struct fg_rpc_request *req)
{
    struct fg_err err;

    (void)fg_fail(&err, FG_E_CANCELED, "the caller has given up");
    fg_rpc_reply_error(req, &err);
}

static void dropped_call_ends_work_and_no_other(void **state)
{
    struct ingester ingester = {0};
    struct qry_calls *calls;
    struct qry_sent_call *first;

    (void)state;
    open_ingester(&ingester);
    calls = qry_calls_create(&ingester.pending);
    first = ask(&ingester, calls);
    (void)ask(&ingester, calls);
    qry_calls_drop(first);
    assert_true(is_abandoned_soon(ingester.kept[0]));
    assert_false(fg_rpc_is_abandoned(ingester.kept[1]));
    stop_work(ingester.kept[0]);
    qry_calls_leave(calls); /* a query that is over drops what is left */
    assert_true(is_abandoned_soon(ingester.kept[1]));
    stop_work(ingester.kept[1]);
    close_ingester(&ingester);
}

/* Clients that come and go must not make queries avoid an ingester. */
static void canceled_calls_do_not_make_a_peer_bad(void **state)
{
    struct ingester ingester = {0};

    (void)state;
    open_ingester(&ingester);
    for (unsigned i = 0; i < 4; i++) {
        struct qry_calls *calls = qry_calls_create(&ingester.pending);

        (void)ask(&ingester, calls);
        qry_calls_leave(calls);
        assert_true(is_abandoned_soon(ingester.kept[i]));
        stop_work(ingester.kept[i]);
    }
    qry_calls_pending_done(&ingester.pending);
    qry_calls_pending_init(&ingester.pending);
    assert_false(fg_peer_is_bad(ingester.peer, fg_mono_ns(fg_clock_real())));
    close_ingester(&ingester);
}

static void ended_call_is_not_canceled(void **state)
{
    struct ingester ingester = {0};
    struct qry_calls *calls;
    struct qry_sent_call *sent;
    struct fg_peer_health before, after;

    (void)state;
    open_ingester(&ingester);
    calls = qry_calls_create(&ingester.pending);
    sent = ask(&ingester, calls);
    fg_rpc_reply(ingester.kept[0], FG_LIT("head"), FG_LIT(""));
    qry_calls_wait(calls, 0, INT64_MAX);
    assert_true(qry_calls_has_ended(sent));
    fg_peer_health(ingester.peer, &before);
    qry_calls_drop(sent);
    fg_peer_health(ingester.peer, &after);
    assert_int_equal(before.calls, 1);
    assert_int_equal(after.calls, 0); /* nothing was sent */
    qry_calls_leave(calls);
    close_ingester(&ingester);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropped_call_ends_work_and_no_other),
        cmocka_unit_test(canceled_calls_do_not_make_a_peer_bad),
        cmocka_unit_test(ended_call_is_not_canceled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
