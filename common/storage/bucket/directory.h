/*
 * The bucket in a directory of a local file system: for one machine, and safe for several processes
 * on it.
 *
 *     DIR/objects/<name>   the objects, plain files
 *     DIR/tmp/             what is being written; each file is locked by who writes it
 *     DIR/locks/00 … 3f    locks of names, by hash; never removed
 *
 * A put writes a temporary file, flushes it, and under the lock of the name looks at the condition,
 * renames, and flushes the folders. Reading takes the same lock, shared, while it opens the file:
 * so nobody sees a version that a loss of power could still take back.
 *
 * The version of an object is its file's time of modification in microseconds, which we set
 * ourselves: the wall clock's, but always later than that of the version before and of any other
 * that this process has made. It costs no second file, no attribute and no reading of the content
 * (as a hash would), survives copying with cp -a or rsync -a, and the files stay plain: what is in
 * objects/ can be synchronised to S3 as it is. The etag is this time and the size.
 *
 * A large object is refused with FG_E_NO_SPACE before it is written when it would leave too little
 * of the disk free, so that manifests, and the logs of whoever is on the same disk, find room.
 *
 * Thread: the files are worked on by threads of its own, since those of a query may be waiting for
 * them all.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_DIRECTORY_H
#define FG_COMMON_STORAGE_BUCKET_DIRECTORY_H

#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

struct fg_bucket_directory_config {
    const char *path;   /* made if missing; its parent is there */
    unsigned threads;   /* requests at a time */
    unsigned queue_max; /* requests that wait; beyond them FG_E_LIMIT */
    /* Of the disk; no object larger than a MiB takes more than half of it. 0: fg_disk_reserve_of()
     */
    uint64_t reserve_bytes;
    struct fg_registry *registry; /* NULL: nothing is counted */
};

/*
 * Removes temporary files of processes that died. FG_E_UNIMPLEMENTED: a file system whose times are
 * coarser than microseconds, or without locks.
 */
enum fg_code fg_bucket_directory_open(const struct fg_bucket_directory_config *config,
                                      struct fg_bucket **ret_bucket,
                                      struct fg_err *err) fg_must_check;

#endif
