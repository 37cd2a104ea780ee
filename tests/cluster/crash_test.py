#!/usr/bin/env python3
"""Kills the server again and again: what it acknowledged is there exactly once.

    crash_test.py [-k REGEX] [--seconds N] [--seed N]

Clients push profiles of known values and keep a ledger. A push that was answered 200 has to be in
every later answer once; one whose answer was lost, at most once; one that was sent again after that,
with the same bytes, once as well. Each push has a stack of its own, so a flame graph tells which pushes
are in it and how often, not only how many.
"""

import concurrent.futures
import gzip
import http.client
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import deletions  # noqa: E402
import flamegrid  # noqa: E402
import pprof  # noqa: E402

CLIENTS = 4
SERVICES = 6
START_S = 1_750_000_000
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
COUNT = "process_cpu:samples:count::"
LIFE_S = (0.4, 2.5)  # of a server that will be killed
RESEND_SHARE = 0.05  # of the pushes that were answered
REQUEST_TIMEOUT_S = 30
EARLIEST_S = 2  # before the first profile, in queries
FULL_DISK_MIB = 24
NOISE_LINES = 200
RECOVERY_S = 30
REFUSALS = 50  # by a full disk, before it gets room

# Everything is in a segment within a moment, and out of the head; old data comes for groups that were
# committed before, so nearly every push is a late one.
COMMITTING = ["--ingester.segments.cut_bytes", "64KiB", "--ingester.segments.grace", "0s",
              "--ingester.segments.linger", "0s", "--ingester.segments.forget_after", "0s",
              "--ingester.segments.poll", "1s"]


class Push:
    """One upload: what was sent, to which service, and what became of it."""

    def __init__(self, number, rng):
        self.number = number
        self.folded = number % 3 == 0
        self.service = "crash-%s-%d" % ("text" if self.folded else "pprof", rng.randrange(SERVICES))
        self.frame = "push_%d" % number
        self.value = rng.randrange(1, 1000)
        self.time_s = START_S + number
        self.pod = rng.randrange(5)
        self.noise = 0  # what else it adds to the total
        self.acknowledged = False
        self.target, self.body = self.text() if self.folded else self.pprof()

    def query(self, format_):
        return "/ingest?name=%s%%7Bpod%%3D%d%%7D&from=%d&until=%d&sampleRate=0&format=%s" % (
            self.service, self.pod, self.time_s, self.time_s + 10, format_)

    def text(self):
        return self.query("folded"), b"main;shared;%s %d\n" % (self.frame.encode(), self.value)

    def pprof(self):
        stacks = {("main", "shared", self.frame): (1, self.value)}
        return self.query("pprof"), gzip.compress(pprof.make(stacks, self.time_s * 10**9 + self.number), 1)


class Ledger:
    """All pushes so far. Threads add to it, one at a time."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lock = threading.Lock()
        self.pushes = []
        self.refused = 0

    def next(self):
        """A new push, one that went unanswered, or one the server has already."""
        with self.lock:
            if self.pushes and self.rng.random() < RESEND_SHARE:
                return self.rng.choice(self.pushes)
            push = Push(len(self.pushes), self.rng)
            self.pushes.append(push)
            return push

    def bulky(self):
        """A new push with much that no other has, so that it takes room on the disk."""
        push = Push(3 * len(self.pushes), self.rng)  # a text
        for _ in range(NOISE_LINES):
            push.body += b"%x;%x 1\n" % (self.rng.getrandbits(256), self.rng.getrandbits(256))
        push.noise = NOISE_LINES
        self.pushes.append(push)
        return push

    def lost(self):
        return [push for push in self.pushes if not push.acknowledged]


class Clients:
    """Threads that push as fast as they are answered, until told to stop."""

    def __init__(self, port, ledger):
        self.port, self.ledger = port, ledger
        self.stop = threading.Event()
        self.faults = []
        self.threads = [threading.Thread(target=self.loop) for _ in range(CLIENTS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def loop(self):
        client = flamegrid.Client(self.port, REQUEST_TIMEOUT_S)
        while not self.stop.is_set():
            try:
                send(client, self.ledger.next(), self.faults)
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)  # the server is away; its answer is lost


def send(client, push, faults):
    status, body = client.send("POST", push.target, push.body)
    if status == 200:
        push.acknowledged = True
    elif status not in (429, 503):
        faults.append("push %d: status %d %s" % (push.number, status, body[:200]))


def frames_of(client, push_type, service, range_ms):
    """{frame of a push: value}, and the total of all."""
    found, total = client.flame_frames(push_type, '{service_name="%s"}' % service, *range_ms)
    return {name: value for name, value in found.items() if name.startswith("push_")}, total


def verify(port, ledger):
    """Every service's answer against the ledger."""
    client = flamegrid.Client(port, REQUEST_TIMEOUT_S)
    services = {}
    for push in ledger.pushes:
        services.setdefault((push.service, COUNT if push.folded else CPU), []).append(push)
    range_ms = ((START_S - EARLIEST_S) * 1000, (START_S + ledger.pushes[-1].number + 60) * 1000)
    for (service, push_type), pushes in services.items():
        found, total = frames_of(client, push_type, service, range_ms)
        for push in pushes:
            value = found.pop(push.frame, 0)
            allowed = (push.value,) if push.acknowledged else (0, push.value)
            flamegrid.check(value in allowed, "push %d of %s: %d is stored, sent was %d, acknowledged: %s",
                            push.number, service, value, push.value, push.acknowledged)
            total -= value + (push.noise if value else 0)
        flamegrid.check(not found and total == 0, "%s: %d more than was sent, %s", service, total, list(found)[:5])
        in_series = client.series_total(push_type, '{service_name="%s"}' % service, *range_ms)
        in_graph = client.flame_total(push_type, '{service_name="%s"}' % service, *range_ms)
        flamegrid.check(in_series == in_graph, "%s: %d in the series, %d in the graph", service, in_series, in_graph)


def send_again(port, ledger):
    """What was lost, with the same bytes. Afterwards all of it is acknowledged."""
    client = flamegrid.Client(port, REQUEST_TIMEOUT_S)
    faults = []
    for push in ledger.lost():
        send(client, push, faults)
    flamegrid.check(not faults, "%s", faults[:3])


def kill_loop(seed, seconds, *settings):
    ledger = Ledger(seed)
    rng = random.Random(seed + 1)
    end, kills = time.monotonic() + seconds, 0
    with flamegrid.Server(*settings) as server:
        server.start().wait_ready()
        while time.monotonic() < end:
            with Clients(server.port, ledger) as clients:
                time.sleep(rng.uniform(*LIFE_S))
                flamegrid.check(server.alive(), "the server ended by itself:\n%s", server.log_tail())
                server.kill()
            kills += 1
            flamegrid.check(not clients.faults, "%s", clients.faults[:3])
            server.start().wait_ready()
            verify(server.port, ledger)
            if rng.random() < 0.5:
                send_again(server.port, ledger)
        send_again(server.port, ledger)
        flamegrid.check(not ledger.lost(), "%d pushes were refused to the end", len(ledger.lost()))
        verify(server.port, ledger)
        if settings:
            everything_is_committed(server, ledger)
        print("     %d kills, %d pushes" % (kills, len(ledger.pushes)))
    flamegrid.check(len(ledger.pushes) > kills, "hardly anything was pushed")


def everything_is_committed(server, ledger):
    """The same answers with nothing left in the head, before and after a restart."""
    for _ in range(2):
        status, body = server.operate("POST", "/ingester/flush", REQUEST_TIMEOUT_S)
        flamegrid.check(status == 200, "flush: %d %s", status, body)
        metrics = server.metrics()
        flamegrid.check('uncommitted_bytes{state="open"} 0\n' in metrics, "something is left in the head")
        verify(server.port, ledger)
        flamegrid.check(server.terminate() == 0, "%s", server.log_tail())
        done = subprocess.run([flamegrid.binary(), "bucket", "verify", "--data", server.data], capture_output=True,
                              text=True, check=False)
        flamegrid.check(done.returncode == 0, "bucket verify: %s", done.stderr)
        # Whoever was killed while it built a segment has left a file, and who came after removed it.
        flamegrid.check(os.listdir(os.path.join(server.data, "scratch")) == [], "something is left in the scratch folder")
        # A push that was never answered may be there as well.
        profiles = int(done.stdout.split()[1])
        least = sum(push.acknowledged for push in ledger.pushes)
        flamegrid.check(least <= profiles <= len(ledger.pushes), "%d of %d profiles", profiles, len(ledger.pushes))
        server.start().wait_ready()


def drain(seed):
    """SIGTERM under load: what is under way is answered, and nothing acknowledged is lost."""
    ledger = Ledger(seed)
    with flamegrid.Server() as server:
        server.start().wait_ready()
        with Clients(server.port, ledger) as clients:
            time.sleep(1)
            code = server.terminate()
        flamegrid.check(code == 0, "exit code %d:\n%s", code, server.log_tail())
        flamegrid.check(not clients.faults, "%s", clients.faults[:3])
        server.start().wait_ready()
        verify(server.port, ledger)


def readiness():
    """/ready is 503 or no answer while starting, then 200."""
    with flamegrid.Server() as server:
        server.start()
        seen = set()
        while 200 not in seen:
            seen.add(server.ready())
            flamegrid.check(server.alive(), "%s", server.log_tail())
        flamegrid.check(seen <= {0, 200, 503}, "%s", seen)
        flamegrid.check(server.terminate() == 0, "%s", server.log_tail())


def second_server():
    """A folder belongs to one server: another one must not open it."""
    with flamegrid.Server() as first, flamegrid.Server(data=first.data) as second:
        first.start().wait_ready()
        flamegrid.check(second.start().wait() not in (0, -9), "the second server ran:\n%s", second.log_tail())
        flamegrid.check(first.ready() == 200, "the first server is gone")


def many_readers(seed, *settings):
    """Queries while clients push never see half a profile or one twice: totals only grow."""
    ledger = Ledger(seed)
    with flamegrid.Server(*settings) as server:
        server.start().wait_ready()
        with Clients(server.port, ledger) as clients, concurrent.futures.ThreadPoolExecutor(2) as pool:
            for watch in [pool.submit(watch_total, server.port, seconds) for seconds in (3, 3)]:
                watch.result()
        flamegrid.check(not clients.faults, "%s", clients.faults[:3])
        verify(server.port, ledger)


def disk_full(seed):
    """A full disk is answered with an error, not with a promise; given room, the server goes on by itself."""
    ledger = Ledger(seed)
    with flamegrid.Server() as server:
        os.mkdir(server.data)
        mount("-t", "tmpfs", "-o", "size=%dm" % FULL_DISK_MIB, "tmpfs", server.data)
        try:
            server.start().wait_ready()
            refusals = fill_disk(server, ledger)
            flamegrid.check(refusals, "the disk of %d MiB never was full", FULL_DISK_MIB)
            mount("-o", "remount,size=1024m", server.data)
            wait_until_taken(server, ledger)
            verify(server.port, ledger)
            server.kill()
            server.start().wait_ready()
            verify(server.port, ledger)
            send_again(server.port, ledger)
            verify(server.port, ledger)
        finally:
            server.kill()
            subprocess.run(["umount", server.data], check=False)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def can_mount():
    """Root of a container may be forbidden to, so it is tried."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False)
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return done.returncode == 0


def fill_disk(server, ledger):
    """Pushes large texts until enough were not taken. Those answers."""
    client, refusals = flamegrid.Client(server.port, REQUEST_TIMEOUT_S), []
    while len(refusals) < REFUSALS and len(ledger.pushes) < 20000 and server.alive():
        push = ledger.bulky()
        try:
            status, body = client.send("POST", push.target, push.body)
        except (OSError, http.client.HTTPException) as fault:
            refusals.append(str(fault))
            continue
        if status == 200:
            push.acknowledged = True
        else:
            flamegrid.check(status in (429, 500, 503), "status %d: %s", status, body[:200])
            refusals.append(status)
    return refusals


def wait_until_taken(server, ledger):
    client, push = flamegrid.Client(server.port, REQUEST_TIMEOUT_S), ledger.bulky()
    deadline = time.monotonic() + RECOVERY_S
    while not push.acknowledged:
        send(client, push, [])
        flamegrid.check(time.monotonic() < deadline, "refuses %d s after the disk has room", RECOVERY_S)
        time.sleep(0.1)


def watch_total(port, seconds):
    client, last = flamegrid.Client(port, REQUEST_TIMEOUT_S), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        total = client.flame_total(CPU, '{service_name=~"crash-.*"}', START_S * 1000, (START_S + 10**6) * 1000)
        flamegrid.check(total >= last, "the total fell from %d to %d", last, total)
        last = total


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=45, help="of the kill loop")
    arguments, tally = flamegrid.parse_seeded(parser)
    tally.run("readiness", readiness)
    tally.run("one server for a folder", second_server)
    tally.run("drain on SIGTERM", drain, arguments.seed)
    tally.run("totals only grow", many_readers, arguments.seed)
    tally.run("totals only grow while segments are made", many_readers, arguments.seed, *COMMITTING)
    tally.run("a deletion acts at once", deletions.acts_at_once)
    tally.run("a deletion acts at once on blocks", deletions.from_blocks)
    if can_mount():
        tally.run("full disk", disk_full, arguments.seed)
    else:
        tally.skip("full disk", "needs a file system of its own, and may not mount one")
    tally.run("kill -9", kill_loop, arguments.seed, arguments.seconds)
    tally.run("kill -9 while segments are made", kill_loop, arguments.seed, arguments.seconds, *COMMITTING)
    tally.finish()


if __name__ == "__main__":
    main()
