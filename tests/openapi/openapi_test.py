#!/usr/bin/env python3
"""The description of the HTTP interface (querier/openapi): complete, and kept to by a server that has data.

    openapi_test.py [-k REGEX]
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(HERE, os.pardir, folder) for folder in ("lib", "agents", "access")]

import agents  # noqa: E402
import cluster  # noqa: E402
import flamegrid  # noqa: E402
import servers  # noqa: E402
from flamegrid import check  # noqa: E402

STACKS = b"main;work;hash 30\nmain;work;sort 10\nmain;idle 2\n"
EXAMPLES = "20"  # of each operation
SEED = "1"
TIMEOUT_S = 600  # it takes 20 s
SHOWN = 6000  # characters of what the tester says when it fails
# What one may rely on. That wrong input is refused is not among it: Pyroscope's routes ignore much of it, as their clients expect.
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
          "response_headers_conformance")
# Statuses of the server that are answers: 501 for a method that it does not have, 504 after the deadline of the client.
EXPECTED = "[checks.not_a_server_error]\nexpected-statuses = [\"2xx\", \"3xx\", \"4xx\", 501, 504]\n"
ISSUER = "http://127.0.0.1:1"  # of a log-in that nobody uses
# A target that is away, and a resend that waits for it: answers have all of their members.
FORWARDING = ("--forward.targets", "[{name: central, url: 'http://127.0.0.1:1', since: '2025-01-01'}]")
# Of a distributor: what it passes on to queriers, whose methods theirs are.
PROXIED = ("/api/", "/pyroscope/render", "/pyroscope/render-diff", "/pyroscope/label-values")


class Tester(agents.Driver):
    """schemathesis, from PyPI."""

    source = HERE

    def install(self):
        self.programs = self.venv("schemathesis", os.path.join(HERE, "locks"))

    def test(self, port):
        with open(self.path("schemathesis.toml"), "w", encoding="utf-8") as file:
            file.write(EXPECTED)
        done = subprocess.run(
            [os.path.join(self.programs, "schemathesis"), "--no-color", "run", "http://127.0.0.1:%d/api/openapi.json" % port, "--checks",
             CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", SEED, "--request-timeout", "30",
             "--continue-on-failure"],
            cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S)
        said = done.stdout.decode("utf-8", "replace")
        check(done.returncode == 0, "exit code %d: %s", done.returncode, said[-SHOWN:])
        check(re.search(r"^ *Tested: *(\d+)$", said, re.MULTILINE), "%s", said[-SHOWN:])


def described(server):
    status, body = flamegrid.Client(server.port).send("GET", "/api/openapi.json")
    check(status == 200, "%d %s", status, body)
    return json.loads(body)


def table_of(admin_port):
    """{(path, is it one of all below it): methods} of what a server serves to clients. A Connect route refuses all methods but one
    itself."""
    status, body = flamegrid.Client(admin_port).send("GET", "/routes")
    check(status == 200, "/routes: %d %s", status, body)
    found = {}
    for route in json.loads(body)["listen"]:
        methods = {"POST"} if "OPTIONS" in route["methods"] else set(route["methods"]) - {"HEAD"}
        path = re.sub("^/assets/.+", "/assets/{file}", route["path"])
        found.setdefault((path, route["prefix"]), set()).update(methods)
    return found


def tables():
    """Those of a single server that has everything, and of all services of a cluster."""
    with tempfile.TemporaryDirectory() as folder:
        secret = os.path.join(folder, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("secret\n")
        with servers.Governed("--access.login.issuer", ISSUER, "--access.login.client_id", "flamegrid", "--access.login.client_secret_file",
                              secret) as server:
            server.arguments += ("--access.issuers", json.dumps([{"issuer": ISSUER, "audience": "flamegrid"}]),
                                 "--access.login.public_url", "http://127.0.0.1:%d" % server.port)
            yield "server", table_of(server.begin().admin_port)
    with cluster.Cluster(ingesters=1, distributors=1, queriers=1, compactors=1) as run:
        run.of("distributor")[0].arguments += ["--query_proxy.urls", "http://127.0.0.1:1"]
        run.start()
        for member in run.members.values():
            yield member.kind, table_of(member.admin_port)


def every_route_is_described(server):
    paths = {path: {method.upper() for method in methods} for path, methods in described(server)["paths"].items()}
    routes = {}
    for kind, table in tables():
        check(table, "%s has no routes", kind)
        for (path, below), methods in table.items():
            found = {one for one in paths if one == path or below and one.startswith(path)}
            check(found, "%s %s of a %s is in no description", methods, path, kind)
            if kind == "distributor" and (below or path in PROXIED):
                continue
            missing = methods - set().union(*(paths[one] for one in found))
            check(not missing, "%s of %s, %s, is in no description", missing, path, kind)
            for one in found:
                routes.setdefault(one, set()).update(methods)
    check(len(routes) > 80, "only %d routes", len(routes))
    for path, methods in paths.items():
        check(methods <= routes.get(path, set()), "%s %s is described, and nowhere served", methods, path)


def every_parameter_is_described(server):
    """Headers that all of a kind take."""
    document = described(server)
    for path, methods in document["paths"].items():
        for it in methods.values():
            names = {one["$ref"].rpartition("/")[2] if "$ref" in one else one["name"] for one in it["parameters"]}
            check("Connect-Timeout-Ms" in names or not re.match(r"/[\w.]+\.\w+/\w+$", path), "%s: %s", path, names)
            for name in ("statistics", "partial"):
                check((name in names) == ("X-Flamegrid-" + name.capitalize() in names), "%s: %s", path, names)
            check(not path.startswith("/querier.v1.") or {"statistics", "partial"} <= names, "%s: %s", path, names)


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.wanted, self.there, self.open = set(), set(), []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            check(attrs["id"] not in self.there, "%s twice", attrs["id"])
            self.there.add(attrs["id"])
        if attrs.get("href", "").startswith("#"):
            self.wanted.add(attrs["href"][1:])


def the_page_shows_every_operation(server):
    status, body = flamegrid.Client(server.port).send("GET", "/api/reference")
    check(status == 200, "%d %s", status, body[:200])
    page, links = body.decode(), Links()
    links.feed(page)
    check(links.wanted <= links.there, "links to nothing: %s", links.wanted - links.there)
    for path, methods in described(server)["paths"].items():
        for method, it in methods.items():
            check(it["operationId"] in links.there and "%s %s" % (method.upper(), path) in page, "%s %s", method, path)


def the_server_keeps_to_its_description(server, tester):
    tester.test(server.port)
    status, body = flamegrid.Client(server.port).send("GET", "/ready")
    check(status == 200, "%d %s: %s", status, body, server.log_tail())


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    tester = Tester("openapi")
    with flamegrid.Server(*FORWARDING) as server:
        server.start().wait_ready()
        for pod in "abc":
            status, body = flamegrid.Client(server.port).send("POST", "/ingest?name=demo.cpu{pod=%s}&from=now-20s&until=now-10s" % pod,
                                                              STACKS)
            check(status == 200, "%d %s", status, body)
        tally.run("every_route_is_described", every_route_is_described, server)
        tally.run("every_parameter_is_described", every_parameter_is_described, server)
        tally.run("the_page_shows_every_operation", the_page_shows_every_operation, server)
        name = "the_server_keeps_to_its_description"
        try:
            if tally.wants(name):
                tester.ready()
                tally.run(name, the_server_keeps_to_its_description, server, tester)
        except agents.Unavailable as why:
            tally.skip(name, why)
    tally.finish()


if __name__ == "__main__":
    main()
