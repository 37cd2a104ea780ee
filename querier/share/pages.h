/*
 * Caches segments and blocks as bytes: pages of 64 KiB of each object, in memory and, if there is a
 * disk cache, on disk. Ranges are put together from pages, so it does not matter how queries cut
 * them.
 *
 * Objects never change, so pages do not. The reader checks what they hold. An object may have been
 * damaged or truncated when a page was read, and restored since; a reader that finds damage asks
 * for fresh pages.
 *
 * Thread: any, but not a loop: reading a page from the disk waits for it.
 */
#ifndef FG_QUERIER_SHARE_PAGES_H
#define FG_QUERIER_SHARE_PAGES_H

#include "common/storage/bucket/bucket.h"
#include "common/storage/cache/cache.h"
#include "common/storage/cache/disk_cache.h"

enum {
    PAGES_BYTES = 64 * 1024,
    PAGES_READ_MAX_BYTES = 64 * 1024 * 1024, /* of one range */
};

struct qry_pages;

/* Creates the cache; never fails. bucket, disk: borrowed; disk may be NULL. Destroy accepts NULL;
 * no read is under way. */
struct qry_pages *qry_pages_create(struct fg_bucket *bucket, struct fg_disk_cache *disk,
                                   uint64_t cache_max_bytes);
void qry_pages_destroy(struct qry_pages *pages);

struct qry_pages_stats {
    uint64_t hits, misses; /* pages, since the start */
    uint64_t bytes;        /* of memory */
};

/* Returns the numbers of now. */
struct qry_pages_stats qry_pages_stats(struct qry_pages *pages);

/* A range to be read. The caller fills in the first part, zeroes the rest, and keeps all of it
 * until done(). */
struct qry_pages_read {
    const char *name;        /* of the object; borrowed */
    uint64_t offset, length; /* 0 < length <= PAGES_READ_MAX_BYTES */
    bool fresh;              /* drops what memory and disk have of it, and reads it again */
    int64_t deadline_mono_ns;
    /* Within qry_pages_read(), or on a thread of the bucket's; must not block. */
    void (*done)(struct qry_pages_read *read);

    enum fg_code code; /* as of a get; FG_OK: body, less than length at the object's end */
    struct fg_err err;
    struct fg_buf body;

    /* pages.c's own. */
    struct qry_pages *pages;
    struct fg_id object;
    struct pages_slot *slots;
    size_t n_slots, first_missing, end_missing;
    struct fg_bucket_request request;
};

/* Reads a range; calls done() once, maybe before it returns. */
void qry_pages_read(struct qry_pages *pages, struct qry_pages_read *read);

/* Asks to cancel a read for which qry_pages_read() has returned, so that it ends soon. done() may
 * have been called, but the struct is there. Any thread. */
void qry_pages_cancel(struct qry_pages *pages, struct qry_pages_read *read);

/* Frees the body. */
void qry_pages_read_done(struct qry_pages_read *read);

#endif
