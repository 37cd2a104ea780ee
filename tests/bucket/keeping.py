"""Retention by level: rollups outlive the profiles that were dropped. They answer what they can, exactly, and
refuse everything else. The test sends weeks of profiles at once, and no job waits for quiet times."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import exporting  # noqa: E402
import flamegrid  # noqa: E402
from exporting import CPU  # noqa: E402
from flamegrid import check  # noqa: E402

DAY_S = 86400
WEEK_S = 7 * DAY_S
WAIT_S = 90
EACH_S = 6 * 3600
QUICK = ["--compactor.interval", "1s", "--compactor.hour_delay", "0s", "--compactor.day_delay", "0s",
         "--compactor.fold_quiet", "0s", "--compactor.deletion_wait", "0s", "--querier.manifest_age", "1s",
         "--ingester.segments.evict_after", "0s", "--ingester.segments.poll", "1s"]
KEEPING = ["--limits.retention_period", "7d", "--limits.retention_period_rollups", "0"]


# Frames without names, and a sample without a stack.
UNNAMED = {("main", 0x7F0000012340): (1, 20), (0x1234,): (1, 30), (): (1, 40)}


def push_weeks(server, client, start_s, end_s, more=()):
    """Two services; pods come and go, regions stay. Value and time go together, so that sums tell times. more:
    stacks that all profiles have."""
    for number, at in enumerate(range(start_s, end_s, EACH_S)):
        stacks = {("main", "work", "step_%d" % (number % 5)): (1, 1000 + number), ("main",): (1, 1), **dict(more)}
        kinds = [{"__name__": "process_cpu", "service_name": service, "pod": "p%d" % (number % 3),
                  "region": "eu" if number % 2 else "us"} for service in ("api", "shop")]
        request = {"series": [exporting.series(labels, at * 10**9, stacks, (("samples", "count"), ("cpu", "nanoseconds")))
                              for labels in kinds]}
        status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps(request),
                                   {"Content-Type": "application/json"})
        check(status == 200, "push: %d %s", status, body)
    status, body = server.operate("POST", "/ingester/flush")
    check(status == 200, "flush: %d %s", status, body)


def frames(client, selector, start_s, end_s):
    return client.flame_frames(CPU, selector, start_s * 1000, end_s * 1000 - 1)


def answers(client, start_s, end_s):
    """Queries that rollups can answer, over ranges of whole days."""
    ranges = {"all": (start_s, end_s), "a day": (start_s + 2 * DAY_S, start_s + 3 * DAY_S),
              "across": (start_s + 5 * DAY_S, start_s + 9 * DAY_S)}
    found = {}
    for name, (first, last) in ranges.items():
        for selector in ("{}", '{service_name="shop"}', '{service_name="api",region="eu"}', '{region!="eu"}'):
            found[name, selector] = frames(client, selector, first, last)
    found["points"] = client.series_total(CPU, '{service_name="shop"}', start_s * 1000, end_s * 1000 - 1000)
    found["services"] = sorted(labels["service_name"] for labels in client.label_sets(
        ["{}"], ["service_name"], start_s * 1000, (start_s + DAY_S) * 1000))
    return found


def wait_for(wanted, what):
    deadline = time.monotonic() + WAIT_S
    while True:
        said = wanted()
        if said is True:
            return
        check(time.monotonic() < deadline, "%s: %s", what, said)
        time.sleep(0.5)


def refused(client, method, **fields):
    status, body = client.send("POST", "/querier.v1.QuerierService/" + method, json.dumps(fields),
                               {"Content-Type": "application/json"})
    check(status == 400 and b"were deleted by retention" in body, "%s: %d %s", method, status, body)


def check_limits_of_nodes(client, start_s, end_s, wanted):
    """A range that cuts a day is widened to it, and the answer says so; queries that rollups cannot answer are refused."""
    fields = {"profileTypeID": CPU, "labelSelector": '{service_name="shop"}', "start": (start_s + 7200) * 1000,
              "end": end_s * 1000 - 1}
    client.connection.request("POST", "/querier.v1.QuerierService/SelectMergeStacktraces", json.dumps(fields),
                              {"Content-Type": "application/json"})
    response = client.connection.getresponse()
    total = int(json.loads(response.read())["flamegraph"]["total"])
    check(response.headers["X-Flamegrid-Range"] == "%d-%d" % (start_s * 1000, end_s * 1000 - 1), "%s", response.headers)
    check(response.headers["X-Flamegrid-Exact"] == "yes", "%s", response.headers)
    check(total == wanted["all", '{service_name="shop"}'][1], "%d of all of the day", total)
    fields["start"] = start_s * 1000
    refused(client, "SelectMergeProfile", **fields)
    fields["labelSelector"] = '{service_name="shop",pod="p1"}'
    refused(client, "SelectMergeStacktraces", **fields)
    refused(client, "SelectSeries", step=3600, **fields)
    fields["start"] = (end_s - DAY_S) * 1000  # profiles are there
    client.ask("SelectMergeStacktraces", **fields)
    client.ask("SelectMergeProfile", **fields)


def check_deletion(server, client, verified, start_s, end_s, wanted):
    """Deletes some hours of one day of shop: all of its week is deleted, and nothing of the other service."""
    status, body = server.operate("POST", "/compactor/delete?selector=%%7Bservice_name=%%22shop%%22%%7D&start=%d&end=%d"
                                  % (start_s + DAY_S, start_s + DAY_S + 3600))
    check(status == 200, "delete: %d %s", status, body)

    def is_right():
        gone = frames(client, '{service_name="shop"}', start_s, start_s + WEEK_S)
        stays = frames(client, '{service_name="api",region="eu"}', start_s, end_s)
        after = frames(client, '{service_name="shop"}', start_s + WEEK_S, end_s)
        check(stays == wanted["all", '{service_name="api",region="eu"}'], "%s", stays)
        check(after[1] > 0, "the week after is there")
        return gone[1] == 0 or gone

    wait_for(is_right, "answers after a deletion")
    wait_for(lambda: b'"ended_ms":' in server.operate("GET", "/compactor/deletions")[1], "the deletion is not carried out")
    check(is_right() is True, "answers once it is carried out")
    verified()


def check_lost(client, start_s, end_s):
    """A resend says how many profiles only rollups are left of, before it begins and when it has ended."""
    week = 2 * WEEK_S // EACH_S  # of two services
    path = "/api/forward/central/%%s?from=%d&until=%d" % (start_s, start_s + WEEK_S)
    status, body = client.send("GET", path % "resend")
    said = json.loads(body)
    check(status == 200 and (said["profiles"], said["lostProfiles"]) == (0, week), "%d %s", status, body)
    status, body = client.send("GET", "/api/forward/central/resend?from=%d&until=%d" % (start_s + WEEK_S, end_s))
    said = json.loads(body)
    check(status == 200 and (said["profiles"], said["lostProfiles"]) == (2 * ((end_s - start_s - WEEK_S) // EACH_S), 0), "%d %s", status, body)
    status, body = client.send("POST", path % "resend", b"", {"X-Flamegrid-Action": "resend"})
    check(status == 200, "%d %s", status, body)

    def is_done():
        resend = json.loads(client.send("GET", "/api/forward")[1])["targets"][0]["resend"]
        return resend["state"] == "done" and (resend["sentProfiles"], resend["lostProfiles"]) == (0, week) or resend

    wait_for(is_done, "the resend of a time without profiles")


def nodes_outlive_profiles(bucket, settings, folder):
    """bucket: the command; settings: of a server, without its data folder."""
    end_s = int(time.time()) // DAY_S * DAY_S
    start_s = end_s // WEEK_S * WEEK_S - 2 * WEEK_S  # the week that begins here is over for one at least
    data = os.path.join(folder, "data")

    def verify(*_):
        return bucket.good("verify", "--data", data).decode()

    def is_kept():
        try:
            said = verify()
        except AssertionError as fault:  # it changed while it was read
            return str(fault)
        return "profiles that were dropped, in 1 blocks" in said or said

    with flamegrid.Server(*QUICK, *settings, data=data) as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        push_weeks(server, client, start_s, end_s, UNNAMED)
        wanted = answers(client, start_s, end_s)
        check(wanted["all", "{}"][1] > 0 and wanted["services"] == ["api", "shop"], "%s", wanted)
        unnamed = {"libc.so.6+0x13340", "0x1234", "[no stack]"}
        check(unnamed <= set(wanted["all", "{}"][0]), "%s", wanted["all", "{}"][0])
        check(server.terminate() == 0, "%s", server.log_tail())
    away = "[{name: central, url: 'http://127.0.0.1:%d'}]" % flamegrid.free_port()
    with flamegrid.Server(*QUICK, *KEEPING, *settings, "--forward.targets", away, data=data) as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        wait_for(is_kept, "no week was kept as nodes")
        exporting.compare(answers(client, start_s, end_s), wanted)
        check_limits_of_nodes(client, start_s, end_s, wanted)
        check_lost(client, start_s, end_s)
        bucket.bad(1, "were deleted by retention", "export", "{}", "--type", CPU, "--from", str(start_s), "--until", str(end_s),
                   "--data", data)
        check_deletion(server, client, verify, start_s, end_s, wanted)
        check(server.terminate() == 0, "%s", server.log_tail())
