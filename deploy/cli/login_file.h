/*
 * The token of `flamegrid login`: a file for each server, in $XDG_CONFIG_HOME/flamegrid/tokens or
 * ~/.config/flamegrid/tokens, that only its owner can read. A token is sent to the URL that it was
 * made for, and to no other.
 */
#ifndef FG_DEPLOY_CLI_LOGIN_FILE_H
#define FG_DEPLOY_CLI_LOGIN_FILE_H

#include "common/base/buf.h"
#include "common/base/err.h"

/* Reads the token for a server, NUL-terminated; *out stays empty if there is none. FG_E_DENIED:
 * others can read the file, or the log-in has expired. FG_E_INVALID: the file is damaged. */
enum fg_code cli_login_file_read(const char *url, struct fg_buf *out,
                                 struct fg_err *err) fg_must_check;

/* Writes the token for a server, or removes it (NULL). expires_s: wall time in seconds, 0: unknown.
 */
enum fg_code cli_login_file_write(const char *url, const char *token, int64_t expires_s,
                                  struct fg_err *err) fg_must_check;

#endif
