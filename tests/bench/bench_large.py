#!/usr/bin/env python3
"""How long large flame graphs take, as JSON and as protobuf.

    FG_BINARY=build/bench/flamegrid bench_large.py [--nodes N] [--repeat N] FOLDER

FOLDER is bench_fill's; its bucket is copied by hard links. Prints the least and the median of warm requests, the server's
CPU time of each, and the first digits of the answer's checksum: two builds give the same one.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib")]

import flamegrid  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
METHOD = "/querier.v1.QuerierService/SelectMergeStacktraces"
HOUR_MS = 3600 * 1000
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def packed(fields):
    """The request in protobuf: profile_typeID 1, label_selector 2, start 3, end 4, max_nodes 5."""
    out = b""
    for number, name in ((1, "profileTypeID"), (2, "labelSelector")):
        text = fields[name].encode()
        out += varint(number << 3 | 2) + varint(len(text)) + text
    for number, name in ((3, "start"), (4, "end"), (5, "maxNodes")):
        out += varint(number << 3) + varint(fields[name])
    return out


def cpu_s(pid):
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def measure(server, body, media, repeat):
    client = flamegrid.Client(server.port)
    status, answer = client.send("POST", METHOD, body, {"Content-Type": media})
    assert status == 200, answer
    took, before_s = [], cpu_s(server.process.pid)
    for _ in range(repeat):
        begun_s = time.monotonic()
        client.send("POST", METHOD, body, {"Content-Type": media})
        took.append((time.monotonic() - begun_s) * 1000)
    took.sort()
    cpu_ms = (cpu_s(server.process.pid) - before_s) * 1000 / repeat
    return "%.0f | %.0f | %.0f | %.1f | %s" % (took[0], took[len(took) // 2], cpu_ms, len(answer) / 1e6,
                                               hashlib.sha256(answer).hexdigest()[:8])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100000)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("folder")
    args = parser.parse_args()
    with open(os.path.join(args.folder, "fill.json"), encoding="utf-8") as file:
        end_ms = json.load(file)["end_s"] * 1000
    print("| question | form | least ms | median ms | CPU ms | MB | checksum |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="flamegrid-bench.", dir=args.folder) as data:
        subprocess.run(["cp", "-al", os.path.join(args.folder, "bucket"), os.path.join(data, "bucket")], check=True)
        with flamegrid.Server("--compactor.interval", "1h", "--compactor.hour_delay", "1d", "--compactor.day_delay", "7d", data=data) as server:
            server.start().wait_ready()
            for hours in (1, 24):
                fields = {"profileTypeID": CPU, "labelSelector": "{}", "start": end_ms - hours * HOUR_MS, "end": end_ms,
                          "maxNodes": args.nodes}
                for name, media, body in (("JSON", "application/json", json.dumps(fields)),
                                          ("protobuf", "application/proto", packed(fields))):
                    print("| %d h, %d nodes | %s | %s |" % (hours, args.nodes, name, measure(server, body, media, args.repeat)),
                          flush=True)


main()
