"""Seeds of blocks as a server makes them: of a day with its rollups, of nodes over a week, and of nodes that
are alone; with the directories of nodes and the manifest that go with them.

    python3 tests/fuzz/seeds.py [CORPUS]        build/dev/flamegrid has to be there

Weeks of two small services go into a server that compacts at once, then into one that keeps rollups for
longer than profiles. The smallest object of each kind becomes a file of CORPUS, by default tests/fuzz/corpus."""

import glob
import os
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir, "bucket"), os.path.join(HERE, os.pardir, "lib")]

import flamegrid  # noqa: E402
import keeping  # noqa: E402

NODES_ANYHOW = ["--compactor.rollup_min_bytes", "1"]
HEAD = struct.Struct("<4sIIIII")  # of NOD, common/storage/rollup/README.md
DAY, WEEK = 3, 4  # levels, compactor/plan_core.h; in a file's header


def put(folder, name, content):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)
    print("%s: %d bytes" % (os.path.join(folder, name), len(content)))


def directory_of_nodes(block):
    """The first one, unpacked; None: it has none."""
    at = block.find(b"FGN1")
    if at < 0:
        return None
    _, _, raw, stored, _, _ = HEAD.unpack_from(block, at)
    packed = block[at + HEAD.size:at + HEAD.size + stored]
    return packed if raw == stored else subprocess.run(["zstd", "-dcq"], input=packed, capture_output=True,
                                                       check=True).stdout


def blocks(data):
    """{path: content} of the objects that there are."""
    found = {}
    for path in glob.glob(os.path.join(data, "bucket", "objects", "tenants", "*", "blocks", "*")):
        with open(path, "rb") as file:
            found[path] = file.read()
    return found


def take(corpus, name, level, objects):
    """The smallest of the level, and its directory of nodes."""
    of_level = [content for content in objects.values() if struct.unpack_from("<I", content, 8)[0] == level]
    if not of_level:
        sys.exit("there is no block for %s" % name)
    block = min(of_level, key=len)
    put(os.path.join(corpus, "block"), name, block)
    put(os.path.join(corpus, "rollup"), "directory-of-" + name, b"\0" + directory_of_nodes(block))


def serve(data, settings, work, wanted):
    """A server that does what is to be done, until there is what is wanted."""
    with flamegrid.Server(*keeping.QUICK, *NODES_ANYHOW, *settings, data=data) as server:
        server.start().wait_ready()
        work(server, flamegrid.Client(server.port))
        keeping.wait_for(wanted, "the compactor")
        flamegrid.check(server.terminate() == 0, "%s", server.log_tail())


def has_level(data, level, before):
    return any(path not in before and struct.unpack_from("<I", content, 8)[0] == level
               for path, content in blocks(data).items())


def main():
    corpus = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "corpus")
    end_s = int(time.time()) // keeping.WEEK_S * keeping.WEEK_S
    with tempfile.TemporaryDirectory() as data:
        serve(data, [], lambda server, client: keeping.push_weeks(server, client, end_s - 2 * keeping.WEEK_S, end_s),
              lambda: has_level(data, WEEK, {}))
        before = blocks(data)
        take(corpus, "a-day", DAY, before)
        take(corpus, "nodes-of-a-week", WEEK, before)
        serve(data, keeping.KEEPING, lambda server, client: None, lambda: has_level(data, WEEK, before))
        take(corpus, "nodes-alone", WEEK, {path: content for path, content in blocks(data).items() if path not in before})
        with open(glob.glob(os.path.join(data, "bucket", "objects", "tenants", "*", "manifest"))[0], "rb") as file:
            put(os.path.join(corpus, "manifest_blocks"), "nodes-alone", file.read())


if __name__ == "__main__":
    main()
