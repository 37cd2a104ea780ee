#!/usr/bin/env python3
"""Servers that forward to others, killed and cut off: what a node acknowledged is at its target exactly once.

    forward_test.py [-k REGEX] [--seconds N] [--seed N]

Clients push to a node and keep a ledger (tests/lib/ledger.py). The node forwards to a target through a link that the test cuts.
"""

import base64
import contextlib
import gzip
import http.server
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
import pprof  # noqa: E402
from canary import Canary  # noqa: E402
from ledger import CPU, START_S, Clients, Ledger, send_again, verify  # noqa: E402
from link import ANSWERS_HELD, CUT, HELD, OPEN, SILENT, Link  # noqa: E402

LIFE_S = (0.4, 2.0)  # of a server that will be killed
EMPTY_TIMEOUT_S = 90
# Chunks are committed and evicted at once, so that what waits is what keeps them.
COMMITTING = ["--ingester.segments.cut_bytes", "64KiB", "--ingester.segments.grace", "0s", "--ingester.segments.linger", "0s",
              "--ingester.segments.evict_after", "0s", "--ingester.segments.poll", "1s"]


def targets(*items):
    """Returns the flag for targets, each a map of settings."""
    maps = ("{%s}" % ", ".join("%s: %s" % item for item in target.items()) for target in items)
    return ["--forward.targets", "[%s]" % ", ".join(maps)]


def target(port, name="central", **settings):
    return dict({"name": name, "url": "'http://127.0.0.1:%d'" % port, "timeout": "3s"}, **settings)


def metric(server, name, **labels):
    """Returns the sum of a metric over the rows that have these labels."""
    rows = []
    for line in server.metrics().splitlines():
        row, _, value = line.rpartition(" ")
        if row.split("{")[0] == name and all('%s="%s"' % item in row for item in labels.items()):
            rows.append(float(value))
    flamegrid.check(rows, "no metric %s %s", name, labels)
    return sum(rows)


def wait_until(what, condition, timeout_s=EMPTY_TIMEOUT_S):
    end = time.monotonic() + timeout_s
    while not condition():
        flamegrid.check(time.monotonic() < end, "not within %d s: %s", timeout_s, what)
        time.sleep(0.1)


def wait_sent(server, name="central"):
    wait_until("%s has everything" % name, lambda: metric(server, "flamegrid_forward_pending_profiles", target=name) == 0)


def is_whole(central, ledger):
    """Pushes that the node has acknowledged are there once; the node may have others as well, which it forwards, too."""
    verify(central.port, ledger)


@contextlib.contextmanager
def pair(*settings, central=(), **keys):
    """A target and a node that forwards to it through a link."""
    with flamegrid.Server(*central) as there:
        there.start().wait_ready()
        link = Link(there.port)
        try:
            with flamegrid.Server(*targets(target(link.port, **keys)), *settings) as node:
                node.start().wait_ready()
                yield node, link, there
        finally:
            link.close()


def kills_and_cuts(seed, seconds, *settings):
    """Kills either side, cuts and stops the link, again and again."""
    ledger, rng = Ledger(seed), random.Random(seed + 1)
    end, rounds = time.monotonic() + seconds, 0
    with pair(*settings, central=settings) as (node, link, there):
        while time.monotonic() < end:
            with Clients(node.port, ledger, 0.01) as clients:
                link.set(rng.choice([OPEN, OPEN, CUT, HELD, ANSWERS_HELD, SILENT]))
                time.sleep(rng.uniform(*LIFE_S))
                victim = rng.choice([node, there, None])
                if victim is not None:
                    flamegrid.check(victim.alive(), "a server ended by itself:\n%s", victim.log_tail())
                    victim.kill()
            flamegrid.check(not clients.faults, "%s", clients.faults[:3])
            if victim is not None:
                victim.start().wait_ready()
            rounds += 1
        link.set(OPEN)
        send_again(node.port, ledger)
        wait_sent(node)
        verify(node.port, ledger)
        is_whole(there, ledger)
        flamegrid.check(metric(node, "flamegrid_forward_dropped_profiles_total") == 0, "profiles were dropped")
        print("     %d rounds, %d pushes" % (rounds, len(ledger.pushes)))


def canary_through(seed):
    """The canary sends to the node and asks the target, which is cut off meanwhile."""
    rng = random.Random(seed)
    with pair() as (node, link, there):
        with Canary("http://127.0.0.1:%d" % node.port, "--for", "15s", "--lag", "20s", "--rate", "40/s",
                    ask="http://127.0.0.1:%d" % there.port) as canary:
            canary.wait_started()
            for _ in range(2):
                time.sleep(rng.uniform(1, 3))
                link.set(rng.choice([CUT, HELD, SILENT]))
                time.sleep(rng.uniform(1, 3))
                link.set(OPEN)
            code, counts = canary.finish()
            flamegrid.check(code == 0, "%d %s\n%s", code, counts, canary.errors())
        flamegrid.check(counts["reads"] > 10 and counts["acknowledged"] == counts["pushed"] > 300, "%s", counts)
        flamegrid.check(counts["lost"] + counts["double"] + counts["foreign"] + counts["unknown"] == 0, "%s", counts)


def away_at_the_start(seed):
    """The target comes later, at last; the node has restarted meanwhile, and has committed what waits."""
    ledger = Ledger(seed)
    with flamegrid.Server() as there, \
            flamegrid.Server(*targets(target(there.port)), *COMMITTING) as node:
        node.start().wait_ready()
        for _ in range(2):
            with Clients(node.port, ledger, 0.002):
                time.sleep(2)
            flamegrid.check(node.terminate() == 0, "%s", node.log_tail())
            node.start().wait_ready()
        pending = metric(node, "flamegrid_forward_pending_profiles")
        flamegrid.check(pending == len(ledger.pushes), "%d of %d are pending", pending, len(ledger.pushes))
        status, _ = node.operate("POST", "/ingester/flush", 30)
        flamegrid.check(status == 200, "flush: %d", status)
        verify(node.port, ledger)
        evicted = metric(node, "flamegrid_ingester_head_chunks_evicted_total")
        flamegrid.check(evicted == 0, "%d chunks with pending profiles were evicted", evicted)
        there.start().wait_ready()
        wait_sent(node)
        is_whole(there, ledger)
        # Chunks that were kept for the target alone are evicted now.
        wait_until("the head is evicted", lambda: metric(node, "flamegrid_ingester_head_chunks_evicted_total") > 0)


def two_targets(seed):
    """One of two targets never answers: the other has everything at once."""
    ledger = Ledger(seed)
    with flamegrid.Server() as there:
        there.start().wait_ready()
        silent = Link(there.port)
        silent.set(SILENT)
        both = targets(target(there.port), target(silent.port, name="silent"))
        with flamegrid.Server(*both) as node:
            node.start().wait_ready()
            with Clients(node.port, ledger, 0.005):
                time.sleep(3)
            wait_sent(node)
            is_whole(there, ledger)
            waiting = metric(node, "flamegrid_forward_pending_profiles", target="silent")
            flamegrid.check(waiting == len(ledger.pushes), "%d wait for the silent one", waiting)
            silent.set(OPEN)  # the same server: it knows them all
            wait_sent(node, "silent")
            known = metric(node, "flamegrid_forward_known_total", target="silent")
            flamegrid.check(known == len(ledger.pushes), "%d were known", known)
            is_whole(there, ledger)
        silent.close()


def removed_target(seed):
    """What waited for a target that the settings do not have any more is deleted, and the log says how much."""
    ledger = Ledger(seed)
    port = flamegrid.free_port()  # nobody listens
    with flamegrid.Server(*targets(target(port))) as node:
        node.start().wait_ready()
        with Clients(node.port, ledger, 0.01):
            time.sleep(1)
        flamegrid.check(node.terminate() == 0, "%s", node.log_tail())
        node.arguments = ()
        node.start().wait_ready()
        flamegrid.check("central" in node.log_tail(), "the log does not name the target:\n%s", node.log_tail())
        flamegrid.check("flamegrid_forward_pending_profiles" not in node.metrics(), "there is still a queue")
        verify(node.port, ledger)


def full_queue(when_full):
    """A queue that is full drops its oldest profiles and counts them, or refuses pushes with 429."""
    port = flamegrid.free_port()
    with flamegrid.Server(*targets(target(port, queue_max_bytes="1MiB", when_full=when_full))) as node:
        node.start().wait_ready()
        client = flamegrid.Client(node.port)
        statuses = []
        for i in range(90):
            stacks = {("main", "f%d" % (i * 5000 + k)): (1, i * 5000 + k + 1) for k in range(5000)}
            status, _ = client.send("POST", "/ingest?name=big&format=pprof&from=%d&until=%d" % (START_S + i, START_S + i + 10),
                                    pprof.make(stacks, (START_S + i) * 10**9))
            statuses.append(status)
        dropped = metric(node, "flamegrid_forward_dropped_profiles_total", reason="full")
        pending = metric(node, "flamegrid_forward_pending_profiles")
        if when_full == "drop":
            flamegrid.check(set(statuses) == {200}, "%s", set(statuses))
            flamegrid.check(dropped > 0 and dropped + pending == len(statuses), "%d dropped, %d pending", dropped, pending)
            told = node.log().count("the queue of a forward target is full, its oldest profiles are dropped")
            flamegrid.check(told == 1, "the log tells of the loss %d times:\n%s", told, node.log_tail())
        else:
            flamegrid.check(set(statuses) == {200, 429} and dropped == 0, "%s, %d dropped", set(statuses), dropped)
            flamegrid.check(pending == statuses.count(200), "%d pending, %d stored", pending, statuses.count(200))
            refused = metric(node, "flamegrid_forward_refused_pushes_total")
            flamegrid.check(refused == statuses.count(429), "%s refused pushes are counted, %d were", refused, statuses.count(429))
            flamegrid.check(metric(node, "flamegrid_forward_pending_bytes") < 1.5 * 2**20, "the queue is too long")


def selection():
    """Selector, rules, sample types and tenant of a target."""
    rules = "[{source_labels: [pod], regex: '2', action: drop}, {target_label: site, replacement: berlin}]"
    types = "[{source_labels: [__type__], regex: cpu, action: keep}]"
    with pair(central=["--multitenancy_enabled", "true"], selector="'{team=\"a\"}'", relabel=rules,
              sample_types=types, tenant="north") as (node, _, there):
        client = flamegrid.Client(node.port)
        for team in "ab":
            for pod in range(3):
                body = pprof.make({("main", "work"): (10 + pod, 100 + pod)}, START_S * 10**9 + pod)
                status, answer = client.send("POST", "/ingest?name=shop%%7Bteam%%3D%s%%2Cpod%%3D%d%%7D&format=pprof" % (team, pod), body)
                flamegrid.check(status == 200, "%d %s", status, answer)
        wait_sent(node)
        north = flamegrid.Client(there.port, headers={"X-Scope-OrgID": "north"})
        window = ((START_S - 100) * 1000, (START_S + 100) * 1000)
        flamegrid.check(north.flame_total(CPU, '{site="berlin"}', *window) == 201, "cpu is not what was to be forwarded")
        counts = north.flame_total("process_cpu:samples:count::", "{}", *window)
        flamegrid.check(counts == 0, "%d samples of a type that was to be left out", counts)
        filtered = metric(node, "flamegrid_forward_filtered_total")
        flamegrid.check(filtered == 4, "%d were left out", filtered)


def circle(seed):
    """Two servers forward to each other: profiles are at both, once, and the circle ends."""
    ledger = Ledger(seed)
    with flamegrid.Server() as first, flamegrid.Server() as second:
        first.arguments, second.arguments = targets(target(second.port, "second")), targets(target(first.port, "first"))
        first.start().wait_ready()
        second.start().wait_ready()
        with Clients(first.port, ledger, 0.01):
            time.sleep(2)
        wait_sent(first, "second")
        wait_sent(second, "first")
        verify(first.port, ledger)
        verify(second.port, ledger)
        back = metric(second, "flamegrid_forward_dropped_profiles_total", reason="refused")
        flamegrid.check(back == len(ledger.pushes), "%d of %d came back and were refused", back, len(ledger.pushes))


def state_of(server, name="central"):
    """Returns the state of a target, as GET /api/forward has it."""
    status, body = flamegrid.Client(server.port).send("GET", "/api/forward")
    flamegrid.check(status == 200, "%d %s", status, body)
    return next(one for one in json.loads(body)["targets"] if one["name"] == name)


def ask(server, verb, name="central"):
    """Has a server pause, resume, drop or resend what it forwards to a target."""
    status, body = flamegrid.Client(server.port).send("POST", "/api/forward/%s/%s" % (name, verb), headers=flamegrid.ACTION)
    flamegrid.check(status == 200, "%s: %d %s", verb, status, body)


def resend(server, *arguments):
    done = subprocess.run([flamegrid.binary(), "forward", "resend", "central", "--url", "http://127.0.0.1:%d" % server.port, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def wait_resent(server, timeout_s=EMPTY_TIMEOUT_S):
    wait_until("everything is resent", lambda: state_of(server).get("resend", {}).get("state") == "done", timeout_s)
    return state_of(server)["resend"]


def since(seed):
    """A new target gets what was there before it, from the head and from blocks, once; an old one does not."""
    ledger = Ledger(seed)
    with flamegrid.Server() as there, flamegrid.Server(*COMMITTING) as node:
        there.start().wait_ready()
        node.start().wait_ready()
        for _ in range(2):
            with Clients(node.port, ledger, 0.005):
                time.sleep(1.5)
            status, _ = node.operate("POST", "/ingester/flush", 30)
            flamegrid.check(status == 200, "flush: %d", status)
        with Clients(node.port, ledger, 0.005):  # these stay in the head until the resend
            time.sleep(0.5)
        flamegrid.check(node.terminate() == 0, "%s", node.log_tail())
        node.arguments = [*COMMITTING, *targets(target(there.port, since="2025-01-01"))]
        node.start().wait_ready()
        resent = wait_resent(node)
        pushed = len(ledger.pushes)  # of which a busy node may have refused some, or stored them without an answer
        flamegrid.check(pushed - len(ledger.lost()) <= resent["sentProfiles"] <= pushed and not resent["incomplete"], "%s of %d", resent, pushed)
        is_whole(there, ledger)
        flamegrid.check(node.terminate() == 0, "%s", node.log_tail())
        node.start().wait_ready()  # the target is not new any more
        time.sleep(1)
        flamegrid.check(state_of(node)["resend"] == resent, "it was resent again: %s", state_of(node))
        flamegrid.check(metric(node, "flamegrid_forward_sent_profiles_total", lane="resend") == 0, "profiles were resent")
        status, output = resend(node, "--from", "2025-01-01")
        flamegrid.check(status == 0, "%d %s", status, output)
        again = wait_resent(node)
        flamegrid.check(again["sentProfiles"] == again["knownProfiles"] == resent["sentProfiles"], "%s", again)
        is_whole(there, ledger)


def resend_with_kills(seed, seconds):
    """A resend goes on where it was after kills of either side and cuts, and ends; the target has each profile once."""
    ledger, rng = Ledger(seed), random.Random(seed + 3)
    with pair(*COMMITTING) as (node, link, there):
        link.set(CUT)
        with Clients(node.port, ledger, 0.001):
            time.sleep(4)
        send_again(node.port, ledger)
        ask(node, "drop")
        flamegrid.check(resend(node)[0] != 0, "a resend without --from has begun")
        flamegrid.check(resend(node, "--from", "2025-01-01", "--until", "2025-01-01")[0] != 0, "a resend of nothing has begun")
        status, output = resend(node, "--from", "2025-01-01")
        flamegrid.check(status == 0, "%d %s", status, output)
        flamegrid.check("under way" in resend(node, "--from", "now-1h")[1], "two resends at a time")
        # First the target has profiles of which the node does not know that.
        rounds = [(ANSWERS_HELD, node)] * 2 + [(None, None)] * round(seconds / 2)
        for state, victim in rounds:
            link.set(state or rng.choice([CUT, HELD, ANSWERS_HELD, SILENT]))
            time.sleep(2.5 if state else rng.uniform(*LIFE_S))
            victim = victim or rng.choice([node, there, None])
            if victim is not None:
                flamegrid.check(victim.alive(), "a server ended by itself:\n%s", victim.log_tail())
                victim.kill()
                victim.start().wait_ready()
        link.set(OPEN)
        resent = wait_resent(node)
        flamegrid.check(resent["sentProfiles"] >= len(ledger.pushes) and not resent["incomplete"], "%s", resent)
        flamegrid.check(resent["knownProfiles"] > 0, "nothing was sent again: %s", resent)
        is_whole(there, ledger)
        print("     %d profiles, %d of them twice" % (len(ledger.pushes), resent["knownProfiles"]))


def resend_is_ended(seed):
    """An operator ends a resend that the target does not take; a paused target is not sent to."""
    ledger = Ledger(seed)
    with pair() as (node, link, there):
        with Clients(node.port, ledger, 0.01):
            time.sleep(1)
        wait_sent(node)
        ask(node, "pause")
        status, output = resend(node, "--from", "2025-01-01")
        flamegrid.check(status == 0, "%d %s", status, output)
        time.sleep(1)
        flamegrid.check(state_of(node)["resend"]["state"] == "committing", "%s", state_of(node))
        flamegrid.check(metric(node, "flamegrid_forward_resending") == 1, "no metric says so")
        status, output = resend(node, "--end")
        flamegrid.check(status == 0, "%d %s", status, output)
        resent = wait_resent(node)
        flamegrid.check(resent["incomplete"] and resent["sentProfiles"] == 0, "%s", resent)
        flamegrid.check(node.terminate() == 0, "%s", node.log_tail())
        node.start().wait_ready()
        flamegrid.check(state_of(node)["resend"] == resent, "a restart forgets: %s", state_of(node))
        status, body = flamegrid.Client(there.port).send("GET", "/api/forward")
        flamegrid.check(status == 200 and json.loads(body) == {"targets": []}, "%d %s", status, body)


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A server that has push.v1 only, as Pyroscope has, and keeps what it gets; and one that answers nonsense first."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"]))
        owner = self.server.owner
        status, answer = 200, b""
        with owner.lock:
            owner.requests += 1
            if self.path == "/forward.v1.ForwardService/Push" and not owner.garbage:
                status = 404
            elif owner.requests <= owner.garbage:
                status, answer = owner.garbage_status, b"<html>from a proxy</html>"
            elif owner.requests % owner.fails_every == 1:
                status = 503
            else:
                owner.bodies.append(body)
        self.send_response(status)
        if not answer:
            self.send_header("Content-Type", "application/proto")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Issuer(http.server.BaseHTTPRequestHandler):
    """A token endpoint and a target in one: it takes the last token only, and counts."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"]))
        owner = self.server.owner
        with owner.lock:
            status, answer = owner.token(self.headers, body) if self.path == "/token" else owner.take(self.headers, body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if answer else "application/proto")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class TokenTarget:
    """What Issuer serves. status: of the token endpoint; lifetime_s: of tokens."""

    def __init__(self):
        self.lock, self.status, self.lifetime_s = threading.Lock(), 200, 3600
        self.tokens, self.refused, self.bodies = 0, 0, []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
        self.server.owner = self
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, headers, body):
        flamegrid.check(headers["Authorization"] == "Basic " + base64.b64encode(b"node:s3cret").decode(), "%s", headers)
        flamegrid.check(body == b"grant_type=client_credentials&scope=push", "%s", body)
        if self.status != 200:
            return self.status, b'{"error": "invalid_client"}'
        self.tokens += 1
        return 200, json.dumps({"access_token": "token-%d" % self.tokens, "token_type": "Bearer", "expires_in": self.lifetime_s}).encode()

    def take(self, headers, body):
        if headers["Authorization"] != "Bearer token-%d" % self.tokens:
            self.refused += 1
            return 401, b"{}"
        self.bodies.append(body)
        return 200, b""

    def revoke(self):
        with self.lock:
            self.tokens += 1

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def oauth2():
    """A token is fetched once, again before it expires, and once more when the target refuses it; a secret is nowhere."""
    there = TokenTarget()
    try:
        with tempfile.TemporaryDirectory() as folder:
            secret = os.path.join(folder, "secret")
            with open(secret, "w", encoding="ascii") as file:
                file.write("s3cret\n")
            keys = "{token_url: 'http://127.0.0.1:%d/token', client_id: node, client_secret_file: '%s', scopes: [push]}" % (there.port, secret)
            with flamegrid.Server(*targets(target(there.port, protocol="push", oauth2=keys))) as node:
                node.start().wait_ready()
                client, sent = flamegrid.Client(node.port), 0

                def push():
                    nonlocal sent
                    status, _ = client.send("POST", "/ingest?name=shop&from=%d" % (START_S + sent), b"main;work 3\n")
                    flamegrid.check(status == 200, "%d", status)
                    sent += 1

                for _ in range(3):
                    push()
                    wait_sent(node)
                flamegrid.check(there.tokens == 1 and there.refused == 0, "%d tokens for 3 pushes, %d refused", there.tokens, there.refused)
                there.revoke()
                push()
                wait_sent(node)
                flamegrid.check(there.tokens == 3 and there.refused == 1, "%d tokens, %d refused", there.tokens, there.refused)
                flamegrid.check(metric(node, "flamegrid_forward_retries_total") == 0, "a token that was replaced counts as a failure")
                there.revoke()
                there.lifetime_s = 1
                for _ in range(2):  # each needs a new one
                    push()
                    wait_sent(node)
                    time.sleep(1.2)
                flamegrid.check(there.tokens >= 5, "%d tokens", there.tokens)
                with there.lock:
                    there.status = 503
                push()
                wait_until("there is no token", lambda: "token of OAuth 2" in state_of(node)["error"])
                flamegrid.check(metric(node, "flamegrid_forward_pending_profiles") == 1, "it does not wait")
                with there.lock:
                    there.status = 401
                wait_until("the client is refused", lambda: state_of(node)["state"] == "denied")
                with there.lock:
                    there.status = 200
                flamegrid.check(node.terminate() == 0, "%s", node.log_tail())  # a restart need not wait for the minute
                node.start().wait_ready()
                wait_sent(node)
                flamegrid.check(len(there.bodies) == sent, "%d of %d came", len(there.bodies), sent)
                _, settings = node.operate("GET", "/config")
                for text in (node.log_tail(), settings.decode() if isinstance(settings, bytes) else settings, json.dumps(state_of(node))):
                    flamegrid.check("s3cret" not in text and "token-" not in text, "a secret is in %.300s", text)
    finally:
        there.close()


class Double:
    def __init__(self, garbage=0, fails_every=7, garbage_status=200):
        self.garbage, self.fails_every, self.requests, self.bodies = garbage, fails_every, 0, []
        self.garbage_status = garbage_status
        self.lock = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
        self.server.owner = self
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def members(message, number):
    return [value for field, _, value in pprof.fields(message) if field == number]


def read_pushes(bodies):
    """Returns {labels: folded stacks of its pprof} of requests of push.v1."""
    read = {}
    for body in bodies:
        for series in members(body, 1):
            labels = [(members(label, 1)[0].decode(), members(label, 2)[0].decode()) for label in members(series, 1)]
            profiles = [members(sample, 1)[0] for sample in members(series, 2)]
            flamegrid.check(len(profiles) == 1, "%d profiles in one request", len(profiles))
            read.setdefault(tuple(sorted(labels)), []).append(pprof.folded(gzip.decompress(profiles[0])))
    return read


def other_server():
    """A target without forward.v1 gets each profile by push.v1, as a pprof with all types; 503 loses nothing."""
    double = Double()
    try:
        with flamegrid.Server(*targets(target(double.port))) as node:
            node.start().wait_ready()
            client = flamegrid.Client(node.port)
            sent = {}
            for pod in range(20):
                stacks = {("main", "shared", "f%d" % pod): (1 + pod, 10 * (pod + 1)), ("main", "g"): (2, 20)}
                body = pprof.make(stacks, START_S * 10**9 + pod)
                status, answer = client.send("POST", "/ingest?name=shop%%7Bpod%%3D%d%%7D&format=pprof" % pod, body)
                flamegrid.check(status == 200, "%d %s", status, answer)
                sent[str(pod)] = pprof.folded(body)
            wait_sent(node)
            got = read_pushes(double.bodies)
            flamegrid.check(len(got) == len(sent), "%d series of %d", len(got), len(sent))
            for labels, profiles in got.items():
                flamegrid.check(profiles == [sent[dict(labels)["pod"]]], "%s: %s", labels, profiles)
                flamegrid.check(dict(labels)["service_name"] == "shop", "%s", labels)
            flamegrid.check(metric(node, "flamegrid_forward_retries_total", reason="busy") > 0, "no request was refused")
    finally:
        double.close()


def resend_elsewhere():
    """A resend to a server without forward.v1 has each profile of the past as it was sent: stacks, types, labels."""
    double = Double()
    try:
        with flamegrid.Server() as node:
            node.start().wait_ready()
            client = flamegrid.Client(node.port)
            sent = {}
            for pod in range(20):
                stacks = {("main", "shared", "f%d" % pod): (1 + pod, 10 * (pod + 1)), ("main", "g"): (2, 20)}
                body = pprof.make(stacks, START_S * 10**9 + pod)
                status, answer = client.send("POST", "/ingest?name=shop%%7Bpod%%3D%d%%7D&format=pprof" % pod, body)
                flamegrid.check(status == 200, "%d %s", status, answer)
                sent[str(pod)] = pprof.folded(body)
            flamegrid.check(node.terminate() == 0, "%s", node.log_tail())
            rules = "[{target_label: site, replacement: berlin}]"
            node.arguments = targets(target(double.port, since="2025-01-01", selector="'{pod!=\"3\"}'", relabel=rules))
            node.start().wait_ready()
            resent = wait_resent(node)
            got = read_pushes(double.bodies)
            flamegrid.check(len(got) == resent["sentProfiles"] == len(sent) - 1, "%d series, %s", len(got), resent)
            flamegrid.check(resent["filteredProfiles"] == 1, "%s", resent)
            for labels, profiles in got.items():
                flamegrid.check(profiles[0] == sent[dict(labels)["pod"]], "%s: %s", labels, profiles)
                flamegrid.check(dict(labels)["site"] == "berlin", "%s", labels)
    finally:
        double.close()


def nonsense(status, protocol):
    """A target that answers with something else than an answer, or a refusal of its own, has decided nothing."""
    double = Double(garbage=10**6, garbage_status=status)
    try:
        with flamegrid.Server(*targets(target(double.port, protocol=protocol))) as node:
            node.start().wait_ready()
            pushed, _ = flamegrid.Client(node.port).send("POST", "/ingest?name=shop&from=%d" % START_S, b"main;work 3\n")
            flamegrid.check(pushed == 200, "%d", pushed)
            wait_until("it is tried again", lambda: double.requests >= 3)
            flamegrid.check(metric(node, "flamegrid_forward_pending_profiles") == 1, "the profile does not wait any more")
            flamegrid.check(metric(node, "flamegrid_forward_retries_total", reason="unavailable") >= 2, "no retries are counted")
            # Whoever has given the address of another program sees what answers there.
            said = state_of(node)["error"]
            flamegrid.check("status %d" % status in said and "<html>from a proxy</html>" in said, "%s", said)
    finally:
        double.close()


class Limiting(http.server.BaseHTTPRequestHandler):
    """A server that has push.v1 only, and tenants beyond limits of their own: `limits` has for how many seconds."""

    protocol_version = "HTTP/1.1"
    limits, counts, lock = {}, {}, threading.Lock()

    def do_POST(self):  # noqa: N802
        self.rfile.read(int(self.headers["Content-Length"]))
        tenant = self.headers["X-Scope-OrgID"]
        with self.lock:
            seconds = self.limits.get(tenant)
            self.counts[tenant] = self.counts.get(tenant, 0) + (seconds is None)
        self.send_response(200 if seconds is None else 429)
        self.send_header("Content-Type", "application/proto")
        if seconds is not None:
            self.send_header("RateLimit", '"push";r=0')
            self.send_header("Retry-After", str(seconds))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def held_tenants():
    """A tenant that is beyond its limit for a second does not wait for one that is for ten minutes, though profiles of both were received together."""
    handler = type("Handler", (Limiting,), {"limits": {"a": 600, "b": 1}, "counts": {}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        try:
            with flamegrid.Server("--multitenancy_enabled", "true", *targets(target(there.server_port, protocol="push"))) as node:
                node.start().wait_ready()
                ask(node, "pause")
                for number in range(10):
                    status, body = flamegrid.Client(node.port, headers={"X-Scope-OrgID": "ab"[number % 2]}).send(
                        "POST", "/ingest?name=shop&from=%d" % (START_S + number), b"main;work 3\n")
                    flamegrid.check(status == 200, "%d %s", status, body)
                ask(node, "resume")
                wait_until("both are held", lambda: metric(node, "flamegrid_forward_held_tenants") == 2)
                with Limiting.lock:
                    del handler.limits["b"]
                wait_until("all of b is there", lambda: handler.counts.get("b") == 5, 60)
                flamegrid.check(handler.counts.get("a", 0) == 0 and metric(node, "flamegrid_forward_pending_profiles") >= 5, "%s", handler.counts)
        finally:
            there.shutdown()


def resend_held_tenants(seed):
    """A resend passes a tenant that the target does not take, comes back to it, and after a kill sends nothing of the others again."""
    handler = type("Handler", (Limiting,), {"limits": {"a": 600, "b": 1}, "counts": {}})
    tenants, each = "abcd", 5
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        try:
            with flamegrid.Server("--multitenancy_enabled", "true", *COMMITTING, *targets(target(there.server_port, protocol="push"))) as node:
                node.start().wait_ready()
                ask(node, "pause")
                for number in range(each * len(tenants)):
                    status, body = flamegrid.Client(node.port, headers={"X-Scope-OrgID": tenants[number % len(tenants)]}).send(
                        "POST", "/ingest?name=shop&from=%d" % (START_S + number), b"main;work 3\n")
                    flamegrid.check(status == 200, "%d %s", status, body)
                for verb in ("drop", "resume", "resend?from=2020-01-01&until=now"):
                    ask(node, verb)
                wait_until("c and d are there", lambda: handler.counts.get("c") == handler.counts.get("d") == each)
                wait_until("a and b are held", lambda: state_of(node)["resend"]["heldTenants"] == 2)
                with Limiting.lock:
                    del handler.limits["b"]
                wait_until("b is there", lambda: handler.counts.get("b") == each)
                wait_until("only a is held", lambda: metric(node, "flamegrid_forward_resend_held_tenants") == 1)
                flamegrid.check(state_of(node)["resend"]["sentProfiles"] == each * 3, "%s", state_of(node))
                time.sleep(random.Random(seed).uniform(0.5, 1.5))  # the places are written five times a second
                node.kill()
                with Limiting.lock:
                    del handler.limits["a"]
                node.start().wait_ready()
                resent = wait_resent(node)
                flamegrid.check(resent["sentProfiles"] == each * len(tenants) and not resent["incomplete"], "%s", resent)
                flamegrid.check(handler.counts == dict.fromkeys(tenants, each), "%s", handler.counts)
        finally:
            there.shutdown()


def full_tenant():
    """A tenant that has all the series it may have at the target does not hold up another, though its profiles come first."""
    with flamegrid.Server("--multitenancy_enabled", "true", "--limits.max_series_per_tenant", "3") as there:
        there.start().wait_ready()
        with flamegrid.Server("--multitenancy_enabled", "true", *targets(target(there.port))) as node:
            node.start().wait_ready()

            def push(tenant, service):
                status, body = flamegrid.Client(node.port, headers={"X-Scope-OrgID": tenant}).send(
                    "POST", "/ingest?name=%s&from=%d" % (service, START_S), b"main;work 3\n")
                flamegrid.check(status == 200, "%d %s", status, body)

            for number in range(3):
                push("a", "first%d" % number)
            wait_sent(node)
            ask(node, "pause")
            for number in range(10):
                push("a", "further%d" % number)
                push("b", "shop%d" % (number % 3))
            ask(node, "resume")
            wait_until("all of b is there", lambda: metric(node, "flamegrid_forward_pending_profiles") == 10, 30)
            flamegrid.check(state_of(node)["sentProfiles"] == 13, "%s", state_of(node))
            log = node.log_tail()
            flamegrid.check("beyond a limit of its own" in log and "waits for the target" not in log, "the target is blamed:\n%s", log)


def missing_file(seed):
    """A password that cannot be read is this server's trouble, and told as that; the file heals it."""
    ledger = Ledger(seed)
    with flamegrid.Server() as there:
        there.start().wait_ready()
        path = os.path.join(there.folder, "password")
        with flamegrid.Server(*targets(target(there.port, username="me", password_file=path))) as node:
            node.start().wait_ready()
            with Clients(node.port, ledger, 0.05):
                time.sleep(1)
            wait_until("it is told", lambda: metric(node, "flamegrid_forward_unread") == 1)
            flamegrid.check(state_of(node)["state"] == "retrying" and path in state_of(node)["error"], "%s", state_of(node))
            flamegrid.check(metric(node, "flamegrid_forward_retries_total", reason="unavailable") == 0, "the target is blamed")
            with open(path, "w", encoding="ascii") as file:
                file.write("secret\n")
            wait_sent(node)
            flamegrid.check(metric(node, "flamegrid_forward_unread") == 0, "it is still told")
        is_whole(there, ledger)


def wrong_token(seed):
    """A target that refuses the token is asked again with the file's new one, and nothing is lost."""
    ledger = Ledger(seed)
    with flamegrid.Server("--access.mode", "token") as there:
        os.makedirs(there.data, exist_ok=True)
        made = subprocess.run([flamegrid.binary(), "access", "init", "--data", there.data], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=True, timeout=60)
        admin = made.stdout.strip()
        there.start().wait_ready()
        client = flamegrid.Client(there.port, headers={"Authorization": "Bearer " + admin})
        status, body = client.send("POST", "/api/tokens", json.dumps({"name": "node", "scopes": ["forward"], "tenants": ["*"]}),
                                   {"Content-Type": "application/json"})
        flamegrid.check(status == 200, "token: %d %s", status, body)
        path = os.path.join(there.folder, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write("fg_wrong\n")
        with flamegrid.Server(*targets(target(there.port, token_file=path))) as node:
            node.start().wait_ready()
            with Clients(node.port, ledger, 0.05):
                time.sleep(1)
            wait_until("the target refuses", lambda: metric(node, "flamegrid_forward_paused") == 1)
            with open(path, "w", encoding="ascii") as file:
                file.write(json.loads(body)["token"] + "\n")
            flamegrid.check(node.terminate() == 0, "%s", node.log_tail())  # a restart need not wait for the minute
            node.start().wait_ready()
            wait_sent(node)
        flamegrid.check(metric(there, "flamegrid_ingester_profiles_stored_total") == len(ledger.pushes), "some are missing")


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15, help="of each loop of kills and cuts")
    arguments, tally = flamegrid.parse_seeded(parser)
    seed = arguments.seed
    tally.run("forward: kills and cuts", kills_and_cuts, seed, arguments.seconds)
    tally.run("forward: kills and cuts while segments are made", kills_and_cuts, seed, arguments.seconds, *COMMITTING)
    tally.run("forward: a canary through the node", canary_through, seed)
    tally.run("forward: the target comes later", away_at_the_start, seed)
    tally.run("forward: one of two targets is dead", two_targets, seed)
    tally.run("forward: a target is removed", removed_target, seed)
    tally.run("forward: a full queue drops", full_queue, "drop")
    tally.run("forward: a full queue refuses", full_queue, "refuse")
    tally.run("forward: selector, rules, sample types, tenant", selection)
    tally.run("forward: two servers in a circle", circle, seed)
    tally.run("forward: a server without forward.v1", other_server)
    tally.run("forward: a new target gets the past", since, seed)
    tally.run("forward: a resend, kills and cuts", resend_with_kills, seed, arguments.seconds)
    tally.run("forward: a resend is ended", resend_is_ended, seed)
    tally.run("forward: a resend to a server without forward.v1", resend_elsewhere)
    for protocol in ("flamegrid", "push"):
        tally.run("forward: 200 with nonsense, %s" % protocol, nonsense, 200, protocol)
        tally.run("forward: 400 of a proxy, %s" % protocol, nonsense, 400, protocol)
    tally.run("forward: two tenants beyond their limits", held_tenants)
    tally.run("forward: a resend, two tenants beyond their limits", resend_held_tenants, seed)
    tally.run("forward: a tenant that may have no further series", full_tenant)
    tally.run("forward: a file of the settings that is missing", missing_file, seed)
    tally.run("forward: tokens of OAuth 2", oauth2)
    tally.run("forward: a token that is refused", wrong_token, seed)
    tally.finish()


if __name__ == "__main__":
    main()
