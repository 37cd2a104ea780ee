"""A flamegrid cluster for tests in Python: real processes on free ports, in a temporary folder, stopped by their ids.

Calls to an ingester go through a link of its own, which can be cut (link.py); clients use one address for pushes and
one for questions, behind which are all distributors and queriers.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import flamegrid
import link

READY_TIMEOUT_S = 60
WAIT = "--ring.maintenance_wait"  # tests stop ingesters for good one after the other, and each stop but the first would wait
STOP_TIMEOUT_S = 120  # of a member that leaves: it commits all it has

# Profiles are in segments and blocks within seconds, so a test of one minute covers the whole life of a profile.
QUICK = {
    "ingester": ["--ingester.segments.cut_bytes", "256KiB", "--ingester.segments.grace", "0s",
                 "--ingester.segments.linger", "0s", "--ingester.segments.evict_after", "5s",
                 "--ingester.segments.poll", "1s", "--ring.poll", "500ms"],
    "distributor": ["--ring.poll", "500ms"],
    "querier": ["--ring.poll", "500ms"],
    "compactor": [],
}


def is_stopped(pid):
    """All of its threads: a stop reaches them one by one, and until then they answer (proc(5), the state behind the name)."""
    states = []
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/stat" % (pid, thread), encoding="utf-8") as file:
                states.append(file.read().rsplit(")", 1)[1].split()[0])
    except OSError:  # a thread that has ended since
        return False
    return set(states) == {"T"}


class Member:
    """One process of the cluster."""

    def __init__(self, cluster, kind, number, *more):
        self.kind, self.name = kind, "%s-%d" % (kind, number)
        self.folder = self.data = os.path.join(cluster.folder, self.name)
        self.environment = {}  # variables besides those of the test's own process
        self.log_path = self.folder + ".log"
        self.port, self.admin_port = flamegrid.free_port(), flamegrid.free_port()
        self.link = None
        self.process = None
        self.arguments = ["--listen", "127.0.0.1:%d" % self.port, "--admin_listen", "127.0.0.1:%d" % self.admin_port,
                          "--multitenancy_enabled", "true" if cluster.multitenancy else "false",
                          *cluster.bucket, *cluster.settings[kind]]
        if cluster.papers:
            self.arguments += ["--config", cluster.papers.settings(self.name)]
        if kind == "ingester":
            calls = flamegrid.free_port()
            self.link = link.Link(calls)
            self.arguments += ["--data", self.folder, "--rpc_listen", cluster.address(calls),
                               "--ring.name", self.name, "--ring.address", cluster.address(self.link.port)]
            if WAIT not in self.arguments:
                self.arguments += [WAIT, "2s"]
        elif kind == "querier":
            self.arguments += ["--querier.share.listen", cluster.sharing[number - 1],
                               "--querier.share.queriers", ", ".join(cluster.sharing)]
        elif kind == "compactor":
            self.arguments += ["--scratch", self.folder, "--name", self.name]
        self.arguments += more

    def start(self, *more, environment=None):
        """more, environment: settings and variables for this start only."""
        program = os.path.join(os.path.dirname(flamegrid.binary()), "flamegrid-" + self.kind)
        variables = {name: value for name, value in os.environ.items() if not name.startswith("FG_")}
        variables["FG_SELF_PROFILING_ENABLED"] = os.environ["FG_SELF_PROFILING_ENABLED"]  # set by flamegrid.py
        variables.update({**self.environment, **(environment or {})})
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([program, *self.arguments, *more], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=variables)
        return self

    def send(self, method, target, timeout=5, body=None):
        """Returns status and body; (0, b"") without an answer."""
        try:
            return flamegrid.Client(self.port, timeout).send(method, target, body)
        except (OSError, flamegrid.http.client.HTTPException):
            return 0, b""

    def operate(self, method, target, timeout=5):
        """Sends an operator's request to admin_listen."""
        try:
            return flamegrid.Client(self.admin_port, timeout).send(method, target, headers=flamegrid.ACTION)
        except (OSError, flamegrid.http.client.HTTPException):
            return 0, b""

    def metrics(self):
        """Returns {name with its labels: value}; nothing without an answer."""
        try:
            body = flamegrid.metrics_of(self.admin_port, 5)
        except (OSError, flamegrid.http.client.HTTPException):
            return {}
        lines = [line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def is_ready(self):
        return self.send("GET", "/ready", 2)[0] == 200

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def wait_ready(self):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.is_ready():
            flamegrid.check(self.alive(), "%s has ended:\n%s", self.name, self.log_tail())
            flamegrid.check(time.monotonic() < deadline, "%s is not ready in %d s:\n%s", self.name, READY_TIMEOUT_S,
                            self.log_tail())
            time.sleep(0.05)
        return self

    def signal(self, number):
        """Sends a signal. After SIGSTOP no thread runs any more."""
        self.process.send_signal(number)
        while number == signal.SIGSTOP and self.alive() and not is_stopped(self.process.pid):
            time.sleep(0.001)

    def kill(self):
        if self.alive():
            self.process.kill()
            self.process.wait()

    def terminate(self, timeout=STOP_TIMEOUT_S):
        """Stops it as an operator does, and expects exit code 0 in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError("%s does not end in %d s:\n%s" % (self.name, timeout, self.log_tail())) from None
        flamegrid.check(code == 0, "%s ended with %d:\n%s", self.name, code, self.log_tail())

    def end_wait(self):
        """Stops an ingester that waits for another one: its second signal ends it at once."""
        before = self.log().count('msg="stopping"')
        self.process.send_signal(signal.SIGTERM)
        while self.log().count('msg="stopping"') == before:  # signals that come together are one
            time.sleep(0.1)
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_TIMEOUT_S)
        flamegrid.check(code == 128 + signal.SIGTERM, "%s ended with %d:\n%s", self.name, code, self.log_tail())

    def wipe(self):
        shutil.rmtree(self.folder)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def log_tail(self, n_bytes=3000):
        return self.log()[-n_bytes:]


class Cluster:
    """Use as a context. bucket: settings of its bucket; none: a directory of its own. papers: the certificates of members;
    papers.settings(name) is a settings file with those of one member. zones: ingesters are in each of them in turn."""

    def __init__(self, ingesters=3, distributors=2, queriers=2, compactors=2, settings=None, bucket=None, papers=None,
                 zones=(), multitenancy=False):
        self.folder = tempfile.mkdtemp(prefix="flamegrid-cluster.")
        self.bucket = bucket or ["--bucket.path", os.path.join(self.folder, "bucket")]
        self.settings = settings or QUICK
        self.papers, self.zones, self.multitenancy = papers, zones, multitenancy
        self.members = {}
        self.sharing = [self.address(flamegrid.free_port()) for _ in range(queriers)]
        self.keep = False
        os.makedirs(os.path.join(self.folder, "bucket"))
        for kind, count in (("ingester", ingesters), ("distributor", distributors), ("querier", queriers),
                            ("compactor", compactors)):
            for number in range(1, count + 1):
                self.add(kind, number)
        self.push = link.Link(*(member.port for member in self.of("distributor")))
        self.query = link.Link(*(member.port for member in self.of("querier")))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for member in self.members.values():
            member.kill()
            if member.link:
                member.link.close()
        self.push.close()
        self.query.close()
        if self.keep:
            print("     kept: %s" % self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, port):
        return "%s://127.0.0.1:%d" % ("tls+tcp" if self.papers else "tcp", port)

    def add(self, kind, number, *more):
        """Adds a member. more: its settings."""
        if kind == "ingester" and self.zones:
            more = ("--ring.zone", self.zones[(number - 1) % len(self.zones)], *more)
        member = Member(self, kind, number, *more)
        self.members[member.name] = member
        return member

    def of(self, *kinds):
        return [member for member in self.members.values() if member.kind in kinds]

    def start(self):
        """Starts ingesters first: the others become ready when they have read a ring with members."""
        for kinds in (("ingester",), ("distributor", "querier", "compactor")):
            for member in self.of(*kinds):
                member.start()
            for member in self.of(*kinds):
                member.wait_ready()
        return self

    def wait_ready(self):
        for member in self.members.values():
            member.wait_ready()

    def ring(self):
        """Returns the ring of a querier; None while no querier answers."""
        for member in self.of("querier", "distributor"):
            status, body = member.operate("GET", "/ring?format=json")
            if status == 200:
                return json.loads(body)
        return None

    def wait_drained(self, timeout_s):
        """Waits until queries need no older revision of the ring."""
        deadline = time.monotonic() + timeout_s
        while True:
            ring = self.ring()
            if ring and len(ring["revisions"]) == 1:
                return ring
            flamegrid.check(time.monotonic() < deadline, "the ring does not drain in %d s: %s", timeout_s, ring)
            time.sleep(0.2)

    def has_ring(self):
        """Whether the ring in the bucket is readable and has members."""
        done = subprocess.run([flamegrid.binary(), "ring", "ls", "--json", *self.bucket], capture_output=True, check=False)
        return done.returncode == 0 and len(json.loads(done.stdout)["members"]) > 0

    def verify(self):
        """Runs `flamegrid bucket verify` on the stopped cluster: no faults, no duplicates. Returns the number of profiles."""
        done = subprocess.run([flamegrid.binary(), "bucket", "verify", *self.bucket], capture_output=True, text=True,
                              check=False)
        flamegrid.check(done.returncode == 0, "bucket verify: %s%s", done.stdout, done.stderr)
        return sum(int(count) for count in re.findall(r"^\S+: (\d+) profiles", done.stdout, re.MULTILINE))
