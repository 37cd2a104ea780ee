"""A flamegrid server for tests in Python: start, kill and query it; and the count of passed cases.

The program is build/dev/flamegrid, or what FG_BINARY names. Everything it writes is in a temporary
folder, and it is stopped by its own process id.
"""

import argparse
import fcntl
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
READY_TIMEOUT_S = 60  # the sanitizers' build reads its log back slowly
STOP_TIMEOUT_S = 60
METRICS_FRESH_S = 1.05  # a server makes a new text at most once a second
PORT_FIRST = 10000
# Servers of tests have the profiles that the test sends and no others.
os.environ.setdefault("FG_SELF_PROFILING_ENABLED", "false")

ACTION = {"X-Flamegrid-Action": "test"}  # header of operators' requests that change something


def binary():
    return os.environ.get("FG_BINARY") or os.path.join(ROOT, "build", "dev", "flamegrid")


def shared_folder(name):
    """The folder of test data that is not in the repository; without it the part that is in the repository, or None."""
    outside = os.environ.get("FG_SHARED") or os.path.join(ROOT, os.pardir, "shared")
    folders = (os.path.join(place, name) for place in (outside, os.path.join(ROOT, "tests", "data")))
    return next(filter(os.path.isdir, folders), None)


def free_port():
    """Returns a port for this process alone. It is below the range of outgoing connections and locked until the process ends, so
    no connection and no concurrent test takes it while its server is stopped."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as bounds:
        last = int(bounds.read().split()[0])
    with ports_lock:
        if free_port.locks is None:
            # One file for all tests on this machine; the owner of port N has a lock on byte N.
            free_port.locks = os.open(os.path.join(tempfile.gettempdir(), "flamegrid-test-ports"), os.O_RDWR | os.O_CREAT, 0o666)
        for port in random.SystemRandom().sample(range(PORT_FIRST, last), 1000):  # tests seed `random` itself
            if port not in free_port.given and take_port(port):
                free_port.given.add(port)
                return port
    raise RuntimeError("no port is free")


def take_port(port):
    try:
        fcntl.lockf(free_port.locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


ports_lock = threading.Lock()
free_port.locks = None
free_port.given = set()


def preload(name):
    """Returns the environment that preloads a library of tests/lib. The library is in the folder of the programs, or in
    build/dev if they were built without tests."""
    places = [os.path.dirname(binary()), os.path.join(ROOT, "build", "dev")]
    paths = [os.path.join(place, "tests", "lib", "lib%s.so" % name) for place in places]
    found = [path for path in paths if os.path.exists(path)]
    check(found, "none of %s: build the target %s", paths, name)
    sanitizer = os.environ.get("ASAN_OPTIONS", "")
    return {"LD_PRELOAD": found[0], "ASAN_OPTIONS": ":".join(filter(None, [sanitizer, "verify_asan_link_order=0"]))}


scraped = {}  # port: when its /metrics were last asked for


def metrics_of(port, timeout=60):
    """Returns the text of /metrics from an admin_listen port."""
    time.sleep(max(0, scraped.get(port, 0) + METRICS_FRESH_S - time.monotonic()))
    status, body = Client(port, timeout).send("GET", "/metrics")
    scraped[port] = time.monotonic()
    check(status == 200, "/metrics: %d", status)
    return body.decode()


class Server:
    """One process. Use as a context, at whose end the process is stopped and its folder removed."""

    command = "server"

    def __init__(self, *arguments, data=None):
        self.folder = tempfile.mkdtemp(prefix="flamegrid-test.")
        self.data = data or os.path.join(self.folder, "data")
        self.log_path = os.path.join(self.folder, "log")
        self.port, self.admin_port = free_port(), free_port()
        self.arguments = arguments
        self.environment = {}  # added to that of the process
        self.wrapper = []  # a command that starts the process
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        # The server reads FG_* as settings and refuses unknown ones.
        environment = {name: value for name, value in os.environ.items() if name not in ("FG_BINARY", "FG_SHARED")}
        environment.update(self.environment)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, binary(), self.command, "--listen", "127.0.0.1:%d" % self.port,
                 "--admin_listen", "127.0.0.1:%d" % self.admin_port, "--data", self.data, *self.arguments],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        return self

    def wait_ready(self):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError("the server ended with %d:\n%s" % (self.process.returncode, self.log_tail()))
            if self.ready() == 200:
                return self
            time.sleep(0.02)
        raise RuntimeError("the server was not ready in %d s:\n%s" % (READY_TIMEOUT_S, self.log_tail()))

    def ready(self):
        """Returns the status of /ready; 0 without an answer."""
        try:
            return Client(self.port, timeout=2).send("GET", "/ready")[0]
        except (OSError, http.client.HTTPException):
            return 0

    def operate(self, method, target, timeout=60, headers=None):
        """Sends an operator's request to admin_listen; returns status and body."""
        return Client(self.admin_port, timeout).send(method, target, headers={**ACTION, **(headers or {})})

    def metrics(self):
        return metrics_of(self.admin_port)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.alive():
            self.process.kill()
            self.process.wait()

    def terminate(self):
        """Stops it as an operator does; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def log_tail(self, n_bytes=6000):
        try:
            with open(self.log_path, "rb") as log:
                return log.read()[-n_bytes:].decode("utf-8", "replace")
        except OSError:
            return ""


class Agent(Server):
    """A server that only forwards: `flamegrid agent`, which needs a target among the arguments."""

    command = "agent"


class Client:
    """A persistent connection, for one thread. headers are sent with every request."""

    def __init__(self, port, timeout=60, headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.headers = headers or {}

    def send(self, method, target, body=None, headers=None):
        """Returns status and body. Raises if the connection is lost; the next call opens a new one."""
        try:
            self.connection.request(method, target, body, {**self.headers, **(headers or {})})
            response = self.connection.getresponse()
            return response.status, response.read()
        except BaseException:
            self.connection.close()
            raise

    def ask(self, query_method, **fields):
        """Calls querier.v1 over Connect in JSON. Returns the answer, or raises AssertionError with the server's error."""
        status, body = self.send("POST", "/querier.v1.QuerierService/" + query_method, json.dumps(fields),
                                 {"Content-Type": "application/json"})
        if status != 200:
            raise AssertionError("%s: %d %s" % (query_method, status, body[:300]))
        return json.loads(body)

    def flame_total(self, profile_type, selector, start_ms, end_ms):
        answer = self.ask("SelectMergeStacktraces", profileTypeID=profile_type, labelSelector=selector,
                          start=start_ms, end=end_ms)
        return int(answer.get("flamegraph", {}).get("total", 0))

    def flame_frames(self, profile_type, selector, start_ms, end_ms):
        """Returns ({function: sum of the totals of its nodes}, total). A recursive function counts
        once for each frame on the stack."""
        answer = self.ask("SelectMergeStacktraces", profileTypeID=profile_type, labelSelector=selector,
                          start=start_ms, end=end_ms, maxNodes=1 << 20)
        graph = answer.get("flamegraph", {})
        names, found = graph.get("names", []), {}
        for level in graph.get("levels", []):
            values = [int(value) for value in level["values"]]
            for at in range(0, len(values), 4):  # offset, total, self, name
                name = names[values[at + 3]]
                found[name] = found.get(name, 0) + values[at + 1]
        return found, int(graph.get("total", 0))

    def merged_profile(self, profile_type, selector, start_ms, end_ms):
        """Returns all profiles of a type as one pprof in JSON; pprof.folded_json reads it."""
        return self.ask("SelectMergeProfile", profileTypeID=profile_type, labelSelector=selector,
                        start=start_ms, end=end_ms)

    def label_sets(self, matchers, names, start_ms, end_ms):
        """Returns the matching series as dictionaries of these labels, without any of all labels."""
        answer = self.ask("Series", matchers=matchers, labelNames=names, start=start_ms, end=end_ms)
        return [{label["name"]: label["value"] for label in labels.get("labels", [])}
                for labels in answer.get("labelsSet", [])]

    def series_total(self, profile_type, selector, start_ms, end_ms):
        """Returns the same sum from the points of a time series (doubles, so exact below 2^53)."""
        # A point covers (T - step, T], and T must not be after the end.
        end_ms += 1000 - (end_ms - start_ms) % 1000
        answer = self.ask("SelectSeries", profileTypeID=profile_type, labelSelector=selector,
                          start=start_ms, end=end_ms, step=(end_ms - start_ms) / 1000)
        return sum(point.get("value", 0) for series in answer.get("series", []) for point in series.get("points", []))


def cpu_s():
    """Returns the processor time of this process and of its children that have ended."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Tally:
    """Counts cases and prints them in the form that tests/run reads."""

    def __init__(self, pattern=""):
        self.pattern = re.compile(pattern)
        self.passed = self.failed = self.skipped = 0

    def wants(self, name):
        return bool(self.pattern.search(name))

    def ok(self, name, took_s=0, cpu_s=0):
        self.passed += 1
        print("ok   %s%s" % (name, " (%d s, %d s of CPU)" % (took_s, cpu_s) if took_s >= 1 else ""), flush=True)

    def fail(self, name, why):
        self.failed += 1
        print("FAIL %s\n     %s" % (name, str(why).replace("\n", "\n     ")), flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print("skip %s: %s" % (name, why), flush=True)

    def run(self, name, case, *arguments):
        """Runs a case, a function that raises on failure."""
        if not self.wants(name):
            return
        begun_s, cpu_begun_s = time.monotonic(), cpu_s()
        try:
            case(*arguments)
        except Exception as fault:  # whatever it was, the other cases still count
            self.fail(name, "%s: %s" % (type(fault).__name__, fault))
        else:
            self.ok(name, time.monotonic() - begun_s, cpu_s() - cpu_begun_s)

    def finish(self):
        line = "%d passed, %d failed" % (self.passed, self.failed)
        if self.skipped:
            line += ", %d skipped" % self.skipped
        print(line)
        sys.exit(1 if self.failed else 0)


def arguments_of(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("-k", dest="pattern", default="", metavar="REGEX", help="only cases that match")
    return parser


def parse_seeded(parser):
    """Returns the arguments, with a seed, which is printed, and a tally of the selected cases."""
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print("seed %d" % arguments.seed)
    return arguments, Tally(arguments.pattern)


def check(condition, message, *values):
    if not condition:
        raise AssertionError(message % values)
