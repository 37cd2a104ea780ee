#!/usr/bin/env python3
"""Checks on our C sources that no compiler makes. Reads file names from standard input.

    sources.py arrows    includes point only the way the architecture allows
    sources.py banned    no function that loses track of lengths or shares state between threads, and no constant that is misread
    sources.py tags      no two structs have one tag, outside of tests

Prints one line per finding and exits with 1 if there are any, with 2 if it was given no file.
"""

import re
import sys

# Inside common each folder uses itself and those before it.
COMMON = ["base", "runtime", "net", "net/rpc", "self_profile", "model", "storage/seal", "storage/store", "storage/bucket", "storage/cache",
          "storage/block",
          "storage/rollup", "cluster/membership", "cluster/ring", "cluster/manifest", "cluster/usage", "cluster/shares", "access/jwt", "access/registry", "access/keys", "access/guard",
          "access/audit", "access/issuer", "access/people", "access", "access/admin", "program"]
SERVICES = ["distributor", "ingester", "querier", "compactor"]
FOLDERS = ["common", "proto", *SERVICES, "deploy", "tests"]

# common/base/banned.h makes these compile errors where it is included; here they are found
# everywhere. Both lists are to be kept alike, this one may be longer.
BANNED = """strcpy strcat strncpy strncat stpcpy sprintf vsprintf strtok atoi atol atoll atof gets
            gmtime localtime ctime asctime alloca strdupa tmpnam mktemp""".split()
BANNED_CALL = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED))
BANNED_LIST = "common/base/banned.h"

# There is one kind of read-write lock, since those of libraries let readers starve writers.
RWLOCK = "common/runtime/rwlock.c"
RWLOCK_CALL = re.compile(r"(?<![\w.>])((?:pthread|uv)_rwlock_init)\s*\(")

# As clang-tidy's cert-dcl16-c, which took 7 % of its time.
LONG_CONSTANT = re.compile(r"\b\d[\da-fA-FxX.]*ll?[uU]?\b")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')

# Comments and literals, so that prose may name what code may not call. Newlines stay, for numbering.
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def without_comments_and_literals(text):
    return NOT_CODE.sub(lambda match: "\n" * match.group().count("\n") or " ", text)


def place_of(path):
    """The folder of common that the file belongs to: the longest that is in the order, or None."""
    folder = path.partition("/")[2]
    while folder and folder not in COMMON:
        folder = folder.rpartition("/")[0]
    return folder or None


def arrow_fault(path, include):
    """Why `path` must not include `include`, or None."""
    here, there = path.split("/"), include.split("/")
    if there[0] not in FOLDERS or len(there) < 2:
        return "not written from the root"
    if here[0] == "tests" or here[0] == "deploy":
        return None
    if there[0] in ("tests", "deploy"):
        return "only tests and deploy may"
    if here[0] == "common":
        if there[0] != "common":
            return "common knows nothing of %s" % there[0]
        place, used = place_of(path), place_of(include)
        if place is None or used is None:
            return "common/%s has no place in the order (tests/lint/sources.py)" % (here if place is None else there)[1]
        if COMMON.index(used) > COMMON.index(place):
            return "common/%s comes before common/%s" % (place, used)
    elif here[0] == "proto":
        if there[0] not in ("common", "proto"):
            return "proto uses common only"
    elif there[0] in SERVICES and there[0] != here[0]:
        return "services never include each other, they talk"
    return None


def arrows(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        fault = match and arrow_fault(path, match.group(1))
        if fault:
            yield '%s:%d: includes "%s": %s' % (path, number, match.group(1), fault)


def banned(path, text):
    if path == BANNED_LIST:
        return
    for number, line in enumerate(without_comments_and_literals(text).splitlines(), 1):
        for match in BANNED_CALL.finditer(line):
            yield "%s:%d: calls %s" % (path, number, match.group(1))
        for match in RWLOCK_CALL.finditer(line) if path != RWLOCK else ():
            yield "%s:%d: calls %s, use common/runtime/rwlock.h" % (path, number, match.group(1))
        for match in LONG_CONSTANT.finditer(line):
            yield "%s:%d: %s: l looks like 1, write L" % (path, number, match.group())


TAG = re.compile(r"\b(?:struct|union)\s+(\w+)\s*\{")
tags = {}  # where each was defined first


def unique_tags(path, text):
    if path.startswith("tests/"):
        return
    code = without_comments_and_literals(text)
    for match in TAG.finditer(code):
        here = "%s:%d" % (path, code.count("\n", 0, match.start()) + 1)
        there = tags.setdefault(match.group(1), here)
        if there != here:
            yield "%s: struct %s is in %s too" % (here, match.group(1), there)


def main():
    check = {"arrows": arrows, "banned": banned, "tags": unique_tags}[sys.argv[1]]
    paths = sys.stdin.read().split()
    if not paths:
        print("no file to look at")
        return 2
    findings = []
    for path in paths:
        with open(path, encoding="utf-8") as source:
            findings += check(path, source.read())
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
