#!/usr/bin/env python3
"""A tenant is deleted in a cluster while clients push to it and query it, an ingester pauses, another one and both compactors are
killed: nothing of it comes back, segments that were never committed included, and the other tenant loses nothing.

    tenant_deletion_test.py [-k REGEX] [--seed N] [--keep]
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse

for other in ("lib", "access"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, other))
import cluster as clusters  # noqa: E402
import flamegrid  # noqa: E402
import servers  # noqa: E402
import watched  # noqa: E402
from flamegrid import check  # noqa: E402

GOES, STAYS = "goes", "stays"
OLD = 20  # profiles of each tenant that are in blocks soon
OLD_TICKS = 3 * 10_000_000  # of each
METRICS_AGE_S = 2  # /metrics are made once a second at most
LATER_S = 2 * 3600 + 60  # the hours of all profiles are over then; segments that were never committed go at that age
END_S = 240  # of which compactor.grace is a minute
SETTINGS = {
    "ingester": ["--ingester.segments.cut_bytes", "256KiB", "--ingester.segments.grace", "0s", "--ingester.segments.linger", "0s",
                 "--ingester.segments.evict_after", "0s", "--ingester.segments.poll", "1s", "--ring.poll", "500ms",
                 "--ingester.repair.every", "1s", "--ingester.repair.min_age", "0s"],
    "distributor": ["--ring.poll", "500ms"],
    "querier": ["--ring.poll", "500ms", "--querier.manifest_age", "1s"],
    "compactor": ["--compactor.interval", "1s", "--compactor.hour_delay", "0s", "--compactor.day_delay", "0s",
                  "--compactor.retire_after", "0s", "--compactor.grace", "1m"],
}


def settings():
    return {kind: [*values, "--access.poll", "1s"] for kind, values in SETTINGS.items()}


class Tenants:
    """The cluster with both tenants, and how to ask for them."""

    def __init__(self, run):
        self.run, self.cluster = run, run.cluster

    def caller(self, member):
        return servers.Caller(member.port, None)

    def send(self, kind, tenant, method, target, body=None):
        """Asks a process of this kind, whichever."""
        return self.caller(self.run.draw(kind)).send(method, target, body, {"X-Scope-OrgID": tenant})

    def shown(self):
        status, said = self.send("querier", GOES, "GET", "/api/tenants/" + GOES)
        check(status == 200, "%d %s", status, said)
        return json.loads(said)

    def push_old(self, tenant):
        """Profiles of three hours ago."""
        for number in range(OLD):
            begin_s = int(time.time()) - 3 * 3600 + 10 * number
            status, said = self.send("distributor", tenant, "POST", "/ingest?name=old.cpu&from=%d&until=%d" % (begin_s, begin_s + 10),
                                     b"main;work 3\n")
            check(status == 200, "push: %d %s", status, said)

    def old(self, tenant):
        """What queries find of these; a querier has to say that nothing is missing."""
        query = urllib.parse.quote('%s{service_name="old"}' % servers.TYPE)
        status, said = self.send("querier", tenant, "GET", "/pyroscope/render?from=now-1d&until=now&query=" + query)
        check(status == 200, "render: %d %s", status, said)
        return json.loads(said)["flamebearer"]["numTicks"]

    def services(self, tenant):
        status, said = self.send("querier", tenant, "GET", "/api/labels/service_name?from=now-1d&until=now%2B1h")
        check(status == 200, "labels: %d %s", status, said)
        return [one["value"] for one in json.loads(said)["values"]]

    def objects(self):
        """The names of all objects below names of the tenant."""
        top = self.run.bucket_folder()
        names = (os.path.relpath(os.path.join(folder, name), top) for folder, _, files in os.walk(top) for name in files)
        return sorted(name for name in names if "/%s/" % GOES in name)

    def inspect(self, name):
        done = subprocess.run([flamegrid.binary(), "bucket", "inspect", name, *self.cluster.bucket], capture_output=True, check=False)
        check(done.returncode == 0, "%s", done.stderr)
        return json.loads(done.stdout)

    def manifest(self):
        return self.inspect("tenants/%s/manifest" % GOES)

    def shared(self):
        """Returns the names of listed segments with profiles of both tenants."""
        segments = self.inspect("manifests/l0")["segments"]
        return [segment["object"] for segment in segments if {GOES, STAYS} <= {part["tenant"] for part in segment["tenants"]}]

    def leave_segments(self):
        """Copies a segment that both tenants share, as ends between upload and commit leave it: of a later cut of an ingester, and of a
        store that nobody knows. Returns their paths."""
        found = []

        def is_found():
            self.flush()
            found[:] = self.shared()
            return found
        self.run.wait("a segment of both tenants", is_found)
        path = os.path.join(self.run.bucket_folder(), found[0])
        folder = os.path.dirname(path)
        left = [os.path.join(folder, "%016x-%016x" % (1 << 40, 1)),
                os.path.join(os.path.dirname(folder), "f" * len(os.path.basename(folder)), "%016x-%016x" % (1, 1))]
        for other in left:
            os.makedirs(os.path.dirname(other), exist_ok=True)
            shutil.copyfile(path, other)
        return left

    def flush(self):
        for member in self.cluster.of("ingester"):
            status, said = member.operate("POST", "/ingester/flush", watched.DRAIN_S)
            check(status == 200, "flush of %s: %d %s", member.name, status, said)


def fill(run):
    """Profiles of both tenants in blocks, and what the queriers have read of them in their caches."""
    tenants = Tenants(run)
    for tenant in (GOES, STAYS):
        status, said = tenants.send("querier", tenant, "POST", "/api/tenants", {"id": tenant})
        check(status == 200, "%d %s", status, said)
        tenants.push_old(tenant)
    tenants.flush()
    run.wait("blocks", lambda: any(name.startswith("tenants/%s/blocks/" % GOES) for name in tenants.objects()))
    for tenant in (GOES, STAYS):
        check(tenants.old(tenant) == OLD * OLD_TICKS, "%s: %d", tenant, tenants.old(tenant))


def refused_everywhere(run, tenants, bird):
    """Its pushes and queries are refused by every process; the canary of the tenant gets nothing more acknowledged."""
    for member in run.cluster.of("distributor", "querier"):
        method, target = ("POST", "/ingest?name=late.cpu") if member.kind == "distributor" else ("GET", "/api/labels/service_name")

        def is_refused():
            status, said = tenants.caller(member).send(method, target, b"main 1\n" if method == "POST" else None, {"X-Scope-OrgID": GOES})
            return status == 403 and ("deleted" in said)
        run.wait("%s refuses it" % member.name, is_refused)
    time.sleep(METRICS_AGE_S)
    before, refused = bird.counts(), 'push_failures_total{reason="refused"}'
    run.wait("refused pushes", lambda: bird.counts()[refused] > before[refused])
    acknowledged = int(bird.counts()["profiles_acknowledged_total"])
    check(acknowledged == before["profiles_acknowledged_total"], "%d, then %d", before["profiles_acknowledged_total"], acknowledged)
    return acknowledged


def delete(run, tenants):
    """Deletes one of the tenants among faults. Returns how many profiles of the canary it had acknowledged."""
    paused, killed = run.rng.sample(run.cluster.of("ingester"), 2)
    callers = run.callers(paused)
    paused.signal(signal.SIGSTOP)
    querier = run.draw("querier")
    code, out, said = servers.command("tenant", "delete", GOES, "--yes", "--url", "http://127.0.0.1:%d" % querier.port)
    check(code == 0 and "refused from now on" in out + said, "%d %s%s", code, out, said)
    leaving = run.birds[0]
    acknowledged = refused_everywhere(run, tenants, leaving)
    check(tenants.shown()["state"] == "deleting", "%s", tenants.shown())
    run.wait("nothing is listed", lambda: tenants.manifest()["blocks"] == [])
    check(tenants.manifest()["ended"] == [], "it has not waited for an ingester that does not answer")
    run.birds = run.birds[1:]
    run.n_lines = run.n_lines[1:]
    leaving.__exit__()
    for member in run.cluster.of("compactor"):
        member.kill()
    paused.signal(signal.SIGCONT)
    run.wait_found(paused, callers)
    killed.kill()
    for member in run.cluster.of("compactor"):
        member.start()
    run.progress("%s paused, %s and the compactors killed" % (paused.name, killed.name))
    killed.start()
    for member in (killed, *run.cluster.of("compactor")):
        member.wait_ready()
    run.wait_found(killed, callers)
    run.progress("all are back")
    return acknowledged


def restart_later(run, seconds):
    """All processes start again, so much later than it is: heads let go of what they have committed only when its time is over."""
    for kinds in (("distributor", "querier", "compactor"), ("ingester",)):
        for member in run.cluster.of(*kinds):
            member.terminate()
    for member in run.cluster.members.values():
        member.environment = {**flamegrid.preload("shifted_clock"), "SHIFTED_CLOCK_S": str(seconds)}
    run.cluster.start()


def empty(tenants):
    """Nothing is below names of the tenant any more but its manifest."""
    deadline = time.monotonic() + END_S
    while tenants.objects() != ["tenants/%s/manifest" % GOES]:
        tenants.flush()  # ingesters commit what they have, and say then that nothing is left
        check(time.monotonic() < deadline, "not in %d s: %s, %s", END_S, tenants.shown(), tenants.objects())
        time.sleep(1)


def end(tenants, acknowledged, left):
    """The deletion ends; the report says what there was, and the bucket has nothing of it. left: segments that were never committed."""
    deadline = time.monotonic() + END_S
    while tenants.shown()["state"] != "deleted":
        check(time.monotonic() < deadline, "not in %d s: %s", END_S, tenants.shown())
        time.sleep(1)
    report = tenants.shown()["deletion"]
    print("     %d acknowledged, report: %s" % (acknowledged + OLD, report))
    check(report["profilesRemoved"] >= acknowledged + OLD, "%d acknowledged: %s", acknowledged + OLD, report)
    check(report["blocks"] > 0 and report["segments"] > 0 and report["endedMs"] >= report["begunMs"] >= report["askedMs"], "%s", report)
    check(tenants.objects() == ["tenants/%s/manifest" % GOES], "%s", tenants.objects())
    check(not any(map(os.path.exists, left)), "segments that were never committed are left: %s", left)


def nothing_comes_back(tenants):
    """A new tenant of that name finds nothing in heads, segments, caches and blocks: no deletion hides anything any more."""
    status, said = tenants.send("querier", GOES, "POST", "/api/tenants", {"id": GOES})
    check(status == 200, "%d %s", status, said)
    time.sleep(2)  # access.poll
    for _ in range(6):  # any querier
        check("old" in tenants.services(STAYS), "%s", tenants.services(STAYS))
        check(tenants.services(GOES) == [] and tenants.old(GOES) == 0, "it has %s", tenants.services(GOES))
        check(tenants.old(STAYS) == OLD * OLD_TICKS, "the other tenant has lost something")


def deleted_among_faults(rng, keep):
    with watched.Run(rng, keep, tenants=(GOES, STAYS), settings=settings(), begin=fill) as run:
        tenants = Tenants(run)
        tenants.flush()
        left = tenants.leave_segments()
        run.progress("profiles in segments")
        acknowledged = delete(run, tenants)
        code, stays = run.birds[0].stop()
        check(code == 0 and stays["unknown"] == 0, "the canary of the other tenant: %d %s\n%s", code, stays, run.log()[-2000:])
        check(all(map(os.path.exists, left)), "a segment that may still be committed is gone: %s", left)
        restart_later(run, LATER_S)
        empty(tenants)
        restart_later(run, 2 * LATER_S)  # some ingesters may have uploaded what others had committed first
        end(tenants, acknowledged, left)
        nothing_comes_back(tenants)
        tenants.flush()
        for kinds in (("distributor", "querier", "compactor"), ("ingester",)):
            for member in run.cluster.of(*kinds):
                member.terminate()
        stored = run.cluster.verify()
        check(stored == stays["acknowledged"] + OLD, "%d profiles are in the bucket, %s and %d", stored, stays, OLD)
        print("     %s" % stays)


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave logs and data of what failed")
    arguments, tally = flamegrid.parse_seeded(parser)
    tally.run("a tenant is deleted among faults", deleted_among_faults, random.Random(arguments.seed), arguments.keep)
    tally.finish()


if __name__ == "__main__":
    main()
