"""Lost, damaged and older objects in the bucket of a server: `bucket verify` finds each, `bucket rebuild` makes
it again, and after a restart every profile is in the answers exactly once."""

import json
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import exporting  # noqa: E402
import flamegrid  # noqa: E402
from exporting import CPU  # noqa: E402
from flamegrid import check  # noqa: E402

DAY_S = 86400
WAIT_S = 60
TENANTS = ("acme", "zeta")
QUICK = ["--multitenancy_enabled", "true", "--compactor.hour_delay", "0s", "--compactor.day_delay", "0s",
         "--compactor.fold_quiet", "0s", "--compactor.deletion_wait", "0s", "--compactor.retire_after", "0s",
         "--querier.manifest_age", "1s", "--ingester.segments.evict_after", "0s", "--ingester.segments.poll", "1s"]
BUSY, IDLE = ["--compactor.interval", "1s"], ["--compactor.interval", "1h"]


class World:
    """The folder of a server where two tenants have blocks, segments that are in no block, and profiles in the head."""

    def __init__(self, bucket, folder):
        self.bucket, self.folder = bucket, folder
        self.data = os.path.join(folder, "data")
        self.start_s = int(time.time()) // DAY_S * DAY_S - 5 * DAY_S
        self.sent = {tenant: [] for tenant in TENANTS}
        self.number = 0

    def client(self, server, tenant):
        return flamegrid.Client(server.port, headers={"X-Scope-OrgID": tenant})

    def push(self, server, count):
        for tenant in TENANTS:
            client = self.client(server, tenant)
            for _ in range(count):
                self.number += 1
                value = 1000 + self.number
                at_ns = (self.start_s + 1800 * self.number) * 10**9
                labels = {"__name__": "process_cpu", "service_name": "shop-%d" % (self.number % 3)}
                request = {"series": [exporting.series(labels, at_ns, {("main", "work"): (1, value)},
                                                       (("samples", "count"), ("cpu", "nanoseconds")))]}
                status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps(request),
                                           {"Content-Type": "application/json"})
                check(status == 200, "push: %d %s", status, body)
                self.sent[tenant].append(value)

    def flush(self, server):
        status, body = server.operate("POST", "/ingester/flush")
        check(status == 200, "flush: %d %s", status, body)

    def totals(self, server, tenant):
        client = self.client(server, tenant)
        return [client.flame_total("process_cpu:%s:cpu:nanoseconds" % kind, "{}", self.start_s * 1000,
                                   (self.start_s + 6 * DAY_S) * 1000) for kind in ("samples:count", "cpu:nanoseconds")]

    def check_totals(self, server, what, lost=None):
        """Checks that each profile is there once, by their number and a sum that identifies them. lost: values, by tenant."""
        for tenant in TENANTS:
            values = [value for value in self.sent[tenant] if value not in (lost or {}).get(tenant, [])]
            want = [len(values), sum(values)]
            deadline = time.monotonic() + WAIT_S
            while True:
                try:
                    found = self.totals(server, tenant)
                except AssertionError as fault:
                    found = str(fault)
                if found == want:
                    break
                check(time.monotonic() < deadline, "%s: tenant %s has %s instead of %s", what, tenant, found, want)
                time.sleep(0.5)

    def manifest(self, name, data=None):
        return json.loads(self.bucket.good("inspect", name, "--data", data or self.data))

    def wait_compacted(self):
        """Waits until no tenant has data in segments only, and these have left the manifest."""
        deadline = time.monotonic() + WAIT_S
        while True:
            if not self.manifest("manifests/l0")["segments"]:
                return
            check(time.monotonic() < deadline, "segments are not retired: %s", self.manifest("manifests/l0"))
            time.sleep(0.5)

    def delete(self, server):
        """Deletes all profiles of one service of acme and waits for the end. Their segments are still there."""
        target = "/compactor/delete?selector=%%7Bservice_name=%%22shop-1%%22%%7D&start=%d&end=%d"
        tenant = {"X-Scope-OrgID": "acme"}
        status, body = server.operate("POST", target % (self.start_s, self.start_s + 6 * DAY_S), headers=tenant)
        check(status == 200, "delete: %d %s", status, body)
        self.sent["acme"] = [value for value in self.sent["acme"] if (value - 1000) % 3 != 1]
        deadline = time.monotonic() + WAIT_S
        while b'"ended_ms":' not in server.operate("GET", "/compactor/deletions", headers=tenant)[1]:
            check(time.monotonic() < deadline, "the deletion is not carried out: %s", server.log_tail())
            time.sleep(0.5)

    def upload_again(self):
        """Copies a segment, as a stop between upload and commit leaves it: the same profiles are in two objects."""
        segment = self.manifest("manifests/l0")["segments"][0]
        name = next(name for name in self.names("segments/", self.data)
                    if os.path.getsize(self.path(name)) == segment["bytes"])
        shutil.copyfile(self.path(name), self.path(name[:-1] + ("0" if name[-1] != "0" else "1")))

    def server(self, *more, data=None):
        return flamegrid.Server(*QUICK, *more, data=data or self.data)

    def path(self, name, data=None):
        return os.path.join(data or self.data, "bucket", "objects", name)

    def names(self, prefix, data):
        return self.bucket.names(prefix, "-r", "--data", data)

    def make(self):
        with self.server(*BUSY) as server:
            server.start().wait_ready()
            self.push(server, 6)
            self.flush(server)
            self.wait_compacted()
            self.delete(server)
            check(server.terminate() == 0, "%s", server.log_tail())
        shutil.copytree(self.path("manifests"), os.path.join(self.folder, "older", "manifests"))
        shutil.copytree(self.path("tenants"), os.path.join(self.folder, "older", "tenants"))
        with self.server(*BUSY) as server:
            server.start().wait_ready()
            self.push(server, 3)
            self.flush(server)
            self.wait_compacted()
            check(server.terminate() == 0, "%s", server.log_tail())
        with self.server(*IDLE) as server:
            server.start().wait_ready()
            self.push(server, 4)
            self.flush(server)
            self.push(server, 2)  # these stay in the head
            self.check_totals(server, "before anything is lost")
            check(server.terminate() == 0, "%s", server.log_tail())
        self.upload_again()

    def copy(self, name):
        data = os.path.join(self.folder, name.replace(" ", "-"))
        shutil.copytree(self.data, data, symlinks=True)
        return data


def remove(world, data, name):
    os.remove(world.path(name, data))


def cut(world, data, name):
    with open(world.path(name, data), "r+b") as file:
        file.truncate(0)


def flip(world, data, name):
    with open(world.path(name, data), "r+b") as file:
        file.seek(os.path.getsize(world.path(name, data)) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 16]))


def age(world, data, name):
    """A manifest from an old backup."""
    shutil.copyfile(os.path.join(world.folder, "older", name), world.path(name, data))
    os.utime(world.path(name, data))


def forget_kept(world, data, name):
    """A bucket of a version that kept no copies."""
    shutil.rmtree(world.path("manifests/kept", data), ignore_errors=True)


def faults(world, data):
    code, out, err = world.bucket.run("verify", "--data", data)
    check(code in (0, 1), "verify: %d %s %s", code, out, err)
    return [line for line in out.decode().splitlines() if line.startswith("fault: ")]


def files_of(data):
    """Returns the content of the bucket, to show that a dry run changes nothing."""
    found = {}
    for folder, _, names in os.walk(os.path.join(data, "bucket", "objects")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)] = file.read()
    return found


def rebuild(world, data, *words):
    before = files_of(data)
    code, out, err = world.bucket.run("rebuild", *words, "--data", data)
    check(code == 0 and b"nothing was written" in out, "dry run of %s: %d %s %s", words, code, out, err)
    check(files_of(data) == before, "a dry run of %s changed the bucket", words)
    said = world.bucket.good("rebuild", *words, "--apply", "--data", data).decode()
    check("wrote " in said, "%s", said)
    return said


def comes_back(world, data, what, lost=None):
    """verify finds no fault, and a server that compacts everything counts each profile once."""
    found = faults(world, data)
    check(not found, "%s: after the rebuild: %s", what, found)
    for arguments in (IDLE, BUSY):
        with world.server(*arguments, data=data) as server:
            server.start().wait_ready()
            world.check_totals(server, what, lost)
            if arguments is BUSY:
                world.flush(server)
                world.check_totals(server, what + ", flushed", lost)
                deadline = time.monotonic() + WAIT_S
                while world.manifest("manifests/l0", data)["segments"]:
                    check(time.monotonic() < deadline, "%s: segments are not retired: %s", what, server.log_tail())
                    time.sleep(0.5)
                world.check_totals(server, what + ", compacted", lost)
            check(server.terminate() == 0, "%s", server.log_tail())
    found = faults(world, data)
    check(not found, "%s: in the end: %s", what, found)


def objects_are_made_again(world):
    """Damages each manifest in each way."""
    l0, acme = "manifests/l0", "tenants/acme/manifest"
    cases = [
        ("l0 is missing", [(remove, l0)], l0, [("l0",)]),
        ("l0 is cut", [(cut, l0)], l0, [("l0",)]),
        ("l0 has a flipped bit", [(flip, l0)], l0, [("l0",)]),
        ("l0 is older", [(age, l0)], l0, [("l0",)]),
        ("l0 is missing and nothing was kept", [(remove, l0), (forget_kept, "")], l0, [("l0",)]),
        ("manifest is missing", [(remove, acme)], acme, [("tenant", "acme")]),
        ("manifest is damaged", [(flip, acme)], acme, [("tenant", "acme")]),
        ("manifest is older", [(age, acme)], acme, [("tenant", "acme")]),
        ("manifest is missing and nothing was kept", [(remove, acme), (forget_kept, "")], acme,
         [("tenant", "acme", "--accept-loss")]),  # nobody knows of the deletion any more
        ("both are missing and nothing was kept", [(remove, l0), (remove, acme), (forget_kept, "")], acme,
         [("tenant", "acme", "--accept-loss"), ("l0", "--accept-loss")]),
    ]
    for what, damages, named, cures in cases:
        data = world.copy(what)
        for damage, name in damages:
            damage(world, data, name)
        found = faults(world, data)
        check(any(line.startswith("fault: %s: " % named) and "flamegrid bucket rebuild" in line for line in found),
              "%s: %s", what, found)
        for words in cures:
            if "--accept-loss" in words:
                refused(world, data, *[word for word in words if word != "--accept-loss"])
            rebuild(world, data, *words)
        comes_back(world, data, what)
        shutil.rmtree(data)
        print("     %s" % what, flush=True)


def live_segment(world, data):
    """Returns the segment that is in no block, and its profiles."""
    segments = world.manifest("manifests/l0", data)["segments"]
    check(len(segments) == 1, "%s", segments)
    known = {name for name in world.names("segments/", data) if os.path.getsize(world.path(name, data)) == segments[0]["bytes"]}
    return sorted(known)


def refused(world, data, *words):
    before = files_of(data)
    code, out, err = world.bucket.run("rebuild", *words, "--apply", "--data", data)
    check(code == 1 and "--accept-loss" in err and (b"lost: " in out or b"in doubt: " in out), "%s: %d %s %s", words,
          code, out, err)
    check(files_of(data) == before, "a refused %s changed the bucket", words)


def losses_are_said_first(world):
    """A lost segment or block: nothing is given up before an operator says so, and then nothing else."""
    for what, damage in (("segment is missing", remove), ("segment is cut", cut), ("segment has a flipped bit", flip)):
        data = world.copy(what)
        for name in live_segment(world, data):  # both objects of the same profiles
            damage(world, data, name)
        found = faults(world, data)
        check(len(found) == 1 and "segments/" in found[0], "%s: %s", what, found)
        refused(world, data, "l0")
        rebuild(world, data, "l0", "--accept-loss")
        comes_back(world, data, what, {tenant: values[-6:-2] for tenant, values in world.sent.items()})
        shutil.rmtree(data)
        print("     %s" % what, flush=True)
    for what, damage in (("block is missing", remove), ("block is cut", cut)):
        data = world.copy(what)
        blocks = world.manifest("tenants/zeta/manifest", data)["blocks"]
        name = blocks[0]["object"]
        damage(world, data, name)
        found = faults(world, data)
        check(len(found) == 1 and found[0].startswith("fault: %s: " % name), "%s: %s", what, found)
        refused(world, data, "tenant", "zeta")
        rebuild(world, data, "tenant", "zeta", "--accept-loss")
        with world.server(*IDLE, data=data) as server:
            server.start().wait_ready()
            count = world.totals(server, "zeta")[0]
            check(count == len(world.sent["zeta"]) - blocks[0]["profiles"], "%s: %d left", what, count)
        check(faults(world, data) == [], "%s: %s", what, faults(world, data))
        shutil.rmtree(data)
        print("     %s" % what, flush=True)


def ask(world, server, tenant, start_s, end_s, selector="{}"):
    client = world.client(server, tenant)
    body = json.dumps({"profileTypeID": CPU, "labelSelector": selector, "start": start_s * 1000, "end": end_s * 1000})
    client.connection.request("POST", "/querier.v1.QuerierService/SelectMergeStacktraces", body,
                              {"Content-Type": "application/json", "X-Scope-OrgID": tenant})
    response = client.connection.getresponse()
    response.read()
    return response.status, response.headers


def headers_of(world, server, tenant, start_s, end_s, selector="{}"):
    status, headers = ask(world, server, tenant, start_s, end_s, selector)
    check(status == 200, "%d", status)
    return headers


def give_up(world, data, name):
    before = files_of(data)
    said = world.bucket.good("quarantine", name, "--data", data).decode()
    check("nothing was written" in said and files_of(data) == before, "a dry run changed something: %s", said)
    world.bucket.good("quarantine", name, "--apply", "--data", data)
    code, _, err = world.bucket.run("quarantine", name, "--apply", "--data", data)
    check(code == 1 and "no manifest refers to" in err, "twice: %d %s", code, err)


def objects_are_given_up(world):
    """A damaged segment and a lost block: answers say what they lack, the rest works, and profiles sent again are stored."""
    data = world.copy("given up")
    segments = world.manifest("manifests/l0", data)["segments"]
    segment, block = segments[0]["object"], world.manifest("tenants/zeta/manifest", data)["blocks"][0]
    flip(world, data, segment)
    remove(world, data, block["object"])
    found = faults(world, data)
    check(len(found) == 2 and all("flamegrid bucket quarantine" in line for line in found), "%s", found)
    for name in (segment, block["object"]):
        give_up(world, data, name)
    check(faults(world, data) == [], "%s", faults(world, data))
    check(os.path.exists(world.path("quarantine/" + segment, data)), "the segment's bytes are not kept")
    lost = {tenant: values[-6:-2] for tenant, values in world.sent.items()}
    left = {tenant: [value for value in values if value not in lost[tenant]] for tenant, values in world.sent.items()}
    with world.server(*BUSY, data=data) as server:
        server.start().wait_ready()
        deadline = time.monotonic() + WAIT_S
        while world.manifest("manifests/l0", data)["segments"]:
            check(time.monotonic() < deadline, "segments are not retired: %s", server.log_tail())
            time.sleep(0.5)
        check(world.totals(server, "acme") == [len(left["acme"]), sum(left["acme"])], "%s", world.totals(server, "acme"))
        check(world.totals(server, "zeta")[0] == len(left["zeta"]) - block["profiles"], "%s", world.totals(server, "zeta"))
        start_s, end_s = world.start_s, world.start_s + 6 * DAY_S
        said = headers_of(world, server, "acme", start_s, end_s)
        check(said["X-Flamegrid-Complete"] == "false" and segment in said["X-Flamegrid-Missing"], "%s", said)
        said = headers_of(world, server, "zeta", start_s, end_s)
        check(block["object"] in said["X-Flamegrid-Missing"] and segment in said["X-Flamegrid-Missing"], "%s", said)
        said = headers_of(world, server, "acme", start_s - 2 * DAY_S, start_s - DAY_S)
        check(said["X-Flamegrid-Complete"] == "true", "another time: %s", said)
        at_ns = segments[0]["t_min_ns"] + 1  # late, of a time that is given up
        labels = {"__name__": "process_cpu", "service_name": "shop-0"}
        request = {"series": [exporting.series(labels, at_ns, {("main", "work"): (1, 77)},
                                               (("samples", "count"), ("cpu", "nanoseconds")))]}
        status, body = world.client(server, "acme").send("POST", "/push.v1.PusherService/Push", json.dumps(request),
                                                         {"Content-Type": "application/json"})
        check(status == 200, "a late push: %d %s", status, body)
        world.flush(server)
        check(world.totals(server, "acme") == [len(left["acme"]) + 1, sum(left["acme"]) + 77], "%s",
              world.totals(server, "acme"))
        check(server.terminate() == 0, "%s", server.log_tail())
    check(faults(world, data) == [], "in the end: %s", faults(world, data))
    shutil.rmtree(data)
    print("     objects are given up", flush=True)


def make_old(path):
    hours_ago = time.time() - 7200
    os.utime(path, (hours_ago, hours_ago))


def upload_unlisted(world, data, source):
    """Adds a copy of a segment as a two-hour-old upload of an ingester that has committed nothing since."""
    writer, cut = "5" * 32, source.rsplit("/", 1)[1]
    name = world.path("segments/%s/%s" % (writer, cut), data)
    os.makedirs(os.path.dirname(name))
    shutil.copyfile(source, name)
    make_old(name)
    return "segments/%s/%s" % (writer, cut)


def lost_uploads_are_told_apart(world):
    """A segment that no manifest knows: nothing is missing while other objects have all its profiles."""
    data = world.copy("committed elsewhere")
    name = upload_unlisted(world, data, world.path(live_segment(world, data)[0], data))
    check(faults(world, data) == [], "%s", faults(world, data))
    check(b"\norphans: 2 objects" in world.bucket.good("verify", "--data", data), "the copies are no orphans")
    cut(world, data, name)
    make_old(world.path(name, data))
    found = faults(world, data)
    check(len(found) == 1 and name in found[0] and "damaged" in found[0], "%s", found)
    shutil.rmtree(data)
    other = os.path.join(world.folder, "other")
    with flamegrid.Server(*QUICK, *IDLE, data=other) as server:
        server.start().wait_ready()
        client = world.client(server, "acme")
        request = {"series": [exporting.series({"__name__": "process_cpu", "service_name": "shop-0"},
                                               (world.start_s + 7) * 10**9, {("main", "work"): (1, 7)},
                                               (("samples", "count"), ("cpu", "nanoseconds")))]}
        status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps(request),
                                   {"Content-Type": "application/json"})
        check(status == 200, "push: %d %s", status, body)
        world.flush(server)
        check(server.terminate() == 0, "%s", server.log_tail())
    data = world.copy("nowhere else")
    name = upload_unlisted(world, data, world.path(live_segment(world, other)[0], other))
    found = faults(world, data)
    check(len(found) == 1 and name in found[0] and "1 of its 1 profiles are in no other object" in found[0], "%s", found)
    rebuild(world, data, "l0")
    check(faults(world, data) == [], "after the rebuild: %s", faults(world, data))
    shutil.rmtree(data)
    print("     lost uploads are told apart", flush=True)


def harm_one_service(world, data, name, tenant):
    """Flips a bit of which `bucket repair` says that it costs one service of the tenant. Returns the service's name."""
    path = world.path(name, data)
    with open(path, "rb") as file:
        whole = file.read()
    for at in range(16, len(whole), 7):
        with open(path, "wb") as file:
            file.write(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1:])
        before = files_of(data)
        code, out, _ = world.bucket.run("repair", name, "--data", data)
        check(files_of(data) == before, "a dry run changed something: %s", out)
        lost = [line for line in out.decode().splitlines() if ": lost, " in line]
        if code == 0 and len(lost) == 1 and lost[0].startswith("tenant %s, " % tenant):
            return lost[0].split("service ")[1].split(":")[0]
    check(False, "no byte of %s is of one service only", name)


def lost_values(world, tenant, record):
    """The values that were sent for the service and the time range of a record of loss."""
    times = range(record["t_min_ns"], record["t_max_ns"] + 1)
    return [value for value in world.sent[tenant] if "shop-%d" % ((value - 1000) % 3) == record["service"]
            and (world.start_s + 1800 * (value - 1000)) * 10**9 in times]


def repair(world, data, name, tenant, service):
    check(b"nothing was written" in world.bucket.good("repair", name, "--data", data), "a dry run")
    world.bucket.good("repair", name, "--apply", "--data", data)
    code, _, err = world.bucket.run("repair", name, "--apply", "--data", data)
    check(code == 1 and "no manifest refers to" in err, "twice: %d %s", code, err)
    check(os.path.exists(world.path("quarantine/" + name, data)), "the damaged bytes of %s are not kept", name)
    record = world.manifest("tenants/%s/manifest" % tenant, data)["lost"][-1]
    check(record["object"] == name and record["service"] == service, "%s", record)
    return record


def objects_are_repaired(world):
    """While a server runs a bit flips in a segment and in a block: after `bucket repair` one service of each is lost, and
    questions about the others are complete."""
    data = world.copy("repaired")
    segment = world.manifest("manifests/l0", data)["segments"][0]["object"]
    entry = world.manifest("tenants/zeta/manifest", data)["blocks"][0]
    block = entry["object"]
    harmed = {"acme": (segment, harm_one_service(world, data, segment, "acme")),
              "zeta": (block, harm_one_service(world, data, block, "zeta"))}
    said = world.bucket.good("repair", block, "--data", data)
    check(b"all %d profiles are in the %d objects it was made of" % (entry["profiles"], len(entry["from_blocks"])) in said,
          "while these are there nothing is lost: %s", said)
    for origin in entry["from_blocks"]:
        os.unlink(world.path("tenants/zeta/blocks/%s" % origin["id"], data))
    start_s, end_s = world.start_s, world.start_s + 6 * DAY_S
    lost = {}
    with world.server(*IDLE, data=data) as server:
        server.start().wait_ready()
        status, _ = ask(world, server, "acme", start_s, end_s)  # zeta's block has rollups of all of it
        check(status == 503, "before the repair: %d", status)
        for tenant, (name, service) in harmed.items():
            record = repair(world, data, name, tenant, service)
            lost[tenant] = lost_values(world, tenant, record)
            check(len(lost[tenant]) == record["profiles"] > 0, "%s: %s", record, lost[tenant])
        check(faults(world, data) == [], "%s", faults(world, data))
        world.check_totals(server, "repaired", lost)
        for tenant, (name, service) in harmed.items():
            for other in ("shop-0", "shop-1", "shop-2"):
                said = headers_of(world, server, tenant, start_s, end_s, '{service_name="%s"}' % other)
                if other == service:
                    check(said["X-Flamegrid-Complete"] == "false", "%s/%s: %s", tenant, other, said)
                    check("%s: service %s: abandoned" % (name, service) in said["X-Flamegrid-Missing"], "%s", said)
                else:
                    check(said["X-Flamegrid-Complete"] == "true", "%s/%s: %s", tenant, other, said)
            said = headers_of(world, server, tenant, start_s, end_s)
            check(said["X-Flamegrid-Complete"] == "false", "%s: %s", tenant, said)
        world.flush(server)
        world.check_totals(server, "repaired, flushed", lost)
        check(server.terminate() == 0, "%s", server.log_tail())
    comes_back(world, data, "repaired", lost)
    shutil.rmtree(data)
    print("     objects are repaired", flush=True)


def lost_and_found(bucket, folder):
    world = World(bucket, folder)
    world.make()
    check(faults(world, world.data) == [], "before anything is lost: %s", faults(world, world.data))
    objects_are_made_again(world)
    losses_are_said_first(world)
    lost_uploads_are_told_apart(world)
    objects_are_repaired(world)
    objects_are_given_up(world)
