#!/usr/bin/env python3
"""Compares dashboards with Grafana's schemas: the classes of grafana-foundation-sdk, which are generated from them.

    grafana_schema.py FILE...

A file is decoded and encoded again. A key that no class knows is lost on the way; a value that no enumeration has is found by its type. Prints
each fault; exits with 1 if there are any. Runs in the virtual environment of locks/grafana.txt.
"""

import enum
import json
import sys
import typing

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard, units

UNITS = {value for name, value in vars(units).items() if not name.startswith("_") and isinstance(value, str)}


def lost(ours, theirs, path):
    """Keys and values of ours that the classes do not give back."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key not in theirs:
                if value not in (None, False, "", [], {}):  # not encoded, as it is the default
                    yield "%s.%s: the schema has no such key" % (path, key)
            else:
                yield from lost(value, theirs[key], "%s.%s" % (path, key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (mine, other) in enumerate(zip(ours, theirs)):
            yield from lost(mine, other, "%s[%d]" % (path, number))
    elif ours != theirs:
        yield "%s: %r became %r" % (path, ours, theirs)


def enumerations(hint):
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        yield hint
    for part in typing.get_args(hint):
        yield from enumerations(part)


def strangers(thing, path):
    """Values of enumerations that these do not have."""
    if isinstance(thing, list):
        for number, part in enumerate(thing):
            yield from strangers(part, "%s[%d]" % (path, number))
    if not type(thing).__module__.startswith("grafana_foundation_sdk.models"):
        return
    for name, hint in typing.get_type_hints(type(thing)).items():
        value = getattr(thing, name, None)
        known = {member.value for kind in enumerations(hint) for member in kind}
        if known and isinstance(value, (str, int)) and value not in known:
            yield "%s.%s: %r is none of %s" % (path, name, value, sorted(map(str, known)))
        yield from strangers(value, "%s.%s" % (path, name))


def units_of(panels):
    for panel in panels:
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
        if unit is not None and unit not in UNITS:
            yield "%s: there is no unit %s" % (panel["title"], unit)


def main():
    plugins.register_default_plugins()
    faults = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            ours = json.load(file)
        decoded = dashboard.Dashboard.from_json(ours)
        theirs = json.loads(encoder.JSONEncoder().encode(decoded))
        found = [*lost(ours, theirs, ""), *strangers(decoded, ""), *units_of(ours["panels"])]
        faults += ["%s: %s" % (path, fault) for fault in found]
    print("\n".join(faults))
    sys.exit(1 if faults or len(sys.argv) == 1 else 0)


if __name__ == "__main__":
    main()
