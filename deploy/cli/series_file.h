/*
 * The file ".series" in a folder of profiles says whose they are: all labels of the series, written
 * as a selector, {__name__="process_cpu", service_name="shop"}. `bucket export --split` leaves one
 * in each folder, and `push --dir` sends what is in and below such a folder under these labels. It
 * is hidden, so who does not know it passes over it.
 */
#ifndef FG_DEPLOY_CLI_SERIES_FILE_H
#define FG_DEPLOY_CLI_SERIES_FILE_H

#include "common/model/labels.h"

#define SERIES_FILE ".series"

/* FG_E_LIMIT: more labels than a selector may have bytes; else what the system says. */
enum fg_code cli_series_file_write(const char *path, const struct fg_labels *labels,
                                   struct fg_err *err) fg_must_check;

/* In the arena, sorted. FG_E_NOT_FOUND: there is none. FG_E_INVALID: what is wrong with it. */
enum fg_code cli_series_file_read(const char *path, struct fg_arena *arena,
                                  struct fg_labels *ret_labels, struct fg_err *err) fg_must_check;

#endif
