/*
 * Encodes columns of values in the shortest of four ways:
 *
 *   0 zero       every value is 0
 *   1 scaled     numbers: value / scale; 0 and 1 are swapped, since 1 is the most frequent
 *   2 multiple   value = factor * the value of an earlier column
 *   3 delta      numbers: (value - its previous value) / scale, zigzag
 *
 * CPU nanoseconds are a multiple of the sample count; values of one type have the period, or 8
 * bytes, as common divisor; values of a cumulative type are mostly equal to those of the previous
 * profile of the series. The caller passes previous values; a missing one is 0. Arithmetic is
 * modulo 2^64. Private to the block format.
 *
 * Head: u8 kind, and 16 where numbers are wide (numbers.h); multiple: varint earlier column; all
 * but zero: varint scale or factor.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_COLUMN_H
#define FG_COMMON_STORAGE_BLOCK_COLUMN_H

#include "common/base/buf.h"
#include "common/base/cursor.h"

enum fg_block_column_kind {
    FG_BLOCK_COLUMN_ZERO,
    FG_BLOCK_COLUMN_SCALED,
    FG_BLOCK_COLUMN_MULTIPLE,
    FG_BLOCK_COLUMN_DELTA,
};

/* The head of a column: how its numbers are encoded. */
struct fg_block_column {
    enum fg_block_column_kind kind;
    uint64_t scale;   /* scaled, delta: never 0; multiple: the factor, never 0 */
    uint32_t earlier; /* multiple */
    bool wide;        /* numbers: some do not fit in 32 bits */
};

/*
 * Returns the shortest encoding of values[count]. columns: the n_before earlier columns, column k
 * at columns[k * stride]. before: the previous values (count of them), or NULL.
 */
struct fg_block_column fg_block_column_choose(const uint64_t *values, uint32_t count,
                                              const uint64_t *columns, size_t stride,
                                              uint32_t n_before, const uint64_t *before);

/* Appends the head. */
void fg_block_column_put_head(const struct fg_block_column *column, struct fg_buf *out);

/* Reads the head of column number `index`. delta: whether that kind is allowed. Returns false if
 * the head is invalid. */
bool fg_block_column_get_head(struct fg_cur *cur, uint32_t index, bool delta,
                              struct fg_block_column *ret_column) fg_must_check;

/* Returns whether numbers follow the head. */
static inline bool fg_block_column_has_numbers(const struct fg_block_column *column)
{
    return column->kind == FG_BLOCK_COLUMN_SCALED || column->kind == FG_BLOCK_COLUMN_DELTA;
}

/* Swaps 0 and 1; it is its own inverse. */
static inline uint64_t fg_block_swap_0_1(uint64_t number)
{
    return number ^ (number < 2);
}

/* Computes the numbers of a column from its values, and sets wide. */
void fg_block_column_numbers(struct fg_block_column *column, const uint64_t *values, uint32_t count,
                             const uint64_t *before, uint64_t *numbers);

/* Computes values, or their differences to the previous values, from numbers. Both may be the same
 * array. */
void fg_block_column_values(const struct fg_block_column *column, uint32_t count,
                            const uint64_t *numbers, uint64_t *values);

#endif
