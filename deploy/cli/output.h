/* Writes results to a file, or to standard output if path is NULL. */
#ifndef FG_DEPLOY_CLI_OUTPUT_H
#define FG_DEPLOY_CLI_OUTPUT_H

#include "common/base/err.h"
#include "common/base/slice.h"

/* Writes the bytes. Fails with the system's error, for example of a full disk; a part of the file
 * may exist then. */
enum fg_code cli_output_write(const char *path, struct fg_slice bytes,
                              struct fg_err *err) fg_must_check;

/* Writes the bytes in gzip form. */
enum fg_code cli_output_write_gzip(const char *path, struct fg_slice bytes,
                                   struct fg_err *err) fg_must_check;

#endif
