/*
 * Parent rollups: sums over the blocks of a longer span, in parts without profiles. One service at
 * a time; over all its series, and over its groups if it has several.
 *
 * The sums come from full rollups of the blocks, which add up exactly, never from crowns; if a
 * block lacks what is needed, from its profiles. The series of all blocks are grouped again
 * together; a full rollup of a block's group can be used if its series are all in one new group.
 *
 *   cmp_merge_parent_plan    looks at series and rollups; says whose profiles are needed
 *   cmp_merge_parent_write   sums up and writes the part
 *
 * A rollup that replaces its blocks (`alone`, rollup-only) has every service and every type,
 * whether worth their bytes or not, and besides the whole span also each part of it that blocks had
 * (parts_ns), so that queries can ask for some of it.
 *
 * Single series have no sums here. Small groups have theirs even if those are not worth their
 * bytes: a filter that matches a group without sums would have to read all blocks. The same blocks
 * give the same bytes.
 *
 * Thread: one at a time. Memory: sums of one family of types over the names of all blocks, stacks
 * of one block, and those names; FG_E_LIMIT if that is not enough even without groups.
 */
#ifndef FG_COMPACTOR_MERGE_PARENT_ROLLUP_H
#define FG_COMPACTOR_MERGE_PARENT_ROLLUP_H

#include "common/storage/rollup/reader.h"
#include "common/storage/rollup/writer.h"
#include "compactor/merge/source.h"

/* What a block has of the service. */
struct cmp_merge_parent_part {
    struct fg_id id;            /* of the block's object */
    struct cmp_merge_part part; /* opened; its bytes: from CRN on, all of them if raw */
    struct fg_rollups rollups;  /* n_rows 0: the block has no rollup of the service */
    bool raw;                   /* out: its profiles have to be read */
    uint32_t *groups;           /* out: the group of each series */
};

struct cmp_merge_parent {
    struct fg_slice tenant, service;
    struct cmp_merge_parent_part *parts; /* ascending by id, each once */
    uint32_t n_parts;
    int64_t start_ns, end_ns; /* the whole span: profiles are in [start, end) */
    bool rollup_only;
    int64_t parts_ns; /* rollup-only: length of parts of the span that have sums, too; 0: none */
    size_t max_bytes;
    struct fg_arena *arena;  /* the plan lives there until it was written */
    struct fg_groups groups; /* out */
};

/* Finds out how to sum up the service. FG_E_LIMIT: the arena is full. */
enum fg_code cmp_merge_parent_plan(struct cmp_merge_parent *parent,
                                   struct fg_err *err) fg_must_check;

/*
 * Adds the part to the block, unless none of its sums is worth its bytes. *ret_left_out: groups or
 * types were left out for lack of memory. FG_E_CORRUPT: a block is damaged, or its rollup does not
 * add up to its series. FG_E_LIMIT: nothing was written; if alone, also if anything except groups
 * would be left out.
 */
enum fg_code cmp_merge_parent_write(const struct cmp_merge_parent *parent,
                                    struct fg_block_writer *block, bool *ret_left_out,
                                    struct fg_err *err) fg_must_check;

#endif
