#include "querier/functions.h"

#include "common/model/flame.h"
#include "common/model/sandwich.h"
#include "querier/collect.h"
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
    /* A picture of so many nodes has them all, and a function called "other" is one of them. */
    return qry_flamegraph_make(query, selection, &all, FG_FLAME_NODES_MAX, false, tree, err);
}

static void put_type(const struct qry_selection *selection, struct fg_json_writer *json)
{
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "type", selection->type_text);
    fg_json_put_text(json, "unit", selection->type.unit);
}

/* ---- the table ---- */

struct function_row {
    struct fg_slice name; /* borrowed from the tree */
    int64_t self, total;
    int64_t profiles; /* in which it appears, if that was asked for */
};

struct function_table {
    struct qry_selection selection;
    struct fg_tree tree, counts; /* counts: as of qry_collect_function_counts() */
    bool counted;
    int64_t total;
    size_t from, limit; /* the page */
    struct function_row *rows;
    size_t n;
};

/* Orders by a number, the greatest first; equal ones by name, so that pages of one table never
 * overlap. */
static int by_number(int64_t a, int64_t b, const struct function_row *left,
                     const struct function_row *right)
{
    if (a != b)
        return a > b ? -1 : 1;
    return fg_slice_cmp(left->name, right->name);
}

static int by_self(const void *left, const void *right)
{
    const struct function_row *a = left, *b = right;

    return by_number(a->self, b->self, a, b);
}

static int by_total(const void *left, const void *right)
{
    const struct function_row *a = left, *b = right;

    return by_number(a->total, b->total, a, b);
}

static int by_profiles(const void *left, const void *right)
{
    const struct function_row *a = left, *b = right;

    return by_number(a->profiles, b->profiles, a, b);
}

typedef int (*row_order)(const void *left, const void *right);

static enum fg_code read_order(const struct function_table *table, struct fg_slice column,
                               row_order *ret_order, struct fg_err *err)
{
    if (column.len == 0 || fg_slice_is(column, "self"))
        *ret_order = by_self;
    else if (fg_slice_is(column, "total"))
        *ret_order = by_total;
    else if (fg_slice_is(column, "profiles") && table->counted)
        *ret_order = by_profiles;
    else if (fg_slice_is(column, "profiles"))
        return fg_fail(err, FG_E_INVALID, "sort: profiles needs counts=true");
    else
        return fg_fail(err, FG_E_INVALID, "sort: \"%.*s\" is none of self, total and profiles",
                       FG_S(column));
    return FG_OK;
}

/* Names of one table, which are distinct, are found by the hash of the name. */
static void add_counts(struct function_table *table)
{
    const struct fg_tree *counts = &table->counts;
    struct fg_map by_name;

    fg_map_init(&by_name);
    for (uint32_t i = 0; i < counts->n_nodes; i++)
        fg_map_add(&by_name, fg_hash64_table(fg_tree_name(counts, i)), i);
    for (size_t i = 0; i < table->n; i++) {
        struct function_row *row = &table->rows[i];
        struct fg_map_walk walk;

        for (uint32_t k = fg_map_first(&by_name, fg_hash64_table(row->name), &walk);
             k != FG_MAP_NONE; k = fg_map_next(&by_name, &walk))
            if (fg_slice_eq(fg_tree_name(counts, k), row->name))
                row->profiles = counts->self[k];
    }
    fg_map_done(&by_name);
}

static enum fg_code make_rows(struct qry_query *query, struct function_table *table,
                              struct fg_err *err)
{
    struct fg_top_row *rows = fg_flame_top(&table->tree, &table->n);

    table->rows = fg_arena_new(query->arena, struct function_row, table->n);
    for (size_t i = 0; table->rows != NULL && i < table->n; i++)
        table->rows[i] = (struct function_row){rows[i].name, rows[i].self, rows[i].total, 0};
    free(rows);
    if (table->rows == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < table->tree.n_nodes; i++)
        table->total = fg_value_add(table->total, table->tree.self[i]);
    if (table->counted)
        add_counts(table);
    return FG_OK;
}

static double share_of(int64_t value, int64_t total)
{
    return total == 0 ? 0 : (double)value / (double)total;
}

static enum fg_code write_table(struct qry_query *query, const struct function_table *table,
                                struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&query->body);
    size_t from = FG_MIN(table->from, table->n);

    put_type(&table->selection, &json);
    fg_json_put_i64(&json, "total", table->total);
    if (table->counted)
        fg_json_put_i64(&json, "profiles", table->counts.root_self);
    fg_json_put_u64(&json, "count", table->n);
    fg_json_begin_array(&json, "functions");
    for (size_t i = from; i < table->n && i - from < table->limit; i++) {
        const struct function_row *row = &table->rows[i];

        fg_json_begin_object(&json, NULL);
        fg_json_put_text(&json, "name", row->name);
        fg_json_put_i64(&json, "self", row->self);
        fg_json_put_i64(&json, "total", row->total);
        fg_json_put_fixed(&json, "self_share", share_of(row->self, table->total), 6);
        fg_json_put_fixed(&json, "total_share", share_of(row->total, table->total), 6);
        if (table->counted)
            fg_json_put_i64(&json, "profiles", row->profiles);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    if (table->n - from > table->limit)
        fg_json_put_u64(&json, "next", from + table->limit);
    return qry_reply_end_json(query, &json, err);
}

static enum fg_code answer_table(struct qry_query *query, struct function_table *table,
                                 struct fg_err *err)
{
    const struct qry_render_params *params = &query->params;
    row_order order = by_self;

    /* Parameters first: a wrong one costs no query. */
    if (qry_params_flag(params->counts, "counts", &table->counted, err) != FG_OK ||
        read_order(table, params->sort, &order, err) != FG_OK ||
        qry_params_number(params->limit, "limit", ROWS_DEFAULT, 1, ROWS_MAX, &table->limit, err) !=
            FG_OK ||
        qry_params_number(params->page, "page", 0, 0, INT32_MAX, &table->from, err) != FG_OK ||
        collect(query, &table->selection, &table->tree, err) != FG_OK)
        return err->code;
    if (table->counted) {
        /* Reads the profiles once more, one by one: a sum does not tell how many are in it. */
        const struct qry_counted counted = qry_query_counted(query);
        enum fg_code code =
            qry_collect_function_counts(query, &table->selection, &table->counts, err);

        qry_query_count_back(query, counted);
        if (code != FG_OK)
            return code;
    }
    if (make_rows(query, table, err) != FG_OK)
        return err->code;
    if (table->n > 0)
        qsort(table->rows, table->n, sizeof *table->rows, order);
    return write_table(query, table, err);
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
        qry_function_match_read(query, query->params.function, query->params.regex, &meant, err) !=
            FG_OK)
        return err->code;
    code = collect(query, selection, tree, err);
    if (code == FG_OK) {
        fg_sandwich_make(tree, qry_function_match_is, &meant, &sandwich);
        put_type(selection, &json);
        fg_json_put_i64(&json, "total", sandwich.all);
        fg_json_put_i64(&json, "self", sandwich.self);
        fg_json_put_i64(&json, "with_callees", sandwich.total);
        put_tree(&sandwich.callers, max_nodes, "callers", &json);
        put_tree(&sandwich.callees, max_nodes, "callees", &json);
        fg_sandwich_done(&sandwich);
        /* The expression may have ended with the query's time. */
        code = qry_query_check(query, err);
        if (code == FG_OK)
            code = qry_reply_end_json(query, &json, err);
    }
    qry_function_match_done(&meant);
    return code;
}

/* ---- routes ---- */

static enum fg_code table(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    struct function_table table = {0};
    enum fg_code code;

    (void)in;
    fg_tree_init(&table.tree);
    fg_tree_init(&table.counts);
    code = answer_table(query, &table, err);
    fg_tree_done(&table.counts);
    fg_tree_done(&table.tree);
    qry_selection_done(&table.selection);
    return code;
}

static enum fg_code one_function(struct qry_query *query, const ProtobufCMessage *in,
                                 struct fg_err *err)
{
    struct qry_selection selection = {0};
    struct fg_tree tree;
    enum fg_code code;

    (void)in;
    fg_tree_init(&tree);
    code = answer_sandwich(query, &selection, &tree, err);
    fg_tree_done(&tree);
    qry_selection_done(&selection);
    return code;
}

const struct qry_endpoint qry_function_endpoints[] = {
    {"/api/functions", "functions", NULL, table, 0, false},
    {"/api/sandwich", "sandwich", NULL, one_function, 0, false},
};
const size_t qry_n_function_endpoints = FG_COUNT(qry_function_endpoints);
