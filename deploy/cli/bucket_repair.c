#include "deploy/cli/bucket_repair.h"

#include "common/base/str.h"
#include "common/storage/block/verify.h"
#include "common/storage/rollup/verify.h"
#include "compactor/plan_core.h"
#include "deploy/cli/bucket_mend.h"
#include "deploy/cli/bucket_rewrite.h"

#include <errno.h>
#include <sys/random.h>

enum {
    ARENA_BYTES = 512 * 1024 * 1024,
    SPANS_MAX = 16384, /* blocks that are written; a job of the compactor writes no more */
};

static const size_t PARSED_MAX_BYTES = (size_t)4 << 30; /* of one object */
static const size_t BLOCK_MAX_BYTES = (size_t)4 << 30;  /* of a block that is written */

/* compactor.day_delay, by default. With another one the compactor merges what differs. */
static const struct cmp_plan_config spans = {.day_delay_ns = 2 * FG_HOUR_NS};

/* Which data of a part is intact, and why the rest is not. */
struct repair_part {
    enum { PART_INTACT, PART_DERIVED_DAMAGED, PART_LOST } state;
    char why[FG_BLOCKS_WHY_MAX_BYTES];
};

struct repairing {
    struct cli_mending mending;
    bool apply;
    FILE *out;
    struct fg_arena *arena;
    struct fg_buf bytes; /* of the object; none: it is missing */
    struct fg_block_directory directory;
    struct repair_part *parts; /* [directory.n_parts] */
};

/* Blocks that take the place of a reference. */
struct made {
    struct repairing *repairing;
    const struct cli_mend_reference *reference;
    struct fg_blocks blocks; /* of the reference */
    struct fg_blocks_entry *entries;
    uint32_t n, cap;
};

static struct fg_slice file_of(const struct repairing *repairing)
{
    return fg_buf_slice(&repairing->bytes);
}

/* True if the object has only rollups of live blocks: the compactor builds it again. */
static bool is_remade(const struct cli_mend_reference *reference)
{
    return reference->block != NULL && fg_blocks_sums_others(reference->block);
}

static bool is_rollup_only(const struct cli_mend_reference *reference)
{
    return reference->block != NULL && reference->block->rollup_only;
}

/* ---- what is damaged ---- */

static enum fg_code parse_directory(struct repairing *repairing, struct fg_err *err)
{
    const struct cli_mend_reference *reference = &repairing->mending.references[0];
    const struct fg_blocks_entry *block = reference->block;
    struct fg_slice file = file_of(repairing);
    uint64_t offset = 0;

    if (file.len == 0)
        return fg_fail(err, FG_E_CORRUPT, "the object is missing or empty");
    if (fg_block_directory_offset(file, file.len, &offset, err) != FG_OK ||
        fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len,
                                 repairing->mending.survey.bucket->keys, repairing->arena,
                                 &repairing->directory, err) != FG_OK)
        return err->code;
    /* An intact directory may belong to another object, copied to this name. Its parts must not be
     * used. */
    if (block != NULL && (repairing->directory.n_profiles != block->profiles ||
                          repairing->directory.derived != block->derived ||
                          !fg_id_eq(repairing->directory.digest, block->digest)))
        return fg_fail(err, FG_E_CORRUPT, "its directory is not that of the manifest's block");
    if (block == NULL && (repairing->directory.n_profiles != reference->segment->profiles ||
                          !fg_id_eq(repairing->directory.digest, reference->segment->digest)))
        return fg_fail(err, FG_E_CORRUPT, "its directory is not that of the manifest's segment");
    return FG_OK;
}

/* Makes the checks of `bucket verify`, but does not compare parent rollups with their blocks:
 * checksums find damaged bytes before that. */
static enum fg_code verify_part(const struct repairing *repairing, const struct fg_block_part *part,
                                bool rollup_only, struct fg_err *err)
{
    struct fg_slice file = file_of(repairing);

    if (fg_block_verify_part(file, part, FG_BLOCK_VERIFY_ALL, PARSED_MAX_BYTES, err) != FG_OK ||
        fg_rollup_verify(part, file, PARSED_MAX_BYTES, err) != FG_OK)
        return err->code;
    return rollup_only ? fg_rollup_verify_spans(part, file, PARSED_MAX_BYTES, err) : FG_OK;
}

/* Makes all checks; if they fail, checks the profiles alone: derived data can be computed again
 * from intact profiles. */
static enum fg_code examine_part(const struct repairing *repairing,
                                 const struct fg_block_part *part, bool rollup_only,
                                 struct repair_part *ret_part, struct fg_err *err)
{
    ret_part->state = PART_INTACT;
    if (verify_part(repairing, part, rollup_only, err) == FG_OK)
        return FG_OK;
    if (err->code != FG_E_CORRUPT)
        return err->code;
    (void)snprintf(ret_part->why, sizeof ret_part->why, "%s", err->msg);
    ret_part->state = PART_DERIVED_DAMAGED;
    if (!rollup_only && fg_block_verify_part(file_of(repairing), part, FG_BLOCK_VERIFY_PROFILES,
                                             PARSED_MAX_BYTES, err) == FG_OK)
        return FG_OK;
    if (err->code != FG_E_CORRUPT)
        return err->code;
    (void)snprintf(ret_part->why, sizeof ret_part->why, "%s", err->msg);
    ret_part->state = PART_LOST;
    return FG_OK;
}

static enum fg_code examine_parts(struct repairing *repairing, struct fg_err *err)
{
    const struct fg_block_directory *directory = &repairing->directory;
    bool rollup_only = is_rollup_only(&repairing->mending.references[0]);

    repairing->parts = fg_arena_new(repairing->arena, struct repair_part, directory->n_parts);
    if (repairing->parts == NULL)
        return fg_fail(err, FG_E_LIMIT, "%s: %u parts", repairing->mending.object,
                       directory->n_parts);
    for (uint32_t i = 0; i < directory->n_parts; i++)
        if (examine_part(repairing, &directory->parts[i], rollup_only, &repairing->parts[i], err) !=
            FG_OK)
            return fg_wrap(err, "%s", repairing->mending.object);
    return FG_OK;
}

/* Returns true if every byte of the object is right. */
static bool is_right(const struct repairing *repairing)
{
    struct fg_block_verified verified;
    struct fg_err fault;

    for (uint32_t i = 0; i < repairing->directory.n_parts; i++)
        if (repairing->parts[i].state != PART_INTACT)
            return false;
    /* Header and directory are outside of the parts. */
    return fg_block_verify(file_of(repairing), repairing->mending.survey.bucket->keys,
                           PARSED_MAX_BYTES, &verified, &fault) == FG_OK;
}

/* The tenant's parts are [*ret_first, *ret_end). */
static void find_parts(const struct repairing *repairing, struct fg_slice tenant,
                       uint32_t *ret_first, uint32_t *ret_end)
{
    const struct fg_block_directory *directory = &repairing->directory;
    uint32_t end = fg_block_part_find(directory, tenant, FG_LIT(""));

    *ret_first = end;
    while (end < directory->n_parts && fg_slice_eq(directory->parts[end].tenant, tenant))
        end++;
    *ret_end = end;
}

/* Prints what is left of the tenant's parts. Returns how many are not lost. */
static uint32_t print_parts(const struct repairing *repairing,
                            const struct cli_mend_reference *reference)
{
    uint32_t first, end, n_left = 0;

    find_parts(repairing, reference->tenant, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const struct fg_block_part *part = &repairing->directory.parts[i];
        const struct repair_part *found = &repairing->parts[i];

        (void)fprintf(repairing->out,
                      "tenant %.*s, service %.*s: %s, %u profiles, times %lld to %lld ns%s%s\n",
                      FG_S(part->tenant), FG_S(part->service),
                      found->state == PART_LOST ? "lost" : "intact", part->n_profiles,
                      (long long)part->t_min_ns, (long long)part->t_max_ns,
                      found->state == PART_INTACT ? ""
                      : found->state == PART_LOST ? "; "
                                                  : "; made again from them: ",
                      found->why);
        n_left += found->state != PART_LOST;
    }
    return n_left;
}

/* ---- a block ---- */

static enum fg_code put_block(const struct made *made, const struct fg_buf *file,
                              struct fg_id *ret_id, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT,
                                    .name = name,
                                    .content = fg_buf_slice(file),
                                    .condition = FG_BUCKET_IF_ABSENT,
                                    .deadline_mono_ns = cli_survey_deadline()};
    uint64_t random;
    enum fg_code code;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return fg_fail_errno(err, errno, "random numbers");
    *ret_id = cmp_plan_block_id(fg_wall_ns(fg_clock_real()), random);
    if (fg_name_block(name, made->reference->tenant, *ret_id, err) != FG_OK)
        return err->code;
    if (!made->repairing->apply)
        return FG_OK;
    code = fg_bucket_call(made->repairing->mending.survey.bucket, &put);
    if (code != FG_OK)
        *err = put.err;
    else
        (void)fprintf(made->repairing->out, "wrote %s, %zu bytes\n", name, file->len);
    fg_bucket_clear(&put);
    return code;
}

/* Uploads a block. like: its place in time and among shards. */
static enum fg_code add_block(struct made *made, const struct fg_buf *file,
                              const struct fg_block_summary *summary,
                              const struct fg_blocks_entry *like, struct fg_err *err)
{
    struct fg_blocks_entry entry = {
        .level = like->level,
        .patch = like->patch,
        .derived = like->derived,
        .rollup_only = like->rollup_only,
        .start_ns = like->start_ns,
        .end_ns = like->end_ns,
        .t_min_ns = summary->t_min_ns,
        .t_max_ns = summary->t_max_ns,
        .shard_first = like->shard_first,
        .shard_last = like->shard_last,
        .bytes = summary->file_bytes,
        .directory_offset = summary->directory_offset,
        .directory_bytes = summary->file_bytes - summary->directory_offset,
        .rollup_offset = summary->rollup_offset,
        .rollup_bytes = summary->directory_offset - summary->rollup_offset,
        .profiles = summary->n_profiles,
        .digest = summary->digest,
        .usage = summary->usage};

    if (!fg_arena_grow(made->repairing->arena, &made->entries, made->n, 1, &made->cap,
                       sizeof *made->entries))
        return fg_fail(err, FG_E_LIMIT, "%u blocks", made->n);
    if (put_block(made, file, &entry.id, err) != FG_OK)
        return err->code;
    made->entries[made->n++] = entry;
    fg_assert(made->n <= made->cap);
    return FG_OK;
}

static struct cmp_merge_span span_of_entry(const struct fg_blocks_entry *entry)
{
    return (struct cmp_merge_span){
        .start_ns = entry->start_ns,
        .end_ns = entry->end_ns,
        .shard_first = entry->shard_first,
        .shard_last = entry->shard_last,
        .early_ns = entry->t_min_ns < entry->start_ns ? entry->start_ns - entry->t_min_ns : 0};
}

/* ---- blocks of the intact parts ---- */

/* Returns the span of a new block. A block is replaced by one of the same span; profiles of a
 * segment go where the compactor would put them. */
static struct cmp_plan_span span_at(const struct made *made, int64_t time_ns)
{
    const struct fg_blocks_entry *block = made->reference->block;

    if (block != NULL)
        return (struct cmp_plan_span){(enum cmp_plan_level)block->level, block->start_ns,
                                      block->end_ns};
    return cmp_plan_span_of(&spans, fg_wall_ns(fg_clock_real()), time_ns);
}

static void survey_span_at(const void *arg, int64_t time_ns, int64_t *ret_start_ns,
                           int64_t *ret_end_ns)
{
    struct cmp_plan_span span = span_at(arg, time_ns);

    *ret_start_ns = span.start_ns;
    *ret_end_ns = span.end_ns;
}

static enum fg_code write_bin(struct made *made, const struct cmp_merge *merge,
                              const struct cmp_merge_bin *bin, struct cmp_merge_tally *tally,
                              struct fg_err *err)
{
    const struct cmp_plan_span span = span_at(made, bin->start_ns);
    const struct fg_blocks_entry like = {
        .level = (uint8_t)span.level,
        .patch = made->reference->block != NULL ? made->reference->block->patch
                                                : cmp_plan_span_has_block(&made->blocks, &span),
        .start_ns = span.start_ns,
        .end_ns = span.end_ns,
        .t_min_ns = bin->t_min_ns,
        .shard_first = bin->shard_min,
        .shard_last = bin->shard_max};
    const struct cmp_merge_span what = span_of_entry(&like);
    struct fg_block_summary summary;
    struct cmp_merge_tally written;
    struct fg_buf file;
    enum fg_code code;

    fg_buf_init(&file, BLOCK_MAX_BYTES);
    code = cli_rewrite_span(merge, &what, (uint32_t)span.level, &file, &summary, &written, err);
    if (code == FG_OK)
        code = add_block(made, &file, &summary, &like, err);
    fg_buf_done(&file);
    if (code == FG_OK)
        cmp_merge_tally_add(tally, &written);
    return code;
}

/* Writes the intact profiles into new blocks. Pending deletions are applied on the way, as in a job
 * of the compactor. */
static enum fg_code write_profiles(struct made *made, struct cmp_merge *merge, struct fg_err *err)
{
    const struct cmp_merge_survey_options options = {
        .span_of = survey_span_at, .arg = made, .bins_max = SPANS_MAX, .keep_from_ns = INT64_MIN};
    struct cmp_merge_tally tally = {.profiles = 0};
    struct cmp_merge_survey survey;

    if (cmp_merge_survey(merge, &options, made->repairing->arena, &survey, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < survey.n_bins; i++)
        if (survey.bins[i].profiles > 0 &&
            write_bin(made, merge, &survey.bins[i], &tally, err) != FG_OK)
            return err->code;
    /* The written blocks together must have exactly the profiles that the survey counted. */
    return cmp_merge_tally_check(&survey.kept, &tally, err);
}

/* Copies the parts of rollups whose profiles are gone: there is nothing from which they could be
 * derived. */
static enum fg_code copy_rollup_parts(const struct repairing *repairing,
                                      struct fg_block_writer *writer, uint32_t first, uint32_t end,
                                      struct fg_err *err)
{
    for (uint32_t i = first; i < end; i++) {
        const struct fg_block_part *part = &repairing->directory.parts[i];
        const struct fg_block_derived made = {.n_profiles = part->n_profiles,
                                              .t_min_ns = part->t_min_ns,
                                              .t_max_ns = part->t_max_ns,
                                              .digest = part->digest,
                                              .usage = part->usage,
                                              .copy_of = part};

        if (repairing->parts[i].state == PART_LOST)
            continue;
        if (fg_block_part_begin_derived(writer, part->tenant, part->service, &made, err) != FG_OK)
            return err->code;
        for (uint32_t k = 0; k < part->n_sections; k++) {
            const struct fg_block_section *section = &part->sections[k];

            if (fg_block_kind_is_rollup(section->kind))
                fg_block_part_section(writer, (enum fg_block_kind)section->kind,
                                      fg_slice_sub(file_of(repairing),
                                                   (size_t)section->range.offset,
                                                   (size_t)section->range.len));
        }
        if (fg_block_part_end(writer, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code write_rollup_only(struct made *made, uint32_t first, uint32_t end,
                                      struct fg_err *err)
{
    const struct fg_blocks_entry *block = made->reference->block;
    fg_auto(fg_block_writer) *writer = NULL;
    struct fg_block_summary summary;
    struct cmp_merge_tally none;
    struct fg_buf file;
    struct fg_block_sink sink = cli_rewrite_sink(&file);
    const struct fg_keys *keys = made->repairing->mending.survey.bucket->keys;
    enum fg_code code;

    fg_buf_init(&file, BLOCK_MAX_BYTES);
    writer = fg_block_writer_create(&sink, block->level);
    /* The sections are copied unchanged, so they keep their version. */
    fg_block_writer_set_version(writer, made->repairing->directory.version);
    fg_block_writer_set_keys(writer, keys);
    code = copy_rollup_parts(made->repairing, writer, first, end, err);
    if (code == FG_OK)
        code = fg_block_writer_finish(writer, &summary, err);
    if (code == FG_OK)
        /* Checks the block before anything refers to it. */
        code = cmp_merge_read_back(fg_buf_slice(&file), keys, made->repairing->mending.object,
                                   PARSED_MAX_BYTES, &none, err);
    if (code == FG_OK)
        code = add_block(made, &file, &summary, block, err);
    fg_buf_done(&file);
    return code;
}

/* ---- the swap ---- */

static uint64_t bytes_of(const struct fg_block_part *part)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < part->n_sections; i++)
        bytes += part->sections[i].range.len;
    return bytes;
}

/* A record for each of the tenant's lost parts. NULL: no memory. */
static struct fg_blocks_lost *list_lost(const struct repairing *repairing, uint32_t first,
                                        uint32_t end, uint32_t *ret_n)
{
    struct fg_blocks_lost *lost =
        fg_arena_new(repairing->arena, struct fg_blocks_lost, end - first);

    *ret_n = 0;
    for (uint32_t i = first; lost != NULL && i < end; i++) {
        const struct fg_block_part *part = &repairing->directory.parts[i];

        if (repairing->parts[i].state == PART_LOST)
            lost[(*ret_n)++] = (struct fg_blocks_lost){.service = part->service,
                                                       .t_min_ns = part->t_min_ns,
                                                       .t_max_ns = part->t_max_ns,
                                                       .profiles = part->n_profiles,
                                                       .bytes = bytes_of(part),
                                                       .why = fg_cstr(repairing->parts[i].why)};
    }
    fg_assert(*ret_n <= end - first);
    return lost;
}

static enum fg_code swap_in(const struct made *made, const struct fg_deletions *deletions,
                            const struct fg_blocks_lost *lost, uint32_t n_lost, struct fg_err *err)
{
    const struct repairing *repairing = made->repairing;
    struct cli_mend_swap swap = {
        .add = made->entries, .n_add = made->n, .lost = lost, .n_lost = n_lost};
    struct fg_blocks_taken *taken =
        fg_arena_new(repairing->arena, struct fg_blocks_taken, deletions->count);

    if (taken == NULL)
        return fg_fail(err, FG_E_LIMIT, "%u deletions", deletions->count);
    for (uint32_t i = 0; i < deletions->count; i++)
        /* items[i] is the deletion of tombstones[i]. */
        if (deletions->items[i].profiles > 0)
            taken[swap.n_taken++] = (struct fg_blocks_taken){made->blocks.tombstones[i].id,
                                                             deletions->items[i].profiles};
    swap.taken = taken;
    return cli_mend_swap(&repairing->mending, made->reference, &swap, repairing->apply,
                         repairing->out, err);
}

static struct made begin_made(struct repairing *repairing,
                              const struct cli_mend_reference *reference)
{
    return (struct made){
        .repairing = repairing, .reference = reference, .blocks = cli_mend_blocks(reference)};
}

/* Writes what the tenant has left into new blocks, and swaps these in for the reference. */
static enum fg_code repair_reference(struct repairing *repairing,
                                     const struct cli_mend_reference *reference, struct fg_err *err)
{
    struct made made = begin_made(repairing, reference);
    struct fg_deletions deletions = {.count = 0};
    struct cmp_merge_source source = {.name = repairing->mending.object,
                                      .bytes = file_of(repairing)};
    struct fg_block_part *intact;
    struct fg_blocks_lost *lost;
    uint32_t first, end, n_lost;
    enum fg_code code = FG_OK;

    find_parts(repairing, reference->tenant, &first, &end);
    intact = fg_arena_new(repairing->arena, struct fg_block_part, end - first);
    lost = list_lost(repairing, first, end, &n_lost);
    if (intact == NULL || lost == NULL)
        return fg_fail(err, FG_E_LIMIT, "%u parts", end - first);
    for (uint32_t i = first; i < end; i++)
        if (repairing->parts[i].state != PART_LOST)
            intact[source.n_parts++] = repairing->directory.parts[i];
    source.parts = intact;
    if (source.n_parts > 0 && is_rollup_only(reference)) {
        code = write_rollup_only(&made, first, end, err);
    } else if (source.n_parts > 0) {
        struct cmp_merge merge = cli_rewrite_merge(reference->tenant, &source, 1);

        code = fg_blocks_deletions(&made.blocks, repairing->arena, &deletions, err);
        merge.deletions = deletions;
        if (code == FG_OK)
            code = write_profiles(&made, &merge, err);
    }
    if (code == FG_OK)
        code = swap_in(&made, &deletions, lost, n_lost, err);
    fg_deletions_done(&deletions);
    return code;
}

/* ---- from the sources of a block ---- */

/* A source of the block, read again. */
struct origin {
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;
    struct fg_block_directory directory;
};

static enum fg_code read_origin(const struct repairing *repairing, struct origin *origin,
                                struct fg_err *err)
{
    struct fg_block_verified verified;
    uint64_t offset = 0;
    struct fg_slice file;

    if (cli_survey_get(repairing->mending.survey.bucket, origin->name, &origin->bytes, err) !=
        FG_OK)
        /* FG_E_CORRUPT tells the caller that the sources cannot help, and that it has to go on
         * without them. */
        return err->code == FG_E_NOT_FOUND
                   ? fg_fail(err, FG_E_CORRUPT, "%s is not there any more", origin->name)
                   : err->code;
    file = fg_buf_slice(&origin->bytes);
    if (fg_block_verify(file, repairing->mending.survey.bucket->keys, PARSED_MAX_BYTES, &verified,
                        err) != FG_OK ||
        fg_block_directory_offset(file, file.len, &offset, err) != FG_OK ||
        fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len,
                                 repairing->mending.survey.bucket->keys, repairing->arena,
                                 &origin->directory, err) != FG_OK)
        return fg_wrap(err, "%s", origin->name);
    return FG_OK;
}

static enum fg_code read_origins(const struct repairing *repairing,
                                 const struct cli_mend_reference *reference, struct origin *origins,
                                 struct cmp_merge_source *sources, uint32_t *ret_n,
                                 struct fg_err *err)
{
    const struct fg_blocks_entry *block = reference->block;
    uint32_t n = 0;

    for (uint32_t i = 0; i < block->n_from_segments; i++) {
        const struct fg_l0_segment *segment =
            fg_l0_segment(&repairing->mending.survey.l0.content->l0, block->from_segments[i]);

        if (segment == NULL)
            return fg_fail(err, FG_E_CORRUPT, "segment %llu has left the L0 manifest",
                           (unsigned long long)block->from_segments[i]);
        fg_name_segment(origins[n++].name, &segment->id);
    }
    for (uint32_t i = 0; i < block->n_from_blocks; i++)
        if (fg_name_block(origins[n++].name, reference->tenant, block->from_blocks[i], err) !=
            FG_OK)
            return err->code;
    if (n == 0)
        return fg_fail(err, FG_E_CORRUPT, "the manifest does not say what it was made of");
    for (uint32_t i = 0; i < n; i++) {
        if (read_origin(repairing, &origins[i], err) != FG_OK)
            return err->code;
        sources[i] = cli_rewrite_source(origins[i].name, fg_buf_slice(&origins[i].bytes),
                                        &origins[i].directory, reference->tenant);
    }
    *ret_n = n;
    return FG_OK;
}

/* Writes the block again from its sources. Succeeds only with exactly the profiles that the
 * manifest lists. */
static enum fg_code write_from_origins(struct made *made, const struct cmp_merge_source *sources,
                                       uint32_t n, struct fg_err *err)
{
    const struct fg_blocks_entry *block = made->reference->block;
    const struct cmp_merge merge = cli_rewrite_merge(made->reference->tenant, sources, n);
    const struct cmp_merge_span span = span_of_entry(block);
    struct fg_block_summary summary = {.n_profiles = 0};
    struct cmp_merge_tally tally;
    struct fg_buf file;
    enum fg_code code;

    fg_buf_init(&file, BLOCK_MAX_BYTES);
    /* Without pending deletions: the result must have the digest in the manifest. They stay pending
     * for the new block. */
    code = cli_rewrite_span(&merge, &span, block->level, &file, &summary, &tally, err);
    if (code == FG_OK &&
        (summary.n_profiles != block->profiles || !fg_id_eq(summary.digest, block->digest)))
        code = fg_fail(err, FG_E_CORRUPT,
                       "what it was made of has %llu profiles of its time, not the %llu it had",
                       (unsigned long long)summary.n_profiles, (unsigned long long)block->profiles);
    if (code == FG_OK)
        code = add_block(made, &file, &summary, block, err);
    fg_buf_done(&file);
    return code;
}

static enum fg_code repair_from_origins(struct repairing *repairing,
                                        const struct cli_mend_reference *reference,
                                        struct fg_err *err)
{
    const struct fg_blocks_entry *block = reference->block;
    uint32_t n_max = block->n_from_segments + block->n_from_blocks, n = 0;
    struct origin *origins = fg_calloc(FG_MAX(n_max, 1u), sizeof *origins);
    struct cmp_merge_source *sources = fg_calloc(FG_MAX(n_max, 1u), sizeof *sources);
    struct made made = begin_made(repairing, reference);
    enum fg_code code = read_origins(repairing, reference, origins, sources, &n, err);

    if (code == FG_OK)
        code = write_from_origins(&made, sources, n, err);
    for (uint32_t i = 0; i < n_max; i++)
        fg_buf_done(&origins[i].bytes);
    free(sources);
    free(origins);
    if (code != FG_OK)
        return code;
    (void)fprintf(repairing->out,
                  "tenant %.*s: all %llu profiles are in the %u objects it was made of, which are "
                  "still there\n",
                  FG_S(reference->tenant), (unsigned long long)block->profiles, n);
    return swap_in(&made, &(struct fg_deletions){.count = 0}, NULL, 0, err);
}

/* ---- all ---- */

static enum fg_code nothing_is_left(const struct repairing *repairing, struct fg_err *err)
{
    err->code = FG_E_CORRUPT;
    return fg_wrap(err, "nothing of %s can be saved (flamegrid bucket quarantine gives it up)",
                   repairing->mending.object);
}

/* Repairs an object whose directory cannot be read, so that the places of its parts are unknown:
 * only its sources can help. */
static enum fg_code repair_blind(struct repairing *repairing, const struct fg_err *fault,
                                 struct fg_err *err)
{
    const struct cli_mend_reference *reference = &repairing->mending.references[0];
    enum fg_code code;

    (void)fprintf(repairing->out, "%s: %s\n", repairing->mending.object, fault->msg);
    if (reference->block == NULL || reference->block->rollup_only) {
        *err = *fault;
        return nothing_is_left(repairing, err);
    }
    code = repair_from_origins(repairing, reference, err);
    return code == FG_E_CORRUPT ? nothing_is_left(repairing, err) : code;
}

/* Removes derived rollups from the manifest. The compactor finds that they are missing and derives
 * them again. */
static enum fg_code drop_rollups(const struct repairing *repairing, struct fg_err *err)
{
    (void)fprintf(repairing->out,
                  "%s: rollups of other blocks, which the compactor derives again\n",
                  repairing->mending.object);
    return cli_mend_swap(&repairing->mending, &repairing->mending.references[0],
                         &(struct cli_mend_swap){.n_lost = 0}, repairing->apply, repairing->out,
                         err);
}

static enum fg_code repair_parts(struct repairing *repairing, struct fg_err *err)
{
    const struct cli_mending *mending = &repairing->mending;
    const struct cli_mend_reference *first = &mending->references[0];
    bool any_lost = false;
    uint32_t n_left = 0;

    for (uint32_t i = 0; i < repairing->directory.n_parts; i++)
        any_lost |= repairing->parts[i].state == PART_LOST;
    for (uint32_t i = 0; i < mending->n_references; i++)
        n_left += print_parts(repairing, &mending->references[i]);
    if (any_lost && first->block != NULL && !first->block->rollup_only) {
        enum fg_code code = repair_from_origins(repairing, first, err);

        if (code != FG_E_CORRUPT) /* else the intact parts are all that is left */
            return code;
    }
    if (n_left == 0) {
        (void)fg_fail(err, FG_E_CORRUPT, "every part that a manifest refers to is damaged");
        return nothing_is_left(repairing, err);
    }
    /* Before the swap: after it nothing refers to the object, and garbage collection deletes it. */
    if (repairing->apply && any_lost &&
        cli_mend_keep(mending, file_of(repairing), repairing->out, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < mending->n_references; i++)
        /* Each swap is complete by itself: a repair that ends between two of them loses nothing. */
        if (repair_reference(repairing, &mending->references[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code repair(struct repairing *repairing, struct fg_err *err)
{
    const struct cli_mending *mending = &repairing->mending;
    struct fg_err fault;
    enum fg_code code =
        cli_survey_get(mending->survey.bucket, mending->object, &repairing->bytes, err);

    if (code != FG_OK && code != FG_E_NOT_FOUND)
        return code;
    if (parse_directory(repairing, &fault) != FG_OK) {
        if (fault.code != FG_E_CORRUPT) {
            *err = fault;
            return err->code;
        }
        return is_remade(&mending->references[0]) ? drop_rollups(repairing, err)
                                                  : repair_blind(repairing, &fault, err);
    }
    if (examine_parts(repairing, err) != FG_OK)
        return err->code;
    if (is_right(repairing))
        return fg_fail(err, FG_E_PRECONDITION, "nothing is wrong with %s", mending->object);
    return is_remade(&mending->references[0]) ? drop_rollups(repairing, err)
                                              : repair_parts(repairing, err);
}

enum fg_code cli_bucket_repair(struct fg_bucket *bucket, const char *object, bool apply, FILE *out,
                               struct fg_err *err)
{
    struct repairing repairing = {
        .apply = apply, .out = out, .arena = fg_arena_create(ARENA_BYTES)};
    enum fg_code code = cli_mend_open(bucket, object, &repairing.mending, err);

    fg_buf_init(&repairing.bytes, 0);
    if (code == FG_OK)
        code = repair(&repairing, err);
    if (code == FG_OK && !apply)
        (void)fprintf(out, "nothing was written; --apply repairs it\n");
    fg_buf_done(&repairing.bytes);
    fg_arena_destroy(repairing.arena);
    cli_mend_done(&repairing.mending);
    return code;
}
