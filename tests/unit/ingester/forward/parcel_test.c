/* What becomes of each profile, whatever the target answers: it is done only if the target has said
 * so, it is dead only if the target has refused it alone, and else it waits. */
#include "common/net/inflate.h"
#include "proto/forward.h"
#include "proto/pprof/pprof.h"
#include "proto/push.h"
#include "tests/lib/batch_folded.h"
#include "tests/unit/ingester/forward/parcel_run.h"
#include "tests/unit/ingester/forward/past_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEAD_MAX = 32, ARENA_BYTES = 8 << 20 };

static void open_run(struct parcel_run *run, const char *target, unsigned n_profiles)
{
    parcel_run_open(run, target);
    for (unsigned n = 0; n < n_profiles; n++)
        (void)parcel_run_push(run, n);
}

static void assert_numbers(struct ing_outbox_numbers numbers, uint64_t done, uint64_t refused,
                           uint64_t pending)
{
    assert_int_equal(numbers.done, done);
    assert_int_equal(numbers.dropped[OUTBOX_BY_REFUSED], refused);
    assert_int_equal(numbers.dead, refused);
    assert_int_equal(numbers.pending_profiles, pending);
    assert_int_equal(numbers.taken_profiles, 0);
    assert_int_equal(numbers.dropped[OUTBOX_BY_GONE] + numbers.dropped[OUTBOX_BY_EXPIRED] +
                         numbers.dropped[OUTBOX_BY_FULL] + numbers.dropped[OUTBOX_BY_OPERATOR],
                     0);
}

/* Ends the parcel, and the run. */
static void end_with(struct parcel_run *run, uint64_t done, uint64_t refused, uint64_t pending)
{
    assert_numbers(parcel_run_end(run), done, refused, pending);
    parcel_run_close(run);
}

/* One dead profile and why. */
static void assert_dead(struct parcel_run *run, struct fg_id id, const char *reason)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct ing_outbox_dead *dead;
    struct fg_err err;
    size_t n;

    assert_int_equal(
        ing_outbox_list_dead(run->common.outbox, 0, 0, DEAD_MAX, arena, &dead, &n, &err), FG_OK);
    for (size_t i = 0; i < n; i++)
        if (fg_id_eq(dead[i].entry.key.id, id)) {
            if (fg_slice_search(dead[i].reason, reason) == SIZE_MAX)
                fail_msg("\"%.*s\" lacks \"%s\"", FG_S(dead[i].reason), reason);
            return;
        }
    fail_msg("the profile is not dead");
}

/* ---- stored, known, refused ---- */

static void what_is_stored_or_known_is_done(void **state)
{
    Forward__V1__Result result = parcel_run_stored(2);
    struct parcel_run run;

    (void)state;
    open_run(&run, "", 5);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_batches, 1);
    assert_int_equal(run.batches[0].n, 5);
    assert_int_equal(run.batches[0].n_stacks, 3);
    assert_int_equal(run.batches[0].n_defined, 3);
    assert_int_equal(run.n_via, 1);
    result.known = 2;
    result.dropped = 1; /* by the rules there: it was named, too */
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    assert_int_equal(run.parcel->n_stored, 2);
    assert_int_equal(run.parcel->n_known, 2);
    end_with(&run, 5, 0, 0);
}

static void stacks_are_defined_once(void **state)
{
    Forward__V1__Result result = parcel_run_stored(1);
    struct parcel_run run;

    (void)state;
    open_run(&run, "", 0);
    for (unsigned n = 0; n < 3; n++) {
        (void)parcel_run_push(&run, n);
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        assert_int_equal(run.batches[0].n_stacks, 3);
        assert_int_equal(run.batches[0].n_defined, n == 0 ? 3 : 0);
        assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
        assert_numbers(parcel_run_end(&run), n + 1, 0, 0);
    }
    parcel_run_close(&run);
}

/* The head stores samples by their stacks, in the order in which these came first: here the other
 * way round than in the profile. The request is read by the decoder that the target has. */
static void spans_are_sent_whatever_the_order_of_samples(void **state)
{
    static const struct head_sample samples[] = {
        {"a;d", {1, 10}, 7}, {"a;c", {2, 20}, 0}, {"a;b", {3, 30}, 5}, {"a;b;c", {4, 40}, 6}};
    static const struct head_sample before[] = {{"a;b;c", {1, 1}, 0}, {"a;c", {1, 1}, 0}};
    Forward__V1__Result result = parcel_run_stored(2);
    struct head_profile profile = parcel_run_profile(0);
    struct parcel_run run;

    (void)state;
    open_run(&run, "", 0);
    profile.samples = before;
    profile.n_samples = FG_COUNT(before);
    (void)parcel_run_store(&run, &profile);
    profile.time_ns += FG_SECOND_NS;
    profile.samples = samples;
    profile.n_samples = FG_COUNT(samples);
    (void)parcel_run_store(&run, &profile);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.batches[0].n, 2);
    assert_int_equal(run.batches[0].spans, 7 * 1 + 5 * 3 + 6 * 4);
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    end_with(&run, 2, 0, 0);
}

static Forward__V1__Refusal refusal_of(uint32_t profile, char *message)
{
    Forward__V1__Refusal refusal = FORWARD__V1__REFUSAL__INIT;

    refusal.profile = profile;
    refusal.code = fg_code_grpc(FG_E_INVALID);
    refusal.message = message;
    return refusal;
}

static void refused_ones_are_dead_with_the_reason(void **state)
{
    Forward__V1__Refusal refusals[] = {refusal_of(1, "too many labels"), refusal_of(3, "")};
    Forward__V1__Refusal *refused[] = {&refusals[0], &refusals[1]};
    Forward__V1__Result result = parcel_run_stored(2);
    struct parcel_run run;
    struct fg_id first, second;

    (void)state;
    open_run(&run, "", 4);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    first = run.batches[0].ids[1];
    second = run.batches[0].ids[3];
    result.refused = refused;
    result.n_refused = 2;
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    assert_numbers(parcel_run_end(&run), 2, 2, 0);
    assert_dead(&run, first, "too many labels");
    assert_dead(&run, second, "");
    parcel_run_close(&run);
}

/* ---- definitions ---- */

static Forward__V1__Result define(void)
{
    Forward__V1__Result result = FORWARD__V1__RESULT__INIT;

    result.define = true;
    return result;
}

/* The target has forgotten what it had. */
static void definitions_that_are_asked_for_are_sent(void **state)
{
    Forward__V1__Result result;
    struct parcel_run run;

    (void)state;
    open_run(&run, "", 1);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    result = parcel_run_stored(1);
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_numbers(parcel_run_end(&run), 1, 0, 0);
    (void)parcel_run_push(&run, 1);
    (void)parcel_run_push(&run, 2);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.batches[0].n_defined, 0);
    result = define();
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.batches[0].n, 2);
    assert_int_equal(run.batches[0].n_defined, 3);
    result = parcel_run_stored(2);
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    end_with(&run, 3, 0, 0);
}

static void target_that_asks_twice_is_left_alone(void **state)
{
    Forward__V1__Result result = define();
    struct parcel_run run;

    (void)state;
    open_run(&run, "", 2);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_TAKEN);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_answer(&run, &result, 1), SENDER_AWAY);
    end_with(&run, 0, 0, 2);
}

/* ---- batches that are refused ---- */

static Forward__V1__Result failed(enum fg_code code, char *message)
{
    Forward__V1__Result result = FORWARD__V1__RESULT__INIT;

    result.code = fg_code_grpc(code);
    result.message = message;
    return result;
}

/* Answers each batch by whether it has the profile. */
static enum ing_sender_result refuse_with(struct parcel_run *run, struct fg_id bad)
{
    Forward__V1__Result results[PARCEL_BATCHES_MAX];

    for (size_t b = 0; b < run->n_batches; b++) {
        results[b] = parcel_run_stored(run->batches[b].n);
        for (uint32_t i = 0; i < run->batches[b].n; i++)
            if (fg_id_eq(run->batches[b].ids[i], bad))
                results[b] = failed(FG_E_INVALID, "stack 1 is not the one that its id names");
    }
    return parcel_run_answer(run, results, run->n_batches);
}

static void batch_that_is_refused_is_divided(void **state)
{
    struct parcel_run run;
    struct fg_id bad;

    (void)state;
    open_run(&run, "", 6);
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
    assert_numbers(parcel_run_end(&run), 6, 1, 0);
    assert_dead(&run, bad, "stack 1 is not the one that its id names");
    parcel_run_close(&run);
}

static void batch_of_one_that_is_refused_is_dead(void **state)
{
    struct parcel_run run;
    struct fg_id bad;

    (void)state;
    open_run(&run, "", 1);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    bad = run.batches[0].ids[0];
    assert_int_equal(refuse_with(&run, bad), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    end_with(&run, 0, 1, 0);
}

/* Whatever trouble the target has of its own, such as a disk with damage. */
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
        open_run(&run, "", 3);
        (void)parcel_run_push_of(&run, 3, "tenant", "cart", NULL);
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        assert_int_equal(run.n_batches, 2);
        results[0] = failed(codes[i], "not now");
        results[1] = parcel_run_stored(run.batches[1].n);
        assert_int_equal(parcel_run_answer(&run, results, 2), SENDER_BUSY);
        end_with(&run, run.batches[1].n, 0, run.batches[0].n);
    }
}

/* ---- answers that make no sense ---- */

static void assert_senseless(Forward__V1__Result *results, size_t n)
{
    struct parcel_run run;

    open_run(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_batches, 1);
    assert_int_equal(parcel_run_answer(&run, results, n), SENDER_AWAY);
    end_with(&run, 0, 0, 3);
}

static void results_that_do_not_fit_decide_nothing(void **state)
{
    Forward__V1__Refusal refusals[] = {refusal_of(0, "no"), refusal_of(3, "no")};
    Forward__V1__Refusal twice[] = {refusal_of(0, "no"), refusal_of(0, "no")};
    Forward__V1__Refusal far = refusal_of(UINT32_MAX, "no");
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

        open_run(&run, "", 3);
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        assert_int_equal(parcel_run_status(&run, 200, bodies[i], &unknown), SENDER_AWAY);
        assert_false(unknown);
        end_with(&run, 0, 0, 3);
    }
}

/* ---- statuses ---- */

static void assert_status(const char *target, unsigned status, const char *body,
                          enum ing_sender_result result, bool is_unknown)
{
    struct parcel_run run;
    bool unknown;

    print_message("  %u %s\n", status, body);
    open_run(&run, target, 3);
    parcel_run_take(&run);
    run.parcel->push = target[0] != '\0';
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, status, fg_cstr(body), &unknown), result);
    assert_int_equal(unknown, is_unknown);
    end_with(&run, 0, 0, 3);
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
    open_run(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(ing_parcel_answer(run.parcel, &answer, &unknown, &err), SENDER_AWAY);
    assert_false(unknown);
    end_with(&run, 0, 0, 3);
}

/* 413: of 8 profiles three are together too much for a request. */
static void request_that_is_too_large_is_halved(void **state)
{
    Forward__V1__Result result;
    struct parcel_run run;
    unsigned rounds = 0;
    bool unknown;

    (void)state;
    open_run(&run, "", 8);
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
    end_with(&run, 8, 0, 0);
}

static void profile_that_is_too_large_alone_is_dead(void **state)
{
    struct parcel_run run;
    bool unknown;

    (void)state;
    open_run(&run, "", 3);
    parcel_run_take(&run);
    while (parcel_run_build(&run))
        assert_int_equal(parcel_run_status(&run, 413, FG_LIT("too large"), &unknown), SENDER_TAKEN);
    assert_numbers(parcel_run_end(&run), 0, 3, 0);
    assert_dead(&run, run.batches[0].ids[0], "status 413: too large");
    parcel_run_close(&run);
}

/* ---- what goes ---- */

/* Takes the next round, of which all is stored. */
static void store_all(struct parcel_run *run)
{
    Forward__V1__Result results[PARCEL_BATCHES_MAX];

    for (size_t b = 0; b < run->n_batches; b++)
        results[b] = parcel_run_stored(run->batches[b].n);
    assert_int_equal(parcel_run_answer(run, results, run->n_batches), SENDER_TAKEN);
}

static void selector_leaves_profiles_out(void **state)
{
    struct parcel_run run;
    struct fg_id wanted;

    (void)state;
    open_run(&run, "selector: '{zone=\"b\"}'", 2);
    (void)parcel_run_push_of(&run, 2, "tenant", "shop", "a");
    wanted = parcel_run_push_of(&run, 3, "tenant", "shop", "b");
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_profiles, 1);
    assert_true(fg_id_eq(run.batches[0].ids[0], wanted));
    assert_int_equal(run.parcel->n_filtered, 3);
    store_all(&run);
    assert_false(parcel_run_build(&run));
    end_with(&run, 4, 0, 0);
}

static void rules_may_drop_all(void **state)
{
    struct parcel_run run;

    (void)state;
    open_run(&run, "relabel: [{action: drop, source_labels: [service_name], regex: sh.*}]", 3);
    parcel_run_take(&run);
    assert_false(parcel_run_build(&run)); /* without a request */
    assert_int_equal(run.parcel->n_filtered, 3);
    end_with(&run, 3, 0, 0);
}

static void types_may_all_be_dropped(void **state)
{
    struct parcel_run run;

    (void)state;
    open_run(&run, "sample_types: [{action: drop, source_labels: [__type__], regex: .*}]", 3);
    parcel_run_take(&run);
    assert_false(parcel_run_build(&run));
    assert_int_equal(run.parcel->n_filtered, 3);
    end_with(&run, 3, 0, 0);
}

/* A request says of which tenant it is, so it has profiles of one. */
static void tenants_have_requests_of_their_own(void **state)
{
    static const char *const tenants[] = {"a", "b", "c"};
    unsigned seen[FG_COUNT(tenants)] = {0};
    struct parcel_run run;

    (void)state;
    open_run(&run, "", 0);
    run.common.several = true;
    for (unsigned n = 0; n < 9; n++)
        (void)parcel_run_push_of(&run, n, tenants[n % 3], "shop", NULL);
    parcel_run_take(&run);
    while (parcel_run_build(&run)) {
        for (size_t t = 0; t < FG_COUNT(tenants); t++)
            if (fg_slice_is(run.parcel->tenant, tenants[t]))
                seen[t] += (unsigned)run.n_profiles;
        assert_int_equal(run.n_profiles, 3);
        store_all(&run);
    }
    for (size_t t = 0; t < FG_COUNT(tenants); t++)
        assert_int_equal(seen[t], 3);
    end_with(&run, 9, 0, 0);
}

static void tenant_of_the_target_replaces_ours(void **state)
{
    struct parcel_run run;

    (void)state;
    open_run(&run, "tenant: team-a", 1);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_true(fg_slice_is(run.parcel->tenant, "team-a"));
    end_with(&run, 0, 0, 1);
    open_run(&run, "", 1); /* without tenancy here and there */
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.parcel->tenant.len, 0);
    end_with(&run, 0, 0, 1);
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

static void open_of_three(struct parcel_run *run)
{
    static const char *const tenants[] = {"a", "b", "c"};

    open_run(run, "", 0);
    run->common.several = true;
    for (unsigned n = 0; n < 9; n++)
        (void)parcel_run_push_of(run, n, tenants[n % 3], "shop", NULL);
    parcel_run_take(run);
}

/* Refuses one tenant, by status or by the code of a batch. Returns how many requests that took. */
static unsigned refuse_tenant(struct parcel_run *run, const char *tenant, bool by_code)
{
    unsigned rounds = 0;
    bool unknown;

    for (; parcel_run_build(run); rounds++) {
        Forward__V1__Result result = failed(FG_E_DENIED, "tenant suspended");

        if (!fg_slice_is(run->parcel->tenant, tenant))
            store_all(run);
        else if (by_code)
            assert_int_equal(parcel_run_answer(run, &result, 1), SENDER_TAKEN);
        else
            assert_int_equal(parcel_run_status(run, 403, FG_LIT("tenant suspended"), &unknown),
                             SENDER_TAKEN);
    }
    assert_int_equal(run->parcel->n_denied, 1);
    assert_non_null(strstr(run->parcel->denied.msg, "tenant suspended"));
    return rounds;
}

static void refused_tenant_waits_and_the_others_go_on(void **state)
{
    (void)state;
    for (unsigned by_code = 0; by_code < 2; by_code++) {
        struct parcel_run run;

        open_of_three(&run);
        assert_int_equal(refuse_tenant(&run, "b", by_code != 0), 3);
        assert_numbers(parcel_run_end(&run), 6, 0, 3);
        assert_held(&run, 3);
        /* What comes meanwhile is not even sent. */
        (void)parcel_run_push_of(&run, 9, "b", "shop", NULL);
        parcel_run_take(&run);
        assert_false(parcel_run_build(&run));
        assert_numbers(parcel_run_end(&run), 6, 0, 4);
        assert_held(&run, 4);
        (void)parcel_run_push_of(&run, 10, "a", "shop", NULL);
        (void)parcel_run_push_of(&run, 11, "b", "shop", NULL);
        parcel_run_take(&run);
        assert_true(parcel_run_build(&run));
        assert_true(fg_slice_is(run.parcel->tenant, "a"));
        store_all(&run);
        assert_false(parcel_run_build(&run));
        assert_numbers(parcel_run_end(&run), 7, 0, 5);
        assert_held(&run, 5);
        parcel_run_close(&run);
    }
}

/* 429 for a limit of one tenant holds that one, as long as the target says; where all is of one
 * tenant, the target is busy. */
static void tenant_beyond_its_limit_waits_alone(void **state)
{
    struct parcel_run run;
    unsigned limited = 0;

    (void)state;
    open_of_three(&run);
    while (parcel_run_build(&run)) {
        if (fg_slice_is(run.parcel->tenant, "b")) {
            assert_int_equal(parcel_run_limited(&run, 20 * FG_SECOND_NS), SENDER_TAKEN);
            limited++;
        } else {
            store_all(&run);
        }
    }
    assert_int_equal(limited, 1);
    assert_int_equal(run.parcel->n_limited, 1);
    assert_int_equal(run.parcel->n_denied, 0);
    assert_int_equal(run.parcel->held_ns, 20 * FG_SECOND_NS);
    assert_numbers(parcel_run_end(&run), 6, 0, 3);
    assert_held(&run, 3);
    assert_true(ing_outbox_held_ns(run.common.outbox, 0) <= 20 * FG_SECOND_NS);
    parcel_run_close(&run);
    open_run(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_limited(&run, 0), SENDER_BUSY);
    end_with(&run, 0, 0, 3);
}

/* One that lasts no time: as if it had ended. */
static void tenant_is_asked_for_again_after_its_hold(void **state)
{
    struct parcel_run run;

    (void)state;
    open_of_three(&run);
    run.common.hold_ns = 0;
    assert_int_equal(refuse_tenant(&run, "b", false), 3);
    assert_numbers(parcel_run_end(&run), 6, 0, 3);
    parcel_run_take(&run);
    while (parcel_run_build(&run))
        store_all(&run);
    assert_numbers(parcel_run_end(&run), 9, 0, 0);
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
    end_with(&run, 0, 0, 9);
    open_of_three(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 401, FG_LIT(""), &unknown), SENDER_DENIED);
    end_with(&run, 0, 0, 9);
    open_run(&run, "tenant: team-a", 3); /* the same one for all */
    run.common.several = true;
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 403, FG_LIT(""), &unknown), SENDER_DENIED);
    end_with(&run, 0, 0, 3);
}

/* ---- the way ---- */

static void profile_that_has_passed_four_servers_is_refused(void **state)
{
    uint8_t via[OUTBOX_VIA_MAX * FG_ID_BYTES];
    struct parcel_run run;
    struct fg_id ids[OUTBOX_VIA_MAX + 1];
    unsigned rounds = 0;

    (void)state;
    parcel_run_open(&run, "");
    for (unsigned n = 0; n < OUTBOX_VIA_MAX; n++)
        fg_id_put(via + (size_t)n * FG_ID_BYTES, (struct fg_id){n + 1, 5});
    for (unsigned n = 0; n <= OUTBOX_VIA_MAX; n++) {
        struct head_profile profile = parcel_run_profile(n);

        profile.via = fg_bytes(via, (size_t)n * FG_ID_BYTES);
        ids[n] = parcel_run_store(&run, &profile);
    }
    parcel_run_take(&run);
    for (; parcel_run_build(&run); rounds++) { /* those of one way together */
        assert_int_equal(run.n_profiles, 1);
        assert_int_equal(run.n_via, rounds + 1);
        assert_true(fg_id_eq(run.batches[0].ids[0], ids[rounds]));
        store_all(&run);
    }
    assert_int_equal(rounds, OUTBOX_VIA_MAX);
    assert_numbers(parcel_run_end(&run), OUTBOX_VIA_MAX, 1, 0);
    assert_dead(&run, ids[OUTBOX_VIA_MAX], "it has passed four servers");
    parcel_run_close(&run);
}

/* ---- damage ---- */

/* Changes the record of a profile in the store. Returns the id of the profile. */
static void damage(struct parcel_run *run, struct fg_id id, void (*change)(struct fg_buf *record))
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(run->store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    struct ing_head_profile_key key;
    struct fg_store_batch batch;
    struct fg_buf record;
    struct fg_err err;

    while (iter->valid && !(ing_head_get_profile_key(iter->key, &key) && fg_id_eq(key.id, id)))
        fg_store_iter_next(iter);
    assert_true(iter->valid);
    fg_buf_init(&record, SIZE_MAX);
    fg_buf_put(&record, iter->value);
    change(&record);
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_PROFILES, iter->key, fg_buf_slice(&record));
    assert_int_equal(fg_store_write(run->store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    fg_buf_done(&record);
}

static void cut_front(struct fg_buf *record)
{
    record->len = 1;
}

static void cut_samples(struct fg_buf *record)
{
    record->len -= 8;
}

static void other_version(struct fg_buf *record)
{
    record->ptr[0] = 99;
}

static void other_dictionary(struct fg_buf *record)
{
    record->ptr[1] = 99; /* its generation: there is none */
}

/* Only the damaged one is dead, whatever else is in its batch. */
static void damaged_profile_costs_no_other(void **state)
{
    static void (*const changes[])(struct fg_buf *) = {cut_front, cut_samples, other_version,
                                                       other_dictionary};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(changes); i++)
        for (unsigned bad = 0; bad < 3; bad++) {
            struct fg_id ids[3];
            struct parcel_run run;

            print_message("  damage %zu of profile %u\n", i, bad);
            parcel_run_open(&run, "");
            for (unsigned n = 0; n < 3; n++)
                ids[n] = parcel_run_push(&run, n);
            damage(&run, ids[bad], changes[i]);
            parcel_run_take(&run);
            while (parcel_run_build(&run))
                store_all(&run);
            assert_numbers(parcel_run_end(&run), 2, 1, 0);
            assert_dead(&run, ids[bad], "");
            parcel_run_close(&run);
        }
}

/* The tenant has no name any more, so nobody knows whose the profile is. */
static void profile_of_a_lost_tenant_is_refused(void **state)
{
    struct fg_store_batch batch;
    struct fg_id lost, other;
    struct parcel_run run;
    struct fg_err err;

    (void)state;
    parcel_run_open(&run, "");
    lost = parcel_run_push_of(&run, 0, "a", "shop", NULL);
    other = parcel_run_push_of(&run, 1, "b", "shop", NULL);
    fg_store_batch_init(&batch);
    fg_store_delete(&batch, HEAD_META, FG_LIT("ta"));
    assert_int_equal(fg_store_write(run.store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    parcel_run_reopen(&run);
    run.common.several = true;
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.n_profiles, 1);
    assert_true(fg_id_eq(run.batches[0].ids[0], other));
    assert_true(fg_slice_is(run.parcel->tenant, "b"));
    store_all(&run);
    assert_false(parcel_run_build(&run));
    assert_numbers(parcel_run_end(&run), 1, 1, 0);
    assert_dead(&run, lost, "the record of its tenant is lost");
    parcel_run_close(&run);
}

/* ---- push.v1 ---- */

/* Reads a request that has one profile. */
static void read_push(struct fg_slice body, struct fg_arena *arena, struct fg_batch *ret_batch)
{
    struct fg_decode_counts counts = {0};
    struct fg_pprof_request request = {0};
    struct fg_pprof_info info;
    struct fg_buf inflated;
    struct fg_slice pprof;
    struct fg_push push;
    struct fg_err err;

    if (fg_push_read(body, arena, &push, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(push.n_series, 1);
    assert_int_equal(push.n_profiles, 1);
    pprof = push.series[0].profiles[0];
    assert_true(pprof.len > 2 && pprof.ptr[0] == 0x1f && pprof.ptr[1] == 0x8b); /* gzip */
    fg_buf_init(&inflated, SIZE_MAX);
    if (fg_inflate(pprof, FG_CODING_GZIP, ARENA_BYTES, &inflated, &err) != FG_OK)
        fail_msg("%s", err.msg);
    pprof = fg_arena_copy(arena, fg_buf_slice(&inflated)); /* the batch borrows from it */
    fg_buf_done(&inflated);
    request.upload =
        (struct fg_upload){.labels = push.series[0].labels, .limits = FG_DECODE_LIMITS_DEFAULT};
    if (fg_pprof_decode(pprof, &request, arena, ret_batch, &info, &counts, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(ret_batch->n_profiles, 1);
}

/* The profile as it was pushed here, and as the target reads it. */
static void assert_same_as_stored(const struct head_profile *profile, const char *target,
                                  const char *expected)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_buf stored, sent, encoded;
    struct fg_wire_batch wire;
    struct fg_batch batch;
    struct parcel_run run;
    struct fg_err err;
    bool unknown;

    fg_buf_init(&stored, SIZE_MAX);
    fg_buf_init(&sent, SIZE_MAX);
    fg_buf_init(&encoded, SIZE_MAX);
    parcel_run_open(&run, target);
    (void)parcel_run_store(&run, profile);
    parcel_run_take(&run);
    run.parcel->push = true;
    assert_true(parcel_run_build(&run));
    read_push(fg_buf_slice(&run.parcel->body), arena, &batch);
    batch_describe(&batch, &sent);
    (void)head_encode(profile, true, 1, &encoded);
    assert_int_equal(fg_batch_decode(fg_buf_slice(&encoded), arena, &wire, &err), FG_OK);
    assert_true(fg_batch_of_wire(&wire, arena, &batch));
    if (expected == NULL)
        batch_describe(&batch, &stored);
    else
        fg_buf_puts(&stored, expected);
    fg_wire_batch_done(&wire);
    if (!fg_slice_eq(fg_buf_slice(&sent), fg_buf_slice(&stored)))
        fail_msg("sent\n%.*s\nstored\n%.*s", FG_S(fg_buf_slice(&sent)),
                 FG_S(fg_buf_slice(&stored)));
    assert_int_equal(parcel_run_status(&run, 200, FG_LIT("{}"), &unknown), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    fg_buf_done(&stored);
    fg_buf_done(&sent);
    fg_buf_done(&encoded);
    end_with(&run, 1, 0, 0);
}

static void pushed_profile_is_the_one_that_is_stored(void **state)
{
    static const struct head_sample samples[] = {{"main;work;read", {1, 10}, 0x1234},
                                                 {"main;work", {2, 20}, 0},
                                                 {"main;wait", {0, 40}, 0},
                                                 {"other", {INT64_C(1) << 40, 3}, 0xabcd}};
    struct head_profile profile = parcel_run_profile(7);

    (void)state;
    assert_same_as_stored(&profile, "", NULL);
    profile.samples = samples;
    profile.n_samples = FG_COUNT(samples);
    profile.zone = "eu";
    assert_same_as_stored(&profile, "", NULL);
}

static void pushed_profile_has_the_types_and_labels_that_are_wanted(void **state)
{
    struct head_profile profile = parcel_run_profile(7);

    (void)state;
    assert_same_as_stored(
        &profile,
        "sample_types: [{action: drop, source_labels: [__type__], regex: samples}], "
        "relabel: [{target_label: cluster, replacement: edge}]",
        "{__name__=\"process_cpu\", cluster=\"edge\", service_name=\"shop\"} at "
        "1700000007000000000 for 1000000000 period / 1\n"
        "cpu/nanoseconds\n"
        " 30\n"
        "a;b 10\n"
        "a;c 20\n");
}

/* An answer of push.v1 is about the whole request, so each has one profile. */
static void pushes_are_decided_one_by_one(void **state)
{
    static const unsigned statuses[] = {200, 400, 200, 413};
    struct parcel_run run;
    unsigned rounds = 0;
    bool unknown;

    (void)state;
    open_run(&run, "protocol: push", 5);
    parcel_run_take(&run);
    run.parcel->push = true;
    for (; rounds < FG_COUNT(statuses); rounds++) {
        assert_true(parcel_run_build(&run));
        assert_int_equal(
            parcel_run_status(&run, statuses[rounds],
                              FG_LIT("{\"code\":\"invalid_argument\",\"message\":\"bad pprof\"}"),
                              &unknown),
            SENDER_TAKEN);
    }
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 503, FG_LIT(""), &unknown), SENDER_BUSY);
    end_with(&run, 2, 2, 1);
}

/* The target turns out to be a Pyroscope. */
static void parcel_goes_on_by_push(void **state)
{
    struct parcel_run run;
    unsigned rounds = 0;
    bool unknown;

    (void)state;
    open_run(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 404, FG_LIT(""), &unknown), SENDER_AWAY);
    assert_true(unknown);
    run.parcel->push = true;
    for (; parcel_run_build(&run); rounds++)
        assert_int_equal(parcel_run_status(&run, 200, FG_LIT(""), &unknown), SENDER_TAKEN);
    assert_int_equal(rounds, 3);
    end_with(&run, 3, 0, 0);
}

/* ---- passwords ---- */

static void write_file(const char *path, struct fg_slice text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text.ptr, 1, text.len, file), text.len);
    assert_int_equal(fclose(file), 0);
}

static void login_is_read_for_each_round(void **state)
{
    char path[] = "/tmp/flamegrid-test-login.XXXXXX", target[256], long_text[1026];
    struct parcel_run run;
    struct fg_err err;
    int fd = mkstemp(path);
    bool more;

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    (void)snprintf(target, sizeof target, "username: me, password_file: %s", path);
    open_run(&run, target, 1);
    parcel_run_take(&run);
    write_file(path, FG_LIT("secret\n"));
    assert_true(parcel_run_build(&run));
    assert_true(fg_slice_is(fg_buf_slice(&run.parcel->login), "bWU6c2VjcmV0"));
    write_file(path, FG_LIT("other"));
    assert_true(parcel_run_build(&run));
    assert_true(fg_slice_is(fg_buf_slice(&run.parcel->login), "bWU6b3RoZXI="));
    memset(long_text, 'x', sizeof long_text);
    write_file(path, fg_bytes((const uint8_t *)long_text, 1024));
    assert_true(parcel_run_build(&run));
    assert_int_equal(run.parcel->login.len, (3 + 1024 + 2) / 3 * 4);
    /* Without a password nothing is sent: the target would count vain logins. */
    write_file(path, fg_bytes((const uint8_t *)long_text, 1025));
    assert_int_equal(ing_parcel_build(run.parcel, &more, &err), FG_E_INVALID);
    assert_non_null(strstr(err.msg, "a password of 1025 bytes, not 1 to 1024"));
    write_file(path, FG_LIT("\n"));
    assert_int_equal(ing_parcel_build(run.parcel, &more, &err), FG_E_INVALID);
    assert_int_equal(unlink(path), 0);
    assert_int_not_equal(ing_parcel_build(run.parcel, &more, &err), FG_OK);
    assert_non_null(strstr(err.msg, path));
    end_with(&run, 0, 0, 1);
}

/* ---- pages of a resend ---- */

enum { PAGE_PROFILES = 4 };

struct page_run {
    struct parcel_run run;
    struct past_run past;
    struct past_profile profiles[PAGE_PROFILES];
    struct ing_page_reader reader;
    atomic_bool stop;
};

/* Begins a resend of four profiles of one tenant, and makes a parcel of the page that has them. */
static void open_page(struct page_run *page, const char *target)
{
    static const char *const tenants[] = {"tenant"};
    struct ing_page read = {0};
    struct fg_err err;

    *page = (struct page_run){0};
    parcel_run_open(&page->run, target);
    past_run_init(&page->past);
    page->past.tenants = tenants;
    page->past.n_tenants = 1;
    page->past.profiles = page->profiles;
    for (; page->past.n < PAGE_PROFILES; page->past.n++)
        page->profiles[page->past.n] =
            (struct past_profile){"tenant", (1 + (int64_t)page->past.n) * FG_SECOND_NS, NULL};
    assert_int_equal(ing_outbox_resend(page->run.common.outbox, 0, 1, 10 * FG_SECOND_NS, &err),
                     FG_OK);
    while (read.n == 0) {
        struct ing_resend resend;

        assert_true(ing_outbox_get_resending(page->run.common.outbox, 0, &resend));
        assert_int_equal(ing_page_read(&page->reader, &page->past.past, &resend, 5, INT64_MAX,
                                       &page->stop, &read, &err),
                         FG_OK);
        if (read.n == 0)
            ing_outbox_note_resend(page->run.common.outbox, 0, &read.before, &read.after);
    }
    assert_int_equal(read.n, PAGE_PROFILES);
    page->run.parcel =
        ing_parcel_create_of_page(&page->run.common, &page->run.targets->items[0], 17, 0, &read);
    assert_null(read.items);
}

static struct ing_resend end_page(struct page_run *page)
{
    const struct ing_resend resend = parcel_run_end(&page->run).resend;

    parcel_run_close(&page->run);
    return resend;
}

static void page_is_sent_with_its_ids_and_passed(void **state)
{
    Forward__V1__Result results[PAGE_PROFILES];
    struct page_run page;
    struct ing_resend resend;

    (void)state;
    open_page(&page, "");
    assert_true(parcel_run_build(&page.run));
    assert_int_equal(page.run.n_batches, PAGE_PROFILES);
    for (size_t i = 0; i < PAGE_PROFILES; i++) {
        results[i] = parcel_run_stored(1);
        assert_int_equal(page.run.batches[i].n_defined, 1);
        assert_true(fg_id_eq(page.run.batches[i].ids[0], past_run_id(&page.profiles[i])));
    }
    results[1].stored = 0;
    results[1].known = 1;
    assert_int_equal(page.run.n_via, 1);
    assert_int_equal(parcel_run_answer(&page.run, results, PAGE_PROFILES), SENDER_TAKEN);
    assert_false(parcel_run_build(&page.run));
    resend = end_page(&page);
    assert_int_equal(resend.sent, 4);
    assert_int_equal(resend.known, 1);
    assert_true(resend.time_ns >= 4 * FG_SECOND_NS);
}

/* Only what comes before the first profile that has to wait is passed, so none is skipped. */
static void page_is_passed_up_to_what_waits(void **state)
{
    (void)state;
    for (unsigned waits = 0; waits < PAGE_PROFILES; waits++) {
        Forward__V1__Result results[PAGE_PROFILES];
        struct page_run page;
        struct ing_resend resend;

        open_page(&page, "");
        assert_true(parcel_run_build(&page.run));
        for (size_t i = 0; i < PAGE_PROFILES; i++)
            results[i] = parcel_run_stored(1);
        results[waits].stored = 0;
        results[waits].code = 14;
        results[waits].message = (char *)(uintptr_t) "too busy";
        assert_int_equal(parcel_run_answer(&page.run, results, PAGE_PROFILES), SENDER_BUSY);
        resend = end_page(&page);
        assert_int_equal(resend.time_ns, waits == 0 ? 0 : (int64_t)waits * FG_SECOND_NS);
        assert_int_equal(resend.state, RESEND_READS);
    }
}

static void page_without_an_answer_is_read_again(void **state)
{
    struct page_run page;
    struct ing_resend resend;
    bool unknown;

    (void)state;
    open_page(&page, "");
    assert_true(parcel_run_build(&page.run));
    assert_int_equal(parcel_run_status(&page.run, 503, FG_LIT(""), &unknown), SENDER_BUSY);
    resend = end_page(&page);
    assert_int_equal(resend.time_ns, 0);
    assert_int_equal(resend.sent, 0);
}

static void page_counts_what_is_refused_or_left_out(void **state)
{
    Forward__V1__Result result = parcel_run_stored(1);
    struct page_run page;
    struct ing_resend resend;
    bool unknown;

    (void)state;
    open_page(&page, "selector: '{service_name=\"other\"}'");
    assert_false(parcel_run_build(&page.run));
    assert_int_equal(end_page(&page).filtered, PAGE_PROFILES);
    open_page(&page, "");
    for (unsigned left = PAGE_PROFILES; left > 0; left--) { /* 400: one after another is alone */
        while (parcel_run_build(&page.run) && page.run.n_batches > 1)
            assert_int_equal(parcel_run_status(&page.run, 400,
                                               FG_LIT("{\"code\":\"invalid_argument\"}"), &unknown),
                             SENDER_TAKEN);
        if (left == 2)
            assert_int_equal(parcel_run_status(&page.run, 400,
                                               FG_LIT("{\"code\":\"invalid_argument\"}"), &unknown),
                             SENDER_TAKEN);
        else
            assert_int_equal(parcel_run_answer(&page.run, &result, 1), SENDER_TAKEN);
    }
    assert_false(parcel_run_build(&page.run));
    resend = end_page(&page);
    assert_int_equal(resend.refused, 1);
    assert_int_equal(resend.sent, 3);
    assert_true(resend.time_ns >= 4 * FG_SECOND_NS);
}

static void tenant_that_is_refused_holds_its_page(void **state)
{
    struct page_run page;
    bool unknown;

    (void)state;
    open_page(&page, "");
    page.run.common.several = true;
    assert_true(parcel_run_build(&page.run));
    assert_true(fg_slice_is(page.run.parcel->tenant, "tenant"));
    assert_int_equal(parcel_run_status(&page.run, 403, FG_LIT("no"), &unknown), SENDER_TAKEN);
    assert_false(parcel_run_build(&page.run));
    assert_int_equal(page.run.parcel->n_denied, 1);
    assert_int_equal(end_page(&page).time_ns, 0);
}

static void page_is_pushed_profile_by_profile(void **state)
{
    struct page_run page;
    bool unknown;

    (void)state;
    open_page(&page, "protocol: push");
    page.run.parcel->push = true;
    for (unsigned i = 0; i < PAGE_PROFILES; i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
        struct fg_batch batch;
        struct fg_buf text;

        assert_true(parcel_run_build(&page.run));
        read_push(fg_buf_slice(&page.run.parcel->body), arena, &batch);
        fg_buf_init(&text, SIZE_MAX);
        batch_describe(&batch, &text);
        assert_true(fg_slice_search(fg_buf_slice(&text), "a;b 1") != SIZE_MAX);
        fg_buf_done(&text);
        assert_int_equal(parcel_run_status(&page.run, 200, FG_LIT("{}"), &unknown), SENDER_TAKEN);
    }
    assert_false(parcel_run_build(&page.run));
    assert_int_equal(end_page(&page).sent, PAGE_PROFILES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored_or_known_is_done),
        cmocka_unit_test(stacks_are_defined_once),
        cmocka_unit_test(spans_are_sent_whatever_the_order_of_samples),
        cmocka_unit_test(refused_ones_are_dead_with_the_reason),
        cmocka_unit_test(definitions_that_are_asked_for_are_sent),
        cmocka_unit_test(target_that_asks_twice_is_left_alone),
        cmocka_unit_test(batch_that_is_refused_is_divided),
        cmocka_unit_test(batch_of_one_that_is_refused_is_dead),
        cmocka_unit_test(other_codes_of_a_batch_are_temporary),
        cmocka_unit_test(results_that_do_not_fit_decide_nothing),
        cmocka_unit_test(bytes_that_are_no_answer_decide_nothing),
        cmocka_unit_test(statuses_that_pass_decide_nothing),
        cmocka_unit_test(refusals_of_a_proxy_decide_nothing),
        cmocka_unit_test(tenant_beyond_its_limit_waits_alone),
        cmocka_unit_test(request_that_does_not_come_decides_nothing),
        cmocka_unit_test(request_that_is_too_large_is_halved),
        cmocka_unit_test(profile_that_is_too_large_alone_is_dead),
        cmocka_unit_test(selector_leaves_profiles_out),
        cmocka_unit_test(rules_may_drop_all),
        cmocka_unit_test(types_may_all_be_dropped),
        cmocka_unit_test(tenants_have_requests_of_their_own),
        cmocka_unit_test(tenant_of_the_target_replaces_ours),
        cmocka_unit_test(refused_tenant_waits_and_the_others_go_on),
        cmocka_unit_test(tenant_is_asked_for_again_after_its_hold),
        cmocka_unit_test(one_tenant_too_many_holds_the_target),
        cmocka_unit_test(profile_that_has_passed_four_servers_is_refused),
        cmocka_unit_test(damaged_profile_costs_no_other),
        cmocka_unit_test(profile_of_a_lost_tenant_is_refused),
        cmocka_unit_test(pushed_profile_is_the_one_that_is_stored),
        cmocka_unit_test(pushed_profile_has_the_types_and_labels_that_are_wanted),
        cmocka_unit_test(pushes_are_decided_one_by_one),
        cmocka_unit_test(parcel_goes_on_by_push),
        cmocka_unit_test(page_is_sent_with_its_ids_and_passed),
        cmocka_unit_test(page_is_passed_up_to_what_waits),
        cmocka_unit_test(page_without_an_answer_is_read_again),
        cmocka_unit_test(page_counts_what_is_refused_or_left_out),
        cmocka_unit_test(tenant_that_is_refused_holds_its_page),
        cmocka_unit_test(page_is_pushed_profile_by_profile),
        cmocka_unit_test(login_is_read_for_each_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
