/*
 * Which files of a folder an interrupted push --dir has sent already: a file with a line for each,
 * appended as they are acknowledged.
 *
 *   flamegrid push --dir 1 http://127.0.0.1:4040 DIR
 *   <bytes> <modified, ns> <path>
 *
 * A file that changed since is sent again, and so is one whose line was cut short: that is no harm,
 * the server counts a profile once.
 */
#ifndef FG_DEPLOY_CLI_PUSH_RESUME_H
#define FG_DEPLOY_CLI_PUSH_RESUME_H

#include "common/base/err.h"

#include <sys/stat.h>

struct cli_resume;

/* Reads the file if it is there, else makes it. FG_E_INVALID: it is of another folder or server, or
 * no such file. */
enum fg_code cli_resume_open(const char *file, const char *url, const char *dir,
                             struct cli_resume **ret_resume, struct fg_err *err) fg_must_check;

/* Was the file sent, as it is now? */
bool cli_resume_has(const struct cli_resume *resume, const char *path, const struct stat *now);

/* Notes a file as sent. One thread at a time. */
void cli_resume_note(struct cli_resume *resume, const char *path, uint64_t bytes,
                     int64_t modified_ns);

/* complete: nothing is left to resume, so the file goes. FG_E_UNAVAILABLE: notes could not be
 * written, so that what they lack will be sent again. Accepts NULL. */
enum fg_code cli_resume_close(struct cli_resume *resume, bool complete, struct fg_err *err);

/* When the file was last modified. */
int64_t cli_resume_modified_ns(const struct stat *file);

#endif
