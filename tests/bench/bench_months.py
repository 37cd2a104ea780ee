#!/usr/bin/env python3
"""Asks a server about the days that bench_fill made, and prints tables in Markdown.

    bench_months.py FOLDER [--stores directory,s3] [--repeat 20] [-k REGEX]

FOLDER is bench_fill's. The bucket is copied (by hard links into a data folder, or by uploads into versitygw), so
it stays as it is. Each row is asked of a server that has just started, its ingester empty and its compactor at
rest, and then again and again of the same one, for half a minute at most. "exact" is what the server says of its
picture. Then every picture is compared with that of everything, which the server is asked to merge in full (from
full rollups of days, where there are any), and that of all there is with what bench_totals counted from samples.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir, "lib"), os.path.join(HERE, os.pardir, "bucket")]

import bucket_test  # noqa: E402
import flamegrid  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
PROFILE_NS = 3 * 10**9  # what each profile adds up to: 300 ticks
WARM_S = 30
NODES = 8192
HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
LEVELS = {1: "1 h", 2: "6 h", 3: "1 d", 4: "7 d", 5: "28 d"}
WHOLE = {"X-Flamegrid-Refine": "true"}
AT_REST = ("--compactor.interval", "1h", "--compactor.hour_delay", "1d", "--compactor.day_delay", "7d")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--stores", default="directory,s3")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--settings", default="", help="further ones of the server, divided by spaces")
    parser.add_argument("-k", dest="pattern", default="", metavar="REGEX", help="only rows that match")
    return parser.parse_args()


# ---- what is in the bucket ----

def inspect(bucket, name):
    environment = {name: value for name, value in os.environ.items() if name != "FG_BINARY"}  # it is no setting
    done = subprocess.run([flamegrid.binary(), "bucket", "inspect", name, "--bucket.path", bucket],
                          stdout=subprocess.PIPE, check=True, env=environment)
    return json.loads(done.stdout)


def is_of_nodes(block):
    return bool(block.get("nodes_only"))


def show_levels(bucket):
    blocks = inspect(bucket, "tenants/anonymous/manifest")["blocks"]
    segments = inspect(bucket, "manifests/l0")["segments"]
    covered = inspect(bucket, "tenants/anonymous/manifest")["newest"]
    rows = {"segments": [entry for entry in segments if entry["generation"] > covered]}
    for block in blocks:
        name = "%s%s%s" % (LEVELS[block["level"]], ", patch" if block["patch"] else "",
                           ", nodes only" if is_of_nodes(block) else "")
        rows.setdefault(name, []).append(block)
    all_profiles = sum(entry["profiles"] for name in rows for entry in rows[name] if not is_of_nodes(entry))
    print("| level | objects | profiles | MB | bytes a profile |\n|---|---|---|---|---|")
    for name in sorted(rows):
        show_level(name, rows[name])
    size = sum(entry["bytes"] for name in rows for entry in rows[name])
    print("| all | %d | %d | %.1f | %.1f |\n" % (
        sum(map(len, rows.values())), all_profiles, size / 1e6, size / all_profiles))


def show_level(name, entries):
    profiles = sum(entry["profiles"] for entry in entries)
    size = sum(entry["bytes"] for entry in entries)
    if profiles > 0:
        print("| %s | %d | %d | %.1f | %.1f |" % (name, len(entries), profiles, size / 1e6, size / profiles))


def show_jobs(path):
    """CPU time of the compactor, by why it did something; of all of it for each profile that there is."""
    sums, stored = {}, 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            fields = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))
            if fields.get("msg") != '"compacted"':
                if fields.get("level") in ("warn", "error"):
                    print(line, end="", file=sys.stderr)
                continue
            profiles = int(fields["profiles"])
            sum_of = sums.setdefault(fields["why"], [0, 0, 0, 0.0])
            for at, value in enumerate((1, profiles, int(fields["written_bytes"]), float(fields["seconds"]))):
                sum_of[at] += value
            stored += profiles if int(fields["segments"]) > 0 else 0
    print("| job | jobs | profiles | bytes written a profile | CPU us a profile of the job | CPU us a profile stored |"
          "\n|---|---|---|---|---|---|")
    for why, (jobs, profiles, written, seconds) in sums.items():
        print("| %s | %d | %d | %.1f | %.1f | %.1f |" % (
            why, jobs, profiles, written / max(profiles, 1), seconds * 1e6 / max(profiles, 1),
            seconds * 1e6 / stored))
    print("| all | | %d | | | %.1f |\n" % (stored, sum(row[3] for row in sums.values()) * 1e6 / stored))


# ---- questions ----

def ranges(what):
    """(name, start, end), ms: on the hour or at midnight, and up to now, which is before the end of the data."""
    start, now = what["start_s"] * 1000, what["end_s"] * 1000 - 201713
    hour, six, day = (now // step * step for step in (HOUR_MS, 6 * HOUR_MS, DAY_MS))
    spans = (("1 h", HOUR_MS, hour), ("6 h", 6 * HOUR_MS, six), ("1 d", DAY_MS, day), ("7 d", 7 * DAY_MS, day),
             ("30 d", 30 * DAY_MS, day), ("90 d", 90 * DAY_MS, day), ("365 d", 365 * DAY_MS, day))
    for name, length, end in spans:
        if end - length >= start:
            yield name, end - length, end - 1
    for name, length, _ in spans:
        if now - length >= start:
            yield name + " to now", now - length, now


SELECTORS = (("the service", '{service_name="bench"}'), ("one region", '{service_name="bench", region="eu-west-1"}'),
             ("one pod", '{service_name="bench", pod="bench-6c9f7b8d5-00003"}'))


def questions(what):
    """(name, method, fields)"""
    for span, start, end in ranges(what):
        for selector, text in SELECTORS:
            yield "%s, %s" % (span, selector), "SelectMergeStacktraces", {
                "profileTypeID": CPU, "labelSelector": text, "start": start, "end": end, "maxNodes": NODES}
        yield "%s, time series by region" % span, "SelectSeries", {
            "profileTypeID": CPU, "labelSelector": SELECTORS[0][1], "start": start, "end": end, "groupBy": ["region"],
            "step": max(15, (end - start) // 1000 // 300)}


class Refused(Exception):
    pass


class Answer:
    def __init__(self, took_s, headers, body):
        self.took_s, self.body = took_s, body
        self.headers = {name.lower(): value for name, value in headers}

    def number(self, name):
        return int(self.headers.get("x-flamegrid-" + name, 0))

    def check_total(self):
        """Every profile adds the same to a flame graph, so the total says whether all of them are in it."""
        graph = json.loads(self.body).get("flamegraph")
        if graph is not None and int(graph.get("total", 0)) != self.number("profiles") * PROFILE_NS:
            raise SystemExit("a total of %s for %d profiles" % (graph.get("total"), self.number("profiles")))


def ask(connection, method, fields, headers=None):
    begin = time.perf_counter()
    connection.request("POST", "/querier.v1.QuerierService/" + method, json.dumps(fields),
                       {"Content-Type": "application/json", **(headers or {})})
    response = connection.getresponse()
    body = response.read()
    took = time.perf_counter() - begin
    if response.status != 200:
        raise Refused("%d %s" % (response.status, body[:200].decode("utf-8", "replace")))
    return Answer(took, response.getheaders(), body)


def cpu_s(pid):
    """Of all its threads so far, which live as long as it does, but the compactor's: old segments make it work."""
    total = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        of_thread = "/proc/%d/task/%s/" % (pid, thread)
        with open(of_thread + "comm", encoding="utf-8") as name, open(of_thread + "schedstat", encoding="utf-8") as file:
            total += int(file.read().split()[0]) if name.read().strip() != "compactor" else 0
    return total / 1e9


def measure(server, method, fields, repeat):
    """The first answer and its CPU time; of the warm ones all times, sorted, and the mean of CPU time."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    begun, until, warm = cpu_s(server.process.pid), time.monotonic() + WARM_S, []
    cold = ask(connection, method, fields)
    between = cpu_s(server.process.pid)
    while len(warm) < repeat and (not warm or time.monotonic() < until):
        warm.append(ask(connection, method, fields).took_s)
    return cold, between - begun, sorted(warm), (cpu_s(server.process.pid) - between) / len(warm)


def show_row(start, name, method, fields, repeat):
    server = start()
    try:
        server.wait_ready()
        cold, cold_cpu, warm, warm_cpu = measure(server, method, fields, repeat)
        cold.check_total()
        print("| %s | %d | %d | %d | %.2f | %.1f | %.1f | %.1f | %.1f | %.1f | %s | %.0f |" % (
            name, cold.number("profiles"), cold.number("objects"), cold.number("requests"),
            cold.number("bytes") / 1e6, cold.took_s * 1e3, cold_cpu * 1e3, warm[len(warm) // 2] * 1e3, warm[-1] * 1e3,
            warm_cpu * 1e3, cold.headers.get("x-flamegrid-exact", ""), len(cold.body) / 1e3), flush=True)
    except Refused as why:
        print("| %s | %s |" % (name, why), flush=True)
    finally:
        server.__exit__()


def show_rows(what, start, arguments):
    print("| question | profiles | objects | requests, cold | MB read | cold ms | its CPU ms | warm ms | most | its CPU ms "
          "| exact | answer kB |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, method, fields in questions(what):
        if re.search(arguments.pattern, name):
            show_row(start, name, method, fields, arguments.repeat)
    print()


# ---- comparing ----

def nodes_of(answer):
    """{path of names from the root: (total, self)} of a flame graph."""
    graph = json.loads(answer.body)["flamegraph"]
    names, above, nodes = graph.get("names", []), [(0, float("inf"), ())], {}
    for level in graph.get("levels", []):
        values, at, parent, here = [int(value) for value in level["values"]], 0, 0, []
        for i in range(0, len(values), 4):  # offset, total, self, name
            at += values[i]
            while above[parent][1] <= at:
                parent += 1
            path = above[parent][2] + (names[values[i + 3]],)
            nodes[path] = (values[i + 1], values[i + 2])
            here.append((at, at + values[i + 1], path))
            at += values[i + 1]
        above = here
    return nodes


def difference(picture, whole):
    """Returns the difference in words."""
    if picture == whole:
        return "the same"
    unlike = [path for path in picture.keys() | whole.keys() if picture.get(path) != whole.get(path)]
    total = max(value for value, _ in whole.values())
    most = max(abs(picture.get(path, (0, 0))[0] - whole.get(path, (0, 0))[0]) for path in unlike)
    return "%d of %d nodes, by %.5f %% at most; the least shown is %.5f %%" % (
        len(unlike), len(whole), 100.0 * most / total, 100.0 * min(value for value, _ in whole.values()) / total)


def show_whole(connection, path, what):
    """All there is, against what bench_totals counted from samples."""
    whole = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            value, _, names = line.rstrip("\n").partition(" ")
            whole[tuple(names.split("\t"))] = int(value)
    answer = ask(connection, "SelectMergeStacktraces", {
        "profileTypeID": CPU, "labelSelector": SELECTORS[0][1], "start": (what["start_s"] - 60) * 1000,
        "end": what["end_s"] * 1000, "maxNodes": NODES})
    picture = {names[1:]: value for names, (_, value) in nodes_of(answer).items() if len(names) > 1}
    print("All there is, %d profiles, against its samples: %s\n" % (
        answer.number("profiles"), "the same" if picture == whole else "%d of %d nodes have another value" % (
            sum(picture.get(names) != whole.get(names) for names in picture.keys() | whole.keys()), len(whole))))


def show_comparison(what, start, arguments):
    server = start().wait_ready()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=3600)
    if os.path.exists(os.path.join(arguments.folder, "picture.txt")):
        show_whole(connection, os.path.join(arguments.folder, "picture.txt"), what)
    print("| picture of %d nodes | profiles | exact | compared | merge of all of them, ms |\n|---|---|---|---|---|" % NODES)
    try:
        for name, method, fields in questions(what):
            if method == "SelectMergeStacktraces" and re.search(arguments.pattern, name):
                picture = ask(connection, method, fields)
                whole = ask(connection, method, fields, WHOLE)
                print("| %s | %d | %s | %s | %.0f |" % (
                    name, whole.number("profiles"), picture.headers.get("x-flamegrid-exact", ""),
                    difference(nodes_of(picture), nodes_of(whole)), whole.took_s * 1e3), flush=True)
    except Refused as why:
        print("| %s | %s |" % (name, why))
    finally:
        server.__exit__()
    print()


# ---- stores ----

def in_directory(bucket, folder, settings):
    data = os.path.join(folder, "data")
    os.mkdir(data)
    subprocess.run(["cp", "-al", bucket, os.path.join(data, "bucket")], check=True)
    return lambda: flamegrid.Server(*AT_REST, *settings, data=data).start()


def upload(bucket, host):
    objects = os.path.join(bucket, "objects")
    connection = http.client.HTTPConnection(host, timeout=600)
    for parent, _, names in os.walk(objects):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                put = bucket_test.signed_put(host, "/%s/%s" % (bucket_test.NAME, os.path.relpath(path, objects)),
                                             file.read())
            connection.request("PUT", put.selector, put.data, dict(put.header_items()))
            response = connection.getresponse()
            flamegrid.check(response.read() is not None and response.status == 200, "put: %d", response.status)


def in_s3(store, settings):
    """A folder of its own for each server: what it keeps of the store is there, too."""
    keys = ("--bucket.type", "s3", "--bucket.s3.endpoint", store.url, "--bucket.s3.bucket", bucket_test.NAME,
            "--bucket.s3.access_key", bucket_test.NAME, "--bucket.s3.secret_key", bucket_test.NAME)
    return lambda: flamegrid.Server(*AT_REST, *keys, *settings).start()


def main():
    arguments = parse_arguments()
    bucket = os.path.join(arguments.folder, "bucket")
    settings = arguments.settings.split()
    with open(os.path.join(arguments.folder, "fill.json"), encoding="utf-8") as file:
        what = json.load(file)
    print("%d days of %d instances, one profile in %d s%s%s, until %s UTC\n" % (
        what["days"], what["instances"], what["interval_s"],
        "" if what["sparse_s"] == what["interval_s"]
        else " (in %d s except in the last 26 hours and where 30 days begin)" % what["sparse_s"],
        ", all but the last 36 hours at once" if what["backfill_days"] > 0 else "",
        time.strftime("%Y-%m-%d %H:%M", time.gmtime(what["end_s"]))))
    show_levels(bucket)
    show_jobs(os.path.join(arguments.folder, "jobs.log"))
    folder = tempfile.mkdtemp(prefix="flamegrid-months.", dir=arguments.folder)
    store = None
    try:
        if "directory" in arguments.stores:
            print("From a directory:\n")
            start = in_directory(bucket, folder, settings)
            show_rows(what, start, arguments)
            show_comparison(what, start, arguments)
        if "s3" in arguments.stores:
            store = bucket_test.Versitygw(folder)
            store.start()
            upload(bucket, "127.0.0.1:%d" % store.port)
            print("From S3 (versitygw on this machine):\n")
            show_rows(what, in_s3(store, settings), arguments)
    finally:
        if store is not None:
            store.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
