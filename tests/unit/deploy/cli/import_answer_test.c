/* What a Pyroscope answers to an import, as it should be and otherwise. */
#include "common/base/time.h"
#include "deploy/cli/import_answer.h"
#include "proto/pprof/pprof.h"
#include "tests/lib/pprof_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

enum { ARENA_BYTES = 1 << 20 };

/* Fields of types.v1 and querier.v1. */
enum { RESPONSE_SERIES = 1, SERIES_POINT = 2, POINT_VALUE = 1, POINT_TIME = 2 };

static struct fg_label label(const char *name, const char *value)
{
    return (struct fg_label){fg_cstr(name), fg_cstr(value)};
}

/* A profile as merges have it: one type, and the end of the range as its time. */
static void make_merge(struct make *make)
{
    static const uint64_t stack[] = {2, 1}, other[] = {1};

    make_start(make);
    make_type(make, "cpu", "nanoseconds");
    make_sample_of(make, stack, 2, 30, NULL, 0);
    make_sample_of(make, other, 1, 12, NULL, 0);
    make_frame(make, 1, "main");
    make_frame(make, 2, "work");
    make_period(make, "cpu", "nanoseconds", 1000000000);
    make_time(make, 99 * FG_SECOND_NS, 5 * FG_SECOND_NS);
}

static enum fg_code read(struct fg_slice in, const char *type, double *ret_sum)
{
    struct fg_label labels[] = {label("__name__", "process_cpu"), label("service_name", "shop")};
    const struct cli_import_series series = {.type = fg_cstr(type), .pushed = {labels, 2}};
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct fg_err err;
    enum fg_code code = cli_import_read_profile(in, &series, arena, ret_sum, &err);

    fg_arena_destroy(arena);
    return code;
}

static void a_profile_is_summed(void **state)
{
    struct make make;
    double sum = -1;

    (void)state;
    make_merge(&make);
    assert_int_equal(read(make_finish(&make), CPU, &sum), FG_OK);
    assert_true(sum == 42);
    assert_int_equal(read(FG_LIT(""), CPU, &sum), FG_OK);
    assert_true(sum == 0); /* nothing is in the range */
    make_done(&make);
}

static void another_type_is_refused(void **state)
{
    struct make make;
    double sum;

    (void)state;
    make_merge(&make);
    make_type(&make, "samples", "count"); /* a second one: the source had to choose */
    assert_int_equal(read(make_finish(&make), CPU, &sum), FG_E_DECODE);
    make_done(&make);
    make_merge(&make);
    assert_int_equal(read(make_finish(&make), "process_cpu:cpu:microseconds:cpu:nanoseconds", &sum),
                     FG_E_DECODE);
    make_done(&make);
}

/* A connection that ends early, of a server that does not say how long its answer is. */
static void a_profile_that_is_cut_has_another_sum_or_is_refused(void **state)
{
    struct fg_slice whole;
    struct make make;

    (void)state;
    make_merge(&make);
    whole = make_finish(&make);
    for (size_t len = 1; len < whole.len; len++) {
        double sum = 0;

        if (read(fg_slice_sub(whole, 0, len), CPU, &sum) == FG_OK)
            assert_true(sum != 42);
    }
    make_done(&make);
}

static void a_profile_gets_its_time_and_keeps_the_rest(void **state)
{
    struct fg_label labels[] = {label("__name__", "process_cpu"), label("service_name", "shop")};
    const struct fg_pprof_request request = {.upload = {.labels = {labels, 2}},
                                             .quirks = FG_PPROF_NOT_GO};
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_batch batch;
    struct fg_buf out;
    struct make make;
    struct fg_err err;

    (void)state;
    fg_buf_init(&out, SIZE_MAX);
    make_merge(&make);
    cli_import_write_profile(make_finish(&make), 1234567890123, &out);
    assert_int_equal(
        fg_pprof_decode(fg_buf_slice(&out), &request, arena, &batch, &info, &counts, &err), FG_OK);
    assert_int_equal(batch.n_profiles, 1);
    assert_int_equal(batch.profiles[0].time_ns, 1234567890123 * FG_MS_NS);
    assert_int_equal(batch.profiles[0].duration_ns, 0);
    assert_int_equal(batch.profiles[0].n_samples, 2);
    assert_int_equal(batch.n_functions, 2);
    assert_true(fg_slice_is(batch.types[0].type, "cpu"));
    make_done(&make);
    fg_buf_done(&out);
    fg_arena_destroy(arena);
}

static void put_point(struct fg_buf *out, double value, int64_t ms)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    fg_buf_varint(out, FG_PB_TAG(POINT_VALUE, FG_PB_I64));
    for (unsigned i = 0; i < 8; i++)
        fg_buf_putc(out, (uint8_t)(bits >> 8 * i));
    make_int(out, POINT_TIME, (uint64_t)ms);
}

static void points_are_of_one_series(void **state)
{
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct fg_buf point, series, all;
    struct cli_import_point *points;
    struct fg_err err;
    size_t n;

    (void)state;
    fg_buf_init(&point, SIZE_MAX);
    fg_buf_init(&series, SIZE_MAX);
    fg_buf_init(&all, SIZE_MAX);
    assert_int_equal(cli_import_read_points(FG_LIT(""), arena, &points, &n, &err), FG_OK);
    assert_int_equal(n, 0);
    put_point(&point, 42, 1000);
    make_message(&series, SERIES_POINT, &point);
    put_point(&point, 0.5, 1001);
    make_message(&series, SERIES_POINT, &point);
    make_message(&all, RESPONSE_SERIES, &series);
    assert_int_equal(cli_import_read_points(fg_buf_slice(&all), arena, &points, &n, &err), FG_OK);
    assert_int_equal(n, 2);
    assert_true(points[0].value == 42 && points[0].ms == 1000);
    assert_true(points[1].value == 0.5 && points[1].ms == 1001);
    make_message(&all, RESPONSE_SERIES, &series);
    assert_int_equal(cli_import_read_points(fg_buf_slice(&all), arena, &points, &n, &err),
                     FG_E_DECODE);
    fg_buf_done(&point);
    fg_buf_done(&series);
    fg_buf_done(&all);
    fg_arena_destroy(arena);
}

static void other_bytes_are_refused(void **state)
{
    static const char page[] = "<html><body>502 Bad Gateway</body></html>";
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct cli_import_point *points;
    struct fg_labels *sets;
    int64_t oldest_ms;
    struct fg_err err;
    double sum;
    size_t n;

    (void)state;
    assert_int_equal(cli_import_read_series(fg_cstr(page), arena, &sets, &n, &err), FG_E_DECODE);
    assert_int_equal(cli_import_read_points(fg_cstr(page), arena, &points, &n, &err), FG_E_DECODE);
    assert_int_equal(cli_import_read_oldest(fg_cstr(page), arena, &oldest_ms, &err), FG_E_DECODE);
    assert_int_equal(read(fg_cstr(page), CPU, &sum), FG_E_DECODE);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_is_summed),
        cmocka_unit_test(another_type_is_refused),
        cmocka_unit_test(a_profile_that_is_cut_has_another_sum_or_is_refused),
        cmocka_unit_test(a_profile_gets_its_time_and_keeps_the_rest),
        cmocka_unit_test(points_are_of_one_series),
        cmocka_unit_test(other_bytes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
