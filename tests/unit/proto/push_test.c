#include "proto/push.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_BYTES = 1024 * 1024 };

/* A field of bytes; nested by hand. */
static void put(struct fg_buf *out, unsigned field, struct fg_slice bytes)
{
    fg_buf_varint(out, (uint64_t)field << 3 | 2);
    fg_buf_lenbytes(out, bytes);
}

static void put_label(struct fg_buf *series, const char *name, const char *value)
{
    struct fg_buf label;

    fg_buf_init(&label, SIZE_MAX);
    put(&label, 1, fg_cstr(name));
    put(&label, 2, fg_cstr(value));
    put(series, 1, fg_buf_slice(&label));
    fg_buf_done(&label);
}

static void put_sample(struct fg_buf *series, const char *profile)
{
    struct fg_buf sample;

    fg_buf_init(&sample, SIZE_MAX);
    put(&sample, 1, fg_cstr(profile));
    put(&sample, 2, FG_LIT("a UUID"));
    put(series, 2, fg_buf_slice(&sample));
    fg_buf_done(&sample);
}

/* Two series: labels after the samples, and something of tomorrow; one without anything. */
static void make_request(struct fg_buf *out)
{
    struct fg_buf series;

    fg_buf_init(&series, SIZE_MAX);
    put_sample(&series, "first");
    put_label(&series, "__name__", "process_cpu");
    put(&series, 3, FG_LIT("an annotation"));
    put_sample(&series, "second");
    put_label(&series, "k", "");
    put(out, 1, fg_buf_slice(&series));
    put(out, 9, FG_LIT("unknown"));
    put(out, 1, FG_LIT(""));
    fg_buf_done(&series);
}

static void reads_series(void **state)
{
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct fg_buf bytes;
    struct fg_push push;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    make_request(&bytes);
    assert_int_equal(fg_push_read(fg_buf_slice(&bytes), arena, &push, &err), FG_OK);
    assert_int_equal(push.n_series, 2);
    assert_int_equal(push.n_profiles, 2);
    assert_int_equal(push.series[0].labels.count, 2);
    assert_true(fg_slice_is(push.series[0].labels.items[0].value, "process_cpu"));
    assert_int_equal(push.series[0].n_profiles, 2);
    assert_true(fg_slice_is(push.series[0].profiles[1], "second"));
    assert_int_equal(push.series[1].n_profiles, 0);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* A message may end between two fields of its own and nowhere else. */
static void refuses_what_is_cut_short(void **state)
{
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct fg_buf bytes;
    struct fg_push push;
    struct fg_err err;
    size_t accepted = 0;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    make_request(&bytes);
    for (size_t len = 0; len <= bytes.len; len++) {
        enum fg_code code =
            fg_push_read(fg_slice_sub(fg_buf_slice(&bytes), 0, len), arena, &push, &err);

        assert_true(code == FG_OK || code == FG_E_INVALID);
        accepted += code == FG_OK;
    }
    assert_int_equal(accepted, 4); /* nothing; and after each of the three fields */
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

static void chunked_replies_stay_within_their_memory(void **state)
{
    struct fg_arena *arena = fg_arena_create(4096);
    struct fg_buf bytes;
    struct fg_push push;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    for (int i = 0; i < 1000; i++)
        put(&bytes, 1, FG_LIT(""));
    assert_int_equal(fg_push_read(fg_buf_slice(&bytes), arena, &push, &err), FG_E_TOO_LARGE);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_series),
        cmocka_unit_test(refuses_what_is_cut_short),
        cmocka_unit_test(chunked_replies_stay_within_their_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
