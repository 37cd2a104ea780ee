/*
 * ROWS: single profiles, from the rows of IDX and the ids of PID; with spans also from EXM. A
 * part's pages are collected first, then its spans of profiles are walked.
 */
#include "common/base/search.h"
#include "common/base/value.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/rows.h"

/* What IDX and PID say of a profile. */
struct listed_profile {
    int64_t time_ns;
    uint64_t *totals; /* by type of its series; NULL: its page was not read */
    uint32_t series;
    struct fg_id id;
};

struct listing {
    struct qry_reader reader;
    struct fg_profile_rows *into;
    struct listed_profile **listed; /* of each part of the batch, [its n_profiles] */
    uint32_t **sets; /* [part of the batch][match]: 1 + its label set; 0: not known yet */
    struct fg_block_exemplars **links; /* of each part of the batch, [its pages of EXM] */
};

static size_t number_of(const struct listing *listing, const struct qry_part *part)
{
    return (size_t)(part - listing->reader.batch);
}

/* ---- pages ---- */

static enum fg_code take_rows(struct listing *listing, const struct qry_part *part, uint32_t number,
                              struct fg_slice bytes, struct fg_err *err)
{
    struct listed_profile *into = listing->listed[number_of(listing, part)];
    struct fg_block_rows rows;

    if (fg_block_totals_parse(part->index, number, bytes, listing->reader.arena, &rows, err) !=
        FG_OK)
        return err->code;
    for (uint32_t i = 0; i < rows.count; i++) {
        into[rows.first + i].time_ns = rows.times_ns[i];
        into[rows.first + i].totals = rows.totals[i];
        into[rows.first + i].series = rows.series[i];
    }
    return FG_OK;
}

static enum fg_code take_ids(struct listing *listing, const struct qry_part *part, uint32_t number,
                             struct fg_slice bytes, struct fg_err *err)
{
    const struct fg_block_page *page = &part->index->pages[FG_BLOCK_PID].pages[number];
    struct listed_profile *into = listing->listed[number_of(listing, part)];
    struct fg_id *ids;

    if (fg_block_ids_parse(part->index, number, bytes, listing->reader.arena, &ids, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < page->items; i++)
        into[page->first + i].id = ids[i];
    return FG_OK;
}

static enum fg_code visit_page(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct listing *listing = arg;
    struct fg_slice bytes = qry_page_of(item->entry);

    if (qry_query_check(listing->reader.query, err) != FG_OK)
        return err->code;
    if (item->kind == FG_BLOCK_IDX)
        return take_rows(listing, item->part, item->number, bytes, err) == FG_OK
                   ? FG_OK
                   : qry_fetch_fail(item, err);
    if (item->kind == FG_BLOCK_PID)
        return take_ids(listing, item->part, item->number, bytes, err) == FG_OK
                   ? FG_OK
                   : qry_fetch_fail(item, err);
    if (fg_block_exemplars_parse(item->part->index, item->number, bytes, listing->reader.arena,
                                 &listing->links[number_of(listing, item->part)][item->number],
                                 err) != FG_OK)
        return qry_fetch_fail(item, err);
    return FG_OK;
}

static enum fg_code list_pages(struct listing *listing, struct qry_part *part,
                               struct qry_fetch_list *list, struct fg_err *err)
{
    static const uint32_t kinds[] = {FG_BLOCK_IDX, FG_BLOCK_PID, FG_BLOCK_EXM};
    size_t n_kinds = listing->into->config.spans ? 3 : 2;

    for (size_t i = 0; i < n_kinds; i++) {
        const bool *marks = qry_rows_marks(&listing->reader, part, kinds[i], false);

        if (marks == NULL)
            return qry_query_too_large(err);
        if (qry_fetch_add_pages(list, listing->reader.arena, part, kinds[i], marks, 0, err) !=
            FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- rows ---- */

static enum fg_code find_set(struct listing *listing, const struct qry_part *part, uint32_t match,
                             uint32_t *ret_set, struct fg_err *err)
{
    uint32_t *known = &listing->sets[number_of(listing, part)][match];
    const struct fg_block_series_row *series;
    struct fg_profile_type type;
    struct fg_labels labels;

    /* Labels are made once for each match: a series has thousands of profiles. */
    if (*known == 0) {
        series = &part->index->series[part->matches[match].series];
        type = fg_block_profile_type(series, part->matches[match].type);
        labels = fg_labels_with_type(&series->labels, &type, listing->reader.arena);
        if (labels.items == NULL)
            return qry_query_too_large(err);
        if (fg_profile_rows_set(listing->into, &labels, known, err) != FG_OK)
            return err->code;
        (*known)++;
    }
    *ret_set = *known - 1;
    return FG_OK;
}

static int link_order(const void *left, const void *right)
{
    const struct fg_block_exemplar *a = left, *b = right;

    if (a->profile != b->profile)
        return a->profile < b->profile ? -1 : 1;
    if (a->span_id != b->span_id)
        return a->span_id < b->span_id ? -1 : 1;
    return memcmp(a->trace_id, b->trace_id, FG_ID_BYTES);
}

/* Finds the first link of a profile or of a later one. */
static uint32_t first_link(const struct fg_block_exemplars *links, uint32_t profile)
{
    return fg_lower_bound(i, 0, links->count, links->items[i].profile < profile);
}

/* Adds a row for each span and trace of a profile, with the sum of its samples. Items of a page are
 * sorted by link_order() since settle_links(). */
static enum fg_code add_spans(struct listing *listing, const struct fg_block_exemplars *links,
                              uint32_t profile, uint32_t type, struct fg_profile_row *row,
                              struct fg_err *err)
{
    uint32_t next, i = first_link(links, profile);

    for (; i < links->count && links->items[i].profile == profile; i = next) {
        const struct fg_block_exemplar *link = &links->items[i];
        uint64_t sum = 0;

        for (next = i; next < links->count && link_order(link, &links->items[next]) == 0; next++)
            fg_value_sum(&sum, links->items[next].values[type]);
        /* Rows are of spans; a link may name a trace alone. */
        if (link->span_id == 0 || sum == 0)
            continue;
        row->value = (int64_t)sum;
        row->span_id = link->span_id;
        memcpy(row->trace_id, link->trace_id, FG_ID_BYTES);
        if (fg_profile_rows_add(listing->into, row, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Adds the rows of one profile, of one match. */
static enum fg_code add_profile(struct listing *listing, const struct qry_part *part,
                                uint32_t profile, uint32_t match, struct fg_err *err)
{
    const struct listed_profile *listed = &listing->listed[number_of(listing, part)][profile];
    const struct fg_block_pages *pages = &part->index->pages[FG_BLOCK_EXM];
    uint32_t type = part->matches[match].type, page;
    struct fg_profile_row row = {
        .time_ns = listed->time_ns, .id = listed->id, .value = (int64_t)listed->totals[type]};

    if (row.value == 0) /* there is no profile of this type then */
        return FG_OK;
    if (find_set(listing, part, match, &row.set, err) != FG_OK)
        return err->code;
    if (!listing->into->config.spans)
        return fg_profile_rows_add(listing->into, &row, err);
    page = fg_block_page_of(pages, profile);
    if (page == pages->count)
        return FG_OK;
    return add_spans(listing, &listing->links[number_of(listing, part)][page], profile, type, &row,
                     err);
}

static enum fg_code walk_span(struct listing *listing, const struct qry_part *part,
                              const struct qry_span *span, struct fg_err *err)
{
    const struct listed_profile *listed = listing->listed[number_of(listing, part)];

    for (uint32_t p = span->first; p < span->first + span->count; p++) {
        /* A page outside of the span's times was not read. */
        if (listed[p].totals == NULL || listed[p].time_ns < span->times.start_ns ||
            listed[p].time_ns > span->times.end_ns)
            continue;
        /* The matches are types of the span's series. */
        if (listed[p].series != span->series)
            return fg_fail(err, FG_E_CORRUPT, "%s: profile %u: of series %u, not %u",
                           part->object->name, p, listed[p].series, span->series);
        listing->reader.query->profiles++;
        for (uint32_t m = span->first_match; m < span->first_match + span->n_matches; m++)
            if (add_profile(listing, part, p, m, err) != FG_OK)
                return err->code;
    }
    return qry_query_check(listing->reader.query, err);
}

/* Pages are sorted by stacks first. */
static void settle_links(struct listing *listing, const struct qry_part *part)
{
    for (uint32_t i = 0; i < part->index->pages[FG_BLOCK_EXM].count; i++) {
        struct fg_block_exemplars *links = &listing->links[number_of(listing, part)][i];

        if (links->count > 1)
            qsort(links->items, links->count, sizeof *links->items, link_order);
    }
}

static enum fg_code make_arrays(struct listing *listing, struct fg_err *err)
{
    struct qry_reader *reader = &listing->reader;

    listing->listed = fg_arena_new(reader->arena, struct listed_profile *, reader->n_batch);
    listing->sets = fg_arena_new(reader->arena, uint32_t *, reader->n_batch);
    listing->links = fg_arena_new(reader->arena, struct fg_block_exemplars *, reader->n_batch);
    if (listing->listed == NULL || listing->sets == NULL || listing->links == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < reader->n_batch; i++) {
        const struct qry_part *part = &reader->batch[i];

        if (part->n_spans == 0)
            continue;
        listing->listed[i] =
            fg_arena_new(reader->arena, struct listed_profile, part->entry->n_profiles);
        listing->sets[i] = fg_arena_new(reader->arena, uint32_t, part->n_matches);
        listing->links[i] = fg_arena_new(reader->arena, struct fg_block_exemplars,
                                         part->index->pages[FG_BLOCK_EXM].count);
        if (listing->listed[i] == NULL || listing->sets[i] == NULL || listing->links[i] == NULL)
            return qry_query_too_large(err);
    }
    return FG_OK;
}

static enum fg_code read_batch(struct listing *listing, struct fg_err *err)
{
    struct qry_reader *reader = &listing->reader;
    struct qry_fetch_list list = {0};

    if (make_arrays(listing, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < reader->n_batch; i++)
        if (reader->batch[i].n_spans > 0 &&
            list_pages(listing, &reader->batch[i], &list, err) != FG_OK)
            return err->code;
    if (qry_fetch_all(reader->query, &list, visit_page, listing, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < reader->n_batch; i++) {
        const struct qry_part *part = &reader->batch[i];

        if (part->n_spans > 0 && listing->into->config.spans)
            settle_links(listing, part);
        for (uint32_t s = 0; s < part->n_spans; s++)
            if (walk_span(listing, part, &part->spans[s], err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

enum fg_code qry_blocks_rows(struct qry_query *query, const struct qry_selection *selection,
                             struct fg_profile_rows *into, struct fg_err *err)
{
    struct listing listing = {.into = into};
    int64_t step_ns = into->config.step_ns;
    enum fg_code code;

    if (query->snapshot == NULL)
        return FG_OK;
    code =
        qry_reader_open(&listing.reader, query, selection, selection->type_text,
                        step_ns == 0 ? selection->start_ns : qry_points_from_ns(selection, step_ns),
                        selection->end_ns, OBJECTS_PROFILES, false, err);
    do {
        if (code == FG_OK)
            code = qry_reader_next(&listing.reader, err);
        if (code == FG_OK)
            code = read_batch(&listing, err);
    } while (code == FG_OK && listing.reader.n_batch > 0);
    qry_reader_close(&listing.reader);
    return code;
}
