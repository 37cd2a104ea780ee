/*
 * YAML as settings use it, event by event (libyaml's, yaml.h). What makes YAML surprising and is
 * more likely a mistake than a wish is refused with its line: aliases, anchors and tags here, what
 * else does not fit by the reader.
 */
#ifndef FG_COMMON_RUNTIME_YAML_H
#define FG_COMMON_RUNTIME_YAML_H

#include "common/base/err.h"
#include "common/base/slice.h"

#include <yaml.h>

enum { FG_YAML_MAX_BYTES = 1024 * 1024 }; /* ours have a few KiB; a wrong path may be anything */

struct fg_yaml {
    yaml_parser_t parser;
    yaml_event_t event; /* the last one */
    size_t line;        /* where it begins; what fg_yaml_refuse() names */
    const char *name;   /* of the text, for errors; borrowed */
    struct fg_err *err;
};

/* Borrows text, name and err until fg_yaml_done(), which is not needed after a failure.
 * FG_E_INVALID: longer than FG_YAML_MAX_BYTES. */
enum fg_code fg_yaml_init(struct fg_yaml *yaml, struct fg_slice text, const char *name,
                          struct fg_err *err) fg_must_check;
void fg_yaml_done(struct fg_yaml *yaml);

/* Replaces yaml->event by the next one. */
enum fg_code fg_yaml_next(struct fg_yaml *yaml) fg_must_check;

/* Of a scalar; good until the next event. */
struct fg_slice fg_yaml_scalar(const struct fg_yaml *yaml);

/* A value that is not there: "key:" and nothing behind it, ~ or null. */
bool fg_yaml_is_nothing(const struct fg_yaml *yaml);

/* FG_E_INVALID: "<what> at <name>:<line>". */
enum fg_code fg_yaml_refuse(struct fg_yaml *yaml, const char *fmt, ...) fg_printf(2, 3);

#endif
