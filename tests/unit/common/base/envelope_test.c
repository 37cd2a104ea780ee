#include "common/base/crc32c.h"
#include "common/base/envelope.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct fg_envelope envelope = {"thing", "FGXX", 3, 32};

static void seal(struct fg_buf *out, const char *fields)
{
    struct fg_err err;

    fg_envelope_begin(&envelope, out);
    fg_buf_puts(out, fields);
    assert_int_equal(fg_envelope_end(&envelope, out, 0, &err), FG_OK);
}

static void objects_are_read_back(void **state)
{
    static const uint8_t want[] = {'F', 'G', 'X', 'X', 3, 'a', 'b'};
    struct fg_buf bytes;
    struct fg_cur cur;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, 100);
    seal(&bytes, "ab");
    assert_int_equal(bytes.len, sizeof want + 4);
    assert_memory_equal(bytes.ptr, want, sizeof want);
    assert_int_equal(fg_envelope_open(&envelope, fg_buf_slice(&bytes), &cur, &err), FG_OK);
    assert_true(fg_slice_is(fg_cur_take(&cur, cur.left), "ab"));
    fg_buf_done(&bytes);
}

static void damaged_objects_are_refused(void **state)
{
    static const struct fg_envelope other = {"other", "FGYY", 3, 32};
    struct fg_buf bytes;
    struct fg_cur cur;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, 100);
    seal(&bytes, "ab");
    assert_int_equal(fg_envelope_open(&other, fg_buf_slice(&bytes), &cur, &err), FG_E_CORRUPT);
    assert_string_equal(err.msg, "bad magic number in other: 11 bytes that do not begin with FGYY");
    for (size_t i = 0; i < bytes.len; i++) {
        assert_int_equal(
            fg_envelope_open(&envelope, fg_slice_sub(fg_buf_slice(&bytes), 0, i), &cur, &err),
            FG_E_CORRUPT);
        bytes.ptr[i] ^= 1;
        assert_int_equal(fg_envelope_open(&envelope, fg_buf_slice(&bytes), &cur, &err),
                         FG_E_CORRUPT);
        bytes.ptr[i] ^= 1;
    }
    bytes.ptr[4] = 4; /* a newer version, and whole */
    bytes.len -= 4;
    fg_buf_le32(&bytes, fg_crc32c(fg_buf_slice(&bytes)));
    assert_int_equal(fg_envelope_open(&envelope, fg_buf_slice(&bytes), &cur, &err),
                     FG_E_UNIMPLEMENTED);
    fg_buf_done(&bytes);
}

static void objects_beyond_the_limit_are_refused(void **state)
{
    struct fg_buf bytes;
    struct fg_cur cur;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, 100);
    seal(&bytes, "12345678901234567890123"); /* 32 bytes with the rest */
    assert_int_equal(fg_envelope_open(&envelope, fg_buf_slice(&bytes), &cur, &err), FG_OK);
    fg_buf_putc(&bytes, 0);
    assert_int_equal(fg_envelope_open(&envelope, fg_buf_slice(&bytes), &cur, &err), FG_E_TOO_LARGE);
    fg_buf_clear(&bytes);
    fg_envelope_begin(&envelope, &bytes);
    fg_buf_puts(&bytes, "123456789012345678901234");
    assert_int_equal(fg_envelope_end(&envelope, &bytes, 0, &err), FG_E_LIMIT);
    fg_buf_done(&bytes);
}

static void lists_are_bounded_by_the_input(void **state)
{
    static const uint8_t three[] = {3, 'a', 'b', 'c', 'd'};
    struct fg_arena *arena = fg_arena_create(4096);
    struct fg_cur cur = fg_cur(fg_bytes(three, sizeof three));
    uint32_t n;

    (void)state;
    assert_non_null(fg_envelope_list(&cur, arena, 1, 3, sizeof(uint64_t), &n));
    assert_int_equal(n, 3);
    assert_true(fg_slice_is(fg_envelope_later(&cur, arena), "abcd"));
    assert_null(fg_envelope_later(&cur, arena).ptr);
    assert_false(cur.bad);

    cur = fg_cur(fg_bytes(three, sizeof three)); /* more than may be */
    assert_null(fg_envelope_list(&cur, arena, 1, 2, 1, &n));
    assert_true(cur.bad && n == 0);
    cur = fg_cur(fg_bytes(three, sizeof three)); /* more than is there */
    assert_null(fg_envelope_list(&cur, arena, 2, 3, 1, &n));
    assert_true(cur.bad && n == 0);
    cur = fg_cur(fg_bytes(three, sizeof three)); /* more than the arena has */
    assert_null(fg_envelope_list(&cur, arena, 1, 3, 4000, &n));
    assert_true(cur.bad && n == 0);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_read_back),
        cmocka_unit_test(damaged_objects_are_refused),
        cmocka_unit_test(objects_beyond_the_limit_are_refused),
        cmocka_unit_test(lists_are_bounded_by_the_input),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
