#include "common/access/session_keys.h"

#include "common/access/session_keys.pb-c.h"
#include "common/base/str.h"
#include "common/runtime/config.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"
#include "common/storage/bucket/message_object.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    OBJECT_MAX_BYTES = 64 * 1024, /* two keys have 250; room for later fields */
    ARENA_MAX_BYTES = 1024 * 1024,
    FILE_MAX_BYTES = 4096, /* of a master key */
    WRAPPED_BYTES = FG_GCM_NONCE_BYTES + FG_GCM_KEY_BYTES + FG_GCM_TAG_BYTES,
};

static const int64_t LOOK_NS = 5 * FG_MINUTE_NS;
static const int64_t WANT_NS = 10 * FG_SECOND_NS;
static const int64_t TIMEOUT_NS = 5 * FG_SECOND_NS; /* the process waits for it when it ends */
static const int64_t SETTLE_MS = INT64_C(10) * 60 * 1000; /* two looks */
static const int64_t ROTATE_MS = INT64_C(7) * 24 * 3600 * 1000;

struct fg_session_keys {
    struct fg_session_keys_config config;
    uint8_t master[FG_GCM_KEY_BYTES];
    struct fg_bucket *bucket; /* of the thread */
    struct fg_ticker *ticker; /* NULL: not started */
    struct fg_condition *unread;
    _Atomic int64_t wanted_mono_ns; /* the last time; 0: never */
    pthread_mutex_t lock;
    struct fg_cookie_keys known; /* under lock */
};

/* ---- the master key ---- */

enum fg_code fg_master_key_read(const char *path, uint8_t out[FG_GCM_KEY_BYTES], struct fg_err *err)
{
    uint8_t decoded[FG_GCM_KEY_BYTES + 2];
    struct fg_slice text;
    struct fg_buf file;
    enum fg_code code;
    size_t len = 0;

    fg_buf_init(&file, FILE_MAX_BYTES);
    code = fg_conf_read_file(path, &file, err);
    text = fg_trim(fg_buf_slice(&file));
    if (code == FG_OK && !fg_parse_hex(text, out, FG_GCM_KEY_BYTES)) {
        if (text.len <= 44 && fg_parse_base64(text, decoded, &len) && len == FG_GCM_KEY_BYTES)
            memcpy(out, decoded, FG_GCM_KEY_BYTES);
        else
            code = fg_fail(err, FG_E_INVALID,
                           "%s: expected 32 bytes, as 64 hexadecimal digits or in base64", path);
    }
    OPENSSL_cleanse(decoded, sizeof decoded);
    if (file.ptr != NULL)
        OPENSSL_cleanse(file.ptr, file.cap);
    fg_buf_done(&file);
    return code;
}

/* What binds a wrapped key to its place. */
struct label {
    uint8_t bytes[16];
};

static struct label label_of(uint32_t id)
{
    return (struct label){{'s', 'e', 's', 's', 'i', 'o', 'n', '-', 'k', 'e', 'y', '-', (uint8_t)id,
                           (uint8_t)(id >> 8), (uint8_t)(id >> 16), (uint8_t)(id >> 24)}};
}

static bool unwrap(const struct fg_session_keys *keys, const Access__SessionKey *stored,
                   uint8_t out[FG_GCM_KEY_BYTES])
{
    struct label label = label_of(stored->id);
    const uint8_t *wrapped = stored->wrapped.data;

    if (keys->config.master == NULL || stored->wrapped.len != WRAPPED_BYTES)
        return false;
    memcpy(out, wrapped + FG_GCM_NONCE_BYTES, FG_GCM_KEY_BYTES);
    return fg_gcm_open(keys->master, wrapped, fg_bytes(label.bytes, sizeof label.bytes), out,
                       FG_GCM_KEY_BYTES, wrapped + FG_GCM_NONCE_BYTES + FG_GCM_KEY_BYTES);
}

static void wrap(const struct fg_session_keys *keys, uint32_t id, const uint8_t *key,
                 uint8_t out[WRAPPED_BYTES])
{
    struct label label = label_of(id);

    fg_assert(RAND_bytes(out, FG_GCM_NONCE_BYTES) == 1);
    memcpy(out + FG_GCM_NONCE_BYTES, key, FG_GCM_KEY_BYTES);
    fg_gcm_seal(keys->master, out, fg_bytes(label.bytes, sizeof label.bytes),
                out + FG_GCM_NONCE_BYTES, FG_GCM_KEY_BYTES,
                out + FG_GCM_NONCE_BYTES + FG_GCM_KEY_BYTES);
}

/* ---- reading ---- */

static int64_t now_ms(const struct fg_session_keys *keys)
{
    return fg_wall_ns(keys->config.clock) / FG_MS_NS;
}

static enum fg_code read_key(const struct fg_session_keys *keys, const Access__SessionKey *stored,
                             struct fg_cookie_key *ret_key, struct fg_err *err)
{
    struct fg_cookie_key key = {.id = stored->id};

    if (stored->key.len == FG_GCM_KEY_BYTES)
        memcpy(key.bytes, stored->key.data, FG_GCM_KEY_BYTES);
    else if (!unwrap(keys, stored, key.bytes))
        return fg_fail(err, FG_E_CORRUPT,
                       FG_SESSION_KEYS_NAME " was written with another master key "
                                            "(access.master_key_file)");
    *ret_key = key;
    return FG_OK;
}

/* The newest that everybody knows seals; it is the first. */
static enum fg_code take(struct fg_session_keys *keys, const Access__SessionKeys *stored,
                         struct fg_err *err)
{
    struct fg_cookie_keys known = {.n = 0};
    unsigned first = 0;

    for (size_t i = 0; i < stored->n_keys && known.n < FG_COOKIE_KEYS_MAX; i++) {
        if (read_key(keys, stored->keys[i], &known.list[known.n], err) != FG_OK)
            return err->code;
        known.n++;
    }
    while (first + 1 < known.n && now_ms(keys) - stored->keys[first]->created_ms < SETTLE_MS)
        first++;
    if (first > 0) {
        struct fg_cookie_key sealing = known.list[first];

        known.list[first] = known.list[0];
        known.list[0] = sealing;
    }
    (void)pthread_mutex_lock(&keys->lock);
    keys->known = known;
    (void)pthread_mutex_unlock(&keys->lock);
    OPENSSL_cleanse(&known, sizeof known);
    return FG_OK;
}

/* ---- changing ---- */

static bool is_due(const struct fg_session_keys *keys, const Access__SessionKeys *stored)
{
    return stored->n_keys == 0 || now_ms(keys) - stored->keys[0]->created_ms >= ROTATE_MS;
}

/* Adds a key and drops all but one of those before it. Made again, it finds its own and does
 * nothing.
 */
static enum fg_code add_key(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                            bool *ret_changed, struct fg_err *err)
{
    struct fg_session_keys *keys = arg;
    Access__SessionKeys *stored = (Access__SessionKeys *)message;
    Access__SessionKey *made = fg_arena_new(arena, Access__SessionKey, 1);
    Access__SessionKey **list = fg_arena_new(arena, Access__SessionKey *, FG_COOKIE_KEYS_MAX);
    uint8_t *key = fg_arena_alloc(arena, FG_GCM_KEY_BYTES);
    uint8_t *wrapped = fg_arena_alloc(arena, WRAPPED_BYTES);

    if (!is_due(keys, stored))
        return FG_OK;
    if (made == NULL || list == NULL || key == NULL || wrapped == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for the keys of sessions");
    fg_assert(RAND_bytes(key, FG_GCM_KEY_BYTES) == 1);
    access__session_key__init(made);
    made->id = stored->n_keys == 0 ? 1 : stored->keys[0]->id + 1;
    made->created_ms = now_ms(keys);
    if (keys->config.master == NULL) {
        made->key = (ProtobufCBinaryData){FG_GCM_KEY_BYTES, key};
    } else {
        wrap(keys, made->id, key, wrapped);
        made->wrapped = (ProtobufCBinaryData){WRAPPED_BYTES, wrapped};
        OPENSSL_cleanse(key, FG_GCM_KEY_BYTES);
    }
    list[0] = made;
    if (stored->n_keys > 0)
        list[1] = stored->keys[0];
    stored->n_keys = FG_MIN(stored->n_keys + 1, (size_t)FG_COOKIE_KEYS_MAX);
    stored->keys = list;
    *ret_changed = true;
    return FG_OK;
}

static enum fg_code look(struct fg_session_keys *keys, struct fg_bucket *bucket,
                         struct fg_arena *arena, struct fg_err *err)
{
    const struct fg_message_object object = {
        .bucket = bucket,
        .name = FG_SESSION_KEYS_NAME,
        .what = "the keys of sessions",
        .type = &access__session_keys__descriptor,
        .max_bytes = OBJECT_MAX_BYTES,
        .arena = arena,
        .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + TIMEOUT_NS,
    };
    ProtobufCMessage *message;

    if (fg_message_object_read(&object, &message, err) != FG_OK)
        return err->code;
    if (is_due(keys, (const Access__SessionKeys *)message) &&
        (fg_message_object_swap(&object, add_key, keys, err) != FG_OK ||
         fg_message_object_read(&object, &message, err) != FG_OK))
        return err->code;
    return take(keys, (const Access__SessionKeys *)message, err);
}

enum fg_code fg_session_keys_look(struct fg_session_keys *keys, struct fg_bucket *bucket,
                                  struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
    enum fg_code code = look(keys, bucket, arena, err);

    fg_arena_destroy(arena);
    if (code == FG_OK)
        fg_condition_clear(keys->unread);
    else
        fg_condition_raise(keys->unread,
                           "the keys of sessions cannot be read or written; nobody can log in if "
                           "none are known: %s",
                           err->msg);
    return code;
}

/* ---- life ---- */

static void tick(void *arg)
{
    struct fg_session_keys *keys = arg;
    struct fg_err err;

    if (fg_session_keys_look(keys, keys->bucket, &err) != FG_OK)
        fg_log_warn("the keys of sessions could not be read, will retry", fg_ls("err", err.msg));
}

struct fg_session_keys *fg_session_keys_create(const struct fg_session_keys_config *config)
{
    struct fg_session_keys *keys = fg_new(struct fg_session_keys);

    keys->config = *config;
    if (config->master != NULL)
        memcpy(keys->master, config->master, sizeof keys->master);
    fg_assert(pthread_mutex_init(&keys->lock, NULL) == 0);
    keys->unread = fg_condition_create(config->conditions, "session_keys_unread");
    return keys;
}

enum fg_code fg_session_keys_start(struct fg_session_keys *keys, struct fg_bucket *bucket,
                                   struct fg_err *err)
{
    const struct fg_ticker_config config = {
        .name = "session-keys", .period_ns = LOOK_NS, .tick = tick, .arg = keys};

    keys->bucket = bucket;
    if (fg_ticker_create(&config, &keys->ticker, err) != FG_OK)
        return err->code;
    fg_ticker_wake(keys->ticker);
    return FG_OK;
}

void fg_session_keys_stop(struct fg_session_keys *keys)
{
    fg_ticker_destroy(keys->ticker);
    keys->ticker = NULL;
    keys->bucket = NULL;
}

void fg_session_keys_destroy(struct fg_session_keys *keys)
{
    if (keys == NULL)
        return;
    fg_assert(keys->ticker == NULL);
    fg_condition_destroy(keys->unread);
    (void)pthread_mutex_destroy(&keys->lock);
    OPENSSL_cleanse(keys, sizeof *keys);
    free(keys);
}

struct fg_cookie_keys fg_session_keys_get(struct fg_session_keys *keys)
{
    struct fg_cookie_keys known;

    (void)pthread_mutex_lock(&keys->lock);
    known = keys->known;
    (void)pthread_mutex_unlock(&keys->lock);
    return known;
}

void fg_session_keys_want(struct fg_session_keys *keys)
{
    int64_t now_ns = fg_mono_ns(keys->config.clock);
    int64_t last_ns = atomic_load_explicit(&keys->wanted_mono_ns, memory_order_relaxed);

    if (keys->ticker == NULL || (last_ns != 0 && now_ns - last_ns < WANT_NS))
        return;
    if (atomic_compare_exchange_strong(&keys->wanted_mono_ns, &last_ns, now_ns))
        fg_ticker_wake(keys->ticker);
}
