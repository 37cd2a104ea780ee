/* What a comparison found, as words: states of functions, what is shown of them, and what could not have been seen. */

import type { Change, Comparison, Figure, State } from "../api/comparison";
import { patternOf } from "../flame/search";
import { formatShare } from "../flame/units";

export const STATES: readonly { key: State; text: string; mark: string; what: string }[] = [
  { key: "up", text: "up", mark: "▲", what: "More than before, and not by chance" },
  { key: "down", text: "down", mark: "▼", what: "Less than before, and not by chance" },
  { key: "new", text: "new", mark: "+", what: "Only the comparison has it" },
  { key: "gone", text: "gone", mark: "−", what: "Only the baseline has it" },
  {
    key: "moved",
    text: "moved",
    mark: "⇄",
    what: "What one function lost, another one of the same caller or package has: as of a renamed function",
  },
  { key: "not_significant", text: "not significant", mark: "≈", what: "The difference is no larger than what varies anyway" },
  { key: "too_little_data", text: "too little data", mark: "?", what: "Fewer than 50 samples on both sides" },
];

export type Shown = State | "folded";
const DEFAULT: readonly Shown[] = ["up", "down", "new", "gone", "moved"];
const ALL: readonly Shown[] = [...STATES.map((state) => state.key), "folded"];

/* Rows of functions whose change is that of functions below them are "folded", whatever their state is. */
export function kindOf(change: Change): Shown {
  return change.folded_into === undefined ? change.state : "folded";
}

export function parseShown(text: string): Set<Shown> {
  const found = text.split(",").filter((one): one is Shown => (ALL as readonly string[]).includes(one));
  return new Set(found.length > 0 ? found : DEFAULT);
}

export function formatShown(shown: ReadonlySet<Shown>): string {
  const text = ALL.filter((one) => shown.has(one)).join(",");
  return text === DEFAULT.join(",") ? "" : text;
}

export function countsOf(changes: readonly Change[]): Map<Shown, number> {
  const counts = new Map<Shown, number>();
  for (const change of changes) counts.set(kindOf(change), (counts.get(kindOf(change)) ?? 0) + 1);
  return counts;
}

export function isSignificant(change: Change): boolean {
  return change.state !== "not_significant" && change.state !== "too_little_data";
}

export interface ByFunction {
  self?: Change;
  total?: Change;
}

export function byFunction(changes: readonly Change[]): Map<string, ByFunction> {
  const found = new Map<string, ByFunction>();
  for (const change of changes) {
    let row = found.get(change.name);
    if (row === undefined) found.set(change.name, (row = {}));
    row[change.of] = change;
  }
  return found;
}

/* Functions that stay grey in the flame graph: those that did not change, and those too small to be tested. */
export function quietNames(names: readonly string[], changes: ReadonlyMap<string, ByFunction>): Set<string> {
  return new Set(
    names.filter((name) => {
      const row = changes.get(name);
      return (
        row === undefined || !((row.self !== undefined && isSignificant(row.self)) || (row.total !== undefined && isSignificant(row.total)))
      );
    }),
  );
}

/* "+3.1 %": of a part of one, with as many digits as say something. */
export function percent(part: number, sign = true): string {
  const value = part * 100;
  const size = Math.abs(value);
  if (size >= 1000) return `${sign && value > 0 ? "+" : ""}${Math.round(part + 1).toLocaleString("en-GB")}×`;
  const text = size.toFixed(size >= 99.5 || size === 0 ? 0 : size >= 9.95 ? 1 : 2);
  return `${value < 0 ? "−" : sign && +text !== 0 ? "+" : ""}${text}%`;
}

export function intervalText(change: Pick<Change, "interval">): string {
  return change.interval === undefined ? "" : `${percent(change.interval[0])} … ${percent(change.interval[1])}`;
}

/* What the tooltip of a bar says about its function. */
export function noteOf(change: Change): string {
  const figure = change.of === "self" ? "Self" : "Total";
  switch (change.state) {
    case "not_significant":
      return `${figure} of the function: not significant (${intervalText(change)}${change.detectable === undefined ? "" : `; would be seen from ${percent(change.detectable, false)}`})`;
    case "too_little_data":
      return `${figure} of the function: too little data`;
    case "new":
    case "gone":
      return `${figure} of the function: ${change.state}, ${formatShare(change.state === "new" ? change.b.share : change.a.share)}`;
    case "moved":
      return `${figure} of the function: moved from ${change.moved?.from.join(", ") ?? "?"} to ${change.moved?.to.join(", ") ?? "?"}`;
    default:
      return `${figure} of the function: ${percent(change.change ?? 0)} (${intervalText(change)})`;
  }
}

/* What varies: why the numbers can be believed, or not. */
export function basisOf(comparison: Comparison): string {
  const { a, b, instance, same_instances: same } = comparison;
  const called = instance ?? "instances";
  switch (comparison.replicates) {
    case "same instances":
      return `${same} values of ${called} that both sides have`;
    case "instances":
      return `${a.instances} and ${b.instances} values of ${called}`;
    case "over time":
      return `${a.blocks_of_time ?? 0} and ${b.blocks_of_time ?? 0} pieces of time`;
    case "weak":
      return "counts of samples alone";
  }
}

/* The greatest significant changes of self values. */
export function extremes(changes: readonly Change[], by: "share" | "rate"): { up: Change | null; down: Change | null } {
  const amount = (change: Change): number => (by === "share" ? change.b.share - change.a.share : change.b.per_second - change.a.per_second);
  const out: { up: Change | null; down: Change | null } = { up: null, down: null };
  for (const change of changes) {
    if (change.of !== "self" || !isSignificant(change) || change.state === "moved") continue;
    const size = amount(change);
    if (size > 0 && (out.up === null || size > amount(out.up))) out.up = change;
    if (size < 0 && (out.down === null || size < amount(out.down))) out.down = change;
  }
  return out;
}

export type ChangeSort = "change" | "relative" | "left" | "right" | "name";

export interface Rows {
  changes: readonly Change[];
  shown: ReadonlySet<Shown>;
  by: "share" | "rate";
  search: string;
  sort: ChangeSort;
  ascending: boolean;
}

/* The figure that is compared. */
export function figure(change: Change, side: "a" | "b", by: "share" | "rate"): number {
  return by === "share" ? change[side].share : change[side].per_second;
}

/* How far the change goes, apart from its direction: what is new or gone goes furthest. */
function relative(change: Change): number {
  return change.change ?? (change.state === "gone" || change.b.value < change.a.value ? -1 : Infinity);
}

function ordered(rows: Change[], { by, sort, ascending }: Rows): Change[] {
  const amount = (row: Change): number => figure(row, "b", by) - figure(row, "a", by);
  const key: Record<Exclude<ChangeSort, "name">, (row: Change) => number> = {
    change: (row) => Math.abs(amount(row)),
    relative: (row) => Math.abs(relative(row)),
    left: (row) => figure(row, "a", by),
    right: (row) => figure(row, "b", by),
  };
  const sign = ascending ? 1 : -1;
  const byName = (a: Change, b: Change): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.of < b.of ? -1 : 1);
  if (sort === "name") return rows.sort((a, b) => sign * byName(a, b));
  return rows.sort((a, b) => {
    const [x, y] = [key[sort](a), key[sort](b)];
    return (x === y ? 0 : sign * (x < y ? -1 : 1)) || byName(a, b);
  });
}

/* The rows of a table, in order. */
export function rowsOf(rows: Rows): Change[] {
  const pattern = rows.search === "" ? null : patternOf(rows.search);
  return ordered(
    rows.changes.filter((row) => rows.shown.has(kindOf(row)) && (pattern === null || pattern.test(row.name))),
    rows,
  );
}

/*
 * Of a type that says what there is at a moment, such as memory in use, values per second say nothing: a profile's mean does. The
 * figures of such a comparison with means of its sides in the place of values per second.
 */
export function withMeans(comparison: Comparison, means: readonly [number, number]): Comparison {
  const mean = (side: 0 | 1, of: Figure): Figure => ({ ...of, per_second: of.share * means[side] });
  return { ...comparison, changes: comparison.changes.map((row) => ({ ...row, a: mean(0, row.a), b: mean(1, row.b) })) };
}
