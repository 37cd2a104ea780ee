"""The slow way to an answer: a list of profiles as they were sent, walked from end to end for each question.

It shares no code with the server: what both say was found in two ways."""

BUCKETS = 20
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"


class Profile:
    """stacks: {(root, ..., leaf): value}, spans: [((span, trace), stack, value)]; a span's samples are not in stacks."""

    def __init__(self, labels, time_ns, stacks, spans=()):
        self.labels, self.time_ns, self.stacks, self.spans = labels, time_ns, stacks, list(spans)

    def value(self):
        return sum(self.stacks.values()) + sum(value for _, _, value in self.spans)

    def by_span(self):
        found = {}
        for span, _, value in self.spans:
            found[span] = found.get(span, 0) + value
        return found

    def all_stacks(self):
        found = dict(self.stacks)
        for _, stack, value in self.spans:
            found[stack] = found.get(stack, 0) + value
        return found


def group_of(labels, group_by):
    return tuple((name, labels[name]) for name in group_by if name in labels)


def step_of(time_ns, start_ms, step_ms):
    """By the millisecond: the first grid point that is not before it."""
    time_ms = time_ns // 10**6
    return max(0, -((start_ms - time_ms) // step_ms))


def in_range(profiles, start_ms, end_ms):
    return [profile for profile in profiles if start_ms * 10**6 <= profile.time_ns <= end_ms * 10**6]


def exemplars(profiles, start_ms, end_ms, step_ms, group_by):
    """{group: {timestamp: (greatest value, timestamps that have it)}}"""
    found = {}
    for profile in profiles:
        time_ms = profile.time_ns // 10**6
        if not start_ms - step_ms < time_ms or profile.time_ns > end_ms * 10**6:
            continue
        at_ms = start_ms + step_ms * step_of(profile.time_ns, start_ms, step_ms)
        if at_ms > end_ms:
            continue
        points = found.setdefault(group_of(profile.labels, group_by), {})
        value, times = points.get(at_ms, (0, set()))
        if profile.value() > value:
            value, times = profile.value(), set()
        if profile.value() == value:
            times.add(time_ms)
        points[at_ms] = (value, times)
    return found


def points(profiles, start_ms, end_ms, step_ms, group_by):
    """{group: {timestamp: profiles}} of a grid whose point at T has the profiles in (T - step, T]."""
    found = {}
    for profile in profiles:
        at = -((start_ms - profile.time_ns // 10**6) // step_ms)
        at_ms = start_ms + step_ms * max(at, 0)
        if at >= 0 and profile.time_ns // 10**6 > start_ms - step_ms and at_ms <= end_ms and profile.time_ns <= end_ms * 10**6:
            found.setdefault(group_of(profile.labels, group_by), {}).setdefault(at_ms, []).append(profile)
    return found


def covered(profiles, start_ms, end_ms, step_ms):
    """{timestamp: covered milliseconds}: by the parts of steps that have profiles."""
    parts = min(step_ms // 15000, 4000 // ((end_ms - start_ms) // step_ms + 1))
    parts = next((n for n in range(parts, 1, -1) if step_ms % n == 0), 1)
    part_ms = step_ms // parts
    filled = sorted({-((start_ms - profile.time_ns // 10**6) // part_ms) for profile in profiles})
    gaps = [after - before for before, after in zip(filled, filled[1:])]
    usual = sorted(gap for gap in gaps if gap <= max(1, 3600_000 // part_ms))
    usual = usual[len(usual) // 2] if usual else 1
    most = max(60000 // part_ms, usual * 3 // 2)  # longer ones are gaps
    found = {}
    for part, gap in zip(filled, [usual] + gaps):
        at_ms = start_ms - (-part // parts) * step_ms
        found[at_ms] = found.get(at_ms, 0) + (gap if gap <= most else usual) * part_ms
    return found


def heatmap(profiles, start_ms, end_ms, step_ms, group_by, spans):
    """{group: {timestamp: counts}}, and the lower bounds of the buckets."""
    points = {}
    for profile in in_range(profiles, start_ms, end_ms):
        group = group_of(profile.labels, group_by)
        if spans:
            for span, value in profile.by_span().items():
                key = (group, profile.time_ns, span)
                points[key] = points.get(key, 0) + value
        else:
            points[(group, profile.time_ns, id(profile))] = profile.value()
    least = min(points.values())
    greatest = max(max(points.values()), least + 1)
    found = {}
    for (group, time_ns, _), value in points.items():
        at_ms = start_ms + step_ms * step_of(time_ns, start_ms, step_ms)
        counts = found.setdefault(group, {}).setdefault(at_ms, [0] * BUCKETS)
        counts[min(BUCKETS - 1, (value - least) * BUCKETS // (greatest - least))] += 1
    return found, [least + (greatest - least) * bucket // BUCKETS for bucket in range(BUCKETS)]


def merged(profiles, start_ms, end_ms):
    """{stack: value} of all profiles of a range."""
    found = {}
    for profile in in_range(profiles, start_ms, end_ms):
        for stack, value in profile.all_stacks().items():
            found[stack] = found.get(stack, 0) + value
    return found


def pictured(stacks):
    """{stack: value} as flame graphs of Pyroscope's form have it: what a function called "other" calls is part of it."""
    found = {}
    for stack, value in stacks.items():
        if "other" in stack:
            stack = stack[:stack.index("other") + 1]
        found[stack] = found.get(stack, 0) + value
    return found


def of_spans(profiles, start_ms, end_ms, spans=(), traces=()):
    """{stack: value} of the samples that belong to one of the spans or traces."""
    found = {}
    for profile in in_range(profiles, start_ms, end_ms):
        for (span, trace), stack, value in profile.spans:
            if span in spans or trace in traces:
                found[stack] = found.get(stack, 0) + value
    return found


def newest_first(profiles, start_ms, end_ms):
    return sorted(in_range(profiles, start_ms, end_ms), key=lambda profile: -profile.time_ns)


def appearances(profiles, start_ms, end_ms):
    """{function: in how many profiles of a range it is on a stack with a value}, and how many profiles have a value."""
    found, total = {}, 0
    for profile in in_range(profiles, start_ms, end_ms):
        stacks = [stack for stack, value in profile.all_stacks().items() if value != 0]
        total += bool(stacks)
        for name in {name for stack in stacks for name in stack}:
            found[name] = found.get(name, 0) + 1
    return found, total


def call_graph(stacks, kept=None):
    """{function: [flat, cum]} and {(caller, callee): [value, is something left out between them]}, of the functions that are
    kept; None: all. A stack counts once for each function and each pair, however often it has them, and not for a function
    that calls itself."""
    nodes, edges = {}, {}
    for stack, value in stacks.items():
        shown = [name for name in stack if kept is None or name in kept]
        for name in set(shown):
            nodes.setdefault(name, [0, 0])[1] += value
        if shown and shown[-1] == stack[-1]:
            nodes[stack[-1]][0] += value
        pairs, caller, gap = {}, None, False
        for name in stack:
            if kept is not None and name not in kept:
                gap = True
                continue
            if caller not in (None, name):
                pairs.setdefault((caller, name), gap)  # pprof looks at the first of a stack
            caller, gap = name, False
        for pair, gap in pairs.items():
            edge = edges.setdefault(pair, [0, False])
            edge[0] += value
            edge[1] |= gap
    return nodes, edges


def go_pgo(stacks, keep_locations, aggregate_callees):
    """{stack: value} of stacks of locations (pprof.located), root first, cut to what is next to the leaf; 0: not cut. The line of a
    callee is only that of the innermost function: what that is inlined in are callers."""
    found = {}
    for stack, value in stacks.items():
        stack = stack[-keep_locations:]
        if aggregate_callees and stack and stack[-1][-1]:
            *location, lines = stack[-1]
            (function, _), *callers = lines
            stack = (*stack[:-1], (*location, ((function, 0), *callers)))
        found[stack] = found.get(stack, 0) + value
    return found


def go_completed(stacks, from_depth, below):
    """Stacks of ids, leaf first, as the distributor completes those that Go's profiler has cut (proto/pprof/go_stacks.h): if one has
    from_depth locations, and none so many as below. Each stack looks at every other one."""
    if max(map(len, stacks), default=0) < from_depth or (below and max(map(len, stacks)) >= below):
        return stacks
    leaders = {}  # the last 24 ids: the deepest stack that has them
    for stack in stacks:
        if len(stack) >= 24 and len(stack) > len(leaders.get(tuple(stack[-24:]), ())):
            leaders[tuple(stack[-24:])] = stack
    order = sorted(leaders, key=lambda ends: [id_.to_bytes(8, "little") for id_ in ends])
    above = {}
    for ends in order:
        found = [(shift, -order.index(other)) for other in order for shift in range(1, 9) if other[8 - shift:24 - shift] == ends[8:]]
        if found:
            shift, place = max(found)
            if order[-place] != ends:
                above[ends] = order[-place], shift
    missing = {}
    for ends in order:
        top, lacks, steps = ends, 0, 0
        while top in above and steps <= 56:
            top, shift = above[top]
            lacks, steps = lacks + shift, steps + 1
        if steps > 56:
            break
        if 0 < lacks < len(leaders[top]):
            missing[ends] = leaders[top][-lacks:]
    return [stack + missing.get(tuple(stack[-24:]), []) if len(stack) >= 24 else stack for stack in stacks]


def figures(stacks):
    """{(function, "self" or "total"): value}, of stacks with values; recursion counts once."""
    found = {}
    for stack, value in stacks.items():
        for key in [(stack[-1], "self")] + [(name, "total") for name in set(stack)]:
            found[key] = found.get(key, 0) + value
    return found


def compared(left, right):
    """{(function, "self" or "total"): (value, value)} of the merged stacks of two sides. A total that is the self value on both
    sides is told once."""
    sides = figures(left), figures(right)
    found = {key: (sides[0].get(key, 0), sides[1].get(key, 0)) for key in {*sides[0], *sides[1]}}
    return {(name, of): values for (name, of), values in found.items() if of == "self" or values != found.get((name, "self"))}


def instances_of(profiles, start_ms, end_ms, label):
    """{instance: its profiles} of a range."""
    found = {}
    for profile in in_range(profiles, start_ms, end_ms):
        found.setdefault(profile.labels.get(label, ""), []).append(profile)
    return found
