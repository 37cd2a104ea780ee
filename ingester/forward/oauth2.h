/*
 * OAuth 2 client credentials (RFC 6749 4.4) of a target: the settings, the request for a token, and
 * the answer. The sender sends and keeps them (sender.c).
 *
 * Pure, except for the file of the secret.
 */
#ifndef FG_INGESTER_FORWARD_OAUTH2_H
#define FG_INGESTER_FORWARD_OAUTH2_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/runtime/config.h"

enum { OAUTH2_TOKEN_MAX_BYTES = 16 * 1024, OAUTH2_ANSWER_MAX_BYTES = 64 * 1024 };

/* The map `oauth2` of a target. */
struct ing_oauth2 {
    char *token_url, *client_id, *client_secret_file;
    char *scopes, *params; /* YAML: a list of texts; a map of further parameters */
    struct fg_buf form;    /* what is sent, without a secret */
};

/* Reads the map. FG_E_INVALID: which key, and why. ing_oauth2_done() frees it, after a failure as
 * well. */
enum fg_code ing_oauth2_read(const char *yaml, struct ing_oauth2 *ret_oauth2,
                             struct fg_err *err) fg_must_check;
void ing_oauth2_done(struct ing_oauth2 *oauth2);

/* Appends "Authorization: Basic ..." with a NUL, with the secret of the file. FG_E_INVALID: it
 * cannot be read, is empty or too long. A thread that may wait for the disk. */
enum fg_code ing_oauth2_authorization(const struct ing_oauth2 *oauth2, struct fg_buf *out,
                                      struct fg_err *err) fg_must_check;

/*
 * Takes an answer: appends "Authorization: Bearer ..." with a NUL, and sets how long the token is
 * good for. FG_E_DENIED: the server refuses the client; FG_E_UNAVAILABLE: it has no token now, or
 * the answer is none.
 */
enum fg_code ing_oauth2_answer(unsigned status, struct fg_slice body, struct fg_buf *out,
                               int64_t *ret_lifetime_ns, struct fg_err *err) fg_must_check;

#endif
