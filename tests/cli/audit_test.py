#!/usr/bin/env python3
"""The audit of a server: what it records, who may see it, and that edits and removed objects are found after kills.

    audit_test.py [-k REGEX]
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import examples  # noqa: E402
import faulty_disk  # noqa: E402
import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

PROGRAM = os.path.abspath(flamegrid.binary())
TIMEOUT_S = 60
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SELECTOR = CPU + '{service_name="shop"}'
RENDER = "/pyroscope/render?" + urllib.parse.urlencode({"query": SELECTOR, "from": "now-1h", "until": "now"})
PPROF = "/querier.v1.QuerierService/SelectMergeProfile"
SETTINGS = ("--access.mode", "token", "--multitenancy_enabled", "true", "--audit.flush", "1s")


def cli(*arguments, token=None, server=None, wanted=0, errors=False):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("FLAMEGRID_") and name not in ("FG_BINARY", "FG_SHARED")}
    if token is not None:
        environment.update(FLAMEGRID_TOKEN=token, FLAMEGRID_URL="http://127.0.0.1:%d" % server.port, NO_PROXY="127.0.0.1")
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, env=environment, timeout=TIMEOUT_S)
    check(done.returncode == wanted, "%s: exit code %d: %s%s", arguments, done.returncode, done.stdout, done.stderr)
    return (done.stderr if errors else done.stdout).decode()


class World:
    """A server with tokens: admin, a reader of shop and bank, and the admin of the tenant shop."""

    def __init__(self, *settings):
        self.server = flamegrid.Server(*SETTINGS, *settings)
        self.disk = faulty_disk.FaultyDisk(self.server)
        os.makedirs(self.server.data)
        self.admin = cli("access", "init", "--data", self.server.data).strip()
        self.server.start().wait_ready()
        for tenant in ("shop", "bank"):
            self.cli("tenant", "create", tenant)
        self.reader = self.token("reader", "shop,bank", "read,push,share")
        self.governor = self.token("governor", "shop", "tenant-admin")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.server.__exit__(*exception)

    def cli(self, *arguments, token=None, wanted=0):
        return cli(*arguments, token=token or self.admin, server=self.server, wanted=wanted)

    def token(self, name, tenants, scopes):
        made = self.cli("token", "create", "--name", name, "--tenants", tenants, "--scopes", scopes, "--json")
        return json.loads(made)["token"]

    def ask(self, method, target, token, tenant=None, body=b"", headers=None):
        fields = {"Authorization": "Bearer " + token, **(headers or {})}
        if tenant is not None:
            fields["X-Scope-OrgID"] = tenant
        return flamegrid.Client(self.server.port).send(method, target, body, headers=fields)

    def records(self, *arguments, token=None):
        return [json.loads(line) for line in self.cli("audit", "export", *arguments, token=token).splitlines()]

    def await_records(self, n, *arguments):
        """Records become visible when their object is stored."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(found := self.records(*arguments)) < n and time.monotonic() < deadline:
            time.sleep(0.2)
        check(len(found) == n, "%s: %d records, not %d: %s", arguments, len(found), n, found)
        return found

    def verify(self, *arguments, wanted=0):
        return cli("audit", "verify", "--data", self.server.data, *arguments, wanted=wanted)

    def objects(self, part=""):
        return sorted(glob.glob(os.path.join(self.server.data, "bucket", "objects", "audit", "*", "*", "*", "*", part + "*")))


def case_everything_is_recorded():
    with World("--audit.reads", "all") as world:
        body = pprof.make({("main", "serve"): (3, 30_000_000)}, time.time_ns())
        status, text = world.ask("POST", "/ingest?name=shop&format=pprof", world.reader, "shop", body,
                                    {"Content-Type": "application/octet-stream"})
        check(status == 200, "%d %s", status, text)
        world.cli("tenant", "create", "vault")
        asked = json.dumps({"profile_typeID": CPU, "label_selector": '{service_name="shop"}', "start": 1, "end": 2}).encode()
        for target, tenant, sent, wanted in ((RENDER, "shop", b"", 200), (RENDER, "shop|bank", b"", 200), (RENDER, "vault", b"", 403),
                                             (RENDER, "nowhere|vault", b"", 403), (PPROF, "bank", asked, 200)):
            status, text = world.ask("POST" if sent else "GET", target, world.reader, tenant, sent, {"Content-Type": "application/json"})
            check(status == wanted, "%s of %s: %d %s", target, tenant, status, text)
        status, text = world.ask("POST", "/api/adhoc?name=mine", world.reader, "shop", body)
        check(status == 200, "%d %s", status, text)
        for _ in range(5):
            check(world.ask("GET", "/api/tenants", world.reader)[0] == 403, "a reader saw tenants")
        check(world.ask("GET", RENDER, "fgt_nonsense")[0] == 401, "nonsense was let in")
        status, text = world.server.operate("POST", "/compactor/delete?selector=%7Bservice_name%3D%22x%22%7D&start=now-2h&end=now-1h",
                                            headers={"X-Scope-OrgID": "shop"})
        check(status == 200, "%d %s", status, text)
        world.cli("tenant", "limits", "bank", "max_query_length=2d")
        world.cli("tenant", "create", "bad name!", wanted=1)

        reads = world.await_records(2, "--kind", "read")
        check([read["tenant"] for read in reads] == ["shop", "bank|shop"], "%s", reads)
        check(all(read["who"].endswith("(reader)") and read["status"] == 200 and read["source"] == "127.0.0.1" and
                  "service_name" in urllib.parse.unquote_plus(read["detail"]) for read in reads), "%s", reads)
        export, = world.await_records(1, "--kind", "export")
        check((export["tenant"], export["fromMs"], export["toMs"], export["route"]) == ("bank", 1, 2, PPROF), "%s", export)
        check(CPU in export["detail"] and '{service_name="shop"}' in export["detail"], "%s", export)
        begun, ended = world.await_records(2, "--kind", "delete")
        check(begun["phase"] == "begin" and ended["phase"] == "result" and begun["op"] == ended["op"] and ended["status"] == 200 and
              begun["detail"] == '{service_name="x"}' and ended["toMs"] - ended["fromMs"] >= 3_599_000, "%s %s", begun, ended)
        begun, ended = world.await_records(2, "--kind", "share")
        check(begun["tenant"] == "shop" and ended["status"] == 200, "%s %s", begun, ended)
        # Five equal ones are the first and a sum; of the tenants that were denied there is one; and nonsense.
        refused = world.await_records(5, "--kind", "refused")
        tenants = [one for one in refused if one["route"] == "/api/tenants"]
        check(sorted(one.get("count", 1) for one in tenants) == [1, 4] and {one["status"] for one in tenants} == {403}, "%s", refused)
        check({one["status"] for one in refused if one["route"] != "/api/tenants"} == {401, 403}, "%s", refused)
        check([one["tenant"] for one in refused if "tenant" in one] == ["vault"] * 2, "%s", refused)
        admin = world.records("--kind", "admin")
        check(sum(one["phase"] == "begin" for one in admin) == 8 and sum(one["phase"] == "result" for one in admin) == 8, "%s", admin)
        check([one["status"] for one in admin if one["phase"] == "result"][-2:] == [200, 400], "%s", admin)
        check(not any(secret in json.dumps(world.records()) for secret in (world.admin[13:], world.reader[13:], world.governor[13:])),
              "the audit has a secret")
        check(world.server.terminate() == 0, "%s", world.server.log_tail())
        check("no faults" in world.verify(), "%s", world.verify())


def case_a_tenant_admin_sees_its_tenant_only():
    with World("--audit.reads", "all") as world:
        for tenant in ("shop", "bank", "shop|bank"):
            check(world.ask("GET", RENDER, world.reader, tenant)[0] == 200, "%s", tenant)
        world.await_records(3, "--kind", "read")
        seen = world.records(token=world.governor)
        check({one["tenant"] for one in seen} == {"shop"}, "%s", seen)
        check(any(one["kind"] == "read" for one in seen) and any(one["kind"] == "admin" for one in seen), "%s", seen)
        said = cli("audit", "export", "--of-tenant", "bank", token=world.governor, server=world.server, wanted=1, errors=True)
        check('has no access to tenant "bank"' in said, "%s", said)
        check(world.ask("GET", "/api/audit", world.reader)[0] == 403, "a reader saw the audit")
        check(world.ask("GET", "/api/audit?from=now-40d", world.admin)[0] == 400, "40 days at once")
        check(world.ask("GET", "/api/audit?limit=0", world.admin)[0] == 400, "limit 0")
        check(world.records("--until", "now-1h") == [], "records of the last hour before it")
        said = cli("audit", "list", "--until", "now-1h", token=world.admin, server=world.server, errors=True)
        check("no records of this time are stored" in said, "%s", said)
        lines = world.cli("audit", "tail", "-n", "2").splitlines()
        check(len(lines) == 2, "%s", lines)


def case_pages_have_each_record_once():
    with World() as world:
        for i in range(30):
            world.cli("tenant", "limits", "bank", "max_query_length=%dd" % (i + 1))
        everything = world.await_records(60 + 8 + 2, "--kind", "admin")
        paged, start = [], 0
        while start is not None:
            status, text = world.ask("GET", "/api/audit?kind=admin&limit=7&from=%013d" % (start or everything[0]["ms"]), world.admin)
            check(status == 200, "%d %s", status, text)
            page = json.loads(text)
            paged += page["records"]
            start = page.get("nextMs")
        check(paged == everything, "%d records in pages, not %d", len(paged), len(everything))


def case_nothing_is_lost_when_the_server_is_killed():
    with World("--audit.flush", "1h") as world:
        check(world.objects("flamegrid_server") == [], "nothing was to be stored yet")
        for _ in range(2):
            world.cli("tenant", "suspend", "bank")
            world.server.kill()
            world.server.start().wait_ready()
            world.cli("tenant", "resume", "bank")
        check(world.server.terminate() == 0, "%s", world.server.log_tail())
        report = json.loads(world.verify("--json"))
        servers = [chain for chain in report["chains"] if chain["chain"].startswith("flamegrid_server")]
        check(report["ok"] and sorted(chain["state"] for chain in servers) == ["continued", "continued", "ended"], "%s", report)
        world.server.start().wait_ready()
        states = [one["route"] for one in world.records("--of-tenant", "bank") if one.get("phase") == "begin" and "/bank:" in one["route"]]
        check(states == ["/api/tenants/bank:suspend", "/api/tenants/bank:resume"] * 2, "%s", states)


def lines_of(path):
    return subprocess.run(["zstd", "-dc", path], check=True, capture_output=True).stdout


def rewrite(path, change):
    """Changes the lines of an object."""
    changed = b"".join(change(lines_of(path).splitlines(keepends=True)))
    subprocess.run(["zstd", "-q", "-f", "-o", path], input=changed, check=True)


def case_edits_and_removals_are_found():
    with World() as world, tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            world.cli("tenant", "suspend", "bank")
            world.cli("tenant", "resume", "bank")
            time.sleep(1.5)  # into another object
        check(world.server.terminate() == 0, "%s", world.server.log_tail())
        heads = os.path.join(folder, "heads.json")
        with open(heads, "w", encoding="utf-8") as out:
            out.write(world.verify("--json"))
        objects = world.objects("flamegrid_server")
        check(len(objects) >= 3, "%s", objects)
        chain = os.path.basename(objects[0]).rsplit("-", 1)[0]

        def found(what, *patterns, arguments=()):
            said = world.verify(*arguments, wanted=1)
            check(all(pattern in said for pattern in (chain, "FAULT", *patterns)), "%s: %s", what, said)

        kept = [open(path, "rb").read() for path in objects]
        # Which one has what depends on how fast the server was.
        n = next(i for i in range(1, len(objects) - 1) if b"suspend" in lines_of(objects[i]) and lines_of(objects[i]).count(b"\n") > 2)
        restore = lambda i: open(objects[i], "wb").write(kept[i])  # noqa: E731
        rewrite(objects[n], lambda lines: [line.replace(b"suspend", b"respend") for line in lines])
        found("an edit", "object %d, line" % n, "was changed")
        restore(n)
        rewrite(objects[n], lambda lines: lines[:1] + lines[2:])
        found("a removed line", "object %d, line 2" % n, "missing")
        restore(n)
        rewrite(objects[n], lambda lines: [lines[0], lines[2], lines[1], *lines[3:]])
        found("moved lines", "object %d, line 2" % n, "reordered")
        restore(n)
        with open(objects[n], "r+b") as out:
            out.write(b"\xff\xff\xff")
        found("a damaged object", "object %d cannot be read" % n)
        restore(n)
        os.remove(objects[n])
        found("a removed object", "object %d is missing" % n)
        restore(n)
        os.remove(objects[-1])
        check("no faults" in world.verify(), "without heads nobody can know that the end is missing")
        found("a chain that was cut off", "which was known, is missing", arguments=("--known", heads))
        restore(-1)
        check("no faults" in world.verify("--known", heads), "the objects are whole again")
        check(cli("audit", "verify", "--data", os.path.join(folder, "nowhere"), wanted=2) == "", "no bucket")


def case_the_heads_of_the_manual_are_kept_as_it_says():
    """audit.md, as it is copied: the first run, the daily one twice, and one that finds a fault."""
    *_, first, daily = examples.blocks("deploy/operations/audit.md", "sh")
    with World() as world, tempfile.TemporaryDirectory() as folder:
        check(world.server.terminate() == 0, "%s", world.server.log_tail())
        os.symlink(PROGRAM, os.path.join(folder, "flamegrid"))
        with open(os.path.join(folder, "server.yaml"), "w", encoding="utf-8") as out:
            out.write("data: %s\n" % world.server.data)

        def run(script):
            done = subprocess.run(["bash", "-euc", script], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S,
                                  env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]})
            return done.returncode, done.stderr

        code, said = run(daily)
        check(code == 2 and "No such file" in said and "the first run goes without it" in said, "%d %s", code, said)
        for script in (first, daily, daily):
            check(run(script) == (0, ""), "%s: %s", script, run(script))
        for path in world.objects("flamegrid_server"):
            os.remove(path)
        with open(os.path.join(folder, "heads.json"), encoding="utf-8") as file:
            kept = file.read()
        code, said = run(daily)
        check(code == 1 and "faults" in said, "%d %s", code, said)
        with open(os.path.join(folder, "heads.json"), encoding="utf-8") as file:
            check(file.read() == kept, "the heads were overwritten")


def case_a_change_that_cannot_be_recorded_is_refused():
    with World() as world:
        for rule in ("write ENOSPC name=.ndjson", "sync EIO name=.ndjson"):
            world.disk.fail(rule)
            status, text = world.ask("POST", "/api/tenants/bank:suspend", world.admin)
            check(status == 503 and b"the audit cannot record it" in text, "%s: %d %s", rule, status, text)
            check("suspended" not in world.cli("tenant", "list"), "%s: it was changed", rule)
        check(world.disk.hits() != [], "the disk did not fail")
        world.disk.fail()
        world.cli("tenant", "suspend", "bank")
        check("suspended" in world.cli("tenant", "list"), "it was not changed")
        check(world.server.terminate() == 0, "%s", world.server.log_tail())
        check("no faults" in world.verify(), "%s", world.verify())


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    for name, case in list(globals().items()):
        if name.startswith("case_") and tally.wants(name[len("case_"):]):
            tally.run(name[len("case_"):], case)
    tally.finish()


if __name__ == "__main__":
    main()
