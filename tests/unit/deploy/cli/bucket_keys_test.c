/* `flamegrid bucket` and `flamegrid encryption drop` on objects with parts of several tenants, of
 * which one tenant's cannot be decrypted: its key is not available, or was shredded. */
#include "common/access/registry/registry_object.h"
#include "common/access/registry/tenant_keys_change.h"
#include "deploy/cli/bucket_quarantine.h"
#include "deploy/cli/bucket_shredded.h"
#include "deploy/cli/bucket_survey.h"
#include "deploy/cli/bucket_verify.h"
#include "tests/lib/head_run.h"
#include "tests/lib/made_keys.h"
#include "tests/unit/deploy/cli/bucket_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { OF_TENANT = 4, OF_OTHER = 3 };

/* Commits a segment with profiles of two tenants, each encrypted with its newest key. */
static void commit_two(struct fixture *f)
{
    const struct head_sample sample = {"a;b", {1, 10}, 0};
    struct head head;
    struct fg_err err;

    head_open_on(&head, f->store, f->bucket);
    for (int i = 0; i < OF_TENANT + OF_OTHER; i++) {
        const struct head_profile profile = {.tenant = i < OF_TENANT ? "tenant" : "other",
                                             .service = "shop",
                                             .time_ns = (1700000000 + f->pushed++) * FG_SECOND_NS,
                                             .samples = &sample,
                                             .n_samples = 1};

        assert_int_equal(head_push(&head, &profile, true).stored, 1);
    }
    fixture_must(ing_flush(head.ingester, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS, &err), &err);
    head_close(&head);
}

/* Writes the name of the newest segment. */
static void newest_segment(struct fixture *f, char name[FG_NAME_MAX_BYTES])
{
    struct cli_survey_object l0 = {.code = FG_OK};
    struct fg_err err;

    fixture_must(cli_survey_read_l0(f->bucket, &l0, &err), &err);
    fg_name_segment(name, &l0.content->l0.segments[l0.content->l0.n_segments - 1].id);
    cli_survey_object_done(&l0);
}

static void expect(const struct fixture *f, const char *text)
{
    (void)fflush(f->out);
    if (strstr(f->said, text) == NULL)
        fail_msg("no \"%s\" in: %s", text, f->said);
}

static void expect_none(const struct fixture *f, const char *text)
{
    (void)fflush(f->out);
    if (strstr(f->said, text) != NULL)
        fail_msg("\"%s\" in: %s", text, f->said);
}

/* Forgets what was said. */
static void restart(struct fixture *f)
{
    (void)fclose(f->out);
    free(f->said);
    f->out = open_memstream(&f->said, &f->said_len);
}

static enum fg_code verify(struct fixture *f, struct fg_err *err)
{
    restart(f);
    return cli_bucket_verify(f->bucket, f->out, err);
}

static void expect_unchecked(struct fixture *f, const char *why)
{
    char segment[FG_NAME_MAX_BYTES], line[256];
    struct fg_err err;

    newest_segment(f, segment);
    (void)snprintf(line, sizeof line, "unchecked: %s: %s", segment, why);
    assert_int_equal(verify(f, &err), FG_E_UNAVAILABLE);
    assert_string_equal(err.msg, "no faults, but 1 objects were not checked");
    expect(f, line);
    expect(f, "\ntenant: 8 profiles, each once, in 2 segments");
    expect_none(f, "fault: ");
    expect_none(f, "damage");
    restart(f);
    assert_int_equal(cli_bucket_verify_json(f->bucket, f->out, &err), FG_E_UNAVAILABLE);
    expect(f, "\"faults\":[]");
    expect(f, why);
}

static void a_key_that_cannot_be_had_is_no_damage(void **state)
{
    struct fixture *f = *state;
    struct made_keys keys;
    struct fg_err err;

    made_keys_init(&keys, 1);
    f->bucket->keys = &keys.keys;
    commit_two(f);
    fixture_must(verify(f, &err), &err);
    keys.away = "other";
    expect_unchecked(f, "what encrypts the key is away");
    keys.away = NULL;
    keys.missing = 1;
    keys.missing_for = "other";
    expect_unchecked(f, "encrypted with key 1");
}

static bool has_manifest(struct fixture *f, const char *tenant)
{
    struct cli_survey_object manifest = {.code = FG_OK};
    struct fg_err err;
    bool has;

    fixture_must(cli_survey_read_blocks(f->bucket, fg_cstr(tenant), &manifest, &err), &err);
    has = manifest.code == FG_OK;
    cli_survey_object_done(&manifest);
    return has;
}

static void only_the_tenant_that_cannot_be_decrypted_is_quarantined(void **state)
{
    struct fixture *f = *state;
    char segment[FG_NAME_MAX_BYTES];
    struct made_keys keys;
    struct fg_err err;

    made_keys_init(&keys, 1);
    f->bucket->keys = &keys.keys;
    commit_two(f);
    newest_segment(f, segment);
    keys.away = "other"; /* for a while: no reason to give it up */
    assert_int_equal(cli_bucket_quarantine(f->bucket, segment, true, f->out, &err),
                     FG_E_UNAVAILABLE);
    assert_false(has_manifest(f, "other"));
    keys.away = NULL;
    keys.missing = 1;
    keys.missing_for = "other";
    fixture_must(cli_bucket_quarantine(f->bucket, segment, true, f->out, &err), &err);
    expect(f, "tenant tenant: stays, since what it has can be decrypted\n");
    expect(f, "tenant other: 3 profiles");
    assert_true(has_manifest(f, "other"));
    assert_false(has_manifest(f, "tenant"));
    (void)verify(f, &err);
    expect(f, "tenant: 8 profiles, each once, in 2 segments");
    expect(f, "other: 0 profiles");
}

static enum fg_code shred_and_renew(void *arg, const struct fg_access_change *change,
                                    struct fg_err *err)
{
    const struct fg_slice wrapped = FG_LIT("wrapped"), other = FG_LIT("other");

    (void)arg;
    if (fg_tenant_key_add(change, FG_LIT("tenant"), 1, wrapped, "file:a", err) != FG_OK ||
        fg_tenant_key_add(change, other, 1, wrapped, "file:a", err) != FG_OK ||
        fg_tenant_key_shred(change, other, err) != FG_OK)
        return err->code;
    return fg_tenant_key_add(change, other, 2, wrapped, "file:a", err);
}

/* Of a tenant with a shredded key and a new one, what the new one encrypts stays. */
static void a_shredded_key_is_no_fault_and_can_be_dropped(void **state)
{
    struct fixture *f = *state;
    char segment[FG_NAME_MAX_BYTES];
    struct made_keys keys;
    struct fg_err err;

    made_keys_init(&keys, 1);
    f->bucket->keys = &keys.keys;
    commit_two(f);
    newest_segment(f, segment);
    keys.newest = 2;
    commit_two(f);
    fixture_must(fg_access_swap(&(struct fg_access_writer){.bucket = f->bucket,
                                                           .by = "the test",
                                                           .now_ms = 1,
                                                           .deadline_mono_ns = INT64_MAX},
                                shred_and_renew, NULL, &err),
                 &err);
    keys.missing = 1;
    keys.missing_for = "other";
    fixture_must(verify(f, &err), &err);
    expect(f, "shredded: other: nobody can read 3 profiles in 1 objects; to remove them: flamegrid "
              "encryption drop other\n");
    expect(f, "\nok: 3 objects");

    restart(f);
    assert_int_equal(cli_bucket_drop_shredded(f->bucket, FG_LIT("tenant"), true, f->out, &err),
                     FG_E_NOT_FOUND);
    assert_int_equal(cli_bucket_drop_shredded(f->bucket, FG_LIT("nobody"), true, f->out, &err),
                     FG_E_NOT_FOUND);
    fixture_must(cli_bucket_drop_shredded(f->bucket, FG_LIT("other"), false, f->out, &err), &err);
    expect(f, segment);
    expect(f, "nobody can read 1 objects, or its parts of them; nothing was written");
    assert_false(has_manifest(f, "other"));
    for (int round = 0; round < 2; round++) /* once more does nothing */
        fixture_must(cli_bucket_drop_shredded(f->bucket, FG_LIT("other"), true, f->out, &err),
                     &err);
    expect(f, "nobody can read 1 objects, or its parts of them; they have left its manifest");
    expect(f, "nobody can read 0 objects");

    fixture_must(verify(f, &err), &err);
    expect_none(f, "shredded: ");
    expect(f, "tenant: 12 profiles, each once, in 3 segments");
    expect(f, "other: 3 profiles, each once");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_key_that_cannot_be_had_is_no_damage),
        TEST(only_the_tenant_that_cannot_be_decrypted_is_quarantined),
        TEST(a_shredded_key_is_no_fault_and_can_be_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
#undef TEST
}
