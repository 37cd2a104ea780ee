/* What a request of push.v1 has, and what its answer decides. */
#include "tests/lib/batch_folded.h"
#include "tests/unit/ingester/forward/parcel_expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA_BYTES = 8 << 20 };

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
    parcel_run_read_push(fg_buf_slice(&run.parcel->body), arena, &batch);
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
    assert_int_equal(parcel_run_status(&run, 200, FG_LIT(""), &unknown), SENDER_TAKEN);
    assert_false(parcel_run_build(&run));
    fg_buf_done(&stored);
    fg_buf_done(&sent);
    fg_buf_done(&encoded);
    parcel_run_end_with(&run, 1, 0, 0);
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
    const struct fg_slice refusal =
        FG_LIT("{\"code\":\"invalid_argument\",\"message\":\"bad pprof\"}");
    static const unsigned statuses[] = {200, 400, 200, 413};
    struct parcel_run run;
    unsigned rounds = 0;
    bool unknown;

    (void)state;
    parcel_run_open_with(&run, "protocol: push", 5);
    parcel_run_take(&run);
    run.parcel->push = true;
    for (; rounds < FG_COUNT(statuses); rounds++) {
        assert_true(parcel_run_build(&run));
        assert_int_equal(parcel_run_status(&run, statuses[rounds],
                                           statuses[rounds] == 200 ? FG_LIT("") : refusal,
                                           &unknown),
                         SENDER_TAKEN);
    }
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 503, FG_LIT(""), &unknown), SENDER_BUSY);
    parcel_run_end_with(&run, 2, 2, 1);
}

/* A proxy, or a page of its own, may answer 200 as well. */
static void only_an_answer_of_the_protocol_counts_as_sent(void **state)
{
    static const struct {
        bool is_proto;
        const char *body;
    } pages[] = {
        {false, "<html>log in</html>"},
        {false, "{}"},
        {false, ""},
        {true, "<html>log in</html>"},
    };
    struct parcel_run run;
    bool unknown;

    (void)state;
    parcel_run_open_with(&run, "protocol: push", 1);
    for (size_t i = 0; i < FG_COUNT(pages); i++) {
        const struct ing_parcel_answer answer = {.came = true,
                                                 .status = 200,
                                                 .body = fg_cstr(pages[i].body),
                                                 .is_proto = pages[i].is_proto};
        struct fg_err err;

        parcel_run_take(&run);
        run.parcel->push = true;
        assert_true(parcel_run_build(&run));
        assert_int_equal(ing_parcel_answer(run.parcel, &answer, &unknown, &err), SENDER_AWAY);
        assert_false(unknown);
        assert_int_equal(parcel_run_end(&run).pending_profiles, 1);
    }
    parcel_run_take(&run);
    run.parcel->push = true;
    assert_true(parcel_run_build(&run));
    /* A field of a later version. */
    assert_int_equal(parcel_run_status(&run, 200, FG_LIT("\x08\x01"), &unknown), SENDER_TAKEN);
    parcel_run_end_with(&run, 1, 0, 0);
}

/* The target turns out to be a Pyroscope. */
static void parcel_goes_on_by_push(void **state)
{
    struct parcel_run run;
    unsigned rounds = 0;
    bool unknown;

    (void)state;
    parcel_run_open_with(&run, "", 3);
    parcel_run_take(&run);
    assert_true(parcel_run_build(&run));
    assert_int_equal(parcel_run_status(&run, 404, FG_LIT(""), &unknown), SENDER_AWAY);
    assert_true(unknown);
    run.parcel->push = true;
    for (; parcel_run_build(&run); rounds++)
        assert_int_equal(parcel_run_status(&run, 200, FG_LIT(""), &unknown), SENDER_TAKEN);
    assert_int_equal(rounds, 3);
    parcel_run_end_with(&run, 3, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushed_profile_is_the_one_that_is_stored),
        cmocka_unit_test(pushed_profile_has_the_types_and_labels_that_are_wanted),
        cmocka_unit_test(pushes_are_decided_one_by_one),
        cmocka_unit_test(only_an_answer_of_the_protocol_counts_as_sent),
        cmocka_unit_test(parcel_goes_on_by_push),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
