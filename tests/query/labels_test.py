#!/usr/bin/env python3
"""Names and values of labels with the numbers of their series, from the head, segments and blocks, against a slow model.

    labels_test.py [-k REGEX] [--seed N]
"""

import json
import os
import random
import re
import sys
import tempfile
import time
import urllib.parse

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, folder) for folder in ("lib", "bucket")]

import exporting  # noqa: E402
import flamegrid  # noqa: E402
import raw_labels  # noqa: E402
from flamegrid import check  # noqa: E402

DAY_S = 86400
WAIT_S = 60
PROFILES = 60  # of each place
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
KINDS = {"process_cpu": (("cpu", "nanoseconds"),),
         "memory": (("alloc_space", "bytes"), ("inuse_space", "bytes"), ("inuse_objects", "count"))}
QUICK = ["--compactor.hour_delay", "0s", "--compactor.day_delay", "0s", "--compactor.fold_quiet", "0s",
         "--compactor.retire_after", "0s", "--querier.manifest_age", "1s", "--ingester.segments.evict_after", "0s",
         "--ingester.segments.poll", "1s"]
BUSY, IDLE = ["--compactor.interval", "1s"], ["--compactor.interval", "1h"]
SELECTORS = {  # text without the type: (type, whether stored labels match)
    "": (None, lambda labels: True),
    "{}": (None, lambda labels: True),
    '{service_name="shop"}': (None, lambda labels: labels["service_name"] == "shop"),
    '{pod=~"p[0-4]", zone!="z1"}': (None, lambda labels: re.fullmatch("p[0-4]", labels["pod"]) and labels.get("zone") != "z1"),
    '{service_name="none"}': (None, lambda labels: False),
    CPU + "{}": (CPU, lambda labels: True),
    "memory:inuse_space:bytes:cpu:nanoseconds" + '{service_name="cart"}':
        ("memory:inuse_space:bytes:cpu:nanoseconds", lambda labels: labels["service_name"] == "cart"),
}


class World:
    """Profiles of two days, so that the range of one is before that of the other."""

    def __init__(self, rng):
        self.rng = rng
        self.start_s = int(time.time()) // DAY_S * DAY_S - 5 * DAY_S
        self.samples = []

    def day_ms(self, day):
        start_ms = (self.start_s + day * DAY_S) * 1000
        return start_ms, start_ms + DAY_S * 1000 - 1

    def range_ms(self):
        return self.start_s * 1000, (self.start_s + 2 * DAY_S) * 1000 - 1

    def draw(self, number):
        rng = self.rng
        name = rng.choice(list(KINDS))
        labels = {"__name__": name, "service_name": rng.choice(["shop", "cart"]), "pod": "p%d" % rng.randrange(9)}
        if rng.randrange(2):
            labels["zone"] = rng.choice(["z0", "z1", "Zürich \"1\"", "a/b"])
        if rng.randrange(3) == 0:
            labels["k8s.node"] = "n%d" % rng.randrange(3)
        time_ns = (self.start_s + rng.randrange(2) * DAY_S + rng.randrange(DAY_S // 2)) * 10**9 + number
        values = tuple(rng.randrange(1, 1000) * 10**6 for _ in KINDS[name])
        kinds = ["%s:%s:%s:cpu:nanoseconds" % (name, kind, unit) for kind, unit in KINDS[name]]
        return raw_labels.Sample(labels, time_ns, dict(zip(kinds, values))), values

    def push(self, server, count):
        pushed = []
        for number in range(count):
            sample, values = self.draw(number)
            pushed.append(exporting.series(sample.labels, sample.time_ns, {("main", "work"): values}, KINDS[sample.labels["__name__"]]))
            self.samples.append(sample)
        push(server, pushed)

    def chosen(self, query, start_ms, end_ms):
        profile_type, matches = SELECTORS[query]
        return raw_labels.chosen(self.samples, start_ms, end_ms, profile_type, matches)


def push(server, series):
    status, body = flamegrid.Client(server.port).send("POST", "/push.v1.PusherService/Push", json.dumps({"series": series}),
                                                      {"Content-Type": "application/json"})
    check(status == 200, "push: %d %s", status, body)


def asked(client, path, **parameters):
    status, body = client.send("GET", path + "?" + urllib.parse.urlencode(parameters))
    check(status == 200, "%s %s: %d %s", path, parameters, status, body)
    return json.loads(body)


def path_of(name):
    return "/api/labels/" + urllib.parse.quote(name, safe="")


def all_pages(client, path, rows, limit, **parameters):
    """The rows of all pages, one after another."""
    answer = asked(client, path, limit=limit, **parameters)
    found = answer[rows]
    while "next" in answer:
        check(len(answer[rows]) == limit and answer["next"] == len(found), "%s", answer)
        answer = asked(client, path, limit=limit, page=answer["next"], **parameters)
        found += answer[rows]
    check(len(found) == answer["count"] and "truncated" not in answer, "%s", answer)
    return found


def check_names(world, client, query):
    start_ms, end_ms = world.range_ms()
    parameters = {"query": query, "from": start_ms, "until": end_ms}
    known = raw_labels.names(world.chosen(query, start_ms, end_ms))
    want = [{"name": name, "series": len(series), "values": len(values)} for name, (series, values) in known.items()]
    answer = asked(client, "/api/labels", **parameters)
    check(answer["series"] == len(raw_labels.series(world.chosen(query, start_ms, end_ms))), "%s: %s", query, answer)
    for sort, key in (("", lambda row: ()), ("name", lambda row: ()), ("series", lambda row: -row["series"]),
                      ("values", lambda row: -row["values"])):
        rows = sorted(want, key=lambda row: (key(row), row["name"].encode()))
        found = all_pages(client, "/api/labels", "labels", world.rng.randrange(1, 20), sort=sort, **parameters)
        check(found == rows, "%s by %s: %s instead of %s", query, sort, found, rows)
    found = all_pages(client, "/api/labels", "labels", 100, prefix="__", regex=".*type.*", **parameters)
    check([row["name"] for row in found] == sorted(raw_labels.restricted(known, "__", ".*type.*")), "%s: %s", query, found)


def check_values(world, client, query, name):
    start_ms, end_ms = world.range_ms()
    parameters = {"query": query, "from": start_ms, "until": end_ms}
    chosen = world.chosen(query, start_ms, end_ms)
    known = raw_labels.values(chosen, name)
    typed = SELECTORS[query][0] is not None
    totals = raw_labels.totals(chosen, name)
    want = [{"value": value, "series": len(series), **({"total": totals[value]} if typed else {})} for value, series in known.items()]
    limit = world.rng.randrange(1, 20)
    for sort, key in (("name", None), ("series", "series")) + ((("value", "total"),) if typed else ()):
        rows = sorted(want, key=lambda row: (-row[key] if key else 0, row["value"].encode()))
        found = all_pages(client, path_of(name), "values", limit, sort=sort, **parameters)
        for row in found:
            share = row.pop("share", None)
            check((share is not None) == typed and (not typed or abs(share - row["total"] / sum(totals.values())) < 1e-5), "%s: %s",
                  query, row)
        check(found == rows, "%s of %s by %s: %s instead of %s", name, query, sort, found, rows)
    answer = asked(client, path_of(name), **parameters)
    check(answer["label"] == name and answer["series"] == len(raw_labels.series(chosen)), "%s", answer)
    check(not typed or (answer["total"] == sum(totals.values()) and answer["type"] == SELECTORS[query][0]), "%s", answer)
    for prefix, regex in (("p", "p[0-3]"), ("z", ""), ("", "[a-z]/?[a-z]|Z.*"), ("Zü", "")):
        found = all_pages(client, path_of(name), "values", limit, prefix=prefix, regex=regex, **parameters)
        rows = sorted(raw_labels.restricted(known, prefix, regex or ".*"), key=str.encode)
        check([row["value"] for row in found] == rows, "%s of %s, %s %s: %s instead of %s", name, query, prefix, regex, found, rows)


def check_connect(world, client):
    """What Connect lists is the same."""
    start_ms, end_ms = world.range_ms()
    whole = {"start": start_ms, "end": end_ms}
    for query in ("{}", '{service_name="shop"}', '{pod=~"p[0-4]", zone!="z1"}', '{service_name="none"}'):
        known = raw_labels.names(world.chosen(query, start_ms, end_ms))
        found = client.ask("LabelNames", matchers=[query], **whole).get("names", [])
        check(found == sorted(name for name in known if "." not in name), "%s: %s instead of %s", query, found, known)
        for name in list(known) + ["none"]:
            values = client.ask("LabelValues", name=name, matchers=[query], **whole).get("names", [])
            check(values == sorted(known.get(name, (0, set()))[1], key=str.encode), "%s of %s: %s", name, query, values)
    status, body = client.send("POST", "/querier.v1.QuerierService/LabelNames", json.dumps(whole),
                               {"Content-Type": "application/json", "Accept": "*/*; allow-utf8-labelnames=true"})
    check(status == 200 and "k8s.node" in json.loads(body)["names"], "%d %s", status, body)


def counts_of(row, what):
    return row[what], row[what + "_before"], row[what + "_new"]


def check_growth(world, client, query):
    """Of the second day: the range before is the first one."""
    before_ms, now_ms = world.day_ms(0), world.day_ms(1)
    parameters = {"query": query, "from": now_ms[0], "until": now_ms[1], "growth": "true"}
    before, now = world.chosen(query, *before_ms), world.chosen(query, *now_ms)
    known, known_before = raw_labels.names(now), raw_labels.names(before)
    answer = asked(client, "/api/labels", **parameters)
    check(answer["before"] == {"from": before_ms[0], "until": before_ms[1]}, "%s", answer["before"])
    check(counts_of(answer, "series") == raw_labels.compared(raw_labels.series(now), raw_labels.series(before)), "%s: %s", query, answer)
    check({row["name"] for row in answer["labels"]} == known.keys() | known_before.keys(), "%s", answer)
    for row in answer["labels"]:
        mine, other = (names.get(row["name"], (set(), set())) for names in (known, known_before))
        for at, what in enumerate(("series", "values")):
            want = raw_labels.compared(mine[at], other[at])
            check(counts_of(row, what) == want, "%s, %s of %s: %s instead of %s", query, what, row["name"], row, want)
    for name in ("pod", "zone", "__type__", "service_name"):
        known, known_before = raw_labels.values(now, name), raw_labels.values(before, name)
        rows = all_pages(client, path_of(name), "values", 3, **parameters)
        check({row["value"] for row in rows} == known.keys() | known_before.keys(), "%s: %s", name, rows)
        for row in rows:
            want = raw_labels.compared(known.get(row["value"], set()), known_before.get(row["value"], set()))
            check(counts_of(row, "series") == want, "%s, %s: %s instead of %s", query, name, row, want)


def check_everything(world, server, what):
    client = flamegrid.Client(server.port)
    try:
        for query in SELECTORS:
            check_names(world, client, query)
            check_growth(world, client, query)
            for name in ("service_name", "pod", "zone", "k8s.node", "__type__", "__profile_type__", "__name__", "none"):
                check_values(world, client, query, name)
        check_connect(world, client)
    except AssertionError as fault:
        raise AssertionError("%s: %s" % (what, fault)) from fault


def flush(server):
    status, body = server.operate("POST", "/ingester/flush")
    check(status == 200, "flush: %d %s", status, body)


def labels_everywhere(rng):
    """In the head; in blocks; then some in segments as well; then some in the head as well; each time all questions."""
    world = World(rng)
    with tempfile.TemporaryDirectory(prefix="flamegrid-labels.") as data:
        with flamegrid.Server(*QUICK, *BUSY, data=data) as server:
            server.start().wait_ready()
            world.push(server, PROFILES)
            check_everything(world, server, "in the head")
            flush(server)
            deadline = time.monotonic() + WAIT_S
            while not re.search("^flamegrid_compactor_segments_retired_total [1-9]", server.metrics(), re.MULTILINE):
                check(time.monotonic() < deadline, "no segment is retired: %s", server.log_tail())
                time.sleep(0.5)
            check_everything(world, server, "in blocks")
            check(server.terminate() == 0, "%s", server.log_tail())
        with flamegrid.Server(*QUICK, *IDLE, data=data) as server:
            server.start().wait_ready()
            world.push(server, PROFILES)
            flush(server)
            check_everything(world, server, "in blocks and segments")
            world.push(server, PROFILES)
            check_everything(world, server, "in blocks, segments and the head")
            check(server.terminate() == 0, "%s", server.log_tail())


def lists_that_are_cut(_):
    """More text of values than memory: the first values are exact, and the answer says that others are missing."""
    values = ["%04d" % number + "x" * 1000 for number in range(500)]
    with flamegrid.Server(*QUICK, *IDLE, "--querier.answer_max_bytes", "1MiB") as server:
        server.start().wait_ready()
        now_ns = int(time.time()) * 10**9
        push(server, [exporting.series({"__name__": "process_cpu", "service_name": "shop", "request": value}, now_ns + number,
                                       {("main",): (1,)}, KINDS["process_cpu"]) for number, value in enumerate(values)])
        client = flamegrid.Client(server.port)
        for place in ("in the head", "in a segment"):
            answer = asked(client, path_of("request"), sort="series")
            check(answer["truncated"] == {"what": ["values"], "setting": "querier.answer_max_bytes", "limit": 1 << 20}, "%s: %s", place,
                  answer.get("truncated"))
            found = answer["values"]
            check(len(found) > 50 and answer["count"] < 500 and answer["series"] == 500, "%s: %d of %d", place, len(found), answer["count"])
            check(found == [{"value": value, "series": 1} for value in values[:len(found)]], "%s: %s", place, found[0])
            answer = asked(client, path_of("request"), prefix="04")
            check("truncated" not in answer and [row["value"] for row in answer["values"]] == values[400:500], "%s: %s", place,
                  answer["count"])
            check("truncated" not in asked(client, "/api/labels"), "%s", place)
            status, body = client.send("POST", "/querier.v1.QuerierService/LabelValues",
                                       json.dumps({"name": "request", "start": 1, "end": now_ns // 10**6 + 1000}),
                                       {"Content-Type": "application/json"})
            check(status == 429 and b"answer_max_bytes" in body, "%s: %d %s", place, status, body)
            flush(server)
        check(server.terminate() == 0, "%s", server.log_tail())


def indexes_that_are_cut(_):
    """More values than the index of one ingester may have in memory."""
    with flamegrid.Server(*QUICK, *IDLE, "--querier.answer_max_bytes", "1MiB") as server:
        server.start().wait_ready()
        now_ns = int(time.time()) * 10**9
        values = ["%05d" % number for number in range(20000)]
        for begin in range(0, len(values), 2000):
            push(server, [exporting.series({"__name__": "process_cpu", "service_name": "shop", "request": value}, now_ns,
                                           {("main",): (1,)}, KINDS["process_cpu"]) for value in values[begin:begin + 2000]])
        client = flamegrid.Client(server.port)
        answer = asked(client, path_of("request"), limit=10000)
        check("values" in answer["truncated"]["what"] and answer["count"] < len(values), "%s", answer.get("truncated"))
        found = answer["values"]
        check(len(found) > 1000 and found == [{"value": value, "series": 1} for value in values[:len(found)]], "%d", len(found))
        check(server.terminate() == 0, "%s", server.log_tail())


def wrong_requests(_):
    with flamegrid.Server(*QUICK, *IDLE) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        typed = urllib.parse.quote(CPU + "{}")
        for target, want, text in (
                ("/api/labels", 200, b'"labels":[]'),
                ("/api/labels/pod", 200, b'"values":[]'),
                ("/api/labels/", 400, b"name of the label"),
                ("/api/labels/a%00b", 400, b""),
                ("/api/labels/" + "a" * 5000, 400, b"4096 bytes"),
                ("/api/labels?query={", 400, b"query"),
                ("/api/labels?query=process_cpu{}", 400, b"query"),
                ("/api/labels?limit=0", 400, b"limit"),
                ("/api/labels?limit=10001", 400, b"10000"),
                ("/api/labels?page=-1", 400, b"page"),
                ("/api/labels?from=99999999999999999999", 400, b"from"),
                ("/api/labels?from=now&until=now-1h", 400, b"after end"),
                ("/api/labels?growth=1", 400, b"growth"),
                ("/api/labels?growth=true&from=1&until=now", 200, b'"before":null'),
                ("/api/labels?sort=value", 400, b"sort"),
                ("/api/labels?regex=(", 400, b"regex"),
                ("/api/labels/pod?sort=values", 400, b"sort"),
                ("/api/labels/pod?sort=value", 400, b"profile type"),
                ("/api/labels/pod?sort=value&query=" + typed, 200, b'"total":0'),
                ("/api/labels/pod?regex=(", 400, b"regex"),
                ("/api/labels/pod?page=2147483647", 200, b'"values":[]')):
            status, body = client.send("GET", target)
            check(status == want and text in body, "%s: %d %s", target, status, body)


def main():
    arguments, tally = flamegrid.parse_seeded(flamegrid.arguments_of(__doc__))
    for case in (labels_everywhere, lists_that_are_cut, indexes_that_are_cut, wrong_requests):
        tally.run(case.__name__, case, random.Random(arguments.seed))
    tally.finish()


if __name__ == "__main__":
    main()
