/*
 * What mending deletes and leaves in the families of a head; that a start goes on with it is in
 * damage_test.c.
 */
#include "ingester/forward/entry.h"
#include "ingester/mend.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct fg_store *inner;
    struct fg_store_faulty faulty;
    struct ing_mend mend;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->inner = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->inner);
    ing_mend_init(&f->mend);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ing_mend_done(&f->mend);
    fg_store_close(f->inner);
    free(f);
    return 0;
}

static void put(struct fixture *f, enum ing_head_family family, struct fg_slice key,
                struct fg_slice value)
{
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, family, key, value);
    assert_int_equal(fg_store_write(f->inner, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
}

static size_t count(struct fixture *f, enum ing_head_family family)
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(&f->faulty.store, family, FG_LIT(""), FG_LIT(""));
    size_t n = 0;

    for (; iter->valid; fg_store_iter_next(iter))
        n++;
    assert_int_equal(iter->err.code, FG_OK);
    return n;
}

static void mend(struct fixture *f, uint32_t gaps)
{
    struct fg_err err;

    if (ing_mend_store(&f->mend, &f->faulty.store, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(f->mend.n, gaps);
    assert_int_equal(f->mend.damage.set_aside, gaps);
}

static uint64_t number_at(struct fixture *f, struct fg_slice key)
{
    struct fg_buf value;
    struct fg_err err;
    struct fg_cur cur;
    uint64_t number;
    bool found;

    fg_buf_init(&value, 64);
    assert_int_equal(fg_store_get(f->inner, HEAD_META, key, &value, &found, &err), FG_OK);
    assert_true(found);
    cur = fg_cur(fg_buf_slice(&value));
    number = fg_cur_varint(&cur);
    fg_buf_done(&value);
    return number;
}

static bool has(struct fixture *f, enum ing_head_family family, struct fg_slice key)
{
    struct fg_err err;
    bool found;

    assert_int_equal(fg_store_contains(f->inner, family, key, &found, &err), FG_OK);
    return found;
}

static void undamaged_head_stays_as_it_is(void **state)
{
    struct fixture *f = *state;

    put(f, HEAD_META, FG_LIT("o"), FG_LIT("\1"));
    put(f, HEAD_SERIES, FG_LIT("\0\0\0\0\0\0\0\1"), FG_LIT("x"));
    put(f, HEAD_OUTBOX, FG_LIT("\0\0\0\0\0\0\0\0\0\1"), FG_LIT("x"));
    mend(f, 0);
    assert_int_equal(count(f, HEAD_SERIES), 1);
    assert_int_equal(count(f, HEAD_OUTBOX), 1);
}

static void rotten_entries_of_the_outbox_go(void **state)
{
    static const struct fg_slice keys[] = {
        {(const uint8_t *)"\0\0\0\0\0\0\0\0\0\1", OUTBOX_KEY_BYTES},
        {(const uint8_t *)"\0\0\0\0\0\0\0\0\0\2", OUTBOX_KEY_BYTES},
        {(const uint8_t *)"\0\1\0\0\0\0\0\0\0\1", OUTBOX_KEY_BYTES}};
    static const enum ing_head_family families[] = {HEAD_OUTBOX, HEAD_OUTBOX_DEAD};
    struct fixture *f = *state;

    for (size_t k = 0; k < FG_COUNT(families); k++)
        for (size_t i = 0; i < FG_COUNT(keys); i++) {
            put(f, HEAD_META, FG_LIT("o"), FG_LIT("\1"));
            for (size_t j = 0; j < FG_COUNT(keys); j++)
                put(f, families[k], keys[j], FG_LIT("x"));
            f->faulty.damaged = keys[i];
            mend(f, 1);
            assert_int_equal(count(f, families[k]), FG_COUNT(keys) - 1);
            for (size_t j = 0; j < FG_COUNT(keys); j++)
                assert_true(has(f, families[k], keys[j]) == (j != i));
            (void)tear_down(state);
            (void)set_up(state);
            f = *state;
        }
}

/* Series 5 of tenant 1 is readable, what follows is not, up to series 3 of tenant 3. */
static void numbers_of_lost_series_are_skipped(void **state)
{
    struct fixture *f = *state;

    put(f, HEAD_META, FG_LIT("ta"), FG_LIT("\0"));
    put(f, HEAD_META, FG_LIT("tb"), FG_LIT("\1"));
    put(f, HEAD_META, FG_LIT("tc"), FG_LIT("\2"));
    put(f, HEAD_META, FG_LIT("td"), FG_LIT("\3"));
    put(f, HEAD_META, FG_LIT("n\0\0\0\2"), FG_LIT("\x64"));
    put(f, HEAD_SERIES, FG_LIT("\0\0\0\1\0\0\0\5"), FG_LIT("x"));
    put(f, HEAD_SERIES, FG_LIT("\0\0\0\2\0\0\0\x70"), FG_LIT("x"));
    put(f, HEAD_SERIES, FG_LIT("\0\0\0\3\0\0\0\3"), FG_LIT("x"));
    f->faulty.damaged = FG_LIT("\0\0\0\2\0\0\0\x70");
    mend(f, 1);
    assert_int_equal(count(f, HEAD_SERIES), 2);
    assert_in_range(number_at(f, FG_LIT("n\0\0\0\1")), 1 << 20, UINT32_MAX - 1);
    assert_in_range(number_at(f, FG_LIT("n\0\0\0\2")), 1 << 20, UINT32_MAX - 1);
    assert_false(has(f, HEAD_META, FG_LIT("n\0\0\0\0")));
    assert_false(has(f, HEAD_META, FG_LIT("n\0\0\0\3")));
}

/* What a start does after the store was mended. Returns which tenants of a, b and c lack something,
 * as bits. */
static unsigned start(struct fixture *f)
{
    static const char *const names[] = {"a", "b", "c"};
    static const struct ing_catalog_bounds bounds = {1 << 20, 100};
    struct ing_damage damage = {0};
    struct ing_head_chunks *chunks;
    struct ing_catalog *catalog;
    struct fg_err err;
    unsigned lacking = 0;

    assert_int_equal(ing_catalog_open(f->inner, &bounds, &damage, &catalog, &err), FG_OK);
    assert_int_equal(ing_head_chunks_open(f->inner, catalog, 1 << 20, &damage, &chunks, &err),
                     FG_OK);
    if (ing_mend_tell(f->inner, chunks, catalog, &err) != FG_OK)
        fail_msg("%s", err.msg);
    for (unsigned i = 0; i < FG_COUNT(names); i++)
        lacking |=
            (unsigned)ing_catalog_tenant_lacks(ing_catalog_find_tenant(catalog, fg_cstr(names[i])))
            << i;
    ing_head_chunks_close(chunks);
    ing_catalog_close(catalog);
    return lacking;
}

static void put_chunk(struct fixture *f, enum ing_chunk_state state, uint32_t born)
{
    static const struct ing_head_chunk_key key = {.group = {.tenant = 1, .window = 1}};
    struct ing_head_chunk chunk = ing_head_chunk_empty(&key);
    struct fg_store_batch batch;
    struct fg_err err;

    chunk.state = state;
    chunk.born = born;
    chunk.count = 1;
    chunk.cut = state == CHUNK_OPEN ? 0 : born + 1;
    fg_store_batch_init(&batch);
    ing_head_chunk_put(&chunk, &batch);
    assert_int_equal(fg_store_write(f->inner, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
}

/* The chunk that may have profiles of the lost series began after cut 7. */
static void every_start_tells_until_all_is_committed(void **state)
{
    struct fixture *f = *state;

    put(f, HEAD_META, HEAD_FORMAT_KEY, FG_LIT("\2"));
    put(f, HEAD_META, FG_LIT("cut"), FG_LIT("\7"));
    put(f, HEAD_META, FG_LIT("ta"), FG_LIT("\0"));
    put(f, HEAD_META, FG_LIT("tb"), FG_LIT("\1"));
    put(f, HEAD_META, FG_LIT("tc"), FG_LIT("\2"));
    put_chunk(f, CHUNK_OPEN, 7);
    assert_int_equal(start(f), 0);
    put(f, HEAD_SERIES, FG_LIT("\0\0\0\1\0\0\0\6"), FG_LIT("x"));
    f->faulty.damaged = FG_LIT("\0\0\0\1\0\0\0\6");
    mend(f, 1); /* nobody knows of which tenants the lost ones were */
    assert_int_equal(start(f), 7);
    assert_int_equal(start(f), 7);
    put_chunk(f, CHUNK_SEALED, 7);
    assert_int_equal(start(f), 7);
    put_chunk(f, CHUNK_OPEN, 8);
    assert_int_equal(start(f), 0);
    put_chunk(f, CHUNK_OPEN, 7); /* the record is gone, and nothing is told again */
    assert_int_equal(start(f), 0);

    put(f, HEAD_META, FG_LIT("lost?"), FG_LIT("")); /* one that cannot be read */
    assert_int_equal(start(f), 7);
    put_chunk(f, CHUNK_COMMITTED, 7);
    assert_int_equal(start(f), 0);
    assert_false(has(f, HEAD_META, FG_LIT("lost?")));
}

/* Services 1 to 3; generation 7 of service 1 is readable, and what follows up to service 3 not. */
static void generations_of_lost_dictionaries_are_skipped(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_store_iter) *iter = NULL;

    put(f, HEAD_META, FG_LIT("s\0\0\0\0a"), FG_LIT("\1"));
    put(f, HEAD_META, FG_LIT("s\0\0\0\0b"), FG_LIT("\2"));
    put(f, HEAD_META, FG_LIT("s\0\0\0\0c"), FG_LIT("\3"));
    put(f, HEAD_DICT, FG_LIT("\0\0\0\1\0\0\0\7\0\0\0\0"), FG_LIT("x"));
    put(f, HEAD_DICT, FG_LIT("\0\0\0\2\0\0\0\1\0\0\0\0"), FG_LIT("x"));
    put(f, HEAD_DICT, FG_LIT("\0\0\0\3\0\0\0\1\0\0\0\0"), FG_LIT("x"));
    f->faulty.damaged = FG_LIT("\0\0\0\2\0\0\0\1\0\0\0\0");
    mend(f, 1);
    assert_int_equal(count(f, HEAD_DICT), 4);
    iter = fg_store_iter_create(f->inner, HEAD_DICT, FG_LIT("\0\0\0\1\0\1"), FG_LIT("\0\0\0\3"));
    for (uint8_t service = 1; service <= 2; service++) {
        assert_true(iter->valid);
        assert_int_equal(iter->key.ptr[3], service);
        assert_in_range(iter->key.ptr[4], 0x10, 0x7e); /* far above, and not the last one */
        fg_store_iter_next(iter);
    }
    assert_false(iter->valid);
}

/* As on a disk that is full: the start fails, and nothing has changed. */
static void failed_write_leaves_all(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    put(f, HEAD_SERIES, FG_LIT("\0\0\0\1\0\0\0\5"), FG_LIT("x"));
    f->faulty.damaged = FG_LIT("\0\0\0\1\0\0\0\5");
    atomic_store(&f->faulty.full, true);
    assert_int_equal(ing_mend_store(&f->mend, &f->faulty.store, &err), FG_E_NO_SPACE);
    assert_true(has(f, HEAD_SERIES, FG_LIT("\0\0\0\1\0\0\0\5")));
}

/* As of a head whose key is lost, where nothing can be decrypted. */
static void without_meta_nothing_is_deleted(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    put(f, HEAD_META, FG_LIT("ta"), FG_LIT("\0"));
    put(f, HEAD_SERIES, FG_LIT("ta"), FG_LIT("x"));
    f->faulty.damaged = FG_LIT("ta");
    assert_int_equal(ing_mend_store(&f->mend, &f->faulty.store, &err), FG_E_CORRUPT);
    assert_true(has(f, HEAD_SERIES, FG_LIT("ta")));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(undamaged_head_stays_as_it_is),
        TEST(rotten_entries_of_the_outbox_go),
        TEST(numbers_of_lost_series_are_skipped),
        TEST(every_start_tells_until_all_is_committed),
        TEST(generations_of_lost_dictionaries_are_skipped),
        TEST(failed_write_leaves_all),
        TEST(without_meta_nothing_is_deleted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
