#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "deploy/cli/query.h"
#include "deploy/cli/show.h"

#include <math.h>

enum { OUTPUT_MAX_BYTES = 256 * 1024 * 1024 }; /* the default of querier.answer_max_bytes */

/* A function on both sides; shares of each side's total, 0 to 1. */
struct diff_row {
    struct fg_slice name; /* borrowed from the trees */
    int64_t before, now;
    double share_before, share_now;
};

struct side {
    struct fg_tree tree;
    struct fg_top_row *rows; /* by name */
    size_t n_rows;
    int64_t total;
};

static int by_name(const void *a, const void *b)
{
    return fg_slice_cmp(((const struct fg_top_row *)a)->name, ((const struct fg_top_row *)b)->name);
}

/* The largest changes of the share first; equal ones by name, so that the output is always the
 * same. */
static int by_change(const void *a, const void *b)
{
    const struct diff_row *x = a, *y = b;
    double left = fabs(x->share_now - x->share_before),
           right = fabs(y->share_now - y->share_before);

    if (left != right)
        return left > right ? -1 : 1;
    return fg_slice_cmp(x->name, y->name);
}

static enum fg_code read_side(const struct cli_query *query, struct fg_slice labels,
                              const struct cli_selection_range *range, struct side *side,
                              struct fg_err *err)
{
    /* Before anything can fail, so that side_done() may always be called. */
    fg_tree_init(&side->tree);
    if (cli_ask_tree(query->client, query->type_id, labels, range, query->max_nodes, query->arena,
                     &side->tree, err) != FG_OK)
        return err->code;
    if (side->tree.n_nodes == 0)
        return cli_selection_fail_side(labels, range, cli_client_missing(query->client) != NULL,
                                       err);
    side->rows = fg_flame_top(&side->tree, &side->n_rows);
    side->total = cli_show_whole(&side->tree);
    if (side->n_rows > 0)
        qsort(side->rows, side->n_rows, sizeof *side->rows, by_name);
    return FG_OK;
}

static void side_done(struct side *side)
{
    free(side->rows);
    fg_tree_done(&side->tree);
}

static int64_t value_of(const struct cli_query *query, const struct fg_top_row *row)
{
    return strcmp(query->sort, "total") == 0 ? row->total : row->self;
}

/* Joins the functions of both sides, each once. Leaves out those that are zero on both. */
static struct diff_row *join_sides(const struct cli_query *query, const struct side *before,
                                   const struct side *now, size_t *ret_n)
{
    struct diff_row *rows = fg_calloc(before->n_rows + now->n_rows + 1, sizeof *rows);
    size_t i = 0, k = 0, n = 0;

    while (i < before->n_rows || k < now->n_rows) {
        /* Both lists are sorted by name: a merge join, linear in their lengths. */
        int order = i == before->n_rows ? 1
                    : k == now->n_rows  ? -1
                                        : by_name(&before->rows[i], &now->rows[k]);
        struct diff_row row = {.name = order <= 0 ? before->rows[i].name : now->rows[k].name};

        if (order <= 0)
            row.before = value_of(query, &before->rows[i++]);
        if (order >= 0)
            row.now = value_of(query, &now->rows[k++]);
        /* Shares, not values: the two ranges may differ in length or load. */
        row.share_before = before->total == 0 ? 0 : (double)row.before / (double)before->total;
        row.share_now = now->total == 0 ? 0 : (double)row.now / (double)now->total;
        if (row.before != 0 || row.now != 0)
            rows[n++] = row;
    }
    fg_assert(n <= before->n_rows + now->n_rows);
    if (n > 1)
        qsort(rows, n, sizeof *rows, by_change);
    *ret_n = n;
    return rows;
}

static void write_json(const struct cli_query *query, const struct diff_row *rows, size_t n,
                       struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);

    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "sort", query->sort);
    fg_json_begin_array(&json, "functions");
    for (size_t i = 0; i < n; i++) {
        fg_json_begin_object(&json, NULL);
        fg_json_put_text(&json, "name", rows[i].name);
        fg_json_put_i64(&json, "before", rows[i].before);
        fg_json_put_i64(&json, "now", rows[i].now);
        fg_json_put_fixed(&json, "share_before", rows[i].share_before, 6);
        fg_json_put_fixed(&json, "share_now", rows[i].share_now, 6);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
}

static void write_table(const struct diff_row *rows, size_t n, size_t n_all, struct fg_buf *out)
{
    fg_buf_puts(out, "  BEFORE      NOW    CHANGE  FUNCTION\n");
    for (size_t i = 0; i < n; i++) {
        fg_buf_printf(out, "%7.2f%% %7.2f%% %+8.2f%%  ", 100 * rows[i].share_before,
                      100 * rows[i].share_now, 100 * (rows[i].share_now - rows[i].share_before));
        cli_show_text(rows[i].name, out);
        fg_buf_putc(out, '\n');
    }
    if (n < n_all)
        fg_buf_printf(out, "%zu more functions; --limit 0 shows all\n", n_all - n);
}

enum fg_code cli_query_diff(const struct cli_query *query, struct fg_err *err)
{
    struct side before = {0}, now = {0};
    /* The type was chosen for the query; the base is asked for the same, or shares would not
     * compare. */
    enum fg_code code = read_side(query, query->base.labels, &query->base_range, &before, err);

    if (code == FG_OK)
        code = read_side(query, query->selection.labels, &query->range, &now, err);
    if (code == FG_OK) {
        size_t n_all, n;
        struct diff_row *rows = join_sides(query, &before, &now, &n_all);
        struct fg_buf out;

        n = query->limit == 0 ? n_all : FG_MIN(query->limit, n_all);
        fg_buf_init(&out, OUTPUT_MAX_BYTES);
        if (query->json)
            write_json(query, rows, n, &out);
        else
            write_table(rows, n, n_all, &out);
        code = cli_query_write(query, &out, err);
        fg_buf_done(&out);
        free(rows);
    }
    side_done(&before);
    side_done(&now);
    return code;
}
