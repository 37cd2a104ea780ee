/* Settings of a tenant in a bucket: changes by several at once, lost answers, damage. */
#include "common/base/time.h"
#include "querier/tenant_settings.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define OBJECT "tenants/acme/settings"

struct fixture {
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty;
    struct fg_arena *arena;
    struct qry_tenant_settings settings;
};

static int set_up(void **state)
{
    static const struct fg_bucket_faults none;
    struct fixture *f = fg_new(struct fixture);

    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &none);
    f->arena = fg_arena_create(64 << 20);
    f->settings = (struct qry_tenant_settings){
        .bucket = fg_bucket_faulty_bucket(f->faulty), .tenant = FG_LIT("acme"), .arena = f->arena};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_close(f->settings.bucket == NULL ? fg_bucket_faulty_bucket(f->faulty)
                                               : f->settings.bucket);
    fg_bucket_close(f->memory);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

static enum fg_code set(struct fixture *f, const char *name, const char *value, int64_t modified_ms,
                        struct fg_err *err)
{
    Settings__V1__Setting setting = SETTINGS__V1__SETTING__INIT;

    setting.name = fg_arena_text(f->arena, fg_cstr(name));
    setting.value = fg_arena_text(f->arena, fg_cstr(value));
    setting.modifiedat = modified_ms;
    return qry_tenant_settings_set(&f->settings, &setting, err);
}

/* "name=value@time;" of each. */
static void assert_all(struct fixture *f, const char *want)
{
    Settings__V1__GetSettingsResponse all;
    struct fg_buf text;
    struct fg_err err;

    assert_int_equal(qry_tenant_settings_read(&f->settings, &all, &err), FG_OK);
    fg_buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < all.n_settings; i++)
        fg_buf_printf(&text, "%s=%s@%lld;", all.settings[i]->name, all.settings[i]->value,
                      (long long)all.settings[i]->modifiedat);
    fg_buf_putc(&text, '\0');
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
}

static void set_get_and_delete(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    assert_all(f, "");
    assert_int_equal(set(f, "b", "1", 10, &err), FG_OK);
    assert_int_equal(set(f, "a", "2", 10, &err), FG_OK);
    assert_int_equal(set(f, "b", "3", 11, &err), FG_OK);
    assert_int_equal(set(f, "b", "4", 10, &err), FG_E_EXISTS);
    assert_string_equal(err.msg, "failed to update b: newer update already written");
    assert_all(f, "a=2@10;b=3@11;");
    assert_int_equal(qry_tenant_settings_delete(&f->settings, "a", &err), FG_OK);
    assert_int_equal(qry_tenant_settings_delete(&f->settings, "a", &err), FG_OK);
    assert_all(f, "b=3@11;");
    f->settings.tenant = FG_LIT("other");
    assert_all(f, "");
}

/* A setting by itself stays, whatever happens to the others at the same time. */
static void others_change_it_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    for (uint64_t k = 1; k < 12; k++) {
        char name[8];

        (void)snprintf(name, sizeof name, "n%02u", (unsigned)k);
        fg_bucket_faulty_fail(f->faulty, 1 + k % 3, k % 2 == 0);
        if (set(f, name, "v", 1, &err) != FG_OK)
            assert_int_equal(set(f, name, "v", 1, &err), FG_OK); /* as a client does */
        fg_bucket_faulty_fail(f->faulty, 0, false);
    }
    assert_all(f, "n01=v@1;n02=v@1;n03=v@1;n04=v@1;n05=v@1;n06=v@1;n07=v@1;n08=v@1;n09=v@1;n10=v@1;"
                  "n11=v@1;");
}

static void put(struct fixture *f, struct fg_slice content)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = OBJECT, .content = content};

    assert_int_equal(fg_bucket_call(f->memory, &put), FG_OK);
    fg_bucket_clear(&put);
}

/* Damage is said, and never overwritten by half of what there was. */
static void damaged_objects(void **state)
{
    struct fixture *f = *state;
    Settings__V1__GetSettingsResponse all;
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = OBJECT, .content_max_bytes = 4096};
    struct fg_err err;

    assert_int_equal(set(f, "a", "a value", 10, &err), FG_OK);
    assert_int_equal(fg_bucket_call(f->memory, &get), FG_OK);
    for (size_t i = 0; i < get.body.len; i++) {
        get.body.ptr[i] ^= 4;
        put(f, fg_buf_slice(&get.body));
        assert_int_equal(qry_tenant_settings_read(&f->settings, &all, &err), FG_E_CORRUPT);
        assert_non_null(strstr(err.msg, OBJECT));
        assert_int_equal(set(f, "b", "1", 10, &err), FG_E_CORRUPT);
        get.body.ptr[i] ^= 4;
        put(f, fg_slice_sub(fg_buf_slice(&get.body), 0, i));
        assert_int_equal(qry_tenant_settings_read(&f->settings, &all, &err), FG_E_CORRUPT);
    }
    put(f, fg_buf_slice(&get.body));
    assert_all(f, "a=a value@10;");
    fg_bucket_clear(&get);
}

static void settings_that_are_too_large_or_too_many_are_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;
    char *large = fg_calloc(SETTING_VALUE_MAX_BYTES + 2, 1);
    enum fg_code code = FG_OK;
    unsigned n = 0;

    memset(large, 'x', SETTING_VALUE_MAX_BYTES + 1);
    assert_int_equal(set(f, "a", large, 1, &err), FG_E_INVALID);
    large[SETTING_NAME_MAX_BYTES + 1] = '\0';
    assert_int_equal(set(f, large, "", 1, &err), FG_E_INVALID);
    memset(large, 'x', SETTING_VALUE_MAX_BYTES);
    large[SETTING_VALUE_MAX_BYTES] = '\0';
    for (; code == FG_OK && n < 100; n++) {
        char name[8];

        (void)snprintf(name, sizeof name, "%u", n);
        fg_arena_reset(f->arena);
        code = set(f, name, large, 1, &err);
    }
    assert_int_equal(code, FG_E_LIMIT);
    assert_in_range(n, 30, 33); /* of 256 KiB each */
    free(large);
}

static void no_bucket(void **state)
{
    struct fixture *f = *state;
    Settings__V1__GetSettingsResponse all;
    struct fg_err err;

    f->settings.bucket = NULL;
    assert_int_equal(qry_tenant_settings_read(&f->settings, &all, &err), FG_E_UNIMPLEMENTED);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(set_get_and_delete), TEST(others_change_it_meanwhile),
        TEST(damaged_objects),    TEST(settings_that_are_too_large_or_too_many_are_refused),
        TEST(no_bucket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
