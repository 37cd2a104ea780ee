/*
 * Everything that the segments' thread does in the bucket for its own segments. It keeps the
 * manifest that was read last, because a swap is conditional on its etag (cas-recheck), and the
 * summary of the file that was built last, because the swap lists it.
 *
 * No call repeats itself: after a failure the core reads the manifest, which tells what was done.
 */
#include "ingester/segments/publish.h"

#include "common/base/str.h"
#include "common/cluster/manifest/object.h"
#include "common/runtime/log.h"
#include "common/storage/bucket/kept.h"
#include "ingester/first_use.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

enum {
    /* Keys and groups of the chunks of one segment, and its parts in the manifest. */
    ARENA_MAX_BYTES = 512 * 1024 * 1024,
    PATH_MAX_BYTES = 4096, /* PATH_MAX of Linux */
};

/* Building a segment may use half of the disk's reserve, which pushes may not touch: the head gets
 * smaller for it, so a full disk must not stop commits. */
enum { RESERVE_PART = 2 };

/* A manifest is small. A segment has about 64 MiB, and a slow bucket may take minutes for it. */
static const int64_t MANIFEST_TIMEOUT_NS = 30 * FG_SECOND_NS;
static const int64_t UPLOAD_TIMEOUT_NS = 10 * FG_MINUTE_NS;

static const char file_prefix[] = "segment-";

/* clang-format off */
#define PUBLISH_METRICS(M)                                                                         \
    M(COUNTER, PUBLISH_BYTES, "flamegrid_ingester_segment_bytes_total", "Bytes of segments uploaded") \
    M(COUNTER, PUBLISH_PROFILES, "flamegrid_ingester_segment_profiles_total", "Profiles in segments uploaded") \
    M(COUNTER, PUBLISH_LOST, "flamegrid_ingester_profiles_given_up_total", "Unreadable profiles abandoned by POST /ingester/salvage") \
    M(HISTOGRAM, PUBLISH_BUILD_SECONDS, "flamegrid_ingester_segment_build_duration_seconds", "Duration of building a segment") \
    M(HISTOGRAM, PUBLISH_UPLOAD_SECONDS, "flamegrid_ingester_segment_upload_duration_seconds", "Duration of uploading a segment")
/* clang-format on */
FG_METRICS_ENUM(publish_metric, PUBLISH_METRICS)
FG_METRICS_TABLE(publish_metrics, PUBLISH_METRICS)

struct ing_publish {
    struct ing_publish_config config;
    struct fg_metrics *metrics;
    struct fg_manifest *manifest; /* as it was read last; NULL: not yet */
    struct fg_l0 none;            /* in its place without a bucket */

    /* What was built last, in its arena. */
    struct fg_arena *arena;
    struct ing_build_summary summary;
    struct fg_late_filter groups;
    struct fg_segment_id id; /* under which it was uploaded last */
};

/* ---- life ---- */

/* Removes the files of a process that was killed while it built them. */
static enum fg_code remove_leftovers(const char *scratch, struct fg_err *err)
{
    DIR *folder = opendir(scratch);
    const struct dirent *entry;

    if (folder == NULL)
        return fg_fail_errno(err, errno, "%s", scratch);
    /* Errors of unlinkat() are harmless: names have a random part, so a file that stays only takes
     * room until the next start. */
    while ((entry = readdir(folder)) != NULL) /* NOLINT(concurrency-mt-unsafe): a stream of ours */
        if (fg_slice_starts(fg_cstr(entry->d_name), file_prefix))
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    (void)closedir(folder);
    return FG_OK;
}

enum fg_code ing_publish_create(const struct ing_publish_config *config,
                                struct ing_publish **ret_publish, struct fg_err *err)
{
    struct ing_publish *publish;

    if (config->bucket != NULL && remove_leftovers(config->scratch, err) != FG_OK)
        return err->code;
    publish = fg_new(struct ing_publish);
    publish->config = *config;
    publish->metrics =
        fg_metrics_register(config->registry, publish_metrics, FG_COUNT(publish_metrics));
    *ret_publish = publish;
    return FG_OK;
}

void ing_publish_destroy(struct ing_publish *publish)
{
    if (publish == NULL)
        return;
    fg_arena_destroy(publish->arena);
    fg_manifest_unref(publish->manifest);
    free(publish);
}

static int64_t deadline_in(const struct ing_publish *publish, int64_t timeout_ns)
{
    return fg_mono_ns(publish->config.clock) + timeout_ns;
}

/* Counts profiles that the last build left out, once it is certain that this was the end of them: a
 * salvage may be built many times before it is committed. */
static void count_lost(struct ing_publish *publish)
{
    if (publish->summary.n_lost == 0)
        return;
    fg_log_error("unreadable profiles abandoned", fg_lu("profiles", publish->summary.n_lost));
    fg_metric_add(publish->metrics, PUBLISH_LOST, publish->summary.n_lost);
    publish->summary.n_lost = 0;
}

/* ---- the manifest ---- */

/* FG_E_NOT_FOUND: there is none. */
static enum fg_code get_manifest(struct ing_publish *publish, struct fg_err *err)
{
    struct fg_slice known = publish->manifest == NULL ? FG_LIT("") : publish->manifest->etag;
    struct fg_manifest *found = NULL;
    struct fg_manifest_read read;
    enum fg_code code;

    if (fg_manifest_read_init(&read, FG_LIT(""), known, deadline_in(publish, MANIFEST_TIMEOUT_NS),
                              err) != FG_OK)
        return err->code;
    code = fg_bucket_call_until(publish->config.bucket, &read.request, publish->config.stop);
    if (code == FG_E_NOT_FOUND)
        *err = read.request.err;
    else
        code = fg_manifest_read_take(&read, &found, err);
    fg_manifest_read_done(&read);
    if (found != NULL) {
        const struct fg_l0_writer *writer = fg_l0_writer(&found->l0, publish->id.writer);

        fg_manifest_unref(publish->manifest);
        publish->manifest = found;
        if (writer != NULL && writer->cut >= publish->id.cut)
            count_lost(publish);
    }
    return code;
}

static enum fg_code put_manifest(struct ing_publish *publish, struct fg_slice bytes,
                                 struct fg_err *err)
{
    return fg_manifest_swap(publish->config.bucket, publish->config.stop, FG_LIT(""),
                            publish->manifest == NULL ? FG_LIT("") : publish->manifest->etag, bytes,
                            deadline_in(publish, MANIFEST_TIMEOUT_NS), err);
}

/* ---- the first manifest ---- */

static enum fg_code make_first(struct ing_publish *publish, uint64_t seen, struct fg_err *err)
{
    struct fg_l0 none = fg_l0_none();
    struct fg_buf bytes;
    enum fg_code code;

    /* An empty manifest in place of a lost one would hide every segment, and the garbage collection
     * would delete them later. */
    if (ing_first_use_check_l0(publish->config.bucket, publish->config.clock, seen,
                               publish->config.stop, err) != FG_OK)
        return err->code;
    none.revision = 1;
    /* Forget the etag, so the PUT asks for absence. */
    fg_manifest_unref(fg_take(publish->manifest));
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    code = fg_l0_encode(&none, &bytes, err);
    if (code == FG_OK)
        code = put_manifest(publish, fg_buf_slice(&bytes), err);
    fg_buf_done(&bytes);
    /* Other ingesters may be creating it, too. */
    return code == FG_E_PRECONDITION ? FG_OK : code;
}

enum fg_code ing_publish_read(struct ing_publish *publish, uint64_t seen,
                              const struct fg_l0 **ret_l0, struct fg_err *err)
{
    enum fg_code code;

    if (publish->config.bucket == NULL) {
        /* Of the generation that is known, since an older one would be another bucket's. */
        publish->none = fg_l0_none();
        publish->none.generation = seen;
        *ret_l0 = &publish->none;
        return FG_OK;
    }
    code = get_manifest(publish, err);
    if (code == FG_E_NOT_FOUND) {
        code = make_first(publish, seen, err);
        if (code == FG_OK)
            code = get_manifest(publish, err);
    }
    if (code == FG_OK)
        *ret_l0 = &publish->manifest->l0;
    return code;
}

/* ---- building and uploading ---- */

static enum fg_code build(struct ing_publish *publish, const struct ing_segments_chunk *chunks,
                          uint32_t n, bool salvage, const char *path,
                          struct ing_build_suspects *ret_suspects, struct fg_err *err)
{
    int64_t start_ns = fg_mono_ns(publish->config.clock);
    struct ing_head_chunk_key *keys;
    struct fg_late_filter_run *runs;

    /* The summary of the last build dies here; its segment is swapped in, or will be built again.
     */
    fg_arena_destroy(publish->arena);
    publish->arena = fg_arena_create(ARENA_MAX_BYTES);
    publish->summary = (struct ing_build_summary){0};
    keys = fg_arena_new(publish->arena, struct ing_head_chunk_key, n);
    runs = fg_arena_new(publish->arena, struct fg_late_filter_run, n);
    if (keys == NULL || runs == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many head chunks for a segment");
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = (struct ing_head_chunk_key){chunks[i].group, chunks[i].number};
        runs[i] = (struct fg_late_filter_run){chunks[i].group.window, chunks[i].group.shard,
                                              chunks[i].group.shard};
    }
    if (!fg_late_filter_make(runs, n, publish->arena, &publish->groups))
        return fg_fail(err, FG_E_LIMIT, "too many head chunks for a segment");
    if (ing_build_segment(&publish->config.head, keys, n, salvage, path, publish->arena,
                          &publish->summary, ret_suspects, err) != FG_OK)
        return err->code;
    fg_metric_observe_ns(publish->metrics, PUBLISH_BUILD_SECONDS,
                         fg_mono_ns(publish->config.clock) - start_ns);
    return FG_OK;
}

static enum fg_code put_file(struct ing_publish *publish, const struct fg_segment_id *id,
                             const char *path, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    int64_t start_ns = fg_mono_ns(publish->config.clock);
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT,
        .name = name,
        .path = path,
        /* Never over an object of this name, although its random part makes one unlikely. */
        .condition = FG_BUCKET_IF_ABSENT,
        .deadline_mono_ns = deadline_in(publish, UPLOAD_TIMEOUT_NS),
    };
    enum fg_code code;

    fg_name_segment(name, id);
    code = fg_bucket_call_until(publish->config.bucket, &put, publish->config.stop);
    if (code != FG_OK)
        *err = put.err;
    fg_bucket_clear(&put);
    if (code != FG_OK)
        return code;
    fg_metric_observe_ns(publish->metrics, PUBLISH_UPLOAD_SECONDS,
                         fg_mono_ns(publish->config.clock) - start_ns);
    fg_metric_add(publish->metrics, PUBLISH_BYTES, publish->summary.file.file_bytes);
    fg_metric_add(publish->metrics, PUBLISH_PROFILES, publish->summary.file.n_profiles);
    return FG_OK;
}

/* Returns true if the content of the chunks is at fault, and not a disk that is full or fails. */
static bool is_unfit(enum fg_code code)
{
    /* These come back with every attempt, and so count towards setting chunks aside. Errors of disk
     * and bucket pass, and the cut is repeated as it is. */
    return code == FG_E_CORRUPT || code == FG_E_INVALID || code == FG_E_LIMIT ||
           code == FG_E_TOO_LARGE;
}

static enum fg_code check_room(const struct ing_publish *publish,
                               const struct ing_segments_chunk *chunks, uint32_t n_chunks,
                               struct fg_err *err)
{
    const struct fg_disk *disk = publish->config.disk;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n_chunks; i++)
        bytes += chunks[i].bytes;
    /* Once in the scratch folder, and once more if the bucket is on the same disk. */
    return fg_disk_fits(disk, 2 * bytes, fg_disk_reserve(disk) / RESERVE_PART, "a segment", err);
}

enum fg_code ing_publish_upload(struct ing_publish *publish, const struct fg_segment_id *id,
                                const struct ing_segments_chunk *chunks, uint32_t n_chunks,
                                bool salvage, bool *ret_nothing,
                                struct ing_publish_fault *ret_fault, struct fg_err *err)
{
    char path[PATH_MAX_BYTES];
    enum fg_code code;

    *ret_fault = (struct ing_publish_fault){0};
    if (publish->config.bucket == NULL) {
        *ret_nothing = true;
        return FG_OK;
    }
    publish->id = *id;
    if ((size_t)snprintf(path, sizeof path, "%s/%s%016llx", publish->config.scratch, file_prefix,
                         (unsigned long long)id->nonce) >= sizeof path)
        return fg_fail(err, FG_E_INVALID, "%.200s: the path is too long", publish->config.scratch);
    code = check_room(publish, chunks, n_chunks, err);
    if (code == FG_OK) {
        code = build(publish, chunks, n_chunks, salvage, path, &ret_fault->suspects, err);
        ret_fault->unfit = is_unfit(code) && !ret_fault->suspects.keyless;
    }
    if (code == FG_OK && publish->summary.file.n_profiles > 0)
        code = put_file(publish, id, path, err);
    /* In any case: a failed build has removed it already, and after an upload the bucket has it. */
    (void)unlink(path);
    if (code == FG_OK)
        *ret_nothing = publish->summary.file.n_profiles == 0;
    /* No manifest will tell of it. */
    if (code == FG_OK && publish->summary.file.n_profiles == 0)
        count_lost(publish);
    return code;
}

/* ---- swapping ---- */

/* Encodes the manifest with the segment in it. */
static enum fg_code make_manifest(const struct ing_publish *publish, const struct fg_segment_id *id,
                                  uint64_t clean, struct fg_arena *arena, struct fg_buf *out,
                                  struct fg_err *err)
{
    const struct fg_block_summary *file = &publish->summary.file;
    int64_t wall_ns = fg_wall_ns(publish->config.clock);
    const struct fg_l0_new segment = {
        .id = *id,
        .bytes = file->file_bytes,
        .directory_offset = file->directory_offset,
        .directory_bytes = file->file_bytes - file->directory_offset,
        .profiles = file->n_profiles,
        .digest = file->digest,
        .t_min_ns = file->t_min_ns,
        .t_max_ns = file->t_max_ns,
        .parts = publish->summary.parts,
        .n_parts = publish->summary.n_parts,
        .groups = publish->groups,
        .clean = clean,
    };
    struct fg_l0 l0;

    if (fg_l0_commit(&publish->manifest->l0, &segment, wall_ns, ing_head_window(wall_ns, 0), arena,
                     &l0, err) != FG_OK)
        return err->code;
    return fg_l0_encode(&l0, out, err);
}

enum fg_code ing_publish_swap(struct ing_publish *publish, const struct fg_segment_id *id,
                              uint64_t clean, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES);
    struct fg_buf bytes;
    enum fg_code code;

    /* The core swaps only after a read. */
    fg_assert(publish->manifest != NULL);
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    code = make_manifest(publish, id, clean, arena, &bytes, err);
    if (code == FG_OK)
        code = put_manifest(publish, fg_buf_slice(&bytes), err);
    fg_buf_done(&bytes);
    return code;
}

enum fg_code ing_publish_report(struct ing_publish *publish, struct fg_id writer, uint64_t clean,
                                struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES);
    struct fg_buf bytes;
    enum fg_code code;
    struct fg_l0 l0;
    bool changed;

    fg_assert(publish->manifest != NULL);
    if (fg_l0_clean(&publish->manifest->l0, writer, clean, arena, &l0, &changed, err) != FG_OK)
        return err->code;
    /* Nothing to say is success: the core reads the manifest next, in any case. */
    if (!changed)
        return FG_OK;
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    code = fg_l0_encode(&l0, &bytes, err);
    if (code == FG_OK)
        code = put_manifest(publish, fg_buf_slice(&bytes), err);
    fg_buf_done(&bytes);
    return code;
}
