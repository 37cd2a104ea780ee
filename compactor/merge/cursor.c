#include "compactor/merge/cursor.h"

void cmp_merge_cursor_init(struct cmp_merge_cursor *cursor, size_t page_max_bytes)
{
    cursor->rows_arena = fg_arena_create(page_max_bytes);
    cursor->ids_arena = fg_arena_create(page_max_bytes);
    cursor->links_arena = fg_arena_create(page_max_bytes);
    cursor->samples = fg_block_samples_create(page_max_bytes);
    cursor->samples_page = FG_MAP_NONE;
}

void cmp_merge_cursor_done(struct cmp_merge_cursor *cursor)
{
    fg_arena_destroy(cursor->rows_arena);
    fg_arena_destroy(cursor->ids_arena);
    fg_arena_destroy(cursor->links_arena);
    fg_block_samples_destroy(cursor->samples);
}

/* ---- going forward ---- */

static enum fg_code load_rows(struct cmp_merge_cursor *cursor, struct fg_err *err)
{
    const struct cmp_merge_part *part = &cursor->part;
    uint32_t page = cmp_merge_part_page_of(part, FG_BLOCK_IDX, cursor->profile);

    fg_arena_reset(cursor->rows_arena);
    fg_arena_reset(cursor->ids_arena);
    cursor->rows.count = 0;
    if (fg_block_rows_parse(&part->index, page, cmp_merge_part_page(part, FG_BLOCK_IDX, page),
                            cursor->rows_arena, &cursor->rows, err) != FG_OK ||
        fg_block_ids_parse(&part->index, page, cmp_merge_part_page(part, FG_BLOCK_PID, page),
                           cursor->ids_arena, &cursor->ids, err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    cursor->sizes = NULL;
    if (part->index.pages[FG_BLOCK_USE].count > 0 &&
        fg_block_sizes_parse(&part->index, page, cmp_merge_part_page(part, FG_BLOCK_USE, page),
                             cursor->ids_arena, &cursor->sizes, err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    return FG_OK;
}

/* Finds the series chunk with the next chosen profile of the series at hand, and sets the place
 * to that profile. NULL: the series has none left. */
static const struct fg_block_chunk *next_run(const struct cmp_merge_cursor *cursor)
{
    const struct fg_block_series_row *row = &cursor->part.index.series[cursor->series];
    struct cmp_merge_place *place = &cursor->places[cursor->series];

    for (; place->run < row->n_chunks; place->run++) {
        const struct fg_block_chunk *run = &cursor->part.index.chunks[row->chunks[place->run]];

        place->profile = FG_MAX(place->profile, run->first);
        while (place->profile < run->first + run->count &&
               !cmp_merge_chosen(&cursor->choice, place->profile))
            place->profile++;
        if (place->profile < run->first + run->count)
            return run;
    }
    return NULL;
}

/* Moves to the next chosen profile of the series, which may be the current one. Chunks of a
 * later time stripe are not read yet: their pages are elsewhere and would push out the current
 * one. */
static enum fg_code settle(struct cmp_merge_cursor *cursor, struct fg_err *err)
{
    const struct fg_block_chunk *run = next_run(cursor);
    uint32_t at;

    cursor->has_profile = false;
    if (run == NULL || run->t_min_ns > cursor->until_ns)
        return FG_OK;
    cursor->profile = cursor->places[cursor->series].profile;
    /* Unsigned: a profile before the page wraps around and counts as outside, too. */
    if (cursor->profile - cursor->rows.first >= cursor->rows.count &&
        load_rows(cursor, err) != FG_OK)
        return err->code;
    at = cursor->profile - cursor->rows.first;
    fg_assert(at < cursor->rows.count); /* the page that has the profile is loaded */
    cursor->time_ns = cursor->rows.times_ns[at];
    cursor->id = cursor->ids[at];
    cursor->has_profile = cursor->time_ns <= cursor->until_ns;
    return FG_OK;
}

enum fg_code cmp_merge_cursor_next(struct cmp_merge_cursor *cursor, struct fg_err *err)
{
    cursor->places[cursor->series].profile++;
    return settle(cursor, err);
}

static void set_header(struct cmp_merge_cursor *cursor, const struct fg_block_series_row *row)
{
    cursor->header = (struct fg_block_series){.labels = row->labels,
                                              .types = row->schema->types,
                                              .n_types = row->schema->n_types,
                                              .period_type = row->schema->period_type};
}

static bool any_chosen(const struct cmp_merge_cursor *cursor, const struct fg_block_series_row *row)
{
    for (uint32_t i = 0; i < row->n_chunks; i++) {
        const struct fg_block_chunk *run = &cursor->part.index.chunks[row->chunks[i]];

        if (cmp_merge_chosen_any(&cursor->choice, run->first, run->count))
            return true;
    }
    return false;
}

void cmp_merge_cursor_list(struct cmp_merge_cursor *cursor, bool first)
{
    const struct fg_block_index *index = &cursor->part.index;

    /* Series without a chosen profile are skipped: the merged part must not list them. */
    cursor->series = first ? 0 : cursor->series + 1;
    while (cursor->series < index->n_series && !any_chosen(cursor, &index->series[cursor->series]))
        cursor->series++;
    if (cursor->series < index->n_series)
        set_header(cursor, &index->series[cursor->series]);
}

/* Moves to the series at hand, or to the first one after it, that has a profile in the time
 * stripe. */
static enum fg_code settle_series(struct cmp_merge_cursor *cursor, struct fg_err *err)
{
    const struct fg_block_index *index = &cursor->part.index;

    for (; cursor->series < index->n_series; cursor->series++) {
        if (settle(cursor, err) != FG_OK)
            return err->code;
        if (cursor->has_profile) {
            set_header(cursor, &index->series[cursor->series]);
            break;
        }
    }
    return FG_OK;
}

enum fg_code cmp_merge_cursor_begin(struct cmp_merge_cursor *cursor, int64_t until_ns,
                                    struct fg_err *err)
{
    cursor->until_ns = until_ns;
    cursor->series = 0;
    return settle_series(cursor, err);
}

enum fg_code cmp_merge_cursor_series(struct cmp_merge_cursor *cursor, struct fg_err *err)
{
    cursor->series++;
    return settle_series(cursor, err);
}

/* ---- reading ---- */

void cmp_merge_profile_done(struct cmp_merge_profile *profile)
{
    free(profile->stacks);
    free(profile->links);
    free(profile->link_values);
}

/* Opens the page of samples of the current profile, and the page of span links that has the same
 * profiles. */
static enum fg_code load_samples(struct cmp_merge_cursor *cursor, struct fg_err *err)
{
    const struct cmp_merge_part *part = &cursor->part;
    uint32_t page = cmp_merge_part_page_of(part, FG_BLOCK_SMP, cursor->profile);

    if (page == cursor->samples_page)
        return FG_OK;
    /* Unset until both pages are read, so that a failure leaves no page that is half loaded. */
    cursor->samples_page = FG_MAP_NONE;
    cursor->links.count = cursor->next_link = 0;
    if (fg_block_samples_open(cursor->samples, &part->index, page,
                              cmp_merge_part_page(part, FG_BLOCK_SMP, page), err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    fg_arena_reset(cursor->links_arena);
    if (part->index.pages[FG_BLOCK_EXM].count > 0 &&
        fg_block_exemplars_parse(&part->index, page, cmp_merge_part_page(part, FG_BLOCK_EXM, page),
                                 cursor->links_arena, &cursor->links, err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    cursor->samples_page = page;
    return FG_OK;
}

enum fg_code cmp_merge_cursor_samples(struct cmp_merge_cursor *cursor, uint32_t profile,
                                      struct fg_block_sample_set *ret_set, struct fg_err *err)
{
    const struct cmp_merge_part *part = &cursor->part;
    const struct fg_block_pages *pages = &part->index.pages[FG_BLOCK_SMP];
    uint32_t page = cursor->samples_page;

    if (page == FG_MAP_NONE || profile < pages->pages[page].first ||
        profile - pages->pages[page].first >= pages->pages[page].items) {
        page = cmp_merge_part_page_of(part, FG_BLOCK_SMP, profile);
        cursor->samples_page = FG_MAP_NONE;
        if (fg_block_samples_open(cursor->samples, &part->index, page,
                                  cmp_merge_part_page(part, FG_BLOCK_SMP, page), err) != FG_OK)
            return cmp_merge_part_wrap(part, err);
        cursor->samples_page = page;
    }
    if (fg_block_samples_read(cursor->samples, profile, ret_set, err) != FG_OK)
        return cmp_merge_part_wrap(part, err);
    return FG_OK;
}

static void grow_array(void *array, size_t count, size_t size)
{
    void **at = array;

    *at = fg_realloc(*at, count * size);
}

static void put_samples(const struct cmp_merge_cursor *cursor,
                        const struct fg_block_sample_set *set, struct cmp_merge_profile *into)
{
    if (set->count > into->cap_stacks) {
        into->cap_stacks = set->count * 2;
        grow_array(&into->stacks, into->cap_stacks, sizeof *into->stacks);
    }
    for (uint32_t i = 0; i < set->count; i++)
        into->stacks[i] = cursor->stacks[set->ranks[i]];
    into->profile.n_samples = set->count;
    into->profile.stacks = into->stacks;
    into->profile.values = set->values;
}

static void put_links(struct cmp_merge_cursor *cursor, uint32_t n_types,
                      struct cmp_merge_profile *into)
{
    const struct fg_block_exemplars *links = &cursor->links;
    uint32_t first, count = 0;

    /* A page may be visited once for each time stripe and begins again then. */
    if (cursor->next_link > 0 && links->items[cursor->next_link - 1].profile >= cursor->profile)
        cursor->next_link = 0;
    while (cursor->next_link < links->count &&
           links->items[cursor->next_link].profile < cursor->profile)
        cursor->next_link++;
    first = cursor->next_link;
    while (first + count < links->count && links->items[first + count].profile == cursor->profile)
        count++;
    if (count > into->cap_links) {
        into->cap_links = count * 2;
        grow_array(&into->links, into->cap_links, sizeof *into->links);
    }
    if ((size_t)count * n_types > into->cap_link_values) {
        into->cap_link_values = (size_t)count * n_types * 2;
        grow_array(&into->link_values, into->cap_link_values, sizeof *into->link_values);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct fg_block_exemplar *item = &links->items[first + i];

        into->links[i].stack = cursor->stacks[item->rank];
        into->links[i].span_id = item->span_id;
        memcpy(into->links[i].trace_id, item->trace_id, FG_ID_BYTES);
        for (uint32_t t = 0; t < n_types; t++)
            into->link_values[(size_t)t * count + i] = item->values[t];
    }
    into->profile.n_links = count;
    into->profile.links = into->links;
    into->profile.link_values = into->link_values;
}

enum fg_code cmp_merge_cursor_read(struct cmp_merge_cursor *cursor, struct cmp_merge_profile *into,
                                   struct fg_err *err)
{
    const struct fg_block_rows *rows = &cursor->rows;
    uint32_t at = cursor->profile - rows->first;
    struct fg_block_sample_set set;

    if (load_samples(cursor, err) != FG_OK)
        return err->code;
    if (fg_block_samples_read(cursor->samples, cursor->profile, &set, err) != FG_OK)
        return cmp_merge_part_wrap(&cursor->part, err);
    into->profile = (struct fg_block_profile){.id = cursor->id,
                                              .time_ns = cursor->time_ns,
                                              .duration_ns = rows->durations_ns[at],
                                              .period = rows->periods[at],
                                              .shard = rows->shards[at],
                                              .window = rows->windows[at]};
    if (cursor->sizes != NULL)
        into->profile.size = cursor->sizes[at];
    put_samples(cursor, &set, into);
    put_links(cursor, cursor->header.n_types, into);
    return FG_OK;
}
