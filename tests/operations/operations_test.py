#!/usr/bin/env python3
"""What operators load into Prometheus and Grafana, against what the programs have.

    tests/operations/run [-k REGEX]

Rules and alerts pass promtool, and each alert fires when it should and not just before (alert_cases.py). Every metric, label and value that a
rule, alert or dashboard names exists. Each alert has its page, and the commands and routes of these pages exist. Dashboards
and provisioning have the form that Grafana's own schemas describe.
"""

import filecmp
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, *(os.path.join(HERE, os.pardir, folder) for folder in ("lib", "agents"))]
import agents  # noqa: E402
import alert_cases  # noqa: E402
import expressions  # noqa: E402
import flamegrid  # noqa: E402
import live  # noqa: E402
import pages  # noqa: E402

GRAFANA = os.path.join(flamegrid.ROOT, "deploy", "grafana")
PROMETHEUS = os.path.join(flamegrid.ROOT, "deploy", "prometheus")
RULE_FILES = [os.path.join(PROMETHEUS, name) for name in ("rules.yaml", "alerts.yaml")]


def read(*path):
    with open(os.path.join(flamegrid.ROOT, *path), encoding="utf-8") as file:
        return file.read()


def rules():
    """All rules of both files, as they are written there."""
    return [rule for path in RULE_FILES for group in yaml.safe_load(read(path))["groups"] for rule in group["rules"]]


def alerts():
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def promtool(*arguments):
    """Runs it; its complaints are the error."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=120)
    flamegrid.check(done.returncode == 0, "promtool %s:\n%s%s", " ".join(arguments[:2]), done.stdout, done.stderr)


# ---- rules and alerts ----


def rules_are_valid():
    promtool("check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)


def expected(case):
    """What promtool expects while the alert of a case fires."""
    rule = alerts()[case.alert]
    labels = {"cluster": "eu", "namespace": "profiles", "severity": rule["labels"]["severity"], **case.labels}
    return {"exp_labels": {name: value for name, value in labels.items() if value is not None},
            "exp_annotations": {**rule["annotations"], "description": case.says}}


def unit_test(case, series, fires):
    return {"interval": "1m",
            "input_series": [{"series": name.replace("@", alert_cases.PROCESS), "values": values} for name, values in series.items()],
            "alert_rule_test": [{"alertname": case.alert, "eval_time": "%dm" % case.at, "exp_alerts": [expected(case)] if fires else []}]}


def alerts_of_case(case):
    tests = [unit_test(case, case.fires, True), unit_test(case, case.quiet, False)]
    # Long ones would take most of the time otherwise.
    every = "1m" if case.at <= 60 else "5m"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump({"rule_files": RULE_FILES, "evaluation_interval": every, "tests": tests}, file)
        file.flush()
        promtool("test", "rules", file.name)


def all_alerts_have_cases():
    cases = {case.alert for case in alert_cases.CASES}
    flamegrid.check(cases == set(alerts()), "alerts and cases differ: %s", cases ^ set(alerts()))


# ---- metrics ----


def conditions():
    return set(re.findall(r"^\| `([a-z_]+)` \|", read("deploy", "operations", "conditions.md"), re.M))


def all_metrics():
    """The metrics of all programs and of the recording rules."""
    metrics = expressions.Metrics()
    for words in (["flamegrid", "server"], *(["flamegrid-" + service] for service in ("distributor", "ingester", "querier", "compactor"))):
        program = os.path.join(os.path.dirname(flamegrid.binary()), words[0])
        metrics.read(subprocess.run([program, *words[1:], "--metrics-docs"], check=True, capture_output=True, text=True, timeout=60).stdout)
    for rule in rules():
        if "record" in rule:
            metrics.add_rule(rule["record"])
    metrics.labels["flamegrid_condition"]["condition"] = conditions()
    return metrics


def rules_name_what_there_is():
    metrics = all_metrics()
    faults = ["%s: %s" % (rule.get("alert") or rule["record"], fault) for rule in rules() for fault in metrics.faults(rule["expr"])]
    flamegrid.check(not faults, "%s", "\n".join(faults))


def checked_by_promtool(names_and_expressions):
    """Expressions are PromQL: promtool reads them as rules."""
    rows = [{"record": "test:%d" % number, "expr": expression} for number, (_, expression) in enumerate(names_and_expressions)]
    flamegrid.check(rows, "no expressions")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump({"groups": [{"name": "test", "rules": rows}]}, file)
        file.flush()
        promtool("check", "rules", "--lint=none", file.name)


# ---- pages ----


def each_alert_has_its_page():
    flamegrid.check(set(pages.names()) == set(alerts()), "alerts and pages differ: %s", set(pages.names()) ^ set(alerts()))
    for name, rule in alerts().items():
        url = rule["annotations"]["runbook_url"]
        flamegrid.check(url == pages.path(name), "%s: %s", name, url)
        flamegrid.check(rule["labels"]["severity"] in ("critical", "warning", "info"), "%s: severity", name)
        pages.form(name)
        row = "| [%s](%s) | %s | %s |\n" % (name, os.path.basename(pages.path(name)), rule["labels"]["severity"], rule["annotations"]["summary"])
        flamegrid.check(row in read(pages.FOLDER, "README.md"), "%s/README.md lacks: %s", pages.FOLDER, row)


def pages_name_what_there_is():
    metrics, programs = all_metrics(), pages.Programs()
    settings = set(re.findall(r"^\| `([a-z0-9_.]+)` \|", read("deploy", "settings.md"), re.M))
    faults, asked = [], []
    for name in pages.names():
        page = pages.text(name)
        for expression in pages.expressions(page):
            asked.append((name, expression))
            faults += ["%s: %s" % (name, fault) for fault in metrics.faults(expression)]
        for line in pages.commands(page):
            faults += ["%s: %s" % (name, fault) for fault in programs.faults(line)]
        faults += ["%s: %s" % (name, fault) for fault in pages.setting_faults(page, settings)]
        for listed in re.findall(r"[Cc]onditions? ((?:`\w+`(?:, | or | and )?)+)", page):
            faults += ["%s: there is no condition %s" % (name, each) for each in re.findall(r"`(\w+)`", listed) if each not in conditions()]
        for span in pages.INLINE.findall(pages.FENCE.sub("", page)):
            if span.startswith(("flamegrid_", "process_", "pyroscope_")):
                faults += ["%s: %s" % (name, fault) for fault in metrics.faults(span)]
    flamegrid.check(not faults, "%s", "\n".join(faults))
    checked_by_promtool(asked)


# ---- running programs ----


def all_expressions():
    """Of rules, alerts and dashboards."""
    yield from (rule["expr"] for rule in rules())
    for dashboard in dashboards().values():
        yield from (target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))


def route_alternatives(expression):
    """The routes that an expression names, each as a regular expression."""
    for selector in expressions.selectors(expression):
        operator, value = selector.labels.get("route", ("", ""))
        if operator in ("=", "=~"):
            yield from value.split("|")


def programs_show_what_is_asked_for(seen):
    metrics = all_metrics()
    used = {metrics.of(selector.metric) for expression in all_expressions() for selector in expressions.selectors(expression)}
    used = {name for name in used if name and ":" not in name and name != "up"}
    missing = used - seen.metrics - live.LATER
    flamegrid.check(len(used) > 100 and not missing, "no program shows %s", sorted(missing))
    flamegrid.check(live.LATER <= used, "not used: %s", live.LATER - used)


def routes_have_these_names(seen):
    """Each route that an expression names is one; each route for uploads counts for the objective of writes, and each for queries for that
    of reads."""
    seen_routes = seen.write_routes | seen.read_routes
    for alternative in {each for expression in all_expressions() for each in route_alternatives(expression)}:
        flamegrid.check(any(re.fullmatch(alternative, route) for route in seen_routes), "no route is %s of %s", alternative, sorted(seen_routes))
    for record, routes in (("write", seen.write_routes), ("read", seen.read_routes - QUERIES_APART)):
        rule = next(rule for rule in rules() if rule.get("record") == "cluster_namespace_status_code:flamegrid_%s_requests:rate5m" % record)
        counted = set(route_alternatives(rule["expr"]))
        flamegrid.check(len(routes) > 4 and routes == counted, "%s: %s", record, routes ^ counted)


def pages_name_routes_that_there_are(seen):
    for name in pages.names():
        for line in pages.commands(pages.text(name)):
            for path in re.findall(r"http://127\.0\.0\.1:\d+(/[^ ?'`]*)", line):
                flamegrid.check(path in seen.paths, "%s: no program has %s", name, path)


# ---- Grafana ----

# Routes for readers that are no queries of profiles: settings, recording rules, ad hoc files, sources, usage, versions.
QUERIES_APART = {"adhoc", "adhoc_one", "adhocdiff", "adhocget", "adhoclist", "getcommit", "getcommits", "getfeatureflags", "getfile",
                 "getrecordingrule", "githubapp", "githublogin", "githubrefresh", "listrecordingrules", "settingsget", "status", "usage",
                 "version"}
# Variables of Grafana, and what they may stand for.
VARIABLES = {"$__rate_interval": "5m", "$__range": "3h", "$gb_month": "1", "$thousand_writes": "1", "$thousand_reads": "1"}
# "Provision Grafana" in Grafana's documentation: the keys of each file, and of each of its entries.
PROVISIONING = {
    "datasources": {"name", "type", "access", "orgId", "uid", "url", "user", "database", "basicAuth", "basicAuthUser", "withCredentials",
                    "isDefault", "jsonData", "secureJsonData", "version", "editable"},
    "providers": {"name", "orgId", "folder", "folderUid", "type", "disableDeletion", "updateIntervalSeconds", "allowUiUpdates", "options"},
    "apps": {"type", "org_id", "org_name", "disabled", "jsonData", "secureJsonData"},
}


class Schemas(agents.Driver):
    """Grafana's schemas, from PyPI."""

    source = HERE

    def install(self):
        self.programs = self.venv("grafana", os.path.join(HERE, "locks"))

    def check(self, paths):
        done = subprocess.run([os.path.join(self.programs, "python"), os.path.join(HERE, "grafana_schema.py"), *paths], capture_output=True,
                              text=True, timeout=120)
        flamegrid.check(done.returncode == 0, "%s%s", done.stdout, done.stderr)


def dashboards():
    """{path: what is in it}"""
    found = {path: json.loads(read(path)) for path in sorted(glob.glob(os.path.join(GRAFANA, "dashboards", "*.json")))}
    flamegrid.check(len(found) >= 7, "%d dashboards", len(found))
    return found


def dashboards_are_what_generate_writes():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(GRAFANA, "generate"), folder], check=True, timeout=60)
        compared = filecmp.dircmp(folder, os.path.join(GRAFANA, "dashboards"), ignore=[])
        flamegrid.check(not (compared.diff_files or compared.left_only or compared.right_only), "run deploy/grafana/generate: %s",
                        compared.diff_files + compared.left_only + compared.right_only)


def dashboards_have_the_form_of_grafana():
    schemas = Schemas("grafana")
    schemas.ready()
    schemas.check(list(dashboards()))


def overlap(one, other):
    return (one["x"] < other["x"] + other["w"] and other["x"] < one["x"] + one["w"] and
            one["y"] < other["y"] + other["h"] and other["y"] < one["y"] + one["h"])


def dashboards_are_easy_to_read():
    """Nothing lies over anything; all panels say what they show; no data source is nailed down."""
    uids = [dashboard["uid"] for dashboard in dashboards().values()]
    flamegrid.check(len(uids) == len(set(uids)), "uids: %s", uids)
    for path, dashboard in dashboards().items():
        panels = dashboard["panels"]
        flamegrid.check(len({panel["id"] for panel in panels}) == len(panels), "%s: ids", path)
        flamegrid.check({"datasource", "cluster", "namespace"} <= {variable["name"] for variable in dashboard["templating"]["list"]},
                        "%s: variables", path)
        for number, panel in enumerate(panels):
            place = panel["gridPos"]
            flamegrid.check(place["x"] + place["w"] <= 24, "%s: %s is too wide", path, panel["title"])
            for other in panels[:number]:
                flamegrid.check(not overlap(place, other["gridPos"]), "%s: %s lies over %s", path, panel["title"], other["title"])
            if panel["type"] != "row":
                flamegrid.check(panel["description"] and panel["fieldConfig"]["defaults"].get("unit"), "%s: %s lacks a description or a unit",
                                path, panel["title"])
        sources = re.findall(r'"uid": "([^"]*)"', json.dumps([dashboard["panels"], dashboard["annotations"]]))
        flamegrid.check(sources and set(sources) == {"${datasource}"}, "%s: data sources %s", path, set(sources))


def dashboards_name_what_there_is():
    metrics, asked, faults = all_metrics(), [], []
    for path, dashboard in dashboards().items():
        queries = [(panel["title"], target["expr"], target["legendFormat"]) for panel in dashboard["panels"] for target in panel.get("targets", ())]
        for title, expression, legend in queries:
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            asked.append((title, expression))
            if "ALERTS" not in expression:  # Prometheus' own
                faults += ["%s: %s: %s" % (os.path.basename(path), title, fault)
                           for fault in (*metrics.faults(expression), *metrics.legend_faults(expression, legend))]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["query"]["query"]).groups()
                faults += ["%s: %s" % (variable["name"], fault) for fault in metrics.faults("sum by (%s) (%s)" % (label, metric))]
    flamegrid.check(not faults, "%s", "\n".join(faults))
    checked_by_promtool(asked)


def provisioning_has_known_keys():
    seen = set()
    for path in glob.glob(os.path.join(GRAFANA, "provisioning", "*", "*.yaml")):
        content = yaml.safe_load(read(path))
        flamegrid.check(content.pop("apiVersion") == 1, "%s: apiVersion", path)
        for kind, entries in content.items():
            flamegrid.check(kind in PROVISIONING, "%s: %s", path, kind)
            seen.add(kind)
            for entry in entries:
                flamegrid.check(set(entry) <= PROVISIONING[kind], "%s: %s", path, set(entry) - PROVISIONING[kind])
                flamegrid.check("type" in entry, "%s: no type", path)
                secrets = entry.get("secureJsonData", {}).values()
                flamegrid.check(all(re.fullmatch(r"\$[A-Z_]+", secret) for secret in secrets), "%s: a secret that is no variable", path)
    flamegrid.check(seen == set(PROVISIONING), "kinds: %s", seen)


def main():
    arguments = flamegrid.arguments_of(__doc__).parse_args()
    tally = flamegrid.Tally(arguments.pattern)
    tally.run("rules are valid", rules_are_valid)
    tally.run("all alerts have cases", all_alerts_have_cases)
    tally.run("rules and alerts name metrics, labels and values that there are", rules_name_what_there_is)
    tally.run("each alert has its page", each_alert_has_its_page)
    tally.run("pages name commands, settings, conditions and metrics that there are", pages_name_what_there_is)
    tally.run("dashboards are what deploy/grafana/generate writes", dashboards_are_what_generate_writes)
    tally.run("dashboards have the form of Grafana's schemas", dashboards_have_the_form_of_grafana)
    tally.run("dashboards are easy to read", dashboards_are_easy_to_read)
    tally.run("dashboards name metrics, labels and values that there are", dashboards_name_what_there_is)
    tally.run("provisioning has the keys that Grafana documents", provisioning_has_known_keys)
    with_programs = {"programs show the metrics that are asked for": programs_show_what_is_asked_for,
                     "routes have the names that expressions give them": routes_have_these_names,
                     "pages name routes that there are": pages_name_routes_that_there_are}
    if any(map(tally.wants, with_programs)):
        seen = live.look()
        for name, case in with_programs.items():
            tally.run(name, case, seen)
    for number, case in enumerate(alert_cases.CASES):
        tally.run("%s fires when it should (%d)" % (case.alert, number), alerts_of_case, case)
    tally.finish()


if __name__ == "__main__":
    main()
