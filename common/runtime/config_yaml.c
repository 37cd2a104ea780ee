/*
 * Settings in YAML: maps of words to words. Lists, several documents and keys given twice are
 * refused with their line, because in a file of settings each of them is more likely a mistake than
 * a wish. Lists are fine in a setting that is YAML itself.
 */
#include "common/runtime/config_internal.h"
#include "common/runtime/yaml.h"

enum {
    YAML_DEPTH_MAX = 4,        /* maps in maps */
    YAML_VALUE_DEPTH_MAX = 16, /* of a value that is YAML itself */
};

struct yaml_reader {
    struct fg_yaml yaml;
    struct fg_conf *conf;
    struct fg_buf path; /* of the map we are in: "store.cache" */
    struct fg_buf
        seen; /* every path met so far, each with a line end; only known ones: it is short */
};

static bool is_list(const struct yaml_reader *reader)
{
    return reader->yaml.event.type == YAML_SEQUENCE_START_EVENT;
}

static enum fg_code next(struct yaml_reader *reader)
{
    if (fg_yaml_next(&reader->yaml) != FG_OK)
        return reader->yaml.err->code;
    return is_list(reader) ? fg_yaml_refuse(&reader->yaml, "expected a setting, found a list")
                           : FG_OK;
}

/* Appends the key of the current event to the path; the path's length before is for leaving again.
 */
static enum fg_code enter(struct yaml_reader *reader)
{
    struct fg_slice key;

    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return fg_yaml_refuse(&reader->yaml, "expected a key, found a map");
    key = fg_yaml_scalar(&reader->yaml);
    if (key.len == 0 || fg_slice_find(key, '\n') != SIZE_MAX ||
        fg_slice_find(key, '\0') != SIZE_MAX)
        return fg_yaml_refuse(&reader->yaml, "a key that is not a word");
    if (reader->path.len > 0)
        fg_buf_putc(&reader->path, '.');
    fg_buf_put(&reader->path, key);
    return reader->path.full ? fg_yaml_refuse(&reader->yaml, "a key of %zu bytes", key.len) : FG_OK;
}

static void leave(struct yaml_reader *reader, size_t len)
{
    reader->path.len = len;
}

/* True if the path was met before. If not, notes it. */
static bool seen_before(struct yaml_reader *reader)
{
    struct fg_slice path = fg_buf_slice(&reader->path), rest = fg_buf_slice(&reader->seen);

    while (rest.len > 0) {
        size_t end = fg_slice_find(rest, '\n');

        if (fg_slice_eq(fg_slice_sub(rest, 0, end), path))
            return true;
        rest = fg_slice_sub(rest, end + 1, rest.len);
    }
    fg_buf_put(&reader->seen, path);
    fg_buf_putc(&reader->seen, '\n');
    return false;
}

static enum fg_code unknown(struct yaml_reader *reader, size_t line)
{
    char where[FG_CONF_PATH_MAX_BYTES];

    (void)snprintf(where, sizeof where, " at %.128s:%zu", reader->yaml.name, line);
    return fg_conf_unknown(reader->conf, fg_buf_slice(&reader->path), FG_CONF_STYLE_YAML, where,
                           reader->yaml.err);
}

/* ---- values that are YAML themselves ---- */

static int append_text(void *out, unsigned char *text, size_t len)
{
    fg_buf_append(out, text, len);
    return 1;
}

/* Returns how an event changes the depth of nesting. */
static int deeper(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return 1;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return -1;
    default:
        return 0;
    }
}

/* Skips to the end of the current value. */
static enum fg_code skip_value(struct yaml_reader *reader)
{
    int depth = 0;

    for (;;) {
        depth += deeper(&reader->yaml.event);
        if (depth > YAML_VALUE_DEPTH_MAX)
            return fg_yaml_refuse(&reader->yaml, "lists and maps nested deeper than %d",
                                  YAML_VALUE_DEPTH_MAX);
        if (depth == 0)
            return FG_OK;
        if (fg_yaml_next(&reader->yaml) != FG_OK)
            return reader->yaml.err->code;
    }
}

/* From the current event to the end of its value. */
static enum fg_code copy_value(struct yaml_reader *reader, yaml_emitter_t *emitter)
{
    int depth = 0;

    for (;;) {
        depth += deeper(&reader->yaml.event);
        if (depth > YAML_VALUE_DEPTH_MAX)
            return fg_yaml_refuse(&reader->yaml, "lists and maps nested deeper than %d",
                                  YAML_VALUE_DEPTH_MAX);
        fg_assert(
            yaml_emitter_emit(emitter, &reader->yaml.event)); /* takes it; fails without memory */
        memset(&reader->yaml.event, 0, sizeof reader->yaml.event);
        if (depth == 0)
            return FG_OK;
        if (fg_yaml_next(&reader->yaml) != FG_OK)
            return reader->yaml.err->code;
    }
}

/* Copies the current value, a list or map, as a document of its own. */
static enum fg_code write_value(struct yaml_reader *reader, struct fg_buf *out)
{
    yaml_emitter_t emitter;
    yaml_event_t event;
    enum fg_code code;

    fg_assert(yaml_emitter_initialize(&emitter));
    yaml_emitter_set_output(&emitter, append_text, out);
    yaml_emitter_set_unicode(&emitter, 1);
    fg_assert(yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
              yaml_emitter_emit(&emitter, &event));
    fg_assert(yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
              yaml_emitter_emit(&emitter, &event));
    code = copy_value(reader, &emitter);
    if (code == FG_OK) {
        fg_assert(yaml_document_end_event_initialize(&event, 1) &&
                  yaml_emitter_emit(&emitter, &event));
        fg_assert(yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(&emitter, &event));
    }
    yaml_emitter_delete(&emitter);
    return code;
}

static enum fg_code set_value(struct yaml_reader *reader, const struct fg_conf_at *at,
                              const char *where)
{
    struct fg_buf text;
    enum fg_code code;

    fg_buf_init(&text, FG_YAML_MAX_BYTES * (size_t)4);
    code = write_value(reader, &text);
    if (code == FG_OK)
        code = text.full ? fg_yaml_refuse(&reader->yaml, "a value of more than %d bytes",
                                          FG_YAML_MAX_BYTES)
                         : fg_conf_set(at, fg_buf_slice(&text), where, reader->yaml.err);
    fg_buf_done(&text);
    return code;
}

static enum fg_code set_here(struct yaml_reader *reader, const struct fg_conf_at *at)
{
    char where[FG_CONF_PATH_MAX_BYTES];

    (void)snprintf(where, sizeof where, "%.128s:%zu", reader->yaml.name, reader->yaml.line);
    if (at->field->type == FG_CONF_YAML && reader->yaml.event.type != YAML_SCALAR_EVENT)
        return set_value(reader, at, where);
    if (is_list(reader))
        return fg_yaml_refuse(&reader->yaml, "%.*s: expected a value, found a list",
                              FG_S(fg_buf_slice(&reader->path)));
    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return fg_yaml_refuse(&reader->yaml, "%.*s: expected a value, found a map",
                              FG_S(fg_buf_slice(&reader->path)));
    return fg_conf_set(at, fg_yaml_scalar(&reader->yaml), where, reader->yaml.err);
}

static enum fg_code read_map(struct yaml_reader *reader, unsigned depth);

/* The event is the value of the path. */
static enum fg_code read_section(struct yaml_reader *reader, unsigned depth)
{
    if (fg_yaml_is_nothing(&reader->yaml))
        return FG_OK;
    if (reader->yaml.event.type != YAML_MAPPING_START_EVENT)
        return fg_yaml_refuse(&reader->yaml, "%.*s: expected a map, found a value",
                              FG_S(fg_buf_slice(&reader->path)));
    if (depth == 0)
        return fg_yaml_refuse(&reader->yaml, "maps nested deeper than %d", YAML_DEPTH_MAX);
    return read_map(reader, depth - 1);
}

/* The event is a key; reads up to the end of its value. */
static enum fg_code read_pair(struct yaml_reader *reader, unsigned depth)
{
    size_t outside = reader->path.len, line = reader->yaml.line;
    struct fg_conf_at at = {NULL, NULL};
    struct fg_slice path;
    enum fg_code code;
    bool is_setting, is_other;

    if (enter(reader) != FG_OK)
        return reader->yaml.err->code;
    path = fg_buf_slice(&reader->path);
    is_setting = fg_conf_find(reader->conf, path, &at);
    is_other = fg_conf_is_other(reader->conf, path);
    if (!is_setting && !is_other && !fg_conf_is_section(reader->conf, path))
        return unknown(reader, line);
    if (seen_before(reader))
        return fg_yaml_refuse(&reader->yaml, "%.*s is set a second time", FG_S(path));
    if (fg_yaml_next(&reader->yaml) != FG_OK)
        return reader->yaml.err->code;
    if (is_setting)
        code = set_here(reader, &at);
    else
        code = is_other ? skip_value(reader) : read_section(reader, depth);
    leave(reader, outside);
    return code;
}

/* The event is the start of a map; reads up to its end. */
static enum fg_code read_map(struct yaml_reader *reader, unsigned depth)
{
    for (;;) {
        if (next(reader) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_MAPPING_END_EVENT)
            return FG_OK;
        if (read_pair(reader, depth) != FG_OK)
            return reader->yaml.err->code;
    }
}

/* The event is the start of the document. */
static enum fg_code read_document(struct yaml_reader *reader)
{
    if (next(reader) != FG_OK)
        return reader->yaml.err->code;
    if (reader->yaml.event.type != YAML_MAPPING_START_EVENT && !fg_yaml_is_nothing(&reader->yaml))
        return fg_yaml_refuse(&reader->yaml, "expected a map of settings, found a value");
    if (reader->yaml.event.type == YAML_MAPPING_START_EVENT &&
        read_map(reader, YAML_DEPTH_MAX - 1) != FG_OK)
        return reader->yaml.err->code;
    return next(reader); /* the document's end */
}

static enum fg_code read_stream(struct yaml_reader *reader)
{
    bool had_document = false;

    if (next(reader) != FG_OK) /* the stream's start */
        return reader->yaml.err->code;
    for (;;) {
        if (next(reader) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_STREAM_END_EVENT)
            return FG_OK;
        if (had_document)
            return fg_yaml_refuse(&reader->yaml, "a second document");
        had_document = true;
        if (read_document(reader) != FG_OK)
            return reader->yaml.err->code;
    }
}

static enum fg_code start_reading(struct yaml_reader *reader, struct fg_slice text,
                                  const char *name, struct fg_err *err)
{
    if (fg_yaml_init(&reader->yaml, text, name, err) != FG_OK)
        return err->code;
    fg_buf_init(&reader->path, FG_CONF_PATH_MAX_BYTES);
    fg_buf_init(&reader->seen, (size_t)FG_YAML_MAX_BYTES * 4);
    return FG_OK;
}

static void end_reading(struct yaml_reader *reader)
{
    fg_yaml_done(&reader->yaml);
    fg_buf_done(&reader->path);
    fg_buf_done(&reader->seen);
}

enum fg_code fg_conf_parse_yaml(struct fg_conf *conf, struct fg_slice yaml, const char *name,
                                struct fg_err *err)
{
    struct yaml_reader reader = {.conf = conf};
    enum fg_code code;

    if (start_reading(&reader, yaml, name, err) != FG_OK)
        return err->code;
    code = read_stream(&reader);
    end_reading(&reader);
    return code;
}

/* ---- keys of a map that the user names ---- */

struct keys {
    const char *map;
    void (*each)(struct fg_slice key, void *arg);
    void *arg;
};

/* The event is the start of a map; tells of its keys. */
static enum fg_code read_keys(struct yaml_reader *reader, const struct keys *keys)
{
    for (;;) {
        size_t outside = reader->path.len;

        if (next(reader) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_MAPPING_END_EVENT)
            return FG_OK;
        if (enter(reader) != FG_OK)
            return reader->yaml.err->code;
        if (seen_before(reader))
            return fg_yaml_refuse(&reader->yaml, "%.*s is set a second time",
                                  FG_S(fg_buf_slice(&reader->path)));
        leave(reader, outside);
        keys->each(fg_yaml_scalar(&reader->yaml), keys->arg);
        if (fg_yaml_next(&reader->yaml) != FG_OK || skip_value(reader) != FG_OK)
            return reader->yaml.err->code;
    }
}

/* The event is the start of the map at the top. */
static enum fg_code read_top(struct yaml_reader *reader, const struct keys *keys)
{
    if (next(reader) != FG_OK)
        return reader->yaml.err->code;
    if (reader->yaml.event.type == YAML_MAPPING_END_EVENT)
        return FG_OK;
    if (reader->yaml.event.type != YAML_SCALAR_EVENT ||
        !fg_slice_is(fg_yaml_scalar(&reader->yaml), keys->map))
        return fg_yaml_refuse(&reader->yaml, "unknown key; only \"%s\" is allowed here", keys->map);
    if (enter(reader) != FG_OK || next(reader) != FG_OK)
        return reader->yaml.err->code;
    if (!fg_yaml_is_nothing(&reader->yaml)) {
        if (reader->yaml.event.type != YAML_MAPPING_START_EVENT)
            return fg_yaml_refuse(&reader->yaml, "%s: expected a map, found a value", keys->map);
        if (read_keys(reader, keys) != FG_OK)
            return reader->yaml.err->code;
    }
    if (next(reader) != FG_OK)
        return reader->yaml.err->code;
    return reader->yaml.event.type == YAML_MAPPING_END_EVENT
               ? FG_OK
               : fg_yaml_refuse(&reader->yaml, "unknown key; only \"%s\" is allowed here",
                                keys->map);
}

static enum fg_code read_keys_document(struct yaml_reader *reader, const struct keys *keys)
{
    for (;;) {
        if (next(reader) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_STREAM_END_EVENT)
            return FG_OK;
        if (reader->yaml.event.type == YAML_MAPPING_START_EVENT && read_top(reader, keys) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_SCALAR_EVENT && !fg_yaml_is_nothing(&reader->yaml))
            return fg_yaml_refuse(&reader->yaml, "expected a map of settings, found a value");
    }
}

enum fg_code fg_conf_yaml_keys(struct fg_slice yaml, const char *name, const char *map,
                               void (*each)(struct fg_slice key, void *arg), void *arg,
                               struct fg_err *err)
{
    struct yaml_reader reader = {0};
    const struct keys keys = {map, each, arg};
    enum fg_code code;

    if (start_reading(&reader, yaml, name, err) != FG_OK)
        return err->code;
    code = read_keys_document(&reader, &keys);
    end_reading(&reader);
    return code;
}
