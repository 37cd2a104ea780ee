/*
 * The keys that requests to AWS are signed with: given once; or read from files that somebody keeps
 * fresh; or those of a role that a token stands for, from STS. To look for keys takes files and
 * requests. So that is a step of its own, and the other steps never wait:
 *
 *     if (fg_aws_credentials_due(credentials)) {
 *         code = fg_aws_credentials_look(credentials, &err);            on a thread that may wait
 *         usable = fg_aws_credentials_looked(credentials, code, &err);
 *     }
 *
 * Thread: the owner's, one at a time. While look() runs on another thread, the owner may call
 * valid() and renew().
 */
#ifndef FG_COMMON_NET_AWS_CREDENTIALS_H
#define FG_COMMON_NET_AWS_CREDENTIALS_H

#include "common/base/err.h"
#include "common/base/time.h"
#include "common/net/aws/sign.h"
#include "common/net/client.h"
#include "common/runtime/file.h"

/* Sources of keys: the first three; else the content of the files, which are loaded again when
 * they change; else those of the role. Texts are borrowed, and "" if they are not set. */
struct fg_aws_sources {
    const char *access_key, *secret_key, *session_token;
    const char *access_key_file, *secret_key_file, *session_token_file;
    const char *role_arn, *web_identity_token_file, *role_session_name;
    const char *sts_endpoint; /* "": that of AWS in the region */
};

/* What it points to is borrowed. */
struct fg_aws_credentials_config {
    const struct fg_aws_sources *sources;
    const char *region;              /* of STS */
    const char *user;                /* who needs the keys, for the log: "the bucket" */
    const struct fg_client_tls *tls; /* for STS */
    int64_t connect_timeout_ns;
    struct fg_clock *clock; /* says when keys have expired, and when to look again */
    /* Sends the request, whose done() is not set, and waits for its end. Called by look(). */
    void (*ask)(void *arg, struct fg_client_request *http);
    void *arg;
};

enum { FG_AWS_KEY_FILES = 3 };

struct fg_aws_credentials {
    struct fg_aws_keys keys; /* the current ones; while valid() */
    uint64_t generation;     /* of these, grows with each change */
    struct fg_err err;       /* of the last look that failed */

    /* Internal. */
    struct fg_aws_credentials_config config;
    enum { FG_AWS_KEYS_FIXED, FG_AWS_KEYS_FILES, FG_AWS_KEYS_ROLE } kind;
    bool good;
    int64_t end_wall_ns;       /* when they expire; INT64_MAX: never */
    int64_t next_mono_ns;      /* when to look again */
    int64_t pause_end_mono_ns; /* not before: the last look at STS failed; 0: it did not */
    struct {                   /* by look() */
        struct fg_file_version versions[FG_AWS_KEY_FILES];
        struct fg_aws_keys keys;
        int64_t end_wall_ns;
        bool changed;
    } found;
};

/* Initialises them, and reads the files. Keys of a role are not there before the first look.
 * FG_E_INVALID: no source has all it needs, or a file cannot be read. */
enum fg_code fg_aws_credentials_init(struct fg_aws_credentials *credentials,
                                     const struct fg_aws_credentials_config *config,
                                     struct fg_err *err) fg_must_check;

/* Overwrites and frees the keys. Zeroed credentials are fine. */
void fg_aws_credentials_done(struct fg_aws_credentials *credentials);

/* Returns whether there are keys that have not expired. */
bool fg_aws_credentials_valid(struct fg_aws_credentials *credentials);

/* Returns whether it is time to look: always without valid keys, except in the second after STS
 * gave none (credentials->err says why). Without this pause each request would ask STS, which has
 * one limit for all of an account. */
bool fg_aws_credentials_due(struct fg_aws_credentials *credentials);

/* Looks for keys. Waits for files and for STS, up to half a minute. FG_E_DENIED: STS refuses the
 * role; FG_E_UNAVAILABLE; FG_E_INVALID: a file. */
enum fg_code fg_aws_credentials_look(struct fg_aws_credentials *credentials,
                                     struct fg_err *err) fg_must_check;

/* Takes over what look() has found. Returns whether requests can be signed now; if not,
 * credentials->err says why. Logs a look that failed. */
bool fg_aws_credentials_looked(struct fg_aws_credentials *credentials, enum fg_code code,
                               const struct fg_err *err) fg_must_check;

/* Notes that the service refused the keys of that generation. Returns false if there will be no
 * others. */
bool fg_aws_credentials_renew(struct fg_aws_credentials *credentials,
                              uint64_t generation) fg_must_check;

#endif
