/*
 * Sends all files below a folder: what somebody has recorded, or exported elsewhere. Several
 * connections, each with a thread; the order is by path, as far as that means something then.
 */
#ifndef FG_DEPLOY_CLI_PUSH_DIR_H
#define FG_DEPLOY_CLI_PUSH_DIR_H

#include "deploy/cli/pushing.h"

/*
 * pushing: for all files. Without a name a file has the labels of the nearest folder around it that
 * says what they are (series_file.h), else its service is the folder below dir that it is in.
 * Says on standard error which files failed, and in the end on standard output how many there were:
 * a line, or with `json` a JSON document.
 * resume: a file of push_resume.h, or NULL; it stays if not all files were sent.
 * *ret_exit: CLI_OK, or CLI_FAILED when a file failed. FG_E_NOT_FOUND and others: the folder cannot
 * be read, or there is nothing in it.
 */
enum fg_code cli_push_dir(const struct cli_pushing *pushing, const struct cli_client_config *server,
                          const char *dir, unsigned connections, const char *resume, bool json,
                          int *ret_exit, struct fg_err *err) fg_must_check;

#endif
