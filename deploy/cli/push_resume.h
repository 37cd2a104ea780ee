/*
 * Remembers which files of a folder an interrupted push --dir has sent: a file with a line for
 * each, appended as it is acknowledged.
 *
 *   flamegrid push --dir 1 http://127.0.0.1:4040 DIR
 *   <bytes> <modified, ns> <path>
 *
 * A file that has changed is sent again, and so is one whose line is truncated. That does no harm:
 * the server counts a profile once.
 */
#ifndef FG_DEPLOY_CLI_PUSH_RESUME_H
#define FG_DEPLOY_CLI_PUSH_RESUME_H

#include "common/base/err.h"

#include <sys/stat.h>

struct cli_resume;

/* Opens the file, or creates it. FG_E_INVALID: it belongs to another folder or server, or has
 * another content. */
enum fg_code cli_resume_open(const char *file, const char *url, const char *dir,
                             struct cli_resume **ret_resume, struct fg_err *err) fg_must_check;

/* Returns true if the file was sent in its current version. */
bool cli_resume_has(const struct cli_resume *resume, const char *path, const struct stat *now);

/* Notes a file as sent. One thread at a time. */
void cli_resume_note(struct cli_resume *resume, const char *path, uint64_t bytes,
                     int64_t modified_ns);

/* Closes it. complete: everything was sent, so the file is deleted. FG_E_UNAVAILABLE: lines could
 * not be written; their files will be sent again. Accepts NULL. */
enum fg_code cli_resume_close(struct cli_resume *resume, bool complete, struct fg_err *err);

/* Returns the time of the last modification. */
int64_t cli_resume_modified_ns(const struct stat *file);

#endif
