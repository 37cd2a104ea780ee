#!/usr/bin/env python3
"""The stepwise recordings: scenarios of many steps, each case with a tenant of its own.

    stepwise_test.py [-k REGEX]          the cases that stepwise.txt lists: all of them have to pass
    stepwise_test.py --all [-k REGEX]    whatever matches; what differs is shown, and at the end come
                                         the lines that stepwise.txt would have

The cases are $FG_SHARED/golden/stepwise; its README explains the kinds of comparison.
"""

import base64
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "lib"))
import recordings  # noqa: E402

# As the recorded server had them, where ours are other ones.
SETTINGS = ["--multitenancy_enabled=true", "--limits.reject_newer_than=0",
            "--limits.max_profile_size_bytes=4MiB", "--limits.max_profile_stacktrace_samples=16000",
            "--compactor.interval=1h"]  # of what is in blocks, metadata is of ten minutes: no compaction between two steps
STRICT = """overrides:
""" + "".join("""  strict-%d: {reject_older_than: 1h, reject_newer_than: 10m, ingestion_rate_mb: 0.05,
    ingestion_burst_size_mb: 0.05, ingestion_body_limit_mb: 0.25, max_query_length: 24h}
""" % i for i in range(3))

# What a server makes up, as it stands in a recorded answer.
PLACEHOLDERS = [
    (r"<uuid-\d+>", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    (r"<ulid>", r"[0-9A-Z]{26}"),
    (r"<now>", r"\d{13}"),
]


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def plain(value):
    """Writes JSON with equal texts for equal numbers: 9.73e+09 is 9730000000."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Filler:
    """Puts a recording's placeholders where our answers have what they stand for.

    Those with a number stand for the same thing all case long.
    """

    def __init__(self):
        self.meaning = {}

    def text(self, recorded, answered):
        for placeholder, pattern in PLACEHOLDERS:
            found = re.fullmatch("(.*)(%s)(.*)" % placeholder, recorded)
            ours = found and re.fullmatch("%s(%s)%s" % (re.escape(found[1]), pattern, re.escape(found[3])), answered)
            if ours and ("-" not in found[2] or self.meaning.setdefault(found[2], ours[1]) == ours[1]):
                return recorded
        return answered

    def fill(self, recorded, answered):
        if isinstance(recorded, dict) and isinstance(answered, dict):
            return {key: self.fill(recorded.get(key), item) for key, item in answered.items()}
        if isinstance(recorded, list) and isinstance(answered, list):
            return [self.fill(recorded[i] if i < len(recorded) else None, item) for i, item in enumerate(answered)]
        if isinstance(recorded, str) and isinstance(answered, str):
            return self.text(recorded, answered)
        return answered


def without_exemplars(value):
    """Any of several equal exemplars may be shown, but one must be."""
    if isinstance(value, dict):
        return {key: len(item) if key == "exemplars" else without_exemplars(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_exemplars(item) for item in value]
    return value


def in_order(profile):
    profile["samples"].sort(key=lambda sample: sample["stack"])
    return profile


def stacks_of(profile):
    """A pprof in the form that the recordings have: stacks root first as text, those that read alike summed."""
    strings = profile.get("stringTable", [""])
    functions = {function["id"]: function for function in profile.get("function", [])}

    def string(index):
        return strings[int(index)]

    def value_type(kind):
        return [string(kind.get("type", 0)), string(kind.get("unit", 0))]

    def line_text(line):
        function = functions[line["functionId"]]
        file = string(function.get("filename", 0))
        return string(function.get("name", 0)) + (" %s:%s" % (file, line.get("line", 0)) if file else "")

    frames = {location["id"]: " <inlined into> ".join(map(line_text, location.get("line", [])))
              for location in profile.get("location", [])}
    sums = {}
    for sample in profile.get("sample", []):
        stack = tuple(frames[id_] for id_ in reversed(sample.get("locationId", [])))
        sums.setdefault(stack, []).append(list(map(int, sample.get("value", []))))
    return in_order({
        "sampleType": list(map(value_type, profile.get("sampleType", []))) or [None],
        "periodType": value_type(profile["periodType"]) if "periodType" in profile else None,
        "period": int(profile.get("period", 0)),
        "timeNanos": str(profile.get("timeNanos", 0)),
        "durationNanos": str(profile.get("durationNanos", 0)),
        "defaultSampleType": string(profile.get("defaultSampleType", 0)),
        "samples": [{"stack": list(stack), "value": list(map(sum, zip(*values)))} for stack, values in sums.items()],
    })


def headers_of(text):
    """{name: value} of an answer's head, and of its trailers where they follow."""
    return dict(re.findall(r"(?m)^([a-z-]+): *(.*?)\r?$", text.decode()))


def media_type(headers):
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def send_http2(port, step):
    """As Server.send() of the recordings' program, over cleartext HTTP/2."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-test.") as folder:
        head, body, request = (os.path.join(folder, name) for name in ("head", "body", "request"))
        with open(request, "wb") as file:
            file.write(step.body)
        arguments = [word for name, value in step.headers for word in ("--header", "%s: %s" % (name, value))]
        done = subprocess.run(["curl", "--silent", "--http2-prior-knowledge", "--request", step.method, *arguments,
                               "--data-binary", "@" + request, "--dump-header", head, "--output", body,
                               "--write-out", "%{http_code}", "http://127.0.0.1:%d%s" % (port, step.target)],
                              capture_output=True, check=False)
        data = read(body) if os.path.exists(body) else b""
        return int(done.stdout), headers_of(read(head)) if os.path.exists(head) else {}, data


class Step:
    """A request and its recorded answer."""

    def __init__(self, folder, step, replay):
        self.replay = replay
        self.name = step["step"]
        self.kind = step["compare"]
        self.method = step["method"]
        self.target = step["path"]
        self.status = step["status"]
        lines = read(folder, self.name + ".request.http").decode().splitlines()
        headers = [re.split(": ?", line, maxsplit=1) for line in lines[1:] if line]
        self.http2 = any(name == "HTTP-Version" for name, _ in headers)  # the recorder's word, none of HTTP's
        self.headers = [header for header in headers if header[0] != "HTTP-Version"]
        self.body = read(folder, step["body"]) if "body" in step else b""
        self.file = step.get("response", "")
        self.recorded = read(folder, self.file) if self.file else b""
        self.recorded_headers = headers_of(read(folder, self.name + ".response.http"))

    def rpc(self):
        return self.target.partition("?")[0].rsplit("/", 1)[-1]

    def message(self, data, name):
        return self.replay.decode(data, self.replay.ROOT.get(name, name))

    def json(self, data):
        return plain(json.loads(self.replay.gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data))

    def normal(self, document):
        """Without what is free: the order of names and of siblings, numbers of a drawing's nodes."""
        double = self.rpc() == "Diff" or document.get("metadata", {}).get("format") == "double"
        for key in ("flamegraph", "flamebearer"):
            if key in document:
                document[key] = self.replay.flame(document[key], 7 if double else 4)
        if "flamebearerProfile" in document:  # a document as text inside of this one
            document["flamebearerProfile"] = self.normal(plain(json.loads(document["flamebearerProfile"])))
        if "tree" in document:
            document["tree"] = self.replay.tree_bytes(document["tree"])
        if "dot" in document:
            document["dot"] = self.replay.dot(document["dot"])
        return document

    def pprof(self, data, kind):
        name = self.rpc()
        answer = self.json(data) if kind == "application/json" else self.message(data, name)
        return stacks_of(answer if name == "SelectMergeProfile" else answer.get("pprof", {}).get("profile", {}))

    def text(self, data):
        text = data.decode("utf-8", "replace")
        return self.replay.dot(text) if text.startswith("digraph") else text

    def form(self, data, headers, ours):
        """What is compared, of an answer with the right status. Raises anything on what cannot be read."""
        kind = self.kind
        if kind == "grpc":
            return {"grpc-status": headers.get("grpc-status"), "frames": base64.b64encode(data).decode()}
        if kind == "error" or self.status != 200 and kind != "text":
            return self.json(data).get("code") if self.file.endswith(".json") else None
        if kind in ("json", "flamegraph", "flamegraph-diff"):
            return self.normal(self.json(data))
        if kind == "proto-flamegraph":
            return self.normal(self.message(data, "SelectMergeStacktraces"))
        if kind == "any-exemplar":
            return without_exemplars(self.json(data))
        if kind == "total":
            return self.json(data)["flamegraph"].get("total")
        if kind == "pprof":
            return self.pprof(data, media_type(headers)) if ours else in_order(self.json(data))
        return self.text(data) if kind == "text" else base64.b64encode(data).decode()

    def difference(self, answer, filler):
        status, headers, data = answer
        if status != self.status:
            return ["status %d, answered %d" % (self.status, status),
                    "recorded: %r" % self.recorded[:200], "answered: %r" % data[:200]]
        if self.kind == "status":
            return []
        recorded = [media_type(self.recorded_headers), self.form(self.recorded, self.recorded_headers, False)]
        try:
            answered = [media_type(headers), self.form(data, headers, True)]
        except Exception as fault:  # an answer that cannot be read is a difference, not the end of the run
            return ["unreadable: %s: %s: %r" % (type(fault).__name__, fault, data[:200])]
        forms = [json.dumps(form, ensure_ascii=False, indent=1, sort_keys=True).splitlines()
                 for form in (recorded, filler.fill(recorded, answered))]
        return list(difflib.unified_diff(*forms, "recorded", "answered", lineterm="", n=2))


class Stepwise:
    """A server, and the recordings that it is compared with."""

    def __init__(self, folder, port):
        self.folder = folder
        self.replay = recordings.load_replay()
        self.server = self.replay.Server("http://127.0.0.1:%d" % port)

    def names(self):
        return sorted(name for name in os.listdir(self.folder)
                      if os.path.exists(os.path.join(self.folder, name, "case.json")))

    def steps(self, name):
        folder = os.path.join(self.folder, name)
        filler = Filler()
        for description in json.loads(read(folder, "case.json"))["steps"]:
            step = Step(folder, description, self.replay)
            if step.http2:
                answer = send_http2(self.server.port, step)
            else:
                answer = self.server.send(step.method, step.target, step.headers, step.body)
            yield step.name, answer[0], step.difference(answer, filler)


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as tenants:
        tenants.write(STRICT)
        tenants.flush()
        recordings.run(__doc__, os.path.join("golden", "stepwise"), os.path.join(HERE, "stepwise.txt"),
                       [*SETTINGS, "--tenants_file=" + tenants.name], Stepwise)


if __name__ == "__main__":
    main()
