#include "querier/compare/change_params.h"

#include "common/base/json.h"
#include "common/base/str.h"
#include "querier/params.h"

#include <math.h>

/* ROWS_MAX bounds the JSON of one page; `flamegrid compare --limit 0` asks for that many. */
enum { ROWS_DEFAULT = 100, ROWS_MAX = 100000 };

static const double Q_MIN = 1e-6;

/* Texts of the parameters; empty: not given. */
struct texts {
    struct fg_slice queries[QRY_CHANGE_SIDES], from[QRY_CHANGE_SIDES], until[QRY_CHANGE_SIDES];
    struct fg_slice by, instance, min_share, q, show, sort, limit, page;
};

static const char *const query_names[] = {"leftQuery", "rightQuery"};
static const char *const from_names[] = {"leftFrom", "rightFrom"};
static const char *const until_names[] = {"leftUntil", "rightUntil"};

/* ---- where they come from ---- */

static void read_url(const struct qry_render_params *url, struct texts *texts)
{
    *texts = (struct texts){
        .queries = {url->left_query, url->right_query},
        .from = {url->left_from, url->right_from},
        .until = {url->left_until, url->right_until},
        .by = url->by,
        .instance = url->instance,
        .min_share = url->min_share,
        .q = url->q,
        .show = url->show,
        .sort = url->sort,
        .limit = url->limit,
        .page = url->page,
    };
}

/* Returns where the text of a parameter belongs; NULL: there is none of that name. */
static struct fg_slice *find(struct texts *texts, struct fg_slice name)
{
    const struct {
        const char *name;
        struct fg_slice *text;
    } known[] = {
        {query_names[0], &texts->queries[0]},
        {query_names[1], &texts->queries[1]},
        {from_names[0], &texts->from[0]},
        {from_names[1], &texts->from[1]},
        {until_names[0], &texts->until[0]},
        {until_names[1], &texts->until[1]},
        {"by", &texts->by},
        {"instance", &texts->instance},
        {"min_share", &texts->min_share},
        {"q", &texts->q},
        {"show", &texts->show},
        {"sort", &texts->sort},
        {"limit", &texts->limit},
        {"page", &texts->page},
    };

    for (size_t i = 0; i < FG_COUNT(known); i++)
        if (fg_slice_is(name, known[i].name))
            return known[i].text;
    return NULL;
}

/* Reads members of the object; texts and numbers alike, as in the URL. */
static enum fg_code read_members(struct fg_json *json, struct fg_arena *arena, struct texts *texts,
                                 struct fg_err *err)
{
    const struct fg_slice *given[sizeof *texts / sizeof(struct fg_slice)]; /* all are slices */
    enum fg_json_token token;
    size_t n_given = 0;

    while ((token = fg_json_next(json)) == FG_JSON_KEY) {
        struct fg_slice name = fg_json_text(json, arena), text;
        struct fg_slice *into = name.ptr == NULL ? NULL : find(texts, name);

        /* An unknown name is refused: it is misspelled, and without it the answer would be to
         * another question. */
        if (into == NULL)
            return fg_fail(err, FG_E_INVALID, "body: there is no parameter \"%.*s\"",
                           (int)FG_MIN(name.len, (size_t)64),
                           name.ptr == NULL ? "" : (const char *)name.ptr);
        for (size_t i = 0; i < n_given; i++)
            if (given[i] == into) {
                (void)fg_json_fail(json, "a key that was there before", err);
                err->code = FG_E_INVALID;
                return fg_wrap(err, "body: \"%.*s\"", FG_S(name));
            }
        given[n_given++] = into;
        token = fg_json_next(json);
        if (token == FG_JSON_BAD)
            break;
        if (token != FG_JSON_STRING && token != FG_JSON_NUMBER)
            return fg_fail(err, FG_E_INVALID, "body: %.*s is neither a text nor a number",
                           FG_S(name));
        text =
            token == FG_JSON_STRING ? fg_json_text(json, arena) : fg_arena_copy(arena, json->text);
        if (text.ptr == NULL)
            return qry_query_too_large(err);
        *into = text;
    }
    if (token != FG_JSON_OBJECT_END || fg_json_next(json) != FG_JSON_END) {
        (void)fg_json_fail(json, "an object of parameters is wanted", err);
        err->code = FG_E_INVALID;
        return fg_wrap(err, "body");
    }
    return FG_OK;
}

/* ---- values ---- */

static enum fg_code read_side(struct qry_query *query, const struct texts *texts, size_t side,
                              struct qry_selection *selection, struct fg_err *err)
{
    int64_t now_ns = fg_wall_ns(query->querier->clock), start_ms = 0, end_ms = 0;

    if (texts->queries[side].len == 0)
        return fg_fail(err, FG_E_INVALID, "%s is missing: TYPE{selector} of %s", query_names[side],
                       side == 0 ? "what is compared with" : "what is compared");
    /* Without times a side is the last hour, as on the other plain routes. */
    if (qry_params_time(query, texts->from[side], from_names[side], now_ns - FG_HOUR_NS, &start_ms,
                        err) != FG_OK ||
        qry_params_time(query, texts->until[side], until_names[side], now_ns, &end_ms, err) !=
            FG_OK ||
        qry_selection_parse(query, selection, texts->queries[side], query_names[side], err) !=
            FG_OK)
        return err->code;
    if (qry_selection_range(query, selection, start_ms, end_ms, err) != FG_OK)
        return fg_wrap(err, "%s, %s", from_names[side], until_names[side]);
    return FG_OK;
}

/* Reads a number from 0 up to, but without, 1. */
static enum fg_code read_share(struct fg_slice text, const char *name, double otherwise,
                               double *ret_share, struct fg_err *err)
{
    double share = otherwise;

    if (text.len > 0 && !(fg_parse_f64(text, &share) && share >= 0 && share < 1))
        return fg_fail(err, FG_E_INVALID, "%s: \"%.*s\" is no number from 0 to 1", name,
                       (int)FG_MIN(text.len, (size_t)64), (const char *)text.ptr);
    *ret_share = share;
    return FG_OK;
}

static enum fg_code read_choice(struct fg_slice text, const char *name, const char *const *choices,
                                size_t n, size_t *ret_choice, struct fg_err *err)
{
    struct fg_buf list;

    /* The first choice is the default: it is the one that an empty text matches. */
    *ret_choice = 0;
    for (size_t i = 0; i < n; i++)
        if (text.len == 0 || fg_slice_is(text, choices[i])) {
            *ret_choice = i;
            return FG_OK;
        }
    fg_buf_init(&list, FG_ERR_MSG_MAX_BYTES);
    for (size_t i = 0; i < n; i++)
        fg_buf_printf(&list, "%s%s", i == 0 ? "" : ", ", choices[i]);
    (void)fg_fail(err, FG_E_INVALID, "%s: \"%.*s\" is none of %.*s", name,
                  (int)FG_MIN(text.len, (size_t)64), (const char *)text.ptr,
                  FG_S(fg_buf_slice(&list)));
    fg_buf_done(&list);
    return err->code;
}

/* Reads names of labels, separated by commas. name: of the parameter or setting. */
static enum fg_code read_labels(struct qry_query *query, struct fg_slice text, const char *name,
                                struct qry_change_params *params, struct fg_err *err)
{
    while (text.len > 0) {
        size_t end = FG_MIN(fg_slice_find(text, ','), text.len);

        if (end == 0 || params->n_labels == QRY_CHANGE_LABELS_MAX)
            return fg_fail(err, FG_E_INVALID, "%s: it takes names of labels, %d at most", name,
                           QRY_CHANGE_LABELS_MAX);
        params->labels[params->n_labels] = fg_arena_text(query->arena, fg_slice_sub(text, 0, end));
        if (params->labels[params->n_labels++] == NULL)
            return qry_query_too_large(err);
        text = fg_slice_sub(text, end + 1, SIZE_MAX);
    }
    return FG_OK;
}

/* A malformed setting is not the client's fault. */
static enum fg_code read_instance(struct qry_query *query, struct fg_slice text,
                                  struct qry_change_params *params, struct fg_err *err)
{
    if (text.len > 0)
        return read_labels(query, text, "instance", params, err);
    if (read_labels(query, fg_cstr(query->querier->instance_labels), "querier.instance_labels",
                    params, err) != FG_OK) {
        err->code = err->code == FG_E_INVALID ? FG_E_INTERNAL : err->code;
        return err->code;
    }
    return params->n_labels > 0 ? FG_OK
                                : fg_fail(err, FG_E_INTERNAL, "querier.instance_labels is empty");
}

static enum fg_code read_texts(struct qry_query *query, const struct texts *texts,
                               struct qry_change_params *params, struct fg_err *err)
{
    static const char *const by[] = {"share", "rate"}, *const show[] = {"changed", "all"},
                             *const sort[] = {"delta", "change", "p", "name"};
    size_t by_choice, show_choice, sort_choice;

    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        if (read_side(query, texts, side, &params->sides[side], err) != FG_OK)
            return err->code;
    /* Figures of different types have no common unit, so no quotient of them means anything. */
    if (strcmp(params->sides[0].type_text, params->sides[1].type_text) != 0)
        return fg_fail(err, FG_E_INVALID, "leftQuery and rightQuery: %s and %s are different types",
                       params->sides[0].type_text, params->sides[1].type_text);
    if (read_choice(texts->by, "by", by, FG_COUNT(by), &by_choice, err) != FG_OK ||
        read_choice(texts->show, "show", show, FG_COUNT(show), &show_choice, err) != FG_OK ||
        read_choice(texts->sort, "sort", sort, FG_COUNT(sort), &sort_choice, err) != FG_OK ||
        read_instance(query, texts->instance, params, err) != FG_OK ||
        read_share(texts->min_share, "min_share", 0.001, &params->min_share, err) != FG_OK ||
        read_share(texts->q, "q", 0.05, &params->q, err) != FG_OK ||
        qry_params_number(texts->limit, "limit", ROWS_DEFAULT, 1, ROWS_MAX, &params->limit, err) !=
            FG_OK ||
        qry_params_number(texts->page, "page", 0, 0, INT32_MAX, &params->page, err) != FG_OK)
        return err->code;
    /* Benjamini and Hochberg reject p <= q k / n, so with q = 0 nothing is ever rejected; and a
     * smaller q, divided by the number of tests, is lost next to 1. */
    if (params->q < Q_MIN)
        return fg_fail(err, FG_E_INVALID, "q: \"%.*s\" is below 0.000001 and allows no finding",
                       FG_S(texts->q));
    params->rate = by_choice == 1;
    params->show_all = show_choice == 1;
    params->sort = (enum qry_change_sort)sort_choice;
    return FG_OK;
}

enum fg_code qry_change_params_read(struct qry_query *query, struct qry_change_params *ret_params,
                                    struct fg_err *err)
{
    struct texts texts = {0};

    /* Members of the body replace parameters of the same name in the URL. */
    *ret_params = (struct qry_change_params){0};
    read_url(&query->params, &texts);
    if (query->params.method == FG_HTTP_POST && query->params.body.len > 0) {
        struct fg_json json = fg_json(query->params.body);

        if (fg_json_next(&json) != FG_JSON_OBJECT) {
            (void)fg_json_fail(&json, "an object of parameters is wanted", err);
            err->code = FG_E_INVALID;
            return fg_wrap(err, "body");
        }
        if (read_members(&json, query->arena, &texts, err) != FG_OK)
            return err->code;
    }
    return read_texts(query, &texts, ret_params, err);
}

void qry_change_params_done(struct qry_change_params *params)
{
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        qry_selection_done(&params->sides[side]);
}
