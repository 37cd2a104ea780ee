#!/usr/bin/env python3
"""The manual (deploy/manual): links and anchors hold, the search finds the pages, its numbers are those of its formulas, its
commands work, and every command on any page exists with its options.

    tests/manual/run [-k REGEX]
"""

import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir, folder) for folder in ("lib", "operations", "cli")]
import blocks  # noqa: E402
import flamegrid  # noqa: E402
import pages  # noqa: E402
from flamegrid import check  # noqa: E402

MANUAL = os.path.join(flamegrid.ROOT, "deploy", "manual")
SITE = os.path.join(flamegrid.ROOT, "build", "manual", "site")
BUILD_TIMEOUT_S = 600
# What newcomers type, and a page that has all of the words.
SEARCHES = {"nodes for 2,000 pods": "manual/questions.md", "retention rollups": "deploy/settings.md",
            "moving from Pyroscope": "deploy/operations/pyroscope.md", "prepare-shutdown": "deploy/operations/cluster.md",
            "FlamegridCanaryMismatch": "deploy/operations/runbooks/FlamegridCanaryMismatch.md", "opentelemetry collector": "README.md",
            "when_full refuse": "deploy/operations/forwarding.md"}

GENERAL = {"--help", "--docs", "--metrics-docs"}  # each program has them


def build():
    done = subprocess.run([os.path.join(MANUAL, "run")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=BUILD_TIMEOUT_S)
    check(done.returncode == 0, "deploy/manual/run ended with %d:\n%s", done.returncode, done.stdout[-3000:])


def works_from_a_folder():
    """No page loads anything from elsewhere."""
    for folder, _, names in os.walk(SITE):
        for name in names:
            if not name.endswith((".html", ".css")):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            outside = re.findall(r"""<(?:script|img|iframe)[^>]* src=["']?(https?://[^"' >]+)|<link[^>]* rel=["']?stylesheet["']?[^>]* href=["']?"""
                                 r"""(https?://[^"' >]+)|url\(["']?(https?://[^"')]+)""", text)
            check(not outside, "%s loads %s", name, outside)


def searches():
    with open(os.path.join(SITE, "search", "search_index.json"), encoding="utf-8") as file:
        found = json.load(file)["docs"]
    for words, page in SEARCHES.items():
        hits = {entry["location"].split("#")[0] for entry in found
                if all(word.lower() in (entry["title"] + " " + entry["text"]).lower() for word in words.split())}
        # The first page is the README of the repository.
        check({"README.md": "index.html"}.get(page, page.replace(".md", ".html")) in hits, "%r finds %s", words, sorted(hits))


def sizing():
    """The rows of the page are what the calculator says."""
    with open(os.path.join(MANUAL, "pages", "sizing.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| ([\d,]+) pods, (one server|a cluster) \| ([\d,]+) \| (.*?) \| (\d[\d.]* \w?B) \| (\d[\d.]* \w?B) \|$", file.read(), re.M)
    check(len(rows) == 4, "%s", rows)
    for pods, shape, rate, machines, head, bucket in rows:
        load = {"instances": int(pods.replace(",", "")), "types": 5, "intervalSeconds": 10, "retentionDays": 365, "outageHours": 12, "tenants": 1,
                "storageUsd": 0.023, "writeUsd": 0.005, "single": shape == "one server"}
        script = "const s = require(%s); const l = %s; console.log(JSON.stringify([s.sizeLoad(l), s.answerRows(l)]))" % (
            json.dumps(os.path.join(MANUAL, "pages", "sizing.js")), json.dumps(load))
        done = subprocess.run(["node", "-e", script], capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, "%s", done.stderr)
        sizes, answers = json.loads(done.stdout)
        check(sizes["rate"] == int(rate.replace(",", "")), "%s: %s", pods, sizes)
        check(machines.startswith("%d %s of size %s" % (sizes["ingesters"], "ingesters", sizes["size"])) or
              machines == "1 of size %s" % sizes["size"], "%s: %s, %s", pods, machines, sizes)
        for shown, key in ((head, "headBytes"), (bucket, "bucketBytes")):
            number, unit = shown.split()
            value = float(number) * 1000 ** ["B", "kB", "MB", "GB", "TB"].index(unit)
            check(abs(sizes[key] / value - 1) < 0.03, "%s: %s is %s", pods, key, sizes[key])
        check(["Profiles a second", str(int(sizes["rate"]))] in answers, "%s", answers)


def too_much_for_one_server():
    script = "console.log(require(%s).sizeLoad({instances: 1e6, types: 5, intervalSeconds: 10, retentionDays: 1, outageHours: 1, tenants: 1, " \
             "single: true, storageUsd: 0, writeUsd: 0}).size)" % json.dumps(os.path.join(MANUAL, "pages", "sizing.js"))
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, timeout=60)
    check(done.stdout == "null\n", "%s%s", done.stdout, done.stderr)


def all_pages():
    names = subprocess.run(["git", "-C", flamegrid.ROOT, "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        if name.startswith("tests/"):
            continue  # they show development tools
        with open(os.path.join(flamegrid.ROOT, name), encoding="utf-8") as file:
            yield name, file.read()


class Words:
    """What may follow the words of a command, as shells complete them."""

    def __init__(self):
        self.after, self.on_bucket = {}, {}

    def follow(self, *words):
        if words not in self.after:
            done = subprocess.run([flamegrid.binary(), "completion", "words", *words], capture_output=True, text=True, timeout=60)
            self.after[words] = set(done.stdout.split())
        return self.after[words]

    def options(self, command, verb):
        """A command that works on the bucket of a server takes that server's settings."""
        if command not in self.on_bucket:
            done = subprocess.run([flamegrid.binary(), command, "--help"], capture_output=True, text=True, timeout=60)
            self.on_bucket[command] = re.search(r"\[settings\]|same settings", done.stdout)
        known = self.follow(command) | self.follow(command, verb) | GENERAL
        return known | self.follow("server") if self.on_bucket[command] else known

    def fault(self, line):
        """What there is not, of a command as a page shows it; None: nothing."""
        words = re.split(r"\s+", re.split(r"\s[|>#&;<]|\s?2>|[|;)]", line)[0].strip())[1:]
        command, verb = words[0], words[1] if len(words) > 1 else ""
        if command not in self.follow():
            return "there is no command %s" % command
        verbs = {word for word in self.follow(command) if not word.startswith("--")}
        if verbs and re.fullmatch(r"[a-z][a-z-]*", verb) and verb not in verbs:
            return "%s has no verb %s" % (command, verb)
        known = self.options(command, verb)
        for word in words[1:]:
            option = re.match(r"--[\w.-]+", word)
            if option and option.group(0) not in known:
                return "%s has no option %s" % (command, option.group(0))
        return None


def commands():
    """Blocks that are no program of another language, and code in sentences."""
    words, faults, n = Words(), [], 0
    for name, text in all_pages():
        lines = [line for language, block in pages.FENCE.findall(text) if language in blocks.SHELLS for line in
                 re.sub(r"\\\n\s*", "", block).splitlines()]
        spans = [span for span in pages.INLINE.findall(pages.FENCE.sub("", text)) if span.startswith("flamegrid ")]
        for line in lines + spans:
            call = re.match(r"^(?:\S+=\S+ |\S*/)*(flamegrid [a-z-]+(?: .*)?)$", line.strip().removeprefix("$ "))
            fault = call and words.fault(call.group(1))
            n += bool(call)
            if fault:
                faults.append("%s: %s: %s" % (name, fault, line.strip()))
    check(n > 100, "only %d commands were found", n)
    check(not faults, "%s", "\n".join(faults))


def commands_work():
    faults, n, suites = blocks.run(list(all_pages()))
    check(not faults, "%s", "\n".join(faults))
    check(n > 100, "only %d commands ran", n)
    listed = {suite for suite, _ in blocks.ELSEWHERE}
    check(suites == listed, "no command is of %s", listed - suites)
    run = os.path.join(flamegrid.ROOT, "tests", "run")
    with open(run, encoding="utf-8") as file:
        known = set(re.search(r"    (unit \| .*?)\) ;;", file.read()).group(1).split(" | "))
    check(listed | set(blocks.PAGES_ELSEWHERE.values()) <= known | {"all", "none"}, "%s", listed - known)


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__.splitlines()[0]).parse_args().pattern)
    tally.run("every command on any page exists", commands)
    tally.run("the commands of the pages work as they are written", commands_work)
    if shutil.which("node"):
        tally.run("the rows of sizes are those of the calculator", sizing)
        tally.run("a load that is too large for one server", too_much_for_one_server)
    else:
        tally.skip("the calculator", "there is no Node.js")
    tally.run("the manual builds without a dead link", build)
    if os.path.isdir(SITE):
        tally.run("the manual works without the internet", works_from_a_folder)
        tally.run("the search finds the pages", searches)
    tally.finish()


if __name__ == "__main__":
    main()
