/* Tells whether a file has changed since it was read, for files that programs load again at
 * runtime. */
#ifndef FG_COMMON_RUNTIME_FILE_H
#define FG_COMMON_RUNTIME_FILE_H

#include "common/base/def.h"

#include <sys/stat.h>
#include <time.h>

struct fg_file_version {
    struct timespec mtime;
    off_t size; /* -1: there is no such file, or it is not a regular file */
    ino_t inode;
};

/* Returns the version of a file. It follows symbolic links. */
static inline struct fg_file_version fg_file_version(const char *path)
{
    struct stat stat_buf;

    if (stat(path, &stat_buf) != 0 || !S_ISREG(stat_buf.st_mode))
        return (struct fg_file_version){.size = -1};
    return (struct fg_file_version){stat_buf.st_mtim, stat_buf.st_size, stat_buf.st_ino};
}

/* Returns whether two versions are the same. */
static inline bool fg_file_version_eq(const struct fg_file_version *a,
                                      const struct fg_file_version *b)
{
    return a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec &&
           a->size == b->size && a->inode == b->inode;
}

#endif
