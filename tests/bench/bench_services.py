#!/usr/bin/env python3
"""Asks for the flame graph of all services of an hour, of the 72,000 CPU profiles that they have together.

    bench_services.py [--services 20,40] [--repeat 20]

A profile each ten seconds of 200 instances, which are of so many services. The same question right after the pushes,
when all is in the head, and from blocks. Its total is compared with the sum of the time series of all services, which
is made from other data. Rows of a Markdown table. FG_BENCH_BUILD is the build folder, FG_BENCH_PROFILES the folder of
profiles.
"""

import argparse
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench_dashboards import BUILD, CPU, PROFILES, cpu_s, row, settle  # noqa: E402
import flamegrid  # noqa: E402

INSTANCES, HOUR_S, COUNT = 200, 3600, 72000


def ask(client, method, fields):
    began = time.perf_counter()
    status, body = client.send("POST", "/querier.v1.QuerierService/" + method, json.dumps(fields), {"Content-Type": "application/json"})
    if status != 200:
        raise SystemExit("%s: %d %s" % (method, status, body[:300]))
    return time.perf_counter() - began, json.loads(body)


def measure(label, server, span, repeat):
    client = flamegrid.Client(server.port, timeout=120)
    flame = {**span, "profileTypeID": CPU, "labelSelector": "{}"}
    first, answer = ask(client, "SelectMergeStacktraces", flame)
    before = cpu_s(server.process.pid)
    took = sorted(ask(client, "SelectMergeStacktraces", flame)[0] for _ in range(repeat))
    cpu = (cpu_s(server.process.pid) - before) / repeat
    # A step of two hours: one point, which has the whole range.
    _, series = ask(client, "SelectSeries", {**flame, "start": span["end"], "groupBy": ["service_name"], "step": 2 * HOUR_S})
    want = sum(point["value"] for one in series["series"] for point in one["points"])
    if int(answer["flamegraph"]["total"]) != want:
        raise SystemExit("%s: a total of %s, not %d" % (label, answer["flamegraph"]["total"], want))
    row(label, "%.0f" % (first * 1000), "%.0f" % (took[0] * 1000), "%.0f" % (took[len(took) // 2] * 1000), "%.0f" % (took[-1] * 1000),
        "%.0f" % (cpu * 1000))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--services", default="20")
    parser.add_argument("--repeat", type=int, default=20)
    arguments = parser.parse_args()
    os.environ["FG_BINARY"] = os.path.join(BUILD, "flamegrid")
    row("all services of 1 h, %d profiles" % COUNT, "first ms", "least ms", "median ms", "most ms", "CPU ms")
    row(*["---"] * 6)
    for services in map(int, arguments.services.split(",")):
        start_s = int(time.time()) // HOUR_S * HOUR_S - 3 * HOUR_S
        span = {"start": start_s * 1000, "end": (start_s + HOUR_S) * 1000 - 1}
        with flamegrid.Server() as server:
            server.start().wait_ready()
            subprocess.run([os.path.join(BUILD, "bench_push"), "--to", "127.0.0.1:%d" % server.port, "--profiles", PROFILES,
                            "--match", "-cpu-", "--services", str(services), "--pods", str(INSTANCES // services), "--count", str(COUNT),
                            "--start", str(start_s), "--seconds", "3600"],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            measure("%d services, right after the pushes" % services, server, span, arguments.repeat)
            status, body = server.operate("POST", "/ingester/flush", timeout=300)
            if status not in (200, 204):
                raise SystemExit("flush: %d %s" % (status, body[:300]))
            settle(server)
            measure("%d services, in blocks" % services, server, span, arguments.repeat)


if __name__ == "__main__":
    main()
