"""Writes stats_values.h: values of special functions by SciPy, which stats_test.c compares with.

    python3 -m venv venv && venv/bin/pip install scipy && venv/bin/python stats_values.py > stats_values.h
"""

import math
import random

import numpy
import scipy
from scipy import optimize, special, stats


def number(x):
    return "INFINITY" if math.isinf(x) else repr(float(x))


def table(name, fields, rows):
    print(f"static const struct {{ double {fields}; }} {name}[] = {{")
    for row in rows:
        print("    {" + ", ".join(number(x) for x in row) + "},")
    print("};")


def variances():
    """Variances of tests whose true variance varies, with a trend: (s^2, df, covariate)."""
    random_ = numpy.random.default_rng(1)
    for _ in range(120):
        at = random_.uniform(2, 9)
        true = math.exp(-4 + 0.3 * at - 0.05 * at * at) * 4 / random_.chisquare(4)
        df = float(random_.integers(3, 12))
        yield true * random_.chisquare(df) / df, df, at


def prior(items):
    """The moments of log s^2, by numpy's least squares and a root of SciPy's polygamma."""
    s2, df, at = (numpy.array(column) for column in zip(*items))
    logs = numpy.log(s2) - special.digamma(df / 2) + numpy.log(df / 2)
    x = (at - at.mean()) / at.std()
    fit = numpy.polynomial.polynomial.polyfit(x, logs, 2)
    rest = logs - numpy.polynomial.polynomial.polyval(x, fit)
    spread = (rest**2).sum() / (len(s2) - 3)
    spread += math.sqrt(((rest**4).mean() - spread**2) / len(s2)) - special.polygamma(1, df / 2).mean()
    d0 = 2 * optimize.brentq(lambda v: special.polygamma(1, v) - spread, 1e-3, 1e6, xtol=1e-12)
    expected = numpy.exp(numpy.polynomial.polynomial.polyval(x, fit) + special.digamma(d0 / 2) - math.log(d0 / 2))
    return d0, (d0 * expected + df * s2) / (d0 + df)


def main():
    print(f"/* Made by stats_values.py with SciPy {scipy.__version__}, NumPy {numpy.__version__}. */")
    print("/* clang-format off */\n#include <math.h>\n")
    xs = [1e-3, 0.1, 0.5, 1, 1.5, 2.25, 7, 9.99, 10, 33.5, 1e3, 1e6]
    table("gamma_values", "x, digamma, trigamma", [(x, special.digamma(x), special.polygamma(1, x)) for x in xs])
    table("beta_values", "a, b, x, value",
          [(a, b, x, special.betainc(a, b, x))
           for a in (0.5, 1, 2.5, 20, 300, 50000) for b in (0.5, 1, 7.5, 400) for x in (1e-9, 0.01, 0.2, 0.5, 0.9, 0.999)])
    dfs = [1, 1.5, 2, 3.3, 7, 18, 99.5, 1000, 123456, math.inf]
    table("t_values", "t, df, both, cdf",
          [(t, df, 2 * stats.t.sf(abs(t), df), stats.t.cdf(t, df)) for df in dfs for t in (-40, -3.5, -1, 0, 1e-6, 0.3, 2, 6, 15)])
    table("quantile_values", "p, df, t",
          [(p, df, stats.t.ppf(p, df)) for df in dfs for p in (1e-8, 0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.9999)])
    random_ = random.Random(7)
    p = [random_.random() ** 4 for _ in range(40)] + [0.01, 0.01, 1.0, 0.0]
    table("bh_values", "p, q", list(zip(p, stats.false_discovery_control(p))))
    items = list(variances())
    d0, posterior = prior(items)
    table("variance_values", "variance, df, at, posterior", [(*item, q) for item, q in zip(items, posterior)])
    print(f"static const double prior_df = {number(d0)};")
    print("/* clang-format on */")


main()
