/* What the directory's files share. */
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
    uint64_t keep_bytes;          /* free, of the disk, whatever large is written */
    _Atomic int64_t last_version; /* microseconds */
    _Atomic uint64_t temps_made;
};

/* ---- directory_files.c ---- */

void fg_directory_files_init(struct fg_directory *directory);
enum fg_code fg_directory_files_open(struct fg_directory *directory, const char *path,
                                     struct fg_err *err) fg_must_check;
void fg_directory_files_done(struct fg_directory *directory);

/* From errno: FG_E_NO_SPACE, FG_E_DENIED, else FG_E_UNAVAILABLE. */
enum fg_code fg_directory_fail(struct fg_err *err, int errnum, const char *fmt, ...)
    fg_printf(3, 4);

int64_t fg_directory_time_ns(const struct stat *info);
struct fg_bucket_etag fg_directory_etag(const struct stat *info);

/* The lock of a name: a descriptor, to be closed; -1: err says why. how: LOCK_SH or LOCK_EX. */
int fg_directory_lock(struct fg_directory *directory, const char *name, int how,
                      struct fg_err *err) fg_must_check;

/* Opens it as it is once it is durable; *ret_fd -1: there is none. */
enum fg_code fg_directory_open_object(struct fg_directory *directory, const char *name, int *ret_fd,
                                      struct stat *ret_stat, struct fg_err *err) fg_must_check;

/* The folder that the name is in, and the name's last segment. -1, and errno. */
int fg_directory_folder(const struct fg_directory *directory, const char *name, bool create,
                        const char **ret_leaf) fg_must_check;

/* A file that is being written, locked by us. */
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
/* The same again unless its version is after that of the file that is there. */
enum fg_code fg_directory_stamp_after(struct fg_directory *directory, int fd,
                                      const struct stat *there, struct fg_err *err) fg_must_check;

/* With the name's lock held. unsure is set when it was done but could not be flushed. */
enum fg_code fg_directory_stat(struct fg_directory *directory, const char *name, bool *ret_found,
                               struct stat *ret_stat, struct fg_err *err) fg_must_check;
enum fg_code fg_directory_rename(struct fg_directory *directory, struct fg_temp *temp,
                                 const char *name, bool *unsure, struct fg_err *err) fg_must_check;
enum fg_code fg_directory_unlink(struct fg_directory *directory, const char *name, bool *unsure,
                                 struct fg_err *err) fg_must_check;

/* Removes temporary files whose process is gone; how many. */
uint64_t fg_directory_tidy(struct fg_directory *directory);

/* ---- directory_list.c ---- */

void fg_directory_list(struct fg_directory *directory, struct fg_bucket_request *request);

#endif
