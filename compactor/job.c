#include "compactor/job.h"

#include "common/runtime/log.h"
#include "common/storage/block/file.h"
#include "common/storage/block/verify.h"
#include "compactor/fetch.h"
#include "compactor/merge/merge.h"
#include "compactor/metrics.h"
#include "compactor/parent_rollup.h"
#include "compactor/rollup_deletion.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ARENA_BYTES = 64 * 1024 * 1024, /* what it remembers of its sources, not their data */
    PATH_MAX_BYTES = 4096,          /* PATH_MAX of Linux */
    SPANS_MAX = 2048,               /* of one job: some years of days */
    BLOCKS_MAX = 16384,             /* the first second of 1970 to the last of 2262, by 28 days */
};

/* A job on its way. */
struct job_running {
    struct cmp_job *job;
    struct fg_arena *arena;
    struct cmp_fetched *sources; /* [n_sources] */
    struct cmp_merge_source *merge_sources;
    uint32_t n_sources;
    struct cmp_merge merge;
    int64_t wall_ns; /* spans are of this moment */
    bool months;     /* scattered over too many days */
    struct cmp_merge_survey survey;
    struct cmp_merge_tally out;
    struct fg_blocks_entry *entries; /* uploaded */
    uint32_t n_entries, cap_entries;
    struct cmp_job_result result;
};

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the compaction has too many objects");
}

/* ---- sources ---- */

static enum fg_code add_source(struct job_running *running, const struct cmp_fetch_place *place,
                               struct fg_err *err)
{
    struct cmp_fetched *fetched = &running->sources[running->n_sources];

    if (cmp_env_check(running->job->env, err) != FG_OK ||
        cmp_fetch(running->job->env, place, running->job->blocks->tenant, fetched, err) != FG_OK)
        return err->code;
    running->result.read_bytes += fetched->map_len;
    running->merge_sources[running->n_sources++] = fetched->source;
    return FG_OK;
}

static enum fg_code add_segment(struct job_running *running, uint64_t generation,
                                struct fg_err *err)
{
    const struct fg_l0_segment *segment = fg_l0_segment(running->job->l0, generation);
    char *name = fg_arena_alloc(running->arena, FG_NAME_MAX_BYTES);

    fg_assert(segment != NULL);
    if (name == NULL)
        return no_memory(err);
    fg_name_segment(name, &segment->id);
    return add_source(running,
                      &(struct cmp_fetch_place){name, segment->bytes, segment->directory_offset,
                                                segment->directory_bytes},
                      err);
}

static enum fg_code add_block(struct job_running *running, struct fg_id id, struct fg_err *err)
{
    const struct fg_blocks_entry *block = fg_blocks_find(running->job->blocks, id);
    char *name = fg_arena_alloc(running->arena, FG_NAME_MAX_BYTES);

    fg_assert(block != NULL);
    if (name == NULL)
        return no_memory(err);
    if (fg_name_block(name, running->job->blocks->tenant, id, err) != FG_OK)
        return err->code;
    return add_source(running,
                      &(struct cmp_fetch_place){name, block->bytes, block->directory_offset,
                                                block->directory_bytes},
                      err);
}

static enum fg_code add_sources(struct job_running *running, struct fg_err *err)
{
    const struct cmp_plan_job *plan = running->job->plan;
    uint32_t n = plan->n_segments + plan->n_blocks;

    running->sources = fg_arena_new(running->arena, struct cmp_fetched, n);
    running->merge_sources = fg_arena_new(running->arena, struct cmp_merge_source, n);
    if (running->sources == NULL || running->merge_sources == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < plan->n_segments; i++)
        if (add_segment(running, plan->segments[i], err) != FG_OK)
            return err->code;
    for (uint32_t i = 0; i < plan->n_blocks; i++)
        if (add_block(running, plan->blocks[i], err) != FG_OK)
            return err->code;
    fg_assert(running->n_sources == n);
    running->merge = (struct cmp_merge){.tenant = running->job->blocks->tenant,
                                        .sources = running->merge_sources,
                                        .n_sources = running->n_sources,
                                        .deletions = running->job->deletions,
                                        .memory_max_bytes = running->job->env->memory_max_bytes,
                                        .block_version = running->job->env->block_version,
                                        .keys = running->job->env->bucket->keys};
    return FG_OK;
}

/* ---- which blocks ---- */

static struct cmp_plan_span span_of(const struct job_running *running, int64_t time_ns)
{
    const struct cmp_plan_job *plan = running->job->plan;

    if (plan->kind == PLAN_MERGE)
        return (struct cmp_plan_span){plan->level, plan->start_ns, plan->end_ns};
    return running->months ? cmp_plan_month_of(time_ns)
                           : cmp_plan_span_of(running->job->config, running->wall_ns, time_ns);
}

static void survey_span_of(const void *arg, int64_t time_ns, int64_t *ret_start_ns,
                           int64_t *ret_end_ns)
{
    struct cmp_plan_span span = span_of(arg, time_ns);

    *ret_start_ns = span.start_ns;
    *ret_end_ns = span.end_ns;
}

static enum fg_code survey(struct job_running *running, struct fg_err *err)
{
    struct cmp_merge_survey_options options = {
        .span_of = survey_span_of,
        .arg = running,
        .bins_max = SPANS_MAX,
        .keep_from_ns =
            cmp_retention_keep_from_ns(&running->job->config->retention, running->wall_ns),
        /* What leaves a segment was never counted; what leaves a block was. */
        .used = running->job->plan->kind == PLAN_SEGMENTS};
    enum fg_code code =
        cmp_merge_survey(&running->merge, &options, running->arena, &running->survey, err);

    if (code != FG_E_TOO_LARGE)
        return code;
    /* Profiles scattered over years (clocks that are wrong, or a hostile client) would need more
     * blocks than a job may write: then a block has 28 days. */
    running->months = true;
    options.bins_max = BLOCKS_MAX;
    return cmp_merge_survey(&running->merge, &options, running->arena, &running->survey, err);
}

/* ---- a block ---- */

/* Verifies a block that was written: its file, mapped. */
static enum fg_code read_back(struct job_running *running, const char *path, uint64_t bytes,
                              struct cmp_merge_tally *ret_tally, struct fg_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum fg_code code;
    void *map;

    if (fd < 0)
        return fg_fail_errno(err, errno, "%s", path);
    map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return fg_fail_errno(err, errno, "%s", path);
    code = cmp_merge_read_back(fg_bytes(map, (size_t)bytes), running->job->env->bucket->keys, path,
                               running->merge.memory_max_bytes, ret_tally, err);
    (void)munmap(map, (size_t)bytes);
    return code;
}

static enum fg_code write_file(struct job_running *running, const char *path,
                               const struct cmp_merge_span *span, uint32_t level,
                               struct cmp_merge_written *ret_written, struct fg_err *err)
{
    fg_auto(fg_block_file) *file = NULL;
    struct fg_block_sink sink;

    if (fg_block_file_create(path, &file, err) != FG_OK)
        return err->code;
    sink = fg_block_file_sink(file);
    if (cmp_merge_write(&running->merge, span, level, &sink, ret_written, err) != FG_OK)
        return err->code;
    return fg_block_file_finish(file, err);
}

static void block_path(const struct job_running *running, char path[PATH_MAX_BYTES])
{
    (void)snprintf(path, PATH_MAX_BYTES, "%s/block-%016llx", running->job->env->scratch,
                   (unsigned long long)cmp_env_random(running->job->env));
}

static enum fg_code upload(struct job_running *running, const char *path, const char *name,
                           struct fg_err *err)
{
    struct cmp_env *env = running->job->env;
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT,
                                        .name = name,
                                        .path = path,
                                        .condition = FG_BUCKET_IF_ABSENT,
                                        .deadline_mono_ns =
                                            cmp_env_deadline(env, ENV_UPLOAD_TIMEOUT_NS)};
    enum fg_code code = cmp_env_call(env, &request);

    /* Whether or not it arrived: the next attempt uses another name. */
    if (code == FG_E_PRECONDITION)
        code = fg_fail(err, FG_E_INTERNAL, "%s already exists", name);
    else if (code != FG_OK)
        *err = request.err;
    fg_bucket_clear(&request);
    return code;
}

static enum fg_code add_entry(struct job_running *running, struct fg_id id,
                              const struct cmp_plan_span *span, struct cmp_plan_range shards,
                              const struct fg_block_summary *summary, struct fg_err *err)
{
    fg_assert(summary->rollup_offset <= summary->directory_offset &&
              summary->directory_offset <= summary->file_bytes);
    if (!fg_arena_grow(running->arena, &running->entries, running->n_entries, 1,
                       &running->cap_entries, sizeof *running->entries))
        return no_memory(err);
    running->entries[running->n_entries++] =
        (struct fg_blocks_entry){.id = id,
                                 .level = (uint8_t)span->level,
                                 .patch = running->job->plan->kind == PLAN_SEGMENTS &&
                                          cmp_plan_span_has_block(running->job->blocks, span),
                                 .start_ns = span->start_ns,
                                 .end_ns = span->end_ns,
                                 .t_min_ns = summary->t_min_ns,
                                 .t_max_ns = summary->t_max_ns,
                                 .shard_first = shards.first,
                                 .shard_last = shards.last,
                                 .bytes = summary->file_bytes,
                                 .directory_offset = summary->directory_offset,
                                 .directory_bytes = summary->file_bytes - summary->directory_offset,
                                 .rollup_offset = summary->rollup_offset,
                                 .rollup_bytes = summary->directory_offset - summary->rollup_offset,
                                 .profiles = summary->n_profiles,
                                 .digest = summary->digest,
                                 .usage = summary->usage};
    running->result.written_bytes += summary->file_bytes;
    return FG_OK;
}

static enum fg_code finish_block(struct job_running *running, const char *path,
                                 const struct cmp_plan_span *span, struct cmp_plan_range shards,
                                 const struct fg_block_summary *summary, struct fg_err *err)
{
    struct fg_id id =
        cmp_plan_block_id(fg_wall_ns(running->job->env->clock), cmp_env_random(running->job->env));
    char name[FG_NAME_MAX_BYTES];
    struct cmp_merge_tally tally;

    if (summary->n_profiles == 0)
        return FG_OK;
    /* Before the upload: what this machine has written wrongly must not take the place of the
     * sources. */
    if (read_back(running, path, summary->file_bytes, &tally, err) != FG_OK ||
        fg_name_block(name, running->job->blocks->tenant, id, err) != FG_OK ||
        upload(running, path, name, err) != FG_OK)
        return err->code;
    cmp_merge_tally_add(&running->out, &tally);
    running->result.written += summary->n_profiles;
    return add_entry(running, id, span, shards, summary, err);
}

/* Writes, verifies and uploads one block. *ret_too_large, after a failure: there was not enough
 * memory to write it. */
static enum fg_code make_block(struct job_running *running, const struct cmp_merge_bin *bin,
                               struct cmp_plan_range shards, bool *ret_too_large,
                               struct fg_err *err)
{
    struct cmp_plan_span span = span_of(running, bin->start_ns);
    const struct cmp_merge_span what = {
        .start_ns = bin->start_ns,
        .end_ns = bin->end_ns,
        .shard_first = shards.first,
        .shard_last = shards.last,
        .early_ns = bin->t_min_ns < bin->start_ns ? bin->start_ns - bin->t_min_ns : 0};
    struct cmp_merge_written written = {.left_out = 0};
    char path[PATH_MAX_BYTES];
    enum fg_code code;

    if (cmp_env_check(running->job->env, err) != FG_OK)
        return err->code;
    block_path(running, path);
    if (write_file(running, path, &what, (uint32_t)span.level, &written, err) != FG_OK) {
        *ret_too_large = err->code == FG_E_LIMIT;
        return err->code;
    }
    running->result.without_rollup += written.left_out;
    /* The range of shards for the manifest: no wider than the shards there are. */
    shards.first = FG_MAX(shards.first, bin->shard_min);
    shards.last = FG_MIN(shards.last, bin->shard_max);
    code = finish_block(running, path, &span, shards, &written.summary, err);
    (void)unlink(path);
    return code;
}

/* ---- what begins in the hour before ---- */

/* A profile belongs to the hour in which it begins, but arrives with the segments of the hour in
 * which it ends; so do profiles that were sent a little late. When these are merged, the previous
 * hour has its block already. The few profiles would be a patch of it, hour after hour, which every
 * query reads and parent rollups wait for. So they go into the block of the hour with which they
 * came, if both hours are of one day. Profiles of the previous day become a patch, until that day
 * is merged an hour later: a daily block has only its own profiles. */
static bool joins_next(const struct job_running *running, const struct cmp_merge_bin *early,
                       const struct cmp_merge_bin *next)
{
    uint64_t late = early->profiles - early->spilling;

    return span_of(running, early->start_ns).level == PLAN_HOUR &&
           span_of(running, next->start_ns).level == PLAN_HOUR && early->end_ns == next->start_ns &&
           next->start_ns % PLAN_DAY_NS != 0 && late <= next->profiles / PLAN_LATE_SHARE;
}

/* Moves bins into the next ones where joins_next() says so. A bin that was moved has no profiles
 * left. */
static void join_bins(struct job_running *running)
{
    struct cmp_merge_bin *bins = running->survey.bins;

    for (uint32_t i = running->survey.n_bins; i-- > 1;) {
        struct cmp_merge_bin *early = &bins[i - 1], *next = &bins[i];

        if (!joins_next(running, early, next))
            continue;
        next->profiles += early->profiles;
        next->t_min_ns = early->t_min_ns;
        next->shard_min = FG_MIN(next->shard_min, early->shard_min);
        next->shard_max = FG_MAX(next->shard_max, early->shard_max);
        early->profiles = 0;
        i--; /* its own segments were merged an hour ago */
    }
}

/* ---- all blocks ---- */

/* Halves by shards what does not fit into memory. So an hour of a large service becomes several
 * blocks of that hour, like its day, and not many blocks of minutes. Merges of blocks are left to
 * the plan, which would put the halves together again. */
static enum fg_code make_range(struct job_running *running, const struct cmp_merge_bin *bin,
                               struct cmp_plan_range shards, struct fg_err *err)
{
    struct cmp_plan_range halves[2];
    bool too_large = false;

    if (make_block(running, bin, shards, &too_large, err) == FG_OK)
        return FG_OK;
    if (!too_large || running->job->plan->kind != PLAN_SEGMENTS || !cmp_plan_halve(shards, halves))
        return err->code;
    for (uint32_t h = 0; h < 2; h++)
        if (make_range(running, bin, halves[h], err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code make_bin(struct job_running *running, const struct cmp_merge_bin *bin,
                             struct fg_err *err)
{
    const struct cmp_plan_job *plan = running->job->plan;
    const struct cmp_plan_range shards = {bin->shard_min, bin->shard_max};
    struct cmp_plan_range divided[PLAN_SHARES_MAX];
    const struct cmp_plan_range *ranges = plan->ranges;
    uint32_t n = plan->n_ranges;

    if (plan->kind == PLAN_SEGMENTS) {
        /* An estimate: the share that the bin has of the profiles of all sources. */
        uint64_t bytes = (uint64_t)((double)running->result.read_bytes * (double)bin->profiles /
                                    (double)running->survey.n_profiles);

        n = cmp_plan_divide(running->job->config, span_of(running, bin->start_ns).level, bytes,
                            shards, divided);
        ranges = divided;
    }
    for (uint32_t i = 0; i < n; i++)
        if (make_range(running, bin, ranges[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code make_blocks(struct job_running *running, struct fg_err *err)
{
    const struct cmp_merge_survey *seen = &running->survey;
    uint64_t seen_profiles = seen->kept.profiles + seen->deleted + seen->expired;

    if (running->job->plan->kind == PLAN_SEGMENTS)
        join_bins(running);
    for (uint32_t i = 0; i < seen->n_bins; i++)
        if (seen->bins[i].profiles > 0 && make_bin(running, &seen->bins[i], err) != FG_OK)
            return err->code;
    running->result.profiles = seen->n_profiles;
    running->result.deleted = seen->deleted;
    running->result.expired = seen->expired;
    running->result.n_blocks = running->n_entries;
    /* Nothing refers to the blocks yet: if a profile is missing, they are garbage and the
     * sources stay. */
    if (seen_profiles != seen->n_profiles)
        return fg_fail(err, FG_E_INTERNAL, "%llu profiles in the sources, %llu in their rows",
                       (unsigned long long)seen->n_profiles, (unsigned long long)seen_profiles);
    return cmp_merge_tally_check(&seen->kept, &running->out, err);
}

/* ---- rollups of other blocks ---- */

static enum fg_code write_rollup_deletion_file(struct job_running *running, const char *path,
                                               struct cmp_merge_written *ret_written,
                                               struct fg_err *err)
{
    const struct cmp_job *job = running->job;
    const struct cmp_rollup_deletion deletion = {
        .env = job->env,
        .tenant = job->blocks->tenant,
        .block = fg_blocks_find(job->blocks, job->plan->blocks[0]),
        .deletions = &running->job->deletions};
    fg_auto(fg_block_file) *file = NULL;
    struct fg_block_sink sink;

    fg_assert(deletion.block != NULL); /* the plan is made from this manifest */
    if (fg_block_file_create(path, &file, err) != FG_OK)
        return err->code;
    sink = fg_block_file_sink(file);
    if (cmp_rollup_deletion_write(&deletion, &sink, &ret_written->summary, err) != FG_OK)
        return err->code;
    running->result.read_bytes = deletion.block->bytes;
    running->result.deleted = deletion.block->profiles - ret_written->summary.n_profiles;
    return fg_block_file_finish(file, err);
}

static enum fg_code write_rollup_file(struct job_running *running, const char *path,
                                      struct cmp_merge_written *ret_written, struct fg_err *err)
{
    const struct cmp_plan_job *plan = running->job->plan;
    const struct fg_blocks_entry **blocks =
        fg_arena_new(running->arena, const struct fg_blocks_entry *, plan->n_blocks);
    fg_auto(fg_block_file) *file = NULL;
    struct fg_block_sink sink;
    struct cmp_parent_rollup parent = {
        .env = running->job->env,
        .tenant = running->job->blocks->tenant,
        .blocks = blocks,
        .n_blocks = plan->n_blocks,
        .level = (uint32_t)plan->level,
        .start_ns = plan->start_ns,
        .end_ns = plan->end_ns,
        .rollup_only = plan->kind == PLAN_ROLLUP_ONLY,
        .of_one = plan->level == PLAN_DAY,
        .parts_ns = plan->kind == PLAN_ROLLUP_ONLY && plan->level == PLAN_WEEK ? PLAN_DAY_NS : 0};

    if (blocks == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < plan->n_blocks; i++) {
        blocks[i] = fg_blocks_find(running->job->blocks, plan->blocks[i]);
        fg_assert(blocks[i] != NULL);
    }
    if (fg_block_file_create(path, &file, err) != FG_OK)
        return err->code;
    sink = fg_block_file_sink(file);
    if (cmp_parent_rollup_write(&parent, &sink, ret_written, &running->result.read_bytes, err) !=
        FG_OK)
        return err->code;
    return fg_block_file_finish(file, err);
}

/* A parent rollup without any sums enters the manifest, too, so that it is not built again and
 * again; but an object of which a deletion left nothing does not. */
static enum fg_code finish_rollup(struct job_running *running, const char *path,
                                  const struct fg_block_summary *summary, struct fg_err *err)
{
    const struct cmp_plan_job *plan = running->job->plan;
    const struct cmp_plan_span span = {plan->level, plan->start_ns, plan->end_ns};
    struct fg_id id =
        cmp_plan_block_id(fg_wall_ns(running->job->env->clock), cmp_env_random(running->job->env));
    char name[FG_NAME_MAX_BYTES];
    struct fg_blocks_entry *entry;
    struct cmp_merge_tally none;

    if (read_back(running, path, summary->file_bytes, &none, err) != FG_OK ||
        fg_name_block(name, running->job->blocks->tenant, id, err) != FG_OK ||
        upload(running, path, name, err) != FG_OK ||
        add_entry(running, id, &span, (struct cmp_plan_range){0, UINT16_MAX}, summary, err) !=
            FG_OK)
        return err->code;
    fg_assert(running->n_entries == 1);
    entry = &running->entries[running->n_entries - 1];
    entry->derived = true;
    entry->rollup_only = plan->kind != PLAN_ROLLUP;
    entry->from_blocks = plan->blocks;
    entry->n_from_blocks = plan->n_blocks;
    running->result.n_blocks = 1;
    return FG_OK;
}

static enum fg_code make_rollup(struct job_running *running, struct fg_err *err)
{
    struct cmp_merge_written written = {.left_out = 0};
    char path[PATH_MAX_BYTES];
    enum fg_code code;

    running->merge.memory_max_bytes = running->job->env->memory_max_bytes;
    block_path(running, path);
    code = (running->job->plan->kind == PLAN_ROLLUP_DELETION
                ? write_rollup_deletion_file
                : write_rollup_file)(running, path, &written, err);
    if (code == FG_OK &&
        (written.summary.n_profiles > 0 || running->job->plan->kind != PLAN_ROLLUP_DELETION)) {
        running->result.profiles = written.summary.n_profiles;
        running->result.without_rollup = written.left_out;
        if (running->job->plan->kind == PLAN_ROLLUP_ONLY)
            running->result.expired = written.summary.n_profiles;
        code = finish_rollup(running, path, &written.summary, err);
    }
    (void)unlink(path);
    return code;
}

/* ---- the swap ---- */

/* Deletes blocks that no manifest lists or will list. */
static void discard_blocks(struct job_running *running)
{
    for (uint32_t i = 0; i < running->n_entries; i++) {
        struct fg_bucket_request request = {
            .verb = FG_BUCKET_DELETE,
            .deadline_mono_ns = cmp_env_deadline(running->job->env, ENV_REQUEST_TIMEOUT_NS)};
        char name[FG_NAME_MAX_BYTES];
        struct fg_err err;

        if (fg_name_block(name, running->job->blocks->tenant, running->entries[i].id, &err) !=
            FG_OK)
            return;
        request.name = name;
        (void)cmp_env_call(running->job->env, &request); /* else garbage collection deletes it */
        fg_bucket_clear(&request);
    }
}

static enum fg_code find_taken(const struct job_running *running, struct fg_blocks_change *change,
                               struct fg_err *err)
{
    const struct fg_deletions *deletions = &running->job->deletions;
    struct fg_blocks_taken *taken =
        fg_arena_new(running->arena, struct fg_blocks_taken, deletions->count);

    if (taken == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < deletions->count; i++)
        if (deletions->items[i].profiles > 0)
            taken[change->n_taken++] = (struct fg_blocks_taken){
                running->job->blocks->tombstones[i].id, deletions->items[i].profiles};
    change->taken = taken;
    return FG_OK;
}

static enum fg_code swap_manifest(struct job_running *running, struct fg_err *err)
{
    const struct cmp_plan_job *plan = running->job->plan;
    struct cmp_edit_task task = {
        .kind = EDIT_APPLY,
        .change = {.add = running->entries,
                   .n_add = running->n_entries,
                   .cover = plan->segments,
                   .n_cover = plan->n_segments,
                   .replace = plan->blocks,
                   .n_replace = plan->kind == PLAN_ROLLUP ? 0 : plan->n_blocks,
                   .used = running->survey.used.open,
                   .n_used = running->survey.used.n_open}};

    /* Dropped blocks are not read, and rollups remove nothing. */
    if (plan->kind != PLAN_DROP && plan->kind != PLAN_ROLLUP &&
        find_taken(running, &task.change, err) != FG_OK)
        return err->code;
    return cmp_edit_carry_out(running->job->env, running->job->blocks->tenant, &task, err);
}

static bool makes_rollup(const struct job_running *running)
{
    enum cmp_plan_kind kind = running->job->plan->kind;

    return kind == PLAN_ROLLUP || kind == PLAN_ROLLUP_ONLY || kind == PLAN_ROLLUP_DELETION;
}

static enum fg_code carry_out(struct job_running *running, struct fg_err *err)
{
    const struct fg_disk *disk = running->job->env->disk;
    const struct cmp_plan_job *plan = running->job->plan;
    uint64_t bytes = plan->bytes;
    enum fg_code code;

    if (plan->kind == PLAN_DROP) {
        for (uint32_t i = 0; i < plan->n_blocks; i++) {
            const struct fg_blocks_entry *block =
                fg_blocks_find(running->job->blocks, plan->blocks[i]);

            fg_assert(block != NULL);
            running->result.profiles += block->profiles;
            /* Profiles of rollup-only objects were dropped before. */
            running->result.expired += block->rollup_only ? 0 : block->profiles;
        }
        return swap_manifest(running, err);
    }
    /* Sources and blocks are in the scratch folder, and the blocks may be a third time in a bucket
     * on the same disk. For parent rollups, a quarter of the sources is fetched, or all of small
     * ones, and little is written. */
    if (fg_disk_fits(disk,
                     makes_rollup(running)
                         ? FG_MAX(bytes / 4, FG_MIN(bytes, PARENT_ROLLUP_READ_MAX_BYTES))
                         : 3 * bytes,
                     fg_disk_reserve(disk), "a merge", err) != FG_OK)
        return err->code;
    if (makes_rollup(running)) {
        code = make_rollup(running, err);
    } else {
        if (add_sources(running, err) != FG_OK || survey(running, err) != FG_OK)
            return err->code;
        code = make_blocks(running, err);
    }
    if (code != FG_OK) {
        discard_blocks(running); /* not swapped in yet */
        return code;
    }
    code = swap_manifest(running, err);
    /* After a lost answer or a deadline the swap may have been won, so the blocks must stay. */
    if (code == FG_E_ABORTED)
        discard_blocks(running);
    return code;
}

static void count_result(const struct job_running *running, enum fg_code code)
{
    struct fg_metrics *metrics = running->job->env->metrics;
    const struct cmp_job_result *result = &running->result;

    fg_metric_add(metrics, COMPACTOR_READ_BYTES, result->read_bytes);
    fg_metric_add(metrics, COMPACTOR_WRITTEN_BYTES, result->written_bytes);
    fg_metric_add(metrics, COMPACTOR_BLOCKS_WRITTEN, running->n_entries);
    if (code != FG_OK) {
        fg_metric_add(metrics, code == FG_E_ABORTED ? COMPACTOR_LOST : COMPACTOR_FAILURES, 1);
        return;
    }
    fg_metric_add(metrics, COMPACTOR_JOBS, 1);
    fg_metric_add(metrics, COMPACTOR_PROFILES, result->written);
    fg_metric_add(metrics, COMPACTOR_DELETED, result->deleted);
    fg_metric_add(metrics, COMPACTOR_EXPIRED, result->expired);
    fg_metric_add(metrics, COMPACTOR_WITHOUT_ROLLUP, result->without_rollup);
}

enum fg_code cmp_job_run(struct cmp_job *job, struct cmp_job_result *ret_result, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct job_running running = {
        .job = job, .arena = arena, .wall_ns = fg_wall_ns(job->env->clock)};
    int64_t begun_ns = fg_mono_ns(job->env->clock);
    enum fg_code code = carry_out(&running, err);

    for (uint32_t i = 0; i < running.n_sources; i++)
        cmp_fetched_done(&running.sources[i]);
    count_result(&running, code);
    fg_metric_observe_ns(job->env->metrics, COMPACTOR_SECONDS,
                         fg_mono_ns(job->env->clock) - begun_ns);
    if (code != FG_OK)
        return fg_wrap(err, "%s", job->plan->why);
    *ret_result = running.result;
    return FG_OK;
}

/* ---- what was wrong ---- */

/* Reads the whole object, to see whether it is there, valid, and as the manifest says. */
static enum fg_code probe(const struct cmp_job *job, const struct cmp_fetch_place *place,
                          struct fg_err *err)
{
    struct fg_block_verified verified;
    struct cmp_fetched fetched;
    uint64_t offset = 0;
    enum fg_code code = cmp_fetch_mapped(job->env, place->name,
                                         (struct fg_block_range){0, place->bytes}, &fetched, err);

    if (code == FG_E_INVALID) /* the range begins beyond its end */
        return fg_fail(err, FG_E_CORRUPT, "%s: it is empty", place->name);
    if (code != FG_OK)
        return code;
    code = fg_block_verify(fetched.source.bytes, job->env->bucket->keys, job->env->memory_max_bytes,
                           &verified, err);
    if (code == FG_OK)
        code = fg_block_directory_offset(fetched.source.bytes, place->bytes, &offset, err);
    if (code == FG_OK && offset != place->directory_offset)
        code = fg_fail(err, FG_E_CORRUPT, "its directory is not at the place in the manifest");
    cmp_fetched_done(&fetched);
    return code;
}

/* Examines one object. Returns true if the search ends. */
static bool is_culprit(const struct cmp_job *job, const struct cmp_fetch_place *place,
                       struct cmp_job_culprit *culprit)
{
    enum fg_code code = probe(job, place, &culprit->why);

    culprit->found = fg_damage_unusable(code);
    return culprit->found || cmp_env_stopping(job->env);
}

void cmp_job_find_culprit(const struct cmp_job *job, struct cmp_job_culprit *ret_culprit)
{
    const struct cmp_plan_job *plan = job->plan;
    struct fg_err err;

    *ret_culprit = (struct cmp_job_culprit){.found = false};
    for (uint32_t i = 0; i < plan->n_segments; i++) {
        const struct fg_l0_segment *segment = fg_l0_segment(job->l0, plan->segments[i]);

        fg_assert(segment != NULL);
        fg_name_segment(ret_culprit->name, &segment->id);
        ret_culprit->generation = segment->generation;
        if (is_culprit(job,
                       &(struct cmp_fetch_place){ret_culprit->name, segment->bytes,
                                                 segment->directory_offset,
                                                 segment->directory_bytes},
                       ret_culprit))
            return;
    }
    ret_culprit->generation = 0;
    for (uint32_t i = 0; i < plan->n_blocks; i++) {
        const struct fg_blocks_entry *block = fg_blocks_find(job->blocks, plan->blocks[i]);

        fg_assert(block != NULL);
        if (fg_name_block(ret_culprit->name, job->blocks->tenant, block->id, &err) != FG_OK)
            return;
        ret_culprit->block = block->id;
        if (is_culprit(job,
                       &(struct cmp_fetch_place){ret_culprit->name, block->bytes,
                                                 block->directory_offset, block->directory_bytes},
                       ret_culprit))
            return;
    }
}
