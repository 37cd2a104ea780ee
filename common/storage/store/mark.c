#include "common/storage/store/mark.h"

#include "common/base/crc32c.h"
#include "common/base/cursor.h"
#include "common/base/str.h"
#include "common/storage/store/log_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHECKED_FROM = 8, /* bytes of a slot that its checksum is of */
    HEAD_BYTES = 40,
    LOG_BYTES = 16,
    NAME_MAX_BYTES = 64,
    CURRENT_MAX_BYTES = 64,
    FILE_MODE = 0640,
};

/* The layout of a slot is in mark.h. Two slots are written in turn, so a torn write leaves the
 * one before. */
static const char magic[] = "FGmk";
static const char mark_name[] = "MARK";
static const char manifest_prefix[] = "MANIFEST-";

/* ---- slots ---- */

void fg_mark_encode(const struct fg_mark *mark, struct fg_buf *out)
{
    size_t start = out->len;
    struct fg_buf checked;

    fg_assert(mark->n_logs <= FG_MARK_LOGS_MAX);
    fg_buf_init(&checked, FG_MARK_SLOT_BYTES);
    fg_buf_le64(&checked, mark->number);
    fg_buf_le64(&checked, mark->manifest);
    fg_buf_le64(&checked, mark->manifest_size);
    fg_buf_le64(&checked, mark->n_logs);
    for (uint32_t i = 0; i < mark->n_logs; i++) {
        fg_buf_le64(&checked, mark->logs[i].number);
        fg_buf_le64(&checked, mark->logs[i].size);
    }
    fg_buf_puts(out, magic);
    fg_buf_le32(out, fg_crc32c(fg_buf_slice(&checked)));
    fg_buf_put(out, fg_buf_slice(&checked));
    while (out->len - start < FG_MARK_SLOT_BYTES)
        fg_buf_putc(out, 0);
    fg_buf_done(&checked);
}

bool fg_mark_decode(struct fg_slice slot, struct fg_mark *ret_mark)
{
    struct fg_cur cur = fg_cur(slot);
    struct fg_slice found = fg_cur_take(&cur, sizeof magic - 1);
    uint32_t crc = fg_cur_le32(&cur);
    struct fg_mark mark = {.number = fg_cur_le64(&cur)};
    uint64_t n_logs;

    mark.manifest = fg_cur_le64(&cur);
    mark.manifest_size = fg_cur_le64(&cur);
    n_logs = fg_cur_le64(&cur);
    /* n_logs is bounded before it is multiplied: it comes from a file that may be damaged. */
    if (cur.bad || !fg_slice_is(found, magic) || mark.number == 0 || n_logs > FG_MARK_LOGS_MAX ||
        slot.len < HEAD_BYTES + n_logs * LOG_BYTES ||
        crc != fg_crc32c(fg_slice_sub(slot, CHECKED_FROM,
                                      HEAD_BYTES - CHECKED_FROM + n_logs * LOG_BYTES)))
        return false;
    mark.n_logs = (uint32_t)n_logs;
    for (uint32_t i = 0; i < mark.n_logs; i++) {
        mark.logs[i].number = fg_cur_le64(&cur);
        mark.logs[i].size = fg_cur_le64(&cur);
    }
    *ret_mark = mark;
    return true;
}

/* ---- the folder ---- */

/* Fails because of a file of the folder. A fault of the disk may pass, so it is never
 * FG_E_CORRUPT or FG_E_NOT_FOUND: an operator might be asked to accept a loss that is none. */
static enum fg_code fail_disk(struct fg_err *err, const char *name)
{
    (void)fg_fail_errno(err, errno, "%s", name);
    if (err->code != FG_E_NO_SPACE && err->code != FG_E_DENIED)
        err->code = FG_E_UNAVAILABLE;
    return err->code;
}

static bool number_of(const char *name, const char *prefix, const char *suffix,
                      uint64_t *ret_number)
{
    struct fg_slice text = fg_cstr(name);
    size_t around = strlen(prefix) + strlen(suffix);

    return text.len > around && fg_slice_starts(text, prefix) && fg_slice_ends(text, suffix) &&
           fg_parse_u64(fg_slice_sub(text, strlen(prefix), text.len - around), ret_number);
}

/* The files of the folder that the check uses. */
struct mark_listing {
    struct fg_mark_log *logs; /* ascending */
    size_t n_logs, cap_logs;
    bool has_tables;
};

static int by_number(const void *left, const void *right)
{
    uint64_t a = ((const struct fg_mark_log *)left)->number;
    uint64_t b = ((const struct fg_mark_log *)right)->number;

    return (a > b) - (a < b);
}

static void listing_done(struct mark_listing *listing)
{
    free(listing->logs);
}

static enum fg_code list_files(int folder, struct mark_listing *ret_listing, struct fg_err *err)
{
    /* A descriptor of its own: closedir() closes it. */
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    struct mark_listing listing = {0};
    const struct dirent *entry;

    if (stream == NULL) {
        (void)fail_disk(err, "folder");
        if (fd >= 0)
            (void)close(fd);
        return err->code;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of ours */
    while ((entry = readdir(stream)) != NULL) {
        struct stat info;
        uint64_t number;

        listing.has_tables |= number_of(entry->d_name, "", ".sst", &number);
        /* One that is deleted meanwhile is not needed any more. */
        if (number_of(entry->d_name, "", ".log", &number) &&
            fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
            if (listing.n_logs == listing.cap_logs) {
                listing.cap_logs = FG_MAX(2 * listing.cap_logs, (size_t)16);
                listing.logs = fg_realloc(listing.logs, listing.cap_logs * sizeof *listing.logs);
            }
            listing.logs[listing.n_logs++] = (struct fg_mark_log){number, (uint64_t)info.st_size};
        }
    }
    (void)closedir(stream);
    if (listing.n_logs > 1)
        qsort(listing.logs, listing.n_logs, sizeof *listing.logs, by_number);
    *ret_listing = listing;
    return FG_OK;
}

static void log_name(uint64_t number, char name[NAME_MAX_BYTES])
{
    (void)snprintf(name, NAME_MAX_BYTES, "%06llu.log", (unsigned long long)number);
}

static void manifest_name(uint64_t number, char name[NAME_MAX_BYTES])
{
    (void)snprintf(name, NAME_MAX_BYTES, "%s%06llu", manifest_prefix, (unsigned long long)number);
}

/* Reads up to len bytes at `at`; fewer at the end of the file. */
static enum fg_code read_at(int fd, const char *name, uint8_t *into, size_t len, uint64_t at,
                            size_t *ret_len, struct fg_err *err)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, into + got, len - got, (off_t)(at + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_disk(err, name);
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *ret_len = got;
    return FG_OK;
}

/* *ret_number 0: there is no CURRENT. FG_E_CORRUPT: it names no MANIFEST. */
static enum fg_code read_current(int folder, uint64_t *ret_number, struct fg_err *err)
{
    char text[CURRENT_MAX_BYTES];
    int fd = openat(folder, "CURRENT", O_RDONLY | O_CLOEXEC);
    enum fg_code code;
    uint64_t number;
    size_t len = 0;

    if (fd < 0 && errno == ENOENT) {
        *ret_number = 0;
        return FG_OK;
    }
    if (fd < 0)
        return fail_disk(err, "CURRENT");
    code = read_at(fd, "CURRENT", (uint8_t *)text, sizeof text - 1, 0, &len, err);
    (void)close(fd);
    if (code != FG_OK)
        return code;
    text[len] = '\0';
    if (!number_of(text, manifest_prefix, "\n", &number) || number == 0)
        return fg_fail(err, FG_E_CORRUPT, "CURRENT names no MANIFEST");
    *ret_number = number;
    return FG_OK;
}

/* On from where the scan is, which is the start of a block. Only whole blocks are taken over into
 * *scan: what is behind them may grow. *ret_now: with the last one. */
static enum fg_code scan_more(int fd, const char *name, struct fg_log_scan *scan,
                              struct fg_log_scan *ret_now, struct fg_err *err)
{
    uint8_t *block = fg_malloc(FG_LOG_BLOCK_BYTES);
    enum fg_code code = FG_OK;
    size_t len = FG_LOG_BLOCK_BYTES;

    while (code == FG_OK && len == FG_LOG_BLOCK_BYTES) {
        code = read_at(fd, name, block, FG_LOG_BLOCK_BYTES, scan->at, &len, err);
        *ret_now = *scan;
        if (code == FG_OK && len > 0)
            fg_log_scan_block(ret_now, fg_bytes(block, len));
        if (len == FG_LOG_BLOCK_BYTES)
            *scan = *ret_now;
    }
    free(block);
    return code;
}

static enum fg_code scan_file(int folder, const char *name, uint64_t sequence_max,
                              struct fg_log_scan *ret_scan, struct fg_err *err)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    struct fg_log_scan scan = {.sequence_max = sequence_max};
    enum fg_code code;

    if (fd < 0)
        return fail_disk(err, name);
    code = scan_more(fd, name, &scan, ret_scan, err);
    (void)close(fd);
    return code;
}

/* ---- the mark ---- */

static enum fg_code read_mark(int folder, struct fg_mark *ret_mark, struct fg_err *err)
{
    uint8_t slots[2 * FG_MARK_SLOT_BYTES];
    int fd = openat(folder, mark_name, O_RDONLY | O_CLOEXEC);
    struct fg_mark mark = {0}, other;
    enum fg_code code;
    size_t len = 0;

    if (fd < 0 && errno != ENOENT)
        return fail_disk(err, mark_name);
    if (fd >= 0) {
        code = read_at(fd, mark_name, slots, sizeof slots, 0, &len, err);
        (void)close(fd);
        if (code != FG_OK)
            return code;
    }
    for (size_t at = 0; at < len; at += FG_MARK_SLOT_BYTES)
        /* The valid slot with the greater number is the newest mark. */
        if (fg_mark_decode(fg_slice_sub(fg_bytes(slots, len), at, FG_MARK_SLOT_BYTES), &other) &&
            other.number > mark.number)
            mark = other;
    *ret_mark = mark;
    return FG_OK;
}

static uint64_t synced_size(const struct fg_mark *mark, uint64_t log)
{
    for (uint32_t i = 0; i < mark->n_logs; i++)
        if (mark->logs[i].number == log)
            return mark->logs[i].size;
    return 0;
}

/* ---- checking ---- */

struct check {
    int folder;
    uint64_t sequence_max;
    struct fg_mark mark;
    struct mark_listing listing;
    uint64_t torn;     /* number of the log that is to be cut, 0: none is; */
    uint64_t torn_end; /* at this byte */
};

/* The log that was written to then is needed until the MANIFEST says that it was flushed. */
static enum fg_code check_newest(const struct check *check, struct fg_err *err)
{
    const struct fg_mark_log *newest;
    char name[NAME_MAX_BYTES];

    if (check->mark.n_logs == 0)
        return FG_OK;
    newest = &check->mark.logs[check->mark.n_logs - 1];
    for (size_t i = 0; i < check->listing.n_logs; i++)
        if (check->listing.logs[i].number == newest->number)
            return FG_OK;
    log_name(newest->number, name);
    return fg_fail(err, FG_E_CORRUPT, "%s is missing although %llu bytes of it were synced", name,
                   (unsigned long long)newest->size);
}

static enum fg_code check_manifest(const struct check *check, uint64_t current, struct fg_err *err)
{
    const struct fg_mark *mark = &check->mark;
    char name[NAME_MAX_BYTES], wanted[NAME_MAX_BYTES];
    struct fg_log_scan scan;

    manifest_name(current, name);
    manifest_name(mark->manifest, wanted);
    if (faccessat(check->folder, name, F_OK, 0) != 0 && errno == ENOENT)
        return fg_fail(err, FG_E_CORRUPT, "%s is missing", name);
    if (current < mark->manifest)
        return fg_fail(err, FG_E_CORRUPT, "CURRENT names %s, but %s was in use", name, wanted);
    /* A newer MANIFEST than at the last mark: RocksDB has written it since, and the mark says
     * nothing about it. */
    if (current > mark->manifest)
        return FG_OK;
    if (scan_file(check->folder, name, 0, &scan, err) != FG_OK)
        return err->code;
    if (scan.end < mark->manifest_size)
        return fg_fail(err, FG_E_CORRUPT, "%s is readable up to byte %llu, but %llu were written",
                       name, (unsigned long long)scan.end, (unsigned long long)mark->manifest_size);
    /* A MANIFEST that has grown may say that the newest log was flushed, so that log need not be
     * there. */
    return scan.end > mark->manifest_size ? FG_OK : check_newest(check, err);
}

static bool has_later(const struct check *check, size_t i)
{
    for (i++; i < check->listing.n_logs; i++)
        if (check->listing.logs[i].size > 0)
            return true;
    return false;
}

static enum fg_code check_log(struct check *check, size_t i, struct fg_err *err)
{
    uint64_t number = check->listing.logs[i].number;
    uint64_t synced = synced_size(&check->mark, number);
    char name[NAME_MAX_BYTES];
    enum fg_log_verdict verdict;
    struct fg_log_scan scan;

    log_name(number, name);
    if (scan_file(check->folder, name, check->sequence_max, &scan, err) != FG_OK)
        return err->code;
    verdict = fg_log_scan_verdict(&scan);
    /* First what the mark promises: a synced byte that cannot be read is a loss wherever it is. */
    if (scan.end < synced)
        return fg_fail(err, FG_E_CORRUPT, "%s is readable up to byte %llu, but %llu were synced",
                       name, (unsigned long long)scan.end, (unsigned long long)synced);
    /* RocksDB goes on to a new log only after a whole record, so only the last log may be torn. */
    if (verdict == FG_LOG_DAMAGED || (verdict == FG_LOG_TORN && has_later(check, i)))
        return fg_fail(err, FG_E_CORRUPT, "%s is damaged at byte %llu of %llu", name,
                       (unsigned long long)scan.end, (unsigned long long)scan.at);
    if (verdict == FG_LOG_TORN) {
        check->torn = number;
        check->torn_end = scan.end;
    }
    return FG_OK;
}

static enum fg_code cut_torn(const struct check *check, struct fg_err *err)
{
    char name[NAME_MAX_BYTES];
    enum fg_code code = FG_OK;
    int fd;

    if (check->torn == 0)
        return FG_OK;
    log_name(check->torn, name);
    fd = openat(check->folder, name, O_WRONLY | O_CLOEXEC);
    /* Synced before RocksDB opens the log: a power cut must not bring the torn bytes back behind
     * new records. */
    if (fd < 0 || ftruncate(fd, (off_t)check->torn_end) != 0 || fdatasync(fd) != 0)
        code = fail_disk(err, name);
    if (fd >= 0)
        (void)close(fd);
    return code;
}

static enum fg_code check_folder(struct check *check, struct fg_err *err)
{
    uint64_t current = 0;

    if (read_mark(check->folder, &check->mark, err) != FG_OK ||
        list_files(check->folder, &check->listing, err) != FG_OK ||
        read_current(check->folder, &current, err) != FG_OK)
        return err->code;
    if (current == 0) {
        /* Without CURRENT RocksDB would begin a new store, and delete what is there. A start that
         * was killed before there was one has left a MANIFEST and nothing else. */
        bool used =
            check->mark.number > 0 || check->listing.has_tables || check->listing.n_logs > 0;

        return used ? fg_fail(err, FG_E_CORRUPT,
                              "CURRENT is missing, so the files of the store are unknown")
                    : FG_OK;
    }
    if (check_manifest(check, current, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < check->listing.n_logs; i++)
        if (check_log(check, i, err) != FG_OK)
            return err->code;
    /* Cut only when everything else is in order: nothing is changed in a folder that an operator
     * has to look at. */
    return cut_torn(check, err);
}

enum fg_code fg_mark_check(const char *dir, uint64_t sequence_max, struct fg_err *err)
{
    struct check check = {.folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                          .sequence_max = sequence_max};
    enum fg_code code;

    if (check.folder < 0)
        return fail_disk(err, dir);
    code = check_folder(&check, err);
    listing_done(&check.listing);
    (void)close(check.folder);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", dir);
}

/* ---- noting ---- */

struct fg_marker {
    char *dir;
    uint64_t number;            /* of the last mark; 0: what is there was not read yet */
    uint64_t manifest;          /* that is scanned */
    struct fg_log_scan scanned; /* its whole blocks */
    uint64_t manifest_size;     /* of it, synced */
};

struct fg_marker *fg_marker_create(const char *dir)
{
    struct fg_marker *marker = fg_new(struct fg_marker);
    size_t size = strlen(dir) + 1;

    marker->dir = memcpy(fg_malloc(size), dir, size);
    return marker;
}

void fg_marker_destroy(struct fg_marker *marker)
{
    if (marker == NULL)
        return;
    free(marker->dir);
    free(marker);
}

/* Flushes the MANIFEST as it is now; RocksDB may be appending to it. *ret_grown: it has more
 * than at the last mark. */
static enum fg_code sync_manifest(struct fg_marker *marker, int folder, bool *ret_grown,
                                  struct fg_err *err)
{
    char name[NAME_MAX_BYTES];
    struct fg_log_scan scan;
    uint64_t number = 0;
    enum fg_code code;
    int fd;

    if (read_current(folder, &number, err) != FG_OK)
        return err->code;
    if (number == 0)
        return fg_fail(err, FG_E_CORRUPT, "CURRENT is missing");
    if (number != marker->manifest) {
        marker->manifest = number;
        marker->scanned = (struct fg_log_scan){0};
        marker->manifest_size = 0;
    }
    manifest_name(number, name);
    fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_disk(err, name);
    code = scan_more(fd, name, &marker->scanned, &scan, err);
    *ret_grown = code == FG_OK && scan.end != marker->manifest_size;
    /* The mark must not promise bytes that a power cut takes away. */
    if (*ret_grown && fdatasync(fd) != 0)
        code = fail_disk(err, name);
    if (code == FG_OK)
        marker->manifest_size = scan.end;
    (void)close(fd);
    return code;
}

static enum fg_code write_mark(int folder, const struct fg_mark *mark, bool sync,
                               struct fg_err *err)
{
    /* The slot of the mark before the last: the last one stays whole. */
    off_t at = (off_t)(mark->number % 2 * FG_MARK_SLOT_BYTES);
    int fd = openat(folder, mark_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    enum fg_code code = FG_OK;
    struct fg_buf slot;
    ssize_t n;

    if (fd < 0)
        return fail_disk(err, mark_name);
    fg_buf_init(&slot, FG_MARK_SLOT_BYTES);
    fg_mark_encode(mark, &slot);
    n = pwrite(fd, slot.ptr, slot.len, at);
    if (n >= 0 && n < (ssize_t)slot.len)
        errno = ENOSPC;
    if (n < (ssize_t)slot.len || (sync && fdatasync(fd) != 0))
        code = fail_disk(err, mark_name);
    fg_buf_done(&slot);
    (void)close(fd);
    return code;
}

static enum fg_code save_mark(struct fg_marker *marker, int folder, struct fg_err *err)
{
    struct fg_mark mark = {0};
    struct mark_listing listing;
    size_t first;
    bool grown = false;

    if (marker->number == 0) {
        if (read_mark(folder, &mark, err) != FG_OK)
            return err->code;
        marker->number = mark.number;
        mark = (struct fg_mark){0};
    }
    if (sync_manifest(marker, folder, &grown, err) != FG_OK ||
        list_files(folder, &listing, err) != FG_OK)
        return err->code;
    mark.number = marker->number + 1;
    mark.manifest = marker->manifest;
    mark.manifest_size = marker->manifest_size;
    /* The newest logs, if there are more than a slot has room for: only these are written to. */
    first = listing.n_logs - FG_MIN(listing.n_logs, (size_t)FG_MARK_LOGS_MAX);
    for (size_t i = first; i < listing.n_logs; i++)
        mark.logs[mark.n_logs++] = listing.logs[i];
    listing_done(&listing);
    if (write_mark(folder, &mark, grown, err) != FG_OK)
        return err->code;
    marker->number = mark.number;
    return FG_OK;
}

enum fg_code fg_marker_note(struct fg_marker *marker, struct fg_err *err)
{
    int folder = open(marker->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum fg_code code;

    if (folder < 0)
        return fail_disk(err, marker->dir);
    code = save_mark(marker, folder, err);
    (void)close(folder);
    return code == FG_OK ? FG_OK : fg_wrap(err, "mark of %s", marker->dir);
}
