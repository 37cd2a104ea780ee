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
 * Small groups have their sums even if those are not worth their bytes: a filter that matches a
 * group without sums would have to read all blocks. The same blocks give the same bytes.
 *
 * Single series, if there are several and no more than there may be, are listed and have sums in
 * sections of their own, for queries whose filter the groups do not decide. As a block mostly has
 * no full rollups of them, they are summed from profiles. All of them have sums, or none has: if
 * they are not worth their bytes together, or there is no memory for them, they are only listed,
 * which is enough for queries about series of other times.
 *
 * Thread: one at a time. Memory: sums of one family of types over the names of all blocks, stacks
 * of one block, and those names; FG_E_LIMIT if that is not enough even without groups. If there is
 * no room for the sums of all single series, blocks are read several times.
 */
#ifndef FG_COMPACTOR_MERGE_MERGE_PARENT_H
#define FG_COMPACTOR_MERGE_MERGE_PARENT_H

#include "common/storage/rollup/reader.h"
#include "common/storage/rollup/writer.h"
#include "compactor/merge/source.h"

/* How series are divided. */
enum cmp_merge_division { MERGE_GROUPS, MERGE_SINGLE, MERGE_DIVISIONS };

/* What a block has of the service. */
struct cmp_merge_parent_part {
    struct fg_id id;                   /* of the block's object */
    struct cmp_merge_part part;        /* opened; its bytes: from CRN on, all of them if raw */
    struct fg_rollups rollups;         /* n_rows 0: the block has no rollup of the service */
    bool raw[MERGE_DIVISIONS];         /* out: its profiles have to be read */
    uint32_t *groups[MERGE_DIVISIONS]; /* out: the group of each series */
};

static inline bool cmp_merge_parent_is_raw(const struct cmp_merge_parent_part *part)
{
    return part->raw[MERGE_GROUPS] || part->raw[MERGE_SINGLE];
}

struct cmp_merge_parent {
    struct fg_slice tenant, service;
    struct cmp_merge_parent_part *parts; /* ascending by id, each once */
    uint32_t n_parts;
    int64_t start_ns, end_ns; /* the whole span: profiles are in [start, end) */
    bool rollup_only;
    bool only_list_single;   /* profiles are too many to be read for single series */
    uint32_t single_at_once; /* single series that are summed at once; 0: as many as there is room
                                for */
    int64_t parts_ns; /* rollup-only: length of parts of the span that have sums, too; 0: none */
    size_t max_bytes;
    struct fg_arena *arena;                   /* the plan lives there until it was written */
    struct fg_groups groups[MERGE_DIVISIONS]; /* out; without single series n_groups is 0 */
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
