/* Limits of an upload, and what a hostile one is stopped by. */
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/pprof/decoded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void deep_stacks_keep_their_root(void **state)
{
    struct fg_pprof_request request = decode_plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "leaf");
    make_frame(&make, 2, "mid");
    make_frame(&make, 3, "root");
    make_sample_of(&make, (uint64_t[]){1, 2, 3}, 3, 1, NULL, 0);
    make_sample_of(&make, (uint64_t[]){2, 3}, 2, 2, NULL, 0);
    request.upload.limits.stack_depth_max = 2;
    decode_by(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.counts.stacks_cut, 1);
    decoded_expect_folded(&decoded, 0, 0, "root;mid 3\n");
    decoded_done(&decoded);
    make_done(&make);
}

static void long_symbols_keep_their_end(void **state)
{
    struct fg_pprof_request request = decode_plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "s", "c");
    make_frame(&make, 1, "package.function");
    make_frame(&make, 2,
               "aa\xc3\xa9"
               "bcdefg"); /* the eighth byte from the end is inside the é */
    make_sample_of(&make, (uint64_t[]){1, 2}, 2, 1, NULL, 0);
    request.upload.limits.symbol_max_bytes = 7;
    decode_by(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.counts.symbols_cut, 2);
    decoded_expect_folded(&decoded, 0, 0, "bcdefg;unction 1\n");
    decoded_done(&decoded);
    make_done(&make);
}

static void limits_refuse(void **state)
{
    const struct make_label two[] = {{"a", "1", 0}, {"b", "2", 0}};
    struct fg_pprof_request request = decode_plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, two, 2);
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    request.upload.limits.samples_max = 1;
    decode_expect_error(
        make_finish(&make), &request, FG_E_INVALID,
        "exceeds the samples count limit (max_profile_stacktrace_samples, actual: 2, "
        "limit: 1)");
    request.upload.limits.samples_max = 2;
    request.upload.limits.sample_labels_max = 1;
    decode_expect_error(make_finish(&make), &request, FG_E_INVALID,
                        "exceeds the sample labels limit");
    request.upload.limits.sample_labels_max = 2;
    request.upload.limits.label_names_max = 3;
    decode_expect_error(make_finish(&make), &request, FG_E_INVALID,
                        "profile series has 4 label names; limit 3 (max_label_names_per_series)");
    request.upload.limits.label_names_max = 4;
    decode_by(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    decoded_done(&decoded);
    make_done(&make);
}

/* n lines of one function in one location. */
static void make_lines(struct make *make, uint64_t id, size_t n)
{
    struct make_line *lines = fg_calloc(n, sizeof *lines);

    for (size_t i = 0; i < n; i++)
        lines[i] = (struct make_line){1, (int64_t)i};
    make_location(make, id, 0, 0, lines, n);
    free(lines);
}

static void lines_of_a_location_are_bounded(void **state)
{
    static const struct {
        size_t lines;
        bool fine;
    } cases[] = {{1024, true}, {1025, false}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_pprof_request request = decode_plain_request();
        struct make make;
        struct decoded decoded;

        make_start(&make);
        make_type(&make, "samples", "count");
        make_function(&make, 1, "a", "", "", 0);
        make_lines(&make, 1, cases[i].lines);
        make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
        if (cases[i].fine) {
            decode(&decoded, make_finish(&make));
            assert_int_equal(decoded.batch.n_lines, cases[i].lines);
            decoded_done(&decoded);
        } else {
            decode_expect_error(make_finish(&make), &request, FG_E_INVALID, "1025 lines");
        }
        make_done(&make);
    }
}

/*
 * One long string named by very many functions or labels: what is done for each has to be bounded
 * though the upload is small.
 */
static void a_long_string_cannot_be_named_without_end(void **state)
{
    struct fg_pprof_request request = decode_plain_request();
    struct fg_buf long_text;
    struct make make;

    (void)state;
    fg_buf_init(&long_text, SIZE_MAX);
    for (size_t i = 0; i < 60000; i++)
        fg_buf_putc(&long_text, 'x');
    make_start(&make);
    make_type(&make, "samples", "count");
    make_strings(&make);
    make_bytes(&make.out, 6, fg_buf_slice(&long_text)); /* string 3 */
    for (uint64_t i = 1; i <= 5000; i++) {
        struct fg_buf message;

        fg_buf_init(&message, SIZE_MAX);
        make_int(&message, 1, i);
        make_int(&message, 2, 3);
        make_int(&message, 3, 3);
        make_bytes(&make.out, 5, fg_buf_slice(&message));
        fg_buf_done(&message);
    }
    decode_expect_error(fg_buf_slice(&make.out), &request, FG_E_TOO_LARGE, "names of functions");
    make_done(&make);

    make_start(&make);
    make_type(&make, "samples", "count");
    make_strings(&make);
    make_bytes(&make.out, 6, FG_LIT("key"));            /* string 3 */
    make_bytes(&make.out, 6, fg_buf_slice(&long_text)); /* string 4 */
    make_bytes(&make.out, 2, FG_LIT("\x12\x01\x01\x1a\x04\x08\x03\x10\x04"));
    decode_expect_error(fg_buf_slice(&make.out), &request, FG_E_INVALID, "label value too long");
    make_done(&make);
    fg_buf_done(&long_text);
}

static void memory_is_bounded(void **state)
{
    struct fg_pprof_request request = decode_plain_request();
    struct fg_arena *arena = fg_arena_create(100000);
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_batch batch;
    struct fg_err err;
    struct make make;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    for (int i = 0; i < 100000; i++)
        make_bytes(&make.out, 2, FG_LIT(""));
    assert_int_equal(
        fg_pprof_decode(make_finish(&make), &request, arena, &batch, &info, &counts, &err),
        FG_E_TOO_LARGE);
    assert_true(fg_arena_used_bytes(arena) <= 100000);
    fg_arena_destroy(arena);
    make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_stacks_keep_their_root),
        cmocka_unit_test(long_symbols_keep_their_end),
        cmocka_unit_test(limits_refuse),
        cmocka_unit_test(lines_of_a_location_are_bounded),
        cmocka_unit_test(a_long_string_cannot_be_named_without_end),
        cmocka_unit_test(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
