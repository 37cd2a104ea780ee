#include "deploy/single/bucket_rewrite.h"

enum { ARENA_BYTES = 256 * 1024 * 1024 };

static const size_t MEMORY_MAX_BYTES = (size_t)4 << 30;

/* The tenant's parts, which lie side by side. */
static struct merge_source source_of(const struct rewrite *rewrite)
{
    const struct fg_block_directory *directory = rewrite->directory;
    uint32_t first = fg_block_part_find(directory, rewrite->tenant, FG_LIT("")), end = first;

    while (end < directory->n_parts && fg_slice_eq(directory->parts[end].tenant, rewrite->tenant))
        end++;
    return (struct merge_source){.name = rewrite->name,
                                 .parts = directory->parts + first,
                                 .n_parts = end - first,
                                 .bytes = rewrite->file};
}

static void all_of_time(const void *arg, int64_t time_ns, int64_t *ret_start_ns,
                        int64_t *ret_end_ns)
{
    (void)arg;
    (void)time_ns;
    *ret_start_ns = INT64_MIN;
    *ret_end_ns = INT64_MAX;
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    struct fg_buf *out = arg;

    fg_buf_put(out, bytes);
    return out->full ? fg_fail(err, FG_E_LIMIT, "more than %zu bytes", out->len) : FG_OK;
}

enum fg_code bucket_rewrite(const struct rewrite *rewrite, struct fg_buf *out, uint64_t *ret_kept,
                            struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    const struct merge_survey_options options = {
        .span_of = all_of_time, .bins_max = 1, .keep_from_ns = INT64_MIN};
    const struct fg_block_sink sink = {append, out};
    struct merge_source source = source_of(rewrite);
    struct merge merge = {.tenant = rewrite->tenant,
                          .sources = &source,
                          .n_sources = 1,
                          .deletions = rewrite->deletions,
                          .without = rewrite->without,
                          .memory_max_bytes = MEMORY_MAX_BYTES};
    struct merge_survey survey;
    struct merge_written written;
    struct merge_tally tally;

    if (merge_survey(&merge, &options, arena, &survey, err) != FG_OK)
        return err->code;
    *ret_kept = survey.kept.profiles;
    if (survey.kept.profiles == 0)
        return FG_OK;
    if (merge_write(&merge, &MERGE_SPAN_ALL, 0, &sink, &written, err) != FG_OK ||
        merge_read_back(fg_buf_slice(out), rewrite->name, MEMORY_MAX_BYTES, &tally, err) != FG_OK)
        return err->code;
    return merge_tally_check(&survey.kept, &tally, err);
}
