#!/usr/bin/env python3
"""Measures what it costs to read what is encrypted, next to what is not, in turns.

    bench_sealed.py BENCH_PUSH PROFILES [--count N] [--rounds N] [--committed]     FG_BINARY says of which build

Two servers get the same profiles from the program bench_push, and keep them in their heads. Then each question is asked of both in
turns, with the answers of what was asked before in no cache but those of the store. --committed: the profiles are in the bucket, and
queriers may keep 64 KiB of them in memory and nothing on disk, so that each question reads and decrypts its pages. Processor time is that of all threads of a server
for one question, in nanoseconds of the scheduler; medians and the least are of all rounds after the first. Prints rows of a Markdown
table.
"""

import argparse
import glob
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
STAY = ("--compactor.interval", "1h", "--ingester.segments.linger", "1h")
KEEP_NOTHING = ("--querier.cache_max_bytes", "64KiB", "--querier.disk_cache_max_bytes", "0")
RENDER = "/pyroscope/render?query=%s%%7B%%7D&from=now-2d&until=now" % CPU


def cpu_ms(pid):
    total = 0
    for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
        try:
            with open(path, encoding="ascii") as file:
                total += int(file.read().split()[0])
        except FileNotFoundError:  # the thread has ended
            pass
    return total / 1e6


def fill(bench_push, profiles, server, count):
    start = str(int(time.time()) - 86400)
    for more in (("--count", "10000"), ("--count", str(count - 10000), "--start", start)):
        subprocess.run([bench_push, "--to", "127.0.0.1:%d" % server.port, "--pid", str(server.process.pid), "--data", server.data,
                        "--profiles", profiles, "--row", *more], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(server, method, **more):
    now_ms = int(time.time() * 1000)
    fields = {"profileTypeID": CPU, "labelSelector": "{}", "start": now_ms - 2 * 86400 * 1000, "end": now_ms, **more}
    status, body = flamegrid.Client(server.port).send("POST", "/querier.v1.QuerierService/" + method, json.dumps(fields),
                                                      {"Content-Type": "application/json"})
    flamegrid.check(status == 200, "%s: %d %s", method, status, body[:200])


def render(server):
    status, body = flamegrid.Client(server.port).send("GET", RENDER)
    flamegrid.check(status == 200, "%d %s", status, body[:200])


QUESTIONS = {
    "a flame graph": lambda server: ask(server, "SelectMergeStacktraces"),
    "a time series": lambda server: ask(server, "SelectSeries", step=60),
    "both, by `/pyroscope/render`": render,
}


def measure(question, servers, rounds):
    """Milliseconds of processor time of each round, for each server."""
    spent = [[] for _ in servers]
    for number in range(rounds + 1):
        turns = list(zip(servers, spent))
        for server, mine in turns if number % 2 else turns[::-1]:
            before = cpu_ms(server.process.pid)
            question(server)
            if number > 0:
                mine.append(cpu_ms(server.process.pid) - before)
    return spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench_push")
    parser.add_argument("profiles")
    parser.add_argument("--count", type=int, default=22000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--committed", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flamegrid-sealed.") as folder:
        key = os.path.join(folder, "key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as out:
            out.write(secrets.token_hex(32))
        sealed = ("--encryption.mode", "per_tenant", "--encryption.key_file", key)
        settings = STAY + (KEEP_NOTHING if options.committed else ())
        with flamegrid.Server(*settings) as plain, flamegrid.Server(*settings, *sealed) as encrypted:
            for server in (plain, encrypted):
                server.start().wait_ready()
                fill(options.bench_push, options.profiles, server, options.count)
                if options.committed:
                    status, body = server.operate("POST", "/ingester/flush", timeout=300)
                    flamegrid.check(status in (200, 204), "flush: %d %s", status, body[:200])
            where = "the bucket" if options.committed else "the head"
            print("| processor time, %d profiles in %s | plain | encrypted | medians | least |\n|---|---|---|---|---|" % (options.count, where))
            for name, question in QUESTIONS.items():
                before, after = measure(question, (plain, encrypted), options.rounds)
                medians = statistics.median(before), statistics.median(after)
                print("| %s | %.1f ms | %.1f ms | %.2f | %.2f |" % (name, *medians, medians[1] / medians[0], min(after) / min(before)), flush=True)


if __name__ == "__main__":
    main()
