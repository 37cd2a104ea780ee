#!/usr/bin/env python3
"""Tokens in a cluster: what the distributor passes on, how soon a revoked token is refused everywhere, and tokens of an issuer.

    cluster_test.py [-k REGEX]
"""

import http.client
import http.server
import json
import os
import sys
import tempfile
import threading
import time
import urllib.parse

for other in ("lib", "agents"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, other))
import agents  # noqa: E402
import certs  # noqa: E402
import cluster  # noqa: E402
import flamegrid  # noqa: E402
import people  # noqa: E402
import servers  # noqa: E402
import world  # noqa: E402
from flamegrid import check  # noqa: E402

REFUSED_WITHIN_S = 20
NEW_KEY_WITHIN_S = 90  # ten seconds are promised; the rest is for a busy machine
LOAD_THREADS = 3
HOUR_MS = 3600 * 1000


class Governed:
    """A cluster in the mode token with the tenants a and b, and one URL for all."""

    def __init__(self, *upstreams, poll="1s", more=(), **shape):
        settings = {kind: [*arguments, "--access.mode", "token", "--access.poll", poll, "--access.failures_per_minute", "1000000", *more]
                    for kind, arguments in cluster.QUICK.items()}
        shape = {"ingesters": 3, "distributors": 1, "queriers": 1, "compactors": 0, **shape}
        self.run = cluster.Cluster(settings=settings, multitenancy=True, **shape)
        self.distributor, self.querier = self.run.of("distributor")[0], self.run.of("querier")[0]
        urls = upstreams or ["http://127.0.0.1:%d" % self.querier.port]
        for distributor in self.run.of("distributor"):
            distributor.arguments += ["--query_proxy.urls", ",".join(urls)]

    def __enter__(self):
        self.admin = servers.first_token(*self.run.bucket)
        self.run.start()
        self.govern = servers.Caller(self.querier.port, self.admin)
        for tenant in "ab":
            self.govern.must("POST", "/api/tenants", {"id": tenant})
        return self

    def settle(self):
        """Waits until all processes have read the registry of the one that changes it."""
        deadline = time.monotonic() + servers.TIMEOUT_S
        name = "flamegrid_access_registry_generation"
        while any(member.metrics().get(name, 0) < self.querier.metrics()[name] for member in self.run.members.values()):
            check(time.monotonic() < deadline, "not everybody has read the registry")
            time.sleep(0.1)

    def __exit__(self, *exception):
        self.run.__exit__(*exception)

    def token(self, scopes, tenants=("a",)):
        return self.govern.must("POST", "/api/tokens", {"name": "test", "tenants": list(tenants), "scopes": list(scopes)})["token"]

    def known(self, caller, method="GET", path="/api/whoami", body=None):
        """Waits until a process knows the caller's token: until then it asks to come again. Returns status and text."""
        deadline = time.monotonic() + servers.TIMEOUT_S
        while True:
            status, said = caller.send(method, path, body)
            if status != 503:
                return status, said
            check(time.monotonic() < deadline, "still %s", said)
            time.sleep(0.05)


def case_the_querier_decides_what_a_distributor_passes_on():
    with Governed() as run:
        pusher, reader, other = (servers.Caller(run.distributor.port, run.token(scopes, tenants)) for scopes, tenants in (
            (["push"], ["a"]), (["read"], ["a"]), (["read"], ["b"])))
        for caller in (pusher, reader, other):
            status, said = run.known(caller)
            check(status == 200, "%d %s", status, said)
        status, said = servers.push(pusher, "marka.cpu")
        check(status == 200, "push: %d %s", status, said)
        names = "/api/labels/service_name?from=now-1h&until=now"
        for caller, status, text in ((reader, 200, "marka"), (pusher, 403, "needs the scope read"), (other, 200, ""),
                                     (servers.Caller(run.distributor.port, None), 401, "who you are"),
                                     (servers.Caller(run.distributor.port, "nonsense"), 401, "not valid")):
            got, said = run.known(caller, path=names)
            check(got == status and text in said and (caller is reader or "marka" not in said), "%d %s", got, said)
        status, said = other.send("GET", names, headers={"X-Scope-OrgID": "a"})
        check(status == 403 and 'no access to tenant' in said, "%d %s", status, said)
        status, said = servers.push(reader, "demo.cpu")
        check(status == 403, "a push with the scope read: %d %s", status, said)
        # The small services and changes, too.
        check(run.known(servers.Caller(run.distributor.port, run.admin), path="/api/tenants")[0] == 200, "/api/tenants")
        check(reader.send("POST", "/settings.v1.SettingsService/Set", {"setting": {"name": "n", "value": "v"}})[0] == 403, "settings")


class Echo(http.server.BaseHTTPRequestHandler):
    """A querier that remembers what it was asked with."""

    heard = []

    def do_GET(self):
        self.heard.append(dict(self.headers.items()))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments):
        pass


def case_credentials_are_passed_on_as_they_came():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as upstream:
        thread = threading.Thread(target=upstream.serve_forever)
        thread.start()
        try:
            with Governed("http://127.0.0.1:%d" % upstream.server_port) as run:
                token = run.token(["read"], ["a", "b"])
                sent = {**servers.basic("a", token), "Cookie": "__Host-flamegrid=v1.abc; theme=dark", "X-Scope-OrgID": "a|b",
                        "X-Flamegrid-Csrf": "c"}
                caller = servers.Caller(run.distributor.port, None)
                deadline = time.monotonic() + servers.TIMEOUT_S
                while caller.send("GET", "/api/labels", headers=sent)[0] != 200:
                    check(time.monotonic() < deadline, "the distributor does not know the token")
                    time.sleep(0.05)
                heard = Echo.heard[-1]
                for name, value in sent.items():
                    check(heard.get(name) == value, "%s: %s", name, heard.get(name))
        finally:
            upstream.shutdown()
            thread.join()


class Load(threading.Thread):
    """Sends one request again and again, and remembers when it began what succeeded, and when the first was refused."""

    def __init__(self, port, token, ask):
        super().__init__()
        self.caller, self.ask = servers.Caller(port, token), ask
        self.stop = False
        self.last_success, self.refused, self.successes, self.odd = 0, None, 0, set()

    def run(self):
        while not self.stop:
            begun = time.monotonic()
            try:
                status = self.ask(self.caller)[0]
            except (OSError, http.client.HTTPException):  # a connection that was idle; the next one is new
                continue
            if status == 200:
                self.last_success, self.successes = begun, self.successes + 1
            elif status == 401 and self.refused is None:
                self.refused = time.monotonic()
            elif status not in (401, 429, 503):
                self.odd.add(status)


def case_a_revoked_token_is_refused_everywhere_soon():
    with Governed() as run:
        token = run.token(["push", "read"])
        for port in (run.distributor.port, run.querier.port):
            check(run.known(servers.Caller(port, token))[0] == 200, "the token is not known")
        read = "/api/labels?from=now-1h&until=now"
        load = [Load(run.distributor.port, token, lambda caller: servers.push(caller, "demo.cpu")) for _ in range(LOAD_THREADS)]
        load += [Load(port, token, lambda caller: caller.send("GET", read)) for port in (run.distributor.port, run.querier.port)
                 for _ in range(LOAD_THREADS)]
        for each in load:
            each.start()
        try:
            deadline = time.monotonic() + servers.TIMEOUT_S
            while not all(each.successes > 3 for each in load):
                check(time.monotonic() < deadline, "no load: %s", [(each.successes, each.odd) for each in load])
                time.sleep(0.05)
            run.govern.must("POST", "/api/tokens/%s:revoke" % token[4:12])
            revoked = time.monotonic()
            while not all(each.refused for each in load):
                check(time.monotonic() < revoked + REFUSED_WITHIN_S, "after %d s it is not refused: %s", REFUSED_WITHIN_S,
                      [each.refused for each in load])
                time.sleep(0.05)
            time.sleep(2)  # no success may follow
        finally:
            for each in load:
                each.stop = True
            for each in load:
                each.join()
        for each in load:
            check(not each.odd, "%s", each.odd)
            check(each.last_success < each.refused, "it was refused, and worked again")
        for member in (run.distributor, run.querier):
            while "flamegrid_access_registry_generation" not in member.metrics():  # it did not answer in time
                check(member.alive(), "%s has ended: %s", member.name, member.log_tail(20000))
        generations = [member.metrics()["flamegrid_access_registry_generation"] for member in (run.distributor, run.querier)]
        check(len(set(generations)) == 1, "the processes differ: %s", generations)


def case_the_last_use_of_a_token_is_known_of_all_processes():
    with Governed(distributors=2) as run:
        began_ms = int(time.time() * 1000)
        tokens = [run.token(["push"]) for _ in range(4)]
        for distributor, token in zip(run.run.of("distributor"), tokens):
            status, said = run.known(servers.Caller(distributor.port, token))
            check(status == 200, "%d %s", status, said)
        check(run.known(servers.Caller(run.querier.port, tokens[2]))[0] == 200, "the querier")
        for distributor in run.run.of("distributor"):
            distributor.terminate()  # then they write what they have seen
        listed = run.govern.must("GET", "/api/tokens")
        check(0 < listed["usesSinceMs"] <= time.time() * 1000, "%s", listed)
        last = {token["id"]: token.get("lastUsedMs") for token in listed["tokens"]}
        hours = [began_ms // HOUR_MS * HOUR_MS, int(time.time() * 1000) // HOUR_MS * HOUR_MS]
        for token in (*tokens[:3], run.admin):
            check(last[token[4:12]] in hours, "%s", last)
            check(run.govern.must("GET", "/api/tokens/" + token[4:12])["lastUsedMs"] == last[token[4:12]], "%s", last)
        check(last[tokens[3][4:12]] is None, "a token that nobody used: %s", last)
        # A request that was refused is no use.
        check(run.known(servers.Caller(run.querier.port, tokens[3]), path="/api/tokens")[0] == 403, "push may list tokens")
        check("lastUsedMs" not in run.govern.must("GET", "/api/tokens/" + tokens[3][4:12]), "a refused request")


def is_refused(caller, method, target, body=None):
    status, said = caller.send(method, target, body)
    return status == 401 and "not valid" in said


def read(caller, service):
    """The sum of what a service has pushed; waits until the token is known."""
    deadline = time.monotonic() + servers.TIMEOUT_S
    while True:
        status, said = caller.send("GET", "/pyroscope/render?from=now-1h&until=now&query=" + urllib.parse.quote(
            '%s{service_name="%s"}' % (servers.TYPE, service)))
        if status == 200:
            return json.loads(said)["flamebearer"]["numTicks"]
        check(status == 503 and time.monotonic() < deadline, "read: %d %s", status, said)
        time.sleep(0.05)


def use(run, token):
    """What a workload of the tenant a does with its token: it pushes, reads at each querier and through the distributor."""
    caller = servers.Caller(run.distributor.port, token)
    status, said = run.known(caller, "POST", "/ingest?name=loaded.cpu&from=now-20s&until=now-10s", b"main;work 3\n")
    check(status == 200, "push: %d %s", status, said)
    want = 3 * 10_000_000
    for member in (run.distributor, *run.run.of("querier")):
        check(read(servers.Caller(member.port, token), "loaded") >= want, "%s does not have it", member.name)
    status, said = caller.send("POST", "/ingest?name=loaded.cpu", b"main 1\n", {"X-Scope-OrgID": "b"})
    check(status == 403 and "no access to tenant" in said, "a push to another tenant: %d %s", status, said)
    status, said = servers.Caller(run.querier.port, token).send("GET", "/api/labels", headers={"X-Scope-OrgID": "b"})
    check(status == 403 and "no access to tenant" in said, "a query of another tenant: %d %s", status, said)


def asks(member):
    """What a member of the cluster serves to those with a token: one route of each kind of process."""
    routes = {"distributor": [("POST", "/ingest?name=stolen.cpu", b"main 1\n"), ("GET", "/api/labels", None)],
              "querier": [("GET", "/api/labels", None)]}
    return [*routes.get(member.kind, ()), ("GET", "/metrics", None)]


def are_refused_everywhere(run, tokens):
    for what, token in tokens.items():
        for member in run.run.members.values():
            for method, target, body in asks(member):
                check(is_refused(servers.Caller(member.port, token), method, target, body), "%s at %s: %s %s", what, member.name,
                      method, target)


def changes_its_key(run, provider, old):
    """The issuer begins to sign with another key. Its tokens count within ten seconds; those of the key that it does not have any
    more are refused from then on."""
    provider.stop()
    provider.start("second")
    new = provider.token("flamegrid")
    began = time.monotonic()
    for member in run.run.members.values():
        caller, before = servers.Caller(member.port, new), servers.Caller(member.port, old)
        target = "/metrics" if member.kind in ("ingester", "compactor") else "/api/whoami"
        while caller.send("GET", target)[0] in (401, 503):
            check(time.monotonic() < began + NEW_KEY_WITHIN_S, "%s does not know the new key after %d s", member.name, NEW_KEY_WITHIN_S)
            time.sleep(0.2)
        for method, target, body in asks(member):
            check(is_refused(before, method, target, body), "%s takes the old token: %s %s", member.name, method, target)
    use(run, new)


def issuer_of_a_cluster(provider, papers):
    issuers = [{"issuer": provider.issuer, "audience": "flamegrid", "tenant_claim": "tenant"}]
    bindings = [{"issuer": provider.issuer, "claim": "client_id", "value": "agent", "tenants": "a", "role": "viewer"}]
    more = ("--access.issuers", json.dumps(issuers), "--access.bindings", json.dumps(bindings))
    with Governed(more=more, papers=papers, queriers=2, compactors=1) as run:
        ring = run.run.ring()
        check(len(ring["members"]) == 3 and all(one["address"].startswith("tls+tcp://") for one in ring["members"]), "%s", ring)
        token = provider.token("flamegrid")
        run.settle()
        use(run, token)
        head, claims, signature = token.split(".")
        stolen = {"of another audience": provider.token("billing"), "without a signature": "%s.%s." % (head, claims),
                  "with another's signature": "%s.%s.%s" % (head, claims, provider.token("billing").rpartition(".")[2])}
        are_refused_everywhere(run, stolen)
        changes_its_key(run, provider, token)
        for member in run.run.members.values():
            check(signature not in member.log(), "a token is in the log of %s", member.name)


def a_server_forwards_with(provider):
    """A server gets its tokens from the provider, for a target that takes them as those of a sender of the tenant a."""
    issuers = [{"issuer": provider.issuer, "audience": "flamegrid", "tenant_claim": "tenant"}]
    bindings = [{"issuer": provider.issuer, "claim": "client_id", "value": "node", "tenants": "a", "role": "sender"},
                {"issuer": provider.issuer, "claim": "client_id", "value": "agent", "tenants": "*", "role": "cluster-admin"}]
    with flamegrid.Server("--multitenancy_enabled", "true", "--access.mode", "token", "--access.issuers", json.dumps(issuers),
                          "--access.bindings", json.dumps(bindings)) as there:
        there.start().wait_ready()
        admin = flamegrid.Client(there.port, headers={"Authorization": "Bearer " + provider.token("flamegrid")})
        status, body = admin.send("POST", "/api/tenants", json.dumps({"id": "a"}), {"Content-Type": "application/json"})
        check(status == 200, "%d %s", status, body)
        secret = os.path.join(there.folder, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write(people.SECRET)
        keys = {"token_url": provider.issuer + "/token", "client_id": "node", "client_secret_file": secret, "params": {"resource": "urn:flamegrid"}}
        central = {"name": "central", "url": "http://127.0.0.1:%d" % there.port, "protocol": "push", "tenant": "a", "oauth2": keys}
        with flamegrid.Server("--forward.targets", json.dumps([central])) as node:
            node.start().wait_ready()
            status, body = flamegrid.Client(node.port).send("POST", "/ingest?name=shop&from=1750000000", b"main;work 3\n")
            check(status == 200, "%d %s", status, body)
            deadline = time.monotonic() + 60
            while 'flamegrid_forward_sent_profiles_total{target="central",lane="fresh"} 1' not in node.metrics():
                check(time.monotonic() < deadline, "nothing was taken: %s", flamegrid.Client(node.port).send("GET", "/api/forward"))
                time.sleep(0.2)
            check(people.SECRET not in node.log_tail() and people.SECRET not in json.dumps(str(node.operate("GET", "/config"))), "the secret shows")


def with_issuer(driver):
    with people.Provider(driver, "http://127.0.0.1:1") as provider:
        a_server_forwards_with(provider)
    with tempfile.TemporaryDirectory(prefix="flamegrid-papers.") as folder, people.Provider(driver, "http://127.0.0.1:1") as provider:
        issuer_of_a_cluster(provider, certs.Papers(folder))


def tokens_of_an_issuer(tally):
    name = "tokens_of_an_issuer_in_a_cluster_with_tls"
    if not tally.wants(name):
        return
    driver = world.Provider("access")
    try:
        driver.ready()
    except agents.Unavailable as missing:
        tally.skip(name, missing)
        return
    tally.run(name, with_issuer, driver)


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            tally.run(name[5:], case)
    tokens_of_an_issuer(tally)
    tally.finish()


if __name__ == "__main__":
    main()
