#!/usr/bin/env python3
"""Measures what a server's users feel of each other. FG_BINARY says of which build.

    bench_fair.py askers [--seconds N] [--askers N] [--stacks N] [--rate N]
    bench_fair.py neighbours [--seconds N] [--hogs N] [--stacks N] [--rate N]

askers: pushes to a service of many stacks while others ask for its flame graph all the time. A push adds a few
stacks that are new; each has its own connection, and a latency counts from when the push was due.

neighbours: questions of a tenant with little data while another one asks for a large flame graph over many
connections. Each prints rows of a Markdown table.
"""

import argparse
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from askers import Askers  # noqa: E402

DEPTH = 12
NEW_STACKS = 20  # of a push


def stack(number):
    """Of DEPTH frames; every one has a frame that no other stack has."""
    frames = ["f%d" % (number >> shift) for shift in range(DEPTH - 1, 0, -1)]
    return ";".join(frames + ["leaf%d" % number])


def folded(first, count):
    return "".join("%s 1\n" % stack(first + i) for i in range(count))


def target(name="askers.cpu"):
    now = int(time.time())
    return "/ingest?name=%s&from=%d&until=%d" % (name, now - 10, now)


def of(tenant):
    return {"X-Scope-OrgID": tenant} if tenant else None


def fill(server, stacks, tenant=None):
    client = flamegrid.Client(server.port, headers=of(tenant))
    for first in range(0, stacks, 5000):
        status, body = client.send("POST", target(), folded(first, min(5000, stacks - first)))
        if status != 200:
            raise SystemExit("push: %d %s" % (status, body[:300]))


def millis(took):
    return " / ".join("%.0f" % (1000 * percentile(took, share)) for share in (0.5, 0.99, 1))


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def ask(client):
    """Returns the status."""
    now = int(time.time())
    return client.send("GET", "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds"
                       "%%7Bservice_name=%%22askers%%22%%7D&from=%d&until=%d&max-nodes=100" % (now - 3600, now + 60))[0]


def push_for(server, seconds, per_second, first):
    """Returns the seconds that each push took from its due time, and the number of each status."""
    took, codes, threads, lock = [], {}, [], threading.Lock()

    def push(due, number):
        status = flamegrid.Client(server.port, timeout=60).send(
            "POST", target(), folded(first + number * NEW_STACKS, NEW_STACKS))[0]
        with lock:
            took.append(time.monotonic() - due)
            codes[status] = codes.get(status, 0) + 1

    begin = time.monotonic()
    for number in range(int(seconds * per_second)):
        due = begin + number / per_second
        time.sleep(max(0, due - time.monotonic()))
        threads.append(threading.Thread(target=push, args=(due, number), daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return took, codes


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def askers(arguments):
    row("run", "pushes", "p50 / p99 / max ms", "questions/s", "statuses of pushes", "of questions")
    row(*["---"] * 6)
    with flamegrid.Server() as server:
        server.start().wait_ready()
        fill(server, arguments.stacks)
        for count in (0, arguments.askers):
            with Askers(server, count, ask) as asking:
                took, codes = push_for(server, arguments.seconds, arguments.rate,
                                       arguments.stacks * (2 + (count > 0)))
            row("%d askers" % count, len(took), millis(took), "%.1f" % (len(asking.took) / arguments.seconds), codes,
                asking.codes)


def neighbours(arguments):
    row("run", "questions of the neighbour", "p50 / p99 / max ms", "statuses", "statuses of the other")
    row(*["---"] * 5)
    with flamegrid.Server("--multitenancy_enabled", "true") as server:
        server.start().wait_ready()
        fill(server, arguments.stacks, "greedy")
        fill(server, 100, "modest")
        for count in (0, arguments.hogs):
            with Askers(server, count, ask, "greedy") as hogs:
                if count > 0:
                    time.sleep(1)
                client, took, codes = flamegrid.Client(server.port, timeout=120, headers=of("modest")), [], {}
                end = time.monotonic() + arguments.seconds
                while time.monotonic() < end:
                    begin = time.monotonic()
                    status = ask(client)
                    took.append(time.monotonic() - begin)
                    codes[status] = codes.get(status, 0) + 1
                    time.sleep(1 / arguments.rate)
            row("%d connections of another tenant" % count, len(took), millis(took), codes, hogs.codes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["askers", "neighbours"])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--askers", type=int, default=16)
    parser.add_argument("--hogs", type=int, default=200)
    parser.add_argument("--stacks", type=int, default=60000)
    parser.add_argument("--rate", type=float, default=10, help="pushes, or questions of the neighbour, a second")
    arguments = parser.parse_args()
    {"askers": askers, "neighbours": neighbours}[arguments.what](arguments)


if __name__ == "__main__":
    main()
