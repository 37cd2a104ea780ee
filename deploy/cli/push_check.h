/*
 * What push looks at before it sends: the name, which has to mean to the server what it means to
 * people, and the content, since the server takes text without a single stack for an empty profile.
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
 * NAME, NAME{label=value,other="value"}: with quotes, in which \" and \\ are one character each, or
 * without; both mean the same. All in the arena. FG_E_INVALID: written otherwise, or with a value
 * that /ingest cannot be told: with , or } in it, or blanks around it.
 */
enum fg_code cli_push_name_parse(const char *text, struct fg_arena *arena,
                                 struct cli_push_name *ret_name, struct fg_err *err) fg_must_check;

/* As the parameter `name` of /ingest, which has no quotes. */
void cli_push_name_write(const struct cli_push_name *name, struct fg_buf *out);

/* As the SELECTOR of flamegrid query: whole if a type may follow its last dot, as with text. */
void cli_push_name_write_selector(const struct cli_push_name *name, bool typed, struct fg_buf *out);

/*
 * Is the content a profile of that format, as far as a look tells? FG_E_INVALID says what is wrong.
 * *ret_time_ns: a time of its own, or 0.
 */
enum fg_code cli_push_content_check(const char *format, struct fg_slice content,
                                    int64_t *ret_time_ns, struct fg_err *err) fg_must_check;

#endif
