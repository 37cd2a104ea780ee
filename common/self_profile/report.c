#include "common/self_profile/report.h"

#include "common/base/cursor.h"
#include "common/base/hash.h"
#include "common/base/pprof_fields.h"

#include <string.h>

/* push_v1.proto */
enum {
    PUSH_SERIES = 1,
    SERIES_LABEL = 1,
    SERIES_SAMPLE = 2,
    PAIR_NAME = 1,
    PAIR_VALUE = 2,
    RAW_PROFILE = 1,
};

static const size_t NUMBERS_MAX_BYTES = 1024; /* 64 varints of at most 10 bytes */

/*
 * The table of strings, whose numbers samples need before names are known: the empty one, names and
 * units of the types, "thread", threads, and after them the functions.
 */
enum { STRING_TYPES = 1 };

static uint32_t string_of_period(const struct fg_report *report)
{
    return STRING_TYPES + 2 * report->head.n_types;
}

static uint32_t string_of_thread_label(const struct fg_report *report)
{
    return string_of_period(report) + 2;
}

static uint32_t string_of_threads(const struct fg_report *report)
{
    return string_of_thread_label(report) + 1;
}

void fg_report_init(struct fg_report *report, const struct fg_report_head *head)
{
    *report = (struct fg_report){.head = *head};
    fg_assert(head->n_types <= FG_REPORT_TYPES_MAX);
    fg_buf_init(&report->samples, FG_REPORT_MAX_BYTES);
    fg_buf_init(&report->functions, FG_REPORT_MAX_BYTES);
    fg_buf_init(&report->threads, FG_REPORT_MAX_BYTES);
    fg_map_init(&report->numbers);
}

void fg_report_done(struct fg_report *report)
{
    fg_buf_done(&report->samples);
    fg_buf_done(&report->functions);
    fg_buf_done(&report->threads);
    fg_map_done(&report->numbers);
}

/* ---- samples ---- */

static uint64_t function_at(const struct fg_report *report, uint32_t number)
{
    uint64_t id;

    memcpy(&id, report->functions.ptr + (size_t)number * sizeof id, sizeof id);
    return id;
}

/* Returns the number of a function, from 0 on. */
static uint32_t number_of(struct fg_report *report, uint64_t id)
{
    uint64_t hash = fg_mix64(id);
    struct fg_map_walk walk;
    uint32_t number;

    for (number = fg_map_first(&report->numbers, hash, &walk); number != FG_MAP_NONE;
         number = fg_map_next(&report->numbers, &walk))
        if (function_at(report, number) == id)
            return number;
    number = report->numbers.count;
    fg_map_add(&report->numbers, hash, number);
    fg_buf_append(&report->functions, &id, sizeof id);
    return number;
}

static uint32_t thread_of(struct fg_report *report, const char *name)
{
    const char *at = (const char *)report->threads.ptr;

    for (uint32_t i = 0; i < report->n_threads; i++, at += strlen(at) + 1)
        if (strcmp(at, name) == 0)
            return i;
    fg_buf_append(&report->threads, name, strlen(name) + 1);
    return report->n_threads++;
}

bool fg_report_add(struct fg_report *report, const uint64_t *functions, uint32_t depth,
                   const int64_t *values, const char *thread)
{
    struct fg_buf numbers, sample;

    fg_buf_init(&numbers, NUMBERS_MAX_BYTES);
    fg_buf_init(&sample, 3 * NUMBERS_MAX_BYTES);
    for (uint32_t i = 0; i < depth; i++)
        fg_buf_varint(&numbers, 1 + number_of(report, functions[i]));
    fg_buf_pb_bytes(&sample, PPROF_SAMPLE_LOCATION, fg_buf_slice(&numbers));
    fg_buf_clear(&numbers);
    for (uint32_t i = 0; i < report->head.n_types; i++)
        fg_buf_varint(&numbers, (uint64_t)values[i]);
    fg_buf_pb_bytes(&sample, PPROF_SAMPLE_VALUE, fg_buf_slice(&numbers));
    if (thread != NULL) {
        fg_buf_clear(&numbers);
        fg_buf_pb_number(&numbers, PPROF_LABEL_KEY, string_of_thread_label(report));
        fg_buf_pb_number(&numbers, PPROF_LABEL_STR,
                         string_of_threads(report) + thread_of(report, thread));
        fg_buf_pb_bytes(&sample, PPROF_SAMPLE_LABEL, fg_buf_slice(&numbers));
    }
    fg_assert(!sample.full && !numbers.full);
    fg_buf_pb_bytes(&report->samples, PPROF_PROFILE_SAMPLE, fg_buf_slice(&sample));
    report->n_samples += !report->samples.full;
    fg_buf_done(&numbers);
    fg_buf_done(&sample);
    return !report->samples.full;
}

/* ---- the profile ---- */

static void put_type(struct fg_buf *out, unsigned field, uint32_t first_string)
{
    struct fg_buf type;

    fg_buf_init(&type, NUMBERS_MAX_BYTES);
    fg_buf_pb_number(&type, PPROF_VALUE_TYPE_TYPE, first_string);
    fg_buf_pb_number(&type, PPROF_VALUE_TYPE_UNIT, first_string + 1);
    fg_buf_pb_bytes(out, field, fg_buf_slice(&type));
    fg_buf_done(&type);
}

static void put_type_strings(struct fg_buf *out, const struct fg_report_type *type)
{
    fg_buf_pb_bytes(out, PPROF_PROFILE_STRING, fg_cstr(type->name));
    fg_buf_pb_bytes(out, PPROF_PROFILE_STRING, fg_cstr(type->unit));
}

/* Location and function have the same number; the string of its name follows those of threads. */
static void put_function(struct fg_buf *out, uint32_t id, uint32_t name)
{
    struct fg_buf part, line;

    fg_buf_init(&part, NUMBERS_MAX_BYTES);
    fg_buf_init(&line, NUMBERS_MAX_BYTES);
    fg_buf_pb_number(&line, PPROF_LINE_FUNCTION, id);
    fg_buf_pb_number(&part, PPROF_LOCATION_ID, id);
    fg_buf_pb_bytes(&part, PPROF_LOCATION_LINE, fg_buf_slice(&line));
    fg_buf_pb_bytes(out, PPROF_PROFILE_LOCATION, fg_buf_slice(&part));
    fg_buf_clear(&part);
    fg_buf_pb_number(&part, PPROF_FUNCTION_ID, id);
    fg_buf_pb_number(&part, PPROF_FUNCTION_NAME, name);
    fg_buf_pb_bytes(out, PPROF_PROFILE_FUNCTION, fg_buf_slice(&part));
    fg_buf_done(&line);
    fg_buf_done(&part);
}

void fg_report_write(const struct fg_report *report,
                     void (*name)(void *arg, uint64_t function, struct fg_buf *out), void *arg,
                     struct fg_buf *out)
{
    const struct fg_report_head *head = &report->head;
    const char *thread = (const char *)report->threads.ptr;
    struct fg_buf text;

    fg_buf_init(&text, FG_REPORT_MAX_BYTES);
    for (uint32_t i = 0; i < head->n_types; i++)
        put_type(out, PPROF_PROFILE_SAMPLE_TYPE, STRING_TYPES + 2 * i);
    fg_buf_put(out, fg_buf_slice(&report->samples));
    for (uint32_t i = 0; i < report->numbers.count; i++)
        put_function(out, 1 + i, string_of_threads(report) + report->n_threads + i);
    fg_buf_pb_bytes(out, PPROF_PROFILE_STRING, FG_LIT(""));
    for (uint32_t i = 0; i < head->n_types; i++)
        put_type_strings(out, &head->types[i]);
    put_type_strings(out, &head->period_type);
    fg_buf_pb_bytes(out, PPROF_PROFILE_STRING, FG_LIT("thread"));
    for (uint32_t i = 0; i < report->n_threads; i++, thread += strlen(thread) + 1)
        fg_buf_pb_bytes(out, PPROF_PROFILE_STRING, fg_cstr(thread));
    for (uint32_t i = 0; i < report->numbers.count; i++) {
        fg_buf_clear(&text);
        name(arg, function_at(report, i), &text);
        fg_buf_pb_bytes(out, PPROF_PROFILE_STRING, fg_buf_slice(&text));
    }
    fg_buf_pb_number(out, PPROF_PROFILE_TIME, (uint64_t)head->time_ns);
    fg_buf_pb_number(out, PPROF_PROFILE_DURATION, (uint64_t)head->duration_ns);
    put_type(out, PPROF_PROFILE_PERIOD_TYPE, string_of_period(report));
    fg_buf_pb_number(out, PPROF_PROFILE_PERIOD, (uint64_t)head->period);
    fg_buf_done(&text);
}

/* ---- the message ---- */

static void put_label(struct fg_buf *out, const char *name, const char *value)
{
    struct fg_buf label;

    fg_buf_init(&label, FG_REPORT_MAX_BYTES);
    fg_buf_pb_bytes(&label, PAIR_NAME, fg_cstr(name));
    fg_buf_pb_bytes(&label, PAIR_VALUE, fg_cstr(value));
    fg_buf_pb_bytes(out, SERIES_LABEL, fg_buf_slice(&label));
    fg_buf_done(&label);
}

void fg_report_write_series(const struct fg_report *report, const struct fg_report_label *labels,
                            uint32_t n_labels, struct fg_slice profile, struct fg_buf *out)
{
    struct fg_buf series, sample;

    fg_buf_init(&series, (size_t)2 * FG_REPORT_MAX_BYTES);
    fg_buf_init(&sample, (size_t)2 * FG_REPORT_MAX_BYTES);
    put_label(&series, "__name__", report->head.name);
    for (uint32_t i = 0; i < n_labels; i++)
        put_label(&series, labels[i].name, labels[i].value);
    fg_buf_pb_bytes(&sample, RAW_PROFILE, profile);
    fg_buf_pb_bytes(&series, SERIES_SAMPLE, fg_buf_slice(&sample));
    fg_buf_pb_bytes(out, PUSH_SERIES, fg_buf_slice(&series));
    fg_buf_done(&sample);
    fg_buf_done(&series);
}
