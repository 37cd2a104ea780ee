#!/usr/bin/env python3
"""Makes an image from a release build and the machine's Debian packages; deploy/image/run calls it.

    SOURCE_DATE_EPOCH=… make.py --arch amd64 --build build/release --out FOLDER [--debug]
"""

import argparse
import datetime
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile

import oci
import sbom
import system

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("flamegrid", "flamegrid-distributor", "flamegrid-ingester", "flamegrid-querier", "flamegrid-compactor")
USER = 10001
DATA = "var/lib/flamegrid"
# Merged, as Debian 12 is: what is asked for in /lib is in /usr/lib.
MERGED = ("bin", "lib", "lib64", "sbin")
BUNDLE = "etc/ssl/certs/ca-certificates.crt"


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def programs(build, arch, debug):
    """The programs' bytes. Debug information is left out unless the image is one for debuggers; the table of symbols stays, from which
    self-profiling has the names of functions."""
    strip = system.TRIPLETS[arch] + "-strip" if system.emulator(arch) else "strip"
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            path = os.path.join(build, name)
            if not debug:
                path = shutil.copy(path, folder)
                subprocess.run([strip, "--strip-debug", path], check=True)
            found[name] = read(path)
    return found


def put_system(files, libraries, packages):
    """Debian's part: libraries, who they are of, authorities, and the few files that the C library looks at."""
    for folder in MERGED:
        files.folder("usr/" + folder)
        files.link(folder, "usr/" + folder)
    for path, real in libraries.items():
        name = os.path.realpath(os.path.dirname(path)).lstrip("/") + "/" + os.path.basename(path)
        files.file(real.lstrip("/"), read(real), 0o755)
        if name != real.lstrip("/"):
            files.link(name, os.path.relpath("/" + real.lstrip("/"), "/" + os.path.dirname(name)))
    for name, status in packages.items():
        files.file("var/lib/dpkg/status.d/" + name, status.encode())
        files.file("usr/share/doc/%s/copyright" % name, read("/usr/share/doc", name, "copyright"))
    # Not the machine's own bundle: that may have authorities that its owner has added.
    files.file(BUNDLE, b"".join(map(read, sorted(glob.glob("/usr/share/ca-certificates/mozilla/*.crt")))))
    files.link("usr/lib/ssl/cert.pem", "/" + BUNDLE)  # where OpenSSL looks
    files.file("etc/os-release", read("/usr/lib/os-release"))
    files.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    files.file("etc/passwd", b"root:x:0:0:root:/:/sbin/nologin\nflamegrid:x:%d:%d:flamegrid:/%s:/sbin/nologin\n" % (USER, USER, DATA.encode()))
    files.file("etc/group", b"root:x:0:\nflamegrid:x:%d:\n" % USER)
    files.folder("tmp", 0o1777)


def put_programs(files, found, sbom_text):
    for name, data in found.items():
        files.file("usr/bin/" + name, data, 0o755)
    files.folder("etc/flamegrid")
    files.folder(DATA, 0o750, USER)
    files.file("usr/share/doc/flamegrid/LICENSE", read(ROOT, "LICENSE"))
    for path in sorted(glob.glob(os.path.join(ROOT, "build/deps/licences/*"))):
        files.file("usr/share/doc/flamegrid/" + os.path.basename(path), read(path))
    files.file("usr/share/sbom/flamegrid.spdx.json", sbom_text)


def put_shell(files, arch):
    busybox = "/bin/busybox"
    system.needed(busybox, arch)
    files.file("usr/bin/busybox", read(busybox), 0o755)
    for applet in system.output(*system.emulator(arch), busybox, "--list").split():
        files.link("usr/bin/" + applet, "busybox")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", required=True, choices=sorted(system.TRIPLETS))
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--debug", action="store_true")
    args = parser.parse_args()
    date = int(os.environ["SOURCE_DATE_EPOCH"])
    date_text = datetime.datetime.fromtimestamp(date, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    version = re.search(r"project\(flamegrid VERSION (\S+)", read(ROOT, "CMakeLists.txt").decode()).group(1)
    release = re.search(r'^VERSION_ID="(.*)"', read("/usr/lib/os-release").decode(), re.M).group(1)

    # First: it refuses programs of another architecture.
    libraries = system.libraries([os.path.join(args.build, name) for name in PROGRAMS], args.arch)
    found = programs(args.build, args.arch, args.debug)
    owned = set(system.owners(libraries.values(), args.arch).values()) | {"ca-certificates"}
    if args.debug:
        owned.add("busybox-static")
    packages = system.describe(sorted(owned))
    sbom_text = sbom.document(
        sbom.package("flamegrid", version, "pkg:generic/flamegrid@" + version, "Apache-2.0"),
        [sbom.of_debian(status, release) for status in packages.values()] +
        list(sbom.of_sources(read(ROOT, "build/deps/sources").decode())) +
        list(sbom.of_page(json.loads(read(ROOT, "querier/ui/package-lock.json")))),
        hashlib.sha256(b"".join(found.values())).hexdigest(), date_text)

    debian, ours = oci.Files(), oci.Files()
    put_system(debian, libraries, packages)
    put_programs(ours, found, sbom_text)
    layers = [("libraries of Debian " + release, debian.tar(date)), ("flamegrid " + version, ours.tar(date))]
    if args.debug:
        shell = oci.Files()
        put_shell(shell, args.arch)
        layers.append(("busybox", shell.tar(date)))
    labels = {"org.opencontainers.image.title": "flamegrid", "org.opencontainers.image.version": version,
              "org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.created": date_text}
    layout = oci.Layout(args.out)
    manifest = layout.image(layers, args.arch, {
        "User": "%d:%d" % (USER, USER), "WorkingDir": "/" + DATA, "Entrypoint": ["/usr/bin/flamegrid"],
        "Cmd": ["server", "--listen", ":4040", "--admin_listen", ":5040", "--data", "/" + DATA],
        "Env": ["PATH=/usr/bin", "SSL_CERT_FILE=/" + BUNDLE], "ExposedPorts": {"4040/tcp": {}, "5040/tcp": {}},
        "StopSignal": "SIGTERM", "Labels": labels}, date_text, version, labels)
    layout.referrer(manifest, sbom_text, "application/spdx+json", date_text)
    layout.close()
    print("%s: %s, %s, %.1f MB unpacked" % (args.out, args.arch, manifest["digest"], sum(len(tar) for _, tar in layers) / 1e6))


main()
