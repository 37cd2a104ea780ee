#include "common/storage/cache/disk_files.h"

#include "common/base/crc32c.h"
#include "common/base/cursor.h"
#include "common/base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SUFFIX ".cache"

enum {
    MAGIC = 0x63644746, /* "FGdc" */
    CHECKED_FROM = 8,   /* bytes of an entry that its checksum is of */
    NUMBER_DIGITS = 16,
    PATH_MAX_BYTES = 4096, /* PATH_MAX of Linux */
};

/* ---- entries ---- */

void fg_disk_entry_write(const struct fg_disk_entry *entry, uint8_t out[DISK_ENTRY_BYTES])
{
    uint8_t id[FG_ID_BYTES];
    struct fg_buf rest, all;

    fg_buf_init(&rest, DISK_ENTRY_BYTES);
    fg_buf_init(&all, DISK_ENTRY_BYTES);
    fg_id_put(id, entry->key.object);
    fg_buf_append(&rest, id, sizeof id);
    fg_buf_le64(&rest, entry->key.offset);
    fg_buf_le64(&rest, entry->key.len);
    fg_buf_le32(&rest, entry->crc);
    fg_buf_le32(&rest, 0);
    fg_buf_le32(&all, MAGIC);
    fg_buf_le32(&all, fg_crc32c(fg_buf_slice(&rest)));
    fg_buf_put(&all, fg_buf_slice(&rest));
    fg_assert(all.len == DISK_ENTRY_BYTES);
    memcpy(out, all.ptr, DISK_ENTRY_BYTES);
    fg_buf_done(&rest);
    fg_buf_done(&all);
}

bool fg_disk_entry_read(struct fg_slice bytes, uint64_t at, uint64_t file_bytes,
                        struct fg_disk_entry *ret_entry)
{
    struct fg_cur cur = fg_cur(bytes);
    uint32_t magic = fg_cur_le32(&cur), crc = fg_cur_le32(&cur);
    struct fg_disk_entry entry;
    struct fg_slice id = fg_cur_take(&cur, FG_ID_BYTES);

    entry.key.offset = fg_cur_le64(&cur);
    entry.key.len = fg_cur_le64(&cur);
    entry.crc = fg_cur_le32(&cur);
    (void)fg_cur_le32(&cur);
    if (cur.bad || magic != MAGIC ||
        crc != fg_crc32c(fg_slice_sub(bytes, CHECKED_FROM, DISK_ENTRY_BYTES - CHECKED_FROM)))
        return false;
    /* In this order no sum can overflow, whatever length the file claims. */
    if (at > file_bytes || file_bytes - at < DISK_ENTRY_BYTES ||
        file_bytes - at - DISK_ENTRY_BYTES < entry.key.len)
        return false;
    entry.key.object = fg_id_get(id.ptr);
    *ret_entry = entry;
    return true;
}

/* ---- names ---- */

static void write_path(char path[PATH_MAX_BYTES], const char *folder, uint64_t number)
{
    (void)snprintf(path, PATH_MAX_BYTES, "%s/%016llx" SUFFIX, folder, (unsigned long long)number);
}

static bool read_name(const char *name, uint64_t *ret_number)
{
    struct fg_slice text = fg_cstr(name);
    uint8_t bytes[NUMBER_DIGITS / 2];
    uint64_t number = 0;

    if (text.len != NUMBER_DIGITS + sizeof SUFFIX - 1 || !fg_slice_ends(text, SUFFIX) ||
        !fg_parse_hex(fg_slice_sub(text, 0, NUMBER_DIGITS), bytes, sizeof bytes))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        number = number << 8 | bytes[i];
    *ret_number = number;
    return true;
}

/* ---- files ---- */

static struct fg_disk_file *open_file(const char *folder, uint64_t number, int flags)
{
    char path[PATH_MAX_BYTES];
    struct fg_disk_file *file;
    struct stat stat_buf;
    int fd;

    write_path(path, folder, number);
    /* O_NOFOLLOW and the check for a regular file: a link or a pipe with a name of ours must not
     * make us write elsewhere or hang. */
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0640);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &stat_buf) != 0 || !S_ISREG(stat_buf.st_mode)) {
        (void)close(fd);
        return NULL;
    }
    file = fg_new(struct fg_disk_file);
    file->number = number;
    file->bytes = (uint64_t)stat_buf.st_size;
    file->fd = fd;
    return file;
}

struct fg_disk_file *fg_disk_file_create(const char *folder, uint64_t number)
{
    return open_file(folder, number, O_CREAT | O_EXCL);
}

void fg_disk_file_close(struct fg_disk_file *file)
{
    (void)close(file->fd);
    free(file);
}

void fg_disk_file_remove(const char *folder, const struct fg_disk_file *file)
{
    char path[PATH_MAX_BYTES];

    write_path(path, folder, file->number);
    (void)unlink(path);
}

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* Numbers of the folder's files, ascending; to be freed. */
static enum fg_code list_numbers(const char *folder, uint64_t **ret_numbers, size_t *ret_n,
                                 struct fg_err *err)
{
    DIR *dir = opendir(folder);
    uint64_t *numbers = NULL, number;
    const struct dirent *entry;
    size_t n = 0, cap = 0;

    if (dir == NULL)
        return fg_fail_errno(err, errno, "%s", folder);
    while ((entry = readdir(dir)) != NULL) { // NOLINT(concurrency-mt-unsafe): a stream of our own
        if (!read_name(entry->d_name, &number))
            continue;
        if (n == cap) {
            cap = FG_MAX(DISK_FILES_MAX, cap * 2);
            numbers = fg_realloc(numbers, cap * sizeof *numbers);
        }
        numbers[n++] = number;
    }
    (void)closedir(dir);
    if (n > 1)
        qsort(numbers, n, sizeof *numbers, by_number);
    *ret_numbers = numbers;
    *ret_n = n;
    return FG_OK;
}

enum fg_code fg_disk_files_open(const char *folder, struct fg_disk_file *files[DISK_FILES_MAX],
                                unsigned *ret_n, struct fg_err *err)
{
    uint64_t *numbers = NULL;
    unsigned n = 0;
    size_t all = 0;

    if (list_numbers(folder, &numbers, &all, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < all; i++) {
        /* More files than the array takes, such as after a crash during an eviction: the oldest
         * ones go. */
        if (all - i > DISK_FILES_MAX) {
            fg_disk_file_remove(folder, &(struct fg_disk_file){.number = numbers[i]});
            continue;
        }
        /* A file that cannot be opened is left alone; O_EXCL keeps us from writing to it later. */
        files[n] = open_file(folder, numbers[i], 0);
        n += files[n] != NULL;
    }
    free(numbers);
    *ret_n = n;
    return FG_OK;
}

/* ---- what is in them ---- */

void fg_disk_file_cut(struct fg_disk_file *file, uint64_t bytes)
{
    if (ftruncate(file->fd, (off_t)bytes) == 0)
        file->bytes = bytes;
}

bool fg_disk_file_append(struct fg_disk_file *file, const struct fg_disk_entry *entry,
                         struct fg_slice content)
{
    uint8_t header[DISK_ENTRY_BYTES];
    struct iovec parts[] = {{header, sizeof header}, {(void *)(uintptr_t)content.ptr, content.len}};
    ssize_t len;

    fg_disk_entry_write(entry, header);
    /* At a fixed offset and in one call, so an earlier write that failed halfway is overwritten. */
    len = pwritev(file->fd, parts, FG_COUNT(parts), (off_t)file->bytes);
    if (len == (ssize_t)(sizeof header + content.len)) {
        file->bytes += (uint64_t)len;
        return true;
    }
    /* A part of it is no entry, and what comes next is written over it; but it takes room. */
    fg_disk_file_cut(file, file->bytes);
    return false;
}

bool fg_disk_file_read(const struct fg_disk_file *file, uint64_t at, const struct fg_disk_key *key,
                       struct fg_buf *into)
{
    size_t len = (size_t)key->len;
    uint8_t header[DISK_ENTRY_BYTES];
    struct iovec parts[] = {{header, sizeof header}, {NULL, len}};
    struct fg_disk_entry entry;

    fg_buf_clear(into);
    if (!fg_buf_reserve(into, len))
        return false;
    parts[1].iov_base = into->ptr;
    /* The key is compared too: the index knows only hashes. UINT64_MAX: the read itself has
     * shown that the bytes are there. */
    if (preadv(file->fd, parts, FG_COUNT(parts), (off_t)at) != (ssize_t)(sizeof header + len) ||
        !fg_disk_entry_read(fg_bytes(header, sizeof header), at, UINT64_MAX, &entry) ||
        !fg_id_eq(entry.key.object, key->object) || entry.key.offset != key->offset ||
        entry.key.len != key->len || fg_crc32c(fg_bytes(into->ptr, len)) != entry.crc)
        return false;
    into->len = len;
    return true;
}

bool fg_disk_file_next(const struct fg_disk_file *file, uint64_t *at,
                       struct fg_disk_entry *ret_entry)
{
    uint8_t header[DISK_ENTRY_BYTES];

    if (pread(file->fd, header, sizeof header, (off_t)*at) != (ssize_t)sizeof header ||
        !fg_disk_entry_read(fg_bytes(header, sizeof header), *at, file->bytes, ret_entry))
        return false;
    *at += DISK_ENTRY_BYTES + ret_entry->key.len;
    return true;
}
