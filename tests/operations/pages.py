"""The pages of alerts: is there one for each, in one form, and is everything that they tell operators to do possible?"""

import os
import re
import subprocess

import flamegrid

FOLDER = os.path.join("deploy", "operations", "runbooks")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
INLINE = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"\bflamegrid ((?:\w[\w-]* ?)+)([^#|]*)")
SETTING = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
TABLE_HEAD = "| cause | how it shows | cure |"
# Names with dots that are no settings: keys of a target of forwarding have a table of their own, and files are files.
FILES = re.compile(r"\.(?:yaml|pem|md)$")


def names():
    return sorted(name[:-3] for name in os.listdir(os.path.join(flamegrid.ROOT, FOLDER)) if name != "README.md")


def path(name):
    return os.path.join(FOLDER, name + ".md")


def text(name):
    with open(os.path.join(flamegrid.ROOT, path(name)), encoding="utf-8") as file:
        return file.read()


def expressions(page):
    return [line for language, block in FENCE.findall(page) if language == "promql" for line in block.splitlines()]


def commands(page):
    """Lines of shell, in blocks and in sentences."""
    blocks = [line for language, block in FENCE.findall(page) if language == "sh" for line in block.splitlines()]
    spans = [span for span in INLINE.findall(FENCE.sub("", page)) if span.startswith(("flamegrid ", "curl "))]
    return blocks + spans


def form(name):
    """Title, meaning, impact, how to see it, causes: what somebody who was woken looks for, where they expect it."""
    page = text(name)
    flamegrid.check(page.startswith("# %s\n\n" % name), "%s: the title is another", name)
    meaning = page.split("\n\n")[1]
    flamegrid.check(len(meaning) > 40, "%s: no meaning", name)
    flamegrid.check("\n\n**Impact.** " in page, "%s: no impact", name)
    flamegrid.check(expressions(page), "%s: no expression", name)
    flamegrid.check(page.count(TABLE_HEAD) == 1 and re.search(re.escape(TABLE_HEAD) + r"\n\|---\|---\|---\|\n\| \S", page),
                    "%s: no causes", name)


class Programs:
    """What commands and options there are."""

    def __init__(self):
        self.helps = {}

    def help(self, *words):
        if words not in self.helps:
            done = subprocess.run([flamegrid.binary(), *words, "--help"], capture_output=True, text=True, timeout=60)
            self.helps[words] = done.stdout if done.returncode == 0 else ""
        return self.helps[words]

    def faults(self, line):
        """What there is not, of what a line of shell calls."""
        found = COMMAND.search(line)
        if not found:
            return
        words, rest = found.group(1).split(), found.group(2)
        command = words[0]
        usage = self.help(command)
        if not usage:
            yield "there is no command %s: %s" % (command, line)
            return
        if len(words) > 1 and "flamegrid %s VERB" % command not in usage and re.search(r"flamegrid %s [a-z]" % command, usage):
            if not re.search(r"flamegrid %s %s\b" % (command, words[1]), usage):
                yield "%s has no verb %s: %s" % (command, words[1], line)
                return
            usage += self.help(command, words[1])
        for option in re.findall(r"(--[a-z][a-z-]*)", rest):
            if not re.search(re.escape(option) + r"\b", usage):
                yield "%s has no option %s: %s" % (command, option, line)


def setting_faults(page, settings):
    """Settings in quotes that no program has."""
    for span in INLINE.findall(FENCE.sub("", page)):
        for name in re.findall(r"^(%s)(?:: .*)?$" % SETTING.pattern, span):
            if not FILES.search(name) and name not in settings:
                yield "there is no setting %s" % name
