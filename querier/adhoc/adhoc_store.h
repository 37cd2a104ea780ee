/*
 * Files with profiles that somebody uploaded to look at them: objects of the bucket, one for each
 * file. An object has the bytes of the file, and its name says the rest
 * (common/cluster/manifest/name.h: struct fg_adhoc_name), so a list of names is a list of files and
 * a damaged object costs nothing but itself. Objects never change. The compactor deletes expired
 * ones; nobody sees them from the moment that they expire.
 *
 * An id has 128 random bits, since it is also how a file is shared.
 *
 * Thread: any that may wait for the bucket. Memory: the arena's, except for contents.
 * Errors: FG_E_UNIMPLEMENTED: there is no bucket. Errors of the bucket.
 */
#ifndef FG_QUERIER_ADHOC_ADHOC_STORE_H
#define FG_QUERIER_ADHOC_ADHOC_STORE_H

#include "common/base/arena.h"
#include "common/cluster/manifest/name.h"
#include "common/model/tenant_limits.h"
#include "common/storage/bucket/bucket.h"

struct qry_adhoc_store {
    struct fg_bucket *bucket; /* NULL: there is none */
    struct fg_slice tenant;
    const struct fg_limit_settings *limits; /* the tenant's */
    uint64_t file_max_bytes;
    int64_t now_ms; /* wall clock */
    int64_t deadline_mono_ns;
    struct fg_arena *arena;
};

struct qry_adhoc_entry {
    struct fg_adhoc_name name;
    uint64_t bytes;
};

/* Lists the files, newest first. FG_E_LIMIT: there are far more than a tenant may have. */
enum fg_code qry_adhoc_list(const struct qry_adhoc_store *store,
                            struct qry_adhoc_entry **ret_entries, size_t *ret_n,
                            struct fg_err *err) fg_must_check;

/* Checks whether the tenant may store a file of that size. FG_E_TOO_LARGE: the file is too large;
 * FG_E_LIMIT: all files together are. Both name the setting. */
enum fg_code qry_adhoc_admit(const struct qry_adhoc_store *store, uint64_t bytes,
                             struct fg_err *err) fg_must_check;

/* Stores a file and gives it an id. Call qry_adhoc_admit() before. */
enum fg_code qry_adhoc_add(const struct qry_adhoc_store *store, struct fg_slice file,
                           struct fg_slice content, struct qry_adhoc_entry *ret_entry,
                           struct fg_err *err) fg_must_check;

/* Finds a file by its id, with or without '-' and the file's name. FG_E_NOT_FOUND: there is none,
 * or it has expired. */
enum fg_code qry_adhoc_find(const struct qry_adhoc_store *store, struct fg_slice id,
                            struct qry_adhoc_entry *ret_entry, struct fg_err *err) fg_must_check;

/* Reads a file's content into an uninitialised buffer, which the caller frees if the result is
 * FG_OK. FG_E_NOT_FOUND: it was deleted meanwhile. FG_E_CORRUPT: the object is damaged.
 * FG_E_TOO_LARGE: it exceeds file_max_bytes, which was larger when it came. */
enum fg_code qry_adhoc_read(const struct qry_adhoc_store *store,
                            const struct qry_adhoc_entry *entry, struct fg_buf *ret_content,
                            struct fg_err *err) fg_must_check;

/* Deletes a file; FG_OK also if it is gone already. */
enum fg_code qry_adhoc_delete(const struct qry_adhoc_store *store,
                              const struct qry_adhoc_entry *entry,
                              struct fg_err *err) fg_must_check;

#endif
