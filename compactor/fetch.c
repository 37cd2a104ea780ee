#include "compactor/fetch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 8 * 1024 * 1024, /* long enough that the latency of a request does not matter */
    PIECES = 4,                    /* under way at a time */
    PATH_MAX_BYTES = 4096,         /* PATH_MAX of Linux */
    DIRECTORY_ARENA_BYTES = 256 * 1024 * 1024, /* bounds what a damaged one asks for */
};

/* ---- the folder ---- */

enum fg_code cmp_fetch_prepare(struct cmp_env *env, struct fg_err *err)
{
    char path[PATH_MAX_BYTES];
    struct dirent *entry;
    DIR *folder;

    if (mkdir(env->scratch, 0750) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "scratch folder %s", env->scratch);
    folder = opendir(env->scratch);
    if (folder == NULL)
        return fg_fail_errno(err, errno, "scratch folder %s", env->scratch);
    while ((entry = readdir(folder)) != NULL) { /* NOLINT(concurrency-mt-unsafe): of ours */
        /* Removes what a killed process left behind, and only files by names of ours: the
         * setting may name a wrong folder. */
        if (strncmp(entry->d_name, "block-", 6) != 0 && strncmp(entry->d_name, "source-", 7) != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", env->scratch, entry->d_name);
        (void)unlink(path);
    }
    (void)closedir(folder);
    return FG_OK;
}

/* Opens a file that has no name any more, so a crash leaves no gigabytes behind. (O_TMPFILE
 * would do it in one step, but not on every file system.) */
static enum fg_code open_nameless(struct cmp_env *env, int *ret_fd, struct fg_err *err)
{
    char path[PATH_MAX_BYTES];
    int fd;

    (void)snprintf(path, sizeof path, "%s/source-%016llx", env->scratch,
                   (unsigned long long)cmp_env_random(env));
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd < 0)
        return fg_fail_errno(err, errno, "%s", path);
    (void)unlink(path);
    *ret_fd = fd;
    return FG_OK;
}

/* ---- pieces ---- */

static struct fg_bucket_request piece_of(struct cmp_env *env, const char *name,
                                         struct fg_block_range range)
{
    return (struct fg_bucket_request){.verb = FG_BUCKET_GET,
                                      .name = name,
                                      .offset = range.offset,
                                      .length = range.len,
                                      .content_max_bytes = (size_t)range.len,
                                      .deadline_mono_ns =
                                          cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS)};
}

static enum fg_code check_piece(const struct fg_bucket_request *request, struct fg_err *err)
{
    if (request->code != FG_OK) {
        *err = request->err;
        return err->code;
    }
    /* A range of an object that is shorter than its manifest says comes back with fewer bytes.
     * The file would have a hole there, or end early and make the mapping fault. */
    if (request->body.len != request->length)
        return fg_fail(err, FG_E_CORRUPT, "%s: %zu bytes at %llu, should be %llu", request->name,
                       request->body.len, (unsigned long long)request->offset,
                       (unsigned long long)request->length);
    return FG_OK;
}

enum fg_code cmp_fetch_range(struct cmp_env *env, const char *name, struct fg_block_range range,
                             struct fg_buf *body, struct fg_err *err)
{
    struct fg_bucket_request request = piece_of(env, name, range);
    enum fg_code code;

    fg_buf_init(body, (size_t)range.len);
    if (range.len == 0)
        return FG_OK;
    (void)cmp_env_call(env, &request);
    code = check_piece(&request, err);
    if (code == FG_OK) {
        *body = request.body;
        fg_buf_init(&request.body, 0); /* it is ours now */
    }
    fg_bucket_clear(&request);
    return code;
}

static enum fg_code write_at(int fd, struct fg_slice bytes, uint64_t offset, struct fg_err *err)
{
    while (bytes.len > 0) {
        ssize_t n = pwrite(fd, bytes.ptr, bytes.len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fg_fail_errno(err, errno, "scratch folder");
        bytes = fg_slice_sub(bytes, (size_t)n, bytes.len);
        offset += (uint64_t)n;
    }
    return FG_OK;
}

/* A range that is being fetched into a file. */
struct copying {
    struct cmp_env *env;
    const char *name;
    struct fg_block_range range;
    uint64_t sent; /* bytes that were asked for */
    int fd;
    struct fg_bucket_wave *wave;
};

/* Asks for the next piece. The request is unused or has ended, so at most PIECES buffers are in
 * memory. */
static void send_piece(struct copying *copying, struct fg_bucket_request *request)
{
    struct fg_block_range piece = {copying->range.offset + copying->sent,
                                   FG_MIN(copying->range.len - copying->sent, PIECE_BYTES)};

    fg_assert(piece.len > 0); /* a length of 0 means the whole object */
    *request = piece_of(copying->env, copying->name, piece);
    copying->sent += piece.len;
    fg_bucket_wave_send(copying->wave, copying->env->bucket, request);
}

static enum fg_code copy_pieces(struct copying *copying, struct fg_bucket_request *requests,
                                struct fg_err *err)
{
    struct fg_bucket_request *request;

    for (size_t i = 0; i < PIECES && copying->sent < copying->range.len; i++)
        send_piece(copying, &requests[i]);
    while ((request = fg_bucket_wave_next(copying->wave)) != NULL) {
        enum fg_code code = check_piece(request, err);

        if (code == FG_OK)
            code = write_at(copying->fd, fg_buf_slice(&request->body),
                            request->offset - copying->range.offset, err);
        fg_bucket_clear(request);
        if (code != FG_OK || cmp_env_check(copying->env, err) != FG_OK)
            return err->code;
        if (copying->sent < copying->range.len)
            send_piece(copying, request);
    }
    fg_assert(copying->sent == copying->range.len);
    return FG_OK;
}

static enum fg_code copy(struct cmp_env *env, const char *name, struct fg_block_range range, int fd,
                         struct fg_err *err)
{
    struct fg_bucket_request requests[PIECES] = {{0}};
    struct copying copying = {.env = env,
                              .name = name,
                              .range = range,
                              .fd = fd,
                              .wave = fg_bucket_wave_create_until(env->stop)};
    enum fg_code code = copy_pieces(&copying, requests, err);

    /* Waits for requests that are under way, whose memory is on this stack; only then they are
     * cleared. */
    fg_bucket_wave_destroy(copying.wave);
    for (size_t i = 0; i < PIECES; i++)
        fg_bucket_clear(&requests[i]);
    return code;
}

/* ---- objects ---- */

enum fg_code cmp_fetch_directory(struct cmp_env *env, const struct cmp_fetch_place *place,
                                 struct fg_arena *arena, struct fg_block_directory *ret_directory,
                                 struct fg_err *err)
{
    struct fg_buf body;
    enum fg_code code;

    /* The place comes from a manifest, which may be damaged: checked before memory is asked for. */
    if (place->directory_bytes > FG_BLOCK_DIRECTORY_MAX_BYTES ||
        place->directory_offset + place->directory_bytes != place->bytes)
        return fg_fail(err, FG_E_CORRUPT, "%s: the place of its directory in the manifest",
                       place->name);
    if (cmp_fetch_range(env, place->name,
                        (struct fg_block_range){place->directory_offset, place->directory_bytes},
                        &body, err) != FG_OK)
        return err->code;
    code = fg_block_directory_parse(fg_buf_slice(&body), place->bytes, env->bucket->keys, arena,
                                    ret_directory, err);
    fg_buf_done(&body);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", place->name);
}

/* The range of all sections of the tenant's parts, except groups and NOD, which are elsewhere and
 * are built again. */
static struct fg_block_range range_of(const struct cmp_merge_source *source)
{
    uint64_t first = UINT64_MAX, end = 0;

    if (source->n_parts == 0)
        return (struct fg_block_range){0, 0};
    for (uint32_t i = 0; i < source->n_parts; i++)
        for (uint32_t k = 0; k < source->parts[i].n_sections; k++) {
            const struct fg_block_section *section = &source->parts[i].sections[k];

            if (section->kind == FG_BLOCK_GRP || section->kind == FG_BLOCK_NOD)
                continue;
            first = FG_MIN(first, section->range.offset);
            end = FG_MAX(end, section->range.offset + section->range.len);
        }
    return (struct fg_block_range){first, end - first};
}

static enum fg_code map_range(struct cmp_env *env, struct cmp_fetched *fetched,
                              struct fg_block_range range, struct fg_err *err)
{
    enum fg_code code;
    void *map;
    int fd = -1;

    if (range.len == 0)
        return FG_OK;
    if (open_nameless(env, &fd, err) != FG_OK)
        return err->code;
    code = copy(env, fetched->source.name, range, fd, err);
    map = code == FG_OK ? mmap(NULL, (size_t)range.len, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (code == FG_OK && map == MAP_FAILED)
        code = fg_fail_errno(err, errno, "%s, mapped", fetched->source.name);
    /* The mapping keeps the file alive, so a job with many sources does not use up descriptors. */
    (void)close(fd);
    if (code != FG_OK)
        return code;
    fetched->map = map;
    fetched->map_len = (size_t)range.len;
    fetched->source.bytes = fg_bytes(map, fetched->map_len);
    fetched->source.offset = range.offset;
    return FG_OK;
}

enum fg_code cmp_fetch_mapped(struct cmp_env *env, const char *name, struct fg_block_range range,
                              struct cmp_fetched *ret_fetched, struct fg_err *err)
{
    struct cmp_fetched fetched = {.source.name = name};

    if (map_range(env, &fetched, range, err) != FG_OK)
        return err->code;
    *ret_fetched = fetched;
    return FG_OK;
}

void cmp_fetched_done(struct cmp_fetched *fetched)
{
    if (fetched->map != NULL)
        (void)munmap(fetched->map, fetched->map_len);
    fg_arena_destroy(fetched->arena);
    *fetched = (struct cmp_fetched){.map = NULL};
}

enum fg_code cmp_fetch(struct cmp_env *env, const struct cmp_fetch_place *place,
                       struct fg_slice tenant, struct cmp_fetched *ret_fetched, struct fg_err *err)
{
    struct cmp_fetched fetched = {.source.name = place->name,
                                  .arena = fg_arena_create(DIRECTORY_ARENA_BYTES)};
    const struct fg_block_directory *directory = &fetched.directory;
    uint32_t first, end;

    if (cmp_fetch_directory(env, place, fetched.arena, &fetched.directory, err) != FG_OK) {
        cmp_fetched_done(&fetched);
        return err->code;
    }
    /* Parts are sorted by tenant and service, so a tenant's parts are next to each other. */
    first = end = fg_block_part_find(directory, tenant, FG_LIT(""));
    while (end < directory->n_parts && fg_slice_eq(directory->parts[end].tenant, tenant))
        end++;
    fetched.source.parts = directory->parts + first;
    fetched.source.n_parts = end - first;
    if (map_range(env, &fetched, range_of(&fetched.source), err) != FG_OK) {
        cmp_fetched_done(&fetched);
        return err->code;
    }
    *ret_fetched = fetched;
    return FG_OK;
}
