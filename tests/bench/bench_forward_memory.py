#!/usr/bin/env python3
"""How much memory a process takes that forwards: an agent, and a server that has a backlog of a month.

    bench_forward_memory.py [--seconds N] [--days N] [--services N] [--folder FOLDER] [agent] [server]

Agent: it gets the pprofs of the folder at 100 a second, of 20 pods, for so many seconds each: while the target takes them, while it is
away, and while it is back and gets what has waited. Server: it gets a profile of each service for every ten minutes of so many days
while the target is away; then it restarts, and sends them. Prints what is resident (VmRSS) at the end of each part, and the most of it.
Set FG_BINARY to a release build.
"""

import argparse
import glob
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from bench_forward import RATE, metric, moved, push  # noqa: E402
from link import CUT, OPEN, Link  # noqa: E402

PODS = 20
WINDOW_S = 600
MIB = 1 << 20


class Watch:
    """Looks at what a process has resident, ten times a second."""

    def __init__(self, pid):
        self.pid, self.most, self.running = pid, 0, True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def now(self):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as file:
            rows = dict(line.split(":", 1) for line in file if ":" in line)
        return int(rows["VmRSS"].split()[0]) * 1024

    def run(self):
        while self.running:
            self.most = max(self.most, self.now())
            time.sleep(0.1)

    def tell(self, what, node):
        print("| %s | %.0f | %.1f | %.1f |" % (what, metric(node, "flamegrid_forward_pending_profiles"), self.now() / MIB, self.most / MIB), flush=True)
        self.most = 0

    def stop(self):
        self.running = False
        self.thread.join()


def wait_sent(node):
    while metric(node, "flamegrid_forward_pending_profiles") > 0:
        time.sleep(0.2)


def target_of(link):
    return ["--forward.targets", "[{name: there, url: 'http://127.0.0.1:%d'}]" % link.port]


def agent(contents, link, seconds):
    with flamegrid.Agent(*target_of(link)) as node:
        node.start().wait_ready()
        watch = Watch(node.process.pid)
        watch.tell("agent: after its start", node)
        count, first = RATE * seconds, 0
        for what, mode in (("the target takes all", OPEN), ("the target is away", CUT), ("the target is back", OPEN)):
            link.set(mode)
            push(node, contents, PODS, first, count, RATE)
            watch.tell("agent: %s, %d s" % (what, seconds), node)
            first += count
        wait_sent(node)
        watch.tell("agent: all is sent", node)
        watch.stop()


def fill(node, contents, days, services):
    """Pushes a profile of each service for every window, as fast as they are taken."""
    client, windows = flamegrid.Client(node.port), days * 24 * 3600 // WINDOW_S
    now_s = int(time.time()) // WINDOW_S * WINDOW_S
    for window in range(windows):
        at_s = now_s - (windows - window) * WINDOW_S
        for service in range(services):
            body = moved(contents[(window + service) % len(contents)], at_s * 10**9 + service)
            status, answer = client.send("POST", "/ingest?name=shop%d&format=pprof&spyName=gospy&from=%d&until=%d" % (
                service, at_s, at_s + 10), body)
            flamegrid.check(status == 200, "%d %s", status, answer)
    return windows * services


def server(contents, link, days, services):
    link.set(CUT)
    with flamegrid.Server(*target_of(link)) as node:
        node.start().wait_ready()
        watch = Watch(node.process.pid)
        watch.tell("server: after its start", node)
        count = fill(node, contents, days, services)
        watch.tell("server: %d days have come, the target is away" % days, node)
        pending = metric(node, "flamegrid_forward_pending_profiles")
        flamegrid.check(pending >= count, "%d of %d wait", pending, count)  # some pprofs are profiles of several series
        watch.stop()
        flamegrid.check(node.terminate() == 0, "%s", node.log_tail())
        node.start().wait_ready()
        watch = Watch(node.process.pid)
        watch.tell("server: after a restart", node)
        link.set(OPEN)
        for quarter in (3, 2, 1, 0):
            while metric(node, "flamegrid_forward_pending_profiles") > pending * quarter / 4:
                time.sleep(0.2)
            watch.tell("server: %d%% are sent" % (100 - 25 * quarter), node)
        watch.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--services", type=int, default=10)
    parser.add_argument("--folder", default=flamegrid.shared_folder("load"))
    parser.add_argument("parts", nargs="*", default=["agent", "server"])
    arguments = parser.parse_args()
    contents = []
    for path in sorted(glob.glob(os.path.join(arguments.folder, "*.pb.gz"))):
        with open(path, "rb") as file:
            contents.append(file.read())
    flamegrid.check(contents, "no pprofs in %s", arguments.folder)
    print("| part | pending profiles | MiB at its end | most MiB |\n|---|---|---|---|")
    with flamegrid.Server() as there:
        there.start().wait_ready()
        link = Link(there.port)
        if "agent" in arguments.parts:
            agent(contents, link, arguments.seconds)
        if "server" in arguments.parts:
            server(contents, link, arguments.days, arguments.services)
        link.close()


if __name__ == "__main__":
    main()
