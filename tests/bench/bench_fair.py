#!/usr/bin/env python3
"""Measures what a server's users feel of each other. FG_BINARY says of which build.

    bench_fair.py askers [--seconds N] [--askers N] [--stacks N] [--rate N]
    bench_fair.py hostile [--seconds N] [--rounds N] [--stacks N] [--rate N] [--server-cpus LIST]
    bench_fair.py neighbours [--seconds N] [--rounds N] [--stacks N] [--rate N] [--own-stacks N] [--greedy N]
                             [--server-cpus LIST]

askers: pushes to a service of many stacks while others ask for its flame graph all the time. A push adds a few
stacks that are new; each has its own connection, and a latency counts from when the push was due.

neighbours: flame graphs of four tenants with little data (--own-stacks), a few a second each (--rate), while a fifth
one asks for a large one: not at all, at its share (a fifth of the processors), at 100 times its share, and over 200
connections that ask again at once, whatever they are answered.

hostile: pushes and flame graphs of an honest tenant, a few a second each (--rate), next to two others that do nothing, that keep to
a third of the processors and to their limits, or that are hostile: one sends a new series with each push, and garbage (files cut
short, bombs, too many labels, times of long ago), over 16 connections without a pause; the other asks for a large flame graph over
200 connections without a pause.

--greedy: so many tenants do that together. The four
states take turns; what asks is in processes of its own. --server-cpus pins the server to processors and all else to the others. Each prints rows of a Markdown table.
"""

import argparse
import gzip
import itertools
import multiprocessing
import os
import selectors
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from askers import Askers  # noqa: E402

DEPTH = 12
NEW_STACKS = 20  # of a push
MODEST, TIMES, FLOOD = 4, 100, 200  # tenants, times the share, connections
SETTLE_S = 1  # after a change of state
NICE = 19  # of generators other than the one that is measured: on its own machine it would not compete with them for a processor


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


def question():
    now = int(time.time())
    return ("/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds"
            "%%7Bservice_name=%%22askers%%22%%7D&from=%d&until=%d&max-nodes=100" % (now - 3600, now + 60))


def ask(client):
    """Returns the status."""
    return client.send("GET", question())[0]


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


def get(_):
    return question(), b""


class Asker:
    """One connection of a tenant, without waiting: the least that a generator costs. make(number) returns target and body of
    a request; a body makes it a POST."""

    numbers = itertools.count()

    def __init__(self, port, tenant, due, make):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.tenant, self.due, self.begun, self.make = tenant, due, 0.0, make
        self.received, self.length = b"", None

    def fileno(self):
        return self.socket.fileno()

    def send(self):
        self.begun, self.received, self.length = time.monotonic(), b"", None
        target, body = self.make(next(self.numbers))
        self.socket.sendall(("%s %s HTTP/1.1\r\nHost: localhost\r\nX-Scope-OrgID: %s\r\nContent-Length: %d\r\n\r\n" %
                             ("POST" if body else "GET", target, self.tenant, len(body))).encode() + body)

    def receive(self):
        """Returns the status once the answer is complete, before that None."""
        got = self.socket.recv(1 << 20)
        if not got:
            raise SystemExit("the server closed the connection")
        self.received += got
        if self.length is None and b"\r\n\r\n" in self.received:
            head, _, _ = self.received.partition(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            self.length = len(head) + 4 + int(lengths[0].split(b":")[1])
        if self.length is None or len(self.received) < self.length:
            return None
        return int(self.received[9:12])


def ask_while(asking, port, tenants, interval, patient, make):
    """Asks over a connection for each name in tenants what make() makes; on each a question is due every interval seconds (0: at once). patient:
    waits for the last answers. Returns (seconds, status) of each answer."""
    begin, took, busy = time.monotonic(), [], 0
    every = [Asker(port, tenant, begin + interval * number / len(tenants), make) for number, tenant in enumerate(tenants)]
    idle = set(every)
    with selectors.DefaultSelector() as poll:
        for asker in every:
            poll.register(asker, selectors.EVENT_READ)
        while asking.is_set() or (patient and busy > 0):
            now = time.monotonic()
            if asking.is_set():
                for asker in [asker for asker in idle if asker.due <= now]:
                    idle.remove(asker)
                    asker.due = max(asker.due + interval, now)
                    asker.send()
                    busy += 1
            wait = min((asker.due - now for asker in idle), default=1)
            for key, _ in poll.select(max(0, min(wait, 0.2))):
                status = key.fileobj.receive()
                if status is not None:
                    took.append((time.monotonic() - key.fileobj.begun, status))
                    idle.add(key.fileobj)
                    busy -= 1
    for asker in every:
        asker.socket.close()
    return took


def ask_for_ever(asking, results, niceness, *how):
    """A process that asks whenever `asking` is set."""
    os.nice(niceness)
    while True:
        asking.wait()
        results.put(ask_while(asking, *how))


class Generator:
    def __init__(self, server, tenants, interval, patient=False, make=get, niceness=0):
        self.asking, self.results = multiprocessing.Event(), multiprocessing.Queue()
        self.process = multiprocessing.Process(target=ask_for_ever, daemon=True,
                                               args=(self.asking, self.results, niceness, server.port, tenants, interval, patient, make))
        self.process.start()

    def stop(self):
        """Returns what was answered."""
        self.asking.clear()
        return self.results.get(timeout=120)

    def end(self):
        self.process.kill()
        self.process.join()


def codes_of(answers):
    codes = {}
    for _, status in answers:
        codes[status] = codes.get(status, 0) + 1
    return codes


def large_seconds(server):
    """Returns the processor time of the large question in the server, the least of five."""
    client = flamegrid.Client(server.port, timeout=120, headers=of("greedy0"))
    return min(processor_seconds(server, lambda: ask(client)) for _ in range(5))


def processor_seconds(server, run):
    def used():
        total = 0
        for task in os.listdir("/proc/%d/task" % server.process.pid):
            with open("/proc/%d/task/%s/schedstat" % (server.process.pid, task), encoding="ascii") as stat:
                total += int(stat.read().split()[0])
        return total / 1e9

    before = used()
    run()
    return used() - before


def start_on(server, cpus):
    """Starts the server on these processors, and leaves the others to this process. Returns how many it has."""
    every = os.sched_getaffinity(0)
    if cpus is None:
        server.start()
        return len(every)
    os.sched_setaffinity(0, cpus)
    server.start()
    os.sched_setaffinity(0, every - cpus)
    return len(cpus)


def neighbours(arguments):
    cpus = {int(cpu) for cpu in arguments.server_cpus.split(",")} if arguments.server_cpus else None
    with flamegrid.Server("--multitenancy_enabled", "true") as server:
        processors = start_on(server, cpus)
        server.wait_ready()
        modest = ["modest%d" % number for number in range(MODEST)]
        greedy = ["greedy%d" % number for number in range(arguments.greedy)]
        for tenant in greedy:
            fill(server, arguments.stacks, tenant)
        for tenant in modest:
            fill(server, arguments.own_stacks, tenant)
        alone = large_seconds(server)
        rate = processors / (MODEST + 1) / alone
        print("The large question takes %.0f ms of processor time; the share of its tenant is %.1f a second.\n" %
              (1000 * alone, rate))
        asking = Generator(server, modest, 1 / arguments.rate, patient=True)
        states = {"none": None,
                  "at its share": Generator(server, greedy * 4, 4 / rate),
                  "at %d times its share" % TIMES: Generator(server, (greedy * FLOOD)[:FLOOD], FLOOD / rate / TIMES),
                  "%d connections without a pause" % FLOOD: Generator(server, (greedy * FLOOD)[:FLOOD], 0)}
        took, hogs, = {}, {}
        for _ in range(arguments.rounds):
            for state, hog in states.items():
                if hog:
                    hog.asking.set()
                time.sleep(SETTLE_S)
                asking.asking.set()
                time.sleep(arguments.seconds)
                took.setdefault(state, []).extend(asking.stop())
                hogs.setdefault(state, []).extend(hog.stop() if hog else [])
        row("the other tenant", "questions", "p50 / p99 / max ms", "p50, p99 / none", "p50, p99 / share", "statuses",
            "statuses of the other")
        row(*["---"] * 7)
        for state in states:
            seconds = [second for second, _ in took[state]]
            row(state, len(seconds), " / ".join("%.2f" % (1000 * percentile(seconds, part)) for part in (0.5, 0.99, 1)),
                ratios(seconds, took["none"]), ratios(seconds, took["at its share"]), codes_of(took[state]),
                codes_of(hogs[state]))
        for generator in [asking] + [hog for hog in states.values() if hog]:
            generator.end()


# ---- hostile tenants ----

HOSTILE_LIMITS = """
overrides:
  hostile0: {max_series_per_tenant: 1000, ingestion_rate_mb: 4, ingestion_burst_size_mb: 8}
"""
GARBAGE = (
    ("format=pprof", b"\x0a\x05" + b"\xff" * 4000),  # cut short, wrong lengths
    ("format=pprof", gzip.compress(bytes(32 << 20))),  # a bomb
    ("format=jfr", b"FLR\0" + bytes(4000)),
    ("format=pprof", os.urandom(20000)),
    ("", b"main;" + b"x;" * 50000 + b"y 1\n"),
    ("", b"main;work not-a-number\n" * 500),
)


def target_of(name, age_s=0):
    return "/ingest?name=%s&from=%d&until=%d" % (name, time.time() - 10 - age_s, time.time() - age_s)


def honest_push(number):
    return target("askers.cpu"), folded(number % 50, 50).encode()


def hostile_push(number):
    """Of six pushes three are new series, one is a series with too many labels, and the others are garbage."""
    if number % 6 < 3:
        return target_of("app%d.cpu%%7Bpod%%3Dp%d%%7D" % (number, number)), b"main;work 1\n"
    if number % 6 == 3:
        return target_of("app%7B" + "%2C".join("l%d%%3D%d" % (label, number) for label in range(60)) + "%7D"), b"main;work 1\n"
    how, body = GARBAGE[number // 6 % len(GARBAGE)]
    return target_of("app") + ("&" + how if how else ""), body


def hostile(arguments):
    with tempfile.TemporaryDirectory() as folder:
        limits = os.path.join(folder, "tenants.yaml")
        with open(limits, "w", encoding="ascii") as file:
            file.write(HOSTILE_LIMITS)
        with flamegrid.Server("--multitenancy_enabled", "true", "--tenants_file", limits) as server:
            hostile_beside(arguments, server)


def hostile_beside(arguments, server):
    cpus = {int(cpu) for cpu in arguments.server_cpus.split(",")} if arguments.server_cpus else None
    processors = start_on(server, cpus)
    server.wait_ready()
    fill(server, arguments.stacks, "greedy0")
    fill(server, arguments.own_stacks, "honest")
    fill(server, arguments.own_stacks, "hostile0")
    share = processors / 3 / large_seconds(server)
    honest = {"push": Generator(server, ["honest"] * 4, 4 / arguments.rate, True, honest_push),
              "query": Generator(server, ["honest"] * 4, 4 / arguments.rate, True)}
    states = {"nothing": [],
              "their share": [Generator(server, ["hostile0"] * 4, 4 / 20, False, honest_push, NICE),
                              Generator(server, ["greedy0"] * 4, 4 / share, niceness=NICE)],
              "all they can": [Generator(server, ["hostile0"] * 16, 0, False, hostile_push, NICE),
                               Generator(server, ["greedy0"] * FLOOD, 0, niceness=NICE)]}
    took = {(state, what): [] for state in states for what in honest}
    answers = {state: [[] for _ in others] for state, others in states.items()}
    for _ in range(arguments.rounds):
        for state, others in states.items():
            for other in others:
                other.asking.set()
            time.sleep(SETTLE_S)
            for generator in honest.values():
                generator.asking.set()
            time.sleep(arguments.seconds)
            for what, generator in honest.items():
                took[state, what].extend(generator.stop())
            for at, other in enumerate(others):
                answers[state][at].extend(other.stop())
    row("the two others do", "honest", "number", "p50 / p99 / max ms", "p50, p99 / nothing", "p50, p99 / share", "statuses",
        "of the one that pushes", "of the one that asks")
    row(*["---"] * 9)
    for (state, what), answered in took.items():
        seconds = [second for second, _ in answered]
        row(state, what, len(seconds), " / ".join("%.2f" % (1000 * percentile(seconds, part)) for part in (0.5, 0.99, 1)),
            ratios(seconds, took["nothing", what]), ratios(seconds, took["their share", what]), codes_of(answered),
            *([codes_of(one) for one in answers[state]] or ["", ""]))
    for generator in [*honest.values()] + [other for others in states.values() for other in others]:
        generator.end()


def ratios(seconds, to):
    return ", ".join("%.2f" % (percentile(seconds, part) / percentile([second for second, _ in to], part))
                     for part in (0.5, 0.99))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["askers", "neighbours", "hostile"])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--askers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=4, help="of the four states")
    parser.add_argument("--own-stacks", type=int, default=100)
    parser.add_argument("--greedy", type=int, default=1)
    parser.add_argument("--server-cpus", help="for example 0, or 0,1")
    parser.add_argument("--stacks", type=int, default=60000)
    parser.add_argument("--rate", type=float, default=10, help="pushes, or questions of the neighbour, a second")
    arguments = parser.parse_args()
    {"askers": askers, "neighbours": neighbours, "hostile": hostile}[arguments.what](arguments)


if __name__ == "__main__":
    main()
