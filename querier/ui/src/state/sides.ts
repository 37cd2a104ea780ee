/* The two sides of a comparison: what each selects, and what it is if the address does not say. */

import type { Span } from "../api/queries";
import { isVersionLabel } from "./deploys";
import { DAY_MS, HOUR_MS, resolve } from "./range";
import { formatQuery, parseQuery } from "./selector";
import { type Params, type Patch, parseSel } from "./url";

export interface Side {
  query: string;
  span: Span;
}

export interface Sides {
  left: Side; // the baseline
  right: Side;
}

export type SideName = keyof Sides;

/*
 * Without ranges of their own, the sides are the halves of the page's range, of which both are in sight; or the selected part of it
 * and as much before that. Sides of different queries, such as two versions, are of the same time: all of it, or the selected part.
 */
export function sidesOf(params: Params, nowMs: number, utc: boolean): Sides {
  const ranged = (from: string, until: string, otherwise: () => [number, number]): Span => {
    const [start, end] = from === "" || until === "" ? otherwise() : resolve({ from, until }, nowMs, utc);
    return { from: start, until: end };
  };
  const leftQuery = params.leftQuery || params.query || params.rightQuery;
  const rightQuery = params.rightQuery || params.query || params.leftQuery;
  const apart = leftQuery !== rightQuery;
  const right = ranged(params.rightFrom, params.rightUntil, () => {
    const [from, until] = resolve(params, nowMs, utc);
    return parseSel(params.sel) ?? [apart ? from : Math.round((from + until) / 2), until];
  });
  const left = ranged(params.leftFrom, params.leftUntil, () =>
    apart ? [right.from, right.until] : [right.from - (right.until - right.from), right.from],
  );
  return { left: { query: leftQuery, span: left }, right: { query: rightQuery, span: right } };
}

/* One side as parameters. */
export function sidePatch(name: SideName, side: Side): Patch {
  const [from, until] = [String(Math.round(side.span.from)), String(Math.round(side.span.until))];
  return name === "left"
    ? { leftQuery: side.query, leftFrom: from, leftUntil: until }
    : { rightQuery: side.query, rightFrom: from, rightUntil: until };
}

/*
 * One side as it was changed; the other one stays where it is, also if the address did not say so before. together: the other one
 * has the same time.
 */
export function changed(sides: Sides, name: SideName, side: Side, together: boolean): Patch {
  const other: SideName = name === "left" ? "right" : "left";
  return { ...sidePatch(other, together ? { ...sides[other], span: side.span } : sides[other]), ...sidePatch(name, side) };
}

export function swapped({ left, right }: Sides): Patch {
  return { ...sidePatch("left", right), ...sidePatch("right", left) };
}

/* What a timeline of a side shows: the page's range, or, if the side is elsewhere, as much around it. */
export function domainOf(side: Span, outer: Span): Span {
  if (side.from >= outer.from && side.until <= outer.until) return outer;
  const length = Math.max(outer.until - outer.from, (side.until - side.from) * 1.5);
  const middle = (side.from + side.until) / 2;
  return { from: Math.round(middle - length / 2), until: Math.round(middle + length / 2) };
}

export interface Preset {
  key: string;
  text: string;
  left: Span;
}

/* Baselines before a range. What would overlap with it is no baseline. */
export function presetsOf(right: Span): Preset[] {
  const length = right.until - right.from;
  const before = (key: string, text: string, by: number): Preset => ({
    key,
    text,
    left: { from: right.from - by, until: right.until - by },
  });
  return [
    before("period", "just before", length),
    before("hour", "1 h ago", HOUR_MS),
    before("day", "1 day ago", DAY_MS),
    before("week", "1 week ago", 7 * DAY_MS),
  ].filter((preset) => preset.left.until <= right.from);
}

/* Both sides of a deploy: from then to the end of the comparison, and as long before. Filters of a version go, since they are one side's only. */
export function aroundDeploy({ left, right }: Sides, time: number): Patch {
  const until = right.span.until > time ? right.span.until : time + (right.span.until - right.span.from);
  return {
    ...sidePatch("left", { query: withoutVersion(left.query), span: { from: time - (until - time), until: time } }),
    ...sidePatch("right", { query: withoutVersion(right.query), span: { from: time, until } }),
  };
}

function withoutVersion(text: string): string {
  const query = parseQuery(text);
  return formatQuery({ ...query, matchers: query.matchers.filter((matcher) => !isVersionLabel(matcher.name)) });
}
