#!/usr/bin/env python3
"""How long a thread that is woken waits for a processor while others are idle: whether a machine can show what a push waits for.

    bench_wakes.py [--count N] [--work-ms N]

A process wakes another one and goes on working for --work-ms; nothing else is to run meanwhile. Where Linux puts the second one on an
idle processor, it works at once. Prints how often both had the same processor, and how long the second one waited, with the places that
Linux chooses and with a processor for each. Needs two processors.
"""

import argparse
import mmap
import os
import struct
import time

PAUSE_S = 0.005  # between two wakes
WOKEN_WORK_S = 0.0003
TIME = struct.Struct("d")


def processor():
    """Returns the number of the processor that the process has."""
    with open("/proc/self/stat", "rb") as stat:
        return int(stat.read().rsplit(b")", 1)[1].split()[36])  # field 39, proc(5)


def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def be_woken(wakes, results, shared, count):
    for _ in range(count):
        os.eventfd_read(wakes)
        waited = time.monotonic() - TIME.unpack_from(shared)[0]
        os.write(results, TIME.pack(waited) + bytes([processor()]))
        work(WOKEN_WORK_S)


def measure(count, work_s, processors):
    """Returns how often both had one processor, and the sorted waits. processors: of the two, or None."""
    wakes, shared = os.eventfd(0), mmap.mmap(-1, TIME.size)
    answers, results = os.pipe()
    child = os.fork()
    if processors is not None:
        os.sched_setaffinity(0, {processors[0 if child else 1]})
    if child == 0:
        be_woken(wakes, results, shared, count)
        os._exit(0)
    same, waits = 0, []
    for _ in range(count):
        time.sleep(PAUSE_S)
        here = processor()
        TIME.pack_into(shared, 0, time.monotonic())
        os.eventfd_write(wakes, 1)
        work(work_s)
        answer = os.read(answers, TIME.size + 1)
        waits.append(TIME.unpack_from(answer)[0])
        same += answer[TIME.size] == here
    os.waitpid(child, 0)
    return same, sorted(waits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--work-ms", type=float, default=1)
    arguments = parser.parse_args()
    every = sorted(os.sched_getaffinity(0))
    print("| places | the same processor | waits p50 / p90 / p99 / longest us |\n|---|---|---|")
    for name, processors in (("of Linux", None), ("a processor for each", every[:2])):
        same, waits = measure(arguments.count, arguments.work_ms / 1000, processors)
        os.sched_setaffinity(0, every)
        at = [waits[len(waits) * percent // 100] for percent in (50, 90, 99)] + [waits[-1]]
        print("| %s | %.0f %% | %s |" % (name, 100 * same / arguments.count, " / ".join("%.0f" % (wait * 1e6) for wait in at)), flush=True)


if __name__ == "__main__":
    main()
