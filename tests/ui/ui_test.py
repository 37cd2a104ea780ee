#!/usr/bin/env python3
"""The page in a browser, each case of pages.mjs, comparing.mjs and admin.mjs against a server that has what it is about; and that its built files are those of
its sources.

    ui_test.py [-k REGEX]

Pictures of the pages are in build/ui/pictures afterwards.
"""

import concurrent.futures
import filecmp
import gzip
import http.server
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir, folder) for folder in ("lib", "agents", "bucket", "access")]

import agents  # noqa: E402
import cluster  # noqa: E402
import exporting  # noqa: E402
import flamegrid  # noqa: E402
import people  # noqa: E402
import pprof  # noqa: E402
import servers  # noqa: E402
import world  # noqa: E402

SOURCES = os.path.join(flamegrid.ROOT, "querier", "ui")
PICTURES = os.path.join(flamegrid.ROOT, "build", "ui", "pictures")
MINUTE_S = 60
DAY_S = 86400
FIXED_S = 1768478400  # 2026-01-15 12:00, as pictures.mjs has it
SAMPLE_NS = 10_000_000
EVIL = '<img src=x onerror="hurt=1">'
TARGETS = ["--scrape.targets", "[{targets: ['127.0.0.1:9'], labels: {service_name: nobody}}]"]
STRICT = flamegrid.free_port()  # of a target that refuses everything
FORWARD = ["--forward.targets", "[{name: central, url: 'http://127.0.0.1:9'}, {name: eu/west, url: 'http://127.0.0.1:9'}, "
           "{name: strict, url: 'http://127.0.0.1:%d'}]" % STRICT]
CASE_TIMEOUT_S = 300  # of a case that takes 80 s on a machine with too much to do
NODE = (20, 19)  # what the build needs (querier/ui/package.json)


class Browser(agents.Driver):
    """playwright-core, by npm as package-lock.json says; the browser is the machine's."""

    source = HERE

    def install(self):
        self.environment["CHROMIUM"] = shutil.which("chromium-headless-shell") or ""
        if not self.environment["CHROMIUM"]:
            raise agents.Unavailable("no chromium-headless-shell: deploy/install ui")
        self.need(("node", "--version"), NODE, "node")
        self.need(("npm", "--version"), (8, 0), "node")
        self.fetch("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")

    def look(self, tally, file, cases, about, variables):
        """Runs cases of a file in one browser, with variables in their environment. A case of which nothing is heard for too long has
        failed, and those after it get another browser."""
        left = list(cases)
        while left:
            said = []
            with subprocess.Popen(["node", file, about, PICTURES, *left], cwd=self.folder, env={**self.environment, **variables},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                                  errors="replace") as node:
                timer = self.kill_later(node)
                for line in node.stdout:
                    if not line.startswith('{"name":'):
                        said.append(line)
                        continue
                    timer.cancel()
                    timer = self.kill_later(node)
                    case = json.loads(line)
                    left.remove(case["name"])
                    if case["fault"]:
                        tally.fail(case["name"], case["fault"])
                    else:
                        tally.ok(case["name"], case["took_s"])
                timer.cancel()
            if left:
                tally.fail(left.pop(0), "no word of it: " + "".join(said)[-900:])

    @staticmethod
    def kill_later(node):
        timer = threading.Timer(CASE_TIMEOUT_S, node.kill)
        timer.start()
        return timer


class Sources(agents.Driver):
    """The sources of the page with what package-lock.json says."""

    source = SOURCES

    def copy(self):
        shutil.rmtree(self.path("src"), ignore_errors=True)  # files that are no longer there
        shutil.rmtree(self.path("dist"), ignore_errors=True)
        shutil.copytree(SOURCES, self.folder, ignore=shutil.ignore_patterns("node_modules", "dist"), dirs_exist_ok=True)

    def install(self):
        self.need(("node", "--version"), NODE, "node")
        self.need(("npm", "--version"), (8, 0), "node")
        self.fetch("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")

    def built_files_are_those_of_the_sources(self):
        self.build("npm", "run", "build")
        ours, made = os.path.join(SOURCES, "dist"), self.path("dist")
        files = [sorted(os.path.relpath(os.path.join(at, name), top) for at, _, names in os.walk(top) for name in names) for top in (ours, made)]
        flamegrid.check(files[0] == files[1], "dist has %s, but the sources give %s: npm run build in querier/ui", *files)
        _, differ, broken = filecmp.cmpfiles(ours, made, files[0], shallow=False)
        flamegrid.check(not differ and not broken, "npm run build in querier/ui: %s", differ + broken)

    def parts_work_without_a_browser(self):
        self.build("npm", "test")


# ---- what servers have ----

def push(client, name, stacks, at_s, form="folded"):
    """A profile of ten seconds."""
    target = "/ingest?" + urllib.parse.urlencode({"name": name, "from": at_s, "until": at_s + 10, "format": form})
    status, body = client.send("POST", target, stacks)
    flamegrid.check(status == 200, "push: %d %s", status, body)


def push_real(client, service, file, at_s):
    """A profile of an agent in the corpus, as if it were of this time."""
    with open(os.path.join(flamegrid.ROOT, "tests", "data", "corpus", "pprof", file), "rb") as profile:
        content = profile.read()
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    push(client, service, content + pprof.number(9, at_s * 10**9), at_s, "pprof")  # the last time in it counts


def fill(server):
    """A shop whose sums are known, services of real agents, and one with names that want to be markup."""
    client = flamegrid.Client(server.port)
    now_s = int(time.time())
    for minute in range(2, 58):
        pod = "ab"[minute % 2]
        push(client, "shop.cpu{pod=%s}" % pod, b"main;work;hash 30\nmain;work;sort 10\nmain;idle 2\n", now_s - minute * MINUTE_S)
    push_real(client, "bench", "made-go-json-bench.cpu.pb.gz", now_s - 10 * MINUTE_S)
    for number in (1, 2):
        push_real(client, "script", "agent-py-a-000%d-process_cpu.pb" % number, now_s - (10 + number) * MINUTE_S)
    series = exporting.series({"__name__": "process_cpu", "service_name": EVIL, "pod": EVIL}, (now_s - 5 * MINUTE_S) * 10**9,
                              {("main", EVIL, EVIL + "2"): (7, 70_000_000)}, (("samples", "count"), ("cpu", "nanoseconds")))
    status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps({"series": [series]}), {"Content-Type": "application/json"})
    flamegrid.check(status == 200, "push: %d %s", status, body)
    fill_linked(server)
    return {"FILLED_MS": str(now_s * 1000)}


class Strict(http.server.BaseHTTPRequestHandler):
    """A target of forwarding that refuses each profile for good."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = b'{"code":"invalid_argument","message":"no profiles of that kind, please"}'
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def fill_forwarding(server):
    """A profile that waits for two targets, and that a third one refuses."""
    threading.Thread(target=http.server.ThreadingHTTPServer(("127.0.0.1", STRICT), Strict).serve_forever, daemon=True).start()
    client = flamegrid.Client(server.port)
    push(client, "shop.cpu", b"main;work 30\n", int(time.time()) - MINUTE_S)
    end = time.monotonic() + MINUTE_S
    while json.loads(client.send("GET", "/api/forward")[1])["targets"][2]["deadProfiles"] == 0:
        flamegrid.check(time.monotonic() < end, "the target refuses, and nothing is listed as refused")
        time.sleep(0.1)


def fill_linked(server):
    """Two services whose profiles have lines, and say where their source is."""
    client = flamegrid.Client(server.port)
    at_s = int(time.time()) - 10 * MINUTE_S
    main, stacks = ("main", "api/main.go", 3), {}
    stacks[main, ("work", "api/get.go", 12)] = (7, 70_000_000)
    stacks[main, ("work", "api/get.go", 12), ("sort", "api/get.go", 40)] = (2, 20_000_000)
    stacks[main, ("work", "api/get.go", 14)] = (1, 10_000_000)
    for service, repository in (("linked", "https://github.com/acme/shop.git"), ("hostile", "javascript://github.com/acme/alert")):
        labels = {"__name__": "process_cpu", "service_name": service, "service_repository": repository, "service_git_ref": "3f2a",
                  "service_root_path": "services"}
        one = exporting.series(labels, at_s * 10**9, stacks, (("samples", "count"), ("cpu", "nanoseconds")))
        status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps({"series": [one]}), {"Content-Type": "application/json"})
        flamegrid.check(status == 200, "push: %d %s", status, body)


def fill_rollout(server, change_s=None):
    """A service whose version changes in the middle of an hour: hash takes more, parse less, audit is new, legacy gone, and sort
    and idle vary by chance. Everything but the time is the same in each run."""
    client = flamegrid.Client(server.port)
    chance = random.Random(5)
    change_s = change_s or (int(time.time()) // MINUTE_S - 35) * MINUTE_S
    sizes = {("main", "work", "hash"): (300, 450), ("main", "work", "parse"): (360, 180), ("main", "work", "sort"): (200, 200),
             ("main", "idle"): (400, 400), ("main", "work", "audit"): (0, 60), ("main", "legacy"): (30, 0)}
    own = {(pod, stack): chance.lognormvariate(0, 0.1) for pod in "abcdefgh" for stack in sizes}
    for (minute, pod) in [(minute, pod) for minute in range(-30, 30) for pod in "abcdefgh"]:
        is_new = minute >= 0
        counts = {stack: round(size[is_new] * own[pod, stack] * chance.lognormvariate(0, 0.1)) for stack, size in sizes.items()}
        stacks = {stack: (count, count * SAMPLE_NS) for stack, count in counts.items() if count}
        spans = [(f"{chance.getrandbits(64):016x}", "GET /fast", chance.randint(1, 9)) for _ in range(2)]
        if (minute, pod) == (10, "c"):
            spans.append((f"{chance.getrandbits(64):016x}", "GET /slow", 90))
        labelled = [(("main", "work", "hash"), (count, count * SAMPLE_NS), {"span_id": span, "span_name": name, "trace_id": span * 2})
                    for span, name, count in spans]
        at_s = change_s + minute * MINUTE_S + 7
        labels = {"pod": pod, "version": "1.1" if is_new else "1.0", "change": change_s}
        name = "rollout{%s}" % ",".join("%s=%s" % label for label in labels.items())
        push(client, name, pprof.make(stacks, at_s * 10**9, labelled=labelled), at_s, "pprof")


def fill_fixed(server):
    """The same at the same time in every run, for pictures."""
    fill_rollout(server, FIXED_S)
    client = flamegrid.Client(server.port)
    for minute in range(-28, 28):
        push_real(client, "bench", "made-go-json-bench.cpu.pb.gz", FIXED_S + minute * MINUTE_S)


WORLDS = {  # settings, what is pushed, cases and their file
    "empty": ([], lambda server: None, "pages.mjs", ["first profile"]),
    "own": (["--self_profiling.enabled", "true", "--self_profiling.interval", "1s"], lambda server: None, "pages.mjs", ["own profiles"]),
    "rollout": ([], fill_rollout, "comparing.mjs",
                ["diff", "diff of nothing", "diff by hand", "diff saved", "diff without enough", "flame graph by hand", "compare",
                 "labels", "spans", "comparison looks"]),
    "forwarding": (FORWARD, fill_forwarding, "pages.mjs", ["forwarding"]),
    "fixed": ([], fill_fixed, "pictures.mjs", ["pictures"]),
    "full": (["--querier.embed_origins", "http://127.0.0.1:*", *TARGETS], fill, "pages.mjs",
             ["services", "table", "rows", "flame graph", "parts of a flame graph", "source of a function", "states", "unfolded", "worth", "timeline", "query bar", "keyboard", "call tree", "opened nodes", "exports", "ad hoc",
              "trouble", "tries again", "progress bar", "access", "names from outside", "policy", "prefix", "embed", "status", "targets", "looks"]),
}


GOVERNED = ["tenants", "limits", "tokens", "tenant by label", "first token", "settings", "people", "audit", "usage", "tenant admin", "no admin", "admin by hand", "admin looks"]
QUICK = ["--compactor.interval", "1s", "--compactor.hour_delay", "0s", "--compactor.day_delay", "0s", "--compactor.fold_quiet", "0s"]
ISSUER = [{"issuer": "https://login.example", "audience": "flamegrid", "keys_url": "http://127.0.0.1:9/keys"}]  # nobody logs in


def governed():
    """Returns a server that asks for tokens and has a tenant whose usage has been counted, and what cases have to know of it."""
    server = servers.Governed("--audit.flush", "1s", "--access.issuers", json.dumps(ISSUER), *QUICK, tenants=("shop", "lab")).begin()
    viewer = server.token(["read", "push"], ["shop"], name="viewer")
    push(flamegrid.Client(server.port, headers=servers.bearer(viewer)), "demo.cpu", b"main;work 3\n", int(time.time()) - 2 * DAY_S)
    server.operate("POST", "/ingester/flush", headers=servers.bearer(server.admin))
    tokens = {"admin": server.admin, "viewer": viewer, "governor": server.token(["tenant-admin"], ["shop"], name="governor")}
    return server, {"TOKENS": json.dumps(tokens)}


PERSON = "a person"  # at a provider of identities
SLOW = ["progress of a cluster", "settings of a cluster"]  # cases of a cluster whose ingesters a case may stop


def prepare_slow(slow):
    """Starts a distributor that passes queries on, and fills in the shop, half of it in segments. Returns what cases have to know."""
    distributor = slow.of("distributor")[0]
    distributor.arguments += ["--query_proxy.urls", "http://127.0.0.1:%d" % slow.of("querier")[0].port]
    slow.of("querier")[0].arguments += ["--rpc.ping_timeout", "10m"]  # or it would give the ingesters up
    slow.start()
    fill(distributor)
    for ingester in slow.of("ingester"):
        status, body = ingester.operate("POST", "/ingester/flush")
        flamegrid.check(status == 200, "flush: %d %s", status, body)
    fill(distributor)
    return {"CLUSTER": json.dumps({"ingesters": [one.process.pid for one in slow.of("ingester")],
                                   "metrics": "http://127.0.0.1:%d/metrics" % distributor.admin_port})}


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    browser, sources = Browser("ui"), Sources("ui-sources")

    def build(name, work):
        if not tally.wants(name):
            return
        try:
            sources.ready()
        except agents.Unavailable as why:
            tally.skip(name, why)
            return
        tally.run(name, work)

    def look(file, cases, about, variables=None):
        try:
            browser.ready()
        except agents.Unavailable as why:
            for case in cases:
                tally.skip(case, why)
            return
        browser.look(tally, file, cases, about, variables or {})

    def build_all():
        build("built files are those of the sources", sources.built_files_are_those_of_the_sources)
        build("parts work without a browser", sources.parts_work_without_a_browser)
        if tally.wants("budgets"):
            look("pages.mjs", ["budgets"], os.path.join(SOURCES, "dist"))

    def look_at(settings, prepare, file, cases):
        cases = [case for case in cases if tally.wants(case)]
        if not cases:
            return
        with tempfile.TemporaryDirectory(prefix="flamegrid-ui.") as folder, flamegrid.Server(*settings, data=folder) as server:
            server.start().wait_ready()
            variables = prepare(server)
            look(file, cases, "http://127.0.0.1:%d" % server.port, variables)

    def look_at_governed():
        cases = [case for case in GOVERNED if tally.wants(case)]
        if cases:
            server, variables = governed()
            with server:
                look("admin.mjs", cases, "http://127.0.0.1:%d" % server.port, variables)

    def look_as_a_person():
        if not tally.wants(PERSON):
            return
        provider = world.Provider("ui-provider")
        try:
            provider.ready()
            with people.World(provider) as here:
                look("admin.mjs", [PERSON], here.url, {"PROVIDER": here.provider.issuer})
        except agents.Unavailable as why:
            tally.skip(PERSON, why)

    def look_at_slow():
        cases = [case for case in SLOW if tally.wants(case)]
        if cases:
            with cluster.Cluster(ingesters=3, distributors=1, queriers=1, compactors=1) as slow:
                variables = prepare_slow(slow)
                look("pages.mjs", cases, "http://127.0.0.1:%d" % slow.of("distributor")[0].port, variables)

    # A browser waits most of the time, so two look at once. The longest first.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        looks = [pool.submit(look_at, *WORLDS[name]) for name in ("full", "rollout")]
        looks += [pool.submit(work) for work in (look_at_governed, build_all, look_at_slow, look_as_a_person)]
        looks += [pool.submit(look_at, *WORLDS[name]) for name in ("fixed", "forwarding", "own", "empty")]
    for done in looks:
        done.result()
    tally.finish()


if __name__ == "__main__":
    main()
