#!/usr/bin/env python3
"""Kills the server again and again: what it acknowledged is there exactly once.

    crash_test.py [-k REGEX] [--seconds N] [--seed N]

Clients push profiles of known values and keep a ledger (tests/lib/ledger.py).
"""

import concurrent.futures
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import deletions  # noqa: E402
import flamegrid  # noqa: E402
from ledger import CPU, REQUEST_TIMEOUT_S, START_S, Clients, Ledger, send_again, verify  # noqa: E402

LIFE_S = (0.4, 2.5)  # of a server that will be killed

# Everything is in a segment within a moment, and out of the head; old data comes for groups that were
# committed before, so nearly every push is a late one.
COMMITTING = ["--ingester.segments.cut_bytes", "64KiB", "--ingester.segments.grace", "0s",
              "--ingester.segments.linger", "0s", "--ingester.segments.evict_after", "0s",
              "--ingester.segments.poll", "1s"]


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
    """Compares the answers with an empty head, before and after a restart."""
    for _ in range(2):
        status, body = server.operate("POST", "/ingester/flush", REQUEST_TIMEOUT_S)
        flamegrid.check(status == 200, "flush: %d %s", status, body)
        metrics = server.metrics()
        flamegrid.check('uncommitted_bytes{state="open"} 0\n' in metrics, "something is left in the head")
        verify(server.port, ledger)
        flamegrid.check(server.terminate() == 0, "%s", server.log_tail())
        done = subprocess.run([flamegrid.binary(), "bucket", "verify", "--data", server.data], capture_output=True,
                              text=True, check=False)
        flamegrid.check(done.returncode == 0, "bucket verify: %s%s", done.stdout, done.stderr)
        # A server killed while it built a segment leaves a file, which the next start removes.
        flamegrid.check(os.listdir(os.path.join(server.data, "scratch")) == [], "something is left in the scratch folder")
        # A push that was never answered may be in the answer as well.
        profiles = int(done.stdout.split()[1])
        least = sum(push.acknowledged for push in ledger.pushes)
        flamegrid.check(least <= profiles <= len(ledger.pushes), "%d of %d profiles", profiles, len(ledger.pushes))
        server.start().wait_ready()


def drain(seed):
    """SIGTERM under load: requests in progress are answered, and nothing acknowledged is lost."""
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
    """A data folder belongs to one server: a second server must not open it."""
    with flamegrid.Server() as first, flamegrid.Server(data=first.data) as second:
        first.start().wait_ready()
        flamegrid.check(second.start().wait() not in (0, -9), "the second server ran:\n%s", second.log_tail())
        flamegrid.check(first.ready() == 200, "the first server is gone")


def many_readers(seed, *settings):
    """Queries during pushes never see half a profile or a duplicate: totals only grow."""
    ledger = Ledger(seed)
    with flamegrid.Server(*settings) as server:
        server.start().wait_ready()
        with Clients(server.port, ledger) as clients, concurrent.futures.ThreadPoolExecutor(2) as pool:
            for watch in [pool.submit(watch_total, server.port, seconds) for seconds in (3, 3)]:
                watch.result()
        flamegrid.check(not clients.faults, "%s", clients.faults[:3])
        verify(server.port, ledger)


def watch_total(port, seconds):
    client, last = flamegrid.Client(port, REQUEST_TIMEOUT_S), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        total = client.flame_total(CPU, '{service_name=~"crash-.*"}', START_S * 1000, (START_S + 10**6) * 1000)
        flamegrid.check(total >= last, "the total fell from %d to %d", last, total)
        last = total


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="of the kill loop")
    arguments, tally = flamegrid.parse_seeded(parser)
    tally.run("readiness", readiness)
    tally.run("one server for a folder", second_server)
    tally.run("drain on SIGTERM", drain, arguments.seed)
    tally.run("totals only grow", many_readers, arguments.seed)
    tally.run("totals only grow while segments are made", many_readers, arguments.seed, *COMMITTING)
    tally.run("a deletion acts at once", deletions.acts_at_once)
    tally.run("a deletion acts at once on blocks", deletions.from_blocks)
    tally.run("kill -9", kill_loop, arguments.seed, arguments.seconds)
    tally.run("kill -9 while segments are made", kill_loop, arguments.seed, arguments.seconds, *COMMITTING)
    tally.finish()


if __name__ == "__main__":
    main()
