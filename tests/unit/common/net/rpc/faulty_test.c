/* What the faulty peer does to calls, by seed, by number and by switch. */
#include "tests/lib/peer_faulty.h"
#include "tests/lib/rpc_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct fg_rpc_server *server;
    struct fg_peer *inner;
    struct fg_peer_faulty *faulty;
    struct fg_peer *peer;
    unsigned served;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->server = fg_rpc_server_create(NULL, 1);
    fg_rpc_server_handle(f->server, FG_RPC_PUSH, rpc_run_echo, &f->served);
    f->inner = fg_peer_direct(f->server);
    f->faulty = fg_peer_faulty_create(f->inner, &(struct fg_peer_faults){.seed = 1});
    f->peer = fg_peer_faulty_peer(f->faulty);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_peer_destroy(f->peer);
    fg_peer_destroy(f->inner);
    fg_rpc_server_destroy(f->server);
    free(f);
    return 0;
}

static bool call_once(struct fixture *f)
{
    struct fg_call call = rpc_run_call(FG_RPC_PUSH, FG_SECOND_NS);
    bool ok = fg_peer_call(f->peer, &call) == FG_OK;

    if (ok)
        assert_true(fg_slice_is(call.reply_payload, "payload"));
    else
        assert_int_equal(call.code, FG_E_UNAVAILABLE);
    fg_call_done(f->peer, &call);
    return ok;
}

struct tally {
    unsigned ok, served;
};

static struct tally call_often(struct fixture *f, const struct fg_peer_faults *faults)
{
    struct tally tally = {0};

    fg_peer_faulty_set(f->faulty, faults);
    f->served = 0;
    for (unsigned i = 0; i < 1000; i++)
        tally.ok += call_once(f);
    tally.served = f->served;
    return tally;
}

static void lost_and_double_messages_are_harmless(void **state)
{
    struct tally tally = call_often(*state, &(struct fg_peer_faults){.seed = 1});

    assert_int_equal(tally.ok, 1000);
    assert_int_equal(tally.served, 1000);
    tally = call_often(*state, &(struct fg_peer_faults){.seed = 1, .drop_request_permille = 300});
    assert_in_range(tally.ok, 600, 800);
    assert_int_equal(tally.served, tally.ok);
    tally = call_often(*state, &(struct fg_peer_faults){.seed = 1, .drop_reply_permille = 300});
    assert_in_range(tally.ok, 600, 800);
    assert_int_equal(tally.served, 1000);
    tally = call_often(*state, &(struct fg_peer_faults){.seed = 1, .duplicate_permille = 300});
    assert_int_equal(tally.ok, 1000);
    assert_in_range(tally.served, 1200, 1400);
}

static void the_same_seed_is_the_same_run(void **state)
{
    const struct fg_peer_faults faults = {.seed = 5,
                                          .drop_request_permille = 200,
                                          .drop_reply_permille = 200,
                                          .duplicate_permille = 200};
    struct tally first = call_often(*state, &faults);

    assert_int_equal(tear_down(state), 0);
    assert_int_equal(set_up(state), 0);
    (void)call_often(*state, &(struct fg_peer_faults){0}); /* numbers go on */
    assert_int_not_equal(call_often(*state, &faults).served, first.served);
    assert_int_equal(tear_down(state), 0);
    assert_int_equal(set_up(state), 0);
    struct tally again = call_often(*state, &faults);
    assert_int_equal(again.ok, first.ok);
    assert_int_equal(again.served, first.served);
}

static void the_kth_call_fails(void **state)
{
    struct fixture *f = *state;

    for (unsigned late = 0; late < 2; late++) {
        f->served = 0;
        fg_peer_faulty_fail(f->faulty, 3, late == 1);
        for (unsigned k = 1; k <= 5; k++)
            assert_int_equal(call_once(f), k != 3);
        assert_int_equal(f->served, late == 1 ? 5 : 4);
    }
    assert_int_equal(fg_peer_faulty_count(f->faulty), 10);
}

static void a_peer_cut_in_one_direction_fails_its_calls(void **state)
{
    struct fixture *f = *state;

    fg_peer_faulty_cut(f->faulty, true, false);
    assert_false(call_once(f));
    assert_int_equal(f->served, 0);
    fg_peer_faulty_cut(f->faulty, false, true);
    assert_false(call_once(f));
    assert_int_equal(f->served, 1);
    fg_peer_faulty_cut(f->faulty, true, true);
    assert_false(call_once(f));
    assert_int_equal(f->served, 1);
    fg_peer_faulty_cut(f->faulty, false, false);
    assert_true(call_once(f));
}

/* --- in virtual time --- */

enum { CALLS = 20 };

struct late {
    struct fg_call call;
    unsigned number, *order; /* the next place in the order in which they end */
};

static unsigned n_ended;

static void note_end(struct fg_call *call)
{
    struct late *late = fg_container(call, struct late, call);

    late->order[n_ended++] = late->number;
}

/* Sends all at once and turns until they have ended; the order they ended in. */
static void run_late(struct fixture *f, struct fg_clock_manual *clock, unsigned order[CALLS])
{
    struct late calls[CALLS];

    n_ended = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        char text[] = "gone when send returns";

        calls[i] = (struct late){rpc_run_call(FG_RPC_PUSH, FG_MINUTE_NS), i, order};
        calls[i].call.payload = fg_cstr(text);
        calls[i].call.done = note_end;
        fg_peer_send(f->peer, &calls[i].call);
        memset(text, 'x', sizeof text - 1);
    }
    assert_int_equal(n_ended, 0);
    fg_peer_faulty_turn(f->faulty);
    assert_int_equal(n_ended, 0); /* time has not moved */
    while (fg_peer_faulty_next_mono_ns(f->faulty) != INT64_MAX) {
        fg_clock_manual_advance(clock, fg_peer_faulty_next_mono_ns(f->faulty) - clock->mono_ns);
        fg_peer_faulty_turn(f->faulty);
    }
    assert_int_equal(n_ended, CALLS);
    for (unsigned i = 0; i < CALLS; i++) {
        assert_true(fg_slice_is(calls[i].call.reply_payload, "gone when send returns"));
        fg_call_done(f->peer, &calls[i].call);
    }
}

static void delays_and_overtakes(void **state)
{
    struct fixture *f = *state;
    struct fg_clock_manual clock;
    unsigned order[CALLS], again[CALLS], overtaken = 0;

    fg_clock_manual_init(&clock, 0);
    const struct fg_peer_faults faults = {
        .seed = 9, .delay_max_ns = FG_SECOND_NS, .clock = &clock.clock};
    fg_peer_faulty_set(f->faulty, &faults);
    run_late(f, &clock, order);
    assert_true(clock.mono_ns > FG_SECOND_NS / 4 && clock.mono_ns < FG_SECOND_NS);
    for (unsigned i = 1; i < CALLS; i++)
        overtaken += order[i] < order[i - 1];
    assert_in_range(overtaken, 3, CALLS);
    assert_int_equal(tear_down(state), 0);
    assert_int_equal(set_up(state), 0);
    f = *state;
    fg_peer_faulty_set(f->faulty, &faults);
    run_late(f, &clock, again);
    assert_memory_equal(order, again, sizeof order);
}

/* Lasting from the request's arrival to its answer's. */
static void a_cut_drops_calls_in_flight(void **state)
{
    struct fixture *f = *state;
    struct fg_clock_manual clock;
    unsigned order[1];
    struct late one = {rpc_run_call(FG_RPC_PUSH, FG_MINUTE_NS), 0, order};

    fg_clock_manual_init(&clock, 0);
    fg_peer_faulty_set(
        f->faulty,
        &(struct fg_peer_faults){.seed = 9, .delay_max_ns = FG_SECOND_NS, .clock = &clock.clock});
    n_ended = 0;
    one.call.done = note_end;
    fg_peer_send(f->peer, &one.call);
    fg_clock_manual_advance(&clock, fg_peer_faulty_next_mono_ns(f->faulty));
    fg_peer_faulty_turn(f->faulty);
    assert_int_equal(f->served, 1);
    fg_peer_faulty_cut(f->faulty, false, true);
    fg_clock_manual_advance(&clock, FG_SECOND_NS);
    fg_peer_faulty_turn(f->faulty);
    assert_int_equal(n_ended, 1);
    assert_int_equal(one.call.code, FG_E_UNAVAILABLE);
    fg_call_done(f->peer, &one.call);
}

#define FAULTY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULTY(lost_and_double_messages_are_harmless),
        FAULTY(the_same_seed_is_the_same_run),
        FAULTY(the_kth_call_fails),
        FAULTY(a_peer_cut_in_one_direction_fails_its_calls),
        FAULTY(delays_and_overtakes),
        FAULTY(a_cut_drops_calls_in_flight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
