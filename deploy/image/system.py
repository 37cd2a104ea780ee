"""The part of the machine's Debian that programs need at run time: shared libraries, found as the loader finds them, and the packages
that these belong to. It reads programs of other architectures as well, whose packages dpkg knows next to the machine's own (multiarch)."""

import glob
import os
import platform
import re
import subprocess

TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
MACHINES = {"amd64": "Advanced Micro Devices X86-64", "arm64": "AArch64"}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def emulator(arch):
    """What runs programs of the architecture, before their arguments."""
    processor = TRIPLETS[arch].partition("-")[0]
    return [] if platform.machine() == processor else ["qemu-%s-static" % processor]


def needed(path, arch):
    """The libraries that an ELF file names, and its loader."""
    text = output("readelf", "-hldW", path)
    machine = re.search(r"Machine: +(.*)", text).group(1)
    if machine != MACHINES[arch]:
        raise SystemExit("%s is for %s, not for %s" % (path, machine, arch))
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text), re.findall(r"interpreter: ([^\]]+)\]", text)


def find(name, arch):
    for folder in ("/usr/lib/" + TRIPLETS[arch], "/lib/" + TRIPLETS[arch], "/usr/lib", "/lib"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    raise SystemExit("%s is not installed for %s: deploy/install run" % (name, arch))


def libraries(programs, arch):
    """All libraries that the programs load, and the loader: {path the loader opens: file}."""
    found, waiting = {}, list(programs)
    while waiting:
        names, loaders = needed(waiting.pop(), arch)
        for path in [find(name, arch) for name in names] + loaders:
            if path not in found:
                found[path] = os.path.realpath(path)
                waiting.append(found[path])
    return found


def owners(files, arch):
    """The Debian packages of files: {file: package}. dpkg knows a file below /usr by the name without it if its package is older."""
    owner = {}
    for listed in glob.glob("/var/lib/dpkg/info/*.list"):
        name = os.path.basename(listed)[:-len(".list")]
        if not name.endswith(":" + arch) and ":" in name:
            continue
        with open(listed, encoding="utf-8") as file:
            for path in file.read().split("\n"):
                owner[path] = name
    found = {}
    for path in files:
        real = os.path.realpath(path)
        package = owner.get(real) or owner.get(real[len("/usr"):] if real.startswith("/usr/") else "/usr" + real)
        if package is None:
            raise SystemExit("%s belongs to no Debian package" % path)
        found[path] = package
    return found


def describe(packages):
    """What dpkg knows of packages, as in its status file: {name: its paragraph}."""
    paragraphs = output("dpkg-query", "-s", *packages).rstrip("\n").split("\n\n")
    return {field(paragraph, "Package"): paragraph + "\n" for paragraph in paragraphs}


def field(status, name):
    match = re.search(r"^%s: (.*)$" % name, status, re.M)
    return match.group(1) if match else None
