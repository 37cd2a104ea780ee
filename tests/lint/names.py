#!/usr/bin/env python3
"""Checks that what an object file exports begins with the prefix of its folder.

    names.py BUILD    a build folder with compile_commands.json

Prints one line per finding and exits with 1 if there are any, with 2 if there was nothing to look at.
"""

import json
import os
import re
import subprocess
import sys

PREFIXES = {"common": "fg", "proto": "fg", "distributor": "dist", "ingester": "ing", "querier": "qry", "compactor": "cmp",
            "deploy/cli": "cli", "deploy/canary": "canary", "deploy/single": "single"}
# It stands in for functions of the C library, so its names are those.
STANDS_IN = "common/self_profile/hooks.c"
OUTPUT = re.compile(r" -o (\S+)")
# main; what sanitizers and C++ add.
OTHERS = re.compile(r"main$|_Z|__|DW\.ref")


def objects(build):
    """Each of our objects with the prefix of its names."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
            for folder, prefix in PREFIXES.items():
                if path.startswith(folder + "/") and path != STANDS_IN:
                    yield path, os.path.join(entry["directory"], OUTPUT.search(entry["command"]).group(1)), prefix


def main():
    found = []
    looked = {obj: (path, prefix) for path, obj, prefix in objects(sys.argv[1]) if os.path.exists(obj)}
    if not looked:
        print("no object to look at: build first")
        return 2
    # One process for all: to start one for each takes ten times as long as what it does. A line is "object: name kind ...".
    symbols = subprocess.run(["nm", "--defined-only", "-A", "-P", *looked], capture_output=True, text=True, check=True).stdout
    for obj, name, kind, *_ in map(str.split, symbols.splitlines()):
        path, prefix = looked[obj.rstrip(":")]
        if kind in "TDBR" and not name.startswith(prefix + "_") and not OTHERS.match(name):
            found.append("%s exports %s, which does not begin with %s_" % (path, name, prefix))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
