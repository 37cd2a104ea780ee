"""The commands of the manual, run as a reader would type them.

The language of each block says whether it is run: `sh` and `console` are. Commands of one section run in order in one shell: a section
that starts a server has a folder of its own, all others share a server that has some profiles. Addresses and folders are replaced, the rest
is as it is written. A command that fails is an error, also an HTTP status of 400 and above, unless its comment names that status. A command
that no single server can run is in ELSEWHERE, with the suite that runs its like.
"""

import concurrent.futures
import gzip
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import certs
import examples
import flamegrid
import pprof
from flamegrid import check

STORY_TIMEOUT_S = 240  # only ends what hangs
AT_ONCE = 4  # most wait: for a server, for a canary
BLOCK = re.compile(r"^([ ]*)```([^\n]*)\n(.*?)^\1```[ ]*$", re.M | re.S)
HEADING = re.compile(r"^#+ ", re.M)
SHELLS = ("sh", "console")

# Suite, and the beginnings of commands whose like it runs.
ELSEWHERE = (
    ("agents", r"mvn |dotnet |(export )?(PYROSCOPE|CORECLR)_"),
    ("cli", r"bash deploy/run --(build-only|demo)\b|flamegrid import .*--resume"),
    ("cluster", r"flamegrid canary .*:14040|flamegrid-(ingester|distributor|querier|compactor) |curl .*(prepare-shutdown|5071/ring)|FG_ADMIN_LISTEN="),
    ("kubernetes", r"kubectl |helm "),
    ("packages", r"apt install |systemctl |deploy/debian/run|deploy/image/run|skopeo |cmake --install |DESTDIR="),
    ("ingest", r"flamegrid query '?flamegrid(-ingester)?\b"),
    ("bucket", r"flamegrid bucket (rebuild (tenant|l0 --apply)|repair|quarantine)\b|flamegrid bucket inspect tenants/acme/blocks/"
               r"|flamegrid encryption (rotate|shred|drop|rewrap)|vault "),
    ("unit", r"flamegrid bucket rebuild ring |curl .*/ingester/salvage"),
    ("access", r"flamegrid binding create "),
    ("ui", r"cd querier/ui$|npm "),
    ("manual", r"deploy/manual/run"),
    # These are the build and the tests themselves.
    ("all", r"(bash )?tests/|cmake |ctest |deploy/install |deploy/deps$"),
    # No test runs these: they look at or change the machine, or start a cluster for a person to try.
    ("none", r"deploy/cluster/member |bash deploy/run --cluster|sleep 180|dpkg --add-architecture|apt-get install crossbuild|chown root:flamegrid |"
             r"timedatectl|chronyc |iostat |top |df |du |openssl s_client "),
)
# Pages whose examples another suite runs, which also compares the answers.
PAGES_ELSEWHERE = {"distributor/API.md": "cli", "querier/API.md": "cli"}

# Pages that are one story; on others each section is.
WHOLE = ("deploy/operations/access.md",)
SERVES = re.compile(r"^(?:build/release/)?(?:flamegrid (?:server|agent) |bash deploy/run$|bash deploy/run -- )")
# Exit codes that a page explains; other commands end with 0.
CODES = {"flamegrid upgrade-check": (0, 3), "flamegrid bucket verify": (0, 2)}  # 2: objects were replaced meanwhile
STATUS = re.compile(r"# ([2-5]\d\d)\b")

PRELUDE = r"""
set -uo pipefail
server=
stop() { if [ -n "$server" ]; then kill "$server"; wait "$server" || true; server=; fi; }
trap stop EXIT
serve() { # serve COMMAND...: in the background, instead of the one before, until the section ends
    local scheme=http i
    stop
    [[ " $* " != *" --tls_cert_file "* ]] || scheme=https
    [[ " $* " == *" --listen "* ]] || set -- "$@" --listen "127.0.0.1:$OWN_PORT"
    "$@" --admin_listen "127.0.0.1:$OWN_ADMIN" >>"$HOME/server.log" 2>&1 </dev/null &
    server=$!
    for ((i = 0; i < 600; i++)); do
        if curl -kso /dev/null --max-time 1 "$scheme://127.0.0.1:$OWN_PORT/ready"; then
            # A reader's server has profiles; one that asks for tokens takes none from us.
            flamegrid push cpu.pb.gz --name my.app --url "$scheme://127.0.0.1:$OWN_PORT" --ca-file ca.pem >/dev/null 2>&1 || true
            return 0
        fi
        if ! kill -0 "$server" 2>/dev/null; then break; fi
        sleep 0.1
    done
    tail -n 5 "$HOME/server.log" >&2
    return 1
}
"""


def blocks_of(text):
    """The language and the text of each block of a page, and where it begins."""
    for found in BLOCK.finditer(text):
        indent, language, body = found.groups()
        yield language, re.sub("^" + indent, "", body, flags=re.M), found.start()


def complete(command):
    """Returns whether a shell runs this and does not wait for another line."""
    return not re.search(r"(\\|\||&&)$", command) and subprocess.run(["bash", "-n", "-c", command], capture_output=True, timeout=60).returncode == 0


def commands_of(language, body):
    """(command, what the page shows as its output) of a block."""
    command, shown = "", []
    for line in body.splitlines():
        if language == "console" and not line.startswith("$ ") and not command:
            shown[-1][1].append(line)
            continue
        command += ("\n" if command else "") + (line[2:] if language == "console" and line.startswith("$ ") else line)
        if complete(command):
            if command.strip() and not command.lstrip().startswith("#"):
                shown.append((command, []))
            command = ""
    check(not command, "no shell understands %s", command)
    return shown


def elsewhere(command):
    """The suite that runs the like of a command; None: it is run here."""
    return next((suite for suite, pattern in ELSEWHERE if re.match(pattern, command.replace("build/release/flamegrid", "flamegrid"))), None)


def alike(shown, said):
    """Returns whether output has the form that is shown: the same first line, except for its numbers, and no row that is not shown."""
    def form(line):
        return re.sub(r'"[^"]*"|\d[\d,.]*', "N", line).split()

    lines = said.splitlines()
    rows = {line.split()[0] for line in shown if line.strip()}
    return bool(lines) and form(lines[0]) == form(shown[0]) and all(line.split()[0] in rows for line in lines[1:] if line.strip() and line[0] != " ")


def replaced(command, folder, target, port, admin):
    """A command with our addresses, folders and names, and canaries that end soon."""
    here = "127.0.0.1:%d" % port
    for pattern, other in (
            (r"^bash deploy/run(?: --)?", "flamegrid server"),
            (r"(127\.0\.0\.1|localhost):(4040|4050|4071)\b", r"\1:%d" % port),
            (r"(127\.0\.0\.1|localhost|NODE):(5040|5050|5060|5071)\b", "127.0.0.1:%d" % admin),
            (r"\b(flamegrid\.example|pyroscope|flamegrid|node|cluster|elsewhere):4040\b", here),
            (r"https://profiles\.example", "http://" + here),
            (r"http://localhost:6060", target), (r"localhost:6060", target.removeprefix("http://")),
            (r"--listen :4040", "--listen 127.0.0.1:%d" % port),
            (r"(?<![\w.*~-])/(etc|var|usr)/", folder + r"/\1/"),
            (r"canary --for \w+", "canary --for 1s"), (r"canary --through", "canary --for 1s --through"),
            (r"\b(TENANT|acme)\b", "anonymous"), (r"\bTARGET\b", "central"),
            (r"\b4uJc0TqZ\b", "$(flamegrid token list --tenants shop --json | grep -o '\"id\": *\"[^\"]*\"' | head -n 1 | cut -d '\"' -f 4)")):
        command = re.sub(pattern, other, command)
    return command


class World:
    """A server with some profiles, and what the pages name. Use as a context."""

    def __init__(self):
        self.server = flamegrid.Server()
        self.home = self.server.folder
        self.bin = os.path.join(self.home, "bin")

    def __enter__(self):
        programs = os.path.dirname(flamegrid.binary())
        os.symlink(programs, self.bin)
        self.papers = certs.Certificates(self.home)
        self.papers.make("ca")
        self.papers.make("cert", "ca")
        with open(os.path.join(self.home, ".curlrc"), "w", encoding="utf-8") as file:
            file.write("fail-with-body\nsilent\nshow-error\nnoproxy = *\ncacert = %s\n" % self.papers.path("ca.pem"))
        self.work = self.make_folder("work")
        self.server.data = os.path.join(self.work, "data")
        away = flamegrid.free_port()  # nobody listens there: what is forwarded is pending
        settings = "data: %s\nforward:\n  targets: [{name: central, url: 'http://127.0.0.1:%d'}]\n" % (self.server.data, away)
        for name in ("flamegrid.yaml", "server.yaml", "etc/flamegrid/server.yaml"):
            with open(os.path.join(self.work, name), "w", encoding="utf-8") as file:
                file.write(settings)
        self.server.arguments = ("--config", os.path.join(self.work, "flamegrid.yaml"))
        self.server.start().wait_ready()
        for name in ("my.app{env=dev,version=1}", "my.app{env=dev,version=2}", "checkout{version=1.4.0}", "checkout{version=1.5.0}"):
            self.must("flamegrid push %s --name '%s'" % (os.path.join(self.work, "cpu.pb.gz"), name))
        self.must("flamegrid tenant create anonymous")
        status, body = self.server.operate("POST", "/ingester/flush", headers={"X-Flamegrid-Action": "flush"})
        check(status == 200, "flush: %d %s", status, body)
        return self

    def __exit__(self, *exception):
        self.server.__exit__(*exception)

    def make_folder(self, name):
        """Makes the files that a reader of any page has: the repository, profiles, certificates."""
        folder = os.path.join(self.home, name)
        for each in ("build", "profiles/shop", "etc/flamegrid", "etc/bash_completion.d", "etc/grafana/provisioning", "etc/prometheus/flamegrid", "var/lib/flamegrid", "var/profiles/shop", "usr/share/man/man1",
                     "usr/share/man/man8"):
            os.makedirs(os.path.join(folder, each), exist_ok=True)
        os.symlink(self.bin, os.path.join(folder, "build", "release"))
        os.symlink(os.path.join(flamegrid.ROOT, "deploy"), os.path.join(folder, "deploy"))
        shutil.copy(os.path.join(flamegrid.ROOT, "deploy", "prometheus", "alerts.yaml"), folder)
        profile = gzip.compress(pprof.make({("main", "work"): (3, 30_000_000), ("main", "sort"): (1, 10_000_000)}, time.time_ns()))
        for each in ("cpu.pb.gz", "profiles/shop/cpu.pb.gz", "var/profiles/shop/cpu.pb.gz"):
            with open(os.path.join(folder, each), "wb") as file:
                file.write(profile)
        with open(os.path.join(folder, "stacks.folded"), "w", encoding="ascii") as file:
            file.write("main;work 10\n")
        for name, made in (("ca.pem", "ca.pem"), ("cert.pem", "cert.pem"), ("key.pem", "cert.key")):
            shutil.copy(self.papers.path(made), os.path.join(folder, name))
        self.profile = profile
        return folder

    def environment(self, port, ports):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FG_BINARY", "FG_SHARED", "FLAMEGRID_"))}
        return {**kept, "HOME": self.home, "CURL_HOME": self.home, "PATH": self.bin + ":" + os.environ["PATH"], "NO_PROXY": "127.0.0.1,localhost",
                "FLAMEGRID_URL": "http://127.0.0.1:%d" % port, "OWN_PORT": str(ports[0]), "OWN_ADMIN": str(ports[1])}

    def must(self, command):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, env=self.environment(self.server.port, (0, 0)))
        check(done.returncode == 0, "%s: %d %s%s", command, done.returncode, done.stdout, done.stderr)

    def run(self, page, commands):
        """Runs the commands of a story in one shell. Yields what is wrong."""
        results, ports = tempfile.mkdtemp(dir=self.home), (flamegrid.free_port(), flamegrid.free_port())
        own = any(SERVES.match(command) for _, command, _ in commands)
        folder = self.make_folder(os.path.join(results, "own")) if own else self.work
        asked = ports if own else (self.server.port, self.server.admin_port)
        with examples.target(self.profile) as target:
            script = PRELUDE
            for number, (_, command, _) in enumerate(commands):
                ours = replaced(command, folder, target, *asked)
                script += "code=0; { %s%s\n} >%s 2>&1 || code=$?; echo $code >%s.code\n" % (
                    "serve " if SERVES.match(command) else "", ours, *[os.path.join(results, str(number))] * 2)
            shell = subprocess.Popen(["bash", "-c", script], cwd=folder, env=self.environment(asked[0], ports), stdin=subprocess.DEVNULL,
                                     start_new_session=True)
            try:
                shell.wait(STORY_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)  # with its server
                shell.wait()
        for number, (line, command, shown) in enumerate(commands):
            path = os.path.join(results, str(number))
            if not os.path.exists(path + ".code"):
                yield "%s:%d: %s: did not end in %d s" % (page, line, command, STORY_TIMEOUT_S)
                break
            with open(path, encoding="utf-8", errors="replace") as said, open(path + ".code", encoding="ascii") as code:
                fault = fault_of(command, int(code.read()), said.read(), shown)
            if fault:
                yield "%s:%d: %s: %s" % (page, line, command, fault)


def fault_of(command, code, said, shown):
    """Returns the fault in the result of a command, or None."""
    status = STATUS.search(command)
    if status and status.group(1) >= "400":
        return None if "error: " + status.group(1) in said else "not %s: %s" % (status.group(1), said)
    if code not in next((codes for name, codes in CODES.items() if command.startswith(name)), (0,)):
        return "exit code %d: %s" % (code, said[-1000:])
    return "other output: " + said if shown and not alike(shown, said) else None


def stories_of(page, text):
    """The commands of each section of a page: [(line, command, what is shown as its output)]."""
    stories = {}
    for language, body, at in blocks_of(text):
        section = 0 if page in WHOLE else max(found.start() for found in HEADING.finditer(text, 0, at))
        if language in SHELLS:
            line = text.count("\n", 0, at) + 1
            stories.setdefault(section, []).extend((line, command, shown) for command, shown in commands_of(language, body))
    return list(stories.values())


def run(pages):
    """Runs the blocks of (name, text) pages, some sections at a time. Returns faults, how many commands ran, and the suites that run the others."""
    faults, stories, suites = [], [], set()
    for name, text in pages:
        faults += ["%s:%d: the block does not say what it is: sh, console, text" % (name, text.count("\n", 0, at) + 1)
                   for language, _, at in blocks_of(text) if not language]
        for story in stories_of(name, text):
            suites.update(elsewhere(command) for _, command, _ in story)
            here = [step for step in story if not elsewhere(step[1])]
            if here and name not in PAGES_ELSEWHERE:
                stories.append((name, here))
    with World() as world, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(lambda story: list(world.run(*story)), stories):
            faults += found
    return faults, sum(len(story) for _, story in stories), suites - {None}
