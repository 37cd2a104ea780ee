/* Manifests in a bucket: read, swapped, and put together into snapshots while requests fail. */
#include "common/cluster/manifest/object.h"
#include "common/cluster/manifest/snapshot.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_hold.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty;
    struct fg_bucket *bucket; /* fails as told */
    struct fg_clock_manual clock;
    struct fg_snapshots *snapshots;
};

static const struct fg_slice tenants[] = {{(const uint8_t *)"acme", 4},
                                          {(const uint8_t *)"umbra", 5}};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void open_fixture(struct fixture *f)
{
    const struct fg_bucket_faults none = {0};

    *f = (struct fixture){.memory = fg_bucket_memory()};
    f->faulty = fg_bucket_faulty_create(f->memory, &none);
    f->bucket = fg_bucket_faulty_bucket(f->faulty);
    fg_clock_manual_init(&f->clock, 0);
    f->snapshots = fg_snapshots_create(&(struct fg_snapshots_config){
        .bucket = f->bucket, .clock = &f->clock.clock, .tenants_max = 4, .age_max_ns = 100});
}

static void close_fixture(struct fixture *f)
{
    fg_snapshots_destroy(f->snapshots);
    fg_bucket_close(f->bucket);
    fg_bucket_close(f->memory);
}

/* Swaps an empty L0 manifest in; its etag is that of the object then. */
static enum fg_code swap_l0(struct fixture *f, struct fg_slice etag, uint64_t revision,
                            struct fg_err *err)
{
    struct fg_l0 l0 = fg_l0_none();
    struct fg_buf bytes;
    enum fg_code code;

    l0.revision = revision;
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    must(fg_l0_encode(&l0, &bytes, err), err);
    code = fg_manifest_swap(f->bucket, NULL, FG_LIT(""), etag, fg_buf_slice(&bytes), 0, err);
    fg_buf_done(&bytes);
    return code;
}

static void a_swap_needs_the_current_etag(void **state)
{
    struct fg_manifest *first = NULL, *second = NULL;
    struct fixture f;
    struct fg_err err;

    (void)state;
    open_fixture(&f);
    assert_int_equal(fg_manifest_refresh(f.bucket, NULL, FG_LIT(""), 0, &first, &err),
                     FG_E_UNAVAILABLE); /* there is no L0 manifest */
    assert_null(first);
    must(swap_l0(&f, FG_LIT(""), 1, &err), &err);
    assert_int_equal(swap_l0(&f, FG_LIT(""), 1, &err), FG_E_PRECONDITION);
    must(fg_manifest_refresh(f.bucket, NULL, FG_LIT(""), 0, &first, &err), &err);
    must(swap_l0(&f, first->etag, 2, &err), &err);
    assert_int_equal(swap_l0(&f, first->etag, 3, &err), FG_E_PRECONDITION);

    second = fg_manifest_ref(first);
    must(fg_manifest_refresh(f.bucket, NULL, FG_LIT(""), 0, &second, &err), &err);
    assert_ptr_not_equal(second, first);
    assert_int_equal(second->l0.revision, 2);
    fg_manifest_unref(first);
    first = second;
    must(fg_manifest_refresh(f.bucket, NULL, FG_LIT(""), 0, &second, &err), &err);
    assert_ptr_equal(second, first); /* unchanged: the version at hand stays */
    fg_manifest_unref(second);
    close_fixture(&f);
}

static void a_missing_tenant_has_an_empty_manifest(void **state)
{
    struct fg_manifest *manifest = NULL;
    struct fixture f;
    struct fg_err err;

    (void)state;
    open_fixture(&f);
    must(fg_manifest_refresh(f.bucket, NULL, FG_LIT("acme"), 0, &manifest, &err), &err);
    assert_int_equal(manifest->blocks.n_blocks, 0);
    assert_int_equal(manifest->etag.len, 0);
    fg_manifest_unref(manifest);
    manifest = NULL;
    assert_int_equal(fg_manifest_refresh(f.bucket, NULL, FG_LIT("a/b/../c\n"), 0, &manifest, &err),
                     FG_E_INVALID);
    close_fixture(&f);
}

static void an_empty_object_is_damage(void **state)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = FG_NAME_L0};
    struct fg_manifest *manifest = NULL;
    struct fixture f;
    struct fg_err err;

    (void)state;
    open_fixture(&f);
    assert_int_equal(fg_bucket_call(f.memory, &put), FG_OK);
    fg_bucket_clear(&put);
    assert_int_equal(fg_manifest_refresh(f.bucket, NULL, FG_LIT(""), 0, &manifest, &err),
                     FG_E_CORRUPT);
    close_fixture(&f);
}

/* Whichever request fails, the same snapshot can be taken again and is complete then. */
static void a_failed_snapshot_can_be_taken_again(void **state)
{
    (void)state;
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        for (uint64_t k = 1; k <= 3; k++) {
            struct fg_bucket_stop *stop = one_by_one == 1 ? fg_bucket_stop_create() : NULL;
            struct fg_snapshots_how how = {.stop = stop};
            struct fg_snapshot snapshot;
            struct fixture f;
            struct fg_err err;

            open_fixture(&f);
            must(swap_l0(&f, FG_LIT(""), 1, &err), &err);
            fg_snapshots_open(f.snapshots, &snapshot, tenants, 2);
            fg_bucket_faulty_fail(f.faulty, k, false);
            assert_int_equal(fg_snapshots_take(f.snapshots, &snapshot, &how, &err),
                             FG_E_UNAVAILABLE);
            assert_int_equal(snapshot.waiting, 0);
            must(fg_snapshots_take(f.snapshots, &snapshot, &how, &err), &err);
            assert_int_equal(snapshot.l0->l0.revision, 1);
            assert_non_null(snapshot.blocks[0]);
            assert_non_null(snapshot.blocks[1]);
            fg_snapshots_close(f.snapshots, &snapshot);
            fg_bucket_stop_destroy(stop);
            close_fixture(&f);
        }
    }
}

static enum fg_code refuse(void *arg, struct fg_err *err)
{
    return (*(int *)arg)-- > 0 ? FG_OK : fg_fail(err, FG_E_CANCELED, "the caller is gone");
}

static void the_caller_ends_a_snapshot_between_rounds(void **state)
{
    int rounds = 1; /* the L0 manifest; the tenants are not asked for any more */
    struct fg_snapshots_how how = {.check = refuse, .arg = &rounds};
    struct fg_snapshot snapshot;
    struct fixture f;
    struct fg_err err;

    (void)state;
    open_fixture(&f);
    must(swap_l0(&f, FG_LIT(""), 1, &err), &err);
    fg_snapshots_open(f.snapshots, &snapshot, tenants, 2);
    assert_int_equal(fg_snapshots_take(f.snapshots, &snapshot, &how, &err), FG_E_CANCELED);
    assert_int_equal(how.requests, 1);
    how.check = NULL;
    must(fg_snapshots_take(f.snapshots, &snapshot, &how, &err), &err);
    assert_int_equal(how.requests, 3); /* the L0 manifest is still young enough */
    fg_snapshots_close(f.snapshots, &snapshot);
    close_fixture(&f);
}

static void *await_cancel(void *arg)
{
    bucket_hold_await(arg);
    return bucket_hold_await_cancel(arg) ? arg : NULL;
}

/* The bucket does not respond, and the caller goes meanwhile. */
static void the_caller_ends_a_snapshot_within_a_round(void **state)
{
    int rounds = 1;
    struct fg_snapshots_how how = {.check = refuse, .arg = &rounds};
    struct fg_snapshot snapshot;
    struct bucket_hold hold;
    struct fixture f;
    struct fg_err err;
    pthread_t thread;
    void *cancelled;

    (void)state;
    open_fixture(&f);
    must(swap_l0(&f, FG_LIT(""), 1, &err), &err);
    bucket_hold_init(&hold, f.bucket);
    fg_snapshots_destroy(f.snapshots);
    f.snapshots = fg_snapshots_create(&(struct fg_snapshots_config){
        .bucket = &hold.bucket, .clock = &f.clock.clock, .tenants_max = 4, .age_max_ns = 100});
    fg_snapshots_open(f.snapshots, &snapshot, tenants, 2);
    bucket_hold_next(&hold, FG_BUCKET_GET, FG_NAME_L0);
    assert_int_equal(pthread_create(&thread, NULL, await_cancel, &hold), 0);
    assert_int_equal(fg_snapshots_take(f.snapshots, &snapshot, &how, &err), FG_E_CANCELED);
    assert_int_equal(pthread_join(thread, &cancelled), 0);
    assert_non_null(cancelled);
    assert_string_equal(err.msg, "the caller is gone");
    how.check = NULL;
    must(fg_snapshots_take(f.snapshots, &snapshot, &how, &err), &err);
    fg_snapshots_close(f.snapshots, &snapshot);
    bucket_hold_done(&hold);
    close_fixture(&f);
}

static void an_outage_is_bridged_from_the_cache(void **state)
{
    const struct fg_bucket_faults away = {.seed = 1, .refuse_permille = 1000};
    struct fg_snapshots_how how = {0};
    struct fg_snapshot snapshot;
    struct fixture f;
    struct fg_err err;
    int64_t age_ns;

    (void)state;
    open_fixture(&f);
    must(swap_l0(&f, FG_LIT(""), 1, &err), &err);
    fg_snapshots_open(f.snapshots, &snapshot, tenants, 1);
    assert_int_equal(fg_snapshots_take_known(f.snapshots, &snapshot, &age_ns, &err),
                     FG_E_UNAVAILABLE);
    must(fg_snapshots_take(f.snapshots, &snapshot, &how, &err), &err);
    fg_clock_manual_advance(&f.clock, 1000);
    fg_bucket_faulty_set(f.faulty, &away);
    assert_int_equal(fg_snapshots_take(f.snapshots, &snapshot, &how, &err), FG_E_UNAVAILABLE);
    must(fg_snapshots_take_known(f.snapshots, &snapshot, &age_ns, &err), &err);
    assert_int_equal(age_ns, 1000);
    fg_snapshots_close(f.snapshots, &snapshot);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_swap_needs_the_current_etag),
        cmocka_unit_test(a_missing_tenant_has_an_empty_manifest),
        cmocka_unit_test(an_empty_object_is_damage),
        cmocka_unit_test(a_failed_snapshot_can_be_taken_again),
        cmocka_unit_test(the_caller_ends_a_snapshot_between_rounds),
        cmocka_unit_test(the_caller_ends_a_snapshot_within_a_round),
        cmocka_unit_test(an_outage_is_bridged_from_the_cache),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
