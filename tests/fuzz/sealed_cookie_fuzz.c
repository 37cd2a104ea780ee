/*
 * A cookie is opened or refused. The input is the value of a cookie, and, sealed here with the key,
 * the content of one: what a server of another version might have sealed.
 */
#include "common/access/people/sealed_cookie.h"
#include "common/base/base64url.h"

#include <openssl/evp.h>

static const struct fg_cookie_keys keys = {.list = {{.id = 1, .key = {{1}}}}, .n = 1};

static void seal(uint8_t purpose, const uint8_t *content, size_t size, struct fg_buf *out)
{
    uint8_t head[6 + FG_COOKIE_NONCE_BYTES] = {1, purpose, 1};
    uint8_t *sealed = fg_malloc(sizeof head + size + 16);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n;

    memcpy(sealed, head, sizeof head);
    fg_assert(EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, keys.list[0].key.bytes, head + 6) ==
                  1 &&
              EVP_EncryptUpdate(ctx, NULL, &n, head, 6) == 1 &&
              EVP_EncryptUpdate(ctx, sealed + sizeof head, &n, content, (int)size) == 1 &&
              EVP_EncryptFinal_ex(ctx, sealed + sizeof head + size, &n) == 1 &&
              EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, 16, sealed + sizeof head + size) == 1);
    EVP_CIPHER_CTX_free(ctx);
    fg_base64url_put(out, fg_bytes(sealed, sizeof head + size + 16));
    free(sealed);
}

static void look(struct fg_slice cookie)
{
    static const int64_t now_s = 1800000000;
    struct fg_arena *arena = fg_arena_create(64 * 1024);
    struct fg_session session;
    struct fg_login login;
    struct fg_buf again;
    struct fg_err err;

    fg_buf_init(&again, SIZE_MAX);
    if (fg_session_open(cookie, &keys, now_s, arena, &session, &err) == FG_OK) {
        fg_assert(session.issued_s <= now_s + FG_SESSION_LEEWAY_S &&
                  now_s - session.used_s < FG_SESSION_IDLE_MAX_S);
        fg_assert(fg_session_seal(&session, &keys, session.csrf, &again, &err) == FG_OK);
        fg_assert(fg_session_open(fg_buf_slice(&again), &keys, now_s, arena, &session, &err) ==
                  FG_OK);
    }
    fg_buf_clear(&again);
    if (fg_login_open(cookie, &keys, now_s, arena, &login, &err) == FG_OK)
        fg_assert(fg_login_seal(&login, &keys, login.state, &again, &err) == FG_OK);
    fg_buf_done(&again);
    fg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_buf cookie;

    look(fg_bytes(data, size));
    fg_buf_init(&cookie, SIZE_MAX);
    for (uint8_t purpose = 1; purpose <= 2 && size < FG_COOKIE_MAX_BYTES; purpose++) {
        fg_buf_clear(&cookie);
        seal(purpose, data, size, &cookie);
        look(fg_buf_slice(&cookie));
    }
    fg_buf_done(&cookie);
    return 0;
}
