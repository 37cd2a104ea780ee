#include "deploy/cli/show.h"

#include "common/model/value_text.h"

void cli_show_text(struct fg_slice text, struct fg_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];

        /* Names come from profiles: an escape sequence in one must not reach the terminal. */
        fg_buf_putc(out, c < 0x20 || c == 0x7f ? ' ' : c);
    }
}

/* ---- the table ---- */

static int compare_self(const void *a, const void *b)
{
    const struct fg_top_row *x = a, *y = b;

    if (x->self != y->self)
        return x->self > y->self ? -1 : 1;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return fg_slice_cmp(x->name, y->name);
}

int64_t cli_show_whole(const struct fg_tree *tree)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        sum = fg_value_add(sum, tree->self[i]);
    return sum;
}

/* Puts a value, right-aligned, and its percentage. */
static void put_cell(int64_t value, int64_t total, struct fg_slice unit, struct fg_buf *out)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    fg_value_scaled(value, unit, &text);
    fg_buf_printf(out, "%12.*s %6.2f%%  ", FG_S(fg_buf_slice(&text)),
                  total == 0 ? 0 : 100.0 * (double)value / (double)total);
    fg_buf_done(&text);
}

void cli_show_table(const struct fg_tree *tree, struct fg_slice unit, bool by_total, size_t limit,
                    struct fg_buf *out)
{
    int64_t total = cli_show_whole(tree);
    size_t n_rows;
    struct fg_top_row *rows = fg_flame_top(tree, &n_rows);
    size_t shown = limit == 0 ? n_rows : FG_MIN(limit, n_rows);

    if (n_rows > 0 && !by_total) /* fg_flame_top() has sorted them by total */
        qsort(rows, n_rows, sizeof *rows, compare_self);
    fg_buf_puts(out, "        SELF              TOTAL           FUNCTION\n");
    for (size_t i = 0; i < shown; i++) {
        put_cell(rows[i].self, total, unit, out);
        put_cell(rows[i].total, total, unit, out);
        cli_show_text(rows[i].name, out);
        fg_buf_putc(out, '\n');
    }
    if (shown < n_rows)
        fg_buf_printf(out, "%zu more functions; --limit 0 shows all\n", n_rows - shown);
    free(rows);
}
