/*
 * Series by selector. What a matcher says of stored labels is looked up in the postings, once for
 * each value instead of once for each series; what it says of the labels made from the type is
 * asked once for each row of series with the same schema and name, which are adjacent.
 */
#include "common/base/search.h"
#include "common/storage/block/reader_impl.h"

#define TYPE_LABELS                                                                                \
    {                                                                                              \
        FG_LABEL_PROFILE_TYPE, FG_LABEL_TYPE, FG_LABEL_UNIT, FG_LABEL_PERIOD_TYPE,                 \
            FG_LABEL_PERIOD_UNIT, FG_LABEL_SERVICE_COPY                                            \
    }

/* True if the matcher is about a label made from the type. __name__ is one too, but the series
 * itself has the same. */
static bool is_of_type(const struct fg_matcher *matcher)
{
    static const char *const names[] = TYPE_LABELS;

    for (size_t i = 0; i < FG_COUNT(names); i++)
        if (fg_slice_is(matcher->name, names[i]))
            return true;
    return false;
}

/* Takes out of `live` the series that do not match. A series without the label has the value "". */
static void match_labels(const struct fg_block_index *index, const struct fg_matcher *matcher,
                         bool *matched, bool *live)
{
    bool without = fg_matcher_matches(matcher, fg_bytes(NULL, 0));

    memset(matched, without, index->n_series * sizeof *matched);
    for (uint32_t i = fg_lower_bound(p, 0, index->n_postings,
                                     fg_slice_cmp(index->postings[p].name, matcher->name) < 0);
         i < index->n_postings && fg_slice_eq(index->postings[i].name, matcher->name); i++) {
        const struct fg_label_posting *posting = &index->postings[i];
        bool match = fg_matcher_matches(matcher, posting->value);

        for (uint32_t k = 0; match != without && k < posting->n_series; k++)
            matched[posting->series[k]] = match;
    }
    for (uint32_t s = 0; s < index->n_series; s++)
        live[s] = live[s] && matched[s];
}

/* What decides about the labels made from a series' types. */
struct typing {
    const struct fg_block_schema *schema;
    struct fg_slice name, service;
    uint64_t types; /* bit t: type t matches */
};

static bool type_matches(const struct fg_selector *selector, const struct fg_labels *labels)
{
    for (size_t i = 0; i < selector->n_matchers; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];
        size_t at;

        if (!is_of_type(matcher))
            continue;
        if (!fg_matcher_matches(matcher, fg_labels_find(labels, matcher->name, &at)
                                             ? labels->items[at].value
                                             : fg_bytes(NULL, 0)))
            return false;
    }
    return true;
}

enum fg_code fg_block_select_types(const struct fg_block_series_row *row,
                                   const struct fg_selector *selector, struct fg_arena *arena,
                                   uint64_t *ret_types, struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(arena);
    uint64_t types = 0;

    fg_assert(row->schema != NULL);
    for (uint32_t t = 0; t < row->schema->n_types; t++) {
        struct fg_profile_type type = fg_block_profile_type(row, t);
        struct fg_labels labels = fg_labels_with_type(&row->labels, &type, arena);

        if (labels.items == NULL)
            return fg_block_no_room(err, "series");
        if (type_matches(selector, &labels))
            types |= UINT64_C(1) << t;
        fg_arena_release(arena, mark);
    }
    *ret_types = types;
    return FG_OK;
}

/* Takes the series that match, each with the types that do. matches NULL: only counts them, so
 * that the array can be made in its size. */
static enum fg_code collect(const struct fg_block_index *index, const struct fg_selector *selector,
                            const bool *live, struct fg_arena *arena,
                            struct fg_block_match *matches, uint32_t *ret_count, struct fg_err *err)
{
    struct typing typing = {NULL, {NULL, 0}, {NULL, 0}, 0};
    uint32_t count = 0;

    for (uint32_t s = 0; s < index->n_series; s++) {
        const struct fg_block_series_row *row = &index->series[s];

        if (!live[s])
            continue;

        struct fg_slice name = fg_labels_get(&row->labels, FG_LABEL_NAME);
        struct fg_slice service = fg_labels_get(&row->labels, FG_LABEL_SERVICE);

        if (typing.schema != row->schema || !fg_slice_eq(typing.name, name) ||
            !fg_slice_eq(typing.service, service)) {
            typing = (struct typing){row->schema, name, service, 0};
            if (fg_block_select_types(row, selector, arena, &typing.types, err) != FG_OK)
                return err->code;
        }
        for (uint64_t types = typing.types & row->seen; types != 0; types &= types - 1) {
            if (matches != NULL)
                matches[count] = (struct fg_block_match){s, (uint32_t)__builtin_ctzll(types)};
            count++;
        }
    }
    *ret_count = count;
    return FG_OK;
}

enum fg_code fg_block_select_series(const struct fg_block_index *index,
                                    const struct fg_selector *selector, struct fg_arena *arena,
                                    bool **ret_live, struct fg_err *err)
{
    bool *live = fg_arena_alloc(arena, index->n_series * sizeof *live);
    bool *matched = fg_arena_alloc(arena, index->n_series * sizeof *matched);

    if (live == NULL || matched == NULL)
        return fg_block_no_room(err, "series");
    memset(live, true, index->n_series * sizeof *live);
    for (size_t i = 0; i < selector->n_matchers; i++)
        if (!is_of_type(&selector->matchers[i]))
            match_labels(index, &selector->matchers[i], matched, live);
    *ret_live = live;
    return FG_OK;
}

enum fg_code fg_block_select(const struct fg_block_index *index, const struct fg_selector *selector,
                             struct fg_arena *arena, struct fg_block_match **ret_matches,
                             uint32_t *ret_count, struct fg_err *err)
{
    struct fg_block_match *matches;
    uint32_t count = 0;
    bool *live = NULL;

    if (fg_block_select_series(index, selector, arena, &live, err) != FG_OK)
        return err->code;
    fg_assert(live != NULL);
    if (collect(index, selector, live, arena, NULL, &count, err) != FG_OK)
        return err->code;
    matches = fg_arena_new(arena, struct fg_block_match, count);
    if (matches == NULL)
        return fg_block_no_room(err, "series");
    if (collect(index, selector, live, arena, matches, &count, err) != FG_OK)
        return err->code;
    *ret_matches = matches;
    *ret_count = count;
    return FG_OK;
}
