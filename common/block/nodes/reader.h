/*
 * Reads merged nodes. As the reader of blocks it does no I/O: it says which bytes it wants and
 * works on those it is given. NOD, CRN and FTB of a part lie beside each other and need nothing
 * else, so one range serves a long query; full nodes need the part's stack tree.
 *
 *   wave 1   fg_nodes_range()                     -> fg_nodes_parse(): what there is; and at once,
 *            when all of it is asked for             names, dictionary, crowns and tables
 *   wave 2   fg_nodes_what_range() of what the plan wants (plan.h)
 *
 * Trusts nothing: checksums are compared, every number has its bound. What is returned lives in the
 * arena. FG_E_CORRUPT says what is wrong and where; FG_E_LIMIT at the arena's end.
 *
 * Thread: parsed things are constant.
 */
#ifndef FG_COMMON_BLOCK_NODES_READER_H
#define FG_COMMON_BLOCK_NODES_READER_H

#include "common/block/nodes/format.h"
#include "common/block/nodes/groups.h"
#include "common/block/reader.h"
#include "common/profile/crown.h"

/* Where some of a node is. */
struct fg_nodes_place {
    uint64_t offset; /* in its section */
    uint32_t bytes;  /* stored; 0: there is none */
    uint32_t raw_bytes, crc;
    uint32_t items; /* nodes of a crown, rows of a table, ranks of a full node */
};

struct fg_nodes_row {
    struct fg_nodes_key key;
    uint32_t type; /* into types */
    uint64_t count;
    struct fg_id digest;
    int64_t total; /* of all stacks with a name: what a flame graph shows */
    uint64_t cut_max;
    struct fg_nodes_place places[FG_NODES_WHATS];
    uint64_t factor; /* what is at the places is another row's: times this; else 1 */
};

struct fg_nodes {
    struct fg_profile_type *types;
    uint32_t n_types;
    struct fg_groups groups;
    struct fg_id *made_of; /* ascending; none: the part's own profiles */
    uint32_t n_made_of;
    struct fg_nodes_row *rows; /* ascending by type, then key */
    uint32_t n_rows;
    struct fg_nodes_place names, dict; /* in NOD and in CRN */
    uint64_t nod_bytes;
    uint64_t section_bytes[FG_NODES_WHATS]; /* of CRN, FTB and FUL */
};

/* The sections of nodes in a part; len 0: it has none. */
struct fg_nodes_ranges {
    struct fg_block_range nod, crn, ftb, ful;
};
struct fg_nodes_ranges fg_nodes_ranges(const struct fg_block_part *part);

/* bytes: all of section NOD. */
enum fg_code fg_nodes_parse(struct fg_slice bytes, struct fg_arena *arena,
                            struct fg_nodes *ret_nodes, struct fg_err *err) fg_must_check;

/* The tree of names over which crowns are, and whose names tables have. nod: as above; dict: the
 * bytes of nodes->dict, the first of CRN. outermost and nodes of it are NULL. */
enum fg_code fg_nodes_names_parse(const struct fg_nodes *nodes, struct fg_slice nod,
                                  struct fg_slice dict, struct fg_arena *arena,
                                  struct fg_name_tree *ret_names, struct fg_err *err) fg_must_check;

/* bytes: those of row->places[FG_NODES_CROWN]. */
enum fg_code fg_nodes_crown_parse(const struct fg_nodes_row *row, const struct fg_name_tree *names,
                                  struct fg_slice bytes, struct fg_arena *arena,
                                  struct fg_crown *ret_crown, struct fg_err *err) fg_must_check;

/* Adds the table to self and totals[names->n_names], sign times: 1 or -1. */
enum fg_code fg_nodes_table_add(const struct fg_nodes_row *row, const struct fg_name_tree *names,
                                struct fg_slice bytes, int sign, struct fg_arena *arena,
                                int64_t *self, int64_t *totals, struct fg_err *err) fg_must_check;

/* Adds the full node to sums[n_ranks], as fg_block_samples_sum() does, sign times. */
enum fg_code fg_nodes_full_add(const struct fg_nodes_row *row, struct fg_slice bytes, int sign,
                               struct fg_arena *arena, uint64_t *sums, uint32_t n_ranks,
                               struct fg_err *err) fg_must_check;

#endif
