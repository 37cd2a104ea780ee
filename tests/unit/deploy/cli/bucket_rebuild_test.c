/* Tests which objects `flamegrid bucket rebuild` uses and what it refuses to guess.
 * tests/bucket/mending.py tests it with a server. */
#include "common/storage/bucket/kept.h"
#include "deploy/cli/bucket_rebuild.h"
#include "deploy/cli/bucket_verify.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"
#include "tests/unit/deploy/cli/bucket_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { OBJECT_MAX_BYTES = 1 << 20 };

static bool is_there(struct fixture *f, const char *name)
{
    struct fg_bucket_request head = {.verb = FG_BUCKET_HEAD, .name = name};

    return fg_bucket_call(f->bucket, &head) == FG_OK;
}

static void expect_said(struct fixture *f, const char *text)
{
    (void)fflush(f->out);
    if (strstr(f->said, text) == NULL)
        fail_msg("%s", f->said);
}

static void expect_refused(enum fg_code code, enum fg_code want, const struct fg_err *err,
                           const char *text)
{
    assert_int_equal(code, want);
    if (strstr(err->msg, text) == NULL)
        fail_msg("%s", err->msg);
}

static struct cli_survey_object read_l0(struct fixture *f)
{
    struct cli_survey_object l0 = {.code = FG_OK};
    struct fg_err err;

    fixture_must(cli_survey_read_l0(f->bucket, &l0, &err), &err);
    assert_int_equal(l0.code, FG_OK);
    return l0;
}

static void generations_only_grow(void **state)
{
    struct fixture *f = *state;
    struct cli_rebuild_options options = {.apply = true, .generation = 1000 * 1000};
    struct cli_survey_object l0;
    struct fg_err err;
    uint64_t generation;

    fixture_delete(f, FG_NAME_L0);
    fixture_must(cli_rebuild_l0(f->bucket, &options, f->out, &err), &err);
    l0 = read_l0(f);
    generation = l0.content->l0.generation;
    assert_int_equal(l0.content->l0.floor, options.generation);
    assert_int_equal(generation, options.generation + 1);
    cli_survey_object_done(&l0);
    options.generation--;
    expect_refused(cli_rebuild_l0(f->bucket, &options, f->out, &err), FG_E_INVALID, &err,
                   "is too small");
    fixture_must(cli_bucket_verify(f->bucket, f->out, &err), &err);
}

/* Profiles in two objects count once, as after uploads of two ingesters with the same profiles. */
static void profiles_of_two_uploads_are_taken_once(void **state)
{
    struct fixture *f = *state;
    struct fg_store *other = fg_store_memory(HEAD_FAMILIES);
    const struct cli_rebuild_options options = {.apply = true};
    struct cli_survey_object l0;
    struct fg_err err;

    f->pushed -= 2; /* it has two of these four as well, which its bucket does not say */
    fixture_delete(f, FG_NAME_L0);
    {
        struct fg_bucket *bucket = f->bucket;
        struct cli_survey survey;
        struct fg_buf segment;
        char name[FG_NAME_MAX_BYTES];

        f->bucket = fg_bucket_memory();
        fixture_commit(f, other, 4);
        fixture_must(cli_survey_read(f->bucket, &survey, &err), &err);
        assert_int_equal(survey.n_segments, 1);
        fg_name_segment(name, &survey.segments[0].name.segment);
        fixture_must(cli_survey_get(f->bucket, name, &segment, &err), &err);
        cli_survey_done(&survey);
        fg_bucket_close(f->bucket);
        f->bucket = bucket;
        fixture_put(f, name, fg_buf_slice(&segment));
        fg_buf_done(&segment);
    }
    fixture_must(cli_rebuild_l0(f->bucket, &options, f->out, &err), &err);
    expect_said(f, ": 2 of 4 profiles of tenant tenant");
    expect_said(f, "6 profiles in 2 segments");
    fixture_must(cli_bucket_verify(f->bucket, f->out, &err), &err);
    expect_said(f, "tenant: 6 profiles, each once, in 2 segments");
    l0 = read_l0(f);
    assert_int_equal(l0.content->l0.n_gone, 2); /* garbage collection deletes them */
    cli_survey_object_done(&l0);
    fg_store_close(other);
}

static void damaged_manifest_is_kept(void **state)
{
    struct fixture *f = *state;
    const struct cli_rebuild_options options = {.apply = true};
    struct fg_err err;
    char *kept, name[FG_KEPT_NAME_MAX_BYTES];

    fixture_put(f, FG_NAME_L0, FG_LIT("rubbish"));
    fixture_must(cli_rebuild_l0(f->bucket, &options, f->out, &err), &err);
    expect_said(f, "kept what was there as manifests/kept/l0/replaced-");
    kept = strstr(f->said, "manifests/kept/");
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(kept, "\n"), kept);
    assert_true(is_there(f, name));
    fixture_must(cli_bucket_verify(f->bucket, f->out, &err), &err);
}

static void blocks_without_a_manifest_are_reported_first(void **state)
{
    struct fixture *f = *state;
    const struct cli_rebuild_options options = {.apply = true, .accept_loss = true};
    struct fg_err err;

    fixture_delete(f, FG_NAME_L0);
    fixture_put(f, "tenants/other/blocks/00000000000000010000000000000002", FG_LIT("a block"));
    expect_refused(cli_rebuild_l0(f->bucket, &options, f->out, &err), FG_E_PRECONDITION, &err,
                   "bucket rebuild tenant other comes first");
    assert_false(is_there(f, FG_NAME_L0));
}

static void rings_are_not_guessed(void **state)
{
    struct fixture *f = *state;
    struct cli_rebuild_options options = {.apply = true};
    struct fg_ring ring = fg_ring_none();
    struct fg_buf bytes;
    struct fg_err err;

    expect_refused(cli_rebuild_ring(f->bucket, &options, f->out, &err), FG_E_PRECONDITION, &err,
                   "nobody knows the members");
    fg_buf_init(&bytes, OBJECT_MAX_BYTES);
    for (uint64_t swaps = 5; swaps <= 6; swaps++) {
        ring.swaps = swaps;
        bytes.len = 0;
        fixture_must(fg_ring_encode(&ring, &bytes, &err), &err);
        fixture_put(f, swaps == 5 ? "manifests/kept/ring/1" : "manifests/kept/ring/0",
                    fg_buf_slice(&bytes));
    }
    fixture_must(cli_rebuild_ring(f->bucket, &options, f->out, &err), &err);
    expect_said(f, "the kept version manifests/kept/ring/0, of 6 swaps");
    assert_true(is_there(f, FG_RING_NAME));
    expect_refused(cli_rebuild_ring(f->bucket, &options, f->out, &err), FG_E_PRECONDITION, &err,
                   "no copy is newer");
    fixture_delete(f, FG_RING_NAME);
    fixture_delete(f, "manifests/kept/ring/0");
    fixture_delete(f, "manifests/kept/ring/1");
    options.accept_loss = true;
    fixture_must(cli_rebuild_ring(f->bucket, &options, f->out, &err), &err);
    expect_said(f, "a ring without members");
    fg_buf_done(&bytes);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(generations_only_grow),    TEST(profiles_of_two_uploads_are_taken_once),
        TEST(damaged_manifest_is_kept), TEST(blocks_without_a_manifest_are_reported_first),
        TEST(rings_are_not_guessed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
