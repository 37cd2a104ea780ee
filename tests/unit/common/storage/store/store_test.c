/* One suite for every store: what is written once here holds for memory, RocksDB, one that
 * encrypts, and the faulty wrapper that passes on. */
#include "common/storage/store/sealed.h"
#include "tests/lib/remove_tree.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { DATA, INDEX, FAMILIES };
static const char *const family_names[FAMILIES] = {"default", "index"};

static const struct fg_store_config config = {
    .cache_bytes = 8 << 20,
    .write_buffer_bytes = 1 << 20,
    .wal_max_bytes = 4 << 20,
    .sync = true,
};

struct fixture {
    struct fg_store *store; /* under test */
    struct fg_store *inner; /* of faulty */
    struct fg_store_faulty faulty;
    struct fg_store_batch batch;
    struct fg_err err;
    char dir[64];
};

/* --- the stores --- */

static int set_up(void **state, bool durable, bool faulty)
{
    struct fixture *f = fg_new(struct fixture);

    fg_store_batch_init(&f->batch);
    if (durable) {
        (void)snprintf(f->dir, sizeof f->dir, "/tmp/fg_store_XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        assert_int_equal(fg_store_open(f->dir, family_names, FAMILIES, &config, &f->store, &f->err),
                         FG_OK);
    } else {
        f->store = fg_store_memory(FAMILIES);
    }
    if (faulty) {
        f->inner = f->store;
        fg_store_faulty_init(&f->faulty, f->inner);
        f->store = &f->faulty.store;
    }
    *state = f;
    return 0;
}

static int set_up_memory(void **state)
{
    return set_up(state, false, false);
}

static int set_up_rocksdb(void **state)
{
    return set_up(state, true, false);
}

static int set_up_faulty(void **state)
{
    return set_up(state, false, true);
}

static int set_up_sealed(void **state)
{
    static const struct fg_seal_key key = {{1, 2, 3}};
    int rc = set_up(state, true, false);
    struct fixture *f = *state;

    assert_int_equal(fg_store_seal(f->store, &key, true, &f->store, &f->err), FG_OK);
    return rc;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_store_batch_done(&f->batch);
    fg_store_close(f->store);
    fg_store_close(f->inner);
    if (f->dir[0] != '\0')
        (void)remove_tree(f->dir);
    free(f);
    return 0;
}

/* --- words the tests are written in --- */

static void put(struct fixture *f, unsigned family, const char *key, const char *value)
{
    fg_store_put(&f->batch, family, fg_cstr(key), fg_cstr(value));
}

static void commit(struct fixture *f)
{
    assert_int_equal(fg_store_write(f->store, &f->batch, &f->err), FG_OK);
    fg_store_batch_clear(&f->batch);
}

/* value NULL: the key is not there. */
static void expect(struct fixture *f, unsigned family, const char *key, const char *value)
{
    struct fg_buf out;
    bool found = false, contained = false;

    fg_buf_init(&out, 1 << 20);
    assert_int_equal(fg_store_get(f->store, family, fg_cstr(key), &out, &found, &f->err), FG_OK);
    assert_int_equal(fg_store_contains(f->store, family, fg_cstr(key), &contained, &f->err), FG_OK);
    assert_int_equal(found, value != NULL);
    assert_int_equal(contained, value != NULL);
    assert_true(fg_slice_is(fg_buf_slice(&out), value == NULL ? "" : value));
    fg_buf_done(&out);
}

/* What an iterator gives from where it stands, "a=1 b=2". */
static void expect_rest(struct fg_store_iter *iter, const char *wanted)
{
    struct fg_buf out;

    fg_buf_init(&out, 1 << 20);
    for (; iter->valid; fg_store_iter_next(iter))
        fg_buf_printf(&out, "%s%.*s=%.*s", out.len == 0 ? "" : " ", FG_S(iter->key),
                      FG_S(iter->value));
    assert_int_equal(iter->err.code, FG_OK);
    fg_buf_putc(&out, '\0');
    assert_string_equal((char *)out.ptr, wanted);
    fg_buf_done(&out);
}

static void expect_range(struct fixture *f, const char *from, const char *to, const char *wanted)
{
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(f->store, DATA, fg_cstr(from), fg_cstr(to));

    expect_rest(iter, wanted);
}

static void put_letters(struct fixture *f)
{
    put(f, DATA, "d", "4");
    put(f, DATA, "a", "1");
    put(f, DATA, "c", "3");
    put(f, DATA, "b", "2");
    commit(f);
}

/* --- the suite --- */

static void gets_what_was_put(void **state)
{
    struct fixture *f = *state;

    expect(f, DATA, "a", NULL);
    put(f, DATA, "a", "1");
    expect(f, DATA, "a", NULL); /* not before the write */
    commit(f);
    expect(f, DATA, "a", "1");
    put(f, DATA, "a", "2");
    put(f, DATA, "", "empty key");
    put(f, DATA, "none", "");
    commit(f);
    expect(f, DATA, "a", "2");
    expect(f, DATA, "", "empty key");
    expect(f, DATA, "none", "");
}

static void keeps_families_apart(void **state)
{
    struct fixture *f = *state;

    put(f, DATA, "a", "data");
    put(f, INDEX, "a", "index");
    put(f, INDEX, "b", "index");
    commit(f);
    expect(f, DATA, "a", "data");
    expect(f, INDEX, "a", "index");
    expect(f, DATA, "b", NULL);
    fg_store_delete(&f->batch, INDEX, fg_cstr("a"));
    commit(f);
    expect(f, DATA, "a", "data");
    expect(f, INDEX, "a", NULL);
}

static void applies_a_batch_in_order(void **state)
{
    struct fixture *f = *state;

    put(f, DATA, "a", "1");
    fg_store_delete(&f->batch, DATA, fg_cstr("a"));
    fg_store_delete(&f->batch, DATA, fg_cstr("b"));
    put(f, DATA, "b", "1");
    put(f, DATA, "b", "2");
    assert_int_equal(f->batch.count, 5);
    commit(f);
    assert_int_equal(f->batch.count, 0);
    expect(f, DATA, "a", NULL);
    expect(f, DATA, "b", "2");
    commit(f); /* empty */
}

static void deletes_ranges(void **state)
{
    struct fixture *f = *state;

    put_letters(f);
    fg_store_delete_range(&f->batch, DATA, fg_cstr("b"), fg_cstr("d"));
    put(f, DATA, "bb", "after");
    commit(f);
    expect_range(f, "", "", "a=1 bb=after d=4");
    fg_store_delete_range(&f->batch, DATA, fg_cstr("d"), fg_cstr("a")); /* turned round: nothing */
    fg_store_delete_range(&f->batch, DATA, fg_cstr("d"), fg_cstr("d"));
    commit(f);
    expect_range(f, "", "", "a=1 bb=after d=4");
    expect(f, DATA, "b", NULL);
}

static void iterates_within_bounds(void **state)
{
    struct fixture *f = *state;

    expect_range(f, "", "", "");
    put_letters(f);
    put(f, INDEX, "aa", "other family");
    commit(f);
    expect_range(f, "", "", "a=1 b=2 c=3 d=4");
    expect_range(f, "b", "", "b=2 c=3 d=4");
    expect_range(f, "b", "d", "b=2 c=3");
    expect_range(f, "aa", "bb", "b=2");
    expect_range(f, "e", "", "");
    expect_range(f, "c", "b", "");
}

static void seeks(void **state)
{
    struct fixture *f = *state;

    put_letters(f);
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(f->store, DATA, FG_LIT("b"), FG_LIT("d"));

    fg_store_iter_seek(iter, FG_LIT("bb"));
    expect_rest(iter, "c=3");
    fg_store_iter_seek(iter, FG_LIT("d")); /* behind the end */
    assert_false(iter->valid);
    fg_store_iter_seek(iter, FG_LIT("a")); /* before the start: the first of the range */
    expect_rest(iter, "b=2 c=3");
    fg_store_iter_seek(iter, FG_LIT("c")); /* an iterator at its end can go back */
    expect_rest(iter, "c=3");
}

static void sorts_bytes_unsigned(void **state)
{
    struct fixture *f = *state;
    const uint8_t high[] = {0xff}, low[] = {0x00, 0x01}, lowest[] = {0x00};

    fg_store_put(&f->batch, DATA, fg_bytes(high, 1), FG_LIT("3"));
    fg_store_put(&f->batch, DATA, fg_bytes(low, 2), FG_LIT("2"));
    fg_store_put(&f->batch, DATA, fg_bytes(lowest, 1), FG_LIT("1"));
    commit(f);
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(f->store, DATA, FG_LIT(""), FG_LIT(""));
    assert_true(fg_slice_eq(iter->key, fg_bytes(lowest, 1)));
    fg_store_iter_next(iter);
    assert_true(fg_slice_eq(iter->key, fg_bytes(low, 2)));
    fg_store_iter_next(iter);
    assert_true(fg_slice_eq(iter->key, fg_bytes(high, 1)));
}

static void iterator_sees_a_snapshot(void **state)
{
    struct fixture *f = *state;

    put_letters(f);
    fg_auto(fg_store_iter) *before = fg_store_iter_create(f->store, DATA, FG_LIT(""), FG_LIT(""));
    fg_store_delete(&f->batch, DATA, fg_cstr("b"));
    put(f, DATA, "c", "new");
    put(f, DATA, "cc", "new");
    commit(f);
    fg_store_delete_range(&f->batch, DATA, fg_cstr("d"), fg_cstr("z"));
    commit(f);
    fg_store_iter_seek(before, FG_LIT(""));
    expect_rest(before, "a=1 b=2 c=3 d=4");
    expect_range(f, "", "", "a=1 c=new cc=new");
}

static void holds_many_keys(void **state)
{
    struct fixture *f = *state;
    uint64_t seen = 0;
    char key[32];

    for (unsigned i = 0; i < 20000; i++) {
        /* 7919 is prime to 20000, so every key comes once, out of order. */
        (void)snprintf(key, sizeof key, "%08u", i * 7919 % 20000);
        put(f, DATA, key, "a value with some length to it, so that buffers fill");
        if (i % 500 == 499)
            commit(f);
    }
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(f->store, DATA, FG_LIT(""), FG_LIT(""));
    for (; iter->valid; fg_store_iter_next(iter)) {
        (void)snprintf(key, sizeof key, "%08llu", (unsigned long long)seen++);
        assert_true(fg_slice_is(iter->key, key));
    }
    assert_int_equal(iter->err.code, FG_OK);
    assert_int_equal(seen, 20000);
    assert_true(fg_store_memory_bytes(f->store) > 0);
}

static void says_that_a_value_is_too_long(void **state)
{
    struct fixture *f = *state;
    struct fg_buf small;
    bool found = false;

    fg_buf_init(&small, 4);
    put(f, DATA, "a", "longer");
    commit(f);
    assert_int_equal(fg_store_get(f->store, DATA, fg_cstr("a"), &small, &found, &f->err),
                     FG_E_LIMIT);
    fg_buf_done(&small);
}

static void refuses_a_batch_cut_short(void **state)
{
    struct fixture *f = *state;

    put(f, DATA, "a", "1");
    f->batch.ops.full = true; /* as a quarter of a gigabyte would */
    assert_int_equal(fg_store_write(f->store, &f->batch, &f->err), FG_E_LIMIT);
    fg_store_batch_clear(&f->batch);
    expect(f, DATA, "a", NULL);
    put_letters(f);
}

/* --- the faults --- */

static void fails_the_chosen_write(void **state)
{
    struct fixture *f = *state;

    f->faulty.fail_at = 2;
    put_letters(f);
    put(f, DATA, "e", "5");
    assert_int_equal(fg_store_write(f->store, &f->batch, &f->err), FG_E_UNAVAILABLE);
    expect(f, DATA, "e", NULL);
    commit(f); /* the same again */
    expect(f, DATA, "e", "5");
}

static void fails_late(void **state)
{
    struct fixture *f = *state;

    f->faulty.fail_at = 1;
    f->faulty.fail_late = true;
    put(f, DATA, "e", "5");
    assert_int_equal(fg_store_write(f->store, &f->batch, &f->err), FG_E_UNAVAILABLE);
    expect(f, DATA, "e", "5");
}

static void fails_reads(void **state)
{
    struct fixture *f = *state;
    bool found = false;
    struct fg_buf out;

    put_letters(f);
    f->faulty.fail_reads = true;
    fg_buf_init(&out, 16);
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(f->store, DATA, FG_LIT(""), FG_LIT(""));
    assert_false(iter->valid);
    assert_int_equal(iter->err.code, FG_E_UNAVAILABLE);
    assert_int_equal(fg_store_contains(f->store, DATA, fg_cstr("a"), &found, &f->err),
                     FG_E_UNAVAILABLE);
    assert_int_equal(fg_store_get(f->store, DATA, fg_cstr("a"), &out, &found, &f->err),
                     FG_E_UNAVAILABLE);
    fg_buf_done(&out);
}

#define TEST(test, kind)                                                                           \
    {                                                                                              \
#test " (" #kind ")", test, set_up_##kind, tear_down, NULL                                 \
    }
#define SUITE(kind)                                                                                \
    TEST(gets_what_was_put, kind), TEST(keeps_families_apart, kind),                               \
        TEST(applies_a_batch_in_order, kind), TEST(deletes_ranges, kind),                          \
        TEST(iterates_within_bounds, kind), TEST(seeks, kind), TEST(sorts_bytes_unsigned, kind),   \
        TEST(iterator_sees_a_snapshot, kind), TEST(holds_many_keys, kind),                         \
        TEST(says_that_a_value_is_too_long, kind), TEST(refuses_a_batch_cut_short, kind)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SUITE(memory),
        SUITE(rocksdb),
        SUITE(faulty),
        SUITE(sealed),
        TEST(fails_the_chosen_write, faulty),
        TEST(fails_late, faulty),
        TEST(fails_reads, faulty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
