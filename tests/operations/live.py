"""Running programs, asked for what rules, dashboards and pages rely on: metrics, routes, and the routes' names in metrics.

A server that forwards and has a disk cache, a small cluster, and a canary that pushes to it.
"""

import json
import re
import tempfile
import time

import canary
import cluster
import flamegrid

STACKS = b"main;work;hash 30\nmain;work;sort 10\n"
UPLOAD = "/ingest?name=demo.cpu&from=now-10s&until=now"
OPERATORS = {"metrics", "routes"}  # routes of this test itself; one for readers has the name of the first
# They appear with what a minute in a test does not have: a certificate, a tenant near its limit, a compaction (which waits for the end of
# an hour), a segment, a recording rule, a refused call.
LATER = {
    "flamegrid_compactor_job_duration_seconds", "flamegrid_ingester_segment_build_duration_seconds",
    "flamegrid_ingester_segment_upload_duration_seconds", "flamegrid_querier_rule_evaluation_duration_seconds",
    "flamegrid_rpc_tls_certificate_expiry_timestamp_seconds", "flamegrid_tenant_limit_used_ratio",
    "flamegrid_tls_certificate_expiry_timestamp_seconds",
}


class Seen:
    """What running programs have shown."""

    def __init__(self):
        self.metrics = set()  # names
        self.write_routes, self.read_routes = set(), set()  # labels
        self.paths = set()  # of all routes, at both addresses

    def scrape(self, port):
        text = flamegrid.metrics_of(port)
        self.metrics |= set(re.findall(r"^# TYPE (\w+) ", text, re.M))
        return set(re.findall(r'^pyroscope_request_duration_seconds_count\{[^}]*route="(\w+)"', text, re.M))

    def routes(self, port):
        """The table of routes of the program with this admin_listen."""
        table = json.loads(flamegrid.Client(port).send("GET", "/routes")[1])
        self.paths |= {route["path"] for routes in table.values() for route in routes}
        return table["listen"]

    def ask_all(self, port, admin_port):
        """Sends a request to each route for uploads, and then to each for queries: what it answers is no matter here."""
        routes, client = self.routes(admin_port), flamegrid.Client(port)
        before = self.scrape(admin_port)
        for route in routes:
            if {"push", "forward"} & set(route["scopes"].split(",")):
                client.send("POST", route["path"], b"x")
        writes = self.scrape(admin_port) - before - OPERATORS
        for route in routes:
            if route["scopes"] == "read" and route["kind"] == "reads":
                client.send("POST" if "POST" in route["methods"] else "GET", route["path"] + ("x" if route["prefix"] else ""), None, {})
        self.write_routes |= writes
        self.read_routes |= self.scrape(admin_port) - before - writes - OPERATORS


def look_at_server(seen, folder):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=folder) as settings:
        settings.write("forward: {targets: [{name: central, url: 'http://127.0.0.1:%d'}]}\n" % flamegrid.free_port())
        settings.flush()
        with flamegrid.Server("--config", settings.name, "--querier.disk_cache", folder + "/cache") as server:
            server.start().wait_ready()
            seen.ask_all(server.port, server.admin_port)
            flamegrid.check(flamegrid.Client(server.port).send("POST", UPLOAD, STACKS)[0] == 200, "an upload is refused")
            deadline = time.monotonic() + flamegrid.READY_TIMEOUT_S
            # The target is away: the first request to it has to end.
            while "flamegrid_forward_request_duration_seconds" not in seen.metrics and time.monotonic() < deadline:
                seen.scrape(server.admin_port)


def look_at_cluster(seen):
    with cluster.Cluster(ingesters=2, distributors=1, queriers=1, compactors=1) as members:
        querier, distributor = members.of("querier")[0], members.of("distributor")[0]
        distributor.arguments += ["--query_proxy.urls", "http://127.0.0.1:%d" % querier.port]
        members.start()
        with canary.Canary("http://127.0.0.1:%d" % distributor.port, "--rate", "20") as pushing:
            pushing.wait_started()
            deadline = time.monotonic() + flamegrid.READY_TIMEOUT_S
            while "flamegrid_canary_visible_seconds" not in seen.metrics and time.monotonic() < deadline:
                seen.scrape(pushing.port)
            for member in members.of("ingester", "distributor", "querier", "compactor"):
                seen.routes(member.admin_port)
                seen.read_routes |= {route for route in seen.scrape(member.admin_port) if route == "query_proxy"}


def look():
    seen = Seen()
    with tempfile.TemporaryDirectory() as folder:
        look_at_server(seen, folder)
    look_at_cluster(seen)
    return seen
