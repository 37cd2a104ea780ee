#include "querier/functions.h"

#include "common/model/flame.h"
#include "common/model/sandwich.h"
#include "querier/flame_json.h"
#include "querier/flamegraph.h"
#include "querier/function_match.h"
#include "querier/params.h"
#include "querier/reply.h"

enum { ROWS_DEFAULT = 100, ROWS_MAX = 100000 };

/* Reads the selection and merges everything that it selects. tree: empty before. */
static enum fg_code collect(struct qry_query *query, struct qry_selection *selection,
                            struct fg_tree *tree, struct fg_err *err)
{
    struct qry_stack_filter all = {0};

    if (qry_params_selection(query, selection, err) != FG_OK)
        return err->code;
    /* A picture of so many nodes has them all. */
    return qry_flamegraph_make(query, selection, &all, FG_FLAME_NODES_MAX, true, tree, err);
}

static void begin(const struct qry_selection *selection, struct fg_json_writer *json)
{
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "type", selection->type_text);
    fg_json_put_text(json, "unit", selection->type.unit);
}

/* ---- the table ---- */

static int by_self(const void *left, const void *right)
{
    const struct fg_top_row *a = left, *b = right;

    if (a->self != b->self)
        return a->self > b->self ? -1 : 1;
    /* By name, so that pages of one table never overlap. */
    return fg_slice_cmp(a->name, b->name);
}

/* Rows come sorted by total. */
static enum fg_code sort_rows(struct fg_slice column, struct fg_top_row *rows, size_t n,
                              struct fg_err *err)
{
    if (column.len == 0 || fg_slice_is(column, "self"))
        qsort(rows, n, sizeof *rows, by_self);
    else if (!fg_slice_is(column, "total"))
        return fg_fail(err, FG_E_INVALID, "sort: \"%.*s\" is neither self nor total", FG_S(column));
    return FG_OK;
}

static double share_of(int64_t value, int64_t total)
{
    return total == 0 ? 0 : (double)value / (double)total;
}

static enum fg_code write_table(struct qry_query *query, const struct qry_selection *selection,
                                const struct fg_top_row *rows, size_t n, int64_t total,
                                struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&query->body);
    size_t from, limit;

    if (qry_params_number(query->params.limit, "limit", ROWS_DEFAULT, 1, ROWS_MAX, &limit, err) !=
            FG_OK ||
        qry_params_number(query->params.page, "page", 0, 0, INT32_MAX, &from, err) != FG_OK)
        return err->code;
    from = FG_MIN(from, n);
    begin(selection, &json);
    fg_json_put_i64(&json, "total", total);
    fg_json_put_u64(&json, "count", n);
    fg_json_begin_array(&json, "functions");
    for (size_t i = from; i < n && i - from < limit; i++) {
        fg_json_begin_object(&json, NULL);
        fg_json_put_text(&json, "name", rows[i].name);
        fg_json_put_i64(&json, "self", rows[i].self);
        fg_json_put_i64(&json, "total", rows[i].total);
        fg_json_put_fixed(&json, "self_share", share_of(rows[i].self, total), 6);
        fg_json_put_fixed(&json, "total_share", share_of(rows[i].total, total), 6);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    if (n - from > limit)
        fg_json_put_u64(&json, "next", from + limit);
    return qry_reply_end_json(query, &json, err);
}

static enum fg_code answer_table(struct qry_query *query, struct qry_selection *selection,
                                 struct fg_tree *tree, struct fg_err *err)
{
    struct fg_top_row *rows;
    int64_t total = 0;
    enum fg_code code;
    size_t n;

    if (collect(query, selection, tree, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        total = fg_value_add(total, tree->self[i]);
    rows = fg_flame_top(tree, &n);
    code = sort_rows(query->params.sort, rows, n, err);
    if (code == FG_OK)
        code = write_table(query, selection, rows, n, total, err);
    free(rows);
    return code;
}

/* ---- the sandwich ---- */

static void put_tree(const struct fg_tree *tree, size_t max_nodes, const char *key,
                     struct fg_json_writer *json)
{
    struct fg_flame flame;

    fg_flame_make(tree, max_nodes, &flame);
    qry_flame_json(&(struct qry_flame_parts){flame.names, flame.n_names, flame.values,
                                             flame.level_ends, flame.n_levels, flame.total,
                                             flame.max_self},
                   key, json);
    fg_flame_done(&flame);
}

static enum fg_code answer_sandwich(struct qry_query *query, struct qry_selection *selection,
                                    struct fg_tree *tree, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&query->body);
    struct qry_function_match meant = {0};
    struct fg_sandwich sandwich;
    size_t max_nodes;
    enum fg_code code;

    /* Parameters first: a wrong one costs no query. */
    if (qry_params_number(query->params.max_nodes, "max-nodes", FG_FLAME_NODES_DEFAULT, 1,
                          FG_FLAME_NODES_MAX, &max_nodes, err) != FG_OK ||
        qry_function_match_read(query->params.function, query->params.regex, &meant, err) != FG_OK)
        return err->code;
    code = collect(query, selection, tree, err);
    if (code == FG_OK) {
        fg_sandwich_make(tree, qry_function_match_is, &meant, &sandwich);
        begin(selection, &json);
        fg_json_put_i64(&json, "total", sandwich.all);
        fg_json_put_i64(&json, "self", sandwich.self);
        fg_json_put_i64(&json, "with_callees", sandwich.total);
        put_tree(&sandwich.callers, max_nodes, "callers", &json);
        put_tree(&sandwich.callees, max_nodes, "callees", &json);
        fg_sandwich_done(&sandwich);
        code = qry_reply_end_json(query, &json, err);
    }
    qry_function_match_done(&meant);
    return code;
}

/* ---- routes ---- */

static enum fg_code with_tree(struct qry_query *query,
                              enum fg_code (*answer)(struct qry_query *query,
                                                     struct qry_selection *selection,
                                                     struct fg_tree *tree, struct fg_err *err),
                              struct fg_err *err)
{
    struct qry_selection selection = {0};
    struct fg_tree tree;
    enum fg_code code;

    fg_tree_init(&tree);
    code = answer(query, &selection, &tree, err);
    fg_tree_done(&tree);
    qry_selection_done(&selection);
    return code;
}

static enum fg_code table(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    (void)in;
    return with_tree(query, answer_table, err);
}

static enum fg_code one_function(struct qry_query *query, const ProtobufCMessage *in,
                                 struct fg_err *err)
{
    (void)in;
    return with_tree(query, answer_sandwich, err);
}

const struct qry_endpoint qry_function_endpoints[] = {
    {"/api/functions", "functions", NULL, table},
    {"/api/sandwich", "sandwich", NULL, one_function},
};
const size_t qry_n_function_endpoints = FG_COUNT(qry_function_endpoints);
