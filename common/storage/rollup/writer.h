/*
 * Makes the merged nodes of a part while it is written.
 *
 *     fg_block_part_begin ... profiles ...
 *       fg_rollup_writer_create   the part's tree, types, groups
 *       fg_rollup_add             for each key: sums by node of names and by rank, by type
 *       fg_rollup_write           gives the block writer the sections NOD, CRN, FTB and FUL, and
 *                                its names where asked to: it stays until part_end then
 *     fg_block_part_end
 *
 * Sums for crowns and tables are by node of fg_rollup_writer_functions(), which are far fewer than
 * stacks; only full nodes need sums by stack.
 *
 * What is not worth its bytes is left out. A value that is a multiple of an earlier type's
 * everywhere costs a few bytes. The same calls in the same order give the same bytes, whatever the
 * numbers of the tree are.
 *
 * Thread: one at a time. Memory: 45 bytes a node of the tree, and what was kept so far.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_WRITER_H
#define FG_COMMON_STORAGE_ROLLUP_WRITER_H

#include "common/storage/block/writer.h"
#include "common/storage/rollup/format.h"
#include "common/storage/rollup/groups.h"

struct fg_rollup_writer;

struct fg_rollup_options {
    const struct fg_tree *tree;          /* of the part; stays until destroy */
    const struct fg_groups *groups;      /* stays too */
    const struct fg_profile_type *types; /* [n_types], each once; copied */
    uint32_t n_types;
    /* Of parts that hold nodes only: the objects whose profiles they sum up. */
    const struct fg_id *derived_from;
    uint32_t n_derived_from;
    /* Those objects will be gone: everything is kept, whatever it is worth, and what cannot be is
     * an error. */
    bool all;
    bool named;           /* names of all stacks as well (fg_block_part_function_tree()) */
    uint32_t n_ranks;     /* stacks of the part (fg_block_part_n_stacks()); 0: no full nodes */
    uint32_t crown_nodes; /* 0: FG_CROWN_NODES */
};

/* FG_E_LIMIT: more than a part may have. */
enum fg_code fg_rollup_writer_create(const struct fg_rollup_options *options,
                                     struct fg_rollup_writer **ret_writer,
                                     struct fg_err *err) fg_must_check;
void fg_rollup_writer_destroy(struct fg_rollup_writer *writer);
FG_AUTO(fg_rollup_writer, fg_rollup_writer_destroy)

/* The names that stacks of the tree have: names->nodes[] says which of its nodes one ends in,
 * names->no_stack that of the empty stack. */
const struct fg_function_tree *fg_rollup_writer_functions(const struct fg_rollup_writer *writer);

/* One type of a node. */
struct fg_rollup_value {
    uint32_t type;        /* into options.types; ascending within a key */
    const int64_t *self;  /* [names->n_nodes]; may be NULL when count is 0 */
    const uint64_t *full; /* [n_ranks], by rank (fg_block_part_stacks()); NULL: no full node. Of a
                             key all values have it or none has. */
    uint64_t count;       /* profiles; 0: there are none, which is worth knowing */
    struct fg_id digest;  /* sum of their ids */
    uint64_t
        replaces_bytes; /* what would have to be read instead: of samples, or of smaller nodes */
};

/* FG_E_INVALID: types twice or out of order, an empty span, a number out of range. FG_E_LIMIT. */
enum fg_code fg_rollup_add(struct fg_rollup_writer *writer, const struct fg_rollup_key *key,
                           const struct fg_rollup_value *values, uint32_t n_values,
                           struct fg_err *err) fg_must_check;

/* Sections as they go into the file; borrowed from the writer, which does nothing after this. */
struct fg_rollup_sections {
    struct fg_slice nod, crn, ftb, ful;
};

/* FG_E_INVALID: a key was added twice. FG_E_LIMIT: more than a page can hold; with all: more than a
 * part may have. */
enum fg_code fg_rollup_finish(struct fg_rollup_writer *writer,
                              struct fg_rollup_sections *ret_sections,
                              struct fg_err *err) fg_must_check;

/* The same, as sections of the part at hand; nothing where no node was kept. The writer of nodes
 * stays until part_end. */
enum fg_code fg_rollup_write(struct fg_rollup_writer *writer, struct fg_block_writer *block,
                             struct fg_err *err) fg_must_check;

#endif
