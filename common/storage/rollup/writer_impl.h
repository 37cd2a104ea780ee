/*
 * What the files of the writer of merged nodes share. Private to them.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_WRITER_IMPL_H
#define FG_COMMON_STORAGE_ROLLUP_WRITER_IMPL_H

#include "common/storage/block/pack.h"
#include "common/storage/rollup/crown.h"
#include "common/storage/rollup/writer.h"

/* A crown, table or full node: numbers of the function tree (nodes or names), and columns behind
 * them as they will stand in the file. A full node has no numbers. */
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
    struct fg_rollup_options options; /* its arrays are these two */
    struct fg_profile_type *types;
    struct fg_id *derived_from;
    struct fg_function_tree names;
    struct fg_function_values values; /* of the node at hand */
    bool *dict;                       /* nodes of names that some crown has */
    bool *named;                      /* names that some crown or table needs */
    uint32_t *met; /* of a name: n_met, when it was counted for the part at hand */
    uint32_t n_met;
    uint32_t n_dict, n_named;
    uint64_t named_bytes;
    struct fg_rollup_out_row *rows;
    uint32_t n_rows, cap_rows;
    bool lacking; /* something could not be kept */
    bool any;     /* row that is more than "there is nothing" */
    struct fg_block_packer *packer;
    struct fg_buf raw; /* of what is packed */
    struct fg_buf nod, crn, ftb, ful;
};

/* Ascending numbers: for each how many were left out before it. */
void fg_rollup_put_gaps(const uint32_t *numbers, uint32_t count, struct fg_buf *out);

#endif
