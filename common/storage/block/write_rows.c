/*
 * Profiles on their way to pages of IDX and PID:
 *
 *   IDX   chunks, or the parts of them in the page; SER says of which series they are, and how long
 *   chunk columns of n: time (zigzag second differences), zigzag duration, period, shard, window
 *         (each - that before), varint samples; of each type a column's head (column.h), and where
 *         it has numbers n of them as varints
 *   PID   16 bytes each
 *   USE   two columns of n: varint wire bytes + 1, or 0 where the size is unknown, and raw bytes, 0
 *         there; each number as zigzag of the difference to that before
 */
#include "common/storage/block/writer_impl.h"

enum fg_code fg_block_row_put(struct fg_block_writer *writer,
                              const struct fg_block_profile *profile, const uint64_t *totals,
                              struct fg_err *err)
{
    struct fg_block_pages_out *pages = &writer->pages;
    uint32_t n_types = writer->part.n_types;
    uint8_t id[FG_ID_BYTES];

    if (pages->idx_span.count == FG_BLOCK_IDX_PAGE_PROFILES &&
        fg_block_idx_flush(writer, err) != FG_OK)
        return err->code;
    if (pages->n_totals + n_types > pages->cap_totals) {
        pages->cap_totals = FG_MAX(pages->n_totals + n_types, pages->cap_totals * 2);
        pages->totals = fg_realloc(pages->totals, pages->cap_totals * sizeof *pages->totals);
    }
    pages->rows[pages->idx_span.count] = (struct fg_block_row_out){
        .series = writer->part.at,
        .n_samples = pages->before.count, /* the profile that was put just now */
        .window = profile->window,
        .shard = profile->shard,
        .time_ns = profile->time_ns,
        .duration_ns = profile->duration_ns,
        .period = profile->period,
        .size = profile->size,
        .totals = pages->n_totals,
    };
    memcpy(pages->totals + pages->n_totals, totals, n_types * sizeof *totals);
    pages->n_totals += n_types;
    fg_id_put(id, profile->id);
    fg_buf_append(&pages->ids, id, sizeof id);
    fg_block_span_add(&pages->idx_span, profile->time_ns);
    return FG_OK;
}

/* Differences to the row before; the first to 0. */
#define PUT_STEPS(out, rows, count, member)                                                        \
    do {                                                                                           \
        int64_t put_before = 0;                                                                    \
        for (uint32_t put_i = 0; put_i < (count); put_i++) {                                       \
            int64_t put_now = (int64_t)(rows)[put_i].member;                                       \
            fg_buf_zigzag(out, fg_wrap_sub(put_now, put_before));                                  \
            put_before = put_now;                                                                  \
        }                                                                                          \
    } while (0)

static void put_times(struct fg_buf *out, const struct fg_block_row_out *rows, uint32_t count)
{
    int64_t before_ns = 0, step_before_ns = 0;

    for (uint32_t i = 0; i < count; i++) {
        int64_t step_ns = fg_wrap_sub(rows[i].time_ns, before_ns);

        fg_buf_zigzag(out, fg_wrap_sub(step_ns, step_before_ns));
        before_ns = rows[i].time_ns;
        step_before_ns = i == 0 ? 0 : step_ns; /* the first is no step */
    }
}

static void put_totals(struct fg_block_writer *writer, const struct fg_block_row_out *rows,
                       uint32_t count)
{
    const struct fg_block_part_out *part = &writer->part;
    uint32_t series = rows[0].series;
    uint32_t n_types = part->schemas[part->series[series].schema].n_types;
    uint64_t *columns = fg_malloc((size_t)count * (n_types + 1) * sizeof *columns);
    uint64_t *numbers = columns + (size_t)count * n_types;

    for (uint32_t t = 0; t < n_types; t++) {
        uint64_t *values = columns + (size_t)t * count;
        struct fg_block_column column;

        for (uint32_t i = 0; i < count; i++)
            values[i] = writer->pages.totals[rows[i].totals + t];
        column = fg_block_column_choose(values, count, columns, count, t, NULL);
        if (column.kind == FG_BLOCK_COLUMN_SCALED) {
            fg_block_column_numbers(&column, values, count, NULL, numbers);
            column.wide = false; /* they are varints here */
        }
        fg_block_column_put_head(&column, &writer->raw);
        for (uint32_t i = 0; column.kind == FG_BLOCK_COLUMN_SCALED && i < count; i++)
            fg_buf_varint(&writer->raw, numbers[i]);
    }
    free(columns);
}

/* Rows of one series: SER says of which, and how many. */
static void put_chunk(struct fg_block_writer *writer, const struct fg_block_row_out *rows,
                      uint32_t count)
{
    struct fg_buf *raw = &writer->raw;

    put_times(raw, rows, count);
    PUT_STEPS(raw, rows, count, duration_ns);
    PUT_STEPS(raw, rows, count, period);
    PUT_STEPS(raw, rows, count, shard);
    PUT_STEPS(raw, rows, count, window);
    for (uint32_t i = 0; i < count; i++)
        fg_buf_varint(raw, rows[i].n_samples);
    put_totals(writer, rows, count);
}

/* IDX, PID and USE get pages of the same profiles, so that a reader finds ids and sizes by the
 * number of the IDX page. */
enum fg_code fg_block_idx_flush(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_block_pages_out *pages = &writer->pages;
    uint32_t count = pages->idx_span.count, to;

    if (count == 0)
        return FG_OK;
    fg_buf_clear(&writer->raw);
    for (uint32_t from = 0; from < count; from = to) {
        for (to = from + 1; to < count && pages->rows[to].series == pages->rows[from].series;)
            to++;
        put_chunk(writer, pages->rows + from, to - from);
    }
    if (fg_block_page_put(writer, &writer->idx, &pages->idx_span, err) != FG_OK)
        return err->code;
    fg_buf_clear(&writer->raw);
    fg_buf_put(&writer->raw, fg_buf_slice(&pages->ids));
    if (fg_block_page_put(writer, &writer->pid, &pages->idx_span, err) != FG_OK)
        return err->code;
    if (writer->version >= 3) {
        fg_buf_clear(&writer->raw);
        PUT_STEPS(&writer->raw, pages->rows, count,
                  size.known ? (int64_t)pages->rows[put_i].size.wire_bytes + 1 : 0);
        PUT_STEPS(&writer->raw, pages->rows, count, size.raw_bytes);
        if (fg_block_page_put(writer, &writer->use, &pages->idx_span, err) != FG_OK)
            return err->code;
    }
    fg_buf_clear(&pages->ids);
    pages->n_totals = 0;
    pages->idx_span.count = 0;
    return FG_OK;
}
