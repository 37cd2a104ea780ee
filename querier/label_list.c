#include "querier/label_list.h"

#include "common/base/str.h"
#include "querier/collect.h"
#include "querier/function_match.h"
#include "querier/params.h"
#include "querier/reply.h"

#define PATH "/api/labels/"

enum {
    ROWS_DEFAULT = 100,
    ROWS_MAX = 10000,       /* an answer of a MiB */
    LABEL_MAX_BYTES = 4096, /* of a label's name, which is copied into requests */
};

/* What is asked for, and what was found. */
struct label_listing {
    struct qry_selection selection, before; /* before: the range of as many seconds before */
    const char *label;                      /* whose values are meant; NULL: names */
    struct fg_slice sort;
    struct qry_function_match regex;
    bool growth;
    bool has_before; /* there is such a range: limits leave something of it */
    size_t from, limit;
    struct qry_cardinality found;

    const struct qry_label_value *values;
    const struct qry_label_name *names;
    size_t n;
    struct qry_value_totals totals; /* of `values`; totals NULL: no type is given */
    uint32_t *picked;
    size_t n_picked; /* the rows up to the end of the page */
};

/* ---- parameters ---- */

/* Selects the equally long range before. What limits of the tenants leave of it may be shorter. */
static enum fg_code read_before(struct qry_query *query, struct label_listing *list,
                                struct fg_err *err)
{
    int64_t start_ms = list->selection.start_ns / FG_MS_NS;
    int64_t end_ms = list->selection.end_ns / FG_MS_NS, length_ms = end_ms - start_ms;

    list->before = list->selection;
    /* Limits leave nothing of the range itself, or it reaches back to the first times there are. */
    if (list->selection.start_ns == INT64_MIN || length_ms >= start_ms - 1)
        return FG_OK;
    if (qry_selection_range(query, &list->before, start_ms - 1 - length_ms, start_ms - 1, err) !=
        FG_OK)
        return fg_wrap(err, "growth");
    list->has_before = list->before.start_ns != INT64_MIN;
    if (list->has_before)
        list->before.end_ns = list->selection.start_ns - 1;
    return FG_OK;
}

static enum fg_code check_sort(const struct label_listing *list, struct fg_err *err)
{
    struct fg_slice sort = list->sort;

    if (sort.len == 0 || fg_slice_is(sort, "name") || fg_slice_is(sort, "series"))
        return FG_OK;
    if (list->label == NULL && fg_slice_is(sort, "values"))
        return FG_OK;
    if (list->label == NULL || !fg_slice_is(sort, "value"))
        return fg_fail(err, FG_E_INVALID, "sort: \"%.*s\" is none of name, series and %s",
                       FG_S(sort), list->label == NULL ? "values" : "value");
    if (list->selection.type_text == NULL)
        return fg_fail(err, FG_E_INVALID,
                       "sort: value needs a profile type in \"query\": TYPE{selector}");
    return FG_OK;
}

static enum fg_code read_params(struct qry_query *query, struct label_listing *list,
                                struct fg_err *err)
{
    const struct qry_render_params *params = &query->params;

    list->sort = params->sort;
    if (qry_params_series(query, &list->selection, err) != FG_OK || check_sort(list, err) != FG_OK)
        return err->code;
    if (qry_params_number(params->limit, "limit", ROWS_DEFAULT, 1, ROWS_MAX, &list->limit, err) !=
            FG_OK ||
        qry_params_number(params->page, "page", 0, 0, INT32_MAX, &list->from, err) != FG_OK ||
        qry_params_flag(params->growth, "growth", &list->growth, err) != FG_OK)
        return err->code;
    if (params->regex.len > 0 && qry_function_match_read(query, (struct fg_slice){NULL, 0},
                                                         params->regex, &list->regex, err) != FG_OK)
        return err->code;
    return list->growth ? read_before(query, list, err) : FG_OK;
}

/* ---- numbers ---- */

/* Sums the profiles of the whole range by value. Values that prefix or regex leave out count in the
 * whole, of which shares are. */
static enum fg_code sum_values(struct qry_query *query, struct label_listing *list,
                               struct fg_err *err)
{
    /* The profiles count, and the series did when their labels were read. */
    uint64_t counted_series = query->series;

    list->totals = (struct qry_value_totals){
        .values = list->values,
        .n = list->n,
        .totals = fg_arena_new(query->arena, int64_t, list->n),
    };
    if (list->totals.totals == NULL)
        return qry_query_too_large(err);
    if (qry_collect_value_totals(query, &list->selection, list->label, &list->totals, err) != FG_OK)
        return err->code;
    query->series = counted_series;
    return FG_OK;
}

/* ---- order ---- */

static int64_t value_series(const void *items, uint32_t i)
{
    return ((const struct label_listing *)items)->values[i].series.now;
}

static int64_t value_total(const void *items, uint32_t i)
{
    return ((const struct label_listing *)items)->totals.totals[i];
}

static int64_t name_series(const void *items, uint32_t i)
{
    return ((const struct label_listing *)items)->names[i].series.now;
}

static int64_t name_values(const void *items, uint32_t i)
{
    return ((const struct label_listing *)items)->names[i].values.now;
}

/* Returns NULL for the order of names, which is that of the rows. */
static qry_rank_key key_of(const struct label_listing *list)
{
    if (fg_slice_is(list->sort, "series"))
        return list->label == NULL ? name_series : value_series;
    if (fg_slice_is(list->sort, "values"))
        return name_values;
    if (fg_slice_is(list->sort, "value"))
        return value_total;
    return NULL;
}

/* Picks the rows of all pages up to this one. */
static enum fg_code pick(struct qry_query *query, struct label_listing *list, struct fg_err *err)
{
    qry_rank_key key = key_of(list);

    list->from = FG_MIN(list->from, list->n);
    /* Rows of earlier pages are picked again: which they are only a ranking says. */
    list->n_picked = list->from + FG_MIN(list->limit, list->n - list->from);
    if (key == NULL)
        return FG_OK;
    list->picked = fg_arena_new(query->arena, uint32_t, list->n_picked);
    if (list->picked == NULL)
        return qry_query_too_large(err);
    qry_rank(list, (uint32_t)list->n, key, (uint32_t)list->n_picked, list->picked);
    return FG_OK;
}

/* ---- the answer ---- */

static void put_counts(const struct label_listing *list, const char *const keys[3],
                       const struct qry_counts *counts, struct fg_json_writer *json)
{
    fg_json_put_u64(json, keys[0], counts->now);
    if (!list->has_before)
        return;
    fg_json_put_u64(json, keys[1], counts->before);
    fg_json_put_u64(json, keys[2], counts->fresh);
}

static void put_series(const struct label_listing *list, const struct qry_counts *counts,
                       struct fg_json_writer *json)
{
    static const char *const keys[] = {"series", "series_before", "series_new"};

    put_counts(list, keys, counts, json);
}

static void put_name(const struct label_listing *list, size_t row, struct fg_json_writer *json)
{
    static const char *const keys[] = {"values", "values_before", "values_new"};

    fg_json_put_text(json, "name", list->names[row].text);
    put_series(list, &list->names[row].series, json);
    put_counts(list, keys, &list->names[row].values, json);
}

static void put_value(const struct label_listing *list, size_t row, struct fg_json_writer *json)
{
    const struct qry_value_totals *totals = &list->totals;

    fg_json_put_text(json, "value", list->values[row].text);
    put_series(list, &list->values[row].series, json);
    if (totals->totals == NULL)
        return;
    fg_json_put_i64(json, "total", totals->totals[row]);
    fg_json_put_fixed(json, "share",
                      totals->total == 0 ? 0 : (double)totals->totals[row] / (double)totals->total,
                      6);
}

/* Says what did not fit into memory, and which setting decides that. */
static void put_truncated(const struct qry_query *query, const struct qry_cardinality *found,
                          struct fg_json_writer *json)
{
    if (!found->series_cut && !found->values_cut)
        return;
    fg_json_begin_object(json, "truncated");
    fg_json_begin_array(json, "what");
    if (found->series_cut)
        fg_json_put_cstr(json, NULL, "series");
    if (found->values_cut)
        fg_json_put_cstr(json, NULL, "values");
    fg_json_end(json);
    fg_json_put_cstr(json, "setting", "querier.answer_max_bytes");
    fg_json_put_u64(json, "limit", query->querier->answer_max_bytes);
    fg_json_end(json);
}

static void put_head(const struct label_listing *list, struct fg_json_writer *json)
{
    if (list->label != NULL)
        fg_json_put_cstr(json, "label", list->label);
    if (list->totals.totals != NULL) {
        fg_json_put_cstr(json, "type", list->selection.type_text);
        fg_json_put_text(json, "unit", list->selection.type.unit);
        fg_json_put_i64(json, "total", list->totals.total);
    }
    if (list->has_before) {
        fg_json_begin_object(json, "before");
        fg_json_put_i64(json, "from", list->before.start_ns / FG_MS_NS);
        fg_json_put_i64(json, "until", list->before.end_ns / FG_MS_NS);
        fg_json_end(json);
        /* null: growth was asked for, and limits leave no earlier range. */
    } else if (list->growth) {
        fg_json_put_null(json, "before");
    }
    put_series(list, &list->found.n_series, json);
    fg_json_put_u64(json, "count", list->n);
}

static enum fg_code write_list(struct qry_query *query, const struct label_listing *list,
                               struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&query->body);

    fg_json_begin_object(&json, NULL);
    put_head(list, &json);
    fg_json_begin_array(&json, list->label == NULL ? "labels" : "values");
    for (size_t i = list->from; i < list->n_picked; i++) {
        size_t row = list->picked == NULL ? i : list->picked[i];

        fg_json_begin_object(&json, NULL);
        if (list->label == NULL)
            put_name(list, row, &json);
        else
            put_value(list, row, &json);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    if (list->n_picked < list->n)
        fg_json_put_u64(&json, "next", list->n_picked);
    put_truncated(query, &list->found, &json);
    return qry_reply_end_json(query, &json, err);
}

static enum fg_code answer_list(struct qry_query *query, struct label_listing *list,
                                struct fg_err *err)
{
    struct qry_cardinality_config config = {.label = list->label,
                                            .prefix = query->params.prefix,
                                            .arg = &list->regex,
                                            .max_bytes = query->querier->answer_max_bytes};

    if (read_params(query, list, err) != FG_OK)
        return err->code;
    if (list->regex.regex != NULL)
        config.wanted = qry_function_match_is;
    qry_cardinality_init(&list->found, &config);
    if (list->has_before) {
        /* The earlier range comes first, so that the later one can tell which series are new. */
        qry_cardinality_in(&list->found, CARDINALITY_BEFORE);
        if (qry_collect_labels(query, &list->before, &list->found, err) != FG_OK)
            return fg_wrap(err, "growth");
    }
    qry_cardinality_in(&list->found, CARDINALITY_NOW);
    if (qry_collect_labels(query, &list->selection, &list->found, err) != FG_OK)
        return err->code;
    if (list->label == NULL)
        list->names = qry_cardinality_names(&list->found, &list->n);
    else
        list->values = qry_cardinality_values(&list->found, &list->n);
    if (list->label != NULL && list->selection.type_text != NULL &&
        sum_values(query, list, err) != FG_OK)
        return err->code;
    if (pick(query, list, err) != FG_OK)
        return err->code;
    return write_list(query, list, err);
}

static enum fg_code answer_labels(struct qry_query *query, const char *label, struct fg_err *err)
{
    struct label_listing list = {.label = label};
    enum fg_code code = answer_list(query, &list, err);

    qry_cardinality_done(&list.found);
    qry_function_match_done(&list.regex);
    qry_selection_done(&list.selection); /* `before` borrows its selector */
    return code;
}

static enum fg_code names(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    (void)in;
    return answer_labels(query, NULL, err);
}

static enum fg_code values(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    struct fg_slice text = fg_slice_sub(query->params.path, strlen(PATH), SIZE_MAX);
    const char *label;

    (void)in;
    /* A zero byte would end the name early and select another label. */
    if (text.len == 0 || text.len > LABEL_MAX_BYTES || fg_slice_find(text, '\0') != SIZE_MAX)
        return fg_fail(err, FG_E_INVALID,
                       "the name of the label is missing, or too long: " PATH
                       "NAME, at most %d bytes",
                       LABEL_MAX_BYTES);
    label = fg_arena_text(query->arena, text);
    return label == NULL ? qry_query_too_large(err) : answer_labels(query, label, err);
}

const struct qry_endpoint qry_label_endpoints[] = {
    {"/api/labels", "labels", NULL, names, 0, false},
    {PATH, "label", NULL, values, 0, false},
};
const size_t qry_n_label_endpoints = FG_COUNT(qry_label_endpoints);
