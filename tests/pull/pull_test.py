#!/usr/bin/env python3
"""Pull mode: a real server that fetches profiles from targets of settings, files and a Kubernetes API.

    pull_test.py [-k REGEX]

A target counts what it serves, so what is stored can be compared with the truth. One is a real Go
program with net/http/pprof, where there is a Go toolchain.
"""

import http.server
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SPACE = "memory:alloc_space:bytes:cpu:nanoseconds"
INUSE = "memory:inuse_space:bytes:cpu:nanoseconds"
MEMORY_TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_space", "bytes"))
CPU_NS = 30_000_000
WAIT_S = 60
QUICK = ["--scrape.interval", "200ms", "--scrape.timeout", "5s", "--scrape.files_poll", "100ms"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.answer(self, urllib.parse.urlsplit(self.path))

    def send(self, status, body, content_type="application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Target(http.server.ThreadingHTTPServer):
    """Serves a CPU profile of 30 ms each time, and a memory profile that grows on request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.address = "127.0.0.1:%d" % self.port
        self.lock = threading.Lock()
        self.closed = False
        self.requests = []  # paths with their queries
        self.cpu_served = self.memory_served = 0
        self.allocated = 5_000_000
        self.first_allocated = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, request, url):
        with self.lock:
            self.requests.append(request.path)
            if self.closed:
                status, body = 503, b"closed"
            elif url.path == "/debug/pprof/profile":
                self.cpu_served += 1
                status, body = 200, pprof.make({("main", "work"): (3, CPU_NS)}, time.time_ns())
            elif url.path == "/debug/pprof/allocs":
                self.memory_served += 1
                if self.first_allocated is None:
                    self.first_allocated = self.allocated
                status, body = 200, self.memory()
            else:
                status, body = 404, b"no such profile"
        request.send(status, body)

    def memory(self):
        stacks = {("main", "grow"): (self.allocated // 10, self.allocated, 77)}
        return pprof.make(stacks, time.time_ns(), sample_types=MEMORY_TYPES)

    def close_door(self):
        with self.lock:
            self.closed = True

    def stop(self):
        self.shutdown()
        self.server_close()


class Kubernetes(http.server.ThreadingHTTPServer):
    """The part of the Kubernetes API that the server uses: pods, listed and watched."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        cert, key = os.path.join(folder, "ca.crt"), os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                        "-keyout", key, "-out", cert], check=True, capture_output=True)
        with open(os.path.join(folder, "token"), "w", encoding="ascii") as token:
            token.write("of-the-service-account\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = "https://127.0.0.1:%d" % self.server_address[1]
        self.pods, self.events, self.changed = [], [], threading.Condition()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, request, url):
        if request.headers.get("Authorization") != "Bearer of-the-service-account":
            request.send(401, b'{"message":"Unauthorized"}', "application/json")
        elif url.path != "/api/v1/pods":
            request.send(404, b"{}", "application/json")
        elif "watch" in urllib.parse.parse_qs(url.query):
            self.watch(request)
        else:
            body = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": self.pods}
            request.send(200, json.dumps(body).encode(), "application/json")

    def watch(self, request):
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        told = 0
        while True:
            with self.changed:
                self.changed.wait_for(lambda: len(self.events) > told)
                line = json.dumps(self.events[told]).encode() + b"\n"
            told += 1
            try:
                request.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                request.wfile.flush()
            except OSError:
                return

    def tell(self, kind, pod):
        with self.changed:
            self.events.append({"type": kind, "object": pod})
            self.changed.notify_all()


def pod(name, port, version, kinds=("cpu",)):
    annotations = {}
    for kind in kinds:
        annotations["profiles.grafana.com/%s.scrape" % kind] = "true"
        annotations["profiles.grafana.com/%s.port" % kind] = str(port)
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": version, "annotations": annotations,
                         "labels": {"app": "checkout"}},
            "spec": {"containers": [{"name": "main", "ports": [{"containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": "127.0.0.1"}}


def wait_until(what, condition):
    deadline = time.monotonic() + WAIT_S
    while True:
        if condition():
            return
        check(time.monotonic() < deadline, "waited in vain for: %s", what)
        time.sleep(0.05)


def group(target, profiles="process_cpu", **labels):
    return {"targets": [target.address], "labels": {"__profiles__": profiles, **labels}}


def total(server, profile_type, selector):
    now_ms = time.time_ns() // 1_000_000
    return flamegrid.Client(server.port).flame_total(profile_type, selector, now_ms - 3_600_000, now_ms + 60_000)


def targets_of(server, query=""):
    status, body = flamegrid.Client(server.port).send("GET", "/api/v1/targets" + query)
    check(status == 200, "%d %s", status, body[:200])
    answer = json.loads(body)
    check(answer["status"] == "success", "%s", answer)
    return answer["data"]


def active(server):
    return {target["scrapeUrl"]: target for target in targets_of(server)["activeTargets"]}


class Room:
    """A server and a target."""

    def __init__(self, *arguments, groups=None):
        self.target = Target()
        self.folder = tempfile.mkdtemp(prefix="flamegrid-test.")
        settings = [] if groups is None else ["--scrape.targets", json.dumps(groups(self.target))]
        self.server = flamegrid.Server(*QUICK, *settings, *arguments)

    def __enter__(self):
        self.server.start().wait_ready()
        return self

    def __exit__(self, *exception):
        self.server.__exit__(*exception)
        self.target.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def case_every_profile_is_stored_once():
    with Room(groups=lambda target: [group(target, service_name="shop", env="test")]) as room:
        wait_until("five scrapes", lambda: room.target.cpu_served >= 5)
        room.target.close_door()
        want = room.target.cpu_served * CPU_NS
        wait_until("all of them stored", lambda: total(room.server, CPU, '{service_name="shop",env="test"}') >= want)
        check(total(room.server, CPU, '{service_name="shop"}') == want, "more than %d ns", want)
        check(total(room.server, CPU, '{instance="%s"}' % room.target.address) == want, "instance")
        check("/debug/pprof/profile?seconds=1" in room.target.requests, "%s", room.target.requests[:3])


def case_memory_is_what_it_grew_by():
    with Room(groups=lambda target: [group(target, "memory", service_name="shop")]) as room:
        target = room.target
        wait_until("a first scrape", lambda: target.memory_served >= 1)
        for _ in range(5):
            served = target.memory_served
            with target.lock:
                target.allocated += 4096
            wait_until("another scrape", lambda seen=served: target.memory_served > seen)
        wait_until("two more", lambda seen=target.memory_served: target.memory_served >= seen + 2)
        want = target.allocated - target.first_allocated
        wait_until("all of it stored", lambda: total(room.server, SPACE, '{service_name="shop"}') >= want)
        check(total(room.server, SPACE, '{service_name="shop"}') == want, "more than %d bytes", want)
        check(total(room.server, INUSE, '{service_name="shop"}') % 77 == 0, "what is in use is as it was")


def case_pages_show_how_it_goes():
    dead = "127.0.0.1:%d" % flamegrid.free_port()
    with Room(groups=lambda target: [group(target, "process_cpu,mutex", service_name="<b>"),
                                     {"targets": [dead], "labels": {"__profiles__": "memory"}}]) as room:
        up = "http://%s/debug/pprof/profile?seconds=1" % room.target.address
        broken = "http://%s/debug/pprof/mutex" % room.target.address
        down = "http://%s/debug/pprof/allocs" % dead
        wait_until("first scrapes", lambda: all(target["health"] != "unknown" for target in active(room.server).values()))
        targets = active(room.server)
        check(sorted(targets) == sorted([up, broken, down]), "%s", list(targets))
        check(targets[up]["health"] == "up" and targets[up]["lastError"] == "", "%s", targets[up])
        check(targets[up]["labels"] == {"__name__": "process_cpu", "service_name": "<b>",
                                        "instance": room.target.address}, "%s", targets[up]["labels"])
        check(targets[up]["discoveredLabels"]["__address__"] == room.target.address, "%s", targets[up])
        check(targets[up]["scrapeInterval"] == "200ms" and targets[up]["scrapePool"] == "settings", "%s", targets[up])
        check(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", targets[up]["lastScrape"]), "%s", targets[up])
        check(targets[broken]["lastError"] == "the target responds with status 404: no such profile",
              "%s", targets[broken])
        check(targets[down]["health"] == "down" and dead.split(":")[1] in targets[down]["lastError"],
              "%s", targets[down])
        status, page = flamegrid.Client(room.server.port).send("GET", "/targets")
        check(status == 200 and page == flamegrid.Client(room.server.port).send("GET", "/")[1], "the web page: %d %s", status, page)
        metrics = room.server.metrics()
        check("flamegrid_scrape_targets 2\n" in metrics, "targets")
        for result in ("ok", "status", "unreachable"):
            check(re.search(r'flamegrid_scrape_scrapes_total\{result="%s"\} [1-9]' % result, metrics), "%s", result)


def case_files_come_change_and_go():
    folder = tempfile.mkdtemp(prefix="flamegrid-test.")
    path = os.path.join(folder, "a.json")

    def put(content):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(content)
        os.rename(path + ".new", path)

    try:
        with Room("--scrape.files", json.dumps([folder + "/*.json", folder + "/*.yaml"])) as room:
            check(active(room.server) == {}, "no file, no target")
            put(json.dumps([group(room.target, service_name="one")]))
            wait_until("the target", lambda: active(room.server))
            wait_until("its profiles", lambda: total(room.server, CPU, '{service_name="one"}') > 0)
            put(json.dumps([group(room.target, service_name="two"), {"targets": ["no port:x"]}]))
            wait_until("its profiles by another name", lambda: total(room.server, CPU, '{service_name="two"}') > 0)
            data = targets_of(room.server)
            check(len(data["activeTargets"]) == 1, "%s", data)
            check("is not HOST:PORT" in data["droppedTargets"][0]["reason"], "%s", data["droppedTargets"])
            check(targets_of(room.server, "?state=active")["droppedTargets"] == [], "?state=active")
            check(targets_of(room.server, "?state=dropped")["activeTargets"] == [], "?state=dropped")
            put("[{")
            wait_until("an error", lambda: "a.json:1" in json.dumps(targets_of(room.server)["discovery"]))
            found = targets_of(room.server)["discovery"]
            check([(one["source"], one["path"], one["state"]) for one in found] == [("file", path, "not read")], "%s", found)
            check(len(active(room.server)) == 1, "what was goes on")
            os.unlink(path)
            wait_until("nothing", lambda: active(room.server) == {})
    finally:
        shutil.rmtree(folder)


def case_pods_ask_by_annotations():
    folder = tempfile.mkdtemp(prefix="flamegrid-test.")
    api = Kubernetes(folder)
    try:
        with Room("--scrape.kubernetes.pods", "true", "--scrape.kubernetes.api", api.url,
                  "--scrape.kubernetes.credentials", folder) as room:
            api.tell("ADDED", pod("checkout-1", room.target.port, "2"))
            wait_until("its profiles", lambda: total(room.server, CPU, '{service_name="shop/main"}') > 0)
            check(total(room.server, CPU, '{namespace="shop",pod="checkout-1",container="main",app="checkout"}') > 0,
                  "labels of the pod")
            api.tell("MODIFIED", pod("checkout-1", room.target.port, "3", kinds=("cpu", "memory")))
            wait_until("its memory too", lambda: total(room.server, INUSE, '{pod="checkout-1"}') > 0)
            api.tell("DELETED", pod("checkout-1", room.target.port, "4"))
            wait_until("nothing", lambda: active(room.server) == {})
            found = targets_of(room.server)["discovery"]
            check(found == [{"source": "kubernetes", "state": "watching pods", "error": ""}], "%s", found)
    finally:
        api.shutdown()
        api.server_close()
        shutil.rmtree(folder)


def case_rules_rewrite_and_drop_targets():
    rules = [{"source_labels": ["team"], "regex": "legacy", "action": "drop"},
             {"source_labels": ["team"], "target_label": "service_name", "replacement": "shop/$1"},
             {"regex": "team", "action": "labeldrop"}]
    with Room("--scrape.relabel", json.dumps(rules),
              groups=lambda target: [group(target, team="cart"), group(target, team="legacy")]) as room:
        wait_until("its profiles", lambda: total(room.server, CPU, '{service_name="shop/cart"}') > 0)
        data = targets_of(room.server)
        check([t["labels"].get("team") for t in data["activeTargets"]] == [None], "%s", data["activeTargets"])
        check([t["discoveredLabels"]["team"] for t in data["droppedTargets"]] == ["legacy"], "%s", data["droppedTargets"])


def case_two_share_the_targets():
    with Target() as first, Target() as second:
        groups = [group(first, service_name="s%d" % i) for i in range(6)]
        groups += [group(second, service_name="s%d" % i) for i in range(6)]
        scraped = []
        for index in ("0", "1"):
            with flamegrid.Server(*QUICK, "--scrape.targets", json.dumps(groups), "--scrape.share_count", "2",
                                  "--scrape.share_index", index) as server:
                server.start().wait_ready()
                scraped.append({(t["labels"]["instance"], t["labels"]["service_name"])
                                for t in targets_of(server)["activeTargets"]})
        check(len(scraped[0] | scraped[1]) == 12 and not scraped[0] & scraped[1], "%s", scraped)
        check(scraped[0] and scraped[1], "one has them all: %s", scraped)


def threads_of(server):
    folder = "/proc/%d/task" % server.process.pid
    return [open(os.path.join(folder, task, "comm"), encoding="ascii").read().strip() for task in os.listdir(folder)]


def case_without_targets_nothing_runs():
    with flamegrid.Server() as server:
        server.start().wait_ready()
        check("scrape" not in threads_of(server), "%s", threads_of(server))
        check(targets_of(server) == {"activeTargets": [], "droppedTargets": [], "elsewhere": 0, "discovery": []}, "the list is empty")


def case_the_end_does_not_wait_for_a_profile():
    class Slow(Target):
        def answer(self, request, url):
            self.requests.append(request.path)
            time.sleep(WAIT_S)

    target = Slow()
    with flamegrid.Server(*QUICK, "--scrape.timeout", "5m", "--scrape.targets", json.dumps([group(target)])) as server:
        server.start().wait_ready()
        wait_until("a request", lambda: target.requests)
        check(server.terminate() == 0, "%s", server.log_tail())
    target.stop()


def case_wrong_settings_end_the_start():
    for arguments, want in ((["--scrape.targets", "[{targets: [\"a:b\"]}]"], 'address \\"a:b\\" has an invalid port'),
                            (["--scrape.targets", "[{target: [\"a\"]}]"], 'did you mean \\"targets\\"'),
                            (["--scrape.profiles", "{memry: {enabled: false}}"], 'did you mean \\"memory\\"'),
                            (["--scrape.files", "[/tmp/x]"], "must end in"),
                            (["--scrape.share_index", "1"], "is not below scrape.share_count"),
                            (["--scrape.kubernetes.pods", "true"], "scrape.kubernetes.api is needed")):
        with flamegrid.Server(*arguments) as server:
            code = server.start().wait()
            check(code == 1 and want in server.log_tail(), "%s: %d %s", arguments, code, server.log_tail())


GO_TARGET = """
package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"runtime"
	"sync"
)

var sink []byte

//go:noinline
func allocate() { sink = make([]byte, 1<<20) }

//go:noinline
func burn() (s int) {
	for i := 0; i < 1000000; i++ {
		s += i * i % 7
	}
	return s
}

func main() {
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	var lock sync.Mutex
	for i := 0; i < 2; i++ {
		go func() {
			for {
				lock.Lock()
				burn()
				allocate()
				lock.Unlock()
			}
		}()
	}
	panic(http.Serve(listener, nil))
}
"""


class GoTarget:
    def __init__(self, folder):
        self.folder = folder
        source, self.program = os.path.join(folder, "main.go"), os.path.join(folder, "target")
        with open(source, "w", encoding="ascii") as file:
            file.write(GO_TARGET)
        subprocess.run(["go", "build", "-o", self.program, source], check=True, capture_output=True, timeout=300,
                       cwd=folder, env={**os.environ, "GO111MODULE": "off", "CGO_ENABLED": "0"})
        self.process = subprocess.Popen([self.program], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def case_a_real_go_program(folder):
    target = GoTarget(folder)
    try:
        groups = [{"targets": [target.address], "labels": {"service_name": "go"}}]
        with flamegrid.Server("--scrape.interval", "2s", "--scrape.targets", json.dumps(groups)) as server:
            server.start().wait_ready()
            for kind in (CPU, "memory:alloc_space:bytes:space:bytes", "memory:inuse_space:bytes:space:bytes",
                         "goroutine:goroutine:count:goroutine:count", "mutex:delay:nanoseconds:contentions:count",
                         "block:contentions:count:contentions:count"):
                wait_until(kind, lambda kind=kind: total(server, kind, '{service_name="go"}') > 0)
            bad = [t for t in targets_of(server)["activeTargets"] if t["health"] != "up"]
            check(not bad, "%s", bad)
    finally:
        target.stop()


def main():
    options = flamegrid.arguments_of(__doc__).parse_args()
    tally = flamegrid.Tally(options.pattern)
    for name, case in list(globals().items()):
        if not name.startswith("case_") or name == "case_a_real_go_program":
            continue
        tally.run(name[len("case_"):], case)
    folder = tempfile.mkdtemp(prefix="flamegrid-test.")
    if shutil.which("go") is not None:
        tally.run("a_real_go_program", case_a_real_go_program, folder)
    elif tally.wants("a_real_go_program"):
        tally.skip("a_real_go_program", "there is no Go toolchain")
    shutil.rmtree(folder)
    tally.finish()


if __name__ == "__main__":
    main()
