#include "querier/coverage.h"

#include "common/base/time.h"
#include "common/base/value.h"

enum { PARTS_MAX = 4000 }; /* in a range: as many points as a wide screen has twice */

static const int64_t part_least_ns = 15 * FG_SECOND_NS;
/* Most agents send every 10 to 60 seconds, so up to a minute nothing is missing. */
static const int64_t gap_least_ns = FG_MINUTE_NS;
/* A sender with longer pauses takes single profiles, which say nothing about the time between them.
 */
static const int64_t usual_most_ns = FG_HOUR_NS;

static int by_number(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

int64_t qry_coverage_usual(const struct qry_points *points, int64_t step_ns)
{
    int64_t *gaps = fg_calloc(points->n + 1, sizeof *gaps), usual = 1;
    size_t n = 0;

    for (size_t i = 1; i < points->n; i++) {
        gaps[n] = fg_value_sub(points->items[i].k, points->items[i - 1].k);
        n += gaps[n] <= FG_MAX(1, usual_most_ns / step_ns);
    }
    if (n > 0) {
        qsort(gaps, n, sizeof *gaps, by_number);
        usual = gaps[n / 2];
    }
    free(gaps);
    return usual;
}

int64_t qry_coverage_of(const struct qry_points *points, size_t i, int64_t usual, int64_t step_ns)
{
    int64_t gap = i == 0 ? usual : fg_value_sub(points->items[i].k, points->items[i - 1].k);
    /* The longest distance of points, in steps, that is no gap: between once and twice the usual
     * one, since profiles are not on the grid, and agents are not on time. */
    int64_t longest = FG_MAX(usual + usual / 2, gap_least_ns / step_ns);

    return gap <= longest ? gap : usual;
}

int64_t qry_coverage_parts(int64_t step_ns, int64_t length_ns)
{
    int64_t step_ms = step_ns / FG_MS_NS, steps = FG_MAX(length_ns, 0) / step_ns + 1;
    int64_t parts = FG_MIN(step_ns / part_least_ns, PARTS_MAX / steps);

    /* The largest number that divides the step: 1 does. */
    for (; parts > 1; parts--)
        if (step_ms % parts == 0)
            return parts;
    return 1;
}

enum fg_code qry_coverage_join(struct qry_points *points, int64_t parts, int64_t part_ns,
                               struct fg_arena *arena, int64_t **ret_covered_ns, struct fg_err *err)
{
    int64_t usual = qry_coverage_usual(points, part_ns);
    int64_t *steps = fg_arena_new(arena, int64_t, points->n + 1);
    int64_t *covered_ns = fg_arena_new(arena, int64_t, points->n + 1);
    size_t n = 0;

    if (steps == NULL || covered_ns == NULL)
        return fg_fail(err, FG_E_LIMIT, "the query needs more memory than a query may use");
    /* Before points are joined, which moves them. */
    for (size_t i = 0; i < points->n; i++)
        steps[i] = qry_coverage_of(points, i, usual, part_ns);
    for (size_t i = 0; i < points->n; i++) {
        struct qry_point point = points->items[i];
        int64_t ns = steps[i] * part_ns; /* at most a few hours, or a part */

        point.k /= parts;
        if (n > 0 && points->items[n - 1].k == point.k) {
            points->items[n - 1].sum = fg_value_add(points->items[n - 1].sum, point.sum);
            points->items[n - 1].count += point.count;
            covered_ns[n - 1] = fg_value_add(covered_ns[n - 1], ns);
            continue;
        }
        points->items[n] = point;
        covered_ns[n++] = ns;
    }
    points->n = n;
    *ret_covered_ns = covered_ns;
    return FG_OK;
}
