/* Files that somebody looks at in a bucket: limits, expiry, damage, lost answers. */
#include "common/base/time.h"
#include "querier/adhoc/adhoc_store.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty;
    struct fg_arena *arena;
    struct fg_limit_settings limits;
    struct qry_adhoc_store store;
};

static int set_up(void **state)
{
    static const struct fg_bucket_faults none;
    struct fixture *f = fg_new(struct fixture);

    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &none);
    f->arena = fg_arena_create(64 << 20);
    f->limits.adhoc_retention_period_ns = FG_HOUR_NS;
    f->limits.adhoc_profiles_max = 3;
    f->limits.adhoc_bytes_max = 100;
    f->store = (struct qry_adhoc_store){.bucket = fg_bucket_faulty_bucket(f->faulty),
                                        .tenant = FG_LIT("acme"),
                                        .limits = &f->limits,
                                        .file_max_bytes = 60,
                                        .now_ms = 1000000,
                                        .arena = f->arena};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

static struct qry_adhoc_entry add(struct fixture *f, const char *file, const char *content)
{
    struct qry_adhoc_entry entry;
    struct fg_err err = {0};

    if (qry_adhoc_add(&f->store, fg_cstr(file), fg_cstr(content), &entry, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return entry;
}

static void assert_content(struct fixture *f, const char *id, const char *want)
{
    struct qry_adhoc_entry entry;
    struct fg_buf content;
    struct fg_err err;

    assert_int_equal(qry_adhoc_find(&f->store, fg_cstr(id), &entry, &err), FG_OK);
    assert_int_equal(entry.bytes, strlen(want));
    assert_int_equal(qry_adhoc_read(&f->store, &entry, &content, &err), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&content), want));
    fg_buf_done(&content);
}

/* The files from the newest to the oldest: "name;". */
static void assert_listed(struct fixture *f, const char *want)
{
    struct qry_adhoc_entry *entries;
    struct fg_buf text;
    struct fg_err err;
    size_t n;

    assert_int_equal(qry_adhoc_list(&f->store, &entries, &n, &err), FG_OK);
    fg_buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        fg_buf_printf(&text, "%s;", entries[i].name.file);
    fg_buf_putc(&text, '\0');
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
}

static void add_list_read_and_delete(void **state)
{
    struct fixture *f = *state;
    struct qry_adhoc_entry a = add(f, "a", "first"), b, found;
    struct qry_adhoc_store other = f->store;
    char id[FG_ADHOC_ID_CHARS + 3];
    struct fg_buf content;
    struct fg_err err;

    f->store.now_ms++;
    b = add(f, "b", "second");
    assert_string_not_equal(a.name.id, b.name.id);
    assert_listed(f, "b;a;");
    assert_content(f, a.name.id, "first");
    assert_content(f, b.name.id, "second");
    (void)snprintf(id, sizeof id, "%s-a", a.name.id);
    assert_content(f, id, "first");
    id[FG_ADHOC_ID_CHARS + 1] = 'b';
    assert_int_equal(qry_adhoc_find(&f->store, fg_cstr(id), &found, &err), FG_E_NOT_FOUND);
    id[FG_ADHOC_ID_CHARS] = 'a';
    assert_int_equal(qry_adhoc_find(&f->store, fg_cstr(id), &found, &err), FG_E_NOT_FOUND);
    other.tenant = FG_LIT("acm");
    assert_int_equal(qry_adhoc_find(&other, fg_cstr(a.name.id), &found, &err), FG_E_NOT_FOUND);
    assert_int_equal(qry_adhoc_delete(&f->store, &a, &err), FG_OK);
    assert_int_equal(qry_adhoc_delete(&f->store, &a, &err), FG_OK);
    assert_listed(f, "b;");
    assert_int_equal(qry_adhoc_read(&f->store, &a, &content, &err), FG_E_NOT_FOUND);
}

static void limits_are_kept(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    assert_int_equal(qry_adhoc_admit(&f->store, 60, &err), FG_OK);
    assert_int_equal(qry_adhoc_admit(&f->store, 61, &err), FG_E_TOO_LARGE);
    assert_non_null(strstr(err.msg, "querier.adhoc_upload_max_bytes"));
    add(f, "a", "0123456789012345678901234567890123456789"); /* 40 */
    assert_int_equal(qry_adhoc_admit(&f->store, 60, &err), FG_OK);
    add(f, "b", "0");
    assert_int_equal(qry_adhoc_admit(&f->store, 60, &err), FG_E_TOO_MUCH);
    assert_non_null(strstr(err.msg, "limits.adhoc_bytes_max"));
    assert_int_equal(qry_adhoc_admit(&f->store, 59, &err), FG_OK);
    add(f, "c", "0");
    assert_int_equal(qry_adhoc_admit(&f->store, 1, &err), FG_E_TOO_MUCH);
    assert_non_null(strstr(err.msg, "limits.adhoc_profiles_max"));
    f->limits.adhoc_profiles_max = 4;
    f->limits.adhoc_bytes_max = 0;
    assert_int_equal(qry_adhoc_admit(&f->store, 60, &err), FG_OK);
    f->store.now_ms += FG_HOUR_NS / FG_MS_NS; /* all have expired */
    f->limits.adhoc_profiles_max = 1;
    assert_int_equal(qry_adhoc_admit(&f->store, 60, &err), FG_OK);
}

static void expired_files_are_not_there(void **state)
{
    struct fixture *f = *state;
    struct qry_adhoc_entry a = add(f, "a", "first"), found;
    struct fg_err err;

    f->store.now_ms += FG_HOUR_NS / FG_MS_NS - 1;
    assert_listed(f, "a;");
    f->store.now_ms++;
    assert_listed(f, "");
    assert_int_equal(qry_adhoc_find(&f->store, fg_cstr(a.name.id), &found, &err), FG_E_NOT_FOUND);
    f->limits.adhoc_retention_period_ns = 0;
    assert_listed(f, "a;");
    assert_content(f, a.name.id, "first");
}

static void damage_is_found(void **state)
{
    struct fixture *f = *state;
    struct qry_adhoc_entry a = add(f, "a", "first"), b = add(f, "b", "second");
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .content = FG_LIT("fIrst")};
    char object[FG_NAME_ADHOC_MAX_BYTES];
    struct fg_buf content;
    struct fg_err err;

    assert_int_equal(fg_name_adhoc(object, &a.name, &err), FG_OK);
    put.name = object;
    assert_int_equal(fg_bucket_call(f->memory, &put), FG_OK);
    fg_bucket_clear(&put);
    assert_int_equal(qry_adhoc_read(&f->store, &a, &content, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, object));
    assert_content(f, b.name.id, "second");
    f->store.file_max_bytes = 4;
    assert_int_equal(qry_adhoc_read(&f->store, &a, &content, &err), FG_E_TOO_LARGE);
}

/* Trouble of the bucket is no fault of the client, and what was not acknowledged does no harm. */
static void a_bucket_in_trouble_is_said_so(void **state)
{
    struct fixture *f = *state;
    struct qry_adhoc_entry a = add(f, "a", "first"), *entries, entry;
    struct fg_buf content;
    struct fg_err err;
    size_t n;

    fg_bucket_faulty_fail(f->faulty, 1, false);
    assert_int_equal(qry_adhoc_list(&f->store, &entries, &n, &err), FG_E_UNAVAILABLE);
    fg_bucket_faulty_fail(f->faulty, 1, false);
    assert_int_equal(qry_adhoc_find(&f->store, fg_cstr(a.name.id), &entry, &err), FG_E_UNAVAILABLE);
    fg_bucket_faulty_fail(f->faulty, 1, false);
    assert_int_equal(qry_adhoc_read(&f->store, &a, &content, &err), FG_E_UNAVAILABLE);
    fg_bucket_faulty_fail(f->faulty, 1, false);
    assert_int_equal(qry_adhoc_delete(&f->store, &a, &err), FG_E_UNAVAILABLE);
    fg_bucket_faulty_fail(f->faulty, 1, false);
    assert_int_equal(qry_adhoc_add(&f->store, FG_LIT("b"), FG_LIT("b"), &entry, &err),
                     FG_E_UNAVAILABLE);
    assert_listed(f, "a;");
    /* Done, but the answer is lost: the client tries again, and there are two. */
    fg_bucket_faulty_fail(f->faulty, 1, true);
    assert_int_equal(qry_adhoc_add(&f->store, FG_LIT("b"), FG_LIT("b"), &entry, &err),
                     FG_E_UNAVAILABLE);
    assert_int_equal(qry_adhoc_list(&f->store, &entries, &n, &err), FG_OK);
    assert_int_equal(n, 2);
}

static void without_a_bucket_there_are_none(void **state)
{
    struct fixture *f = *state;
    struct qry_adhoc_store none = f->store;
    struct qry_adhoc_entry *entries, entry;
    struct fg_err err;
    size_t n;

    none.bucket = NULL;
    assert_int_equal(qry_adhoc_list(&none, &entries, &n, &err), FG_E_UNIMPLEMENTED);
    assert_int_equal(qry_adhoc_admit(&none, 1, &err), FG_E_UNIMPLEMENTED);
    assert_int_equal(qry_adhoc_add(&none, FG_LIT("a"), FG_LIT("b"), &entry, &err),
                     FG_E_UNIMPLEMENTED);
    assert_int_equal(qry_adhoc_find(&none, FG_LIT("a"), &entry, &err), FG_E_UNIMPLEMENTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(add_list_read_and_delete, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expired_files_are_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bucket_in_trouble_is_said_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_bucket_there_are_none, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
