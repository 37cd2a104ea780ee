#!/usr/bin/env python3
"""Limits of a tenant hold for all distributors together, however its load is divided, and through restarts.

    limits_test.py [-k REGEX] [--seed N] [--keep] [--seconds N]

It prints the rates that were accepted. Since other work on the machine may delay everything, a run fails only if a rate is far
off: above the limit, or as low as the part of one distributor.
"""

import collections
import http.client
import json
import os
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import cluster as clusters  # noqa: E402
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

RATE_MIB, BURST_MIB = 0.5, 1
PERIOD_MIB = 2
QUERY_BYTES = 256 * 1024
TENANTS = """
overrides:
  steady: {ingestion_rate_mb: %s, ingestion_burst_size_mb: %s}
  capped: {ingestion_limit: {period_type: month, period_limit_mb: %s}}
  curious: {query_bytes_per_hour: %s}
""" % (RATE_MIB, BURST_MIB, PERIOD_MIB, QUERY_BYTES)
BODY_BYTES = 8192
SETTLE_S = 16  # until shares follow demand
WAIT_S = 60
MIB = 1024 * 1024


def body_of(number):
    head = "main;work%d 1\n" % number
    return head + "main;%s 1\n" % ("f" * (BODY_BYTES - len(head) - 8))


class Sender:
    """Pushes to one distributor as a tenant, so many bytes a second, on a thread of its own."""

    def __init__(self, port, tenant, bytes_per_s):
        self.port, self.tenant, self.interval = port, tenant, BODY_BYTES / bytes_per_s
        self.numbers, self.ending = iter(range(1 << 30)), threading.Event()
        self.counts = collections.Counter()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        connection, due = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S), time.monotonic()
        while not self.ending.is_set():
            self.counts[push(connection, self.tenant, next(self.numbers))[0]] += 1
            due = max(due + self.interval, time.monotonic() - 1)
            time.sleep(max(0, due - time.monotonic()))

    def stop(self):
        self.ending.set()
        self.thread.join()


def push(connection, tenant, number):
    """Returns status, headers and body."""
    now = int(time.time())
    connection.request("POST", "/ingest?name=limits.cpu&from=%d&until=%d" % (now - 10, now), body_of(number),
                       {"X-Scope-OrgID": tenant, "Idempotency-Key": "%s/%d/%d" % (tenant, id(connection), number)})
    response = connection.getresponse()
    return response.status, response.headers, response.read().decode()


def push_to(member, tenant, number):
    return push(http.client.HTTPConnection("127.0.0.1", member.port, timeout=WAIT_S), tenant, number)


def settings(folder):
    path = os.path.join(folder, "tenants.yaml")
    with open(path, "w", encoding="ascii") as file:
        file.write(TENANTS)
    return {kind: values + (["--tenants_file", path] if kind in ("distributor", "querier") else [])
            for kind, values in clusters.QUICK.items()}


def start(keep, folder, distributors=3, queriers=1):
    cluster = clusters.Cluster(distributors=distributors, queriers=queriers, compactors=0, multitenancy=True, settings=settings(folder))
    cluster.keep = keep
    return cluster


def accepted(members, loads, seconds):
    """Returns MiB a second that are accepted, and that are offered, when each member is offered its load."""
    senders = [Sender(member.port, "steady", load * MIB) for member, load in zip(members, loads) if load > 0]
    time.sleep(SETTLE_S)
    before, begin = [sender.counts.copy() for sender in senders], time.monotonic()
    time.sleep(seconds)
    counts = sum((sender.counts - old for sender, old in zip(senders, before)), collections.Counter())
    took = time.monotonic() - begin
    for sender in senders:
        sender.stop()
    check(set(counts) <= {200, 429}, "%s", counts)
    return counts[200] * BODY_BYTES / MIB / took, sum(counts.values()) * BODY_BYTES / MIB / took


def rates(_, keep, folder, seconds):
    """All load at one of three distributors, at two, and less than the rate at another one: the tenant has its rate each time."""
    with start(keep, folder) as cluster:
        cluster.start()
        members = cluster.of("distributor")
        for loads in ((1.5, 0, 0), (1.2, 0.3, 0), (0, 0, 0.45)):
            rate, offered = accepted(members, loads, seconds)
            wanted = min(RATE_MIB, offered)
            print("     offered %s MiB/s: %.3f accepted of %.3f, %.1f %% of what the limit allows" %
                  (" + ".join(map(str, loads)), rate, offered, 100 * rate / wanted), flush=True)
            check(wanted * 0.7 < rate < wanted + (BURST_MIB / seconds) + 0.1 * wanted, "%f of %f", rate, wanted)
        distributors = members[0].metrics()["flamegrid_distributor_distributors"]
        check(distributors == 3, "%s distributors", distributors)


def refused_by(member, number):
    status, headers, body = push_to(member, "capped", number)
    check(status in (200, 429), "%d %s", status, body)
    return status == 429, headers, body


def period(_, keep, folder, _seconds):
    """A limit of a month: reached through one distributor it holds at all, and after all have been killed."""
    with start(keep, folder) as cluster:
        cluster.start()
        first, *others = cluster.of("distributor")
        for number in range(2 * PERIOD_MIB * MIB // BODY_BYTES):
            refused, headers, body = refused_by(first, number)
            if refused:
                break
        check(PERIOD_MIB * MIB // BODY_BYTES <= number + 1 <= PERIOD_MIB * MIB // BODY_BYTES + 1, "refused the %dth", number)
        for part in ('limit of %.1f MiB/month reached' % PERIOD_MIB, 'next reset at 2', 'capped', "limits.ingestion_limit"):
            check(part in body, "%s", body)
        check(0 < int(headers["Retry-After"]) <= 3600, "%s", headers)
        check(headers["RateLimit"].startswith('"ingestion_limit";r=0;t='), "%s", headers)
        check(headers["RateLimit-Policy"].startswith('"ingestion_limit";q=%d;' % (PERIOD_MIB * MIB)), "%s", headers)
        wait_refused(others)
        gauge = 'flamegrid_tenant_limit_used_ratio{tenant="capped",limit="ingestion_limit"}'
        wait(gauge, lambda: first.metrics().get(gauge, 0) >= 1)
        time.sleep(15)  # ingesters save every ten seconds
        for member in cluster.of("distributor", "ingester"):
            member.kill()
        for kind in ("ingester", "distributor"):
            for member in cluster.of(kind):
                member.start()
            for member in cluster.of(kind):
                member.wait_ready()
        wait_refused(cluster.of("distributor"))


def ask(member, tenant):
    """Returns status, headers and body of a query that reads all that the tenant has pushed."""
    connection = http.client.HTTPConnection("127.0.0.1", member.port, timeout=WAIT_S)
    connection.request("GET", "/pyroscope/render?from=now-1h&until=now%2B1m&query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D",
                       headers={"X-Scope-OrgID": tenant})
    response = connection.getresponse()
    return response.status, response.headers, response.read().decode()


def has_read(member):
    """What /api/tenants/ID/limits says of all queriers: bytes, the end of the hour. The tenant was made at another querier."""
    def asked():
        return flamegrid.Client(member.port, WAIT_S).send("GET", "/api/tenants/curious/limits")

    wait("the tenant known to " + member.name, lambda: asked()[0] != 404)
    status, body = asked()
    check(status == 200, "%d %s", status, body)
    limit = json.loads(body)["query_bytes_per_hour"]
    return limit.get("used", 0), limit.get("resetMs", 0)


def away_from_the_end_of_an_hour():
    """The counts of an hour end with it: a case that sees its end would see nothing."""
    left = 3600 - time.time() % 3600
    if left < 3 * WAIT_S:
        time.sleep(left + 1)


def read_until_refused(member):
    """Queries at one querier until it refuses. Returns the refusal, and how many bytes were read before it."""
    total, near = 0, False
    while True:
        status, headers, body = ask(member, "curious")
        if status == 429:
            check(near, "no answer has said that the limit is near")
            return headers, body, total
        check(status == 200, "%d %s", status, body)
        total += int(headers["X-Flamegrid-Bytes"])
        near = near or headers.get("RateLimit", "").startswith('"query_bytes_per_hour";r=')
        check(total < 100 * QUERY_BYTES, "%d bytes and no refusal", total)


def queries(_, keep, folder, _seconds):
    """What queries of a tenant read in an hour: the limit is reached at one querier, and holds at the other and after all are killed."""
    away_from_the_end_of_an_hour()
    with start(keep, folder, distributors=1, queriers=2) as cluster:
        cluster.start()
        distributor = cluster.of("distributor")[0]
        for tenant in ("curious", "patient"):
            for number in range(40):
                status, _, body = push_to(distributor, tenant, number)
                check(status == 200, "%d %s", status, body)
        first, second = cluster.of("querier")
        status, body = flamegrid.Client(first.port).send("POST", "/api/tenants", b'{"id": "curious"}', flamegrid.ACTION)
        check(status == 200, "%d %s", status, body)
        wait("the first profiles", lambda: ask(first, "patient")[0] == 200)
        headers, body, total = read_until_refused(first)
        for part in ("limit of %.1f KiB/hour reached" % (QUERY_BYTES / 1024), "next reset at 2", "curious", "limits.query_bytes_per_hour"):
            check(part in body, "%s", body)
        check(0 < int(headers["Retry-After"]) <= 3600, "%s", headers)
        check(headers["RateLimit"].startswith('"query_bytes_per_hour";r=0;t='), "%s", headers)
        check(headers["RateLimit-Policy"].startswith('"query_bytes_per_hour";q=%d;' % QUERY_BYTES), "%s", headers)
        wait("refused by the other querier", lambda: ask(second, "curious")[0] == 429)
        check(ask(second, "patient")[0] == 200, "another tenant is refused")
        gauge = 'flamegrid_tenant_limit_used_ratio{tenant="curious",limit="query_bytes_per_hour"}'
        wait(gauge, lambda: all(member.metrics().get(gauge, 0) >= 1 for member in (first, second)))
        used, reset_ms = has_read(second)
        check(used >= QUERY_BYTES and time.time() < reset_ms / 1000 <= time.time() + 3600, "%s of %s, %s", used, total, reset_ms)
        time.sleep(15)  # ingesters save every ten seconds
        for member in cluster.of("querier", "ingester"):
            member.kill()
        for kind in ("ingester", "querier"):
            for member in cluster.of(kind):
                member.start()
            for member in cluster.of(kind):
                member.wait_ready()
        for member in (first, second):
            wait("refused by %s after its restart" % member.name, lambda: ask(member, "curious")[0] == 429)
            check(ask(member, "patient")[0] == 200, "another tenant is refused")


def wait_refused(members):
    """A distributor that has not heard yet accepts."""
    for at, member in enumerate(members):
        numbers = iter(range((at + 2) * 1000000, (at + 3) * 1000000))
        wait("refused by " + member.name, lambda: refused_by(member, next(numbers))[0])


def wait(what, until):
    deadline = time.monotonic() + WAIT_S
    while not until():
        check(time.monotonic() < deadline, "not %s in %d s", what, WAIT_S)
        time.sleep(0.5)


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave logs and data of what failed")
    parser.add_argument("--seconds", type=int, default=8, help="of each load")
    arguments, tally = flamegrid.parse_seeded(parser)
    with tempfile.TemporaryDirectory() as folder:
        for name, case in (("limits: rates", rates), ("limits: of a period", period), ("limits: of queries", queries)):
            tally.run(name, case, random.Random(arguments.seed), arguments.keep, folder, arguments.seconds)
    tally.finish()


if __name__ == "__main__":
    main()
