/*
 * Makes the merged nodes of a part while it is written.
 *
 *     fg_block_part_begin ... profiles ...
 *       fg_nodes_writer_create   the part's tree, types, groups
 *       fg_nodes_add             for each key: sums over the tree, by type
 *       fg_nodes_write           gives the block writer the sections NOD, CRN, FTB and FUL
 *     fg_block_part_end
 *
 * Sums are by stack as in fg_block_writer's profiles: 0 is the empty stack, i + 1 the one that ends
 * in node i of the part's tree. A key can be added as soon as its profiles are written.
 *
 * What is not worth its bytes is left out. A value that is a multiple of an earlier type's
 * everywhere costs a few bytes. The same calls in the same order give the same bytes, whatever the
 * numbers of the tree are.
 *
 * Thread: one at a time. Memory: 45 bytes a node of the tree, and what was kept so far.
 */
#ifndef FG_COMMON_BLOCK_NODES_WRITER_H
#define FG_COMMON_BLOCK_NODES_WRITER_H

#include "common/block/nodes/format.h"
#include "common/block/nodes/groups.h"
#include "common/block/writer.h"

struct fg_nodes_writer;

struct fg_nodes_options {
    const struct fg_tree *tree;          /* of the part; stays until destroy */
    const struct fg_groups *groups;      /* stays too */
    const struct fg_profile_type *types; /* [n_types], each once; copied */
    uint32_t n_types;
    /* Of parts that hold nodes only: the objects whose profiles they sum up. */
    const struct fg_id *made_of;
    uint32_t n_made_of;
    /* Stacks by rank (fg_block_part_stacks()), copied; NULL: no full nodes. */
    const uint32_t *ranks;
    uint32_t n_ranks;
    uint32_t crown_nodes; /* 0: FG_CROWN_NODES */
};

/* FG_E_LIMIT: more than a part may have. */
enum fg_code fg_nodes_writer_create(const struct fg_nodes_options *options,
                                    struct fg_nodes_writer **ret_writer,
                                    struct fg_err *err) fg_must_check;
void fg_nodes_writer_destroy(struct fg_nodes_writer *writer);
FG_AUTO(fg_nodes_writer, fg_nodes_writer_destroy)

/* One type of a node. */
struct fg_nodes_value {
    uint32_t type;        /* into options.types; ascending within a key */
    const uint64_t *sums; /* [1 + tree->n_nodes]; may be NULL when count is 0 */
    uint64_t count;       /* profiles; 0: there are none, which is worth knowing */
    struct fg_id digest;  /* sum of their ids */
    uint64_t
        replaces_bytes; /* what would have to be read instead: of samples, or of smaller nodes */
};

/* FG_E_INVALID: types twice or out of order, an empty span, a number out of range. FG_E_LIMIT. */
enum fg_code fg_nodes_add(struct fg_nodes_writer *writer, const struct fg_nodes_key *key,
                          const struct fg_nodes_value *values, uint32_t n_values,
                          struct fg_err *err) fg_must_check;

/* Sections as they go into the file; borrowed from the writer, which does nothing after this. */
struct fg_nodes_sections {
    struct fg_slice nod, crn, ftb, ful;
};

/* FG_E_INVALID: a key was added twice. FG_E_LIMIT: more than a page can hold. */
enum fg_code fg_nodes_finish(struct fg_nodes_writer *writer, struct fg_nodes_sections *ret_sections,
                             struct fg_err *err) fg_must_check;

/* The same, as sections of the part at hand; nothing where no node was kept. The writer of nodes
 * stays until part_end. */
enum fg_code fg_nodes_write(struct fg_nodes_writer *writer, struct fg_block_writer *block,
                            struct fg_err *err) fg_must_check;

#endif
