/*
 * Computes the canonical numbers of the symbols and nodes of a part. They depend only on the
 * content that is in use, not on the order in which it was added to a tree.
 *
 *   strings     by their bytes; 0 is always ""
 *   functions   by name, system name, file (numbers of strings), start line
 *   mappings    by file, build id, start, limit, offset, flags
 *   locations   by their lines (function, line), then mapping, none first, address, folded
 *   nodes       depth first, siblings by location
 *
 * Private to the block format.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_ORDER_H
#define FG_COMMON_STORAGE_BLOCK_ORDER_H

#include "common/model/tree.h"

/* One kind of entries: those in use in their new order, and the new number of each old one. */
struct fg_block_numbers {
    uint32_t *olds; /* [count], by new number */
    uint32_t *news; /* by old number; FG_MAP_NONE: not in use */
    uint32_t count;
};

struct fg_block_order {
    const struct fg_tree *tree;
    struct fg_block_numbers strings, functions, mappings, locations, nodes;
};

/* Computes the order. uses: that of fg_block_part_begin(). FG_E_LIMIT: the arena is full. */
enum fg_code fg_block_order_make(const struct fg_tree *tree, const uint32_t *uses,
                                 struct fg_arena *arena, struct fg_block_order *ret_order,
                                 struct fg_err *err) fg_must_check;

/* Compare entries in the orders above. Their references are canonical numbers. The lines of a
 * location are at lines + first_line. */
int fg_block_function_cmp(const struct fg_function *a, const struct fg_function *b);
int fg_block_mapping_cmp(const struct fg_mapping *a, const struct fg_mapping *b);
int fg_block_location_cmp(const struct fg_location *a, const struct fg_line *a_lines,
                          const struct fg_location *b, const struct fg_line *b_lines);

#endif
