"""What tenants used, counted a second time from the requests themselves, in the slow and obvious form.

It shares no code with the server: what both say was found in two ways."""

import gzip

import pprof

DAY_NS = 86400 * 10**9
KEYS = ("profiles", "samples", "wire_bytes", "raw_bytes")


def day_of(time_ns):
    """The number of the day of UTC since 1970."""
    return time_ns // DAY_NS


class Requests:
    """Requests to /ingest that were answered with 200, each with one pprof."""

    def __init__(self):
        self.sent = {}  # (tenant, service, labels, uncompressed body): bytes that came first

    def add(self, tenant, service, labels, body):
        """A profile that was sent before is stored already: it counts once, as it came first."""
        raw = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        self.sent.setdefault((tenant, service, tuple(sorted(labels.items())), raw), len(body))

    def rows(self):
        """{(tenant, day, service): {key: number}}"""
        found, series = {}, {}
        for (tenant, service, labels, raw), wire in self.sent.items():
            key = (tenant, day_of(pprof.read_time_ns(raw)), service)
            row = found.setdefault(key, dict.fromkeys(KEYS, 0))
            row["profiles"] += 1
            row["samples"] += len(pprof.folded(raw))
            row["wire_bytes"] += wire
            row["raw_bytes"] += len(raw)
            series.setdefault(key, set()).add(labels)
        for key, row in found.items():
            row["series"] = len(series[key])
        return found


def by_day(rows):
    """{(tenant, day): {key: number}}: the sums of all services."""
    found = {}
    for (tenant, day, _), row in rows.items():
        total = found.setdefault((tenant, day), dict.fromkeys(KEYS + ("series",), 0))
        for key in total:
            total[key] += row[key]
    return found
