/* Of several peers the first answer. Servers answer when the test tells them to. */
#include "common/base/time.h"
#include "common/rpc/hedge.h"
#include "tests/lib/rpc_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PEERS = 3, SOON_MS = 20 };

struct one {
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    enum fg_code code; /* what it answers at once; FG_OK: "answer"; with `slow` it waits */
    atomic_bool slow;
    size_t answer_bytes; /* 0: few */
    _Atomic(struct fg_rpc_request *) waiting;
    atomic_uint asked;
};

struct fixture {
    struct one ones[PEERS];
    struct fg_peer *peers[PEERS];
};

static void reply(struct one *one, struct fg_rpc_request *req)
{
    uint8_t *bytes = fg_calloc(1, one->answer_bytes + 1);
    struct fg_err err;

    if (one->code == FG_OK) {
        fg_rpc_reply(req, FG_LIT("answer"), fg_bytes(bytes, one->answer_bytes));
    } else {
        (void)fg_fail(&err, one->code, "told to");
        fg_rpc_reply_error(req, &err);
    }
    free(bytes);
}

static void answer_waiting(struct one *one)
{
    struct fg_rpc_request *req = atomic_exchange(&one->waiting, NULL);

    if (req != NULL)
        reply(one, req);
}

static void on_select(struct fg_rpc_request *req, void *arg)
{
    struct one *one = arg;

    atomic_fetch_add(&one->asked, 1);
    if (!atomic_load(&one->slow)) {
        reply(one, req);
        return;
    }
    atomic_store(&one->waiting, req); /* the only one: each is asked once while it is slow */
    if (!atomic_load(&one->slow))     /* who ended that looked before */
        answer_waiting(one);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    for (size_t i = 0; i < PEERS; i++) {
        struct one *one = &f->ones[i];
        char url[RPC_RUN_URL_BYTES];

        (void)snprintf(url, sizeof url, "inproc://hedge_test%zu", i);
        one->server = fg_rpc_server_create(NULL, 4);
        fg_rpc_server_handle(one->server, FG_RPC_SELECT, on_select, one);
        assert_int_equal(fg_rpc_server_start(one->server, url, &err), FG_OK);
        assert_int_equal(fg_peer_dial(NULL, url, 4, &one->peer, &err), FG_OK);
        rpc_run_connected(one->peer);
        f->peers[i] = one->peer;
    }
    *state = f;
    return 0;
}

/* A server waits for what it was asked, and some of it may still be on its way: its caller has
 * gone. */
static void answer_all(struct one *one)
{
    struct fg_peer_health health;

    atomic_store(&one->slow, false);
    answer_waiting(one);
    do
        fg_peer_health(one->peer, &health);
    while (health.calls > 0 && usleep(1000) == 0);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < PEERS; i++) {
        answer_all(&f->ones[i]);
        fg_peer_destroy(f->ones[i].peer);
        fg_rpc_server_destroy(f->ones[i].server);
    }
    free(f);
    return 0;
}

/* With all peers; checks the answer if it is one. */
static enum fg_code call_all(struct fixture *f, int64_t after_ns, size_t *ret_from)
{
    struct fg_call call = rpc_run_call(FG_RPC_SELECT, 20 * FG_SECOND_NS);
    enum fg_code code = fg_call_hedged(f->peers, PEERS, after_ns, &call, ret_from);

    assert_int_equal(call.code, code);
    if (code == FG_OK) {
        assert_true(fg_slice_is(call.reply_head, "answer"));
        assert_int_equal(call.reply_payload.len, f->ones[*ret_from].answer_bytes);
    } else {
        assert_string_equal(call.err.msg, "told to");
    }
    fg_call_done(f->peers[*ret_from], &call);
    return code;
}

static void expect_asked(const struct fixture *f, unsigned first, unsigned second, unsigned third)
{
    assert_int_equal(atomic_load(&f->ones[0].asked), first);
    assert_int_equal(atomic_load(&f->ones[1].asked), second);
    assert_int_equal(atomic_load(&f->ones[2].asked), third);
}

static void asks_one_when_it_answers(void **state)
{
    size_t from;

    assert_int_equal(call_all(*state, 10 * FG_SECOND_NS, &from), FG_OK);
    assert_int_equal(from, 0);
    expect_asked(*state, 1, 0, 0);
}

static void asks_the_next_when_one_is_slow(void **state)
{
    struct fixture *f = *state;
    size_t from;

    f->ones[0].slow = f->ones[2].slow = true;
    f->ones[1].answer_bytes = 3 << 20;
    assert_int_equal(call_all(f, SOON_MS * FG_MS_NS, &from), FG_OK);
    assert_int_equal(from, 1);
}

/* The first one's answer, though the second was asked: it came earlier. */
static void *answer_first(void *arg)
{
    struct fixture *f = arg;

    while (atomic_load(&f->ones[1].waiting) == NULL)
        usleep(1000);
    answer_waiting(&f->ones[0]);
    return NULL;
}

static void takes_whichever_is_first(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    size_t from;

    f->ones[0].slow = f->ones[1].slow = true;
    assert_int_equal(pthread_create(&thread, NULL, answer_first, f), 0);
    f->ones[2].slow = true;
    assert_int_equal(call_all(f, SOON_MS * FG_MS_NS, &from), FG_OK);
    assert_int_equal(from, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void asks_the_next_when_one_fails(void **state)
{
    struct fixture *f = *state;
    size_t from;

    f->ones[0].code = FG_E_LIMIT;
    f->ones[1].code = FG_E_CORRUPT;
    assert_int_equal(call_all(f, INT64_MAX, &from), FG_OK);
    assert_int_equal(from, 2);
    expect_asked(f, 1, 1, 1);
    f->ones[2].code = FG_E_UNAVAILABLE;
    assert_int_equal(call_all(f, INT64_MAX, &from), FG_E_UNAVAILABLE); /* the last one's */
    assert_int_equal(from, 2);
    expect_asked(f, 2, 2, 2);
}

static void asks_nobody_else_what_all_refuse(void **state)
{
    struct fixture *f = *state;
    size_t from;

    f->ones[0].code = FG_E_INVALID;
    assert_int_equal(call_all(f, INT64_MAX, &from), FG_E_INVALID);
    expect_asked(f, 1, 0, 0);
}

/* A failure after the next was asked does not end it; nor does one that comes after the answer. */
static void waits_for_who_is_left(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    size_t from;

    f->ones[0].slow = f->ones[1].slow = f->ones[2].slow = true;
    f->ones[0].code = FG_E_UNAVAILABLE;
    assert_int_equal(pthread_create(&thread, NULL, answer_first, f), 0);
    struct fg_call call = rpc_run_call(FG_RPC_SELECT, 300 * FG_MS_NS);
    assert_int_equal(fg_call_hedged(f->peers, PEERS, SOON_MS * FG_MS_NS, &call, &from),
                     FG_E_DEADLINE);
    fg_call_done(f->peers[from], &call);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_asked(f, 1, 1, 1);
}

static void asks_bad_ones_last(void **state)
{
    struct fixture *f = *state;
    size_t from;

    f->ones[0].code = FG_E_UNAVAILABLE;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(call_all(f, INT64_MAX, &from), FG_OK);
        assert_int_equal(from, 1);
    }
    expect_asked(f, 3, 5, 0);
}

/* Losers answer at any moment, with answers of several parts. */
static void survives_losers(void **state)
{
    struct fixture *f = *state;
    size_t from;

    for (size_t i = 0; i < PEERS; i++)
        f->ones[i].answer_bytes = (1 << 20) + 1;
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(call_all(f, i % 7 * FG_MS_NS / 4, &from), FG_OK);
}

#define HEDGE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEDGE(asks_one_when_it_answers),
        HEDGE(asks_the_next_when_one_is_slow),
        HEDGE(takes_whichever_is_first),
        HEDGE(asks_the_next_when_one_fails),
        HEDGE(asks_nobody_else_what_all_refuse),
        HEDGE(waits_for_who_is_left),
        HEDGE(asks_bad_ones_last),
        HEDGE(survives_losers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
