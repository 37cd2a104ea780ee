/*
 * Reads merged nodes. As the reader of blocks it does no I/O: it says which bytes it wants and
 * works on those it is given. A long query costs two ranges an object: crowns and tables need
 * nothing else of their part; full nodes need its stack tree.
 *
 *   wave 1   NOD of all parts and the directory of the object, which lie beside each other
 *            (directory->rollup_offset, which manifests have too)  -> fg_rollups_parse(): what
 * there is wave 2   names, dictionary, and what the plan wants (plan.h): crowns follow in the order
 * of rows, the longest spans of all series first
 *
 * Trusts nothing: checksums are compared, every number has its bound. What is returned lives in the
 * arena. FG_E_CORRUPT says what is wrong and where; FG_E_LIMIT at the arena's end.
 *
 * Thread: parsed things are constant.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_READER_H
#define FG_COMMON_STORAGE_ROLLUP_READER_H

#include "common/model/deletion.h"
#include "common/storage/block/reader.h"
#include "common/storage/rollup/crown.h"
#include "common/storage/rollup/format.h"
#include "common/storage/rollup/groups.h"

/* Where some of a node is. */
struct fg_rollup_place {
    uint64_t offset; /* in its section */
    uint32_t bytes;  /* stored; 0: there is none */
    uint32_t raw_bytes, crc;
    uint32_t items; /* nodes of a crown, rows of a table, ranks of a full node */
};

struct fg_rollup_row {
    struct fg_rollup_key key;
    uint32_t type; /* into types */
    uint64_t count;
    struct fg_id digest;
    int64_t total; /* of all stacks; in version 1 only of those that have a name */
    uint64_t cut_max;
    struct fg_rollup_place places[FG_ROLLUP_FORMS];
    uint64_t factor; /* what is at the places is another row's: times this; else 1 */
};

struct fg_rollups {
    uint32_t version; /* format.h */
    struct fg_profile_type *types;
    uint32_t n_types;
    struct fg_groups groups;
    struct fg_id *derived_from; /* ascending; none: the part's own profiles */
    uint32_t n_derived_from;
    struct fg_rollup_row *rows; /* ascending by type, then key */
    uint32_t n_rows;
    struct fg_rollup_place names, dict;      /* the first of CRN, one after the other */
    uint64_t section_bytes[FG_ROLLUP_FORMS]; /* of CRN, FTB and FUL */
};

/* The sections of nodes in a part; len 0: it has none. */
struct fg_rollup_ranges {
    struct fg_block_range nod, crn, ftb, ful;
};
struct fg_rollup_ranges fg_rollup_ranges(const struct fg_block_part *part);

/* Parses section NOD of the part; bytes: all of it. FG_E_UNIMPLEMENTED: the part is encrypted, or a
 * newer version wrote its nodes. */
enum fg_code fg_rollups_parse(const struct fg_block_part *part, struct fg_slice bytes,
                              struct fg_arena *arena, struct fg_rollups *ret_rollups,
                              struct fg_err *err) fg_must_check;

/*
 * Is the part of those that a deletion takes something of, as far as groups and times tell? Where
 * they leave it open: yes. The part's nodes. FG_E_LIMIT at the arena's end.
 */
enum fg_code fg_rollup_deletion_affects(const struct fg_rollups *rollups,
                                        const struct fg_block_part *part,
                                        const struct fg_deletion *deletion, struct fg_arena *arena,
                                        bool *ret_named, struct fg_err *err) fg_must_check;

/*
 * The function tree over which crowns are, and whose names tables have. names, dict: the bytes of
 * nodes->names and of nodes->dict. dict.ptr NULL: the names alone, which is all that tables need.
 * outermost and nodes of the tree are NULL.
 */
enum fg_code fg_rollup_functions_parse(const struct fg_rollups *rollups, struct fg_slice names,
                                       struct fg_slice dict, struct fg_arena *arena,
                                       struct fg_function_tree *ret_names,
                                       struct fg_err *err) fg_must_check;

/* bytes: those of row->places[FG_ROLLUP_CROWN]. */
enum fg_code fg_rollup_crown_parse(const struct fg_rollup_row *row,
                                   const struct fg_function_tree *names, struct fg_slice bytes,
                                   struct fg_arena *arena, struct fg_crown *ret_crown,
                                   struct fg_err *err) fg_must_check;

/* Adds the table to self and totals[names->n_names], sign times: 1 or -1. */
enum fg_code fg_rollup_totals_add(const struct fg_rollup_row *row,
                                  const struct fg_function_tree *names, struct fg_slice bytes,
                                  int sign, struct fg_arena *arena, int64_t *self, int64_t *totals,
                                  struct fg_err *err) fg_must_check;

/* Adds the full node to sums[n_ranks], as fg_block_samples_sum() does, sign times. */
enum fg_code fg_rollup_full_add(const struct fg_rollup_row *row, struct fg_slice bytes, int sign,
                                struct fg_arena *arena, uint64_t *sums, uint32_t n_ranks,
                                struct fg_err *err) fg_must_check;

#endif
