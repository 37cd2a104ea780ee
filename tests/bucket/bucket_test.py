"""The bucket in object stores that others wrote.

versitygw keeps every condition that we need, so the suite has to pass and the proof to succeed. moto
passes over If-Match when an upload in parts is completed: there the proof has to refuse it, and say so.
"""

import hashlib
import hmac
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))

import caching  # noqa: E402
import exporting  # noqa: E402
import flamegrid  # noqa: E402
import keeping  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(ROOT, "build", "bucket")
OLDEST_GO = (1, 25)
INSTALL_TIMEOUT_S = 900
START_TIMEOUT_S = 60
SUITE_TIMEOUT_S = 300
NAME = "flamegrid"  # of bucket, access key and secret key
REGION = "us-east-1"


class Unavailable(Exception):
    """A toolchain or a registry is not there; nothing is wrong with us."""


def fetch(*command, **options):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=INSTALL_TIMEOUT_S, **options)
    except (OSError, subprocess.TimeoutExpired) as missing:
        raise Unavailable(str(missing))
    if done.returncode != 0:
        raise Unavailable("%s: %s" % (" ".join(command), done.stdout.decode("utf-8", "replace")[-400:]))
    return done.stdout.decode("utf-8", "replace")


class Store:
    """A server process with an empty bucket."""

    refused = None  # what the proof says of it

    def __init__(self, folder):
        self.folder = folder
        self.port = flamegrid.free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        self.process = None

    def start(self):
        self.install()
        self.process = subprocess.Popen(self.command(), cwd=self.folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "ROOT_ACCESS_KEY": NAME, "ROOT_SECRET_KEY": NAME})
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.make_bucket():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("%s did not start" % type(self).__name__)
            time.sleep(0.05)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def make_bucket(self):
        try:
            with urllib.request.urlopen(signed_put("127.0.0.1:%d" % self.port, "/" + NAME), timeout=5):
                return True
        except urllib.error.HTTPError as fault:
            return fault.code == 409  # it is there
        except OSError:
            return False


class Versitygw(Store):
    program = os.path.join(BUILD, "versitygw")

    def install(self):
        """Built once, from what go.sum locks."""
        version = re.search(r"go(\d+)\.(\d+)", fetch("go", "version"))
        if version is None or tuple(map(int, version.groups())) < OLDEST_GO:
            raise Unavailable("no Go %d.%d or later" % OLDEST_GO)
        fetch("go", "build", "-mod=readonly", "-o", self.program, "github.com/versity/versitygw/cmd/versitygw",
              cwd=os.path.join(HERE, "versitygw"))
        self.home = os.path.join(self.folder, "store")
        os.makedirs(self.home, exist_ok=True)
        try:
            # Where there are none it could keep etags beside the objects (--sidecar), but then it gives a
            # content with another one's etag now and then, and updates are lost.
            os.setxattr(self.home, "user.flamegrid", b"")
        except OSError as fault:
            raise Unavailable("%s: attributes for users: %s" % (self.home, fault))

    def command(self):
        return [self.program, "--port", "127.0.0.1:%d" % self.port, "--quiet", "posix", self.home]


class Moto(Store):
    refused = "a multipart put if match"

    def install(self):
        """A virtual environment with what locks/moto.txt lists."""
        self.home = os.path.join(BUILD, "venv-moto")
        if not os.path.exists(os.path.join(self.home, "bin", "pip")):
            fetch(sys.executable, "-m", "venv", self.home)
        fetch(os.path.join(self.home, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check",
              "--require-hashes", "--requirement", os.path.join(HERE, "locks", "moto.txt"))

    def command(self):
        return [os.path.join(self.home, "bin", "moto_server"), "-H", "127.0.0.1", "-p", str(self.port)]


def signed_put(host, path, content=b""):
    """Signed by Signature Version 4, by other lines than those under test."""
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    digest = hashlib.sha256(content).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": date}
    names = ";".join(sorted(headers))
    request = "\n".join(["PUT", path, "", *("%s:%s" % item for item in sorted(headers.items())), "", names, digest])
    scope = "%s/%s/s3/aws4_request" % (date[:8], REGION)
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = ("AWS4" + NAME).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["Content-Type"] = "application/octet-stream"  # else it would be a form
    headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s" % (
        NAME, scope, names, hmac.new(key, text.encode(), hashlib.sha256).hexdigest())
    return urllib.request.Request("http://%s%s" % (host, path), data=content, method="PUT", headers=headers)


def any_store(folder):
    """The first of them that can be had; why not, of each, where none can."""
    reasons = []
    for kind in (Versitygw, Moto):
        store = kind(folder)
        try:
            store.start()
            return store, reasons
        except Unavailable as why:
            reasons.append("%s: %s" % (kind.__name__, why))
        except RuntimeError:
            store.stop()
            raise
    return None, reasons


# ---- the suite ----

def run_suite(tally, store):
    """Each of its cases is one of ours."""
    environment = {**os.environ, "FG_TEST_S3": store.url}
    if store.refused:
        environment["FG_TEST_S3_REFUSED"] = store.refused
    done = subprocess.run([os.path.join(ROOT, "build", "dev", "tests", "bin", "test_bucket")], cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=SUITE_TIMEOUT_S, env=environment)
    said = done.stdout.decode("utf-8", "replace")
    good = re.findall(r"^\[       OK \] (.*)$", said, re.M)
    bad = set(re.findall(r"^\[  FAILED  \] (.* \(s3\))$", said, re.M))
    for name in filter(tally.wants, good):
        tally.ok(name)
    for name in filter(tally.wants, bad):
        tally.fail(name, said[-3000:])
    if not good or (done.returncode != 0 and not bad):
        tally.fail("suite", "exit code %d: %s" % (done.returncode, said[-3000:]))


# ---- the command ----

class Bucket:
    """`flamegrid bucket`, with settings that are always the same."""

    def __init__(self, settings, environment):
        self.settings = settings
        self.environment = {**{name: value for name, value in os.environ.items()
                               if not name.startswith(("FG_", "AWS_"))}, **environment}

    def run(self, *arguments):
        done = subprocess.run([flamegrid.binary(), "bucket", *arguments, *self.settings], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, env=self.environment)
        return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")

    def good(self, *arguments):
        code, out, err = self.run(*arguments)
        flamegrid.check(code == 0, "%s: exit code %d: %s", arguments, code, err)
        return out

    def bad(self, want_code, want_err, *arguments):
        code, out, err = self.run(*arguments)
        flamegrid.check(code == want_code and want_err in err and not out, "%s: exit code %d, %s, %s", arguments,
                        code, out, err)

    def names(self, *arguments):
        return [line.split()[-1].decode() for line in self.good("ls", *arguments).splitlines()]


def use_command(bucket, put):
    """put(name, content) as somebody else would."""
    big = os.urandom(9 * 1024 * 1024)  # more than cat reads at a time
    put("cli/a", b"one\n")
    put("cli/b/c", big)
    flamegrid.check(bucket.names("cli/") == ["cli/a", "cli/b/"], "%s", bucket.names("cli/"))
    flamegrid.check(bucket.names("cli/", "-r") == ["cli/a", "cli/b/c"], "%s", bucket.names("cli/", "-r"))
    line = bucket.good("ls", "cli/a").decode()
    flamegrid.check(re.fullmatch(r" +4  20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ  cli/a\n", line), "%s", line)
    flamegrid.check(bucket.good("cat", "cli/a") == b"one\n", "cat of a small one")
    flamegrid.check(bucket.good("cat", "cli/b/c") == big, "cat of a large one")
    bucket.bad(1, "get cli/none: ", "cat", "cli/none")
    bucket.good("rm", "cli/a")
    bucket.bad(1, "head cli/a", "rm", "cli/a")
    flamegrid.check(bucket.names("cli/", "--recursive") == ["cli/b/c"], "after rm")
    bucket.bad(1, 'has a segment "." or ".."', "cat", "../a")
    bucket.bad(2, "a name has to follow", "cat")


def command_on_a_directory(folder):
    data = os.path.join(folder, "data")
    bucket = Bucket(["--data", data], {})
    bucket.bad(1, "no bucket at %s/bucket" % data, "ls")
    os.makedirs(os.path.join(data, "bucket"))

    def put(name, content):
        path = os.path.join(data, "bucket", "objects", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    use_command(bucket, put)


def command_without_a_verb(_folder):
    bucket = Bucket([], {})
    flamegrid.check(b"usage: flamegrid bucket ls" in bucket.good("--help"), "--help")
    bucket.bad(2, 'unknown verb "mv"', "mv", "a", "b")
    bucket.bad(2, "usage: flamegrid bucket ls")
    bucket.bad(2, "unknown flag", "ls", "--buckets.type", "s3")


def settings_of(store):
    return ["--bucket.type", "s3", "--bucket.s3.endpoint", store.url, "--bucket.s3.bucket", NAME,
            "--bucket.s3.prefix", "command"]


def command_on_a_store(store, _folder):
    keys = {"AWS_ACCESS_KEY_ID": NAME, "AWS_SECRET_ACCESS_KEY": NAME}
    bucket = Bucket(settings_of(store), keys)

    def put(name, content):
        request = signed_put("127.0.0.1:%d" % store.port, "/%s/command/%s" % (NAME, name), content)
        with urllib.request.urlopen(request, timeout=30):
            pass

    use_command(bucket, put)


def keys_from_files(store, folder):
    for name in ("access", "secret"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(NAME + "\n")
    files = ["--bucket.s3.access_key_file", os.path.join(folder, "access"), "--bucket.s3.secret_key_file",
             os.path.join(folder, "secret")]
    Bucket(settings_of(store) + files, {}).good("ls")
    Bucket(settings_of(store), {}).bad(1, "no keys", "ls")
    Bucket(settings_of(store) + ["--bucket.s3.access_key", NAME, "--bucket.s3.secret_key", NAME],
           {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other"}).good("ls")
    if isinstance(store, Versitygw):  # moto looks at no signature
        Bucket(settings_of(store), {"AWS_ACCESS_KEY_ID": NAME, "AWS_SECRET_ACCESS_KEY": "wrong"}).bad(
            1, "SignatureDoesNotMatch", "ls")


def export_from_a_directory(folder):
    Bucket(["--data", folder], {}).bad(1, "no bucket at", "export", "{}", "-o", "none")
    exporting.export_and_push_back(Bucket([], {}), [], tempfile.mkdtemp(dir=folder))


def nodes_outlive_profiles(folder):
    keeping.nodes_outlive_profiles(Bucket([], {}), [], tempfile.mkdtemp(dir=folder))


def server_settings_of(store, prefix):
    settings = settings_of(store) + ["--bucket.s3.access_key", NAME, "--bucket.s3.secret_key", NAME]
    settings[settings.index("command")] = prefix
    return settings


def disk_cache_of_a_store(store, _folder):
    caching.restart_and_faults(server_settings_of(store, "disk"))
    caching.refused(server_settings_of(store, "disk"))


def export_from_a_store(store, folder):
    settings = server_settings_of(store, "export")
    exporting.export_and_push_back(Bucket(settings, {}), settings, tempfile.mkdtemp(dir=folder))


def secrets_are_not_shown(_store, _folder):
    with flamegrid.Server("--bucket.s3.secret_key", "very-secret", "--bucket.s3.session_token",
                          "token-secret") as server:
        status, body = flamegrid.Client(server.start().wait_ready().port).send("GET", "/config")
        flamegrid.check(status == 200 and b"bucket.s3:\n" in body and b"secret_key: \"***\"" in body, "%s", body)
        flamegrid.check(b"very-secret" not in body and b"token-secret" not in body, "%s", body)
        flamegrid.check("very-secret" not in server.log_tail(), "%s", server.log_tail())


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    os.makedirs(BUILD, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flamegrid-bucket.") as folder:
        tally.run("command on a directory", command_on_a_directory, folder)
        tally.run("command without a verb", command_without_a_verb, folder)
        tally.run("export from a directory", export_from_a_directory, folder)
        tally.run("nodes outlive profiles", nodes_outlive_profiles, folder)
        tally.run("secrets are not shown", secrets_are_not_shown, None, folder)
        cases = {"command on a store": command_on_a_store, "keys from files": keys_from_files,
                 "export from a store": export_from_a_store, "disk cache of a store": disk_cache_of_a_store}
        store, reasons = any_store(folder)
        if store is None:
            for name in ["suite", *cases]:
                if tally.wants(name):
                    tally.skip(name, "; ".join(reasons))
        else:
            try:
                print("with %s" % type(store).__name__, flush=True)
                run_suite(tally, store)
                for name, case in cases.items():
                    tally.run(name, case, store, folder)
            finally:
                store.stop()
    tally.finish()


if __name__ == "__main__":
    main()
