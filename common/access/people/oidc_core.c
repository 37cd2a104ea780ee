#include "common/access/people/oidc_core.h"

#include "common/access/jwt/claims.h"
#include "common/base/base64url.h"
#include "common/base/str.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { SHA256_BYTES = 32, REASON_MAX_BYTES = 200 };

/* ---- texts ---- */

struct fg_slice fg_oidc_return_path(struct fg_slice text)
{
    bool ok = text.len > 0 && text.len <= FG_LOGIN_RETURN_MAX_BYTES && text.ptr[0] == '/' &&
              (text.len == 1 || text.ptr[1] != '/');

    for (size_t i = 0; ok && i < text.len; i++)
        ok = text.ptr[i] > ' ' && text.ptr[i] < 0x7f && text.ptr[i] != '\\';
    return ok ? text : FG_LIT("/");
}

static void put_parameter(struct fg_buf *out, const char *name, struct fg_slice value)
{
    fg_buf_printf(out, "%s=", name);
    fg_buf_url(out, value);
    fg_buf_putc(out, '&');
}

/* Parameters end with '&' each, which the last must not. */
static void end_parameters(struct fg_buf *out)
{
    if (out->len > 0 && !out->full)
        out->len--;
}

static void put_base64(struct fg_buf *out, const char *name, const uint8_t *bytes, size_t len)
{
    fg_buf_printf(out, "%s=", name);
    fg_base64url_put(out, fg_bytes(bytes, len));
    fg_buf_putc(out, '&');
}

/* The challenge is the hash of the verifier as text (RFC 7636, 4.2). */
static void put_challenge(const struct fg_login *login, struct fg_buf *out)
{
    uint8_t hash[SHA256_BYTES];
    struct fg_buf verifier;

    fg_buf_init(&verifier, SIZE_MAX);
    fg_base64url_put(&verifier, fg_bytes(login->verifier, sizeof login->verifier));
    fg_assert(EVP_Digest(verifier.ptr, verifier.len, hash, NULL, EVP_sha256(), NULL) == 1);
    put_base64(out, "code_challenge", hash, sizeof hash);
    fg_buf_done(&verifier);
}

/* An endpoint may have a query of its own (RFC 6749, 3.1). */
static void put_endpoint(struct fg_buf *out, const char *url)
{
    fg_buf_puts(out, url);
    fg_buf_putc(out, strchr(url, '?') == NULL ? '?' : '&');
}

/* ---- requests ---- */

void fg_oidc_authorization_url(const struct fg_discovery *discovery,
                               const struct fg_oidc_client *client, const char *scopes,
                               const struct fg_login *login, struct fg_buf *out)
{
    put_endpoint(out, discovery->authorization);
    put_parameter(out, "response_type", FG_LIT("code"));
    put_parameter(out, "client_id", fg_cstr(client->id));
    put_parameter(out, "redirect_uri", fg_cstr(client->redirect_url));
    put_parameter(out, "scope", fg_cstr(scopes));
    put_base64(out, "state", login->state, sizeof login->state);
    put_base64(out, "nonce", login->nonce, sizeof login->nonce);
    put_challenge(login, out);
    put_parameter(out, "code_challenge_method", FG_LIT("S256"));
    end_parameters(out);
}

/* "Basic " and base64 of id:secret, each as in a form (RFC 6749, 2.3.1). */
static void put_basic(const struct fg_oidc_client *client, struct fg_buf *out)
{
    struct fg_buf plain;
    uint8_t *text;

    fg_buf_init(&plain, SIZE_MAX);
    fg_buf_url(&plain, fg_cstr(client->id));
    fg_buf_putc(&plain, ':');
    fg_buf_url(&plain, fg_cstr(client->secret));
    text = fg_malloc(4 * ((plain.len + 2) / 3) + 1);
    (void)EVP_EncodeBlock(text, plain.ptr, (int)plain.len);
    fg_buf_printf(out, "Basic %s", (const char *)text);
    OPENSSL_cleanse(plain.ptr, plain.len);
    OPENSSL_cleanse(text, 4 * ((plain.len + 2) / 3));
    free(text);
    fg_buf_done(&plain);
}

void fg_oidc_token_request(const struct fg_discovery *discovery,
                           const struct fg_oidc_client *client, const struct fg_login *login,
                           struct fg_slice code, struct fg_buf *body, struct fg_buf *authorization)
{
    put_parameter(body, "grant_type", FG_LIT("authorization_code"));
    put_parameter(body, "code", code);
    put_parameter(body, "redirect_uri", fg_cstr(client->redirect_url));
    put_base64(body, "code_verifier", login->verifier, sizeof login->verifier);
    if (discovery->secret_in_body) {
        put_parameter(body, "client_id", fg_cstr(client->id));
        put_parameter(body, "client_secret", fg_cstr(client->secret));
    } else {
        put_basic(client, authorization);
    }
    end_parameters(body);
}

void fg_oidc_logout_url(const struct fg_discovery *discovery, const struct fg_oidc_client *client,
                        const char *back_url, struct fg_buf *out)
{
    if (discovery->end_session == NULL)
        return;
    put_endpoint(out, discovery->end_session);
    put_parameter(out, "client_id", fg_cstr(client->id));
    put_parameter(out, "post_logout_redirect_uri", fg_cstr(back_url));
    end_parameters(out);
}

/* ---- answers ---- */

enum fg_code fg_oidc_id_token(unsigned status, struct fg_slice answer, struct fg_arena *arena,
                              struct fg_slice *ret_token, struct fg_err *err)
{
    enum fg_code code = fg_claims_check(answer, arena, err);

    if (code == FG_E_LIMIT)
        return code;
    if (code != FG_OK)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "the identity provider answered %u and no JSON to a code", status);
    if (status != 200) {
        /* The provider's reason, without what could break a line of the log. */
        struct fg_slice error = FG_LIT("no reason"), why = FG_LIT("");

        (void)!fg_claim_text(answer, "error", arena, &error);
        (void)!fg_claim_text(answer, "error_description", arena, &why);
        return fg_fail(err, status >= 500 ? FG_E_UNAVAILABLE : FG_E_DENIED,
                       "the identity provider answered %u: %.*s %.*s", status,
                       FG_S(fg_slice_sub(error, 0, REASON_MAX_BYTES)),
                       FG_S(fg_slice_sub(why, 0, REASON_MAX_BYTES)));
    }
    if (fg_claim_text(answer, "id_token", arena, ret_token) != FG_CLAIM_FOUND)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "the identity provider gave no ID token for a code; is openid among the "
                       "scopes?");
    return FG_OK;
}

struct fg_slice fg_oidc_name(struct fg_slice claims, struct fg_arena *arena)
{
    static const char *const names[] = {"name", "preferred_username", "email"};
    struct fg_slice name;

    for (size_t i = 0; i < FG_COUNT(names); i++)
        if (fg_claim_text(claims, names[i], arena, &name) == FG_CLAIM_FOUND && name.len > 0)
            return fg_slice_sub(name, 0, FG_OIDC_NAME_MAX_BYTES);
    return FG_LIT("");
}

bool fg_oidc_is_state(const struct fg_login *login, struct fg_slice text)
{
    uint8_t state[FG_LOGIN_RANDOM_BYTES];

    return fg_base64url_size(text.len) == sizeof state && fg_base64url_parse(text, state) &&
           CRYPTO_memcmp(state, login->state, sizeof state) == 0;
}

void fg_oidc_nonce(const struct fg_login *login, struct fg_buf *out)
{
    fg_base64url_put(out, fg_bytes(login->nonce, sizeof login->nonce));
}
