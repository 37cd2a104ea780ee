#!/usr/bin/env python3
"""What forwarding costs: CPU of the sender's threads and bytes on the wire for a profile, and how fast a backlog is sent.

    bench_forward.py [--profiles N] [--pods N] [--folder FOLDER]

A node gets the pprofs of the folder from so many pods each, and forwards them to a second server. First while they arrive, 100 a
second; then as many again wait while the target is away, and are sent when it is back. Set FG_BINARY to a release build.
"""

import argparse
import glob
import gzip
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from link import CUT, OPEN, Link  # noqa: E402

RATE = 100  # profiles a second, of all pods
SENDER_THREADS = ("forward", "fwd-backgr")


def cpu_s(pid, names):
    """Returns the CPU time of a process's threads whose names begin so, user and system."""
    total = 0
    for task in glob.glob("/proc/%d/task/*" % pid):
        try:
            with open(task + "/stat", encoding="ascii") as file:
                text = file.read()
        except OSError:
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name.startswith(names):
            fields = rest.split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def metric(server, name):
    rows = [line.split() for line in server.metrics().splitlines() if line.startswith(name + "{")]
    return sum(float(value) for _, value in rows)


def moved(content, shift_ns):
    """Returns the pprof with its time (field 9) replaced: it is a profile of its own then."""
    return gzip.compress(gzip.decompress(content) + b"\x48" + varint(shift_ns), 1)


def varint(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def push(server, contents, pods, first, count, rate):
    """Pushes `count` profiles, at a rate or (0) as fast as they are taken. Returns the bytes of their bodies."""
    client, begun, total = flamegrid.Client(server.port), time.monotonic(), 0
    for i in range(first, first + count):
        body = moved(contents[i % len(contents)], time.time_ns() + i)
        status, answer = client.send("POST", "/ingest?name=shop%%7Bpod%%3D%d%%7D&format=pprof&spyName=gospy" % (i % pods), body)
        flamegrid.check(status == 200, "%d %s", status, answer)
        total += len(body)
        if rate:
            time.sleep(max(0, begun + (i - first) / rate - time.monotonic()))
    return total


def wait_sent(node):
    """Waits until nothing is pending. Returns how long that took from the first one that was sent on."""
    most = metric(node, "flamegrid_forward_pending_profiles")
    left, begun = most, time.monotonic()
    while left > 0:
        time.sleep(0.1)
        left = metric(node, "flamegrid_forward_pending_profiles")
        if left == most:
            begun = time.monotonic()  # still in its pause
    return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profiles", type=int, default=3000)
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--folder", default=flamegrid.shared_folder("load"))
    arguments = parser.parse_args()
    contents = []
    for path in sorted(glob.glob(os.path.join(arguments.folder, "*cpu*.pb.gz"))):
        with open(path, "rb") as file:
            contents.append(file.read())
    flamegrid.check(contents, "no pprofs in %s", arguments.folder)
    with flamegrid.Server() as there:
        there.start().wait_ready()
        link = Link(there.port)
        with flamegrid.Server("--forward.targets", "[{name: there, url: 'http://127.0.0.1:%d'}]" % link.port) as node:
            node.start().wait_ready()
            for what, rate in (("as they arrive", RATE), ("after the target was away", 0)):
                link.set(CUT if rate == 0 else OPEN)
                before = cpu_s(node.process.pid, SENDER_THREADS), metric(node, "flamegrid_forward_sent_bytes_total")
                size = push(node, contents, arguments.pods, 0 if rate else arguments.profiles, arguments.profiles, rate)
                link.set(OPEN)
                took = wait_sent(node)
                cpu = cpu_s(node.process.pid, SENDER_THREADS) - before[0]
                sent = metric(node, "flamegrid_forward_sent_bytes_total") - before[1]
                print("%-26s %.4f ms of CPU, %.0f bytes a profile (%.0f as agents sent them); the last %.1f s after the first" % (
                    what, cpu * 1000 / arguments.profiles, sent / arguments.profiles, size / arguments.profiles, took))
        link.close()
    flamegrid.check(threading.active_count() < 10, "threads are left")


if __name__ == "__main__":
    main()
