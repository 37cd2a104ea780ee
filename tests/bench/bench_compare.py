#!/usr/bin/env python3
"""How long a comparison takes: two sides of many instances and an hour, in the head and in blocks.

    FG_BINARY=build/release/flamegrid bench_compare.py [--instances N] [--profiles N] [--stacks N]

Prints the median of warm requests, as the server measures them (X-Flamegrid-Millis) and as the client does.
"""

import argparse
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
import urllib.parse

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib")]

import flamegrid  # noqa: E402
import pprof  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SETTINGS = ["--querier.manifest_age", "1s", "--compactor.hour_delay", "0s", "--compactor.interval", "1s", "--compactor.retire_after",
            "0s", "--querier.cache_max_bytes", "1GiB"]
ROUNDS = 9


def program(rng, n_stacks):
    """Stacks of a made program of some depth, with weights that fall off."""
    names = ["pkg%d.function%d" % (i % 40, i) for i in range(1500)]
    found = {}
    while len(found) < n_stacks:
        stack = ("main.main",) + tuple(names[int(rng.paretovariate(0.7)) * 7 % 1500] for _ in range(rng.randrange(4, 24)))
        found[stack] = 1 / (len(found) + 1)
    return found


def push(client, args, rng, stacks):
    names, weights = list(stacks), list(stacks.values())
    start_s = int(time.time()) // 3600 * 3600 - 7200
    for instance in range(args.instances):
        for version in (1, 2):
            for number in range(args.profiles):
                picked = {}
                for stack in rng.choices(names, weights, k=600):
                    picked[stack] = picked.get(stack, 0) + 1
                time_ns = int((start_s + number * 3600 / args.profiles) * 10**9)
                body = pprof.make({stack: (n, n * 10**7) for stack, n in picked.items()}, time_ns)
                target = "/ingest?" + urllib.parse.urlencode({
                    "name": "shop{version=%d,pod=v%d-%03d}" % (version, version, instance), "format": "pprof", "from": time_ns,
                    "until": time_ns + 10 * 10**9})
                status, answer = client.send("POST", target, body)
                assert status == 200, answer
    return start_s


def measure(client, start_s, what):
    parameters = {"leftQuery": CPU + '{version="1"}', "rightQuery": CPU + '{version="2"}'}
    for side in ("left", "right"):
        parameters |= {side + "From": start_s * 1000, side + "Until": (start_s + 3600) * 1000 - 1}
    server, seen = [], []
    for _ in range(ROUNDS):
        begun_s = time.monotonic()
        status, body = client.send("POST", "/api/compare", json.dumps(parameters))
        seen.append((time.monotonic() - begun_s) * 1000)
        assert status == 200, body
        answer = json.loads(body)
        server.append(answer["statistics"]["millis"])
    print("%s: %d and %d instances, %d profiles, %d tests: %.0f ms (client: %.0f ms, first %.0f ms)" % (
        what, answer["a"]["instances"], answer["b"]["instances"], answer["statistics"]["profiles"], answer["tests"],
        statistics.median(server), statistics.median(seen), seen[0]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--profiles", type=int, default=60, help="of an instance in the hour")
    parser.add_argument("--stacks", type=int, default=2000)
    args = parser.parse_args()
    rng = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="flamegrid-bench.") as data, flamegrid.Server(*SETTINGS, data=data) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        start_s = push(client, args, rng, program(rng, args.stacks))
        measure(client, start_s, "in the head")
        server.operate("POST", "/ingester/flush")
        deadline = time.monotonic() + 120
        while not re.search("^flamegrid_compactor_segments_retired_total [1-9]", server.metrics(), re.MULTILINE):
            assert time.monotonic() < deadline, server.log_tail()
            time.sleep(1)
        time.sleep(5)
        measure(client, start_s, "in blocks")


main()
