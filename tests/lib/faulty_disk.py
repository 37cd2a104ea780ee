"""Faults of the disk of a server under test: tests/lib/faulty_disk.c, preloaded, and its rules."""

import glob
import os
import re

import flamegrid

# A full disk as programs see it: they can delete, rename and overwrite, and the free space is 0.
FULL = ["write,create,mkdir,truncate,space ENOSPC"]
# A disk that another program fills between two checks of the free space.
FULL_UNSAID = ["write,create,mkdir,truncate ENOSPC"]


def cut_manifest(folder, n_bytes):
    """Truncates the MANIFEST of the RocksDB in a folder, as the repair of a file system may."""
    manifest = max(glob.glob(os.path.join(folder, "MANIFEST-*")))
    os.truncate(manifest, os.path.getsize(manifest) - n_bytes)


def table_of(folder, family):
    """Returns the name of a table of a family of the RocksDB in a folder. Its properties name the family: the key ends in
    "name", and the value follows."""
    for table in sorted(glob.glob(os.path.join(folder, "*.sst"))):
        with open(table, "rb") as file:
            if b"name" + family.encode() in file.read():
                return os.path.basename(table)
    raise AssertionError("no table of %s in %s" % (family, os.listdir(folder)))


def number_of_damage(log):
    """Returns the argument that a start with a damaged head asks for; each refused start names it once."""
    flamegrid.check("could not start" in log, "no start was refused:\n%s", log[-3000:])
    return re.findall(r"set ingester\.accept_loss to ([0-9a-f]{8})", log)[-1]


class FaultyDisk:
    """Faults in the data folder of a server or member of a cluster that has not started yet."""

    def __init__(self, server):
        self.control = server.data + ".faults"
        server.environment.update({
            **flamegrid.preload("faulty_disk"), "FAULTY_DISK_PATH": server.data, "FAULTY_DISK_CONTROL": self.control})

    def fail(self, *rules):
        """Replaces the rules from now on; without rules nothing fails."""
        with open(self.control + ".new", "w", encoding="ascii") as control:
            control.write("".join(rule + "\n" for rule in rules))
        os.rename(self.control + ".new", self.control)

    def hits(self):
        """Returns the lines of all calls that failed or waited so far."""
        try:
            with open(self.control + ".hits", encoding="utf-8") as hits:
                return hits.read().splitlines()
        except FileNotFoundError:
            return []
