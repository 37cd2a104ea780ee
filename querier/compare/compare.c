#include "querier/compare/compare.h"

#include "querier/compare/tables.h"
#include "querier/reply.h"

#include <math.h>

enum { SAMPLES_MIN = 50 }; /* of the side that has more: fewer tell nothing */

/* What a sample stands for: heap profilers sample every 512 KiB, others by a clock of 100 Hz unless
 * their values say that it is one of 10 to 1,000 Hz. */
static const int64_t sample_bytes = INT64_C(512) * 1024, sample_ns = 10 * FG_MS_NS;
static const int64_t sample_least_ns = FG_MS_NS, sample_most_ns = 100 * FG_MS_NS;

struct comparison {
    struct qry_query *query;
    struct qry_change_params params;
    struct qry_change_sides sides;
    struct qry_change_tables tables;
    struct qry_change_config config;
    struct qry_changes_summary summary;
    struct qry_change whole; /* the rates of the selections' totals */
    bool moments;            /* values are of moments: rates are means of profiles */
    struct qry_thin_row *thin;
    double scales[QRY_CHANGE_SIDES]; /* of values to figures */
    double quantum;
    size_t *order; /* rows that are shown */
    size_t n_shown;
};

/* ---- tests ---- */

static double quantum_of(const struct comparison *comparison)
{
    const struct fg_profile_type *type = &comparison->params.sides[0].type;
    int64_t quantum = comparison->tables.quantum;

    if (fg_slice_is(type->unit, "bytes"))
        return (double)sample_bytes;
    /* Other units are counts: a sample is one of them. */
    if (!fg_slice_is(type->unit, "nanoseconds"))
        return 1;
    return (double)(quantum >= sample_least_ns && quantum <= sample_most_ns ? quantum : sample_ns);
}

/* Returns a column of all units of a side, in the arena: their totals or what rates are by. */
static double *column(const struct comparison *comparison, size_t side, bool rate)
{
    const struct qry_change_side *from = &comparison->sides.sides[side];
    double *values = fg_arena_new(comparison->query->arena, double, from->n_units + 1);

    for (size_t i = 0; values != NULL && i < from->n_units; i++)
        values[i] = !rate                 ? from->units[i].total
                    : comparison->moments ? from->units[i].profiles
                                          : from->units[i].seconds;
    return values;
}

static enum fg_code configure(struct comparison *comparison, bool rate,
                              struct qry_change_config *config, struct fg_err *err)
{
    const struct qry_change_sides *sides = &comparison->sides;

    /* The exposures decide what a figure is: of totals a share, else a rate. */
    *config = (struct qry_change_config){
        .design = sides->design, .quantum = comparison->quantum, .q = comparison->params.q};
    /* The sides always list partners, but too few pairs must not be tested as pairs. */
    if (sides->design == QRY_CHANGE_PAIRED)
        config->partners = sides->partners;
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++) {
        config->sides[side].n = sides->sides[side].n_units;
        config->sides[side].exposures = column(comparison, side, rate);
        if (config->sides[side].exposures == NULL)
            return qry_query_too_large(err);
    }
    return FG_OK;
}

/* Tests the rates of the totals: does the service as a whole need more than before? */
static enum fg_code test_whole(struct comparison *comparison, struct fg_err *err)
{
    struct qry_change_config config;

    if (configure(comparison, true, &config, err) != FG_OK)
        return err->code;
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++) {
        comparison->whole.values[side] = column(comparison, side, false);
        if (comparison->whole.values[side] == NULL)
            return qry_query_too_large(err);
    }
    qry_change_test_one(&config, &comparison->whole);
    return FG_OK;
}

static enum fg_code test_rows(struct comparison *comparison, struct fg_err *err)
{
    struct qry_change_tables *tables = &comparison->tables;
    struct qry_change *changes =
        fg_arena_new(comparison->query->arena, struct qry_change, tables->n_rows + 1);

    if (changes == NULL)
        return qry_query_too_large(err);
    for (size_t i = 0; i < tables->n_rows; i++) {
        const int64_t *values = tables->rows[i].values;

        /* The tests take a plain array of changes, so the pure core need not know rows. */
        changes[i] = tables->rows[i].change;
        changes[i].skip = (double)FG_MAX(values[0], values[1]) < SAMPLES_MIN * comparison->quantum;
    }
    qry_changes_test(&comparison->config, changes, tables->n_rows, &comparison->summary);
    for (size_t i = 0; i < tables->n_rows; i++)
        tables->rows[i].change = changes[i];
    return FG_OK;
}

/* ---- findings ---- */

static bool is_finding(const struct qry_change_row *row)
{
    /* Relies on the order of enum qry_change_state: findings come first. */
    return row->change.state < QRY_CHANGE_NOT_SIGNIFICANT;
}

/* Returns what the rates of a side are by: covered seconds, or profiles, so that they are means. */
static double rated_by(const struct comparison *comparison, size_t side)
{
    const struct qry_change_side *from = &comparison->sides.sides[side];

    return comparison->moments ? from->profiles : from->seconds;
}

static double figure(const struct comparison *comparison, const struct qry_change_row *row,
                     size_t side)
{
    return (double)row->values[side] * comparison->scales[side];
}

static enum fg_code thin(struct comparison *comparison, struct fg_err *err)
{
    const struct qry_change_tables *tables = &comparison->tables;
    const struct fg_function_tree *functions = &tables->functions;
    struct fg_arena *arena = comparison->query->arena;
    bool *marked = fg_arena_new(arena, bool, functions->n_names + 1);
    uint32_t *firsts = fg_arena_new(arena, uint32_t, functions->n_names + 1);
    struct qry_thin_edge *edges;
    size_t n_edges;

    comparison->thin = fg_arena_new(arena, struct qry_thin_row, tables->n_rows + 1);
    if (marked == NULL || firsts == NULL || comparison->thin == NULL)
        return qry_query_too_large(err);
    qry_change_firsts(functions, firsts);
    for (size_t i = 0; i < tables->n_rows; i++) {
        const struct qry_change_row *row = &tables->rows[i];
        double before = figure(comparison, row, 0), after = figure(comparison, row, 1);

        marked[row->function] = marked[row->function] || is_finding(row);
        comparison->thin[i] = (struct qry_thin_row){.function = row->function,
                                                    .of_total = row->of_total,
                                                    .found = is_finding(row) && before != after,
                                                    .delta = after - before,
                                                    .size = before + after,
                                                    .first = firsts[row->function]};
    }
    if (qry_change_edges(tables, marked, comparison->scales, arena, &edges, &n_edges, err) != FG_OK)
        return err->code;
    /* Shares of both sides add up to 2 at most; rates have no such bound. */
    qry_thin(comparison->thin, tables->n_rows,
             comparison->params.rate ? INFINITY : (double)QRY_CHANGE_SIDES, functions->names,
             functions->n_names, edges, n_edges);
    return FG_OK;
}

/* ---- what is shown, and in which order ---- */

struct shown_row {
    const struct comparison *comparison;
    size_t row;
};

static double sort_key(const struct shown_row *item)
{
    const struct comparison *comparison = item->comparison;
    const struct qry_change_row *row = &comparison->tables.rows[item->row];
    bool tested = row->change.state != QRY_CHANGE_TOO_LITTLE_DATA;

    switch (comparison->params.sort) {
    case QRY_CHANGE_BY_CHANGE:
        return tested ? -fabs(row->change.effect) : 0;
    case QRY_CHANGE_BY_P:
        /* 2 is above any probability, so rows without a test come last. */
        return tested ? row->change.p : 2;
    case QRY_CHANGE_BY_NAME:
        return 0;
    case QRY_CHANGE_BY_DELTA:
        break;
    }
    return -fabs(comparison->thin[item->row].delta);
}

static int by_choice(const void *left, const void *right)
{
    const struct shown_row *a = left, *b = right;
    const struct qry_change_tables *tables = &a->comparison->tables;
    double x = sort_key(a), y = sort_key(b);

    if (x != y)
        return x < y ? -1 : 1;
    /* Rows are by name, then self before total. */
    (void)tables;
    return (a->row > b->row) - (a->row < b->row);
}

/* Returns true if the row has a line of its own. */
static bool is_shown(const struct comparison *comparison, size_t row)
{
    const struct qry_thin_row *thin = &comparison->thin[row];

    if (comparison->params.show_all)
        return true;
    return thin->found && thin->folded == 0 && (thin->moved == QRY_THIN_NONE || thin->moved == row);
}

static enum fg_code choose_shown(struct comparison *comparison, struct fg_err *err)
{
    size_t n_rows = comparison->tables.n_rows, n = 0;
    struct shown_row *items = fg_arena_new(comparison->query->arena, struct shown_row, n_rows + 1);

    comparison->order = fg_arena_new(comparison->query->arena, size_t, n_rows + 1);
    if (items == NULL || comparison->order == NULL)
        return qry_query_too_large(err);
    for (size_t i = 0; i < n_rows; i++)
        if (is_shown(comparison, i))
            items[n++] = (struct shown_row){comparison, i};
    if (n > 0)
        qsort(items, n, sizeof *items, by_choice);
    for (size_t i = 0; i < n; i++)
        comparison->order[i] = items[i].row;
    comparison->n_shown = n;
    return FG_OK;
}

/* ---- JSON ---- */

/* Writes a number of five digits; null if it is none. */
static void put_number(struct fg_json_writer *json, const char *key, double value)
{
    if (isfinite(value))
        fg_buf_printf(fg_json_value(json, key), "%.5g", value);
    else
        fg_json_put_null(json, key);
}

/* Writes an effect as a relative change: 0.1 is 10 % more. */
static void put_change(struct fg_json_writer *json, const char *key, double effect)
{
    put_number(json, key, expm1(effect));
}

static const char *state_name(const struct comparison *comparison, size_t row)
{
    static const char *const names[] = {
        [QRY_CHANGE_UP] = "up",
        [QRY_CHANGE_DOWN] = "down",
        [QRY_CHANGE_NEW] = "new",
        [QRY_CHANGE_GONE] = "gone",
        [QRY_CHANGE_NOT_SIGNIFICANT] = "not_significant",
        [QRY_CHANGE_TOO_LITTLE_DATA] = "too_little_data",
    };

    /* A move explains the change, so "up" or "down" alone would mislead. */
    if (comparison->thin[row].moved != QRY_THIN_NONE)
        return "moved";
    return names[comparison->tables.rows[row].change.state];
}

static void put_confidence(const struct qry_change *change, struct fg_json_writer *json)
{
    if (change->state == QRY_CHANGE_TOO_LITTLE_DATA)
        return;
    if (change->sums[0] > 0 && change->sums[1] > 0)
        put_change(json, "change", change->effect);
    else
        fg_json_put_null(json, "change"); /* from or to nothing */
    fg_json_begin_array(json, "interval");
    put_change(json, NULL, change->low);
    put_change(json, NULL, change->high);
    fg_json_end(json);
    put_number(json, "p", change->p);
    put_number(json, "q", change->q);
    put_change(json, "detectable", change->detectable);
}

/* Writes who came and who went of a line "moved". */
static void put_moved(const struct comparison *comparison, size_t row, bool came, const char *key,
                      struct fg_json_writer *json)
{
    const struct qry_change_tables *tables = &comparison->tables;

    fg_json_begin_array(json, key);
    for (size_t i = 0; i < tables->n_rows; i++) {
        const struct qry_thin_row *other = &comparison->thin[i];

        if (other->moved == comparison->thin[row].moved && (other->delta > 0) == came)
            fg_json_put_text(json, NULL, tables->functions.names[other->function]);
    }
    fg_json_end(json);
}

static void put_side_of_row(const struct comparison *comparison, const struct qry_change_row *row,
                            size_t side, const char *key, struct fg_json_writer *json)
{
    double all = (double)comparison->tables.values[side].all;
    double by = rated_by(comparison, side);
    double rate = by > 0 ? (double)row->values[side] / by : 0;

    fg_json_begin_object(json, key);
    fg_json_put_i64(json, "value", row->values[side]);
    fg_json_put_fixed(json, "share", all > 0 ? (double)row->values[side] / all : 0, 6);
    put_number(json, "per_second", comparison->moments ? NAN : rate);
    if (comparison->moments)
        put_number(json, "mean", rate);
    fg_json_put_u64(json, "instances", row->n_units[side]);
    fg_json_end(json);
}

static void put_row(const struct comparison *comparison, size_t number, struct fg_json_writer *json)
{
    const struct qry_change_row *row = &comparison->tables.rows[number];
    const struct qry_thin_row *thin = &comparison->thin[number];

    fg_json_begin_object(json, NULL);
    fg_json_put_text(json, "name", comparison->tables.functions.names[row->function]);
    fg_json_put_cstr(json, "of", row->of_total ? "total" : "self");
    fg_json_put_cstr(json, "state", state_name(comparison, number));
    put_side_of_row(comparison, row, 0, "a", json);
    put_side_of_row(comparison, row, 1, "b", json);
    put_confidence(&row->change, json);
    /* Callers that were folded have no line of their own, except with show=all. */
    if (thin->folded > 0)
        fg_json_put_u64(json, "folded_into", thin->folded);
    if (thin->moved != QRY_THIN_NONE) {
        fg_json_begin_object(json, "moved");
        put_moved(comparison, number, false, "from", json);
        put_moved(comparison, number, true, "to", json);
        fg_json_end(json);
    }
    fg_json_end(json);
}

static void put_side(const struct comparison *comparison, size_t side, const char *key,
                     struct fg_json_writer *json)
{
    const struct qry_change_side *from = &comparison->sides.sides[side];
    const struct qry_selection *selection = &comparison->params.sides[side];

    fg_json_begin_object(json, key);
    fg_json_put_i64(json, "from_ms", selection->start_ns / FG_MS_NS);
    fg_json_put_i64(json, "until_ms", selection->end_ns / FG_MS_NS);
    fg_json_put_i64(json, "total", comparison->tables.values[side].all);
    fg_json_put_fixed(json, "covered_seconds", from->seconds, 1);
    fg_json_put_u64(json, "instances", from->n_instances);
    if (comparison->sides.design == QRY_CHANGE_TIMES)
        fg_json_put_u64(json, "blocks_of_time", from->n_units);
    fg_json_end(json);
}

/* Names the sides that have no values at all: there is nothing to compare then. */
static void put_empty(const struct comparison *comparison, struct fg_json_writer *json)
{
    static const char *const names[] = {"a", "b"};

    fg_json_begin_array(json, "empty");
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        if (comparison->sides.sides[side].n_units == 0)
            fg_json_put_cstr(json, NULL, names[side]);
    fg_json_end(json);
}

/* Says what was compared, and how far it can be trusted. */
static void put_design(const struct comparison *comparison, struct fg_json_writer *json)
{
    static const char *const names[] = {
        [QRY_CHANGE_PAIRED] = "same instances",
        [QRY_CHANGE_INSTANCES] = "instances",
        [QRY_CHANGE_TIMES] = "over time",
        [QRY_CHANGE_COUNTS] = "weak",
    };
    const struct qry_change_sides *sides = &comparison->sides;

    fg_json_put_cstr(json, "replicates", names[sides->design]);
    fg_json_put_bool(json, "weak", sides->design == QRY_CHANGE_COUNTS);
    if (sides->label != NULL)
        fg_json_put_cstr(json, "instance", sides->label);
    else
        fg_json_put_null(json, "instance");
    fg_json_put_u64(json, "same_instances", sides->n_same);
    if (sides->design == QRY_CHANGE_TIMES)
        fg_json_put_fixed(json, "block_seconds", (double)sides->block_ns / FG_SECOND_NS, 0);
    if (sides->design == QRY_CHANGE_COUNTS)
        put_number(json, "dispersion", comparison->summary.dispersion);
    fg_json_put_i64(json, "sample", (int64_t)comparison->quantum);
}

static void put_summary(const struct comparison *comparison, struct fg_json_writer *json)
{
    const struct qry_changes_summary *summary = &comparison->summary;

    put_number(json, "min_share", comparison->params.min_share);
    put_number(json, "q", comparison->params.q);
    fg_json_put_u64(json, "tests", summary->n_tests);
    fg_json_put_u64(json, "significant", summary->n_significant);
    put_number(json, "threshold", summary->threshold);
    if (summary->largest_detectable > 0) {
        fg_json_begin_object(json, "detectable");
        put_change(json, "least", summary->least_detectable);
        put_change(json, "median", summary->median_detectable);
        put_change(json, "largest", summary->largest_detectable);
        fg_json_end(json);
    }
    fg_json_begin_object(json, "whole");
    put_confidence(&comparison->whole, json);
    fg_json_end(json);
}

static enum fg_code write_answer(const struct comparison *comparison, struct fg_err *err)
{
    struct qry_query *query = comparison->query;
    struct fg_json_writer json = fg_json_writer(&query->body);
    /* A page behind the end is empty and no error: rows may vanish between two requests. */
    size_t from = FG_MIN(comparison->params.page, comparison->n_shown);
    size_t to = from + FG_MIN(comparison->params.limit, comparison->n_shown - from);

    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "type", comparison->params.sides[0].type_text);
    fg_json_put_text(&json, "unit", comparison->params.sides[0].type.unit);
    fg_json_put_cstr(&json, "by", comparison->params.rate ? "rate" : "share");
    put_side(comparison, 0, "a", &json);
    put_side(comparison, 1, "b", &json);
    put_empty(comparison, &json);
    put_design(comparison, &json);
    put_summary(comparison, &json);
    fg_json_put_u64(&json, "count", comparison->n_shown);
    fg_json_begin_array(&json, "changes");
    for (size_t i = from; i < to; i++)
        put_row(comparison, comparison->order[i], &json);
    fg_json_end(&json);
    if (to < comparison->n_shown)
        fg_json_put_u64(&json, "next", to);
    return qry_reply_end_json(query, &json, err);
}

/* ---- all ---- */

static enum fg_code compare(struct comparison *comparison, struct fg_err *err)
{
    struct qry_query *query = comparison->query;

    if (qry_change_params_read(query, &comparison->params, err) != FG_OK ||
        qry_change_sides_read(query, &comparison->params, &comparison->sides, err) != FG_OK ||
        qry_change_tables_make(&comparison->sides, comparison->params.min_share, query->arena,
                               &comparison->tables, err) != FG_OK)
        return err->code;
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        qry_query_look_at_sum(query, comparison->tables.values[side].all);
    comparison->moments = fg_profile_type_is_moment(&comparison->params.sides[0].type);
    /* After the tables, which find the divisor that all values share. */
    comparison->quantum = quantum_of(comparison);
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++) {
        double whole = comparison->params.rate ? rated_by(comparison, side)
                                               : (double)comparison->tables.values[side].all;

        comparison->scales[side] = whole > 0 ? 1 / whole : 0;
    }
    if (qry_query_check(query, err) != FG_OK ||
        configure(comparison, comparison->params.rate, &comparison->config, err) != FG_OK ||
        test_rows(comparison, err) != FG_OK || test_whole(comparison, err) != FG_OK ||
        thin(comparison, err) != FG_OK || choose_shown(comparison, err) != FG_OK)
        return err->code;
    return write_answer(comparison, err);
}

static enum fg_code answer(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    struct comparison comparison = {.query = query};
    enum fg_code code;

    (void)in;
    /* Before anything can fail: what is freed below may be half done. */
    qry_change_sides_init(&comparison.sides, query);
    code = compare(&comparison, err);
    qry_change_tables_done(&comparison.tables);
    qry_change_sides_done(&comparison.sides);
    qry_change_params_done(&comparison.params);
    return code;
}

const struct qry_endpoint qry_change_endpoints[] = {
    {"/api/compare", "compare", NULL, answer, 0, false},
};
const size_t qry_n_change_endpoints = FG_COUNT(qry_change_endpoints);
