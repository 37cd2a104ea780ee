/*
 * Reads rollups. Like the reader of blocks it does no I/O: it tells which bytes it needs and works
 * on the given bytes. A long query costs two ranges per object: crowns and function totals need
 * nothing else of their part; full values need its stack tree.
 *
 *   wave 1   NOD of all parts and the directory of the object, which are adjacent
 *            (directory->rollup_offset, which manifests have as well): fg_rollups_parse()
 *   wave 2   names, function tree, and the forms that the plan (plan.h) picked: crowns are in
 *            the order of rows, the longest spans of all series first
 *
 * It does not trust the input: it compares checksums and the bounds of every number. Results live
 * in the arena. FG_E_CORRUPT names the fault and its place; FG_E_LIMIT: the arena is full.
 *
 * Thread: results are read-only.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_READER_H
#define FG_COMMON_STORAGE_ROLLUP_READER_H

#include "common/model/deletion.h"
#include "common/storage/block/reader.h"
#include "common/storage/rollup/crown.h"
#include "common/storage/rollup/format.h"
#include "common/storage/rollup/groups.h"

/* The place of a form of a rollup. */
struct fg_rollup_place {
    uint64_t offset; /* in its section */
    uint32_t bytes;  /* stored; 0: the form is missing */
    uint32_t raw_bytes, crc;
    uint32_t items; /* nodes of a crown, functions of totals, ranks of full values */
};

/* With what the packed runs of a part are sealed. */
struct fg_rollup_sealing {
    uint32_t key;
    const struct fg_keys *keys;
    struct fg_slice tenant, service; /* in the arena of the rollups */
    struct fg_id digest;
};

struct fg_rollup_row {
    struct fg_rollup_key key;
    uint32_t type; /* into types */
    uint64_t count;
    struct fg_id digest;
    int64_t total; /* of all stacks; in version 1 only of stacks with a name */
    uint64_t cut_max;
    struct fg_rollup_place places[FG_ROLLUP_FORMS];
    uint64_t factor; /* multiplier of the bytes at the places, which may belong to another row */
    const struct fg_rollup_sealing *sealing; /* of the bytes; NULL: not encrypted */
};

struct fg_rollups {
    uint32_t version; /* format.h */
    struct fg_profile_type *types;
    uint32_t n_types;
    struct fg_groups groups;
    struct fg_id *derived_from; /* ascending; none: the profiles of the part itself */
    uint32_t n_derived_from;
    struct fg_rollup_row *rows; /* ascending by type, then key */
    uint32_t n_rows;
    struct fg_rollup_place names, dict;      /* at the start of CRN, one after the other */
    uint64_t section_bytes[FG_ROLLUP_FORMS]; /* of CRN, FTB and FUL */
    const struct fg_rollup_sealing *sealing; /* NULL: not encrypted */
};

/* The sections of rollups in a part; len 0: it has none. */
struct fg_rollup_ranges {
    struct fg_block_range nod, crn, ftb, ful;
};
/* Returns the ranges of the sections. */
struct fg_rollup_ranges fg_rollup_ranges(const struct fg_block_part *part);

/* Returns the ranges of the rollups of single series, which derived parts may have in addition to
 * the others; ftb and ful are empty. */
struct fg_rollup_ranges fg_rollup_single_ranges(const struct fg_block_part *part);

/* Parses section NOD or SND of the part. bytes: the whole section. FG_E_UNIMPLEMENTED: the key of
 * the part is not there, or a newer version wrote its rollups. This function and those below have
 * the errors of fg_keys_find(), too. */
enum fg_code fg_rollups_parse(const struct fg_block_part *part, struct fg_slice bytes,
                              struct fg_arena *arena, struct fg_rollups *ret_rollups,
                              struct fg_err *err) fg_must_check;

/*
 * Returns whether a deletion may remove profiles of the part, judging by its rollups' groups and
 * times. If they do not tell, the answer is yes. FG_E_LIMIT: the arena is full.
 */
enum fg_code fg_rollup_deletion_affects(const struct fg_rollups *rollups,
                                        const struct fg_block_part *part,
                                        const struct fg_deletion *deletion, struct fg_arena *arena,
                                        bool *ret_named, struct fg_err *err) fg_must_check;

/*
 * Parses the function tree of the crowns, whose names function totals use as well. names, dict: the
 * bytes of rollups->names and of rollups->dict. dict.ptr NULL: parses the names only, which
 * suffices for function totals. outermost and nodes of the tree are NULL.
 */
enum fg_code fg_rollup_functions_parse(const struct fg_rollups *rollups, struct fg_slice names,
                                       struct fg_slice dict, struct fg_arena *arena,
                                       struct fg_function_tree *ret_names,
                                       struct fg_err *err) fg_must_check;

/* Parses a crown. bytes: those of row->places[FG_ROLLUP_CROWN]. */
enum fg_code fg_rollup_crown_parse(const struct fg_rollup_row *row,
                                   const struct fg_function_tree *names, struct fg_slice bytes,
                                   struct fg_arena *arena, struct fg_crown *ret_crown,
                                   struct fg_err *err) fg_must_check;

/* Adds function totals, multiplied by sign (1 or -1), to self and totals[names->n_names]. */
enum fg_code fg_rollup_totals_add(const struct fg_rollup_row *row,
                                  const struct fg_function_tree *names, struct fg_slice bytes,
                                  int sign, struct fg_arena *arena, int64_t *self, int64_t *totals,
                                  struct fg_err *err) fg_must_check;

/* Adds full values, multiplied by sign, to sums[n_ranks], as fg_block_samples_sum() does. */
enum fg_code fg_rollup_full_add(const struct fg_rollup_row *row, struct fg_slice bytes, int sign,
                                struct fg_arena *arena, uint64_t *sums, uint32_t n_ranks,
                                struct fg_err *err) fg_must_check;

#endif
