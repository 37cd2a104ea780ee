/* `flamegrid bucket verify` finds what is wrong: each fault is put there, and has to be named. */
#include "common/manifest/manifest.h"
#include "deploy/single/bucket_look.h"
#include "tests/lib/head_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { OBJECT_MAX_BYTES = 1 << 20, PROFILES = 4 };

struct fixture {
    struct fg_store *store;
    struct fg_bucket *bucket;
    FILE *out;
    char *said;
    size_t said_len;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

/* A bucket with one segment. */
static int set_up(void **state)
{
    const struct head_sample sample = {"a;b", {1, 10}, 0};
    struct fixture *f = fg_new(struct fixture);
    struct head head;
    struct fg_err err;

    f->store = fg_store_memory(HEAD_FAMILIES);
    f->bucket = fg_bucket_memory();
    f->out = open_memstream(&f->said, &f->said_len);
    head_open_on(&head, f->store, f->bucket);
    for (int i = 0; i < PROFILES; i++) {
        const struct head_profile profile = {.tenant = "tenant",
                                             .service = "shop",
                                             .time_ns = (1700000000 + i) * FG_SECOND_NS,
                                             .samples = &sample,
                                             .n_samples = 1};

        assert_int_equal(head_push(&head, &profile, true).stored, 1);
    }
    must(ingester_flush(head.ingester, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS, &err), &err);
    head_close(&head);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    (void)fclose(f->out);
    free(f->said);
    fg_bucket_close(f->bucket);
    fg_store_close(f->store);
    free(f);
    return 0;
}

static void get(struct fixture *f, const char *name, struct fg_bucket_request *ret_get)
{
    *ret_get = (struct fg_bucket_request){
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = OBJECT_MAX_BYTES};
    must(fg_bucket_call(f->bucket, ret_get), &ret_get->err);
}

static void put(struct fixture *f, const char *name, struct fg_slice content)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    must(fg_bucket_call(f->bucket, &put), &put.err);
    fg_bucket_clear(&put);
}

static struct fg_manifest *read_l0(struct fixture *f)
{
    struct fg_manifest *manifest;
    struct fg_bucket_request l0;
    struct fg_err err;

    get(f, FG_NAME_L0, &l0);
    must(fg_manifest_l0(fg_buf_slice(&l0.body), fg_cstr(l0.etag.text), &manifest, &err), &err);
    fg_bucket_clear(&l0);
    return manifest;
}

static void write_l0(struct fixture *f, const struct fg_l0 *l0)
{
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, OBJECT_MAX_BYTES);
    must(fg_l0_encode(l0, &bytes, &err), &err);
    put(f, FG_NAME_L0, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

static void expect_fault(struct fixture *f, enum fg_code code, const char *text)
{
    struct fg_err err;

    assert_int_equal(bucket_verify(f->bucket, f->out, &err), code);
    if (strstr(err.msg, text) == NULL)
        fail_msg("%s", err.msg);
}

static void what_is_right_is_counted(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    must(bucket_verify(f->bucket, f->out, &err), &err);
    (void)fflush(f->out);
    assert_non_null(strstr(f->said, "tenant: 4 profiles, each once, in 1 segments and 0 blocks\n"));
    assert_non_null(strstr(f->said, "ok: 1 objects"));
}

static void an_empty_bucket_is_right(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_bucket) *empty = fg_bucket_memory();
    struct fg_err err;

    must(bucket_verify(empty, f->out, &err), &err);
}

/* The same segment once more, under another name and generation. */
static void profiles_that_are_there_twice(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    const struct fg_l0_segment *segment = &manifest->l0.segments[0];
    const struct fg_l0_new_part part = {FG_LIT("tenant"), segment->t_min_ns, segment->t_max_ns,
                                        segment->profiles};
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
        .groups = manifest->l0.ever,
    };
    struct fg_arena *arena = fg_arena_create(1 << 20);
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request object;
    struct fg_l0 l0;
    struct fg_err err;

    fg_name_segment(name, &segment->id);
    get(f, name, &object);
    fg_name_segment(name, &again.id);
    put(f, name, fg_buf_slice(&object.body));
    fg_bucket_clear(&object);
    must(fg_l0_commit(&manifest->l0, &again, 0, 0, arena, &l0, &err), &err);
    write_l0(f, &l0);
    expect_fault(f, FG_E_CORRUPT, "is there more than once");
    fg_arena_destroy(arena);
    fg_manifest_unref(manifest);
}

static void manifests_that_say_something_else(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    struct fg_l0_segment *segment = &manifest->l0.segments[0];

    segment->digest.lo ^= 1;
    write_l0(f, &manifest->l0);
    expect_fault(f, FG_E_CORRUPT, "its digest is not what the manifest says");
    segment->digest.lo ^= 1;
    segment->t_max_ns++;
    segment->parts[0].t_max_ns++;
    write_l0(f, &manifest->l0);
    expect_fault(f, FG_E_CORRUPT, "its time is not what the manifest says");
    fg_manifest_unref(manifest);
}

static void objects_that_are_not_there(void **state)
{
    struct fixture *f = *state;
    struct fg_manifest *manifest = read_l0(f);
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request gone = {.verb = FG_BUCKET_DELETE, .name = name};

    fg_name_segment(name, &manifest->l0.segments[0].id);
    must(fg_bucket_call(f->bucket, &gone), &gone.err);
    fg_bucket_clear(&gone);
    expect_fault(f, FG_E_NOT_FOUND, name);
    fg_manifest_unref(manifest);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_right_is_counted),      TEST(an_empty_bucket_is_right),
        TEST(profiles_that_are_there_twice), TEST(manifests_that_say_something_else),
        TEST(objects_that_are_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
