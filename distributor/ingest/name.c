/*
 * Parses the name parameter, "app.cpu{key=value,...}", as the agents of Pyroscope send it, and
 * finds the kind of profile by the suffix of the name. What is accepted is what Pyroscope's parser
 * accepts, its leniency with unclosed braces included, so that no agent that works there fails
 * here.
 */
#include "distributor/ingest/name.h"

#include "common/base/str.h"
#include "distributor/labels.h"

enum { NAME_MAX_BYTES = 64 * 1024 }; /* a service and its labels have a few hundred */

struct name_parser {
    struct fg_arena *arena;
    struct dist_app_name *name;
    size_t cap_labels;
};

static bool app_char(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '/';
}

static bool key_char(uint8_t c)
{
    return app_char(c) && c != '-' && c != '/';
}

/* The whole UTF-8 character that begins at `at`, for the message. */
static struct fg_slice character(struct fg_slice text, size_t at)
{
    size_t len = 1;

    while (at + len < text.len && (text.ptr[at + len] & 0xc0) == 0x80)
        len++;
    return fg_slice_sub(text, at, len);
}

static enum fg_code check_characters(struct fg_slice text, bool (*allowed)(uint8_t c),
                                     const char *what, struct fg_err *err)
{
    if (text.len == 0)
        return fg_fail(err, FG_E_INVALID, "name: %s name is required", what);
    for (size_t i = 0; i < text.len; i++)
        if (!allowed(text.ptr[i]))
            return fg_fail(err, FG_E_INVALID,
                           "name: invalid %s name: %.*s: character is not allowed: '%.*s'", what,
                           FG_S(fg_slice_sub(text, 0, 200)), FG_S(character(text, i)));
    return FG_OK;
}

static enum fg_code add_label(struct name_parser *parser, struct fg_slice key,
                              struct fg_slice value, struct fg_err *err)
{
    struct fg_labels *labels = &parser->name->labels;

    key = fg_trim(key);
    value = fg_trim(value);
    if (check_characters(key, key_char, "label", err) != FG_OK)
        return err->code;
    /* __name__ among the labels replaces the name before the brace. */
    if (fg_slice_is(key, FG_LABEL_NAME)) {
        parser->name->app = value;
        return FG_OK;
    }
    if (fg_slice_starts(key, "__") && !fg_slice_is(key, LABEL_SESSION)) /* ours to give */
        return FG_OK;
    if (labels->count == parser->cap_labels) {
        /* The old array stays in the arena until the request ends; doubling bounds the waste to the
         * final size. */
        size_t cap = FG_MAX(16, parser->cap_labels * 2);
        struct fg_label *items = fg_arena_new(parser->arena, struct fg_label, cap);

        if (items == NULL)
            return fg_fail(err, FG_E_INVALID, "name: too many labels");
        if (labels->count > 0)
            memcpy(items, labels->items, labels->count * sizeof *items);
        labels->items = items;
        parser->cap_labels = cap;
    }
    labels->items[labels->count++] = (struct fg_label){key, value};
    return FG_OK;
}

/* Where one of the two bytes stands first, or SIZE_MAX. */
static size_t find_either(struct fg_slice text, uint8_t a, uint8_t b)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == a || text.ptr[i] == b)
            return i;
    return SIZE_MAX;
}

/* What follows the brace: key=value up to ',' or '}', until a '}' ends a key or the text ends. */
static enum fg_code parse_labels(struct name_parser *parser, struct fg_slice rest,
                                 struct fg_err *err)
{
    for (;;) {
        size_t key_end = find_either(rest, '=', '}');
        struct fg_slice key = fg_slice_sub(rest, 0, key_end);
        size_t value_end;

        if (key_end == SIZE_MAX || rest.ptr[key_end] == '}')
            return FG_OK;
        rest = fg_slice_sub(rest, key_end + 1, rest.len);
        value_end = find_either(rest, ',', '}');
        if (value_end == SIZE_MAX)
            return FG_OK; /* never closed: dropped */
        if (add_label(parser, key, fg_slice_sub(rest, 0, value_end), err) != FG_OK)
            return err->code;
        rest = fg_slice_sub(rest, value_end + 1, rest.len);
    }
}

enum fg_code dist_app_name_parse(struct fg_slice text, struct fg_arena *arena,
                                 struct dist_app_name *ret_name, struct fg_err *err)
{
    struct dist_app_name name = {0};
    struct name_parser parser = {.arena = arena, .name = &name};
    size_t brace = fg_slice_find(text, '{');

    if (text.len > NAME_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "name: longer than %d bytes", NAME_MAX_BYTES);
    name.app = fg_trim(fg_slice_sub(text, 0, brace));
    if (check_characters(name.app, app_char, "service", err) != FG_OK)
        return err->code;
    if (brace != SIZE_MAX &&
        parse_labels(&parser, fg_slice_sub(text, brace + 1, text.len), err) != FG_OK)
        return err->code;
    *ret_name = name;
    return FG_OK;
}

/* ---- kinds ---- */

/* clang-format off */
static const struct {
    const char *suffix, *name, *type, *unit;
    bool timed;
} kinds[] = {
    {"cpu",                           "process_cpu", "cpu",  "nanoseconds", true},
    {"itimer",                        "process_cpu", "cpu",  "nanoseconds", true},
    {"wall",                          "wall",        "wall", "nanoseconds", true},
    {"seconds",                       "wall",        "wall", "nanoseconds", true},
    {"milliseconds",                  "wall",        "wall", "nanoseconds", true},
    {"microseconds",                  "wall",        "wall", "nanoseconds", true},
    {"nanoseconds",                   "wall",        "wall", "nanoseconds", true},
    {"inuse_objects",                 "memory",      "inuse_objects", "count", false},
    {"alloc_objects",                 "memory",      "alloc_objects", "count", false},
    {"inuse_space",                   "memory",      "inuse_space",   "bytes", false},
    {"alloc_space",                   "memory",      "alloc_space",   "bytes", false},
    {"goroutines",                    "goroutine",   "goroutines",    "count", false},
    {"mutex_count",                   "mutex",       "contentions",   "count", false},
    {"mutex_duration",                "mutex",       "delay",         "nanoseconds", false},
    {"block_count",                   "block",       "contentions",   "count", false},
    {"lock_count",                    "block",       "contentions",   "count", false},
    {"block_duration",                "block",       "delay",         "nanoseconds", false},
    {"lock_duration",                 "block",       "delay",         "nanoseconds", false},
    {"alloc_in_new_tlab_objects",     "memory",      "alloc_in_new_tlab_objects",  "count", false},
    {"alloc_outside_tlab_objects",    "memory",      "alloc_outside_tlab_objects", "count", false},
    {"alloc_in_new_tlab_bytes",       "memory",      "alloc_in_new_tlab_bytes",    "bytes", false},
    {"alloc_outside_tlab_bytes",      "memory",      "alloc_outside_tlab_bytes",   "bytes", false},
    {"live",                          "memory",      "live",    "count", false},
    {"exceptions",                    "exceptions",  "samples", "count", false},
    {"bytes",                         "memory",      "samples", "bytes", false},
};
/* clang-format on */

enum fg_code dist_app_kind_parse(struct fg_slice app, uint32_t sample_rate,
                                 struct dist_app_kind *ret_kind, struct fg_err *err)
{
    const uint8_t *dot = app.len == 0 ? NULL : memrchr(app.ptr, '.', app.len);
    size_t at = dot == NULL ? app.len : (size_t)(dot - app.ptr);
    struct fg_slice suffix = dot == NULL ? FG_LIT("cpu") : fg_slice_sub(app, at + 1, app.len);

    for (size_t i = 0; i < FG_COUNT(kinds); i++) {
        if (!fg_slice_is(suffix, kinds[i].suffix))
            continue;
        *ret_kind = (struct dist_app_kind){fg_slice_sub(app, 0, at), kinds[i].name, kinds[i].type,
                                           kinds[i].unit, kinds[i].timed};
        /* Without a rate a count of samples is no time: it stays a count. */
        if (kinds[i].timed && sample_rate == 0) {
            ret_kind->type = "samples";
            ret_kind->unit = "count";
            ret_kind->timed = false;
        }
        return FG_OK;
    }
    return fg_fail(err, FG_E_INVALID, "unknown profile type: %.*s",
                   FG_S(fg_slice_sub(suffix, 0, 200)));
}
