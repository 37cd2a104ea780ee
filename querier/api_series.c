/* The method for values over time. */
#include "querier/api.h"
#include "querier/collect.h"
#include "querier/reply.h"

#include <math.h>

struct grid {
    int64_t start_ms, step_ms;
    bool average;
    const char *rate_unit; /* empty: values have no rates */
};

/* Gives each point the greatest profile or span of its step. */
static bool put_exemplars(struct fg_arena *arena, const struct fg_profile_rows *rows,
                          const struct qry_points *from, Types__V1__Point **points)
{
    uint32_t group = rows->n == 0 ? FG_MAP_NONE : fg_profile_rows_group(rows, &from->labels);

    for (size_t i = 0; group != FG_MAP_NONE && i < from->n; i++) {
        const struct fg_profile_row *row =
            fg_profile_rows_find(rows, group, (uint64_t)from->items[i].k);

        if (row == NULL)
            continue;
        points[i]->exemplars = qry_api_exemplars(arena, rows, &row, 1);
        points[i]->n_exemplars = 1;
        if (points[i]->exemplars == NULL)
            return false;
    }
    return true;
}

static Types__V1__Point **make_points(struct fg_arena *arena, const struct qry_points *from,
                                      const struct grid *grid, const struct fg_profile_rows *rows)
{
    Types__V1__Point **points = qry_api_messages(arena, &types__v1__point__descriptor, from->n);

    for (size_t i = 0; points != NULL && i < from->n; i++) {
        const struct qry_point *point = &from->items[i];
        /* The mean of the step's profiles, of all sources together: merged points have sum and
         * count. */
        double count = grid->average && point->count > 0 ? (double)point->count : 1;

        points[i]->value = (double)point->sum / count;
        points[i]->timestamp = qry_point_ms(point, grid->start_ms, grid->step_ms);
        if (from->covered_ns != NULL) {
            points[i]->covered = (double)from->covered_ns[i] / FG_SECOND_NS;
            if (grid->rate_unit[0] != '\0')
                points[i]->rate = (double)point->sum / points[i]->covered;
        }
    }
    return points == NULL || !put_exemplars(arena, rows, from, points) ? NULL : points;
}

/* Says what the values are, and for how long there are any. */
static bool put_facts(struct qry_query *query, const struct qry_selection *selection,
                      const struct grid *grid, const struct qry_points *from,
                      Types__V1__Series *series)
{
    int64_t covered_ns = 0;

    if (from->covered_ns == NULL)
        return true;
    series->unit = qry_api_text(query->arena, selection->type.unit);
    series->rate_unit = qry_api_text(query->arena, fg_cstr(grid->rate_unit));
    series->step = (double)grid->step_ms / 1000;
    for (size_t i = 0; i < from->n; i++)
        covered_ns = fg_value_add(covered_ns, from->covered_ns[i]);
    series->covered = (double)covered_ns / FG_SECOND_NS;
    return series->unit != NULL && series->rate_unit != NULL;
}

static enum fg_code reply_points(struct qry_query *query, const struct qry_selection *selection,
                                 const Querier__V1__SelectSeriesRequest *in,
                                 const struct grid *grid, const struct qry_points *from, size_t n,
                                 const struct fg_profile_rows *rows, struct fg_err *err)
{
    Querier__V1__SelectSeriesResponse out;

    querier__v1__select_series_response__init(&out);
    out.series = qry_api_messages(query->arena, &types__v1__series__descriptor, n);
    out.n_series = n;
    if (out.series == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < n; i++) {
        out.series[i]->labels = qry_api_group_pairs(query->arena, &from[i].labels, in->group_by,
                                                    in->n_group_by, &out.series[i]->n_labels);
        out.series[i]->points = make_points(query->arena, &from[i], grid, rows);
        out.series[i]->n_points = from[i].n;
        if (out.series[i]->labels == NULL || out.series[i]->points == NULL ||
            !put_facts(query, selection, grid, &from[i], out.series[i]))
            return qry_api_too_large(err);
    }
    return qry_reply_message(query, &out.base, err);
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

/* Finds the exemplars, into an empty list. */
static enum fg_code collect_exemplars(struct qry_query *query,
                                      const Querier__V1__SelectSeriesRequest *in,
                                      const struct qry_selection *selection,
                                      const struct grid *grid, struct fg_profile_rows *into,
                                      struct fg_err *err)
{
    bool individual = in->exemplar_type == TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL,
         spans = in->exemplar_type == TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN;
    const struct qry_counted counted = qry_query_counted(query);

    fg_profile_rows_init(into, &(struct fg_profile_rows_config){
                                   .arena = query->arena,
                                   .max_bytes = query->querier->answer_max_bytes,
                                   .keep = FG_ROWS_GREATEST,
                                   .spans = spans,
                                   .group_by = (const char *const *)in->group_by,
                                   .n_group_by = in->n_group_by,
                                   .step_ns = grid->step_ms * FG_MS_NS,
                               });
    if (!individual && !spans)
        return FG_OK;
    enum fg_code code = qry_collect_rows(query, selection, into, err);
    qry_query_count_back(query, counted); /* they are of the same profiles */
    return code;
}

static enum fg_code answer_points(struct qry_query *query,
                                  const Querier__V1__SelectSeriesRequest *in,
                                  struct qry_selection *selection, struct fg_err *err)
{
    bool has_limit = in->opt_limit_case == QUERIER__V1__SELECT_SERIES_REQUEST__OPT_LIMIT_LIMIT;
    struct fg_profile_rows exemplars;
    struct qry_points *found = NULL;
    struct grid grid = {0};
    enum fg_code code;
    size_t n;

    if (qry_selection_range(query, selection, in->start, in->end, err) != FG_OK ||
        qry_selection_check_grid(in->start, err) != FG_OK || read_grid(in, &grid, err) != FG_OK ||
        qry_selection_profiles(query, selection, in->profile_typeid, in->label_selector, err) !=
            FG_OK)
        return err->code;
    grid.rate_unit = qry_selection_rate_unit(query, selection);
    if (grid.rate_unit == NULL)
        return qry_query_too_large(err);
    if (qry_collect_rates(query, selection, grid.step_ms * FG_MS_NS, in->group_by, in->n_group_by,
                          &found, &n, err) != FG_OK)
        return err->code;
    /* After all sources are merged: the largest series of one ingester need not be the largest of
     * all. */
    qry_points_order(found, &n, has_limit ? in->limit : 0);
    code = collect_exemplars(query, in, selection, &grid, &exemplars, err);
    if (code == FG_OK)
        code = reply_points(query, selection, in, &grid, found, n, &exemplars, err);
    fg_profile_rows_done(&exemplars);
    return code;
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
