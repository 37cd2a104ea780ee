#!/usr/bin/env python3
"""A server that profiles itself: what its profiles show, whose they are, and that nothing is left of it when it is off.

    self_profile_test.py [-k REGEX]

A build with sanitizers has no profiles of heap and locks: these cases are skipped there.
"""

import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import check  # noqa: E402

ON = ["--self_profiling.enabled", "true", "--self_profiling.interval", "1s"]
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
INUSE = "memory:inuse_space:bytes:space:bytes"
ALLOC = "memory:alloc_space:bytes:space:bytes"
DELAY = "mutex:delay:nanoseconds:contentions:count"
WAIT_S = 120
SIGPROF_BIT = 1 << 26  # of a mask in /proc: signal 27


class Load:
    """Pushes profiles as fast as the server takes them, over several connections, while the context lasts."""

    def __init__(self, server, connections=4, headers=None):
        self.server, self.headers, self.is_over = server, headers or {}, False
        self.threads = [threading.Thread(target=self.push, args=(number,)) for number in range(connections)]

    def push(self, number):
        client, chance = flamegrid.Client(self.server.port), random.Random(number)
        while not self.is_over:
            lines = "".join("main;f%d;g%d;h%d %d\n" % (chance.randrange(50), chance.randrange(50), chance.randrange(500), line + 1)
                            for line in range(500))
            now = int(time.time())
            try:
                client.send("POST", "/ingest?name=load.cpu{n=%d}&format=groups&from=%d&until=%d" % (number, now - 1, now), lines.encode(),
                            self.headers)
            except OSError:
                return  # the server ends

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.is_over = True
        for thread in self.threads:
            thread.join()


def frames(client, profile_type, selector='{service_name="flamegrid"}'):
    """{function: sum of the totals of its nodes}; empty if there are no such profiles yet."""
    now = int(time.time() * 1000)
    try:
        found = client.flame_frames(profile_type, selector, now - 3600 * 1000, now + 60 * 1000)[0]
    except AssertionError:
        return {}
    return {name: value for name, value in found.items() if value > 0}


def wait_for(wanted, found):
    """Waits until found() has all of the wanted names."""
    deadline = time.monotonic() + WAIT_S
    missing = set(wanted)
    while missing:
        check(time.monotonic() < deadline, "never seen: %s", sorted(missing))
        time.sleep(0.2)
        missing -= set(found())


def has_hooks():
    with open(flamegrid.binary(), "rb") as program:
        content = program.read()
    return b"__asan_init" not in content and b"__tsan_init" not in content


def caught_signals(server):
    with open("/proc/%d/status" % server.process.pid, encoding="ascii") as status:
        return next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt:"))


def timers(server):
    with open("/proc/%d/timers" % server.process.pid, encoding="ascii") as listed:
        return listed.read().count("ID:")


def label_sets(client):
    now = int(time.time() * 1000)
    return client.label_sets(['{service_name="flamegrid"}'], ["thread", "instance", "version", "__name__"], now - 3600 * 1000, now + 60 * 1000)


def processor_time_of_functions(server):
    client = flamegrid.Client(server.port)
    # The worker that decodes and the committer that writes; decode() is static, so no table for the linker has it.
    with Load(server):
        wait_for(["worker_main", "decode", "thread_main", "ing_group_commit_run"], lambda: frames(client, CPU))
        wait_for(["ing_group_commit_run"], lambda: frames(client, CPU, '{service_name="flamegrid", thread="committer"}'))
        wait_for(["front-ingest", "committer", "http"], lambda: [labels.get("thread") for labels in label_sets(client)])
    check(all(labels["instance"].endswith("_%d" % server.port) and labels["version"] for labels in label_sets(client)), "%s", label_sets(client))


def stacks_reach_their_threads(server):
    """Nearly all samples have the whole stack, also those in libraries without frame pointers."""
    client, now = flamegrid.Client(server.port), int(time.time() * 1000)
    with Load(server):
        wait_for(["worker_main"], lambda: frames(client, CPU))
    found = pprof.folded_json(client.merged_profile(CPU, '{service_name="flamegrid"}', now - 3600 * 1000, now + 60 * 1000))
    total = sum(found.values())
    whole = sum(value for stack, value in found.items() if "start_thread;" in stack or "__libc_start_main" in stack)
    check(whole >= 0.9 * total, "%d of %d", whole, total)


def heap_and_locks_by_function(server):
    client = flamegrid.Client(server.port)
    with Load(server, 16):
        # Memory that RocksDB has for its memtables, and bodies of requests.
        wait_for(["rocksdb_write"], lambda: frames(client, INUSE))
        wait_for(["fg_malloc", "fg_buf_reserve"], lambda: frames(client, ALLOC))
        wait_for(["worker_main"], lambda: frames(client, DELAY))


def metrics_say_that_it_runs(server):
    text = server.metrics()
    check("\nflamegrid_self_profiling_running 1\n" in text, "not running")
    check('\nflamegrid_self_profiling_pushes_total{result="failed"} 0\n' in text, "failed")
    check("\nflamegrid_self_profiling_dropped_samples_total 0\n" in text, "dropped")
    check(caught_signals(server) & SIGPROF_BIT and timers(server) > 3, "no timers")


def off_leaves_nothing():
    with flamegrid.Server("--self_profiling.enabled", "false") as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        with Load(server):
            time.sleep(2)
        check(caught_signals(server) & SIGPROF_BIT == 0, "SIGPROF has a handler")
        check(timers(server) == 0, "%d timers", timers(server))
        check(frames(client, CPU) == {}, "it has profiles of itself")
        check(server.terminate() == 0, "it does not end well")


def a_tenant_of_its_own():
    with flamegrid.Server(*ON, "--multitenancy_enabled", "true", "--self_profiling.tenant", "us") as server:
        server.start().wait_ready()
        ours, theirs = (flamegrid.Client(server.port, headers={"X-Scope-OrgID": tenant}) for tenant in ("us", "them"))
        with Load(server, headers={"X-Scope-OrgID": "them"}):
            wait_for(["worker_main"], lambda: frames(ours, CPU))
        check(frames(theirs, CPU) == {}, "another tenant sees them")
        check(server.terminate() == 0, "it does not end well")


def another_server_takes_them():
    with flamegrid.Server() as central, flamegrid.Server(*ON) as server:
        central.start().wait_ready()
        server.arguments += ("--self_profiling.url", "http://127.0.0.1:%d/" % central.port)
        server.start().wait_ready()
        client = flamegrid.Client(central.port)
        with Load(server):
            wait_for(["worker_main"], lambda: frames(client, CPU))
            check(frames(flamegrid.Client(server.port), CPU) == {}, "it keeps them, too")
            central.kill()
            deadline = time.monotonic() + WAIT_S
            while 'flamegrid_self_profiling_pushes_total{result="failed"} 0\n' in server.metrics():
                check(time.monotonic() < deadline, "no push failed")
        check("profile of this process not stored" in server.log(), "the log does not say so")
        check(server.terminate() == 0, "it does not end well")


def main():
    arguments = flamegrid.arguments_of(__doc__.split("\n", maxsplit=1)[0]).parse_args()
    tally = flamegrid.Tally(arguments.pattern)
    with flamegrid.Server(*ON) as server:
        server.start().wait_ready()
        tally.run("processor time of functions and threads", processor_time_of_functions, server)
        tally.run("stacks reach their threads", stacks_reach_their_threads, server)
        if has_hooks():
            tally.run("heap and locks by function", heap_and_locks_by_function, server)
        elif tally.wants("heap and locks by function"):
            tally.skip("heap and locks by function", "the sanitizers have hooks of their own")
        tally.run("metrics say that it runs", metrics_say_that_it_runs, server)
        if server.terminate() != 0:
            tally.fail("end", server.log_tail())
    tally.run("off leaves nothing", off_leaves_nothing)
    tally.run("a tenant of its own", a_tenant_of_its_own)
    tally.run("another server takes them", another_server_takes_them)
    tally.finish()


if __name__ == "__main__":
    main()
