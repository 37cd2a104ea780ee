/* The method for single profiles and spans over time and value. */
#include "querier/api.h"
#include "querier/collect.h"
#include "querier/reply.h"

#include <math.h>

enum {
    BUCKETS = 20,            /* of values, as Pyroscope has them */
    STEP_MAX_S = 1000000000, /* thirty years; keeps sums of times in 64 bits */
};

/* A profile or span: where it goes. */
struct cell {
    uint32_t group;
    uint64_t slot;
    uint32_t bucket;
    int64_t value;
    const struct fg_profile_row *row;
};

/* What a group has. */
struct heat_series {
    uint32_t group;
    size_t first, n; /* cells, by slot and bucket; of equal ones the greatest value first */
};

struct heatmap {
    struct qry_query *query;
    const Querier__V1__SelectHeatmapRequest *in;
    int64_t start_ns, step_ns;
    struct fg_profile_rows rows;
    struct cell *cells;
    size_t n_cells;
    int64_t least, greatest; /* of all values; greatest > least */
    struct heat_series *series;
    size_t n_series;
};

/* ---- the request ---- */

static enum fg_code check_exemplars(const Querier__V1__SelectHeatmapRequest *in, struct fg_err *err)
{
    bool spans = in->query_type == QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_SPAN;

    /* Clients know these errors by code and text. */
    if (!spans && in->query_type != QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_INDIVIDUAL)
        return fg_fail(err, FG_E_UNKNOWN,
                       "rpc error: code = Unknown desc = valid heatmap query type must be "
                       "specified");
    if (spans && in->exemplar_type == TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL)
        return fg_fail(err, FG_E_UNKNOWN,
                       "rpc error: code = Unknown desc = individual exemplars only available for "
                       "individual query type");
    if (!spans && in->exemplar_type == TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN)
        return fg_fail(err, FG_E_UNKNOWN,
                       "rpc error: code = Unknown desc = span exemplars only available for span "
                       "query type");
    return FG_OK;
}

static enum fg_code check_request(const Querier__V1__SelectHeatmapRequest *in, struct fg_err *err)
{
    if (!(in->step >= 0.001))
        return fg_fail(err, FG_E_INVALID, "step must be >= 1ms, got %f", in->step);
    if (in->start >= in->end)
        return fg_fail(err, FG_E_INVALID,
                       "start time must be before end time, got start=%lld end=%lld",
                       (long long)in->start, (long long)in->end);
    if (in->opt_limit_case == QUERIER__V1__SELECT_HEATMAP_REQUEST__OPT_LIMIT_LIMIT && in->limit < 0)
        return fg_fail(err, FG_E_INVALID, "limit must be non-negative, got %lld",
                       (long long)in->limit);
    return check_exemplars(in, err);
}

/* ---- cells ---- */

#define ORDER(a, b)                                                                                \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

/* Rows of one span and time next to each other, whatever series they are of. */
static int compare_spans(const void *left, const void *right)
{
    const struct fg_profile_row *a = left, *b = right;
    int order;

    ORDER(a->group, b->group);
    ORDER(a->time_ns, b->time_ns);
    ORDER(a->span_id, b->span_id);
    order = memcmp(a->trace_id, b->trace_id, sizeof a->trace_id);
    if (order != 0)
        return order;
    return fg_id_cmp(a->id, b->id);
}

static bool same_span(const struct fg_profile_row *a, const struct fg_profile_row *b)
{
    return a->group == b->group && a->time_ns == b->time_ns && a->span_id == b->span_id &&
           memcmp(a->trace_id, b->trace_id, sizeof a->trace_id) == 0;
}

/* A span may have samples in several series: adds them up. */
static void join_spans(struct fg_profile_rows *rows)
{
    size_t kept = 0;

    if (rows->n == 0)
        return;
    qsort(rows->items, rows->n, sizeof *rows->items, compare_spans);
    for (size_t i = 1; i < rows->n; i++) {
        struct fg_profile_row *last = &rows->items[kept];

        if (same_span(last, &rows->items[i]))
            last->value = fg_value_add(last->value, rows->items[i].value);
        else
            rows->items[++kept] = rows->items[i];
    }
    rows->n = kept + 1;
}

/* In 128 bits: twenty times a difference of values does not fit in 64. */
static uint32_t bucket_of(const struct heatmap *map, int64_t value)
{
    __int128 at = ((__int128)value - map->least) * BUCKETS / ((__int128)map->greatest - map->least);

    return at >= BUCKETS ? BUCKETS - 1 : (uint32_t)at;
}

static double bound_of(const struct heatmap *map, unsigned bucket)
{
    return (double)(int64_t)(map->least +
                             ((__int128)map->greatest - map->least) * bucket / BUCKETS);
}

static int compare_cells(const void *left, const void *right)
{
    const struct cell *a = left, *b = right;

    ORDER(a->group, b->group);
    ORDER(a->slot, b->slot);
    ORDER(a->bucket, b->bucket);
    ORDER(b->value, a->value);
    ORDER(a->row, b->row);
    return 0;
}

static enum fg_code make_cells(struct heatmap *map, struct fg_err *err)
{
    map->n_cells = map->rows.n;
    map->cells = fg_arena_new(map->query->arena, struct cell, map->n_cells);
    if (map->cells == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < map->n_cells; i++) {
        const struct fg_profile_row *row = &map->rows.items[i];

        map->cells[i] = (struct cell){
            .group = row->group,
            .slot = fg_time_grid(fg_time_ms_end(map->start_ns), map->step_ns, row->time_ns),
            .bucket = bucket_of(map, row->value),
            .value = row->value,
            .row = row,
        };
    }
    if (map->n_cells > 0)
        qsort(map->cells, map->n_cells, sizeof *map->cells, compare_cells);
    return FG_OK;
}

/* ---- series ---- */

/* The most profiles or spans first. */
static int compare_series(const void *left, const void *right, void *arg)
{
    const struct heat_series *a = left, *b = right;
    const struct heatmap *map = arg;

    ORDER(b->n, a->n);
    return fg_labels_cmp(&map->rows.groups.items[a->group], &map->rows.groups.items[b->group]);
}

static enum fg_code make_series(struct heatmap *map, struct fg_err *err)
{
    uint64_t limit = map->in->opt_limit_case == QUERIER__V1__SELECT_HEATMAP_REQUEST__OPT_LIMIT_LIMIT
                         ? (uint64_t)map->in->limit
                         : 0;

    map->series = fg_arena_new(map->query->arena, struct heat_series, map->rows.groups.n);
    if (map->series == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < map->n_cells; i++) {
        struct heat_series *last = map->n_series == 0 ? NULL : &map->series[map->n_series - 1];

        if (last != NULL && last->group == map->cells[i].group)
            last->n++;
        else
            map->series[map->n_series++] = (struct heat_series){map->cells[i].group, i, 1};
    }
    if (map->n_series > 0)
        qsort_r(map->series, map->n_series, sizeof *map->series, compare_series, map);
    if (limit > 0)
        map->n_series = FG_MIN(map->n_series, (size_t)limit);
    return FG_OK;
}

/* ---- the answer ---- */

/* Fills a slot with cells, which are of one series and time. */
static bool fill_slot(const struct heatmap *map, const struct cell *cells, size_t n,
                      Types__V1__HeatmapSlot *slot)
{
    struct fg_arena *arena = map->query->arena;
    const struct fg_profile_row *greatest[BUCKETS];
    size_t n_greatest = 0;

    slot->timestamp = qry_point_ms(&(struct qry_point){.k = (int64_t)cells[0].slot},
                                   map->start_ns / FG_MS_NS, map->step_ns / FG_MS_NS);
    slot->y_min = fg_arena_new(arena, double, BUCKETS);
    slot->counts = fg_arena_new(arena, int32_t, BUCKETS);
    if (slot->y_min == NULL || slot->counts == NULL)
        return false;
    slot->n_y_min = slot->n_counts = BUCKETS;
    for (unsigned i = 0; i < BUCKETS; i++)
        slot->y_min[i] = bound_of(map, i);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || cells[i].bucket != cells[i - 1].bucket)
            greatest[n_greatest++] = cells[i].row;
        slot->counts[cells[i].bucket] += slot->counts[cells[i].bucket] < INT32_MAX;
    }
    if (map->in->exemplar_type != TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL &&
        map->in->exemplar_type != TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN)
        return true;
    slot->exemplars = qry_api_exemplars(arena, &map->rows, greatest, n_greatest);
    slot->n_exemplars = n_greatest;
    return slot->exemplars != NULL;
}

static bool fill_series(const struct heatmap *map, const struct heat_series *from,
                        Types__V1__HeatmapSeries *series)
{
    struct fg_arena *arena = map->query->arena;
    const struct cell *cells = map->cells + from->first;
    size_t n_slots = 0;

    for (size_t i = 0; i < from->n; i++)
        n_slots += i == 0 || cells[i].slot != cells[i - 1].slot;
    series->labels = qry_api_group_pairs(arena, &map->rows.groups.items[from->group],
                                         map->in->group_by, map->in->n_group_by, &series->n_labels);
    series->slots = qry_api_messages(arena, &types__v1__heatmap_slot__descriptor, n_slots);
    if (series->labels == NULL || series->slots == NULL)
        return false;
    for (size_t i = 0, next; i < from->n; i = next) {
        for (next = i + 1; next < from->n && cells[next].slot == cells[i].slot;)
            next++;
        if (!fill_slot(map, cells + i, next - i, series->slots[series->n_slots++]))
            return false;
    }
    return true;
}

static enum fg_code reply(const struct heatmap *map, struct fg_err *err)
{
    Querier__V1__SelectHeatmapResponse out;

    querier__v1__select_heatmap_response__init(&out);
    out.series =
        qry_api_messages(map->query->arena, &types__v1__heatmap_series__descriptor, map->n_series);
    out.n_series = map->n_series;
    if (out.series == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < map->n_series; i++)
        if (!fill_series(map, &map->series[i], out.series[i]))
            return qry_api_too_large(err);
    return qry_reply_message(map->query, &out.base, err);
}

static enum fg_code answer(struct heatmap *map, struct qry_selection *selection, struct fg_err *err)
{
    struct qry_query *query = map->query;
    const Querier__V1__SelectHeatmapRequest *in = map->in;

    if (check_request(in, err) != FG_OK ||
        qry_selection_range(query, selection, in->start, in->end, err) != FG_OK ||
        qry_selection_check_grid(in->start, err) != FG_OK ||
        qry_selection_profiles(query, selection, in->profile_typeid, in->label_selector, err) !=
            FG_OK)
        return err->code;
    map->start_ns = selection->start_ns - selection->cut_ns; /* the grid that was asked for */
    map->step_ns = llround(fmin(in->step, STEP_MAX_S) * 1e9) / FG_MS_NS * FG_MS_NS;
    fg_profile_rows_init(
        &map->rows,
        &(struct fg_profile_rows_config){
            .arena = query->arena,
            .max_bytes = query->querier->answer_max_bytes,
            .spans = in->query_type == QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_SPAN,
            .group_by = (const char *const *)in->group_by,
            .n_group_by = in->n_group_by,
        });
    if (qry_collect_rows(query, selection, &map->rows, err) != FG_OK)
        return err->code;
    if (map->rows.config.spans)
        join_spans(&map->rows);
    map->least = INT64_MAX;
    map->greatest = INT64_MIN;
    for (size_t i = 0; i < map->rows.n; i++) {
        map->least = FG_MIN(map->least, map->rows.items[i].value);
        map->greatest = FG_MAX(map->greatest, map->rows.items[i].value);
    }
    if (map->greatest <= map->least) /* buckets divide by the difference */
        map->greatest = fg_value_add(map->least, 1);
    if (make_cells(map, err) != FG_OK || make_series(map, err) != FG_OK)
        return err->code;
    return reply(map, err);
}

enum fg_code qry_api_select_heatmap(struct qry_query *query, const ProtobufCMessage *message,
                                    struct fg_err *err)
{
    struct heatmap map = {.query = query, .in = (const Querier__V1__SelectHeatmapRequest *)message};
    struct qry_selection selection = {0};
    enum fg_code code = answer(&map, &selection, err);

    fg_profile_rows_done(&map.rows);
    qry_selection_done(&selection);
    return code;
}
