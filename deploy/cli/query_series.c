#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/labels.h"
#include "common/model/value_text.h"
#include "deploy/cli/query.h"
#include "deploy/cli/times.h"

enum {
    POINTS = 60,     /* lines of about one screen */
    STEP_MIN_S = 15, /* agents send every 10 s or so: finer steps would have gaps */
    OUTPUT_MAX_BYTES = 256 * 1024 * 1024,
    RATE_DIGITS = 3,
};

/* Returns a step that people read easily. */
static uint64_t friendly_step_s(const struct cli_selection_range *range)
{
    static const uint64_t steps_s[] = {STEP_MIN_S, 30, 60, 300, 600, 1800, 3600, 10800, 21600};
    uint64_t exact_s = (uint64_t)(range->end_ms - range->start_ms) / 1000 / POINTS;

    for (size_t i = 0; i < FG_COUNT(steps_s); i++)
        if (exact_s <= steps_s[i])
            return steps_s[i];
    /* Whole days from here on. */
    return (exact_s / 86400 + 1) * 86400;
}

struct shown_points {
    Types__V1__Point **items;
    size_t n;
    uint64_t step_s;
    struct fg_slice unit;
    const char *rate_unit; /* empty: there are no rates, or the server does not know them */
    double covered_s;      /* of these points */
};

/* Writes when the step of a point begins. */
static void write_start(const struct shown_points *points, size_t i, char time[CLI_TIME_TEXT_BYTES])
{
    cli_time_write(points->items[i]->timestamp * FG_MS_NS - (int64_t)points->step_s * FG_SECOND_NS,
                   time);
}

/* {"step":60,"unit":"bytes","rate_unit":"bytes per second","covered":60,
 * "points":[{"start":"2026-01-31T09:59:00Z","time":"2026-01-31T10:00:00Z","value":3000,
 * "covered":60,"rate":50}]}. A point is of the time after `start` up to `time`, as in
 * SelectSeries. */
static void write_json(const struct shown_points *points, struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);
    char time[CLI_TIME_TEXT_BYTES];

    fg_json_begin_object(&json, NULL);
    fg_json_put_u64(&json, "step", points->step_s);
    fg_json_put_text(&json, "unit", points->unit);
    if (points->rate_unit[0] != '\0')
        fg_json_put_cstr(&json, "rate_unit", points->rate_unit);
    fg_json_put_fixed(&json, "covered", points->covered_s, RATE_DIGITS);
    fg_json_begin_array(&json, "points");
    for (size_t i = 0; i < points->n; i++) {
        fg_json_begin_object(&json, NULL);
        write_start(points, i, time);
        fg_json_put_cstr(&json, "start", time);
        cli_time_write(points->items[i]->timestamp * FG_MS_NS, time);
        fg_json_put_cstr(&json, "time", time);
        fg_json_put_fixed(&json, "value", points->items[i]->value, 0);
        fg_json_put_fixed(&json, "covered", points->items[i]->covered, RATE_DIGITS);
        if (points->rate_unit[0] != '\0')
            fg_json_put_fixed(&json, "rate", points->items[i]->rate, RATE_DIGITS);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
}

static void write_value(double value, struct fg_slice unit, struct fg_buf *out)
{
    /* Converting a larger double would be undefined (C17 6.3.1.4). */
    fg_value_scaled(value < 0x1p63 ? (int64_t)value : INT64_MAX, unit, out);
}

static void write_lines(const struct shown_points *points, struct fg_buf *out)
{
    char time[CLI_TIME_TEXT_BYTES];

    for (size_t i = 0; i < points->n; i++) {
        const Types__V1__Point *point = points->items[i];

        /* The start: the end of the last step is in the future. */
        write_start(points, i, time);
        fg_buf_printf(out, "%s  ", time);
        write_value(point->value, points->unit, out);
        if (points->rate_unit[0] != '\0') {
            fg_buf_puts(out, "  ");
            write_value(point->rate, points->unit, out);
            fg_buf_printf(out, "/s in %.0f s", point->covered);
        }
        fg_buf_putc(out, '\n');
    }
}

enum fg_code cli_query_series(const struct cli_query *query, struct fg_err *err)
{
    uint64_t step_s = query->step_s != 0 ? query->step_s : friendly_step_s(&query->range);
    int64_t step_ms = (int64_t)step_s * 1000;
    /* Widened to full steps: a point has the time (T - step, T]. */
    struct cli_selection_range range = {query->range.start_ms - query->range.start_ms % step_ms,
                                        (query->range.end_ms + step_ms - 1) / step_ms * step_ms};
    const Querier__V1__SelectSeriesResponse *answer;
    struct fg_profile_type type = {0};
    struct fg_buf out;

    if (fg_profile_type_parse(query->type_id, &type, err) != FG_OK ||
        cli_ask_series(query->client, query->type_id, query->selection.labels, &range,
                       (double)step_s, true, query->arena, &answer, err) != FG_OK)
        return err->code;
    struct shown_points points = {.step_s = step_s, .unit = type.unit, .rate_unit = ""};
    if (answer->n_series > 0) {
        points.rate_unit = answer->series[0]->rate_unit;
        points.items = answer->series[0]->points;
        points.n = answer->series[0]->n_points;
    }
    if (points.n > 0 && points.items[0]->timestamp <= range.start_ms) { /* of before the range */
        points.items++;
        points.n--;
    }
    if (points.n == 0)
        return cli_query_fail_empty(query, err);
    for (size_t i = 0; i < points.n; i++)
        points.covered_s += points.items[i]->covered;
    fg_buf_init(&out, OUTPUT_MAX_BYTES);
    if (query->json)
        write_json(&points, &out);
    else
        write_lines(&points, &out);
    enum fg_code code = cli_query_write(query, &out, err);
    fg_buf_done(&out);
    return code;
}
