#include "proto/flamebearer.h"

#include "common/base/json.h"
#include "common/base/str.h"

enum {
    BAR_NUMBERS = 4,
    /* As of trees (tree_formats.c): real files stay a hundred times below. */
    FRAMES_MAX = 32 * 1024 * 1024,
};

static const double NANOSECONDS_RATE = 1e9;

struct flamebearer_bar {
    int64_t start, end; /* on the axis that all levels share */
    uint32_t above;     /* the bar that it belongs to */
    uint32_t location, depth;
};

struct flamebearer_reader {
    const struct fg_flamebearer_request *request;
    struct fg_arena *arena;
    struct fg_builder *builder;
    struct fg_json names, levels; /* before the arrays, which may come in any order */
    bool has_names, has_levels;
    struct fg_slice type, unit;
    double rate;

    uint32_t *locations; /* of the names */
    uint32_t n_locations, cap_locations;
    struct flamebearer_bar *bars; /* level by level; [0] stands above level 0 */
    uint32_t n_bars, cap_bars;
    uint32_t *stack;
    uint32_t cap_stack, group, n_samples;
    uint64_t n_frames;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
}

/* ---- members ---- */

static enum fg_code read_text(struct flamebearer_reader *reader, struct fg_json *json,
                              const char *wrong, struct fg_slice *ret_text, struct fg_err *err)
{
    struct fg_slice text;

    if (fg_json_next(json) != FG_JSON_STRING)
        return fg_json_fail(json, wrong, err);
    text = fg_json_text(json, reader->arena);
    if (text.ptr == NULL)
        return too_large(err);
    *ret_text = text;
    return FG_OK;
}

/* Remembers where an array begins, and goes on behind it. */
static enum fg_code read_later(struct fg_json *json, struct fg_json *later, bool *there,
                               const char *wrong, struct fg_err *err)
{
    struct fg_json here = *json;

    if (fg_json_next(json) != FG_JSON_ARRAY)
        return fg_json_fail(json, wrong, err);
    fg_json_skip(json, FG_JSON_ARRAY);
    *later = here;
    *there = true;
    return FG_OK;
}

static enum fg_code read_graph_member(struct flamebearer_reader *reader, struct fg_json *json,
                                      struct fg_slice key, struct fg_err *err)
{
    if (fg_slice_is(key, "names"))
        return read_later(json, &reader->names, &reader->has_names, "names are not an array", err);
    if (fg_slice_is(key, "levels"))
        return read_later(json, &reader->levels, &reader->has_levels, "levels are not an array",
                          err);
    fg_json_skip(json, fg_json_next(json));
    return FG_OK;
}

static enum fg_code read_metadata_member(struct flamebearer_reader *reader, struct fg_json *json,
                                         struct fg_slice key, struct fg_err *err)
{
    struct fg_slice format = FG_LIT("single");

    if (fg_slice_is(key, "name"))
        return read_text(reader, json, "the name of the type is not a string", &reader->type, err);
    if (fg_slice_is(key, "units"))
        return read_text(reader, json, "units are not a string", &reader->unit, err);
    if (fg_slice_is(key, "format")) {
        if (read_text(reader, json, "the format is not a string", &format, err) != FG_OK)
            return err->code;
        return fg_slice_is(format, "single")
                   ? FG_OK
                   : fg_json_fail(json,
                                  "a flame graph that is not single: a comparison has no "
                                  "stacks of one profile",
                                  err);
    }
    if (fg_slice_is(key, "sampleRate"))
        return fg_json_next(json) == FG_JSON_NUMBER && fg_json_f64(json, &reader->rate)
                   ? FG_OK
                   : fg_json_fail(json, "a sample rate is not a number", err);
    fg_json_skip(json, fg_json_next(json));
    return FG_OK;
}

typedef enum fg_code (*member_reader)(struct flamebearer_reader *reader, struct fg_json *json,
                                      struct fg_slice key, struct fg_err *err);

/* Reads the members of the object whose first token was just read. */
static enum fg_code read_members(struct flamebearer_reader *reader, struct fg_json *json,
                                 member_reader read, struct fg_err *err)
{
    enum fg_json_token token;

    while ((token = fg_json_next(json)) == FG_JSON_KEY) {
        struct fg_slice key = fg_json_text(json, reader->arena);

        if (key.ptr == NULL)
            return too_large(err);
        if (read(reader, json, key, err) != FG_OK)
            return err->code;
    }
    return token == FG_JSON_OBJECT_END ? FG_OK : fg_json_fail(json, "", err);
}

static enum fg_code read_member(struct flamebearer_reader *reader, struct fg_json *json,
                                struct fg_slice key, struct fg_err *err)
{
    bool graph = fg_slice_is(key, "flamebearer"), metadata = fg_slice_is(key, "metadata");
    enum fg_json_token token = fg_json_next(json);

    if (!graph && !metadata) {
        fg_json_skip(json, token);
        return FG_OK;
    }
    if (token != FG_JSON_OBJECT)
        return fg_json_fail(json, graph ? "flamebearer is not an object" : "metadata is not one",
                            err);
    return read_members(reader, json, graph ? read_graph_member : read_metadata_member, err);
}

/* ---- names ---- */

static enum fg_code read_names(struct flamebearer_reader *reader, struct fg_err *err)
{
    struct fg_json *json = &reader->names;
    enum fg_json_token token;

    (void)fg_json_next(json); /* the array, as read_later() has seen */
    while ((token = fg_json_next(json)) != FG_JSON_ARRAY_END) {
        struct fg_slice name;

        if (token != FG_JSON_STRING)
            return fg_json_fail(json, "a name is not a string", err);
        name = fg_json_text(json, reader->arena);
        if (name.ptr == NULL ||
            !fg_arena_grow(reader->arena, &reader->locations, reader->n_locations, 1,
                           &reader->cap_locations, sizeof *reader->locations))
            return too_large(err);
        if (fg_builder_name(reader->builder, name, &reader->locations[reader->n_locations], err) !=
            FG_OK)
            return err->code;
        reader->n_locations++;
    }
    return FG_OK;
}

/* ---- levels ---- */

/* Adds a sample of the stack that ends in a bar. */
static enum fg_code add_self(struct flamebearer_reader *reader, const struct flamebearer_bar *bar,
                             int64_t self, struct fg_err *err)
{
    const uint32_t max = reader->request->upload.limits.samples_max;
    uint32_t depth = bar->depth, stack = 0;

    if (max != 0 && reader->n_samples == max)
        return fg_fail(err, FG_E_INVALID, "more than %u samples", max);
    reader->n_samples++;
    reader->n_frames += depth;
    if (reader->n_frames > FRAMES_MAX)
        return fg_fail(err, FG_E_TOO_LARGE, "stacks have more than %d frames together", FRAMES_MAX);
    if (!fg_arena_grow(reader->arena, &reader->stack, 0, depth, &reader->cap_stack,
                       sizeof *reader->stack))
        return too_large(err);
    for (uint32_t i = 0; i < depth; i++, bar = &reader->bars[bar->above])
        reader->stack[i] = bar->location;
    if (fg_builder_stack(reader->builder, reader->stack, depth, &stack, err) != FG_OK)
        return err->code;
    return fg_builder_sample(reader->builder, reader->group, stack, NULL, &self, err);
}

/* Reads the numbers of the next bar. *ret_more false: the level is over. */
static enum fg_code read_bar(struct fg_json *json, int64_t numbers[BAR_NUMBERS], bool *ret_more,
                             struct fg_err *err)
{
    for (int i = 0; i < BAR_NUMBERS; i++) {
        enum fg_json_token token = fg_json_next(json);

        if (i == 0 && token == FG_JSON_ARRAY_END) {
            *ret_more = false;
            return FG_OK;
        }
        if (token != FG_JSON_NUMBER || !fg_json_i64(json, &numbers[i]) || numbers[i] < 0)
            return fg_json_fail(json, "a bar is not four whole numbers from 0 on", err);
    }
    *ret_more = true;
    return FG_OK;
}

/* Reads a level; above: the first bar of the level above, whose last one is the last so far. */
static enum fg_code read_level(struct flamebearer_reader *reader, struct fg_json *json,
                               uint32_t above, struct fg_err *err)
{
    const uint32_t end = reader->n_bars;
    int64_t at = 0, numbers[BAR_NUMBERS] = {0};
    bool more = true;

    while (read_bar(json, numbers, &more, err) == FG_OK && more) {
        struct flamebearer_bar bar;

        if (__builtin_add_overflow(at, numbers[0], &bar.start) ||
            __builtin_add_overflow(bar.start, numbers[1], &bar.end))
            return fg_json_fail(json, "bars that are wider than 64 bits", err);
        at = bar.end;
        if (numbers[1] == 0) /* nothing is in it */
            continue;
        if (numbers[2] > numbers[1])
            return fg_json_fail(json, "a bar whose self exceeds its total", err);
        if ((uint64_t)numbers[3] >= reader->n_locations)
            return fg_json_fail(json, "a bar has a name that is not there", err);
        /* Both levels are in order, so the search for the bar above goes on where the last one
         * ended. */
        while (above < end && reader->bars[above].end <= bar.start)
            above++;
        if (above >= end || reader->bars[above].start > bar.start ||
            bar.end > reader->bars[above].end)
            return fg_json_fail(json, "a bar is not below one of the level above", err);
        bar.above = above;
        bar.location = reader->locations[numbers[3]];
        bar.depth = above == 0 ? 0 : reader->bars[above].depth + 1;
        if (!fg_arena_grow(reader->arena, &reader->bars, reader->n_bars, 1, &reader->cap_bars,
                           sizeof *reader->bars))
            return too_large(err);
        reader->bars[reader->n_bars++] = bar;
        if (numbers[2] > 0 && add_self(reader, &bar, numbers[2], err) != FG_OK)
            return err->code;
    }
    return more ? err->code : FG_OK;
}

static enum fg_code read_levels(struct flamebearer_reader *reader, struct fg_err *err)
{
    struct fg_json *json = &reader->levels;
    uint32_t above = 0, number = 0;
    enum fg_json_token token;

    (void)fg_json_next(json);
    if (!fg_arena_grow(reader->arena, &reader->bars, 0, 1, &reader->cap_bars, sizeof *reader->bars))
        return too_large(err);
    reader->bars[reader->n_bars++] = (struct flamebearer_bar){.end = INT64_MAX};
    while ((token = fg_json_next(json)) != FG_JSON_ARRAY_END) {
        uint32_t first = reader->n_bars;

        if (token != FG_JSON_ARRAY)
            return fg_json_fail(json, "a level is not an array", err);
        if (read_level(reader, json, above, err) != FG_OK)
            return fg_wrap(err, "level %u", number);
        above = first;
        number++;
    }
    return FG_OK;
}

/* ---- the file ---- */

/* Pyroscope's words for units, turned back (querier/API.md#plain-routes). */
static struct fg_value_type type_of(const struct flamebearer_reader *reader)
{
    struct fg_slice unit = reader->unit;

    if (reader->type.len == 0)
        return reader->request->untyped;
    if (fg_slice_is(unit, "samples") && reader->rate >= NANOSECONDS_RATE)
        unit = FG_LIT("nanoseconds");
    else if (fg_slice_is(unit, "objects"))
        unit = FG_LIT("count");
    return (struct fg_value_type){reader->type, unit};
}

static enum fg_code read_file(struct flamebearer_reader *reader, struct fg_slice in,
                              struct fg_err *err)
{
    struct fg_json json = fg_json(in);

    if (fg_json_next(&json) != FG_JSON_OBJECT)
        return fg_json_fail(&json, "not a JSON object", err);
    if (read_members(reader, &json, read_member, err) != FG_OK)
        return err->code;
    if (fg_json_next(&json) != FG_JSON_END)
        return fg_json_fail(&json, "", err);
    return reader->has_names && reader->has_levels
               ? FG_OK
               : fg_fail(err, FG_E_DECODE, "a flame graph has no names or no levels");
}

enum fg_code fg_flamebearer_decode(struct fg_slice in, const struct fg_flamebearer_request *request,
                                   struct fg_arena *arena, struct fg_batch *batch,
                                   struct fg_decode_counts *counts, struct fg_err *err)
{
    const struct fg_labels no_labels = {0};
    struct flamebearer_reader reader = {
        .request = request, .arena = arena, .unit = FG_LIT(""), .type = FG_LIT("")};
    struct fg_value_type *type = fg_arena_new(arena, struct fg_value_type, 1);

    *batch = (struct fg_batch){.types = type, .n_types = 1};
    if (type == NULL)
        return too_large(err);
    if (read_file(&reader, in, err) != FG_OK)
        return err->code;
    *type = type_of(&reader);
    reader.builder = fg_builder_create(arena, &request->upload.limits, batch, counts);
    if (reader.builder == NULL)
        return too_large(err);
    if (fg_builder_group(reader.builder, &no_labels, &reader.group, err) != FG_OK ||
        read_names(&reader, err) != FG_OK || read_levels(&reader, err) != FG_OK)
        return err->code;
    return fg_builder_finish(reader.builder, &request->upload, 0, err);
}

bool fg_flamebearer_is(struct fg_slice in)
{
    struct fg_json json = fg_json(in);

    if (fg_json_next(&json) != FG_JSON_OBJECT)
        return false;
    while (fg_json_next(&json) == FG_JSON_KEY) {
        if (fg_slice_is(json.text, "flamebearer"))
            return true;
        fg_json_skip(&json, fg_json_next(&json));
    }
    return false;
}
