#!/usr/bin/env python3
"""What a question about the last hour costs the ingesters, with one replica and with three.

    bench_replicas.py [--instances 20] [--minutes 50] [--questions 40] [--stacks 200 1000]

A cluster for each, on this machine: three ingesters, and a service all of which is in their heads. The same
question is asked over and over; counted is the processor time of all ingesters, less what they use while
nobody asks. A Markdown row for each number of stacks in a profile; all programs are in the folder of FG_BINARY.
"""

import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import cluster  # noqa: E402
import flamegrid  # noqa: E402
import pprof  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
EVERY_S = 10
VARIANTS = 20
POOL = 4000
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
QUIET_S = 5  # what ingesters use by themselves is measured for so long
SETTLE_S = 150  # ids are exchanged of profiles younger than two minutes


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--minutes", type=int, default=50)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--stacks", type=int, nargs="+", default=[200, 1000])
    return parser.parse_args()


def bodies(stacks):
    rng = random.Random(stacks)
    pool = [tuple("f%d" % rng.randrange(40 * depth + 1) for depth in range(rng.randrange(3, 25))) for _ in range(POOL)]
    return [pprof.make({stack: (1, 10_000_000) for stack in rng.sample(pool, stacks)}, 0) for _ in range(VARIANTS)]


def push(port, arguments, stacks, end_s):
    client, variants, number = flamegrid.Client(port), bodies(stacks), 0
    for at in range(end_s - arguments.minutes * 60, end_s, EVERY_S):
        for instance in range(arguments.instances):
            # Of two times in a message the last one counts.
            body = variants[number % VARIANTS] + pprof.number(9, at * 10**9 + instance)
            status, answer = client.send("POST", "/ingest?name=busy%%7Bpod%%3Dp%d%%7D&format=pprof" % instance, body)
            flamegrid.check(status == 200, "push: %d %s", status, answer)
            number += 1
    return number


def used_s(members):
    """Processor time of these processes so far."""
    ticks = 0
    for member in members:
        with open("/proc/%d/stat" % member.process.pid, encoding="ascii") as stat:
            ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))
    return ticks * TICK_S


def ask(client, end_s, questions):
    for _ in range(questions):
        total = client.flame_total(CPU, '{service_name="busy"}', (end_s - 3600) * 1000, end_s * 1000)
    return total


def measure(replicas, stacks, arguments):
    """Milliseconds of processor time a question, number of profiles, and the sum."""
    settings = {kind: list(words) for kind, words in cluster.QUICK.items()}
    settings["ingester"] = ["--ingester.segments.grace", "1h", "--ring.poll", "500ms", "--ring.replicas", str(replicas)]
    with cluster.Cluster(distributors=1, queriers=1, compactors=1, settings=settings) as members:
        members.start()
        ingesters = members.of("ingester")
        end_s = int(time.time())
        profiles = push(members.push.port, arguments, stacks, end_s)
        time.sleep(SETTLE_S if replicas > 1 else 0)
        client = flamegrid.Client(members.query.port)
        total = ask(client, end_s, 3)
        before = used_s(ingesters)
        time.sleep(QUIET_S)
        quiet = (used_s(ingesters) - before) / QUIET_S
        before, began = used_s(ingesters), time.monotonic()
        flamegrid.check(ask(client, end_s, arguments.questions) == total, "another sum")
        spent = used_s(ingesters) - before - quiet * (time.monotonic() - began)
        return 1000 * spent / arguments.questions, profiles, total


def main():
    arguments = parse_arguments()
    print("| stacks in a profile | profiles | one replica, ms | three replicas, ms | ratio |")
    print("|---|---|---|---|---|")
    for stacks in arguments.stacks:
        one_ms, profiles, one = measure(1, stacks, arguments)
        three_ms, _, three = measure(3, stacks, arguments)
        flamegrid.check(one == three, "%d with one replica, %d with three", one, three)
        print("| %d | %d | %.1f | %.1f | %.2f |" % (stacks, profiles, one_ms, three_ms, three_ms / one_ms), flush=True)


if __name__ == "__main__":
    main()
