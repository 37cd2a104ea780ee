#!/usr/bin/env python3
"""What operators load into Prometheus and Grafana, against what the programs have.

    tests/operations/run [-k REGEX]

Rules and alerts pass promtool, and each alert fires when it should and not just before (alert_cases.py). Every metric, label and value that a
rule, alert or dashboard names exists. Each alert has its page, and the commands and routes of these pages exist. Dashboards
and provisioning have the form that Grafana's own schemas describe.
"""

import os
import re
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import alert_cases  # noqa: E402
import expressions  # noqa: E402
import flamegrid  # noqa: E402
import pages  # noqa: E402

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


def all_metrics():
    """The metrics of all programs and of the recording rules."""
    metrics = expressions.Metrics()
    for words in (["flamegrid", "server"], *(["flamegrid-" + service] for service in ("distributor", "ingester", "querier", "compactor"))):
        program = os.path.join(os.path.dirname(flamegrid.binary()), words[0])
        metrics.read(subprocess.run([program, *words[1:], "--metrics-docs"], check=True, capture_output=True, text=True, timeout=60).stdout)
    for rule in rules():
        if "record" in rule:
            metrics.add_rule(rule["record"])
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
    conditions = set(re.findall(r"^\| `([a-z_]+)` \|", read("deploy", "operations", "conditions.md"), re.M))
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
            faults += ["%s: there is no condition %s" % (name, each) for each in re.findall(r"`(\w+)`", listed) if each not in conditions]
        for span in pages.INLINE.findall(pages.FENCE.sub("", page)):
            if span.startswith(("flamegrid_", "process_", "pyroscope_")):
                faults += ["%s: %s" % (name, fault) for fault in metrics.faults(span)]
    flamegrid.check(not faults, "%s", "\n".join(faults))
    checked_by_promtool(asked)


def main():
    arguments = flamegrid.arguments_of(__doc__).parse_args()
    tally = flamegrid.Tally(arguments.pattern)
    tally.run("rules are valid", rules_are_valid)
    tally.run("all alerts have cases", all_alerts_have_cases)
    tally.run("rules and alerts name metrics, labels and values that there are", rules_name_what_there_is)
    tally.run("each alert has its page", each_alert_has_its_page)
    tally.run("pages name commands, settings, conditions and metrics that there are", pages_name_what_there_is)
    for number, case in enumerate(alert_cases.CASES):
        tally.run("%s fires when it should (%d)" % (case.alert, number), alerts_of_case, case)
    tally.finish()


if __name__ == "__main__":
    main()
