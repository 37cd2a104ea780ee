#!/usr/bin/env python3
"""The numbered recordings: one feature a case, first what is sent, then what is asked.

    golden_test.py [-k REGEX]            the cases that cases.txt lists: all of them have to pass
    golden_test.py --all [-k REGEX]      whatever matches; what differs is shown, and at the end come
                                         the lines that cases.txt would have

The cases are $FG_SHARED/golden (default ../shared next to the repository); without it all are skipped.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "lib"))
import recordings  # noqa: E402

# The limits of the recorded server that cases reach; ours are other ones.
SETTINGS = ["--limits.max_query_length=720h", "--limits.ingestion_body_limit_mb=2", "--limits.reject_older_than=87600h",
            "--limits.max_profile_size_bytes=4MiB", "--limits.max_profile_stacktrace_samples=16000"]


class Golden:
    """A server, and the recordings that it is compared with."""

    def __init__(self, folder, port):
        self.folder = folder
        self.replay = recordings.load_replay()
        self.server = self.replay.Server("http://127.0.0.1:%d" % port)

    def names(self):
        return sorted(name for name in os.listdir(self.folder)
                      if os.path.exists(os.path.join(self.folder, name, "case.txt")))

    def step(self, case, step, recorded):
        """Sends one request."""
        path = os.path.join(case["dir"], step + ".request")
        method, target, headers, body = self.replay.parse_request(path)
        answer = self.server.send(method, target, headers, body)
        want = self.replay.read_response(os.path.join(case["dir"], recorded))
        return step, answer[0], self.replay.compare(case, step, answer, want, target, False)

    def steps(self, name):
        case = self.replay.load_case(os.path.join(self.folder, name))
        for file in case["inputs"]:
            step = "input/" + file.removesuffix(".request")
            yield self.step(case, step, step)
        for file in case["queries"]:
            if file.endswith(".request"):  # the others are a program's arguments
                step = file.removesuffix(".request")
                yield self.step(case, step, step.replace("query", "response"))


if __name__ == "__main__":
    recordings.run(__doc__, "golden", os.path.join(HERE, "cases.txt"), SETTINGS, Golden)
