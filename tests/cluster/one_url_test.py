#!/usr/bin/env python3
"""One URL for a cluster: a distributor that passes queries on to queriers serves agents, Grafana and the command line.

    one_url_test.py [-k REGEX]
"""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import certs  # noqa: E402
import cluster  # noqa: E402
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

TIMEOUT_S = 30
GZIP_WBITS = 31  # of zlib: a gzip member


def start(run, *settings):
    queriers = ["http://127.0.0.1:%d" % querier.port for querier in run.of("querier")]
    distributor = run.of("distributor")[0]
    distributor.arguments += ["--query_proxy.urls", ",".join(queriers), *settings]
    run.start()
    return distributor


def push(client, service, headers=None):
    now = int(time.time())
    status, body = client.send("POST", "/ingest?name=%s&from=%d&until=%d" % (service, now - 20, now - 10), b"main;work 7\n",
                               headers or {})[:2]
    check(status == 200, "push: %d %s", status, body)


def flames(client, service, headers=None):
    """Returns the total of /pyroscope/render; the status if it is not 200."""
    status, body = client.send("GET", "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds"
                               "%%7Bservice_name%%3D%%22%s%%22%%7D&from=now-1h&until=now" % service, headers=headers or {})[:2]
    return json.loads(body)["flamebearer"]["numTicks"] if status == 200 else -status


def names_of(client):
    status, body = client.send("POST", "/querier.v1.QuerierService/LabelValues",
                               json.dumps({"name": "service_name", "start": int(time.time() - 3600) * 1000,
                                           "end": int(time.time() + 60) * 1000}).encode(),
                               {"Content-Type": "application/json"})[:2]
    check(status == 200, "LabelValues: %d %s", status, body)
    return json.loads(body)["names"]


def case_agents_grafana_and_cli_use_one_url():
    with cluster.Cluster(distributors=1, compactors=0) as run:
        distributor = start(run)
        client = flamegrid.Client(distributor.port, TIMEOUT_S)
        push(client, "shop")
        check(flames(client, "shop") == 70000000, "render: %d", flames(client, "shop"))
        check(names_of(client) == ["shop"], "Connect")
        status, body = client.send("GET", "/api/functions?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D")[:2]
        check(status == 200 and [row["name"] for row in json.loads(body)["functions"]] == ["work", "main"], "%d %s", status, body)
        status, body = client.send("POST", "/version.v1.Version/Version", b"{}", {"Content-Type": "application/json"})[:2]
        check(status == 200, "%d %s", status, body)
        status, body = client.send("POST", "/settings.v1.RecordingRulesService/UpsertRecordingRule", json.dumps(
            {"id": "a", "metricName": "cpu", "matchers": ['{__profile_type__="process_cpu:cpu:nanoseconds:cpu:nanoseconds"}']}),
                                   {"Content-Type": "application/json"})[:2]
        check(status == 200, "%d %s", status, body)
        status, body = client.send("GET", "/api/metrics")[:2]
        check(status == 200 and b'\nflamegrid_rule_complete{rule_id="a",metric="cpu"} 1\n' in body, "%d %s", status, body)
        # A file that is larger than any query.
        stacks = b"".join(b"main;%06d 1\n" % i for i in range(120000))
        status, body = client.send("POST", "/api/adhoc?name=a.folded", stacks)[:2]
        check(status == 200 and len(stacks) > 2**20, "%d %s", status, body)
        made = "/api/adhoc/" + json.loads(body)["id"]
        check(client.send("GET", made + "/raw")[:2] == (200, stacks), "the file is another one")
        check(client.send("DELETE", made)[0] == 403 and client.send("DELETE", made, headers=flamegrid.ACTION)[0] == 200, "delete")
        status, body = client.send("POST", "/adhocprofiles.v1.AdHocProfileService/List", b"{}", {"Content-Type": "application/json"})[:2]
        check((status, body.strip()) == (200, b"{}"), "%d %s", status, body)
        status, page = client.send("GET", "/")[:2]
        script = re.search(rb'src="\./(assets/index-[^"]+)"', page)
        check(status == 200 and script is not None, "the page: %d %s", status, page)
        check(client.send("GET", "/" + script[1].decode())[0] == 200, "its script")
        check(client.send("GET", "/diff?query=a")[:2] == (200, page) and client.send("GET", "/targets")[:2] == (200, page), "other pages of it")
        # Files of the page need no credentials, and a querier trusts its distributor: a path below them must not lead out.
        for path in ("/assets/../api/whoami", "/assets/./../api/whoami", "/assets/%2e%2e/api/whoami"):
            status, body = client.send("GET", path)[:2]
            check(status == 404, "%s: %d %s", path, status, body)
        done = subprocess.run([flamegrid.binary(), "query", "shop", "--type", "cpu", "--output", "folded", "--url",
                               "http://127.0.0.1:%d" % distributor.port], capture_output=True, text=True, timeout=TIMEOUT_S)
        check(done.returncode == 0 and done.stdout == "main;work 70000000\n", "%s", done)
        # Queriers are stopped one after the other: queries succeed while one runs, pushes always.
        for querier in run.of("querier"):
            check(flames(client, "shop") == 70000000, "one querier is enough")
            querier.kill()
        check(flames(client, "shop") == -503, "no querier: %d", flames(client, "shop"))
        push(client, "late")
        check(distributor.is_ready(), "a distributor without queriers takes profiles")
        metrics = distributor.metrics()
        check(metrics["flamegrid_query_proxy_retries_total"] >= 1 and
              metrics['flamegrid_query_proxy_requests_total{result="unavailable"}'] >= 1 and
              metrics["flamegrid_query_proxy_running"] == 0, "%s", metrics)
        run.of("querier")[0].start().wait_ready()
        check(flames(client, "late") == 70000000, "a querier that is back is asked, as no other is there")
        distributor.terminate()


def settings_of(client, member=""):
    status, body = client.send("GET", "/api/settings?" + urllib.parse.urlencode({"member": member}))[:2]
    check(status == 200, "settings of %s: %d %s", member or "the querier", status, body)
    return json.loads(body)


def wait_until(what, condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        check(time.monotonic() < deadline, "not within %d s: %s", TIMEOUT_S, what)
        time.sleep(0.05)


def members_of(client, *roles):
    return {one["name"]: one for one in settings_of(client)["members"] if one["role"] in roles}


def case_members_without_calls_show_their_settings():
    with cluster.Cluster(ingesters=1, distributors=2, queriers=2, compactors=1) as run:
        for member in run.of("distributor", "compactor"):
            member.arguments += ["--bucket.s3.secret_key", "hush-hush"]
        client = flamegrid.Client(start(run).port, TIMEOUT_S)
        roles = ("distributor", "querier", "compactor")
        wait_until("five members say that they are there", lambda: len(members_of(client, *roles)) == 5)
        members = members_of(client, *roles)
        for one in run.of("distributor"):
            name, = [name for name in members if name.startswith("distributor/") and name.endswith("_%d" % one.port)]
            said = settings_of(client, name)
            check(said["program"] == "flamegrid-distributor" and said["startedMs"] == members[name]["startedMs"], "%s", said)
            values = {setting["name"]: setting["value"] for setting in said["settings"]}
            check(values["listen"].endswith(":%d" % one.port), "%s", values["listen"])
            check(values["bucket.s3.secret_key"] == "***" and "hush" not in json.dumps(said), "a secret is told")
        compactor, = [name for name in members if name.startswith("compactor/")]
        check(settings_of(client, compactor)["version"] == members[compactor]["version"] != "", "%s", members)
        for wrong, code in (("nobody/x", 404), ("distributor/", 400), ("a/b/c", 400)):
            status, body = client.send("GET", "/api/settings?" + urllib.parse.urlencode({"member": wrong}))[:2]
            check(status == code, "%s: %d %s", wrong, status, body)
        # One that ends in order is gone, one that comes back has another start.
        run.of("compactor")[0].terminate()
        check(not members_of(client, "compactor"), "a compactor that has ended is listed")
        distributor = run.of("distributor")[1]
        distributor.kill()
        distributor.start().wait_ready()
        name, = [name for name in members if name.endswith("_%d" % distributor.port)]
        wait_until("the new start is listed", lambda: members_of(client, "distributor")[name]["startedMs"] > members[name]["startedMs"])


def case_tenants_see_their_own():
    with cluster.Cluster(distributors=1, compactors=0, multitenancy=True) as run:
        client = flamegrid.Client(start(run).port, TIMEOUT_S)
        push(client, "shop", {"X-Scope-OrgID": "acme"})
        check(flames(client, "shop", {"X-Scope-OrgID": "acme"}) == 70000000, "its own")
        check(flames(client, "shop", {"X-Scope-OrgID": "other"}) == 0, "not another's")
        check(flames(client, "shop") == -401, "without a tenant: %d", flames(client, "shop"))


def case_without_queriers_targets_are_a_list():
    with cluster.Cluster(ingesters=1, distributors=1, queriers=0, compactors=0) as run:
        run.start()
        client = flamegrid.Client(run.of("distributor")[0].port, TIMEOUT_S)
        status, body = client.send("GET", "/targets")[:2]
        check(status == 200 and json.loads(body)["data"]["activeTargets"] == [], "%d %s", status, body)
        check(client.send("GET", "/api/v1/targets")[:2] == (200, body), "another list")
        check(client.send("GET", "/status")[0] == 404, "there is a page")


class Lines:
    """The lines of a response as they come, also of one in gzip."""

    def __init__(self, response):
        self.response, self.text = response, b""
        self.decoder = zlib.decompressobj(GZIP_WBITS) if response.getheader("Content-Encoding") == "gzip" else None

    def more(self):
        chunk = self.response.read1(65536)
        self.text += self.decoder.decompress(chunk) if self.decoder else chunk
        return bool(chunk)

    def readline(self):
        while b"\n" not in self.text and self.more():
            continue
        line, end, self.text = self.text.partition(b"\n")
        return line + end

    def read(self):
        while self.more():
            continue
        check(self.decoder is None or self.decoder.eof, "the coding has no end")
        return self.text

    def close(self):
        self.response.close()


def events(port, coding="identity"):
    """Begins a flame graph as events; returns the connection and the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    connection.request("GET", "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D&from=now-1h&until=now",
                       headers={"Accept": "text/event-stream", "Accept-Encoding": coding})
    response = connection.getresponse()
    check(response.status == 200 and response.getheader("Content-Type") == "text/event-stream", "%d %s", response.status,
          response.getheaders())
    check(response.getheader("Content-Encoding") == (None if coding == "identity" else coding) or response.getheader("Content-Length"),
          "%s", response.getheaders())
    return connection, Lines(response)


def next_event(response):
    """(name, data)"""
    lines = []
    while not lines or lines[-1] != "":
        line = response.readline()
        check(line, "the stream ends in an event: %s", lines)
        lines.append(line.decode().rstrip("\n"))
    check(lines[0].startswith("event: ") and lines[1].startswith("data: ") and len(lines) == 3, "%s", lines)
    return lines[0][len("event: "):], json.loads(lines[1][len("data: "):])


def last_event(response):
    """(name, data) of the one that is no progress: a busy machine may take its time."""
    name, data = next_event(response)
    while name == "progress":
        name, data = next_event(response)
    return name, data


def case_progress_is_passed_on():
    """Events arrive while the query waits, from a querier and through the distributor; then its result, its error, or its end."""
    with cluster.Cluster(distributors=1, queriers=1, compactors=0) as run:
        for querier in run.of("querier"):
            querier.arguments += ["--querier.timeout", "5s"]
        distributor = start(run)
        push(flamegrid.Client(distributor.port, TIMEOUT_S), "shop")
        querier = run.of("querier")[0]

        def signal_all(number):
            for ingester in run.of("ingester"):
                ingester.signal(number)

        for port, coding in ((querier.port, "gzip"), (distributor.port, "identity"), (distributor.port, "gzip")):
            connection, response = events(port, coding)
            name, data = last_event(response)
            check(name == "result" and data["flamebearer"]["numTicks"] == 70000000, "%s %s", name, data)
            # Ingesters that do not answer: the query waits.
            signal_all(signal.SIGSTOP)
            connection, response = events(port, coding)
            name, data = next_event(response)
            check(name == "progress" and data["stage"] in ("queued", "blocks", "ingesters"), "%s %s", name, data)
            signal_all(signal.SIGCONT)
            name, data = last_event(response)
            check(name == "result" and data["flamebearer"]["numTicks"] == 70000000, "%s %s", name, data)
            # It goes on with the connection, and without an answer in time it is an error.
            check(response.read() == b"", "something follows the last event")
            signal_all(signal.SIGSTOP)
            connection, response = events(port, coding)
            name, data = last_event(response)
            check(name == "error" and data["status"] in (503, 504) and data["code"] and data["message"], "%s %s", name, data)
            # A client that leaves ends its query.
            connection, response = events(port, coding)
            next_event(response)
            response.close()
            connection.close()
            deadline = time.monotonic() + TIMEOUT_S
            while distributor.metrics()["flamegrid_query_proxy_running"] > 0:
                check(time.monotonic() < deadline, "the query goes on")
                time.sleep(0.05)
            signal_all(signal.SIGCONT)
        check(flames(flamegrid.Client(distributor.port, TIMEOUT_S), "shop") == 70000000, "all goes on")


def case_queriers_may_demand_a_certificate():
    with tempfile.TemporaryDirectory(prefix="flamegrid-certs.") as folder, cluster.Cluster(distributors=1, queriers=1, compactors=0) as run:
        papers = certs.Certificates(folder)
        papers.make("ca")
        for name in ("querier", "distributor"):
            papers.make(name, "ca")
        querier, distributor = run.of("querier")[0], run.of("distributor")[0]
        querier.arguments += ["--tls_cert_file", papers.path("querier.pem"), "--tls_key_file", papers.path("querier.key"),
                              "--tls_client_ca_file", papers.path("ca.pem"), "--tls_client_auth", "require"]
        querier.is_ready = lambda: querier.operate("GET", "/ready")[0] == 200
        distributor.arguments += ["--query_proxy.urls", "https://127.0.0.1:%d" % querier.port, "--query_proxy.ca_file", papers.path("ca.pem")]
        run.start()
        client = flamegrid.Client(distributor.port, TIMEOUT_S)
        push(client, "shop")
        status, body = client.send("GET", "/api/labels")[:2]
        check(status == 403 and b"certificate" in body, "without a certificate: %d %s", status, body)
        distributor.terminate()
        distributor.start("--query_proxy.cert_file", papers.path("distributor.pem"), "--query_proxy.key_file", papers.path("distributor.key"))
        distributor.wait_ready()
        check(flames(flamegrid.Client(distributor.port, TIMEOUT_S), "shop") == 70000000, "with a certificate")


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    for name, case in list(globals().items()):
        if name.startswith("case_") and tally.wants(name[len("case_"):]):
            tally.run(name[len("case_"):], case)
    tally.finish()


if __name__ == "__main__":
    main()
