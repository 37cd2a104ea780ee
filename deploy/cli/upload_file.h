/* A file to push: its bytes, and its format by name and content. */
#ifndef FG_DEPLOY_CLI_UPLOAD_FILE_H
#define FG_DEPLOY_CLI_UPLOAD_FILE_H

#include "common/base/buf.h"
#include "common/base/err.h"

enum { UPLOAD_FILE_MAX_BYTES = 256 * 1024 * 1024 }; /* servers take far less; they say how much */

/* Appends the whole file; "-" is standard input. FG_E_LIMIT: it does not fit into out; else the
 * system's error. */
enum fg_code cli_upload_file_read(const char *path, struct fg_buf *out,
                                  struct fg_err *err) fg_must_check;

/*
 * Returns the value of /ingest's `format`: "pprof" for gzip, .pb, .pprof and bytes that are no
 * text; "lines" for .lines; "jfr" for .jfr; else "folded".
 */
const char *cli_upload_file_format(const char *path, struct fg_slice content);

/* Returns true if /ingest knows the format. It takes unknown ones as "folded", so they are refused
 * here. */
bool cli_upload_file_is_format(const char *format);

#endif
