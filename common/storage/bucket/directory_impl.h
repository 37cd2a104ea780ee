/* Internals that the files of the directory share. */
#ifndef FG_COMMON_STORAGE_BUCKET_DIRECTORY_IMPL_H
#define FG_COMMON_STORAGE_BUCKET_DIRECTORY_IMPL_H

#include "common/runtime/work.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/bucket/meter.h"

#include <sys/stat.h>

enum { DIRECTORY_TEMP_NAME_BYTES = 64 };

struct fg_directory {
    struct fg_bucket bucket;
    struct fg_bucket_meter meter;
    struct fg_work *work;
    int objects, temps, locks; /* folders; -1: not open */
    char *path;
    uint64_t keep_bytes;          /* of the disk, left free by large objects */
    _Atomic int64_t last_version; /* microseconds */
    _Atomic uint64_t temps_made;
};

/* ---- directory_files.c ---- */

void fg_directory_files_init(struct fg_directory *directory);
enum fg_code fg_directory_files_open(struct fg_directory *directory, const char *path,
                                     struct fg_err *err) fg_must_check;
void fg_directory_files_done(struct fg_directory *directory);

/* Sets an error from errno: FG_E_NO_SPACE, FG_E_DENIED, else FG_E_UNAVAILABLE. */
enum fg_code fg_directory_fail(struct fg_err *err, int errnum, const char *fmt, ...)
    fg_printf(3, 4);

int64_t fg_directory_time_ns(const struct stat *info);
struct fg_bucket_etag fg_directory_etag(const struct stat *info);

/* Takes the lock of a name. Returns a descriptor to be closed, or -1 and an error. how: LOCK_SH or
 * LOCK_EX. */
int fg_directory_lock(struct fg_directory *directory, const char *name, int how,
                      struct fg_err *err) fg_must_check;

/* Opens an object when its version is durable. *ret_fd is -1 if there is none. */
enum fg_code fg_directory_open_object(struct fg_directory *directory, const char *name, int *ret_fd,
                                      struct stat *ret_stat, struct fg_err *err) fg_must_check;

/* Opens the folder of a name and returns the last segment of the name. Returns -1 and sets errno on
 * failure. */
int fg_directory_folder(const struct fg_directory *directory, const char *name, bool create,
                        const char **ret_leaf) fg_must_check;

/* A file that is being written, locked by this process. */
struct fg_temp {
    int fd;
    char name[DIRECTORY_TEMP_NAME_BYTES]; /* "": it has become an object */
};
enum fg_code fg_directory_temp_create(struct fg_directory *directory, struct fg_temp *ret_temp,
                                      struct fg_err *err) fg_must_check;
void fg_directory_temp_done(struct fg_directory *directory, struct fg_temp *temp);
enum fg_code fg_directory_write(int fd, struct fg_slice bytes, struct fg_err *err) fg_must_check;

/* Gives the file a version of its own, of at least at_least microseconds, and flushes it. */
enum fg_code fg_directory_stamp(struct fg_directory *directory, int fd, int64_t at_least,
                                struct fg_err *err) fg_must_check;
/* Does so again, unless the version is later than that of the current file. */
enum fg_code fg_directory_stamp_after(struct fg_directory *directory, int fd,
                                      const struct stat *there, struct fg_err *err) fg_must_check;

/* The caller holds the lock of the name. *unsure is set if the change was done but could not be
 * flushed. */
enum fg_code fg_directory_stat(struct fg_directory *directory, const char *name, bool *ret_found,
                               struct stat *ret_stat, struct fg_err *err) fg_must_check;
enum fg_code fg_directory_rename(struct fg_directory *directory, struct fg_temp *temp,
                                 const char *name, bool *unsure, struct fg_err *err) fg_must_check;
enum fg_code fg_directory_unlink(struct fg_directory *directory, const char *name, bool *unsure,
                                 struct fg_err *err) fg_must_check;

/* Removes temporary files whose process is gone. Returns how many. */
uint64_t fg_directory_clean_up(struct fg_directory *directory);

/* ---- directory_list.c ---- */

void fg_directory_list(struct fg_directory *directory, struct fg_bucket_request *request);

#endif
