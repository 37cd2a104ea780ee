/* Writes rollups, which are encoded already, as sections whose pages are not packed a second time.
 * The rollup directories of all parts are adjacent, before the directory. */
#include "common/base/crc32c.h"
#include "common/storage/block/writer_impl.h"

uint32_t fg_block_part_n_stacks(const struct fg_block_writer *writer)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_PART);
    return writer->part.ranks.n_stacks;
}

void fg_block_part_stacks(const struct fg_block_writer *writer, uint32_t *stacks)
{
    const struct fg_block_part_out *part = &writer->part;

    fg_assert(writer->state == FG_BLOCK_WRITER_PART);
    for (uint32_t i = 0; i < part->ranks.n_stacks; i++) {
        uint32_t stack = part->ranks.stacks[i];

        stacks[i] = stack == 0 ? 0 : part->order.nodes.olds[stack - 1] + 1;
    }
}

enum fg_code fg_block_part_close(struct fg_block_writer *writer, uint64_t *seen, uint32_t n_series,
                                 uint64_t *ret_samples, uint64_t *ret_bytes, struct fg_err *err)
{
    const struct fg_block_part_out *part = &writer->part;
    struct fg_block_numbers order;

    fg_assert(writer->state == FG_BLOCK_WRITER_PART);
    if ((part->in_series && fg_block_series_close(writer, err) != FG_OK) ||
        fg_block_smp_flush(writer, err) != FG_OK)
        return err->code;
    fg_assert(part->n_series == n_series);
    order = fg_block_series_order(writer);
    for (uint32_t i = 0; i < n_series; i++)
        seen[i] = part->series[order.olds[i]].seen;
    *ret_samples = part->n_samples;
    *ret_bytes = writer->smp.bytes;
    return FG_OK;
}

void fg_block_part_section(struct fg_block_writer *writer, enum fg_block_kind kind,
                           struct fg_slice bytes)
{
    fg_assert(writer->state == FG_BLOCK_WRITER_PART);
    fg_assert(fg_block_kind_is_rollup(kind));
    fg_assert(writer->part.rollups[kind - FG_BLOCK_SCR].len == 0);
    writer->part.rollups[kind - FG_BLOCK_SCR] = bytes;
}

/* Writes a section as pages of its bytes as they are (of an encrypted part: each packed run is
 * sealed), so that its checksums are in the page
 * table like all others. NOD is only collected: those of all parts are written side by side at
 * the end of the object. */
static enum fg_code write_section(struct fg_block_writer *writer, uint32_t kind,
                                  struct fg_slice bytes, struct fg_err *err)
{
    size_t n_pages = (bytes.len - 1) / FG_BLOCK_PAGE_RAW_MAX_BYTES + 1;

    fg_buf_varint(&writer->directory, kind);
    fg_buf_varint(&writer->directory, bytes.len);
    fg_buf_varint(&writer->table, kind);
    fg_buf_varint(&writer->table, n_pages);
    for (size_t i = 0; i < n_pages; i++) {
        struct fg_slice page =
            fg_slice_sub(bytes, i * FG_BLOCK_PAGE_RAW_MAX_BYTES, FG_BLOCK_PAGE_RAW_MAX_BYTES);

        fg_buf_varint(&writer->table, page.len);
        fg_buf_varint(&writer->table, page.len);
        fg_buf_le32(&writer->table, fg_crc32c(page));
        if (writer->version >= 3)
            fg_buf_varint(&writer->table, writer->part.key);
        fg_buf_varint(&writer->table, 0); /* items */
    }
    writer->n_sections++;
    if (kind == FG_BLOCK_NOD) {
        fg_buf_put(&writer->rollups, bytes);
        return FG_OK;
    }
    return fg_block_emit(writer, bytes, err);
}

enum fg_code fg_block_write_rollup(struct fg_block_writer *writer, struct fg_err *err)
{
    for (uint32_t i = 0; i < FG_COUNT(writer->part.rollups); i++) {
        struct fg_slice bytes = writer->part.rollups[i];

        if (bytes.len > 0 && write_section(writer, FG_BLOCK_SCR + i, bytes, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}
