/*
 * Wraps the keys of tenants and of sessions: encrypts them, so that they can be stored in the
 * bucket, and decrypts them. One table of functions for each kind of key that wraps.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMMON_ACCESS_KEYS_KEY_WRAP_H
#define FG_COMMON_ACCESS_KEYS_KEY_WRAP_H

#include "common/base/buf.h"
#include "common/net/aws/credentials.h"
#include "common/storage/seal/seal.h"

enum { FG_KEY_WRAP_NAME_MAX_BYTES = 400 };

struct fg_key_wrap {
    char name[FG_KEY_WRAP_NAME_MAX_BYTES]; /* of the key that wraps, stored with what it wraps:
                                              "file:3f2a..." */
    /* Appends the key in wrapped form. It can be unwrapped for the same owner only: a tenant, or a
     * text that is no name of a tenant. */
    enum fg_code (*wrap)(struct fg_key_wrap *wrap, struct fg_slice owner,
                         const struct fg_seal_key *key, struct fg_buf *out, struct fg_err *err);
    /* Unwraps a key. FG_E_CORRUPT: it was changed, or is of another owner. FG_E_UNAVAILABLE: what
     * wraps cannot be reached, or refuses us. */
    enum fg_code (*unwrap)(struct fg_key_wrap *wrap, struct fg_slice owner, struct fg_slice wrapped,
                           struct fg_seal_key *ret_key, struct fg_err *err);
    /* Returns whether two wrapped forms are of the same version of the key that wraps. NULL: it has
     * no versions, or they do not show. */
    bool (*same_version)(struct fg_slice a, struct fg_slice b);
    void (*destroy)(struct fg_key_wrap *wrap);
};

/* Makes one of a file with 32 bytes, as they are, as 64 hexadecimal digits or in base64:
 * AES-256-GCM with a random nonce. FG_E_INVALID: the file cannot be read, others may read it, or
 * has something else.
 */
enum fg_code fg_key_wrap_file(const char *path, struct fg_key_wrap **ret_wrap,
                              struct fg_err *err) fg_must_check;

/* A key of the transit engine of Vault. Texts are borrowed while it is used. */
struct fg_key_wrap_vault {
    const char *address;    /* "https://vault.example:8200" */
    const char *mount;      /* of the engine: "transit" */
    const char *key;        /* its name; of a type with associated data, such as aes256-gcm96 */
    const char *token_file; /* read for each call */
    const char *ca_file;    /* "": the system's */
};
/* Makes one of it. Does not call it yet. FG_E_INVALID: a name is wrong. */
enum fg_code fg_key_wrap_vault(const struct fg_key_wrap_vault *config,
                               struct fg_key_wrap **ret_wrap, struct fg_err *err) fg_must_check;

/* A key of AWS KMS, or of a server that is compatible with it. Texts are borrowed while it is used
 * (the key is copied), and "" if they are not set. */
struct fg_key_wrap_kms {
    const char *key;      /* ARN, id, "alias/NAME" or ARN of an alias */
    const char *region;   /* "": that of the ARN, else that of the environment */
    const char *endpoint; /* "https://host[:port]"; "": that of AWS in the region */
    const char *ca_file;  /* "": the system's */
    struct fg_aws_sources keys;
    struct fg_clock *clock; /* for signatures */
};
/* Makes one of it. Does not call it yet. FG_E_INVALID: a setting is wrong, or there are no keys for
 * signatures. */
enum fg_code fg_key_wrap_kms(const struct fg_key_wrap_kms *config, struct fg_key_wrap **ret_wrap,
                             struct fg_err *err) fg_must_check;

/* Accepts NULL. */
static inline void fg_key_wrap_destroy(struct fg_key_wrap *wrap)
{
    if (wrap != NULL)
        wrap->destroy(wrap);
}

#endif
