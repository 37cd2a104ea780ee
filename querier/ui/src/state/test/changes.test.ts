import { describe, expect, test } from "vitest";

import type { Change, Comparison, State } from "../../api/comparison";
import {
  basisOf,
  byFunction,
  countsOf,
  extremes,
  formatShown,
  intervalText,
  noteOf,
  parseShown,
  percent,
  quietNames,
  rowsOf,
  withMeans,
} from "../changes";

function change(name: string, state: State, a: number, b: number, more: Partial<Change> = {}): Change {
  const figure = (value: number) => ({ value, share: value / 100, per_second: value / 10, instances: 8 });
  return { name, of: "self", state, a: figure(a), b: figure(b), change: a > 0 && b > 0 ? b / a - 1 : null, ...more };
}

const CHANGES = [
  change("grew", "up", 10, 20, { interval: [0.8, 1.2] }),
  change("shrank", "down", 20, 5, { interval: [-0.8, -0.7] }),
  change("born", "new", 0, 30),
  change("noise", "not_significant", 40, 45, { interval: [-0.05, 0.31], detectable: 0.4 }),
  change("caller", "up", 30, 50, { of: "total", folded_into: 2 }),
  change("old", "moved", 10, 2, { of: "total", moved: { from: ["old"], to: ["young"] } }),
  change("tiny", "too_little_data", 1, 0),
];

describe("what a comparison found", () => {
  test("states that are shown survive the address", () => {
    expect([...parseShown("")]).toEqual(["up", "down", "new", "gone", "moved"]);
    for (const text of ["", "up", "not_significant,folded", "up,down,new,gone,moved,not_significant"])
      expect(formatShown(parseShown(text))).toBe(text);
    expect(formatShown(parseShown("up,nonsense"))).toBe("up");
  });

  test("what is explained by functions below it is counted apart", () => {
    expect(Object.fromEntries(countsOf(CHANGES))).toEqual({
      up: 1,
      down: 1,
      new: 1,
      not_significant: 1,
      folded: 1,
      moved: 1,
      too_little_data: 1,
    });
  });

  test("functions without a finding stay grey, and those that were not tested", () => {
    expect(quietNames(["grew", "noise", "caller", "unknown", "tiny", "old"], byFunction(CHANGES))).toEqual(
      new Set(["noise", "unknown", "tiny"]),
    );
    const both = byFunction([change("f", "not_significant", 1, 2), change("f", "up", 1, 2, { of: "total" })]);
    expect(quietNames(["f"], both).size).toBe(0);
  });

  test("the greatest changes are findings of functions themselves", () => {
    const { up, down } = extremes(CHANGES, "share");
    expect([up?.name, down?.name]).toEqual(["born", "shrank"]);
    expect(extremes([CHANGES[3]!, CHANGES[5]!], "rate")).toEqual({ up: null, down: null });
  });

  test("rows are filtered and in order", () => {
    const rows = (more: Partial<Parameters<typeof rowsOf>[0]>): string[] =>
      rowsOf({ changes: CHANGES, shown: parseShown(""), by: "share", search: "", sort: "change", ascending: false, ...more }).map(
        (row) => row.name,
      );
    expect(rows({})).toEqual(["born", "shrank", "grew", "old"]);
    expect(rows({ ascending: true })).toEqual(["old", "grew", "shrank", "born"]);
    expect(rows({ sort: "relative" })).toEqual(["born", "grew", "old", "shrank"]);
    expect(rows({ sort: "name", ascending: true })).toEqual(["born", "grew", "old", "shrank"]);
    expect(rows({ search: "^gr|old" })).toEqual(["grew", "old"]);
    expect(rows({ shown: parseShown("folded,not_significant") })).toEqual(["caller", "noise"]);
  });

  test("of what there is at a moment, figures are means", () => {
    const made = withMeans({ changes: CHANGES } as unknown as Comparison, [1000, 3000]);
    expect(made.changes[0]!.a.per_second).toBe(100);
    expect(made.changes[0]!.b.per_second).toBe(600);
    expect(made.changes[0]!.b.share).toBe(0.2);
  });

  test("says it in words", () => {
    expect(percent(0.031)).toBe("+3.10%");
    expect(percent(-0.5)).toBe("−50.0%");
    expect(percent(12)).toBe("+13×");
    expect(percent(0, false)).toBe("0%");
    expect(percent(0.67, false)).toBe("67.0%");
    expect(intervalText(CHANGES[0]!)).toBe("+80.0% … +120%");
    expect(noteOf(CHANGES[3]!)).toBe("Self of the function: not significant (−5.00% … +31.0%; would be seen from 40.0%)");
    expect(noteOf(CHANGES[2]!)).toBe("Self of the function: new, 30.00%");
    expect(noteOf(CHANGES[5]!)).toContain("moved from old to young");
  });

  test("says what varies", () => {
    const side = { from_ms: 0, until_ms: 1, total: 1, covered_seconds: 1, instances: 9, blocks_of_time: 12 };
    const basis = (replicates: Comparison["replicates"]): string =>
      basisOf({ a: side, b: side, replicates, same_instances: 7, instance: "pod" } as Comparison);
    expect(basis("same instances")).toBe("7 values of pod that both sides have");
    expect(basis("instances")).toBe("9 and 9 values of pod");
    expect(basis("over time")).toBe("12 and 12 pieces of time");
    expect(basis("weak")).toBe("counts of samples alone");
  });
});
