#!/usr/bin/env python3
"""What others install, made of build/release: cmake --install, units of systemd, Debian packages, the container image.

    packages_test.py [--nightly] [-k REGEX]

The image's programs run in it as its user: in a sandbox of bubblewrap, with a root that cannot be written and no network but loopback;
where containers may not be nested, in a chroot.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from flamegrid import ROOT, check  # noqa: E402

BUILD = os.path.join(ROOT, "build", "release")
PROGRAMS = ("flamegrid", "flamegrid-distributor", "flamegrid-ingester", "flamegrid-querier", "flamegrid-compactor")
UNITS = ("flamegrid-server", "flamegrid-agent") + PROGRAMS[1:]
IN_IMAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_image.py")
USER = 10001
IMAGE_MAX_BYTES = 60_000_000
EXPOSURE_MAX = 2.0
WAIT_S = 60
# What Debian's archive demands of uploads: a maintainer's address there, and a bug that asks for the package.
ARCHIVE_TAGS = ("bogus-mail-host", "bogus-mail-host-in-debian-changelog", "initial-upload-closes-no-bugs")
# The compiler's own, which every Debian system has.
TOOLCHAIN = {"libc6", "libgcc-s1", "libstdc++6"}


def output(*command, **more):
    """What a command prints; raises with all of it if it fails."""
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    check(ended.returncode == 0, "%s: %d\n%s", " ".join(command), ended.returncode, ended.stdout[-4000:])
    return ended.stdout


def tree(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def digests(folder):
    found = {}
    for name in tree(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def run_packages():
    """The names in the section [run] of deploy/packages.txt."""
    with open(os.path.join(ROOT, "deploy", "packages.txt"), encoding="utf-8") as file:
        section = re.search(r"^\[run\]\n(.*?)^\[", file.read(), re.M | re.S).group(1)
    return {line for line in section.splitlines() if line and not line.startswith("#")}


class Stage:
    """Folders that several cases use, each made when the first of them asks."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="flamegrid-packages.")
        self.made = {}

    def get(self, name, make):
        if name not in self.made:
            folder = os.path.join(self.folder, name)
            make(folder)
            self.made[name] = folder
        return self.made[name]

    def installed(self):
        return self.get("installed", lambda folder: output("cmake", "--install", BUILD, "--prefix", folder, "--strip"))

    def image(self):
        return self.get("image", lambda folder: output(os.path.join(ROOT, "deploy/image/run"), "--build", BUILD, "-o", folder))

    def foreign_image(self):
        return self.get("foreign", lambda folder: output(os.path.join(ROOT, "deploy/image/run"), "--arch", other_architecture(), "-o", folder))

    def unpacked(self, image=None):
        """An image's root, as a container has it."""
        image = image or self.image()

        def make(folder):
            version = json_of(image, "index.json")["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"]
            output("umoci", "unpack", *([] if os.getuid() == 0 else ["--rootless"]), "--image", "%s:%s" % (image, version), folder)
        return os.path.join(self.get(os.path.basename(image) + "-unpacked", make), "rootfs")

    def packages(self):
        return self.get("packages", lambda folder: output(os.path.join(ROOT, "deploy/debian/run"), "--build", BUILD, "-o", folder))


def json_of(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def blob(image, descriptor):
    return os.path.join(image, "blobs", *descriptor["digest"].split(":"))


# ---- cmake --install ----

def install_has_everything(stage):
    folder = stage.installed()
    found = set(tree(folder))
    commands = output(os.path.join(folder, "bin/flamegrid"), "completion", "words").split()
    wanted = {"bin/" + name for name in PROGRAMS} | {"lib/systemd/system/%s.service" % name for name in UNITS}
    wanted |= {"share/man/man1/flamegrid-%s.1" % name for name in commands if name not in ("server", "agent")}
    wanted |= {"share/man/man8/%s.8" % name for name in UNITS}
    wanted |= {"share/man/man1/flamegrid.1", "lib/sysusers.d/flamegrid.conf", "share/bash-completion/completions/flamegrid",
               "share/zsh/site-functions/_flamegrid", "share/fish/vendor_completions.d/flamegrid.fish",
               "share/doc/flamegrid/examples/flamegrid.yaml", "share/doc/flamegrid/examples/credentials.conf",
               "share/doc/flamegrid/LICENSE", "share/doc/flamegrid/LICENSE.nng", "share/doc/flamegrid/LICENSE.llhttp"}
    check(found == wanted, "missing %s, not known %s", sorted(wanted - found), sorted(found - wanted))
    check(not [name for name in found if not os.path.getsize(os.path.join(folder, name))], "empty files")


def install_honours_destdir(stage):
    folder = os.path.join(stage.folder, "dest")
    output("cmake", "--install", BUILD, "--prefix", "/opt/fg", env=dict(os.environ, DESTDIR=folder))
    check(os.listdir(folder) == ["opt"], "outside of the prefix: %s", os.listdir(folder))
    with open(os.path.join(folder, "opt/fg/lib/systemd/system/flamegrid-server.service"), encoding="utf-8") as file:
        check("ExecStart=/opt/fg/bin/flamegrid server " in file.read(), "the unit does not name the prefix")
    shutil.rmtree(folder)


def programs_contain_no_folder(stage):
    """Also not in debug information: the same sources give the same bytes, wherever they are."""
    for name in PROGRAMS:
        with open(os.path.join(BUILD, name), "rb") as file:
            check(ROOT.encode() + b"/" not in file.read(), "%s contains %s", name, ROOT)


def example_settings_work(stage):
    example = os.path.join(stage.installed(), "share/doc/flamegrid/examples/flamegrid.yaml")
    with open(example, encoding="utf-8") as file:
        text = file.read()
    # The lines that are commented out are settings, too.
    full = os.path.join(stage.folder, "full.yaml")
    with open(full, "w", encoding="utf-8") as file:
        file.write(re.sub(r"^# ((?:admin_listen|memory_max_bytes|bucket|  type|  s3|rpc)\b.*)", r"\1", text, flags=re.M))
    for path in (example, full):
        for name in PROGRAMS:
            command = [os.path.join(BUILD, name)] + (["server"] if name == "flamegrid" else [])
            ended = subprocess.run(command + ["--config", path, "--listen", "nonsense"], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, check=False, cwd=stage.folder, timeout=WAIT_S, env={})
            # 2: it did not understand its settings; 1: it did, and could not listen there.
            check(ended.returncode == 1, "%s with %s: %d %s", name, os.path.basename(path), ended.returncode, ended.stdout)


# ---- systemd ----

def units_are_right(stage):
    folder = os.path.join(stage.installed(), "lib/systemd/system")
    # Templates of drop-ins are verified with the unit that they are for.
    copy = os.path.join(stage.folder, "units")
    shutil.copytree(folder, copy)
    for unit in UNITS:
        drop_in = os.path.join(copy, unit + ".service.d")
        os.mkdir(drop_in)
        shutil.copy(os.path.join(stage.installed(), "share/doc/flamegrid/examples/credentials.conf"), drop_in)
        said = output("systemd-analyze", "verify", "--man=no", os.path.join(copy, unit + ".service"))
        check(not said, "%s: %s", unit, said)


def units_are_hardened(stage):
    for unit in UNITS:
        path = os.path.join(stage.installed(), "lib/systemd/system", unit + ".service")
        said = output("systemd-analyze", "security", "--offline=yes", "--threshold=%d" % (10 * EXPOSURE_MAX), path)
        exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said).group(1))
        check(exposure <= EXPOSURE_MAX, "%s: %s", unit, exposure)


def units_limit_memory_to_the_budget(stage):
    """MemoryMax is a third more than the default of memory_max_bytes."""
    for unit in UNITS:
        with open(os.path.join(stage.installed(), "lib/systemd/system", unit + ".service"), encoding="utf-8") as file:
            text = file.read()
        limit = int(re.search(r"^MemoryMax=(\d+)M$", text, re.M).group(1))
        command = re.search(r"^ExecStart=\S*/(\S+)( \w+)? --config ", text, re.M)
        settings = output(os.path.join(BUILD, command.group(1)), *(command.group(2) or "").split(), "--docs")
        number, prefix = re.search(r"^\| `memory_max_bytes` \| `(\d+)([MG])iB`", settings, re.M).groups()
        default = int(number) << {"M": 0, "G": 10}[prefix]
        check(4 / 3 <= limit / default < 1.4, "%s: %d MiB, and memory_max_bytes is %d MiB", unit, limit, default)


def datagrams_until(manager, word):
    """What the service manager is told, up to the datagram that has the word."""
    seen = []
    while not seen or word not in seen[-1]:
        seen.append(manager.recv(4096).decode())
    return seen


def manager_is_told(_):
    with tempfile.TemporaryDirectory() as folder, flamegrid.Server() as server, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.path.join(folder, "notify"))
        manager.settimeout(WAIT_S)
        server.environment = {"NOTIFY_SOCKET": os.path.join(folder, "notify"), "WATCHDOG_USEC": "200000"}
        server.start()
        datagrams_until(manager, "READY=1")
        check(server.ready() == 200, "READY=1 before /ready answers 200: %d", server.ready())
        seen = "".join(datagrams_until(manager, "STATUS=ready"))
        datagrams_until(manager, "WATCHDOG=1")
        check("STOPPING" not in seen, "stopping too early: %s", seen)
        server.process.send_signal(signal.SIGTERM)
        datagrams_until(manager, "STOPPING=1")
        check(server.wait() == 0, "exit code %s\n%s", server.process.returncode, server.log_tail())


def credentials_are_files(stage):
    """What credentials.conf hands to a service is a setting that it takes."""
    with open(os.path.join(stage.installed(), "share/doc/flamegrid/examples/credentials.conf"), encoding="utf-8") as file:
        text = file.read()
    handed = set(re.findall(r"^LoadCredential=([\w-]+):", text, re.M))
    used = dict(re.findall(r"(FG_\w+)=%d/([\w-]+)", text))
    check(handed == set(used.values()), "handed %s, used %s", handed, used)
    settings = output(os.path.join(BUILD, "flamegrid-ingester"), "--docs")
    for name in used:
        matching = [key for key in re.findall(r"^\| `([\w.]+)`", settings, re.M) if "FG_" + key.upper().replace(".", "_") == name]
        check(matching, "no setting for %s", name)


# ---- Debian packages ----

def packages_are_clean(stage):
    folder = stage.packages()
    found = {name.partition("_")[0] for name in os.listdir(folder) if name.endswith(".deb")}
    check(found == {"flamegrid", "flamegrid-server", "flamegrid-dbgsym", "flamegrid-server-dbgsym"}, "packages: %s", found)
    changes, = glob.glob(os.path.join(folder, "*.changes"))
    root = ["--allow-root"] if os.getuid() == 0 else []
    said = output("lintian", *root, "--fail-on", "error,warning", "--suppress-tags", ",".join(ARCHIVE_TAGS), changes)
    check(not re.search(r"^[EW]:", said, re.M), "lintian: %s", said)


def packages_are_reproducible(stage):
    again = os.path.join(stage.folder, "packages-again")
    output(os.path.join(ROOT, "deploy/debian/run"), "--build", BUILD, "-o", again, env=dict(os.environ, TZ="Asia/Tokyo", DEB_BUILD_OPTIONS="noautodbgsym"))
    once, twice = ({name: digest for name, digest in digests(folder).items()
                    if name.endswith(".deb") and "-dbgsym_" not in name}
                   for folder in (stage.packages(), again))
    check(once == twice, "%s and %s", once, twice)


def packages_have_our_version(stage):
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"project\(flamegrid VERSION (\S+)", file.read()).group(1)
    for path in glob.glob(os.path.join(stage.packages(), "*.deb")):
        said = output("dpkg-deb", "--field", path, "Version").strip()
        check(said.rpartition("-")[0] == version, "%s is %s, the project %s", os.path.basename(path), said, version)


def packages_work_unpacked(stage):
    folder = os.path.join(stage.folder, "debian-root")
    for path in glob.glob(os.path.join(stage.packages(), "flamegrid*_*.deb")):
        if "-dbgsym" not in path:
            output("dpkg-deb", "--extract", path, folder)
    check("version" in output(os.path.join(folder, "usr/bin/flamegrid"), "version", "--json"), "no version")
    for name in PROGRAMS[1:]:
        check("--listen" in output(os.path.join(folder, "usr/bin", name), "--help"), "%s --help", name)
    for unit in UNITS:
        check(os.path.exists(os.path.join(folder, "lib/systemd/system", unit + ".service")), "no unit %s", unit)
    check(os.path.exists(os.path.join(folder, "etc/flamegrid/flamegrid.yaml")), "no settings")


def direct_libraries_are_listed(_):
    """The section [run] of packages.txt has the packages that programs name, and no other."""
    sys.path.insert(0, os.path.join(ROOT, "deploy", "image"))
    import system  # pylint: disable=import-outside-toplevel
    arch = output("dpkg", "--print-architecture").strip()
    paths = {system.find(name, arch) for program in PROGRAMS for name in system.needed(os.path.join(BUILD, program), arch)[0]
             if not name.startswith("ld-linux")}
    named = {name.partition(":")[0] for name in system.owners(paths, arch).values()} - TOOLCHAIN
    listed = run_packages() - {"ca-certificates", "curl"}
    check(named == listed, "programs need %s, packages.txt lists %s", sorted(named - listed), sorted(listed - named))


# ---- image ----

def image_is_reproducible(stage):
    again = os.path.join(stage.folder, "image-again")
    output(os.path.join(ROOT, "deploy/image/run"), "--build", BUILD, "-o", again, env=dict(os.environ, TZ="Asia/Tokyo"), umask=0o077)
    check(digests(stage.image()) == digests(again), "two images of the same programs differ")


def check_size(image, root):
    unpacked = sum(os.lstat(os.path.join(root, name)).st_size for name in tree(root))
    check(unpacked <= IMAGE_MAX_BYTES, "%d bytes unpacked, at most %d", unpacked, IMAGE_MAX_BYTES)
    print("     %.1f MB unpacked, %.1f MB to fetch" %
          (unpacked / 1e6, sum(os.path.getsize(path) for path in glob.glob(os.path.join(image, "blobs/*/*"))) / 1e6))


def image_is_small(stage):
    check_size(stage.image(), stage.unpacked())


def image_is_bare(stage):
    """No shell, nothing that runs as another user, nothing that its user may change but its data."""
    root = stage.unpacked()
    programs = {os.path.basename(name) for name in tree(root) if name.startswith(("usr/bin/", "usr/sbin/"))}
    check(programs == set(PROGRAMS), "programs: %s", programs)
    for at, folders, names in os.walk(root):
        for name in folders + names:
            path = os.path.join(at, name)
            info, where = os.lstat(path), os.path.relpath(path, root)
            check(not info.st_mode & 0o6000, "%s is set-user-id or set-group-id", where)
            check(os.path.islink(path) or where == "tmp" or not info.st_mode & 0o022, "%s can be written by others", where)
            check(os.getuid() != 0 or (info.st_uid == 0) == (where != "var/lib/flamegrid"), "%s is of user %d", where, info.st_uid)


def other_architecture():
    return "amd64" if output("dpkg", "--print-architecture").strip() == "arm64" else "arm64"


def programs_of_another_architecture_are_refused(stage):
    other = other_architecture()
    said = subprocess.run([os.path.join(ROOT, "deploy/image/run"), "--arch", other, "--build", BUILD, "-o", os.path.join(stage.folder, "other")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(said.returncode != 0 and "not for " + other in said.stdout, "%d %s", said.returncode, said.stdout)


def image_says_how_it_runs(stage):
    image = stage.image()
    manifest = json_of(blob(image, json_of(image, "index.json")["manifests"][0]))
    config = json_of(blob(image, manifest["config"]))["config"]
    check(config["User"] == "%d:%d" % (USER, USER), "user %s", config["User"])
    check(config["Entrypoint"] == ["/usr/bin/flamegrid"] and config["Cmd"][0] == "server", "%s", config)
    said = json.loads(output("skopeo", "inspect", "--config", "oci:%s:%s" %
                             (image, json_of(image, "index.json")["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"])))
    check(said["config"]["User"] == config["User"], "skopeo reads %s", said)


def sbom_is_complete(stage):
    image = stage.image()
    subject, referrer = json_of(image, "index.json")["manifests"]
    about = json_of(blob(image, referrer))
    check(about["subject"]["digest"] == subject["digest"], "the referrer is about another image")
    document = json_of(blob(image, about["layers"][0]))
    check(document == json_of(stage.unpacked(), "usr/share/sbom/flamegrid.spdx.json"), "two SBOMs")
    names = {part["name"] for part in document["packages"]}
    check(document["spdxVersion"] == "SPDX-2.3" and {"flamegrid", "nng", "llhttp", "react", "libc6"} <= names, "%s", sorted(names))
    ids = [part["SPDXID"] for part in document["packages"]]
    check(len(ids) == len(set(ids)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in ids), "ids: %s", ids)
    in_image = set(os.listdir(os.path.join(stage.unpacked(), "var/lib/dpkg/status.d")))
    check(in_image <= names, "not in the SBOM: %s", in_image - names)
    check(all(os.path.exists(os.path.join(stage.unpacked(), "usr/share/doc", name, "copyright")) for name in in_image), "no copyright file")


def sandbox_of(root, data, emulator=()):
    """The command before what is to run in the image, by the image's user. emulator: what runs the image's programs."""
    command = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--uid", str(USER), "--gid", str(USER), "--cap-drop", "ALL",
               "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", data, "/var/lib/flamegrid",
               "--clearenv", "--die-with-parent", "--chdir", "/var/lib/flamegrid"]
    nests = subprocess.run(["bwrap", "--unshare-net", "--dev-bind", "/", "/"] + command + [*emulator, "/usr/bin/flamegrid", "version"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    if nests:
        return ["bwrap", "--unshare-net", "--dev-bind", "/", "/", "--die-with-parent"], command
    # Data is in the root itself, which has to be of the image's user there, as umoci has left it.
    check(os.getuid() == 0, "neither bubblewrap nor chroot is allowed here")
    return [], ["chroot", "--userspec=%d:%d" % (USER, USER), root]


def image_needs_no_other_library(stage):
    root = stage.unpacked()
    with tempfile.TemporaryDirectory() as data:
        outer, inner = sandbox_of(root, data)
        for name in PROGRAMS:
            said = output(*outer, *inner, "/lib64/ld-linux-x86-64.so.2" if os.uname().machine == "x86_64" else "/lib/ld-linux-aarch64.so.1",
                          "--list", "/usr/bin/" + name)
            check("not found" not in said and "=>" in said, "%s: %s", name, said)


def server_works_in_the_image(stage):
    with tempfile.TemporaryDirectory() as data:
        outer, inner = sandbox_of(stage.unpacked(), data)
        output(*outer, sys.executable, IN_IMAGE, *inner, timeout=4 * WAIT_S)


# ---- by night ----

def release_is_the_same_in_two_folders(stage):
    """From the compiler on, without its cache."""
    built = []
    for name in ("here", "elsewhere/deeper"):
        folder = os.path.join(stage.folder, name)
        output("git", "clone", "--quiet", ROOT, folder)
        output("deploy/deps", cwd=folder)
        output("deploy/run", "--build-only", cwd=folder, env=dict(os.environ, CCACHE_DISABLE="1", CC="gcc", CXX="g++"))
        built.append({name: digests(os.path.join(folder, "build/release"))[name] for name in PROGRAMS})
        shutil.rmtree(folder)
    check(built[0] == built[1], "%s and %s", *built)


def image_of_another_architecture_works(stage):
    """Made from here, and run by an emulator of that processor, which is no part of it."""
    image = stage.foreign_image()
    root = stage.unpacked(image)
    check_size(image, root)
    emulator = "/usr/bin/qemu-%s-static" % {"arm64": "aarch64", "amd64": "x86_64"}[other_architecture()]
    output(os.path.join(ROOT, "deploy/install"), "cross")
    shutil.copy(emulator, root + emulator)
    with tempfile.TemporaryDirectory() as data:
        outer, inner = sandbox_of(root, data, [emulator])
        output(*outer, sys.executable, IN_IMAGE, *inner, emulator, timeout=4 * WAIT_S)


def packages_install(stage):
    """In a fresh Debian: installed by apt, run as its user, removed without a rest."""
    root = os.path.join(stage.folder, "bookworm")
    output("mmdebstrap", "--variant=apt", "--include=systemd", "bookworm", root)
    for path in glob.glob(os.path.join(stage.packages(), "flamegrid*_*.deb")):
        if "-dbgsym" not in path:
            shutil.copy(path, os.path.join(root, "tmp"))
    names = ["/tmp/" + os.path.basename(path) for path in glob.glob(os.path.join(root, "tmp/*.deb"))]
    quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    shutil.copy("/etc/resolv.conf", os.path.join(root, "etc"))
    output("chroot", root, "apt-get", "update")
    output("chroot", root, "apt-get", "install", "-y", "--no-install-recommends", *names, env=quiet)
    check("flamegrid" in output("chroot", root, "getent", "passwd", "flamegrid"), "no user")
    check(not glob.glob(os.path.join(root, "etc/systemd/system/*.wants/flamegrid*")), "a unit is enabled")
    output("chroot", "--userspec=flamegrid", root, "flamegrid-ingester", "--help")
    output("chroot", root, "apt-get", "purge", "-y", "flamegrid", "flamegrid-server", env=quiet)
    left = [name for name in tree(root) if "flamegrid" in name and not name.startswith(("tmp/", "var/log/", "var/lib/systemd/"))]
    check(not left, "left: %s", left)


FAST = (install_has_everything, install_honours_destdir, programs_contain_no_folder, example_settings_work,
        units_are_right, units_are_hardened, units_limit_memory_to_the_budget, manager_is_told, credentials_are_files,
        packages_are_clean, packages_are_reproducible, packages_have_our_version, packages_work_unpacked, direct_libraries_are_listed,
        image_is_reproducible, image_is_small, image_is_bare, programs_of_another_architecture_are_refused, image_says_how_it_runs, sbom_is_complete, image_needs_no_other_library,
        server_works_in_the_image)
NIGHTLY = (release_is_the_same_in_two_folders, image_of_another_architecture_works, packages_install)


def main():
    parser = flamegrid.arguments_of(__doc__)
    parser.add_argument("--nightly", action="store_true", help="also what takes long or needs the network")
    arguments = parser.parse_args()
    os.environ["FG_BINARY"] = os.path.join(BUILD, "flamegrid")
    tally, stage = flamegrid.Tally(arguments.pattern), Stage()
    try:
        for case in FAST + (NIGHTLY if arguments.nightly else ()):
            tally.run(case.__name__, case, stage)
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)
    tally.finish()


main()
