/*
 * The files of a directory bucket. Every path is walked from the objects' folder, one segment at a
 * time, following no symbolic link: what somebody puts into it cannot lead us out of it.
 */
#include "common/base/str.h"
#include "common/storage/bucket/directory_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    LOCKS = 64,      /* names that share one wait for each other's flush; puts are rare */
    TRIES_MAX = 100, /* a folder may be removed while we are about to use it */
    LOCK_NAME_BYTES = 16,
    US_NS = 1000,
    FILE_MODE = 0640,
    FOLDER_MODE = 0750,
};

/* ---- errors ---- */

enum fg_code fg_directory_fail(struct fg_err *err, int errnum, const char *fmt, ...)
{
    char what[FG_ERR_MSG_MAX_BYTES / 2];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    (void)fg_fail_errno(err, errnum, "%s", what);
    /* A file of ours that is missing is no object that is not there. */
    if (err->code != FG_E_NO_SPACE && err->code != FG_E_DENIED)
        err->code = FG_E_UNAVAILABLE;
    return err->code;
}

/* ---- versions ---- */

int64_t fg_directory_time_ns(const struct stat *info)
{
    return fg_time_add((int64_t)info->st_mtim.tv_nsec,
                       info->st_mtim.tv_sec > INT64_MAX / FG_SECOND_NS
                           ? INT64_MAX
                           : (int64_t)info->st_mtim.tv_sec * FG_SECOND_NS);
}

struct fg_bucket_etag fg_directory_etag(const struct stat *info)
{
    struct fg_bucket_etag etag;

    (void)snprintf(etag.text, sizeof etag.text, "%llx-%llx",
                   (unsigned long long)fg_directory_time_ns(info),
                   (unsigned long long)info->st_size);
    return etag;
}

enum fg_code fg_directory_stamp(struct fg_directory *directory, int fd, int64_t at_least,
                                struct fg_err *err)
{
    /* Later than all versions that this process has made. */
    int64_t last = atomic_load(&directory->last_version), version;

    do {
        version = fg_wall_ns(fg_clock_real()) / US_NS;
        version = FG_MAX(version, FG_MAX(last + 1, at_least));
    } while (!atomic_compare_exchange_weak(&directory->last_version, &last, version));

    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = version / 1000000, .tv_nsec = version % 1000000 * US_NS},
    };
    struct stat info;

    if (futimens(fd, times) != 0 || fsync(fd) != 0 || fstat(fd, &info) != 0)
        return fg_directory_fail(err, errno, "flush");
    if (info.st_mtim.tv_sec != times[1].tv_sec || info.st_mtim.tv_nsec != times[1].tv_nsec)
        return fg_fail(err, FG_E_UNIMPLEMENTED,
                       "the file system does not store times with microseconds, which object "
                       "versions require; use ext4, XFS, Btrfs or ZFS");
    return FG_OK;
}

enum fg_code fg_directory_stamp_after(struct fg_directory *directory, int fd,
                                      const struct stat *there, struct fg_err *err)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return fg_directory_fail(err, errno, "stat");
    if (fg_directory_time_ns(&info) > fg_directory_time_ns(there))
        return FG_OK;
    return fg_directory_stamp(directory, fd, fg_directory_time_ns(there) / US_NS + 1, err);
}

/* ---- folders ---- */

static int open_folder(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* One segment further; made and flushed in its parent if so wanted. */
static int enter(int parent, struct fg_slice segment, bool create)
{
    char name[FG_BUCKET_SEGMENT_MAX_BYTES + 1];
    int fd;

    memcpy(name, segment.ptr, segment.len);
    name[segment.len] = '\0';
    fd = open_folder(parent, name);
    if (fd >= 0 || errno != ENOENT || !create)
        return fd;
    if (mkdirat(parent, name, FOLDER_MODE) != 0 && errno != EEXIST)
        return -1;
    return open_folder(parent, name);
}

int fg_directory_folder(const struct fg_directory *directory, const char *name, bool create,
                        const char **ret_leaf)
{
    int fd = openat(directory->objects, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *slash;

    while (fd >= 0 && (slash = strchr(name, '/')) != NULL) {
        int next = enter(fd, fg_bytes(name, (size_t)(slash - name)), create);
        int errnum = errno;

        (void)close(fd);
        errno = errnum;
        fd = next;
        name = slash + 1;
    }
    *ret_leaf = name;
    return fd;
}

/* The folder and those above it up to the objects' own, which may all be new; closes it. */
static enum fg_code flush_up(int fd, const char *name, struct fg_err *err)
{
    int errnum = 0;

    for (;;) {
        int up = -1;

        if (fsync(fd) != 0)
            errnum = errno;
        name = strchr(name, '/');
        if (name != NULL && errnum == 0 && (up = open_folder(fd, "..")) < 0)
            errnum = errno;
        (void)close(fd);
        if (name == NULL || errnum != 0)
            break;
        name++;
        fd = up;
    }
    return errnum == 0 ? FG_OK : fg_directory_fail(err, errnum, "flush of the folder");
}

/* ---- locks ---- */

static int flock_always(int fd, int how)
{
    int rc;

    while ((rc = flock(fd, how)) != 0 && errno == EINTR)
        continue;
    return rc;
}

static void lock_name(unsigned lock, char file[LOCK_NAME_BYTES])
{
    (void)snprintf(file, LOCK_NAME_BYTES, "%02x", lock);
}

int fg_directory_lock(struct fg_directory *directory, const char *name, int how, struct fg_err *err)
{
    char file[LOCK_NAME_BYTES];
    int fd;

    lock_name((unsigned)(fg_hash64(fg_cstr(name)) % LOCKS), file);
    fd = openat(directory->locks, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (fd < 0 || flock_always(fd, how) != 0) {
        (void)fg_directory_fail(err, errno, "lock %s", file);
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    return fd;
}

/* ---- objects ---- */

/* True for errors of a path that does not end at an object. */
static bool is_missing(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP || errnum == ENXIO;
}

static int open_file(struct fg_directory *directory, const char *name)
{
    const char *leaf;
    int fd = -1, errnum, folder = fg_directory_folder(directory, name, false, &leaf);

    if (folder < 0)
        return -1;
    fd = openat(folder, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    errnum = errno;
    (void)close(folder);
    errno = errnum;
    return fd;
}

enum fg_code fg_directory_open_object(struct fg_directory *directory, const char *name, int *ret_fd,
                                      struct stat *ret_stat, struct fg_err *err)
{
    /* A put holds the lock from its rename to the flush of the folder. Without the lock, a
     * reader could see a version that a power failure takes back. */
    int lock = fg_directory_lock(directory, name, LOCK_SH, err), fd, errnum;

    if (lock < 0)
        return err->code;
    fd = open_file(directory, name);
    errnum = errno;
    (void)close(lock);
    if (fd < 0 && !is_missing(errnum))
        return fg_directory_fail(err, errnum, "open");
    if (fd >= 0 && fstat(fd, ret_stat) != 0) {
        (void)fg_directory_fail(err, errno, "stat");
        (void)close(fd);
        return err->code;
    }
    if (fd >= 0 && !S_ISREG(ret_stat->st_mode)) {
        (void)close(fd);
        fd = -1;
    }
    *ret_fd = fd;
    return FG_OK;
}

enum fg_code fg_directory_stat(struct fg_directory *directory, const char *name, bool *ret_found,
                               struct stat *ret_stat, struct fg_err *err)
{
    const char *leaf;
    int folder = fg_directory_folder(directory, name, false, &leaf), rc = -1, errnum = errno;

    if (folder >= 0) {
        rc = fstatat(folder, leaf, ret_stat, AT_SYMLINK_NOFOLLOW);
        errnum = errno;
        (void)close(folder);
    }
    if (rc != 0 && !is_missing(errnum))
        return fg_directory_fail(err, errnum, "stat");
    *ret_found = rc == 0 && S_ISREG(ret_stat->st_mode);
    return FG_OK;
}

/* Opens the folder and renames the file into it. Returns -1 and sets errno on failure. Another
 * thread may remove the folder in between, as it is empty: then it tries again. */
static int rename_into(struct fg_directory *directory, const struct fg_temp *temp, const char *name)
{
    int folder = -1, rc = -1;
    const char *leaf;

    for (unsigned i = 0; i < TRIES_MAX && rc != 0; i++) {
        folder = fg_directory_folder(directory, name, true, &leaf);
        if (folder < 0 && errno != ENOENT)
            return -1;
        if (folder < 0)
            continue;
        rc = renameat(directory->temps, temp->name, folder, leaf);
        if (rc != 0) {
            int errnum = errno;

            (void)close(folder);
            errno = errnum;
            if (errnum != ENOENT)
                return -1;
        }
    }
    return rc == 0 ? folder : -1;
}

enum fg_code fg_directory_rename(struct fg_directory *directory, struct fg_temp *temp,
                                 const char *name, bool *unsure, struct fg_err *err)
{
    int folder = rename_into(directory, temp, name);

    if (folder < 0 && (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST))
        return fg_fail(err, FG_E_INVALID, "the name is a prefix of other objects");
    if (folder < 0 && (errno == ENOTDIR || errno == ELOOP))
        return fg_fail(err, FG_E_INVALID, "a part of the name is an object or not a directory");
    if (folder < 0)
        return fg_directory_fail(err, errno, "rename");
    /* The file is the object from here on: an error below must not delete it. */
    temp->name[0] = '\0';
    if (flush_up(folder, name, err) != FG_OK) {
        *unsure = true;
        return err->code;
    }
    return FG_OK;
}

/* Removes empty folders. That need not be durable. */
static void remove_empty(struct fg_directory *directory, const char *name)
{
    char path[FG_BUCKET_NAME_MAX_BYTES + 1];
    char *slash;

    memcpy(path, name, strlen(name) + 1);
    while ((slash = strrchr(path, '/')) != NULL) {
        const char *leaf;
        int parent, rc;

        *slash = '\0';
        parent = fg_directory_folder(directory, path, false, &leaf);
        if (parent < 0)
            return;
        rc = unlinkat(parent, leaf, AT_REMOVEDIR);
        (void)close(parent);
        if (rc != 0)
            return;
    }
}

enum fg_code fg_directory_unlink(struct fg_directory *directory, const char *name, bool *unsure,
                                 struct fg_err *err)
{
    const char *leaf;
    int folder = fg_directory_folder(directory, name, false, &leaf);

    if (folder < 0)
        return fg_directory_fail(err, errno, "delete");
    if (unlinkat(folder, leaf, 0) != 0) {
        (void)fg_directory_fail(err, errno, "delete");
        (void)close(folder);
        return err->code;
    }
    if (fsync(folder) != 0) {
        *unsure = true;
        (void)fg_directory_fail(err, errno, "flush of the folder");
        (void)close(folder);
        return err->code;
    }
    (void)close(folder);
    remove_empty(directory, name);
    return FG_OK;
}

/* ---- temporary files ---- */

enum fg_code fg_directory_temp_create(struct fg_directory *directory, struct fg_temp *ret_temp,
                                      struct fg_err *err)
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        struct fg_temp temp;
        struct stat info;

        (void)snprintf(temp.name, sizeof temp.name, "%ld-%llx-%llx", (long)getpid(),
                       (unsigned long long)fg_wall_ns(fg_clock_real()),
                       (unsigned long long)atomic_fetch_add(&directory->temps_made, 1));
        temp.fd = openat(directory->temps, temp.name,
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
        if (temp.fd < 0 && errno == EEXIST)
            continue;
        if (temp.fd < 0)
            return fg_directory_fail(err, errno, "temporary file");
        /* The lock says to fg_directory_clean_up() of all processes that the writer lives. */
        if (flock_always(temp.fd, LOCK_EX) == 0 && fstat(temp.fd, &info) == 0 &&
            info.st_nlink > 0) {
            *ret_temp = temp;
            return FG_OK;
        }
        /* A clean-up of another process removed the file before it was locked. */
        fg_directory_temp_done(directory, &temp);
    }
    return fg_fail(err, FG_E_UNAVAILABLE, "cannot create a temporary file");
}

void fg_directory_temp_done(struct fg_directory *directory, struct fg_temp *temp)
{
    if (temp->name[0] != '\0')
        (void)unlinkat(directory->temps, temp->name, 0);
    (void)close(temp->fd);
}

enum fg_code fg_directory_write(int fd, struct fg_slice bytes, struct fg_err *err)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.ptr, bytes.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fg_directory_fail(err, errno, "write");
        bytes = fg_slice_sub(bytes, (size_t)n, bytes.len);
    }
    /* The disk begins to write, and nobody waits for it here: the sync of another file, a log that
     * pushes wait for, would wait for all that is left. It is a hint, so a failure is of no
     * interest: the flush of the whole file reports it. */
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    return FG_OK;
}

/* The writer of a file holds its lock, at the latest until its process ends. */
static bool remove_dead(struct fg_directory *directory, const char *name)
{
    int fd = openat(directory->temps, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool dead;

    if (fd < 0)
        return false;
    dead = flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(directory->temps, name, 0) == 0;
    (void)close(fd);
    return dead;
}

uint64_t fg_directory_clean_up(struct fg_directory *directory)
{
    int fd = openat(directory->temps, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    uint64_t removed = 0;

    if (folder == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return 0;
    }
    while ((entry = readdir(folder)) != NULL) /* NOLINT(concurrency-mt-unsafe): a stream of ours */
        if (entry->d_name[0] != '.')
            removed += remove_dead(directory, entry->d_name);
    (void)closedir(folder);
    return removed;
}

/* ---- open ---- */

void fg_directory_files_init(struct fg_directory *directory)
{
    directory->objects = directory->temps = directory->locks = -1;
}

static enum fg_code make_folder(int parent, const char *name, int *ret_fd, struct fg_err *err)
{
    if (mkdirat(parent, name, FOLDER_MODE) != 0 && errno != EEXIST)
        return fg_directory_fail(err, errno, "folder %s", name);
    *ret_fd = open_folder(parent, name);
    return *ret_fd >= 0 ? FG_OK : fg_directory_fail(err, errno, "folder %s", name);
}

/* Tests whether the file system supports what this bucket needs. A full file system passes without
 * the test, because its objects can still be read. */
static enum fg_code try_temp(struct fg_directory *directory, struct fg_err *err)
{
    struct fg_temp temp = {.fd = -1};
    enum fg_code code;

    code = fg_directory_temp_create(directory, &temp, err);
    if (code == FG_OK) {
        code = fg_directory_stamp(directory, temp.fd, 0, err);
        fg_directory_temp_done(directory, &temp);
    }
    return code == FG_E_NO_SPACE ? FG_OK : code;
}

/* Creates all locks at the start: a reader could not create one on a disk that has become full.
 * If one cannot be created now, the caller that needs it reports why. */
static void make_locks(const struct fg_directory *directory)
{
    for (unsigned i = 0; i < LOCKS; i++) {
        char file[LOCK_NAME_BYTES];
        int fd;

        lock_name(i, file);
        fd = openat(directory->locks, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
        if (fd >= 0)
            (void)close(fd);
    }
}

static enum fg_code open_parts(struct fg_directory *directory, int home, struct fg_err *err)
{
    if (make_folder(home, "objects", &directory->objects, err) != FG_OK ||
        make_folder(home, "tmp", &directory->temps, err) != FG_OK ||
        make_folder(home, "locks", &directory->locks, err) != FG_OK)
        return err->code;
    if (fsync(home) != 0)
        return fg_directory_fail(err, errno, "flush");
    make_locks(directory);
    return try_temp(directory, err);
}

enum fg_code fg_directory_files_open(struct fg_directory *directory, const char *path,
                                     struct fg_err *err)
{
    bool made = mkdir(path, FOLDER_MODE) == 0;
    enum fg_code code;
    int home;

    if (!made && errno != EEXIST)
        return fg_directory_fail(err, errno, "folder");
    home = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home < 0)
        return fg_directory_fail(err, errno, "folder");

    /* Flushes the folder's entry in the one above it. If the folder existed, the process that made
     * it has flushed it, unless it died before. A failure therefore matters only for a new folder:
     * an old one may be on a disk that we only read. */
    int up = open_folder(home, "..");

    code = FG_OK;
    if (up < 0 || fsync(up) != 0)
        code = fg_directory_fail(err, errno, "flush of the folder above");
    if (up >= 0)
        (void)close(up);
    if (code == FG_OK || !made)
        code = open_parts(directory, home, err);
    (void)close(home);
    return code;
}

void fg_directory_files_done(struct fg_directory *directory)
{
    if (directory->objects >= 0)
        (void)close(directory->objects);
    if (directory->temps >= 0)
        (void)close(directory->temps);
    if (directory->locks >= 0)
        (void)close(directory->locks);
}
