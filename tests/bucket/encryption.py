"""Encryption at rest of a server, with a key file: answers are those without it, keys are renewed, wrapped again and destroyed,
and what cannot be read is said to be so."""

import json
import os
import shutil
import subprocess
import tempfile
import time

import cluster
import flamegrid
import versions
from kms import Kms
from flamegrid import check

make = versions.make
OLD = 2 * 2 * make.HOUR_S // make.STEP_S  # profiles of two services in two hours
POLL_S = 0.2


def write_key(folder, name):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as out:
        out.write(os.urandom(32).hex() + "\n")
    os.chmod(path, 0o600)
    return path


def settings(key_file, *more):
    return [*versions.QUICK, "--access.poll", "%dms" % (1000 * POLL_S), "--encryption.mode", "per_tenant",
            "--encryption.key_file", key_file, *more]


def command(data, *words):
    """`flamegrid WORDS` on the server's folder: (exit code, both outputs)."""
    done = subprocess.run([flamegrid.binary(), *words, "--data", data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout


def must(data, *words):
    """Its output."""
    done = subprocess.run([flamegrid.binary(), *words, "--data", data], capture_output=True, text=True, check=False)
    check(done.returncode == 0, "%s: %d %s%s", " ".join(words), done.returncode, done.stdout, done.stderr)
    return done.stdout


def objects(data, *key):
    """Names of segments and blocks."""
    names = [line.split()[-1] for line in must(data, "bucket", "ls", "-r", *key).splitlines()]
    return [name for name in names if name.startswith("segments/") or "/blocks/" in name]


def keys_of(data, *key):
    """(tenant, key) of every part of every segment and block."""
    found = set()
    for name in objects(data):
        for part in json.loads(must(data, "bucket", "inspect", name, "--json", *key))["parts"]:
            found.add((part["tenant"], part["key"]))
    return found


def wait_for(what, holds):
    deadline = time.monotonic() + versions.WAIT_S
    while not holds():
        check(time.monotonic() < deadline, "%s not after %d s", what, versions.WAIT_S)
        time.sleep(POLL_S)


def all_in_blocks(data, tenants, profiles):
    return all(versions.usage_of(data, tenant)[0] == profiles for tenant in tenants)


def audited(data):
    """(tenant, detail, phase or status) of the records that the command encryption has left, in their order."""
    found = []
    for name in must(data, "bucket", "ls", "audit/", "-r").split():
        if not name.startswith("audit/"):
            continue
        packed = subprocess.run([flamegrid.binary(), "bucket", "cat", name, "--data", data], capture_output=True, check=True).stdout
        lines = subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True).stdout.splitlines()
        found += [json.loads(line) for line in lines]
    found = [one for one in found if one.get("who", "").startswith("flamegrid encryption (uid ")]
    return [(one.get("tenant"), one["detail"], one.get("status", one["phase"])) for one in sorted(found, key=lambda one: one["ms"])]


def plain_answers():
    with flamegrid.Server(*versions.QUICK) as server:
        server.start().wait_ready()
        make.push(server, *versions.HOURS)
        return make.answers(server)


def everywhere(data, text):
    """Names of files below the bucket that have the text."""
    found = []
    for folder, _, files in os.walk(os.path.join(data, "bucket")):
        for name in files:
            with open(os.path.join(folder, name), "rb") as content:
                if text in content.read():
                    found.append(name)
    return found


def answers_are_the_same():
    """Of the head, of segments and of blocks; also after a restart, and with a key for each tenant."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-encryption.") as folder:
        key_file = write_key(folder, "key")
        key = ("--encryption.key_file", key_file)
        expected = plain_answers()
        with flamegrid.Server(*settings(key_file)) as server:
            server.start().wait_ready()
            make.push(server, *versions.HOURS)
            make.flush(server)
            check(make.answers(server) == expected, "other answers from segments")
            wait_for("in blocks", lambda: all_in_blocks(server.data, make.TENANTS, OLD))
            check(make.answers(server) == expected, "other answers from blocks")
            check(server.terminate() == 0, "%s", server.log_tail())
            check(keys_of(server.data, *key) == {(tenant, 1) for tenant in make.TENANTS}, "%s", keys_of(server.data, *key))
            server.start().wait_ready()
            check(make.answers(server) == expected, "other answers after a restart")
            check("flamegrid_encryption_keys_unwrapped_total 2" in server.metrics(), "%s", server.metrics())
            check(server.terminate() == 0, "%s", server.log_tail())
            must(server.data, "bucket", "verify", *key)
            with open(key_file, "rb") as secret:
                check(not everywhere(server.data, secret.read().strip()), "the key file is in the bucket")
            stacks = must(server.data, "bucket", "export", "shop", "--tenant", "acme", "--from", str(make.START_S), "--until",
                          str(make.START_S + make.HOUR_S), "--type", "cpu", "--format", "folded", *key)
            check("main;work;step_1" in stacks, "%s", stacks)


def sum_of(member):
    """Status and sum of a query to a querier."""
    status, body = member.send("GET", "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D"
                               "&from=now-1h&until=now", timeout=30)
    return status, json.loads(body)["flamebearer"]["numTicks"] if status == 200 else body


def queriers_that_share_their_caches_have_the_keys():
    """They read segments, and tell which are damaged."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-encryption.") as folder:
        more = ["--encryption.mode", "per_tenant", "--encryption.key_file", write_key(folder, "key")]
        settings_of = {kind: [*quick, *more] for kind, quick in cluster.QUICK.items()}
        with cluster.Cluster(ingesters=1, distributors=1, compactors=0, settings=settings_of) as members:
            ingester, queriers = members.of("ingester")[0], members.of("querier")
            ingester.arguments += ["--ring.replicas", "1"]
            members.start()
            until = int(time.time()) - 30
            status, body = members.of("distributor")[0].send(
                "POST", "/ingest?name=shop.cpu&from=%d&until=%d" % (until - 10, until), body=b"main;work 30\nmain;sort 7\n")
            check(status == 200, "%d %s", status, body)
            expected = sum_of(queriers[0])
            check(expected[0] == 200 and expected[1] > 0, "%d %s", *expected)
            check(ingester.operate("POST", "/ingester/flush", timeout=60)[0] == 200, "%s", ingester.log_tail())
            for member in queriers:  # until the ingester has it no longer
                while not member.metrics()["flamegrid_querier_objects_read_total"]:
                    answer = sum_of(member)
                    check(answer == expected, "%s: %s", member.name, answer)
                    time.sleep(POLL_S)
            for path, _, names in os.walk(os.path.join(members.folder, "bucket", "objects", "segments")):
                for name in names:
                    with open(os.path.join(path, name), "r+b") as out:
                        out.write(bytes(os.path.getsize(out.name)))
            for member in queriers:  # they have cached it
                member.terminate()
                member.start().wait_ready()
            for member in queriers:
                status, body = sum_of(member)
                check(status == 503, "%s: %d %s", member.name, status, body)
                check(member.metrics()["flamegrid_damaged_objects"] == 1, "%s", member.log_tail())


def what_cannot_be_read_is_no_damage():
    """Without the key file, or with another one."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-encryption.") as folder:
        key_file, other = write_key(folder, "key"), write_key(folder, "other")
        with flamegrid.Server(*settings(key_file)) as server:
            server.start().wait_ready()
            make.push(server, *versions.HOURS)
            make.flush(server)
            wait_for("in blocks", lambda: all_in_blocks(server.data, make.TENANTS, OLD))
            check(server.terminate() == 0, "%s", server.log_tail())
            for more, why in (((), "this program has no keys (setting encryption.mode)"),
                              (("--encryption.key_file", other), "which this program does not have")):
                server.arguments = [*versions.QUICK, *more]
                shutil.rmtree(os.path.join(server.data, "head"))  # it is encrypted as well, and has nothing that is not in blocks
                server.start().wait_ready()
                client = make.client_of(server, "acme")
                fields = {"profileTypeID": make.CPU, "labelSelector": "{}", "start": versions.HOURS[0] * 1000,
                          "end": versions.HOURS[1] * 1000}
                status, body = client.send("POST", "/querier.v1.QuerierService/SelectMergeStacktraces?partial=false",
                                           json.dumps(fields), {"Content-Type": "application/json"})
                check(status == 503 and why in body.decode(), "%d %s", status, body)
                ready = server.operate("GET", "/ready")[1].decode()
                check("objects_unreadable" in ready and "objects_damaged" not in ready, "%s", ready)
                check(server.terminate() == 0, "%s", server.log_tail())
                code, text = command(server.data, "bucket", "verify", *more)
                check(code == 2 and "unchecked: " in text and "fault: " not in text and "quarantine" not in text, "%d %s", code,
                      text)
            must(server.data, "bucket", "verify", "--encryption.key_file", key_file)
            code, text = command(server.data, "bucket", "verify", "--encryption.key_file", os.path.join(folder, "none"))
            check(code != 0 and "encryption.key_file" in text, "%d %s", code, text)
            os.chmod(key_file, 0o644)
            code, text = command(server.data, "bucket", "verify", "--encryption.key_file", key_file)
            check(code != 0 and "lets others in than owner and group" in text, "%d %s", code, text)


def keys_are_renewed():
    """A new version for new objects while the server runs; then another key file."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-encryption.") as folder:
        first, second = write_key(folder, "first"), write_key(folder, "second")
        with flamegrid.Server(*settings(first)) as server:
            server.start().wait_ready()
            make.push(server, *make.RANGES[0])
            make.flush(server)
            expected = make.answers(server)
            text = must(server.data, "encryption", "rotate", "acme", "--json", "--encryption.key_file", first)
            check(json.loads(text) == {"tenant": "acme", "version": 2}, "%s", text)
            code, text = command(server.data, "encryption", "rotate", "acne", "--encryption.key_file", first)
            check(code == 1 and 'tenant "acne" has no key' in text, "%d %s", code, text)
            check("acne" not in must(server.data, "encryption", "list"), "a key of a tenant that does not exist")
            why = 'tenant "acne" has no key; a tenant gets one when its first segment is encrypted'
            check(audited(server.data) == [("acme", "rotate", "begin"), ("acme", "rotate: key 2", 200), ("acne", "rotate", "begin"),
                                           ("acne", why, 404)], "%s", audited(server.data))
            time.sleep(5 * POLL_S)
            check(make.answers(server) == expected, "other answers after a rotation")
            make.push(server, *make.RANGES[1])
            make.flush(server)
            key = ("--encryption.key_file", first)
            wait_for("key 2", lambda: ("acme", 2) in keys_of(server.data, *key))
            check(("zeta", 2) not in keys_of(server.data, *key), "%s", keys_of(server.data, *key))
            expected = make.answers(server)
            check(server.terminate() == 0, "%s", server.log_tail())
            both = ("--encryption.key_file", second, "--encryption.old_key_files", first)
            check("3 keys are encrypted again" in must(server.data, "encryption", "rewrap", *both), "keys were not wrapped again")
            check((None, "rewrap", 200) in audited(server.data), "%s", audited(server.data))
            check(json.loads(must(server.data, "encryption", "rewrap", "--json", *both)) == {"rewrapped": 0}, "twice")
            server.arguments = settings(second, "--encryption.old_key_files", first)
            server.start().wait_ready()  # which encrypts the key of its head again
            check(server.terminate() == 0, "%s", server.log_tail())
            server.arguments = settings(second)
            server.start().wait_ready()
            check(make.answers(server) == expected, "other answers with the new key file")
            check(server.terminate() == 0, "%s", server.log_tail())
            must(server.data, "bucket", "verify", "--encryption.key_file", second)
            listed = json.loads(must(server.data, "encryption", "list", "--json"))["keys"]
            check([(one["tenant"], one["version"], one["state"]) for one in listed] ==
                  [("acme", 1, "usable"), ("acme", 2, "usable"), ("zeta", 1, "usable")], "%s", listed)


def a_tenant_is_shredded():
    """While the server runs: nothing of it can be read any more, and the other tenant notices nothing."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-encryption.") as folder:
        key_file = write_key(folder, "key")
        key = ("--encryption.key_file", key_file)
        with flamegrid.Server(*settings(key_file)) as server:
            server.start().wait_ready()
            make.push(server, *versions.HOURS)
            make.flush(server)
            wait_for("in blocks", lambda: all_in_blocks(server.data, make.TENANTS, OLD))
            before = make.client_of(server, "acme").flame_total(make.CPU, "{}", versions.HOURS[0] * 1000,
                                                                versions.HOURS[1] * 1000)
            code, text = command(server.data, "encryption", "shred", "zeta", *key)
            check(code != 0 and "--yes" in text, "%d %s", code, text)
            text = must(server.data, "encryption", "shred", "zeta", "--yes", "--json", *key)
            check(json.loads(text) == {"tenant": "zeta", "versions": 1}, "%s", text)
            time.sleep(5 * POLL_S)
            fields = {"profileTypeID": make.CPU, "labelSelector": '{pod="p0"}', "start": versions.HOURS[0] * 1000,
                      "end": versions.HOURS[1] * 1000 - 1000}
            # What is in memory has been decrypted; a restart ends that.
            check(server.terminate() == 0, "%s", server.log_tail())
            server.start().wait_ready()
            status, body = make.client_of(server, "zeta").send(
                "POST", "/querier.v1.QuerierService/SelectMergeStacktraces?partial=false", json.dumps(fields),
                {"Content-Type": "application/json"})
            check(status == 503 and b"was shredded on" in body, "%d %s", status, body)
            after = make.client_of(server, "acme").flame_total(make.CPU, "{}", versions.HOURS[0] * 1000,
                                                               versions.HOURS[1] * 1000)
            check(after == before, "%d, not %d", after, before)
            # The other tenant's profiles go on to blocks although this one has some in the head.
            now = int(time.time()) - 600
            make.push(server, now, now + 2 * make.STEP_S)
            make.flush(server)
            check(server.terminate() == 0, "%s", server.log_tail())
            check(("zeta", 2) not in keys_of_readable(server.data, key), "written after it was shredded")
            text = must(server.data, "bucket", "verify", *key)  # it is what somebody wanted
            check("shredded: zeta: nobody can read" in text and "flamegrid encryption drop zeta" in text, "%s", text)
            report = json.loads(must(server.data, "encryption", "drop", "zeta", "--json", *key))
            check(report["ok"] and not report["applied"] and "nothing was written" in report["report"][-1], "%s", report)
            report = json.loads(must(server.data, "encryption", "drop", "zeta", "--apply", "--json", *key))
            check(report["ok"] and report["applied"] and "they have left its manifest" in report["report"][-1], "%s", report)
            text = must(server.data, "bucket", "verify", *key)
            check("shredded: " not in text, "%s", text)
            check(audited(server.data) == [("zeta", "shred", "begin"), ("zeta", "shred: keys 1 to 1", 200), ("zeta", "drop", "begin"),
                                           ("zeta", "drop", 200)], "%s", audited(server.data))
            must(server.data, "audit", "verify", *key)
            server.start().wait_ready()
            after = make.client_of(server, "acme").flame_total(make.CPU, "{}", versions.HOURS[0] * 1000,
                                                               versions.HOURS[1] * 1000)
            check(after == before, "%d, not %d, after what was shredded had been dropped", after, before)
            status, body = make.client_of(server, "zeta").send(
                "POST", "/querier.v1.QuerierService/SelectMergeStacktraces?partial=false", json.dumps(fields),
                {"Content-Type": "application/json"})
            check(status == 200, "%d %s", status, body)
            check("objects_unreadable" not in server.operate("GET", "/ready")[1].decode(), "the condition came back")
            check(server.terminate() == 0, "%s", server.log_tail())


def flush_without_keys(server):
    """A flush that commits what can be encrypted."""
    status, body = server.operate("POST", "/ingester/flush")
    check(status == 503 and b"keys cannot be had" in body, "%d %s", status, body)
    ready = server.operate("GET", "/ready")[1].decode()
    check("head_without_keys" in ready and "head_chunks_set_aside" not in ready, "%s", ready)


def secret_in_files(folder, text):
    """Whether a file of the folder has the text."""
    for place, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(place, name), "rb") as content:
                if text in content.read():
                    return True
    return False


def push_secret(server, begin_s):
    status, body = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "acme"}).send(
        "POST", "/ingest?name=shop.cpu%%7Bpod%%3Dsecret_pod%%7D&from=%d&until=%d" % (begin_s, begin_s + 10), b"main;secret_function 7\n")
    check(status == 200, "push: %d %s", status, body)


def total_of_secret(server):
    now = int(time.time())
    return make.client_of(server, "acme").flame_total(make.CPU, '{pod="secret_pod"}', (now - 3600) * 1000, now * 1000)


def the_head_is_encrypted():
    """A stolen disk shows no profile that is not in the bucket yet; with the key file all is there, also after encryption was
    turned off."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-encryption.") as folder:
        key_file, other = write_key(folder, "key"), write_key(folder, "other")
        begin_s = int(time.time()) - 600
        with flamegrid.Server(*versions.QUICK) as server:  # so that this test can fail
            server.start().wait_ready()
            push_secret(server, begin_s)
            server.kill()
            head = os.path.join(server.data, "head")
            check(secret_in_files(head, b"secret_function") and secret_in_files(head, b"secret_pod"), "the search finds nothing")
            one = total_of_secret(server.start().wait_ready())
            check(one > 0, "nothing is there")
            server.kill()
            server.arguments = settings(key_file)  # turned on: what comes from now on is encrypted
            server.start().wait_ready()
            check(total_of_secret(server) == one, "what was there before")
        with flamegrid.Server(*settings(key_file)) as server:
            head = os.path.join(server.data, "head")
            for n in range(1, 4):  # each from another start
                server.start().wait_ready()
                push_secret(server, begin_s + 10 * n)
                check(total_of_secret(server) == n * one, "%d of %d", total_of_secret(server), n * one)
                server.kill()
                check(not secret_in_files(head, b"secret_function") and not secret_in_files(head, b"secret_pod"), "it is on the disk")
            for more, why in ((["--encryption.mode", "per_tenant", "--encryption.key_file", other], "is encrypted with file:"),
                              ([], "encryption.key_file, vault_address or kms.key has to be set")):
                server.arguments = [*versions.QUICK, *more]
                server.start()
                check(server.process.wait(60) != 0 and why in server.log_tail(), "%s", server.log_tail())
            server.arguments = [*versions.QUICK, "--encryption.key_file", key_file]  # turned off
            server.start().wait_ready()
            check(total_of_secret(server) == 3 * one, "what is encrypted")
            push_secret(server, begin_s + 100)
            check(total_of_secret(server) == 4 * one, "encrypted and plain")
            server.kill()
            server.arguments = [*versions.QUICK, "--encryption.key_file", other, "--encryption.old_key_files", key_file,
                                "--encryption.mode", "per_tenant"]
            server.start().wait_ready()
            check(total_of_secret(server) == 4 * one, "with another key file")
            make.flush(server)
            check(total_of_secret(server) == 4 * one, "in segments")
            check(server.terminate() == 0, "%s", server.log_tail())


def ready_of(server):
    """What /ready says; "" while nobody listens."""
    try:
        return server.operate("GET", "/ready")[1].decode()
    except OSError:
        return ""


def with_keys(*key):
    return [*versions.QUICK, "--access.poll", "%dms" % (1000 * POLL_S), "--encryption.mode", "per_tenant", *key]


def total_of_acme(server):
    return make.client_of(server, "acme").flame_total(make.CPU, "{}", versions.HOURS[0] * 1000, versions.HOURS[1] * 1000)


def a_kms_may_be_away(server, kms, expected):
    """A program that has the keys needs it no more; one that starts waits for it."""
    kms.pause()
    begin_s = int(time.time()) - 600
    push_secret(server, begin_s)
    make.flush(server)
    check(total_of_secret(server) > 0, "what came while KMS was away")
    check(server.terminate() == 0, "%s", server.log_tail())
    server.start()
    wait_for("waiting", lambda: "keys_away" in ready_of(server))
    kms.resume()
    server.wait_ready()
    check(make.answers(server) == expected, "other answers after it was waited for")


def a_kms_refuses(server, kms):
    """Nobody who pushes hears of it, and the condition says which key and which tenant."""
    kms.allow(kms.ALLOW, {"Effect": "Deny", "Action": "kms:Decrypt", "Resource": "*"})
    status, body = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "late"}).send(
        "POST", "/ingest?name=shop.cpu&from=%d&until=%d" % (int(time.time()) - 20, int(time.time()) - 10), b"main;work 7\n")
    check(status == 200, "push: %d %s", status, body)
    flush_without_keys(server)
    ready = server.operate("GET", "/ready")[1].decode()
    for text in ("a key for tenant late", "kms:alias/flamegrid", "is not authorized to perform: kms:Decrypt"):
        check(text in ready, "%s", ready)
    check("late" not in must(server.data, "encryption", "list"), "a key that nobody can decrypt was stored")
    kms.allow(kms.ALLOW)
    make.flush(server)
    check("head_without_keys" not in server.operate("GET", "/ready")[1].decode(), "the condition stays")


def keys_are_in_a_kms():
    """A KMS of others, which checks signatures, encrypts the keys: from a key file to it, to another of its keys, and back."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-encryption.") as folder, Kms() as kms:
        key_file, arn = write_key(folder, "key"), kms.make_key("other")
        kms.make_key("flamegrid")
        in_file, in_kms = ("--encryption.key_file", key_file), kms.settings("alias/flamegrid")
        with flamegrid.Server(*with_keys(*in_file)) as server:
            server.start().wait_ready()
            make.push(server, *versions.HOURS)
            make.flush(server)
            expected, total = make.answers(server), total_of_acme(server)
            check(server.terminate() == 0, "%s", server.log_tail())
            code, text = command(server.data, "encryption", "rewrap", *in_file, *in_kms)
            check(code != 0 and "encryption.wrap_with has to say which one" in text, "%d %s", code, text)
            code, text = command(server.data, "encryption", "rewrap", *in_file, *in_kms[:-1], "wrong", "--encryption.wrap_with", "kms")
            check(code != 0 and "a key for tenant" in text and "SignatureDoesNotMatch" in text, "%d %s", code, text)
            to_kms = (*in_file, *in_kms, "--encryption.wrap_with", "kms")
            check("2 keys are encrypted again" in must(server.data, "encryption", "rewrap", *to_kms), "to KMS")
            server.arguments = with_keys(*to_kms)
            server.start().wait_ready()  # which encrypts the key of the head again
            check(server.terminate() == 0, "%s", server.log_tail())
            server.arguments = with_keys(*in_kms)
            server.start().wait_ready()
            for _ in range(3):
                check(make.answers(server) == expected, "other answers with KMS")
            check("flamegrid_encryption_keys_unwrapped_total 2" in server.metrics(), "%s", server.metrics())
            status, body = server.operate("GET", "/config")
            check(status == 200 and b"encryption.kms:" in body and kms.secret.encode() not in body, "%s", body)
            check(not everywhere(server.data, kms.secret.encode()) and kms.secret not in server.log_tail(), "the secret is shown")
            a_kms_may_be_away(server, kms, expected)
            a_kms_refuses(server, kms)
            check(server.terminate() == 0, "%s", server.log_tail())
            to_other = (*kms.settings(arn), "--encryption.kms.old_keys", "alias/flamegrid")
            check("3 keys are encrypted again" in must(server.data, "encryption", "rewrap", *to_other), "to another key")
            server.arguments = with_keys(*to_other)
            server.start().wait_ready()
            check(make.answers(server) == expected, "other answers with another key")
            must(server.data, "encryption", "shred", "zeta", "--yes", *to_other)
            check(server.terminate() == 0, "%s", server.log_tail())
            back = (*in_file, *kms.settings(arn), "--encryption.wrap_with", "key_file")
            check("2 keys are encrypted again" in must(server.data, "encryption", "rewrap", *back), "back to the key file")
            server.arguments = with_keys(*back)
            server.start().wait_ready()
            check(server.terminate() == 0, "%s", server.log_tail())
            server.arguments = with_keys(*in_file)
            server.start().wait_ready()
            check(total_of_acme(server) == total > 0, "other answers with the key file")
            check(server.terminate() == 0, "%s", server.log_tail())
            listed = json.loads(must(server.data, "encryption", "list", "--json"))["keys"]
            check({(one["tenant"], one["state"]) for one in listed} == {("acme", "usable"), ("late", "usable"), ("zeta", "shredded")},
                  "%s", listed)


def keys_of_readable(data, key):
    """(tenant, key) of the parts of all objects that can be read."""
    found = set()
    for name in objects(data):
        done = subprocess.run([flamegrid.binary(), "bucket", "inspect", name, "--json", *key, "--data", data],
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found |= {(part["tenant"], part["key"]) for part in json.loads(done.stdout)["parts"]}
    return found
