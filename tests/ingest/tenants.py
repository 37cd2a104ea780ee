"""A tenant cannot take what others need, and queries cannot block pushes."""

import http.client
import os
import sys
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
        check('flamegrid_ingester_refused_growth{reason="tenant_catalog_share"} 1' in metrics, "%s", metrics)
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


def ask(client):
    now = int(time.time())
    query = urllib.parse.urlencode({"query": TYPE + '{service_name="shop"}', "from": now - 3600, "until": now + 60})
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


def a_tenant_with_many_questions_overtakes_nobody_else():
    """While a question of another tenant is answered, few of the tenant's are, of the many that wait: it waits for none of them. The
    median is of counts, so a slow machine changes nothing."""
    with flamegrid.Server("--multitenancy_enabled", "true", "--workers", "2", "--query_queue_max", "200") as server:
        server.start().wait_ready()
        for tenant, count in (("greedy", STACKS), ("modest", 10)):
            status, text, _ = push(server.port, tenant, "shop.cpu", stacks(0, count))
            check(status == 200, "%d %s", status, text)
        neighbour = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "modest"})
        passed = []
        with Askers(server, HOGS, ask, "greedy") as askers:
            askers.wait_for(200)
            for _ in range(QUESTIONS):
                before = len(askers.took)
                check(ask(neighbour) == 200, "the neighbour")
                passed.append(len(askers.took) - before)
        check(set(askers.codes) == {200}, "%s", askers.codes)
        check(sorted(passed)[QUESTIONS // 2] <= HOGS // 10, "answers to the other tenant meanwhile: %s", passed)


def run(tally):
    for case in (one_tenant_cannot_fill_the_catalog, tenants_are_bounded, pushes_go_on_while_many_ask,
                 a_tenant_with_many_questions_refuses_nobody_else, a_tenant_with_many_questions_overtakes_nobody_else):
        tally.run("tenants: " + case.__name__.replace("_", " "), case)
