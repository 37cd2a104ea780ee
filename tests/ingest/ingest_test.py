#!/usr/bin/env python3
"""Profiles on their way in: limits and rules of tenants, duplicates, codings, protocols.

    ingest_test.py [-k REGEX]
"""

import gzip
import http.client
import json
import os
import re
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import edges  # noqa: E402
import extremes  # noqa: E402
import flamegrid  # noqa: E402
import otlp  # noqa: E402
import pprof  # noqa: E402
import tenants  # noqa: E402
import unsymbolised  # noqa: E402
import usage  # noqa: E402
from flamegrid import check  # noqa: E402

TIMEOUT_S = 60
TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
STACKS = {("main", "work"): (3, 30_000_000), ("main", "idle"): (1, 10_000_000)}
TENANTS = """
overrides:
  few-labels: {max_label_names_per_series: 3}
  small: {max_profile_size_bytes: 1KiB, ingestion_body_limit_mb: 0.002}
  slow: {ingestion_rate_mb: 0.0001, ingestion_burst_size_mb: 0.001}
  vain-bomb: {ingestion_rate_mb: 0.5, ingestion_burst_size_mb: 2}
  vain-text: {ingestion_rate_mb: 0.5, ingestion_burst_size_mb: 2}
  vain-json: {ingestion_rate_mb: 0.5, ingestion_burst_size_mb: 2}
  vain-call: {ingestion_rate_mb: 0.5, ingestion_burst_size_mb: 2}
  monthly: {ingestion_limit: {period_type: month, period_limit_mb: 0.01}}
  recent: {reject_older_than: 1h}
  brief: {retention_period: 7d}
  narrow: {max_series_per_tenant: 2}
  rules:
    ingestion_relabeling_rules:
      - {source_labels: [env], regex: test, action: drop}
      - {regex: pod_.*, action: labeldrop}
    sample_type_relabeling_rules:
      - {source_labels: [__type__], regex: cpu, action: keep}
"""


class Server(flamegrid.Server):
    """A server with tenants, and how to talk to it."""

    def __init__(self):
        super().__init__()
        self.tenants_path = os.path.join(self.folder, "tenants.yaml")
        self.write_tenants(TENANTS)
        self.arguments = ("--multitenancy_enabled=true", "--tenants_file=" + self.tenants_path,
                          "--tenants_reload=100ms")

    def write_tenants(self, text):
        path = self.tenants_path + ".new"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path, self.tenants_path)

    def send(self, path, body, tenant, headers=None):
        """Returns the status and the answer as text."""
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.port, path), data=body,
                                         headers={"X-Scope-OrgID": tenant, **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace")

    def push(self, tenant, *series, headers=None):
        """series: (labels, [pprof, ...])."""
        return self.send("/push.v1.PusherService/Push", push_request(*series), tenant,
                         {"Content-Type": "application/proto", **(headers or {})})

    def ingest(self, tenant, body, name="app", headers=None, **parameters):
        query = urllib.parse.urlencode({"name": name, "format": "pprof", **parameters})
        return self.send("/ingest?" + query, body, tenant, headers)

    def ask(self, method, tenant, **fields):
        now = int(time.time() * 1000)
        fields = {"start": now - 7 * 86_400_000, "end": now + 3_600_000, **fields}
        status, text = self.send("/querier.v1.QuerierService/" + method, json.dumps(fields).encode(), tenant,
                                 {"Content-Type": "application/json"})
        check(status == 200, "%s: %d %s", method, status, text)
        return json.loads(text)

    def total(self, tenant, selector="{}", type_id=TYPE):
        answer = self.ask("SelectMergeStacktraces", tenant, profileTypeID=type_id, labelSelector=selector)
        return int(answer.get("flamegraph", {}).get("total", 0))

    def label_names(self, tenant):
        return self.ask("LabelNames", tenant).get("names", [])

    def metric(self, name):
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.metrics().splitlines() if line.startswith(name))


def push_request(*series):
    out = b""
    for labels, profiles in series:
        content = b"".join(pprof.message(1, pprof.message(1, name.encode()) + pprof.message(2, value.encode()))
                           for name, value in labels.items())
        content += b"".join(pprof.message(2, pprof.message(1, profile)) for profile in profiles)
        out += pprof.message(1, content)
    return out


def labels(service="app", **more):
    return {"__name__": "process_cpu", "service_name": service, **more}


def profile(seconds_ago=60, stacks=None):
    return pprof.make(stacks or STACKS, time.time_ns() - seconds_ago * 1_000_000_000)


def otlp_request():
    """One sample of a CPU profile, in OTLP 1.10."""
    kind = pprof.number(1, 1) + pprof.number(2, 2), pprof.number(1, 3) + pprof.number(2, 4)
    sample = pprof.packed(2, [1]) + pprof.packed(4, [3])
    content = (pprof.message(1, kind[0]) + pprof.message(2, sample) + otlp.field(3, 1, struct.pack("<Q", time.time_ns()))
               + pprof.message(5, kind[1]) + pprof.number(6, 10_000_000))
    strings = ("", "samples", "count", "cpu", "nanoseconds", "thread.name", "main")
    attribute = pprof.number(1, 5) + pprof.message(2, pprof.message(1, b"main"))
    dictionary = (b"".join(pprof.message(5, text.encode()) for text in strings)
                  + pprof.message(6, b"") + pprof.message(6, attribute))
    return pprof.message(1, pprof.message(2, pprof.message(2, content))) + pprof.message(2, dictionary)


# ---- the same again ----


def case_sent_twice_counts_once(server):
    body = profile()
    for _ in range(3):
        check(server.push("twice", (labels(), [body]))[0] == 200, "refused")
        check(server.ingest("twice", body)[0] == 200, "refused")
    # By /ingest it has another label (pyroscope_spy), so it is another profile.
    check(server.total("twice") == 80_000_000, "%d", server.total("twice"))


def case_equal_ones_of_one_upload_count_each(server):
    body = profile()
    for _ in range(2):
        check(server.push("equal", (labels(), [body, body]), (labels(), [body]))[0] == 200, "refused")
    check(server.total("equal") == 120_000_000, "%d", server.total("equal"))


def case_a_key_makes_the_same_of_different_bodies(server):
    for seconds in (61, 62):
        status, text = server.ingest("key", pprof.make({("main",): (1, seconds)}, 1_750_000_000 * 10**9),
                                     headers={"Idempotency-Key": "k"}, **{"from": "1750000000", "until": "1750000010"})
        check(status == 200, "%s", text)
    answer = server.ask("SelectMergeStacktraces", "key", profileTypeID=TYPE, labelSelector="{}",
                        start=1_749_999_000_000, end=1_750_001_000_000)
    check(answer["flamegraph"]["total"] == "61", "%s", answer)


def case_keys_count_whole(server):
    """Each byte of a key counts, however long it is; the same key again is the same profile."""
    keys = []
    for size in (1, 199, 200, 201, 255, 256, 5000, 20000):
        base = "k" * (size - 1)
        keys += [base + "a", base + "b"] + (["x" + base, base[:size // 2] + "y" + base[size // 2:]] if size > 1 else [])
    keys += ["k/1", "k"]  # what a second batch of a request with the key "k" must not be taken for
    keys = sorted(set(keys))
    body = pprof.make({("main",): (1, 7)}, 1_750_000_000 * 10**9)
    for again in range(2):
        for key in keys:
            status, text = server.ingest("long-keys", body, headers={"Idempotency-Key": key},
                                         **{"from": "1750000000", "until": "1750000010"})
            check(status == 200, "%d %s", status, text)
        answer = server.ask("SelectMergeStacktraces", "long-keys", profileTypeID=TYPE, labelSelector="{}",
                            start=1_749_999_000_000, end=1_750_001_000_000)
        check(int(answer["flamegraph"]["total"]) == 7 * len(keys), "%d: %s of %d keys", again, answer["flamegraph"]["total"],
              len(keys))


def case_batches_of_one_key_are_several(server):
    """A key applies to the whole request: all its profiles are stored."""
    bodies = [profile(60), profile(61)]
    for _ in range(2):
        status, text = server.push("batch-keys", *((labels("s%d" % i), bodies[:1]) for i in range(3)), (labels("s0"), bodies[1:]),
                                   headers={"Idempotency-Key": "k" * 300})
        check(status == 200, "%d %s", status, text)
    check(server.total("batch-keys") == 160_000_000, "%d", server.total("batch-keys"))


def case_a_key_that_is_too_long_is_refused(server):
    """Long keys are not cut: a cut key could be the key of another profile."""
    for size in (40_000, 200_000):
        status, text = server.ingest("longest-key", profile(), headers={"Idempotency-Key": "k" * size})
        check(status == 431, "%d %s", status, text)
        done = subprocess.run(
            ["curl", "-sS", "--noproxy", "*", "--http2-prior-knowledge", "-o", os.devnull, "-w", "%{http_code}", "--max-time", "60",
             "-H", "@-", "-H", "X-Scope-OrgID: longest-key", "--data", "main 1",
             "http://127.0.0.1:%d/ingest?name=app&from=now-10s" % server.port],
            input=b"Idempotency-Key: " + b"k" * size, capture_output=True, check=False)
        check(done.stdout != b"200", "HTTP/2: %s", done)
    check(server.total("longest-key") == 0, "something was stored")


# ---- several at a time ----


def case_one_bad_profile_of_three(server):
    status, text = server.push("partly", (labels(), [profile(60), b"\x1f\x8bnonsense"]), (labels("other"), [profile(70)]))
    check(status == 400, "%d %s", status, text)
    check(server.total("partly") == 80_000_000, "%d", server.total("partly"))


def case_services_of_one_push(server):
    check(server.push("services", *((labels("s%d" % i), [profile(60 + i)]) for i in range(20)))[0] == 200, "refused")
    for i in (0, 7, 19):
        total = server.total("services", '{service_name="s%d"}' % i)
        check(total == 40_000_000, "s%d: %d", i, total)


# ---- codings and protocols ----


def case_codings(server):
    body = profile()
    zstd = subprocess.run(["zstd", "-c"], input=body, capture_output=True, check=True).stdout
    codings = {"gzip": gzip.compress(body), "zstd": zstd, "identity": body}
    for i, (coding, bytes_) in enumerate(codings.items()):
        status, text = server.ingest("codings", bytes_, name="app{i=%d}" % i, headers={"Content-Encoding": coding})
        check(status == 200, "%s: %d %s", coding, status, text)
        total = server.total("codings", '{i="%d"}' % i)
        check(total == 40_000_000, "%s: %d", coding, total)
    status, text = server.ingest("codings", body, headers={"Content-Encoding": "br"})
    check(status == 501 and "br" in text, "%d %s", status, text)


def case_grpc(server):
    message = push_request((labels(), [profile()]))
    frame = b"\x01" + struct.pack(">I", len(gzip.compress(message))) + gzip.compress(message)
    for body, want in ((frame, "grpc-status: 0"), (frame[:20], "grpc-status: 3"),
                       (b"\0\0\0\0\0", "grpc-message: no profiles received")):
        done = subprocess.run(
            ["curl", "-sS", "--noproxy", "*", "--http2-prior-knowledge", "-v", "-o", os.devnull, "--max-time", "60",
             "-H", "content-type: application/grpc", "-H", "te: trailers", "-H", "grpc-encoding: gzip",
             "-H", "X-Scope-OrgID: grpc", "--data-binary", "@-",
             "http://127.0.0.1:%d/push.v1.PusherService/Push" % server.port], input=body, capture_output=True, check=False)
        check(want.encode() in done.stderr, "%s: %s", want, done.stderr)
    check(server.total("grpc") == 40_000_000, "%d", server.total("grpc"))


# ---- releases of OTLP ----


def export(server, tenant, request):
    return server.send("/v1development/profiles", request, tenant, {"Content-Type": "application/x-protobuf"})


def case_otlp_releases_say_the_same(server):
    """A request that the Collector made, as three releases of opentelemetry-proto write it, packed and not."""
    with open(os.path.join(flamegrid.shared_folder("corpus"), "otlp", "made-collector-cpu.pb"), "rb") as file:
        request = file.read()
    times = [time_ns // 1_000_000 for time_ns in otlp.times_ns(request)]
    span = {"start": min(times) - 60_000, "end": max(times) + 60_000}
    metrics = 'flamegrid_otlp_dialect_total{version="%s"}'
    pictures = []
    for version in ("1.10", "1.9", "1.8"):
        for unpacked in (False, True):
            tenant = "otlp-%s-%s" % (version, unpacked)
            before = server.metric(metrics % version)
            status, text = export(server, tenant, otlp.rewrite(request, version, unpacked))
            check(status == 200 and not text, "%s: %d %s", tenant, status, text)
            check(server.metric(metrics % version) == before + 1, "%s: not counted", tenant)
            pictures.append([server.ask("SelectMergeStacktraces", tenant, profileTypeID=TYPE, labelSelector="{}", **span),
                             server.ask("SelectMergeProfile", tenant, profile_typeID=TYPE, labelSelector="{}", **span),
                             server.ask("Series", tenant, matchers=[], **span)])
    check(int(pictures[0][0]["flamegraph"]["total"]) > 10**9, "%s", pictures[0][0]["flamegraph"]["total"])
    for picture in pictures[1:]:
        check(picture == pictures[0], "not the same as of 1.10")


def case_otlp_of_two_releases_is_refused(server):
    old = otlp.rewrite(otlp_request(), "1.9")
    status, text = export(server, "otlp-mixed", old + otlp_request())
    check(status == 400 and "resource 0, scope 0, profile 0, sample 0 is of OTLP 1.8 or 1.9" in text, "%d %s", status, text)
    check(server.total("otlp-mixed") == 0, "something was stored")


def case_senders_of_old_otlp_are_logged_once(server):
    for version, times in (("1.10", 0), ("1.9", 1)):
        for _ in range(3):
            status, text = export(server, "otlp-log-" + version, otlp.rewrite(otlp_request(), version))
            check(status == 200, "%d %s", status, text)
        lines = [line for line in server.log_tail(10**6).splitlines() if "tenant=otlp-log-" + version in line]
        check(len(lines) == times, "%s", lines)
    check("sender=127.0.0.1" in lines[0] and "version=1.9" in lines[0], "%s", lines)


# ---- frames without names ----


def case_frames_without_names(_):
    unsymbolised.frames_without_names()


# ---- extreme values ----


def case_sums_beyond_64_bits_saturate(_):
    extremes.sums_beyond_64_bits_saturate()


def case_a_value_that_does_not_fit_is_refused(server):
    """One profile's own: its sender can be told."""
    most = (1 << 63) - 1
    twice = pprof.make({("main",): (1, most)}, time.time_ns(), labelled=[(("main",), (1, 1), {})])
    status, text = server.push("extreme", (labels(), [twice]))
    check(status == 400 and "exceeds 64 bits" in text, "%d %s", status, text)


# ---- limits and rules of tenants ----


def case_no_tenant(server):
    for tenant in ("", "a b", ".."):
        status, _ = server.push(tenant, (labels(), [profile()]))
        check(status == 401, "%r: %d", tenant, status)


def case_label_limits(server):
    status, text = server.push("few-labels", (labels(a="1", b="2"), [profile()]))
    check(status == 400 and "limit 3 (max_label_names_per_series)" in text, "%d %s", status, text)
    check(server.push("few-labels", (labels(a="1"), [profile()]))[0] == 200, "refused")
    check(server.push("others", (labels(a="1", b="2"), [profile()]))[0] == 200, "refused")


def case_size_limits(server):
    large = profile(stacks={("main", "f" * 5000): (1, 1)})
    status, text = server.push("small", (labels(), [gzip.compress(large)]))
    check(status == 400 and "max_profile_size_bytes" in text, "%d %s", status, text)
    status, text = server.ingest("small", large)
    check(status == 413 and "ingestion_body_limit_mb" in text, "%d %s", status, text)


def case_rate_limit(server):
    """A profile of some 250 bytes: four may come at a time, and a hundred bytes a second after that."""
    statuses = [server.push("slow", (labels(), [profile(i)])) for i in range(60, 80)]
    refused = [text for status, text in statuses if status == 429]
    check(statuses[0][0] == 200 and refused, "%s", statuses)
    check("ingestion_rate_mb" in refused[0], "%s", refused[0])
    check(server.total("slow") == 40_000_000 * sum(status == 200 for status, _ in statuses), "not what was taken")


def case_messages_that_cannot_be_read_count_for_the_rate(server):
    """Each is a few kilobytes and decompresses to megabytes, which the rate counts: else they would cost their sender nothing."""
    push = "/push.v1.PusherService/Push"
    export_call = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
    for tenant, path, kind, message in (("vain-bomb", push, "proto", bytes(48 << 20)),
                                        ("vain-call", export_call, "proto", bytes(48 << 20)),
                                        ("vain-text", push, "proto", b"\xff" * (8 << 20)),
                                        ("vain-json", push, "json", b'{"series":[' + b"{}," * (1 << 20) + b"]}")):
        headers, body, answers = {"Content-Type": "application/" + kind, "Content-Encoding": "gzip"}, gzip.compress(message), []
        while not answers or ("limits.ingestion_rate_mb" not in answers[-1][1] and len(answers) < 20):
            answers.append(server.send(path, body, tenant, headers))
        check(1 < len(answers) < 20 and answers[0][0] in (400, 429), "%s: %s", tenant, answers)


def case_limit_of_a_period(server):
    """Ten profiles of 1,088 bytes fill 0.01 MiB; what is near is told from four fifths on; a repeated upload does not count."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    headers = {"X-Scope-OrgID": "monthly"}
    statuses, told, begin = [], [], int(time.time()) - 3600
    for number in range(24):
        body = "main;%s 1\n" % ("%02d" % (number // 2) * 540)  # each twice
        at = begin + number // 2
        connection.request("POST", "/ingest?name=monthly&from=%d&until=%d" % (at, at + 10), body.encode(), headers)
        response = connection.getresponse()
        statuses.append(response.status)
        told.append(response.headers["RateLimit"])
        text = response.read().decode()
        if response.status == 429:
            break
    check(statuses == 19 * [200] + [429], "%s", statuses)
    check("limit of 10.2 KiB/month reached" in text and "monthly" in text and "limits.ingestion_limit" in text, "%s", text)
    check(0 < int(response.headers["Retry-After"]) <= 3600, "%s", response.headers)
    check(response.headers["RateLimit-Policy"].startswith('"ingestion_limit";q=10485;qu="content-bytes";w='), "%s", response.headers)
    # What an answer tells was counted before its upload.
    check(told[:15] == 15 * [None] and all(line.startswith('"ingestion_limit";r=') for line in told[15:]), "%s", told)
    check(int(re.search(r"r=(\d+)", told[15])[1]) == 10485 - 8 * 1088 and ";r=0;" in told[19], "%s", told)
    check(server.push("others", (labels(), [profile()]))[0] == 200, "others refused")


def case_window(server):
    status, text = server.push("recent", (labels(), [profile(7200)]))
    check(status == 400 and "outside of ingestion window" in text and "reject_older_than" in text, "%d %s", status, text)
    status, text = server.push("recent", (labels(), [profile(-7200)]))
    check(status == 400 and "outside of ingestion window" in text, "%d %s", status, text)
    check(server.push("recent", (labels(), [profile(1800)]))[0] == 200, "refused")
    check(server.push("others", (labels(), [profile(300 * 86400)]))[0] == 200, "refused")


def case_expired(server):
    """A profile older than the retention of its tenant is stored, and the response says so."""
    headers = {"X-Scope-OrgID": "brief", "Content-Type": "application/octet-stream"}
    before = server.metric("flamegrid_distributor_profiles_expired_total")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    for age_s, told in ((8 * 86400, "1"), (6 * 86400, None)):
        connection.request("POST", "/ingest?name=expired&format=pprof", profile(age_s), headers)
        response = connection.getresponse()
        check((response.status, response.headers["X-Flamegrid-Expired"]) == (200, told), "%d %s", response.status,
              response.headers)
        response.read()
    connection.close()
    check(server.metric("flamegrid_distributor_profiles_expired_total") == before + 1, "not counted")
    check("limits.retention_period" in server.log_tail(), "%s", server.log_tail())


def case_a_clock_of_1970_is_repaired(server):
    before = server.metric("flamegrid_distributor_clocks_repaired_total")
    check(server.push("1970", (labels(), [pprof.make(STACKS, 5)]))[0] == 200, "refused")
    check(server.total("1970") == 40_000_000, "%d", server.total("1970"))
    check(server.metric("flamegrid_distributor_clocks_repaired_total") == before + 1, "not counted")


def case_series_limit(server):
    for pod in ("a", "b"):
        check(server.push("narrow", (labels(pod=pod), [profile()]))[0] == 200, "refused")
    status, text = server.push("narrow", (labels(pod="c"), [profile()]))
    check(status == 429 and "max_series_per_tenant" in text, "%d %s", status, text)
    check(server.push("narrow", (labels(pod="a"), [profile(50)]))[0] == 200, "refused")


def case_rules(server):
    check(server.push("rules", (labels(env="test"), [profile()]))[0] == 200, "a dropped profile is no error")
    check(server.total("rules") == 0, "not dropped")
    for pod in ("a", "b"):
        check(server.push("rules", (labels(env="prod", pod_id=pod), [profile(60 if pod == "a" else 61)]))[0] == 200, "refused")
    check(server.total("rules") == 80_000_000, "%d", server.total("rules"))
    check("pod_id" not in server.label_names("rules") and "env" in server.label_names("rules"), "labels")
    types = [kind["ID"] for kind in server.ask("ProfileTypes", "rules").get("profileTypes", [])]
    check(types == [TYPE], "%s", types)


def case_limits_change_without_restart(server):
    series = (labels(a="1", b="2", c="3"), [profile()])
    check(server.push("changing", series)[0] == 200, "refused")
    server.write_tenants(TENANTS + "  changing: {max_label_names_per_series: 2}\n")
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while server.push("changing", series)[0] == 200:
            check(time.monotonic() < deadline, "the new limit never held")
            time.sleep(0.05)
    finally:
        server.write_tenants(TENANTS)


def case_several_tenants_are_read_together(server):
    for tenant in ("left", "right"):
        check(server.push(tenant, (labels(), [profile()]))[0] == 200, "refused")
    check(server.total("left|right") == 80_000_000, "%d", server.total("left|right"))
    status, text = server.push("left|right", (labels(), [profile()]))
    check(status == 401 and "multiple org IDs" in text, "%d %s", status, text)


def niceness(pid):
    """{name of a thread: its niceness} of a process."""
    found = {}
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, thread), encoding="utf-8") as file:
            found[file.read().strip()] = os.getpriority(os.PRIO_PROCESS, int(thread))
    return found


def case_pushes_come_before_builds_flushes_and_merges(server):
    found, own = niceness(server.process.pid), os.getpriority(os.PRIO_PROCESS, server.process.pid)
    low = {"segments", "compactor", "rocksdb:high", "rocksdb:low", "front-bulk-0"}
    check({name for name, nice in found.items() if nice > own} >= low, "%s", found)
    check(all(found[name] == own for name in ("http-0", "committer", "front-ingest-0", "inges-ingest-0")), "%s", found)


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    cases = [(name[len("case_"):], case) for name, case in globals().items() if name.startswith("case_")]
    cases = [(name, case) for name, case in cases if tally.wants(name)]
    with Server() as server:
        if cases:
            server.start().wait_ready()
        for name, case in cases:
            tally.run(name, case, server)
        if cases and server.terminate() != 0:
            tally.fail("server", server.log_tail())
    edges.run(tally)
    tenants.run(tally)
    usage.run(tally)
    tally.finish()


if __name__ == "__main__":
    main()
