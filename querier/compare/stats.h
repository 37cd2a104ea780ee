/*
 * Special functions and multiple testing for comparisons: gamma and beta functions, Student's t
 * distribution, Benjamini and Hochberg's procedure, and variances shrunk over many tests.
 *
 * Pure functions. Thread: any.
 */
#ifndef FG_QUERIER_COMPARE_STATS_H
#define FG_QUERIER_COMPARE_STATS_H

#include <stddef.h>

/* Return the first and the second derivative of log gamma at x > 0, by recurrence to x >= 10 and
 * the asymptotic series (Abramowitz and Stegun 6.3.18, 6.4.12). */
double qry_stat_digamma(double x);
double qry_stat_trigamma(double x);

/* Returns x with trigamma(x) = y, y > 0: Newton's method on 1 / trigamma, which is nearly linear
 * (Smyth 2004, appendix). */
double qry_stat_trigamma_inverse(double y);

/* Returns the regularised incomplete beta function I_x(a, b), 0 <= x <= 1, a and b > 0: the
 * continued fraction of DLMF 8.17.22, by Lentz's method. */
double qry_stat_beta(double a, double b, double x);

/* Returns the probability that |T| >= |t| for Student's t with df > 0 degrees of freedom; INFINITY
 * is the normal distribution. NAN for a t that is none. */
double qry_stat_t_both(double t, double df);

/* Returns the probability that T <= t. */
double qry_stat_t_cdf(double t, double df);

/* Returns t with qry_stat_t_cdf(t, df) = p, 0 < p < 1. */
double qry_stat_t_quantile(double p, double df);

/* Sets q[n] to the adjusted p-values of Benjamini and Hochberg (1995): rejecting all q <= x keeps
 * the expected share of false rejections at x. p[n] is not sorted. */
void qry_stat_bh(const double *p, size_t n, double *q);

enum { QRY_STAT_TREND_MAX = 3 }; /* coefficients: a parabola */

/*
 * The prior of variances of many tests: s^2 ~ s0^2 F(df, df0), with log s0^2 a polynomial of a
 * covariate (of a low order, chosen by the number of tests).
 */
struct qry_stat_prior {
    double df; /* d0; INFINITY: all variances are s0^2; 0: nothing was learnt */
    double trend[QRY_STAT_TREND_MAX], centre, scale;
    size_t n_trend;
};

/*
 * Estimates the prior by the moments of log s^2 (Smyth 2004, section 6.2; with a trend: Sartor et
 * al. 2006), except that the spread of the true variances is taken a standard error larger than it
 * seems. variances[n] > 0, each with df[i] > 0 degrees of freedom and a covariate at[i].
 */
void qry_stat_prior_fit(const double *variances, const double *df, const double *at, size_t n,
                        struct qry_stat_prior *ret_prior);

/* Returns the posterior variance of a test, and in *ret_df its degrees of freedom. */
double qry_stat_prior_shrink(const struct qry_stat_prior *prior, double variance, double df,
                             double at, double *ret_df);

#endif
