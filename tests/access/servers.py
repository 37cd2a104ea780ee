"""A server that asks for tokens, and how to talk to it."""

import base64
import contextlib
import json
import os
import subprocess
import tempfile
import time

import flamegrid
from flamegrid import check

TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SCOPES = "push read forward debuginfo rules share delete tenant-admin admin metrics".split()
OF_ALL_TENANTS = {"admin", "metrics"}  # such a token has the tenants "*"
TIMEOUT_S = 60
SETTINGS = ("--access.mode", "token", "--multitenancy_enabled", "true", "--access.poll", "200ms", "--access.failures_per_minute",
            "1000000")


def environment(**more):
    return {**{name: value for name, value in os.environ.items() if not name.startswith(("FG_", "FLAMEGRID_"))}, **more}


def command(*words, **variables):
    """Runs the command line; returns exit code, output and errors."""
    done = subprocess.run([flamegrid.binary(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S,
                          env=environment(**variables), check=False)
    return done.returncode, done.stdout, done.stderr


def first_token(*settings):
    code, text, said = command("access", "init", *settings)
    check(code == 0, "access init: %d %s", code, said)
    return text.strip()


@contextlib.contextmanager
def key_file():
    """The settings that name a new key file."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-key.") as folder:
        path = os.path.join(folder, "key")
        with open(path, "w", encoding="ascii") as out:
            out.write(os.urandom(32).hex() + "\n")
        os.chmod(path, 0o600)
        yield "--encryption.key_file", path


def bearer(token):
    return {"Authorization": "Bearer " + token}


def basic(user, token):
    return {"Authorization": "Basic " + base64.b64encode(("%s:%s" % (user, token)).encode()).decode()}


class Caller:
    """Talks to one port. Requests for changes say that no web page makes them."""

    def __init__(self, port, token):
        self.client, self.token = flamegrid.Client(port, TIMEOUT_S), token
        self.headers = {**flamegrid.ACTION, **(bearer(token) if token else {})}

    def send(self, method, target, body=None, headers=None):
        """Returns status and text. A body that is no bytes is JSON."""
        headers = {**self.headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        status, answer = self.client.send(method, target, body, headers)
        return status, answer.decode("utf-8", "replace")

    def must(self, method, target, body=None, headers=None):
        status, answer = self.send(method, target, body, headers)
        check(status == 200, "%s %s: %d %s", method, target, status, answer[:300])
        return json.loads(answer) if answer.startswith(("{", "[")) else answer


class Governed(flamegrid.Server):
    """A server in the mode token with the tenants a and b, and its first token."""

    def __init__(self, *settings, tenants=("a", "b")):
        super().__init__(*SETTINGS, *settings)
        self.tenants = tenants

    def begin(self):
        os.makedirs(self.data, exist_ok=True)
        self.admin = first_token("--data", self.data)
        self.start().wait_ready()
        self.govern = Caller(self.port, self.admin)
        for tenant in self.tenants:
            self.govern.must("POST", "/api/tenants", {"id": tenant})
        return self

    def token(self, scopes, tenants=("a",), **more):
        """Makes a token; returns its text."""
        return self.govern.must("POST", "/api/tokens", {"name": "test", "tenants": list(tenants), "scopes": list(scopes), **more})["token"]

    def caller(self, scopes, tenants=("a",), **more):
        return Caller(self.port, self.token(scopes, tenants, **more))

    def settled(self):
        """Waits until the process has the newest registry, which it reads at once after its own changes."""
        newest = self.govern.must("GET", "/api/tokens")["tokens"]
        deadline = time.monotonic() + TIMEOUT_S
        while self.govern.must("GET", "/api/tokens")["tokens"] != newest:
            check(time.monotonic() < deadline, "it does not settle")


def push(caller, service, stacks=b"main;work 3\n", labels="", headers=None):
    """Returns status and text."""
    return caller.send("POST", "/ingest?name=%s%s&from=now-20s&until=now-10s" % (service, labels), stacks, headers)
