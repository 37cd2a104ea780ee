/*
 * Writes a block or segment to a sink, from front to end. README.md has the format.
 *
 * The same profiles give the same bytes, in whatever order or numbering the tree and the samples of
 * a profile come (with the same version of zstd). Parts, stripes, series and profiles are asked for
 * in order, so that nothing has to be sorted that does not fit in memory:
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
 * After any failure the writer is of no use but to be destroyed, and so is what it wrote.
 *
 * Stacks have numbers as in the head's records: 0 is the empty stack, i + 1 the stack that ends in
 * node i of the part's tree.
 *
 * Thread: one at a time. Memory: about 30 bytes a profile, 200 a series and 12 for each stripe that
 * it is in, of the part at hand, 40 for a node of its tree, and a page; nothing else grows with the
 * size of the file but 150 bytes and the groups of each part.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_WRITER_H
#define FG_COMMON_STORAGE_BLOCK_WRITER_H

#include "common/model/function_tree.h"
#include "common/storage/block/format.h"

/* Where the bytes go. append() gets them in order; its failure ends the writing. */
struct fg_block_sink {
    enum fg_code (*append)(void *arg, struct fg_slice bytes, struct fg_err *err);
    void *arg;
};

struct fg_block_writer;

/* level: 0 for a segment, what the compactor's levels say for blocks. */
struct fg_block_writer *fg_block_writer_create(const struct fg_block_sink *sink, uint32_t level);
void fg_block_writer_destroy(struct fg_block_writer *writer);

/* Writes the format of an older version, FG_BLOCK_VERSION_LEAST at least, for readers that do not
 * know the newest; 0: the newest. Version 2 keeps no sizes of profiles. Before the first part. */
void fg_block_writer_set_version(struct fg_block_writer *writer, uint32_t version);
FG_AUTO(fg_block_writer, fg_block_writer_destroy)

/*
 * Begins the part of a (tenant, service). tree: structure and symbols of its stacks; its values are
 * not looked at, nodes that no stack needs are left out. uses[1 + tree->n_nodes]: in how many
 * profiles of the part a stack occurs. Tree and uses stay until part_end.
 * FG_E_INVALID: out of order. FG_E_LIMIT: names too long, too many parts.
 */
enum fg_code fg_block_part_begin(struct fg_block_writer *writer, struct fg_slice tenant,
                                 struct fg_slice service, const struct fg_tree *tree,
                                 const uint32_t *uses, struct fg_err *err) fg_must_check;

/* Labels and schema, which together make a series. Labels are sorted, with __name__, without those
 * made from the type. */
struct fg_block_series {
    struct fg_labels labels;
    const struct fg_value_type *types; /* [n_types], 1 to FG_BATCH_TYPES_MAX */
    uint32_t n_types;
    struct fg_value_type period_type; /* empty: none */
};

/* The profile type of one of its types; borrowed from it. */
struct fg_profile_type fg_block_series_type(const struct fg_block_series *series, uint32_t type);

/* The order of series in a part: labels, then period type, then types. 0: they are one series. */
int fg_block_series_cmp(const struct fg_block_series *a, const struct fg_block_series *b);

/*
 * What follows is later than all profiles of the part so far, and series begin anew. Samples of a
 * stripe lie together, so a stretch of time of many series is best read by stripes, and a series in
 * few of them: about a megabyte each is what one request brings (compactor/merge/merge.c). A
 * stripe without profiles is left out. FG_E_INVALID, FG_E_LIMIT: as where a series ends.
 */
enum fg_code fg_block_stripe_begin(struct fg_block_writer *writer,
                                   struct fg_err *err) fg_must_check;

/*
 * What follows is of this series; it is copied. A series without profiles is left out.
 * FG_E_INVALID: out of order, labels not sorted, no types. FG_E_LIMIT.
 */
enum fg_code fg_block_series_begin(struct fg_block_writer *writer,
                                   const struct fg_block_series *series,
                                   struct fg_err *err) fg_must_check;

/* A sample with a span or a trace. It is part of the samples too. */
struct fg_block_link {
    uint32_t stack;
    uint64_t span_id;              /* 0: none */
    uint8_t trace_id[FG_ID_BYTES]; /* zero: none */
};

/*
 * Columns of values are type after type: that of sample i and type t is values[t * n_samples + i].
 * Values of links likewise. Values wrap around at 64 bits, as in trees.
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
 * FG_E_INVALID: out of order, of the time of an earlier stripe, the same (time, id) twice, a stack
 * that is not of the tree or was said to have no uses. FG_E_LIMIT: more than a page can hold.
 */
enum fg_code fg_block_profile_add(struct fg_block_writer *writer,
                                  const struct fg_block_profile *profile,
                                  struct fg_err *err) fg_must_check;

/* Samples of the profile that was added last, as it is stored: ranks ascend, each once. Valid until
 * the next call. For sums of what is written (nodes/whole.h). */
struct fg_block_added {
    const uint32_t *ranks;  /* [count] */
    const uint64_t *values; /* [n_types][count] */
    uint32_t count, n_types;
};
struct fg_block_added fg_block_profile_added(const struct fg_block_writer *writer);

/*
 * Begins a part that holds merged nodes of other objects' profiles and none of its own: sections
 * and part_end are all that follows. An object has parts of one sort only. What its nodes sum up is
 * said in place of what it would hold: n_profiles > 0, times inclusive.
 * FG_E_INVALID: out of order, no profiles, or parts with profiles before. FG_E_LIMIT as above.
 */
struct fg_block_made {
    uint32_t n_profiles;
    int64_t t_min_ns, t_max_ns;
    struct fg_id digest;
    struct fg_usage usage; /* of at most n_profiles */
};
enum fg_code fg_block_part_begin_made(struct fg_block_writer *writer, struct fg_slice tenant,
                                      struct fg_slice service, const struct fg_block_made *made,
                                      struct fg_err *err) fg_must_check;

/*
 * For merged nodes (nodes/writer.h), which lie in the part as sections of their own. How many
 * stacks are in use, and by rank which, from part_begin on; bytes of the kinds from FG_BLOCK_NOD to
 * FG_BLOCK_FUL, each at most once, borrowed until part_end.
 */
uint32_t fg_block_part_n_stacks(const struct fg_block_writer *writer);
/* No more profiles come. seen[n_series], which is as many as had profiles, in their order: bit t:
 * some profile has a value of type t. *ret_samples, *ret_bytes: entries of all profiles, and what
 * they take as stored. */
enum fg_code fg_block_part_close(struct fg_block_writer *writer, uint64_t *seen, uint32_t n_series,
                                 uint64_t *ret_samples, uint64_t *ret_bytes,
                                 struct fg_err *err) fg_must_check;
void fg_block_part_stacks(const struct fg_block_writer *writer, uint32_t *stacks);
void fg_block_part_section(struct fg_block_writer *writer, enum fg_block_kind kind,
                           struct fg_slice bytes);

/*
 * The part's stacks as names, for sections beside its tree: who draws pictures need not read that
 * then, which has ten to twenty times as many nodes. names: of the part's tree, numbered by its
 * nodes (fg_function_tree_init_stacks(), with one for the empty stack); borrowed until part_end.
 * What no stack needs is left out.
 */
void fg_block_part_function_tree(struct fg_block_writer *writer,
                                 const struct fg_function_tree *names);

/* FG_E_INVALID: uses were not as said. A part without profiles is left out, and one of merged nodes
 * without any. */
enum fg_code fg_block_part_end(struct fg_block_writer *writer, struct fg_err *err) fg_must_check;

/* Usage of the part that ended last; valid until the next one begins. */
const struct fg_usage *fg_block_part_usage(const struct fg_block_writer *writer);

/* What manifests say of an object. */
struct fg_block_summary {
    uint64_t file_bytes;
    uint64_t directory_offset; /* the directory reaches from here to the end of the file */
    uint64_t rollup_offset;    /* NOD of all parts: from here to the directory */
    uint64_t n_profiles;
    uint32_t n_parts;
    int64_t t_min_ns, t_max_ns; /* least and greatest time of a profile, inclusive; 0 without any */
    struct fg_id digest;        /* sum of the profiles' ids */
    struct fg_usage usage;      /* of the profiles */
};

enum fg_code fg_block_writer_finish(struct fg_block_writer *writer,
                                    struct fg_block_summary *ret_summary,
                                    struct fg_err *err) fg_must_check;

#endif
