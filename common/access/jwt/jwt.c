#include "common/access/jwt/jwt.h"

#include "common/access/jwt/claims.h"
#include "common/base/base64url.h"
#include "common/base/str.h"

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/rsa.h>

enum {
    ES256_BYTES = 64,     /* r and s of 32 bytes (RFC 7518, 3.4) */
    ES256_DER_BYTES = 72, /* two numbers of up to 33 bytes, with heads */
    SHA256_BYTES = 32,
};

static enum fg_code deny(struct fg_err *err, const char *why)
{
    return fg_fail(err, FG_E_DENIED, "token: %s", why);
}

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "token: needs too much memory");
}

/* ---- parts ---- */

/* The text up to the next dot, which is taken too. */
static struct fg_slice take_part(struct fg_slice *rest)
{
    size_t dot = fg_slice_find(*rest, '.');
    struct fg_slice part = fg_slice_sub(*rest, 0, dot);

    *rest = dot == SIZE_MAX ? fg_bytes(NULL, 0) : fg_slice_sub(*rest, dot + 1, rest->len);
    return part;
}

static bool is_base64url(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

bool fg_jwt_is_form(struct fg_slice text)
{
    unsigned dots = 0;
    size_t part = 0;

    for (size_t i = 0; i < text.len; i++) {
        bool dot = text.ptr[i] == '.';

        if (dot ? part == 0 : !is_base64url(text.ptr[i]))
            return false;
        dots += dot;
        part = dot ? 0 : part + 1;
    }
    return dots == 2 && part > 0;
}

/* JSON in base64url, checked. */
static enum fg_code decode_object(struct fg_slice part, const char *what, struct fg_arena *arena,
                                  struct fg_slice *ret_json, struct fg_err *err)
{
    struct fg_slice json;
    struct fg_err why;
    enum fg_code code;

    if (fg_arena_limit_bytes(arena) - fg_arena_used_bytes(arena) < part.len)
        return no_memory(err);
    json = fg_base64url_decode(part, arena);
    if (json.ptr == NULL)
        return fg_fail(err, FG_E_DENIED, "token: the %s is not strict base64url", what);
    code = fg_claims_check(json, arena, &why);
    if (code == FG_E_LIMIT)
        return no_memory(err);
    if (code != FG_OK)
        return fg_fail(err, FG_E_DENIED, "token: %s: %.200s", what, why.msg);
    *ret_json = json;
    return FG_OK;
}

/* ---- the header ---- */

/* A token for another use, such as logout+jwt, must not pass (RFC 8725, 3.11). */
static bool is_type_ok(struct fg_slice header, struct fg_arena *arena)
{
    static const char *const types[] = {"JWT", "at+jwt", "application/at+jwt"};
    struct fg_slice type;
    enum fg_claim_found found = fg_claim_text(header, "typ", arena, &type);

    for (size_t i = 0; found == FG_CLAIM_FOUND && i < FG_COUNT(types); i++)
        if (fg_slice_is_nocase(type, types[i]))
            return true;
    return found == FG_CLAIM_ABSENT;
}

static enum fg_code read_header(struct fg_slice header, struct fg_arena *arena, struct fg_jwt *jwt,
                                struct fg_err *err)
{
    struct fg_slice algorithm;
    enum fg_claim_found found;

    if (fg_claim_is_there(header, "crit", arena) || fg_claim_is_there(header, "b64", arena))
        return deny(err, "the header has crit or b64");
    if (!is_type_ok(header, arena))
        return deny(err, "typ is neither JWT nor at+jwt");
    if (fg_claim_text(header, "alg", arena, &algorithm) != FG_CLAIM_FOUND ||
        (jwt->algorithm = fg_jwt_algorithm(algorithm)) == 0)
        return deny(err, "alg is not RS256, PS256, ES256 or EdDSA");
    found = fg_claim_text(header, "kid", arena, &jwt->kid);
    if (found == FG_CLAIM_OTHER || jwt->kid.len > FG_JWK_ID_MAX_BYTES)
        return deny(err, "kid is not a text of at most 256 bytes");
    return FG_OK;
}

enum fg_code fg_jwt_parse(struct fg_slice token, struct fg_arena *arena, struct fg_jwt *ret_jwt,
                          struct fg_err *err)
{
    struct fg_jwt jwt = {.kid = {NULL, 0}};
    struct fg_slice rest = token, header, claims, signature, header_json = fg_bytes(NULL, 0);

    if (token.len > FG_JWT_MAX_BYTES)
        return deny(err, "more than 8 KiB");
    if (!fg_jwt_is_form(token))
        return deny(err, "not three parts in base64url");
    header = take_part(&rest);
    claims = take_part(&rest);
    signature = take_part(&rest);
    if (fg_base64url_size(header.len) > FG_JWT_HEADER_MAX_BYTES)
        return deny(err, "the header has more than 1 KiB");
    if (decode_object(header, "header", arena, &header_json, err) != FG_OK ||
        read_header(header_json, arena, &jwt, err) != FG_OK ||
        decode_object(claims, "claims", arena, &jwt.claims, err) != FG_OK)
        return err->code;
    jwt.content = fg_slice_sub(token, 0, header.len + 1 + claims.len);
    jwt.signature = fg_base64url_decode(signature, arena);
    if (jwt.signature.ptr == NULL)
        return deny(err, "the signature is not strict base64url");
    if (fg_claim_text(jwt.claims, "iss", arena, &jwt.issuer) != FG_CLAIM_FOUND)
        return deny(err, "iss is missing or no text");
    *ret_jwt = jwt;
    return FG_OK;
}

/* ---- the signature ---- */

/* The form that OpenSSL takes. Returns its length, 0: the signature does not have 64 bytes. */
static size_t es256_to_der(struct fg_slice raw, uint8_t out[ES256_DER_BYTES])
{
    ECDSA_SIG *signature;
    BIGNUM *r, *s;
    int len = 0;

    if (raw.len != ES256_BYTES)
        return 0;
    signature = ECDSA_SIG_new();
    r = BN_bin2bn(raw.ptr, ES256_BYTES / 2, NULL);
    s = BN_bin2bn(raw.ptr + ES256_BYTES / 2, ES256_BYTES / 2, NULL);
    fg_assert(signature != NULL && r != NULL && s != NULL); /* memory is gone */
    fg_assert(ECDSA_SIG_set0(signature, r, s) == 1);
    len = i2d_ECDSA_SIG(signature, NULL);
    fg_assert(len > 0 && len <= ES256_DER_BYTES);
    len = i2d_ECDSA_SIG(signature, &out);
    ECDSA_SIG_free(signature);
    return (size_t)len;
}

static bool is_signed(const struct fg_jwt *jwt, const struct fg_jwk *key)
{
    const EVP_MD *digest = jwt->algorithm == FG_JWT_EDDSA ? NULL : EVP_sha256();
    struct fg_slice signature = jwt->signature;
    uint8_t der[ES256_DER_BYTES];
    EVP_MD_CTX *ctx;
    EVP_PKEY_CTX *key_ctx; /* of ctx */
    bool is;

    if (jwt->algorithm == FG_JWT_ES256) {
        signature = fg_bytes(der, es256_to_der(jwt->signature, der));
        if (signature.len == 0)
            return false;
    }
    ctx = EVP_MD_CTX_new();
    fg_assert(ctx != NULL); /* memory is gone */
    is = EVP_DigestVerifyInit(ctx, &key_ctx, digest, NULL, key->key) == 1 &&
         (jwt->algorithm != FG_JWT_PS256 ||
          (EVP_PKEY_CTX_set_rsa_padding(key_ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_mgf1_md(key_ctx, EVP_sha256()) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(key_ctx, SHA256_BYTES) == 1)) &&
         EVP_DigestVerify(ctx, signature.ptr, signature.len, jwt->content.ptr, jwt->content.len) ==
             1;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error(); /* or whoever uses OpenSSL next on this thread takes it for its own */
    return is;
}

/* ---- the claims ---- */

static bool has_value(const struct fg_slice *values, uint32_t n, const char *wanted)
{
    for (uint32_t i = 0; i < n; i++)
        if (fg_slice_is(values[i], wanted))
            return true;
    return false;
}

/* Who the token is for, and whom it was given to. */
static enum fg_code check_audience(struct fg_slice claims, const struct fg_jwt_rules *rules,
                                   struct fg_arena *arena, struct fg_err *err)
{
    struct fg_slice *audiences, party;
    enum fg_claim_found found;
    uint32_t n;

    if (fg_claim_values(claims, FG_LIT("aud"), arena, &audiences, &n) != FG_CLAIM_FOUND ||
        !has_value(audiences, n, rules->audience))
        return deny(err, "aud does not have our audience");
    found = fg_claim_text(claims, "azp", arena, &party);
    if (found == FG_CLAIM_ABSENT)
        return n == 1 ? FG_OK : deny(err, "several audiences and no azp");
    if ((n > 1 || rules->nonce.ptr != NULL) &&
        (found != FG_CLAIM_FOUND || !fg_slice_is(party, rules->audience)))
        return deny(err, "azp is not our audience");
    return FG_OK;
}

static enum fg_code check_times(struct fg_slice claims, int64_t now_s, struct fg_arena *arena,
                                int64_t *ret_expires_s, struct fg_err *err)
{
    int64_t not_before_s = 0, issued_s = 0;

    if (fg_claim_time(claims, "exp", arena, ret_expires_s) != FG_CLAIM_FOUND)
        return deny(err, "exp is missing or no time");
    if (now_s >= *ret_expires_s + FG_JWT_LEEWAY_S)
        return deny(err, "expired");
    if (fg_claim_time(claims, "nbf", arena, &not_before_s) == FG_CLAIM_OTHER ||
        fg_claim_time(claims, "iat", arena, &issued_s) == FG_CLAIM_OTHER)
        return deny(err, "nbf or iat is no time");
    if (not_before_s > now_s + FG_JWT_LEEWAY_S)
        return deny(err, "not valid yet");
    if (issued_s > now_s + FG_JWT_LEEWAY_S)
        return deny(err, "issued in the future");
    return FG_OK;
}

static enum fg_code check_subject(struct fg_slice claims, struct fg_arena *arena,
                                  struct fg_slice *ret_subject, struct fg_err *err)
{
    struct fg_slice subject;

    if (fg_claim_text(claims, "sub", arena, &subject) != FG_CLAIM_FOUND || subject.len == 0 ||
        subject.len > FG_JWT_SUBJECT_MAX_BYTES)
        return deny(err, "sub is missing, empty or longer than 512 bytes");
    for (size_t i = 0; i < subject.len; i++)
        if (subject.ptr[i] < 0x20 || subject.ptr[i] == 0x7f)
            return deny(err, "sub has a control character");
    *ret_subject = subject;
    return FG_OK;
}

enum fg_code fg_jwt_verify(const struct fg_jwt *jwt, const struct fg_jwks *keys,
                           const struct fg_jwt_rules *rules, struct fg_arena *arena,
                           struct fg_jwt_verified *ret_verified, struct fg_err *err)
{
    struct fg_jwt_verified verified = {.issuer = jwt->issuer, .claims = jwt->claims};
    const struct fg_jwk *key;

    if (!fg_slice_is(jwt->issuer, rules->issuer))
        return deny(err, "iss is not the issuer");
    key = fg_jwks_find(keys, jwt->kid, jwt->algorithm);
    if (key == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "token: no key has its kid and alg");
    if (!is_signed(jwt, key))
        return deny(err, "the signature is wrong");
    if (check_audience(jwt->claims, rules, arena, err) != FG_OK ||
        check_times(jwt->claims, rules->now_s, arena, &verified.expires_s, err) != FG_OK ||
        check_subject(jwt->claims, arena, &verified.subject, err) != FG_OK)
        return err->code;
    if (rules->nonce.ptr != NULL) {
        struct fg_slice nonce;

        if (fg_claim_text(jwt->claims, "nonce", arena, &nonce) != FG_CLAIM_FOUND ||
            nonce.len != rules->nonce.len ||
            CRYPTO_memcmp(nonce.ptr, rules->nonce.ptr, rules->nonce.len) != 0)
            return deny(err, "nonce is not the one of this login");
    }
    *ret_verified = verified;
    return FG_OK;
}
