/*
 * The store: an ordered map of byte keys to byte values in a few named families, written in atomic,
 * durable batches. One of the four interfaces between our logic and the world: RocksDB
 * (fg_store_open), and those of tests/lib/store_doubles.h.
 *
 * Thread: reading from any; writing from one thread at a time (the committer).
 * Keys sort by bytes. Values are the caller's form.
 */
#ifndef FG_COMMON_STORAGE_STORE_STORE_H
#define FG_COMMON_STORAGE_STORE_STORE_H

#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdatomic.h>

enum { FG_STORE_FAMILIES_MAX = 8 };

struct fg_store {
    const struct fg_store_ops *ops;
    atomic_bool damaged; /* a compaction met an unreadable table; compactions are off */
};

/* A batch collects puts and deletes; it may be used again after the write. */
struct fg_store_batch {
    struct fg_buf ops; /* u8 kind, u8 family, varint-length key, varint-length value (puts) */
    uint32_t count;
};
void fg_store_batch_init(struct fg_store_batch *batch);
void fg_store_batch_done(struct fg_store_batch *batch);
void fg_store_batch_clear(struct fg_store_batch *batch);
void fg_store_put(struct fg_store_batch *batch, unsigned family, struct fg_slice key,
                  struct fg_slice value);
void fg_store_delete(struct fg_store_batch *batch, unsigned family, struct fg_slice key);
/* All operations of `other`, after those that are here. */
void fg_store_batch_append(struct fg_store_batch *batch, const struct fg_store_batch *other);
/* FG_E_LIMIT: the batch is larger than fg_store_write() takes. */
enum fg_code fg_store_batch_check(const struct fg_store_batch *batch,
                                  struct fg_err *err) fg_must_check;
/* Everything in [from, to); nothing when to is not after from. */
void fg_store_delete_range(struct fg_store_batch *batch, unsigned family, struct fg_slice from,
                           struct fg_slice to);

/* Walks forward over [from, to) of one family, as it was when the iterator was made. */
struct fg_store_iter;

struct fg_store_ops {
    enum fg_code (*write)(struct fg_store *store, struct fg_store_batch *batch, struct fg_err *err);
    enum fg_code (*heal)(struct fg_store *store, struct fg_err *err);
    enum fg_code (*get)(struct fg_store *store, unsigned family, struct fg_slice key,
                        struct fg_buf *out, bool *ret_found, struct fg_err *err);
    enum fg_code (*contains)(struct fg_store *store, unsigned family, struct fg_slice key,
                             bool *ret_found, struct fg_err *err);
    struct fg_store_iter *(*iter)(struct fg_store *store, unsigned family, struct fg_slice from,
                                  struct fg_slice to);
    uint64_t (*disk_bytes)(struct fg_store *store);
    uint64_t (*memory_bytes)(struct fg_store *store);
    void (*close)(struct fg_store *store);
};

/*
 * Makes a batch durable (fsync). After an error nothing of it is visible. FG_E_NO_SPACE: the disk
 * is full; FG_E_UNAVAILABLE: the disk failed, or took no write when the store was opened. Reads
 * continue, and writes succeed again once the disk works and fg_store_heal() was called.
 * FG_E_CORRUPT. FG_E_LIMIT: the batch is too large. If the process crashes after a failed fsync,
 * the whole batch may be there after the restart: callers write it again, and batches are
 * idempotent.
 */
static inline enum fg_code fg_store_write(struct fg_store *store, struct fg_store_batch *batch,
                                          struct fg_err *err)
{
    return store->ops->write(store, batch, err);
}

/*
 * Tries to make the store writable again after a failed write. FG_OK: the next write will probably
 * succeed. After an error reads continue; call it again, for example a second later. The writer's
 * thread. Takes as long as reading the log, and readers do not wait for it.
 */
static inline enum fg_code fg_store_heal(struct fg_store *store, struct fg_err *err)
{
    return store->ops->heal(store, err);
}

/* Appends the value to out; *ret_found says whether the key is there (that is not an error). */
static inline enum fg_code fg_store_get(struct fg_store *store, unsigned family,
                                        struct fg_slice key, struct fg_buf *out, bool *ret_found,
                                        struct fg_err *err)
{
    return store->ops->get(store, family, key, out, ret_found, err);
}

static inline enum fg_code fg_store_contains(struct fg_store *store, unsigned family,
                                             struct fg_slice key, bool *ret_found,
                                             struct fg_err *err)
{
    return store->ops->contains(store, family, key, ret_found, err);
}

static inline uint64_t fg_store_disk_bytes(struct fg_store *store)
{
    return store->ops->disk_bytes(store);
}

static inline uint64_t fg_store_memory_bytes(struct fg_store *store)
{
    return store->ops->memory_bytes(store);
}

static inline void fg_store_close(struct fg_store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

struct fg_store_iter_ops {
    void (*seek)(struct fg_store_iter *iter, struct fg_slice key); /* to the first key >= it */
    void (*next)(struct fg_store_iter *iter);
    void (*destroy)(struct fg_store_iter *iter);
};

struct fg_store_iter {
    const struct fg_store_iter_ops *ops;
    bool valid;                 /* there is an entry here */
    struct fg_slice key, value; /* of it, until the next move */
    struct fg_err err;          /* code FG_OK, or why valid is false */
};

/* Stands on the first key of the range. from and to are copied; an empty `to` means to the end. */
static inline struct fg_store_iter *fg_store_iter_create(struct fg_store *store, unsigned family,
                                                         struct fg_slice from, struct fg_slice to)
{
    return store->ops->iter(store, family, from, to);
}
static inline void fg_store_iter_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    iter->ops->seek(iter, key);
}
static inline void fg_store_iter_next(struct fg_store_iter *iter)
{
    iter->ops->next(iter);
}
static inline void fg_store_iter_destroy(struct fg_store_iter *iter)
{
    if (iter != NULL)
        iter->ops->destroy(iter);
}
FG_AUTO(fg_store_iter, fg_store_iter_destroy)

struct fg_store_config {
    uint64_t cache_bytes;        /* blocks kept in memory for reading */
    uint64_t write_buffer_bytes; /* per family, before it is written out */
    uint64_t wal_max_bytes;      /* bounds what has to be read again after a crash */
    bool sync;                   /* false only where losing the last writes is fine (tests) */
    /* The number of a damage that is accepted, as an error has given it, and the setting that it
     * comes from, for that error. NULL: none is, and nothing is said of it. */
    const char *accept_loss, *accept_loss_setting;
};

/*
 * Opens the store in a folder, which is made if it is missing. families: names in the order of
 * their numbers, the first is "default". On a disk that takes no write (full, read-only, broken) a
 * store that is there already is opened all the same: it can be read, and writes fail until
 * fg_store_heal() has succeeded. FG_E_UNAVAILABLE: another process has it. FG_E_CORRUPT.
 */
enum fg_code fg_store_open(const char *dir, const char *const *families, unsigned n_families,
                           const struct fg_store_config *config, struct fg_store **ret_store,
                           struct fg_err *err) fg_must_check;

#endif
