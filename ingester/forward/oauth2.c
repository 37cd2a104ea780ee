#include "ingester/forward/oauth2.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/document.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum {
    SECRET_MAX_BYTES = 1024,
    SECRET_FILE_MAX_BYTES = 16384, /* fg_conf_read_file() wants room */
    FORM_MAX_BYTES = 16384,
    /* "ID:SECRET", each byte of which may be three. */
    LOGIN_MAX_BYTES = 3 * (256 + SECRET_MAX_BYTES) + 1,
};

/* Of a token whose server does not say (RFC 6749 5.1 recommends that it does). */
static const int64_t LIFETIME_NS = 5 * FG_MINUTE_NS, LIFETIME_MAX_NS = 24 * FG_HOUR_NS;

#define CONF(field) FG_CONF_AT(struct ing_oauth2, field)

/* clang-format off */
static const struct fg_conf_field fields[] = {
    {"token_url", FG_CONF_STRING, CONF(token_url), .def = "", .max = "4096", .doc = "Token endpoint."},
    {"client_id", FG_CONF_STRING, CONF(client_id), .def = "", .max = "256", .doc = "Client."},
    {"client_secret_file", FG_CONF_STRING, CONF(client_secret_file), .def = "", .max = "4096", .doc = "File with its secret."},
    {"scopes", FG_CONF_YAML, CONF(scopes), .def = "", .max = "4096", .doc = "Scopes."},
    {"params", FG_CONF_YAML, CONF(params), .def = "", .max = "4096", .doc = "Further parameters."},
};
/* clang-format on */
#undef CONF

static struct fg_conf_section section_of(struct ing_oauth2 *oauth2)
{
    return (struct fg_conf_section){"", fields, FG_COUNT(fields), oauth2};
}

/* ---- the form ---- */

/* As application/x-www-form-urlencoded. */
static void put_escaped(struct fg_slice text, struct fg_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~')
            fg_buf_putc(out, c);
        else
            fg_buf_printf(out, "%%%02X", c);
    }
}

static void put_param(const char *name, struct fg_slice value, struct fg_buf *out)
{
    if (out->len > 0)
        fg_buf_putc(out, '&');
    put_escaped(fg_cstr(name), out);
    fg_buf_putc(out, '=');
    put_escaped(value, out);
}

static enum fg_code put_scopes(const json_t *scopes, struct fg_buf *out, struct fg_err *err)
{
    struct fg_buf joined;
    const json_t *scope;
    size_t i;

    if (json_is_null(scopes))
        return FG_OK;
    if (!json_is_array(scopes))
        return fg_fail(err, FG_E_INVALID, "scopes: not a list of texts");
    fg_buf_init(&joined, FORM_MAX_BYTES);
    json_array_foreach(scopes, i, scope)
    {
        if (!json_is_string(scope)) {
            fg_buf_done(&joined);
            return fg_fail(err, FG_E_INVALID, "scopes: not a list of texts");
        }
        fg_buf_puts(&joined, i == 0 ? "" : " ");
        fg_buf_put(&joined, fg_document_text(scope));
    }
    if (joined.len > 0)
        put_param("scope", fg_buf_slice(&joined), out);
    fg_buf_done(&joined);
    return FG_OK;
}

static enum fg_code put_params(json_t *params, struct fg_buf *out, struct fg_err *err)
{
    const char *name;
    json_t *value;

    if (json_is_null(params))
        return FG_OK;
    if (!json_is_object(params))
        return fg_fail(err, FG_E_INVALID, "params: not a map of texts");
    json_object_foreach(params, name, value)
    {
        if (!json_is_string(value))
            return fg_fail(err, FG_E_INVALID, "params: not a map of texts");
        /* The first two would be there twice. A secret belongs in its file, and not into settings
         * that pages show. */
        if (strcmp(name, "grant_type") == 0 || strcmp(name, "scope") == 0 ||
            strcmp(name, "client_secret") == 0)
            return fg_fail(err, FG_E_INVALID, "params: %s is set by other keys", name);
        put_param(name, fg_document_text(value), out);
    }
    return FG_OK;
}

static enum fg_code make_form(struct ing_oauth2 *oauth2, struct fg_err *err)
{
    json_t *scopes = NULL, *params = NULL;
    enum fg_code code = fg_document_from_yaml(fg_cstr(oauth2->scopes), "scopes", &scopes, err);

    put_param("grant_type", FG_LIT("client_credentials"), &oauth2->form);
    if (code == FG_OK)
        code = put_scopes(scopes, &oauth2->form, err);
    if (code == FG_OK)
        code = fg_document_from_yaml(fg_cstr(oauth2->params), "params", &params, err);
    if (code == FG_OK)
        code = put_params(params, &oauth2->form, err);
    json_decref(scopes);
    json_decref(params);
    if (code == FG_OK && oauth2->form.full)
        return fg_fail(err, FG_E_INVALID, "scopes and params are too long");
    return code;
}

static enum fg_code check(const struct ing_oauth2 *oauth2, struct fg_err *err)
{
    const char *url = oauth2->token_url;

    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return fg_fail(err, FG_E_INVALID,
                       "token_url \"%.200s\" does not begin with http:// or https://", url);
    for (; *url != '\0'; url++)
        if ((unsigned char)*url <= ' ')
            return fg_fail(err, FG_E_INVALID, "token_url has a space");
    if (oauth2->client_id[0] == '\0' || oauth2->client_secret_file[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "client_id and client_secret_file are needed");
    return FG_OK;
}

enum fg_code ing_oauth2_read(const char *yaml, struct ing_oauth2 *ret_oauth2, struct fg_err *err)
{
    struct fg_conf_section section = section_of(ret_oauth2);
    struct fg_conf conf = {.sections = &section, .n_sections = 1};

    *ret_oauth2 = (struct ing_oauth2){0};
    fg_buf_init(&ret_oauth2->form, FORM_MAX_BYTES);
    if (fg_conf_load(&conf, NULL, NULL, NULL, 0, err) != FG_OK ||
        fg_conf_parse_yaml(&conf, fg_cstr(yaml), "oauth2", err) != FG_OK ||
        check(ret_oauth2, err) != FG_OK)
        return err->code;
    return make_form(ret_oauth2, err);
}

void ing_oauth2_done(struct ing_oauth2 *oauth2)
{
    struct fg_conf_section section = section_of(oauth2);

    fg_conf_done(&(struct fg_conf){.sections = &section, .n_sections = 1});
    fg_buf_done(&oauth2->form);
}

/* ---- requests ---- */

static void put_login(const struct ing_oauth2 *oauth2, struct fg_slice secret, struct fg_buf *out)
{
    struct fg_buf login;

    fg_buf_init(&login, LOGIN_MAX_BYTES);
    /* RFC 6749 2.3.1: each is encoded as in a form first. */
    put_escaped(fg_cstr(oauth2->client_id), &login);
    fg_buf_putc(&login, ':');
    put_escaped(secret, &login);
    fg_buf_puts(out, "Authorization: Basic ");
    /* One byte more, since EVP_EncodeBlock() writes a NUL behind the text. */
    if (fg_buf_reserve(out, (login.len + 2) / 3 * 4 + 1))
        out->len += (size_t)EVP_EncodeBlock(out->ptr + out->len, login.ptr, (int)login.len);
    fg_buf_putc(out, '\0');
    OPENSSL_cleanse(login.ptr, login.cap);
    fg_buf_done(&login);
}

enum fg_code ing_oauth2_authorization(const struct ing_oauth2 *oauth2, struct fg_buf *out,
                                      struct fg_err *err)
{
    struct fg_slice secret;
    struct fg_buf content;
    enum fg_code code;

    fg_buf_init(&content, SECRET_FILE_MAX_BYTES);
    code = fg_conf_read_file(oauth2->client_secret_file, &content, err);
    secret = fg_trim(fg_buf_slice(&content));
    if (code == FG_OK && (secret.len == 0 || secret.len > SECRET_MAX_BYTES))
        code = fg_fail(err, FG_E_INVALID, "%s: a secret of %zu bytes, not 1 to %d",
                       oauth2->client_secret_file, secret.len, SECRET_MAX_BYTES);
    if (code == FG_OK)
        put_login(oauth2, secret, out);
    if (content.ptr != NULL)
        OPENSSL_cleanse(content.ptr, content.cap);
    fg_buf_done(&content);
    /* One code for all faults of the file: they are ours, and say nothing about the target. */
    return code == FG_OK ? FG_OK : (err->code = FG_E_INVALID);
}

/* ---- answers ---- */

/* What a header may have: RFC 6750 2.1, and no byte that would end it. */
static bool is_token(struct fg_slice token)
{
    for (size_t i = 0; i < token.len; i++)
        if (token.ptr[i] <= ' ' || token.ptr[i] > '~')
            return false;
    return token.len > 0 && token.len <= OAUTH2_TOKEN_MAX_BYTES;
}

static int64_t lifetime_of(const json_t *answer)
{
    const json_t *seconds = json_object_get(answer, "expires_in");

    if (!json_is_integer(seconds) || json_integer_value(seconds) <= 0)
        return LIFETIME_NS;
    return FG_MIN((int64_t)json_integer_value(seconds), LIFETIME_MAX_NS / FG_SECOND_NS) *
           FG_SECOND_NS;
}

static enum fg_code take_token(const json_t *answer, struct fg_buf *out, int64_t *ret_lifetime_ns,
                               struct fg_err *err)
{
    struct fg_slice token = fg_document_get(answer, "access_token");
    struct fg_slice type = fg_document_get(answer, "token_type");

    if (!is_token(token) || !fg_slice_is_nocase(type, "bearer"))
        return fg_fail(err, FG_E_UNAVAILABLE, "the answer has no bearer token");
    fg_buf_puts(out, "Authorization: Bearer ");
    fg_buf_put(out, token);
    fg_buf_putc(out, '\0');
    *ret_lifetime_ns = lifetime_of(answer);
    return FG_OK;
}

enum fg_code ing_oauth2_answer(unsigned status, struct fg_slice body, struct fg_buf *out,
                               int64_t *ret_lifetime_ns, struct fg_err *err)
{
    /* NULL if it is no JSON: then no member is found. */
    json_t *answer = json_loadb((const char *)body.ptr, body.len, 0, NULL);
    enum fg_code code = FG_OK;

    if (status == 200) {
        code = take_token(answer, out, ret_lifetime_ns, err);
    } else {
        struct fg_slice why = fg_slice_sub(fg_document_get(answer, "error"), 0, 100);

        /* 400 with an error of OAuth 2 is about the client; without, it may be a proxy's. */
        code = status == 401 || (status == 400 && why.len > 0) ? FG_E_DENIED : FG_E_UNAVAILABLE;
        (void)fg_fail(err, code, "status %u: %.*s", status, FG_S(why));
    }
    json_decref(answer);
    return code;
}
