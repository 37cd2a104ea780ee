"""Tokens of an issuer: what passes, what does not, and what the bearer may do."""

import base64
import http.server
import json
import os
import subprocess
import tempfile
import threading
import time

import agents
import flamegrid
import world

ISSUER = "https://issuer.example"
WAIT_S = 60
NEW_KID_S = 10  # between two fetches because of kids that are not known
BINDINGS = [
    {"issuer": ISSUER, "claim": "groups", "value": "dev", "tenants": "team-*", "role": "viewer"},
    {"issuer": ISSUER, "claim": "groups", "value": "ops", "tenants": "team-b", "role": "admin"},
]


class Keys:
    """Serves the keys of the issuer without those whose kid is in `withheld`, and counts who asks."""

    def __init__(self, folder):
        self.folder, self.asked, self.withheld, self.port = folder, 0, set(), flamegrid.free_port()

    def __enter__(self):
        keys = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                keys.asked += 1
                with open(os.path.join(keys.folder, "keys.json"), "rb") as file:
                    all_keys = json.load(file)["keys"]
                body = json.dumps({"keys": [key for key in all_keys if key["kid"] not in keys.withheld]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.server.shutdown()
        self.server.server_close()

    def settings(self):
        issuer = {"issuer": ISSUER, "audience": "flamegrid", "keys_url": "http://127.0.0.1:%d/keys" % self.port, "tenant_claim": "sub"}
        return ["--access.issuers", json.dumps([issuer]), "--access.bindings", json.dumps(BINDINGS),
                "--access.failures_per_minute", "100000"]


def read_corpus(signer, folder):
    """The corpus for this minute: {name: (verdict, token)}."""
    done = subprocess.run([signer, "-W", "ignore", os.path.join(world.HERE, "corpus.py"), folder, str(int(time.time()))],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    flamegrid.check(done.returncode == 0, "corpus.py: %s", done.stderr)
    with open(os.path.join(folder, "tokens.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return {name: (verdict, token) for name, verdict, why, token in rows}


def wait_keys(asking, token):
    """Until the keys are there a token is answered with 503, and never with 401."""
    deadline = time.monotonic() + WAIT_S
    while True:
        status, body = asking.send("GET", "/api/whoami", token)
        flamegrid.check(status in (200, 503), "%d %s", status, body)
        if status == 200:
            return
        flamegrid.check(time.monotonic() < deadline, "no keys: %s", body)
        time.sleep(0.1)


def judge_corpus(asking, corpus):
    """The edges of times are left to the unit test, whose clock stands still."""
    wrong, judged = [], 0
    for name, (verdict, token) in corpus.items():
        if any(word in name for word in ("expired", "valid in", "issued in")) or not token.isascii() or " " in token:
            continue
        status, body = asking.send("GET", "/api/whoami", token)
        judged += 1
        # A key that is not known may be newer than the keys that are, until these are fetched again.
        wanted = {"ok": (200,), "denied": (401,), "unknown": (401, 503)}[verdict]
        if status not in wanted:
            wrong.append("%s: %d %s" % (name, status, body[:200]))
        flamegrid.check(verdict == "ok" or b"alg" not in body and b"signature" not in body, "%s: the answer tells why: %s", name, body)
    flamegrid.check(not wrong, "%s", wrong)
    flamegrid.check(judged > 120, "only %d tokens", judged)


def know_roles(asking, corpus):
    token = corpus["RS256"][1]
    status, who = asking.whoami(token)
    flamegrid.check(status == 200 and who["kind"] == "person" and who["subject"] == "user-1", "%s", who)
    flamegrid.check(sorted(who["tenants"]) == ["team-a", "team-b", "user-1"], "%s", who)


def keep_to_roles(asking, corpus):
    token = corpus["ES256"][1]
    ask = {"start": 1, "end": 2}
    route = "/querier.v1.QuerierService/LabelNames"
    for tenant, want in (("team-a", 200), ("team-b", 200), ("shop", 403), ("user-1", 403), ("nobody", 403)):
        status, body = asking.send("POST", route, token, ask, {"X-Scope-OrgID": tenant})
        flamegrid.check(status == want, "%s: %d %s", tenant, status, body)
    # A sender pushes to the tenant of its claim and to no other.
    for tenant, want in (("user-1", (200, 400, 422)), ("team-a", (403,)), ("shop", (403,))):
        status, body = asking.send("POST", "/ingest?name=a&from=0&until=1", token, {}, {"X-Scope-OrgID": tenant})
        flamegrid.check(status in want, "push to %s: %d %s", tenant, status, body)
    status, body = asking.send("POST", "/api/tenants", token, {"id": "mine"})
    flamegrid.check(status == 403, "create a tenant: %d %s", status, body)


def ask_once(asking, corpus, keys):
    """A stranger's kid does not make the server ask the issuer again and again, and is refused once the server has asked."""
    before, began = keys.asked, time.monotonic()
    stranger = corpus["a stranger's key in jwk, another kid"][1]
    for _ in range(50):
        status, body = asking.send("GET", "/api/whoami", stranger)
        flamegrid.check(status in (401, 503), "%d %s", status, body)
    asked = keys.asked - before
    flamegrid.check(asked <= 1 + (time.monotonic() - began) / NEW_KID_S, "asked %d times", asked)
    while status == 503:
        flamegrid.check(time.monotonic() - began < WAIT_S, "a made-up kid is not refused after %d s", WAIT_S)
        time.sleep(0.1)
        status, body = asking.send("GET", "/api/whoami", stranger)
    for _ in range(50):
        status, body = asking.send("GET", "/api/whoami", stranger)
        flamegrid.check(status == 401, "%d %s", status, body)


class Flood:
    """Strangers who send the token with a kid that nobody has, another one each time."""

    def __init__(self, asking, token):
        self.asking, self.token, self.sent, self.wrong, self.ended = asking, token, 0, [], threading.Event()
        self.threads = [threading.Thread(target=self.send, args=(number,)) for number in range(4)]

    def send(self, number):
        _head, _dot, rest = self.token.partition(".")
        for count in range(10**9):
            if self.ended.is_set():
                return
            head = json.dumps({"alg": "RS256", "typ": "JWT", "kid": "made-up-%d-%d" % (number, count)}).encode()
            token = base64.urlsafe_b64encode(head).rstrip(b"=").decode() + "." + rest
            status, body = self.asking.send("GET", "/api/whoami", token)
            self.sent += 1
            if status not in (401, 503):
                self.wrong.append((status, body))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def take_a_new_key_in_a_flood(corpus, folder):
    """The issuer signs with a new key while strangers make kids up: those whose tokens it signs are never refused, and pass after
    the time in which the server may ask once; it asks no more often than that."""
    with Keys(folder) as keys:
        keys.withheld = {"ed"}
        with world.Asking(*keys.settings()) as asking:
            wait_keys(asking, corpus["RS256"][1])
            with Flood(asking, corpus["RS256"][1]) as flood:
                before, began = keys.asked, time.monotonic()
                time.sleep(2)
                keys.withheld = set()
                wait_keys(asking, corpus["EdDSA"][1])
                status, body = asking.send("GET", "/api/whoami", corpus["RS256"][1])
                flamegrid.check(status == 200, "a token of the old key: %d %s", status, body)
                time.sleep(NEW_KID_S)
                asked = keys.asked - before
                flamegrid.check(1 < asked <= 2 + (time.monotonic() - began) / NEW_KID_S, "asked %d times", asked)
            flamegrid.check(flood.sent > 100 and not flood.wrong, "%d sent, %s", flood.sent, flood.wrong[:3])


def hide_secrets(asking, corpus):
    log = asking.server.log()
    told = [name for name, (verdict, token) in corpus.items() if len(token) > 100 and token.rpartition(".")[2] and token.rpartition(".")[2] in log]
    flamegrid.check(not told, "signatures in the log: %s", told)
    flamegrid.check(asking.admin not in log, "the admin's token is in the log")


def run(tally):
    names = ("issuers: corpus", "issuers: roles", "issuers: keeps to roles", "issuers: one fetch",
             "issuers: no secret in the log", "issuers: a new key in a flood")
    if not any(map(tally.wants, names)):
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            signer = world.Signer("access")
            signer.ready()
        except agents.Unavailable as missing:
            for name in names:
                tally.skip(name, missing)
            return
        corpus = read_corpus(signer.python, folder)
        with Keys(folder) as keys, world.Asking(*keys.settings()) as asking:
            wait_keys(asking, corpus["RS256"][1])
            tally.run(names[0], judge_corpus, asking, corpus)
            tally.run(names[1], know_roles, asking, corpus)
            tally.run(names[2], keep_to_roles, asking, corpus)
            tally.run(names[3], ask_once, asking, corpus, keys)
            tally.run(names[4], hide_secrets, asking, corpus)
        tally.run(names[5], take_a_new_key_in_a_flood, corpus, folder)
