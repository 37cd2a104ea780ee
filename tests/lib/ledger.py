"""Clients that push profiles with known values and keep a ledger; answers are compared with it.

A push that was answered 200 has to be in every later answer once; one whose answer was lost, at most once; one that
was sent again after that, with the same bytes, once as well. Each push has a stack of its own, so a flame graph tells
which pushes are in it and how often, not only how many.
"""

import gzip
import http.client
import random
import threading
import time

import flamegrid
import pprof

CLIENTS = 4
SERVICES = 6
START_S = 1_750_000_000
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
COUNT = "process_cpu:samples:count::"
RESEND_SHARE = 0.05  # of the pushes that were answered
REQUEST_TIMEOUT_S = 30
EARLIEST_S = 2  # before the first profile, in queries
NOISE_LINES = 200


class Push:
    """One upload: its content, its service and its outcome."""

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
    """All pushes so far. Threads add to it under a lock."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lock = threading.Lock()
        self.pushes = []
        self.numbers = 0  # given so far, or passed over

    def next(self):
        """Returns a new push or, to be sent again, an earlier one, acknowledged or not."""
        with self.lock:
            if self.pushes and self.rng.random() < RESEND_SHARE:
                return self.rng.choice(self.pushes)
            return self.add(self.numbers)

    def add(self, number):
        push = Push(number, self.rng)
        self.pushes.append(push)
        self.numbers = number + 1
        return push

    def bulky(self):
        """Returns a new push with large unique content that needs space on the disk."""
        with self.lock:
            push = self.add(self.numbers + -self.numbers % 3)  # a text
            for _ in range(NOISE_LINES):
                push.body += b"%x;%x 1\n" % (self.rng.getrandbits(256), self.rng.getrandbits(256))
            push.noise = NOISE_LINES
            return push

    def totals(self, push_type):
        """Returns the sums of acknowledged and of sent values of a type, so far."""
        with self.lock:
            pushes = [push for push in self.pushes if push.folded == (push_type == COUNT)]
        return (sum(push.value for push in pushes if push.acknowledged),
                sum(push.value + push.noise for push in pushes))

    def lost(self):
        return [push for push in self.pushes if not push.acknowledged]


class Clients:
    """Threads that push as fast as they get answers, or with pauses, until they are stopped."""

    def __init__(self, port, ledger, pause_s=0):
        self.port, self.ledger, self.pause_s = port, ledger, pause_s
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
                time.sleep(self.pause_s)
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)  # the server is away; its answer is lost


def send(client, push, faults):
    status, body = client.send("POST", push.target, push.body)
    if status == 200:
        push.acknowledged = True
    elif status not in (429, 503):
        faults.append("push %d: status %d %s" % (push.number, status, body[:200]))


def frames_of(client, push_type, service, range_ms):
    """Returns {frame of a push: value} and the total."""
    found, total = client.flame_frames(push_type, '{service_name="%s"}' % service, *range_ms)
    return {name: value for name, value in found.items() if name.startswith("push_")}, total


def verify(port, ledger):
    """Compares the answer for every service with the ledger."""
    client = flamegrid.Client(port, REQUEST_TIMEOUT_S)
    services = {}
    for push in ledger.pushes:
        services.setdefault((push.service, COUNT if push.folded else CPU), []).append(push)
    range_ms = ((START_S - EARLIEST_S) * 1000, (START_S + ledger.numbers + 60) * 1000)
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
    """Sends unacknowledged pushes again, with the same bytes. Afterwards all are acknowledged."""
    client = flamegrid.Client(port, REQUEST_TIMEOUT_S)
    faults = []
    for push in ledger.lost():
        send(client, push, faults)
    flamegrid.check(not faults, "%s", faults[:3])
