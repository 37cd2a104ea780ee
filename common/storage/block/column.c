#include "common/storage/block/column.h"

#include "common/base/value.h"
#include "common/storage/block/numbers.h"

/* Returns the factor if values == factor * base everywhere, else 0. */
static uint64_t factor_of(const uint64_t *values, const uint64_t *base, uint32_t count)
{
    uint64_t factor = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t product;

        if (factor == 0 && base[i] != 0) {
            factor = values[i] / base[i];
            if (factor == 0) /* or the next value would set it, and this one be forgotten */
                return 0;
        }
        if (__builtin_mul_overflow(factor, base[i], &product) || product != values[i])
            return 0;
    }
    return factor;
}

static size_t varint_bytes(uint64_t value)
{
    return value == 0 ? 1 : (size_t)(70 - __builtin_clzll(value)) / 7;
}

/* Returns the distance between two values, whichever is larger. */
static uint64_t difference(uint64_t value, uint64_t before)
{
    uint64_t step = value - before;

    return (int64_t)step < 0 ? -step : step;
}

/* Chooses differences for the column if they take fewer bytes than the values. */
static void try_delta(const uint64_t *values, const uint64_t *before, uint32_t count,
                      struct fg_block_column *column)
{
    size_t scaled_bytes = 0, delta_bytes = 0;
    uint64_t divisor = 0;

    for (uint32_t i = 0; i < count && divisor != 1; i++) {
        uint64_t step = difference(values[i], before[i]);

        if (step != divisor && (divisor == 0 || step % divisor != 0))
            divisor = fg_greatest_divisor(step, divisor);
    }
    divisor = FG_MAX(divisor, 1);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t step = difference(values[i], before[i]) / divisor;

        scaled_bytes += varint_bytes(values[i] / column->scale);
        delta_bytes += varint_bytes(step << 1);
    }
    if (delta_bytes < scaled_bytes)
        *column = (struct fg_block_column){.kind = FG_BLOCK_COLUMN_DELTA, .scale = divisor};
}

struct fg_block_column fg_block_column_choose(const uint64_t *values, uint32_t count,
                                              const uint64_t *columns, size_t stride,
                                              uint32_t n_before, const uint64_t *before)
{
    struct fg_block_column column = {.kind = FG_BLOCK_COLUMN_ZERO};
    uint64_t scale = 0;

    for (uint32_t i = 0; i < count && scale != 1; i++) {
        /* Most are the same small number, and a division costs thirty times a comparison. */
        if (values[i] != scale && (scale == 0 || values[i] % scale != 0))
            scale = fg_greatest_divisor(values[i], scale);
    }
    if (scale == 0)
        return column;
    for (uint32_t k = 0; k < n_before; k++) {
        uint64_t factor = factor_of(values, columns + k * stride, count);

        if (factor != 0)
            return (struct fg_block_column){
                .kind = FG_BLOCK_COLUMN_MULTIPLE, .scale = factor, .earlier = k};
    }
    column = (struct fg_block_column){.kind = FG_BLOCK_COLUMN_SCALED, .scale = scale};
    if (before != NULL)
        try_delta(values, before, count, &column);
    return column;
}

enum { WIDE = 16 }; /* in the byte of the kind */

void fg_block_column_put_head(const struct fg_block_column *column, struct fg_buf *out)
{
    fg_buf_putc(out, (uint8_t)(column->kind | (column->wide ? WIDE : 0)));
    if (column->kind == FG_BLOCK_COLUMN_MULTIPLE)
        fg_buf_varint(out, column->earlier);
    if (column->kind != FG_BLOCK_COLUMN_ZERO)
        fg_buf_varint(out, column->scale);
}

bool fg_block_column_get_head(struct fg_cur *cur, uint32_t index, bool delta,
                              struct fg_block_column *ret_column)
{
    struct fg_block_column column = {.kind = FG_BLOCK_COLUMN_ZERO};
    uint8_t byte = fg_cur_u8(cur), kind = byte & (uint8_t)~WIDE;
    uint64_t earlier = 0;

    if (cur->bad || kind > (delta ? FG_BLOCK_COLUMN_DELTA : FG_BLOCK_COLUMN_MULTIPLE))
        return false;
    column.kind = (enum fg_block_column_kind)kind;
    column.wide = byte != kind;
    if (kind == FG_BLOCK_COLUMN_MULTIPLE)
        earlier = fg_cur_varint(cur);
    if (kind != FG_BLOCK_COLUMN_ZERO)
        column.scale = fg_cur_varint(cur);
    if (cur->bad || (kind != FG_BLOCK_COLUMN_ZERO && column.scale == 0) ||
        (kind == FG_BLOCK_COLUMN_MULTIPLE && earlier >= index) ||
        (column.wide && !fg_block_column_has_numbers(&column)))
        return false;
    column.earlier = (uint32_t)earlier;
    *ret_column = column;
    return true;
}

void fg_block_column_numbers(struct fg_block_column *column, const uint64_t *values, uint32_t count,
                             const uint64_t *before, uint64_t *numbers)
{
    fg_assert(fg_block_column_has_numbers(column));
    if (column->kind == FG_BLOCK_COLUMN_SCALED)
        for (uint32_t i = 0; i < count; i++)
            numbers[i] =
                fg_block_swap_0_1(values[i] == column->scale ? 1 : values[i] / column->scale);
    else
        for (uint32_t i = 0; i < count; i++)
            numbers[i] = fg_zigzag((int64_t)(values[i] - before[i]) / (int64_t)column->scale);
    column->wide = fg_block_numbers_wide(numbers, count);
}

void fg_block_column_values(const struct fg_block_column *column, uint32_t count,
                            const uint64_t *numbers, uint64_t *values)
{
    if (column->kind == FG_BLOCK_COLUMN_DELTA)
        for (uint32_t i = 0; i < count; i++)
            values[i] = (uint64_t)fg_unzigzag(numbers[i]) * column->scale;
    else
        for (uint32_t i = 0; i < count; i++)
            values[i] = fg_block_swap_0_1(numbers[i]) * column->scale;
}
