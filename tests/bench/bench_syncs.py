#!/usr/bin/env python3
"""What a large file next to it costs the syncs of a log, if the disk is told of the file at the end, or with each MiB.

    bench_syncs.py [--rounds N] [--mib N] [--folder FOLDER]

One thread appends to a log and syncs it, as the committer does; the other one writes a file and syncs it at the end, as an upload to a
directory bucket does, in turns without and with sync_file_range(2) after each piece. Prints the median and the longest sync meanwhile.
"""

import argparse
import ctypes
import os
import tempfile
import threading
import time

MIB = 1 << 20
RECORD = b"x" * 3000
PAUSE_S = 0.003  # between two commits
SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h
libc = ctypes.CDLL(None, use_errno=True)


class Log:
    """Appends and syncs until it is left. `took_ms` has how long each sync took."""

    def __init__(self, folder):
        self.fd = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.took_ms, self.stop = [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.wait(PAUSE_S):
            os.write(self.fd, RECORD)
            began = time.monotonic()
            os.fdatasync(self.fd)
            self.took_ms.append((time.monotonic() - began) * 1000)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.stop.set()
        self.thread.join()
        os.close(self.fd)


def write_file(folder, mib, tell):
    piece = os.urandom(MIB)
    fd = os.open(os.path.join(folder, "file"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for _ in range(mib):
        os.write(fd, piece)
        if tell and libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE) != 0:
            raise OSError(ctypes.get_errno(), "sync_file_range")
        time.sleep(PAUSE_S)  # somebody makes the next piece
    os.fsync(fd)
    os.close(fd)


def measure(folder, mib, tell):
    with Log(folder) as log:
        time.sleep(0.2)
        before = len(log.took_ms)
        write_file(folder, mib, tell)
    took = sorted(log.took_ms[before:])
    return took[len(took) // 2], took[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--folder", help="on the disk to measure; default: a temporary one")
    arguments = parser.parse_args()
    print("| round | at the end: median / longest ms | by the MiB: median / longest ms |\n|---|---|---|")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for number in range(arguments.rounds):
            cells = ["%.1f / %.1f" % measure(folder, arguments.mib, tell) for tell in (False, True)]
            print("| %d | %s |" % (number, " | ".join(cells)), flush=True)


if __name__ == "__main__":
    main()
