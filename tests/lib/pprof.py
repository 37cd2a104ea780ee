"""Writes small pprof profiles with known values, and reads enough of a given one to sum its values."""


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def packed(field, values):
    return message(field, b"".join(map(varint, values)))


# The mapping of frames without names: start, limit, offset in the file, file, build id.
LIBRARY = (0x7F0000000000, 0x7F0000200000, 0x1000, "/usr/lib/libc.so.6", "abcdef0123")


def make(stacks, time_ns, sample_types=(("samples", "count"), ("cpu", "nanoseconds")), labelled=(), has_functions=False):
    """stacks: {("root", ..., "leaf"): (value of each sample type, ...)}; labelled: (stack, values, {name: value})
    of more samples. A frame is a name, a name with its file and line, or a number: an address in LIBRARY, or in no mapping
    if it is outside of LIBRARY. has_functions: the field of the mapping."""
    strings = {"": 0}
    functions = {}
    out = bytearray()

    def string(text):
        return strings.setdefault(text, len(strings))

    def value_type(field, kind, unit):
        return message(field, number(1, string(kind)) + number(2, string(unit)))

    for kind, unit in sample_types:
        out += value_type(1, kind, unit)
    for stack, values, labels in [(stack, values, {}) for stack, values in stacks.items()] + list(labelled):
        ids = [functions.setdefault(name, len(functions) + 1) for name in reversed(stack)]
        texts = [message(3, number(1, string(name)) + number(2, string(value))) for name, value in labels.items()]
        out += message(2, packed(1, ids) + packed(2, values) + b"".join(texts))
    start, limit, offset, path, build_id = LIBRARY
    if any(isinstance(name, int) for name in functions):
        out += message(3, number(1, 1) + number(2, start) + number(3, limit) + number(4, offset) + number(5, string(path))
                       + number(6, string(build_id)) + number(7, int(has_functions)))
    for name, id_ in functions.items():
        if isinstance(name, int):
            mapping = number(2, 1) if start <= name < limit else b""
            out += message(4, number(1, id_) + mapping + number(3, name))
            continue
        name, file, line = name if isinstance(name, tuple) else (name, "", 0)
        out += message(4, number(1, id_) + message(4, number(1, id_) + (number(2, line) if line else b"")))
        out += message(5, number(1, id_) + number(2, string(name)) + (number(4, string(file)) if file else b""))
    out += value_type(11, "cpu", "nanoseconds")
    for text in strings:  # insertion order is index order
        out += message(6, text.encode())
    return bytes(out + number(9, time_ns) + number(12, 10_000_000))


def fields(data):
    """Yields (field, wire type, value) of a message. Raises ValueError or IndexError on malformed input."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 2:
            size, at = read_varint(data, at)
            if at + size > len(data):
                raise ValueError("a field runs past the end")
            value, at = data[at:at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at:at + size], at + size
        else:
            raise ValueError("wire type %d" % kind)
        yield key >> 3, kind, value


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def numbers(kind, value):
    """Returns a repeated number, packed or not."""
    if kind == 0:
        return [value]
    out, at = [], 0
    while at < len(value):
        n, at = read_varint(value, at)
        out.append(n)
    return out


def read_time_ns(data):
    return max([0] + [signed(value) for field, kind, value in fields(data) if (field, kind) == (9, 0)])


def read_totals(data):
    """Returns the sum of each sample type."""
    totals = []
    for field, kind, value in fields(data):
        if (field, kind) != (2, 2):
            continue
        values = [n for f, k, v in fields(value) if f == 2 for n in numbers(k, v)]
        totals += [0] * (len(values) - len(totals))
        for i, n in enumerate(values):
            totals[i] += signed(n)
    return totals


def total_json(profile):
    """Returns the sum of the first sample type of a pprof in JSON."""
    return sum(int(sample["value"][0]) for sample in profile.get("sample", []))


def folded(data):
    """{(root, ..., leaf): value of the first sample type} of a pprof's bytes."""
    strings, functions, locations, samples = [], {}, {}, []
    for field, kind, value in fields(data):
        if field == 6:
            strings.append(value.decode())
        elif field == 5:
            parts = {number: content for number, _, content in fields(value)}
            functions[parts[1]] = parts[2]
        elif field == 4:
            location, lines = None, []
            for number, _, content in fields(value):
                if number == 1:
                    location = content
                elif number == 4:
                    lines.append(dict((part, what) for part, _, what in fields(content))[1])
            locations[location] = lines
        elif field == 2:
            parts = {1: [], 2: []}
            for part, kind_of, content in fields(value):
                if part in parts:  # packed, or one by one
                    parts[part] += numbers(kind_of, content)
            samples.append((parts[1], parts[2]))
    found = {}
    for stack, values in samples:
        names = tuple(strings[functions[line]] for location in reversed(stack) for line in reversed(locations[location]))
        found[names] = found.get(names, 0) + values[0]
    return found


def located(data, change=lambda stacks: stacks):
    """[((root, ..., leaf), values)] of a pprof's bytes; change may change the ids of their locations, leaf first. With all that a location has: (mapping, address, is it folded, lines). A line,
    the innermost first, is (function, number); mappings and functions are tuples of their fields without the id."""
    strings, samples = [], []
    tables = {3: {}, 4: {}, 5: {}}
    for field, _, value in fields(data):
        if field == 6:
            strings.append(value.decode())
        elif field == 2:
            samples.append(value)
        elif field in tables:
            lines = [dict((part, what) for part, _, what in fields(content)) for part, kind, content in fields(value) if (part, kind) == (4, 2)]
            parts = {part: content for part, kind, content in fields(value) if kind == 0}
            tables[field][parts[1]] = parts, lines
    mappings, functions = ({id_: tuple(strings[parts.get(part, 0)] if part in texts else parts.get(part, 0) for part in all_parts)
                            for id_, (parts, _) in tables[field].items()}
                           for field, texts, all_parts in ((3, (5, 6), range(2, 11)), (5, (2, 3, 4), range(2, 6))))
    locations = {id_: (mappings.get(parts.get(2, 0)), parts.get(3, 0), bool(parts.get(5, 0)),
                       tuple((functions[line[1]], signed(line.get(2, 0))) for line in lines))
                 for id_, (parts, lines) in tables[4].items()}
    ids, values = [], []
    for sample in samples:
        parts = {1: [], 2: []}
        for part, kind, content in fields(sample):
            if part in parts:  # packed, or one by one
                parts[part] += numbers(kind, content)
        ids.append(parts[1])
        values.append([signed(value) for value in parts[2]])
    return [(tuple(locations[id_] for id_ in reversed(stack)), column) for stack, column in zip(change(ids), values)]


def folded_json(profile):
    """Returns {"root;...;leaf": value} of a pprof in JSON. A frame without a name is its address."""
    strings = profile.get("stringTable", [])
    functions = {f["id"]: strings[int(f.get("name", 0))] or strings[int(f.get("systemName", 0))]
                 for f in profile.get("function", [])}
    frames = {}
    for location in profile.get("location", []):
        address = "0x%x" % int(location.get("address", 0))
        lines = [functions[line["functionId"]] or address for line in location.get("line", [])]
        frames[location["id"]] = lines[::-1] or [address]
    stacks = {}
    for sample in profile.get("sample", []):
        stack = ";".join(frame for id_ in reversed(sample.get("locationId", [])) for frame in frames[id_])
        stacks[stack] = stacks.get(stack, 0) + int(sample["value"][0])
    return stacks
