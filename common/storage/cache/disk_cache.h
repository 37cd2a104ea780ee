/*
 * What was read from objects over a network, kept on a local disk: bytes by the object's name and
 * the place in it. A second tier below a cache in memory, for what does not change: a name stands
 * for one content for ever.
 *
 * It may forget anything at any time and never fails anybody: what cannot be read or is not what
 * was written is a miss and forgotten; what cannot be written is dropped. All of that is counted.
 *
 * On disk: a folder of at most DISK_FILES_MAX files, each a row of entries with their own
 * checksums, written one after another and never changed. The oldest file goes as a whole when
 * there is no room for another one; what was asked for while it was there is written again first,
 * so the longest unused goes, about. Nothing is synced: after a crash of the machine a checksum
 * finds what was torn.
 *
 * The start scans what the last run left, in a thread that writes afterwards. Until it has come to
 * a file what is in it is not found. Writing is that thread's too: put() only copies, into a queue
 * with an end.
 *
 * Memory: forty bytes for each entry, of which there are at most one for every 16 KiB of max_bytes
 * and a million, and the queue.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_STORAGE_CACHE_DISK_CACHE_H
#define FG_COMMON_STORAGE_CACHE_DISK_CACHE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/runtime/disk.h"
#include "common/runtime/metrics.h"
#include "common/storage/cache/disk_files.h"

enum { FG_DISK_CACHE_MIN_BYTES = 1024 * 1024 };

struct fg_disk_cache_config {
    const char *path;        /* of the folder, which is ours alone; made when it is not there */
    uint64_t max_bytes;      /* on disk; less where half of what is free is less */
    uint64_t free_min_bytes; /* left to others: with less of the disk free there is no caching */
    /* The folder is on; borrowed. While it is short of room nothing is written, and the oldest
     * files go until it is not, or none is left. NULL: it is not watched. */
    const struct fg_disk *disk;
    struct fg_registry *registry;
};

struct fg_disk_cache;

/* FG_E_INVALID: max_bytes below the least; FG_E_UNAVAILABLE: the folder is in use; or what the
 * system says. Quick: the thread scans. */
enum fg_code fg_disk_cache_open(const struct fg_disk_cache_config *config,
                                struct fg_disk_cache **ret_cache, struct fg_err *err) fg_must_check;

/* Writes what is queued. Nobody uses it any more; NULL is fine. */
void fg_disk_cache_close(struct fg_disk_cache *cache);

/* true: the key's bytes are in `into`, alone. Reads the disk. */
bool fg_disk_cache_get(struct fg_disk_cache *cache, const struct fg_disk_key *key,
                       struct fg_buf *into) fg_must_check;

/* bytes: of the key's length. */
void fg_disk_cache_put(struct fg_disk_cache *cache, const struct fg_disk_key *key,
                       struct fg_slice bytes);

/* They were not what they should be, whatever their checksum says. */
void fg_disk_cache_drop(struct fg_disk_cache *cache, const struct fg_disk_key *key);

/* Waits until the start's scan is over and all that was put is written: for tests. */
void fg_disk_cache_settle(struct fg_disk_cache *cache);

struct fg_disk_cache_stats {
    uint64_t bytes, entries, queued_bytes;
    uint64_t hits, misses, evicted, kept, dropped, faults; /* since the start */
};
struct fg_disk_cache_stats fg_disk_cache_stats(struct fg_disk_cache *cache);

#endif
