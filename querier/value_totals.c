#include "querier/value_totals.h"

#include "common/base/search.h"
#include "common/base/value.h"

/* Returns the first value of [from, to) that is not before the text. */
static size_t search(const struct qry_value_totals *totals, struct fg_slice text, size_t from,
                     size_t to)
{
    return fg_lower_bound(i, from, to, fg_slice_cmp(totals->values[i].text, text) < 0);
}

/* Returns the first value from `at` on that is not before the text; value `at` is before it. */
static size_t gallop(const struct qry_value_totals *totals, struct fg_slice text)
{
    size_t from = totals->at + 1, step = 1;

    while (step < totals->n - from &&
           fg_slice_cmp(totals->values[from + step - 1].text, text) < 0) {
        from += step;
        step *= 2;
    }
    return search(totals, text, from, FG_MIN(from + step, totals->n));
}

void qry_value_totals_add(struct qry_value_totals *totals, struct fg_slice value, int64_t sum)
{
    int order;

    if (totals->n == 0)
        return;
    totals->at = FG_MIN(totals->at, totals->n - 1);
    order = fg_slice_cmp(totals->values[totals->at].text, value);
    if (order < 0)
        totals->at = gallop(totals, value);
    else if (order > 0)
        totals->at = search(totals, value, 0, totals->at);
    if (order != 0 &&
        (totals->at == totals->n || !fg_slice_eq(totals->values[totals->at].text, value)))
        return;
    totals->totals[totals->at] = fg_value_add(totals->totals[totals->at], sum);
    totals->at++; /* mostly the next one comes next */
}

void qry_value_totals_clear(struct qry_value_totals *totals)
{
    for (size_t i = 0; i < totals->n; i++)
        totals->totals[i] = 0;
    totals->total = 0;
    totals->at = 0;
}
