#!/usr/bin/env python3
"""Are the release's programs hardened, and every part of each?

    hardened.py BUILD     a folder built by gcc with -DFG_PRESET=release -G Ninja

A program shows most of it by itself: position independent, nothing writable and executable, all of the relocated
part read only once it has started, calls of the C library's that check. What each part was compiled with its debug
information says. The linker marks a program for control-flow enforcement (x86: IBT, SHSTK) if all that it links is
marked; Debian 12's own start files are not, so its programs cannot be. The linker then says who was not: nobody but those.
"""

import glob
import os
import platform
import re
import subprocess
import sys
import tempfile

X86 = platform.machine() == "x86_64"
COMPILED_WITH = ("-O2", "-fstack-protector-strong", "-fstack-clash-protection") + (("-fcf-protection",) if X86 else ())
# With _FORTIFY_SOURCE all calls of these become calls of __printf_chk and so on.
UNCHECKED = {"printf", "fprintf", "vprintf", "vfprintf", "sprintf", "vsprintf", "dprintf", "vdprintf"}
SHOWN = 10  # of one program and kind
START_FILES = re.compile(r"/(S?crt1\.o|crti\.o|crtn\.o|libc_nonshared\.a)\b")


def output(*command, cwd=None):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd).stdout


def layout(program):
    header, segments, dynamic = (output("readelf", option, program) for option in ("-hW", "-lW", "-dW"))
    flags = dict(re.findall(r"^ +(LOAD|GNU_STACK|GNU_RELRO) +(?:0x\w+ +){5}([RWE ]{3})", segments, re.M))
    if not re.search(r"Type: +DYN", header) or not re.search(r"\(FLAGS_1\).*\bPIE\b", dynamic):
        yield "not position independent (PIE)"
    if "GNU_RELRO" not in flags:
        yield "no RELRO"
    if not re.search(r"\(FLAGS_1\).*\bNOW\b", dynamic):
        yield "RELRO is not full: not linked with -z now"
    if "E" in flags.get("GNU_STACK", "E"):
        yield "the stack is executable"
    if re.search(r"^ +LOAD .* RWE ", segments, re.M):
        yield "a segment is writable and executable"
    if re.search(r"\((TEXTREL|RPATH|RUNPATH)\)", dynamic):
        yield "TEXTREL, RPATH or RUNPATH"


def calls(program):
    names = {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--undefined-only", program).splitlines()}
    if "__stack_chk_fail" not in names:
        yield "no stack canaries"
    if not any(name.endswith("_chk") for name in names):
        yield "no checked calls (_FORTIFY_SOURCE)"
    if names & UNCHECKED:
        yield "calls without checks (_FORTIFY_SOURCE): %s" % ", ".join(sorted(names & UNCHECKED))


def parts(program):
    """Of each compile unit the flags it was compiled with, from the debug information."""
    unit = re.compile(r"DW_AT_producer *:(?: \(.*?\):)? (.*)\n(?:.*\n)*?.*DW_AT_name *:(?: \(.*?\):)? (.*)")
    units = unit.findall(output("readelf", "--debug-dump=info", "--dwarf-depth=1", "-W", program))
    if not units:
        yield "no debug information"
    for producer, name in units:
        missing = [flag for flag in COMPILED_WITH if flag not in producer]
        if missing:
            yield "%s: compiled without %s" % (name.strip(), " ".join(missing))


def control_flow(program):
    """Links it once more, for the linker's report."""
    build, name = os.path.split(program)
    command = output("ninja", "-t", "commands", name, cwd=build).splitlines()[-1]
    match = re.fullmatch(r": && (.*) -o %s (.*) && :" % re.escape(name), command)
    if not match:
        yield "the command that links it looks new: %s" % command
        return
    with tempfile.TemporaryDirectory() as folder:
        again = "%s -o %s/again -Wl,-z,cet-report=warning %s" % (match[1], folder, match[2])
        said = output("sh", "-c", again, cwd=build)
    unmarked = [line for line in said.splitlines() if "missing" in line]
    strangers = sorted({line for line in unmarked if not START_FILES.search(line)})
    marked = re.search(r"x86 feature: IBT, SHSTK", output("readelf", "-nW", program))
    yield from strangers
    if not unmarked and not marked:
        yield "not marked for control-flow enforcement, and the linker does not say why"


def main():
    programs = [path for path in glob.glob(os.path.join(sys.argv[1], "flamegrid*")) if os.access(path, os.X_OK)]
    if len(programs) < 5:
        sys.exit("programs are missing: %s" % programs)
    found = 0
    for program in sorted(programs):
        for check in (layout, calls, parts) + ((control_flow,) if X86 else ()):
            troubles = list(check(program))
            for trouble in troubles[:SHOWN]:
                print("%s: %s" % (os.path.basename(program), trouble))
            if len(troubles) > SHOWN:
                print("%s: and %d more like it" % (os.path.basename(program), len(troubles) - SHOWN))
            found += len(troubles)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
