/* Writes of the head: what a failed one may have left is undone before anything else is written. */
#include "ingester/head_writer.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct fg_store *inner;
    struct fg_store_faulty faulty;
    struct fg_registry *registry;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_head_writer *writer;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct ing_damage damage = {0};
    struct fg_err err;

    f->inner = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->inner);
    f->registry = fg_registry_create();
    assert_int_equal(ing_catalog_open(&f->faulty.store, &(struct ing_catalog_bounds){1 << 20, 0},
                                      &damage, &f->catalog, &err),
                     FG_OK);
    assert_int_equal(
        ing_head_chunks_open(&f->faulty.store, f->catalog, 1 << 20, &damage, &f->chunks, &err),
        FG_OK);
    f->writer = ing_head_writer_create(
        &(struct ing_head_writer_config){&f->faulty.store, f->chunks, NULL, f->registry});
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ing_head_writer_destroy(f->writer);
    ing_head_chunks_close(f->chunks);
    ing_catalog_close(f->catalog);
    fg_registry_destroy(f->registry);
    fg_store_close(f->inner);
    free(f);
    return 0;
}

/* Writes a key, to be undone by its delete. */
static enum fg_code write_key(struct fixture *f, const char *key)
{
    struct fg_store_batch batch, undo;
    struct fg_err err;
    enum fg_code code;

    fg_store_batch_init(&batch);
    fg_store_batch_init(&undo);
    fg_store_put(&batch, HEAD_PROFILES, fg_cstr(key), FG_LIT("value"));
    fg_store_delete(&undo, HEAD_PROFILES, fg_cstr(key));
    code = ing_head_writer_write(f->writer, &batch, &undo, &err);
    fg_store_batch_done(&batch);
    fg_store_batch_done(&undo);
    return code;
}

static bool has_key(struct fixture *f, const char *key)
{
    struct fg_err err;
    bool found;

    assert_int_equal(fg_store_contains(f->inner, HEAD_PROFILES, fg_cstr(key), &found, &err), FG_OK);
    return found;
}

static void fail_next_write(struct fixture *f, bool late)
{
    f->faulty.writes = 0;
    f->faulty.fail_at = 1;
    f->faulty.fail_late = late;
}

static void failed_write_that_reached_the_disk_is_undone_first(void **state)
{
    struct fixture *f = *state;

    fail_next_write(f, true);
    assert_int_equal(write_key(f, "a"), FG_E_UNAVAILABLE);
    assert_true(has_key(f, "a")); /* nobody knows */
    assert_int_equal(write_key(f, "b"), FG_OK);
    assert_false(has_key(f, "a"));
    assert_true(has_key(f, "b"));
}

static void nothing_is_written_while_the_undo_fails(void **state)
{
    struct fixture *f = *state;

    fail_next_write(f, true);
    assert_int_equal(write_key(f, "a"), FG_E_UNAVAILABLE);
    fail_next_write(f, false); /* the undo */
    assert_int_equal(write_key(f, "b"), FG_E_UNAVAILABLE);
    assert_true(has_key(f, "a"));
    assert_false(has_key(f, "b"));
    assert_int_equal(write_key(f, "b"), FG_OK);
    assert_false(has_key(f, "a"));
}

static void settle_undoes_without_another_write(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    fail_next_write(f, true);
    assert_int_equal(write_key(f, "a"), FG_E_UNAVAILABLE);
    assert_int_equal(ing_head_writer_settle(f->writer, &err), FG_OK);
    assert_false(has_key(f, "a"));
}

static void writer_fails_until_it_is_healed(void **state)
{
    struct fixture *f = *state;
    struct fg_buf why;

    assert_false(ing_head_writer_is_failing(f->writer));
    fail_next_write(f, true);
    assert_int_equal(write_key(f, "a"), FG_E_UNAVAILABLE);
    assert_true(ing_head_writer_is_failing(f->writer));
    fg_buf_init(&why, FG_ERR_MSG_MAX_BYTES);
    ing_head_writer_describe(f->writer, &why);
    assert_true(why.len > 0);
    fg_buf_done(&why);
    ing_head_writer_heal(f->writer);
    assert_false(ing_head_writer_is_failing(f->writer));
    assert_false(has_key(f, "a")); /* healing writes, so it undoes first */
}

static void writer_on_a_full_disk_starts_failing(void **state)
{
    struct fixture *f = *state;

    ing_head_writer_destroy(f->writer);
    atomic_store(&f->faulty.full, true);
    f->writer = ing_head_writer_create(
        &(struct ing_head_writer_config){&f->faulty.store, f->chunks, NULL, f->registry});
    assert_true(ing_head_writer_is_failing(f->writer));
    atomic_store(&f->faulty.full, false);
    ing_head_writer_heal(f->writer);
    assert_false(ing_head_writer_is_failing(f->writer));
    assert_int_equal(write_key(f, "a"), FG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(failed_write_that_reached_the_disk_is_undone_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_written_while_the_undo_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settle_undoes_without_another_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writer_fails_until_it_is_healed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writer_on_a_full_disk_starts_failing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
