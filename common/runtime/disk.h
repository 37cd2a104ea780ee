/*
 * Watches the free space of a disk, and decides who may still write to it.
 *
 *     free bytes              state
 *     2 * reserve or more     OK     every caller may write
 *     reserve or more         LOW    caches shrink, merges wait
 *     less                    FULL   new data is refused; reads and deletions work
 *
 * The state improves only when a quarter of the reserve more than its threshold is free, so a disk
 * near a threshold does not switch between two states.
 *
 * The reserve keeps room for writes that must not fail: the head's log, manifests, flushes under
 * way. Other programs may use it up between two checks, so every writer must still handle ENOSPC.
 *
 * Thread: any. A ticker checks the disk once a second on its own thread, because statvfs() may
 * hang.
 */
#ifndef FG_COMMON_RUNTIME_DISK_H
#define FG_COMMON_RUNTIME_DISK_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/runtime/metrics.h"

enum fg_disk_state { FG_DISK_OK, FG_DISK_LOW, FG_DISK_FULL };

struct fg_disk_room {
    uint64_t free_bytes; /* for programs that are not root */
    uint64_t size_bytes;
};

/* Returns the state that follows `before`. Pure. */
enum fg_disk_state fg_disk_next(enum fg_disk_state before, uint64_t free_bytes,
                                uint64_t reserve_bytes);

/* Returns the default reserve of a disk of that size: a twentieth of it, at most 1 GiB. */
uint64_t fg_disk_reserve_of(uint64_t size_bytes);

/* Reads the free and total bytes of the disk that holds the path. Errors are those of statvfs(). */
enum fg_code fg_disk_measure(const char *path, struct fg_disk_room *ret_room,
                             struct fg_err *err) fg_must_check;

/*
 * Checks that writing so many bytes leaves keep_bytes free. FG_E_NO_SPACE: it does not, and the
 * error names `what`; errors of fg_disk_measure().
 */
enum fg_code fg_disk_check(const char *path, uint64_t bytes, uint64_t keep_bytes, const char *what,
                           struct fg_err *err) fg_must_check;

struct fg_disk;

struct fg_disk_config {
    const char *path;             /* an existing folder on the disk; copied */
    const char *role;             /* value of the metrics' label "disk" ("data"); copied */
    uint64_t reserve_bytes;       /* 0: fg_disk_reserve_of() */
    struct fg_registry *registry; /* borrowed; NULL: nothing is counted */
};

/* Checks the disk once, then starts the thread. Errors are those of statvfs(). */
enum fg_code fg_disk_watch(const struct fg_disk_config *config, struct fg_disk **ret_disk,
                           struct fg_err *err) fg_must_check;

/* Stops the thread and frees the disk. Accepts NULL. */
void fg_disk_unwatch(struct fg_disk *disk);

/* Return the state, the room and the reserve as of the last check. disk NULL (not watched): OK, and
 * a reserve of 0. */
enum fg_disk_state fg_disk_state(const struct fg_disk *disk);
struct fg_disk_room fg_disk_room(const struct fg_disk *disk);
uint64_t fg_disk_reserve(const struct fg_disk *disk);

/* Does fg_disk_check() on this disk. disk NULL: FG_OK. */
enum fg_code fg_disk_fits(const struct fg_disk *disk, uint64_t bytes, uint64_t keep_bytes,
                          const char *what, struct fg_err *err) fg_must_check;

/* Returns how many bytes must become free until the state is OK; 0: it is, or will be at the next
 * check. Calls statvfs(). disk NULL: 0. */
uint64_t fg_disk_lacks(const struct fg_disk *disk);

/* Appends "12 MiB of 50 GiB are free, 1024 MiB are kept in reserve". */
void fg_disk_describe(const struct fg_disk *disk, struct fg_buf *out);

#endif
