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
};

/* The newest version of a day. */
struct fg_usage_newest {
    int32_t day;
    uint64_t version;
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

/* Writes a version. FG_OK also if it exists: whoever wrote it wrote the same bytes. Errors of the
 * bucket. */
enum fg_code fg_usage_documents_write(const struct fg_usage_documents *documents,
                                      const struct fg_usage_document *document,
                                      struct fg_err *err) fg_must_check;

#endif
