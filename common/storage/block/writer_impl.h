/*
 * Internals that the files of the writer share. Private to the block format.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_WRITER_IMPL_H
#define FG_COMMON_STORAGE_BLOCK_WRITER_IMPL_H

#include "common/base/radix.h"
#include "common/storage/block/column.h"
#include "common/storage/block/order.h"
#include "common/storage/block/pack.h"
#include "common/storage/block/writer.h"

enum {
    FG_BLOCK_SMP_PAGE_BYTES =
        128 * 1024,                 /* raw; larger pages gain little, and their edges cost more */
    FG_BLOCK_SMP_OWN_PROFILES = 30, /* a series with this many in a page ends the page */
    FG_BLOCK_IDX_PAGE_PROFILES = 2048, /* 24 kB stored, and 32 kB of ids */
    FG_BLOCK_STACK_PAGE_ITEMS =
        256 * 1024, /* of the tree and its symbols, which are always read whole */
    FG_BLOCK_TEXT_PAGE_BYTES = 1024 * 1024,
};

/* A page that was written. */
struct fg_block_page_row {
    uint32_t raw_bytes, bytes, crc, key, items;
    int64_t t_min_ns, t_max_ns;
};

/* A section that is being written: rows of its pages, and the pages until their turn in the file.
 * SMP is the first section of a part, so its pages are not kept. */
struct fg_block_out {
    uint32_t kind;
    struct fg_block_page_row *rows;
    uint32_t n_rows, cap_rows;
    struct fg_buf stored;
    uint64_t bytes;
};

/* The number and times of the profiles of a page. */
struct fg_block_span {
    uint32_t count;
    int64_t t_min_ns, t_max_ns;
};

struct fg_block_series_out {
    struct fg_block_series key; /* a copy */
    uint32_t *pairs;            /* into writer->pairs */
    uint32_t n_pairs, schema;
    uint64_t seen;
    struct fg_block_span span;
};

/* A series chunk. */
struct fg_block_chunk_out {
    uint32_t stripe, series, count;
};

struct fg_block_pair {
    struct fg_slice name, value;
};

/* A profile of the current page of IDX. */
struct fg_block_row_out {
    uint32_t series, n_samples, window;
    uint16_t shard;
    int64_t time_ns, duration_ns, period;
    struct fg_profile_size size;
    size_t totals; /* into the totals of the page */
};

struct fg_block_group_out {
    uint16_t shard;
    uint32_t window, count;
    struct fg_id digest;
};

/* Samples by rank, each once. */
struct fg_block_set {
    uint32_t *ranks;  /* [count] */
    uint64_t *values; /* [n_types][count] */
    uint32_t count;
    size_t cap_ranks, cap_values;
};

/*
 * Ranks: stacks by descending number of uses, then by node. Frequent stacks have small numbers, and
 * rare stacks are next to their neighbours in the tree: MAP has a third of the size that it has
 * with ties by first use, which would make SMP a tenth smaller instead.
 */
struct fg_block_ranks {
    uint32_t *left;   /* of a stack, by canonical number (node + 1): uses that are to come */
    uint32_t *ranks;  /* of a stack; FG_MAP_NONE: it has none */
    uint32_t *stacks; /* of a rank: the stack's canonical number */
    uint32_t n_stacks;
    uint64_t uses_left;
};

/* The current part. */
struct fg_block_part_out {
    struct fg_slice tenant, service;
    struct fg_block_order order;
    struct fg_block_ranks ranks;

    struct fg_block_series_out *series; /* in the order of arrival; a new one is behind the last */
    uint32_t n_series, cap_series;
    struct fg_map series_map;
    struct fg_block_chunk_out *chunks;
    uint32_t n_chunks, cap_chunks;
    struct fg_block_pair *pairs;
    uint32_t n_pairs, cap_pairs;
    struct fg_map pair_map;
    struct fg_block_schema *schemas;
    uint32_t n_schemas, cap_schemas;
    uint32_t stripe;   /* the current one */
    int64_t before_ns; /* the stripe is later than this, unless it is the first */
    uint32_t at;       /* the current series, or the last one */
    bool in_series;
    bool in_stripe;   /* it is in the current stripe */
    uint32_t n_types; /* of it */
    struct fg_block_span series_span;
    uint64_t seen;
    int64_t last_time_ns;
    struct fg_id last_id;

    struct fg_block_group_out *groups;
    uint32_t n_groups, cap_groups;
    struct fg_map group_map;

    struct fg_slice rollups[FG_BLOCK_SND - FG_BLOCK_SCR + 1]; /* sections; borrowed */
    const struct fg_function_tree *names;                     /* borrowed; NULL: none */
    bool derived;                   /* the numbers below are of profiles of other objects */
    uint32_t key;                   /* 0: the part is not encrypted */
    struct fg_block_sealer *sealer; /* that of the writer; NULL: the same */

    uint32_t n_profiles;
    uint64_t n_samples;
    int64_t t_min_ns, t_max_ns;
    struct fg_id digest;
    struct fg_usage usage;
};

/* The current pages. */
struct fg_block_pages_out {
    struct fg_block_span smp_span;
    uint32_t smp_series_profiles; /* of the current series, in this page */
    struct fg_buf heads, rank_bits, ranks;
    struct fg_buf value_bits[FG_BATCH_TYPES_MAX], values[FG_BATCH_TYPES_MAX];
    uint64_t *numbers; /* of one column */
    size_t cap_numbers;
    size_t values_bytes;
    struct fg_buf exemplars;
    uint32_t exemplars_last; /* 1 + the profile of the page that was written last; 0: none */
    struct fg_block_set now, before;
    bool has_before;         /* before: of the same series, in the same page */
    uint64_t *before_values; /* by the samples of now */
    size_t cap_before_values;
    struct fg_keyed *keyed, *scratch;
    uint32_t cap_keyed;

    struct fg_block_span idx_span;
    struct fg_block_row_out *rows; /* [FG_BLOCK_IDX_PAGE_PROFILES] */
    uint64_t *totals;
    size_t n_totals, cap_totals;
    struct fg_buf ids;
};

enum fg_block_writer_state {
    FG_BLOCK_WRITER_START,
    FG_BLOCK_WRITER_BETWEEN, /* parts */
    FG_BLOCK_WRITER_PART,
    FG_BLOCK_WRITER_OVER,
};

struct fg_block_writer {
    struct fg_block_sink sink;
    uint32_t level, version;
    const struct fg_keys *keys; /* NULL: nothing is encrypted */
    enum fg_block_writer_state state;
    uint64_t offset; /* bytes given to the sink */
    struct fg_block_packer *packer;
    struct fg_block_sealer *sealer; /* NULL: nothing was encrypted so far */
    struct fg_buf raw;              /* of the current page */

    struct fg_arena *arena; /* of the part */
    struct fg_block_part_out part;
    struct fg_block_pages_out pages;
    struct fg_block_out smp, exm, pid, idx, use, rest; /* rest: the small sections in turn */
    struct fg_buf table;                               /* rows of sections that are complete */
    uint32_t n_sections;

    struct fg_buf directory, groups, rollups; /* of all parts so far; rollups: NOD */
    struct fg_buf last_name;                  /* tenant, then service, of the part before */
    size_t last_tenant_len;
    int64_t last_t_min_ns;
    bool derived; /* parts have no profiles of their own */
    struct fg_block_summary summary;
};

static inline void fg_block_span_add(struct fg_block_span *span, int64_t time_ns)
{
    span->t_min_ns = span->count == 0 ? time_ns : FG_MIN(span->t_min_ns, time_ns);
    span->t_max_ns = span->count == 0 ? time_ns : FG_MAX(span->t_max_ns, time_ns);
    span->count++;
}

/* Gives bytes to the sink. */
enum fg_code fg_block_emit(struct fg_block_writer *writer, struct fg_slice bytes,
                           struct fg_err *err) fg_must_check;

/* Packs writer->raw as the next page of a section, which keeps it. FG_E_LIMIT: too large. */
enum fg_code fg_block_page_put(struct fg_block_writer *writer, struct fg_block_out *out,
                               const struct fg_block_span *span, struct fg_err *err) fg_must_check;

/* Writes what the section keeps to the sink, its rows to the table, and makes it empty. A section
 * without pages is left out. */
enum fg_code fg_block_section_end(struct fg_block_writer *writer, struct fg_block_out *out,
                                  struct fg_err *err) fg_must_check;

/* Writes items [from, to) of a kind to writer->raw. */
typedef void (*fg_block_encoder)(void *arg, uint32_t from, uint32_t to);

/* Writes a section in pages of a fixed number of items; each page begins with its number of items.
 */
enum fg_code fg_block_items_put(struct fg_block_writer *writer, uint32_t kind, uint32_t count,
                                fg_block_encoder encode, void *arg,
                                struct fg_err *err) fg_must_check;

/* Writes a section of ascending texts, in pages by size. */
enum fg_code fg_block_texts_put(struct fg_block_writer *writer, uint32_t kind,
                                const struct fg_slice *texts, uint32_t count,
                                struct fg_err *err) fg_must_check;

/* Write the sections of rollups, of symbols and tree, of the function tree, of series. */
enum fg_code fg_block_write_rollup(struct fg_block_writer *writer,
                                   struct fg_err *err) fg_must_check;
enum fg_code fg_block_write_stacks(struct fg_block_writer *writer,
                                   struct fg_err *err) fg_must_check;
enum fg_code fg_block_write_function_tree(struct fg_block_writer *writer,
                                          struct fg_err *err) fg_must_check;
enum fg_code fg_block_write_series(struct fg_block_writer *writer,
                                   struct fg_err *err) fg_must_check;

/* Begins a series. */
enum fg_code fg_block_series_open(struct fg_block_writer *writer,
                                  const struct fg_block_series *series,
                                  struct fg_err *err) fg_must_check;
/* Ends the chunk of the series in its stripe, and keeps the series if it has profiles. */
enum fg_code fg_block_series_close(struct fg_block_writer *writer,
                                   struct fg_err *err) fg_must_check;
/* Returns the final order of series, in the arena of the part. */
struct fg_block_numbers fg_block_series_order(struct fg_block_writer *writer);

/* Make and write pages of profiles. */
void fg_block_pages_init(struct fg_block_pages_out *pages);
void fg_block_pages_done(struct fg_block_pages_out *pages);
enum fg_code fg_block_ranks_init(struct fg_block_writer *writer, const uint32_t *uses,
                                 struct fg_err *err) fg_must_check;
enum fg_code fg_block_smp_flush(struct fg_block_writer *writer, struct fg_err *err) fg_must_check;
enum fg_code fg_block_idx_flush(struct fg_block_writer *writer, struct fg_err *err) fg_must_check;

/* Adds the samples and links of a profile to the page, and sets its totals[n_types]. */
enum fg_code fg_block_samples_put(struct fg_block_writer *writer,
                                  const struct fg_block_profile *profile, uint64_t *totals,
                                  struct fg_err *err) fg_must_check;
enum fg_code fg_block_row_put(struct fg_block_writer *writer,
                              const struct fg_block_profile *profile, const uint64_t *totals,
                              struct fg_err *err) fg_must_check;

#endif
