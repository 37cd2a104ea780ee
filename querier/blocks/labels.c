/*
 * SERIES as label indexes: which series have which labels, from indexes and their rosters. What has
 * data is decided as for label sets (series.c): by the series chunks.
 */
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/rollup_only.h"

/* A type of a class that the selector matches. */
struct class_type {
    struct fg_profile_type type;
    struct fg_slice text;
};

/* What a class of the roster contributes. */
struct class_types {
    struct class_type *items;
    uint32_t n;
    uint8_t mark; /* of its series; 0: none of its types matches */
};

struct labels_listing {
    struct qry_reader reader;
    struct qry_cardinality *into;
    struct fg_label_indexing gone; /* of series of which only rollups are left */
    struct fg_arena *gone_arena;
};

/* ---- which series ---- */

/* Returns true if a chunk of the series may have profiles in what is left. */
static bool has_data(const struct fg_block_index *index, const struct fg_block_series_row *row,
                     const struct fg_left *left)
{
    for (uint32_t i = 0; i < left->count; i++) {
        struct fg_time_span span = left->spans[i];

        if (row->t_max_ns < span.start_ns || row->t_min_ns > span.end_ns)
            continue;
        for (uint32_t k = 0; k < row->n_chunks; k++) {
            const struct fg_block_chunk *chunk = &index->chunks[row->chunks[k]];

            if (chunk->t_max_ns >= span.start_ns && chunk->t_min_ns <= span.end_ns)
                return true;
        }
    }
    return false;
}

static enum fg_code leave_out(struct qry_reader *reader, const struct qry_part *part, bool *live,
                              struct fg_err *err)
{
    static const struct fg_deletions none;
    const struct fg_deletions *deletions = &reader->query->deletions[part->tenant];
    const struct fg_block_part *entry = part->entry;
    struct fg_leaving leaving;

    /* A part in the range that no deletion touches is taken whole, without a look at chunks. */
    if (!fg_deletions_touch(deletions, entry->service, entry->t_min_ns, entry->t_max_ns)) {
        if (entry->t_min_ns >= reader->start_ns && entry->t_max_ns <= reader->end_ns)
            return FG_OK; /* all of it is in the range */
        deletions = &none;
    }
    fg_leaving_init(&leaving, deletions, (struct fg_time_span){reader->start_ns, reader->end_ns},
                    reader->arena);
    for (uint32_t i = 0; i < part->index->n_series; i++) {
        const struct fg_block_series_row *row = &part->index->series[i];
        struct fg_left left;

        if (!live[i])
            continue;
        if (fg_leaving_of(&leaving, &row->labels, &left, err) != FG_OK)
            return err->code;
        live[i] = has_data(part->index, row, &left);
    }
    return FG_OK;
}

/* ---- their types ---- */

static enum fg_code find_types(struct qry_reader *reader, const struct qry_roster_class *class,
                               struct class_types *ret_types, struct fg_err *err)
{
    uint64_t types = fg_block_select_types(class->row, &reader->selector);

    /* One for each bit of `seen`. */
    ret_types->items = fg_arena_new(reader->arena, struct class_type, 64);
    if (ret_types->items == NULL)
        return qry_query_too_large(err);
    /* Types that a schema has without a value in any profile of the class are no types of it. */
    for (types &= class->seen; types != 0; types &= types - 1) {
        struct class_type *type = &ret_types->items[ret_types->n++];

        type->type = fg_block_profile_type(class->row, (uint32_t)__builtin_ctzll(types));

        struct fg_buf written;

        fg_buf_init(&written, SIZE_MAX);
        fg_profile_type_write(&type->type, &written);
        type->text = fg_arena_copy(reader->arena, fg_buf_slice(&written));
        fg_buf_done(&written);
        if (type->text.ptr == NULL)
            return qry_query_too_large(err);
    }
    return FG_OK;
}

static bool index_types(struct fg_label_indexing *indexing, const struct class_types *types)
{
    for (uint32_t i = 0; i < types->n; i++)
        if (!fg_label_indexing_type(indexing, &types->items[i].type, types->items[i].text))
            return false;
    return true;
}

/* Finds the types of all classes that have live series. The labels made from them are gathered in
 * an index of one series of each class. */
static enum fg_code find_classes(struct qry_reader *reader, const struct qry_part *part,
                                 const struct qry_roster *roster, const bool *live,
                                 struct fg_label_indexing *indexing, struct class_types *classes,
                                 struct fg_err *err)
{
    bool *used = fg_arena_new(reader->arena, bool, roster->n_classes);

    if (used == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < part->index->n_series; i++)
        used[roster->class_of[i]] |= live[i];
    for (uint32_t i = 0; i < roster->n_classes; i++) {
        if (!used[i])
            continue;
        if (find_types(reader, &roster->classes[i], &classes[i], err) != FG_OK)
            return err->code;
        if (classes[i].n == 0)
            continue;
        /* The print is never used: of this index only the mark and the values are taken. */
        if (!fg_label_indexing_series(indexing, &roster->classes[i].row->labels,
                                      &(struct fg_id){0}) ||
            !index_types(indexing, &classes[i]))
            return qry_query_too_large(err);
        classes[i].mark = indexing->marks[indexing->n_prints - 1];
    }
    return FG_OK;
}

/* ---- parts ---- */

/* An index of a label that is made from types needs the pairs of series and value. */
static enum fg_code add_pairs(struct labels_listing *listing, const struct qry_part *part,
                              const struct qry_roster *roster, const uint8_t *marks,
                              const struct class_types *classes, struct fg_err *err)
{
    struct fg_label_indexing indexing;
    struct fg_label_index index;

    fg_label_indexing_init(&indexing, listing->into->config.label, listing->reader.arena);
    for (uint32_t i = 0; i < part->index->n_series; i++)
        if (marks[i] != 0 && (!fg_label_indexing_series(&indexing, &part->index->series[i].labels,
                                                        &roster->prints[i]) ||
                              !index_types(&indexing, &classes[roster->class_of[i]])))
            return qry_query_too_large(err);
    if (fg_label_indexing_end(&indexing, &index, err) != FG_OK)
        return err->code;
    qry_cardinality_add(listing->into, &index);
    return FG_OK;
}

static enum fg_code add_selected(struct labels_listing *listing, const struct qry_part *part,
                                 const bool *live, struct fg_err *err)
{
    struct qry_reader *reader = &listing->reader;
    const char *label = listing->into->config.label;
    const struct fg_block_index *index = part->index;
    const struct qry_roster *roster = qry_roster_of(part->index_entry);
    struct class_types *classes =
        fg_arena_new(reader->arena, struct class_types, roster->n_classes);
    uint8_t *marks = fg_arena_alloc(reader->arena, index->n_series);
    struct fg_label_indexing indexing;

    if (classes == NULL || marks == NULL)
        return qry_query_too_large(err);
    fg_label_indexing_init(&indexing, NULL, reader->arena);
    if (find_classes(reader, part, roster, live, &indexing, classes, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < index->n_series; i++) {
        marks[i] = live[i] ? classes[roster->class_of[i]].mark : 0;
        reader->query->series += marks[i] != 0;
    }
    /* All other labels go without a copy, by the postings of the index itself. */
    if (label != NULL && fg_label_is_of_type(fg_cstr(label)))
        return add_pairs(listing, part, roster, marks, classes, err);
    qry_cardinality_add(listing->into, &(struct fg_label_index){.prints = roster->prints,
                                                                .marks = marks,
                                                                .n_series = index->n_series,
                                                                .n_prints = index->n_series,
                                                                .postings = index->postings,
                                                                .n_postings = index->n_postings,
                                                                .of_types = indexing.of_types,
                                                                .n_of_types = indexing.n_of_types,
                                                                .service = part->entry->service});
    return FG_OK;
}

static enum fg_code add_part(struct labels_listing *listing, const struct qry_part *part,
                             struct fg_err *err)
{
    struct qry_reader *reader = &listing->reader;
    struct fg_arena_mark mark = fg_arena_mark(reader->arena);
    bool *live;

    if (fg_block_select_series(part->index, &reader->selector, reader->arena, &live, err) !=
            FG_OK ||
        leave_out(reader, part, live, err) != FG_OK ||
        add_selected(listing, part, live, err) != FG_OK)
        return fg_wrap(err, "%s", part->object->name);
    /* A failure above ends the query, and with it the whole arena. */
    fg_arena_release(reader->arena, mark);
    return qry_query_check(reader->query, err);
}

static enum fg_code read_all(struct labels_listing *listing, struct fg_err *err)
{
    do {
        if (qry_reader_next(&listing->reader, err) != FG_OK)
            return err->code;
        for (uint32_t i = 0; i < listing->reader.n_batch; i++)
            if (add_part(listing, &listing->reader.batch[i], err) != FG_OK)
                return err->code;
    } while (listing->reader.n_batch > 0);
    return FG_OK;
}

/* ---- rollups whose profiles are gone ---- */

static enum fg_code take_gone(void *arg, const struct fg_labels *labels, struct fg_err *err)
{
    struct labels_listing *listing = arg;
    struct fg_labels copy = fg_labels_copy(labels, listing->gone_arena);

    if (labels->items == NULL || copy.items == NULL ||
        !fg_label_indexing_set(&listing->gone, &copy))
        return qry_query_too_large(err);
    return FG_OK;
}

static enum fg_code add_gone(struct labels_listing *listing, struct qry_query *query,
                             const struct qry_selection *selection, struct fg_err *err)
{
    struct fg_label_index index;

    fg_label_indexing_init(&listing->gone, listing->into->config.label, listing->gone_arena);
    if (qry_rollup_only_series(query, selection, take_gone, listing, err) != FG_OK ||
        fg_label_indexing_end(&listing->gone, &index, err) != FG_OK)
        return err->code;
    if (index.n_series > 0)
        qry_cardinality_add(listing->into, &index);
    return FG_OK;
}

enum fg_code qry_blocks_labels(struct qry_query *query, const struct qry_selection *selection,
                               struct qry_cardinality *into, struct fg_err *err)
{
    struct labels_listing listing = {.into = into};
    enum fg_code code;

    if (query->snapshot == NULL)
        return FG_OK;
    code = qry_reader_open(&listing.reader, query, selection, NULL, selection->start_ns,
                           selection->end_ns, OBJECTS_PROFILES, false, err);
    listing.reader.of_labels = true;
    if (code == FG_OK)
        code = read_all(&listing, err);
    if (code == FG_OK) {
        listing.gone_arena = fg_arena_create(query->querier->blocks->memory_max_bytes);
        code = add_gone(&listing, query, selection, err);
        fg_arena_destroy(listing.gone_arena);
    }
    qry_reader_close(&listing.reader);
    return code;
}
