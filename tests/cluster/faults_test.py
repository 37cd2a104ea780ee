#!/usr/bin/env python3
"""A cluster of real processes, with faults drawn by a seed: no acknowledged profile is lost, none counts twice.

    faults_test.py [-k REGEX] [--rounds N] [--seed N] [--keep]

`flamegrid canary` is the client: it pushes profiles of known values, asks for them all the time, and names those that
an answer lacks or has twice. Two distributors and two queriers are behind one address each. With -k and --rounds a
case runs for as long as one likes; --keep leaves the folder with logs and data of a case that failed.
"""

import contextlib
import glob
import http.client
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import cluster as clusters  # noqa: E402
import deletions  # noqa: E402
import faulty_disk  # noqa: E402
import flamegrid  # noqa: E402
import link  # noqa: E402
import stores  # noqa: E402
import watched  # noqa: E402
from flamegrid import check  # noqa: E402

FULL_DISK_MIB = 16


# ---- faults: each begins, lasts for a while and is healed ----

def killed(run):
    member = run.draw("ingester", "distributor", "querier", "compactor")
    member.kill()
    time.sleep(run.span())
    member.start().wait_ready()
    return member.name


def paused(run):
    member = run.draw("ingester", "distributor", "querier", "compactor")
    member.signal(signal.SIGSTOP)
    time.sleep(run.span())
    member.signal(signal.SIGCONT)
    return member.name


def restarted(run):
    member = run.draw("ingester", "distributor", "querier", "compactor")
    member.terminate()
    member.start().wait_ready()
    return member.name


def partitioned(run):
    member, mode = run.draw("ingester"), run.rng.choice([link.CUT, link.HELD, link.ANSWERS_HELD, link.SILENT])
    member.link.set(mode)
    time.sleep(run.span())
    member.link.set(link.OPEN)
    return "%s, %s" % (member.name, mode)


def wiped(run):
    """Waits until an earlier loss has drained: three replicas do not survive two lost disks at a time."""
    run.cluster.wait_drained(watched.DRAIN_S)
    member = run.draw("ingester")
    member.kill()
    member.wipe()
    time.sleep(run.span())
    member.start().wait_ready()
    run.cluster.wait_drained(watched.DRAIN_S)
    return member.name


def damaged(run):
    """Like a wiped disk, but the ingester detects it by itself and is no replica until an operator has decided."""
    run.cluster.wait_drained(watched.DRAIN_S)
    member = run.draw("ingester")
    time.sleep(1.5)  # a mark a second
    member.kill()
    faulty_disk.cut_manifest(member.folder, 20)
    time.sleep(run.span())
    check(member.start().process.wait(watched.WAIT_S) == 1, "%s has started:\n%s", member.name, member.log_tail())
    member.start("--ingester.accept_loss", faulty_disk.number_of_damage(member.log())).wait_ready()
    run.cluster.wait_drained(watched.DRAIN_S)
    return member.name


def two_at_once(run):
    """Holds up one ingester while a process that owns no shards is down."""
    held, other = run.draw("ingester"), run.draw("distributor", "querier", "compactor")
    held.link.set(link.HELD)
    other.kill()
    time.sleep(run.span())
    other.start().wait_ready()
    held.link.set(link.OPEN)
    return "%s held up, %s killed" % (held.name, other.name)


def spread_changed(run):
    """Gives each distributor other limits; a wider spread begins a quarter of an hour later and stays."""
    spread = run.rng.randrange(4)
    for member in run.cluster.of("distributor"):
        member.terminate()
        member.start("--limits.shard_factor", str(spread)).wait_ready()
    return "2^%d shards" % spread


def new_tenant(run):
    """The first profiles of a new tenant are of two hours ago and of now; afterwards an ingester is killed."""
    tenant = "new-%d" % run.others
    for until_s in (int(time.time()) - 7200, int(time.time())):
        target = "/ingest?name=new.cpu&format=folded&from=%d&until=%d" % (until_s - 10, until_s)
        client = flamegrid.Client(run.cluster.push.port, 20, {"X-Scope-OrgID": tenant})
        run.wait("a profile of a new tenant", lambda: client.send("POST", target, "main;work %d\n" % until_s)[0] == 200)
        run.others += 1
    member = run.draw("ingester")
    member.kill()
    member.start().wait_ready()
    return "%s, %s killed" % (tenant, member.name)


def bad_disk(run):
    """Disk calls of one ingester are slow or fail for a while."""
    member = run.draw("ingester")
    rule = run.rng.choice(["sync slow ms=700", "sync hold name=.log", "write EIO", "sync EIO", "read EIO", "open EIO"])
    member.terminate()
    disk = faulty_disk.FaultyDisk(member)
    member.start().wait_ready()
    disk.fail(rule)
    time.sleep(run.span())
    disk.fail()
    return "%s, %s" % (member.name, rule)


def flushed(run):
    """Commits all profiles of one ingester; profiles that only others have must still be found."""
    member = run.draw("ingester")
    status, body = member.operate("POST", "/ingester/flush", watched.DRAIN_S)
    check(status == 200, "flush of %s: %d %s", member.name, status, body)
    return member.name


def store_paused(run):
    run.store.pause()
    time.sleep(2 * run.span())
    run.store.resume()
    return "connections stay open without answers"


def store_gone(run):
    run.store.stop()
    time.sleep(2 * run.span())
    run.store.spawn()
    return "connections are refused"


def manifest_lost(run):
    """A manifest is missing for a while: no process makes a new one. The ring is restored by its members, also if it is damaged."""
    flushed(run)  # a bucket without segments is like one that was never used
    name, how = run.rng.choice([("l0", "lost"), ("ring", "lost"), ("ring", "flipped"), ("ring", "cut")])
    path = os.path.join(run.bucket_folder(), "manifests", name)
    with open(path, "rb") as file:
        content = file.read()
    harm(path, content, how, run.rng)
    time.sleep(run.span())
    if name == "l0":
        check(not os.path.exists(path), "somebody has made a new %s", name)
        put_back(path, content, how)
    else:
        run.wait("the ring is back", lambda: run.cluster.has_ring())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ".aside")
    return "%s %s" % (name, how)


def harmed(run):
    """A segment or block is damaged, truncated or removed for a while in which a process starts; then it is restored."""
    flushed(run)
    root, how = run.bucket_folder(), run.rng.choice(["flipped", "cut", "lost"])
    paths = sorted(glob.glob(os.path.join(root, "segments", "*", "*")) +
                   glob.glob(os.path.join(root, "tenants", "*", "blocks", "*")))
    path = run.rng.choice(paths)
    with contextlib.suppress(FileNotFoundError):  # it was replaced by another one, and is deleted
        with open(path, "rb") as file:
            content = file.read()
        harm(path, content, how, run.rng)
        member = run.draw("ingester", "querier", "compactor")
        member.kill()
        member.start().wait_ready()
        time.sleep(run.span())
        put_back(path, content, how)
    for member in run.cluster.of("ingester"):  # they compare themselves with it at once, and not in five minutes
        run.wait("%s is flushed" % member.name, lambda: member.operate("POST", "/ingester/flush", 20)[0] == 200)
    return "%s %s" % (os.path.relpath(path, root), how)


def harm(path, content, how, rng):
    """Writes in place, keeping the extended attributes: a store may keep metadata there."""
    if how == "lost":
        os.rename(path, path + ".aside")
    elif how == "cut":
        os.truncate(path, rng.randrange(len(content)))
    else:
        with open(path, "r+b") as file:
            for _ in range(10):
                place = rng.randrange(len(content))
                file.seek(place)
                file.write(bytes([content[place] ^ 1 << rng.randrange(8)]))


def put_back(path, content, how):
    if how == "lost":
        os.rename(path + ".aside", path)
        return
    with open(path, "r+b") as file:
        file.write(content)


def store_away(run):
    """Stops the store for minutes, with starts in between, which wait for it."""
    run.store.stop()
    until = time.monotonic() + run.rng.uniform(60, 150)
    kinds = ["distributor", "querier", "compactor", "ingester"]
    while time.monotonic() < until:
        time.sleep(5 * run.span())
        member = run.draw(*kinds)
        member.kill()
        member.start()
        if member.kind == "ingester":
            kinds.remove("ingester")  # two of three are needed
    run.store.spawn()
    return "for minutes"


def skewed(run):
    """The clock of a machine is a day off: the clock of the object store is used."""
    member, shift_s = run.draw("ingester", "distributor", "querier", "compactor"), run.rng.choice([-86400, 86400])
    member.terminate()
    member.start(environment={**flamegrid.preload("shifted_clock"), "SHIFTED_CLOCK_S": str(shift_s)}).wait_ready()
    time.sleep(run.span())
    member.terminate()
    member.start().wait_ready()
    return "%s by %d s" % (member.name, shift_s)


FAULTS = [killed, killed, flushed, flushed, paused, restarted, partitioned, partitioned, wiped, damaged, two_at_once,
          spread_changed, new_tenant, bad_disk, manifest_lost, harmed]
FAULTS_OF_STORE = [store_paused, store_gone, skewed]
FAULTS_OF_MINUTES = [store_away]
MANY_ROUNDS = 100  # with FAULTS_OF_MINUTES


def faults_in_any_order(rng, rounds, keep, store=None):
    """store: an object store, which has faults of its own; None: the bucket is a directory."""
    faults = FAULTS + (FAULTS_OF_STORE * 2 if store else [])
    faults += FAULTS_OF_MINUTES if store and rounds >= MANY_ROUNDS else []
    with watched.Run(rng, keep, store=store, tenants=("one", "two")) as run:
        for number in range(1, rounds + 1):
            fault, before, began = rng.choice(faults), run.failures(), time.monotonic()
            what = "%s (%s)" % (fault.__name__, fault(run))
            run.cluster.wait_ready()
            run.progress(what)
            failed = [now - then for now, then in zip(run.failures(), before)]
            print("     round %d: %s, %.1f s; pushes refused %d, unanswered %d; questions unanswered %d" %
                  (number, what, time.monotonic() - began, *failed), flush=True)
            for line in run.complaints()[:3]:
                print("       " + line)
        print("     %s" % run.finish())


# ---- what operators do ----

def rolling_restart(rng, keep):
    """All processes are restarted one after another without a refused push."""
    with watched.Run(rng, keep) as run:
        for member in run.cluster.members.values():
            member.terminate()
            member.start().wait_ready()
            time.sleep(1)  # as a rollout waits
        refused, unanswered, unavailable = run.failures()
        check(refused == unanswered == 0, "%d pushes were refused, %d had no answer:\n%s", refused, unanswered,
              run.log()[-3000:])
        print("     questions without an answer: %d; %s" % (unavailable, run.finish()))


def in_maintenance(run):
    return [member["name"] for member in run.cluster.ring()["members"] if "maintenance_since_ns" in member]


def restart_of_all_at_once(rng, keep):
    """All ingesters get SIGTERM at the same time and start again as soon as they have ended, as a rollout of several sets
    does: they stop one after the other, and no push is refused."""
    settings = {**clusters.QUICK, "ingester": [*clusters.QUICK["ingester"], clusters.WAIT, "%ds" % watched.WAIT_S]}
    with watched.Run(rng, keep, settings=settings) as run:
        members, left = run.cluster.of("ingester"), run.cluster.of("ingester")
        for member in members:
            member.signal(signal.SIGTERM)
        while left:
            run.wait("another ingester has stopped", lambda: any(not member.alive() for member in left))
            gone = [member for member in members if not member.alive()]
            check(len(gone) == 1, "%s are away at a time", [member.name for member in gone])
            check(gone[0].process.returncode == 0, "%s:\n%s", gone[0].name, gone[0].log_tail())
            run.wait("the ring says so", lambda: in_maintenance(run) == [gone[0].name])
            time.sleep(3)  # as long as a slow start; others must not use it
            check(all(member.alive() for member in members if member is not gone[0]), "a second one has stopped")
            left.remove(gone[0])
            gone[0].start().wait_ready()
        run.wait("no ingester is in maintenance", lambda: in_maintenance(run) == [])
        check(run.cluster.ring()["maintenance_overrides"] == 0, "%s", run.cluster.ring())
        refused, unanswered, unavailable = run.failures()
        check(refused == unanswered == 0, "%d pushes were refused, %d had no answer:\n%s", refused, unanswered,
              run.log()[-3000:])
        print("     questions without an answer: %d; %s" % (unavailable, run.finish()))


def restart_next_to_a_dead_one(rng, keep):
    """An ingester that is to restart goes on while another one is dead, and no push is refused: with both away there would be no quorum."""
    settings = {**clusters.QUICK, "ingester": [*clusters.QUICK["ingester"], clusters.WAIT, "%ds" % watched.WAIT_S]}
    with watched.Run(rng, keep, settings=settings) as run:
        dead, member = rng.sample(run.cluster.of("ingester"), 2)
        dead.kill()
        member.signal(signal.SIGTERM)
        time.sleep(5)  # several rounds of questions
        check(member.alive() and in_maintenance(run) == [], "%s:\n%s", member.name, member.log_tail())
        check("%s does not answer" % dead.name in member.log_tail(), "%s", member.log_tail())
        dead.start().wait_ready()
        run.wait("%s has stopped" % member.name, lambda: not member.alive())
        check(member.process.returncode == 0, "%s", member.log_tail())
        run.wait("the ring says so", lambda: in_maintenance(run) == [member.name])
        member.start().wait_ready()
        refused, unanswered, unavailable = run.failures()
        check(refused == unanswered == 0, "%d pushes were refused, %d had no answer:\n%s", refused, unanswered,
              run.log()[-3000:])
        print("     questions without an answer: %d; %s" % (unavailable, run.finish()))


def leave(run, member):
    status, body = member.operate("POST", "/ingester/prepare-shutdown")
    check(status in (200, 204), "prepare-shutdown: %d %s", status, body)
    member.terminate()
    member.link.close()
    del run.cluster.members[member.name]


def scale_up_and_down(rng, keep):
    """Three ingesters, then five, then three, two of which are new."""
    with watched.Run(rng, keep) as run:
        for number in (4, 5):
            run.cluster.add("ingester", number).start().wait_ready()
            time.sleep(2)
        run.progress("two have joined")
        members = run.cluster.of("ingester")
        for member in rng.sample(members, 2):
            leave(run, member)
            run.progress("%s has left" % member.name)
        ring = run.cluster.wait_drained(watched.DRAIN_S)
        names = sorted(member["name"] for member in ring["members"])
        check(names == sorted(member.name for member in run.cluster.of("ingester")), "%s", ring)
        refused, unanswered, _ = run.failures()
        check(refused == unanswered == 0, "%d pushes were refused, %d had no answer:\n%s", refused, unanswered,
              run.log()[-3000:])
        print("     %s" % run.finish())


# ---- disks ----

def full_disk(rng, keep):
    """The disk of one ingester is full: the other two continue, and it returns when there is space."""
    with watched.Run(rng, keep) as run:
        member = run.draw("ingester")
        member.terminate()
        with Tmpfs(member.folder, FULL_DISK_MIB) as disk:
            member.start().wait_ready()
            disk.fill()
            time.sleep(5)
            run.progress("%s has a full disk" % member.name)
            disk.empty()
            run.cluster.wait_ready()
            run.progress("%s has room again" % member.name)
            print("     %s" % run.finish())


class Tmpfs:
    """A file system of a few MiB with the content of the folder, for the time of the context."""

    def __init__(self, folder, mib):
        self.folder, self.mib = folder, mib
        self.filler = os.path.join(folder, "filler")

    def __enter__(self):
        shutil.move(self.folder, self.folder + ".was")
        os.mkdir(self.folder)
        mount("-t", "tmpfs", "-o", "size=1024m", "tmpfs", self.folder)
        shutil.copytree(self.folder + ".was", self.folder, dirs_exist_ok=True)
        return self

    def __exit__(self, *exception):
        subprocess.run(["umount", "-l", self.folder], check=False)

    def fill(self):
        used_mib = shutil.disk_usage(self.folder).used >> 20
        mount("-o", "remount,size=%dm" % (used_mib + self.mib), self.folder)
        for chunk in (1 << 16, 1 << 12):
            with open(self.filler, "ab", buffering=0) as filler:
                try:
                    while True:
                        filler.write(bytes(chunk))
                except OSError:
                    pass

    def empty(self):
        os.unlink(self.filler)
        mount("-o", "remount,size=1024m", self.folder)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def can_mount(folder="/tmp"):
    """Mounts may be forbidden to root in a container, so this tries one."""
    place = os.path.join(folder, "flamegrid-mount.%d" % os.getpid())
    os.mkdir(place)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False)
    if done.returncode == 0:
        subprocess.run(["umount", place], check=True)
    os.rmdir(place)
    return done.returncode == 0


# ---- the bucket ----

LATE = "/pyroscope/render?from=now-5m&until=now&query=" + urllib.parse.quote(
    'process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="late"}')


def late_push_is_taken(run):
    """A profile of an hour ago that may be in the bucket; this is checked when the bucket is back."""
    until_s = int(time.time()) - 3600
    target = "/ingest?name=late.cpu&format=folded&from=%d&until=%d" % (until_s - 10, until_s)
    status, body = flamegrid.Client(run.cluster.push.port, 20).send("POST", target, "main;work %d\n" % until_s)
    check(status == 200, "a late profile: %d %s", status, body)
    run.others += 1


def answers_say_how_old_they_are(run):
    """Answers come from copies and from the ingesters; from the second query on they do not wait for the bucket."""
    for member in run.cluster.of("querier"):
        connection = http.client.HTTPConnection("127.0.0.1", member.port, timeout=20)
        connection.request("GET", LATE)
        response = connection.getresponse()
        body, missing = response.read(), response.headers["X-Flamegrid-Missing"]
        connection.close()
        check(response.status == 200, "%s: %d %s", member.name, response.status, body)
        check(response.headers["X-Flamegrid-Complete"] == "false" and "s ago" in missing, "%s: %s", member.name, missing)


def starts_wait_for_it(run):
    """Processes that start now keep running, are not ready, and say why: when their first request has timed out, so all start
    before the first is waited for."""
    members = [run.draw(kind) for kind in ("ingester", "distributor", "querier", "compactor")]
    for member in members:
        member.kill()
        member.start()
    for member in members:
        run.wait("%s says that it waits" % member.name, lambda: b"bucket_away" in member.send("GET", "/ready")[1])
        check(member.alive() and member.send("GET", "/ready")[0] == 503, "%s:\n%s", member.name, member.log_tail())


def bucket_away(rng, keep, store):
    """An object store that hangs for a while, and one that is stopped and started again: pushes continue."""
    settings = {**clusters.QUICK, "ingester": clusters.QUICK["ingester"] + ["--ingester.segments.evict_after", "2m"]}
    with watched.Run(rng, keep, store=store, settings=settings) as run:
        for away, back in ((store.pause, store.resume), (store.stop, store.spawn)):
            for member in run.cluster.of("querier"):  # each knows the manifests
                run.wait("an answer of %s" % member.name, lambda: member.send("GET", LATE)[0] == 200)
            before = run.counts()
            away()
            time.sleep(2 * watched.SPAN_S[1])
            now = run.counts()
            check(now["profiles_acknowledged_total"] > before["profiles_acknowledged_total"] + 20,
                  "without a bucket no push is taken: %s", run.log()[-2000:])
            late_push_is_taken(run)
            answers_say_how_old_they_are(run)
            starts_wait_for_it(run)
            back()
            run.cluster.wait_ready()
            run.progress("the bucket is back")
        print("     %s" % run.finish())


def with_store(tally, name, case, *arguments):
    with tempfile.TemporaryDirectory(prefix="flamegrid-store.") as folder:
        store = stores.Versitygw(folder)
        os.makedirs(stores.BUILD, exist_ok=True)
        try:
            store.start()
            tally.run(name, case, *arguments, store)
        except stores.Unavailable as why:
            tally.skip(name, why)
        finally:
            store.stop()


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6, help="of faults in any order")
    parser.add_argument("--keep", action="store_true", help="leave logs and data of what failed")
    arguments, tally = flamegrid.parse_seeded(parser)

    def rng():
        return random.Random(arguments.seed)

    tally.run("rolling restart", rolling_restart, rng(), arguments.keep)
    tally.run("restart of all ingesters at once", restart_of_all_at_once, rng(), arguments.keep)
    tally.run("restart next to a dead ingester", restart_next_to_a_dead_one, rng(), arguments.keep)
    tally.run("scale up and down", scale_up_and_down, rng(), arguments.keep)
    if can_mount():
        tally.run("a full disk of an ingester", full_disk, rng(), arguments.keep)
    else:
        tally.skip("a full disk of an ingester", "needs a file system of its own, and may not mount one")
    if tally.wants("the bucket away"):
        with_store(tally, "the bucket away", bucket_away, rng(), arguments.keep)
    tally.run("a deletion waits for who is away", deletions.from_one_who_was_away)
    tally.run("faults in any order", faults_in_any_order, rng(), arguments.rounds, arguments.keep)
    if tally.wants("faults of the store in any order"):
        with_store(tally, "faults of the store in any order", faults_in_any_order, rng(), arguments.rounds,
                   arguments.keep)
    tally.finish()


if __name__ == "__main__":
    main()
