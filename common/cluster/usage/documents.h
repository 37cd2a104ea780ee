/*
 * Reads and writes the documents of usage in the bucket.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMMON_CLUSTER_USAGE_DOCUMENTS_H
#define FG_COMMON_CLUSTER_USAGE_DOCUMENTS_H

#include "common/cluster/manifest/name.h"
#include "common/cluster/usage/document.h"
#include "common/storage/bucket/bucket.h"

/* Where documents are, and how long to wait for each request. */
struct fg_usage_documents {
    struct fg_bucket *bucket;
    struct fg_bucket_stop *stop; /* NULL: cannot be stopped */
    struct fg_clock *clock;
    int64_t timeout_ns;
    int64_t deadline_mono_ns; /* of all requests together; 0: none */
};

/* The newest version of a day. */
struct fg_usage_newest {
    int32_t day;
    uint64_t version;
    uint64_t size_bytes;
};

enum {
    FG_USAGE_READS_MAX = 16,                     /* documents that are read at a time, */
    FG_USAGE_READS_MAX_BYTES = 64 * 1024 * 1024, /* ... unless they are larger: then one */
};

/* A version that is to be read, and what it says. */
struct fg_usage_reading {
    struct fg_slice tenant;
    struct fg_usage_newest newest;
    struct fg_usage_document document;
};

/*
 * Lists the newest version of each day of [first, last] that is below `below`, ascending by day, in
 * the arena: one request for each 1,000 documents of these days' month, or year if they are of
 * several months, or of all years. Errors of the bucket; FG_E_LIMIT: the arena is full.
 */
enum fg_code fg_usage_documents_list(const struct fg_usage_documents *documents,
                                     struct fg_slice tenant, int32_t first, int32_t last,
                                     uint64_t below, struct fg_arena *arena,
                                     struct fg_usage_newest **ret_newest, uint32_t *ret_count,
                                     struct fg_err *err) fg_must_check;

/* Reads a version, into the arena. FG_E_NOT_FOUND: it does not exist. Errors as of
 * fg_usage_document_decode(), and of the bucket. */
enum fg_code fg_usage_documents_read(const struct fg_usage_documents *documents,
                                     struct fg_slice tenant, int32_t day, uint64_t version,
                                     struct fg_arena *arena, struct fg_usage_document *ret_document,
                                     struct fg_err *err) fg_must_check;

/*
 * Reads many versions, FG_USAGE_READS_MAX at a time. check() is called between them and may return
 * an error to end it. Errors as of fg_usage_documents_read(); the first one ends all. `stop` is not
 * used.
 */
enum fg_code fg_usage_documents_read_all(const struct fg_usage_documents *documents,
                                         struct fg_usage_reading *readings, uint32_t count,
                                         struct fg_arena *arena,
                                         enum fg_code (*check)(void *arg, struct fg_err *err),
                                         void *arg, struct fg_err *err) fg_must_check;

/* Writes a version. FG_OK also if it exists: whoever wrote it wrote the same bytes. Errors of the
 * bucket. */
enum fg_code fg_usage_documents_write(const struct fg_usage_documents *documents,
                                      const struct fg_usage_document *document,
                                      struct fg_err *err) fg_must_check;

#endif
