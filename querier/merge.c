#include "querier/merge.h"

#include "common/base/value.h"
#include "querier/query.h"

/* --- label sets --- */

void qry_label_sets_init(struct qry_label_sets *sets)
{
    *sets = (struct qry_label_sets){0};
    fg_map_init(&sets->map);
}

void qry_label_sets_done(struct qry_label_sets *sets)
{
    fg_map_done(&sets->map);
}

/* Returns the item of a label set, or sets->n if it is not there. */
static size_t find_set(const struct qry_label_sets *sets, const struct fg_labels *labels,
                       uint64_t hash)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&sets->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&sets->map, &walk))
        if (fg_labels_cmp(&sets->items[i], labels) == 0)
            return i;
    return sets->n;
}

static enum fg_code append_set(struct qry_label_sets *sets, const struct fg_labels *labels,
                               uint64_t hash, struct fg_arena *arena, struct fg_err *err)
{
    if (sets->n == sets->cap) {
        /* Old arrays stay in the arena: together they are smaller than the newest. */
        size_t cap = sets->cap == 0 ? 64 : sets->cap * 2;
        struct fg_labels *items = fg_arena_new(arena, struct fg_labels, cap);

        /* The map has numbers of 32 bits. */
        if (items == NULL || cap >= FG_MAP_NONE)
            return qry_query_too_large(err);
        if (sets->n > 0)
            memcpy(items, sets->items, sets->n * sizeof *items);
        sets->items = items;
        sets->cap = cap;
    }
    fg_map_add(&sets->map, hash, (uint32_t)sets->n);
    sets->items[sets->n++] = *labels;
    return FG_OK;
}

enum fg_code qry_label_sets_add(struct qry_label_sets *sets, const struct fg_labels *labels,
                                struct fg_arena *arena, struct fg_err *err)
{
    uint64_t hash = fg_id_table(fg_labels_hash(labels));

    if (find_set(sets, labels, hash) < sets->n)
        return FG_OK;
    return append_set(sets, labels, hash, arena, err);
}

enum fg_code qry_label_sets_take(struct qry_label_sets *sets, const struct fg_labels *labels,
                                 struct fg_arena *arena, size_t *ret_at, struct fg_err *err)
{
    uint64_t hash = fg_id_table(fg_labels_hash(labels));
    /* Only a new set is copied: most calls find a known one. */
    size_t at = find_set(sets, labels, hash);

    if (at == sets->n) {
        struct fg_labels copy = fg_labels_copy(labels, arena);

        if (copy.items == NULL)
            return qry_query_too_large(err);
        if (append_set(sets, &copy, hash, arena, err) != FG_OK)
            return err->code;
    }
    *ret_at = at;
    return FG_OK;
}

static int cmp_labels(const void *a, const void *b)
{
    return fg_labels_cmp(a, b);
}

void qry_label_sets_sort(struct qry_label_sets *sets)
{
    if (sets->n > 1)
        qsort(sets->items, sets->n, sizeof *sets->items, cmp_labels);
    fg_map_clear(&sets->map); /* its numbers are those of before the sort */
}

/* --- points --- */

void qry_points_list_init(struct qry_points_list *list)
{
    *list = (struct qry_points_list){0};
    fg_map_init(&list->map);
}

void qry_points_list_done(struct qry_points_list *list)
{
    fg_map_done(&list->map);
}

/* Merges two ascending lists of points. */
static enum fg_code merge_points(struct qry_points *into, const struct qry_points *from,
                                 struct fg_arena *arena, struct fg_err *err)
{
    struct qry_point *merged = fg_arena_new(arena, struct qry_point, into->n + from->n);
    size_t a = 0, b = 0, n = 0;

    if (merged == NULL)
        return qry_query_too_large(err);
    while (a < into->n || b < from->n) {
        if (b == from->n || (a < into->n && into->items[a].k < from->items[b].k)) {
            merged[n++] = into->items[a++];
        } else if (a == into->n || from->items[b].k < into->items[a].k) {
            merged[n++] = from->items[b++];
        } else {
            merged[n] = into->items[a++];
            /* Clamped, not wrapped: a client would draw a negative value. */
            merged[n].sum = fg_value_add(merged[n].sum, from->items[b].sum);
            merged[n++].count += from->items[b++].count;
        }
    }
    fg_assert(n <= into->n + from->n);
    into->items = merged;
    into->n = n;
    return FG_OK;
}

static struct qry_points *find_points(struct qry_points_list *list, const struct fg_labels *labels,
                                      uint64_t hash)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&list->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&list->map, &walk))
        if (fg_labels_cmp(&list->items[i].labels, labels) == 0)
            return &list->items[i];
    return NULL;
}

enum fg_code qry_points_list_add(struct qry_points_list *list, const struct qry_points *points,
                                 struct fg_arena *arena, struct fg_err *err)
{
    uint64_t hash = fg_id_table(fg_labels_hash(&points->labels));
    /* Points of equal labels come from several ingesters and blocks, each with its own part of the
     * profiles. */
    struct qry_points *there = find_points(list, &points->labels, hash);

    if (there != NULL)
        return merge_points(there, points, arena, err);
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 16 : list->cap * 2;
        struct qry_points *items = fg_arena_new(arena, struct qry_points, cap);

        if (items == NULL || cap >= FG_MAP_NONE)
            return qry_query_too_large(err);
        if (list->items != NULL)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    fg_assert(list->items != NULL);
    fg_map_add(&list->map, hash, (uint32_t)list->n);
    list->items[list->n++] = *points;
    return FG_OK;
}

static int cmp_series(const void *a, const void *b)
{
    const struct qry_points *x = a, *y = b;

    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    /* Equal sums: responses must not depend on who answered first. */
    return fg_labels_cmp(&x->labels, &y->labels);
}

void qry_points_order(struct qry_points *all, size_t *n, int64_t limit)
{
    for (size_t i = 0; i < *n; i++) {
        all[i].total = 0;
        for (size_t p = 0; p < all[i].n; p++)
            /* A double: sums of many points may exceed 64 bits, and the order needs no last digit.
             */
            all[i].total += (double)all[i].items[p].sum;
    }
    if (*n > 1)
        qsort(all, *n, sizeof *all, cmp_series);
    if (limit > 0 && *n > (uint64_t)limit)
        *n = (size_t)limit;
}
