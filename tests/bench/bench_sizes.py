#!/usr/bin/env python3
"""What the programs of a size of the chart need for the load that the manual says it carries, next to what the chart gives them.

    bench_sizes.py [--size small] [--mode cluster] [--rate 500] [--minutes 25] [--questions 1] [--flush-minutes 10]

Each program gets the bound of its memory and the numbers of threads that the chart derives from the size, so three ingesters, a
distributor, a querier and a compactor (--mode single: one server). The bench pushes real profiles at a rate, from as many pods as send
one every ten seconds, and asks so many questions a second: a flame graph, a time series and a list of labels of an hour, in turns. All
ingesters are told to make segments every --flush-minutes, so that a short run has that, too. Prints rows of a Markdown table: the mean of the processors that a program
used, and the most memory that was resident (VmHWM). Set FG_BINARY to a release build, and FG_PUSH to its bench_push.
"""

import argparse
import os
import subprocess
import sys
import threading
import time

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import cluster  # noqa: E402
import flamegrid  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SERVICES = 20
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def bytes_of(text):
    return int(text[:-2]) * UNITS[text[-2:]]


def processors_of(text):
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def resources(size):
    with open(os.path.join(ROOT, "deploy/helm/flamegrid/values.yaml"), encoding="utf-8") as file:
        return yaml.safe_load(file)["sizes"][size]


def settings_of(kind, given):
    """As deploy/helm/flamegrid/templates/_config.tpl makes them."""
    processors = max(1, int(processors_of(given["cpu"]) + 0.5))
    threads = str(2 * processors)
    made = ["--memory_max_bytes", str(bytes_of(given["memoryLimit"]) * 3 // 4), "--workers", threads, "--loops", str(processors)]
    if kind in ("ingester", "single"):
        made += ["--ingester.workers", threads, "--ingester.query_workers", threads]
    return made


def used_s(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) * TICK_S


def most_bytes(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


def push(port, rate, seconds):
    pods = max(1, rate * 10 // SERVICES)
    done = subprocess.run([os.environ["FG_PUSH"], "--to", "127.0.0.1:%d" % port, "--rate", str(rate), "--seconds", str(seconds), "--warmup", "0",
                           "--connections", "64", "--services", str(SERVICES), "--pods", str(pods), "--start", str(int(time.time())),
                           "--profiles", flamegrid.shared_folder("load")],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"PATH": os.environ["PATH"]})
    flamegrid.check("failed 0," in done.stdout, "%s", done.stdout)
    return done.stdout


def ask(port, every_s, ending):
    client, number = flamegrid.Client(port), 0
    while not ending.wait(every_s):
        now_ms = int(time.time() * 1000)
        when = {"start": now_ms - 3600 * 1000, "end": now_ms}
        of_one = {"profileTypeID": CPU, "labelSelector": '{service_name="svc-%d"}' % (number % SERVICES), **when}
        method, fields = (("SelectMergeStacktraces", of_one), ("SelectSeries", {**of_one, "step": 15}), ("LabelNames", when))[number % 3]
        client.ask(method, **fields)
        number += 1


def flush(flushes, every_s, ending):
    while not ending.wait(every_s):
        for operate in flushes:
            status, said = operate("POST", "/ingester/flush", 300)
            flamegrid.check(status == 200, "flush: %d %s", status, said)


def measure(processes, flushes, arguments):
    """processes: name, kind, pid, what it was given. Prints a row for each."""
    before = {pid: used_s(pid) for _, _, pid, _ in processes}
    began, ending = time.monotonic(), threading.Event()
    others = [threading.Thread(target=ask, args=(arguments.query_port, 1 / arguments.questions, ending)),
              threading.Thread(target=flush, args=(flushes, arguments.flush_minutes * 60, ending))]
    for other in others:
        other.start()
    said = push(arguments.push_port, arguments.rate, int(arguments.minutes * 60))
    ending.set()
    for other in others:
        other.join()
    took_s = time.monotonic() - began
    print(said.strip(), file=sys.stderr)
    for name, _, pid, given in processes:
        print("| %s | %d | %s | %.2f | %s | %.0f MiB | %s |" % (
            arguments.size, arguments.rate, name, (used_s(pid) - before[pid]) / took_s, given["cpu"], most_bytes(pid) / (1 << 20), given["memory"]))


def run_cluster(arguments, given):
    settings = {kind: settings_of(kind, given[kind]) for kind in ("ingester", "distributor", "querier", "compactor")}
    with cluster.Cluster(distributors=1, queriers=1, compactors=1, settings=settings) as members:
        for member in members.of("ingester"):  # without the link in between, which is a program of Python
            member.arguments[member.arguments.index("--ring.address") + 1] = member.arguments[member.arguments.index("--rpc_listen") + 1]
        members.start()
        arguments.push_port, arguments.query_port = members.of("distributor")[0].port, members.of("querier")[0].port
        measure([(member.name, member.kind, member.process.pid, given[member.kind]) for member in members.members.values()],
                [member.operate for member in members.of("ingester")], arguments)


def run_single(arguments, given):
    with flamegrid.Server(*settings_of("single", given["single"])).start() as server:
        server.wait_ready()
        arguments.push_port = arguments.query_port = server.port
        measure([("server", "single", server.process.pid, given["single"])], [server.operate], arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small")
    parser.add_argument("--mode", choices=("cluster", "single"), default="cluster")
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--questions", type=float, default=1)
    parser.add_argument("--flush-minutes", type=float, default=10)
    arguments = parser.parse_args()
    print("| size | profiles a second | program | processors | ... requested | memory at most | ... requested |\n|---|---|---|---|---|---|---|")
    (run_cluster if arguments.mode == "cluster" else run_single)(arguments, resources(arguments.size))


if __name__ == "__main__":
    main()
