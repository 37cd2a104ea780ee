"""What users delete is gone from the very next answer, and stays gone while its data goes from heads to segments
to blocks, through restarts, until nothing of it is left. Everything else is answered as before."""

import gzip
import json
import signal
import subprocess
import time
import urllib.parse

import cluster as clusters
import flamegrid
import pprof

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
START_S = 1_750_000_000  # a closed day: segments become its block at once
PROFILES = 60  # of each service, ten seconds apart
PODS = 3
DELETED = (20, 60)  # numbers of profiles [from, to), of one pod
RANGE_MS = (START_S * 1000, (START_S + 10 * PROFILES) * 1000)
WAIT_S = 60
# Segments are made on request, and blocks of them within a second.
SETTINGS = ["--ingester.segments.grace", "0s", "--ingester.segments.poll", "1s",
            "--ingester.segments.evict_after", "0s", "--compactor.interval", "1s", "--compactor.hour_delay", "0s"]
# Of a cluster: heads keep what they have until they are asked for it, a deletion waits for nobody who says that he is
# clean, and segments are gone once they are covered.
CLUSTER = {
    "ingester": ["--ingester.segments.poll", "1s", "--ingester.segments.evict_after", "0s", "--ring.poll", "500ms",
                 "--ingester.repair.every", "1s", "--ingester.repair.min_age", "0s"],
    "distributor": ["--ring.poll", "500ms"],
    "querier": ["--ring.poll", "500ms", "--querier.manifest_age", "1s"],
    "compactor": ["--compactor.interval", "1s", "--compactor.hour_delay", "0s", "--compactor.day_delay", "0s",
                  "--compactor.retire_after", "0s", "--compactor.deletion_wait", "0s"],
}


def value_of(number):
    return 1000 + number


def target(service, pod, number):
    name = "%s{pod=%d}" % (service, pod)
    at = START_S + 10 * number
    return "/ingest?" + urllib.parse.urlencode({"name": name, "from": at, "until": at + 10, "format": "pprof"})


def push(client, service, number, value, frame):
    body = pprof.make({("main", frame): (1, value)}, (START_S + 10 * number) * 10**9)
    status, answer = client.send("POST", target(service, number % PODS, number), gzip.compress(body, 1))
    flamegrid.check(status == 200, "push: %d %s", status, answer[:200])


def is_deleted(service, number):
    return service == "shop" and number % PODS == 1 and DELETED[0] <= number < DELETED[1]


def delete(compactor):
    """Deletes as an operator does: a selector and two times, both inclusive. Returns the answer."""
    first, end = START_S + 10 * DELETED[0], START_S + 10 * DELETED[1]
    parameters = {"selector": '{service_name="shop",pod=~"1"}', "start": first, "end": end - 1}
    status, body = compactor.operate("POST", "/compactor/delete?" + urllib.parse.urlencode(parameters))
    flamegrid.check(status == 200, "delete: %d %s", status, body)
    return json.loads(body)


def check_service(client, service, deletion):
    """Queries stacks, values over time, flamebearer and series, of all times and of the deleted time only."""
    selector = '{service_name="%s"}' % service
    want = {"f%d" % i: value_of(i) for i in range(PROFILES) if not (deletion and is_deleted(service, i))}
    total = sum(want.values())
    found, in_graph = client.flame_frames(CPU, selector, *RANGE_MS)
    found = {name: value for name, value in found.items() if name.startswith("f")}
    flamegrid.check(found == want and in_graph == total, "%s: %d of %d, %s", service, in_graph, total,
                    sorted(set(found) ^ set(want))[:5])
    in_series = client.series_total(CPU, selector, *RANGE_MS)
    flamegrid.check(in_series == total, "%s: %d in the series, %d in the graph", service, in_series, total)
    query = urllib.parse.urlencode({"query": '%s{service_name="%s"}' % (CPU, service), "from": RANGE_MS[0],
                                    "until": RANGE_MS[1]})
    status, body = client.send("GET", "/pyroscope/render?" + query)
    flamegrid.check(status == 200 and json.loads(body)["flamebearer"]["numTicks"] == total, "render: %s", body[:200])
    inside = ((START_S + 10 * DELETED[0]) * 1000, (START_S + 10 * DELETED[1] - 1) * 1000)
    pods = {labels["pod"] for labels in client.label_sets([selector], ["pod"], *inside)}
    flamegrid.check(pods == ({"0", "2"} if deletion and service == "shop" else {"0", "1", "2"}), "%s: pods %s", service, pods)


def check_all(client, deletion=True):
    for service in ("shop", "web"):
        check_service(client, service, deletion)


def deletions(compactor):
    status, body = compactor.operate("GET", "/compactor/deletions")
    flamegrid.check(status == 200, "deletions: %d %s", status, body)
    return json.loads(body)["deletions"]


def wait_for(what, reached):
    deadline = time.monotonic() + WAIT_S
    while not reached():
        flamegrid.check(time.monotonic() < deadline, "%s: not within %d s", what, WAIT_S)
        time.sleep(0.1)


def all_in_blocks(compactor, profiles):
    """Whether the compactor has no work left and blocks have that many profiles."""
    tenants = json.loads(compactor.operate("GET", "/compactor/status")[1])["tenants"]
    return bool(tenants) and all(tenant["uncovered_segments"] == 0 and tenant["profiles"] == profiles for tenant in tenants)


def flush(server):
    status, body = server.operate("POST", "/ingester/flush", WAIT_S)
    flamegrid.check(status == 200, "flush: %d %s", status, body)


def again(server):
    flamegrid.check(server.terminate() == 0, "%s", server.log_tail())
    server.start().wait_ready()
    return flamegrid.Client(server.port)


def acts_at_once():
    """Deletes from the head; the tombstone stays as long as late profiles may come."""
    taken = sum(is_deleted("shop", i) for i in range(PROFILES))
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        for number in range(PROFILES):
            for service in ("shop", "web"):
                push(client, service, number, value_of(number), "f%d" % number)
        check_all(client, deletion=False)
        flamegrid.check(delete(server)["state"] == "pending", "not pending")
        check_all(client)
        flush(server)
        check_all(client)
        wait_for("blocks", lambda: all_in_blocks(server, 2 * PROFILES - taken))
        check_all(client)
        client = again(server)
        check_all(client)
        push(client, "shop", 22, 7, "late")  # pod 1, of the deleted time
        check_all(client)
        flush(server)
        check_all(client)
        wait_for("the late one", lambda: deletions(server)[0]["profiles_removed"] == taken + 1)
        check_all(client)
        flamegrid.check(deletions(server)[0]["state"] == "pending", "%s", deletions(server))
        # From now on no late profile is expected: the tombstone is removed, and its effect stays.
        server.arguments = [*SETTINGS, "--compactor.deletion_wait", "0s"]
        client = again(server)
        wait_for("its end", lambda: deletions(server)[0]["state"] == "done")
        check_all(client)
        client = again(server)
        check_all(client)
        ended = deletions(server)
        flamegrid.check(len(ended) == 1 and ended[0]["profiles_removed"] == taken + 1 and ended[0]["rewrites"] == 2,
                        "%s", ended)
        flamegrid.check(server.terminate() == 0, "%s", server.log_tail())


def from_blocks():
    """Deletes when all profiles are in blocks: answers change before the blocks are rewritten."""
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        for number in range(PROFILES):
            for service in ("shop", "web"):
                push(client, service, number, value_of(number), "f%d" % number)
        flush(server)
        wait_for("blocks", lambda: all_in_blocks(server, 2 * PROFILES))
        check_all(client, deletion=False)  # and manifests are known, and young
        delete(server)
        check_all(client)
        wait_for("the rewritten blocks", lambda: deletions(server)[0]["profiles_removed"] > 0)
        check_all(client)
        flamegrid.check(server.terminate() == 0, "%s", server.log_tail())


def inspect_l0(cluster):
    done = subprocess.run([flamegrid.binary(), "bucket", "inspect", "manifests/l0", *cluster.bucket], capture_output=True,
                          text=True, check=False)
    flamegrid.check(done.returncode == 0, "bucket inspect: %s", done.stderr)
    return json.loads(done.stdout)


def uncommitted(member):
    """Bytes in the head of the member that are in no segment."""
    return sum(value for name, value in member.metrics().items()
               if name.startswith("flamegrid_ingester_uncommitted_bytes{"))


def flush_member(member):
    status, body = member.operate("POST", "/ingester/flush", WAIT_S)
    flamegrid.check(status == 200, "flush of %s: %d %s", member.name, status, body)


def from_one_who_was_away():
    """One ingester is stopped with all of it in its head, and a deletion takes it from everywhere else. It would be
    over; but that one has it yet, and commits it when it goes on."""
    taken = sum(is_deleted("shop", i) for i in range(PROFILES))
    with clusters.Cluster(distributors=1, queriers=1, compactors=1, settings=CLUSTER) as cluster:
        cluster.start()
        push_client, query = flamegrid.Client(cluster.push.port), flamegrid.Client(cluster.query.port, WAIT_S)
        compactor = cluster.members["compactor-1"]
        for number in range(PROFILES):
            for service in ("shop", "web"):
                push(push_client, service, number, value_of(number), "f%d" % number)
        away, *others = cluster.of("ingester")
        wait_for("profiles in every head", lambda: len({uncommitted(member) for member in (away, *others)}) == 1)
        check_all(query, deletion=False)
        away.signal(signal.SIGSTOP)
        for member in others:
            flush_member(member)
        delete(compactor)
        wait_for("it is taken out", lambda: deletions(compactor)[0]["waits_for"] == away.name)
        wait_for("its segments are gone", lambda: inspect_l0(cluster)["segments"] == [])
        check_all(query)
        removed = deletions(compactor)[0]["profiles_removed"]
        away.signal(signal.SIGCONT)
        flush_member(away)
        check_all(query)
        wait_for("what it had is taken out", lambda: deletions(compactor)[0]["profiles_removed"] >= removed + taken)
        check_all(query)

        def ended():
            # An ingester answers when its head has none of the deleted profiles. Between one that still had them and those that had
            # evicted them, repair may have copied some since the flushes, and late profiles wait ten minutes for a segment.
            for member in (away, *others):
                flush_member(member)
            return deletions(compactor)[0]["state"] == "done"

        wait_for("its end", ended)
        check_all(query)
        for member in cluster.members.values():
            member.terminate()
        flamegrid.check(cluster.verify() == 2 * PROFILES - taken, "other profiles are in the bucket")
