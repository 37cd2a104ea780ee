/*
 * Writes a block or segment to a sink, from start to end. README.md describes the format.
 *
 * The same profiles give the same bytes (with the same version of zstd), independent of the order
 * and numbers in the tree and of the order of samples. The caller passes parts, time stripes,
 * series and profiles in order, so that the writer does not have to sort more than fits in memory:
 *
 *     create
 *       part_begin      parts ascending by (tenant, service)
 *         stripe_begin  stripes ascending by time; not needed before the first
 *           series      ascending by fg_block_series_cmp()
 *             profile   ascending by (time, id)
 *       part_end
 *     finish
 *     destroy
 *
 * After a failure, destroy the writer and discard what it wrote.
 *
 * Stacks have the numbers of head records: 0 is the empty stack, i + 1 the stack that ends in node
 * i of the tree of the part.
 *
 * Thread: one at a time. Memory for the current part: about 30 bytes per profile, 200 per series,
 * 12 per series chunk, 40 per node of its tree, and a page. For all parts: 150 bytes each, and
 * their groups.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_WRITER_H
#define FG_COMMON_STORAGE_BLOCK_WRITER_H

#include "common/model/function_tree.h"
#include "common/storage/block/format.h"
#include "common/storage/seal/keys.h"

/* The destination. append() gets the bytes in order; a failure of it is a failure of the writer. */
struct fg_block_sink {
    enum fg_code (*append)(void *arg, struct fg_slice bytes, struct fg_err *err);
    void *arg;
};

struct fg_block_writer;
struct fg_block_part;
struct fg_block_sealer;

/* Creates a writer. level: 0 for a segment, else the level of the block (fg_blocks_entry). */
struct fg_block_writer *fg_block_writer_create(const struct fg_block_sink *sink, uint32_t level);
/* Frees the writer. Accepts NULL. */
void fg_block_writer_destroy(struct fg_block_writer *writer);

/* Sets the version to write, before the first part: at least FG_BLOCK_VERSION_LEAST, for readers
 * that do not know the newest; 0: the newest. Version 2 has no sizes of profiles. */
void fg_block_writer_set_version(struct fg_block_writer *writer, uint32_t version);
FG_AUTO(fg_block_writer, fg_block_writer_destroy)

/* Sets where the keys of tenants are, before the first part; borrowed. The pages of each part are
 * encrypted with the newest key of its tenant. Without keys nothing is encrypted. */
void fg_block_writer_set_keys(struct fg_block_writer *writer, const struct fg_keys *keys);

/*
 * Begins the part of a (tenant, service). tree: structure and symbols of its stacks; values are
 * ignored, and nodes that no stack needs are left out. uses[1 + tree->n_nodes]: in how many
 * profiles of the part each stack occurs. Tree and uses are borrowed until part_end. FG_E_INVALID:
 * out of order. FG_E_LIMIT: names too long, too many parts. Errors of fg_keys_newest(), and
 * FG_E_UNIMPLEMENTED: the version to write cannot be encrypted.
 */
enum fg_code fg_block_part_begin(struct fg_block_writer *writer, struct fg_slice tenant,
                                 struct fg_slice service, const struct fg_tree *tree,
                                 const uint32_t *uses, struct fg_err *err) fg_must_check;

/* A series: labels and schema. Labels are sorted, include __name__, and exclude those that are
 * derived from the type. */
struct fg_block_series {
    struct fg_labels labels;
    const struct fg_value_type *types; /* [n_types], 1 to FG_BATCH_TYPES_MAX */
    uint32_t n_types;
    struct fg_value_type period_type; /* empty: none */
};

/* Returns the profile type of one of its types; borrowed from the series. */
struct fg_profile_type fg_block_series_type(const struct fg_block_series *series, uint32_t type);

/* Compares series in the order of a part: labels, then period type, then types. 0: the same series.
 */
int fg_block_series_cmp(const struct fg_block_series *a, const struct fg_block_series *b);

/*
 * Begins a time stripe: all following profiles are later than those before, and series start again.
 * The samples of a stripe are adjacent, so many series of a short span are read best with short
 * stripes, and one series of a long span with long ones; about a megabyte per stripe is what one
 * request should fetch (compactor/merge/merge.c). A stripe without profiles is left out.
 * FG_E_INVALID, FG_E_LIMIT: those of ending a series.
 */
enum fg_code fg_block_stripe_begin(struct fg_block_writer *writer,
                                   struct fg_err *err) fg_must_check;

/*
 * Begins a series, which is copied. A series without profiles is left out.
 * FG_E_INVALID: out of order, labels not sorted, no types. FG_E_LIMIT.
 */
enum fg_code fg_block_series_begin(struct fg_block_writer *writer,
                                   const struct fg_block_series *series,
                                   struct fg_err *err) fg_must_check;

/* A sample with a span or a trace. It is one of the samples as well. */
struct fg_block_link {
    uint32_t stack;
    uint64_t span_id;              /* 0: none */
    uint8_t trace_id[FG_ID_BYTES]; /* zero: none */
};

/*
 * A profile. Values are in columns by type: the value of sample i and type t is values[t *
 * n_samples
 * + i]. Values of links are ordered likewise. Values wrap around at 64 bits, as in trees.
 */
struct fg_block_profile {
    struct fg_id id;
    int64_t time_ns, duration_ns, period;
    uint16_t shard;
    uint32_t window; /* until / 10 min: common/cluster/README.md#words */
    struct fg_profile_size size;
    uint32_t n_samples, n_links;
    const uint32_t *stacks;            /* [n_samples]; in any order, equal ones are summed */
    const uint64_t *values;            /* [n_types][n_samples] */
    const struct fg_block_link *links; /* [n_links], in any order */
    const uint64_t *link_values;       /* [n_types][n_links] */
};

/*
 * Adds a profile to the series. FG_E_INVALID: out of order, a time before the stripe, the same
 * (time, id) twice, a stack that is not in the tree or has no uses. FG_E_LIMIT: larger than a page.
 */
enum fg_code fg_block_profile_add(struct fg_block_writer *writer,
                                  const struct fg_block_profile *profile,
                                  struct fg_err *err) fg_must_check;

/* The samples of the last added profile in stored form: distinct ascending ranks. Valid until the
 * next call. For sums of what is written (common/storage/rollup/whole.h). */
struct fg_block_added {
    const uint32_t *ranks;  /* [count] */
    const uint64_t *values; /* [n_types][count] */
    uint32_t count, n_types;
};
struct fg_block_added fg_block_profile_added(const struct fg_block_writer *writer);

/*
 * Begins a derived part, with rollups of the profiles of other objects and no profiles of its own.
 * Only sections and part_end may follow. All parts of an object are derived or none is. `derived`
 * describes the profiles that the rollups sum: n_profiles > 0, times inclusive.
 * FG_E_INVALID: out of order, no profiles, or parts with profiles before. FG_E_LIMIT as above.
 */
struct fg_block_derived {
    uint32_t n_profiles;
    int64_t t_min_ns, t_max_ns;
    struct fg_id digest;
    struct fg_usage usage; /* of at most n_profiles */
    /* The part whose sections are copied as they are stored, with its key; NULL: they are new. */
    const struct fg_block_part *copy_of;
};
enum fg_code fg_block_part_begin_derived(struct fg_block_writer *writer, struct fg_slice tenant,
                                         struct fg_slice service,
                                         const struct fg_block_derived *derived,
                                         struct fg_err *err) fg_must_check;

/*
 * For the writer of rollups (common/storage/rollup/writer.h), which are sections of the part.
 * Returns how many stacks are in use, from part_begin on.
 */
uint32_t fg_block_part_n_stacks(const struct fg_block_writer *writer);
/* Ends the profiles of the part. Sets seen[n_series] of the series with profiles, in their order:
 * bit t if a profile has a value of type t. *ret_samples and *ret_bytes: entries of all profiles
 * and their stored size. */
enum fg_code fg_block_part_close(struct fg_block_writer *writer, uint64_t *seen, uint32_t n_series,
                                 uint64_t *ret_samples, uint64_t *ret_bytes,
                                 struct fg_err *err) fg_must_check;
/* Sets stacks[n_stacks] to the stack of each rank. */
void fg_block_part_stacks(const struct fg_block_writer *writer, uint32_t *stacks);
/* Returns what the rollups of the part are sealed with; NULL: they are not encrypted. After the
 * last profile. */
struct fg_block_sealer *fg_block_part_sealer(struct fg_block_writer *writer);
/* Sets the bytes of a section from FG_BLOCK_NOD to FG_BLOCK_FUL, each at most once, borrowed until
 * part_end. They are stored as they are, so they are sealed already. */
void fg_block_part_section(struct fg_block_writer *writer, enum fg_block_kind kind,
                           struct fg_slice bytes);

/*
 * Sets the function tree of the part, for sections of its own: flame graphs can use it instead of
 * the stack tree, which has ten to twenty times as many nodes. names: made from the tree of the
 * part (fg_function_tree_init_stacks() with a node for the empty stack); borrowed until part_end.
 * Nodes that no stack needs are left out.
 */
void fg_block_part_function_tree(struct fg_block_writer *writer,
                                 const struct fg_function_tree *names);

/* Ends the part. A part without profiles is left out, and a derived part without rollups.
 * FG_E_INVALID: the profiles do not match `uses`. */
enum fg_code fg_block_part_end(struct fg_block_writer *writer, struct fg_err *err) fg_must_check;

/* Returns the usage of the last part, valid until the next one begins. */
const struct fg_usage *fg_block_part_usage(const struct fg_block_writer *writer);

/* The fields of an object in manifests. */
struct fg_block_summary {
    uint64_t file_bytes;
    uint64_t directory_offset; /* the directory extends from here to the end of the file */
    uint64_t rollup_offset;    /* NOD of all parts: from here to the directory */
    uint64_t n_profiles;
    uint32_t n_parts;
    int64_t t_min_ns, t_max_ns; /* least and greatest time of a profile, inclusive; 0 without any */
    struct fg_id digest;        /* sum of the profiles' ids */
    struct fg_usage usage;      /* of the profiles */
};

/* Writes directory and trailer. */
enum fg_code fg_block_writer_finish(struct fg_block_writer *writer,
                                    struct fg_block_summary *ret_summary,
                                    struct fg_err *err) fg_must_check;

#endif
