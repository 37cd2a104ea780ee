#include "common/access/jwt/jwks.h"

#include "common/access/jwt/claims.h"
#include "common/base/base64url.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <stdatomic.h>

enum {
    ARENA_MAX_BYTES = 1024 * 1024, /* of 64 KiB of text */
    RSA_MIN_BITS = 2048,           /* NIST SP 800-131A */
    RSA_MAX_BITS = 8192,   /* a signature costs 0.4 ms to check, and grows with the square */
    COORDINATE_BYTES = 32, /* of P-256 and Ed25519 */
};

struct fg_jwks {
    _Atomic unsigned refs;
    struct fg_arena *arena; /* of kids */
    struct fg_jwk keys[FG_JWKS_KEYS_MAX];
    unsigned n, skipped;
};

/* What parsing needs besides the set. */
struct jwks_parser {
    struct fg_jwks *set;
    struct fg_arena *arena; /* of texts and numbers */
    const char *why;        /* the first key was skipped; NULL: none was */
    unsigned n_seen;
};

/* ---- algorithms ---- */

unsigned fg_jwt_algorithm(struct fg_slice name)
{
    static const struct {
        const char *name;
        unsigned algorithm;
    } known[] = {{"RS256", FG_JWT_RS256},
                 {"PS256", FG_JWT_PS256},
                 {"ES256", FG_JWT_ES256},
                 {"EdDSA", FG_JWT_EDDSA}};

    for (size_t i = 0; i < FG_COUNT(known); i++)
        if (fg_slice_is(name, known[i].name))
            return known[i].algorithm;
    return 0;
}

/* ---- keys ---- */

/* A member in base64url. FG_CLAIM_OTHER: it is something else. */
static enum fg_claim_found get_bytes(struct fg_slice object, const char *name,
                                     struct fg_arena *arena, struct fg_slice *ret_bytes)
{
    struct fg_slice text, bytes;
    enum fg_claim_found found = fg_claim_text(object, name, arena, &text);

    if (found != FG_CLAIM_FOUND)
        return found;
    bytes = fg_base64url_decode(text, arena);
    if (bytes.ptr == NULL)
        return FG_CLAIM_OTHER;
    *ret_bytes = bytes;
    return FG_CLAIM_FOUND;
}

/* A key of these parameters that passes OpenSSL's own check. NULL: there is none. */
static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *build)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL), *check = NULL;
    EVP_PKEY *key = NULL;

    if (params != NULL && ctx != NULL && EVP_PKEY_fromdata_init(ctx) == 1 &&
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) == 1)
        check = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    if (check == NULL || EVP_PKEY_public_check(check) != 1) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    EVP_PKEY_CTX_free(check);
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *rsa_key(const BIGNUM *n, const BIGNUM *e)
{
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;

    if (build != NULL && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) == 1)
        key = from_params("RSA", build);
    OSSL_PARAM_BLD_free(build);
    return key;
}

/* NULL, and *why, if it is no key. */
static EVP_PKEY *parse_rsa(struct fg_slice object, struct fg_arena *arena, const char **why)
{
    struct fg_slice n, e;
    BIGNUM *n_number, *e_number;
    EVP_PKEY *key = NULL;

    *why = "an RSA key has no n or e in base64url";
    if (get_bytes(object, "n", arena, &n) != FG_CLAIM_FOUND || n.len == 0 ||
        get_bytes(object, "e", arena, &e) != FG_CLAIM_FOUND || e.len == 0)
        return NULL;
    *why = "an RSA key has more than 8192 bits, or an exponent above 2^32";
    if (n.len > RSA_MAX_BITS / 8 || e.len > sizeof(uint32_t))
        return NULL;
    n_number = BN_bin2bn(n.ptr, (int)n.len, NULL);
    e_number = BN_bin2bn(e.ptr, (int)e.len, NULL);
    fg_assert(n_number != NULL && e_number != NULL); /* memory is gone */
    if (BN_num_bits(n_number) < RSA_MIN_BITS)
        *why = "an RSA key has less than 2048 bits";
    else if (!BN_is_odd(n_number) || !BN_is_odd(e_number) || BN_is_one(e_number))
        *why = "an RSA key has an even modulus, or an exponent that is even or 1";
    else if ((key = rsa_key(n_number, e_number)) == NULL)
        *why = "an RSA key is not the product of two primes";
    BN_free(n_number);
    BN_free(e_number);
    return key;
}

static EVP_PKEY *parse_ec(struct fg_slice object, struct fg_arena *arena, const char **why)
{
    uint8_t point[1 + 2 * COORDINATE_BYTES] = {POINT_CONVERSION_UNCOMPRESSED};
    struct fg_slice curve, x, y;
    OSSL_PARAM_BLD *build;
    EVP_PKEY *key = NULL;

    *why = "an EC key is not of the curve P-256";
    if (fg_claim_text(object, "crv", arena, &curve) != FG_CLAIM_FOUND ||
        !fg_slice_is(curve, "P-256"))
        return NULL;
    *why = "an EC key has no x or y of 32 bytes in base64url";
    if (get_bytes(object, "x", arena, &x) != FG_CLAIM_FOUND || x.len != COORDINATE_BYTES ||
        get_bytes(object, "y", arena, &y) != FG_CLAIM_FOUND || y.len != COORDINATE_BYTES)
        return NULL;
    memcpy(point + 1, x.ptr, COORDINATE_BYTES);
    memcpy(point + 1 + COORDINATE_BYTES, y.ptr, COORDINATE_BYTES);
    *why = "an EC key is no point of its curve";
    build = OSSL_PARAM_BLD_new();
    if (build != NULL &&
        OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point) == 1)
        key = from_params("EC", build);
    OSSL_PARAM_BLD_free(build);
    return key;
}

/* The order of these points is 1, 2, 4 or 8: a signature that verifies under them can be made
 * without a private key. As y, without the bit for the sign of x. */
static bool has_small_order(const uint8_t *point)
{
    static const uint8_t small[][COORDINATE_BYTES] = {
        {0},
        {1},
        {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
         0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
         0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
        {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
         0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
         0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
        {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    };
    uint8_t y[COORDINATE_BYTES];

    memcpy(y, point, sizeof y);
    y[COORDINATE_BYTES - 1] &= 0x7f;
    for (size_t i = 0; i < FG_COUNT(small); i++)
        if (memcmp(y, small[i], sizeof y) == 0)
            return true;
    return false;
}

/* Whether y is less than the prime 2^255 - 19: a larger one is a second form of another point. */
static bool is_reduced(const uint8_t *point)
{
    if ((point[COORDINATE_BYTES - 1] & 0x7f) != 0x7f || point[0] < 0xed)
        return true;
    for (size_t i = 1; i < COORDINATE_BYTES - 1; i++)
        if (point[i] != 0xff)
            return true;
    return false;
}

static EVP_PKEY *parse_okp(struct fg_slice object, struct fg_arena *arena, const char **why)
{
    struct fg_slice curve, x;

    *why = "an OKP key is not of the curve Ed25519";
    if (fg_claim_text(object, "crv", arena, &curve) != FG_CLAIM_FOUND ||
        !fg_slice_is(curve, "Ed25519"))
        return NULL;
    *why = "an OKP key has no x of 32 bytes in base64url";
    if (get_bytes(object, "x", arena, &x) != FG_CLAIM_FOUND || x.len != COORDINATE_BYTES)
        return NULL;
    *why = "an OKP key is a point that anybody can sign for, or not reduced";
    if (has_small_order(x.ptr) || !is_reduced(x.ptr))
        return NULL;
    return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x.ptr, x.len);
}

/* ---- which keys are ours to use ---- */

/* Absent, or the text. */
static bool may_be(struct fg_slice object, const char *name, const char *text,
                   struct fg_arena *arena)
{
    struct fg_slice value;
    enum fg_claim_found found = fg_claim_text(object, name, arena, &value);

    return found == FG_CLAIM_ABSENT || (found == FG_CLAIM_FOUND && fg_slice_is(value, text));
}

static bool may_verify(struct fg_slice object, struct fg_arena *arena)
{
    struct fg_slice *operations;
    uint32_t n;
    enum fg_claim_found found = fg_claim_values(object, FG_LIT("key_ops"), arena, &operations, &n);

    if (found != FG_CLAIM_FOUND)
        return found == FG_CLAIM_ABSENT;
    for (uint32_t i = 0; i < n; i++)
        if (fg_slice_is(operations[i], "verify"))
            return true;
    return false;
}

/* Of those that the type of a key allows, the one that the key names; all, if it names none. */
static unsigned narrow(struct fg_slice object, unsigned algorithms, struct fg_arena *arena)
{
    struct fg_slice name;
    enum fg_claim_found found = fg_claim_text(object, "alg", arena, &name);

    if (found == FG_CLAIM_ABSENT)
        return algorithms;
    return found == FG_CLAIM_FOUND ? algorithms & fg_jwt_algorithm(name) : 0;
}

/* NULL: a fault that *why names. */
static EVP_PKEY *parse_key(struct fg_slice object, struct fg_arena *arena, unsigned *ret_algorithms,
                           const char **why)
{
    static const struct {
        const char *type;
        unsigned algorithms;
        EVP_PKEY *(*parse)(struct fg_slice object, struct fg_arena *arena, const char **why);
    } types[] = {{"RSA", FG_JWT_RS256 | FG_JWT_PS256, parse_rsa},
                 {"EC", FG_JWT_ES256, parse_ec},
                 {"OKP", FG_JWT_EDDSA, parse_okp}};
    struct fg_slice type;
    size_t i = 0;

    *why = "a key is not of the type RSA, EC or OKP";
    if (fg_claim_text(object, "kty", arena, &type) != FG_CLAIM_FOUND)
        return NULL;
    while (i < FG_COUNT(types) && !fg_slice_is(type, types[i].type))
        i++;
    if (i == FG_COUNT(types))
        return NULL;
    *why = "a key is not for verifying signatures";
    if (!may_be(object, "use", "sig", arena) || !may_verify(object, arena))
        return NULL;
    *why = "a key is published with its private part";
    if (fg_claim_is_there(object, "d", arena))
        return NULL;
    *why = "a key is for an algorithm that is not supported";
    *ret_algorithms = narrow(object, types[i].algorithms, arena);
    return *ret_algorithms == 0 ? NULL : types[i].parse(object, arena, why);
}

/* Algorithms of keys before it with the same kid. */
static unsigned taken(const struct fg_jwks *set, struct fg_slice kid)
{
    unsigned algorithms = 0;

    for (unsigned i = 0; i < set->n; i++)
        if (kid.ptr != NULL && set->keys[i].kid.ptr != NULL && fg_slice_eq(set->keys[i].kid, kid))
            algorithms |= set->keys[i].algorithms;
    return algorithms;
}

/* Returns NULL, or why the key is skipped. */
static const char *add_key(struct jwks_parser *parser, struct fg_slice object)
{
    struct fg_jwk key = {.kid = {NULL, 0}};
    enum fg_claim_found found = fg_claim_text(object, "kid", parser->arena, &key.kid);
    const char *why;

    if (found == FG_CLAIM_OTHER || key.kid.len > FG_JWK_ID_MAX_BYTES)
        return "the kid of a key is not a text of at most 256 bytes";
    key.key = parse_key(object, parser->arena, &key.algorithms, &why);
    if (key.key == NULL) {
        ERR_clear_error(); /* or whoever uses OpenSSL next on this thread takes it for its own */
        return why;
    }
    key.algorithms &= ~taken(parser->set, key.kid);
    if (found == FG_CLAIM_FOUND)
        key.kid = fg_arena_copy(parser->set->arena, key.kid);
    if (key.algorithms == 0 || (found == FG_CLAIM_FOUND && key.kid.ptr == NULL)) {
        EVP_PKEY_free(key.key);
        return "a key before it has the same kid";
    }
    parser->set->keys[parser->set->n++] = key;
    return NULL;
}

static bool see_key(struct fg_slice object, void *arg)
{
    struct jwks_parser *parser = arg;
    struct fg_arena_mark mark = fg_arena_mark(parser->arena);
    const char *why;

    if (parser->n_seen == FG_JWKS_KEYS_MAX)
        return false;
    parser->n_seen++;
    why = add_key(parser, object);
    fg_arena_release(parser->arena, mark);
    if (why == NULL)
        return true;
    parser->set->skipped++;
    if (parser->why == NULL)
        parser->why = why;
    return true;
}

/* ---- the set ---- */

static enum fg_code parse(struct jwks_parser *parser, struct fg_slice text, struct fg_err *err)
{
    struct fg_slice list;

    if (fg_claims_check(text, parser->arena, err) != FG_OK)
        return err->code;
    if (fg_claim_nested(text, "keys", parser->arena, &list) != FG_CLAIM_FOUND || list.ptr[0] != '[')
        return fg_fail(err, FG_E_DECODE, "the object has no list \"keys\"");
    if (!fg_claim_each_object(list, see_key, parser))
        return fg_fail(err, FG_E_DECODE, "more than %d keys", FG_JWKS_KEYS_MAX);
    if (parser->set->n == 0)
        return fg_fail(err, FG_E_DECODE, "no usable key%s%s", parser->why == NULL ? "" : ": ",
                       parser->why == NULL ? "" : parser->why);
    return FG_OK;
}

enum fg_code fg_jwks_parse(struct fg_slice text, struct fg_jwks **ret_keys, struct fg_err *err)
{
    struct jwks_parser parser = {0};
    enum fg_code code;

    if (text.len > FG_JWKS_MAX_BYTES)
        return fg_fail(err, FG_E_TOO_LARGE, "key set: more than %d bytes", FG_JWKS_MAX_BYTES);
    parser.set = fg_new(struct fg_jwks);
    parser.set->refs = 1;
    parser.set->arena = fg_arena_create((size_t)FG_JWKS_KEYS_MAX * FG_JWK_ID_MAX_BYTES);
    parser.arena = fg_arena_create(ARENA_MAX_BYTES);
    code = parse(&parser, text, err);
    fg_arena_destroy(parser.arena);
    if (code != FG_OK) {
        fg_jwks_unref(parser.set);
        return fg_wrap(err, "key set");
    }
    *ret_keys = parser.set;
    return FG_OK;
}

struct fg_jwks *fg_jwks_ref(struct fg_jwks *keys)
{
    (void)atomic_fetch_add_explicit(&keys->refs, 1, memory_order_relaxed);
    return keys;
}

void fg_jwks_unref(struct fg_jwks *keys)
{
    if (keys == NULL || atomic_fetch_sub_explicit(&keys->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (unsigned i = 0; i < keys->n; i++)
        EVP_PKEY_free(keys->keys[i].key);
    fg_arena_destroy(keys->arena);
    free(keys);
}

unsigned fg_jwks_count(const struct fg_jwks *keys)
{
    return keys->n;
}

const struct fg_jwk *fg_jwks_at(const struct fg_jwks *keys, unsigned number)
{
    fg_assert(number < keys->n);
    return &keys->keys[number];
}

unsigned fg_jwks_skipped(const struct fg_jwks *keys)
{
    return keys->skipped;
}

const struct fg_jwk *fg_jwks_find(const struct fg_jwks *keys, struct fg_slice kid,
                                  unsigned algorithm)
{
    const struct fg_jwk *found = NULL;

    for (unsigned i = 0; i < keys->n; i++) {
        const struct fg_jwk *key = &keys->keys[i];

        if ((key->algorithms & algorithm) == 0)
            continue;
        if (kid.ptr != NULL && key->kid.ptr != NULL && fg_slice_eq(key->kid, kid))
            return key;
        if (kid.ptr == NULL && found != NULL)
            return NULL;
        if (kid.ptr == NULL)
            found = key;
    }
    return found;
}
