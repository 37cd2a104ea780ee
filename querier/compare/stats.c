#include "querier/compare/stats.h"

#include "common/base/def.h"

#include <math.h>
#include <string.h>

enum {
    SERIES_FROM = 10,     /* from here on four terms give 14 digits */
    FRACTION_STEPS = 500, /* enough for parameters up to 10^5; beyond that the tail is the normal */
    NEWTON_STEPS = 60,
};

static const double fraction_epsilon = 1e-15;
/* From here on Student's t differs from the normal distribution in the sixth digit only. */
static const double df_normal = 1e6;

/* ---- gamma ---- */

double qry_stat_digamma(double x)
{
    double sum = 0, y;

    fg_assert(x > 0);
    while (x < SERIES_FROM) {
        sum -= 1 / x;
        x += 1;
    }
    y = 1 / (x * x);
    /* Coefficients: B(2k) / 2k of the Bernoulli numbers (Abramowitz and Stegun 6.3.18). */
    return sum + log(x) - 0.5 / x -
           y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
}

double qry_stat_trigamma(double x)
{
    double sum = 0, y;

    fg_assert(x > 0);
    while (x < SERIES_FROM) {
        sum += 1 / (x * x);
        x += 1;
    }
    y = 1 / (x * x);
    /* Coefficients: the Bernoulli numbers B(2k) (Abramowitz and Stegun 6.4.12). */
    return sum + 1 / x + y / 2 +
           y / x * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * 5 / 66))));
}

/* Returns the third derivative of log gamma. */
static double tetragamma(double x)
{
    double sum = 0, y;

    while (x < SERIES_FROM) {
        sum -= 2 / (x * x * x);
        x += 1;
    }
    y = 1 / (x * x);
    /* The series of trigamma, differentiated term by term. */
    return sum -
           y * (1 + 1 / x + y * (0.5 - y * (1.0 / 6 - y * (1.0 / 6 - y * (3.0 / 10 - y * 5 / 6)))));
}

double qry_stat_trigamma_inverse(double y)
{
    double x;

    fg_assert(y > 0);
    /* Both ends by the first term of the series at infinity and at 0. */
    if (y > 1e7)
        return 1 / sqrt(y);
    if (y < 1e-6)
        return 1 / y;
    /* Smyth's start, from which no step overshoots: all go down, so only -step is compared. */
    x = 0.5 + 1 / y;
    for (int i = 0; i < NEWTON_STEPS; i++) {
        double is = qry_stat_trigamma(x), step = is * (1 - is / y) / tetragamma(x);

        x += step;
        if (-step / x < 1e-12)
            break;
    }
    return x;
}

/* ---- beta ---- */

/* Keeps a denominator of the fraction away from zero. */
static double not_zero(double x)
{
    return fabs(x) < 1e-300 ? 1e-300 : x;
}

/* The continued fraction; converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), all = d;

    for (int m = 1; m <= FRACTION_STEPS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), change;

        d = 1 / not_zero(1 + even * d);
        c = not_zero(1 + even / c);
        all *= d * c;
        d = 1 / not_zero(1 + odd * d);
        c = not_zero(1 + odd / c);
        change = d * c;
        all *= change;
        if (fabs(change - 1) < fraction_epsilon)
            break;
    }
    return all;
}

/* Returns log gamma of x > 0; lgamma() itself writes a global variable. */
static double log_gamma(double x)
{
    int sign;

    return lgamma_r(x, &sign);
}

/* y is 1 - x, given by itself so that a small one keeps its digits. */
static double beta_of(double a, double b, double x, double y)
{
    double front;

    if (x <= 0)
        return 0;
    if (y <= 0)
        return 1;
    front = exp(a * log(x) + b * log(y) + log_gamma(a + b) - log_gamma(a) - log_gamma(b));
    /* On the slow side of the fraction: I_x(a, b) = 1 - I_(1-x)(b, a) (DLMF 8.17.4). */
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

double qry_stat_beta(double a, double b, double x)
{
    fg_assert(a > 0 && b > 0);
    return beta_of(a, b, x, 1 - x);
}

/* ---- Student's t ---- */

double qry_stat_t_both(double t, double df)
{
    double square = t * t;

    fg_assert(df > 0);
    if (isnan(t))
        return NAN;
    if (df > df_normal)
        return erfc(fabs(t) / sqrt(2));
    /* Else the quotients below are infinity by infinity. */
    if (isinf(square))
        return 0;
    /* Abramowitz and Stegun 26.5.27. */
    return beta_of(df / 2, 0.5, df / (df + square), square / (df + square));
}

double qry_stat_t_cdf(double t, double df)
{
    double tail = qry_stat_t_both(t, df) / 2;

    return t > 0 ? 1 - tail : tail;
}

static double t_density(double t, double df)
{
    if (df > df_normal)
        return exp(-t * t / 2) / sqrt(2 * M_PI);
    return exp(log_gamma((df + 1) / 2) - log_gamma(df / 2) - (df + 1) / 2 * log1p(t * t / df)) /
           sqrt(df * M_PI);
}

/* Newton's method on the logarithm of the tail, which is concave and bends little; a step that
 * leaves what is known to hold the root is replaced by its middle. */
double qry_stat_t_quantile(double p, double df)
{
    double tail = p < 0.5 ? p : 1 - p, low = 0, high = 1, t;

    fg_assert(p > 0 && p < 1 && df > 0);
    if (p == 0.5)
        return 0;
    /* Below 1e150 so that the square of the next bound, four times as large, stays finite. */
    while (qry_stat_t_both(high, df) / 2 > tail && high < 1e150)
        low = high, high *= 4;
    t = (low + high) / 2;
    for (int i = 0; i < NEWTON_STEPS; i++) {
        double at = qry_stat_t_both(t, df) / 2, next;

        if (at > tail)
            low = t;
        else
            high = t;
        next = at > 0 ? t + at * log(at / tail) / t_density(t, df) : high;
        if (!(next > low && next < high))
            next = (low + high) / 2;
        if (fabs(next - t) <= 1e-13 * t) {
            t = next;
            break;
        }
        t = next;
    }
    return p < 0.5 ? -t : t;
}

/* ---- many tests ---- */

struct bh_item {
    double p;
    size_t at;
};

static int by_p(const void *left, const void *right)
{
    const struct bh_item *a = left, *b = right;

    if (a->p != b->p)
        return a->p < b->p ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

void qry_stat_bh(const double *p, size_t n, double *q)
{
    struct bh_item *items = fg_calloc(n + 1, sizeof *items);
    double least = 1;

    for (size_t i = 0; i < n; i++)
        items[i] = (struct bh_item){p[i], i};
    qsort(items, n, sizeof *items, by_p);
    /* From the largest down: an adjusted value is never above the one of a larger p. */
    for (size_t i = n; i-- > 0;) {
        least = fmin(least, items[i].p * (double)n / (double)(i + 1));
        q[items[i].at] = least;
    }
    free(items);
}

/* ---- variances ---- */

/* Solves the normal equations of the trend by elimination; they are at most 3 x 3, of a covariate
 * that is centred and scaled. Returns false if the covariate does not vary enough. */
static bool solve(double matrix[QRY_STAT_TREND_MAX][QRY_STAT_TREND_MAX + 1], size_t n,
                  double *ret_x)
{
    for (size_t i = 0; i < n; i++) {
        /* No pivoting: a matrix of normal equations is positive semidefinite. */
        if (fabs(matrix[i][i]) < 1e-6)
            return false;
        for (size_t k = 0; k < n; k++) {
            double times = matrix[k][i] / matrix[i][i];

            for (size_t c = i; c <= n && k != i; c++)
                matrix[k][c] -= times * matrix[i][c];
        }
    }
    for (size_t i = 0; i < n; i++)
        ret_x[i] = matrix[i][n] / matrix[i][i];
    return true;
}

static double trend_at(const struct qry_stat_prior *prior, double at)
{
    double x = prior->scale > 0 ? (at - prior->centre) / prior->scale : 0, power = 1, sum = 0;

    for (size_t i = 0; i < prior->n_trend; i++) {
        sum += prior->trend[i] * power;
        power *= x;
    }
    return sum;
}

/* Fits a polynomial of n_trend coefficients to `logs` by least squares. */
static bool fit_trend(const double *logs, const double *at, size_t n, size_t n_trend,
                      struct qry_stat_prior *prior)
{
    double matrix[QRY_STAT_TREND_MAX][QRY_STAT_TREND_MAX + 1] = {{0}};

    fg_assert(n_trend >= 1 && n_trend <= QRY_STAT_TREND_MAX);
    for (size_t i = 0; i < n; i++) {
        double x = prior->scale > 0 ? (at[i] - prior->centre) / prior->scale : 0;
        double powers[QRY_STAT_TREND_MAX] = {1, x, x * x};

        for (size_t r = 0; r < n_trend; r++) {
            for (size_t c = 0; c < n_trend; c++)
                matrix[r][c] += powers[r] * powers[c] / (double)n;
            matrix[r][n_trend] += powers[r] * logs[i] / (double)n;
        }
    }
    prior->n_trend = n_trend;
    return solve(matrix, n_trend, prior->trend);
}

static void scale_covariate(const double *at, size_t n, struct qry_stat_prior *prior)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        sum += at[i];
    prior->centre = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (at[i] - prior->centre) * (at[i] - prior->centre);
    prior->scale = sqrt(squares / (double)n);
}

void qry_stat_prior_fit(const double *variances, const double *df, const double *at, size_t n,
                        struct qry_stat_prior *ret_prior)
{
    enum {
        LINE_FROM = 12,
        PARABOLA_FROM = 40
    }; /* tests: fewer do not carry so many coefficients */
    struct qry_stat_prior prior = {0};
    size_t n_trend = n >= PARABOLA_FROM ? 3 : n >= LINE_FROM ? 2 : 1;
    double squares = 0, fourths = 0, noise = 0;
    double *logs;

    *ret_prior = prior;
    if (n < 2)
        return;
    logs = fg_calloc(n, sizeof *logs);
    for (size_t i = 0; i < n; i++) {
        fg_assert(variances[i] > 0 && df[i] > 0);
        /* Smyth's e_g: its expectation does not depend on the test's own degrees of freedom. */
        logs[i] = log(variances[i]) - qry_stat_digamma(df[i] / 2) + log(df[i] / 2);
        noise += qry_stat_trigamma(df[i] / 2) / (double)n;
    }
    scale_covariate(at, n, &prior);
    while (!fit_trend(logs, at, n, n_trend, &prior))
        n_trend--; /* ends: a mean always fits */
    for (size_t i = 0; i < n; i++) {
        double rest = logs[i] - trend_at(&prior, at[i]);

        squares += rest * rest / (double)(n - FG_MIN(n_trend, n - 1));
        fourths += rest * rest * rest * rest / (double)n;
    }
    free(logs);
    /* What is learnt of few tests is uncertain. One standard error towards a weaker prior: tests
     * that are noisier than a strong one admits would be false alarms. */
    squares += sqrt(fmax(fourths - squares * squares, 0) / (double)n) - noise;
    if (squares > 0) {
        prior.df = 2 * qry_stat_trigamma_inverse(squares);
        /* The trend is that of e_g, whose mean is log s0^2 - digamma(d0 / 2) + log(d0 / 2). */
        prior.trend[0] += qry_stat_digamma(prior.df / 2) - log(prior.df / 2);
    } else {
        /* The logarithms spread no more than sampling alone explains. */
        prior.df = INFINITY;
    }
    *ret_prior = prior;
}

double qry_stat_prior_shrink(const struct qry_stat_prior *prior, double variance, double df,
                             double at, double *ret_df)
{
    double expected;

    *ret_df = df + prior->df;
    if (prior->df == 0)
        return variance;
    expected = exp(trend_at(prior, at));
    if (isinf(prior->df))
        return expected;
    return (prior->df * expected + df * variance) / (prior->df + df);
}
