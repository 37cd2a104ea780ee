#!/usr/bin/env python3
"""A cluster in zones, three replicas: a whole zone may go, and what comes back has all again.

    zones_test.py [-k REGEX] [--seed N] [--keep]
"""

import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import cluster as clusters  # noqa: E402
import flamegrid  # noqa: E402
import watched  # noqa: E402
from flamegrid import check  # noqa: E402

THREE = {"ingesters": 6, "zones": ("a", "b", "c")}  # two each
TWO = {"ingesters": 4, "zones": ("a", "b")}
COUNT = "process_cpu:samples:count::"
PROFILES = 60
SERVICES = 8  # so that every ingester owns some of it
WAIT_S = 60
QUIET_PASSES = 6
# Profiles stay in heads, and members ask each other at once.
HEADS = {kind: ["--ring.poll", "500ms"] for kind in ("ingester", "distributor", "querier")}
HEADS["ingester"] = HEADS["ingester"] + ["--ingester.repair.every", "1s", "--ingester.repair.min_age", "1s"]
HEADS["compactor"] = []


def of_zone(cluster, zone):
    number = cluster.zones.index(zone)
    return cluster.of("ingester")[number::len(cluster.zones)]


def kill(members):
    """Kills them together, as when a zone fails: the last is gone before the first is noticed."""
    for member in members:
        member.process.kill()
    for member in members:
        member.process.wait()


def start(members):
    for member in members:
        member.start()
    for member in members:
        member.wait_ready()


def zones_go(rng, keep):
    """Each zone fails and returns, one after another, during pushes and queries: nothing is refused."""
    with watched.Run(rng, keep, **THREE) as run:
        for zone in rng.sample(run.cluster.zones, len(run.cluster.zones)):
            members = of_zone(run.cluster, zone)
            callers = [run.callers(member) for member in members]
            kill(members)
            time.sleep(run.span())
            run.progress("zone %s is gone" % zone)
            start(members)
            for member, names in zip(members, callers):
                run.wait_found(member, names)
            run.progress("zone %s is back" % zone)
        run.none_failed()
        print("     %s" % run.finish())


def joins(rng, keep):
    """A member joins in a zone while another zone is down: nothing is refused."""
    with watched.Run(rng, keep, **THREE) as run:
        away = of_zone(run.cluster, "b")
        kill(away)
        run.progress("zone b is gone")
        member = run.cluster.add("ingester", 7)  # in zone a
        member.start().wait_ready()
        run.progress("%s has joined" % member.name)
        start(away)
        ring = run.cluster.wait_drained(watched.DRAIN_S)
        zones = sorted(member["zone"] for member in ring["members"])
        check(zones == ["a", "a", "a", "b", "b", "c", "c"], "%s", ring)
        run.none_failed()
        print("     %s" % run.finish())


# ---- a zone that comes back ----

def push(client, first, count):
    """Pushes one profile for each past second, of services in turn. Returns the sum of their values."""
    now, total = int(time.time()), 0
    for number in range(first, first + count):
        value = 1000 + number
        target = "/ingest?name=zones-%d&from=%d&until=%d&sampleRate=0&format=folded" % (
            number % SERVICES, now - 200 + number, now - 190 + number)
        status, body = client.send("POST", target, b"main;f%d %d\n" % (number, value))
        check(status == 200, "push %d: %d %s", number, status, body[:200])
        total += value
    return total


def total_of(cluster):
    """Queries everything that the reachable ingesters have."""
    client = flamegrid.Client(cluster.query.port, headers={"X-Flamegrid-Partial": "true"})
    now_ms = int(time.time() * 1000)
    return client.flame_total(COUNT, '{service_name=~"zones-.*"}', now_ms - 3600_000, now_ms + 60_000)


def wait_repaired(members):
    """Until some passes in a row have found nothing to take at any other member. How many profiles repair
    takes is not known: a push that was under way when its ingester was killed may arrive once that is back."""
    deadline = time.monotonic() + WAIT_S
    before, since = None, {}
    while True:
        counts = {member.name: member.metrics() for member in members}
        passes = {name: count["flamegrid_ingester_repair_passes_total"] for name, count in counts.items()}
        taken = {name: count["flamegrid_ingester_repair_profiles_total"] for name, count in counts.items()}
        if taken != before:
            before, since = taken, passes
        elif sum(taken.values()) > PROFILES / 2 and all(passes[name] > since[name] + QUIET_PASSES for name in passes):
            return
        check(time.monotonic() < deadline, "not repaired in %d s: %s, passes %s", WAIT_S, taken, passes)
        time.sleep(0.2)


def repaired(_rng, _keep):
    """Profiles pushed while a zone was down are in it after its return: it alone has all, each once."""
    with clusters.Cluster(settings=HEADS, distributors=1, queriers=1, compactors=1, **THREE).start() as cluster:
        cluster.wait_drained(watched.DRAIN_S)  # what comes before is committed for it, and stays in no head
        client = flamegrid.Client(cluster.push.port)
        total = push(client, 0, PROFILES)
        back = of_zone(cluster, "c")
        kill(back)
        total += push(client, PROFILES, PROFILES)
        start(back)
        wait_repaired(back)
        check(total_of(cluster) == total, "all together: %d of %d", total_of(cluster), total)
        kill(of_zone(cluster, "a") + of_zone(cluster, "b"))
        check(total_of(cluster) == total, "zone c alone: %d of %d", total_of(cluster), total)


# ---- fewer zones than replicas ----

def two_zones(rng, keep):
    """One ingester of a zone may fail. The whole zone is too much, but no profile is lost."""
    with watched.Run(rng, keep, **TWO) as run:
        member = run.draw("ingester")
        member.kill()
        time.sleep(run.span())
        run.progress("%s is gone" % member.name)
        member.start().wait_ready()
        run.progress("%s is back" % member.name)
        run.none_failed()
        zone = rng.choice(run.cluster.zones)
        kill(of_zone(run.cluster, zone))
        deadline = time.monotonic() + WAIT_S
        while run.failures()[0] == 0 or run.failures()[2] == 0:
            check(time.monotonic() < deadline, "with two owners of three gone nobody is refused: %s", run.counts())
            time.sleep(0.1)
        start(of_zone(run.cluster, zone))
        run.progress("zone %s is back" % zone)
        print("     %s" % run.finish())


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave logs and data of what failed")
    arguments, tally = flamegrid.parse_seeded(parser)
    for name, case in (("zones: each goes and comes back", zones_go), ("zones: a member joins", joins),
                       ("zones: repaired", repaired), ("zones: two of them", two_zones)):
        tally.run(name, case, random.Random(arguments.seed), arguments.keep)
    tally.finish()


if __name__ == "__main__":
    main()
