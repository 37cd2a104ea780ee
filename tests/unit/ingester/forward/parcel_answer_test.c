/* What becomes of each profile, whatever the target answers: it is done only if the target has said
 * so, it is dead only if the target has refused it alone, and else it waits. */
#include "tests/unit/ingester/forward/parcel_expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- results of batches ---- */

static void refused_ones_are_dead_with_the_reason(void **state)
{
    Forward__V1__Refusal refusals[] = {parcel_run_refusal(1, "too many labels"),
                                       parcel_run_refusal(3, "")};
    Forward__V1__Refusal *refused[] = {&refusals[0], &refusals[1]};
    Forward__V1__Result result = parcel_run_stored(2);
    struct parcel_run run;
    struct fg_id first, second;

    (void)state;
    parcel_run_open_with(&run, "", 4);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    first = run.batches[0].ids[1];
    second = run.batches[0].ids[3];
    result.refused = refused;
    result.n_refused = 2;
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    parcel_run_assert_numbers(parcel_run_end(&run), 2, 2, 0);
    parcel_run_assert_dead(&run, first, "too many labels");
    parcel_run_assert_dead(&run, second, "");
    parcel_run_close(&run);
}

/* Answers each batch by whether it has the profile. */
static enum ing_sender_result refuse_with(struct parcel_run *run, struct fg_id bad)
{
    Forward__V1__Result results[PARCEL_BATCHES_MAX];

    for (size_t b = 0; b < run->n_batches; b++) {
        results[b] = parcel_run_stored(run->batches[b].n);
        for (uint32_t i = 0; i < run->batches[b].n; i++)
            if (fg_id_eq(run->batches[b].ids[i], bad))
                results[b] =
                    parcel_run_failed(FG_E_INVALID, "stack 1 is not the one that its id names");
    }
    return parcel_run_answer(run, results, run->n_batches);
}

static void batch_that_is_refused_is_divided(void **state)
{
    struct parcel_run run;
    struct fg_id bad;

    (void)state;
    parcel_run_open_with(&run, "", 6);
    (void)parcel_run_push_of(&run, 6, "tenant", "cart", NULL);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_batches, 2);
    bad = run.batches[run.batches[0].n == 6 ? 0 : 1].ids[4];
    assert_int_equal(refuse_with(&run, bad), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_batches, 6); /* the other service is done */
    assert_int_equal(refuse_with(&run, bad), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    parcel_run_assert_numbers(parcel_run_end(&run), 6, 1, 0);
    parcel_run_assert_dead(&run, bad, "stack 1 is not the one that its id names");
    parcel_run_close(&run);
}

static void batch_of_one_that_is_refused_is_dead(void **state)
{
    struct parcel_run run;
    struct fg_id bad;

    (void)state;
    parcel_run_open_with(&run, "", 1);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    bad = run.batches[0].ids[0];
    assert_int_equal(refuse_with(&run, bad), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    parcel_run_end_with(&run, 0, 1, 0);
}

/* The target's own trouble, such as a damaged disk, is temporary. */
static void other_codes_of_a_batch_are_temporary(void **state)
{
    static const enum fg_code codes[] = {
        FG_E_LIMIT,        FG_E_UNAVAILABLE, FG_E_DEADLINE, FG_E_CORRUPT,      FG_E_INTERNAL,
        FG_E_PRECONDITION, FG_E_NOT_FOUND,   FG_E_NO_SPACE, FG_E_UNKNOWN,      FG_E_CANCELED,
        FG_E_TOO_MUCH,     FG_E_NO_TENANT,   FG_E_ABORTED,  FG_E_UNIMPLEMENTED};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(codes); i++) {
        Forward__V1__Result results[2];
        struct parcel_run run;

        print_message("  %s\n", fg_code_name(codes[i]));
        parcel_run_open_with(&run, "", 3);
        (void)parcel_run_push_of(&run, 3, "tenant", "cart", NULL);
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        assert_int_equal(run.n_batches, 2);
        results[0] = parcel_run_failed(codes[i], "not now");
        results[1] = parcel_run_stored(run.batches[1].n);
        assert_int_equal(parcel_run_answer(&run, results, 2), SENDER_BUSY);
        parcel_run_end_with(&run, run.batches[1].n, 0, run.batches[0].n);
    }
}

static void assert_senseless(Forward__V1__Result *results, size_t n)
{
    struct parcel_run run;

    parcel_run_open_with(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_batches, 1);
    assert_int_equal(parcel_run_answer(&run, results, n), SENDER_AWAY);
    parcel_run_end_with(&run, 0, 0, 3);
}

static void results_that_do_not_fit_decide_nothing(void **state)
{
    Forward__V1__Refusal refusals[] = {parcel_run_refusal(0, "no"), parcel_run_refusal(3, "no")};
    Forward__V1__Refusal twice[] = {parcel_run_refusal(0, "no"), parcel_run_refusal(0, "no")};
    Forward__V1__Refusal far = parcel_run_refusal(UINT32_MAX, "no");
    Forward__V1__Refusal *refused[2] = {&refusals[0], &refusals[1]};
    Forward__V1__Result results[2] = {parcel_run_stored(3), parcel_run_stored(3)};

    (void)state;
    assert_senseless(NULL, 0);
    assert_senseless(results, 2);
    results[0] = parcel_run_stored(2); /* one is not named */
    assert_senseless(results, 1);
    results[0] = parcel_run_stored(4);
    assert_senseless(results, 1);
    results[0] = parcel_run_stored(0);
    assert_senseless(results, 1);
    results[0] = parcel_run_stored(UINT32_MAX); /* the sum is 3 in 32 bits */
    results[0].known = 4;
    assert_senseless(results, 1);
    results[0] = parcel_run_stored(1);
    results[0].refused = refused;
    results[0].n_refused = 2;
    assert_senseless(results, 1); /* the second is out of range: nor is the first one dead */
    refused[0] = &twice[0];
    refused[1] = &twice[1];
    assert_senseless(results, 1);
    refused[0] = &far;
    results[0].n_refused = 1;
    results[0].stored = 2;
    assert_senseless(results, 1);
}

static void bytes_that_are_no_answer_decide_nothing(void **state)
{
    const struct fg_slice bodies[] = {
        FG_LIT(""),
        FG_LIT("<html><body>Welcome!</body></html>"),
        FG_LIT("\x0a\x02\x08"),         /* cut short */
        FG_LIT("\x0a\xff\xff\xff\x7f"), /* longer than there is */
        FG_LIT("{\"results\":[{\"stored\":3}]}"),
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(bodies); i++) {
        struct parcel_run run;
        bool unknown;

        parcel_run_open_with(&run, "", 3);
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        assert_int_equal(parcel_run_status(&run, 200, bodies[i], &unknown), SENDER_AWAY);
        assert_false(unknown);
        parcel_run_end_with(&run, 0, 0, 3);
    }
}

/* ---- statuses ---- */

static void assert_status(const char *target, unsigned status, const char *body,
                          enum ing_sender_result result, bool is_unknown)
{
    struct parcel_run run;
    bool unknown;

    print_message("  %u %s\n", status, body);
    parcel_run_open_with(&run, target, 3);
    parcel_run_take(&run);
    run.parcel->push = target[0] != '\0';
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, status, fg_cstr(body), &unknown), result);
    assert_int_equal(unknown, is_unknown);
    parcel_run_end_with(&run, 0, 0, 3);
}

static void statuses_that_pass_decide_nothing(void **state)
{
    static const char *const targets[] = {"", "protocol: push"};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(targets); i++) {
        bool asks = i == 0; /* only for forward.v1 a route may be missing */

        assert_status(targets[i], 404, "", SENDER_AWAY, asks);
        assert_status(targets[i], 405, "", SENDER_AWAY, asks);
        assert_status(targets[i], 415, "", SENDER_AWAY, asks);
        assert_status(targets[i], 501, "", SENDER_AWAY, asks);
        assert_status(targets[i], 401, "", SENDER_DENIED, false);
        assert_status(targets[i], 403, "", SENDER_DENIED, false);
        assert_status(targets[i], 429, "", SENDER_BUSY, false);
        assert_status(targets[i], 503, "", SENDER_BUSY, false);
        assert_status(targets[i], 500, "", SENDER_AWAY, false);
        assert_status(targets[i], 502, "", SENDER_AWAY, false);
        assert_status(targets[i], 504, "", SENDER_AWAY, false);
        assert_status(targets[i], 408, "", SENDER_AWAY, false);
        assert_status(targets[i], 204, "", SENDER_AWAY, false);
        assert_status(targets[i], 302, "", SENDER_AWAY, false);
    }
    assert_status("", 400, "{\"code\":\"failed_precondition\"}", SENDER_AWAY, true);
}

/* Only the target itself can refuse a profile for good, in its own words. */
static void refusals_of_a_proxy_decide_nothing(void **state)
{
    static const char *const targets[] = {"", "protocol: push"};
    static const unsigned statuses[] = {400, 402, 406, 409, 410, 411, 414, 421, 422, 426, 431, 451};
    static const char *const bodies[] = {"",
                                         "<html>400 Bad Request</html>",
                                         "{\"code\":\"unknown\"}",
                                         "{\"code\":3}",
                                         "\"invalid_argument\"",
                                         "invalid_argument"};

    (void)state;
    for (size_t t = 0; t < FG_COUNT(targets); t++)
        for (size_t i = 0; i < FG_COUNT(statuses); i++)
            for (size_t k = 0; k < FG_COUNT(bodies); k++)
                assert_status(targets[t], statuses[i], bodies[k], SENDER_AWAY, false);
}

static void request_that_does_not_come_decides_nothing(void **state)
{
    const struct ing_parcel_answer answer = {.came = false};
    struct fg_err err = {0};
    struct parcel_run run;
    bool unknown;

    (void)state;
    parcel_run_open_with(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(ing_parcel_answer(run.parcel, &answer, &unknown, &err), SENDER_AWAY);
    assert_false(unknown);
    parcel_run_end_with(&run, 0, 0, 3);
}

/* 413: of 8 profiles three are together too much for a request. */
static void request_that_is_too_large_is_halved(void **state)
{
    Forward__V1__Result result;
    struct parcel_run run;
    unsigned rounds = 0;
    bool unknown;

    (void)state;
    parcel_run_open_with(&run, "", 8);
    parcel_run_take(&run);
    for (; parcel_run_build(&run); rounds++) {
        result = parcel_run_stored((uint32_t)run.n_profiles);
        assert_int_equal(run.n_batches, 1);
        if (run.n_profiles >= 3)
            assert_int_equal(parcel_run_status(&run, 413, FG_LIT(""), &unknown), SENDER_TAKEN);
        else
            assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    }
    assert_int_equal(rounds, 2 + 4); /* 8, 4, and four of 2 */
    parcel_run_end_with(&run, 8, 0, 0);
}

static void profile_that_is_too_large_alone_is_dead(void **state)
{
    struct parcel_run run;
    bool unknown;

    (void)state;
    parcel_run_open_with(&run, "", 3);
    parcel_run_take(&run);
    while (parcel_run_build(&run))
        assert_int_equal(parcel_run_status(&run, 413, FG_LIT("too large"), &unknown), SENDER_TAKEN);
    parcel_run_assert_numbers(parcel_run_end(&run), 0, 3, 0);
    parcel_run_assert_dead(&run, run.batches[0].ids[0], "status 413: too large");
    parcel_run_close(&run);
}

/* ---- tenants that are refused ---- */

/* A span is left that waits; nothing of it is taken. */
static void assert_held(struct parcel_run *run, uint64_t profiles)
{
    struct ing_outbox_numbers numbers = ing_outbox_numbers(run->common.outbox, 0);
    struct ing_outbox_span span;

    assert_int_equal(numbers.pending_profiles, profiles);
    assert_int_equal(numbers.held_tenants, profiles > 0);
    assert_false(ing_outbox_take(run->common.outbox, 0, OUTBOX_FRESH, &span));
    assert_false(ing_outbox_take(run->common.outbox, 0, OUTBOX_BACKLOG, &span));
}

static void push_of_three(struct parcel_run *run)
{
    static const char *const tenants[] = {"a", "b", "c"};

    parcel_run_open_with(run, "", 0);
    run->common.several = true;
    for (unsigned n = 0; n < 9; n++)
        (void)parcel_run_push_of(run, n, tenants[n % 3], "shop", NULL);
}

static void open_of_three(struct parcel_run *run)
{
    push_of_three(run);
    parcel_run_take(run);
}

/* Refuses one tenant, by status or by the code of a batch. Returns how many requests that took. */
static unsigned refuse_tenant(struct parcel_run *run, const char *tenant, bool by_code)
{
    unsigned rounds = 0;
    bool unknown;

    for (; parcel_run_build(run); rounds++) {
        Forward__V1__Result result = parcel_run_failed(FG_E_DENIED, "tenant suspended");

        if (!fg_slice_is(run->parcel->tenant, tenant))
            parcel_run_store_all(run);
        else if (by_code)
            assert_int_equal(parcel_run_answer(run, &result, 1), SENDER_TAKEN);
        else
            assert_int_equal(parcel_run_status(run, 403, FG_LIT("tenant suspended"), &unknown),
                             SENDER_TAKEN);
    }
    assert_int_equal(run->parcel->n_denied, 1);
    assert_non_null(strstr(run->parcel->held.msg, "tenant suspended"));
    return rounds;
}

static void refused_tenant_waits_and_the_others_go_on(void **state)
{
    (void)state;
    for (unsigned by_code = 0; by_code < 2; by_code++) {
        struct parcel_run run;

        open_of_three(&run);
        assert_int_equal(refuse_tenant(&run, "b", by_code != 0), 3);
        parcel_run_assert_numbers(parcel_run_end(&run), 6, 0, 3);
        assert_held(&run, 3);
        /* Profiles of that tenant that come meanwhile are not sent at all. */
        (void)parcel_run_push_of(&run, 9, "b", "shop", NULL);
        parcel_run_take(&run);
        assert_false(parcel_run_build(&run));
        parcel_run_assert_numbers(parcel_run_end(&run), 6, 0, 4);
        assert_held(&run, 4);
        (void)parcel_run_push_of(&run, 10, "a", "shop", NULL);
        (void)parcel_run_push_of(&run, 11, "b", "shop", NULL);
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        assert_true(fg_slice_is(run.parcel->tenant, "a"));
        parcel_run_store_all(&run);
        assert_false(parcel_run_build(&run));
        parcel_run_assert_numbers(parcel_run_end(&run), 7, 0, 5);
        assert_held(&run, 5);
        parcel_run_close(&run);
    }
}

/* An older target does not say whose limit it is, nor does 429 alone, and a newer one may say what
 * nobody understands: the tenant lets the others pass. */
static void tenant_that_is_refused_for_lack_lets_the_others_pass(void **state)
{
    static const int said[] = {FORWARD__V1__LIMIT_OF__UNSAID, 3, 0};

    (void)state;
    for (unsigned i = 0; i < FG_COUNT(said); i++) {
        bool by_code = i < 2;
        Forward__V1__Result full = parcel_run_beyond((Forward__V1__LimitOf)said[i], 0);
        struct parcel_run run;
        char name[8];
        bool unknown;

        open_of_three(&run);
        run.common.pass_ns = FG_MINUTE_NS;
        assert_true(parcel_run_build(&run));
        (void)snprintf(name, sizeof name, "%.*s", FG_S(run.parcel->tenant));
        assert_int_equal(by_code ? parcel_run_answer(&run, &full, 1)
                                 : parcel_run_status(&run, 429, FG_LIT("too many"), &unknown),
                         SENDER_BUSY);
        parcel_run_assert_numbers(parcel_run_end(&run), 0, 0, 9);
        parcel_run_take(&run);
        for (unsigned others = 0; parcel_run_build(&run); others++) {
            assert_true(others < 2);
            assert_false(fg_slice_is(run.parcel->tenant, name));
            parcel_run_store_all(&run);
        }
        parcel_run_assert_numbers(parcel_run_end(&run), 6, 0, 3);
        assert_held(&run, 3);
        parcel_run_close(&run);
    }
}

/* The target is not to blame, and the other batches of the request are stored, if they can be. */
static void tenant_whose_batch_is_beyond_its_limit_waits_alone(void **state)
{
    (void)state;
    for (unsigned n_beyond = 1; n_beyond <= 2; n_beyond++) {
        unsigned limited = 0, left = n_beyond * 3;
        struct parcel_run run;

        push_of_three(&run);
        for (unsigned n = 9; n < 12; n++)
            (void)parcel_run_push_of(&run, n, "b", "cart", NULL);
        parcel_run_take(&run);
        while (parcel_run_build(&run)) {
            Forward__V1__Result results[2];

            if (!fg_slice_is(run.parcel->tenant, "b")) {
                parcel_run_store_all(&run);
                continue;
            }
            assert_int_equal(run.n_batches, 2);
            results[0] = parcel_run_beyond(FORWARD__V1__LIMIT_OF__TENANT, 20);
            results[1] = n_beyond == 2 ? parcel_run_beyond(FORWARD__V1__LIMIT_OF__TENANT, 5)
                                       : parcel_run_stored(run.batches[1].n);
            assert_int_equal(parcel_run_answer(&run, results, 2), SENDER_TAKEN);
            limited++;
        }
        assert_int_equal(limited, 1);
        assert_int_equal(run.parcel->n_limited, 1);
        assert_int_equal(run.parcel->held_ns, 20 * FG_SECOND_NS);
        assert_true(fg_slice_is(run.parcel->held_tenant, "b"));
        parcel_run_assert_numbers(parcel_run_end(&run), 12 - left, 0, left);
        assert_held(&run, left);
        assert_true(ing_outbox_held_ns(run.common.outbox, 0) > 10 * FG_SECOND_NS);
        parcel_run_close(&run);
    }
}

/* However long the target says; if nobody knows, for a second. */
static void hold_of_a_limit_is_bounded(void **state)
{
    static const struct {
        uint32_t said_s, held_s;
    } cases[] = {{0, 1}, {1, 1}, {15, 15}, {601, 600}, {UINT32_MAX, 600}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        Forward__V1__Result result =
            parcel_run_beyond(FORWARD__V1__LIMIT_OF__TENANT, cases[i].said_s);
        struct parcel_run run;

        open_of_three(&run);
        assert_true(parcel_run_build(&run));
        assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
        assert_int_equal(run.parcel->held_ns, cases[i].held_s * FG_SECOND_NS);
        parcel_run_end_with(&run, 0, 0, 9);
    }
}

/* All wait for it, and none longer than the others. */
static void limit_of_the_target_holds_no_tenant(void **state)
{
    Forward__V1__Result result = parcel_run_beyond(FORWARD__V1__LIMIT_OF__SERVER, 5);
    struct parcel_run run;
    unsigned rounds = 0;

    (void)state;
    open_of_three(&run);
    run.common.pass_ns = FG_MINUTE_NS;
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_BUSY);
    assert_int_equal(run.parcel->n_limited, 0);
    parcel_run_assert_numbers(parcel_run_end(&run), 0, 0, 9);
    assert_int_equal(ing_outbox_held_ns(run.common.outbox, 0), INT64_MAX);
    parcel_run_take(&run);
    for (; parcel_run_build(&run); rounds++)
        parcel_run_store_all(&run);
    assert_int_equal(rounds, 3);
    parcel_run_end_with(&run, 9, 0, 0);
}

/* Retry-After is the longest time of all batches: a tenant that is held does not make the others
 * wait so long. */
static void busy_target_is_asked_again_when_it_says_and_not_its_tenant(void **state)
{
    Forward__V1__PushResponse response = FORWARD__V1__PUSH_RESPONSE__INIT;
    Forward__V1__Result beyond = parcel_run_beyond(FORWARD__V1__LIMIT_OF__TENANT, 300);
    Forward__V1__Result busy = parcel_run_beyond(FORWARD__V1__LIMIT_OF__SERVER, 2);
    Forward__V1__Result *results[] = {&beyond, &busy};
    uint8_t bytes[256];
    struct ing_parcel_answer answer = {
        .came = true, .status = 200, .retry_after_ns = 300 * FG_SECOND_NS};
    struct parcel_run run;
    struct fg_err err = {0};
    bool unknown;

    (void)state;
    response.results = results;
    for (unsigned n = 1; n <= 2; n++) {
        parcel_run_open_with(&run, "", 3);
        run.common.several = true;
        if (n == 2)
            (void)parcel_run_push_of(&run, 3, "tenant", "cart", NULL);
        else
            results[0] = &busy;
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        response.n_results = run.n_batches;
        assert_int_equal(run.n_batches, n);
        fg_assert(forward__v1__push_response__get_packed_size(&response) <= sizeof bytes);
        answer.body = fg_bytes(bytes, forward__v1__push_response__pack(&response, bytes));
        assert_int_equal(ing_parcel_answer(run.parcel, &answer, &unknown, &err), SENDER_BUSY);
        assert_int_equal(run.parcel->retry_after_ns, (n == 2 ? 2 : 300) * FG_SECOND_NS);
        parcel_run_end_with(&run, 0, 0, 2 + n);
        results[0] = &beyond;
    }
}

/* 429 for a limit of one tenant holds that one, as long as the target says; where all is of one
 * tenant, the target is busy. */
static void tenant_beyond_its_limit_waits_alone(void **state)
{
    Forward__V1__Result beyond;
    struct parcel_run run;
    unsigned limited = 0;

    (void)state;
    open_of_three(&run);
    while (parcel_run_build(&run)) {
        if (fg_slice_is(run.parcel->tenant, "b")) {
            assert_int_equal(parcel_run_limited(&run, 20 * FG_SECOND_NS), SENDER_TAKEN);
            limited++;
        } else {
            parcel_run_store_all(&run);
        }
    }
    assert_int_equal(limited, 1);
    assert_int_equal(run.parcel->n_limited, 1);
    assert_int_equal(run.parcel->n_denied, 0);
    assert_int_equal(run.parcel->held_ns, 20 * FG_SECOND_NS);
    parcel_run_assert_numbers(parcel_run_end(&run), 6, 0, 3);
    assert_held(&run, 3);
    assert_true(ing_outbox_held_ns(run.common.outbox, 0) <= 20 * FG_SECOND_NS);
    parcel_run_close(&run);
    parcel_run_open_with(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_limited(&run, 0), SENDER_BUSY);
    parcel_run_end_with(&run, 0, 0, 3);
    parcel_run_open_with(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    beyond = parcel_run_beyond(FORWARD__V1__LIMIT_OF__TENANT, 0);
    assert_int_equal(parcel_run_answer(&run, &beyond, 1), SENDER_BUSY);
    parcel_run_end_with(&run, 0, 0, 3);
}

/* One that lasts no time: as if it had ended. */
static void tenant_is_asked_for_again_after_its_hold(void **state)
{
    struct parcel_run run;

    (void)state;
    open_of_three(&run);
    run.common.hold_ns = 0;
    assert_int_equal(refuse_tenant(&run, "b", false), 3);
    parcel_run_assert_numbers(parcel_run_end(&run), 6, 0, 3);
    parcel_run_take(&run);
    while (parcel_run_build(&run))
        parcel_run_store_all(&run);
    parcel_run_assert_numbers(parcel_run_end(&run), 9, 0, 0);
    assert_held(&run, 0);
    parcel_run_close(&run);
}

/* Then all of the target waits, as without a tenant: it would be refused again and again. */
static void one_tenant_too_many_holds_the_target(void **state)
{
    struct parcel_run run;
    bool unknown;

    (void)state;
    open_of_three(&run);
    for (uint32_t tenant = 0; tenant < OUTBOX_HOLDS_MAX; tenant++)
        assert_true(ing_outbox_hold(run.common.outbox, 0, 1000 + tenant, FG_HOUR_NS));
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 403, FG_LIT(""), &unknown), SENDER_DENIED);
    parcel_run_end_with(&run, 0, 0, 9);
    open_of_three(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 401, FG_LIT(""), &unknown), SENDER_DENIED);
    parcel_run_end_with(&run, 0, 0, 9);
    parcel_run_open_with(&run, "tenant: team-a", 3); /* the same one for all */
    run.common.several = true;
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 403, FG_LIT(""), &unknown), SENDER_DENIED);
    parcel_run_end_with(&run, 0, 0, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_ones_are_dead_with_the_reason),
        cmocka_unit_test(batch_that_is_refused_is_divided),
        cmocka_unit_test(batch_of_one_that_is_refused_is_dead),
        cmocka_unit_test(other_codes_of_a_batch_are_temporary),
        cmocka_unit_test(results_that_do_not_fit_decide_nothing),
        cmocka_unit_test(bytes_that_are_no_answer_decide_nothing),
        cmocka_unit_test(statuses_that_pass_decide_nothing),
        cmocka_unit_test(refusals_of_a_proxy_decide_nothing),
        cmocka_unit_test(request_that_does_not_come_decides_nothing),
        cmocka_unit_test(request_that_is_too_large_is_halved),
        cmocka_unit_test(profile_that_is_too_large_alone_is_dead),
        cmocka_unit_test(refused_tenant_waits_and_the_others_go_on),
        cmocka_unit_test(tenant_that_is_refused_for_lack_lets_the_others_pass),
        cmocka_unit_test(tenant_whose_batch_is_beyond_its_limit_waits_alone),
        cmocka_unit_test(hold_of_a_limit_is_bounded),
        cmocka_unit_test(limit_of_the_target_holds_no_tenant),
        cmocka_unit_test(busy_target_is_asked_again_when_it_says_and_not_its_tenant),
        cmocka_unit_test(tenant_beyond_its_limit_waits_alone),
        cmocka_unit_test(tenant_is_asked_for_again_after_its_hold),
        cmocka_unit_test(one_tenant_too_many_holds_the_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
