"""Converts requests of OTLP profiles (ExportProfilesServiceRequest) to the encoding of older releases."""

import struct

import pprof

PROFILES = (1, 2, 2)  # from a request down: resource, scope, profile
SAMPLE = (*PROFILES, 2)
# Fields of a Sample in 1.10: attributes, link, values.
OLD_SAMPLE_FIELDS = {2: 3, 3: 4, 4: 2}
OLD_PROFILE_FIELDS = {7: 8, 8: 9, 9: 10, 10: 11, 11: 12}  # of 1.8


def field(number, kind, value):
    if kind == 0:
        return pprof.number(number, value)
    return pprof.message(number, value) if kind == 2 else pprof.varint(number << 3 | kind) + value


def rewrite(data, version, unpacked=False, path=()):
    """Returns a request of 1.10, or the message at path in it, in the encoding of another release. unpacked:
    lists in samples are not packed."""
    out = b""
    for number, kind, value in pprof.fields(data):
        below = (*path, number)
        if kind == 2 and below in (SAMPLE[:1], SAMPLE[:2], SAMPLE[:3], SAMPLE):
            value = rewrite(value, version, unpacked, below)
        new = number
        if path == SAMPLE and version != "1.10":
            new = OLD_SAMPLE_FIELDS.get(number, number)
        elif path == PROFILES and version == "1.8":
            new = OLD_PROFILE_FIELDS.get(number, number)
        if unpacked and path == SAMPLE and kind == 2 and number in (2, 4):
            out += b"".join(pprof.number(new, n) for n in pprof.numbers(kind, value))
        elif unpacked and path == SAMPLE and kind == 2 and number == 5:
            out += b"".join(field(new, 1, value[at:at + 8]) for at in range(0, len(value), 8))
        else:
            out += field(new, kind, value)
    return out


def times_ns(data, path=()):
    """Returns the times at which the profiles of a request begin."""
    for number, kind, value in pprof.fields(data):
        if path == PROFILES and (number, kind) == (3, 1):
            yield struct.unpack("<Q", value)[0]
        elif kind == 2 and (*path, number) in (PROFILES[:1], PROFILES[:2], PROFILES):
            yield from times_ns(value, (*path, number))
