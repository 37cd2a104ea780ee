"""The bucket in object stores that others wrote.

versitygw keeps every condition that we need, so the suite has to pass and the proof to succeed. moto
passes over If-Match when an upload in parts is completed: there the proof has to refuse it, and say so.
"""

import os
import re
import subprocess
import sys
import tempfile
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))

import caching  # noqa: E402
import encryption  # noqa: E402
import exporting  # noqa: E402
import flamegrid  # noqa: E402
import keeping  # noqa: E402
import mending  # noqa: E402
import skew  # noqa: E402
import stores  # noqa: E402
import vault  # noqa: E402
import vaults  # noqa: E402
import versions  # noqa: E402
from stores import NAME, Versitygw, signed_put  # noqa: E402

SUITE_TIMEOUT_S = 300


# ---- the suite ----

def run_suite(tally, store):
    """Each case of the suite is one case here."""
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
    """`flamegrid bucket` with fixed settings."""

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
    """put(name, content) as another program would."""
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
    bucket.bad(2, "NAME has to follow", "cat")


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
    bucket.bad(2, "quarantine or export has to follow; see flamegrid bucket --help")
    bucket.bad(2, "unknown flag", "ls", "--buckets.type", "s3")


def settings_of(store):
    return stores.settings(store, "command")


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


def lost_objects_are_made_again(folder):
    mending.lost_and_found(Bucket([], {}), tempfile.mkdtemp(dir=folder))


def server_settings_of(store, prefix):
    return stores.settings(store, prefix) + stores.keys()


def disk_cache_of_a_store(store, _folder):
    caching.restart_and_faults(server_settings_of(store, "disk"))
    caching.refused(server_settings_of(store, "disk"))


def export_from_a_store(store, folder):
    settings = server_settings_of(store, "export")
    exporting.export_and_push_back(Bucket(settings, {}), settings, tempfile.mkdtemp(dir=folder))


def clock_of_a_store(store, _folder):
    skew.clocks_that_are_off(server_settings_of(store, "skew"))


def secrets_are_not_shown(_store, _folder):
    with flamegrid.Server("--bucket.s3.secret_key", "very-secret", "--bucket.s3.session_token",
                          "token-secret") as server:
        status, body = server.start().wait_ready().operate("GET", "/config")
        flamegrid.check(status == 200 and b"bucket.s3:\n" in body and b"secret_key: \"***\"" in body, "%s", body)
        flamegrid.check(b"very-secret" not in body and b"token-secret" not in body, "%s", body)
        flamegrid.check("very-secret" not in server.log_tail(), "%s", server.log_tail())


def main():
    parser = flamegrid.arguments_of(__doc__)
    parser.add_argument("--vault", action="store_true", help="build Vault if it is not there: some minutes of processor time")
    options = parser.parse_args()
    tally = flamegrid.Tally(options.pattern)
    with tempfile.TemporaryDirectory(prefix="flamegrid-bucket.") as folder:
        tally.run("command on a directory", command_on_a_directory, folder)
        tally.run("command without a verb", command_without_a_verb, folder)
        tally.run("export from a directory", export_from_a_directory, folder)
        tally.run("nodes outlive profiles", nodes_outlive_profiles, folder)
        tally.run("lost objects are made again", lost_objects_are_made_again, folder)
        for version in versions.versions():
            tally.run("data of format %s" % version, versions.fixture_is_read, version)
        tally.run("usage is rebuilt", versions.usage_is_rebuilt)
        tally.run("objects of a newer format", versions.newer_objects_are_unreadable_not_damaged)
        tally.run("what upgrade-check says", versions.upgrade_check_says_what_is_there)
        tally.run("the oldest format is written", versions.oldest_version_is_written)
        tally.run("encrypted: answers are the same", encryption.answers_are_the_same)
        tally.run("encrypted: queriers that share", encryption.queriers_that_share_their_caches_have_the_keys)
        tally.run("encrypted: unreadable is no damage", encryption.what_cannot_be_read_is_no_damage)
        tally.run("encrypted: keys are renewed", encryption.keys_are_renewed)
        tally.run("encrypted: a tenant is shredded", encryption.a_tenant_is_shredded)
        tally.run("encrypted: the head, too", encryption.the_head_is_encrypted)
        tally.run("encrypted: a vault is asked once", vaults.a_vault_is_asked_once)
        tally.run("encrypted: keys are in a vault", vaults.keys_are_in_its_double)
        case = "encrypted: keys are in Vault itself"
        missing = vault.why_missing(options.vault) if tally.wants(case) else None
        if missing:
            tally.skip(case, missing)
        else:
            tally.run(case, vaults.keys_are_in_vault_itself)
        case = "encrypted: keys are in a KMS"
        missing = stores.why_missing(stores.Moto(folder)) if tally.wants(case) else None
        if missing:
            tally.skip(case, missing)
        else:
            tally.run(case, encryption.keys_are_in_a_kms)
        tally.run("secrets are not shown", secrets_are_not_shown, None, folder)
        cases = {"command on a store": command_on_a_store, "keys from files": keys_from_files,
                 "export from a store": export_from_a_store, "disk cache of a store": disk_cache_of_a_store,
                 "clock of a store": clock_of_a_store}
        store, reasons = stores.any_store(folder)
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
