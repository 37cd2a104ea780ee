/*
 * Compares functions of two sides: by how much each changed, and with what confidence.
 *
 * What varies by chance is the unit (an instance of a service, or a block of time), not the sample:
 * samples of one instance depend on each other. A side's figure is a ratio of sums over units,
 * values to exposures: the exposure of a unit is its total (the figure is a share) or its covered
 * seconds (a rate). The effect is the logarithm of the quotient of both figures. Its variance is
 * that of a ratio estimator with units as clusters (Cochran, Sampling Techniques, 6.4; an instance
 * on both sides is one cluster), shrunk over functions (stats.h), and never less than that of
 * counts. Each test is Student's t, of the effect or, if one figure is more than twice the other,
 * of their difference if that is less: a logarithm makes much of what only one instance has. The
 * tests together keep to a rate of false discoveries.
 *
 * Pure. Thread: any.
 */
#ifndef FG_QUERIER_COMPARE_CHANGES_H
#define FG_QUERIER_COMPARE_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QRY_CHANGE_SIDES = 2, QRY_CHANGE_ALONE = UINT32_MAX };

enum qry_change_design {
    QRY_CHANGE_PAIRED,    /* units are instances, some of them the same on both sides */
    QRY_CHANGE_INSTANCES, /* units are instances, all of them different */
    QRY_CHANGE_TIMES,     /* units are blocks of time */
    QRY_CHANGE_COUNTS,    /* there are too few units: counts of samples, with a dispersion */
};

/* Returns the design that so many instances, of which n_same are on both sides, and blocks of time
 * of each side allow. */
enum qry_change_design qry_changes_design(const size_t instances[QRY_CHANGE_SIDES], size_t n_same,
                                          const size_t times[QRY_CHANGE_SIDES]);

struct qry_change_units {
    size_t n;
    const double *exposures; /* [n], > 0 */
};

struct qry_change_config {
    enum qry_change_design design;
    struct qry_change_units sides[QRY_CHANGE_SIDES];
    const uint32_t *partners; /* PAIRED: [sides[0].n], the unit of side 1, or QRY_CHANGE_ALONE */
    double quantum;           /* value of one sample, > 0 */
    double q;                 /* accepted rate of false discoveries, 0 to 1 */
};

enum qry_change_state {
    QRY_CHANGE_UP,
    QRY_CHANGE_DOWN,
    QRY_CHANGE_NEW,  /* up from nothing */
    QRY_CHANGE_GONE, /* down to nothing */
    QRY_CHANGE_NOT_SIGNIFICANT,
    QRY_CHANGE_TOO_LITTLE_DATA, /* it was not tested */
};

/* A function, or rather one of its figures (self or total). */
struct qry_change {
    const double *values[QRY_CHANGE_SIDES]; /* in: of each unit, >= 0 */
    bool skip;                              /* in: too little data */

    double sums[QRY_CHANGE_SIDES], ratios[QRY_CHANGE_SIDES];
    enum qry_change_state state;
    /* If it was tested: */
    double effect;       /* log(ratios[1] / ratios[0]); of a side without samples half of one */
    double variance, df; /* of the effect, shrunk */
    double side_variances[QRY_CHANGE_SIDES]; /* of the logarithms of the ratios */
    double p, q;                             /* of two sides; q adjusted for all tests */
    double low, high;                        /* of the effect with 95 % confidence */
    double detectable; /* least effect, > 0, that would have been seen in 80 % of all cases */
};

struct qry_changes_summary {
    size_t n_tests, n_significant;
    double threshold;  /* a p-value up to this one is significant */
    double dispersion; /* COUNTS: variance of counts in multiples of a Poisson distribution's */
    double prior_df;   /* of the shrinking; INFINITY: all variances follow the trend */
    /* Over tests of functions that both sides have; 0 of none. */
    double least_detectable, median_detectable, largest_detectable;
};

/* Estimates and tests n changes. Those of which both sides are zero are not tested. */
void qry_changes_test(const struct qry_change_config *config, struct qry_change *changes, size_t n,
                      struct qry_changes_summary *ret_summary);

/* Estimates one change by itself, without a prior: the total of a selection. */
void qry_change_test_one(const struct qry_change_config *config, struct qry_change *change);

#endif
