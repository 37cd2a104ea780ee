/*
 * Reads blocks and segments. It does no I/O: every function works on bytes that the caller fetched,
 * and says beforehand which ones it wants, so that a querier can fetch in waves:
 *
 *   wave 1   the tail of the object               fg_block_directory_parse()
 *            (merged nodes before it: nodes/reader.h)
 *   wave 2   fg_block_part_range() of the parts     fg_block_part_parse(), fg_block_tree_parse()
 *   wave 3   fg_block_pages_mark(), ..._ranges()    fg_block_rows_parse(), fg_block_samples_open()
 *
 * Directories, parts and trees never change and may be cached for as long as anybody likes.
 *
 * Trusts nothing: every page has its checksum compared, every number its bound, before it is used;
 * what was parsed without an error has only valid indexes and is in order. What only several
 * sections together can say (totals, digests, uses) is left to fg_block_verify(). FG_E_CORRUPT says
 * what is wrong and where. FG_E_LIMIT: more than the arena, or the limit given, has room for.
 * FG_E_UNIMPLEMENTED: nothing is wrong, but a newer version wrote it, or it is encrypted.
 *
 * What is returned lives in the arena and does not refer to the bytes given, unless said.
 *
 * Thread: parsed things are constant, any number of threads may look at them.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_READER_H
#define FG_COMMON_STORAGE_BLOCK_READER_H

#include "common/model/function_tree.h"
#include "common/model/selector.h"
#include "common/storage/block/format.h"

struct fg_block_range {
    uint64_t offset, len; /* of the object, bytes */
};

/* ---- the directory ---- */

/*
 * Where the directory is: it reaches from *ret_offset to the end of the object. tail: the last
 * bytes of the object, FG_BLOCK_TRAILER_BYTES at least. A manifest holds this offset already.
 */
enum fg_code fg_block_directory_offset(struct fg_slice tail, uint64_t file_bytes,
                                       uint64_t *ret_offset, struct fg_err *err) fg_must_check;

struct fg_block_section {
    uint32_t kind; /* enum fg_block_kind, or one that we do not know */
    struct fg_block_range range;
};

/*
 * n_series 0: it holds merged nodes of other objects and no profiles of its own. Then n_profiles,
 * digest and times are of what these nodes sum up, and there are no groups, stacks and samples.
 */
struct fg_block_part {
    struct fg_slice tenant, service;
    int64_t t_min_ns, t_max_ns; /* of the profiles' times, inclusive */
    uint32_t n_series, n_profiles, n_stacks, n_nodes, n_groups;
    uint64_t n_samples; /* entries of all profiles */
    struct fg_id digest;
    struct fg_usage usage; /* of its profiles; of version 2: of none */
    /* With which its page table, groups and merged nodes are encrypted; 0: they are not. Another
     * one is FG_E_UNIMPLEMENTED wherever these are read; what stands here can be read all the
     * same. */
    uint32_t key;
    uint32_t symbols_version; /* of its stacks and their names; a newer one: FG_E_UNIMPLEMENTED */
    uint32_t version;         /* of the object's format */
    /* Ascending by kind; without gaps, but for NOD and GRP, which stand behind all parts. */
    struct fg_block_section *sections;
    uint32_t n_sections;
    uint32_t table_raw_bytes, table_crc, groups_raw_bytes, groups_crc;
};

struct fg_block_directory {
    uint32_t level;
    bool derived; /* all parts are without profiles; else none is */
    uint64_t file_bytes, n_profiles;
    uint64_t rollup_offset; /* NOD of all parts: from here to the directory */
    int64_t t_min_ns, t_max_ns;
    struct fg_id digest;
    struct fg_usage usage;
    uint32_t version;
    struct fg_block_part *parts; /* ascending by (tenant, service) */
    uint32_t n_parts;
};

/* bytes: from the directory's offset to the end of the object. */
enum fg_code fg_block_directory_parse(struct fg_slice bytes, uint64_t file_bytes,
                                      struct fg_arena *arena,
                                      struct fg_block_directory *ret_directory,
                                      struct fg_err *err) fg_must_check;

/* Index of the part, or of the first that belongs after it; compare to see which. The parts of a
 * tenant begin where service "" belongs. */
uint32_t fg_block_part_find(const struct fg_block_directory *directory, struct fg_slice tenant,
                            struct fg_slice service);

/* ---- a part: series and the page table ---- */

/* What to fetch of a part; tree, names and series lie beside each other in this order and can be
 * asked for together. A range without names is empty. */
enum fg_block_want {
    FG_BLOCK_WANT_SERIES = 1,        /* for fg_block_part_parse() */
    FG_BLOCK_WANT_TREE = 2,          /* for fg_block_tree_parse() */
    FG_BLOCK_WANT_FUNCTION_TREE = 8, /* for fg_block_function_tree_parse() */
    FG_BLOCK_WANT_GROUPS = 4,        /* for fg_block_groups_parse(); not together with the others */
};
struct fg_block_range fg_block_part_range(const struct fg_block_part *part, unsigned wants);

/* A page of a section. */
struct fg_block_page {
    uint64_t offset;    /* in the object */
    uint32_t bytes;     /* stored; fewer than raw_bytes: packed by zstd */
    uint32_t raw_bytes; /* unpacked */
    uint32_t crc;       /* crc32c of the stored bytes */
    uint32_t key;       /* with which it is encrypted; 0: it is not */
    uint32_t first;     /* number of the first item: SMP, EXM, PID and IDX count profiles */
    uint32_t items;
    int64_t t_min_ns, t_max_ns; /* of its profiles; SMP, EXM, PID and IDX */
};

struct fg_block_pages {
    const struct fg_block_page *pages;
    uint32_t count;
};

struct fg_block_schema {
    struct fg_value_type *types;
    uint32_t n_types;
    struct fg_value_type period_type;
};

struct fg_block_series_row {
    struct fg_labels labels; /* without those made from the type */
    uint32_t *postings;      /* [labels.count]: of each label, its place in index->postings */
    const struct fg_block_schema *schema;
    uint64_t seen;          /* bit t: some profile has a value of type t */
    const uint32_t *chunks; /* [n_chunks], ascending: into index->chunks */
    uint32_t n_chunks, n_profiles;
    int64_t t_min_ns, t_max_ns;
};

/*
 * What a series has in a stripe: profiles [first, first + count) of the part, ascending by (time,
 * id). Profiles are numbered by (stripe, series, time, id), so chunks ascend by their profiles, and
 * those of a series by time as well.
 */
struct fg_block_chunk {
    uint32_t series, first, count;
    int64_t t_min_ns, t_max_ns; /* its profiles are within: they are the stripe's and the series' */
};

/* Which series have a label. */
struct fg_block_posting {
    struct fg_slice name, value;
    uint32_t *series; /* ascending */
    uint32_t n_series;
};

struct fg_block_index {
    const struct fg_block_part *part;   /* borrowed from the directory */
    struct fg_block_series_row *series; /* ascending */
    struct fg_block_chunk *chunks;      /* ascending: each profile is in one */
    struct fg_block_posting *postings;  /* ascending by name, then value */
    struct fg_block_schema *schemas;
    uint32_t n_series, n_chunks, n_postings, n_schemas;
    struct fg_block_pages pages[FG_BLOCK_KINDS_MAX]; /* by kind */
};

/* bytes: the range of FG_BLOCK_WANT_SERIES. A part without profiles has no series. */
enum fg_code fg_block_part_parse(const struct fg_block_part *part, struct fg_slice bytes,
                                 struct fg_arena *arena, struct fg_block_index *ret_index,
                                 struct fg_err *err) fg_must_check;

/* How many chunks an index is likely to have at most, as the directory lets one guess before it is
 * there: by the compactor's rule for stripes. */
uint64_t fg_block_guess_chunks(const struct fg_block_part *part);

/* Number of the chunk that has the profile. */
uint32_t fg_block_chunk_of(const struct fg_block_index *index, uint32_t profile);

/* The first page that holds a profile from `profile` on; count: there is none. */
uint32_t fg_block_page_of(const struct fg_block_pages *pages, uint32_t profile);

/* A series that matches, and the sample type by which it does. */
struct fg_block_match {
    uint32_t series, type;
};

/*
 * Series and types that match, types that were seen only; ascending. Found through the postings,
 * but for what the labels made from the type say (fg_labels_with_type()).
 */
enum fg_code fg_block_select(const struct fg_block_index *index, const struct fg_selector *selector,
                             struct fg_arena *arena, struct fg_block_match **ret_matches,
                             uint32_t *ret_count, struct fg_err *err) fg_must_check;

/* The profile type of a series' sample type; borrowed from the index. */
struct fg_profile_type fg_block_profile_type(const struct fg_block_series_row *series,
                                             uint32_t type);

/* ---- which pages ---- */

/*
 * Marks the pages of a kind (SMP, EXM, PID or IDX) that hold profiles [first, first + count) with a
 * time in [start, end]: marks[i] for page i.
 */
void fg_block_pages_mark(const struct fg_block_pages *pages, uint32_t first, uint32_t count,
                         int64_t start_ns, int64_t end_ns, bool *marks);

/* ---- profiles: times and totals ---- */

/* Rows of one page of IDX, row i being profile first + i. */
struct fg_block_rows {
    uint32_t first, count;
    uint32_t *series;
    int64_t *times_ns, *durations_ns, *periods;
    uint32_t *n_samples;
    uint16_t *shards;
    uint32_t *windows;
    uint64_t **totals; /* [count][n_types of its series], modulo 2^64 */
};

/* page: its number in index->pages[FG_BLOCK_IDX]; bytes: that page, as everywhere below. */
enum fg_code fg_block_rows_parse(const struct fg_block_index *index, uint32_t page,
                                 struct fg_slice bytes, struct fg_arena *arena,
                                 struct fg_block_rows *ret_rows, struct fg_err *err) fg_must_check;

/* Series, times and totals of them only, in half the time: the other arrays are NULL, and what they
 * would hold is not looked at. */
enum fg_code fg_block_totals_parse(const struct fg_block_index *index, uint32_t page,
                                   struct fg_slice bytes, struct fg_arena *arena,
                                   struct fg_block_rows *ret_rows,
                                   struct fg_err *err) fg_must_check;

/* Ids of the profiles of one page of PID: index->pages[FG_BLOCK_PID].pages[page].items of them. */
enum fg_code fg_block_ids_parse(const struct fg_block_index *index, uint32_t page,
                                struct fg_slice bytes, struct fg_arena *arena,
                                struct fg_id **ret_ids, struct fg_err *err) fg_must_check;

/*
 * Sizes of the profiles of one page of USE, as many as the page has items.
 * index->pages[FG_BLOCK_USE] has the rows of IDX, or no pages: then all sizes are unknown.
 */
enum fg_code fg_block_sizes_parse(const struct fg_block_index *index, uint32_t page,
                                  struct fg_slice bytes, struct fg_arena *arena,
                                  struct fg_profile_size **ret_sizes,
                                  struct fg_err *err) fg_must_check;

/* ---- stacks ---- */

struct fg_block_tree {
    struct fg_tree tree;   /* to be looked at only: its arrays are the arena's, self is NULL */
    const uint32_t *nodes; /* [part->n_stacks]: of a rank, 1 + its node, or 0 for the empty stack */
    uint32_t n_stacks;
};

/* bytes: the range of FG_BLOCK_WANT_TREE. */
enum fg_code fg_block_tree_parse(const struct fg_block_index *index, struct fg_slice bytes,
                                 struct fg_arena *arena, struct fg_block_tree *ret_tree,
                                 struct fg_err *err) fg_must_check;

/*
 * The stacks as names, where the range of FG_BLOCK_WANT_FUNCTION_TREE is not empty, which bytes
 * are: ret_names->nodes is by rank. All of it is the arena's, and fg_function_tree_done() not for
 * it.
 */
enum fg_code fg_block_function_tree_parse(const struct fg_block_index *index, struct fg_slice bytes,
                                          struct fg_arena *arena,
                                          struct fg_function_tree *ret_names,
                                          struct fg_err *err) fg_must_check;

/* Makes the same of the tree, with fg_function_tree_done() for it; names are copied. */
void fg_block_tree_functions(const struct fg_block_tree *tree, struct fg_function_tree *ret_names);

/*
 * The tree with these sums by rank as its values: to be looked at only, with fg_tree_names() or
 * fg_tree_merge_used(). sums[n_stacks], as fg_block_samples_sum() leaves them.
 */
enum fg_code fg_block_tree_values(const struct fg_block_tree *tree, const uint64_t *sums,
                                  struct fg_arena *arena, struct fg_tree *ret_view,
                                  struct fg_err *err) fg_must_check;

/* ---- samples ---- */

/* Unpacks pages of samples, one at a time; kept from page to page, its buffers are used again. */
struct fg_block_samples;
struct fg_block_samples *fg_block_samples_create(size_t max_bytes);
void fg_block_samples_destroy(struct fg_block_samples *samples);
FG_AUTO(fg_block_samples, fg_block_samples_destroy)

/* Page of SMP. index and bytes are borrowed until the next open. */
enum fg_code fg_block_samples_open(struct fg_block_samples *samples,
                                   const struct fg_block_index *index, uint32_t page,
                                   struct fg_slice bytes, struct fg_err *err) fg_must_check;

/*
 * Adds the values of one type of the profiles [first, first + count), those of them that are in the
 * page, to sums[part->n_stacks], by rank. Profiles of series without that type add nothing.
 */
enum fg_code fg_block_samples_sum(struct fg_block_samples *samples, uint32_t first, uint32_t count,
                                  uint32_t type, uint64_t *sums, struct fg_err *err) fg_must_check;

/* Samples of one profile; valid until the next call. */
struct fg_block_sample_set {
    const uint32_t *ranks;  /* ascending, each once */
    const uint64_t *values; /* [n_types][count] */
    uint32_t count, n_types;
};
/* profile is one of the page. */
enum fg_code fg_block_samples_read(struct fg_block_samples *samples, uint32_t profile,
                                   struct fg_block_sample_set *ret_set,
                                   struct fg_err *err) fg_must_check;

/* Samples with a span or a trace, of one page of EXM. */
struct fg_block_exemplar {
    uint32_t profile, rank;
    uint64_t span_id;
    uint8_t trace_id[FG_ID_BYTES];
    const uint64_t *values; /* [n_types of its series] */
};
struct fg_block_exemplars {
    struct fg_block_exemplar *items; /* ascending by profile, rank, span, trace */
    uint32_t count;
};
enum fg_code fg_block_exemplars_parse(const struct fg_block_index *index, uint32_t page,
                                      struct fg_slice bytes, struct fg_arena *arena,
                                      struct fg_block_exemplars *ret_exemplars,
                                      struct fg_err *err) fg_must_check;

/* ---- groups ---- */

struct fg_block_group {
    uint16_t shard;
    uint32_t window;
    uint32_t count;
    struct fg_id digest;
};

/* bytes: the range of FG_BLOCK_WANT_GROUPS; *ret_groups has part->n_groups, ascending. */
enum fg_code fg_block_groups_parse(const struct fg_block_part *part, struct fg_slice bytes,
                                   struct fg_arena *arena, struct fg_block_group **ret_groups,
                                   struct fg_err *err) fg_must_check;

#endif
