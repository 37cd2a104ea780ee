"""What a tenant's profiles cost, for bills: wire bytes, raw bytes and samples, from the request to the manifest."""

import base64
import gzip
import json
import os
import subprocess
import time
import urllib.parse

import flamegrid
import pprof
from flamegrid import check

STACKS = {("main", "work"): (3, 30_000_000), ("main", "idle"): (1, 10_000_000)}
SETTINGS = ("--multitenancy_enabled=true", "--ingester.segments.poll", "1s", "--compactor.hour_delay", "1d")


def corpus(*words):
    with open(os.path.join(flamegrid.shared_folder("corpus"), *words), "rb") as file:
        return file.read()


class Sender:
    """Sends as one tenant; each tenant has a series of its own."""

    def __init__(self, server, tenant):
        self.client = flamegrid.Client(server.port, headers={"X-Scope-OrgID": tenant})

    def send(self, target, body, **headers):
        status, text = self.client.send("POST", target, body, {name.replace("_", "-"): value for name, value in headers.items()})
        check(status == 200, "%s: %d %s", target, status, text)

    def ingest(self, body, form="pprof", **headers):
        now = int(time.time())
        query = {"name": "shop", "format": form, "from": now - 10, "until": now}
        self.send("/ingest?" + urllib.parse.urlencode(query), body, **headers)


def send_all(server):
    """Returns {tenant: (profiles or None, samples or None, wire bytes, raw bytes)} of the pushes."""
    raw = pprof.make(STACKS, time.time_ns())
    packed = gzip.compress(raw)
    found = {}

    Sender(server, "plain").ingest(raw)
    found["plain"] = (1, 2, len(raw), len(raw))

    Sender(server, "packed").ingest(packed)
    found["packed"] = (1, 2, len(packed), len(raw))

    for _ in range(3):  # sent again, it is stored and counts once
        Sender(server, "again").ingest(packed)
    found["again"] = (1, 2, len(packed), len(raw))

    twice = gzip.compress(raw)  # the request's coding, and none of the profile's
    Sender(server, "coded").ingest(twice, content_encoding="gzip")
    found["coded"] = (1, 2, len(twice), len(raw))

    labelled = [(stack, values, {"endpoint": "e%d" % n}) for n in range(7) for stack, values in STACKS.items()]
    split = pprof.make({}, time.time_ns(), labelled=labelled)
    Sender(server, "split").ingest(split)
    found["split"] = (None, None, len(split), len(split))

    recording = corpus("jfr", "made-agent-two-chunks.jfr")
    Sender(server, "jfr").ingest(recording, "jfr")
    found["jfr"] = (None, None, len(recording), len(recording))
    Sender(server, "jfr-packed").ingest(gzip.compress(recording), "jfr")
    found["jfr-packed"] = (None, None, len(gzip.compress(recording)), len(recording))

    request = corpus("otlp", "made-collector-cpu.pb")
    Sender(server, "otlp").send("/v1development/profiles", request, content_type="application/x-protobuf")
    found["otlp"] = (None, None, len(request), len(request))
    coded = gzip.compress(request)
    Sender(server, "otlp-packed").send("/v1development/profiles", coded, content_type="application/x-protobuf",
                                       content_encoding="gzip")
    found["otlp-packed"] = (None, None, len(coded), len(request))
    return found


def send_two_profiles(server):
    """push.v1 with two profiles of different sizes: each counts its part of the body."""
    bodies = [gzip.compress(pprof.make({("main", "f%d" % n): (1, 1) for n in range(count)}, time.time_ns()), mtime=0)
              for count in (2, 400)]
    series = [{"labels": [{"name": "__name__", "value": "process_cpu"}, {"name": "service_name", "value": "s%d" % n}],
               "samples": [{"rawProfile": base64.b64encode(body).decode()}]} for n, body in enumerate(bodies)]
    body = json.dumps({"series": series}).encode()
    Sender(server, "pushed").send("/push.v1.PusherService/Push", body, content_type="application/json")
    return bodies, body


def inspect(server, name):
    done = subprocess.run([flamegrid.binary(), "bucket", "inspect", name, "--data", server.data], stdout=subprocess.PIPE,
                          check=True)
    return done.stdout.decode()


def manifest(server):
    return json.loads(inspect(server, "manifests/l0"))


def usage_of(parts, tenant):
    keys = ("profiles", "usage_profiles", "usage_samples", "usage_wire_bytes", "usage_raw_bytes")
    return tuple(sum(part[key] for part in parts if part["tenant"] == tenant) for key in keys)


def usage_reaches_the_manifest():
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        sent = send_all(server)
        bodies, body = send_two_profiles(server)
        status, text = server.operate("POST", "/ingester/flush")
        check(status == 200, "flush: %d %s", status, text)
        segments = manifest(server)["segments"]
        parts = [part for segment in segments for part in segment["tenants"]]
        for tenant, (profiles, samples, wire, raw) in sent.items():
            got = usage_of(parts, tenant)
            check(got[0] == got[1] > 0 and (profiles is None or got[0] == profiles), "%s: %s", tenant, got)
            check(samples is None or got[2] == samples, "%s: %s samples, sent were %s", tenant, got[2], samples)
            check(got[3:] == (wire, raw), "%s: wire and raw bytes %s, sent were %s", tenant, got[3:], (wire, raw))
        services = {}
        for segment in segments:
            lines = inspect(server, segment["object"]).splitlines()
            for at, line in enumerate(lines):
                if line.startswith("pushed/"):
                    numbers = [int(word) for word in lines[at + 1].replace(",", "").replace(":", "").split() if word.isdigit()]
                    services[line.split(":")[0]] = numbers
        check(sorted(services) == ["pushed/s0", "pushed/s1"], "%s", services)
        # JSON makes the body longer than the profiles are: each has the part of it that is its own.
        wires = [services["pushed/s%d" % n][1] for n in range(2)]
        check(sum(wires) <= len(body) and sum(wires) > len(body) * 0.7, "%s of %d", wires, len(body))
        check(abs(wires[1] * len(bodies[0]) / (wires[0] * len(bodies[1])) - 1) < 0.02, "%s, profiles have %s", wires,
              list(map(len, bodies)))
        check([services["pushed/s%d" % n][2] for n in range(2)] == [len(gzip.decompress(part)) for part in bodies], "%s",
              services)
        check(server.terminate() == 0, "%s", server.log_tail())


def run(tally):
    tally.run("usage reaches the manifest", usage_reaches_the_manifest)
