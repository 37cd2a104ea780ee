"""What changed, with confidence: real profiles resampled into pods that differ a little, as pods do. Cases of query_test.py."""

import gzip
import json
import math
import os
import random
import sys
import time
import urllib.parse

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib")]

import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402
from raw_profiles import CPU, compared  # noqa: E402

PODS = 20
STACKS = 1000
PROFILES = 6  # of a pod, one for each minute
SAMPLES = 6000  # of a profile: a minute of one busy core at 100 Hz
NOISE = 0.1  # between pods, of the share of a function
FLEETS = 5  # splits of one fleet have their pods in common, so how many alarm depends on how these differ
SPLITS = 100  # of a fleet
SEED = 20  # of data
SAMPLE_NS = 10_000_000
SETTINGS = ["--querier.manifest_age", "1s"]


def real_stacks():
    """{stack: samples} of real CPU profiles; without them of a made program."""
    folder = flamegrid.shared_folder("load")
    names = sorted(name for name in os.listdir(folder) if "-cpu-" in name) if folder else []
    found = {}
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            for stack, value in pprof.folded(gzip.decompress(file.read())).items():
                if stack:
                    found[stack] = found.get(stack, 0) + value
    # The heaviest ones: reading and writing profiles takes longer than comparing them.
    found = dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:STACKS])
    rng = random.Random(1)
    while len(found) < 300:
        depth = rng.randrange(2, 12)
        found[("main.main",) + tuple("pkg%d.call%d" % (rng.randrange(9), rng.randrange(30)) for _ in range(depth))] = rng.randrange(1, 200)
    if not names:  # as in every program, some functions take much and call nothing
        found.update({("main.main", "work%d" % number): 100 * number for number in range(20)})
    return found


class Fleet:
    """Pods of one program: profiles as they were sent."""

    def __init__(self, seed, stacks):
        self.rng, self.stacks, self.sent = random.Random(seed), stacks, {}
        self.start_s = int(time.time()) // 60 * 60 - 3600

    def pod_weights(self, stacks):
        noise = {}
        weights = {}
        for stack, value in stacks.items():
            factor = noise.setdefault(stack[-1], math.exp(self.rng.gauss(0, NOISE)))
            weights[stack] = value * factor
        return weights

    def push(self, client, service, pod, stacks):
        weights = self.pod_weights(stacks)
        names, chances = list(weights), list(weights.values())
        for number in range(PROFILES):
            found = {}
            for stack in self.rng.choices(names, chances, k=SAMPLES):
                found[stack] = found.get(stack, 0) + 1
            time_ns = (self.start_s + number * 60) * 10**9
            body = pprof.make({stack: (n, n * SAMPLE_NS) for stack, n in found.items()}, time_ns)
            target = "/ingest?" + urllib.parse.urlencode({"name": "%s{pod=%s}" % (service, pod), "format": "pprof",
                                                          "from": time_ns, "until": time_ns + 60 * 10**9})
            status, answer = client.send("POST", target, body)
            check(status == 200, "push: %d %s", status, answer)
            mine = self.sent.setdefault((service, pod), {})
            for stack, n in found.items():
                mine[stack] = mine.get(stack, 0) + n * SAMPLE_NS

    def range_ms(self):
        return self.start_s * 1000, (self.start_s + 60 * PROFILES) * 1000

    def merged(self, keys):
        found = {}
        for key in keys:
            for stack, value in self.sent[key].items():
                found[stack] = found.get(stack, 0) + value
        return found


def ask(client, fleet, left, right, **more):
    start_ms, end_ms = fleet.range_ms()
    parameters = {"leftQuery": CPU + left, "rightQuery": CPU + right, "leftFrom": start_ms, "rightFrom": start_ms,
                  "leftUntil": end_ms, "rightUntil": end_ms, **more}
    status, body = client.send("POST", "/api/compare", json.dumps(parameters))
    check(status == 200, "compare: %d %s", status, body)
    return json.loads(body)


def of_pods(service, pods):
    return '{service_name="%s",pod=~"%s"}' % (service, "|".join(pods))


def told(answer):
    return [(row["state"], row["name"], row["of"], row.get("change")) for row in answer["changes"]]


def count_alarms(client, fleet, service, pods):
    """How many splits of the pods have a finding."""
    rng, alarms = random.Random(SEED), 0
    for _ in range(SPLITS):
        order = rng.sample(pods, PODS)
        answer = ask(client, fleet, of_pods(service, order[:PODS // 2]), of_pods(service, order[PODS // 2:]))
        check(answer["replicates"] == "instances" and answer["tests"] > 50, "%s", answer)
        alarms += answer["significant"] > 0
    return alarms


def check_figures(client, fleet, service, pods):
    """Exact values, and the time that profiles cover."""
    answer = ask(client, fleet, of_pods(service, pods[:8]), of_pods(service, pods[8:]), show="all", min_share=0, limit=100000)
    found = {(row["name"], row["of"]): (row["a"]["value"], row["b"]["value"]) for row in answer["changes"]}
    want = compared(fleet.merged((service, pod) for pod in pods[:8]), fleet.merged((service, pod) for pod in pods[8:]))
    check(found == want, "figures differ in %s", [key for key in {*found, *want} if found.get(key) != want.get(key)][:5])
    seconds = [answer[side]["covered_seconds"] for side in "ab"]
    check(seconds == [8 * PROFILES * 60, 12 * PROFILES * 60], "%s covered", seconds)


def one_program(_):
    """Splits of the pods of one program: an alarm in 5 % of them at most, with real profiles; and exact figures."""
    pods = ["p%02d" % i for i in range(PODS)]
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        alarms = []
        for number in range(FLEETS):
            fleet, service = Fleet(SEED + 100 * number, real_stacks()), "shop%d" % number
            for pod in pods:
                fleet.push(client, service, pod, fleet.stacks)
            alarms.append(count_alarms(client, fleet, service, pods))
            check_figures(client, fleet, service, pods)
        print("     %s of %d splits each of one program have a finding" % (alarms, SPLITS))
        # A made program's functions are alike, which suits the prior less than real ones do (querier/README.md).
        most = 0.05 if flamegrid.shared_folder("load") else 0.1
        check(sum(alarms) <= FLEETS * SPLITS * most, "%s of %d splits each have a false alarm", alarms, SPLITS)


def heavy_leaf(stacks, least, most):
    """A function of that share of all samples that begins no other's name."""
    total = sum(stacks.values())
    own = {}
    for stack, value in stacks.items():
        own[stack[-1]] = own.get(stack[-1], 0) + value
    inner = {name for stack in stacks for name in stack[:-1]}
    return next(name for name, value in sorted(own.items()) if least <= value / total <= most and name not in inner)


def planted_changes(_):
    """A function that became slower is told first, one that was renamed has moved; little else is told."""
    fleet = Fleet(SEED + 1, real_stacks())
    slow = heavy_leaf(fleet.stacks, 0.01, 0.1)
    slower = {stack: value * (1.5 if stack[-1] == slow else 1) for stack, value in fleet.stacks.items()}
    renamed = {tuple(name + "V2" if name == slow else name for name in stack): value for stack, value in fleet.stacks.items()}
    pods = ["p%02d" % i for i in range(PODS)]
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        for service, stacks in (("v1", fleet.stacks), ("v2", slower), ("v3", renamed)):
            for pod in pods:
                fleet.push(client, service, service + pod, stacks)
        answer = ask(client, fleet, '{service_name="v1"}', '{service_name="v2"}')
        first = answer["changes"][0]
        check(first["name"] == slow and first["state"] == "up" and 0.3 < first["change"] < 0.65, "%s: %s", slow, told(answer))
        check(first["interval"][0] < first["change"] < first["interval"][1] and 0 < first["detectable"] < 0.3, "%s", first)
        # Shares of the others fell by as much as that of the slower one rose, and some of that is seen.
        check(len(answer["changes"]) <= 6 and all(row["change"] < 0 for row in answer["changes"][1:]), "%s", told(answer))
        rate = ask(client, fleet, '{service_name="v1"}', '{service_name="v2"}', by="rate")
        check(rate["by"] == "rate" and rate["changes"] and rate["changes"][0]["name"] == slow, "%s", told(rate))

        answer = ask(client, fleet, '{service_name="v1"}', '{service_name="v3"}')
        lines = [row for row in answer["changes"] if row["state"] == "moved"]
        check(lines and lines[0]["moved"] == {"from": [slow], "to": [slow + "V2"]}, "%s: %s", slow, answer["changes"])
        check(len(answer["changes"]) <= 3, "%s", told(answer))
        everything = ask(client, fleet, '{service_name="v1"}', '{service_name="v3"}', show="all", limit=100000)
        check(everything["count"] > len(lines), "%s", everything["count"])

        # The same pods at another time are pairs; one pod alone is weak.
        start_ms, end_ms = fleet.range_ms()
        middle = (start_ms + end_ms) // 2
        pairs = ask(client, fleet, '{service_name="v1"}', '{service_name="v1"}', leftUntil=middle - 1, rightFrom=middle)
        check(pairs["replicates"] == "same instances" and pairs["same_instances"] == PODS, "%s", pairs)
        check(not pairs["changes"], "%s", told(pairs))
        alone = ask(client, fleet, '{pod="v1p00"}', '{pod="v1p01"}')
        check(alone["weak"] and alone["dispersion"] >= 3, "%s", alone)
