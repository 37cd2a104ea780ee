/*
 * Sends all files below a folder, over several connections with a thread each, roughly in the order
 * of their paths.
 */
#ifndef FG_DEPLOY_CLI_PUSH_DIR_H
#define FG_DEPLOY_CLI_PUSH_DIR_H

#include "deploy/cli/pushing.h"

/*
 * Sends the files. pushing: options for all files. Without a name in it, a file has the labels of
 * the nearest folder around it that has a .series file (series_file.h), else its service is the
 * folder below dir that contains it. Prints failed files to standard error, and at the end the
 * counts to standard output: a line, or with `json` a JSON document. resume: a file of
 * push_resume.h, or NULL; it stays if not all files were sent. *ret_exit: CLI_OK, or CLI_FAILED
 * when a file failed. FG_E_NOT_FOUND and others: the folder cannot be read, or there is nothing in
 * it.
 */
enum fg_code cli_push_dir(const struct cli_pushing *pushing, const struct cli_client_config *server,
                          const char *dir, unsigned connections, const char *resume, bool json,
                          int *ret_exit, struct fg_err *err) fg_must_check;

#endif
