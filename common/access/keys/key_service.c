#include "common/access/keys/key_service.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum {
    ANSWER_MAX_BYTES = 64 * 1024, /* a wrapped key has less than 4 KiB */
    ARENA_MAX_BYTES = 512 * 1024, /* the answer as JSON */
    WHY_MAX_BYTES = 400,
};

#define TIMEOUT_NS (10 * FG_SECOND_NS)

/* ---- cooldown ---- */

static enum fg_code check_rest(struct fg_key_service *service, struct fg_err *err)
{
    enum fg_code code;

    (void)pthread_mutex_lock(&service->lock);
    code = fg_cooldown_check(&service->cooldown, err);
    (void)pthread_mutex_unlock(&service->lock);
    return code;
}

static void begin_rest(struct fg_key_service *service, const struct fg_err *why)
{
    (void)pthread_mutex_lock(&service->lock);
    fg_cooldown_begin(&service->cooldown, why);
    (void)pthread_mutex_unlock(&service->lock);
}

/* ---- asking ---- */

static enum fg_code read_answer(struct fg_key_service *service,
                                const struct fg_client_request *http, const char *member,
                                struct fg_arena *arena, struct fg_buf *out,
                                enum fg_key_fault *ret_fault, struct fg_err *err)
{
    struct fg_slice document = fg_buf_slice(&http->answer), why, text;

    if (http->code != FG_OK) {
        *ret_fault = FG_KEY_FAULT_AWAY;
        return fg_fail(err, FG_E_UNAVAILABLE, "%s: %s", service->name, http->err.msg);
    }
    if (http->status != 200) {
        *ret_fault = service->ops->read_fault(http->status, document, arena, &why);
        return fg_fail(err, FG_E_UNAVAILABLE, "%s: %s: status %u: %.*s", service->name, http->url,
                       http->status, FG_S(fg_slice_sub(why, 0, WHY_MAX_BYTES)));
    }
    *ret_fault = FG_KEY_FAULT_REFUSED;
    text = fg_key_answer_text(document, member, arena);
    fg_buf_put(out, text);
    if (text.len == 0 || out->full)
        return fg_fail(err, FG_E_UNAVAILABLE, "%s: %s: the answer has no %s", service->name,
                       http->url, member);
    return FG_OK;
}

static enum fg_code attempt(struct fg_key_service *service, struct fg_client_request *http,
                            const char *member, struct fg_buf *out, enum fg_key_fault *ret_fault,
                            struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    enum fg_code code;

    if (service->ops->sign != NULL && service->ops->sign(service, http, arena, err) != FG_OK) {
        *ret_fault = FG_KEY_FAULT_AWAY;
        err->code = FG_E_UNAVAILABLE;
        return fg_wrap(err, "%s", service->name);
    }
    fg_client_run(http);
    code = read_answer(service, http, member, arena, out, ret_fault, err);
    if (http->answer.len > 0) /* it may have a key */
        OPENSSL_cleanse(http->answer.ptr, http->answer.len);
    fg_client_clear(http);
    return code;
}

enum fg_code fg_key_service_ask(struct fg_key_service *service, struct fg_client_request *http,
                                const char *member, struct fg_buf *out, struct fg_err *err)
{
    enum fg_key_fault fault = FG_KEY_FAULT_REFUSED;
    struct fg_client_request again;
    enum fg_code code;

    if (check_rest(service, err) != FG_OK)
        return err->code;
    http->method = "POST";
    http->connect_timeout_ns = FG_KEY_SERVICE_CONNECT_TIMEOUT_NS;
    http->timeout_ns = TIMEOUT_NS;
    http->body_max_bytes = ANSWER_MAX_BYTES;
    again = *http;
    code = attempt(service, http, member, out, &fault, err);
    if (code != FG_OK && fault == FG_KEY_FAULT_CREDENTIALS && service->ops->renew(service))
        code = attempt(service, &again, member, out, &fault, err);
    if (code != FG_OK && fault != FG_KEY_FAULT_REFUSED)
        begin_rest(service, err);
    return code;
}

enum fg_code fg_key_service_ask_key(struct fg_key_service *service, struct fg_client_request *http,
                                    const char *member, struct fg_seal_key *ret_key,
                                    struct fg_err *err)
{
    struct fg_buf text;
    enum fg_code code;

    fg_buf_init(&text, FG_KEY_SERVICE_TEXT_MAX_BYTES);
    code = fg_key_service_ask(service, http, member, &text, err);
    if (code == FG_OK && !fg_key_answer_key(fg_buf_slice(&text), ret_key))
        code = fg_fail(err, FG_E_UNAVAILABLE, "%s: the answer has no key", service->name);
    if (text.len > 0)
        OPENSSL_cleanse(text.ptr, text.len);
    fg_buf_done(&text);
    return code;
}

void fg_key_service_put_base64(struct fg_json_writer *json, const char *key, struct fg_slice bytes)
{
    uint8_t text[4 * (FG_KEY_SERVICE_TEXT_MAX_BYTES / 3 + 1) + 1];

    fg_assert(bytes.len <= FG_KEY_SERVICE_TEXT_MAX_BYTES);
    fg_json_put_text(json, key,
                     fg_bytes(text, (size_t)EVP_EncodeBlock(text, bytes.ptr, (int)bytes.len)));
    OPENSSL_cleanse(text, sizeof text);
}

/* ---- life ---- */

void fg_key_service_init(struct fg_key_service *service, const char *name,
                         const struct fg_key_service_ops *ops)
{
    *service = (struct fg_key_service){.name = name, .ops = ops};
    fg_assert(pthread_mutex_init(&service->lock, NULL) == 0);
}

void fg_key_service_done(struct fg_key_service *service)
{
    (void)pthread_mutex_destroy(&service->lock);
}
