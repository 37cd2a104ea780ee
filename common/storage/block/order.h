/*
 * The canonical numbers of a part's symbols and nodes: they follow from what is in use and its
 * content alone, not from the order in which a tree came to know it.
 *
 *   strings     by their bytes; 0 is "" always
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

/* One kind of things: which are in use, in their new order, and where the old ones went. */
struct fg_block_numbers {
    uint32_t *olds; /* [count], by new number */
    uint32_t *news; /* by old number; FG_MAP_NONE: not in use */
    uint32_t count;
};

struct fg_block_order {
    const struct fg_tree *tree;
    struct fg_block_numbers strings, functions, mappings, locations, nodes;
};

/* uses: as in fg_block_part_begin(). FG_E_LIMIT at the arena's end. */
enum fg_code fg_block_order_make(const struct fg_tree *tree, const uint32_t *uses,
                                 struct fg_arena *arena, struct fg_block_order *ret_order,
                                 struct fg_err *err) fg_must_check;

/* Comparisons of the orders above, of things whose references are numbers in order already. The
 * lines of a location are at lines + first_line. */
int fg_block_function_cmp(const struct fg_function *a, const struct fg_function *b);
int fg_block_mapping_cmp(const struct fg_mapping *a, const struct fg_mapping *b);
int fg_block_location_cmp(const struct fg_location *a, const struct fg_line *a_lines,
                          const struct fg_location *b, const struct fg_line *b_lines);

#endif
