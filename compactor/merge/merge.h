/*
 * Merges what a tenant has in several objects into one block. It streams: sources are mapped files,
 * and of each service only its index, its stacks and a few pages are in memory.
 *
 *   cmp_merge_survey      reads rows only: which times have profiles, and what deletions
 *                         remove; so it says which blocks to write
 *   cmp_merge_write       writes one block. Of each service first the stacks in use and how
 *                         often; then the profiles by time stripe
 *                         (common/storage/block/writer.h), series, time and id; then the rollup
 *   cmp_merge_read_back   verifies a block that was written, and tallies it
 *
 * The tallies of all blocks add up to that of the survey. They have to be compared before the
 * blocks are swapped in (cmp_merge_tally_check()).
 *
 * The same profiles give the same bytes for all divisions into sources and any order.
 *
 * Thread: one at a time. Memory: about memory_max_bytes; FG_E_LIMIT if that is not enough.
 */
#ifndef FG_COMPACTOR_MERGE_MERGE_H
#define FG_COMPACTOR_MERGE_MERGE_H

#include "common/cluster/manifest/ledger.h"
#include "compactor/merge/cursor.h"
#include "compactor/merge/tally.h"

struct cmp_merge {
    struct fg_slice tenant;
    const struct cmp_merge_source *sources;
    uint32_t n_sources;
    struct fg_deletions deletions;
    struct cmp_merge_without without; /* empty, except in tools that repair a bucket */
    size_t memory_max_bytes;
    uint32_t block_version;     /* format of the block; 0: the newest */
    const struct fg_keys *keys; /* with which the block is encrypted; NULL: it is not */
    uint32_t stripe_samples; /* of a stripe, at least, on the average; 0, except in tests: as many
                                as one request is worth */
    uint32_t named_stacks; /* parts of so many get a function tree; 0, except in tests: so many that
                              reading their stack tree is slow */
};

/* A profile spills over if it begins within this time before the end of a span and ends after it.
 */
#define MERGE_SPILL_NS (10 * FG_MINUTE_NS)

/* Profiles of a span of time. */
struct cmp_merge_bin {
    int64_t start_ns, end_ns;
    int64_t t_min_ns; /* of the profiles */
    uint64_t profiles;
    uint64_t spilling;             /* of these */
    uint16_t shard_min, shard_max; /* of those there are */
};

struct cmp_merge_survey {
    struct cmp_merge_bin *bins; /* by start; in the arena */
    uint32_t n_bins;
    struct cmp_merge_tally kept;
    uint64_t deleted;    /* taken by deletions */
    uint64_t expired;    /* of spans that end before keep_from_ns */
    uint64_t n_profiles; /* of all sources */
    /* What all profiles of the sources used, also those that deletions or retention remove: they
     * were stored until now. Its open days, within the limits of a ledger. */
    struct fg_ledger used;
};

/*
 * Surveys the sources. span_of() returns the span that a time belongs to, [start, end), the same
 * for every time in it; an end of INT64_MAX is the end of time. FG_E_TOO_LARGE: there are more than
 * bins_max spans. FG_E_CORRUPT: a source is damaged, or, with `used`, the sizes of its profiles do
 * not add up to what its directory says.
 */
struct cmp_merge_survey_options {
    void (*span_of)(const void *arg, int64_t time_ns, int64_t *ret_start_ns, int64_t *ret_end_ns);
    const void *arg;
    uint32_t bins_max;
    int64_t keep_from_ns; /* spans that end before are left out */
    bool used;            /* is wanted; else none */
};
enum fg_code cmp_merge_survey(struct cmp_merge *merge,
                              const struct cmp_merge_survey_options *options,
                              struct fg_arena *arena, struct cmp_merge_survey *ret_survey,
                              struct fg_err *err) fg_must_check;

struct cmp_merge_written {
    struct fg_block_summary summary;
    uint32_t left_out; /* services whose rollup is incomplete for lack of memory */
};

/*
 * Writes the profiles of the span that no deletion names, and their rollup (rollup.h). level: as in
 * manifests. FG_E_CORRUPT: a source is damaged, or two of them have the same profile; then the text
 * has its id and both names.
 */
enum fg_code cmp_merge_write(const struct cmp_merge *merge, const struct cmp_merge_span *span,
                             uint32_t level, const struct fg_block_sink *sink,
                             struct cmp_merge_written *ret_written,
                             struct fg_err *err) fg_must_check;

/* Verifies a whole block that was written (common/storage/block/verify.h) and tallies its rows.
 * FG_E_INTERNAL: it is damaged. */
enum fg_code cmp_merge_read_back(struct fg_slice file, const struct fg_keys *keys, const char *name,
                                 size_t memory_max_bytes, struct cmp_merge_tally *ret_tally,
                                 struct fg_err *err) fg_must_check;

#endif
