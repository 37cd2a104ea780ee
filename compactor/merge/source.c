#include "compactor/merge/source.h"

struct fg_slice cmp_merge_part_range(const struct cmp_merge_part *part, struct fg_block_range range)
{
    const struct cmp_merge_source *source = part->source;

    if (range.offset < source->offset || range.offset - source->offset > source->bytes.len)
        return fg_bytes(NULL, 0); /* the parser finds it too short */
    return fg_slice_sub(source->bytes, (size_t)(range.offset - source->offset), (size_t)range.len);
}

struct fg_slice cmp_merge_part_page(const struct cmp_merge_part *part, uint32_t kind, uint32_t page)
{
    const struct fg_block_page *said = &part->index.pages[kind].pages[page];

    return cmp_merge_part_range(part, (struct fg_block_range){said->offset, said->bytes});
}

uint32_t cmp_merge_part_page_of(const struct cmp_merge_part *part, uint32_t kind, uint32_t profile)
{
    const struct fg_block_pages *pages = &part->index.pages[kind];
    uint32_t at = fg_block_page_of(pages, profile);

    /* The parser has checked that pages cover all profiles without gaps. */
    fg_assert(at < pages->count && pages->pages[at].first <= profile);
    return at;
}

enum fg_code cmp_merge_part_wrap(const struct cmp_merge_part *part, struct fg_err *err)
{
    return fg_wrap(err, "object %s, part %.*s", part->source->name, FG_S(part->part->service));
}

enum fg_code cmp_merge_part_open(const struct cmp_merge_source *source, uint32_t number,
                                 struct fg_arena *arena, struct cmp_merge_part *ret_part,
                                 struct fg_err *err)
{
    struct cmp_merge_part part = {.source = source, .part = &source->parts[number]};
    struct fg_block_range range = fg_block_part_range(part.part, FG_BLOCK_WANT_SERIES);

    if (fg_block_part_parse(part.part, cmp_merge_part_range(&part, range), arena, &part.index,
                            err) != FG_OK)
        return cmp_merge_part_wrap(&part, err);
    *ret_part = part;
    return FG_OK;
}

static enum fg_code scan_page(const struct cmp_merge_part *part, const struct cmp_merge_scan *scan,
                              uint32_t page, struct fg_arena *arena, struct fg_err *err)
{
    struct cmp_merge_rows rows = {0};
    struct fg_profile_size *sizes = NULL;
    struct fg_id *ids = NULL;

    fg_arena_reset(arena);
    if (fg_block_rows_parse(&part->index, page, cmp_merge_part_page(part, FG_BLOCK_IDX, page),
                            arena, &rows.rows, err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    /* Pages of rows, ids and sizes have the same profiles: fg_block_part_parse() has checked
     * it. */
    if (scan->ids &&
        fg_block_ids_parse(&part->index, page, cmp_merge_part_page(part, FG_BLOCK_PID, page), arena,
                           &ids, err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    if (scan->sizes && part->index.pages[FG_BLOCK_USE].count > 0 &&
        fg_block_sizes_parse(&part->index, page, cmp_merge_part_page(part, FG_BLOCK_USE, page),
                             arena, &sizes, err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    rows.ids = ids;
    rows.sizes = sizes;
    return scan->each(scan->arg, &rows, err);
}

enum fg_code cmp_merge_part_scan(const struct cmp_merge_part *part,
                                 const struct cmp_merge_scan *scan, struct fg_arena *arena,
                                 struct fg_err *err)
{
    const struct fg_block_pages *pages = &part->index.pages[FG_BLOCK_IDX];

    for (uint32_t i = 0; i < pages->count; i++)
        if (pages->pages[i].t_min_ns <= scan->end_ns &&
            pages->pages[i].t_max_ns >= scan->start_ns &&
            scan_page(part, scan, i, arena, err) != FG_OK)
            return err->code;
    return FG_OK;
}
