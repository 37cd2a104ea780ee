#include "querier/compare/changes.h"

#include "common/base/def.h"
#include "querier/compare/stats.h"

#include <math.h>

enum {
    INSTANCES_MIN = 4, /* fewer tell little of how instances differ */
    PAIRS_MIN = 5,     /* pairs have half the degrees of freedom */
    TIMES_MIN = 8,     /* blocks of time depend on each other more than instances do */
    DISPERSION_MIN = 3,
    PRIOR_MIN = 5, /* tests: fewer give no idea of a prior */
};

/* What stands for the count of a side without samples (Haldane 1956). */
static const double none = 0.5;
static const double confidence = 0.95, power = 0.8;

enum qry_change_design qry_changes_design(const size_t instances[QRY_CHANGE_SIDES], size_t n_same,
                                          const size_t times[QRY_CHANGE_SIDES])
{
    if (n_same >= PAIRS_MIN)
        return QRY_CHANGE_PAIRED;
    if (instances[0] >= INSTANCES_MIN && instances[1] >= INSTANCES_MIN)
        return QRY_CHANGE_INSTANCES;
    if (times[0] >= TIMES_MIN && times[1] >= TIMES_MIN)
        return QRY_CHANGE_TIMES;
    return QRY_CHANGE_COUNTS;
}

/* ---- estimates ---- */

static double sum_of(const double *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

/* Returns by how much a unit alone moves the logarithm of its side's figure. */
static double influence(const struct qry_change_config *config, const struct qry_change *change,
                        size_t side, size_t unit)
{
    if (change->sums[side] <= 0)
        return 0; /* counts give its variance: floor_of() */
    return (change->values[side][unit] -
            change->ratios[side] * config->sides[side].exposures[unit]) /
           change->sums[side];
}

/* Squares of the influence of a group of units: pairs, or units that are on one side only. */
struct group {
    double squares;
    size_t n, of; /* n of the `of` units that a mean was taken of */
};

/* Returns m / (m - 1) times the squares (README.md): the ratio takes one degree of freedom of the m
 * units, so their squares alone are too small. */
static double variance_of(const struct group *group)
{
    return group->of < 2 ? 0 : group->squares * (double)group->of / (double)(group->of - 1);
}

enum { PAIRS, FIRST, SECOND, GROUPS }; /* pairs; units that only one side has */

/* The parts of a variance that groups have, summed over all tests, and the groups' degrees of
 * freedom, which are the same in each. */
struct variance_parts {
    double sums[GROUPS], df[GROUPS];
};

/* Returns Satterthwaite's degrees of freedom of a sum of such parts. */
static double satterthwaite(const double parts[GROUPS], const double df[GROUPS])
{
    double sum = 0, below = 0;

    for (size_t i = 0; i < GROUPS; i++) {
        sum += parts[i];
        below += parts[i] * parts[i] / df[i];
    }
    return below > 0 ? sum * sum / below : INFINITY;
}

/* Adds up the groups' variances, and the parts that groups have of them. */
static void add_groups(const struct group groups[GROUPS], struct qry_change *change,
                       struct variance_parts *all)
{
    double parts[GROUPS];

    change->variance = 0;
    for (size_t i = 0; i < GROUPS; i++) {
        all->df[i] = (double)(FG_MAX(groups[i].n, 2) - 1);
        parts[i] = variance_of(&groups[i]);
        change->variance += parts[i];
    }
    change->df = satterthwaite(parts, all->df);
    for (size_t i = 0; i < GROUPS && change->variance > 0; i++)
        all->sums[i] += parts[i] / change->variance;
}

/* Adds a variance that is known and not estimated, as that of counts. */
static void add_known(double variance, struct qry_change *change)
{
    double all = change->variance + variance;

    /* A known variance has infinite degrees of freedom: in Satterthwaite's formula it adds to the
     * numerator only. */
    if (change->variance > 0)
        change->df *= all * all / (change->variance * change->variance);
    change->variance = all;
}

static void vary_by_units(const struct qry_change_config *config, struct qry_change *change,
                          struct variance_parts *parts)
{
    struct group groups[GROUPS] = {0};
    double paired = 0; /* squares of paired units of side 1, which are not alone */
    struct group sides[QRY_CHANGE_SIDES] = {{0}};

    groups[FIRST].of = sides[0].of = config->sides[0].n;
    groups[SECOND].of = sides[1].of = config->sides[1].n;
    for (size_t i = 0; i < config->sides[1].n; i++) {
        double moved = influence(config, change, 1, i);

        groups[SECOND].squares += moved * moved;
        groups[SECOND].n++;
    }
    sides[1].squares = groups[SECOND].squares;
    for (size_t i = 0; i < config->sides[0].n; i++) {
        double moved = influence(config, change, 0, i), other;

        sides[0].squares += moved * moved;
        if (config->partners == NULL || config->partners[i] == QRY_CHANGE_ALONE) {
            groups[FIRST].squares += moved * moved;
            groups[FIRST].n++;
            continue;
        }
        other = influence(config, change, 1, config->partners[i]);
        paired += other * other;
        groups[SECOND].n--;
        groups[PAIRS].squares += (other - moved) * (other - moved);
        groups[PAIRS].of = ++groups[PAIRS].n;
    }
    groups[SECOND].squares = groups[SECOND].n == 0 ? 0 : fmax(groups[SECOND].squares - paired, 0);
    add_groups(groups, change, parts);
    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        change->side_variances[side] = variance_of(&sides[side]);
}

/* Returns false if the function came or went: its effect has no estimate, only a bound. */
static bool is_on_both(const struct qry_change *change)
{
    return change->sums[0] > 0 && change->sums[1] > 0;
}

static double count_of(const struct qry_change_config *config, const struct qry_change *change,
                       size_t side)
{
    return change->sums[side] / config->quantum;
}

/* Returns the variance of the effect if samples were independent: units can only add to it. */
static double floor_of(const struct qry_change_config *config, const struct qry_change *change)
{
    double sum = 0;

    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        sum += 1 / fmax(count_of(config, change, side), none);
    return sum;
}

/* Pearson's estimate of the dispersion of one side; *ret_df 0: it says nothing. */
static double dispersion_of(const struct qry_change_config *config, const struct qry_change *change,
                            size_t side, size_t *ret_df)
{
    const struct qry_change_units *units = &config->sides[side];
    double sum = 0;

    *ret_df = change->ratios[side] > 0 && units->n > 1 ? units->n - 1 : 0;
    for (size_t i = 0; i<units->n && * ret_df> 0; i++) {
        double expected = change->ratios[side] * units->exposures[i];
        double off = change->values[side][i] - expected;

        /* Chi-squared of the counts v / quantum, written in values: one division less. */
        sum += off * off / (expected * config->quantum);
    }
    return sum;
}

static int by_value(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* Returns the median; sorts. 0 of none. */
static double median(double *values, size_t n)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof *values, by_value);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Returns the dispersion of counts over all tests: what there are of units says a little of it, but
 * so few never prove that it is small. */
static double find_dispersion(const struct qry_change_config *config,
                              const struct qry_change *changes, size_t n)
{
    double *found = fg_calloc(n + 1, sizeof *found), dispersion;
    size_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        size_t df[QRY_CHANGE_SIDES];
        double sum;

        if (changes[i].skip)
            continue;
        sum = dispersion_of(config, &changes[i], 0, &df[0]) +
              dispersion_of(config, &changes[i], 1, &df[1]);
        if (df[0] + df[1] > 0)
            found[n_found++] = sum / (double)(df[0] + df[1]);
    }
    /* The median: a few functions that vary greatly must not hide the changes of all others. */
    dispersion = fmax(median(found, n_found), DISPERSION_MIN);
    free(found);
    return dispersion;
}

/* Sets figures and the effect. Returns false if there is nothing to be tested. */
static bool estimate(const struct qry_change_config *config, struct qry_change *change)
{
    double logs[QRY_CHANGE_SIDES];

    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++) {
        /* The side's exposures, summed. */
        double exposure = sum_of(config->sides[side].exposures, config->sides[side].n);

        change->sums[side] = sum_of(change->values[side], config->sides[side].n);
        change->ratios[side] = exposure > 0 ? change->sums[side] / exposure : 0;
        logs[side] = log(fmax(change->sums[side], none * config->quantum) / exposure);
    }
    change->state = QRY_CHANGE_TOO_LITTLE_DATA;
    change->effect = logs[1] - logs[0];
    return !change->skip && change->sums[0] + change->sums[1] > 0 && config->sides[0].n > 0 &&
           config->sides[1].n > 0 && isfinite(change->effect);
}

/* ---- tests ---- */

/* Returns the covariate of the prior: small functions vary more. */
static double covariate(const struct qry_change_config *config, const struct qry_change *change)
{
    double sum = 0;

    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        sum += 1 / fmax(count_of(config, change, side), none);
    return -log(sum);
}

/*
 * Shrinks the variances of all tests. Functions without samples on a side are no examples: half of
 * what varies in them is not known.
 *
 * The prior is fitted with the degrees of freedom that the design gives to all of them. Those of
 * each test follow from its own variances and are too few where these differ by chance: the prior
 * would take more of what varies for chance, become too strong, and 9 % of comparisons of one
 * program by 4 instances would have a finding (changes_test.c). Each test keeps its own.
 */
static double shrink(const struct qry_change_config *config, const struct variance_parts *parts,
                     struct qry_change *const *tests, size_t n)
{
    double design_df = satterthwaite(parts->sums, parts->df);
    double *variances = fg_calloc(n + 1, sizeof *variances), *df = fg_calloc(n + 1, sizeof *df);
    double *at = fg_calloc(n + 1, sizeof *at);
    struct qry_stat_prior prior = {0};
    size_t n_examples = 0;

    for (size_t i = 0; i < n; i++) {
        if (tests[i]->variance <= 0 || !is_on_both(tests[i]))
            continue;
        variances[n_examples] = tests[i]->variance;
        df[n_examples] = design_df;
        at[n_examples++] = covariate(config, tests[i]);
    }
    if (n_examples >= PRIOR_MIN)
        qry_stat_prior_fit(variances, df, at, n_examples, &prior);
    for (size_t i = 0; i < n && prior.df > 0; i++)
        if (tests[i]->variance > 0 && is_on_both(tests[i])) {
            double before = tests[i]->variance;

            tests[i]->variance = qry_stat_prior_shrink(&prior, before, tests[i]->df,
                                                       covariate(config, tests[i]), &tests[i]->df);
            for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
                tests[i]->side_variances[side] *= tests[i]->variance / before;
        }
    free(at);
    free(df);
    free(variances);
    return prior.df;
}

/* Sets the variance of the effect, before it is shrunk. */
static void vary(const struct qry_change_config *config, double dispersion,
                 struct qry_change *change, struct variance_parts *parts)
{
    if (config->design == QRY_CHANGE_COUNTS) {
        change->variance = dispersion * floor_of(config, change);
        change->df = INFINITY;
        for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
            change->side_variances[side] = dispersion / fmax(count_of(config, change, side), none);
    } else {
        vary_by_units(config, change, parts);
    }
}

/* Returns Student's t of the difference of both figures, in units of the smaller one. */
static double difference(const struct qry_change_config *config, const struct qry_change *change)
{
    size_t large = change->effect > 0, small = !large;
    double large_variance =
        fmax(change->side_variances[large], 1 / fmax(count_of(config, change, large), none));
    double small_variance = change->side_variances[small], times, both;

    if (change->sums[small] <= 0)
        return 1 / sqrt(large_variance);
    small_variance = fmax(small_variance, 1 / count_of(config, change, small));
    times = change->ratios[large] / change->ratios[small];
    /* With t = L / S, the delta method gives var(L - S) / S^2 = var log S + t^2 var log L - 2 t
     * cov. */
    both = fmax(small_variance + large_variance - change->variance, 0); /* twice the covariance */
    return (times - 1) / sqrt(fmax(small_variance + times * times * large_variance - times * both,
                                   change->variance));
}

static void judge(const struct qry_change_config *config, struct qry_change *change)
{
    double floor = floor_of(config, change), error, least;

    if (!is_on_both(change))
        add_known(floor, change);
    add_known(fmax(floor - change->variance, 0), change);
    /* Changes to less than twice are judged by the effect alone: the difference of instances that
     * differ in size varies with their size. */
    least = fmax(difference(config, change),
                 fmin(fabs(change->effect), M_LN2) / sqrt(change->variance));
    if (least > 0 && least * sqrt(change->variance) < fabs(change->effect))
        change->variance = (change->effect / least) * (change->effect / least);
    error = sqrt(change->variance);
    change->p = qry_stat_t_both(change->effect / error, change->df);
    error *= qry_stat_t_quantile(0.5 + confidence / 2, change->df);
    change->low = change->effect - error;
    change->high = change->effect + error;
}

static enum qry_change_state state_of(const struct qry_change *change, double q)
{
    if (!(change->q <= q))
        return QRY_CHANGE_NOT_SIGNIFICANT;
    if (change->sums[0] <= 0)
        return QRY_CHANGE_NEW;
    if (change->sums[1] <= 0)
        return QRY_CHANGE_GONE;
    return change->effect > 0 ? QRY_CHANGE_UP : QRY_CHANGE_DOWN;
}

/* Returns the least effect that a test at this threshold sees with the power above. */
static double detectable(const struct qry_change *change, double threshold)
{
    return sqrt(change->variance) * (qry_stat_t_quantile(1 - threshold / 2, change->df) +
                                     qry_stat_t_quantile(power, change->df));
}

static void adjust(struct qry_change *const *tests, size_t n, double q,
                   struct qry_changes_summary *summary)
{
    double *p = fg_calloc(n + 1, sizeof *p), *adjusted = fg_calloc(n + 1, sizeof *adjusted);
    size_t n_both = 0;

    for (size_t i = 0; i < n; i++)
        p[i] = tests[i]->p;
    qry_stat_bh(p, n, adjusted);
    for (size_t i = 0; i < n; i++) {
        tests[i]->q = adjusted[i];
        tests[i]->state = state_of(tests[i], q);
        summary->n_significant += tests[i]->state != QRY_CHANGE_NOT_SIGNIFICANT;
    }
    /* What one more discovery would have needed, if there is none so far. */
    summary->threshold = n == 0 ? q : q * (double)FG_MAX(summary->n_significant, 1) / (double)n;
    for (size_t i = 0; i < n; i++) {
        tests[i]->detectable = detectable(tests[i], summary->threshold);
        if (is_on_both(tests[i]))
            p[n_both++] = tests[i]->detectable;
    }
    summary->median_detectable = median(p, n_both);
    summary->least_detectable = n_both == 0 ? 0 : p[0];
    summary->largest_detectable = n_both == 0 ? 0 : p[n_both - 1];
    free(adjusted);
    free(p);
}

void qry_changes_test(const struct qry_change_config *config, struct qry_change *changes, size_t n,
                      struct qry_changes_summary *ret_summary)
{
    struct qry_change **tests = fg_calloc(n + 1, sizeof(struct qry_change *));
    struct qry_changes_summary summary = {0};
    struct variance_parts parts = {0};

    fg_assert(config->quantum > 0 && config->q > 0 && config->q < 1);
    for (size_t i = 0; i < n; i++)
        if (estimate(config, &changes[i]))
            tests[summary.n_tests++] = &changes[i];
    if (config->design == QRY_CHANGE_COUNTS)
        summary.dispersion = find_dispersion(config, changes, n);
    for (size_t i = 0; i < summary.n_tests; i++)
        vary(config, summary.dispersion, tests[i], &parts);
    if (config->design != QRY_CHANGE_COUNTS)
        summary.prior_df = shrink(config, &parts, tests, summary.n_tests);
    for (size_t i = 0; i < summary.n_tests; i++)
        judge(config, tests[i]);
    adjust(tests, summary.n_tests, config->q, &summary);
    free(tests);
    *ret_summary = summary;
}

void qry_change_test_one(const struct qry_change_config *config, struct qry_change *change)
{
    struct qry_changes_summary summary;

    qry_changes_test(config, change, 1, &summary);
}
