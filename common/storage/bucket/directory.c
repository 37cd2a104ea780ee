/* The directory as a bucket: requests become jobs of its workers. What they do to files is in
 * directory_files.c, lists are in directory_list.c. */
#include "common/storage/bucket/directory.h"

#include "common/runtime/disk.h"
#include "common/storage/bucket/directory_impl.h"
#include "common/storage/bucket/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STEP_BYTES = 1024 * 1024,  /* between two looks whether the caller has given up */
    SMALL_BYTES = 1024 * 1024, /* manifests and their kin, without which nothing can be deleted */
};

struct directory_work {
    struct fg_job job;
    struct fg_directory *directory;
    struct fg_bucket_request *request;
};

/* ---- reading ---- */

/* The object's file, or -1: then the result says why. */
static int open_object(struct fg_directory *directory, struct fg_bucket_request *request,
                       struct stat *ret_stat)
{
    struct fg_err err;
    int fd;

    if (fg_directory_open_object(directory, request->name, &fd, ret_stat, &err) != FG_OK) {
        (void)fg_bucket_fail_err(request, &err);
        return -1;
    }
    if (fd < 0)
        (void)fg_bucket_fail(request, FG_E_NOT_FOUND, "no such object");
    return fd;
}

static void describe(struct fg_bucket_request *request, const struct stat *info)
{
    request->etag = fg_directory_etag(info);
    request->size_bytes = (uint64_t)info->st_size;
    request->modified_wall_ns = fg_directory_time_ns(info);
}

static enum fg_code read_some(struct fg_bucket_request *request, int fd, uint64_t offset,
                              size_t len)
{
    struct fg_buf *body = &request->body;
    ssize_t got = pread(fd, body->ptr + body->len, len, (off_t)offset);
    struct fg_err err;

    /* The caller tries again, since nothing was added. */
    if (got < 0 && errno == EINTR)
        return FG_OK;
    if (got < 0) {
        (void)fg_directory_fail(&err, errno, "read");
        return fg_bucket_fail_err(request, &err);
    }
    /* A put never changes a file in place, so somebody else has cut it. */
    if (got == 0)
        return fg_bucket_fail(request, FG_E_CORRUPT, "the file was truncated");
    body->len += (size_t)got;
    return FG_OK;
}

static void read_content(struct fg_bucket_request *request, int fd, uint64_t len)
{
    /* The maximum of the body is content_max_bytes, which the caller has checked. */
    fg_assert(fg_buf_reserve(&request->body, (size_t)len));
    while (request->body.len < len) {
        uint64_t left = len - request->body.len;

        if (fg_bucket_check(request, fg_mono_ns(fg_clock_real())) != FG_OK ||
            read_some(request, fd, request->offset + request->body.len,
                      (size_t)FG_MIN(left, (uint64_t)STEP_BYTES)) != FG_OK)
            return;
    }
}

static void get(struct fg_bucket_request *request, int fd, const struct stat *info)
{
    uint64_t size = (uint64_t)info->st_size, len;

    if (request->offset > 0 && request->offset >= size) {
        (void)fg_bucket_fail(request, FG_E_INVALID, "begins at byte %llu, but the object has %llu",
                             (unsigned long long)request->offset, (unsigned long long)size);
        return;
    }
    len = size - request->offset;
    if (request->length > 0)
        len = FG_MIN(len, request->length);
    if (len > request->content_max_bytes) {
        (void)fg_bucket_fail(request, FG_E_TOO_LARGE, "%llu bytes exceed %zu",
                             (unsigned long long)len, request->content_max_bytes);
        return;
    }
    describe(request, info);
    if (len > 0)
        read_content(request, fd, len);
}

static void read_or_head(struct fg_directory *directory, struct fg_bucket_request *request)
{
    struct fg_bucket_etag etag;
    struct stat info;
    int fd = open_object(directory, request, &info);

    if (fd < 0)
        return;
    /* Etag and content are of the same version: a put meanwhile renames another file to the name
     * and leaves the open one as it is. */
    etag = fg_directory_etag(&info);
    if (fg_bucket_may(request, &etag)) {
        if (request->verb == FG_BUCKET_GET)
            get(request, fd, &info);
        else
            describe(request, &info);
    }
    (void)close(fd);
}

/* ---- writing ---- */

static enum fg_code write_content(struct fg_bucket_request *request, int fd)
{
    struct fg_slice rest = request->content;
    struct fg_err err;

    while (rest.len > 0) {
        struct fg_slice piece = fg_slice_sub(rest, 0, STEP_BYTES);

        if (fg_bucket_check(request, fg_mono_ns(fg_clock_real())) != FG_OK)
            return request->code;
        if (fg_directory_write(fd, piece, &err) != FG_OK)
            return fg_bucket_fail_err(request, &err);
        rest = fg_slice_sub(rest, piece.len, rest.len);
    }
    return FG_OK;
}

static enum fg_code copy_from(struct fg_bucket_request *request, int from, int to)
{
    uint8_t *bytes = fg_malloc(STEP_BYTES);
    enum fg_code code = FG_OK;
    struct fg_err err;
    ssize_t got = 1;

    while (code == FG_OK && got != 0) {
        got = read(from, bytes, STEP_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            (void)fg_directory_fail(&err, errno, "file %.200s", request->path);
        if (got < 0 ||
            (got > 0 && fg_directory_write(to, fg_bytes(bytes, (size_t)got), &err) != FG_OK))
            code = fg_bucket_fail_err(request, &err);
        else
            code = fg_bucket_check(request, fg_mono_ns(fg_clock_real()));
    }
    free(bytes);
    return code;
}

static enum fg_code copy_file(struct fg_bucket_request *request, int to)
{
    /* O_NONBLOCK: open() of a FIFO would wait for its writer. */
    int from = open(request->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    enum fg_code code;

    if (from < 0 || fstat(from, &info) != 0 || !S_ISREG(info.st_mode))
        code = fg_bucket_fail(request, FG_E_INVALID, "file %.200s cannot be read", request->path);
    else
        code = copy_from(request, from, to);
    if (from >= 0)
        (void)close(from);
    return code;
}

/* Writes the content and flushes it, with a version of its own. */
static enum fg_code fill(struct fg_directory *directory, struct fg_bucket_request *request,
                         const struct fg_temp *temp)
{
    enum fg_code code =
        request->path != NULL ? copy_file(request, temp->fd) : write_content(request, temp->fd);
    struct fg_err err;

    if (code != FG_OK)
        return code;
    /* Before the file becomes an object: a reader never sees content that a loss of power could
     * take back. */
    if (fg_directory_stamp(directory, temp->fd, 0, &err) != FG_OK)
        return fg_bucket_fail_err(request, &err);
    return FG_OK;
}

/* The condition holds, and stays true while the name is locked. */
static void commit(struct fg_directory *directory, struct fg_bucket_request *request,
                   struct fg_temp *temp)
{
    struct fg_err err;
    struct stat info;

    /* Before the rename, after which an error could not say any more that nothing was written. */
    if (fstat(temp->fd, &info) != 0) {
        (void)fg_directory_fail(&err, errno, "stat");
        (void)fg_bucket_fail_err(request, &err);
    } else if (fg_directory_rename(directory, temp, request->name, &request->unsure, &err) !=
               FG_OK) {
        (void)fg_bucket_fail_err(request, &err);
    } else {
        describe(request, &info);
    }
}

static void replace(struct fg_directory *directory, struct fg_bucket_request *request,
                    struct fg_temp *temp)
{
    struct fg_bucket_etag etag;
    struct stat there;
    struct fg_err err;
    bool found;

    if (fg_directory_stat(directory, request->name, &found, &there, &err) != FG_OK) {
        (void)fg_bucket_fail_err(request, &err);
        return;
    }
    if (found)
        etag = fg_directory_etag(&there);
    if (!fg_bucket_may(request, found ? &etag : NULL))
        return;
    /* The clock may have gone back. With the version of the file that it replaces, the new one
     * would look unchanged to readers that have the old etag. */
    if (found && fg_directory_stamp_after(directory, temp->fd, &there, &err) != FG_OK) {
        (void)fg_bucket_fail_err(request, &err);
        return;
    }
    commit(directory, request, temp);
}

/* Returns 0 for a file that cannot be examined: copying it will fail and say why. */
static uint64_t bytes_to_put(const struct fg_bucket_request *request)
{
    struct stat info;

    if (request->path == NULL)
        return request->content.len;
    return stat(request->path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

static enum fg_code check_room(const struct fg_directory *directory,
                               const struct fg_bucket_request *request, struct fg_err *err)
{
    uint64_t bytes = bytes_to_put(request);

    return bytes <= SMALL_BYTES
               ? FG_OK
               : fg_disk_check(directory->path, bytes, directory->keep_bytes, "an object", err);
}

static void put(struct fg_directory *directory, struct fg_bucket_request *request)
{
    struct fg_temp temp;
    struct fg_err err;
    int lock;

    if (check_room(directory, request, &err) != FG_OK ||
        fg_directory_temp_create(directory, &temp, &err) != FG_OK) {
        (void)fg_bucket_fail_err(request, &err);
        return;
    }
    /* Before the lock: a large object takes long to write and flush, and other names share the
     * lock. Only the check of the condition and the rename need it. */
    if (fill(directory, request, &temp) == FG_OK) {
        lock = fg_directory_lock(directory, request->name, LOCK_EX, &err);
        if (lock < 0) {
            (void)fg_bucket_fail_err(request, &err);
        } else {
            replace(directory, request, &temp);
            (void)close(lock);
        }
    }
    fg_directory_temp_done(directory, &temp);
}

static void delete_locked(struct fg_directory *directory, struct fg_bucket_request *request)
{
    struct fg_bucket_etag etag;
    struct stat there;
    struct fg_err err;
    bool found;

    if (fg_directory_stat(directory, request->name, &found, &there, &err) != FG_OK) {
        (void)fg_bucket_fail_err(request, &err);
        return;
    }
    if (!found)
        return;
    etag = fg_directory_etag(&there);
    if (fg_bucket_may(request, &etag) &&
        fg_directory_unlink(directory, request->name, &request->unsure, &err) != FG_OK)
        (void)fg_bucket_fail_err(request, &err);
}

static void delete (struct fg_directory *directory, struct fg_bucket_request *request)
{
    struct fg_err err;
    int lock = fg_directory_lock(directory, request->name, LOCK_EX, &err);

    if (lock < 0) {
        (void)fg_bucket_fail_err(request, &err);
        return;
    }
    delete_locked(directory, request);
    (void)close(lock);
}

/* ---- jobs ---- */

static void act(struct fg_directory *directory, struct fg_bucket_request *request)
{
    switch (request->verb) {
    case FG_BUCKET_GET:
    case FG_BUCKET_HEAD:
        read_or_head(directory, request);
        break;
    case FG_BUCKET_PUT:
        put(directory, request);
        break;
    case FG_BUCKET_DELETE:
        delete (directory, request);
        break;
    case FG_BUCKET_LIST:
        fg_directory_list(directory, request);
        break;
    default:
        request->size_bytes = fg_directory_clean_up(directory);
        break;
    }
}

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct directory_work *work = fg_container(job, struct directory_work, job);

    (void)err; /* it is the request's */
    fg_bucket_meter_call(&work->directory->meter, fg_bucket_class_of(work->request->verb));
    if (fg_bucket_check(work->request, fg_mono_ns(fg_clock_real())) == FG_OK)
        act(work->directory, work->request);
    return FG_OK;
}

static void on_done(struct fg_job *job)
{
    struct directory_work *work = fg_container(job, struct directory_work, job);
    struct fg_bucket_request *request = work->request;

    /* Counted first: when it is finished, the request is the caller's. */
    fg_bucket_meter_request(&work->directory->meter, request);
    free(work);
    fg_bucket_finish(request);
}

static void directory_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct fg_directory *directory = fg_container(bucket, struct fg_directory, bucket);
    struct directory_work *work = fg_new(struct directory_work);

    *work = (struct directory_work){{.run = run, .done = on_done}, directory, request};
    if (fg_work_submit(directory->work, FG_LANE_BACKGROUND, &work->job))
        return;
    /* Without a home done() runs here, on the thread of the sender. */
    (void)fg_bucket_fail(request, FG_E_LIMIT, "too many requests are waiting");
    on_done(&work->job);
}

static void directory_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket, (void)request; /* its job looks at the mark */
}

static void directory_close(struct fg_bucket *bucket)
{
    struct fg_directory *directory = fg_container(bucket, struct fg_directory, bucket);

    /* First: this runs the jobs that are queued, and they use the folders. */
    fg_work_destroy(directory->work);
    fg_directory_files_done(directory);
    free(directory->path);
    free(directory);
}

static enum fg_code keep_reserve(struct fg_directory *directory, uint64_t reserve_bytes,
                                 struct fg_err *err)
{
    struct fg_disk_room room;

    if (fg_disk_measure(directory->path, &room, err) != FG_OK)
        return err->code;
    if (reserve_bytes == 0)
        reserve_bytes = fg_disk_reserve_of(room.size_bytes);
    directory->keep_bytes = reserve_bytes / 2;
    return FG_OK;
}

enum fg_code fg_bucket_directory_open(const struct fg_bucket_directory_config *config,
                                      struct fg_bucket **ret_bucket, struct fg_err *err)
{
    static const struct fg_bucket_ops ops = {directory_send, directory_cancel, directory_close};
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_BACKGROUND] = {.threads = config->threads, .queue_max = config->queue_max},
    };
    struct fg_directory *directory = fg_new(struct fg_directory);
    size_t size = strlen(config->path) + 1;

    directory->path = memcpy(fg_malloc(size), config->path, size);
    directory->bucket.ops = &ops;
    directory->bucket.is_local = true;
    fg_bucket_meter_init(&directory->meter, config->registry);
    fg_directory_files_init(directory);
    if (fg_directory_files_open(directory, config->path, err) != FG_OK ||
        keep_reserve(directory, config->reserve_bytes, err) != FG_OK ||
        fg_work_create("bckt", lanes, &directory->work, err) != FG_OK) {
        directory_close(&directory->bucket);
        return fg_wrap(err, "bucket %s", config->path);
    }
    (void)fg_directory_clean_up(directory);
    *ret_bucket = &directory->bucket;
    return FG_OK;
}
