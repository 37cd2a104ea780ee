"""Compares the answers of flamegrid with recorded answers of another server.

Which cases have to pass says a list, a ratchet: one case a line, then the steps of it that may differ. "-STEP" may
answer anything, "STEP=STATUS" has to answer with that status. Why they differ is for the README next to the list.

What a recording is, a Recordings says: names() of its cases, and steps(name), which sends the steps of one in order
and yields for each (step, status of our answer, difference to the recorded one as lines).
"""

import importlib.util
import os

import flamegrid


def load_replay():
    """The program in the folder of the recordings that compares two answers."""
    path = os.path.join(flamegrid.shared_folder("golden"), "replay.py")
    spec = importlib.util.spec_from_file_location("replay", path)
    replay = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(replay)
    return replay


def exception(word):
    """Returns (step, required status or None for any)."""
    if word.startswith("-"):
        return word[1:], None
    step, _, status = word.partition("=")
    return step, int(status)


def read_list(path):
    """Returns {case: {step: status or None}} in the order of the list."""
    cases = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.partition("#")[0].split()
            if words:
                cases[words[0]] = dict(map(exception, words[1:]))
    return cases


def shown(differences, most_lines):
    """Returns {step: lines} as text."""
    text = []
    for step, lines in differences.items():
        text.append(step)
        text += ["  " + line for line in lines[:most_lines]]
        if len(lines) > most_lines:
            text.append("  ... %d more lines" % (len(lines) - most_lines))
    return "\n".join(text)


def judge(tally, name, differences, most_lines):
    if differences:
        tally.fail(name, shown(differences, most_lines))
    else:
        tally.ok(name)


def run_listed(recordings, listed, tally, most_lines):
    for name, known in listed.items():
        if not tally.wants(name):
            continue
        unexpected = {}
        missing = set(known)
        for step, status, lines in recordings.steps(name):
            missing.discard(step)
            if step in known and not lines:
                print("note %s: %s is equal to the recording now: remove its exception" % (name, step))
            elif step in known and known[step] not in (None, status):
                unexpected[step] = ["the list says %s, the answer is %d" % (known[step], status)] + lines
            elif step not in known and lines:
                unexpected[step] = lines
        for step in sorted(missing):
            unexpected[step] = ["the case has no such step"]
        judge(tally, name, unexpected, most_lines)


def run_all(recordings, tally, most_lines):
    """Compares all cases and prints the list that describes the result."""
    listed = []
    for name in filter(tally.wants, recordings.names()):
        steps = list(recordings.steps(name))
        differences = {step: lines for step, _, lines in steps if lines}
        judge(tally, name, differences, most_lines)
        if len(differences) < len(steps):
            listed.append(" ".join([name] + ["-" + step for step in differences]))
    print("\n".join(listed))


def run(doc, folder_name, list_path, settings, open_recordings):
    """Runs a test program: compares the recordings of open_recordings(folder, port) with the list in that file."""
    parser = flamegrid.arguments_of(doc.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also what is not listed")
    parser.add_argument("--diff-lines", type=int, default=30, metavar="N")
    arguments = parser.parse_args()
    tally = flamegrid.Tally(arguments.pattern)
    folder = flamegrid.shared_folder(folder_name)
    if folder is None:
        tally.skip(folder_name, "no folder of recordings; set FG_SHARED")
        tally.finish()
    with flamegrid.Server(*settings) as server:
        server.start().wait_ready()
        recordings = open_recordings(folder, server.port)
        if arguments.all:
            run_all(recordings, tally, arguments.diff_lines)
        else:
            run_listed(recordings, read_list(list_path), tally, arguments.diff_lines)
        if server.terminate() != 0:  # whatever was asked for by -k
            tally.fail("stops cleanly", server.log_tail())
    tally.finish()
