"""Values as large as they get: sums that do not fit in 64 bits saturate, those that do stay exact. The
server has the undefined behaviour sanitizer: one sum that overflows ends it."""

import json
import os
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
import pprof  # noqa: E402
import unsymbolised  # noqa: E402
from flamegrid import check  # noqa: E402

MOST = (1 << 63) - 1
TYPE = unsymbolised.TYPE
STACKS = {("main", "a"): (MOST,), ("main", "b"): (MOST,), ("main", "c", "d"): (5,), ("main", "c"): (MOST - 4,), ("e",): (7,)}
TIMES, PODS = 4, ("a", "b")
# Sums of all of TIMES and PODS, by stack: its own, and its total.
SELF = {"main;a": MOST, "main;b": MOST, "main;c": MOST, "main;c;d": 5 * TIMES * len(PODS), "e": 7 * TIMES * len(PODS)}


def push(client, start_s):
    for number in range(TIMES):
        for pod in PODS:
            body = pprof.make(STACKS, (start_s + 3600 * number) * 10**9, unsymbolised.CPU)
            query = urllib.parse.urlencode({"name": "extreme{pod=%s}" % pod, "format": "pprof"})
            status, answer = client.send("POST", "/ingest?" + query, body)
            check(status == 200, "%d %s", status, answer)


def bars(graph, width):
    """{name: numbers} of a flame graph in which every name is there once."""
    return {graph["names"][int(values[at + width - 1])]: [int(value) for value in values[at:at + width - 1]]
            for values in (level["values"] for level in graph["levels"]) for at in range(0, len(values), width)}


def check_all(client, port, span):
    side = {"profileTypeID": TYPE, "labelSelector": '{service_name="extreme"}', **span}
    small = {name.rsplit(";", 1)[-1]: value for name, value in SELF.items()}
    graph = client.ask("SelectMergeStacktraces", **side)["flamegraph"]
    found = {name: numbers[1:] for name, numbers in bars(graph, 4).items()}
    check(found == {"total": [MOST, 0], "main": [MOST, 0], "c": [MOST, MOST], **{name: [small[name]] * 2 for name in "abde"}},
          "%s", found)
    check(int(graph["total"]) == MOST, "%s", graph["total"])
    profile = client.merged_profile(TYPE, side["labelSelector"], span["start"], span["end"])
    check(pprof.folded_json(profile) == SELF, "%s", pprof.folded_json(profile))
    graph = client.ask("Diff", left=side, right={**side, "labelSelector": '{service_name="extreme",pod="a"}'})["flamegraph"]
    check(int(graph["leftTicks"]) == int(graph["rightTicks"]) == int(graph["total"]) == MOST, "%s", graph)
    check(bars(graph, 7)["e"][1:3] == [56, 56] and bars(graph, 7)["e"][4:6] == [28, 28], "%s", bars(graph, 7)["e"])
    for limit in (1, 2, 3):
        client.ask("SelectMergeStacktraces", **side, maxNodes=limit)
        client.ask("Diff", left=side, right=side, maxNodes=limit)
    total = client.series_total(TYPE, side["labelSelector"], span["start"], span["end"])
    check(total == float(MOST), "%s", total)
    series = client.ask("SelectSeries", **side, step=3600, groupBy=["pod"])["series"]
    check({point["value"] for one in series for point in one["points"] if point["value"] != 0} == {float(MOST)}, "%s", series)
    query = urllib.parse.urlencode({"query": TYPE + side["labelSelector"], "from": span["start"], "until": span["end"]})
    status, body = client.send("GET", "/pyroscope/render?" + query)
    check(status == 200 and json.loads(body)["flamebearer"]["numTicks"] == MOST, "%d %s", status, body)
    left = urllib.parse.urlencode({"leftQuery": TYPE + side["labelSelector"], "leftFrom": span["start"], "leftUntil": span["end"],
                                   "rightQuery": TYPE + side["labelSelector"], "rightFrom": span["start"], "rightUntil": span["end"]})
    status, body = client.send("GET", "/pyroscope/render-diff?" + left)
    check(status == 200 and json.loads(body)["leftTicks"] == MOST, "%d %s", status, body)
    done = subprocess.run(
        [flamegrid.binary(), "query", "extreme", "--url", "http://127.0.0.1:%d" % port, "--type", TYPE, "--output", "folded",
         "--from", str(span["start"] // 1000), "--until", str(span["end"] // 1000)], capture_output=True, check=True)
    lines = dict(line.rsplit(" ", 1) for line in done.stdout.decode().splitlines())
    check({stack: int(value) for stack, value in lines.items()} == SELF, "%s", lines)


def sums_beyond_64_bits_saturate():
    start_s = (int(time.time()) // unsymbolised.DAY_S - 3) * unsymbolised.DAY_S + 3600
    span = {"start": (start_s - 60) * 1000, "end": (start_s + TIMES * 3600) * 1000}
    with flamegrid.Server(*unsymbolised.SETTINGS, "--compactor.interval", "1h") as server:
        port = server.start().wait_ready().port
        client = flamegrid.Client(port)
        push(client, start_s)
        check_all(client, port, span)  # of the head
        status, answer = server.operate("POST", "/ingester/flush")
        check(status == 200, "%d %s", status, answer)
        check_all(client, port, span)  # of segments
        check(server.terminate() == 0, "%s", server.log_tail())
        server.arguments = unsymbolised.SETTINGS
        client = flamegrid.Client(server.start().wait_ready().port)
        unsymbolised.wait_compacted(server)
        check_all(client, port, span)  # of a block of a day
        check(server.terminate() == 0, "%s", server.log_tail())
        verified = subprocess.run([flamegrid.binary(), "bucket", "verify", "--data", server.data], capture_output=True, check=False)
        check(verified.returncode == 0, "%s", verified)
