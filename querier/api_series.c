/* The method for values over time. */
#include "querier/api.h"
#include "querier/collect.h"

#include <math.h>

/* Makes the labels of a group, in the order of group_by, without those it lacks. */
static Types__V1__LabelPair **group_labels(struct fg_arena *arena, const struct fg_labels *labels,
                                           char *const *group_by, size_t n_group_by, size_t *ret_n)
{
    struct fg_labels ordered = {.items = fg_arena_new(arena, struct fg_label, n_group_by)};

    if (ordered.items == NULL)
        return NULL;
    for (size_t i = 0; i < n_group_by; i++) {
        struct fg_slice value = fg_labels_get(labels, group_by[i]);

        if (value.len > 0)
            ordered.items[ordered.count++] = (struct fg_label){fg_cstr(group_by[i]), value};
    }
    *ret_n = ordered.count;
    return qry_api_pairs(arena, &ordered);
}

struct grid {
    int64_t start_ms, step_ms;
    bool average;
};

static Types__V1__Point **make_points(struct fg_arena *arena, const struct qry_points *from,
                                      const struct grid *grid)
{
    Types__V1__Point **points = qry_api_messages(arena, &types__v1__point__descriptor, from->n);

    for (size_t i = 0; points != NULL && i < from->n; i++) {
        const struct qry_point *point = &from->items[i];
        double count = grid->average && point->count > 0 ? (double)point->count : 1;

        points[i]->value = (double)point->sum / count;
        points[i]->timestamp = qry_point_ms(point, grid->start_ms, grid->step_ms);
    }
    return points;
}

static enum fg_code reply_points(struct qry_query *query,
                                 const Querier__V1__SelectSeriesRequest *in,
                                 const struct grid *grid, const struct qry_points *from, size_t n,
                                 struct fg_err *err)
{
    Querier__V1__SelectSeriesResponse out;

    querier__v1__select_series_response__init(&out);
    out.series = qry_api_messages(query->arena, &types__v1__series__descriptor, n);
    out.n_series = n;
    if (out.series == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < n; i++) {
        out.series[i]->labels = group_labels(query->arena, &from[i].labels, in->group_by,
                                             in->n_group_by, &out.series[i]->n_labels);
        out.series[i]->points = make_points(query->arena, &from[i], grid);
        out.series[i]->n_points = from[i].n;
        if (out.series[i]->labels == NULL || out.series[i]->points == NULL)
            return qry_api_too_large(err);
    }
    return qry_query_reply(query, &out.base, err);
}

enum {
    STEP_MAX_S = 1000000000
}; /* 30 years; a larger step gives the same one point, and would
    * exceed 64 bits of nanoseconds */

static enum fg_code read_grid(const Querier__V1__SelectSeriesRequest *in, struct grid *ret_grid,
                              struct fg_err *err)
{
    if (!(in->step >= 0.001)) /* so written, NaN is refused, too */
        return fg_fail(err, FG_E_INVALID, "step must be >= 1ms");
    ret_grid->start_ms = in->start;
    ret_grid->step_ms = llround(fmin(in->step, STEP_MAX_S) * 1e9) / FG_MS_NS;
    ret_grid->average =
        in->opt_aggregation_case ==
            QUERIER__V1__SELECT_SERIES_REQUEST__OPT_AGGREGATION_AGGREGATION &&
        in->aggregation ==
            TYPES__V1__TIME_SERIES_AGGREGATION_TYPE__TIME_SERIES_AGGREGATION_TYPE_AVERAGE;
    return FG_OK;
}

static enum fg_code answer_points(struct qry_query *query,
                                  const Querier__V1__SelectSeriesRequest *in,
                                  struct qry_selection *selection, struct fg_err *err)
{
    bool has_limit = in->opt_limit_case == QUERIER__V1__SELECT_SERIES_REQUEST__OPT_LIMIT_LIMIT;
    struct qry_points *found = NULL;
    struct grid grid = {0};
    size_t n;

    if (qry_selection_range(query, selection, in->start, in->end, err) != FG_OK ||
        read_grid(in, &grid, err) != FG_OK ||
        qry_selection_profiles(query, selection, in->profile_typeid, in->label_selector, err) !=
            FG_OK)
        return err->code;
    if (in->exemplar_type == TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "span exemplars are not supported");
    if (qry_collect_points(query, selection, grid.step_ms * FG_MS_NS, in->group_by, in->n_group_by,
                           &found, &n, err) != FG_OK)
        return err->code;
    /* After all sources are merged: the largest series of one ingester need not be the largest of
     * all. */
    qry_points_order(found, &n, has_limit ? in->limit : 0);
    return reply_points(query, in, &grid, found, n, err);
}

enum fg_code qry_api_select_series(struct qry_query *query, const ProtobufCMessage *message,
                                   struct fg_err *err)
{
    struct qry_selection selection = {0};
    enum fg_code code =
        answer_points(query, (const Querier__V1__SelectSeriesRequest *)message, &selection, err);

    qry_selection_done(&selection);
    return code;
}
