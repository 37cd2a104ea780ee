/* Reports are read with the decoders of a distributor. */
#include "common/self_profile/report.h"
#include "proto/pprof/pprof.h"
#include "proto/push.h"
#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARENA_BYTES = 16 * 1024 * 1024 };

static const struct fg_report_head cpu = {
    .name = "process_cpu",
    .types = {{"samples", "count"}, {"cpu", "nanoseconds"}},
    .n_types = 2,
    .period_type = {"cpu", "nanoseconds"},
    .period = 10000000,
    .time_ns = 1700000000000000000,
    .duration_ns = 10000000000,
};

static void name(void *arg, uint64_t function, struct fg_buf *out)
{
    (void)arg;
    fg_buf_printf(out, "f%llu", (unsigned long long)function);
}

/* Writes the report as a PushRequest and returns the description of its only profile. */
static void describe(const struct fg_report *report, struct fg_buf *out)
{
    const struct fg_report_label labels[] = {{"service_name", "flamegrid"}, {"instance", "a_1"}};
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct fg_pprof_request request = {.upload = {.limits = FG_DECODE_LIMITS_DEFAULT}};
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_buf profile, message;
    struct fg_batch batch;
    struct fg_push push;
    struct fg_err err;

    fg_buf_init(&profile, FG_REPORT_MAX_BYTES);
    fg_buf_init(&message, FG_REPORT_MAX_BYTES);
    fg_report_write(report, name, NULL, &profile);
    fg_report_write_series(report, labels, FG_COUNT(labels), fg_buf_slice(&profile), &message);
    assert_int_equal(fg_push_read(fg_buf_slice(&message), arena, &push, &err), FG_OK);
    assert_int_equal(push.n_series, 1);
    assert_int_equal(push.n_profiles, 1);
    request.upload.labels = push.series[0].labels;
    fg_labels_sort(&request.upload.labels);
    assert_int_equal(
        fg_pprof_decode(push.series[0].profiles[0], &request, arena, &batch, &info, &counts, &err),
        FG_OK);
    assert_true(info.has_time);
    assert_int_equal(info.period, report->head.period);
    batch_describe(&batch, out);
    fg_buf_done(&message);
    fg_buf_done(&profile);
    fg_arena_destroy(arena);
}

static void assert_described(const struct fg_report *report, const char *want)
{
    struct fg_buf text;

    fg_buf_init(&text, 100000);
    describe(report, &text);
    fg_buf_putc(&text, '\0');
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
}

static void a_report_is_what_agents_send(void **state)
{
    struct fg_report report;

    (void)state;
    fg_report_init(&report, &cpu);
    assert_true(fg_report_add(&report, (uint64_t[]){3, 2, 1}, 3, (int64_t[]){2, 20}, "front"));
    assert_true(fg_report_add(&report, (uint64_t[]){2, 1}, 2, (int64_t[]){1, 10}, "front"));
    assert_true(fg_report_add(&report, (uint64_t[]){1ULL << 40}, 1, (int64_t[]){5, 50}, "http"));
    /* Equal functions at other addresses are the same stack. */
    assert_true(fg_report_add(&report, (uint64_t[]){3, 2, 1}, 3, (int64_t[]){1, 10}, "front"));
    assert_described(
        &report,
        "{__name__=\"process_cpu\", instance=\"a_1\", service_name=\"flamegrid\", "
        "thread=\"front\"} at 1700000000000000000 for 10000000000 period cpu/nanoseconds 10000000\n"
        "samples/count\nf1;f2 1\nf1;f2;f3 3\ncpu/nanoseconds\nf1;f2 10\nf1;f2;f3 30\n"
        "{__name__=\"process_cpu\", instance=\"a_1\", service_name=\"flamegrid\", "
        "thread=\"http\"} at 1700000000000000000 for 10000000000 period cpu/nanoseconds 10000000\n"
        "samples/count\nf1099511627776 5\ncpu/nanoseconds\nf1099511627776 50\n");
    fg_report_done(&report);
}

static void samples_without_a_thread_have_no_label(void **state)
{
    struct fg_report report;

    (void)state;
    fg_report_init(&report, &cpu);
    assert_true(fg_report_add(&report, (uint64_t[]){1}, 1, (int64_t[]){2, 20}, NULL));
    assert_described(&report,
                     "{__name__=\"process_cpu\", instance=\"a_1\", service_name=\"flamegrid\"} at "
                     "1700000000000000000 for 10000000000 period cpu/nanoseconds 10000000\n"
                     "samples/count\nf1 2\ncpu/nanoseconds\nf1 20\n");
    fg_report_done(&report);
}

static void a_full_report_leaves_samples_out(void **state)
{
    struct fg_report report;
    uint64_t functions[64];
    uint32_t added = 0;

    (void)state;
    for (unsigned i = 0; i < FG_COUNT(functions); i++)
        functions[i] = i;
    fg_report_init(&report, &cpu);
    while (fg_report_add(&report, functions, FG_COUNT(functions), (int64_t[]){1, 1}, NULL))
        added++;
    assert_int_equal(report.n_samples, added);
    assert_in_range(report.samples.len, 1, FG_REPORT_MAX_BYTES);
    fg_report_done(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_what_agents_send),
        cmocka_unit_test(samples_without_a_thread_have_no_label),
        cmocka_unit_test(a_full_report_leaves_samples_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
