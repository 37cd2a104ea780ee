/*
 * A store is an ordered map of byte keys to byte values in a few named families, written in atomic,
 * durable batches. It is one of the four interfaces between our logic and the world.
 * Implementations are RocksDB (fg_store_open()) and those of tests/lib/store_doubles.h. Keys sort
 * by bytes.
 *
 * Thread: reads from any; writes from one thread at a time (the committer).
 */
#ifndef FG_COMMON_STORAGE_STORE_STORE_H
#define FG_COMMON_STORAGE_STORE_STORE_H

#include "common/base/buf.h"
#include "common/base/err.h"

struct fg_unread;

enum { FG_STORE_FAMILIES_MAX = 8 };

struct fg_store {
    const struct fg_store_ops *ops;
};

/* A batch collects puts and deletes. It may be used again after a write and a clear. */
struct fg_store_batch {
    struct fg_buf ops; /* u8 kind, u8 family, varint-length key, varint-length value (puts) */
    uint32_t count;
};
/* Makes an empty batch. */
void fg_store_batch_init(struct fg_store_batch *batch);
/* Frees the batch. */
void fg_store_batch_done(struct fg_store_batch *batch);
/* Removes all operations and keeps the memory. */
void fg_store_batch_clear(struct fg_store_batch *batch);
/* Adds a put. Copies key and value. */
void fg_store_put(struct fg_store_batch *batch, unsigned family, struct fg_slice key,
                  struct fg_slice value);
/* Adds a delete. Copies the key. */
void fg_store_delete(struct fg_store_batch *batch, unsigned family, struct fg_slice key);
/* Appends all operations of `other`. */
void fg_store_batch_append(struct fg_store_batch *batch, const struct fg_store_batch *other);
/* Checks the size. FG_E_LIMIT: the batch is larger than fg_store_write() accepts. */
enum fg_code fg_store_batch_check(const struct fg_store_batch *batch,
                                  struct fg_err *err) fg_must_check;
/* Adds a delete of all keys in [from, to). Does nothing if to <= from. What of them cannot be read
 * is in nobody's way from then on, if no other key stands between `from` and it: iterators pass
 * over it to what is written there later. */
void fg_store_delete_range(struct fg_store_batch *batch, unsigned family, struct fg_slice from,
                           struct fg_slice to);

/* Iterates forward over [from, to) of one family, in the state of its creation. */
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
    bool (*is_damaged)(struct fg_store *store); /* NULL: it never is */
};

/*
 * Makes a batch durable (fsync). After an error none of it is visible. FG_E_NO_SPACE: the disk is
 * full. FG_E_UNAVAILABLE: the disk failed, or was not writable when the store was opened. Reads
 * continue; writes succeed again after the disk works and fg_store_heal() was called. FG_E_CORRUPT.
 * FG_E_LIMIT: the batch is too large. If the process crashes after a failed fsync, the whole batch
 * may exist after the restart. So batches are idempotent, and callers write them again.
 */
static inline enum fg_code fg_store_write(struct fg_store *store, struct fg_store_batch *batch,
                                          struct fg_err *err)
{
    return store->ops->write(store, batch, err);
}

/*
 * Tries to make the store writable again after a failed write. FG_OK: the next write will probably
 * succeed. After an error reads continue; call it again, for example a second later. Only the
 * writer's thread calls it. It takes as long as reading the log; readers do not wait for it.
 */
static inline enum fg_code fg_store_heal(struct fg_store *store, struct fg_err *err)
{
    return store->ops->heal(store, err);
}

/* Appends the value of a key to out. *ret_found tells whether the key exists; a missing key is not
 * an error. */
static inline enum fg_code fg_store_get(struct fg_store *store, unsigned family,
                                        struct fg_slice key, struct fg_buf *out, bool *ret_found,
                                        struct fg_err *err)
{
    return store->ops->get(store, family, key, out, ret_found, err);
}

/* Checks whether a key exists. */
static inline enum fg_code fg_store_contains(struct fg_store *store, unsigned family,
                                             struct fg_slice key, bool *ret_found,
                                             struct fg_err *err)
{
    return store->ops->contains(store, family, key, ret_found, err);
}

/* Returns the size of the files. */
static inline uint64_t fg_store_disk_bytes(struct fg_store *store)
{
    return store->ops->disk_bytes(store);
}

/* Returns the memory of caches and buffers. */
static inline uint64_t fg_store_memory_bytes(struct fg_store *store)
{
    return store->ops->memory_bytes(store);
}

/* Returns true if a compaction met an unreadable table; compactions are off then. */
static inline bool fg_store_is_damaged(struct fg_store *store)
{
    return store->ops->is_damaged != NULL && store->ops->is_damaged(store);
}

/* Closes the store, of which no iterator is left. Accepts NULL. */
static inline void fg_store_close(struct fg_store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

struct fg_store_iter_ops {
    void (*seek)(struct fg_store_iter *iter, struct fg_slice key); /* to the first key >= it */
    void (*next)(struct fg_store_iter *iter);
    void (*destroy)(struct fg_store_iter *iter);
    /* NULL: values are always whole. */
    void (*prefer_fronts)(struct fg_store_iter *iter);
    void (*whole)(struct fg_store_iter *iter);
};

struct fg_store_iter {
    const struct fg_store_iter_ops *ops;
    bool valid;                 /* the iterator is at an entry */
    struct fg_slice key, value; /* of the entry, valid until the next move */
    size_t cut;                 /* bytes that the value lacks at its end (prefer_fronts) */
    struct fg_err err;          /* of the last move: FG_OK, or the error that made valid false */
};

/* Creates an iterator at the first key of the range. from and to are copied; an empty `to` means to
 * the end. */
static inline struct fg_store_iter *fg_store_iter_create(struct fg_store *store, unsigned family,
                                                         struct fg_slice from, struct fg_slice to)
{
    return store->ops->iter(store, family, from, to);
}
/* Moves to the first key >= key. */
static inline void fg_store_iter_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    iter->ops->seek(iter, key);
}
/* Moves to the next key. */
static inline void fg_store_iter_next(struct fg_store_iter *iter)
{
    iter->ops->next(iter);
}
/* Tells the iterator that the caller mostly needs the first bytes of values, up to about forty:
 * from now on a value may have no more than that, if that is faster. */
static inline void fg_store_iter_prefer_fronts(struct fg_store_iter *iter)
{
    if (iter->ops->prefer_fronts != NULL)
        iter->ops->prefer_fronts(iter);
}
/* Makes the value whole if it was cut. It may turn out to be unreadable: valid is false then. */
static inline void fg_store_iter_whole(struct fg_store_iter *iter)
{
    if (iter->cut > 0)
        iter->ops->whole(iter);
}
/*
 * Moves an iterator that a move has failed with FG_E_CORRUPT to the first key behind the damage
 * that can be read, or to its end. after: the last key that was read, or that was sought; empty:
 * none. It sees the same state as before. Returns false if nothing behind can be read: `err` says
 * why. Takes some hundred seeks.
 */
bool fg_store_iter_pass(struct fg_store_iter *iter, struct fg_slice after) fg_must_check;
/* Frees the iterator. Accepts NULL. */
static inline void fg_store_iter_destroy(struct fg_store_iter *iter)
{
    if (iter != NULL)
        iter->ops->destroy(iter);
}
FG_AUTO(fg_store_iter, fg_store_iter_destroy)

struct fg_store_config {
    uint64_t cache_bytes;        /* for blocks that were read */
    uint64_t write_buffer_bytes; /* per family, before a flush */
    uint64_t wal_max_bytes;      /* limits what is replayed after a crash */
    /* The family of which contains() is asked for each write. Most of these keys are new, and the
     * newest ones are in the memtable, where an absent key costs a search of its list. So this one
     * gets a filter. */
    unsigned filtered_family;
    /* So many of the last families are left out, unless the store has one of them: a store in which
     * they were never needed can be opened by a version that does not know them. No key of a family
     * that is left out is read or written. */
    unsigned spare_families;
    bool sync; /* false: the last writes may be lost in a crash (tests) */
    /* The id of a damage that the operator accepts, as an error has named it, and the setting that
     * it comes from, for that error. NULL: none is accepted, and errors do not mention it. */
    const char *accept_loss, *accept_loss_setting;
    /* Says which files the disk will not give any more; borrowed. NULL: an error of the disk is
     * never taken for damage. */
    struct fg_unread *unread;
};

/*
 * Opens the store in a folder, which is created if missing. families: names in the order of their
 * numbers, the first is "default". If the disk is not writable (full, read-only, broken), an
 * existing store is opened nevertheless: reads work, and writes fail until fg_store_heal() has
 * succeeded. The first family is read through, since nothing of the others means anything without
 * it. FG_E_PRECONDITION: another process uses the folder. FG_E_UNAVAILABLE: the disk does not give
 * what is there; a later call may succeed. FG_E_CORRUPT.
 */
enum fg_code fg_store_open(const char *dir, const char *const *families, unsigned n_families,
                           const struct fg_store_config *config, struct fg_store **ret_store,
                           struct fg_err *err) fg_must_check;

#endif
