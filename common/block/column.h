/*
 * Columns of values, written the shortest of some ways:
 *
 *   0 zero       every value is 0
 *   1 scaled     varint scale; n varints: value / scale
 *   2 multiple   varint earlier column, varint factor: value = factor * value there
 *   3 delta      varint scale; n zigzag varints: (value - value before) / scale
 *
 * CPU nanoseconds are a multiple of the sample count; values of one type have the period, or 8
 * bytes, as common divisor; a cumulative type is mostly what it was in the series' profile before.
 * What it was is for the user to say; values not there before count as 0. Arithmetic is modulo
 * 2^64. Private to the block format.
 */
#ifndef FG_COMMON_BLOCK_COLUMN_H
#define FG_COMMON_BLOCK_COLUMN_H

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
};

/*
 * The shortest way for values[count]. columns: those before it, n_before of them, as
 * columns[k * stride]. before: NULL, or what the values were (count of them).
 */
struct fg_block_column fg_block_column_choose(const uint64_t *values, uint32_t count,
                                              const uint64_t *columns, size_t stride,
                                              uint32_t n_before, const uint64_t *before);

/* kind as a byte, then scale or earlier and factor. */
void fg_block_column_put_head(const struct fg_block_column *column, struct fg_buf *out);

/* index is its own number. false: no such column; delta says whether that kind may be. */
bool fg_block_column_get_head(struct fg_cur *cur, uint32_t index, bool delta,
                              struct fg_block_column *ret_column) fg_must_check;

/* The numbers of kinds scaled and delta; nothing for the others. */
void fg_block_column_put(const struct fg_block_column *column, const uint64_t *values,
                         uint32_t count, const uint64_t *before, struct fg_buf *out);

/* n varints, or zigzag numbers, each times scale. What is cut short makes cur bad. */
void fg_block_column_get(struct fg_cur *cur, const struct fg_block_column *column, uint32_t count,
                         uint64_t *values);

static inline bool fg_block_column_has_numbers(const struct fg_block_column *column)
{
    return column->kind == FG_BLOCK_COLUMN_SCALED || column->kind == FG_BLOCK_COLUMN_DELTA;
}

#endif
