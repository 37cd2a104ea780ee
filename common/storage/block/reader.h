/*
 * Reads blocks and segments. It does no I/O: every function works on bytes that the caller fetched,
 * and tells beforehand which bytes it needs, so that a querier can fetch in waves:
 *
 *   wave 1   the tail of the object               fg_block_directory_parse()
 *            (rollup directories are before it: common/storage/rollup/reader.h)
 *   wave 2   fg_block_part_range() of the parts   fg_block_part_parse(), fg_block_tree_parse()
 *   wave 3   fg_block_pages_mark()                fg_block_rows_parse(), fg_block_samples_open()
 *
 * Directories, parts and trees never change, so they may be cached forever.
 *
 * It does not trust the input: before use it compares the checksum of every page and the bounds of
 * every number. A result of a parser has only valid indexes and is in order. fg_block_verify()
 * checks facts that only several sections together show (totals, digests, uses). FG_E_CORRUPT names
 * the fault and its place. FG_E_LIMIT: the arena or the given limit is too small.
 * FG_E_UNIMPLEMENTED: the bytes are not damaged, but a newer version wrote them, or they are
 * encrypted with a key that this program does not have. FG_E_UNAVAILABLE: it cannot be had now.
 *
 * Results live in the arena and do not refer to the given bytes unless stated.
 *
 * Thread: results are read-only; any number of threads may use them.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_READER_H
#define FG_COMMON_STORAGE_BLOCK_READER_H

#include "common/model/function_tree.h"
#include "common/model/label_index.h"
#include "common/model/selector.h"
#include "common/storage/block/format.h"
#include "common/storage/seal/keys.h"

struct fg_block_range {
    uint64_t offset, len; /* of the object, bytes */
};

/* ---- the directory ---- */

/*
 * Returns the offset of the directory, which extends to the end of the object. tail: the last bytes
 * of the object, at least FG_BLOCK_TRAILER_BYTES. Manifests have this offset as well.
 */
enum fg_code fg_block_directory_offset(struct fg_slice tail, uint64_t file_bytes,
                                       uint64_t *ret_offset, struct fg_err *err) fg_must_check;

struct fg_block_section {
    uint32_t kind; /* enum fg_block_kind, or an unknown one */
    struct fg_block_range range;
};

/*
 * A part. n_series 0: it is derived, with rollups of other objects and no profiles of its own.
 * n_profiles, digest and times are then those of the profiles that the rollups sum, and there are
 * no groups, stacks and samples.
 */
struct fg_block_part {
    struct fg_slice tenant, service;
    int64_t t_min_ns, t_max_ns; /* of the profiles' times, inclusive */
    uint32_t n_series, n_profiles, n_stacks, n_nodes, n_groups;
    uint64_t n_samples; /* entries of all profiles */
    struct fg_id digest;
    struct fg_usage usage; /* of its profiles; version 2 has none */
    /* Key of its page table, groups and rollups; 0: not encrypted. The fields of this struct are
     * not encrypted. */
    uint32_t key;
    const struct fg_keys *keys; /* where it is; NULL: there are no keys */
    uint32_t
        symbols_version; /* of its stacks and function tree; a newer one is FG_E_UNIMPLEMENTED */
    uint32_t version;    /* of the object's format */
    /* Ascending by kind, without gaps, except NOD and GRP, which follow all parts. */
    struct fg_block_section *sections;
    uint32_t n_sections;
    uint32_t table_raw_bytes, table_crc, groups_raw_bytes, groups_crc;
};

/* Returns with what the pages of a part are sealed; the texts are the part's. */
static inline struct fg_seal_part fg_block_seal_of_part(const struct fg_block_part *part)
{
    return (struct fg_seal_part){part->keys, part->tenant, part->service, part->digest};
}

struct fg_block_directory {
    uint32_t level;
    bool derived; /* all parts are derived; else none is */
    uint64_t file_bytes, n_profiles;
    uint64_t rollup_offset; /* NOD of all parts: from here to the directory */
    int64_t t_min_ns, t_max_ns;
    struct fg_id digest;
    struct fg_usage usage;
    uint32_t version;
    struct fg_block_part *parts; /* ascending by (tenant, service) */
    uint32_t n_parts;
};

/* Parses the directory. bytes: from its offset to the end of the object. keys: for all that is read
 * of its parts later; they outlive the directory. NULL: there are none. */
enum fg_code fg_block_directory_parse(struct fg_slice bytes, uint64_t file_bytes,
                                      const struct fg_keys *keys, struct fg_arena *arena,
                                      struct fg_block_directory *ret_directory,
                                      struct fg_err *err) fg_must_check;

/* Returns the index of the part, or of the first part after its place; compare to see which.
 * Service "" gives the first part of a tenant. */
uint32_t fg_block_part_find(const struct fg_block_directory *directory, struct fg_slice tenant,
                            struct fg_slice service);

/* ---- a part: series and the page table ---- */

/* What to fetch of a part. Tree, function tree and series are adjacent in this order and can be
 * fetched together. The range of the function tree is empty if the part has none. */
enum fg_block_want {
    FG_BLOCK_WANT_SERIES = 1,        /* for fg_block_part_parse() */
    FG_BLOCK_WANT_TREE = 2,          /* for fg_block_tree_parse() */
    FG_BLOCK_WANT_FUNCTION_TREE = 8, /* for fg_block_function_tree_parse() */
    FG_BLOCK_WANT_GROUPS = 4,        /* for fg_block_groups_parse(); not together with the others */
};
/* Returns the range of a set of wants. */
struct fg_block_range fg_block_part_range(const struct fg_block_part *part, unsigned wants);

/* A page of a section. */
struct fg_block_page {
    uint64_t offset;    /* in the object */
    uint32_t bytes;     /* stored; less than raw_bytes: packed by zstd */
    uint32_t raw_bytes; /* unpacked */
    uint32_t crc;       /* crc32c of the stored bytes */
    uint32_t key;       /* of its encryption; 0: not encrypted */
    uint32_t first;     /* number of the first item: SMP, EXM, PID and IDX count profiles */
    uint32_t items;
    int64_t t_min_ns, t_max_ns; /* of its profiles; SMP, EXM, PID and IDX */
};

struct fg_block_pages {
    const struct fg_block_page *pages;
    uint32_t count;
};

struct fg_block_series_row {
    struct fg_labels labels; /* without those derived from the type */
    uint32_t *postings;      /* [labels.count]: index of each label in index->postings */
    const struct fg_block_schema *schema;
    uint64_t seen;          /* bit t: a profile has a value of type t */
    const uint32_t *chunks; /* [n_chunks], ascending: into index->chunks */
    uint32_t n_chunks, n_profiles;
    int64_t t_min_ns, t_max_ns;
};

/*
 * A series chunk, the profiles of a series in a time stripe: profiles [first, first + count) of the
 * part, ascending by (time, id). Profiles are numbered by (stripe, series, time, id), so chunks
 * ascend by their profiles, and the chunks of a series also by time.
 */
struct fg_block_chunk {
    uint32_t series, first, count;
    int64_t t_min_ns, t_max_ns; /* bounds of its times: those of the stripe and of the series */
};

struct fg_block_index {
    const struct fg_block_part *part;   /* borrowed from the directory */
    struct fg_block_series_row *series; /* ascending */
    struct fg_block_chunk *chunks;      /* ascending: each profile is in one */
    struct fg_label_posting *postings;  /* ascending by name, then value */
    struct fg_block_schema *schemas;
    uint32_t n_series, n_chunks, n_postings, n_schemas;
    struct fg_block_pages pages[FG_BLOCK_KINDS_MAX]; /* by kind */
};

/* Parses series and page table. bytes: the range of FG_BLOCK_WANT_SERIES. A derived part has no
 * series. */
enum fg_code fg_block_part_parse(const struct fg_block_part *part, struct fg_slice bytes,
                                 struct fg_arena *arena, struct fg_block_index *ret_index,
                                 struct fg_err *err) fg_must_check;

/* Returns how many chunks the index of a part is likely to have at most, from its directory entry
 * and the compactor's rule for stripes. */
uint64_t fg_block_guess_chunks(const struct fg_block_part *part);

/* Returns the number of the chunk of a profile. */
uint32_t fg_block_chunk_of(const struct fg_block_index *index, uint32_t profile);

/* Returns the first page with a profile >= `profile`; pages->count if there is none. */
uint32_t fg_block_page_of(const struct fg_block_pages *pages, uint32_t profile);

/* A series that matches, with the sample type. */
struct fg_block_match {
    uint32_t series, type;
};

/*
 * Finds the series and types that match, ascending, of types that occur in profiles. It uses the
 * postings, except for labels that are derived from the type (fg_labels_with_type()). Errors of the
 * selector's `wanted`.
 */
enum fg_code fg_block_select(const struct fg_block_index *index, const struct fg_selector *selector,
                             struct fg_arena *arena, struct fg_block_match **ret_matches,
                             uint32_t *ret_count, struct fg_err *err) fg_must_check;

/* Do the two halves of it: *ret_live is an array in the arena, true for each series whose stored
 * labels match; returned are the types of a series (bit t) whose derived labels match, whether or
 * not they occur in profiles. Series of the same schema, name and service have the same. */
enum fg_code fg_block_select_series(const struct fg_block_index *index,
                                    const struct fg_selector *selector, struct fg_arena *arena,
                                    bool **ret_live, struct fg_err *err) fg_must_check;
uint64_t fg_block_select_types(const struct fg_block_series_row *row,
                               const struct fg_selector *selector);

/* Returns the profile type of a sample type of a series; borrowed from the index. */
struct fg_profile_type fg_block_profile_type(const struct fg_block_series_row *series,
                                             uint32_t type);

/* ---- which pages ---- */

/*
 * Sets marks[i] for each page i of a kind (SMP, EXM, PID or IDX) that may have a profile of [first,
 * first + count) with a time in [start, end].
 */
void fg_block_pages_mark(const struct fg_block_pages *pages, uint32_t first, uint32_t count,
                         int64_t start_ns, int64_t end_ns, bool *marks);

/* ---- profiles: times and totals ---- */

/* Rows of one page of IDX. Row i is profile first + i. */
struct fg_block_rows {
    uint32_t first, count;
    uint32_t *series;
    int64_t *times_ns, *durations_ns, *periods;
    uint32_t *n_samples;
    uint16_t *shards;
    uint32_t *windows;
    uint64_t **totals; /* [count][n_types of its series], modulo 2^64 */
};

/* Parses a page of IDX. page: its number in index->pages[FG_BLOCK_IDX]; bytes: the stored page. The
 * functions below take both in the same way. */
enum fg_code fg_block_rows_parse(const struct fg_block_index *index, uint32_t page,
                                 struct fg_slice bytes, struct fg_arena *arena,
                                 struct fg_block_rows *ret_rows, struct fg_err *err) fg_must_check;

/* Parses only series, times and totals, in half the time. The other arrays are NULL, and their
 * content is not checked. */
enum fg_code fg_block_totals_parse(const struct fg_block_index *index, uint32_t page,
                                   struct fg_slice bytes, struct fg_arena *arena,
                                   struct fg_block_rows *ret_rows,
                                   struct fg_err *err) fg_must_check;

/* Parses the profile ids of one page of PID: index->pages[FG_BLOCK_PID].pages[page].items of them.
 */
enum fg_code fg_block_ids_parse(const struct fg_block_index *index, uint32_t page,
                                struct fg_slice bytes, struct fg_arena *arena,
                                struct fg_id **ret_ids, struct fg_err *err) fg_must_check;

/*
 * Parses the sizes of the profiles of one page of USE, as many as the page has items.
 * index->pages[FG_BLOCK_USE] has the rows of IDX, or no pages: then all sizes are unknown.
 */
enum fg_code fg_block_sizes_parse(const struct fg_block_index *index, uint32_t page,
                                  struct fg_slice bytes, struct fg_arena *arena,
                                  struct fg_profile_size **ret_sizes,
                                  struct fg_err *err) fg_must_check;

/* ---- stacks ---- */

struct fg_block_tree {
    struct fg_tree tree; /* read-only: its arrays are in the arena, self is NULL */
    const uint32_t
        *nodes; /* [part->n_stacks]: 1 + the node of each rank, or 0 for the empty stack */
    uint32_t n_stacks;
};

/* Parses the stack tree. bytes: the range of FG_BLOCK_WANT_TREE. */
enum fg_code fg_block_tree_parse(const struct fg_block_index *index, struct fg_slice bytes,
                                 struct fg_arena *arena, struct fg_block_tree *ret_tree,
                                 struct fg_err *err) fg_must_check;

/*
 * Parses the function tree, if the part has one. bytes: the range of FG_BLOCK_WANT_FUNCTION_TREE.
 * ret_names->nodes is indexed by rank. All of it is in the arena; do not call
 * fg_function_tree_done().
 */
enum fg_code fg_block_function_tree_parse(const struct fg_block_index *index, struct fg_slice bytes,
                                          struct fg_arena *arena,
                                          struct fg_function_tree *ret_names,
                                          struct fg_err *err) fg_must_check;

/* Makes the same function tree from the stack tree. Free it with fg_function_tree_done(); names are
 * copied. */
void fg_block_tree_functions(const struct fg_block_tree *tree, struct fg_function_tree *ret_names);

/*
 * Returns a view of the tree with sums[n_stacks] by rank, from fg_block_samples_sum(), as its
 * values. It is read-only, for fg_tree_names() and fg_tree_merge_used().
 */
enum fg_code fg_block_tree_values(const struct fg_block_tree *tree, const uint64_t *sums,
                                  struct fg_arena *arena, struct fg_tree *ret_view,
                                  struct fg_err *err) fg_must_check;

/* ---- samples ---- */

/* A reader of pages of samples, one page at a time, that reuses its buffers. */
struct fg_block_samples;
/* Create and free one. max_bytes: memory of its buffers. */
struct fg_block_samples *fg_block_samples_create(size_t max_bytes);
void fg_block_samples_destroy(struct fg_block_samples *samples);
FG_AUTO(fg_block_samples, fg_block_samples_destroy)

/* Opens a page of SMP. index and bytes are borrowed until the next open. */
enum fg_code fg_block_samples_open(struct fg_block_samples *samples,
                                   const struct fg_block_index *index, uint32_t page,
                                   struct fg_slice bytes, struct fg_err *err) fg_must_check;

/*
 * Adds the values of one type of all profiles in [first, first + count) that are in the page to
 * sums[part->n_stacks], by rank. Profiles of series without that type add nothing.
 */
enum fg_code fg_block_samples_sum(struct fg_block_samples *samples, uint32_t first, uint32_t count,
                                  uint32_t type, uint64_t *sums, struct fg_err *err) fg_must_check;

/* Samples of one profile; valid until the next call. */
struct fg_block_sample_set {
    const uint32_t *ranks;  /* ascending, each once */
    const uint64_t *values; /* [n_types][count] */
    uint32_t count, n_types;
};
/* Reads the samples of a profile of the page. */
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
/* Parses a page of EXM. */
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

/* Parses the groups. bytes: the range of FG_BLOCK_WANT_GROUPS. *ret_groups has part->n_groups
 * elements, ascending. */
enum fg_code fg_block_groups_parse(const struct fg_block_part *part, struct fg_slice bytes,
                                   struct fg_arena *arena, struct fg_block_group **ret_groups,
                                   struct fg_err *err) fg_must_check;

#endif
