#!/usr/bin/env python3
"""Nobody sees what belongs to others: tenants, and parts of a tenant, through every route that reads.

    isolation_test.py [-k REGEX]
"""

import base64
import json
import os
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
import pprof  # noqa: E402
import routes  # noqa: E402
import servers  # noqa: E402
from flamegrid import check  # noqa: E402

HOUR_S = 3600
ID_CHARS = 26  # of a file; its name follows, and may be left out
SPAN = "00000000000000ab"


def mark(text):
    """A word that is in names of services, functions and labels of one side, and nowhere else."""
    return "mark" + text * 3


def send(caller, text, labels="", headers=None):
    return servers.push(caller, mark(text) + ".cpu", ("main_%s;work_%s 30\n" % (mark(text), mark(text))).encode(),
                      "{owner=%s%s}" % (mark(text), labels), headers)


def times():
    now = int(time.time())
    return {"start": (now - HOUR_S) * 1000, "end": (now + 60) * 1000}


def connect(method, **fields):
    """A request of a service of Connect, with a time range."""
    return "POST", method, {**times(), **fields}


def plain(path, **parameters):
    return "GET", path + "?" + urllib.parse.urlencode({"from": "now-1h", "until": "now", **parameters}), None


def everything(ids):
    """{path of the table in routes.py: requests}: what a curious caller asks, of all profiles and by the other's names."""
    query = servers.TYPE + "{}"
    of = "/querier.v1.QuerierService/"
    any_of = {"profileTypeID": servers.TYPE, "labelSelector": "{}"}
    asked = {
        of + "ProfileTypes": [connect(of + "ProfileTypes")],
        of + "LabelNames": [connect(of + "LabelNames"), connect(of + "LabelNames", matchers=["{}"])],
        of + "LabelValues": [connect(of + "LabelValues", name=name) for name in ("service_name", "owner", "team")],
        of + "Series": [connect(of + "Series", matchers=["{}"], labelNames=[]),
                        connect(of + "Series", matchers=["{}"], labelNames=["service_name", "owner"])],
        of + "SelectMergeStacktraces": [connect(of + "SelectMergeStacktraces", **any_of)],
        of + "SelectMergeSpanProfile": [connect(of + "SelectMergeSpanProfile", spanSelector=[SPAN], **any_of)],
        of + "SelectMergeProfile": [connect(of + "SelectMergeProfile", **any_of)],
        of + "SelectSeries": [connect(of + "SelectSeries", groupBy=["service_name", "owner"], step=60, **any_of)],
        of + "SelectHeatmap": [connect(of + "SelectHeatmap", groupBy=["service_name", "owner"], step=60, **any_of)],
        of + "Diff": [("POST", of + "Diff", {"left": {**times(), **any_of}, "right": {**times(), **any_of}})],
        of + "GetProfileStats": [connect(of + "GetProfileStats")],
        of + "AnalyzeQuery": [connect(of + "AnalyzeQuery", query=query)],
        "/pyroscope/render": [plain("/pyroscope/render", query=query, groupBy="service_name"),
                              plain("/pyroscope/render", query=query, format="dot")],
        "/pyroscope/render-diff": [plain("/pyroscope/render-diff", leftQuery=query, leftFrom="now-1h", leftUntil="now", rightQuery=query,
                                         rightFrom="now-1h", rightUntil="now")],
        "/pyroscope/label-values": [plain("/pyroscope/label-values", label="__name__")],
        "/api/functions": [plain("/api/functions", query=query), plain("/api/functions", query=query, counts="true")],
        "/api/sandwich": [plain("/api/sandwich", query=query, regex=".*mark.*")],
        "/api/labels": [plain("/api/labels"), plain("/api/labels", query="{}")],
        "/api/labels/*": [plain("/api/labels/" + name) for name in ("service_name", "owner", "team")],
        "/api/profiles": [plain("/api/profiles", query=query)],
        "/api/profiles/*": [plain("/api/profiles/" + each) for each in ids["profiles"]],
        "/api/compare": [plain("/api/compare", query=query, baseFrom="now-1h", baseUntil="now"),
                         plain("/api/compare", leftQuery=query, rightQuery=query)],
        "/api/usage": [("GET", "/api/usage?by=service", None)],
        "/api/status": [("GET", "/api/status", None)],
        "/api/metrics": [("GET", "/api/metrics", None)],
        "/api/adhoc": [("GET", "/api/adhoc", None)],
        "/api/adhoc/*": [("GET", "/api/adhoc/" + each, None) for each in ids["files"]]
                        + [("GET", "/api/adhoc/%s/raw" % each, None) for each in ids["files"]],
        "/settings.v1.SettingsService/Get": [("POST", "/settings.v1.SettingsService/Get", {})],
        "/settings.v1.RecordingRulesService/ListRecordingRules": [("POST", "/settings.v1.RecordingRulesService/ListRecordingRules", {})],
        "/settings.v1.RecordingRulesService/GetRecordingRule":
            [("POST", "/settings.v1.RecordingRulesService/GetRecordingRule", {"id": each}) for each in ids["rules"]],
        "/adhocprofiles.v1.AdHocProfileService/List": [("POST", "/adhocprofiles.v1.AdHocProfileService/List", {})],
        "/adhocprofiles.v1.AdHocProfileService/Get":
            [("POST", "/adhocprofiles.v1.AdHocProfileService/Get", {"id": each}) for each in ids["files"]],
        "/adhocprofiles.v1.AdHocProfileService/Diff":
            [("POST", "/adhocprofiles.v1.AdHocProfileService/Diff", {"leftId": a, "rightId": b})
             for a in ids["files"] for b in ids["files"]],
    }
    return asked


# Their answers have nothing of anybody.
SAY_NOTHING = {"/capabilities.v1.FeatureFlagsService/GetFeatureFlags", "/version.v1.Version/Version"}


def every_reading_route_is_asked(asked):
    reading = {path for path, scopes in ((key[0], value) for key, value in routes.rows(routes.CLIENTS).items())
               if "read" in scopes and not path.startswith("/vcs.v1.")}
    missing = reading - set(asked) - SAY_NOTHING
    check(not missing, "what do these show of others? %s", missing)


def fill(caller, text):
    """A profile, a file, a setting and a rule; returns the ids by which they are found."""
    status, said = send(caller, text)
    check(status == 200, "push: %d %s", status, said)
    file = caller.must("POST", "/api/adhoc?name=%s.folded" % mark(text), ("main_%s 3\n" % mark(text)).encode())
    caller.must("POST", "/settings.v1.SettingsService/Set", {"setting": {"name": "n" + mark(text), "value": mark(text)}})
    rule = caller.must("POST", "/settings.v1.RecordingRulesService/UpsertRecordingRule",
                       {"metricName": "profiles_recorded_" + mark(text), "groupBy": ["service_name"],
                        "matchers": ['{__profile_type__="%s", service_name="%s"}' % (servers.TYPE, mark(text))]})
    listed = caller.must(*plain("/api/profiles", query=servers.TYPE + "{}"))
    return {"files": [file["id"][:ID_CHARS]], "rules": [rule["rule"]["id"]], "profiles": [each["id"] for each in listed["profiles"]]}


def joined(first, second):
    return {key: first[key] + second[key] for key in first}


ALL = ["push", "read", "share", "rules"]


def shown(caller, asked, text, headers=None):
    """The routes whose answers have the mark of a side."""
    found = set()
    for path, requests in asked.items():
        for method, target, body in requests:
            said = caller.send(method, target, body, headers)[1]
            # What one asks for comes back in errors, so it does not count.
            if mark(text) in said.replace(target, ""):
                found.add(path)
    return found


def case_no_route_shows_another_tenant():
    with servers.Governed() as server:
        server.begin()
        a, b = (server.caller(ALL, [each]) for each in "ab")
        of_a, of_b = fill(a, "a"), fill(b, "b")
        asked = everything(joined(of_a, of_b))
        every_reading_route_is_asked(asked)
        own = shown(a, asked, "a")
        check(len(own) >= 20, "one's own data is in too few answers: %s", sorted(own))
        check(own == shown(b, asked, "b"), "%s", own)
        for headers in (None, {"X-Scope-OrgID": "a"}, {"X-Scope-OrgID": "a|b"}, {"X-Scope-OrgID": "b|a"}, {"X-Scope-OrgID": "b"},
                        {"X_Scope_OrgID": "a"}):
            found = shown(b, asked, "a", headers)
            check(not found, "with %s these show another tenant: %s", headers, found)
        # Whoever may see both does.
        both_of_them = server.caller(["read"], ["a", "b"])
        found = shown(both_of_them, asked, "a", {"X-Scope-OrgID": "a|b"}) & shown(both_of_them, asked, "b", {"X-Scope-OrgID": "a|b"})
        check(len(found) >= 10, "%s", found)


def case_no_write_reaches_another_tenant():
    with servers.Governed() as server:
        server.begin()
        a, b = (server.caller(ALL, [each]) for each in "ab")
        of_a = fill(a, "a")
        before = {path: a.send("POST", path, {})[1] for path in (
            "/settings.v1.SettingsService/Get", "/settings.v1.RecordingRulesService/ListRecordingRules")}
        for headers in ({}, {"X-Scope-OrgID": "a"}, {"X-Scope-OrgID": "a|b"}):
            send(b, "b", headers=headers)
            b.send("DELETE", "/api/adhoc/" + of_a["files"][0], headers=headers)
            b.send("POST", "/settings.v1.RecordingRulesService/DeleteRecordingRule", {"id": of_a["rules"][0]}, headers)
            b.send("POST", "/settings.v1.SettingsService/Delete", {"name": "n" + mark("a")}, headers)
            b.send("POST", "/settings.v1.SettingsService/Set", {"setting": {"name": "other", "value": mark("b")}}, headers)
        after = {path: a.send("POST", path, {})[1] for path in before}
        check(before == after, "%s %s", before, after)
        check(a.send("GET", "/api/adhoc/" + of_a["files"][0])[0] == 200, "the file is gone")
        check(not shown(a, everything(of_a), "b"), "something of the other is there")


def with_tenant(target, tenant):
    return "%s%stenant=%s" % (target, "&" if "?" in target else "?", tenant)


def ways_to_write(text):
    """Requests that store or change something, by the routes of routes.py."""
    now_ms = int(time.time()) * 1000
    folded = ("main_%s 3\n" % mark(text)).encode()
    return [("/ingest?name=%s.cpu&from=now-20s&until=now-10s" % mark(text), folded),
            ("/pyroscope/ingest?name=%s.cpu&from=now-20s&until=now-10s" % mark(text), folded),
            ("/push.v1.PusherService/Push", {"series": []}),
            ("/v1development/profiles", otlp(text)),
            ("/api/adhoc?name=%s.folded" % mark(text), folded),
            ("/settings.v1.SettingsService/Set", {"setting": {"name": "n" + mark(text), "value": "v", "modifiedAt": str(now_ms)}})]


def case_a_tenant_that_a_request_names_is_used_or_refused():
    """Wherever it is named: in the header, which is the metadata of gRPC, in the query string, as user of Basic."""
    with servers.Governed() as server:
        server.begin()
        a, b, both = (server.caller(ALL, tenants) for tenants in ("a", "b", "ab"))
        of_a, of_b = fill(a, "a"), fill(b, "b")
        asked = everything(joined(of_a, of_b))
        for path, requests in asked.items():
            for method, target, body in requests:
                # One that does not exist is refused in the same words, so nobody learns which do.
                for other in ("a", "nobody", "a%7Cb"):
                    status, said = b.send(method, with_tenant(target, other), body)
                    check(status == 403 and "no access to tenant" in said, "%s of %s: %d %s", path, other, status, said)
                for headers, tenant in (({"X-Scope-OrgID": "b"}, "a"), ({"X-Scope-OrgID": "a"}, "b"), ({"X-Scope-OrgID": "a|b"}, "a")):
                    status, said = both.send(method, with_tenant(target, tenant), body, headers)
                    check(status == 403 and "the parameter tenant is" in said, "%s with %s: %d %s", path, headers, status, said)
                check(b.send(method, with_tenant(target, "a") + "&tenant=b", body)[0] == 403, "%s with two", path)
                check(b.send(method, with_tenant(target, "b"), body)[0] == b.send(method, target, body)[0], "%s with its own", path)
        by_name = {path: [(method, with_tenant(target, "a"), body) for method, target, body in requests]
                   for path, requests in asked.items()}
        check(shown(both, by_name, "a") == shown(a, asked, "a") and not shown(both, by_name, "b"), "a caller of both who names one")
        for target, body in ways_to_write("a"):
            for headers in ({}, {"X-Scope-OrgID": "b"}):
                status, said = b.send("POST", with_tenant(target, "a"), body, headers)
                check(status == 403, "%s with %s: %d %s", target, headers, status, said)
            status, said = b.send("POST", target, body, {"X-Scope-OrgID": "a"})
            check(status == 403, "%s: %d %s", target, status, said)
        check(not shown(b, asked, "a"), "something was stored at the sender's own tenant")


def case_a_user_name_of_basic_chooses_among_the_tenants_of_the_token():
    with servers.Governed() as server:
        server.begin()
        nobody = servers.Caller(server.port, None)
        token, of_both = server.token(ALL, ["b"]), server.token(ALL, "ab")
        names = ("", "token", "b", "123456", "agent@example.com", "a", "nobody")
        # No name leads out of a token of one tenant, or says whether another tenant exists.
        for i, user in enumerate(names):
            status, said = send(nobody, "b", ",n=n%d" % i, servers.basic(user, token))
            check(status == 200, "%s: %d %s", user, status, said)
        found = nobody.must(*plain("/api/labels/n"), servers.basic("a", token))["values"]
        check(len(found) == len(names), "%s", found)
        check(mark("b") not in nobody.send(*plain("/api/labels/owner"), servers.basic("a", of_both))[1], "it is in the other")
        check(mark("b") in nobody.send(*plain("/api/labels/owner"), servers.basic("b", of_both))[1], "it is not in its own")
        status, said = nobody.send(*plain("/api/labels/owner"), servers.basic("nobody", of_both))
        check(status == 401 and "user name" in said, "%d %s", status, said)


def case_governors_name_only_what_they_govern():
    with servers.Governed() as server:
        server.begin()
        governor = server.caller(["tenant-admin"], ["b"])
        for target in ("/api/tokens?tenant=", "/api/audit?tenant="):
            for other in ("a", "nobody", "*", "a%7Cb"):
                status, said = governor.send("GET", target + other)
                check(status == 403 and "no access to tenant" in said, "%s%s: %d %s", target, other, status, said)
            check(governor.send("GET", target + "b")[0] == 200, "%s: its own", target)
            check(governor.send("GET", target + "b&tenant=a")[0] == 400, "%s: two", target)
            check(server.govern.send("GET", target + "nobody")[0] == 200, "%s: an admin", target)


def case_a_client_behind_a_gateway_does_not_choose_by_a_parameter():
    with flamegrid.Server("--multitenancy_enabled", "true", "--access.mode", "header", "--access.trusted_cidrs", "127.0.0.0/8") as server:
        server.start().wait_ready()
        caller = servers.Caller(server.port, None)
        check(caller.send(*plain("/api/labels", tenant="a"))[0] == 401, "without the header")
        check(caller.send(*plain("/api/labels", tenant="a"), {"X-Scope-OrgID": "b"})[0] == 403, "another than the header")
        check(caller.send(*plain("/api/labels", tenant="b"), {"X-Scope-OrgID": "b"})[0] == 200, "the same")


def case_a_server_with_one_tenant_has_no_other():
    with flamegrid.Server() as server:
        server.start().wait_ready()
        caller = servers.Caller(server.port, None)
        check(caller.send(*plain("/api/labels"), {"X-Scope-OrgID": "a"})[0] == 200, "Pyroscope ignores the header, too")
        status, said = caller.send(*plain("/api/labels", tenant="a"))
        check(status == 403 and "the parameter tenant is" in said and "anonymous" in said, "%d %s", status, said)
        check(caller.send(*plain("/api/labels", tenant="anonymous"))[0] == 200, "by its name")
        status, said = server.operate("POST", "/compactor/delete?selector=%7B%7D&tenant=a")
        check(status == 403, "a deletion: %d %s", status, said)


def case_matchers_of_a_token_hide_the_rest_of_the_tenant():
    with servers.Governed() as server:
        server.begin()
        full = server.caller(ALL)
        for text in "xy":
            status, said = send(full, text, ",team=" + mark(text))
            check(status == 200, "push: %d %s", status, said)
        file = full.must("POST", "/api/adhoc?name=%s.folded" % mark("y"), ("main_%s 3\n" % mark("y")).encode())
        listed = full.must(*plain("/api/profiles", query=servers.TYPE + "{}"))["profiles"]
        asked = everything({"files": [file["id"][:ID_CHARS]], "rules": ["0000000000"], "profiles": [each["id"] for each in listed]})
        matchers = '{team=~"%s|nobody"}' % mark("x")
        part = server.caller(["push", "read"], matchers=matchers)
        check(part.must("GET", "/api/whoami")["matchers"] == matchers, "whoami does not say so")
        code, text, said = servers.command("whoami", FLAMEGRID_URL="http://127.0.0.1:%d" % server.port, FLAMEGRID_TOKEN=part.token)
        check(code == 0 and '\nmatchers %s\n' % matchers in text, "%d %s%s", code, text, said)
        check(len(shown(full, asked, "y")) >= 15, "the whole tenant shows too little")
        found = shown(part, asked, "y")
        check(not found, "these show what the token does not match: %s", found)
        found = shown(part, asked, "x")
        check(len(found) >= 12, "these show what it matches: %s", found)
        # A selector of its own does not lead out, nor does asking for the opposite.
        for selector in ('{team="%s"}' % mark("y"), '{team!="%s"}' % mark("x"), '{team=~".+"}', '{service_name="%s"}' % mark("y")):
            said = part.send(*connect("/querier.v1.QuerierService/SelectMergeStacktraces", profileTypeID=servers.TYPE,
                                      labelSelector=selector))[1]
            check("work_" + mark("y") not in said, "%s: %s", selector, said)
        for path in ("/api/status", "/api/metrics", "/api/adhoc"):
            status, said = part.send("GET", path)
            check(status == 403 and "this answer is about all" in said, "%s: %d %s", path, status, said)
        status, said = part.send(*connect("/querier.v1.QuerierService/LabelValues", start=1, end=2))
        check(status == 400, "values of no label: %d %s", status, said)
        # The sanitizer finds what a request has left: the regular expression of the token is compiled for each.
        check(server.terminate() == 0, "%s", server.log_tail())


def case_matchers_of_a_token_are_demanded_of_pushes():
    with servers.Governed() as server:
        server.begin()
        part = server.caller(["push"], matchers='{team="%s"}' % mark("x"))
        status, said = send(part, "x", ",team=" + mark("x"))
        check(status == 200, "what it matches: %d %s", status, said)
        for labels in ("", ",team=" + mark("y")):
            status, said = send(part, "y", labels)
            check(status == 403 and "may send profiles with" in said, "%s: %d %s", labels, status, said)
        reader = server.caller(["read"])
        check(mark("y") not in reader.send(*plain("/api/labels/service_name"))[1], "it was stored")


def case_a_label_says_which_tenant_a_series_goes_to():
    with servers.Governed(tenants=("team-x", "team-y", "rest")) as server:
        server.begin()
        node = server.caller(["push"], ["team-x", "rest"], tenantLabel={"name": "team", "prefix": "team-", "otherwise": "rest"})
        strict = server.caller(["push"], ["team-x"], tenantLabel={"name": "team", "prefix": "team-"})
        for caller, team, status in ((node, "x", 200), (node, "y", 200), (node, "", 200), (strict, "x", 200), (strict, "y", 403)):
            got, said = send(caller, team or "z", ",team=%s" % team if team else "")
            check(got == status, "%s: %d %s", team, got, said)
        for tenant, has, lacks in (("team-x", "x", "yz"), ("rest", "yz", "x"), ("team-y", "", "xyz")):
            said = server.caller(["read"], [tenant]).send(*plain("/api/labels/service_name"))[1]
            check(all(mark(text) in said for text in has) and not any(mark(text) in said for text in lacks), "%s: %s", tenant, said)


def otlp(*namespaces, stack="main"):
    """A request of a node agent: a profile of each namespace, whose service has its mark."""
    def attribute(key, value):
        return {"key": key, "value": {"stringValue": value}}

    return {"resourceProfiles": [
                {"resource": {"attributes": [attribute("service.name", mark(each)), attribute("k8s.namespace.name", each)]},
                 "scopeProfiles": [{"profiles": [{
                     "sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "samples": [{"stackIndex": 1, "values": [3]}],
                     "timeUnixNano": str(int(time.time() - 20) * 10**9), "durationNano": str(10**10),
                     "periodType": {"typeStrindex": 3, "unitStrindex": 4}, "period": 10_000_000}]}]}
                for each in namespaces],
            "dictionary": {"stringTable": ["", "samples", "count", "cpu", "nanoseconds", stack],
                           "functionTable": [{}, {"nameStrindex": 5}], "locationTable": [{}, {"lines": [{"functionIndex": 1}]}],
                           "stackTable": [{}, {"locationIndices": [1]}]}}


def rejects(said, n):
    """Whether an answer of OTLP, which is protobuf, says so in rejected_profiles, before the message."""
    return "\x08%c\x12" % n in said


def case_what_a_node_may_not_send_does_not_keep_the_rest_from_its_tenant():
    label = {"name": "k8s.namespace.name", "tenants": [{"value": "x", "tenant": "team-x"}, {"value": "y", "tenant": "team-y"}]}
    with servers.Governed(tenants=("team-x", "team-y", "rest")) as server:
        server.begin()
        strict = server.caller(["push"], ["team-x", "team-y"], tenantLabel=label)
        node = server.caller(["push"], ["team-x", "team-y", "rest"], tenantLabel={**label, "otherwise": "rest"})
        readers = {tenant: server.caller(["read"], [tenant]) for tenant in server.tenants}

        def stored(tenant):
            said = readers[tenant].send(*plain("/api/labels/service_name"))[1]
            return {text for text in "xyz" if mark(text) in said}

        # Kubernetes' own namespaces are nobody's, wherever they are in the request.
        for order in ("zx", "xz", "zxz"):
            status, said = strict.send("POST", "/v1development/profiles", otlp(*order))
            check(status == 200 and rejects(said, order.count("z")) and "no tenant for" in said, "%s: %d %r", order, status, said)
        check(stored("team-x") == {"x"}, "%s", stored("team-x"))
        status, said = strict.send("POST", "/v1development/profiles", otlp("z", "z"))
        check(status == 403, "nothing of it is anybody's: %d %s", status, said)
        # A tenant that is suspended shuts out itself alone, also the one that the rest goes to.
        for suspended in ("rest", "team-x"):
            server.govern.must("POST", "/api/tenants/%s:suspend" % suspended)
            server.settled()
            for order in ("zxy", "yxz"):
                status, said = node.send("POST", "/v1development/profiles", otlp(*order))
                check(status == 200 and rejects(said, 1), "%s: %d %r", order, status, said)
            server.govern.must("POST", "/api/tenants/%s:resume" % suspended)
            server.settled()
        check(list(map(stored, server.tenants)) == [{"x"}, {"y"}, {"z"}], "%s", list(map(stored, server.tenants)))


MIB = 1024 * 1024
CAP_MIB = 0.2
PUSHED_BYTES = 40_000  # of each request
WAIT_S = 60


def wait_for(condition, what):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        check(time.monotonic() < deadline, "no %s", what)
        time.sleep(0.05)


class Node:
    """A node agent of the namespaces x and y, whose other profiles go to the tenant rest; all tenants have the limits that are told."""

    def __init__(self, server, label="k8s.namespace.name", **limits):
        label = {"name": label, "tenants": [{"value": "x", "tenant": "team-x"}, {"value": "y", "tenant": "team-y"}]}
        self.server = server
        self.caller = server.caller(["push"], ["team-x", "team-y", "rest"], tenantLabel={**label, "otherwise": "rest"})
        self.readers = {tenant: server.caller(["read"], [tenant]) for tenant in server.tenants}
        self.sent = 0
        for tenant, values in limits.items():
            self.limit(tenant.replace("_", "-"), **values)

    def limit(self, tenant, **values):
        self.server.govern.must("PUT", "/api/tenants/%s/limits" % tenant, values)
        self.server.settled()

    def send(self, *namespaces):
        self.sent += 1
        return self.caller.send("POST", "/v1development/profiles", otlp(*namespaces, stack="f%d_" % self.sent + "f" * PUSHED_BYTES))

    def push(self, series, headers=None):
        """By push.v1."""
        return self.caller.send("POST", "/push.v1.PusherService/Push", {"series": series}, headers)

    def used_mib(self, tenant):
        return self.server.govern.must("GET", "/api/tenants/%s/limits" % tenant)["ingestion_limit"].get("used", 0)

    def billed(self, tenant):
        """Profiles, and their raw bytes: of documents, and of what is in segments and counts for no day yet."""
        status, said = self.server.operate("POST", "/ingester/flush")
        check(status == 200, "flush: %d %s", status, said)
        usage = self.readers[tenant].must(*plain("/api/usage"))
        parts = usage["days"] + usage["waiting"]
        return sum(part["profiles"] for part in parts), sum(part["raw_bytes"] for part in parts)


def case_each_namespace_of_a_node_pays_for_itself():
    month = {"period_type": "month", "period_limit_mb": CAP_MIB}
    cap, none = {"ingestion_limit": json.dumps(month)}, {"ingestion_limit": json.dumps({**month, "period_limit_mb": 1e-6})}
    with servers.Governed(tenants=("team-x", "team-y", "rest")) as server:
        server.begin()
        # The tenant of the request, rest, pays nothing for the others; team-y has a limit that it does not reach.
        node = Node(server, rest=none, team_x=cap, team_y={"ingestion_limit": json.dumps({**month, "period_limit_mb": 1000})})
        check(node.send("z")[0] == 200 and node.send("z")[0] == 429, "the limit of the rest")
        sent = []
        while not sent or not rejects(sent[-1], 1):
            status, said = node.send("x", "y")
            sent.append(said)
            check(status == 200, "%d %r", status, said)
            check(len(sent) < 100, "team-x has no limit")
        check("limit of 204.8 KiB/month" in said and "team-x" in said, "%r", said)
        for namespaces, status in (("xy", 200), ("yx", 200), ("zyx", 200), ("y", 200), ("x", 429), ("xz", 429)):
            got, said = node.send(*namespaces)
            check(got == status, "%s: %d %r", namespaces, got, said)
        refused = 'flamegrid_distributor_uploads_refused_total{reason="busy"} 7\n'
        check(refused in server.metrics(), "uploads with refused parts are not counted")
        bills = {tenant: node.billed(tenant) for tenant in server.tenants}
        check([bills[tenant][0] for tenant in server.tenants] == [len(sent) - 1, len(sent) + 4, 1], "%s of %d", bills, len(sent))
        for tenant, (_, raw_bytes) in bills.items():
            wait_for(lambda: abs(node.used_mib(tenant) - raw_bytes / MIB) < 0.001, "use of %s as billed: %s MiB of %s" % (
                tenant, node.used_mib(tenant), raw_bytes / MIB))


def case_a_rate_of_one_namespace_leaves_the_others_theirs():
    with servers.Governed(tenants=("team-x", "team-y", "rest")) as server:
        server.begin()
        # A burst has room for one profile, and nothing more comes in before the end of the test.
        slow = {"ingestion_rate_mb": 1e-6, "ingestion_burst_size_mb": 1.5 * PUSHED_BYTES / 2 / MIB}
        node = Node(server, rest=slow, team_x=slow)
        for number, rejected in enumerate((0, 1, 1)):
            status, said = node.send("x", "y")
            check(status == 200 and rejects(said, 1) == bool(rejected), "%d: %d %r", number, status, said)
        check("ingestion_rate_mb" in said and "team-x" in said, "%r", said)
        check(node.billed("team-x")[0] == 1 and node.billed("team-y")[0] == 3, "%s %s", node.billed("team-x"), node.billed("team-y"))


def case_a_push_that_is_sent_again_for_one_namespace_counts_once_for_the_others():
    month = {"period_type": "month", "period_limit_mb": 1e-6}

    def series(namespace, function):
        profile = pprof.make({("main", function): (1, 10**7)}, time.time_ns() - 20 * 10**9)
        return {"labels": [{"name": "__name__", "value": "process_cpu"}, {"name": "service_name", "value": mark(namespace)},
                           {"name": "namespace", "value": namespace}],
                "samples": [{"rawProfile": base64.b64encode(profile).decode()}]}

    with servers.Governed(tenants=("team-x", "team-y", "rest")) as server:
        server.begin()
        node = Node(server, "namespace", team_x={"ingestion_limit": json.dumps(month)})
        check(node.push([series("x", "first")])[0] == 200, "the first")
        # With and without a key of the agent: two equal profiles are two, and get their ids by numbers.
        for key in ({}, {"Idempotency-Key": "once"}):
            twice = series("y", "again")
            pushed = [series("x", "again"), twice, twice]
            for _ in range(2):
                status, said = node.push(pushed, key)
                check(status == 429 and "team-x" in said, "%d %s", status, said)
            node.limit("team-x", ingestion_limit=None)
            wait_for(lambda: node.push(pushed, key)[0] == 200, "push without a limit")
            node.limit("team-x", ingestion_limit=json.dumps(month))
            wait_for(lambda: node.push([series("x", "end")])[0] == 429, "limit again")
        got = [node.billed(tenant)[0] for tenant in server.tenants]
        check(got[1:] == [4, 0] and got[0] >= 3, "%s", got)


def case_a_limit_of_one_namespace_lets_the_others_of_a_server_that_forwards_pass():
    month = {"period_type": "month", "period_limit_mb": 1e-6}  # a byte, and so one profile
    label = {"name": "namespace", "tenants": [{"value": "x", "tenant": "team-x"}], "otherwise": "rest"}
    with servers.Governed(tenants=("team-x", "team-y", "rest")) as server:
        server.begin()
        server.govern.must("PUT", "/api/tenants/team-x/limits", {"ingestion_limit": json.dumps(month)})
        path = os.path.join(server.folder, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write(server.token(["push", "forward"], server.tenants, tenantLabel=label))
        target = "[{name: central, url: 'http://127.0.0.1:%d', token_file: '%s'}]" % (server.port, path)
        with flamegrid.Server("--multitenancy_enabled", "true", "--forward.targets", target) as node:
            node.start().wait_ready()
            caller = servers.Caller(node.port, None)

            def push(tenant, namespace, number):
                status, said = servers.push(caller, mark(namespace), b"main;f%d 3\n" % number, "{namespace=%s}" % namespace, {"X-Scope-OrgID": tenant})
                check(status == 200, "%d %s", status, said)

            def waits(sent, pending):
                state = caller.must("GET", "/api/forward")["targets"][0]
                return (state["sentProfiles"], state["pendingProfiles"]) == (sent, pending)

            push("team-x", "x", 0)
            wait_for(lambda: waits(1, 0), "first profile")
            for number in range(1, 4):
                push("team-x", "x", number)
                push("team-y", "y", number)
            wait_for(lambda: waits(4, 3), "profiles of the other tenant")
            log = node.log_tail()
            check("beyond a limit of its own" in log and "waits for the target" not in log, "the target is blamed:\n%s", log)


def case_a_suspended_tenant_is_closed():
    with servers.Governed() as server:
        server.begin()
        a, b = (server.caller(ALL, [each]) for each in "ab")
        of_a = fill(a, "a")
        server.govern.must("POST", "/api/tenants/a:suspend")
        check(send(a, "a")[0] == 403 and send(b, "b")[0] == 200, "pushes")
        check(not shown(a, everything(of_a), "a"), "it still answers")
        status, said = server.caller(["read"], ["a", "b"]).send(*plain("/api/labels"), {"X-Scope-OrgID": "a|b"})
        check(status == 403 and "suspended" in said, "together with another: %d %s", status, said)
        server.govern.must("POST", "/api/tenants/a:resume")
        check(shown(a, everything(of_a), "a") and send(a, "a")[0] == 200, "it is not back")


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            tally.run(name[5:], case)
    tally.finish()


if __name__ == "__main__":
    main()
