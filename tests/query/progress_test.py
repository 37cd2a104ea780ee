#!/usr/bin/env python3
"""Answers as server-sent events: progress of a query, then its result or error.

    progress_test.py [-k REGEX] [--seed N]
"""

import http.client
import json
import os
import random
import socket
import sys
import time
import urllib.parse
import zlib

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, folder) for folder in ("lib", "bucket")]

import exporting  # noqa: E402
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402
from raw_profiles import CPU  # noqa: E402

IDLE = ["--compactor.interval", "1h"]
EVENTS = {"Accept": "text/event-stream"}
GZIP_WBITS = 31  # of zlib: a gzip member
STAGES = ["queued", "blocks", "ingesters", "answer"]
WAIT_S = 60


def events_of(text):
    """[(name, data)]; checks the form on the way."""
    check(text.endswith("\n\n"), "it does not end with an event: %r", text[-200:])
    found = []
    for event in text[:-2].split("\n\n"):
        lines = event.split("\n")
        check(lines[0].startswith("event: ") and all(line.startswith("data: ") for line in lines[1:]), "%r", event)
        found.append((lines[0][len("event: "):], "\n".join(line[len("data: "):] for line in lines[1:])))
    return found


def asked(port, target, method="GET", body=None, headers=None):
    """The events of a request, each progress read."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    client.request(method, target, body, {**EVENTS, **(headers or {})})
    response = client.getresponse()
    text = response.read()
    if response.getheader("Content-Encoding") == "gzip":
        text = zlib.decompress(text, GZIP_WBITS)
    text = text.decode()
    check(response.status == 200 and response.getheader("Content-Type") == "text/event-stream", "%s: %d %s", target,
          response.status, text[:300])
    check(response.getheader("Cache-Control") == "no-store", "%s", response.getheaders())
    found = events_of(text)
    told = [json.loads(data) for name, data in found[:-1]]
    check({name for name, _ in found[:-1]} <= {"progress"}, "%s: %s", target, found)
    check(all(row.keys() == {"stage", "done", "total", "bytes", "profiles"} for row in told), "%s", told)
    check(all(row["stage"] in STAGES and row["done"] <= row["total"] for row in told), "%s", told)
    client.close()
    return told, found[-1]


def push(port, count, tenant=None):
    now_ns = time.time_ns()
    series = [exporting.series({"__name__": "process_cpu", "service_name": "shop", "pod": "p%d" % (number % 5)},
                               now_ns - number * 10**9, {("main", "work", "step%d" % (number % 7)): (number + 1,)},
                               (("cpu", "nanoseconds"),)) for number in range(count)]
    status, body = flamegrid.Client(port, headers={"X-Scope-OrgID": tenant} if tenant else None).send(
        "POST", "/push.v1.PusherService/Push", json.dumps({"series": series}), {"Content-Type": "application/json"})
    check(status == 200, "push: %d %s", status, body)


def targets():
    query = urllib.parse.quote(CPU + '{service_name="shop"}')
    now_s = int(time.time())
    span = "&from=%d&until=%d" % (now_s - 3600, now_s + 60)
    sides = "leftQuery=%s&rightQuery=%s&leftFrom=%d&leftUntil=%d&rightFrom=%d&rightUntil=%d" % (
        query, query, now_s - 3600, now_s - 60, now_s - 60, now_s)
    return ["/pyroscope/render?query=" + query + span, "/pyroscope/render?format=folded&query=" + query + span,
            "/pyroscope/render-diff?" + sides, "/api/functions?counts=true&query=" + query + span,
            "/api/sandwich?function=work&query=" + query + span, "/api/compare?show=all&" + sides,
            "/api/labels?" + span[1:], "/api/labels/pod?" + span[1:]]


def without_times(text):
    """An answer without what differs from one to the next."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    document.get("statistics", {}).update(millis=0, cache_hits=0, requests=0, objects=0, bytes=0)
    return document


def every_long_route(_):
    """The result is the body of the plain answer, over HTTP/1.1, from the head and from segments."""
    with flamegrid.Server(*IDLE) as server:
        server.start().wait_ready()
        push(server.port, 100)
        client = flamegrid.Client(server.port)
        asked_for = targets()
        for place in ("in the head", "in a segment"):
            for target in asked_for:
                status, body = client.send("GET", target)
                check(status == 200, "%s: %d %s", target, status, body)
                told, (name, data) = asked(server.port, target)
                check(name == "result" and without_times(data) == without_times(body.decode().rstrip("\n")), "%s %s: %s instead of %s",
                      place, target, data[:500], body[:500])
                _, (name, data) = asked(server.port, target + "&progress=true", headers={"Accept": "*/*", "Accept-Encoding": "gzip"})
                check(name == "result", "%s %s", name, data)
            status, body = server.operate("POST", "/ingester/flush")
            check(status == 200, "flush: %d %s", status, body)
        # Whoever does not want events gets none, and pprof is no text, of which they could be made.
        for target, accept, starts in ((asked_for[0], "text/event-stream;q=0", b"{"), (asked_for[0], "application/json, text/event-stream; q=0.0", b"{"),
                                       (asked_for[0].replace("?", "?format=pprof&progress=true&"), "text/event-stream", b"\x0a")):
            status, body = client.send("GET", target, headers={"Accept": accept})
            check(status == 200 and body.startswith(starts), "%s %s: %d %s", target, accept, status, body[:200])
        # Other routes do not know of it, and HTTP/1.0 cannot have it.
        for target in ("/api/profiles?query=" + urllib.parse.quote(CPU + "{}"), "/api/metrics"):
            status, body = client.send("GET", target, headers=EVENTS)
            check(status == 200 and b"event: " not in body, "%s: %d %s", target, status, body)
        with socket.create_connection(("127.0.0.1", server.port), WAIT_S) as old:
            old.sendall(("GET %s HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n" % targets()[0]).encode())
            text = b"".join(iter(lambda: old.recv(65536), b""))
        check(b"Content-Type: application/json" in text and b"event: " not in text, "%s", text[:500])
        check(server.terminate() == 0, "%s", server.log_tail())


def errors(_):
    """What fails at once says so with its status, as the plain answer does."""
    with flamegrid.Server(*IDLE, "--multitenancy_enabled=true") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        tenant = {"X-Scope-OrgID": "a"}
        query = urllib.parse.quote(CPU + "{}")
        for target in ("/api/functions", "/api/functions?query=" + query + "&sort=x", "/pyroscope/render?query=x{",
                       "/api/compare?leftQuery=" + query):
            plain, body = client.send("GET", target, headers=tenant)
            check(plain >= 400 and client.send("GET", target, headers={**tenant, **EVENTS}) == (plain, body), "%s", target)
        status, body = client.send("GET", "/api/functions?query=" + query, headers=EVENTS)
        check(status == 401 and b"event" not in body, "%d %s", status, body)
        check(server.terminate() == 0, "%s", server.log_tail())


def clients_that_leave(rng):
    """They cost nothing afterwards, wherever they leave, and the server goes on."""
    with flamegrid.Server(*IDLE) as server:
        server.start().wait_ready()
        push(server.port, 200)
        for number in range(60):
            with socket.create_connection(("127.0.0.1", server.port), WAIT_S) as client:
                client.sendall(("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n" %
                                rng.choice(targets())).encode())
                if number % 3 > 0:
                    client.recv(rng.choice([1, 20, 300, 65536]))
        told, (name, _) = asked(server.port, targets()[0])
        check(name == "result", "%s", name)
        deadline = time.monotonic() + WAIT_S
        while "flamegrid_answer_memory_bytes 0\n" not in server.metrics():
            check(time.monotonic() < deadline, "answers are held: %s", server.metrics())
            time.sleep(0.05)
        check(server.terminate() == 0, "%s", server.log_tail())


def main():
    arguments, tally = flamegrid.parse_seeded(flamegrid.arguments_of(__doc__))
    for case in (every_long_route, errors, clients_that_leave):
        tally.run("progress_" + case.__name__, case, random.Random(arguments.seed))
    tally.finish()


if __name__ == "__main__":
    main()
