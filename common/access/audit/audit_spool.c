#include "common/access/audit/audit_spool.h"

#include "common/base/str.h"
#include "common/runtime/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096 + 256,
    FILE_NAME_BYTES = FG_AUDIT_CHAIN_MAX_BYTES + 32,
    HEAD_MAX_BYTES = 256,
    OBJECT_DIGITS = 20, /* so that names sort like numbers */
};

#define LINES   ".ndjson"
#define DAMAGED ".damaged"
#define HEAD    "head"

struct fg_audit_spool {
    char *folder;
    int folder_fd, lock_fd;
    /* The file that is appended to. */
    int fd; /* -1: none */
    char name[FILE_NAME_BYTES];
    off_t size;
    struct fg_audit_link last; /* in `head` */
};

static void file_name(const char *chain, uint64_t object, char out[FILE_NAME_BYTES])
{
    (void)snprintf(out, FILE_NAME_BYTES, "%s-%0*llu" LINES, chain, OBJECT_DIGITS,
                   (unsigned long long)object);
}

static enum fg_code fail(const struct fg_audit_spool *spool, const char *name, struct fg_err *err)
{
    return fg_fail_errno(err, errno, "%s/%s", spool->folder, name);
}

static void close_file(struct fg_audit_spool *spool)
{
    if (spool->fd >= 0)
        (void)close(spool->fd);
    spool->fd = -1;
}

/* ---- the folder ---- */

enum fg_code fg_audit_spool_open(const char *folder, struct fg_audit_spool **ret_spool,
                                 struct fg_err *err)
{
    struct fg_audit_spool *spool = fg_new(struct fg_audit_spool);

    *spool = (struct fg_audit_spool){
        .folder = fg_strdup(folder), .folder_fd = -1, .lock_fd = -1, .fd = -1};
    if ((mkdir(folder, 0750) != 0 && errno != EEXIST) ||
        (spool->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        (spool->lock_fd = openat(spool->folder_fd, "LOCK", O_RDWR | O_CREAT | O_CLOEXEC, 0640)) < 0)
        (void)fg_fail_errno(err, errno, "folder of the audit %s", folder);
    else if (flock(spool->lock_fd, LOCK_EX | LOCK_NB) != 0)
        (void)fg_fail(err, FG_E_UNAVAILABLE, "folder of the audit %s is in use by another process",
                      folder);
    else {
        *ret_spool = spool;
        return FG_OK;
    }
    fg_audit_spool_close(spool);
    return err->code;
}

void fg_audit_spool_close(struct fg_audit_spool *spool)
{
    if (spool == NULL)
        return;
    close_file(spool);
    if (spool->lock_fd >= 0)
        (void)close(spool->lock_fd);
    if (spool->folder_fd >= 0)
        (void)close(spool->folder_fd);
    free(spool->folder);
    free(spool);
}

/* ---- files ---- */

static enum fg_code write_all(int fd, struct fg_slice bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.ptr, bytes.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return FG_E_UNAVAILABLE;
        bytes = fg_slice_sub(bytes, (size_t)n, SIZE_MAX);
    }
    return FG_OK;
}

static enum fg_code read_file(const struct fg_audit_spool *spool, const char *name,
                              struct fg_buf *out, struct fg_err *err)
{
    int fd = openat(spool->folder_fd, name, O_RDONLY | O_CLOEXEC);
    uint8_t piece[16 * 1024];
    ssize_t n = 0;

    if (fd < 0)
        return fail(spool, name, err);
    while ((n = read(fd, piece, sizeof piece)) > 0)
        fg_buf_append(out, piece, (size_t)n);
    err->code = FG_OK;
    if (n < 0)
        (void)fail(spool, name, err);
    else if (out->full)
        (void)fg_fail(err, FG_E_TOO_LARGE, "%s/%s is too large", spool->folder, name);
    (void)close(fd);
    return err->code;
}

/* Makes the names of the folder durable. */
static enum fg_code sync_folder(const struct fg_audit_spool *spool, struct fg_err *err)
{
    return fsync(spool->folder_fd) == 0 ? FG_OK : fail(spool, ".", err);
}

static enum fg_code open_file(struct fg_audit_spool *spool, const char *name, struct fg_err *err)
{
    struct stat info;

    if (spool->fd >= 0 && strcmp(spool->name, name) == 0)
        return FG_OK;
    close_file(spool);
    spool->fd = openat(spool->folder_fd, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (spool->fd < 0 || fstat(spool->fd, &info) != 0)
        return fail(spool, name, err);
    (void)snprintf(spool->name, sizeof spool->name, "%s", name);
    spool->size = info.st_size;
    return sync_folder(spool, err);
}

enum fg_code fg_audit_spool_append(struct fg_audit_spool *spool, const char *chain, uint64_t object,
                                   struct fg_slice lines, struct fg_err *err)
{
    char name[FILE_NAME_BYTES];

    file_name(chain, object, name);
    if (open_file(spool, name, err) != FG_OK) {
        close_file(spool);
        return err->code;
    }
    if (write_all(spool->fd, lines) != FG_OK || fdatasync(spool->fd) != 0) {
        (void)fail(spool, name, err);
        /* The next append has other lines for these places of the chain. */
        if (ftruncate(spool->fd, spool->size) != 0)
            fg_log_error("a file of the audit has lines that were not acknowledged",
                         fg_ls("file", name));
        close_file(spool);
        return err->code;
    }
    spool->size += (off_t)lines.len;
    return FG_OK;
}

enum fg_code fg_audit_spool_read(struct fg_audit_spool *spool, const char *chain, uint64_t object,
                                 struct fg_buf *lines, struct fg_err *err)
{
    char name[FILE_NAME_BYTES];

    file_name(chain, object, name);
    return read_file(spool, name, lines, err);
}

/* ---- the head ---- */

static enum fg_code write_head(struct fg_audit_spool *spool, const struct fg_audit_link *link,
                               struct fg_err *err)
{
    struct fg_buf text;
    int fd = openat(spool->folder_fd, HEAD ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

    if (fd < 0)
        return fail(spool, HEAD, err);
    fg_buf_init(&text, HEAD_MAX_BYTES);
    fg_buf_printf(&text, "%s %llu %lld ", link->chain, (unsigned long long)link->seq,
                  (long long)link->object_ms);
    fg_buf_hex(&text, link->hash, FG_AUDIT_HASH_BYTES);
    fg_buf_putc(&text, '\n');
    err->code = FG_OK;
    if (write_all(fd, fg_buf_slice(&text)) != FG_OK || fdatasync(fd) != 0 ||
        renameat(spool->folder_fd, HEAD ".new", spool->folder_fd, HEAD) != 0)
        (void)fail(spool, HEAD, err);
    (void)close(fd);
    fg_buf_done(&text);
    return err->code == FG_OK ? sync_folder(spool, err) : err->code;
}

static struct fg_slice next_word(struct fg_slice *rest)
{
    size_t end = FG_MIN(fg_slice_find(*rest, ' '), rest->len);
    struct fg_slice word = fg_slice_sub(*rest, 0, end);

    *rest = fg_slice_sub(*rest, end + 1, SIZE_MAX);
    return word;
}

static bool parse_head(struct fg_slice text, struct fg_audit_link *ret_link)
{
    struct fg_slice rest = fg_trim(text), chain = next_word(&rest);
    struct fg_audit_link link = {.seq = 0};

    if (chain.len == 0 || chain.len > FG_AUDIT_CHAIN_MAX_BYTES ||
        !fg_parse_u64(next_word(&rest), &link.seq) ||
        !fg_parse_i64(next_word(&rest), &link.object_ms) ||
        !fg_parse_hex(rest, link.hash, FG_AUDIT_HASH_BYTES))
        return false;
    (void)snprintf(link.chain, sizeof link.chain, "%.*s", FG_S(chain));
    *ret_link = link;
    return true;
}

/* A head that is missing or damaged breaks no chain: only the end of the one before is not vouched
 * for. */
static void read_head(struct fg_audit_spool *spool)
{
    struct fg_buf text;
    struct fg_err err;

    fg_buf_init(&text, HEAD_MAX_BYTES);
    if (faccessat(spool->folder_fd, HEAD, F_OK, 0) == 0 &&
        (read_file(spool, HEAD, &text, &err) != FG_OK ||
         !parse_head(fg_buf_slice(&text), &spool->last)))
        fg_log_warn("the audit does not know which chain it continues: the file is damaged",
                    fg_ls("folder", spool->folder), fg_ls("file", HEAD));
    fg_buf_done(&text);
}

enum fg_code fg_audit_spool_remove(struct fg_audit_spool *spool, const struct fg_audit_link *last,
                                   uint64_t object, struct fg_err *err)
{
    char name[FILE_NAME_BYTES];

    file_name(last->chain, object, name);
    if (spool->fd >= 0 && strcmp(spool->name, name) == 0)
        close_file(spool);
    /* The head first: a file that is still there is stored again, and found there. */
    if (write_head(spool, last, err) != FG_OK)
        return err->code;
    spool->last = *last;
    if (unlinkat(spool->folder_fd, name, 0) != 0 && errno != ENOENT)
        return fail(spool, name, err);
    return FG_OK;
}

/* ---- what is left ---- */

/* Cuts a file after its last whole line. Returns false if nothing of it is kept. */
static bool mend_file(struct fg_audit_spool *spool, const char *name, struct fg_audit_left *left)
{
    struct fg_buf lines;
    struct fg_err err;
    size_t whole = 0;
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s", spool->folder, name);
    fg_buf_init(&lines, FG_AUDIT_OBJECT_MAX_BYTES);
    if (read_file(spool, name, &lines, &err) == FG_OK)
        whole = fg_audit_whole(fg_buf_slice(&lines), &left->link, &left->object);
    if (whole > 0 && whole < lines.len && truncate(path, (off_t)whole) != 0)
        whole = 0;
    if (whole == 0 && fg_slice_find(fg_buf_slice(&lines), '\n') == SIZE_MAX && !lines.full) {
        /* Not one line was ever acknowledged. */
        (void)unlinkat(spool->folder_fd, name, 0);
    } else if (whole == 0) {
        char aside[FILE_NAME_BYTES + sizeof DAMAGED];

        (void)snprintf(aside, sizeof aside, "%s" DAMAGED, name);
        (void)renameat(spool->folder_fd, name, spool->folder_fd, aside);
        fg_log_error("a file of the audit is damaged and is not stored",
                     fg_ls("folder", spool->folder), fg_ls("file", aside));
    }
    fg_buf_done(&lines);
    return whole > 0;
}

/* By time: a process has one chain after another on a folder. */
static int compare_left(const void *a, const void *b)
{
    const struct fg_audit_left *left = a, *right = b;

    if (left->link.object_ms != right->link.object_ms)
        return left->link.object_ms < right->link.object_ms ? -1 : 1;
    return (left->object > right->object) - (left->object < right->object);
}

enum fg_code fg_audit_spool_left(struct fg_audit_spool *spool, struct fg_audit_left **ret_left,
                                 size_t *ret_n, struct fg_audit_link *ret_last, struct fg_err *err)
{
    DIR *dir = opendir(spool->folder);
    struct fg_audit_left *left = NULL;
    struct dirent *entry;
    size_t n = 0;

    if (dir == NULL)
        return fail(spool, ".", err);
    read_head(spool);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours */
    while ((entry = readdir(dir)) != NULL) {
        if (!fg_slice_ends(fg_cstr(entry->d_name), LINES) ||
            strlen(entry->d_name) >= FILE_NAME_BYTES)
            continue;
        left = fg_realloc(left, (n + 1) * sizeof *left);
        n += mend_file(spool, entry->d_name, &left[n]);
    }
    (void)closedir(dir);
    if (n > 1)
        qsort(left, n, sizeof *left, compare_left);
    *ret_last = spool->last;
    if (n > 0 && left[n - 1].link.object_ms >= spool->last.object_ms)
        *ret_last = left[n - 1].link;
    *ret_left = left;
    *ret_n = n;
    return FG_OK;
}
