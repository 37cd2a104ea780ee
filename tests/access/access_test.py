"""Who may do what, asked of a real server. Cases are in modules of their own; each has run(tally)."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, os.pardir, "lib"))
sys.path.insert(0, os.path.join(HERE, os.pardir, "agents"))

import flamegrid  # noqa: E402
import issuers  # noqa: E402
import people  # noqa: E402

SUITES = (issuers, people)


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    for suite in SUITES:
        suite.run(tally)
    tally.finish()


if __name__ == "__main__":
    main()
