#include "common/storage/store/unread.h"

#include "common/base/slice.h"
#include "common/base/str.h"
#include "common/runtime/log.h"
#include "common/runtime/metrics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAME_MAX_BYTES = 64,
    FILES_MAX = 64,           /* remembered at a time; most of them of earlier starts */
    READ_BYTES = 1024 * 1024, /* at once, of a file that is read through */
    ENDS_BYTES = 4096,        /* read of the beginning and the end of each other file */
    LOOKS_PER_PATIENCE = 8,   /* at most; each reads the file and writes another one */
    FOLDER_MODE = 0750,
    FILE_MODE = 0640,
};

/* A fault that comes back after longer than this is a new one. Questions and commits that need the
 * file come more often. */
static const int64_t FORGET_NS = 10 * FG_MINUTE_NS;

static const char kept_folder[] = "unread";
static const char probe_name[] = "unread.probe";
static const char eio[] = ": Input/output error";

/* clang-format off */
#define UNREAD_METRICS(M)                                                                          \
    M(GAUGE, UNREAD_FILES, "flamegrid_store_unread_files", "Files of the head store that the disk failed to give since the start, of which the readable part is used")
/* clang-format on */
FG_METRICS_ENUM(unread_metric, UNREAD_METRICS)
FG_METRICS_TABLE(unread_metrics, UNREAD_METRICS)

/* A file of which a read has failed. */
struct unread_file {
    char name[NAME_MAX_BYTES];
    int64_t first_mono_ns, last_mono_ns; /* failures */
    int64_t look_mono_ns;                /* not looked at before */
    bool given_up;
    bool known; /* an earlier start has given it up, so it says nothing about the disk now */
};

struct fg_unread {
    struct fg_unread_config config;
    char *dir;
    struct fg_metrics *metrics;
    struct fg_condition *condition;
    pthread_mutex_t lock; /* of the rest */
    struct unread_file files[FILES_MAX];
    unsigned n;
    int64_t n_given_up; /* since the start, also of files that are forgotten */
};

struct fg_unread *fg_unread_create(const struct fg_unread_config *config)
{
    struct fg_unread *unread = fg_new(struct fg_unread);

    unread->config = *config;
    unread->dir = fg_strdup(config->dir);
    unread->metrics =
        fg_metrics_register(config->registry, unread_metrics, FG_COUNT(unread_metrics));
    unread->condition = fg_condition_create(config->conditions, "head_unread");
    (void)pthread_mutex_init(&unread->lock, NULL);
    return unread;
}

void fg_unread_destroy(struct fg_unread *unread)
{
    if (unread == NULL)
        return;
    (void)pthread_mutex_destroy(&unread->lock);
    fg_condition_destroy(unread->condition);
    fg_metrics_unregister(unread->config.registry, unread->metrics);
    free(unread->dir);
    free(unread);
}

/* ---- what failed ---- */

/* Finds the name in "...: While pread offset 0 len 5: /data/head/000012.sst: Input/output error",
 * as of RocksDB, or "...: MARK: Input/output error", as of mark.c. */
static bool name_of(const char *msg, char name[NAME_MAX_BYTES])
{
    const char *end = NULL, *begin;

    for (const char *at = strstr(msg, eio); at != NULL; at = strstr(at + 1, eio))
        end = at;
    if (end == NULL)
        return false;
    for (begin = end; begin > msg && begin[-1] != '/' && begin[-1] != ' ';)
        begin--;
    if (begin == end || end - begin >= NAME_MAX_BYTES)
        return false;
    (void)snprintf(name, NAME_MAX_BYTES, "%.*s", (int)(end - begin), begin);
    return true;
}

static bool is_table(const char *name)
{
    return fg_slice_ends(fg_cstr(name), ".sst");
}

/* Files without which a store opens, and loses nothing. */
static bool is_spare(const char *name)
{
    return fg_slice_is(fg_cstr(name), "MARK") || fg_slice_is(fg_cstr(name), "IDENTITY");
}

static bool is_of_the_store(const char *name)
{
    return is_table(name) || is_spare(name) || fg_slice_ends(fg_cstr(name), ".log") ||
           fg_slice_starts(fg_cstr(name), "MANIFEST-") || fg_slice_is(fg_cstr(name), "CURRENT");
}

/* Returns true if an earlier start has given the table up. */
static bool was_given_up(int folder, const char *name)
{
    char kept[2 * NAME_MAX_BYTES];
    struct stat here, there;

    (void)snprintf(kept, sizeof kept, "%s/%s", kept_folder, name);
    return is_table(name) && fstatat(folder, name, &here, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(folder, kept, &there, AT_SYMLINK_NOFOLLOW) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

static void forget(struct fg_unread *unread, struct unread_file *file)
{
    *file = unread->files[--unread->n];
}

static struct unread_file *find(struct fg_unread *unread, const char *name)
{
    for (unsigned i = 0; i < unread->n; i++)
        if (strcmp(unread->files[i].name, name) == 0)
            return &unread->files[i];
    return NULL;
}

/* ---- is it the file, or the disk? ---- */

/* Opens a file for a test of the disk, not of the page cache. Returns -1 with errno. */
static int open_uncached(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return fd;
}

/* Reads len bytes at `at`, or up to the end. Returns false if the disk does not give them. */
static bool can_read(int fd, uint8_t *into, size_t len, off_t at, ssize_t *ret_n)
{
    do
        *ret_n = pread(fd, into, len, at);
    while (*ret_n < 0 && errno == EINTR);
    return *ret_n >= 0 || errno != EIO;
}

/* Reads a file through. A file that is gone can be read: it was one that could not be written. */
static bool can_read_all(int folder, const char *name)
{
    int fd = open_uncached(folder, name);
    uint8_t *bytes;
    bool readable = true;
    ssize_t n = 1;

    if (fd < 0)
        return errno != EIO;
    bytes = fg_malloc(READ_BYTES);
    for (off_t at = 0; readable && n > 0; at += n)
        readable = can_read(fd, bytes, READ_BYTES, at, &n);
    free(bytes);
    (void)close(fd);
    return readable;
}

static bool can_read_ends(int folder, const char *name)
{
    int fd = open_uncached(folder, name);
    uint8_t bytes[ENDS_BYTES];
    struct stat info;
    bool readable;
    ssize_t n;

    if (fd < 0)
        return errno != EIO;
    readable = fstat(fd, &info) == 0 && can_read(fd, bytes, sizeof bytes, 0, &n) &&
               (info.st_size <= (off_t)sizeof bytes ||
                can_read(fd, bytes, sizeof bytes, info.st_size - (off_t)sizeof bytes, &n));
    (void)close(fd);
    return readable;
}

static unsigned count_new(const struct fg_unread *unread)
{
    unsigned n = 0;

    for (unsigned i = 0; i < unread->n; i++)
        n += !unread->files[i].known;
    return n;
}

static bool is_failing_too(struct fg_unread *unread, int folder, const char *name)
{
    return is_of_the_store(name) && find(unread, name) == NULL && !was_given_up(folder, name) &&
           !can_read_ends(folder, name);
}

/* Checks that few files of the store cannot be read. */
static enum fg_code check_others(struct fg_unread *unread, int folder, struct fg_err *err)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    unsigned failing = count_new(unread);
    const struct dirent *entry;

    if (stream == NULL) {
        (void)fg_fail_errno(err, errno, "folder");
        if (fd >= 0)
            (void)close(fd);
        return err->code;
    }
    errno = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of ours */
    while (failing <= FG_UNREAD_FILES_MAX && (entry = readdir(stream)) != NULL) {
        failing += is_failing_too(unread, folder, entry->d_name);
        errno = 0; /* which tells the end from an error */
    }
    if (failing > FG_UNREAD_FILES_MAX)
        (void)fg_fail(err, FG_E_UNAVAILABLE, "more than %u files", FG_UNREAD_FILES_MAX);
    else if (errno != 0)
        (void)fg_fail_errno(err, errno, "folder");
    else
        err->code = FG_OK;
    (void)closedir(stream);
    return err->code;
}

/* Writes a file and reads it from the disk. */
static enum fg_code probe(int folder, struct fg_err *err)
{
    uint8_t written[ENDS_BYTES], got[ENDS_BYTES];
    int fd =
        openat(folder, probe_name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    ssize_t n = -1;
    bool same;

    if (fd < 0)
        return fg_fail_errno(err, errno, "%s", probe_name);
    memset(written, 0x5a, sizeof written);
    errno = EIO; /* if less is written or read than was asked for */
    same = pwrite(fd, written, sizeof written, 0) == (ssize_t)sizeof written &&
           fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
           can_read(fd, got, sizeof got, 0, &n) && n == (ssize_t)sizeof got &&
           memcmp(written, got, sizeof got) == 0;
    err->code = FG_OK;
    if (!same)
        (void)fg_fail_errno(err, errno, "%s", probe_name);
    (void)close(fd);
    (void)unlinkat(folder, probe_name, 0);
    return err->code;
}

/* ---- giving it up ---- */

/* Makes the second name of a table, or moves a spare file. Durably: the store may delete the first
 * name as soon as this returns. */
static enum fg_code keep(int folder, const char *name, struct fg_err *err)
{
    int to = -1;
    bool kept;

    if (was_given_up(folder, name) || !(is_table(name) || is_spare(name)))
        return FG_OK;
    kept = (mkdirat(folder, kept_folder, FOLDER_MODE) == 0 || errno == EEXIST) &&
           (to = openat(folder, kept_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0 &&
           (is_table(name) ? linkat(folder, name, to, name, 0)
                           : renameat(folder, name, to, name)) == 0 &&
           fsync(to) == 0 && fsync(folder) == 0;
    err->code = FG_OK;
    if (!kept)
        (void)fg_fail_errno(err, errno, "%s/%s", kept_folder, name);
    if (to >= 0)
        (void)close(to);
    return err->code;
}

static void tell(struct fg_unread *unread, const char *name, const char *why)
{
    fg_metric_set(unread->metrics, UNREAD_FILES, ++unread->n_given_up);
    fg_condition_raise(unread->condition,
                       "the disk does not give %lld files of the head in full, and may fail soon; "
                       "the last: %s",
                       (long long)unread->n_given_up, why);
    fg_log_error("a file of the head cannot be read and is given up", fg_ls("folder", unread->dir),
                 fg_ls("file", name), fg_ls("err", why));
}

/* Looks at a file that has failed for long enough: forgets it if it can be read, gives it up, or
 * says in *err why not. */
static void look(struct fg_unread *unread, struct unread_file *file, int folder, struct fg_err *err)
{
    struct fg_err why;

    if (can_read_all(folder, file->name)) {
        forget(unread, file);
        return;
    }
    if (check_others(unread, folder, &why) != FG_OK || probe(folder, &why) != FG_OK ||
        keep(folder, file->name, &why) != FG_OK) {
        (void)fg_wrap(err, "the disk fails (%s)", why.msg);
        return;
    }
    tell(unread, file->name, err->msg);
    if (is_spare(file->name)) { /* the store makes another one, which may fail as well */
        forget(unread, file);
        return;
    }
    file->given_up = true;
    err->code = FG_E_CORRUPT;
}

static void forget_old(struct fg_unread *unread, int64_t now_mono_ns)
{
    for (unsigned i = unread->n; i-- > 0;)
        if (!unread->files[i].given_up && now_mono_ns - unread->files[i].last_mono_ns > FORGET_NS)
            forget(unread, &unread->files[i]);
}

static struct unread_file *add(struct fg_unread *unread, const char *name, int folder,
                               int64_t now_mono_ns, const char *why)
{
    struct unread_file *file = &unread->files[unread->n++];

    *file = (struct unread_file){.first_mono_ns = now_mono_ns, .known = was_given_up(folder, name)};
    memcpy(file->name, name, strlen(name) + 1);
    fg_log_warn("a file of the head cannot be read, trying again", fg_ls("folder", unread->dir),
                fg_ls("file", name), fg_ls("err", why));
    return file;
}

/* Locked. */
static void judge_file(struct fg_unread *unread, const char *name, int folder, struct fg_err *err)
{
    int64_t now = fg_mono_ns(unread->config.clock), patience_ns = unread->config.patience_ns;
    struct unread_file *file;

    forget_old(unread, now);
    file = find(unread, name);
    if (file == NULL) {
        if (can_read_all(folder, name) || unread->n == FILES_MAX)
            return;
        file = add(unread, name, folder, now, err->msg);
    }
    file->last_mono_ns = now;
    if (file->given_up) {
        err->code = FG_E_CORRUPT;
    } else if (now >= file->look_mono_ns &&
               (file->known || now - file->first_mono_ns >= patience_ns)) {
        file->look_mono_ns = now + patience_ns / LOOKS_PER_PATIENCE;
        look(unread, file, folder, err);
    }
}

enum fg_code fg_unread_judge(struct fg_unread *unread, struct fg_err *err)
{
    char name[NAME_MAX_BYTES];
    int folder;

    if (unread == NULL || err->code != FG_E_UNAVAILABLE || !name_of(err->msg, name) ||
        !is_of_the_store(name))
        return err->code;
    folder = open(unread->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return err->code;
    (void)pthread_mutex_lock(&unread->lock);
    judge_file(unread, name, folder, err);
    (void)pthread_mutex_unlock(&unread->lock);
    (void)close(folder);
    return err->code;
}

void fg_unread_forget(struct fg_unread *unread)
{
    if (unread == NULL)
        return;
    (void)pthread_mutex_lock(&unread->lock);
    unread->n = 0;
    (void)pthread_mutex_unlock(&unread->lock);
}
