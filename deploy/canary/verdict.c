#include "deploy/canary/verdict.h"

enum {
    SUBSETS_OF_MAX = 12, /* pending profiles of which all subsets are tried: 4,096 */
};

/* A sum of an answer, and what it may be. */
struct sum {
    uint32_t cell;
    int64_t expected, found;
    const struct canary_journal_maybe *maybes; /* pending profiles that may be in it */
    uint32_t n_maybes;
};

const char *canary_verdict_kind_name(enum canary_verdict_kind kind)
{
    static const char *const names[] = {"lost", "double", "foreign"};

    return names[kind];
}

void canary_verdict_done(struct canary_verdict *verdict)
{
    free(verdict->findings);
}

static void add_finding(struct canary_verdict *verdict, enum canary_verdict_kind kind,
                        const struct sum *sum, uint64_t number)
{
    if (verdict->findings == NULL)
        verdict->findings = fg_calloc(VERDICT_FINDINGS_MAX, sizeof *verdict->findings);
    if (verdict->n < VERDICT_FINDINGS_MAX)
        verdict->findings[verdict->n] =
            (struct canary_verdict_finding){kind, number, sum->cell, sum->expected, sum->found};
    verdict->n++;
}

/* ---- pending profiles ---- */

static int64_t value_of(const struct canary_journal *journal, uint64_t number)
{
    return (int64_t)canary_journal_profile(canary_journal_shape(journal), number).value;
}

static int64_t subset_sum(const struct canary_journal *journal, const struct sum *sum,
                          uint32_t subset)
{
    int64_t total = 0;

    for (uint32_t i = 0; i < sum->n_maybes; i++)
        if ((subset >> i & 1) != 0)
            total += value_of(journal, sum->maybes[i].number);
    return total;
}

static uint32_t n_subsets(const struct sum *sum)
{
    return UINT32_C(1) << sum->n_maybes;
}

/* Returns true if the sum lies between none and all of the pending profiles: the test if there are
 * too many to try all subsets. */
static bool lies_between(const struct canary_journal *journal, const struct sum *sum)
{
    int64_t rest = sum->found - sum->expected;

    if (rest < 0)
        return false;
    for (uint32_t i = 0; i < sum->n_maybes && rest > 0; i++)
        rest -= value_of(journal, sum->maybes[i].number);
    return rest <= 0;
}

static bool has_all(const struct canary_journal *journal, const struct sum *sum)
{
    int64_t rest = sum->found - sum->expected;

    for (uint32_t i = 0; i < sum->n_maybes; i++)
        rest -= value_of(journal, sum->maybes[i].number);
    return rest == 0;
}

static bool is_right(const struct canary_journal *journal, const struct sum *sum)
{
    if (sum->found == sum->expected)
        return true;
    if (sum->n_maybes > SUBSETS_OF_MAX)
        return lies_between(journal, sum);
    for (uint32_t subset = 1; subset < n_subsets(sum); subset++)
        if (sum->found - sum->expected == subset_sum(journal, sum, subset))
            return true;
    return false;
}

/* ---- which profile it is ---- */

/* Returns the first number of the cell that is not before `from`. */
static uint64_t first_of_cell(const struct canary_journal_shape *shape, uint32_t cell,
                              uint64_t from)
{
    uint64_t stride = canary_journal_stride(shape);
    uint64_t base = (uint64_t)(cell % shape->leaves) * shape->services + cell / shape->leaves;

    return from <= base ? base : base + (from - base + stride - 1) / stride * stride;
}

/* Returns true if the profile was acknowledged before the query was sent. */
static bool was_settled(const struct canary_journal *journal, const struct sum *sum,
                        uint64_t number)
{
    for (uint32_t i = 0; i < sum->n_maybes; i++)
        if (sum->maybes[i].number == number)
            return false;
    return canary_journal_is_settled(journal, number);
}

/* Returns true if one profile of the cell explains the rest: it is missing (-value), or is there
 * twice. */
static bool explain_by_one(const struct canary_journal *journal,
                           const struct canary_journal_expected *expected, const struct sum *sum,
                           int64_t rest, struct canary_verdict *verdict)
{
    const struct canary_journal_shape *shape = canary_journal_shape(journal);

    for (uint64_t number = first_of_cell(shape, sum->cell, expected->first); number < expected->end;
         number += canary_journal_stride(shape)) {
        int64_t value = value_of(journal, number);

        if (value != rest && value != -rest)
            continue;
        if (rest < 0 && !was_settled(journal, sum, number))
            continue;
        add_finding(verdict, rest < 0 ? VERDICT_LOST : VERDICT_DOUBLE, sum, number);
        return true;
    }
    return false;
}

/* Explains an empty cell: all of its settled profiles are missing. */
static bool explain_by_all(const struct canary_journal *journal,
                           const struct canary_journal_expected *expected, const struct sum *sum,
                           struct canary_verdict *verdict)
{
    const struct canary_journal_shape *shape = canary_journal_shape(journal);
    uint32_t before = verdict->n;

    if (sum->found != 0)
        return false;
    for (uint64_t number = first_of_cell(shape, sum->cell, expected->first); number < expected->end;
         number += canary_journal_stride(shape))
        if (was_settled(journal, sum, number))
            add_finding(verdict, VERDICT_LOST, sum, number);
    return verdict->n > before;
}

static void explain(const struct canary_journal *journal,
                    const struct canary_journal_expected *expected, const struct sum *sum,
                    struct canary_verdict *verdict)
{
    int64_t rest = sum->found - sum->expected;

    if (explain_by_all(journal, expected, sum, verdict))
        return;
    if (sum->n_maybes <= SUBSETS_OF_MAX)
        for (uint32_t subset = 0; subset < n_subsets(sum); subset++)
            if (explain_by_one(journal, expected, sum, rest - subset_sum(journal, sum, subset),
                               verdict))
                return;
    add_finding(verdict, rest < 0 ? VERDICT_LOST : VERDICT_DOUBLE, sum, VERDICT_NO_NUMBER);
}

/* ---- answers ---- */

void canary_verdict_of_cells(const struct canary_journal *journal,
                             const struct canary_journal_expected *expected, const int64_t *found,
                             int64_t foreign, struct canary_verdict *ret_verdict)
{
    uint32_t n_cells = canary_journal_cells(canary_journal_shape(journal));
    struct canary_verdict verdict = {.has_all = foreign == 0};
    uint32_t maybe = 0;

    for (uint32_t cell = 0; cell < n_cells; cell++) {
        struct sum sum = {cell, expected->cells[cell], found[cell], expected->maybes + maybe, 0};

        for (; maybe < expected->n_maybes && expected->maybes[maybe].cell == cell; maybe++)
            sum.n_maybes++;
        verdict.has_all = verdict.has_all && has_all(journal, &sum);
        if (!is_right(journal, &sum))
            explain(journal, expected, &sum, &verdict);
    }
    if (foreign != 0)
        add_finding(&verdict, VERDICT_FOREIGN,
                    &(struct sum){.cell = VERDICT_NO_CELL, .found = foreign}, VERDICT_NO_NUMBER);
    *ret_verdict = verdict;
}

void canary_verdict_of_total(const struct canary_journal *journal,
                             const struct canary_journal_expected *expected, int64_t found,
                             struct canary_verdict *ret_verdict)
{
    uint32_t n_cells = canary_journal_cells(canary_journal_shape(journal));
    struct sum sum = {VERDICT_NO_CELL, 0, found, expected->maybes, expected->n_maybes};
    struct canary_verdict verdict = {0};

    for (uint32_t cell = 0; cell < n_cells; cell++)
        sum.expected += expected->cells[cell];
    verdict.has_all = has_all(journal, &sum);
    if (!is_right(journal, &sum))
        add_finding(&verdict, found < sum.expected ? VERDICT_LOST : VERDICT_DOUBLE, &sum,
                    VERDICT_NO_NUMBER);
    *ret_verdict = verdict;
}
