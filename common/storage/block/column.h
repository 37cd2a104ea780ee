/*
 * Columns of values, written the shortest of some ways:
 *
 *   0 zero       every value is 0
 *   1 scaled     numbers: value / scale; 0 and 1 change places, for 1 is the most frequent
 *   2 multiple   value = factor * that of an earlier column
 *   3 delta      numbers: (value - what it was before) / scale, zigzag
 *
 * CPU nanoseconds are a multiple of the sample count; values of one type have the period, or 8
 * bytes, as common divisor; a cumulative type is mostly what it was in the series' profile before.
 * What it was is for the user to say; values not there before count as 0. Arithmetic is modulo
 * 2^64. Private to the block format.
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

/* How a column is written: what stands before its numbers. */
struct fg_block_column {
    enum fg_block_column_kind kind;
    uint64_t scale;   /* scaled, delta: never 0; multiple: the factor, never 0 */
    uint32_t earlier; /* multiple */
    bool wide;        /* numbers: some do not fit in 32 bits */
};

/*
 * The shortest way for values[count]. columns: those before it, n_before of them, as
 * columns[k * stride]. before: NULL, or what the values were (count of them).
 */
struct fg_block_column fg_block_column_choose(const uint64_t *values, uint32_t count,
                                              const uint64_t *columns, size_t stride,
                                              uint32_t n_before, const uint64_t *before);

void fg_block_column_put_head(const struct fg_block_column *column, struct fg_buf *out);

/* index is its own number. false: no such column; delta says whether that kind may be. */
bool fg_block_column_get_head(struct fg_cur *cur, uint32_t index, bool delta,
                              struct fg_block_column *ret_column) fg_must_check;

static inline bool fg_block_column_has_numbers(const struct fg_block_column *column)
{
    return column->kind == FG_BLOCK_COLUMN_SCALED || column->kind == FG_BLOCK_COLUMN_DELTA;
}

/* 0 and 1 change places; its own inverse. */
static inline uint64_t fg_block_swap_0_1(uint64_t number)
{
    return number ^ (number < 2);
}

/* Numbers out of values, of a column that has them; sets wide. */
void fg_block_column_numbers(struct fg_block_column *column, const uint64_t *values, uint32_t count,
                             const uint64_t *before, uint64_t *numbers);

/* Values, or their differences to those before, out of numbers; may be the same array. */
void fg_block_column_values(const struct fg_block_column *column, uint32_t count,
                            const uint64_t *numbers, uint64_t *values);

#endif
