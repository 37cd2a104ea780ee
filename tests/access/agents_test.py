#!/usr/bin/env python3
"""The official agents with a token: by Basic and by Bearer, whatever each of them can send.

    agents_test.py [-k REGEX]
"""

import concurrent.futures
import os
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir, "lib"), os.path.join(HERE, os.pardir, "agents")]
import agents  # noqa: E402
import flamegrid  # noqa: E402
import servers  # noqa: E402
from flamegrid import check  # noqa: E402

# A driver burns CPU all the time, and its agent sends at its end. Only an agent that had no time to send in a short run, on a
# busy machine, runs for longer than its interval of uploads.
SECONDS = (3, 12)
PARALLEL = 2
SERVICE = "agent.%s"


def basic(token):
    return {"FG_USER": "a", "FG_PASS": token}


def environment_basic(token):
    return {"PYROSCOPE_BASIC_AUTH_USER": "a", "PYROSCOPE_BASIC_AUTH_PASSWORD": token}


def bearer(token):
    return {"PYROSCOPE_AUTH_TOKEN": token}


def of_collector(token):
    return {"FG_BEARER": token}


class Otlp(agents.Otlp):
    """Its protocol is in the name of the service."""

    def command(self, url, service, seconds):
        return [self.path("driver"), service.split(".")[2].partition("_")[0], url, str(seconds), service], {}


OTLP = Otlp("otlp")

# Name, driver, and how its configuration carries a token (deploy/operations/access.md#agents).
WAYS = (
    ("go_basic", agents.Go("go"), basic),
    ("python_basic", agents.Python("python"), basic),
    ("node_basic", agents.Node("node"), basic),
    ("node_bearer", agents.Node("node"), bearer),
    ("otlp.grpc_bearer", OTLP, of_collector),
    ("otlp.http_bearer", OTLP, of_collector),
    ("java_basic", agents.Java("java"), environment_basic),
    ("java_bearer", agents.Java("java"), bearer),
)


def services(reader):
    return reader.send("GET", "/api/labels/service_name?" + urllib.parse.urlencode({"from": "now-1h", "until": "now"}))[1]


def case(port, tokens, name, driver, carried):
    """Its profiles arrive with a token that may push, and with one that may not none does."""
    url = "http://127.0.0.1:%d" % port
    for seconds in SECONDS:
        driver.run(url, SERVICE % (name + ".refused"), seconds, carried(tokens["read"]))
        code, said = driver.run(url, SERVICE % (name + ".sent"), seconds, carried(tokens["push"]))
        check(code == 0, "exit code %d: %s", code, said[-2000:])
        found = services(servers.Caller(port, tokens["read"]))
        check(SERVICE % (name + ".refused") not in found, "it arrived without the scope push")
        if SERVICE % (name + ".sent") in found:
            return
    check(False, "nothing arrived: %s %s", found, said[-2000:])


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    wanted = [way for way in WAYS if tally.wants(way[0])]
    drivers = {driver.name: driver for _, driver, _ in wanted}
    with servers.Governed() as server, concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        server.begin()
        tokens = {scope: server.token([scope]) for scope in ("read", "push")}
        ready = {name: pool.submit(driver.ready) for name, driver in drivers.items()}
        running = {}
        for name, driver, carried in wanted:
            try:
                ready[driver.name].result()
            except agents.Unavailable as why:
                tally.skip(name, why)
            else:
                running[name] = pool.submit(case, server.port, tokens, name, drivers[driver.name], carried)
        for name, outcome in running.items():
            tally.run(name, outcome.result)
    tally.finish()


if __name__ == "__main__":
    main()
