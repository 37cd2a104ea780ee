#!/usr/bin/env python3
"""Compares what the Helm chart has of other files with these files.

tests/lint/chart.py BUILD [--write]

BUILD is the folder of the programs. values.schema.json has the shape of values.yaml, and for the values `settings`, of all and of
each program, the settings that the programs print (--docs). files/bounds.json has the least and greatest sizes and durations, which templates
compare, since a JSON schema cannot. files/ has copies of the dashboards and rules, since a chart can only read its own files.
--write brings all of them up to date. Exits with 1 if something differs.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

import yaml

CHART = "deploy/helm/flamegrid"
# The values of each program's own settings, and who prints them.
PROGRAMS = {"ingester": "ingester", "distributor": "distributor", "querier": "querier", "compactor": "compactor", "scraper": "distributor",
            "single": "server"}
COPIES = {"deploy/grafana/dashboards/*.json": "files/dashboards", "deploy/prometheus/*.yaml": "files/prometheus"}
# What the chart alone sets: addresses, names and files of its own.
RESERVED = {"listen", "admin_listen", "data", "scratch", "name", "rpc_listen", "tenants_file", "tls_cert_file", "tls_key_file", "access.mode",
            "access.bootstrap_token_file", "access.master_key_file", "access.login.client_secret_file", "encryption.key_file",
            "bucket.s3.access_key_file", "bucket.s3.secret_key_file", "rpc.tls_cert_file", "rpc.tls_key_file", "rpc.tls_ca_file", "rpc.secret_file",
            "rpc.insecure", "ring.name", "ring.address", "ring.http", "ring.zone", "ingester.kubernetes.statefulset", "ingester.kubernetes.namespace",
            "querier.disk_cache", "querier.share.queriers",
            "querier.share.listen", "query_proxy.urls", "scrape.share_index", "scrape.share_count"}
# Secrets, which no values may have: they come from Secrets as files.
SECRET = re.compile(r"(^|[._])(access_key|secret_key|session_token)$")

SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.M)
ROW = re.compile(r"^\| `([\w.]+)` \| (?:`(.*?)`)? ?\| ((?:[^|]|\\\|)+) \| (.*) \|$", re.M)
BOUND = re.compile(r"at (least|most) ([^ ,]+)")
BYTES = "^[0-9]+(TiB|GiB|MiB|KiB|TB|GB|MB|kB|KB|B)?$"
DURATION = "^(0|([0-9]+(y|w|d|h|ms|m|us|ns|s))+)$"


def rows(text):
    """Path, default, values and meaning of each setting."""
    for _, body in SECTION.findall(text):
        for path, default, values, meaning in ROW.findall(body):
            yield path, default.replace("\\|", "|"), values.replace("\\|", "|").strip(), meaning


def is_ours(path, values):
    """Whether no values may have the setting."""
    return path in RESERVED or SECRET.search(path) is not None or values.startswith("secret")


def bounds_of(values):
    return {"min" if kind == "least" else "max": bound for kind, bound in BOUND.findall(values)}


def number(text):
    return float(text) if "." in text else int(text)


def kind_of(values):
    return values.split(",")[0]


def schema_of(values, meaning):
    """The JSON schema of one setting. Settings are texts in the end, so a number may be written as one."""
    kind, bounds = kind_of(values), bounds_of(values)
    schema = {"description": meaning.replace("\\|", "|")}
    if kind == "number":
        schema["type"] = "number"
        schema["minimum"] = number(bounds.get("min", "0"))
        if "max" in bounds:
            schema["maximum"] = number(bounds["max"])
    elif kind == "bytes":
        schema.update(type=["string", "integer"], pattern=BYTES, minimum=0)
    elif kind == "duration":
        schema.update(type=["string", "integer"], pattern=DURATION, minimum=0, maximum=0)
    elif kind == "true or false":
        schema["type"] = "boolean"
    elif kind == "text":
        schema["type"] = "string"
        if "min" in bounds:
            schema["minLength"] = int(bounds["min"])
        if "max" in bounds:
            schema["maxLength"] = int(bounds["max"])
    elif kind == "YAML":
        schema["type"] = ["array", "object", "string"]
    elif "|" in kind:
        choices = kind.split("|")
        schema["enum"] = choices + [int(choice) for choice in choices if choice.isdigit()]
    else:
        raise ValueError("a kind of values that this script does not know: %s" % values)
    return schema


def closed(properties):
    return {"type": "object", "additionalProperties": False, "properties": properties}


def put(schema, path, leaf):
    """Puts a setting into the schema of nested settings."""
    *sections, key = path.split(".")
    for section in sections:
        schema = schema["properties"].setdefault(section, closed({}))
    schema["properties"][key] = leaf


def shared(schema, other, place):
    """The schema with references to the other one for all that is the same there."""
    if schema == other:
        return {"$ref": place}
    if "properties" not in schema or "properties" not in other:
        return schema
    return closed({key: shared(below, other["properties"].get(key, {}), "%s/properties/%s" % (place, key))
                   for key, below in schema["properties"].items()})


def ask(build, program):
    words = ["flamegrid", "server"] if program == "server" else ["flamegrid-" + program]
    return subprocess.run([os.path.join(build, words[0]), *words[1:], "--docs"], check=True, capture_output=True, text=True, timeout=60).stdout


def settings_schemas(build):
    """The schema of the settings of all, those of each program's, and the bounds."""
    bounds, known, every, single = {}, {}, closed({}), {}
    for value, program in PROGRAMS.items():
        single[value] = closed({})
        for path, _, values, meaning in rows(ask(build, program)):
            if is_ours(path, values):
                continue
            leaf = schema_of(values, meaning)
            # Targets are fetched by scrapers alone, so they are no settings of all.
            if path not in known and not path.startswith("scrape."):
                known[path] = leaf
                put(every, path, leaf)
            put(single[value], path, leaf)
            unit = {"bytes": "bytes", "duration": "nanoseconds"}.get(kind_of(values))
            if unit and bounds_of(values):
                bounds[path] = {"unit": unit, **bounds_of(values)}
    if "bucket" not in every["properties"] or not bounds:
        raise ValueError("the programs print no settings")
    return every, {value: shared(schema, every, "#/definitions/settings") for value, schema in single.items()}, bounds


# ---- the chart's own values ----

QUANTITY = "^[0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?$"
CPU = "^([0-9]+m|[0-9]+([.][0-9]+)?)$"
ZONE = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
RATE = {"type": "string", "pattern": "^[0-9]+/[sm]$"}
AMOUNT = {"type": ["string", "integer"], "pattern": QUANTITY}
RESOURCES = {"type": "object", "properties": {"cpu": {"type": ["string", "number"], "pattern": CPU}, "memory": AMOUNT}}
# Values whose default does not say what they may be, by the end of their path; the longest one counts.
VALUES = {
    "mode": {"enum": ["cluster", "single"]},
    "global": {"type": "object"},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "service.type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "access.mode": {"enum": ["none", "header", "token"]},
    "service.ipFamilyPolicy": {"enum": ["", "SingleStack", "PreferDualStack", "RequireDualStack"]},
    "service.ipFamilies": {"type": "array", "uniqueItems": True, "items": {"enum": ["IPv4", "IPv6"]}},
    "rpc.listenHost": {"enum": ["0.0.0.0", "::"]},
    "rpc.tls": {"enum": ["secret", "certificates", "certManager", "podCertificate", "off"]},
    "zones": {"type": "array", "uniqueItems": True, "items": {
        "type": ["string", "object"], "pattern": ZONE, "additionalProperties": False, "required": ["name"],
        "properties": {"name": {"type": "string", "pattern": "^(%s)?$" % ZONE.strip("^$")}, "zone": {"type": "string", "pattern": ZONE},
                       "replicas": {"type": "integer", "minimum": 0}}}},
    **{part + ".replicas": {"type": ["integer", "null"], "minimum": 0} for part in ("distributor", "querier", "compactor")},
    "securityContext": closed({**{key: {"type": ["integer", "null"], "minimum": 1} for key in ("runAsUser", "runAsGroup", "fsGroup")},
                               "supplementalGroups": {"type": "array", "items": {"type": "integer"}}, "seLinuxOptions": {"type": "object"},
                               "appArmorProfile": {"type": "object"}}),
    "hostUsers": {"type": ["boolean", "null"]},
    "updateStrategy": {"enum": ["RollingUpdate", "OnDelete"]},
    "persistence.size": {"type": "string", "pattern": QUANTITY},
    "cache.size": {"type": "string", "pattern": QUANTITY},
    "scratch.size": {"type": "string", "pattern": "^([0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?)?$"},
    "cache.type": {"enum": ["emptyDir", "ephemeral", "none"]},
    "whenDeleted": {"enum": ["Retain", "Delete"]},
    "whenScaled": {"enum": ["Retain", "Delete"]},
    "podDisruptionBudget.maxUnavailable": {"type": ["integer", "string"]},
    "resources": closed({"requests": RESOURCES, "limits": RESOURCES, "claims": {"type": "array"}}),
    "canary.rate": RATE,
    "canary.reads": RATE,
    "canary.window": {"type": "string", "pattern": "^([0-9]+[dhms])*$"},
    "sizes": {"type": "object", "additionalProperties": {"$ref": "#/definitions/size"}},
    "tenants": {"type": "object", "additionalProperties": {"$ref": "#/definitions/settings/properties/limits"}},
    "dashboards.labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "agentsFrom": {"type": "array"}, "readersFrom": {"type": "array"}, "monitoringFrom": {"type": "array"}, "targetsTo": {"type": "array"},
    "extraObjects": {"type": "array", "items": {"type": ["object", "string"]}},
}
SIZE = closed({part: {**closed({"cpu": {"type": "string", "pattern": CPU}, "memory": {"type": "string", "pattern": QUANTITY},
                                "memoryLimit": {"type": "string", "pattern": QUANTITY}}), "required": ["cpu", "memory", "memoryLimit"]}
               for part in (*PROGRAMS, "canary")})
TEXTS = ("labels", "annotations", "nodeSelector")


def value_schema(path, value, pod):
    """The schema of a value, from its default: a map without keys may have any, all others have those of the default."""
    for end, schema in sorted(VALUES.items(), key=lambda item: -len(item[0])):
        if path == end or path.endswith("." + end):
            return schema
    if path == "settings" or path.endswith(".settings"):
        return {"$ref": "#/definitions/" + (path.split(".")[0] + "Settings" if "." in path else path)}
    if isinstance(value, dict):
        if not value:
            return {"type": "object", **({"additionalProperties": {"type": "string"}} if path.split(".")[-1] in TEXTS else {})}
        keys = {key: value_schema("%s.%s" % (path, key) if path else key, below, pod) for key, below in value.items()}
        if "terminationGracePeriodSeconds" in value:  # a part: each of its pods can be as those of all
            keys = {**{key: value_schema("pod." + key, below, pod) for key, below in pod.items()}, **keys}
        return closed(keys)
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer", "minimum": 0}
    if isinstance(value, list):
        return {"type": "array", **({"items": {"type": "integer"}} if value else {})}
    if isinstance(value, str):
        return {"type": "string"}
    raise ValueError("values.yaml: %s has a default that says nothing of its type" % path)


def wanted(build):
    """What the chart should have: contents by path."""
    every, single, bounds = settings_schemas(build)
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
        values = yaml.safe_load(file)
    definitions = {"settings": every, "size": SIZE, **{part + "Settings": schema for part, schema in single.items()}}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": definitions, **value_schema("", values, values["pod"])}
    files = {"values.schema.json": json.dumps(schema, indent=1, sort_keys=True) + "\n",
             "files/bounds.json": json.dumps(bounds, indent=1, sort_keys=True) + "\n"}
    for pattern, folder in COPIES.items():
        for path in sorted(glob.glob(pattern)):
            with open(path, encoding="utf-8") as file:
                files[os.path.join(folder, os.path.basename(path))] = file.read()
    return files


def have():
    """What the chart has of these."""
    files = {}
    for folder in ("values.schema.json", "files"):
        top = os.path.join(CHART, folder)
        paths = [top] if os.path.isfile(top) else [os.path.join(at, name) for at, _, names in os.walk(top) for name in names]
        for path in paths:
            with open(path, encoding="utf-8") as file:
                files[os.path.relpath(path, CHART)] = file.read()
    return files


def main():
    build, write = sys.argv[1], "--write" in sys.argv[2:]
    want, found = wanted(build), have()
    differ = sorted(path for path in {*want, *found} if want.get(path) != found.get(path))
    if write:
        shutil.rmtree(os.path.join(CHART, "files"), ignore_errors=True)
        for path, text in want.items():
            path = os.path.join(CHART, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return 0
    for path in differ:
        print("%s/%s: bring it up to date with tests/lint/chart.py BUILD --write" % (CHART, path))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
