#!/usr/bin/env python3
"""Counts what single nodes with few and with many tenants write into their buckets.

    bench_puts.py [--minutes 85] [--every 30] TENANTS...

A server for each number of tenants, all at the same time; every tenant sends a small profile every so many
seconds. Each minute the counters are read. What is counted begins with a window of ten minutes that began after
the start, so at the earliest ten minutes later, and is whole windows long. From 75 minutes on it has the turn of
an hour and what the compactor does then. One row of a Markdown table for each server; put requests of the
ingester are uploads of segments and swaps of the L0 manifest, the others are the compactor's.
"""

import argparse
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402

WINDOW_S = 600
AFTER_WINDOW_S = 120  # a window is cut a minute after its end

PUTS = 'flamegrid_bucket_requests_total{op="put"}'
DEAR = 'flamegrid_bucket_store_requests_total{class="A"}'
STORED = "flamegrid_ingester_profiles_stored_total"
COMMITTED = "flamegrid_ingester_segments_committed_total"
OF_INGESTER = ("flamegrid_ingester_segment_upload_duration_seconds_count", COMMITTED,
               'flamegrid_ingester_segment_failures_total{step="swap"}')


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=85)
    parser.add_argument("--every", type=float, default=30, help="seconds between two profiles of a tenant")
    parser.add_argument("tenants", type=int, nargs="+")
    return parser.parse_args()


def counters(server):
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", server.metrics(), re.M)}


class Load(threading.Thread):
    """One server and what it is sent."""

    def __init__(self, server, tenants, every_s, end):
        super().__init__(daemon=True)
        self.server, self.tenants, self.every_s, self.end = server, tenants, every_s, end
        self.refused = 0

    def run(self):
        client = flamegrid.Client(self.server.port)
        due, number = time.time(), 0
        while due < self.end:
            time.sleep(max(0.0, due - time.time()))
            self.send(client, number % self.tenants)
            number += 1
            due += self.every_s / self.tenants

    def send(self, client, tenant):
        now = time.time()
        target = "/ingest?name=app.cpu&format=folded&from=%d&until=%d" % (now - 10, now)
        try:
            status, _ = client.send("POST", target, b"main;serve;render %d\nmain;serve;query 7\n" % (now % 1000),
                                    {"X-Scope-OrgID": "tenant-%d" % tenant})
        except OSError:
            status = 0
        self.refused += status != 200


def next_cut(after):
    """A time when the windows that ended have been cut."""
    return (int(after - AFTER_WINDOW_S) // WINDOW_S + 1) * WINDOW_S + AFTER_WINDOW_S


def row(load, first, last, seconds, out):
    def grown(name):
        return last.get(name, 0) - first.get(name, 0)  # a histogram that is empty is left out

    ingester = sum(grown(name) for name in OF_INGESTER)
    print("| %d | %d | %d | %d | %.4f | %d | %.4f | %d |" % (
        load.tenants, grown(STORED), grown(COMMITTED), ingester, ingester / seconds, grown(PUTS) - ingester,
        (grown(PUTS) - ingester) / seconds, grown(DEAR)), file=out, flush=True)
    if load.refused:
        raise SystemExit("%d profiles were refused" % load.refused)


def measure(loads, begin, end):
    time.sleep(max(0.0, begin - time.time()))
    first = [counters(load.server) for load in loads]
    for at in range(begin + WINDOW_S, end + 1, WINDOW_S):
        time.sleep(max(0.0, at - time.time()))
        last = [counters(load.server) for load in loads]
        out = sys.stdout if at == end else sys.stderr
        print("%d minutes from %s UTC on:\n" % ((at - begin) / 60, time.strftime("%H:%M", time.gmtime(begin))), file=out)
        print("| tenants | profiles | segments | put requests of the ingester | a second | of the compactor | a second "
              "| requests of class A, all |\n|---|---|---|---|---|---|---|---|", file=out)
        for load, before, after in zip(loads, first, last):
            row(load, before, after, at - begin, out)


def main():
    arguments = parse_arguments()
    begin = next_cut(time.time() + WINDOW_S)
    end = begin + max(1, int((time.time() + arguments.minutes * 60 - begin) // WINDOW_S)) * WINDOW_S
    servers = [flamegrid.Server("--multitenancy_enabled", "true") for _ in arguments.tenants]
    try:
        loads = [Load(server.start().wait_ready(), tenants, arguments.every, end)
                 for server, tenants in zip(servers, arguments.tenants)]
        for load in loads:
            load.start()
        measure(loads, begin, end)
    finally:
        for server in servers:
            server.__exit__()


if __name__ == "__main__":
    main()
