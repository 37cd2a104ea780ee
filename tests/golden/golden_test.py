#!/usr/bin/env python3
"""Answers recorded from Grafana Pyroscope, compared with ours.

    golden_test.py [-k REGEX]            the cases that cases.txt lists: all of them have to pass
    golden_test.py --all [-k REGEX]      whatever matches; what differs is shown, and at the end come
                                         the lines that cases.txt would have

The cases, and the program that knows when two answers are equal, are $FG_SHARED/golden (default
../shared beside the repository); without it all cases are skipped.
"""

import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "lib"))
import flamegrid  # noqa: E402


def load_replay(folder):
    spec = importlib.util.spec_from_file_location("replay", os.path.join(folder, "replay.py"))
    replay = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(replay)
    return replay


def listed_cases():
    """{case: steps that differ on purpose}."""
    cases = {}
    with open(os.path.join(HERE, "cases.txt"), encoding="utf-8") as lines:
        for line in lines:
            words = line.partition("#")[0].split()
            if words:
                cases[words[0]] = {word.removeprefix("-") for word in words[1:]}
    return cases


class Golden:
    """One server, and the recordings that it is compared with."""

    def __init__(self, folder, port):
        self.folder = folder
        self.replay = load_replay(folder)
        self.server = self.replay.Server("http://127.0.0.1:%d" % port)

    def names(self):
        return sorted(name for name in os.listdir(self.folder)
                      if os.path.exists(os.path.join(self.folder, name, "case.txt")))

    def compare(self, case, step, recorded):
        """Sends one request; the difference to its recorded answer as lines."""
        path = os.path.join(case["dir"], step + ".request")
        method, target, headers, body = self.replay.parse_request(path)
        answer = self.server.send(method, target, headers, body)
        want = self.replay.read_response(os.path.join(case["dir"], recorded))
        return self.replay.compare(case, step, answer, want, target, False)

    def differences(self, name):
        """{step: lines} of the steps of a case whose answers are not the recorded ones; all its steps."""
        case = self.replay.load_case(os.path.join(self.folder, name))
        steps = {}
        for file in case["inputs"]:
            step = "input/" + file.removesuffix(".request")
            steps[step] = self.compare(case, step, step)
        for file in case["queries"]:
            if file.endswith(".request"):  # the others are a program's arguments
                step = file.removesuffix(".request")
                steps[step] = self.compare(case, step, step.replace("query", "response"))
        return {step: lines for step, lines in steps.items() if lines}, list(steps)


def shown(differences, most_lines):
    text = []
    for step, lines in differences.items():
        text.append(step)
        text += ["  " + line for line in lines[:most_lines]]
        if len(lines) > most_lines:
            text.append("  ... %d more lines" % (len(lines) - most_lines))
    return "\n".join(text)


def run_listed(golden, tally, most_lines):
    for name, known in listed_cases().items():
        if not tally.wants(name):
            continue
        differences, _ = golden.differences(name)
        unexpected = {step: lines for step, lines in differences.items() if step not in known}
        for step in sorted(known - differences.keys()):
            print("note %s: %s is as recorded now, its exception can go" % (name, step))
        if unexpected:
            tally.fail(name, shown(unexpected, most_lines))
        else:
            tally.ok(name)


def run_all(golden, tally, most_lines):
    lines = []
    for name in golden.names():
        if not tally.wants(name):
            continue
        differences, steps = golden.differences(name)
        if differences:
            tally.fail(name, shown(differences, most_lines))
        else:
            tally.ok(name)
        if len(differences) < len(steps):
            lines.append(" ".join([name] + ["-" + step for step in differences]))
    print("\n".join(lines))


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also what is not listed in cases.txt")
    parser.add_argument("--diff-lines", type=int, default=30, metavar="N")
    arguments = parser.parse_args()
    tally = flamegrid.Tally(arguments.pattern)
    folder = flamegrid.shared_folder("golden")
    if folder is None:
        tally.skip("golden", "no folder of recordings; set FG_SHARED")
        tally.finish()
    with flamegrid.Server() as server:
        server.start().wait_ready()
        golden = Golden(folder, server.port)
        (run_all if arguments.all else run_listed)(golden, tally, arguments.diff_lines)
        tally.run("stops cleanly", lambda: flamegrid.check(server.terminate() == 0, "%s", server.log_tail()))
    tally.finish()


if __name__ == "__main__":
    main()
