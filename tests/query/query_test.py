#!/usr/bin/env python3
"""Answers of the query interface, with data in the head, in segments and in blocks, against a slow model.

    query_test.py [-k REGEX] [--seed N]
"""

import json
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import urllib.parse
import xml.etree.ElementTree

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, folder) for folder in ("lib", "bucket")]

import compare_test  # noqa: E402
import exporting  # noqa: E402
import flamegrid  # noqa: E402
import pgo_test  # noqa: E402
import pprof  # noqa: E402
import raw_profiles  # noqa: E402
from flamegrid import check  # noqa: E402
from raw_profiles import CPU  # noqa: E402

DAY_S = 86400
WAIT_S = 60
PROFILES = 40  # of each place
STEP_MS = 15000
QUICK = ["--compactor.hour_delay", "0s", "--compactor.day_delay", "0s", "--compactor.fold_quiet", "0s",
         "--compactor.retire_after", "0s", "--querier.manifest_age", "1s", "--ingester.segments.evict_after", "0s",
         "--ingester.segments.poll", "1s", "--limits.adhoc_profiles_max", "77"]
BUSY, IDLE = ["--compactor.interval", "1s"], ["--compactor.interval", "1h"]
SELECTOR = '{service_name="shop"}'


class World:
    def __init__(self, rng):
        self.rng = rng
        self.start_s = int(time.time()) // DAY_S * DAY_S - 5 * DAY_S
        self.profiles = []
        self.drawn = set()  # times: two profiles of one time would be equal in the list's order

    def draw(self):
        rng = self.rng
        labels = {"service_name": "shop", "pod": "p%d" % rng.randrange(3)}
        if rng.randrange(2):
            labels["zone"] = "z%d" % rng.randrange(2)
        time_ns = None
        while time_ns is None or time_ns in self.drawn:
            # Often at the very bounds of a step, or right next to them.
            time_ns = self.start_s * 10**9 + rng.randrange(40) * STEP_MS * 10**6 + rng.choice(
                [0, 1, -1, 10**6, 999_999, rng.randrange(STEP_MS * 10**6)])
        self.drawn.add(time_ns)
        stacks = {("main", "work", "step%d" % rng.randrange(4)): rng.randrange(1, 1000) * 10**6 for _ in range(3)}
        stacks[("main", "step0", "work", "step0", "step1")[:rng.randrange(1, 6)]] = rng.randrange(1, 1000) * 10**6
        # A function of this name is a remainder in flame graphs of Pyroscope's form, and a function like any other elsewhere.
        for depth in range(rng.randrange(2, 5), 1, -1):
            stacks[("main", "other", "below", "other")[:depth]] = rng.randrange(1, 1000) * 10**6
        spans = [(("%016x" % rng.randrange(1, 6), rng.choice(["", "%032x" % rng.randrange(1, 4)])),
                  ("main", rng.choice(["serve", "other"]), "step%d" % rng.randrange(3)), rng.randrange(1, 100) * 10**6)
                 for _ in range(rng.randrange(5))]
        return raw_profiles.Profile(labels, time_ns, stacks, spans)

    def push(self, server, count):
        client = flamegrid.Client(server.port)
        for _ in range(count):
            profile = self.draw()
            labelled = [(stack, (value,), {"span_id": span, **({"trace_id": trace} if trace else {})})
                        for (span, trace), stack, value in profile.spans]
            request = {"series": [exporting.series({"__name__": "process_cpu", **profile.labels}, profile.time_ns,
                                                   {stack: (value,) for stack, value in profile.stacks.items()},
                                                   (("cpu", "nanoseconds"),), labelled)]}
            status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps(request),
                                       {"Content-Type": "application/json"})
            check(status == 200, "push: %d %s", status, body)
            self.profiles.append(profile)

    def range_ms(self):
        """Some range on no grid of anyone's, within the data or beyond it."""
        start_ms = self.start_s * 1000 + self.rng.randrange(-5, 30) * STEP_MS + self.rng.choice([0, 1, 777])
        return start_ms, start_ms + self.rng.randrange(1, 40) * STEP_MS + self.rng.choice([0, 1, 14999])


def labels_of(series):
    return tuple((label["name"], label["value"]) for label in series.get("labels", []))


def drawn_groups(world):
    return world.rng.sample(["pod", "zone", "none"], world.rng.randrange(3))


def check_exemplars(world, client):
    start_ms, end_ms = world.range_ms()
    group_by = drawn_groups(world)
    answer = client.ask("SelectSeries", profileTypeID=CPU, labelSelector=SELECTOR, start=start_ms, end=end_ms,
                        step=STEP_MS / 1000, groupBy=group_by, exemplarType="EXEMPLAR_TYPE_INDIVIDUAL")
    found = {}
    for series in answer.get("series", []):
        for point in series["points"]:
            check(len(point["exemplars"]) == 1, "%s", point)
            exemplar = point["exemplars"][0]
            found.setdefault(labels_of(series), {})[int(point["timestamp"])] = exemplar
            names = {label["name"] for label in exemplar["labels"]}
            check("service_name" in names and not names & set(group_by), "%s", exemplar)
    want = raw_profiles.exemplars(world.profiles, start_ms, end_ms, STEP_MS, group_by)
    check(found.keys() == want.keys(), "%s instead of %s", found.keys(), want.keys())
    for group, points in want.items():
        check(found[group].keys() == points.keys(), "%s: %s", group, found[group])
        for at_ms, (value, times) in points.items():
            exemplar = found[group][at_ms]
            check(int(exemplar["value"]) == value and int(exemplar["timestamp"]) in times, "%s: %s instead of %d at %s",
                  group, exemplar, value, times)
            if world.rng.randrange(8) == 0:
                check_one_profile(client, exemplar["profileId"], value)


def check_one_profile(client, profile_id, value):
    """The id selects the profile, and nothing else."""
    answer = client.ask("SelectMergeStacktraces", profileTypeID=CPU, labelSelector="{}", start=1, end=int(time.time()) * 1000,
                        profileIdSelector=[profile_id])
    check(int(answer["flamegraph"]["total"]) == value, "%s: %s instead of %d", profile_id, answer, value)


def check_series(world, client):
    """Values over time, covered time and rates; by SelectSeries and in the timeline of a flame graph."""
    start_ms, end_ms = world.range_ms()
    step_ms, group_by = world.rng.choice([5000, 15000, 60000, 77000, 300_000, 3600_000]), drawn_groups(world)
    message = {"profileTypeID": CPU, "labelSelector": SELECTOR, "start": start_ms, "end": end_ms, "step": step_ms / 1000,
               "groupBy": group_by}
    want = raw_profiles.points(world.profiles, start_ms, end_ms, step_ms, group_by)
    plain = client.ask("SelectSeries", **message).get("series", [])
    averages = client.ask("SelectSeries", aggregation="TIME_SERIES_AGGREGATION_TYPE_AVERAGE", **message).get("series", [])
    _, answer = statistics_of(world, client, "POST", "/querier.v1.QuerierService/SelectSeries", body=json.dumps(message),
                              headers={"Content-Type": "application/json", "X-Flamegrid-Statistics": "true"})
    for series in (plain, averages, answer.get("series", [])):
        check({labels_of(one) for one in series} == want.keys(), "%s instead of %s", series, want.keys())
    for one in plain:
        check(one.keys() <= {"labels", "points"} and all(point.keys() <= {"value", "timestamp"} for point in one["points"]), "%s", one)
        check({int(point["timestamp"]): point.get("value", 0) for point in one["points"]} ==
              {at_ms: sum(profile.value() for profile in there) for at_ms, there in want[labels_of(one)].items()}, "%s instead of %s", one, {at_ms: sum(profile.value() for profile in there) for at_ms, there in want[labels_of(one)].items()})
    for one in averages:
        for point in one["points"]:
            there = want[labels_of(one)][int(point["timestamp"])]
            check(point["value"] == sum(profile.value() for profile in there) / len(there), "%s instead of %s", point, there)
    for one in answer.get("series", []):
        there = want[labels_of(one)]
        covered = raw_profiles.covered([profile for step in there.values() for profile in step], start_ms, end_ms, step_ms)
        check((one["unit"], one["rateUnit"], one["step"]) == ("nanoseconds", "nanoseconds per second", step_ms / 1000), "%s", one)
        check(one["covered"] == sum(covered.values()) / 1000, "%s instead of %s", one, covered)
        check({int(point["timestamp"]): (point["value"], point["covered"]) for point in one["points"]} ==
              {at_ms: (sum(profile.value() for profile in step), covered[at_ms] / 1000) for at_ms, step in there.items()},
              "%s instead of %s, %s", one, there, covered)
        check(all(point["rate"] == point["value"] / point["covered"] for point in one["points"]), "%s", one)
    check_timeline(world, client, start_ms, end_ms)


def check_timeline(world, client, start_ms, end_ms):
    plain = json.loads(rendered(client, "json", start_ms, end_ms))["timeline"]
    timeline = json.loads(rendered(client, "json", start_ms, end_ms, statistics="true"))["timeline"]
    rates, covered, units = timeline.pop("rates"), timeline.pop("covered"), (timeline.pop("unit"), timeline.pop("rate_unit"))
    check(timeline == plain and units == ("nanoseconds", "nanoseconds per second") and len(rates) == len(plain["samples"]), "%s instead of %s", timeline, plain)
    check([rate is None for rate in rates] == [value == 0 for value in plain["samples"]], "%s: %s", plain, rates)
    spans = [value / rate for value, rate in zip(plain["samples"], rates) if rate]
    check(abs(sum(spans) - covered) < 0.01 and all(span < 2 * timeline["durationDelta"] + 60 for span in spans), "%s: %s", covered, spans)


def check_heatmap(world, client, spans):
    start_ms, end_ms = world.range_ms()
    group_by = drawn_groups(world)
    what = "SPAN" if spans else "INDIVIDUAL"
    answer = client.ask("SelectHeatmap", profileTypeID=CPU, labelSelector=SELECTOR, start=start_ms, end=end_ms,
                        step=STEP_MS / 1000, groupBy=group_by, queryType="HEATMAP_QUERY_TYPE_" + what,
                        exemplarType="EXEMPLAR_TYPE_" + what)
    profiles = raw_profiles.in_range(world.profiles, start_ms, end_ms)
    if not any(profile.spans or not spans for profile in profiles):
        check(answer == {}, "%s", answer)
        return
    want, bounds = raw_profiles.heatmap(profiles, start_ms, end_ms, STEP_MS, group_by, spans)
    found = {labels_of(series): {int(slot["timestamp"]): slot for slot in series["slots"]} for series in answer["series"]}
    check(found.keys() == want.keys(), "%s instead of %s", found.keys(), want.keys())
    for group, slots in want.items():
        check(found[group].keys() == slots.keys(), "%s: %s instead of %s", group, found[group].keys(), slots.keys())
        for at_ms, counts in slots.items():
            slot = found[group][at_ms]
            check(slot["counts"] == counts and slot["yMin"] == bounds, "%s %d: %s instead of %s %s", group, at_ms, slot,
                  counts, bounds)
            check(len(slot["exemplars"]) == sum(map(bool, counts)), "%s", slot)


def check_span_exemplars(world, client):
    """Each is the greatest span of its step."""
    start_ms, end_ms = world.range_ms()
    answer = client.ask("SelectSeries", profileTypeID=CPU, labelSelector=SELECTOR, start=start_ms, end=end_ms,
                        step=STEP_MS / 1000, exemplarType="EXEMPLAR_TYPE_SPAN")
    want = {}
    for profile in world.profiles:
        at_ms = start_ms + STEP_MS * raw_profiles.step_of(profile.time_ns, start_ms, STEP_MS)
        if profile.time_ns // 10**6 > start_ms - STEP_MS and profile.time_ns <= end_ms * 10**6 and at_ms <= end_ms:
            for span, value in profile.by_span().items():
                want.setdefault(at_ms, {}).setdefault(value, set()).add(span)
    found = {int(point["timestamp"]): point.get("exemplars", []) for series in answer.get("series", [])
             for point in series["points"]}
    check({at_ms for at_ms, exemplars in found.items() if exemplars} == want.keys(), "%s instead of %s", found, want)
    for at_ms, spans in want.items():
        exemplar = found[at_ms][0]
        check(int(exemplar["value"]) == max(spans), "%s instead of %s", exemplar, spans)
        check((exemplar["spanId"], exemplar.get("traceId", "")) in spans[max(spans)], "%s instead of %s", exemplar, spans)


def listed(client, **parameters):
    status, body = client.send("GET", "/api/profiles?" + urllib.parse.urlencode(parameters))
    check(status == 200, "%d %s", status, body)
    return json.loads(body)


def check_list(world, client):
    """All pages of a list together, newest first."""
    start_ms, end_ms = world.range_ms()
    query = {"query": CPU + SELECTOR, "from": start_ms, "until": end_ms, "limit": world.rng.randrange(1, 30)}
    found, page = [], {}
    while page is not None:
        answer = listed(client, **query, **page)
        check(answer["type"] == CPU and answer["unit"] == "nanoseconds", "%s", answer)
        check(len(answer["profiles"]) <= query["limit"], "%s", answer)
        found += answer["profiles"]
        page = {"page": answer["next"]} if "next" in answer else None
    want = raw_profiles.newest_first(world.profiles, start_ms, end_ms)
    check([(int(row["time_ns"]), row["value"]) for row in found] == [(profile.time_ns, profile.value()) for profile in want],
          "%s", found)
    for row, profile in zip(found, want):
        check(profile.labels.items() <= row["labels"].items(), "%s", row)
    if found:
        at = world.rng.randrange(len(found))
        check_download(client, found[at], want[at])


def check_download(client, row, profile):
    target = "/api/profiles/%s?%s" % (row["id"], urllib.parse.urlencode(
        {"query": CPU + "{}", "from": row["time_ms"], "until": row["time_ms"] + 1}))
    status, body = client.send("GET", target)
    check(status == 200, "%d %s", status, body)
    found = pprof.folded(body)
    check(found == profile.all_stacks(), "%s instead of %s", found, profile.all_stacks())


def rendered_bytes(client, form, start_ms, end_ms, **parameters):
    target = "/pyroscope/render?" + urllib.parse.urlencode(
        {"query": CPU + SELECTOR, "from": start_ms, "until": end_ms, "format": form, **parameters}, doseq=True)
    status, body = client.send("GET", target)
    check(status == 200, "%s: %d %s", target, status, body)
    return body


def rendered(*what, **parameters):
    return rendered_bytes(*what, **parameters).decode()


def stacks_of_folded(text):
    return {tuple(stack.split(";")): int(value) for stack, value in (line.rsplit(" ", 1) for line in text.splitlines())}


def stacks_of_speedscope(text):
    """By playing its events: what passes while a stack is open is its own."""
    document = json.loads(text)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    profile, = document["profiles"]
    check(profile["type"] == "evented" and profile["unit"] == "nanoseconds" and profile["startValue"] == 0, "%s", profile)
    found, stack, before = {}, [], 0
    for event in profile["events"]:
        if event["at"] > before:
            found[tuple(stack)] = found.get(tuple(stack), 0) + event["at"] - before
        before = event["at"]
        if event["type"] == "O":
            stack.append(names[event["frame"]])
        else:
            check(stack.pop() == names[event["frame"]], "%s closes another frame", event)
    check(not stack and before == profile["endValue"], "%s at %d", stack, before)
    return found


def stacks_of_firefox(text):
    """From the tables of its processed format: a sample has a stack, a stack a frame and a prefix, a frame a function."""
    document = json.loads(text)
    thread, = document["threads"]
    for name in ("samples", "stackTable", "frameTable", "funcTable", "markers", "resourceTable", "nativeSymbols"):
        table = thread[name]
        check(all(len(column) == table["length"] for column in table.values() if isinstance(column, list)), "%s: %s", name, table)
    stacks, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
    samples = thread["samples"]
    check(samples["weightType"] == "tracing-ms" and samples["time"] == sorted(samples["time"]), "%s", samples)
    check(document["meta"]["interval"] > 0, "%s", document["meta"])
    found = {}
    for weight, at in zip(samples["weight"], samples["stack"]):
        stack = []
        while at is not None:
            stack.append(thread["stringArray"][functions["name"][frames["func"][stacks["frame"][at]]]])
            at = stacks["prefix"][at]
        key = tuple(reversed(stack))
        check(key not in found, "%s twice", key)
        found[key] = round(weight * 10**6)
    return found


def check_parts(world, client):
    """What is below a call site, and what some functions call, in each form."""
    start_ms, end_ms = world.range_ms()
    stacks = raw_profiles.merged(world.profiles, start_ms, end_ms)
    sites = sorted({stack[:depth] for stack in stacks for depth in range(1, 4)}) or [("main",)]
    site = world.rng.choice(sites + [("main", "nobody")])
    below = {stack: value for stack, value in stacks.items() if stack[:len(site)] == site}
    meant, parameters = world.rng.choice([({"work"}, {"function": "work"}), ({"step0", "step1"}, {"regex": "step[01]"}),
                                          ({"other"}, {"function": "other"}), ({"below"}, {"function": "below"}),
                                          ({"nobody"}, {"function": "nobody"})])
    called = {}
    for stack, value in below.items():
        at = next((i for i, name in enumerate(stack) if name in meant), None)
        if at is not None:
            called[stack[at:]] = called.get(stack[at:], 0) + value
    found = pprof.folded(rendered_bytes(client, "pprof", start_ms, end_ms, callSite=site))
    check(found == below, "%s: %s instead of %s", site, found, below)
    for part, want in (({"callSite": site}, below), ({"callSite": site, **parameters}, called)):
        found = stacks_of_firefox(rendered(client, "firefox", start_ms, end_ms, **part))
        check(found == want, "%s: %s instead of %s", part, found, want)
        found = stacks_of_speedscope(rendered(client, "speedscope", start_ms, end_ms, **part))
        check(found == want, "%s: %s instead of %s", part, found, want)
        # A flame graph of two nodes has the total of all that is meant, wherever a full one has it.
        graph = json.loads(rendered(client, "json", start_ms, end_ms, **{**part, "max-nodes": 2}))["flamebearer"]
        check(graph["numTicks"] == sum(want.values()), "%s: %s instead of %s", part, graph, want)
        graph = json.loads(rendered(client, "json", start_ms, end_ms, **part))["flamebearer"]
        drawn = want if part.keys() & {"function", "regex"} else raw_profiles.pictured(want)
        check(bars_of(graph) == prefixes_of(drawn), "%s: %s instead of %s", part, graph, drawn)


def statistics_of(world, client, method, target, **rest):
    """Sends a request, and returns the statistics in the headers and those in the body."""
    client.connection.request(method, target, **rest)
    response = client.connection.getresponse()
    body = response.read()
    check(response.status == 200, "%s: %d %s", target, response.status, body)
    return {name.lower()[len("x-flamegrid-"):]: value for name, value in response.getheaders()
            if name.lower().startswith("x-flamegrid-")}, json.loads(body)


def check_statistics(world, client):
    """Each way to ask has the statistics of the headers in its body, and says how many profiles it was made from."""
    start_ms, end_ms = world.range_ms()
    query = urllib.parse.urlencode({"query": CPU + SELECTOR, "from": start_ms, "until": end_ms})
    message = json.dumps({"profileTypeID": CPU, "labelSelector": SELECTOR, "start": start_ms, "end": end_ms})
    as_json = {"Content-Type": "application/json"}
    wanted = {**as_json, "X-Flamegrid-Statistics": "true"}
    merge = "/querier.v1.QuerierService/SelectMergeStacktraces"
    for method, target, rest in (
            ("GET", "/api/functions?" + query, {}), ("GET", "/pyroscope/render?statistics=true&" + query, {}),
            ("GET", "/pyroscope/render?" + query, {"headers": {"X-Flamegrid-Statistics": "true"}}),
            ("POST", merge, {"body": message, "headers": wanted})):
        headers, body = statistics_of(world, client, method, target, **rest)
        said = body["statistics"]
        check(said["unit"] == headers["unit"] == "nanoseconds", "%s: %s", target, said)
        check(said["complete"] is True and headers["complete"] == "true", "%s: %s", target, said)
        check(said["exact"] is True and headers["exact"] == "yes", "%s: %s", target, said)
        for name in ("profiles", "series", "bytes", "objects", "requests"):
            check(int(said.get(name, 0)) == int(headers[name]), "%s: %s in %s and %s", target, name, said, headers)
        want = len(raw_profiles.newest_first(world.profiles, start_ms, end_ms))
        check(int(said.get("profiles", 0)) == want, "%s: %s instead of %d profiles", target, said, want)
    for method, target, rest in (("GET", "/pyroscope/render?" + query, {}), ("POST", merge, {"body": message, "headers": as_json})):
        _, body = statistics_of(world, client, method, target, **rest)
        check("statistics" not in body, "%s: nobody asked for %s", target, body)


def check_messages(world, client):
    """A profile in protobuf: bare, in a frame of gRPC-web, and with statistics, which readers of pprof skip."""
    start_ms, end_ms = world.range_ms()
    request = (pprof.message(1, CPU.encode()) + pprof.message(2, SELECTOR.encode()) + pprof.number(3, start_ms) +
               pprof.number(4, end_ms))
    framed = b"\0" + len(request).to_bytes(4, "big") + request
    target = "/querier.v1.QuerierService/SelectMergeProfile"
    want = raw_profiles.merged(world.profiles, start_ms, end_ms)
    for kind, body, extra in (("application/proto", request, {}), ("application/proto", request, {"X-Flamegrid-Statistics": "true"}),
                              ("application/grpc-web+proto", framed, {})):
        status, answer = client.send("POST", target, body, {"Content-Type": kind, **extra})
        check(status == 200, "%s: %d %s", kind, status, answer)
        if kind != "application/proto":
            length = int.from_bytes(answer[1:5], "big")
            check(answer[0] == 0 and answer[5 + length] == 0x80, "%s: no frame, then the trailers: %s", kind, answer)
            answer = answer[5:5 + length]
        check(pprof.folded(answer) == want, "%s: %s instead of %s", kind, answer, want)
        statistics = [content for field, _, content in pprof.fields(answer) if field == 1000]
        check(len(statistics) == len(extra), "%s: %s", kind, statistics)
        for content in statistics:
            texts = [value for field, _, value in pprof.fields(content) if field == 5]
            check(texts == [b"nanoseconds"], "%s", texts)


SHOWN = r"(-?[0-9.]+)s?"  # a value, as pprof shows it: nanoseconds as seconds, to the hundredth


def is_shown_as(value_ns, text):
    return abs(float(text) - value_ns / 1e9) <= 0.00501


def graph_of_dot(dot):
    """{function: (flat, cum)} and {(caller, callee): (value, is it dotted)}; values as they are shown."""
    numbers, nodes, edges = {}, {}, {}
    for line in dot.splitlines():
        node = re.match(r'(N\d+) \[label="(.*)" id="node\d+" .* tooltip="(.*) \(' + SHOWN + r'\)" color', line)
        edge = re.match(r'(N\d+) -> (N\d+) \[label=" ' + SHOWN + '".*]$', line)
        if node:
            flat = re.search(r"\\n" + SHOWN + r"(?: \([^()]*\))?(?:(?: of |\\nof )" + SHOWN + r" \([^()]*\))?$", node.group(2))
            check(flat, "%s", line)
            # Where there is one value, it is both.
            check(node.group(4) == flat.group(2) or (flat.group(2) is None and node.group(4) == flat.group(1)), "%s", line)
            numbers[node.group(1)] = node.group(3)
            nodes[node.group(3)] = flat.group(1), node.group(4)
        elif edge:
            edges[numbers[edge.group(1)], numbers[edge.group(2)]] = edge.group(3), 'style="dotted"' in line
    return nodes, edges


def check_dot(world, client, start_ms, end_ms, stacks):
    """The call graph, whole and of a few functions: which those are is pprof's choice, their numbers follow from the stacks."""
    for most in (1000, world.rng.randrange(1, 5)):
        dot = rendered(client, "dot", start_ms, end_ms, **{"max-nodes": most})
        check(dot.startswith("digraph") == bool(stacks), "%s", dot)
        nodes, edges = graph_of_dot(dot)
        functions = {name for stack in stacks for name in stack}
        check(len(nodes) == min(most, len(functions)), "%d of %d, at most %d", len(nodes), len(functions), most)
        want_nodes, want_edges = raw_profiles.call_graph(stacks, set(nodes))
        for name, (flat, cum) in nodes.items():
            check(is_shown_as(want_nodes[name][0], flat) and is_shown_as(want_nodes[name][1], cum), "%s: %s %s instead of %s", name,
                  flat, cum, want_nodes[name])
        # Where something is left out between two functions, the edge is only needed if no others lead there.
        check({pair for pair, (_, gap) in want_edges.items() if not gap} <= set(edges) <= set(want_edges), "%s instead of %s", edges,
              want_edges)
        for pair, (value, gap) in edges.items():
            check(is_shown_as(want_edges[pair][0], value) and gap == want_edges[pair][1], "%s: %s %s instead of %s", pair, value, gap,
                  want_edges[pair])
        if stacks:
            total = sum(stacks.values())
            said = re.search(r"Showing nodes accounting for " + SHOWN + r", [^ ]* of " + SHOWN + " total", dot)
            check(said and is_shown_as(sum(flat for flat, _ in want_nodes.values()), said.group(1)) and
                  is_shown_as(total, said.group(2)), "%d: %s", total, dot)


def last_of(stacks, n):
    """The stacks cut to their last n functions."""
    found = {}
    for stack, value in stacks.items():
        found[stack[-n:]] = found.get(stack[-n:], 0) + value
    return found


def truncated(stacks, max_nodes):
    """Returns the stacks after a cut: each caller has one callee `other` in place of its nodes below the max_nodes-th largest."""
    totals = {}
    for stack, value in stacks.items():
        for depth in range(len(stack)):
            totals[stack[:depth + 1]] = totals.get(stack[:depth + 1], 0) + value
    least = sorted(totals.values(), reverse=True)[:max_nodes][-1] if totals else 0
    found = {}
    for stack, value in stacks.items():
        kept = next((stack[:depth] + ("other",) for depth in range(len(stack)) if totals[stack[:depth + 1]] < least), stack)
        found[kept] = found.get(kept, 0) + value
    return found


def check_forms(world, client):
    start_ms, end_ms = world.range_ms()
    want = raw_profiles.merged(world.profiles, start_ms, end_ms)
    max_nodes = world.rng.randrange(1, 12)
    for parameters, stacks in (({}, want), ({"max-nodes": 0}, want), ({"max-nodes": max_nodes}, truncated(want, max_nodes))):
        for form, read in (("folded", stacks_of_folded), ("speedscope", stacks_of_speedscope), ("firefox", stacks_of_firefox)):
            found = read(rendered(client, form, start_ms, end_ms, **parameters))
            check(found == stacks, "%s %s: %s instead of %s", form, parameters, found, stacks)
        found = pprof.folded(rendered_bytes(client, "pprof", start_ms, end_ms, **parameters))
        check(found == stacks, "pprof %s: %s instead of %s", parameters, found, stacks)
    found = pprof.folded(rendered_bytes(client, "goPgo", start_ms, end_ms))
    check(found == last_of(want, 5), "goPgo: %s of %s", found, want)
    check_svg(rendered(client, "svg", start_ms, end_ms), want)
    check_dot(world, client, start_ms, end_ms, want)


def asked(client, path, **parameters):
    status, body = client.send("GET", path + "?" + urllib.parse.urlencode(parameters))
    check(status == 200, "%s %s: %d %s", path, parameters, status, body)
    return json.loads(body)


def bars_of(graph):
    """{(outermost, ..., name): (total, self)} of a flame graph without its root."""
    found, above = {}, [(0, None, ())]
    for level in graph["levels"]:
        at, here = 0, []
        for i in range(0, len(level), 4):
            offset, total, own, name = level[i:i + 4]
            at += offset
            parent = next((path for start, end, path in above if end is None or start <= at < end), ())
            path = parent + (graph["names"][name],) if above[0][1] is not None else ()
            here.append((at, at + total, path))
            if path:
                found[path] = (total, own)
            at += total
        above = here
    return found


def prefixes_of(stacks):
    """The same of stacks with values."""
    found = {}
    for stack, value in stacks.items():
        for depth in range(1, len(stack) + 1):
            total, own = found.get(stack[:depth], (0, 0))
            found[stack[:depth]] = (total + value, own + value * (depth == len(stack)))
    return found


def graph_of(answer):
    """A flame graph of a message in the form of flamebearer JSON; empty if there is none."""
    graph = answer.get("flamegraph", {"names": ["total"], "levels": [{"values": [0, 0, 0, 0]}]})
    return {"names": graph["names"], "levels": [[int(value) for value in level["values"]] for level in graph["levels"]]}


def check_spans(world, client):
    """Flame graphs of spans and of traces, by both methods."""
    start_ms, end_ms = world.range_ms()
    message = {"profileTypeID": CPU, "labelSelector": SELECTOR, "start": start_ms, "end": end_ms}
    spans = ["%016x" % number for number in world.rng.sample(range(1, 8), world.rng.randrange(1, 4))]
    want = raw_profiles.of_spans(world.profiles, start_ms, end_ms, spans=spans)
    found = graph_of(client.ask("SelectMergeSpanProfile", spanSelector=spans, **message))
    check(bars_of(found) == prefixes_of(raw_profiles.pictured(want)), "%s: %s instead of %s", spans, found, want)
    traces = ["%032x" % number for number in world.rng.sample(range(1, 6), world.rng.randrange(1, 3))]
    want = raw_profiles.of_spans(world.profiles, start_ms, end_ms, traces=traces)
    found = graph_of(client.ask("SelectMergeStacktraces", traceIdSelector=traces, **message))
    check(bars_of(found) == prefixes_of(raw_profiles.pictured(want)), "%s: %s instead of %s", traces, found, want)


def double_bars_of(graph):
    """{(outermost, ..., name): (left total, left self, right total, right self)} of a comparison without its root. A bar's place is
    that on the axis of both sides together."""
    found, above = {}, None
    for level in graph["levels"]:
        left = right = 0
        here = []
        for i in range(0, len(level), 7):
            numbers, name = [int(value) for value in level[i:i + 6]], graph["names"][int(level[i + 6])]
            left, right = left + numbers[0], right + numbers[3]
            path = ()
            if above is not None:
                path = next(path for spans, path in above if all(begin <= at and at + total <= end for (begin, end), at, total in zip(
                    spans, (left, right), (numbers[1], numbers[4])))) + (name,)
                found[path] = (numbers[1], numbers[2], numbers[4], numbers[5])
            here.append((((left, left + numbers[1]), (right, right + numbers[4])), path))
            left, right = left + numbers[1], right + numbers[4]
        above = here
    return found


def check_diff(world, client):
    """Both sides of a comparison of flame graphs, bar by bar, by the route and by the method."""
    sides = [world.range_ms(), world.range_ms()]
    stacks = [raw_profiles.merged(world.profiles, *side) for side in sides]
    left, right = (prefixes_of(side) for side in stacks)
    want = {path: left.get(path, (0, 0)) + right.get(path, (0, 0)) for path in {*left, *right}}
    parameters = {}
    for name, (start_ms, end_ms) in zip(("left", "right"), sides):
        parameters |= {name + "Query": CPU + SELECTOR, name + "From": start_ms, name + "Until": end_ms}
    answer = asked(client, "/pyroscope/render-diff", **parameters)
    check((answer.get("leftTicks", 0), answer.get("rightTicks", 0)) == tuple(sum(side.values()) for side in stacks), "%s", answer)
    check(double_bars_of(answer["flamebearer"]) == want, "%s instead of %s", answer["flamebearer"], want)
    message = {name: {"profileTypeID": CPU, "labelSelector": SELECTOR, "start": start_ms, "end": end_ms}
               for name, (start_ms, end_ms) in zip(("left", "right"), sides)}
    graph = client.ask("Diff", **message)["flamegraph"]
    check((int(graph.get("leftTicks", 0)), int(graph.get("rightTicks", 0))) == tuple(sum(side.values()) for side in stacks), "%s", graph)
    found = double_bars_of({"names": graph["names"], "levels": [level["values"] for level in graph["levels"]]})
    check(found == want, "%s instead of %s", graph, want)


def check_functions(world, client):
    """The table of all functions, page by page, and each function with its callers and callees."""
    start_ms, end_ms = world.range_ms()
    stacks = raw_profiles.merged(world.profiles, start_ms, end_ms)
    names = {name for stack in stacks for name in stack}
    want = {name: (sum(value for stack, value in stacks.items() if stack[-1] == name),
                   sum(value for stack, value in stacks.items() if name in stack)) for name in names}
    query = {"query": CPU + SELECTOR, "from": start_ms, "until": end_ms}
    for column, key in (("self", 0), ("total", 1)):
        rows, page = [], 0
        while page is not None:
            answer = asked(client, "/api/functions", sort=column, limit=3, page=page, **query)
            check(answer["total"] == sum(stacks.values()) and answer["count"] == len(names), "%s", answer)
            rows += answer["functions"]
            page = answer.get("next")
        check({row["name"]: (row["self"], row["total"]) for row in rows} == want and len(rows) == len(want), "%s instead of %s",
              rows, want)
        check([row["name"] for row in rows] == sorted(want, key=lambda name: (-want[name][key], name)), "%s: %s", column, rows)
    counts, total = raw_profiles.appearances(world.profiles, start_ms, end_ms)
    answer = asked(client, "/api/functions", sort="profiles", counts="true", limit=1000, **query)
    check(answer["profiles"] == total and int(answer["statistics"].get("profiles", 0)) == total, "%s instead of %d", answer, total)
    check([(row["name"], row["profiles"]) for row in answer["functions"]] ==
          sorted(counts.items(), key=lambda item: (-item[1], item[0])), "%s instead of %s", answer, counts)
    check({row["name"]: (row["self"], row["total"]) for row in answer["functions"]} == want, "%s instead of %s", answer, want)
    for parameters, meant in [({"function": name}, {name}) for name in sorted(names)] + [
            ({"regex": "step[01]|main"}, {"step0", "step1", "main"} & names), ({"function": "nobody"}, set())]:
        check_sandwich(asked(client, "/api/sandwich", **parameters, **query), stacks, meant)


def check_sandwich(answer, stacks, meant):
    callers, callees, own = {}, {}, 0
    for stack, value in stacks.items():
        at = next((i for i, name in enumerate(stack) if name in meant), None)
        if at is not None:
            inner, outer = stack[at:], tuple(reversed(stack[:at + 1]))
            callees[inner] = callees.get(inner, 0) + value
            callers[outer] = callers.get(outer, 0) + value
            own += value * (stack[-1] in meant)
    check((answer["total"], answer["self"], answer["with_callees"]) == (sum(stacks.values()), own, sum(callers.values())), "%s",
          answer)
    check(bars_of(answer["callees"]) == prefixes_of(callees), "%s: %s instead of %s", meant, answer["callees"], callees)
    check(bars_of(answer["callers"]) == prefixes_of(callers), "%s: %s instead of %s", meant, answer["callers"], callers)


def check_compare(world, client):
    """Every figure of both sides of a comparison, to the integer."""
    sides = [world.range_ms(), world.range_ms()]
    label = world.rng.choice(["pod", "zone", "pod,zone", "none,pod"])
    parameters = {"show": "all", "min_share": 0, "limit": 100000, "instance": label, "by": world.rng.choice(["share", "rate"])}
    for name, (start_ms, end_ms) in zip(("left", "right"), sides):
        parameters |= {name + "Query": CPU + SELECTOR, name + "From": start_ms, name + "Until": end_ms}
    answer = asked(client, "/api/compare", **parameters)
    stacks = [raw_profiles.merged(world.profiles, *side) for side in sides]
    want = raw_profiles.compared(*stacks)
    found = {(row["name"], row["of"]): (row["a"]["value"], row["b"]["value"]) for row in answer["changes"]}
    check(found == want and len(answer["changes"]) == len(want), "%s: %s instead of %s", parameters, found, want)
    for side, merged, range_ms in zip("ab", stacks, sides):
        check(answer[side]["total"] == sum(merged.values()), "%s: %s", side, answer)
        if answer["instance"] is not None:
            instances = raw_profiles.instances_of(world.profiles, *range_ms, answer["instance"])
            check(answer[side]["instances"] == len(instances), "%s instead of %s", answer, instances.keys())
    check(answer["empty"] == [side for side, merged in zip("ab", stacks) if not merged], "%s: %s", sides, answer)
    check(answer["statistics"]["profiles"] == sum(len(raw_profiles.in_range(world.profiles, *side)) for side in sides), "%s", answer)
    body = json.dumps(parameters)
    again = json.loads(client.send("POST", "/api/compare", body, {"Content-Type": "application/json"})[1])
    check(again["changes"] == answer["changes"], "%s by POST instead of %s", again, answer)


def check_svg(text, want):
    """A bar for each stack and each beginning of one, as wide as its share, unless nobody would see it."""
    places = {}
    for stack, value in want.items():
        for depth in range(len(stack)):
            places[stack[:depth + 1]] = places.get(stack[:depth + 1], 0) + value
    total = sum(want.values())
    space = "{http://www.w3.org/2000/svg}"
    widths = sorted(float(bar.find(space + "rect").get("width")) for bar in xml.etree.ElementTree.fromstring(text).iter(space + "g"))
    wanted = sorted([1200.0] * bool(want) + [value / total * 1200 for value in places.values() if value / total * 1200 >= 0.1])
    check(len(widths) == len(wanted) and all(abs(a - b) < 0.01 for a, b in zip(widths, wanted)), "%s instead of %s", widths,
          wanted)


def check_status(world, client, where):
    """The state says how much there is, since when, and in which levels of the bucket: `where` has those that are not empty."""
    answer = asked(client, "/api/status")
    times = [profile.time_ns // 10**6 for profile in world.profiles]
    check((answer["profiles"]["oldest_ms"], answer["profiles"]["newest_ms"]) == (min(times), max(times)), "%s", answer)
    check(answer["profiles"]["count"] >= len(times), "%s", answer)
    check([one["tenant"] for one in answer["tenants"]] == ["anonymous"] and answer["ring"] is None, "%s", answer)
    levels = answer["tenants"][0]["bucket"]["levels"]
    check(set(where) <= {level["name"] for level in levels}, "%s instead of %s", levels, where)
    check(all(("bytes" in level) == (level["name"] != "segments") for level in levels), "%s", levels)
    if where == ("1 d",):  # nothing is in the head or in segments
        check(sum(level["profiles"] for level in levels) == answer["profiles"]["count"], "%s", answer)
        check(min(level["oldest_ms"] for level in levels) == min(times), "%s", levels)
    check(answer["tenants"][0]["limits"]["adhoc_profiles_max"] == "77", "%s", answer)


def check_everything(world, server, what):
    client = flamegrid.Client(server.port)
    for number in range(12):
        for case in (check_series, check_exemplars, check_span_exemplars, check_list, check_forms, check_spans, check_diff, check_functions, check_parts, check_statistics, check_compare,
                     check_messages):
            try:
                case(world, client)
            except AssertionError as fault:
                raise AssertionError("%s, %s, question %d: %s" % (what, case.__name__, number, fault)) from fault
        check_heatmap(world, client, False)
        check_heatmap(world, client, True)


def flush(server):
    status, body = server.operate("POST", "/ingester/flush")
    check(status == 200, "flush: %d %s", status, body)


def profiles_everywhere(rng):
    """In blocks; then some in segments as well; then some in the head as well; each time all questions."""
    world = World(rng)
    with tempfile.TemporaryDirectory(prefix="flamegrid-query.") as data:
        with flamegrid.Server(*QUICK, *BUSY, data=data) as server:
            server.start().wait_ready()
            world.push(server, PROFILES)
            check_everything(world, server, "in the head")
            check_status(world, flamegrid.Client(server.port), ())
            flush(server)
            deadline = time.monotonic() + WAIT_S
            while not re.search("^flamegrid_compactor_segments_retired_total [1-9]", server.metrics(), re.MULTILINE):
                check(time.monotonic() < deadline, "no segment is retired: %s", server.log_tail())
                time.sleep(0.5)
            check_everything(world, server, "in blocks")
            check_status(world, flamegrid.Client(server.port), ("1 d",))
            check(server.terminate() == 0, "%s", server.log_tail())
        with flamegrid.Server(*QUICK, *IDLE, data=data) as server:
            server.start().wait_ready()
            world.push(server, PROFILES)
            flush(server)
            check_everything(world, server, "in blocks and segments")
            world.push(server, PROFILES)
            check_everything(world, server, "in blocks, segments and the head")
            check(server.terminate() == 0, "%s", server.log_tail())


def wrong_requests(_):
    with flamegrid.Server(*QUICK, *IDLE) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        query = urllib.parse.quote(CPU + "{}")
        compare = "/api/compare?leftQuery=" + query + "&rightQuery=" + query
        for target, want, text in (
                ("/api/profiles", 400, b'"query\\" is required'),
                ("/api/profiles?query=" + query + "&limit=0", 400, b"limit"),
                ("/api/profiles?query=" + query + "&limit=10001", 400, b"10000"),
                ("/api/profiles?query=" + query + "&page=7", 400, b"page"),
                ("/api/profiles?query=" + query + "&page=7_12", 400, b"page"),
                ("/api/profiles?query=" + query + "&page=" + "7" * 100 + "_" + "0" * 32, 400, b"page"),
                ("/api/profiles?query=" + query + "&from=99999999999999999999", 400, b"from"),
                ("/api/functions?query=" + query + "&sort=name", 400, b"sort"),
                ("/api/functions?query=" + query + "&limit=x", 400, b"limit"),
                ("/api/functions?query=" + query + "&counts=x", 400, b"counts"),
                ("/api/functions?query=" + query + "&sort=profiles", 400, b"counts=true"),
                ("/api/functions?query=" + query + "&counts=true", 200, b'"profiles":0,"count":0'),
                ("/api/functions?query=" + query, 200, b'"functions":[]'),
                ("/api/sandwich?query=" + query, 400, b"one of function and regex"),
                ("/api/sandwich?query=" + query + "&function=a&regex=b", 400, b"one of function and regex"),
                ("/api/sandwich?query=" + query + "&regex=(", 400, b"regex"),
                ("/api/sandwich?query=" + query + "&function=a&max-nodes=0", 400, b"max-nodes"),
                ("/api/compare?rightQuery=" + query, 400, b"leftQuery is missing"),
                ("/api/compare?leftQuery=" + query, 400, b"rightQuery is missing"),
                (compare + "&by=size", 400, b"share, rate"),
                (compare + "&q=1", 400, b"q: "),
                (compare + "&q=0", 400, b"no finding"),
                (compare + "&q=2e-311", 400, b"no finding"),
                (compare + "&q=0.000001", 200, b'"changes":[]'),
                (compare + "&min_share=x", 400, b"min_share"),
                (compare + "&min_share=nan", 400, b"min_share"),
                (compare + "&sort=size", 400, b"delta, change, p, name"),
                (compare + "&show=none", 400, b"changed, all"),
                (compare + "&limit=0", 400, b"limit"),
                (compare + "&page=x", 400, b"page"),
                (compare + "&instance=,a", 400, b"instance"),
                (compare + "&instance=a,b,c,d,e,f,g,h,i", 400, b"8 at most"),
                (compare + "&leftFrom=99999999999999999999", 400, b"leftFrom"),
                (compare + "&rightFrom=now&rightUntil=now-1h", 400, b"rightFrom, rightUntil"),
                ("/api/compare?leftQuery=" + query + "&rightQuery=" + urllib.parse.quote("a:b:c:d:e{}"), 400, b"different types"),
                (compare, 200, b'"changes":[]'),
                ("/pyroscope/render?query=" + query + "&from=now-1h&function=a&regex=b", 400, b"one of function and regex"),
                ("/pyroscope/render?query=" + query + "&from=now-1h&regex=(", 400, b"regex"),
                ("/pyroscope/render?query=" + query + "&from=now-1h" + "&callSite=a" * 513, 400, b"callSite: 513 functions"),
                ("/pyroscope/render?query=" + query + "&from=now-1h" + "&callSite=a" * 512, 200, b"flamebearer"),
                ("/pyroscope/render?query=" + query + "&from=now-1h&format=pprof&function=a", 400, b"not with format=pprof"),
                ("/pyroscope/render?query=" + query + "&from=now-1h&format=goPgo&regex=a", 400, b"not with format=goPgo"),
                ("/pyroscope/render?query=" + query + "&from=now-1h&format=folded&max-nodes=-1", 400, b"max flamegraph nodes"),
                ("/pyroscope/render?query=" + query + "&from=now-1h&max-nodes=1048577", 400, b"max flamegraph nodes"),
                ("/pyroscope/render?query=" + query + "&from=now-1h&format=folded&max-nodes=1048577", 200, b""),
                ("/pyroscope/render?query=" + query + "&from=now-1h&format=anything", 200, b"flamebearer"),
                ("/api/profiles/12?query=" + query, 400, b"no id"),
                ("/api/profiles/?query=" + query, 400, b"no id"),
                ("/api/profiles/" + "0" * 33 + "?query=" + query, 400, b"no id"),
                ("/api/profiles/" + "0" * 32 + "?query=" + query, 404, b"there is no profile"),
                ("/api/profiles?query=" + query, 200, b'"profiles":[]')):
            status, body = client.send("GET", target)
            check(status == want and text in body, "%s: %d %s", target, status, body)
        for body, want, text in ((b"{", 400, b"body"), (b"[]", 400, b"body: "), (b'{"a":"b"}', 400, b"no parameter"),
                                 (b'{"by":["share"]}', 400, b"neither a text nor a number"),
                                 (b'{"limit":1,"limit":2}', 400, b'limit\\": byte 19: a key'), (b'{"by":"x"} 1', 400, b"body"),
                                 (b"{}", 400, b"leftQuery is missing"), (b"", 400, b"leftQuery is missing")):
            status, answer = client.send("POST", "/api/compare", body)
            check(status == want and text in answer, "%s: %d %s", body, status, answer)


def without_debug_info(_):
    """Agents and profilecli learn that it is not stored, in the form of their protocol."""
    service = "/debuginfo.v1alpha1.DebuginfoService/"
    with flamegrid.Server(*QUICK, *IDLE) as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        status, body = client.send("POST", service + "ShouldInitiateUpload", b"{}", {"Content-Type": "application/json"})
        check(status == 200 and json.loads(body) == {"reason": "DebugInfo upload disabled"}, "%d %s", status, body)
        for method in ("UploadFinished", "ListDebuginfo", "DeleteDebuginfo"):
            for kind, content in (("application/json", b'{"gnuBuildId":"ab"}'), ("application/proto", b"")):
                status, body = client.send("POST", service + method, content, {"Content-Type": kind})
                check(status == 501 and json.loads(body)["code"] == "unimplemented", "%s: %d %s", method, status, body)
            client.connection.request("POST", service + method, bytes(5), {"Content-Type": "application/grpc-web"})
            response = client.connection.getresponse()
            check(response.status == 200 and response.getheader("grpc-status") == "12", "%s: %d %s", method, response.status, response.read())
            response.read()
        status, body = client.send("POST", service + "Upload/ab", b"\x7fELF", {"Content-Type": "application/octet-stream"})
        check(status == 501 and json.loads(body)["code"] == "unimplemented", "%d %s", status, body)


LIMITS = """overrides:
  tiny: {max_query_bytes: 1KiB}
  single: {max_concurrent_queries: 1, max_queued_queries: 1}
"""
FRAMES = 11
LARGE = 20000  # stacks: a flame graph of them takes tens of milliseconds


def push_large(server, tenant):
    now = int(time.time())
    text = "".join("%s;leaf%d 1\n" % (";".join("f%d" % (i >> shift) for shift in range(FRAMES, 0, -1)), i) for i in range(LARGE))
    status, body = flamegrid.Client(server.port, headers={"X-Scope-OrgID": tenant}).send(
        "POST", "/ingest?name=large.cpu&from=%d&until=%d" % (now - 10, now), text)
    check(status == 200, "push: %d %s", status, body)


def ask_large(client, tenant, headers=None):
    """Status, header Retry-After and body."""
    now_ms = int(time.time() * 1000)
    message = json.dumps({"profileTypeID": CPU, "labelSelector": '{service_name="large"}', "start": now_ms - 3600_000, "end": now_ms})
    client.connection.request("POST", "/querier.v1.QuerierService/SelectMergeStacktraces", message,
                              {"X-Scope-OrgID": tenant, "Content-Type": "application/json", **(headers or {})})
    response = client.connection.getresponse()
    return response.status, response.getheader("Retry-After"), response.read().decode()


def check_bytes(client, what):
    status, after, body = ask_large(client, "tiny")
    check(status == 429 and after is None and "tenant tiny" in body and "1024 bytes" in body and "limits.max_query_bytes" in body,
          "%s: %d %s %s", what, status, after, body)
    status, _, body = ask_large(client, "free")
    check(status == 200, "%s: %d %s", what, status, body[:300])


def limits_of_tenants(_):
    """A query that is refused or too late names the tenant, the limit and the setting, and others do not feel it."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as tenants:
        tenants.write(LIMITS)
        tenants.flush()
        with flamegrid.Server(*QUICK, *IDLE, "--multitenancy_enabled=true", "--tenants_file=" + tenants.name) as server:
            server.start().wait_ready()
            for tenant in ("tiny", "free", "single"):
                push_large(server, tenant)
            client = flamegrid.Client(server.port)
            check_bytes(client, "in the head")
            flush(server)
            check_bytes(client, "in a segment")
            status, _, body = ask_large(client, "free", {"Connect-Timeout-Ms": "1"})
            check(status == 504 and "tenant free took longer than 1 ms (timeout of the client)" in body, "%d %s", status, body)
            check_queue(server)
            check(server.terminate() == 0, "%s", server.log_tail())


def check_queue(server):
    """One query runs, one waits; the third is refused, and another tenant's is not."""
    answers, lock = [], threading.Lock()

    def ask_often(tenant):
        client = flamegrid.Client(server.port)
        for _ in range(15):
            answer = ask_large(client, tenant)
            with lock:
                answers.append((tenant, *answer))

    threads = [threading.Thread(target=ask_often, args=(tenant,)) for tenant in ["single"] * 6 + ["free"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [answer for answer in answers if answer[1] != 200]
    check(all(status == 200 for tenant, status, _, _ in answers if tenant == "free"), "free: %s", refused[:3])
    check(0 < len(refused) < 6 * 15, "%d of %d are refused", len(refused), len(answers))
    for tenant, status, after, body in refused:
        check(status == 429 and after and "tenant single has 1 queries that wait" in body and "limits.max_queued_queries" in body,
              "%s: %d %s %s", tenant, status, after, body)


BUSY_EVERY_S = (15, 120, 300)
GOROUTINES = "goroutines:goroutine:count:cpu:nanoseconds"
PODS = 3
HUGE = 1 << 62  # two of them do not fit into 64 bits together


def push_regular(client, now_s):
    """One busy core in profiles of equal distances, a constant number of goroutines, and values that are too large together."""
    cpu, goroutines = (("cpu", "nanoseconds"),), (("goroutine", "count"),)
    made = [("busy%d" % seconds, "process_cpu", cpu, {}, now_s - at, seconds * 10**9) for seconds in BUSY_EVERY_S
            for at in range(seconds, 7200, seconds)]
    made += [("gor", "goroutines", goroutines, {"pod": "p%d" % pod}, now_s - at, 100) for pod in range(PODS) for at in range(15, 900, 15)]
    made += [("huge", "process_cpu", cpu, {}, now_s - 60 * at, HUGE) for at in (1, 2, 3)]
    for service, name, types, labels, time_s, value in made:
        request = {"series": [exporting.series({"__name__": name, "service_name": service, **labels}, time_s * 10**9,
                                               {("main",): (value,)}, types)]}
        status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps(request), {"Content-Type": "application/json"})
        check(status == 200, "push: %d %s", status, body)


def told_series(client, type_id, service, start_ms, end_ms, step_s, **rest):
    """The statistics and the only series of SelectSeries."""
    message = {"profileTypeID": type_id, "labelSelector": '{service_name="%s"}' % service, "start": start_ms, "end": end_ms, "step": step_s}
    status, body = client.send("POST", "/querier.v1.QuerierService/SelectSeries", json.dumps({**message, **rest}),
                               {"Content-Type": "application/json", "X-Flamegrid-Statistics": "true"})
    check(status == 200, "%d %s", status, body)
    answer = json.loads(body)
    one, = answer["series"]
    return answer["statistics"], one


def compared_by_rate(client, type_id, service, now_s):
    query = '%s{service_name="%s"}' % (type_id, service)
    return asked(client, "/api/compare", leftQuery=query, rightQuery=query, by="rate", show="all",
                 **{side + name: (now_s - back) * 1000 for side in ("left", "right") for name, back in (("From", 7200), ("Until", 0))})


def check_rates(client, now_s):
    """A core is one core, however often it sends, whatever range is asked for, and in every answer that has rates."""
    for seconds in BUSY_EVERY_S:
        service = "busy%d" % seconds
        for hours, step_s in ((1, 60), (2, 15), (2, 900), (24, 300), (7 * 24, 3600)):
            _, one = told_series(client, CPU, service, (now_s - hours * 3600) * 1000, now_s * 1000, step_s)
            cores = sum(point["value"] for point in one["points"]) / one["covered"] / 1e9
            check(0.95 < cores < 1.05, "%s: %f cores in %d h by %d s: %s", service, cores, hours, step_s, one)
            if step_s <= seconds:
                check(all(0.8 < point["rate"] / 1e9 < 1.25 for point in one["points"]), "%s: %s", service, one)
        timeline = asked(client, "/pyroscope/render", query='%s{service_name="%s"}' % (CPU, service), statistics="true",
                         **{"from": (now_s - 7200) * 1000, "until": now_s * 1000})["timeline"]
        check(0.95 < sum(timeline["samples"]) / timeline["covered"] / 1e9 < 1.05, "%s: %s", service, timeline)
        answer = compared_by_rate(client, CPU, service, now_s)
        check(0.98 < answer["changes"][0]["a"]["per_second"] / 1e9 < 1.02, "%s: %s", service, answer)


def check_moments(client, now_s):
    """What there is at a moment has means and no rates."""
    _, one = told_series(client, GOROUTINES, "gor", (now_s - 900) * 1000, now_s * 1000, 60)
    check("rateUnit" not in one and not any("rate" in point for point in one["points"]) and one["unit"] == "count", "%s", one)
    _, one = told_series(client, GOROUTINES, "gor", (now_s - 900) * 1000, now_s * 1000, 60,
                         aggregation="TIME_SERIES_AGGREGATION_TYPE_AVERAGE")
    check(all(point["value"] == 100 for point in one["points"]), "%s", one)
    timeline = asked(client, "/pyroscope/render", query=GOROUTINES + '{service_name="gor"}', statistics="true",
                     **{"from": (now_s - 900) * 1000, "until": now_s * 1000})["timeline"]
    check(timeline["unit"] == "count" and not timeline.keys() & {"rates", "rate_unit"}, "%s", timeline)
    answer = compared_by_rate(client, GOROUTINES, "gor", now_s)
    figures = answer["changes"][0]["a"]
    check((figures["mean"], figures["per_second"], answer["whole"]["change"]) == (100, None, 0), "%s", answer)


def statistics_everywhere(client, service, start_s, end_s):
    """{question: (statistics in the body, headers)} of a service, by all kinds of questions; those of a comparison with itself."""
    type_id = GOROUTINES if service == "gor" else CPU
    query = '%s{service_name="%s"}' % (type_id, service)
    span = {"from": start_s * 1000, "until": end_s * 1000}
    sides = {side + name.title(): value for side in ("left", "right") for name, value in {"query": query, **span}.items()}
    message = {"profileTypeID": type_id, "labelSelector": '{service_name="%s"}' % service, "start": start_s * 1000, "end": end_s * 1000}
    as_json = {"headers": {"Content-Type": "application/json", "X-Flamegrid-Statistics": "true"}}
    found = {}
    for path, parameters in (("/api/functions", {"query": query, **span}), ("/api/functions", {"query": query, "counts": "true", **span}),
                             ("/api/sandwich", {"query": query, "function": "main", **span}), ("/api/compare", sides),
                             ("/api/labels/service_name", {"query": query, **span}),
                             ("/pyroscope/render", {"query": query, "statistics": "true", **span}),
                             ("/pyroscope/render-diff", {"statistics": "true", **sides})):
        headers, body = statistics_of(None, client, "GET", path + "?" + urllib.parse.urlencode(parameters))
        found[path, len(parameters)] = body["statistics"], headers
    for method, rest in (("SelectMergeStacktraces", {}), ("SelectMergeProfile", {}), ("SelectSeries", {"step": 7200}),
                         ("SelectSeries", {"step": 7200, "exemplarType": "EXEMPLAR_TYPE_INDIVIDUAL"})):
        headers, body = statistics_of(None, client, "POST", "/querier.v1.QuerierService/" + method,
                                      body=json.dumps({**message, **rest}), **as_json)
        found[method, len(rest)] = body["statistics"], headers
    return found


def check_counts_and_sums(client, now_s, parts):
    """Profiles count once whatever is asked about them, and a series once for each of the parts that may have it. Sums that do not fit say so."""
    wanted = {"huge": 3, "gor": PODS * 59, **{"busy%d" % seconds: 7200 // seconds - 1 for seconds in BUSY_EVERY_S}}
    for service, profiles in wanted.items():
        for what, (said, headers) in statistics_everywhere(client, service, now_s - 7200, now_s).items():
            sides = 2 if what[0] in ("/api/compare", "/pyroscope/render-diff") else 1
            series = PODS if service == "gor" else 1
            check(int(said["profiles"]) == profiles * sides, "%s %s: %s", service, what, said)
            check(series * sides <= int(said["series"]) <= series * sides * parts, "%s %s: %s", service, what, said)
            check((said["exact"], said.get("saturated")) == ((False, True) if service == "huge" else (True, None)), "%s %s: %s", service,
                  what, said)
            check(headers.get("saturated") == ("true" if service == "huge" else None), "%s %s: %s", service, what, headers)
    for what, (said, _) in statistics_everywhere(client, "huge", now_s - 90, now_s).items():
        if what[0] != "SelectSeries":  # its first point begins before the range
            check(said["exact"] is True and "saturated" not in said, "one profile, %s: %s", what, said)


def check_starts(client, now_s):
    """A grid begins at a time that nanoseconds have, or not at all."""
    for method, rest in (("SelectSeries", {}), ("SelectHeatmap", {"queryType": "HEATMAP_QUERY_TYPE_INDIVIDUAL"})):
        for start_ms, want in ((-(1 << 63), 400), (-10**15, 400), (-4611686018428, 400), (-4611686018427, 200), (9223372036855, 400)):
            message = {"profileTypeID": CPU, "labelSelector": '{service_name="busy120"}', "start": start_ms,
                       "end": max(start_ms + 1, now_s * 1000), "step": 60, **rest}
            status, body = client.send("POST", "/querier.v1.QuerierService/" + method, json.dumps(message),
                                       {"Content-Type": "application/json"})
            check(status == want and (b"no time that a grid can begin at" in body) == (want == 400), "%d: %d %s", start_ms, status, body)
            for one in json.loads(body).get("series", []):
                for point in one.get("points", []) + one.get("slots", []):
                    check(0 <= int(point["timestamp"]) - (now_s - 7200) * 1000 <= 7200_000, "%s: %s", method, point)


def check_incomplete(data, now_s):
    """Without its segments the answer is not complete, which Connect's JSON says and does not leave out."""
    shutil.rmtree(os.path.join(data, "bucket", "objects", "segments"))
    message = {"profileTypeID": CPU, "labelSelector": '{service_name="busy120"}', "start": (now_s - 7200) * 1000, "end": now_s * 1000}
    with flamegrid.Server(*QUICK, *IDLE, data=data) as server:
        server.start().wait_ready()
        headers, answer = statistics_of(None, flamegrid.Client(server.port), "POST",
                                        "/querier.v1.QuerierService/SelectMergeStacktraces?partial=true&statistics=true",
                                        body=json.dumps(message), headers={"Content-Type": "application/json"})
        said = answer["statistics"]
        check(said["complete"] is False and headers["complete"] == "false" and said["missing"] and said["exact"] is True, "%s", said)


def rates_counts_and_sums(_):
    now_s = int(time.time()) // 300 * 300
    with tempfile.TemporaryDirectory(prefix="flamegrid-query.") as data:
        # A limit of the lookback, which cuts off most of a grid that begins early.
        with flamegrid.Server(*QUICK, *IDLE, "--limits.max_query_lookback", "30d", data=data) as server:
            server.start().wait_ready()
            client = flamegrid.Client(server.port)
            push_regular(client, now_s)
            # After a flush the head may still have series without profiles.
            for what, parts in (("in the head", 1), ("in a segment", 2)):
                try:
                    check_rates(client, now_s)
                    check_moments(client, now_s)
                    check_counts_and_sums(client, now_s, parts)
                    check_starts(client, now_s)
                except AssertionError as fault:
                    raise AssertionError("%s: %s" % (what, fault)) from fault
                flush(server)
            check(server.terminate() == 0, "%s", server.log_tail())
        check_incomplete(data, now_s)


def main():
    arguments, tally = flamegrid.parse_seeded(flamegrid.arguments_of(__doc__))
    for case in (profiles_everywhere, wrong_requests, without_debug_info, rates_counts_and_sums, limits_of_tenants, pgo_test.go_pgo,
                 compare_test.one_program, compare_test.planted_changes):
        tally.run(case.__name__, case, random.Random(arguments.seed))
    tally.finish()


if __name__ == "__main__":
    main()
