"""Faults of the disk of a server under test: tests/lib/faulty_disk.c, preloaded, and its rules."""

import glob
import os
import re

import flamegrid

# A full disk, as far as a program sees it: it may delete, rename and overwrite, and is told that nothing is free.
FULL = ["write,create,mkdir,truncate,space ENOSPC"]
# One that another program fills between two looks.
FULL_UNSAID = ["write,create,mkdir,truncate ENOSPC"]


def cut_manifest(folder, n_bytes):
    """Of the RocksDB in a folder, as a file system may that was repaired."""
    manifest = max(glob.glob(os.path.join(folder, "MANIFEST-*")))
    os.truncate(manifest, os.path.getsize(manifest) - n_bytes)


def number_of_damage(log):
    """What a start that refused a damaged head asks to be told; it says so once at each start."""
    flamegrid.check("could not start" in log, "no start was refused:\n%s", log[-3000:])
    return re.findall(r"set ingester\.accept_loss to ([0-9a-f]{8})", log)[-1]


class FaultyDisk:
    """The data folder of a server, or of a member of a cluster, that has not started yet."""

    def __init__(self, server):
        self.control = server.data + ".faults"
        server.environment.update({
            **flamegrid.preload("faulty_disk"), "FAULTY_DISK_PATH": server.data, "FAULTY_DISK_CONTROL": self.control})

    def fail(self, *rules):
        """From now on, in place of the rules of before; none: nothing fails."""
        with open(self.control + ".new", "w", encoding="ascii") as control:
            control.write("".join(rule + "\n" for rule in rules))
        os.rename(self.control + ".new", self.control)

    def hits(self):
        """Lines of calls that failed or waited so far."""
        try:
            with open(self.control + ".hits", encoding="utf-8") as hits:
                return hits.read().splitlines()
        except FileNotFoundError:
            return []
