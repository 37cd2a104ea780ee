/*
 * A token is parsed or denied, and nothing that a stranger makes up is verified. The input is a
 * token, or "header\nclaims": JSON that is encoded here, with a signature of zeros, so that
 * mutations reach what lies behind base64url.
 */
#include "common/access/jwt/claims.h"
#include "common/access/jwt/jwt.h"
#include "common/base/base64url.h"

/* A key of RFC 7515 (A.3), whose tokens nobody but its owner can make. */
static const char key_set[] = "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\","
                              "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                              "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";

static void look(struct fg_slice token, const struct fg_jwks *keys)
{
    static const char *const paths[] = {"groups", "/realm_access/roles", "/a~1b/~0", "sub"};
    struct fg_arena *arena = fg_arena_create(FG_JWT_ARENA_BYTES);
    struct fg_jwt_rules rules = {.issuer = "i", .audience = "a", .now_s = 1800000000};
    struct fg_jwt_verified verified;
    struct fg_slice *values;
    struct fg_jwt jwt;
    struct fg_err err;
    uint32_t n;

    if (fg_jwt_parse(token, arena, &jwt, &err) == FG_OK) {
        fg_assert(fg_claims_check(jwt.claims, arena, &err) == FG_OK);
        for (size_t i = 0; i < FG_COUNT(paths); i++)
            (void)!fg_claim_values(jwt.claims, fg_cstr(paths[i]), arena, &values, &n);
        fg_assert(fg_jwt_verify(&jwt, keys, &rules, arena, &verified, &err) != FG_OK);
    } else {
        fg_assert(err.code == FG_E_DENIED);
    }
    fg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fg_jwks *keys;
    struct fg_slice in = fg_bytes(data, size);
    size_t line = fg_slice_find(in, '\n');
    static const uint8_t zeros[64];
    struct fg_buf token;
    struct fg_err err;

    if (keys == NULL)
        fg_assert(fg_jwks_parse(fg_cstr(key_set), &keys, &err) == FG_OK);
    look(in, keys);
    if (line == SIZE_MAX)
        return 0;
    fg_buf_init(&token, SIZE_MAX);
    fg_base64url_put(&token, fg_slice_sub(in, 0, line));
    fg_buf_putc(&token, '.');
    fg_base64url_put(&token, fg_slice_sub(in, line + 1, size));
    fg_buf_putc(&token, '.');
    fg_base64url_put(&token, fg_bytes(zeros, sizeof zeros));
    look(fg_buf_slice(&token), keys);
    fg_buf_done(&token);
    return 0;
}
