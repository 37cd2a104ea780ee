#!/usr/bin/env python3
"""The commands push, query, labels, rules and canary against a real server: what they print, and how they fail.

    cli_test.py [-k REGEX]
"""

import datetime
import gzip
import http.client
import http.server
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import canary  # noqa: E402
import certs  # noqa: E402
import examples  # noqa: E402
import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

PROGRAM = os.path.abspath(flamegrid.binary())  # commands run in another folder
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SAMPLES = "process_cpu:samples:count:cpu:nanoseconds"
SPACE = "memory:alloc_space:bytes::"
TIMEOUT_S = 60
ASKING = ("push", "import", "query", "compare", "labels", "rules", "canary", "adhoc", "tenant", "token", "binding", "session", "login", "whoami", "forward",
          "usage", "cost", "audit")  # commands that talk to a server
RING = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "fuzz", "corpus", "ring", "three-undrained")

FOLDED = "main;work;hash 30\nmain;work;sort 10\nmain 5\n"
STACKS = {("main", "serve"): (3, 30_000_000), ("main", "idle"): (1, 10_000_000)}


class Cli:
    """The program with the URL of the server in its environment."""

    def __init__(self, url, folder):
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("FLAMEGRID_") and name not in ("FG_BINARY", "FG_SHARED")}
        self.environment.update(FLAMEGRID_URL=url, NO_PROXY="127.0.0.1")

    def run(self, *arguments, stdin=b""):
        done = subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True,
                              env=self.environment, cwd=self.folder, timeout=TIMEOUT_S)
        return done.returncode, done.stdout, done.stderr.decode()

    def good(self, *arguments, stdin=b""):
        """Returns the standard output of a run that must succeed without messages."""
        code, out, err = self.run(*arguments, stdin=stdin)
        check(code == 0 and err == "", "%s: exit code %d: %s", arguments, code, err)
        return out

    def lines(self, *arguments, stdin=b""):
        return self.good(*arguments, stdin=stdin).decode().splitlines()

    def bad(self, want_code, want_err, *arguments, stdin=b""):
        code, out, err = self.run(*arguments, stdin=stdin)
        check(code == want_code, "%s: exit code %d, not %d: %s", arguments, code, want_code, err)
        check(out == b"", "%s printed %s", arguments, out)
        check(re.search(want_err, err), "%s said %s, not %s", arguments, err, want_err)
        check(err.count("\n") == 1, "%s said more than a line: %s", arguments, err)

    def file(self, name, content):
        with open(os.path.join(self.folder, name), "wb") as out:
            out.write(content)
        return name


def push_all(cli):
    """Pushes what the other cases query. A pprof has its own time, text has the current one."""
    cli.file("a.folded", FOLDED.encode())
    cli.file("b.pb.gz", gzip.compress(pprof.make(STACKS, time.time_ns())))
    said = cli.lines("push", "a.folded", "--name", "shop.cpu{env=prod}", "--from", "now-10s")
    check(said == ["a.folded: ok 200, %d bytes of folded" % len(FOLDED)], "%s", said)
    said = cli.lines("push", "--name=my.api{env=test}", "--spy-name", "byhand", "b.pb.gz")
    check(len(said) == 1 and re.fullmatch(r"b\.pb\.gz: ok 200, \d+ bytes of pprof", said[0]), "%s", said)
    said = cli.lines("push", "-", "-n", "shop.alloc_space", stdin=b"main;grow 2097152\n")
    check(said == ["-: ok 200, 18 bytes of folded"], "%s", said)
    said = cli.lines("push", "-", "-n", "lines", "--format", "lines", stdin=b"a;b\na;b\na\n")
    check(said == ["-: ok 200, 10 bytes of lines"], "%s", said)


def case_version_and_help(cli):
    check(re.fullmatch(r"flamegrid \d+\.\d+\.\d+( \([0-9a-f]{7,}\))?\n", cli.good("version").decode()), "version")
    overview = cli.good("--help").decode()
    check(cli.good("-h").decode() == cli.good("help").decode() == overview, "-h")
    for command in ("push", "query", "compare", "labels"):
        check(command in overview, "--help lacks %s", command)
        text = cli.good(command, "--help").decode()
        check(text.startswith("usage: flamegrid " + command) and "examples:" in text, "%s", text)


def make_tree(folder, cmake):
    """A tree with deploy/run and nothing to build, with this in the place of cmake. Returns the environment to run it in."""
    tools = os.path.join(folder, "tools")
    os.makedirs(os.path.join(folder, "deploy"))
    os.makedirs(tools)
    shutil.copy(os.path.join(flamegrid.ROOT, "deploy", "run"), os.path.join(folder, "deploy", "run"))
    for path, text in (("deploy/install", "true"), ("deploy/deps", "true"), ("tools/cmake", cmake), ("tools/nproc", "echo 4")):
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n%s\n" % text)
        os.chmod(os.path.join(folder, path), 0o755)
    return {**os.environ, "PATH": tools + ":" + os.environ["PATH"]}


def build_with(folder, cmake):
    """deploy/run --build-only in a tree of its own, with this in the place of cmake: exit code, stdout, stderr."""
    environment = make_tree(folder, cmake)
    done = subprocess.run(["bash", "deploy/run", "--build-only"], cwd=folder, capture_output=True, text=True, env=environment,
                          timeout=TIMEOUT_S)
    return done.returncode, done.stdout, done.stderr


def case_the_build_shows_how_far_it_is(cli):
    code, out, err = build_with(os.path.join(cli.folder, "good-build"),
                                'if [ "$1" = --build ]; then for i in $(seq 40); do echo "[$i/40] file $i"; done; fi')
    check(code == 0 and err == "", "%d %s %s", code, out, err)
    lines = out.splitlines()
    check("about 2 min with 4 cores" in lines[1], "%s", lines)
    check(len(lines) == 13 and re.fullmatch(r"  2 %, \d+:\d\d left", lines[2]) and lines[-1] == "100 %, 0:00 left", "%s", lines)
    code, out, err = build_with(os.path.join(cli.folder, "bad-build"), 'echo "[1/2] one"; echo "no such header" >&2; exit 1')
    check(code == 1 and "no such header" in err and "the build failed" in err, "%d %s %s", code, out, err)


def case_a_server_makes_its_folder_and_does_not_warn(cli):
    data = os.path.join(cli.folder, "made", "with", "parents")
    with flamegrid.Server(data=data + "/") as server:
        server.start().wait_ready()
        check(os.path.isdir(data), "%s is not there", data)
        check("level=warn" not in server.log(), "%s", server.log())


def case_times(cli):
    cli.good("push", "a.folded", "--name", "timed", "--from", "2026-01-02 10:00", "--until", "2026-01-02T11:00:10+01:00")
    for begin, end in (("2026-01-02", "2026-01-03"), ("20260102", "2026-01-02 10:00:00"),
                       ("2026-01-02T11:59:59+02:00", "2026-01-02T10:00:01Z"), ("1767348000", "1767348001000")):
        lines = cli.lines("query", "timed", "--from", begin, "--until", end)
        check(len(lines) == 3, "%s %s: %s", begin, end, lines)
    check(cli.lines("labels", "service_name", "--from", "2026-01-02", "--until", "2026-01-03") == ["timed"], "labels")
    for command in (("query", "timed"), ("labels",), ("push", "a.folded", "--name", "a")):
        for text in ("soon", "1 hour", "2026-02-30", "now-1x", ""):
            cli.bad(2, r"--from %s is not a time; times are 2026-01-31, .*now-1h" % text, *command, "--from", text)
    cli.bad(2, r"--until tomorrow is not a time", "push", "a.folded", "--name", "a", "--until", "tomorrow")
    cli.bad(2, r"--from now is not before --until 1h", "push", "a.folded", "--name", "a", "--from", "now", "--until", "1h")


def case_times_before_2001(cli):
    """Their milliseconds have fewer digits than those of today, by which servers tell units apart."""
    cli.good("push", "a.folded", "--name", "early", "--from", "1999-12-31T23:59:58.5Z")
    early = ("--from", "1999-12-01", "--until", "2000-01-01")
    check(len(cli.lines("query", "early", "--output", "folded", *early)) == 3, "folded")
    found = json.loads(cli.good("query", "early", "--json", "--from", "1970-01-02"))
    check(found["flamebearer"]["numTicks"] == 450_000_000, "%s", found)
    check(b"<svg" in cli.good("query", "early", "--output", "svg", *early), "svg")
    check(len(cli.lines("query", "early", "--function", "work", "--output", "folded", *early)) == 2, "--function")
    check(b"no function changed" in cli.good("compare", "early", "early", *early), "compare")
    row, = json.loads(cli.good("labels", "service_name", "--cardinality", "--json", *early))
    check(row["value"] == "early", "%s", row)
    for command in (("usage",), ("cost",)):
        code, _, err = cli.run(*command, *early)
        check(code == 0, "%s: %s", command, err)
    # A millisecond later there is none.
    cli.bad(1, "no profiles of", "query", "early", "--output", "folded", "--from", "1999-12-31T23:59:58.501Z", "--until", "2000-01-01")


def case_push_of_an_old_profile_says_how_to_find_it(cli):
    old = time.time_ns() - 40 * 86400 * 10**9
    cli.file("old.pb.gz", gzip.compress(pprof.make(STACKS, old)))
    said = cli.lines("push", "old.pb.gz", "--name", 'old.api{b="c d"}')
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(old // 10**9))
    check(said[1].startswith("  its time is %s: flamegrid query " % at), "%s", said)
    query = shlex.split(said[1].partition("flamegrid ")[2])
    check(query[1] == '{service_name="old.api",b="c d"}', "%s", query)
    check(len(cli.lines(*query)) == 2, "%s finds nothing", query)
    said = cli.lines("push", "a.folded", "-n", "old.cpu{x=1}", "--from", "2026-01-05")
    query = shlex.split(said[1].partition("flamegrid ")[2])
    check(query[1] == 'old.cpu{x="1"}' and len(cli.lines(*query)) == 3, "%s", query)


def case_push_names(cli):
    for name in ("named{b=c}", 'named{b="c"}', ' named { b = "c" , } '):
        cli.good("push", "a.folded", "--name", name, "--from", "2026-01-06")
    found = cli.lines("labels", "b", "--match", "named", "--from", "2026-01-05", "--until", "2026-01-07")
    check(found == ["c"], "%s", found)
    for name in ("named{b=c", "named{b}", "named{=c}", 'named{b="c}', "named{b=c}d", "named b=c}", "{b=c}", 'named{b=~"c"}',
                 'named{b!="c"}', 'named{b="c,d"}', 'named{b=c"d"}', "named{b=c,,}", 'named{b="c" d}'):
        cli.bad(2, r"--name .*; a name is shop, shop\{env=prod\} or", "push", "a.folded", "--name", name)


def case_push_of_what_is_no_profile(cli):
    cli.file("notes.txt", b"A text without stacks.\nIt has lines, and none with a count\n")
    cli.file("picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    cli.file("text.gz", gzip.compress(b"main;work 30\n"))
    cli.file("cut.pb.gz", gzip.compress(pprof.make(STACKS, time.time_ns()))[:-20])
    cli.bad(1, r"notes.txt: failed, .* is no profile: no line is a stack and a count", "push", "notes.txt", "--name", "a")
    for name in ("picture", "text.gz"):
        cli.bad(1, r"%s: failed, \d+ bytes of pprof: is no pprof, or damaged" % name, "push", name, "--name", "a")
    cli.bad(1, "cut.pb.gz: failed, .*cannot be unpacked", "push", "cut.pb.gz", "--name", "a")
    cli.bad(1, "is no Java recording", "push", "a.folded", "--format", "jfr", "--name", "a")


def case_an_address_to_listen_on_is_checked_before_who_may_call(cli):
    for words, want in ((("--listen", "14999"), "listen is 14999: it has to be HOST:PORT, such as 127.0.0.1:14999"),
                        (("--listen", "localhost"), "listen is localhost: it has to be HOST:PORT, such as 127.0.0.1:4040"),
                        (("--listen", "nowhere.invalid:4040"), "listen is nowhere.invalid:4040: the host nowhere.invalid has no address: "),
                        (("--listen", "127.0.0.1:0", "--admin_listen", "5040"), "admin_listen is 5040: it has to be HOST:PORT")):
        cli.bad(1, re.escape(want), "server", "--data", "unused", *words)


def case_slips_of_the_fingers(cli):
    for words, want in ((("qury",), r'unknown command "qury"; did you mean "query"\?'),
                        (("pussh", "x"), r'did you mean "push"\?'),
                        (("frobnicate",), r'; it is server, agent, push, .* or version; see flamegrid --help'),
                        (("bucket", "verfy"), r'unknown verb "verfy"; did you mean "verify"\?'),
                        (("bucket", "exprot"), r'did you mean "export"\?'),
                        (("bucket", "frobnicate"), r'; it is ls, cat, .* or export; see flamegrid bucket --help'),
                        (("ring", "forgt"), r'did you mean "forget"\?'),
                        (("rules", "crate"), r'did you mean "create"\?'),
                        (("audit", "lst"), r'unknown verb "lst"; did you mean "list"\?'),
                        (("audit", "list", "x"), 'list: unexpected argument "x"; see flamegrid audit list --help'),
                        (("audit", "--json", "verify"), "no bucket at"),
                        (("audit", "verify", "--who", "x"), "verify: it takes no --who; see flamegrid audit verify --help"),
                        (("ring", "--json"), "flamegrid ring: ls, forget or replicate has to follow; see flamegrid ring --help"),
                        (("access",), "flamegrid access: init has to follow; see flamegrid access --help"),
                        (("access", "frobnicate"), 'unknown verb "frobnicate"; it is init; see flamegrid access --help'),
                        (("encryption", "rotate"), "rotate: TENANT has to follow; see flamegrid encryption rotate --help"),
                        (("encryption", "rewrap", "x"), 'rewrap: unexpected argument "x"'),
                        (("bucket",), "ls, cat, .* or export has to follow; see flamegrid bucket --help"),
                        (("bucket", "inspect", "--json", "--data", "x"), "NAME has to follow; see flamegrid bucket inspect --help"),
                        (("bucket", "verify", "--apply"), "verify: it takes no --apply; see flamegrid bucket verify --help"),
                        (("bucket", "cat", "x", "--json"), "cat: it takes no --json"),
                        (("bucket", "rebuild", "l0", "--generation", "x"), "--generation x: a number"),
                        (("token", "list", "--forever"), "list: it takes no --forever; see flamegrid token list --help"),
                        (("version", "x"), 'unexpected word "x"; see flamegrid version --help'),
                        (("audit",), "list, tail, export or verify has to follow"),
                        (("tenant", "create"), "create: ID has to follow"),
                        (("tenant", "create", "a", "b"), 'create: unexpected argument "b"'),
                        (("token", "rotate", "--overlap", "1h"), "rotate: ID has to follow"),
                        (("token", "lst"), r'did you mean "list"\?'),
                        (("token", "list", "--tenant", "shop"), r"unknown option --tenant \(did you mean --tenants\?\)"),
                        (("query", "shop", "--form", "now-1h"), r"unknown option --form \(did you mean --from\?\)"),
                        (("push", "a.folded", "--nme", "a"), r"did you mean --name\?"),
                        (("server", "--dta", "x"), r'did you mean "--data"\?'),
                        (("server", "--frobnicate"), r'unknown flag "--frobnicate"$'),
                        (("bucket", "verify", "--frobnicate"), r'unknown flag "--frobnicate"$'),
                        (("access", "init", "--agian"), r'unknown flag "--agian"'),
                        (("audit", "verify", "--frobnicate"), r'unknown flag "--frobnicate"; see flamegrid audit --help'),
                        (("whoami", "--frobnicate"), "unknown option --frobnicate; see flamegrid whoami --help")):
        cli.bad(2, want, *words)


def case_a_token_says_which_options_it_lacks(cli):
    for words, want in (("--name a --scopes push", "--tenants is missing"), ("--scopes push", "--name and --tenants are missing"),
                        ("", "--name, --tenants and --scopes are missing")):
        cli.bad(2, "flamegrid token: %s; see" % want, "token", "create", *words.split())


def case_results_that_cannot_be_written_are_a_failure(cli):
    """A full disk behind a redirection, for commands that print as they go and for those that print at once."""
    for words in ("--help", "version", "completion bash", "man query", "query --help", "labels", "labels --types", "labels service_name", "whoami",
                  "token create --name full --tenants a --scopes push", "tenant create full", "forward ls", "query shop", "push a.folded -n full.cpu"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, *words.split()], stdout=full, stderr=subprocess.PIPE, env=cli.environment, cwd=cli.folder, timeout=TIMEOUT_S,
                                  stdin=subprocess.DEVNULL, check=False)
        said = done.stderr.decode().splitlines()
        check(done.returncode == 1, "%s: exit code %d: %s", words, done.returncode, said)
        check(re.search(r": cannot write output(: No space left on device)?$", said[-1]), "%s: %s", words, said)


def case_partial_answers_say_what_they_lack(cli):
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        for name in ("torn", "whole"):
            check(client.send("POST", "/ingest?name=%s.cpu&from=now-20s&until=now-10s" % name, b"main;work 7\n")[0] == 200, "push")
        check(server.operate("POST", "/ingester/flush")[0] == 200, "flush")
        check(server.terminate() == 0, "%s", server.log_tail())
        held, = [line.split()[-1] for line in cli.lines("bucket", "ls", "segments/", "-r", "--data", server.data)]
        with open(os.path.join(server.data, "bucket", "objects", held), "r+b") as file:  # the first service is torn
            byte = file.read(101)[-1]
            file.seek(100)
            file.write(bytes([byte ^ 4]))
        server.start().wait_ready()
        lame = Cli("http://127.0.0.1:%d" % server.port, cli.folder)
        incomplete = r"flamegrid: the answer is not complete: %s: part anonymous/torn" % re.escape(held)
        for words in (("query", "{}"), ("query", "torn"), ("query", "whole", "--diff", "{}"), ("compare", "torn", "whole")):
            lame.bad(1, r"503: set partial=true .*part anonymous/torn.*; --partial does that", *words)
        check(lame.lines("query", "whole", "--partial") == ["main;work 70000000"], "whole")
        for words, want in ((("query", "{}"), "main;work 70000000"), (("query", "{}", "--output", "json"), '"numTicks":70000000'),
                            (("query", "whole", "--diff", "{}"), "100.00%"), (("compare", "{}", "whole"), "1 instance")):
            code, out, err = lame.run(*words, "--partial")
            check(code == 0 and want in out.decode() and re.match(incomplete, err), "%s: %d %s %s", words, code, out, err)
            check(err.count("\n") == 1, "%s said more than a line: %s", words, err)
        code, out, err = lame.run("query", "torn", "--partial")
        check(code == 1 and out == b"" and re.match(r"flamegrid query: nothing of .*torn.* can be read\n" + incomplete, err), "%s", err)
        code, out, err = lame.run("compare", "torn", "whole", "--partial")
        check(code == 1 and out == b"" and re.match(r"flamegrid compare: nothing of .*torn.* can be read\n" + incomplete, err), "%s", err)
        lame.good("labels", "service_name", "--partial")
        check(server.terminate() == 0, "%s", server.log_tail())
        export = ("bucket", "export", "{}", "--format", "folded", "--data", server.data)
        cli.bad(1, "set partial=true .*part anonymous/torn.*; --partial does that", *export)
        code, out, err = cli.run(*export, "--partial")
        check(code == 0 and out == b"main;work 70000000\n", "%d %s %s", code, out, err)
        check(re.fullmatch(r"flamegrid: the export is not complete: .*part anonymous/torn.*\n", err), "%s", err)
        cli.good("bucket", "repair", held, "--apply", "--data", server.data)
        code, out, err = cli.run(*export)
        check(code == 0 and out == b"main;work 70000000\n" and "the export is not complete: " in err, "%d %s %s", code, out, err)


def case_usage_says_what_waits(cli):
    with flamegrid.Server("--compactor.interval", "1h") as server:
        server.start().wait_ready()
        new = Cli("http://127.0.0.1:%d" % server.port, cli.folder)
        for command in ("usage", "cost"):
            code, out, err = new.run(command)
            check(code == 0 and out.count(b"\n") == 1, "%s of nothing: %d %s", command, code, out)
            check(re.fullmatch(r"flamegrid: nothing is counted for these days yet; .* some minutes after they came\n", err), "%s", err)
        new.good("push", "a.folded", "--name", "shop.cpu")
        check(server.operate("POST", "/ingester/flush")[0] == 200, "flush")
        for words in (("usage",), ("usage", "--by", "service"), ("cost",)):
            code, out, err = new.run(*words)
            check(code == 0 and out.count(b"\n") == 1, "%s: %d %s", words, code, out)
            check(re.fullmatch(r"flamegrid: not all is in yet: 1 profile \(\d+B as sent\) still to be merged, for no day yet\n", err), "%s", err)
        check(as_json(new, "usage")["waiting"][0]["profiles"] == 1 and as_json(new, "cost") == [], "JSON has no notes")


class SecureServer(flamegrid.Server):
    """A server with TLS, which its operators' port, on a loopback address, does without."""

    def ready(self):
        try:
            return self.operate("GET", "/ready")[0]
        except (OSError, http.client.HTTPException):
            return 0


def case_tls_of_an_authority_of_ones_own(cli):
    made = certs.Certificates(cli.folder)
    made.make("ca")
    made.make("secure", "ca")
    made.make("stranger")
    with SecureServer("--tls_cert_file", made.path("secure.pem"), "--tls_key_file", made.path("secure.key")) as server:
        server.start().wait_ready()
        url = "https://127.0.0.1:%d" % server.port
        whoami = ("whoami", "--url", url)
        cli.bad(1, "certificate problem.*name its certificate with --ca-file", *whoami)
        cli.bad(1, "certificate problem.*name its certificate with --ca-file", *whoami, "--ca-file", made.path("stranger.pem"))
        cli.bad(1, "--ca-file nowhere.pem: no certificate can be read", *whoami, "--ca-file", "nowhere.pem")
        cli.bad(1, r"only TLS \(https", "whoami", "--url", "http" + url[len("https"):])
        cli.bad(1, "its URL begins with http://", "whoami", "--url", "https" + cli.environment["FLAMEGRID_URL"][len("http"):])
        said = cli.lines(*whoami, "--ca-file", made.path("ca.pem"))
        check(said[:3] == ["you are  anyone", "mode     none", "tenants  anonymous, the only one"], "%s", said)
        cli.good("push", "a.folded", "--name", "secure.cpu", "--url", url, "--ca-file", "ca.pem")
        trusting = Cli(url, cli.folder)
        trusting.environment["FLAMEGRID_CA_FILE"] = "ca.pem"
        check(trusting.lines("labels", "service_name") == ["secure"], "FLAMEGRID_CA_FILE")
        trusting.bad(1, "no log-in for people", "login")
        trusting.bad(1, "certificate problem", "whoami", "--ca-file", "stranger.pem")
    for command in ASKING:
        check("--ca-file" in cli.lines("completion", "words", command), "%s has no --ca-file", command)


def case_certificate_of_ones_own(cli):
    made = certs.Certificates(cli.folder)
    for name, issuer in (("ca", None), ("secure", "ca"), ("mine", "ca"), ("other", "ca"), ("stranger", None)):
        made.make(name, issuer)
    with open(made.path("both.pem"), "w", encoding="ascii") as both:
        for name in ("mine.pem", "mine.key"):
            with open(made.path(name), encoding="ascii") as file:
                both.write(file.read())
    with SecureServer("--tls_cert_file", made.path("secure.pem"), "--tls_key_file", made.path("secure.key"),
                      "--tls_client_auth", "require", "--tls_client_ca_file", made.path("ca.pem")) as server:
        server.start().wait_ready()
        strict = Cli("https://127.0.0.1:%d" % server.port, cli.folder)
        strict.environment["FLAMEGRID_CA_FILE"] = "ca.pem"
        mine = ("--cert-file", "mine.pem", "--key-file", "mine.key")
        for command in (("whoami",), ("labels", "service_name"), ("query", "strict"), ("tenant", "list"), ("usage",)):
            strict.bad(1, "403: a client certificate is required.*; --cert-file and --key-file name yours", *command)
        strict.bad(1, "no log-in for people", "login", *mine)
        strict.good("push", "a.folded", "--name", "strict.cpu", *mine)
        check(strict.lines("labels", "service_name", "--cert-file", "both.pem") == ["strict"], "the key is with its certificate")
        strict.bad(1, r"--key-file mine\.key needs a certificate: --cert-file", "whoami", "--key-file", "mine.key")
        strict.bad(1, r"--cert-file nowhere\.pem: could not load", "whoami", "--cert-file", "nowhere.pem")
        strict.bad(1, r"--cert-file mine\.pem, --key-file other\.key: ", "whoami", "--cert-file", "mine.pem", "--key-file", "other.key")
        strict.bad(1, "whoami: https://.*alert", "whoami", "--cert-file", "stranger.pem", "--key-file", "stranger.key")
        strict.environment.update(FLAMEGRID_CERT_FILE="mine.pem", FLAMEGRID_KEY_FILE="mine.key")
        check(strict.lines("whoami")[0] == "you are  anyone", "FLAMEGRID_CERT_FILE and FLAMEGRID_KEY_FILE")
        code, _, said = strict.run("canary", "--for", "2s")
        check(code == 0, "canary: %d %s", code, said)
    for command in ASKING:
        words = cli.lines("completion", "words", command)
        check("--cert-file" in words and "--key-file" in words, "%s has no --cert-file and --key-file", command)


def case_completion(cli):
    check(cli.lines("completion", "words")[:4] == ["server", "agent", "push", "import"], "commands")
    for words, want in ((("push",), "--resume"), (("query", "shop", "--from"), "--diff"), (("bucket",), "verify"),
                        (("bucket", "export"), "--split"), (("ring",), "forget"), (("rules",), "delete"),
                        (("rules", "create"), "--group-by"), (("server",), "--data"),
                        (("server",), "--config"), (("agent",), "--forward.targets")):
        check(want in cli.lines("completion", "words", *words), "%s lacks %s", words, want)
    # Every option in --help.
    shown = re.findall(r"^  (?:-\w, )?--([\w-]+)", cli.good("query", "--help").decode(), re.M)
    check(["--" + name for name in shown] == cli.lines("completion", "words", "query") and len(shown) > 10, "%s", shown)
    script = cli.good("completion", "bash").decode()
    done = subprocess.run(["bash", "-c", script + 'COMP_WORDS=(flamegrid push --res); COMP_CWORD=2; _flamegrid; echo "${COMPREPLY[*]}"'],
                          capture_output=True, text=True, timeout=TIMEOUT_S,
                          env={**cli.environment, "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]})
    check(done.stdout == "--resume\n", "%s", done)
    check("compdef" in cli.good("completion", "zsh").decode() and "complete -c flamegrid" in cli.good("completion", "fish").decode(),
          "zsh, fish")
    cli.bad(2, "which shell\\? bash, zsh or fish", "completion", "ksh")


def verbs_of(cli, command):
    words = cli.lines("completion", "words", command)
    return [word for word in words if not word.startswith("-")]


def case_help_of_verbs(cli):
    """Each verb has help of its own, with the options that it takes and no others."""
    for command in ("bucket", "ring", "access", "encryption", "audit", "rules", "adhoc", "tenant", "token", "binding", "session", "forward"):
        overview = cli.good(command, "--help").decode()
        verbs = verbs_of(cli, command)
        check(verbs, "%s has no verbs", command)
        for verb in verbs:
            text = cli.good(command, verb, "--help").decode()
            check(text.startswith("usage: flamegrid %s %s" % (command, verb)) and len(text) < len(overview) + 2000, "%s", text)
            check("flamegrid %s %s" % (command, verb) in overview and re.search("^  %s( |$)" % verb, overview, re.M), "%s", overview)
            shown = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.M)
            check(["--" + name for name in shown] == cli.lines("completion", "words", command, verb), "%s %s: %s", command, verb, shown)
    check(re.search(r"^Compares the manifests", cli.good("bucket", "--json", "verify", "--help").decode(), re.M), "an option first")
    check("--apply" not in cli.good("bucket", "verify", "--help").decode(), "options of other verbs")
    check(cli.good("version", "--help").startswith(b"usage: flamegrid version"), "version")


class Refusing(http.server.BaseHTTPRequestHandler):
    """A target that takes no profile."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"code":"invalid_argument","message":"not from you"}'
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def case_forward(cli):
    """Lists pending and refused profiles; pauses, resumes and drops."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        threading.Thread(target=refusing.serve_forever, daemon=True).start()
        try:
            with flamegrid.Server("--forward.targets", "[{name: central, url: 'http://127.0.0.1:%d', protocol: push},"
                                  " {name: eu/west, url: 'http://127.0.0.1:1'}]" % refusing.server_port) as server:
                server.start().wait_ready()
                forward(Cli("http://127.0.0.1:%d" % server.port, cli.folder), server)
        finally:
            refusing.shutdown()
    cli.bad(1, "no target of forwarding is called central", "forward", "pause", "central")
    check(cli.lines("forward", "ls") == ["TARGET  STATE       PENDING     OLDEST       SENT    DROPPED  ERROR"], "without targets")


def forward(cli, server):
    client = flamegrid.Client(server.port)

    def targets():
        return json.loads(cli.good("forward", "ls", "--json"))["targets"]

    def wait_until(what, holds, asked=targets):
        end = time.monotonic() + TIMEOUT_S
        while not holds(asked()):
            check(time.monotonic() < end, "never: %s", what)
            time.sleep(0.2)

    cli.good("push", "a.folded", "--name", "shop{env=prod}", "--from", "2026-01-02")
    wait_until("central has refused it, and eu/west was tried", lambda both: both[0]["deadProfiles"] == 1
               and both[0]["pendingProfiles"] == 0 and both[1]["state"] == "retrying")
    head, central, west = cli.lines("forward", "ls")
    check(re.match(r"TARGET +STATE +PENDING +OLDEST +SENT +DROPPED +ERROR$", head), "%s", head)
    check(re.match(r"central +ok +0 +- +0 +1$", central), "%s", central)
    check(re.match(r"eu/west +retrying +1 +[\d.]+\w+ +0 +0  \S", west), "%s", west)
    dead = json.loads(cli.good("forward", "dead", "central", "--json"))["dead"]
    check(len(dead) == 1 and dead[0]["labels"]["env"] == "prod" and "not from you" in dead[0]["reason"], "%s", dead)
    line, = cli.lines("forward", "dead", "central")
    check(re.match(r"20\d\d-\S+Z  anonymous  \{.*env=\"prod\".*\}  .*not from you", line), "%s", line)
    check(cli.lines("forward", "dead", "eu/west") == [], "the other has refused nothing")
    check(cli.lines("forward", "pause", "eu/west") == ["nothing is sent to eu/west until it is resumed"], "pause")
    check([each["state"] for each in targets()] == ["ok", "paused"], "%s", targets())
    wait_until("a condition tells of the pause", lambda said: "\nforward_paused: eu/west: an operator has paused it" in said,
               lambda: client.send("GET", "/ready")[1].decode())
    check(json.loads(cli.good("forward", "resume", "eu/west", "--json")) == {"name": "eu/west", "paused": False}, "resume")
    check(cli.good("forward", "pause", "eu/west"), "again")
    wait_until("no request is under way", lambda both: both[1]["connections"] == 0)
    check(cli.lines("forward", "drop", "eu/west") == ["1 profile will not be sent to eu/west"], "drop")
    check(targets()[1]["pendingProfiles"] == 0 and targets()[1]["droppedProfiles"]["operator"] == 1, "%s", targets())
    check(server.operate("POST", "/ingester/flush", TIMEOUT_S)[0] == 200, "what is resent is in blocks")
    for at in (["--until", "2026-01-02"], 0), (["--until", "2026-01-03"], 1):
        arguments = ["forward", "resend", "central", "--from", "2026-01-01", *at[0], "--dry-run"]
        said = "about %d profile%s in blocks would be resent to central, before its selector and rules" % (at[1], "" if at[1] == 1 else "s")
        check(cli.lines(*arguments) == [said], "%s", cli.lines(*arguments))
        found = json.loads(cli.good(*arguments, "--json"))
        check((found["name"], found["profiles"], found["lostProfiles"]) == ("central", at[1], 0), "%s", found)
    check("resend" not in targets()[0], "a dry run has begun a resend")
    cli.bad(2, "--from TIME is missing", "forward", "resend", "central", "--dry-run")
    cli.bad(2, "--from xx is not a time", "forward", "resend", "central", "--from", "xx")
    cli.bad(2, "--end allows no other option", "forward", "resend", "central", "--end", "--dry-run")
    cli.bad(1, "no target of forwarding is called west", "forward", "drop", "west")
    cli.bad(2, "", "forward", "drop")


def case_man_pages(cli):
    overview = cli.good("man").decode()
    check(overview.startswith(".TH FLAMEGRID 1\n.SH NAME\nflamegrid \\- a continuous\\-profiling server"), "%s", overview[:200])
    for command in cli.lines("completion", "words"):
        check(".B %s\n" % command in overview, "the overview lacks %s", command)
        if command in ("server", "agent"):
            continue
        page = cli.good("man", command).decode()
        head = r"\.TH FLAMEGRID-%s 1\n\.SH NAME\nflamegrid\\-%s \\- \w.*\n\.SH SYNOPSIS\n" % (command.upper(), re.escape(command.replace("-", "\\-")))
        check(re.match(head, page), "%s", page[:200])
        check((".SH OPTIONS" in page) == (command not in ("completion", "man")), "%s: options", command)
        check(page.count(".TP\n.B ls\n") == (command in ("bucket", "forward", "ring")), "%s: verbs", command)
        check(not re.search(r"^\.(?!TH|SH|TP|B |nf|fi)", page, re.M), "a line of %s is taken for a request", command)
    check(r"\-\-resume" in cli.good("man", "push").decode(), "options")
    for program in [[PROGRAM, "man", "server"], [PROGRAM, "man", "agent"]] + [[*program, "--help=man"] for program in PROGRAMS[2:]]:
        done = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT_S)
        check(done.returncode == 0 and re.match(r"\.TH FLAMEGRID-[A-Z]+ 8\n", done.stdout), "%s: %s", program, done.stdout[:200])
        check(not re.search(r"^\.(?!TH|SH|TP|BR |B |nf|fi)", done.stdout, re.M), "a line of %s is taken for a request", program)
        shown = subprocess.run([*(program[:1] + program[2:] if program[1] == "man" else program[:1]), "--help"],
                               capture_output=True, text=True, timeout=TIMEOUT_S)
        settings = re.findall(r"^ *--([\w.]+)", shown.stdout, re.M)
        paged = re.findall(r"^\.BR \\-\\-([\w.]+) =", done.stdout, re.M)
        check(set(settings) - {"config", "help"} == set(paged) and len(paged) > 20, "%s: --help and the page differ: %s",
              program, set(settings) ^ set(paged))
    cli.bad(2, 'unknown command "pull"; did you mean "push"', "man", "pull")
    cli.bad(2, "one COMMAND at a time", "man", "push", "query")


def case_push_failures(cli):
    cli.file("empty", b"")
    cli.bad(1, r"missing\.folded: failed, .*No such file", "push", "missing.folded", "--name", "a")
    cli.bad(1, r"empty: failed, .*empty", "push", "empty", "--name", "a")
    cli.bad(1, r"a name with a dot needs a type at its end if the file is folded, such as my\.app\.cpu{env=dev}: .*unknown profile type: app",
            "push", "a.folded", "--name", "my.app{env=dev}")
    cli.bad(1, r"the server says 400: ", "push", "a.folded", "--name", "no blanks")
    cli.bad(2, r"--name is needed", "push", "a.folded")
    cli.bad(2, r"--resume and --connections need --dir", "push", "a.folded", "--name", "a", "--connections", "2")
    # A failed file does not stop the others.
    code, out, err = cli.run("push", "missing", "a.folded", "--name", "twice")
    check(code == 1 and b"a.folded: ok" in out and "missing: failed" in err, "%d %s %s", code, out, err)


def case_push_dir(cli):
    now_ns = time.time_ns()
    for number in range(30):
        folder = os.path.join(cli.folder, "old", "backfill-%d" % (number % 2), "pod-%d" % (number % 5))
        os.makedirs(folder, exist_ok=True)
        # A month ago, one minute apart: times in the profiles themselves.
        body = pprof.make(STACKS, now_ns - (30 * 86400 - 60 * number) * 10**9)
        cli.file(os.path.join(folder, "%d.pb.gz" % number), gzip.compress(body))
    cli.file(os.path.join("old", "backfill-0", ".hidden"), b"not a profile")
    os.symlink(cli.folder, os.path.join(cli.folder, "old", "loop"))
    for _ in range(2):  # the second time nothing is new
        said = cli.lines("push", "--dir", "old/", "--connections", "3")
        check(len(said) == 1 and re.fullmatch(r"30 files sent, \d+ bytes, 0 failed, \d+\.\d s", said[0]), "%s", said)
        for service in ("backfill-0", "backfill-1"):
            lines = cli.lines("query", service, "--from", "now-31d", "--output", "folded")
            check(sorted(lines) == ["main;idle %d" % (15 * 10_000_000), "main;serve %d" % (15 * 30_000_000)],
                  "%s", lines)
    cli.file(os.path.join("old", "of-nobody.folded"), b"main 1\n")
    code, out, err = cli.run("push", "--dir", "old")
    check(code == 1 and b"30 files sent" in out and b"1 failed" in out, "%d %s", code, out)
    check("old/of-nobody.folded: failed, whose is it? --name" in err, "%s", err)
    said = cli.lines("push", "--dir", "old/backfill-0", "--name", "renamed")
    check(said[0].startswith("15 files sent"), "%s", said)
    os.mkdir(os.path.join(cli.folder, "empty-folder"))
    cli.bad(1, r"empty-folder: there are no files in it", "push", "--dir", "empty-folder")
    cli.bad(1, r"absent: No such file", "push", "--dir", "absent")
    cli.file(os.path.join("old", "backfill-1", ".series"), b"{pod=~'a'}")
    cli.bad(1, r"old/backfill-1/\.series: labels have one value each, with =: pod", "push", "--dir", "old")
    cli.file(os.path.join("old", "backfill-1", ".series"), b'{service_name="by labels",__name__="mutex"}\n')
    cli.file(os.path.join("old", "backfill-1", "pod-1", "text.folded"), b"main 1\n")
    code, out, err = cli.run("push", "--dir", "old")
    check(code == 1 and b"30 files sent" in out and b"2 failed" in out, "%d %s", code, out)
    check("text.folded: failed, 7 bytes of folded: with labels of its own only pprof can be sent" in err, "%s", err)
    lines = cli.lines("query", "by labels", "--type", "mutex:cpu", "--from", "now-31d", "--output", "folded")
    check(sorted(lines) == ["main;idle %d" % (15 * 10_000_000), "main;serve %d" % (15 * 30_000_000)], "%s", lines)
    cli.bad(2, r"--dir or files, not both", "push", "a.folded", "--dir", "old")


def many_files(cli, folder, count):
    now_ns = time.time_ns()
    os.makedirs(os.path.join(cli.folder, folder, folder))
    for number in range(count):
        body = pprof.make(STACKS, now_ns - number * 60 * 10**9)
        cli.file(os.path.join(folder, folder, "%d.pb.gz" % number), gzip.compress(body))


def case_push_dir_goes_on_where_it_was_interrupted(cli):
    many_files(cli, "resumed", 10)
    push = ("push", "--dir", "resumed", "--resume", "notes")
    bad = cli.file(os.path.join("resumed", "resumed", "bad.folded"), b"no stack\n")
    code, out, err = cli.run(*push)
    check(code == 1 and out.startswith(b"10 files sent, ") and b"1 failed" in out, "%d %s %s", code, out, err)
    with open(os.path.join(cli.folder, "notes"), "rb+") as notes:
        content = notes.read()
        check(content.count(b"\n") == 11, "%s", content)
        notes.truncate(len(content) - 3)  # the last line was cut short
    cli.file(os.path.join("resumed", "resumed", "0.pb.gz"), gzip.compress(pprof.make(STACKS, time.time_ns())))  # changed
    cli.bad(1, "--resume notes: is not of this folder and server", "push", "--dir", "old", "--resume", "notes")
    cli.bad(1, "--resume a.folded: is not of this folder", "push", "--dir", "resumed", "--resume", "a.folded")
    os.remove(os.path.join(cli.folder, bad))
    said = cli.lines(*push)
    check(re.fullmatch(r"(1|2) files sent, \d+ bytes, 0 failed, \d+\.\d s, (8|9) sent before", said[0]), "%s", said)
    check(not os.path.exists(os.path.join(cli.folder, "notes")), "the notes are left")
    check(cli.lines(*push)[0].startswith("10 files sent"), "all again")
    cli.bad(2, "--resume and --connections need --dir", "push", "a.folded", "--name", "a", "--resume", "notes")


def case_progress_is_for_terminals(cli):
    many_files(cli, "watched", 5)
    master, slave = pty.openpty()
    done = subprocess.run([PROGRAM, "push", "--dir", "watched"], stdout=subprocess.PIPE, stderr=slave,
                          env=cli.environment, cwd=cli.folder, timeout=TIMEOUT_S)
    os.close(slave)
    shown = os.read(master, 65536)
    os.close(master)
    check(done.returncode == 0 and done.stdout.startswith(b"5 files sent"), "%s", done)
    check(re.search(rb"\r\x1b\[K1 of 5 files, .* MiB/s, \d+:\d\d left", shown) and shown.endswith(b"\r\x1b[K"), "%s", shown)


def case_query_folded(cli):
    want = ["main 50000000", "main;work;hash 300000000", "main;work;sort 100000000"]
    for selector in ("shop", "shop.cpu", 'shop{env="prod"}', '{service_name="shop",env=~"p.*"}',
                     CPU + '{service_name="shop"}'):
        check(cli.lines("query", selector) == want, "%s: %s", selector, cli.lines("query", selector))
    check(cli.lines("query", "shop.alloc_space") == ["main;grow 2097152"], "alloc_space")
    check(cli.lines("query", "shop", "--type", "alloc_space") == ["main;grow 2097152"], "--type")
    check(cli.lines("query", "shop", "--type=memory:alloc_space") == ["main;grow 2097152"], "name:type")
    check(cli.lines("query", "shop", "--type", SPACE) == ["main;grow 2097152"], "full type")
    check(cli.lines("query", "lines") == ["a 10000000", "a;b 20000000"], "lines")


def case_a_part_is_asked_for_once(cli):
    with flamegrid.Server() as server:
        server.start().wait_ready()
        there = Cli("http://127.0.0.1:%d" % server.port, cli.folder)
        there.good("push", "a.folded", "--name", "shop.cpu", "--from", "now-10s")
        outputs = ("folded", "json", "dot", "speedscope", "firefox", "svg")
        for output in outputs:
            there.good("query", "shop", "--function", "work", "--output", output)
        counts = [line.split()[-1] for line in server.metrics().splitlines()
                  if line.startswith("pyroscope_request_duration_seconds_count") and 'route="render"' in line]
        check(counts == [str(len(outputs))], "requests for %d graphs: %s", len(outputs), counts)


def case_query_parts(cli):
    check(cli.lines("query", "shop", "--call-site", "main;work") == ["main;work;hash 300000000", "main;work;sort 100000000"],
          "--call-site")
    check(cli.lines("query", "shop", "--function", "work") == ["work;hash 300000000", "work;sort 100000000"], "--function")
    check(cli.lines("query", "shop", "--regex", "ha.h|main", "--call-site", "main;work;hash") == ["main;work;hash 300000000"],
          "--regex: the outermost of them counts")
    graph = json.loads(cli.good("query", "shop", "--function", "sort", "--output", "json"))["flamebearer"]
    check(graph["numTicks"] == 100000000 and set(graph["names"]) == {"total", "sort"}, "%s", graph)
    cli.bad(2, "need --output folded", "query", "shop", "--function", "work", "--output", "pprof")
    cli.bad(2, "needs --output folded", "query", "shop", "--call-site", "main", "--output", "table")
    data = gzip.decompress(cli.good("query", "shop", "--call-site", "main;work;sort", "--output", "pprof"))
    check(pprof.folded(data) == {("main", "work", "sort"): 100000000}, "%s", pprof.folded(data))
    for output in ("folded", "json", "dot", "speedscope", "firefox", "svg"):
        for option, want in (("--function", "has the function nope"), ("--regex", "has a function that matches nope"),
                             ("--call-site", "begins with nope")):
            cli.bad(1, 'no stack of {service_name="shop"} %s from now-1h until now$' % want, "query", "shop", option, "nope", "--output", output)
    cli.bad(1, "no stack of .* that begins with main has the function nope from", "query", "shop", "--call-site", "main", "--function", "nope")
    for output in ("pprof", "goPgo"):
        cli.bad(1, "no stack of .* begins with nope from", "query", "shop", "--call-site", "nope", "--output", output)
    for output in ("folded", "json", "dot", "speedscope", "firefox", "svg"):
        nobody = ("query", CPU + '{service_name="nobody"}', "--output", output)
        cli.bad(1, "no profiles of .*nobody", *nobody)
        cli.bad(1, "no profiles of .*nobody", *nobody, "--function", "nope")
    cli.bad(1, "one of function and regex", "query", "shop", "--function", "work", "--regex", "w.*")
    cli.bad(1, "regex", "query", "shop", "--regex", "(")


def case_query_firefox(cli):
    thread, = json.loads(cli.good("query", "shop", "--output", "firefox"))["threads"]
    check(sum(thread["samples"]["weight"]) == 450, "milliseconds: %s", thread["samples"])


def case_query_pprof_service(cli):
    check(cli.lines("query", "my.api") == ["main;idle 10000000", "main;serve 30000000"], "the default is cpu")
    check(cli.lines("query", "my.api", "-t", "samples") == ["main;idle 1", "main;serve 3"], "samples")
    check(cli.lines("query", '{pyroscope_spy="byhand"}', "-t", "samples") == ["main;idle 1", "main;serve 3"], "spy")


def case_query_table(cli):
    rows = cli.lines("query", "shop", "--output", "table")
    check(rows[0].startswith(CPU) and 'service_name="shop"' in rows[0], "%s", rows)
    cells = [row.split() for row in rows[3:]]
    check(cells == [["300.00ms", "66.67%", "300.00ms", "66.67%", "hash"],
                    ["100.00ms", "22.22%", "100.00ms", "22.22%", "sort"],
                    ["50.00ms", "11.11%", "450.00ms", "100.00%", "main"],
                    ["0ns", "0.00%", "400.00ms", "88.89%", "work"]], "%s", cells)
    rows = cli.lines("query", "shop", "--output", "table", "--limit", "1")
    check(len(rows) == 5 and rows[4].startswith("3 more functions"), "%s", rows)
    check("2.00MiB" in "".join(cli.lines("query", "shop.alloc_space", "--output", "table")), "bytes")


def case_push_only_what_is_stored(cli):
    cli.file("saved.json", cli.good("query", "shop", "--output", "json"))
    cli.file("perf.txt", b"a 1 1.0: cycles:\n\t0f f (m)\n\n")
    for name, kind in (("saved.json", "flamebearer"), ("perf.txt", "perf_script")):
        cli.bad(1, "%s: failed, .*of %s, which is stored as no series: flamegrid adhoc upload" % (name, kind), "push", name, "--name", "a")
        cli.bad(2, "--format %s: it is pprof" % kind, "push", name, "--name", "a", "--format", kind)


def case_query_pprof(cli):
    data = gzip.decompress(cli.good("query", "my.api", "--output", "pprof"))
    check(pprof.read_totals(data) == [40_000_000], "%s", pprof.read_totals(data))
    check(cli.good("query", "my.api", "--output", "pprof", "-o", "out.pb.gz") == b"", "-o printed something")
    with open(os.path.join(cli.folder, "out.pb.gz"), "rb") as out:
        check(pprof.read_totals(gzip.decompress(out.read())) == [40_000_000], "the file")
    cli.bad(1, "cannot write", "query", "my.api", "--output", "pprof", "-o", "nowhere/out")
    data = gzip.decompress(cli.good("query", "my.api", "--output", "pprof", "--max-nodes", "2"))
    check(pprof.folded(data) == {("main", "other"): 10000000, ("main", "serve"): 30000000}, "%s", pprof.folded(data))
    data = gzip.decompress(cli.good("query", "my.api", "--output", "goPgo"))
    check(pprof.folded(data) == {("main", "idle"): 10000000, ("main", "serve"): 30000000}, "%s", pprof.folded(data))
    # Export and push again.
    cli.good("push", "out.pb.gz", "--name", "again")
    check(cli.lines("query", "again") == ["main;idle 10000000", "main;serve 30000000"], "again")


def case_query_json(cli):
    answer = json.loads(cli.good("query", "shop", "--output", "json"))
    check(answer["flamebearer"]["numTicks"] == 450_000_000, "%s", answer)
    check(answer["metadata"]["name"] == "cpu" and answer["timeline"]["samples"], "%s", answer)
    answer = json.loads(cli.good("query", "shop", "--output", "json", "--max-nodes", "1"))
    check("other" in answer["flamebearer"]["names"], "%s", answer["flamebearer"]["names"])


def case_query_sorted_by_total(cli):
    cli.file("deep.folded", b"main;work 30\nmain;work;leaf 50\nother 60\n")
    cli.good("push", "deep.folded", "--name", "deep")
    for column, want in (("self", ["other", "leaf", "work", "main"]), ("total", ["main", "work", "other", "leaf"])):
        lines = cli.lines("query", "deep", "--output", "table", "--sort", column)
        check([line.split()[-1] for line in lines[3:]] == want, "%s: %s", column, lines)
    check(cli.lines("query", "deep", "--sort", "total") == lines, "rows are of a table")
    check(len(cli.lines("query", "deep", "--limit", "1")) == 5, "%s", cli.lines("query", "deep", "--limit", "1"))
    cli.bad(2, "--sort size: it is self or total", "query", "deep", "--sort", "size")
    for words, want in ((("--output", "folded", "--sort", "total"), "--sort and --limit need --output table or --diff"),
                        (("--json", "--limit", "3"), "--sort and --limit need"), (("--series", "--limit", "3"), "--sort and --limit need"),
                        (("--output", "folded", "--json"), "--json and --output folded do not go together"),
                        (("--step", "60"), "--step needs --series"), (("--series", "--max-nodes", "9"), "--max-nodes and --series")):
        cli.bad(2, want, "query", "deep", *words)


def case_query_series(cli):
    for at in ("10:00:00", "10:00:30", "10:01:00.5", "10:02:00"):
        cli.good("push", "deep.folded", "--name", "steps", "--from", "2026-01-09T" + at)
    span = ("--from", "2026-01-09T10:00:01", "--until", "2026-01-09T10:01:59")
    lines = cli.lines("query", "steps", "--series", "--step", "60", *span)
    check(lines == ["2026-01-09T10:00:00Z  1.40s  46.67ms/s in 30 s", "2026-01-09T10:01:00Z  2.80s  31.11ms/s in 90 s"], "%s", lines)
    answer = json.loads(cli.good("query", "steps", "--series", "--step", "60", "--json", *span))
    check(answer == {"step": 60, "unit": "nanoseconds", "rate_unit": "nanoseconds per second", "covered": 120,
                     "points": [{"start": "2026-01-09T10:00:00Z", "time": "2026-01-09T10:01:00Z", "value": 1_400_000_000, "covered": 30,
                                 "rate": 46666666.667},
                                {"start": "2026-01-09T10:01:00Z", "time": "2026-01-09T10:02:00Z", "value": 2_800_000_000, "covered": 90,
                                 "rate": 31111111.111}]}, "%s", answer)
    # Steps of months: none of them seems to begin in the future.
    line, = cli.lines("query", "steps", "--series", "--from", "1990-01-01")
    check(line[:10] <= "2026-01-09", "%s", line)
    check(len(cli.lines("query", "steps", "--series", *span)) > 0, "without a step")
    cli.bad(1, "no profiles of", "query", "nobody", "--series", "--type", CPU)
    cli.bad(2, "one of --output, --series and --diff", "query", "steps", "--series", "--output", "table")


def case_query_diff(cli):
    cli.file("before.folded", b"main;a 50\nmain;b 50\n")
    cli.file("after.folded", b"main;a 150\nmain;c 50\n")
    cli.good("push", "before.folded", "--name", "differs{version=1}")
    cli.good("push", "after.folded", "--name", "differs{version=2}")
    sides = ("query", 'differs{version="2"}', "--diff", 'differs{version="1"}')
    rows = [line.split() for line in cli.lines(*sides)]
    check(rows == [["BEFORE", "NOW", "CHANGE", "FUNCTION"], ["50.00%", "0.00%", "-50.00%", "b"],
                   ["50.00%", "75.00%", "+25.00%", "a"], ["0.00%", "25.00%", "+25.00%", "c"]], "%s", rows)
    answer = json.loads(cli.good(*sides, "--json", "--sort", "total", "--limit", "2"))
    check([row["name"] for row in answer["functions"]] == ["b", "a"], "%s", answer)
    check(answer["functions"][1] == {"name": "a", "before": 500_000_000, "now": 1_500_000_000, "share_before": 0.5,
                                     "share_now": 0.75}, "%s", answer)
    cli.bad(1, "no profiles of .*nobody.* from 20.*Z until 20.*Z to compare", "query", "differs", "--diff", "nobody")
    cli.bad(2, "--diff-from and --diff-until need --diff", "query", "differs", "--diff-from", "2h")


def case_compare(cli):
    cli.file("before.folded", b"main;a 5000\nmain;b 5000\n")
    cli.file("after.folded", b"main;a 9000\nmain;c 1000\n")
    for number in range(5):
        cli.good("push", "before.folded", "--name", "compares{version=1,pod=a%d}" % number)
        cli.good("push", "after.folded", "--name", "compares{version=2,pod=b%d}" % number)
    sides = ("compare", 'compares{version="1"}', 'compares{version="2"}')
    lines = cli.lines(*sides)
    check(lines[0] == "5 and 5 instances (pod); by share" and lines[2].split()[:3] == ["STATE", "CHANGE", "FROM"], "%s", lines)
    rows = {line.split()[-1]: line.split() for line in lines[3:] if line.split() and line.split()[0] in ("up", "gone", "new")}
    check(set(rows) == {"a", "b", "c"} and rows["a"][:2] == ["up", "+80.0%"] and rows["a"][4:] == ["50.00%", "90.00%", "a"], "%s",
          lines)
    check(rows["b"][:2] == ["gone", "-"] and rows["c"][:2] == ["new", "-"], "%s", lines)
    check(any("could hide here" in line for line in lines), "%s", lines)
    answer = json.loads(cli.good(*sides, "--json", "--all", "--sort", "name", "--by", "rate"))
    check(answer["by"] == "rate" and [row["name"] for row in answer["changes"]] == ["a", "b", "c", "main"], "%s", answer)
    check(b"SEEN" in cli.good(*sides, "--all"), "--all")
    check(b"no function changed" in cli.good("compare", "compares", "compares"), "the same twice")
    cli.bad(2, "two SELECTORs", "compare")
    cli.bad(2, "--before-from", "compare", "compares")
    cli.bad(1, "by: .*size.* is none of share, rate", *sides, "--by", "size")
    for sides in (("compares", "nobody"), ("nobody", "compares")):
        cli.bad(1, "no profiles of .*nobody.* from 20.*Z until 20.*Z to compare", "compare", *sides)
    check(json.loads(cli.good("compare", "nobody", "compares", "--json"))["empty"] == ["a"], "nobody, as JSON")


def case_query_failures(cli):
    cli.bad(1, "no profiles of .*nobody", "query", "nobody")
    cli.bad(1, "no profiles of .*shop.* until now-1d", "query", "shop", "--from", "now-2d", "--until", "now-1d")
    for output in ("table", "folded", "pprof", "goPgo"):
        cli.bad(1, "no profiles of", "query", CPU + '{service_name="nobody"}', "--output", output)
    cli.bad(1, "no profiles of the type goroutine of {service_name=\"shop\"} from now-1h until now; there are: .*" + CPU, "query", "shop", "--type", "goroutine")
    cli.bad(2, r'a regular expression is wrong: 1:2: parse error: .*missing \): \(; see', "query", 'shop{env=~"("}')
    cli.bad(1, "the server says 400: profile-type", "query", "shop", "--type", CPU + ":a:b", "--output", "folded")
    cli.bad(2, "parse error", "query", "shop{env=prod}")
    cli.bad(1, "no server at 127.0.0.1:1: ", "query", "shop", "--url", "127.0.0.1:1")


def span_around(err, time_text):
    """Returns the options with the times at which an error says that there are profiles. Other cases have profiles of 2000, so a
    thousandth of all time is ten days, and where these begin depends on the time of day."""
    span = shlex.split(err.partition("until now, but there are some: ")[2])
    times = [datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in span[1::2]]
    check(span[0::2] == ["--from", "--until"] and times[0] <= datetime.datetime.fromisoformat(time_text) <= times[1], "%s", err)
    check(times[1] - times[0] < datetime.timedelta(days=40), "%s", err)
    return span


def case_no_profiles_says_when_there_are_some(cli):
    cli.good("push", "a.folded", "--name", "once", "--from", "2026-01-08 10:00")
    code, _, err = cli.run("query", "once")
    check(code == 1 and "from now-1h until now, but there are some: " in err, "%d %s", code, err)
    span = span_around(err, "2026-01-08T10:00:00+00:00")
    check(len(cli.lines("query", "once", *span)) == 3, "%s", span)
    cli.bad(1, r"no profiles of .*nobody.*; flamegrid labels service_name lists", "query", "nobody")
    # Also if it has profiles of several types, of which a query has to choose one.
    for kind in ("alloc_objects", "inuse_space"):
        cli.good("push", "a.folded", "--name", "once-heaps." + kind, "--from", "2026-01-08 10:00")
    for more in ((), ("--type", "inuse_space"), ("--json",), ("--series",)):
        code, _, err = cli.run("query", "once-heaps", *more)
        check(code == 1, "%s: %d %s", more, code, err)
        span = span_around(err, "2026-01-08T10:00:00+00:00")
        check(len(cli.lines("query", "once-heaps", *span, "--type", "inuse_space")) == 3, "%s", span)
    cli.bad(1, "there are several types, choose with --type: ", "query", "once-heaps", *span)
    with flamegrid.Server() as server:
        server.start().wait_ready()
        cli.bad(1, "the server has none at all", "query", "shop", "--url", "http://127.0.0.1:%d" % server.port)


def case_query_on_a_terminal(cli):
    """On a terminal the output is a table by default, and never binary."""
    def on_terminal(*arguments):
        master, slave = pty.openpty()
        done = subprocess.run([PROGRAM, *arguments], stdout=slave, stderr=subprocess.PIPE,
                              env=cli.environment, cwd=cli.folder, timeout=TIMEOUT_S)
        os.close(slave)
        try:
            out = os.read(master, 65536)
        except OSError:  # nothing was written
            out = b""
        os.close(master)
        return done.returncode, out, done.stderr

    code, out, err = on_terminal("query", "shop")
    check(code == 0 and b"FUNCTION" in out, "%d %s %s", code, out, err)
    code, out, err = on_terminal("query", "shop", "--output", "pprof")
    check(code == 2 and out == b"" and b"add -o FILE" in err, "%d %s %s", code, out, err)


def case_labels_as_json(cli):
    check(json.loads(cli.good("labels", "env", "--match", "shop", "--json")) == ["prod"], "env")
    for more in ((), ("--cardinality",)):
        code, out, err = cli.run("labels", "nothing", "--json", *more)
        check(code == 1 and json.loads(out) == [] and "no label nothing from now-1h until now" in err, "%d %s %s", code, out, err)


def case_labels(cli):
    names = cli.lines("labels")
    check({"env", "service_name", "__profile_type__"} <= set(names) and names == sorted(names), "%s", names)
    check({"my.api", "shop"} <= set(cli.lines("labels", "service_name")), "services")
    check(cli.lines("labels", "env", "--match", "shop.cpu") == ["prod"], "--match")
    check(cli.lines("labels", "env", "--match", '{env!="prod"}') == ["test"], "--match labels")
    cli.bad(1, r"no label nothing from now-1h until now; flamegrid labels lists the names$", "labels", "nothing")
    cli.bad(1, r'no label env of {service_name="lines"} from now-1h until now; flamegrid labels lists', "labels", "env", "--match", "lines")
    cli.bad(1, r"no label env from now-2d until now-1d; ", "labels", "env", "--until", "now-1d", "--from", "now-2d")
    cli.bad(1, r'no profiles of {service_name="nobody"} from .*; flamegrid labels service_name lists', "labels", "--types", "--match", "nobody")
    cli.bad(1, r"no value of env that begins with --prefix from", "labels", "env", "--prefix", "zz")
    cli.bad(1, r"no label that matches --regex from", "labels", "--regex", "zz")
    check(cli.lines("labels", "--types", "--match", "shop") == [SPACE, CPU], "--types --match")
    check({SPACE, CPU, SAMPLES} <= set(cli.lines("labels", "--types")), "--types")


def case_private_labels_are_listed_if_they_are_stored(cli):
    cli.good("push", "a.folded", "--name", "hides{env=e,__mine__=x,__session_id__=77e425ea48b3919f}", "--from", "2026-01-10")
    then = ("--match", "hides", "--from", "2026-01-09", "--until", "2026-01-11")
    names = cli.lines("labels", *then)
    check("env" in names and "__type__" in names and not {"__mine__", "__session_id__", "__delta__"} & set(names), "%s", names)
    listed = json.loads(cli.good("labels", *then, "--cardinality", "--json"))
    check([row["name"] for row in listed] == names, "%s", listed)


def case_labels_with_numbers(cli):
    lines = cli.lines("labels", "--cardinality", "--match", "shop")
    check(lines[0].split() == ["SERIES", "VALUES", "NAME"], "%s", lines)
    rows = {line.split()[2]: tuple(int(number) for number in line.split()[:2]) for line in lines[1:]}
    # Two stored series: with env and of CPU, without and of memory.
    check(rows["service_name"] == (2, 1) and rows["env"] == (1, 1) and rows["__profile_type__"] == (2, 2), "%s", rows)
    check(cli.lines("labels", "--prefix", "service", "--match", "shop") == ["service_name"], "--prefix")
    check(cli.lines("labels", "service_name", "--regex", "sh.p|my[.].*", "--sort", "name") == ["my.api", "shop"], "--regex")
    check(cli.lines("labels", "service_name", "--sort", "series", "--limit", "1", "--match", '{service_name=~"shop|my.api"}') == ["shop"],
          "--sort --limit")
    found = json.loads(cli.good("labels", "env", "--cardinality", "--json", "--sort", "value", "--match", CPU + "{}"))
    check([(row["value"], row["series"]) for row in found] == [("prod", 1), ("test", 1)], "%s", found)
    check(found[0]["total"] > found[1]["total"] > 0 and 0 < found[1]["share"] < found[0]["share"] < 1, "%s", found)
    check(json.loads(cli.good("labels", "env", "--json", "--prefix", "p")) == ["prod"], "names as JSON")
    lines = cli.lines("labels", "env", "--growth", "--match", "shop")
    check(lines[0].split() == ["SERIES", "BEFORE", "NEW", "VALUE"] and lines[1].split() == ["1", "0", "1", "prod"], "%s", lines)
    lines = cli.lines("labels", "env", "--cardinality", "--match", CPU + '{service_name="shop"}')
    check(lines[0].split() == ["SERIES", "TOTAL", "VALUE"] and lines[1].split()[2:] == ["100.00%", "prod"], "%s", lines)
    cli.bad(1, "no label nothing from", "labels", "nothing", "--cardinality")
    cli.bad(1, "sort: .*nothing", "labels", "--sort", "nothing")
    cli.bad(1, "profile type", "labels", "env", "--sort", "value")
    cli.bad(1, "regex", "labels", "env", "--regex", "(")
    cli.bad(2, "--types", "labels", "--types", "--cardinality")


class Busy(http.server.BaseHTTPRequestHandler):
    """A server that answers as the test says, and records the requests."""

    answers = []
    seen = []

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, dict(self.headers)))
        status = self.answers.pop(0)
        body = b'{"code":"x","message":"come \\u001b[2J later"}' if status != 200 else b""
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def case_busy_servers(cli):
    server = http.server.HTTPServer(("127.0.0.1", 0), Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = ["--name", "a b{c=d}", "--url", "http://127.0.0.1:%d/" % server.server_port,
               "--tenant", "acme", "--token", "secret"]
    try:
        Busy.answers[:] = [429, 503, 200]
        cli.good("push", "a.folded", *options)
        path, headers = Busy.seen[0]
        check(len(Busy.seen) == 3 and path == "/ingest?name=a%20b%7Bc%3Dd%7D&format=folded", "%s", Busy.seen)
        check(headers["X-Scope-OrgID"] == "acme" and headers["Authorization"] == "Bearer secret", "%s", headers)
        Busy.answers[:] = [429] * 6
        cli.bad(1, r"the server says 429: come  \[2J later", "push", "a.folded", *options)
        check(Busy.answers == [], "tried only %d times", 6 - len(Busy.answers))
        Busy.answers[:] = [500]
        cli.bad(1, "the server says 500", "push", "a.folded", *options)
    finally:
        server.shutdown()
        server.server_close()


def case_bucket_verify(cli):
    """With a server of its own: flushed objects are correct, and a damaged byte is found."""
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        for number in range(5):
            target = "/ingest?name=shop-%d&from=%d&until=%d" % (number % 2, 1700000000 + number, 1700000010 + number)
            check(client.send("POST", target, b"main;work %d\n" % (number + 1))[0] == 200, "push")
        check(server.operate("POST", "/ingester/flush")[0] == 200, "flush")
        check(server.terminate() == 0, "%s", server.log_tail())
        said = cli.lines("bucket", "verify", "--data", server.data)
        check(said[0].startswith("anonymous: 5 profiles, each once, in ") and said[-1].startswith("ok: 1 objects"), "%s", said)
        manifest = json.loads(cli.good("bucket", "inspect", "manifests/l0", "--data", server.data))
        objects = [line.split()[-1] for line in cli.lines("bucket", "ls", "-r", "--data", server.data)]
        held = [name for name in objects if not name.startswith("manifests/") and not name.endswith("/manifest")]
        check(manifest["generation"] == 1 and held, "%s %s", manifest, objects)
        said = cli.lines("bucket", "inspect", held[0], "--data", server.data)
        check("5 profiles" in said[0] and said[1].startswith("anonymous/shop-0: 3 profiles"), "%s", said)
        cli.bad(2, "unexpected argument", "bucket", "verify", held[0], "--data", server.data)
        cli.bad(1, "neither a manifest nor", "bucket", "inspect", "proof/x", "--data", server.data)
        cli.bad(1, "nothing is wrong with", "bucket", "repair", held[0], "--apply", "--data", server.data)
        cli.bad(1, "neither a segment nor a block", "bucket", "repair", "manifests/l0", "--data", server.data)
        cli.bad(2, "OBJECT has to follow", "bucket", "repair", "--apply", "--data", server.data)
        for name in held:
            path = os.path.join(server.data, "bucket", "objects", name)
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) // 3)
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 4]))
        code, out, err = cli.run("bucket", "verify", "--data", server.data)
        faults = [line for line in out.decode().splitlines() if line.startswith("fault: ")]
        check(code == 1 and "faults" in err and len(faults) == len(held), "%d %s %s", code, out, err)
        check(all(any(line.startswith("fault: %s: damaged" % name) for line in faults) for name in held), "%s", faults)
        os.remove(os.path.join(server.data, "bucket", "objects", "manifests", "l0"))
        code, out, err = cli.run("bucket", "verify", "--data", server.data)
        check(code == 1 and b"fault: manifests/l0: missing" in out and b"flamegrid bucket rebuild l0" in out, "%d %s", code, out)
    cli.bad(2, "no bucket at", "bucket", "verify", "--data", server.data + "-not-there")


def as_json(cli, *arguments):
    return json.loads(cli.good(*arguments, "--json"))


def case_json_of_push(cli):
    cli.file("json.folded", FOLDED.encode())
    sent = as_json(cli, "push", "json.folded", "--name", "json-shop", "--from", "1700000000")
    check(sent == {"ok": True, "files": [{"file": "json.folded", "ok": True, "bytes": len(FOLDED), "format": "folded",
                                          "time": "2023-11-14T22:13:20.000Z"}]}, "%s", sent)
    code, out, err = cli.run("push", "json.folded", "not-there", "--name", "json-shop", "--json")
    sent = json.loads(out)
    check(code == 1 and "not-there: failed" in err and not sent["ok"], "%d %s %s", code, out, err)
    check([file["ok"] for file in sent["files"]] == [True, False] and "No such file" in sent["files"][1]["error"], "%s", sent)
    os.makedirs(os.path.join(cli.folder, "json-dir", "shop"))
    cli.file("json-dir/shop/a.folded", FOLDED.encode())
    text = cli.good("push", "--dir", "json-dir", "--json").decode()
    check(re.search(r'"seconds":\d+\.\d{1,3}\}', text), "%s", text)
    sent = json.loads(text)
    check({key: sent[key] for key in sent if key != "seconds"} ==
          {"ok": True, "files_sent": 1, "bytes": len(FOLDED), "files_failed": 0, "files_sent_before": 0}, "%s", sent)


def case_json_of_version(cli):
    version = as_json(cli, "version")
    check(list(version) == ["version", "revision"] and version["version"] in cli.lines("version")[0], "%s", version)


def case_json_of_buckets(cli):
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        for number in range(5):
            target = "/ingest?name=shop-%d&from=%d&until=%d" % (number % 2, 1700000000 + number, 1700000010 + number)
            check(client.send("POST", target, b"main;work %d\n" % (number + 1))[0] == 200, "push")
        check(server.operate("POST", "/ingester/flush")[0] == 200, "flush")
        check(server.terminate() == 0, "%s", server.log_tail())
        at = ("--data", server.data)
        listed = as_json(cli, "bucket", "ls", "-r", *at)
        names = [line.split()[-1] for line in cli.lines("bucket", "ls", "-r", *at)]
        check([entry["name"] for entry in listed] == names and all(entry["size_bytes"] > 0 for entry in listed), "%s", listed)
        check(all(re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]{8}\.\d{3}Z", entry["modified"]) for entry in listed), "%s", listed)
        check(any(entry == {"name": "manifests/", "folder": True} for entry in as_json(cli, "bucket", "ls", *at)), "folders")
        check(as_json(cli, "bucket", "ls", "nothing/", *at) == [], "an empty list")
        segment = next(name for name in names if not name.startswith("manifests/") and not name.endswith("/manifest"))
        held = as_json(cli, "bucket", "inspect", segment, *at)
        check(held["profiles"] == 5 and held["start"] == "2023-11-14T22:13:20.000Z" and not held["rollup_only"], "%s", held)
        check([(part["tenant"], part["service"], part["profiles"], part["usage"]["profiles"]) for part in held["parts"]] ==
              [("anonymous", "shop-0", 3, 3), ("anonymous", "shop-1", 2, 2)], "%s", held)
        check(as_json(cli, "bucket", "inspect", "manifests/l0", *at)["generation"] == 1, "a manifest")
        report = as_json(cli, "bucket", "verify", *at)
        check(report["ok"] and report["faults"] == [] and report["objects"] == 1 and report["orphans"]["objects"] == 0, "%s", report)
        check(report["tenants"][0]["tenant"] == "anonymous" and report["tenants"][0]["profiles"] == 5 and
              report["tenants"][0]["duplicates"] == 0, "%s", report)
        wrote = as_json(cli, "bucket", "export", "shop-0", "--from", "1699999999", "--until", "1700000100", "-f", "folded",
                        "-o", os.path.join(cli.folder, "json.out"), *at)
        check(wrote["format"] == "folded" and wrote["bytes"] == os.path.getsize(wrote["file"]), "%s", wrote)
        cli.bad(2, "--json needs -o", "bucket", "export", "shop-0", "--json", "-f", "folded", *at)
        path = os.path.join(server.data, "bucket", "objects", segment)
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) // 2)
        code, out, err = cli.run("bucket", "verify", "--json", *at)
        report = json.loads(out)
        check(code == 1 and "faults" in err and not report["ok"] and report["faults"][0]["object"] == segment, "%d %s", code, out)
        check("damaged" in report["faults"][0]["fault"] and "flamegrid bucket" in report["faults"][0]["cure"], "%s", report)
        code, out, err = cli.run("bucket", "rm", "not-there", "--json", *at)
        check(code == 1 and out == b"" and "rm: " in err, "%d %s %s", code, out, err)
        given_up = as_json(cli, "bucket", "quarantine", segment, *at)
        check(given_up["ok"] and not given_up["applied"] and given_up["report"][-1].startswith("nothing was written"), "%s", given_up)
        code, out, _ = cli.run("bucket", "repair", "manifests/l0", "--json", *at)
        failed = json.loads(out)
        check(code == 1 and not failed["ok"] and "neither a segment nor a block" in failed["error"], "%d %s", code, out)
        cli.bad(2, "--json", "bucket", "cat", "manifests/l0", *at, "--json=1")
        check(as_json(cli, "bucket", "rm", segment, *at) == {"name": segment, "removed": True}, "rm")


def case_ring(cli):
    """With a bucket that no server uses; its ring is one of the fuzzer's seeds."""
    data = os.path.join(cli.folder, "cluster")
    cli.bad(1, "no bucket at", "ring", "ls", "--data", data)
    os.makedirs(os.path.join(data, "bucket"))
    options = ("--data", data)
    check(cli.lines("ring", "ls", *options) == ["nobody has joined yet"], "an empty ring")
    cli.bad(1, "no member of the ring is called ann", "ring", "forget", "ann", *options)
    said = cli.lines("ring", "replicate", "2", *options)
    check(said[-1].split() == ["1", "2", "0"], "%s", said)
    os.remove(os.path.join(data, "bucket", "objects", "manifests", "ring"))
    shutil.copy(RING, os.path.join(data, "bucket", "objects", "manifests", "ring"))
    said = cli.lines("ring", "ls", *options)
    check([line.split()[:3] for line in said[1:4]] == [["ann", "east", "active"], ["bob", "west", "active"], ["cat", "north", "active"]],
          "%s", said)
    ring = json.loads(cli.good("ring", "ls", "--json", *options))
    check(ring["revision"] == 3 and ring["revisions"][0]["waits_for"] == ["bob"], "%s", ring)
    check(ring == json.loads(cli.good("bucket", "inspect", "manifests/ring", *options)), "bucket inspect")
    ring = json.loads(cli.good("ring", "forget", "bob", "--json", *options))
    check(ring["revision"] == 4 and ring["members"][1]["state"] == "gone" and len(ring["revisions"]) == 2, "%s", ring)
    check(ring == json.loads(cli.good("ring", "forget", "bob", "--json", *options)), "twice")
    cli.bad(1, "9 replicas; there can be 1 to 3", "ring", "replicate", "9", *options)
    cli.bad(2, "forget: NAME has to follow", "ring", "forget", *options)
    cli.bad(2, "unknown verb \"rm\"; it is ls, forget or replicate; see", "ring", "rm", *options)
    cli.bad(2, "unexpected argument", "ring", "ls", "ann", *options)
    check(b"gives up a member" in cli.good("ring", "--help"), "help")
    for before in (("--json", "ls", *options), (*options, "--json", "ls"), ("--json", *options, "ls"), ("ls", *options, "--json")):
        check(json.loads(cli.good("ring", *before)) == ring, "%s", before)


PROGRAMS = [[PROGRAM, "server"], [PROGRAM, "agent"]] + [["%s-%s" % (PROGRAM, name)] for name in ("distributor", "ingester", "querier", "compactor")]


def case_rules(cli):
    check(cli.lines("rules", "list") == [] and json.loads(cli.good("rules", "list", "--json")) == [], "there are rules")
    made = json.loads(cli.good("rules", "create", "--metric", "shop_cpu", "--match", CPU + '{service_name="shop"}', "--group-by",
                               "pod, zone", "--label", "team=a,x=b=c", "--regex", "gc.*", "--self", "--share", "--id", "first",
                               "--json"))
    check(made == {"id": "first", "metric_name": "shop_cpu", "profile_type": CPU, "group_by": ["pod", "zone"],
                   "matchers": ['{service_name="shop",__profile_type__="%s"}' % CPU], "generation": 1, "value": "SHARE",
                   "external_labels": [{"name": "team", "value": "a"}, {"name": "x", "value": "b=c"}],
                   "functions": {"names": [], "regex": "gc.*", "metric_type": "SELF"}}, "%s", made)
    check(json.loads(cli.good("rules", "get", "first", "--json")) == made, "get")
    # What get prints create takes, once: then the generation is another.
    changed = json.loads(cli.good("rules", "create", "-", "--json", stdin=json.dumps({**made, "metric_name": "other"}).encode()))
    check(changed == {**made, "metric_name": "other", "generation": 2}, "%s", changed)
    code, _, err = cli.run("rules", "create", "-", stdin=json.dumps(made).encode())
    check(code == 1 and "conflicting update" in err, "%d %s", code, err)
    line, = cli.lines("rules", "create", "--metric", "top", "--match", CPU, "--top", "3")
    check(re.fullmatch(r'\w{10}  top  sum of the top 3 \(total\)  \{__profile_type__="%s"\}' % CPU, line), "%s", line)
    made = json.loads(cli.good("rules", "create", "--metric", "one", "--match", CPU, "--function", "f<a, b>", "--json"))
    check(made["functions"] == {"names": ["f<a, b>"], "regex": "", "metric_type": "TOTAL"}, "%s", made)
    with open(os.path.join(cli.folder, "rule.json"), "w", encoding="utf-8") as file:
        json.dump({"metricName": "filtered", "matchers": ['{__profile_type__="%s"}' % CPU],
                   "stacktraceFilter": {"functionName": {"functionName": "main"}}}, file)
    made = json.loads(cli.good("rules", "create", "rule.json", "--json"))
    check(made["stacktrace_filter"] == {"function_name": {"function_name": "main", "metric_type": "TOTAL"}}, "%s", made)
    lines = cli.lines("rules", "list")
    check(len(lines) == 4 and lines[0].startswith("first  other  share of regex gc.* (self) by pod, zone  {"), "%s", lines)
    check([rule["metric_name"] for rule in json.loads(cli.good("rules", "list", "--json"))] == ["other", "top", "one", "filtered"],
          "another order")
    for rule in json.loads(cli.good("rules", "list", "--json"))[1:]:
        check(cli.good("rules", "delete", rule["id"]) == b"", "delete prints something")
    check(json.loads(cli.good("rules", "delete", "first", "--json")) == {"ok": True}, "delete")
    check(cli.lines("rules", "list") == [], "something is left")
    cli.bad(1, "no rule with id='first' found", "rules", "get", "first")
    cli.bad(1, "no rule with ID='first' found", "rules", "delete", "first")
    cli.bad(1, "metric_name .* is invalid", "rules", "create", "--metric", "a-b", "--match", CPU)
    cli.bad(1, "needs the whole profile type", "rules", "create", "--metric", "a", "--match", "shop.cpu")
    cli.bad(1, "--label: a is not NAME=VALUE", "rules", "create", "--metric", "a", "--match", CPU, "--label", "a")
    cli.bad(1, "No such file", "rules", "create", "nowhere.json")
    for words, want in ((("get",), "get: ID has to follow"), ((), "list, get, create or delete"), (("list", "x"), "unexpected argument"),
                        (("create",), "--metric and --match, or a FILE"), (("create", "--metric", "a"), "--metric and --match"),
                        (("create", "rule.json", "--metric", "a"), "do not go together"), (("create", "--top", "101"), "100")):
        cli.bad(2, want, "rules", *words)


def case_every_metric_is_documented(cli):
    """A server has no metric that --metrics-docs, and so deploy/operations/metrics.md, lacks, and each is of the type that it says."""
    with flamegrid.Server("--querier.disk_cache", os.path.join(cli.folder, "disk-cache")) as server:
        server.start().wait_ready()
        other = Cli("http://127.0.0.1:%d" % server.port, cli.folder)
        push_all(other)  # counts requests by route, and fills histograms
        other.good("labels", "service_name")
        served = dict(re.findall(r"^# TYPE (\S+) (\w+)$", server.metrics(), re.M))
    page = subprocess.run(PROGRAMS[0] + ["--metrics-docs"], capture_output=True, check=True, timeout=TIMEOUT_S).stdout.decode()
    documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.M))
    check(len(served) > 100, "%d metrics", len(served))
    check({name: documented.get(name) for name in served} == served, "%s", set(served.items()) - set(documented.items()))


def all_settings():
    """Returns the settings of all programs with their defaults: path -> value."""
    settings = {}
    for program in PROGRAMS:
        page = subprocess.run(program + ["--docs"], capture_output=True, check=True, timeout=TIMEOUT_S).stdout.decode()
        settings.update(re.findall(r"^\| `([a-z0-9_.]+)` \| (?:`([^`]*)`)? *\|", page, re.M))
    return settings


def case_one_file_for_all_programs(cli):
    """A cluster's settings may be in one file, which each of its programs and the tools take."""
    path = os.path.join(cli.folder, "all.yaml")
    tree = {}
    for setting, value in all_settings().items():
        *sections, key = setting.split(".")
        into = tree
        for name in sections:
            into = into.setdefault(name, {})
        into[key] = value
    check("rpc_listen" in tree and "zone" in tree["ring"] and "queriers" in tree["querier"]["share"], "%s", tree)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tree, file)  # which is YAML
    for program in PROGRAMS + [[PROGRAM, "ring", "ls"], [PROGRAM, "bucket", "ls"]]:
        # Flags are checked after the file: an error in a flag means that the file is correct.
        done = subprocess.run(program + ["--config", path, "--loops", "65"], capture_output=True,
                              env=cli.environment, cwd=cli.folder, timeout=TIMEOUT_S)
        check(done.returncode == 2 and b"above the maximum 64 (--loops)" in done.stderr, "%s: %s", program, done.stderr)
    with open(path, "w", encoding="utf-8") as file:
        file.write("rpc: {cluster: a}\nring: {nam: b}\n")
    done = subprocess.run([PROGRAM + "-ingester", "--config", path], capture_output=True,
                          env=cli.environment, cwd=cli.folder, timeout=TIMEOUT_S)
    check(done.returncode == 2 and b'unknown key "ring.nam"' in done.stderr, "%s", done.stderr)


class Between(http.server.BaseHTTPRequestHandler):
    """A proxy that forwards everything except the pushes in `swallowed`: these get 200 and are dropped."""

    protocol_version = "HTTP/1.1"
    server_port = 0
    swallowed = ()
    lock = threading.Lock()
    pushes = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = self.hand_on(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def hand_on(self, body):
        if self.path.startswith("/ingest"):
            with Between.lock:
                Between.pushes += 1
                if Between.pushes in self.swallowed:
                    return 200, b""
        connection = http.client.HTTPConnection("127.0.0.1", self.server_port, timeout=TIMEOUT_S)
        connection.request("POST", self.path, body, {"Content-Type": self.headers["Content-Type"]})
        response = connection.getresponse()
        try:
            return response.status, response.read()
        finally:
            connection.close()

    def log_message(self, *_):
        pass


CANARY = ["--for", "2s", "--rate", "100/s", "--reads", "20/s"]


def case_canary(cli):
    with canary.Canary(cli.environment["FLAMEGRID_URL"], *CANARY) as bird:
        code, sums = bird.finish()
        check(code == 0 and bird.errors() == "", "exit code %d, %s:\n%s", code, sums, bird.log())
    check(sums["pushed"] == sums["acknowledged"] > 10 and sums["reads"] > 1, "%s", sums)
    check(sums["lost"] == sums["double"] == sums["foreign"] == sums["unknown"] == 0, "%s", sums)


def case_json_of_canary(cli):
    code, out, err = cli.run("canary", "--for", "2s", "--settle", "10s", "--json")
    sums = json.loads(out)
    check(code == 0 and sums["canary_run"] in err, "%d %s", code, err)
    check(sums["acknowledged"] > 0 and sums["lost"] == sums["double"] == sums["foreign"] == 0, "%s", sums)


def case_canary_finds_what_is_lost(cli):
    port = int(cli.environment["FLAMEGRID_URL"].rsplit(":", 1)[1])
    handler = type("Handler", (Between,), {"server_port": port, "swallowed": (5, 23)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever).start()
        try:
            with canary.Canary("http://127.0.0.1:%d" % proxy.server_address[1], *CANARY) as bird:
                code, sums = bird.finish()
                named = set(re.findall(r"what=(\w+) number=(\d+)", bird.errors(10000)))
        finally:
            proxy.shutdown()
    # A sum over time that lacks one, and has some that wait for their answer, may be too large: what has no number is not looked at.
    check(code == 1 and sums["lost"] >= 2, "exit code %d, %s", code, sums)
    check(len(named) == 2 and {what for what, _ in named} == {"lost"}, "%s", named)


def case_adhoc(cli):
    pprof_gz = gzip.compress(pprof.make(STACKS, time.time_ns()))
    cli.file("c.pb.gz", pprof_gz)
    cli.file("d e.folded", FOLDED.encode())
    check(cli.lines("adhoc", "list") == [] and json.loads(cli.good("adhoc", "list", "--json")) == [], "a new server has files")
    ids = cli.lines("adhoc", "upload", "c.pb.gz", "d e.folded")
    check(len(ids) == 2 and ids[0].endswith("-c.pb.gz") and ids[1].endswith("-d_e.folded"), "%s", ids)
    made = json.loads(cli.good("adhoc", "upload", "--json", "-", stdin=FOLDED.encode()))
    check(made["ok"] and made["files"][0]["id"].endswith("-stdin"), "%s", made)
    check(made["files"][0]["url"] == cli.environment["FLAMEGRID_URL"] + "/api/adhoc/" + made["files"][0]["id"], "%s", made)
    rows = json.loads(cli.good("adhoc", "list", "--json"))
    check({row["id"] for row in rows} == {*ids, made["files"][0]["id"]}, "%s", rows)
    check(all(re.fullmatch(r"20\d\d-.*Z", row[key]) for row in rows for key in ("uploaded", "expires")), "%s", rows)
    check({row["size_bytes"] for row in rows} == {len(pprof_gz), len(FOLDED)}, "%s", rows)
    check(all(re.fullmatch(r"\S+  \d+ bytes  20\d\d-\S+Z", line) for line in cli.lines("adhoc", "list")), "list")
    check(cli.good("adhoc", "get", ids[0]) == pprof_gz, "other bytes")
    cli.good("adhoc", "get", ids[1], "-o", "again.folded")
    with open(os.path.join(cli.folder, "again.folded"), "rb") as file:
        check(file.read() == FOLDED.encode(), "another file")
    drawn = json.loads(cli.good("adhoc", "get", ids[0], "--json"))
    check(drawn["file"]["type"] == "samples" and drawn["flamebearer"]["numTicks"] == 4, "%s", drawn)
    drawn = json.loads(cli.good("adhoc", "get", ids[0], "--json", "--type", "cpu"))
    check(drawn["flamebearer"]["numTicks"] == 40_000_000, "%s", drawn)
    check(cli.lines("adhoc", "delete", ids[0]) == [ids[0] + " deleted"], "delete")
    check(json.loads(cli.good("adhoc", "delete", "--json", ids[1])) == {"id": ids[1]}, "delete --json")
    cli.good("adhoc", "delete", made["files"][0]["id"])
    cli.bad(1, "404: profile .* not found", "adhoc", "get", ids[0])
    cli.bad(1, "404: profile .* not found", "adhoc", "delete", ids[0])
    cli.bad(1, "400: .*no sample type", "adhoc", "get", cli.lines("adhoc", "upload", "c.pb.gz")[0], "--json", "--type", "wall")
    cli.bad(1, "empty: failed, .*file is empty", "adhoc", "upload", cli.file("empty", b""))
    cli.bad(1, "nowhere: failed, cannot open", "adhoc", "upload", "nowhere")
    code, out, err = cli.run("adhoc", "upload", "--json", "nowhere", "c.pb.gz")
    check(code == 1 and [file["ok"] for file in json.loads(out)["files"]] == [False, True] and "nowhere" in err, "%s", out)
    cli.bad(2, "upload, list, get or delete", "adhoc")
    cli.bad(2, r"upload: FILE\.\.\. has to follow", "adhoc", "upload")
    cli.bad(2, "ID has to follow", "adhoc", "get")
    cli.bad(2, "--type needs --json", "adhoc", "get", "a", "--type", "cpu")
    cli.bad(2, "unexpected argument", "adhoc", "delete", "a", "b")
    cli.bad(2, 'did you mean "list"', "adhoc", "lits")


def case_canary_through_one_and_ask_another(cli):
    """Profiles go to the server of --through, questions to that of --ask: of two that do not know each other, all is lost."""
    with flamegrid.Server() as other:
        other.start().wait_ready()
        with canary.Canary(cli.environment["FLAMEGRID_URL"], *CANARY, ask="http://127.0.0.1:%d" % other.port) as bird:
            code, counts = bird.finish()
        check(code == 1 and counts["acknowledged"] > 0 and counts["lost"] > 0 and counts["unavailable"] == 0, "%d %s", code, counts)
        with canary.Canary(cli.environment["FLAMEGRID_URL"], *CANARY, "--lag", "3s", ask="http://127.0.0.1:%d" % other.port) as bird:
            code, counts = bird.finish()  # what has not come when the lag is over, is lost
        check(code == 1 and counts["lost"] > 0, "%d %s", code, counts)
    words = cli.lines("completion", "words", "canary")
    check("--through" in words and "--ask" in words and "--url" not in words, "%s", words)


def case_canary_with_a_long_lag_ends_when_answers_have_all(cli):
    with canary.Canary(cli.environment["FLAMEGRID_URL"], *CANARY, "--lag", "1h") as bird:
        code, sums = bird.finish()
        check(code == 0 and bird.errors() == "", "exit code %d, %s:\n%s", code, sums, bird.log())
    check(sums["acknowledged"] > 10 and sums["unknown"] == sums["lost"] == 0, "%s", sums)


def case_canary_that_waits_for_what_is_on_its_way_ends_at_a_signal(cli):
    with flamegrid.Server() as other:
        other.start().wait_ready()
        with canary.Canary(cli.environment["FLAMEGRID_URL"], "--for", "1s", "--lag", "1h", ask="http://127.0.0.1:%d" % other.port) as bird:
            while "sends nothing new" not in bird.log():
                time.sleep(0.1)
            bird.process.send_signal(signal.SIGINT)
            code = bird.process.wait(10)
    check(code == 128 + signal.SIGINT, "exit code %d", code)


class Demanding(http.server.BaseHTTPRequestHandler):
    """A server that lets nobody in: it does not know the tenant, or with `challenge` not the caller."""

    challenge = None

    def do_POST(self):  # noqa: N802
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"code":"unauthenticated","message":"who is meant?"}'
        self.send_response(401)
        if self.challenge is not None:
            self.send_header("WWW-Authenticate", self.challenge)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def case_canary_asks_for_scopes_only_if_the_server_does_not_know_it(cli):
    for challenge, want in ((None, r"the server says 401: who is meant\?$"),
                            ("Bearer", r"the server says 401: who is meant\?: the canary needs a token with the scopes push and read$")):
        handler = type("Handler", (Demanding,), {"challenge": challenge})
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever).start()
            try:
                cli.bad(1, want, "canary", "--for", "20s", "--through", "http://127.0.0.1:%d" % server.server_address[1])
            finally:
                server.shutdown()


class Denying(http.server.BaseHTTPRequestHandler):
    """A server that knows the caller, whose token does not do for what the paths of `denied` want."""

    denied = ("/ingest", "/push.v1.PusherService/Push")

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"code":"permission_denied","message":"token abc (t) needs the scope push"}'
        if not self.path.startswith(self.denied):
            body = b"{}"
        self.send_response(403 if body != b"{}" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def case_canary_that_is_not_let_in(cli):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Denying) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
        url = "http://127.0.0.1:%d" % server.server_address[1]
        want = r"the server says 403: token abc \(t\) needs the scope push: the canary needs a token with the scopes push and read"
        try:
            begun = time.monotonic()
            cli.bad(1, want + "$", "canary", "--for", "20s", "--through", url)
            check(time.monotonic() - begun < 10, "it ran on")
            with canary.Canary(url) as bird:  # it may be let in later
                time.sleep(3)
                check(bird.process.poll() is None, "it ended: %s", bird.log())
                said = [line for line in bird.log().splitlines() if "403" in line]
                check(len(said) == 1 and re.search(want, said[0]), "%s", said)
        finally:
            server.shutdown()


def case_canary_without_a_server_ends_soon(cli):
    begun = time.monotonic()
    code, _, err = cli.run("canary", "--for", "1s", "--through", "http://127.0.0.1:1")
    check(code == 1 and time.monotonic() - begun < 15, "%d after %s s: %s", code, time.monotonic() - begun, err)
    check("no server has answered, so it does not wait for acknowledgements (--settle)" in err and "no server at http://127.0.0.1:1" in err, "%s", err)
    for server, option in ((("--through", "http://127.0.0.1:1"), "say where with --through"),
                           (("--ask", "http://127.0.0.1:1"), "say where with --ask")):
        code, _, err = cli.run("canary", "--for", "1s", "--settle", "1s", *server)
        check(code == 1 and option in err and "--url" not in err, "%s", err)
    check("the scopes push and read" in cli.good("canary", "--help").decode(), "--help")


def case_canary_failures(cli):
    cli.bad(2, "--rate 0", "canary", "--rate", "0")
    cli.bad(2, "--rate 5/h", "canary", "--rate", "5/h")
    cli.bad(2, "--for soon is not a duration", "canary", "--for", "soon")
    cli.bad(2, "only options", "canary", "http://somewhere")
    cli.bad(1, "999999", "canary", "--listen", "127.0.0.1:999999")


def case_examples_of_the_documents_work(cli):
    """Every command of the two pages, in order, as a reader would type them: none fails, and the answer that is shown is the answer."""
    folder = os.path.join(cli.folder, "examples")
    with flamegrid.Server() as server, examples.target(gzip.compress(pprof.make(STACKS, time.time_ns()))) as target:
        server.start().wait_ready()
        for page in ("distributor/API.md", "querier/API.md"):
            said = examples.run(page, folder, {"http://127.0.0.1:4040": "http://127.0.0.1:%d" % server.port,
                                               "http://localhost:6060": target})
        found, _ = json.JSONDecoder().raw_decode(said)  # the next answer follows
        shown = json.loads(examples.blocks("querier/API.md", "json")[0])
        check(found == shown, "%s", said)


def case_the_example_of_tokens_works_as_it_is_copied(cli):
    """From README.md: its two terminals, with another port."""
    folder = os.path.join(cli.folder, "tokens")
    environment = {**make_tree(folder, "echo '[1/1] all'"), **cli.environment}
    environment["PATH"] = os.path.join(folder, "tools") + ":" + environment["PATH"]
    os.makedirs(os.path.join(folder, "build", "release"))
    os.symlink(PROGRAM, os.path.join(folder, "build", "release", "flamegrid"))
    page = examples.blocks("README.md", "sh")
    first = next(i for i, block in enumerate(page) if "access init" in block)
    init, run = page[first].splitlines()
    with flamegrid.Server() as place:  # for its ports
        address = "127.0.0.1:%d" % place.port
        environment.update(FLAMEGRID_URL="http://" + address, NO_PROXY="127.0.0.1")
        subprocess.run(["bash", "-c", init], cwd=folder, env=environment, check=True, capture_output=True, timeout=TIMEOUT_S)
        here = ["--listen", address, "--admin_listen", "127.0.0.1:%d" % place.admin_port]
        with open(place.log_path, "wb") as log:
            place.process = subprocess.Popen(shlex.split(run, comments=True) + here, cwd=folder, env=environment, stdout=log, stderr=log,
                                             stdin=subprocess.DEVNULL)
        try:
            place.wait_ready()
            done = subprocess.run(["bash", "-c", "set -euo pipefail\n" + page[first + 1]], cwd=folder, env=environment,
                                  capture_output=True, text=True, timeout=TIMEOUT_S)
        finally:
            code = place.terminate()
            said = place.log()
    check(done.returncode == 0 and "flamegrid:" not in done.stderr, "%d %s%s", done.returncode, done.stdout, done.stderr)
    check(re.fullmatch(r"tenant shop is active\n-: ok 200, .*\nmain;work \d+\n", done.stdout), "%s", done.stdout)
    check(code == 0, "deploy/run ended with %d", code)
    check("It asks for a token." in said and "Send it a profile" not in said, "the banner leads to a 401: %s", said)


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    cases = [(name[len("case_"):], case) for name, case in globals().items() if name.startswith("case_")]
    cases = [(name, case) for name, case in cases if tally.wants(name)]
    with tempfile.TemporaryDirectory(prefix="flamegrid-cli.") as folder, flamegrid.Server() as server:
        if cases:
            cli = Cli("http://127.0.0.1:%d" % server.port, folder)
            server.start().wait_ready()
            push_all(cli)
        for name, case in cases:
            tally.run(name, case, cli)
        if cases and server.terminate() != 0:
            tally.fail("server", server.log_tail())
    tally.finish()


if __name__ == "__main__":
    main()
