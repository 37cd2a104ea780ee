#!/usr/bin/env python3
"""Checks that the include graph of modules has no circle. Reads file names from standard input.

A module is a path without its extension: common/base/buf.c and common/base/buf.h are one module. Tests are ignored.

- x_impl.h and x_internal.h belong to the module x of their folder: they share the insides of x with its other files.
- impl.h belongs to every .c file of its folder. It may include any header. The graph ignores its includes and the
  includes of it. In exchange it stays private: a header that includes a private header (impl.h, x_impl.h, x_internal.h)
  is private too, and no header of another folder may include a private header.

Prints the shortest circle through each module, with the line of each include. Two circles that share a module are
printed one at a time: the second one shows when the first one is cut. Exits with 1 if there are any findings, with 2 if
it was given no file.
"""

import os
import re
import sys

FOLDERS = ("common/", "proto/", "distributor/", "ingester/", "querier/", "compactor/", "deploy/")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
PRIVATE = re.compile(r"(?:^|/|_)(?:impl|internal)\.h$")


def module(path):
    """The module that a file is part of, None for an impl.h: it is part of several."""
    if os.path.basename(path) in ("impl.h", "internal.h"):
        return None
    return re.sub(r"_(?:impl|internal)$", "", os.path.splitext(path)[0])


def includes(path):
    """Each header of ours that the file includes, with the number of the line."""
    with open(path, encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            match = INCLUDE.match(line)
            if match:
                yield match.group(1), number


class Graph:
    def __init__(self, paths):
        self.edges = {}  # of a module: those it uses, and the place of an include that says so
        self.headers = {}  # of a header: those it includes, and the line
        for path in paths:
            user = module(path)
            for used, line in includes(path):
                if path.endswith(".h"):
                    self.headers.setdefault(path, []).append((used, line))
                if user is not None and module(used) not in (None, user):
                    self.edges.setdefault(user, {}).setdefault(module(used), "%s:%d" % (path, line))

    def way_back(self, start):
        """The shortest way from a module to itself, as a list of modules that ends with it. None: there is none."""
        came_from = {start: None}
        queue = [start]
        for here in queue:
            for there in sorted(self.edges.get(here, ())):
                if there == start:
                    way = [start]
                    while here is not None:
                        way.append(here)
                        here = came_from[here]
                    return way[::-1]
                if there not in came_from:
                    came_from[there] = here
                    queue.append(there)
        return None

    def circles(self):
        """The shortest circles, none of which share a module."""
        seen = set()
        ways = [way for way in map(self.way_back, sorted(self.edges)) if way is not None]
        for way in sorted(ways, key=len):
            if seen.isdisjoint(way):
                seen.update(way)
                yield way

    def leaks(self):
        """Each include of a private header by a header of another folder."""
        private = {path for path in self.headers if PRIVATE.search(path)}
        private |= {used for path in self.headers for used, _ in self.headers[path] if PRIVATE.search(used)}
        grown = True
        while grown:
            more = {path for path in self.headers if path not in private
                    and any(used in private and os.path.dirname(used) == os.path.dirname(path)
                            for used, _ in self.headers[path])}
            grown = bool(more)
            private |= more
        for path in sorted(self.headers):
            for used, line in self.headers[path]:
                if used in private and os.path.dirname(used) != os.path.dirname(path):
                    yield "%s:%d" % (path, line), used


def main():
    paths = [path for path in sys.stdin.read().split() if path.startswith(FOLDERS)]
    if not paths:
        print("no file to look at")
        return 2
    graph = Graph(paths)
    found = 0
    for way in graph.circles():
        found += 1
        print("circle: %s" % " -> ".join(way))
        for user, used in zip(way, way[1:]):
            print("    %s includes %s" % (graph.edges[user][used], used))
    for place, used in graph.leaks():
        found += 1
        print("%s: includes %s, which is for the files of its own folder" % (place, used))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
