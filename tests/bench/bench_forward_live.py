#!/usr/bin/env python3
"""What live agents feel of a server that catches up: latency of pushes to the receiver, with and without a backlog that is sent to it.

    bench_forward_live.py [--rounds N] [--seconds N] [--rate N] [--backlog N] [--warm N] [--server-cpus LIST] [--nice N]
                          [--folder FOLDER] [--rate-max-bytes BYTES] [--node-memory BYTES] [--drain]

A node collects a backlog while its target is away. Agents push to the target at a fixed rate (bench_push, open loop), in turns without
and with the backlog coming in; which of both is first changes from round to round. Node and agents would be other machines: the node
gets what the receiver leaves of the processors (SCHED_IDLE), the agents run at once (SCHED_FIFO), and --server-cpus pins the receiver to
processors and all else to the others. --nice gives all of them a priority, for a machine that does other work. --rate-max-bytes bounds what
the node sends in a second. --drain sends all of the backlog once, without agents, and says how long that took. Needs to be root. Set FG_BINARY to a release build, and FG_PUSH to its bench_push.
"""

import argparse
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from bench_forward import metric  # noqa: E402
from link import CUT, OPEN, Link  # noqa: E402

SERVICES = 20
PATTERN = r"latency p50 ([\d.]+) ms, p90 [\d.]+ ms, p99 ([\d.]+) ms, max ([\d.]+) ms"


def place(pid, cpus, nice):
    """Gives a process, or (0) this one, processors and a priority; its threads have them from then on."""
    if cpus:
        os.sched_setaffinity(pid, cpus)
    if nice:
        os.setpriority(os.PRIO_PROCESS, pid, nice)


def start_behind(server):
    """Starts a server whose threads get what others leave of the processors."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    try:
        server.start()
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return server


def processor_ticks(pid):
    """Returns the processor time of a process, in clock ticks."""
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])  # utime and stime of proc(5)


def push(port, folder, *arguments):
    """Runs bench_push, each service with the profiles of one program. Returns p50, p99 and the longest in ms."""
    out = subprocess.run(["chrt", "--fifo", "1", os.environ["FG_PUSH"], "--to", "127.0.0.1:%d" % port, "--profiles", folder, "--by-program",
                          *map(str, arguments)], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"PATH": os.environ["PATH"]}).stdout
    found = re.search(PATTERN, out)
    flamegrid.check(found and "refused 0 " in out and "failed 0," in out, "%s", out)
    return [float(value) for value in found.groups()]


def pending(node):
    return metric(node, "flamegrid_forward_pending_profiles")


def fill(node, folder, count, start_s):
    """Pushes a backlog of so many profiles, as many as a minute has for each minute of the past."""
    push(node.port, folder, "--count", count, "--connections", 16, "--services", SERVICES, "--pods", 50, "--start", start_s, "--interval", 60,
         "--service", "backlog")


def settle(server):
    """Waits until a server has made segments of what it has taken and the disk has written it: the receiver has the same disk here."""
    hertz = os.sysconf("SC_CLK_TCK")
    for _ in range(60):
        before = processor_ticks(server.process.pid)
        time.sleep(1)
        if processor_ticks(server.process.pid) - before < hertz / 20:
            break
    os.sync()


def measure(receiver, folder, arguments):
    """Pushes from so many pods that each sends every ten seconds, so all profiles are current. Older ones would need lookups in segments."""
    pods = max(1, arguments.rate * 10 // SERVICES)
    return push(receiver.port, folder, "--rate", arguments.rate, "--seconds", arguments.seconds, "--connections", 64, "--services", SERVICES,
                "--pods", pods, "--start", int(time.time()))


def catch_up(node, link, receiver, folder, arguments):
    """Measures while the backlog comes in. Returns the latencies and how many profiles came in a second."""
    link.set(OPEN)
    most = before = pending(node)
    while before == most:
        time.sleep(0.05)
        before = pending(node)
    began = time.monotonic()
    took = measure(receiver, folder, arguments)
    after, seconds = pending(node), time.monotonic() - began
    link.set(CUT)
    flamegrid.check(after > 0, "the backlog of %d was too small", most)
    return took, (before - after) / seconds


def drain(node, link, arguments):
    """Sends a backlog to a receiver that comes back."""
    link.set(CUT)
    fill(node, arguments.folder, arguments.backlog, int(time.time()) - 30 * 86400)
    count, began = pending(node), time.monotonic()
    link.set(OPEN)
    while pending(node) > 0:
        time.sleep(0.5)
    took = time.monotonic() - began
    dropped = metric(node, "flamegrid_forward_dropped_profiles_total")
    print("%d profiles were sent within %.0f s of the receiver's return, %.0f a second; %d were dropped" % (count, took, count / took, dropped))


def median(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


class Pairs:
    """The latencies of live pushes without and with a backlog that comes in, in turns; prints them as a table."""

    def __init__(self, name=""):
        self.name, self.latencies, self.rates = name, {"alone": [], "catch-up": []}, []

    @staticmethod
    def print_head():
        row("round", "state", "p50 ms", "p99 ms", "max ms", "profiles/s of the backlog")
        row(*["---"] * 6)

    def measure(self, number, alone, catching_up):
        """Measures both states, first the one whose turn it is. catching_up() returns the rate of the backlog, too."""
        for state in (("alone", "catch-up"), ("catch-up", "alone"))[number % 2]:
            rate = ""
            if state == "alone":
                took = alone()
            else:
                took, rate = catching_up()
                self.rates.append(rate)
                rate = "%.0f" % rate
            self.latencies[state].append(took)
            row(("%s %d" % (self.name, number)).strip(), state, *took, rate)
            time.sleep(2)  # until what the other state left is done

    def report(self):
        for state, values in self.latencies.items():
            row((self.name + " median").strip(), state, *["%.1f" % median([value[i] for value in values]) for i in range(3)],
                "%.0f" % median(self.rates) if state != "alone" else "")
        moved = sorted(100 * (after[1] / before[1] - 1) for before, after in zip(self.latencies["alone"], self.latencies["catch-up"]))
        print("\n%sp99 moves by %.0f %% (median of pairs; %s)" % (self.name and self.name + ": ", median(moved), ", ".join("%.0f" % value for value in moved)))


def run(node, receiver, link, arguments):
    pairs = Pairs()
    pairs.print_head()
    start_s = int(time.time()) - 30 * 86400
    # Once all stacks of all services, which is not what a day that was missed has: the target knows nearly all of its stacks.
    fill(node, arguments.folder, arguments.warm, start_s - 1)
    link.set(OPEN)
    while pending(node) > 0:
        time.sleep(0.1)
    for number in range(arguments.rounds):
        link.set(CUT)
        fill(node, arguments.folder, max(1, arguments.backlog - int(pending(node))), start_s + number)
        settle(node)
        pairs.measure(number, lambda: measure(receiver, arguments.folder, arguments),
                      lambda: catch_up(node, link, receiver, arguments.folder, arguments))
    pairs.report()


def parser_of(about, **defaults):
    """Returns a parser of what both benches of a catch-up have."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="of each measurement")
    parser.add_argument("--rate", type=int, help="pushes a second of live agents")
    parser.add_argument("--backlog", type=int, help="profiles that wait at the beginning of a round, for more than the seconds")
    parser.add_argument("--warm", type=int, help="profiles that are sent before")
    parser.add_argument("--nice", type=int, default=0, help="of all processes")
    parser.add_argument("--folder", default=flamegrid.shared_folder("load"))
    parser.add_argument("--rate-max-bytes", help="of the target; 0: unlimited")
    parser.set_defaults(**defaults)
    return parser


def main():
    parser = parser_of(__doc__, rounds=5, seconds=10, rate=100, backlog=60000, warm=6000, rate_max_bytes="0")
    parser.add_argument("--server-cpus", help="for example 0")
    parser.add_argument("--node-memory", default="1GiB", help="memory_max_bytes of the node")
    parser.add_argument("--drain", action="store_true", help="only how long the whole backlog takes, without agents")
    arguments = parser.parse_args()
    cpus = {int(cpu) for cpu in arguments.server_cpus.split(",")} if arguments.server_cpus else None
    others = os.sched_getaffinity(0) - cpus if cpus else None
    place(0, others, arguments.nice)  # processes that are started have it, too
    # More than 40 services need: what dictionaries that do not fit cost is another question.
    with flamegrid.Server("--memory_max_bytes", "4GiB") as receiver:
        receiver.start()
        place(receiver.process.pid, cpus, 0)
        receiver.wait_ready()
        link = Link(receiver.port)
        with flamegrid.Server("--memory_max_bytes", arguments.node_memory, "--forward.targets",
                              "[{name: there, url: 'http://127.0.0.1:%d', rate_max_bytes: %s}]" % (link.port, arguments.rate_max_bytes)) as node:
            start_behind(node).wait_ready()
            if arguments.drain:
                drain(node, link, arguments)
            else:
                run(node, receiver, link, arguments)
        link.close()


if __name__ == "__main__":
    main()
