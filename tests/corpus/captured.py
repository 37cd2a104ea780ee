"""Requests of real clients, sent again as they were captured.

The corpus keeps them as NNNN.request.txt (a comment, the request line, the headers) and NNNN.body, and
one connection of a gRPC client as its bytes. Times are left as they are: profiles of any age are taken.
"""

import gzip
import re
import socket
import struct
import subprocess
import tempfile

import flamegrid
import pprof
from flamegrid import check

FORMATS = ("http-capture", "tcp-capture")
TIMEOUT_S = 60
CHUNK_BYTES = 8192
CPU_PERIOD_NS = 10_000_000  # of every agent that was captured

# What the manifest counts otherwise than it is stored. Of OTLP, samples are stored as the time they stand
# for; the recordings of Java have events, one for each period.
STORED_AS = {
    "jdk.ExecutionSample": ("cpu/nanoseconds", CPU_PERIOD_NS),
    "otlp samples/count": ("cpu/nanoseconds", CPU_PERIOD_NS),
}

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER_BYTES = 9
DATA, HEADERS, RST_STREAM, GOAWAY = 0, 1, 3, 7
END_STREAM = 1


def read_request(row):
    """(method, target, version, headers) and the body."""
    with open(row["path"].removesuffix(".body") + ".request.txt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    with open(row["path"], "rb") as file:
        body = file.read()
    method, target, version = lines[1].split(" ")
    headers = dict(line.split(": ", 1) for line in lines[2:] if line and not line.startswith(":"))
    return method, target, version, headers, body


def chunked(body):
    chunks = [body[at:at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def send(client, port, row):
    """Sends the request as the client did; raises unless it was stored."""
    method, target, version, headers, body = read_request(row)
    if version == "HTTP/2":
        return send_grpc(client, port, target, headers, body)
    if headers.get("Transfer-Encoding") == "chunked":
        body = chunked(body)
    status, answer = client.send(method, target, body, headers)
    check(status == 200, "status %d: %s", status, answer[:200])


def send_grpc(client, port, target, headers, body):
    """By curl, as Python's library has no HTTP/2. The message was kept without its frame, and is sent as
    gRPC clients send it: compressed."""
    message = gzip.compress(body)
    headers = {**headers, **client.headers, "te": "trailers", "grpc-encoding": "gzip"}
    options = [word for name, value in headers.items() for word in ("-H", "%s: %s" % (name, value))]
    with tempfile.NamedTemporaryFile() as file:
        file.write(struct.pack(">BI", 1, len(message)) + message)
        file.flush()
        done = subprocess.run(
            ["curl", "--silent", "--show-error", "--http2-prior-knowledge", "--dump-header", "-", "--output",
             "/dev/null", *options, "--data-binary", "@" + file.name, "http://127.0.0.1:%d%s" % (port, target)],
            capture_output=True, timeout=TIMEOUT_S)
    check(done.returncode == 0, "curl: %s", done.stderr)
    check(b"grpc-status: 0\r\n" in done.stdout, "%s", done.stdout)


def frames(data):
    """(type, flags, bytes of the whole frame) of what HTTP/2 has after the preface."""
    at = 0
    while at + FRAME_HEADER_BYTES <= len(data):
        size = FRAME_HEADER_BYTES + int.from_bytes(data[at:at + 3], "big")
        yield data[at + 3], data[at + 4], data[at:at + size]
        at += size


def send_connection(port, row):
    """The bytes of one client: up to the end of its request, then, once that is answered, its farewell."""
    with open(row["path"], "rb") as file:
        data = file.read()
    check(data.startswith(PREFACE), "no preface")
    request, farewell = PREFACE, b""
    asked = False
    for kind, flags, frame in frames(data[len(PREFACE):]):
        if asked:
            farewell += frame
        else:
            request += frame
        asked = asked or (kind == DATA and flags & END_STREAM)
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(request)
        answer, ended = b"", False
        while not ended:
            received = connection.recv(65536)
            check(received, "the connection was closed after %s", answer)
            answer += received
            for kind, flags, frame in frames(answer):
                check(kind not in (RST_STREAM, GOAWAY), "refused with %s", frame)
                ended = ended or (kind == HEADERS and flags & END_STREAM)
        connection.sendall(farewell)


def stored(client, selector, range_ms):
    """{"type/unit": total}, and {("type/unit", function): total} of the drivers' two functions."""
    totals, burnt = {}, {}
    for series in client.label_sets([selector], ["__profile_type__"], *range_ms):
        profile_type = series["__profile_type__"]
        kind = "/".join(profile_type.split(":")[1:3])
        merged = client.merged_profile(profile_type, selector, *range_ms)
        totals[kind] = totals.get(kind, 0) + pprof.total_json(merged)
        for stack, value in pprof.folded_json(merged).items():
            for function in ("burn_alpha", "burn_beta"):
                if function in stack:
                    burnt[kind, function] = burnt.get((kind, function), 0) + value
    return totals, burnt


def expected(row):
    """{"type/unit": total}, without those that are zero."""
    if row["types"] != "see totals":
        pairs = zip(row["types"].split(), row["totals"].split())
    elif row["notes"] == "JSON":  # totals without names, of the same profile as the capture before it
        pairs = zip(("samples/count", "cpu/nanoseconds"), re.findall(r"\d+", row["totals"]))
    else:
        pairs = (word.split("=") for word in row["totals"].split())
    totals = {}
    for kind, value in pairs:
        kind = kind.rpartition(":")[2]  # some have the name before the type
        if "/otlp-" in row["file"] and kind == "samples/count":
            kind = "otlp " + kind
        kind, factor = STORED_AS.get(kind, (kind, 1))
        totals[kind] = totals.get(kind, 0) + factor * int(value)
    return {kind: total for kind, total in totals.items() if total}


def expected_burnt(row):
    burnt = {}
    for alpha, beta, kind in re.findall(r"burn_alpha (\d+) burn_beta (\d+) of (\S+?);?(?: |$)", row["notes"]):
        for function, value in (("burn_alpha", alpha), ("burn_beta", beta)):
            burnt[kind, function] = burnt.get((kind, function), 0) + int(value)
    return burnt


def case(port, client, selector, range_ms, row):
    """client and selector find what this row stores, and nothing else."""
    if row["format"] == "tcp-capture":
        send_connection(port, row)
    else:
        send(client, port, row)
    totals, burnt = stored(client, selector, range_ms)
    check(totals == expected(row), "stored %s, expected are %s", totals, expected(row))
    for key, want in expected_burnt(row).items():
        check(burnt.get(key) == want, "%s: %s instead of %d", key, burnt.get(key), want)


def run(tally, single_port, rows, range_ms):
    """Each request as a tenant of its own, as one client sends many for the same service. A connection's
    bytes name no tenant: they go to the server without tenants, at single_port."""
    rows = [row for row in rows if tally.wants(row["file"])]
    if not rows:
        return
    with flamegrid.Server("--multitenancy-enabled=true") as server:
        server.start().wait_ready()
        for row in rows:
            if row["format"] == "tcp-capture":
                client = flamegrid.Client(single_port, TIMEOUT_S)
                tally.run(row["file"], case, single_port, client, '{service_name="ride.share.otel"}', range_ms, row)
            else:
                tenant = re.sub(r"[^a-z0-9]+", "-", row["file"])
                client = flamegrid.Client(server.port, TIMEOUT_S, {"X-Scope-OrgID": tenant})
                tally.run(row["file"], case, server.port, client, "{}", range_ms, row)
        tally.run("stops cleanly (tenants)", lambda: check(server.terminate() == 0, "%s", server.log_tail()))
