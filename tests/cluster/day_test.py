#!/usr/bin/env python3
"""A day's worth of profiles at full speed, with kills at random moments, into blocks and rollups.

    day_test.py [-k REGEX] [--instances N] [--hours N] [--stacks N] [--seed N]

Instances of one service send a profile for every ten seconds of a day that is over, as fast as they are answered.
The server compacts all the time, with no delays, and is killed again and again: while it takes, commits and
makes hours of it, with parent rollups; then while it makes a day of these. Clients send what was not answered again with the same bytes until it is. Whenever the
server is back its total lies between what was acknowledged and what was sent; in the end everything was
acknowledged, and every sum (the day, each hour, each instance) is exact: from the head, after the flush, when
all of it is one day in blocks, after a restart; and `bucket verify` counts each profile once.
"""

import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
import pprof  # noqa: E402

DAY_S = 86400
START_S = (int(time.time()) // DAY_S - 2) * DAY_S  # over, but not for a compactor that waits a week
EVERY_S = 10
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
CLIENTS = 4
VARIANTS = 40
POOL = 4000  # stacks that profiles are drawn from
LIFE_S = (0.3, 4)  # of a server that will be killed
LAST_KILLS = 6  # while it compacts what is left
REQUEST_TIMEOUT_S = 60
FLUSH_TIMEOUT_S = 300
COMPACT_S = 600  # at most, for all that is left
HOURS_ONLY, DAYS = ["--compactor.day_delay", "7d"], ["--compactor.day_delay", "0s"]
SETTINGS = ["--compactor.interval", "1s", "--compactor.hour_delay", "0s", "--compactor.fold_quiet", "0s", "--querier.manifest_age", "1s", "--ingester.segments.grace", "0s",
            "--ingester.segments.linger", "1s", "--ingester.segments.evict_after", "0s",
            "--ingester.segments.poll", "1s", "--ingester.segments.cut_bytes", "1MiB"]


class Day:
    """The profiles to send: for each instance and moment one of a few bodies, whose sum is known."""

    def __init__(self, seed, instances, hours, stacks):
        rng = random.Random(seed)
        pool = [tuple("f%d" % rng.randrange(40 * depth + 1) for depth in range(rng.randrange(3, 25))) for _ in range(POOL)]
        self.instances, self.seconds = instances, hours * 3600
        self.bodies = []
        for _ in range(VARIANTS):
            values = {stack: (1 + rng.randrange(9), 10_000_000 * (1 + rng.randrange(9)))
                      for stack in rng.sample(pool, stacks)}
            self.bodies.append((pprof.make(values, 0), sum(cpu for _, cpu in values.values())))
        self.choice = bytes(rng.randrange(VARIANTS) for _ in range(instances * self.seconds // EVERY_S))
        self.total = sum(self.value(number) for number in range(len(self.choice)))
        self.order = list(range(len(self.choice)))
        # Roughly in order of time, as agents send; some come late.
        self.order.sort(key=lambda number: self.time_s(number) + rng.uniform(0, 900) + (rng.random() < 0.01) * DAY_S)

    def time_s(self, number):
        return START_S + number // self.instances * EVERY_S

    def instance(self, number):
        return number % self.instances

    def value(self, number):
        return self.bodies[self.choice[number]][1]

    def request(self, number):
        """Of two times in a message the last one counts."""
        body = self.bodies[self.choice[number]][0] + pprof.number(9, self.time_s(number) * 10**9 + self.instance(number))
        return "/ingest?name=day%%7Bpod%%3Dp%d%%7D&format=pprof&sampleRate=100" % self.instance(number), body


class Clients:
    """Threads that each take a moment and send it until it is acknowledged."""

    def __init__(self, port, day):
        self.port, self.day = port, day
        self.lock = threading.Lock()
        self.rest = iter(day.order)
        self.acknowledged = self.sent = 0  # sums
        self.again = 0
        self.faults = []
        self.threads = [threading.Thread(target=self.loop, daemon=True) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def under_way(self):
        return any(thread.is_alive() for thread in self.threads)

    def sums(self):
        with self.lock:
            return self.acknowledged, self.sent

    def loop(self):
        client = flamegrid.Client(self.port, REQUEST_TIMEOUT_S)
        while not self.faults:
            with self.lock:
                number = next(self.rest, None)
                self.sent += 0 if number is None else self.day.value(number)
            if number is None:
                return
            while not self.faults and not self.send(client, number):
                self.again += 1
                time.sleep(0.02)
            with self.lock:
                self.acknowledged += self.day.value(number)

    def send(self, client, number):
        try:
            status, body = client.send("POST", *self.day.request(number))
        except (OSError, http.client.HTTPException):
            return False  # the server is away; its answer is lost
        if status not in (200, 429, 503, 504):
            self.faults.append("%d %s" % (status, body[:200]))
        return status == 200


def total(client, selector, first_s, last_s):
    return client.flame_total(CPU, selector, first_s * 1000, last_s * 1000 - 1)


def check_between(server, clients):
    """The answer has at least what was acknowledged before, and at most what was sent."""
    least, _ = clients.sums()
    found = total(flamegrid.Client(server.port, REQUEST_TIMEOUT_S), '{service_name="day"}', START_S, START_S + DAY_S)
    _, most = clients.sums()
    flamegrid.check(least <= found <= most, "%d is there, %d was acknowledged, %d sent", found, least, most)


def check_all(server, day):
    client = flamegrid.Client(server.port, REQUEST_TIMEOUT_S)
    parts = {('{service_name="day"}', START_S, START_S + DAY_S): 0}
    for number in range(len(day.choice)):
        hour_s = day.time_s(number) // 3600 * 3600
        pod = '{service_name="day",pod="p%d"}' % day.instance(number)
        for part in (('{service_name="day"}', START_S, START_S + DAY_S), ('{service_name="day"}', hour_s, hour_s + 3600),
                     (pod, START_S, START_S + DAY_S)):
            parts[part] = parts.get(part, 0) + day.value(number)
    for (selector, first_s, last_s), value in parts.items():
        found = total(client, selector, first_s, last_s)
        flamegrid.check(found == value, "%s from %d: %d instead of %d", selector, first_s, found, value)
    in_series = client.series_total(CPU, '{service_name="day"}', START_S * 1000, (START_S + DAY_S) * 1000 - 1000)
    flamegrid.check(in_series == day.total, "%d in the series", in_series)


def kill_while(server, rng, clients, go_on):
    """Kills and restarts the server while the function returns true; returns how often."""
    kills = 0
    while go_on():
        time.sleep(rng.uniform(*LIFE_S))
        flamegrid.check(server.alive(), "the server ended by itself:\n%s", server.log_tail())
        flamegrid.check(not clients.faults, "%s", clients.faults[:3])
        server.kill()
        server.start().wait_ready()
        check_between(server, clients)
        kills += 1
        if kills % 20 == 0:
            print("     %d kills, %.0f %% is acknowledged" % (kills, 100 * clients.sums()[0] / clients.day.total), flush=True)
    return kills


def is_compacted(server, profiles, level):
    """Whether all profiles are in blocks of that level, and no merge is pending."""
    status = json.loads(server.operate("GET", "/compactor/status", REQUEST_TIMEOUT_S)[1])
    return bool(status["tenants"]) and status["job"] is None and all(
        tenant["uncovered_segments"] == 0 and tenant["profiles"] == profiles and tenant["blocks"][level] > 0 and
        (level == "hour" or tenant["blocks"]["hour"] == 0) for tenant in status["tenants"])


def wait_compacted(server, profiles, level):
    deadline = time.monotonic() + COMPACT_S
    while not is_compacted(server, profiles, level):
        flamegrid.check(time.monotonic() < deadline, "compaction does not end:\n%s", server.log_tail())
        time.sleep(0.5)


def flush(server):
    status, body = server.operate("POST", "/ingester/flush", FLUSH_TIMEOUT_S)
    flamegrid.check(status == 200, "flush: %d %s", status, body)


def verify(server, profiles):
    """Checks all files of the stopped server: each profile once."""
    flamegrid.check(server.terminate() == 0, "%s", server.log_tail())
    done = subprocess.run([flamegrid.binary(), "bucket", "verify", "--data", server.data], capture_output=True,
                          text=True, check=False)
    flamegrid.check(done.returncode == 0, "bucket verify: %s%s", done.stdout, done.stderr)
    flamegrid.check("anonymous: %d profiles, each once" % profiles in done.stdout, "%s", done.stdout)
    server.start().wait_ready()
    return done.stdout.strip()


def day(seed, instances, hours, stacks):
    rng = random.Random(seed + 1)
    sent = Day(seed, instances, hours, stacks)
    profiles = len(sent.choice)
    with flamegrid.Server(*SETTINGS, *HOURS_ONLY) as server:
        server.start().wait_ready()
        began = time.monotonic()
        clients = Clients(server.port, sent)
        kills = kill_while(server, rng, clients, clients.under_way)
        flamegrid.check(not clients.faults, "%s", clients.faults[:3])
        took_s = time.monotonic() - began
        check_all(server, sent)
        flush(server)
        wait_compacted(server, profiles, "hour")
        hours_said = verify(server, profiles)
        check_all(server, sent)
        server.kill()
        server.arguments = [*SETTINGS, *DAYS]
        server.start().wait_ready()
        last = iter(range(LAST_KILLS))
        late_kills = kill_while(server, rng, clients, lambda: not is_compacted(server, profiles, "day") and
                                next(last, None) is not None)
        wait_compacted(server, profiles, "day")
        check_all(server, sent)
        days_said = verify(server, profiles)
        check_all(server, sent)
    flamegrid.check(kills > 0, "it was over before the first kill")
    print("     %d profiles in %.0f s with %d kills, %d sent again; %d kills while the day was made\n     hours: %s\n     day: %s" %
          (profiles, took_s, kills, clients.again, late_kills, *(said.replace("\n", "; ") for said in (hours_said, days_said))))


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=4)
    parser.add_argument("--hours", type=int, default=3)
    parser.add_argument("--stacks", type=int, default=40, help="of a profile")
    arguments, tally = flamegrid.parse_seeded(parser)
    tally.run("a day at full speed, with kills", day, arguments.seed, arguments.instances, arguments.hours, arguments.stacks)
    tally.finish()


if __name__ == "__main__":
    main()
