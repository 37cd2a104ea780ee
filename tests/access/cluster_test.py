#!/usr/bin/env python3
"""Tokens in a cluster: what the distributor passes on, and how soon a revoked token is refused everywhere.

    cluster_test.py [-k REGEX]
"""

import http.client
import http.server
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import cluster  # noqa: E402
import flamegrid  # noqa: E402
import servers  # noqa: E402
from flamegrid import check  # noqa: E402

REFUSED_WITHIN_S = 20
LOAD_THREADS = 3
HOUR_MS = 3600 * 1000


class Governed:
    """A cluster in the mode token with the tenants a and b, and one URL for all."""

    def __init__(self, *upstreams, poll="1s", distributors=1):
        settings = {kind: [*arguments, "--access.mode", "token", "--access.poll", poll, "--access.failures_per_minute", "1000000"]
                    for kind, arguments in cluster.QUICK.items()}
        self.run = cluster.Cluster(ingesters=3, distributors=distributors, queriers=1, compactors=0, settings=settings, multitenancy=True)
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
        for caller, status, text in ((reader, 200, "marka"), (pusher, 403, "lacks the scope for this: read"), (other, 200, ""),
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


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            tally.run(name[5:], case)
    tally.finish()


if __name__ == "__main__":
    main()
