"""A tenant cannot take what others need, and queries cannot block pushes."""

import collections
import gzip
import http.client
import itertools
import os
import random
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402
from askers import Askers  # noqa: E402

TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SERIES_MAX = 4000  # of a loop that has to end
STACKS, ASKERS, PUSHES = 8000, 8, 25
HOGS, QUESTIONS = 40, 25


def push(port, tenant, name, body="main;work 1\n"):
    """Returns status, text and headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    now = int(time.time())
    query = urllib.parse.urlencode({"name": name, "from": now - 10, "until": now})
    connection.request("POST", "/ingest?" + query, body, {"X-Scope-OrgID": tenant})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.headers


def stacks(first, count):
    return "".join("%s;leaf%d 1\n" % (";".join("f%d" % ((first + i) >> shift) for shift in range(8, 0, -1)), first + i)
                   for i in range(count))


def one_tenant_cannot_fill_the_catalog():
    """New series of the tenant are refused with the name of the limit; other tenants are not affected, also after a restart."""
    with flamegrid.Server("--multitenancy_enabled", "true", "--ingester.catalog_max_bytes", "1MiB") as server:
        server.start().wait_ready()
        for number in range(SERIES_MAX):
            status, text, headers = push(server.port, "greedy", "shop.cpu{pod=%d}" % number)
            if status != 200:
                break
        check(status == 429 and "limits.tenant_catalog_share" in text, "%d %s", status, text)
        check(int(headers["Retry-After"]) > 0, "%s", headers)
        check(number > 50, "only %d series", number)
        metrics = server.metrics()
        check('flamegrid_ingester_refused_growth_total{reason="tenant_catalog_share"} 1' in metrics, "%s", metrics)
        for again in range(2):
            status, text, _ = push(server.port, "greedy", "shop.cpu{pod=0}")
            check(status == 200, "a series that is known: %d %s", status, text)
            status, text, _ = push(server.port, "greedy", "shop.cpu{pod=new%d}" % again)
            check(status == 429, "a share that is used up: %d %s", status, text)
            for tenant in ("modest", "other%d" % again):
                status, text, _ = push(server.port, tenant, "app.cpu{pod=%d}" % again)
                check(status == 200, "tenant %s: %d %s", tenant, status, text)
            check(server.terminate() == 0, "end")
            server.start().wait_ready()


def tenants_are_bounded():
    """A tenant above the limit is refused with the name of the limit; known tenants are still accepted."""
    with flamegrid.Server("--multitenancy_enabled", "true", "--tenants_max", "3") as server:
        server.start().wait_ready()
        for tenant in ("a", "b", "c"):
            status, text, _ = push(server.port, tenant, "app.cpu")
            check(status == 200, "%s: %d %s", tenant, status, text)
        time.sleep(0.1)  # the distributor has forgotten them, as they are far below their rate
        status, text, headers = push(server.port, "d", "app.cpu")
        check(status == 429 and "tenants_max" in text, "%d %s", status, text)
        check(int(headers["Retry-After"]) > 0, "%s", headers)
        status, text, _ = push(server.port, "b", "other.cpu{pod=1}")
        check(status == 200, "%d %s", status, text)


questions = itertools.count()


def ask(client):
    """Each question is another one: those that are the same would be answered together."""
    now = int(time.time())
    query = urllib.parse.urlencode({"query": TYPE + '{service_name="shop"}', "from": now - 3600 - next(questions) % 3600, "until": now + 60})
    return client.send("GET", "/pyroscope/render?" + query)[0]


def pushes_go_on_while_many_ask():
    """Of one service: all are taken, and each counts once."""
    with flamegrid.Server() as server:
        server.start().wait_ready()
        status, text, _ = push(server.port, "anonymous", "shop.cpu", stacks(0, STACKS))
        check(status == 200, "%d %s", status, text)
        with Askers(server, ASKERS, ask) as askers:
            askers.wait_for(200)
            for number in range(PUSHES):
                status, text, _ = push(server.port, "anonymous", "shop.cpu", stacks(STACKS + 10 * number, 10))
                check(status == 200, "push %d: %d %s", number, status, text)
        check(set(askers.codes) <= {200, 429}, "%s", askers.codes)
        now = int(time.time())
        total = flamegrid.Client(server.port).flame_total(TYPE, '{service_name="shop"}', (now - 3600) * 1000, (now + 60) * 1000)
        samples = STACKS + 10 * PUSHES
        check(total > 0 and total % samples == 0, "total %d of %d samples", total, samples)


def a_tenant_with_many_questions_refuses_nobody_else():
    """Queries of the tenant are refused once its part of the queue is full; those of another tenant are all answered."""
    with flamegrid.Server("--multitenancy_enabled", "true", "--workers", "2", "--query_queue_max", "8") as server:
        server.start().wait_ready()
        for tenant, count in (("greedy", STACKS), ("modest", 10)):
            status, text, _ = push(server.port, tenant, "shop.cpu", stacks(0, count))
            check(status == 200, "%d %s", status, text)
        neighbour = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "modest"})
        with Askers(server, HOGS, ask, "greedy") as askers:
            askers.wait_for(429)
            codes = [ask(neighbour) for _ in range(QUESTIONS)]
        check(set(codes) == {200}, "the neighbour got %s", codes)
        check(askers.codes.get(200, 0) > 0, "%s", askers.codes)


def tenants_with_many_questions_overtake_nobody_else():
    """While a question of another tenant is answered, few of theirs are, of the many that wait: it waits for none of them. The
    median is of counts, so a slow machine changes nothing."""
    with flamegrid.Server("--multitenancy_enabled", "true", "--workers", "2", "--query_queue_max", "200") as server:
        server.start().wait_ready()
        for tenant, count in (("greedy", STACKS), ("greedier", STACKS), ("modest", 10)):
            status, text, _ = push(server.port, tenant, "shop.cpu", stacks(0, count))
            check(status == 200, "%d %s", status, text)
        neighbour = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "modest"})
        passed = []
        with Askers(server, HOGS, ask, "greedy") as one, Askers(server, HOGS, ask, "greedier") as other:
            one.wait_for(200)
            other.wait_for(200)
            for _ in range(QUESTIONS):
                before = len(one.took) + len(other.took)
                check(ask(neighbour) == 200, "the neighbour")
                passed.append(len(one.took) + len(other.took) - before)
        check(set(one.codes) == {200} == set(other.codes), "%s %s", one.codes, other.codes)
        check(sorted(passed)[QUESTIONS // 2] <= HOGS // 10, "answers to the others meanwhile: %s", passed)


HOSTILE_LIMITS = """
overrides:
  hostile: {max_series_per_tenant: 5, ingestion_rate_mb: 0.5, ingestion_burst_size_mb: 2, max_profile_size_bytes: 1MiB}
"""
GARBAGE = (
    ("", b"main;work not-a-number\n"),
    ("&format=pprof", b"\x0a\x05" + b"\xff" * 4000),  # cut short, wrong lengths
    ("&format=jfr", b"FLR\0" + bytes(4000)),
    ("&format=pprof", random.Random(1).randbytes(5000)),
    ("&format=pprof", gzip.compress(bytes(16 << 20))),  # a bomb
)


def be_hostile(port, ending, answers):
    """New series, too many labels and garbage, one after another."""
    client, number = flamegrid.Client(port, headers={"X-Scope-OrgID": "hostile"}), 0
    while not ending.is_set():
        name, (how, body) = "app", GARBAGE[number // 3 % len(GARBAGE)]
        if number % 3 == 0:
            name, how, body = "app{pod=%d}" % number, "", b"main;work 1\n"
        elif number % 3 == 1:
            name, how, body = "app{%s}" % ",".join("l%d=1" % label for label in range(60)), "", b"main;work 1\n"
        now = int(time.time())
        status, text = client.send("POST", "/ingest?name=%s&from=%d&until=%d%s" %
                                   (urllib.parse.quote(name), now - 10, now, how), body)
        answers.append((status, text.decode()))
        number += 1


def hostile_tenants_refuse_nobody_else():
    """One sends new series and garbage, one asks all the time: they are refused with reasons, an honest third one is not, and has all of
    its profiles."""
    with tempfile.TemporaryDirectory() as folder:
        limits = os.path.join(folder, "tenants.yaml")
        with open(limits, "w", encoding="ascii") as file:
            file.write(HOSTILE_LIMITS)
        with flamegrid.Server("--multitenancy_enabled", "true", "--tenants_file", limits, "--workers", "2",
                              "--ingest_queue_max", "8", "--query_queue_max", "8") as server:
            server.start().wait_ready()
            status, text, _ = push(server.port, "greedy", "shop.cpu", stacks(0, STACKS))
            check(status == 200, "%d %s", status, text)
            hostile_tenants_are_told_why(server)
            answers = beside_hostile_tenants(server)
    counts = collections.Counter((status, text[:160]) for status, text in answers)
    check({status for status, _ in counts} <= {200, 400, 413, 422, 429}, "%s", counts)
    check(all(text for status, text in counts if status != 200), "a refusal without a reason: %s", counts)


def hostile_tenants_are_told_why(server):
    for number in range(5):
        status, text, _ = push(server.port, "hostile", "app{pod=%d}" % number)
        check(status == 200, "%d %s", status, text)
    status, text, _ = push(server.port, "hostile", "app{pod=5}")
    check(status == 429 and "limits.max_series_per_tenant" in text, "%d %s", status, text)
    status, text, _ = push(server.port, "hostile", "app{%s}" % ",".join("l%d=1" % label for label in range(60)))
    check(status == 400 and "max_label_names_per_series" in text, "%d %s", status, text)
    # Bytes that are decompressed in vain count for the rate; when it is used up, nothing is decompressed.
    bomb, statuses = gzip.compress(bytes(16 << 20)), []
    while not statuses or (statuses[-1] == 422 and len(statuses) < 100):
        status, text, headers = push(server.port, "hostile", "app", bomb)
        statuses.append(status)
    check(status == 429 and "limits.ingestion_rate_mb" in text and int(headers["Retry-After"]) > 0, "%s %s", statuses, text)
    check(len(statuses) > 2, "%s", statuses)


def beside_hostile_tenants(server):
    """Returns the answers to the one that pushes."""
    ending, answers = threading.Event(), []
    pushers = [threading.Thread(target=be_hostile, args=(server.port, ending, answers), daemon=True) for _ in range(12)]
    honest = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "honest"})
    with Askers(server, HOGS, ask, "greedy") as askers:
        for thread in pushers:
            thread.start()
        askers.wait_for(429)
        for number in range(PUSHES):
            status, text, _ = push(server.port, "honest", "shop.cpu{n=%d}" % number, stacks(0, 10))
            check(status == 200, "push %d: %d %s", number, status, text)
            check(ask(honest) == 200, "question %d", number)
        ending.set()
        for thread in pushers:
            thread.join()
    check(set(askers.codes) == {200, 429}, "%s", askers.codes)
    now = int(time.time())
    total = honest.flame_total(TYPE, '{service_name="shop"}', (now - 3600) * 1000, (now + 60) * 1000)
    check(total > 0 and total % (10 * PUSHES) == 0, "total %d of %d samples", total, 10 * PUSHES)
    return answers


def run(tally):
    for case in (one_tenant_cannot_fill_the_catalog, tenants_are_bounded, pushes_go_on_while_many_ask,
                 a_tenant_with_many_questions_refuses_nobody_else, tenants_with_many_questions_overtake_nobody_else,
                 hostile_tenants_refuse_nobody_else):
        tally.run("tenants: " + case.__name__.replace("_", " "), case)
