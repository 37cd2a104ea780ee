/*
 * The transit engine of HashiCorp Vault, and of OpenBao (developer.hashicorp.com/vault/api-docs/
 * secret/transit): keys of tenants are encrypted and decrypted there, by a key that never leaves
 * it.
 */
#include "common/access/keys/key_service.h"
#include "common/access/keys/key_wrap.h"

#include <openssl/crypto.h>

enum { URL_MAX_BYTES = 1024, BODY_MAX_BYTES = 16 * 1024 };

struct wrap_vault {
    struct fg_key_wrap wrap;
    struct fg_key_wrap_vault config; /* texts are borrowed from the settings */
    struct fg_client_tls tls;
    struct fg_key_service service;
};

static struct wrap_vault *vault_of(struct fg_key_wrap *wrap)
{
    return fg_container(wrap, struct wrap_vault, wrap);
}

/* Returns a request that asks the engine to `verb` something. url: room for its address. */
static struct fg_client_request request_to(const struct wrap_vault *vault, const char *verb,
                                           struct fg_slice body, char url[URL_MAX_BYTES])
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};

    (void)snprintf(url, URL_MAX_BYTES, "%s/v1/%s/%s/%s", vault->config.address, vault->config.mount,
                   verb, vault->config.key);
    return (struct fg_client_request){.url = url,
                                      .headers = headers,
                                      .body = body,
                                      .tls = &vault->tls,
                                      .token_file = vault->config.token_file};
}

static void put_associated(struct fg_json_writer *json, struct fg_slice owner)
{
    struct fg_buf text;

    fg_buf_init(&text, FG_KEY_SERVICE_TEXT_MAX_BYTES);
    fg_buf_puts(&text, "flamegrid key of ");
    fg_buf_put(&text, owner);
    fg_key_service_put_base64(json, "associated_data", fg_buf_slice(&text));
    fg_buf_done(&text);
}

/* The wrapped form is the ciphertext as Vault writes it: "vault:v1:...". */
static enum fg_code wrap_key(struct fg_key_wrap *wrap, struct fg_slice owner,
                             const struct fg_seal_key *key, struct fg_buf *out, struct fg_err *err)
{
    struct wrap_vault *vault = vault_of(wrap);
    struct fg_client_request http;
    char url[URL_MAX_BYTES];
    struct fg_json_writer json;
    struct fg_buf body;
    enum fg_code code;

    fg_buf_init(&body, BODY_MAX_BYTES);
    json = fg_json_writer(&body);
    fg_json_begin_object(&json, NULL);
    fg_key_service_put_base64(&json, "plaintext", fg_bytes(key->bytes, sizeof key->bytes));
    put_associated(&json, owner);
    fg_json_end(&json);
    http = request_to(vault, "encrypt", fg_buf_slice(&body), url);
    code = fg_key_service_ask(&vault->service, &http, "ciphertext", out, err);
    OPENSSL_cleanse(body.ptr, body.len);
    fg_buf_done(&body);
    return code;
}

static enum fg_code unwrap_key(struct fg_key_wrap *wrap, struct fg_slice owner,
                               struct fg_slice wrapped, struct fg_seal_key *ret_key,
                               struct fg_err *err)
{
    struct wrap_vault *vault = vault_of(wrap);
    struct fg_client_request http;
    char url[URL_MAX_BYTES];
    struct fg_json_writer json;
    struct fg_buf body;
    enum fg_code code;

    fg_buf_init(&body, BODY_MAX_BYTES);
    json = fg_json_writer(&body);
    fg_json_begin_object(&json, NULL);
    fg_json_put_text(&json, "ciphertext", wrapped);
    put_associated(&json, owner);
    fg_json_end(&json);
    http = request_to(vault, "decrypt", fg_buf_slice(&body), url);
    code = fg_key_service_ask_key(&vault->service, &http, "plaintext", ret_key, err);
    fg_buf_done(&body);
    return code;
}

/* "vault:v2:" of "vault:v2:ciphertext". */
static struct fg_slice version_of(struct fg_slice wrapped)
{
    size_t name = fg_slice_find(wrapped, ':'), version;

    if (name == SIZE_MAX)
        return wrapped;
    version = fg_slice_find(fg_slice_sub(wrapped, name + 1, wrapped.len), ':');
    return version == SIZE_MAX ? wrapped : fg_slice_sub(wrapped, 0, name + 1 + version);
}

static bool same_version(struct fg_slice a, struct fg_slice b)
{
    return fg_slice_eq(version_of(a), version_of(b));
}

static void destroy(struct fg_key_wrap *wrap)
{
    struct wrap_vault *vault = vault_of(wrap);

    fg_key_service_done(&vault->service);
    free(vault);
}

static bool is_path(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (!((*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') ||
              *c == '-' || *c == '_' || *c == '.' || *c == '/'))
            return false;
    return text[0] != '\0';
}

enum fg_code fg_key_wrap_vault(const struct fg_key_wrap_vault *config,
                               struct fg_key_wrap **ret_wrap, struct fg_err *err)
{
    static const struct fg_key_service_ops ops = {.read_fault = fg_key_answer_vault_fault};
    struct wrap_vault *vault;

    if (!is_path(config->mount) || !is_path(config->key))
        return fg_fail(err, FG_E_INVALID,
                       "encryption.vault_mount and encryption.vault_key have letters, digits and "
                       "- _ . / only");
    if (config->token_file[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "encryption.vault_token_file is needed");
    vault = fg_new(struct wrap_vault);
    vault->wrap = (struct fg_key_wrap){
        .wrap = wrap_key, .unwrap = unwrap_key, .same_version = same_version, .destroy = destroy};
    vault->config = *config;
    fg_key_service_init(&vault->service, vault->wrap.name, &ops);
    if (config->ca_file[0] != '\0')
        vault->tls.ca_file = config->ca_file;
    (void)snprintf(vault->wrap.name, sizeof vault->wrap.name, "vault:%s/%s", config->mount,
                   config->key);
    *ret_wrap = &vault->wrap;
    return FG_OK;
}
