"""The slow way to numbers of labels: all profiles as they were sent, walked from end to end for each question.

It shares no code with the server: what both say was found in two ways."""

import re


class Sample:
    """A profile: stored labels with __name__, its time, and the value of each of its types (NAME:type:unit:...)."""

    def __init__(self, labels, time_ns, values):
        self.labels, self.time_ns, self.values = labels, time_ns, values

    def key(self):
        return tuple(sorted(self.labels.items()))

    def seen(self, profile_type):
        """All labels of it that queries see, for one type."""
        _, kind, unit, period, period_unit = profile_type.split(":")
        derived = {"__profile_type__": profile_type, "__type__": kind, "__unit__": unit, "__period_type__": period,
                   "__period_unit__": period_unit, "__service_name__": self.labels["service_name"]}
        return {name: value for name, value in {**self.labels, **derived}.items() if value}


def chosen(samples, start_ms, end_ms, profile_type=None, matches=lambda labels: True):
    """[(sample, profile type)] of a selection."""
    return [(sample, kind) for sample in samples for kind in sample.values
            if start_ms * 10**6 <= sample.time_ns <= end_ms * 10**6 and profile_type in (None, kind) and matches(sample.labels)]


def series(found):
    return {sample.key() for sample, _ in found}


def names(found):
    """{name: (set of series, set of values)}"""
    known = {}
    for sample, kind in found:
        for name, value in sample.seen(kind).items():
            of_series, values = known.setdefault(name, (set(), set()))
            of_series.add(sample.key())
            values.add(value)
    return known


def values(found, name):
    """{value: set of series}"""
    known = {}
    for sample, kind in found:
        value = sample.seen(kind).get(name)
        if value is not None:
            known.setdefault(value, set()).add(sample.key())
    return known


def totals(found, name):
    """{value: sum of the profiles}; those without the label are under None."""
    known = {}
    for sample, kind in found:
        value = sample.seen(kind).get(name)
        known[value] = known.get(value, 0) + sample.values[kind]
    return known


def restricted(known, prefix="", regex=".*"):
    return {text: found for text, found in known.items() if text.startswith(prefix) and re.fullmatch(regex, text)}


def compared(now, before):
    """(now, before, new) of two sets."""
    return len(now), len(before), len(now - before)
