#!/usr/bin/env python3
"""Every route with every scope; modes, tokens, the registry, and where secrets are not.

    tokens_test.py [-k REGEX]
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import certs  # noqa: E402
import cluster  # noqa: E402
import flamegrid  # noqa: E402
import routes  # noqa: E402
import servers  # noqa: E402
from flamegrid import check  # noqa: E402

DENIED = (401, 403)
# They ask for a session at GitHub, which nobody has: clients take this answer for "log in there first".
OWN_401 = '{"code":"unauthenticated","message":"invalid token"}'
# What a path that ends with '*' is asked as, so that nothing is changed that other cases need.
BELOW = {"/api/tenants/": "nobody/limits", "/api/tokens/": "00000000:rotate", "/api/bindings/": "0000000000000000", "/api/forward/": "nowhere/drop", "/api/profiles/": "1", "/api/labels/": "service_name",
         "/api/adhoc/": "00000000000000000000000000", "/api/v1/": "anything", "/assets/": "nothing"}


def table_of(server, name):
    status, body = server.operate("GET", "/routes")
    check(status == 200, "/routes: %d %s", status, body)
    return routes.listed(json.loads(body)[name])


def compare(name, got, want):
    for key, scopes in got.items():
        check(key in want, "%s: %s %s has no row in routes.py (it demands %s)", name, key[0], ",".join(sorted(key[1])), scopes)
        check(scopes == want[key], "%s: %s demands %s, not %s", name, key[0], scopes, want[key])


def case_every_route_has_a_row():
    clients, operators = routes.rows(routes.CLIENTS), routes.rows(routes.OPERATORS)
    proxy = {**clients, **routes.rows(routes.PASSED_ON)}
    seen, seen_operators = set(), set()
    with servers.Governed() as server:
        server.begin()
        found = table_of(server, "listen")
        compare("server", found, clients)
        check(set(clients) <= set(found), "rows without a route: %s", set(clients) - set(found))
        seen_operators |= set(table_of(server, "admin_listen"))
        compare("server", table_of(server, "admin_listen"), operators)
    with flamegrid.Agent("--forward.targets", "[{name: central, url: 'http://127.0.0.1:1'}]") as agent:
        agent.start().wait_ready()
        compare("agent", table_of(agent, "listen"), routes.rows(routes.AGENT))
        compare("agent", table_of(agent, "admin_listen"), operators)
    with cluster.Cluster(ingesters=1, distributors=1, queriers=1, compactors=1) as run:
        run.of("distributor")[0].arguments += ["--query_proxy.urls", "http://127.0.0.1:1"]
        run.start()
        for member in run.members.values():
            compare(member.name, table_of(member, "listen"), proxy if member.kind == "distributor" else clients)
            compare(member.name, table_of(member, "admin_listen"), operators)
            seen |= set(table_of(member, "listen"))
            seen_operators |= set(table_of(member, "admin_listen"))
    gone = (set(proxy) - seen) - set(clients)
    check(not gone, "rows without a route: %s", gone)


def asked_as(path):
    if path == "/assets/FILE":
        return None  # which names there are, the page knows
    return path[:-1] + BELOW.get(path[:-1], "x") if path.endswith("*") else path


def status_of(caller, path, methods, headers=None):
    method = next(each for each in ("POST", "PUT", "DELETE", "GET") if each in methods)
    body = {} if method in ("POST", "PUT") else None
    status, said = caller.send(method, asked_as(path), body, headers)
    return (501 if said == OWN_401 else status), said


def each_route(text):
    for (path, methods), scopes in routes.rows(text).items():
        if asked_as(path):
            yield path, methods, scopes


def tokens_of_one_scope(server):
    return {scope: server.token([scope], ["*"] if scope in servers.OF_ALL_TENANTS else ["a"]) for scope in servers.SCOPES}


def check_scopes(port, text, tokens):
    """Each route, as nobody, as a stranger, and with each scope."""
    n = 0
    tenant = {"X-Scope-OrgID": "a"}
    callers = {scope: servers.Caller(port, token) for scope, token in tokens.items()}
    nobody, stranger = servers.Caller(port, None), servers.Caller(port, "nonsense")
    for path, methods, scopes in each_route(text):
        for who in (nobody, stranger):
            status, said = status_of(who, path, methods, tenant)
            check((status == 401) == (scopes != {"open"}) and status != 403, "%s as %s: %d %s", path,
                  "nobody" if who is nobody else "a stranger", status, said)
        for scope, caller in callers.items():
            status, said = status_of(caller, path, methods, tenant)
            may = scopes in ({"open"}, {"known"}) or scope in scopes
            check((status in DENIED) != may, "%s with the scope %s, which should be %s: %d %s", path, scope, may, status, said)
            check(may or status == 403, "%s with the scope %s: %d %s", path, scope, status, said)
            n += 1
    return n


def case_each_route_wants_one_of_its_scopes():
    with servers.Governed() as server:
        server.begin()
        n = check_scopes(server.port, routes.CLIENTS, tokens_of_one_scope(server))
        check(n > 600, "only %d requests", n)


GOVERN = {"tenant-admin", "admin"}

# On a loopback address `admin_listen` asks for nothing; this one is of the same machine, and does not look like it.
MAPPED = "[::ffff:127.0.0.1]:%d"


def case_operators_routes_on_the_network_want_scopes():
    with servers.Governed() as server:
        server.arguments += ("--admin_listen", MAPPED % server.admin_port)
        server.begin()
        there = {key for key in routes.rows(routes.OPERATORS)} & set(routes.listed(json.loads(
            servers.Caller(server.admin_port, server.admin).send("GET", "/routes")[1])["admin_listen"]))
        text = "\n".join("%s %s %s" % (path, ",".join(sorted(methods)), ",".join(sorted(routes.rows(routes.OPERATORS)[path, methods])))
                         for path, methods in there)
        check(len(there) > 10, "%s", there)
        check_scopes(server.admin_port, text, tokens_of_one_scope(server))


def case_on_loopback_operators_need_nothing():
    with servers.Governed() as server:
        server.begin()
        nobody = servers.Caller(server.admin_port, None)
        for path in ("/metrics", "/config", "/routes", "/compactor/status"):
            check(nobody.send("GET", path)[0] == 200, "%s", path)
        # Who needs no token must not be able to make one.
        for path in ("/api/tokens", "/api/tenants", "/api/audit", "/api/forward", "/api/v1/targets"):
            check(nobody.send("GET", path)[0] == 404, "%s without a token", path)


def case_the_mode_none_asks_for_nothing():
    with flamegrid.Server("--multitenancy_enabled", "true") as server:
        server.start().wait_ready()
        nobody = servers.Caller(server.port, None)
        for path, methods, _ in each_route(routes.CLIENTS):
            status, said = status_of(nobody, path, methods, {"X-Scope-OrgID": "a"})
            check(status not in DENIED, "%s: %d %s", path, status, said)
        check(nobody.must("GET", "/api/whoami")["kind"] == "anyone", "whoami")
        code, text, said = servers.command("whoami", FLAMEGRID_URL="http://127.0.0.1:%d" % server.port)
        check(code == 0 and "\ntenants  any\n" in text, "whoami: %d %s%s", code, text, said)


def case_the_mode_header_believes_its_networks():
    for cidrs, may in (("127.0.0.0/8", True), ("10.0.0.0/8", False)):
        with flamegrid.Server("--multitenancy_enabled", "true", "--access.mode", "header", "--access.trusted_cidrs", cidrs) as server:
            server.start().wait_ready()
            nobody = servers.Caller(server.port, None)
            check(servers.Caller(server.admin_port, None).send("GET", "/api/tenants")[0] == 200, "operators on this machine")
            for path, methods, scopes in each_route(routes.CLIENTS):
                status, said = status_of(nobody, path, methods, {"X-Scope-OrgID": "a"})
                may_this = may and not scopes <= GOVERN  # a gateway never says who is an admin
                check((status in DENIED) == (not may_this and scopes != {"open"}), "%s from %s: %d %s", path, cidrs, status, said)


def case_settings_are_for_admins_and_without_secrets():
    def shown(caller):
        return {one["name"]: one for one in caller.must("GET", "/api/settings")["settings"]}

    with servers.Governed("--bucket.s3.secret_key", "h1dden") as server:
        server.begin()
        said = server.govern.must("GET", "/api/settings")
        check(said["program"] == "flamegrid server" and "h1dden" not in json.dumps(said), "%s", said["program"])
        settings = shown(server.govern)
        check((settings["bucket.s3.secret_key"]["value"], settings["bucket.s3.secret_key"]["differs"]) == ("***", True), "the secret")
        mode = settings["access.mode"]
        check((mode["value"], mode["default"], mode["differs"]) == ("token", "auto", True) and mode["meaning"], "%s", mode)
        check(not settings["limits.max_query_length"]["differs"], "a default differs")
        check(server.govern.send("GET", "/api/settings?member=nobody")[0] == 404, "a member of a single server")
        status, yaml = server.operate("GET", "/config")
        check(status == 200 and yaml.count(b": ") >= len(settings), "/config has other settings")
        for caller in (server.caller(["tenant-admin", "read"]), server.caller(["metrics"], ["*"])):
            check(caller.send("GET", "/api/settings")[0] == 403, "not only for admins")
    with flamegrid.Server() as server:  # mode none: everybody may do everything
        server.start().wait_ready()
        check(shown(servers.Caller(server.port, None))["access.mode"]["value"] == "auto", "mode none")


def case_the_mode_header_believes_a_certificate():
    with tempfile.TemporaryDirectory() as folder:
        made = certs.Certificates(folder)
        made.make("ca")
        made.make("server", "ca")
        made.make("client", "ca")
        made.make("stranger")
        tls = ("--tls_cert_file", made.path("server.pem"), "--tls_key_file", made.path("server.key"), "--tls_client_auth", "optional",
               "--tls_client_ca_file", made.path("ca.pem"))
        with flamegrid.Server("--multitenancy_enabled", "true", "--access.mode", "header", *tls) as server:
            server.start()

            def status(*certificate):
                done = subprocess.run(["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--cacert", made.path("ca.pem"), *certificate,
                                       "-H", "X-Scope-OrgID: a", "https://127.0.0.1:%d/api/whoami" % server.port],
                                      capture_output=True, text=True, check=False, timeout=servers.TIMEOUT_S)
                return done.stdout

            deadline = time.monotonic() + servers.TIMEOUT_S
            while status() != "401":
                check(time.monotonic() < deadline and server.alive(), "%s", server.log_tail())
                time.sleep(0.1)
            got = status("--cert", made.path("client.pem"), "--key", made.path("client.key"))
            check(got == "200", "with a certificate: %s %s", got, server.log_tail())
            check(status("--cert", made.path("stranger.pem"), "--key", made.path("stranger.key")) in ("000", "401"), "with another's")


def case_a_server_that_others_reach_does_not_start_without_a_mode():
    with tempfile.TemporaryDirectory() as folder:
        for listen in ("0.0.0.0:0", ":0", "[::]:0", MAPPED % 0):
            code, _, said = servers.command("server", "--listen", listen, "--data", folder)
            check(code not in (0, None) and "access.mode" in said, "%s: %s %s", listen, code, said)


def limits_in_use(server, run):
    """A limit of a month is set, shown with what is used of it, reached, and raised."""
    agents = servers.Caller(server.port, run("token", "create", "--name", "heavy", "--tenants", "shop", "--scopes", "push").strip())
    body = b"main;%s 1\n" % (b"f" * 30000)

    def push():
        return agents.send("POST", "/ingest?name=shop.cpu&from=now-10s&until=now", body)

    def shown():
        return re.search(r"ingestion_limit +(.*) registry \(used: ([\d.]+), next reset at 2\d{3}-\d\d-01T00:00:00Z\)",
                         run("tenant", "limits", "shop"))

    run("tenant", "limits", "shop", "ingestion_limit={period_type: month, period_limit_mb: 0.1}")
    wait_for(shown, "limit with its use")
    check(shown().group(1).strip() == "{period_type: month, period_limit_mb: 0.1}", "%s", shown().group(0))
    wait_for(lambda: push()[0] == 429, "end of the month")
    check("limit of 102.4 KiB/month reached" in push()[1], "%s", push()[1])
    wait_for(lambda: float(shown().group(2)) >= 0.1, "use of the limit")
    limits = json.loads(run("tenant", "limits", "shop", "--json"))
    check(limits["max_series_per_tenant"]["used"] == 1, "%s", limits["max_series_per_tenant"])
    check("used" not in limits["shard_factor"] and limits["ingestion_limit"]["resetMs"] > time.time() * 1000, "%s", limits)
    check("period_type" in run("tenant", "limits", "shop", "ingestion_limit={period_type: year}", code=1), "a wrong limit")
    run("tenant", "limits", "shop", "ingestion_limit=")
    wait_for(lambda: push()[0] == 200, "push without a limit")


def case_the_command_line_governs():
    with servers.Governed() as server:
        server.begin()
        url = {"FLAMEGRID_URL": "http://127.0.0.1:%d" % server.port, "FLAMEGRID_TOKEN": server.admin}

        def run(*words, code=0, **variables):
            got, text, said = servers.command(*words, **{**url, **variables})
            check(got == code, "%s: %d %s", words, got, said)
            return text if code == 0 else said

        check("--again" in run("access", "init", "--data", server.data, code=1), "a second init")
        made = json.loads(run("access", "init", "--again", "--name", "spare", "--json", "--data", server.data))
        again = made["token"]
        check(made["name"] == "spare" and made["tenants"] == ["*"] and made["scopes"] == ["admin", "tenant-admin"] and
              again.startswith("fgt_%s_" % made["id"]) and made["expiresMs"] > 1000 * time.time(), "%s", made)
        # It was made behind the server's back, which asks to come again until it has read it.
        wait_for(lambda: servers.Caller(server.port, again).send("GET", "/api/whoami")[0] == 200, "spare token")
        check("spare" in run("whoami", FLAMEGRID_TOKEN=again), "the spare one")
        run("tenant", "create", "shop")
        token = run("token", "create", "--name", "agents", "--tenants", "shop", "--scopes", "push").strip()
        check(re.fullmatch("fgt_[0-9A-Za-z]{8}_[0-9A-Za-z]{38}", token), "%s", token)
        said = run("whoami", FLAMEGRID_TOKEN=token)
        check("shop" in said and "push" in said and "read" not in said, "%s", said)
        run("tenant", "list", code=1, FLAMEGRID_TOKEN=token)
        check("agents" in run("token", "list", "--tenants", "shop") and token not in run("token", "list"), "token list")
        run("token", "create", "--name", "idle", "--tenants", "shop", "--scopes", "push")
        for name, use in (("agents", r"used 20\d\d-\d\d-\d\dT\d\d "), ("idle", "never used "), ("spare", "used 20")):
            line = next(each for each in run("token", "list").splitlines() if " %s " % name in each)
            check(re.search(use, line), "%s", line)
        rotated = run("token", "rotate", token[4:12], "--overlap", "0s").strip()
        check(rotated != token and rotated[:13] == token[:13], "%s", rotated)
        run("whoami", FLAMEGRID_TOKEN=rotated)
        caller = servers.Caller(server.port, token)
        deadline = time.monotonic() + servers.TIMEOUT_S
        while caller.send("GET", "/api/whoami")[0] != 401:  # 503 while it may be a new one
            check(time.monotonic() < deadline, "the old secret works on")
        run("token", "revoke", token[4:12])
        while servers.Caller(server.port, rotated).send("GET", "/api/whoami")[0] != 401:
            check(time.monotonic() < deadline, "the revoked token works on")
        run("tenant", "limits", "shop", "max_query_length=31d")
        check(re.search(r"max_query_length +31d +registry", run("tenant", "limits", "shop")), "limits")
        check("no_such" in run("tenant", "limits", "shop", "no_such=1", code=1), "an unknown limit")
        said = run("tenant", "limits", "shop", "max_query_len=31d", code=1)
        check('no limit "max_query_len"; did you mean max_query_length?' in said, "%s", said)
        check(json.loads(run("tenant", "limits", "shop", "max_query_length=30d", "--json")) == {"id": "shop"}, "limits --json")
        limits_in_use(server, run)
        both = run("token", "create", "--name", "both", "--tenants", "a,shop", "--scopes", "read").strip()
        said = run("labels", code=1, FLAMEGRID_TOKEN=both)
        check("401: no org id" in said and "--tenant or FLAMEGRID_TENANT" in said, "%s", said)
        run("labels", FLAMEGRID_TOKEN=both, FLAMEGRID_TENANT="a")
        run("labels", "--tenant", "a|shop", FLAMEGRID_TOKEN=both)
        said = run("whoami", code=1, FLAMEGRID_TOKEN="")
        check("401: this server wants to know who you are" in said and "--token or FLAMEGRID_TOKEN" in said, "%s", said)
        check("has no log-in for people" in run("login", code=1, FLAMEGRID_TOKEN=""), "login")
        check("404" in run("token", "revoke", "a/../%s:revoke?#" % token[4:12], code=1), "an id that is none")
        check("too long" in run("tenant", "suspend", "x" * 5000, code=2), "an id that is too long")
        run("tenant", "suspend", "shop")
        check("suspended" in run("tenant", "list"), "suspend")
        run("tenant", "resume", "shop")
        run("token", "create", "--name", "x", "--tenants", "shop", "--scopes", "push", "--expires-in", "0", code=2)
        made = json.loads(run("token", "create", "--name", "x", "--tenants", "shop", "--scopes", "push", "--expires-in", "2y", "--json"))
        check(made["expiresMs"] - made["createdMs"] == 2 * 365 * 86_400_000, "%s", made)
        said = run("token", "create", "--name", "x", "--tenants", "shop", "--scopes", "push", "--expires-in", "2 years", code=1)
        check("needs a unit (ns us ms s m h d w y)" in said, "%s", said)


def case_the_command_line_warns_of_tenants_that_nobody_reaches():
    def warnings(server, *words):
        code, _, said = servers.command(*words, FLAMEGRID_URL="http://127.0.0.1:%d" % server.port, FLAMEGRID_TOKEN=server.admin)
        check(code == 0, "%s: %d %s", words, code, said)
        return [line for line in said.splitlines() if line.startswith("flamegrid:")]

    def tokens_for(server, tenants, scopes="push"):
        return warnings(server, "token", "create", "--name", "x", "--tenants", tenants, "--scopes", scopes)

    with servers.Governed() as server:
        server.begin()
        check(warnings(server, "tenant", "create", "c") == [], "c")
        check(tokens_for(server, "a,c") == [] and tokens_for(server, "*", "metrics") == [], "tenants that there are")
        said = tokens_for(server, "a, shpo")
        check(len(said) == 1 and "does not know tenant shpo: flamegrid tenant create shpo" in said[0], "%s", said)
    with servers.Governed("--multitenancy_enabled", "false", tenants=()) as server:
        server.begin()
        for said in (warnings(server, "tenant", "create", "shop"), warnings(server, "tenant", "create", "shop", "--json"),
                     tokens_for(server, "shop,anonymous")):
            check(len(said) == 1 and "nobody reaches tenant shop" in said[0] and "--multitenancy_enabled true" in said[0], "%s", said)
        check(tokens_for(server, "anonymous") == [] and tokens_for(server, "*", "metrics") == [], "the tenant that there is")
    with flamegrid.Server() as server:
        server.admin = ""
        server.start().wait_ready()
        said = tokens_for(server, "anonymous")
        check(len(said) == 1 and "asks nobody for a token (access.mode is none)" in said[0] and "--access.mode token" in said[0], "%s", said)


def case_a_tenant_admin_governs_its_tenants_only():
    with servers.Governed() as server:
        server.begin()
        of_b = server.token(["push"], ["b"])
        own = server.caller(["tenant-admin", "read"], ["a"])
        check([each["id"] for each in own.must("GET", "/api/tenants")["tenants"]] == ["a"], "tenants")
        check(all(each["tenants"] == ["a"] for each in own.must("GET", "/api/tokens")["tokens"]), "tokens")
        made = own.must("POST", "/api/tokens", {"name": "n", "tenants": ["a"], "scopes": ["push"]})
        own.must("POST", "/api/tokens/%s:revoke" % made["id"])
        refused = [
            ("GET", "/api/tenants/b", None, 404),
            ("GET", "/api/tenants/b/limits", None, 404),
            ("PUT", "/api/tenants/a/limits", {"max_query_length": "1d"}, 403),
            ("POST", "/api/tenants", {"id": "c"}, 403),
            ("POST", "/api/tenants/a:suspend", {}, 403),
            ("GET", "/api/tokens/" + of_b[4:12], None, 404),
            ("POST", "/api/tokens/%s:revoke" % of_b[4:12], {}, 404),
            ("POST", "/api/tokens/%s:rotate" % of_b[4:12], {}, 404),
            ("POST", "/api/tokens/%s:rotate" % server.admin[4:12], {}, 404),
        ] + [("POST", "/api/tokens", {"name": "n", "tenants": tenants, "scopes": scopes}, 403) for tenants, scopes in (
            (["b"], ["read"]), (["a", "b"], ["read"]), (["*"], ["read"]), (["*"], ["admin"]), (["*"], ["metrics"]), (["a"], ["admin"]))]
        for method, path, body, want in refused:
            status, said = own.send(method, path, body)
            check(status == want, "%s %s %s: %d %s", method, path, body, status, said)
        status, said = own.send("POST", "/api/tokens", {"name": "n", "tenants": ["a"], "scopes": ["push"],
                                                         "tenantLabel": {"name": "ns", "otherwise": "b"}})
        check(status == 400, "a label that leads to another tenant: %d %s", status, said)
        label = {"name": "ns", "tenants": [{"value": "x", "tenant": "a"}], "prefix": "team-", "otherwise": "a"}
        made = own.must("POST", "/api/tokens", {"name": "n", "tenants": ["a"], "scopes": ["push"], "tenantLabel": label})
        check(made["tenantLabel"] == label, "%s", made)
        check(own.must("GET", "/api/tokens/" + made["id"])["tenantLabel"] == label, "it is not shown")
        check(servers.Caller(server.port, of_b).send("GET", "/api/whoami")[0] == 200, "it is untouched")


def case_a_tenant_admin_does_not_fill_the_registry():
    with servers.key_file() as key, servers.Governed("--encryption.mode", "per_tenant", *key) as server:
        server.begin()
        own = server.caller(["tenant-admin"], ["a"])
        body = {"name": "n", "tenants": ["a"], "scopes": ["push"], "tenantLabel": {"name": "ns", "prefix": "x" * 1000000}}
        status, said = own.send("POST", "/api/tokens", body)
        check(status == 400 and "tenant_label has at most" in said, "a label of a MB: %d %s", status, said[:300])
        body["tenantLabel"]["prefix"] = "x" * 16000
        made = []
        while True:
            status, said = own.send("POST", "/api/tokens", body)
            if status != 200:
                break
            made.append(json.loads(said)["id"])
            check(len(made) < 1000, "it is not refused")
        check(status == 429 and 'tenant \\"a\\" has' in said and len(made) > 50, "the last one: %d %s, after %d", status, said, len(made))
        server.govern.must("POST", "/api/tokens/%s:revoke" % made[0])
        check(own.send("POST", "/api/tokens", body)[0] == 200, "a revoked one makes room")
        check(server.govern.send("GET", "/api/tokens/" + made[0])[0] == 404, "which is forgotten")
        server.govern.must("POST", "/api/tenants/a:suspend")
        server.govern.must("POST", "/api/tenants", {"id": "c"})
        server.govern.must("DELETE", "/api/tenants/a")
        caller = server.caller(["push"], ["c"])
        check(servers.push(caller, "demo.cpu")[0] == 200 and server.operate("POST", "/ingester/flush")[0] == 200, "a push")
        code, said, _ = servers.command("encryption", "list", "--data", server.data, *key)
        check(code == 0 and [line.split()[:2] for line in said.splitlines()] == [["c", "1"]], "%d %s", code, said)


def case_headers_cannot_be_smuggled():
    with servers.Governed() as server:
        server.begin()
        a = server.caller(["push", "read"], ["a"])
        check(servers.push(a, "mark.cpu")[0] == 200, "push")
        names = "/api/labels/service_name?from=now-1h&until=now"

        def raw(*lines):
            text = "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s\r\n\r\n" % (names, "\r\n".join(lines))
            with flamegrid.socket.create_connection(("127.0.0.1", server.port), timeout=servers.TIMEOUT_S) as connection:
                connection.sendall(text.encode())
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            return int(answer.split()[1])

        of_a, of_b = (servers.bearer(server.token(["read"], [each]))["Authorization"] for each in "ab")
        for want, lines in ((200, ["Authorization: " + of_a]),
                            (400, ["Authorization: " + of_a, "Authorization: " + of_b]),
                            (400, ["Authorization: " + of_a, "authorization: " + of_a]),
                            (400, ["Authorization: " + of_a, "X-Scope-OrgID: a", "x-scope-orgid: b"]),
                            (401, ["Authorization: " + of_a + "," + of_b]),
                            (403, ["Authorization: " + of_a, "X-Scope-OrgID: b"]),
                            (403, ["Authorization: " + of_a, "X-Scope-OrgID: a|b"]),
                            (403, ["Authorization: " + of_a, "X-Scope-OrgID: b|a"]),
                            (401, ["Authorization: " + of_a, "X-Scope-OrgID: |"]),
                            (200, ["Authorization: " + of_a, "X-Scope-OrgID: a|"]),
                            # A gateway that turns '_' into '-' is not in front of us.
                            (200, ["Authorization: " + of_a, "X_Scope_OrgID: b"]),
                            (401, ["Authorization_: " + of_a]),
                            (401, ["Proxy-Authorization: " + of_a])):
            got = raw(*lines)
            check(got == want, "%s: %d, not %d", lines, got, want)
        b = servers.Caller(server.port, of_b.split()[1])
        check("mark" not in b.send("GET", names, headers={"X_Scope_OrgID": "a"})[1], "by an underscore")


def case_a_damaged_registry_is_seen_and_the_last_good_one_used():
    with servers.Governed() as server:
        server.begin()
        a = server.caller(["push"])
        path = os.path.join(server.data, "bucket", "objects", "access", "registry")
        with open(path, "rb") as file:
            good = file.read()
        for bad in (b"", good[:-1], b"x" + good[1:]):
            replace(path, bad)
            wait_for(lambda: "access_registry_damaged" in servers.Caller(server.port, None).send("GET", "/ready")[1], "the condition")
            check(servers.push(a, "demo.cpu")[0] == 200, "a push")
            status, said = server.govern.send("POST", "/api/tenants", {"id": "c"})
            check(status == 500, "a change of a damaged registry: %d %s", status, said)
            replace(path, good)
            wait_for(lambda: "access_registry_damaged" not in servers.Caller(server.port, None).send("GET", "/ready")[1], "its end")


def replace(path, content):
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.replace(path + ".new", path)


def case_a_lost_registry_is_replaced_by_nothing_that_a_server_does():
    """Neither by the first key of a tenant nor by an admin's change: all tokens and keys that it lacks would be lost."""
    with servers.key_file() as key, servers.Governed("--encryption.mode", "per_tenant", *key) as server:
        server.begin()
        path = os.path.join(server.data, "bucket", "objects", "access", "registry")
        a, b = server.caller(["push", "read"]), server.caller(["push", "read"], ["b"])

        def is_damaged():
            return "access_registry_damaged" in a.send("GET", "/ready")[1]

        def content():
            with open(path, "rb") as file:
                return file.read()

        check(servers.push(a, "demo.cpu")[0] == 200 and server.operate("POST", "/ingester/flush")[0] == 200, "the first tenant")
        older = content()
        server.govern.must("POST", "/api/tenants", {"id": "c"})
        good = content()
        check(servers.push(b, "demo.cpu")[0] == 200, "the second tenant, which gets its key now")
        for lost in (True, False):
            if lost:
                os.remove(path)
            else:
                replace(path, older)
            wait_for(is_damaged, "the condition")
            server.operate("POST", "/ingester/flush")
            wait_for(lambda: "head_without_keys" in a.send("GET", "/ready")[1], "profiles that wait for a key")
            for caller in (a, b):
                check(servers.push(caller, "demo.cpu")[0] == 200, "a push")
            status, said = server.govern.send("POST", "/api/tenants", {"id": "d"})
            check(status == 500 and "access/registry" in said, "a change: %d %s", status, said)
            check(not os.path.exists(path) if lost else content() == older, "it was written")
        replace(path, good)
        wait_for(lambda: not is_damaged(), "end of the condition")
        wait_for(lambda: server.operate("POST", "/ingester/flush")[0] == 200, "commit")
        code, said, _ = servers.command("encryption", "list", "--data", server.data, *key)
        check(code == 0 and [line.split()[:2] for line in said.splitlines()] == [["a", "1"], ["b", "1"]], "%d %s", code, said)


def wait_for(condition, what):
    deadline = time.monotonic() + servers.TIMEOUT_S
    while not condition():
        check(time.monotonic() < deadline, "no %s", what)
        time.sleep(0.05)


def case_secrets_are_nowhere():
    with servers.Governed("--log_level", "debug") as server:
        server.begin()
        used, unused = [server.token(["push", "read"]) for _ in range(2)], server.token(["read"])
        rotated = server.govern.must("POST", "/api/tokens/%s:rotate" % unused[4:12])
        day_ms = 24 * 3600 * 1000
        check(abs(rotated["oldSecretUntilMs"] - time.time() * 1000 - day_ms) < day_ms / 24, "%s", rotated)
        rotated = rotated["token"]
        for token in used:
            caller = servers.Caller(server.port, token)
            check(servers.push(caller, "demo.cpu")[0] == 200, "push")
            caller.send("GET", "/api/labels?from=now-1h&until=now")
            caller.send("GET", "/api/tokens")
            servers.Caller(server.port, token[:-1] + "_").send("GET", "/api/labels")  # mistyped
        texts = [server.admin, unused, rotated, *used]
        pages = {path: server.operate("GET", path)[1].decode() for path in ("/metrics", "/config", "/routes", "/compactor/status")}
        pages["/api/tokens"] = json.dumps(server.govern.must("GET", "/api/tokens"))
        pages["the log"] = server.log()
        for name, page in pages.items():
            for text in texts:
                check(text[13:40] not in page, "a secret is in %s", name)
            check("fgt_" not in page, "a part of a token is in %s", name)
        check(server.admin[4:12] in pages["/api/tokens"], "the ids are not there either")
        server.terminate()
        for folder, _, names in os.walk(server.data):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    content = file.read()
                for text in texts:
                    check(text[13:40].encode() not in content, "a secret is in %s", name)
        core_has_no_secret_that_was_not_sent(server, used[0], [server.admin, unused, rotated, used[1]])


def core_has_no_secret_that_was_not_sent(server, sent, others):
    """After a restart the process has seen one token; of the others it knows hashes. Its memory is what a core would have."""
    server.start().wait_ready()
    check(servers.Caller(server.port, sent).send("GET", "/api/labels?from=now-1h&until=now")[0] == 200, "it knows the token")
    try:
        memory = open("/proc/%d/mem" % server.process.pid, "rb", buffering=0)
    except PermissionError as why:
        print("     its memory cannot be read: %s" % why)
        return
    found, n_bytes = set(), 0
    with memory:
        for begin, end in resident(server.process.pid):
            memory.seek(begin)
            try:
                piece = memory.read(end - begin)
            except OSError:  # of the kernel
                continue
            n_bytes += len(piece)
            found |= {text for text in [sent, *others] if text[13:40].encode() in piece}
            found |= {"id"} if others[0][4:12].encode() in piece else set()
    check("id" in found and n_bytes > 1 << 20, "this is not its memory: %s, %d bytes", found, n_bytes)
    for text in others:
        check(text not in found, "a secret is in memory")


MAPPING_MAX_BYTES = 1 << 30  # larger ones are the shadow memory of the sanitizers, and mostly empty


def resident(pid):
    """The writable mappings of a process that have memory."""
    with open("/proc/%d/smaps" % pid, encoding="ascii", errors="replace") as file:
        maps = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw.*?^Rss: +(\d+) kB", file.read(), re.MULTILINE | re.DOTALL)
    for begin, end, rss in maps:
        begin, end = int(begin, 16), int(end, 16)
        if int(rss) > 0 and end - begin <= MAPPING_MAX_BYTES:
            yield begin, end


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            tally.run(name[5:], case)
    tally.finish()


if __name__ == "__main__":
    main()
