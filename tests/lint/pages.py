#!/usr/bin/env python3
"""Compares deploy/settings.md and deploy/operations/metrics.md with what the programs print about themselves.

tests/lint/pages.py BUILD [--write]

BUILD is the folder of the programs. Headings and the text under them are ours; each table that a program prints is the
program's; names that rules for Prometheus use are bold. --write brings the tables up to date, and adds sections of metrics that the page lacks. Without it, prints the
differences. Names of metrics have to follow the rule of common/runtime/metrics.h, each table has to be one of FG_METRICS_TABLE(), and
Markdown pages may name no metric that there is not. Exits with 1 if something is wrong.
"""

import difflib
import os
import re
import subprocess
import sys

SERVICES = ("distributor", "ingester", "querier", "compactor")
SETTINGS = "deploy/settings.md"
METRICS = "deploy/operations/metrics.md"
RULES = ("deploy/prometheus/rules.yaml", "deploy/prometheus/alerts.yaml")
# Sections that `flamegrid server --docs` does not print, and the service that does.
BETWEEN = {"rpc": "ingester", "ring": "ingester", "ingester.repair": "ingester", "querier.ingesters": "querier",
           "querier.share": "querier", "query_proxy": "distributor"}

TABLE = re.compile(r"^\|.*\n(?:\|.*\n)*", re.M)
SECTION = re.compile(r"^#+ .*\n(?:(?!#+ ).*\n?)*", re.M)
METRIC = re.compile(r"^\| `(\w+)` \| (\w+) \|.*$", re.M)
RULE_NAME = re.compile(r"\b((?:flamegrid|pyroscope|process)_[a-z0-9_]+)\b(?!:)")
MENTION = re.compile(r"\b(flamegrid_[a-z0-9_]*[a-z0-9])(?![\w*…])")
# Names that begin like those of metrics: labels, keys of documents, units of systemd.
OTHER_NAMES = {"flamegrid_overflow", "flamegrid_scopes", "flamegrid_device_client_id"}
UNITS = re.compile(r"_(?:ns|us|ms|s|milliseconds|minutes|hours|days|percent|bits|kb|mb|gb|kib|mib|gib)(?:_total)?$")


UNLISTED = re.compile(r"FG_METRICS_DEFS|\{FG_METRIC_[A-Z]+,")


class Programs:
    def __init__(self, build):
        self.build = build

    def ask(self, service, flag):
        """What a service prints; "server": the single server."""
        words = ["flamegrid", "server"] if service == "server" else ["flamegrid-" + service]
        return subprocess.run([os.path.join(self.build, words[0]), *words[1:], flag], check=True, capture_output=True,
                              text=True, timeout=60).stdout


def sections(text):
    """Title and table of each section that has a table."""
    found = {}
    for section in SECTION.findall(text):
        table = TABLE.search(section)
        if table:
            found[section.splitlines()[0].lstrip("# ")] = table.group()
    return found


def with_tables(page, tables):
    """The page with these tables in its sections. New sections come at the end; a section may not be ours to keep."""
    for title, table in tables.items():
        heading = "## %s\n" % title
        if heading in page:
            at = page.index(heading) + len(heading)
            end = re.compile(r"^#+ ", re.M).search(page, at)
            body = page[at:end.start() if end else len(page)]
            body = TABLE.sub(lambda _: table, body, count=1) if TABLE.search(body) else body.rstrip("\n") + "\n\n" + table + "\n"
            page = page[:at] + body + (page[end.start():] if end else "")
        else:
            page = page.rstrip("\n") + "\n\n" + heading + "\n" + table
    return page


def settings_tables(programs):
    tables = sections(programs.ask("server", "--docs"))
    for title, service in BETWEEN.items():
        tables[title] = sections(programs.ask(service, "--docs"))[title]
    return tables


def title_of(owners):
    if owners == ["server"]:
        return "Canary"
    services = [owner for owner in owners if owner != "server"]
    if len(services) == len(SERVICES):
        return "Every program"
    return " and ".join(part for part in (", ".join(services[:-1]), services[-1]) if part).capitalize()


def metrics_tables(programs, alerts):
    """Tables by the services that have the metrics, and the type of each metric. Names in alerts are bold."""
    rows, owners, head = {}, {}, None
    for service in (*SERVICES, "server"):
        text = programs.ask(service, "--metrics-docs")
        head = "".join(text.splitlines(keepends=True)[:2])
        for match in METRIC.finditer(text):
            rows[match.group(1)] = match
            owners.setdefault(match.group(1), []).append(service)
    titles = sorted({title_of(of) for of in owners.values()},
                    key=lambda title: ("Every program", "Distributor, ingester and querier", "Distributor and querier", "Distributor", "Ingester", "Querier",
                                       "Compactor", "Canary").index(title))
    tables = {}
    for title in titles:
        lines = [row.group().replace("`%s`" % name, "**`%s`**" % name, 1) if name in alerts else row.group()
                 for name, row in sorted(rows.items()) if title_of(owners[name]) == title]
        tables[title] = head + "\n".join(lines) + "\n"
    return tables, {name: row.group(2) for name, row in rows.items()}


def bad_names(types):
    for name, kind in types.items():
        if not name.startswith(("flamegrid_", "pyroscope_", "process_")):
            yield "%s: begins neither with flamegrid_ nor with pyroscope_ or process_, for a metric that others have" % name
        if (kind == "counter") != name.endswith("_total"):
            yield "%s: _total is the end of a counter and of nothing else; this is a %s" % (name, kind)
        if kind == "histogram" and not name.endswith("_seconds"):
            yield "%s: a histogram observes seconds" % name
        if UNITS.search(name):
            yield "%s: the base units are seconds, bytes and ratio" % name


def unlisted_tables():
    """Metrics that --metrics-docs would not print."""
    sources = subprocess.run(["git", "ls-files", "*.[ch]"], check=True, capture_output=True, text=True).stdout.split()
    for source in sources:
        if source.startswith(("common/runtime/metrics.", "tests/")) or not os.path.exists(source):
            continue
        with open(source, encoding="utf-8") as file:
            for line in file:
                if UNLISTED.search(line):
                    yield "%s: a table of metrics comes from FG_METRICS_TABLE(): %s" % (source, line.strip())


def unknown_names(types):
    pages = subprocess.run(["git", "ls-files", "*.md"], check=True, capture_output=True, text=True).stdout.split()
    for page in pages:
        if page == ".github/CHANGELOG.md" or not os.path.exists(page):  # it names what was renamed, too
            continue
        with open(page, encoding="utf-8") as file:
            for name in MENTION.findall(file.read()):
                if name not in OTHER_NAMES and re.sub("_(?:bucket|sum|count)$", "", name) not in types and name not in types:
                    yield "%s: there is no metric %s" % (page, name)


def compare(path, wanted, write):
    with open(path, encoding="utf-8") as file:
        have = file.read()
    if have == wanted:
        return False
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(wanted)
        return False
    sys.stdout.writelines(difflib.unified_diff(have.splitlines(True), wanted.splitlines(True), path, "as the programs say"))
    print("%s: bring it up to date with tests/lint/pages.py BUILD --write" % path)
    return True


def without_others(page, tables, ours):
    """Sections whose table no program prints."""
    return [title for title in sections(page) if title not in tables and title not in ours]


def rule_names():
    """Metrics that rules and alerts for Prometheus use."""
    for path in RULES:
        with open(path, encoding="utf-8") as file:
            yield from RULE_NAME.findall(file.read())


def main():
    build, write = sys.argv[1], "--write" in sys.argv[2:]
    programs = Programs(build)
    wrong = False
    with open(SETTINGS, encoding="utf-8") as file:
        page = file.read()
    tables = settings_tables(programs)
    wrong |= compare(SETTINGS, with_tables(page, tables), write)
    complaints = ["%s: no program has the section %s" % (SETTINGS, title) for title in without_others(page, tables, ())]
    with open(METRICS, encoding="utf-8") as file:
        page = file.read()
    alerts = {re.sub("_(?:bucket|sum|count)$", "", name) for name in rule_names()}
    tables, types = metrics_tables(programs, alerts)
    wrong |= compare(METRICS, with_tables(page, tables), write)
    complaints += ["%s: no program has the section %s" % (METRICS, title) for title in without_others(page, tables, ())]
    complaints += [*bad_names(types), *unlisted_tables(), *unknown_names(types)]
    for complaint in complaints:
        print(complaint)
    return 1 if wrong or complaints or not types else 0


if __name__ == "__main__":
    sys.exit(main())
