"""Answers at the edges: times next to whole milliseconds, selections of nothing, options that do not exist yet."""

import json
import json
import os
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
MS_NS = 1_000_000
STEP_MS = 15_000
STACKS = {("main", "work"): (3, 30_000_000), ("main", "idle"): (1, 10_000_000)}
VALUE = 40_000_000


def push(client, name, time_ns, stacks=None):
    query = urllib.parse.urlencode({"name": name, "format": "pprof"})
    status, answer = client.send("POST", "/ingest?" + query, pprof.make(stacks or STACKS, time_ns))
    check(status == 200, "%d %s", status, answer)


def exchange(client, target, body, headers=None):
    """Returns status, body and headers of the answer to a POST."""
    client.connection.request("POST", target, body, headers or {})
    answer = client.connection.getresponse()
    return answer.status, answer.read(), dict(answer.getheaders())


def hour_ago_ms():
    return (int(time.time()) // 3600 - 1) * 3_600_000


def points(client, service, start_ms, end_ms):
    """{milliseconds since start_ms: value}."""
    answer = client.ask("SelectSeries", profileTypeID=TYPE, labelSelector='{service_name="%s"}' % service, start=start_ms,
                        end=end_ms, step=STEP_MS / 1000)
    return {int(point["timestamp"]) - start_ms: point["value"] for series in answer.get("series", [])
            for point in series["points"]}


def case_points_count_profiles_by_their_millisecond(client, _):
    start = hour_ago_ms()
    for offset_ns in (0, 1, MS_NS - 1, MS_NS, -STEP_MS * MS_NS + MS_NS - 1, -STEP_MS * MS_NS + MS_NS):
        push(client, "by_millisecond", start * MS_NS + offset_ns)
    found = points(client, "by_millisecond", start, start + STEP_MS)
    check(found == {0: 4 * VALUE, STEP_MS: VALUE}, "%s", found)
    last = points(client, "by_millisecond", start - STEP_MS, start)  # a range ends with its last millisecond's first nanosecond
    check(last == {0: VALUE, STEP_MS: 2 * VALUE}, "%s", last)


def refused(client, method, fields, accept_status):
    status, body = client.send("POST", "/querier.v1.QuerierService/" + method, json.dumps(fields),
                               {"Content-Type": "application/json"})
    check(status == accept_status, "%s: %d %s", method, status, body[:300])
    return json.loads(body)


def selection(service, **more):
    start = hour_ago_ms()
    return {"profileTypeID": TYPE, "labelSelector": '{service_name="%s"}' % service, "start": start - 1000,
            "end": start + 1000, **more}


def check_without_samples(profile, end_ms):
    strings = profile["stringTable"]
    kinds = [[strings[int(kind[key])] for key in ("type", "unit")]
             for kind in profile["sampleType"] + [profile["periodType"]]]
    check(kinds == [["cpu", "nanoseconds"]] * 2 and "sample" not in profile, "%s", profile)
    check(int(profile["period"]) == 10**9 and int(profile["timeNanos"]) == end_ms * MS_NS, "%s", profile)


def case_a_pprof_of_nothing_has_type_and_period(client, _):
    nothing = selection("nobody")
    check_without_samples(client.ask("SelectMergeProfile", **nothing), nothing["end"])
    answer = client.ask("SelectMergeStacktraces", **nothing, format="PROFILE_FORMAT_PPROF")
    check_without_samples(answer["pprof"]["profile"], nothing["end"])


def case_go_pgo_keeps_the_leaf_side(client, _):
    push(client, "pgo", hour_ago_ms() * MS_NS)
    for name in ("goPgo", "go_pgo"):
        wanted = selection("pgo", stackTraceSelector={name: {"keepLocations": 1}})
        answer = client.ask("SelectMergeStacktraces", **wanted, format="PROFILE_FORMAT_PPROF")
        for profile in (client.ask("SelectMergeProfile", **wanted), answer["pprof"]["profile"]):
            check({len(sample["locationId"]) for sample in profile["sample"]} == {1}, "%s", profile)
            check(sum(int(sample["value"][0]) for sample in profile["sample"]) == VALUE, "%s", profile)


def case_a_pprof_of_too_many_nodes_is_cut_to_the_limit(client, _):
    push(client, "nodes", hour_ago_ms() * MS_NS)
    wanted = selection("nodes", maxNodes=(1 << 20) + 1)
    check(len(client.ask("SelectMergeProfile", **wanted)["sample"]) == len(STACKS), "cut")
    answer = client.ask("SelectMergeStacktraces", **wanted, format="PROFILE_FORMAT_PPROF")
    check(len(answer["pprof"]["profile"]["sample"]) == len(STACKS), "cut")
    refused(client, "SelectMergeStacktraces", wanted, 400)
    refused(client, "SelectMergeProfile", {**wanted, "maxNodes": -1}, 400)


def otlp(stack_indices):
    """A profile of samples with these stacks, of which 1 is main."""
    samples = [{"stackIndex": index, "values": [1]} for index in stack_indices]
    profile = {"sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "samples": samples,
               "timeUnixNano": str(hour_ago_ms() * MS_NS),
               "periodType": {"typeStrindex": 3, "unitStrindex": 4}, "period": 10_000_000}
    service = {"key": "service.name", "value": {"stringValue": "dangling_otlp"}}
    return json.dumps({
        "resourceProfiles": [{"resource": {"attributes": [service]}, "scopeProfiles": [{"profiles": [profile]}]}],
        "dictionary": {"stringTable": ["", "samples", "count", "cpu", "nanoseconds", "main"],
                       "functionTable": [{}, {"nameStrindex": 5}],
                       "locationTable": [{}, {"lines": [{"functionIndex": 1}]}],
                       "stackTable": [{}, {"locationIndices": [1]}]}})


def case_a_dangling_sample_is_lost_alone(client, server):
    lost = "flamegrid_distributor_samples_dangling_total "
    body = pprof.make(STACKS, hour_ago_ms() * MS_NS)
    query = "/ingest?name=dangling&format=pprof"
    status, answer, headers = exchange(client, query, body + pprof.message(2, pprof.packed(1, [1, 99]) + pprof.packed(2, [1, 7])))
    check(status == 200 and headers.get("X-Flamegrid-Samples-Lost") == "1", "%d %s %s", status, answer, headers)
    found = selection("dangling")
    total = client.flame_total(TYPE, found["labelSelector"], found["start"], found["end"])
    check(total == VALUE, "%d", total)

    json_type = {"Content-Type": "application/json"}
    status, answer, headers = exchange(client, "/v1development/profiles", otlp((1, 9, 1)), json_type)
    check(status == 200 and b"1 samples are lost" in answer, "%d %s", status, answer)
    status, answer, _ = exchange(client, "/v1development/profiles", otlp((9,)), json_type)
    check(status == 400 and b"stack index 9 out of bounds" in answer, "%d %s", status, answer)
    metric = [line for line in server.metrics().splitlines() if line.startswith(lost)]
    check(metric == [lost + "3"], "%s", metric)


def case_an_object_with_a_key_twice_is_refused(client, _):
    status, body = client.send("POST", "/querier.v1.QuerierService/LabelNames", '{"start": 1, "end": 2, "start": 3}',
                               {"Content-Type": "application/json"})
    check(status == 400 and b'byte 31: field start is there twice' in body, "%d %s", status, body)


def points_stay_where_they_are(setting):
    """A range that begins before the limit: the points keep their times."""
    with flamegrid.Server("--limits.%s=1h" % setting) as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        now = int(time.time()) // 60 * 60_000
        at = now - 600_000
        push(client, "kept", at * MS_NS)
        found = points(client, "kept", at - 2 * 3_600_000, now)
        check(found == {2 * 3_600_000: VALUE}, "%s: %s", setting, found)
        query = urllib.parse.urlencode({"query": TYPE + '{service_name="kept"}', "from": at - 2 * 3_600_000, "until": now})
        status, body = client.send("GET", "/pyroscope/render?" + query)
        line = json.loads(body)["timeline"]
        seen = [line["startTime"] * 1000 + i * line["durationDelta"] * 1000 for i, value in enumerate(line["samples"]) if value]
        check(status == 200 and len(seen) == 1 and abs(seen[0] - at) <= line["durationDelta"] * 1000, "%s: %s", setting, seen)


def case_points_keep_their_times_behind_the_lookback(_client, _server):
    points_stay_where_they_are("max_query_lookback")


def case_points_keep_their_times_behind_the_retention(_client, _server):
    points_stay_where_they_are("retention_period")


def main_cases():
    return [(name[len("case_"):], case) for name, case in globals().items() if name.startswith("case_")]


def run(tally):
    cases = [(name, case) for name, case in main_cases() if tally.wants(name)]
    if not cases:
        return
    with flamegrid.Server() as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        for name, case in cases:
            tally.run(name, case, client, server)
        if server.terminate() != 0:
            tally.fail("server of the edges", server.log_tail())
