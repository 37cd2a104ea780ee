#!/usr/bin/env python3
"""`flamegrid import pyroscope`: every profile of a source once in the target, whatever fails meanwhile.

    import_test.py [-k REGEX] [--seed N]

The source is a flamegrid server, which answers as a Pyroscope does; in one case it is what a Pyroscope was recorded to answer.
"""

import base64
import http.server
import json
import os
import random
import re
import signal
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import certs  # noqa: E402
import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

PROGRAM = os.path.abspath(flamegrid.binary())
TIMEOUT_S = 120
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SAMPLES = "process_cpu:samples:count:cpu:nanoseconds"
HOUR_NS = 3600 * 10**9
MS_NS = 10**6
QUERIER = "/querier.v1.QuerierService/"
OPEN = ("--limits.max_query_length", "0", "--limits.max_query_lookback", "0")


def environment(**more):
    names = {name: value for name, value in os.environ.items()
             if not name.startswith("FLAMEGRID_") and name not in ("FG_BINARY", "FG_SHARED")}
    names.update(NO_PROXY="127.0.0.1", **more)
    return names


def push(client, labels, profile, headers=None):
    series = {"labels": [{"name": name, "value": value} for name, value in labels.items()],
              "samples": [{"rawProfile": base64.b64encode(profile).decode()}]}
    status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps({"series": [series]}),
                               {"Content-Type": "application/json", **(headers or {})})
    check(status == 200, "push: %d %s", status, body)


class Range:
    """Three full hours, some hours ago."""

    def __init__(self):
        self.start_ns = (time.time_ns() // HOUR_NS - 5) * HOUR_NS
        self.end_ns = self.start_ns + 3 * HOUR_NS

    def options(self):
        return "--from", str(self.start_ns), "--until", str(self.end_ns)

    def ms(self):
        return self.start_ns // MS_NS, self.end_ns // MS_NS - 1


def fill(client, span, times=40):
    """Four series of two types each; with labels that only some have, and names with dots."""
    sets = ({}, {"env": "prod"}, {"env": "prod", "k8s.pod.name": "a-1"}, {"env": 'a"b\\c', "zone": "x"})
    for i in range(times):
        # The nanoseconds of agents: none, microseconds, all.
        at_ns = span.start_ns + i * (3 * HOUR_NS // times) + (0, 123_000, 456_789_123)[i % 3]
        for number, labels in enumerate(sets):
            stacks = {("main", "work", "f%d" % (i % 9)): (i + 1, (i + 1) * 10**7), ("main", "idle"): (2, 2 * 10**7)}
            push(client, {"__name__": "process_cpu", "service_name": "shop", **labels}, pprof.make(stacks, at_ns + number))
    return len(sets) * times * 2


class Place:
    """A server that is the source or the target."""

    def __init__(self, *settings):
        self.server = flamegrid.Server(*OPEN, *settings)

    def __enter__(self):
        self.server.start().wait_ready()
        self.client = flamegrid.Client(self.server.port)
        return self

    def __exit__(self, *exception):
        self.server.__exit__(*exception)

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server.port

    def look(self, span, headers=None, step=1):
        """All that can be asked about the range: series, sums over time, stacks."""
        client = flamegrid.Client(self.server.port, headers={"Accept": "*/*;allow-utf8-labelnames=true", **(headers or {})})
        start_ms, end_ms = span.ms()
        sets = client.label_sets(["{}"], [], start_ms, end_ms)
        names = sorted({name for labels in sets for name in labels})
        found = {"series": sorted(map(json.dumps, (sorted(labels.items()) for labels in sets)))}
        for kind in sorted({labels["__profile_type__"] for labels in sets}):
            answer = client.ask("SelectSeries", profileTypeID=kind, labelSelector="{}", start=start_ms, end=end_ms, step=step,
                                groupBy=[name for name in names if not name.startswith("__")])
            found[kind] = sorted(json.dumps(series, sort_keys=True) for series in answer.get("series", []))
            for selector in ("{}", '{env=""}', '{env="prod"}'):
                stacks = pprof.folded_json(client.merged_profile(kind, selector, start_ms, end_ms))
                found[kind + selector] = sorted(stacks.items())
        return found


class Run:
    """One import."""

    def __init__(self, source, target, *options, env=None, folder=None):
        self.process = subprocess.Popen([PROGRAM, "import", "pyroscope", source, "--url", target, "--json", *options], cwd=folder,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(**(env or {})))

    def wait(self):
        try:
            out, err = self.process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError("the import does not end: %s %s" % (out, err)) from None
        self.code, self.said = self.process.returncode, err.decode()
        self.report = json.loads(out) if out else None
        return self

    def good(self):
        self.wait()
        said = [line for line in self.said.splitlines() if not re.search(r"; trying again, \d+ of \d+$", line)]
        check(self.code == 0 and said == [], "exit code %d: %s %s", self.code, self.said, self.report)
        check(self.report["ok"] and not self.report["faults"], "%s", self.report)
        return self.report

    def bad(self, code=1):
        self.wait()
        check(self.code == code, "exit code %d: %s %s", self.code, self.said, self.report)
        check(self.report is None or not self.report["ok"], "%s", self.report)
        return self.report


class Proxy:
    """Stands before a server. what(n, method, body) says what becomes of the n-th request: None, it is passed on; or a word."""

    def __init__(self, port, what=lambda n, method, body: None, context=None):
        self.port_behind, self.what = port, what
        self.lock = threading.Lock()
        self.requests = []  # (path, headers)
        self.release = threading.Event()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                proxy.serve(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients that end in the middle are what is tested

        self.server = Server(("127.0.0.1", flamegrid.free_port()), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.port = self.server.server_address[1]
        self.url = "%s://127.0.0.1:%d" % ("http" if context is None else "https", self.port)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.lock:
            n = len(self.requests)
            self.requests.append((handler.path, dict(handler.headers)))
        word = self.what(n, handler.path.rpartition("/")[2], body)
        if word == "hang":
            self.release.wait(TIMEOUT_S)
            handler.close_connection = True
            return
        if word in ("500", "429", "503", "400", "404", "405", "302"):
            self.answer(handler, int(word), b'{"code":"unknown","message":"made up"}', {"Content-Type": "application/json"})
            return
        if word == "garbage":
            self.answer(handler, 200, b"<html><body>Bad Gateway</body></html>", {"Content-Type": "text/html"})
            return
        if word == "nothing":  # only its type differs from the answer of a Pyroscope without profiles
            self.answer(handler, 200, b"", {"Content-Type": "text/plain"})
            return
        status, answer = flamegrid.Client(self.port_behind).send("POST", handler.path, body, dict(handler.headers, **{"Accept-Encoding": "identity"}))
        if word == "cut":  # less than was promised
            self.answer(handler, status, answer[:len(answer) // 2], {"Content-Length": str(len(answer) + 1)})
            handler.close_connection = True
        elif word == "end":  # nothing was promised, so only the content can tell
            handler.send_response(status)
            handler.send_header("Content-Type", "application/proto")
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.wfile.write(answer[:len(answer) // 2])
            handler.close_connection = True
        elif word == "lost":
            handler.close_connection = True
        else:
            self.answer(handler, status, answer, {})

    def answer(self, handler, status, body, headers):
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/proto", **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


def same(source, target, span, **how):
    ours, theirs = target.look(span, **how), source.look(span, **how)
    for what in theirs:
        check(ours.get(what) == theirs[what], "%s: %s instead of %s", what, str(ours.get(what))[:1500], str(theirs[what])[:1500])
    check(ours.keys() == theirs.keys(), "%s", ours.keys())


def case_an_import_is_whole_and_repeated_stores_nothing_twice(seed):
    span = Range()
    with Place() as source, Place() as target:
        n = fill(source.client, span)
        report = Run(source.url, target.url, *span.options()).good()
        check(report["profiles"] == n and report["series"] == 8 and report["joined"] == 0, "%s", report)
        check({row["type"]: (row["profiles"], row["series"]) for row in report["types"]} == {CPU: (n // 2, 4), SAMPLES: (n // 2, 4)},
              "%s", report["types"])
        same(source, target, span)
        for options in ((), ("--connections", "1"), ("--selector", '{env="prod"}')):
            Run(source.url, target.url, *span.options(), *options).good()
            same(source, target, span)


def case_a_selector_and_times_choose(seed):
    span = Range()
    with Place() as source, Place() as target:
        fill(source.client, span)
        half_ns = span.start_ns + HOUR_NS + HOUR_NS // 2
        report = Run(source.url, target.url, "--selector", '{env="prod",zone=""}', "--from", str(half_ns), "--until", str(span.end_ns)).good()
        check(report["profiles"] == 2 * 2 * 20, "%s", report)
        start_ms, end_ms = span.ms()
        for ours, selector, until_ms in ((True, '{env="prod"}', end_ms), (False, '{env=""}', end_ms), (False, '{env="prod"}', half_ns // MS_NS - 1)):
            total = target.client.flame_total(CPU, selector, start_ms, until_ms)
            wanted = source.client.flame_total(CPU, selector, half_ns // MS_NS, end_ms) if ours else 0
            check(total == wanted and (wanted > 0) == ours, "%s: %d, not %d", selector, total, wanted)


def case_nothing_is_lost_or_double_at_cuts(seed):
    """Profiles around full hours, a nanosecond apart and more. Each has a stack of its own."""
    span, chance = Range(), random.Random(seed)
    wanted = {"s%d" % service: {} for service in range(6)}
    with Place() as source, Place() as target:
        for hour in range(4):
            for i in range(60):
                at_ns = span.start_ns + hour * HOUR_NS + chance.choice((-3, -2, -1, 0, 0, 0, 1, 2)) * MS_NS
                if hour in (1, 2):  # at the ends of the range it is exact, since nothing is there that cannot be told apart
                    at_ns += chance.choice((0, 0, 1, 999_999, chance.randrange(MS_NS)))
                stack = "h%d-%d" % (hour, i)
                push(source.client, {"__name__": "process_cpu", "service_name": "s%d" % (i % 6)}, pprof.make({(stack,): (i + 1, 1)}, at_ns))
                if span.start_ns <= at_ns < span.end_ns:
                    wanted["s%d" % (i % 6)][stack] = i + 1
        for options in ((), ("--connections", "1")):
            report = Run(source.url, target.url, *span.options(), *options).good()
            check(report["joined"] > 0, "no mixture: %s", report)
            for service, stacks in wanted.items():
                start_ms, end_ms = span.start_ns // MS_NS - 5000, span.end_ns // MS_NS + 5000
                found = pprof.folded_json(target.client.merged_profile(SAMPLES, '{service_name="%s"}' % service, start_ms, end_ms))
                check(found == stacks, "%s: %s instead of %s", service, sorted(found.items()), sorted(stacks.items()))


def case_a_range_that_begins_within_a_mixture_loses_nothing(seed):
    """What begins in the range cannot be told apart from what is just before it: it comes with it."""
    span = Range()
    labels = {"__name__": "process_cpu", "service_name": "shop"}
    with Place() as source, Place() as target:
        for name, at_ns in (("before", span.start_ns - MS_NS // 2), ("begin", span.start_ns), ("in", span.start_ns + 1)):
            push(source.client, labels, pprof.make({(name,): (1, 1)}, at_ns))
        for start_ns in (span.start_ns, span.start_ns - HOUR_NS):
            Run(source.url, target.url, "--from", str(start_ns), "--until", str(span.end_ns)).good()
            found = pprof.folded_json(target.client.merged_profile(CPU, "{}", start_ns // MS_NS - 5000, span.end_ns // MS_NS))
            check(found == {"before": 1, "begin": 1, "in": 1}, "%s", found)


def case_steps_make_one_profile_of_many(seed):
    span = Range()
    with Place() as source, Place() as target:
        for i in range(300):
            push(source.client, {"__name__": "process_cpu", "service_name": "shop"},
                 pprof.make({("main", "f%d" % (i % 5)): (i + 1, 10**7)}, span.start_ns + i * 15 * 10**9 + 77))
        report = Run(source.url, target.url, *span.options(), "--step", "300").good()
        check(report["profiles"] == 2 * 300 * 15 // 300, "%s", report)
        for _ in range(2):
            start_ms, end_ms = span.ms()
            ours, theirs = (place.client.merged_profile(CPU, "{}", start_ms, end_ms) for place in (target, source))
            check(pprof.folded_json(ours) == pprof.folded_json(theirs), "stacks differ")
            Run(source.url, target.url, *span.options(), "--step", "300").good()


def case_what_comes_late_to_an_imported_step_doubles_nothing(seed):
    """The source's answer for the step is another one than before, under the same id."""
    span = Range()
    labels = {"__name__": "process_cpu", "service_name": "shop"}
    with Place() as source, Place() as target:
        for number in range(2):
            push(source.client, labels, pprof.make({("main", "f%d" % number): (number + 1, 1)}, span.start_ns + number * 10**10))
            report = Run(source.url, target.url, *span.options(), "--step", "60").good()
            check(report["profiles"] == 2, "%s", report)
            found = pprof.folded_json(target.client.merged_profile(SAMPLES, "{}", *span.ms()))
            check(found == {"main;f0": 1}, "%s", found)


def case_a_dry_run_counts_and_stores_nothing(seed):
    span = Range()
    with Place() as source, Place() as target, tempfile.TemporaryDirectory() as folder:
        n = fill(source.client, span)
        report = Run(source.url, target.url, *span.options(), "--dry-run", "--resume", "state", folder=folder).good()
        check(report["profiles"] == n and report["series"] == 8 and report["dry_run"], "%s", report)
        check(target.client.label_sets(["{}"], [], *span.ms()) == [], "something was stored")
        check(os.listdir(folder) == [], "%s", os.listdir(folder))


def case_the_source_says_where_it_begins(seed):
    span = Range()
    with Place() as source, Place() as target:
        fill(source.client, span)
        report = Run(source.url, target.url).good()
        check(report["profiles"] == 320, "%s", report)
        same(source, target, span)


def case_an_import_that_is_killed_goes_on(seed):
    span, chance = Range(), random.Random(seed)
    with Place() as source, Place() as target, tempfile.TemporaryDirectory() as folder:
        n = fill(source.client, span)
        options = (*span.options(), "--resume", "state", "--connections", "3", "--rate", "200")
        kills = 0
        for _ in range(100):
            run = Run(source.url, target.url, *options, folder=folder)
            time.sleep(chance.uniform(0.05, 0.9))
            run.process.send_signal(signal.SIGKILL)
            run.wait()
            if run.code == 0:
                break
            kills += 1
            check(run.code == -signal.SIGKILL, "exit code %d: %s", run.code, run.said)
        else:
            run = Run(source.url, target.url, *options, folder=folder)
            run.good()
        check(kills >= 2, "%d kills", kills)
        check(run.report["profiles"] + run.report["profiles_before"] == n and run.report["profiles_before"] > 0, "%s", run.report)
        check(not os.path.exists(os.path.join(folder, "state")), "the state of a complete import stays")
        same(source, target, span)


def case_a_state_is_of_one_import(seed):
    span = Range()
    with Place() as source, Place("--limits.reject_older_than", "1h") as target, tempfile.TemporaryDirectory() as folder:
        fill(source.client, span, times=2)
        first = Run(source.url, target.url, *span.options(), "--resume", "state", folder=folder)
        first.bad()
        check("the same command goes on where this one ended" in first.said, "%s", first.said)
        for options in (("--step", "60"), ("--selector", '{env="prod"}'), ("--source-tenant", "a"), ("--tenant", "b")):
            run = Run(source.url, target.url, *span.options(), *options, "--resume", "state", folder=folder)
            run.bad()
            check("is of an import with other options" in run.said, "%s: %s", options, run.said)
            check("the same command goes on" not in run.said, "the same command would fail again: %s", run.said)


def every(words, period):
    """The n-th request meets the next word every `period` requests."""
    def what(n, method, body):
        return words[n // period % len(words)] if n % period == period - 1 else None
    return what


def case_a_source_that_fails_for_a_while_is_asked_again(seed):
    span = Range()
    with Place() as source, Place() as target, \
            Proxy(source.server.port, every(("500", "cut", "garbage", "404", "429", "end", "nothing", "hang", "405", "503", "302", "lost"), 29)) as proxy:
        n = fill(source.client, span)
        report = Run(proxy.url, target.url, *span.options(), "--retries", "4", "--timeout", "2", "--connections", "8").good()
        check(report["profiles"] == n and report["requests"] > n, "%s", report)
        same(source, target, span)


def case_a_target_that_fails_for_a_while_is_sent_to_again(seed):
    span = Range()
    with Place() as source, Place() as target, \
            Proxy(target.server.port, every(("500", "lost", "429", "404", "cut", "garbage", "hang", "nothing", "503", "405"), 29)) as proxy:
        n = fill(source.client, span)
        report = Run(source.url, proxy.url, *span.options(), "--retries", "4", "--timeout", "2", "--connections", "8").good()
        check(report["profiles"] == n, "%s", report)
        same(source, target, span)


def case_a_side_that_does_not_answer_ends_the_import(seed):
    span = Range()
    with Place() as source, Place() as target, tempfile.TemporaryDirectory() as folder:
        n = fill(source.client, span)
        options = (*span.options(), "--retries", "1", "--timeout", "1", "--connections", "10", "--resume", "state")
        words = {"word": "hang", "from": 60}
        with Proxy(source.server.port, lambda n, method, body: words["word"] if n > words["from"] else None) as proxy:
            for word, said in (("hang", "the source: "), ("500", "the source: the server says 500: made up"), ("garbage", "the source: ")):
                words.update({"word": word, "from": len(proxy.requests) + 60})
                run = Run(proxy.url, target.url, *options, folder=folder)
                report = run.bad()
                check(said in run.said and "the same command goes on" in run.said, "%s", run.said)
                check(0 < report["profiles"] + report["profiles_before"] < n, "%s: %s", word, report)
            words["word"] = None
            Run(proxy.url, target.url, *options, folder=folder).good()
        same(source, target, span)


def case_a_source_that_is_not_there_is_told_at_once(seed):
    for more in ((), ("--from", "now-1h"), ("--dry-run",)):
        before = time.monotonic()
        done = subprocess.run([PROGRAM, "import", "pyroscope", "http://127.0.0.1:1", *more], capture_output=True, text=True, env=environment(),
                              timeout=TIMEOUT_S, check=False)
        check(done.returncode == 1 and time.monotonic() - before < 15, "%s: %s", more, done)
        check(done.stdout == "", "it reports of nothing: %s", done.stdout)
        check("the source does not answer at http://127.0.0.1:1 (Connection refused): check the URL behind `import pyroscope`" in done.stderr and
              "--url" not in done.stderr, "%s", done.stderr)
        check("flamegrid import: the source: Connection refused; trying again, 1 of 1\n" in done.stderr, "%s", done.stderr)


def case_a_server_that_is_none_is_told_after_one_request(seed):
    """Of a side that has never answered as it should, what another server would say is final: its URL is wrong."""
    span = Range()
    words = (("404", "the server says 404: made up"), ("405", "the server says 405"), ("302", "the server says 302"),
             ("garbage", "200 with text/html instead of application/proto"), ("nothing", "200 with text/plain instead of application/proto"))
    with Place() as source, Place() as target:
        fill(source.client, span, times=2)
        for word, said in words:
            with Proxy(source.server.port, lambda n, method, body: word) as proxy:
                for more, method in (((), "GetProfileStats"), (span.options(), "Series")):
                    run = Run(proxy.url, target.url, *more)
                    run.bad()
                    want = "the source does not answer as a Pyroscope does: check the URL behind `import pyroscope`: POST %s%s%s: %s" % (
                        proxy.url, QUERIER, method, said)
                    check(want in run.said and "trying again" not in run.said, "%s: %s", word, run.said)
                check(len(proxy.requests) == 2, "%s: asked %d times instead of once in each run", word, len(proxy.requests))
            with Proxy(target.server.port, lambda n, method, body: word) as proxy:
                run = Run(source.url, proxy.url, *span.options(), "--connections", "1")
                check(run.bad()["profiles"] == 0, "%s: it counts what nobody has stored: %s", word, run.report)
                want = "the target does not answer as a flamegrid does: check --url: POST %s/push.v1.PusherService/Push: %s" % (proxy.url, said)
                check(want in run.said, "%s: %s", word, run.said)
                check(len(proxy.requests) == 1, "%s: sent %d times instead of once", word, len(proxy.requests))


def case_only_the_first_request_of_all_decides(seed):
    """The range is found by a request of its own; what follows it may meet a proxy whose server restarts."""
    span = Range()
    with Place() as source, Place() as target, Proxy(source.server.port, lambda n, method, body: "404" if n in (1, 4) else None) as proxy:
        n = fill(source.client, span, times=2)
        report = Run(proxy.url, target.url).good()
        check(report["profiles"] == n, "%s", report)


def case_a_wait_for_the_source_is_told(seed):
    span = Range()
    with Place() as source, Place() as target, Proxy(source.server.port, lambda n, method, body: "503" if n < 3 else None) as proxy:
        fill(source.client, span, times=2)
        run = Run(proxy.url, target.url, *span.options(), "--retries", "4", "--dry-run")
        run.good()
        check("flamegrid import: the source: the server says 503: made up; trying again, 1 of 4\n" in run.said, "nothing after the first: %s", run.said)
        check("the server says 503: made up; trying again, 3 of 4\n" in run.said, "%s", run.said)


def case_one_is_not_many(seed):
    span = Range()
    with Place() as source:
        push(source.client, {"__name__": "process_cpu", "service_name": "s", "only": "cpu"},
             pprof.make({("main",): (1, 10**7)}, span.start_ns))
        said = subprocess.run([PROGRAM, "import", "pyroscope", source.url, *span.options(), "--selector", '{__type__="cpu"}', "--dry-run"],
                              capture_output=True, text=True, env=environment(), timeout=TIMEOUT_S, check=True).stdout
        check("1 profile of 1 series; the import sends at least 1 request to the source\n" in said, "%s", said)


def case_what_cannot_be_read_does_not_stop_the_rest(seed):
    span = Range()
    broken = {"word": "garbage"}

    def what(n, method, body):
        return broken["word"] if method == "SelectMergeProfile" and b'zone="x"' in body and CPU.encode() in body else None

    with Place() as source, Place() as target, Proxy(source.server.port, what) as proxy, tempfile.TemporaryDirectory() as folder:
        n = fill(source.client, span, times=9)
        options = (*span.options(), "--retries", "0", "--resume", "state")
        run = Run(proxy.url, target.url, *options, folder=folder)
        report = run.bad()
        check(report["profiles"] == n - 9, "%s", report)
        check([(fault["why"], fault["count"]) for fault in report["faults"]] == [("the source's answer cannot be read", 9)], "%s", report)
        check('zone="x"' in report["faults"][0]["example"] and run.said.count("not imported: ") == 9, "%s %s", report, run.said)
        broken["word"] = None
        report = Run(proxy.url, target.url, *options, folder=folder).good()
        check(report["profiles"] == 9 and report["profiles_before"] == n - 9, "%s", report)
        same(source, target, span)


def case_what_the_target_refuses_is_told_and_tried_again(seed):
    span = Range()
    old = ("--limits.reject_older_than", "210m")
    with Place() as source, Place(*old) as target, tempfile.TemporaryDirectory() as folder:
        n = fill(source.client, span)
        options = (*span.options(), "--resume", "state")
        run = Run(source.url, target.url, *options, folder=folder)
        report = run.bad()
        check(len(report["faults"]) == 1 and report["faults"][0]["why"] == "the target refuses it", "%s", report)
        refused = report["faults"][0]["count"]
        check(0 < refused < n and report["profiles"] == n - refused, "%s", report)
        check("outside of ingestion window" in report["faults"][0]["example"], "%s", report)
        check(target.server.terminate() == 0, "%s", target.server.log_tail())
        target.server.arguments = OPEN
        target.server.start().wait_ready()
        Run(source.url, target.url, *options, folder=folder).good()
        same(source, target, span)


def case_profiles_that_will_not_be_kept_are_told(seed):
    span = Range()
    with Place() as source, Place("--limits.retention_period", "1h") as target:
        n = fill(source.client, span, times=2)
        report = Run(source.url, target.url, *span.options()).good()
        check(report["expired"] == n == report["profiles"], "%s", report)


def case_a_source_that_changes_is_looked_at_again(seed):
    """A late profile of a millisecond that is just being asked for."""
    span = Range()
    late = {"left": 3}

    def what(n, method, body):
        if method == "SelectMergeProfile" and late["left"] > 0 and SAMPLES.encode() in body:
            late["left"] -= 1
            push(flamegrid.Client(source.server.port), {"__name__": "process_cpu", "service_name": "shop"},
                 pprof.make({("main", "late%d" % late["left"]): (5, 0)}, span.start_ns))

    with Place() as source, Place() as target, Proxy(source.server.port, what) as proxy:
        for i in range(4):
            push(source.client, {"__name__": "process_cpu", "service_name": "shop"},
                 pprof.make({("main", "work"): (1, 10**7)}, span.start_ns + i * 10**10))
        options = (*span.options(), "--connections", "1")
        run = Run(proxy.url, target.url, *options)
        report = run.bad()
        check([fault["why"] for fault in report["faults"]] == ["the source's data changed all the time"], "%s", report)
        late["left"] = 1
        Run(proxy.url, target.url, *options).good()
        check(late["left"] == 0, "nothing came late")
        same(source, target, span)


def case_the_rate_is_bounded(seed):
    span = Range()
    with Place() as source, Place() as target:
        fill(source.client, span, times=3)
        report = Run(source.url, target.url, *span.options(), "--rate", "20", "--connections", "8").good()
        check(report["requests"] >= 24 and report["seconds"] >= (report["requests"] - 1) / 20 - 0.01, "%s", report)


def case_each_side_gets_what_is_meant_for_it(seed):
    span = Range()
    many = ("--multitenancy_enabled", "true")
    with Place(*many) as source, Place(*many) as target, tempfile.TemporaryDirectory() as folder:
        paper = certs.Certificates(folder)
        paper.make("ca")
        paper.make("source", "ca")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(paper.path("source.pem"), paper.path("source.key"))
        for tenant in ("a", "b"):
            labels = {"__name__": "process_cpu", "service_name": "of-" + tenant}
            push(source.client, labels, pprof.make({("main",): (1, 10**7)}, span.start_ns), {"X-Scope-OrgID": tenant})
        with Proxy(source.server.port, context=context) as before, Proxy(target.server.port) as behind:
            mine = {"FLAMEGRID_TOKEN": "target-token", "FLAMEGRID_TENANT": "x"}
            run = Run(before.url, behind.url, *span.options(), "--source-tenant", "a", "--retries", "0", env=mine)
            run.bad()
            check("--source-ca-file" in run.said and "--ca-file" not in run.said.replace("--source-ca-file", ""), "%s", run.said)
            run = Run(before.url, behind.url, *span.options(), "--source-ca-file", paper.path("ca.pem"), env=mine)
            run.bad()
            shown = [name for _, headers in before.requests for name in headers if name in ("Authorization", "X-Scope-OrgID")]
            check(before.requests and not shown, "the source got %s", shown)
            del before.requests[:]
            trusted = (*span.options(), "--source-ca-file", paper.path("ca.pem"))
            report = Run(before.url, behind.url, *trusted, "--source-tenant", "a", "--source-user", "me:secret", env=mine).good()
            check(report["profiles"] == 2, "%s", report)
            basic = "Basic " + base64.b64encode(b"me:secret").decode()
            for path, headers in before.requests:
                check(headers.get("X-Scope-OrgID") == "a" and headers.get("Authorization") == basic, "%s: %s", path, headers)
            for path, headers in behind.requests:
                check(headers.get("X-Scope-OrgID") == "x" and headers.get("Authorization") == "Bearer target-token", "%s: %s", path, headers)
                check(headers.get("Idempotency-Key"), "%s", headers)
            del before.requests[:], behind.requests[:]
            Run(before.url, behind.url, *trusted, "--source-tenant", "b", "--tenant", "y", "--user", "you:there",
                env={"FLAMEGRID_SOURCE_TOKEN": "source-token", **mine}).good()
            check({headers.get("Authorization") for _, headers in before.requests} == {"Bearer source-token"}, "%s", before.requests)
            check({headers.get("Authorization") for _, headers in behind.requests} ==
                  {"Basic " + base64.b64encode(b"you:there").decode()}, "%s", behind.requests)
        for tenant, service in (("x", "of-a"), ("y", "of-b")):
            found = flamegrid.Client(target.server.port, headers={"X-Scope-OrgID": tenant}).label_sets(["{}"], ["service_name"], *span.ms())
            check(found == [{"service_name": service}], "%s: %s", tenant, found)


def case_who_is_not_let_in_is_told_at_once(seed):
    span = Range()
    many = ("--multitenancy_enabled", "true")
    with Place(*many) as source, Place(*many) as target:
        push(source.client, {"__name__": "process_cpu", "service_name": "s"}, pprof.make({("main",): (1, 10**7)}, span.start_ns),
             {"X-Scope-OrgID": "a"})
        for options, said in (((), "the source: the server says 401"), (("--source-tenant", "a"), "the target: the server says 401")):
            run = Run(source.url, target.url, *span.options(), *options)
            run.bad()
            check(said in run.said, "%s", run.said)
            hint = "--tenant or FLAMEGRID_TENANT names" if options else "--source-tenant names"
            check("no org id; %s the tenant" % hint in run.said, "%s", run.said)


def case_a_source_whose_limits_hide_the_past_is_told(seed):
    span = Range()
    with Place() as target:
        server = flamegrid.Server("--limits.max_query_lookback", "4h")
        with server:
            server.start().wait_ready()
            fill(flamegrid.Client(server.port), span)
            said = subprocess.run([PROGRAM, "import", "pyroscope", "http://127.0.0.1:%d" % server.port, "--url", target.url, *span.options()],
                                  capture_output=True, text=True, env=environment(), timeout=TIMEOUT_S, check=False)
        check(said.returncode == 0 and "its limits hide them (max_query_lookback)" in said.stdout, "%s", said)


def case_wrong_command_lines(seed):
    with Place() as source:
        for options, want in ((("pyroscope",), "URL"), (("pyroscop", "x"), "did you mean"),
                              (("pyroscope", source.url, "--step", "7"), "divides an hour"),
                              (("pyroscope", source.url, "--from", "now-1h", "--until", "now-2h"), "not before --until"),
                              (("pyroscope", source.url, "--source-token", "a", "--source-user", "b:c"), "not both at once"),
                              (("pyroscope", source.url, "--source-user", "b"), "USER:PASSWORD"),
                              (("pyroscope", source.url), "--from does")):
            done = subprocess.run([PROGRAM, "import", *options], capture_output=True, text=True, env=environment(), timeout=TIMEOUT_S, check=False)
            check(done.returncode == 2 and want in done.stderr and done.stdout == "", "%s: %s", options, done)
        run = Run(source.url + "/no", source.url, "--from", "now-2h")
        run.bad()
        check("/no%sSeries: the server says 404" % QUERIER in run.said, "%s", run.said)
        run = Run(source.url, source.url, "--from", "now-2h", "--selector", "{a=")
        run.bad()
        check("the source: the server says 400" in run.said, "%s", run.said)


class Recorded:
    """A service of which it was recorded what a Pyroscope answers: its series, and one pprof of each type."""

    def __init__(self, folder, at_ms):
        self.at_ms, self.profiles, self.sets = at_ms, {}, []
        for name in sorted(os.listdir(folder)):
            match = re.fullmatch(r"query(-\d+)?\.request", name)
            if match is None:
                continue
            with open(os.path.join(folder, name), "rb") as file:
                method = file.read().split()[1].decode().rpartition("/")[2]
            stem = os.path.join(folder, "response" + (match.group(1) or ""))
            if method == "Series" and os.path.exists(stem + ".json"):
                with open(stem + ".json", encoding="utf-8") as file:
                    self.sets = [{label["name"]: label["value"] for label in labels["labels"]} for labels in json.load(file).get("labelsSet", [])]
            elif method == "SelectMergeProfile" and os.path.exists(stem + ".pb"):
                with open(os.path.join(folder, "query%s.body" % (match.group(1) or "")), "rb") as file:
                    kind = dict((field, value) for field, _, value in pprof.fields(file.read()))[1].decode()
                with open(stem + ".pb", "rb") as file:
                    self.profiles[kind] = file.read()
        self.service = next((labels["service_name"] for labels in self.sets if "service_name" in labels), None)

    def listed(self):
        """One series of each type. A recorded pprof is of all series of its type together: it stands for that of the first."""
        return {labels["__profile_type__"]: labels for labels in reversed(self.sets) if labels.get("__profile_type__") in self.profiles}


class Replay(Proxy):
    """Answers as they were recorded; times and points around them are made to fit."""

    def __init__(self, services):
        super().__init__(0)
        self.services = services

    def serve(self, handler):
        asked = dict((field, value) for field, _, value in pprof.fields(handler.rfile.read(int(handler.headers["Content-Length"]))))
        method = handler.path.rpartition("/")[2]
        start_ms, end_ms = asked.get(3, 0), asked.get(4, 0)
        if method == "Series":
            sets = [labels for service in self.services if start_ms <= service.at_ms <= end_ms for labels in service.listed().values()]
            body = b"".join(pprof.message(2, b"".join(pprof.message(1, pprof.message(1, name.encode()) + pprof.message(2, value.encode()))
                                                      for name, value in labels.items())) for labels in sets)
        else:
            kind, selector = asked[1].decode(), asked[2].decode()
            found = [service for service in self.services
                     if start_ms <= service.at_ms <= end_ms and 'service_name="%s"' % service.service in selector and kind in service.profiles]
            body = found[0].profiles[kind] if found else b""
            if method == "SelectSeries" and found:
                point = pprof.varint(1 << 3 | 1) + struct.pack("<d", pprof.read_totals(body)[0]) + pprof.number(2, found[0].at_ms)
                body = pprof.message(1, pprof.message(2, point))
        self.answer(handler, 200, body, {})


def case_answers_of_a_pyroscope_are_read(seed):
    """Each recorded pprof is found in the target, with all that a location has."""
    folder = flamegrid.shared_folder("golden")
    span = Range()
    services = [Recorded(os.path.join(folder, name), span.start_ns // MS_NS + i * 60_000 + i)
                for i, name in enumerate(sorted(os.listdir(folder))) if re.match(r"0\d\d-(ingest|client)-", name)]
    services = [service for service in services if service.profiles and service.listed().keys() == service.profiles.keys()]
    check(len(services) >= 25, "only %d recordings", len(services))
    with Place() as target, Replay(services) as source:
        report = Run(source.url, target.url, *span.options()).good()
        check(report["profiles"] == sum(len(service.profiles) for service in services), "%s", report)
        for service in services:
            for kind, profile in service.profiles.items():
                request = (pprof.message(1, kind.encode()) + pprof.message(2, ('{service_name="%s"}' % service.service).encode())
                           + pprof.number(3, service.at_ms) + pprof.number(4, service.at_ms))
                status, ours = target.client.send("POST", QUERIER + "SelectMergeProfile", request, {"Content-Type": "application/proto"})
                check(status == 200, "%s: %d", kind, status)
                check(sorted(map(repr, pprof.located(ours))) == sorted(map(repr, pprof.located(profile))),
                      "%s of %s: %s instead of %s", kind, service.service, pprof.located(ours)[:3], pprof.located(profile)[:3])


def main():
    arguments, tally = flamegrid.parse_seeded(flamegrid.arguments_of(__doc__.splitlines()[0]))
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            if name == "case_answers_of_a_pyroscope_are_read" and flamegrid.shared_folder("golden") is None:
                tally.skip(name[5:].replace("_", " "), "no folder of recordings; set FG_SHARED")
                continue
            tally.run(name[5:].replace("_", " "), case, arguments.seed)
    tally.finish()


if __name__ == "__main__":
    main()
