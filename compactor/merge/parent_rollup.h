/*
 * Merged nodes over the blocks of a longer span: a part that holds nodes of other objects and no
 * profiles. A service at a time; of all its series, and of its groups where there are several.
 *
 * Sums come from full nodes of the blocks, which are linear, never from crowns; where a block has
 * not got what is needed, from its profiles. Series of all blocks are grouped anew together: a full
 * node of a block's group is of use if its series are all of one new group.
 *
 *   cmp_merge_parent_plan    looks at series and nodes; says whose profiles are needed after all
 *   cmp_merge_parent_write   sums up and writes the part
 *
 * Nodes that are alone take the place of the blocks: they are of every service and every type,
 * worth their bytes or not, and beside the whole span of each part of it that blocks were of
 * (parts_ns), so that questions can be about some of it.
 *
 * Series have no nodes here. Small groups have theirs, worth them or not by themselves: a filter
 * that matches a group without would have to read all blocks. The same blocks give the same bytes.
 *
 * Thread: one at a time. Memory: sums of a family of types over the names of all blocks, stacks of
 * one block, and those names; FG_E_LIMIT where that does not suffice even without groups.
 */
#ifndef FG_COMPACTOR_MERGE_PARENT_ROLLUP_H
#define FG_COMPACTOR_MERGE_PARENT_ROLLUP_H

#include "common/storage/rollup/reader.h"
#include "common/storage/rollup/writer.h"
#include "compactor/merge/source.h"

/* What a block has of the service. */
struct cmp_merge_parent_part {
    struct fg_id id;            /* of the block's object */
    struct cmp_merge_part part; /* opened; its bytes: from CRN on, all where they are raw */
    struct fg_rollups nodes;    /* n_rows 0: there are none */
    bool raw;                   /* out: profiles have to be read */
    uint32_t *groups;           /* out: of a series */
};

struct cmp_merge_parent {
    struct fg_slice tenant, service;
    struct cmp_merge_parent_part *parts; /* ascending by id, each once */
    uint32_t n_parts;
    int64_t start_ns, end_ns; /* of it all: profiles are in [start, end) */
    bool rollup_only;
    int64_t parts_ns; /* alone: parts of the span have nodes too; 0: none */
    size_t max_bytes;
    struct fg_arena *arena;  /* what is found out lives there until it is written */
    struct fg_groups groups; /* out */
};

/* FG_E_LIMIT: the arena is full. */
enum fg_code cmp_merge_parent_plan(struct cmp_merge_parent *parent,
                                   struct fg_err *err) fg_must_check;

/*
 * Adds the part to the block, unless none of its nodes is worth its bytes. *ret_left_out: groups or
 * types were left out for lack of memory. FG_E_CORRUPT: a block is broken, or its nodes do not add
 * up to what its series say. FG_E_LIMIT: nothing was written; where they are alone, also if
 * anything but groups would be left out.
 */
enum fg_code cmp_merge_parent_write(const struct cmp_merge_parent *parent,
                                    struct fg_block_writer *block, bool *ret_left_out,
                                    struct fg_err *err) fg_must_check;

#endif
