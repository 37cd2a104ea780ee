#include "deploy/cli/bucket_rewrite.h"

enum { ARENA_BYTES = 256 * 1024 * 1024 };

/* As much as one object may take when it is parsed (PARSED_MAX_BYTES of the other bucket
 * commands). */
static const size_t MEMORY_MAX_BYTES = (size_t)4 << 30;

struct cmp_merge_source cli_rewrite_source(const char *name, struct fg_slice file,
                                           const struct fg_block_directory *directory,
                                           struct fg_slice tenant)
{
    /* Parts are sorted by tenant, then service, so those of a tenant are neighbours. */
    uint32_t first = fg_block_part_find(directory, tenant, FG_LIT("")), end = first;

    while (end < directory->n_parts && fg_slice_eq(directory->parts[end].tenant, tenant))
        end++;
    return (struct cmp_merge_source){
        .name = name, .parts = directory->parts + first, .n_parts = end - first, .bytes = file};
}

struct cmp_merge cli_rewrite_merge(struct fg_slice tenant, const struct cmp_merge_source *sources,
                                   uint32_t n_sources)
{
    uint32_t version = 0; /* the newest of the sources: every program that reads them reads it */
    const struct fg_keys *keys = NULL;

    for (uint32_t i = 0; i < n_sources; i++)
        if (sources[i].n_parts > 0) {
            version = FG_MAX(version, sources[i].parts[0].version);
            keys = sources[i].parts[0].keys;
        }
    return (struct cmp_merge){.tenant = tenant,
                              .sources = sources,
                              .n_sources = n_sources,
                              .block_version = version,
                              .keys = keys,
                              .memory_max_bytes = MEMORY_MAX_BYTES};
}

/* One span for all times: a rewrite makes one object of one object. */
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

struct fg_block_sink cli_rewrite_sink(struct fg_buf *out)
{
    return (struct fg_block_sink){append, out};
}

enum fg_code cli_rewrite_span(const struct cmp_merge *merge, const struct cmp_merge_span *span,
                              uint32_t level, struct fg_buf *out,
                              struct fg_block_summary *ret_summary,
                              struct cmp_merge_tally *ret_tally, struct fg_err *err)
{
    const struct fg_block_sink sink = cli_rewrite_sink(out);
    struct cmp_merge_written written;

    /* Reads back what it wrote before anybody relies on it, as the compactor does. */
    if (cmp_merge_write(merge, span, level, &sink, &written, err) != FG_OK ||
        cmp_merge_read_back(fg_buf_slice(out), merge->keys, merge->sources[0].name,
                            MEMORY_MAX_BYTES, ret_tally, err) != FG_OK)
        return err->code;
    *ret_summary = written.summary;
    return FG_OK;
}

enum fg_code cli_bucket_rewrite(struct cmp_merge *merge, struct fg_buf *out, uint64_t *ret_kept,
                                struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    const struct cmp_merge_survey_options options = {
        .span_of = all_of_time, .bins_max = 1, .keep_from_ns = INT64_MIN};
    struct fg_block_summary summary;
    struct cmp_merge_survey survey;
    struct cmp_merge_tally tally;

    /* The survey counts first, so the result can be compared with what went in. */
    if (cmp_merge_survey(merge, &options, arena, &survey, err) != FG_OK)
        return err->code;
    *ret_kept = survey.kept.profiles;
    if (survey.kept.profiles == 0)
        return FG_OK;
    if (cli_rewrite_span(merge, &MERGE_SPAN_ALL, 0, out, &summary, &tally, err) != FG_OK)
        return err->code;
    return cmp_merge_tally_check(&survey.kept, &tally, err);
}
