#include "querier/compare/thin.h"

#include "common/base/def.h"
#include "common/base/hash.h"

#include <math.h>

static const double explained_min = 0.8, cancel_max = 0.1, whole_max = 0.8;

struct thinning {
    struct qry_thin_row *rows;
    size_t n;
    uint32_t *selfs, *totals; /* of a function: its row, or QRY_THIN_NONE */
    uint32_t *callers;        /* of a function: the one below which most of it is */
    double size_max;          /* of the rows of a line "moved" */
};

/* ---- packages ---- */

struct fg_slice qry_thin_package(struct fg_slice name)
{
    size_t end = 0, from = 0, at;

    /* Signatures, receivers and type arguments have separators of their own. */
    while (end < name.len && name.ptr[end] != '(' && name.ptr[end] != '<' && name.ptr[end] != '[')
        end++;
    name = fg_slice_sub(name, 0, end);
    for (at = name.len; at > 1; at--) /* C++, Rust: a::b::function */
        if (name.ptr[at - 1] == ':' && name.ptr[at - 2] == ':')
            return fg_slice_sub(name, 0, at - 2);
    for (at = 0; at < name.len; at++)
        if (name.ptr[at] == '/')
            from = at + 1;
    for (at = from; at < name.len && from > 0; at++) /* Go: host/path.Type.function */
        if (name.ptr[at] == '.')
            return fg_slice_sub(name, 0, at);
    for (at = name.len; at > 0; at--) /* Java, Python: package.Class.function */
        if (name.ptr[at - 1] == '.')
            return fg_slice_sub(name, 0, at - 1);
    return fg_slice_sub(name, 0, 0);
}

/* ---- folding ---- */

/* Returns the part of a change that another one of the same direction explains. */
static double explained(double delta, double by)
{
    return delta > 0 ? fmin(fmax(by, 0), delta) : fmax(fmin(by, 0), delta);
}

static bool is_same_way(double a, double b)
{
    return (a > 0) == (b > 0);
}

/* Callers are larger than what they call, or come first. One order for all, so that recursion folds
 * no row into itself through others. */
static bool is_below(const struct thinning *thinning, uint32_t low, uint32_t high)
{
    const struct qry_thin_row *a = &thinning->rows[low], *b = &thinning->rows[high];

    if (a->size != b->size)
        return a->size < b->size;
    return a->first != b->first ? a->first > b->first : a->of_total < b->of_total;
}

/* What explains a row's change. */
struct fold {
    double sum;
    uint32_t n;
};

static void explain(const struct thinning *thinning, uint32_t row, uint32_t below, double part,
                    struct fold *fold)
{
    const struct qry_thin_row *high = &thinning->rows[row], *low;

    if (below == QRY_THIN_NONE || below == row)
        return;
    low = &thinning->rows[below];
    if (!low->found || !is_same_way(low->delta, high->delta) || !is_below(thinning, below, row))
        return;
    /* What changed under this caller may have been made up for under others. */
    part = explained(explained(high->delta, part), low->delta);
    fold->sum += part;
    fold->n += part != 0;
}

static void fold_rows(struct thinning *thinning, const struct qry_thin_edge *edges, size_t n_edges)
{
    struct fold *folds = fg_calloc(thinning->n + 1, sizeof *folds);

    for (size_t i = 0; i < n_edges; i++) {
        uint32_t row =
            edges[i].caller == QRY_THIN_NONE ? QRY_THIN_NONE : thinning->totals[edges[i].caller];
        /* A callee has its row of totals, or the one of self values if it has no totals. */
        uint32_t below = thinning->totals[edges[i].callee] != QRY_THIN_NONE
                             ? thinning->totals[edges[i].callee]
                             : thinning->selfs[edges[i].callee];

        if (row != QRY_THIN_NONE && thinning->rows[row].found)
            explain(thinning, row, below, edges[i].delta, &folds[row]);
    }
    for (uint32_t i = 0; i < thinning->n; i++) {
        const struct qry_thin_row *row = &thinning->rows[i];
        uint32_t self = thinning->selfs[row->function];

        if (!row->of_total || !row->found)
            continue;
        if (self != QRY_THIN_NONE)
            explain(thinning, i, self, thinning->rows[self].delta, &folds[i]);
    }
    for (size_t i = 0; i < thinning->n; i++)
        if (folds[i].n > 0 && folds[i].sum / thinning->rows[i].delta >= explained_min)
            thinning->rows[i].folded = folds[i].n;
    free(folds);
}

/* ---- what moved ---- */

/* A finding that is not folded, by what it has in common with others. */
struct mover {
    uint64_t key;
    uint32_t row;
    double delta, size;
};

static int by_key(const void *left, const void *right)
{
    const struct mover *a = left, *b = right;
    double larger = fabs(a->delta), smaller = fabs(b->delta);

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (larger != smaller)
        return larger > smaller ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static bool cancels(double up, double down)
{
    return up > 0 && down > 0 && fabs(up - down) <= cancel_max * fmax(up, down);
}

/* Looks for the best partner of each, the largest first. */
static void pair(struct thinning *thinning, const struct mover *movers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t best = n;

        if (thinning->rows[movers[i].row].moved != QRY_THIN_NONE)
            continue;
        for (size_t k = i + 1;
             k < n && fabs(movers[k].delta) >= (1 - cancel_max) * fabs(movers[i].delta); k++)
            if (thinning->rows[movers[k].row].moved == QRY_THIN_NONE &&
                !is_same_way(movers[i].delta, movers[k].delta)) {
                best = k; /* they descend, so the first is the nearest */
                break;
            }
        if (best < n && movers[i].size + movers[best].size <= thinning->size_max &&
            cancels(fabs(movers[i].delta), fabs(movers[best].delta)))
            thinning->rows[movers[i].row].moved = thinning->rows[movers[best].row].moved =
                movers[i].row;
    }
}

/* Takes all that are left together: a function that was split into several. */
static void gather(struct thinning *thinning, const struct mover *movers, size_t n)
{
    double up = 0, down = 0, size = 0;
    uint32_t first = QRY_THIN_NONE;

    for (size_t i = 0; i < n; i++) {
        if (thinning->rows[movers[i].row].moved != QRY_THIN_NONE)
            continue;
        if (first == QRY_THIN_NONE)
            first = movers[i].row;
        up += fmax(movers[i].delta, 0);
        down += fmax(-movers[i].delta, 0);
        size += movers[i].size;
    }
    if (!cancels(up, down) || size > thinning->size_max)
        return;
    for (size_t i = 0; i < n; i++)
        if (thinning->rows[movers[i].row].moved == QRY_THIN_NONE)
            thinning->rows[movers[i].row].moved = first;
}

/* Returns what findings have in common that cancel; 0: nothing. */
typedef uint64_t (*key_of)(const struct thinning *thinning, const struct qry_thin_row *row,
                           const struct fg_slice *names);

static uint64_t key_caller(const struct thinning *thinning, const struct qry_thin_row *row,
                           const struct fg_slice *names)
{
    (void)names;
    return thinning->callers[row->function] == QRY_THIN_NONE
               ? 0
               : ((uint64_t)thinning->callers[row->function] + 1) * 2 + row->of_total;
}

static uint64_t key_package(const struct thinning *thinning, const struct qry_thin_row *row,
                            const struct fg_slice *names)
{
    struct fg_slice package = qry_thin_package(names[row->function]);

    (void)thinning;
    return package.len == 0 ? 0 : (fg_hash64(package) | 2) ^ (uint64_t)row->of_total;
}

static void move_rows(struct thinning *thinning, key_of key, const struct fg_slice *names)
{
    struct mover *movers = fg_calloc(thinning->n + 1, sizeof *movers);
    size_t n = 0, next;

    for (uint32_t i = 0; i < thinning->n; i++) {
        const struct qry_thin_row *row = &thinning->rows[i];

        if (!row->found || row->folded > 0 || row->moved != QRY_THIN_NONE)
            continue;
        movers[n] = (struct mover){key(thinning, row, names), i, row->delta, row->size};
        n += movers[n].key != 0;
    }
    if (n > 0)
        qsort(movers, n, sizeof *movers, by_key);
    for (size_t i = 0; i < n; i = next) {
        for (next = i; next < n && movers[next].key == movers[i].key;)
            next++;
        pair(thinning, movers + i, next - i);
        gather(thinning, movers + i, next - i);
    }
    free(movers);
}

/* ---- all ---- */

void qry_thin(struct qry_thin_row *rows, size_t n, double whole, const struct fg_slice *names,
              size_t n_functions, const struct qry_thin_edge *edges, size_t n_edges)
{
    struct thinning thinning = {.rows = rows, .n = n, .size_max = whole_max * whole};

    thinning.selfs = fg_malloc((n_functions + 1) * sizeof *thinning.selfs);
    thinning.totals = fg_malloc((n_functions + 1) * sizeof *thinning.totals);
    thinning.callers = fg_malloc((n_functions + 1) * sizeof *thinning.callers);
    for (size_t i = 0; i < n_functions; i++)
        thinning.selfs[i] = thinning.totals[i] = thinning.callers[i] = QRY_THIN_NONE;
    for (uint32_t i = 0; i < n; i++) {
        fg_assert(rows[i].function < n_functions);
        rows[i].folded = 0;
        rows[i].moved = QRY_THIN_NONE;
        (rows[i].of_total ? thinning.totals : thinning.selfs)[rows[i].function] = i;
    }

    double *most = fg_calloc(n_functions + 1, sizeof *most);

    for (size_t i = 0; i < n_edges; i++)
        if (edges[i].size > most[edges[i].callee]) {
            most[edges[i].callee] = edges[i].size;
            thinning.callers[edges[i].callee] = edges[i].caller;
        }
    free(most);
    fold_rows(&thinning, edges, n_edges);
    move_rows(&thinning, key_caller, names);
    move_rows(&thinning, key_package, names);
    free(thinning.callers);
    free(thinning.totals);
    free(thinning.selfs);
}
