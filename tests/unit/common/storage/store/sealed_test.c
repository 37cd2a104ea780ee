/* A store that encrypts: what is written by it, what it reads, and what it refuses. That it is a
 * store like others is shown by store_test.c. */
#include "common/storage/store/sealed.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { DATA, INDEX, FAMILIES };

static const struct fg_seal_key first_key = {{1}}, other_key = {{2}};

/* Passes on to a store that outlives it, since a sealed store closes its own. */
struct lent {
    struct fg_store store;
    struct fg_store *inner;
};

static struct fg_store *inner_of(struct fg_store *store)
{
    return fg_container(store, struct lent, store)->inner;
}

static enum fg_code lent_write(struct fg_store *store, struct fg_store_batch *batch,
                               struct fg_err *err)
{
    return fg_store_write(inner_of(store), batch, err);
}

static enum fg_code lent_heal(struct fg_store *store, struct fg_err *err)
{
    return fg_store_heal(inner_of(store), err);
}

static enum fg_code lent_get(struct fg_store *store, unsigned family, struct fg_slice key,
                             struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    return fg_store_get(inner_of(store), family, key, out, ret_found, err);
}

static enum fg_code lent_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                  bool *ret_found, struct fg_err *err)
{
    return fg_store_contains(inner_of(store), family, key, ret_found, err);
}

static struct fg_store_iter *lent_iter(struct fg_store *store, unsigned family,
                                       struct fg_slice from, struct fg_slice to)
{
    return fg_store_iter_create(inner_of(store), family, from, to);
}

static uint64_t lent_bytes(struct fg_store *store)
{
    return fg_store_disk_bytes(inner_of(store));
}

static void lent_close(struct fg_store *store)
{
    free(fg_container(store, struct lent, store));
}

static bool lent_is_damaged(struct fg_store *store)
{
    (void)store;
    return true;
}

static struct fg_store *lend(struct fg_store *inner)
{
    static const struct fg_store_ops ops = {lent_write,    lent_heal,  lent_get,
                                            lent_contains, lent_iter,  lent_bytes,
                                            lent_bytes,    lent_close, lent_is_damaged};
    struct lent *lent = fg_new(struct lent);

    *lent = (struct lent){.store = {.ops = &ops}, .inner = inner};
    return &lent->store;
}

struct fixture {
    struct fg_store *memory;
    struct fg_store_batch batch;
    struct fg_err err;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->memory = fg_store_memory(FAMILIES);
    fg_store_batch_init(&f->batch);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_store_batch_done(&f->batch);
    fg_store_close(f->memory);
    free(f);
    return 0;
}

static struct fg_store *seal(struct fixture *f, const struct fg_seal_key *key, bool write)
{
    struct fg_store *store;

    assert_int_equal(fg_store_seal(lend(f->memory), key, write, &store, &f->err), FG_OK);
    return store;
}

static void put(struct fixture *f, struct fg_store *store, unsigned family, const char *key,
                struct fg_slice value)
{
    fg_store_put(&f->batch, family, fg_cstr(key), value);
    assert_int_equal(fg_store_write(store, &f->batch, &f->err), FG_OK);
    fg_store_batch_clear(&f->batch);
}

/* The value; fails the test if there is none. */
static struct fg_buf get(struct fixture *f, struct fg_store *store, unsigned family,
                         const char *key)
{
    struct fg_buf value;
    bool found;

    fg_buf_init(&value, 1 << 20);
    assert_int_equal(fg_store_get(store, family, fg_cstr(key), &value, &found, &f->err), FG_OK);
    assert_true(found);
    return value;
}

static void expect(struct fixture *f, struct fg_store *store, const char *key, const char *value)
{
    struct fg_buf got = get(f, store, DATA, key);

    assert_true(fg_slice_is(fg_buf_slice(&got), value));
    fg_buf_done(&got);
}

static enum fg_code get_code(struct fixture *f, struct fg_store *store, unsigned family,
                             const char *key)
{
    struct fg_buf value;
    enum fg_code code;
    bool found;

    fg_buf_init(&value, 1 << 20);
    code = fg_store_get(store, family, fg_cstr(key), &value, &found, &f->err);
    assert_int_equal(value.len, 0);
    fg_buf_done(&value);
    return code;
}

/* ---- what is written ---- */

static bool has(struct fg_slice bytes, const char *text)
{
    return memmem(bytes.ptr, bytes.len, text, strlen(text)) != NULL;
}

static void nothing_of_a_value_is_written_as_it_is(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = seal(f, &first_key, true);
    struct fg_buf a, b, empty;

    put(f, store, DATA, "a", FG_LIT("a secret text"));
    put(f, store, DATA, "b", FG_LIT("a secret text"));
    put(f, store, DATA, "empty", FG_LIT(""));
    a = get(f, f->memory, DATA, "a");
    b = get(f, f->memory, DATA, "b");
    empty = get(f, f->memory, DATA, "empty");
    assert_int_equal(a.len, strlen("a secret text") + FG_STORE_SEAL_MORE_BYTES);
    assert_false(has(fg_buf_slice(&a), "secret"));
    /* Equal values cannot be told to be equal: another count, so another key stream. */
    assert_memory_not_equal(a.ptr + FG_STORE_SEAL_MORE_BYTES - FG_SEAL_TAG_BYTES,
                            b.ptr + FG_STORE_SEAL_MORE_BYTES - FG_SEAL_TAG_BYTES, 13);
    assert_int_equal(empty.len, 0);
    expect(f, store, "a", "a secret text");
    expect(f, store, "b", "a secret text");
    assert_true(fg_store_is_damaged(store)); /* as the inner one says */
    fg_buf_done(&a);
    fg_buf_done(&b);
    fg_buf_done(&empty);
    fg_store_close(store);
}

/* Another opening has another salt, so no nonce is used twice with a key. */
static void openings_have_keys_of_their_own(void **state)
{
    struct fixture *f = *state;
    struct fg_buf stored[2];

    for (int i = 0; i < 2; i++) {
        struct fg_store *store = seal(f, &first_key, true);

        put(f, store, DATA, "a", FG_LIT("the same text"));
        stored[i] = get(f, f->memory, DATA, "a");
        fg_store_close(store);
    }
    assert_int_equal(stored[0].len, stored[1].len);
    assert_memory_not_equal(stored[0].ptr + 8, stored[1].ptr + 8, FG_STORE_SALT_BYTES);
    assert_memory_not_equal(stored[0].ptr + 32, stored[1].ptr + 32, stored[0].len - 32);
    fg_buf_done(&stored[0]);
    fg_buf_done(&stored[1]);
}

/* ---- what is read ---- */

/* More openings than keys are kept of. */
static void values_of_many_openings_are_read(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store;
    char key[16];

    for (unsigned i = 0; i < 100; i++) {
        store = seal(f, &first_key, true);
        (void)snprintf(key, sizeof key, "%03u", i);
        put(f, store, DATA, key, fg_cstr(key));
        fg_store_close(store);
    }
    store = seal(f, &first_key, true);
    for (unsigned pass = 0; pass < 2; pass++) {
        fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, DATA, FG_LIT(""), FG_LIT(""));
        unsigned n = 0;

        for (; iter->valid; fg_store_iter_next(iter), n++)
            assert_true(fg_slice_eq(iter->key, iter->value));
        assert_int_equal(n, 100);
        assert_int_equal(iter->err.code, FG_OK);
    }
    fg_store_close(store);
}

static void values_from_before_are_read_and_encryption_may_end(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store;
    struct fg_buf stored;

    put(f, f->memory, DATA, "before", FG_LIT("plain"));
    store = seal(f, &first_key, true);
    expect(f, store, "before", "plain");
    put(f, store, DATA, "during", FG_LIT("encrypted"));
    fg_store_close(store);
    store = seal(f, &first_key, false);
    put(f, store, DATA, "after", FG_LIT("plain again"));
    expect(f, store, "before", "plain");
    expect(f, store, "during", "encrypted");
    expect(f, store, "after", "plain again");
    stored = get(f, f->memory, DATA, "after");
    assert_true(fg_slice_is(fg_buf_slice(&stored), "plain again"));
    fg_buf_done(&stored);
    fg_store_close(store);
}

/* ---- what is refused ---- */

static void a_value_that_was_changed_or_moved_is_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = seal(f, &first_key, true);
    struct fg_buf good;
    uint8_t bad[256];

    put(f, store, DATA, "a", FG_LIT("a text"));
    good = get(f, f->memory, DATA, "a");
    put(f, f->memory, DATA, "b", fg_buf_slice(&good));
    put(f, f->memory, INDEX, "a", fg_buf_slice(&good));
    assert_int_equal(get_code(f, store, DATA, "b"), FG_E_CORRUPT);
    assert_int_equal(get_code(f, store, INDEX, "a"), FG_E_CORRUPT);
    for (size_t i = 8; i < good.len; i++) { /* behind the magic */
        memcpy(bad, good.ptr, good.len);
        bad[i] ^= 1;
        put(f, f->memory, DATA, "a", fg_bytes(bad, good.len));
        assert_int_equal(get_code(f, store, DATA, "a"), FG_E_CORRUPT);
    }
    for (size_t len = 8; len < good.len; len++) {
        put(f, f->memory, DATA, "a", fg_bytes(good.ptr, len));
        assert_int_equal(get_code(f, store, DATA, "a"), FG_E_CORRUPT);
    }
    fg_store_close(store);
    store = seal(f, &other_key, true);
    put(f, f->memory, DATA, "a", fg_buf_slice(&good));
    assert_int_equal(get_code(f, store, DATA, "a"), FG_E_CORRUPT);
    fg_buf_done(&good);
    fg_store_close(store);
}

static void an_iterator_stops_at_a_value_that_was_changed(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = seal(f, &first_key, true);
    struct fg_buf stored;

    put(f, store, DATA, "a", FG_LIT("1"));
    put(f, store, DATA, "b", FG_LIT("2"));
    stored = get(f, f->memory, DATA, "b");
    stored.ptr[stored.len - 1] ^= 1;
    put(f, f->memory, DATA, "b", fg_buf_slice(&stored));
    fg_buf_done(&stored);
    {
        fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, DATA, FG_LIT(""), FG_LIT(""));

        assert_true(iter->valid && fg_slice_is(iter->value, "1"));
        fg_store_iter_next(iter);
        assert_false(iter->valid);
        assert_int_equal(iter->err.code, FG_E_CORRUPT);
        fg_store_iter_seek(iter, FG_LIT("a"));
        assert_true(iter->valid && iter->err.code == FG_OK);
    }
    fg_store_close(store);
}

/* ---- fronts ---- */

static const char long_text[] = "a value that is longer than what is remembered of it, by far";

static struct fg_store_iter *fronts_of(struct fg_store *store)
{
    struct fg_store_iter *iter = fg_store_iter_create(store, DATA, FG_LIT(""), FG_LIT(""));

    fg_store_iter_prefer_fronts(iter);
    fg_store_iter_seek(iter, FG_LIT(""));
    return iter;
}

/* Asserts that the iterator shows the text, or its beginning, and then the whole on request. */
static void expect_front(struct fg_store_iter *iter, const char *text, bool cut)
{
    assert_true(iter->valid);
    assert_int_equal(iter->cut > 0, cut);
    assert_int_equal(iter->value.len + iter->cut, strlen(text));
    assert_memory_equal(iter->value.ptr, text, iter->value.len);
    assert_true(iter->value.len >= 40 || iter->cut == 0);
    fg_store_iter_whole(iter);
    assert_true(iter->valid && iter->cut == 0 && fg_slice_is(iter->value, text));
}

static void fronts_are_the_beginnings_of_values(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = seal(f, &first_key, true);

    put(f, f->memory, DATA, "a",
        fg_cstr("plain, and longer than what is remembered of those that are not"));
    put(f, store, DATA, "b", fg_cstr(long_text));
    put(f, store, DATA, "c", FG_LIT(""));
    put(f, store, DATA, "d", FG_LIT("short"));
    for (unsigned round = 0; round < 3; round++) {
        fg_auto(fg_store_iter) *iter = fronts_of(store);

        assert_true(iter->valid && iter->cut == 0);
        fg_store_iter_next(iter);
        expect_front(iter, long_text, round > 0);
        fg_store_iter_next(iter);
        expect_front(iter, "", false);
        fg_store_iter_next(iter);
        expect_front(iter, "short", false);
        fg_store_iter_next(iter);
        assert_true(!iter->valid && iter->err.code == FG_OK);
    }
    put(f, store, DATA, "b", fg_cstr(long_text + 3));
    {
        fg_auto(fg_store_iter) *iter = fronts_of(store);

        fg_store_iter_next(iter);
        expect_front(iter, long_text + 3, false);
    }
    fg_store_close(store);
}

/* A front is of one value under one key of one family. */
static void a_front_is_not_that_of_a_moved_or_older_value(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = seal(f, &first_key, true);
    struct fg_buf stored;

    put(f, store, DATA, "a", fg_cstr(long_text));
    fg_store_iter_destroy(fronts_of(store)); /* remembers it */
    stored = get(f, f->memory, DATA, "a");
    put(f, f->memory, DATA, "b", fg_buf_slice(&stored));
    put(f, f->memory, INDEX, "a", fg_buf_slice(&stored));
    {
        fg_auto(fg_store_iter) *iter = fronts_of(store), *moved = NULL;

        expect_front(iter, long_text, true);
        fg_store_iter_next(iter);
        assert_false(iter->valid);
        assert_int_equal(iter->err.code, FG_E_CORRUPT);
        moved = fg_store_iter_create(store, INDEX, FG_LIT(""), FG_LIT(""));
        fg_store_iter_prefer_fronts(moved);
        fg_store_iter_seek(moved, FG_LIT(""));
        assert_false(moved->valid);
    }
    /* A value that is changed after its front was read: the rest of it is refused. */
    stored.ptr[stored.len - 1] ^= 1;
    put(f, f->memory, DATA, "a", fg_buf_slice(&stored));
    {
        fg_auto(fg_store_iter) *iter = fronts_of(store);

        assert_true(iter->valid && iter->cut > 0);
        fg_store_iter_whole(iter);
        assert_false(iter->valid);
        assert_int_equal(iter->err.code, FG_E_CORRUPT);
    }
    fg_buf_done(&stored);
    fg_store_close(store);
}

/* As many values as there is room for, and as many more. */
static void fronts_make_room_for_others(void **state)
{
    enum { VALUES = 3 << 16 };
    struct fixture *f = *state;
    struct fg_store *store = seal(f, &first_key, true);
    char key[16], value[80];

    for (unsigned i = 0; i < VALUES; i++) {
        (void)snprintf(key, sizeof key, "%08u", i);
        (void)snprintf(value, sizeof value, "%070u", i);
        fg_store_put(&f->batch, DATA, fg_cstr(key), fg_cstr(value));
    }
    assert_int_equal(fg_store_write(store, &f->batch, &f->err), FG_OK);
    for (unsigned round = 0; round < 2; round++) {
        fg_auto(fg_store_iter) *iter = fronts_of(store);
        unsigned n = 0;

        for (; iter->valid; fg_store_iter_next(iter), n++) {
            (void)snprintf(value, sizeof value, "%070u", n);
            assert_memory_equal(iter->value.ptr, value, iter->value.len);
            if (n % 100 == 0)
                expect_front(iter, value, iter->cut > 0);
        }
        assert_int_equal(n, VALUES);
    }
    fg_store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_of_a_value_is_written_as_it_is),
        TEST(openings_have_keys_of_their_own),
        TEST(values_of_many_openings_are_read),
        TEST(values_from_before_are_read_and_encryption_may_end),
        TEST(a_value_that_was_changed_or_moved_is_refused),
        TEST(fronts_are_the_beginnings_of_values),
        TEST(a_front_is_not_that_of_a_moved_or_older_value),
        TEST(fronts_make_room_for_others),
        TEST(an_iterator_stops_at_a_value_that_was_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
