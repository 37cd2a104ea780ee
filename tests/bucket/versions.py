"""Data that earlier versions stored: a server of this one opens it, answers as that version did, takes more, and merges
old and new into blocks. tests/data/stored has a data folder of each version of the format of blocks."""

import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

STORED = os.path.join(flamegrid.ROOT, "tests", "data", "stored")
WAIT_S = 60
LATE_S = 60
NEWER = 9  # a version of the format that there is not


def load_maker():
    spec = importlib.util.spec_from_file_location("stored_make", os.path.join(STORED, "make.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = load_maker()
QUICK = [*make.SETTINGS, "--compactor.interval", "1s", "--compactor.grace", "1m"]
HOURS = (make.START_S, make.START_S + 2 * make.HOUR_S)


def bucket(data, *words):
    """`flamegrid bucket` on the server's folder; its output."""
    done = subprocess.run([flamegrid.binary(), "bucket", *words, "--data", data], capture_output=True, text=True, check=False)
    check(done.returncode == 0, "bucket %s: %d %s%s", " ".join(words), done.returncode, done.stdout, done.stderr)
    return done.stdout


def usage_of(data, tenant):
    """Returns (profiles in blocks, profiles with known sizes, their samples, wire and raw bytes), as a bill has them."""
    blocks = json.loads(bucket(data, "inspect", "tenants/%s/manifest" % tenant))["blocks"]
    keys = ("profiles", "usage_profiles", "usage_samples", "usage_wire_bytes", "usage_raw_bytes")
    return tuple(sum(block[key] for block in blocks if not block["nodes_only"]) for key in keys)


def wait_until_in_blocks(data, profiles):
    deadline = time.monotonic() + WAIT_S
    while any(usage_of(data, tenant)[0] != profiles for tenant in make.TENANTS):
        check(time.monotonic() < deadline, "%s in blocks, not %d profiles",
              [usage_of(data, tenant) for tenant in make.TENANTS], profiles)
        time.sleep(0.2)


def sent_by_maker(version):
    """Returns the bill of the profiles in the fixture: version 2 stored no sizes."""
    sums = [make.sent(*part) for part in make.RANGES] if version != "v2" else [(0, 0, 0)]
    return tuple(map(sum, zip(*sums)))


def parts_of(data):
    """Returns the usage of every part of every segment and block."""
    lines = bucket(data, "ls", "-r").splitlines()
    names = [line.split()[-1] for line in lines]
    return [line.strip() for name in names if name.startswith("segments/") or "/blocks/" in name
            for line in bucket(data, "inspect", name).splitlines() if "usage" in line]


def fixture_is_read(version):
    """The folder of `version`, as it is, then merged with profiles that this version stores; some are sent twice."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-versions.") as folder:
        data = os.path.join(folder, "data")
        shutil.copytree(os.path.join(STORED, version, "data"), data)
        with open(os.path.join(STORED, version, "answers.json"), encoding="utf-8") as text:
            expected = json.load(text)
        check(("usage unknown" in " ".join(parts_of(data))) == (version == "v2"), "%s", parts_of(data))
        with flamegrid.Server(*QUICK, data=data) as server:
            server.start().wait_ready()
            check(make.answers(server) == expected, "%s: other answers than it gave", version)
            make.flush(server)
            old = 2 * 2 * make.HOUR_S // make.STEP_S  # of two services in two hours
            wait_until_in_blocks(data, old)
            check(make.answers(server) == expected, "%s: other answers once all is in blocks", version)
            for _ in range(2):  # late profiles between the old ones: they and the old blocks of the hours become one
                make.push(server, *HOURS, shift_s=LATE_S)
                make.flush(server)
            for part in make.RANGES:  # what the fixture has already
                make.push(server, *part)
            make.flush(server)
            wait_until_in_blocks(data, 2 * old)
            check(server.terminate() == 0, "%s", server.log_tail())
        text = bucket(data, "verify")
        late, own = make.sent(*HOURS, shift_s=LATE_S), sent_by_maker(version)
        for tenant in make.TENANTS:
            profiles, known, *sums = usage_of(data, tenant)
            check((profiles, known) == (2 * old, old if version == "v2" else 2 * old),
                  "%s: sizes of %d of %d profiles are known", version, known, profiles)
            check(tuple(sums) == tuple(map(sum, zip(late, own))), "%s: usage of %s, sent were %s and %s", version, sums,
                  own, late)
            line = "usage of %d profiles: %d wire bytes, %d raw bytes, %d samples" % (known, sums[1], sums[2], sums[0])
            check(any(tenant in part and line in part for part in text.splitlines()), "%s in %s", line, text)


def usage_is_rebuilt():
    """Lost manifests are rebuilt from the objects with the same usage."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-versions.") as folder:
        data = os.path.join(folder, "data")
        shutil.copytree(os.path.join(STORED, versions()[-1], "data"), data)
        objects = os.path.join(data, "bucket", "objects")
        usage = [usage_of(data, tenant) for tenant in make.TENANTS]
        segments = [part for segment in json.loads(bucket(data, "inspect", "manifests/l0"))["segments"]
                    for part in segment["tenants"]]
        check(all(found[1] > 0 for found in usage) and any(part["usage_wire_bytes"] > 0 for part in segments),
              "%s, %s", usage, segments)
        shutil.rmtree(os.path.join(objects, "manifests", "kept"))
        for tenant in make.TENANTS:
            os.unlink(os.path.join(objects, "tenants", tenant, "manifest"))
            bucket(data, "rebuild", "tenant", tenant, "--apply")
        os.unlink(os.path.join(objects, "manifests", "l0"))
        bucket(data, "rebuild", "l0", "--apply")
        check([usage_of(data, tenant) for tenant in make.TENANTS] == usage, "%s, not %s",
              [usage_of(data, tenant) for tenant in make.TENANTS], usage)
        again = [part for segment in json.loads(bucket(data, "inspect", "manifests/l0"))["segments"]
                 for part in segment["tenants"]]
        check(all(part in segments for part in again) and again, "%s, not %s", again, segments)
        bucket(data, "verify")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def make_newer(path):
    """Returns the object as a later version might have written it, with a valid checksum."""
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        trailer = content[-32:-8]
        struct.pack_into("<H", trailer, 20, NEWER)
        content[-32:-4] = trailer + struct.pack("<I", crc32c(trailer))
        file.seek(0)
        file.write(content)


def newer_objects_are_unreadable_not_damaged():
    """A block of a later version: queries say so, the rest works, and nothing gives the block up."""
    with tempfile.TemporaryDirectory(prefix="flamegrid-versions.") as folder:
        data = os.path.join(folder, "data")
        shutil.copytree(os.path.join(STORED, versions()[-1], "data"), data)
        blocks = os.path.join(data, "bucket", "objects", "tenants", make.TENANTS[0], "blocks")
        name = "tenants/%s/blocks/%s" % (make.TENANTS[0], os.listdir(blocks)[0])
        make_newer(os.path.join(data, "bucket", "objects", name))
        with flamegrid.Server(*QUICK, data=data) as server:
            server.start().wait_ready()
            for partial, wanted in ((False, 503), (True, 200)):
                client = flamegrid.Client(server.port, headers={"X-Scope-OrgID": make.TENANTS[0]})
                fields = {"profileTypeID": make.CPU, "labelSelector": "{}", "start": HOURS[0] * 1000, "end": HOURS[1] * 1000}
                status, body = client.send("POST", "/querier.v1.QuerierService/SelectMergeStacktraces?partial=%s" %
                                           str(partial).lower(), json.dumps(fields), {"Content-Type": "application/json"})
                check(status == wanted, "partial %s: %d %s", partial, status, body)
                check(partial or b"version %d" % NEWER in body, "%s", body)
            other = flamegrid.Client(server.port, headers={"X-Scope-OrgID": make.TENANTS[1]})
            check(other.flame_total(make.CPU, "{}", HOURS[0] * 1000, HOURS[1] * 1000) > 0, "the other tenant has nothing")
            ready = server.operate("GET", "/ready")[1].decode()
            check("objects_unreadable" in ready and name in ready and "objects_damaged" not in ready, "%s", ready)
            check("flamegrid_unreadable_objects 1" in server.metrics(), "the metric does not count it")
            make.push(server, *HOURS, shift_s=LATE_S)  # late, and perhaps in it: taken, and waits for a newer program
            deadline = time.monotonic() + WAIT_S
            while b"head_unchecked" not in server.operate("GET", "/ready")[1]:
                check(time.monotonic() < deadline, "late profiles do not wait")
                time.sleep(0.1)
            check(server.terminate() == 0, "%s", server.log_tail())
        done = subprocess.run([flamegrid.binary(), "bucket", "verify", "--data", data], stdout=subprocess.PIPE, check=False)
        check(done.returncode == 2 and b"unchecked: " in done.stdout and b"fault: " not in done.stdout and b"quarantine" not in done.stdout, "%s",
              done.stdout.decode())
        os.unlink(os.path.join(data, "bucket", "objects", "tenants", make.TENANTS[0], "manifest"))
        done = subprocess.run([flamegrid.binary(), "bucket", "rebuild", "tenant", make.TENANTS[0], "--apply", "--accept-loss",
                               "--data", data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        check(done.returncode != 0 and b"version %d" % NEWER in done.stdout, "%d %s", done.returncode, done.stdout.decode())


def upgrade_check(data, code, *words):
    """`flamegrid upgrade-check --json`; its document."""
    done = subprocess.run([flamegrid.binary(), "upgrade-check", "--json", "--data", data, *words], capture_output=True, text=True, check=False)
    check(done.returncode == code, "upgrade-check: %d %s%s", done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if done.stdout else {}


def upgrade_check_says_what_is_there():
    """Of each version's data: whether this program, and the one before, reads it; and of a later version's, and of damaged."""
    newest = int(versions()[-1][1:])
    for version in versions():
        with tempfile.TemporaryDirectory(prefix="flamegrid-versions.") as folder:
            data = os.path.join(folder, "data")
            shutil.copytree(os.path.join(STORED, version, "data"), data)
            back = version != versions()[-1]
            answer = upgrade_check(data, 0 if back else 3)
            check(answer["on"] and answer["back"] == back, "%s: %s", version, answer)
            parts = {part["part"]: part for part in answer["parts"]}
            names = bucket(data, "ls", "-r").splitlines()
            for part, pattern in (("segments", "segments/"), ("blocks", "/blocks/"), ("manifests", "/manifest"), ("l0", "manifests/l0")):
                objects = sum(pattern in name and "kept" not in name for name in names)
                wanted = [{"version": int(version[1:]) if part in ("segments", "blocks") else 1, "objects": objects}]
                check(parts[part]["versions"] == wanted, "%s: %s of %s, not %s", version, parts[part], part, wanted)
            check(parts["blocks"]["reads"] == [int(versions()[0][1:]), newest] and parts["ring"]["objects"] == 0, "%s", parts)

            objects = os.path.join(data, "bucket", "objects")
            blocks = os.path.join(objects, "tenants", make.TENANTS[0], "blocks")
            path = os.path.join(blocks, os.listdir(blocks)[0])
            make_newer(path)
            answer = upgrade_check(data, 1)
            check(not answer["on"] and not answer["back"], "%s", answer)
            found = next(part for part in answer["parts"] if part["part"] == "blocks")
            check((found["unknown"], found["damaged"]) == (1, 0) and {"version": NEWER, "objects": 1} in found["versions"], "%s", found)
            for content, damaged in ((b"short", 1), (bytes(100), 1)):
                with open(path, "wb") as file:
                    file.write(content)
                found = next(part for part in upgrade_check(data, 1)["parts"] if part["part"] == "blocks")
                check((found["unknown"], found["damaged"]) == (0, damaged), "%s", found)
            with open(os.path.join(objects, "manifests", "l0"), "r+b") as file:
                head = file.read()[:-4]
                head = head[:4] + bytes([NEWER]) + head[5:]
                file.seek(0)
                file.write(head + struct.pack("<I", crc32c(head)))
            found = next(part for part in upgrade_check(data, 1)["parts"] if part["part"] == "l0")
            check((found["unknown"], found["damaged"], found["versions"]) == (1, 0, [{"version": NEWER, "objects": 1}]), "%s", found)
            upgrade_check(os.path.join(folder, "nothing"), 2)
            upgrade_check(data, 2, "word")


def oldest_version_is_written():
    """With block_version, new objects are readable by older programs, and no data is lost."""
    with flamegrid.Server(*QUICK, "--ingester.segments.block_version", "2", "--compactor.block_version", "2") as server:
        server.start().wait_ready()
        make.push(server, *HOURS)
        make.flush(server)
        wait_until_in_blocks(server.data, 2 * 2 * make.HOUR_S // make.STEP_S)
        lines = parts_of(server.data)
        check(lines and all("usage unknown" in line for line in lines), "%s", lines)
        check(server.terminate() == 0, "%s", server.log_tail())
        bucket(server.data, "verify")


def versions():
    return sorted(name for name in os.listdir(STORED) if os.path.isdir(os.path.join(STORED, name, "data")))
