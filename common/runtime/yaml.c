#include "common/runtime/yaml.h"

#include <stdarg.h>

enum fg_code fg_yaml_init(struct fg_yaml *yaml, struct fg_slice text, const char *name,
                          struct fg_err *err)
{
    if (text.len > FG_YAML_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "%.128s is larger than 1 MiB", name);
    *yaml = (struct fg_yaml){.name = name, .err = err};
    fg_assert(yaml_parser_initialize(&yaml->parser)); /* fails only without memory */
    yaml_parser_set_encoding(&yaml->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml->parser, text.len == 0 ? (const uint8_t *)"" : text.ptr,
                                 text.len);
    return FG_OK;
}

void fg_yaml_done(struct fg_yaml *yaml)
{
    yaml_event_delete(&yaml->event);
    yaml_parser_delete(&yaml->parser);
}

enum fg_code fg_yaml_refuse(struct fg_yaml *yaml, const char *fmt, ...)
{
    char what[FG_ERR_MSG_MAX_BYTES / 2];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return fg_fail(yaml->err, FG_E_INVALID, "%s at %.128s:%zu", what, yaml->name, yaml->line);
}

/* Aliases let a short file expand to gigabytes, and tags let it choose types; settings need
 * neither. */
static const char *forbidden(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return "an alias";
    case YAML_SEQUENCE_START_EVENT:
        if (event->data.sequence_start.anchor != NULL)
            return "an anchor";
        return event->data.sequence_start.tag != NULL ? "a tag" : NULL;
    case YAML_SCALAR_EVENT:
        if (event->data.scalar.anchor != NULL)
            return "an anchor";
        return event->data.scalar.tag != NULL ? "a tag" : NULL;
    case YAML_MAPPING_START_EVENT:
        if (event->data.mapping_start.anchor != NULL)
            return "an anchor";
        return event->data.mapping_start.tag != NULL ? "a tag" : NULL;
    default:
        return NULL;
    }
}

enum fg_code fg_yaml_next(struct fg_yaml *yaml)
{
    const char *what;

    yaml_event_delete(&yaml->event);
    if (!yaml_parser_parse(&yaml->parser, &yaml->event)) {
        memset(&yaml->event, 0, sizeof yaml->event);
        yaml->line = yaml->parser.problem_mark.line + 1;
        return fg_yaml_refuse(yaml, "%s",
                              yaml->parser.problem == NULL ? "not YAML" : yaml->parser.problem);
    }
    yaml->line = yaml->event.start_mark.line + 1;
    what = forbidden(&yaml->event);
    return what == NULL ? FG_OK : fg_yaml_refuse(yaml, "%s is not a setting", what);
}

struct fg_slice fg_yaml_scalar(const struct fg_yaml *yaml)
{
    return fg_bytes(yaml->event.data.scalar.value, yaml->event.data.scalar.length);
}

bool fg_yaml_is_nothing(const struct fg_yaml *yaml)
{
    return yaml->event.type == YAML_SCALAR_EVENT &&
           yaml->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (fg_slice_is(fg_yaml_scalar(yaml), "") || fg_slice_is(fg_yaml_scalar(yaml), "~") ||
            fg_slice_is(fg_yaml_scalar(yaml), "null"));
}
