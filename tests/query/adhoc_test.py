#!/usr/bin/env python3
"""Ad hoc profiles: files that are uploaded, listed, shown, compared, shared and deleted.

    adhoc_test.py [-k REGEX]
"""

import base64
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
import pprof  # noqa: E402
from flamegrid import ACTION, check  # noqa: E402

SERVICE = "/adhocprofiles.v1.AdHocProfileService/"
FOLDED = b"main;work;hash 30\nmain;work;sort 10\n"
OTHER = b"main;work;hash 10\nmain;idle 20\n"
ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}-[A-Za-z0-9_.-]{1,100}")
LARGE = ["--limits.max_profile_size_bytes", "256MiB", "--querier.adhoc_decode_max_bytes", "1GiB"]


def send(client, method, target, body=None, headers=None, want=200):
    status, answer = client.send(method, target, body, headers)
    check(status == want, "%s %s: %d %s", method, target, status, answer[:400])
    return answer


def call(client, method, want=200, **fields):
    answer = send(client, "POST", SERVICE + method, json.dumps(fields), {"Content-Type": "application/json"}, want)
    return json.loads(answer)


def upload(client, name, content, want=200, headers=None):
    target = "/api/adhoc?name=" + urllib.parse.quote(name)
    return json.loads(send(client, "POST", target, content, headers, want))


def shown(client, id_, want=200, **parameters):
    return json.loads(send(client, "GET", "/api/adhoc/%s?%s" % (id_, urllib.parse.urlencode(parameters)), want=want))


def listed(client):
    return json.loads(send(client, "GET", "/api/adhoc"))["profiles"]


def delete(client, id_, want=200, headers=ACTION):
    return json.loads(send(client, "DELETE", "/api/adhoc/" + id_, headers=headers, want=want))


def stacks(document):
    """{path: [total, self]} of a flamebearer document."""
    graph, found, above = document["flamebearer"], {}, None
    for level in graph["levels"]:
        bars, x = [], 0
        for at in range(0, len(level), 4):
            x += level[at]
            path = graph["names"][level[at + 3]]
            if above is not None:
                path = next(upper for begin, end, upper in above if begin <= x < end) + ";" + path
            found[path] = level[at + 1:at + 3]
            bars.append((x, x + level[at + 1], path))
            x += level[at + 1]
        above = bars
    return found


def objects_of(server, tenant="anonymous"):
    return glob.glob(os.path.join(server.data, "bucket", "objects", "tenants", tenant, "adhoc", "*"))


# ---- cases ----


def life_of_a_file():
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        check(listed(client) == [], "a new server has files")
        before = time.time() * 1000 - 1
        made = upload(client, "my stacks.folded", FOLDED)
        check(ID.fullmatch(made["id"]) and made["name"] == "my_stacks.folded", "%s", made)
        check(made["bytes"] == len(FOLDED) and made["format"] == "folded", "%s", made)
        check(before <= made["uploaded"] <= time.time() * 1000 + 1, "%s", made)
        check(made["expires"] - made["uploaded"] == 7 * 86400 * 1000, "%s", made)
        check(made["type"] == made["name"] and made["types"] == [made["name"]], "%s", made)

        document = shown(client, made["id"])
        check(stacks(document) == {
            "total": [40, 0], "total;main": [40, 0], "total;main;work": [40, 0],
            "total;main;work;hash": [30, 30], "total;main;work;sort": [10, 10]}, "%s", document)
        check(document["metadata"]["format"] == "single" and document["file"] == made, "%s", document)
        check(shown(client, made["id"][:26])["file"] == made, "the id without the name is another file")
        check(shown(client, made["id"], type="my_stacks.folded") == document, "by its type it is another document")
        cut = stacks(shown(client, made["id"], **{"max-nodes": 3}))
        check(cut.get("total;main;work;other") == [10, 10], "%s", cut)

        status, raw = client.send("GET", "/api/adhoc/%s/raw" % made["id"])
        check(status == 200 and raw == FOLDED, "%d %s", status, raw)
        client.connection.request("GET", "/api/adhoc/%s/raw" % made["id"])
        response = client.connection.getresponse()
        response.read()
        check(response.headers["Content-Disposition"] == 'attachment; filename="my_stacks.folded"', "%s", response.headers)
        check(response.headers["X-Content-Type-Options"] == "nosniff", "%s", response.headers)
        check(response.headers["Content-Type"] == "application/octet-stream", "%s", response.headers)

        # The service of Pyroscope sees the same files.
        time.sleep(0.002)  # so that one is newer
        answer = call(client, "Upload", name="b.folded", profile=base64.b64encode(OTHER).decode())
        check(ID.fullmatch(answer["id"]) and answer["profileTypes"] == ["b.folded"], "%s", answer)
        again = call(client, "Get", id=answer["id"])
        check(again == answer, "%s, uploaded as %s", again, answer)
        check(json.loads(answer["flamebearerProfile"])["flamebearer"]["numTicks"] == 30, "%s", answer)
        names = [entry["id"] for entry in call(client, "List")["profiles"]]
        check(names == [answer["id"], made["id"]] == [entry["id"] for entry in listed(client)], "%s", names)
        check(all(ID.fullmatch(name) for name in names) and names[0][:10] != names[1][:10], "%s", names)

        # They outlive the server, and a deletion is at once in every answer.
        check(server.terminate() == 0, "%s", server.log_tail())
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        check(shown(client, made["id"]) == document, "another document after a restart")
        check(delete(client, made["id"])["id"] == made["id"], "another file was deleted")
        shown(client, made["id"], want=404)
        delete(client, made["id"], want=404)
        send(client, "GET", "/api/adhoc/%s/raw" % made["id"], want=404)
        check([entry["id"] for entry in listed(client)] == [answer["id"]], "the wrong file is gone")
        check(len(objects_of(server)) == 1, "%s", objects_of(server))
        check(server.terminate() == 0, "%s", server.log_tail())
        environment = {key: value for key, value in os.environ.items() if key not in ("FG_BINARY", "FG_SHARED")}
        done = subprocess.run([flamegrid.binary(), "bucket", "verify", "--json", "--data", server.data], capture_output=True,
                              env=environment, check=False)
        found = json.loads(done.stdout)
        check(done.returncode == 0 and found["ok"] and found["orphans"]["objects"] == 0, "%s %s", done.stderr, found)


def comparison():
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        left = upload(client, "a.folded", FOLDED)["id"]
        right = upload(client, "a.folded", OTHER)["id"]
        check(left != right, "two files have one id")
        answer = call(client, "Diff", leftId=left, rightId=right)
        document = json.loads(answer["flamebearerProfile"])
        check(answer["profileTypes"] == ["a.folded"], "%s", answer)
        check(document["leftTicks"] == 40 and document["rightTicks"] == 30, "%s", document)
        check(document["metadata"]["format"] == "double", "%s", document)
        graph = document["flamebearer"]
        # offset, total and self of the left, the same of the right, name
        bars = {graph["names"][level[at + 6]]: (level[at + 1:at + 3], level[at + 4:at + 6])
                for level in graph["levels"] for at in range(0, len(level), 7)}
        check(bars == {"total": ([40, 0], [30, 0]), "main": ([40, 0], [30, 0]), "work": ([40, 0], [10, 0]),
                       "hash": ([30, 30], [10, 10]), "sort": ([10, 10], [0, 0]), "idle": ([0, 0], [20, 20])}, "%s", bars)
        pprof_id = upload(client, "cpu.pb.gz", small_pprof())["id"]
        text = call(client, "Diff", 400, leftId=left, rightId=pprof_id)["message"]
        check("units differ" in text, "%s", text)
        call(client, "Diff", 404, leftId=left, rightId="7" * 26)
        call(client, "Diff", 400, leftId=left, rightId=right, profileType="cpu")
        call(client, "Diff", 400, leftId=left, rightId=right, maxNodes=-1)


def small_pprof():
    return gzip.compress(pprof.make({("main", "work"): (1, 10), ("main", 0x1234): (2, 20)}, time.time_ns()))


def totals_of(client, made):
    """The sum of each sample type, as flame graphs have it."""
    return [shown(client, made["id"], type=type_)["flamebearer"]["numTicks"] for type_ in made["types"]]


def rows_of_corpus():
    folder = flamegrid.shared_folder("corpus")
    with open(os.path.join(folder, "manifest.tsv"), encoding="utf-8") as manifest:
        head = manifest.readline().rstrip("\n").split("\t")
        for line in manifest:
            row = dict(zip(head, line.rstrip("\n").split("\t")))
            path = os.path.join(folder, row["file"])
            if os.path.exists(path):
                with open(path, "rb") as file:
                    yield row, file.read()


def check_totals(client, row, made):
    kind, totals = row["format"], row["totals"].split()
    if kind == "jfr":
        check(all(re.fullmatch(r"[a-z_]+(:[a-z_]+:[a-z]+)?", type_) for type_ in made["types"]), "%s", made)
        check(any(total > 0 for total in totals_of(client, made)), "%s: %s", row["file"], made)
    elif kind == "speedscope":
        exponent = 0 if row["types"].endswith("/none") else 9
        want = round(sum(float(total) for total in totals) * 10**exponent)
        check(totals_of(client, made) == [want], "%s: %s, want %s", row["file"], totals_of(client, made), want)
    else:
        ours = totals_of(client, made)
        check(ours == [int(total) for total in totals], "%s: %s, want %s", row["file"], ours, totals)


# A .NET agent's without ids of functions, which only its name in an upload to /ingest explains; samples of negative values, which
# are left out; text that is not UTF-8, which is refused.
DIFFERENT = {"pyroscope-dotnet-pprof-73.pb.gz", "parca-alloc_space_delta.pb.gz", "pyroscope-invalid_utf8.pb.gz"}


def files_of_all_formats():
    """Good files of every format have the totals that other tools say; bad ones are refused and nothing is stored."""
    known = {"pprof": 0, "collapsed": 0, "jfr": 0, "speedscope": 0, "tree": 0, "trie": 0}
    with flamegrid.Server(*LARGE, "--limits.adhoc_bytes_max", "0") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        for row, content in rows_of_corpus():
            if row["format"] not in known or "nasty" in row["file"] or "expected" in row["file"]:
                continue
            name = os.path.basename(row["file"])
            if name in DIFFERENT:
                continue
            if row["expect"] == "accept":
                made = upload(client, name, content)
                check_totals(client, row, made)
                known[row["format"]] += 1
                delete(client, made["id"])
            elif row["expect"] == "reject":
                upload(client, name, content, 400)
            check(listed(client) == [], "%s is stored", name)
        check(min(known.values()) > 0, "not of every format: %s", known)
        check(server.terminate() == 0, "%s", server.log_tail())


def nasty_files():
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        folder, n = flamegrid.shared_folder("corpus"), 0
        for path in sorted(glob.glob(os.path.join(folder, "*-nasty", "**"), recursive=True)):
            if not os.path.isfile(path) or "otlp" in path or "lines" in path:
                continue
            with open(path, "rb") as file:
                content = file.read()
            status, answer = client.send("POST", "/api/adhoc?name=" + urllib.parse.quote(os.path.basename(path)), content)
            check(status in (200, 400, 413), "%s: %d %s", path, status, answer[:300])
            if status == 200:
                made = json.loads(answer)
                for type_ in made["types"]:
                    shown(client, made["id"], type=type_)
                check(send(client, "GET", "/api/adhoc/%s/raw" % made["id"]) == content, "%s: other bytes", path)
                delete(client, made["id"])
            n += 1
        check(n > 50, "%d files", n)
        check(server.terminate() == 0, "%s", server.log_tail())


def names_and_contents_tell_the_format():
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        pprof_gz = small_pprof()
        for name, content, want in (
                ("cpu.pb.gz", pprof_gz, "pprof"), ("cpu.pprof", gzip.decompress(pprof_gz), "pprof"), ("", pprof_gz, "pprof"),
                ("unnamed", gzip.decompress(pprof_gz), "pprof"), ("stacks", FOLDED, "folded"),
                ("stacks.gz", gzip.compress(FOLDED), "folded"), ("a.lines", b"a;b\na;b\n", "lines"),
                ("a.tree", b"\0\0\1\1a\0\2\1b\1\0\1c\2\0", "tree"), ("a.trie", b"\0\0\1\5main;\0\1\1a\n\0", "trie")):
            made = upload(client, name, content)
            check(made["format"] == want, "%s: %s", name, made)
        check(upload(client, "", FOLDED)["name"] == "profile", "a file without a name")
        long_name = upload(client, "ä" * 300 + ".lines", b"a;b\n")
        check(long_name["format"] == "lines" and len(long_name["name"]) == 100, "%s", long_name)
        check(upload(client, "../<b>.folded", FOLDED)["name"] == ".." + "__b_.folded", "a path")


PERF = b"""# captured on: today

java 12688/12700 [002] 6544038.708352:     250000 cpu-clock:pppH:
	    7f2c0a01b3c4 Interpreter+0x1c4 (/tmp/perf-12688.map)
	    7f2c13f1d0aa [unknown] (/usr/lib/libjvm.so)

java 12688/12700 [002] 6544038.718352:          1 page-faults:
	    7f2c13f1d0aa [unknown] (/usr/lib/libjvm.so)

"""


def saved_flame_graphs_and_perf():
    """What the server has drawn can be looked at again, bar by bar; and what `perf script` says, each event by itself."""
    with flamegrid.Server() as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        send(client, "POST", "/ingest?name=shop.cpu&from=now-20s&until=now-10s", FOLDED)
        send(client, "POST", "/ingest?name=shop.inuse_space&from=now-20s&until=now-10s", OTHER)
        for query in ("process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", "memory:inuse_space:bytes::{}"):
            target = "/pyroscope/render?" + urllib.parse.urlencode({"query": query, "from": "now-1h", "until": "now"})
            saved = send(client, "GET", target)
            check(stacks(json.loads(saved))["total"][0] > 0, "%s: nothing", query)
            made = upload(client, "saved.json", saved)
            check(made["format"] == "flamebearer", "%s", made)
            again = shown(client, made["id"])
            check(stacks(again) == stacks(json.loads(saved)), "%s instead of %s", again, saved)
            check(again["metadata"] == json.loads(saved)["metadata"], "%s instead of %s", again, saved)
            check(stacks(shown(client, upload(client, "", json.dumps(again).encode())["id"])) == stacks(again), "an answer of ours, once more")
            side = urllib.parse.urlencode({"leftQuery": query, "rightQuery": query, "leftFrom": "now-1h", "rightFrom": "now-1h"})
            status, answer = client.send("POST", "/api/adhoc?name=diff.json", send(client, "GET", "/pyroscope/render-diff?" + side))
            check(status == 400 and b"a comparison" in answer, "%d %s", status, answer)
        for name in ("", "out.txt", "out.perf_script", "out.perf_script.gz"):
            made = upload(client, name, gzip.compress(PERF) if name.endswith(".gz") else PERF)
            check(made["format"] == "perf_script" and made["types"] == ["cpu-clock:pppH", "page-faults"], "%s", made)
            found = stacks(shown(client, made["id"]))
            check(found == {"total": [1, 0], "total;java": [1, 0], "total;java;[libjvm.so]": [1, 0],
                            "total;java;[libjvm.so];Interpreter": [1, 1]}, "%s", found)
            found = stacks(shown(client, made["id"], type="page-faults"))
            check(found == {"total": [1, 0], "total;java": [1, 0], "total;java;[libjvm.so]": [1, 1]}, "%s", found)


def tenants_are_apart():
    with flamegrid.Server("--multitenancy_enabled", "true") as server:
        server.start().wait_ready()
        ours = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "ours"})
        theirs = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "theirs"})
        made = upload(ours, "a.folded", FOLDED)
        check(listed(theirs) == [] and call(theirs, "List") == {}, "another tenant sees a file")
        shown(theirs, made["id"], want=404)
        send(theirs, "GET", "/api/adhoc/%s/raw" % made["id"], want=404)
        delete(theirs, made["id"], want=404)
        call(theirs, "Get", 404, id=made["id"])
        mine = upload(theirs, "a.folded", OTHER)["id"]
        call(theirs, "Diff", 404, leftId=mine, rightId=made["id"])
        both = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "ours|theirs"})
        call(both, "List", 400)
        send(both, "GET", "/api/adhoc", want=400)
        send(flamegrid.Client(server.port), "GET", "/api/adhoc", want=401)
        check(shown(ours, made["id"])["flamebearer"]["numTicks"] == 40, "the file is another one")


def limits():
    with flamegrid.Server("--querier.adhoc_upload_max_bytes", "64KiB", "--limits.adhoc_profiles_max", "3",
                          "--limits.adhoc_bytes_max", "100KiB", "--limits.max_profile_size_bytes", "128KiB") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        line = b"main;work 1\n"
        status, answer = client.send("POST", "/api/adhoc?name=a.folded", line * 6000)
        check(status == 413, "%d %s", status, answer)
        text = call(client, "Upload", 400, name="a.folded", profile=base64.b64encode(line * 6000).decode())["message"]
        check("querier.adhoc_upload_max_bytes" in text, "%s", text)
        text = upload(client, "a.folded.gz", gzip.compress(line * 20000), 400)["message"]
        check("limits.max_profile_size_bytes" in text, "%s", text)
        first = upload(client, "a.folded", line * 5000)["id"]
        text = upload(client, "a.folded", line * 5000, 429)["message"]
        check("limits.adhoc_bytes_max" in text, "%s", text)
        upload(client, "a.folded", line)
        upload(client, "a.folded", line)
        text = upload(client, "a.folded", line, 429)["message"]
        check("limits.adhoc_profiles_max" in text, "%s", text)
        text = call(client, "Upload", 429, name="a.folded", profile=base64.b64encode(line).decode())["message"]
        check("limits.adhoc_profiles_max" in text, "%s", text)
        delete(client, first)
        upload(client, "a.folded", line * 5000)
        check(server.terminate() == 0, "%s", server.log_tail())


def expiry():
    """What has expired is not shown, and the compactor deletes it."""
    with flamegrid.Server("--limits.adhoc_retention_period", "2s", "--limits.adhoc_profiles_max", "1") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        made = upload(client, "a.folded", FOLDED)
        check(shown(client, made["id"])["file"] == made and made["expires"] - made["uploaded"] == 2000, "%s", made)
        upload(client, "b.folded", FOLDED, 429)
        time.sleep(max(0, made["expires"] / 1000 - time.time()) + 0.05)
        check(listed(client) == [] and call(client, "List") == {}, "an expired file is listed")
        shown(client, made["id"], want=404)
        send(client, "GET", "/api/adhoc/%s/raw" % made["id"], want=404)
        delete(client, made["id"], want=404)
        upload(client, "b.folded", FOLDED)  # an expired one does not count
        check(server.terminate() == 0, "%s", server.log_tail())
    with flamegrid.Server("--limits.adhoc_retention_period", "0") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        check("expires" not in upload(client, "a.folded", FOLDED), "a file that is kept forever expires")


def damage():
    """A damaged object costs only itself, and can be deleted."""
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        bad = upload(client, "bad.folded", FOLDED)["id"]
        good = upload(client, "good.folded", FOLDED)["id"]
        path = next(path for path in objects_of(server) if bad[:26] in path)
        with open(path, "r+b") as file:
            file.seek(3)
            file.write(b"X")
        # An object that a newer version wrote, or somebody put there.
        with open(os.path.join(os.path.dirname(path), "0" * 26 + "-x"), "wb") as file:
            file.write(b"?")
        text = shown(client, bad, want=500)["message"]
        check("damaged" in text and bad[:26] in text, "%s", text)
        send(client, "GET", "/api/adhoc/%s/raw" % bad, want=500)
        call(client, "Get", 500, id=bad)
        check(len(listed(client)) == 2, "%s", listed(client))
        check(shown(client, good)["flamebearer"]["numTicks"] == 40, "a good file is damaged")
        delete(client, bad)
        check([entry["id"] for entry in listed(client)] == [good], "%s", listed(client))
        shown(client, "0" * 26, want=404)


def limits_that_were_lowered():
    """A file that was accepted once is no fault of who looks at it later."""
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        lines = b"".join(b"main;f%d 1\n" % i for i in range(3000))
        large = upload(client, "large.folded", lines)["id"]
        small = upload(client, "small.folded", FOLDED)["id"]
        for setting, value in (("--limits.max_profile_size_bytes", "20KiB"), ("--querier.adhoc_upload_max_bytes", "20KiB")):
            server.terminate()
            server.arguments = [setting, value]
            server.start().wait_ready()
            client = flamegrid.Client(server.port)
            text = shown(client, large, want=500)["message"]
            check("is refused now" in text and setting[2:] in text, "%s", text)
            check("is refused now" in call(client, "Get", 500, id=large)["message"], "another text")
            check(shown(client, small)["flamebearer"]["numTicks"] == 40, "a small file")
            shown(client, small, want=400, type="cpu")
            check(len(listed(client)) == 2, "%s", listed(client))


def wrong_requests():
    with flamegrid.Server() as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        made = upload(client, "a.folded", FOLDED)
        for id_ in ("x", "7" * 26, "7" * 26 + "-a.folded", made["id"] + "x", made["id"][:25], made["id"].lower(), "../manifest",
                    "%2e%2e%2fmanifest", made["id"][:26] + "%2f", "9" * 200, "%ff"):
            shown(client, id_, want=404)
        call(client, "Get", 404, id="")
        call(client, "Get", 404)
        for parameters in ({"max-nodes": 0}, {"max-nodes": "x"}, {"max-nodes": 2**21}, {"type": "cpu"}):
            shown(client, made["id"], want=400, **parameters)
        check(made["type"] in shown(client, made["id"], 400, type="cpu")["message"], "the error does not name the type")
        call(client, "Get", 400, id=made["id"], maxNodes=2**21)
        for name, content in (("a.folded", b""), ("a.folded", b"\n\n"), ("x.pprof", b"\0\0\0"), ("a.folded", b"a x\n"),
                              ("a.json", b"{}"), ("a.jfr", FOLDED), ("a.pb.gz", b"\x1f\x8b\x08"), ("a.tree", b"\0"),
                              ("cpu.pb.gz", small_pprof()[:-20])):
            message = upload(client, name, content, 400)["message"]
            check(len(message) > 10, "%s: %s", name, message)
        call(client, "Upload", 400, name="a", profile="*")
        call(client, "Upload", 400, name="a")
        # Web pages of others may neither upload nor delete; a deletion needs a header that they cannot send.
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
            send(client, "POST", "/api/adhoc?name=a.folded", FOLDED, headers, 403)
            send(client, "POST", SERVICE + "Upload", "{}", {"Content-Type": "application/json", **headers}, 403)
            send(client, "DELETE", "/api/adhoc/" + made["id"], None, {**ACTION, **headers}, 403)
        send(client, "DELETE", "/api/adhoc/" + made["id"], want=403)
        upload(client, "a.folded", FOLDED, headers={"Origin": "http://127.0.0.1:%d" % server.port})
        for method, target in (("PUT", "/api/adhoc"), ("DELETE", "/api/adhoc"), ("POST", "/api/adhoc/" + made["id"])):
            send(client, method, target, want=405, headers=ACTION)
        send(client, "POST", SERVICE + "Nothing", "{}", {"Content-Type": "application/json"}, 404)
        check(len(listed(client)) == 2, "%s", listed(client))
        check(server.terminate() == 0, "%s", server.log_tail())
    with flamegrid.Server("--querier.adhoc_upload_max_bytes", "0") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        text = json.loads(send(client, "GET", "/api/adhoc", want=501))["message"]
        check("querier.adhoc_upload_max_bytes" in text, "%s", text)
        call(client, "List", 501)


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_known_args()[0].pattern)
    for case in (life_of_a_file, comparison, names_and_contents_tell_the_format, saved_flame_graphs_and_perf, tenants_are_apart, limits, expiry, damage,
                 limits_that_were_lowered, wrong_requests, files_of_all_formats, nasty_files):
        tally.run(case.__name__, case)
    tally.finish()


if __name__ == "__main__":
    main()
