"""Makes a folder of stored data with the program that FG_BINARY names, as a fixture of its version:

    FG_BINARY=build/release/flamegrid python3 tests/data/stored/make.py tests/data/stored/v3

It holds the data folder of a server that was killed: of two tenants a block (hour 0), a live segment (the
first half of hour 1), and profiles that are in the head alone (the second half). answers.json in the same folder is what
that server answered; tests/bucket/versions.py asks a newer one the same.
"""

import gzip
import json
import os
import shutil
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "lib"))

import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

START_S = 1750003200  # 2025-06-15 16:00 UTC
HOUR_S = 3600
STEP_S = 300
# What becomes a block, what stays a live segment, and what is in the head alone.
RANGES = ((START_S, START_S + HOUR_S), (START_S + HOUR_S, START_S + 3 * HOUR_S // 2),
          (START_S + 3 * HOUR_S // 2, START_S + 2 * HOUR_S))
TENANTS = ("acme", "zeta")
SERVICES = ("api", "shop")
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
WAIT_S = 60
SETTINGS = ["--multitenancy_enabled", "true", "--compactor.hour_delay", "0s", "--compactor.day_delay", "7d",
            "--compactor.retire_after", "0s", "--ingester.segments.evict_after", "0s", "--ingester.segments.poll", "1s",
            "--querier.manifest_age", "1s"]


def client_of(server, tenant):
    return flamegrid.Client(server.port, headers={"X-Scope-OrgID": tenant})


def profiles(start_s, end_s, shift_s=0):
    """(service, time, pprof, stacks) of each profile that push() sends for one tenant."""
    for number, at_s in enumerate(range(start_s + shift_s, end_s + shift_s, STEP_S)):
        for service in SERVICES:
            stacks = {("main", "work", "step_%d" % (number % 4)): (1, 1000 + number), ("main", 0x7F0000012340): (1, 7),
                      ("main",): (1, 1)}
            yield "%s{pod=p%d}" % (service, number % 2), at_s, pprof.make(stacks, at_s * 10**9), len(stacks)


def packed(raw):
    """As it is sent: compressed by level 0, so that sizes do not depend on who compresses."""
    return gzip.compress(raw, 0, mtime=0)


def sent(start_s, end_s, shift_s=0):
    """(samples, wire bytes, raw bytes) of what push() sends for one tenant."""
    found = list(profiles(start_s, end_s, shift_s))
    return (sum(stacks for _, _, _, stacks in found), sum(len(packed(raw)) for _, _, raw, _ in found),
            sum(len(raw) for _, _, raw, _ in found))


def push(server, start_s, end_s, shift_s=0):
    for tenant in TENANTS:
        client = client_of(server, tenant)
        for name, at_s, raw, _ in profiles(start_s, end_s, shift_s):
            query = urllib.parse.urlencode({"name": name, "format": "pprof", "from": at_s, "until": at_s + 10})
            status, answer = client.send("POST", "/ingest?" + query, packed(raw))
            check(status == 200, "push: %d %s", status, answer)


def flush(server):
    status, body = server.operate("POST", "/ingester/flush")
    check(status == 200, "flush: %d %s", status, body)


def answers(server, first_s=START_S, last_s=START_S + 2 * HOUR_S):
    """What is compared between versions: sums by function, a series' total, labels."""
    found = {}
    for tenant in TENANTS:
        client = client_of(server, tenant)
        for selector in ("{}", '{service_name="shop"}', '{service_name="api",pod="p1"}'):
            frames, total = client.flame_frames(CPU, selector, first_s * 1000, last_s * 1000 - 1)
            found["%s %s" % (tenant, selector)] = [dict(sorted(frames.items())), total]
        found[tenant + " points"] = client.series_total(CPU, '{service_name="shop"}', first_s * 1000,
                                                        last_s * 1000 - 1000)
        found[tenant + " labels"] = sorted(sorted(labels.items()) for labels in client.label_sets(
            ["{}"], ["service_name", "pod"], first_s * 1000, last_s * 1000))
    return json.loads(json.dumps(found))


def blocks_of(data, tenant):
    folder = os.path.join(data, "bucket", "objects", "tenants", tenant, "blocks")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def wait_for_blocks(data):
    deadline = time.monotonic() + WAIT_S
    while not all(blocks_of(data, tenant) for tenant in TENANTS):
        check(time.monotonic() < deadline, "no blocks after %d s", WAIT_S)
        time.sleep(0.2)


def main():
    target = sys.argv[1]
    with flamegrid.Server(*SETTINGS, "--compactor.interval", "1s") as server:
        server.start().wait_ready()
        push(server, *RANGES[0])
        flush(server)
        wait_for_blocks(server.data)
        time.sleep(3)  # the segment leaves the manifest
        server.kill()
        server.arguments = [*SETTINGS, "--compactor.interval", "1h"]
        server.start().wait_ready()
        push(server, *RANGES[1])
        flush(server)
        push(server, *RANGES[2])
        found = answers(server)
        server.kill()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(server.data, os.path.join(target, "data"),
                        ignore=shutil.ignore_patterns("LOCK", "LOG*", "OPTIONS-*", "locks", "tmp", "segments-tmp"))
        with open(os.path.join(target, "answers.json"), "w", encoding="utf-8") as out:
            json.dump(found, out, indent=1, sort_keys=True)
            out.write("\n")


if __name__ == "__main__":
    main()
