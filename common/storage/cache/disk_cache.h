/*
 * A cache on a local disk of bytes that were read from objects over the network, by object name and
 * range. It is a second tier below a cache in memory. It is for immutable objects: the content of a
 * name never changes.
 *
 * It may evict anything at any time, and its faults never fail a caller. Bytes that cannot be read,
 * or that differ from what was written, are a miss and are removed; bytes that cannot be written
 * are dropped. Metrics count all of that.
 *
 * On disk: a folder of at most DISK_FILES_MAX files. A file is a sequence of entries with their own
 * checksums, which are appended and never changed. If there is no room for another file, the oldest
 * one is removed. Before that, its entries that were used since they were written are copied to the
 * newest file, so eviction is roughly least recently used. Nothing is synced: after a crash of the
 * machine the checksums detect torn entries.
 *
 * At the start a ticker scans the files of the last run; entries are not found before their file
 * was scanned. The ticker also does all writes: put() only copies to a bounded queue.
 *
 * Memory: forty bytes per entry, of which there is at most one per 16 KiB of max_bytes and at most
 * a million; and the queue.
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
    const char *path;        /* of the folder, which only this cache uses; created if missing */
    uint64_t max_bytes;      /* on disk; at most half of the free space is used. If that is less at
                              * the start, the limit grows when more is free */
    uint64_t free_min_bytes; /* left free: nothing is cached if less of the disk is free */
    /* The disk of the folder; borrowed. While it is low on space nothing is written, and the oldest
     * files are removed until it is not, or none is left. NULL: it is not watched. */
    const struct fg_disk *disk;
    struct fg_registry *registry;
};

struct fg_disk_cache;

/* Opens the cache without waiting for the scan. FG_E_INVALID: max_bytes is less than
 * FG_DISK_CACHE_MIN_BYTES. FG_E_UNAVAILABLE: another process uses the folder, or
 * there are no more threads. Or an error of the system. */
enum fg_code fg_disk_cache_open(const struct fg_disk_cache_config *config,
                                struct fg_disk_cache **ret_cache, struct fg_err *err) fg_must_check;

/* Writes the queue and closes the cache, which no thread uses. Accepts NULL. */
void fg_disk_cache_close(struct fg_disk_cache *cache);

/* Reads the bytes of the key from disk into `into`, replacing its content. Returns false on a miss.
 */
bool fg_disk_cache_get(struct fg_disk_cache *cache, const struct fg_disk_key *key,
                       struct fg_buf *into) fg_must_check;

/* Queues bytes, which have the length of the key, to be written. Copies them. */
void fg_disk_cache_put(struct fg_disk_cache *cache, const struct fg_disk_key *key,
                       struct fg_slice bytes);

/* Removes an entry whose bytes were found to be wrong although their checksum was right. */
void fg_disk_cache_drop(struct fg_disk_cache *cache, const struct fg_disk_key *key);

/* Waits until the scan has ended and the queue is written: for tests. */
void fg_disk_cache_settle(struct fg_disk_cache *cache);

struct fg_disk_cache_stats {
    uint64_t bytes, entries, queued_bytes;
    uint64_t hits, misses, evicted, kept, dropped, faults; /* since the start */
};
/* Returns the current size and counters. */
struct fg_disk_cache_stats fg_disk_cache_stats(struct fg_disk_cache *cache);

#endif
