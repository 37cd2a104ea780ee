/* The key of the head: made, found again, wrapped again, and missed. */
#include "common/runtime/log.h"
#include "common/storage/store/sealed.h"
#include "ingester/head_seal.h"
#include "ingester/keys.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/remove_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { FILES = 2 };

static const struct fg_store_config store_config = {
    .cache_bytes = 8 << 20, .write_buffer_bytes = 1 << 20, .wal_max_bytes = 4 << 20, .sync = true};

struct fixture {
    struct fg_bucket *bucket;
    char folder[64], head[80], files[FILES][80], both[200];
    struct fg_encryption_settings settings;
    struct fg_key_store *keys;
    struct fg_store *store;
    struct fg_err err;
};

static char none[] = "";

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->bucket = fg_bucket_memory();
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/head_seal_test_XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->head, sizeof f->head, "%s/head", f->folder);
    for (unsigned i = 0; i < FILES; i++) {
        FILE *file;

        (void)snprintf(f->files[i], sizeof f->files[i], "%s/key%u", f->folder, i);
        file = fopen(f->files[i], "w");
        assert_non_null(file);
        assert_int_equal(fprintf(file, "%064u\n", i), 65);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(f->files[i], 0600), 0);
    }
    f->settings = (struct fg_encryption_settings){.mode = FG_ENCRYPTION_PER_TENANT,
                                                  .key_file = f->files[0],
                                                  .old_key_files = none,
                                                  .vault_address = none};
    *state = f;
    return 0;
}

static void stop(struct fixture *f)
{
    fg_store_close(f->store);
    f->store = NULL;
    fg_key_store_destroy(f->keys);
    f->keys = NULL;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    stop(f);
    (void)remove_tree(f->folder);
    fg_bucket_close(f->bucket);
    free(f);
    return 0;
}

/* As a start by these settings does it. */
static enum fg_code start(struct fixture *f)
{
    stop(f);
    must(fg_key_store_create(&(struct fg_key_store_config){.settings = &f->settings,
                                                           .bucket = f->bucket,
                                                           .by = "the test"},
                             &f->keys, &f->err),
         &f->err);
    must(
        fg_store_open(f->head, ing_head_families, HEAD_FAMILIES, &store_config, &f->store, &f->err),
        &f->err);
    return ing_head_seal(&f->store, f->keys, &f->err);
}

static void put(struct fixture *f, const char *key, const char *value)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_PROFILES, fg_cstr(key), fg_cstr(value));
    must(fg_store_write(f->store, &batch, &f->err), &f->err);
    fg_store_batch_done(&batch);
}

static void expect(struct fixture *f, const char *key, const char *value)
{
    struct fg_buf got;
    bool found;

    fg_buf_init(&got, 1 << 20);
    must(fg_store_get(f->store, HEAD_PROFILES, fg_cstr(key), &got, &found, &f->err), &f->err);
    assert_true(found && fg_slice_is(fg_buf_slice(&got), value));
    fg_buf_done(&got);
}

static void a_head_keeps_its_key(void **state)
{
    struct fixture *f = *state;

    must(start(f), &f->err);
    put(f, "a", "1");
    must(start(f), &f->err);
    expect(f, "a", "1");
    put(f, "b", "2");
    must(start(f), &f->err);
    expect(f, "a", "1");
    expect(f, "b", "2");
}

static void the_key_is_wrapped_again_by_a_new_file(void **state)
{
    struct fixture *f = *state;

    must(start(f), &f->err);
    put(f, "a", "1");
    f->settings.key_file = f->files[1];
    assert_int_equal(start(f), FG_E_PRECONDITION); /* nobody has the old one */
    f->settings.old_key_files = f->files[0];
    must(start(f), &f->err);
    expect(f, "a", "1");
    f->settings.old_key_files = none; /* it is not needed any more */
    must(start(f), &f->err);
    expect(f, "a", "1");
}

static void encryption_is_turned_on_and_off(void **state)
{
    struct fixture *f = *state;

    f->settings.mode = FG_ENCRYPTION_OFF;
    must(start(f), &f->err);
    put(f, "before", "1");
    f->settings.mode = FG_ENCRYPTION_PER_TENANT;
    must(start(f), &f->err);
    put(f, "during", "2");
    f->settings.mode = FG_ENCRYPTION_OFF;
    must(start(f), &f->err);
    put(f, "after", "3");
    expect(f, "before", "1");
    expect(f, "during", "2");
    f->settings.key_file = none; /* the head still has what is encrypted */
    assert_int_equal(start(f), FG_E_PRECONDITION);
    assert_non_null(strstr(f->err.msg, "encryption.key_file"));
}

/* A program that knows no encryption must not take what is encrypted for damaged, and set it aside.
 */
static void an_encrypted_head_says_so_to_older_programs(void **state)
{
    struct fixture *f = *state;
    struct fg_store_batch batch;
    struct fg_buf format;
    bool found;

    f->settings.mode = FG_ENCRYPTION_OFF;
    must(start(f), &f->err);
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_META, HEAD_FORMAT_KEY, FG_LIT("\x02"));
    must(fg_store_write(f->store, &batch, &f->err), &f->err);
    f->settings.mode = FG_ENCRYPTION_PER_TENANT;
    must(start(f), &f->err);
    fg_buf_init(&format, 64);
    must(fg_store_get(f->store, HEAD_META, HEAD_FORMAT_KEY, &format, &found, &f->err), &f->err);
    assert_false(found); /* the catalog writes it first of all, and it is encrypted then */
    stop(f);
    must(
        fg_store_open(f->head, ing_head_families, HEAD_FAMILIES, &store_config, &f->store, &f->err),
        &f->err);
    fg_store_batch_clear(&batch);
    fg_store_delete(&batch, HEAD_META, FG_LIT("key"));
    fg_store_put(&batch, HEAD_META, HEAD_FORMAT_KEY, FG_LIT("\x01"));
    must(fg_store_write(f->store, &batch, &f->err), &f->err);
    assert_int_equal(start(f), FG_E_PRECONDITION); /* of another version, and it stays so */
    fg_store_batch_done(&batch);
    fg_buf_done(&format);
}

static void a_head_without_encryption_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct fg_store *before;

    f->settings.mode = FG_ENCRYPTION_OFF;
    f->settings.key_file = none;
    must(start(f), &f->err);
    before = f->store;
    must(ing_head_seal(&f->store, f->keys, &f->err), &f->err);
    assert_ptr_equal(f->store, before);
}

static void a_key_that_was_changed_is_damage(void **state)
{
    static const struct fg_slice key = {(const uint8_t *)"key", 3};
    struct fixture *f = *state;
    struct fg_store_batch batch;
    struct fg_buf record;
    bool found;

    must(start(f), &f->err);
    stop(f);
    must(
        fg_store_open(f->head, ing_head_families, HEAD_FAMILIES, &store_config, &f->store, &f->err),
        &f->err);
    fg_buf_init(&record, 1 << 16);
    must(fg_store_get(f->store, HEAD_META, key, &record, &found, &f->err), &f->err);
    assert_true(found);
    record.ptr[record.len - 1] ^= 1;
    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_META, key, fg_buf_slice(&record));
    must(fg_store_write(f->store, &batch, &f->err), &f->err);
    fg_store_batch_clear(&batch);
    assert_int_equal(start(f), FG_E_CORRUPT);
    fg_store_put(&batch, HEAD_META, key, FG_LIT("\xff"));
    must(fg_store_write(f->store, &batch, &f->err), &f->err);
    assert_int_equal(start(f), FG_E_CORRUPT);
    fg_store_batch_done(&batch);
    fg_buf_done(&record);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_head_keeps_its_key),
        TEST(the_key_is_wrapped_again_by_a_new_file),
        TEST(encryption_is_turned_on_and_off),
        TEST(an_encrypted_head_says_so_to_older_programs),
        TEST(a_head_without_encryption_is_left_alone),
        TEST(a_key_that_was_changed_is_damage),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
