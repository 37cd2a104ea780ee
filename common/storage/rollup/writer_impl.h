/*
 * Internals that the files of the rollup writer share.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_WRITER_IMPL_H
#define FG_COMMON_STORAGE_ROLLUP_WRITER_IMPL_H

#include "common/storage/block/pack.h"
#include "common/storage/rollup/crown.h"
#include "common/storage/rollup/writer.h"

/* A form of a rollup: numbers of nodes or functions of the function tree, and their columns as
 * stored. Full values have no numbers. */
struct fg_rollup_out_part {
    bool kept;
    uint32_t *numbers; /* [count], ascending */
    uint32_t count;
    struct fg_buf bytes;
};

struct fg_rollup_out_row {
    struct fg_rollup_key key;
    uint32_t type;
    uint64_t count;
    struct fg_id digest;
    int64_t total;
    uint64_t cut_max;
    uint32_t base; /* the row it is a multiple of, or FG_MAP_NONE */
    uint64_t factor;
    struct fg_rollup_out_part parts[FG_ROLLUP_FORMS];
};

struct fg_rollup_writer {
    struct fg_rollup_options options; /* its arrays are the two below */
    struct fg_profile_type *types;
    struct fg_id *derived_from;
    struct fg_function_tree names;
    struct fg_function_values values; /* of the current rollup */
    bool *dict;                       /* nodes of the function tree that a crown has */
    bool *named;                      /* functions that a crown or totals need */
    uint32_t *met;                    /* per function: n_met of the form that counted it last */
    uint32_t n_met;
    uint32_t n_dict, n_named;
    uint64_t named_bytes;
    struct fg_rollup_out_row *rows;
    uint32_t n_rows, cap_rows;
    bool lacking; /* a form could not be kept */
    bool any;     /* there is a row with profiles */
    struct fg_block_packer *packer;
    struct fg_buf raw; /* of what is packed */
    struct fg_buf nod, crn, ftb, ful;
};

/* Drops all rows, as if none had been added. */
void fg_rollup_drop_rows(struct fg_rollup_writer *writer);

/* Appends ascending numbers: for each, how many numbers were skipped before it. */
void fg_rollup_put_gaps(const uint32_t *numbers, uint32_t count, struct fg_buf *out);

#endif
