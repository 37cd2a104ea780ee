#!/usr/bin/env python3
"""clang-tidy over our files, except those that were clean before and have not changed since.

    tidy.py CLANG_BUILD BUILD [FILE...]

CLANG_BUILD: a folder that cmake has set up for clang. BUILD: one in which ninja has built the same files: it knows which headers a file
includes. Without FILE all of ours in CLANG_BUILD's compilation database. Prints all findings and exits with 1 if there are any.

A file that is clean is remembered in ~/.cache/flamegrid/tidy by a hash of what clang-tidy sees: its own version and settings, the flags,
the file and each header. A file that was not built since it, or one of its headers, has changed is looked at in any case.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import time

OURS = re.compile(r"(common|proto|distributor|ingester|querier|compactor|deploy|tests)/")
# How far the analyzer follows one function, in states (tests/lint/run).
NODES, NODES_TESTS = 8000, 3000
# It takes as long to begin as to look at a small file.
FILES_A_PROCESS = 16
FORGET_AFTER_S = 60 * 86400
SETTINGS = ".clang-tidy"


def cache_folder():
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "flamegrid", "tidy")


def nodes_of(path):
    return int(os.environ.get("FG_TIDY_NODES") or (NODES_TESTS if path.startswith("tests/") else NODES))


class Digests:
    """Hashes of files, each read once."""

    def __init__(self):
        self.known = {}

    def of(self, path):
        if path not in self.known:
            with open(path, "rb") as file:
                self.known[path] = hashlib.sha256(file.read()).digest()
        return self.known[path]


def included(build):
    """Of each source, by its path from here: the paths of all that was read to compile it. Not of those that are out of date."""
    found = {}
    told = subprocess.run(["ninja", "-C", build, "--quiet", "-t", "deps"], stdout=subprocess.PIPE, text=True, check=False).stdout
    for block in told.split("\n\n"):
        lines = block.splitlines()
        head = re.match(r"\S+: #deps \d+, deps mtime (\d+) \(VALID\)$", lines[0]) if lines else None
        if not head:
            continue
        paths = [os.path.normpath(os.path.join(build, line.strip())) for line in lines[1:]]
        try:
            if max(os.stat(path).st_mtime_ns for path in paths) <= int(head.group(1)):
                found.setdefault(paths[0], paths)
        except FileNotFoundError:
            continue
    return found


def database_of(clang_build):
    """The folder of a database with one entry a file, and the command of each. clang-tidy looks at a file once for each of its entries, and
    a test has files of common compiled again."""
    with open(os.path.join(clang_build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {entry["file"]: entry for entry in reversed(json.load(file))}
    folder = os.path.join(clang_build, "tidy")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(list(entries.values()), file)
    return folder, {os.path.relpath(os.path.join(entry["directory"], path)): entry["command"] for path, entry in entries.items()}


def keys(commands, build, files):
    """The name under which each file is remembered, if its headers are known."""
    version = subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, check=True).stdout
    digests, headers, root = Digests(), included(build), os.getcwd()
    found = {}
    for path in files:
        if path in headers:
            key = hashlib.sha256(version)
            key.update(digests.of(SETTINGS))
            key.update(("%d %s" % (nodes_of(path), commands.get(path, "").replace(root, "."))).encode())
            for header in headers[path]:
                key.update(header.encode() + b"\0" + digests.of(header))
            found[path] = key.hexdigest()
    return found


def begins_a_va_list(path):
    with open(path, encoding="utf-8") as file:
        return re.search(r"\bva_start\b", file.read()) is not None


def batches(files):
    """A file that begins a va_list has a process of its own: the analyzer of clang 14 knows va_start only in the first file it sees, and
    then takes each va_list for one that was not begun."""
    for nodes in sorted({nodes_of(path) for path in files}, reverse=True):
        together = []
        for path in files:
            if nodes_of(path) != nodes:
                continue
            if begins_a_va_list(path):
                yield nodes, [path]
            else:
                together.append(path)
        for at in range(0, len(together), FILES_A_PROCESS):
            yield nodes, together[at:at + FILES_A_PROCESS]


def look_at(database, nodes, files):
    analyzer = ["--extra-arg=" + word for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=%d" % nodes)]
    # Counts of suppressed warnings go to stderr for every file; findings come on stdout.
    return subprocess.run(["clang-tidy", "-p", database, "--quiet", *analyzer, *files], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", check=False)


def remember(key):
    with open(os.path.join(cache_folder(), key), "w", encoding="utf-8"):
        pass


def forget_old():
    for entry in os.scandir(cache_folder()):
        try:
            if time.time() - entry.stat().st_mtime > FORGET_AFTER_S:
                os.remove(entry.path)
        except FileNotFoundError:  # by another run
            pass


def main():
    clang_build, build, *files = sys.argv[1:]
    database, commands = database_of(clang_build)
    files = sorted(files or [path for path in commands if OURS.match(path)])
    if not files:
        print("nothing to look at")
        return 1
    os.makedirs(cache_folder(), exist_ok=True)
    named = keys(commands, build, files)
    clean = {path for path, key in named.items() if os.path.exists(os.path.join(cache_folder(), key))}
    for path in clean:
        remember(named[path])  # the time of its last use
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = {pool.submit(look_at, database, nodes, some): some
                 for nodes, some in batches([path for path in files if path not in clean])}
        for look in concurrent.futures.as_completed(looks):
            ended = look.result()
            if ended.returncode != 0:
                failed = True
                print(ended.stdout)
                print("\n".join(line for line in ended.stderr.splitlines() if "rror" in line))
                continue
            for path in looks[look]:
                if path in named:
                    remember(named[path])
    forget_old()
    print("%d files, of which %d were clean before and have not changed" % (len(files), len(clean)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
