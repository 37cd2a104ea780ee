#include "common/access/people/sealed_cookie.h"

#include "common/base/base64url.h"
#include "common/base/cursor.h"
#include "common/base/str.h"

#include <openssl/crypto.h>

enum {
    FORM = 1, /* of the head and of both contents */
    HEAD_BYTES = 6,
    SEALED_MIN_BYTES = HEAD_BYTES + FG_COOKIE_NONCE_BYTES + FG_SEAL_TAG_BYTES,
};

enum purpose { SESSION = 1, LOGIN = 2 };

static enum fg_code denied(struct fg_err *err)
{
    return fg_fail(err, FG_E_DENIED, "the cookie is not one of this server, or has ended");
}

/* ---- sealing ---- */

/* The room that the content of a cookie has. */
static size_t content_max(void)
{
    return fg_base64url_size(FG_COOKIE_MAX_BYTES) - SEALED_MIN_BYTES;
}

static enum fg_code seal(enum purpose purpose, struct fg_buf *content,
                         const struct fg_cookie_keys *keys, const uint8_t *nonce,
                         struct fg_buf *out, struct fg_err *err)
{
    uint8_t tag[FG_SEAL_TAG_BYTES];
    struct fg_buf sealed;

    if (keys->n == 0)
        return fg_fail(err, FG_E_UNAVAILABLE, "the keys of sessions are not known yet, try again");
    if (content->full)
        return fg_fail(err, FG_E_TOO_LARGE,
                       "the claims that have bindings do not fit into a cookie of %d bytes",
                       FG_COOKIE_MAX_BYTES);
    fg_buf_init(&sealed, SIZE_MAX);
    fg_buf_putc(&sealed, FORM);
    fg_buf_putc(&sealed, (uint8_t)purpose);
    fg_buf_le32(&sealed, keys->list[0].id);
    /* In place. The head is authenticated with the content, so nobody can turn the cookie of a
     * log-in into that of a session. */
    fg_seal_gcm(&keys->list[0].key, nonce, fg_buf_slice(&sealed), fg_buf_slice(content),
                content->ptr, tag);
    fg_buf_append(&sealed, nonce, FG_COOKIE_NONCE_BYTES);
    fg_buf_put(&sealed, fg_buf_slice(content));
    fg_buf_append(&sealed, tag, sizeof tag);
    fg_base64url_put(out, fg_buf_slice(&sealed));
    fg_buf_done(&sealed);
    return FG_OK;
}

static const struct fg_cookie_key *find_key(const struct fg_cookie_keys *keys, uint32_t id)
{
    for (unsigned i = 0; i < keys->n; i++)
        if (keys->list[i].id == id)
            return &keys->list[i];
    return NULL;
}

/* The content is decrypted in the arena. */
static enum fg_code open_sealed(enum purpose purpose, struct fg_slice cookie,
                                const struct fg_cookie_keys *keys, struct fg_arena *arena,
                                struct fg_cur *ret_content, struct fg_err *err)
{
    /* Wraps around for a cookie that is too short, which is refused before the length is used. */
    size_t len = fg_base64url_size(cookie.len) - SEALED_MIN_BYTES;
    const struct fg_cookie_key *key;
    uint8_t *bytes, *nonce, *content;
    struct fg_cur head;

    if (cookie.len > FG_COOKIE_MAX_BYTES || fg_base64url_size(cookie.len) < SEALED_MIN_BYTES)
        return denied(err);
    bytes = fg_arena_alloc(arena, fg_base64url_size(cookie.len));
    if (bytes == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory left for requests, try again");
    if (!fg_base64url_parse(cookie, bytes))
        return denied(err);
    /* Not authenticated yet: until the tag is checked, the head does no more than choose the
     * key. */
    head = fg_cur(fg_bytes(bytes, HEAD_BYTES));
    if (fg_cur_u8(&head) != FORM || fg_cur_u8(&head) != purpose)
        return denied(err);
    key = find_key(keys, fg_cur_le32(&head));
    if (key == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "the key of the cookie is not known");
    nonce = bytes + HEAD_BYTES;
    content = nonce + FG_COOKIE_NONCE_BYTES;
    if (!fg_seal_gcm_open(&key->key, nonce, fg_bytes(bytes, HEAD_BYTES), fg_bytes(content, len),
                          content + len, content))
        return denied(err);
    *ret_content = fg_cur(fg_bytes(content, len));
    return FG_OK;
}

/* ---- contents ---- */

enum fg_code fg_session_seal(const struct fg_session *session, const struct fg_cookie_keys *keys,
                             const uint8_t nonce[FG_COOKIE_NONCE_BYTES], struct fg_buf *out,
                             struct fg_err *err)
{
    struct fg_buf content;
    enum fg_code code;

    fg_buf_init(&content, content_max());
    fg_buf_putc(&content, FORM);
    fg_buf_lenbytes(&content, session->issuer);
    fg_buf_lenbytes(&content, session->subject);
    fg_buf_lenbytes(&content, session->name);
    fg_buf_varint(&content, (uint64_t)session->issued_s);
    fg_buf_varint(&content, (uint64_t)session->used_s);
    fg_buf_append(&content, session->csrf, sizeof session->csrf);
    fg_buf_varint(&content, session->n_claims);
    for (uint32_t i = 0; i < session->n_claims; i++) {
        fg_buf_lenbytes(&content, session->claims[i].path);
        fg_buf_lenbytes(&content, session->claims[i].value);
    }
    code = seal(SESSION, &content, keys, nonce, out, err);
    fg_buf_done(&content);
    return code;
}

enum fg_code fg_login_seal(const struct fg_login *login, const struct fg_cookie_keys *keys,
                           const uint8_t nonce[FG_COOKIE_NONCE_BYTES], struct fg_buf *out,
                           struct fg_err *err)
{
    struct fg_buf content;
    enum fg_code code;

    fg_buf_init(&content, content_max());
    fg_buf_putc(&content, FORM);
    fg_buf_append(&content, login->state, sizeof login->state);
    fg_buf_append(&content, login->nonce, sizeof login->nonce);
    fg_buf_append(&content, login->verifier, sizeof login->verifier);
    fg_buf_varint(&content, (uint64_t)login->begun_s);
    fg_buf_lenbytes(&content, login->return_path);
    code = seal(LOGIN, &content, keys, nonce, out, err);
    /* If sealing failed, the content is still in clear, and it has the verifier. */
    OPENSSL_cleanse(content.ptr, content.len);
    fg_buf_done(&content);
    return code;
}

static void take_bytes(struct fg_cur *cur, uint8_t *out, size_t len)
{
    struct fg_slice taken = fg_cur_take(cur, len);

    if (taken.ptr != NULL)
        memcpy(out, taken.ptr, len);
}

/* What we have sealed is whole; a later version may say more. */
static void take_form(struct fg_cur *cur)
{
    if (fg_cur_u8(cur) != FORM)
        fg_cur_fail(cur);
}

static enum fg_code take_claims(struct fg_cur *cur, struct fg_arena *arena,
                                struct fg_session *session, struct fg_err *err)
{
    uint64_t n = fg_cur_count(cur, 2);

    if (cur->bad || n > FG_ACCESS_CLAIMS_MAX)
        return denied(err);
    session->n_claims = (uint32_t)n;
    session->claims = fg_arena_new(arena, struct fg_claim, session->n_claims);
    if (session->claims == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory left for requests, try again");
    for (uint32_t i = 0; i < session->n_claims; i++) {
        session->claims[i].path = fg_cur_lenbytes(cur);
        session->claims[i].value = fg_cur_lenbytes(cur);
    }
    return FG_OK;
}

/* Times are within what people see, so that sums do not overflow. */
static int64_t take_time(struct fg_cur *cur)
{
    uint64_t seconds = fg_cur_varint(cur);

    if (seconds > INT64_MAX / 2)
        fg_cur_fail(cur);
    return (int64_t)seconds;
}

/* Times in the future are refused beyond the leeway: such a session would live longer than
 * FG_SESSION_MAX_S. */
static bool has_ended(const struct fg_session *session, int64_t now_s)
{
    return session->issued_s > now_s + FG_SESSION_LEEWAY_S ||
           session->used_s > now_s + FG_SESSION_LEEWAY_S ||
           now_s - session->issued_s >= FG_SESSION_MAX_S ||
           now_s - session->used_s >= FG_SESSION_IDLE_MAX_S;
}

enum fg_code fg_session_open(struct fg_slice cookie, const struct fg_cookie_keys *keys,
                             int64_t now_s, struct fg_arena *arena, struct fg_session *ret_session,
                             struct fg_err *err)
{
    struct fg_session session = {.claims = NULL};
    struct fg_cur cur = fg_cur(fg_bytes(NULL, 0));

    if (open_sealed(SESSION, cookie, keys, arena, &cur, err) != FG_OK)
        return err->code;
    take_form(&cur);
    session.issuer = fg_cur_lenbytes(&cur);
    session.subject = fg_cur_lenbytes(&cur);
    session.name = fg_cur_lenbytes(&cur);
    session.issued_s = take_time(&cur);
    session.used_s = take_time(&cur);
    take_bytes(&cur, session.csrf, sizeof session.csrf);
    if (take_claims(&cur, arena, &session, err) != FG_OK)
        return err->code;
    if (!fg_cur_end(&cur) || has_ended(&session, now_s))
        return denied(err);
    *ret_session = session;
    return FG_OK;
}

enum fg_code fg_login_open(struct fg_slice cookie, const struct fg_cookie_keys *keys, int64_t now_s,
                           struct fg_arena *arena, struct fg_login *ret_login, struct fg_err *err)
{
    struct fg_login login = {.begun_s = 0};
    struct fg_cur cur = fg_cur(fg_bytes(NULL, 0));

    if (open_sealed(LOGIN, cookie, keys, arena, &cur, err) != FG_OK)
        return err->code;
    take_form(&cur);
    take_bytes(&cur, login.state, sizeof login.state);
    take_bytes(&cur, login.nonce, sizeof login.nonce);
    take_bytes(&cur, login.verifier, sizeof login.verifier);
    login.begun_s = take_time(&cur);
    login.return_path = fg_cur_lenbytes(&cur);
    if (!fg_cur_end(&cur) || login.begun_s > now_s + FG_SESSION_LEEWAY_S ||
        now_s - login.begun_s >= FG_LOGIN_MAX_S)
        return denied(err);
    *ret_login = login;
    return FG_OK;
}

bool fg_session_is_due(const struct fg_session *session, int64_t now_s)
{
    return now_s - session->used_s >= FG_SESSION_RENEW_S;
}

bool fg_session_has_csrf(const struct fg_session *session, struct fg_slice text)
{
    uint8_t csrf[FG_SESSION_CSRF_BYTES];

    return fg_parse_hex(text, csrf, sizeof csrf) &&
           CRYPTO_memcmp(csrf, session->csrf, sizeof csrf) == 0;
}
