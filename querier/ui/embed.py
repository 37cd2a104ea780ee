"""Writes the page as a C table (querier/ui.h): embed.py DIST API OUT.c

DIST has what `npm run build` makes of querier/ui, API what querier/openapi/make.py makes. Files are compressed here, once and
well, except those that are compressed already. The same files always give the same bytes.
"""

import gzip
import hashlib
import os
import sys

TYPES = {".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".json": "application/json", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
BYTES_A_LINE = 32
WORTH_IT = 0.95  # of the size: fonts are compressed already


def files_of(dist, api):
    """Yields path in URLs, file; index.html first, which has other paths in URLs (querier/ui.c)."""
    yield "/index.html", os.path.join(dist, "index.html")
    assets = os.path.join(dist, "assets")
    for name in sorted(os.listdir(assets)):
        yield "/assets/" + name, os.path.join(assets, name)
    yield "/api/openapi.json", os.path.join(api, "openapi.json")
    yield "/api/reference", os.path.join(api, "reference.html")


def c_bytes(name, content):
    lines = (content[at:at + BYTES_A_LINE] for at in range(0, len(content), BYTES_A_LINE))
    return "static const unsigned char %s[] = {\n%s\n};\n\n" % (
        name, "\n".join("".join("%d," % byte for byte in line) for line in lines))


def main():
    dist, api, out = sys.argv[1:]
    arrays, rows = [], []
    for number, (path, file) in enumerate(files_of(dist, api)):
        with open(file, "rb") as source:
            plain = source.read()
        small = gzip.compress(plain, 9, mtime=0)
        stored = small if len(small) < WORTH_IT * len(plain) else plain
        arrays.append(c_bytes("file_%d" % number, stored))
        rows.append('    {.path = "%s", .content_type = "%s", .etag = "W/\\"%s\\"", .bytes = file_%d, .len = sizeof file_%d, '
                    ".plain_len = %d, .immutable = %s},\n" % (
                        path, TYPES[os.path.splitext(file)[1]], hashlib.sha256(plain).hexdigest()[:16], number, number, len(plain),
                        "true" if path.startswith("/assets/") else "false"))
    with open(out, "w", encoding="ascii") as table:
        table.write('/* Made by querier/ui/embed.py. */\n#include "querier/ui.h"\n\n%s'
                    "const struct qry_ui_file qry_ui_files[] = {\n%s};\n"
                    "const size_t qry_n_ui_files = sizeof qry_ui_files / sizeof qry_ui_files[0];\n" % (
                        "".join(arrays), "".join(rows)))


if __name__ == "__main__":
    main()
