#!/usr/bin/env python3
"""A server whose disk is full, broken or slow for a while: reads go on, nothing acknowledged is lost, nothing aborts.

    disk_test.py [-k REGEX] [--seed N] [--points N]

Faults are those of tests/lib/faulty_disk.c, which is preloaded, and of a small tmpfs where one may be mounted.
Clients push all the time and keep a ledger; readers ask all the time, and each question has to have an answer.
--points is how many calls of each kind fail, one after the other; with `-k fail --points 200` it takes an hour.
"""

import contextlib
import http.client
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from faulty_disk import FULL, FULL_UNSAID, FaultyDisk, cut_manifest, number_of_damage, table_of  # noqa: E402
from flamegrid import check  # noqa: E402
from ledger import CPU, REQUEST_TIMEOUT_S, START_S, Clients, Ledger, send, send_again, verify  # noqa: E402

NOTICE_S = 5  # until a full disk refuses, and until one with room does not
CHECKED_S = 60  # until late profiles, taken while the bucket could not be asked whether it has them, are in answers
PATIENCE_S = 30  # FG_UNREAD_PATIENCE_NS of common/storage/store/unread.h
STEADY_S = 1.5  # questions are answered for so long when a fault is over
# Text of the refusal while profiles in the time of the query are unchecked: the bucket is on the same disk.
UNCHECKED = "late profiles of this time range cannot be checked for duplicates"
ANY = ""  # a text that each refusal has
TMPFS_MIB = 64
PAUSE_S = 0.01  # of each client after a push: verifying takes its time, too
WHILE_S = 1.5  # that calls go on failing
BROKEN = [("write", "EIO"), ("write", "ENOSPC"), ("sync", "EIO"), ("create", "EIO"), ("rename", "EIO"),
          ("truncate", "EIO"), ("unlink", "EIO"), ("read", "EIO"), ("open", "EIO")]

# Profiles move all the time: into segments, into blocks, out of the head.
BUSY = ["--ingester.segments.cut_bytes", "64KiB", "--ingester.segments.grace", "0s", "--ingester.segments.linger", "0s",
        "--ingester.segments.evict_after", "0s", "--ingester.segments.poll", "1s", "--compactor.interval", "1s",
        "--compactor.hour_delay", "0s", "--compactor.day_delay", "0s", "--ingester.store_write_buffer_bytes", "256KiB",
        "--ingester.store_wal_max_bytes", "4MiB"]


class Readers:
    """Ask all the time. Each answer has to come. Its total never falls, and lies between what was acknowledged before
    the question and what was sent by its end."""

    def __init__(self, server, ledger):
        self.port, self.ledger = server.port, ledger
        self.faults, self.answers = [], 0
        self.expected = None  # a text: refusals that have it are right, while a fault lasts
        self.refused_at = 0.0  # when a question was last refused so
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.loop)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.stop.set()
        self.thread.join()

    def loop(self):
        client, last = flamegrid.Client(self.port, REQUEST_TIMEOUT_S), 0
        while not self.stop.is_set():
            least, _ = self.ledger.totals(CPU)
            try:
                total = client.flame_total(CPU, '{service_name=~"crash-.*"}', START_S * 1000, (START_S + 10**6) * 1000)
            except (AssertionError, OSError, http.client.HTTPException) as fault:
                if self.expected is None or self.expected not in str(fault):
                    self.faults.append(str(fault))
                self.refused_at = time.monotonic()
                time.sleep(0.05)
                continue
            _, most = self.ledger.totals(CPU)
            if not max(last, least) <= total <= most:
                self.faults.append("the total is %d after %d; acknowledged were %d, sent %d" % (total, last, least, most))
            last = total
            self.answers += 1

    @contextlib.contextmanager
    def refused(self, expected):
        """Queries may be refused with this text in this block; it ends when they have been answered for a while."""
        self.expected, self.refused_at = expected, time.monotonic()
        yield
        ended = time.monotonic()
        wait("questions are answered", lambda: time.monotonic() - max(self.refused_at, ended) > STEADY_S, CHECKED_S)
        self.expected = None

    def check(self, server):
        check(self.answers > 0 and not self.faults, "%d answers, and %s\n%s", self.answers, self.faults[:3],
              server.log_tail())


@contextlib.contextmanager
def traffic(server, ledger):
    """Clients and readers; their complaints fail the case."""
    with Clients(server.port, ledger, PAUSE_S) as clients, Readers(server, ledger) as readers:
        yield readers
    check(server.alive(), "the server ended by itself:\n%s", server.log_tail())
    check(not clients.faults, "%s", clients.faults[:3])
    readers.check(server)


def get(server, target):
    return flamegrid.Client(server.port, REQUEST_TIMEOUT_S).send("GET", target)


def metrics(server):
    lines = [line.rsplit(" ", 1) for line in server.metrics().splitlines() if line[:1] != "#"]
    return {name: float(value) for name, value in lines}


def refusals(server):
    return sum(value for name, value in metrics(server).items() if name.startswith("flamegrid_ingester_pushes_refused"))


def wait(what, condition, timeout_s=NOTICE_S):
    """Returns the time that it took. Sanitizers and concurrent tests take time as well."""
    began = time.monotonic()
    while not condition():
        check(time.monotonic() < began + 4 * timeout_s, "not in %d s: %s", 4 * timeout_s, what)
        time.sleep(0.05)
    return time.monotonic() - began


def push_refused(server, ledger):
    """A push is refused with 503 and Retry-After."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=REQUEST_TIMEOUT_S)
    push = ledger.bulky()
    connection.request("POST", push.target, push.body)
    response = connection.getresponse()
    body = response.read()
    check(response.status == 503 and response.getheader("Retry-After"), "%d %s", response.status, body)
    connection.close()


def restart(server, orderly):
    if orderly:
        check(server.terminate() == 0, "%s", server.log_tail())
    else:
        server.kill()
    server.start()
    wait("questions are answered after a restart", lambda: answers(server), flamegrid.READY_TIMEOUT_S / 4)


def answers(server):
    check(server.alive(), "the server ended:\n%s", server.log_tail())
    try:
        flamegrid.Client(server.port, 5).flame_total(CPU, "{}", START_S * 1000, START_S * 1000 + 1)
    except (AssertionError, OSError, http.client.HTTPException):
        return False
    return True


def nothing_is_left(server):
    """No temporary file is left over."""
    for folder in ("scratch", "compaction", os.path.join("bucket", "tmp")):
        path = os.path.join(server.data, folder)
        check(not os.path.isdir(path) or os.listdir(path) == [], "%s has %s", folder, os.listdir(path))


def bucket_is_sound(server):
    done = subprocess.run([flamegrid.binary(), "bucket", "verify", "--data", server.data], capture_output=True,
                          text=True, check=False)
    check(done.returncode == 0, "bucket verify: %s", done.stderr)


def finish(server, ledger):
    """All pushes are acknowledged by now: each is in the answer once, also after a restart, and nothing else is."""
    send_again(server.port, ledger)
    check(not ledger.lost(), "%d pushes were refused to the end", len(ledger.lost()))
    for _ in range(2):
        verify(server.port, ledger)
        check(server.terminate() == 0, "%s", server.log_tail())
        nothing_is_left(server)
        bucket_is_sound(server)
        server.start().wait_ready()
    verify(server.port, ledger)


# ---- a broken disk ----

def broken(seed, points):
    """Calls of each kind fail: one at a time, then all for a while. The server recovers by itself."""
    ledger, rng = Ledger(seed), random.Random(seed)
    with flamegrid.Server(*BUSY) as server:
        disk = FaultyDisk(server)
        server.start().wait_ready()
        with traffic(server, ledger) as readers:
            time.sleep(1)
            for calls, error in BROKEN:
                before = len(disk.hits())
                with readers.refused(ANY if calls in ("read", "open") else UNCHECKED):
                    for _ in range(points):
                        disk.fail("%s %s from=%d count=1" % (calls, error, rng.randrange(1, 60)))
                        time.sleep(rng.uniform(0.2, 0.6))
                    disk.fail("%s %s" % (calls, error))
                    time.sleep(WHILE_S)
                    wait("a call of %s" % calls, lambda: len(disk.hits()) > before)
                    disk.fail()
                    back_s = wait("ready again after %s %s" % (calls, error), lambda: server.ready() == 200)
                    taken(server, ledger)
                failed = len(disk.hits()) - before
                print("     %s %s: %d failed; ready after %.1f s" % (calls, error, failed, back_s), flush=True)
        verify(server.port, ledger)
        server.kill()
        server.environment = {}
        server.start().wait_ready()
        finish(server, ledger)


def broken_at_the_start(seed, points):
    """A call fails during the start: the server starts, or exits with an error that says why."""
    ledger, rng = Ledger(seed), random.Random(seed)
    ends = 0
    with flamegrid.Server(*BUSY) as server:
        disk = FaultyDisk(server)
        server.start().wait_ready()
        with Clients(server.port, ledger, PAUSE_S):
            time.sleep(2)
        for calls in ("open", "create", "read", "write", "sync", "rename", "truncate", "mkdir", "unlink"):
            for point in range(points):
                server.kill()
                disk.fail("%s EIO from=%d" % (calls, 1 if point == 0 else rng.randrange(1, 80)))
                server.start()
                wait("an answer or an end", lambda: not server.alive() or server.ready() != 0,
                     flamegrid.READY_TIMEOUT_S / 4)
                time.sleep(0.5)
                if not server.alive():
                    ends += 1
                    check(server.wait() == 1 and "could not start" in server.log_tail(), "ended with %d:\n%s",
                          server.wait(), server.log_tail())
                server.kill()
                disk.fail()
                server.start().wait_ready()
                verify(server.port, ledger)
        check(disk.hits(), "no call failed")
        print("     %d calls failed, %d starts ended" % (len(disk.hits()), ends))
        finish(server, ledger)


def slow(seed):
    """Calls are slow or hang for a while; a query may wait for the head. Everything is answered afterwards."""
    ledger = Ledger(seed)
    with flamegrid.Server(*BUSY) as server:
        disk = FaultyDisk(server)
        server.start().wait_ready()
        with traffic(server, ledger) as readers:
            time.sleep(1)
            for rule in ("sync slow ms=500", "sync hold name=.log", "write hold name=.log"):
                before = len(disk.hits())
                disk.fail(rule)
                time.sleep(WHILE_S)
                wait("a call that waits: %s" % rule, lambda: len(disk.hits()) > before)
                disk.fail()
                taken(server, ledger)
                answers_before = readers.answers
                wait("an answer after %s" % rule, lambda: readers.answers > answers_before)
        finish(server, ledger)


def taken(server, ledger):
    """A push is acknowledged within seconds."""
    push, client = ledger.bulky(), flamegrid.Client(server.port, REQUEST_TIMEOUT_S)

    def once():
        send(client, push, [])
        return push.acknowledged

    wait("a push is taken", once)


# ---- a damaged disk ----

def damaged(seed):
    """A start with a damaged head says so and changes nothing. After the loss is accepted, only the head is lost."""
    ledger = Ledger(seed)
    with flamegrid.Server() as server:
        head = os.path.join(server.data, "head")
        server.start().wait_ready()
        with Clients(server.port, ledger, PAUSE_S):
            time.sleep(1)
        send_again(server.port, ledger)
        status, body = server.operate("POST", "/ingester/flush", REQUEST_TIMEOUT_S)
        check(status == 200, "flush: %d %s", status, body)
        in_head = Ledger(seed + 1)
        in_head.numbers = ledger.numbers
        with Clients(server.port, in_head, PAUSE_S):
            time.sleep(2)  # a mark a second
        server.kill()
        cut_manifest(head, 20)
        files = sorted(os.listdir(head))
        for _ in range(2):
            check(server.start().wait() == 1, "ended with %s:\n%s", server.process.returncode, server.log_tail())
            check(sorted(os.listdir(head)) == files, "files were changed")
        number = number_of_damage(server.log())
        server.arguments = ["--ingester.accept_loss", "00000000"]
        check(server.start().wait() == 1, "another damage was accepted:\n%s", server.log_tail())
        server.arguments = ["--ingester.accept_loss", number]
        server.start().wait_ready()
        verify(server.port, ledger)
        check([name for name in os.listdir(head) if name.startswith("lost-")], "the old head is gone")
        ledger.pushes += in_head.pushes
        ledger.numbers = in_head.numbers
        for push in in_head.pushes:
            push.acknowledged = False  # nobody has them any more
        finish(server, ledger)


def head_of(server, seed):
    """Fills the head of a server, and stops it in order, so that all is in tables. Returns the folder and the ledger."""
    ledger = Ledger(seed)
    server.start().wait_ready()
    with Clients(server.port, ledger, PAUSE_S):
        time.sleep(1)
    send_again(server.port, ledger)
    check(server.terminate() == 0, "%s", server.log_tail())
    return os.path.join(server.data, "head"), ledger


def says(server, condition):
    try:
        return condition in get(server, "/ready")[1]
    except (OSError, http.client.HTTPException):
        return False


def times_raised(server, condition):
    with open(server.log_path, encoding="utf-8", errors="replace") as log:
        return sum('"condition raised" condition=%s ' % condition in line for line in log)


def lost_sector(seed):
    """A sector of a table goes on giving EIO. The start waits, then goes on without what the sector held, keeps the
    table, and says all of it. The next start does not wait."""
    with flamegrid.Server() as server:
        disk = FaultyDisk(server)
        head, ledger = head_of(server, seed)
        table = table_of(head, "series")
        disk.fail("read EIO name=%s at=10" % table)
        server.start()
        wait("the start waits for the disk", lambda: says(server, b"disk_away: "), flamegrid.READY_TIMEOUT_S / 4)
        check(not os.path.exists(os.path.join(head, "unread")), "%s is given up at once", table)
        took_s = wait("the start goes on", lambda: server.ready() == 200, PATIENCE_S)
        status, body = get(server, "/ready")
        check(all(name in body for name in (b"head_unread: ", b"head_damaged: ", table.encode())), "%d %s", status, body)
        check(not says(server, b"disk_away"), "it waits still")
        waits = times_raised(server, "disk_away")
        check(waits > 0, "the log does not say that it waited")
        check(metrics(server)["flamegrid_store_unread_files"] == 1, "no metric")
        check(os.path.exists(os.path.join(head, "unread", table)), "%s is not kept", table)
        try:
            verify(server.port, ledger)
        except AssertionError as fault:
            check("set partial=true" in str(fault), "%s", fault)
        else:
            raise AssertionError("nothing is missing in answers")
        taken(server, ledger)
        for end in (server.terminate, server.kill):
            end()
            server.start()
            wait("a later start", lambda: server.ready() == 200, PATIENCE_S)
            check(times_raised(server, "disk_away") == waits, "a later start waited:\n%s", server.log_tail())
            taken(server, ledger)
        print("     started after %.1f s" % took_s, flush=True)


def head_that_gives_nothing(seed):
    """All of the head gives EIO for longer than a sector would be given up. The start waits and loses nothing."""
    with flamegrid.Server() as server:
        disk = FaultyDisk(server)
        head, ledger = head_of(server, seed)
        disk.fail("read EIO name=/head/")
        server.start()
        wait("the start says why it waits", lambda: says(server, b"disk_away: ") and says(server, b"the disk fails ("),
             2 * PATIENCE_S)
        check(server.alive() and not os.path.exists(os.path.join(head, "unread")), "%s", server.log_tail())
        disk.fail()
        server.wait_ready()
        finish(server, ledger)


# ---- a full disk ----

def full(seed, fill, free, settings, server, reason):
    """fill() fills the disk and free() empties it. The server is restarted while it is full."""
    ledger = Ledger(seed)
    server.arguments = settings
    server.start().wait_ready()
    with traffic(server, ledger):
        time.sleep(2)
        fill()
        noticed_s = wait("pushes are refused", lambda: server.ready() == 503 and refusals(server) > 0)
        time.sleep(3)
        push_refused(server, ledger)
        status, body = get(server, "/ready")
        check(status == 503 and reason in body, "/ready: %d %s", status, body)
        check(metrics(server)["flamegrid_ingester_takes_pushes"] == 0, "pushes are taken, it says")
    verify(server.port, ledger)
    for orderly in (True, False):
        restart(server, orderly)
        verify(server.port, ledger)
        push_refused(server, ledger)
        check(server.ready() == 503, "ready on a full disk")
    with traffic(server, ledger):
        time.sleep(1)
        refused = refusals(server)
        free()
        back_s = wait("pushes are taken again", lambda: server.ready() == 200)
        check(refused > 0, "no refusal was counted")
        time.sleep(1)
    check("pushes are accepted again" in server.log(), "no word of it:\n%s", server.log_tail())
    print("     refused after %.1f s, taken after %.1f s, %d pushes" % (noticed_s, back_s, len(ledger.pushes)))
    finish(server, ledger)


def full_disk(seed, rules, reason):
    with flamegrid.Server() as server:
        disk = FaultyDisk(server)
        full(seed, lambda: disk.fail(*rules), disk.fail, BUSY, server, reason)
        check(len(disk.hits()) > 0, "nothing failed")


def small_disk(seed):
    """A file system that another program fills to the last byte, and then frees."""
    with flamegrid.Server() as server:
        os.mkdir(server.data)
        mount("-t", "tmpfs", "-o", "size=%dm" % TMPFS_MIB, "tmpfs", server.data)
        filler = Filler(os.path.join(server.data, "filler"))
        try:
            full(seed, filler.start, filler.end, BUSY, server, b"disk full")
        finally:
            filler.end()
            server.kill()
            subprocess.run(["umount", server.data], check=False)


class Filler:
    """Takes all free space, also space that becomes free, until it ends."""

    def __init__(self, path):
        self.path = path
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.loop)

    def start(self):
        self.thread.start()

    def loop(self):
        with open(self.path, "ab", buffering=0) as file:
            while not self.stop.is_set():
                for chunk in (1 << 20, 1 << 12):
                    with contextlib.suppress(OSError):
                        while not self.stop.is_set():
                            file.write(bytes(chunk))
                time.sleep(0.02)

    def end(self):
        self.stop.set()
        if self.thread.ident:
            self.thread.join()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def can_mount():
    """Mounts may be forbidden to root in a container, so this tries one."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False)
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return done.returncode == 0


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=2, help="calls of each kind that fail")
    arguments, tally = flamegrid.parse_seeded(parser)
    tally.run("a full disk refuses pushes and answers questions", full_disk, arguments.seed, FULL, b"disk full")
    tally.run("a disk that is full without a warning", full_disk, arguments.seed, FULL_UNSAID, b"a write failed")
    if can_mount():
        tally.run("a small disk filled by another program", small_disk, arguments.seed)
    else:
        tally.skip("a small disk filled by another program", "needs a file system of its own, and may not mount one")
    tally.run("calls that fail", broken, arguments.seed, arguments.points)
    tally.run("calls that fail at the start", broken_at_the_start, arguments.seed, arguments.points)
    tally.run("calls that hang", slow, arguments.seed)
    tally.run("a damaged head", damaged, arguments.seed)
    tally.run("a lost sector", lost_sector, arguments.seed)
    tally.run("a head that gives nothing", head_that_gives_nothing, arguments.seed)
    tally.finish()


if __name__ == "__main__":
    main()
