/* A key set is parsed or refused; every key in a set that is parsed says what it verifies. */
#include "common/access/jwt/jwks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_jwks *keys;
    struct fg_err err;

    if (fg_jwks_parse(fg_bytes(data, size), &keys, &err) != FG_OK)
        return 0;
    fg_assert(fg_jwks_count(keys) > 0 &&
              fg_jwks_count(keys) + fg_jwks_skipped(keys) <= FG_JWKS_KEYS_MAX);
    for (unsigned algorithm = FG_JWT_RS256; algorithm <= FG_JWT_EDDSA; algorithm <<= 1) {
        const struct fg_jwk *key = fg_jwks_find(keys, fg_bytes(NULL, 0), algorithm);

        fg_assert(key == NULL || (key->key != NULL && (key->algorithms & algorithm) != 0));
    }
    fg_jwks_unref(keys);
    return 0;
}
