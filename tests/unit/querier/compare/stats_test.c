/* Compares special functions with values of SciPy (stats_values.py). */
#include "common/base/def.h"
#include "querier/compare/stats.h"
#include "tests/unit/querier/compare/stats_values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Compares to a relative error. */
static void check(const char *what, double is, double wanted, double error)
{
    if (is == wanted || fabs(is - wanted) <= error * fabs(wanted))
        return;
    fail_msg("%s: %.17g, not %.17g", what, is, wanted);
}

static void the_derivatives_of_log_gamma_are_those_of_scipy(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(gamma_values); i++) {
        check("digamma", qry_stat_digamma(gamma_values[i].x), gamma_values[i].digamma, 1e-11);
        check("trigamma", qry_stat_trigamma(gamma_values[i].x), gamma_values[i].trigamma, 1e-11);
        check("inverse", qry_stat_trigamma_inverse(gamma_values[i].trigamma), gamma_values[i].x,
              1e-6);
    }
}

static void the_incomplete_beta_function_is_that_of_scipy(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(beta_values); i++) {
        double is = qry_stat_beta(beta_values[i].a, beta_values[i].b, beta_values[i].x);

        /* The smallest ones are powers of many digits, of which the exponent loses some. */
        if (beta_values[i].value > 1e-290)
            check("beta", is, beta_values[i].value, 1e-8);
        else
            assert_true(is < 1e-280);
    }
}

static void student_s_t_is_that_of_scipy(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(t_values); i++) {
        bool tiny = t_values[i].both < 1e-280;

        /* Beyond a million degrees the normal distribution takes over. */
        if (!tiny)
            check("both tails", qry_stat_t_both(t_values[i].t, t_values[i].df), t_values[i].both,
                  1e-7);
        if (!tiny && t_values[i].cdf > 0)
            check("cdf", qry_stat_t_cdf(t_values[i].t, t_values[i].df), t_values[i].cdf, 1e-7);
    }
    for (size_t i = 0; i < FG_COUNT(quantile_values); i++)
        if (quantile_values[i].p != 0.5)
            check("quantile", qry_stat_t_quantile(quantile_values[i].p, quantile_values[i].df),
                  quantile_values[i].t, 1e-7);
    assert_true(qry_stat_t_quantile(0.5, 3) == 0);
    assert_true(isnan(qry_stat_t_both(NAN, 3)));
    assert_true(qry_stat_t_both(INFINITY, 3) == 0);
}

static void adjusted_p_values_are_those_of_scipy(void **state)
{
    double p[FG_COUNT(bh_values)], q[FG_COUNT(bh_values)];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(bh_values); i++)
        p[i] = bh_values[i].p;
    qry_stat_bh(p, FG_COUNT(p), q);
    for (size_t i = 0; i < FG_COUNT(bh_values); i++)
        check("q", q[i], bh_values[i].q, 1e-12);
    qry_stat_bh(p, 0, q);
}

static void shrunk_variances_are_those_of_numpy(void **state)
{
    double variances[FG_COUNT(variance_values)], df[FG_COUNT(variance_values)],
        at[FG_COUNT(variance_values)], ret_df;
    struct qry_stat_prior prior;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(variance_values); i++) {
        variances[i] = variance_values[i].variance;
        df[i] = variance_values[i].df;
        at[i] = variance_values[i].at;
    }
    qry_stat_prior_fit(variances, df, at, FG_COUNT(variances), &prior);
    check("d0", prior.df, prior_df, 1e-7);
    for (size_t i = 0; i < FG_COUNT(variance_values); i++) {
        check("posterior", qry_stat_prior_shrink(&prior, variances[i], df[i], at[i], &ret_df),
              variance_values[i].posterior, 1e-7);
        check("df", ret_df, prior_df + df[i], 1e-7);
    }
}

static void a_prior_of_few_or_equal_variances_does_no_harm(void **state)
{
    const double variances[] = {0.5, 0.5, 0.5}, df[] = {4, 4, 4}, at[] = {1, 1, 1};
    struct qry_stat_prior prior;
    double ret_df;

    (void)state;
    qry_stat_prior_fit(variances, df, at, 1, &prior);
    check("one test", qry_stat_prior_shrink(&prior, 0.7, 4, 1, &ret_df), 0.7, 0);
    check("its df", ret_df, 4, 0);
    qry_stat_prior_fit(variances, df, at, 3, &prior);
    assert_true(isinf(prior.df)); /* they vary less than chance */
    assert_true(isfinite(qry_stat_prior_shrink(&prior, 0.5, 4, 1, &ret_df)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_derivatives_of_log_gamma_are_those_of_scipy),
        cmocka_unit_test(the_incomplete_beta_function_is_that_of_scipy),
        cmocka_unit_test(student_s_t_is_that_of_scipy),
        cmocka_unit_test(adjusted_p_values_are_those_of_scipy),
        cmocka_unit_test(shrunk_variances_are_those_of_numpy),
        cmocka_unit_test(a_prior_of_few_or_equal_variances_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
