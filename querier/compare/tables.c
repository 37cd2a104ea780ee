#include "querier/compare/tables.h"

#include "common/base/value.h"

#include <math.h>

/* ---- sums ---- */

/* Returns a zeroed value for each node: sums by node need no look-up then. */
static int64_t *new_dense(const struct qry_change_sides *sides)
{
    return fg_calloc((size_t)sides->tree.n_nodes + 1, sizeof(int64_t));
}

/* ---- rows ---- */

/* Returns true if a figure is large enough on either side. */
static bool is_large(const struct qry_change_tables *tables, const int64_t *const figures[],
                     uint32_t function, double min_share)
{
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++) {
        double all = (double)tables->values[side].all, value = (double)figures[side][function];

        /* Also without a minimum a function needs a value: 0 of 0 is no share. */
        if (value > 0 && value >= min_share * all)
            return true;
    }
    return false;
}

static void put_row(const int64_t *const figures[], uint32_t function, bool of_total,
                    struct qry_change_tables *tables)
{
    tables->rows[tables->n_rows++] = (struct qry_change_row){
        .function = function,
        .of_total = of_total,
        .values = {figures[0][function], figures[1][function]},
    };
}

/* rows NULL: only counts. */
static size_t list_rows(struct qry_change_tables *tables, double min_share)
{
    const struct fg_function_values *values = tables->values;
    const int64_t *const selfs[] = {values[0].function_self, values[1].function_self};
    const int64_t *const totals[] = {values[0].function_totals, values[1].function_totals};
    size_t n = 0;

    for (uint32_t i = 0; i < tables->functions.n_names; i++) {
        bool self = is_large(tables, selfs, i, min_share);
        /* A total that is the self value on both sides would be the same test twice, and make the
         * correction for many tests stricter for nothing. */
        bool total = is_large(tables, totals, i, min_share) &&
                     !(self && selfs[0][i] == totals[0][i] && selfs[1][i] == totals[1][i]);

        n += (size_t)self + total;
        if (tables->rows != NULL && self)
            put_row(selfs, i, false, tables);
        if (tables->rows != NULL && total)
            put_row(totals, i, true, tables);
    }
    return n;
}

static enum fg_code make_rows(struct qry_change_tables *tables, double min_share,
                              const struct qry_change_sides *sides, struct fg_arena *arena,
                              struct fg_err *err)
{
    /* Two passes, one to count: the array in the arena fits exactly. */
    size_t n = list_rows(tables, min_share);

    tables->rows = fg_arena_new(arena, struct qry_change_row, n + 1);
    if (tables->rows == NULL)
        return qry_query_too_large(err);
    (void)list_rows(tables, min_share);
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++) {
        size_t n_units = sides->sides[side].n_units;
        double *values = fg_arena_new(arena, double, n *n_units + 1);

        if (values == NULL)
            return fg_fail(err, FG_E_LIMIT,
                           "%zu functions of %zu instances are too many: a larger min_share "
                           "compares fewer",
                           n, n_units);
        for (size_t i = 0; i < n; i++)
            tables->rows[i].change.values[side] = values + i * n_units;
    }
    return FG_OK;
}

/* ---- units ---- */

/* Makes the quantum divide a unit's values as well. */
static void divide(const struct fg_function_values *values, uint32_t n, int64_t *quantum)
{
    /* Self values only, since totals are sums of them. At 1 nothing can change any more. */
    for (uint32_t i = 0; i < n && *quantum != 1; i++)
        if (values->self[i] > 0 && (*quantum == 0 || values->self[i] % *quantum != 0))
            *quantum = (int64_t)fg_greatest_divisor((uint64_t)values->self[i], (uint64_t)*quantum);
}

static void fill_unit(const struct fg_function_values *values, size_t side, size_t unit,
                      struct qry_change_tables *tables)
{
    for (size_t i = 0; i < tables->n_rows; i++) {
        struct qry_change_row *row = &tables->rows[i];
        const int64_t *figures = row->of_total ? values->function_totals : values->function_self;
        /* Ours until the rows are complete. */
        double *into = (double *)(uintptr_t)row->change.values[side];

        /* The tests take no negative values: sums need a logarithm (changes.h). */
        into[unit] = fmax((double)figures[row->function], 0);
        row->n_units[side] += into[unit] > 0;
    }
}

static void fill_units(const struct qry_change_sides *sides, struct qry_change_tables *tables)
{
    /* One dense array serves all units, one after another: memory follows the nodes alone. */
    struct fg_function_values values;
    int64_t *self = new_dense(sides);

    fg_function_values_init(&values, &tables->functions);
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        for (size_t i = 0; i < sides->sides[side].n_units; i++) {
            memset(self, 0, sides->tree.n_nodes * sizeof *self);
            qry_group_sum(sides->sides[side].units[i].group, self);
            fg_function_values_set(&values, &tables->functions, self);
            divide(&values, tables->functions.n_nodes, &tables->quantum);
            fill_unit(&values, side, i, tables);
        }
    fg_function_values_done(&values);
    free(self);
}

enum fg_code qry_change_tables_make(const struct qry_change_sides *sides, double min_share,
                                    struct fg_arena *arena, struct qry_change_tables *ret_tables,
                                    struct fg_err *err)
{
    *ret_tables = (struct qry_change_tables){0};
    fg_function_tree_init(&ret_tables->functions, &sides->tree);
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++) {
        const struct qry_groups *groups = &sides->sides[side].groups;
        int64_t *self = new_dense(sides);

        for (size_t i = 0; i < groups->n; i++)
            qry_group_sum(&groups->items[i], self);
        fg_function_values_init(&ret_tables->values[side], &ret_tables->functions);
        fg_function_values_set(&ret_tables->values[side], &ret_tables->functions, self);
        free(self);
    }
    if (make_rows(ret_tables, min_share, sides, arena, err) != FG_OK)
        return err->code;
    fill_units(sides, ret_tables);
    return FG_OK;
}

void qry_change_tables_done(struct qry_change_tables *tables)
{
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        fg_function_values_done(&tables->values[side]);
    fg_function_tree_done(&tables->functions);
}

/* ---- calls ---- */

void qry_change_firsts(const struct fg_function_tree *functions, uint32_t *firsts)
{
    /* Backwards, so that the first node of a function is the last one to write. */
    memset(firsts, 0xff, functions->n_names * sizeof *firsts);
    for (uint32_t i = functions->n_nodes; i-- > 0;)
        firsts[functions->functions[i]] = i;
}

static int by_pair(const void *left, const void *right)
{
    const struct qry_thin_edge *a = left, *b = right;

    if (a->caller != b->caller)
        return a->caller < b->caller ? -1 : 1;
    return (a->callee > b->callee) - (a->callee < b->callee);
}

/* Sums up edges of the same pair. Returns how many are left. */
static size_t join_edges(struct qry_thin_edge *edges, size_t n)
{
    size_t kept = 0;

    if (n == 0)
        return 0;
    qsort(edges, n, sizeof *edges, by_pair);
    for (size_t i = 1; i < n; i++) {
        if (by_pair(&edges[kept], &edges[i]) == 0) {
            edges[kept].delta += edges[i].delta;
            edges[kept].size += edges[i].size;
        } else {
            edges[++kept] = edges[i];
        }
    }
    return kept + 1;
}

/* Returns the calls that a node is one of, if it counts. counts: of nodes, whether what they call
 * counts as calls of their function. */
static bool is_call(const struct fg_function_tree *functions, uint32_t node, bool *counts)
{
    uint32_t parent = functions->parents[node], function = functions->functions[node];
    bool again = parent != FG_TREE_ROOT && functions->functions[parent] == function;

    counts[node] = functions->outermost[node] || (again && counts[parent]);
    return !again && (parent == FG_TREE_ROOT || counts[parent]);
}

enum fg_code qry_change_edges(const struct qry_change_tables *tables, const bool *marked,
                              const double scales[QRY_CHANGE_SIDES], struct fg_arena *arena,
                              struct qry_thin_edge **ret_edges, size_t *ret_n, struct fg_err *err)
{
    const struct fg_function_tree *functions = &tables->functions;
    bool *counts = fg_arena_new(arena, bool, functions->n_nodes + 1);
    struct qry_thin_edge *edges = NULL;
    uint32_t n = 0, cap = 0;

    if (counts == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        uint32_t parent = functions->parents[i], callee = functions->functions[i];
        uint32_t caller = parent == FG_TREE_ROOT ? QRY_THIN_NONE : functions->functions[parent];
        double figures[QRY_CHANGE_SIDES];

        if (!is_call(functions, i, counts) ||
            !(marked[callee] || (caller != QRY_THIN_NONE && marked[caller])))
            continue;
        if (!fg_arena_grow(arena, &edges, n, 1, &cap, sizeof *edges))
            return qry_query_too_large(err);
        for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
            figures[side] = (double)tables->values[side].totals[i] * scales[side];
        edges[n++] = (struct qry_thin_edge){caller, callee, figures[1] - figures[0],
                                            figures[0] + figures[1]};
    }
    *ret_n = join_edges(edges, n);
    *ret_edges = edges;
    return FG_OK;
}
