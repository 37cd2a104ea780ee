"""Profiles for Go's compiler, of real profiles of Go programs: every location of every stack, against the slow model. Cases of
query_test.py."""

import gzip
import json
import os
import random
import re
import sys
import time
import urllib.parse

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib")]

import flamegrid  # noqa: E402
import pprof  # noqa: E402
import raw_profiles  # noqa: E402
from flamegrid import check  # noqa: E402
from raw_profiles import CPU  # noqa: E402

PROFILES = 6
STEP_S = 60
HOUR_S = 3600
WAIT_S = 60
SETTINGS = ["--ingester.segments.poll", "1s", "--ingester.segments.evict_after", "0s", "--querier.manifest_age", "1s",
            "--compactor.hour_delay", "0s", "--compactor.day_delay", "0s", "--compactor.fold_quiet", "0s", "--compactor.retire_after", "0s"]
SELECTOR = '{service_name="shop"}'
CUT_DEPTH = 60  # Go's CPU profiler cuts stacks at 64
MAPPING_FUNCTIONS = 5  # in the tuple of a mapping


def real_profiles():
    """Bytes of CPU profiles of Go programs: one of our own, and those of others where they are."""
    paths = [os.path.join(flamegrid.ROOT, "tests", "data", "corpus", "pprof", "made-go-json-bench.cpu.pb.gz")]
    folder = flamegrid.shared_folder("load")
    names = sorted(name for name in os.listdir(folder) if "-cpu-" in name) if folder else []
    paths += [os.path.join(folder, name) for name in random.Random(1).sample(names, min(len(names), PROFILES - 1))]
    # Most of its stacks are cut.
    cut = os.path.join(flamegrid.shared_folder("corpus"), "pprof", "pyroscope-cpu_go_truncated_1.pb.gz")
    paths[1:1] = [cut] if os.path.exists(cut) else []
    for path in paths:
        with open(path, "rb") as file:
            yield gzip.decompress(file.read())


def without_shapes(name):
    return re.sub(r"\[go\.shape\..*\]", "", name)


def as_stored(location):
    """Addresses and type parameters differ from program to program where functions do not (distributor/API.md#pprof)."""
    mapping, address, folded, lines = location
    lines = tuple(((*map(without_shapes, function[:2]), *function[2:]), number) for function, number in lines)
    if lines and mapping and mapping[MAPPING_FUNCTIONS]:
        return (0, 0, 0, *mapping[3:]), 0, folded, lines
    return mapping, address, folded, lines


def stacks_of(data, column):
    found = {}
    for stack, values in pprof.located(data, lambda stacks: raw_profiles.go_completed(stacks, CUT_DEPTH, 0)):
        if any(values):
            stack = tuple(map(as_stored, stack))
            found[stack] = found.get(stack, 0) + values[column]
    return {stack: value for stack, value in found.items() if value}


def answered(client, message, keep_locations, aggregate_callees):
    """The stacks of an answer in protobuf; a stack that is there twice was not merged."""
    selector = pprof.message(2, pprof.number(1, keep_locations) + pprof.number(2, aggregate_callees))
    status, body = client.send("POST", "/querier.v1.QuerierService/SelectMergeProfile", message + pprof.message(6, selector),
                               {"Content-Type": "application/proto"})
    check(status == 200, "%d %s", status, body)
    samples = pprof.located(body)
    found = {stack: value for stack, (value,) in samples}
    check(len(found) == len(samples), "%d of %d stacks are there twice", len(samples) - len(found), len(samples))
    return found


def rendered(client, form, start_ms, end_ms):
    """The stacks of the plain route."""
    status, body = client.send("GET", "/pyroscope/render?" + urllib.parse.urlencode(
        {"query": CPU + SELECTOR, "from": start_ms, "until": end_ms, "format": form}))
    check(status == 200, "%s: %d %s", form, status, body)
    return {stack: value for stack, (value,) in pprof.located(body)}


def check_all(client, sent, rng, where):
    whole = None
    for keep_locations in (0, 1, 2, 5, 1000):
        for aggregate_callees in (False, True):
            first, last = sorted(rng.sample(range(len(sent) + 1), 2)) if keep_locations in (2, 5) else (0, len(sent))
            profiles = [raw_profiles.Profile({}, time_ns, stacks) for time_ns, stacks in sent]
            start_ms, end_ms = sent[first][0] // 10**6, sent[last - 1][0] // 10**6
            merged = raw_profiles.merged(profiles, start_ms, end_ms)
            want = raw_profiles.go_pgo(merged, keep_locations, aggregate_callees)
            message = (pprof.message(1, CPU.encode()) + pprof.message(2, SELECTOR.encode()) + pprof.number(3, start_ms) +
                       pprof.number(4, end_ms))
            found = answered(client, message, keep_locations, aggregate_callees)
            what = "%s, %d locations, callees %s" % (where, keep_locations, "as one" if aggregate_callees else "apart")
            wrong = [(stack, found.get(stack), want.get(stack)) for stack in sorted({*found, *want}) if found.get(stack) != want.get(stack)]
            check(not wrong, "%s: %d of %d stacks are wrong: %s", what, len(wrong), len(want), str(wrong[:1])[-1000:])
            check(sum(found.values()) == sum(merged.values()), "%s", what)
            whole = whole or found
            if (keep_locations, aggregate_callees) == (5, True):
                check(rendered(client, "goPgo", start_ms, end_ms) == want, "%s: render says something else", what)
            if (keep_locations, aggregate_callees) == (0, False):
                check(rendered(client, "pprof", start_ms, end_ms) == want, "%s: render says something else", what)
            check_as_json(client, start_ms, end_ms, keep_locations, aggregate_callees, found, what)
    # The profiles have what the selector is about: stacks that are longer, and callees that differ in their lines only.
    check(len(raw_profiles.go_pgo(whole, 5, False)) < len(whole), "no stack becomes one with another when cut")
    check(len(raw_profiles.go_pgo(whole, 0, True)) < len(whole), "no callee has two lines")
    check(any(len(stack[-1][-1]) > 1 for stack in whole), "no callee is inlined")


def check_as_json(client, start_ms, end_ms, keep_locations, aggregate_callees, found, what):
    """The other method, in the other form: its stacks have the same names."""
    answer = client.ask("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=SELECTOR, start=start_ms, end=end_ms,
                        format="PROFILE_FORMAT_PPROF",
                        stackTraceSelector={"goPgo": {"keepLocations": keep_locations, "aggregateCallees": aggregate_callees}})
    names = {}
    for stack, value in found.items():
        name = ";".join(function[0] for location in stack for function, _ in reversed(location[-1]))
        names[name] = names.get(name, 0) + value
    told = pprof.folded_json(answer["pprof"]["profile"])
    check(told == names, "%s: %s", what, json.dumps(told)[:500])


class Fleet:
    """Profiles of one service, one a minute, as they were sent."""

    def __init__(self, age_s):
        self.start_s, self.bodies, self.sent = int(time.time()) // STEP_S * STEP_S - age_s, list(real_profiles()), []

    def push(self, client, count):
        for _ in range(count):
            body = self.bodies[len(self.sent) % len(self.bodies)]
            time_ns = (self.start_s + len(self.sent) * STEP_S) * 10**9
            # The time of a profile is its own; of a field that is there twice the last one holds.
            status, answer = client.send("POST", "/ingest?name=shop&format=pprof", body + pprof.number(9, time_ns))
            check(status == 200, "push: %d %s", status, answer)
            self.sent.append((time_ns, stacks_of(body, 1)))  # column 0 counts samples


def flush(server):
    status, answer = server.operate("POST", "/ingester/flush")
    check(status == 200, "flush: %d %s", status, answer)


def go_pgo(rng):
    """In the head, in a segment, in both, and in blocks."""
    fleet = Fleet(HOUR_S)
    with flamegrid.Server(*SETTINGS, "--compactor.interval", "1h") as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        fleet.push(client, PROFILES // 2)
        check_all(client, fleet.sent, rng, "in the head")
        flush(server)
        check_all(client, fleet.sent, rng, "in a segment")
        fleet.push(client, PROFILES // 2)
        check_all(client, fleet.sent, rng, "in a segment and the head")
        check(server.terminate() == 0, "%s", server.log_tail())
    fleet = Fleet(2 * 24 * HOUR_S)
    with flamegrid.Server(*SETTINGS, "--compactor.interval", "1s") as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        fleet.push(client, PROFILES)
        flush(server)
        deadline = time.monotonic() + WAIT_S
        while not re.search("^flamegrid_compactor_segments_retired_total [1-9]", server.metrics(), re.MULTILINE):
            check(time.monotonic() < deadline, "no segment is retired: %s", server.log_tail())
            time.sleep(0.5)
        check_all(client, fleet.sent, rng, "in blocks")
        check(server.terminate() == 0, "%s", server.log_tail())
