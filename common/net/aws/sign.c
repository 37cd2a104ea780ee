#include "common/net/aws/sign.h"

#include "common/base/str.h"
#include "common/base/time.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { HASH_BYTES = 32, SIGNED_MAX_BYTES = 512 * 1024, DAY_BYTES = 8 };

struct hash {
    uint8_t bytes[HASH_BYTES];
};

static void free_secret(char *text)
{
    if (text != NULL)
        OPENSSL_cleanse(text, strlen(text));
    free(text);
}

void fg_aws_keys_done(struct fg_aws_keys *keys)
{
    free(keys->access);
    free_secret(keys->secret);
    free_secret(keys->token);
    *keys = (struct fg_aws_keys){0};
}

void fg_aws_date(int64_t wall_ns, char out[FG_AWS_DATE_BYTES])
{
    time_t seconds = (time_t)(wall_ns / FG_SECOND_NS);
    struct tm parts;

    fg_assert(gmtime_r(&seconds, &parts) != NULL);
    fg_assert(strftime(out, FG_AWS_DATE_BYTES, "%Y%m%dT%H%M%SZ", &parts) == FG_AWS_DATE_BYTES - 1);
}

static struct hash sha256(struct fg_slice bytes)
{
    struct hash hash;

    fg_assert(EVP_Digest(bytes.ptr, bytes.len, hash.bytes, NULL, EVP_sha256(), NULL) == 1);
    return hash;
}

static struct hash hmac(struct fg_slice key, struct fg_slice text)
{
    struct hash hash;
    unsigned len = 0;

    fg_assert(HMAC(EVP_sha256(), key.ptr, (int)key.len, text.ptr, text.len, hash.bytes, &len) !=
                  NULL &&
              len == HASH_BYTES);
    return hash;
}

static struct fg_slice hash_slice(const struct hash *hash)
{
    return fg_bytes(hash->bytes, HASH_BYTES);
}

void fg_aws_payload_hash(struct fg_slice body, char out[FG_AWS_HASH_BYTES])
{
    struct hash hash = sha256(body);
    struct fg_buf text;

    fg_buf_init(&text, FG_AWS_HASH_BYTES);
    fg_buf_hex(&text, hash.bytes, HASH_BYTES);
    fg_buf_putc(&text, '\0');
    memcpy(out, text.ptr, FG_AWS_HASH_BYTES);
    fg_buf_done(&text);
}

static void put_names(const struct fg_aws_signable *what, struct fg_buf *out)
{
    for (size_t i = 0; i < what->n_headers; i++) {
        fg_buf_puts(out, i == 0 ? "" : ";");
        fg_buf_puts(out, what->headers[i].name);
    }
}

/* Hashes the "canonical request": method, path, query, headers, their names, hash of the
 * payload. */
static struct hash hash_request(const struct fg_aws_signable *what)
{
    struct fg_buf text;
    struct hash hash;

    fg_buf_init(&text, SIGNED_MAX_BYTES);
    fg_buf_printf(&text, "%s\n%s\n%s\n", what->method, what->path, what->query);
    for (size_t i = 0; i < what->n_headers; i++) {
        fg_buf_printf(&text, "%s:", what->headers[i].name);
        fg_buf_put(&text, fg_trim(fg_cstr(what->headers[i].value)));
        fg_buf_putc(&text, '\n');
    }
    fg_buf_putc(&text, '\n');
    put_names(what, &text);
    fg_buf_printf(&text, "\n%s", what->payload_hash);
    fg_assert(!text.full); /* names and keys are bounded */
    hash = sha256(fg_buf_slice(&text));
    fg_buf_done(&text);
    return hash;
}

static void put_scope(const struct fg_aws_signable *what, struct fg_buf *out)
{
    fg_buf_printf(out, "%.*s/%s/%s/aws4_request", DAY_BYTES, what->date, what->region,
                  what->service);
}

/* Derives the signing key, which is good for one day, region and service, from the secret. */
static struct hash day_key(const struct fg_aws_signable *what, const struct fg_aws_keys *keys)
{
    struct fg_buf first;
    struct hash key;

    fg_buf_init(&first, SIGNED_MAX_BYTES);
    fg_buf_printf(&first, "AWS4%s", keys->secret);
    /* Signature Version 4: each key is the HMAC of the next part of the scope under the key
     * before. */
    key = hmac(fg_buf_slice(&first), fg_bytes(what->date, DAY_BYTES));
    OPENSSL_cleanse(first.ptr, first.cap);
    fg_buf_done(&first);
    key = hmac(hash_slice(&key), fg_cstr(what->region));
    key = hmac(hash_slice(&key), fg_cstr(what->service));
    return hmac(hash_slice(&key), FG_LIT("aws4_request"));
}

static struct hash signature(const struct fg_aws_signable *what, const struct fg_aws_keys *keys)
{
    struct hash request = hash_request(what), key = day_key(what, keys), result;
    struct fg_buf text;

    fg_buf_init(&text, SIGNED_MAX_BYTES);
    fg_buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n", what->date);
    put_scope(what, &text);
    fg_buf_putc(&text, '\n');
    fg_buf_hex(&text, request.bytes, HASH_BYTES);
    result = hmac(hash_slice(&key), fg_buf_slice(&text));
    fg_buf_done(&text);
    return result;
}

void fg_aws_sign(const struct fg_aws_signable *what, const struct fg_aws_keys *keys,
                 struct fg_buf *out)
{
    struct hash result = signature(what, keys);

    fg_buf_printf(out, "AWS4-HMAC-SHA256 Credential=%s/", keys->access);
    put_scope(what, out);
    fg_buf_puts(out, ",SignedHeaders=");
    put_names(what, out);
    fg_buf_puts(out, ",Signature=");
    fg_buf_hex(out, result.bytes, HASH_BYTES);
}
