/*
 * Writes a request of push.v1.PusherService/Push with one profile: the labels of its series as they
 * are, also __name__, and its pprof. Pure.
 */
#ifndef FG_DEPLOY_CLI_PUSH_REQUEST_H
#define FG_DEPLOY_CLI_PUSH_REQUEST_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/labels.h"

#define CLI_PUSH_PATH "/push.v1.PusherService/Push"
#define CLI_PUSH_TYPE "application/proto"

/* Appends the message. id: a UUID that names the profile in logs; NULL: none. FG_E_LIMIT: the
 * labels have too many bytes. */
enum fg_code cli_push_request_write(const struct fg_labels *labels, const char *id,
                                    struct fg_slice pprof, struct fg_buf *out,
                                    struct fg_err *err) fg_must_check;

#endif
