#include "common/storage/store/sealed.h"

#include "common/storage/seal/locked.h"
#include "common/storage/store/batch.h"

#include <endian.h>
#include <openssl/rand.h>
#include <pthread.h>

enum {
    MAGIC_BYTES = 8,
    HEAD_BYTES = MAGIC_BYTES + FG_STORE_SALT_BYTES + 8, /* before the ciphertext */
    INFO_MAX_BYTES = 64,
    SALTS_MAX = 64,            /* of which the keys are kept; more are derived again */
    VALUE_MAX_BYTES = 1 << 30, /* more than a batch may have */
    FRONT_BYTES = 44,
    FRONTS = 1 << 16, /* 4 MiB */
    FRONT_LOCKS = 64, /* divides FRONTS */
};

static const uint8_t magic[MAGIC_BYTES] = {0x9d, 0xe1, 0x37, 0xc4, 0x5a, 0x02, 0xb8, 0x6f};

struct salted {
    uint8_t salt[FG_STORE_SALT_BYTES];
    struct fg_seal_key key;
};

/* In locked memory. */
struct secrets {
    struct fg_seal_key key;
    struct salted known[SALTS_MAX]; /* under the lock */
};

/*
 * The beginning of a value that was opened, for iterators that need no more: opening a value takes
 * as long as all else that a time series does with it. The count and the place say which value it
 * is: the place is a hash of family, key and salt.
 *
 * Fronts lie in the order in which values were written, and iterators visit them in that of keys.
 * So each is a miss of the processor's cache, which took half of the time of finding it, unless the
 * one before it says which comes next.
 */
struct front {
    uint64_t place;
    uint32_t round;     /* count / FRONTS: count % FRONTS is its number */
    uint32_t len;       /* of the whole value; 0: it is free, since empty values are not sealed */
    uint32_t following; /* the number of the front that an iterator looked for after it */
    uint8_t bytes[FRONT_BYTES];
};
_Static_assert(sizeof(struct front) == 64, "one line of the processor's cache");

struct sealed {
    struct fg_store store;
    struct fg_store *inner;
    bool write;
    struct secrets *secrets;
    pthread_mutex_t lock; /* of the next two, which any reader of the store moves */
    unsigned n_known, next_known;
    struct front *fronts; /* [FRONTS]; each under the lock of its number */
    pthread_mutex_t front_locks[FRONT_LOCKS];
    /* The writer's. */
    uint8_t salt[FG_STORE_SALT_BYTES]; /* of this opening */
    struct fg_seal_cipher *cipher;     /* with the key of that */
    uint64_t count;
    struct fg_store_batch batch;
    struct fg_buf value, associated;
};

/* Decrypts values, one after another: those that are next to each other are mostly of one opening.
 */
struct sealed_reader {
    struct sealed *sealed;
    unsigned family;
    uint8_t salt[FG_STORE_SALT_BYTES];
    struct fg_seal_cipher *cipher; /* with the key of the salt; NULL: none yet */
    struct fg_buf associated;
};

struct sealed_iter {
    struct fg_store_iter iter;
    struct fg_store_iter *inner;
    struct sealed_reader reader;
    struct fg_buf value;
    bool fronts;                  /* preferred */
    uint32_t front, following;    /* the number of the last one, and what it said; FRONTS: none */
    uint8_t content[FRONT_BYTES]; /* of that, if it was found */
};

static struct sealed *sealed_of(struct fg_store *store)
{
    return fg_container(store, struct sealed, store);
}

/* ---- keys ---- */

static void derive(const struct fg_seal_key *key, const uint8_t salt[FG_STORE_SALT_BYTES],
                   struct fg_seal_key *ret_key)
{
    struct fg_buf info;

    fg_buf_init(&info, INFO_MAX_BYTES);
    fg_buf_puts(&info, "flamegrid store");
    fg_buf_append(&info, salt, FG_STORE_SALT_BYTES);
    fg_seal_expand(key, fg_buf_slice(&info), ret_key->bytes, sizeof ret_key->bytes);
    fg_buf_done(&info);
}

/* Copies the key of a salt. A head has values of some openings at a time: each start is one. */
static void key_of(struct sealed *sealed, const uint8_t salt[FG_STORE_SALT_BYTES],
                   struct fg_seal_key *ret_key)
{
    struct secrets *secrets = sealed->secrets;
    struct salted *found = NULL;

    (void)pthread_mutex_lock(&sealed->lock);
    for (unsigned i = 0; i < sealed->n_known && found == NULL; i++)
        if (memcmp(secrets->known[i].salt, salt, FG_STORE_SALT_BYTES) == 0)
            found = &secrets->known[i];
    if (found == NULL) {
        found = &secrets->known[sealed->next_known];
        sealed->next_known = (sealed->next_known + 1) % SALTS_MAX;
        sealed->n_known = FG_MIN(sealed->n_known + 1, (unsigned)SALTS_MAX);
        memcpy(found->salt, salt, FG_STORE_SALT_BYTES);
        derive(&secrets->key, salt, &found->key);
    }
    *ret_key = found->key;
    (void)pthread_mutex_unlock(&sealed->lock);
}

static struct fg_seal_cipher *cipher_of(struct sealed *sealed,
                                        const uint8_t salt[FG_STORE_SALT_BYTES], bool encrypt)
{
    struct fg_seal_cipher *cipher;
    struct fg_seal_key key;

    key_of(sealed, salt, &key);
    cipher = fg_seal_cipher_create(&key, encrypt);
    fg_seal_wipe(&key);
    return cipher;
}

/* ---- values ---- */

static void nonce_of(const uint8_t count[8], uint8_t nonce[FG_SEAL_NONCE_BYTES])
{
    memset(nonce, 0, FG_SEAL_NONCE_BYTES);
    memcpy(nonce, count, 8);
}

/* What binds a value to its place. */
static struct fg_slice associate(unsigned family, struct fg_slice key, struct fg_buf *out)
{
    fg_buf_clear(out);
    fg_buf_putc(out, (uint8_t)family);
    fg_buf_put(out, key);
    return fg_buf_slice(out);
}

/* Writes the sealed value to sealed->value. */
static void seal(struct sealed *sealed, unsigned family, struct fg_slice key, struct fg_slice value)
{
    uint8_t nonce[FG_SEAL_NONCE_BYTES], tag[FG_SEAL_TAG_BYTES];

    fg_buf_clear(&sealed->value);
    fg_buf_append(&sealed->value, magic, sizeof magic);
    fg_buf_append(&sealed->value, sealed->salt, FG_STORE_SALT_BYTES);
    fg_buf_le64(&sealed->value, ++sealed->count);
    nonce_of(sealed->value.ptr + HEAD_BYTES - 8, nonce);
    fg_buf_put(&sealed->value, value);
    fg_seal_cipher_seal(sealed->cipher, nonce, associate(family, key, &sealed->associated), value,
                        sealed->value.ptr + HEAD_BYTES, tag);
    fg_buf_append(&sealed->value, tag, sizeof tag);
}

static struct sealed_reader reader_of(struct sealed *sealed, unsigned family)
{
    struct sealed_reader reader = {.sealed = sealed, .family = family};

    fg_buf_init(&reader.associated, VALUE_MAX_BYTES);
    return reader;
}

static void reader_done(struct sealed_reader *reader)
{
    fg_seal_cipher_destroy(reader->cipher);
    fg_buf_done(&reader->associated);
}

static bool is_sealed(struct fg_slice value)
{
    return value.len >= MAGIC_BYTES && memcmp(value.ptr, magic, MAGIC_BYTES) == 0;
}

/* Appends the content of a sealed value to out. FG_E_CORRUPT: it was changed, or is of another key.
 */
static enum fg_code open_value(struct sealed_reader *reader, struct fg_slice key,
                               struct fg_slice value, struct fg_buf *out, struct fg_err *err)
{
    uint8_t nonce[FG_SEAL_NONCE_BYTES];
    struct fg_slice ciphertext;

    if (value.len < FG_STORE_SEAL_MORE_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "an encrypted value was cut");
    ciphertext = fg_slice_sub(value, HEAD_BYTES, value.len - FG_STORE_SEAL_MORE_BYTES);
    if (!fg_buf_reserve(out, ciphertext.len))
        return fg_fail(err, FG_E_LIMIT, "a value of %zu bytes", ciphertext.len);

    const uint8_t *salt = value.ptr + MAGIC_BYTES;

    if (reader->cipher == NULL || memcmp(reader->salt, salt, FG_STORE_SALT_BYTES) != 0) {
        fg_seal_cipher_destroy(reader->cipher);
        reader->cipher = cipher_of(reader->sealed, salt, false);
        memcpy(reader->salt, salt, FG_STORE_SALT_BYTES);
    }
    nonce_of(value.ptr + HEAD_BYTES - 8, nonce);
    if (!fg_seal_cipher_open(reader->cipher, nonce,
                             associate(reader->family, key, &reader->associated), ciphertext,
                             value.ptr + value.len - FG_SEAL_TAG_BYTES, out->ptr + out->len))
        return fg_fail(err, FG_E_CORRUPT, "an encrypted value was changed, or is of another key");
    out->len += ciphertext.len;
    return FG_OK;
}

/* ---- fronts of values ---- */

/* The last bytes before the ciphertext. */
static uint64_t count_of(struct fg_slice value)
{
    uint64_t count;

    memcpy(&count, value.ptr + HEAD_BYTES - sizeof count, sizeof count);
    return le64toh(count);
}

static uint64_t front_place(struct sealed_reader *reader, struct fg_slice key,
                            struct fg_slice value)
{
    (void)associate(reader->family, key, &reader->associated);
    fg_buf_append(&reader->associated, value.ptr + MAGIC_BYTES, FG_STORE_SALT_BYTES);
    return fg_hash64_table(fg_buf_slice(&reader->associated));
}

static struct front *lock_front(struct sealed *sealed, uint32_t number)
{
    (void)pthread_mutex_lock(&sealed->front_locks[number % FRONT_LOCKS]);
    return &sealed->fronts[number];
}

static void unlock_front(struct sealed *sealed, uint32_t number)
{
    (void)pthread_mutex_unlock(&sealed->front_locks[number % FRONT_LOCKS]);
}

/* Takes the front of the value at which the inner iterator stands, if it is known, and asks the
 * processor for the one that followed it the last time. */
static bool find_front(struct sealed_iter *it)
{
    struct sealed *sealed = it->reader.sealed;
    const struct fg_slice value = it->inner->value;
    const uint64_t count = count_of(value);
    const uint64_t place = front_place(&it->reader, it->inner->key, value);
    const uint32_t number = count % FRONTS;
    const size_t len = value.len - FG_STORE_SEAL_MORE_BYTES;
    struct front *front;
    bool found;

    if (it->front != FRONTS && it->following != number) {
        lock_front(sealed, it->front)->following = number;
        unlock_front(sealed, it->front);
    }
    front = lock_front(sealed, number);
    found = front->len == len && front->round == count / FRONTS && front->place == place;
    if (found)
        memcpy(it->content, front->bytes, FRONT_BYTES);
    it->following = front->following;
    unlock_front(sealed, number);
    it->front = number;
    __builtin_prefetch(&sealed->fronts[it->following]);
    if (!found)
        return false;
    it->iter.value = fg_bytes(it->content, FG_MIN(len, (size_t)FRONT_BYTES));
    it->iter.cut = len - it->iter.value.len;
    return true;
}

/* Remembers the front of the value at which the inner iterator stands, which was opened. */
static void keep_front(struct sealed_iter *it, struct fg_slice content)
{
    struct sealed *sealed = it->reader.sealed;
    const uint64_t count = count_of(it->inner->value);
    const uint64_t place = front_place(&it->reader, it->inner->key, it->inner->value);
    const uint32_t number = count % FRONTS;
    struct front *front;

    if (count / FRONTS > UINT32_MAX) /* after 2^48 values of one opening */
        return;
    front = lock_front(sealed, number);
    front->place = place;
    front->round = (uint32_t)(count / FRONTS);
    front->len = (uint32_t)content.len;
    memcpy(front->bytes, content.ptr, FG_MIN(content.len, (size_t)FRONT_BYTES));
    unlock_front(sealed, number);
}

/* ---- the store ---- */

static void seal_op(struct sealed *sealed, const struct fg_store_op *op)
{
    if (op->kind == FG_STORE_DELETE) {
        fg_store_delete(&sealed->batch, op->family, op->key);
    } else if (op->kind == FG_STORE_DELETE_RANGE) {
        fg_store_delete_range(&sealed->batch, op->family, op->key, op->value);
    } else if (op->value.len == 0) {
        fg_store_put(&sealed->batch, op->family, op->key, op->value);
    } else {
        seal(sealed, op->family, op->key, op->value);
        fg_store_put(&sealed->batch, op->family, op->key, fg_buf_slice(&sealed->value));
    }
}

static enum fg_code sealed_write(struct fg_store *store, struct fg_store_batch *batch,
                                 struct fg_err *err)
{
    struct sealed *sealed = sealed_of(store);
    struct fg_cur cur = fg_cur(fg_buf_slice(&batch->ops));
    enum fg_code code;

    if (!sealed->write)
        return fg_store_write(sealed->inner, batch, err);
    if (fg_store_batch_check(batch, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct fg_store_op op = fg_store_batch_read(&cur, FG_STORE_FAMILIES_MAX);

        seal_op(sealed, &op);
    }
    code = fg_store_write(sealed->inner, &sealed->batch, err);
    fg_store_batch_clear(&sealed->batch);
    return code;
}

static enum fg_code sealed_heal(struct fg_store *store, struct fg_err *err)
{
    return fg_store_heal(sealed_of(store)->inner, err);
}

static enum fg_code sealed_get(struct fg_store *store, unsigned family, struct fg_slice key,
                               struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    struct sealed *sealed = sealed_of(store);
    struct sealed_reader reader = reader_of(sealed, family);
    struct fg_buf value;
    enum fg_code code;

    fg_buf_init(&value, VALUE_MAX_BYTES);
    code = fg_store_get(sealed->inner, family, key, &value, ret_found, err);
    if (code == FG_OK && is_sealed(fg_buf_slice(&value))) {
        code = open_value(&reader, key, fg_buf_slice(&value), out, err);
    } else if (code == FG_OK) {
        fg_buf_put(out, fg_buf_slice(&value));
        if (out->full)
            code = fg_fail(err, FG_E_LIMIT, "a value of %zu bytes", value.len);
    }
    fg_buf_done(&value);
    reader_done(&reader);
    return code;
}

static enum fg_code sealed_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                    bool *ret_found, struct fg_err *err)
{
    return fg_store_contains(sealed_of(store)->inner, family, key, ret_found, err);
}

static uint64_t sealed_disk_bytes(struct fg_store *store)
{
    return fg_store_disk_bytes(sealed_of(store)->inner);
}

static uint64_t sealed_memory_bytes(struct fg_store *store)
{
    return fg_store_memory_bytes(sealed_of(store)->inner) + FRONTS * sizeof(struct front);
}

static bool sealed_is_damaged(struct fg_store *store)
{
    return fg_store_is_damaged(sealed_of(store)->inner);
}

static void sealed_close(struct fg_store *store)
{
    struct sealed *sealed = sealed_of(store);

    fg_store_close(sealed->inner);
    fg_seal_cipher_destroy(sealed->cipher);
    fg_locked_free(sealed->secrets, sizeof *sealed->secrets);
    fg_store_batch_done(&sealed->batch);
    fg_buf_done(&sealed->value);
    fg_buf_done(&sealed->associated);
    (void)pthread_mutex_destroy(&sealed->lock);
    for (size_t i = 0; i < FRONT_LOCKS; i++)
        (void)pthread_mutex_destroy(&sealed->front_locks[i]);
    free(sealed->fronts);
    free(sealed);
}

/* ---- iterators ---- */

static struct sealed_iter *iter_of(struct fg_store_iter *iter)
{
    return fg_container(iter, struct sealed_iter, iter);
}

/* Opens the value at which the inner iterator stands. One that cannot be decrypted is an error of
 * the iterator, as an unreadable block is. */
static void open_here(struct sealed_iter *it)
{
    struct fg_store_iter *iter = &it->iter, *inner = it->inner;

    fg_buf_clear(&it->value);
    iter->cut = 0;
    if (open_value(&it->reader, inner->key, inner->value, &it->value, &iter->err) != FG_OK)
        iter->valid = false;
    else if (it->fronts)
        keep_front(it, fg_buf_slice(&it->value));
    iter->value = fg_buf_slice(&it->value);
}

/* Shows the entry at which the inner iterator stands. */
static void show(struct sealed_iter *it)
{
    struct fg_store_iter *iter = &it->iter, *inner = it->inner;

    iter->valid = inner->valid;
    iter->cut = 0;
    if (!inner->valid) {
        iter->err = inner->err;
        return;
    }
    iter->err.code = FG_OK; /* without its text, which is larger than most values */
    iter->key = inner->key;
    iter->value = inner->value;
    if (!is_sealed(inner->value))
        return;
    if (!it->fronts || inner->value.len <= FG_STORE_SEAL_MORE_BYTES || !find_front(it))
        open_here(it);
}

static void iter_prefer_fronts(struct fg_store_iter *iter)
{
    iter_of(iter)->fronts = true;
}

static void iter_whole(struct fg_store_iter *iter)
{
    open_here(iter_of(iter));
}

static void iter_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    fg_store_iter_seek(iter_of(iter)->inner, key);
    show(iter_of(iter));
}

static void iter_next(struct fg_store_iter *iter)
{
    fg_store_iter_next(iter_of(iter)->inner);
    show(iter_of(iter));
}

static void iter_destroy(struct fg_store_iter *iter)
{
    struct sealed_iter *it = iter_of(iter);

    fg_store_iter_destroy(it->inner);
    reader_done(&it->reader);
    fg_buf_done(&it->value);
    free(it);
}

static struct fg_store_iter *sealed_iter_create(struct fg_store *store, unsigned family,
                                                struct fg_slice from, struct fg_slice to)
{
    static const struct fg_store_iter_ops ops = {.seek = iter_seek,
                                                 .next = iter_next,
                                                 .destroy = iter_destroy,
                                                 .prefer_fronts = iter_prefer_fronts,
                                                 .whole = iter_whole};
    struct sealed_iter *it = fg_new(struct sealed_iter);

    it->iter.ops = &ops;
    it->reader = reader_of(sealed_of(store), family);
    it->inner = fg_store_iter_create(sealed_of(store)->inner, family, from, to);
    fg_buf_init(&it->value, VALUE_MAX_BYTES);
    it->front = FRONTS;
    show(it);
    return &it->iter;
}

/* ---- opening ---- */

enum fg_code fg_store_seal(struct fg_store *inner, const struct fg_seal_key *key, bool write,
                           struct fg_store **ret_store, struct fg_err *err)
{
    static const struct fg_store_ops ops = {
        sealed_write,      sealed_heal,         sealed_get,   sealed_contains,   sealed_iter_create,
        sealed_disk_bytes, sealed_memory_bytes, sealed_close, sealed_is_damaged,
    };
    struct sealed *sealed = fg_new(struct sealed);
    bool locked; /* whoever made the key has said it if memory cannot be locked */

    sealed->store.ops = &ops;
    sealed->inner = inner;
    sealed->write = write;
    sealed->secrets = fg_locked_alloc(sizeof *sealed->secrets, &locked);
    sealed->secrets->key = *key;
    fg_assert(pthread_mutex_init(&sealed->lock, NULL) == 0);
    for (size_t i = 0; i < FRONT_LOCKS; i++)
        fg_assert(pthread_mutex_init(&sealed->front_locks[i], NULL) == 0);
    sealed->fronts = fg_calloc(FRONTS, sizeof *sealed->fronts);
    fg_store_batch_init(&sealed->batch);
    fg_buf_init(&sealed->value, VALUE_MAX_BYTES);
    fg_buf_init(&sealed->associated, VALUE_MAX_BYTES);
    if (RAND_bytes(sealed->salt, FG_STORE_SALT_BYTES) != 1) {
        sealed->inner = NULL;
        sealed_close(&sealed->store);
        return fg_fail(err, FG_E_UNAVAILABLE, "no random numbers to encrypt with");
    }
    sealed->cipher = cipher_of(sealed, sealed->salt, true);
    *ret_store = &sealed->store;
    return FG_OK;
}
