#include "querier/blocks/rows.h"

#include "common/base/search.h"
#include "querier/blocks/cached_objects.h"

enum { FEW_ROWS = 1024 }; /* some 20 us */

/* Returns the first span that ends after this profile. Spans ascend and do not overlap once they
 * are settled. */
static uint32_t span_after(const struct qry_part *part, uint32_t profile)
{
    return fg_lower_bound(i, 0, part->n_spans,
                          part->spans[i].first + part->spans[i].count <= profile);
}

uint32_t qry_rows_spans(const struct qry_part *part, uint32_t first, uint32_t count,
                        uint32_t *ret_end)
{
    uint32_t from = span_after(part, first), to = from;

    while (to < part->n_spans && part->spans[to].first < first + count)
        to++;
    *ret_end = to;
    return from;
}

bool *qry_rows_marks(const struct qry_reader *reader, const struct qry_part *part, uint32_t kind,
                     bool cut_only)
{
    const struct fg_block_pages *pages = &part->index->pages[kind];
    bool *marks = fg_arena_new(reader->arena, bool, pages->count);

    for (uint32_t i = 0; marks != NULL && i < part->n_spans; i++)
        if (part->spans[i].cut || !cut_only)
            fg_block_pages_mark(pages, part->spans[i].first, part->spans[i].count,
                                part->spans[i].times.start_ns, part->spans[i].times.end_ns, marks);
    return marks;
}

static enum fg_code take_row(struct qry_span *span, const struct fg_block_rows *rows, uint32_t row,
                             struct fg_err *err)
{
    /* The index and the rows disagree, so one of them is not of this object: better an error than
     * values of another series. */
    if (rows->series[row] != span->series)
        return fg_fail(err, FG_E_CORRUPT, "profile %u: of series %u, not %u", rows->first + row,
                       rows->series[row], span->series);
    if (rows->times_ns[row] < span->times.start_ns || rows->times_ns[row] > span->times.end_ns)
        return FG_OK;
    if (span->n_found++ == 0)
        span->first_found = span->last_found = rows->first + row;
    span->first_found = FG_MIN(span->first_found, rows->first + row);
    span->last_found = FG_MAX(span->last_found, rows->first + row);
    return FG_OK;
}

static enum fg_code take_rows(struct qry_part *part, const struct fg_block_rows *rows,
                              struct fg_err *err)
{
    uint32_t end;

    for (uint32_t i = qry_rows_spans(part, rows->first, rows->count, &end); i < end; i++) {
        struct qry_span *span = &part->spans[i];
        uint32_t from = FG_MAX(span->first, rows->first);
        uint32_t to = FG_MIN(span->first + span->count, rows->first + rows->count);

        /* A span that is not cut is inside the range as a whole: its rows say nothing new. */
        for (uint32_t row = from; row < to && span->cut; row++)
            if (take_row(span, rows, row - rows->first, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

enum fg_code qry_rows_list_samples(struct qry_reader *reader, struct qry_part *part,
                                   unsigned stacks_phase, struct qry_fetch_list *list,
                                   struct fg_err *err)
{
    const bool *rows = qry_rows_marks(reader, part, FG_BLOCK_IDX, true);
    const bool *samples = qry_rows_marks(reader, part, FG_BLOCK_SMP, false);

    if (rows == NULL || samples == NULL)
        return qry_query_too_large(err);
    if (part->n_spans == 0)
        return FG_OK;
    if (qry_fetch_add_pages(list, reader->arena, part, FG_BLOCK_IDX, rows, QRY_ROWS_PHASE, err) !=
            FG_OK ||
        qry_fetch_add_pages(list, reader->arena, part, FG_BLOCK_SMP, samples, QRY_SAMPLES_PHASE,
                            err) != FG_OK)
        return err->code;
    return qry_fetch_add(
        list, reader->arena,
        &(struct qry_fetch_item){.type = reader->stacks,
                                 .object = part->object,
                                 .range = qry_stacks_range(reader->stacks, part->entry),
                                 .part = part,
                                 .phase = stacks_phase},
        err);
}

enum fg_code qry_rows_take(struct qry_reader *reader, struct qry_part *part, uint32_t page,
                           struct fg_slice bytes, struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(reader->arena);
    struct fg_block_rows rows;
    enum fg_code code = fg_block_totals_parse(part->index, page, bytes, reader->arena, &rows, err);

    if (code == FG_OK)
        code = take_rows(part, &rows, err);
    fg_arena_release(reader->arena, mark);
    return code;
}

enum fg_code qry_rows_settle(struct qry_part *part, struct fg_err *err)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < part->n_spans; i++) {
        struct qry_span span = part->spans[i];

        if (span.cut) {
            /* The profiles of a series chunk are ordered by time, so those of a span are
             * contiguous. */
            if (span.n_found > 0 && span.last_found - span.first_found + 1 != span.n_found)
                return fg_fail(err, FG_E_CORRUPT, "series %u: %u profiles of %u to %u are in order",
                               span.series, span.n_found, span.first_found, span.last_found);
            span.first = span.first_found;
            span.count = span.n_found;
            span.cut = false;
        }
        if (span.count == 0)
            continue;
        fg_assert(kept == 0 || part->spans[kept - 1].first <= span.first); /* span_after() */
        part->spans[kept++] = span;
    }
    part->n_spans = kept;
    return FG_OK;
}

bool qry_rows_are_few(const struct qry_fetch_item *item)
{
    return item->part->index->pages[item->kind].pages[item->number].items <= FEW_ROWS;
}
