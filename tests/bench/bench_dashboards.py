#!/usr/bin/env python3
"""Loads Grafana dashboards against a server and writes down how long their panels take.

    bench_dashboards.py [--dashboards 50] [--refresh 30] [--seconds 60] [--services 100] [--count 100000] [--keep FOLDER] [SETTING...]

A day of many services is pushed, committed and compacted. A dashboard shows one service in ten panels, each with the
request that Grafana's data source sends for it, all at once. A row of a Markdown table for dashboards that refresh at
an interval, evenly spread, and one for all that are opened at the same moment; a latency counts from when the panel
was due. Then a table of what each panel costs, asked one after another. --keep: the day is in this folder, or is put
there, for another time. SETTING: of the server, as --querier.cache_max_bytes=4GiB. FG_BENCH_BUILD is the build folder,
FG_BENCH_PROFILES the folder of profiles.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402

BUILD = os.environ.get("FG_BENCH_BUILD") or os.path.join(flamegrid.ROOT, "build", "bench")
PROFILES = os.environ.get("FG_BENCH_PROFILES") or os.path.join(flamegrid.ROOT, os.pardir, "shared", "load")
DAY_S = 24 * 3600
PODS = 5
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SPACE = "memory:inuse_space:bytes:space:bytes"
ALLOCATED = "memory:alloc_space:bytes:space:bytes"
GOROUTINES = "goroutine:goroutine:count:goroutine:count"
STEP_S = DAY_S / 1440  # a panel is some 1,400 pixels wide


def panels(service, start_s):
    """(name, method, fields) of each panel."""
    span = {"start": start_s * 1000, "end": (start_s + DAY_S) * 1000}
    selector = '{service_name="%s"}' % service
    pod = '{service_name="%s", pod="pod-1"}' % service

    def series(kind, by, limit=None, of=selector):
        fields = {**span, "profileTypeID": kind, "labelSelector": of, "groupBy": by, "step": STEP_S}
        return "SelectSeries", {**fields, "limit": limit} if limit else fields

    def flame(kind, of=selector):
        return "SelectMergeStacktraces", {**span, "profileTypeID": kind, "labelSelector": of}

    return [("CPU",) + series(CPU, []), ("CPU by pod",) + series(CPU, ["pod"]), ("memory by pod",) + series(SPACE, ["pod"]),
            ("goroutines",) + series(GOROUTINES, ["pod"]), ("top services",) + series(CPU, ["service_name"], 10, "{}"),
            ("flame graph of CPU",) + flame(CPU), ("flame graph of memory",) + flame(SPACE),
            ("flame graph of allocations",) + flame(ALLOCATED), ("flame graph of a pod",) + flame(CPU, pod),
            ("values of pod", "LabelValues", {**span, "name": "pod", "matchers": [selector]})]


class Panels:
    """All panels, each with a thread and a connection of its own."""

    def __init__(self, server, dashboards, services, start_s):
        self.server, self.took, self.faults, self.lock = server, {}, [], threading.Lock()
        self.all = [panel for i in range(dashboards) for panel in panels("service-%d" % (i % services), start_s)]
        self.clients = [flamegrid.Client(server.port, timeout=120) for _ in self.all]

    def ask(self, number, due):
        name, method, fields = self.all[number]
        status, body = self.clients[number].send("POST", "/querier.v1.QuerierService/" + method, json.dumps(fields),
                                                 {"Content-Type": "application/json"})
        took = time.monotonic() - due
        with self.lock:
            self.took.setdefault(name, []).append(took)
            if status != 200:
                self.faults.append("%s: %d %s" % (name, status, body[:200]))

    def keep(self, number, first, refresh_s, until):
        due = first
        while due < until:
            time.sleep(max(0, due - time.monotonic()))
            self.ask(number, due)
            due += refresh_s

    def run(self, targets):
        threads = [threading.Thread(target=target, args=args, daemon=True) for target, args in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.faults:
            raise SystemExit("%d panels failed, the first: %s" % (len(self.faults), self.faults[0]))
        took, self.took = self.took, {}
        return took


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def report(label, took, cpu_s):
    every = sorted(second for seconds in took.values() for second in seconds)
    slowest = max(took, key=lambda name: sorted(took[name])[len(took[name]) // 2])

    def at(share):
        return every[min(len(every) - 1, int(len(every) * share))] * 1000

    row(label, len(every), "%.0f / %.0f / %.0f" % (at(0.5), at(0.99), at(1)), "%.1f" % (1000 * cpu_s / len(every)),
        "%s, %.0f" % (slowest, 1000 * sorted(took[slowest])[len(took[slowest]) // 2]))


def cpu_s(pid):
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fill(server, arguments, start_s):
    interval_s = DAY_S * arguments.services * PODS / arguments.count
    subprocess.run([os.path.join(BUILD, "bench_push"), "--to", "127.0.0.1:%d" % server.port, "--profiles", PROFILES,
                    "--services", str(arguments.services), "--pods", str(PODS), "--count", str(arguments.count),
                    "--start", str(start_s), "--interval", str(interval_s), "--seconds", "3600"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status, body = server.operate("POST", "/ingester/flush", timeout=300)
    if status not in (200, 204):
        raise SystemExit("flush: %d %s" % (status, body[:300]))
    settle(server)


def settle(server, quiet_s=20, longest_s=900):
    """Waits until the compactor has written nothing for a while, and works on nothing: a job may take longer than that."""
    last, since, end = None, time.monotonic(), time.monotonic() + longest_s
    spent = cpu_s(server.process.pid)
    while time.monotonic() < min(end, since + quiet_s):
        jobs = [line for line in server.metrics().splitlines() if line.startswith("flamegrid_compactor_jobs_total")]
        time.sleep(1)
        before, spent = spent, cpu_s(server.process.pid)
        if jobs != last or spent - before > 0.3:
            last, since = jobs, time.monotonic()


def day_of(server, arguments):
    """Returns when the day begins that the server has, which is made if there is none."""
    note = os.path.join(server.data, "bench-day")
    if os.path.exists(note):
        with open(note, encoding="ascii") as file:
            start_s = int(file.read())
        server.start().wait_ready()
        return start_s
    start_s = int(time.time()) - DAY_S - 3600
    server.start().wait_ready()
    fill(server, arguments, start_s)
    with open(note, "w", encoding="ascii") as file:
        file.write("%d" % start_s)
    return start_s


def report_panels(server, asked):
    row("panel, one at a time", "least / median ms", "CPU ms")
    row(*["---"] * 3)
    every = 0
    for name in dict.fromkeys(panel[0] for panel in asked.all):
        numbers = [i for i, panel in enumerate(asked.all) if panel[0] == name]
        before = cpu_s(server.process.pid)
        for i in numbers:
            asked.ask(i, time.monotonic())
        each = 1000 * (cpu_s(server.process.pid) - before) / len(numbers)
        took = sorted(asked.took.pop(name))
        every += each
        row(name, "%.1f / %.1f" % (1000 * took[0], 1000 * took[len(took) // 2]), "%.1f" % each)
    row("a dashboard", "", "%.1f" % every)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dashboards", type=int, default=50)
    parser.add_argument("--refresh", type=float, default=30, help="seconds")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--services", type=int, default=100)
    parser.add_argument("--count", type=int, default=100000, help="profiles of the day")
    parser.add_argument("--keep", help="folder")
    arguments, settings = parser.parse_known_args()
    os.environ["FG_BINARY"] = os.path.join(BUILD, "flamegrid")
    with flamegrid.Server(*settings, data=arguments.keep) as server:
        start_s = day_of(server, arguments)
        asked = Panels(server, arguments.dashboards, arguments.services, start_s)
        row("%d dashboards of 10 panels, %d services" % (arguments.dashboards, arguments.services), "panels", "p50 / p99 / max ms",
            "CPU ms a panel", "slowest panel, median ms")
        row(*["---"] * 5)
        for label in ("opened at once, cold", "opened at once, warm"):
            before, now = cpu_s(server.process.pid), time.monotonic()
            took = asked.run([(asked.ask, (i, now)) for i in range(len(asked.all))])
            report(label, took, cpu_s(server.process.pid) - before)
        before, now = cpu_s(server.process.pid), time.monotonic()
        until = now + arguments.seconds
        took = asked.run([(asked.keep, (i, now + (i // 10) * arguments.refresh / arguments.dashboards, arguments.refresh, until))
                          for i in range(len(asked.all))])
        report("refreshed every %.0f s" % arguments.refresh, took, cpu_s(server.process.pid) - before)
        print(flush=True)
        report_panels(server, asked)


if __name__ == "__main__":
    main()
