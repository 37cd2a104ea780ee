/*
 * A disk that fails on demand: a shared object to preload into a program under test.
 *
 *     LD_PRELOAD=libfaulty_disk.so FAULTY_DISK_PATH=/data FAULTY_DISK_CONTROL=/rules  program ...
 *
 * It interposes libc's calls on files. Those on paths below FAULTY_DISK_PATH fail, wait or find no
 * room as the file FAULTY_DISK_CONTROL says; all others pass. The control file is read again when
 * it changes, so a test switches faults on and off while the program runs. Replace it by rename: a
 * half-written file would be read as it is. Without the file, or with an empty one, nothing fails.
 *
 * A line of it is a rule:
 *
 *     CALLS ACTION [name=TEXT] [at=N] [from=N] [count=N] [ms=N]
 *
 *   CALLS    any, or a list with commas of
 *              open      of a file or folder that is there
 *              list      readdir
 *              create    open that makes a file
 *              read      read, pread, readv, preadv, fread
 *              write     write, pwrite, writev, pwritev
 *              sync      fsync, fdatasync, sync_file_range
 *              rename    rename, link
 *              unlink    unlink, rmdir
 *              truncate  ftruncate, fallocate
 *              mkdir
 *              space     statvfs: with ENOSPC it reports that nothing is free
 *   ACTION   EIO or ENOSPC: the call fails with it, and does nothing. ENOSPC of a write first
 *            writes half of the bytes, as a disk does that fills up, and fails the next write.
 *            slow: the call waits for ms milliseconds, and is made then.
 *            hold: the call waits until the control file has changed, and is made then.
 *   name     only for paths that contain this text (".log", "MANIFEST")
 *   at       only for pread of this byte of the file, as of a bad sector
 *   from     the first call that the rule applies to, of those that match since the rule was read;
 *            1, the default, is the next one
 *   count    how many calls it applies to from there; all without it
 *
 * The first rule that applies decides. Each call that failed or waited adds a line, "write ENOSPC
 * PATH", to the file FAULTY_DISK_CONTROL.hits: so a test can tell that its fault has happened.
 *
 * A unit test is linked with this file instead, and uses faulty_disk.h.
 *
 * A program with the address sanitizer wants its own library first; it starts with
 * ASAN_OPTIONS=verify_asan_link_order=0.
 *
 * Known by path: descriptors that open gave. Not known: those that dup made or that came over a
 * socket, memory maps, and what stdio does inside of libc (fread aside).
 */
#include "tests/lib/faulty_disk.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    RULES_MAX = 32,
    FDS_MAX = 1 << 16,
    NAME_MAX_BYTES = 64,
    CONTROL_MAX_BYTES = 8192,
    HITS_MAX = 100000, /* lines; a program that tries for ever does not fill the test's disk */
    HOLD_POLL_MS = 5,
};

enum call {
    CALL_OPEN,
    CALL_CREATE,
    CALL_READ,
    CALL_WRITE,
    CALL_SYNC,
    CALL_RENAME,
    CALL_UNLINK,
    CALL_TRUNCATE,
    CALL_MKDIR,
    CALL_SPACE,
    CALL_LIST,
    CALLS
};
static const char *const call_names[CALLS] = {"open",  "create", "read",   "write",
                                              "sync",  "rename", "unlink", "truncate",
                                              "mkdir", "space",  "list"};

enum action { ACTION_EIO, ACTION_ENOSPC, ACTION_SLOW, ACTION_HOLD, ACTIONS };
static const char *const action_names[ACTIONS] = {"EIO", "ENOSPC", "slow", "hold"};

struct rule {
    unsigned calls; /* bits */
    enum action action;
    char name[NAME_MAX_BYTES];
    bool has_at;
    off64_t at;
    unsigned long from, count; /* count 0: all */
    unsigned ms;
    unsigned long seen;
};

static struct {
    pthread_mutex_t lock; /* of all below */
    char prefix[PATH_MAX], control[PATH_MAX], hits[PATH_MAX + 8];
    size_t prefix_len; /* 0: the environment says nothing, all passes */
    struct stat control_stat;
    unsigned long generation; /* of the control file */
    struct rule rules[RULES_MAX];
    unsigned n_rules;
    unsigned long n_hits;
    char *paths[FDS_MAX]; /* of descriptors below the prefix; NULL for others */
    struct {
        dev_t device;
        ino_t inode;
    } files[FDS_MAX];   /* what they were: stdio closes without us, and numbers come again */
    bool torn[FDS_MAX]; /* the next write fails: no room */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- libc's own ---- */

static void *find_next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL)
        abort();
    return found;
}

/* The function that the program would have called without us. */
#define NEXT(name)                                                                                 \
    ({                                                                                             \
        static __typeof__(name) *_Atomic next_;                                                    \
        if (atomic_load(&next_) == NULL)                                                           \
            atomic_store(&next_, (__typeof__(name) *)find_next(#name));                            \
        atomic_load(&next_);                                                                       \
    })

/* ---- the control file (locked) ---- */

static bool parse_calls(const char *text, unsigned *ret_calls)
{
    unsigned calls = 0;

    if (strcmp(text, "any") == 0) {
        *ret_calls = (1U << CALLS) - 1;
        return true;
    }
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        unsigned call = 0;

        while (call < CALLS &&
               !(strlen(call_names[call]) == len && strncmp(call_names[call], text, len) == 0))
            call++;
        if (call == CALLS)
            return false;
        calls |= 1U << call;
        text += len + (text[len] == ',');
    }
    *ret_calls = calls;
    return calls != 0;
}

static bool parse_action(const char *text, enum action *ret_action)
{
    for (unsigned action = 0; action < ACTIONS; action++)
        if (strcmp(text, action_names[action]) == 0) {
            *ret_action = (enum action)action;
            return true;
        }
    return false;
}

static bool parse_key(const char *text, struct rule *rule)
{
    if (strncmp(text, "name=", 5) == 0)
        return snprintf(rule->name, sizeof rule->name, "%s", text + 5) < NAME_MAX_BYTES;
    if (strncmp(text, "at=", 3) == 0) {
        rule->has_at = true;
        rule->at = strtoll(text + 3, NULL, 10);
    } else if (strncmp(text, "from=", 5) == 0)
        rule->from = strtoul(text + 5, NULL, 10);
    else if (strncmp(text, "count=", 6) == 0)
        rule->count = strtoul(text + 6, NULL, 10);
    else if (strncmp(text, "ms=", 3) == 0)
        rule->ms = (unsigned)strtoul(text + 3, NULL, 10);
    else
        return false;
    return true;
}

static bool parse_rule(char *line, struct rule *ret_rule)
{
    struct rule rule = {.from = 1};
    char *rest, *word = strtok_r(line, " \t", &rest);

    if (word == NULL || !parse_calls(word, &rule.calls) ||
        (word = strtok_r(NULL, " \t", &rest)) == NULL || !parse_action(word, &rule.action))
        return false;
    while ((word = strtok_r(NULL, " \t", &rest)) != NULL)
        if (!parse_key(word, &rule))
            return false;
    *ret_rule = rule;
    return true;
}

/* A rule that cannot be read would be a test that tests nothing. */
static void parse_rules(char *text)
{
    char *rest, *line = strtok_r(text, "\n", &rest);

    disk.n_rules = 0;
    for (; line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char copy[CONTROL_MAX_BYTES];

        (void)snprintf(copy, sizeof copy, "%s", line);
        if (disk.n_rules == RULES_MAX || !parse_rule(copy, &disk.rules[disk.n_rules])) {
            (void)fprintf(stderr, "faulty_disk: cannot read the rule: %s\n", line);
            abort();
        }
        disk.n_rules++;
    }
}

static void read_control(void)
{
    char text[CONTROL_MAX_BYTES];
    long fd = syscall(SYS_openat, AT_FDCWD, disk.control, O_RDONLY | O_CLOEXEC, 0);
    ssize_t len = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof text - 1);

    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    text[len < 0 ? 0 : len] = '\0';
    parse_rules(text);
    disk.generation++;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void look_at_control(void)
{
    struct stat now = {0};

    if (disk.control[0] == '\0')
        return;
    if (stat(disk.control, &now) != 0)
        memset(&now, 0, sizeof now);
    if (same_file(&now, &disk.control_stat))
        return;
    disk.control_stat = now;
    read_control();
}

static void note_hit(enum call call, enum action action, const char *path)
{
    char line[PATH_MAX + 64];
    int len =
        snprintf(line, sizeof line, "%s %s %s\n", call_names[call], action_names[action], path);
    long fd;

    if (disk.n_hits++ >= HITS_MAX || disk.control[0] == '\0' || len <= 0 ||
        (size_t)len >= sizeof line)
        return;
    fd = syscall(SYS_openat, AT_FDCWD, disk.hits, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (fd < 0)
        return;
    (void)syscall(SYS_write, fd, line, (size_t)len);
    (void)syscall(SYS_close, fd);
}

static void copy_variable(const char *name, char *into, size_t size)
{
    const char *value = getenv(name);

    if (value != NULL && strlen(value) < size)
        memcpy(into, value, strlen(value) + 1);
}

__attribute__((constructor)) static void set_up(void)
{
    copy_variable("FAULTY_DISK_PATH", disk.prefix, sizeof disk.prefix);
    copy_variable("FAULTY_DISK_CONTROL", disk.control, sizeof disk.control);
    (void)snprintf(disk.hits, sizeof disk.hits, "%s.hits", disk.control);
    if (disk.control[0] != '\0')
        disk.prefix_len = strlen(disk.prefix);
}

/* ---- a test's own ---- */

void faulty_disk_set(const char *path)
{
    (void)pthread_mutex_lock(&disk.lock);
    (void)snprintf(disk.prefix, sizeof disk.prefix, "%s", path);
    disk.prefix_len = strlen(disk.prefix);
    disk.n_rules = 0;
    disk.n_hits = 0;
    (void)pthread_mutex_unlock(&disk.lock);
}

void faulty_disk_rules(const char *rules)
{
    char text[CONTROL_MAX_BYTES];

    (void)snprintf(text, sizeof text, "%s", rules);
    (void)pthread_mutex_lock(&disk.lock);
    parse_rules(text);
    disk.generation++;
    (void)pthread_mutex_unlock(&disk.lock);
}

unsigned long faulty_disk_hits(void)
{
    unsigned long hits;

    (void)pthread_mutex_lock(&disk.lock);
    hits = disk.n_hits;
    (void)pthread_mutex_unlock(&disk.lock);
    return hits;
}

/* ---- paths ---- */

static bool is_below(const char *path)
{
    return disk.prefix_len > 0 && strncmp(path, disk.prefix, disk.prefix_len) == 0 &&
           (path[disk.prefix_len] == '/' || path[disk.prefix_len] == '\0');
}

static void forget(int fd)
{
    free(disk.paths[fd]);
    disk.paths[fd] = NULL;
    disk.torn[fd] = false;
}

/* The path of a descriptor, or NULL. Locked. */
static const char *find_path(int fd)
{
    struct stat info;

    if (disk.prefix_len == 0 || fd < 0 || fd >= FDS_MAX || disk.paths[fd] == NULL)
        return NULL;
    if (fstat(fd, &info) != 0 || info.st_dev != disk.files[fd].device ||
        info.st_ino != disk.files[fd].inode)
        forget(fd);
    return disk.paths[fd];
}

/* The whole path of what a call names, "" when it is none of ours. */
static void resolve(int folder, const char *path, char whole[PATH_MAX])
{
    const char *above;

    whole[0] = '\0';
    if (disk.prefix_len == 0 || path == NULL)
        return;
    if (path[0] == '/') {
        (void)snprintf(whole, PATH_MAX, "%s", path);
    } else {
        (void)pthread_mutex_lock(&disk.lock);
        above = find_path(folder);
        if (above != NULL)
            (void)snprintf(whole, PATH_MAX, "%.2000s/%.2000s", above, path);
        (void)pthread_mutex_unlock(&disk.lock);
    }
    if (!is_below(whole))
        whole[0] = '\0';
}

static void path_of(int fd, char whole[PATH_MAX])
{
    const char *path;

    (void)pthread_mutex_lock(&disk.lock);
    path = find_path(fd);
    (void)snprintf(whole, PATH_MAX, "%s", path == NULL ? "" : path);
    (void)pthread_mutex_unlock(&disk.lock);
}

static void remember(int fd, const char *whole)
{
    struct stat info;

    if (fd < 0 || fd >= FDS_MAX || disk.prefix_len == 0)
        return;
    (void)pthread_mutex_lock(&disk.lock);
    forget(fd);
    if (whole[0] != '\0' && fstat(fd, &info) == 0) {
        disk.paths[fd] = strdup(whole);
        disk.files[fd].device = info.st_dev;
        disk.files[fd].inode = info.st_ino;
    }
    (void)pthread_mutex_unlock(&disk.lock);
}

/* ---- what becomes of a call ---- */

/* The bytes of a file that a call names; none if it goes on from where the descriptor is. */
struct range {
    off64_t at;
    size_t len;
};

static bool has_byte(const struct range *range, off64_t at)
{
    return at >= range->at && (uint64_t)(at - range->at) < range->len;
}

/* The rule for this call; NULL: it passes. Locked. */
static struct rule *find_rule(enum call call, const char *whole, const struct range *range)
{
    for (unsigned i = 0; i < disk.n_rules; i++) {
        struct rule *rule = &disk.rules[i];

        if ((rule->calls >> call & 1) == 0 || strstr(whole, rule->name) == NULL ||
            (rule->has_at && !has_byte(range, rule->at)))
            continue;
        rule->seen++;
        if (rule->seen >= rule->from && (rule->count == 0 || rule->seen < rule->from + rule->count))
            return rule;
    }
    return NULL;
}

static void sleep_ms(unsigned ms)
{
    (void)usleep(ms * 1000);
}

static void hold(unsigned long generation)
{
    bool same = true;

    while (same) {
        sleep_ms(HOLD_POLL_MS);
        (void)pthread_mutex_lock(&disk.lock);
        look_at_control();
        same = disk.generation == generation;
        (void)pthread_mutex_unlock(&disk.lock);
    }
}

/* Waits if it has to. The errno that the call fails with; 0: it is made. */
static int judge_range(enum call call, const char *whole, const struct range *range)
{
    const struct rule *rule;
    enum action action = ACTIONS;
    unsigned long generation;
    unsigned ms = 0;

    if (whole[0] == '\0')
        return 0;
    (void)pthread_mutex_lock(&disk.lock);
    look_at_control();
    generation = disk.generation;
    rule = find_rule(call, whole, range);
    if (rule != NULL) {
        action = rule->action;
        ms = rule->ms;
        note_hit(call, action, whole);
    }
    (void)pthread_mutex_unlock(&disk.lock);
    switch (action) {
    case ACTION_EIO:
        return EIO;
    case ACTION_ENOSPC:
        return ENOSPC;
    case ACTION_SLOW:
        sleep_ms(ms);
        return 0;
    case ACTION_HOLD:
        hold(generation);
        return 0;
    default:
        return 0;
    }
}

static int judge(enum call call, const char *whole)
{
    static const struct range none = {0, 0};

    return judge_range(call, whole, &none);
}

static int judge_pread(int fd, off64_t at, size_t len)
{
    const struct range range = {at, len};
    char whole[PATH_MAX];

    path_of(fd, whole);
    return judge_range(CALL_READ, whole, &range);
}

static int judge_fd(enum call call, int fd)
{
    char whole[PATH_MAX];

    path_of(fd, whole);
    return judge(call, whole);
}

static bool exists(int folder, const char *path)
{
    struct stat info;

    return fstatat(folder, path, &info, 0) == 0;
}

/* Fails the call where its rule says so. Looking for it leaves no trace: readdir() tells by errno
 * whether it has failed, and does not reset it. */
#define FAIL_IF(errnum, result)                                                                    \
    do {                                                                                           \
        int before_ = errno, errnum_ = (errnum);                                                   \
        errno = errnum_ != 0 ? errnum_ : before_;                                                  \
        if (errnum_ != 0)                                                                          \
            return result;                                                                         \
    } while (0)

/* ---- open and close ---- */

static int judge_open(int folder, const char *path, int flags, char whole[PATH_MAX])
{
    resolve(folder, path, whole);
    if (whole[0] == '\0')
        return 0;
    return judge((flags & O_CREAT) != 0 && !exists(folder, path) ? CALL_CREATE : CALL_OPEN, whole);
}

#define OPEN_MODE(flags, last)                                                                     \
    ({                                                                                             \
        mode_t mode_ = 0;                                                                          \
        if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) {                          \
            va_list args_;                                                                         \
            va_start(args_, last);                                                                 \
            mode_ = va_arg(args_, mode_t);                                                         \
            va_end(args_);                                                                         \
        }                                                                                          \
        mode_;                                                                                     \
    })

#define OPEN_BODY(folder, path, flags, call)                                                       \
    char whole[PATH_MAX];                                                                          \
    int fd;                                                                                        \
    FAIL_IF(judge_open(folder, path, flags, whole), -1);                                           \
    fd = call;                                                                                     \
    remember(fd, whole);                                                                           \
    return fd

int open(const char *path, int flags, ...)
{
    mode_t mode = OPEN_MODE(flags, flags); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    OPEN_BODY(AT_FDCWD, path, flags, NEXT(open)(path, flags, mode));
}

int open64(const char *path, int flags, ...)
{
    mode_t mode = OPEN_MODE(flags, flags); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    OPEN_BODY(AT_FDCWD, path, flags, NEXT(open64)(path, flags, mode));
}

int openat(int folder, const char *path, int flags, ...)
{
    mode_t mode = OPEN_MODE(flags, flags); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    OPEN_BODY(folder, path, flags, NEXT(openat)(folder, path, flags, mode));
}

int openat64(int folder, const char *path, int flags, ...)
{
    mode_t mode = OPEN_MODE(flags, flags); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    OPEN_BODY(folder, path, flags, NEXT(openat64)(folder, path, flags, mode));
}

/* What these become where they are compiled with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
    return open(path, flags);
}

int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
    return open64(path, flags);
}

int __openat_2(int folder, const char *path, int flags);
int __openat_2(int folder, const char *path, int flags)
{
    return openat(folder, path, flags);
}

int __openat64_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags)
{
    return openat64(folder, path, flags);
}

int close(int fd)
{
    if (fd >= 0 && fd < FDS_MAX)
        remember(fd, "");
    return NEXT(close)(fd);
}

/* ---- folders ---- */

struct dirent *readdir(DIR *folder)
{
    FAIL_IF(judge_fd(CALL_LIST, dirfd(folder)), NULL);
    return NEXT(readdir)(folder);
}

struct dirent64 *readdir64(DIR *folder)
{
    FAIL_IF(judge_fd(CALL_LIST, dirfd(folder)), NULL);
    return NEXT(readdir64)(folder);
}

/* ---- reading ---- */

ssize_t read(int fd, void *into, size_t len)
{
    FAIL_IF(judge_fd(CALL_READ, fd), -1);
    return NEXT(read)(fd, into, len);
}

ssize_t pread(int fd, void *into, size_t len, off_t at)
{
    FAIL_IF(judge_pread(fd, at, len), -1);
    return NEXT(pread)(fd, into, len, at);
}

ssize_t pread64(int fd, void *into, size_t len, off64_t at)
{
    FAIL_IF(judge_pread(fd, at, len), -1);
    return NEXT(pread64)(fd, into, len, at);
}

ssize_t readv(int fd, const struct iovec *parts, int n)
{
    FAIL_IF(judge_fd(CALL_READ, fd), -1);
    return NEXT(readv)(fd, parts, n);
}

ssize_t preadv(int fd, const struct iovec *parts, int n, off_t at)
{
    FAIL_IF(judge_fd(CALL_READ, fd), -1);
    return NEXT(preadv)(fd, parts, n, at);
}

/* RocksDB reads its logs and its MANIFEST so. An error looks like the end; ferror() has to tell, so
 * the stream is given a descriptor that cannot be read. */
#undef fread_unlocked /* a macro where it is optimised */
size_t fread_unlocked(void *into, size_t size, size_t n, FILE *stream)
{
    int fd = fileno_unlocked(stream), null;

    if (judge_fd(CALL_READ, fd) == 0)
        return NEXT(fread_unlocked)(into, size, n, stream);
    null = NEXT(open)("/dev/null", O_WRONLY | O_CLOEXEC, 0);
    if (null >= 0) {
        int was = dup(fd);
        size_t buffered;

        (void)dup3(null, fd, O_CLOEXEC);
        buffered = NEXT(fread_unlocked)(into, size, n, stream);
        (void)buffered; /* lost: what the caller learns is the error */
        (void)dup3(was, fd, O_CLOEXEC);
        (void)NEXT(close)(was);
        (void)NEXT(close)(null);
    }
    errno = EIO;
    return 0;
}

ssize_t __read_chk(int fd, void *into, size_t len, size_t size);
ssize_t __read_chk(int fd, void *into, size_t len, size_t size)
{
    (void)size;
    return read(fd, into, len);
}

ssize_t __pread_chk(int fd, void *into, size_t len, off_t at, size_t size);
ssize_t __pread_chk(int fd, void *into, size_t len, off_t at, size_t size)
{
    (void)size;
    return pread(fd, into, len, at);
}

ssize_t __pread64_chk(int fd, void *into, size_t len, off64_t at, size_t size);
ssize_t __pread64_chk(int fd, void *into, size_t len, off64_t at, size_t size)
{
    (void)size;
    return pread64(fd, into, len, at);
}

size_t __fread_unlocked_chk(void *into, size_t room, size_t size, size_t n, FILE *stream);
size_t __fread_unlocked_chk(void *into, size_t room, size_t size, size_t n, FILE *stream)
{
    (void)room;
    return fread_unlocked(into, size, n, stream);
}

/* ---- writing ---- */

/* How much of a write is made, *len bytes or fewer. The errno that it fails with, or 0. */
static int judge_write(int fd, size_t *len)
{
    int errnum;

    if (fd < 0 || fd >= FDS_MAX || disk.prefix_len == 0)
        return 0;
    (void)pthread_mutex_lock(&disk.lock);
    errnum = disk.torn[fd] ? ENOSPC : 0;
    disk.torn[fd] = false;
    (void)pthread_mutex_unlock(&disk.lock);
    if (errnum != 0)
        return errnum;
    errnum = judge_fd(CALL_WRITE, fd);
    if (errnum != ENOSPC || *len < 2)
        return errnum;
    *len /= 2;
    (void)pthread_mutex_lock(&disk.lock);
    disk.torn[fd] = true;
    (void)pthread_mutex_unlock(&disk.lock);
    return 0;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    FAIL_IF(judge_write(fd, &len), -1);
    return NEXT(write)(fd, bytes, len);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    FAIL_IF(judge_write(fd, &len), -1);
    return NEXT(pwrite)(fd, bytes, len, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at)
{
    FAIL_IF(judge_write(fd, &len), -1);
    return NEXT(pwrite64)(fd, bytes, len, at);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    FAIL_IF(judge_fd(CALL_WRITE, fd), -1);
    return NEXT(writev)(fd, parts, n);
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    FAIL_IF(judge_fd(CALL_WRITE, fd), -1);
    return NEXT(pwritev)(fd, parts, n, at);
}

/* ---- making durable ---- */

int fsync(int fd)
{
    FAIL_IF(judge_fd(CALL_SYNC, fd), -1);
    return NEXT(fsync)(fd);
}

int fdatasync(int fd)
{
    FAIL_IF(judge_fd(CALL_SYNC, fd), -1);
    return NEXT(fdatasync)(fd);
}

/* Without flags it writes nothing, and no disk fails it: RocksDB asks so whether there is the call.
 */
int sync_file_range(int fd, off64_t at, off64_t len, unsigned flags)
{
    FAIL_IF(flags == 0 ? 0 : judge_fd(CALL_SYNC, fd), -1);
    return NEXT(sync_file_range)(fd, at, len, flags);
}

/* ---- size ---- */

/* A full disk lets a file become shorter. */
static int judge_truncate(int fd, off64_t len)
{
    int errnum = judge_fd(CALL_TRUNCATE, fd);
    struct stat info;

    return errnum == ENOSPC && fstat(fd, &info) == 0 && len <= info.st_size ? 0 : errnum;
}

int ftruncate(int fd, off_t len)
{
    FAIL_IF(judge_truncate(fd, len), -1);
    return NEXT(ftruncate)(fd, len);
}

int ftruncate64(int fd, off64_t len)
{
    FAIL_IF(judge_truncate(fd, len), -1);
    return NEXT(ftruncate64)(fd, len);
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
    FAIL_IF(judge_fd(CALL_TRUNCATE, fd), -1);
    return NEXT(fallocate)(fd, mode, at, len);
}

int fallocate64(int fd, int mode, off64_t at, off64_t len)
{
    FAIL_IF(judge_fd(CALL_TRUNCATE, fd), -1);
    return NEXT(fallocate64)(fd, mode, at, len);
}

/* ---- names ---- */

static int judge_name(enum call call, int folder, const char *path)
{
    char whole[PATH_MAX];

    resolve(folder, path, whole);
    return judge(call, whole);
}

int rename(const char *from, const char *to)
{
    FAIL_IF(judge_name(CALL_RENAME, AT_FDCWD, to), -1);
    return NEXT(rename)(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    FAIL_IF(judge_name(CALL_RENAME, to_folder, to), -1);
    return NEXT(renameat)(from_folder, from, to_folder, to);
}

int link(const char *from, const char *to)
{
    FAIL_IF(judge_name(CALL_RENAME, AT_FDCWD, to), -1);
    return NEXT(link)(from, to);
}

int unlink(const char *path)
{
    FAIL_IF(judge_name(CALL_UNLINK, AT_FDCWD, path), -1);
    return NEXT(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    FAIL_IF(judge_name(CALL_UNLINK, folder, path), -1);
    return NEXT(unlinkat)(folder, path, flags);
}

int rmdir(const char *path)
{
    FAIL_IF(judge_name(CALL_UNLINK, AT_FDCWD, path), -1);
    return NEXT(rmdir)(path);
}

int mkdir(const char *path, mode_t mode)
{
    if (!exists(AT_FDCWD, path))
        FAIL_IF(judge_name(CALL_MKDIR, AT_FDCWD, path), -1);
    return NEXT(mkdir)(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    if (!exists(folder, path))
        FAIL_IF(judge_name(CALL_MKDIR, folder, path), -1);
    return NEXT(mkdirat)(folder, path, mode);
}

/* ---- room ---- */

/* ENOSPC is no failure of this call: it says that nothing is free. */
#define SPACE_BODY(errnum, call, info)                                                             \
    int space_errnum = (errnum);                                                                   \
    int space_result;                                                                              \
    FAIL_IF(space_errnum == ENOSPC ? 0 : space_errnum, -1);                                        \
    space_result = call;                                                                           \
    if (space_result == 0 && space_errnum == ENOSPC)                                               \
        (info)->f_bavail = (info)->f_bfree = 0;                                                    \
    return space_result

int statvfs(const char *path, struct statvfs *info)
{
    SPACE_BODY(judge_name(CALL_SPACE, AT_FDCWD, path), NEXT(statvfs)(path, info), info);
}

int statvfs64(const char *path, struct statvfs64 *info)
{
    SPACE_BODY(judge_name(CALL_SPACE, AT_FDCWD, path), NEXT(statvfs64)(path, info), info);
}

int fstatvfs(int fd, struct statvfs *info)
{
    SPACE_BODY(judge_fd(CALL_SPACE, fd), NEXT(fstatvfs)(fd, info), info);
}

int fstatvfs64(int fd, struct statvfs64 *info)
{
    SPACE_BODY(judge_fd(CALL_SPACE, fd), NEXT(fstatvfs64)(fd, info), info);
}
