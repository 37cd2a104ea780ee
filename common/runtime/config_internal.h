/* What the files of config share; nobody else includes this. */
#ifndef FG_COMMON_RUNTIME_CONFIG_INTERNAL_H
#define FG_COMMON_RUNTIME_CONFIG_INTERNAL_H

#include "common/runtime/config.h"

enum { FG_CONF_PATH_MAX_BYTES = 256 }; /* "section.key"; ours have thirty */
#define FG_CONF_ENV_PREFIX "FG_"

/* How a setting is called by each source: log.level, FG_LOG_LEVEL, --log.level. */
enum fg_conf_style { FG_CONF_STYLE_YAML, FG_CONF_STYLE_ENV, FG_CONF_STYLE_FLAG };

/* One setting: a field and the section it is in. */
struct fg_conf_at {
    const struct fg_conf_section *section;
    const struct fg_conf_field *field; /* NULL: no such setting */
};

/* "section.key", or "key" of a section without a name. */
void fg_conf_path(const struct fg_conf_at *at, struct fg_buf *out);

/* The same as that source writes it, without the prefix. */
void fg_conf_styled_path(const struct fg_conf_at *at, enum fg_conf_style style, struct fg_buf *out);

/* The setting of that path, false when there is none. */
bool fg_conf_find(const struct fg_conf *conf, struct fg_slice path, struct fg_conf_at *ret_at);

/* Is it a setting of another program, or a section of such? Not if it is one of this program. */
bool fg_conf_is_other(const struct fg_conf *conf, struct fg_slice path);

/* Is there a setting below that path? */
bool fg_conf_is_section(const struct fg_conf *conf, struct fg_slice path);

/*
 * FG_E_INVALID: unknown key "<path>"<where>; did you mean "<the nearest>"?
 * The path is without the style's prefix; where is text like " at file.yaml:3".
 */
enum fg_code fg_conf_unknown(const struct fg_conf *conf, struct fg_slice path,
                             enum fg_conf_style style, const char *where, struct fg_err *err);

/*
 * Parses the text, checks the bounds and stores the value. where says, in an error, where the text
 * stands ("file.yaml:4", "--log.level"). What was there before is replaced only on success.
 */
enum fg_code fg_conf_set(const struct fg_conf_at *at, struct fg_slice text, const char *where,
                         struct fg_err *err) fg_must_check;

/* The value as a user would write it, so that fg_conf_set() gives it back; secrets as they are. */
void fg_conf_print(const struct fg_conf_at *at, struct fg_buf *out);

/* Frees what the setting owns. */
void fg_conf_free(const struct fg_conf_at *at);

/* Is it stored as text? */
bool fg_conf_is_text(const struct fg_conf_field *field);

/* "bytes", "duration", "debug|info|warn|error" ... */
const char *fg_conf_type_name(const struct fg_conf_field *field);

#endif
