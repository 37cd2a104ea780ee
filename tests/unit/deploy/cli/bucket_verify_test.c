/* Tests that `flamegrid bucket verify` names each fault that the test makes. */
#include "common/cluster/manifest/manifest.h"
#include "deploy/cli/bucket_verify.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/unit/deploy/cli/bucket_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { OBJECT_MAX_BYTES = 1 << 20 };

static void get(struct fixture *f, const char *name, struct fg_bucket_request *ret_get)
{
    *ret_get = (struct fg_bucket_request){
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = OBJECT_MAX_BYTES};
    fixture_must(fg_bucket_call(f->bucket, ret_get), &ret_get->err);
}

/* The ring of whoever wrote it. */
static void put_ring(struct fixture *f)
{
    struct fg_ring ring = fg_ring_none();
    struct fg_buf bytes;
    struct fg_err err;

    ring.swaps = 1;
    fg_buf_init(&bytes, OBJECT_MAX_BYTES);
    fixture_must(fg_ring_encode(&ring, &bytes, &err), &err);
    fixture_put(f, FG_RING_NAME, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

static int set_up_with_ring(void **state)
{
    int failed = fixture_set_up(state);

    if (failed == 0)
        put_ring(*state);
    return failed;
}

static struct fg_manifest *read_l0(struct fixture *f)
{
    struct fg_manifest *manifest;
    struct fg_bucket_request l0;
    struct fg_err err;

    get(f, FG_NAME_L0, &l0);
    fixture_must(fg_manifest_l0(fg_buf_slice(&l0.body), fg_cstr(l0.etag.text), &manifest, &err),
                 &err);
    fg_bucket_clear(&l0);
    return manifest;
}

static void write_l0(struct fixture *f, const struct fg_l0 *l0)
{
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, OBJECT_MAX_BYTES);
    fixture_must(fg_l0_encode(l0, &bytes, &err), &err);
    fixture_put(f, FG_NAME_L0, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

/* Expects a line that names the object and the fault. */
static void expect_fault(struct fixture *f, const char *object, const char *text)
{
    char line[256];
    struct fg_err err;
    char *at;

    rewind(f->out);
    assert_int_equal(cli_bucket_verify(f->bucket, f->out, &err), FG_E_CORRUPT);
    (void)fflush(f->out);
    (void)snprintf(line, sizeof line, "fault: %s: ", object);
    at = strstr(f->said, line);
    if (at == NULL || strstr(at, text) == NULL || strstr(at, "; cure: ") == NULL)
        fail_msg("%s", f->said);
    assert_null(strstr(f->said, "\nok: "));
}

static void intact_objects_are_counted(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    fixture_must(cli_bucket_verify(f->bucket, f->out, &err), &err);
    (void)fflush(f->out);
    assert_non_null(strstr(f->said, "tenant: 4 profiles, each once, in 1 segments and 0 blocks; "
                                    "usage of 0 profiles: 0 wire bytes, 0 raw bytes, 0 samples\n"));
    assert_non_null(strstr(f->said, "ok: 1 objects"));
}

/* Usage in manifests is the basis of bills, so the objects must confirm it. */
static void usage_that_only_the_manifest_has_is_a_fault(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    struct fg_l0_segment *segment = &manifest->l0.segments[0];
    char name[FG_NAME_MAX_BYTES];

    fg_name_segment(name, &segment->id);
    segment->parts[0].usage = (struct fg_usage){1, 1, 100, 200};
    write_l0(f, &manifest->l0);
    expect_fault(f, name, "its usage is not what the manifest says");
    fg_manifest_unref(manifest);
}

static void an_empty_bucket_has_no_faults(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_bucket) *empty = fg_bucket_memory();
    struct fg_err err;

    fixture_must(cli_bucket_verify(empty, f->out, &err), &err);
}

/* Adds a copy of the segment with another name and generation. */
static void duplicate_profiles_are_faults(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    const struct fg_l0_segment *segment = &manifest->l0.segments[0];
    const struct fg_l0_new_part part = {FG_LIT("tenant"), segment->t_min_ns, segment->t_max_ns,
                                        segment->profiles, segment->parts[0].usage};
    struct fg_l0_new again = {
        .id = {{1, 2}, 1, 1},
        .bytes = segment->bytes,
        .directory_offset = segment->directory_offset,
        .directory_bytes = segment->directory_bytes,
        .profiles = segment->profiles,
        .digest = segment->digest,
        .t_min_ns = segment->t_min_ns,
        .t_max_ns = segment->t_max_ns,
        .parts = &part,
        .n_parts = 1,
        .groups = manifest->l0.late_filter,
    };
    struct fg_arena *arena = fg_arena_create(1 << 20);
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request object;
    struct fg_l0 l0;
    struct fg_err err;

    fg_name_segment(name, &segment->id);
    get(f, name, &object);
    fg_name_segment(name, &again.id);
    fixture_put(f, name, fg_buf_slice(&object.body));
    fg_bucket_clear(&object);
    fixture_must(fg_l0_commit(&manifest->l0, &again, 0, 0, arena, &l0, &err), &err);
    write_l0(f, &l0);
    expect_fault(f, "tenants/tenant/manifest", "is there more than once");
    fg_arena_destroy(arena);
    fg_manifest_unref(manifest);
}

static void manifests_that_contradict_objects_are_faults(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    struct fg_l0_segment *segment = &manifest->l0.segments[0];
    char name[FG_NAME_MAX_BYTES];

    fg_name_segment(name, &segment->id);
    segment->digest.lo ^= 1;
    write_l0(f, &manifest->l0);
    expect_fault(f, name, "its digest is not what the manifest says");
    segment->digest.lo ^= 1;
    segment->t_max_ns++;
    segment->parts[0].t_max_ns++;
    write_l0(f, &manifest->l0);
    expect_fault(f, name, "its time is not what the manifest says");
    fg_manifest_unref(manifest);
}

static void missing_objects_are_faults(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    char name[FG_NAME_MAX_BYTES];

    fg_name_segment(name, &manifest->l0.segments[0].id);
    fixture_delete(f, name);
    expect_fault(f, name, "its 4 profiles are lost");
    fg_manifest_unref(manifest);
}

/* Without the L0 manifest no object is listed, and verify must not report success. */
static void missing_and_truncated_manifests_are_faults(void **state)
{
    struct fixture *f = *state;

    fixture_delete(f, FG_NAME_L0);
    expect_fault(f, FG_NAME_L0, "missing, and there are 1 segments");
    fixture_put(f, FG_NAME_L0, FG_LIT(""));
    expect_fault(f, FG_NAME_L0, "damaged");
}

static void a_missing_ring_is_a_fault(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    fixture_delete(f, FG_RING_NAME);
    fixture_must(cli_bucket_verify(f->bucket, f->out, &err),
                 &err); /* a single server has no ring */
    fixture_put(f, "manifests/kept/ring/0", FG_LIT("a copy"));
    expect_fault(f, FG_RING_NAME, "missing, and there was one");
}

/* A bucket restored from a backup: each manifest is correct by itself. */
static void manifests_of_different_times_are_faults(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_manifest *manifest = read_l0(f);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("tenant"));
    struct fg_l0 l0 = manifest->l0;
    const uint64_t one = 1;
    struct fg_buf bytes;
    struct fg_err err;
    bool changed;

    blocks.revision = 7;
    blocks.covered_floor = blocks.newest = l0.generation + 1;
    fg_buf_init(&bytes, OBJECT_MAX_BYTES);
    fixture_must(fg_blocks_encode(&blocks, &bytes, &err), &err);
    fixture_put(f, "tenants/tenant/manifest", fg_buf_slice(&bytes));
    expect_fault(f, FG_NAME_L0, "it is from a backup");

    bytes.len = 0;
    blocks.covered_floor = blocks.newest = 0;
    fixture_must(fg_blocks_encode(&blocks, &bytes, &err), &err);
    fixture_put(f, "tenants/tenant/manifest", fg_buf_slice(&bytes));
    fixture_must(fg_l0_retire(&l0, &one, 1, 0, arena, &l0, &changed, &err), &err);
    write_l0(f, &l0);
    expect_fault(f, "tenants/tenant/manifest", "from a backup");
    fixture_delete(f, "tenants/tenant/manifest");
    expect_fault(f, "tenants/tenant/manifest", "missing");
    fg_buf_done(&bytes);
    fg_manifest_unref(manifest);
}

/* Verify reports all faults, not only the first. */
static void all_faults_are_reported(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    char name[FG_NAME_MAX_BYTES];

    fg_name_segment(name, &manifest->l0.segments[0].id);
    fixture_put(f, FG_RING_NAME, FG_LIT("no ring"));
    fixture_put(f, "tenants/other/manifest", FG_LIT("no manifest"));
    fixture_put(f, name, FG_LIT("no segment"));
    expect_fault(f, FG_RING_NAME, "damaged");
    expect_fault(f, "tenants/other/manifest", "cure: flamegrid bucket rebuild tenant other");
    expect_fault(f, name, "damaged");
    fg_manifest_unref(manifest);
}

static void unreferenced_objects_are_counted(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    struct fg_segment_id id = manifest->l0.segments[0].id;
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    id.nonce++;
    fg_name_segment(name, &id);
    fixture_put(f, name, FG_LIT("12345"));
    fixture_must(cli_bucket_verify(f->bucket, f->out, &err), &err);
    (void)fflush(f->out);
    assert_non_null(strstr(f->said, "orphans: 1 objects, 5 bytes"));
    fg_manifest_unref(manifest);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up_with_ring, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(intact_objects_are_counted),
        TEST(an_empty_bucket_has_no_faults),
        TEST(usage_that_only_the_manifest_has_is_a_fault),
        TEST(duplicate_profiles_are_faults),
        TEST(manifests_that_contradict_objects_are_faults),
        TEST(missing_objects_are_faults),
        TEST(missing_and_truncated_manifests_are_faults),
        TEST(a_missing_ring_is_a_fault),
        TEST(manifests_of_different_times_are_faults),
        TEST(all_faults_are_reported),
        TEST(unreferenced_objects_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
