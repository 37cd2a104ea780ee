#!/usr/bin/env python3
"""Makes the description of the HTTP interface that is served, and a page of it.

    make.py OPENAPI.JSON PROTO_FOLDER... OUT_FOLDER

OPENAPI.JSON is written by hand (OpenAPI 3.1). What it leaves to this program: "services" lists methods by their
messages, whose schemas come from the .proto files, or by the status with which all requests are refused; "aliases" are
paths that answer like another one; "pages" are those of the web page. "headers": "statistics" stands for all headers
that say what an answer is worth, and a query parameter that is also a header (HEADERS) brings it along. Writes
openapi.json and reference.html.
"""

import copy
import glob
import html
import json
import os
import re
import sys

SCALARS = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "bool": {"type": "boolean"},
    "double": {"$ref": "#/components/schemas/Double"},
    "float": {"$ref": "#/components/schemas/Double"},
    **{name: {"$ref": "#/components/schemas/Int64"} for name in ("int64", "uint64", "sint64", "fixed64", "sfixed64")},
    **{name: {"type": "integer"} for name in ("int32", "uint32", "sint32", "fixed32", "sfixed32")},
}
STATISTICS = "statistics.v1.Statistics"
HEADERS = {"statistics": "X-Flamegrid-Statistics", "partial": "X-Flamegrid-Partial"}
CONNECT = ["Connect-Protocol-Version", "Connect-Timeout-Ms"]


# ---- messages ----

def camel(name):
    """As protobuf's JSON mapping spells it."""
    return re.sub(r"_(.)", lambda found: found.group(1).upper(), name)


def read_protos(folders):
    """{full name: ("message", [(field, type, repeated)]) or ("enum", [value])} of all files that are as simple as ours."""
    found = {}
    for path in sorted(path for folder in folders for path in glob.glob(os.path.join(folder, "*.proto"))):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"//[^\n]*", "", file.read())
        package = re.search(r"^package ([\w.]+);", text, re.MULTILINE).group(1)
        text = re.sub(r"\boneof \w+ \{([^}]*)\}", r"\1", text)
        for kind, name, body in re.findall(r"\b(message|enum) (\w+) \{([^}]*)\}", text):
            if kind == "enum":
                found[package + "." + name] = kind, re.findall(r"(\w+) = \d+;", body)
                continue
            fields = re.findall(r"(repeated |optional )?([\w.]+) (\w+) = \d+(?: \[[^\]]*\])?;", body)
            found[package + "." + name] = kind, [
                (field, typ if typ in SCALARS or "." in typ else package + "." + typ, label == "repeated ") for label, typ, field in fields]
    return found


def add_schema(schemas, protos, name):
    """Adds the schema of a message or enum, and of all that it has."""
    if name in schemas:
        return
    kind, parts = protos[name]
    if kind == "enum":
        schemas[name] = {"type": "string", "enum": parts}
        return
    schema = schemas[name] = {"type": "object", "additionalProperties": False, "properties": {}}
    for field, typ, repeated in parts:
        if typ not in SCALARS:
            add_schema(schemas, protos, typ)
        one = SCALARS.get(typ, {"$ref": "#/components/schemas/" + typ})
        schema["properties"][camel(field)] = {"type": "array", "items": one} if repeated else one


# ---- the description ----

def reference(name):
    return {"$ref": "#/components/schemas/" + name}


def parameter(name):
    return {"$ref": "#/components/parameters/" + name}


def operation(service, method, messages):
    error = {"$ref": "#/components/responses/Error"}
    found = {
        "tags": [messages.get("tag", "connect")],
        "operationId": service.rpartition(".")[2] + "." + method,
        "summary": messages["summary"],
        "parameters": [parameter(name) for name in messages.get("parameters", []) + CONNECT],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
        "responses": {
            "405": {"description": "Only POST."},
            "415": {"description": "The Content-Type is none of Connect's, gRPC's or gRPC-web's."},
            "default": error,
        },
    }
    if "description" in messages:
        found["description"] = messages["description"]
    if "refused" in messages:
        found["responses"][messages["refused"]] = error
        return found
    if found["tags"] == ["connect"]:
        found["parameters"] += [parameter("statistics"), parameter("partial")]
    found["requestBody"]["content"]["application/json"]["schema"] = reference(messages["request"])
    found["responses"]["200"] = {"description": "The answer.", "content": {"application/json": {"schema": reference(messages["response"])}}}
    return found


def page_operation(path, summary):
    return {
        "tags": ["page"],
        "operationId": "page" + "".join(word.capitalize() for word in re.findall(r"\w+", path)),
        "summary": summary,
        "responses": {
            "200": {"description": "The page.", "content": {"text/html": {"schema": {"type": "string"}}}},
            "303": {"description": "The browser has no session: to the log-in, and back."},
            "304": {"description": "It has not changed (If-None-Match)."},
        },
    }


def alias(operations, path):
    """The operations of another path, under ids of their own."""
    found = copy.deepcopy(operations)
    for it in found.values():
        it["operationId"] += "At" + "".join(word.capitalize() for word in re.findall(r"\w+", path))
    return found


def expand_parameters(paths):
    """Adds the headers that say the same as query parameters."""
    for methods in paths.values():
        for it in methods.values():
            names = [one["$ref"].rpartition("/")[2] for one in it.get("parameters", []) if "$ref" in one]
            it.setdefault("parameters", []).extend(parameter(HEADERS[name]) for name in names if name in HEADERS)


def expand_headers(node, names):
    """Replaces "headers": "statistics" everywhere."""
    if isinstance(node, dict):
        if node.get("headers") == "statistics":
            node["headers"] = {name: {"$ref": "#/components/headers/" + name} for name in names}
        for value in node.values():
            expand_headers(value, names)
    elif isinstance(node, list):
        for value in node:
            expand_headers(value, names)


def complete(document, protos):
    schemas = document["components"]["schemas"]
    add_schema(schemas, protos, STATISTICS)
    for service, methods in document.pop("services").items():
        for method, messages in methods.items():
            it = operation(service, method, messages)
            for name in (messages["request"], messages["response"]) if "refused" not in messages else ():
                add_schema(schemas, protos, name)
            if parameter("statistics") in it["parameters"]:
                schemas[messages["response"]]["properties"]["statistics"] = reference(STATISTICS)
            document["paths"]["/%s/%s" % (service, method)] = {"post": it}
    for path, summary in document.pop("pages").items():
        document["paths"][path] = {"get": page_operation(path, summary)}
    for path, other in document.pop("aliases").items():
        document["paths"][path] = alias(document["paths"][other], path)
    expand_parameters(document["paths"])
    expand_headers(document, document["components"]["headers"])


# ---- the page ----

def text_of(markdown):
    """Plain text in which `code` is marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(markdown, quote=False))


def resolve(document, node):
    while "$ref" in node:
        path, node = node["$ref"].split("/")[1:], document
        for key in path:
            node = node[key]
    return node


def type_of(schema):
    """A few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return '<a href="#%s">%s</a>' % (html.escape(name), html.escape(name))
    if "anyOf" in schema:
        return " or ".join(type_of(one) for one in schema["anyOf"])
    if "const" in schema:
        return "<code>%s</code>" % html.escape(str(schema["const"]))
    if "enum" in schema:
        return " | ".join("<code>%s</code>" % html.escape(str(value)) for value in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array" or isinstance(kind, list) and "array" in kind:
        return "list of " + type_of(schema.get("items", {}))
    words = " or ".join(kind) if isinstance(kind, list) else kind
    if "minimum" in schema or "maximum" in schema:
        words += " %s…%s" % (schema.get("minimum", ""), schema.get("maximum", ""))
    if "default" in schema:
        words += ", default <code>%s</code>" % html.escape(str(schema["default"]))
    return words


def members(schema):
    """Rows for the members of an object."""
    for name, member in schema.get("properties", {}).items():
        yield "<tr><td><code>%s</code></td><td>%s</td><td>%s</td></tr>" % (
            html.escape(name), type_of(member), text_of(member.get("description", "")))
        inner = member.get("items", member)
        if "$ref" not in inner and inner.get("properties"):
            for row in members(inner):
                yield row.replace("<td><code>", "<td><code>%s." % html.escape(name), 1)


def table(heads, rows):
    rows = list(rows)
    if not rows:
        return ""
    return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (
        "".join("<th>%s</th>" % head for head in heads), "".join(rows))


def show_operation(document, path, method, it):
    out = ['<section id="%s"><h3><code>%s %s</code></h3><p>%s</p>' % (
        html.escape(it["operationId"]), method.upper(), html.escape(path), text_of(it["summary"]))]
    if "description" in it:
        out.append("<p>%s</p>" % text_of(it["description"]))
    parameters = [resolve(document, one) for one in it.get("parameters", [])]
    out.append(table(("Parameter", "Type", ""), (
        "<tr><td><code>%s</code>%s%s</td><td>%s</td><td>%s</td></tr>" % (
            html.escape(one["name"]), "" if one["in"] == "query" else " (%s)" % one["in"], " required" if one.get("required") else "",
            type_of(one["schema"]), text_of(one.get("description", ""))) for one in parameters)))
    for kind, content in it.get("requestBody", {}).get("content", {}).items():
        out.append("<p>Body <code>%s</code>: %s</p>" % (kind, type_of(content["schema"])))
    for status, answer in it["responses"].items():
        answer = resolve(document, answer)
        out.append("<p><strong>%s</strong> %s</p>" % (status, text_of(answer["description"])))
        for kind, content in answer.get("content", {}).items():
            schema = content["schema"]
            if schema.get("properties"):
                out.append(table(("<code>%s</code>" % kind, "Type", ""), members(schema)))
            elif status == "200":
                out.append("<p><code>%s</code>: %s</p>" % (kind, type_of(schema)))
    return "".join(out) + "</section>"


def page(document):
    info = document["info"]
    out = ['<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
           '<title>%s: HTTP interface</title><link rel="icon" href="data:,"><link rel="stylesheet" href="../ui/style.css"></head><body><main>'
           '<h1>%s: HTTP interface</h1><p>%s</p><p>For programs: <a href="openapi.json">openapi.json</a></p>' % (
               info["title"], info["title"], text_of(info["description"]))]
    operations = [(path, method, it) for path, methods in document["paths"].items() for method, it in methods.items()]
    for tag in document["tags"]:
        out.append('<h2>%s</h2><p>%s</p>' % (tag["name"], text_of(tag["description"])))
        out += [show_operation(document, *one) for one in operations if tag["name"] in one[2]["tags"]]
    out.append("<h2>Messages</h2>")
    for name, schema in document["components"]["schemas"].items():
        out.append('<section id="%s"><h3>%s</h3><p>%s</p>%s</section>' % (
            html.escape(name), html.escape(name), text_of(schema.get("description", "")) or ("" if "properties" in schema else type_of(schema)),
            table(("Member", "Type", ""), members(schema))))
    return "".join(out) + "</main></body></html>\n"


def main():
    source, *protos, out = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        document = json.load(file)
    complete(document, read_protos(protos))
    with open(os.path.join(out, "openapi.json"), "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")
    with open(os.path.join(out, "reference.html"), "w", encoding="utf-8") as file:
        file.write(page(document))


if __name__ == "__main__":
    main()
