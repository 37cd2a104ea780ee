"""As much PromQL as these tests need: which metrics, labels and values an expression names.

promtool parses the expressions; this finds out whether there is anything that they would match.
"""

import re
from typing import NamedTuple

NAME = r"(?:flamegrid_|pyroscope_|process_)[a-z0-9_]+|[a-z_]+:flamegrid_[a-z0-9_]+:[a-z0-9_]+|\bup\b"
SELECTOR = re.compile(r"(?<![\w:])(%s)(?:\{([^}]*)\})?" % NAME)
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SUFFIXES = re.compile(r"_(?:bucket|sum|count)$")

# The scrape configuration adds them. Without cluster and namespace all is one group.
OF_TARGETS = {"cluster", "namespace", "instance", "job", "pod"}


class Selector(NamedTuple):
    metric: str  # without the end of a histogram's series
    labels: dict  # names and what they are compared with: (operator, value)


def selectors(expression):
    for name, matchers in SELECTOR.findall(expression):
        yield Selector(name, {label: (operator, value) for label, operator, value in MATCHER.findall(matchers)})


def grouping_labels(expression):
    return {label.strip() for labels in GROUPING.findall(STRING.sub('""', expression)) for label in labels.split(",") if label.strip()}


class Metrics:
    """The metrics of the programs, as --metrics-docs prints them, and of recording rules."""

    ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \| .*\|$", re.M)
    LABEL = re.compile(r"`(\w+)`(?:: ([^;|]*))?")

    def __init__(self):
        self.types, self.labels = {"up": "gauge"}, {"up": {}}

    def read(self, docs):
        for name, kind, labels in self.ROW.findall(docs):
            self.types[name] = kind
            known = self.labels.setdefault(name, {})
            for label, values in self.LABEL.findall(labels):
                known.setdefault(label, set()).update(filter(None, (value.strip() for value in values.split(","))))

    def add_rule(self, record):
        """The labels of a rule are in the first part of its name."""
        level = record.split(":")[0]
        names = {label for label in ("cluster", "namespace", "instance", "route", "status_code", "op") if label in level}
        self.types[record], self.labels[record] = "gauge", {name: set() for name in names}

    def of(self, name):
        """The name of a metric that has series of this name, or None."""
        stem = SUFFIXES.sub("", name)
        if name in self.types and self.types[name] != "histogram":
            return name
        return stem if stem != name and self.types.get(stem) == "histogram" else None

    def faults(self, expression):
        """What there is not, of what an expression names."""
        grouping, known = grouping_labels(expression), OF_TARGETS | {"le"}
        found = 0
        for selector in selectors(expression):
            metric = self.of(selector.metric)
            found += 1
            if metric is None:
                yield "there is no metric %s" % selector.metric
                continue
            known |= set(self.labels[metric])
            for label, (operator, value) in selector.labels.items():
                yield from self.faults_of_matcher(metric, label, operator, value)
        if not found:
            yield "no metric in: %s" % expression
        for label in sorted(grouping - known):
            yield "no metric of the expression has the label %s" % label

    def legend_faults(self, expression, legend):
        """Labels in {{}} that no series of the answer has."""
        of_metrics = {label for selector in selectors(expression) for label in self.labels.get(self.of(selector.metric), ())}
        left = grouping_labels(expression) if " by (" in expression else of_metrics | OF_TARGETS
        for label in re.findall(r"\{\{(\w+)\}\}", legend):
            if label not in left:
                yield "no series has the label %s of the legend" % label

    def faults_of_matcher(self, metric, label, operator, value):
        if "$" in value:  # a variable of a dashboard
            value = ".*"
        if label in OF_TARGETS or label == "le":
            return
        if label not in self.labels[metric]:
            yield "%s has no label %s" % (metric, label)
            return
        values = self.labels[metric][label]
        for alternative in value.split("|") if operator in ("=~", "!~") else [value]:
            if values and not any(re.fullmatch(alternative, each) for each in values):
                yield '%s{%s} is never "%s"' % (metric, label, alternative)
