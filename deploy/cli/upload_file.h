/* A file to push: its bytes and what it is by name and content. */
#ifndef FG_DEPLOY_CLI_UPLOAD_FILE_H
#define FG_DEPLOY_CLI_UPLOAD_FILE_H

#include "common/base/buf.h"
#include "common/base/err.h"

enum { UPLOAD_FILE_MAX_BYTES = 256 * 1024 * 1024 }; /* servers take far less; they say how much */

/* Appends the whole file; "-" is standard input. FG_E_LIMIT: it has no room in out; or what the
 * system says. */
enum fg_code cli_upload_file_read(const char *path, struct fg_buf *out,
                                  struct fg_err *err) fg_must_check;

/*
 * The value of /ingest's `format`: "pprof" for gzip, .pb, .pprof and bytes that are no text;
 * "lines" for .lines; "jfr" for .jfr; else "folded".
 */
const char *cli_upload_file_format(const char *path, struct fg_slice content);

/* Is it one that /ingest knows? It takes any other one for "folded", which we would rather refuse.
 */
bool cli_upload_file_is_format(const char *format);

#endif
