/* What a command writes: to a file, or to standard output where none is named (path NULL). */
#ifndef FG_DEPLOY_CLI_OUTPUT_H
#define FG_DEPLOY_CLI_OUTPUT_H

#include "common/base/err.h"
#include "common/base/slice.h"

/* What the system says, a full disk for example; of the file a part may be there then. */
enum fg_code cli_output_write(const char *path, struct fg_slice bytes,
                              struct fg_err *err) fg_must_check;

/* The same, gzip'ed. */
enum fg_code cli_output_write_gzip(const char *path, struct fg_slice bytes,
                                   struct fg_err *err) fg_must_check;

#endif
