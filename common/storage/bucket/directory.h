/*
 * A bucket in a directory of a local file system, for one machine. Several processes may use it.
 *
 *     DIR/objects/<name>   the objects, plain files
 *     DIR/tmp/             files that are being written, each locked by its writer
 *     DIR/locks/00 … 3f    locks of names, by hash; never removed
 *
 * A put writes a temporary file and flushes it. Then, under the lock of the name, it checks the
 * condition, renames the file and flushes the folders. A reader takes the same lock, shared, while
 * it opens the file, so it never sees a version that a loss of power could undo.
 *
 * The version of an object is the modification time of its file in microseconds. The bucket sets it
 * to wall time, but always later than the previous version and all others of this process. That
 * needs no second file, no attribute and no hash of the content, survives a copy with cp -a or
 * rsync -a, and leaves plain files: objects/ can be synchronised to S3 unchanged. The etag is this
 * time and the size.
 *
 * A large object is refused with FG_E_NO_SPACE before it is written if it would leave too little of
 * the disk free, so that manifests, and logs on the same disk, have room.
 *
 * Thread: threads of its own work on the files, since all workers of a query may wait for them.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_DIRECTORY_H
#define FG_COMMON_STORAGE_BUCKET_DIRECTORY_H

#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

struct fg_bucket_directory_config {
    const char *path;   /* created if missing; its parent exists */
    unsigned threads;   /* requests at a time */
    unsigned queue_max; /* requests that may wait; more get FG_E_LIMIT */
    /* Free bytes of the disk, half of which objects larger than a MiB leave free. 0:
     * fg_disk_reserve_of() */
    uint64_t reserve_bytes;
    struct fg_registry *registry; /* NULL: nothing is counted */
};

/*
 * Opens the bucket and removes temporary files of processes that died. FG_E_UNIMPLEMENTED: the file
 * system has no locks, or its times are coarser than microseconds.
 */
enum fg_code fg_bucket_directory_open(const struct fg_bucket_directory_config *config,
                                      struct fg_bucket **ret_bucket,
                                      struct fg_err *err) fg_must_check;

#endif
