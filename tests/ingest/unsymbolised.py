"""Frames without names, and samples without a stack: every answer has their values, from heads, segments and
compacted blocks alike, and a pprof has their addresses and mappings for later symbolisation."""

import json
import os
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
import otlp  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

DAY_S = 86400
WAIT_S = 120
TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
CPU = (("cpu", "nanoseconds"),)
SETTINGS = ["--compactor.interval", "1s", "--compactor.hour_delay", "0s", "--compactor.day_delay", "0s",
            "--compactor.rollup_min_bytes", "1", "--querier.manifest_age", "1s", "--ingester.segments.evict_after", "0s",
            "--ingester.segments.poll", "1s", "--ingester.segments.grace", "0s"]
LEAF, CALLER, ALONE = 0x7F0000012340, 0x7F0000000010, 0x5555
NAMES = {LEAF: "libc.so.6+0x13340", CALLER: "libc.so.6+0x1010", ALONE: "0x5555"}
# What each service sends each time, and whether its mapping says that it has functions.
SERVICES = {
    "addresses": ({(CALLER, LEAF): (3,), (ALONE,): (4,)}, False),
    "mixed": ({("main", "work"): (5,), ("main", LEAF): (6,), ("main", CALLER, "callback"): (7,), (LEAF, "main"): (8,)}, True),
    "nothing": ({(): (9,), ("main",): (1,)}, False),
}
PODS, TIMES = ("a", "b"), 6


def path(stack):
    return ";".join(NAMES.get(frame, frame) for frame in stack) or "[no stack]"


def wanted(service, times):
    return {path(stack): values[0] * times for stack, values in SERVICES[service][0].items()}


def selector(service, pod=None):
    return '{service_name="%s"%s}' % (service, ',pod="%s"' % pod if pod else "")


def push(client, start_s):
    for number in range(TIMES):
        time_ns = (start_s + 3600 * number) * 10**9
        for service, (stacks, has_functions) in SERVICES.items():
            for pod in PODS:
                body = pprof.make(stacks, time_ns, CPU, has_functions=has_functions)
                query = urllib.parse.urlencode({"name": "%s{pod=%s}" % (service, pod), "format": "pprof"})
                status, answer = client.send("POST", "/ingest?" + query, body)
                check(status == 200, "%d %s", status, answer)


def folded_levels(names, levels, width=4):
    """{stack: self} of a flame graph: what lies above a bar begins within it."""
    found, above = {}, []
    for level in levels:
        bars, x = [], 0
        for at in range(0, len(level), width):
            x += int(level[at])
            bar_end, name = x + int(level[at + 1]), names[int(level[at + 3])]
            parents = [stack for start, end, stack in above if start <= x and bar_end <= end]
            stack = parents[0] + [name] if parents else []
            if int(level[at + 2]) != 0:
                found[";".join(stack)] = found.get(";".join(stack), 0) + int(level[at + 2])
            bars.append((x, bar_end, stack))
            x = bar_end
        above = bars
    return found


def check_flame(client, service, span, pod=None, times=None):
    want = wanted(service, times or TIMES * len(PODS))
    graph = client.ask("SelectMergeStacktraces", profileTypeID=TYPE, labelSelector=selector(service, pod), **span)["flamegraph"]
    found = folded_levels(graph["names"], [level["values"] for level in graph["levels"]])
    check(found == want, "%s: flame graph %s, not %s", service, found, want)
    check(int(graph["total"]) == sum(want.values()), "%s: total %s", service, graph["total"])


def check_render(client, service, span):
    query = urllib.parse.urlencode({"query": TYPE + selector(service), "from": span["start"], "until": span["end"]})
    status, body = client.send("GET", "/pyroscope/render?" + query)
    check(status == 200, "%d %s", status, body)
    answer, want = json.loads(body), wanted(service, TIMES * len(PODS))
    bearer = answer["flamebearer"]
    check(folded_levels(bearer["names"], bearer["levels"]) == want, "%s: %s", service, bearer)
    check(bearer["numTicks"] == sum(want.values()), "%s: %d ticks", service, bearer["numTicks"])
    check(sum(answer["timeline"]["samples"]) == sum(want.values()), "%s: %s", service, answer["timeline"])


def check_diff(client, span):
    sides = [{"profileTypeID": TYPE, "labelSelector": selector(service), **span} for service in ("mixed", "nothing")]
    graph = client.ask("Diff", left=sides[0], right=sides[1])["flamegraph"]
    for side, service in (("leftTicks", "mixed"), ("rightTicks", "nothing")):
        check(int(graph[side]) == sum(wanted(service, TIMES * len(PODS)).values()), "%s: %s", side, graph[side])
    check({NAMES[LEAF], NAMES[CALLER], "[no stack]", "callback"} <= set(graph["names"]), "%s", graph["names"])


def check_pprof(client, service, span):
    """Addresses stay addresses: answers have no invented function, and their mapping is known."""
    profile = client.merged_profile(TYPE, selector(service), span["start"], span["end"])
    stacks, strings = SERVICES[service][0], profile["stringTable"]
    want = {";".join("0x%x" % f if isinstance(f, int) else f for f in stack): values[0] * TIMES * len(PODS)
            for stack, values in stacks.items()}
    check(pprof.folded_json(profile) == want, "%s: %s, not %s", service, pprof.folded_json(profile), want)
    names = {strings[int(function["name"])] for function in profile.get("function", [])}
    check(names == {frame for stack in stacks for frame in stack if isinstance(frame, str)}, "%s: %s", service, names)
    mappings = {mapping["id"]: mapping for mapping in profile.get("mapping", [])}
    start, limit, offset, file, build_id = pprof.LIBRARY
    for location in profile["location"]:
        address = int(location.get("address", 0))
        check(bool(location.get("line")) != bool(address), "%s: %s", service, location)
        if start <= address < limit:
            mapping = mappings[location["mappingId"]]
            check((int(mapping["memoryStart"]), int(mapping["memoryLimit"]), int(mapping["fileOffset"]),
                   strings[int(mapping["filename"])], strings[int(mapping["buildId"])], mapping.get("hasFunctions", False))
                  == (start, limit, offset, file, build_id, False), "%s: %s", service, mapping)


def check_call_site(client, span):
    site = {"callSite": [{"name": "main"}, {"name": NAMES[CALLER]}]}
    graph = client.ask("SelectMergeStacktraces", profileTypeID=TYPE, labelSelector=selector("mixed"),
                       stackTraceSelector=site, **span)["flamegraph"]
    check(int(graph["total"]) == 7 * TIMES * len(PODS), "%s", graph)


def check_command(port, service, span):
    """Stacks and table of the command line."""
    base = [flamegrid.binary(), "query", service, "--url", "http://127.0.0.1:%d" % port, "--type", TYPE,
            "--from", str(span["start"] // 1000), "--until", str(span["end"] // 1000)]
    want = wanted(service, TIMES * len(PODS))
    lines = subprocess.run([*base, "--output", "folded"], capture_output=True, check=True).stdout.decode().splitlines()
    found = {stack: int(value) for stack, value in (line.rsplit(" ", 1) for line in lines)}
    check(found == want, "%s: %s", service, found)
    table = subprocess.run([*base, "--output", "table"], capture_output=True, check=True).stdout.decode()
    for name in {stack.rsplit(";", 1)[-1] for stack in want}:
        check(name in table, "%s is not in %s", name, table)


def check_all(client, port, span):
    for service in SERVICES:
        check_flame(client, service, span)
        check_flame(client, service, span, "b", TIMES)
        half = {"start": span["start"], "end": span["start"] + (TIMES // 2) * 3600 * 1000 - 1}
        check_flame(client, service, half, None, TIMES // 2 * len(PODS))
        check_render(client, service, span)
        check_pprof(client, service, span)
        check_command(port, service, span)
        total = sum(wanted(service, TIMES * len(PODS)).values())
        series = client.series_total(TYPE, selector(service), span["start"], span["end"])
        check(series == total, "%s: a series of %d, not %d", service, series, total)
    check_diff(client, span)
    check_call_site(client, span)


def wait_compacted(server):
    """Waits until all profiles are in a daily block."""
    deadline = time.monotonic() + WAIT_S
    while True:
        status = json.loads(server.operate("GET", "/compactor/status")[1])
        if bool(status["tenants"]) and status["job"] is None and all(
                tenant["uncovered_segments"] == 0 and tenant["blocks"]["hour"] == 0 and tenant["blocks"]["day"] > 0
                for tenant in status["tenants"]):
            return
        check(time.monotonic() < deadline, "compaction does not end: %s", status)
        time.sleep(0.2)


def otlp_frames(start_s):
    """Native frames as OpenTelemetry's eBPF profiler has them: addresses of the ELF file, in a mapping moved alike."""
    table = b"".join(pprof.message(5, text.encode()) for text in
                     ("", "samples", "count", "cpu", "nanoseconds", "/usr/lib/libc.so.6"))
    table += pprof.message(1, b"") + pprof.message(1, pprof.number(1, 0x1000) + pprof.number(2, 0x200000)
                                                   + pprof.number(3, 0x1000) + pprof.number(4, 5))
    table += pprof.message(2, b"") + pprof.message(2, pprof.number(1, 1) + pprof.number(2, 0x13340))
    table += pprof.message(7, b"") + pprof.message(7, pprof.packed(1, [1]))
    samples = (pprof.message(2, pprof.number(1, 1) + pprof.packed(4, [2])) + pprof.message(2, pprof.packed(4, [3])))
    profile = (pprof.message(1, pprof.number(1, 1) + pprof.number(2, 2)) + samples
               + otlp.field(3, 1, (start_s * 10**9).to_bytes(8, "little"))
               + pprof.message(5, pprof.number(1, 3) + pprof.number(2, 4)) + pprof.number(6, 10))
    service = pprof.message(1, b"service.name") + pprof.message(2, pprof.message(1, b"ebpf"))
    resource = pprof.message(1, pprof.message(1, service)) + pprof.message(2, pprof.message(2, profile))
    return pprof.message(1, resource) + pprof.message(2, table)


def check_otlp(client, span):
    graph = client.ask("SelectMergeStacktraces", profileTypeID=TYPE, labelSelector=selector("ebpf"), **span)["flamegraph"]
    found = folded_levels(graph["names"], [level["values"] for level in graph["levels"]])
    check(found == {NAMES[LEAF]: 20, "[no stack]": 30}, "%s", found)


def frames_without_names():
    start_s = (int(time.time()) // DAY_S - 3) * DAY_S + 3600
    span = {"start": (start_s - 60) * 1000, "end": (start_s + TIMES * 3600) * 1000}
    with flamegrid.Server(*SETTINGS, "--compactor.interval", "1h") as server:
        port = server.start().wait_ready().port
        client = flamegrid.Client(port)
        push(client, start_s)
        status, answer = client.send("POST", "/v1development/profiles", otlp_frames(start_s),
                                     {"Content-Type": "application/x-protobuf"})
        check(status == 200, "%d %s", status, answer)
        check_all(client, port, span)  # of the head
        check_otlp(client, span)
        status, answer = server.operate("POST", "/ingester/flush")
        check(status == 200, "%d %s", status, answer)
        check_all(client, port, span)  # of segments
        check_otlp(client, span)
        check(server.terminate() == 0, "%s", server.log_tail())
        server.arguments = SETTINGS
        client = flamegrid.Client(server.start().wait_ready().port)
        wait_compacted(server)
        check_all(client, port, span)  # of a daily block, with its rollups
        check_otlp(client, span)
        check(server.terminate() == 0, "%s", server.log_tail())
        verified = subprocess.run([flamegrid.binary(), "bucket", "verify", "--data", server.data], capture_output=True, check=False)
        check(verified.returncode == 0, "%s", verified)
