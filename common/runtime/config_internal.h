/* Internals that the files of config share. */
#ifndef FG_COMMON_RUNTIME_CONFIG_INTERNAL_H
#define FG_COMMON_RUNTIME_CONFIG_INTERNAL_H

#include "common/runtime/config.h"

enum {
    FG_CONF_PATH_MAX_BYTES = 256, /* "section.key"; ours have thirty */
    FG_CONF_VALUE_MAX_BYTES = 8,  /* in the struct: a number or a pointer */
};
#define FG_CONF_ENV_PREFIX "FG_"

/* How each source spells a setting: log.level, FG_LOG_LEVEL, --log.level. */
enum fg_conf_style { FG_CONF_STYLE_YAML, FG_CONF_STYLE_ENV, FG_CONF_STYLE_FLAG };

/* One setting: a field and the section it is in. */
struct fg_conf_at {
    const struct fg_conf_section *section;
    const struct fg_conf_field *field; /* NULL: no such setting */
};

/* Appends "section.key", or "key" if the section has no name. */
void fg_conf_path(const struct fg_conf_at *at, struct fg_buf *out);

/* Appends the same as that source spells it, without the prefix. */
void fg_conf_styled_path(const struct fg_conf_at *at, enum fg_conf_style style, struct fg_buf *out);

/* Finds the setting of that path. Returns false if there is none. */
bool fg_conf_find(const struct fg_conf *conf, struct fg_slice path, struct fg_conf_at *ret_at);

/* Returns whether it is a setting, or a section of settings, that only other programs have. */
bool fg_conf_is_other(const struct fg_conf *conf, struct fg_slice path);

/* Returns whether there is a setting below that path. */
bool fg_conf_is_section(const struct fg_conf *conf, struct fg_slice path);

/*
 * Sets FG_E_INVALID: unknown key "<path>"<where>; did you mean "<the nearest>"?
 * The path is without the style's prefix; where is text like " at file.yaml:3".
 */
enum fg_code fg_conf_unknown(const struct fg_conf *conf, struct fg_slice path,
                             enum fg_conf_style style, const char *where, struct fg_err *err);

/*
 * Parses the text, checks the bounds and stores the value. `where` names the place of the text in
 * errors ("file.yaml:4", "--log.level"). Replaces the old value only on success.
 */
enum fg_code fg_conf_set(const struct fg_conf_at *at, struct fg_slice text, const char *where,
                         struct fg_err *err) fg_must_check;

/* Appends the value in the form that fg_conf_set() reads. Secrets are not masked. */
void fg_conf_print(const struct fg_conf_at *at, struct fg_buf *out);

/* Frees the memory of the setting. */
void fg_conf_free(const struct fg_conf_at *at);

/* Returns whether the value is stored as text. */
bool fg_conf_is_text(const struct fg_conf_field *field);

/* Returns the type for documentation: "bytes", "duration", "debug|info|warn|error", ... */
const char *fg_conf_type_name(const struct fg_conf_field *field);

#endif
