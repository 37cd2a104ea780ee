/*
 * Makes the rollups of a part while it is written.
 *
 *     fg_block_part_begin ... profiles ...
 *       fg_rollup_writer_create   the part's tree, types, groups
 *       fg_rollup_add             for each key: sums by node of the function tree and by
 *                                 rank, per type
 *       fg_rollup_write           gives the block writer the sections NOD, CRN, FTB and FUL (SND
 *                                 and SCR of single series), and its function tree if asked to:
 *                                 it has to exist until
 *     fg_block_part_end
 *
 * Sums for crowns and function totals are by node of fg_rollup_writer_functions(), which has far
 * fewer nodes than there are stacks; only full values need sums by stack.
 *
 * Forms that are not worth their bytes are left out. If all values of a type are a multiple of
 * those of an earlier type, the rollup costs a few bytes. The same calls in the same order give the
 * same bytes, independent of the numbers in the tree.
 *
 * Thread: one at a time. Memory: 45 bytes per node of the tree, and the forms that are kept.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_WRITER_H
#define FG_COMMON_STORAGE_ROLLUP_WRITER_H

#include "common/storage/block/writer.h"
#include "common/storage/rollup/format.h"
#include "common/storage/rollup/groups.h"

struct fg_rollup_writer;

struct fg_rollup_options {
    const struct fg_tree *tree;          /* of the part; borrowed until destroy */
    const struct fg_groups *groups;      /* borrowed likewise */
    const struct fg_profile_type *types; /* [n_types], distinct; copied */
    uint32_t n_types;
    /* Of derived parts: the objects whose profiles they sum. */
    const struct fg_id *derived_from;
    uint32_t n_derived_from;
    /* The part becomes rollup-only, since those objects will be deleted: all forms are kept, and it
     * is an error if one cannot be. */
    bool all;
    bool single; /* groups are single series: crowns only, in sections of their own */
    bool named;  /* also write the function tree of all stacks (fg_block_part_function_tree()) */
    uint32_t n_ranks;     /* stacks of the part (fg_block_part_n_stacks()); 0: no full values */
    uint32_t crown_nodes; /* 0: FG_CROWN_NODES */
};

/* Creates a writer. FG_E_LIMIT: more than a part may have. */
enum fg_code fg_rollup_writer_create(const struct fg_rollup_options *options,
                                     struct fg_rollup_writer **ret_writer,
                                     struct fg_err *err) fg_must_check;
/* Frees the writer. Accepts NULL. */
void fg_rollup_writer_destroy(struct fg_rollup_writer *writer);
FG_AUTO(fg_rollup_writer, fg_rollup_writer_destroy)

/* Returns the function tree of all stacks: its nodes[] has the node in which each stack ends, and
 * no_stack that of the empty stack. */
const struct fg_function_tree *fg_rollup_writer_functions(const struct fg_rollup_writer *writer);

/* The values of a key for one type. */
struct fg_rollup_value {
    uint32_t type;        /* into options.types; ascending within a key */
    const int64_t *self;  /* [nodes of the function tree]; may be NULL if count is 0 */
    const uint64_t *full; /* [n_ranks], by rank (fg_block_part_stacks()); NULL: no full values. All
                             values of a key have it or none has. */
    uint64_t count;       /* profiles; 0: records that there are none */
    struct fg_id digest;  /* sum of their ids */
    uint64_t replaces_bytes; /* to be read instead: of samples, or of rollups of shorter spans */
};

/* Adds the rollups of a key. FG_E_INVALID: types not ascending, an empty span, a number out of
 * range. FG_E_LIMIT. */
enum fg_code fg_rollup_add(struct fg_rollup_writer *writer, const struct fg_rollup_key *key,
                           const struct fg_rollup_value *values, uint32_t n_values,
                           struct fg_err *err) fg_must_check;

/* The sections as stored, borrowed from the writer, which must not be used except to be destroyed.
 */
struct fg_rollup_sections {
    struct fg_slice nod, crn, ftb, ful;
};

/* Encodes the sections. sealer: of the part (fg_block_part_sealer()); NULL: they are not encrypted.
 * Those of single series are sealed as the others are: what they say is right in either place.
 * FG_E_INVALID: a key was added twice. FG_E_LIMIT: larger than a page; with
 * options.all also: more than a part may have. */
enum fg_code fg_rollup_finish(struct fg_rollup_writer *writer, struct fg_block_sealer *sealer,
                              struct fg_rollup_sections *ret_sections,
                              struct fg_err *err) fg_must_check;

/* Encodes them and gives them to the block writer for the current part, unless no rollup was kept.
 * Keep the rollup writer until part_end. */
enum fg_code fg_rollup_write(struct fg_rollup_writer *writer, struct fg_block_writer *block,
                             struct fg_err *err) fg_must_check;

/* The same for rollups of single series (options.single). If they take more than max_bytes
 * together, all are left out and only the list of series is written. */
enum fg_code fg_rollup_write_single(struct fg_rollup_writer *writer, uint64_t max_bytes,
                                    struct fg_block_writer *block,
                                    struct fg_err *err) fg_must_check;

#endif
