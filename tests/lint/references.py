#!/usr/bin/env python3
"""Checks that what our files say about other files is true. Reads file names from standard input: all that git knows.

Prints one line for each link of a Markdown file that leads nowhere, for each path of ours in prose or comments that does
not exist, for each heading that such a path names (distributor/API.md#times) and its page does not have, for each
document that is not in the repository, for each function that a Markdown file names, `fg_fail()`, and no source has, for
each module that the table of files of its folder's README.md lacks, and for each step core whose shell is not to be found.
Exits with 1 if there are any, with 2 if it was given no file.
"""

import fnmatch
import os
import re
import sys

FOLDERS = "common|proto|distributor|ingester|querier|compactor|deploy|tests"
PROSE = (".md", ".c", ".h", ".cc", ".py", ".cmake", ".txt", ".proto", ".js", ".yaml", ".yml", "")

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.S | re.M)
# A path from the root; braces stand for several: common/base/{buf,str}.h. A heading of a page may follow.
PATH = re.compile(r"(?<![\w./{}$:@-])((?:%s)/[\w./{},-]*[\w}])(?![\w*<$])(?:#([\w-]+))?" % FOLDERS)
# tests/NAME/run stands for many.
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]{2,}(?:/|$)")
DOCUMENT = re.compile(r"(?<![\w./-])([A-Za-z][\w-]*\.md)\b")
FUNCTION = re.compile(r"`([a-z]\w*)\([^`\n]*\)`")
CALLED = re.compile(r"\b([a-z]\w*)\(")
FILE_TABLE = re.compile(r"^\| file \| what it (?:does|is) \|$", re.M)
CODE = re.compile(r"`([^`\n]+)`")
# Files that a table need not name: parts of a module that it names, and files that explain themselves.
INSIDE = re.compile(r"(?:^|_)(?:impl|internal)$|^main$")
HEADING = re.compile(r"^#+ +(.*)$", re.M)


def expanded(path):
    """The paths that one with braces stands for."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [way for word in match.group(1).split(",")
            for way in expanded(path[:match.start()] + word + path[match.end():])]


def anchors(text):
    """The names that headings of a page have on the web."""
    found = set()
    for heading in HEADING.findall(CODE_BLOCK.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


class Tree:
    def __init__(self, paths):
        self.files = set(paths)
        self.folders = {os.path.dirname(path) for path in paths}
        for folder in list(self.folders):
            while folder:
                folder = os.path.dirname(folder)
                self.folders.add(folder)
        self.names = {os.path.basename(path) for path in paths}
        self.anchors = {}
        self.functions = set()
        for path in paths:
            if path.endswith((".c", ".h", ".cc", ".py", ".cmake", "CMakeLists.txt")):
                with open(path, encoding="utf-8") as source:
                    self.functions.update(CALLED.findall(source.read()))

    def has(self, path):
        path = os.path.normpath(path)
        return path in self.files or path in self.folders or path == "."

    def has_module(self, path):
        """As has(), or without the suffix that a file and its header have in common."""
        return self.has(path) or any(path + "." + suffix in self.files for suffix in ("c", "h", "cc", "py"))

    def has_anchor(self, path, anchor):
        if path not in self.anchors:
            with open(path, encoding="utf-8") as page:
                self.anchors[path] = anchors(page.read())
        return anchor in self.anchors[path]


def blank(match):
    """As many lines of nothing: what is found behind it keeps its number."""
    return "\n" * match.group().count("\n")


def links(tree, path, text):
    text = CODE_BLOCK.sub(blank, text)
    for match in LINK.finditer(text):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not tree.has(there):
            yield match.start(), "links to %s, which is not there" % target
        elif anchor and there.endswith(".md") and not tree.has_anchor(there, anchor):
            yield match.start(), "links to #%s, which is no heading of %s" % (anchor, there)


def mentions(tree, path, text):
    if path.endswith(".md"):
        text = LINK.sub(blank, text)  # links() looks at these
    for match in PATH.finditer(text):
        said, anchor = match.group(1).rstrip(".,"), match.group(2)
        if "build/" in said or said.endswith(".pb-c.h"):  # made by the build
            continue
        if PLACEHOLDER.search(said):
            continue
        for way in expanded(said):
            if not tree.has_module(way):
                yield match.start(), "%s is not there" % way
            elif anchor and way.endswith(".md") and not tree.has_anchor(way, anchor):
                yield match.start(), "#%s is no heading of %s" % (anchor, way)
    for match in FUNCTION.finditer(text) if path.endswith(".md") else ():
        if match.group(1) not in tree.functions:
            yield match.start(), "there is no function %s" % match.group(1)
    for match in DOCUMENT.finditer(text):
        if match.group(1) not in tree.names:
            yield match.start(), "there is no document %s" % match.group(1)


def unnamed(tree, path, text):
    """Modules of a folder that its table of files lacks. `query_*` stands for all that begin so."""
    table = FILE_TABLE.search(text)
    if os.path.basename(path) != "README.md" or not table:
        return
    words = [word for code in CODE.findall(text) for word in re.split(r"[\s,;/()]+", code)]
    stems = {re.sub(r"\.(?:c|h|cc|py|proto)$", "", word) for word in words}
    for file in sorted(tree.files):
        stem, suffix = os.path.splitext(os.path.basename(file))
        if os.path.dirname(file) != os.path.dirname(path) or suffix not in (".c", ".h", ".cc", ".py", ".proto"):
            continue
        if not INSIDE.search(stem) and not any(fnmatch.fnmatchcase(stem, word) for word in stems):
            yield table.start(), "the table of files lacks %s" % os.path.basename(file)


def lost_core(tree, path, text):
    """A step core whose shell nobody finds: neither next to it under its name, nor named by its header."""
    stem = path[:-len("_core.h")]
    if path.endswith("_core.h") and not tree.has_module(stem) and not re.search(r"\bShell:\s+(?:\* )?[\w/]+\.h", text):
        yield 0, "a step core without a shell of its name has to say \"Shell: path\""


def findings(tree, path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for check in (links, mentions, unnamed) if path.endswith(".md") else (mentions, lost_core):
        for at, fault in check(tree, path, text):
            yield "%s:%d: %s" % (path, text.count("\n", 0, at) + 1, fault)


def main():
    paths = [path for path in sys.stdin.read().split() if os.path.exists(path)]
    tree = Tree(paths)
    found = []
    looked = 0
    for path in paths:
        data = path.startswith(("tests/golden/", "tests/corpus/", "tests/data/", "tests/fuzz/corpus/"))
        if data or os.path.splitext(path)[1] not in PROSE or path == "tests/lint/references.py":
            continue
        looked += 1
        found += findings(tree, path)
    if looked == 0:
        print("no file to look at")
        return 2
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
