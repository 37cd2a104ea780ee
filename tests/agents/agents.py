"""How each agent is installed and run.

The drivers are programs that burn CPU in burn_alpha and burn_beta at 75 : 25, each under one agent. They
are copied from $FG_SHARED/clients and installed from their registries into build/agents, as their locks
say; the one for OTLP is our own.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading

import flamegrid

HERE = os.path.dirname(os.path.abspath(__file__))
LOCKS = os.path.join(HERE, os.pardir, os.pardir, "deploy", "locks")
BUILD = os.path.join(flamegrid.ROOT, "build", "agents")
STEP_TIMEOUT_S = 900
MOST_REASON = 600  # characters
EXTRA_S = 120  # that a driver may take beyond the seconds it was told
UPLOAD_S = 5
SAMPLE_NS = 10_000_000  # at 100 Hz, which all of them use
OLDEST_CARGO = (1, 89)  # what the crates in the lock ask for
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"


class Unavailable(Exception):
    """A toolchain or a registry is missing; this is no failure of flamegrid."""


def clean_environment():
    """The environment without variables that would send profiles elsewhere or are settings of a server."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("PYROSCOPE_", "OTEL_", "FG_"))}
    environment.update(NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    return environment


def version_of(*command):
    """Returns the version of a tool as (major, minor); None if it is missing."""
    try:
        said = subprocess.run(command, capture_output=True, timeout=STEP_TIMEOUT_S, env=clean_environment())
    except OSError:
        return None
    found = re.search(rb"(\d+)\.(\d+)", said.stdout + said.stderr) if said.returncode == 0 else None
    return found and tuple(int(part) for part in found.groups())


class Driver:
    """A program to install once, which several agents may use."""

    source = None  # folder of what is copied
    extra = ()  # files that go with it
    own_faults = None  # what an agent may complain of that is no matter between it and a server

    def __init__(self, name):
        self.name = name
        self.folder = os.path.join(BUILD, name)
        self.environment = clean_environment()
        self.lock = threading.Lock()
        self.outcome = None

    def ready(self):
        """Installs it, once; raises what went wrong to everyone who asks."""
        with self.lock:
            if self.outcome is None:
                try:
                    self.copy()
                    self.install()
                    self.outcome = True
                except Exception as fault:
                    self.outcome = fault
        if self.outcome is not True:
            raise self.outcome

    def copy(self):
        source = self.source or os.path.join(flamegrid.shared_folder("clients") or "", self.name)
        if not os.path.isdir(source):
            raise Unavailable("no driver %s; set FG_SHARED" % source)
        for folder, _, names in os.walk(source):
            target = os.path.normpath(os.path.join(self.folder, os.path.relpath(folder, source)))
            os.makedirs(target, exist_ok=True)
            for name in names:  # the content alone: the originals may be read-only
                shutil.copyfile(os.path.join(folder, name), os.path.join(target, name))
        for path in self.extra:
            shutil.copyfile(path, os.path.join(self.folder, os.path.basename(path)))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def step(self, *command):
        """None, or why a command failed: the first of what it calls an error, else what it said last."""
        done = subprocess.run(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=STEP_TIMEOUT_S)
        if done.returncode == 0:
            return None
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        lines = [line for line in lines if re.search("error", line, re.I)][:3] or lines[-3:]
        return "%s: exit code %d: %s" % (" ".join(command), done.returncode, " / ".join(lines)[:MOST_REASON])

    def fetch(self, *command):
        """Runs a step that needs a registry, which may be unreachable."""
        try:
            fault = self.step(*command)
        except (OSError, subprocess.TimeoutExpired) as missing:
            fault = str(missing)
        if fault:
            raise Unavailable(fault)

    def build(self, *command):
        fault = self.step(*command)
        flamegrid.check(not fault, "%s", fault)

    def venv(self, name, locks=LOCKS):
        """A virtual environment with what NAME.txt in a folder of locks lists; its folder of programs."""
        home = os.path.join(BUILD, "venv-" + name)
        programs = os.path.join(home, "bin")
        os.makedirs(BUILD, exist_ok=True)
        with open(home + ".lock", "w", encoding="ascii") as lock:  # suites that run at the same time may need the same one
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(os.path.join(programs, "pip")):
                self.fetch(sys.executable, "-m", "venv", home)
            self.fetch(os.path.join(programs, "pip"), "install", "--quiet", "--disable-pip-version-check",
                       "--require-hashes", "--requirement", os.path.join(locks, name + ".txt"))
        return programs

    def need(self, version_command, at_least, lock):
        """Returns a tool that is new enough: of the machine, else from PyPI."""
        version = version_of(*version_command)
        if version is None or version < at_least:
            self.environment["PATH"] = self.venv(lock) + os.pathsep + self.environment["PATH"]

    def run(self, url, service, seconds, settings):
        """Returns the exit code and the output."""
        command, environment = self.command(url, service, seconds)
        done = subprocess.run(command, cwd=self.folder, env={**self.environment, **environment, **settings},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds + EXTRA_S)
        return done.returncode, done.stdout.decode("utf-8", "replace")


class Python(Driver):
    def install(self):
        self.programs = self.venv("python")

    def command(self, url, service, seconds):
        return ([os.path.join(self.programs, "python"), "burn.py", url, str(seconds), service],
                {"FG_UPLOAD_S": str(UPLOAD_S), "FG_MEM": "1"})


class Node(Driver):
    def install(self):
        self.need(("node", "--version"), (20, 0), "node")
        # The agent's addon comes built inside its package: no script has to run.
        self.fetch("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")

    def command(self, url, service, seconds):
        return (["node", "burn.js", url, str(seconds), service],
                {"FG_UPLOAD_S": str(UPLOAD_S), "FG_CPU": "1"})


class Go(Driver):
    def install(self):
        self.need(("go", "version"), (1, 25), "go")
        self.environment.update(GOFLAGS="-mod=readonly", GOTOOLCHAIN="local", CGO_ENABLED="0")
        self.fetch("go", "list", "-deps", ".")  # which brings the modules that are needed, and no others
        self.build("go", "build", "-trimpath", "-o", "driver", ".")

    def command(self, url, service, seconds):
        return [self.path("driver"), url, str(seconds), service], {"FG_UPLOAD_S": str(UPLOAD_S), "FG_ALL": "1"}


class Otlp(Go):
    source = os.path.join(HERE, "otlp")

    def command(self, url, service, seconds):
        return [self.path("driver"), service.rpartition(".")[2], url, str(seconds), service], {}


class Java(Driver):
    # At its end it removes the recording that it may be writing. Each of its complaints has text: a line without is the first part of one,
    # after which something else was printed, and its text is looked at as a line of its own.
    own_faults = r"Error dumping profiler .*NoSuchFileException|\[ERROR\] $"

    def install(self):
        for tool in ("javac", "mvn"):
            if not shutil.which(tool):
                raise Unavailable("no %s" % tool)
        self.fetch("mvn", "--quiet", "--batch-mode", "compile")

    def command(self, url, service, seconds):
        agent = self.path("target", "dependency", "agent-2.9.2.jar")
        # It sends nothing at its end, so the last interval is waited for.
        linger_ms = (UPLOAD_S + 1) * 1000
        return (["java", "-javaagent:" + agent, "-Dfg.linger.ms=%d" % linger_ms,
                 "-cp", self.path("target", "classes") + ":" + agent, "Burn", str(seconds)],
                {"PYROSCOPE_SERVER_ADDRESS": url, "PYROSCOPE_APPLICATION_NAME": service,
                 "PYROSCOPE_UPLOAD_INTERVAL": "%ds" % UPLOAD_S, "PYROSCOPE_LABELS": "env=test,lang=java"})


class Rust(Driver):
    extra = (os.path.join(HERE, "locks", "Cargo.lock"),)

    def install(self):
        # Of what other working copies have compiled, too: cargo keeps only sources in its home.
        self.target = os.path.join(os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo"), "flamegrid-target")
        version = version_of("cargo", "--version")
        if version is None or version < OLDEST_CARGO:
            raise Unavailable("no cargo of version %d.%d or later" % OLDEST_CARGO)
        # Without optimisation and debug information: a minute less, and the same names.
        self.environment.update(CARGO_PROFILE_DEV_DEBUG="false", CARGO_TARGET_DIR=self.target)
        self.fetch("cargo", "fetch", "--locked")
        self.build("cargo", "build", "--locked", "--offline")

    def command(self, url, service, seconds):
        return [os.path.join(self.target, "debug", "fg-client-rust"), url, str(seconds), service], {}


class Agent:
    """A driver, its settings, and the expected answers of the server."""

    def __init__(self, driver, name, types, sampled, *, may=(), service=None, seconds=8, tags=None, labels=True,
                 settings=None):
        self.driver = driver
        self.name = name
        self.types = set(types)  # of profiles, all that there are
        self.may = set(may)  # further ones, which a run may have or not
        self.sampled = sampled  # {type of them that has the burning: value of one sample, 0 where it varies}
        self.service = service or "agent." + name
        self.seconds = seconds
        self.tags = {"env": "test", "lang": driver.name} if tags is None else tags
        self.labels = labels  # whether samples carry burn=alpha or beta
        self.settings = settings or {}

    def run(self, url):
        return self.driver.run(url, "agent." + self.name, self.seconds, self.settings)


def all_agents():
    """What takes longest to build comes first. The ids are those that Pyroscope stores."""
    go, python, node, rust, java, otlp = (
        Go("go"), Python("python"), Node("node"), Rust("rust"), Java("java"), Otlp("otlp"))
    allocated = "memory:alloc_%s_tlab_bytes:bytes:space:bytes", "memory:alloc_%s_tlab_objects:count:space:bytes"
    of_otlp = [CPU, "cpu:cpu:nanoseconds:cpu:nanoseconds"]
    memory = ["memory:%s:space:bytes" % kind for kind in (
        "alloc_objects:count", "alloc_space:bytes", "inuse_objects:count", "inuse_space:bytes")]
    blocking = ["%s:contentions:count" % kind for kind in (
        "mutex:contentions:count", "mutex:delay:nanoseconds", "block:contentions:count", "block:delay:nanoseconds")]
    of_go = [CPU, "process_cpu:samples:count:cpu:nanoseconds", "goroutines:goroutine:count:goroutine:count"]
    of_node = ["wall:samples:count:wall:nanoseconds", "wall:wall:nanoseconds:wall:nanoseconds",
               "wall:cpu:nanoseconds:wall:nanoseconds"]
    heap_of_node = ["memory:inuse_objects:count:inuse_space:bytes", "memory:inuse_space:bytes:inuse_space:bytes"]
    return [
        # Its uploads begin at multiples of ten seconds.
        Agent(rust, "rust", [CPU], {CPU: SAMPLE_NS}, seconds=15),
        Agent(otlp, "otlp.grpc", of_otlp, dict.fromkeys(of_otlp, SAMPLE_NS)),
        Agent(otlp, "otlp.http", of_otlp, dict.fromkeys(of_otlp, SAMPLE_NS)),
        Agent(otlp, "otlp.json", of_otlp, dict.fromkeys(of_otlp, SAMPLE_NS)),
        Agent(go, "go", of_go + memory + blocking, {CPU: SAMPLE_NS, of_go[1]: 1}),
        Agent(java, "java", [CPU] + [kind % "in_new" for kind in allocated], {CPU: SAMPLE_NS},
              may=[kind % "outside" for kind in allocated],
              settings={"PYROSCOPE_FORMAT": "jfr", "PYROSCOPE_PROFILER_ALLOC": "64k"}),
        # By OTLP this agent sends neither its application's name nor its labels.
        Agent(java, "java.otlp", ["itimer:itimer:ns:itimer:ns"], {"itimer:itimer:ns:itimer:ns": SAMPLE_NS},
              service="unknown_service", tags={}, labels=False, settings={"PYROSCOPE_FORMAT": "otlp"}),
        Agent(node, "node", of_node + heap_of_node, {of_node[0]: 1, of_node[1]: 0, of_node[2]: 0}),
        Agent(python, "python", [CPU] + memory, {CPU: SAMPLE_NS}),
    ]
