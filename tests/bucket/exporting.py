"""`flamegrid bucket export`: what comes out of a bucket is what its server would answer, and what was
exported profile by profile and pushed elsewhere gives the same answers there."""

import base64
import gzip
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SAMPLES = "process_cpu:samples:count:cpu:nanoseconds"
DELAY = "mutex:delay:nanoseconds:cpu:nanoseconds"
SPACE = "memory:alloc_space:bytes:cpu:nanoseconds"
INUSE = "memory:inuse_space:bytes:cpu:nanoseconds"
TYPES = [CPU, SAMPLES, DELAY, SPACE, INUSE]
HEAP = (("alloc_space", "bytes"), ("inuse_space", "bytes"))
LOCKS = (("contentions", "count"), ("delay", "nanoseconds"))
ODD = 'ns/pod "a", {b=c}, ü, ../..'  # what a folder's or a name's syntax would trip over
SPANS = ["%016x" % (0xfeed_0000_0000_0000 + number) for number in range(3)]
TRACE = "0123456789abcdef" * 2
PROFILES = 60
STEP_S = 1800
TIMEOUT_S = 120


def series(labels, time_ns, stacks, types, labelled=()):
    body = base64.b64encode(gzip.compress(pprof.make(stacks, time_ns, types, labelled))).decode()
    return {"labels": [{"name": name, "value": value} for name, value in labels.items()],
            "samples": [{"rawProfile": body}]}


def push_all(client, start_s):
    """Profiles of two services over several days, of several types and with all kinds of labels."""
    for number in range(PROFILES):
        time_ns = (start_s + STEP_S * number) * 10**9 + number * 1_234_567
        stacks = {("main", "work", "step_%d" % (number % 7)): (number + 1, 10_000 * number), ("main",): (1, 0)}
        pod = {"pod": ODD if number % 3 == 0 else "p%d" % (number % 3)}
        kinds = [({"__name__": "process_cpu", "service_name": "shop", **pod}, (("samples", "count"), ("cpu", "nanoseconds"))),
                 ({"__name__": "mutex", "service_name": "ns/shop", **pod}, LOCKS),
                 ({"__name__": "memory", "service_name": "shop"}, HEAP)]
        spans = [(("main", "work", "step_%d" % (number % 7)), (1, 7), {"profile_id": SPANS[number % 3]}),
                 (("main",), (2, 5), {"span_id": SPANS[1], "trace_id": TRACE}), (("main", "odd"), (1, 3), {"trace_id": TRACE})]
        request = {"series": [series(labels, time_ns, stacks, types, spans if number % 2 else ())
                              for labels, types in kinds]}
        status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps(request),
                                   {"Content-Type": "application/json"})
        check(status == 200, "push: %d %s", status, body)


def answers(client, start_ms, end_ms):
    """All that clients can query."""
    found = {kind: pprof.folded_json(client.merged_profile(kind, "{}", start_ms, end_ms)) for kind in TYPES}
    found["odd"] = client.merged_profile(DELAY, "{pod=%s}" % json.dumps(ODD, ensure_ascii=False), start_ms, end_ms)
    found["odd"] = pprof.folded_json(found["odd"])
    for name, fields in [(span, {"spanSelector": [span]}) for span in SPANS] + [("trace", {"traceIdSelector": [TRACE]})]:
        graph = client.ask("SelectMergeStacktraces", profileTypeID=SPACE, labelSelector="{}", start=start_ms, end=end_ms,
                           **fields).get("flamegraph", {})
        found[name] = int(graph.get("total", 0)), sorted(graph.get("names", []))
    sets = client.label_sets(["{}"], [], start_ms, end_ms)
    found["series"] = sorted(json.dumps(labels, sort_keys=True) for labels in sets)
    found["stats"] = client.ask("GetProfileStats")
    return found


def folded(lines):
    return {stack: int(value) for stack, value in (line.rsplit(" ", 1) for line in lines.decode().splitlines())}


def push_folder(port, folder, want):
    done = subprocess.run([flamegrid.binary(), "push", "--dir", folder, "--url", "http://127.0.0.1:%d" % port],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S)
    check(done.returncode == 0 and done.stdout.startswith(b"%d files sent" % want), "push: %s", done)


def compare(found, wanted):
    for what, want in wanted.items():
        check(found[what] == want, "%s: %s, not %s", what, str(found[what])[:500], str(want)[:500])


def check_merged(bucket, span, wanted):
    names = {stack: value for stack, value in wanted[DELAY].items() if value}
    check(folded(bucket.good("export", "{}", "--type", DELAY, "--format", "folded", *span)) == names, "folded")
    check(folded(bucket.good("export", "ns/shop.mutex_duration", "-ffolded", *span)) == names, "by a short type")
    body = gzip.decompress(bucket.good("export", "{}", "-t", "cpu", *span))
    check(pprof.read_totals(body) == [sum(wanted[CPU].values())], "pprof: %s", pprof.read_totals(body))


def check_faults(bucket, span, folder):
    bucket.bad(1, "has no profiles of {service_name=\"none\"} of tenant anonymous", "export", "none", *span)
    bucket.bad(1, "has no profiles", "export", "{}", "--type", CPU, "--tenant", "somebody", *span)
    bucket.bad(1, "has no profiles", "export", "none", "--split", "-o", os.path.join(folder, "none"), *span)
    bucket.bad(1, 'no profiles of the type wall of {service_name="shop"} from ', "export", "shop", "--type", "wall", *span)
    bucket.bad(1, "cannot write /dev/full", "export", "{}", "-t", CPU, "-o", "/dev/full", *span)
    bucket.bad(1, "cannot make /dev/null", "export", "{}", "--split", "-o", "/dev/null", *span)
    bucket.bad(2, "a SELECTOR has to follow", "export", *span)
    bucket.bad(2, "--split needs a folder", "export", "{}", "--split", *span)
    bucket.bad(2, "--split writes pprof", "export", "{}", "--split", "-o", folder, "--format", "folded", *span)
    bucket.bad(2, "it is pprof or folded", "export", "{}", "--format", "svg", *span)
    bucket.bad(2, "labels are written", "export", "{a=}", *span)
    bucket.bad(2, "is not before --until", "export", "{}", "--from", "now", "--until", "now-1h")
    bucket.bad(2, "unknown flag", "export", "{}", "--nothing", "1", *span)


def export_and_push_back(bucket, settings, folder):
    """bucket: the command; settings: of a server on the same bucket, without its data folder."""
    start_s = int(time.time()) // 86400 * 86400 - 5 * 86400
    start_ms, end_ms = start_s * 1000, (start_s + STEP_S * PROFILES) * 1000
    span = ["--from", str(start_s), "--until", str(start_s + STEP_S * PROFILES)]
    split = os.path.join(folder, "split")
    with flamegrid.Server(*settings) as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        push_all(client, start_s)
        wanted = answers(client, start_ms, end_ms)
        check(len(wanted["series"]) == 3 * 2 + 3 * 2 + 2 and len(wanted["odd"]) > 1, "%s", wanted)
        check(all(wanted[name][0] > 0 for name in [*SPANS, "trace"]), "spans: %s", wanted)
        status, body = server.operate("POST", "/ingester/flush")
        check(status == 200, "flush: %d %s", status, body)
        on_data = [] if "s3" in settings else ["--data", server.data]

        class Here:  # the command on this server's bucket
            good = staticmethod(lambda *arguments: bucket.good(*arguments, *on_data))
            bad = staticmethod(lambda code, err, *arguments: bucket.bad(code, err, *arguments, *on_data))

        check_merged(Here, span, wanted)
        check_faults(Here, span, folder)
        said = Here.good("export", "{}", "--split", "-o", split, *span)
        check(said == b"%d profiles written\n" % (3 * PROFILES), "%s", said)
        Here.good("export", "shop.alloc_space", "--split", "-o", os.path.join(folder, "space"), *span)
        push_folder(server.port, split, 3 * PROFILES)
        compare(answers(client, start_ms, end_ms), wanted)  # each counts once
    with flamegrid.Server() as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        push_folder(server.port, split, 3 * PROFILES)
        compare(answers(client, start_ms, end_ms), wanted)
    with flamegrid.Server() as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        push_folder(server.port, os.path.join(folder, "space"), PROFILES)
        found = answers(client, start_ms, end_ms)
        check(found[SPACE] == wanted[SPACE] and not found[INUSE], "only one type: %s", found)
