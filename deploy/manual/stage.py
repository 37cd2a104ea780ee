#!/usr/bin/env python3
"""Collects the pages of the manual: stage.py FOLDER

All pages of the repository are in it, at their own paths, so that their links to each other hold. A link to a folder becomes one to its
README, and a link to a file that is no page becomes the text alone with the path behind it.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OWN = "deploy/manual/pages"  # pages that are only here; in the manual they are below manual/
KEPT = (".md", ".png", ".svg", ".js", ".css")
LINK = re.compile(r"(!?)\[((?:\[[^\]]*\]\([^)]*\)|[^\[\]])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.M | re.S)


def tracked():
    """The files of the repository, also new ones, by path."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return {name for name in names if os.path.exists(os.path.join(ROOT, name))}


def place_of(name):
    """Where a file of the repository is in the manual."""
    return posixpath.join("manual", posixpath.relpath(name, OWN)) if name.startswith(OWN + "/") else name


def resolve(target, page, files):
    """Returns the file of the repository that a link of a page leads to; None: to none."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    for name in (path, posixpath.join(path, "README.md")):
        if name in files:
            return name
    return None


def rewrite(text, page, files, staged):
    """The text of a page with links that hold in the manual."""
    def link(found):
        image, label, address = found.groups()
        label = LINK.sub(link, label)
        target, mark, anchor = address.partition("#")
        if not target or re.match(r"[a-z]+:", address):
            return "%s[%s](%s)" % (image, label, address)
        name = resolve(target, page, files)
        if name not in staged:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            return label if path in label else "%s (`%s`)" % (label, path)
        new = posixpath.relpath(place_of(name), posixpath.dirname(place_of(page)) or ".")
        return "%s[%s](%s%s%s)" % (image, label, new, mark, anchor)

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def main():
    folder, files = sys.argv[1], tracked()
    staged = {name for name in files if name.endswith(KEPT) and
              (name.endswith(".md") or name.startswith((OWN, "querier/ui/pictures/")))}
    shutil.rmtree(folder, ignore_errors=True)
    for name in sorted(staged):
        path = os.path.join(folder, place_of(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if name.endswith(".md"):
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                text = rewrite(file.read(), name, files, staged)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            shutil.copyfile(os.path.join(ROOT, name), path)
    print("%d pages and pictures" % len(staged))


if __name__ == "__main__":
    main()
