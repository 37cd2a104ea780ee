#include "common/storage/block/file.h"

#include "common/base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Writers append pages of some KiB; one system call for many of them. */
enum { BUFFER_BYTES = 256 * 1024 };

struct fg_block_file {
    int fd;
    bool finished;
    char *path;
    struct fg_buf buf;
};

enum fg_code fg_block_file_create(const char *path, struct fg_block_file **ret_file,
                                  struct fg_err *err)
{
    /* Truncates: a program that was killed may have left a part of the same file. */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    size_t size = strlen(path) + 1;
    struct fg_block_file *file;

    if (fd < 0)
        return fg_fail_errno(err, errno, "%s", path);
    file = fg_new(struct fg_block_file);
    file->fd = fd;
    file->path = memcpy(fg_malloc(size), path, size);
    fg_buf_init(&file->buf, SIZE_MAX);
    *ret_file = file;
    return FG_OK;
}

static enum fg_code write_all(const struct fg_block_file *file, struct fg_slice bytes,
                              struct fg_err *err)
{
    while (bytes.len > 0) {
        ssize_t n = write(file->fd, bytes.ptr, bytes.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fg_fail_errno(err, errno, "%s", file->path);
        bytes = fg_slice_sub(bytes, (size_t)n, bytes.len);
    }
    return FG_OK;
}

static enum fg_code flush(struct fg_block_file *file, struct fg_err *err)
{
    enum fg_code code = write_all(file, fg_buf_slice(&file->buf), err);

    /* Also after a failure: the caller gives the file up, and a second write would repeat bytes. */
    fg_buf_clear(&file->buf);
    return code;
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    struct fg_block_file *file = arg;

    fg_buf_put(&file->buf, bytes);
    return file->buf.len < BUFFER_BYTES ? FG_OK : flush(file, err);
}

struct fg_block_sink fg_block_file_sink(struct fg_block_file *file)
{
    return (struct fg_block_sink){append, file};
}

enum fg_code fg_block_file_finish(struct fg_block_file *file, struct fg_err *err)
{
    enum fg_code code = flush(file, err);

    file->finished = code == FG_OK;
    return code;
}

void fg_block_file_destroy(struct fg_block_file *file)
{
    if (file == NULL)
        return;
    (void)close(file->fd);
    /* Half a file is of no use to anybody, and takes room on the disk. */
    if (!file->finished)
        (void)unlink(file->path);
    fg_buf_done(&file->buf);
    free(file->path);
    free(file);
}
