/*
 * The transit engine of HashiCorp Vault, and of OpenBao (developer.hashicorp.com/vault/api-docs/
 * secret/transit): keys of tenants are encrypted and decrypted there, by a key that never leaves
 * it. A key is wrapped once in its life and unwrapped once per process, so each call has a loop of
 * its own.
 */
#include "common/access/key_wrap.h"
#include "common/access/rest.h"
#include "common/base/json.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/net/client.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>

enum {
    URL_MAX_BYTES = 1024,
    BODY_MAX_BYTES = 16 * 1024,
    ANSWER_MAX_BYTES = 64 * 1024,
    ARENA_MAX_BYTES = 256 * 1024,
    TEXT_MAX_BYTES = 4096, /* of what becomes base64 */
};

#define CONNECT_TIMEOUT_NS (5 * FG_SECOND_NS)
#define TIMEOUT_NS         (10 * FG_SECOND_NS)

struct wrap_vault {
    struct fg_key_wrap wrap;
    struct fg_key_wrap_vault config; /* texts are borrowed from the settings */
    struct fg_client_tls tls;
    pthread_mutex_t lock; /* of the next; held for moments */
    struct fg_rest rest;
};

/* One call, and the thread that waits for it. */
struct vault_call {
    struct fg_client *client;
    struct fg_client_request request;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_over;
};

static struct wrap_vault *vault_of(struct fg_key_wrap *wrap)
{
    return fg_container(wrap, struct wrap_vault, wrap);
}

/* ---- a call ---- */

static void on_done(struct fg_client_request *request)
{
    struct vault_call *call = fg_container(request, struct vault_call, request);

    (void)pthread_mutex_lock(&call->lock);
    call->is_over = true;
    (void)pthread_cond_signal(&call->ended);
    (void)pthread_mutex_unlock(&call->lock);
}

static void send_call(void *arg)
{
    struct vault_call *call = arg;

    fg_client_send(call->client, &call->request);
}

static void close_client(void *arg)
{
    struct vault_call *call = arg;

    fg_client_close(call->client);
}

/* Sends the request and waits for its end. */
static enum fg_code run(struct vault_call *call, struct fg_err *err)
{
    struct fg_loop *loop = fg_loop_create("vault");

    call->client = fg_client_create(
        &(struct fg_client_config){.loop = loop, .running_max = 1, .waiting_max = 1});
    if (fg_loop_start(loop, err) != FG_OK) {
        fg_client_destroy(call->client);
        fg_loop_destroy(loop);
        return err->code;
    }
    fg_assert(pthread_mutex_init(&call->lock, NULL) == 0);
    fg_assert(pthread_cond_init(&call->ended, NULL) == 0);
    fg_loop_call(loop, send_call, call);
    (void)pthread_mutex_lock(&call->lock);
    while (!call->is_over)
        (void)pthread_cond_wait(&call->ended, &call->lock);
    (void)pthread_mutex_unlock(&call->lock);
    fg_loop_call(loop, close_client, call);
    fg_loop_stop(loop);
    fg_client_destroy(call->client);
    fg_loop_destroy(loop);
    (void)pthread_cond_destroy(&call->ended);
    (void)pthread_mutex_destroy(&call->lock);
    if (call->request.code == FG_OK)
        return FG_OK;
    *err = call->request.err;
    return err->code;
}

/* ---- JSON ---- */

/* Adds a member whose text is the bytes as base64. */
static void put_base64(struct fg_json_writer *json, const char *key, struct fg_slice bytes)
{
    uint8_t text[4 * (TEXT_MAX_BYTES / 3 + 1) + 1];

    fg_assert(bytes.len <= TEXT_MAX_BYTES);
    fg_json_put_text(json, key,
                     fg_bytes(text, (size_t)EVP_EncodeBlock(text, bytes.ptr, (int)bytes.len)));
    OPENSSL_cleanse(text, sizeof text);
}

/* Finds a text by its key, at any depth; ptr NULL: it is not there. */
static struct fg_slice text_of(struct fg_slice document, const char *key, struct fg_arena *arena)
{
    struct fg_json json = fg_json(document);
    bool next = false;

    for (;;) {
        enum fg_json_token token = fg_json_next(&json);

        if (token == FG_JSON_BAD || token == FG_JSON_END)
            return fg_bytes(NULL, 0);
        if (token == FG_JSON_STRING && next)
            return fg_json_text(&json, arena);
        next = (token == FG_JSON_KEY && fg_slice_is(json.text, key)) ||
               (next && token == FG_JSON_ARRAY);
    }
}

/* ---- the engine ---- */

static enum fg_code check_rest(struct wrap_vault *vault, struct fg_err *err)
{
    enum fg_code code;

    (void)pthread_mutex_lock(&vault->lock);
    code = fg_rest_check(&vault->rest, err);
    (void)pthread_mutex_unlock(&vault->lock);
    return code;
}

static void begin_rest(struct wrap_vault *vault, const struct fg_err *why)
{
    (void)pthread_mutex_lock(&vault->lock);
    fg_rest_begin(&vault->rest, why);
    (void)pthread_mutex_unlock(&vault->lock);
}

/* Returns true if the answer says nothing of what was asked: Vault is sealed, or has too much to
 * do. */
static bool is_about_vault(unsigned status)
{
    return status == 429 || status >= 500;
}

/* Whatever Vault says may be put right there: no block is at fault. */
static enum fg_code refused(const struct vault_call *call, struct fg_arena *arena,
                            struct fg_err *err)
{
    struct fg_slice why = text_of(fg_buf_slice(&call->request.answer), "errors", arena);

    return fg_fail(err, FG_E_UNAVAILABLE, "vault: %s: status %u: %.*s", call->request.url,
                   call->request.status, FG_S(fg_slice_sub(why, 0, 200)));
}

/* Asks the engine to `verb` something, and appends the text of a member of the answer to `out`. */
static enum fg_code ask(struct wrap_vault *vault, const char *verb, struct fg_slice body,
                        const char *member, struct fg_buf *out, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    char url[URL_MAX_BYTES];
    struct vault_call call = {.request = {.method = "POST",
                                          .url = url,
                                          .headers = headers,
                                          .body = body,
                                          .tls = &vault->tls,
                                          .token_file = vault->config.token_file,
                                          .connect_timeout_ns = CONNECT_TIMEOUT_NS,
                                          .timeout_ns = TIMEOUT_NS,
                                          .body_max_bytes = ANSWER_MAX_BYTES,
                                          .done = on_done}};
    enum fg_code code;

    (void)snprintf(url, sizeof url, "%s/v1/%s/%s/%s", vault->config.address, vault->config.mount,
                   verb, vault->config.key);
    if (check_rest(vault, err) != FG_OK)
        return err->code;
    code = run(&call, err);
    if (code != FG_OK) {
        code = err->code = FG_E_UNAVAILABLE;
        begin_rest(vault, err);
    } else if (call.request.status != 200) {
        code = refused(&call, arena, err);
        if (is_about_vault(call.request.status))
            begin_rest(vault, err);
    } else {
        struct fg_slice text = text_of(fg_buf_slice(&call.request.answer), member, arena);

        fg_buf_put(out, text);
        if (text.ptr == NULL || out->full)
            code = fg_fail(err, FG_E_UNAVAILABLE, "vault: %s: the answer has no %s", url, member);
    }
    if (call.request.answer.len > 0) /* it may have a key */
        OPENSSL_cleanse(call.request.answer.ptr, call.request.answer.len);
    fg_client_clear(&call.request);
    return code;
}

static void put_associated(struct fg_json_writer *json, struct fg_slice owner)
{
    struct fg_buf text;

    fg_buf_init(&text, TEXT_MAX_BYTES);
    fg_buf_puts(&text, "flamegrid key of ");
    fg_buf_put(&text, owner);
    put_base64(json, "associated_data", fg_buf_slice(&text));
    fg_buf_done(&text);
}

/* The wrapped form is the ciphertext as Vault writes it: "vault:v1:...". */
static enum fg_code wrap_key(struct fg_key_wrap *wrap, struct fg_slice owner,
                             const struct fg_seal_key *key, struct fg_buf *out, struct fg_err *err)
{
    struct fg_json_writer json;
    struct fg_buf body;
    enum fg_code code;

    fg_buf_init(&body, BODY_MAX_BYTES);
    json = fg_json_writer(&body);
    fg_json_begin_object(&json, NULL);
    put_base64(&json, "plaintext", fg_bytes(key->bytes, sizeof key->bytes));
    put_associated(&json, owner);
    fg_json_end(&json);
    code = ask(vault_of(wrap), "encrypt", fg_buf_slice(&body), "ciphertext", out, err);
    OPENSSL_cleanse(body.ptr, body.len);
    fg_buf_done(&body);
    return code;
}

/* Reads 32 bytes in base64, which are 44 characters with padding. */
static bool read_key(struct fg_slice text, struct fg_seal_key *ret_key)
{
    uint8_t bytes[FG_SEAL_KEY_BYTES + 8];
    size_t len = 0;
    bool good = text.len <= 44 && fg_parse_base64(text, bytes, &len) && len == FG_SEAL_KEY_BYTES;

    if (good)
        memcpy(ret_key->bytes, bytes, sizeof ret_key->bytes);
    OPENSSL_cleanse(bytes, sizeof bytes);
    return good;
}

static enum fg_code unwrap_key(struct fg_key_wrap *wrap, struct fg_slice owner,
                               struct fg_slice wrapped, struct fg_seal_key *ret_key,
                               struct fg_err *err)
{
    struct fg_json_writer json;
    struct fg_buf body, text;
    enum fg_code code;

    fg_buf_init(&body, BODY_MAX_BYTES);
    fg_buf_init(&text, TEXT_MAX_BYTES);
    json = fg_json_writer(&body);
    fg_json_begin_object(&json, NULL);
    fg_json_put_text(&json, "ciphertext", wrapped);
    put_associated(&json, owner);
    fg_json_end(&json);
    code = ask(vault_of(wrap), "decrypt", fg_buf_slice(&body), "plaintext", &text, err);
    if (code == FG_OK && !read_key(fg_buf_slice(&text), ret_key))
        code = fg_fail(err, FG_E_UNAVAILABLE, "vault: the answer has no key");
    if (text.len > 0)
        OPENSSL_cleanse(text.ptr, text.len);
    fg_buf_done(&text);
    fg_buf_done(&body);
    return code;
}

static void destroy(struct fg_key_wrap *wrap)
{
    struct wrap_vault *vault = vault_of(wrap);

    (void)pthread_mutex_destroy(&vault->lock);
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
    struct wrap_vault *vault;

    if (!is_path(config->mount) || !is_path(config->key))
        return fg_fail(err, FG_E_INVALID,
                       "encryption.vault_mount and encryption.vault_key have letters, digits and "
                       "- _ . / only");
    if (config->token_file[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "encryption.vault_token_file is needed");
    vault = fg_new(struct wrap_vault);
    vault->wrap = (struct fg_key_wrap){.wrap = wrap_key, .unwrap = unwrap_key, .destroy = destroy};
    vault->config = *config;
    fg_assert(pthread_mutex_init(&vault->lock, NULL) == 0);
    if (config->ca_file[0] != '\0')
        vault->tls.ca_file = config->ca_file;
    (void)snprintf(vault->wrap.name, sizeof vault->wrap.name, "vault:%s/%s", config->mount,
                   config->key);
    *ret_wrap = &vault->wrap;
    return FG_OK;
}
