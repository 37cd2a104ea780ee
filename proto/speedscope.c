#include "proto/speedscope.h"

#include "common/base/json.h"
#include "common/base/str.h"
#include "proto/frames.h"

#include <math.h>
#include <stdlib.h>

static const char schema[] = "https://www.speedscope.app/file-format-schema.json";

/* By enum fg_speedscope_unit; ns: of a unit of time, else 0. */
static const struct {
    const char *name, *suffix;
    int64_t ns;
} units[] = {
    [FG_SPEEDSCOPE_NONE] = {"none", "", 0},
    [FG_SPEEDSCOPE_NANOSECONDS] = {"nanoseconds", ".nanoseconds", 1},
    [FG_SPEEDSCOPE_MICROSECONDS] = {"microseconds", ".microseconds", 1000},
    [FG_SPEEDSCOPE_MILLISECONDS] = {"milliseconds", ".milliseconds", 1000000},
    [FG_SPEEDSCOPE_SECONDS] = {"seconds", ".seconds", 1000000000},
    [FG_SPEEDSCOPE_BYTES] = {"bytes", ".bytes", 0},
};

enum { NO_TYPE, TYPE_EVENTED, TYPE_SAMPLED };
enum { NO_UNIT = -1 };

/* A value of the file that is read later, if it is there: a reader that stands before it. */
struct later {
    struct fg_json json;
    bool there;
};

struct speedscope_profile {
    struct fg_slice name;
    int type, unit; /* unit: enum fg_speedscope_unit */
    double start;
    struct later events, samples, weights;
    uint32_t number; /* in the file */
};

/* A frame, and its location in the batch that `batch` says. */
struct frame {
    struct fg_slice name;
    uint32_t batch, location;
};

struct speedscope_reader {
    const struct fg_speedscope_request *request;
    struct fg_arena *arena;
    struct fg_decode_counts *counts;
    struct fg_slice schema;

    struct frame *frames;
    uint32_t n_frames, cap_frames;
    struct speedscope_profile *profiles;
    uint32_t n_profiles, cap_profiles;
    bool has_profiles; /* or an array of none */
    bool several;      /* profiles that the peer would not join */

    /* Of the batch at hand. */
    uint32_t batch_number;
    struct fg_builder *builder;
    int64_t factor;
    uint32_t group, n_samples;
    struct fg_frames stack;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
}

/* ---- members ---- */

/* The text of the string that was just read; for null it stays what it was. */
static enum fg_code read_text(struct speedscope_reader *reader, struct fg_json *json,
                              enum fg_json_token token, const char *wrong,
                              struct fg_slice *ret_text, struct fg_err *err)
{
    struct fg_slice text;

    if (token == FG_JSON_NULL)
        return FG_OK;
    if (token != FG_JSON_STRING)
        return fg_json_fail(json, wrong, err);
    text = fg_json_text(json, reader->arena);
    if (text.ptr == NULL)
        return too_large(err);
    *ret_text = text;
    return FG_OK;
}

/* Remembers where an array begins and goes on behind it. A copy of the reader is enough to come
 * back. */
static enum fg_code read_later(struct fg_json *json, struct later *later, const char *wrong,
                               struct fg_err *err)
{
    struct fg_json here = *json;
    enum fg_json_token token = fg_json_next(json);

    if (token == FG_JSON_NULL)
        return FG_OK;
    if (token != FG_JSON_ARRAY)
        return fg_json_fail(json, wrong, err);
    fg_json_skip(json, token);
    *later = (struct later){here, true};
    return FG_OK;
}

/* ---- frames ---- */

static enum fg_code read_frame(struct speedscope_reader *reader, struct fg_json *json,
                               struct fg_err *err)
{
    struct frame frame = {.name = FG_LIT("")};

    while (fg_json_next(json) == FG_JSON_KEY) {
        struct fg_slice key = fg_json_text(json, reader->arena);
        enum fg_json_token token = fg_json_next(json);

        if (key.ptr == NULL)
            return too_large(err);
        if (!fg_slice_is(key, "name"))
            fg_json_skip(json, token);
        else if (read_text(reader, json, token, "a frame's name is not a string", &frame.name,
                           err) != FG_OK)
            return err->code;
    }
    /* The count of frames is unknown in JSON, so the array doubles. */
    if (!fg_arena_grow(reader->arena, &reader->frames, reader->n_frames, 1, &reader->cap_frames,
                       sizeof *reader->frames))
        return too_large(err);
    reader->frames[reader->n_frames++] = frame;
    return FG_OK;
}

static enum fg_code read_frames(struct speedscope_reader *reader, struct fg_json *json,
                                struct fg_err *err)
{
    enum fg_json_token token = fg_json_next(json);

    if (token != FG_JSON_ARRAY)
        return fg_json_fail(json, "frames are not an array", err);
    while ((token = fg_json_next(json)) != FG_JSON_ARRAY_END) {
        if (token != FG_JSON_OBJECT)
            return fg_json_fail(json, "a frame is not an object", err);
        if (read_frame(reader, json, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- profiles without their samples ---- */

static enum fg_code read_type(struct speedscope_reader *reader, struct fg_json *json,
                              struct speedscope_profile *profile, struct fg_err *err)
{
    struct fg_slice text = FG_LIT("");

    if (read_text(reader, json, fg_json_next(json), "a profile's type is not a string", &text,
                  err) != FG_OK)
        return err->code;
    profile->type = fg_slice_is(text, "evented")   ? TYPE_EVENTED
                    : fg_slice_is(text, "sampled") ? TYPE_SAMPLED
                                                   : NO_TYPE;
    return profile->type != NO_TYPE
               ? FG_OK
               : fg_json_fail(json, "a profile is neither sampled nor evented", err);
}

static enum fg_code read_unit(struct speedscope_reader *reader, struct fg_json *json,
                              struct speedscope_profile *profile, struct fg_err *err)
{
    struct fg_slice text = FG_LIT("");

    if (read_text(reader, json, fg_json_next(json), "a unit is not a string", &text, err) != FG_OK)
        return err->code;
    profile->unit = NO_UNIT;
    for (size_t i = 0; i < FG_COUNT(units); i++)
        if (fg_slice_is(text, units[i].name))
            profile->unit = (int)i;
    return profile->unit != NO_UNIT ? FG_OK : fg_json_fail(json, "unknown unit of a profile", err);
}

static enum fg_code read_profile_member(struct speedscope_reader *reader, struct fg_json *json,
                                        struct speedscope_profile *profile, struct fg_err *err)
{
    struct fg_slice key = fg_json_text(json, reader->arena);

    if (key.ptr == NULL)
        return too_large(err);
    if (fg_slice_is(key, "type"))
        return read_type(reader, json, profile, err);
    if (fg_slice_is(key, "unit"))
        return read_unit(reader, json, profile, err);
    if (fg_slice_is(key, "name"))
        return read_text(reader, json, fg_json_next(json), "a profile's name is not a string",
                         &profile->name, err);
    if (fg_slice_is(key, "events"))
        return read_later(json, &profile->events, "events are not an array", err);
    if (fg_slice_is(key, "samples"))
        return read_later(json, &profile->samples, "samples are not an array", err);
    if (fg_slice_is(key, "weights"))
        return read_later(json, &profile->weights, "weights are not an array", err);
    if (fg_slice_is(key, "startValue"))
        return fg_json_next(json) == FG_JSON_NUMBER && fg_json_f64(json, &profile->start)
                   ? FG_OK
                   : fg_json_fail(json, "a start value is not a number", err);
    fg_json_skip(json, fg_json_next(json));
    return FG_OK;
}

static enum fg_code read_profile(struct speedscope_reader *reader, struct fg_json *json,
                                 struct fg_err *err)
{
    struct speedscope_profile profile = {
        .name = FG_LIT(""), .unit = NO_UNIT, .number = reader->n_profiles};

    while (fg_json_next(json) == FG_JSON_KEY)
        if (read_profile_member(reader, json, &profile, err) != FG_OK)
            return err->code;
    /* Members come in any order, so what is missing is known only at the end. */
    if (profile.type == NO_TYPE || profile.unit == NO_UNIT)
        return fg_json_fail(json, "a profile has no type or unit", err);
    if (!fg_arena_grow(reader->arena, &reader->profiles, reader->n_profiles, 1,
                       &reader->cap_profiles, sizeof *reader->profiles))
        return too_large(err);
    reader->profiles[reader->n_profiles++] = profile;
    return FG_OK;
}

static enum fg_code read_profiles(struct speedscope_reader *reader, struct fg_json *json,
                                  struct fg_err *err)
{
    enum fg_json_token token = fg_json_next(json);

    if (token != FG_JSON_ARRAY)
        return fg_json_fail(json, "profiles are not an array", err);
    reader->has_profiles = true;
    while ((token = fg_json_next(json)) != FG_JSON_ARRAY_END) {
        if (token != FG_JSON_OBJECT)
            return fg_json_fail(json, "a profile is not an object", err);
        if (read_profile(reader, json, err) != FG_OK)
            return fg_wrap(err, "profile %u", reader->n_profiles);
    }
    return FG_OK;
}

/* ---- the file ---- */

static enum fg_code read_shared(struct speedscope_reader *reader, struct fg_json *json,
                                struct fg_err *err)
{
    enum fg_json_token token = fg_json_next(json);

    if (token != FG_JSON_OBJECT)
        return fg_json_fail(json, "shared is not an object", err);
    while ((token = fg_json_next(json)) == FG_JSON_KEY) {
        struct fg_slice key = fg_json_text(json, reader->arena);

        if (key.ptr == NULL)
            return too_large(err);
        if (!fg_slice_is(key, "frames"))
            fg_json_skip(json, fg_json_next(json));
        else if (read_frames(reader, json, err) != FG_OK)
            return err->code;
    }
    return token == FG_JSON_BAD ? fg_json_fail(json, "", err) : FG_OK;
}

static enum fg_code read_member(struct speedscope_reader *reader, struct fg_json *json,
                                struct fg_err *err)
{
    struct fg_slice key = fg_json_text(json, reader->arena);

    if (key.ptr == NULL)
        return too_large(err);
    if (fg_slice_is(key, "$schema"))
        return read_text(reader, json, fg_json_next(json), "$schema is not a string",
                         &reader->schema, err);
    if (fg_slice_is(key, "shared"))
        return read_shared(reader, json, err);
    if (fg_slice_is(key, "profiles"))
        return read_profiles(reader, json, err);
    fg_json_skip(json, fg_json_next(json));
    return FG_OK;
}

/* Reads all but the samples: they need the frames, which may come last in the file. */
static enum fg_code read_file(struct speedscope_reader *reader, struct fg_slice in,
                              struct fg_err *err)
{
    struct fg_json json = fg_json(in);
    enum fg_json_token token = fg_json_next(&json);

    if (token != FG_JSON_OBJECT)
        return fg_json_fail(&json, "not a JSON object", err);
    while ((token = fg_json_next(&json)) == FG_JSON_KEY)
        if (read_member(reader, &json, err) != FG_OK)
            return err->code;
    if (token == FG_JSON_BAD || fg_json_next(&json) != FG_JSON_END)
        return fg_json_fail(&json, "", err);
    if (!fg_slice_is(reader->schema, schema))
        return fg_fail(err, FG_E_DECODE, "Unknown schema: %.*s",
                       FG_S(fg_slice_sub(reader->schema, 0, 200)));
    return reader->has_profiles ? FG_OK : fg_fail(err, FG_E_DECODE, "no profiles");
}

/* ---- series ---- */

static int order_by_series(const void *left, const void *right)
{
    const struct speedscope_profile *a = left, *b = right;
    int order = fg_slice_cmp(a->name, b->name);

    if (order == 0)
        order = (a->unit > b->unit) - (a->unit < b->unit);
    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

static bool same_series(const struct speedscope_profile *a, const struct speedscope_profile *b)
{
    return a->unit == b->unit && fg_slice_eq(a->name, b->name);
}

/* Sorts the profiles of one series together, and sets `several`, as Pyroscope counts series. */
static void sort_profiles(struct speedscope_reader *reader)
{
    for (uint32_t i = 1; i < reader->n_profiles; i++) {
        const struct speedscope_profile *first = &reader->profiles[0],
                                        *other = &reader->profiles[i];

        reader->several |= !same_series(first, other) || first->type != other->type ||
                           first->start != other->start;
    }
    if (reader->n_profiles > 1)
        qsort(reader->profiles, reader->n_profiles, sizeof *reader->profiles, order_by_series);
}

/* ---- values ---- */

/* Reads the current number, times the factor, rounded. */
static enum fg_code read_value(const struct speedscope_reader *reader, const struct fg_json *json,
                               int64_t *ret_value, struct fg_err *err)
{
    /* Integers exactly: a double has 53 bits only. */
    int64_t whole;
    double real;

    if (fg_parse_i64(json->text, &whole)) {
        if (!__builtin_mul_overflow(whole, reader->factor, ret_value))
            return FG_OK;
        return fg_json_fail(json, "a value exceeds 63 bits", err);
    }
    if (!fg_json_f64(json, &real))
        return fg_json_fail(json, "a value is beyond all numbers", err);
    real = round(real * (double)reader->factor);
    /* Written so that NaN is refused, too. */
    if (!(real >= -0x1p63 && real < 0x1p63))
        return fg_json_fail(json, "a value exceeds 63 bits", err);
    *ret_value = (int64_t)real;
    return FG_OK;
}

/* Finds the location of the frame whose index was just read. It is kept for the batch, since
 * stacks repeat frames. */
static enum fg_code find_frame(struct speedscope_reader *reader, const struct fg_json *json,
                               enum fg_json_token token, uint32_t *ret_location, struct fg_err *err)
{
    struct frame *frame;
    uint64_t index = 0;

    if (token != FG_JSON_NUMBER || !fg_json_u64(json, &index))
        return fg_json_fail(json, "a frame is not an index", err);
    if (index >= reader->n_frames)
        return fg_json_fail(json, "a frame is not among the shared frames", err);
    frame = &reader->frames[index];
    /* Locations belong to a batch; the number tells those of an earlier one apart without clearing
     * all frames. */
    if (frame->batch != reader->batch_number &&
        fg_builder_name(reader->builder, frame->name, &frame->location, err) != FG_OK)
        return err->code;
    frame->batch = reader->batch_number;
    *ret_location = frame->location;
    return FG_OK;
}

/* Adds a sample of the current stack with that value. */
static enum fg_code add_sample(struct speedscope_reader *reader, int64_t value, struct fg_err *err)
{
    uint32_t max = reader->request->upload.limits.samples_max, stack = 0;

    /* Counted while reading: a file of events does not say how many samples it makes. */
    if (max != 0 && ++reader->n_samples > max)
        return fg_fail(err, FG_E_INVALID,
                       "profile exceeds the samples count limit (max_profile_stacktrace_samples, "
                       "limit: %u)",
                       max);
    if (fg_builder_stack(reader->builder, fg_frames_leaf_first(&reader->stack), reader->stack.depth,
                         &stack, err) != FG_OK)
        return err->code;
    return fg_builder_sample(reader->builder, reader->group, stack, NULL, &value, err);
}

/* ---- sampled profiles ---- */

static enum fg_code read_stack(struct speedscope_reader *reader, struct fg_json *json,
                               struct fg_err *err)
{
    enum fg_json_token token;
    uint32_t location = 0;

    fg_frames_pop_to(&reader->stack, 0);
    while ((token = fg_json_next(json)) != FG_JSON_ARRAY_END) {
        if (find_frame(reader, json, token, &location, err) != FG_OK)
            return err->code;
        if (!fg_frames_push(&reader->stack, reader->arena, location))
            return too_large(err);
    }
    return FG_OK;
}

static enum fg_code read_weight(const struct speedscope_reader *reader, struct fg_json *json,
                                int64_t *ret_weight, struct fg_err *err)
{
    enum fg_json_token token = fg_json_next(json);

    if (token == FG_JSON_ARRAY_END)
        return fg_json_fail(json, "there are fewer weights than samples", err);
    if (token != FG_JSON_NUMBER)
        return fg_json_fail(json, "a weight is not a number", err);
    if (read_value(reader, json, ret_weight, err) != FG_OK)
        return err->code;
    return *ret_weight >= 0 ? FG_OK : fg_json_fail(json, "a weight is negative", err);
}

/* Reads both arrays side by side. */
static enum fg_code read_samples(struct speedscope_reader *reader, struct fg_json *samples,
                                 struct fg_json *weights, struct fg_err *err)
{
    int64_t weight = 0;

    (void)fg_json_next(samples); /* the arrays' beginnings */
    (void)fg_json_next(weights);
    for (;;) {
        enum fg_json_token token = fg_json_next(samples);

        if (token == FG_JSON_ARRAY_END)
            return fg_json_next(weights) == FG_JSON_ARRAY_END
                       ? FG_OK
                       : fg_json_fail(weights, "there are more weights than samples", err);
        if (token != FG_JSON_ARRAY)
            return fg_json_fail(samples, "a sample is not an array", err);
        if (read_stack(reader, samples, err) != FG_OK ||
            read_weight(reader, weights, &weight, err) != FG_OK ||
            add_sample(reader, weight, err) != FG_OK)
            return err->code;
    }
}

/* ---- evented profiles ---- */

struct event {
    bool opens;
    int64_t at;
    struct fg_json frame; /* just after it was read */
    enum fg_json_token frame_token;
};

static enum fg_code read_event(struct speedscope_reader *reader, struct fg_json *json,
                               struct event *event, struct fg_err *err)
{
    bool has_type = false, has_time = false;

    *event = (struct event){.frame_token = FG_JSON_NULL};
    while (fg_json_next(json) == FG_JSON_KEY) {
        struct fg_slice key = fg_json_text(json, reader->arena);

        if (key.ptr == NULL)
            return too_large(err);
        if (fg_slice_is(key, "type")) {
            struct fg_slice text = FG_LIT("");

            if (read_text(reader, json, fg_json_next(json), "an event's type is not a string",
                          &text, err) != FG_OK)
                return err->code;
            event->opens = fg_slice_is(text, "O");
            has_type = event->opens || fg_slice_is(text, "C");
            if (!has_type)
                return fg_json_fail(json, "an event is neither O nor C", err);
        } else if (fg_slice_is(key, "at")) {
            if (fg_json_next(json) != FG_JSON_NUMBER)
                return fg_json_fail(json, "an event's time is not a number", err);
            if (read_value(reader, json, &event->at, err) != FG_OK)
                return err->code;
            has_time = true;
        } else if (fg_slice_is(key, "frame")) {
            event->frame_token = fg_json_next(json);
            event->frame = *json;
            fg_json_skip(json, event->frame_token);
        } else {
            fg_json_skip(json, fg_json_next(json));
        }
    }
    return has_type && has_time && event->frame_token != FG_JSON_NULL
               ? FG_OK
               : fg_json_fail(json, "an event lacks its type, time or frame", err);
}

/* Opens the frame, or closes it if it is on top of the stack. */
static enum fg_code follow_event(struct speedscope_reader *reader, const struct event *event,
                                 struct fg_err *err)
{
    struct fg_frames *stack = &reader->stack;
    uint32_t location = 0;

    if (find_frame(reader, &event->frame, event->frame_token, &location, err) != FG_OK)
        return err->code;
    if (event->opens)
        return fg_frames_push(stack, reader->arena, location) ? FG_OK : too_large(err);
    if (stack->depth == 0 || fg_frames_leaf_first(stack)[0] != location)
        return fg_json_fail(&event->frame, "a frame is closed that is not on top", err);
    fg_frames_pop_to(stack, stack->depth - 1);
    return FG_OK;
}

/* The stack that is open between two events gets the time between them. */
static enum fg_code read_events(struct speedscope_reader *reader, struct fg_json *json,
                                struct fg_err *err)
{
    struct event event = {.at = INT64_MIN};
    int64_t before, time;

    fg_frames_pop_to(&reader->stack, 0);
    (void)fg_json_next(json); /* the array's beginning */
    for (;;) {
        enum fg_json_token token = fg_json_next(json);

        if (token == FG_JSON_ARRAY_END)
            break;
        if (token != FG_JSON_OBJECT)
            return fg_json_fail(json, "an event is not an object", err);
        before = event.at;
        if (read_event(reader, json, &event, err) != FG_OK)
            return err->code;
        if (event.at < before)
            return fg_json_fail(json, "events go back in time", err);
        if (reader->stack.depth > 0 && event.at > before) {
            if (__builtin_sub_overflow(event.at, before, &time))
                return fg_json_fail(json, "time between two events exceeds 63 bits", err);
            if (add_sample(reader, time, err) != FG_OK)
                return err->code;
        }
        if (follow_event(reader, &event, err) != FG_OK)
            return err->code;
    }
    if (reader->stack.depth > 0)
        return fg_json_fail(json, "frames are open at the end", err);
    return FG_OK;
}

/* ---- batches ---- */

static enum fg_code read_profile_samples(struct speedscope_reader *reader,
                                         struct speedscope_profile *profile, struct fg_err *err)
{
    struct later *samples = &profile->samples, *weights = &profile->weights;
    enum fg_code code = FG_OK;

    if (profile->type == TYPE_EVENTED && profile->events.there)
        code = read_events(reader, &profile->events.json, err);
    else if (profile->type == TYPE_SAMPLED && samples->there && weights->there)
        code = read_samples(reader, &samples->json, &weights->json, err);
    else if (profile->type == TYPE_SAMPLED && samples->there != weights->there)
        code = fg_fail(err, FG_E_DECODE, "samples without weights, or weights without samples");
    return code == FG_OK ? FG_OK : fg_wrap(err, "profile %u", profile->number);
}

/* The series' labels, and the profile's name. */
static enum fg_code batch_labels(struct speedscope_reader *reader, const struct fg_labels *series,
                                 struct fg_slice name, struct fg_labels *ret_labels,
                                 struct fg_err *err)
{
    struct fg_label *items = fg_arena_new(reader->arena, struct fg_label, series->count + 1);

    if (items == NULL)
        return too_large(err);
    if (series->count > 0)
        memcpy(items, series->items, series->count * sizeof *items);
    items[series->count] = (struct fg_label){FG_LIT("profile_name"), name};
    *ret_labels = (struct fg_labels){items, series->count + 1};
    return FG_OK;
}

/* The profiles [from, to), which are of one series. */
static enum fg_code build_batch(struct speedscope_reader *reader, uint32_t from, uint32_t to,
                                const struct fg_speedscope_series *series, struct fg_batch *batch,
                                struct fg_err *err)
{
    const struct speedscope_profile *first = &reader->profiles[from];
    const struct fg_labels no_labels = {0};
    struct fg_upload upload = reader->request->upload;

    reader->factor = units[first->unit].ns > 0 && fg_slice_is(series->type.unit, "nanoseconds")
                         ? units[first->unit].ns
                         : series->factor;
    reader->stack = (struct fg_frames){0};
    reader->batch_number++;
    reader->n_samples = 0;
    reader->builder = fg_builder_create(reader->arena, &upload.limits, batch, reader->counts);
    if (reader->builder == NULL)
        return too_large(err);
    if (batch_labels(reader, &series->labels, first->name, &upload.labels, err) != FG_OK ||
        fg_builder_group(reader->builder, &no_labels, &reader->group, err) != FG_OK)
        return err->code;
    for (uint32_t i = from; i < to; i++)
        if (read_profile_samples(reader, &reader->profiles[i], err) != FG_OK)
            return err->code;
    return fg_builder_finish(reader->builder, &upload, series->period, err);
}

static enum fg_code decode_batch(struct speedscope_reader *reader, uint32_t from, uint32_t to,
                                 fg_batch_sink sink, void *sink_arg, struct fg_err *err)
{
    const struct speedscope_profile *first = &reader->profiles[from];
    const struct fg_speedscope_profile profile = {
        .name = first->name,
        .unit = (enum fg_speedscope_unit)first->unit,
        .suffix = reader->several ? units[first->unit].suffix : "",
    };
    struct fg_arena_mark mark = fg_arena_mark(reader->arena);
    struct fg_speedscope_series series = {0};
    struct fg_batch batch;

    if (reader->request->namer(&profile, reader->request->namer_arg, &series, err) != FG_OK)
        return err->code;
    batch = (struct fg_batch){
        .types = &series.type,
        .n_types = 1,
        .period_type = series.period_type,
        .share = {from, to, reader->n_profiles},
    };
    if (build_batch(reader, from, to, &series, &batch, err) != FG_OK ||
        (batch.n_profiles > 0 && sink(&batch, sink_arg, err) != FG_OK))
        return err->code;
    fg_arena_release(reader->arena, mark);
    return FG_OK;
}

enum fg_code fg_speedscope_decode(struct fg_slice in, const struct fg_speedscope_request *request,
                                  struct fg_arena *arena, fg_batch_sink sink, void *sink_arg,
                                  struct fg_decode_counts *counts, struct fg_err *err)
{
    struct speedscope_reader reader = {.request = request, .arena = arena, .counts = counts};

    if (read_file(&reader, in, err) != FG_OK)
        return err->code;
    sort_profiles(&reader);
    for (uint32_t from = 0, to; from < reader.n_profiles; from = to) {
        for (to = from + 1;
             to < reader.n_profiles && same_series(&reader.profiles[from], &reader.profiles[to]);
             to++)
            continue;
        if (decode_batch(&reader, from, to, sink, sink_arg, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}
