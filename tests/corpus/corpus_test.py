#!/usr/bin/env python3
"""Profiles of real agents, and nasty ones: what is stored sums up to what the manifest says.

    corpus_test.py [-k REGEX]

Each file goes to a service of its own; then the total of each of its sample types is asked for. The
files are $FG_SHARED/corpus (default ../shared next to the repository), explained in the README there,
and without it those of them that are ours (tests/data). A case is named after its file. Captured
requests are in captured.py.
"""

import csv
import gzip
import os
import re
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import captured  # noqa: E402
import flamegrid  # noqa: E402
import pprof  # noqa: E402
import raw_profiles  # noqa: E402

FORMATS = {"pprof": "pprof", "collapsed": "folded", "lines": "lines", "tree": "tree", "trie": "trie"}
# Their totals are of events or are compared with what was read in the unit tests of the decoders
# (tests/unit/proto); here it is that the right ones are taken, through all of the server.
OTHERS = {"jfr": "jfr", "speedscope": "speedscope", "otlp": None}
REQUEST_TIMEOUT_S = 60
FROM_S = 1_700_000_000
ALL_TIME_MS = (1, (1 << 63) // 1_000_000 + 1)  # profiles keep their own times, however far off

# Rows where flamegrid differs on purpose from the manifest, which is about the format and not about
# what a server makes of it: their outcome, and why. A dictionary is what is stored instead.
REFUSED = "refused"
DANGLING = "a sample that names what is not there is lost alone, as Pyroscope does"
NEGATIVE = "samples with a negative value are dropped, as Pyroscope does"
DIFFERS = {
    **{"pprof-nasty/bad-%s.pb.gz" % name: ({"samples/count": 25, "cpu/nanoseconds": 250_000_000}, DANGLING)
       for name in ("fn-missing", "fn-name-negative", "fn-name-oob", "label-key-oob")},
    **{"pprof-nasty/bad-%s.pb.gz" % name: ({"samples/count": 100, "cpu/nanoseconds": 1_000_000_000}, DANGLING)
       for name in ("loc-missing", "loc-zero-ref")},
    **{"pprof-nasty/fuzz/%s.pb" % name: ({"samples/count": 3, "cpu/nanoseconds": 30}, DANGLING) for name in ("001", "048")},
    "pprof-nasty/fuzz/006.pb": ({"samples/count": 100, "cpu/nanoseconds": 1_000_000_000}, DANGLING),
    "pprof-nasty/fuzz/056.pb": ({"samples/count": 100, "cpu/nano\x7feconds": 1_000_000_000}, DANGLING),
    "pprof/pyroscope-invalid_utf8.pb.gz": (REFUSED, "text has to be UTF-8: JSON cannot carry anything else"),
    "pprof/parca-alloc_space_delta.pb.gz": (None, NEGATIVE),
    "pprof-nasty/ok-negative.pb.gz": (None, NEGATIVE),
    "collapsed-nasty/bad-count-negative.folded": ({"samples/count": 5}, NEGATIVE),
}


def rows(formats):
    folder = flamegrid.shared_folder("corpus")
    with open(os.path.join(folder, "manifest.tsv"), encoding="utf-8", newline="") as manifest:
        for row in csv.DictReader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["format"] in formats and row["expect"] != "oracle":
                row["path"] = os.path.join(folder, row["file"])
                yield row


def service_of(row):
    """A name without a dot: in text formats the part after a dot is the type."""
    return "corpus-" + re.sub(r"[^a-z0-9]+", "-", row["file"].lower())


def push(client, row):
    with open(row["path"], "rb") as file:
        body = file.read()
    if row["format"] == "otlp":
        kind = "application/json" if row["file"].endswith(".json") else "application/x-protobuf"
        return client.send("POST", "/v1development/profiles", body, {"Content-Type": kind})
    # A rate of 0 keeps counts of text formats as they are, instead of turning them into time.
    query = {"name": service_of(row), "format": (FORMATS | OTHERS)[row["format"]], "from": FROM_S, "until": FROM_S + 10,
             "sampleRate": 0}
    if row["agent"] == "dotnet":
        query["spyName"] = "dotnetspy"
    return client.send("POST", "/ingest?" + urllib.parse.urlencode(query), body)


def stored(client, row):
    """{"type/unit": total} of what the service has; where stacks are known they are compared, too."""
    selector = '{service_name="%s"}' % service_of(row)
    totals = {}
    for series in client.label_sets([selector], ["__profile_type__"], *ALL_TIME_MS):
        profile_type = series["__profile_type__"]
        kind = "/".join(profile_type.split(":")[1:3])
        merged = client.merged_profile(profile_type, selector, *ALL_TIME_MS)
        totals[kind] = pprof.total_json(merged)
        check_stacks(row, kind, merged)
        # Frames without names and samples without a stack are shown, too.
        flame = client.flame_total(profile_type, selector, *ALL_TIME_MS)
        flamegrid.check(flame == totals[kind], "%s: the flame graph has %d, the profile %d",
                        kind, flame, totals[kind])
    return totals


def expected_stacks(row, kind):
    """Returns what expected/ has for this sample type, or None."""
    types = row["types"].split(" ")
    if kind not in types:
        return None
    stem = "%s.%d.folded" % (row["file"].replace("/", "__"), types.index(kind))
    stem = os.path.join(flamegrid.shared_folder("corpus"), "expected", stem)
    for path, opener in ((stem, open), (stem + ".gz", gzip.open)):
        if os.path.exists(path):
            with opener(path, "rb") as file:
                lines = (line.rpartition(b" ") for line in file.read().split(b"\n") if line)
                stacks = {}
                for stack, _, value in lines:
                    name = without_type_parameters(stack.decode())
                    stacks[name] = stacks.get(name, 0) + int(value)
                return stacks
    return None


# Go's profilers have cut their stacks, and we complete them: from this depth on, unless one has so many locations.
COMPLETED = {"pprof/made-go-json-bench.cpu.pb.gz": (60, 0), "pprof/pyroscope-heap_delta": (28, 33)}


def folded(located, column):
    """{"root;...;leaf": value} of pprof.located()."""
    found = {}
    for stack, values in located:
        names = [function[0] for location in stack for function, _ in reversed(location[-1])]
        name = without_type_parameters(";".join(names))
        found[name] = found.get(name, 0) + values[column]
    return {stack: value for stack, value in found.items() if value}


def completed_stacks(row, kind, want):
    """What it becomes; before it has to be what was expected."""
    with open(row["path"], "rb") as file:
        content = file.read()
    content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    column = row["types"].split(" ").index(kind)
    flamegrid.check(folded(pprof.located(content), column) == want, "%s is read in another way", row["file"])
    found = folded(pprof.located(content, lambda stacks: raw_profiles.go_completed(stacks, *COMPLETED[row["file"]])), column)
    flamegrid.check(found != want, "%s is not completed", row["file"])
    return found


def without_type_parameters(stack):
    """Go's shapes are left out of names, so that all instances of a generic function are one: f[go.shape.int] is f."""
    while (start := stack.find("[go.shape.")) >= 0:
        depth, end = 0, start
        while end < len(stack):
            depth += {"[": 1, "]": -1}.get(stack[end], 0)
            end += 1
            if depth == 0:
                break
        stack = stack[:start] + stack[end:]
    return stack


def check_stacks(row, kind, merged):
    want = expected_stacks(row, kind)
    if want is None or row["file"] in DIFFERS:
        return
    if row["file"] in COMPLETED:
        want = completed_stacks(row, kind, want)
    got = pprof.folded_json(merged)
    wrong = sorted(stack for stack in got.keys() | want.keys() if got.get(stack) != want.get(stack))
    flamegrid.check(not wrong, "%s: %d of %d stacks differ, the first is %r: %s instead of %s", kind, len(wrong),
                    len(want), wrong[:1], got.get(wrong[0]) if wrong else 0, want.get(wrong[0]) if wrong else 0)


def expected(row):
    """{"type/unit": total} without those that are zero, which are not stored; None: no total is known."""
    instead, why = DIFFERS.get(row["file"], (None, None))
    if isinstance(instead, dict):
        return instead
    # Of mutations the totals hold only where google/pprof, too, could read them.
    if not row["totals"] or "/fuzz/" in row["file"] and "google/pprof: " in row["oracle"]:
        return None
    types = row["types"].split(" ") if row["format"] == "pprof" else ["samples/count"]
    values = totals_without_negatives(row) if why == NEGATIVE else map(int, row["totals"].split())
    totals = {}
    for kind, value in zip(types, values):
        kind = kind.replace("-", "_")  # the .NET agent's names, as Pyroscope and we write them
        totals[kind] = totals.get(kind, 0) + value
    return {kind: total for kind, total in totals.items() if total}


def totals_without_negatives(row):
    with gzip.open(row["path"]) as file:
        data = file.read()
    totals = []
    for field, _, value in pprof.fields(data):
        if field != 2:
            continue
        values = [pprof.signed(n) for f, k, v in pprof.fields(value) if f == 2 for n in pprof.numbers(k, v)]
        totals += [0] * (len(values) - len(totals))
        if min(values) >= 0:
            totals = [sum(pair) for pair in zip(totals, values)]
    return totals


def check_totals(row, totals):
    want = expected(row)
    flamegrid.check(want is None or totals == want, "stored %s, expected are %s (%s)", totals, want, row["notes"])


def case(server, client, row):
    status, body = push(client, row)
    flamegrid.check(server.alive(), "the server ended:\n%s", server.log_tail())
    totals = stored(client, row)
    refused = 400 <= status < 500
    flamegrid.check(refused or status == 200, "status %d: %s", status, body[:200])
    flamegrid.check(not refused or not totals, "refused with %d, but it holds %s", status, totals)

    expect = row["expect"]
    if row["file"] in DIFFERS:
        expect = "reject" if DIFFERS[row["file"]][0] == REFUSED else "accept"
    if expect == "accept":
        flamegrid.check(not refused, "refused with %d: %s", status, body[:200])
    if expect == "reject":
        flamegrid.check(refused, "accepted; %s", row["notes"])
    if not refused and expect in ("accept", "reject-or-accept"):
        check_totals(row, totals)
    if expect == "reject-or-empty":
        flamegrid.check(not totals, "it holds %s", totals)


def other_case(server, client, row, refused):
    """Accepted or refused as the manifest says; refused files join the list."""
    status, body = push(client, row)
    flamegrid.check(server.alive(), "the server ended:\n%s", server.log_tail())
    flamegrid.check(status == 200 or 400 <= status < 500, "status %d: %s", status, body[:200])
    if row["expect"] == "accept":
        flamegrid.check(status == 200, "refused with %d: %s", status, body[:200])
    if row["expect"] == "reject":
        flamegrid.check(status != 200 or b"" != body, "accepted; %s", row["notes"])
    if status != 200 or row["expect"] == "reject":
        refused.append(row)


def leaves_nothing(server, client, refused):
    """Sends all files again: nothing is stored."""
    before = profiles_received(server)
    for row in refused:
        push(client, row)
    after = profiles_received(server)
    flamegrid.check(after == before, "refused, and profiles were stored: %s, %s before", after, before)


def profiles_received(server):
    return [line for line in server.metrics().splitlines()
            if line.startswith("flamegrid_ingester_profiles_stored_total")]


def main():
    arguments = flamegrid.arguments_of(__doc__.splitlines()[0]).parse_args()
    tally = flamegrid.Tally(arguments.pattern)
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port, REQUEST_TIMEOUT_S)
        for row in rows(FORMATS):
            tally.run(row["file"], case, server, client, row)
        captured.run(tally, server.port, rows(captured.FORMATS), ALL_TIME_MS)
        refused = []
        for row in rows(OTHERS):  # last: OTLP says itself whose profiles they are
            tally.run(row["file"], other_case, server, client, row, refused)
        if refused:
            tally.run("what is refused leaves nothing", leaves_nothing, server, client, refused)
        tally.run("stops cleanly", lambda: flamegrid.check(server.terminate() == 0, "%s", server.log_tail()))
    tally.finish()


if __name__ == "__main__":
    main()
