"""What the cases share: a server that asks who somebody is, its first token, and tools from registries."""

import json
import os
import subprocess

import agents
import flamegrid

HERE = os.path.dirname(os.path.abspath(__file__))
TENANTS = ("shop", "team-a", "team-b", "user-1")


class Signer(agents.Driver):
    """The library that signs tokens, as its lock says."""

    source = HERE

    def install(self):
        self.python = os.path.join(self.venv("joserfc", os.path.join(HERE, "locks")), "python")


class Provider(agents.Driver):
    """The identity provider, as its lock says."""

    source = HERE

    def install(self):
        self.need(("node", "--version"), (20, 19), "node")
        self.need(("npm", "--version"), (8, 0), "node")
        self.fetch("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("FG_", "FLAMEGRID_"))}


def admin_token(data):
    """Makes the first token of a server with that data folder."""
    done = subprocess.run([flamegrid.binary(), "access", "init", "--data", data], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                          env=environment())
    flamegrid.check(done.returncode == 0, "access init: %s", done.stderr)
    return done.stdout.decode().strip()


class Asking:
    """A server in the mode token with tenants. settings: more of them."""

    def __init__(self, *settings, tenants=TENANTS):
        self.server = flamegrid.Server("--access.mode", "token", "--multitenancy_enabled", "true", "--access.poll", "200ms", *settings)
        self.tenants = tenants

    def __enter__(self):
        os.makedirs(self.server.data, exist_ok=True)
        self.admin = admin_token(self.server.data)
        self.server.start().wait_ready()
        for tenant in self.tenants:
            status, body = self.send("POST", "/api/tenants", self.admin, {"id": tenant})
            flamegrid.check(status == 200, "tenant %s: %d %s", tenant, status, body)
        return self

    def __exit__(self, *exception):
        self.server.__exit__(*exception)

    def send(self, method, path, token=None, body=None, headers=None):
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = "Bearer " + token
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        return flamegrid.Client(self.server.port).send(method, path, body, headers)

    def whoami(self, token):
        status, body = self.send("GET", "/api/whoami", token)
        return status, json.loads(body)
