/*
 * Reads the YAML of settings event by event (libyaml's events, yaml.h). It refuses aliases, anchors
 * and tags, with the line, because in settings they are more likely mistakes. Its users refuse all
 * else that they do not expect.
 */
#ifndef FG_COMMON_RUNTIME_YAML_H
#define FG_COMMON_RUNTIME_YAML_H

#include "common/base/err.h"
#include "common/base/slice.h"

#include <yaml.h>

enum {
    FG_YAML_MAX_BYTES = 1024 * 1024
}; /* settings have a few KiB; a wrong path may name any file */

struct fg_yaml {
    yaml_parser_t parser;
    yaml_event_t event; /* the last one */
    size_t line;        /* where it begins; what fg_yaml_refuse() names */
    const char *name;   /* of the text, for errors; borrowed */
    struct fg_err *err;
};

/* Begins to read. Borrows text, name and err until fg_yaml_done(), which is not needed after a
 * failure. FG_E_INVALID: longer than FG_YAML_MAX_BYTES. */
enum fg_code fg_yaml_init(struct fg_yaml *yaml, struct fg_slice text, const char *name,
                          struct fg_err *err) fg_must_check;
/* Frees the parser. */
void fg_yaml_done(struct fg_yaml *yaml);

/* Reads the next event into yaml->event. FG_E_INVALID: not YAML, or refused. */
enum fg_code fg_yaml_next(struct fg_yaml *yaml) fg_must_check;

/* Returns the text of a scalar, valid until the next event. */
struct fg_slice fg_yaml_scalar(const struct fg_yaml *yaml);

/* Returns whether the value is missing: "key:" without a value, ~ or null. */
bool fg_yaml_is_nothing(const struct fg_yaml *yaml);

/* Sets FG_E_INVALID: "<what> at <name>:<line>". */
enum fg_code fg_yaml_refuse(struct fg_yaml *yaml, const char *fmt, ...) fg_printf(2, 3);

#endif
