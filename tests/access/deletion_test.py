#!/usr/bin/env python3
"""A tenant is deleted as a whole: what happens at once, what is left at the end, and that the others notice nothing.

    deletion_test.py [-k REGEX]
"""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
import servers  # noqa: E402
from flamegrid import check  # noqa: E402

QUICK = ("--compactor.interval", "1s", "--compactor.hour_delay", "0s", "--compactor.retire_after", "0s", "--compactor.grace", "1h",
         "--ingester.segments.grace", "0s", "--ingester.segments.evict_after", "0s", "--ingester.segments.poll", "1s",
         "--querier.manifest_age", "1s", "--audit.flush", "1s")
WAIT_S = 90
LATER_S = 2 * 3600  # compactor.grace is over then
OLD = "&from=now-3h&until=now-10785"
RULE = {"metricName": "profiles_a", "matchers": ['{__profile_type__="%s"}' % servers.TYPE], "groupBy": []}


def wait_for(what, holds):
    deadline = time.monotonic() + WAIT_S
    while not holds():
        check(time.monotonic() < deadline, "%s: not after %d s", what, WAIT_S)
        time.sleep(0.2)


def must(server, *words):
    """The output of a command on the bucket of the server."""
    code, out, said = servers.command(*words, "--data", server.data, *server.key)
    check(code == 0, "%s: %d %s%s", " ".join(words), code, out, said)
    return out


def names(server):
    return [line.split()[-1] for line in must(server, "bucket", "ls", "-r").splitlines()]


def govern(server, *words):
    """`flamegrid tenant WORDS`: (exit code, output and errors)."""
    code, out, said = servers.command("tenant", *words, "--url", "http://127.0.0.1:%d" % server.port, FLAMEGRID_TOKEN=server.admin)
    return code, out + said


def listed(server, tenant):
    """What the manifest of a tenant lists."""
    return json.loads(must(server, "bucket", "inspect", "tenants/%s/manifest" % tenant))


def push_old(caller, tenant, n, service=None):
    """n profiles of some hours ago, which are in blocks soon."""
    for i in range(n):
        begin_s = int(time.time()) - 3 * 3600 + 10 * i
        status, said = caller.send("POST", "/ingest?name=%s.cpu&from=%d&until=%d" % (service or "service-" + tenant, begin_s, begin_s + 10),
                                   b"main;work-of-%s 3\n" % tenant.encode())
        check(status == 200, "push: %d %s", status, said)


def total(caller, tenant):
    status, said = caller.send("GET", "/pyroscope/render?from=now-6h&until=now&query=process_cpu:cpu:nanoseconds:cpu:nanoseconds"
                               "%7B%7D", headers={"X-Scope-OrgID": tenant})
    check(status == 200, "render of %s: %d %s", tenant, status, said)
    return json.loads(said)["flamebearer"]["numTicks"]


def fill(server):
    """Profiles of both tenants in blocks and in heads; whatever else a tenant can have."""
    for tenant in "ab":
        caller = server.caller(["push", "read", "rules", "share"], [tenant])
        push_old(caller, tenant, 20)
        status, body = server.operate("POST", "/ingester/flush")
        check(status == 200, "flush: %d %s", status, body)
        caller.must("POST", "/settings.v1.SettingsService/Set", {"setting": {"name": "n", "value": "v", "modifiedAt": "1"}})
        caller.must("POST", "/settings.v1.RecordingRulesService/UpsertRecordingRule", RULE)
        caller.must("POST", "/api/adhoc?name=file.folded", b"main;work 3\n", {"Content-Type": "application/octet-stream"})
    wait_for("in blocks", lambda: all("tenants/%s/blocks/" % tenant in " ".join(names(server)) for tenant in "ab"))
    for tenant in "ab":
        push_old(server.caller(["push"], [tenant]), tenant, 5)


def is_deleted(server, tenant):
    return "deleted" in server.govern.must("GET", "/api/tenants/" + tenant)["state"]


def delete(server):
    """Deletes the tenant a; returns when only objects are left that queries might still read."""
    only_a, both = server.caller(["push"], ["a"]), server.caller(["read", "push"], ["a", "b"])
    before = total(both, "b")
    check(total(both, "a") == before, "the tenants have the same")
    code, said = govern(server, "delete", "a")
    check(code != 0 and "Repeat it with --yes" in said, "%d %s", code, said)
    code, said = govern(server, "delete", "c", "--yes")
    check(code != 0 and 'there is no tenant "c"' in said, "%d %s", code, said)
    status, said = server.caller(["tenant-admin"], ["a"]).send("DELETE", "/api/tenants/a")
    check(status == 403, "by a tenant-admin: %d %s", status, said)
    code, said = govern(server, "delete", "a", "--yes")
    check(code == 0 and "refused from now on" in said, "%d %s", code, said)
    check(servers.push(only_a, "late.cpu")[0] == 401, "a token that is for this tenant alone")
    for method, target in (("GET", "/api/labels/service_name"), ("POST", "/ingest?name=late.cpu&from=now-20s&until=now-10s")):
        status, said = both.send(method, target, b"main 1\n" if method == "POST" else None, {"X-Scope-OrgID": "a"})
        check(status == 403 and "is being deleted" in said, "%s %s: %d %s", method, target, status, said)
    for verb in ("suspend", "resume"):
        status, said = server.govern.send("POST", "/api/tenants/a:" + verb)
        check(status == 400 and "is being deleted" in said, "%s: %d %s", verb, status, said)
    status, said = server.govern.send("POST", "/api/tenants", {"id": "a"})
    check(status == 409, "created again too early: %d %s", status, said)
    check(total(both, "b") == before, "the other tenant has lost something")
    # The ingester commits what it has, and then says that nothing is left.
    wait_for("the end of the deletion", lambda: server.operate("POST", "/ingester/flush")[0] == 200 and
             [one["selector"] for one in listed(server, "a")["ended"]] == ["{}"])
    check(listed(server, "a")["blocks"] == [], "blocks that are listed")
    return before


def end(server):
    """Lets compactor.grace pass."""
    check(server.terminate() == 0, "%s", server.log_tail())
    server.environment = {**flamegrid.preload("shifted_clock"), "SHIFTED_CLOCK_S": str(LATER_S)}
    server.start().wait_ready()
    server.govern = servers.Caller(server.port, server.admin)
    wait_for("the end", lambda: is_deleted(server, "a"))


def ends(server):
    """What the audit says of the end."""
    records = server.govern.must("GET", "/api/audit?tenant=a&kind=delete&from=now-1d&until=now%2B1d")["records"]
    return [(one["count"], one["status"]) for one in records if one["who"] == "the compactor" and one["phase"] == "result"]


def nothing_is_left(server):
    removed = 20 if server.key else 25  # what its key encrypts does not leave the head
    code, said = govern(server, "show", "a")
    check(code == 0 and "deleted" in said and "%d profiles, with those that came later" % removed in said, "%d %s", code, said)
    report = server.govern.must("GET", "/api/tenants/a")["deletion"]
    check(report["profilesRemoved"] == removed and 20 <= report["profiles"] <= removed and report["blocks"] > 0 and
          report["blockBytes"] > 0 and report["tokensRevoked"] > 0 and report["keysShredded"] == (1 if server.key else 0) and
          report["endedMs"] >= report["begunMs"] >= report["askedMs"], "%s", report)
    left = [name for name in names(server) if "/a/" in name]
    check(left == ["tenants/a/manifest"], "%s", left)
    for folder, _, files in os.walk(os.path.join(server.data, "bucket", "objects")):
        for name in files:
            with open(os.path.join(folder, name), "rb") as content:
                found = content.read()
            check(b"service-a" not in found and b"work-of-a" not in found, "%s has something of it", os.path.join(folder, name))
    wait_for("in the audit", lambda: ends(server) == [(removed, 200)])


def lives_again(server, sent):
    """A new tenant of that name has nothing of the old one."""
    if server.key:
        status, said = server.govern.send("POST", "/api/tenants", {"id": "a"})
        check(status == 400 and "flamegrid encryption rotate" in said, "%d %s", status, said)
        must(server, "encryption", "rotate", "a")
    check(server.govern.must("POST", "/api/tenants", {"id": "a"})["state"] == "active", "created again")
    again = server.caller(["push", "read"], ["a"])
    check(total(again, "a") == 0, "it has something of the old one")
    push_old(again, "a", 3)
    check(total(again, "a") == sent, "%d of %d is kept", total(again, "a"), sent)
    status, body = server.operate("POST", "/ingester/flush")
    check(status == 200, "flush: %d %s", status, body)
    wait_for("in blocks", lambda: listed(server, "a")["blocks"] != [])
    check(total(again, "a") == sent, "also in blocks")


def is_somebody_elses(server, had_text):
    """A token of several tenants, the old one among them, has no access to the new one, and its tenant-admin sees nothing of the old one."""
    had = servers.Caller(server.port, had_text)
    for method, target in (("GET", "/api/labels/service_name"), ("POST", "/ingest?name=late.cpu&from=now-20s&until=now-10s")):
        status, said = had.send(method, target, b"main 1\n" if method == "POST" else None, {"X-Scope-OrgID": "a"})
        check(status == 403 and "an earlier one of that name" in said, "%s %s: %d %s", method, target, status, said)
        status, said = servers.Caller(server.port, None).send(method, target, b"main 1\n" if method == "POST" else None,
                                                              servers.basic("a", had_text))
        check(status == 403 and "an earlier one of that name" in said, "as user of Basic, %s %s: %d %s", method, target, status, said)
    target = "/api/audit?tenant=a&from=now-1d&to=now%2B1d"
    new_ms = server.govern.must("GET", "/api/tenants/a")["createdMs"]
    owner = server.caller(["tenant-admin", "rules"], ["a"])
    owner.must("POST", "/settings.v1.SettingsService/Set", {"setting": {"name": "new", "value": "v"}})
    wait_for("records of the new one", lambda: owner.must("GET", target)["records"] != [])
    of_old = [one for one in owner.must("GET", target)["records"] if one["ms"] < new_ms]
    check(of_old == [], "the new tenant sees %s", of_old)
    check([one for one in server.govern.must("GET", target)["records"] if one["ms"] < new_ms], "an admin sees both")


def a_tenant_is_deleted(*settings, key=()):
    with servers.Governed(*QUICK, *settings) as server:
        server.key = key
        server.begin()
        fill(server)
        had = server.token(["read", "push"], ["a", "b"])
        before = delete(server)
        end(server)
        nothing_is_left(server)
        check(total(server.caller(["read"], ["b"]), "b") == before, "the other tenant has lost something")
        lives_again(server, before * 3 // 25)
        is_somebody_elses(server, had)
        check(server.terminate() == 0, "%s", server.log_tail())
        said = must(server, "bucket", "verify")
        check("fault" not in said, "%s", said)


def case_a_tenant_goes_with_everything():
    a_tenant_is_deleted()


def case_a_tenant_with_a_key_goes_with_everything():
    with servers.key_file() as key:
        a_tenant_is_deleted("--encryption.mode", "per_tenant", *key, key=key)


def case_a_tenant_that_is_deleted_before_its_first_segment_leaves_no_key():
    with servers.key_file() as key, servers.Governed("--encryption.mode", "per_tenant", *QUICK, *key) as server:
        server.key = key
        server.begin()
        for tenant in "ab":
            check(servers.push(server.caller(["push"], [tenant]), "service.cpu")[0] == 200, "a push")
        code, said = govern(server, "delete", "a", "--yes")
        check(code == 0, "%d %s", code, said)
        for _ in range(2):
            status, body = server.operate("POST", "/ingester/flush")
            check(status == 200, "flush: %d %s", status, body)
            keys = [line.split()[:2] for line in must(server, "encryption", "list").splitlines()]
            check(keys == [["b", "1"]], "%s", keys)
            code, _, said = servers.command("encryption", "rotate", "a", "--data", server.data, *key)
            check(code != 0, "rotated: %s", said)
        check([name for name in names(server) if "tenants/a/blocks" in name] == [], "blocks of it")


def case_a_tenant_goes_with_as_many_pending_deletions_as_there_can_be():
    with servers.Governed(*QUICK) as server:
        server.key = ()
        server.begin()
        push_old(server.caller(["push"], ["a"]), "a", 3)
        wait_for("in the bucket", lambda: server.operate("POST", "/ingester/flush")[0] == 200)
        for _ in range(256):
            status, said = server.operate("POST", "/compactor/delete?selector=%7Bservice_name%3D%22nobody%22%7D&start=now-6h&end=now",
                                          headers={"X-Scope-OrgID": "a"})
            check(status == 200, "delete: %d %s", status, said)
        status, said = server.operate("POST", "/compactor/delete?selector=%7B%7D&start=now-6h&end=now", headers={"X-Scope-OrgID": "a"})
        check(status == 429 and b"256 deletions are pending" in said, "one more: %d %s", status, said)
        code, said = govern(server, "delete", "a", "--yes")
        check(code == 0, "%d %s", code, said)
        wait_for("the end of the deletion", lambda: server.operate("POST", "/ingester/flush")[0] == 200 and
                 [one["selector"] for one in listed(server, "a")["ended"]] == ["{}"])
        check(listed(server, "a")["tombstones"] == [] and listed(server, "a")["blocks"] == [], "%s", listed(server, "a"))


def forwarded(server):
    """What the server says of its target."""
    return server.govern.must("GET", "/api/forward")["targets"][0]


def services(target, tenant):
    """The services that the target has of a tenant."""
    status, said = flamegrid.Client(target.port).send("GET", "/api/labels/service_name?from=now-6h&until=now",
                                                      headers={"X-Scope-OrgID": tenant})
    check(status == 200, "services of %s: %d %s", tenant, status, said)
    return [one["value"] for one in json.loads(said)["values"]]


def case_deletions_end_while_a_forward_target_is_away():
    """Neither a deleted tenant nor deleted profiles of another one wait for the target, and it gets none of them when it is back."""
    with flamegrid.Server("--multitenancy_enabled", "true") as there:
        forward = "[{name: central, url: 'http://127.0.0.1:%d'}]" % there.port
        with servers.Governed(*QUICK, "--compactor.deletion_wait", "0s", "--forward.targets", forward) as server:
            server.key = ()
            server.begin()
            caller = server.caller(["push"], ["b"])
            push_old(server.caller(["push"], ["a"]), "a", 5)
            push_old(caller, "b", 5)
            push_old(caller, "b", 1, "kept")
            wait_for("all is pending", lambda: forwarded(server)["pendingProfiles"] == 11)
            status, said = server.operate("POST", "/compactor/delete?selector=%7Bservice_name%3D%22service-b%22%7D&start=now-6h&end=now",
                                          headers={"X-Scope-OrgID": "b"})
            check(status == 200, "delete: %d %s", status, said)
            code, said = govern(server, "delete", "a", "--yes")
            check(code == 0, "%d %s", code, said)
            wait_for("the end of both deletions", lambda: server.operate("POST", "/ingester/flush")[0] == 200 and
                     all(len(listed(server, tenant)["ended"]) == 1 for tenant in "ab"))
            check(forwarded(server)["pendingProfiles"] == 1, "%s", forwarded(server))
            check(forwarded(server)["droppedProfiles"]["deleted"] == 10, "%s", forwarded(server))
            end(server)
            there.start().wait_ready()
            wait_for("the rest is sent", lambda: forwarded(server)["pendingProfiles"] == 0)
            check(services(there, "a") == [] and services(there, "b") == ["kept"], "%s %s", services(there, "a"), services(there, "b"))
            server.govern.must("POST", "/api/forward/central/resend?from=now-9h&until=now")
            wait_for("resent", lambda: forwarded(server)["resend"]["state"] == "done")
            check(services(there, "a") == [] and services(there, "b") == ["kept"], "after a resend: %s %s", services(there, "a"),
                  services(there, "b"))


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            tally.run(name[len("case_"):].replace("_", " "), case)
    tally.finish()


if __name__ == "__main__":
    main()
