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

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(HERE, os.pardir, "lib"), os.path.join(HERE, os.pardir, "agents")]

import agents  # noqa: E402
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

STACKS = b"main;work;hash 30\nmain;work;sort 10\nmain;idle 2\n"
EXAMPLES = "20"  # of each operation
SEED = "1"
TIMEOUT_S = 600  # it takes 20 s
SHOWN = 6000  # characters of what the tester says when it fails
# What one may rely on. That wrong input is refused is not among it: Pyroscope's routes ignore much of it, as their clients expect.
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
          "response_headers_conformance")
# Answered by routes that are not in the tables of the querier's endpoints.
OTHERS = {"/ingest", "/v1development/profiles", "/push.v1.PusherService/Push", "/api/openapi.json", "/api/reference", "/ready", "/healthz",
          "/api/v1/status/buildinfo", "/api/settings", "/api/audit"}
# Of common/access/admin_api.c.
ACCESS = ("/api/whoami", "/api/tenants", "/api/tokens", "/api/bindings", "/api/sessions:revoke")
# Methods that answer with an error whatever they are asked, and clients expect that.
REFUSED = {"/vcs.v1.VCSService/"}


class Tester(agents.Driver):
    """schemathesis, from PyPI."""

    source = HERE

    def install(self):
        self.programs = self.venv("schemathesis", os.path.join(HERE, "locks"))

    def test(self, port):
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


def endpoints():
    """The paths in the tables of the querier's endpoints."""
    found = set()
    for folder, _, names in os.walk(os.path.join(ROOT, "querier")):
        for name in names:
            if not name.endswith(".c"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            defined = dict(re.findall(r'^#define (\w+)\s+"(/[^"]*)"', text, re.MULTILINE))
            service = re.search(r'^#define METHOD\(name\) "([^"]+)"', text, re.MULTILINE)
            for table in re.findall(r"const struct qry_\w*endpoint \w+\[\] = \{\n(.*?)\n\};", text, re.DOTALL):
                found |= {service.group(1) + method for method in re.findall(r'\bMETHOD\("(\w+)"\)', table)}
                found |= set(re.findall(r'\{\s*"(/[^"]+)"', table))
                found |= {defined[word] for word in re.findall(r"\{\s*(\w+),", table) if word in defined}
    return found


def every_endpoint_is_described(server):
    paths = {path for path in described(server)["paths"] if path not in OTHERS and not path.startswith(ACCESS)}
    # A path that ends with '/' serves all below it.
    served = {path for path in endpoints() if not any(path.startswith(refused) for refused in REFUSED)}
    check(len(served) > 15, "%s", served)
    for path in served:
        found = [one for one in paths if one == path or path.endswith("/") and one.startswith(path)]
        check(found, "%s is in no description", path)
        paths -= set(found)
    check(not paths, "described, and nowhere served: %s", paths)


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
    with flamegrid.Server() as server:
        server.start().wait_ready()
        for pod in "abc":
            status, body = flamegrid.Client(server.port).send("POST", "/ingest?name=demo.cpu{pod=%s}&from=now-20s&until=now-10s" % pod,
                                                              STACKS)
            check(status == 200, "%d %s", status, body)
        tally.run("every_endpoint_is_described", every_endpoint_is_described, server)
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
