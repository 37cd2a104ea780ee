#!/usr/bin/env python3
"""Asks a server the same questions again and again and writes down how long it takes.

    bench_query.py --port N --start S --end S --hour-service NAME [--repeat N] [--pid N]

Questions as people ask them: a flame graph of one service, of all, a time series, labels. --pid adds the
server's CPU time of each. One row of a Markdown table for each question; "first" is the first time it was
asked, so on a server that has just started it is the cold figure.
"""

import argparse
import http.client
import json
import os
import time

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
HOUR_MS = 3600 * 1000


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--start", type=int, required=True, help="Unix time of the first profile")
    parser.add_argument("--end", type=int, required=True, help="Unix time of the last one")
    parser.add_argument("--hour-service", required=True, help="the service of 100 label sets and an hour")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--pid", type=int)
    parser.add_argument("--label", default="", help="put before each question")
    return parser.parse_args()


def questions(arguments):
    """(what, method, fields)."""
    start, end = arguments.start * 1000, arguments.end * 1000
    one = '{service_name="%s"}' % arguments.hour_service
    whole = {"start": start, "end": end}
    hour = {"start": start, "end": min(end, start + HOUR_MS)}
    profile = {"profileTypeID": CPU}
    yield "flame graph, one service, 100 pods, 1 h", "SelectMergeStacktraces", {**profile, **hour, "labelSelector": one}
    yield "flame graph, one pod of it", "SelectMergeStacktraces", {
        **profile, **hour, "labelSelector": '{service_name="%s", pod="pod-7"}' % arguments.hour_service}
    yield "pprof of it, with lines and addresses", "SelectMergeProfile", {**profile, **hour, "labelSelector": one}
    yield "flame graph, all services", "SelectMergeStacktraces", {**profile, **whole, "labelSelector": "{}"}
    yield "time series, all services by service_name, step 15 s", "SelectSeries", {
        **profile, **whole, "labelSelector": "{}", "groupBy": ["service_name"], "step": 15}
    yield "time series, one service by pod, step 15 s", "SelectSeries", {
        **profile, **hour, "labelSelector": one, "groupBy": ["pod"], "step": 15}
    yield "diff of half an hour with the next, one service", "Diff", {
        "left": {**profile, "labelSelector": one, "start": start, "end": start + HOUR_MS // 2},
        "right": {**profile, "labelSelector": one, "start": start + HOUR_MS // 2 + 1, "end": start + HOUR_MS}}
    yield "label values of pod", "LabelValues", {**whole, "name": "pod", "matchers": ["{}"]}
    yield "label names of one service", "LabelNames", {**whole, "matchers": [one]}
    yield "Series by service_name and __profile_type__", "Series", {
        **whole, "matchers": ["{}"], "labelNames": ["service_name", "__profile_type__"]}


def ask(connection, method, fields):
    """Seconds, and the size of the answer."""
    body = json.dumps(fields)
    begin = time.perf_counter()
    connection.request("POST", "/querier.v1.QuerierService/" + method, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    took = time.perf_counter() - begin
    if response.status != 200:
        raise SystemExit("%s: %d %s" % (method, response.status, answer[:300]))
    return took, len(answer)


def cpu_s(pid):
    """CPU time of a process so far."""
    if not pid:
        return 0.0
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    arguments = parse_arguments()
    connection = http.client.HTTPConnection("127.0.0.1", arguments.port, timeout=300)
    print("| question | first ms | median ms | p99 ms | CPU ms | answer kB |\n|---|---|---|---|---|---|")
    for what, method, fields in questions(arguments):
        first, size = ask(connection, method, fields)
        before = cpu_s(arguments.pid)
        warm = sorted(ask(connection, method, fields)[0] for _ in range(arguments.repeat))
        cpu = (cpu_s(arguments.pid) - before) / arguments.repeat
        p99 = warm[min(len(warm) - 1, int(len(warm) * 0.99))]
        print("| %s%s | %.1f | %.1f | %.1f | %.0f | %.1f |" % (
            arguments.label, what, first * 1000, warm[len(warm) // 2] * 1000, p99 * 1000, cpu * 1000, size / 1000),
            flush=True)


if __name__ == "__main__":
    main()
