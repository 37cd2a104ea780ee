/* A file to push: its bytes. proto/file_format.h tells its format. */
#ifndef FG_DEPLOY_CLI_UPLOAD_FILE_H
#define FG_DEPLOY_CLI_UPLOAD_FILE_H

#include "common/base/buf.h"
#include "common/base/err.h"

enum { UPLOAD_FILE_MAX_BYTES = 256 * 1024 * 1024 }; /* servers take far less; they say how much */

/* Appends the whole file; "-" is standard input. FG_E_LIMIT: it does not fit into out; else the
 * system's error. */
enum fg_code cli_upload_file_read(const char *path, struct fg_buf *out,
                                  struct fg_err *err) fg_must_check;

#endif
