#include "common/net/rpc/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

static void derive(struct fg_slice secret, const char *what, uint8_t out[FG_SECRET_KEY_BYTES])
{
    unsigned len = 0;

    fg_assert(HMAC(EVP_sha256(), secret.ptr, (int)secret.len, (const uint8_t *)what, strlen(what),
                   out, &len) != NULL &&
              len == FG_SECRET_KEY_BYTES);
}

static void make_key(struct fg_slice secret, struct fg_secret_key *ret_key)
{
    uint8_t identity[FG_SECRET_KEY_BYTES];

    derive(secret, "flamegrid rpc key 1", ret_key->key);
    derive(secret, "flamegrid rpc identity 1", identity);
    for (size_t i = 0; i < (FG_SECRET_IDENTITY_BYTES - 1) / 2; i++)
        (void)snprintf(ret_key->identity + 2 * i, 3, "%02x", identity[i]);
}

static struct fg_slice trim(struct fg_slice line)
{
    size_t from = 0, to = line.ptr == NULL ? 0 : line.len;

    while (from < to && line.ptr[from] <= ' ')
        from++;
    while (to > from && line.ptr[to - 1] <= ' ')
        to--;
    return fg_slice_sub(line, from, to - from);
}

/* Returns the next line of *rest that has a secret; empty: there is none. */
static struct fg_slice next_secret(struct fg_slice *rest)
{
    struct fg_slice line = {NULL, 0};

    while (rest->len > 0 && line.len == 0) {
        size_t end = fg_slice_search(*rest, "\n");

        line = trim(fg_slice_sub(*rest, 0, end));
        *rest = fg_slice_sub(*rest, FG_MIN(end, rest->len - 1) + 1, SIZE_MAX);
        if (line.len > 0 && line.ptr[0] == '#')
            line.len = 0;
    }
    return line;
}

enum fg_code fg_secret_read(const struct fg_pem_file *file, struct fg_secret *ret_secret,
                            struct fg_err *err)
{
    struct fg_slice rest = fg_buf_slice(&file->content), line;
    struct fg_secret secret = {0};

    while ((line = next_secret(&rest)).len > 0) {
        if (line.len < FG_SECRET_MIN_BYTES || secret.n == FG_SECRETS_MAX) {
            fg_secret_done(&secret);
            return fg_fail(err, FG_E_INVALID,
                           line.len < FG_SECRET_MIN_BYTES
                               ? "%s \"%s\": a secret must have at least %d characters"
                               : "%s \"%s\": a file may hold at most %d secrets",
                           file->setting, file->path,
                           line.len < FG_SECRET_MIN_BYTES ? FG_SECRET_MIN_BYTES : FG_SECRETS_MAX);
        }
        make_key(line, &secret.keys[secret.n++]);
    }
    if (secret.n == 0)
        return fg_fail(err, FG_E_INVALID, "%s \"%s\": the file contains no secret", file->setting,
                       file->path);
    *ret_secret = secret;
    fg_secret_done(&secret);
    return FG_OK;
}

void fg_secret_done(struct fg_secret *secret)
{
    OPENSSL_cleanse(secret, sizeof *secret);
}
