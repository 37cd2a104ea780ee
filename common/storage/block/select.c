/*
 * Series by selector. What a matcher says of stored labels is looked up in the postings, once for
 * each value instead of once for each series; what it says of the labels made from the type is
 * asked once for each row of series with the same schema and name, which are adjacent.
 */
#include "common/base/search.h"
#include "common/model/label_index.h"
#include "common/storage/block/reader_impl.h"

/* Returns the number of a label that is made from the type (label_index.h), or -1. __name__ is one
 * too, but the series itself has the same. */
static int number_of_type(const struct fg_matcher *matcher)
{
    for (int i = 0; i < FG_LABEL_NAMES_OF_TYPE; i++)
        if (fg_slice_is(matcher->name, fg_label_names_of_type[i]))
            return i;
    return -1;
}

/* Takes out of `live` the series that do not match. A series without the label has the value "". */
static enum fg_code match_labels(const struct fg_block_index *index,
                                 const struct fg_selector *selector,
                                 const struct fg_matcher *matcher, bool *matched, bool *live,
                                 struct fg_err *err)
{
    uint64_t n_matched = 0;
    bool without = fg_matcher_matches(matcher, fg_bytes(NULL, 0));

    memset(matched, without, index->n_series * sizeof *matched);
    for (uint32_t i = fg_lower_bound(p, 0, index->n_postings,
                                     fg_slice_cmp(index->postings[p].name, matcher->name) < 0);
         i < index->n_postings && fg_slice_eq(index->postings[i].name, matcher->name); i++) {
        const struct fg_label_posting *posting = &index->postings[i];
        bool match = fg_matcher_matches(matcher, posting->value);

        for (uint32_t k = 0; match != without && k < posting->n_series; k++)
            matched[posting->series[k]] = match;
        if (fg_selector_ask(selector, &n_matched, err) != FG_OK)
            return err->code;
    }
    for (uint32_t s = 0; s < index->n_series; s++)
        live[s] = live[s] && matched[s];
    return FG_OK;
}

/* What decides about the labels made from a series' types. */
struct typing {
    const struct fg_block_schema *schema;
    struct fg_slice name, service;
    uint64_t types; /* bit t: type t matches */
};

/* text: the type as a text. */
static bool type_matches(const struct fg_selector *selector, const struct fg_profile_type *type,
                         struct fg_slice text, struct fg_slice service)
{
    for (size_t i = 0; i < selector->n_matchers; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];
        int number = number_of_type(matcher);

        if (number >= 0 &&
            !fg_matcher_matches(matcher, fg_label_of_type((unsigned)number, type, text, service)))
            return false;
    }
    return true;
}

uint64_t fg_block_select_types(const struct fg_block_series_row *row,
                               const struct fg_selector *selector)
{
    struct fg_slice service = fg_labels_get(&row->labels, FG_LABEL_SERVICE);
    struct fg_buf text;
    uint64_t types = 0;

    fg_assert(row->schema != NULL);
    fg_buf_init(&text, SIZE_MAX);
    for (uint32_t t = 0; t < row->schema->n_types; t++) {
        struct fg_profile_type type = fg_block_profile_type(row, t);

        fg_buf_clear(&text);
        fg_profile_type_write(&type, &text);
        if (type_matches(selector, &type, fg_buf_slice(&text), service))
            types |= UINT64_C(1) << t;
    }
    fg_buf_done(&text);
    return types;
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
        if (number_of_type(&selector->matchers[i]) < 0 &&
            match_labels(index, selector, &selector->matchers[i], matched, live, err) != FG_OK)
            return err->code;
    *ret_live = live;
    return FG_OK;
}

/* Takes the series that match, each with the types that do, and returns how many matches there are.
 * matches NULL: only counts them, so that the array can be made in its size. */
static uint32_t collect(const struct fg_block_index *index, const struct fg_selector *selector,
                        const bool *live, struct fg_block_match *matches)
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
            !fg_slice_eq(typing.service, service))
            typing =
                (struct typing){row->schema, name, service, fg_block_select_types(row, selector)};
        for (uint64_t types = typing.types & row->seen; types != 0; types &= types - 1) {
            if (matches != NULL)
                matches[count] = (struct fg_block_match){s, (uint32_t)__builtin_ctzll(types)};
            count++;
        }
    }
    return count;
}

enum fg_code fg_block_select(const struct fg_block_index *index, const struct fg_selector *selector,
                             struct fg_arena *arena, struct fg_block_match **ret_matches,
                             uint32_t *ret_count, struct fg_err *err)
{
    struct fg_block_match *matches;
    bool *live = NULL;

    if (fg_block_select_series(index, selector, arena, &live, err) != FG_OK)
        return err->code;
    fg_assert(live != NULL);
    *ret_count = collect(index, selector, live, NULL);
    matches = fg_arena_new(arena, struct fg_block_match, *ret_count);
    if (matches == NULL)
        return fg_block_no_room(err, "series");
    (void)collect(index, selector, live, matches);
    *ret_matches = matches;
    return FG_OK;
}
