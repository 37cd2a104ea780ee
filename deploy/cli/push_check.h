/*
 * Checks before a push: of the name, which must mean the same to the server as to its reader, and
 * of the content, because the server accepts text without any stack as an empty profile.
 */
#ifndef FG_DEPLOY_CLI_PUSH_CHECK_H
#define FG_DEPLOY_CLI_PUSH_CHECK_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/model/labels.h"

struct cli_push_name {
    struct fg_slice name; /* before the braces */
    struct fg_labels labels;
};

/*
 * Parses NAME or NAME{label=value,other="value"}, with or without quotes; in quotes \" and \\ are
 * one character each. Everything lives in the arena. FG_E_INVALID: another form, or a value that
 * /ingest cannot take: with , or } in it, or blanks around it.
 */
enum fg_code cli_push_name_parse(const char *text, struct fg_arena *arena,
                                 struct cli_push_name *ret_name, struct fg_err *err) fg_must_check;

/* Appends it as the parameter `name` of /ingest, which has no quotes. */
void cli_push_name_write(const struct cli_push_name *name, struct fg_buf *out);

/* Appends it as the SELECTOR of flamegrid query. typed: the last dot may begin a type, as with
 * text, so the name is written in full. */
void cli_push_name_write_selector(const struct cli_push_name *name, bool typed, struct fg_buf *out);

/*
 * Checks that the content looks like a profile of that format. FG_E_INVALID: what is wrong.
 * *ret_time_ns: the time in the profile, or 0.
 */
enum fg_code cli_push_content_check(const char *format, struct fg_slice content,
                                    int64_t *ret_time_ns, struct fg_err *err) fg_must_check;

#endif
