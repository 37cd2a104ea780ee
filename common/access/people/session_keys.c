#include "common/access/people/session_keys.h"

#include "common/access/people/session_keys.pb-c.h"
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
    WRAPPED_MAX_BYTES = 1024,
};

static const int64_t LOOK_NS = 5 * FG_MINUTE_NS;
static const int64_t WANT_NS = 10 * FG_SECOND_NS;
static const int64_t TIMEOUT_NS = 5 * FG_SECOND_NS; /* the process waits for it when it ends */
static const int64_t SETTLE_MS = INT64_C(10) * 60 * 1000; /* two looks */
static const int64_t ROTATE_MS = INT64_C(7) * 24 * 3600 * 1000;

struct fg_session_keys {
    struct fg_session_keys_config config;
    struct fg_bucket *bucket; /* of the thread */
    struct fg_ticker *ticker; /* NULL: not started */
    struct fg_condition *unread;
    _Atomic int64_t wanted_mono_ns; /* the last time; 0: never */
    pthread_mutex_t lock;           /* of `known`; held for a copy, never for I/O */
    struct fg_cookie_keys known;
};

/* ---- wrapping ---- */

enum { OWNER_MAX_BYTES = 32 };

/* Names the owner of a key: with blanks, so that no tenant has that name. */
static struct fg_slice owner_of(uint32_t id, char out[OWNER_MAX_BYTES])
{
    (void)snprintf(out, OWNER_MAX_BYTES, "session key %u", (unsigned)id);
    return fg_cstr(out);
}

/* ---- reading ---- */

static int64_t now_ms(const struct fg_session_keys *keys)
{
    return fg_wall_ns(keys->config.clock) / FG_MS_NS;
}

static enum fg_code read_key(const struct fg_session_keys *keys, const Access__SessionKey *stored,
                             struct fg_cookie_key *ret_key, struct fg_err *err)
{
    struct fg_key_wrap *master = keys->config.master;
    struct fg_cookie_key key = {.id = stored->id};
    char owner[OWNER_MAX_BYTES];

    if (stored->key.len == FG_SEAL_KEY_BYTES)
        memcpy(key.key.bytes, stored->key.data, FG_SEAL_KEY_BYTES);
    else if (master == NULL || master->unwrap(master, owner_of(stored->id, owner),
                                              fg_bytes(stored->wrapped.data, stored->wrapped.len),
                                              &key.key, err) != FG_OK)
        return fg_fail(err, FG_E_CORRUPT,
                       FG_SESSION_KEYS_NAME " was written with another master key "
                                            "(access.master_key_file)");
    *ret_key = key;
    return FG_OK;
}

/* The newest that everybody knows seals; it is the first. */
static enum fg_code adopt_keys(struct fg_session_keys *keys, const Access__SessionKeys *stored,
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

static enum fg_code wrap(const struct fg_session_keys *keys, struct fg_arena *arena,
                         Access__SessionKey *made, struct fg_seal_key *key, struct fg_err *err)
{
    struct fg_key_wrap *master = keys->config.master;
    struct fg_slice copied = fg_bytes(NULL, 0);
    char owner[OWNER_MAX_BYTES];
    struct fg_buf wrapped;
    enum fg_code code;

    fg_buf_init(&wrapped, WRAPPED_MAX_BYTES);
    code = master->wrap(master, owner_of(made->id, owner), key, &wrapped, err);
    fg_seal_wipe(key);
    if (code == FG_OK)
        copied = fg_arena_copy(arena, fg_buf_slice(&wrapped));
    fg_buf_done(&wrapped);
    if (code == FG_OK && copied.ptr == NULL)
        code = fg_fail(err, FG_E_LIMIT, "no memory for the keys of sessions");
    made->wrapped = (ProtobufCBinaryData){copied.len, (uint8_t *)(uintptr_t)copied.ptr};
    return code;
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
    struct fg_seal_key *key = fg_arena_new(arena, struct fg_seal_key, 1);

    if (!is_due(keys, stored))
        return FG_OK;
    if (made == NULL || list == NULL || key == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for the keys of sessions");
    fg_assert(RAND_bytes(key->bytes, FG_SEAL_KEY_BYTES) == 1);
    access__session_key__init(made);
    made->id = stored->n_keys == 0 ? 1 : stored->keys[0]->id + 1;
    made->created_ms = now_ms(keys);
    if (keys->config.master == NULL)
        made->key = (ProtobufCBinaryData){FG_SEAL_KEY_BYTES, key->bytes};
    else if (wrap(keys, arena, made, key, err) != FG_OK)
        return err->code;
    list[0] = made;
    if (stored->n_keys > 0)
        list[1] = stored->keys[0];
    stored->n_keys = FG_MIN(stored->n_keys + 1, (size_t)FG_COOKIE_KEYS_MAX);
    stored->keys = list;
    *ret_changed = true;
    return FG_OK;
}

static enum fg_code read_keys(struct fg_session_keys *keys, struct fg_bucket *bucket,
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
    return adopt_keys(keys, (const Access__SessionKeys *)message, err);
}

enum fg_code fg_session_keys_look(struct fg_session_keys *keys, struct fg_bucket *bucket,
                                  struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
    enum fg_code code = read_keys(keys, bucket, arena, err);

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
